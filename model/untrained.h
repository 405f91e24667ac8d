/* untrained.h - the architecture of a model with weights as they are before training.
 *
 * A figure that random weights show as well says nothing about training. Matrices and tables are normal with
 * the deviation `initializer_range` of config.json, norms are 1 and biases 0. Tensors that share their memory
 * still do. HuggingFace's classes also set the row of the padding token to 0, and some families scale a few
 * matrices; these differences are left out. */
#pragma once

#include "model/architecture.h"
#include "model/base/status.h"

/* Replaces all weights of an architecture, and of its decoder unless that is NULL, by ones drawn from a seed.
 * Tensors then point into *ret_block, which the caller frees after the last use of the architectures. Weights
 * that both share stay shared; others are drawn apart. Fails with HS_NO_MEMORY; then nothing has changed. */
HS_MUST_USE hs_status hs_architecture_untrain(hs_architecture *architecture, hs_architecture *decoder,
                                              uint64_t seed, float **ret_block, hs_error *err);

/* A copy of an architecture with random weights. Its pointers to other than weights are borrowed from the
 * original, which must outlive it. */
typedef struct hs_untrained {
    hs_architecture architecture;
    float *block;
} hs_untrained;

/* Makes a copy with weights drawn from a seed: those that hs_architecture_untrain gives an architecture
 * without a decoder. Fails with HS_NO_MEMORY. */
HS_MUST_USE hs_status hs_untrained_create(const hs_architecture *of, uint64_t seed, hs_untrained *ret,
                                          hs_error *err);
void hs_untrained_finish(hs_untrained *untrained); /* zeroed is fine */

/* Returns the bytes of an architecture's random weights. Those that tensors share count once; if memory is
 * short, they may count several times. */
size_t hs_untrained_bytes(const hs_architecture *of);
