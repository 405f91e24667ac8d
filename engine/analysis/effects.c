/* effects.c - computes the effects of heads, layer by layer.
 *
 * A pass holds some variants of a layer. Their similarities are compared while they are in the nearest
 * cache, then their last states. Predictions are compared once for all heads of a layer, because that
 * reads the decoder. */
#include "engine/analysis/effects.h"

#include "engine/analysis/analysis_maps.h"
#include "engine/analysis/predictions.h"
#include "engine/analysis/variants.h"
#include "engine/arena.h"
#include "model/clones.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The data of a call. A variant is one head changed. n counts those of a layer, `capacity` of
 * `variants` those of a pass. */
typedef struct sweep {
    hs__variants variants;
    const hs_effects_options *options;
    const hs_capture *baseline;
    size_t T, H, V, n_layers, n_heads, n_threads;
    size_t layer;         /* whose heads are changed */
    double *norms;        /* [n_layers][n_heads]: norm of the baseline's S above the diagonal */
    double *ratios;       /* [capacity][n_layers][n_heads]: |S' - S| / |S| */
    float *maps;          /* [n_threads][T][T] */
    float *states;        /* [n_positions][1 + n][H]: states to predict from, the baseline's first */
    size_t n_at_once;     /* positions whose logits are held */
    float *logits;        /* [n_at_once][1 + n][V] */
    float *probabilities; /* [V]: the baseline's */
    size_t n_target;      /* floats that the target reads of a variant */
    float *targets;       /* [2 + n][n_target], the baseline's first, the other text's last */
    float *outputs;       /* [capacity][T][d]: O of the changed heads, for SCALE and MEAN */
} sweep;

/* ---- similarities ---- */

/* Returns the sum of (a - b)^2 above the diagonal of [n][n]; of a^2 if b is NULL. */
HS_CLONES
static double upper_squares(const float *a, const float *b, size_t n)
{
    enum { LANES = 16 };
    double total = 0;
    for (size_t i = 0; i < n; i++) {
        const float *x = a + i * n, *y = b ? b + i * n : NULL;
        float sums[LANES] = {0};
        size_t j = i + 1;
        for (; j + LANES <= n; j += LANES)
            for (size_t k = 0; k < LANES; k++) {
                const float d = x[j + k] - (y ? y[j + k] : 0);
                sums[k] += d * d;
            }
        for (; j < n; j++) {
            const float d = x[j] - (y ? y[j] : 0);
            sums[0] += d * d;
        }
        for (size_t k = 0; k < LANES; k++)
            total += (double)sums[k];
    }
    return total;
}

static const float *baseline_similarity(const sweep *s, size_t l, size_t h)
{
    return hs_capture_at(s->baseline, s->options->residual ? HS_TAP_RESIDUAL_SIMILARITY : HS_TAP_SIMILARITY,
                         l, h);
}

static void norms_find(sweep *s)
{
    for (size_t l = 0; l < s->n_layers; l++)
        for (size_t h = 0; h < s->n_heads; h++)
            s->norms[l * s->n_heads + h] = sqrt(upper_squares(baseline_similarity(s, l, h), NULL, s->T));
}

/* The observer's callback: compares one head of a variant, l layers above the first layer after the
 * changed one. */
static void similarity_compare(void *context, size_t variant, size_t l, size_t h,
                               const hs_observed_head *head)
{
    const sweep *s = context;
    const size_t layer = s->layer + 1 + l, at = layer * s->n_heads + h;
    const double squares = upper_squares(head->similarity, baseline_similarity(s, layer, h), s->T);
    s->ratios[variant * s->n_layers * s->n_heads + at] = sqrt(squares) / s->norms[at];
}

/* Returns the mean over the heads of later layers, without those that are off in the baseline: their S is
 * 0. */
static float similarity_change(const sweep *s, size_t variant)
{
    const size_t first = (s->layer + 1) * s->n_heads, n_maps = s->n_layers * s->n_heads;
    double sum = 0;
    size_t n = 0;
    for (size_t i = first; i < n_maps; i++) {
        sum += s->norms[i] != 0 ? s->ratios[variant * n_maps + i] : 0;
        n += s->norms[i] != 0;
    }
    return first == n_maps ? 0 : n > 0 ? (float)(sum / (double)n) : NAN;
}

/* ---- states ---- */

double hs_relative_change(const float *changed, const float *baseline, size_t n)
{
    double difference = 0, whole = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = (double)changed[i] - (double)baseline[i];
        difference += d * d;
        whole += (double)baseline[i] * (double)baseline[i];
    }
    return sqrt(difference) / sqrt(whole);
}

static float hidden_change(const sweep *s, const float *changed)
{
    const float *baseline = hs_capture_at(s->baseline, HS_TAP_EVERY_STATE, s->n_layers, 0);
    double sum = 0;
    for (size_t i = 0; i < s->T; i++)
        sum += hs_relative_change(changed + i * s->H, baseline + i * s->H, s->H);
    return (float)(sum / (double)s->T);
}

/* Keeps what the predictions and the target read: row 0 is the baseline's, row 1 + k that of the layer's k-th
 * head. */
static hs_status states_keep(sweep *s, const float *last, size_t row, hs_error *err)
{
    for (size_t p = 0; p < s->options->n_positions; p++)
        memcpy(s->states + (p * (1 + s->options->n_heads) + row) * s->H,
               last + s->options->positions[p] * s->H, s->H * sizeof *last);
    if (s->n_target == 0)
        return HS_OK;
    return hs_target_rows(s->variants.engine, &s->options->target, last, s->baseline, s->n_threads,
                          s->targets + row * s->n_target, err);
}

/* ---- a pass ---- */

/* Computes factor O, or with MEAN the mean of O over its rows, as the interventions do
 * (engine/pass/attention.c).
 */
static void output_change(const hs_effects_options *options, const float *output, size_t n_tokens,
                          size_t width, float *to)
{
    for (size_t d = 0; d < width; d++) {
        double sum = 0;
        for (size_t i = 0; i < n_tokens; i++)
            sum += output[i * width + d];
        for (size_t i = 0; i < n_tokens; i++)
            to[i * width + d] = options->kind == HS_INTERVENE_MEAN ? (float)(sum / (double)n_tokens)
                                : options->factor == 0             ? 0 /* for any O, infinities too */
                                                                   : output[i * width + d] * options->factor;
    }
}

/* Returns O of variant i, which changes this head; NULL: zeros. */
static const float *variant_output(const sweep *s, size_t i, size_t head)
{
    const hs_effects_options *options = s->options;
    const size_t width = s->baseline->head_width;
    if (options->kind == HS_INTERVENE_ZERO)
        return NULL;
    if (options->kind == HS_INTERVENE_PATCH)
        return hs_capture_at(options->other, HS_TAP_HEAD_OUTPUT, s->layer, head);
    float *to = s->outputs + i * s->T * width;
    output_change(options, hs_capture_at(s->baseline, HS_TAP_HEAD_OUTPUT, s->layer, head), s->T, width, to);
    return to;
}

static hs_status pass_run(sweep *s, const uint16_t *heads, size_t n, const hs_run_control *control,
                          hs_error *err)
{
    const hs_observer observer = {.similarity = s->maps,
                                  .show = similarity_compare,
                                  .context = s,
                                  .n_threads = s->n_threads,
                                  .residual = s->options->residual};
    for (size_t i = 0; i < n; i++)
        s->variants.starts[i] =
            (hs_start){.layer = s->layer,
                       .state = hs_capture_at(s->baseline, HS_TAP_EVERY_STATE, s->layer, 0),
                       .head_outputs = hs_capture_at(s->baseline, HS_TAP_HEAD_OUTPUT, s->layer, 0),
                       .head_off = heads[i],
                       .head_new = variant_output(s, i, heads[i])};
    return hs__variants_run(&s->variants, n, &observer, control, err);
}

/* Compares heads [first, first + n) of the request. ret is the first one's effect. */
static hs_status heads_compare(sweep *s, size_t first, size_t n, const hs_run_control *control,
                               hs_effect *ret, hs_error *err)
{
    hs_status st = pass_run(s, s->options->heads + first, n, control, err);
    for (size_t i = 0; i < n && !st; i++) {
        const float *last = hs_capture_at(s->variants.captures[i], HS_TAP_LAST_STATE, 0, 0);
        ret[i] = (hs_effect){hidden_change(s, last), similarity_change(s, i), NAN, NAN, NAN, NAN, NAN};
        st = states_keep(s, last, 1 + first + i, err);
    }
    return st;
}

/* ---- predictions ---- */

/* Returns the token whose probability counts at a position: the one there, or the next one if the model
 * predicts that. Returns -1 for a mask and for the end of the text. */
static int32_t token_at(const sweep *s, size_t position)
{
    const hs_effects_options *options = s->options;
    if (hs_engine_architecture(s->variants.engine)->predictor.next)
        return position + 1 < s->T ? options->baseline->ids[position + 1] : -1;
    const int32_t id = options->baseline->ids[position];
    return id == options->mask_id ? -1 : id;
}

/* Adds one position's divergences, and changes of its token's probability, to those of the layer's heads.
 * id is that token, or -1. */
static void position_compare(const sweep *s, const float *logits, int32_t id, double *kl, double *logprob)
{
    const double baseline = hs_log_sum(logits, s->V);
    hs_softmax(logits, s->V, s->probabilities);
    for (size_t h = 0; h < s->options->n_heads; h++) {
        const float *changed = logits + (1 + h) * s->V;
        const double other = hs_log_sum(changed, s->V);
        double divergence = 0;
        for (size_t i = 0; i < s->V; i++)
            divergence +=
                (double)s->probabilities[i] * (((double)logits[i] - baseline) - ((double)changed[i] - other));
        kl[h] += divergence < 0 ? 0 : divergence; /* rounding may make it negative */
        if (id >= 0)
            logprob[h] += (double)changed[id] - other - (double)logits[id] + baseline;
    }
}

/* Compares the predictions of all heads of a layer, from the states kept. */
static hs_status predictions_compare(const sweep *s, const hs_run_control *control, hs_effect *ret,
                                     hs_error *err)
{
    const hs_effects_options *options = s->options;
    const size_t n_rows = 1 + options->n_heads;
    double kl[HS_HEADS_MAX] = {0}, logprob[HS_HEADS_MAX] = {0};
    size_t n_tokens = 0;
    for (size_t p = 0, n; p < options->n_positions; p += n) {
        if (control->cancelled && atomic_load_explicit(control->cancelled, memory_order_relaxed))
            return hs_fail(err, HS_CANCELLED, "cancelled at the predictions of layer %zu", s->layer);
        n = hs__min(s->n_at_once, options->n_positions - p);
        const hs_status st = hs_engine_predict(s->variants.engine, s->states + p * n_rows * s->H, n * n_rows,
                                               0, s->n_threads, s->logits, err);
        if (st)
            return st;
        for (size_t i = 0; i < n; i++) {
            const int32_t id = token_at(s, options->positions[p + i]);
            position_compare(s, s->logits + i * n_rows * s->V, id, kl, logprob);
            n_tokens += id >= 0;
        }
    }
    for (size_t h = 0; h < options->n_heads; h++) {
        ret[h].prediction_kl = (float)(kl[h] / (double)options->n_positions);
        ret[h].logprob_change = n_tokens > 0 ? (float)(logprob[h] / (double)n_tokens) : NAN;
    }
    return HS_OK;
}

/* Compares the target of all heads of a layer, from the rows kept. */
static hs_status targets_compare(const sweep *s, hs_effect *ret, hs_error *err)
{
    const hs_effects_options *options = s->options;
    const bool patched = options->kind == HS_INTERVENE_PATCH;
    double values[2 + HS_HEADS_MAX], divergences[2 + HS_HEADS_MAX];
    const hs_status st =
        hs_target_values(s->variants.engine, &options->target, s->targets, 1 + options->n_heads + patched,
                         options->baseline->ids, s->T, s->n_threads, values, divergences, err);
    for (size_t h = 0; h < options->n_heads && !st; h++) {
        ret[h].target_change = (float)(values[1 + h] - values[0]);
        ret[h].class_kl = (float)divergences[1 + h];
        if (patched)
            ret[h].recovered = hs_recovered(values[0], values[1 + h], values[1 + options->n_heads]);
    }
    return st;
}

/* ---- all ---- */

static hs_status layer_compare(sweep *s, size_t n_done, const hs_run_control *control, hs_effect *ret,
                               hs_error *err)
{
    const hs_effects_options *options = s->options;
    const hs_selection selection = {hs_all_numbers + s->layer + 1, s->n_layers - s->layer - 1, hs_all_numbers,
                                    s->n_heads, HS_KEEP(LAST_STATE)};
    hs_status st = hs__variants_select(&s->variants, &selection, err);
    for (size_t h = 0, n; h < options->n_heads && !st; h += n) {
        n = hs__min(s->variants.capacity, options->n_heads - h);
        st = heads_compare(s, h, n, control, ret + h, err);
        if (!st && options->progress)
            options->progress(options->context, n_done + h + n);
    }
    if (!st && s->n_target > 0)
        st = targets_compare(s, ret, err);
    return st || options->n_positions == 0 ? st : predictions_compare(s, control, ret, err);
}

/* Measures (base NULL) or carves the memory of a call. */
static void sweep_layout(sweep *s, hs__arena *arena)
{
    const size_t n_maps = s->n_layers * s->n_heads, P = s->options->n_positions,
                 n_rows = 1 + s->options->n_heads;
    s->norms = hs__arena_take(arena, n_maps * sizeof *s->norms);
    s->ratios = hs__arena_take(arena, s->variants.capacity * n_maps * sizeof *s->ratios);
    s->maps = hs__arena_floats(arena, s->n_threads * s->T * s->T);
    s->states = hs__arena_floats(arena, P * n_rows * s->H);
    s->logits = hs__arena_floats(arena, s->n_at_once * n_rows * s->V);
    s->probabilities = hs__arena_floats(arena, P > 0 ? s->V : 0);
    s->targets = hs__arena_floats(arena, (1 + n_rows) * s->n_target);
    const hs_intervention_kind kind = s->options->kind;
    if (kind == HS_INTERVENE_SCALE || kind == HS_INTERVENE_MEAN)
        s->outputs = hs__arena_floats(arena, s->variants.capacity * s->T *
                                                 hs_engine_shape(s->variants.engine)->head_width);
}

static sweep sweep_describe(const hs_engine *engine, const hs_effects_options *options, size_t tokens_max,
                            size_t n_threads)
{
    const hs_shape *shape = hs_engine_shape(engine);
    const size_t T = options->baseline->n_tokens, n_rows = 1 + options->n_heads;
    const size_t held = HS_LOGITS_BYTES_MAX / (n_rows * shape->vocab_size * sizeof(float));
    return (sweep){
        .variants = {.engine = engine,
                     .text = options->baseline,
                     .capacity = hs__variants_capacity(T, tokens_max, options->n_heads)},
        .options = options,
        .baseline = options->baseline->capture,
        .T = T,
        .H = shape->hidden,
        .V = shape->vocab_size,
        .n_layers = shape->n_layers,
        .n_heads = shape->n_heads,
        .n_threads = hs__max(n_threads, 1),
        .n_at_once = hs__min(hs__max(held, 1), options->n_positions),
        .n_target = hs_target_floats(hs_engine_architecture(engine), &options->target, T),
    };
}

static size_t sweep_bytes(sweep s)
{
    hs__arena measure = {0};
    sweep_layout(&s, &measure);
    return measure.used;
}

size_t hs_effects_bytes(const hs_engine *engine, const hs_effects_options *options, size_t n_threads)
{
    return sweep_bytes(sweep_describe(engine, options, hs_engine_shape(engine)->n_positions, n_threads));
}

static hs_status layers_compare(sweep *s, const hs_run_control *control, hs_effect *ret, hs_error *err)
{
    const hs_effects_options *options = s->options;
    hs_status st = HS_OK;
    norms_find(s);
    st = states_keep(s, hs_capture_at(s->baseline, HS_TAP_EVERY_STATE, s->n_layers, 0), 0, err);
    if (!st && s->n_target > 0 && options->kind == HS_INTERVENE_PATCH)
        st = hs_target_rows(s->variants.engine, &options->target,
                            hs_capture_at(options->other, HS_TAP_EVERY_STATE, s->n_layers, 0), options->other,
                            s->n_threads, s->targets + (1 + options->n_heads) * s->n_target, err);
    for (size_t l = 0; l < options->n_layers && !st; l++) {
        s->layer = options->layers[l];
        st = layer_compare(s, l * options->n_heads, control, ret + l * options->n_heads, err);
    }
    return st;
}

hs_status hs_effects_compute(const hs_engine *engine, hs_workspace *ws, const hs_effects_options *options,
                             const hs_run_control *control, hs_effect *ret_effects, hs_error *err)
{
    sweep s = sweep_describe(engine, options, hs_workspace_tokens(ws), control->n_threads);
    hs__arena arena = {.base = hs_memory_create(sweep_bytes(s))};
    if (!arena.base)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for effects");
    s.variants.ws = ws;
    sweep_layout(&s, &arena);
    const hs_status st = layers_compare(&s, control, ret_effects, err);
    hs__variants_finish(&s.variants);
    free(arena.base);
    return st;
}
