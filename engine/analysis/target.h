/* target.h - the number that effects are measured on. It is the logit of a class or a token, the score of a
 * span, the loss, or the direction of the sentence vector. */
#pragma once

#include "engine/engine.h"

typedef enum hs_target_kind {
    HS_TARGET_NONE,
    HS_TARGET_CLASS,  /* logit of a class: of the text, or of the token at `position` */
    HS_TARGET_TOKENS, /* logit of tokens[0] at `position`, minus that of tokens[1] */
    HS_TARGET_SPAN,   /* logit of a start at token span[0] plus that of an end at span[1] */
    HS_TARGET_LOSS,   /* -ln p of every token after the first, nats, their mean; causal models */
    HS_TARGET_VECTOR, /* 1 - cosine between the sentence vector and the first text's */
    HS_TARGET_COSINE, /* cosine between the sentence vector and `vector` */
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

/* Returns the part of the way from a clean text's target to another text's that a patch goes: 0 none, 1 all.
 * NAN if the two texts have the same target. */
float hs_recovered(double clean, double patched, double other);
