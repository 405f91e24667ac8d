/* fuzz_tokenizer_json.c - the files of a tokenizer are refused, or give one that works: its special ids and
 * tokens exist, and every token is found by its id.
 *
 * The input holds these files with a byte 0xFF between them, in the order of FILES below. An empty file is
 * absent. A sentencepiece model may contain any byte; it is the last and goes to the end. It stands for
 * source.spm, target.spm and tokenizer.model, too. */
#include "model/tokenizer/tokenizer_internal.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

#define VOCAB_SIZE 64

static void check(const hs_tokenizer *tokenizer)
{
    const hs_special_ids *special = hs_tokenizer_special_ids(tokenizer);
    require(special->cls < VOCAB_SIZE && special->sep < VOCAB_SIZE);
    require(hs_tokenizer_vocab_size(tokenizer) == VOCAB_SIZE);
    for (int32_t id = 0; id < VOCAB_SIZE; id++) {
        const char *token = hs_tokenizer_token(tokenizer, id);
        if (special->unk < 0 && !token[0])
            continue; /* a hole, and nothing to show for it */
        const int32_t found = hs_tokenizer_id(tokenizer, token, strlen(token));
        /* A hole looks like the unknown token, and vocab.txt may say a token twice. */
        require(found >= 0 && found < VOCAB_SIZE);
        require(strcmp(hs_tokenizer_token(tokenizer, found), token) == 0);
    }
    static const char sample[] = "The [MASK] caf\xc3\xa9 \xe4\xb8\xad x\xe3\x80\xae\xcc\x81 [SEP]";
    const hs_text text = {sample, sizeof sample - 1};
    const hs_encode_options options = {.tokens_max = SIZE_MAX};
    hs_encoding encoding = {0};
    require(!hs_tokenizer_encode(tokenizer, &text, &text, &options, &encoding, NULL));
    require(!encoding.truncated);
    for (size_t i = 0; i < encoding.n_tokens; i++)
        require(encoding.ids[i] >= 0 && encoding.ids[i] < VOCAB_SIZE);
    hs_encoding_finish(&encoding);
}

#define FILES 9

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    hs_tokenizer_files files = {0};
    hs_bytes *const list[FILES] = {
        &files.vocab_txt,    &files.tokenizer_json, &files.tokenizer_config,   &files.config,
        &files.vocab_json,   &files.merges_txt,     &files.special_tokens_map, &files.added_tokens,
        &files.sentencepiece};
    const uint8_t *end = data + size;
    for (size_t i = 0; i < FILES && data < end; i++) {
        const uint8_t *stop = i + 1 < FILES ? memchr(data, 0xFF, (size_t)(end - data)) : NULL;
        const size_t n = (size_t)((stop ? stop : end) - data);
        if (n)
            *list[i] = (hs_bytes){data, n};
        data += stop ? n + 1 : n;
    }
    files.source_sentencepiece = files.target_sentencepiece = files.tokenizer_model = files.sentencepiece;
    hs_tokenizer *tokenizer = NULL;
    hs_error err = {0};
    const hs_status st = hs__tokenizer_create(&files, VOCAB_SIZE, &tokenizer, &err);
    require(st == err.status && (st == HS_OK) == (tokenizer != NULL));
    require(st == HS_OK || (st == HS_BAD_MODEL && err.text[0] != '\0'));
    if (tokenizer)
        check(tokenizer);
    hs__tokenizer_destroy(tokenizer);
    return 0;
}
