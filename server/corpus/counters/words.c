/* words.c - writes and reads integers as base64, and the sums that are made of them. */
#include "server/corpus/counters/words.h"

#include "model/files/json.h"

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
    uint8_t *bytes = hs_json_memory(n_bytes + 1, 1); /* counts a refusal: lack of memory is no damage */
    base64_decode_init(&decoder);
    const bool sound = bytes &&
                       base64_decode_update(&decoder, &n_bytes, bytes, n_text, json_string_value(saved)) &&
                       base64_decode_final(&decoder) && n_bytes == n * sizeof *ret_words;
    if (sound)
        memcpy(ret_words, bytes, n_bytes);
    free(bytes);
    return sound;
}

/* ---- sums ---- */

json_t *hs__sums_save(const hs_sums *s)
{
    json_t *saved = json_object();
    int failed = json_object_set_new(saved, "words", hs__words_save(s->words, s->n_words));
    if (s->blocks)
        failed |=
            json_object_set_new(saved, "shift", json_integer((json_int_t)s->blocks->shift)) |
            json_object_set_new(saved, "blocks",
                                hs__words_save(s->blocks->words, s->blocks->n_max * s->blocks->n_words));
    if (!failed)
        return saved;
    json_decref(saved);
    return NULL;
}

static bool blocks_load(hs_blocks *blocks, const json_t *saved)
{
    const json_t *shift = json_object_get(saved, "shift");
    blocks->shift = (uint64_t)json_integer_value(shift);
    return json_is_integer(shift) && blocks->shift <= HS_BLOCKS_SHIFT_MAX &&
           hs__words_load(json_object_get(saved, "blocks"), blocks->words, blocks->n_max * blocks->n_words);
}

bool hs__sums_load(hs_sums *s, const json_t *saved)
{
    return hs__words_load(json_object_get(saved, "words"), s->words, s->n_words) &&
           (!s->blocks || blocks_load(s->blocks, saved));
}
