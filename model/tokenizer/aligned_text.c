/* aligned_text.c - the two arrays that grow while a text goes through the pipeline. They are used again for
 * the next piece of the text, so a text costs a few allocations, however many pieces it is cut into. */
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
    if (text->bytes_max > 0 && text->n_bytes + n_more > text->bytes_max)
        return false;
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
