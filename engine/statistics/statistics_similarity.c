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

typedef union float_lanes {
    hs__floats vector;
    float values[HS__LANES];
} float_lanes;

/* Natural logarithms of sixteen numbers, within 2e-6. The result is exactly 0 for 1, and finite for 0. Writes
 * x = 2^e m with m in [sqrt(1/2), sqrt(2)) and evaluates a polynomial of m - 1. The division in hs__log would
 * cost more than the rest of the work on an element. */
static inline __attribute__((always_inline)) void logs(const hs__floats *x, hs__floats *ret)
{
    const hs__ints shifted = (hs__ints)*x - 0x3f3504f3;
    const hs__floats exponent = __builtin_convertvector(shifted >> 23, hs__floats);
    const hs__floats t = (hs__floats)((shifted & 0x7fffff) + 0x3f3504f3) - 1;
    const hs__floats series =
        1.0000128f +
        t * (-0.49985051f + t * (0.33225876f + t * (-0.25472483f + t * (0.22330035f - t * 0.1431972f))));
    *ret = exponent * 0.693147181f + t * series;
}

/* Returns all bits of each lane whose sign bit is set, 0 elsewhere. Comparisons are written as the sign of a
 * difference: gcc 12 splits a comparison of vectors that are wider than the CPU's into single elements, which
 * takes ten times as long. Differences of unequal floats are not 0 (no subnormals are flushed), and equal
 * ones differ by +0. */
static inline __attribute__((always_inline)) void signs(const hs__ints *x, hs__ints *ret)
{
    /* cppcheck-suppress shiftTooManyBitsSigned ; gcc and clang shift signs in, and these are vectors */
    *ret = *x >> 31;
}

/* Running sums of sixteen columns. */
typedef struct row_lanes {
    float_lanes entropy, distance, most;
} row_lanes;

/* offset: of the elements from the diagonal. */
static inline __attribute__((always_inline)) void sixteen_add(const hs__floats *a, const hs__floats *offset,
                                                              row_lanes *sums)
{
    hs__floats log;
    logs(a, &log);
    sums->entropy.vector -= *a * log;
    sums->distance.vector += *a * (hs__floats)((hs__ints)*offset & 0x7fffffff);
    const hs__ints above = (hs__ints)(sums->most.vector - *a);
    hs__ints more;
    signs(&above, &more);
    sums->most.vector = (hs__floats)(((hs__ints)*a & more) | ((hs__ints)sums->most.vector & ~more));
}

/* One row; returns its maximum. */
static inline __attribute__((always_inline)) float row_add(const float *row, size_t i, size_t n,
                                                           row_lanes *sums)
{
    static const float_lanes count = {.values = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}};
    hs__floats offset = count.vector - (float)i;
    size_t j = 0;
    sums->most.vector = (hs__floats){0};
    for (; j + HS__LANES <= n; j += HS__LANES, offset += (float)HS__LANES)
        sixteen_add((const hs__floats *)(const void *)(row + j), &offset, sums);
    if (j < n) {
        float_lanes rest = {.values = {0}};
        memcpy(rest.values, row + j, (n - j) * sizeof *row);
        sixteen_add(&rest.vector, &offset, sums);
    }
    float maximum = 0;
    for (size_t k = 0; k < HS__LANES; k++)
        maximum = sums->most.values[k] > maximum ? sums->most.values[k] : maximum;
    return maximum;
}

/* Sums in floats run over a few rows. */
static HS_CLONES void map_sum(const float *attention, size_t n_rows, size_t n, row_sums *ret_sums)
{
    enum { ROWS = 16 };
    *ret_sums = (row_sums){0};
    for (size_t first = 0; first < n_rows; first += ROWS) {
        row_lanes sums = {.entropy = {.values = {0}}};
        for (size_t i = first; i < first + ROWS && i < n_rows; i++)
            ret_sums->confidence += (double)row_add(attention + i * n, i, n, &sums);
        for (size_t k = 0; k < HS__LANES; k++) {
            ret_sums->entropy += (double)sums.entropy.values[k];
            ret_sums->distance += (double)sums.distance.values[k];
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
    float_lanes columns = {.values = {0}};
    for (size_t i = first; i < end; i++)
        if (!facts->special[i])
            columns.vector += *(const hs__floats *)(const void *)(attention + i * T + from);
    double sum = 0;
    for (size_t k = j; k < j + n; k++)
        sum += facts->special[k] ? 0 : (double)columns.values[k - from];
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

/* Sum of A_ij with j - i = offset. */
static double diagonal_sum(const float *attention, size_t n, ptrdiff_t offset)
{
    const size_t first = offset < 0 ? (size_t)-offset * n : (size_t)offset;
    const size_t away = (size_t)(offset < 0 ? -offset : offset);
    double sum = 0;
    for (size_t k = 0; k + away < n; k++)
        sum += (double)attention[first + k * (n + 1)];
    return sum;
}

void hs__stats_profile_find(const hs_observed_head *head, const hs__stats_facts *facts,
                            double ret_figures[HS__PROFILE_N])
{
    const size_t T = facts->n_tokens;
    const double n = (double)T;
    row_sums rows, first;
    map_sum(head->attention, T, T, &rows);
    map_sum(head->attention, 1, T, &first);
    for (ptrdiff_t k = -HS_PROFILE_REACH; k <= HS_PROFILE_REACH; k++) {
        const size_t away = (size_t)(k < 0 ? -k : k);
        ret_figures[HS__PROFILE_OFFSETS + HS_PROFILE_REACH + k] =
            away < T ? diagonal_sum(head->attention, T, k) / (double)(T - away) : 0;
    }
    const double *centre = ret_figures + HS__PROFILE_OFFSETS + HS_PROFILE_REACH;
    ret_figures[HS__PROFILE_SELF] = centre[0];
    ret_figures[HS__PROFILE_PREVIOUS] = centre[-1] * (n - 1) / n;
    ret_figures[HS__PROFILE_NEXT] = centre[1] * (n - 1) / n;
    ret_figures[HS__PROFILE_FIRST] = columns_sum(head->columns, facts, HS_ROLE_FIRST) / n;
    ret_figures[HS__PROFILE_SEPARATOR] = columns_sum(head->columns, facts, HS_ROLE_SEPARATOR) / n;
    ret_figures[HS__PROFILE_PUNCTUATION] = (columns_sum(head->columns, facts, HS_ROLE_SENTENCE_END) +
                                            columns_sum(head->columns, facts, HS_ROLE_COMMA)) /
                                           n;
    ret_figures[HS__PROFILE_SAME_TOKEN] = repeated_sum(head->attention, facts) / n;
    ret_figures[HS__PROFILE_SAME_SENTENCE] = sentences_sum(head->attention, facts) / n;
    ret_figures[HS__PROFILE_ENTROPY] = rows.entropy / n;
    ret_figures[HS__PROFILE_ENTROPY_FIRST] = first.entropy;
    ret_figures[HS__PROFILE_CONFIDENCE] = rows.confidence / n;
    ret_figures[HS__PROFILE_MEAN_DISTANCE] = rows.distance / n;
}

/* ---- similarity maps ----
 *
 * One similarity map read for the corpus statistics.
 *
 * The map is read once. This computes the sums and writes three maps of bytes. The first has the number of
 * thresholds that each N reaches. The second has the same with each row moved to begin at its diagonal. The
 * third has the histogram bin. The counts of each threshold are sums over columns of the first two, 64
 * columns at a time. A column of the first, which is symmetric, counts a token's pairs. A column of the
 * second counts the pairs of a distance. */

/* gcc's vectors: 16 floats, whatever the width of the CPU's registers. Unaligned in memory. */
typedef uint8_t sixteen __attribute__((vector_size(16), aligned(1), may_alias));

typedef uint8_t bytes __attribute__((vector_size(64), aligned(1), may_alias));

typedef double doubles __attribute__((vector_size(64), aligned(8), may_alias));

typedef int64_t longs __attribute__((vector_size(64), aligned(8), may_alias));

typedef float half __attribute__((vector_size(32), aligned(4), may_alias));

enum {
    ROWS_MAX = 255, /* the largest count in a byte */
    CHUNK = sizeof(bytes),
};

/* Four running sums: in floats over a few rows, in doubles over the map. */
typedef struct moment_floats {
    hs__floats all, all_squares, signal, signal_squares;
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

static inline void halves_add(doubles *sums, const hs__floats *values)
{
    half low, high;
    memcpy(&low, values, sizeof low);
    memcpy(&high, (const char *)values + sizeof low, sizeof high);
    *sums += __builtin_convertvector(low, doubles);
    *sums += __builtin_convertvector(high, doubles);
}

static inline __attribute__((always_inline)) void moments_flush(moment_floats *floats, moment_sums *sums)
{
    halves_add(&sums->all, &floats->all);
    halves_add(&sums->all_squares, &floats->all_squares);
    halves_add(&sums->signal, &floats->signal);
    halves_add(&sums->signal_squares, &floats->signal_squares);
    *floats = (moment_floats){0};
}

/* The places to which row i of a map is written. */
typedef struct row_places {
    uint8_t *levels, *diagonal, *bins;
    float *similarity_sum, *normalized_sum;
} row_places;

static inline __attribute__((always_inline)) void layer_sum_add(float *sums, const hs__floats *values,
                                                                bool first)
{
    if (first)
        *(hs__floats *)sums = *values;
    else
        *(hs__floats *)sums += *values;
}

/* Counts for sixteen elements the thresholds that each reaches. */
static inline __attribute__((always_inline)) void levels_count(const hs__floats *s, const hs__floats *cuts,
                                                               size_t n_thresholds, hs__ints *ret)
{
    hs__ints level = (hs__ints){0} + (int32_t)n_thresholds;
    for (size_t t = 0; t < n_thresholds; t++) {
        const hs__ints above = (hs__ints)(*s - cuts[t]);
        hs__ints below_cut;
        signs(&above, &below_cut);
        level += below_cut;
    }
    *ret = level;
}

/* Row i from the vector that holds the diagonal: levels, bins, sums. Elements j <= i, and those past the end,
 * count as S = 0. The sums begin with the first head. */
static inline __attribute__((always_inline)) void
row_read(const row_places *places, const float *row, size_t i, size_t n_tokens, int32_t sentence_end,
         float reciprocal, const hs__floats *cuts, size_t n_thresholds, bool first, moment_floats *moments)
{
    const hs__ints lanes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const hs__floats top = (hs__floats){0} + (float)(HS_CORPUS_BINS - 1);
    moment_floats sums = *moments;
    for (size_t j = i / HS__LANES * HS__LANES; j < n_tokens; j += HS__LANES) {
        hs__floats s = {0};
        if (j + HS__LANES <= n_tokens)
            s = *(const hs__floats *)(row + j);
        else
            memcpy(&s, row + j, (n_tokens - j) * sizeof *row);
        const hs__ints index = lanes + (int32_t)j, to_row = (int32_t)i - index, to_end = index - sentence_end;
        hs__ints behind, inside_sentence;
        signs(&to_row, &behind);          /* i < j */
        signs(&to_end, &inside_sentence); /* j < sentence_end */
        const hs__ints signal = behind & inside_sentence;
        s = (hs__floats)((hs__ints)s & behind);
        const hs__floats n = s * reciprocal;
        layer_sum_add(places->similarity_sum + j, &s, first);
        layer_sum_add(places->normalized_sum + j, &n, first);

        hs__ints level;
        levels_count(&s, cuts, n_thresholds, &level);
        *(sixteen *)(places->levels + j) = __builtin_convertvector(level, sixteen);
        *(sixteen *)(places->diagonal + j) = __builtin_convertvector(level | (signal & HS__SIGNAL), sixteen);

        const hs__floats scaled = n * (float)HS_CORPUS_BINS;
        const hs__ints signed_n = (hs__ints)(n + 0) /* -0 is not below 0 */,
                       excess = (hs__ints)(scaled - top);
        hs__ints below, inside;
        signs(&signed_n, &below);
        signs(&excess, &inside);
        const hs__floats clipped = (hs__floats)(((hs__ints)scaled & inside) | ((hs__ints)top & ~inside));
        const hs__ints bin = __builtin_convertvector((hs__floats)((hs__ints)clipped & ~below), hs__ints) + 1;
        *(sixteen *)(places->bins + j) =
            __builtin_convertvector((bin & ~below) | (signal & HS__SIGNAL), sixteen);

        const hs__floats n_signal = (hs__floats)((hs__ints)n & signal);
        sums.all += n;
        sums.all_squares += n * n;
        sums.signal += n_signal;
        sums.signal_squares += n_signal * n_signal;
    }
    *moments = sums;
}

static inline __attribute__((always_inline)) void rows_read(const hs__stats_map *map, const float *similarity,
                                                            const hs__stats_facts *facts, float reciprocal,
                                                            bool first, moment_sums *ret_moments)
{
    const size_t T = facts->n_tokens, end = hs__lanes_ceil(T);
    moment_sums moments = {0};
    moment_floats floats = {0};
    size_t n_added = 0;
    hs__floats cuts[HS_CORPUS_THRESHOLDS_MAX];
    for (size_t t = 0; t < map->n_thresholds; t++)
        cuts[t] = (hs__floats){0} + map->cuts[t];
    for (size_t i = 0; i < T; i++) {
        const size_t at = i * map->stride;
        const row_places places = {.levels = map->levels + at,
                                   .diagonal = map->diagonals + at - i,
                                   .bins = map->bins + at,
                                   .similarity_sum = facts->similarity_sum + at,
                                   .normalized_sum = facts->normalized_sum + at};
        row_read(&places, similarity + i * T, i, T, facts->sentence_ends[i], reciprocal, cuts,
                 map->n_thresholds, first, &floats);
        *(bytes *)(places.levels + end) = (bytes){0};
        *(bytes *)(places.diagonal + end) = (bytes){0};
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
    if (first)
        rows_read(map, similarity, facts, reciprocal, true, ret_moments);
    else
        rows_read(map, similarity, facts, reciprocal, false, ret_moments);
}

/* Moves the repeated pairs that are not in one sentence from noise to signal. */
static void repeats_move(hs__stats_map *map, const float *similarity, const hs__stats_facts *facts,
                         float reciprocal)
{
    const size_t T = facts->n_tokens;
    for (size_t i = 0; i < T; i++)
        for (size_t j = (size_t)facts->next[i]; j < T; j = (size_t)facts->next[j]) {
            if ((int32_t)j < facts->sentence_ends[i])
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
            const size_t end = stratum + 1 < HS_CORPUS_STRATA ? hs__min(((size_t)1 << stratum) + 1, n) : n;
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

/* ---- per threshold ----
 *
 * A byte of at most 127 reaches a level if adding 128 less the level sets its highest bit. */

/* Counts in 64 columns how many of n_rows <= ROWS_MAX rows reach the level. */
static inline __attribute__((always_inline)) void columns_count(const uint8_t *levels, size_t stride,
                                                                size_t n_rows, uint8_t level, bytes *ret_all)
{
    bytes count = {0};
    for (size_t i = 0; i < n_rows; i++)
        count += (*(const bytes *)(levels + i * stride) + (uint8_t)(HS__SIGNAL - level)) >> 7;
    *ret_all = count;
}

/* Counts the same for all rows, and for rows of the same sentence. */
static inline __attribute__((always_inline)) void signal_count(const uint8_t *levels, size_t stride,
                                                               size_t n_rows, uint8_t level, bytes *ret_all,
                                                               bytes *ret_signal)
{
    bytes signal = {0}, all = {0};
    for (size_t i = 0; i < n_rows; i++) {
        const bytes row = *(const bytes *)(levels + i * stride);
        const bytes reaches = (row & (uint8_t)~HS__SIGNAL) + (uint8_t)(HS__SIGNAL - level);
        signal += (reaches & row) >> 7;
        all += reaches >> 7;
    }
    *ret_all = all;
    *ret_signal = signal;
}

static inline __attribute__((always_inline)) void wide_add(const bytes *count, uint32_t *wide)
{
    const uint8_t *columns = (const uint8_t *)count;
    for (size_t j = 0; j < CHUNK; j++)
        wide[j] += columns[j];
}

/* Degrees, distances and pairs within a sentence. Rows of distances end where the map does. */
static HS_CLONES void pairs_count(hs__stats_map *map, size_t n_tokens)
{
    const size_t stride = map->stride;
    memset(map->degrees, 0, map->n_thresholds * stride * sizeof *map->degrees);
    memset(map->distances, 0, map->n_thresholds * stride * sizeof *map->distances);
    for (size_t t = 0; t < map->n_thresholds; t++) {
        const uint8_t level = (uint8_t)(t + 1);
        uint32_t same_sentence[CHUNK] = {0};
        uint64_t sum = 0;
        for (size_t j = 0; j < n_tokens; j += CHUNK)
            for (size_t i = 0; i < n_tokens; i += ROWS_MAX) {
                const size_t n_moved = n_tokens - j > i ? hs__min(n_tokens - j - i, ROWS_MAX) : 0;
                const size_t at = i * stride + j;
                bytes degrees, distances, signal;
                columns_count(map->levels + at, stride, hs__min(n_tokens - i, ROWS_MAX), level, &degrees);
                signal_count(map->diagonals + at, stride, n_moved, level, &distances, &signal);
                wide_add(&degrees, map->degrees + t * stride + j);
                wide_add(&distances, map->distances + t * stride + j);
                wide_add(&signal, same_sentence);
            }
        for (size_t k = 0; k < CHUNK; k++)
            sum += same_sentence[k];
        map->same_sentence[t] = sum;
    }
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
    pairs_count(map, T);
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

HS_CLONES
void hs__stats_counts_move(uint8_t *counts, size_t stride, size_t window, int64_t *sums)
{
    for (size_t i = 0; i < window; i++)
        for (size_t j = i + 1; j < window; j++)
            sums[i * window + j] += counts[i * stride + j];
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

/* Sums N and its squares by distance: of all pairs, and of signal pairs. */
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
            if (j >= end)
                row_moments_add(row + j, 1, map->reciprocal, signal + j - i, signal + P + j - i);
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

HS_CLONES
void hs__stats_sums_add(const float *sums, size_t stride, size_t n_tokens, size_t window, int64_t *whole,
                        int64_t *fraction)
{
    const doubles rounder = (doubles){0} + ROUNDER;
    for (size_t i = 0; i < n_tokens; i++)
        for (size_t j = (i + 1) / 8 * 8; j < n_tokens; j += 8) {
            const half values = *(const half *)(sums + i * stride + j);
            doubles v = __builtin_convertvector(values, doubles);
            const doubles size = (doubles)((longs)v & INT64_MAX);
            const longs sane = size < HS__FIXED_MAX;
            v = (doubles)((longs)v & sane);
            const doubles rounded = v + rounder;
            const doubles rest = (v - (rounded - rounder)) * (1 / HS__FRACTION_UNIT) + rounder;
            const longs v_whole = (longs)rounded - (longs)rounder, v_fraction = (longs)rest - (longs)rounder;
            if (j + 8 <= window) {
                *(longs *)(whole + i * window + j) += v_whole;
                *(longs *)(fraction + i * window + j) += v_fraction;
                continue;
            }
            for (size_t k = 0; j + k < n_tokens; k++) {
                whole[i * window + j + k] += v_whole[k];
                fraction[i * window + j + k] += v_fraction[k];
            }
        }
}
