/* pruning_passes.h - the passes behind the pruning curve: rankings of heads, and the loss with some of them
 * off.
 *
 * Texts with an even place rank the heads, and the others measure the loss. So no ranking is measured on the
 * texts that it was made from. The signal-to-noise ratio is that of the run. Importance is ranked in runs
 * that count it. */
#pragma once

#include "engine/engine.h"
#include "server/corpus/counters/predicted_texts.h"

/* The lowest values of a ranking go first. */
typedef enum hs__pruning_ranking {
    HS__PRUNING_SNR,
    HS__PRUNING_EFFECT,                              /* rise of the loss if the head alone is zero */
    HS__PRUNING_ENTROPY,                             /* of attention, mean over rows */
    HS__PRUNING_NORM,                                /* |o W_O|, mean over tokens */
    HS__PRUNING_RANDOM,                              /* three seeds */
    HS__PRUNING_IMPORTANCE = HS__PRUNING_RANDOM + 3, /* gradient importance: head_importance.h */
    HS__PRUNING_RANKINGS
} hs__pruning_ranking;

/* Heads become zero, or their mean over the text. */
enum { HS__PRUNING_ZERO, HS__PRUNING_MEAN, HS__PRUNING_KINDS };

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

/* Sums that add up over shards. A curve has HS__PRUNING_NUMBERS. A point has its loss (two words, as
 * hs_real_add has them) and right predictions, a head its rank, and the value that it is ranked by (two
 * words). */
typedef struct hs__pruning_curve {
    size_t n_maps, n_points;
    size_t n_rankings; /* HS__PRUNING_RANKINGS, or without importance one less */
    size_t points[HS__PRUNING_POINTS_MAX];
    int64_t *words; /* [hs__pruning_words]; owned */
} hs__pruning_curve;

/* Numbers of a curve. */
enum {
    HS__PRUNING_TEXTS,
    HS__PRUNING_PREDICTIONS,
    HS__PRUNING_RANKING_TEXTS,
    HS__PRUNING_RANKING_PREDICTIONS,
    HS__PRUNING_NUMBERS
};

enum {
    HS__PRUNING_POINT = 3, /* words of a point */
    HS__PRUNING_ROW = HS__PRUNING_POINTS_MAX * HS__PRUNING_POINT,
    HS__PRUNING_RANKS = HS__PRUNING_NUMBERS + HS__PRUNING_RANKINGS * HS__PRUNING_KINDS * HS__PRUNING_ROW
};

static inline size_t hs__pruning_words(size_t n_maps)
{
    return HS__PRUNING_RANKS + 3 * HS__PRUNING_RANKINGS * n_maps;
}

static inline int64_t *hs__pruning_point(const hs__pruning_curve *curve, size_t ranking, size_t kind,
                                         size_t point)
{
    return curve->words + HS__PRUNING_NUMBERS + (ranking * HS__PRUNING_KINDS + kind) * HS__PRUNING_ROW +
           point * HS__PRUNING_POINT;
}

static inline int64_t *hs__pruning_rank(const hs__pruning_curve *curve, size_t ranking, size_t map)
{
    return curve->words + HS__PRUNING_RANKS + ranking * curve->n_maps + map;
}

static inline int64_t *hs__pruning_value(const hs__pruning_curve *curve, size_t ranking, size_t map)
{
    return curve->words + HS__PRUNING_RANKS + HS__PRUNING_RANKINGS * curve->n_maps +
           2 * (ranking * curve->n_maps + map);
}

typedef struct hs__pruning_job {
    const hs__corpus_job *job;
    hs__predicted measure;
    const hs__predicted_text *texts; /* [n_texts] */
    size_t n_texts;
    const double *snr; /* [l][h] */
} hs__pruning_job;

/* Returns an upper bound of the bytes that a call allocates beside the workspace, without those of
 * importance. */
uint64_t hs__pruning_bytes(const hs__corpus_job *job);

/* Ranks the heads and measures all points of a curve with n_rankings. HS_NO_MEMORY. HS_CANCELLED: *job->stop
 * became non-zero. */
HS_MUST_USE hs_status hs__pruning_compute(const hs__pruning_job *job, hs_workspace *ws,
                                          hs__pruning_curve *ret, hs_error *err);
