/* effects.c - what heads do to a text: variants of a pass, effects, head scores. */
#include "engine/analysis/effects.h"

#include "engine/analysis/decoder.h"

#include "engine/analysis/analysis_maps.h"
#include "engine/analysis/predictions.h"
#include "engine/arena.h"
#include "model/base/bytes.h"
#include "model/base/clones.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- variants ----
 *
 * Captures and passes of variants. */

size_t hs__variants_capacity(size_t n_tokens, size_t tokens_max, size_t n_most)
{
    return hs_min(hs_min(hs_max(tokens_max / n_tokens, 1), n_most), HS__VARIANTS_MAX);
}

hs_status hs__variants_select(hs__variants *v, const hs_selection *selection, hs_error *err)
{
    hs_status st = HS_OK;
    hs__variants_finish(v);
    for (size_t i = 0; i < v->capacity && !st; i++)
        st = hs_capture_create(hs_engine_runtime(v->engine), hs_engine_shape(v->engine), selection,
                               v->text->n_tokens, &v->captures[i], err);
    return st;
}

hs_status hs__variants_run(hs__variants *v, size_t n, const hs_observer *observer,
                           const hs_run_control *control, hs_error *err)
{
    hs_sequence sequences[HS__VARIANTS_MAX];
    for (size_t i = 0; i < n; i++) {
        sequences[i] = *v->text;
        sequences[i].capture = v->captures[i];
        sequences[i].start = &v->starts[i];
    }
    return hs_engine_compute(v->engine, v->ws, sequences, n, observer, control, err);
}

void hs__variants_finish(hs__variants *v)
{
    for (size_t i = 0; i < v->capacity; i++) {
        hs_capture_destroy(v->captures[i]);
        v->captures[i] = NULL;
    }
}

/* ---- effects ----
 *
 * Computes the effects of heads, layer by layer.
 *
 * A pass holds some variants of a layer. Their similarities are compared while they are in the nearest
 * cache, then their last states. Predictions are compared once for all heads of a layer, because that
 * reads the decoder. */

/* The data of a call. A variant is one head changed. n counts those of a layer, `capacity` of
 * `variants` those of a pass. */
typedef struct sweep {
    hs__variants variants;
    const hs_effects_options *options;
    const hs_capture *baseline;
    size_t T, H, n_layers, n_heads, n_threads;
    hs_effects_reader reader; /* the engine and text whose last states are read; with a decoder, by that */
    size_t V;                 /* of its vocabulary */
    hs__decoder decoder;
    size_t n_slots;       /* threads that compare similarities at once; 0: no layer follows */
    size_t layer;         /* whose heads are changed */
    double *norms;        /* [n_layers][n_heads]: norm of the baseline's S above the diagonal */
    double *ratios;       /* [capacity][n_layers][n_heads]: |S' - S| / |S| */
    float *maps;          /* [n_slots][T][T] */
    float *baselines;     /* the same, of similarities that are computed again */
    atomic_int failed;    /* one of these had no memory */
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
static HS_CLONES double upper_squares(const float *a, const float *b, size_t n)
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

/* Returns S of the baseline: kept, or computed in the slot's memory; NULL: no memory. */
static const float *baseline_similarity(const sweep *s, size_t l, size_t h, size_t slot)
{
    const hs_effects_options *options = s->options;
    if (!options->again)
        return hs_capture_at(s->baseline, hs_similarity_tap(options->similarity), l, h);
    float *map = s->baselines + slot * s->T * s->T;
    return hs_engine_similarity(s->variants.engine, s->baseline, l, h, options->similarity, 0, s->T, map,
                                NULL)
               ? NULL
               : map;
}

/* Task: the norm of one map of the layers above the first that is changed. */
static void task_norm(void *context, size_t task, size_t slot)
{
    sweep *s = context;
    const size_t at = (s->options->layers[0] + 1U) * s->n_heads + task;
    const float *map = baseline_similarity(s, at / s->n_heads, at % s->n_heads, slot);
    if (!map)
        atomic_store(&s->failed, 1);
    else
        s->norms[at] = sqrt(upper_squares(map, NULL, s->T));
}

static hs_status norms_find(sweep *s, hs_error *err)
{
    const size_t n_maps = (s->n_layers - s->options->layers[0] - 1) * s->n_heads;
    hs_runtime_share(hs_engine_runtime(s->variants.engine),
                     s->options->again && s->n_slots > 1 ? s->n_slots : 1, n_maps, task_norm, s);
    return atomic_load(&s->failed) ? hs_fail(err, HS_NO_MEMORY, "out of memory for effects") : HS_OK;
}

/* The observer's callback: compares one head of a variant, l layers above the first layer after the
 * changed one. The place of its map tells the slot. */
static void similarity_compare(void *context, size_t variant, size_t l, size_t h,
                               const hs_observed_head *head)
{
    sweep *s = context;
    const size_t layer = s->layer + 1 + l, at = layer * s->n_heads + h;
    const size_t slot = (size_t)(head->similarity - s->maps) / (s->T * s->T);
    const float *baseline = baseline_similarity(s, layer, h, slot);
    if (!baseline) {
        atomic_store(&s->failed, 1);
        return;
    }
    const double squares = upper_squares(head->similarity, baseline, s->T);
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
HS_CLONES void hs_change_add(const float *changed, const float *baseline, size_t n, double sums[2])
{
    double differences[HS__LANES] = {0}, squares[HS__LANES] = {0}, difference = 0, whole = 0;
    size_t i = 0;
    for (; i + HS__LANES <= n; i += HS__LANES)
        for (size_t k = 0; k < HS__LANES; k++) {
            const double before = (double)baseline[i + k], d = (double)changed[i + k] - before;
            differences[k] += d * d;
            squares[k] += before * before;
        }
    for (; i < n; i++) {
        const double before = (double)baseline[i], d = (double)changed[i] - before;
        difference += d * d;
        whole += before * before;
    }
    for (size_t k = 0; k < HS__LANES; k++) {
        difference += differences[k];
        whole += squares[k];
    }
    sums[0] += difference;
    sums[1] += whole;
}

double hs_relative_change(const float *changed, const float *baseline, size_t n)
{
    double squares[2] = {0};
    hs_change_add(changed, baseline, n, squares);
    return sqrt(squares[0]) / sqrt(squares[1]);
}

static float hidden_change(const sweep *s, const float *changed)
{
    const float *baseline = hs_capture_at(s->baseline, HS_TAP_EVERY_STATE, s->n_layers, 0);
    double sum = 0;
    for (size_t i = 0; i < s->T; i++)
        sum += hs_relative_change(changed + i * s->H, baseline + i * s->H, s->H);
    return (float)(sum / (double)s->T);
}

/* Returns a capture of the text whose last states are read. */
static const hs_capture *read_of(const sweep *s, const hs_capture *own)
{
    return s->decoder.capture ? s->decoder.capture : own;
}

static hs_status target_keep(const sweep *s, const float *last, size_t row, hs_error *err)
{
    if (s->n_target == 0)
        return HS_OK;
    return hs_target_rows(s->reader.engine, &s->options->target, last, read_of(s, s->baseline), s->n_threads,
                          s->targets + row * s->n_target, err);
}

/* Keeps what the predictions and the target read of a text's last states: row 0 is the baseline's, row 1 + k
 * that of the layer's k-th head. */
static hs_status states_keep(sweep *s, const float *last, size_t row, const hs_run_control *control,
                             hs_error *err)
{
    const hs_status st = hs__decoder_read(&s->decoder, &last, control, err);
    for (size_t p = 0; p < s->options->n_positions && !st; p++)
        memcpy(s->states + (p * (1 + s->options->n_heads) + row) * s->H,
               last + s->options->positions[p] * s->H, s->H * sizeof *last);
    return st ? st : target_keep(s, last, row, err);
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
                                  .n_threads = s->n_slots,
                                  .kind = s->options->similarity};
    for (size_t i = 0; i < n; i++)
        s->variants.starts[i] =
            (hs_start){.layer = s->layer,
                       .state = hs_capture_input(s->baseline, s->layer),
                       .cross = s->baseline->cross,
                       .head_outputs = hs_capture_at(s->baseline, HS_TAP_HEAD_OUTPUT, s->layer, 0),
                       .head_off = heads[i],
                       .head_new = variant_output(s, i, heads[i])};
    const hs_status st = hs__variants_run(&s->variants, n, s->n_slots > 0 ? &observer : NULL, control, err);
    return !st && atomic_load(&s->failed) ? hs_fail(err, HS_NO_MEMORY, "out of memory for effects") : st;
}

/* Compares heads [first, first + n) of the request. ret is the first one's effect. */
static hs_status heads_compare(sweep *s, size_t first, size_t n, const hs_run_control *control,
                               hs_effect *ret, hs_error *err)
{
    hs_status st = pass_run(s, s->options->heads + first, n, control, err);
    for (size_t i = 0; i < n && !st; i++) {
        const float *last = hs_capture_at(s->variants.captures[i], HS_TAP_LAST_STATE, 0, 0);
        ret[i] = (hs_effect){hidden_change(s, last), similarity_change(s, i), NAN, NAN, NAN, NAN, NAN};
        st = states_keep(s, last, 1 + first + i, control, err);
    }
    return st;
}

/* ---- predictions ---- */

/* Returns the token whose probability counts at a position: the one there, or the next one if the model
 * predicts that. Returns -1 for a mask and for the end of the text. */
static int32_t token_at(const sweep *s, size_t position)
{
    const hs_effects_options *options = s->options;
    if (hs_engine_architecture(s->reader.engine)->predictor.next)
        return position + 1 < s->reader.n_tokens ? s->reader.ids[position + 1] : -1;
    const int32_t id = s->reader.ids[position];
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
        if (hs__is_cancelled(control))
            return hs_fail(err, HS_CANCELLED, "cancelled at the predictions of layer %zu", s->layer);
        n = hs_min(s->n_at_once, options->n_positions - p);
        const hs_status st = hs_engine_predict(s->reader.engine, s->states + p * n_rows * s->H, n * n_rows, 0,
                                               s->n_threads, s->logits, err);
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
        hs_target_values(s->reader.engine, &options->target, s->targets, 1 + options->n_heads + patched,
                         s->reader.ids, s->reader.n_tokens, s->n_threads, values, divergences, err);
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
    const hs_selection selection = {hs_all_numbers + s->layer + 1,
                                    s->n_layers - s->layer - 1,
                                    hs_all_numbers,
                                    s->n_heads,
                                    HS_KEEP(LAST_STATE),
                                    s->baseline->cross ? s->baseline->n_keys : 0};
    hs_status st = hs__variants_select(&s->variants, &selection, err);
    for (size_t h = 0, n; h < options->n_heads && !st; h += n) {
        n = hs_min(s->variants.capacity, options->n_heads - h);
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
    s->maps = hs__arena_floats(arena, s->n_slots * s->T * s->T);
    s->baselines = hs__arena_floats(arena, s->options->again ? s->n_slots * s->T * s->T : 0);
    s->states = hs__arena_floats(arena, P * n_rows * s->H);
    s->logits = hs__arena_floats(arena, s->n_at_once * n_rows * s->V);
    s->probabilities = hs__arena_floats(arena, P > 0 ? s->V : 0);
    s->targets = hs__arena_floats(arena, (1 + n_rows) * s->n_target);
    const hs_intervention_kind kind = s->options->kind;
    if (kind == HS_INTERVENE_SCALE || kind == HS_INTERVENE_MEAN)
        s->outputs = hs__arena_floats(arena, s->variants.capacity * s->T *
                                                 hs_engine_shape(s->variants.engine)->head_width);
}

/* Returns how many threads compare similarities at once: fewer for long texts, whose maps are large. */
static size_t slots_of(const hs_effects_options *options, size_t n_layers, size_t n_tokens, size_t n_threads)
{
    const size_t bytes_max = (size_t)512 << 20;
    const size_t slot = n_tokens * n_tokens * sizeof(float) * (options->again ? 2 : 1);
    return options->layers[0] + 1U == n_layers ? 0 : hs_max(1, hs_min(n_threads, bytes_max / slot));
}

static sweep sweep_describe(const hs_engine *engine, const hs_effects_options *options, size_t tokens_max,
                            size_t n_threads)
{
    const hs_shape *shape = hs_engine_shape(engine);
    const size_t T = options->baseline->n_tokens, n_rows = 1 + options->n_heads;
    const hs_effects_reader own = {engine, options->baseline->ids, T},
                            reader = options->reader.engine ? options->reader : own;
    const size_t V = hs_engine_shape(reader.engine)->vocab_size;
    const size_t held = HS_LOGITS_BYTES_MAX / (n_rows * V * sizeof(float));
    return (sweep){
        .variants = {.engine = engine,
                     .text = options->baseline,
                     .capacity = hs__variants_capacity(T, tokens_max, options->n_heads)},
        .options = options,
        .baseline = options->baseline->capture,
        .T = T,
        .H = shape->hidden,
        .reader = reader,
        .V = V,
        .n_layers = shape->n_layers,
        .n_heads = shape->n_heads,
        .n_threads = hs_max(n_threads, 1),
        .n_slots = slots_of(options, shape->n_layers, T, hs_max(n_threads, 1)),
        .n_at_once = hs_min(hs_max(held, 1), options->n_positions),
        .n_target =
            hs_target_floats(hs_engine_architecture(reader.engine), &options->target, reader.n_tokens),
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
    const sweep s = sweep_describe(engine, options, hs_engine_shape(engine)->n_positions, n_threads);
    return sweep_bytes(s) + hs__decoder_bytes(&options->reader, s.T);
}

/* Keeps what the target reads of the other text. */
static hs_status other_target_keep(const sweep *s, const hs_run_control *control, hs_error *err)
{
    const hs_effects_options *options = s->options;
    const float *last = hs_capture_at(options->other, HS_TAP_EVERY_STATE, s->n_layers, 0);
    const hs_status st = hs__decoder_read(&s->decoder, &last, control, err);
    return st ? st
              : hs_target_rows(s->reader.engine, &options->target, last, read_of(s, options->other),
                               s->n_threads, s->targets + (1 + options->n_heads) * s->n_target, err);
}

static hs_status layers_compare(sweep *s, const hs_run_control *control, hs_effect *ret, hs_error *err)
{
    const hs_effects_options *options = s->options;
    hs_status st = norms_find(s, err);
    if (!st)
        st = states_keep(s, hs_capture_at(s->baseline, HS_TAP_EVERY_STATE, s->n_layers, 0), 0, control, err);
    if (!st && s->n_target > 0 && options->kind == HS_INTERVENE_PATCH)
        st = other_target_keep(s, control, err);
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
    hs_status st = hs__decoder_open(&s.decoder, &options->reader, s.T, err);
    if (!st)
        st = layers_compare(&s, control, ret_effects, err);
    hs__variants_finish(&s.variants);
    hs__decoder_close(&s.decoder);
    free(arena.base);
    return st;
}

/* ---- head scores ----
 *
 * Draws the texts and reads the maps of each while they are in the cache, one text a pass. */

typedef struct sums {
    double previous, duplicate, induction;
} sums;

/* The data of a call. */
typedef struct scoring {
    const hs_head_scores_options *options;
    size_t T, n_threads;
    uint64_t state;   /* of the random numbers */
    int32_t *choices; /* [n_choices], shuffled further by each text */
    int32_t *ids;     /* [T] */
    sums *sums;       /* [n_layers][n_heads] over texts */
    float *maps;      /* [n_threads][T][T] */
} scoring;

/* Draws different ids by the first steps of Fisher and Yates's shuffle, and repeats them. */
static void text_draw(scoring *s)
{
    const hs_head_scores_options *w = s->options;
    int32_t *first = s->ids + w->n_before, *second = first + w->length;
    for (size_t i = 0; i < w->length; i++) {
        s->state += HS_MIX_STEP;
        const size_t k = i + (size_t)(hs_mix(s->state) % (w->n_choices - i));
        const int32_t drawn = s->choices[k];
        s->choices[k] = s->choices[i];
        s->choices[i] = first[i] = second[i] = drawn;
    }
}

/* The observer's callback: adds one head's means over the rows of a text. Threads have different heads. */
static void map_add(void *context, size_t sequence, size_t l, size_t h, const hs_observed_head *head)
{
    const scoring *s = context;
    const hs_head_scores_options *w = s->options;
    const size_t T = s->T, n = w->length, second = w->n_before + n;
    sums rows = {0}, *sum = &s->sums[l * w->n_heads + h];
    (void)sequence;
    for (size_t i = 1; i < T; i++)
        rows.previous += (double)head->attention[i * T + i - 1];
    for (size_t i = second; i < second + n; i++) {
        rows.duplicate += (double)head->attention[i * T + i - n];
        rows.induction += (double)head->attention[i * T + i - n + 1];
    }
    sum->previous += rows.previous / (double)(T - 1);
    sum->duplicate += rows.duplicate / (double)n;
    sum->induction += rows.induction / (double)n;
}

/* Measures (base NULL) or carves the memory of a call. */
static void scoring_layout(scoring *s, hs__arena *arena)
{
    const hs_head_scores_options *w = s->options;
    s->choices = hs__arena_take(arena, w->n_choices * sizeof *s->choices);
    s->ids = hs__arena_take(arena, s->T * sizeof *s->ids);
    s->sums = hs__arena_take(arena, w->n_layers * w->n_heads * sizeof *s->sums);
    s->maps = hs__arena_floats(arena, s->n_threads * s->T * s->T);
}

static scoring scoring_describe(const hs_head_scores_options *options, size_t n_threads)
{
    return (scoring){.options = options,
                     .T = options->n_before + 2 * options->length + options->n_after,
                     .n_threads = n_threads > 1 ? n_threads : 1,
                     .state = options->seed};
}

static hs_selection selection_of(const hs_head_scores_options *w)
{
    return (hs_selection){w->layers, w->n_layers, w->heads, w->n_heads, 0, 0};
}

static size_t scoring_bytes(scoring s)
{
    hs__arena measure = {0};
    scoring_layout(&s, &measure);
    return measure.used;
}

size_t hs_head_scores_bytes(const hs_engine *engine, const hs_head_scores_options *options, size_t n_threads)
{
    const scoring s = scoring_describe(options, n_threads);
    const hs_selection selection = selection_of(options);
    return scoring_bytes(s) + hs_capture_bytes(hs_engine_shape(engine), &selection, s.T);
}

static void scoring_begin(scoring *s)
{
    const hs_head_scores_options *w = s->options;
    memset(s->sums, 0, w->n_layers * w->n_heads * sizeof *s->sums);
    memcpy(s->choices, w->choices, w->n_choices * sizeof *s->choices);
    if (w->n_before > 0)
        memcpy(s->ids, w->before, w->n_before * sizeof *s->ids);
    if (w->n_after > 0)
        memcpy(s->ids + s->T - w->n_after, w->after, w->n_after * sizeof *s->ids);
}

static void scores_write(const scoring *s, hs_head_score *ret)
{
    const hs_head_scores_options *w = s->options;
    const double n = (double)w->n_texts;
    for (size_t i = 0; i < w->n_layers * w->n_heads; i++)
        ret[i] = (hs_head_score){(float)(s->sums[i].previous / n), (float)(s->sums[i].duplicate / n),
                                 (float)(s->sums[i].induction / n)};
}

static hs_status texts_run(scoring *s, const hs_engine *engine, hs_workspace *ws,
                           const hs_run_control *control, hs_error *err)
{
    const hs_head_scores_options *w = s->options;
    const hs_selection selection = selection_of(w);
    const hs_observer observer = {
        .attention = s->maps, .show = map_add, .context = s, .n_threads = s->n_threads};
    hs_sequence sequence = {.ids = s->ids,
                            .n_tokens = s->T,
                            .interventions = w->interventions,
                            .n_interventions = w->n_interventions};
    hs_status st = hs_capture_create(hs_engine_runtime(engine), hs_engine_shape(engine), &selection, s->T,
                                     &sequence.capture, err);
    for (size_t i = 0; i < w->n_texts && !st; i++) {
        text_draw(s);
        st = hs_engine_compute(engine, ws, &sequence, 1, &observer, control, err);
    }
    hs_capture_destroy(sequence.capture);
    return st;
}

hs_status hs_head_scores_compute(const hs_engine *engine, hs_workspace *ws,
                                 const hs_head_scores_options *options, const hs_run_control *control,
                                 hs_head_score *ret_scores, hs_error *err)
{
    scoring s = scoring_describe(options, control->n_threads);
    hs__arena arena = {.base = hs_memory_create(scoring_bytes(s))};
    if (!arena.base)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for head scores");
    scoring_layout(&s, &arena);
    scoring_begin(&s);
    const hs_status st = texts_run(&s, engine, ws, control, err);
    if (!st)
        scores_write(&s, ret_scores);
    free(arena.base);
    return st;
}
