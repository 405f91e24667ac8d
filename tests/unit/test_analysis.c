/* test_analysis.c - docs/reference/formulas.md section 1: hand-made cases, and each figure against a naive
 * loop. */
#include "engine/analysis/analysis.h"
#include "engine/analysis/analysis_maps.h"
#include "engine/analysis/longest_pairs.h"
#include "tests/unit/chaos.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TOKENS_MAX 257

static const float thresholds[] = {0.05f, 0.3f, 0.8f, 1.0f};
static const size_t lengths[] = {1, 2, 3, 17, 100, 256, 257};

enum { N_LENGTHS = sizeof lengths / sizeof *lengths, N_THRESHOLDS = sizeof thresholds / sizeof *thresholds };

/* ---- inputs ---- */

static uint32_t random_next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Symmetric; few different values, so that there are ties, about a third of them negative. */
static float *similarity_make(size_t n, uint32_t seed)
{
    float *map = calloc(n * n, sizeof *map);
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++)
            map[i * n + j] = map[j * n + i] = (float)((int)(random_next(&seed) % 300) - 100) * 0.37f;
    return map;
}

static float *attention_make(size_t n, uint32_t seed)
{
    float *map = calloc(n * n, sizeof *map);
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (size_t j = 0; j < n; j++)
            sum += map[i * n + j] =
                expf((float)(random_next(&seed) % 1000) / 100 * (j % 7 == 3 ? 2.0f : 0.5f));
        for (size_t j = 0; j < n; j++)
            map[i * n + j] = (float)(map[i * n + j] / sum);
    }
    map[n > 1] = 0; /* an attention that underflowed */
    return map;
}

/* Few different lengths, so that there are ties among their products. */
static float *lengths_make(size_t n, uint32_t seed)
{
    float *made = calloc(n, sizeof *made);
    for (size_t i = 0; i < n; i++)
        made[i] = (float)(1 + random_next(&seed) % 6) * 0.7f;
    return made;
}

enum { MASK_NONE, MASK_SPECIAL, MASK_SOME, MASK_ALL, N_MASKS };

/* NULL for MASK_NONE. */
static const uint8_t *mask_make(int kind, size_t n, uint8_t masked[TOKENS_MAX])
{
    for (size_t i = 0; i < n; i++)
        masked[i] = kind == MASK_ALL || (kind == MASK_SPECIAL && (i == 0 || i == n - 1)) ||
                    (kind == MASK_SOME && i % 3 != 1);
    return kind == MASK_NONE ? NULL : masked;
}

static bool is_out(const uint8_t *masked, size_t i)
{
    return masked && masked[i];
}

static void assert_close(double actual, double expected, double tolerance)
{
    if (isnan(expected))
        ck_assert_msg(isnan(actual), "%g where there is no value", actual);
    else
        ck_assert_msg(fabs(actual - expected) <= tolerance * fmax(1, fabs(expected)), "%.9g != %.9g", actual,
                      expected);
}

/* ---- the text ---- */

static const struct sentence_case {
    const char *tokens, *types, *sentences;
} sentence_cases[] = {
    /* C [CLS], S [SEP] */
    {"CS", "00", "00"},
    {"C", "0", "0"},
    {"CabS", "0000", "0000"},
    {"Cab.S", "00000", "00000"},
    {"Ca.bS", "00000", "00011"},
    {"Ca.b.S", "000000", "000111"},
    {"Ca..!bS", "0000000", "0000011"},
    {"C.aS", "0000", "0011"},
    {"C...S", "00000", "00000"},
    {"Ca.b!c?dS", "000000000", "000112233"},
    {"CaSbS", "00011", "00011"},       /* a pair: its first [SEP] ends a sentence */
    {"Ca.SbS", "000011", "000011"},    /* which had ended anyway */
    {"Ca.S.bS", "0000111", "0000122"}, /* a run does not cross into the pair */
    {"CSS", "001", "001"},
    {"CSaS", "0011", "0011"},
    {"Ca.bSc.dS", "000001111", "000112233"},
};

START_TEST(sentences_follow_the_rules)
{
    const struct sentence_case *c = &sentence_cases[_i];
    const size_t n = strlen(c->tokens);
    int32_t sentences[16];
    uint8_t ends[16] = {0}, types[16] = {0}, special[16] = {0};
    for (size_t i = 0; i < n; i++) {
        ends[i] = strchr(".!?", c->tokens[i]) != NULL;
        types[i] = (uint8_t)(c->types[i] - '0');
        special[i] = c->tokens[i] == 'C' || c->tokens[i] == 'S';
    }
    hs_sentences_find(ends, types, special, n, sentences);
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(sentences[i] == c->sentences[i] - '0', "%s: token %zu is in %d", c->tokens, i,
                      sentences[i]);
    if (!strchr(c->types, '1')) {
        int32_t untyped[16];
        hs_sentences_find(ends, NULL, special, n, untyped);
        ck_assert_mem_eq(untyped, sentences, n * sizeof *sentences);
    }
}
END_TEST

START_TEST(a_written_sep_is_a_word)
{
    const uint8_t ends[] = {0, 0, 1, 0, 0, 0}; /* "Ca.SbS" */
    const uint8_t special[] = {1, 0, 0, 0, 0, 1}, types[6] = {0};
    int32_t sentences[6];
    hs_sentences_find(ends, types, special, 6, sentences);
    ck_assert_mem_eq(sentences, ((const int32_t[]){0, 0, 0, 1, 1, 1}), sizeof sentences);
}
END_TEST

START_TEST(repeats_are_first_positions)
{
    int32_t first[6];
    hs_repeats_find((const int32_t[]){7, 3, 7, -1, 3, 7}, 6, first);
    ck_assert_mem_eq(first, ((const int32_t[]){0, 1, 0, 3, 1, 0}), sizeof first);
}
END_TEST

/* ---- similarity ---- */

static float naive_max(const float *s, size_t n, const uint8_t *masked)
{
    float maximum = -INFINITY;
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++)
            if (!is_out(masked, i) && !is_out(masked, j))
                maximum = fmaxf(maximum, s[i * n + j]);
    return maximum;
}

/* Attention may be -0, whose bits are the least integer: UBSan sees a difference that overflows. */
START_TEST(logarithms_are_near_and_finite_for_zeros)
{
    for (float x = 1e-30f; x < 1e30f; x *= 1.37f)
        ck_assert_float_le(fabsf(hs__log(x) - logf(x)), 3e-7f * fabsf(logf(x)) + 1e-7f);
    ck_assert(isfinite(hs__log(0)) && isfinite(hs__log(-0.0f)));
    ck_assert(-0.0f * hs__log(-0.0f) == 0);
}
END_TEST

START_TEST(maximum_and_normalised_map)
{
    const size_t n = lengths[_i];
    float *s = similarity_make(n, (uint32_t)_i + 1), *normalized = calloc(n * n, sizeof *s);
    for (int kind = 0; kind < N_MASKS; kind++) {
        uint8_t block[TOKENS_MAX];
        const uint8_t *masked = mask_make(kind, n, block);
        const float m = hs_similarity_max(s, n, masked);
        ck_assert(m == naive_max(s, n, masked));
        hs_similarity_normalize(s, n, masked, m, normalized);
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < n; j++) {
                const bool zero = i == j || m <= 0 || is_out(masked, i) || is_out(masked, j);
                ck_assert(normalized[i * n + j] == (zero ? 0 : s[i * n + j] / m));
            }
    }
    memcpy(normalized, s, n * n * sizeof *s);
    hs_similarity_normalize(normalized, n, NULL, 2, normalized); /* in place */
    for (size_t k = 0; k < n * n; k++)
        ck_assert(normalized[k] == s[k] / 2);
    free(s);
    free(normalized);
}
END_TEST

static const struct hopeless_case {
    const char *name;
    float values[9];
} hopeless_cases[] = {
    {"negative", {0, -1, -2, -1, 0, -3, -2, -3, 0}},
    {"zero", {0}},
    {"not numbers", {0, NAN, NAN, NAN, 0, NAN, NAN, NAN, 0}},
    {"minus infinity", {0, -INFINITY, -INFINITY, -INFINITY, 0, -INFINITY, -INFINITY, -INFINITY, 0}},
};

/* Returns a capture of one head's similarities [3][3]. */
static hs_capture capture_of(float *s)
{
    static const uint16_t zero = 0;
    return (hs_capture){.n_tokens = 3,
                        .n_layers = 1,
                        .n_heads = 1,
                        .layers = &zero,
                        .heads = &zero,
                        .arrays[HS_TAP_SIMILARITY] = s};
}

START_TEST(maps_without_a_positive_element_have_no_pairs)
{
    const struct hopeless_case *c = &hopeless_cases[_i];
    float s[9], normalized[9];
    memcpy(s, c->values, sizeof s);
    hs_similarity_normalize(s, 3, NULL, hs_similarity_max(s, 3, NULL), normalized);
    for (size_t k = 0; k < 9; k++)
        ck_assert_msg(normalized[k] == 0, "%s", c->name);
    const hs_capture capture = capture_of(s);
    hs_pair *pairs = NULL;
    size_t n_pairs = 99;
    uint64_t total = 99;
    ck_assert_int_eq(
        hs_pairs_find(&capture, HS_TAP_SIMILARITY, NULL, 0.3f, 10, 1, &pairs, &n_pairs, &total, NULL), HS_OK);
    ck_assert_uint_eq(n_pairs, 0);
    ck_assert_uint_eq(total, 0);
    ck_assert_ptr_null(pairs);
}
END_TEST

START_TEST(infinite_elements_are_survived)
{
    float s[9] = {0, INFINITY, 2, INFINITY, 0, NAN, 2, NAN, 0};
    const hs_capture capture = capture_of(s);
    hs_pair *pairs;
    size_t n_pairs;
    uint64_t total;
    ck_assert_int_eq(
        hs_pairs_find(&capture, HS_TAP_SIMILARITY, NULL, 0.3f, 1, 1, &pairs, &n_pairs, &total, NULL), HS_OK);
    ck_assert_uint_eq(total, 0); /* 2 / inf is 0, inf / inf is no number */
    free(pairs);
}
END_TEST

/* ---- pairs ---- */

typedef struct scene {
    hs_capture capture;
    uint16_t layers[3], heads[2];
} scene;

/* Six maps; one has no positive element, one has all elements equal. */
static void scene_init(scene *s, size_t n)
{
    *s = (scene){.layers = {1, 4, 11}, .heads = {0, 7}};
    s->capture = (hs_capture){.n_tokens = n, .n_layers = 3, .n_heads = 2};
    s->capture.layers = s->layers;
    s->capture.heads = s->heads;
    s->capture.arrays[HS_TAP_SIMILARITY] = calloc(6 * n * n, sizeof(float));
    for (size_t map = 0; map < 6; map++) {
        float *values = similarity_make(n, (uint32_t)(map + 10 * n));
        for (size_t k = 0; k < n * n; k++)
            s->capture.arrays[HS_TAP_SIMILARITY][map * n * n + k] = map == 2 ? -1 : map == 3 ? 4 : values[k];
        free(values);
    }
}

static int by_strength(const void *left, const void *right)
{
    const hs_pair *a = left, *b = right;
    if (a->normalized != b->normalized)
        return a->normalized > b->normalized ? -1 : 1;
    const int64_t key_a = ((int64_t)a->layer << 48) + ((int64_t)a->head << 32) + (a->i << 16) + a->j;
    const int64_t key_b = ((int64_t)b->layer << 48) + ((int64_t)b->head << 32) + (b->i << 16) + b->j;
    return key_a < key_b ? -1 : key_a > key_b;
}

static int by_head(const void *left, const void *right)
{
    const hs_pair *a = left, *b = right;
    if (a->layer != b->layer)
        return a->layer - b->layer;
    return a->head != b->head ? a->head - b->head : by_strength(left, right);
}

static hs_pair *naive_pairs(const hs_capture *c, const uint8_t *masked, float threshold, size_t *ret_n)
{
    const size_t n = c->n_tokens;
    hs_pair *pairs = calloc(6 * n * n + 1, sizeof *pairs);
    *ret_n = 0;
    for (size_t map = 0; map < 6; map++) {
        const float *s = c->arrays[HS_TAP_SIMILARITY] + map * n * n, m = naive_max(s, n, masked);
        for (size_t i = 0; i < n; i++)
            for (size_t j = i + 1; j < n; j++)
                if (m > 0 && s[i * n + j] / m >= threshold && !is_out(masked, i) && !is_out(masked, j))
                    pairs[(*ret_n)++] = (hs_pair){c->layers[map / 2], c->heads[map % 2], (uint16_t)i,
                                                  (uint16_t)j,        s[i * n + j],      s[i * n + j] / m};
    }
    return pairs;
}

/* Shows a pool the six maps of a scene, each once; `step` is coprime to 6. */
static hs_status pool_find(const scene *s, const uint8_t *masked, float threshold, size_t pairs_max,
                           size_t step, hs_pair **ret_pairs, size_t *ret_n, uint64_t *ret_total)
{
    const hs_capture *c = &s->capture;
    const size_t n = c->n_tokens;
    hs_pair_pool *pool = NULL;
    hs_status st = hs_pair_pool_create(6, n, masked, threshold, pairs_max, &pool, NULL);
    for (size_t k = 0; k < 6 && !st; k++) {
        const size_t map = (k * step + 1) % 6;
        st = hs_pair_pool_add(pool, map, s->layers[map / 2], s->heads[map % 2],
                              c->arrays[HS_TAP_SIMILARITY] + map * n * n, NULL);
    }
    if (!st)
        st = hs_pair_pool_take(pool, ret_pairs, ret_n, ret_total, NULL);
    hs_pair_pool_destroy(pool);
    return st;
}

START_TEST(pairs_are_those_of_a_full_sort)
{
    const size_t n = lengths[_i];
    scene s;
    scene_init(&s, n);
    for (int kind = 0; kind < N_MASKS; kind++)
        for (size_t t = 0; t < N_THRESHOLDS; t++) {
            uint8_t block[TOKENS_MAX];
            const uint8_t *masked = mask_make(kind, n, block);
            size_t n_all;
            hs_pair *all = naive_pairs(&s.capture, masked, thresholds[t], &n_all);
            qsort(all, n_all, sizeof *all, by_strength);
            const size_t bounds[] = {n_all + 1, n_all, n_all - (n_all > 0), n_all / 3, 1, 0};
            for (size_t b = 0; b < sizeof bounds / sizeof *bounds; b++) {
                const size_t n_kept = bounds[b] < n_all ? bounds[b] : n_all;
                hs_pair *kept = calloc(n_kept + 1, sizeof *kept), *pairs;
                memcpy(kept, all, n_kept * sizeof *kept);
                qsort(kept, n_kept, sizeof *kept, by_head);
                size_t n_pairs;
                uint64_t total;
                ck_assert_int_eq(hs_pairs_find(&s.capture, HS_TAP_SIMILARITY, masked, thresholds[t],
                                               bounds[b], 1, &pairs, &n_pairs, &total, NULL),
                                 HS_OK);
                ck_assert_uint_eq(total, n_all);
                ck_assert_uint_eq(n_pairs, n_kept);
                if (n_kept)
                    ck_assert_mem_eq(pairs, kept, n_kept * sizeof *kept);
                free(pairs);
                for (size_t step = 1; step < 6; step += 4) {
                    ck_assert_int_eq(
                        pool_find(&s, masked, thresholds[t], bounds[b], step, &pairs, &n_pairs, &total),
                        HS_OK);
                    ck_assert_uint_eq(total, n_all);
                    ck_assert_uint_eq(n_pairs, n_kept);
                    if (n_kept)
                        ck_assert_mem_eq(pairs, kept, n_kept * sizeof *kept);
                    free(pairs);
                }
                free(kept);
            }
            free(all);
        }
    free(s.capture.arrays[HS_TAP_SIMILARITY]);
}
END_TEST

START_TEST(pairs_do_not_depend_on_threads)
{
    const size_t n = 256;
    scene s;
    scene_init(&s, n);
    ck_assert_int_eq(hs_runtime_create(4, &s.capture.runtime, NULL), HS_OK);
    const size_t bounds[] = {1, 1000, 6 * n * n};
    for (size_t b = 0; b < sizeof bounds / sizeof *bounds; b++) {
        hs_pair *alone, *shared;
        size_t n_alone, n_shared;
        uint64_t total_alone, total_shared;
        ck_assert_int_eq(hs_pairs_find(&s.capture, HS_TAP_SIMILARITY, NULL, 0.3f, bounds[b], 1, &alone,
                                       &n_alone, &total_alone, NULL),
                         HS_OK);
        ck_assert_int_eq(hs_pairs_find(&s.capture, HS_TAP_SIMILARITY, NULL, 0.3f, bounds[b], 4, &shared,
                                       &n_shared, &total_shared, NULL),
                         HS_OK);
        ck_assert_uint_eq(total_shared, total_alone);
        ck_assert_uint_eq(n_shared, n_alone);
        ck_assert_mem_eq(shared, alone, n_alone * sizeof *alone);
        free(alone);
        free(shared);
    }
    hs_runtime_destroy(s.capture.runtime);
    free(s.capture.arrays[HS_TAP_SIMILARITY]);
}
END_TEST

/* One call of each function that takes memory; HS_NO_MEMORY is what it must say when there is none. Nothing
 * is asserted here: Check's own allocations would be refused. */
static hs_status call_pairs(const scene *s)
{
    hs_pair *pairs = NULL;
    size_t n_pairs;
    uint64_t total;
    hs_error err = {0};
    const hs_status st =
        hs_pairs_find(&s->capture, HS_TAP_SIMILARITY, NULL, 0.3f, 5, 1, &pairs, &n_pairs, &total, &err);
    const bool is_sound =
        err.status == st && (pairs != NULL) == (st == HS_OK); /* ret_ untouched on failure */
    free(pairs);
    return is_sound ? st : HS_STATUS_COUNT;
}

static hs_status call_pool(const scene *s)
{
    hs_pair *pairs = NULL;
    size_t n_pairs;
    uint64_t total;
    const hs_status st = pool_find(s, NULL, 0.3f, 5, 1, &pairs, &n_pairs, &total);
    free(pairs);
    return st;
}

static hs_status call_segments(const scene *s)
{
    hs_segment segments[17];
    const uint8_t special[17] = {0};
    const float *maps = s->capture.arrays[HS_TAP_SIMILARITY];
    const size_t n = hs_segments_find(maps, maps, 2, s->capture.n_tokens, special, NULL, 0.3f, segments);
    return n == SIZE_MAX ? HS_NO_MEMORY : HS_OK;
}

static hs_status call_summary(const scene *s)
{
    const int32_t zeros[17] = {0};
    const uint8_t separators[17] = {0};
    const hs_text_facts facts = {s->capture.n_tokens, zeros, zeros, separators, NULL, NULL};
    hs_head_summary summary;
    const float *map = s->capture.arrays[HS_TAP_SIMILARITY];
    const hs_observed_head maps = {.attention = map, .similarity = map, .lengths = map};
    return hs_head_summarize(&maps, &facts, 0.3f, &summary, NULL);
}

static hs_status (*const calls[])(const scene *s) = {call_pairs, call_pool, call_segments, call_summary};

START_TEST(refused_allocations_are_survived)
{
    scene s;
    scene_init(&s, 17);
    const size_t live = chaos_live();
    bool refused = true;
    for (size_t nth = 0; refused; nth++) {
        ck_assert_uint_lt(nth, 50);
        chaos_refuse(nth);
        const hs_status st = calls[_i](&s);
        refused = chaos_stop();
        ck_assert_int_eq(st, refused ? HS_NO_MEMORY : HS_OK);
        ck_assert_uint_eq(chaos_live(), live);
    }
    free(s.capture.arrays[HS_TAP_SIMILARITY]);
}
END_TEST

/* ---- attention, runs, regions ---- */

static void naive_profile(const float *a, size_t n, const uint8_t *masked, double *profile)
{
    double maximum = 0;
    for (size_t j = 0; j < n; j++) {
        profile[j] = 0;
        for (size_t i = 0; i < n; i++)
            profile[j] += is_out(masked, i) || is_out(masked, j) ? 0 : a[i * n + j];
        maximum = fmax(maximum, profile[j]);
    }
    for (size_t j = 0; j < n; j++)
        profile[j] = maximum > 0 ? profile[j] / maximum : 0;
}

START_TEST(profile_is_the_normalised_column_sum)
{
    const size_t n = lengths[_i];
    float *a = attention_make(n, 5), profile[TOKENS_MAX];
    double expected[TOKENS_MAX];
    for (int kind = 0; kind < N_MASKS; kind++) {
        uint8_t block[TOKENS_MAX];
        const uint8_t *masked = mask_make(kind, n, block);
        hs_column_profile(a, n, n, masked, profile);
        naive_profile(a, n, masked, expected);
        size_t n_ones = 0;
        for (size_t j = 0; j < n; j++) {
            assert_close(profile[j], expected[j], 3e-7);
            n_ones += profile[j] == 1;
        }
        ck_assert(n_ones > 0 || hs_similarity_max(a, n, masked) == -INFINITY);
        uint16_t high[TOKENS_MAX];
        for (size_t t = 0; t < N_THRESHOLDS; t++) {
            const size_t n_high = hs_high_tokens(profile, n, thresholds[t], high);
            size_t k = 0;
            for (size_t j = 0; j < n; j++)
                if (profile[j] >= thresholds[t])
                    ck_assert(k < n_high && high[k++] == j);
            ck_assert_uint_eq(k, n_high);
        }
    }
    free(a);
}
END_TEST

static const struct run_case {
    const char *high; /* * marks a token of H */
    const char *runs; /* each token's run */
} run_cases[] = {
    {".", "0"},       {"*", "0"},       {"....", "0000"}, {"****", "0123"},
    {"*...", "0111"}, {"...*", "0001"}, {".*..", "0122"}, {"..**..*.", "00123345"},
};

START_TEST(each_high_token_is_a_run)
{
    const struct run_case *c = &run_cases[_i];
    const size_t n = strlen(c->high);
    uint16_t high[8];
    hs_span runs[8];
    size_t n_high = 0;
    for (size_t i = 0; i < n; i++)
        if (c->high[i] == '*')
            high[n_high++] = (uint16_t)i;
    const size_t n_runs = hs_runs_cut(high, n_high, n, runs);
    ck_assert_uint_eq(n_runs, (size_t)(c->runs[n - 1] - '0') + 1);
    for (size_t r = 0; r < n_runs; r++) {
        ck_assert_uint_eq(runs[r].start, r ? runs[r - 1].end : 0);
        for (size_t i = runs[r].start; i < runs[r].end; i++)
            ck_assert_uint_eq(r, (size_t)(c->runs[i] - '0'));
    }
    ck_assert_uint_eq(runs[n_runs - 1].end, n);
}
END_TEST

START_TEST(regions_are_means_without_diagonal)
{
    const size_t n = lengths[_i];
    float *s = similarity_make(n, 77), *means = calloc(n * n, sizeof *means);
    double sums[TOKENS_MAX];
    uint16_t high[TOKENS_MAX] = {0};
    size_t n_high = 0;
    for (size_t j = 3; j < n; j += 1 + j % 11)
        high[n_high++] = (uint16_t)j;
    hs_span runs[TOKENS_MAX];
    const size_t n_runs = hs_runs_cut(high, n_high, n, runs);
    for (int kind = 0; kind < N_MASKS; kind++) {
        uint8_t block[TOKENS_MAX];
        const uint8_t *masked = mask_make(kind, n, block);
        hs_region_means(s, n, masked, runs, n_runs, sums, means);
        for (size_t a = 0; a < n_runs; a++)
            for (size_t b = 0; b < n_runs; b++) {
                double sum = 0, count = 0;
                for (size_t i = runs[a].start; i < runs[a].end; i++)
                    for (size_t j = runs[b].start; j < runs[b].end; j++)
                        if (i != j && !is_out(masked, i) && !is_out(masked, j)) {
                            sum += s[i * n + j];
                            count++;
                        }
                assert_close(means[a * n_runs + b], count > 0 ? sum / count : 0, 1e-6);
            }
    }
    free(s);
    free(means);
}
END_TEST

/* ---- segments ---- */

static const struct segment_case {
    const char *high;     /* * a token of H, # a special one, - a special one not in H */
    const char *segments; /* each token's segment */
} segment_cases[] = {
    {".", "0"},
    {"....", "0000"},
    {".*..", "0011"},
    {".**.", "0001"},   /* the run ends at its last token */
    {"#...", "0000"},   /* special tokens cut nothing */
    {".*#..", "00000"}, /* followed by another token of H */
    {".*-..", "00111"}, /* the special one is not in H */
    {"...*", "0000"},   /* the end of the text is none */
    {"*..*..*", "0111222"},
};

START_TEST(segments_end_after_high_tokens)
{
    const struct segment_case *c = &segment_cases[_i];
    const size_t n = strlen(c->high);
    float attention[64], similarity[64] = {0};
    uint8_t special[8];
    for (size_t j = 0; j < n; j++) {
        special[j] = c->high[j] == '#' || c->high[j] == '-';
        for (size_t i = 0; i < n; i++)
            attention[i * n + j] = c->high[j] == '*' || c->high[j] == '#'         ? 0.9f
                                   : strchr(c->high, '*') || strchr(c->high, '#') ? 0.1f
                                                                                  : 0.0f;
    }
    hs_segment segments[8];
    const size_t n_segments = hs_segments_find(attention, similarity, 1, n, special, NULL, 0.3f, segments);
    ck_assert_uint_eq(n_segments, (size_t)(c->segments[n - 1] - '0') + 1);
    for (size_t k = 0; k < n_segments; k++) {
        ck_assert_uint_eq(segments[k].start, k ? segments[k - 1].end : 0);
        for (size_t i = segments[k].start; i < segments[k].end; i++)
            ck_assert_uint_eq(k, (size_t)(c->segments[i] - '0'));
        const uint16_t size = segments[k].end - segments[k].start;
        ck_assert(size > 1 ? segments[k].cohesion == 0 : isnan(segments[k].cohesion));
        ck_assert(size < n ? segments[k].contrast == 0 : isnan(segments[k].contrast));
    }
    ck_assert_uint_eq(segments[n_segments - 1].end, n);
}
END_TEST

/* Mean N over heads and pairs with i in the segment and j in it too (or not); NAN without pairs. */
static double naive_segment_mean(const float *s, size_t n_heads, size_t n, const uint8_t *masked,
                                 const hs_segment *segment, bool inside)
{
    double sum = 0, count = 0;
    for (size_t h = 0; h < n_heads; h++) {
        const float *map = s + h * n * n, m = naive_max(map, n, masked);
        for (size_t i = segment->start; i < segment->end; i++)
            for (size_t j = 0; j < n; j++) {
                const bool is_inside = j >= segment->start && j < segment->end;
                if (i == j || is_inside != inside || is_out(masked, i) || is_out(masked, j))
                    continue;
                sum += m > 0 ? map[i * n + j] / m : 0;
                count++;
            }
    }
    return count > 0 ? sum / count : NAN;
}

START_TEST(cohesion_and_contrast_are_means_of_n)
{
    const size_t n = lengths[_i], n_heads = 3;
    float *a = calloc(n_heads * n * n, sizeof *a), *s = calloc(n_heads * n * n, sizeof *s);
    for (size_t h = 0; h < n_heads; h++) {
        float *attention = attention_make(n, (uint32_t)h), *similarity = similarity_make(n, 9 + (uint32_t)h);
        memcpy(a + h * n * n, attention, n * n * sizeof *a);
        for (size_t k = 0; k < n * n; k++)
            s[h * n * n + k] = h == 1 ? -fabsf(similarity[k]) : similarity[k]; /* one head without E */
        free(attention);
        free(similarity);
    }
    uint8_t special[TOKENS_MAX] = {1};
    special[n - 1] = 1;
    hs_segment segments[TOKENS_MAX];
    for (int kind = 0; kind < N_MASKS; kind++) {
        uint8_t block[TOKENS_MAX];
        const uint8_t *masked = mask_make(kind, n, block);
        const size_t n_segments = hs_segments_find(a, s, n_heads, n, special, masked, 0.5f, segments);
        ck_assert(n_segments >= 1 && n_segments <= n);
        ck_assert(kind != MASK_NONE || n < 17 || n_segments > 1);
        for (size_t k = 0; k < n_segments; k++) {
            assert_close(segments[k].cohesion, naive_segment_mean(s, n_heads, n, masked, &segments[k], true),
                         2e-6);
            assert_close(segments[k].contrast, naive_segment_mean(s, n_heads, n, masked, &segments[k], false),
                         2e-6);
        }
    }
    free(a);
    free(s);
}
END_TEST

static const struct score_case {
    const char *special, *segments, *sentences; /* of each token */
    hs_boundary_score score;
} score_cases[] = {
    {"0", "0", "0", {0, 0, 0}},
    {"100001", "000000", "000000", {0, 0, 0}},
    {"100001", "000111", "000111", {1, 1, 1}},
    {"100001", "000111", "001111", {0, 1, 1}},
    {"100001", "000001", "000000", {0, 0, 0}}, /* [SEP] alone: the end of the text */
    {"100101", "000111", "000011", {1, 1, 1}}, /* either side of an inner [SEP] */
    {"000000", "012345", "001122", {2, 5, 2}},
    {"111111", "012345", "001122", {0, 0, 0}},
};

START_TEST(boundaries_are_scored_between_words)
{
    const struct score_case *c = &score_cases[_i];
    const size_t n = strlen(c->special);
    uint8_t special[8];
    int32_t sentences[8];
    hs_segment segments[8] = {0};
    size_t n_segments = 0;
    for (size_t i = 0; i < n; i++) {
        special[i] = (uint8_t)(c->special[i] - '0');
        sentences[i] = c->sentences[i] - '0';
        if (i == 0 || c->segments[i] != c->segments[i - 1])
            segments[n_segments++].start = (uint16_t)i;
        segments[n_segments - 1].end = (uint16_t)(i + 1);
    }
    const hs_boundary_score score = hs_segments_score(segments, n_segments, sentences, special, n);
    ck_assert_uint_eq(score.true_positives, c->score.true_positives);
    ck_assert_uint_eq(score.predicted, c->score.predicted);
    ck_assert_uint_eq(score.actual, c->score.actual);
}
END_TEST

/* ---- summary ---- */

typedef struct text {
    hs_text_facts facts;
    int32_t ids[TOKENS_MAX], first[TOKENS_MAX], sentences[TOKENS_MAX];
    uint8_t separators[TOKENS_MAX], masked[TOKENS_MAX];
} text;

static void text_make(text *t, size_t n, int mask)
{
    uint32_t seed = 3;
    for (size_t i = 0; i < n; i++) {
        t->ids[i] = (int32_t)(random_next(&seed) % (n / 3 + 1));
        t->sentences[i] = (int32_t)(i / 9);
        t->separators[i] = i % 9 == 8 || i == 0;
    }
    hs_repeats_find(t->ids, n, t->first);
    t->facts = (hs_text_facts){n, t->first, t->sentences, t->separators, NULL, mask_make(mask, n, t->masked)};
}

/* Returns true if fewer than n_pairs pairs of unmasked tokens have a larger product of lengths, or come
 * before (i, j) in the text with the same. */
static bool is_longest(const float *o, const text *t, size_t i, size_t j, double n_pairs)
{
    const size_t n = t->facts.n_tokens;
    double before = 0;
    for (size_t k = 0; k < n; k++)
        for (size_t m = k + 1; m < n; m++) {
            const double product = (double)o[k] * (double)o[m], own = (double)o[i] * (double)o[j];
            if (!is_out(t->facts.masked, k) && !is_out(t->facts.masked, m))
                before += product > own || (product == own && k * n + m < i * n + j);
        }
    return before < n_pairs;
}

/* Adds the two figures of lengths. */
static void naive_lengths(const hs_observed_head *maps, const text *t, float threshold, hs_head_summary *to)
{
    const float *o = maps->lengths, *s = maps->similarity;
    const uint8_t *masked = t->facts.masked;
    const size_t n = t->facts.n_tokens;
    double overlap = 0, trace = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        const double square = is_out(masked, i) ? 0 : (double)o[i] * (double)o[i];
        trace += square;
        squares += square * square;
        for (size_t j = i + 1; j < n; j++) {
            if (is_out(masked, i) || is_out(masked, j))
                continue;
            squares += 2 * (double)s[i * n + j] * (double)s[i * n + j];
            if (s[i * n + j] / to->max_similarity >= threshold && to->max_similarity > 0)
                overlap += is_longest(o, t, i, j, (double)to->high_pairs);
        }
    }
    to->longest_overlap = to->high_pairs ? (float)(overlap / (double)to->high_pairs) : NAN;
    to->participation_ratio = (float)(trace * trace / squares);
}

/* The same figures, each by its own loop over all pairs. */
static hs_head_summary naive_summary(const hs_observed_head *maps, const text *t, float threshold)
{
    const float *a = maps->attention, *s = maps->similarity;
    const size_t n = t->facts.n_tokens;
    const uint8_t *masked = t->facts.masked;
    const float m = naive_max(s, n, masked);
    double pairs = 0, repeated = 0, same = 0, both = 0, distance = 0;
    double counts[2] = {0}, sums[2] = {0}, squares[2] = {0};
    double holding[TOKENS_MAX] = {0};
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++) {
            if (is_out(masked, i) || is_out(masked, j))
                continue;
            const bool is_repeated = t->ids[i] == t->ids[j], is_same = t->sentences[i] == t->sentences[j];
            const double value = (double)s[i * n + j] / m;
            counts[is_repeated || is_same] += 1;
            sums[is_repeated || is_same] += value;
            if (!(m > 0) || s[i * n + j] / m < threshold)
                continue;
            pairs++;
            repeated += is_repeated;
            same += is_same;
            both += is_repeated && is_same;
            distance += (double)(j - i);
            for (size_t k = 0; k < n; k++)
                holding[k] += t->ids[k] == t->ids[i] || t->ids[k] == t->ids[j];
        }
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++)
            if (!is_out(masked, i) && !is_out(masked, j)) {
                const bool signal = t->ids[i] == t->ids[j] || t->sentences[i] == t->sentences[j];
                const double off = (double)s[i * n + j] / m - sums[signal] / counts[signal];
                squares[signal] += off * off;
            }
    size_t focal = 0;
    for (size_t k = 1; k < n; k++)
        if (holding[k] > holding[focal])
            focal = k;
    double entropy = 0, mass = 0, separators = 0, rows = 0;
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (size_t j = 0; j < n; j++)
            sum += is_out(masked, j) ? 0 : a[i * n + j];
        for (size_t j = 0; j < n; j++) {
            const double p = masked ? a[i * n + j] / sum : a[i * n + j];
            if (is_out(masked, i) || is_out(masked, j))
                continue;
            entropy -= p > 0 ? p * log(p) : 0;
            mass += a[i * n + j];
            separators += t->separators[j] ? a[i * n + j] : 0;
        }
        rows += !is_out(masked, i);
    }
    const double spread = sqrt((squares[0] / counts[0] + squares[1] / counts[1]) / 2);
    hs_head_summary summary = {
        .max_similarity = m > -INFINITY ? m : NAN,
        .high_pairs = (uint64_t)pairs,
        .repeated_share = (float)(repeated / pairs),
        .same_sentence_share = (float)(same / pairs),
        .repeated_same_sentence_share = (float)(both / pairs),
        .mean_distance = (float)(distance / pairs),
        .focal_token = pairs > 0 ? (int32_t)focal : -1,
        .focal_share = (float)(holding[focal] / pairs),
        .attention_entropy = (float)(entropy / rows),
        .separator_attention = (float)(separators / mass),
        .snr_dprime =
            m > 0 && spread > 0 ? (float)((sums[1] / counts[1] - sums[0] / counts[0]) / spread) : NAN,
    };
    naive_lengths(maps, t, threshold, &summary);
    return summary;
}

static void assert_same_summary(const hs_head_summary *actual, const hs_head_summary *expected)
{
    assert_close(actual->max_similarity, expected->max_similarity, 0);
    ck_assert_uint_eq(actual->high_pairs, expected->high_pairs);
    assert_close(actual->repeated_share, expected->repeated_share, 0);
    assert_close(actual->same_sentence_share, expected->same_sentence_share, 0);
    assert_close(actual->repeated_same_sentence_share, expected->repeated_same_sentence_share, 0);
    assert_close(actual->mean_distance, expected->mean_distance, 0);
    ck_assert_int_eq(actual->focal_token, expected->focal_token);
    assert_close(actual->focal_share, expected->focal_share, 0);
    assert_close(actual->attention_entropy, expected->attention_entropy, 2e-6);
    assert_close(actual->separator_attention, expected->separator_attention, 2e-6);
    assert_close(actual->snr_dprime, expected->snr_dprime, 2e-6);
    assert_close(actual->longest_overlap, expected->longest_overlap, 0);
    assert_close(actual->participation_ratio, expected->participation_ratio, 2e-6);
}

START_TEST(summary_is_that_of_naive_loops)
{
    const size_t n = lengths[_i];
    float *s = similarity_make(n, 21), *a = attention_make(n, 22), *negative = calloc(n * n, sizeof *s);
    float *o = lengths_make(n, 25);
    const hs_observed_head positives = {.attention = a, .similarity = s, .lengths = o},
                           negatives = {.attention = a, .similarity = negative, .lengths = o};
    for (size_t k = 0; k < n * n; k++)
        negative[k] = -1;
    for (int kind = 0; kind < N_MASKS; kind++)
        for (size_t k = 0; k < N_THRESHOLDS; k++) {
            text t;
            text_make(&t, n, kind);
            hs_head_summary actual;
            ck_assert_int_eq(hs_head_summarize(&positives, &t.facts, thresholds[k], &actual, NULL), HS_OK);
            hs_head_summary expected = naive_summary(&positives, &t, thresholds[k]);
            assert_same_summary(&actual, &expected);
            ck_assert_int_eq(hs_head_summarize(&negatives, &t.facts, thresholds[k], &actual, NULL), HS_OK);
            expected = naive_summary(&negatives, &t, thresholds[k]);
            assert_same_summary(&actual, &expected);
        }
    free(s);
    free(a);
    free(negative);
    free(o);
}
END_TEST

/* Rows whose attention is all on masked tokens count, with entropy 0. */
START_TEST(rows_without_unmasked_attention_have_no_entropy)
{
    enum { N = 6 };
    float *s = similarity_make(N, 23), *a = attention_make(N, 24), *o = lengths_make(N, 26);
    const hs_observed_head maps = {.attention = a, .similarity = s, .lengths = o};
    text t;
    text_make(&t, N, MASK_SPECIAL);
    for (size_t j = 0; j < N; j++)
        a[2 * N + j] = j == 0;
    hs_head_summary actual;
    ck_assert_int_eq(hs_head_summarize(&maps, &t.facts, 0.3f, &actual, NULL), HS_OK);
    const hs_head_summary expected = naive_summary(&maps, &t, 0.3f);
    ck_assert(expected.attention_entropy > 0);
    assert_same_summary(&actual, &expected);
    free(s);
    free(a);
    free(o);
}
END_TEST

/* Constant outputs: of equal products the first ones in the text are taken, and there is one direction. */
START_TEST(lengths_of_unusual_outputs)
{
    enum { N = 4 };
    float s[N * N] = {0}, a[N * N] = {0}, o[N] = {1, 1, 1, 1};
    const hs_observed_head maps = {.attention = a, .similarity = s, .lengths = o};
    text t;
    hs_head_summary summary;
    text_make(&t, N, MASK_NONE);
    for (size_t k = 0; k < N * N; k++)
        s[k] = 1;
    ck_assert_int_eq(hs_head_summarize(&maps, &t.facts, 0.3f, &summary, NULL), HS_OK);
    ck_assert(summary.longest_overlap == 1 && summary.participation_ratio == 1);
    s[0 * N + 1] = s[0 * N + 2] = 0.1f; /* four high pairs; the first four are (0, 1) to (1, 2) */
    ck_assert_int_eq(hs_head_summarize(&maps, &t.facts, 0.3f, &summary, NULL), HS_OK);
    ck_assert(summary.high_pairs == 4 && summary.longest_overlap == 0.5f);
    for (size_t i = 0; i < N; i++)
        o[i] = i == 2 ? NAN : INFINITY;
    ck_assert_int_eq(hs_head_summarize(&maps, &t.facts, 0.3f, &summary, NULL), HS_OK);
    ck_assert(isnan(summary.participation_ratio));
    memset(s, 0, sizeof s);
    memset(o, 0, sizeof o);
    ck_assert_int_eq(hs_head_summarize(&maps, &t.facts, 0.3f, &summary, NULL), HS_OK);
    ck_assert(isnan(summary.longest_overlap) && isnan(summary.participation_ratio));
    o[0] = 3;
    text_make(&t, 1, MASK_NONE);
    ck_assert_int_eq(hs_head_summarize(&maps, &t.facts, 0.3f, &summary, NULL), HS_OK);
    ck_assert(isnan(summary.longest_overlap) && summary.participation_ratio == 1);
}
END_TEST

/* Any number of pairs, of lengths that are all different or nearly all the same. */
START_TEST(longest_pairs_are_those_of_a_full_sort)
{
    enum { N = 60, PAIRS = N * (N - 1) / 2 };
    uint32_t seed = 31, scratch[2 * N];
    float o[N];
    for (size_t i = 0; i < N; i++)
        o[i] = _i ? 1 + (float)(random_next(&seed) % 3) * 1e-6f : (float)random_next(&seed);
    for (uint64_t n_pairs = 1; n_pairs <= PAIRS; n_pairs += n_pairs < 40 ? 1 : 97) {
        const hs_longest_pairs pairs = hs_longest_pairs_find(o, N, n_pairs, scratch);
        uint64_t n = 0, n_larger = 0;
        double least = INFINITY;
        for (size_t i = 0; i < N; i++)
            for (size_t j = i + 1; j < N; j++) {
                const double product = hs_length_product(o[i], o[j]);
                n_larger += product > pairs.cut;
                n += hs_longest_pairs_has(&pairs, i, j, product);
                least = hs_longest_pairs_has(&pairs, i, j, product) ? fmin(least, product) : least;
            }
        ck_assert_uint_eq(n, n_pairs);
        ck_assert(n_larger < n_pairs && least == pairs.cut);
        for (size_t i = 0; i < N; i++) {
            const float partner = hs_longest_partner(o[i], pairs.cut);
            ck_assert(hs_length_product(o[i], partner) >= pairs.cut &&
                      hs_length_product(o[i], nextafterf(partner, 0)) < pairs.cut);
        }
    }
}
END_TEST

START_TEST(focal_ties_go_to_the_first_in_the_text)
{
    /* pairs (0, 1) and (2, 3): every token is in one; a repeated pair counts its id once */
    float s[16] = {0}, a[16], o[4] = {1, 2, 3, 4};
    const hs_observed_head maps = {.attention = a, .similarity = s, .lengths = o};
    s[0 * 4 + 1] = s[1 * 4 + 0] = s[2 * 4 + 3] = s[3 * 4 + 2] = 2;
    for (size_t k = 0; k < 16; k++)
        a[k] = 0.25f;
    text t;
    text_make(&t, 4, MASK_NONE);
    const struct {
        int32_t ids[4], focal;
        float share;
    } cases[] = {
        {{5, 6, 7, 8}, 0, 0.5f}, {{5, 6, 6, 8}, 1, 1.0f}, {{5, 5, 7, 8}, 0, 0.5f}, {{5, 6, 8, 8}, 0, 0.5f}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        hs_repeats_find(cases[c].ids, 4, t.first);
        hs_head_summary summary;
        ck_assert_int_eq(hs_head_summarize(&maps, &t.facts, 0.3f, &summary, NULL), HS_OK);
        ck_assert_int_eq(summary.focal_token, cases[c].focal);
        ck_assert(summary.focal_share == cases[c].share);
        assert_close(summary.attention_entropy, log(4), 1e-6);
    }
}
END_TEST

#define LOOP(test, cases) tcase_add_loop_test(tc, test, 0, (int)(sizeof(cases) / sizeof *(cases)))

int main(void)
{
    Suite *suite = suite_create("analysis");
    TCase *tc = tcase_create("analysis");
    LOOP(sentences_follow_the_rules, sentence_cases);
    tcase_add_test(tc, logarithms_are_near_and_finite_for_zeros);
    tcase_add_test(tc, a_written_sep_is_a_word);
    tcase_add_test(tc, repeats_are_first_positions);
    LOOP(maximum_and_normalised_map, lengths);
    LOOP(maps_without_a_positive_element_have_no_pairs, hopeless_cases);
    tcase_add_test(tc, infinite_elements_are_survived);
    LOOP(pairs_are_those_of_a_full_sort, lengths);
    tcase_add_test(tc, pairs_do_not_depend_on_threads);
    LOOP(refused_allocations_are_survived, calls);
    LOOP(profile_is_the_normalised_column_sum, lengths);
    LOOP(each_high_token_is_a_run, run_cases);
    LOOP(regions_are_means_without_diagonal, lengths);
    LOOP(segments_end_after_high_tokens, segment_cases);
    LOOP(cohesion_and_contrast_are_means_of_n, lengths);
    LOOP(boundaries_are_scored_between_words, score_cases);
    LOOP(summary_is_that_of_naive_loops, lengths);
    tcase_add_test(tc, rows_without_unmasked_attention_have_no_entropy);
    tcase_add_test(tc, focal_ties_go_to_the_first_in_the_text);
    tcase_add_test(tc, lengths_of_unusual_outputs);
    tcase_add_loop_test(tc, longest_pairs_are_those_of_a_full_sort, 0, 2);
    suite_add_tcase(suite, tc);
    return tests_run(suite);
}
