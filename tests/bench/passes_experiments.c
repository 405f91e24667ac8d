/* passes_experiments.c - the cost of experiments next to a whole pass of a text, which keeps every map and
 * the last state:
 *
 *     predictions  of 5 positions, top 5
 *     lens         of one position, after every layer
 *     norms        the pass, and what each head would write into each token's state
 *     residual     the pass, with similarities in the residual space instead
 *     centred      the pass, with similarities of centred outputs instead
 *     effects      every head switched off alone
 *     alti         contributions of tokens in every layer, and their products
 *     effective    the effective attention of every head
 *
 * It counts the CPU time of one core, which other programs change little. A round runs the pass before and
 * after each step, and ratios are taken within a round. */
#include "engine/analysis/effects.h"
#include "engine/analysis/flows.h"
#include "engine/analysis/predictions.h"
#include "model/base/memory.h"
#include "tests/bench/passes.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { TOKENS = 128, POSITIONS = 5, TOP = 5, ROUNDS_MAX = 5 };
enum { PREDICTIONS, LENS, NORMS, RESIDUAL, CENTRED, EFFECTS, ALTI, EFFECTIVE, N_STEPS };
static const char *const names[N_STEPS] = {
    [PREDICTIONS] = "predictions", [LENS] = "lens",       [NORMS] = "norms", [RESIDUAL] = "residual",
    [CENTRED] = "centred",         [EFFECTS] = "effects", [ALTI] = "alti",   [EFFECTIVE] = "effective"};

typedef struct experiment {
    const hs_engine *engine;
    hs_workspace *ws;
    size_t T;
    int32_t ids[TOKENS];
    hs_capture *baseline; /* that effects, contributions and effective attention read */
    float *states, *logits;
    float *maps; /* three maps, and the scratch of a flow or of effective attention */
    double ratios[N_STEPS][ROUNDS_MAX];
    size_t n_rounds;
} experiment;

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static hs_status pass(const experiment *e, unsigned taps, hs_capture **ret_capture, hs_error *err)
{
    const hs_shape *shape = hs_engine_shape(e->engine);
    const hs_selection all = hs_select_all(shape, taps);
    hs_sequence sequence = {.ids = e->ids, .n_tokens = e->T};
    hs_status st = hs_capture_create(hs_engine_runtime(e->engine), shape, &all, e->T, &sequence.capture, err);
    if (!st)
        st = hs_engine_compute(e->engine, e->ws, &sequence, 1, NULL, NULL, err);
    *ret_capture = sequence.capture;
    return st;
}

static hs_status predict(const experiment *e, size_t n_states, size_t n_inner, hs_error *err)
{
    const size_t V = hs_engine_shape(e->engine)->vocab_size;
    const hs_status st = hs_engine_predict(e->engine, e->states, n_states, n_inner, 1, e->logits, err);
    for (size_t i = 0; i < n_states && !st; i++) {
        hs_prediction prediction;
        hs_prediction_read(e->logits + i * V, V, e->ids[i], TOP, &prediction);
    }
    return st;
}

static hs_status effects(const experiment *e, hs_error *err)
{
    const hs_shape *shape = hs_engine_shape(e->engine);
    const hs_sequence baseline = {.ids = e->ids, .n_tokens = e->T, .capture = e->baseline};
    const hs_effects_options options = {.baseline = &baseline,
                                        .layers = hs_all_numbers,
                                        .heads = hs_all_numbers,
                                        .n_layers = shape->n_layers,
                                        .n_heads = shape->n_heads,
                                        .mask_id = -1};
    hs_effect *ret = malloc(shape->n_layers * shape->n_heads * sizeof *ret);
    const hs_status st = ret ? hs_effects_compute(e->engine, e->ws, &options, &(hs_run_control){0}, ret, err)
                             : hs_fail(err, HS_NO_MEMORY, "no memory for effects");
    free(ret);
    return st;
}

static hs_status alti(const experiment *e, hs_error *err)
{
    const size_t n = e->T * e->T;
    hs_status st = HS_OK;
    for (size_t l = 0; l < hs_engine_shape(e->engine)->n_layers && !st; l++) {
        float *before = e->maps + (1 + l % 2) * n, *after = e->maps + (2 - l % 2) * n;
        st = hs_contributions_compute(e->engine, 1, e->baseline, l, e->maps, err);
        if (!st)
            hs_flow_step(hs_engine_runtime(e->engine), 1, e->maps, l ? before : NULL, e->T, e->maps + 3 * n,
                         after);
    }
    return st;
}

static hs_status effective(const experiment *e)
{
    const hs_shape *shape = hs_engine_shape(e->engine);
    for (size_t l = 0; l < shape->n_layers; l++)
        for (size_t h = 0; h < shape->n_heads; h++)
            hs_effective_attention(hs_capture_at(e->baseline, HS_TAP_ATTENTION, l, h),
                                   hs_capture_at(e->baseline, HS_TAP_VALUE, l, h), e->T, e->T,
                                   shape->head_width, e->maps + 3 * e->T * e->T, e->maps);
    return HS_OK;
}

#define WHOLE (HS_KEEP(ATTENTION) | HS_KEEP(SIMILARITY) | HS_KEEP(LAST_STATE))

static hs_status step_run(const experiment *e, int step, double *ret_seconds, hs_error *err)
{
    static const unsigned taps[N_STEPS] = {
        [NORMS] = WHOLE | HS_KEEP(VALUE_NORMS),
        [RESIDUAL] = (WHOLE & ~HS_KEEP(SIMILARITY)) | HS_KEEP(RESIDUAL_SIMILARITY),
        [CENTRED] = (WHOLE & ~HS_KEEP(SIMILARITY)) | HS_KEEP(CENTERED_SIMILARITY),
    };
    const size_t depth = hs_engine_shape(e->engine)->n_layers;
    const double start = cpu_seconds();
    hs_capture *capture = NULL;
    const hs_status st = step == PREDICTIONS ? predict(e, POSITIONS, 0, err)
                         : step == LENS      ? predict(e, depth + 1, depth, err)
                         : step == EFFECTS   ? effects(e, err)
                         : step == ALTI      ? alti(e, err)
                         : step == EFFECTIVE ? effective(e)
                                             : pass(e, step < 0 ? WHOLE : taps[step], &capture, err);
    hs_capture_destroy(capture);
    *ret_seconds = cpu_seconds() - start;
    return st;
}

static bool is_left_out(const experiment *e, int step)
{
    return (step == PREDICTIONS || step == LENS) &&
           !hs_engine_architecture(e->engine)->predictor.decoder.data;
}

static hs_status round_run(experiment *e, hs_error *err)
{
    double before, seconds = 0, after = 0;
    hs_status st = step_run(e, -1, &before, err);
    for (int step = 0; step < N_STEPS && !st; step++) {
        st = is_left_out(e, step) ? HS_OK : step_run(e, step, &seconds, err);
        if (!st)
            st = step_run(e, -1, &after, err);
        e->ratios[step][e->n_rounds] = seconds / ((before + after) / 2);
        before = after;
    }
    e->n_rounds++;
    return st;
}

/* Returns true for a step that is a whole pass; only what it adds is printed. */
static bool is_pass(int step)
{
    return step == NORMS || step == RESIDUAL || step == CENTRED;
}

/* Prints what passes with other arrays add to the pass, and the time of the other steps. */
static json_t *tell(experiment *e)
{
    json_t *figures = json_object();
    printf("%zu tokens, one core, CPU time in passes:", e->T);
    for (int step = 0; step < N_STEPS; step++) {
        if (is_left_out(e, step))
            continue;
        const double median = median_of(e->ratios[step], e->n_rounds);
        const double passes = is_pass(step) ? median - 1 : median;
        json_object_set_new(figures, names[step], json_real(passes));
        printf(" %s %.*f", names[step], step == EFFECTS ? 1 : 4, passes);
    }
    printf("\n");
    return figures;
}

static hs_status experiment_init(experiment *e, const hs_engine *engine, hs_error *err)
{
    const hs_shape *shape = hs_engine_shape(engine);
    const size_t n_states = shape->n_layers + POSITIONS;
    e->engine = engine;
    e->T = shape->n_positions < TOKENS ? shape->n_positions : TOKENS;
    for (size_t i = 0; i < TOKENS; i++)
        e->ids[i] = (int32_t)((i * 7919 + 13) % (shape->vocab_size < 1000 ? shape->vocab_size : 1000));
    e->states = calloc(n_states * shape->hidden, sizeof *e->states);
    e->logits = malloc(n_states * shape->vocab_size * sizeof *e->logits);
    e->maps = hs_memory_create((3 * e->T * e->T + hs_flow_scratch_floats(e->T)) * sizeof *e->maps +
                               hs_effective_attention_bytes(e->T, shape->head_width));
    if (!e->states || !e->logits || !e->maps)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the measurements");
    const hs_status st = hs_workspace_create(engine, shape->n_positions, &e->ws, err);
    return st ? st : pass(e, HS_KEEP(SIMILARITY) | HS_CONTRIBUTIONS_TAPS, &e->baseline, err);
}

static void experiment_finish(experiment *e)
{
    hs_capture_destroy(e->baseline);
    hs_workspace_destroy(e->ws);
    free(e->maps);
    free(e->logits);
    free(e->states);
}

hs_status experiments_measure(const bench_subject *subject, json_t **ret_figures, hs_error *err)
{
    const size_t n_rounds = subject->quick ? 3 : ROUNDS_MAX;
    experiment *e = calloc(1, sizeof *e);
    if (!e)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the measurements");
    hs_status st = experiment_init(e, subject->engine, err);
    while (!st && e->n_rounds < n_rounds)
        st = round_run(e, err);
    if (!st)
        *ret_figures = tell(e);
    experiment_finish(e);
    free(e);
    return st;
}
