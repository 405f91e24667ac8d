/* cutter.h - cuts a word at the matches of a pattern. The five behaviours are those of the oracle's Split. */
#pragma once

#include "model/tokenizer/parts.h"

typedef enum hs__cut_behavior {
    HS__CUT_REMOVED,       /* matches are dropped */
    HS__CUT_ISOLATED,      /* each match is a word */
    HS__CUT_WITH_PREVIOUS, /* a match ends the word before it */
    HS__CUT_WITH_NEXT,     /* a match starts the word after it */
    HS__CUT_CONTIGUOUS,    /* matches side by side are one word */
    HS__CUT_BEHAVIORS
} hs__cut_behavior;

/* Cuts one word, whose stretches come in order and without gaps. */
typedef struct hs__cutter {
    hs__cut_behavior behavior;
    bool invert; /* what lies between the matches counts as matches */
    hs__spans *words;
    hs__span last; /* not yet in words */
    bool any, last_matches, failed;
} hs__cutter;

hs__cutter hs__cutter_start(hs__cut_behavior behavior, bool invert, hs__spans *words);
void hs__cutter_put(hs__cutter *cutter, size_t start, size_t end, bool matches);
/* Returns false if memory was short at any time. */
bool hs__cutter_finish(hs__cutter *cutter);
