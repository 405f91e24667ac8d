/* head_importance.c - counts the gradient importance of heads in all texts of a run, by one backward pass. */
#include "server/corpus/counters/head_importance.h"

#include "engine/gradients.h"
#include "server/corpus/counters/counter.h"
#include "server/corpus/report/html.h"
#include "server/corpus/report/report_value.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MEMBER "importance"

/* ---- one text ---- */

struct hs__importance {
    const hs__corpus_job *job;
    hs__loss_reader loss; /* its scratch is owned */
    int32_t *ids;         /* [max_tokens], with masks */
    float *last;          /* [max_tokens][H]: gradient of the last states */
    float *attributions;  /* [l][h][max_tokens] */
};

static const hs_selection last_selection = {.taps = HS_KEEP(LAST_STATE)};

static size_t attribution_floats(const hs__corpus_job *job)
{
    return hs__corpus_maps(job) * job->settings.fields.max_tokens;
}

static size_t last_floats(const hs__corpus_job *job)
{
    return hs_engine_shape(job->engine)->hidden * job->settings.fields.max_tokens;
}

uint64_t hs__importance_bytes(const hs__corpus_job *job)
{
    const size_t T = job->settings.fields.max_tokens;
    return sizeof(hs__importance) + hs__loss_bytes(job) + T * sizeof(int32_t) +
           (last_floats(job) + attribution_floats(job)) * sizeof(float) +
           hs_capture_bytes(hs_engine_shape(job->engine), &last_selection, T) +
           hs_tape_bytes(job->engine, T, 0, 1);
}

hs_status hs__importance_create(const hs__corpus_job *job, hs__importance **ret, hs_error *err)
{
    hs__importance *i = calloc(1, sizeof *i);
    if (i) {
        i->job = job;
        i->loss = (hs__loss_reader){.job = job, .kind = hs__predicted_of(job)};
        i->loss.scratch = malloc(hs__loss_floats(job) * sizeof *i->loss.scratch);
        i->ids = malloc(job->settings.fields.max_tokens * sizeof *i->ids);
        i->last = malloc(last_floats(job) * sizeof *i->last);
        i->attributions = malloc(attribution_floats(job) * sizeof *i->attributions);
    }
    if (i && i->loss.scratch && i->ids && i->last && i->attributions) {
        *ret = i;
        return HS_OK;
    }
    hs__importance_destroy(i);
    return hs_fail(err, HS_NO_MEMORY, "no memory for the importance of heads");
}

void hs__importance_destroy(hs__importance *i)
{
    if (!i)
        return;
    free(i->loss.scratch);
    free(i->ids);
    free(i->last);
    free(i->attributions);
    free(i);
}

/* Runs both passes over the text of a sequence with a capture. */
static hs_status differentiate(const hs__importance *i, hs_workspace *ws, const hs__predicted_text *text,
                               const hs_sequence *sequence, const hs_run_control *control, hs__loss *ret_loss,
                               hs_error *err)
{
    const hs_gradients to = {.layers = i->job->settings.fields.layers,
                             .heads = hs_all_numbers,
                             .n_layers = i->job->settings.fields.n_layers,
                             .n_heads = hs_engine_shape(i->job->engine)->n_heads,
                             .head_attribution = i->attributions};
    hs_tape *tape = NULL;
    hs_status st = hs_tape_record(i->job->engine, ws, sequence, control, &tape, err);
    if (!st)
        st = hs__loss_add(&i->loss, text, sequence->capture, ret_loss, i->last, err);
    if (!st)
        st = hs_tape_differentiate(tape, ws, i->last, &to, 1, control, err);
    hs_tape_destroy(tape);
    return st;
}

hs_status hs__importance_compute(hs__importance *i, hs_workspace *ws, const hs__predicted_text *text,
                                 const hs_run_control *control, double *ret_values, hs__loss *ret_loss,
                                 hs_error *err)
{
    const hs_engine *engine = i->job->engine;
    const size_t T = text->n_tokens, n_maps = hs__corpus_maps(i->job);
    hs_sequence sequence = {.ids = i->ids,
                            .types = text->types,
                            .n_tokens = T,
                            .interventions = i->job->settings.fields.interventions,
                            .n_interventions = i->job->settings.fields.n_interventions};
    hs__predicted_text_ids(text, i->job, i->ids);
    i->loss.control = control;
    hs_status st = hs_capture_create(hs_engine_runtime(engine), hs_engine_shape(engine), &last_selection, T,
                                     &sequence.capture, err);
    if (!st)
        st = differentiate(i, ws, text, &sequence, control, ret_loss, err);
    for (size_t map = 0; map < n_maps && !st; map++) {
        double sum = 0;
        for (size_t t = 0; t < T; t++)
            sum += (double)i->attributions[map * T + t];
        ret_values[map] = fabs(sum);
    }
    hs_capture_destroy(sequence.capture);
    return st;
}

/* ---- settings ---- */

typedef struct options {
    bool is_on;
} options;

static hs_status read_importance(const char *text, const hs_model *model, hs__corpus_settings *settings,
                                 void *ret, hs_error *err)
{
    options *o = ret;
    const hs_status st = hs__flag_read(text, &o->is_on, err);
    if (!st && o->is_on && !hs__predicts(model, settings))
        return hs_fail(err, HS_INVALID, "false: this model predicts no tokens, and there is no label_field");
    return st;
}

static const hs__setting_row settings[] = {
    {.field = {MEMBER, HS_FIELD_FLAG, NULL,
               "gradient importance of heads, by a backward pass over each text"},
     .part = HS__SETTINGS_OF_COUNTERS,
     .read = read_importance,
     .default_json = "false"},
};

bool hs__importance_is_on(const json_t *identity)
{
    return json_object_get(identity, MEMBER);
}

bool hs__importance_is_set(const hs__corpus_job *job)
{
    const options *o = job->settings.options[HS__NUMBER_OF_head_importance];
    return o && o->is_on;
}

static void identify(const void *data, const hs__corpus_settings *all, json_t *identity)
{
    const options *o = data;
    (void)all;
    if (o && o->is_on)
        json_object_set_new(identity, MEMBER, json_true());
}

static hs_status check(const hs__corpus_job *job, hs_error *err)
{
    const char *precision = hs_engine_precision(job->engine);
    return strcmp(precision, "fp32") == 0
               ? HS_OK
               : hs_fail(err, HS_INVALID,
                         "importance needs gradients, which are computed in fp32, not with --precision %s",
                         precision);
}

/* ---- sums ---- */

enum { TEXTS, PREDICTIONS, IMPORTANCE };

static const hs_array_row rows[] = {
    [TEXTS] = {"importance_texts", .unit = "texts", .meaning = "texts with predictions"},
    [PREDICTIONS] = {"importance_predictions", .unit = "predictions", .meaning = "their predictions"},
    [IMPORTANCE] = {"importance_sum",
                    {HS_AXIS_LAYER, HS_AXIS_HEAD},
                    "nats",
                    "gradient importance of a head for the mean loss of a text, summed over texts",
                    HS_REAL},
};

static const hs_sums_kind kind = {
    .member = MEMBER, .what = "the importances of heads", .rows = rows, .n_rows = HS__N(rows)};

static void measure(const hs__corpus_job *job, const void *data, hs__counter_size *size)
{
    const size_t T = job->settings.fields.max_tokens, n_maps = hs__corpus_maps(job);
    (void)data;
    size->shared += hs_gradients_are_prepared(job->engine) ? 0 : hs_gradients_weights_bytes(job->engine);
    size->worker += hs__importance_bytes(job) + n_maps * sizeof(double) +
                    T * (sizeof(int32_t) + sizeof(uint8_t) + sizeof(size_t));
    size->report += 2 * n_maps * 64;
    size->report_text += 2 * n_maps * 32;
}

/* ---- a run ---- */

/* Remembers what is predicted, for the report, and makes the weights unless no pass will begin. A server
 * begins a run in a thread of low priority, which helpers would keep. */
static hs_status begin(hs__counting *counting, bool anew, hs_error *err)
{
    const hs__corpus_job *job = counting->job;
    const hs_engine *engine = job->engine;
    const char *predicted = hs__predicted_names[hs__predicted_of(job)];
    if (anew && json_object_set_new(counting->results->names, MEMBER, json_string(predicted)))
        return hs_fail(err, HS_NO_MEMORY, "no memory to begin");
    if (counting->results->done || (job->stop && atomic_load(job->stop)))
        return HS_OK;
    const hs_status st = hs_gradients_prepare(engine, true, err);
    if (!st)
        counting->shared = (void *)engine; /* `end` releases its weights */
    return st;
}

/* Releases the weights: a server counts them as memory of requests only if a request has made them, too. */
static void end(hs__counting *counting)
{
    if (counting->shared)
        hs_gradients_release(counting->shared);
    counting->shared = NULL;
}

typedef struct worker {
    hs__tally tally;
    hs__importance *importance;
    double *values; /* [l][h], of a text */
} worker;

static hs_status worker_begin(void *state, void *const *states, hs_error *err)
{
    worker *w = state;
    (void)states;
    w->values = malloc(hs_sums_maps(w->tally.sums) * sizeof *w->values);
    return w->values ? hs__importance_create(w->tally.counting->job, &w->importance, err)
                     : hs_fail(err, HS_NO_MEMORY, "no memory for a worker");
}

static void worker_end(void *state)
{
    const worker *w = state;
    hs__importance_destroy(w->importance);
    free(w->values);
}

static hs_status text_count(const worker *w, const hs__predicted_text *text, const hs__text_pass *p,
                            hs_error *err)
{
    const hs_sums *sums = w->tally.sums;
    hs__loss loss = {0};
    const hs_status st =
        hs__importance_compute(w->importance, p->workspace, text, p->control, w->values, &loss, err);
    if (st)
        return st;
    *hs_sums_at(sums, TEXTS) += 1;
    *hs_sums_at(sums, PREDICTIONS) += loss.n;
    for (size_t map = 0; map < hs_sums_maps(sums); map++)
        hs_real_add(hs_sums_at(sums, IMPORTANCE) + 2 * map, w->values[map]);
    return HS_OK;
}

static hs_status pass(void *state, hs__text_pass *p, hs_error *err)
{
    const worker *w = state;
    const hs__predicted predicted = hs__predicted_of(w->tally.counting->job);
    hs_status st = HS_OK;
    for (size_t k = 0; k < p->n && !st; k++) {
        hs__predicted_text text;
        st = hs__predicted_text_copy(&p->texts[k], predicted, &text, err);
        if (!st && hs__predicted_text_is_useful(&text, predicted))
            st = text_count(w, &text, p, err);
        hs__predicted_text_finish(&text);
    }
    return st;
}

/* ---- report.json ---- */

/* Returns the mean over texts. */
static double mean_of(const hs_sums *sums, size_t map)
{
    return hs_real_at(hs_sums_at(sums, IMPORTANCE) + 2 * map) / (double)*hs_sums_at(sums, TEXTS);
}

/* Adds a layer's means, and the same divided by their length. */
static void layer_add(const hs_sums *sums, size_t l, json_t *heads, json_t *normalized)
{
    const size_t n_heads = sums->lengths[HS_HEADS];
    json_t *own = json_array(), *divided = json_array();
    double squares = 0;
    for (size_t h = 0; h < n_heads; h++)
        squares += mean_of(sums, l * n_heads + h) * mean_of(sums, l * n_heads + h);
    for (size_t h = 0; h < n_heads; h++) {
        const double mean = mean_of(sums, l * n_heads + h);
        json_array_append_new(own, hs__report_number(mean));
        json_array_append_new(divided, hs__report_number(squares > 0 ? mean / sqrt(squares) : 0));
    }
    json_array_append_new(heads, own);
    json_array_append_new(normalized, divided);
}

static void report(const hs__corpus_results *results, void *counts, json_t *to)
{
    const hs_sums *sums = counts;
    if (!sums || !*hs_sums_at(sums, TEXTS))
        return;
    json_t *heads = json_array(), *normalized = json_array();
    for (size_t l = 0; l < sums->lengths[HS_LAYERS]; l++)
        layer_add(sums, l, heads, normalized);
    json_object_set_new(to, MEMBER,
                        json_pack("{sO sI sI so so}", "measure", json_object_get(results->names, MEMBER),
                                  "texts", (json_int_t)*hs_sums_at(sums, TEXTS), "predictions",
                                  (json_int_t)*hs_sums_at(sums, PREDICTIONS), "heads", heads, "normalized",
                                  normalized));
}

const hs__counter hs__counter_head_importance = {
    .name = "importance",
    .settings = settings,
    .n_settings = HS__N(settings),
    .options_bytes = sizeof(options),
    .identify = identify,
    .is_active = hs__importance_is_on,
    .sums = &kind,
    .measure = measure,
    .check = check,
    .begin = begin,
    .end = end,
    .worker_bytes = sizeof(worker),
    .worker_begin = worker_begin,
    .worker_end = worker_end,
    .pass = pass,
    .report = report,
};
