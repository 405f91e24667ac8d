/* analysis.h - what the maps of one text show: docs/reference/formulas.md section 1, formula by formula.
 *
 * Maps are row-major float [T][T]. A similarity map is symmetric and of it only the elements above the
 * diagonal are read, except where a function returns a whole map. `masked` is [T], 1 for tokens left out of
 * every figure (special_tokens: "mask"), or NULL for none. Thresholds are in (0, 1]. Sums are kept in double.
 * Nothing is allocated unless a function says so, and functions that return counts never write more than
 * their stated bound. Elements that are not numbers (from a broken checkpoint) reach no threshold. */
#pragma once

#include "engine/plan.h"

#include <stdbool.h>

/* ---- the text ---- */

/* Finds the sentence number of each token, from 0. A sentence ends after a run of tokens with ends[i] set
 * (by default those with HS_ROLE_SENTENCE_END). It also ends at a special token that the second text of a
 * pair follows (after the first [SEP]). Special tokens begin no other sentences: [CLS] belongs to the
 * first one, a final [SEP] to the last. texts holds 0 or 1; NULL: no pair. Arrays are [T]. */
void hs_sentences_find(const uint8_t *ends, const uint8_t *texts, const uint8_t *special, size_t n_tokens,
                       int32_t *ret_sentences);

/* Finds the position of the first token with the same id. Tokens i and j repeat each other if
 * ret_first[i] == ret_first[j]. ret_first is [T]. */
void hs_repeats_find(const int32_t *ids, size_t n_tokens, int32_t *ret_first);

/* ---- similarity ---- */

/* Returns m, the largest S_ij with i < j among unmasked tokens; -INFINITY if there is no such element. */
float hs_similarity_max(const float *similarity, size_t n_tokens, const uint8_t *masked);

/* Computes N = S / m with diagonal 0; all 0 if m <= 0; masked rows and columns 0. Reads and writes the
 * whole map. ret_normalized may be similarity itself. */
void hs_similarity_normalize(const float *similarity, size_t n_tokens, const uint8_t *masked, float maximum,
                             float *ret_normalized);

/* An element of E: i < j with N_ij >= tau. layer and head are the model's numbers, not positions. */
typedef struct hs_pair {
    uint16_t layer, head, i, j;
    float similarity, normalized;
} hs_pair;

/* Finds all pairs of E in the maps of `similarity`, a tap that the capture keeps (SIMILARITY or
 * RESIDUAL_SIMILARITY). Pairs are ordered by layer, head, normalised similarity descending, i, j.
 *
 * If there are more than pairs_max, keeps those with the highest normalised similarity; of equal ones the
 * first by layer, head, i, j. *ret_total is the number of all pairs. *ret_pairs is malloc'ed (NULL for
 * none): free it.
 *
 * Uses up to n_threads threads of the capture's runtime, as cores are idle; the result does not depend on
 * their number. Allocates up to four times pairs_max pairs meanwhile. Fails with HS_NO_MEMORY. */
HS_MUST_USE hs_status hs_pairs_find(const hs_capture *capture, hs_tap similarity, const uint8_t *masked,
                                    float threshold, size_t pairs_max, size_t n_threads, hs_pair **ret_pairs,
                                    size_t *ret_n_pairs, uint64_t *ret_total, hs_error *err);

/* The same pairs of maps that are shown one by one, in any order and by any thread: memory for n_maps maps is
 * not needed. Keeps up to twice pairs_max pairs; each thread allocates up to four times pairs_max more
 * meanwhile.
 *
 *     st = hs_pair_pool_create(n_maps, n_tokens, masked, threshold, pairs_max, &pool, &err);
 *     st = hs_pair_pool_add(pool, map, layer, head, similarity, &err);   (for each map once)
 *     st = hs_pair_pool_take(pool, &pairs, &n_pairs, &total, &err);      (after the last)
 *     hs_pair_pool_destroy(pool);
 *
 * Maps are numbered in the order of their pairs, by layer and head. `masked` is only read by create. All fail
 * with HS_NO_MEMORY. The caller frees *ret_pairs (NULL for none) and destroys the pool; NULL is fine. */
typedef struct hs_pair_pool hs_pair_pool;
HS_MUST_USE hs_status hs_pair_pool_create(size_t n_maps, size_t n_tokens, const uint8_t *masked,
                                          float threshold, size_t pairs_max, hs_pair_pool **ret_pool,
                                          hs_error *err);
HS_MUST_USE hs_status hs_pair_pool_add(hs_pair_pool *pool, size_t map, uint16_t layer, uint16_t head,
                                       const float *similarity, hs_error *err);
HS_MUST_USE hs_status hs_pair_pool_take(hs_pair_pool *pool, hs_pair **ret_pairs, size_t *ret_n_pairs,
                                        uint64_t *ret_total, hs_error *err);
void hs_pair_pool_destroy(hs_pair_pool *pool);

/* ---- attention ---- */

/* Computes c: column sums of A, [n_tokens][n_keys], over unmasked rows, divided by their maximum; masked
 * columns are 0. masked is [n_tokens], or NULL, as it must be if the keys are of another text. ret_profile is
 * [n_keys].
 */
void hs_column_profile(const float *attention, size_t n_tokens, size_t n_keys, const uint8_t *masked,
                       float *ret_profile);

/* Finds H, the tokens with c_j >= tau, ascending. ret_tokens is [T]. Returns their number. */
size_t hs_high_tokens(const float *profile, size_t n_tokens, float threshold, uint16_t *ret_tokens);

/* ---- regions ---- */

/* Half-open range of tokens. */
typedef struct hs_span {
    uint16_t start, end;
} hs_span;

/* Cuts the token axis at H; each token of H is a run of its own. ret_runs is [T]. Returns the number of
 * runs. */
size_t hs_runs_cut(const uint16_t *high, size_t n_high, size_t n_tokens, hs_span *ret_runs);

/* Computes the mean of S over each cell of two runs, without the diagonal and without masked tokens. A
 * cell that holds only the diagonal is 0. scratch is [T]; ret_means is [n_runs][n_runs], symmetric. */
void hs_region_means(const float *similarity, size_t n_tokens, const uint8_t *masked, const hs_span *runs,
                     size_t n_runs, double *scratch, float *ret_means);

/* ---- segments ---- */
typedef struct hs_segment {
    uint16_t start, end; /* half-open */
    float cohesion;      /* mean N over its pairs of tokens and the layer's heads; NAN if it has no pair */
    float contrast;      /* mean N between it and the rest, over the heads; 0 when there is no rest */
} hs_segment;

/* Finds the segments of one layer from all its heads: attentions and similarities are [n_heads][T][T].
 * Boundaries follow each token of H (of A summed over the heads) that is not special and is not directly
 * followed by another token of H. ret_segments is [T]. Returns the number of segments, or SIZE_MAX if
 * there is no memory for scratch. */
size_t hs_segments_find(const float *attentions, const float *similarities, size_t n_heads, size_t n_tokens,
                        const uint8_t *special, const uint8_t *masked, float attention_threshold,
                        hs_segment *ret_segments);

/* The maps of a layer's heads, one after the other. Each function returns the map of a head [T][T], valid
 * until the next call; NULL if it cannot be had. */
typedef struct hs_head_maps {
    const float *(*attention)(void *context, size_t head);
    const float *(*similarity)(void *context, size_t head);
    void *context;
} hs_head_maps;

/* The same of such maps: first A of each head in order, then S of each. Returns SIZE_MAX if a map or scratch
 * cannot be had. */
size_t hs_segments_find_in(const hs_head_maps *maps, size_t n_heads, size_t n_tokens, const uint8_t *special,
                           const uint8_t *masked, float attention_threshold, hs_segment *ret_segments);

/* Agreement of segment boundaries with sentence ends. Precision is true_positives / predicted, recall is
 * true_positives / actual. Boundaries are between neighbours among the tokens that are not special. So
 * the text's end is no boundary, and both sides of a [SEP] are the same boundary. */
typedef struct hs_boundary_score {
    uint32_t true_positives, predicted, actual;
} hs_boundary_score;

hs_boundary_score hs_segments_score(const hs_segment *segments, size_t n_segments, const int32_t *sentences,
                                    const uint8_t *special, size_t n_tokens);

/* ---- one head in figures ---- */

/* Figures of one head. Fractions, means and d' are NAN if they are undefined (no pairs, no spread). With
 * a mask, attention figures are of the unmasked rows and columns; for the entropy each row is renormalised
 * to sum 1. */
typedef struct hs_head_summary {
    float max_similarity; /* m; NAN when there are fewer than two unmasked tokens */
    uint64_t high_pairs;  /* |E| */
    float repeated_share; /* of E */
    float same_sentence_share, repeated_same_sentence_share; /* of E without special tokens */
    float mean_distance;                                     /* j - i over E */
    int32_t focal_token; /* position of the first occurrence of the focal vocabulary id; -1 if E is empty */
    float focal_share;   /* of E: pairs with the focal id */
    float attention_entropy;   /* mean over rows of -sum_j A_ij ln A_ij */
    float separator_attention; /* fraction of attention on [CLS], [SEP] and sentence ends */
    float snr_dprime; /* docs/reference/formulas.md section 2, "Signal and noise", over this map's pairs */
    float longest_overlap;     /* of E: pairs among as many of the longest outputs (longest_pairs.h) */
    float participation_ratio; /* of the outputs of unmasked tokens; NAN if all are 0 */
} hs_head_summary;

/* Facts of the text that the summary reads; arrays are [T]. */
typedef struct hs_text_facts {
    size_t n_tokens;
    const int32_t *first;      /* of hs_repeats_find */
    const int32_t *sentences;  /* of hs_sentences_find */
    const uint8_t *separators; /* 1: [CLS], [SEP] or a sentence end */
    const uint8_t *special;    /* 1: in no sentence; NULL: there is none */
    const uint8_t *masked;     /* or NULL */
} hs_text_facts;

/* Computes the figures of one head from its attention, similarity and lengths. Takes scratch from the heap
 * and fails with HS_NO_MEMORY. */
HS_MUST_USE hs_status hs_head_summarize(const hs_observed_head *maps, const hs_text_facts *text,
                                        float threshold, hs_head_summary *ret_summary, hs_error *err);

/* ---- one head's attention profile ---- */

/* Labels of heads after Clark et al. 2019 (arXiv 1906.04341). A head has the first of three
 * labels whose condition holds. SPECIAL: six tenths of a row's attention on first tokens, separators or
 * punctuation. BROAD: an entropy above 3.8 nats. POSITION: half of the attention on one neighbour. */
typedef enum hs_head_label {
    HS_LABEL_POSITION,
    HS_LABEL_SPECIAL,
    HS_LABEL_BROAD,
    HS_LABEL_OTHER
} hs_head_label;

#define HS_PROFILE_REACH 8 /* offsets -8 .. 8 */
/* Means over all rows of where attention falls. Special tokens count like others. */
typedef struct hs_head_profile {
    float self, previous, next; /* a row without such a neighbour counts as 0 */
    float first, separator, punctuation;
    float same_token;    /* other tokens of the same id */
    float same_sentence; /* the query's own sentence; special tokens are in none */
    float
        offsets[2 * HS_PROFILE_REACH + 1]; /* mean over the rows that have such a neighbour; 0 if none has */
    float entropy, entropy_first;          /* nats; of the first row */
    float confidence;                      /* mean of the rows' maxima */
    float mean_distance;                   /* sum over j of A_ij |i - j| */
    hs_head_label label;
} hs_head_profile;

/* Kinds of tokens for a profile; arrays are [T]. */
typedef struct hs_token_kinds {
    size_t n_tokens;
    const int32_t *first; /* of hs_repeats_find */
    const uint8_t *is_first, *is_separator, *is_punctuation;
    const int32_t *sentences; /* of hs_sentences_find */
    const uint8_t *special;   /* 1: in no sentence; NULL: there is none */
} hs_token_kinds;

void hs_head_profile_find(const float *attention, const hs_token_kinds *kinds, hs_head_profile *ret_profile);
/* Returns the label that the other figures give. */
hs_head_label hs_head_label_find(const hs_head_profile *profile);
