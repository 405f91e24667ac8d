/* examples.h - an example of the random sample, for the counter of one text. */
#pragma once

#include "server/corpus/counters/counter.h"

/* Figures of a head in one text at the main threshold; NAN if undefined. */
typedef enum hs__example_figure {
    HS__EXAMPLE_REPEATED,      /* fraction of E */
    HS__EXAMPLE_SAME_SENTENCE, /* fraction of E */
    HS__EXAMPLE_DISTANCE,      /* mean over E */
    HS__EXAMPLE_FOCAL,         /* fraction of E */
    HS__EXAMPLE_HIGH,          /* |E| */
    HS__EXAMPLE_SEPARATOR,     /* fraction of attention on separators */
    HS__EXAMPLE_FIGURES
} hs__example_figure;

typedef struct hs__example {
    uint64_t number; /* hs__text_number */
    uint32_t file;
    uint64_t line;
    hs_text text;   /* UTF-8, up to the last token; owned */
    hs_text pair;   /* the same of its second text; NULL: there is none; owned */
    float *figures; /* [l][h][HS__EXAMPLE_FIGURES]; owned */
} hs__example;

/* Returns the first example of the sample; NULL if it is empty. counts: of the counter of examples. */
const hs__example *hs__example_first(const void *counts);
