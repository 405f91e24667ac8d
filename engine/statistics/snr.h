/* snr.h - the signal-to-noise ratio of heads: how well what two tokens are explains their
 * similarity, beyond where they are.
 *
 * y is S over the pairs i < j of tokens that are not special, standardised within each text. Least squares
 * explain it by two models. The base model has terms of position and distance. The full model also knows
 * whether the tokens are the same, in one sentence, and both. All that a fit needs are the sums X'X, X'y and
 * y'y over texts. Each half of the texts is predicted by the fit to the other half. The ratio is
 * (R2_full - R2_base) / (1 - R2_full), Cohen's f2.
 *
 * Null models have the same base, but the text's ids in another order and its sentences elsewhere. */
#pragma once

#include "engine/statistics/statistics.h"

enum {
    HS_SNR_BASE = 9,   /* 1; ln d; d = 1, 2, 3, 4; 1 / (1 + d / 8); i / T; j / T; with d = j - i */
    HS_SNR_TERMS = 12, /* and same token; same sentence; both */
    HS_SNR_LANGUAGE = HS_SNR_TERMS - HS_SNR_BASE,
    HS_SNR_NULLS = 3,
    HS_SNR_MODELS = 1 + HS_SNR_NULLS /* the first is that of the text itself */
};

typedef double hs_snr_vector[HS_SNR_TERMS];
typedef double hs_snr_matrix[HS_SNR_TERMS][HS_SNR_TERMS];

/* Tokens, sentences and X'X of one text, and memory for one of its heads. */
typedef struct hs_snr_text hs_snr_text;

/* Creates texts of up to tokens_max tokens; NULL if memory is short. */
hs_snr_text *hs_snr_text_create(size_t tokens_max);
void hs_snr_text_destroy(hs_snr_text *text); /* NULL is fine */
size_t hs_snr_text_bytes(size_t tokens_max);

/* Prepares for a text. */
void hs_snr_text_find(hs_snr_text *text, const hs_corpus_text *of);
/* Returns X'X of a model. All 0 if the text has fewer than two pairs. */
const hs_snr_matrix *hs_snr_text_products(const hs_snr_text *text, size_t model);
/* Finds X'y of a head in all models. similarity is [T][T], read above the diagonal. Returns y'y, the number
 * of pairs; 0 if S is constant or not finite, so that y is 0. */
uint64_t hs_snr_head_find(hs_snr_text *text, const float *similarity, hs_snr_vector ret[HS_SNR_MODELS]);

/* X'X of one half of the texts, and its Cholesky factor; then those without each term of language. These have
 * no term that `factor` leaves out. */
typedef struct hs_snr_half {
    hs_snr_matrix products, factor, without[HS_SNR_LANGUAGE];
} hs_snr_half;

/* Factors the products. A term that depends linearly on those before it gets no coefficient. */
void hs_snr_half_factor(hs_snr_half *half);

/* Returns the ratio of a head from X'y and y'y of both halves; NAN if one has no pairs. ret_halves has the
 * ratios of the two predicted halves; NULL is fine. */
double hs_snr_ratio(const hs_snr_half halves[2], const hs_snr_vector xy[2], const double yy[2],
                    double ret_halves[2]);
/* Writes the ratio of each term of language, added last: (R2_full - R2_without) / (1 - R2_full). NAN as
 * above, and for a term that gets no coefficient in a half. */
void hs_snr_term_ratios(const hs_snr_half halves[2], const hs_snr_vector xy[2], const double yy[2],
                        double ret[HS_SNR_LANGUAGE]);
/* Returns a ratio in decibels; NAN if it is not positive. */
double hs_snr_decibels(double ratio);
