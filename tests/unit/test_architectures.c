/* test_architectures.c - compares the engine with loops over doubles (architecture_reference.h): every
 * feature of architecture.h, every intervention, on odd shapes. */
#include "engine/analysis/decoder.h"
#include "engine/engine.h"
#include "engine/pass/team.h"
#include "tests/unit/architecture_reference.h"
#include "tests/unit/chaos.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS_MAX = 300 };
#define EVERYTHING ((1U << HS_TAP_CROSS_STATE) - 1) /* the taps of every model; decoders have one more */

static hs_runtime *runtime;
static int32_t ids[TOKENS_MAX];
static uint8_t types[TOKENS_MAX];

static void setup(void)
{
    ck_assert_int_eq(hs_runtime_create(3, &runtime, NULL), HS_OK);
    for (size_t i = 0; i < TOKENS_MAX; i++) {
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

/* layers, heads, hidden, head width, ffn, positions, types, vocabulary, key-value heads */
static const hs_shape small = {3, 3, 42, 14, 50, TOKENS_MAX, 2, 20, 0};
static const hs_shape large = {3,          4, 256, 64, 300,
                               TOKENS_MAX, 2, 20,  0}; /* enough work for threads to share */
static const hs_shape padded = {3,          3, 42, 14, 1024,
                                TOKENS_MAX, 2, 20, 0}; /* rows that would be pages apart */
static const hs_shape *shape = &small;                 /* of the architectures below */
static const size_t lengths[] = {1, 2, 17, 70, 150};
enum { N_LENGTHS = sizeof lengths / sizeof *lengths };

static hs_architecture architecture_plain(void)
{
    return random_architecture(shape, shape->hidden);
}

static hs_architecture architecture_gelu_tanh(void)
{
    hs_architecture architecture = architecture_plain();
    architecture.activation = HS_GELU_TANH;
    return architecture;
}

static hs_architecture architecture_quick_gelu(void)
{
    hs_architecture architecture = architecture_plain();
    architecture.activation = HS_QUICK_GELU;
    return architecture;
}

static hs_architecture architecture_relu(void)
{
    hs_architecture architecture = architecture_plain();
    architecture.activation = HS_RELU;
    return architecture;
}

static hs_architecture architecture_silu(void)
{
    hs_architecture architecture = architecture_plain();
    architecture.activation = HS_SILU;
    return architecture;
}

static hs_architecture architecture_tanh(void)
{
    hs_architecture architecture = architecture_plain();
    architecture.activation = HS_TANH;
    return architecture;
}

/* ELECTRA's narrow embedding, and one wider than everything else. */
static hs_architecture architecture_projected(void)
{
    return random_architecture(shape, 10);
}

static hs_architecture architecture_projected_from_wide(void)
{
    return random_architecture(shape, 200);
}

/* An architecture without positions, types or biases. */
static hs_architecture architecture_bare(void)
{
    hs_architecture architecture = architecture_plain();
    const hs_tensor none = {0};
    architecture.shape.n_types = 0;
    architecture.embedding.type = architecture.embedding.position = architecture.embedding.norm.beta = none;
    for (size_t l = 0; l < shape->n_layers; l++) {
        hs_layer *layer = &architecture.layers[l];
        layer->query.bias = layer->key.bias = layer->value.bias = layer->output.bias = none;
        layer->ffn_in.bias = layer->ffn_out.bias = none;
        layer->attention_norm.beta = layer->ffn_norm.beta = none;
    }
    return architecture;
}

/* RoBERTa: id 3, which our texts hold, is padding. */
static hs_architecture architecture_padding(void)
{
    hs_architecture architecture = architecture_plain();
    architecture.embedding.position_offset = 4;
    architecture.embedding.position = random_tensor(shape->n_positions + 4, shape->hidden, 0, 0.5F);
    return architecture;
}

/* BART: id 3 is a token like others; words are scaled. */
static hs_architecture architecture_counted_padding(void)
{
    hs_architecture architecture = architecture_padding();
    architecture.embedding.counts_padding = true;
    architecture.embedding.scale = 7;
    return architecture;
}

/* M2M100: id 3 is padding, whose row is 0. */
static hs_architecture architecture_sinusoids(void)
{
    hs_architecture architecture = architecture_plain();
    architecture.embedding.position = (hs_tensor){0};
    architecture.embedding.sinusoids = HS_SINUSOIDS_M2M;
    architecture.embedding.position_offset = 4;
    architecture.embedding.norm = (hs_norm){0};
    return architecture;
}

static hs_architecture architecture_sinusoids_of_marian(void)
{
    hs_architecture architecture = architecture_sinusoids();
    architecture.embedding.sinusoids = HS_SINUSOIDS_MARIAN;
    architecture.embedding.position_offset = 0;
    return architecture;
}

static hs_architecture architecture_token_dropout(void)
{
    hs_architecture architecture = architecture_plain();
    architecture.embedding.token_dropout = 0.12;
    architecture.embedding.mask_id = 8;
    architecture.embedding.norm = (hs_norm){0};
    return architecture;
}

/* MPNet. */
static hs_architecture architecture_distance_bias(void)
{
    hs_architecture architecture = architecture_plain();
    architecture.score_bias = (hs_score_bias){
        .table = random_tensor(32, shape->n_heads, 0, 1), .n_buckets = 32, .n_distances = 128};
    return architecture;
}

/* T5's encoder: a gate, scores that are not scaled, and few buckets of few distances. */
static hs_architecture architecture_t5(void)
{
    hs_architecture architecture = architecture_bare();
    architecture.norms_before = true;
    architecture.score_divisor = 1;
    architecture.activation = HS_GELU_TANH;
    architecture.score_bias =
        (hs_score_bias){.table = random_tensor(10, shape->n_heads, 0, 1), .n_buckets = 10, .n_distances = 20};
    architecture.final_norm.gamma = random_tensor(1, shape->hidden, 1, 0.1F);
    for (size_t l = 0; l < shape->n_layers; l++)
        architecture.layers[l].ffn_gate.weight = random_tensor(shape->ffn, shape->hidden, 0, 0.1F);
    return architecture;
}

/* Three heads: slopes of two, and one in between. */
static hs_architecture architecture_alibi(void)
{
    hs_architecture architecture = architecture_plain();
    architecture.alibi = true;
    return architecture;
}

/* ALBERT: one layer's weights for all. */
static hs_architecture architecture_shared(void)
{
    hs_architecture architecture = random_architecture(shape, 16);
    architecture.activation = HS_GELU_TANH;
    architecture.layers[1] = architecture.layers[2] = (hs_layer){.same_as = 0};
    return architecture;
}

static hs_architecture architecture_gated(void)
{
    hs_architecture architecture = architecture_plain();
    architecture.activation = HS_SILU;
    for (size_t l = 0; l < shape->n_layers; l++)
        architecture.layers[l].ffn_gate = random_dense(shape->ffn, shape->hidden);
    return architecture;
}

static hs_architecture architecture_rotated(void)
{
    hs_architecture architecture = architecture_plain();
    for (size_t l = 0; l < shape->n_layers; l++)
        architecture.layers[l].rotation_base = l == 1 ? 100 : 10000;
    return architecture;
}

static hs_architecture architecture_yarn(void)
{
    hs_architecture architecture = architecture_rotated();
    architecture.rotary = (hs_rotary){.factor = 4, .low = 1, .high = 4, .by_column = true, .amplitude = 1.2};
    return architecture;
}

/* Some texts of the tests have more tokens than the positions of the training. */
static hs_architecture architecture_longrope(void)
{
    static float divisors[256];
    hs_architecture architecture = architecture_rotated();
    for (size_t i = 0; i < sizeof divisors / sizeof *divisors; i++)
        divisors[i] = 1 + (float)i / 8;
    architecture.rotary = (hs_rotary){.original_positions = 20, .amplitude = 1.1, .divisors = divisors};
    return architecture;
}

/* As of Gemma 3, whose layers with a window rotate unscaled. */
static hs_architecture architecture_partly_longrope(void)
{
    hs_architecture architecture = architecture_longrope();
    architecture.layers[1].rotation_unscaled = true;
    return architecture;
}

/* No text is long. */
static hs_architecture architecture_short_longrope(void)
{
    hs_architecture architecture = architecture_longrope();
    architecture.rotary.original_positions = shape->n_positions;
    return architecture;
}

static hs_architecture architecture_interleaved(void)
{
    hs_architecture architecture = architecture_rotated();
    architecture.rotary.interleaved = true;
    return architecture;
}

/* Windows: one neighbour in the first layer, 16 in the second, and none in the others. */
static hs_architecture architecture_windows(void)
{
    hs_architecture architecture = architecture_plain();
    architecture.layers[0].window = 1;
    architecture.layers[1].window = 16;
    return architecture;
}

/* ESM: norms before every block, and a final one. */
static hs_architecture architecture_norms_before(void)
{
    hs_architecture architecture = architecture_plain();
    architecture.norms_before = true;
    architecture.final_norm = random_norm(shape->hidden);
    return architecture;
}

/* OLMo 2: norms of what the blocks add, and of the queries and keys of all heads. */
static hs_architecture architecture_norms_of_updates(void)
{
    hs_architecture architecture = architecture_norms_before();
    architecture.qk_norms_whole = true;
    for (size_t l = 0; l < shape->n_layers; l++) {
        hs_layer *layer = &architecture.layers[l];
        layer->rotation_base = 10000;
        layer->attention_norm = (hs_norm){0};
        layer->attention_out_norm = random_norm(shape->hidden);
        layer->ffn_out_norm = random_norm(shape->hidden);
        layer->query_norm = random_norm(shape->hidden);
        layer->key_norm = random_norm(shape->hidden);
    }
    return architecture;
}

/* Gemma 2: RMS norms would need another reference; caps, a divisor of its own, and norms around 1. */
static hs_architecture architecture_caps(void)
{
    hs_architecture architecture = architecture_norms_of_updates();
    architecture.causal = true;
    architecture.score_divisor = 2;
    architecture.score_cap = 0.5;
    for (size_t l = 0; l < shape->n_layers; l++) {
        architecture.layers[l].attention_out_norm.offset = architecture.layers[l].ffn_norm.offset = 1;
        architecture.layers[l].window = l == 1 ? 5 : 0;
    }
    return architecture;
}

/* ModernBERT: all of it at once, the first norm the identity, no biases. */
static hs_architecture architecture_modern(void)
{
    hs_architecture architecture = architecture_bare();
    architecture.norms_before = true;
    architecture.final_norm.gamma = random_tensor(1, shape->hidden, 1, 0.1F);
    for (size_t l = 0; l < shape->n_layers; l++) {
        hs_layer *layer = &architecture.layers[l];
        layer->ffn_gate.weight = random_tensor(shape->ffn, shape->hidden, 0, 0.1F);
        layer->window = l == 0 ? 0 : 5;
        layer->rotation_base = l == 0 ? 160000 : 10000;
    }
    architecture.layers[0].attention_norm = (hs_norm){0};
    return architecture;
}

/* DeBERTa-v3: keys and queries of distances are those of tokens; layers share them where they share weights.
 */
static hs_architecture architecture_relative(void)
{
    hs_architecture architecture = architecture_plain();
    architecture.relative = (hs_relative){.table = random_tensor(2 * 24, shape->hidden, 0, 0.5F),
                                          .norm = random_norm(shape->hidden),
                                          .span = 24,
                                          .n_buckets = 24,
                                          .n_distances = 100,
                                          .c2p = true,
                                          .p2c = true,
                                          .n_addends = 3};
    for (size_t l = 0; l < shape->n_layers; l++) {
        architecture.layers[l].position_key = architecture.layers[l].key;
        architecture.layers[l].position_query = architecture.layers[l].query;
    }
    architecture.layers[1].same_as = 0;
    return architecture;
}

/* One addend beside content, in some layers, every distance up to 40 in a row of its own; a bias on top. */
static hs_architecture architecture_relative_alone(bool keys)
{
    hs_architecture architecture = architecture_plain();
    architecture.alibi = true;
    architecture.relative = (hs_relative){.table = random_tensor(2 * 40, shape->hidden, 0, 0.5F),
                                          .span = 40,
                                          .n_distances = 40,
                                          .c2p = keys,
                                          .p2c = !keys,
                                          .n_addends = 2};
    for (size_t l = 1; l < shape->n_layers; l++)
        *(keys ? &architecture.layers[l].position_key : &architecture.layers[l].position_query) =
            random_dense(shape->hidden, shape->hidden);
    return architecture;
}

static hs_architecture architecture_relative_keys(void)
{
    return architecture_relative_alone(true);
}

static hs_architecture architecture_relative_queries(void)
{
    return architecture_relative_alone(false);
}

static hs_architecture architecture_convolution(void)
{
    hs_architecture architecture = architecture_plain();
    architecture.convolution = (hs_convolution){random_dense(shape->hidden, 5 * shape->hidden),
                                                random_norm(shape->hidden), HS_RELU, 5};
    return architecture;
}

/* Windows, biases and shared weights in one: no model we know of, but nothing in an architecture forbids it.
 */
static hs_architecture architecture_mixed(void)
{
    hs_architecture architecture = architecture_rotated();
    architecture.score_bias = (hs_score_bias){
        .table = random_tensor(32, shape->n_heads, 0, 1), .n_buckets = 32, .n_distances = 128};
    architecture.layers[2].same_as = 0;
    architecture.layers[1].window = 3;
    architecture.layers[2].window = 30;
    return architecture;
}

static const struct {
    const char *name;
    hs_architecture (*make)(void);
} architectures[] = {
    {"plain", architecture_plain},
    {"gelu tanh", architecture_gelu_tanh},
    {"quick gelu", architecture_quick_gelu},
    {"relu", architecture_relu},
    {"silu", architecture_silu},
    {"tanh", architecture_tanh},
    {"projected", architecture_projected},
    {"projected from wide", architecture_projected_from_wide},
    {"bare", architecture_bare},
    {"padding", architecture_padding},
    {"counted padding", architecture_counted_padding},
    {"sinusoids", architecture_sinusoids},
    {"YaRN", architecture_yarn},
    {"LongRoPE", architecture_longrope},
    {"LongRoPE, a layer unscaled", architecture_partly_longrope},
    {"LongRoPE, short texts", architecture_short_longrope},
    {"Marian's sinusoids", architecture_sinusoids_of_marian},
    {"token dropout", architecture_token_dropout},
    {"distance bias", architecture_distance_bias},
    {"t5", architecture_t5},
    {"alibi", architecture_alibi},
    {"shared", architecture_shared},
    {"gated", architecture_gated},
    {"rotated", architecture_rotated},
    {"interleaved", architecture_interleaved},
    {"windows", architecture_windows},
    {"norms before", architecture_norms_before},
    {"norms of updates", architecture_norms_of_updates},
    {"caps", architecture_caps},
    {"modern", architecture_modern},
    {"relative", architecture_relative},
    {"relative keys", architecture_relative_keys},
    {"relative queries", architecture_relative_queries},
    {"convolution", architecture_convolution},
    {"mixed", architecture_mixed},
};
enum { N_ARCHITECTURES = sizeof architectures / sizeof *architectures };

START_TEST(architectures_agree_with_doubles)
{
    const hs_architecture architecture = architectures[_i].make();
    for (size_t t = 0; t < N_LENGTHS; t++)
        check_pass(&architecture, HS_PRODUCTS_NATIVE, lengths[t], NULL, 0);
    check_pass(&architecture, HS_PRODUCTS_CBLAS, 33, NULL, 0);
}
END_TEST

START_TEST(padded_rows_agree_with_doubles)
{
    shape = &padded;
    const hs_architecture architecture = architectures[_i].make();
    check_pass(&architecture, HS_PRODUCTS_NATIVE, 17, NULL, 0);
    check_pass(&architecture, HS_PRODUCTS_CBLAS, 17, NULL, 0);
    shape = &small;
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
    const hs_architecture architecture = architectures[_i].make();
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
    shape = &large;
    const hs_architecture architecture = architectures[_i].make();
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
    hs_capture *alone = pass(engine, 150, EVERYTHING, NULL, 0, 1);
    hs_capture *shared = pass(engine, 150, EVERYTHING, NULL, 0, 3);
    for (hs_tap tap = 0; tap < HS_TAP_CROSS_STATE; tap++)
        ck_assert_mem_eq(shared->arrays[tap], alone->arrays[tap], tap_floats(alone, tap) * sizeof(float));
    hs_capture_destroy(alone);
    hs_capture_destroy(shared);
    hs_engine_destroy(engine);
    shape = &small;
}
END_TEST

START_TEST(engines_survive_every_refused_allocation)
{
    const hs_architecture architecture = architectures[_i].make();
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
    const hs_architecture architecture = architectures[_i].make();
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
    const hs_intervention identity = {one, 1, one, 1, HS_INTERVENE_IDENTITY, 0, NULL, NULL, 0, false};
    const hs_architecture architecture = architectures[_i].make();
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
    const hs_architecture architecture = architectures[_i].make();
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
    {{{one, 1, outer, 2, HS_INTERVENE_ZERO, 0, NULL, NULL, 0, false}}, 1},
    {{{outer, 2, one, 1, HS_INTERVENE_SCALE, -1.5F, NULL, NULL, 0, false}}, 1},
    {{{outer, 2, outer, 2, HS_INTERVENE_MEAN, 0, NULL, NULL, 0, false}}, 1},
    {{{one, 1, hs_all_numbers, 3, HS_INTERVENE_UNIFORM, 0, NULL, NULL, 0, false}}, 1},
    {{{outer, 2, one, 1, HS_INTERVENE_IDENTITY, 0, NULL, NULL, 0, false}}, 1},
    {{{one, 1, one, 1, HS_INTERVENE_SCALE, 3, NULL, NULL, 0, false},
      {one, 1, hs_all_numbers, 3, HS_INTERVENE_MEAN, 0, NULL, NULL, 0, false},
      {hs_all_numbers, 3, one, 1, HS_INTERVENE_UNIFORM, 0, NULL, NULL, 0, false}},
     3},
    {{{one, 1, one, 1, HS_INTERVENE_SCALE, 3, NULL, NULL, 0, false},
      {hs_all_numbers, 3, one, 1, HS_INTERVENE_ZERO, 0, NULL, NULL, 0, false}},
     2},
    {{{hs_all_numbers, 3, one, 1, HS_INTERVENE_SCALE, 0, NULL, NULL, 0, false},
      {hs_all_numbers, 0, hs_all_numbers, 0, HS_INTERVENE_ZERO, 0, NULL, NULL, 0, false}},
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
        check_pass(&relative, HS_PRODUCTS_NATIVE, lengths[t], interventions[_i].list, interventions[_i].n);
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
    const hs_intervention nothing = {hs_all_numbers, 3, hs_all_numbers, 3, HS_INTERVENE_SCALE, 1, NULL,
                                     NULL,           0, false};
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
            const hs_intervention change = {one, 1, one, 1, kinds[k], 0, NULL, NULL, 0, false};
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
        const hs_intervention change = {last, 1, one, 1, kinds[k], 2, NULL, NULL, 0, false};
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
    const hs_intervention there[] = {{one, 1, one, 1, HS_INTERVENE_SCALE, 3, NULL, NULL, 0, false},
                                     {one, 1, hs_all_numbers, 3, HS_INTERVENE_MEAN, 0, NULL, NULL, 0, false},
                                     {one, 1, outer, 2, HS_INTERVENE_ZERO, 0, NULL, NULL, 0, false},
                                     {one, 1, one, 1, HS_INTERVENE_IDENTITY, 0, NULL, NULL, 0, false}};
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

/* Texts of one pass have their own interventions. */
START_TEST(interventions_stay_in_their_sequence)
{
    const hs_intervention zero = {hs_all_numbers, 3, hs_all_numbers, 3, HS_INTERVENE_ZERO, 0, NULL,
                                  NULL,           0, false};
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
        ck_assert_int_eq(hs_capture_create(runtime, shape, &all, 25, &both[s].capture, NULL), HS_OK);
    }
    ck_assert_int_eq(hs_workspace_create(engine, 50, &ws, NULL), HS_OK);
    ck_assert_int_eq(hs_engine_compute(engine, ws, both, 2, NULL, NULL, NULL), HS_OK);
    for (size_t s = 0; s < 2; s++) {
        assert_same_bits(both[s].capture, alone[s], HS_TAP_ATTENTION, maps_floats(alone[s]));
        assert_same_bits(both[s].capture, alone[s], HS_TAP_HIDDEN_STATE, 4 * 25 * shape->hidden);
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
    const hs_architecture architecture = architectures[_i].make();
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_DEFAULT);
    const hs_intervention above = {last, 1, hs_all_numbers, 2, HS_INTERVENE_MEAN, 0, NULL, NULL, 0, false};
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

    const hs_intervention off = {second, 1, second, 1, HS_INTERVENE_ZERO, 0, NULL, NULL, 0, false};
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
    ck_assert_int_eq(hs_capture_create(NULL, shape, &none, 4, &capture, NULL), HS_OK);
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
    const hs_selection none = {0}, outputs = {one, 1, one, 1, HS_KEEP(HEAD_OUTPUT), 0},
                       states = {one, 1, one, 1, HS_KEEP(HIDDEN_STATE), 0};
    hs_capture *captures[3] = {NULL};
    ck_assert_int_eq(hs_capture_create(NULL, shape, &none, 4, &captures[0], NULL), HS_OK);
    ck_assert_int_eq(hs_capture_create(NULL, shape, &outputs, 4, &captures[1], NULL), HS_OK);
    ck_assert_int_eq(hs_capture_create(NULL, shape, &states, 4, &captures[2], NULL), HS_OK);
    const hs_sequence unknown = {.ids = ids, .n_tokens = 4},
                      shorter = {.ids = ids, .n_tokens = 3, .capture = captures[1]},
                      heads = {.ids = ids, .n_tokens = 4, .capture = captures[1]},
                      hidden = {.ids = ids, .n_tokens = 4, .capture = captures[2]};
    const struct {
        hs_intervention list[2];
        const char *text;
    } cases[] = {
        {{{beyond, 1, one, 1, HS_INTERVENE_ZERO, 0, NULL, NULL, 0, false}},
         "an intervention's layers must be ascending and below 3"},
        {{{one, 1, descending, 2, HS_INTERVENE_ZERO, 0, NULL, NULL, 0, false}},
         "an intervention's heads must be ascending and below 3"},
        {{{one, 1, one, 1, HS_INTERVENE_SCALE, NAN, NULL, NULL, 0, false}},
         "an intervention's factor must be a finite number"},
        {{{one, 1, one, 1, HS_INTERVENE_SCALE, INFINITY, NULL, NULL, 0, false}},
         "an intervention's factor must be a finite number"},
        {{{hs_all_numbers, 3, outer, 2, HS_INTERVENE_UNIFORM, 0, NULL, NULL, 0, false},
          {outer, 2, hs_all_numbers, 3, HS_INTERVENE_IDENTITY, 0, NULL, NULL, 0, false}},
         "head 0 of layer 0 is asked to be uniform and the identity: choose one"},
        {{{one, 1, one, 1, HS_INTERVENE_PATCH, 0, &unknown, NULL, 0, false}},
         "a patch needs another text's pass, which only a single text has"},
        {{{one, 1, one, 1, HS_INTERVENE_PATCH, 0, &shorter, NULL, 0, false}},
         "a patch is from a text of 3 tokens, but the text has 4"},
        {{{one, 1, one, 1, HS_INTERVENE_PATCH, 0, &heads, outside, 2, false}},
         "a patch's positions must be ascending and below 4"},
        {{{one, 1, one, 1, HS_INTERVENE_PATCH, 0, &heads, twice, 2, false}},
         "a patch's positions must be ascending and below 4"},
        {{{hs_all_numbers, 3, one, 1, HS_INTERVENE_PATCH, 0, &heads, NULL, 0, false}},
         "the pass that a patch is from does not keep what it takes"},
        {{{one, 1, one, 1, HS_INTERVENE_PATCH, 0, &hidden, NULL, 0, false}},
         "the pass that a patch is from does not keep what it takes"},
        {{{hs_all_numbers, 3, NULL, 0, HS_INTERVENE_PATCH_STATE, 0, &heads, NULL, 0, false}},
         "the pass that a patch is from does not keep what it takes"},
        {{{one, 1, NULL, 0, HS_INTERVENE_PATCH_STATE, 0, &hidden, NULL, 0, false}},
         "the pass that a patch is from does not keep what it takes"},
        {{{beyond_last, 1, NULL, 0, HS_INTERVENE_PATCH_STATE, 0, &hidden, NULL, 0, false}},
         "an intervention's layers must be ascending and below 4"},
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

static hs_architecture architecture_whole_norms_by_head(void)
{
    hs_architecture architecture = architecture_norms_of_updates();
    architecture.qkv_by_head = true;
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
    {architecture_whole_norms_by_head, "one norm of all queries where queries are beside keys"},
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

/* T5's, with few buckets before a token. Its query weights are smaller by sqrt(d), as in T5, whose scores are
 * not divided. */
static hs_architecture decoder_t5(void)
{
    const size_t H = shape->hidden;
    hs_architecture architecture = architecture_t5();
    architecture.score_bias.one_sided = true;
    random_decoder(&architecture);
    for (size_t block = 0; block < hs_architecture_blocks(&architecture); block++)
        architecture.layers[block].query.weight =
            random_tensor(H, H, 0, 1 / sqrtf((float)(H * shape->head_width)));
    return architecture;
}

/* The same with is_causal false: it sees both ways, but has no buckets behind a token. */
static hs_architecture decoder_both_ways(void)
{
    hs_architecture architecture = decoder_t5();
    architecture.causal = false;
    return architecture;
}

/* BART's. */
static hs_architecture decoder_bart(void)
{
    hs_architecture architecture = architecture_plain();
    architecture.embedding.position_offset = 2;
    architecture.embedding.counts_padding = true;
    architecture.embedding.position = random_tensor(TOKENS_MAX + 2, shape->hidden, 0, 0.5F);
    random_decoder(&architecture);
    return architecture;
}

static hs_architecture (*const decoders[])(void) = {decoder_t5, decoder_both_ways, decoder_bart};
enum { N_DECODERS = sizeof decoders / sizeof *decoders };

/* Lengths of targets and sources. */
static const size_t two_texts[][2] = {{1, 1}, {17, 5}, {5, 17}, {1, 70}, {70, 150}, {150, 33}};
enum { N_TWO_TEXTS = sizeof two_texts / sizeof *two_texts };

/* A target of T tokens and a source of random states. */
static hs_sequence target_make(size_t T, size_t n_memory)
{
    return (hs_sequence){.ids = ids,
                         .types = types,
                         .n_tokens = T,
                         .memory = random_tensor(n_memory, shape->hidden, 0, 1).data,
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
    const hs_architecture architecture = decoders[_i]();
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
    shape = &large;
    const hs_architecture architecture = decoders[_i]();
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
    hs_sequence target = target_make(150, 70);
    check_target(engine, &target, true);
    hs_engine_destroy(engine);
    shape = &small;
}
END_TEST

START_TEST(maps_of_decoders_are_computed_again_with_the_same_bits)
{
    const hs_architecture architecture = decoders[_i]();
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
    const hs_architecture architecture = decoders[_i % N_DECODERS]();
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
    hs_intervention list[6];
    size_t n = 0;
    for (size_t i = 0; i < interventions[_i / N_DECODERS].n; i++)
        for (size_t cross = 0; cross < 2; cross++) {
            list[n] = interventions[_i / N_DECODERS].list[i];
            list[n].cross = cross != i % 2;
            n += list[n].kind != HS_INTERVENE_IDENTITY || !list[n].cross;
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

START_TEST(targets_are_computed_alike_alone_and_together)
{
    const hs_architecture architecture = decoders[_i]();
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
    const hs_architecture architecture = decoders[_i]();
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
 * of the layer's state is in the state already. */
START_TEST(a_start_in_a_decoder_changes_no_bit)
{
    static const uint16_t second[] = {1};
    const hs_architecture architecture = decoders[_i / 2]();
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
    const size_t T = 25, n = T * shape->hidden;
    hs_sequence other = target_make(T, 9), whole = target_make(T, 9);
    targets_pass(engine, &other, 1, false, 1);
    const hs_intervention patch = {second, 1, NULL, 0, HS_INTERVENE_PATCH_STATE, 0, &other, NULL, 0, false};
    whole.interventions = &patch;
    whole.n_interventions = 1;
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
    const hs_architecture architecture = decoders[_i]();
    hs_engine *engine = engine_make(&architecture, HS_PRODUCTS_NATIVE);
    hs_sequence source = target_make(17, 33), target = target_make(17, 70);
    targets_pass(engine, &source, 1, true, 1);
    const hs_intervention patch = {
        hs_all_numbers, 3, hs_all_numbers, 3, HS_INTERVENE_PATCH, 0, &source, NULL, 0, true};
    target.interventions = &patch;
    target.n_interventions = 1;
    targets_pass(engine, &target, 1, true, 1);
    assert_same_bits(target.capture, source.capture, HS_TAP_LAST_STATE, 17 * shape->hidden);
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
    const hs_intervention identity = {one, 1, one, 1, HS_INTERVENE_IDENTITY, 0, NULL, NULL, 0, true},
                          zero = {one, 1, one, 1, HS_INTERVENE_ZERO, 0, NULL, NULL, 0, true};
    hs_sequence good = target_make(5, 7), bad;
    targets_pass(engine, &good, 1, true, 1);
    bad = good;
    bad.memory = NULL;
    refuse_target(engine, &bad, HS_INVALID, "a decoder needs the states of its encoder");
    bad = good;
    bad.n_memory = TOKENS_MAX + 1;
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
    const hs_selection all = hs_select_all(shape, HS_KEEP(ATTENTION));
    ck_assert_int_eq(hs_capture_create(runtime, shape, &all, 5, &bad.capture, NULL), HS_OK);
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
    const hs_architecture architecture = decoders[_i]();
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
    float plain[VOCABULARY], scaled[VOCABULARY];
    const float *state = random_tensor(1, shape->hidden, 0, 1).data;
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
    tcase_add_loop_test(cases, architectures_agree_with_doubles, 0, N_ARCHITECTURES);
    tcase_add_loop_test(cases, every_instruction_set_agrees_with_doubles, 0, N_ARCHITECTURES);
    tcase_add_loop_test(cases, padded_rows_agree_with_doubles, 0, N_ARCHITECTURES);
    tcase_add_loop_test(cases, threads_change_no_bit, 0, N_ARCHITECTURES);
    tcase_add_loop_test(cases, engines_survive_every_refused_allocation, 0, N_ARCHITECTURES);
    tcase_add_loop_test(cases, an_array_does_not_depend_on_what_else_is_kept, 0, N_ARCHITECTURES);
    tcase_add_loop_test(cases, the_size_of_caches_changes_no_bit, 0, N_ARCHITECTURES);
    tcase_add_loop_test(cases, maps_are_computed_again_with_the_same_bits, 0, N_ARCHITECTURES);
    tcase_add_loop_test(cases, interventions_agree_with_doubles, 0, N_INTERVENTIONS);
    tcase_add_test(cases, a_scale_of_1_changes_no_bit);
    tcase_add_test(cases, equal_outputs_have_no_centred_similarity);
    tcase_add_test(cases, changed_outputs_in_the_last_layer_change_no_map);
    tcase_add_test(cases, the_order_of_interventions_does_not_matter);
    tcase_add_test(cases, interventions_stay_in_their_sequence);
    tcase_add_loop_test(cases, a_start_in_a_layer_changes_no_bit, 0, N_ARCHITECTURES);
    tcase_add_test(cases, unsound_starts_are_refused);
    tcase_add_test(cases, unsound_interventions_are_refused);
    tcase_add_loop_test(cases, what_the_engine_cannot_do_is_refused_by_name, 0, N_UNSUPPORTED);
    tcase_add_test(cases, a_past_has_its_limits);
    tcase_add_test(cases, a_plan_for_another_model_is_refused);
    tcase_add_loop_test(cases, decoders_agree_with_doubles, 0, N_DECODERS);
    tcase_add_loop_test(cases, large_decoders_agree_with_doubles, 0, N_DECODERS);
    tcase_add_loop_test(cases, maps_of_decoders_are_computed_again_with_the_same_bits, 0, N_DECODERS);
    tcase_add_loop_test(cases, interventions_in_decoders_agree_with_doubles, 0, N_DECODERS * N_INTERVENTIONS);
    tcase_add_loop_test(cases, targets_are_computed_alike_alone_and_together, 0, N_DECODERS);
    tcase_add_loop_test(cases, streamed_cross_maps_have_the_same_bits, 0, N_DECODERS);
    tcase_add_loop_test(cases, a_start_in_a_decoder_changes_no_bit, 0, 2 * N_DECODERS);
    tcase_add_loop_test(cases, patches_of_cross_heads_take_cross_heads, 0, N_DECODERS);
    tcase_add_test(cases, unsound_targets_are_refused);
    tcase_add_test(cases, a_workspace_bounds_the_memories);
    tcase_add_loop_test(cases, a_decoder_states_its_bytes, 0, N_DECODERS);
    tcase_add_test(cases, logits_are_scaled_where_the_head_says_so);
    suite_add_tcase(suite, cases);
    return tests_run(suite);
}
