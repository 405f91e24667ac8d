/* corpus.c - the texts of a pass, and the part of a text that its tokens come from. */
#include "server/corpus/corpus.h"

#include "model/base/utf8.h"

#include <string.h>

/* Limit on the text of an example, for very long words: otherwise the window bounds it. */
#define REACHED_BYTES 16384
/* Token limit of a batched pass. */
#define TOGETHER_TOKENS ((size_t)4096)

size_t hs__corpus_together(const hs__corpus_job *job)
{
    const size_t tokens_max = job->settings.fields.max_tokens;
    if (job->settings.distances)
        return 1;
    const size_t n = tokens_max < TOGETHER_TOKENS ? TOGETHER_TOKENS / tokens_max : 1;
    return n < HS_CORPUS_BATCH ? n : HS_CORPUS_BATCH;
}

hs_status hs__text_reach(hs__text *text, hs_error *err)
{
    const hs_text *body = &text->body.text;
    const hs_encoding *encoding = &text->encoding;
    uint32_t n_points = 0;
    if (text->reached)
        return HS_OK;
    for (size_t i = 0; i < encoding->n_tokens; i++)
        n_points = encoding->ends[i] > n_points ? encoding->ends[i] : n_points;
    const size_t n_most = body->n_bytes < REACHED_BYTES ? body->n_bytes : REACHED_BYTES;
    const size_t n = hs_utf8_whole(body->bytes, strnlen(body->bytes, n_most)); /* or to its first NUL */
    text->reached = strndup(body->bytes, hs_utf8_offset(body->bytes, n, n_points));
    return text->reached ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory for an example");
}
