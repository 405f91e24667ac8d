/* test_flows.c - the maps of flows.h against their formulas as plain loops. */
#include "engine/analysis/flows.h"
#include "engine/kernels/kernels.h"
#include "tests/unit/architecture_reference.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS_MAX = 100, WIDTH_MAX = 24 };

static float random_number(void)
{
    static uint32_t state = 23;
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / 16777216.0F;
}

/* ---- effective attention ---- */

/* Writes a map whose rows sum to 1. */
static void attention_make(size_t T, float *map)
{
    for (size_t i = 0; i < T; i++) {
        float sum = 0;
        for (size_t j = 0; j < T; j++)
            sum += map[i * T + j] = random_number();
        for (size_t j = 0; j < T; j++)
            map[i * T + j] /= sum;
    }
}

/* Computes A V (V'V)^-1 V' of d independent columns by Gaussian elimination. values is [T][ld]. */
static void project(const float *attention, const float *values, size_t T, size_t d, size_t ld, double *ret)
{
    double rows[WIDTH_MAX][WIDTH_MAX + TOKENS_MAX];
    for (size_t a = 0; a < d; a++) {
        for (size_t b = 0; b < d; b++) {
            rows[a][b] = 0;
            for (size_t t = 0; t < T; t++)
                rows[a][b] += (double)values[t * ld + a] * (double)values[t * ld + b];
        }
        for (size_t t = 0; t < T; t++)
            rows[a][d + t] = (double)values[t * ld + a];
    }
    for (size_t p = 0; p < d; p++)
        for (size_t a = 0; a < d; a++) {
            const double factor = a == p ? 0 : rows[a][p] / rows[p][p];
            for (size_t k = 0; k < d + T; k++)
                rows[a][k] -= factor * rows[p][k];
        }
    for (size_t i = 0; i < T; i++)
        for (size_t j = 0; j < T; j++) {
            ret[i * T + j] = 0;
            for (size_t a = 0; a < d; a++) {
                double weight = 0;
                for (size_t t = 0; t < T; t++)
                    weight += (double)attention[i * T + t] * (double)values[t * ld + a];
                ret[i * T + j] += weight * rows[a][d + j] / rows[a][a];
            }
        }
}

/* Runs it in scratch of just the bytes that it asks for. */
static void effective_run(const float *attention, const float *values, size_t T, size_t d, float *ret)
{
    const size_t bytes = hs_effective_attention_bytes(T, d), held = (bytes / 64 + 2) * 64;
    unsigned char *scratch = aligned_alloc(64, held);
    memset(scratch, 0xa5, held);
    hs_effective_attention(attention, values, T, T, d, scratch, ret);
    for (size_t k = bytes; k < held; k++)
        ck_assert_uint_eq(scratch[k], 0xa5);
    free(scratch);
}

/* Tokens, columns of V, and how many of them are independent: the others are sums of two before them. */
static const struct {
    size_t T, d, rank;
} value_cases[] = {{1, 1, 1},    {2, 1, 1},   {5, 3, 3},   {5, 3, 2},   {17, 8, 8},
                   {31, 20, 20}, {31, 20, 9}, {64, 24, 5}, {100, 7, 7}, {9, 8, 8}};

START_TEST(effective_attention_is_a_projection)
{
    const size_t T = value_cases[_i].T, d = value_cases[_i].d, rank = value_cases[_i].rank;
    float attention[TOKENS_MAX * TOKENS_MAX], values[TOKENS_MAX * WIDTH_MAX];
    static float effective[TOKENS_MAX * TOKENS_MAX];
    static double expected[TOKENS_MAX * TOKENS_MAX];
    attention_make(T, attention);
    for (size_t t = 0; t < T; t++)
        for (size_t c = 0; c < d; c++)
            values[t * d + c] = c < rank ? (random_number() - 0.5F) * (float)(1 + c)
                                         : values[t * d + c - rank] + values[t * d + c - 1];
    effective_run(attention, values, T, d, effective);
    project(attention, values, T, rank, d, expected);
    for (size_t k = 0; k < T * T; k++)
        ck_assert_double_eq_tol((double)effective[k], expected[k], 3e-6);
}
END_TEST

/* As many independent columns as tokens, or more: the result is A. None: 0. */
START_TEST(effective_attention_of_full_and_empty_values)
{
    enum { T = 6, D = 9 };
    float attention[T * T], values[T * D], effective[T * T];
    attention_make(T, attention);
    for (size_t width = T; width <= D; width += D - T) {
        for (size_t k = 0; k < T * width; k++)
            values[k] = random_number() - 0.5F;
        effective_run(attention, values, T, width, effective);
        for (size_t k = 0; k < (size_t)T * T; k++)
            ck_assert_float_eq_tol(effective[k], attention[k], 3e-6F);
    }
    memset(values, 0, sizeof values);
    effective_run(attention, values, T, D, effective);
    for (size_t k = 0; k < (size_t)T * T; k++)
        ck_assert_float_eq(effective[k], 0);
}
END_TEST

/* A column counts from 1e-6 of the longest one on. */
START_TEST(short_columns_count_by_their_length)
{
    const float attention[] = {0.5F, 0.5F, 0.25F, 0.75F};
    for (int counts = 0; counts < 2; counts++) {
        const float values[] = {1, 0, 0, counts ? 4e-6F : 4e-7F};
        float effective[4];
        effective_run(attention, values, 2, 2, effective);
        for (size_t k = 0; k < 4; k++)
            ck_assert_float_eq_tol(effective[k], k % 2 && !counts ? 0 : attention[k], 1e-7F);
    }
}
END_TEST

/* ---- rollout ---- */

START_TEST(means_and_weights_of_rollout)
{
    enum { T = 5 };
    float maps[7 * T * T], mean[T * T + 1];
    mean[T * T] = 42;
    for (size_t n = 1; n <= 7; n++) {
        for (size_t k = 0; k < n * T * T; k++)
            maps[k] = random_number();
        hs_attention_mean(maps, n, T * T, mean);
        for (size_t k = 0; k < (size_t)T * T; k++) {
            double sum = 0;
            for (size_t h = 0; h < n; h++)
                sum += (double)maps[h * T * T + k];
            ck_assert_double_eq_tol((double)mean[k], sum / (double)n, 1e-6);
        }
    }
    memcpy(maps, mean, sizeof mean); /* with the number behind the map */
    hs_rollout_weights(maps, T);
    for (size_t k = 0; k < (size_t)T * T; k++)
        ck_assert_float_eq(maps[k], mean[k] / 2 + (k % (T + 1) == 0 ? 0.5F : 0));
    ck_assert(maps[T * T] == 42 && mean[T * T] == 42);
}
END_TEST

static const size_t lengths[] = {1, 2, 47, 48, 49, 96, TOKENS_MAX};

START_TEST(a_step_is_a_product)
{
    const size_t T = lengths[_i], n = hs_flow_scratch_floats(T);
    static float map[TOKENS_MAX * TOKENS_MAX], before[TOKENS_MAX * TOKENS_MAX],
        after[TOKENS_MAX * TOKENS_MAX + 1];
    hs_runtime *runtime = NULL;
    float *scratch = aligned_alloc(64, (n / 16 + 2) * 64);
    attention_make(T, map);
    attention_make(T, before);
    ck_assert_int_eq(hs_runtime_create(3, &runtime, NULL), HS_OK);
    scratch[n] = after[T * T] = 42;
    for (size_t n_threads = 1; n_threads <= 3; n_threads++) {
        hs_flow_step(runtime, n_threads, map, NULL, T, scratch, after);
        ck_assert_mem_eq(after, map, T * T * sizeof *map);
        hs_flow_step(runtime, n_threads, map, before, T, scratch, after);
        for (size_t i = 0; i < T; i++)
            for (size_t j = 0; j < T; j++) {
                double sum = 0;
                for (size_t k = 0; k < T; k++)
                    sum += (double)map[i * T + k] * (double)before[k * T + j];
                ck_assert_double_eq_tol((double)after[i * T + j], sum, 1e-6);
            }
    }
    ck_assert_float_eq(scratch[n], 42);
    ck_assert_float_eq(after[T * T], 42);
    hs_runtime_destroy(runtime);
    free(scratch);
}
END_TEST

/* ---- of a pass ---- */

enum { T = 19, LAYERS = 3, HEADS = 3, D = 7, H = HEADS * D, THREADS = 2 };

static const hs_shape shape = {LAYERS, HEADS, H, D, 30, 40, 2, 20, 0};
static hs_runtime *runtime;
static hs_engine *engine;
static int32_t ids[T];

/* Norms after the blocks; before them, causal; before them, with norms of what is added: by mean and
 * deviation, by the root of the mean square. */
enum { AFTER, BEFORE, ADDED, ADDED_RMS, N_KINDS };

static hs_architecture architecture_make(int kind)
{
    hs_architecture a = random_architecture(&shape, H);
    a.norms_before = kind != AFTER;
    a.causal = kind == BEFORE;
    if (kind != AFTER)
        a.final_norm = random_norm(H);
    for (size_t l = 0; l < LAYERS && kind >= ADDED; l++) {
        a.layers[l].attention_out_norm = random_norm(H);
        a.layers[l].ffn_out_norm = random_norm(H);
    }
    if (kind == ADDED_RMS) {
        a.norm_kind = HS_NORM_RMS;
        a.norm_eps = 0.01F;
    }
    return a;
}

static void engine_make(const hs_architecture *architecture)
{
    hs_error err = {0};
    ck_assert_int_eq(hs_runtime_create(THREADS, &runtime, NULL), HS_OK);
    ck_assert_msg(!hs_engine_create(runtime, architecture, &(hs_engine_options){0}, &engine, &err), "%s",
                  err.text);
    for (size_t i = 0; i < T; i++)
        ids[i] = (int32_t)((i * 7 + i * i) % 20);
}

static void engine_free(void)
{
    hs_engine_destroy(engine);
    hs_runtime_destroy(runtime);
    random_architecture_free();
}

static hs_capture *pass(unsigned taps, const hs_intervention *interventions, size_t n)
{
    const hs_selection all = hs_select_all(&shape, taps);
    hs_sequence text = {.ids = ids, .n_tokens = T, .interventions = interventions, .n_interventions = n};
    hs_error err = {0};
    hs_workspace *ws = NULL;
    ck_assert_int_eq(hs_capture_create(runtime, &shape, &all, T, &text.capture, NULL), HS_OK);
    ck_assert_int_eq(hs_workspace_create(engine, T, &ws, NULL), HS_OK);
    ck_assert_msg(!hs_engine_compute(engine, ws, &text, 1, NULL, NULL, &err), "%s", err.text);
    hs_workspace_destroy(ws);
    return text.capture;
}

static const float *floats(const hs_tensor *tensor)
{
    return tensor->data;
}

/* Adds factor x W_O, x [D] of head h, to sums [H]. */
static void write_add(const hs_layer *layer, size_t h, double factor, const float *x, double *sums)
{
    for (size_t c = 0; c < H; c++)
        for (size_t k = 0; k < D; k++)
            sums[c] += factor * (double)x[k] * (double)floats(&layer->output.weight)[c * H + h * D + k];
}

/* Replaces x by what a norm makes of it if its deviation were that of `of`; with `whole`, also its beta. */
static void norm_apply(const hs_architecture *a, const hs_norm *norm, const double *of, bool whole, double *x)
{
    const bool rms = a->norm_kind == HS_NORM_RMS;
    double mean = 0, mean_of = 0, squares = 0;
    for (size_t c = 0; c < H && !rms; c++) {
        mean += x[c] / H;
        mean_of += of[c] / H;
    }
    for (size_t c = 0; c < H; c++)
        squares += (of[c] - mean_of) * (of[c] - mean_of);
    const double scale = 1 / sqrt(squares / H + (double)a->norm_eps);
    for (size_t c = 0; c < H; c++)
        x[c] = (x[c] - mean) * scale * (double)floats(&norm->gamma)[c] +
               (whole ? (double)floats(&norm->beta)[c] : 0);
}

static double length(const double *x, const double *less)
{
    double sum = 0;
    for (size_t c = 0; c < H; c++)
        sum += fabs(x[c] - less[c]);
    return sum;
}

/* Computes row i of C by the formulas of flows.h. */
static void naive_contributions(const hs_architecture *a, const hs_capture *capture, size_t l, size_t i,
                                double ret[T])
{
    static const double zeros[H];
    const hs_layer *layer = &a->layers[l];
    const hs_norm *norm = a->norms_before ? &layer->attention_out_norm : &layer->attention_norm;
    const float *x = hs_capture_at(capture, HS_TAP_EVERY_STATE, l, 0) + i * H;
    double added[H], y[H], total = 0;
    for (size_t c = 0; c < H; c++)
        added[c] = (double)floats(&layer->output.bias)[c] + (a->norms_before ? 0 : (double)x[c]);
    for (size_t h = 0; h < HEADS; h++)
        write_add(layer, h, 1, hs_capture_at(capture, HS_TAP_HEAD_OUTPUT, l, h) + i * D, added);
    memcpy(y, added, sizeof y);
    if (norm->gamma.data)
        norm_apply(a, norm, added, true, y);
    for (size_t c = 0; c < H; c++)
        y[c] += a->norms_before ? (double)x[c] : 0;
    for (size_t j = 0; j < T; j++) {
        double part[H] = {0};
        for (size_t h = 0; h < HEADS; h++)
            write_add(layer, h, (double)hs_capture_at(capture, HS_TAP_ATTENTION, l, h)[i * T + j],
                      hs_capture_at(capture, HS_TAP_VALUE, l, h) + j * D, part);
        for (size_t c = 0; c < H && i == j && !a->norms_before; c++)
            part[c] += (double)x[c];
        if (norm->gamma.data)
            norm_apply(a, norm, added, false, part);
        for (size_t c = 0; c < H && i == j && a->norms_before; c++)
            part[c] += (double)x[c];
        ret[j] = fmax(0, length(y, zeros) - length(y, part));
        total += ret[j];
    }
    for (size_t j = 0; j < T; j++)
        ret[j] /= total;
}

START_TEST(contributions_are_those_of_the_formulas)
{
    const hs_architecture architecture = architecture_make(_i);
    engine_make(&architecture);
    hs_capture *capture = pass(HS_CONTRIBUTIONS_TAPS, NULL, 0);
    for (size_t l = 0; l < LAYERS; l++)
        for (size_t n_threads = 1; n_threads <= THREADS; n_threads++) {
            float map[T * T];
            double expected[T];
            ck_assert_int_eq(hs_contributions_compute(engine, n_threads, capture, l, map, NULL), HS_OK);
            for (size_t i = 0; i < T; i++) {
                naive_contributions(&architecture, capture, l, i, expected);
                for (size_t j = 0; j < T; j++)
                    ck_assert_double_eq_tol((double)map[i * T + j], expected[j], 1e-5);
            }
        }
    hs_capture_destroy(capture);
    engine_free();
}
END_TEST

/* Writes Z of a layer, from passes in which O - A[:,j] v_j replaces O of all its heads. */
static void naive_zeroing(const hs_capture *capture, uint16_t layer, bool causal, double *ret)
{
    const hs_intervention patch = {.layers = &layer,
                                   .n_layers = 1,
                                   .heads = hs_all_numbers,
                                   .n_heads = HEADS,
                                   .kind = HS_INTERVENE_PATCH};
    for (size_t j = 0; j < T; j++) {
        hs_capture *other = pass(HS_KEEP(HEAD_OUTPUT), NULL, 0);
        const hs_sequence from = {.ids = ids, .n_tokens = T, .capture = other};
        hs_intervention patched = patch;
        patched.from = &from;
        for (size_t h = 0; h < HEADS; h++)
            for (size_t k = 0; k < (size_t)T * D; k++)
                hs_capture_at(other, HS_TAP_HEAD_OUTPUT, layer, h)[k] -=
                    hs_capture_at(capture, HS_TAP_ATTENTION, layer, h)[k / D * T + j] *
                    hs_capture_at(capture, HS_TAP_VALUE, layer, h)[j * D + k % D];
        hs_capture *changed = pass(HS_KEEP(EVERY_STATE), &patched, 1);
        const float *y = hs_capture_at(capture, HS_TAP_EVERY_STATE, layer + 1U, 0),
                    *z = hs_capture_at(changed, HS_TAP_EVERY_STATE, layer + 1U, 0);
        for (size_t i = 0; i < T; i++) {
            double yz = 0, yy = 0, zz = 0;
            for (size_t c = i * H; c < (i + 1) * H; c++) {
                yz += (double)y[c] * (double)z[c];
                yy += (double)y[c] * (double)y[c];
                zz += (double)z[c] * (double)z[c];
            }
            ret[i * T + j] = causal && j > i ? 0 : fmax(0, 1 - yz / sqrt(yy * zz));
        }
        hs_capture_destroy(changed);
        hs_capture_destroy(other);
    }
    for (size_t i = 0; i < T; i++) {
        double sum = 0;
        for (size_t j = 0; j < T; j++)
            sum += ret[i * T + j];
        for (size_t j = 0; j < T; j++)
            ret[i * T + j] /= sum;
    }
}

START_TEST(value_zeroing_is_that_of_patched_passes)
{
    static const uint16_t layers[] = {0, 2};
    const hs_architecture architecture = architecture_make(_i);
    engine_make(&architecture);
    hs_capture *capture = pass(HS_VALUE_ZEROING_TAPS, NULL, 0);
    const hs_sequence text = {.ids = ids, .n_tokens = T, .capture = capture};
    /* one variant a pass; a few; all of them */
    for (size_t n_passes = 1; n_passes <= 40; n_passes += n_passes == 1 ? 3 : 36) {
        hs_workspace *ws = NULL;
        float maps[2][T * T];
        double expected[T * T];
        ck_assert_int_eq(hs_workspace_create(engine, n_passes * T, &ws, NULL), HS_OK);
        ck_assert_int_eq(hs_value_zeroing_compute(engine, ws, &text, layers, 2,
                                                  &(hs_run_control){.n_threads = THREADS}, *maps, NULL),
                         HS_OK);
        hs_workspace_destroy(ws);
        for (size_t l = 0; l < 2; l++) {
            naive_zeroing(capture, layers[l], architecture.causal, expected);
            for (size_t k = 0; k < (size_t)T * T; k++)
                ck_assert_double_eq_tol((double)maps[l][k], expected[k], 2e-4);
        }
    }
    hs_capture_destroy(capture);
    engine_free();
}
END_TEST

/* Floats up to the end of a cache line. */
static size_t whole_lines(size_t n)
{
    return (n + 15) / 16 * 16;
}

/* Returns the bytes that a call allocates for n variants. It holds the states that their heads write, and
 * captures of two states. W_O is there as stored and in panels. The last part is what it makes of values. */
static size_t zeroing_bytes(size_t n, size_t n_tokens)
{
    const size_t panels = hs__panels_floats(hs__kernels_select(), D, H);
    return (whole_lines(n_tokens * H) + whole_lines(n * n_tokens * H) + n * 2 * n_tokens * H +
            whole_lines((size_t)H * HEADS * D) + whole_lines(HEADS * panels) + whole_lines(n * HEADS * H)) *
           sizeof(float);
}

START_TEST(value_zeroing_states_its_bytes)
{
    const hs_architecture architecture = architecture_make(AFTER);
    engine_make(&architecture);
    /* the longest text has 40 tokens: a workspace for it holds three variants of 13 */
    ck_assert_uint_eq(hs_value_zeroing_bytes(engine, 13, 13), zeroing_bytes(3, 13));
    ck_assert_uint_eq(hs_value_zeroing_bytes(engine, 40, 40), zeroing_bytes(1, 40));
    engine_free();
}
END_TEST

#define LOOP(test, cases) tcase_add_loop_test(tc, test, 0, (int)(sizeof(cases) / sizeof *(cases)))

int main(void)
{
    Suite *suite = suite_create("flows");
    TCase *tc = tcase_create("all");
    LOOP(effective_attention_is_a_projection, value_cases);
    tcase_add_test(tc, effective_attention_of_full_and_empty_values);
    tcase_add_test(tc, short_columns_count_by_their_length);
    tcase_add_test(tc, means_and_weights_of_rollout);
    LOOP(a_step_is_a_product, lengths);
    tcase_add_loop_test(tc, contributions_are_those_of_the_formulas, 0, N_KINDS);
    tcase_add_loop_test(tc, value_zeroing_is_that_of_patched_passes, 0, 2);
    tcase_add_test(tc, value_zeroing_states_its_bytes);
    suite_add_tcase(suite, tc);
    return tests_run(suite);
}
