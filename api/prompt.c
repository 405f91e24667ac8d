/* prompt.c - joins prompt and text, and makes offsets and words those of the text. */
#include "api/prompt.h"

#include "model/base/utf8.h"

#include <stdlib.h>
#include <string.h>

/* Returns prompt and text side by side, owned by the caller; bytes NULL: no memory. */
static hs_text join(const hs_text *prompt, const hs_text *text)
{
    const size_t n_bytes = prompt->n_bytes + text->n_bytes;
    char *bytes = malloc(n_bytes);
    if (bytes) {
        memcpy(bytes, prompt->bytes, prompt->n_bytes);
        memcpy(bytes + prompt->n_bytes, text->bytes, text->n_bytes);
    }
    return (hs_text){bytes, n_bytes};
}

/* Takes the first n_points code points and the words in them off the offsets and words of the first text. */
static void shift(hs_encoding *e, uint32_t n_points)
{
    int32_t first_word = -1;
    for (size_t i = 0; i < e->n_tokens; i++) {
        if (e->texts[i] || e->special[i])
            continue;
        const bool is_prompt = e->ends[i] <= n_points;
        if (!is_prompt && first_word < 0)
            first_word = e->word_ids[i];
        e->word_ids[i] = is_prompt ? -1 : e->word_ids[i] - first_word;
        e->starts[i] = e->starts[i] > n_points ? e->starts[i] - n_points : 0;
        e->ends[i] = is_prompt ? 0 : e->ends[i] - n_points;
    }
}

static hs_status count(const hs_tokenizer *tokenizer, const hs_text *prompt, const hs_encode_options *options,
                       size_t *ret_n_prompt, hs_error *err)
{
    hs_encoding alone = {0};
    const hs_status st = hs_tokenizer_encode(tokenizer, prompt, NULL, options, &alone, err);
    if (!st)
        *ret_n_prompt = alone.n_tokens - (alone.n_tokens > 0 && alone.special[alone.n_tokens - 1]);
    hs_encoding_finish(&alone);
    return st;
}

hs_status hs_prompt_encode(const hs_tokenizer *tokenizer, const hs_prompt *prompt, const hs_text *text,
                           const hs_text *pair, const hs_encode_options *options, hs_encoding *ret_encoding,
                           size_t *ret_n_prompt, hs_error *err)
{
    *ret_n_prompt = 0;
    if (!prompt || !prompt->text[0])
        return hs_tokenizer_encode(tokenizer, text, pair, options, ret_encoding, err);
    const hs_text before = {prompt->text, strlen(prompt->text)}, whole = join(&before, text);
    if (!whole.bytes)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the prompt");
    hs_status st = count(tokenizer, &before, options, ret_n_prompt, err);
    if (!st)
        st = hs_tokenizer_encode(tokenizer, &whole, pair, options, ret_encoding, err);
    if (!st)
        shift(ret_encoding, (uint32_t)hs_utf8_count(before.bytes, before.n_bytes));
    free((void *)whole.bytes);
    return st;
}
