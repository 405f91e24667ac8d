/* engine.c - engines and workspaces as callers know them: checks that every backend would make, then the
 * backend. */
#include "engine/backend.h"

hs_status hs_engine_create(hs_runtime *runtime, const hs_recipe *recipe, const hs_engine_options *options,
                           hs_engine **ret_engine, hs_error *err)
{
    const hs_backend *backend = &hs__backend_cpu; /* the choice, when there is another */
    return backend->create(runtime, recipe, options, ret_engine, err);
}

void hs_engine_destroy(hs_engine *engine)
{
    if (engine)
        engine->backend->destroy(engine);
}

hs_runtime *hs_engine_runtime(const hs_engine *engine)
{
    return engine->runtime;
}

const hs_recipe *hs_engine_recipe(const hs_engine *engine)
{
    return engine->recipe;
}

const hs_shape *hs_engine_shape(const hs_engine *engine)
{
    return &engine->recipe->shape;
}

const char *hs_engine_products(const hs_engine *engine)
{
    return engine->products;
}

const char *hs_engine_precision(const hs_engine *engine)
{
    static const char *const names[] = {
        [HS_PRECISION_FP32] = "fp32", [HS_PRECISION_BF16] = "bf16", [HS_PRECISION_INT8] = "int8"};
    return names[engine->precision];
}

size_t hs_workspace_bytes(const hs_engine *engine, size_t tokens_max)
{
    return engine->backend->workspace_bytes(engine, tokens_max);
}

hs_status hs_workspace_create(const hs_engine *engine, size_t tokens_max, hs_workspace **ret_ws,
                              hs_error *err)
{
    const size_t limit = (size_t)1 << 22; /* keeps every product of sizes far from overflow */
    if (tokens_max < 1 || tokens_max > limit)
        return hs_fail(err, HS_INVALID, "a workspace serves 1 to %zu tokens, not %zu", limit, tokens_max);
    return engine->backend->workspace_create(engine, tokens_max, ret_ws, err);
}

size_t hs_workspace_tokens(const hs_workspace *ws)
{
    return ws->tokens_max;
}

void hs_workspace_destroy(hs_workspace *ws)
{
    if (ws)
        ws->engine->backend->workspace_destroy(ws);
}

hs_status hs_engine_run(const hs_engine *engine, hs_workspace *ws, const hs_plan *plan,
                        const hs_run_control *control, hs_error *err)
{
    static const hs_run_control alone = {0};
    if (plan->recipe != engine->recipe)
        return hs_fail(err, HS_INVALID, "the plan was made for another model");
    if (plan->n_tokens > ws->tokens_max)
        return hs_fail(err, HS_TOO_LARGE, "%zu tokens are more than the workspace's %zu", plan->n_tokens,
                       ws->tokens_max);
    return engine->backend->run(engine, ws, plan, control ? control : &alone, err);
}

hs_status hs_engine_predict(const hs_engine *engine, const float *states, size_t n_states, size_t n_inner,
                            size_t n_threads, float *logits, hs_error *err)
{
    if (!engine->recipe->predictor.decoder.data)
        return hs_fail(err, HS_UNSUPPORTED, "the checkpoint has no head that predicts masked tokens");
    return engine->backend->predict(engine, states, n_states, n_inner, n_threads, logits, err);
}
