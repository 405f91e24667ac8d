/* engine.c - the public functions of engines and workspaces: checks that hold for every backend, then the
 * backend. */
#include "engine/backend.h"

#include <stdlib.h>

hs_status hs_engine_create(hs_runtime *runtime, const hs_architecture *architecture,
                           const hs_engine_options *options, hs_engine **ret_engine, hs_error *err)
{
    const hs_backend *backend = &hs__backend_cpu; /* the only backend */
    return backend->create(runtime, architecture, options, ret_engine, err);
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

const hs_architecture *hs_engine_architecture(const hs_engine *engine)
{
    return engine->architecture;
}

const hs_shape *hs_engine_shape(const hs_engine *engine)
{
    return &engine->architecture->shape;
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
    const size_t limit = (size_t)1 << 22; /* far below any overflow of sizes */
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

hs_status hs_engine_prepare(const hs_engine *engine, const hs_plan *plan, hs_error *err)
{
    return engine->backend->prepare(engine, plan, err);
}

/* Notes in each capture where its text ends, for heads that read the last token. */
static void ends_note(const hs_plan *plan)
{
    const int32_t padding_id = plan->architecture->task_head.padding_id;
    for (size_t i = 0; i < plan->n_sequences; i++) {
        size_t n = plan->sequences[i].n_tokens;
        while (n > 1 && plan->sequences[i].ids[n - 1] == padding_id)
            n--;
        plan->sequences[i].capture->n_unpadded = n;
    }
}

hs_status hs_engine_run(const hs_engine *engine, hs_workspace *ws, const hs_plan *plan,
                        const hs_run_control *control, hs_error *err)
{
    static const hs_run_control alone = {0};
    if (plan->architecture != engine->architecture)
        return hs_fail(err, HS_INVALID, "the plan was made for another model");
    if (plan->n_tokens > ws->tokens_max)
        return hs_fail(err, HS_TOO_LARGE, "%zu tokens are more than the workspace's %zu", plan->n_tokens,
                       ws->tokens_max);
    ends_note(plan);
    return engine->backend->run(engine, ws, plan, control ? control : &alone, err);
}

hs_status hs_engine_compute(const hs_engine *engine, hs_workspace *ws, const hs_sequence *sequences,
                            size_t n_sequences, const hs_observer *observer, const hs_run_control *control,
                            hs_error *err)
{
    hs_plan plan;
    hs_status st = hs_plan_make(engine->architecture, sequences, n_sequences, observer, &plan, err);
    if (!st)
        st = hs_engine_prepare(engine, &plan, err);
    return st ? st : hs_engine_run(engine, ws, &plan, control, err);
}

hs_status hs_engine_predict(const hs_engine *engine, const float *states, size_t n_states, size_t n_inner,
                            size_t n_threads, float *logits, hs_error *err)
{
    if (!engine->architecture->predictor.decoder.data)
        return hs_fail(err, HS_UNSUPPORTED, "the checkpoint has no head that predicts masked tokens");
    return engine->backend->predict(engine, states, n_states, n_inner, n_threads, logits, err);
}

bool hs_task_head_is_pooled(const hs_task_head *head)
{
    return head->task == HS_TASK_SEQUENCE || head->task == HS_TASK_NEXT_SENTENCE;
}

hs_status hs_engine_pool(const hs_engine *engine, const hs_task_head *head, const float *states,
                         const hs_capture *text, size_t n_threads, float *ret_row, hs_error *err)
{
    const size_t H = engine->architecture->shape.hidden, n_tokens = text->n_tokens;
    if (!head->pools_late) {
        hs_states_pool(head->pool, states, 0, head->pool == HS_POOL_LAST ? text->n_unpadded : n_tokens, H,
                       ret_row);
        return HS_OK;
    }
    float *rows = malloc(n_tokens * H * sizeof *rows);
    if (!rows)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for classes");
    engine->backend->head_dense(engine, head, states, n_tokens, n_threads, rows);
    hs_states_pool(head->pool, rows, 0, n_tokens, H, ret_row);
    free(rows);
    return HS_OK;
}

hs_status hs_engine_classify(const hs_engine *engine, const hs_task_head *head, const float *rows,
                             size_t n_rows, size_t n_threads, float *logits, hs_error *err)
{
    if (!head->task)
        return hs_fail(err, HS_UNSUPPORTED, "the checkpoint has no such head");
    return engine->backend->classify(engine, head, rows, n_rows, n_threads, logits, err);
}
