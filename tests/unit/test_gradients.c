/* test_gradients.c - backward passes against finite differences of the loops over doubles
 * (architecture_reference.h), and what must hold of gradients. */
#include "engine/analysis/attribution.h"
#include "engine/kernels/kernels.h"
#include "engine/pass/tape.h"
#include "engine/pass/team.h"
#include "tests/unit/chaos.h"
#include "tests/unit/random_architectures.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 3, WEIGHTS = 1 << 18 };

static hs_runtime *runtime;
static int32_t ids[RANDOM_TOKENS_MAX];
static uint8_t types[RANDOM_TOKENS_MAX];
static float numbers[WEIGHTS]; /* of the sum of last states that is differentiated, and directions */

static void setup(void)
{
    uint32_t state = 5;
    ck_assert_int_eq(hs_runtime_create(3, &runtime, NULL), HS_OK);
    for (size_t i = 0; i < RANDOM_TOKENS_MAX; i++) {
        ids[i] = (int32_t)((i * 7 + i * i) % 20);
        types[i] = i % 3 == 0;
    }
    for (size_t i = 0; i < WEIGHTS; i++) {
        state = state * 1664525 + 1013904223;
        numbers[i] = (float)(state >> 8) / 8388608.0F - 1;
    }
}

static void teardown(void)
{
    hs_runtime_destroy(runtime);
    random_architecture_free();
}

static hs_engine *engine_make(const hs_architecture *architecture, hs_products products)
{
    hs_engine *engine = NULL;
    hs_error err = {0};
    const hs_engine_options options = {.products = products};
    ck_assert_msg(!hs_engine_create(runtime, architecture, &options, &engine, &err), "%s", err.text);
    ck_assert_msg(!hs_gradients_prepare(engine, false, &err), "%s", err.text);
    return engine;
}

static hs_workspace *workspace_make(const hs_engine *engine, const hs_sequence *text)
{
    hs_workspace *ws = NULL;
    ck_assert_int_eq(hs_workspace_create(engine, text->n_tokens + text->n_memory, &ws, NULL), HS_OK);
    return ws;
}

/* ---- all arrays of a text ---- */

typedef struct arrays {
    hs_gradients own, cross;
    size_t T, K, L, n_heads, D, H, E;
} arrays;

static float *floats_make(size_t n)
{
    float *floats = malloc((n + 1) * sizeof *floats);
    ck_assert_ptr_nonnull(floats);
    return floats;
}

/* Selects all layers and heads. */
static void heads_make(const arrays *a, size_t K, hs_gradients *to)
{
    const size_t n = a->L * a->n_heads * a->T;
    to->layers = to->heads = hs_all_numbers;
    to->n_layers = a->L;
    to->n_heads = a->n_heads;
    to->attention = floats_make(n * K);
    to->head_output = floats_make(n * a->D);
    to->head_attribution = floats_make(n);
    to->relevance = floats_make(a->L * a->T * K);
}

static arrays arrays_make(const hs_engine *engine, const hs_sequence *text)
{
    const hs_shape *s = hs_engine_shape(engine);
    arrays a = {.T = text->n_tokens,
                .K = text->n_memory,
                .L = s->n_layers,
                .n_heads = s->n_heads,
                .D = s->head_width,
                .H = s->hidden,
                .E = hs_engine_architecture(engine)->embedding.width};
    heads_make(&a, a.T, &a.own);
    a.own.states = floats_make((a.L + 1) * a.T * a.H);
    a.own.words = floats_make(a.T * a.E);
    if (a.K == 0)
        return a;
    a.cross.cross = true;
    heads_make(&a, a.K, &a.cross);
    a.cross.memory = floats_make(a.K * a.H);
    return a;
}

static void selection_free(hs_gradients *to)
{
    free(to->attention), free(to->head_output), free(to->head_attribution), free(to->relevance);
    free(to->states), free(to->words), free(to->memory);
}

static void arrays_free(arrays *a)
{
    selection_free(&a->own);
    selection_free(&a->cross);
}

/* Differentiates the sum of the last states times `numbers`. */
static arrays differentiate(const hs_engine *engine, const hs_sequence *text, size_t n_threads,
                            size_t bytes_max)
{
    const hs_run_control control = {.n_threads = n_threads};
    hs_workspace *ws = workspace_make(engine, text);
    hs_tape *tape = NULL;
    hs_error err = {0};
    arrays a = arrays_make(engine, text);
    const hs_gradients to[] = {a.own, a.cross};
    ck_assert_msg(!hs__tape_record(engine, ws, text, &control, bytes_max, &tape, &err), "%s", err.text);
    ck_assert_int_eq(tape->complete, bytes_max > 0);
    ck_assert_msg(!hs_tape_differentiate(tape, ws, numbers, to, a.K > 0 ? 2 : 1, &control, &err), "%s",
                  err.text);
    hs_tape_destroy(tape);
    hs_workspace_destroy(ws);
    return a;
}

/* The same sum in doubles. */
static double value_of(const hs_architecture *architecture, const hs_sequence *text)
{
    const size_t n = text->n_tokens * architecture->shape.hidden;
    reference r = reference_make(architecture, text, false);
    const double *last = r.states + architecture->shape.n_layers * n;
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += last[i] * (double)numbers[i];
    reference_free(&r);
    return sum;
}

static void assert_near(double got, double expected, double scale, const char *what, size_t at)
{
    ck_assert_msg(fabs(got - expected) <= 2e-5 * scale, "%s %zu: %g, not %g (of %g)", what, at, got, expected,
                  scale);
}

/* ---- finite differences ---- */

/* Moves the word row of an id along a direction; returns how far it went along each float by `moved`. */
static void row_move(const hs_architecture *architecture, size_t id, float step, float *saved, double *moved)
{
    const size_t E = architecture->embedding.width;
    float *row = (float *)(uintptr_t)architecture->embedding.word.data + id * E;
    for (size_t i = 0; i < E; i++) {
        if (step > 0)
            saved[i] = row[i];
        row[i] = saved[i] + step * numbers[id * E + i];
        moved[i] += (step > 0 ? 1 : -1) * (double)row[i];
    }
}

static void row_restore(const hs_architecture *architecture, size_t id, const float *saved)
{
    const size_t E = architecture->embedding.width;
    memcpy((float *)(uintptr_t)architecture->embedding.word.data + id * E, saved, E * sizeof *saved);
}

/* Returns the factor of a token's word row. */
static double word_factor(const hs_architecture *architecture, size_t t, size_t T)
{
    const hs_embedding *e = &architecture->embedding;
    double n_masked = 0;
    for (size_t i = 0; i < T; i++)
        n_masked += ids[i] == e->mask_id;
    if (e->token_dropout > 0)
        return ids[t] == e->mask_id ? 0 : (1 - e->token_dropout) / (1 - n_masked / (double)T);
    return e->scale > 0 ? e->scale : 1;
}

static void check_words(const hs_architecture *architecture, const hs_sequence *text, const arrays *a)
{
    float saved[256];
    double expected[20], got[20] = {0}, scale = 0;
    for (size_t id = 0; id < 20; id++) {
        double moved[256] = {0}, up, down;
        row_move(architecture, id, 0x1p-18F, saved, moved);
        up = value_of(architecture, text);
        row_move(architecture, id, -0x1p-18F, saved, moved);
        down = value_of(architecture, text);
        row_restore(architecture, id, saved);
        expected[id] = up - down;
        for (size_t t = 0; t < a->T; t++)
            for (size_t i = 0; i < a->E && (size_t)ids[t] == id; i++)
                got[id] += (double)a->own.words[t * a->E + i] * word_factor(architecture, t, a->T) * moved[i];
        scale = fmax(scale, fabs(expected[id]));
    }
    for (size_t id = 0; id < 20; id++)
        assert_near(got[id], expected[id], scale, "word", id);
}

/* Returns the change of the sum if a head's output grows: dy / d(factor) at 1. */
static double head_slope(const hs_architecture *architecture, const hs_sequence *text, uint16_t layer,
                         uint16_t head, bool cross)
{
    hs_intervention list[8];
    hs_sequence scaled = *text;
    const float step = 0x1p-20F;
    if (text->n_interventions > 0)
        memcpy(list, text->interventions, text->n_interventions * sizeof *list);
    list[scaled.n_interventions++] = (hs_intervention){.layers = &layer,
                                                       .n_layers = 1,
                                                       .heads = &head,
                                                       .n_heads = 1,
                                                       .kind = HS_INTERVENE_SCALE,
                                                       .cross = cross};
    scaled.interventions = list;
    list[text->n_interventions].factor = 1 + step;
    const double up = value_of(architecture, &scaled);
    list[text->n_interventions].factor = 1 - step;
    return (up - value_of(architecture, &scaled)) / (2 * (double)step);
}

static void check_heads(const hs_architecture *architecture, const hs_sequence *text, const arrays *a,
                        const hs_gradients *to)
{
    double expected[16], scale = 1e-30;
    for (size_t at = 0; at < a->L * a->n_heads; at++) {
        expected[at] = head_slope(architecture, text, (uint16_t)(at / a->n_heads),
                                  (uint16_t)(at % a->n_heads), to->cross);
        scale = fmax(scale, fabs(expected[at]));
    }
    for (size_t at = 0; at < a->L * a->n_heads; at++) {
        double got = 0;
        for (size_t t = 0; t < a->T; t++)
            got += (double)to->head_attribution[at * a->T + t];
        assert_near(got, expected[at], scale, to->cross ? "cross head" : "head", at);
    }
}

static void check_text(const hs_architecture *architecture, hs_products products, const hs_sequence *text)
{
    hs_engine *engine = engine_make(architecture, products);
    for (size_t n_threads = 1; n_threads <= 2; n_threads++) {
        arrays a = differentiate(engine, text, n_threads, HS_TAPE_BYTES_MAX);
        check_words(architecture, text, &a);
        check_heads(architecture, text, &a, &a.own);
        if (a.K > 0)
            check_heads(architecture, text, &a, &a.cross);
        arrays_free(&a);
    }
    hs_engine_destroy(engine);
}

static hs_sequence text_make(size_t T)
{
    return (hs_sequence){.ids = ids, .types = types, .n_tokens = T};
}

/* A sanitizer slows the reference down to minutes. It then follows some architectures alone; the other tests
 * run all of them. */
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
enum { SLOWNESS = 12 };
#else
enum { SLOWNESS = 1 };
#endif

START_TEST(architectures_agree_with_finite_differences)
{
    const hs_architecture architecture = random_architectures[_i].make();
    const hs_sequence text = text_make(30), short_text = text_make(2);
    check_text(&architecture, HS_PRODUCTS_NATIVE, &text);
    check_text(&architecture, HS_PRODUCTS_CBLAS, &text);
    check_text(&architecture, HS_PRODUCTS_NATIVE, &short_text);
}
END_TEST

START_TEST(root_mean_squares_agree_with_finite_differences)
{
    hs_architecture architecture = random_architectures[_i].make();
    const hs_sequence text = text_make(19);
    architecture.norm_kind = HS_NORM_RMS;
    check_text(&architecture, HS_PRODUCTS_NATIVE, &text);
}
END_TEST

START_TEST(every_instruction_set_agrees_with_finite_differences)
{
    const hs_architecture architecture = random_architectures[_i].make();
    const hs_sequence text = text_make(37);
    const hs__kernels *kernels;
    for (size_t set = 1; (kernels = hs__kernels_at(set)); set++) {
        runtime->kernels = kernels;
        check_text(&architecture, HS_PRODUCTS_NATIVE, &text);
    }
}
END_TEST

/* Long texts are computed in several strips of rows. All word rows move at once. Terms of both signs may
 * leave a small sum, so the bound is of their norm. */
START_TEST(long_texts_agree_with_finite_differences)
{
    const hs_architecture architecture = random_architectures[_i].make();
    const hs_sequence text = text_make(RANDOM_TOKENS_MAX - 7);
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
    arrays a = differentiate(engine, &text, 2, HS_TAPE_BYTES_MAX);
    double moved[20][256] = {{0}}, got = 0, squares = 0;
    float saved[20][256];
    for (size_t id = 0; id < 20; id++)
        row_move(&architecture, id, 0x1p-18F, saved[id], moved[id]);
    double expected = value_of(&architecture, &text);
    for (size_t id = 0; id < 20; id++)
        row_move(&architecture, id, -0x1p-18F, saved[id], moved[id]);
    expected -= value_of(&architecture, &text);
    for (size_t id = 0; id < 20; id++)
        row_restore(&architecture, id, saved[id]);
    for (size_t t = 0; t < a.T; t++)
        for (size_t i = 0; i < a.E; i++) {
            const double term =
                (double)a.own.words[t * a.E + i] * word_factor(&architecture, t, a.T) * moved[ids[t]][i];
            got += term;
            squares += term * term;
        }
    assert_near(got, expected, sqrt(squares), "long text", 0);
    arrays_free(&a);
    hs_engine_destroy(engine);
}
END_TEST

static hs_sequence target_make(size_t T, size_t n_memory)
{
    hs_sequence text = text_make(T);
    text.memory = random_tensor(n_memory, random_shape->hidden, 0, 1).data;
    text.n_memory = n_memory;
    return text;
}

START_TEST(decoders_agree_with_finite_differences)
{
    const hs_architecture architecture = random_decoders[_i].make();
    const hs_sequence wide = target_make(9, 20), tall = target_make(30, 5), one = target_make(1, 1);
    check_text(&architecture, HS_PRODUCTS_NATIVE, &wide);
    check_text(&architecture, HS_PRODUCTS_NATIVE, &tall);
    check_text(&architecture, HS_PRODUCTS_NATIVE, &one);
}
END_TEST

static const uint16_t one[] = {1}, outer[] = {0, 2};
static const struct {
    hs_intervention list[3];
    size_t n;
} interventions[] = {
    {{{one, 1, outer, 2, HS_INTERVENE_ZERO, 0, NULL, NULL, 0, false, NULL, 0, 0}}, 1},
    {{{outer, 2, one, 1, HS_INTERVENE_SCALE, -1.5F, NULL, NULL, 0, false, NULL, 0, 0}}, 1},
    {{{outer, 2, outer, 2, HS_INTERVENE_MEAN, 0, NULL, NULL, 0, false, NULL, 0, 0}}, 1},
    {{{one, 1, hs_all_numbers, 3, HS_INTERVENE_UNIFORM, 0, NULL, NULL, 0, false, NULL, 0, 0}}, 1},
    {{{outer, 2, one, 1, HS_INTERVENE_IDENTITY, 0, NULL, NULL, 0, false, NULL, 0, 0}}, 1},
    {{{one, 1, hs_all_numbers, 3, HS_INTERVENE_CUT, 0, NULL, NULL, 0, false, NULL, 0, 2}}, 1},
    {{{hs_all_numbers, 3, outer, 2, HS_INTERVENE_CUT, 0, NULL, NULL, 0, false, NULL, 0, 40},
      {outer, 2, hs_all_numbers, 3, HS_INTERVENE_CUT, 0, NULL, NULL, 0, false, NULL, 0, 9},
      {one, 1, outer, 2, HS_INTERVENE_UNIFORM, 0, NULL, NULL, 0, false, NULL, 0, 0}},
     3},
    {{{one, 1, one, 1, HS_INTERVENE_SCALE, 3, NULL, NULL, 0, false, NULL, 0, 0},
      {one, 1, hs_all_numbers, 3, HS_INTERVENE_MEAN, 0, NULL, NULL, 0, false, NULL, 0, 0},
      {hs_all_numbers, 3, one, 1, HS_INTERVENE_UNIFORM, 0, NULL, NULL, 0, false, NULL, 0, 0}},
     3},
};
enum { N_INTERVENTIONS = sizeof interventions / sizeof *interventions };

START_TEST(interventions_agree_with_finite_differences)
{
    static const char *const names[] = {"plain", "mixed", "relative", "windows"};
    for (size_t i = 0; i < n_random_architectures; i++)
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            if (strcmp(random_architectures[i].name, names[k]) != 0)
                continue;
            const hs_architecture architecture = random_architectures[i].make();
            if (architecture.relative.table.data && interventions[_i].list[0].kind == HS_INTERVENE_CUT)
                continue; /* refused there */
            hs_sequence text = text_make(30);
            text.interventions = interventions[_i].list;
            text.n_interventions = interventions[_i].n;
            check_text(&architecture, HS_PRODUCTS_NATIVE, &text);
        }
}
END_TEST

/* ---- what must hold ---- */

static const double pi = 3.14159265358979323846;

/* Returns f'(x) in double precision. */
static double slope_of(hs_activation activation, double x)
{
    const double s = 1 / (1 + exp(-x)), q = 1 / (1 + exp(-1.702 * x)), t = tanh(x);
    const double u = sqrt(8 / pi) * (x + 0.044715 * x * x * x), v = 1 / (1 + exp(-u));
    switch (activation) {
    case HS_GELU:
        return (1 + erf(x / sqrt(2))) / 2 + x * exp(-x * x / 2) / sqrt(2 * pi);
    case HS_GELU_TANH:
        return v + x * v * (1 - v) * sqrt(8 / pi) * (1 + 3 * 0.044715 * x * x);
    case HS_QUICK_GELU:
        return q + 1.702 * x * q * (1 - q);
    case HS_RELU:
        return x > 0;
    case HS_SILU:
        return s + x * s * (1 - s);
    default:
        return 1 - t * t;
    }
}

START_TEST(slopes_are_those_of_the_activations)
{
    static const float far[] = {-1e30F, -1e4F, -100, -20, -14, 14, 20, 100, 1e4F, 1e30F};
    const hs__kernels *kernels;
    float x[1021], y[1021];
    for (size_t i = 0; i < 1021; i++)
        x[i] = i < 10 ? far[i] : ((float)i - 515) / 40;
    for (size_t set = 0; (kernels = hs__kernels_at(set)); set++) {
        memcpy(y, x, sizeof x);
        kernels->slope[_i](1, 1021, y, 1021);
        for (size_t i = 0; i < 1021; i++) {
            const bool huge = fabsf(x[i]) >= 100;
            const double expected = !huge           ? slope_of((hs_activation)_i, (double)x[i])
                                    : _i == HS_TANH ? 0
                                                    : (double)(x[i] > 0);
            ck_assert_msg(fabs((double)y[i] - expected) <= 5e-7, "%s: slope %d of %g: %g, not %g",
                          kernels->name, _i, (double)x[i], (double)y[i], expected);
        }
    }
}
END_TEST

/* Runs a pass that keeps V and A of all heads. The caller destroys the capture. */
static hs_capture *pass_make(const hs_engine *engine, const hs_sequence *text, bool cross, unsigned taps)
{
    hs_sequence sequence = *text;
    hs_selection all = hs_select_all(hs_engine_shape(engine), taps);
    hs_workspace *ws = workspace_make(engine, text);
    hs_error err = {0};
    all.n_memory = cross ? text->n_memory : 0;
    ck_assert_int_eq(
        hs_capture_create(runtime, hs_engine_shape(engine), &all, text->n_tokens, &sequence.capture, NULL),
        HS_OK);
    ck_assert_msg(!hs_engine_compute(engine, ws, &sequence, 1, NULL, NULL, &err), "%s", err.text);
    hs_workspace_destroy(ws);
    return sequence.capture;
}

/* dy/dA is dy/dO V', and 0 where a key is hidden; attributions are <O, dy/dO>; relevance is the mean of what
 * both give. */
static void check_maps(const hs_engine *engine, const hs_sequence *text, const arrays *a,
                       const hs_gradients *to)
{
    hs_capture *c =
        pass_make(engine, text, to->cross, HS_KEEP(VALUE) | HS_KEEP(ATTENTION) | HS_KEEP(HEAD_OUTPUT));
    const size_t K = c->n_keys, T = a->T, D = a->D;
    for (size_t l = 0; l < a->L; l++)
        for (size_t at = 0; at < T * K; at++) {
            const size_t i = at / K, j = at % K;
            double relevance = 0;
            for (size_t h = 0; h < a->n_heads; h++) {
                const float *g = to->head_output + ((l * a->n_heads + h) * T + i) * D;
                const float *v = hs_capture_at(c, HS_TAP_VALUE, l, h) + j * D;
                const float *o = hs_capture_at(c, HS_TAP_HEAD_OUTPUT, l, h) + i * D;
                const double A = (double)hs_capture_at(c, HS_TAP_ATTENTION, l, h)[at];
                const double got = (double)to->attention[(l * a->n_heads + h) * T * K + at];
                double expected = 0, attribution = 0, scale = 1e-30;
                for (size_t d = 0; d < D; d++) {
                    expected += (double)g[d] * (double)v[d];
                    attribution += (double)g[d] * (double)o[d];
                    scale += fabs((double)g[d] * (double)v[d]);
                }
                if (A == 0)
                    ck_assert_double_eq(got, 0);
                else
                    assert_near(got, expected, scale, "element of a map", at);
                relevance += fmax(0, A * got) / (double)a->n_heads;
                ck_assert_double_eq_tol((double)to->head_attribution[(l * a->n_heads + h) * T + i],
                                        attribution, 1e-5 * (1 + fabs(attribution)));
            }
            ck_assert_double_eq_tol((double)to->relevance[l * T * K + at], relevance, 1e-6 * (1 + relevance));
        }
    hs_capture_destroy(c);
}

START_TEST(maps_follow_from_outputs)
{
    const bool decodes = (size_t)_i >= n_random_architectures;
    const hs_architecture architecture = decodes ? random_decoders[(size_t)_i - n_random_architectures].make()
                                                 : random_architectures[_i].make();
    const hs_sequence text = decodes ? target_make(17, 40) : text_make(33);
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
    arrays a = differentiate(engine, &text, 1, HS_TAPE_BYTES_MAX);
    check_maps(engine, &text, &a, &a.own);
    if (decodes)
        check_maps(engine, &text, &a, &a.cross);
    arrays_free(&a);
    hs_engine_destroy(engine);
}
END_TEST

static void assert_same(const float *a, const float *b, size_t n, const char *what)
{
    ck_assert_msg(!a == !b && (!a || memcmp(a, b, n * sizeof *a) == 0), "%s differs", what);
}

static void assert_same_arrays(const arrays *a, const arrays *b)
{
    const hs_gradients *pairs[][2] = {{&a->own, &b->own}, {&a->cross, &b->cross}};
    const size_t n = a->L * a->n_heads * a->T;
    for (size_t i = 0; i < (a->K > 0 ? 2 : 1); i++) {
        const hs_gradients *x = pairs[i][0], *y = pairs[i][1];
        const size_t K = i == 1 ? a->K : a->T;
        assert_same(x->attention, y->attention, n * K, "attention");
        assert_same(x->head_output, y->head_output, n * a->D, "head output");
        assert_same(x->head_attribution, y->head_attribution, n, "head attribution");
        assert_same(x->relevance, y->relevance, a->L * a->T * K, "relevance");
        assert_same(x->states, y->states, (a->L + 1) * a->T * a->H, "states");
        assert_same(x->words, y->words, a->T * a->E, "words");
        assert_same(x->memory, y->memory, a->K * a->H, "memory");
    }
}

/* A tape that keeps one layer computes the others again, with the same bits. So do several threads. */
START_TEST(memory_and_threads_change_no_bit)
{
    const bool decodes = (size_t)_i >= n_random_architectures;
    random_shape = &random_large;
    const hs_architecture architecture = decodes ? random_decoders[(size_t)_i - n_random_architectures].make()
                                                 : random_architectures[_i].make();
    const hs_sequence text = decodes ? target_make(150, 70) : text_make(150);
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
    arrays kept = differentiate(engine, &text, 1, HS_TAPE_BYTES_MAX),
           again = differentiate(engine, &text, 1, 0),
           shared = differentiate(engine, &text, 3, HS_TAPE_BYTES_MAX),
           shared_again = differentiate(engine, &text, 3, 0);
    assert_same_arrays(&kept, &again);
    assert_same_arrays(&kept, &shared);
    assert_same_arrays(&kept, &shared_again);
    arrays_free(&kept), arrays_free(&again), arrays_free(&shared), arrays_free(&shared_again);
    hs_engine_destroy(engine);
    random_shape = &random_small;
}
END_TEST

/* A pass that goes only as deep as is requested gives the same bits, and a tape is read twice. A capture that
 * is filled on the way is that of a pass without a tape. */
START_TEST(a_selection_changes_no_bit)
{
    const hs_architecture architecture = random_architectures[_i].make();
    const unsigned taps =
        HS_KEEP(ATTENTION) | HS_KEEP(HEAD_OUTPUT) | HS_KEEP(EVERY_STATE) | HS_KEEP(SIMILARITY);
    hs_sequence text = text_make(33);
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
    hs_workspace *ws = workspace_make(engine, &text);
    arrays all = differentiate(engine, &text, 1, HS_TAPE_BYTES_MAX);
    hs_capture *expected = pass_make(engine, &text, false, taps),
               *got = pass_make(engine, &text, false, taps);
    memset(got->arrays[HS_TAP_ATTENTION], 0, all.L * all.n_heads * 33 * 33 * sizeof(float));
    const size_t n = 33 * 33, n_state = 33 * all.H;
    float *maps = floats_make(2 * n), *states = floats_make(2 * n_state);
    const hs_gradients to[] = {
        {.layers = one, .n_layers = 1, .heads = outer, .n_heads = 2, .attention = maps},
        {.layers = outer + 1, .n_layers = 1, .states = states}};
    hs_tape *tape = NULL;
    text.capture = got;
    ck_assert_int_eq(hs_tape_record(engine, ws, &text, NULL, &tape, NULL), HS_OK);
    assert_same(hs_tape_last(tape), hs_capture_at(expected, HS_TAP_EVERY_STATE, all.L, 0), n_state, "last");
    for (hs_tap tap = 0; tap < HS_N_TAPS; tap++)
        if (taps >> tap & 1)
            assert_same(got->arrays[tap], expected->arrays[tap],
                        tap == HS_TAP_HEAD_OUTPUT   ? all.L * 33 * all.H
                        : tap == HS_TAP_EVERY_STATE ? (all.L + 1) * n_state
                                                    : all.L * all.n_heads * n,
                        "capture");
    for (size_t time = 0; time < 2; time++) {
        ck_assert_int_eq(hs_tape_differentiate(tape, ws, numbers, to, 1 + time, NULL, NULL), HS_OK);
        for (size_t h = 0; h < 2; h++)
            assert_same(maps + h * n, all.own.attention + (all.n_heads + outer[h]) * n, n, "map");
    }
    assert_same(states, all.own.states, n_state, "first state");
    assert_same(states + n_state, all.own.states + 3 * n_state, n_state, "last state");
    hs_tape_destroy(tape);
    hs_capture_destroy(got), hs_capture_destroy(expected);
    free(maps), free(states);
    arrays_free(&all);
    hs_workspace_destroy(ws);
    hs_engine_destroy(engine);
}
END_TEST

/* The gradient of a sum is the sum of gradients. */
START_TEST(gradients_are_linear)
{
    const hs_architecture architecture = random_architectures[0].make();
    const hs_sequence text = text_make(20);
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
    hs_workspace *ws = workspace_make(engine, &text);
    const size_t n = 20 * architecture.shape.hidden;
    float *last = floats_make(n), *words[3];
    hs_tape *tape = NULL;
    ck_assert_int_eq(hs_tape_record(engine, ws, &text, NULL, &tape, NULL), HS_OK);
    for (size_t i = 0; i < 3; i++) {
        words[i] = floats_make(n);
        for (size_t k = 0; k < n; k++)
            last[k] = i == 0 ? numbers[k] : i == 1 ? 3 * numbers[n + k] : numbers[k] + 3 * numbers[n + k];
        ck_assert_int_eq(
            hs_tape_differentiate(tape, ws, last, &(hs_gradients){.words = words[i]}, 1, NULL, NULL), HS_OK);
    }
    for (size_t k = 0; k < n; k++)
        ck_assert_double_eq_tol((double)words[2][k], (double)words[0][k] + (double)words[1][k], 2e-5);
    for (size_t i = 0; i < 3; i++)
        free(words[i]);
    free(last);
    hs_tape_destroy(tape);
    hs_workspace_destroy(ws);
    hs_engine_destroy(engine);
}
END_TEST

/* Copies the weights of head 0 to head 1. */
static void heads_equal(hs_architecture *architecture, size_t layer)
{
    hs_layer *l = &architecture->layers[layer];
    const size_t H = architecture->shape.hidden, D = architecture->shape.head_width;
    const hs_dense *parts[] = {&l->query, &l->key, &l->value};
    for (size_t i = 0; i < 3; i++) {
        float *w = (float *)(uintptr_t)parts[i]->weight.data, *b = (float *)(uintptr_t)parts[i]->bias.data;
        memcpy(w + D * H, w, D * H * sizeof *w);
        memcpy(b + D, b, D * sizeof *b);
    }
    float *output = (float *)(uintptr_t)l->output.weight.data;
    for (size_t r = 0; r < H; r++)
        memcpy(output + r * H + D, output + r * H, D * sizeof *output);
}

START_TEST(equal_heads_have_equal_gradients)
{
    hs_architecture architecture = random_architectures[0].make();
    const hs_sequence text = text_make(20);
    heads_equal(&architecture, 1);
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
    arrays a = differentiate(engine, &text, 1, HS_TAPE_BYTES_MAX);
    const float *map = a.own.attention + (size_t)3 * 400, *output = a.own.head_output + 3 * 20 * a.D;
    for (size_t k = 0; k < 400; k++)
        ck_assert_float_eq_tol(map[k], map[400 + k], 1e-6F);
    for (size_t k = 0; k < 20 * a.D; k++)
        ck_assert_float_eq_tol(output[k], output[20 * a.D + k], 1e-6F);
    arrays_free(&a);
    hs_engine_destroy(engine);
}
END_TEST

/* ---- patches ---- */

/* The sum of the last states of a pass over these word rows. */
static double engine_value(const hs_engine *engine, hs_sequence text, const float *words)
{
    text.words = words;
    hs_capture *c = pass_make(engine, &text, false, HS_KEEP(LAST_STATE));
    double sum = 0;
    for (size_t i = 0; i < c->n_tokens * c->hidden; i++)
        sum += (double)c->arrays[HS_TAP_LAST_STATE][i] * (double)numbers[i];
    hs_capture_destroy(c);
    return sum;
}

/* Against finite differences of passes, which patches leave in floats. */
static void check_patches(const hs_engine *engine, const hs_sequence *text)
{
    arrays a = differentiate(engine, text, 1, HS_TAPE_BYTES_MAX);
    const size_t n = a.T * a.E;
    float *words = floats_make(n), *moved = floats_make(n);
    hs_word_rows_read(hs_engine_architecture(engine), text, words);
    for (size_t d = 0; d < 5; d++) {
        double values[2], got = 0, scale = 0;
        for (int side = 0; side < 2; side++) {
            for (size_t i = 0; i < n; i++)
                moved[i] = words[i] + (side ? -0x1p-8F : 0x1p-8F) * numbers[d * n + i];
            values[side] = engine_value(engine, *text, moved);
        }
        for (size_t i = 0; i < n; i++) {
            got += (double)a.own.words[i] * (double)numbers[d * n + i];
            scale += fabs((double)a.own.words[i] * (double)numbers[d * n + i]);
        }
        const double expected = (values[0] - values[1]) * 0x1p7;
        ck_assert_msg(fabs(got - expected) <= 2e-3 * (scale + 1e-3), "%g, not %g", got, expected);
    }
    free(words), free(moved);
    arrays_free(&a);
}

START_TEST(patches_pass_no_gradient)
{
    static const uint16_t first_state[] = {0}, inner_states[] = {1, 2}, last_state[] = {3};
    static const size_t some[] = {1, 4, 7};
    const hs_architecture architecture = random_architectures[_i].make();
    if (architecture.activation == HS_RELU || architecture.convolution.width > 0)
        return; /* steps as long as floats need would go past a bend */
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
    int32_t others[20];
    for (size_t i = 0; i < 20; i++)
        others[i] = (ids[i] + 5) % 20;
    hs_sequence other = {.ids = others, .types = types, .n_tokens = 20};
    other.capture = pass_make(engine, &other, false, HS_KEEP(HEAD_OUTPUT) | HS_KEEP(HIDDEN_STATE));
    const hs_intervention list[] = {
        {.layers = outer,
         .n_layers = 2,
         .heads = one,
         .n_heads = 1,
         .kind = HS_INTERVENE_PATCH,
         .from = &other,
         .positions = some,
         .n_positions = 3},
        {.layers = one,
         .n_layers = 1,
         .heads = outer,
         .n_heads = 2,
         .kind = HS_INTERVENE_PATCH,
         .from = &other},
        {.layers = first_state,
         .n_layers = 1,
         .kind = HS_INTERVENE_PATCH_STATE,
         .from = &other,
         .positions = some,
         .n_positions = 3},
        {.layers = inner_states,
         .n_layers = 2,
         .kind = HS_INTERVENE_PATCH_STATE,
         .from = &other,
         .positions = some,
         .n_positions = 2},
        {.layers = last_state,
         .n_layers = 1,
         .kind = HS_INTERVENE_PATCH_STATE,
         .from = &other,
         .positions = some,
         .n_positions = 3},
        {.layers = inner_states, .n_layers = 2, .kind = HS_INTERVENE_PATCH_STATE, .from = &other}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        hs_sequence text = text_make(20);
        text.interventions = list + i;
        text.n_interventions = 1;
        check_patches(engine, &text);
    }
    hs_capture_destroy(other.capture);
    hs_engine_destroy(engine);
}
END_TEST

/* ---- additions ---- */

/* The derivative of a target along the vector of an addition is the sum of the state's gradients over its
 * positions, times the factor. Layers below the addition see it, too. */
START_TEST(additions_pass_the_whole_gradient)
{
    static const size_t some[] = {1, 4, 7};
    const hs_architecture architecture = random_architectures[_i].make();
    if (architecture.activation == HS_RELU || architecture.convolution.width > 0)
        return; /* steps as long as floats need would go past a bend */
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
    const size_t H = architecture.shape.hidden;
    float *vector = floats_make(H);
    for (uint16_t state = 0; state < 4; state++) {
        hs_sequence text = text_make(20);
        const hs_intervention addition = {.layers = &state,
                                          .n_layers = 1,
                                          .kind = HS_INTERVENE_ADD,
                                          .factor = -1.5F,
                                          .positions = some,
                                          .n_positions = state % 2 ? 3 : 0,
                                          .vector = vector,
                                          .n_vector = H};
        text.interventions = &addition;
        text.n_interventions = 1;
        memcpy(vector, numbers, H * sizeof *vector);
        check_patches(engine, &text);
        arrays a = differentiate(engine, &text, 1, HS_TAPE_BYTES_MAX);
        double got = 0, scale = 0, values[2];
        for (size_t i = 0; i < (addition.n_positions ? 3 : 20); i++)
            for (size_t j = 0; j < H; j++) {
                const size_t t = addition.n_positions ? some[i] : i;
                const double part =
                    -1.5 * (double)a.own.states[(state * 20 + t) * H + j] * (double)numbers[H + j];
                got += part;
                scale += fabs(part);
            }
        for (int side = 0; side < 2; side++) {
            for (size_t j = 0; j < H; j++)
                vector[j] = numbers[j] + (side ? -0x1p-8F : 0x1p-8F) * numbers[H + j];
            values[side] = engine_value(engine, text, NULL);
        }
        const double expected = (values[0] - values[1]) * 0x1p7;
        ck_assert_msg(fabs(got - expected) <= 2e-3 * (scale + 1e-3), "state %d: %g, not %g", state, got,
                      expected);
        arrays_free(&a);
    }
    free(vector);
    hs_engine_destroy(engine);
}
END_TEST

/* ---- targets ---- */

enum { CLASSES = 3 };

/* A model with every head. */
static hs_architecture architecture_with_heads(int variant)
{
    hs_architecture architecture = random_architectures[0].make();
    const size_t H = architecture.shape.hidden, V = architecture.shape.vocab_size;
    architecture.predictor.decoder = random_tensor(V, H, 0, 0.5F);
    architecture.predictor.bias = random_tensor(1, V, 0, 0.5F);
    architecture.task_head = (hs_task_head){.task = HS_TASK_SEQUENCE, .n_classes = CLASSES, .padding_id = 5};
    architecture.task_head.output = random_dense(CLASSES, H);
    architecture.task_head.pool = variant % 2 == 1 ? HS_POOL_LAST : HS_POOL_MEAN;
    if (variant > 0) {
        architecture.predictor.dense = random_dense(H, H);
        architecture.predictor.norm = random_norm(H);
        architecture.predictor.scale = 0.5;
        architecture.predictor.cap = 2;
        architecture.task_head.dense = random_dense(H, H);
        architecture.task_head.activation = HS_TANH;
        architecture.task_head.pools_late = variant == 3;
        architecture.sentence.normalized = true;
        architecture.sentence.n_dense = 1;
        architecture.sentence.dense[0] = (hs_sentence_dense){random_dense(10, H), variant == 1, HS_TANH};
    }
    if (variant == 2)
        architecture.task_head.norm = random_norm(H);
    if (variant == 3)
        architecture.task_head.pool = HS_POOL_MAX;
    return architecture;
}

/* Compares the gradient of a tape's target with its values at states a little further along directions. */
static void check_target(hs_tape *tape, const hs_target *target, const char *what)
{
    const size_t n = tape->text.n_tokens * tape->engine->shape.hidden;
    const bool bends = target->kind == HS_TARGET_COSINE && target->pooling.ways[0] == HS_POOL_MAX;
    const float step = bends ? 0x1p-12F : 0x1p-7F; /* a step may find another token to be the largest */
    float *g = floats_make(n), *saved = floats_make(n);
    hs_error err = {0};
    double value, sides[2];
    memcpy(saved, tape->last, n * sizeof *saved);
    ck_assert_msg(!hs_tape_target(tape, target, &(hs_run_control){.n_threads = 2}, &value, g, &err), "%s: %s",
                  what, err.text);
    for (size_t d = 0; d < 5; d++) {
        double got = 0, scale = 0;
        for (int side = 0; side < 2; side++) {
            for (size_t i = 0; i < n; i++)
                tape->last[i] = saved[i] + (side ? -step : step) * numbers[d * n + i];
            ck_assert_int_eq(hs_tape_target(tape, target, NULL, &sides[side], NULL, NULL), HS_OK);
        }
        for (size_t i = 0; i < n; i++) {
            got += (double)g[i] * (double)numbers[d * n + i];
            scale += fabs((double)g[i] * (double)numbers[d * n + i]);
        }
        const double expected = (sides[0] - sides[1]) / (2 * (double)step);
        ck_assert_msg(fabs(got - expected) <= 2e-3 * (scale + 1e-3), "%s: %g, not %g (of %g)", what, got,
                      expected, scale);
    }
    memcpy(tape->last, saved, n * sizeof *saved);
    free(g), free(saved);
}

START_TEST(targets_agree_with_finite_differences)
{
    enum { T = 23 };
    const hs_architecture architecture = architecture_with_heads(_i);
    const hs_sequence text = text_make(T);
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
    hs_workspace *ws = workspace_make(engine, &text);
    hs_tape *tape = NULL;
    ck_assert_int_eq(hs_tape_record(engine, ws, &text, NULL, &tape, NULL), HS_OK);
    const struct {
        const char *name;
        hs_target target;
    } targets[] = {
        {"class", {.kind = HS_TARGET_CLASS, .class = 2}},
        {"token", {.kind = HS_TARGET_TOKENS, .position = 4, .tokens = {7, -1}}},
        {"tokens", {.kind = HS_TARGET_TOKENS, .position = T - 1, .tokens = {7, 3}}},
        {"probability", {.kind = HS_TARGET_PROBABILITY, .position = 2, .tokens = {9, -1}}},
        {"log-probability", {.kind = HS_TARGET_LOG_PROBABILITY, .position = 2, .tokens = {9, -1}}},
        {"loss", {.kind = HS_TARGET_LOSS}},
    };
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        check_target(tape, &targets[i].target, targets[i].name);
    for (hs_pool way = 0; way < HS_N_POOLS; way++) {
        hs_target cosine = {
            .kind = HS_TARGET_COSINE, .pooling = {1, {way}, 2, 0, false}, .vector = numbers + 1000};
        check_target(tape, &cosine, "cosine");
        cosine.pooling.n_columns = 3;
        check_target(tape, &cosine, "cosine of the first columns");
        cosine.pooling.normalized = true;
        check_target(tape, &cosine, "cosine of the first columns, divided by their length");
    }
    hs_tape_destroy(tape);
    hs_workspace_destroy(ws);
    hs_engine_destroy(engine);
}
END_TEST

/* Heads of tokens: classes at a position, and spans. A vector is at its most where it is compared with
 * itself. */
START_TEST(targets_of_tokens_agree_with_finite_differences)
{
    hs_architecture architecture = architecture_with_heads(_i);
    const hs_sequence text = text_make(23);
    architecture.task_head.task = _i == 0 ? HS_TASK_TOKENS : HS_TASK_SPAN;
    architecture.task_head.pools_late = false;
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
    hs_workspace *ws = workspace_make(engine, &text);
    hs_tape *tape = NULL;
    ck_assert_int_eq(hs_tape_record(engine, ws, &text, NULL, &tape, NULL), HS_OK);
    check_target(tape, &(hs_target){.kind = HS_TARGET_CLASS, .class = 1, .position = 6}, "class of a token");
    check_target(tape, &(hs_target){.kind = HS_TARGET_SPAN, .span = {3, 3}}, "span");
    check_target(tape, &(hs_target){.kind = HS_TARGET_VECTOR, .pooling = {1, {HS_POOL_MEAN}, 0, 0, false}},
                 "vector");
    hs_tape_destroy(tape);
    hs_workspace_destroy(ws);
    hs_engine_destroy(engine);
}
END_TEST

START_TEST(unsound_gradients_are_refused)
{
    const hs_architecture architecture = random_architectures[0].make();
    hs_sequence text = text_make(5);
    hs_engine *engine = NULL;
    hs_tape *tape = NULL;
    hs_error err = {0};
    const uint16_t far[] = {3};
    float array[3 * 3 * 5 * 14 * 5];
    ck_assert_int_eq(hs_engine_create(runtime, &architecture, &(hs_engine_options){0}, &engine, NULL), HS_OK);
    hs_workspace *ws = workspace_make(engine, &text);
    ck_assert_int_eq(hs_tape_record(engine, ws, &text, NULL, &tape, &err), HS_INVALID);
    ck_assert_str_eq(err.text, "gradients need hs_gradients_prepare first");
    ck_assert_int_eq(hs_gradients_prepare(engine, false, NULL), HS_OK);
    text.start = &(hs_start){0};
    ck_assert_int_eq(hs_tape_record(engine, ws, &text, NULL, &tape, NULL), HS_INVALID);
    text.start = NULL;
    ck_assert_int_eq(hs_tape_record(engine, ws, &text, NULL, &tape, NULL), HS_OK);
    const struct {
        hs_gradients to[2];
        size_t n;
        const char *says;
    } cases[] = {
        {{{.layers = far, .n_layers = 1}}, 1, "layers must be ascending and below 3"},
        {{{.heads = far, .n_heads = 1}}, 1, "heads must be ascending and below 3"},
        {{{.cross = true}}, 1, "the model has no cross heads"},
        {{{.memory = array}}, 1, "the model has no cross heads"},
        {{{.attention = array}, {.attention = array}}, 2, "two selections have the same array"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        err = (hs_error){0};
        ck_assert_int_eq(hs_tape_differentiate(tape, ws, numbers, cases[i].to, cases[i].n, NULL, &err),
                         HS_INVALID);
        ck_assert_str_eq(err.text, cases[i].says);
    }
    const hs_target targets[] = {{.kind = HS_TARGET_NONE},
                                 {.kind = HS_TARGET_TOKENS, .position = 5},
                                 {.kind = HS_TARGET_SPAN, .span = {0, 5}}};
    for (size_t i = 0; i < 3; i++)
        ck_assert_int_eq(hs_tape_target(tape, &targets[i], NULL, NULL, array, NULL), HS_INVALID);
    ck_assert_int_eq(hs_tape_target(tape, &(hs_target){.kind = HS_TARGET_CLASS}, NULL, NULL, array, NULL),
                     HS_UNSUPPORTED);
    ck_assert_int_eq(hs_tape_target(tape, &(hs_target){.kind = HS_TARGET_TOKENS}, NULL, NULL, array, NULL),
                     HS_UNSUPPORTED);
    const atomic_int cancelled = 1;
    const hs_run_control control = {.cancelled = &cancelled};
    ck_assert_int_eq(hs_tape_differentiate(tape, ws, numbers, NULL, 0, &control, NULL), HS_CANCELLED);
    ck_assert_int_eq(hs_tape_target(tape, &(hs_target){.kind = HS_TARGET_LOSS}, &control, NULL, array, NULL),
                     HS_CANCELLED);
    hs_tape_destroy(tape);
    ck_assert_int_eq(hs_tape_record(engine, ws, &text, &control, &tape, NULL), HS_CANCELLED);
    hs_workspace_destroy(ws);
    hs_engine_destroy(engine);
}
END_TEST

/* ---- attributions ---- */

/* An encoder, and a decoder with a head for tokens that reads it. */
typedef struct two_texts {
    hs_architecture encoder, decoder;
    hs_engine *engines[2];
    hs_sequence source, target;
    hs_differentiated of;
} two_texts;

static void two_texts_make(two_texts *t, size_t Ts, size_t Tt)
{
    t->encoder = random_architectures[0].make();
    t->decoder = random_decoders[2].make();
    t->decoder.predictor.decoder =
        random_tensor(t->decoder.shape.vocab_size, t->decoder.shape.hidden, 0, 0.5F);
    t->engines[0] = engine_make(&t->encoder, HS_PRODUCTS_NATIVE);
    t->engines[1] = engine_make(&t->decoder, HS_PRODUCTS_NATIVE);
    t->source = text_make(Ts);
    t->target = text_make(Tt);
    hs_sequence read = t->target;
    read.n_memory = Ts;
    t->of = (hs_differentiated){.engine = t->engines[0],
                                .ws = workspace_make(t->engines[0], &t->source),
                                .text = &t->source,
                                .decoder = t->engines[1],
                                .decoder_ws = workspace_make(t->engines[1], &read),
                                .decoder_text = &t->target,
                                .target = {.kind = HS_TARGET_TOKENS, .position = Tt - 1, .tokens = {4, 11}}};
}

static void two_texts_free(two_texts *t)
{
    hs_workspace_destroy(t->of.ws);
    hs_workspace_destroy(t->of.decoder_ws);
    hs_engine_destroy(t->engines[0]);
    hs_engine_destroy(t->engines[1]);
}

/* The target in doubles, but for the memory, which is floats. */
static double two_texts_value(const two_texts *t, const hs_sequence *source, const hs_sequence *target)
{
    const size_t H = t->encoder.shape.hidden, n = source->n_tokens * H;
    reference first = reference_make(&t->encoder, source, false);
    float *memory = floats_make(n);
    for (size_t i = 0; i < n; i++)
        memory[i] = (float)first.states[LAYERS * n + i];
    hs_sequence text = *target;
    text.memory = memory;
    text.n_memory = source->n_tokens;
    reference second = reference_make(&t->decoder, &text, false);
    const double *last = second.states + (LAYERS * target->n_tokens + target->n_tokens - 1) * H;
    const float *rows = t->decoder.predictor.decoder.data;
    double value = 0;
    for (size_t i = 0; i < H; i++)
        value += last[i] * ((double)rows[4 * H + i] - (double)rows[11 * H + i]);
    free(memory);
    reference_free(&first), reference_free(&second);
    return value;
}

/* Heads of all three stacks against finite differences through both texts. */
START_TEST(a_target_of_a_decoder_reaches_its_encoder)
{
    enum { TS = 13, TT = 9, STACKS = 3 };
    two_texts t;
    two_texts_make(&t, TS, TT);
    float attributions[STACKS][9 * TS];
    hs_gradients to[STACKS];
    double value;
    for (size_t i = 0; i < STACKS; i++)
        to[i] = (hs_gradients){.layers = hs_all_numbers,
                               .n_layers = LAYERS,
                               .heads = hs_all_numbers,
                               .n_heads = 3,
                               .cross = i == 2,
                               .head_attribution = attributions[i]};
    ck_assert_int_eq(hs_differentiate(&t.of, to, 1, to + 1, 2, NULL, &value, NULL), HS_OK);
    ck_assert_double_eq_tol(value, two_texts_value(&t, &t.source, &t.target), 1e-5);
    for (size_t stack = 0; stack < STACKS; stack++)
        for (size_t at = 0; at < 9; at++) {
            const size_t T = stack == 0 ? TS : TT;
            const uint16_t layer = (uint16_t)(at / 3), head = (uint16_t)(at % 3);
            double sides[2], got = 0;
            for (int side = 0; side < 2; side++) {
                const hs_intervention scale = {.layers = &layer,
                                               .n_layers = 1,
                                               .heads = &head,
                                               .n_heads = 1,
                                               .kind = HS_INTERVENE_SCALE,
                                               .factor = side ? 0.99609375F : 1.00390625F,
                                               .cross = stack == 2};
                hs_sequence source = t.source, target = t.target;
                hs_sequence *changed = stack == 0 ? &source : &target;
                changed->interventions = &scale;
                changed->n_interventions = 1;
                sides[side] = two_texts_value(&t, &source, &target);
            }
            for (size_t i = 0; i < T; i++)
                got += (double)attributions[stack][at * T + i];
            ck_assert_double_eq_tol(got, (sides[0] - sides[1]) * 128, 2e-4);
        }
    const hs_gradients many[HS_DECODER_SELECTIONS_MAX + 1] = {{0}};
    ck_assert_int_eq(hs_differentiate(&t.of, NULL, 0, many, HS_DECODER_SELECTIONS_MAX + 1, NULL, NULL, NULL),
                     HS_INVALID);
    two_texts_free(&t);
}
END_TEST

/* Integrated gradients of either text sum up to what the target gains. */
START_TEST(integrated_gradients_are_complete)
{
    enum { TS = 13, TT = 9 };
    two_texts t;
    two_texts_make(&t, TS, TT);
    uint8_t kept[TS] = {1};
    float tokens[TS], more[TS];
    hs_attribution got, exact;
    for (int of_decoder = 0; of_decoder < 2; of_decoder++)
        for (int32_t baseline = -1; baseline < 3; baseline += 3) {
            hs_attribution_options options = {.kind = HS_ATTRIBUTE_INTEGRATED,
                                              .of_decoder = of_decoder,
                                              .n_steps = 40,
                                              .baseline_id = baseline,
                                              .kept = baseline >= 0 ? kept : NULL};
            ck_assert_int_eq(hs_attribution_compute(&t.of, &options, NULL, tokens, &got, NULL), HS_OK);
            ck_assert_double_eq_tol(got.value, two_texts_value(&t, &t.source, &t.target), 1e-5);
            ck_assert_double_eq_tol(got.gap, 0, 2e-3 * fabs(got.value - got.baseline) + 1e-4);
            ck_assert(baseline < 0 || tokens[0] == 0);
            options.n_steps = 80;
            ck_assert_int_eq(hs_attribution_compute(&t.of, &options, NULL, more, &exact, NULL), HS_OK);
            for (size_t i = 0; i < (of_decoder ? TT : TS); i++)
                ck_assert_double_eq_tol((double)tokens[i], (double)more[i], 2e-3);
        }
    const hs_attribution_options none = {.kind = HS_ATTRIBUTE_INTEGRATED};
    ck_assert_int_eq(hs_attribution_compute(&t.of, &none, NULL, tokens, &got, NULL), HS_INVALID);
    two_texts_free(&t);
}
END_TEST

/* One step of a model that is linear between the rows: exactly <x - x', g>, so both kinds agree with zero as
 * baseline; and a length is one. */
START_TEST(attributions_of_tokens_are_read_of_rows)
{
    const float words[] = {1, 2, 3, 4}, gradients[] = {3, 4, 0, -2};
    float tokens[2];
    hs_attribution_read(HS_ATTRIBUTE_GRADIENT, words, gradients, 2, 2, tokens);
    ck_assert_float_eq(tokens[0], 5);
    ck_assert_float_eq(tokens[1], 2);
    hs_attribution_read(HS_ATTRIBUTE_GRADIENT_X_INPUT, words, gradients, 2, 2, tokens);
    ck_assert_float_eq(tokens[0], 11);
    ck_assert_float_eq(tokens[1], -8);
}
END_TEST

/* c [n][m] += a [n][K] b [K][m] */
static void product_add(size_t n, size_t K, size_t m, const double *a, const double *b, double *c)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < m; j++)
            for (size_t k = 0; k < K; k++)
                c[i * m + j] += a[i * K + k] * b[k * m + j];
}

static void normalized(size_t n, const double *map, double *ret)
{
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (size_t j = 0; j < n; j++)
            sum += map[i * n + j] - (i == j);
        for (size_t j = 0; j < n; j++)
            ret[i * n + j] = (sum > 0 ? (map[i * n + j] - (i == j)) / sum : 0) + (i == j);
    }
}

static void assert_map(const float *got, const double *expected, size_t n, const char *what)
{
    double scale = 0;
    for (size_t i = 0; i < n; i++)
        scale = fmax(scale, fabs(expected[i]));
    for (size_t i = 0; i < n; i++)
        assert_near((double)got[i], expected[i], scale, what, i);
}

START_TEST(relevance_follows_its_rules)
{
    enum { TS = 13, TT = 9 };
    two_texts t;
    two_texts_make(&t, TS, TT);
    float maps[LAYERS * (TS * TS + TT * TT + TT * TS)], *own = maps + LAYERS * TS * TS,
                                                        *cross = own + LAYERS * TT * TT;
    float got_ss[TS * TS], got_tt[TT * TT], got_ts[TT * TS];
    const hs_gradients text = {.layers = hs_all_numbers, .n_layers = LAYERS, .relevance = maps};
    const hs_gradients decoder[] = {
        {.layers = hs_all_numbers, .n_layers = LAYERS, .relevance = own},
        {.layers = hs_all_numbers, .n_layers = LAYERS, .cross = true, .relevance = cross}};
    ck_assert_int_eq(hs_differentiate(&t.of, &text, 1, decoder, 2, NULL, NULL, NULL), HS_OK);
    ck_assert_int_eq(hs_relevance_compute(&t.of, NULL, got_ss, got_tt, got_ts, NULL, NULL), HS_OK);
    double ss[TS * TS] = {0}, tt[TT * TT] = {0}, ts[TT * TS] = {0}, A[TS * TS], before[TS * TS];
    for (size_t i = 0; i < TS; i++)
        ss[i * TS + i] = 1;
    for (size_t i = 0; i < TT; i++)
        tt[i * TT + i] = 1;
    for (size_t l = 0; l < LAYERS; l++) {
        for (size_t i = 0; i < TS * TS; i++)
            A[i] = (double)maps[l * TS * TS + i];
        memcpy(before, ss, sizeof ss);
        product_add(TS, TS, TS, A, before, ss);
    }
    for (size_t l = 0; l < LAYERS; l++) {
        double ns[TS * TS], nt[TT * TT], turned[TT * TT], between[TT * TS] = {0};
        for (size_t i = 0; i < TT * TT; i++)
            A[i] = (double)own[l * TT * TT + i];
        memcpy(before, tt, sizeof tt);
        product_add(TT, TT, TT, A, before, tt);
        memcpy(before, ts, sizeof ts);
        product_add(TT, TT, TS, A, before, ts);
        normalized(TS, ss, ns);
        normalized(TT, tt, nt);
        for (size_t i = 0; i < TT * TT; i++)
            turned[i] = nt[i % TT * TT + i / TT];
        for (size_t i = 0; i < TT * TS; i++)
            A[i] = (double)cross[l * TT * TS + i];
        product_add(TT, TS, TS, A, ns, between);
        product_add(TT, TT, TS, turned, between, ts);
    }
    assert_map(got_ss, ss, TS * TS, "first text");
    assert_map(got_tt, tt, TT * TT, "decoder's text");
    assert_map(got_ts, ts, TT * TS, "cross");
    two_texts_free(&t);
}
END_TEST

START_TEST(threads_change_no_bit_of_relevance)
{
    enum { TS = 150, TT = 70 };
    two_texts t;
    two_texts_make(&t, TS, TT);
    float *maps[2][3];
    const size_t lengths[] = {(size_t)TS * TS, (size_t)TT * TT, (size_t)TT * TS};
    for (size_t i = 0; i < 2; i++) {
        const hs_run_control control = {.n_threads = 1 + 2 * i};
        for (size_t k = 0; k < 3; k++)
            maps[i][k] = floats_make(lengths[k]);
        ck_assert_int_eq(
            hs_relevance_compute(&t.of, &control, maps[i][0], maps[i][1], maps[i][2], NULL, NULL), HS_OK);
    }
    for (size_t k = 0; k < 3; k++) {
        assert_same(maps[0][k], maps[1][k], lengths[k], "relevance");
        free(maps[0][k]), free(maps[1][k]);
    }
    two_texts_free(&t);
}
END_TEST

static atomic_int cancelled;
static const hs__kernels *plain_kernels;
enum { CANCELLED_TOKENS = 29 };

/* Cancels after the first product of relevance: nothing else adds as many numbers. */
static void add_and_cancel(size_t n_rows, size_t n, const float *bias, float *y, size_t ld)
{
    plain_kernels->add_bias(n_rows, n, bias, y, ld);
    if (n == (size_t)CANCELLED_TOKENS * CANCELLED_TOKENS)
        atomic_store(&cancelled, 1);
}

START_TEST(relevance_ends_when_it_is_cancelled)
{
    const hs_architecture architecture = architecture_with_heads(0);
    const hs_sequence text = text_make(CANCELLED_TOKENS);
    const hs_run_control control = {.cancelled = &cancelled};
    hs_error err = {0};
    plain_kernels = runtime->kernels;
    hs__kernels kernels = *plain_kernels;
    kernels.add_bias = add_and_cancel;
    runtime->kernels = &kernels;
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
    const hs_differentiated of = {.engine = engine,
                                  .ws = workspace_make(engine, &text),
                                  .text = &text,
                                  .target = {.kind = HS_TARGET_CLASS, .class = 1}};
    ck_assert_int_eq(hs_relevance_compute(&of, &control, NULL, NULL, NULL, NULL, &err), HS_CANCELLED);
    ck_assert_str_eq(err.text, "cancelled after 1 of 3 layers of relevance");
    hs_workspace_destroy(of.ws);
    hs_engine_destroy(engine);
}
END_TEST

/* Before a linear head, behind a layer that only adds its heads, estimates are exact. */
START_TEST(estimates_of_the_last_layer_are_exact)
{
    enum { T = 20 };
    static const hs_intervention_kind kinds[] = {HS_INTERVENE_ZERO, HS_INTERVENE_SCALE, HS_INTERVENE_MEAN,
                                                 HS_INTERVENE_PATCH};
    hs_architecture architecture = architecture_with_heads(0);
    const hs_run_control alone = {0};
    hs_layer *last = &architecture.layers[LAYERS - 1];
    architecture.norms_before = true;
    memset((void *)(uintptr_t)last->ffn_out.weight.data, 0,
           last->ffn_out.weight.n_rows * last->ffn_out.weight.n_columns * sizeof(float));
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
    int32_t others[T];
    for (size_t i = 0; i < T; i++)
        others[i] = (ids[i] + 5) % 20;
    hs_sequence text = text_make(T), other = {.ids = others, .types = types, .n_tokens = T};
    other.capture = pass_make(engine, &other, false, HS_EFFECTS_TAPS);
    text.capture = pass_make(engine, &text, false, HS_EFFECTS_TAPS);
    hs_workspace *ws = NULL;
    ck_assert_int_eq(hs_workspace_create(engine, 8 * T, &ws, NULL), HS_OK);
    float *outputs = floats_make(3 * T * architecture.shape.head_width),
          *states = floats_make((LAYERS + 1) * T * architecture.shape.hidden);
    const hs_gradients to[] = {
        {.layers = outer + 1, .n_layers = 1, .heads = hs_all_numbers, .n_heads = 3, .head_output = outputs},
        {.layers = hs_all_numbers, .n_layers = LAYERS, .states = states}};
    const hs_differentiated of = {
        .engine = engine, .ws = ws, .text = &text, .target = {.kind = HS_TARGET_CLASS, .class = 1}};
    double value, other_value;
    ck_assert_int_eq(hs_differentiate(&of, to, 2, NULL, 0, NULL, &value, NULL), HS_OK);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const hs_effects_options options = {.baseline = &text,
                                            .kind = kinds[k],
                                            .factor = 3,
                                            .other = other.capture,
                                            .layers = outer + 1,
                                            .n_layers = 1,
                                            .heads = hs_all_numbers,
                                            .n_heads = 3,
                                            .target = of.target,
                                            .mask_id = -1};
        hs_effect effects[3];
        float estimates[3];
        ck_assert_int_eq(hs_effects_compute(engine, ws, &options, &alone, effects, NULL), HS_OK);
        hs_effects_estimate(&options, outputs, estimates);
        for (size_t h = 0; h < 3; h++)
            ck_assert_float_eq_tol(estimates[h], effects[h].target_change, 1e-4F);
    }
    const hs_patch_map_options patching = {.clean = &text, .other = other.capture, .target = of.target};
    const hs_differentiated of_other = {.engine = engine, .ws = ws, .text = &other, .target = of.target};
    float exact[(LAYERS + 1) * T], estimated[(LAYERS + 1) * T];
    ck_assert_int_eq(hs_differentiate(&of_other, NULL, 0, NULL, 0, NULL, &other_value, NULL), HS_OK);
    ck_assert_int_eq(hs_patch_map_compute(engine, ws, &patching, &alone, exact, NULL), HS_OK);
    hs_patch_map_estimate(&patching, states, value, other_value, estimated);
    for (size_t i = LAYERS * T; i < (LAYERS + 1) * T; i++)
        ck_assert_float_eq_tol(estimated[i], exact[i], 1e-4F);
    free(outputs), free(states);
    hs_workspace_destroy(ws);
    hs_capture_destroy(text.capture), hs_capture_destroy(other.capture);
    hs_engine_destroy(engine);
}
END_TEST

/* ---- failures ---- */

START_TEST(gradients_survive_every_refused_allocation)
{
    enum { TS = 13, TT = 9 };
    two_texts t;
    two_texts_make(&t, TS, TT);
    hs_engine *fresh = NULL;
    float tokens[TS], maps[TS * TS];
    hs_attribution attribution;
    const hs_attribution_options options = {
        .kind = HS_ATTRIBUTE_INTEGRATED, .of_decoder = _i == 1, .n_steps = 1, .baseline_id = 2};
    ck_assert_int_eq(hs_engine_create(runtime, &t.encoder, &(hs_engine_options){0}, &fresh, NULL), HS_OK);
    const size_t live = chaos_live();
    bool refused = true;
    for (size_t nth = 0; refused; nth++) {
        ck_assert_uint_lt(nth, 1000);
        hs_runtime_trim(runtime, UINT64_MAX);
        chaos_refuse(nth);
        hs_status st = hs_attribution_compute(&t.of, &options, NULL, tokens, &attribution, NULL);
        if (!st)
            st = hs_relevance_compute(&t.of, NULL, maps, NULL, NULL, NULL, NULL);
        if (!st)
            st = hs_gradients_prepare(fresh, true, NULL);
        refused = chaos_stop();
        ck_assert_int_eq(st, refused ? HS_NO_MEMORY : HS_OK);
        hs_runtime_trim(runtime, UINT64_MAX);
        ck_assert(!refused || chaos_live() == live);
    }
    hs_engine_destroy(fresh);
    two_texts_free(&t);
}
END_TEST

START_TEST(weights_state_their_bytes)
{
    const hs_architecture architecture = random_architectures[0].make();
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
    const size_t H = architecture.shape.hidden, n = LAYERS * (4 * H * H + 2 * H * architecture.shape.ffn);
    const size_t bytes = hs_gradients_weights_bytes(engine);
    ck_assert_uint_ge(bytes, n * sizeof(float));
    ck_assert_uint_le(bytes, 2 * n * sizeof(float)); /* rows are filled up to whole vectors */
    ck_assert_uint_gt(hs_tape_bytes(engine, 300, 0, 1), hs_tape_bytes(engine, 100, 0, 1));
    hs_engine_destroy(engine);
}
END_TEST

START_TEST(weights_live_until_all_have_released_them)
{
    const hs_architecture architecture = random_architectures[0].make();
    const hs_sequence text = text_make(5);
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
    hs_workspace *ws = workspace_make(engine, &text);
    hs_tape *tape = NULL;
    const size_t live = chaos_live();
    hs_gradients_release(engine);
    const size_t n_freed = live - chaos_live();
    ck_assert_uint_gt(n_freed, 0);
    ck_assert(!hs_gradients_are_prepared(engine));
    ck_assert_int_eq(hs_tape_record(engine, ws, &text, NULL, &tape, NULL), HS_INVALID);
    for (size_t i = 0; i < 2; i++)
        ck_assert_int_eq(hs_gradients_prepare(engine, false, NULL), HS_OK);
    hs_gradients_release(engine);
    ck_assert(hs_gradients_are_prepared(engine));
    ck_assert_int_eq(hs_tape_record(engine, ws, &text, NULL, &tape, NULL), HS_OK);
    hs_tape_destroy(tape);
    hs_gradients_release(engine);
    ck_assert(!hs_gradients_are_prepared(engine));
    hs_workspace_destroy(ws);
    hs_engine_destroy(engine);
}
END_TEST

enum { BLOCKS_OVERHEAD = 16 * 64 }; /* sizes of a few blocks, rounded up */

/* Logits of the loss of this text do not fit into memory at once. */
START_TEST(calls_allocate_what_they_state)
{
    enum { T = 60 };
    static const hs_shape shape = {LAYERS, 3, 42, 14, 50, RANDOM_TOKENS_MAX, 2, 80000, 0};
    static const hs_target targets[] = {
        {.kind = HS_TARGET_LOSS},
        {.kind = HS_TARGET_CLASS, .class = 1},
        {.kind = HS_TARGET_COSINE, .pooling = {1, {HS_POOL_MEAN}, 0, 0, false}}};
    random_shape = &shape;
    const hs_architecture architecture = architecture_with_heads(_i);
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
    hs_sequence text = text_make(T);
    float tokens[T];
    hs_attribution got;
    hs_differentiated of = {.engine = engine, .ws = workspace_make(engine, &text), .text = &text};
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        for (hs_attribution_kind kind = HS_ATTRIBUTE_GRADIENT; kind <= HS_ATTRIBUTE_INTEGRATED; kind++) {
            const hs_attribution_options options = {.kind = kind, .n_steps = 1, .baseline_id = 2};
            of.target = targets[i];
            of.target.vector = numbers;
            hs_runtime_trim(runtime, UINT64_MAX);
            chaos_peak_begin();
            ck_assert_int_eq(hs_attribution_compute(&of, &options, NULL, tokens, &got, NULL), HS_OK);
            ck_assert_uint_le(chaos_peak(), hs_differentiated_bytes(&of, 1) + BLOCKS_OVERHEAD);
        }
    hs_workspace_destroy(of.ws);
    hs_engine_destroy(engine);
    random_shape = &random_small;
}
END_TEST

START_TEST(calls_over_two_texts_allocate_what_they_state)
{
    enum { TS = 13, TT = 9 };
    two_texts t;
    two_texts_make(&t, TS, TT);
    float tokens[TS];
    hs_attribution got;
    const size_t n_stated = hs_differentiated_bytes(&t.of, 1) + BLOCKS_OVERHEAD;
    for (int of_decoder = 0; of_decoder < 2; of_decoder++) {
        const hs_attribution_options options = {
            .kind = HS_ATTRIBUTE_INTEGRATED, .of_decoder = of_decoder, .n_steps = 1, .baseline_id = 2};
        hs_runtime_trim(runtime, UINT64_MAX);
        chaos_peak_begin();
        ck_assert_int_eq(hs_attribution_compute(&t.of, &options, NULL, tokens, &got, NULL), HS_OK);
        ck_assert_uint_le(chaos_peak(), n_stated);
    }
    hs_runtime_trim(runtime, UINT64_MAX);
    chaos_peak_begin();
    ck_assert_int_eq(hs_relevance_compute(&t.of, NULL, NULL, NULL, NULL, NULL, NULL), HS_OK);
    ck_assert_uint_le(chaos_peak(), n_stated + hs_relevance_bytes(&t.of));
    two_texts_free(&t);
}
END_TEST

static Suite *suite(void)
{
    const int n = (int)n_random_architectures, n_decoders = (int)n_random_decoders;
    Suite *s = suite_create("gradients");
    TCase *differences = tcase_create("finite differences"), *properties = tcase_create("properties"),
          *targets = tcase_create("targets"), *failures = tcase_create("failures");
    TCase *const cases[] = {differences, properties, targets, failures};
    for (size_t i = 0; i < 4; i++) {
        tcase_add_checked_fixture(cases[i], setup, teardown);
        suite_add_tcase(s, cases[i]);
    }
    tcase_add_loop_test(differences, architectures_agree_with_finite_differences, 0, n / SLOWNESS);
    tcase_add_loop_test(differences, root_mean_squares_agree_with_finite_differences, 0, n / SLOWNESS);
    tcase_add_loop_test(differences, every_instruction_set_agrees_with_finite_differences, 0, n / SLOWNESS);
    tcase_add_loop_test(differences, long_texts_agree_with_finite_differences, 0, n / SLOWNESS);
    tcase_add_loop_test(differences, decoders_agree_with_finite_differences, 0,
                        n_decoders > SLOWNESS ? n_decoders / SLOWNESS : n_decoders);
    tcase_add_loop_test(differences, interventions_agree_with_finite_differences, 0, N_INTERVENTIONS);
    tcase_add_loop_test(properties, slopes_are_those_of_the_activations, 0, HS_N_ACTIVATIONS);
    tcase_add_loop_test(properties, maps_follow_from_outputs, 0, n + n_decoders);
    tcase_add_loop_test(properties, memory_and_threads_change_no_bit, 0, n + n_decoders);
    tcase_add_loop_test(properties, a_selection_changes_no_bit, 0, n);
    tcase_add_test(properties, gradients_are_linear);
    tcase_add_test(properties, equal_heads_have_equal_gradients);
    tcase_add_loop_test(properties, patches_pass_no_gradient, 0, n);
    tcase_add_loop_test(properties, additions_pass_the_whole_gradient, 0, n);
    tcase_add_loop_test(targets, targets_agree_with_finite_differences, 0, 4);
    tcase_add_loop_test(targets, targets_of_tokens_agree_with_finite_differences, 0, 2);
    tcase_add_test(targets, a_target_of_a_decoder_reaches_its_encoder);
    tcase_add_test(targets, integrated_gradients_are_complete);
    tcase_add_test(targets, attributions_of_tokens_are_read_of_rows);
    tcase_add_test(targets, relevance_follows_its_rules);
    tcase_add_test(targets, threads_change_no_bit_of_relevance);
    tcase_add_test(targets, relevance_ends_when_it_is_cancelled);
    tcase_add_test(targets, estimates_of_the_last_layer_are_exact);
    tcase_add_test(failures, unsound_gradients_are_refused);
    tcase_add_loop_test(failures, gradients_survive_every_refused_allocation, 0, 2);
    tcase_add_test(failures, weights_state_their_bytes);
    tcase_add_test(failures, weights_live_until_all_have_released_them);
    tcase_add_loop_test(failures, calls_allocate_what_they_state, 0, 4);
    tcase_add_test(failures, calls_over_two_texts_allocate_what_they_state);
    return s;
}

int main(void)
{
    return tests_run(suite());
}
