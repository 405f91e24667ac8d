/* resampling.h - sums over blocks of neighbouring texts, drawn with replacement, for intervals and findings.
 *
 * All are of the main threshold. */
#pragma once

#include "engine/statistics/blocks.h"
#include "server/corpus/corpus.h"

typedef enum hs__sum {
    /* of the run */
    HS__RUN_TEXTS,
    HS__RUN_PAIRS,
    HS__RUN_REPEATED,
    HS__RUN_SAME_SENTENCE,
    HS__RUN_BOTH,
    HS__RUN_DISTANCE,
    HS__RUN_NEAR,       /* pairs near the diagonal */
    HS__RUN_TOKENS,     /* all of them, */
    HS__RUN_SEPARATORS, /* and evenly spread attention on separators, sentence ends and commas */
    /* of a layer */
    HS__LAYER_UNIQUE_FOCAL,
    HS__LAYER_UNIQUE_CHANCE, /* the same of as many pairs drawn at random */
    HS__LAYER_SEPARATORS,    /* attention on separators, sentence ends and commas */
    HS__LAYER_ATTENTION,     /* all of it */
    HS__LAYER_NEAR,          /* positive part of N near the diagonal, */
    HS__LAYER_POSITIVE,      /* and anywhere */
    /* of a head */
    HS__HEAD_HIGH,
    HS__HEAD_REPEATED,
    HS__HEAD_SAME_SENTENCE,
    HS__HEAD_BOTH,
    HS__HEAD_DISTANCE,
    HS__HEAD_TEXTS_WITH_HIGH,
    HS__HEAD_BELOW,  /* of all pairs, those with N below 0.1 */
    HS__HEAD_MIDDLE, /* from 0.1 to 0.6 */
    HS__HEAD_FOCAL_SHARE,
    HS__HEAD_EXPECTED_REPEATED, /* by chance at the same distance, here and below */
    HS__HEAD_EXPECTED_SAME_SENTENCE,
    HS__HEAD_EXPECTED_BOTH,
    HS__HEAD_FOCAL_CHANCE, /* focal share of as many pairs drawn at random */
    HS__SUMS
} hs__sum;

typedef struct hs__resampling hs__resampling;

/* Draws blocks. NULL: memory is short, or a damaged run lacks the sums. */
hs__resampling *hs__resampling_create(const hs__corpus_results *results);
void hs__resampling_destroy(hs__resampling *resampling); /* NULL is fine */
const hs_bootstrap *hs__resampling_bootstrap(const hs__resampling *resampling);

#define HS__HEADS_ALL SIZE_MAX /* h: the sum over a layer's heads */

/* Write a sum in each draw; NAN if resampling is NULL. l and h are indices. */
void hs__draw_head(const hs__resampling *resampling, hs__sum sum, size_t l, size_t h, hs_draws ret);
void hs__draw_layer(const hs__resampling *resampling, hs__sum sum, size_t l, hs_draws ret);
void hs__draw_run(const hs__resampling *resampling, hs__sum sum, hs_draws ret);
/* Divides draws by others. */
void hs__draws_divide(hs_draws draws, const hs_draws by);
