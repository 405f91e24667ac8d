/* pruning_passes.h - the passes behind the pruning curve: rankings of heads, and the loss with some of them
 * off.
 *
 * Texts with an even place rank the heads, and the others measure the loss. So no ranking is measured on the
 * texts that it was made from. The signal-to-noise ratio is that of the run. */
#pragma once

#include "engine/engine.h"
#include "server/corpus/corpus.h"

/* The predictions whose loss is measured. */
typedef enum hs__pruning_measure {
    HS__PRUNING_MASKED, /* masked tokens */
    HS__PRUNING_CAUSAL, /* the next tokens */
    HS__PRUNING_CLASS,  /* the label */
    HS__PRUNING_MEASURES
} hs__pruning_measure;

/* The lowest values of a ranking go first. */
typedef enum hs__pruning_ranking {
    HS__PRUNING_SNR,
    HS__PRUNING_EFFECT,  /* rise of the loss if the head alone is zero */
    HS__PRUNING_ENTROPY, /* of attention, mean over rows */
    HS__PRUNING_NORM,    /* |o W_O|, mean over tokens */
    HS__PRUNING_RANDOM,  /* three seeds */
    HS__PRUNING_RANKINGS = HS__PRUNING_RANDOM + 3
} hs__pruning_ranking;

/* Heads become zero, or their mean over the text. */
enum { HS__PRUNING_ZERO, HS__PRUNING_MEAN, HS__PRUNING_KINDS };

typedef struct hs__pruning_text {
    uint64_t number;
    size_t n_tokens, n_positions, label;
    int32_t *ids;      /* [n_tokens], owned; with masks, the ids that are predicted */
    uint8_t *types;    /* [n_tokens], owned */
    size_t *positions; /* [n_positions], owned: those that are masked */
} hs__pruning_text;

#define HS__PRUNING_POINTS_MAX 24

/* Writes 0, 1, 2, 4, ... and the number of all heads, and returns how many there are. */
static inline size_t hs__pruning_points(size_t n_maps, size_t ret_points[HS__PRUNING_POINTS_MAX])
{
    size_t n = 0;
    ret_points[n++] = 0;
    for (size_t k = 1; k < n_maps; k *= 2)
        ret_points[n++] = k;
    ret_points[n++] = n_maps;
    return n;
}

/* Sums that add up over shards: the number of texts, and of predictions; a point's loss (two words, as
 * hs_real_add has them) and right predictions; the rank of each head. */
typedef struct hs__pruning_curve {
    size_t n_maps, n_points;
    size_t points[HS__PRUNING_POINTS_MAX];
    int64_t *words; /* [hs__pruning_words]; owned */
} hs__pruning_curve;

enum {
    HS__PRUNING_POINT = 3, /* words of a point */
    HS__PRUNING_ROW = HS__PRUNING_POINTS_MAX * HS__PRUNING_POINT,
    HS__PRUNING_RANKS = 2 + HS__PRUNING_RANKINGS * HS__PRUNING_KINDS * HS__PRUNING_ROW
};

static inline size_t hs__pruning_words(size_t n_maps)
{
    return HS__PRUNING_RANKS + HS__PRUNING_RANKINGS * n_maps;
}

static inline int64_t *hs__pruning_texts(const hs__pruning_curve *curve)
{
    return curve->words;
}

static inline int64_t *hs__pruning_predictions(const hs__pruning_curve *curve)
{
    return curve->words + 1;
}

static inline int64_t *hs__pruning_point(const hs__pruning_curve *curve, size_t ranking, size_t kind,
                                         size_t point)
{
    return curve->words + 2 + (ranking * HS__PRUNING_KINDS + kind) * HS__PRUNING_ROW +
           point * HS__PRUNING_POINT;
}

static inline int64_t *hs__pruning_rank(const hs__pruning_curve *curve, size_t ranking, size_t map)
{
    return curve->words + HS__PRUNING_RANKS + ranking * curve->n_maps + map;
}

typedef struct hs__pruning_job {
    const hs__corpus_job *job;
    hs__pruning_measure measure;
    const hs__pruning_text *texts; /* [n_texts] */
    size_t n_texts;
    const double *snr; /* [l][h] */
} hs__pruning_job;

/* Returns an upper bound of the bytes that a call allocates beside the workspace. */
uint64_t hs__pruning_bytes(const hs__corpus_job *job);

/* Ranks the heads and measures all points. HS_NO_MEMORY. HS_CANCELLED: *job->stop became non-zero. */
HS_MUST_USE hs_status hs__pruning_compute(const hs__pruning_job *job, hs_workspace *ws,
                                          hs__pruning_curve *ret, hs_error *err);
