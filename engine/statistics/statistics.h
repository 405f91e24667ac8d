/* statistics.h - corpus statistics: every figure of docs/reference/formulas.md section 2, over any number of
 * texts.
 *
 * An hs_corpus_stats holds sums over texts. Its size depends on layers x heads x (window / map_step)^2 and
 * does not grow. All sums are integers: counts, and real numbers in fixed point. Integer addition is
 * associative, so the same texts give the same state, bit for bit, for any order, number of workers, shards
 * and interruptions. Addends are exact to 2^-28 for an attention and 2^-37 for other numbers. Within one
 * text, S and N are summed over a layer's heads in float, as the maps are.
 *
 *     st = hs_corpus_stats_create(&options, &stats, &err);
 *     st = hs_corpus_batch_begin(stats, texts, n_texts, &err);          for each batch,
 *     hs_corpus_batch_head(stats, k, l, h, &head, NULL);                and every head of its texts
 *     bytes = hs_corpus_stats_save(stats, &n_bytes);                    a checkpoint, or a shard's result
 *     st = hs_corpus_stats_load(bytes, n_bytes, &other, &err);
 *     st = hs_corpus_stats_merge(stats, other, &err);
 *     for (k = 0; k < hs_corpus_arrays(stats, arrays); k++)             report.npz
 *         hs_corpus_array_read(stats, &arrays[k], 0, arrays[k].n_elements, buffer);
 *     figures = hs_corpus_head_read(stats, t, l, h);                    report.json
 *
 * A stats object serves one thread at a time. l counts the selected layers, t the thresholds. */
#pragma once

#include "engine/analysis/analysis.h"
#include "engine/plan.h"
#include "engine/statistics/sums.h"
#include "model/tokenizer/tokenizer.h"

#include <stdbool.h>

#define HS_CORPUS_THRESHOLDS_MAX 16
#define HS_CORPUS_PARTS_MAX      16
#define HS_CORPUS_WINDOW_MAX     15360               /* a row of a map fits a thread's stack twice */
#define HS_CORPUS_TEXTS_MAX      ((uint64_t)1 << 26) /* the most that the fixed-point sums can hold */
#define HS_CORPUS_BINS           100                 /* of N, and of c / max c, on [0, 1] */
#define HS_CORPUS_SHARE_BINS     20                  /* of a text's fraction, on [0, 1] */
#define HS_CORPUS_FOCUS_MAX      50                  /* vocabulary ids listed a layer */

/* Distances of heads, as in engine/analysis/distances.h. */
typedef enum hs_corpus_distance { HS_CORPUS_NO_DISTANCE, HS_CORPUS_CKA, HS_CORPUS_JS } hs_corpus_distance;

typedef struct hs_corpus_options {
    const uint16_t *layers; /* the model's numbers, ascending; passes show just these, and every head */
    size_t n_layers, n_heads;
    size_t tokens_max; /* the window: no text is longer */
    size_t vocab_size;
    const float *thresholds; /* tau_s, ascending in (0, 1] */
    size_t n_thresholds;
    size_t threshold_main;        /* index of the one that location maps are kept for */
    float attention_threshold;    /* tau_a */
    size_t n_parts;               /* of the stability check: text number mod n_parts */
    hs_corpus_distance distances; /* to count; then every map of a text is kept until its last */
    bool masked;                  /* hs_corpus_masked_add is called */
    bool crosses;    /* heads attend to the tokens of another text, hs_corpus_text.keys; figures that need one
                        text are left out */
    size_t map_step; /* maps are sums over cells of map_step x map_step positions; 0 counts as 1 */
} hs_corpus_options;

typedef struct hs_corpus_stats hs_corpus_stats;

/* Creates empty statistics; the options are copied. Fails with HS_INVALID if one is out of range, with
 * HS_NO_MEMORY. */
HS_MUST_USE hs_status hs_corpus_stats_create(const hs_corpus_options *options, hs_corpus_stats **ret_stats,
                                             hs_error *err);
void hs_corpus_stats_destroy(hs_corpus_stats *stats); /* NULL is fine */

/* Bytes of statistics with these options, in memory and saved. Fails with HS_INVALID as create does. */
typedef struct hs_corpus_size {
    uint64_t memory_bytes, saved_bytes;
} hs_corpus_size;
HS_MUST_USE hs_status hs_corpus_stats_measure(const hs_corpus_options *options, hs_corpus_size *ret_size,
                                              hs_error *err);

/* Returns the options given to create. Borrowed from stats. */
hs_corpus_options hs_corpus_stats_options(const hs_corpus_stats *stats);
uint64_t hs_corpus_stats_texts(const hs_corpus_stats *stats); /* added so far */
/* Returns the length of text number 0 if map_step is above 1; else, or without this text, 0. */
size_t hs_corpus_first_tokens(const hs_corpus_stats *stats);
/* Returns true if create would make statistics of the same shape from these options: those of a file that was
 * loaded may have another. */
bool hs_corpus_stats_match(const hs_corpus_stats *stats, const hs_corpus_options *options);

/* One text of the corpus. Arrays are [n_tokens] and must stay valid until its batch has ended. */
typedef struct hs_corpus_text {
    uint64_t number; /* of the text in the whole corpus, whatever the shard: it chooses the part */
    size_t n_tokens;
    const int32_t *ids;
    const uint8_t *special; /* 1: [CLS] and [SEP] added by the tokenizer */
    const uint8_t *roles;   /* hs_role: the classes of attention mass and the ends of sentences */
    const uint8_t *texts;   /* 1: of the second text of a pair, which begins a sentence; NULL: no pair */
    const struct hs_corpus_text
        *keys; /* with options.crosses: the text that heads attend to; else not read */
} hs_corpus_text;

/* The most texts of a batch: a head's sums are loaded once for all of them. Long texts
 * come alone, because the sums over a layer's heads are kept for each text of a batch. */
#define HS_CORPUS_BATCH 8

/* Returns the number of pairs i < j of n tokens. */
static inline size_t hs_pairs_of(size_t n)
{
    return n > 1 ? n * (n - 1) / 2 : 0;
}

static inline size_t hs_corpus_batch_max(size_t tokens_max, hs_corpus_distance distances)
{
    const size_t tokens = 4096, n = distances || tokens_max > tokens ? 1 : tokens / tokens_max;
    return n < HS_CORPUS_BATCH ? n : HS_CORPUS_BATCH;
}

/* Begins to add n_texts texts: 1 to hs_corpus_batch_max. The batch ends with
 * the last head of the last layer of the last text; before that the statistics must not be used. Fails
 * with HS_INVALID if a text does not fit the options, with HS_TOO_LARGE at HS_CORPUS_TEXTS_MAX, and
 * with HS_NO_MEMORY at the first batch of a state that was loaded. After a failure no batch has begun. */
HS_MUST_USE hs_status hs_corpus_batch_begin(hs_corpus_stats *stats, const hs_corpus_text *texts,
                                            size_t n_texts, hs_error *err);

/* Figures of one head in one text at the main threshold, as in hs_head_summary. */
typedef struct hs_corpus_observation {
    uint64_t high_pairs, repeated_pairs, same_sentence_pairs;
    uint64_t ordinary_pairs; /* of high pairs, those without special tokens, which are in no sentence */
    uint64_t distance_sum;   /* of high pairs */
    float repeated_share, same_sentence_share, mean_distance, focal_share; /* NAN when E is empty */
    float separator_attention;
    uint64_t both_pairs;                /* repeated, and in one sentence */
    uint64_t below_pairs, middle_pairs; /* of all i < j, those with N below 0.1, and from 0.1 to 0.6 */
    double focal_ratio;                 /* focal_share before it is rounded; 0 when E is empty */
    double mass[HS_ROLE_COUNT];         /* attention by the role of the token that gets it */
} hs_corpus_observation;

/* Adds head h of layer l of the batch's text k. Heads come in the order in which an hs_observer sees
 * them. Allocates nothing. ret_observation may be NULL. */
void hs_corpus_batch_head(hs_corpus_stats *stats, size_t k, size_t l, size_t h, const hs_observed_head *head,
                          hs_corpus_observation *ret_observation);

/* Returns the number of high pairs of the last head at threshold t by distance j - i: [n_tokens] of its text.
 * Borrowed from stats, valid until the next head. */
const uint32_t *hs_corpus_batch_distances(const hs_corpus_stats *stats, size_t t);

/* The same of pairs without special tokens. */
const uint32_t *hs_corpus_batch_ordinary(const hs_corpus_stats *stats, size_t t);

/* Returns how many thresholds the N of each pair of the last head reaches: row i has pair j at [i * stride +
 * j], 0 for i = j. Borrowed from stats, valid until the next head. */
const uint8_t *hs_corpus_batch_levels(const hs_corpus_stats *stats, size_t *ret_stride);

/* Counts the repeated pairs of text k of the batch that are farther apart than each of n distances: those
 * of all its pairs, and of the last head's E at threshold t. The last head must be of that text. */
void hs_corpus_batch_far_repeats(const hs_corpus_stats *stats, size_t k, size_t t, const int *distances,
                                 size_t n, int64_t *ret_all, int64_t *ret_high);

/* Strata of distances j - i: 1, 2, 3 to 4, 5 to 8, and so on; the last one is open. */
#define HS_CORPUS_STRATA 8

/* N of one head in one text by stratum: of noise pairs [0], and of signal pairs [1], which are repeated or in
 * one sentence. */
typedef struct hs_corpus_strata {
    uint32_t bins[2][HS_CORPUS_STRATA][1 + HS_CORPUS_BINS]; /* the first one is of N below 0 */
    double sums[2][HS_CORPUS_STRATA], squares[2][HS_CORPUS_STRATA];
} hs_corpus_strata;

/* Finds the strata of the last head, which was of text k of the batch and had this similarity. */
void hs_corpus_batch_strata(const hs_corpus_stats *stats, size_t k, const float *similarity,
                            hs_corpus_strata *ret);

/* Figures of one layer in one text at the main threshold. */
typedef struct hs_corpus_layer_observation {
    size_t unique_focal;
    double near, all; /* positive part of N, summed over the heads: within HS_CORPUS_BAND tokens of the
                         diagonal, and of all i < j */
} hs_corpus_layer_observation;
#define HS_CORPUS_BAND 5

/* Returns the figures of the layer that the last head ended. */
hs_corpus_layer_observation hs_corpus_batch_layer(const hs_corpus_stats *stats);

/* Adds a text's predictions of masked tokens: their number, how many were the most probable token, and
 * the sum of -ln p. */
void hs_corpus_masked_add(hs_corpus_stats *stats, size_t n_masked, size_t n_right, double loss);

/* Adds the sums of `from`. Fails with HS_INVALID if the options differ, with HS_TOO_LARGE if there are
 * too many texts. */
HS_MUST_USE hs_status hs_corpus_stats_merge(hs_corpus_stats *stats, const hs_corpus_stats *from,
                                            hs_error *err);

/* Returns the whole state with its options: versioned, checksummed, little-endian. Borrowed from stats,
 * valid until it is changed or destroyed. Allocates nothing. */
const void *hs_corpus_stats_save(hs_corpus_stats *stats, size_t *ret_n_bytes);

/* Loads a state from any bytes, which are not kept. Memory for adding is taken with the first batch: a
 * state that is only read or merged is small. Fails with HS_INVALID and names the fault, or with
 * HS_NO_MEMORY. */
HS_MUST_USE hs_status hs_corpus_stats_load(const void *bytes, size_t n_bytes, hs_corpus_stats **ret_stats,
                                           hs_error *err);

/* ---- arrays: docs/reference/arrays.md, by their names there ---- */

#define HS_CORPUS_ARRAYS_MAX 96

/* Lists the arrays in the order of docs/reference/arrays.md and returns their number. Maps are full:
 * symmetric ones are mirrored, `location` is 0 for i >= j. */
size_t hs_corpus_arrays(const hs_corpus_stats *stats, hs_corpus_array ret_arrays[HS_CORPUS_ARRAYS_MAX]);
/* Finds an array by its name. Returns false if the run has none. */
bool hs_corpus_array_find(const hs_corpus_stats *stats, const char *name, hs_corpus_array *ret_array);
/* Lists the arrays of statistics with these options; returns 0 if the options are out of range. */
size_t hs_corpus_arrays_of(const hs_corpus_options *options,
                           hs_corpus_array ret_arrays[HS_CORPUS_ARRAYS_MAX]);

/* Continues a digest with the rows of the arrays, which a checkpoint has. */
uint64_t hs_corpus_rows_digest(uint64_t digest);

/* Writes elements [first, first + n) in row-major order to ret: int64_t or double. */
void hs_corpus_array_read(const hs_corpus_stats *stats, const hs_corpus_array *array, size_t first, size_t n,
                          void *ret);

/* ---- figures; NAN where there is nothing to divide by ---- */

/* Expected figures of pairs drawn uniformly from all i < j of the same texts. */
typedef struct hs_corpus_chance {
    double repeated, same_sentence, repeated_same_sentence; /* fractions; the last two of ordinary pairs */
    double mean_distance, median_distance;
} hs_corpus_chance;
hs_corpus_chance hs_corpus_chance_read(const hs_corpus_stats *stats);

/* A figure and its stability: the standard deviation over the parts that have it. */
typedef struct hs_corpus_figure {
    double value, spread;
} hs_corpus_figure;

/* One head at threshold t (d' and auc do not depend on it). Lift is fraction / chance. */
typedef struct hs_corpus_head {
    uint64_t high;            /* sum of |E| */
    uint64_t high_ordinary;   /* of them, pairs without special tokens: those of sentences are shares of it */
    uint64_t texts_with_high; /* texts whose E is not empty */
    hs_corpus_figure repeated_share, same_sentence_share, mean_distance;
    hs_corpus_figure focal_share; /* mean over texts with E */
    double repeated_same_sentence_share, median_distance;
    double repeated_lift, same_sentence_lift, repeated_same_sentence_lift;
    double dprime; /* (mean_s - mean_n) / sqrt((var_s + var_n) / 2) of N, population variances */
    double auc; /* probability that a signal pair's N exceeds a noise pair's (ROC area), from the histograms;
                   ties count half */
} hs_corpus_head;
hs_corpus_head hs_corpus_head_read(const hs_corpus_stats *stats, size_t t, size_t l, size_t h);

/* Returns means over texts, and the label that follows from them. Texts too short for an offset do not
 * count in it. */
hs_head_profile hs_corpus_profile_read(const hs_corpus_stats *stats, size_t l, size_t h);

/* Predictions of masked tokens: their number, the fraction found, mean -ln p. */
typedef struct hs_corpus_masked {
    uint64_t n;
    double accuracy, loss;
} hs_corpus_masked;
hs_corpus_masked hs_corpus_masked_read(const hs_corpus_stats *stats);

/* One layer at threshold t; fractions and distances are pooled over its heads. */
typedef struct hs_corpus_layer {
    uint64_t high, high_ordinary;
    double repeated_share, same_sentence_share, repeated_same_sentence_share;
    double mean_distance, median_distance;
    double unique_focal;          /* mean number of different focal ids, over texts */
    double precision, recall, f1; /* of attention boundaries against sentence ends */
    double mass_cls, mass_sep, mass_end, mass_comma, mass_rest; /* fractions of attention mass */
    double on_first, on_self, on_previous, on_next; /* attention: means over heads and texts of profiles */
} hs_corpus_layer;
hs_corpus_layer hs_corpus_layer_read(const hs_corpus_stats *stats, size_t t, size_t l);

/* N of signal or noise pairs: their number, sums, and histogram. */
typedef struct hs_corpus_pairs {
    double n, sum, squares;
    const int64_t *bins; /* [1 + HS_CORPUS_BINS] */
} hs_corpus_pairs;

/* Returns d' = (mean_s - mean_n) / sqrt((var_s + var_n) / 2); NAN without a variance. */
double hs_corpus_dprime(const hs_corpus_pairs *signal, const hs_corpus_pairs *noise);
/* Returns the probability that a signal pair is in a higher bin than a noise pair; ties count half. */
double hs_corpus_auc(const hs_corpus_pairs *signal, const hs_corpus_pairs *noise);
