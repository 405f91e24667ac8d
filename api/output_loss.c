/* output_loss.c - the loss of a text under a causal model: -ln p of every token after the first, given the
 * tokens before it. */
#include "api/output_structures.h"

#include "engine/analysis/predictions.h"

#include <math.h>
#include <stdlib.h>

typedef struct loss {
    size_t n; /* T - 1 */
    bool of_baseline;
    float mean;   /* NAN if n is 0 */
    float nats[]; /* [n]: of token 1, 2, ... */
} loss;

/* ---- computing ---- */

/* Computes the losses of the tokens after n positions from `first` on. */
static hs_status find_some(const hs__answer *a, size_t first, size_t n, float *logits, float *ret_nats,
                           hs_error *err)
{
    const size_t V = a->model->shape->vocab_size;
    const float *states = hs_capture_at(a->capture, HS_TAP_LAST_STATE, 0, 0) + first * a->capture->hidden;
    const hs_status st =
        hs_engine_predict(a->model->engine, states, n, 0, a->request->n_threads, logits, err);
    for (size_t i = 0; i < n && !st; i++)
        ret_nats[i] = (float)hs_loss(logits + i * V, V, a->encoding->ids[first + i + 1]);
    return st;
}

static float mean_of(const float *values, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)values[i];
    return n > 0 ? (float)(sum / (double)n) : NAN;
}

static hs_status compute(const hs__answer *a, void **ret_result, hs_error *err)
{
    const size_t n = a->encoding->n_tokens - 1, at_once = hs__positions_at_once(a, 1);
    loss *l = calloc(1, sizeof *l + n * sizeof *l->nats);
    float *logits = malloc((at_once < n ? at_once : n + 1) * a->model->shape->vocab_size * sizeof *logits);
    hs_status st = HS_OK;
    *ret_result = l;
    if (!l || !logits) {
        free(logits);
        return hs_fail(err, HS_NO_MEMORY, "no memory for the loss");
    }
    for (size_t first = 0; first < n && !st && !hs__answer_cancelled(a); first += at_once)
        st = find_some(a, first, n - first < at_once ? n - first : at_once, logits, l->nats + first, err);
    free(logits);
    l->n = n;
    l->of_baseline = a->capture == a->baseline;
    l->mean = mean_of(l->nats, n);
    return st;
}

/* ---- writing ---- */

static void write_json(hs_buffer *b, const hs__answer *a, const void *result)
{
    const loss *l = result;
    hs_buffer_text(b, "{\"mean\":");
    hs__json_float(b, l->mean, (int)a->analysis->digits);
    hs__json_key(b, "tokens");
    hs__json_floats(b, l->nats, l->n, (int)a->analysis->digits);
    hs_buffer_text(b, "}");
}

static void add_arrays(hs_arrays *arrays, const hs__answer *a, const void *result)
{
    const loss *l = result;
    (void)a;
    hs_arrays_add_floats(arrays, l->of_baseline ? "changes_loss_mean" : "loss_mean", &l->mean, 0, 0, 0);
    hs_arrays_add_floats(arrays, l->of_baseline ? "changes_loss" : "loss", l->nats, 1, l->n, 0);
}

static size_t json_bytes_max(const hs__measures *m)
{
    return 64 + m->n_tokens * m->number;
}

static size_t array_bytes_max(const hs__measures *m)
{
    return 4 * m->n_tokens;
}

const hs__structure hs__structure_loss = {
    .compute = compute,
    .destroy = free,
    .write_json = write_json,
    .add_arrays = add_arrays,
    .json_bytes_max = json_bytes_max,
    .array_bytes_max = array_bytes_max,
};
