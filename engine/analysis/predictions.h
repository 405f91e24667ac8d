/* predictions.h - probabilities, ranks and the most probable tokens from a row of logits.
 *
 *     p = softmax(logits), entropy = -sum p ln p (nats), rank = 1 + the number of more probable tokens */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define HS_TOP_MAX 100

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

/* Returns the loss of token id in nats: -ln p. */
double hs_loss(const float *logits, size_t vocab_size, int32_t id);
