/* classify.c - the heads of fine-tuned checkpoints, logits = norm(act(x W' + b)) output' + b, and the dense
 * layers of sentence encoders.
 *
 * Their products are packed in fp32 for every precision: most heads compute one row. */
#include "engine/pass/cpu.h"
#include "engine/pass/team.h"

#include <stdlib.h>
#include <string.h>

static hs_status pack_dense(const hs__cpu_engine *engine, const hs_dense *dense, hs__activate *activate,
                            hs__linear **ret_linear, hs_error *err)
{
    const hs__linear_source source = {.parts = &dense,
                                      .n_parts = 1,
                                      .activate = activate,
                                      .cache_bytes = hs_runtime_caches(engine->base.runtime).second};
    if (!dense->weight.data)
        return HS_OK;
    return hs__linear_native.create(&source, engine->kernels, HS_PRECISION_FP32, ret_linear, err);
}

hs_status hs__head_pack(const hs__cpu_engine *engine, const hs_task_head *source, hs__packed_head *head,
                        hs_error *err)
{
    const hs_status st =
        pack_dense(engine, &source->dense, engine->kernels->activate[source->activation], &head->dense, err);
    return st ? st : pack_dense(engine, &source->output, NULL, &head->output, err);
}

void hs__head_unpack(hs__packed_head *head)
{
    hs__linear_destroy(head->dense);
    hs__linear_destroy(head->output);
}

hs_status hs__sentence_pack(hs__cpu_engine *engine, hs_error *err)
{
    const hs_sentence_head *head = &engine->base.architecture->sentence;
    hs_status st = HS_OK;
    for (size_t i = 0; i < head->n_dense && !st; i++) {
        const hs_sentence_dense *dense = &head->dense[i];
        hs__activate *activate = dense->is_linear ? NULL : engine->kernels->activate[dense->activation];
        st = pack_dense(engine, &dense->dense, activate, &engine->sentence[i], err);
    }
    return st;
}

void hs__sentence_unpack(hs__cpu_engine *engine)
{
    for (size_t i = 0; i < HS_SENTENCE_DENSE_MAX; i++)
        hs__linear_destroy(engine->sentence[i]);
}

/* A product whose tasks threads share. */
typedef struct product {
    const hs__linear *linear;
    size_t n_rows, n_threads;
    const float *x;
    float *y;
} product;

static void task_multiply(void *context, size_t task, size_t slot)
{
    (void)slot;
    const product *p = context;
    hs__linear_run(p->linear, p->n_rows, p->n_threads, p->x, p->y, task);
}

static void multiply(hs__team *team, product p)
{
    hs__team_share(team, hs__linear_tasks(p.linear, p.n_rows, p.n_threads), task_multiply, &p);
}

static size_t threads_of(const hs__cpu_engine *engine, size_t n_threads)
{
    return n_threads < 1 ? 1 : n_threads < engine->n_threads ? n_threads : engine->n_threads;
}

static const hs__packed_head *head_of(const hs__cpu_engine *engine, const hs_task_head *source)
{
    return source == &engine->base.architecture->next_sentence ? &engine->next_sentence : &engine->task_head;
}

void hs__cpu_head_dense(const hs_engine *base, const hs_task_head *source, const float *states, size_t n_rows,
                        size_t n_threads, float *ret_rows)
{
    const hs__cpu_engine *engine = (const hs__cpu_engine *)base;
    hs__team team;
    n_threads = threads_of(engine, n_threads);
    hs__team_start(&team, base->runtime, n_threads);
    multiply(&team, (product){head_of(engine, source)->dense, n_rows, n_threads, states, ret_rows});
    hs__team_finish(&team);
}

hs_status hs__cpu_classify(const hs_engine *base, const hs_task_head *source, const float *rows,
                           size_t n_rows, size_t n_threads, float *logits, hs_error *err)
{
    const hs__cpu_engine *engine = (const hs__cpu_engine *)base;
    const hs__packed_head *head = head_of(engine, source);
    const hs__linear *dense = source->pools_late ? NULL : head->dense;
    const size_t H = engine->shape.hidden;
    n_threads = threads_of(engine, n_threads);
    float *y = dense ? malloc(n_rows * H * sizeof *y) : NULL;
    if (dense && !y)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for classes");
    hs__team team;
    hs__team_start(&team, base->runtime, n_threads);
    if (dense)
        multiply(&team, (product){dense, n_rows, n_threads, rows, y});
    if (y && head->norm.gamma)
        engine->add_norm(n_rows, H, y, NULL, head->norm.gamma, head->norm.beta, base->architecture->norm_eps,
                         y);
    multiply(&team, (product){head->output, n_rows, n_threads, y ? y : rows, logits});
    hs__team_finish(&team);
    free(y);
    return HS_OK;
}

hs_status hs__cpu_embed(const hs_engine *base, const float *row, size_t n_threads, float *ret_vector,
                        hs_error *err)
{
    const hs__cpu_engine *engine = (const hs__cpu_engine *)base;
    const size_t n_dense = base->architecture->sentence.n_dense;
    size_t widest = 1;
    for (size_t i = 0; i < n_dense; i++)
        widest = engine->sentence[i]->n_out > widest ? engine->sentence[i]->n_out : widest;
    float *between = malloc(2 * widest * sizeof *between);
    if (!between)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for a sentence vector");
    hs__team team;
    n_threads = threads_of(engine, n_threads);
    hs__team_start(&team, base->runtime, n_threads);
    for (size_t i = 0; i < n_dense; i++) {
        float *y = i + 1 == n_dense ? ret_vector : between + i % 2 * widest;
        multiply(&team, (product){engine->sentence[i], 1, n_threads, row, y});
        row = y;
    }
    hs__team_finish(&team);
    free(between);
    return HS_OK;
}
