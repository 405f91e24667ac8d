/* engine.h - computes the attention heads and states of token ids.
 *
 * Any thread may use an hs_engine. All scratch memory of a pass is in an hs_workspace, which serves one
 * pass at a time. hs_engine_run allocates nothing, never logs, never pads, and takes no lock that another
 * pass holds. OpenBLAS may allocate a buffer for a thread's first product. With native products the
 * results of a text are bit-identical alone, in a batch, on one thread or on many.
 *
 *     st = hs_engine_create(runtime, hs_model_architecture(model), &(hs_engine_options){0}, &engine, &err);
 *     st = hs_workspace_create(engine, 512, &ws, &err);
 *     st = hs_capture_create(runtime, hs_engine_shape(engine), &selection, n_tokens, &capture, &err);
 *     st = hs_engine_compute(engine, ws, &(hs_sequence){ids, types, n_tokens, capture}, 1, NULL, NULL, &err);
 */
#pragma once

#include "engine/plan.h"

#include <stdatomic.h>

typedef struct hs_engine hs_engine;
typedef struct hs_workspace hs_workspace;

/* Implementation of the matrix products with weights: our kernels or a library. */
typedef enum hs_products { HS_PRODUCTS_DEFAULT, HS_PRODUCTS_NATIVE, HS_PRODUCTS_CBLAS } hs_products;
typedef enum hs_precision {
    HS_PRECISION_FP32,
    HS_PRECISION_INT24,
    HS_PRECISION_BF16,
    HS_PRECISION_INT8
} hs_precision;

typedef struct hs_engine_options {
    hs_products products; /* DEFAULT: native, the fastest */
    hs_precision precision;
    bool alone; /* one thread packs weights and computes: helpers would keep the niceness of this thread */
} hs_engine_options;

/* Reads and packs the weights. The runtime, the architecture and its tensors must outlive the engine.
 * Fails with HS_UNSUPPORTED if the CPU or the implementation lacks this precision, or if the engine
 * cannot compute this architecture; with HS_NO_MEMORY. The caller destroys *ret_engine. */
HS_MUST_USE hs_status hs_engine_create(hs_runtime *runtime, const hs_architecture *architecture,
                                       const hs_engine_options *options, hs_engine **ret_engine,
                                       hs_error *err);
void hs_engine_destroy(hs_engine *engine); /* NULL is fine */

/* Measures an engine, without packing weights, and a workspace for tokens_max tokens: the bytes that their
 * creation allocates for good. Fails as hs_engine_create. */
HS_MUST_USE hs_status hs_engine_measure(hs_runtime *runtime, const hs_architecture *architecture,
                                        const hs_engine_options *options, size_t tokens_max,
                                        size_t *ret_engine_bytes, size_t *ret_workspace_bytes, hs_error *err);

/* Prepares the environment for the library behind HS_PRODUCTS_CBLAS, which reads it when it is loaded. Call
 * it before threads begin. */
void hs_products_prepare(void);

/* Writes the library behind HS_PRODUCTS_CBLAS with its version and kernel, or why it cannot be used. Loads
 * the library. */
void hs_cblas_describe(char *ret_text, size_t n_bytes);

/* Writes the instruction sets of native products on this CPU, as in "avx512, int24 by amx, bf16 by amx". */
void hs_kernels_describe(char *ret_text, size_t n_bytes);

hs_runtime *hs_engine_runtime(const hs_engine *engine);
const hs_architecture *hs_engine_architecture(const hs_engine *engine);
const hs_shape *hs_engine_shape(const hs_engine *engine); /* the architecture's */
/* Returns options that make an engine with the same products and precision. */
hs_engine_options hs_engine_options_of(const hs_engine *engine);
const char *hs_engine_products(const hs_engine *engine);  /* "native", or the library of CBLAS: "openblas" */
const char *hs_engine_precision(const hs_engine *engine); /* "fp32", "int24", "bf16" or "int8" */
/* Returns the instruction set of the engine's matrix products with weights: one of hs_kernels_describe. */
const char *hs_engine_kernels(const hs_engine *engine);

/* Creates scratch memory for passes of up to tokens_max tokens, summed over the sequences of a plan. A
 * decoder's memories may have as many in sum.
 * Fails with HS_INVALID or HS_NO_MEMORY. The caller destroys *ret_ws. */
HS_MUST_USE hs_status hs_workspace_create(const hs_engine *engine, size_t tokens_max, hs_workspace **ret_ws,
                                          hs_error *err);
void hs_workspace_destroy(hs_workspace *ws);        /* NULL is fine */
size_t hs_workspace_tokens(const hs_workspace *ws); /* its tokens_max */
/* Returns the size in bytes of such a workspace. */
size_t hs_workspace_bytes(const hs_engine *engine, size_t tokens_max);

/* The way in which a pass shares the machine with others. NULL stands for {0}. */
typedef struct hs_run_control {
    const atomic_int
        *cancelled;   /* read between layers; non-zero ends the pass with HS_CANCELLED; may be NULL */
    size_t n_threads; /* threads of this pass; 0 or 1: the caller's only */
} hs_run_control;

/* control may be NULL. */
static inline bool hs__is_cancelled(const hs_run_control *control)
{
    return control && control->cancelled && atomic_load_explicit(control->cancelled, memory_order_relaxed);
}

/* Computes and keeps the factors of output weights (engine/pass/pass.h) that a plan needs if it
 * measures lengths in the hidden state: VALUE_NORMS or a residual similarity, kept or of an observer. Does
 * nothing for other plans and for layers that are prepared. Allocates, and waits for a thread that
 * prepares the same engine. Fails with HS_NO_MEMORY. Any thread may call it. */
HS_MUST_USE hs_status hs_engine_prepare(const hs_engine *engine, const hs_plan *plan, hs_error *err);

/* Runs one forward pass over the sequences of a plan. The tokens of all sequences lie side by side, and
 * no sequence affects another. Fails with HS_INVALID if the plan is for another architecture or needs
 * hs_engine_prepare first, with HS_TOO_LARGE if the workspace is too small, and with HS_CANCELLED. */
HS_MUST_USE hs_status hs_engine_run(const hs_engine *engine, hs_workspace *ws, const hs_plan *plan,
                                    const hs_run_control *control, hs_error *err);

/* Makes the plan of some sequences, prepares the engine for it and runs the pass. observer and control may be
 * NULL. Fails as hs_plan_make, hs_engine_prepare and hs_engine_run. */
HS_MUST_USE hs_status hs_engine_compute(const hs_engine *engine, hs_workspace *ws,
                                        const hs_sequence *sequences, size_t n_sequences,
                                        const hs_observer *observer, const hs_run_control *control,
                                        hs_error *err);

/* Computes what the heads of a start's layer add to the state: O W_O' + b, ret [n_tokens][H]. Only the layer
 * and the heads' outputs of the start are read. n_tokens are at most the workspace's. */
void hs_engine_write(const hs_engine *engine, hs_workspace *ws, const hs_start *start, size_t n_tokens,
                     float *ret);

/* Computes rows [first, first + n) of S again from what a pass has kept of a head: ret_rows [n][T]. Sets what
 * is above the map's diagonal, with the bits of the pass. The capture keeps HEAD_OUTPUT; l and h are
 * positions in it. Fails with HS_NO_MEMORY. Any thread may call it. */
HS_MUST_USE hs_status hs_engine_similarity(const hs_engine *engine, const hs_capture *capture, size_t l,
                                           size_t h, hs_similarity kind, size_t first, size_t n,
                                           float *ret_rows, hs_error *err);

/* Computes the lengths of the outputs that this S is of, ret_lengths [T], with the bits that an hs_observer
 * gets. The same holds for the capture, errors and threads. */
HS_MUST_USE hs_status hs_engine_lengths(const hs_engine *engine, const hs_capture *capture, size_t l,
                                        size_t h, hs_similarity kind, float *ret_lengths, hs_error *err);

/* The same for rows of A: ret_rows [n][K]. The capture keeps QUERY and KEY, and no intervention replaces the
 * head's A. */
HS_MUST_USE hs_status hs_engine_attention(const hs_engine *engine, const hs_capture *capture, size_t l,
                                          size_t h, size_t first, size_t n, float *ret_rows, hs_error *err);

/* Computes the logits that the head for masked tokens predicts from n_states states: states
 * [n_states][H], logits [n_states][vocab_size]. The first n_inner states are of inner layers (a lens),
 * the others of the last layer, as the taps EVERY_STATE and LAST_STATE hold them. The logits of a state
 * do not depend on the other states. Fails with HS_UNSUPPORTED if the checkpoint has no such head
 * (hs_architecture.predictor). */
HS_MUST_USE hs_status hs_engine_predict(const hs_engine *engine, const float *states, size_t n_states,
                                        size_t n_inner, size_t n_threads, float *logits, hs_error *err);

/* Returns true if the head reads one vector of a text rather than each token. */
bool hs_task_head_is_pooled(const hs_task_head *head);

/* Writes the vector [H] that a pooled head of the engine's architecture reads of a text's last states [T][H].
 * `text` is a capture that a pass over the text has filled; only its numbers of tokens are read.
 * A head that pools late has its dense layer in this vector. Fails with HS_NO_MEMORY. Any thread may call it.
 */
HS_MUST_USE hs_status hs_engine_pool(const hs_engine *engine, const hs_task_head *head, const float *states,
                                     const hs_capture *text, size_t n_threads, float *ret_row, hs_error *err);

/* Returns the pooling of a sentence vector: the requested one, with the checkpoint's own ways if that has n
 * 0, or the mean if neither says. */
hs_pooling hs_sentence_pooling(const hs_architecture *architecture, const hs_pooling *requested);

/* Returns the width of a sentence vector: n_columns of the pooling, or all that the last module makes.
 * Returns 0 if the dense layers of the checkpoint cannot read this pooling. */
size_t hs_sentence_width(const hs_architecture *architecture, const hs_pooling *pooling);

/* Computes the sentence vector of a text: its last states [T][H] pooled, then through the checkpoint's dense
 * layers, and divided by its length if the checkpoint says so. The pooling may cut it and divide it again, in
 * the order of encode() of sentence-transformers. ret_vector has hs_sentence_width columns, which must not
 * be 0. Fails with HS_NO_MEMORY. Any thread may call it. */
HS_MUST_USE hs_status hs_engine_embed(const hs_engine *engine, const hs_pooling *pooling, const float *states,
                                      size_t n_tokens, size_t n_threads, float *ret_vector, hs_error *err);

/* Computes the logits [n_rows][n_classes] of a task head of the engine's architecture: rows [n_rows][H] are
 * states of the last layer, or of a pooled head vectors of hs_engine_pool. Fails with HS_UNSUPPORTED if
 * the checkpoint has no such head and with HS_NO_MEMORY. Any thread may call it. */
HS_MUST_USE hs_status hs_engine_classify(const hs_engine *engine, const hs_task_head *head, const float *rows,
                                         size_t n_rows, size_t n_threads, float *logits, hs_error *err);
