/* output_passes.c - outputs that run passes of their own: effects, head scores, the patch map, value zeroing
 * and the rollout of cross heads. */
#include "api/outputs/structures.h"

#include "engine/analysis/effects.h"
#include "engine/analysis/flows.h"

#include <stdlib.h>

/* Returns the text with its capture and interventions, as further passes over it need it. */
static hs_sequence sequence_of(const hs__answer *a)
{
    return (hs_sequence){.ids = a->text->rows.ids,
                         .types = a->model->shape->n_types ? a->text->rows.types : NULL,
                         .n_tokens = a->text->rows.n_tokens,
                         .capture = (hs_capture *)a->capture,
                         .memory = a->memory ? a->memory->arrays[HS_TAP_LAST_STATE] : NULL,
                         .n_memory = a->memory ? a->memory->n_tokens : 0,
                         .interventions = a->analysis->interventions,
                         .n_interventions = a->analysis->n_own_interventions};
}

/* ==== effects ==== */

/* The effect of changing each requested head. The passes follow the baseline pass. */

static bool predicts(const hs__analysis_request *analysis)
{
    return hs__target_model(analysis)->architecture->predictor.decoder.data;
}

/* Returns true if the target is a class among probabilities. */
static bool has_classes(const hs__analysis_request *analysis)
{
    const hs_task_head *head = &analysis->model->architecture->task_head;
    const hs_target_kind kind = analysis->target.kind;
    return hs__has_target(analysis) && (kind == HS_TARGET_NONE || kind == HS_TARGET_CLASS) &&
           head->problem != HS_REGRESSION;
}

static bool is_estimated(const hs__analysis_request *analysis)
{
    return hs__is_estimated(analysis, HS__OUTPUT_BIT(effects));
}

static bool is_computed(const hs__analysis_request *analysis)
{
    return !is_estimated(analysis);
}

static bool follows_target(const hs__analysis_request *analysis)
{
    return hs__has_target(analysis) || is_estimated(analysis);
}

static bool is_patched(const hs__analysis_request *analysis)
{
    return follows_target(analysis) && analysis->effects_of.kind == HS_INTERVENE_PATCH;
}

static bool compares_predictions(const hs__analysis_request *analysis)
{
    return predicts(analysis) && is_computed(analysis);
}

static bool compares_classes(const hs__analysis_request *analysis)
{
    return has_classes(analysis) && is_computed(analysis);
}

/* ---- computing ---- */

static hs_effects_reader reader_of(const hs__answer *a)
{
    return a->text->reader.n_tokens ? (hs_effects_reader){hs__target_model(a->analysis)->engine,
                                                          a->text->reader.ids, a->text->reader.n_tokens}
                                    : (hs_effects_reader){0};
}

static size_t effects_bytes_max(const hs__answer *a)
{
    const hs_sequence baseline = {.n_tokens = a->text->rows.n_tokens};
    hs_target target;
    hs_error unused;
    if (hs__target_find(a, NULL, &target, &unused))
        return SIZE_MAX;
    const hs_effects_options options = {.baseline = &baseline,
                                        .kind = a->analysis->effects_of.kind,
                                        .layers = a->analysis->layers,
                                        .n_layers = a->analysis->n_layers,
                                        .n_heads = a->analysis->n_heads,
                                        .again = a->again & HS__OUTPUT_BIT(effects),
                                        .target = target,
                                        .reader = reader_of(a),
                                        .n_positions =
                                            predicts(a->analysis) ? hs__text_followed(a->text)->n_tokens : 0};
    return hs_effects_bytes(a->model->engine, &options, a->request->n_threads);
}

static hs_status effects_run(const hs__answer *a, hs_workspace *ws, const hs_run_control *control,
                             void *ret_result, hs_error *err)
{
    const hs__analysis_request *analysis = a->analysis;
    const hs_sequence baseline = sequence_of(a);
    size_t *positions = NULL, n_positions = 0;
    hs_target target;
    const float *last = hs_capture_at(a->capture, HS_TAP_EVERY_STATE, a->model->shape->n_layers, 0);
    hs_status st = hs__target_find(a, last, &target, err);
    if (!st && predicts(analysis))
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
        .reader = reader_of(a),
        .similarity = hs__similarity_kind(analysis),
        .again = a->again & HS__OUTPUT_BIT(effects),
        .mask_id = hs_tokenizer_special_ids(hs_model_tokenizer(a->model->model))->mask,
        .progress = a->request->progress,
        .context = a->request->progress_data,
    };
    if (!st)
        st = hs_effects_compute(a->model->engine, ws, &options, control, ret_result, err);
    free(positions);
    return st;
}

static size_t effects_result_bytes(const hs__answer *a)
{
    return a->analysis->n_layers * a->analysis->n_heads * sizeof(hs_effect);
}

const hs__own_passes hs__own_effects = {
    .kind = HS__OWN_EFFECTS,
    .result = "effects",
    .result_bytes = effects_result_bytes,
    .bytes_max = effects_bytes_max,
    .run = effects_run,
};

/* ---- columns ---- */

static void effect_estimated(const hs__table_row *row, hs__cell *ret)
{
    ret->integer = is_estimated(row->answer->analysis);
}

static const hs__table_column effect_columns[] = {
    {HS__NUMBER_OF(hs_effect, hidden_change), .is_answered = is_computed},
    {HS__NUMBER_OF(hs_effect, similarity_change), .is_answered = is_computed},
    {HS__NUMBER_OF(hs_effect, prediction_kl), .is_answered = compares_predictions},
    {HS__NUMBER_OF(hs_effect, logprob_change), .is_answered = compares_predictions},
    {HS__NUMBER_OF(hs_effect, target_change), .is_answered = follows_target},
    {HS__NUMBER_OF(hs_effect, class_kl), .is_answered = compares_classes},
    {HS__NUMBER_OF(hs_effect, recovered), .is_answered = is_patched},
    {"estimated", .type = HS__CELL_FLAG, .place = HS__IN_JSON, .get = effect_estimated,
     .is_answered = is_estimated},
    {0},
};

static const hs__table effect_table = {
    .kind = HS__TABLE_HEADS, .arrays = "effects_", .columns = effect_columns, .stride = sizeof(hs_effect)};

/* The last layer's heads are followed by no similarities. */
static unsigned choose_effects_taps(const hs__analysis_request *analysis)
{
    const size_t last = analysis->model->shape->n_layers - 1;
    const unsigned taps = HS_EFFECTS_TAPS | hs__input_taps(analysis);
    return analysis->layers[0] == last ? taps & ~HS_KEEP(SIMILARITY) : taps;
}

static const hs__structure effects_structure = {.table = &effect_table};

const hs__output hs__output_row_effects = {.taps = HS_EFFECTS_TAPS,
                                           .choose_taps = choose_effects_taps,
                                           .structure = &effects_structure,
                                           .every_head = true,
                                           .every_layer = true,
                                           .own = &hs__own_effects,
                                           .again = HS__AGAIN};

/* ==== head scores ==== */

/* Scores of the requested heads on random repeated sequences. The request's text does not matter. */

/* ---- computing ---- */

/* Writes the ids to draw from, which may be as many as the vocabulary has. Returns their number. */
static size_t find_choices(const hs_tokenizer *tokenizer, int32_t *ret_ids)
{
    size_t n = 0;
    for (size_t id = 0; id < hs_tokenizer_vocab_size(tokenizer); id++)
        if (hs_tokenizer_is_ordinary(tokenizer, (int32_t)id))
            ret_ids[n++] = (int32_t)id;
    return n;
}

static hs_head_scores_options describe(const hs__answer *a, const int32_t *frame, size_t n_frame,
                                       size_t n_before)
{
    const hs__analysis_request *analysis = a->analysis;
    return (hs_head_scores_options){.before = frame,
                                    .after = frame + n_before,
                                    .n_before = n_before,
                                    .n_after = n_frame - n_before,
                                    .length = analysis->head_scores.length,
                                    .n_texts = analysis->head_scores.sequences,
                                    .seed = analysis->head_scores.seed,
                                    .interventions = analysis->interventions,
                                    .n_interventions = analysis->n_own_interventions,
                                    .layers = analysis->layers,
                                    .heads = analysis->heads,
                                    .n_layers = analysis->n_layers,
                                    .n_heads = analysis->n_heads};
}

static size_t head_scores_bytes_max(const hs__answer *a)
{
    int32_t frame[HS_FRAME_MAX];
    size_t n_before;
    const size_t n_frame = hs_tokenizer_frame(hs_model_tokenizer(a->model->model), frame, &n_before);
    hs_head_scores_options options = describe(a, frame, n_frame, n_before);
    options.n_choices = a->model->shape->vocab_size;
    return options.n_choices * sizeof(int32_t) +
           hs_head_scores_bytes(a->model->engine, &options, a->request->n_threads);
}

static hs_status check(const hs__answer *a, const hs_head_scores_options *options, hs_error *err)
{
    if (options->length < 2)
        return hs_fail(err, HS_INVALID, "head_scores repeats at least 2 tokens; %s reads only %zu tokens",
                       a->model->name, a->model->shape->n_positions);
    for (size_t i = 0; i < options->n_interventions; i++)
        if (hs_intervention_is_patch(&options->interventions[i]) || options->interventions[i].n_positions > 0)
            return hs_fail(
                err, HS_INVALID,
                "head_scores is not computed with patches and positions: they are of the request's text, "
                "not of the random ones; use other interventions");
    if (options->n_choices < options->length)
        return hs_fail(
            err, HS_INVALID,
            "head_scores draws %zu different tokens; the vocabulary of %s has only %zu that are not "
            "special: ask for a smaller length",
            options->length, a->model->name, options->n_choices);
    return HS_OK;
}

static hs_status head_scores_run(const hs__answer *a, hs_workspace *ws, const hs_run_control *control,
                                 void *ret_result, hs_error *err)
{
    const hs_tokenizer *tokenizer = hs_model_tokenizer(a->model->model);
    int32_t frame[HS_FRAME_MAX];
    size_t n_before;
    const size_t n_frame = hs_tokenizer_frame(tokenizer, frame, &n_before);
    hs_head_scores_options options = describe(a, frame, n_frame, n_before);
    int32_t *choices = malloc(hs_tokenizer_vocab_size(tokenizer) * sizeof *choices);
    if (!choices)
        return hs_fail(err, HS_NO_MEMORY, "no memory for head scores");
    options.choices = choices;
    options.n_choices = find_choices(tokenizer, choices);
    hs_status st = check(a, &options, err);
    if (!st)
        st = hs_head_scores_compute(a->model->engine, ws, &options, control, ret_result, err);
    free(choices);
    return st;
}

static size_t head_scores_result_bytes(const hs__answer *a)
{
    return a->analysis->n_layers * a->analysis->n_heads * sizeof(hs_head_score);
}

const hs__own_passes hs__own_head_scores = {
    .kind = HS__OWN_HEAD_SCORES,
    .result = "head scores",
    .result_bytes = head_scores_result_bytes,
    .bytes_max = head_scores_bytes_max,
    .run = head_scores_run,
};

/* ---- columns ---- */

static const hs__table_column score_columns[] = {
    {"previous", .type = HS__CELL_NUMBER, HS__MEMBER(hs_head_score, previous)},
    {"duplicate", .type = HS__CELL_NUMBER, HS__MEMBER(hs_head_score, duplicate)},
    {"induction", .type = HS__CELL_NUMBER, HS__MEMBER(hs_head_score, induction)},
    {0},
};

static const hs__table score_table = {.kind = HS__TABLE_HEADS,
                                      .arrays = "head_scores_",
                                      .columns = score_columns,
                                      .stride = sizeof(hs_head_score)};

static const hs__structure head_scores_structure = {.table = &score_table};

const hs__output hs__output_row_head_scores = {
    .structure = &head_scores_structure,
    .own = &hs__own_head_scores,
    .not_decoder = "it is measured on random tokens, and a decoder reads them "
                   "beside a text"};

/* ==== the patch map ==== */

/* The map of patched hidden states, computed after the passes of both texts. */

static size_t patch_map_result_bytes(const hs__answer *a)
{
    return (a->model->shape->n_layers + 1) * a->text->rows.n_tokens * sizeof(float);
}

static size_t patch_map_bytes_max(const hs__answer *a)
{
    const hs_sequence clean = {.n_tokens = a->text->rows.n_tokens};
    hs_patch_map_options options = {.clean = &clean, .reader = reader_of(a)};
    hs_error unused;
    if (hs__target_find(a, NULL, &options.target, &unused))
        return SIZE_MAX;
    return patch_map_result_bytes(a) + hs_patch_map_bytes(a->model->engine, &options);
}

static hs_status patch_map_run(const hs__answer *a, hs_workspace *ws, const hs_run_control *control,
                               void *ret_result, hs_error *err)
{
    const hs_sequence clean = sequence_of(a);
    hs_patch_map_options options = {.clean = &clean, .other = a->other, .reader = reader_of(a)};
    const float *last = hs_capture_at(a->capture, HS_TAP_EVERY_STATE, a->model->shape->n_layers, 0);
    const hs_status st = hs__target_find(a, last, &options.target, err);
    return st ? st : hs_patch_map_compute(a->model->engine, ws, &options, control, ret_result, err);
}

const hs__own_passes hs__own_patch_map = {
    .kind = HS__OWN_PATCH_MAP,
    .result = "a patch map",
    .result_bytes = patch_map_result_bytes,
    .bytes_max = patch_map_bytes_max,
    .run = patch_map_run,
};

/* ==== value zeroing ==== */

/* Returns the bytes of a map for each layer. */
static size_t maps_result_bytes(const hs__answer *a)
{
    return a->analysis->n_layers * a->text->rows.n_tokens * a->text->keys->n_tokens * sizeof(float);
}

static size_t value_zeroing_bytes_max(const hs__answer *a)
{
    return maps_result_bytes(a) +
           hs_value_zeroing_bytes(a->model->engine, a->text->rows.n_tokens, a->text->keys->n_tokens);
}

static hs_status value_zeroing_run(const hs__answer *a, hs_workspace *ws, const hs_run_control *control,
                                   void *ret_result, hs_error *err)
{
    const hs_sequence text = sequence_of(a);
    return hs_value_zeroing_compute(a->model->engine, ws, &text, a->analysis->layers, a->analysis->n_layers,
                                    control, ret_result, err);
}

const hs__own_passes hs__own_value_zeroing = {
    .kind = HS__OWN_VALUE_ZEROING,
    .result = "value zeroing",
    .result_bytes = maps_result_bytes,
    .bytes_max = value_zeroing_bytes_max,
    .run = value_zeroing_run,
};

/* ==== the rollout of cross heads ==== */

static size_t cross_rollout_bytes_max(const hs__answer *a)
{
    return maps_result_bytes(a) +
           hs_cross_rollout_bytes(a->model->shape, a->text->rows.n_tokens, a->text->keys->n_tokens);
}

static hs_status cross_rollout_run(const hs__answer *a, hs_workspace *ws, const hs_run_control *control,
                                   void *ret_result, hs_error *err)
{
    const hs_sequence text = sequence_of(a);
    return hs_cross_rollout_compute(a->model->engine, ws, &text, a->analysis->layers, a->analysis->n_layers,
                                    control, ret_result, err);
}

const hs__own_passes hs__own_cross_rollout = {
    .kind = HS__OWN_CROSS_ROLLOUT,
    .result = "the rollout",
    .result_bytes = maps_result_bytes,
    .bytes_max = cross_rollout_bytes_max,
    .run = cross_rollout_run,
};
