/* head_effects.c - how the logit of a text's label changes without each head, for some of the labelled texts.
 *
 * A hash of a text's number decides whether its heads are switched off in turn, so the choice does not depend
 * on the shard. The sums of all texts are part of the statistics of labels. The best of many heads looks
 * better than it is in the texts that choose it. So sums of odd texts are kept here, too, and heads that even
 * texts choose are measured in them. */
#include "engine/statistics/blocks.h"
#include "model/base/bytes.h"
#include "model/files/json.h"
#include "server/corpus/counters/counter.h"
#include "server/corpus/counters/resampling.h"
#include "server/corpus/report/html.h"
#include "server/corpus/report/report_value.h"

#include <stdlib.h>

enum { HEADS_LISTED = 10 };

/* ---- settings ---- */

typedef struct options {
    float share; /* fraction of labelled texts whose heads are switched off in turn; 0: none */
} options;

static hs_status read_share(const char *text, const hs_model *model, hs__corpus_settings *settings, void *ret,
                            hs_error *err)
{
    options *o = ret;
    const hs_status st = hs__fraction_read(text, &o->share, err);
    (void)model;
    if (!st && o->share > 0 && !*settings->input.label_field)
        return hs_fail(err, HS_INVALID, "0 without a label_field");
    return st;
}

static const hs__setting_row settings[] = {
    {.field = {"effects_share", HS_FIELD_TEXT, "SHARE",
               "fraction of labelled texts whose heads are switched off in turn (0)"},
     .part = HS__SETTINGS_OF_COUNTERS,
     .read = read_share,
     .default_json = "0.0"},
};

static bool is_active(const json_t *identity)
{
    return json_object_get(identity, "effects_share");
}

static void identify(const void *data, const hs__corpus_settings *all, json_t *identity)
{
    const options *o = data;
    (void)all;
    if (o && o->share > 0)
        json_object_set_new(identity, "effects_share", json_real(hs__report_decimal(o->share)));
}

/* ---- sizes ---- */

static hs_effects_options options_of(const hs__corpus_job *job, const hs_sequence *baseline, size_t label)
{
    return (hs_effects_options){.baseline = baseline,
                                .kind = HS_INTERVENE_ZERO,
                                .layers = job->settings.fields.layers,
                                .heads = hs_all_numbers,
                                .n_layers = job->settings.fields.n_layers,
                                .n_heads = hs_engine_shape(job->engine)->n_heads,
                                .target = {.kind = HS_TARGET_CLASS, .class = label},
                                .mask_id = -1};
}

/* ---- sums of odd texts ---- */

enum { TEXTS, CHANGE, SQUARES };

#define BY_HEAD                                                                                              \
    {                                                                                                        \
        HS_AXIS_LABEL, HS_AXIS_LAYER, HS_AXIS_HEAD                                                           \
    }

static const hs_array_row rows[] = {
    [TEXTS] = {"label_effect_odd_texts", {HS_AXIS_LABEL}, "texts", "label_effect_texts of odd texts"},
    [CHANGE] = {"label_effect_odd_sum", BY_HEAD, "logit", "label_effect_sum of odd texts", HS_REAL},
    [SQUARES] = {"label_effect_odd_squares", BY_HEAD, "squared logit", "label_effect_squares of odd texts",
                 HS_REAL},
};

static const hs_sums_kind kind = {
    .member = "held_out_effects", .what = "the effects of heads", .rows = rows, .n_rows = HS__N(rows)};

static void text_add(const hs_sums *s, size_t label, const hs_effect *effects)
{
    const size_t n_maps = hs_sums_maps(s);
    hs_sums_at(s, TEXTS)[label]++;
    for (size_t map = 0; map < n_maps; map++) {
        const double change = (double)effects[map].target_change;
        hs_real_add(hs_sums_at(s, CHANGE) + 2 * (label * n_maps + map), change);
        hs_real_add(hs_sums_at(s, SQUARES) + 2 * (label * n_maps + map), change * change);
    }
}

/* Counts the baseline's capture, what a call of hs_effects_compute allocates, and the captures of a pass. */
static void measure(const hs__corpus_job *job, const void *data, hs__counter_size *size)
{
    const hs_shape *shape = hs_engine_shape(job->engine);
    const hs_sequence longest = {.n_tokens = job->settings.fields.max_tokens};
    const hs_effects_options effects = options_of(job, &longest, 0);
    const hs_selection selection = hs_select_all(shape, HS_EFFECTS_TAPS);
    const size_t n_labels = hs_engine_architecture(job->engine)->task_head.n_classes;
    (void)data;
    size->worker += hs__corpus_maps(job) * sizeof(hs_effect) +
                    hs_capture_bytes(shape, &selection, longest.n_tokens) +
                    hs_effects_bytes(job->engine, &effects, 1) +
                    HS_CORPUS_BATCH * longest.n_tokens * shape->hidden * sizeof(float);
    size->report += n_labels * HEADS_LISTED * 1024;
    size->report_text += n_labels * HEADS_LISTED * 256;
}

/* ---- a worker ---- */

typedef struct worker {
    hs__tally tally;
    hs_sums *labels;    /* of the same worker */
    hs_effect *effects; /* [l][h] */
} worker;

static hs_status worker_begin(void *state, void *const *states, hs_error *err)
{
    worker *w = state;
    w->labels = ((const hs__tally *)states[HS__NUMBER_OF_labelled_texts])->sums;
    w->effects = malloc(hs_sums_maps(w->tally.sums) * sizeof *w->effects);
    return w->effects ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory for a worker");
}

static void worker_end(void *state)
{
    worker *w = state;
    free(w->effects);
}

static bool is_chosen(const worker *w, uint64_t number)
{
    return hs_fraction_of(hs_mix((number + 1) * HS_MIX_STEP)) <
           (double)((const options *)w->tally.counting->options)->share;
}

static hs_status effects_count(worker *w, const hs__text_pass *p, size_t k, hs_error *err)
{
    const hs__corpus_job *job = w->tally.counting->job;
    const hs_selection selection = hs_select_all(hs_engine_shape(job->engine), HS_EFFECTS_TAPS);
    hs_sequence baseline = p->sequences[k];
    const size_t label = p->texts[k].label;
    baseline.capture = NULL;
    hs_status st = hs_capture_create(hs_engine_runtime(job->engine), hs_engine_shape(job->engine), &selection,
                                     baseline.n_tokens, &baseline.capture, err);
    if (!st)
        st = hs_engine_compute(job->engine, p->workspace, &baseline, 1, NULL, p->control, err);
    const hs_effects_options effects = options_of(job, &baseline, label);
    if (!st)
        st = hs_effects_compute(job->engine, p->workspace, &effects, p->control, w->effects, err);
    if (!st)
        hs_labels_effects_add(w->labels, label, w->effects);
    if (!st && p->texts[k].record.number & 1) /* all windows of a record are in one half */
        text_add(w->tally.sums, label, w->effects);
    hs_capture_destroy(baseline.capture);
    return st;
}

static hs_status pass(void *state, hs__text_pass *p, hs_error *err)
{
    worker *w = state;
    hs_status st = HS_OK;
    for (size_t k = 0; k < p->n && !st; k++)
        if (is_chosen(w, hs__text_number(&p->texts[k])))
            st = effects_count(w, p, k, err);
    return st;
}

/* ---- report.json ---- */

/* A head in the texts of a label: the mean change in even texts, and in odd ones with its interval. */
typedef struct tested_head {
    size_t map;
    double even, odd, low, high;
} tested_head;

/* Sorts by the change in even texts; heads without one come last. */
static int tested_compare(const void *a, const void *b)
{
    const tested_head *x = a, *y = b;
    return isnan(x->even) || isnan(y->even) ? isnan(x->even) - isnan(y->even)
                                            : (x->even > y->even) - (x->even < y->even);
}

/* n_different: of the run's texts, of all labels. A run of copies of a few texts has no interval. */
static tested_head head_test(const hs_sums *labels, const hs_sums *s, size_t n_different, size_t label,
                             size_t map)
{
    const size_t n_heads = s->lengths[HS_HEADS], at = 2 * (label * hs_sums_maps(s) + map);
    const hs_labels_effect all = hs_labels_effect_read(labels, label, map / n_heads, map % n_heads);
    const double n_all = (double)hs_labels_class_read(labels, label).effect_texts,
                 n = (double)hs_sums_at(s, TEXTS)[label];
    const double sum = hs_real_at(hs_sums_at(s, CHANGE) + at), mean = sum / n;
    const double squares = fmax(hs_real_at(hs_sums_at(s, SQUARES) + at) - sum * mean, 0);
    const bool known = n >= HS_BOOTSTRAP_BLOCKS_MIN && n_different >= HS_BOOTSTRAP_BLOCKS_MIN;
    const double reach = known ? hs_student_975(n - 1) * sqrt(squares / (n - 1) / n) : (double)NAN;
    return (tested_head){.map = map,
                         .even = n_all > n ? (n_all * all.change - sum) / (n_all - n) : (double)NAN,
                         .odd = n > 0 ? mean : (double)NAN,
                         .low = mean - reach,
                         .high = mean + reach};
}

static json_t *held_out_json(const hs_sums *labels, const hs_sums *s, size_t n_different, size_t label,
                             const hs_corpus_options *o)
{
    const size_t n_maps = hs_sums_maps(s);
    tested_head *heads = hs_json_memory(n_maps, sizeof *heads);
    json_t *list = json_array();
    for (size_t map = 0; heads && map < n_maps; map++)
        heads[map] = head_test(labels, s, n_different, label, map);
    if (heads)
        qsort(heads, n_maps, sizeof *heads, tested_compare);
    for (size_t i = 0; heads && i < n_maps && i < HEADS_LISTED && heads[i].even < 0; i++)
        json_array_append_new(
            list,
            json_pack("{si sI so so so so}", "layer", o->layers[heads[i].map / o->n_heads], "head",
                      (json_int_t)(heads[i].map % o->n_heads), "chosen_change",
                      hs__report_number(heads[i].even), "change", hs__report_number(heads[i].odd), "low",
                      hs__report_number(heads[i].low), "high", hs__report_number(heads[i].high)));
    free(heads);
    return json_pack("{sI so}", "effect_texts", (json_int_t)hs_sums_at(s, TEXTS)[label], "heads", list);
}

/* Adds to the labels of the report. */
static void report(const hs__corpus_results *results, void *counts, json_t *to)
{
    const hs_corpus_options o = hs_corpus_stats_options(results->stats);
    const hs_sums *labels = results->counts[HS__NUMBER_OF_labelled_texts];
    const json_t *classes = json_object_get(json_object_get(to, "labels"), "classes");
    const size_t n_different = hs__different_texts(results);
    for (size_t label = 0; counts && labels && label < json_array_size(classes); label++)
        json_object_set_new(json_array_get(classes, label), "held_out",
                            held_out_json(labels, counts, n_different, label, &o));
}

const hs__counter hs__counter_head_effects = {
    .name = "effects",
    .settings = settings,
    .n_settings = HS__N(settings),
    .options_bytes = sizeof(options),
    .identify = identify,
    .is_active = is_active,
    .sums = &kind,
    .measure = measure,
    .worker_bytes = sizeof(worker),
    .worker_begin = worker_begin,
    .worker_end = worker_end,
    .pass = pass,
    .report = report,
};
