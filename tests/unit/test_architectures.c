/* test_architectures.c - compares the engine with loops over doubles (architecture_reference.h): every
 * feature of architecture.h, every intervention, on odd shapes. */
#include "engine/analysis/decoder.h"
#include "engine/engine.h"
#include "engine/pass/team.h"
#include "tests/unit/chaos.h"
#include "tests/unit/random_architectures.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EVERYTHING ((1U << HS_TAP_CROSS_STATE) - 1) /* the taps of every model; decoders have one more */

static hs_runtime *runtime;
static int32_t ids[RANDOM_TOKENS_MAX];
static uint8_t types[RANDOM_TOKENS_MAX];

static void setup(void)
{
    ck_assert_int_eq(hs_runtime_create(3, &runtime, NULL), HS_OK);
    for (size_t i = 0; i < RANDOM_TOKENS_MAX; i++) {
        ids[i] = (int32_t)((i * 7 + i * i) % 20);
        types[i] = i % 3 == 0;
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
    return engine;
}

/* Computes a capture of all layers and heads of a text of T tokens under these interventions. */
static hs_capture *pass(const hs_engine *engine, size_t T, unsigned taps,
                        const hs_intervention *interventions, size_t n_interventions, size_t n_threads)
{
    const hs_shape *s = hs_engine_shape(engine);
    const hs_selection all = hs_select_all(s, taps);
    hs_sequence sequence = {.ids = ids,
                            .types = types,
                            .n_tokens = T,
                            .interventions = interventions,
                            .n_interventions = n_interventions};
    hs_error err = {0};
    hs_workspace *ws = NULL;
    const hs_run_control control = {.n_threads = n_threads};
    ck_assert_int_eq(hs_workspace_create(engine, T, &ws, NULL), HS_OK);
    ck_assert_int_eq(hs_capture_create(runtime, s, &all, T, &sequence.capture, NULL), HS_OK);
    ck_assert_msg(!hs_engine_compute(engine, ws, &sequence, 1, NULL, &control, &err), "%s", err.text);
    hs_workspace_destroy(ws);
    return sequence.capture;
}

/* Within 1e-5 of the array's maximum; infinities where the reference has them. */
static void compare(const float *got, const double *expected, size_t n, const char *what)
{
    double largest = 0;
    size_t bad = n;
    for (size_t i = 0; i < n; i++)
        largest = isfinite(expected[i]) ? fmax(largest, fabs(expected[i])) : largest;
    for (size_t i = 0; i < n && bad == n; i++)
        if (isinf(expected[i]) ? got[i] != expected[i] : !(fabs(got[i] - expected[i]) <= 1e-5 * largest))
            bad = i;
    ck_assert_msg(bad == n, "%s at %zu: %g, not %g", what, bad, got[bad], expected[bad]);
}

static void compare_all(const hs_capture *c, const reference *r)
{
    static const char *const similarities[] = {"similarity", "centred similarity", "residual similarity",
                                               "centred residual similarity"};
    const size_t T = r->T, K = r->K, n_heads = c->n_layers * c->n_heads, n = n_heads * T * K;
    compare(c->arrays[HS_TAP_QUERY], r->query, n_heads * T * c->head_width, "queries");
    compare(c->arrays[HS_TAP_KEY], r->key, n_heads * K * c->head_width, "keys");
    compare(c->arrays[HS_TAP_VALUE], r->value, n_heads * K * c->head_width, "values");
    compare(c->arrays[HS_TAP_SCORES], r->scores, n, "scores");
    compare(c->arrays[HS_TAP_SCORES_C2C], r->c2c, n, "scores of content with content");
    compare(c->arrays[HS_TAP_SCORES_C2P], r->c2p, n, "scores of content with positions");
    compare(c->arrays[HS_TAP_SCORES_P2C], r->p2c, n, "scores of positions with content");
    compare(c->arrays[HS_TAP_ATTENTION], r->attention, n, "attention");
    compare(c->arrays[HS_TAP_HEAD_OUTPUT], r->output, n_heads * T * c->head_width, "head output");
    for (size_t i = 0; i < 4; i++) {
        const hs_similarity kind = {.residual = i / 2, .centered = i % 2};
        const hs_tap tap = hs_similarity_tap(kind);
        compare(c->arrays[tap], r->similarity[kind.residual][kind.centered], n_heads * T * T,
                similarities[i]);
    }
    compare(c->arrays[HS_TAP_HIDDEN_STATE], r->states, (1 + c->n_layers) * T * c->hidden, "hidden state");
    for (size_t map = 0; map < n_heads; map++)
        for (size_t j = 0; j < K; j++) {
            double sum = 0;
            for (size_t i = 0; i < T; i++)
                sum += r->attention[(map * T + i) * K + j];
            ck_assert_double_eq_tol(c->arrays[HS_TAP_COLUMNS][map * K + j], sum, 1e-5 * (double)T);
        }
}

static void check_pass(const hs_architecture *architecture, hs_products products, size_t T,
                       const hs_intervention *interventions, size_t n_interventions)
{
    hs_engine *engine = engine_make(architecture, products);
    const hs_sequence sequence = {.ids = ids,
                                  .types = types,
                                  .n_tokens = T,
                                  .interventions = interventions,
                                  .n_interventions = n_interventions};
    reference expected = reference_make(architecture, &sequence, false);
    for (size_t n_threads = 1; n_threads <= 2; n_threads++) {
        hs_capture *got = pass(engine, T, EVERYTHING, interventions, n_interventions, n_threads);
        compare_all(got, &expected);
        hs_capture_destroy(got);
    }
    reference_free(&expected);
    hs_engine_destroy(engine);
}

/* ---- architectures ---- */

static const size_t lengths[] = {1, 2, 17, 70, 150};
enum { N_LENGTHS = sizeof lengths / sizeof *lengths };

START_TEST(architectures_agree_with_doubles)
{
    const hs_architecture architecture = random_architectures[_i].make();
    for (size_t t = 0; t < N_LENGTHS; t++)
        check_pass(&architecture, HS_PRODUCTS_NATIVE, lengths[t], NULL, 0);
    check_pass(&architecture, HS_PRODUCTS_CBLAS, 33, NULL, 0);
}
END_TEST

START_TEST(padded_rows_agree_with_doubles)
{
    random_shape = &random_padded;
    const hs_architecture architecture = random_architectures[_i].make();
    check_pass(&architecture, HS_PRODUCTS_NATIVE, 17, NULL, 0);
    check_pass(&architecture, HS_PRODUCTS_CBLAS, 17, NULL, 0);
    random_shape = &random_small;
}
END_TEST

static size_t tap_floats(const hs_capture *capture, hs_tap tap)
{
    size_t n = 1;
    for (const hs_axis *axis = hs_tap_axes(tap); *axis; axis++)
        n *= hs_capture_length(capture, *axis);
    return n;
}

/* Panels and tiles have other widths in each. */
START_TEST(every_instruction_set_agrees_with_doubles)
{
    const hs_architecture architecture = random_architectures[_i].make();
    const hs__kernels *kernels;
    for (size_t set = 1; (kernels = hs__kernels_at(set)); set++) { /* 0 is what all other tests run on */
        runtime->kernels = kernels;
        check_pass(&architecture, HS_PRODUCTS_NATIVE, 70, NULL, 0);
        check_pass(&architecture, HS_PRODUCTS_NATIVE, 150, NULL, 0);
    }
}
END_TEST

START_TEST(threads_change_no_bit)
{
    random_shape = &random_large;
    const hs_architecture architecture = random_architectures[_i].make();
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
    hs_capture *alone = pass(engine, 150, EVERYTHING, NULL, 0, 1);
    hs_capture *shared = pass(engine, 150, EVERYTHING, NULL, 0, 3);
    for (hs_tap tap = 0; tap < HS_TAP_CROSS_STATE; tap++)
        ck_assert_mem_eq(shared->arrays[tap], alone->arrays[tap], tap_floats(alone, tap) * sizeof(float));
    hs_capture_destroy(alone);
    hs_capture_destroy(shared);
    hs_engine_destroy(engine);
    random_shape = &random_small;
}
END_TEST

START_TEST(engines_survive_every_refused_allocation)
{
    const hs_architecture architecture = random_architectures[_i].make();
    const hs_engine_options options = {0};
    const size_t live = chaos_live();
    bool refused = true;
    for (size_t nth = 0; refused; nth++) {
        hs_engine *engine = NULL;
        ck_assert_uint_lt(nth, 1000);
        chaos_refuse(nth);
        const hs_status st = hs_engine_create(runtime, &architecture, &options, &engine, NULL);
        refused = chaos_stop();
        ck_assert_int_eq(st, refused ? HS_NO_MEMORY : HS_OK);
        ck_assert_int_eq(engine != NULL, st == HS_OK);
        hs_engine_destroy(engine);
        ck_assert_uint_eq(chaos_live(), live);
    }
}
END_TEST

static const uint16_t one[] = {1};

/* The arrays that a pass keeps do not change the others. Windows make their maps in another place if the maps
 * are not kept. */
START_TEST(an_array_does_not_depend_on_what_else_is_kept)
{
    const hs_architecture architecture = random_architectures[_i].make();
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
    hs_capture *all = pass(engine, 150, EVERYTHING, NULL, 0, 1);
    for (hs_tap tap = 0; tap < HS_TAP_CROSS_STATE; tap++) {
        hs_capture *alone = pass(engine, 150, 1U << tap, NULL, 0, 1);
        ck_assert_mem_eq(alone->arrays[tap], all->arrays[tap], tap_floats(all, tap) * sizeof(float));
        hs_capture_destroy(alone);
    }
    hs_capture_destroy(all);
    hs_engine_destroy(engine);
}
END_TEST

/* Captures larger than the second-level cache are stored past the caches. Every instruction set stores other
 * blocks; lengths are and are not whole cache lines. */
START_TEST(the_size_of_caches_changes_no_bit)
{
    static const size_t tokens[] = {1, 33, 64, 150};
    const hs_intervention identity = {one,   1,    one, 1, HS_INTERVENE_IDENTITY, 0, NULL, NULL, 0,
                                      false, NULL, 0,   0};
    const hs_architecture architecture = random_architectures[_i].make();
    const hs__kernels *kernels;
    for (size_t set = 0; (kernels = hs__kernels_at(set)); set++)
        for (size_t t = 0; t < sizeof tokens / sizeof *tokens; t++) {
            runtime->kernels = kernels;
            hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
            runtime->caches.second = SIZE_MAX;
            hs_capture *cached = pass(engine, tokens[t], EVERYTHING, &identity, t % 2, 1);
            runtime->caches.second = 0;
            hs_capture *streamed = pass(engine, tokens[t], EVERYTHING, &identity, t % 2, 1);
            for (hs_tap tap = 0; tap < HS_TAP_CROSS_STATE; tap++)
                ck_assert_mem_eq(streamed->arrays[tap], cached->arrays[tap],
                                 tap_floats(cached, tap) * sizeof(float));
            hs_capture_destroy(cached);
            hs_capture_destroy(streamed);
            hs_engine_destroy(engine);
        }
}
END_TEST

/* ---- maps that are computed again ---- */

/* Compares rows [first, first + n) of A and S of a head with those of its pass. */
static void check_rows_again(const hs_engine *engine, const hs_capture *c, size_t l, size_t h, size_t first,
                             size_t n)
{
    const size_t T = c->n_tokens, K = c->n_keys;
    float *rows = malloc(n * (K > T ? K : T) * sizeof *rows);
    ck_assert_int_eq(hs_engine_attention(engine, c, l, h, first, n, rows, NULL), HS_OK);
    ck_assert_mem_eq(rows, hs_capture_at(c, HS_TAP_ATTENTION, l, h) + first * K, n * K * sizeof *rows);
    for (int kind = 0; kind < 4; kind++) {
        const hs_similarity similarity = {.residual = kind & 1, .centered = kind & 2};
        const float *kept = hs_capture_at(c, hs_similarity_tap(similarity), l, h);
        ck_assert_int_eq(hs_engine_similarity(engine, c, l, h, similarity, first, n, rows, NULL), HS_OK);
        for (size_t i = first; i < first + n; i++)
            ck_assert_mem_eq(rows + (i - first) * T + i + 1, kept + i * T + i + 1,
                             (T - i - 1) * sizeof *rows);
    }
    free(rows);
}

static void check_maps_again(const hs_engine *engine, const hs_capture *c)
{
    const size_t T = c->n_tokens;
    for (size_t l = 0; l < c->n_layers; l++)
        for (size_t h = 0; h < c->n_heads; h++) {
            check_rows_again(engine, c, l, h, 0, T);
            for (size_t first = 0; first < T; first += 37)
                check_rows_again(engine, c, l, h, first, T - first < 37 ? T - first : 37);
        }
}

START_TEST(maps_are_computed_again_with_the_same_bits)
{
    const hs_architecture architecture = random_architectures[_i].make();
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
    for (size_t t = 0; t < N_LENGTHS; t++) {
        hs_capture *c = pass(engine, lengths[t], EVERYTHING, NULL, 0, 1);
        check_maps_again(engine, c);
        hs_capture_destroy(c);
    }
    hs_engine_destroy(engine);
}
END_TEST

/* ---- interventions ---- */

static const uint16_t outer[] = {0, 2};

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
    {{{one, 1, one, 1, HS_INTERVENE_SCALE, 3, NULL, NULL, 0, false, NULL, 0, 0},
      {hs_all_numbers, 3, one, 1, HS_INTERVENE_ZERO, 0, NULL, NULL, 0, false, NULL, 0, 0}},
     2},
    {{{hs_all_numbers, 3, one, 1, HS_INTERVENE_SCALE, 0, NULL, NULL, 0, false, NULL, 0, 0},
      {hs_all_numbers, 0, hs_all_numbers, 0, HS_INTERVENE_ZERO, 0, NULL, NULL, 0, false, NULL, 0, 0}},
     2},
};
enum { N_INTERVENTIONS = sizeof interventions / sizeof *interventions };

START_TEST(interventions_agree_with_doubles)
{
    const hs_architecture plain = architecture_plain(), mixed = architecture_mixed(),
                          relative = architecture_relative();
    for (size_t t = 0; t < N_LENGTHS; t++) {
        check_pass(&plain, HS_PRODUCTS_NATIVE, lengths[t], interventions[_i].list, interventions[_i].n);
        check_pass(&mixed, HS_PRODUCTS_NATIVE, lengths[t], interventions[_i].list, interventions[_i].n);
        if (interventions[_i].list[0].kind != HS_INTERVENE_CUT) /* refused there */
            check_pass(&relative, HS_PRODUCTS_NATIVE, lengths[t], interventions[_i].list,
                       interventions[_i].n);
    }
}
END_TEST

static void assert_same_bits(const hs_capture *a, const hs_capture *b, hs_tap tap, size_t n)
{
    ck_assert_mem_eq(a->arrays[tap], b->arrays[tap], n * sizeof(float));
}

static size_t maps_floats(const hs_capture *c)
{
    return c->n_layers * c->n_heads * c->n_tokens * c->n_tokens;
}

START_TEST(a_scale_of_1_changes_no_bit)
{
    const hs_intervention nothing = {
        hs_all_numbers, 3, hs_all_numbers, 3, HS_INTERVENE_SCALE, 1, NULL, NULL, 0, false, NULL, 0, 0};
    const hs_architecture architecture = architecture_plain();
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
    hs_capture *plain = pass(engine, 31, EVERYTHING, NULL, 0, 1),
               *scaled = pass(engine, 31, EVERYTHING, &nothing, 1, 1);
    const size_t n = maps_floats(plain);
    assert_same_bits(plain, scaled, HS_TAP_SCORES, n);
    assert_same_bits(plain, scaled, HS_TAP_ATTENTION, n);
    assert_same_bits(plain, scaled, HS_TAP_SIMILARITY, n);
    assert_same_bits(plain, scaled, HS_TAP_HIDDEN_STATE, (1 + plain->n_layers) * 31 * plain->hidden);
    hs_capture_destroy(plain);
    hs_capture_destroy(scaled);
    hs_engine_destroy(engine);
}
END_TEST

/* A head whose tokens all have one output has a centred similarity of exactly 0, not one of rounding errors,
 * which normalising would show as pairs. */
START_TEST(equal_outputs_have_no_centred_similarity)
{
    static const hs_intervention_kind kinds[] = {HS_INTERVENE_MEAN, HS_INTERVENE_UNIFORM, HS_INTERVENE_ZERO};
    const hs_architecture architecture = architecture_plain();
    const hs__kernels *kernels;
    for (size_t set = 0; (kernels = hs__kernels_at(set)); set++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            runtime->kernels = kernels;
            hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
            const hs_intervention change = {one, 1, one, 1, kinds[k], 0, NULL, NULL, 0, false, NULL, 0, 0};
            hs_capture *got = pass(engine, 70, EVERYTHING, &change, 1, 1);
            const float *S = hs_capture_at(got, HS_TAP_CENTERED_SIMILARITY, 1, 1);
            size_t n_wrong = 0;
            for (size_t i = 0; i < (size_t)70 * 70; i++)
                n_wrong += S[i] != 0;
            ck_assert_uint_eq(n_wrong, 0);
            hs_capture_destroy(got);
            hs_engine_destroy(engine);
        }
}
END_TEST

/* Nothing is behind the last layer's heads but its hidden state; heads beside a changed one keep their
 * outputs. */
START_TEST(changed_outputs_in_the_last_layer_change_no_map)
{
    static const uint16_t last[] = {2};
    static const hs_intervention_kind kinds[] = {HS_INTERVENE_ZERO, HS_INTERVENE_SCALE, HS_INTERVENE_MEAN};
    const hs_architecture architecture = architecture_plain();
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
    hs_capture *plain = pass(engine, 31, EVERYTHING, NULL, 0, 1);
    for (size_t k = 0; k < 3; k++) {
        const hs_intervention change = {last, 1, one, 1, kinds[k], 2, NULL, NULL, 0, false, NULL, 0, 0};
        hs_capture *changed = pass(engine, 31, EVERYTHING, &change, 1, 1);
        assert_same_bits(plain, changed, HS_TAP_ATTENTION, maps_floats(plain));
        for (size_t h = 0; h < 3; h++)
            ck_assert_int_eq(memcmp(hs_capture_at(plain, HS_TAP_HEAD_OUTPUT, 2, h),
                                    hs_capture_at(changed, HS_TAP_HEAD_OUTPUT, 2, h),
                                    31 * plain->head_width * sizeof(float)) == 0,
                             h != 1);
        hs_capture_destroy(changed);
    }
    hs_capture_destroy(plain);
    hs_engine_destroy(engine);
}
END_TEST

/* Zero is zero whatever it replaces, and two orders of one list are one list. */
START_TEST(the_order_of_interventions_does_not_matter)
{
    const hs_intervention there[] = {
        {one, 1, one, 1, HS_INTERVENE_SCALE, 3, NULL, NULL, 0, false, NULL, 0, 0},
        {one, 1, hs_all_numbers, 3, HS_INTERVENE_MEAN, 0, NULL, NULL, 0, false, NULL, 0, 0},
        {one, 1, outer, 2, HS_INTERVENE_ZERO, 0, NULL, NULL, 0, false, NULL, 0, 0},
        {one, 1, one, 1, HS_INTERVENE_IDENTITY, 0, NULL, NULL, 0, false, NULL, 0, 0}};
    const hs_intervention back[] = {there[3], there[2], there[1], there[0]};
    const hs_architecture architecture = architecture_plain();
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
    hs_capture *a = pass(engine, 20, EVERYTHING, there, 4, 1), *b = pass(engine, 20, EVERYTHING, back, 4, 1);
    assert_same_bits(a, b, HS_TAP_ATTENTION, maps_floats(a));
    assert_same_bits(a, b, HS_TAP_HIDDEN_STATE, (1 + a->n_layers) * 20 * a->hidden);
    const float *zero = hs_capture_at(a, HS_TAP_HEAD_OUTPUT, 1, 2);
    for (size_t i = 0; i < 20 * a->head_width; i++)
        ck_assert(zero[i] == 0 && !signbit(zero[i]));
    hs_capture_destroy(a);
    hs_capture_destroy(b);
    hs_engine_destroy(engine);
}
END_TEST

/* ---- additions to states ---- */

static const uint16_t both_ends[] = {0, 3}, second_state[] = {1}, inner_states[] = {1, 2};
static const size_t some_positions[] = {0, 3, 4};

/* Additions to every state: some by a vector of each, one at some positions, two to the same. */
static size_t additions_make(hs_intervention ret[3])
{
    static float vectors[2 * 512];
    const size_t H = random_shape->hidden;
    ck_assert_uint_le(H, 512);
    for (size_t i = 0; i < 2 * H; i++)
        vectors[i] = (float)(i * 37 % 101) / 50 - 1;
    ret[0] = (hs_intervention){both_ends, 2,       NULL,  0, HS_INTERVENE_ADD, 1.5F, NULL, some_positions, 3,
                               false,     vectors, 2 * H, 0};
    ret[1] = (hs_intervention){inner_states, 2,           NULL, 0, HS_INTERVENE_ADD, -0.5F, NULL, NULL, 0,
                               false,        vectors + 1, H,    0};
    ret[2] = (hs_intervention){
        second_state, 1, NULL, 0, HS_INTERVENE_ADD, 1, NULL, some_positions + 1, 1, false, vectors + 2, H, 0};
    return 3;
}

START_TEST(additions_agree_with_doubles)
{
    const hs_architecture architecture = random_architectures[_i].make();
    hs_intervention list[3];
    const size_t n = additions_make(list);
    check_pass(&architecture, HS_PRODUCTS_NATIVE, 5, list, n);
    check_pass(&architecture, HS_PRODUCTS_NATIVE, 70, list, n);
}
END_TEST

START_TEST(additions_of_factor_0_change_no_bit)
{
    const hs_architecture architecture = random_architectures[_i].make();
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
    hs_intervention list[3];
    const size_t n = additions_make(list);
    for (size_t i = 0; i < n; i++)
        list[i].factor = i % 2 ? 0.0F : -0.0F;
    hs_capture *plain = pass(engine, 33, EVERYTHING, NULL, 0, 1),
               *changed = pass(engine, 33, EVERYTHING, list, n, 1);
    assert_same_bits(plain, changed, HS_TAP_ATTENTION, maps_floats(plain));
    assert_same_bits(plain, changed, HS_TAP_HIDDEN_STATE, 4 * 33 * plain->hidden);
    hs_capture_destroy(plain);
    hs_capture_destroy(changed);
    hs_engine_destroy(engine);
}
END_TEST

/* Texts of one pass have their own interventions. */
START_TEST(interventions_stay_in_their_sequence)
{
    const hs_intervention zero = {
        hs_all_numbers, 3, hs_all_numbers, 3, HS_INTERVENE_ZERO, 0, NULL, NULL, 0, false, NULL, 0, 0};
    const hs_architecture architecture = architecture_plain();
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
    const hs_selection all = {hs_all_numbers, 3, hs_all_numbers, 3, EVERYTHING, 0};
    hs_capture *alone[] = {pass(engine, 25, EVERYTHING, NULL, 0, 1),
                           pass(engine, 25, EVERYTHING, &zero, 1, 1)};
    hs_sequence both[2];
    hs_workspace *ws = NULL;
    for (size_t s = 0; s < 2; s++) {
        both[s] = (hs_sequence){
            .ids = ids, .types = types, .n_tokens = 25, .interventions = &zero, .n_interventions = s};
        ck_assert_int_eq(hs_capture_create(runtime, random_shape, &all, 25, &both[s].capture, NULL), HS_OK);
    }
    ck_assert_int_eq(hs_workspace_create(engine, 50, &ws, NULL), HS_OK);
    ck_assert_int_eq(hs_engine_compute(engine, ws, both, 2, NULL, NULL, NULL), HS_OK);
    for (size_t s = 0; s < 2; s++) {
        assert_same_bits(both[s].capture, alone[s], HS_TAP_ATTENTION, maps_floats(alone[s]));
        assert_same_bits(both[s].capture, alone[s], HS_TAP_HIDDEN_STATE, 4 * 25 * random_shape->hidden);
        hs_capture_destroy(both[s].capture);
        hs_capture_destroy(alone[s]);
    }
    hs_workspace_destroy(ws);
    hs_engine_destroy(engine);
}
END_TEST

/* ---- passes that start in a layer ---- */

/* Computes the arrays of `whole` from a layer on, starting with its state there. If O is given, head_off's
 * output is zeroed. */
static hs_capture *pass_from(const hs_engine *engine, const hs_capture *whole, hs_start start,
                             const hs_intervention *intervention)
{
    const hs_shape *s = hs_engine_shape(engine);
    const size_t T = whole->n_tokens;
    const hs_selection all = hs_select_all(s, EVERYTHING);
    hs_sequence sequences[2];
    hs_workspace *ws = NULL;
    start.state = hs_capture_at(whole, HS_TAP_EVERY_STATE, start.layer, 0);
    for (size_t i = 0; i < 2; i++) {
        sequences[i] = (hs_sequence){.ids = ids,
                                     .types = types,
                                     .n_tokens = T,
                                     .interventions = intervention,
                                     .n_interventions = intervention != NULL,
                                     .start = &start};
        ck_assert_int_eq(hs_capture_create(runtime, s, &all, T, &sequences[i].capture, NULL), HS_OK);
    }
    ck_assert_int_eq(hs_workspace_create(engine, 2 * T, &ws, NULL), HS_OK);
    ck_assert_int_eq(hs_engine_compute(engine, ws, sequences, 2, NULL, NULL, NULL), HS_OK);
    hs_workspace_destroy(ws);
    hs_capture_destroy(sequences[0].capture);
    return sequences[1].capture;
}

static void assert_same_from(const hs_capture *a, const hs_capture *b, size_t map_layer, size_t state)
{
    const size_t T = a->n_tokens, n_maps = a->n_layers - map_layer, n_states = a->depth + 1 - state;
    if (n_maps > 0)
        ck_assert_mem_eq(hs_capture_at(a, HS_TAP_SIMILARITY, map_layer, 0),
                         hs_capture_at(b, HS_TAP_SIMILARITY, map_layer, 0),
                         n_maps * a->n_heads * T * T * sizeof(float));
    ck_assert_mem_eq(hs_capture_at(a, HS_TAP_EVERY_STATE, state, 0),
                     hs_capture_at(b, HS_TAP_EVERY_STATE, state, 0),
                     n_states * T * a->hidden * sizeof(float));
}

START_TEST(a_start_in_a_layer_changes_no_bit)
{
    static const uint16_t last[] = {2}, second[] = {1};
    const hs_architecture architecture = random_architectures[_i].make();
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_DEFAULT);
    const hs_intervention above = {
        last, 1, hs_all_numbers, 2, HS_INTERVENE_MEAN, 0, NULL, NULL, 0, false, NULL, 0, 0};
    hs_capture *whole = pass(engine, 25, EVERYTHING, &above, 1, 1);
    for (size_t layer = 0; layer < 3; layer++) {
        hs_capture *from = pass_from(engine, whole, (hs_start){.layer = layer}, &above);
        assert_same_from(from, whole, layer, layer);
        hs_capture_destroy(from);

        const hs_start behind = {.layer = layer,
                                 .head_outputs = hs_capture_at(whole, HS_TAP_HEAD_OUTPUT, layer, 0),
                                 .head_off = 3};
        from = pass_from(engine, whole, behind, &above);
        assert_same_from(from, whole, layer + 1, layer);
        hs_capture_destroy(from);
    }
    hs_capture_destroy(whole);

    const hs_intervention off = {second, 1,    second, 1, HS_INTERVENE_ZERO, 0, NULL, NULL, 0,
                                 false,  NULL, 0,      0};
    hs_capture *changed = pass(engine, 25, EVERYTHING, &off, 1, 1);
    whole = pass(engine, 25, EVERYTHING, NULL, 0, 1);
    const hs_start without = {
        .layer = 1, .head_outputs = hs_capture_at(whole, HS_TAP_HEAD_OUTPUT, 1, 0), .head_off = 1};
    hs_capture *from = pass_from(engine, whole, without, NULL);
    assert_same_from(from, changed, 2, 2);
    hs_capture_destroy(from);
    hs_capture_destroy(changed);
    hs_capture_destroy(whole);
    hs_engine_destroy(engine);
}
END_TEST

/* An addition is in the state of a pass with it, and not in that of a pass without. */
START_TEST(a_start_at_an_addition_adds_once)
{
    const hs_architecture architecture = random_architectures[_i].make();
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_DEFAULT);
    hs_intervention list[3];
    additions_make(list);
    hs_capture *plain = pass(engine, 25, EVERYTHING, NULL, 0, 1),
               *whole = pass(engine, 25, EVERYTHING, &list[1], 1, 1);
    for (int unchanged = 0; unchanged < 2; unchanged++) {
        const hs_start start = {.layer = 1, .unchanged = unchanged};
        hs_capture *from = pass_from(engine, unchanged ? plain : whole, start, &list[1]);
        assert_same_from(from, whole, 1, 1);
        hs_capture_destroy(from);
    }
    hs_capture_destroy(plain);
    hs_capture_destroy(whole);
    hs_engine_destroy(engine);
}
END_TEST

/* ---- plans that are refused ---- */

START_TEST(unsound_starts_are_refused)
{
    const hs_architecture architecture = architecture_plain();
    const hs_selection none = {0};
    const float state[1] = {0};
    const hs_start starts[] = {{.layer = 3, .state = state},
                               {.layer = 1},
                               {.layer = 1, .state = state},
                               {.layer = 2, .state = state},
                               {.layer = 1, .state = state, .head_outputs = state},
                               {.layer = 1, .state = state, .head_outputs = state, .cross = true}};
    const struct {
        const hs_start *starts[2];
        const char *text;
    } cases[] = {
        {{&starts[0], &starts[0]}, "a sequence must start below layer 3, with a state"},
        {{&starts[1], &starts[1]}, "a sequence must start below layer 3, with a state"},
        {{&starts[2], &starts[3]}, "the sequences of a pass must start at the same point"},
        {{&starts[2], &starts[4]}, "the sequences of a pass must start at the same point"},
        {{&starts[2], NULL}, "the sequences of a pass must start at the same point"},
        {{NULL, &starts[2]}, "the sequences of a pass must start at the same point"},
        {{&starts[4], &starts[5]}, "the sequences of a pass must start at the same point"},
        {{&starts[5], &starts[5]}, "only a decoder starts behind cross heads, with their outputs"},
    };
    hs_capture *capture = NULL;
    ck_assert_int_eq(hs_capture_create(NULL, random_shape, &none, 4, &capture, NULL), HS_OK);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        hs_sequence sequences[2];
        for (size_t i = 0; i < 2; i++)
            sequences[i] =
                (hs_sequence){.ids = ids, .n_tokens = 4, .capture = capture, .start = cases[c].starts[i]};
        hs_error err = {0};
        hs_plan plan;
        ck_assert_int_eq(hs_plan_make(&architecture, sequences, 2, NULL, &plan, &err), HS_INVALID);
        ck_assert_str_eq(err.text, cases[c].text);
    }
    hs_capture_destroy(capture);
}
END_TEST

START_TEST(unsound_interventions_are_refused)
{
    static const uint16_t descending[] = {1, 0}, beyond[] = {3}, beyond_last[] = {4};
    static const size_t outside[] = {1, 4}, twice[] = {2, 2};
    static const float vector[1024] = {1, 1e30F};
    const size_t H = random_shape->hidden;
    static const char needs[] = "an addition needs a vector of the hidden size, 42";
    const hs_selection none = {0}, outputs = {one, 1, one, 1, HS_KEEP(HEAD_OUTPUT), 0},
                       states = {one, 1, one, 1, HS_KEEP(HIDDEN_STATE), 0};
    hs_capture *captures[3] = {NULL};
    ck_assert_int_eq(hs_capture_create(NULL, random_shape, &none, 4, &captures[0], NULL), HS_OK);
    ck_assert_int_eq(hs_capture_create(NULL, random_shape, &outputs, 4, &captures[1], NULL), HS_OK);
    ck_assert_int_eq(hs_capture_create(NULL, random_shape, &states, 4, &captures[2], NULL), HS_OK);
    const hs_sequence unknown = {.ids = ids, .n_tokens = 4},
                      shorter = {.ids = ids, .n_tokens = 3, .capture = captures[1]},
                      heads = {.ids = ids, .n_tokens = 4, .capture = captures[1]},
                      hidden = {.ids = ids, .n_tokens = 4, .capture = captures[2]};
    const struct {
        hs_intervention list[2];
        const char *text;
    } cases[] = {
        {{{beyond, 1, one, 1, HS_INTERVENE_ZERO, 0, NULL, NULL, 0, false, NULL, 0, 0}},
         "an intervention's layers must be ascending and below 3"},
        {{{one, 1, descending, 2, HS_INTERVENE_ZERO, 0, NULL, NULL, 0, false, NULL, 0, 0}},
         "an intervention's heads must be ascending and below 3"},
        {{{one, 1, one, 1, HS_INTERVENE_SCALE, NAN, NULL, NULL, 0, false, NULL, 0, 0}},
         "an intervention's factor must be a finite number"},
        {{{one, 1, one, 1, HS_INTERVENE_SCALE, INFINITY, NULL, NULL, 0, false, NULL, 0, 0}},
         "an intervention's factor must be a finite number"},
        {{{hs_all_numbers, 3, outer, 2, HS_INTERVENE_UNIFORM, 0, NULL, NULL, 0, false, NULL, 0, 0},
          {outer, 2, hs_all_numbers, 3, HS_INTERVENE_IDENTITY, 0, NULL, NULL, 0, false, NULL, 0, 0}},
         "head 0 of layer 0 is asked to be uniform and the identity: choose one"},
        {{{one, 1, one, 1, HS_INTERVENE_CUT, 0, NULL, NULL, 0, false, NULL, 0, 0}},
         "the distance of a cut must be at least 1"},
        {{{one, 1, one, 1, HS_INTERVENE_PATCH, 0, &unknown, NULL, 0, false, NULL, 0, 0}},
         "a patch needs another text's pass, which only a single text has"},
        {{{one, 1, one, 1, HS_INTERVENE_PATCH, 0, &shorter, NULL, 0, false, NULL, 0, 0}},
         "a patch is from a text of 3 tokens, but the text has 4"},
        {{{one, 1, one, 1, HS_INTERVENE_PATCH, 0, &heads, outside, 2, false, NULL, 0, 0}},
         "an intervention's positions must be ascending and below 4"},
        {{{one, 1, one, 1, HS_INTERVENE_PATCH, 0, &heads, twice, 2, false, NULL, 0, 0}},
         "an intervention's positions must be ascending and below 4"},
        {{{hs_all_numbers, 3, one, 1, HS_INTERVENE_PATCH, 0, &heads, NULL, 0, false, NULL, 0, 0}},
         "the pass that a patch is from does not keep what it takes"},
        {{{one, 1, one, 1, HS_INTERVENE_PATCH, 0, &hidden, NULL, 0, false, NULL, 0, 0}},
         "the pass that a patch is from does not keep what it takes"},
        {{{hs_all_numbers, 3, NULL, 0, HS_INTERVENE_PATCH_STATE, 0, &heads, NULL, 0, false, NULL, 0, 0}},
         "the pass that a patch is from does not keep what it takes"},
        {{{one, 1, NULL, 0, HS_INTERVENE_PATCH_STATE, 0, &hidden, NULL, 0, false, NULL, 0, 0}},
         "the pass that a patch is from does not keep what it takes"},
        {{{beyond_last, 1, NULL, 0, HS_INTERVENE_PATCH_STATE, 0, &hidden, NULL, 0, false, NULL, 0, 0}},
         "an intervention's layers must be ascending and below 4"},
        {{{beyond_last, 1, NULL, 0, HS_INTERVENE_ADD, 1, NULL, NULL, 0, false, vector, H, 0}},
         "an intervention's layers must be ascending and below 4"},
        {{{one, 1, NULL, 0, HS_INTERVENE_ADD, NAN, NULL, NULL, 0, false, vector, H, 0}},
         "an intervention's factor must be a finite number"},
        {{{one, 1, NULL, 0, HS_INTERVENE_ADD, 1, NULL, outside, 2, false, vector, H, 0}},
         "an intervention's positions must be ascending and below 4"},
        {{{one, 1, NULL, 0, HS_INTERVENE_ADD, 1, NULL, NULL, 0, false, NULL, H, 0}}, needs},
        {{{hs_all_numbers, 3, NULL, 0, HS_INTERVENE_ADD, 1, NULL, NULL, 0, false, vector, 2 * H, 0}}, needs},
        {{{one, 1, NULL, 0, HS_INTERVENE_ADD, 1e10F, NULL, NULL, 0, false, vector, H, 0}},
         "the vector to add, times its factor, is not within the range of floats"},
    };
    const hs_architecture architecture = architecture_plain();
    hs_capture *capture = captures[0];
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const hs_sequence sequence = {.ids = ids,
                                      .n_tokens = 4,
                                      .capture = capture,
                                      .interventions = cases[c].list,
                                      .n_interventions = cases[c].list[1].n_layers ? 2 : 1};
        hs_error err = {0};
        hs_plan plan;
        ck_assert_int_eq(hs_plan_make(&architecture, &sequence, 1, NULL, &plan, &err), HS_INVALID);
        ck_assert_str_eq(err.text, cases[c].text);
    }
    for (size_t i = 0; i < 3; i++)
        hs_capture_destroy(captures[i]);
}
END_TEST

static hs_architecture architecture_relative_windows(void)
{
    hs_architecture architecture = architecture_relative();
    architecture.layers[1].window = 3;
    return architecture;
}

static hs_architecture architecture_relative_causal(void)
{
    hs_architecture architecture = architecture_relative();
    architecture.causal = true;
    return architecture;
}

static hs_architecture architecture_relative_narrow(void)
{
    hs_architecture architecture = architecture_relative();
    architecture.shape.head_width--;
    return architecture;
}

static hs_architecture architecture_decoder_parallel(void)
{
    hs_architecture architecture = architecture_rotated();
    random_decoder(&architecture);
    architecture.norms_before = architecture.parallel_residual = true;
    return architecture;
}

static hs_architecture architecture_rotated_odd(void)
{
    hs_architecture architecture = architecture_rotated();
    architecture.shape.head_width--;
    return architecture;
}

static hs_architecture architecture_norms_of_updates_after(void)
{
    hs_architecture architecture = architecture_norms_of_updates();
    architecture.norms_before = false;
    return architecture;
}

static hs_architecture architecture_caps_and_alibi(void)
{
    hs_architecture architecture = architecture_caps();
    architecture.alibi = true;
    return architecture;
}

static hs_architecture architecture_parallel_norms_after(void)
{
    hs_architecture architecture = architecture_plain();
    architecture.parallel_residual = true;
    return architecture;
}

static hs_architecture architecture_convolution_norms_before(void)
{
    hs_architecture architecture = architecture_convolution();
    architecture.norms_before = true;
    return architecture;
}

/* Nothing in an architecture forbids these, no model has them, and no loop is made for them. */
static const struct {
    hs_architecture (*make)(void);
    const char *says;
} unsupported[] = {
    {architecture_rotated_odd, "rotary positions need heads of an even width, not "},
    {architecture_relative_windows, "relative positions within windows"},
    {architecture_relative_causal, "relative positions with a causal mask"},
    {architecture_relative_narrow, "relative positions with heads that are not as wide as the state"},
    {architecture_norms_of_updates_after, "norms of what is added where norms are behind the blocks"},
    {architecture_caps_and_alibi, "caps of scores that have addends"},
    {architecture_parallel_norms_after, "a parallel residual where norms are behind the blocks"},
    {architecture_convolution_norms_before, "a convolution where norms are before the blocks"},
    {architecture_decoder_parallel, "cross attention with relative positions, a convolution, a parallel "},
};
enum { N_UNSUPPORTED = sizeof unsupported / sizeof *unsupported };

START_TEST(what_the_engine_cannot_do_is_refused_by_name)
{
    const hs_architecture architecture = unsupported[_i].make();
    const hs_engine_options options = {0};
    hs_engine *engine = NULL;
    hs_error err = {0};
    ck_assert_int_eq(hs_engine_create(runtime, &architecture, &options, &engine, &err), HS_UNSUPPORTED);
    ck_assert_msg(strncmp(err.text, unsupported[_i].says, strlen(unsupported[_i].says)) == 0, "%s", err.text);
    ck_assert_ptr_null(engine);
}
END_TEST

/* Computes tokens behind a past, and checks that the pass is refused with this text; NULL: that it is not. */
static void past_check(const hs_engine *engine, hs_workspace *ws, const hs_sequence *sequences, size_t n,
                       const char *refusal)
{
    hs_error err = {0};
    const hs_status st = hs_engine_compute(engine, ws, sequences, n, NULL, NULL, &err);
    ck_assert_msg((st == HS_OK) == !refusal, "%s: %s", refusal ? refusal : "computed", err.text);
    if (refusal)
        ck_assert_msg(strstr(err.text, refusal), "%s", err.text);
}

START_TEST(a_past_has_its_limits)
{
    hs_architecture architecture = architecture_rotated();
    architecture.causal = true;
    enum { N_MAX = 6, N = 4 };
    const int32_t tokens[N] = {1, 2, 3, 4};
    const hs_selection last = {.taps = HS_KEEP(LAST_STATE)},
                       all = hs_select_all(&architecture.shape, HS_KEEP(ATTENTION));
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_DEFAULT);
    hs_capture *states, *maps;
    hs_past *past = NULL, *crossed = NULL, *narrow = NULL;
    hs_workspace *ws = NULL, *tight = NULL;
    hs_error err = {0};
    ck_assert_int_eq(hs_past_create(&architecture, architecture.shape.n_positions + 1, 0, &past, &err),
                     HS_TOO_LARGE);
    ck_assert_msg(strstr(err.text, "tokens are more than the model's"), "%s", err.text);
    ck_assert_ptr_null(past);
    ck_assert_int_eq(hs_past_create(&architecture, N_MAX, 0, &past, NULL), HS_OK);
    ck_assert_int_eq(hs_past_create(&architecture, N_MAX, 3, &crossed, NULL), HS_OK);
    ck_assert_int_eq(hs_past_create(&architecture, 2 * N, 0, &narrow, NULL), HS_OK);
    ck_assert_int_eq(hs_workspace_create(engine, 4 * N, &ws, NULL), HS_OK);
    ck_assert_int_eq(hs_workspace_create(engine, N, &tight, NULL), HS_OK);
    ck_assert_int_eq(hs_capture_create(runtime, &architecture.shape, &last, N, &states, NULL), HS_OK);
    ck_assert_int_eq(hs_capture_create(runtime, &architecture.shape, &all, N, &maps, NULL), HS_OK);
    const hs_sequence plain = {.ids = tokens, .n_tokens = N, .capture = states};
    hs_sequence with[] = {plain, plain}, kept = plain, other = plain, beyond = plain;
    with[0].past = kept.past = past;
    kept.capture = maps;
    other.past = crossed;
    beyond.past = narrow;
    past_check(engine, ws, with, 2, "a pass computes one sequence's last states only");
    past_check(engine, ws, &kept, 1, "a pass computes one sequence's last states only");
    past_check(engine, ws, &other, 1, "the past was made for another source or model");
    past_check(engine, ws, with, 1, NULL);
    ck_assert_uint_eq(past->n_tokens, N);
    past_check(engine, ws, with, 1, "8 tokens are more than the 6 that the past was made for");
    past_check(engine, tight, &beyond, 1, NULL);
    past_check(engine, tight, &beyond, 1, "8 tokens are more than the workspace's 4");
    hs_past_destroy(past);
    hs_past_destroy(crossed);
    hs_past_destroy(narrow);
    hs_capture_destroy(states);
    hs_capture_destroy(maps);
    hs_workspace_destroy(ws);
    hs_workspace_destroy(tight);
    hs_engine_destroy(engine);
}
END_TEST

START_TEST(a_plan_for_another_model_is_refused)
{
    const hs_architecture ours = architecture_plain(), other = architecture_plain();
    hs_engine *engine = engine_make(&ours, HS_PRODUCTS_DEFAULT);
    hs_workspace *ws = NULL;
    hs_plan plan;
    hs_error err = {0};
    ck_assert_int_eq(hs_workspace_create(engine, 4, &ws, NULL), HS_OK);
    ck_assert_int_eq(hs_plan_make(&other, NULL, 0, NULL, &plan, NULL), HS_OK);
    ck_assert_int_eq(hs_engine_run(engine, ws, &plan, NULL, &err), HS_INVALID);
    ck_assert_str_eq(err.text, "the plan was made for another model");
    hs_workspace_destroy(ws);
    hs_engine_destroy(engine);
}
END_TEST

/* ---- decoders ---- */

/* Lengths of targets and sources. */
static const size_t two_texts[][2] = {{1, 1}, {17, 5}, {5, 17}, {1, 70}, {70, 150}, {150, 33}};
enum { N_TWO_TEXTS = sizeof two_texts / sizeof *two_texts };

/* A target of T tokens and a source of random states. */
static hs_sequence target_make(size_t T, size_t n_memory)
{
    return (hs_sequence){.ids = ids,
                         .types = types,
                         .n_tokens = T,
                         .memory = random_tensor(n_memory, random_shape->hidden, 0, 1).data,
                         .n_memory = n_memory};
}

/* Computes captures of all layers and heads, which the caller destroys, of some targets in one pass. */
static void targets_pass(const hs_engine *engine, hs_sequence *targets, size_t n, bool cross,
                         size_t n_threads)
{
    size_t n_tokens = 0;
    for (size_t s = 0; s < n; s++) {
        hs_selection all = hs_select_all(hs_engine_shape(engine), EVERYTHING | HS_KEEP(CROSS_STATE));
        all.n_memory = cross ? targets[s].n_memory : 0;
        ck_assert_int_eq(hs_capture_create(runtime, hs_engine_shape(engine), &all, targets[s].n_tokens,
                                           &targets[s].capture, NULL),
                         HS_OK);
        n_tokens += targets[s].n_tokens + targets[s].n_memory;
    }
    hs_error err = {0};
    hs_workspace *ws = NULL;
    const hs_run_control control = {.n_threads = n_threads};
    ck_assert_int_eq(hs_workspace_create(engine, n_tokens, &ws, NULL), HS_OK);
    ck_assert_msg(!hs_engine_compute(engine, ws, targets, n, NULL, &control, &err), "%s", err.text);
    hs_workspace_destroy(ws);
}

static void check_target(const hs_engine *engine, hs_sequence *target, bool cross)
{
    reference expected = reference_make(hs_engine_architecture(engine), target, cross);
    for (size_t n_threads = 1; n_threads <= 2; n_threads++) {
        targets_pass(engine, target, 1, cross, n_threads);
        compare_all(target->capture, &expected);
        hs_capture_destroy(target->capture);
    }
    reference_free(&expected);
}

START_TEST(decoders_agree_with_doubles)
{
    const hs_architecture architecture = random_decoders[_i].make();
    for (hs_products products = HS_PRODUCTS_NATIVE; products <= HS_PRODUCTS_CBLAS; products++) {
        hs_engine *engine = engine_make(&architecture, products);
        for (size_t t = 0; t < N_TWO_TEXTS; t++)
            for (size_t cross = 0; cross < 2; cross++) {
                hs_sequence target = target_make(two_texts[t][0], two_texts[t][1]);
                check_target(engine, &target, cross);
            }
        hs_engine_destroy(engine);
    }
}
END_TEST

START_TEST(large_decoders_agree_with_doubles)
{
    random_shape = &random_large;
    const hs_architecture architecture = random_decoders[_i].make();
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
    hs_sequence target = target_make(150, 70);
    check_target(engine, &target, true);
    hs_engine_destroy(engine);
    random_shape = &random_small;
}
END_TEST

START_TEST(maps_of_decoders_are_computed_again_with_the_same_bits)
{
    const hs_architecture architecture = random_decoders[_i].make();
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
    for (size_t t = 0; t < N_TWO_TEXTS; t++)
        for (size_t cross = 0; cross < 2; cross++) {
            hs_sequence target = target_make(two_texts[t][0], two_texts[t][1]);
            targets_pass(engine, &target, 1, cross, 1);
            check_maps_again(engine, target.capture);
            hs_capture_destroy(target.capture);
        }
    hs_engine_destroy(engine);
}
END_TEST

/* A list meets the heads of one kind only. */
START_TEST(interventions_in_decoders_agree_with_doubles)
{
    const hs_architecture architecture = random_decoders[_i % (int)n_random_decoders].make();
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
    hs_intervention list[6];
    size_t n = 0;
    for (size_t i = 0; i < interventions[_i / (int)n_random_decoders].n; i++)
        for (size_t cross = 0; cross < 2; cross++) {
            list[n] = interventions[_i / (int)n_random_decoders].list[i];
            list[n].cross = cross != i % 2;
            n +=
                !list[n].cross || (list[n].kind != HS_INTERVENE_IDENTITY && list[n].kind != HS_INTERVENE_CUT);
        }
    for (size_t n_used = 1; n_used <= n; n_used += n > 1 ? n - 1 : 1) {
        hs_sequence target = target_make(17, 70);
        target.interventions = list;
        target.n_interventions = n_used;
        check_target(engine, &target, false);
        check_target(engine, &target, true);
    }
    hs_engine_destroy(engine);
}
END_TEST

static void assert_same_captures(const hs_capture *a, const hs_capture *b)
{
    for (hs_tap tap = 0; tap < HS_N_TAPS; tap++)
        assert_same_bits(a, b, tap, tap_floats(a, tap));
}

START_TEST(additions_in_decoders_agree_with_doubles)
{
    const hs_architecture architecture = random_decoders[_i].make();
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
    hs_sequence target = target_make(17, 70);
    hs_intervention list[3];
    target.n_interventions = additions_make(list);
    target.interventions = list;
    check_target(engine, &target, false);
    check_target(engine, &target, true);
    hs_engine_destroy(engine);
}
END_TEST

START_TEST(targets_are_computed_alike_alone_and_together)
{
    const hs_architecture architecture = random_decoders[_i].make();
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
    hs_sequence together[] = {target_make(5, 70), target_make(31, 1), target_make(17, 33), {0}, {0}};
    together[3] = together[2]; /* neighbours share a memory */
    together[3].n_tokens = 9;
    together[4] = together[0];
    for (size_t cross = 0; cross < 2; cross++) {
        targets_pass(engine, together, 5, cross, 1);
        for (size_t s = 0; s < 5; s++) {
            hs_sequence alone = together[s];
            targets_pass(engine, &alone, 1, cross, 1);
            assert_same_captures(alone.capture, together[s].capture);
            hs_capture_destroy(alone.capture);
            hs_capture_destroy(together[s].capture);
        }
    }
    hs_engine_destroy(engine);
}
END_TEST

START_TEST(streamed_cross_maps_have_the_same_bits)
{
    const hs_architecture architecture = random_decoders[_i].make();
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
    hs_sequence cached = target_make(33, 50), streamed = cached;
    runtime->caches.second = SIZE_MAX;
    targets_pass(engine, &cached, 1, true, 1);
    runtime->caches.second = 0;
    targets_pass(engine, &streamed, 1, true, 1);
    assert_same_captures(cached.capture, streamed.capture);
    hs_capture_destroy(cached.capture);
    hs_capture_destroy(streamed.capture);
    hs_engine_destroy(engine);
}
END_TEST

/* A start behind the heads of a layer, its own or its cross heads; what is above has the same bits. A patch
 * of the layer's state and additions to it are in the state already. */
START_TEST(a_start_in_a_decoder_changes_no_bit)
{
    static const uint16_t second[] = {1};
    const hs_architecture architecture = random_decoders[_i / 2].make();
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
    const size_t T = 25, n = T * random_shape->hidden;
    hs_sequence other = target_make(T, 9), whole = target_make(T, 9);
    targets_pass(engine, &other, 1, false, 1);
    hs_intervention list[4];
    additions_make(list + 1);
    list[0] = (hs_intervention){second, 1,    NULL, 0, HS_INTERVENE_PATCH_STATE, 0, &other, NULL, 0,
                                false,  NULL, 0,    0};
    whole.interventions = list;
    whole.n_interventions = 4;
    targets_pass(engine, &whole, 1, _i % 2, 1);
    const hs_start start = {.layer = 1,
                            .state = hs_capture_input(whole.capture, 1),
                            .head_outputs = hs_capture_at(whole.capture, HS_TAP_HEAD_OUTPUT, 1, 0),
                            .cross = _i % 2,
                            .head_off = SIZE_MAX};
    hs_sequence part = whole;
    part.start = &start;
    targets_pass(engine, &part, 1, _i % 2, 1);
    assert_same_bits(whole.capture, part.capture, HS_TAP_LAST_STATE, n);
    ck_assert_mem_eq(hs_capture_at(part.capture, HS_TAP_ATTENTION, 2, 0),
                     hs_capture_at(whole.capture, HS_TAP_ATTENTION, 2, 0),
                     T * whole.capture->n_keys * sizeof(float));
    hs_capture_destroy(part.capture);
    hs_capture_destroy(whole.capture);
    hs_capture_destroy(other.capture);
    hs_engine_destroy(engine);
}
END_TEST

/* Patched with O of its own cross heads, a target stays as it is. With those of another source its last
 * states become those of the source wherever all heads of all layers are patched. */
START_TEST(patches_of_cross_heads_take_cross_heads)
{
    const hs_architecture architecture = random_decoders[_i].make();
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
    hs_sequence source = target_make(17, 33), target = target_make(17, 70);
    targets_pass(engine, &source, 1, true, 1);
    const hs_intervention patch = {
        hs_all_numbers, 3, hs_all_numbers, 3, HS_INTERVENE_PATCH, 0, &source, NULL, 0, true, NULL, 0, 0};
    target.interventions = &patch;
    target.n_interventions = 1;
    targets_pass(engine, &target, 1, true, 1);
    assert_same_bits(target.capture, source.capture, HS_TAP_LAST_STATE, 17 * random_shape->hidden);
    assert_same_bits(target.capture, source.capture, HS_TAP_SIMILARITY,
                     tap_floats(source.capture, HS_TAP_SIMILARITY));
    hs_capture_destroy(target.capture);
    hs_capture_destroy(source.capture);
    hs_engine_destroy(engine);
}
END_TEST

static void refuse_target(const hs_engine *engine, const hs_sequence *target, hs_status status,
                          const char *message)
{
    hs_plan plan;
    hs_error err = {0};
    ck_assert_int_eq(hs_plan_make(hs_engine_architecture(engine), target, 1, NULL, &plan, &err), status);
    ck_assert_str_eq(err.text, message);
}

START_TEST(unsound_targets_are_refused)
{
    const hs_architecture architecture = decoder_bart(), encoder = architecture_plain();
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE),
              *other = engine_make(&encoder, HS_PRODUCTS_NATIVE);
    const hs_intervention identity = {one,  1,    one, 1, HS_INTERVENE_IDENTITY, 0, NULL, NULL, 0,
                                      true, NULL, 0,   0},
                          zero = {one, 1, one, 1, HS_INTERVENE_ZERO, 0, NULL, NULL, 0, true, NULL, 0, 0};
    hs_sequence good = target_make(5, 7), bad;
    targets_pass(engine, &good, 1, true, 1);
    bad = good;
    bad.memory = NULL;
    refuse_target(engine, &bad, HS_INVALID, "a decoder needs the states of its encoder");
    bad = good;
    bad.n_memory = RANDOM_TOKENS_MAX + 1;
    refuse_target(engine, &bad, HS_TOO_LARGE,
                  "301 tokens of the source are not within 1 and the model's 300");
    bad.n_memory = 6;
    refuse_target(engine, &bad, HS_INVALID, "the capture was made for another source");
    bad = good;
    bad.interventions = &identity;
    bad.n_interventions = 1;
    refuse_target(
        engine, &bad, HS_INVALID,
        "the map of a cross head cannot be the identity: its rows and columns are tokens of two texts");
    refuse_target(other, &good, HS_INVALID, "the model has no cross heads and reads no memory");
    bad = good;
    bad.memory = NULL;
    refuse_target(other, &bad, HS_INVALID, "the model has no cross heads and reads no memory");
    hs_capture_destroy(good.capture);
    bad = (hs_sequence){.ids = ids, .n_tokens = 5, .interventions = &zero, .n_interventions = 1};
    const hs_selection all = hs_select_all(random_shape, HS_KEEP(ATTENTION));
    ck_assert_int_eq(hs_capture_create(runtime, random_shape, &all, 5, &bad.capture, NULL), HS_OK);
    refuse_target(other, &bad, HS_INVALID, "the model has no cross heads and reads no memory");
    hs_capture_destroy(bad.capture);
    hs_engine_destroy(engine);
    hs_engine_destroy(other);
}
END_TEST

START_TEST(a_workspace_bounds_the_memories)
{
    const hs_architecture architecture = decoder_t5();
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
    hs_sequence target = target_make(5, 9);
    hs_workspace *ws = NULL;
    hs_error err = {0};
    targets_pass(engine, &target, 1, true, 1);
    ck_assert_int_eq(hs_workspace_create(engine, 8, &ws, NULL), HS_OK);
    ck_assert_int_eq(hs_engine_compute(engine, ws, &target, 1, NULL, NULL, &err), HS_TOO_LARGE);
    ck_assert_str_eq(err.text, "9 tokens of sources are more than the workspace's 8");
    hs_workspace_destroy(ws);
    hs_capture_destroy(target.capture);
    hs_engine_destroy(engine);
}
END_TEST

START_TEST(a_decoder_states_its_bytes)
{
    const hs_architecture architecture = random_decoders[_i].make();
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
    ck_assert_uint_eq(hs__decoder_bytes(&(hs_effects_reader){0}, 9), 0);
    for (size_t k = 0; k < N_TWO_TEXTS; k++) {
        const hs_effects_reader reader = {engine, ids, two_texts[k][0]};
        hs__decoder decoder;
        ck_assert_int_eq(hs__decoder_open(&decoder, &reader, two_texts[k][1], NULL), HS_OK);
        ck_assert_uint_eq(hs__decoder_bytes(&reader, two_texts[k][1]),
                          hs_workspace_bytes(engine, hs_workspace_tokens(decoder.ws)) +
                              decoder.capture->bytes);
        hs__decoder_close(&decoder);
    }
    hs_engine_destroy(engine);
}
END_TEST

START_TEST(logits_are_scaled_where_the_head_says_so)
{
    enum { VOCABULARY = 20 };
    hs_architecture architecture = decoder_t5();
    architecture.predictor.decoder = architecture.embedding.word;
    float plain[VOCABULARY] = {0}, scaled[VOCABULARY] = {0};
    const float *state = random_tensor(1, random_shape->hidden, 0, 1).data;
    for (size_t i = 0; i < 2; i++) {
        architecture.predictor.scale = i ? 0.25 : 0;
        hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
        ck_assert_int_eq(hs_engine_predict(engine, state, 1, 0, 1, i ? scaled : plain, NULL), HS_OK);
        hs_engine_destroy(engine);
    }
    for (size_t k = 0; k < VOCABULARY; k++)
        ck_assert_float_eq(scaled[k], plain[k] / 4);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("architectures");
    TCase *cases = tcase_create("against doubles");
    tcase_add_checked_fixture(cases, setup, teardown);
    tcase_add_loop_test(cases, architectures_agree_with_doubles, 0, (int)n_random_architectures);
    tcase_add_loop_test(cases, every_instruction_set_agrees_with_doubles, 0, (int)n_random_architectures);
    tcase_add_loop_test(cases, padded_rows_agree_with_doubles, 0, (int)n_random_architectures);
    tcase_add_loop_test(cases, threads_change_no_bit, 0, (int)n_random_architectures);
    tcase_add_loop_test(cases, engines_survive_every_refused_allocation, 0, (int)n_random_architectures);
    tcase_add_loop_test(cases, an_array_does_not_depend_on_what_else_is_kept, 0, (int)n_random_architectures);
    tcase_add_loop_test(cases, the_size_of_caches_changes_no_bit, 0, (int)n_random_architectures);
    tcase_add_loop_test(cases, maps_are_computed_again_with_the_same_bits, 0, (int)n_random_architectures);
    tcase_add_loop_test(cases, interventions_agree_with_doubles, 0, N_INTERVENTIONS);
    tcase_add_test(cases, a_scale_of_1_changes_no_bit);
    tcase_add_test(cases, equal_outputs_have_no_centred_similarity);
    tcase_add_test(cases, changed_outputs_in_the_last_layer_change_no_map);
    tcase_add_test(cases, the_order_of_interventions_does_not_matter);
    tcase_add_loop_test(cases, additions_agree_with_doubles, 0, (int)n_random_architectures);
    tcase_add_loop_test(cases, additions_of_factor_0_change_no_bit, 0, (int)n_random_architectures);
    tcase_add_test(cases, interventions_stay_in_their_sequence);
    tcase_add_loop_test(cases, a_start_in_a_layer_changes_no_bit, 0, (int)n_random_architectures);
    tcase_add_loop_test(cases, a_start_at_an_addition_adds_once, 0, (int)n_random_architectures);
    tcase_add_test(cases, unsound_starts_are_refused);
    tcase_add_test(cases, unsound_interventions_are_refused);
    tcase_add_loop_test(cases, what_the_engine_cannot_do_is_refused_by_name, 0, N_UNSUPPORTED);
    tcase_add_test(cases, a_past_has_its_limits);
    tcase_add_test(cases, a_plan_for_another_model_is_refused);
    tcase_add_loop_test(cases, decoders_agree_with_doubles, 0, (int)n_random_decoders);
    tcase_add_loop_test(cases, large_decoders_agree_with_doubles, 0, (int)n_random_decoders);
    tcase_add_loop_test(cases, maps_of_decoders_are_computed_again_with_the_same_bits, 0,
                        (int)n_random_decoders);
    tcase_add_loop_test(cases, interventions_in_decoders_agree_with_doubles, 0,
                        (int)n_random_decoders * N_INTERVENTIONS);
    tcase_add_loop_test(cases, additions_in_decoders_agree_with_doubles, 0, (int)n_random_decoders);
    tcase_add_loop_test(cases, targets_are_computed_alike_alone_and_together, 0, (int)n_random_decoders);
    tcase_add_loop_test(cases, streamed_cross_maps_have_the_same_bits, 0, (int)n_random_decoders);
    tcase_add_loop_test(cases, a_start_in_a_decoder_changes_no_bit, 0, 2 * (int)n_random_decoders);
    tcase_add_loop_test(cases, patches_of_cross_heads_take_cross_heads, 0, (int)n_random_decoders);
    tcase_add_test(cases, unsound_targets_are_refused);
    tcase_add_test(cases, a_workspace_bounds_the_memories);
    tcase_add_loop_test(cases, a_decoder_states_its_bytes, 0, (int)n_random_decoders);
    tcase_add_test(cases, logits_are_scaled_where_the_head_says_so);
    suite_add_tcase(suite, cases);
    return tests_run(suite);
}
