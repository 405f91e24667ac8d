/* transform.h - offsets through a normalizer that puts characters in others' places.
 *
 * The oracle takes the new text as characters with a change: how many more of them there are than before.
 * With 0 a character stands for the one at the cursor, which moves past it; with -n the cursor moves past n
 * more; with 1 there is one more, which stands for the one that the cursor passed last. What a character
 * stands for thus follows from counting alone, even where that gives a neighbour of the one it came from. */
#pragma once

#include "model/tokenizer/aligned_text.h"

typedef struct hs__transform {
    const hs__text_view *view;
    hs__aligned_text *text;
    const unsigned char *at; /* the cursor */
    uint32_t index;          /* code points before it, of the text that was given */
    hs__range before;        /* what the character that the cursor passed last stands for */
    uint32_t code_point;     /* put last: its change may be amended until the next one comes */
    long change;
    bool any, failed;
} hs__transform;

/* Appends to ret_text. */
hs__transform hs__transform_start(const hs__text_view *view, hs__aligned_text *ret_text);
void hs__transform_put(hs__transform *t, uint32_t code_point, long change);
/* Adds to the change of the character put last; forgotten when there is none. */
void hs__transform_amend(hs__transform *t, long change);
/* False when memory was short. */
bool hs__transform_finish(hs__transform *t);
