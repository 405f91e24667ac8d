/* same_distance.c - chance at the same distance: how many of a head's high pairs would be repeated tokens, or
 * in one sentence, if only their distances counted.
 *
 * Chance over all pairs of a text (chance in report.json) is too low for a head whose high pairs are near:
 * neighbours are in one sentence more often. The shares at each distance are of engine/statistics/chance.h.
 * Runs of earlier versions lack these counts; one of them that is resumed goes on without. */
#include "server/corpus/counters/counter.h"
#include "server/corpus/counters/words.h"
#include "server/corpus/report/html.h"

#include <math.h>
#include <stdlib.h>

/* Expected numbers [HS_CHANCE_KINDS][t][l][h], each as an integer and a fraction in units of
 * 2^-HS_CHANCE_BITS. */
typedef hs__sums sums;

static hs__sums_size size_of(size_t n_thresholds, size_t n_layers, size_t n_heads)
{
    return (hs__sums_size){.words = 2 * HS_CHANCE_KINDS * n_thresholds * n_layers * n_heads};
}

static const hs__sums_kind kind_of_sums = {
    .member = "same_distance", .what = "the chances at the same distance", .size = size_of};

/* Returns how many numbers there are of one kind. */
static size_t cells(const sums *s)
{
    return s->n_outer * s->n_layers * s->n_heads;
}

static double expected(const sums *s, size_t index)
{
    return hs__real_at(s->words + 2 * index);
}

static void measure(const hs__corpus_job *job, const void *options, hs__counter_size *size)
{
    const size_t n_numbers = HS_CHANCE_KINDS * job->settings.n_thresholds * hs__corpus_maps(job);
    (void)options;
    hs__sums_measure(&kind_of_sums, job->settings.n_thresholds, job->settings.fields.n_layers,
                     hs_engine_shape(job->engine)->n_heads, size);
    size->worker += HS_CORPUS_BATCH * hs_chance_bytes(job->settings.fields.max_tokens);
    size->listed += n_numbers;
    size->elements += n_numbers;
}

/* ---- a run ---- */

typedef struct worker {
    size_t n_thresholds, n_maps;
    hs_chance *chances[HS_CORPUS_BATCH]; /* of the texts of a pass */
    sums *sums;
} worker;

const hs_chance *hs__same_distance_of_worker(const void *state, size_t place)
{
    const worker *w = state;
    return w->chances[place];
}

static hs_status worker_create(hs__counting *counting, void *const *states, void **ret, hs_error *err)
{
    (void)states;
    if (!*counting->counts)
        return HS_OK;
    worker *w = *ret = calloc(1, sizeof *w);
    if (!w)
        return hs_fail(err, HS_NO_MEMORY, "no memory for a worker");
    w->n_thresholds = counting->statistics->n_thresholds;
    w->n_maps = hs__corpus_maps(counting->job);
    w->sums = hs__sums_create_like(*counting->counts, err);
    for (size_t k = 0; k < HS_CORPUS_BATCH; k++) {
        w->chances[k] = hs_chance_create(counting->statistics->tokens_max);
        if (!w->chances[k])
            return hs_fail(err, HS_NO_MEMORY, "no memory for a worker");
    }
    return w->sums ? HS_OK : HS_NO_MEMORY;
}

static void worker_destroy(void *state)
{
    worker *w = state;
    for (size_t k = 0; k < HS_CORPUS_BATCH; k++)
        hs_chance_destroy(w->chances[k]);
    hs__sums_destroy(w->sums);
    free(w);
}

static hs_status start(void *state, hs__text *t, hs_error *err)
{
    const worker *w = state;
    const hs_corpus_text text = hs__text_counted(t);
    (void)err;
    hs_chance_find(w->chances[t->place], &text);
    return HS_OK;
}

static void head(void *state, hs__text *text, hs__text_head *head)
{
    const worker *w = state;
    uint64_t numbers[HS_CHANCE_KINDS];
    for (size_t t = 0; t < w->n_thresholds; t++) {
        hs_chance_expect(w->chances[text->place], hs_corpus_batch_distances(head->statistics, t), numbers);
        for (size_t kind = 0; kind < HS_CHANCE_KINDS; kind++) {
            int64_t *to = w->sums->words + 2 * (kind * cells(w->sums) + t * w->n_maps + head->map);
            to[0] += (int64_t)(numbers[kind] >> HS_CHANCE_BITS);
            to[1] += (int64_t)(numbers[kind] & ((UINT64_C(1) << HS_CHANCE_BITS) - 1));
        }
    }
}

static hs_status gather(hs__counting *counting, void *state, hs_error *err)
{
    const worker *w = state;
    (void)err;
    hs__sums_move(*counting->counts, w->sums);
    return HS_OK;
}

static hs_status load(const hs__corpus_results *results, const json_t *checkpoint, void **ret, hs_error *err)
{
    const size_t n_thresholds = hs_corpus_stats_options(results->stats).n_thresholds;
    return hs__sums_load(&kind_of_sums, n_thresholds, results, checkpoint, ret, err);
}

/* ---- report ---- */

#define HEADS "threshold layer head"

static const hs__described_array arrays[] = {
    {"expected_repeated", HEADS, "pairs",
     "high pairs of the same token expected by chance at the same distances"},
    {"expected_same_sentence", HEADS, "pairs",
     "high pairs in one sentence expected by chance at the same distances"},
    {"expected_repeated_same_sentence", HEADS, "pairs",
     "high pairs of the same token in one sentence expected by chance at the same distances"},
};

static size_t list(const void *counts, hs_corpus_array *ret)
{
    const sums *s = counts;
    for (size_t kind = 0; kind < HS_CHANCE_KINDS; kind++)
        ret[kind] = (hs_corpus_array){.name = arrays[kind].name,
                                      .is_float = true,
                                      .n_axes = 3,
                                      .axes = {s->n_outer, s->n_layers, s->n_heads},
                                      .n_elements = cells(s),
                                      .field = kind};
    return HS_CHANCE_KINDS;
}

static void read(const void *counts, const hs_corpus_array *array, size_t first, size_t n, void *ret)
{
    const sums *s = counts;
    double *values = ret;
    for (size_t i = 0; i < n; i++)
        values[i] = expected(s, array->field * cells(s) + first + i);
}

/* The names of a share, and whether it is an object with a value of its own. */
static const struct {
    const char *share, *lift, *chance;
    bool is_figure;
} names[HS_CHANCE_KINDS] = {
    {"repeated_share", "repeated_lift_same_distance", "repeated_chance_same_distance", true},
    {"same_sentence_share", "same_sentence_lift_same_distance", "same_sentence_chance_same_distance", true},
    {"repeated_same_sentence_share", "repeated_same_sentence_lift_same_distance",
     "repeated_same_sentence_chance_same_distance", false},
};

/* Adds chance and lift of one share. */
static void chance_add(json_t *figures, size_t kind, bool of_head, double number, double high)
{
    json_t *share = json_object_get(figures, names[kind].share);
    const double value = of_head && names[kind].is_figure ? json_number_value(json_object_get(share, "value"))
                                                          : json_number_value(share);
    const double chance = high > 0 ? number / high : NAN;
    json_t *to = of_head && names[kind].is_figure ? share : figures;
    json_object_set_new(to, to == share ? "chance_same_distance" : names[kind].chance,
                        hs__report_number(chance));
    json_object_set_new(figures, names[kind].lift, hs__report_number(chance > 0 ? value / chance : NAN));
}

static void layer_report(const sums *s, size_t t, size_t l, json_t *heads, json_t *layer)
{
    for (size_t kind = 0; kind < HS_CHANCE_KINDS; kind++) {
        double number = 0, high = 0;
        for (size_t h = 0; h < s->n_heads; h++) {
            json_t *figures = json_array_get(heads, h);
            const double own_number = expected(s, kind * cells(s) + (t * s->n_layers + l) * s->n_heads + h);
            const double own_high = json_number_value(json_object_get(figures, "high"));
            chance_add(figures, kind, true, own_number, own_high);
            number += own_number;
            high += own_high;
        }
        chance_add(layer, kind, false, number, high);
    }
}

/* Adds to the figures of heads and layers. */
static void report(const hs__corpus_results *results, void *counts, json_t *to)
{
    const sums *s = counts;
    const json_t *heads = json_object_get(to, "head_figures"), *layers = json_object_get(to, "layer_figures");
    (void)results;
    for (size_t t = 0; s && t < json_array_size(heads); t++)
        for (size_t l = 0; l < s->n_layers; l++)
            layer_report(s, t, l, json_array_get(json_array_get(heads, t), l),
                         json_array_get(json_array_get(layers, t), l));
}

const hs__counter hs__counter_same_distance = {
    .name = "same distance",
    .sums = &kind_of_sums,
    .measure = measure,
    .begin = hs__sums_begin,
    .matches = hs__sums_match,
    .worker_create = worker_create,
    .worker_destroy = worker_destroy,
    .start = start,
    .head = head,
    .gather = gather,
    .save = hs__sums_save,
    .load = load,
    .merge = hs__sums_merge,
    .destroy = hs__sums_destroy,
    .arrays = arrays,
    .n_arrays = HS__N(arrays),
    .list = list,
    .read = read,
    .report = report,
};
