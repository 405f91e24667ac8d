/* same_distance.c - chance at the same distance: how many of a head's high pairs would be repeated tokens, or
 * in one sentence, if only their distances counted.
 *
 * Chance over all pairs of a text (chance in report.json) is too low for a head whose high pairs are near:
 * neighbours are in one sentence more often. The shares at each distance are of engine/statistics/chance.h.
 */
#include "server/corpus/counters/counter.h"
#include "server/corpus/report/html.h"

#include <math.h>
#include <stdlib.h>

#define AXES_OF_HEADS                                                                                        \
    {                                                                                                        \
        HS_AXIS_THRESHOLD, HS_AXIS_LAYER, HS_AXIS_HEAD                                                       \
    }

static const hs_array_row rows[HS_CHANCE_KINDS] = {
    [HS_CHANCE_REPEATED] = {"expected_repeated", AXES_OF_HEADS, "pairs",
                            "high pairs of the same token expected by chance at the same distances", HS_REAL},
    [HS_CHANCE_SAME_SENTENCE] = {"expected_same_sentence", AXES_OF_HEADS, "pairs",
                                 "high pairs in one sentence expected by chance at the same distances",
                                 HS_REAL},
    [HS_CHANCE_BOTH] =
        {"expected_repeated_same_sentence", AXES_OF_HEADS, "pairs",
         "high pairs of the same token in one sentence expected by chance at the same distances", HS_REAL},
};

static const hs_sums_kind kind_of_sums = {.member = "same_distance",
                                          .what = "the chances at the same distance",
                                          .rows = rows,
                                          .n_rows = HS__N(rows)};

static void measure(const hs__corpus_job *job, const void *options, hs__counter_size *size)
{
    (void)options;
    size->worker += HS_CORPUS_BATCH * hs_chance_bytes(job->settings.fields.max_tokens);
}

/* ---- a run ---- */

typedef struct worker {
    hs__tally tally;
    hs_chance *chances[HS_CORPUS_BATCH]; /* of the texts of a pass */
} worker;

const hs_chance *hs__same_distance_of_worker(const void *state, size_t place)
{
    const worker *w = state;
    return w->chances[place];
}

static hs_status worker_begin(void *state, void *const *states, hs_error *err)
{
    worker *w = state;
    (void)states;
    for (size_t k = 0; k < HS_CORPUS_BATCH; k++) {
        w->chances[k] = hs_chance_create(w->tally.counting->statistics->tokens_max);
        if (!w->chances[k])
            return hs_fail(err, HS_NO_MEMORY, "no memory for a worker");
    }
    return HS_OK;
}

static void worker_end(void *state)
{
    worker *w = state;
    for (size_t k = 0; k < HS_CORPUS_BATCH; k++)
        hs_chance_destroy(w->chances[k]);
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
    const hs_sums *sums = w->tally.sums;
    uint64_t numbers[HS_CHANCE_KINDS];
    for (size_t t = 0; t < sums->lengths[HS_THRESHOLDS]; t++) {
        const size_t at = t * sums->lengths[HS_LAYERS] * sums->lengths[HS_HEADS] + head->map;
        hs_chance_expect(w->chances[text->place], hs_corpus_batch_distances(head->statistics, t),
                         hs_corpus_batch_ordinary(head->statistics, t), numbers);
        for (size_t kind = 0; kind < HS_CHANCE_KINDS; kind++)
            hs_chance_add(hs_sums_at(sums, kind) + 2 * at, numbers[kind]);
    }
}

/* ---- report ---- */

/* The names of a share and of the pairs that it is of, and whether it is an object with a value of its own.
 */
static const struct {
    const char *share, *lift, *chance, *size;
    bool is_figure;
} names[HS_CHANCE_KINDS] = {
    {"repeated_share", "repeated_lift_same_distance", "repeated_chance_same_distance", "high", true},
    {"same_sentence_share", "same_sentence_lift_same_distance", "same_sentence_chance_same_distance",
     "high_ordinary", true},
    {"repeated_same_sentence_share", "repeated_same_sentence_lift_same_distance",
     "repeated_same_sentence_chance_same_distance", "high_ordinary", false},
};

/* Adds chance and lift of one share of `high` pairs. */
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

static void layer_report(const hs_sums *s, size_t t, size_t l, json_t *heads, json_t *layer)
{
    const size_t n_heads = s->lengths[HS_HEADS];
    for (size_t kind = 0; kind < HS_CHANCE_KINDS; kind++) {
        double number = 0, high = 0;
        for (size_t h = 0; h < n_heads; h++) {
            json_t *figures = json_array_get(heads, h);
            const size_t at = (t * s->lengths[HS_LAYERS] + l) * n_heads + h;
            const double own_number = hs_real_at(hs_sums_at(s, kind) + 2 * at);
            const double own_high = json_number_value(json_object_get(figures, names[kind].size));
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
    const hs_sums *s = counts;
    const json_t *heads = json_object_get(to, "head_figures"), *layers = json_object_get(to, "layer_figures");
    (void)results;
    for (size_t t = 0; s && t < json_array_size(heads); t++)
        for (size_t l = 0; l < s->lengths[HS_LAYERS]; l++)
            layer_report(s, t, l, json_array_get(json_array_get(heads, t), l),
                         json_array_get(json_array_get(layers, t), l));
}

const hs__counter hs__counter_same_distance = {
    .name = "same distance",
    .sums = &kind_of_sums,
    .measure = measure,
    .worker_bytes = sizeof(worker),
    .worker_begin = worker_begin,
    .worker_end = worker_end,
    .start = start,
    .head = head,
    .report = report,
};
