/* pruning_passes.c - ranks heads and measures the loss with some of them switched off. */
#include "server/corpus/counters/pruning_passes.h"

#include "engine/statistics/sums.h"
#include "model/base/bytes.h"
#include "server/corpus/counters/head_importance.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---- */

typedef struct passes {
    const hs__pruning_job *of;
    const hs__corpus_job *job;
    hs_workspace *ws;
    hs_run_control control;
    size_t n_layers, n_heads, n_maps;
    /* of the text at hand */
    hs_capture *baseline, *changed; /* baseline keeps every state */
    int32_t *ids;                   /* [max_tokens], with masks */
    /* scratch */
    hs__loss_reader loss;           /* its scratch is owned */
    hs__importance *importance;     /* owned; NULL: not ranked */
    double *text_values;            /* [l][h]: importances in the text at hand */
    float *weights;                 /* [H][A]: W_O of a layer */
    hs_intervention *interventions; /* the run's, then one for each layer */
    uint16_t *heads;                /* [l][h] */
    bool *off;                      /* [l][h] */
    double *values;                 /* [HS__PRUNING_RANKINGS][l][h] */
    size_t *order;                  /* [l][h] */
} passes;

static size_t weights_floats(const hs_shape *shape)
{
    return shape->hidden * shape->n_heads * shape->head_width;
}

static hs_selection baseline_selection(const hs_shape *shape)
{
    return hs_select_all(shape, HS_KEEP(ATTENTION) | HS_KEEP(HEAD_OUTPUT) | HS_KEEP(EVERY_STATE) |
                                    HS_KEEP(LAST_STATE));
}

static const hs_selection last_selection = {.taps = HS_KEEP(LAST_STATE)};

uint64_t hs__pruning_bytes(const hs__corpus_job *job)
{
    const hs_shape *shape = hs_engine_shape(job->engine);
    const hs_selection baseline = baseline_selection(shape);
    const size_t T = job->settings.fields.max_tokens, n = hs__corpus_maps(job);
    return hs_capture_bytes(shape, &baseline, T) + hs_capture_bytes(shape, &last_selection, T) +
           hs__loss_bytes(job) + weights_floats(shape) * sizeof(float) + T * sizeof(int32_t) +
           n * (sizeof(hs_intervention) + (HS__PRUNING_RANKINGS + 1) * sizeof(double) + 32) +
           job->settings.fields.n_interventions * sizeof(hs_intervention);
}

static void passes_finish(passes *p)
{
    hs_capture_destroy(p->baseline);
    hs_capture_destroy(p->changed);
    free(p->ids);
    free(p->loss.scratch);
    hs__importance_destroy(p->importance);
    free(p->text_values);
    free(p->weights);
    free(p->interventions);
    free(p->heads);
    free(p->off);
    free(p->values);
    free(p->order);
}

static bool passes_init(passes *p)
{
    const hs_shape *shape = hs_engine_shape(p->job->engine);
    const hs_field_values *fields = &p->job->settings.fields;
    p->ids = malloc(fields->max_tokens * sizeof *p->ids);
    p->loss.scratch = malloc(hs__loss_floats(p->job) * sizeof *p->loss.scratch);
    p->weights = malloc(weights_floats(shape) * sizeof *p->weights);
    p->interventions = calloc(fields->n_interventions + p->n_layers, sizeof *p->interventions);
    p->heads = calloc(p->n_maps, sizeof *p->heads);
    p->off = calloc(p->n_maps, sizeof *p->off);
    p->values = calloc(HS__PRUNING_RANKINGS * p->n_maps, sizeof *p->values);
    p->order = calloc(p->n_maps, sizeof *p->order);
    p->text_values = calloc(p->n_maps, sizeof *p->text_values);
    if (!p->interventions || !p->ids || !p->loss.scratch || !p->weights || !p->heads || !p->off ||
        !p->values || !p->order || !p->text_values)
        return false;
    for (size_t k = 0; k < fields->n_interventions; k++)
        p->interventions[k] = fields->interventions[k];
    return true;
}

/* Fails if the run is stopped: what lies between two passes can take seconds, too. */
static hs_status stop_check(const passes *p, hs_error *err)
{
    return p->control.cancelled && atomic_load_explicit(p->control.cancelled, memory_order_relaxed)
               ? hs_fail(err, HS_CANCELLED, "cancelled between the passes of the pruning curve")
               : HS_OK;
}

/* ---- passes ---- */

static hs_status pass_run(const passes *p, const hs__predicted_text *t, hs_capture *capture,
                          size_t n_interventions, const hs_start *start, hs_error *err)
{
    const hs_sequence sequence = {.ids = p->ids,
                                  .types = t->types,
                                  .n_tokens = t->n_tokens,
                                  .capture = capture,
                                  .interventions = p->interventions,
                                  .n_interventions = n_interventions,
                                  .start = start};
    return hs_engine_compute(p->job->engine, p->ws, &sequence, 1, NULL, &p->control, err);
}

/* Computes the text with all heads, whose states further passes start from. */
static hs_status text_begin(passes *p, const hs__predicted_text *t, hs__loss *ret, hs_error *err)
{
    const hs_shape *shape = hs_engine_shape(p->job->engine);
    hs_runtime *runtime = hs_engine_runtime(p->job->engine);
    const hs_selection selection = baseline_selection(shape);
    hs_capture_destroy(p->baseline);
    hs_capture_destroy(p->changed);
    p->baseline = p->changed = NULL;
    hs__predicted_text_ids(t, p->job, p->ids);
    hs_status st = hs_capture_create(runtime, shape, &selection, t->n_tokens, &p->baseline, err);
    if (!st)
        st = hs_capture_create(runtime, shape, &last_selection, t->n_tokens, &p->changed, err);
    if (!st)
        st = pass_run(p, t, p->baseline, p->job->settings.fields.n_interventions, NULL, err);
    return st ? st : hs__loss_add(&p->loss, t, p->baseline, ret, NULL, err);
}

/* Adds an intervention for each layer with heads that are off. Returns their number; *ret_layer is the first
 * such layer. */
static size_t interventions_fill(const passes *p, hs_intervention_kind kind, size_t *ret_layer)
{
    const hs_field_values *fields = &p->job->settings.fields;
    size_t n = fields->n_interventions, n_heads = 0;
    for (size_t l = 0; l < p->n_layers; l++) {
        const size_t first = n_heads;
        for (size_t h = 0; h < p->n_heads; h++)
            if (p->off[l * p->n_heads + h])
                p->heads[n_heads++] = (uint16_t)h;
        if (n_heads == first)
            continue;
        *ret_layer = n == fields->n_interventions ? fields->layers[l] : *ret_layer;
        p->interventions[n++] = (hs_intervention){.layers = &fields->layers[l],
                                                  .n_layers = 1,
                                                  .heads = p->heads + first,
                                                  .n_heads = n_heads - first,
                                                  .kind = kind};
    }
    return n;
}

/* Adds the text's loss without the heads of p->off. Layers below them are not computed again. */
static hs_status off_add(const passes *p, const hs__predicted_text *t, hs_intervention_kind kind,
                         hs__loss *ret, hs_error *err)
{
    hs_start start = {0};
    const size_t n = interventions_fill(p, kind, &start.layer), T = t->n_tokens;
    start.state =
        hs_capture_at(p->baseline, HS_TAP_EVERY_STATE, 0, 0) + start.layer * T * p->baseline->hidden;
    const hs_status st = pass_run(p, t, p->changed, n, &start, err);
    p->changed->n_unpadded = p->baseline->n_unpadded;
    return st ? st : hs__loss_add(&p->loss, t, p->changed, ret, NULL, err);
}

/* ---- rankings ---- */

static double *value_at(const passes *p, size_t ranking, size_t map)
{
    return p->values + ranking * p->n_maps + map;
}

/* Returns the mean entropy of the rows of an attention map, in nats. */
static double entropy_of(const float *attention, size_t T)
{
    double sum = 0;
    for (size_t i = 0; i < T * T; i++)
        sum -= attention[i] > 0 ? (double)attention[i] * log((double)attention[i]) : 0;
    return sum / (double)T;
}

/* Returns the mean over tokens of |o W_O|. weights: the columns of a head in rows of n_columns. */
static double norm_of(const float *outputs, size_t T, size_t d, const float *weights, size_t n_columns,
                      size_t hidden)
{
    double sum = 0;
    for (size_t t = 0; t < T; t++) {
        double square = 0;
        for (size_t i = 0; i < hidden; i++) {
            double y = 0;
            for (size_t c = 0; c < d; c++)
                y += (double)weights[i * n_columns + c] * (double)outputs[t * d + c];
            square += y * y;
        }
        sum += sqrt(square);
    }
    return sum / (double)T;
}

/* Adds a text's entropies and norms. */
static hs_status maps_add(passes *p, const hs__predicted_text *t, hs_error *err)
{
    const hs_capture *c = p->baseline;
    const hs_architecture *architecture = hs_engine_architecture(p->job->engine);
    const size_t d = c->head_width, A = p->n_heads * d;
    for (size_t l = 0; l < p->n_layers; l++) {
        const size_t layer = p->job->settings.fields.layers[l];
        hs_tensor_read(&architecture->layers[layer].output.weight, 0, c->hidden, p->weights);
        for (size_t h = 0; h < p->n_heads; h++) {
            const size_t map = l * p->n_heads + h;
            const hs_status st = stop_check(p, err);
            if (st)
                return st;
            *value_at(p, HS__PRUNING_ENTROPY, map) +=
                entropy_of(hs_capture_at(c, HS_TAP_ATTENTION, layer, h), t->n_tokens);
            *value_at(p, HS__PRUNING_NORM, map) += norm_of(hs_capture_at(c, HS_TAP_HEAD_OUTPUT, layer, h),
                                                           t->n_tokens, d, p->weights + h * d, A, c->hidden);
        }
    }
    return HS_OK;
}

/* Adds a text's importances, if they are ranked. */
static hs_status importance_add(passes *p, const hs__predicted_text *t, hs_error *err)
{
    hs__loss loss = {0};
    if (!p->importance)
        return HS_OK;
    const hs_status st =
        hs__importance_compute(p->importance, p->ws, t, &p->control, p->text_values, &loss, err);
    for (size_t map = 0; map < p->n_maps && !st; map++)
        *value_at(p, HS__PRUNING_IMPORTANCE, map) += p->text_values[map];
    return st;
}

/* Adds what a text says of each head. */
static hs_status text_rank(passes *p, const hs__predicted_text *t, const hs__pruning_curve *curve,
                           hs_error *err)
{
    hs__loss with = {0};
    hs_status st = text_begin(p, t, &with, err);
    if (!st)
        st = maps_add(p, t, err);
    if (!st)
        st = importance_add(p, t, err);
    for (size_t map = 0; map < p->n_maps && !st; map++) {
        hs__loss without = {0};
        memset(p->off, 0, p->n_maps * sizeof *p->off);
        p->off[map] = true;
        st = off_add(p, t, HS_INTERVENE_ZERO, &without, err);
        *value_at(p, HS__PRUNING_EFFECT, map) += without.sum - with.sum;
    }
    curve->words[HS__PRUNING_RANKING_TEXTS]++;
    curve->words[HS__PRUNING_RANKING_PREDICTIONS] += with.n;
    return st;
}

/* Fills the values that no pass gives. */
static void values_begin(const passes *p)
{
    for (size_t map = 0; map < p->n_maps; map++)
        *value_at(p, HS__PRUNING_SNR, map) = p->of->snr[map];
    for (size_t r = HS__PRUNING_RANDOM; r < HS__PRUNING_IMPORTANCE; r++)
        for (size_t map = 0; map < p->n_maps; map++)
            *value_at(p, r, map) = hs_fraction_of(hs_mix(hs_mix(r) + (map + 1) * HS_MIX_STEP));
}

/* Orders the heads of a ranking, the lowest value first; of equal ones the first head. */
static void order_find(passes *p, size_t ranking, const hs__pruning_curve *curve)
{
    for (size_t map = 0; map < p->n_maps; map++) {
        const double value = *value_at(p, ranking, map);
        size_t at = map;
        for (; at && *value_at(p, ranking, p->order[at - 1]) > value; at--)
            p->order[at] = p->order[at - 1];
        p->order[at] = map;
    }
    for (size_t k = 0; k < p->n_maps; k++) {
        *hs__pruning_rank(curve, ranking, p->order[k]) = (int64_t)k;
        hs_real_add(hs__pruning_value(curve, ranking, k), *value_at(p, ranking, k));
    }
}

/* ---- the curve ---- */

static void point_add(const hs__pruning_curve *curve, size_t ranking, size_t kind, size_t point,
                      const hs__loss *sums)
{
    int64_t *words = hs__pruning_point(curve, ranking, kind, point);
    hs_real_add(words, sums->sum);
    words[2] += sums->n_right;
}

/* Adds a text's loss at a point. The heads that are off are those of a rank below it. */
static hs_status point_measure(const passes *p, const hs__predicted_text *t, size_t ranking, size_t kind,
                               size_t point, const hs__pruning_curve *curve, hs_error *err)
{
    hs__loss sums = {0};
    for (size_t map = 0; map < p->n_maps; map++)
        p->off[map] = *hs__pruning_rank(curve, ranking, map) < (int64_t)curve->points[point];
    const hs_status st =
        off_add(p, t, kind == HS__PRUNING_ZERO ? HS_INTERVENE_ZERO : HS_INTERVENE_MEAN, &sums, err);
    point_add(curve, ranking, kind, point, &sums);
    return st;
}

static hs_status text_curve(passes *p, const hs__predicted_text *t, const hs__pruning_curve *curve,
                            hs_error *err)
{
    hs__loss with = {0};
    hs_status st = text_begin(p, t, &with, err);
    for (size_t r = 0; r < curve->n_rankings; r++)
        for (size_t kind = 0; kind < HS__PRUNING_KINDS; kind++) {
            point_add(curve, r, kind, 0, &with);
            for (size_t k = 1; k < curve->n_points && !st; k++)
                st = point_measure(p, t, r, kind, k, curve, err);
        }
    curve->words[HS__PRUNING_TEXTS]++;
    curve->words[HS__PRUNING_PREDICTIONS] += with.n;
    return st;
}

static hs_status all_run(passes *p, hs__pruning_curve *curve, hs_error *err)
{
    hs_status st = HS_OK;
    values_begin(p);
    for (size_t i = 0; i < p->of->n_texts && !st; i += 2)
        st = text_rank(p, &p->of->texts[i], curve, err);
    for (size_t r = 0; r < curve->n_rankings; r++)
        order_find(p, r, curve);
    for (size_t i = 1; i < p->of->n_texts && !st; i += 2)
        st = text_curve(p, &p->of->texts[i], curve, err);
    return st;
}

hs_status hs__pruning_compute(const hs__pruning_job *of, hs_workspace *ws, hs__pruning_curve *ret,
                              hs_error *err)
{
    passes p = {.of = of,
                .job = of->job,
                .ws = ws,
                .control = {.cancelled = of->job->stop},
                .n_layers = of->job->settings.fields.n_layers,
                .n_heads = hs_engine_shape(of->job->engine)->n_heads,
                .n_maps = hs__corpus_maps(of->job)};
    p.loss = (hs__loss_reader){.job = of->job, .kind = of->measure, .control = &p.control};
    memset(ret->words, 0, hs__pruning_words(ret->n_maps) * sizeof *ret->words);
    hs_status st = passes_init(&p) ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory for the pruning curve");
    if (!st && ret->n_rankings > HS__PRUNING_IMPORTANCE)
        st = hs__importance_create(of->job, &p.importance, err);
    if (!st)
        st = all_run(&p, ret, err);
    passes_finish(&p);
    return st;
}
