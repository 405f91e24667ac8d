/* backend.h - the functions that a kind of device implements.
 *
 * `cpu` (engine/pass) is the only backend. To add a device, write a folder with its own hs_backend and
 * choose it in engine.c. Callers see captures only: how a backend stores weights or loops over tokens is
 * its own matter. */
#pragma once

#include "engine/engine.h"

typedef struct hs_backend {
    const char *name;
    /* The functions of engine.h. Options were checked for values, not for support: each backend refuses
     * options that it does not implement. */
    hs_status (*create)(hs_runtime *runtime, const hs_architecture *architecture,
                        const hs_engine_options *options, hs_engine **ret_engine, hs_error *err);
    void (*destroy)(hs_engine *engine);
    hs_status (*workspace_create)(const hs_engine *engine, size_t tokens_max, hs_workspace **ret_ws,
                                  hs_error *err);
    size_t (*workspace_bytes)(const hs_engine *engine, size_t tokens_max);
    void (*workspace_destroy)(hs_workspace *ws);
    hs_status (*prepare)(const hs_engine *engine, const hs_plan *plan, hs_error *err);
    /* The plan is for this engine's architecture and fits the workspace. */
    hs_status (*run)(const hs_engine *engine, hs_workspace *ws, const hs_plan *plan,
                     const hs_run_control *control, hs_error *err);
    hs_status (*predict)(const hs_engine *engine, const float *states, size_t n_states, size_t n_inner,
                         size_t n_threads, float *logits, hs_error *err);
    /* act(x W' + b) of the states of a task head that the architecture has: ret_rows [n_rows][H]. */
    void (*head_dense)(const hs_engine *engine, const hs_task_head *head, const float *states, size_t n_rows,
                       size_t n_threads, float *ret_rows);
    /* head is a task head that the architecture has. */
    hs_status (*classify)(const hs_engine *engine, const hs_task_head *head, const float *rows, size_t n_rows,
                          size_t n_threads, float *logits, hs_error *err);
    /* Runs a pooled row through the dense layers of the checkpoint's sentence head. */
    hs_status (*embed)(const hs_engine *engine, const float *row, size_t n_threads, float *ret_vector,
                       hs_error *err);
} hs_backend;

extern const hs_backend hs__backend_cpu;

/* The first members of every backend's engine and workspace. */
struct hs_engine {
    const hs_backend *backend;
    hs_runtime *runtime;
    const hs_architecture *architecture;
    hs_precision precision;
    const char *products;
};

struct hs_workspace {
    const hs_engine *engine;
    size_t tokens_max;
};
