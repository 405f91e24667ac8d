/* passes_stacks.c - a decoder's pass over a target and the states of a text, both of the same length, on one
 * core:
 *
 *     plain      the encoder's states, then the decoder, keeping nothing of its heads
 *     capture    keeping attention and similarity of all its own heads, or of all its cross heads
 *     analysis   and finding their high-similarity pairs
 *
 * All three are compared with the floor of the complete analysis (hs_measure_decoder_flops). */
#include "engine/analysis/analysis.h"
#include "tests/bench/measure.h"
#include "tests/bench/passes.h"

#include <stdio.h>
#include <stdlib.h>

#define THRESHOLD 0.3F
#define PAIRS_MAX 10000

enum { PLAIN, CAPTURE, ANALYSIS, N_STEPS };
enum { LENGTHS_MAX = 512, ROUNDS = 9, ROUNDS_QUICK = 3 };

typedef struct stacks {
    const hs_engine *encoder, *decoder;
    hs_workspace *encoder_ws, *ws;
    int32_t *ids;
    size_t n_tokens; /* of the text, and of the target */
    bool cross;
} stacks;

/* Runs the decoder over the states in `memory`, keeps its heads if the step says so, and finds pairs. */
static hs_status decoder_pass(const stacks *s, const float *memory, int step, hs_error *err)
{
    hs_selection selection = hs_select_all(hs_engine_shape(s->decoder),
                                           step >= CAPTURE ? HS_KEEP(ATTENTION) | HS_KEEP(SIMILARITY) : 0);
    selection.n_memory = s->cross ? s->n_tokens : 0;
    hs_capture *capture = NULL;
    hs_pair *pairs = NULL;
    size_t n_pairs;
    uint64_t total;
    hs_status st = hs_capture_create(hs_engine_runtime(s->decoder), hs_engine_shape(s->decoder), &selection,
                                     s->n_tokens, &capture, err);
    const hs_sequence target = {.ids = s->ids,
                                .n_tokens = s->n_tokens,
                                .capture = capture,
                                .memory = memory,
                                .n_memory = s->n_tokens};
    if (!st)
        st = hs_engine_compute(s->decoder, s->ws, &target, 1, NULL, NULL, err);
    if (!st && step == ANALYSIS)
        st = hs_pairs_find(capture, HS_TAP_SIMILARITY, NULL, THRESHOLD, PAIRS_MAX, 1, &pairs, &n_pairs,
                           &total, err);
    free(pairs);
    hs_capture_destroy(capture);
    return st;
}

static hs_status both_passes(const stacks *s, int step, double *ret_ms, hs_error *err)
{
    const hs_selection last = {.taps = HS_KEEP(LAST_STATE)};
    hs_capture *states = NULL;
    const double start = hs_clock_ms();
    hs_status st = hs_capture_create(hs_engine_runtime(s->encoder), hs_engine_shape(s->encoder), &last,
                                     s->n_tokens, &states, err);
    const hs_sequence text = {.ids = s->ids, .n_tokens = s->n_tokens, .capture = states};
    if (!st)
        st = hs_engine_compute(s->encoder, s->encoder_ws, &text, 1, NULL, NULL, err);
    if (!st)
        st = decoder_pass(s, states->arrays[HS_TAP_LAST_STATE], step, err);
    hs_capture_destroy(states);
    *ret_ms = hs_clock_ms() - start;
    return st;
}

/* Prints and keeps the medians over the rounds, after one round that warms up. */
static hs_status stack_measure(const stacks *s, size_t n_rounds, json_t *figures, hs_error *err)
{
    const double flops =
        hs_measure_decoder_flops(hs_engine_architecture(s->encoder), hs_engine_architecture(s->decoder),
                                 s->n_tokens, s->n_tokens, s->cross);
    double floors[ROUNDS], ratios[N_STEPS][ROUNDS];
    for (size_t round = 0; round <= n_rounds; round++) {
        const size_t i = round > 0 ? round - 1 : 0;
        floors[i] = 1e3 * flops / hs_measure_peak(hs_engine_runtime(s->decoder), 1, 0.02);
        for (int step = PLAIN; step < N_STEPS; step++) {
            double ms;
            const hs_status st = both_passes(s, step, &ms, err);
            if (st)
                return st;
            ratios[step][i] = ms / floors[i];
        }
    }
    const char *stack = s->cross ? "cross" : "decoder";
    const double plain = median_of(ratios[PLAIN], n_rounds), capture = median_of(ratios[CAPTURE], n_rounds),
                 analysis = median_of(ratios[ANALYSIS], n_rounds), floor_ms = median_of(floors, n_rounds);
    printf("%6zu %9s %9.2f %8.2f %9.2f %10.2f\n", s->n_tokens, stack, floor_ms, plain, capture, analysis);
    fflush(stdout);
    json_t *row =
        json_pack("{s:I, s:s, s:f, s:f, s:f, s:f}", "tokens", (json_int_t)s->n_tokens, "stack", stack,
                  "floor_ms", floor_ms, "plain", plain, "capture", capture, "analysis", analysis);
    return json_array_append_new(figures, row) ? hs_fail(err, HS_NO_MEMORY, "no memory for the figures")
                                               : HS_OK;
}

static hs_status lengths_measure(stacks *s, const bench_subject *subject, json_t *figures, hs_error *err)
{
    static const size_t lengths[] = {32, 128, 512};
    hs_status st = HS_OK;
    printf("%6s %9s %9s %8s %9s %10s\n", "tokens", "stack", "floor ms", "plain x", "capture x", "analysis x");
    for (size_t i = 0; !st && i < sizeof lengths / sizeof *lengths; i++) {
        const bool requested = subject->n_tokens == 0 || lengths[i] == subject->n_tokens;
        if (!requested || lengths[i] > hs_workspace_tokens(s->ws))
            continue;
        s->n_tokens = lengths[i];
        for (int cross = 0; !st && cross < 2; cross++) {
            s->cross = cross == 1;
            st = stack_measure(s, subject->quick ? ROUNDS_QUICK : ROUNDS, figures, err);
        }
    }
    return st;
}

hs_status stacks_measure(const bench_subject *subject, json_t **ret_figures, hs_error *err)
{
    stacks s = {.encoder = subject->engine, .decoder = subject->decoder};
    const size_t n_positions = hs_engine_shape(subject->engine)->n_positions,
                 tokens_max = n_positions < LENGTHS_MAX ? n_positions : LENGTHS_MAX;
    json_t *figures = json_array();
    s.ids = calloc(LENGTHS_MAX, sizeof *s.ids);
    hs_status st = figures && s.ids ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory for the measurements");
    if (st || !s.decoder)
        goto out;
    for (size_t i = 0; i < LENGTHS_MAX; i++)
        s.ids[i] = (int32_t)((i * 7919 + 13) % hs_engine_shape(s.encoder)->vocab_size);
    st = hs_workspace_create(s.encoder, tokens_max, &s.encoder_ws, err);
    if (!st)
        st = hs_workspace_create(s.decoder, tokens_max, &s.ws, err);
    if (!st)
        st = lengths_measure(&s, subject, figures, err);
out:
    if (!st) {
        *ret_figures = figures;
        figures = NULL;
    }
    json_decref(figures);
    free(s.ids);
    hs_workspace_destroy(s.ws);
    hs_workspace_destroy(s.encoder_ws);
    return st;
}
