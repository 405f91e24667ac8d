/* pieces.c - grows the array of pieces up to n_kept, so a megabyte of text cut to 128 tokens needs little
 * memory. */
#include "model/tokenizer/pieces.h"

#include <stdlib.h>

static bool reserve(hs__pieces *pieces)
{
    if (pieces->n < pieces->capacity)
        return true;
    size_t capacity = pieces->capacity ? 2 * pieces->capacity : 64;
    if (capacity > pieces->n_kept)
        capacity = pieces->n_kept;
    hs__piece *items = realloc(pieces->items, capacity * sizeof *items);
    if (!items)
        return false;
    pieces->items = items;
    pieces->capacity = capacity;
    return true;
}

bool hs__pieces_put(hs__pieces *pieces, int32_t id, hs__range source)
{
    if (pieces->n < pieces->n_kept) {
        if (!reserve(pieces))
            return false;
        pieces->items[pieces->n] = (hs__piece){id, pieces->word, source};
    }
    pieces->n++;
    return true;
}
