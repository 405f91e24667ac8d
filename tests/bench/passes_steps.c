/* passes_steps.c - one text's pass in steps of growing work, each beside the floor:
 *
 *     products   the matrix products with weights, nothing between them
 *     plain      the pass, keeping nothing
 *     capture    keeping every head's attention and similarity
 *     analysis   and finding their high-similarity pairs
 *
 * All four do the same products. A round runs the peak, then the four; ratios are taken within a round. */
#include "engine/analysis/analysis.h"
#include "tests/bench/measure.h"
#include "tests/bench/passes.h"

#include <stdio.h>
#include <stdlib.h>

#define THRESHOLD 0.3F
#define PAIRS_MAX 10000

enum { PRODUCTS, PLAIN, CAPTURE, ANALYSIS, N_STEPS };
static const char *const step_names[N_STEPS] = {"products", "plain", "capture", "analysis"};

enum { ROUNDS_MIN_QUICK = 3, ROUNDS_MIN = 7, ROUNDS_MAX = 25, TOKENS_MAX = 512 };

/* Times of one length on some cores, by round. */
typedef struct rounds {
    size_t n, n_tokens, n_cores;
    double peak[ROUNDS_MAX]; /* operations a second */
    double ms[N_STEPS][ROUNDS_MAX];
} rounds;

typedef struct bench {
    const hs_engine *engine;
    hs_workspace *ws;
    int32_t ids[TOKENS_MAX];
} bench;

/* A plain pass goes as far as the last layer's heads too, but nothing is kept of them. */
static hs_selection select_all(const bench *b, bool keep)
{
    return hs_select_all(hs_engine_shape(b->engine), keep ? HS_KEEP(ATTENTION) | HS_KEEP(SIMILARITY) : 0);
}

/* Memory for what is kept is taken and given back within the time, as for every request. */
static hs_status run_pass(bench *b, size_t n_tokens, size_t n_threads, int step, double *ret_ms,
                          hs_error *err)
{
    const hs_selection selection = select_all(b, step >= CAPTURE);
    const hs_run_control control = {.n_threads = n_threads};
    hs_capture *capture = NULL;
    hs_pair *pairs = NULL;
    size_t n_pairs;
    uint64_t total;
    const double start = hs_clock_ms();
    hs_status st = hs_capture_create(hs_engine_runtime(b->engine), hs_engine_shape(b->engine), &selection,
                                     n_tokens, &capture, err);
    const hs_sequence sequence = {.ids = b->ids, .n_tokens = n_tokens, .capture = capture};
    if (!st)
        st = hs_engine_compute(b->engine, b->ws, &sequence, 1, NULL, &control, err);
    if (!st && step == ANALYSIS)
        st = hs_pairs_find(capture, HS_TAP_SIMILARITY, NULL, THRESHOLD, PAIRS_MAX, n_threads, &pairs,
                           &n_pairs, &total, err);
    free(pairs);
    hs_capture_destroy(capture);
    *ret_ms = hs_clock_ms() - start;
    return st;
}

static hs_status run_round(bench *b, rounds *r, hs_error *err)
{
    const size_t i = r->n++;
    r->peak[i] = hs_measure_peak(hs_engine_runtime(b->engine), r->n_cores, 0.02);
    for (int step = PLAIN; step < N_STEPS; step++) {
        const hs_status st = run_pass(b, r->n_tokens, r->n_cores, step, &r->ms[step][i], err);
        if (st)
            return st;
    }
    r->ms[PRODUCTS][i] = 1e3 * hs_measure_products(b->engine, b->ws, r->n_tokens, r->n_cores);
    return HS_OK;
}

/* Rounds until the time is up, after one that warms up. */
static hs_status run_rounds(bench *b, rounds *r, bool quick, hs_error *err)
{
    const size_t n_min = quick ? ROUNDS_MIN_QUICK : ROUNDS_MIN;
    const double budget_ms = quick ? 200 : 2000;
    hs_status st = run_round(b, r, err);
    const double start = hs_clock_ms();
    r->n = 0;
    while (!st && r->n < ROUNDS_MAX && (r->n < n_min || hs_clock_ms() - start < budget_ms))
        st = run_round(b, r, err);
    return st;
}

/* Returns the time of a step as a multiple of the floor. */
static double over_floor(const rounds *r, int step, double flops)
{
    double ratios[ROUNDS_MAX];
    for (size_t i = 0; i < r->n; i++)
        ratios[i] = r->ms[step][i] / (1e3 * flops / r->peak[i]);
    return median_of(ratios, r->n);
}

/* Returns the rate of the matrix products with weights, relative to the machine's peak. */
static double peak_share(const rounds *r, double product_flops)
{
    double shares[ROUNDS_MAX];
    for (size_t i = 0; i < r->n; i++)
        shares[i] = 1e3 * product_flops / r->ms[PRODUCTS][i] / r->peak[i];
    return median_of(shares, r->n);
}

/* By how much of the plain pass capture and analysis lengthen it. */
static double added_share(const rounds *r)
{
    double shares[ROUNDS_MAX];
    for (size_t i = 0; i < r->n; i++)
        shares[i] = r->ms[ANALYSIS][i] / r->ms[PLAIN][i] - 1;
    return median_of(shares, r->n);
}

static json_t *rounds_tell(rounds *r, const hs_architecture *architecture)
{
    const double flops = hs_measure_flops(architecture, r->n_tokens);
    /* Ratios first: a median sorts its rounds. */
    double ratios[N_STEPS];
    for (int step = 0; step < N_STEPS; step++)
        ratios[step] = over_floor(r, step, flops);
    const double of_peak = peak_share(r, hs_measure_product_flops(architecture, r->n_tokens));
    const double share = added_share(r), peak = median_of(r->peak, r->n), floor_ms = 1e3 * flops / peak;
    printf("%6zu %5zu %9.1f %9.2f", r->n_tokens, r->n_cores, peak / 1e9, floor_ms);
    json_t *figures =
        json_pack("{s:I, s:I, s:I, s:f, s:f, s:f, s:f}", "tokens", (json_int_t)r->n_tokens, "cores",
                  (json_int_t)r->n_cores, "rounds", (json_int_t)r->n, "peak_gflops", peak / 1e9, "floor_ms",
                  floor_ms, "added_share", share, "products_of_peak", of_peak);
    for (int step = 0; step < N_STEPS; step++) {
        const double ms = median_of(r->ms[step], r->n);
        json_object_set_new(figures, step_names[step],
                            json_pack("{s:f, s:f}", "ms", ms, "over_floor", ratios[step]));
        printf(" %9.2f %5.2f", ms, ratios[step]);
        if (step == PRODUCTS)
            printf(" %5.0f %%", 100 * of_peak);
    }
    printf(" %+6.1f %%\n", 100 * share);
    fflush(stdout);
    return figures;
}

static hs_status measure(bench *b, const bench_subject *subject, json_t *figures, hs_error *err)
{
    static const size_t lengths[] = {16, 32, 64, 128, 256, 512};
    const hs_shape *shape = hs_engine_shape(b->engine);
    printf("%6s %5s %9s %9s %15s %7s %15s %15s %15s %8s\n", "tokens", "cores", "GFLOP/s", "floor ms",
           "products ms   x", "of peak", "plain ms   x", "capture ms   x", "analysis ms   x", "added");
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const bool is_requested =
            subject->n_tokens ? lengths[i] == subject->n_tokens : !subject->quick || i % 2 == 1;
        const bool left_out = lengths[i] > shape->n_positions || !is_requested;
        for (size_t n_cores = 1; !left_out; n_cores = subject->n_cores) {
            rounds r = {.n_tokens = lengths[i], .n_cores = n_cores};
            const hs_status st = run_rounds(b, &r, subject->quick, err);
            if (st)
                return st;
            json_array_append_new(figures, rounds_tell(&r, hs_engine_architecture(b->engine)));
            if (n_cores == subject->n_cores)
                break;
        }
    }
    return HS_OK;
}

hs_status passes_measure(const bench_subject *subject, json_t **ret_figures, hs_error *err)
{
    bench *b = calloc(1, sizeof *b);
    json_t *figures = json_array();
    hs_status st = HS_NO_MEMORY;
    if (!b || !figures) {
        hs_fail(err, st, "no memory for the measurements");
        goto out;
    }
    b->engine = subject->engine;
    const hs_shape *shape = hs_engine_shape(b->engine);
    for (size_t i = 0; i < TOKENS_MAX; i++)
        b->ids[i] = (int32_t)((i * 7919 + 13) % (shape->vocab_size < 1000 ? shape->vocab_size : 1000));
    st = hs_workspace_create(b->engine, shape->n_positions < TOKENS_MAX ? shape->n_positions : TOKENS_MAX,
                             &b->ws, err);
    if (!st)
        st = measure(b, subject, figures, err);
    if (!st) {
        *ret_figures = figures;
        figures = NULL;
    }
out:
    if (b)
        hs_workspace_destroy(b->ws);
    free(b);
    json_decref(figures);
    return st;
}
