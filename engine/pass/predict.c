/* predict.c - what the heads behind the layers compute: logits of tokens, classes, sentence vectors. */
#include "engine/pass/pass.h"

#include "engine/pass/team.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Limits the threads of a call to those of the engine; at least 1. */
static size_t threads_of(const hs_engine *engine, size_t n_threads)
{
    return n_threads < 1 ? 1 : n_threads < engine->n_threads ? n_threads : engine->n_threads;
}

/* ---- predict ----
 *
 * The head for masked or next tokens: logits = norm(act(dense(h))) decoder' + bias, capped if the model says
 * so.
 *
 * The decoder is usually the table of word embeddings, 94 MB of BERT-base, and each call needs it for a
 * few positions. It is read once from the model's file, all positions for each row. A packed form would
 * be a second copy. */

enum {
    ROWS_OF_TASK = 512, /* of the decoder in a task */
    ROWS_AT_ONCE = 32,  /* converted to floats at a time: they stay in the second-level cache */
};

static size_t width_of(const hs_engine *engine)
{
    return engine->architecture->predictor.decoder.n_columns;
}

typedef struct prediction {
    const hs_engine *engine;
    const float *x; /* [n_states][P]: input of the decoder */
    size_t n_states;
    float *rows; /* [n_threads][ROWS_AT_ONCE][P]: rows of the decoder as floats */
    float *logits;
} prediction;

/* Replaces n columns of the logits l by cap tanh(l / cap). */
static void columns_cap(const prediction *p, size_t first, size_t n)
{
    const size_t V = p->engine->shape.vocab_size;
    const float cap = (float)p->engine->architecture->predictor.cap;
    for (size_t i = 0; i < p->n_states; i++) {
        float *row = p->logits + i * V + first;
        for (size_t j = 0; j < n; j++)
            row[j] /= cap;
        p->engine->kernels->activate[HS_TANH](1, n, row, V);
        for (size_t j = 0; j < n; j++)
            row[j] *= cap;
    }
}

/* Computes n columns of the logits from n rows of the decoder. */
static void columns_compute(const prediction *p, size_t first, size_t n, const float *rows)
{
    const size_t P = width_of(p->engine), V = p->engine->shape.vocab_size;
    p->engine->kernels->dots(p->n_states, P, p->x, P, n, rows, P, p->logits + first, V);
    p->engine->kernels->add_bias(p->n_states, n, p->engine->predictor.bias + first, p->logits + first, V);
    if (p->engine->architecture->predictor.cap > 0)
        columns_cap(p, first, n);
}

static void task_decode(void *context, size_t task, size_t slot)
{
    const prediction *p = context;
    const hs_tensor *decoder = &p->engine->architecture->predictor.decoder;
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
static void transform(const hs_engine *engine, const float *states, size_t n_states, size_t n_inner,
                      float *normed, float *y)
{
    const hs__packed_predictor *predictor = &engine->predictor;
    const size_t H = engine->shape.hidden;
    const float eps = engine->architecture->norm_eps;
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
    const float scale = (float)engine->architecture->predictor.scale;
    for (size_t i = 0; scale > 0 && i < n_states * width_of(engine); i++)
        y[i] *= scale;
}

hs_status hs_engine_predict(const hs_engine *engine, const float *states, size_t n_states, size_t n_inner,
                            size_t n_threads, float *logits, hs_error *err)
{
    if (!engine->architecture->predictor.decoder.data)
        return hs_fail(err, HS_UNSUPPORTED, "the checkpoint has no head that predicts masked tokens");
    const size_t P = width_of(engine), H = engine->shape.hidden;
    n_threads = threads_of(engine, n_threads);
    float *y = malloc((n_states * (P + H) + n_threads * ROWS_AT_ONCE * P) * sizeof *y);
    if (!y)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for predictions");
    float *normed = y + n_states * P;
    transform(engine, states, n_states, n_inner, normed, y);
    prediction p = {engine, y, n_states, normed + n_states * H, logits};
    hs__team team;
    hs__team_start(&team, engine->runtime, n_threads);
    hs__team_share(&team, (engine->shape.vocab_size + ROWS_OF_TASK - 1) / ROWS_OF_TASK, task_decode, &p);
    hs__team_finish(&team);
    free(y);
    return HS_OK;
}

/* ---- pooling ---- */

/* Returns the sum of a column over tokens first to n_tokens - 1, each times its number from 1 if weighted. */
static double sum_of(const float *column, size_t first, size_t n_tokens, size_t step, bool weighted)
{
    double sum = 0;
    for (size_t t = first; t < n_tokens; t++)
        sum += (double)column[t * step] * (weighted ? (double)(t + 1) : 1);
    return sum;
}

static float largest(const float *column, size_t first, size_t n_tokens, size_t step)
{
    float most = column[first * step];
    for (size_t t = first + 1; t < n_tokens; t++)
        most = column[t * step] > most ? column[t * step] : most;
    return most;
}

static float pool_column(hs_pool way, const float *column, size_t first, size_t n_tokens, size_t step)
{
    const double n = (double)n_tokens, n_left_out = (double)first;
    switch (way) {
    case HS_POOL_CLS:
        return column[first * step];
    case HS_POOL_LAST:
        return column[(n_tokens - 1) * step];
    case HS_POOL_MAX:
        return largest(column, first, n_tokens, step);
    case HS_POOL_MEAN:
        return (float)(sum_of(column, first, n_tokens, step, false) / (n - n_left_out));
    case HS_POOL_MEAN_SQRT:
        return (float)(sum_of(column, first, n_tokens, step, false) / sqrt(n - n_left_out));
    default: /* HS_POOL_WEIGHTED */
        return (float)(sum_of(column, first, n_tokens, step, true) /
                       ((n * (n + 1) - n_left_out * (n_left_out + 1)) / 2));
    }
}

/* Pools the last states [T][H] of the tokens from `first` on in one way; ret_row is [H]. HS_POOL_CLS takes
 * the state of that token, and HS_POOL_WEIGHTED keeps the weights of the whole text. */
static void pool_states(hs_pool way, const float *states, size_t first, size_t n_tokens, size_t hidden,
                        float *ret_row)
{
    for (size_t i = 0; i < hidden; i++)
        ret_row[i] = pool_column(way, states + i, first, n_tokens, hidden);
}

/* ---- classify ----
 *
 * The heads of fine-tuned checkpoints, logits = norm(act(x W' + b)) output' + b, and the dense
 * layers of sentence encoders. */

static const hs__packed_head *head_of(const hs_engine *engine, const hs_task_head *source)
{
    return source == &engine->architecture->next_sentence ? &engine->next_sentence : &engine->task_head;
}

/* Computes act(x W' + b) of the states of a task head: ret_rows [n_rows][H]. */
static void head_dense(const hs_engine *engine, const hs_task_head *source, const float *states,
                       size_t n_rows, size_t n_threads, float *ret_rows)
{
    hs__team team;
    n_threads = threads_of(engine, n_threads);
    hs__team_start(&team, engine->runtime, n_threads);
    hs__product_share(&team,
                      (hs__product){head_of(engine, source)->dense, n_rows, n_threads, states, ret_rows});
    hs__team_finish(&team);
}

bool hs_task_head_is_pooled(const hs_task_head *head)
{
    return head->task == HS_TASK_SEQUENCE || head->task == HS_TASK_NEXT_SENTENCE;
}

hs_status hs_engine_pool(const hs_engine *engine, const hs_task_head *head, const float *states,
                         const hs_capture *text, size_t n_threads, float *ret_row, hs_error *err)
{
    const size_t H = engine->shape.hidden, n_tokens = text->n_tokens;
    if (!head->pools_late) {
        pool_states(head->pool, states, 0, head->pool == HS_POOL_LAST ? text->n_unpadded : n_tokens, H,
                    ret_row);
        return HS_OK;
    }
    float *rows = malloc(n_tokens * H * sizeof *rows);
    if (!rows)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for classes");
    head_dense(engine, head, states, n_tokens, n_threads, rows);
    pool_states(head->pool, rows, 0, n_tokens, H, ret_row);
    free(rows);
    return HS_OK;
}

hs_status hs_engine_classify(const hs_engine *engine, const hs_task_head *source, const float *rows,
                             size_t n_rows, size_t n_threads, float *logits, hs_error *err)
{
    if (!source->task)
        return hs_fail(err, HS_UNSUPPORTED, "the checkpoint has no such head");
    const hs__packed_head *head = head_of(engine, source);
    const hs__linear *dense = source->pools_late ? NULL : head->dense;
    const size_t P = dense ? dense->n_out : 0;
    n_threads = threads_of(engine, n_threads);
    float *y = dense ? malloc(n_rows * P * sizeof *y) : NULL;
    if (dense && !y)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for classes");
    hs__team team;
    hs__team_start(&team, engine->runtime, n_threads);
    if (dense)
        hs__product_share(&team, (hs__product){dense, n_rows, n_threads, rows, y});
    if (y && head->norm.gamma)
        engine->add_norm(n_rows, P, y, NULL, head->norm.gamma, head->norm.beta,
                         engine->architecture->norm_eps, y);
    hs__product_share(&team, (hs__product){head->output, n_rows, n_threads, y ? y : rows, logits});
    hs__team_finish(&team);
    free(y);
    return HS_OK;
}

/* Runs a pooled row through the dense layers of the checkpoint's sentence head. */
static hs_status dense_layers_run(const hs_engine *engine, const float *row, size_t n_threads,
                                  float *ret_vector, hs_error *err)
{
    const size_t n_dense = engine->architecture->sentence.n_dense;
    size_t widest = 1;
    for (size_t i = 0; i < n_dense; i++)
        widest = engine->sentence[i]->n_out > widest ? engine->sentence[i]->n_out : widest;
    float *between = malloc(2 * widest * sizeof *between);
    if (!between)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for a sentence vector");
    hs__team team;
    n_threads = threads_of(engine, n_threads);
    hs__team_start(&team, engine->runtime, n_threads);
    for (size_t i = 0; i < n_dense; i++) {
        float *y = i + 1 == n_dense ? ret_vector : between + i % 2 * widest;
        hs__product_share(&team, (hs__product){engine->sentence[i], 1, n_threads, row, y});
        row = y;
    }
    hs__team_finish(&team);
    free(between);
    return HS_OK;
}

/* ---- sentence vector ----
 *
 * One vector of a text, as sentence-transformers makes it: pooling, dense layers, norm; then what encode()
 * does with truncate_dim and normalize_embeddings. */

hs_pooling hs_sentence_pooling(const hs_architecture *architecture, const hs_pooling *requested)
{
    const hs_pooling *own = &architecture->sentence.pooling;
    hs_pooling pooling = requested->n > 0 ? *requested
                         : own->n > 0     ? *own
                                          : (hs_pooling){.n = 1, .ways = {HS_POOL_MEAN}};
    pooling.n_columns = requested->n_columns;
    pooling.normalized = requested->normalized;
    return pooling;
}

/* Returns how wide the vector is before it is cut. */
static size_t modules_width(const hs_architecture *architecture, const hs_pooling *pooling)
{
    const hs_sentence_head *head = &architecture->sentence;
    const size_t width = pooling->n * architecture->shape.hidden;
    if (head->n_dense == 0)
        return width;
    return head->dense[0].dense.weight.n_columns == width ? head->dense[head->n_dense - 1].dense.weight.n_rows
                                                          : 0;
}

size_t hs_sentence_width(const hs_architecture *architecture, const hs_pooling *pooling)
{
    const size_t width = modules_width(architecture, pooling);
    return pooling->n_columns > 0 && pooling->n_columns < width ? pooling->n_columns : width;
}

static void pool(const hs_pooling *pooling, const float *states, size_t n_tokens, size_t hidden,
                 float *ret_row)
{
    for (size_t i = 0; i < pooling->n; i++)
        pool_states(pooling->ways[i], states, pooling->first, n_tokens, hidden, ret_row + i * hidden);
}

static void normalize(float *vector, size_t n)
{
    const double least = 1e-12; /* as in torch.nn.functional.normalize */
    double squares = 0;
    for (size_t i = 0; i < n; i++)
        squares += (double)vector[i] * (double)vector[i];
    const double length = sqrt(squares) > least ? sqrt(squares) : least;
    for (size_t i = 0; i < n; i++)
        vector[i] = (float)((double)vector[i] / length);
}

/* Pools the states and runs them through the dense layers. */
static hs_status embed_dense(const hs_engine *engine, const hs_pooling *pooling, const float *states,
                             size_t n_tokens, size_t n_threads, float *ret_vector, hs_error *err)
{
    const size_t hidden = engine->architecture->shape.hidden;
    float *row = malloc(pooling->n * hidden * sizeof *row);
    if (!row)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for a sentence vector");
    pool(pooling, states, n_tokens, hidden, row);
    const hs_status st = dense_layers_run(engine, row, n_threads, ret_vector, err);
    free(row);
    return st;
}

/* Runs the modules of the checkpoint. ret_vector has modules_width columns. */
static hs_status modules_run(const hs_engine *engine, const hs_pooling *pooling, const float *states,
                             size_t n_tokens, size_t n_threads, float *ret_vector, hs_error *err)
{
    const hs_architecture *architecture = engine->architecture;
    hs_status st = HS_OK;
    if (architecture->sentence.n_dense > 0)
        st = embed_dense(engine, pooling, states, n_tokens, n_threads, ret_vector, err);
    else
        pool(pooling, states, n_tokens, architecture->shape.hidden, ret_vector);
    if (architecture->sentence.normalized && !st)
        normalize(ret_vector, modules_width(architecture, pooling));
    return st;
}

hs_status hs_engine_embed(const hs_engine *engine, const hs_pooling *pooling, const float *states,
                          size_t n_tokens, size_t n_threads, float *ret_vector, hs_error *err)
{
    const size_t width = modules_width(engine->architecture, pooling);
    const size_t n_kept = hs_sentence_width(engine->architecture, pooling);
    float *cut = n_kept < width ? calloc(width, sizeof *cut) : NULL;
    if (n_kept < width && !cut)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for a sentence vector");
    const hs_status st =
        modules_run(engine, pooling, states, n_tokens, n_threads, cut ? cut : ret_vector, err);
    if (cut && !st)
        memcpy(ret_vector, cut, n_kept * sizeof *cut);
    if (pooling->normalized && !st)
        normalize(ret_vector, n_kept);
    free(cut);
    return st;
}
