/* predictions.h - probabilities, ranks and the most probable tokens from a row of logits.
 *
 *     p = softmax(logits), entropy = -sum p ln p (nats), rank = 1 + the number of more probable tokens */
#pragma once

#include "engine/engine.h"

#include <stddef.h>
#include <stdint.h>

typedef enum hs_target_kind {
    HS_TARGET_NONE,
    HS_TARGET_CLASS,           /* logit of a class: of the text, or of the token at `position` */
    HS_TARGET_TOKENS,          /* logit of tokens[0] at `position`, minus that of tokens[1] */
    HS_TARGET_PROBABILITY,     /* probability of tokens[0] at `position` */
    HS_TARGET_LOG_PROBABILITY, /* its natural logarithm */
    HS_TARGET_SPAN,            /* logit of a start at token span[0] plus that of an end at span[1] */
    HS_TARGET_LOSS,            /* -ln p of every token after the first, nats, their mean; causal models */
    HS_TARGET_VECTOR,          /* 1 - cosine between the sentence vector and the first text's */
    HS_TARGET_COSINE,          /* cosine between the sentence vector and `vector` */
} hs_target_kind;

typedef struct hs_target {
    hs_target_kind kind;
    size_t class, position;
    int32_t tokens[2]; /* the second may be -1: none */
    size_t span[2];
    hs_pooling pooling;  /* of VECTOR and COSINE; n > 0 */
    const float *vector; /* of COSINE: as wide as the sentence vector */
} hs_target;

/* Returns the number of floats that hs_target_rows writes for a text of n_tokens tokens. */
size_t hs_target_floats(const hs_architecture *architecture, const hs_target *target, size_t n_tokens);

/* Writes what the target reads of a text's last states [T][H]. `text` is a capture that a pass over the text
 * has filled; only its numbers of tokens are read. Positions must be below them. Fails with HS_NO_MEMORY. */
HS_MUST_USE hs_status hs_target_rows(const hs_engine *engine, const hs_target *target, const float *states,
                                     const hs_capture *text, size_t n_threads, float *ret_rows,
                                     hs_error *err);

/* Computes the target of n_texts variants of a text, from their rows one after the other. ids [n_tokens] are
 * the text's. ret_values has n_texts elements, and so has ret_divergences, which may be NULL. With CLASS a
 * divergence is the sum of p ln(p / p') in nats, with p the first variant's probabilities and p' this one's.
 * With several labels it is summed over them. It is NAN if the classes are no probabilities. Fails with
 * HS_NO_MEMORY, and with HS_UNSUPPORTED if the checkpoint lacks the head. */
HS_MUST_USE hs_status hs_target_values(const hs_engine *engine, const hs_target *target, const float *rows,
                                       size_t n_texts, const int32_t *ids, size_t n_tokens, size_t n_threads,
                                       double *ret_values, double *ret_divergences, hs_error *err);

/* Returns what row `row` of the n_rows that hs_target_rows writes adds to the target's value, from its logits
 * [width]. ids are the text's. The target is no vector. */
double hs__target_row_value(const hs_target *target, const int32_t *ids, size_t n_rows, size_t row,
                            const float *logits, size_t width);

/* ---- predictions ---- */

#define HS_TOP_MAX          100
#define HS_LOGITS_BYTES_MAX ((size_t)16 << 20) /* of rows as long as the vocabulary that are held at once */
typedef struct hs_prediction {
    float probability; /* of the given token */
    uint32_t rank;     /* of the given token, from 1 */
    float entropy;
    size_t n_top;
    int32_t top_ids[HS_TOP_MAX]; /* descending by probability; of equal ones the lower id first */
    float top_probabilities[HS_TOP_MAX];
} hs_prediction;

/* Reads logits [vocab_size]. id is the token whose probability and rank are found; top_k is at most
 * HS_TOP_MAX. */
void hs_prediction_read(const float *logits, size_t vocab_size, int32_t id, size_t top_k,
                        hs_prediction *ret_prediction);

/* Returns ln sum e^x of a row as long as a vocabulary, within 1e-6. */
double hs_log_sum(const float *logits, size_t n);

/* Writes e^x / sum e^x to ret [n]. */
void hs_softmax(const float *logits, size_t n, float *ret);

/* Returns ln sum e^x, in double precision, of the numbers that `inside` marks; NULL: of all. -INFINITY if
 * there are none. */
double hs_log_sum_exact(const float *logits, const uint8_t *inside, size_t n);

/* Returns the loss of token id in nats: -ln p. */
double hs_loss(const float *logits, size_t vocab_size, int32_t id);
/* Writes the gradient of this loss with respect to the logits to ret [vocab_size]. */
void hs_loss_gradient(const float *logits, size_t vocab_size, int32_t id, float *ret);
