/* head_effects.c - how the logit of a text's label changes without each head, for some of the labelled texts.
 *
 * A hash of a text's number decides whether its heads are switched off in turn, so the choice does not depend
 * on the shard. The sums are part of the statistics of labels. */
#include "model/base/bytes.h"
#include "server/corpus/counters/labelled_texts.h"
#include "server/corpus/report/report_value.h"

#include <stdlib.h>

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
                                .n_heads = hs_model_shape(job->model)->n_heads,
                                .target = {.kind = HS_TARGET_CLASS, .class = label},
                                .mask_id = -1};
}

/* Counts the baseline's capture, what a call of hs_effects_compute allocates, and the captures of a pass. */
static void measure(const hs__corpus_job *job, const void *data, hs__counter_size *size)
{
    const hs_shape *shape = hs_model_shape(job->model);
    const hs_sequence longest = {.n_tokens = job->settings.fields.max_tokens};
    const hs_effects_options effects = options_of(job, &longest, 0);
    const hs_selection selection = hs_select_all(shape, HS_EFFECTS_TAPS);
    if (is_active(data))
        size->worker += hs__corpus_maps(job) * sizeof(hs_effect) +
                        hs_capture_bytes(shape, &selection, longest.n_tokens) +
                        hs_effects_bytes(job->engine, &effects, 1) +
                        HS_CORPUS_BATCH * longest.n_tokens * shape->hidden * sizeof(float);
}

/* ---- a worker ---- */

typedef struct worker {
    const hs__corpus_job *job;
    const options *options;
    hs_labels *labels;  /* of the same worker */
    hs_effect *effects; /* [l][h] */
} worker;

static hs_status worker_create(hs__counting *counting, void *const *states, void **ret, hs_error *err)
{
    void *const labels = states[HS__NUMBER_OF_labelled_texts];
    if (!is_active(counting->options) || !labels)
        return HS_OK;
    worker *w = *ret = calloc(1, sizeof *w);
    if (!w)
        return hs_fail(err, HS_NO_MEMORY, "no memory for a worker");
    *w = (worker){counting->job, counting->options, hs__labels_of_worker(labels),
                  malloc(hs__corpus_maps(counting->job) * sizeof *w->effects)};
    return w->effects ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory for a worker");
}

static void worker_destroy(void *state)
{
    worker *w = state;
    free(w->effects);
    free(w);
}

static bool is_chosen(const worker *w, uint64_t number)
{
    return hs_fraction_of(hs_mix((number + 1) * HS_MIX_STEP)) < (double)w->options->share;
}

static hs_status effects_count(worker *w, const hs__text_pass *p, size_t k, hs_error *err)
{
    const hs__corpus_job *job = w->job;
    const hs_selection selection = hs_select_all(hs_model_shape(job->model), HS_EFFECTS_TAPS);
    hs_sequence baseline = p->sequences[k];
    const size_t label = p->texts[k].label;
    baseline.capture = NULL;
    hs_status st = hs_capture_create(hs_engine_runtime(job->engine), hs_model_shape(job->model), &selection,
                                     baseline.n_tokens, &baseline.capture, err);
    if (!st)
        st = hs_engine_compute(job->engine, p->workspace, &baseline, 1, NULL, p->control, err);
    const hs_effects_options effects = options_of(job, &baseline, label);
    if (!st)
        st = hs_effects_compute(job->engine, p->workspace, &effects, p->control, w->effects, err);
    if (!st)
        hs_labels_effects_add(w->labels, label, w->effects);
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

const hs__counter hs__counter_head_effects = {
    .name = "effects",
    .settings = settings,
    .n_settings = sizeof settings / sizeof *settings,
    .options_bytes = sizeof(options),
    .identify = identify,
    .measure = measure,
    .worker_create = worker_create,
    .worker_destroy = worker_destroy,
    .pass = pass,
};
