/* aligned_text.h - text on its way through the pipeline: every byte knows where it came from.
 *
 * Normalizers replace, drop and insert characters, pre-tokenizers cut; a token's offsets are still those of
 * the text that was given. So each byte carries the characters (code points) of that text that it stands for,
 * and a token reaches from its first byte's start to its last byte's end. */
#pragma once

#include "model/utf8.h"

/* Half-open, in code points of the text that was given. */
typedef struct hs__range {
    uint32_t start, end;
} hs__range;

/* Valid UTF-8. Zeroed is empty and ready. */
typedef struct hs__aligned_text {
    unsigned char *bytes; /* [n_bytes] */
    hs__range *sources;   /* [n_bytes] */
    size_t n_bytes, capacity;
    size_t bytes_max; /* as far as it may grow; 0: no limit */
} hs__aligned_text;

void hs__aligned_text_finish(hs__aligned_text *text);

/* Room for n_more bytes behind those that are there; false when memory is short or they are not allowed. */
bool hs__aligned_text_reserve(hs__aligned_text *text, size_t n_more);

/* Appends a character; false when memory is short. */
static inline bool hs__aligned_text_put(hs__aligned_text *text, uint32_t code_point, hs__range source)
{
    if (text->capacity - text->n_bytes < 4 && !hs__aligned_text_reserve(text, 4))
        return false;
    const size_t length = hs_utf8_put(code_point, text->bytes + text->n_bytes);
    for (size_t i = 0; i < length; i++)
        text->sources[text->n_bytes++] = source;
    return true;
}

/* What a normalizer reads: the text that was given, from code point `first` on, or what another normalizer
 * made of it. */
typedef struct hs__text_view {
    const unsigned char *bytes;
    size_t n_bytes;
    const hs__range *sources; /* [n_bytes]; NULL: each character is its own */
    uint32_t first;
} hs__text_view;

/* The source of the character at a byte, which is code point number `index` of the text that was given if the
 * view is of that. */
static inline hs__range hs__text_view_source(const hs__text_view *view, const unsigned char *at,
                                             uint32_t index)
{
    return view->sources ? view->sources[at - view->bytes] : (hs__range){index, index + 1};
}

/* Half-open, in bytes of an aligned text. */
typedef struct hs__span {
    size_t start, end;
} hs__span;

typedef struct hs__spans {
    hs__span *items; /* [n] */
    size_t n, capacity;
} hs__spans;

/* Room for one more span; false when memory is short. */
bool hs__spans_grow(hs__spans *spans);

/* Appends a span unless it is empty; false when memory is short. */
static inline bool hs__spans_put(hs__spans *spans, size_t start, size_t end)
{
    if (start == end)
        return true;
    if (spans->n == spans->capacity && !hs__spans_grow(spans))
        return false;
    spans->items[spans->n++] = (hs__span){start, end};
    return true;
}
