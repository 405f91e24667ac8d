/* output_changes.c - changes by interventions, as norms relative to the baseline pass, and the baseline's
 * predictions. */
#include "api/output_structures.h"

#include <math.h>
#include <stdlib.h>

typedef struct changes {
    size_t n_layers, n_heads, n_states, n_tokens;
    void *of_baseline[6]; /* owned: the baseline's results of `outputs`; NULL if not requested */
    bool has_target;
    double target[2];                 /* of the baseline and of the changed pass */
    float *attentions, *similarities; /* [l][h]: relative Frobenius norms */
    float hidden[];                   /* [L + 1][T]; the others follow */
} changes;

/* Outputs of prediction and task heads: changes has those of the baseline that are requested. */
static const struct {
    unsigned output; /* HS__OUTPUT_... */
    const hs__structure *structure;
} outputs[] = {
    {.output = HS__OUTPUT_predictions, .structure = &hs__structure_predictions},
    {.output = HS__OUTPUT_classes, .structure = &hs__structure_classes},
    {.output = HS__OUTPUT_next_sentence, .structure = &hs__structure_next_sentence},
    {.output = HS__OUTPUT_answer, .structure = &hs__structure_answer},
    {.output = HS__OUTPUT_loss, .structure = &hs__structure_loss},
    {.output = HS__OUTPUT_embedding, .structure = &hs__structure_embedding},
};
#define N_OUTPUTS (sizeof outputs / sizeof *outputs)
_Static_assert(N_OUTPUTS == sizeof((changes *)0)->of_baseline / sizeof(void *), "one result for each");

static bool is_requested(const hs__analysis_request *analysis, size_t i)
{
    return analysis->outputs >> outputs[i].output & 1;
}

/* All layers are captured in both passes. */
static void measure_hidden(const hs__answer *a, changes *c)
{
    const size_t H = a->capture->hidden;
    for (size_t s = 0; s < c->n_states; s++) {
        const float *changed = hs_capture_at(a->capture, HS_TAP_HIDDEN_STATE, s, 0);
        const float *baseline = hs_capture_at(a->baseline, HS_TAP_HIDDEN_STATE, s, 0);
        for (size_t t = 0; t < c->n_tokens; t++)
            c->hidden[s * c->n_tokens + t] = (float)hs_relative_change(changed + t * H, baseline + t * H, H);
    }
}

static void measure_maps(const hs__answer *a, hs_tap tap, size_t n_layers, size_t n_heads, float *ret)
{
    const size_t T = a->capture->n_tokens;
    for (size_t l = 0; l < n_layers && !hs__answer_cancelled(a); l++)
        for (size_t h = 0; h < n_heads; h++)
            ret[l * n_heads + h] = (float)hs_relative_change(hs__answer_at(a, tap, l, h),
                                                             hs__answer_baseline_at(a, tap, l, h), T * T);
}

/* Reads the target from the last hidden states of both passes. */
static hs_status measure_target(const hs__answer *a, changes *c, hs_error *err)
{
    const hs_architecture *architecture = hs_model_architecture(a->model->model);
    const size_t L = a->model->shape->n_layers, T = a->capture->n_tokens;
    const hs_capture *const passes[] = {a->baseline, a->capture};
    hs_target target;
    hs_status st = hs__target_find(a, hs_capture_at(a->baseline, HS_TAP_HIDDEN_STATE, L, 0), &target, err);
    if (st || target.kind == HS_TARGET_NONE)
        return st;
    c->has_target = true;
    const size_t n = hs_target_floats(architecture, &target, T);
    float *rows = malloc(2 * n * sizeof *rows);
    if (!rows)
        return hs_fail(err, HS_NO_MEMORY, "no memory for a target");
    for (size_t i = 0; i < 2 && !st; i++)
        st = hs_target_rows(a->model->engine, &target, hs_capture_at(passes[i], HS_TAP_HIDDEN_STATE, L, 0),
                            passes[i], a->request->n_threads, rows + i * n, err);
    if (!st)
        st = hs_target_values(a->model->engine, &target, rows, 2, a->encoding->ids, T, a->request->n_threads,
                              c->target, NULL, err);
    free(rows);
    return st;
}

static hs_status compute(const hs__answer *a, void **ret_result, hs_error *err)
{
    const size_t n_states = a->model->shape->n_layers + 1, T = a->capture->n_tokens;
    const size_t n_layers = a->analysis->n_layers, n_heads = a->analysis->n_heads;
    changes *c = calloc(1, sizeof *c + (n_states * T + 2 * n_layers * n_heads) * sizeof(float));
    if (!c)
        return hs_fail(err, HS_NO_MEMORY, "no memory for changes");
    c->n_layers = n_layers;
    c->n_heads = n_heads;
    c->n_states = n_states;
    c->n_tokens = T;
    c->attentions = c->hidden + n_states * T;
    c->similarities = c->attentions + n_layers * n_heads;
    measure_hidden(a, c);
    measure_maps(a, HS_TAP_ATTENTION, n_layers, n_heads, c->attentions);
    measure_maps(a, hs__answer_similarity(a), n_layers, n_heads, c->similarities);
    *ret_result = c;
    hs__answer baseline = *a;
    baseline.capture = a->baseline;
    hs_status st = measure_target(a, c, err);
    for (size_t i = 0; i < N_OUTPUTS && !st; i++)
        if (is_requested(a->analysis, i))
            st = outputs[i].structure->compute(&baseline, &c->of_baseline[i], err);
    return st;
}

static void destroy(void *result)
{
    changes *c = result;
    for (size_t i = 0; i < N_OUTPUTS; i++)
        outputs[i].structure->destroy(c->of_baseline[i]);
    free(c);
}

static void write_json(hs_buffer *b, const hs__answer *a, const void *result)
{
    const changes *c = result;
    const size_t states[] = {c->n_states, c->n_tokens}, heads[] = {c->n_layers, c->n_heads};
    const int digits = (int)a->analysis->digits;
    hs_buffer_text(b, "{\"hidden\":");
    hs__json_block(b, c->hidden, 2, states, digits);
    hs__json_key(b, "attentions");
    hs__json_block(b, c->attentions, 2, heads, digits);
    hs__json_key(b, "similarities");
    hs__json_block(b, c->similarities, 2, heads, digits);
    if (c->has_target) {
        hs__json_key(b, "target");
        hs_buffer_text(b, "{\"before\":");
        hs__json_float(b, (float)c->target[0], digits);
        hs__json_key(b, "after");
        hs__json_float(b, (float)c->target[1], digits);
        hs_buffer_text(b, "}");
    }
    for (size_t i = 0; i < N_OUTPUTS; i++)
        if (c->of_baseline[i]) {
            hs__json_key(b, hs__output_names[outputs[i].output]);
            outputs[i].structure->write_json(b, a, c->of_baseline[i]);
        }
    hs_buffer_text(b, "}");
}

static void add_arrays(hs_arrays *arrays, const hs__answer *a, const void *result)
{
    const changes *c = result;
    hs_arrays_add_floats(arrays, "changes_hidden", c->hidden, 2, c->n_states, c->n_tokens);
    hs_arrays_add_floats(arrays, "changes_attentions", c->attentions, 2, c->n_layers, c->n_heads);
    hs_arrays_add_floats(arrays, "changes_similarities", c->similarities, 2, c->n_layers, c->n_heads);
    float *target = c->has_target ? hs_arrays_add(arrays, "changes_target", HS_ELEMENT_F4, 1, 2, 0) : NULL;
    for (size_t i = 0; target && i < 2; i++)
        target[i] = (float)c->target[i];
    for (size_t i = 0; i < N_OUTPUTS; i++)
        if (c->of_baseline[i])
            outputs[i].structure->add_arrays(arrays, a, c->of_baseline[i]);
}

static size_t count(const hs__measures *m)
{
    return (m->shape->n_layers + 1) * m->n_tokens + 2 * m->n_heads + 2; /* and the target's two numbers */
}

static size_t json_bytes_max(const hs__measures *m)
{
    size_t of_baseline = 0;
    for (size_t i = 0; i < N_OUTPUTS; i++)
        of_baseline += is_requested(m->analysis, i) ? 32 + outputs[i].structure->json_bytes_max(m) : 0;
    return 192 + count(m) * m->number + 4 * (m->shape->n_layers + 1 + 2 * m->analysis->n_layers) +
           of_baseline;
}

static size_t array_bytes_max(const hs__measures *m)
{
    size_t of_baseline = 0;
    for (size_t i = 0; i < N_OUTPUTS; i++)
        of_baseline += is_requested(m->analysis, i) ? outputs[i].structure->array_bytes_max(m) : 0;
    return 4 * count(m) + of_baseline;
}

const hs__structure hs__structure_changes = {
    .compute = compute,
    .destroy = destroy,
    .write_json = write_json,
    .add_arrays = add_arrays,
    .json_bytes_max = json_bytes_max,
    .array_bytes_max = array_bytes_max,
};
