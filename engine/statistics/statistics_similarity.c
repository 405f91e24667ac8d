/* statistics_similarity.c - adds similarities and profiles of a head's maps to the sums. */
#include "engine/statistics/statistics_add.h"

#include "engine/analysis/analysis.h"
#include "engine/analysis/analysis_maps.h"
#include "model/base/clones.h"

#include <float.h>
#include <string.h>

/* ---- profiles ----
 *
 * Profiles of heads (hs_head_profile) over texts: each text's figures are found from
 * its map and column sums, and added. The map is read once, in vectors; what falls on kinds of tokens is in
 * the columns. */

/* Sums over rows. */
typedef struct row_sums {
    double entropy, confidence, distance;
} row_sums;

enum { ROW_MAX = HS_CORPUS_WINDOW_MAX + HS__LANES };
enum { TERMS = 4096 }; /* columns at a time: whole vectors */

/* Half of HS__LANES floats: gcc 12 splits wider vectors into single elements where the CPU lacks them. */
typedef float half __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t half_ints __attribute__((vector_size(32), aligned(4), may_alias));

/* Running sums of sixteen columns. */
typedef struct row_lanes {
    half entropy[2], distance[2];
} row_lanes;

/* A row padded with 0 to whole vectors: A, -A ln A and A |i - j|. */
typedef struct row_terms {
    float attention[TERMS], entropy[TERMS], distance[TERMS];
} row_terms;

/* Computes the terms of n columns of a row, the first of which is `behind` columns after the diagonal.
 * Logarithms are within 2e-6, exactly 0 for 1, and finite for 0. Writes x = 2^e m with m in [sqrt(1/2),
 * sqrt(2)) and evaluates a polynomial of m - 1. The division in hs__log would cost more than the rest of the
 * work on an element. */
static inline __attribute__((always_inline)) void terms_find(const float *row, int32_t behind, size_t n,
                                                             row_terms *restrict ret)
{
    const size_t end = hs__lanes_ceil(n);
    memcpy(ret->attention, row, n * sizeof *row);
    for (size_t j = n; j < end; j++)
        ret->attention[j] = 0;
    for (size_t j = 0; j < end; j++) {
        const float a = ret->attention[j];
        uint32_t bits;
        memcpy(&bits, &a, sizeof bits);
        const int32_t shifted = (int32_t)(bits - 0x3f3504f3), rest = (shifted & 0x7fffff) + 0x3f3504f3;
        float m;
        memcpy(&m, &rest, sizeof m);
        const float t = m - 1;
        const float series =
            1.0000128f +
            t * (-0.49985051f + t * (0.33225876f + t * (-0.25472483f + t * (0.22330035f - t * 0.1431972f))));
        ret->entropy[j] = a * ((float)(shifted >> 23) * 0.693147181f + t * series);
    }
    for (size_t j = 0; j < end; j++)
        ret->distance[j] = ret->attention[j] * fabsf((float)(int32_t)j + (float)behind);
}

/* Adds a row's terms; returns its maximum. */
static inline __attribute__((always_inline)) float terms_add(const row_terms *terms, size_t n,
                                                             row_lanes *sums)
{
    half most[2] = {{0}};
    for (size_t j = 0; j < n; j += HS__LANES)
        for (size_t k = 0; k < 2; k++) {
            const size_t at = j + k * HS__LANES / 2;
            const half a = *(const half *)(terms->attention + at);
            const half_ints more = a > most[k];
            most[k] = (half)(((half_ints)a & more) | ((half_ints)most[k] & ~more));
            sums->entropy[k] -= *(const half *)(terms->entropy + at);
            sums->distance[k] += *(const half *)(terms->distance + at);
        }
    float maximum = 0;
    for (size_t k = 0; k < HS__LANES; k++)
        maximum = most[k / 8][k % 8] > maximum ? most[k / 8][k % 8] : maximum;
    return maximum;
}

/* Sums in floats run over a few rows. */
static HS_CLONES void map_sum(const float *attention, size_t n_rows, size_t n, row_sums *ret_sums)
{
    enum { ROWS = 16 };
    row_terms terms;
    *ret_sums = (row_sums){0};
    for (size_t first = 0; first < n_rows; first += ROWS) {
        row_lanes sums = {.entropy = {{0}}};
        for (size_t i = first; i < first + ROWS && i < n_rows; i++) {
            float maximum = 0;
            for (size_t j = 0; j < n; j += TERMS) {
                const size_t width = hs_min(TERMS, n - j);
                terms_find(attention + i * n + j, (int32_t)j - (int32_t)i, width, &terms);
                const float most = terms_add(&terms, width, &sums);
                maximum = most > maximum ? most : maximum;
            }
            ret_sums->confidence += (double)maximum;
        }
        for (size_t k = 0; k < HS__LANES; k++) {
            ret_sums->entropy += (double)sums.entropy[k / 8][k % 8];
            ret_sums->distance += (double)sums.distance[k / 8][k % 8];
        }
    }
}

/* Attention between tokens of one id. */
static double repeated_sum(const float *attention, const hs__stats_facts *facts)
{
    const size_t T = facts->n_tokens;
    double sum = 0;
    for (size_t i = 0; i < T; i++)
        for (size_t j = (size_t)facts->next[i]; j < T; j = (size_t)facts->next[j])
            sum += (double)attention[i * T + j] + (double)attention[j * T + i];
    return sum;
}

/* Columns j .. j + n - 1 of n <= HS__LANES, over the queries of their sentence, first .. end - 1. */
static inline __attribute__((always_inline)) double
strip_sum(const float *attention, const hs__stats_facts *facts, size_t first, size_t end, size_t j, size_t n)
{
    const size_t T = facts->n_tokens;
    const size_t from = j + HS__LANES <= T ? j : T - HS__LANES; /* reads end with the last row */
    half columns[2] = {{0}};
    for (size_t i = first; i < end; i++)
        for (size_t k = 0; k < 2 && !facts->special[i]; k++)
            columns[k] += *(const half *)(attention + i * T + from + k * HS__LANES / 2);
    double sum = 0;
    for (size_t k = j; k < j + n; k++)
        sum += facts->special[k] ? 0 : (double)columns[(k - from) / 8][(k - from) % 8];
    return sum;
}

/* The same, of a map that is narrower than vectors. */
static double narrow_sum(const float *attention, const hs__stats_facts *facts, size_t first, size_t end)
{
    double sum = 0;
    for (size_t i = first; i < end; i++)
        for (size_t j = first; j < end; j++)
            sum += facts->special[i] || facts->special[j] ? 0 : (double)attention[i * facts->n_tokens + j];
    return sum;
}

/* Attention that stays within sentences, which are spans; special tokens neither give nor get. */
static HS_CLONES double sentences_sum(const float *attention, const hs__stats_facts *facts)
{
    const size_t T = facts->n_tokens;
    double sum = 0;
    for (size_t first = 0, end; first < T; first = end) {
        end = (size_t)facts->sentence_ends[first];
        if (T < HS__LANES)
            sum += narrow_sum(attention, facts, first, end);
        for (size_t j = first; T >= HS__LANES && j < end; j += HS__LANES)
            sum += strip_sum(attention, facts, first, end, j, end - j < HS__LANES ? end - j : HS__LANES);
    }
    return sum;
}

static double columns_sum(const float *columns, const hs__stats_facts *facts, hs_role role)
{
    double sum = 0;
    for (size_t j = 0; j < facts->n_tokens; j++)
        sum += facts->roles[j] == role ? (double)columns[j] : 0;
    return sum;
}

/* Sums A_ij for each j - i from -HS_PROFILE_REACH to HS_PROFILE_REACH. */
static HS_CLONES void diagonals_sum(const float *attention, size_t n, double sums[2 * HS_PROFILE_REACH + 1])
{
    memset(sums, 0, (2 * HS_PROFILE_REACH + 1) * sizeof *sums);
    for (size_t i = 0; i < n; i++) {
        const float *row = attention + i * n;
        const size_t first = i < HS_PROFILE_REACH ? HS_PROFILE_REACH - i : 0;
        const size_t end = hs_min(2 * HS_PROFILE_REACH + 1, n - i + HS_PROFILE_REACH);
        if (first == 0 && end == 2 * HS_PROFILE_REACH + 1)
            for (size_t k = 0; k < 2 * HS_PROFILE_REACH + 1; k++)
                sums[k] += (double)row[i + k - HS_PROFILE_REACH];
        else
            for (size_t k = first; k < end; k++)
                sums[k] += (double)row[i + k - HS_PROFILE_REACH];
    }
}

/* Finds the figures of a map whose rows and columns are tokens of one text. */
static void own_text_find(const float *attention, const hs__stats_facts *facts, double *ret_figures)
{
    const size_t T = facts->n_tokens;
    const double n = (double)T;
    double *offsets = ret_figures + HS__PROFILE_OFFSETS;
    diagonals_sum(attention, T, offsets);
    for (size_t k = 0; k <= 2 * HS_PROFILE_REACH; k++) {
        const size_t away = k < HS_PROFILE_REACH ? HS_PROFILE_REACH - k : k - HS_PROFILE_REACH;
        offsets[k] = away < T ? offsets[k] / (double)(T - away) : 0;
    }
    const double *centre = ret_figures + HS__PROFILE_OFFSETS + HS_PROFILE_REACH;
    ret_figures[HS__PROFILE_SELF] = centre[0];
    ret_figures[HS__PROFILE_PREVIOUS] = centre[-1] * (n - 1) / n;
    ret_figures[HS__PROFILE_NEXT] = centre[1] * (n - 1) / n;
    ret_figures[HS__PROFILE_SAME_TOKEN] = repeated_sum(attention, facts) / n;
    ret_figures[HS__PROFILE_SAME_SENTENCE] = sentences_sum(attention, facts) / n;
}

void hs__stats_profile_find(const hs_observed_head *head, const hs__stats_facts *facts,
                            const hs__stats_facts *keys, double ret_figures[HS__PROFILE_N])
{
    const size_t T = facts->n_tokens, K = keys->n_tokens;
    const double n = (double)T;
    row_sums rows, first;
    memset(ret_figures, 0, HS__PROFILE_N * sizeof *ret_figures);
    if (keys == facts)
        own_text_find(head->attention, facts, ret_figures);
    map_sum(head->attention, T, K, &rows);
    map_sum(head->attention, 1, K, &first);
    ret_figures[HS__PROFILE_FIRST] = columns_sum(head->columns, keys, HS_ROLE_FIRST) / n;
    ret_figures[HS__PROFILE_SEPARATOR] = columns_sum(head->columns, keys, HS_ROLE_SEPARATOR) / n;
    ret_figures[HS__PROFILE_PUNCTUATION] = (columns_sum(head->columns, keys, HS_ROLE_SENTENCE_END) +
                                            columns_sum(head->columns, keys, HS_ROLE_COMMA)) /
                                           n;
    ret_figures[HS__PROFILE_ENTROPY] = rows.entropy / n;
    ret_figures[HS__PROFILE_ENTROPY_FIRST] = first.entropy;
    ret_figures[HS__PROFILE_CONFIDENCE] = rows.confidence / n;
    ret_figures[HS__PROFILE_MEAN_DISTANCE] = keys == facts ? rows.distance / n : 0;
}

/* ---- similarity maps ----
 *
 * One similarity map read for the corpus statistics.
 *
 * The map is read once. This computes the sums and writes three maps of bytes. The first has the number of
 * thresholds that each N reaches. The second has the same with each row moved to begin at its diagonal. The
 * third has the histogram bin. The counts of each threshold are sums over columns of the first two. A column
 * of the first, which is symmetric, counts a token's pairs. A column of the second counts the pairs of a
 * distance.
 *
 * A row passes through simple loops, one after the other, in the nearest cache. The compiler vectorises them
 * for any width of registers. */

/* gcc's vectors, whatever the width of the CPU's registers. Unaligned in memory. */
typedef uint8_t sixteen __attribute__((vector_size(16), aligned(1), may_alias));

/* Four elements: every CPU has vectors of 16 bytes. gcc splits comparisons of wider ones into elements. */
typedef float four __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t four_ints __attribute__((vector_size(16), aligned(4), may_alias));

/* Returns the even bytes of two vectors. SSE2 packs two vectors in three steps, but gcc narrows a single one
 * element by element. */
static inline __attribute__((always_inline)) sixteen even_bytes(sixteen a, sixteen b)
{
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
}

/* Returns the lowest bytes of sixteen integers. */
static inline __attribute__((always_inline)) sixteen low_bytes(const four_ints values[4])
{
    return even_bytes(even_bytes((sixteen)values[0], (sixteen)values[1]),
                      even_bytes((sixteen)values[2], (sixteen)values[3]));
}

/* Bytes that are counted at once. */
#if defined(__x86_64__)
enum { PIECE = 32 }; /* AVX2's */
#else
enum { PIECE = 16 };
#endif
typedef uint8_t piece __attribute__((vector_size(PIECE), aligned(1), may_alias));

typedef uint8_t bytes __attribute__((vector_size(64), aligned(1), may_alias));

typedef double doubles __attribute__((vector_size(64), aligned(8), may_alias));

typedef int64_t longs __attribute__((vector_size(64), aligned(8), may_alias));

enum {
    ROWS_MAX = 255, /* the largest count in a byte */
    CHUNK = sizeof(bytes),
};

/* Four running sums: in floats over a few rows, in doubles over the map. */
typedef struct moment_floats {
    half all[2], all_squares[2], signal[2], signal_squares[2];
} moment_floats;

typedef struct moment_sums {
    doubles all, all_squares, signal, signal_squares;
} moment_sums;

enum { FLOATS_MAX = 32 /* vectors that a sum in floats takes before it is added to the doubles */ };

static double lanes_sum(const doubles *sums)
{
    double sum = 0;
    for (size_t k = 0; k < 8; k++)
        sum += (*sums)[k];
    return sum;
}

static inline void halves_add(doubles *sums, const half values[2])
{
    *sums += __builtin_convertvector(values[0], doubles);
    *sums += __builtin_convertvector(values[1], doubles);
}

static inline __attribute__((always_inline)) void moments_flush(moment_floats *floats, moment_sums *sums)
{
    halves_add(&sums->all, floats->all);
    halves_add(&sums->all_squares, floats->all_squares);
    halves_add(&sums->signal, floats->signal);
    halves_add(&sums->signal_squares, floats->signal_squares);
    *floats = (moment_floats){0};
}

/* The places to which row i of a map is written. */
typedef struct row_places {
    uint8_t *levels, *diagonal, *bins;
    float *similarity_sum, *normalized_sum;
} row_places;

/* The limits and thresholds of a row. */
typedef struct row_limits {
    size_t diagonal, sentence_end, end; /* end: of the last vector */
    float reciprocal;
    const float *cuts;
    size_t n_thresholds;
} row_limits;

/* A row of S and of N, 0 where j <= i and past the end. */
typedef struct row_values {
    float s[ROW_MAX], n[ROW_MAX];
} row_values;

/* Reads a row from column `from` on, and adds it to the sums, which begin with the first head. */
static inline __attribute__((always_inline)) void values_read(const float *restrict row, size_t from,
                                                              size_t n_tokens, const row_limits *limits,
                                                              bool first, float *restrict s,
                                                              float *restrict n, const row_places *places)
{
    const float reciprocal = limits->reciprocal;
    for (size_t j = from; j <= limits->diagonal; j++)
        s[j] = 0;
    memcpy(s + limits->diagonal + 1, row + limits->diagonal + 1,
           (n_tokens - limits->diagonal - 1) * sizeof *row);
    for (size_t j = n_tokens; j < limits->end; j++)
        s[j] = 0;
    for (size_t j = from; j < limits->end; j += HS__LANES / 2) {
        const half similarity = *(const half *)(s + j), normalized = similarity * reciprocal;
        half *similarity_sum = (half *)(places->similarity_sum + j),
             *normalized_sum = (half *)(places->normalized_sum + j);
        *(half *)(n + j) = normalized;
        if (first) {
            *similarity_sum = similarity;
            *normalized_sum = normalized;
        } else {
            *similarity_sum += similarity;
            *normalized_sum += normalized;
        }
    }
}

/* Counts the thresholds that each element reaches. */
static inline __attribute__((always_inline)) void
levels_count(const float *restrict s, size_t from, const row_limits *limits, uint8_t *restrict levels)
{
    for (size_t j = from; j < limits->end; j += HS__LANES) {
        const four *values = (const four *)(s + j);
        four_ints counts[4] = {{0}};
        for (size_t t = 0; t < limits->n_thresholds; t++)
            for (size_t k = 0; k < 4; k++)
                counts[k] -= values[k] >= limits->cuts[t];
        *(sixteen *)(levels + j) = low_bytes(counts);
    }
}

/* Finds the bin of each N: 0 below 0, but not of -0. */
static inline __attribute__((always_inline)) void bins_find(const float *restrict n, size_t from, size_t end,
                                                            uint8_t *restrict bins)
{
    const four top = (four){0} + (HS_CORPUS_BINS - 1);
    for (size_t j = from; j < end; j += HS__LANES) {
        four_ints found[4];
        for (size_t k = 0; k < 4; k++) {
            const four values = *(const four *)(n + j + 4 * k), scaled = values * HS_CORPUS_BINS;
            const four_ints below = scaled < top;
            const four clipped = (four)(((four_ints)scaled & below) | ((four_ints)top & ~below));
            found[k] = (__builtin_convertvector(clipped, four_ints) + 1) & (values >= 0);
        }
        *(sixteen *)(bins + j) = low_bytes(found);
    }
}

/* Copies the levels, and marks the pairs of the row's sentence. */
static inline __attribute__((always_inline)) void signal_mark(const uint8_t *restrict levels, size_t from,
                                                              const row_limits *limits,
                                                              uint8_t *restrict diagonal,
                                                              uint8_t *restrict bins)
{
    const int32_t i = (int32_t)limits->diagonal, sentence_end = (int32_t)limits->sentence_end;
    memcpy(diagonal + from, levels + from, limits->end - from);
    for (size_t j = from; j < limits->sentence_end; j += HS__LANES) {
        four_ints signals[4];
        for (size_t k = 0; k < 4; k++) {
            const four_ints at = (four_ints){0, 1, 2, 3} + (int32_t)(j + 4 * k);
            signals[k] = (at > i) & (at < sentence_end) & HS__SIGNAL;
        }
        const sixteen signal = low_bytes(signals);
        *(sixteen *)(diagonal + j) |= signal;
        *(sixteen *)(bins + j) |= signal;
    }
}

/* Adds values, and their squares, to sixteen running sums. */
static inline __attribute__((always_inline)) void values_add(const float *values, size_t from, size_t end,
                                                             half ret_sums[2], half ret_squares[2])
{
    half sums[2] = {ret_sums[0], ret_sums[1]}, squares[2] = {ret_squares[0], ret_squares[1]};
    for (size_t j = from; j < end; j += HS__LANES)
        for (size_t k = 0; k < 2; k++) {
            const half v = *(const half *)(values + j + k * HS__LANES / 2);
            sums[k] += v;
            squares[k] += v * v;
        }
    memcpy(ret_sums, sums, sizeof sums);
    memcpy(ret_squares, squares, sizeof squares);
}

/* Row i from the vector that holds the diagonal. */
static inline __attribute__((always_inline)) void row_read(const row_places *places, const float *row,
                                                           size_t n_tokens, const row_limits *limits,
                                                           bool first, row_values *values,
                                                           moment_floats *moments)
{
    const size_t from = limits->diagonal / HS__LANES * HS__LANES;
    values_read(row, from, n_tokens, limits, first, values->s, values->n, places);
    levels_count(values->s, from, limits, places->levels);
    bins_find(values->n, from, limits->end, places->bins);
    signal_mark(places->levels, from, limits, places->diagonal, places->bins);
    values_add(values->n, from, limits->end, moments->all, moments->all_squares);
    const size_t signal_end = hs__lanes_ceil(limits->sentence_end);
    for (size_t j = limits->sentence_end; j < signal_end; j++)
        values->n[j] = 0;
    values_add(values->n, from, signal_end, moments->signal, moments->signal_squares);
}

static inline __attribute__((always_inline)) void rows_read(const hs__stats_map *map, const float *similarity,
                                                            const hs__stats_facts *facts, float reciprocal,
                                                            bool first, row_values *values,
                                                            moment_sums *ret_moments)
{
    const size_t T = facts->n_tokens, end = hs__lanes_ceil(T);
    moment_sums moments = {0};
    moment_floats floats = {0};
    size_t n_added = 0;
    for (size_t i = 0; i < T; i++) {
        const size_t at = i * map->stride;
        const row_places places = {.levels = map->levels + at,
                                   .diagonal = map->diagonals + at - i,
                                   .bins = map->bins + at,
                                   .similarity_sum = facts->similarity_sum + hs__stats_sums_row(T, i),
                                   .normalized_sum = facts->normalized_sum + hs__stats_sums_row(T, i)};
        const row_limits limits = {
            i, (size_t)facts->sentence_ends[i], end, reciprocal, map->cuts, map->n_thresholds};
        row_read(&places, similarity + i * T, T, &limits, first, values, &floats);
        *(bytes *)(places.levels + end) = *(bytes *)(places.diagonal + end) = (bytes){0};
        n_added += end / HS__LANES - i / HS__LANES;
        if (n_added >= FLOATS_MAX) {
            moments_flush(&floats, &moments);
            n_added = 0;
        }
    }
    moments_flush(&floats, &moments);
    *ret_moments = moments;
}

/* Everything of the first reading. */
static HS_CLONES void map_quantise(const hs__stats_map *map, const float *similarity,
                                   const hs__stats_facts *facts, float reciprocal, bool first,
                                   moment_sums *ret_moments)
{
    row_values values; /* one for both: the stack is small */
    if (first)
        rows_read(map, similarity, facts, reciprocal, true, &values, ret_moments);
    else
        rows_read(map, similarity, facts, reciprocal, false, &values, ret_moments);
}

/* Moves the repeated pairs that are not in one sentence from noise to signal. */
static void repeats_move(hs__stats_map *map, const float *similarity, const hs__stats_facts *facts,
                         float reciprocal)
{
    const size_t T = facts->n_tokens;
    for (size_t i = 0; i < T; i++)
        for (size_t j = (size_t)facts->next[i]; j < T; j = (size_t)facts->next[j]) {
            if ((int32_t)j < facts->sentence_ends[i] || facts->special[i] || facts->special[j])
                continue;
            const double n = (double)(similarity[i * T + j] * reciprocal);
            const uint8_t bin = map->bins[i * map->stride + j];
            map->hist[bin]--;
            map->hist[bin | HS__SIGNAL]++;
            uint32_t *stratum = map->strata + hs__stratum(j - i) * HS__HIST_BINS;
            stratum[bin]--;
            stratum[bin | HS__SIGNAL]++;
            map->moments[1][0] += 1;
            map->moments[1][1] += n;
            map->moments[1][2] += n * n;
        }
}

/* Returns true if special token s and token o are a pair that is to be counted: two special tokens once. */
static bool is_special_pair(const hs__stats_facts *facts, size_t s, size_t o)
{
    return o > s || (o < s && !facts->special[o]);
}

/* Moves the pairs with special tokens out of noise, and out of the pairs by distance. */
static void specials_move(hs__stats_map *map, const float *similarity, const hs__stats_facts *facts)
{
    const size_t T = facts->n_tokens, P = map->stride;
    memcpy(map->ordinary, map->distances, map->n_thresholds * P * sizeof *map->ordinary);
    memset(map->special, 0, HS__SIGNAL * sizeof *map->special);
    for (size_t k = 0; k < facts->n_specials; k++)
        for (size_t s = (size_t)facts->specials[k], o = 0; o < T; o++) {
            if (!is_special_pair(facts, s, o))
                continue;
            const size_t i = hs_min(s, o), j = hs_max(s, o);
            const double n = (double)(similarity[i * T + j] * map->reciprocal);
            const uint8_t bin = map->bins[i * P + j], level = map->levels[i * P + j];
            map->hist[bin]--;
            map->strata[hs__stratum(j - i) * HS__HIST_BINS + bin]--;
            map->special[bin]++;
            map->moments[0][0] -= 1;
            map->moments[0][1] -= n;
            map->moments[0][2] -= n * n;
            for (size_t t = 0; t < level; t++)
                map->ordinary[t * P + j - i]--;
        }
}

/* Counts the pairs of a row within a stratum, in two tables side by side, so that equal neighbours do not
 * wait for each other. */
static inline __attribute__((always_inline)) void bins_count(const uint8_t *row, size_t n, uint32_t *tables)
{
    for (size_t k = 0; k < n; k++)
        tables[k % 2 * HS__HIST_BINS + row[k]]++;
}

static void map_histogram(hs__stats_map *map, const hs__stats_facts *facts)
{
    const size_t T = facts->n_tokens;
    uint32_t tables[HS_CORPUS_STRATA][2 * HS__HIST_BINS] = {0};
    for (size_t i = 0; i + 1 < T; i++) {
        const uint8_t *row = map->bins + i * map->stride + i;
        const size_t n = T - i; /* elements from the diagonal on */
        size_t first = 1;
        for (size_t stratum = 0; first < n; stratum++) {
            const size_t end = stratum + 1 < HS_CORPUS_STRATA ? hs_min(((size_t)1 << stratum) + 1, n) : n;
            bins_count(row + first, end - first, tables[stratum]);
            first = end;
        }
    }
    memset(map->hist, 0, HS__HIST_BINS * sizeof *map->hist);
    for (size_t stratum = 0; stratum < HS_CORPUS_STRATA; stratum++)
        for (size_t bin = 0; bin < HS__HIST_BINS; bin++) {
            const uint32_t n = tables[stratum][bin] + tables[stratum][HS__HIST_BINS + bin];
            map->strata[stratum * HS__HIST_BINS + bin] = n;
            map->hist[bin] += n;
        }
}

/* ---- per threshold ---- */

/* 1 for each byte below HS__SIGNAL that reaches a level. No function: it would return a vector. */
#define REACHING(values, level) (((values) + (uint8_t)(HS__SIGNAL - (level))) >> 7)

static inline __attribute__((always_inline)) void wide_add(const piece *counts, uint32_t *restrict wide)
{
    for (size_t j = 0; j < PIECE; j++)
        wide[j] += (*counts)[j];
}

/* Counts the pairs of PIECE tokens. Loops over rows are unrolled here and below: SSE2 keeps sums of PIECE
 * bytes in memory, and one step would wait for the store of the step before. */
static inline __attribute__((always_inline)) void
degrees_count(const uint8_t *levels, size_t stride, size_t n_rows, uint8_t level, uint32_t *degrees)
{
    for (size_t first = 0; first < n_rows; first += ROWS_MAX) {
        piece counts = {0};
#pragma GCC unroll 4
        for (size_t i = first; i < hs_min(first + ROWS_MAX, n_rows); i++)
            counts += REACHING(*(const piece *)(levels + i * stride), level);
        wide_add(&counts, degrees);
    }
}

/* Counts the pairs of PIECE distances. */
static inline __attribute__((always_inline)) void
distances_count(const uint8_t *diagonals, size_t stride, size_t n_rows, uint8_t level, uint32_t *distances)
{
    for (size_t first = 0; first < n_rows; first += ROWS_MAX) {
        piece counts = {0};
#pragma GCC unroll 4
        for (size_t i = first; i < hs_min(first + ROWS_MAX, n_rows); i++)
            counts += REACHING(*(const piece *)(diagonals + i * stride) & (HS__SIGNAL - 1), level);
        wide_add(&counts, distances);
    }
}

/* Counts those of the same sentence. */
static inline __attribute__((always_inline)) uint64_t signal_count(const uint8_t *diagonals, size_t stride,
                                                                   size_t n_rows, uint8_t level)
{
    uint64_t sum = 0;
    for (size_t first = 0; first < n_rows; first += ROWS_MAX) {
        piece counts = {0};
#pragma GCC unroll 4
        for (size_t i = first; i < hs_min(first + ROWS_MAX, n_rows); i++) {
            const piece row = *(const piece *)(diagonals + i * stride);
            counts += REACHING(row & (HS__SIGNAL - 1), level) & (row >> 7);
        }
        uint32_t wide[PIECE] = {0};
        wide_add(&counts, wide);
        for (size_t j = 0; j < PIECE; j++)
            sum += wide[j];
    }
    return sum;
}

/* Degrees, distances and pairs within a sentence, of which none is longer than n_longest tokens. Bytes of a
 * row past its last pair are 0, so chunks may run over its end. */
static HS_CLONES void pairs_count(hs__stats_map *map, size_t n_tokens, size_t n_longest)
{
    const size_t stride = map->stride, T = n_tokens;
    memset(map->degrees, 0, map->n_thresholds * stride * sizeof *map->degrees);
    memset(map->distances, 0, map->n_thresholds * stride * sizeof *map->distances);
    for (size_t t = 0; t < map->n_thresholds; t++) {
        const uint8_t level = (uint8_t)(t + 1);
        map->same_sentence[t] = 0;
        for (size_t j = 0; j < T; j += PIECE) {
            const uint8_t *diagonals = map->diagonals + j;
            degrees_count(map->levels + j, stride, T, level, map->degrees + t * stride + j);
            distances_count(diagonals, stride, T - j, level, map->distances + t * stride + j);
            if (j < n_longest)
                map->same_sentence[t] += signal_count(diagonals, stride, T - j, level);
        }
    }
}

/* Returns the tokens of the longest sentence. */
static size_t longest_sentence(const hs__stats_facts *facts)
{
    size_t longest = 0;
    for (size_t i = 0, end; i < facts->n_tokens; i = end) {
        end = (size_t)facts->sentence_ends[i];
        longest = end - i > longest ? end - i : longest;
    }
    return longest;
}

/* ---- the lower half ---- */

/* The upper half of a block of 16 by 16 rows and columns goes to the lower one. */
static inline __attribute__((always_inline)) void block_transpose(const uint8_t *from, size_t stride,
                                                                  bool onto, uint8_t *to)
{
    sixteen a[HS__LANES], b[HS__LANES];
    for (size_t i = 0; i < HS__LANES; i++)
        a[i] = *(const sixteen *)(from + i * stride);
    for (size_t step = 0; step < 4; step++) { /* each interleaves rows i and i + 8 */
        for (size_t i = 0; i < HS__LANES / 2; i++) {
            const sixteen x = a[i], y = a[i + 8];
            b[2 * i] = __builtin_shufflevector(x, y, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            b[2 * i + 1] =
                __builtin_shufflevector(x, y, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
        }
        memcpy(a, b, sizeof a);
    }
    for (size_t i = 0; i < HS__LANES; i++) {
        sixteen *row = (sixteen *)(to + i * stride);
        if (onto)
            *row |= a[i];
        else
            *row = a[i];
    }
}

static HS_CLONES void levels_mirror(uint8_t *levels, size_t stride, size_t n_tokens)
{
    for (size_t i = n_tokens; i < hs__lanes_ceil(n_tokens); i++)
        memset(levels + i * stride, 0, hs__lanes_ceil(n_tokens));
    for (size_t i = 0; i < n_tokens; i += HS__LANES) {
        for (size_t j = 0; j < i; j += HS__LANES)
            block_transpose(levels + j * stride + i, stride, false, levels + i * stride + j);
        block_transpose(levels + i * stride + i, stride, true, levels + i * stride + i);
    }
}

void hs__stats_map_read(hs__stats_map *map, const float *similarity, const hs__stats_facts *facts, bool first,
                        const float *thresholds)
{
    const size_t T = facts->n_tokens;
    const float maximum = hs_similarity_max(similarity, T, NULL);
    const bool has_pairs = maximum > 0 && maximum < INFINITY;
    const float reciprocal = has_pairs ? fminf(1 / maximum, FLT_MAX) : 0; /* finite: 0 stays 0 */
    for (size_t t = 0; t < map->n_thresholds; t++)
        map->cuts[t] = has_pairs ? hs__similarity_cut(thresholds[t], maximum) : INFINITY;

    map->reciprocal = reciprocal;
    moment_sums moments;
    map_quantise(map, similarity, facts, reciprocal, first, &moments);
    map_histogram(map, facts);
    map->moments[1][0] = (double)facts->n_same_sentence;
    map->moments[1][1] = lanes_sum(&moments.signal);
    map->moments[1][2] = lanes_sum(&moments.signal_squares);
    repeats_move(map, similarity, facts, reciprocal);
    map->moments[0][0] = 0.5 * (double)T * (double)(T - 1) - map->moments[1][0];
    map->moments[0][1] = lanes_sum(&moments.all) - map->moments[1][1];
    map->moments[0][2] = lanes_sum(&moments.all_squares) - map->moments[1][2];
    levels_mirror(map->levels, map->stride, T);
    pairs_count(map, T, longest_sentence(facts));
    specials_move(map, similarity, facts);
}

HS_CLONES
void hs__stats_levels_count(const uint8_t *levels, uint8_t level, size_t n_tokens, size_t stride,
                            uint8_t *ret_counts)
{
    for (size_t i = 0; i < n_tokens; i++)
        for (size_t j = (i + 1) / CHUNK * CHUNK; j < n_tokens; j += CHUNK) {
            const size_t at = i * stride + j;
            *(bytes *)(ret_counts + at) +=
                (*(const bytes *)(levels + at) + (uint8_t)(HS__SIGNAL - 1 - level)) >> 7;
        }
}

/* ---- cells ---- */

static HS_CLONES void fold(size_t window, size_t step, size_t n, int64_t *restrict strip,
                           int64_t *restrict row)
{
    for (size_t b = 0; b + 1 < n; b++)
        for (size_t k = 0; k < step; k++)
            row[b] += strip[b * step + k];
    for (size_t j = (n - 1) * step; j < window; j++)
        row[n - 1] += strip[j];
    memset(strip, 0, window * sizeof *strip);
}

void hs__cells_fold(const hs__cells *cells, int64_t *strip, int64_t *row)
{
    fold(cells->window, cells->step, cells->n, strip, row);
}

static HS_CLONES void counts_row_add(const uint8_t *restrict counts, size_t n, int64_t *restrict sums)
{
    for (size_t j = 0; j < n; j++)
        sums[j] += counts[j];
}

void hs__stats_counts_move(uint8_t *counts, size_t stride, const hs__cells *cells, int64_t *field)
{
    const size_t window = cells->window;
    for (size_t i = 0; i < window; i++) {
        int64_t *row = cells->step > 1 ? cells->strips[0] : field + i * window;
        counts_row_add(counts + i * stride + i + 1, window - i - 1, row + i + 1);
        if (cells->step > 1 && ((i + 1) % cells->step == 0 || i + 1 == window))
            hs__cells_fold(cells, row, field + i / cells->step * cells->n);
    }
    memset(counts, 0, window * stride);
}

/* ---- strata ---- */

/* Adds N and its square of a row, from its diagonal's neighbour on. */
static HS_CLONES void row_moments_add(const float *restrict row, size_t n, float reciprocal,
                                      double *restrict sums, double *restrict squares)
{
    for (size_t k = 0; k < n; k++) {
        const double value = (double)(row[k] * reciprocal);
        sums[k] += value;
        squares[k] += value * value;
    }
}

/* Sums N and its squares by distance: of pairs without special tokens, and of signal pairs. */
static void distances_read(hs__stats_map *map, const float *similarity, const hs__stats_facts *facts)
{
    const size_t T = facts->n_tokens, P = map->stride;
    double *all = map->by_distance, *signal = all + 2 * P;
    memset(all, 0, 4 * P * sizeof *all);
    for (size_t i = 0; i < T; i++) {
        const float *row = similarity + i * T;
        const size_t end = (size_t)facts->sentence_ends[i];
        row_moments_add(row + i + 1, T - i - 1, map->reciprocal, all + 1, all + P + 1);
        row_moments_add(row + i + 1, end - i - 1, map->reciprocal, signal + 1, signal + P + 1);
        for (size_t j = (size_t)facts->next[i]; j < T; j = (size_t)facts->next[j])
            if (j >= end && !facts->special[i] && !facts->special[j])
                row_moments_add(row + j, 1, map->reciprocal, signal + j - i, signal + P + j - i);
    }
    for (size_t k = 0; k < facts->n_specials; k++)
        for (size_t s = (size_t)facts->specials[k], o = 0; o < T; o++) {
            const size_t i = hs_min(s, o), j = hs_max(s, o);
            const double n = (double)(similarity[i * T + j] * map->reciprocal);
            if (!is_special_pair(facts, s, o))
                continue;
            all[j - i] -= n;
            all[P + j - i] -= n * n;
        }
}

void hs__stats_strata_find(hs__stats_map *map, const float *similarity, const hs__stats_facts *facts,
                           hs_corpus_strata *ret)
{
    const size_t P = map->stride;
    const double *all = map->by_distance, *signal = all + 2 * P;
    *ret = (hs_corpus_strata){0};
    distances_read(map, similarity, facts);
    for (size_t stratum = 0; stratum < HS_CORPUS_STRATA; stratum++)
        for (size_t kind = 0; kind < 2; kind++)
            memcpy(ret->bins[kind][stratum], map->strata + stratum * HS__HIST_BINS + kind * HS__SIGNAL,
                   sizeof ret->bins[kind][stratum]);
    for (size_t d = 1; d < facts->n_tokens; d++) {
        const size_t stratum = hs__stratum(d);
        ret->sums[1][stratum] += signal[d];
        ret->squares[1][stratum] += signal[P + d];
        ret->sums[0][stratum] += all[d] - signal[d];
        ret->squares[0][stratum] += all[P + d] - signal[P + d];
    }
}

/* ---- sums ---- */

/* Adding this to a number rounds it to a whole one, whose value is then in the lower bits: a conversion to
 * int64 that vectorises everywhere. Numbers within 2^51. */
#define ROUNDER 0x1.8p52

static inline __attribute__((always_inline)) void fixed_split(half values, longs *ret_whole,
                                                              longs *ret_fraction)
{
    const doubles rounder = (doubles){0} + ROUNDER;
    doubles v = __builtin_convertvector(values, doubles);
    const doubles size = (doubles)((longs)v & INT64_MAX);
    const longs sane = size < HS__FIXED_MAX;
    v = (doubles)((longs)v & sane);
    const doubles rounded = v + rounder;
    const doubles rest = (v - (rounded - rounder)) * (1 / HS__FRACTION_UNIT) + rounder;
    *ret_whole = (longs)rounded - (longs)rounder;
    *ret_fraction = (longs)rest - (longs)rounder;
}

/* Adds values[from] to values[n - 1], of a row. */
static HS_CLONES void sums_row_add(const float *values, size_t from, size_t n, int64_t *whole,
                                   int64_t *fraction)
{
    longs v_whole, v_fraction;
    for (size_t j = from / 8 * 8; j < n; j += 8) {
        fixed_split(*(const half *)(values + j), &v_whole, &v_fraction);
        if (j >= from && j + 8 <= n) {
            *(longs *)(whole + j) += v_whole;
            *(longs *)(fraction + j) += v_fraction;
            continue;
        }
        for (size_t k = j < from ? from - j : 0; k < 8 && j + k < n; k++) {
            whole[j + k] += v_whole[k];
            fraction[j + k] += v_fraction[k];
        }
    }
}

void hs__stats_sums_add(const float *sums, size_t n_tokens, const hs__cells *cells, int64_t *field)
{
    const size_t n = cells->n;
    for (size_t i = 0; i < n_tokens; i++) {
        const float *row = sums + hs__stats_sums_row(n_tokens, i);
        int64_t *whole = field + i / cells->step * n, *fraction = whole + n * n;
        if (cells->step == 1) {
            sums_row_add(row, i + 1, n_tokens, whole, fraction);
            continue;
        }
        sums_row_add(row, i + 1, n_tokens, cells->strips[0], cells->strips[1]);
        if ((i + 1) % cells->step && i + 1 < n_tokens)
            continue;
        hs__cells_fold(cells, cells->strips[0], whole);
        hs__cells_fold(cells, cells->strips[1], fraction);
    }
}
