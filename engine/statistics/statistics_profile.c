/* statistics_profile.c - profiles of heads (hs_head_profile) over texts: each text's figures are found from
 * its map and column sums, and added. The map is read once, in vectors; what falls on kinds of tokens is in
 * the columns. */
#include "engine/statistics/statistics_add.h"

#include "engine/analysis/analysis_maps.h"
#include "model/clones.h"

#include <string.h>

/* Sums over rows. */
typedef struct row_sums {
    double entropy, confidence, distance;
} row_sums;

typedef union lanes {
    hs__floats vector;
    float values[HS__LANES];
} lanes;

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

/* Running sums of sixteen columns. */
typedef struct row_lanes {
    lanes entropy, distance, most;
} row_lanes;

/* offset: of the elements from the diagonal. */
static inline __attribute__((always_inline)) void sixteen_add(const hs__floats *a, const hs__floats *offset,
                                                              row_lanes *sums)
{
    hs__floats log;
    logs(a, &log);
    sums->entropy.vector -= *a * log;
    sums->distance.vector += *a * (hs__floats)((hs__ints)*offset & 0x7fffffff);
    const hs__ints more = *a > sums->most.vector;
    sums->most.vector = (hs__floats)(((hs__ints)*a & more) | ((hs__ints)sums->most.vector & ~more));
}

/* One row; returns its maximum. */
static inline __attribute__((always_inline)) float row_add(const float *row, size_t i, size_t n,
                                                           row_lanes *sums)
{
    static const lanes count = {.values = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}};
    hs__floats offset = count.vector - (float)i;
    size_t j = 0;
    sums->most.vector = (hs__floats){0};
    for (; j + HS__LANES <= n; j += HS__LANES, offset += (float)HS__LANES)
        sixteen_add((const hs__floats *)(const void *)(row + j), &offset, sums);
    if (j < n) {
        lanes rest = {.values = {0}};
        memcpy(rest.values, row + j, (n - j) * sizeof *row);
        sixteen_add(&rest.vector, &offset, sums);
    }
    float maximum = 0;
    for (size_t k = 0; k < HS__LANES; k++)
        maximum = sums->most.values[k] > maximum ? sums->most.values[k] : maximum;
    return maximum;
}

/* Sums in floats run over a few rows. */
HS_CLONES
static void map_sum(const float *attention, size_t n_rows, size_t n, row_sums *ret_sums)
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
static double repeated_sum(const float *attention, const hs__corpus_facts *facts)
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
strip_sum(const float *attention, const hs__corpus_facts *facts, size_t first, size_t end, size_t j, size_t n)
{
    const size_t T = facts->n_tokens;
    const size_t from = j + HS__LANES <= T ? j : T - HS__LANES; /* reads end with the last row */
    lanes columns = {.values = {0}};
    for (size_t i = first; i < end; i++)
        if (!facts->special[i])
            columns.vector += *(const hs__floats *)(const void *)(attention + i * T + from);
    double sum = 0;
    for (size_t k = j; k < j + n; k++)
        sum += facts->special[k] ? 0 : (double)columns.values[k - from];
    return sum;
}

/* The same, of a map that is narrower than vectors. */
static double narrow_sum(const float *attention, const hs__corpus_facts *facts, size_t first, size_t end)
{
    double sum = 0;
    for (size_t i = first; i < end; i++)
        for (size_t j = first; j < end; j++)
            sum += facts->special[i] || facts->special[j] ? 0 : (double)attention[i * facts->n_tokens + j];
    return sum;
}

/* Attention that stays within sentences, which are spans; special tokens neither give nor get. */
HS_CLONES
static double sentences_sum(const float *attention, const hs__corpus_facts *facts)
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

static double columns_sum(const float *columns, const hs__corpus_facts *facts, hs_role role)
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

void hs__corpus_profile_find(const hs_observed_head *head, const hs__corpus_facts *facts,
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
