/* output_effects.c - the effect of changing each requested head. The passes follow the baseline pass. */
#include "api/head_figures.h"
#include "api/output_structures.h"

#include <stdlib.h>

static bool predicts(const hs__answer *a)
{
    return hs_model_architecture(a->model->model)->predictor.decoder.data;
}

static bool has_target(const hs__answer *a)
{
    return hs__target_exists(a->analysis, hs_model_architecture(a->model->model));
}

/* Returns true if the target is a class among probabilities. */
static bool has_classes(const hs__answer *a)
{
    const hs_task_head *head = &hs_model_architecture(a->model->model)->task_head;
    const hs_target_kind kind = a->analysis->target.kind;
    return has_target(a) && (kind == HS_TARGET_NONE || kind == HS_TARGET_CLASS) &&
           head->problem != HS_REGRESSION;
}

static bool is_patched(const hs__answer *a)
{
    return has_target(a) && a->analysis->effects_of.kind == HS_INTERVENE_PATCH;
}

/* The figures by name, in the order of the answer. */
static const hs__head_figure figures[] = {
#define FIGURE(name, is_answered) HS__HEAD_FIGURE("effects", hs_effect, name, is_answered)
    FIGURE(hidden_change, NULL),      FIGURE(similarity_change, NULL),   FIGURE(prediction_kl, predicts),
    FIGURE(logprob_change, predicts), FIGURE(target_change, has_target), FIGURE(class_kl, has_classes),
    FIGURE(recovered, is_patched),
#undef FIGURE
};
#define N_FIGURES (sizeof figures / sizeof *figures)

/* ---- computing ---- */

static size_t bytes_max(const hs__answer *a)
{
    const hs_sequence baseline = {.n_tokens = a->encoding->n_tokens};
    hs_target target;
    hs_error unused;
    if (hs__target_find(a, NULL, &target, &unused))
        return SIZE_MAX;
    const hs_effects_options options = {.baseline = &baseline,
                                        .kind = a->analysis->effects_of.kind,
                                        .n_heads = a->analysis->n_heads,
                                        .target = target,
                                        .n_positions = predicts(a) ? baseline.n_tokens : 0};
    return hs_effects_bytes(a->model->engine, &options, a->request->n_threads);
}

static hs_status run(const hs__answer *a, hs_workspace *ws, const hs_run_control *control, void *ret_result,
                     hs_error *err)
{
    const hs__analysis_request *analysis = a->analysis;
    const hs_sequence baseline = hs__answer_sequence(a);
    size_t *positions = NULL, n_positions = 0;
    hs_target target;
    const float *last = hs_capture_at(a->capture, HS_TAP_EVERY_STATE, a->model->shape->n_layers, 0);
    hs_status st = hs__target_find(a, last, &target, err);
    if (!st && predicts(a))
        st = hs__positions_choose(a, &positions, &n_positions, err);
    const hs_effects_options options = {
        .baseline = &baseline,
        .kind = analysis->effects_of.kind,
        .factor = analysis->effects_of.factor,
        .other = a->other,
        .layers = analysis->layers,
        .heads = analysis->heads,
        .n_layers = analysis->n_layers,
        .n_heads = analysis->n_heads,
        .positions = positions,
        .n_positions = n_positions,
        .target = target,
        .residual = analysis->similarity_space == HS__SPACE_RESIDUAL,
        .mask_id = hs_tokenizer_special_ids(hs_model_tokenizer(a->model->model))->mask,
        .progress = a->request->progress,
        .context = a->request->progress_data,
    };
    if (!st)
        st = hs_effects_compute(a->model->engine, ws, &options, control, ret_result, err);
    free(positions);
    return st;
}

static size_t result_bytes(const hs__answer *a)
{
    return a->analysis->n_layers * a->analysis->n_heads * sizeof(hs_effect);
}

const hs__own_passes hs__own_effects = {
    .kind = HS__OWN_EFFECTS,
    .result = "effects",
    .result_bytes = result_bytes,
    .bytes_max = bytes_max,
    .run = run,
};

/* ---- writing ---- */

static void write_head(hs_buffer *b, const hs__answer *a, const void *result, size_t at)
{
    hs_buffer_text(b, "{");
    hs__head_figures_write(b, a, figures, N_FIGURES, (const hs_effect *)result + at);
    hs_buffer_text(b, "}");
}

static void add_arrays(hs_arrays *arrays, const hs__answer *a, const void *result)
{
    hs__head_figures_add(arrays, a, figures, N_FIGURES, result, sizeof(hs_effect));
}

static size_t json_bytes_max(const hs__measures *m)
{
    return m->n_heads * (112 + N_FIGURES * m->number);
}

static size_t array_bytes_max(const hs__measures *m)
{
    return 4 * m->n_heads * N_FIGURES;
}

const hs__structure hs__structure_effects = {
    .write_head = write_head,
    .add_arrays = add_arrays,
    .json_bytes_max = json_bytes_max,
    .array_bytes_max = array_bytes_max,
};
