/* generate.h - a model writes tokens greedily.
 *
 * Each new token is the one with the largest logit behind the text so far. hs_generation of the architecture
 * changes logits as transformers' generate does, in the same order. */
#pragma once

#include "engine/engine.h"

/* Returns the bytes that hs_generate takes for a text of up to n_tokens_max tokens and a memory of n_memory.
 */
size_t hs_generate_bytes(const hs_architecture *architecture, size_t n_tokens_max, size_t n_memory);

/* Continues a text of n_tokens >= 1 tokens up to n_tokens_max, or until a token that stops it, which is the
 * last one then. ids [n_tokens_max] are extended; *ret_n is their number. The engine's model is causal and
 * predicts the next token. A decoder reads a memory [n_memory][H], else it is NULL. forced_first
 * is the first token behind a text of one, in place of hs_generation's; -1: that. control is read before each
 * token and between layers; it may be NULL. Fails with HS_UNSUPPORTED, HS_TOO_LARGE, HS_NO_MEMORY and
 * HS_CANCELLED. */
HS_MUST_USE hs_status hs_generate(const hs_engine *engine, hs_workspace *ws, int32_t *ids, size_t n_tokens,
                                  size_t n_tokens_max, const float *memory, size_t n_memory,
                                  int32_t forced_first, const hs_run_control *control, size_t *ret_n,
                                  hs_error *err);
