/* predictions.h - probabilities, ranks and the most probable tokens from a row of logits.
 *
 *     p = softmax(logits), entropy = -sum p ln p (nats), rank = 1 + the number of more probable tokens */
#pragma once

#include <stddef.h>
#include <stdint.h>

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
