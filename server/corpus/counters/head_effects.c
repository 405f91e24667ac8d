/* head_effects.c - how the logit of a text's label changes without each head, for some of the labelled texts.
 *
 * A hash of a text's number decides whether its heads are switched off in turn, so the choice does not depend
 * on the shard. The sums of all texts are part of the statistics of labels. The best of many heads looks
 * better than it is in the texts that choose it. So sums of odd texts are kept here, too, and heads that even
 * texts choose are measured in them. Runs of earlier versions lack these sums; one of them that is resumed
 * goes on without. */
#include "engine/statistics/blocks.h"
#include "model/base/bytes.h"
#include "model/files/json.h"
#include "server/corpus/counters/counter.h"
#include "server/corpus/counters/words.h"
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

static bool is_active(const options *o)
{
    return o && o->share > 0;
}

static void identify(const void *data, const hs__corpus_settings *all, json_t *identity)
{
    const options *o = data;
    (void)all;
    if (is_active(o))
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

/* The words of a label: its texts, then of each head the changes of the label's logit and their squares, real
 * numbers. */
typedef hs__sums sums; /* [label][label_words] */

enum { TEXTS, HEAD, CHANGE = 0, SQUARES = 2, HEAD_WORDS = 4 };

static size_t label_words(size_t n_maps)
{
    return HEAD + n_maps * HEAD_WORDS;
}

static hs__sums_size size_of(size_t n_labels, size_t n_layers, size_t n_heads)
{
    return (hs__sums_size){.words = n_labels * label_words(n_layers * n_heads)};
}

static const hs__sums_kind kind_of_sums = {
    .member = "held_out_effects", .what = "the effects of heads", .size = size_of};

static int64_t *label_at(sums *s, size_t label)
{
    return s->words + label * label_words(s->n_layers * s->n_heads);
}

static size_t labels_of(const hs__corpus_job *job)
{
    return hs_engine_architecture(job->engine)->task_head.n_classes;
}

static void text_add(sums *s, size_t label, const hs_effect *effects)
{
    int64_t *words = label_at(s, label);
    words[TEXTS]++;
    for (size_t map = 0; map < s->n_layers * s->n_heads; map++) {
        const double change = (double)effects[map].target_change;
        hs__real_add(words + HEAD + map * HEAD_WORDS + CHANGE, change);
        hs__real_add(words + HEAD + map * HEAD_WORDS + SQUARES, change * change);
    }
}

/* Counts the baseline's capture, what a call of hs_effects_compute allocates, and the captures of a pass. */
static void measure(const hs__corpus_job *job, const void *data, hs__counter_size *size)
{
    const hs_shape *shape = hs_engine_shape(job->engine);
    const hs_sequence longest = {.n_tokens = job->settings.fields.max_tokens};
    const hs_effects_options effects = options_of(job, &longest, 0);
    const hs_selection selection = hs_select_all(shape, HS_EFFECTS_TAPS);
    const size_t n = labels_of(job) * label_words(hs__corpus_maps(job));
    if (!is_active(data))
        return;
    size->worker += hs__corpus_maps(job) * sizeof(hs_effect) +
                    hs_capture_bytes(shape, &selection, longest.n_tokens) +
                    hs_effects_bytes(job->engine, &effects, 1) +
                    HS_CORPUS_BATCH * longest.n_tokens * shape->hidden * sizeof(float);
    hs__sums_measure(&kind_of_sums, labels_of(job), job->settings.fields.n_layers, shape->n_heads, size);
    size->listed += n;
    size->elements += n;
    size->report += labels_of(job) * HEADS_LISTED * 1024;
    size->report_text += labels_of(job) * HEADS_LISTED * 256;
}

/* ---- a run ---- */

static hs_status begin(hs__counting *counting, bool anew, hs_error *err)
{
    const hs_corpus_options *o = counting->statistics;
    if (!anew || !is_active(counting->options))
        return HS_OK;
    *counting->counts =
        hs__sums_create(&kind_of_sums, labels_of(counting->job), o->n_layers, o->n_heads, err);
    return *counting->counts ? HS_OK : HS_NO_MEMORY;
}

static bool matches(const hs__counting *counting)
{
    const sums *saved = *counting->counts;
    return !saved || (is_active(counting->options) && saved->n_outer == labels_of(counting->job) &&
                      saved->n_layers == counting->statistics->n_layers &&
                      saved->n_heads == counting->statistics->n_heads);
}

/* ---- a worker ---- */

typedef struct worker {
    const hs__corpus_job *job;
    const options *options;
    hs_labels *labels;  /* of the same worker */
    hs_effect *effects; /* [l][h] */
    sums *odd;          /* NULL: the run has none */
} worker;

static hs_status worker_create(hs__counting *counting, void *const *states, void **ret, hs_error *err)
{
    void *const labels = states[HS__NUMBER_OF_labelled_texts];
    if (!is_active(counting->options) || !labels)
        return HS_OK;
    worker *w = *ret = calloc(1, sizeof *w);
    if (!w)
        return hs_fail(err, HS_NO_MEMORY, "no memory for a worker");
    *w = (worker){.job = counting->job,
                  .options = counting->options,
                  .labels = hs__labels_of_worker(labels),
                  .effects = malloc(hs__corpus_maps(counting->job) * sizeof *w->effects)};
    if (!w->effects)
        return hs_fail(err, HS_NO_MEMORY, "no memory for a worker");
    const sums *shape = *counting->counts;
    w->odd = shape ? hs__sums_create_like(shape, err) : NULL;
    return w->odd || !shape ? HS_OK : HS_NO_MEMORY;
}

static void worker_destroy(void *state)
{
    worker *w = state;
    free(w->effects);
    hs__sums_destroy(w->odd);
    free(w);
}

static bool is_chosen(const worker *w, uint64_t number)
{
    return hs_fraction_of(hs_mix((number + 1) * HS_MIX_STEP)) < (double)w->options->share;
}

static hs_status effects_count(worker *w, const hs__text_pass *p, size_t k, hs_error *err)
{
    const hs__corpus_job *job = w->job;
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
    if (!st && w->odd && p->texts[k].record.number & 1) /* all windows of a record are in one half */
        text_add(w->odd, label, w->effects);
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

static hs_status gather(hs__counting *counting, void *state, hs_error *err)
{
    const worker *w = state;
    (void)err;
    if (*counting->counts && w->odd)
        hs__sums_move(*counting->counts, w->odd);
    return HS_OK;
}

/* ---- checkpoint ---- */

/* The names of the labels have been checked with the statistics of labels. */
static hs_status load(const hs__corpus_results *results, const json_t *checkpoint, void **ret, hs_error *err)
{
    const hs_labels *labels = results->counts[HS__NUMBER_OF_labelled_texts];
    if (!labels)
        return json_object_get(checkpoint, kind_of_sums.member)
                   ? hs_fail(err, HS_INVALID, "the effects of heads have no labels")
                   : HS_OK;
    return hs__sums_load(&kind_of_sums, hs_labels_shape_of(labels).n_labels, results, checkpoint, ret, err);
}

/* ---- arrays ---- */

static const hs__described_array arrays[] = {
    {"label_effect_odd_texts", "label", "texts", "label_effect_texts of odd texts"},
    {"label_effect_odd_sum", "label layer head", "logit", "label_effect_sum of odd texts"},
    {"label_effect_odd_squares", "label layer head", "squared logit", "label_effect_squares of odd texts"},
};

static size_t list(const void *counts, hs_corpus_array *ret)
{
    const sums *s = counts;
    for (size_t f = 0; f < HS__N(arrays); f++)
        ret[f] = (hs_corpus_array){.name = arrays[f].name,
                                   .is_float = f > 0,
                                   .n_axes = f > 0 ? 3 : 1,
                                   .axes = {s->n_outer, s->n_layers, s->n_heads},
                                   .n_elements = s->n_outer * (f > 0 ? s->n_layers * s->n_heads : 1),
                                   .field = f};
    return HS__N(arrays);
}

static void read(const void *counts, const hs_corpus_array *array, size_t first, size_t n, void *ret)
{
    const sums *s = counts;
    const size_t n_maps = s->n_layers * s->n_heads;
    for (size_t i = first; i < first + n; i++)
        if (array->is_float) {
            const int64_t *head =
                s->words + i / n_maps * label_words(n_maps) + HEAD + i % n_maps * HEAD_WORDS;
            ((double *)ret)[i - first] = hs__real_at(head + (array->field == 1 ? CHANGE : SQUARES));
        } else
            ((int64_t *)ret)[i - first] = s->words[i * label_words(n_maps) + TEXTS];
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

static tested_head head_test(const hs_labels *labels, sums *s, size_t label, size_t map)
{
    const int64_t *words = label_at(s, label) + HEAD + map * HEAD_WORDS;
    const hs_labels_effect all = hs_labels_effect_read(labels, label, map / s->n_heads, map % s->n_heads);
    const double n_all = (double)hs_labels_class_read(labels, label).effect_texts,
                 n = (double)label_at(s, label)[TEXTS];
    const double sum = hs__real_at(words + CHANGE), mean = sum / n;
    const double squares = fmax(hs__real_at(words + SQUARES) - sum * mean, 0);
    const bool known = n >= HS_BOOTSTRAP_BLOCKS_MIN;
    const double reach = known ? hs_student_975(n - 1) * sqrt(squares / (n - 1) / n) : (double)NAN;
    return (tested_head){.map = map,
                         .even = n_all > n ? (n_all * all.change - sum) / (n_all - n) : (double)NAN,
                         .odd = n > 0 ? mean : (double)NAN,
                         .low = mean - reach,
                         .high = mean + reach};
}

static json_t *held_out_json(const hs_labels *labels, sums *s, size_t label, const hs_corpus_options *o)
{
    const size_t n_maps = s->n_layers * s->n_heads;
    tested_head *heads = hs_json_memory(n_maps, sizeof *heads);
    json_t *list = json_array();
    for (size_t map = 0; heads && map < n_maps; map++)
        heads[map] = head_test(labels, s, label, map);
    if (heads)
        qsort(heads, n_maps, sizeof *heads, tested_compare);
    for (size_t i = 0; heads && i < n_maps && i < HEADS_LISTED && heads[i].even < 0; i++)
        json_array_append_new(
            list,
            json_pack("{si sI so so so so}", "layer", o->layers[heads[i].map / s->n_heads], "head",
                      (json_int_t)(heads[i].map % s->n_heads), "chosen_change",
                      hs__report_number(heads[i].even), "change", hs__report_number(heads[i].odd), "low",
                      hs__report_number(heads[i].low), "high", hs__report_number(heads[i].high)));
    free(heads);
    return json_pack("{sI so}", "effect_texts", (json_int_t)label_at(s, label)[TEXTS], "heads", list);
}

/* Adds to the labels of the report. */
static void report(const hs__corpus_results *results, void *counts, json_t *to)
{
    const hs_corpus_options o = hs_corpus_stats_options(results->stats);
    const hs_labels *labels = results->counts[HS__NUMBER_OF_labelled_texts];
    const json_t *classes = json_object_get(json_object_get(to, "labels"), "classes");
    for (size_t label = 0; counts && labels && label < json_array_size(classes); label++)
        json_object_set_new(json_array_get(classes, label), "held_out",
                            held_out_json(labels, counts, label, &o));
}

const hs__counter hs__counter_head_effects = {
    .name = "effects",
    .sums = &kind_of_sums,
    .settings = settings,
    .n_settings = sizeof settings / sizeof *settings,
    .options_bytes = sizeof(options),
    .identify = identify,
    .measure = measure,
    .begin = begin,
    .matches = matches,
    .worker_create = worker_create,
    .worker_destroy = worker_destroy,
    .pass = pass,
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
