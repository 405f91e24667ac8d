/* pieces.h - the pieces that a model cuts words into: ids, words and offsets. */
#pragma once

#include "model/tokenizer/aligned_text.h"

typedef struct hs__piece {
    int32_t id, word;
    hs__range source; /* code points of the text */
} hs__piece;

/* The pieces of one text. Only the first n_kept are stored, because an answer shows no more. A zeroed struct
 * with n_kept set is empty. */
typedef struct hs__pieces {
    hs__piece *items; /* [min(n, n_kept)] */
    size_t n;         /* how many there are, stored or not */
    size_t n_kept;    /* maximum to store */
    size_t capacity;
    int32_t word; /* the number of the current word */
} hs__pieces;

/* Appends a piece to the current word. Returns false if memory is short. */
bool hs__pieces_put(hs__pieces *pieces, int32_t id, hs__range source);
