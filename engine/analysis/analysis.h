/* analysis.h - what the maps of one text show: docs/methods.md section 1, formula by formula.
 *
 * Maps are row-major float [T][T]. A similarity map is symmetric and of it only the elements above the
 * diagonal are read, except where a function returns a whole map. `masked` is [T], 1 for tokens left out of
 * every figure (special_tokens: "mask"), or NULL for none. Thresholds are in (0, 1]. Sums are kept in double.
 * Nothing is allocated unless a function says so, and functions that return counts never write more than
 * their stated bound. Elements that are not numbers (from a broken checkpoint) reach no threshold. */
#pragma once

#include "engine/capture.h"

#include <stdbool.h>

/* ---- the text ---- */

/* Sentence number of each token, from 0. A sentence ends after a run of tokens with ends[i] set (those of
 * HS_ROLE_SENTENCE_END, unless somebody wants others), and where a special token is followed by the other
 * text of a pair (behind its first [SEP]). Special tokens begin no sentence otherwise: [CLS] belongs to the
 * first, a final [SEP] to the last. texts, 0 or 1, may be NULL: no pair. Arrays are [T]. */
void hs_sentences_find(const uint8_t *ends, const uint8_t *texts, const uint8_t *special, size_t n_tokens,
                       int32_t *ret_sentences);

/* Position of the first token with the same id, so that tokens i and j repeat each other when
 * ret_first[i] == ret_first[j]. ret_first is [T]. */
void hs_repeats_find(const int32_t *ids, size_t n_tokens, int32_t *ret_first);

/* ---- similarity ---- */

/* m: the largest S_ij with i < j among unmasked tokens; -INFINITY when there is no such element. */
float hs_similarity_max(const float *similarity, size_t n_tokens, const uint8_t *masked);

/* N = S / m with diagonal 0; all 0 when m <= 0; masked rows and columns 0. Reads and writes the whole map.
 * ret may be similarity itself. */
void hs_similarity_normalize(const float *similarity, size_t n_tokens, const uint8_t *masked, float maximum,
                             float *ret_normalized);

/* An element of E: i < j with N_ij >= tau. layer and head are the model's numbers, not positions. */
typedef struct hs_pair {
    uint16_t layer, head, i, j;
    float similarity, normalized;
} hs_pair;

/* Every pair of E over a capture that keeps similarities, ordered by layer, head, then normalised similarity
 * descending (ties: i, then j). When there are more than pairs_max, the pairs_max with the highest normalised
 * similarity are kept, in the same order; of equals those that come first by layer, head, i, j. ret_total
 * tells the full number. *ret_pairs is malloc'ed (NULL for none): free it. Uses up to n_threads threads of
 * the capture's runtime, as cores are idle; the result does not depend on how many. While it works it takes
 * room for up to four times pairs_max pairs, as far as there are so many. HS_NO_MEMORY. */
HS_MUST_USE hs_status hs_pairs_find(const hs_capture *capture, const uint8_t *masked, float threshold,
                                    size_t pairs_max, size_t n_threads, hs_pair **ret_pairs,
                                    size_t *ret_n_pairs, uint64_t *ret_total, hs_error *err);

/* ---- attention ---- */

/* c: column sums of A over unmasked rows, divided by their maximum; masked columns 0. ret_profile is [T]. */
void hs_column_profile(const float *attention, size_t n_tokens, const uint8_t *masked, float *ret_profile);

/* H: the tokens with c_j >= tau, ascending. ret_tokens is [T]; returns how many. */
size_t hs_high_tokens(const float *profile, size_t n_tokens, float threshold, uint16_t *ret_tokens);

/* ---- regions ---- */

/* Half-open range of tokens. */
typedef struct hs_span {
    uint16_t start, end;
} hs_span;

/* Cuts the token axis by H; each token of H is a run of its own. ret_runs is [T]; returns how many. */
size_t hs_runs_cut(const uint16_t *high, size_t n_high, size_t n_tokens, hs_span *ret_runs);

/* Mean of S over each run x run cell, diagonal excluded (a cell of nothing but diagonal is 0), masked tokens
 * left out. ret_means is [n_runs][n_runs], symmetric. */
void hs_region_means(const float *similarity, size_t n_tokens, const uint8_t *masked, const hs_span *runs,
                     size_t n_runs, float *ret_means);

/* ---- segments ---- */

typedef struct hs_segment {
    uint16_t start, end; /* half-open */
    float cohesion;      /* mean N over its pairs of tokens and the layer's heads; 0 when it has no pair */
    float contrast;      /* mean N between it and the rest, over the heads; 0 when there is no rest */
} hs_segment;

/* Segments of one layer from all its heads: attentions and similarities are [n_heads][T][T]. Boundaries
 * follow each token of H (of the head-summed A) that is not special and is not directly followed by another
 * token of H. ret_segments is [T]; returns how many. Takes scratch from the heap: SIZE_MAX when there is
 * none. */
size_t hs_segments_find(const float *attentions, const float *similarities, size_t n_heads, size_t n_tokens,
                        const uint8_t *special, const uint8_t *masked, float attention_threshold,
                        hs_segment *ret_segments);

/* How well segment boundaries meet sentence ends: precision is true_positives / predicted, recall
 * true_positives / actual. Boundaries lie between neighbours among the tokens that are not special, so the
 * text's own end is none, and it does not matter on which side of a [SEP] a boundary was drawn. */
typedef struct hs_boundary_score {
    uint32_t true_positives, predicted, actual;
} hs_boundary_score;
hs_boundary_score hs_segments_score(const hs_segment *segments, size_t n_segments, const int32_t *sentences,
                                    const uint8_t *special, size_t n_tokens);

/* ---- one head in figures ---- */

/* Shares, means and d' are NAN where they have no meaning (no pairs, no spread). Under a mask, attention
 * figures are of the unmasked rows, each brought back to sum 1 over the unmasked columns. */
typedef struct hs_head_summary {
    float max_similarity; /* m; NAN when there are fewer than two unmasked tokens */
    uint64_t high_pairs;  /* |E| */
    float repeated_share, same_sentence_share, repeated_same_sentence_share; /* of E */
    float mean_distance;                                                     /* j - i over E */
    int32_t focal_token;     /* position of the focal vocabulary id's first occurrence, -1 when E is empty */
    float focal_share;       /* of E: pairs that hold the focal id */
    float attention_entropy; /* mean over rows of -sum_j A_ij ln A_ij */
    float separator_attention; /* share of attention mass on [CLS], [SEP] and sentence ends */
    float snr_dprime;          /* docs/methods.md section 2, "Signal and noise", over this map's pairs */
} hs_head_summary;

/* What the summary must know of the text; arrays are [T]. */
typedef struct hs_text_facts {
    size_t n_tokens;
    const int32_t *first;      /* of hs_repeats_find */
    const int32_t *sentences;  /* of hs_sentences_find */
    const uint8_t *separators; /* 1: [CLS], [SEP] or a sentence end */
    const uint8_t *masked;     /* or NULL */
} hs_text_facts;

/* Takes scratch from the heap: HS_NO_MEMORY. */
HS_MUST_USE hs_status hs_head_summarize(const float *attention, const float *similarity,
                                        const hs_text_facts *text, float threshold,
                                        hs_head_summary *ret_summary, hs_error *err);

/* ---- one head's habits ---- */

/* Clark's labels (arXiv 1906.04341): half of a row's attention on a neighbour; six tenths on first tokens, on
 * separators or on punctuation; an entropy above 3.8 nats. The first that holds of SPECIAL, BROAD, POSITION.
 */
typedef enum hs_head_label {
    HS_LABEL_POSITION,
    HS_LABEL_SPECIAL,
    HS_LABEL_BROAD,
    HS_LABEL_OTHER
} hs_head_label;

#define HS_PROFILE_REACH 8 /* offsets -8 .. 8 */

/* Means over all rows of how much attention falls where; special tokens count like any others. */
typedef struct hs_head_profile {
    float self, previous, next; /* the row without such a neighbour counts as 0 */
    float first, separator, punctuation;
    float same_token;                        /* other tokens of the same id */
    float offsets[2 * HS_PROFILE_REACH + 1]; /* mean over the rows that have such a neighbour; 0: none has */
    float entropy, entropy_first;            /* nats; of the first row */
    float confidence;                        /* mean of the rows' maxima */
    float mean_distance;                     /* sum over j of A_ij |i - j| */
    hs_head_label label;
} hs_head_profile;

/* What tokens are, for a profile; arrays are [T]. */
typedef struct hs_token_kinds {
    size_t n_tokens;
    const int32_t *first; /* of hs_repeats_find */
    const uint8_t *is_first, *is_separator, *is_punctuation;
} hs_token_kinds;

void hs_head_profile_find(const float *attention, const hs_token_kinds *kinds, hs_head_profile *ret_profile);
/* By its other figures. */
hs_head_label hs_head_label_find(const hs_head_profile *profile);
