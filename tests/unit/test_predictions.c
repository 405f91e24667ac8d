/* test_predictions.c - figures of logits, targets and effects of heads, against plain loops in doubles. */
#include "engine/analysis/effects.h"
#include "model/base/bytes.h"
#include "tests/unit/architecture_reference.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB_MAX = 300 };

static float random_number(void)
{
    static uint32_t state = 29;
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / 16777216.0F;
}

/* ---- a row of logits ---- */

/* Returns ln sum e^x of the numbers that `inside` marks. */
static double log_sum(const float *logits, const uint8_t *inside, size_t n)
{
    double most = -INFINITY, sum = 0;
    for (size_t i = 0; i < n; i++)
        most = !inside || inside[i] ? fmax(most, (double)logits[i]) : most;
    for (size_t i = 0; i < n; i++)
        sum += !inside || inside[i] ? exp((double)logits[i] - most) : 0;
    return most + log(sum);
}

/* Few different values, so that there are ties; some rows have one logit far above the others. */
static void logits_make(size_t n, bool far, float *ret)
{
    for (size_t i = 0; i < n; i++)
        ret[i] = floorf(random_number() * 24) / 2 - 7;
    if (far)
        ret[n / 2] = 60;
}

static const size_t rows[] = {1, 2, 15, 16, 17, 63, 64, 65, 129, VOCAB_MAX};

static void assert_prediction(const float *logits, size_t n, int32_t id, size_t k)
{
    hs_prediction p;
    uint32_t rank = 1;
    double entropy = 0;
    bool taken[VOCAB_MAX] = {false};
    const double sum = log_sum(logits, NULL, n);
    hs_prediction_read(logits, n, id, k, &p);
    for (size_t i = 0; i < n; i++) {
        rank += logits[i] > logits[id];
        entropy -= exp((double)logits[i] - sum) * ((double)logits[i] - sum);
    }
    ck_assert_uint_eq(p.rank, rank);
    ck_assert_double_eq_tol((double)p.probability, exp((double)logits[id] - sum), 1e-6);
    ck_assert_double_eq_tol((double)p.entropy, entropy, 1e-5);
    ck_assert_uint_eq(p.n_top, k < n ? k : n);
    for (size_t at = 0; at < p.n_top; at++) {
        size_t best = 0;
        while (taken[best])
            best++;
        for (size_t i = best + 1; i < n; i++)
            best = !taken[i] && logits[i] > logits[best] ? i : best;
        taken[best] = true;
        ck_assert_int_eq(p.top_ids[at], (int32_t)best);
        ck_assert_double_eq_tol((double)p.top_probabilities[at], exp((double)logits[best] - sum), 1e-6);
    }
}

START_TEST(predictions_are_those_of_a_full_sort)
{
    static const size_t tops[] = {0, 1, 5, HS_TOP_MAX};
    const size_t n = rows[_i];
    float logits[VOCAB_MAX];
    for (int far = 0; far < 2; far++) {
        logits_make(n, far, logits);
        for (size_t t = 0; t < sizeof tops / sizeof *tops; t++)
            for (size_t id = 0; id < n; id += 1 + n / 7)
                assert_prediction(logits, n, (int32_t)id, tops[t]);
    }
    for (size_t i = 0; i < n; i++)
        logits[i] = (float)i; /* each one is above all before it */
    assert_prediction(logits, n, 0, 5);
}
END_TEST

START_TEST(sums_and_softmax_of_a_row)
{
    const size_t n = rows[_i];
    float logits[VOCAB_MAX] = {0}, probabilities[VOCAB_MAX + 1];
    uint8_t inside[VOCAB_MAX];
    for (int far = 0; far < 2; far++) {
        logits_make(n, far, logits);
        for (size_t i = 0; i < n; i++)
            inside[i] = i % 3 != 1;
        const double sum = log_sum(logits, NULL, n);
        probabilities[n] = 42;
        hs_softmax(logits, n, probabilities);
        ck_assert(probabilities[n] == 42);
        for (size_t i = 0; i < n; i++)
            ck_assert_double_eq_tol((double)probabilities[i], exp((double)logits[i] - sum), 1e-6);
        ck_assert_double_eq_tol(hs_log_sum(logits, n), sum, 2e-6);
        ck_assert_double_eq_tol(hs_loss(logits, n, (int32_t)(n - 1)), sum - (double)logits[n - 1], 2e-6);
        ck_assert_double_eq_tol(hs_log_sum_exact(logits, NULL, n), sum, 1e-12);
        ck_assert_double_eq_tol(hs_log_sum_exact(logits, inside, n), log_sum(logits, inside, n), 1e-12);
    }
    ck_assert(hs_log_sum_exact((const float[]){0, 2000}, NULL, 2) == 2000); /* exp(2000) is infinite */
}
END_TEST

/* The p of the likeliest tokens rounds to 1 in float. */
START_TEST(gradients_of_losses_keep_their_digits)
{
    enum { N = 50 };
    float logits[N], gradient[N + 1];
    for (int likely = 0; likely < 32; likely++)
        for (size_t id = 0; id < N; id += N - 1) {
            for (size_t i = 0; i < N; i++)
                logits[i] = (float)sin((double)(i + 1)) + (i == id ? (float)likely : 0);
            const double sum = log_sum(logits, NULL, N);
            double others = 0;
            gradient[N] = 42;
            hs_loss_gradient(logits, N, (int32_t)id, gradient);
            ck_assert(gradient[N] == 42);
            for (size_t i = 0; i < N; i++) {
                const double p = exp((double)logits[i] - sum);
                others += i == id ? 0 : p;
                if (i != id)
                    ck_assert_double_eq_tol((double)gradient[i], p, 3e-6 * p);
            }
            ck_assert_double_eq_tol((double)gradient[id], -others, 3e-6 * others);
        }
}
END_TEST

/* ---- targets and effects of a model ---- */

/* A vocabulary so large that the logits of a target or an effect do not fit into memory at once. */
enum { T = 30, LAYERS = 2, HEADS = 3, D = 4, H = HEADS * D, VOCAB = 50000, CLASSES = 3 };
_Static_assert(HS_LOGITS_BYTES_MAX / (VOCAB * sizeof(float)) < 3 * (T - 1), "more rows than are held");

static const hs_shape shape = {LAYERS, HEADS, H, D, 16, T, 1, VOCAB, 0};
static hs_architecture architecture;
static hs_runtime *runtime;
static hs_engine *engine;
static hs_workspace *ws;
static int32_t ids[T], other_ids[T];

static void setup(void)
{
    architecture = random_architecture(&shape, H);
    architecture.predictor.decoder = random_tensor(VOCAB, H, 0, 0.5F);
    architecture.task_head = (hs_task_head){.task = HS_TASK_TOKENS, .n_classes = CLASSES, .padding_id = -1};
    architecture.task_head.output = random_dense(CLASSES, H);
    ck_assert_int_eq(hs_runtime_create(2, &runtime, NULL), HS_OK);
    hs_error err = {0};
    ck_assert_msg(!hs_engine_create(runtime, &architecture, &(hs_engine_options){0}, &engine, &err), "%s",
                  err.text);
    ck_assert_int_eq(hs_workspace_create(engine, 2 * T, &ws, NULL), HS_OK);
    for (size_t i = 0; i < T; i++) {
        ids[i] = (int32_t)((i * 7919) % VOCAB);
        other_ids[i] = (int32_t)((i * 104729 + 5) % VOCAB);
    }
}

static void teardown(void)
{
    hs_workspace_destroy(ws);
    hs_engine_destroy(engine);
    hs_runtime_destroy(runtime);
    random_architecture_free();
}

static hs_capture *pass(const int32_t *of, unsigned taps, const hs_intervention *intervention)
{
    const hs_selection all = hs_select_all(&shape, taps);
    hs_sequence text = {
        .ids = of, .n_tokens = T, .interventions = intervention, .n_interventions = intervention != NULL};
    hs_error err = {0};
    ck_assert_int_eq(hs_capture_create(runtime, &shape, &all, T, &text.capture, NULL), HS_OK);
    ck_assert_msg(!hs_engine_compute(engine, ws, &text, 1, NULL, NULL, &err), "%s", err.text);
    return text.capture;
}

/* Writes the logits of a state [H]. */
static void logits_of(const float *state, float *ret)
{
    ck_assert_int_eq(hs_engine_predict(engine, state, 1, 0, 1, ret, NULL), HS_OK);
}

static void classes_of(const float *state, double ret[CLASSES])
{
    const float *weight = architecture.task_head.output.weight.data,
                *bias = architecture.task_head.output.bias.data;
    for (size_t c = 0; c < CLASSES; c++) {
        ret[c] = (double)bias[c];
        for (size_t k = 0; k < H; k++)
            ret[c] += (double)weight[c * H + k] * (double)state[k];
    }
}

/* Returns the target of last states [T][H]. */
static double target_of(const hs_target *target, const float *states)
{
    static float logits[VOCAB];
    double classes[CLASSES], sum = 0;
    switch (target->kind) {
    case HS_TARGET_CLASS:
        classes_of(states + target->position * H, classes);
        return classes[target->class];
    case HS_TARGET_SPAN:
        for (size_t k = 0; k < 2; k++) {
            classes_of(states + target->span[k] * H, classes);
            sum += classes[k];
        }
        return sum;
    case HS_TARGET_LOSS:
        for (size_t i = 0; i + 1 < T; i++) {
            logits_of(states + i * H, logits);
            sum += (log_sum(logits, NULL, VOCAB) - (double)logits[ids[i + 1]]) / (T - 1);
        }
        return sum;
    case HS_TARGET_PROBABILITY:
        logits_of(states + target->position * H, logits);
        return exp((double)logits[target->tokens[0]] - log_sum(logits, NULL, VOCAB));
    default:
        logits_of(states + target->position * H, logits);
        return (double)logits[target->tokens[0]] -
               (target->tokens[1] < 0 ? 0 : (double)logits[target->tokens[1]]);
    }
}

/* Returns p ln(p / p') summed over classes, or over yes and no of each. */
static double divergence_of(const float *first, const float *other, size_t position)
{
    double a[CLASSES], b[CLASSES], sums[2] = {0}, sum = 0;
    classes_of(first + position * H, a);
    classes_of(other + position * H, b);
    for (size_t c = 0; c < CLASSES; c++) {
        sums[0] += exp(a[c]);
        sums[1] += exp(b[c]);
    }
    for (size_t c = 0; c < CLASSES; c++) {
        const double p = 1 / (1 + exp(-a[c])), q = 1 / (1 + exp(-b[c]));
        if (architecture.task_head.problem == HS_SINGLE_LABEL)
            sum += exp(a[c]) / sums[0] * log(exp(a[c]) / sums[0] / (exp(b[c]) / sums[1]));
        else
            sum += p * log(p / q) + (1 - p) * log((1 - p) / (1 - q));
    }
    return architecture.task_head.problem == HS_REGRESSION ? NAN : sum;
}

static void assert_close(double actual, double expected, double tolerance)
{
    ck_assert_msg(isnan(expected) ? isnan(actual) : fabs(actual - expected) < tolerance, "%.10g != %.10g",
                  actual, expected);
}

static const hs_target targets[] = {
    {.kind = HS_TARGET_CLASS, .class = 2, .position = 4},
    {.kind = HS_TARGET_TOKENS, .position = 7, .tokens = {11, 49999}},
    {.kind = HS_TARGET_TOKENS, .position = 0, .tokens = {0, -1}},
    {.kind = HS_TARGET_PROBABILITY, .position = 29, .tokens = {3, -1}},
    {.kind = HS_TARGET_SPAN, .span = {5, 9}},
    {.kind = HS_TARGET_LOSS},
};

/* The states of three texts; rows of LOSS do not fit into memory at once. */
START_TEST(targets_are_those_of_their_rows)
{
    const hs_target *target = &targets[_i];
    const size_t n_floats = hs_target_floats(&architecture, target, T);
    float *all = calloc(3 * n_floats + 1, sizeof *all);
    hs_capture *captures[3];
    all[3 * n_floats] = 42;
    for (size_t x = 0; x < 3; x++) {
        static const uint16_t one = 1;
        const hs_intervention off = {&one, 1, &one, 1, .kind = HS_INTERVENE_ZERO};
        captures[x] = pass(x == 1 ? other_ids : ids, HS_KEEP(LAST_STATE), x == 2 ? &off : NULL);
        ck_assert_int_eq(hs_target_rows(engine, target, hs_capture_at(captures[x], HS_TAP_LAST_STATE, 0, 0),
                                        captures[x], 1, all + x * n_floats, NULL),
                         HS_OK);
    }
    double expected[3];
    for (size_t x = 0; x < 3; x++)
        expected[x] = target_of(target, hs_capture_at(captures[x], HS_TAP_LAST_STATE, 0, 0));
    for (hs_problem_type problem = HS_SINGLE_LABEL; problem <= HS_REGRESSION; problem++) {
        double values[4] = {0, 0, 0, 42}, divergences[4] = {0, 0, 0, 42};
        architecture.task_head.problem = problem;
        ck_assert_int_eq(hs_target_values(engine, target, all, 3, ids, T, 2, values, divergences, NULL),
                         HS_OK);
        ck_assert(all[3 * n_floats] == 42 && values[3] == 42 && divergences[3] == 42);
        const float *first = hs_capture_at(captures[0], HS_TAP_LAST_STATE, 0, 0);
        for (size_t x = 0; x < 3; x++) {
            const float *states = hs_capture_at(captures[x], HS_TAP_LAST_STATE, 0, 0);
            assert_close(values[x], expected[x], 1e-5);
            assert_close(
                divergences[x],
                target->kind == HS_TARGET_CLASS ? divergence_of(first, states, target->position) : NAN, 1e-6);
        }
        ck_assert_int_eq(hs_target_values(engine, target, all, 3, ids, T, 1, values, NULL, NULL), HS_OK);
        assert_close(values[2], expected[2], 1e-5);
    }
    for (size_t x = 0; x < 3; x++)
        hs_capture_destroy(captures[x]);
    free(all);
}
END_TEST

/* ---- effects ---- */

enum { N_POSITIONS = 26 };
_Static_assert(HS_LOGITS_BYTES_MAX / (4 * VOCAB * sizeof(float)) < N_POSITIONS, "more rows than are held");

static const hs_intervention_kind kinds[] = {HS_INTERVENE_ZERO, HS_INTERVENE_SCALE, HS_INTERVENE_MEAN,
                                             HS_INTERVENE_PATCH};
static size_t n_done, n_calls;

static void on_progress(void *context, size_t n)
{
    ck_assert(n > n_done && context == &n_done);
    n_done = n;
    n_calls++;
}

/* Returns the mean of |S' - S| / |S| over the heads of later layers. */
static double similarity_change(const hs_capture *a, const hs_capture *b, size_t layer)
{
    double mean = 0;
    for (size_t h = 0; h < HEADS && layer + 1 < LAYERS; h++) {
        const float *s = hs_capture_at(a, HS_TAP_SIMILARITY, layer + 1, h),
                    *changed = hs_capture_at(b, HS_TAP_SIMILARITY, layer + 1, h);
        double squares = 0, whole = 0;
        for (size_t k = 0; k < (size_t)T * T; k++) {
            squares += k / T < k % T ? pow((double)changed[k] - (double)s[k], 2) : 0;
            whole += k / T < k % T ? pow((double)s[k], 2) : 0;
        }
        mean += sqrt(squares / whole) / HEADS;
    }
    return mean;
}

/* Computes what a changed pass makes different. */
static hs_effect naive_effect(const hs_effects_options *options, const hs_capture *changed, size_t layer)
{
    static float a[VOCAB], b[VOCAB];
    const float *x = hs_capture_at(options->baseline->capture, HS_TAP_EVERY_STATE, LAYERS, 0),
                *y = hs_capture_at(changed, HS_TAP_EVERY_STATE, LAYERS, 0);
    double hidden = 0, kl = 0, logprob = 0, n_scored = 0;
    for (size_t i = 0; i < T; i++) {
        double squares = 0, whole = 0;
        for (size_t c = i * H; c < (i + 1) * H; c++) {
            squares += pow((double)y[c] - (double)x[c], 2);
            whole += pow((double)x[c], 2);
        }
        hidden += sqrt(squares / whole) / T;
    }
    for (size_t p = 0; p < options->n_positions; p++) {
        const size_t at = options->positions[p];
        logits_of(x + at * H, a);
        logits_of(y + at * H, b);
        const double sum_a = log_sum(a, NULL, VOCAB), sum_b = log_sum(b, NULL, VOCAB);
        for (size_t i = 0; i < VOCAB; i++)
            kl += exp((double)a[i] - sum_a) * ((double)a[i] - sum_a - (double)b[i] + sum_b);
        const int32_t id = !architecture.predictor.next ? ids[at] : at + 1 < T ? ids[at + 1] : -1;
        if (id >= 0 && (architecture.predictor.next || id != options->mask_id)) {
            logprob += (double)b[id] - sum_b - (double)a[id] + sum_a;
            n_scored++;
        }
    }
    const double target = target_of(&options->target, x);
    return (hs_effect){.hidden_change = (float)hidden,
                       .similarity_change =
                           (float)similarity_change(options->baseline->capture, changed, layer),
                       .prediction_kl = (float)(kl / (double)options->n_positions),
                       .logprob_change = (float)(logprob / n_scored),
                       .target_change = (float)(target_of(&options->target, y) - target),
                       .class_kl = (float)divergence_of(x, y, options->target.position)};
}

static void assert_effects(const hs_effects_options *options, const hs_sequence *other,
                           const hs_effect *effects)
{
    const float *x = hs_capture_at(options->baseline->capture, HS_TAP_EVERY_STATE, LAYERS, 0);
    const double way =
        target_of(&options->target, hs_capture_at(options->other, HS_TAP_EVERY_STATE, LAYERS, 0)) -
        target_of(&options->target, x);
    for (size_t l = 0; l < options->n_layers; l++)
        for (size_t h = 0; h < options->n_heads; h++) {
            const hs_intervention change = {.layers = &options->layers[l],
                                            .n_layers = 1,
                                            .heads = &options->heads[h],
                                            .n_heads = 1,
                                            .kind = options->kind,
                                            .factor = options->factor,
                                            .from = other};
            hs_capture *changed = pass(ids, HS_KEEP(SIMILARITY) | HS_KEEP(EVERY_STATE), &change);
            const hs_effect *e = &effects[l * options->n_heads + h],
                            expected = naive_effect(options, changed, options->layers[l]);
            assert_close((double)e->hidden_change, (double)expected.hidden_change, 1e-6);
            assert_close((double)e->similarity_change, (double)expected.similarity_change, 1e-6);
            assert_close((double)e->prediction_kl, (double)expected.prediction_kl, 1e-6);
            assert_close((double)e->logprob_change, (double)expected.logprob_change, 5e-6);
            assert_close((double)e->target_change, (double)expected.target_change, 1e-5);
            assert_close((double)e->class_kl, (double)expected.class_kl, 1e-6);
            assert_close((double)e->recovered,
                         options->kind == HS_INTERVENE_PATCH ? (double)expected.target_change / way : NAN,
                         1e-4);
            hs_capture_destroy(changed);
        }
}

/* Three heads of each layer, of which a pass holds two variants. With one kind more positions are compared
 * than logits are held. The last position has no next token, or a masked one. */
START_TEST(effects_are_those_of_changed_passes)
{
    static const uint16_t layers[] = {0, 1}, heads[] = {0, 1, 2};
    size_t positions[N_POSITIONS];
    hs_effect effects[6];
    const size_t n_positions = _i == 0 ? N_POSITIONS : 3;
    architecture.predictor.next = _i % 2 == 0;
    for (size_t p = 0; p < N_POSITIONS; p++)
        positions[p] = T - N_POSITIONS + p;
    hs_sequence baseline = {.ids = ids, .n_tokens = T}, other = {.ids = other_ids, .n_tokens = T};
    baseline.capture = pass(ids, HS_EFFECTS_TAPS, NULL);
    other.capture = pass(other_ids, HS_KEEP(HEAD_OUTPUT) | HS_KEEP(EVERY_STATE), NULL);
    const hs_effects_options options = {.baseline = &baseline,
                                        .kind = kinds[_i],
                                        .factor = 0.5F,
                                        .other = other.capture,
                                        .layers = layers,
                                        .heads = heads,
                                        .n_layers = 2,
                                        .n_heads = 3,
                                        .positions = positions + N_POSITIONS - n_positions,
                                        .n_positions = n_positions,
                                        .target = targets[0],
                                        .mask_id = ids[T - 1],
                                        .progress = on_progress,
                                        .context = &n_done};
    hs_error err = {0};
    ck_assert_msg(!hs_effects_compute(engine, ws, &options, &(hs_run_control){.n_threads = 2}, effects, &err),
                  "%s", err.text);
    ck_assert_uint_eq(n_done, 6);
    ck_assert_uint_eq(n_calls, 4);
    assert_effects(&options, &other, effects);
    hs_capture_destroy(baseline.capture);
    hs_capture_destroy(other.capture);
}
END_TEST

/* ---- patched states, scores ---- */

START_TEST(patch_maps_are_those_of_patched_passes)
{
    hs_sequence clean = {.ids = ids, .n_tokens = T}, other = {.ids = other_ids, .n_tokens = T};
    static float map[LAYERS + 1][T];
    clean.capture = pass(ids, HS_KEEP(EVERY_STATE), NULL);
    other.capture = pass(other_ids, HS_KEEP(EVERY_STATE) | HS_KEEP(HIDDEN_STATE), NULL);
    const hs_target *target = &targets[0];
    const double from = target_of(target, hs_capture_at(clean.capture, HS_TAP_EVERY_STATE, LAYERS, 0)),
                 to = target_of(target, hs_capture_at(other.capture, HS_TAP_EVERY_STATE, LAYERS, 0));
    const hs_patch_map_options options = {.clean = &clean, .other = other.capture, .target = *target};
    ck_assert_int_eq(
        hs_patch_map_compute(engine, ws, &options, &(hs_run_control){.n_threads = 2}, *map, NULL), HS_OK);
    for (size_t state = 0; state <= LAYERS; state++)
        for (size_t t = 0; t < T; t++) {
            const hs_intervention patch = {.layers = &hs_all_numbers[state],
                                           .n_layers = 1,
                                           .kind = HS_INTERVENE_PATCH_STATE,
                                           .from = &other,
                                           .positions = &t,
                                           .n_positions = 1};
            hs_capture *changed = pass(ids, HS_KEEP(LAST_STATE), &patch);
            const double reached = target_of(target, hs_capture_at(changed, HS_TAP_LAST_STATE, 0, 0));
            assert_close((double)map[state][t], (reached - from) / (to - from), 1e-4);
            hs_capture_destroy(changed);
        }
    hs_capture_destroy(clean.capture);
    hs_capture_destroy(other.capture);
}
END_TEST

/* Draws r: each step swaps one of the choices left to the front. Choices stay shuffled for the next text. */
static void draw(uint64_t *state, int32_t *choices, size_t n_choices, size_t length, int32_t *ret)
{
    for (size_t i = 0; i < length; i++) {
        const size_t k = i + (size_t)(hs_mix(*state += HS_MIX_STEP) % (n_choices - i));
        const int32_t drawn = choices[k];
        choices[k] = choices[i];
        choices[i] = ret[i] = ret[length + i] = drawn;
    }
}

START_TEST(scores_are_means_over_drawn_texts)
{
    enum { LENGTH = 12, BEFORE = 2, AFTER = 1, N = BEFORE + 2 * LENGTH + AFTER, TEXTS = 3, CHOICES = 40 };
    static const uint16_t layers[] = {0, 1}, heads[] = {0, 2};
    int32_t choices[CHOICES], left[CHOICES], text[N] = {7, 8};
    double sums[2][2][3] = {{{0}}};
    hs_head_score scores[2][2];
    uint64_t state = 77;
    for (size_t i = 0; i < CHOICES; i++)
        left[i] = choices[i] = (int32_t)(100 + 3 * i);
    text[N - 1] = 9;
    const hs_head_scores_options options = {.before = text,
                                            .after = text + N - 1,
                                            .n_before = BEFORE,
                                            .n_after = AFTER,
                                            .choices = choices,
                                            .n_choices = CHOICES,
                                            .length = LENGTH,
                                            .n_texts = TEXTS,
                                            .seed = state,
                                            .layers = layers,
                                            .heads = heads,
                                            .n_layers = 2,
                                            .n_heads = 2};
    ck_assert_int_eq(
        hs_head_scores_compute(engine, ws, &options, &(hs_run_control){.n_threads = 2}, *scores, NULL),
        HS_OK);
    for (size_t x = 0; x < TEXTS; x++) {
        const hs_selection all = hs_select_all(&shape, HS_KEEP(ATTENTION));
        hs_sequence sequence = {.ids = text, .n_tokens = N};
        draw(&state, left, CHOICES, LENGTH, text + BEFORE);
        ck_assert_int_eq(hs_capture_create(runtime, &shape, &all, N, &sequence.capture, NULL), HS_OK);
        ck_assert_int_eq(hs_engine_compute(engine, ws, &sequence, 1, NULL, NULL, NULL), HS_OK);
        for (size_t k = 0; k < 4; k++) {
            const float *a = hs_capture_at(sequence.capture, HS_TAP_ATTENTION, layers[k / 2], heads[k % 2]);
            double *sum = sums[k / 2][k % 2];
            for (size_t i = 1; i < N; i++)
                sum[0] += (double)a[i * N + i - 1] / (N - 1) / TEXTS;
            for (size_t i = BEFORE + LENGTH; i < BEFORE + 2 * LENGTH; i++) {
                sum[1] += (double)a[i * N + i - LENGTH] / LENGTH / TEXTS;
                sum[2] += (double)a[i * N + i - LENGTH + 1] / LENGTH / TEXTS;
            }
        }
        hs_capture_destroy(sequence.capture);
    }
    for (size_t k = 0; k < 4; k++) {
        const hs_head_score *score = &scores[k / 2][k % 2];
        assert_close((double)score->previous, sums[k / 2][k % 2][0], 1e-6);
        assert_close((double)score->duplicate, sums[k / 2][k % 2][1], 1e-6);
        assert_close((double)score->induction, sums[k / 2][k % 2][2], 1e-6);
    }
}
END_TEST

START_TEST(changes_are_relative)
{
    const float a[] = {3, 4, 1}, b[] = {0, 0, 1}, c[] = {3, 4, 0};
    ck_assert_double_eq_tol(hs_relative_change(a, b, 3), 5, 1e-12);
    ck_assert_double_eq_tol(hs_relative_change(a, c, 3), 0.2, 1e-12);
    ck_assert(isnan(hs_relative_change(b, b, 2)));
    const float ones[19] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, one[19] = {[18] = 1};
    ck_assert_double_eq_tol(hs_relative_change(ones, one, 19), sqrt(18), 1e-12);
    ck_assert_double_eq_tol(hs_relative_change(one, ones, 19), sqrt(18.0 / 19), 1e-12);
    ck_assert_float_eq_tol(hs_recovered(1, 2, 5), 0.25F, 1e-7F);
    ck_assert(isnan(hs_recovered(1, 2, 1)));
}
END_TEST

#define LOOP(test, cases) tcase_add_loop_test(tc, test, 0, (int)(sizeof(cases) / sizeof *(cases)))

int main(void)
{
    Suite *suite = suite_create("predictions");
    TCase *tc = tcase_create("rows");
    LOOP(predictions_are_those_of_a_full_sort, rows);
    LOOP(sums_and_softmax_of_a_row, rows);
    tcase_add_test(tc, gradients_of_losses_keep_their_digits);
    tcase_add_test(tc, changes_are_relative);
    suite_add_tcase(suite, tc);
    tc = tcase_create("models");
    tcase_add_checked_fixture(tc, setup, teardown);
    LOOP(targets_are_those_of_their_rows, targets);
    LOOP(effects_are_those_of_changed_passes, kinds);
    tcase_add_test(tc, patch_maps_are_those_of_patched_passes);
    tcase_add_test(tc, scores_are_means_over_drawn_texts);
    suite_add_tcase(suite, tc);
    return tests_run(suite);
}
