/* engine.h - token ids in, attention heads out.
 *
 * An hs_engine never changes once created: any thread may use it. All scratch of a pass is in an
 * hs_workspace, which serves one pass at a time. A pass allocates nothing (but what oneDNN does inside),
 * never logs, never pads. With native products a text's numbers have the same bits alone, in a batch, on one
 * thread or on many.
 *
 *     st = hs_engine_create(runtime, hs_model_recipe(model), &(hs_engine_options){0}, &engine, &err);
 *     st = hs_workspace_create(engine, 512, &ws, &err);
 *     st = hs_capture_create(runtime, hs_engine_shape(engine), &selection, n_tokens, &capture, &err);
 *     st = hs_plan_make(hs_engine_recipe(engine), &(hs_sequence){ids, types, n_tokens, capture}, 1, NULL,
 * &plan, &err); st = hs_engine_run(engine, ws, &plan, NULL, &err); */
#pragma once

#include "engine/plan.h"

#include <stdatomic.h>

typedef struct hs_engine hs_engine;
typedef struct hs_workspace hs_workspace;

/* Who multiplies by the weights: our own kernels, or a library. */
typedef enum hs_products {
    HS_PRODUCTS_DEFAULT,
    HS_PRODUCTS_NATIVE,
    HS_PRODUCTS_OPENBLAS,
    HS_PRODUCTS_ONEDNN
} hs_products;
typedef enum hs_precision { HS_PRECISION_FP32, HS_PRECISION_BF16, HS_PRECISION_INT8 } hs_precision;

typedef struct hs_engine_options {
    hs_products products; /* DEFAULT: native, which is the fastest */
    hs_precision precision;
} hs_engine_options;

/* Reads and packs the weights. Runtime, recipe and what it points to must outlive the engine. HS_UNSUPPORTED
 * when the products were not built in, the CPU lacks what the precision needs, or the model's recipe asks for
 * what the engine cannot do. */
HS_MUST_USE hs_status hs_engine_create(hs_runtime *runtime, const hs_recipe *recipe,
                                       const hs_engine_options *options, hs_engine **ret_engine,
                                       hs_error *err);
void hs_engine_destroy(hs_engine *engine); /* NULL is fine */

hs_runtime *hs_engine_runtime(const hs_engine *engine);
const hs_recipe *hs_engine_recipe(const hs_engine *engine);
const hs_shape *hs_engine_shape(const hs_engine *engine); /* the recipe's */
const char *hs_engine_products(const hs_engine *engine);  /* "native", "openblas", "onednn" */
const char *hs_engine_precision(const hs_engine *engine); /* "fp32", "bf16" or "int8" */

/* Scratch for passes of up to tokens_max tokens in all (over every sequence of one plan). */
HS_MUST_USE hs_status hs_workspace_create(const hs_engine *engine, size_t tokens_max, hs_workspace **ret_ws,
                                          hs_error *err);
void hs_workspace_destroy(hs_workspace *ws);        /* NULL is fine */
size_t hs_workspace_tokens(const hs_workspace *ws); /* its tokens_max */
/* What one takes. */
size_t hs_workspace_bytes(const hs_engine *engine, size_t tokens_max);

/* How a run behaves beside others. NULL stands for {0}. */
typedef struct hs_run_control {
    const atomic_int
        *cancelled;   /* looked at between layers; non-zero ends the run with HS_CANCELLED; may be NULL */
    size_t n_threads; /* threads this pass may use; 0 or 1: only the caller's */
} hs_run_control;

/* One forward pass over the sequences of a plan that was made for this engine's recipe, their tokens side by
 * side; no text sees another. */
HS_MUST_USE hs_status hs_engine_run(const hs_engine *engine, hs_workspace *ws, const hs_plan *plan,
                                    const hs_run_control *control, hs_error *err);

/* What the head for masked tokens makes of n_states states: states [n_states][H], of which the first n_inner
 * are of inner layers (a lens) and the others of the last one, as the taps LAST_STATE and EVERY_STATE hold
 * them; logits [n_states][vocab_size]. A state's logits do not depend on what stands beside it.
 * HS_UNSUPPORTED when the checkpoint has no such head (hs_recipe.predictor). */
HS_MUST_USE hs_status hs_engine_predict(const hs_engine *engine, const float *states, size_t n_states,
                                        size_t n_inner, size_t n_threads, float *logits, hs_error *err);
