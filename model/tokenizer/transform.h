/* transform.h - tracks the source of characters through a normalizer.
 *
 * This is the oracle's algorithm (NormalizedString::transform). Each new character comes with a change, the
 * difference in the number of characters. With 0 it stands for the character at the cursor, which advances.
 * With -n the cursor advances over n more characters. With 1 the character is additional and stands for the
 * one before the cursor. Sources follow from counting alone, even if that yields a neighbour of the true
 * source. */
#pragma once

#include "model/tokenizer/aligned_text.h"

typedef struct hs__transform {
    const hs__text_view *view;
    hs__aligned_text *text;
    const unsigned char *at; /* the cursor */
    uint32_t index;          /* code points of the given text before the cursor */
    hs__range before;        /* source of the character before the cursor */
    uint32_t code_point;     /* the last character put; its change may be amended until the next one */
    long change;
    bool any, failed;
} hs__transform;

/* Starts a transform that appends to ret_text. */
hs__transform hs__transform_start(const hs__text_view *view, hs__aligned_text *ret_text);
void hs__transform_put(hs__transform *t, uint32_t code_point, long change);
/* Adds to the change of the last character. Has no effect if there is none. */
void hs__transform_amend(hs__transform *t, long change);
/* Appends the last character. Returns false if memory was short at any time. */
bool hs__transform_finish(hs__transform *t);
