/* labelled_texts.c - reads the classes from the last states of a pass, and runs the passes of effects. */
#include "server/corpus/run/labelled_texts.h"

#include "model/base/bytes.h"

#include <stdlib.h>
#include <string.h>

static const hs_task_head *head_of(const hs__corpus_job *job)
{
    return &hs_model_architecture(job->model)->task_head;
}

hs_labels_shape hs__corpus_labels_shape(const hs__corpus_job *job)
{
    const bool labelled = *job->settings.input.label_field;
    return (hs_labels_shape){.n_labels = labelled ? head_of(job)->n_classes : 0,
                             .n_layers = job->settings.fields.n_layers,
                             .n_heads = hs_model_shape(job->model)->n_heads};
}

bool hs__label_find(const hs_task_head *head, const char *text, size_t *ret_label)
{
    for (size_t i = 0; i < head->n_classes; i++)
        if (strcmp(head->labels[i], text) == 0) {
            *ret_label = i;
            return true;
        }
    const size_t n_digits = strspn(text, "0123456789");
    *ret_label = n_digits > 0 && n_digits < 6 && !text[n_digits] ? strtoul(text, NULL, 10) : head->n_classes;
    return *ret_label < head->n_classes;
}

/* ---- lifetime ---- */

static size_t n_maps(const hs__corpus_job *job)
{
    return job->settings.fields.n_layers * hs_model_shape(job->model)->n_heads;
}

static hs_effects_options effects_options(const hs__corpus_labelling *g, const hs_sequence *baseline,
                                          size_t label)
{
    const hs__corpus_settings *settings = &g->job->settings;
    return (hs_effects_options){.baseline = baseline,
                                .kind = HS_INTERVENE_ZERO,
                                .layers = settings->fields.layers,
                                .heads = hs_all_numbers,
                                .n_layers = settings->fields.n_layers,
                                .n_heads = hs_model_shape(g->job->model)->n_heads,
                                .target = {.kind = HS_TARGET_CLASS, .class = label},
                                .mask_id = -1};
}

/* Counts the baseline's capture, what a call of hs_effects_compute allocates, and the captures of a pass. */
static size_t effects_bytes(const hs__corpus_job *job)
{
    const hs_shape *shape = hs_model_shape(job->model);
    const hs_sequence longest = {.n_tokens = job->settings.fields.max_tokens};
    const hs__corpus_labelling g = {.job = job};
    const hs_effects_options options = effects_options(&g, &longest, 0);
    const hs_selection selection = hs_select_all(shape, HS_EFFECTS_TAPS);
    if (!(job->settings.effects_share > 0))
        return 0;
    return hs_capture_bytes(shape, &selection, longest.n_tokens) +
           hs_effects_bytes(job->engine, &options, 1) +
           HS_CORPUS_BATCH * longest.n_tokens * shape->hidden * sizeof(float);
}

size_t hs__corpus_labelling_bytes(const hs__corpus_job *job)
{
    const hs_labels_shape labels = hs__corpus_labels_shape(job);
    const hs_shape *shape = hs_model_shape(job->model);
    if (labels.n_labels == 0)
        return 0;
    return hs_labels_words(&labels) * sizeof(int64_t) +
           n_maps(job) * (HS_CORPUS_BATCH * sizeof(hs_corpus_observation) + sizeof(hs_effect)) +
           (shape->hidden + labels.n_labels) * sizeof(float) +
           HS_CORPUS_BATCH * job->settings.fields.max_tokens * shape->hidden * sizeof(float) +
           effects_bytes(job);
}

hs_status hs__corpus_labelling_init(hs__corpus_labelling *g, const hs__corpus_job *job, hs_error *err)
{
    const hs_labels_shape labels = hs__corpus_labels_shape(job);
    const hs_shape *shape = hs_model_shape(job->model);
    g->job = job;
    if (labels.n_labels == 0)
        return HS_OK;
    g->observations = calloc(HS_CORPUS_BATCH * n_maps(job), sizeof *g->observations);
    g->row = malloc((shape->hidden + labels.n_labels) * sizeof *g->row);
    g->effects = malloc(n_maps(job) * sizeof *g->effects);
    if (!g->observations || !g->row || !g->effects)
        return hs_fail(err, HS_NO_MEMORY, "no memory for a worker");
    return g->labels ? HS_OK : hs_labels_create(&labels, &g->labels, err);
}

void hs__corpus_labelling_finish(hs__corpus_labelling *g)
{
    hs_labels_destroy(g->labels);
    free(g->observations);
    free(g->row);
    free(g->effects);
    *g = (hs__corpus_labelling){0};
}

/* ---- counting ---- */

void hs__corpus_labelling_keep(hs__corpus_labelling *g, size_t k, size_t l, size_t h,
                               const hs_corpus_observation *observation)
{
    const size_t n_heads = hs_model_shape(g->job->model)->n_heads;
    g->observations[k * n_maps(g->job) + l * n_heads + h] = *observation;
}

static hs_status prediction_count(hs__corpus_labelling *g, const hs_capture *capture, size_t k, size_t label,
                                  hs_error *err)
{
    const hs_engine *engine = g->job->engine;
    const hs_task_head *head = head_of(g->job);
    const float *states = hs_capture_at(capture, HS_TAP_LAST_STATE, 0, 0);
    const size_t n_heads = hs_model_shape(g->job->model)->n_heads;
    hs_labelled_text text = {.label = label, .logits = g->row + capture->hidden};
    hs_status st = hs_engine_pool(engine, head, states, capture, 1, g->row, err);
    if (!st)
        st = hs_engine_classify(engine, head, g->row, 1, 1, g->row + capture->hidden, err);
    if (st)
        return st;
    hs_labels_text_add(g->labels, &text);
    for (size_t i = 0; i < n_maps(g->job); i++)
        hs_labels_head_add(g->labels, &text, i / n_heads, i % n_heads,
                           &g->observations[k * n_maps(g->job) + i]);
    return HS_OK;
}

static bool is_chosen(const hs__corpus_labelling *g, uint64_t number)
{
    return hs_fraction_of(hs_mix((number + 1) * HS_MIX_STEP)) < (double)g->job->settings.effects_share;
}

static hs_status effects_count(hs__corpus_labelling *g, hs_workspace *ws, const hs_sequence *sequence,
                               size_t label, const hs_run_control *control, hs_error *err)
{
    const hs_selection selection = hs_select_all(hs_model_shape(g->job->model), HS_EFFECTS_TAPS);
    hs_sequence baseline = *sequence;
    baseline.capture = NULL;
    hs_status st = hs_capture_create(hs_engine_runtime(g->job->engine), hs_model_shape(g->job->model),
                                     &selection, sequence->n_tokens, &baseline.capture, err);
    if (!st)
        st = hs_engine_compute(g->job->engine, ws, &baseline, 1, NULL, control, err);
    const hs_effects_options options = effects_options(g, &baseline, label);
    if (!st)
        st = hs_effects_compute(g->job->engine, ws, &options, control, g->effects, err);
    if (!st)
        hs_labels_effects_add(g->labels, label, g->effects);
    hs_capture_destroy(baseline.capture);
    return st;
}

hs_status hs__corpus_labelling_count(hs__corpus_labelling *g, hs_workspace *ws, const hs_sequence *sequences,
                                     const hs__text_label *texts, size_t n_texts,
                                     const hs_run_control *control, hs_error *err)
{
    hs_status st = HS_OK;
    for (size_t k = 0; k < n_texts && !st; k++) {
        st = prediction_count(g, sequences[k].capture, k, texts[k].label, err);
        if (!st && is_chosen(g, texts[k].number))
            st = effects_count(g, ws, &sequences[k], texts[k].label, control, err);
    }
    return st;
}
