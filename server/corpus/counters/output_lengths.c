/* output_lengths.c - how much of a head's high pairs and similarities the lengths of its outputs explain.
 *
 * Two counters. One says how many high pairs are those of the longest outputs, and how many directions the
 * outputs take. The other counts what findings rest on (resampling.h) for the pairs of the longest outputs,
 * as many as there are high pairs. */
#include "engine/statistics/longest_outputs.h"

#include "model/files/json.h"
#include "server/corpus/counters/counter.h"
#include "server/corpus/counters/resampling.h"
#include "server/corpus/report/html.h"
#include "server/corpus/report/report_value.h"

#include <stdlib.h>
#include <string.h>

enum { OVERLAP, R2, R2_TEXTS, PARTICIPATION, PARTICIPATION_TEXTS };

#define BY_HEAD                                                                                              \
    {                                                                                                        \
        HS_AXIS_LAYER, HS_AXIS_HEAD                                                                          \
    }

static const hs_array_row rows[] = {
    [OVERLAP] = {"longest_overlap", BY_HEAD, "pairs",
                 "high pairs that are among as many pairs of the longest outputs"},
    [R2] = {"length_r2_sum", BY_HEAD, "share of variance",
            "squared correlation of S with the product of two outputs' lengths, summed over texts", HS_REAL},
    [R2_TEXTS] = {"length_r2_texts", BY_HEAD, "texts", "texts in which it is defined"},
    [PARTICIPATION] = {"participation_sum", BY_HEAD, "directions",
                       "participation ratio of the outputs of a text, summed over texts", HS_REAL},
    [PARTICIPATION_TEXTS] = {"participation_texts", BY_HEAD, "texts", "texts in which it is defined"},
};

static const hs_sums_kind kind = {
    .member = "longest_outputs", .what = "the lengths of outputs", .rows = rows, .n_rows = HS__N(rows)};

static void measure(const hs__corpus_job *job, const void *options, hs__counter_size *size)
{
    const size_t n_maps = hs__corpus_maps(job);
    (void)options;
    size->worker += hs_longest_bytes(job->settings.fields.max_tokens);
    size->report += n_maps * 512;
    size->report_text += n_maps * 128;
}

/* ---- a worker ---- */

typedef struct worker {
    hs__tally tally;
    hs_longest *longest;
    hs_longest_head found; /* of the head at hand */
} worker;

static hs_status worker_begin(void *state, void *const *states, hs_error *err)
{
    worker *w = state;
    (void)states;
    w->longest = hs_longest_create(w->tally.counting->statistics->tokens_max);
    return w->longest ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory for a worker");
}

static void worker_end(void *state)
{
    const worker *w = state;
    hs_longest_destroy(w->longest);
}

static hs_status start(void *state, hs__text *t, hs_error *err)
{
    const worker *w = state;
    const hs_corpus_text text = hs__text_counted(t);
    (void)err;
    hs_longest_text_find(w->longest, t->place, &text);
    return HS_OK;
}

/* Adds a number and counts its text, unless it is NAN. */
static void mean_add(const hs_sums *sums, size_t row, size_t map, double value)
{
    if (isnan(value))
        return;
    hs_real_add(hs_sums_at(sums, row) + 2 * map, value);
    hs_sums_at(sums, row + 1)[map]++;
}

static void head(void *state, hs__text *t, hs__text_head *head)
{
    worker *w = state;
    hs_longest_maps maps = {.similarity = head->maps.similarity,
                            .lengths = head->maps.lengths,
                            .threshold = w->tally.counting->statistics->threshold_main};
    maps.levels = hs_corpus_batch_levels(head->statistics, &maps.stride);
    hs_longest_head_find(w->longest, t->place, &maps, head->observation->high_pairs, &w->found);
    hs_sums_at(w->tally.sums, OVERLAP)[head->map] += (int64_t)w->found.overlap;
    mean_add(w->tally.sums, R2, head->map, w->found.r2);
    mean_add(w->tally.sums, PARTICIPATION, head->map, w->found.participation);
}

/* ---- report.json ---- */

/* Returns the mean over texts of a row, for n heads together. */
static double mean_of(const hs_sums *sums, size_t row, size_t first, size_t n)
{
    double sum = 0, count = 0;
    for (size_t map = first; map < first + n; map++) {
        sum += hs_real_at(hs_sums_at(sums, row) + 2 * map);
        count += (double)hs_sums_at(sums, row + 1)[map];
    }
    return count > 0 ? sum / count : (double)NAN;
}

/* Adds the figures of n heads to theirs in the report. */
static void figures_add(const hs_sums *sums, size_t first, size_t n, json_t *to)
{
    const double n_high = json_number_value(json_object_get(to, "high"));
    double overlap = 0;
    for (size_t map = first; map < first + n; map++)
        overlap += (double)hs_sums_at(sums, OVERLAP)[map];
    json_object_set_new(to, "longest_overlap", hs__report_number(n_high > 0 ? overlap / n_high : NAN));
    json_object_set_new(to, "length_r2", hs__report_number(mean_of(sums, R2, first, n)));
    json_object_set_new(to, "participation_ratio", hs__report_number(mean_of(sums, PARTICIPATION, first, n)));
}

static void report(const hs__corpus_results *results, void *counts, json_t *to)
{
    const hs_corpus_options o = hs_corpus_stats_options(results->stats);
    const json_t *heads = json_array_get(json_object_get(to, "head_figures"), o.threshold_main),
                 *layers = json_array_get(json_object_get(to, "layer_figures"), o.threshold_main);
    for (size_t l = 0; counts && l < o.n_layers; l++) {
        figures_add(counts, l * o.n_heads, o.n_heads, json_array_get(layers, l));
        for (size_t h = 0; h < o.n_heads; h++)
            figures_add(counts, l * o.n_heads + h, 1, json_array_get(json_array_get(heads, l), h));
    }
}

const hs__counter hs__counter_longest_outputs = {
    .name = "longest outputs",
    .sums = &kind,
    .measure = measure,
    .worker_bytes = sizeof(worker),
    .worker_begin = worker_begin,
    .worker_end = worker_end,
    .start = start,
    .head = head,
    .report = report,
};

/* ---- the control ---- */

typedef struct control_worker {
    hs__tally tally;
    const void *chances;                          /* state of same_distance */
    const worker *longest;                        /* of the same worker */
    int32_t focal[HS_CORPUS_BATCH][HS_HEADS_MAX]; /* positions, of the current layer's heads */
} control_worker;

static hs_status control_begin(void *state, void *const *states, hs_error *err)
{
    control_worker *w = state;
    (void)err;
    w->chances = states[HS__NUMBER_OF_same_distance];
    w->longest = states[HS__NUMBER_OF_longest_outputs];
    return HS_OK;
}

static hs_status control_start(void *state, hs__text *t, hs_error *err)
{
    const control_worker *w = state;
    (void)err;
    hs__block_text_add(w->tally.sums, hs__same_distance_of_worker(w->chances, t->place), t);
    return HS_OK;
}

static void control_head(void *state, hs__text *t, hs__text_head *head)
{
    control_worker *w = state;
    hs_sums *sums = w->tally.sums;
    const hs_longest_head *found = &w->longest->found;
    const size_t n_heads = sums->lengths[HS_HEADS];
    int32_t *focal = w->focal[t->place];
    focal[head->h] = found->focal;
    hs__block_head own = {.l = head->l,
                          .map = head->map,
                          .observation = &found->observation,
                          .distances = found->distances,
                          .ordinary = found->ordinary,
                          .ends_layer = head->h + 1 == n_heads};
    if (own.ends_layer)
        own.layer.unique_focal = hs__unique_count(focal, n_heads);
    hs__block_head_add(sums, hs__same_distance_of_worker(w->chances, t->place), t, &own);
}

const hs__counter hs__counter_longest_pairs = {
    .name = "longest pairs",
    .sums = &hs__longest_sums,
    .worker_bytes = sizeof(control_worker),
    .worker_begin = control_begin,
    .start = control_start,
    .head = control_head,
};
