/* aligned_text.c - grows the arrays of an aligned text. They are reused for the next stretch of the text, so
 * a text costs few allocations. */
#include "model/tokenizer/aligned_text.h"

#include <stdlib.h>

void hs__aligned_text_finish(hs__aligned_text *text)
{
    free(text->bytes);
    free(text->sources);
    *text = (hs__aligned_text){0};
}

bool hs__aligned_text_reserve(hs__aligned_text *text, size_t n_more)
{
    if (text->capacity - text->n_bytes >= n_more)
        return true;
    /* n_more may be too high by one character, so hs__aligned_text_fits checks the limit again at the end */
    if (text->bytes_max > 0 && text->n_bytes + n_more > text->bytes_max + 4) {
        text->too_long = true;
        return false;
    }
    const size_t capacity = 2 * text->capacity + n_more + 64;
    unsigned char *bytes = realloc(text->bytes, capacity);
    if (bytes)
        text->bytes = bytes;
    hs__range *sources = realloc(text->sources, capacity * sizeof *sources);
    if (sources)
        text->sources = sources;
    if (!bytes || !sources)
        return false;
    text->capacity = capacity;
    return true;
}

bool hs__aligned_text_fits(hs__aligned_text *text)
{
    text->too_long |= text->bytes_max > 0 && text->n_bytes > text->bytes_max;
    return !text->too_long;
}

bool hs__spans_grow(hs__spans *spans)
{
    const size_t capacity = 2 * spans->capacity + 64;
    hs__span *items = realloc(spans->items, capacity * sizeof *items);
    if (!items)
        return false;
    spans->items = items;
    spans->capacity = capacity;
    return true;
}
