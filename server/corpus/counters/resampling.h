/* resampling.h - sums over blocks of neighbouring texts, drawn with replacement, for intervals and findings.
 *
 * All are of the main threshold. */
#pragma once

#include "engine/statistics/blocks.h"
#include "engine/statistics/chance.h"
#include "engine/statistics/statistics.h"
#include "server/corpus/corpus.h"

typedef enum hs__sum {
    /* of the run */
    HS__RUN_TEXTS,
    HS__RUN_PAIRS,
    HS__RUN_ORDINARY, /* of them, without special tokens, which are in no sentence */
    HS__RUN_REPEATED,
    HS__RUN_SAME_SENTENCE,
    HS__RUN_BOTH,
    HS__RUN_DISTANCE,
    HS__RUN_NEAR,       /* pairs near the diagonal */
    HS__RUN_GAUSSIAN,   /* pairs with N below 0.1, of Gaussian outputs */
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
    HS__HEAD_ORDINARY, /* of them, without special tokens */
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
    HS__TEXTS_BY_HASH,     /* of the whole run, not of blocks */
    HS__SUMS
} hs__sum;

/* ---- what a text and its heads add ---- */

/* The kind of sums of a control: the network with random weights. */
extern const hs_sums_kind hs__untrained_sums;
/* The same of the pairs of the longest outputs. */
extern const hs_sums_kind hs__longest_sums;

/* A head of a text, and where it is the last one of a layer, that layer. */
typedef struct hs__block_head {
    size_t l, map;
    const hs_corpus_observation *observation;
    const uint32_t *distances, *ordinary; /* high pairs by distance; without special tokens */
    bool ends_layer;
    hs_corpus_layer_observation layer;
} hs__block_head;

/* Returns the head that was just added to statistics. */
hs__block_head hs__block_head_of(const hs__text_head *head, size_t n_heads);

/* Add a text, and one of its heads, to the sums of the text's block. chance: of the text, at the same
 * distance. They leave the sums alone that are of chance: HS__RUN_GAUSSIAN, HS__RUN_TOKENS,
 * HS__RUN_SEPARATORS, HS__LAYER_UNIQUE_CHANCE and HS__HEAD_FOCAL_CHANCE. */
void hs__block_text_add(hs_sums *sums, const hs_chance *chance, const hs__text *text);
void hs__block_head_add(hs_sums *sums, const hs_chance *chance, const hs__text *text,
                        const hs__block_head *head);

/* Returns how many of the heads' focal tokens differ. positions: of their first occurrences; below 0 for a
 * head without one. */
size_t hs__unique_count(const int32_t *positions, size_t n_heads);

/* ---- draws ---- */

typedef struct hs__resampling hs__resampling;

/* Draws blocks of sums. Two sums of the same blocks have the same draws. NULL: memory is short, or counts is
 * NULL. */
hs__resampling *hs__resampling_create(const hs_sums *counts);
void hs__resampling_destroy(hs__resampling *resampling); /* NULL is fine */
/* Returns how many texts of a run differ, of windows the first ones; SIZE_MAX if it is not known. It is exact
 * for a few, and too small for many. */
size_t hs__different_texts(const hs__corpus_results *results);
const hs_bootstrap *hs__resampling_bootstrap(const hs__resampling *resampling);

#define HS__HEADS_ALL SIZE_MAX /* h: the sum over a layer's heads */

/* Write a sum in each draw; NAN if resampling is NULL. l and h are indices. */
void hs__draw_head(const hs__resampling *resampling, hs__sum sum, size_t l, size_t h, hs_draws ret);
void hs__draw_layer(const hs__resampling *resampling, hs__sum sum, size_t l, hs_draws ret);
void hs__draw_run(const hs__resampling *resampling, hs__sum sum, hs_draws ret);
/* Divides draws by others. */
void hs__draws_divide(hs_draws draws, const hs_draws by);
