/* predictions.h - what a row of logits says: probabilities, ranks, the most probable tokens.
 *
 *     p = softmax(logits), entropy = -sum p ln p (nats), rank of a token = 1 + the tokens that are more
 * probable */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define HS_TOP_MAX 100

typedef struct hs_prediction {
    float probability; /* of the token asked about */
    uint32_t rank;     /* its own, from 1 */
    float entropy;
    size_t n_top;
    int32_t top_ids[HS_TOP_MAX]; /* the most probable first; of equal ones the lower id */
    float top_probabilities[HS_TOP_MAX];
} hs_prediction;

/* Of logits [vocab_size]; id is the token asked about, top_k at most HS_TOP_MAX. */
void hs_prediction_read(const float *logits, size_t vocab_size, int32_t id, size_t top_k,
                        hs_prediction *ret_prediction);
