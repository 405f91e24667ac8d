/* words.c - writes and reads integers as base64. */
#include "server/corpus/counters/words.h"

#include <nettle/base64.h>
#include <stdlib.h>
#include <string.h>

json_t *hs__words_save(const int64_t *words, size_t n)
{
    const size_t n_text = BASE64_ENCODE_RAW_LENGTH(n * sizeof *words);
    char *text = malloc(n_text + 1);
    if (!text)
        return NULL;
    base64_encode_raw(text, n * sizeof *words, (const uint8_t *)words);
    json_t *saved = json_stringn_nocheck(text, n_text);
    free(text);
    return saved;
}

bool hs__words_load(const json_t *saved, int64_t *ret_words, size_t n)
{
    const size_t n_text = json_string_length(saved);
    struct base64_decode_ctx decoder;
    if (!json_is_string(saved) || n_text != BASE64_ENCODE_RAW_LENGTH(n * sizeof *ret_words))
        return false;
    size_t n_bytes = BASE64_DECODE_LENGTH(n_text);
    uint8_t *bytes = malloc(n_bytes + 1);
    base64_decode_init(&decoder);
    const bool sound = bytes &&
                       base64_decode_update(&decoder, &n_bytes, bytes, n_text, json_string_value(saved)) &&
                       base64_decode_final(&decoder) && n_bytes == n * sizeof *ret_words;
    if (sound)
        memcpy(ret_words, bytes, n_bytes);
    free(bytes);
    return sound;
}
