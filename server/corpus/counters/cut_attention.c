/* cut_attention.c - the loss of predictions without attention to far tokens.
 *
 * Two more passes over each text compute the loss of its predictions: whole, and with attention beyond a
 * distance cut in all heads. Predictions are grouped by the nearest copy of their token that the model sees:
 * none, one within the distance (near), or only farther ones (far). A model that copies from afar loses most
 * where copies are far. */
#include "server/corpus/counters/cut_attention.h"

#include "model/files/json.h"
#include "server/corpus/counters/counter.h"
#include "server/corpus/counters/predicted_texts.h"
#include "server/corpus/counters/resampling.h"
#include "server/corpus/report/html.h"
#include "server/corpus/report/report_value.h"

#include <stdlib.h>

#define MEMBER "cut_attention"

/* Where the nearest copy is, and what attention a pass has. */
enum { COPY_NONE, COPY_NEAR, COPY_FAR, COPIES };
enum { WHOLE, CUT, PASSES };

static const char *const copy_names[COPIES] = {"none", "near", "far"};

/* ---- settings ---- */

typedef struct options {
    int64_t distance; /* attention beyond is cut; 0: no such passes */
} options;

static hs_status read_distance(const char *text, const hs_model *model, hs__corpus_settings *settings,
                               void *ret, hs_error *err)
{
    options *o = ret;
    (void)settings;
    if (hs_integer_read(text, NULL, 0, HS_POSITIONS_MAX, &o->distance))
        return hs_fail(err, HS_INVALID, "an integer from 0 to %d", HS_POSITIONS_MAX);
    if (o->distance && !hs__predicts_tokens(model))
        return hs_fail(err, HS_INVALID, "0: this model predicts no tokens");
    return HS_OK;
}

static const hs__setting_row settings[] = {
    {.field = {MEMBER, HS_FIELD_TEXT, "K",
               "loss without attention beyond K tokens, by the token's nearest copy (0: none)"},
     .part = HS__SETTINGS_OF_COUNTERS,
     .read = read_distance,
     .default_json = "0"},
};

static bool is_active(const json_t *identity)
{
    return json_object_get(identity, MEMBER);
}

static void identify(const void *data, const hs__corpus_settings *all, json_t *identity)
{
    const options *o = data;
    (void)all;
    if (o && o->distance)
        json_object_set_new(identity, MEMBER, json_integer((json_int_t)o->distance));
}

static size_t distance_of(const hs__corpus_job *job)
{
    return (size_t)((const options *)job->settings.options[HS__NUMBER_OF_cut_attention])->distance;
}

/* The cut alone: it fails for the same models as in a request. */
static hs_intervention cut_of(const hs__corpus_job *job)
{
    const hs_shape *shape = hs_engine_shape(job->engine);
    return (hs_intervention){.layers = hs_all_numbers,
                             .n_layers = shape->n_layers,
                             .heads = hs_all_numbers,
                             .n_heads = shape->n_heads,
                             .kind = HS_INTERVENE_CUT,
                             .distance = distance_of(job)};
}

static hs_status check(const hs__corpus_job *job, hs_error *err)
{
    const hs_intervention cut = cut_of(job);
    return hs_interventions_check(hs_engine_architecture(job->engine), &cut, 1, err);
}

/* ---- sums ---- */

#define COPY                                                                                                 \
    {                                                                                                        \
        "copy", COPIES                                                                                       \
    }
#define PASS                                                                                                 \
    {                                                                                                        \
        "pass", PASSES                                                                                       \
    }

enum { TEXTS, PREDICTIONS, LOSS };

static const hs_array_row rows[] = {
    [TEXTS] = {"cut_texts", .unit = "texts", .meaning = "texts with predictions", .place = HS_ALL_BLOCKS},
    [PREDICTIONS] = {"cut_predictions",
                     {COPY},
                     "predictions",
                     "predictions whose token has no copy, a near one, or only far ones",
                     HS_COUNT,
                     HS_ALL_BLOCKS},
    [LOSS] = {"cut_loss_sum",
              {PASS, COPY},
              "nats",
              "-ln p, summed over these predictions: whole, and with far attention cut",
              HS_REAL,
              HS_ALL_BLOCKS},
};

static const hs_sums_kind kind = {
    .member = MEMBER, .what = "the losses of cut attention", .rows = rows, .n_rows = HS__N(rows)};

/* ---- a worker ---- */

typedef struct worker {
    hs__tally tally;
    hs__loss_reader loss;           /* its scratch is owned */
    hs_intervention *interventions; /* owned: those of the run, then the cut */
    int32_t *ids;                   /* [max_tokens] */
    double *losses;                 /* [PASSES][max_tokens] */
} worker;

static const hs_selection selection = {.taps = HS_KEEP(LAST_STATE)};

static void measure(const hs__corpus_job *job, const void *data, hs__counter_size *size)
{
    const size_t T = job->settings.fields.max_tokens;
    (void)data;
    size->shared += sizeof(hs_bootstrap);
    size->worker += hs__loss_bytes(job) + hs_capture_bytes(hs_engine_shape(job->engine), &selection, T) +
                    (job->settings.fields.n_interventions + 1) * sizeof(hs_intervention) +
                    T * (2 * sizeof(int32_t) + sizeof(uint8_t) + sizeof(size_t) + PASSES * sizeof(double));
    size->report += 4096;
    size->report_text += 2048;
}

static hs_status worker_begin(void *state, void *const *states, hs_error *err)
{
    worker *w = state;
    const hs__corpus_job *job = w->tally.counting->job;
    const hs_field_values *fields = &job->settings.fields;
    (void)states;
    w->loss = (hs__loss_reader){.job = job, .kind = hs__predicted_tokens_of(job)};
    w->loss.scratch = malloc(hs__loss_floats(job) * sizeof *w->loss.scratch);
    w->interventions = malloc((fields->n_interventions + 1) * sizeof *w->interventions);
    w->ids = malloc(fields->max_tokens * sizeof *w->ids);
    w->losses = malloc(PASSES * fields->max_tokens * sizeof *w->losses);
    if (!w->loss.scratch || !w->interventions || !w->ids || !w->losses)
        return hs_fail(err, HS_NO_MEMORY, "no memory for a worker");
    for (size_t i = 0; i < fields->n_interventions; i++)
        w->interventions[i] = fields->interventions[i];
    w->interventions[fields->n_interventions] = cut_of(job);
    return HS_OK;
}

static void worker_end(void *state)
{
    const worker *w = state;
    free(w->loss.scratch);
    free(w->interventions);
    free(w->ids);
    free(w->losses);
}

/* Returns where the nearest copy of a predicted token is that the model sees: before it, and not masked; with
 * masks, behind it, too. */
static size_t copy_of(const worker *w, const hs__predicted_text *text, size_t position)
{
    const bool masked = w->loss.kind == HS__PREDICTED_MASKED;
    const int32_t mask_id = hs_tokenizer_special_ids(hs_model_tokenizer(w->loss.job->model))->mask;
    const size_t K = distance_of(w->loss.job), end = masked ? text->n_tokens : position;
    size_t copy = COPY_NONE;
    for (size_t i = 0; i < end && copy != COPY_NEAR; i++) {
        const bool hidden = i == position || (masked && w->ids[i] == mask_id);
        if (!hidden && text->ids[i] == text->ids[position])
            copy = (i > position ? i - position : position - i) <= K ? COPY_NEAR : COPY_FAR;
    }
    return copy;
}

/* Runs a pass and writes the loss of each prediction. */
static hs_status pass_run(worker *w, hs_sequence *sequence, const hs__predicted_text *text,
                          const hs__text_pass *p, double *ret_losses, hs__loss *ret, hs_error *err)
{
    *ret = (hs__loss){.each = ret_losses};
    const hs_status st =
        hs_engine_compute(w->loss.job->engine, p->workspace, sequence, 1, NULL, p->control, err);
    return st ? st : hs__loss_add(&w->loss, text, sequence->capture, ret, NULL, err);
}

static void losses_add(const worker *w, const hs__predicted_text *text, uint64_t number, size_t n)
{
    const hs_sums *s = w->tally.sums;
    int64_t *block = hs_blocks_at(s->blocks, number);
    block[s->firsts[TEXTS]]++;
    for (size_t i = 0; i < n; i++) {
        const size_t copy = copy_of(w, text, hs__predicted_position(text, w->loss.kind, i));
        block[s->firsts[PREDICTIONS] + copy]++;
        for (size_t how = WHOLE; how < PASSES; how++)
            hs_real_add(block + s->firsts[LOSS] + 2 * (how * COPIES + copy),
                        w->losses[how * w->loss.job->settings.fields.max_tokens + i]);
    }
}

static hs_status text_count(worker *w, const hs__text_pass *p, size_t k, const hs__predicted_text *text,
                            hs_error *err)
{
    const hs__corpus_job *job = w->loss.job;
    const size_t n_own = job->settings.fields.n_interventions;
    hs_sequence sequence = p->sequences[k];
    hs__loss losses[PASSES];
    w->loss.control = p->control;
    hs__predicted_text_ids(text, job, w->ids);
    sequence.ids = w->ids;
    sequence.interventions = w->interventions;
    sequence.capture = NULL;
    hs_status st = hs_capture_create(hs_engine_runtime(job->engine), hs_engine_shape(job->engine), &selection,
                                     text->n_tokens, &sequence.capture, err);
    for (size_t how = WHOLE; how < PASSES && !st; how++) {
        sequence.n_interventions = n_own + (how == CUT);
        st = pass_run(w, &sequence, text, p, w->losses + how * job->settings.fields.max_tokens, &losses[how],
                      err);
    }
    if (!st)
        losses_add(w, text, p->texts[k].record.number, (size_t)losses[CUT].n);
    hs_capture_destroy(sequence.capture);
    return st;
}

static hs_status pass(void *state, hs__text_pass *p, hs_error *err)
{
    worker *w = state;
    hs_status st = HS_OK;
    for (size_t k = 0; k < p->n && !st; k++) {
        hs__predicted_text text;
        st = hs__predicted_text_copy(&p->texts[k], w->loss.kind, &text, err);
        if (!st && hs__predicted_text_is_useful(&text, w->loss.kind))
            st = text_count(w, p, k, &text, err);
        hs__predicted_text_finish(&text);
    }
    return st;
}

/* ---- report.json ---- */

/* Returns a row of predictions with copies [first, end). */
static json_t *row_json(const hs_sums *s, const hs_bootstrap *bootstrap, const char *name, size_t first,
                        size_t end)
{
    hs_draws n, whole, change;
    hs_sums_draw(s, bootstrap, PREDICTIONS, first, end - first, n);
    hs_sums_draw(s, bootstrap, LOSS, WHOLE * COPIES + first, end - first, whole);
    hs_sums_draw(s, bootstrap, LOSS, CUT * COPIES + first, end - first, change);
    hs__draws_divide(whole, n);
    hs__draws_divide(change, n);
    const double cut = change[0];
    for (size_t draw = 0; draw <= HS_BOOTSTRAP_DRAWS; draw++)
        change[draw] -= whole[draw];
    const hs_interval interval = hs_bootstrap_interval(bootstrap, change);
    return json_pack("{ss sI so so s{so so so}}", "copy", name, "predictions", (json_int_t)n[0], "loss",
                     hs__report_number(whole[0]), "loss_cut", hs__report_number(cut), "change", "value",
                     hs__report_number(change[0]), "low", hs__report_number(interval.low), "high",
                     hs__report_number(interval.high));
}

static void report(const hs__corpus_results *results, void *counts, json_t *to)
{
    const hs_sums *s = counts;
    hs_bootstrap *bootstrap = s ? hs_json_memory(1, sizeof *bootstrap) : NULL;
    if (bootstrap)
        hs_bootstrap_init(bootstrap, s->blocks, s->firsts[TEXTS], hs__different_texts(results));
    if (!bootstrap || !bootstrap->n_blocks) {
        free(bootstrap);
        return;
    }
    json_t *list = json_array();
    for (size_t copy = 0; copy < COPIES; copy++)
        json_array_append_new(list, row_json(s, bootstrap, copy_names[copy], copy, copy + 1));
    json_array_append_new(list, row_json(s, bootstrap, "all", 0, COPIES));
    json_object_set_new(to, MEMBER,
                        json_pack("{sO sO so}", "distance", json_object_get(results->identity, MEMBER),
                                  "measure", json_object_get(results->names, MEMBER), "rows", list));
    free(bootstrap);
}

/* Remembers what is predicted, for the report. */
static hs_status begin(hs__counting *counting, bool anew, hs_error *err)
{
    const char *predicted = hs__predicted_names[hs__predicted_tokens_of(counting->job)];
    return anew && json_object_set_new(counting->results->names, MEMBER, json_string(predicted))
               ? hs_fail(err, HS_NO_MEMORY, "no memory to begin")
               : HS_OK;
}

/* ---- the page ---- */

void hs__cut_attention_table_write(const json_t *cut_attention, FILE *out)
{
    static const hs__column columns[] = {
        {"Copy of the token", "copy", NULL},   {"Predictions", "predictions", NULL},
        {"Loss, nats", "loss", "%.3f"},        {"with attention cut", "loss_cut", "%.3f"},
        {"Change", "change.value", "%+.3f"},   {"from", "change.low", "%+.3f"},
        {"to (95 %)", "change.high", "%+.3f"},
    };
    const json_t *list = json_object_get(cut_attention, "rows");
    hs__table_begin(out, columns, HS__N(columns));
    for (size_t i = 0; i < json_array_size(list) && i <= COPIES; i++) {
        fputs("<tr>", out);
        hs__cells_write(out, columns, HS__N(columns), json_array_get(list, i), (hs__indices){0});
        fputs("</tr>\n", out);
    }
    hs__table_end(out);
}

static void page(const hs__drawing *d, hs__indices at, FILE *out)
{
    const json_t *own = json_object_get(d->report, MEMBER);
    (void)at;
    if (!own)
        return;
    hs__html_filled(
        out, own,
        "<section id=\"" MEMBER "\" aria-label=\"Cut attention\"><h2>Cut attention</h2><p class=\"muted\">"
        "The loss of {measure} predictions, and what it becomes if no head of any layer attends farther than "
        "{distance} tokens. Rows group predictions by the nearest copy of their token that the model sees: "
        "none, one within {distance} tokens (near), or only farther ones (far). A model that copies from "
        "afar loses most where copies are far. A model that rests its attention on far tokens loses "
        "everywhere, so compare several distances.</p>");
    hs__cut_attention_table_write(own, out);
    fputs("</section>\n", out);
}

const hs__counter hs__counter_cut_attention = {
    .name = "cut attention",
    .settings = settings,
    .n_settings = HS__N(settings),
    .options_bytes = sizeof(options),
    .identify = identify,
    .is_active = is_active,
    .sums = &kind,
    .measure = measure,
    .check = check,
    .begin = begin,
    .worker_bytes = sizeof(worker),
    .worker_begin = worker_begin,
    .worker_end = worker_end,
    .pass = pass,
    .report = report,
    .section = MEMBER,
    .title = "Cut attention",
    .page = page,
};
