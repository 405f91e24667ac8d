/* aligned_text.h - text in the pipeline, with the source of every byte in the given text.
 *
 * Normalizers replace, drop and insert characters, and pre-tokenizers cut words, but the offsets of tokens
 * refer to the given text. So each byte carries the range of code points that it stands for. A token reaches
 * from the start of its first byte to the end of its last one. */
#pragma once

#include "model/base/utf8.h"

#include <stdbool.h>

/* A half-open range of code points of the given text. */
typedef struct hs__range {
    uint32_t start, end;
} hs__range;

/* Valid UTF-8 with the source of each byte. A zeroed struct is an empty text. */
typedef struct hs__aligned_text {
    unsigned char *bytes; /* [n_bytes] */
    hs__range *sources;   /* [n_bytes] */
    size_t n_bytes, capacity;
    size_t bytes_max; /* maximum of n_bytes; 0: no limit */
    bool too_long;    /* growing failed because of bytes_max, not for lack of memory */
} hs__aligned_text;

enum { HS__TEXT_GROWTH_MIN = 8 };

/* Returns the most bytes that the normalizers and pre-tokenizers together may make of n_bytes of text. Real
 * ones make a character up to eleven times as long (NFKD of U+FDFA) and a text two or three times. Hostile
 * ones multiply with every part. */
static inline size_t hs__aligned_text_limit(size_t n_bytes)
{
    const size_t limit_short = 64 * n_bytes + 4, limit_long = HS__TEXT_GROWTH_MIN * n_bytes + (1 << 16);
    return limit_short < limit_long ? limit_short : limit_long;
}

void hs__aligned_text_finish(hs__aligned_text *text);

/* Reserves capacity for n_more bytes. Returns false if memory is short or the limit is exceeded. */
bool hs__aligned_text_reserve(hs__aligned_text *text, size_t n_more);

/* Returns true if the text is within its limit; otherwise sets too_long. */
bool hs__aligned_text_fits(hs__aligned_text *text);

/* Appends a character. Returns false if memory is short. */
static inline bool hs__aligned_text_put(hs__aligned_text *text, uint32_t code_point, hs__range source)
{
    if (text->capacity - text->n_bytes < 4 && !hs__aligned_text_reserve(text, 4))
        return false;
    const size_t length = hs_utf8_put(code_point, text->bytes + text->n_bytes);
    for (size_t i = 0; i < length; i++)
        text->sources[text->n_bytes++] = source;
    return true;
}

/* The input of a normalizer: the given text from code point `first` on, or the output of another
 * normalizer. */
typedef struct hs__text_view {
    const unsigned char *bytes;
    size_t n_bytes;
    const hs__range *sources; /* [n_bytes]; NULL: the given text, where each character is its own source */
    uint32_t first;
} hs__text_view;

/* Returns the source of the character at a byte. `index` is its code point number, used if the view is of the
 * given text. */
static inline hs__range hs__text_view_source(const hs__text_view *view, const unsigned char *at,
                                             uint32_t index)
{
    return view->sources ? view->sources[at - view->bytes] : (hs__range){index, index + 1};
}

/* Passes each character of the view, with its source, to `put`, which appends to ret_text. Returns false as
 * soon as `put` does. */
static inline __attribute__((always_inline)) bool
hs__text_view_map(const hs__text_view *view,
                  bool (*put)(hs__aligned_text *text, uint32_t code_point, hs__range source),
                  hs__aligned_text *ret_text)
{
    const unsigned char *at = view->bytes;
    bool ok = true;
    for (uint32_t index = view->first; at < view->bytes + view->n_bytes && ok; index++) {
        const hs__range source = hs__text_view_source(view, at, index);
        ok = put(ret_text, hs_utf8_next(&at), source);
    }
    return ok;
}

/* A half-open range of bytes of an aligned text. */
typedef struct hs__span {
    size_t start, end;
} hs__span;

typedef struct hs__spans {
    hs__span *items; /* [n] */
    size_t n, capacity;
} hs__spans;

/* Reserves capacity for one more span. Returns false if memory is short. */
bool hs__spans_grow(hs__spans *spans);

/* Appends a span unless it is empty. Returns false if memory is short. */
static inline bool hs__spans_put(hs__spans *spans, size_t start, size_t end)
{
    if (start == end)
        return true;
    if (spans->n == spans->capacity && !hs__spans_grow(spans))
        return false;
    spans->items[spans->n++] = (hs__span){start, end};
    return true;
}
