/* predict.c - the head for masked or next tokens: logits = norm(act(dense(h))) decoder' + bias.
 *
 * The decoder is usually the table of word embeddings, 94 MB of BERT-base, and each call needs it for a
 * few positions. It is read once from the model's file, all positions for each row. A packed form would
 * be a second copy. */
#include "engine/pass/cpu.h"
#include "engine/pass/team.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROWS_OF_TASK = 512, /* of the decoder in a task */
    ROWS_AT_ONCE = 32,  /* converted to floats at a time: they stay in the second-level cache */
};

static size_t width_of(const hs__cpu_engine *engine)
{
    return engine->base.architecture->predictor.decoder.n_columns;
}

typedef struct prediction {
    const hs__cpu_engine *engine;
    const float *x; /* [n_states][P]: input of the decoder */
    size_t n_states;
    float *rows; /* [n_threads][ROWS_AT_ONCE][P]: rows of the decoder as floats */
    float *logits;
} prediction;

/* Computes n columns of the logits from n rows of the decoder. */
static void columns_compute(const prediction *p, size_t first, size_t n, const float *rows)
{
    const size_t P = width_of(p->engine), V = p->engine->shape.vocab_size;
    p->engine->kernels->dots(p->n_states, P, p->x, P, n, rows, P, p->logits + first, V);
    p->engine->kernels->add_bias(p->n_states, n, p->engine->predictor.bias + first, p->logits + first, V);
}

static void task_decode(void *context, size_t task, size_t slot)
{
    const prediction *p = context;
    const hs_tensor *decoder = &p->engine->base.architecture->predictor.decoder;
    const size_t P = decoder->n_columns, V = decoder->n_rows;
    const size_t first = task * ROWS_OF_TASK, end = first + ROWS_OF_TASK < V ? first + ROWS_OF_TASK : V;
    if (decoder->dtype == HS_F32 && (uintptr_t)decoder->data % sizeof(float) == 0) {
        columns_compute(p, first, end - first, (const float *)decoder->data + first * P);
        return;
    }
    float *rows = p->rows + slot * ROWS_AT_ONCE * P;
    for (size_t at = first; at < end; at += ROWS_AT_ONCE) {
        const size_t n = end - at < ROWS_AT_ONCE ? end - at : ROWS_AT_ONCE;
        hs_tensor_read(decoder, at, n, rows);
        columns_compute(p, at, n, rows);
    }
}

/* Computes the decoder's input, y [n_states][P]. Inner states get the final norm first; `normed` is
 * scratch for all. */
static void transform(const hs__cpu_engine *engine, const float *states, size_t n_states, size_t n_inner,
                      float *normed, float *y)
{
    const hs__packed_predictor *predictor = &engine->predictor;
    const size_t H = engine->shape.hidden;
    const float eps = engine->base.architecture->norm_eps;
    memcpy(normed, states, n_states * H * sizeof *normed);
    if (engine->final_norm.gamma)
        engine->add_norm(n_inner, H, states, NULL, engine->final_norm.gamma, engine->final_norm.beta, eps,
                         normed);
    if (!predictor->dense)
        memcpy(y, normed, n_states * H * sizeof *y);
    for (size_t task = 0; predictor->dense && task < hs__linear_tasks(predictor->dense, n_states, 1); task++)
        hs__linear_run(predictor->dense, n_states, 1, normed, y, task);
    if (predictor->norm.gamma)
        engine->add_norm(n_states, width_of(engine), y, NULL, predictor->norm.gamma, predictor->norm.beta,
                         eps, y);
}

hs_status hs__cpu_predict(const hs_engine *base, const float *states, size_t n_states, size_t n_inner,
                          size_t n_threads, float *logits, hs_error *err)
{
    const hs__cpu_engine *engine = (const hs__cpu_engine *)base;
    const size_t P = width_of(engine), H = engine->shape.hidden;
    n_threads = n_threads < 1 ? 1 : n_threads < engine->n_threads ? n_threads : engine->n_threads;
    float *y = malloc((n_states * (P + H) + n_threads * ROWS_AT_ONCE * P) * sizeof *y);
    if (!y)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for predictions");
    float *normed = y + n_states * P;
    transform(engine, states, n_states, n_inner, normed, y);
    prediction p = {engine, y, n_states, normed + n_states * H, logits};
    hs__team team;
    hs__team_start(&team, base->runtime, n_threads);
    hs__team_share(&team, (engine->shape.vocab_size + ROWS_OF_TASK - 1) / ROWS_OF_TASK, task_decode, &p);
    hs__team_finish(&team);
    free(y);
    return HS_OK;
}
