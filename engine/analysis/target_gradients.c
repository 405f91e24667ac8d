/* target_gradients.c - the gradient of a target with respect to the last states of its text. */
#include "engine/analysis/attribution.h"

#include "engine/analysis/analysis_maps.h"
#include "engine/pass/tape.h"

#include <stdlib.h>
#include <string.h>

/* A target that is being read of a tape. */
typedef struct reading {
    const hs_tape *tape;
    const hs_engine *engine;
    const hs_target *target;
    const float *states; /* [T][H] */
    size_t T, n_threads;
    const hs_run_control *control; /* or NULL */
    double *ret_value;             /* not NULL */
    float *ret_last;               /* or NULL */
} reading;

static const hs_task_head *task_head_of(const reading *r)
{
    return &r->engine->architecture->task_head;
}

/* ---- sentence vectors ---- */

/* Computes the cosine of the sentence vector with the target's, and its gradient. */
static hs_status cosine_read(const reading *r, hs_error *err)
{
    const hs_pooling *pooling = &r->target->pooling;
    const float *b = r->target->vector;
    const size_t D = hs_sentence_width(r->engine->architecture, pooling);
    float *a = malloc(2 * D * sizeof *a);
    if (!a)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for a target");
    float *g = a + D;
    hs_status st = hs_engine_embed(r->engine, pooling, r->states, r->T, r->n_threads, a, err);
    *r->ret_value = st ? 0 : hs__cosine(b, a, D);
    double aa = 0, bb = 0;
    for (size_t i = 0; i < D && !st; i++) {
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    for (size_t i = 0; i < D && !st; i++)
        g[i] = (float)((double)b[i] / sqrt(aa * bb) - *r->ret_value * (double)a[i] / aa);
    if (!st && r->ret_last)
        st = hs_engine_embed_back(r->engine, pooling, r->states, r->T, r->n_threads, g, r->ret_last, err);
    free(a);
    return st;
}

/* ---- rows of logits ---- */

/* Returns the token whose state is row `row` of the target. */
static size_t token_of(const hs_target *target, size_t row)
{
    return target->kind == HS_TARGET_SPAN   ? target->span[row]
           : target->kind == HS_TARGET_LOSS ? row
                                            : target->position;
}

/* Writes the gradient of a row's value with respect to its logits [width]. */
static void logits_differentiate(const reading *r, size_t n_rows, size_t row, const float *logits,
                                 size_t width, float *g)
{
    const hs_target *target = r->target;
    if (target->kind == HS_TARGET_PROBABILITY || target->kind == HS_TARGET_LOG_PROBABILITY ||
        target->kind == HS_TARGET_LOSS) {
        const bool loss = target->kind == HS_TARGET_LOSS;
        const int32_t id = loss ? r->tape->text.ids[row + 1] : target->tokens[0];
        const double p = exp(-hs_loss(logits, width, id));
        const float factor = loss                                    ? 1 / (float)n_rows
                             : target->kind == HS_TARGET_PROBABILITY ? (float)-p
                                                                     : -1;
        hs_loss_gradient(logits, width, id, g);
        for (size_t i = 0; i < width; i++)
            g[i] *= factor;
        return;
    }
    memset(g, 0, width * sizeof *g);
    if (target->kind == HS_TARGET_CLASS)
        g[target->class] = 1;
    else if (target->kind == HS_TARGET_SPAN)
        g[row] = 1;
    else
        g[target->tokens[0]] += 1;
    if (target->kind == HS_TARGET_TOKENS && target->tokens[1] >= 0)
        g[target->tokens[1]] -= 1;
}

/* Rows that are read through a head, `capacity` at a time. */
typedef struct rows_reading {
    bool by_class; /* the task head, else the predictor */
    size_t n_rows, width, capacity;
    const float *rows;    /* [n_rows][H] */
    float *row_gradients; /* [n_rows][H] */
    float *logits, *g;    /* [capacity][width] */
} rows_reading;

/* Reads rows [at, at + n). */
static hs_status some_rows_read(const reading *r, const rows_reading *q, size_t at, size_t n, hs_error *err)
{
    const size_t H = r->engine->shape.hidden;
    const hs_task_head *head = task_head_of(r);
    const float *rows = q->rows + at * H;
    hs_status st = q->by_class ? hs_engine_classify(r->engine, head, rows, n, r->n_threads, q->logits, err)
                               : hs_engine_predict(r->engine, rows, n, 0, r->n_threads, q->logits, err);
    for (size_t i = 0; i < n && !st; i++) {
        const float *logits = q->logits + i * q->width;
        *r->ret_value +=
            hs__target_row_value(r->target, r->tape->text.ids, q->n_rows, at + i, logits, q->width);
        if (r->ret_last)
            logits_differentiate(r, q->n_rows, at + i, logits, q->width, q->g + i * q->width);
    }
    if (st || !r->ret_last)
        return st;
    float *to = q->row_gradients + at * H;
    return q->by_class ? hs_engine_classify_back(r->engine, head, rows, n, r->n_threads, q->g, to, err)
                       : hs_engine_predict_back(r->engine, rows, n, r->n_threads, q->logits, q->g, to, err);
}

/* Takes the gradients of the rows to the states that they are read of. */
static hs_status rows_scatter(const reading *r, const rows_reading *q, hs_error *err)
{
    const size_t H = r->engine->shape.hidden;
    if (r->target->kind == HS_TARGET_CLASS && hs_task_head_is_pooled(task_head_of(r)))
        return hs_engine_pool_back(r->engine, task_head_of(r), r->states, r->T, r->tape->n_unpadded,
                                   r->n_threads, q->row_gradients, r->ret_last, err);
    memset(r->ret_last, 0, r->T * H * sizeof *r->ret_last);
    for (size_t row = 0; row < q->n_rows; row++)
        r->engine->kernels->add_bias(1, H, q->row_gradients + row * H,
                                     r->ret_last + token_of(r->target, row) * H, H);
    return HS_OK;
}

static hs_status rows_read(const reading *r, hs_error *err)
{
    const hs_architecture *architecture = r->engine->architecture;
    const size_t n_floats = hs_target_floats(architecture, r->target, r->T);
    const hs_capture text = {.n_tokens = r->T, .n_unpadded = r->tape->n_unpadded};
    rows_reading q = {.by_class = r->target->kind == HS_TARGET_CLASS || r->target->kind == HS_TARGET_SPAN};
    q.n_rows = n_floats / architecture->shape.hidden;
    q.width = q.by_class ? architecture->task_head.n_classes : architecture->shape.vocab_size;
    q.capacity = hs_min(hs_max(HS_LOGITS_BYTES_MAX / (q.width * sizeof(float)), 1), hs_max(q.n_rows, 1));
    float *floats = malloc(2 * (n_floats + q.capacity * q.width) * sizeof *floats);
    if (!floats)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for a target");
    q.rows = floats;
    q.row_gradients = floats + n_floats;
    q.logits = floats + 2 * n_floats;
    q.g = q.logits + q.capacity * q.width;
    hs_status st = hs_target_rows(r->engine, r->target, r->states, &text, r->n_threads, floats, err);
    for (size_t at = 0; at < q.n_rows && !st; at += q.capacity)
        st = hs__is_cancelled(r->control)
                 ? hs_fail(err, HS_CANCELLED, "cancelled after %zu of %zu rows of a target", at, q.n_rows)
                 : some_rows_read(r, &q, at, hs_min(q.capacity, q.n_rows - at), err);
    if (!st && r->ret_last)
        st = rows_scatter(r, &q, err);
    free(floats);
    return st;
}

/* ---- */

/* Fails if the text lacks a position that the target names, or the checkpoint its head. */
static hs_status target_check(const reading *r, hs_error *err)
{
    const hs_target *target = r->target;
    const hs_architecture *architecture = r->engine->architecture;
    const bool placed = target->kind == HS_TARGET_TOKENS || target->kind == HS_TARGET_PROBABILITY ||
                        target->kind == HS_TARGET_LOG_PROBABILITY ||
                        (target->kind == HS_TARGET_CLASS && !hs_task_head_is_pooled(task_head_of(r)));
    const bool by_class = target->kind == HS_TARGET_CLASS || target->kind == HS_TARGET_SPAN;
    const size_t span = hs_max(target->span[0], target->span[1]);
    if (target->kind == HS_TARGET_NONE)
        return hs_fail(err, HS_INVALID, "gradients need a target");
    if ((placed && target->position >= r->T) || (target->kind == HS_TARGET_SPAN && span >= r->T))
        return hs_fail(err, HS_INVALID, "the target's position is not below %zu", r->T);
    if (target->kind == HS_TARGET_LOSS && r->T < 2)
        return hs_fail(err, HS_INVALID, "a text of one token has no loss");
    if (by_class && (!architecture->task_head.task || target->class >= architecture->task_head.n_classes))
        return hs_fail(err, HS_UNSUPPORTED, "the checkpoint has no such class");
    return HS_OK;
}

hs_status hs_tape_target(const hs_tape *tape, const hs_target *target, const hs_run_control *control,
                         double *ret_value, float *ret_last, hs_error *err)
{
    double value = 0;
    const reading r = {.tape = tape,
                       .engine = tape->engine,
                       .target = target,
                       .states = hs_tape_last(tape),
                       .T = tape->text.n_tokens,
                       .n_threads = control ? control->n_threads : 1,
                       .control = control,
                       .ret_value = &value,
                       .ret_last = ret_last};
    hs_status st = target_check(&r, err);
    if (!st && target->kind == HS_TARGET_COSINE)
        st = cosine_read(&r, err);
    else if (!st && target->kind == HS_TARGET_VECTOR && ret_last)
        memset(ret_last, 0, r.T * r.engine->shape.hidden * sizeof *ret_last);
    else if (!st && target->kind != HS_TARGET_VECTOR)
        st = rows_read(&r, err);
    if (!st && ret_value)
        *ret_value = value;
    return st;
}

size_t hs_tape_target_bytes(const hs_engine *engine, size_t n_tokens, size_t n_threads)
{
    const hs_architecture *architecture = engine->architecture;
    const hs_sentence_head *sentence = &architecture->sentence;
    const size_t H = architecture->shape.hidden, n_rows = hs_max(n_tokens, 2); /* a span has two */
    const size_t W = hs_max(architecture->shape.vocab_size, architecture->task_head.n_classes);
    const size_t logits = hs_min(hs_max(HS_LOGITS_BYTES_MAX, W * sizeof(float)), n_rows * W * sizeof(float));
    size_t n_vector = HS_N_POOLS * H;
    if (sentence->n_dense > 0)
        n_vector = hs_max(n_vector, sentence->dense[sentence->n_dense - 1].dense.weight.n_rows);
    return 2 * hs_max(n_rows * H, n_vector) * sizeof(float) + 2 * logits +
           hs_heads_back_bytes(engine, n_rows, n_threads);
}
