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

/* Returns the start of the first token of a text that lost its beginning, in code points; else 0. */
static uint32_t point_first(const hs_encoding *encoding, bool cuts_left)
{
    uint32_t first = UINT32_MAX;
    for (size_t i = 0; cuts_left && encoding->truncated && i < encoding->n_tokens; i++)
        if (!encoding->special[i] && encoding->starts[i] < first)
            first = encoding->starts[i];
    return first == UINT32_MAX ? 0 : first;
}

hs_status hs__text_reach(hs__text *text, bool cuts_left, hs_error *err)
{
    const hs_text *body = &text->body.text;
    const hs_encoding *encoding = &text->encoding;
    uint32_t n_points = 0;
    if (text->reached)
        return HS_OK;
    for (size_t i = 0; i < encoding->n_tokens; i++)
        n_points = encoding->ends[i] > n_points ? encoding->ends[i] : n_points;
    text->reached_first = point_first(encoding, cuts_left);
    const size_t n_before = hs_utf8_offset(body->bytes, body->n_bytes, text->reached_first);
    const char *from = body->bytes + n_before;
    const size_t n_left = body->n_bytes - n_before, n_most = n_left < REACHED_BYTES ? n_left : REACHED_BYTES;
    const size_t n = hs_utf8_whole(from, strnlen(from, n_most)); /* or to its first NUL */
    text->reached = strndup(from, hs_utf8_offset(from, n, n_points - text->reached_first));
    return text->reached ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory for an example");
}
