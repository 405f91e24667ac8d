/* test_engine.c - the engine on random models of odd shapes. Backends are compared with each other.
 * Batches and threads are compared to the bit with one text on one thread, selections with full captures.
 * tests/reference shows that the numbers are the paper's. */
#include "engine/engine.h"
#include "engine/pass/team.h"
#include "model/base/clock.h"
#include "tests/unit/architecture_reference.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* layers, heads, hidden, head width, ffn, positions, types, vocabulary, key-value heads */
static const hs_shape shapes[] = {
    {1, 5, 60, 12, 100, 40, 2, 300, 0},   {24, 2, 32, 16, 70, 64, 1, 50, 0}, {2, 1, 7, 7, 13, 90, 2, 20, 0},
    {3, 4, 256, 64, 512, 130, 2, 100, 0}, {2, 3, 3, 1, 1, 33, 2, 10, 0},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes, TEXTS = 4 };
#define EVERYTHING                                                                                           \
    (HS_KEEP(ATTENTION) | HS_KEEP(SIMILARITY) | HS_KEEP(RESIDUAL_SIMILARITY) |                               \
     HS_KEEP(CENTERED_SIMILARITY) | HS_KEEP(CENTERED_RESIDUAL_SIMILARITY) | HS_KEEP(HEAD_OUTPUT) |           \
     HS_KEEP(HIDDEN_STATE))

/* The runtime of the test that runs: four threads, more than this machine may have. */
static hs_runtime *runtime;

static void runtime_setup(void)
{
    ck_assert_int_eq(hs_runtime_create(4, &runtime, NULL), HS_OK);
}

static void runtime_teardown(void)
{
    hs_runtime_destroy(runtime);
    random_architecture_free();
}

static hs_architecture make_model(const hs_shape *shape)
{
    return random_architecture(shape, shape->hidden);
}

static hs_engine *make_engine(const hs_architecture *model, const hs_engine_options *options)
{
    hs_engine *engine = NULL;
    hs_error err = {0};
    ck_assert_msg(hs_engine_create(runtime, model, options, &engine, &err) == HS_OK, "%s", err.text);
    return engine;
}

static hs_capture *make_capture(const hs_engine *engine, const hs_selection *selection, size_t n_tokens)
{
    const hs_shape *shape = hs_engine_shape(engine);
    const hs_selection full = hs_select_all(shape, EVERYTHING);
    hs_capture *capture = NULL;
    ck_assert_int_eq(
        hs_capture_create(runtime, shape, selection ? selection : &full, n_tokens, &capture, NULL), HS_OK);
    ck_assert_uint_eq(capture->bytes, hs_capture_bytes(shape, selection ? selection : &full, n_tokens));
    ck_assert_uint_eq((uintptr_t)capture->arrays[HS_TAP_ATTENTION] % 64, 0);
    return capture;
}

/* Texts of different lengths with everything kept; ids and types are shared by all tests. */
typedef struct texts {
    int32_t ids[TEXTS][256];
    uint8_t types[TEXTS][256];
    hs_sequence sequences[TEXTS];
    size_t n_tokens;
} texts;

static void texts_make(const hs_engine *engine, texts *t)
{
    const hs_shape *shape = hs_engine_shape(engine);
    const size_t lengths[TEXTS] = {shape->n_positions, 1, shape->n_positions / 2 + 1, 17};
    t->n_tokens = 0;
    for (size_t s = 0; s < TEXTS; s++) {
        for (size_t i = 0; i < lengths[s]; i++) {
            t->ids[s][i] = (int32_t)((i * 7 + s * 13 + i * i) % shape->vocab_size);
            t->types[s][i] = shape->n_types > 1 && i > lengths[s] / 2;
        }
        t->sequences[s] = (hs_sequence){.ids = t->ids[s],
                                        .types = s % 2 ? NULL : t->types[s],
                                        .n_tokens = lengths[s],
                                        .capture = make_capture(engine, NULL, lengths[s])};
        t->n_tokens += lengths[s];
    }
}

static void texts_free(texts *t)
{
    for (size_t s = 0; s < TEXTS; s++)
        hs_capture_destroy(t->sequences[s].capture);
}

static void run(const hs_engine *engine, const hs_sequence *sequences, size_t n, size_t n_threads)
{
    hs_workspace *ws = NULL;
    hs_error err = {0};
    size_t n_tokens = 0;
    for (size_t s = 0; s < n; s++)
        n_tokens += sequences[s].n_tokens;
    ck_assert_int_eq(hs_workspace_create(engine, n_tokens, &ws, NULL), HS_OK);
    const hs_run_control control = {.n_threads = n_threads};
    ck_assert_msg(hs_engine_compute(engine, ws, sequences, n, NULL, &control, &err) == HS_OK, "%s", err.text);
    hs_workspace_destroy(ws);
}

static size_t map_floats(const hs_capture *c)
{
    return c->n_layers * c->n_heads * c->n_tokens * c->n_tokens;
}

/* One assertion for all of them: Check reports each to its parent process. */
static void compare(const float *a, const float *b, size_t n, double tolerance, const char *what)
{
    float largest = 1;
    size_t bad = n;
    for (size_t i = 0; i < n; i++)
        largest = fmaxf(largest, fabsf(b[i]));
    for (size_t i = 0; i < n && bad == n; i++)
        if (!(fabs(a[i] - b[i]) <= tolerance * largest))
            bad = i;
    ck_assert_msg(bad == n, "%s at %zu: %g and %g", what, bad, a[bad], b[bad]);
}

static void compare_captures(const hs_capture *a, const hs_capture *b, double tolerance)
{
    const size_t T = a->n_tokens, n_maps = a->n_layers * a->n_heads;
    compare(a->arrays[HS_TAP_ATTENTION], b->arrays[HS_TAP_ATTENTION], map_floats(a), tolerance, "attention");
    compare(a->arrays[HS_TAP_SIMILARITY], b->arrays[HS_TAP_SIMILARITY], map_floats(a), tolerance,
            "similarity");
    compare(a->arrays[HS_TAP_COLUMNS], b->arrays[HS_TAP_COLUMNS], n_maps * T, tolerance, "column sum");
    compare(a->arrays[HS_TAP_HEAD_OUTPUT], b->arrays[HS_TAP_HEAD_OUTPUT], n_maps * T * a->head_width,
            tolerance, "head output");
    compare(a->arrays[HS_TAP_HIDDEN_STATE], b->arrays[HS_TAP_HIDDEN_STATE], (1 + a->n_layers) * T * a->hidden,
            tolerance, "hidden state");
}

START_TEST(backends_agree)
{
    const hs_architecture model = make_model(&shapes[_i]);
    hs_engine *native = make_engine(&model, &(hs_engine_options){.products = HS_PRODUCTS_NATIVE});
    ck_assert_str_eq(hs_engine_products(native), "native");
    texts expected, got;
    texts_make(native, &expected);
    run(native, expected.sequences, TEXTS, 1);
    hs_engine *other = make_engine(&model, &(hs_engine_options){.products = HS_PRODUCTS_CBLAS});
    ck_assert_str_eq(hs_engine_products(other), "openblas");
    for (size_t n_threads = 1; n_threads <= 2; n_threads++) {
        texts_make(other, &got);
        run(other, got.sequences, TEXTS, n_threads);
        for (size_t s = 0; s < TEXTS; s++)
            compare_captures(got.sequences[s].capture, expected.sequences[s].capture, 2e-5);
        texts_free(&got);
    }
    hs_engine_destroy(other);
    texts_free(&expected);
    hs_engine_destroy(native);
}
END_TEST

static size_t count_faults(size_t T, size_t D, const float *A, const float *S, const float *O,
                           const float *columns)
{
    size_t n = 0;
    for (size_t i = 0; i < T; i++) {
        double row = 0, column = 0;
        for (size_t j = 0; j < T; j++) {
            double dot = 0, size = 1e-6;
            for (size_t d = 0; d < D; d++) {
                dot += (double)O[i * D + d] * O[j * D + d];
                size += fabs((double)O[i * D + d] * O[j * D + d]);
            }
            n += !(fabs(S[i * T + j] - (i == j ? 0 : dot)) <= 1e-6 * size);
            n += S[i * T + j] != S[j * T + i];
            row += A[i * T + j];
            column += A[j * T + i];
        }
        n += !(fabs(row - 1) <= 2e-6);
        n += !(fabs(columns[i] - column) <= 1e-5);
    }
    return n;
}

/* Properties of the maps on every backend: rows sum to 1, columns are their sums, S is symmetric and O O'. */
START_TEST(captures_are_consistent)
{
    const hs_architecture model = make_model(&shapes[_i]);
    hs_engine *engine = make_engine(&model, &(hs_engine_options){0});
    texts t;
    texts_make(engine, &t);
    run(engine, t.sequences, TEXTS, 1);
    for (size_t s = 0; s < TEXTS; s++) {
        const hs_capture *c = t.sequences[s].capture;
        const size_t T = c->n_tokens, D = c->head_width;
        for (size_t map = 0; map < c->n_layers * c->n_heads; map++) {
            const float *A = hs_capture_at(c, HS_TAP_ATTENTION, map / c->n_heads, map % c->n_heads);
            const float *S = hs_capture_at(c, HS_TAP_SIMILARITY, map / c->n_heads, map % c->n_heads);
            const float *O = hs_capture_at(c, HS_TAP_HEAD_OUTPUT, map / c->n_heads, map % c->n_heads);
            const float *columns = hs_capture_at(c, HS_TAP_COLUMNS, map / c->n_heads, map % c->n_heads);
            ck_assert_uint_eq(count_faults(T, D, A, S, O, columns), 0);
        }
    }
    texts_free(&t);
    hs_engine_destroy(engine);
}
END_TEST

START_TEST(batches_and_threads_change_no_bit)
{
    const hs_architecture model = make_model(&shapes[_i]);
    hs_engine *engine = make_engine(&model, &(hs_engine_options){0});
    texts alone, batch;
    texts_make(engine, &alone);
    for (size_t s = 0; s < TEXTS; s++)
        run(engine, &alone.sequences[s], 1, 1);
    for (size_t n_threads = 0; n_threads <= 5; n_threads++) {
        texts_make(engine, &batch);
        run(engine, batch.sequences, TEXTS, n_threads);
        for (size_t s = 0; s < TEXTS; s++)
            compare_captures(batch.sequences[s].capture, alone.sequences[s].capture, 0);
        texts_free(&batch);
    }
    texts_free(&alone);
    hs_engine_destroy(engine);
}
END_TEST

/* The maps that an observer got. */
typedef struct shown {
    const texts *expected;
    const hs_engine *engine;
    hs_similarity kind;
    size_t n, n_wrong;
} shown;

/* Compares lengths with those of the capture's outputs: plain ones are roots of sums of squares; of others,
 * no similarity exceeds the product of two. */
static void lengths_compare(shown *seen, const hs_capture *c, size_t l, size_t h, const float *lengths)
{
    const bool plain = !seen->kind.residual && !seen->kind.centered;
    const size_t T = c->n_tokens, D = c->head_width;
    const float *output = hs_capture_at(c, HS_TAP_HEAD_OUTPUT, l, h),
                *similarity = hs_capture_at(c, hs_similarity_tap(seen->kind), l, h);
    float *again = malloc(T * sizeof *again);
    ck_assert_int_eq(hs_engine_lengths(seen->engine, c, l, h, seen->kind, again, NULL), HS_OK);
    seen->n_wrong += memcmp(again, lengths, T * sizeof *again) != 0;
    free(again);
    for (size_t i = 0; i < T; i++) {
        double square = 0;
        for (size_t d = 0; d < D; d++)
            square += (double)output[i * D + d] * (double)output[i * D + d];
        seen->n_wrong += plain && fabs((double)lengths[i] - sqrt(square)) > 1e-7 * sqrt(square);
        for (size_t j = 0; j < i; j++)
            seen->n_wrong += fabsf(similarity[i * T + j]) > lengths[i] * lengths[j] * 1.0001F + 1e-6F;
    }
}

static void compare_shown(void *context, size_t s, size_t l, size_t h, const hs_observed_head *head)
{
    shown *seen = context;
    const hs_capture *c = seen->expected->sequences[s].capture;
    const size_t T = c->n_tokens;
    seen->n_wrong += seen->n++ != (l * c->n_heads + h) * TEXTS + s;
    seen->n_wrong +=
        memcmp(head->attention, hs_capture_at(c, HS_TAP_ATTENTION, l, h), T * T * sizeof(float)) != 0;
    const float *similarity = hs_capture_at(c, hs_similarity_tap(seen->kind), l, h);
    for (size_t i = 0; i < T; i++)
        for (size_t j = i + 1; j < T; j++)
            seen->n_wrong += head->similarity[i * T + j] != similarity[i * T + j];
    lengths_compare(seen, c, l, h, head->lengths);
    seen->n_wrong += memcmp(head->columns, hs_capture_at(c, HS_TAP_COLUMNS, l, h), T * sizeof(float)) != 0;
}

/* Captures that keep nothing and captures that keep all, in one pass; similarities of either space, centred
 * or not. */
START_TEST(observers_are_shown_what_captures_would_keep)
{
    const hs_similarity kind = {.residual = (size_t)_i / N_SHAPES % 2, .centered = (size_t)_i / N_SHAPES / 2};
    const hs_architecture model = make_model(&shapes[(size_t)_i % N_SHAPES]);
    hs_engine *engine = make_engine(&model, &(hs_engine_options){0});
    texts kept, observed;
    texts_make(engine, &kept);
    texts_make(engine, &observed);
    run(engine, kept.sequences, TEXTS, 1);
    size_t T_max = 0, n_tokens = 0;
    for (size_t s = 0; s < TEXTS; s++) {
        hs_capture **capture = &observed.sequences[s].capture;
        const size_t T = (*capture)->n_tokens;
        const hs_selection nothing = {
            (*capture)->layers, (*capture)->n_layers, (*capture)->heads, (*capture)->n_heads, 0, 0};
        hs_capture *empty = make_capture(engine, &nothing, T);
        if (s % 2) {
            hs_capture_destroy(*capture);
            *capture = empty;
        } else {
            hs_capture_destroy(empty);
        }
        T_max = T > T_max ? T : T_max;
        n_tokens += T;
    }
    float *maps = malloc(2 * (T_max * T_max + T_max) * sizeof *maps);
    shown seen = {.expected = &kept, .engine = engine, .kind = kind};
    const hs_observer observer = {.attention = maps,
                                  .similarity = maps + T_max * T_max,
                                  .columns = maps + 2 * T_max * T_max,
                                  .lengths = maps + 2 * T_max * T_max + T_max,
                                  .show = compare_shown,
                                  .context = &seen,
                                  .n_threads = 1,
                                  .kind = kind};
    hs_workspace *ws = NULL;
    ck_assert_int_eq(hs_workspace_create(engine, n_tokens, &ws, NULL), HS_OK);
    ck_assert_int_eq(hs_engine_compute(engine, ws, observed.sequences, TEXTS, &observer,
                                       &(hs_run_control){.n_threads = 2}, NULL),
                     HS_OK);
    const hs_capture *c = kept.sequences[0].capture;
    ck_assert_uint_eq(seen.n, c->n_layers * c->n_heads * TEXTS);
    ck_assert_uint_eq(seen.n_wrong, 0);
    compare_captures(observed.sequences[0].capture, c, 0);
    hs_workspace_destroy(ws);
    free(maps);
    texts_free(&kept);
    texts_free(&observed);
    hs_engine_destroy(engine);
}
END_TEST

/* Returns the mean change of attention. */
static double attention_moved(const hs_capture *a, const hs_capture *b)
{
    const size_t n = map_floats(a);
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += fabs((double)a->arrays[HS_TAP_ATTENTION][i] - (double)b->arrays[HS_TAP_ATTENTION][i]);
    return sum / (double)n;
}

/* The sanitizers have allocators of their own. */
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
enum { SHADOWED = true };
#else
enum { SHADOWED = false };
#endif

/* Returns the bytes that the program has allocated. */
static size_t allocated(void)
{
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* Blocks are rounded up to pages, large ones to huge pages; small structs are not measured. */
START_TEST(an_engine_takes_what_was_measured)
{
    static const hs_engine_options options[] = {{.products = HS_PRODUCTS_NATIVE},
                                                {.products = HS_PRODUCTS_CBLAS},
                                                {.precision = HS_PRECISION_BF16},
                                                {.precision = HS_PRECISION_INT8}};
    const hs_architecture model = make_model(&shapes[_i]);
    const size_t slack = 64 << 10, T = shapes[_i].n_positions;
    for (size_t k = 0; k < sizeof options / sizeof *options; k++) {
        size_t weights = 0, scratch = 0;
        hs_engine *engine = NULL;
        hs_workspace *ws = NULL;
        const hs_status st = hs_engine_measure(runtime, &model, &options[k], T, &weights, &scratch, NULL);
        const size_t before = allocated();
        ck_assert_int_eq(hs_engine_create(runtime, &model, &options[k], &engine, NULL), st);
        if (st)
            continue;
        const size_t between = allocated();
        ck_assert_int_eq(hs_workspace_create(engine, T, &ws, NULL), HS_OK);
        const size_t after = allocated();
        ck_assert_uint_eq(scratch, hs_workspace_bytes(engine, T));
        if (!SHADOWED) {
            ck_assert_uint_ge(between - before + slack, weights);
            ck_assert_uint_le(between - before, weights + weights / 2 + slack);
            ck_assert_uint_ge(after - between + slack, scratch);
        }
        hs_workspace_destroy(ws);
        hs_engine_destroy(engine);
    }
}
END_TEST

/* Checks that a precision moves maps a little, by `most` on average. bfloat16 has 8 bits. In a random model
 * of many layers single rows tip over, which ones depends on how the CPU rounds, so no element moves further
 * than the wider tolerance. An engine that cannot compute in it is refused. */
static void check_precision(const hs_shape *shape, hs_precision precision, const char *name, double tolerance,
                            double most)
{
    static const hs_products backends[] = {HS_PRODUCTS_NATIVE, HS_PRODUCTS_CBLAS};
    const hs_architecture model = make_model(shape);
    hs_engine *exact = make_engine(&model, &(hs_engine_options){0});
    texts expected, got;
    texts_make(exact, &expected);
    run(exact, expected.sequences, TEXTS, 1);
    for (size_t b = 0; b < sizeof backends / sizeof *backends; b++) {
        const hs_engine_options options = {.products = backends[b], .precision = precision};
        hs_engine *engine = NULL;
        hs_error err = {0};
        if (hs_engine_create(runtime, &model, &options, &engine, &err)) {
            ck_assert_int_eq(err.status, HS_UNSUPPORTED);
            ck_assert_ptr_null(engine);
            continue;
        }
        ck_assert_int_eq(backends[b], HS_PRODUCTS_NATIVE);
        ck_assert_str_eq(hs_engine_precision(engine), name);
        texts_make(engine, &got);
        run(engine, got.sequences, TEXTS, 2);
        for (size_t s = 0; s < TEXTS; s++) {
            compare_captures(got.sequences[s].capture, expected.sequences[s].capture, tolerance);
            const hs_capture *capture = got.sequences[s].capture;
            const double moved = attention_moved(capture, expected.sequences[s].capture);
            ck_assert_msg((moved > 0 || capture->n_tokens == 1) && moved < most, "attention moved by %g",
                          moved);
        }
        texts_free(&got);
        hs_engine_destroy(engine);
    }
    texts_free(&expected);
    hs_engine_destroy(exact);
}

START_TEST(int24_is_close_or_refused)
{
    check_precision(&shapes[_i], HS_PRECISION_INT24, "int24", 1e-4, 5e-6);
}
END_TEST

START_TEST(bf16_is_close_or_refused)
{
    check_precision(&shapes[_i], HS_PRECISION_BF16, "bf16", 0.25, 0.003);
}
END_TEST

START_TEST(int8_is_close_or_refused)
{
    check_precision(&shapes[_i], HS_PRECISION_INT8, "int8", 0.5, 0.025);
}
END_TEST

static void check_batch(const hs_shape *shape, hs_precision precision)
{
    const hs_architecture model = make_model(shape);
    const hs_engine_options options = {.precision = precision};
    hs_engine *engine = NULL;
    texts together, alone;
    if (hs_engine_create(runtime, &model, &options, &engine, NULL))
        return;
    texts_make(engine, &together);
    texts_make(engine, &alone);
    run(engine, together.sequences, TEXTS, 2);
    for (size_t s = 0; s < TEXTS; s++) {
        run(engine, &alone.sequences[s], 1, 1);
        compare_captures(alone.sequences[s].capture, together.sequences[s].capture, 0);
    }
    texts_free(&together);
    texts_free(&alone);
    hs_engine_destroy(engine);
}

/* Rounded by its own row, a text has the same bits in any company and on any number of threads. */
START_TEST(precisions_have_the_same_bits_in_a_batch)
{
    check_batch(&shapes[_i], HS_PRECISION_BF16);
    check_batch(&shapes[_i], HS_PRECISION_INT8);
    check_batch(&shapes[_i], HS_PRECISION_INT24);
}
END_TEST

START_TEST(selections_are_slices_of_the_whole)
{
    const hs_shape *shape = &shapes[1];
    static const uint16_t layers[] = {0, 3, 22}, heads[] = {1};
    const size_t T = 40, n = T * T;
    const hs_architecture model = make_model(shape);
    hs_engine *engine = make_engine(&model, &(hs_engine_options){0});
    int32_t ids[40] = {5, 6, 7, 8, 9, 10};
    hs_capture *whole = make_capture(engine, NULL, T);
    run(engine, &(hs_sequence){.ids = ids, .n_tokens = T, .capture = whole}, 1, 1);
    static const unsigned kept[] = {HS_KEEP(ATTENTION), HS_KEEP(SIMILARITY), HS_KEEP(HEAD_OUTPUT),
                                    HS_KEEP(HIDDEN_STATE)};
    for (unsigned subset = 0; subset < 16; subset++) {
        unsigned keep = 0;
        for (size_t k = 0; k < 4; k++)
            keep |= subset >> k & 1 ? kept[k] : 0;
        const hs_selection selection = {layers, 3, heads, 1, keep, 0};
        hs_capture *part = make_capture(engine, &selection, T);
        ck_assert_int_eq(part->arrays[HS_TAP_ATTENTION] != NULL, (keep & HS_KEEP(ATTENTION)) != 0);
        ck_assert_int_eq(part->arrays[HS_TAP_COLUMNS] != NULL, (keep & HS_KEEP(ATTENTION)) != 0);
        run(engine, &(hs_sequence){.ids = ids, .n_tokens = T, .capture = part}, 1, 2);
        for (size_t l = 0; l < 3; l++) {
            if (part->arrays[HS_TAP_ATTENTION]) {
                compare(hs_capture_at(part, HS_TAP_ATTENTION, l, 0),
                        hs_capture_at(whole, HS_TAP_ATTENTION, layers[l], 1), n, 0, "A");
                compare(hs_capture_at(part, HS_TAP_COLUMNS, l, 0),
                        hs_capture_at(whole, HS_TAP_COLUMNS, layers[l], 1), T, 0, "c");
            }
            if (part->arrays[HS_TAP_SIMILARITY])
                compare(hs_capture_at(part, HS_TAP_SIMILARITY, l, 0),
                        hs_capture_at(whole, HS_TAP_SIMILARITY, layers[l], 1), n, 0, "S");
            if (part->arrays[HS_TAP_HEAD_OUTPUT])
                compare(hs_capture_at(part, HS_TAP_HEAD_OUTPUT, l, 0),
                        hs_capture_at(whole, HS_TAP_HEAD_OUTPUT, layers[l], 1), T * shape->head_width, 0,
                        "O");
            if (part->arrays[HS_TAP_HIDDEN_STATE])
                compare(part->arrays[HS_TAP_HIDDEN_STATE] + (l + 1) * T * shape->hidden,
                        whole->arrays[HS_TAP_HIDDEN_STATE] + (layers[l] + (size_t)1) * T * shape->hidden,
                        T * shape->hidden, 0, "x");
        }
        if (part->arrays[HS_TAP_HIDDEN_STATE])
            compare(part->arrays[HS_TAP_HIDDEN_STATE], whole->arrays[HS_TAP_HIDDEN_STATE], T * shape->hidden,
                    0, "embeddings");
        hs_capture_destroy(part);
    }
    hs_capture_destroy(whole);
    hs_engine_destroy(engine);
}
END_TEST

/* Selections differ within a batch: each gets its own, the deepest sets how far the pass goes. */
START_TEST(a_batch_may_mix_selections)
{
    static const uint16_t none[] = {0}, first[] = {0}, last[] = {2};
    const hs_selection selections[] = {{none, 0, none, 0, HS_KEEP(HIDDEN_STATE), 0},
                                       {first, 1, last, 1, EVERYTHING, 0},
                                       {last, 1, first, 1, HS_KEEP(ATTENTION), 0}};
    const hs_architecture model = make_model(&shapes[3]);
    hs_engine *engine = make_engine(&model, &(hs_engine_options){0});
    const int32_t ids[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    hs_sequence sequences[3];
    hs_capture *whole = make_capture(engine, NULL, 9);
    run(engine, &(hs_sequence){.ids = ids, .n_tokens = 9, .capture = whole}, 1, 1);
    for (size_t s = 0; s < 3; s++)
        sequences[s] =
            (hs_sequence){.ids = ids, .n_tokens = 9, .capture = make_capture(engine, &selections[s], 9)};
    run(engine, sequences, 3, 1);
    compare(sequences[0].capture->arrays[HS_TAP_HIDDEN_STATE], whole->arrays[HS_TAP_HIDDEN_STATE], 9 * 256, 0,
            "embeddings");
    compare(sequences[1].capture->arrays[HS_TAP_ATTENTION], hs_capture_at(whole, HS_TAP_ATTENTION, 0, 2), 81,
            0, "attention");
    compare(sequences[1].capture->arrays[HS_TAP_HIDDEN_STATE] + 9 * 256,
            whole->arrays[HS_TAP_HIDDEN_STATE] + 9 * 256, 9 * 256, 0, "x");
    compare(sequences[2].capture->arrays[HS_TAP_ATTENTION], hs_capture_at(whole, HS_TAP_ATTENTION, 2, 0), 81,
            0, "attention");
    for (size_t s = 0; s < 3; s++)
        hs_capture_destroy(sequences[s].capture);
    hs_capture_destroy(whole);
    hs_engine_destroy(engine);
}
END_TEST

/* Large captures take their memory from one before them; threads that do so at once each get their own. */
static void *capture_main(void *unused)
{
    const hs_shape shape = {.n_layers = 4, .n_heads = 4, .hidden = 8, .head_width = 2, .n_positions = 600};
    const hs_selection selection = {hs_all_numbers, 4, hs_all_numbers, 4, HS_KEEP(ATTENTION), 0};
    for (size_t round = 0; round < 60; round++) {
        hs_capture *captures[6];
        for (size_t i = 0; i < 6; i++) {
            ck_assert_int_eq(hs_capture_create(runtime, &shape, &selection, 300 + 37 * ((round + i) % 8),
                                               &captures[i], NULL),
                             HS_OK);
            captures[i]->arrays[HS_TAP_ATTENTION][0] = (float)i;
        }
        for (size_t i = 0; i < 6; i++) {
            ck_assert_float_eq(captures[i]->arrays[HS_TAP_ATTENTION][0], (float)i);
            hs_capture_destroy(captures[i]);
        }
    }
    return unused;
}

START_TEST(large_captures_are_used_again)
{
    const hs_shape shape = {.n_layers = 4, .n_heads = 4, .hidden = 8, .head_width = 2, .n_positions = 600};
    const hs_selection selection = {hs_all_numbers, 4, hs_all_numbers, 4, HS_KEEP(ATTENTION), 0};
    hs_capture *first = NULL, *second = NULL, *third = NULL;
    ck_assert_int_eq(hs_capture_create(runtime, &shape, &selection, 400, &first, NULL), HS_OK);
    const void *memory = first;
    hs_capture_destroy(first);
    ck_assert_int_eq(hs_capture_create(runtime, &shape, &selection, 390, &second, NULL), HS_OK);
    ck_assert_ptr_eq(second, memory);
    ck_assert_uint_eq(second->bytes, hs_capture_bytes(&shape, &selection, 390));
    ck_assert_int_eq(hs_capture_create(runtime, &shape, &selection, 390, &third, NULL), HS_OK);
    ck_assert_ptr_ne(third, memory);
    hs_capture_destroy(second);
    hs_capture_destroy(third);

    pthread_t threads[3];
    for (size_t t = 0; t < 3; t++)
        ck_assert_int_eq(pthread_create(&threads[t], NULL, capture_main, NULL), 0);
    for (size_t t = 0; t < 3; t++)
        pthread_join(threads[t], NULL);
}
END_TEST

/* A capture and its answer are both kept if the limit allows it. Nothing touches their pages. */
START_TEST(a_runtime_keeps_what_it_may)
{
    enum { N = 2 };
    const size_t n_bytes = (size_t)300 << 20, huge_page = 2 << 20;
    hs_runtime *own = NULL;
    ck_assert_int_eq(hs_runtime_create(1, &own, NULL), HS_OK);
    hs_runtime_keep(own, N * (n_bytes + huge_page));
    void *blocks[N + 1], *again[N];
    size_t sizes[N + 1], size;
    for (size_t i = 0; i <= N; i++)
        ck_assert_ptr_nonnull(blocks[i] = hs_runtime_block_take(own, n_bytes, &sizes[i]));
    for (size_t i = 0; i <= N; i++)
        hs_runtime_block_return(own, blocks[i], sizes[i]);
    for (size_t i = 0; i < N; i++) {
        again[i] = hs_runtime_block_take(own, n_bytes, &size);
        ck_assert(again[i] == blocks[1] || again[i] == blocks[2]);
    }
    for (size_t i = 0; i < N; i++)
        hs_runtime_block_return(own, again[i], sizes[1]);
    hs_runtime_destroy(own);
}
END_TEST

/* Memory of this size comes from the system, which clears it: a new block does not hold the mark. */
START_TEST(unused_blocks_are_given_back)
{
    enum { MARK = 42 };
    const size_t n_bytes = (size_t)64 << 20;
    size_t size;
    hs_runtime *own = NULL;
    ck_assert_int_eq(hs_runtime_create(1, &own, NULL), HS_OK);
    unsigned char *block = hs_runtime_block_take(own, n_bytes, &size);
    ck_assert_ptr_nonnull(block);
    *block = MARK;
    const uint64_t before = hs_clock_ns();
    hs_runtime_block_return(own, block, size);
    hs_runtime_trim(own, before);
    unsigned char *again = hs_runtime_block_take(own, n_bytes, &size);
    ck_assert_ptr_eq(again, block);
    ck_assert_uint_eq(*again, MARK);
    hs_runtime_block_return(own, again, size);
    hs_runtime_trim(own, hs_clock_ns() + 1);
    unsigned char *other = hs_runtime_block_take(own, n_bytes, &size);
    ck_assert_ptr_nonnull(other);
    ck_assert_uint_ne(*other, MARK);
    hs_runtime_block_return(own, other, size);
    hs_runtime_destroy(own);
}
END_TEST

/* Answers are compressed, or grow, into memory that lies otherwise. */
START_TEST(captures_are_aligned_whatever_was_returned)
{
    const hs_shape shape = {.n_layers = 4, .n_heads = 4, .hidden = 8, .head_width = 2, .n_positions = 600};
    const hs_selection selection = {hs_all_numbers, 4, hs_all_numbers, 4, HS_KEEP(ATTENTION), 0};
    const size_t n_bytes = hs_capture_bytes(&shape, &selection, 500);
    ck_assert_uint_gt(n_bytes, 4 << 20);
    for (size_t i = 0; i < 8; i++) {
        void *block = malloc(n_bytes);
        hs_capture *capture = NULL;
        ck_assert_ptr_nonnull(block);
        hs_runtime_block_return(runtime, block, n_bytes);
        ck_assert_int_eq(hs_capture_create(runtime, &shape, &selection, 500, &capture, NULL), HS_OK);
        ck_assert_uint_eq((uintptr_t)capture % 64, 0);
        ck_assert_uint_eq((uintptr_t)capture->arrays[HS_TAP_ATTENTION] % 64, 0);
        hs_capture_destroy(capture);
    }
}
END_TEST

START_TEST(what_cannot_run_is_refused)
{
    const hs_architecture model = make_model(&shapes[0]);
    hs_engine *engine = make_engine(&model, &(hs_engine_options){0});
    static const uint16_t descending[] = {1, 0}, beyond[] = {5};
    int32_t ids[40] = {0};
    uint8_t types[40] = {0};
    hs_workspace *ws = NULL;
    hs_capture *capture = make_capture(engine, NULL, 40), *refused = NULL;
    ck_assert_int_eq(hs_workspace_create(engine, 0, &ws, NULL), HS_INVALID);
    ck_assert_int_eq(hs_workspace_create(engine, 40, &ws, NULL), HS_OK);
    const hs_sequence two[] = {{.ids = ids, .n_tokens = 40, .capture = capture},
                               {.ids = ids, .n_tokens = 40, .capture = capture}};

    ck_assert_int_eq(hs_engine_compute(engine, ws, two, 0, NULL, NULL, NULL), HS_OK);
    ck_assert_int_eq(hs_engine_compute(engine, ws, two, 1, NULL, NULL, NULL), HS_OK);
    ck_assert_int_eq(hs_engine_compute(engine, ws, two, 2, NULL, NULL, NULL), HS_TOO_LARGE);
    ck_assert_int_eq(hs_engine_compute(engine, ws,
                                       &(hs_sequence){.ids = ids, .n_tokens = 41, .capture = capture}, 1,
                                       NULL, NULL, NULL),
                     HS_TOO_LARGE);
    ck_assert_int_eq(hs_engine_compute(engine, ws,
                                       &(hs_sequence){.ids = ids, .n_tokens = 39, .capture = capture}, 1,
                                       NULL, NULL, NULL),
                     HS_INVALID);
    ck_assert_int_eq(hs_engine_compute(engine, ws,
                                       &(hs_sequence){.ids = ids, .n_tokens = 40, .capture = NULL}, 1, NULL,
                                       NULL, NULL),
                     HS_INVALID);
    types[39] = 2;
    ck_assert_int_eq(
        hs_engine_compute(engine, ws,
                          &(hs_sequence){.ids = ids, .types = types, .n_tokens = 40, .capture = capture}, 1,
                          NULL, NULL, NULL),
        HS_INVALID);
    ids[7] = -1;
    ck_assert_int_eq(hs_engine_compute(engine, ws, two, 1, NULL, NULL, NULL), HS_INVALID);
    ids[7] = 300;
    ck_assert_int_eq(hs_engine_compute(engine, ws, two, 1, NULL, NULL, NULL), HS_INVALID);

    const hs_shape *shape = hs_engine_shape(engine);
    const hs_selection unordered = {beyond, 0, descending, 2, EVERYTHING, 0},
                       too_far = {beyond, 1, beyond, 0, 0, 0};
    ck_assert_int_eq(hs_capture_create(runtime, shape, &unordered, 4, &refused, NULL), HS_INVALID);
    ck_assert_int_eq(hs_capture_create(runtime, shape, &too_far, 4, &refused, NULL), HS_INVALID);
    ck_assert_int_eq(hs_capture_create(runtime, shape, &(hs_selection){0}, 0, &refused, NULL), HS_TOO_LARGE);
    ck_assert_ptr_null(refused);
    hs_capture_destroy(capture);
    hs_workspace_destroy(ws);
    hs_engine_destroy(engine);
}
END_TEST

START_TEST(a_cancelled_run_ends_between_layers)
{
    const hs_architecture model = make_model(&shapes[1]);
    hs_engine *engine = make_engine(&model, &(hs_engine_options){0});
    const int32_t ids[4] = {1, 2, 3, 4};
    hs_workspace *ws = NULL;
    hs_error err = {0};
    atomic_int cancelled = 1;
    hs_capture *capture = make_capture(engine, NULL, 4);
    const hs_sequence sequence = {.ids = ids, .n_tokens = 4, .capture = capture};
    ck_assert_int_eq(hs_workspace_create(engine, 4, &ws, NULL), HS_OK);
    const hs_run_control control = {.cancelled = &cancelled, .n_threads = 2};
    ck_assert_int_eq(hs_engine_compute(engine, ws, &sequence, 1, NULL, &control, &err), HS_CANCELLED);
    ck_assert_str_eq(err.text, "cancelled after 0 of 24 layers");
    atomic_store(&cancelled, 0);
    ck_assert_int_eq(hs_engine_compute(engine, ws, &sequence, 1, NULL, &control, NULL),
                     HS_OK); /* nothing is left over */
    hs_capture_destroy(capture);
    hs_workspace_destroy(ws);
    hs_engine_destroy(engine);
}
END_TEST

/* Many teams at once, each wanting everyone: every task is done once, and nobody waits for good. */
typedef struct count {
    atomic_int n_done[300];
    atomic_int slots[4], n_clashes;
} count;

static void count_task(void *context, size_t index, size_t slot)
{
    count *c = context;
    if (slot >= 4 || atomic_fetch_add(&c->slots[slot % 4], 1) != 0) /* the slot is ours alone */
        atomic_fetch_add(&c->n_clashes, 1);
    atomic_fetch_add(&c->n_done[index], 1);
    atomic_fetch_sub(&c->slots[slot % 4], 1);
}

static void *team_main(void *unused)
{
    for (size_t round = 0; round < 200; round++) {
        static _Thread_local count c;
        memset(&c, 0, sizeof c);
        hs__team team;
        hs__team_start(&team, runtime, 1 + round % 4);
        for (size_t share = 1; share <= 5; share++) {
            hs__team_share(&team, 60 * share, count_task, &c);
            for (size_t i = 0; i < 300; i++)
                ck_assert_int_eq(atomic_load(&c.n_done[i]),
                                 (int)(share - i / 60) > 0 ? (int)(share - i / 60) : 0);
        }
        hs__team_finish(&team);
    }
    return unused;
}

START_TEST(teams_do_every_task_once)
{
    pthread_t threads[3];
    for (size_t t = 0; t < 3; t++)
        ck_assert_int_eq(pthread_create(&threads[t], NULL, team_main, NULL), 0);
    for (size_t t = 0; t < 3; t++)
        pthread_join(threads[t], NULL);
    team_main(NULL);
}
END_TEST

START_TEST(a_runtime_of_no_given_size_has_a_core)
{
    hs_runtime *all;
    ck_assert_int_eq(hs_runtime_create(0, &all, NULL), HS_OK);
    ck_assert_uint_ge(hs_runtime_cores(all), 1);
    hs_runtime_destroy(all);
}
END_TEST

typedef struct company {
    atomic_int n_begun, niceness[2];
} company;

/* Both are done at the same time, so by two threads. */
static void company_task(void *context, size_t index, size_t slot)
{
    company *c = context;
    (void)slot;
    atomic_store(&c->niceness[index], getpriority(PRIO_PROCESS, 0));
    atomic_fetch_add(&c->n_begun, 1);
    while (atomic_load(&c->n_begun) < 2)
        sched_yield();
}

/* On a thread of its own: being nice cannot be undone. */
static void *nice_main(void *unused)
{
    const int before = getpriority(PRIO_PROCESS, 0), raised = before + 3 < 19 ? before + 3 : 19;
    company c = {0};
    hs__team team;
    ck_assert_int_eq(setpriority(PRIO_PROCESS, 0, raised), 0);
    hs__team_start(&team, runtime, 2);
    hs__team_share(&team, 2, company_task, &c);
    hs__team_finish(&team);
    ck_assert_int_eq(atomic_load(&c.niceness[0]), raised);
    ck_assert_int_eq(atomic_load(&c.niceness[1]), raised);
    return unused;
}

START_TEST(helpers_are_as_nice_as_who_they_help)
{
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, nice_main, NULL), 0);
    pthread_join(thread, NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine");
    TCase *tcase = tcase_create("passes");
    tcase_add_checked_fixture(tcase, runtime_setup, runtime_teardown);
    tcase_add_loop_test(tcase, backends_agree, 0, N_SHAPES);
    tcase_add_loop_test(tcase, captures_are_consistent, 0, N_SHAPES);
    tcase_add_loop_test(tcase, batches_and_threads_change_no_bit, 0, N_SHAPES);
    tcase_add_loop_test(tcase, observers_are_shown_what_captures_would_keep, 0, 4 * N_SHAPES);
    tcase_add_loop_test(tcase, int24_is_close_or_refused, 0, N_SHAPES);
    tcase_add_loop_test(tcase, bf16_is_close_or_refused, 0, N_SHAPES);
    tcase_add_loop_test(tcase, int8_is_close_or_refused, 0, N_SHAPES);
    tcase_add_loop_test(tcase, an_engine_takes_what_was_measured, 0, N_SHAPES);
    tcase_add_loop_test(tcase, precisions_have_the_same_bits_in_a_batch, 0, N_SHAPES);
    tcase_add_test(tcase, selections_are_slices_of_the_whole);
    tcase_add_test(tcase, a_batch_may_mix_selections);
    tcase_add_test(tcase, large_captures_are_used_again);
    tcase_add_test(tcase, a_runtime_keeps_what_it_may);
    tcase_add_test(tcase, unused_blocks_are_given_back);
    tcase_add_test(tcase, captures_are_aligned_whatever_was_returned);
    tcase_add_test(tcase, what_cannot_run_is_refused);
    tcase_add_test(tcase, a_cancelled_run_ends_between_layers);
    tcase_add_test(tcase, teams_do_every_task_once);
    tcase_add_test(tcase, a_runtime_of_no_given_size_has_a_core);
    tcase_add_test(tcase, helpers_are_as_nice_as_who_they_help);
    suite_add_tcase(suite, tcase);
    return tests_run(suite);
}
