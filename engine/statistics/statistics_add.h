/* statistics_add.h - the interface of statistics_add.c, which walks texts, layers and heads, and the
 * kernels that read maps. */
#pragma once

#include "engine/arena.h"
#include "engine/statistics/statistics_state.h"

#include <math.h>

/* Rows of scratch are wider than the window, so that vectors may run over its edge. */
static inline size_t hs__stats_stride(size_t tokens_max)
{
    return (tokens_max + 63) / 64 * 64 + 64;
}

/* Returns where element 0 of row i would be among sums of T rows. They are packed: each begins with the
 * vector of 16 that holds the diagonal, so that a head reads one stream of memory. */
static inline size_t hs__stats_sums_row(size_t n_tokens, size_t i)
{
    const size_t width = (n_tokens + 15) / 16 * 16, before = i / 16; /* vectors of row i that are left out */
    return i * width - 16 * (8 * before * (before - (before > 0)) + before * (i % 16)) - 16 * before;
}

/* The floats of the sums of a text of up to so many tokens: up to the end of the last row. */
static inline size_t hs__stats_sums_floats(size_t tokens_max)
{
    return hs__stats_sums_row(tokens_max, tokens_max - 1) + hs__stats_stride(tokens_max);
}

/* Facts of a text, found before its maps are read; arrays are [stride]. Those of the text that heads attend
 * to are the same object, unless it is another text, which has no sums. */
typedef struct hs__stats_facts {
    size_t n_tokens, part;
    int32_t *first,
        *next; /* positions of the first, and of the following token of the same id; next: or n_tokens */
    int32_t *repeats; /* positions of the tokens that are not the first of their id */
    size_t n_repeats;
    int32_t *sentences;     /* sentence number */
    int32_t *sentence_ends; /* where the token's sentence ends (half-open); special tokens are in none */
    size_t n_same_sentence; /* pairs */
    const uint8_t *special; /* of the text */
    int32_t *specials;      /* positions of special tokens */
    size_t n_specials;
    uint8_t *roles;      /* hs_role of each token */
    uint32_t *high_mask; /* of the map at hand: all ones in columns of H */
    float *columns;      /* of the layer at hand: column sums over its heads */
    float *similarity_sum,
        *normalized_sum; /* hs__stats_sums_row, of the layer at hand: S and N, i < j, over its heads */
} hs__stats_facts;

/* In the bytes of a pair within a sentence; a histogram has its bins of N once without and once with it. */
enum { HS__SIGNAL = 0x80, HS__HIST_BINS = 2 * HS__SIGNAL };

/* Results of reading one similarity map. stride is hs__stats_stride; rows are the map's. */
typedef struct hs__stats_map {
    size_t stride, n_thresholds;
    float cuts[HS_CORPUS_THRESHOLDS_MAX]; /* S_ij >= cuts[t] exactly when N_ij >= thresholds[t] */
    uint8_t *levels;      /* [stride][stride]: thresholds that N reaches, symmetric; 0 for i = j */
    uint8_t *diagonals;   /* [stride][stride]: the same, at [i][j - i], for i < j, and HS__SIGNAL */
    uint8_t *bins;        /* [T][stride]: bin of N, for i < j, and HS__SIGNAL */
    double moments[2][3]; /* noise, signal: number of pairs, sum of N, sum of N^2 */
    uint32_t *hist;       /* [HS__HIST_BINS]: noise, then signal */
    uint32_t *special;    /* [HS__SIGNAL]: pairs with a special token, which are neither */
    uint32_t *strata;     /* [HS_CORPUS_STRATA][HS__HIST_BINS]: hist by distance */
    double *by_distance;  /* [4][stride]: sums of N and N^2 of ordinary pairs, then of signal pairs */
    float reciprocal;     /* N is S times it */
    uint32_t *degrees;    /* [t][stride]: pairs of E that hold the token */
    uint32_t *distances;  /* [t][stride]: pairs of E by j - i */
    uint32_t *ordinary;   /* [t][stride]: the same of pairs without special tokens */
    uint64_t same_sentence[HS_CORPUS_THRESHOLDS_MAX]; /* pairs of E */
} hs__stats_map;

/* Fills all of map but stride and n_thresholds, and adds to the sums of facts, which begin with the first
 * head of a layer. */
void hs__stats_map_read(hs__stats_map *map, const float *similarity, const hs__stats_facts *facts, bool first,
                        const float *thresholds);

/* Returns the stratum of a distance from 1 on. */
static inline size_t hs__stratum(size_t distance)
{
    size_t stratum = 0;
    while (stratum + 1 < HS_CORPUS_STRATA && (size_t)1 << stratum < distance)
        stratum++;
    return stratum;
}

/* Finds the strata of the map that was read last. */
void hs__stats_strata_find(hs__stats_map *map, const float *similarity, const hs__stats_facts *facts,
                           hs_corpus_strata *ret);

/* Adds 1 to ret_counts[i][j] where levels[i][j] > level. Both are [n_tokens][stride]; counts are bytes. */
void hs__stats_levels_count(const uint8_t *levels, uint8_t level, size_t n_tokens, size_t stride,
                            uint8_t *ret_counts);

/* A map of cells, each the sum of step x step positions. */
typedef struct hs__cells {
    size_t window, step, n; /* positions; of a cell's edge; n x n cells */
    int64_t *strips[2];     /* [stride]: zeros, sums of the rows that become a row of cells */
} hs__cells;

/* Adds a strip to a row of cells, and clears it. */
void hs__cells_fold(const hs__cells *cells, int64_t *strip, int64_t *row);

/* The fields of a head's attention. */
typedef struct hs__attention_fields {
    int64_t *attention, *high; /* [n][n]: of all columns, and of those of H */
    int64_t *diagonal;         /* [n]: A_ii less the columns of H, if a cell has several positions; or NULL */
} hs__attention_fields;

/* True if texts come alone and are folded, in place of a batch of sums. */
bool hs__stats_attention_folds(const hs__cells *cells, size_t n_texts_max);

/* The rows of a batch: those of a window, or if texts are folded, one. */
size_t hs__stats_attention_rows(const hs__cells *cells, size_t n_texts_max);

/* Adds a text's map, [n_tokens][keys], to a batch, [2][window][window], or begins it. */
void hs__stats_attention_add(const float *attention, size_t n_tokens, const hs__stats_facts *keys,
                             const hs__cells *cells, bool first, uint32_t *batch);

/* Adds a batch to the fields. */
void hs__stats_attention_move(const uint32_t *batch, const hs__cells *cells,
                              const hs__attention_fields *fields);

/* Adds a text's map to the fields. rows: [2][window], scratch. */
void hs__stats_attention_fold(const float *attention, size_t n_tokens, const hs__stats_facts *keys,
                              const hs__cells *cells, uint32_t *rows, const hs__attention_fields *fields);

/* Adds counts[i][j], i < j, to a field's cells, and clears them. counts is [window][stride]. */
void hs__stats_counts_move(uint8_t *counts, size_t stride, const hs__cells *cells, int64_t *field);

/* Adds sums[i][j], i < j, to the whole and fraction words of a layer's field, [2][n][n]. */
void hs__stats_sums_add(const float *sums, size_t n_tokens, const hs__cells *cells, int64_t *field);

/* Adds a real number to a pair of words: integer and fraction. */
static inline void hs__stats_fixed_add(int64_t fixed[2], double value)
{
    if (!(fabs(value) < HS__FIXED_MAX))
        return;
    const double whole = nearbyint(value);
    fixed[0] += (int64_t)whole;
    fixed[1] += (int64_t)nearbyint((value - whole) / HS__FRACTION_UNIT);
}

/* Computes one text's profile of a head, in the order of HS__PROFILE_... Figures that need one text are 0 if
 * keys are of another. */
void hs__stats_profile_find(const hs_observed_head *head, const hs__stats_facts *facts,
                            const hs__stats_facts *keys, double ret_figures[HS__PROFILE_N]);

/* The maps of one text, kept if distances of heads are counted. */
typedef struct hs__stats_kept {
    float *maps;         /* [l][h][window][window], each with rows of the text's length */
    const float **heads; /* [l][h]: into maps */
    double *sums;        /* [n][n] */
    void *scratch;       /* of engine/analysis/distances.h */
} hs__stats_kept;
