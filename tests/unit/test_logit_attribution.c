/* test_logit_attribution.c - the parts of a logit sum up to it, in every architecture that has such a sum. */
#include "engine/analysis/attribution.h"
#include "engine/pass/tape.h"
#include "tests/unit/chaos.h"
#include "tests/unit/random_architectures.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <math.h>
#include <string.h>

enum { LAYERS = 3, HEADS_MAX = 16, TOKENS = 23, MEMORY = 11, HIDDEN_MAX = 256 };

static hs_runtime *runtime;
static int32_t ids[TOKENS];
static float memory[MEMORY * HIDDEN_MAX]; /* of decoders */

static void setup(void)
{
    ck_assert_int_eq(hs_runtime_create(3, &runtime, NULL), HS_OK);
    for (size_t i = 0; i < TOKENS; i++)
        ids[i] = (int32_t)((i * 7 + i * i) % 20);
    for (size_t i = 0; i < MEMORY * HIDDEN_MAX; i++)
        memory[i] = (float)sin((double)(i * i));
}

static void teardown(void)
{
    hs_runtime_destroy(runtime);
    random_architecture_free();
}

/* A tape of a text, and what it is read with. */
typedef struct recorded {
    hs_engine *engine;
    hs_workspace *ws;
    hs_sequence text;
    hs_tape *tape;
} recorded;

static const hs_target difference = {.kind = HS_TARGET_TOKENS, .position = TOKENS - 1, .tokens = {7, 3}};

/* Gives the architecture a head for tokens, with biases. */
static void head_add(hs_architecture *architecture)
{
    const size_t H = architecture->shape.hidden, V = architecture->shape.vocab_size;
    architecture->predictor = (hs_predictor){
        .decoder = random_tensor(V, H, 0, 0.5F), .bias = random_tensor(1, V, 0, 0.5F), .scale = 0.7};
}

static recorded record(const hs_architecture *architecture, const hs_intervention *interventions, size_t n,
                       size_t bytes_max)
{
    recorded r = {.text = {.ids = ids, .n_tokens = TOKENS, .interventions = interventions}};
    hs_error err = {0};
    r.text.n_interventions = n;
    if (architecture->crosses) {
        ck_assert_uint_le(architecture->shape.hidden, HIDDEN_MAX);
        r.text.memory = memory;
        r.text.n_memory = MEMORY;
    }
    ck_assert_msg(!hs_engine_create(runtime, architecture, &(hs_engine_options){0}, &r.engine, &err), "%s",
                  err.text);
    ck_assert_int_eq(hs_gradients_prepare(r.engine, false, NULL), HS_OK);
    ck_assert_int_eq(hs_workspace_create(r.engine, TOKENS + MEMORY, &r.ws, NULL), HS_OK);
    ck_assert_msg(!hs__tape_record(r.engine, r.ws, &r.text, NULL, bytes_max, &r.tape, &err), "%s", err.text);
    return r;
}

static void recorded_free(recorded *r)
{
    hs_tape_destroy(r->tape);
    hs_workspace_destroy(r->ws);
    hs_engine_destroy(r->engine);
}

/* All parts of a target. */
typedef struct parts {
    float heads[LAYERS * HEADS_MAX], feed_forward[LAYERS];
    size_t n_heads; /* of all layers */
    hs_logit_attribution sums;
    double target;
} parts;

static parts read_parts(recorded *r, bool cross, const hs_target *target)
{
    parts p = {0};
    hs_error err = {0};
    const size_t n_heads = hs_engine_shape(r->engine)->n_heads;
    const hs_logit_selection all = {.layers = hs_all_numbers,
                                    .heads = hs_all_numbers,
                                    .n_layers = LAYERS,
                                    .n_heads = n_heads,
                                    .cross = cross,
                                    .ret_heads = p.heads,
                                    .ret_feed_forward = p.feed_forward};
    ck_assert_uint_le(n_heads, HEADS_MAX);
    p.n_heads = LAYERS * n_heads;
    ck_assert_msg(!hs_tape_logits(r->tape, r->ws, target, &all, NULL, &p.sums, &p.target, &err), "%s",
                  err.text);
    return p;
}

static double sum_of(const float *numbers, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)numbers[i];
    return sum;
}

/* The parts sum up to the target. */
static void check_sum(const parts *p, const char *name)
{
    const double sum = sum_of(p->heads, p->n_heads) + sum_of(p->feed_forward, LAYERS) +
                       (double)p->sums.embedding + (double)p->sums.bias + (double)p->sums.other;
    double scale = fabs((double)p->sums.embedding) + fabs((double)p->sums.value);
    for (size_t i = 0; i < p->n_heads; i++)
        scale += fabs((double)p->heads[i]);
    ck_assert_msg(fabs(sum - (double)p->sums.value) <= 2e-6 * scale, "%s: %g, not %g", name, sum,
                  (double)p->sums.value);
    ck_assert_msg(fabs((double)p->sums.rest) <= 2e-6 * scale, "%s: rest %g", name, (double)p->sums.rest);
    ck_assert_msg(fabs((double)p->sums.sum - sum) <= 2e-6 * scale, "%s: sum %g", name, (double)p->sums.sum);
}

static void assert_same(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(a[i] == b[i], "number %zu is %g, not %g", i, (double)a[i], (double)b[i]);
}

static hs_architecture architecture_make(int number, const char **ret_name)
{
    const bool decodes = (size_t)number >= n_random_architectures;
    const named_architecture *named =
        decodes ? &random_decoders[(size_t)number - n_random_architectures] : &random_architectures[number];
    hs_architecture architecture = named->make();
    head_add(&architecture);
    *ret_name = named->name;
    return architecture;
}

START_TEST(parts_sum_up_to_a_logit)
{
    const char *name;
    const hs_architecture architecture = architecture_make(_i, &name);
    recorded r = record(&architecture, NULL, 0, HS_TAPE_BYTES_MAX);
    if (!architecture.norms_before) {
        hs_logit_attribution sums;
        double target;
        const hs_logit_selection none = {0};
        ck_assert_int_eq(hs_tape_logits(r.tape, r.ws, &difference, &none, NULL, &sums, &target, NULL),
                         HS_UNSUPPORTED);
        recorded_free(&r);
        return;
    }
    const parts p = read_parts(&r, false, &difference);
    check_sum(&p, name);
    ck_assert(fabs(p.target - (double)p.sums.value) <= 1e-6 * fabs(p.target));
    ck_assert(architecture.crosses || p.sums.other == 0);
    if (architecture.crosses) {
        const parts cross = read_parts(&r, true, &difference);
        check_sum(&cross, name);
        ck_assert(fabs((double)p.sums.other - sum_of(cross.heads, cross.n_heads)) < 1e-4);
        ck_assert(fabs((double)cross.sums.other - sum_of(p.heads, p.n_heads)) < 1e-4);
    }
    recorded_free(&r);
    recorded again = record(&architecture, NULL, 0, 0); /* keeps one layer */
    const parts q = read_parts(&again, false, &difference);
    assert_same(p.heads, q.heads, p.n_heads);
    assert_same(p.feed_forward, q.feed_forward, LAYERS);
    ck_assert(p.sums.sum == q.sums.sum && p.sums.other == q.sums.other && p.target == q.target);
    recorded_free(&again);
}
END_TEST

/* A cap changes no part: they sum up to the logit before it. */
START_TEST(a_cap_comes_after_the_sum)
{
    hs_architecture architecture = architecture_caps();
    architecture.norms_before = true;
    head_add(&architecture);
    recorded r = record(&architecture, NULL, 0, HS_TAPE_BYTES_MAX);
    const parts before = read_parts(&r, false, &difference);
    recorded_free(&r);
    architecture.predictor.cap = 0.5;
    r = record(&architecture, NULL, 0, HS_TAPE_BYTES_MAX);
    const parts capped = read_parts(&r, false, &difference);
    check_sum(&capped, "cap");
    ck_assert(fabs((double)capped.sums.value - (double)before.sums.value) < 1e-5);
    ck_assert(fabs(capped.target) <= 1 && fabs(capped.target - before.target) > 1e-2);
    assert_same(capped.heads, before.heads, capped.n_heads);
    recorded_free(&r);
}
END_TEST

/* Patched states count as other parts: those below no longer reach the target's position. */
START_TEST(patched_states_are_other_parts)
{
    static const uint16_t states[][1] = {{0}, {1}, {2}, {LAYERS}};
    static const size_t positions[] = {2, TOKENS - 1};
    int32_t others[TOKENS];
    for (size_t i = 0; i < TOKENS; i++)
        others[i] = (ids[i] + 5) % 20;
    hs_architecture architecture = architecture_rotated();
    architecture.norms_before = true;
    head_add(&architecture);
    recorded source = record(&architecture, NULL, 0, HS_TAPE_BYTES_MAX);
    hs_sequence other = {.ids = others, .n_tokens = TOKENS};
    const hs_selection selection = hs_select_all(&architecture.shape, HS_KEEP(HIDDEN_STATE));
    ck_assert_int_eq(
        hs_capture_create(runtime, &architecture.shape, &selection, TOKENS, &other.capture, NULL), HS_OK);
    ck_assert_int_eq(hs_engine_compute(source.engine, source.ws, &other, 1, NULL, NULL, NULL), HS_OK);
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        const hs_intervention patch = {.layers = states[i],
                                       .n_layers = 1,
                                       .kind = HS_INTERVENE_PATCH_STATE,
                                       .from = &other,
                                       .positions = i % 2 ? positions : NULL,
                                       .n_positions = i % 2 ? 2 : 0};
        recorded r = record(&architecture, &patch, 1, HS_TAPE_BYTES_MAX);
        const parts p = read_parts(&r, false, &difference);
        const size_t n_below = states[i][0];
        check_sum(&p, "patched");
        for (size_t h = 0; h < p.n_heads; h++)
            ck_assert((p.heads[h] == 0) == (h / (p.n_heads / LAYERS) < n_below));
        ck_assert((p.sums.other == 0) == (n_below == 0) && (p.sums.embedding == 0) == (n_below > 0));
        recorded_free(&r);
    }
    recorded_free(&source);
    hs_capture_destroy(other.capture);
}
END_TEST

/* Vectors that are added to states count as other parts, and hide none below. */
START_TEST(added_vectors_are_other_parts)
{
    enum { H = 42 };
    static const uint16_t states[] = {0, 1, LAYERS};
    static const size_t positions[] = {2, TOKENS - 1};
    float vectors[3 * H];
    for (size_t i = 0; i < 3 * H; i++)
        vectors[i] = (float)sin((double)(i * i));
    hs_architecture architecture = architecture_rotated();
    architecture.norms_before = true;
    head_add(&architecture);
    ck_assert_uint_eq(architecture.shape.hidden, H);
    for (size_t n = 1; n <= 3; n++) { /* of the states */
        const hs_intervention list[] = {{.layers = states + 3 - n,
                                         .n_layers = n,
                                         .kind = HS_INTERVENE_ADD,
                                         .factor = 1.5F,
                                         .vector = vectors,
                                         .n_vector = n * H},
                                        {.layers = states + 3 - n,
                                         .n_layers = n,
                                         .kind = HS_INTERVENE_ADD,
                                         .factor = -0.5F,
                                         .positions = positions,
                                         .n_positions = 1 + n % 2,
                                         .vector = vectors,
                                         .n_vector = H}};
        recorded r = record(&architecture, list, 2, HS_TAPE_BYTES_MAX);
        const parts p = read_parts(&r, false, &difference);
        check_sum(&p, "added");
        for (size_t h = 0; h < p.n_heads; h++)
            ck_assert(p.heads[h] != 0);
        ck_assert(p.sums.other != 0 && p.sums.embedding != 0);
        recorded_free(&r);
    }
    recorded r = record(&architecture, NULL, 0, HS_TAPE_BYTES_MAX);
    const parts plain = read_parts(&r, false, &difference);
    recorded_free(&r);
    const hs_intervention last = {.layers = states + 2,
                                  .n_layers = 1,
                                  .kind = HS_INTERVENE_ADD,
                                  .factor = 1,
                                  .vector = vectors,
                                  .n_vector = H};
    r = record(&architecture, &last, 1, HS_TAPE_BYTES_MAX);
    const parts p = read_parts(&r, false, &difference); /* behind all other parts */
    assert_same(p.heads, plain.heads, p.n_heads);
    ck_assert(fabs(p.target - plain.target - (double)p.sums.other) < 1e-5);
    recorded_free(&r);
}
END_TEST

START_TEST(refusals_name_their_reason)
{
    hs_architecture architecture = architecture_rotated();
    hs_target loss = {.kind = HS_TARGET_LOSS}, class = {.kind = HS_TARGET_CLASS};
    head_add(&architecture);
    architecture.task_head = (hs_task_head){.task = HS_TASK_SEQUENCE, .pool = HS_POOL_MEAN, .n_classes = 3};
    architecture.norms_before = false;
    ck_assert_ptr_nonnull(
        strstr(hs_logit_attribution_refusal(&architecture, &difference), "norms the state"));
    architecture.norms_before = true;
    ck_assert_ptr_null(hs_logit_attribution_refusal(&architecture, &difference));
    ck_assert_ptr_null(hs_logit_attribution_refusal(&architecture, &class));
    ck_assert_ptr_nonnull(strstr(hs_logit_attribution_refusal(&architecture, &loss), "no logit"));
    architecture.task_head.pool = HS_POOL_MAX;
    ck_assert_ptr_nonnull(strstr(hs_logit_attribution_refusal(&architecture, &class), "largest"));
    architecture.task_head.norm = random_norm(architecture.shape.hidden);
    ck_assert_ptr_nonnull(strstr(hs_logit_attribution_refusal(&architecture, &class), "of its own"));
    architecture.predictor.dense =
        (hs_dense){.weight = random_tensor(architecture.shape.hidden, architecture.shape.hidden, 0, 1)};
    ck_assert_ptr_nonnull(strstr(hs_logit_attribution_refusal(&architecture, &difference), "of its own"));
    architecture.predictor.is_linear = true;
    ck_assert_ptr_null(hs_logit_attribution_refusal(&architecture, &difference));
    architecture.predictor.cap = 2;
    ck_assert_ptr_nonnull(strstr(hs_logit_attribution_refusal(&architecture, &difference), "caps"));
}
END_TEST

START_TEST(every_refused_allocation_is_an_error)
{
    hs_architecture architecture = architecture_rotated();
    float numbers[LAYERS];
    double target;
    hs_logit_attribution sums;
    architecture.norms_before = true;
    head_add(&architecture);
    architecture.predictor.cap = _i ? 2 : 0;
    recorded r = record(&architecture, NULL, 0, HS_TAPE_BYTES_MAX);
    hs_tape_destroy(r.tape);
    const hs_logit_selection last = {
        .layers = hs_all_numbers, .n_layers = 1, .ret_heads = numbers, .ret_feed_forward = numbers};
    const hs_differentiated of = {.engine = r.engine, .ws = r.ws, .text = &r.text, .target = difference};
    const size_t live = chaos_live();
    bool refused = true;
    for (size_t nth = 0; refused; nth++) {
        hs_runtime_trim(runtime, UINT64_MAX);
        chaos_refuse(nth);
        const hs_status st = hs_logit_attribution_compute(&of, &last, NULL, &sums, &target, NULL);
        refused = chaos_stop();
        ck_assert_int_eq(st, refused ? HS_NO_MEMORY : HS_OK);
        hs_runtime_trim(runtime, UINT64_MAX);
        ck_assert(!refused || chaos_live() == live);
    }
    chaos_peak_begin();
    ck_assert_int_eq(hs_logit_attribution_compute(&of, &last, NULL, &sums, &target, NULL), HS_OK);
    ck_assert_uint_le(chaos_peak(),
                      hs_differentiated_bytes(&of, 1) + hs_logit_attribution_bytes(r.engine, TOKENS) + 1024);
    r.tape = NULL;
    recorded_free(&r);
}
END_TEST

START_TEST(a_cancelled_call_ends)
{
    hs_architecture architecture = architecture_rotated();
    const atomic_int cancelled = 1;
    const hs_run_control control = {.cancelled = &cancelled};
    const hs_logit_selection none = {0};
    hs_logit_attribution sums;
    double target;
    architecture.norms_before = true;
    head_add(&architecture);
    recorded r = record(&architecture, NULL, 0, HS_TAPE_BYTES_MAX);
    ck_assert_int_eq(hs_tape_logits(r.tape, r.ws, &difference, &none, &control, &sums, &target, NULL),
                     HS_CANCELLED);
    recorded_free(&r);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("logit attribution");
    TCase *sums = tcase_create("sums"), *failures = tcase_create("failures");
    TCase *const cases[] = {sums, failures};
    for (size_t i = 0; i < 2; i++) {
        tcase_add_checked_fixture(cases[i], setup, teardown);
        suite_add_tcase(s, cases[i]);
    }
    tcase_add_loop_test(sums, parts_sum_up_to_a_logit, 0, (int)(n_random_architectures + n_random_decoders));
    tcase_add_test(sums, a_cap_comes_after_the_sum);
    tcase_add_test(sums, patched_states_are_other_parts);
    tcase_add_test(sums, added_vectors_are_other_parts);
    tcase_add_test(failures, refusals_name_their_reason);
    tcase_add_loop_test(failures, every_refused_allocation_is_an_error, 0, 2);
    tcase_add_test(failures, a_cancelled_call_ends);
    return s;
}

int main(void)
{
    return tests_run(suite());
}
