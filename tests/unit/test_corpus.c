/* test_corpus.c - corpus statistics: every array against naive loops over the pairs of every text, merging
 * and saving to the bit, damaged bytes refused. */
#include "engine/analysis/analysis.h"
#include "engine/analysis/distances.h"
#include "engine/statistics/statistics_state.h"
#include "tests/unit/chaos.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_LAYERS = 2, N_HEADS = 3, WINDOW = 70, VOCAB = 40, N_PARTS = 3, TEXTS_MAX = 13, MAIN = 1 };
enum { CLS = 1, SEP = 2, COMMA = 3, STOP = 4, QUESTION = 5 };

static const uint16_t layers[N_LAYERS] = {3, 7}, heads[N_HEADS] = {0, 1, 2};
static const float thresholds[] = {0.05f, 0.3f, 0.8f, 1.0f};
enum { N_THRESHOLDS = sizeof thresholds / sizeof *thresholds };

static const hs_corpus_options options = {
    .layers = layers,
    .n_layers = N_LAYERS,
    .n_heads = N_HEADS,
    .tokens_max = WINDOW,
    .vocab_size = VOCAB,
    .thresholds = thresholds,
    .n_thresholds = N_THRESHOLDS,
    .threshold_main = MAIN,
    .attention_threshold = 0.3f,
    .n_parts = N_PARTS,
};

/* ---- made-up texts ---- */

static hs_corpus_text texts[TEXTS_MAX];
static hs_capture *captures[TEXTS_MAX]; /* their maps */
static size_t n_texts;

static uint32_t random_next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void similarity_fill(float *map, size_t n, size_t kind, uint32_t *seed)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = i; j < n; j++) {
            float value = (float)((int)(random_next(seed) % 3001) - 800) * 0.013f;
            if (kind == 1)
                value = -fabsf(value); /* no positive element */
            else if (kind == 2)
                value = j == i + 1 ? 5 : 0.2f; /* exact ties */
            map[i * n + j] = map[j * n + i] = i == j ? 0 : value;
        }
}

static void attention_fill(float *map, float *columns, size_t n, uint32_t *seed)
{
    memset(columns, 0, n * sizeof *columns);
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (size_t j = 0; j < n; j++)
            sum += map[i * n + j] = expf((float)(random_next(seed) % 100) / 20 + (j % 9 == 4 ? 4.0f : 0.0f));
        for (size_t j = 0; j < n; j++)
            columns[j] += map[i * n + j] = (float)(map[i * n + j] / sum);
    }
}

/* Numbers, as report.npz has them on the last axis of attention_mass. */
static uint8_t role_of(int32_t id)
{
    return id == CLS ? 0 : id == SEP ? 1 : id == STOP || id == QUESTION ? 2 : id == COMMA ? 3 : 4;
}

static void find_sentences(const hs_corpus_text *text, int32_t *ret_sentences)
{
    uint8_t ends[WINDOW];
    for (size_t i = 0; i < text->n_tokens; i++)
        ends[i] = text->ids[i] == STOP || text->ids[i] == QUESTION;
    hs_sentences_find(ends, NULL, text->special, text->n_tokens, ret_sentences);
}

static void text_make(size_t number, size_t n)
{
    static const hs_shape shape = {
        .n_layers = 8, .n_heads = N_HEADS, .hidden = 12, .head_width = 4, .n_positions = WINDOW};
    const hs_selection selection = {
        layers, N_LAYERS, heads, N_HEADS, HS_KEEP(ATTENTION) | HS_KEEP(SIMILARITY), 0};
    uint32_t seed = (uint32_t)number + 1;
    hs_capture *capture;
    ck_assert_int_eq(hs_capture_create(NULL, &shape, &selection, n, &capture, NULL), HS_OK);
    for (size_t l = 0; l < N_LAYERS; l++)
        for (size_t h = 0; h < N_HEADS; h++) {
            attention_fill(hs_capture_at(capture, HS_TAP_ATTENTION, l, h),
                           hs_capture_at(capture, HS_TAP_COLUMNS, l, h), n, &seed);
            similarity_fill(hs_capture_at(capture, HS_TAP_SIMILARITY, l, h), n, (number + 2 * h + l) % 5,
                            &seed);
        }
    int32_t *ids = calloc(n, sizeof *ids);
    uint8_t *special = calloc(n, 1), *roles = calloc(n, 1);
    for (size_t i = 0; i < n; i++)
        ids[i] = 3 + (int32_t)(random_next(&seed) % (i % 7 ? 17 : VOCAB - 3));
    ids[0] = CLS;
    ids[n - 1] = SEP;
    for (size_t i = 0; i < n; i++) {
        special[i] = i == 0 || i == n - 1;
        roles[i] = role_of(ids[i]);
    }
    captures[n_texts] = capture;
    texts[n_texts++] =
        (hs_corpus_text){.number = number, .n_tokens = n, .ids = ids, .special = special, .roles = roles};
}

static void setup(void)
{
    static const size_t sizes[] = {70, 2, 3, 64, 65, 70, 17, 48, 33, 16, 15, 70};
    for (size_t k = 0; k < TEXTS_MAX; k++)
        text_make(k * 5 / 3, sizes[k % (sizeof sizes / sizeof *sizes)]);
}

static void teardown(void)
{
    for (size_t k = 0; k < n_texts; k++) {
        hs_capture_destroy(captures[k]);
        free((int32_t *)texts[k].ids);
        free((uint8_t *)texts[k].special);
        free((uint8_t *)texts[k].roles);
    }
    n_texts = 0;
}

static hs_observed_head head_of(size_t k, size_t l, size_t h)
{
    return (hs_observed_head){.attention = hs_capture_at(captures[k], HS_TAP_ATTENTION, l, h),
                              .similarity = hs_capture_at(captures[k], HS_TAP_SIMILARITY, l, h),
                              .columns = hs_capture_at(captures[k], HS_TAP_COLUMNS, l, h)};
}

/* Shows the heads of texts [first, first + n) as a pass does. */
static void heads_add(hs_corpus_stats *stats, size_t first, size_t n)
{
    for (size_t l = 0; l < N_LAYERS; l++)
        for (size_t h = 0; h < N_HEADS; h++)
            for (size_t k = 0; k < n; k++) {
                const hs_observed_head head = head_of(first + k, l, h);
                hs_corpus_batch_head(stats, k, l, h, &head, NULL);
            }
}

static void batch_add(hs_corpus_stats *stats, size_t first, size_t n)
{
    ck_assert_int_eq(hs_corpus_batch_begin(stats, texts + first, n, NULL), HS_OK);
    heads_add(stats, first, n);
}

static hs_corpus_stats *stats_of(size_t first, size_t n, size_t batch)
{
    hs_corpus_stats *stats;
    ck_assert_int_eq(hs_corpus_stats_create(&options, &stats, NULL), HS_OK);
    for (size_t k = first; k < first + n; k += batch)
        batch_add(stats, k, k + batch < first + n ? batch : first + n - k);
    return stats;
}

/* ---- the same by naive loops ---- */

static hs_corpus_array arrays[HS_CORPUS_ARRAYS_MAX];
static size_t n_arrays;
static double *expected[HS_CORPUS_ARRAYS_MAX];

static size_t array_find(const char *name)
{
    static struct {
        const char *name;
        size_t k;
    } known[256]; /* by address: a literal stays where it is */
    const size_t slot = (uintptr_t)name / 4 % 256;
    if (known[slot].name != name) {
        size_t k = 0;
        while (k < n_arrays && strcmp(arrays[k].name, name) != 0)
            k++;
        ck_assert_msg(k < n_arrays, "no array %s", name);
        known[slot].name = name;
        known[slot].k = k;
    }
    return known[slot].k;
}

/* Element of an expected array; axes not used are 0. */
static double *at(const char *name, size_t a, size_t b, size_t c, size_t d)
{
    const hs_corpus_array *array = &arrays[array_find(name)];
    const size_t index[] = {a, b, c, d};
    size_t flat = 0;
    for (size_t axis = 0; axis < array->n_axes; axis++) {
        if (index[axis] >= array->axes[axis]) /* each ck_assert is a write to another process */
            ck_abort_msg("%s has no index %zu on axis %zu", name, index[axis], axis);
        flat = flat * array->axes[axis] + index[axis];
    }
    return &expected[array - arrays][flat];
}

/* One text of the naive computation. */
typedef struct naive {
    const hs_corpus_text *text;
    size_t n;
    int32_t sentences[WINDOW];
} naive;

static bool is_repeated(const naive *x, size_t i, size_t j)
{
    return x->text->ids[i] == x->text->ids[j];
}

static bool is_ordinary(const naive *x, size_t i, size_t j)
{
    return !x->text->special[i] && !x->text->special[j];
}

static bool is_same_sentence(const naive *x, size_t i, size_t j)
{
    return is_ordinary(x, i, j) && x->sentences[i] == x->sentences[j];
}

static void naive_chance(const naive *x)
{
    *at("texts", 0, 0, 0, 0) += 1;
    *at("tokens", 0, 0, 0, 0) += (double)x->n;
    for (size_t i = 0; i < x->n; i++) {
        *at("reached", i, 0, 0, 0) += 1;
        for (size_t j = i + 1; j < x->n; j++) {
            *at("all_pairs", 0, 0, 0, 0) += 1;
            *at("all_ordinary", 0, 0, 0, 0) += is_ordinary(x, i, j);
            *at("all_repeated", 0, 0, 0, 0) += is_repeated(x, i, j);
            *at("all_same_sentence", 0, 0, 0, 0) += is_same_sentence(x, i, j);
            *at("all_repeated_same_sentence", 0, 0, 0, 0) +=
                is_repeated(x, i, j) && is_same_sentence(x, i, j);
            *at("all_distance", j - i, 0, 0, 0) += 1;
        }
    }
}

static size_t bin_of(double value, size_t n_bins)
{
    const double bin = floor(value * (double)n_bins);
    return bin < (double)n_bins ? (size_t)bin : n_bins - 1;
}

static void naive_elements(const naive *x, size_t l, size_t h, float m)
{
    const float *s = hs_capture_at(captures[x->text - texts], HS_TAP_SIMILARITY, l, h);
    for (size_t i = 0; i < x->n; i++)
        for (size_t j = i + 1; j < x->n; j++) {
            const double n = m > 0 ? (double)s[i * x->n + j] / m : 0;
            const bool signal = is_repeated(x, i, j) || is_same_sentence(x, i, j);
            /* In floats, as edges of bins are. */
            const float scaled = s[i * x->n + j] * (m > 0 ? 1 / m : 0) * 100;
            const size_t bin = scaled < 0 ? 0 : scaled < 99 ? 1 + (size_t)scaled : 100;
            *at("normalized_hist", l, h, bin, 0) += 1;
            const bool ordinary = is_ordinary(x, i, j);
            const char *moments = signal ? "signal_moments" : "noise_moments";
            *at(!ordinary ? "special_hist" : signal ? "signal_hist" : "noise_hist", l, h, bin, 0) += 1;
            *at(moments, l, h, 0, 0) += ordinary;
            *at(moments, l, h, 1, 0) += ordinary * n;
            *at(moments, l, h, 2, 0) += ordinary * n * n;
            for (int mirror = 0; mirror < 2; mirror++) {
                *at("similarity_sum", l, mirror ? j : i, mirror ? i : j, 0) += s[i * x->n + j];
                *at("normalized_sum", l, mirror ? j : i, mirror ? i : j, 0) += n;
                if (x->text->number == 0)
                    *at("first_similarity", l, mirror ? j : i, mirror ? i : j, 0) += s[i * x->n + j];
            }
        }
}

/* E of one head; returns the focal id, -1 for none. */
static int32_t naive_pairs(const naive *x, size_t t, size_t l, size_t h, float m)
{
    const float *s = hs_capture_at(captures[x->text - texts], HS_TAP_SIMILARITY, l, h);
    const size_t part = x->text->number % N_PARTS;
    double high = 0, ordinary = 0, repeated = 0, same = 0, both = 0, distances = 0, holding[VOCAB] = {0};
    for (size_t i = 0; i < x->n; i++)
        for (size_t j = i + 1; j < x->n; j++) {
            if (!(m > 0) || !(s[i * x->n + j] / m >= thresholds[t]))
                continue;
            high++;
            ordinary += is_ordinary(x, i, j);
            repeated += is_repeated(x, i, j);
            same += is_same_sentence(x, i, j);
            both += is_repeated(x, i, j) && is_same_sentence(x, i, j);
            distances += (double)(j - i);
            holding[x->text->ids[i]]++;
            holding[x->text->ids[j]] += !is_repeated(x, i, j);
            *at("distance", t, l, h, j - i) += 1;
            if (t == MAIN)
                *at("location", l, h, i, j) += 1;
        }
    if (high == 0)
        return -1;
    int32_t focal = x->text->ids[0];
    for (size_t i = 1; i < x->n; i++)
        if (holding[x->text->ids[i]] > holding[focal])
            focal = x->text->ids[i];
    *at("high", t, l, h, 0) += high;
    *at("high_ordinary", t, l, h, 0) += ordinary;
    *at("repeated", t, l, h, 0) += repeated;
    *at("same_sentence", t, l, h, 0) += same;
    *at("repeated_same_sentence", t, l, h, 0) += both;
    *at("texts_with_high", t, l, h, 0) += 1;
    *at("focal_share_sum", t, l, h, 0) += holding[focal] / high;
    *at("repeated_hist", t, l, h, bin_of(repeated / high + 1e-12, 20)) += 1;
    if (ordinary > 0) {
        *at("same_sentence_hist", t, l, h, bin_of(same / ordinary + 1e-12, 20)) += 1;
        *at("repeated_same_sentence_hist", t, l, h, bin_of(both / ordinary + 1e-12, 20)) += 1;
    }
    *at("focal_hist", t, l, h, bin_of(holding[focal] / high + 1e-12, 20)) += 1;
    *at("part_high", part, t, l, h) += high;
    *at("part_high_ordinary", part, t, l, h) += ordinary;
    *at("part_repeated", part, t, l, h) += repeated;
    *at("part_same_sentence", part, t, l, h) += same;
    *at("part_distance_sum", part, t, l, h) += distances;
    *at("part_texts_with_high", part, t, l, h) += 1;
    *at("part_focal_share_sum", part, t, l, h) += holding[focal] / high;
    return focal;
}

static double focal_texts[N_LAYERS][VOCAB]; /* and heads in which an id is focal, at the main threshold */

static void naive_similarities(const naive *x, size_t l)
{
    float maxima[N_HEADS];
    for (size_t h = 0; h < N_HEADS; h++) {
        maxima[h] =
            hs_similarity_max(hs_capture_at(captures[x->text - texts], HS_TAP_SIMILARITY, l, h), x->n, NULL);
        naive_elements(x, l, h, maxima[h]);
    }
    for (size_t t = 0; t < N_THRESHOLDS; t++) {
        bool seen[VOCAB] = {false};
        size_t n_unique = 0;
        for (size_t h = 0; h < N_HEADS; h++) {
            const int32_t focal = naive_pairs(x, t, l, h, maxima[h]);
            n_unique += focal >= 0 && !seen[focal];
            if (focal >= 0 && t == MAIN)
                focal_texts[l][focal]++;
            if (focal >= 0)
                seen[focal] = true;
        }
        *at("unique_focal", t, l, n_unique, 0) += 1;
    }
}

static void naive_attention(const naive *x, size_t l, size_t h, double focus[VOCAB])
{
    const float *a = hs_capture_at(captures[x->text - texts], HS_TAP_ATTENTION, l, h);
    float profile[WINDOW];
    hs_column_profile(a, x->n, x->n, NULL, profile);
    for (size_t j = 0; j < x->n; j++) {
        const bool high = profile[j] >= options.attention_threshold;
        *at("column_hist", l, h, bin_of(profile[j], 100), 0) += 1;
        focus[x->text->ids[j]] += high;
        for (size_t i = 0; i < x->n; i++) {
            *at("attention_sum", l, h, i, j) += a[i * x->n + j];
            *at("attention_sum_no_columns", l, h, i, j) += high ? 0 : a[i * x->n + j];
            *at("attention_sum_no_columns_no_diagonal", l, h, i, j) += high || i == j ? 0 : a[i * x->n + j];
            *at("attention_mass", l, h, role_of(x->text->ids[j]), 0) += a[i * x->n + j];
        }
    }
}

static void naive_segmentation(const naive *x, size_t l)
{
    hs_segment segments[WINDOW];
    const size_t n =
        hs_segments_find(hs_capture_at(captures[x->text - texts], HS_TAP_ATTENTION, l, 0),
                         hs_capture_at(captures[x->text - texts], HS_TAP_SIMILARITY, l, 0), N_HEADS, x->n,
                         x->text->special, NULL, options.attention_threshold, segments);
    const hs_boundary_score score = hs_segments_score(segments, n, x->sentences, x->text->special, x->n);
    *at("segmentation", l, 0, 0, 0) += score.true_positives;
    *at("segmentation", l, 1, 0, 0) += score.predicted;
    *at("segmentation", l, 2, 0, 0) += score.actual;
}

/* The most frequent ids of a layer. */
static void naive_focus(const char *ids, const char *numbers, size_t l, const double counts[VOCAB])
{
    bool taken[VOCAB] = {false};
    for (size_t k = 0; k < HS_CORPUS_FOCUS_MAX; k++) {
        int best = -1;
        for (int id = 0; id < VOCAB; id++)
            if (!taken[id] && counts[id] > (best < 0 ? 0 : counts[best]))
                best = id;
        *at(ids, l, k, 0, 0) = best;
        *at(numbers, l, k, 0, 0) = best < 0 ? 0 : counts[best];
        if (best >= 0)
            taken[best] = true;
    }
}

/* Figures of profiles, by array. */
static const struct {
    const char *name;
    size_t offset;
} profile_figures[] = {
    {"profiles_self", offsetof(hs_head_profile, self)},
    {"profiles_previous", offsetof(hs_head_profile, previous)},
    {"profiles_next", offsetof(hs_head_profile, next)},
    {"profiles_first", offsetof(hs_head_profile, first)},
    {"profiles_separator", offsetof(hs_head_profile, separator)},
    {"profiles_punctuation", offsetof(hs_head_profile, punctuation)},
    {"profiles_same_token", offsetof(hs_head_profile, same_token)},
    {"profiles_entropy", offsetof(hs_head_profile, entropy)},
    {"profiles_entropy_first", offsetof(hs_head_profile, entropy_first)},
    {"profiles_confidence", offsetof(hs_head_profile, confidence)},
    {"profiles_mean_distance", offsetof(hs_head_profile, mean_distance)},
};
enum { N_OFFSETS = 2 * HS_PROFILE_REACH + 1 };

/* Attention within sentences, and what an even spread would put there. */
static void naive_sentences(const naive *x, const float *a, double *ret_share, double *ret_even)
{
    *ret_share = *ret_even = 0;
    for (size_t i = 0; i < x->n; i++)
        for (size_t j = 0; j < x->n; j++)
            if (!x->text->special[i] && !x->text->special[j] && x->sentences[i] == x->sentences[j]) {
                *ret_share += (double)a[i * x->n + j] / (double)x->n;
                *ret_even += 1 / (double)(x->n * x->n);
            }
}

/* Means over texts of what a text's profile is. */
static void naive_profile(const naive *x, size_t l, size_t h)
{
    int32_t first[WINDOW];
    uint8_t kinds[3][WINDOW];
    hs_head_profile p;
    hs_repeats_find(x->text->ids, x->n, first);
    for (size_t i = 0; i < x->n; i++) {
        kinds[0][i] = x->text->roles[i] == HS_ROLE_FIRST;
        kinds[1][i] = x->text->roles[i] == HS_ROLE_SEPARATOR;
        kinds[2][i] = x->text->roles[i] == HS_ROLE_SENTENCE_END || x->text->roles[i] == HS_ROLE_COMMA;
    }
    hs_head_profile_find(
        hs_capture_at(captures[x->text - texts], HS_TAP_ATTENTION, l, h),
        &(hs_token_kinds){x->n, first, kinds[0], kinds[1], kinds[2], x->sentences, x->text->special}, &p);
    for (size_t k = 0; k < sizeof profile_figures / sizeof *profile_figures; k++)
        *at(profile_figures[k].name, l, h, 0, 0) +=
            (double)*(const float *)(const void *)((const char *)&p + profile_figures[k].offset) /
            (double)n_texts;
    for (size_t k = 0; k < N_OFFSETS; k++) {
        size_t n_with = 0; /* texts that have such a neighbour somewhere */
        for (size_t i = 0; i < n_texts; i++)
            n_with +=
                texts[i].n_tokens > (k > HS_PROFILE_REACH ? k - HS_PROFILE_REACH : HS_PROFILE_REACH - k);
        *at("profiles_offsets", l, h, k, 0) += (double)p.offsets[k] / (double)n_with;
    }
    double share, even;
    naive_sentences(x, hs_capture_at(captures[x->text - texts], HS_TAP_ATTENTION, l, h), &share, &even);
    *at("profiles_same_sentence", l, h, 0, 0) += share / (double)n_texts;
    *at("even_same_sentence_sum", 0, 0, 0, 0) += even / (N_LAYERS * N_HEADS);
}

/* By what the other figures came to. */
static double naive_label(size_t l, size_t h)
{
    hs_head_profile p = {0};
    for (size_t k = 0; k < sizeof profile_figures / sizeof *profile_figures; k++)
        *(float *)(void *)((char *)&p + profile_figures[k].offset) =
            (float)*at(profile_figures[k].name, l, h, 0, 0);
    return hs_head_label_find(&p);
}

static void naive_all(void)
{
    double focus[N_LAYERS][VOCAB] = {0};
    memset(focal_texts, 0, sizeof focal_texts);
    for (size_t k = 0; k < N_THRESHOLDS; k++)
        *at("thresholds", k, 0, 0, 0) = thresholds[k];
    for (size_t k = 0; k < n_texts; k++) {
        naive x = {.text = &texts[k], .n = texts[k].n_tokens};
        find_sentences(x.text, x.sentences);
        naive_chance(&x);
        *at("sentences", 0, 0, 0, 0) += x.sentences[x.n - 1] + 1;
        for (size_t l = 0; l < N_LAYERS; l++) {
            naive_similarities(&x, l);
            naive_segmentation(&x, l);
            for (size_t h = 0; h < N_HEADS; h++)
                naive_attention(&x, l, h, focus[l]);
            for (size_t h = 0; h < N_HEADS; h++)
                naive_profile(&x, l, h);
        }
    }
    *at("map_step", 0, 0, 0, 0) = 1;
    for (size_t l = 0; l < N_LAYERS; l++) {
        *at("layers", l, 0, 0, 0) = layers[l];
        naive_focus("focus_ids", "focus_counts", l, focus[l]);
        naive_focus("focal_ids", "focal_counts", l, focal_texts[l]);
        for (size_t h = 0; h < N_HEADS; h++)
            *at("profiles_label", l, h, 0, 0) = naive_label(l, h);
    }
}

START_TEST(every_array_is_described_by_its_row)
{
    hs_corpus_stats *stats = stats_of(0, n_texts, 1);
    n_arrays = hs_corpus_arrays(stats, arrays);
    for (size_t k = 0; k < n_arrays; k++) {
        const hs_array_row *row = arrays[k].row;
        ck_assert_ptr_nonnull(row);
        ck_assert_str_eq(row->name, arrays[k].name);
        ck_assert_msg(row->unit && row->meaning, "%s", row->name);
        for (size_t axis = 0; axis < HS_CORPUS_AXES_MAX; axis++)
            ck_assert_msg((row->axes[axis].name != NULL) == (axis < arrays[k].n_axes), "%s", row->name);
        for (size_t other = 0; other < k; other++)
            ck_assert_str_ne(arrays[other].name, row->name);
    }
    hs_corpus_stats_destroy(stats);
}
END_TEST

START_TEST(every_array_is_that_of_naive_loops)
{
    hs_corpus_stats *stats = stats_of(0, n_texts, (size_t)_i);
    n_arrays = hs_corpus_arrays(stats, arrays);
    for (size_t k = 0; k < n_arrays; k++)
        expected[k] = calloc(arrays[k].n_elements, sizeof *expected[k]);
    naive_all();
    for (size_t k = 0; k < n_arrays; k++) {
        const hs_corpus_array *a = &arrays[k];
        double *floats = calloc(a->n_elements, sizeof *floats);
        int64_t *counts = calloc(a->n_elements, sizeof *counts);
        hs_corpus_array_read(stats, a, 0, a->n_elements, a->is_float ? (void *)floats : (void *)counts);
        bool any = false;
        for (size_t e = 0; e < a->n_elements; e++) {
            const double actual = a->is_float ? floats[e] : (double)counts[e];
            const double tolerance = a->is_float ? 5e-6 * fmax(1, fabs(expected[k][e])) : 0;
            if (!(fabs(actual - expected[k][e]) <= tolerance))
                ck_abort_msg("%s[%zu]: %.10g, expected %.10g", a->name, e, actual, expected[k][e]);
            any = any || actual != 0;
        }
        ck_assert_msg(any, "%s is all 0", a->name);
        int64_t part[2];
        hs_corpus_array_read(stats, a, a->n_elements - 1, 1, part); /* a slice */
        ck_assert_mem_eq(part, a->is_float ? (void *)&floats[a->n_elements - 1] : &counts[a->n_elements - 1],
                         8);
        free(floats);
        free(counts);
        free(expected[k]);
    }
    hs_corpus_stats_destroy(stats);
}
END_TEST

/* Returns all values of an array; free them. */
static double *values_of(const hs_corpus_stats *stats, const hs_corpus_array *array)
{
    double *values = calloc(array->n_elements, sizeof *values);
    for (size_t k = 0; k < array->n_elements; k++) {
        int64_t count;
        hs_corpus_array_read(stats, array, k, 1, array->is_float ? (void *)&values[k] : (void *)&count);
        values[k] = array->is_float ? values[k] : (double)count;
    }
    return values;
}

/* Compares a map of cells with the sums of a full map's squares. */
static void assert_pooled(const hs_corpus_array *full, const double *positions, const hs_corpus_array *pooled,
                          const double *cells, size_t step)
{
    const size_t W = full->axes[full->n_axes - 1], n = pooled->axes[pooled->n_axes - 1];
    double *sums = calloc(pooled->n_elements, sizeof *sums);
    ck_assert_uint_eq(n, (W + step - 1) / step);
    for (size_t k = 0; k < full->n_elements; k++)
        sums[k / (W * W) * n * n + k / W % W / step * n + k % W / step] += positions[k];
    for (size_t k = 0; k < pooled->n_elements; k++)
        ck_assert_msg(fabs(sums[k] - cells[k]) <= 1e-9 * fmax(1, fabs(sums[k])), "%s[%zu]: %.12g, not %.12g",
                      full->name, k, cells[k], sums[k]);
    free(sums);
}

/* Without regard to batches and merging; all other arrays are the same. */
START_TEST(cells_are_sums_of_squares)
{
    const size_t steps[] = {2, 4, 7, 33, WINDOW};
    hs_corpus_stats *full = stats_of(0, n_texts, 8), *stats, *rest;
    hs_corpus_array of_full[HS_CORPUS_ARRAYS_MAX], of_cells[HS_CORPUS_ARRAYS_MAX];
    hs_corpus_options with = options;
    with.map_step = steps[_i];
    ck_assert_int_eq(hs_corpus_stats_create(&with, &stats, NULL), HS_OK);
    ck_assert_int_eq(hs_corpus_stats_create(&with, &rest, NULL), HS_OK);
    for (size_t k = 0; k < n_texts; k += 3)
        batch_add(k % 2 ? stats : rest, k, n_texts - k < 3 ? n_texts - k : 3);
    ck_assert_int_eq(hs_corpus_stats_merge(stats, rest, NULL), HS_OK);
    ck_assert_uint_eq(hs_corpus_first_tokens(stats), texts[0].n_tokens);
    const size_t n = hs_corpus_arrays(full, of_full);
    ck_assert_uint_eq(hs_corpus_arrays(stats, of_cells), n);
    for (size_t k = 0; k < n; k++) {
        double *positions = values_of(full, &of_full[k]), *cells = values_of(stats, &of_cells[k]);
        if (of_full[k].n_elements != of_cells[k].n_elements)
            assert_pooled(&of_full[k], positions, &of_cells[k], cells, with.map_step);
        else if (strcmp(of_full[k].name, "map_step") == 0)
            ck_assert_double_eq(cells[0], (double)with.map_step);
        else
            ck_assert_mem_eq(cells, positions, of_full[k].n_elements * sizeof *cells);
        free(positions);
        free(cells);
    }
    ck_assert_int_eq(hs_corpus_stats_merge(full, stats, NULL), HS_INVALID);
    hs_corpus_stats_destroy(full);
    hs_corpus_stats_destroy(stats);
    hs_corpus_stats_destroy(rest);
}
END_TEST

static double value_of(const hs_corpus_stats *stats, const char *name, size_t index)
{
    n_arrays = hs_corpus_arrays(stats, arrays);
    const hs_corpus_array *array = &arrays[array_find(name)];
    double value = 0;
    int64_t count = 0;
    hs_corpus_array_read(stats, array, index, 1, array->is_float ? (void *)&value : (void *)&count);
    return array->is_float ? value : (double)count;
}

/* Rows are counted in bytes, which hold 255 at most. */
START_TEST(long_texts_are_counted)
{
    enum { LONG = 600 };
    static float similarity[LONG * LONG], attention[LONG * LONG];
    static int32_t ids[LONG];
    static uint8_t special[LONG], roles[LONG];
    double distances[LONG] = {0}, degrees[LONG] = {0}, high = 0, most = 0;
    hs_corpus_options long_options = options;
    hs_corpus_stats *stats;
    long_options.tokens_max = LONG;
    long_options.vocab_size = LONG;
    long_options.n_layers = long_options.n_heads = 1;
    for (size_t i = 0; i < LONG; i++) {
        ids[i] = (int32_t)i;
        for (size_t j = i + 1; j < LONG; j++) {
            similarity[i * LONG + j] = j % 97 == i % 89 ? 0.1f : 1;
            if (similarity[i * LONG + j] < 1)
                continue;
            high++;
            distances[j - i]++;
            degrees[i]++;
            degrees[j]++;
        }
    }
    for (size_t i = 0; i < LONG; i++)
        most = fmax(most, degrees[i]);

    const hs_corpus_text text = {.n_tokens = LONG, .ids = ids, .special = special, .roles = roles};
    const hs_observed_head head = {.attention = attention, .similarity = similarity, .columns = attention};
    ck_assert_int_eq(hs_corpus_stats_create(&long_options, &stats, NULL), HS_OK);
    ck_assert_int_eq(hs_corpus_batch_begin(stats, &text, 1, NULL), HS_OK);
    hs_corpus_batch_head(stats, 0, 0, 0, &head, NULL);
    ck_assert_double_eq(value_of(stats, "high", MAIN), high);
    ck_assert_double_eq_tol(value_of(stats, "focal_share_sum", MAIN), most / high, 1e-10);
    for (size_t d = 0; d < LONG; d++)
        ck_assert_double_eq(value_of(stats, "distance", MAIN * LONG + d), distances[d]);
    hs_corpus_stats_destroy(stats);
}
END_TEST

/* Rows are wider than what is found of them at a time, and texts come alone. */
START_TEST(rows_of_very_long_texts_are_whole)
{
    enum { LONG = 4200 };
    float *map = calloc((size_t)LONG * LONG, sizeof *map), *columns = calloc(LONG, sizeof *columns);
    int32_t *ids = calloc(LONG, sizeof *ids);
    uint8_t *kinds = calloc(LONG, 1); /* none is special; all are first tokens */
    uint32_t seed = 1;
    double entropy = 0, confidence = 0, distance = 0, far = 0;
    hs_corpus_options long_options = options;
    hs_corpus_stats *stats;
    ck_assert(map && columns && ids && kinds);
    long_options.tokens_max = LONG;
    long_options.n_layers = long_options.n_heads = 1;
    long_options.map_step = 100;
    for (size_t i = 0; i < LONG; i++) {
        float *row = map + i * LONG, most = 0;
        for (size_t j = 0; j < LONG; j++) {
            row[j] = (float)(random_next(&seed) % 97) * (j == 4150 ? 0x1p-9f : 0x1p-18f);
            entropy -= row[j] > 0 ? (double)row[j] * log((double)row[j]) : 0;
            distance += (double)row[j] * fabs((double)i - (double)j);
            columns[j] += row[j];
            most = fmaxf(most, row[j]);
        }
        confidence += (double)most;
    }
    for (size_t i = 0; i < LONG; i++) /* N is above the main threshold in one column only */
        far += i + 4100 <= 4150 && map[i * LONG + 4150] >= 0.3f * 96 * 0x1p-9f;

    const hs_corpus_text text = {.n_tokens = LONG, .ids = ids, .special = kinds, .roles = kinds};
    const hs_observed_head head = {.attention = map, .similarity = map, .columns = columns};
    ck_assert_int_eq(hs_corpus_stats_create(&long_options, &stats, NULL), HS_OK);
    ck_assert_int_eq(hs_corpus_batch_begin(stats, (hs_corpus_text[2]){text, text}, 2, NULL), HS_INVALID);
    ck_assert_int_eq(hs_corpus_batch_begin(stats, &text, 1, NULL), HS_OK);
    hs_corpus_batch_head(stats, 0, 0, 0, &head, NULL);
    const hs_head_profile profile = hs_corpus_profile_read(stats, 0, 0);
    ck_assert_double_eq_tol((double)profile.entropy, entropy / LONG, 1e-4 * entropy / LONG);
    ck_assert_double_eq_tol((double)profile.confidence, confidence / LONG, 1e-5 * confidence / LONG);
    ck_assert_double_eq_tol((double)profile.mean_distance, distance / LONG, 1e-4 * distance / LONG);
    double found = 0;
    for (size_t d = 4100; d < LONG; d++)
        found += value_of(stats, "distance", MAIN * LONG + d);
    ck_assert_double_eq(found, far);
    hs_corpus_stats_destroy(stats);
    free(map);
    free(columns);
    free(ids);
    free(kinds);
}
END_TEST

/* Counts one text of T tokens whose head attends to K tokens of another, in cells of `step` positions of
 * `window`. Texts come alone if the window is above 2,048. */
static hs_corpus_stats *crossed_make(size_t window, size_t step, size_t T, size_t K, const float *attention)
{
    static int32_t ids[WINDOW];
    static uint8_t kinds[WINDOW];
    static float similarity[WINDOW * WINDOW];
    float columns[WINDOW] = {0};
    hs_corpus_options crossed = options;
    hs_corpus_stats *stats;
    crossed.n_layers = crossed.n_heads = 1;
    crossed.tokens_max = window;
    crossed.map_step = step;
    crossed.crosses = true;
    for (size_t i = 0; i < T * K; i++)
        columns[i % K] += attention[i];
    const hs_corpus_text keys = {.n_tokens = K, .ids = ids, .special = kinds, .roles = kinds},
                         text = {.n_tokens = T, .ids = ids, .special = kinds, .roles = kinds, .keys = &keys};
    const hs_observed_head head = {.attention = attention, .similarity = similarity, .columns = columns};
    ck_assert_int_eq(hs_corpus_stats_create(&crossed, &stats, NULL), HS_OK);
    ck_assert_int_eq(hs_corpus_batch_begin(stats, &text, 1, NULL), HS_OK);
    hs_corpus_batch_head(stats, 0, 0, 0, &head, NULL);
    return stats;
}

/* Attention over another text has T rows and K columns in cells, whether texts come alone or in batches. */
START_TEST(attention_over_another_text_is_in_cells)
{
    enum { T = 11, K = 23, STEP = 5 };
    static const size_t windows[] = {WINDOW, 3000}, lengths[][2] = {{T, K}, {K, T}};
    float attention[T * K];
    uint32_t seed = 7;
    for (size_t i = 0; i < T * K; i++)
        attention[i] = (float)(random_next(&seed) % 100) * 0x1p-10f;
    for (size_t c = 0; c < 4; c++) {
        const size_t rows = lengths[c / 2][0], keys = lengths[c / 2][1], window = windows[c % 2];
        hs_corpus_stats *stats = crossed_make(window, STEP, rows, keys, attention);
        const size_t n = (window + STEP - 1) / STEP;
        for (size_t y = 0; y < 6; y++)
            for (size_t x = 0; x < 6; x++) {
                double sum = 0, reached = 0;
                for (size_t i = y * STEP; i < (y + 1) * STEP && i < rows; i++)
                    for (size_t j = x * STEP; j < (x + 1) * STEP && j < keys; j++) {
                        sum += (double)attention[i * keys + j];
                        reached++;
                    }
                ck_assert_double_eq_tol(value_of(stats, "attention_sum", y * n + x), sum, 1e-6);
                ck_assert_double_eq(value_of(stats, "attention_reached", y * n + x), reached);
            }
        hs_corpus_array array;
        ck_assert(!hs_corpus_array_find(stats, "attention_sum_no_columns_no_diagonal", &array));
        ck_assert(!hs_corpus_array_find(stats, "profiles_mean_distance", &array));
        ck_assert(isnan(hs_corpus_profile_read(stats, 0, 0).self));
        hs_corpus_stats_destroy(stats);
    }
}
END_TEST

/* ---- to the bit ---- */

static void assert_same_state(hs_corpus_stats *a, hs_corpus_stats *b)
{
    size_t n_a, n_b;
    const void *bytes_a = hs_corpus_stats_save(a, &n_a), *bytes_b = hs_corpus_stats_save(b, &n_b);
    ck_assert_uint_eq(n_a, n_b);
    ck_assert(memcmp(bytes_a, bytes_b, n_a) == 0);
}

START_TEST(merging_and_batches_change_nothing)
{
    hs_corpus_stats *whole = stats_of(0, n_texts, 8);
    for (size_t batch = 1; batch <= HS_CORPUS_BATCH; batch += 2) {
        hs_corpus_stats *again = stats_of(0, n_texts, batch);
        assert_same_state(whole, again);
        hs_corpus_stats_destroy(again);
    }
    for (size_t cut = 0; cut <= n_texts; cut += 5) {
        hs_corpus_stats *head = stats_of(0, cut, 8), *tail = stats_of(cut, n_texts - cut, 8);
        ck_assert_int_eq(hs_corpus_stats_merge(tail, head, NULL), HS_OK); /* later texts first */
        assert_same_state(whole, tail);
        hs_corpus_stats_destroy(head);
        hs_corpus_stats_destroy(tail);
    }
    ck_assert_uint_eq(hs_corpus_stats_texts(whole), n_texts);
    hs_corpus_stats_destroy(whole);
}
END_TEST

START_TEST(other_options_are_not_merged)
{
    hs_corpus_stats *a = stats_of(0, 2, 1), *b;
    hs_corpus_options other = options;
    other.attention_threshold = 0.4f;
    ck_assert_int_eq(hs_corpus_stats_create(&other, &b, NULL), HS_OK);
    ck_assert_int_eq(hs_corpus_stats_merge(a, b, NULL), HS_INVALID);
    ck_assert_uint_eq(hs_corpus_stats_texts(a), 2);
    hs_corpus_stats_destroy(a);
    hs_corpus_stats_destroy(b);
}
END_TEST

START_TEST(what_was_saved_is_loaded)
{
    hs_corpus_stats *stats = stats_of(0, n_texts, 8), *loaded;
    size_t n_bytes;
    const void *bytes = hs_corpus_stats_save(stats, &n_bytes);
    ck_assert_int_eq(hs_corpus_stats_load(bytes, n_bytes, &loaded, NULL), HS_OK);
    assert_same_state(stats, loaded);
    const hs_corpus_options o = hs_corpus_stats_options(loaded);
    ck_assert_uint_eq(o.n_layers, N_LAYERS);
    ck_assert_uint_eq(o.layers[1], layers[1]);
    ck_assert_mem_eq(o.thresholds, thresholds, sizeof thresholds);
    batch_add(loaded, 0, 1); /* and goes on */
    hs_corpus_stats_destroy(stats);
    hs_corpus_stats_destroy(loaded);
}
END_TEST

/* A text at a time into statistics that count distances and masked tokens. */
static hs_corpus_stats *experiment_of(hs_corpus_distance distances, size_t first, size_t n)
{
    hs_corpus_options with = options;
    hs_corpus_stats *stats;
    with.distances = distances;
    with.masked = true;
    ck_assert_int_eq(hs_corpus_stats_create(&with, &stats, NULL), HS_OK);
    for (size_t k = first; k < first + n; k++) {
        batch_add(stats, k, 1);
        hs_corpus_masked_add(stats, 4, k % 3, 0.25 * (double)k);
    }
    return stats;
}

static double distance_expected(hs_corpus_distance kind, size_t a, size_t b)
{
    enum { N = N_LAYERS * N_HEADS };
    double sums[N * N] = {0}, entropies[N];
    const float *maps[N];
    for (size_t k = 0; k < n_texts; k++) {
        const size_t T = texts[k].n_tokens;
        void *scratch = malloc(hs_heads_hsic_bytes(N, T));
        for (size_t i = 0; i < N; i++)
            maps[i] = hs_capture_at(captures[k], kind == HS_CORPUS_JS ? HS_TAP_ATTENTION : HS_TAP_SIMILARITY,
                                    i / N_HEADS, i % N_HEADS);
        for (size_t row = 0; row < T && kind == HS_CORPUS_JS; row++)
            hs_heads_js_add(NULL, 1, maps, N, T, T, row, entropies, sums);
        if (kind == HS_CORPUS_CKA)
            hs_heads_hsic_add(maps, N, T, scratch, sums);
        free(scratch);
    }
    if (kind == HS_CORPUS_CKA)
        hs_heads_cka_distance(sums, N);
    return kind == HS_CORPUS_CKA ? sums[a * N + b] : sums[a < b ? a * N + b : b * N + a] / (double)n_texts;
}

START_TEST(distances_and_masks_are_sums)
{
    enum { N = N_LAYERS * N_HEADS };
    for (int kind = HS_CORPUS_CKA; kind <= HS_CORPUS_JS; kind++) {
        hs_corpus_stats *whole = experiment_of((hs_corpus_distance)kind, 0, n_texts);
        hs_corpus_stats *head = experiment_of((hs_corpus_distance)kind, 0, 5), *loaded;
        hs_corpus_stats *tail = experiment_of((hs_corpus_distance)kind, 5, n_texts - 5);
        ck_assert_int_eq(hs_corpus_stats_merge(tail, head, NULL), HS_OK);
        assert_same_state(whole, tail);
        size_t n_bytes;
        const void *bytes = hs_corpus_stats_save(whole, &n_bytes);
        ck_assert_int_eq(hs_corpus_stats_load(bytes, n_bytes, &loaded, NULL), HS_OK);
        assert_same_state(whole, loaded);
        for (size_t i = 0; i < N * N; i++)
            ck_assert_double_eq_tol(value_of(loaded, "head_distances", i),
                                    distance_expected((hs_corpus_distance)kind, i / N, i % N), 1e-6);
        ck_assert_double_eq(value_of(loaded, "masked_tokens", 0), 4.0 * (double)n_texts);
        ck_assert_double_eq(value_of(loaded, "masked_right", 0), 12); /* of 13 texts */
        ck_assert_double_eq(value_of(loaded, "masked_loss_sum", 0), 0.25 * 78);
        const hs_corpus_masked masked = hs_corpus_masked_read(loaded);
        ck_assert_double_eq_tol(masked.accuracy, 12.0 / 52, 1e-12);
        ck_assert_double_eq_tol(masked.loss, 0.25 * 78 / 52, 1e-12);
        ck_assert_int_eq(hs_corpus_batch_begin(head, texts, 2, NULL), HS_INVALID); /* not two at a time */
        hs_corpus_stats_destroy(whole);
        hs_corpus_stats_destroy(head);
        hs_corpus_stats_destroy(tail);
        hs_corpus_stats_destroy(loaded);
    }
}
END_TEST

START_TEST(earlier_versions_are_refused)
{
    hs_corpus_stats *stats = stats_of(0, 3, 8), *loaded = NULL;
    size_t n_bytes;
    hs_error err = {0};
    stats->header->version--;
    const void *bytes = hs_corpus_stats_save(stats, &n_bytes);
    ck_assert_int_eq(hs_corpus_stats_load(bytes, n_bytes, &loaded, &err), HS_INVALID);
    ck_assert_ptr_nonnull(strstr(err.text, "version"));
    hs_corpus_stats_destroy(stats);
}
END_TEST

START_TEST(damaged_bytes_are_refused)
{
    hs_corpus_stats *stats = stats_of(0, 3, 8), *loaded = NULL;
    size_t n_bytes;
    const void *saved = hs_corpus_stats_save(stats, &n_bytes);
    unsigned char *bytes = malloc(n_bytes);
    memcpy(bytes, saved, n_bytes);
    /* Every byte of the header, and some of the rest: a flip of any bit is noticed. */
    for (size_t k = 0; k < n_bytes; k += k < 800 ? 1 : 10007) {
        bytes[k] ^= (unsigned char)(1 << k % 8);
        hs_error err = {0};
        ck_assert_msg(hs_corpus_stats_load(bytes, n_bytes, &loaded, &err) == HS_INVALID, "byte %zu", k);
        ck_assert_int_eq(err.status, HS_INVALID);
        bytes[k] ^= (unsigned char)(1 << k % 8);
    }
    const size_t cuts[] = {0, 1, 8, 100, 799, n_bytes / 2, n_bytes - 8, n_bytes - 1};
    for (size_t k = 0; k < sizeof cuts / sizeof *cuts; k++)
        ck_assert_int_eq(hs_corpus_stats_load(bytes, cuts[k], &loaded, NULL), HS_INVALID);
    ck_assert_ptr_null(loaded);
    free(bytes);
    hs_corpus_stats_destroy(stats);
}
END_TEST

/* ---- refused options and states ---- */

START_TEST(options_out_of_range_are_refused)
{
    static const float falling[] = {0.3f, 0.2f}, wide[] = {0.5f, 1.5f}, none[] = {NAN, 0.5f};
    static const uint16_t twice[] = {3, 3};
    hs_corpus_options cases[13];
    for (size_t k = 0; k < 13; k++)
        cases[k] = options;
    cases[0].n_layers = 0;
    cases[1].n_heads = 0;
    cases[2].tokens_max = 1;
    cases[3].tokens_max = HS_CORPUS_WINDOW_MAX + 1;
    cases[4].vocab_size = 0;
    cases[5].threshold_main = N_THRESHOLDS;
    cases[6].n_parts = HS_CORPUS_PARTS_MAX + 1;
    cases[7].n_thresholds = 2, cases[7].thresholds = falling;
    cases[8].n_thresholds = 2, cases[8].thresholds = wide;
    cases[9].n_thresholds = 2, cases[9].thresholds = none;
    cases[10].layers = twice;
    cases[11].attention_threshold = 0;
    cases[12].distances = (hs_corpus_distance)(HS_CORPUS_JS + 1);
    for (size_t k = 0; k < 13; k++) {
        hs_corpus_stats *stats = NULL;
        ck_assert_msg(hs_corpus_stats_create(&cases[k], &stats, NULL) == HS_INVALID, "case %zu", k);
        ck_assert_ptr_null(stats);
    }
}
END_TEST

START_TEST(texts_that_do_not_fit_are_refused)
{
    hs_corpus_stats *stats = stats_of(0, 0, 1);
    int32_t ids[2][WINDOW];
    hs_corpus_text cases[4] = {texts[0], texts[0], texts[0], texts[0]};
    memcpy(ids[0], texts[0].ids, sizeof ids[0]);
    memcpy(ids[1], texts[0].ids, sizeof ids[1]);
    ids[0][5] = VOCAB;
    ids[1][5] = -1;
    cases[0].n_tokens = WINDOW + 1;
    cases[1].n_tokens = 0;
    cases[2].ids = ids[0];
    cases[3].ids = ids[1];
    for (size_t k = 0; k < 4; k++) {
        const hs_corpus_text pair[] = {texts[1], cases[k]}; /* the first is fine, and still not added */
        ck_assert_msg(hs_corpus_batch_begin(stats, pair, 2, NULL) == HS_INVALID, "case %zu", k);
        ck_assert_uint_eq(hs_corpus_stats_texts(stats), 0);
    }
    ck_assert_int_eq(hs_corpus_batch_begin(stats, texts, 0, NULL), HS_INVALID);
    ck_assert_int_eq(hs_corpus_batch_begin(stats, texts, HS_CORPUS_BATCH + 1, NULL), HS_INVALID);
    hs_corpus_stats_destroy(stats);
}
END_TEST

static void assert_same_figure(float actual, float correct)
{
    ck_assert_msg(isnan(correct) ? isnan(actual)
                                 : fabsf(actual - correct) <= 1e-5f * fmaxf(1, fabsf(correct)),
                  "%.9g != %.9g", (double)actual, (double)correct);
}

/* The figures of a batch are those of each head's summary. */
START_TEST(observations_are_those_of_summaries)
{
    hs_corpus_stats *stats = stats_of(0, 0, 1);
    for (size_t k = 0; k < n_texts; k++) {
        const size_t n = texts[k].n_tokens;
        int32_t first[WINDOW], sentences[WINDOW];
        uint8_t separators[WINDOW];
        hs_repeats_find(texts[k].ids, n, first);
        find_sentences(&texts[k], sentences);
        for (size_t i = 0; i < n; i++)
            separators[i] = texts[k].special[i] || texts[k].roles[i] < HS_ROLE_COMMA;
        const hs_text_facts facts = {n, first, sentences, separators, texts[k].special, NULL};
        ck_assert_int_eq(hs_corpus_batch_begin(stats, &texts[k], 1, NULL), HS_OK);
        for (size_t l = 0; l < N_LAYERS; l++)
            for (size_t h = 0; h < N_HEADS; h++) {
                const hs_observed_head head = head_of(k, l, h);
                hs_corpus_observation observation;
                hs_head_summary summary;
                hs_corpus_batch_head(stats, 0, l, h, &head, &observation);
                float lengths[WINDOW] = {0}; /* of other figures */
                hs_observed_head maps = head;
                maps.lengths = lengths;
                ck_assert_int_eq(
                    hs_head_summarize(&maps, &facts, thresholds[options.threshold_main], &summary, NULL),
                    HS_OK);
                ck_assert_uint_eq(observation.high_pairs, summary.high_pairs);
                assert_same_figure(observation.repeated_share, summary.repeated_share);
                assert_same_figure(observation.same_sentence_share, summary.same_sentence_share);
                assert_same_figure(observation.mean_distance, summary.mean_distance);
                assert_same_figure(observation.focal_share, summary.focal_share);
                assert_same_figure(observation.separator_attention, summary.separator_attention);
            }
    }
    hs_corpus_stats_destroy(stats);
}
END_TEST

/* Compares the strata of a head with a loop over its pairs. */
static void assert_strata(const naive *x, const float *s, const hs_corpus_strata *actual)
{
    hs_corpus_strata correct = {0};
    float m = -INFINITY;
    for (size_t i = 0; i < x->n; i++)
        for (size_t j = i + 1; j < x->n; j++)
            m = fmaxf(m, s[i * x->n + j]);
    for (size_t i = 0; i < x->n; i++)
        for (size_t j = i + 1; j < x->n; j++) {
            const double value = m > 0 ? (double)s[i * x->n + j] / (double)m : 0;
            const float scaled = s[i * x->n + j] * (m > 0 ? 1 / m : 0) * 100;
            const bool signal = is_repeated(x, i, j) || is_same_sentence(x, i, j);
            const size_t stratum = (size_t)fmin(ceil(log2((double)(j - i))), HS_CORPUS_STRATA - 1);
            if (!is_ordinary(x, i, j))
                continue;
            correct.bins[signal][stratum][scaled < 0 ? 0 : scaled < 99 ? 1 + (size_t)scaled : 100]++;
            correct.sums[signal][stratum] += value;
            correct.squares[signal][stratum] += value * value;
        }
    ck_assert_mem_eq(actual->bins, correct.bins, sizeof correct.bins);
    for (size_t kind = 0; kind < 2; kind++)
        for (size_t k = 0; k < HS_CORPUS_STRATA; k++) {
            ck_assert_double_eq_tol(actual->sums[kind][k], correct.sums[kind][k], 1e-4);
            ck_assert_double_eq_tol(actual->squares[kind][k], correct.squares[kind][k], 1e-4);
        }
}

START_TEST(strata_are_those_of_naive_loops)
{
    hs_corpus_stats *stats = stats_of(0, 0, 1);
    bool is_far = false;
    for (size_t k = 0; k < n_texts; k++) {
        naive x = {.text = &texts[k], .n = texts[k].n_tokens};
        find_sentences(x.text, x.sentences);
        ck_assert_int_eq(hs_corpus_batch_begin(stats, &texts[k], 1, NULL), HS_OK);
        for (size_t l = 0; l < N_LAYERS; l++)
            for (size_t h = 0; h < N_HEADS; h++) {
                const hs_observed_head head = head_of(k, l, h);
                hs_corpus_strata strata;
                hs_corpus_batch_head(stats, 0, l, h, &head, NULL);
                hs_corpus_batch_strata(stats, 0, head.similarity, &strata);
                assert_strata(&x, head.similarity, &strata);
            }
        is_far = is_far || x.n > ((size_t)1 << (HS_CORPUS_STRATA - 2)) + 1;
    }
    ck_assert(is_far);
    hs_corpus_stats_destroy(stats);
}
END_TEST

START_TEST(broken_maps_are_survived)
{
    const float values[] = {NAN, INFINITY, -INFINITY, -1e30f, 3e38f, 1e-42f};
    hs_corpus_stats *stats = stats_of(0, 2, 1);
    const hs_capture *capture = captures[0];
    const size_t n = N_LAYERS * N_HEADS * WINDOW * WINDOW;
    for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
        for (size_t k = 0; k < n; k += 1 + k % 3)
            capture->arrays[HS_TAP_SIMILARITY][k] = capture->arrays[HS_TAP_ATTENTION][k] = values[v];
        capture->arrays[HS_TAP_COLUMNS][v] = values[v];
        batch_add(stats, 0, 1);
    }
    n_arrays = hs_corpus_arrays(stats, arrays);
    for (size_t k = 0; k < n_arrays; k++) {
        double *values_read = calloc(arrays[k].n_elements, sizeof *values_read);
        hs_corpus_array_read(stats, &arrays[k], 0, arrays[k].n_elements, values_read);
        for (size_t e = 0; arrays[k].is_float && e < arrays[k].n_elements; e++)
            ck_assert_msg(isfinite(values_read[e]), "%s", arrays[k].name);
        free(values_read);
    }
    hs_corpus_stats_destroy(stats);
}
END_TEST

START_TEST(refused_allocations_are_survived)
{
    hs_corpus_stats *saved = stats_of(0, 1, 1);
    size_t n_bytes;
    const void *bytes = hs_corpus_stats_save(saved, &n_bytes);
    const size_t live = chaos_live();
    bool refused = true;
    for (size_t nth = 0; refused; nth++) {
        ck_assert_uint_lt(nth, 100);
        hs_corpus_stats *stats = NULL;
        chaos_refuse(nth);
        hs_status st = _i ? hs_corpus_stats_load(bytes, n_bytes, &stats, NULL)
                          : hs_corpus_stats_create(&options, &stats, NULL);
        refused = chaos_stop();
        ck_assert_int_eq(st, refused ? HS_NO_MEMORY : HS_OK);
        ck_assert_int_eq(stats != NULL, st == HS_OK);
        hs_corpus_stats_destroy(stats);
        ck_assert_uint_eq(chaos_live(), live);
    }
    hs_corpus_stats_destroy(saved);
}
END_TEST

/* ---- figures ---- */

static void assert_near(double actual, double correct)
{
    ck_assert_msg(fabs(actual - correct) <= 1e-9 * fmax(1, fabs(correct)), "%.12g != %.12g", actual, correct);
}

/* Adding may take a thousand times the memory of the sums: reports and merges do without. */
START_TEST(a_loaded_state_takes_more_memory_with_its_first_text)
{
    enum { BLOCKS = 2 }; /* the object and its sums */
    hs_corpus_stats *saved = stats_of(0, 1, 1), *loaded;
    size_t n_bytes;
    const void *bytes = hs_corpus_stats_save(saved, &n_bytes);
    const size_t live = chaos_live();
    bool refused = true;
    ck_assert_int_eq(hs_corpus_stats_load(bytes, n_bytes, &loaded, NULL), HS_OK);
    ck_assert_uint_eq(chaos_live(), live + BLOCKS);
    ck_assert_int_eq(hs_corpus_stats_merge(saved, loaded, NULL), HS_OK);
    ck_assert_uint_eq(chaos_live(), live + BLOCKS);
    hs_corpus_stats_destroy(saved);
    saved = stats_of(0, 2, 1);
    for (size_t nth = 0; refused; nth++) {
        hs_error err = {0};
        chaos_refuse(nth);
        const hs_status st = hs_corpus_batch_begin(loaded, texts + 1, 1, &err);
        refused = chaos_stop();
        ck_assert_int_eq(st, refused ? HS_NO_MEMORY : HS_OK);
        ck_assert(!refused || strstr(err.text, "to add texts"));
        if (refused)
            ck_assert_uint_eq(hs_corpus_stats_texts(loaded), 1);
    }
    heads_add(loaded, 1, 1);
    assert_same_state(loaded, saved);
    hs_corpus_stats_destroy(loaded);
    hs_corpus_stats_destroy(saved);
}
END_TEST

/* Adding long texts takes far more memory than the sums. */
START_TEST(a_lack_of_memory_is_measured_whole)
{
    hs_corpus_options long_options = options;
    hs_corpus_stats *stats;
    hs_corpus_size size;
    hs_error err = {0};
    char said[64];
    long_options.tokens_max = HS_CORPUS_WINDOW_MAX;
    long_options.map_step = 120;
    ck_assert_int_eq(hs_corpus_stats_measure(&long_options, &size, NULL), HS_OK);
    ck_assert_uint_gt(size.memory_bytes, 100 * size.saved_bytes);
    snprintf(said, sizeof said, "need %llu MB", (unsigned long long)(size.memory_bytes >> 20));
    chaos_refuse(0);
    ck_assert_int_eq(hs_corpus_stats_create(&long_options, &stats, &err), HS_NO_MEMORY);
    ck_assert(chaos_stop());
    ck_assert_msg(strstr(err.text, said), "%s, not: %s", said, err.text);
}
END_TEST

START_TEST(figures_follow_from_the_arrays)
{
    hs_corpus_stats *stats = stats_of(0, n_texts, 8);
    const size_t t = 1, l = 1, h = 2, cell = (t * N_LAYERS + l) * N_HEADS + h,
                 n_cells = N_THRESHOLDS * N_LAYERS * N_HEADS;
    const hs_corpus_head head = hs_corpus_head_read(stats, t, l, h);
    const hs_corpus_chance chance = hs_corpus_chance_read(stats);
    const double high = value_of(stats, "high", cell);
    assert_near((double)head.high, high);
    assert_near(head.repeated_share.value, value_of(stats, "repeated", cell) / high);
    assert_near(chance.repeated, value_of(stats, "all_repeated", 0) / value_of(stats, "all_pairs", 0));
    assert_near(head.repeated_lift, head.repeated_share.value / chance.repeated);
    assert_near(head.focal_share.value,
                value_of(stats, "focal_share_sum", cell) / (double)head.texts_with_high);

    double shares[N_PARTS], mean = 0, squares = 0;
    for (size_t part = 0; part < N_PARTS; part++) {
        shares[part] = value_of(stats, "part_same_sentence", part * n_cells + cell) /
                       value_of(stats, "part_high_ordinary", part * n_cells + cell);
        mean += shares[part] / N_PARTS;
    }
    for (size_t part = 0; part < N_PARTS; part++)
        squares += (shares[part] - mean) * (shares[part] - mean);
    assert_near(head.same_sentence_share.spread, sqrt(squares / (N_PARTS - 1)));

    double sum = 0, below = 0, median = -1;
    for (size_t d = 0; d < WINDOW; d++) {
        const double n = value_of(stats, "distance", cell * WINDOW + d);
        sum += (double)d * n;
        below += n;
        if (median < 0 && below > (high - 1) / 2)
            median = (double)d;
    }
    assert_near(head.mean_distance.value, sum / high);
    ck_assert(fabs(head.median_distance - median) <= 0.5);

    const size_t map = l * N_HEADS + h;
    double m[2][3], area = 0, noise_below = 0;
    for (size_t k = 0; k < 3; k++) {
        m[0][k] = value_of(stats, "noise_moments", map * 3 + k);
        m[1][k] = value_of(stats, "signal_moments", map * 3 + k);
    }
    const double mean_n = m[0][1] / m[0][0], mean_s = m[1][1] / m[1][0];
    const double var = m[0][2] / m[0][0] - mean_n * mean_n + m[1][2] / m[1][0] - mean_s * mean_s;
    assert_near(head.dprime, (mean_s - mean_n) / sqrt(var / 2));
    for (size_t bin = 0; bin < 101; bin++) {
        const double n = value_of(stats, "noise_hist", map * 101 + bin);
        area += value_of(stats, "signal_hist", map * 101 + bin) * (noise_below + n / 2);
        noise_below += n;
    }
    assert_near(head.auc, area / (m[1][0] * m[0][0]));
    hs_corpus_stats_destroy(stats);
}
END_TEST

START_TEST(layer_figures_pool_the_heads)
{
    hs_corpus_stats *stats = stats_of(0, n_texts, 8);
    const size_t t = 1, l = 1;
    const hs_corpus_layer layer = hs_corpus_layer_read(stats, t, l);
    double high = 0, repeated = 0, distances = 0, unique = 0, mass = 0, masses[5] = {0};
    for (size_t h = 0; h < N_HEADS; h++) {
        const hs_corpus_head head = hs_corpus_head_read(stats, t, l, h);
        high += (double)head.high;
        repeated += value_of(stats, "repeated", (t * N_LAYERS + l) * N_HEADS + h);
        distances += head.high ? head.mean_distance.value * (double)head.high : 0;
        for (size_t class = 0; class < 5; class ++)
            masses[class] += value_of(stats, "attention_mass", (l * N_HEADS + h) * 5 + class);
    }
    for (size_t class = 0; class < 5; class ++)
        mass += masses[class];
    for (size_t k = 0; k <= N_HEADS; k++)
        unique += (double)k * value_of(stats, "unique_focal", (t * N_LAYERS + l) * (N_HEADS + 1) + k);
    assert_near((double)layer.high, high);
    assert_near(layer.repeated_share, repeated / high);
    assert_near(layer.mean_distance, distances / high);
    assert_near(layer.unique_focal, unique / (double)n_texts);
    assert_near(layer.precision,
                value_of(stats, "segmentation", l * 3) / value_of(stats, "segmentation", l * 3 + 1));
    assert_near(layer.recall,
                value_of(stats, "segmentation", l * 3) / value_of(stats, "segmentation", l * 3 + 2));
    assert_near(layer.f1, 2 / (1 / layer.precision + 1 / layer.recall));
    ck_assert(fabs(mass / N_HEADS - value_of(stats, "tokens", 0)) < 1e-3); /* rows sum to 1 */
    assert_near(layer.mass_cls, masses[0] / mass);
    assert_near(layer.mass_sep, masses[1] / mass);
    assert_near(layer.mass_end, masses[2] / mass);
    assert_near(layer.mass_comma, masses[3] / mass);
    assert_near(layer.mass_rest, masses[4] / mass);
    hs_corpus_stats_destroy(stats);
}
END_TEST

START_TEST(nothing_gives_no_figures)
{
    hs_corpus_stats *stats = stats_of(0, 0, 1);
    const hs_corpus_head head = hs_corpus_head_read(stats, 0, 0, 0);
    const hs_corpus_layer layer = hs_corpus_layer_read(stats, 0, 0);
    ck_assert(isnan(head.repeated_share.value) && isnan(head.repeated_share.spread) &&
              isnan(head.median_distance));
    ck_assert(isnan(head.dprime) && isnan(head.auc) && isnan(head.focal_share.value));
    ck_assert(isnan(layer.mean_distance) && isnan(layer.f1) && isnan(layer.mass_cls) &&
              isnan(layer.unique_focal));
    ck_assert(isnan(hs_corpus_chance_read(stats).repeated));
    const hs_corpus_pairs halves = {.n = 4, .sum = 2, .squares = 1},
                          quarters = {.n = 4, .sum = 1, .squares = 0.25};
    ck_assert(isnan(hs_corpus_dprime(&halves, &quarters))); /* no variance */
    hs_corpus_stats_destroy(stats);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("corpus");
    TCase *tc = tcase_create("corpus");
    tcase_add_checked_fixture(tc, setup, teardown); /* some tests break what they are given */
    tcase_add_loop_test(tc, every_array_is_that_of_naive_loops, 8, 9);
    tcase_add_loop_test(tc, cells_are_sums_of_squares, 0, 5);
    tcase_add_test(tc, every_array_is_described_by_its_row);
    tcase_add_test(tc, long_texts_are_counted);
    tcase_add_test(tc, rows_of_very_long_texts_are_whole);
    tcase_add_test(tc, attention_over_another_text_is_in_cells);
    tcase_add_test(tc, a_loaded_state_takes_more_memory_with_its_first_text);
    tcase_add_test(tc, a_lack_of_memory_is_measured_whole);
    tcase_add_test(tc, merging_and_batches_change_nothing);
    tcase_add_test(tc, other_options_are_not_merged);
    tcase_add_test(tc, what_was_saved_is_loaded);
    tcase_add_test(tc, distances_and_masks_are_sums);
    tcase_add_test(tc, earlier_versions_are_refused);
    tcase_add_test(tc, damaged_bytes_are_refused);
    tcase_add_test(tc, options_out_of_range_are_refused);
    tcase_add_test(tc, texts_that_do_not_fit_are_refused);
    tcase_add_test(tc, observations_are_those_of_summaries);
    tcase_add_test(tc, strata_are_those_of_naive_loops);
    tcase_add_test(tc, broken_maps_are_survived);
    tcase_add_loop_test(tc, refused_allocations_are_survived, 0, 2);
    tcase_add_test(tc, figures_follow_from_the_arrays);
    tcase_add_test(tc, layer_figures_pool_the_heads);
    tcase_add_test(tc, nothing_gives_no_figures);
    suite_add_tcase(suite, tc);
    return tests_run(suite);
}
