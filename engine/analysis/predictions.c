/* predictions.c - probabilities, losses and targets from logits. */
#include "engine/analysis/predictions.h"

#include "engine/analysis/analysis_maps.h"
#include "model/base/clones.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

HS_CLONES double hs__cosine(const float *a, const float *b, size_t n)
{
    double dots[HS__LANES] = {0}, squares_a[HS__LANES] = {0}, squares_b[HS__LANES] = {0};
    double dot = 0, aa = 0, bb = 0;
    size_t i = 0;
    for (; i + HS__LANES <= n; i += HS__LANES)
        for (size_t k = 0; k < HS__LANES; k++) {
            const double x = (double)a[i + k], y = (double)b[i + k];
            dots[k] += x * y;
            squares_a[k] += x * x;
            squares_b[k] += y * y;
        }
    for (; i < n; i++) {
        dot += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    for (size_t k = 0; k < HS__LANES; k++) {
        dot += dots[k];
        aa += squares_a[k];
        bb += squares_b[k];
    }
    return dot / sqrt(aa * bb);
}

/* ---- target ----
 *
 * Reads rows of the last states through the head that the target belongs to. Logits are computed
 * for as many rows at a time as HS_LOGITS_BYTES_MAX holds. */

static const hs_task_head *head_of(const hs_architecture *architecture)
{
    return &architecture->task_head;
}

/* Returns the number of rows of a text that go through the head. */
static size_t n_rows_of(const hs_target *target, size_t n_tokens)
{
    switch (target->kind) {
    case HS_TARGET_NONE:
        return 0;
    case HS_TARGET_SPAN:
        return 2;
    case HS_TARGET_LOSS:
        return n_tokens - 1;
    default:
        return 1;
    }
}

static bool is_vector(const hs_target *target)
{
    return target->kind == HS_TARGET_VECTOR || target->kind == HS_TARGET_COSINE;
}

static size_t row_width(const hs_architecture *architecture, const hs_target *target)
{
    return is_vector(target) ? hs_sentence_width(architecture, &target->pooling) : architecture->shape.hidden;
}

size_t hs_target_floats(const hs_architecture *architecture, const hs_target *target, size_t n_tokens)
{
    return n_rows_of(target, n_tokens) * row_width(architecture, target);
}

hs_status hs_target_rows(const hs_engine *engine, const hs_target *target, const float *states,
                         const hs_capture *text, size_t n_threads, float *ret_rows, hs_error *err)
{
    const hs_architecture *architecture = hs_engine_architecture(engine);
    const size_t H = architecture->shape.hidden, n_tokens = text->n_tokens;
    if (target->kind == HS_TARGET_NONE)
        return HS_OK; /* it reads nothing */
    if (is_vector(target))
        return hs_engine_embed(engine, &target->pooling, states, n_tokens, n_threads, ret_rows, err);
    if (target->kind == HS_TARGET_CLASS && hs_task_head_is_pooled(head_of(architecture)))
        return hs_engine_pool(engine, head_of(architecture), states, text, n_threads, ret_rows, err);
    if (target->kind == HS_TARGET_LOSS)
        memcpy(ret_rows, states, (n_tokens - 1) * H * sizeof *states);
    else if (target->kind == HS_TARGET_SPAN)
        for (size_t i = 0; i < 2; i++)
            memcpy(ret_rows + i * H, states + target->span[i] * H, H * sizeof *states);
    else
        memcpy(ret_rows, states + target->position * H, H * sizeof *states);
    return HS_OK;
}

/* ---- numbers ---- */
static double softmax_divergence(const float *p, const float *q, size_t n)
{
    const double p_sum = hs_log_sum_exact(p, NULL, n), q_sum = hs_log_sum_exact(q, NULL, n);
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += exp((double)p[i] - p_sum) * (((double)p[i] - p_sum) - ((double)q[i] - q_sum));
    return sum < 0 ? 0 : sum; /* rounding may make it negative */
}

/* Returns ln(1 / (1 + e^-x)). */
static double log_sigmoid(double x)
{
    return x < 0 ? x - log1p(exp(x)) : -log1p(exp(-x));
}

static double sigmoid_divergence(const float *p, const float *q, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        const double yes = exp(log_sigmoid((double)p[i])), no = exp(log_sigmoid(-(double)p[i]));
        sum += yes * (log_sigmoid((double)p[i]) - log_sigmoid((double)q[i])) +
               no * (log_sigmoid(-(double)p[i]) - log_sigmoid(-(double)q[i]));
    }
    return sum < 0 ? 0 : sum;
}

static double divergence(const hs_task_head *head, const float *p, const float *q)
{
    if (head->problem == HS_REGRESSION)
        return NAN;
    return head->problem == HS_MULTI_LABEL ? sigmoid_divergence(p, q, head->n_classes)
                                           : softmax_divergence(p, q, head->n_classes);
}

/* ---- logits ---- */

/* A call of hs_target_values. W: logits of a row. */
typedef struct reading {
    const hs_engine *engine;
    const hs_target *target;
    const int32_t *ids;
    size_t n_rows, width, n_threads; /* rows of a text; W */
    bool by_class;                   /* the task head, else the predictor */
} reading;

double hs__target_row_value(const hs_target *target, const int32_t *ids, size_t n_rows, size_t row,
                            const float *logits, size_t width)
{
    switch (target->kind) {
    case HS_TARGET_CLASS:
        return (double)logits[target->class];
    case HS_TARGET_SPAN:
        return (double)logits[row];
    case HS_TARGET_PROBABILITY:
        return exp(-hs_loss(logits, width, target->tokens[0]));
    case HS_TARGET_LOG_PROBABILITY:
        return -hs_loss(logits, width, target->tokens[0]);
    case HS_TARGET_LOSS:
        return hs_loss(logits, width, ids[row + 1]) / (double)n_rows;
    default:
        return (double)logits[target->tokens[0]] -
               (target->tokens[1] < 0 ? 0 : (double)logits[target->tokens[1]]);
    }
}

static hs_status logits_compute(const reading *r, const float *rows, size_t n, float *logits, hs_error *err)
{
    const hs_architecture *architecture = hs_engine_architecture(r->engine);
    return r->by_class
               ? hs_engine_classify(r->engine, head_of(architecture), rows, n, r->n_threads, logits, err)
               : hs_engine_predict(r->engine, rows, n, 0, r->n_threads, logits, err);
}

/* Sums the rows of all texts, `capacity` at a time. first [W] holds the first text's logits of classes. */
static hs_status rows_sum(const reading *r, const float *rows, size_t n_texts, size_t capacity, float *logits,
                          float *first, double *values, double *divergences, hs_error *err)
{
    const hs_architecture *architecture = hs_engine_architecture(r->engine);
    const size_t n_all = n_texts * r->n_rows;
    for (size_t at = 0, n; at < n_all; at += n) {
        n = n_all - at < capacity ? n_all - at : capacity;
        const hs_status st = logits_compute(r, rows + at * architecture->shape.hidden, n, logits, err);
        if (st)
            return st;
        if (at == 0)
            memcpy(first, logits, r->width * sizeof *first);
        for (size_t i = 0; i < n; i++) {
            const size_t text = (at + i) / r->n_rows;
            values[text] += hs__target_row_value(r->target, r->ids, r->n_rows, (at + i) % r->n_rows,
                                                 logits + i * r->width, r->width);
            if (divergences && r->target->kind == HS_TARGET_CLASS)
                divergences[text] = divergence(head_of(architecture), first, logits + i * r->width);
        }
    }
    return HS_OK;
}

hs_status hs_target_values(const hs_engine *engine, const hs_target *target, const float *rows,
                           size_t n_texts, const int32_t *ids, size_t n_tokens, size_t n_threads,
                           double *ret_values, double *ret_divergences, hs_error *err)
{
    const hs_architecture *architecture = hs_engine_architecture(engine);
    const bool by_class = target->kind == HS_TARGET_CLASS || target->kind == HS_TARGET_SPAN;
    const size_t W = by_class ? head_of(architecture)->n_classes : architecture->shape.vocab_size;
    const reading r = {engine, target, ids, n_rows_of(target, n_tokens), W, n_threads, by_class};
    for (size_t i = 0; i < n_texts; i++) {
        ret_values[i] = 0;
        if (ret_divergences)
            ret_divergences[i] = NAN;
    }
    if (is_vector(target)) {
        const size_t D = row_width(architecture, target);
        for (size_t i = 0; i < n_texts; i++)
            ret_values[i] = target->kind == HS_TARGET_COSINE ? hs__cosine(target->vector, rows + i * D, D)
                                                             : 1 - hs__cosine(rows, rows + i * D, D);
        return HS_OK;
    }
    const size_t most = HS_LOGITS_BYTES_MAX / (W * sizeof(float)), n_all = n_texts * r.n_rows;
    const size_t capacity = most < 1 ? 1 : most < n_all ? most : n_all;
    float *logits = malloc((capacity + 1) * W * sizeof *logits);
    if (!logits)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for a target");
    const hs_status st = rows_sum(&r, rows, n_texts, capacity, logits, logits + capacity * W, ret_values,
                                  ret_divergences, err);
    free(logits);
    return st;
}

/* ---- predictions ----
 *
 * Reads a row of logits twice: for maximum, rank and top, then for the sums of
 * e^x. */

enum { LOGITS_AT_ONCE = 64 }; /* skipped if none of them is among the top */

static HS_CLONES uint32_t count_above(const float *logits, size_t n, float cut)
{
    uint32_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += logits[i] > cut;
    return count;
}

/* Inserts a logit into the k largest so far, in descending order. */
static void top_insert(hs_prediction *p, float logit, int32_t id, size_t k)
{
    size_t at = p->n_top;
    if (at == k && !(logit > p->top_probabilities[k - 1]))
        return;
    p->n_top += at < k;
    at = p->n_top - 1;
    for (; at > 0 && logit > p->top_probabilities[at - 1]; at--) {
        p->top_probabilities[at] = p->top_probabilities[at - 1];
        p->top_ids[at] = p->top_ids[at - 1];
    }
    p->top_probabilities[at] = logit;
    p->top_ids[at] = id;
}

static void top_find(hs_prediction *p, const float *logits, size_t n, size_t k)
{
    for (size_t first = 0; first < n; first += LOGITS_AT_ONCE) {
        const size_t end = hs_min(first + LOGITS_AT_ONCE, n);
        if (p->n_top == k && count_above(logits + first, end - first, p->top_probabilities[k - 1]) == 0)
            continue;
        for (size_t i = first; i < end; i++)
            top_insert(p, logits[i], (int32_t)i, k);
    }
}

/* Sums e^(x - most), and e^(x - most) (x - most). */
static HS_CLONES void sums_find(const float *logits, size_t n, float most, double *ret_sum,
                                double *ret_weighted)
{
    double sums[HS__LANES] = {0}, weighted[HS__LANES] = {0};
    size_t i = 0;
    for (; i + HS__LANES <= n; i += HS__LANES)
        for (size_t k = 0; k < HS__LANES; k++) {
            const float x = logits[i + k] - most, e = hs__exp(x);
            sums[k] += (double)e;
            weighted[k] += (double)e * (double)x;
        }
    for (; i < n; i++) {
        const float x = logits[i] - most, e = hs__exp(x);
        sums[0] += (double)e;
        weighted[0] += (double)e * (double)x;
    }
    for (size_t k = 0; k < HS__LANES; k++) {
        *ret_sum += sums[k];
        *ret_weighted += weighted[k];
    }
}

static HS_CLONES float find_most(const float *logits, size_t n)
{
    float most = logits[0];
    for (size_t i = 1; i < n; i++)
        most = logits[i] > most ? logits[i] : most;
    return most;
}

void hs_prediction_read(const float *logits, size_t vocab_size, int32_t id, size_t top_k,
                        hs_prediction *ret_prediction)
{
    hs_prediction *p = ret_prediction;
    const float logit = logits[id];
    *p = (hs_prediction){.rank = 1 + count_above(logits, vocab_size, logit)};
    top_find(p, logits, vocab_size, hs_max(top_k, 1));
    const float most = p->top_probabilities[0];
    p->n_top = hs_min(p->n_top, top_k);
    double sum = 0, weighted = 0; /* of e^(x - most), and of it times x - most */
    sums_find(logits, vocab_size, most, &sum, &weighted);
    p->probability = (float)(exp((double)(logit - most)) / sum);
    p->entropy = (float)(log(fmax(sum, 1)) - weighted / sum); /* the largest counts 1 */
    for (size_t i = 0; i < p->n_top; i++)
        p->top_probabilities[i] = (float)(exp((double)(p->top_probabilities[i] - most)) / sum);
}

double hs_log_sum(const float *logits, size_t n)
{
    const float most = find_most(logits, n);
    double sum = 0, weighted = 0;
    sums_find(logits, n, most, &sum, &weighted);
    return log(fmax(sum, 1)) + (double)most; /* the largest counts 1 */
}

HS_CLONES
void hs_softmax(const float *logits, size_t n, float *ret)
{
    const float most = find_most(logits, n);
    const float scale = (float)exp((double)most - hs_log_sum(logits, n));
    for (size_t i = 0; i < n; i++)
        ret[i] = hs__exp(logits[i] - most) * scale;
}

double hs_log_sum_exact(const float *logits, const uint8_t *inside, size_t n)
{
    float most = -INFINITY;
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        if (!inside || inside[i])
            most = fmaxf(most, logits[i]);
    for (size_t i = 0; i < n; i++)
        if (!inside || inside[i])
            sum += exp((double)logits[i] - (double)most);
    return (double)most + log(sum);
}

double hs_loss(const float *logits, size_t vocab_size, int32_t id)
{
    return hs_log_sum(logits, vocab_size) - (double)logits[id];
}

/* The gradient at the id is p - 1. A float keeps few digits of this difference if p is near 1, so minus the
 * sum of all others replaces it. */
void hs_loss_gradient(const float *logits, size_t vocab_size, int32_t id, float *ret)
{
    double others = 0;
    hs_softmax(logits, vocab_size, ret);
    ret[id] = 0;
    for (size_t i = 0; i < vocab_size; i++)
        others += (double)ret[i];
    ret[id] = (float)-others;
}
