/* output_head_scores.c - scores of the requested heads on random repeated sequences. hs__head_scores_run
 * computes them by passes of their own, with the worker's workspace; the request's text does not matter. */
#include "api/head_figures.h"
#include "api/output_structures.h"

#include <stdlib.h>

/* The figures by name, in the order of the answer. */
static const hs__head_figure figures[] = {
#define FIGURE(name) HS__HEAD_FIGURE("head_scores", hs_head_score, name, NULL)
    FIGURE(previous),
    FIGURE(duplicate),
    FIGURE(induction),
#undef FIGURE
};
#define N_FIGURES (sizeof figures / sizeof *figures)

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
                                    .n_interventions = analysis->n_interventions,
                                    .layers = analysis->layers,
                                    .heads = analysis->heads,
                                    .n_layers = analysis->n_layers,
                                    .n_heads = analysis->n_heads};
}

static size_t bytes_max(const hs__answer *a)
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
        if (hs_intervention_is_patch(&options->interventions[i]))
            return hs_fail(
                err, HS_INVALID,
                "head_scores is not computed with patches: their text is as long as the request's, "
                "not as the random ones; use other kinds of interventions");
    if (options->n_choices < options->length)
        return hs_fail(
            err, HS_INVALID,
            "head_scores draws %zu different tokens; the vocabulary of %s has only %zu that are not "
            "special: ask for a smaller length",
            options->length, a->model->name, options->n_choices);
    return HS_OK;
}

static hs_status run(const hs__answer *a, hs_workspace *ws, const hs_run_control *control, void *ret_result,
                     hs_error *err)
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

static size_t result_bytes(const hs__answer *a)
{
    return a->analysis->n_layers * a->analysis->n_heads * sizeof(hs_head_score);
}

const hs__own_passes hs__own_head_scores = {
    .kind = HS__OWN_HEAD_SCORES,
    .result = "head scores",
    .result_bytes = result_bytes,
    .bytes_max = bytes_max,
    .run = run,
};

/* ---- writing ---- */

static void write_head(hs_buffer *b, const hs__answer *a, const void *result, size_t at)
{
    hs_buffer_text(b, "{");
    hs__head_figures_write(b, a, figures, N_FIGURES, (const hs_head_score *)result + at);
    hs_buffer_text(b, "}");
}

static void add_arrays(hs_arrays *arrays, const hs__answer *a, const void *result)
{
    hs__head_figures_add(arrays, a, figures, N_FIGURES, result, sizeof(hs_head_score));
}

static size_t json_bytes_max(const hs__measures *m)
{
    return m->n_heads * (48 + N_FIGURES * m->number);
}

static size_t array_bytes_max(const hs__measures *m)
{
    return 4 * m->n_heads * N_FIGURES;
}

const hs__structure hs__structure_head_scores = {
    .write_head = write_head,
    .add_arrays = add_arrays,
    .json_bytes_max = json_bytes_max,
    .array_bytes_max = array_bytes_max,
};
