/* pieces.h - what a model makes of words: ids with their words and offsets. */
#pragma once

#include "model/tokenizer/aligned_text.h"

typedef struct hs__piece {
    int32_t id, word;
    hs__range source; /* code points of the text */
} hs__piece;

/* Pieces of one text, stored as far as an answer can show them. Zeroed but for n_kept, it is ready. */
typedef struct hs__pieces {
    hs__piece *items; /* [min(n, n_kept)] */
    size_t n;         /* all that were counted */
    size_t n_kept;    /* store no more than these */
    size_t capacity;
    int32_t word; /* the one that pieces are put into */
} hs__pieces;

/* Appends a piece to the current word; false when memory is short. */
bool hs__pieces_put(hs__pieces *pieces, int32_t id, hs__range source);
