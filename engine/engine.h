/* engine.h - token ids in, attention heads out.
 *
 * An hs_engine never changes once created: any thread may use it. All scratch of a pass is in an
 * hs_workspace, which serves one pass at a time. A pass allocates nothing (but what the onednn backend does
 * inside its library), never logs, never pads. With the native backend a text's numbers have the same bits
 * alone, in a batch, on one thread or on many.
 *
 *     st = hs_engine_create(model, &(hs_engine_options){0}, &engine, &err);
 *     st = hs_workspace_create(engine, 512, &ws, &err);
 *     st = hs_capture_create(hs_engine_shape(engine), &selection, n_tokens, &capture, &err);
 *     st = hs_engine_run(engine, ws, &(hs_sequence){ ids, types, n_tokens, capture }, 1, NULL, &err); */
#pragma once

#include "engine/pass/capture.h"
#include "model/model.h"

#include <stdatomic.h>

typedef struct hs_engine hs_engine;
typedef struct hs_workspace hs_workspace;

/* Who multiplies by the weights: our own kernels, or a library. */
typedef enum hs_backend {
    HS_BACKEND_DEFAULT,
    HS_BACKEND_NATIVE,
    HS_BACKEND_OPENBLAS,
    HS_BACKEND_ONEDNN
} hs_backend;
typedef enum hs_precision { HS_PRECISION_FP32, HS_PRECISION_BF16 } hs_precision;

typedef struct hs_engine_options {
    hs_backend backend; /* DEFAULT: native, which is the fastest */
    hs_precision precision;
    size_t n_threads; /* threads a pass may use, its own included; 0: one per core we may run on */
} hs_engine_options;

/* Reads and packs the weights. The model must outlive the engine. HS_UNSUPPORTED when the backend was not
 * built in or the CPU lacks what the precision needs. */
HS_MUST_USE hs_status hs_engine_create(const hs_model *model, const hs_engine_options *options,
                                       hs_engine **ret_engine, hs_error *err);
void hs_engine_destroy(hs_engine *engine); /* NULL is fine */

const hs_shape *hs_engine_shape(const hs_engine *engine);
const char *hs_engine_backend(const hs_engine *engine);   /* "native", "openblas", "onednn" */
const char *hs_engine_precision(const hs_engine *engine); /* "fp32" or "bf16" */

/* Scratch for passes of up to tokens_max tokens in all (over every sequence of one run). */
HS_MUST_USE hs_status hs_workspace_create(const hs_engine *engine, size_t tokens_max, hs_workspace **ret_ws,
                                          hs_error *err);
void hs_workspace_destroy(hs_workspace *ws); /* NULL is fine */

/* One text of a run. */
typedef struct hs_sequence {
    const int32_t *ids;   /* [n_tokens], each in [0, vocab_size) */
    const uint8_t *types; /* [n_tokens], or NULL: all 0 */
    size_t n_tokens;      /* 1 .. n_positions */
    hs_capture *capture;  /* filled by the run; made for this shape and n_tokens */
} hs_sequence;

/* Maps of one head of one sequence of T tokens. */
typedef struct hs_observed_head {
    const float *attention;  /* [T][T] */
    const float *similarity; /* [T][T], above the diagonal; the rest is only there if it is kept */
    const float *columns;    /* [T]: sum over rows of attention */
} hs_observed_head;

/* Is shown every head that the sequences' captures list, whether they keep it or not, while its maps are in
 * the nearest cache. Layer after layer: each head of it, of each sequence, in these orders. */
typedef struct hs_observer {
    float *attention,
        *similarity; /* [T][T], T of the longest sequence: where maps that are not kept are made */
    float *columns;  /* [T] */
    /* l and h are positions in the capture. What head points to is valid during the call. */
    void (*show)(void *context, size_t sequence, size_t l, size_t h, const hs_observed_head *head);
    void *context;
} hs_observer;

/* How a run behaves beside others. NULL stands for {0}. */
typedef struct hs_run_control {
    const atomic_int
        *cancelled;   /* looked at between layers; non-zero ends the run with HS_CANCELLED; may be NULL */
    size_t n_threads; /* threads this pass may use; 0 or 1: only the caller's */
    const hs_observer *observer; /* may be NULL; a pass that is observed stays on the caller's thread */
} hs_run_control;

/* One forward pass over n_sequences texts at once, their tokens side by side; no text sees another.
 * Layers past the last one any capture asks for are not computed. */
HS_MUST_USE hs_status hs_engine_run(const hs_engine *engine, hs_workspace *ws, const hs_sequence *sequences,
                                    size_t n_sequences, const hs_run_control *control, hs_error *err);
