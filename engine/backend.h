/* backend.h - what carries out plans: a struct of functions, one for each kind of device.
 *
 * `cpu` is the one there is (engine/pass). Another device is a folder with an hs_backend of its own and its
 * line in engine.c's choice: nothing above sees how a backend holds weights or loops over tokens, only
 * captures it filled. */
#pragma once

#include "engine/engine.h"

typedef struct hs_backend {
    const char *name;
    /* As the functions of engine.h. Options are sound for no backend in particular: each refuses what it
     * lacks. */
    hs_status (*create)(hs_runtime *runtime, const hs_recipe *recipe, const hs_engine_options *options,
                        hs_engine **ret_engine, hs_error *err);
    void (*destroy)(hs_engine *engine);
    hs_status (*workspace_create)(const hs_engine *engine, size_t tokens_max, hs_workspace **ret_ws,
                                  hs_error *err);
    size_t (*workspace_bytes)(const hs_engine *engine, size_t tokens_max);
    void (*workspace_destroy)(hs_workspace *ws);
    /* The plan is of this recipe and fits the workspace. */
    hs_status (*run)(const hs_engine *engine, hs_workspace *ws, const hs_plan *plan,
                     const hs_run_control *control, hs_error *err);
    hs_status (*predict)(const hs_engine *engine, const float *states, size_t n_states, size_t n_inner,
                         size_t n_threads, float *logits, hs_error *err);
} hs_backend;

extern const hs_backend hs__backend_cpu;

/* What every backend's engine and workspace begin with. */
struct hs_engine {
    const hs_backend *backend;
    hs_runtime *runtime;
    const hs_recipe *recipe;
    hs_precision precision;
    const char *products;
};

struct hs_workspace {
    const hs_engine *engine;
    size_t tokens_max;
};
