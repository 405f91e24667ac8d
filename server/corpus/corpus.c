/* corpus.c - the texts of a pass, and the part of a text that its tokens come from. */
#include "server/corpus/corpus.h"

#include "model/base/utf8.h"

#include <stdlib.h>
#include <string.h>

/* Limits on the text of an example, for very long words: otherwise the window bounds it. Long texts have the
 * second one, for each token. */
enum { REACHED_BYTES = 16384, REACHED_TOKEN_BYTES = 16 };

size_t hs__corpus_together(const hs__corpus_job *job)
{
    return hs_corpus_batch_max(job->settings.fields.max_tokens, job->settings.distances);
}

/* The code points of a text up to its last token. */
typedef struct span {
    uint32_t first, end;
} span;

/* which: 1 for the second text of a pair. is_inside: begin at the first token. */
static span span_of(const hs_encoding *encoding, uint8_t which, bool is_inside)
{
    span s = {UINT32_MAX, 0};
    for (size_t i = 0; i < encoding->n_tokens; i++) {
        if (encoding->special[i] || encoding->texts[i] != which)
            continue;
        s.first = encoding->starts[i] < s.first ? encoding->starts[i] : s.first;
        s.end = encoding->ends[i] > s.end ? encoding->ends[i] : s.end;
    }
    s.first = is_inside && s.first < s.end ? s.first : 0;
    return s;
}

/* Copies a span of a text of so many tokens. Its bytes are NULL if memory is short. */
static hs_text span_copy(const hs_text *body, size_t n_tokens, span s)
{
    const size_t n_before = hs_utf8_offset(body->bytes, body->n_bytes, s.first);
    const char *from = body->bytes + n_before;
    const size_t n_long = n_tokens * REACHED_TOKEN_BYTES, n_left = body->n_bytes - n_before;
    const size_t n_most = n_long > REACHED_BYTES ? n_long : REACHED_BYTES;
    const size_t n =
        hs_utf8_offset(from, hs_utf8_whole(from, n_left < n_most ? n_left : n_most), s.end - s.first);
    char *copy = malloc(n + 1);
    if (copy)
        memcpy(copy, from, n);
    return (hs_text){copy, n};
}

hs_status hs__text_reach(hs__text *text, bool cuts_left, hs_error *err)
{
    const hs__record_text *body = &text->body;
    if (text->reached.bytes)
        return HS_OK;
    const hs_encoding *own = &text->encoding, *source = text->source.n_tokens ? &text->source : NULL;
    const hs_encoding *of_first = source ? source : own;
    const span first = span_of(of_first, 0, text->window || (cuts_left && of_first->truncated)),
               second = span_of(own, source ? 0 : 1, text->window || (cuts_left && own->truncated));
    text->reached = span_copy(&body->text, of_first->n_tokens, first);
    text->reached_first = first.first;
    if (body->pair.bytes) {
        text->reached_pair = span_copy(&body->pair, text->encoding.n_tokens, second);
        text->reached_pair_first = second.first;
    }
    return text->reached.bytes && (text->reached_pair.bytes || !body->pair.bytes)
               ? HS_OK
               : hs_fail(err, HS_NO_MEMORY, "no memory for an example");
}
