/* corpus_similarity.c - one similarity map read for the corpus statistics.
 *
 * The map is read once. That reading leaves, beside its sums, two maps of bytes: how many thresholds each N
 * reaches, and its histogram bin. What is counted per threshold is counted in those, 64 elements at a time.
 */
#include "engine/corpus_add.h"

#include "engine/analysis.h"
#include "engine/analysis_maps.h"
#include "model/clones.h"

#include <math.h>
#include <string.h>

/* gcc's vectors: 16 floats, whatever the width of the CPU's registers. Unaligned in memory. */
typedef uint8_t sixteen __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint8_t bytes __attribute__((vector_size(64), aligned(1), may_alias));
typedef uint64_t words __attribute__((vector_size(64), aligned(1), may_alias));
typedef double doubles __attribute__((vector_size(64), aligned(8), may_alias));
typedef int64_t longs __attribute__((vector_size(64), aligned(8), may_alias));
typedef float half __attribute__((vector_size(32), aligned(4), may_alias));

enum { ROWS_MAX = 255 /* that counts in bytes have room for */ };

/* Four running sums in floats over a row, in doubles over the map. */
typedef struct moment_sums {
    doubles all, all_squares, signal, signal_squares;
} moment_sums;

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

/* Row i: levels, bins, sums. Elements j <= i, and those past the end, count as S = 0. */
static inline __attribute__((always_inline)) void row_read(hs__corpus_map *map, const float *row, size_t i,
                                                           hs__corpus_facts *facts, float reciprocal,
                                                           moment_sums *moments)
{
    const hs__ints lanes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const hs__floats top = (hs__floats){0} + (float)(HS_CORPUS_BINS - 1);
    const size_t n_tokens = facts->n_tokens;
    const int32_t sentence_end = facts->sentence_ends[i];
    hs__floats all = {0}, all_squares = {0}, signal = {0}, signal_squares = {0};
    for (size_t j = (i + 1) / HS__LANES * HS__LANES; j < n_tokens; j += HS__LANES) {
        hs__floats s = {0};
        if (j + HS__LANES <= n_tokens)
            s = *(const hs__floats *)(row + j);
        else
            memcpy(&s, row + j, (n_tokens - j) * sizeof *row);
        const hs__ints index = lanes + (int32_t)j;
        s = (hs__floats)((hs__ints)s & (index > (int32_t)i));
        const hs__floats n = s * reciprocal;
        const size_t at = i * map->stride + j;
        *(hs__floats *)(facts->similarity_sum + at) += s;
        *(hs__floats *)(facts->normalized_sum + at) += n;

        hs__ints level = {0};
        for (size_t t = 0; t < map->n_thresholds; t++)
            level -= s >= map->cuts[t];
        *(sixteen *)(map->levels + at) = __builtin_convertvector(level, sixteen);

        const hs__ints below = n < 0;
        const hs__floats scaled = n * (float)HS_CORPUS_BINS;
        const hs__ints inside = scaled < top;
        const hs__floats clipped = (hs__floats)(((hs__ints)scaled & inside) | ((hs__ints)top & ~inside));
        const hs__ints bin = __builtin_convertvector((hs__floats)((hs__ints)clipped & ~below), hs__ints) + 1;
        *(sixteen *)(map->bins + at) = __builtin_convertvector(bin & ~below, sixteen);

        const hs__floats in_sentence = (hs__floats)((hs__ints)n & (index < sentence_end));
        all += n;
        all_squares += n * n;
        signal += in_sentence;
        signal_squares += in_sentence * in_sentence;
    }
    halves_add(&moments->all, &all);
    halves_add(&moments->all_squares, &all_squares);
    halves_add(&moments->signal, &signal);
    halves_add(&moments->signal_squares, &signal_squares);
}

/* Moves the repeated pairs that are not in one sentence from noise to signal. */
static void repeats_move(hs__corpus_map *map, const float *similarity, const hs__corpus_facts *facts,
                         float reciprocal)
{
    const size_t T = facts->n_tokens;
    for (size_t i = 0; i < T; i++)
        for (size_t j = (size_t)facts->next[i]; j < T; j = (size_t)facts->next[j]) {
            if ((int32_t)j < facts->sentence_ends[i])
                continue;
            const double n = (double)(similarity[i * T + j] * reciprocal);
            const uint8_t bin = map->bins[i * map->stride + j];
            map->hist[0][bin]--;
            map->hist[1][bin]++;
            map->moments[1][0] += 1;
            map->moments[1][1] += n;
            map->moments[1][2] += n * n;
        }
}

/* Everything of the first reading. */
HS_CLONES
static void map_quantise(hs__corpus_map *map, const float *similarity, hs__corpus_facts *facts,
                         float reciprocal, moment_sums *moments)
{
    const size_t T = facts->n_tokens;
    for (size_t i = 0; i < T; i++) {
        memset(map->levels + i * map->stride, 0, (i + 1) / HS__LANES * HS__LANES);
        row_read(map, similarity + i * T, i, facts, reciprocal, moments);
        const size_t end = (T + HS__LANES - 1) / HS__LANES * HS__LANES;
        memset(map->levels + i * map->stride + end, 0, map->stride - end);
    }
}

/* Four tables side by side, so that equal neighbours do not wait for each other. */
static void hist_add(uint32_t *hist, const uint8_t *bins, size_t n)
{
    size_t j = 0;
    for (; j + 4 <= n; j += 4) {
        hist[bins[j]]++;
        hist[128 + bins[j + 1]]++;
        hist[256 + bins[j + 2]]++;
        hist[384 + bins[j + 3]]++;
    }
    for (; j < n; j++)
        hist[bins[j]]++;
}

static void map_histogram(hs__corpus_map *map, const hs__corpus_facts *facts)
{
    memset(map->hist[0], 0, 512 * sizeof *map->hist[0]);
    memset(map->hist[1], 0, 512 * sizeof *map->hist[1]);
    for (size_t i = 0; i < facts->n_tokens; i++) {
        const uint8_t *row = map->bins + i * map->stride;
        const size_t end = (size_t)facts->sentence_ends[i];
        hist_add(map->hist[1], row + i + 1, end - i - 1);
        hist_add(map->hist[0], row + end, facts->n_tokens - end);
    }
}

/* ---- per threshold ---- */

static void counts_clear(hs__corpus_counts *counts, size_t stride)
{
    memset(counts->columns, 0, stride);
    for (size_t k = 0; k < HS__DISTANCE_TABLES; k++)
        memset(counts->distances[k], 0, stride + 2 * HS__CHUNK);
}

/* Adds the bytes to the wide counts. */
static void counts_flush(hs__corpus_counts *counts, size_t stride, uint32_t *degrees, uint32_t *distances)
{
    for (size_t j = 0; j < stride; j++)
        degrees[j] += counts->columns[j];
    for (size_t k = 0; k < HS__DISTANCE_TABLES; k++)
        for (size_t d = 0; d < stride; d++)
            distances[d] += counts->distances[k][HS__CHUNK + d];
    counts_clear(counts, stride);
}

/* Pairs of E with j in [start, end) and i among the rows read so far. */
static uint64_t columns_sum(const hs__corpus_counts *counts, const uint32_t *columns, size_t start,
                            size_t end)
{
    uint64_t sum = 0;
    for (size_t j = start; j < end; j++)
        sum += columns[j] + counts->columns[j];
    return sum;
}

/* Row i: adds to the columns and distances where the level is reached; returns in how many. */
static inline __attribute__((always_inline)) uint32_t
row_count(hs__corpus_counts *counts, const uint8_t *levels, size_t i, size_t n_tokens, uint8_t level)
{
    uint8_t *distances = counts->distances[i % HS__DISTANCE_TABLES];
    bytes total = {0};
    for (size_t j = (i + 1) / HS__CHUNK * HS__CHUNK; j < n_tokens; j += HS__CHUNK) {
        const bytes reached = (bytes)(*(const bytes *)(levels + j) >= level) & 1;
        *(bytes *)(counts->columns + j) += reached;
        *(bytes *)(distances + HS__CHUNK + j - i) += reached;
        total += reached;
    }
    /* Bytes to 16 bits, eight words to one, and that one's four parts to its top. */
    const words pairs =
        ((words)total & UINT64_C(0x00ff00ff00ff00ff)) + ((words)total >> 8 & UINT64_C(0x00ff00ff00ff00ff));
    const uint64_t sum =
        pairs[0] + pairs[1] + pairs[2] + pairs[3] + pairs[4] + pairs[5] + pairs[6] + pairs[7];
    return (uint32_t)(sum * UINT64_C(0x0001000100010001) >> 48);
}

/* One threshold over the whole map: degrees, distances; returns the pairs within a sentence. A token is the j
 * of some pairs and the i of others: its degree is gathered in `degrees` and in the counts' rows. */
HS_CLONES
static uint64_t level_count(const hs__corpus_map *map, const hs__corpus_facts *facts, uint8_t level,
                            uint32_t *degrees, uint32_t *distances)
{
    hs__corpus_counts *counts = map->counts;
    const size_t T = facts->n_tokens, stride = map->stride;
    uint64_t same_sentence = 0, before = 0;
    counts_clear(counts, stride);
    memset(degrees, 0, stride * sizeof *degrees);
    memset(distances, 0, stride * sizeof *distances);
    for (size_t i = 0; i < T; i++) {
        const size_t end = (size_t)facts->sentence_ends[i];
        /* Pairs within a sentence: what its columns gain while its rows are read. */
        if (i == 0 || facts->sentences[i] != facts->sentences[i - 1])
            before = columns_sum(counts, degrees, i, end);
        counts->rows[i] = row_count(counts, map->levels + i * stride, i, T, level);
        if (i + 1 == end) {
            size_t start = i;
            while (start > 0 && facts->sentences[start - 1] == facts->sentences[i])
                start--;
            same_sentence += columns_sum(counts, degrees, start, end) - before;
        }
        if ((i + 1) % ROWS_MAX == 0)
            counts_flush(counts, stride, degrees, distances);
    }
    counts_flush(counts, stride, degrees, distances);
    for (size_t i = 0; i < T; i++)
        degrees[i] += counts->rows[i];
    return same_sentence;
}

void hs__corpus_map_read(hs__corpus_map *map, const float *similarity, hs__corpus_facts *facts,
                         const float *thresholds)
{
    const size_t T = facts->n_tokens;
    const float maximum = hs_similarity_max(similarity, T, NULL);
    const bool has_pairs = maximum > 0 && maximum < INFINITY;
    const float reciprocal = has_pairs ? 1 / maximum : 0;
    for (size_t t = 0; t < map->n_thresholds; t++)
        map->cuts[t] = has_pairs ? hs__similarity_cut(thresholds[t], maximum) : INFINITY;

    moment_sums moments = {0};
    map_quantise(map, similarity, facts, reciprocal, &moments);
    map_histogram(map, facts);
    map->moments[1][0] = 0;
    for (size_t i = 0; i < T; i++)
        map->moments[1][0] += facts->sentence_ends[i] - (double)(i + 1);
    map->moments[1][1] = lanes_sum(&moments.signal);
    map->moments[1][2] = lanes_sum(&moments.signal_squares);
    repeats_move(map, similarity, facts, reciprocal);
    map->moments[0][0] = 0.5 * (double)T * (double)(T - 1) - map->moments[1][0];
    map->moments[0][1] = lanes_sum(&moments.all) - map->moments[1][1];
    map->moments[0][2] = lanes_sum(&moments.all_squares) - map->moments[1][2];

    for (size_t t = 0; t < map->n_thresholds; t++)
        map->same_sentence[t] = level_count(map, facts, (uint8_t)(t + 1), map->degrees + t * map->stride,
                                            map->distances + t * map->stride);
}

HS_CLONES
void hs__corpus_levels_count(const uint8_t *levels, uint8_t level, size_t n_tokens, size_t stride,
                             uint8_t *ret_counts)
{
    for (size_t i = 0; i < n_tokens; i++)
        for (size_t j = (i + 1) / HS__CHUNK * HS__CHUNK; j < n_tokens; j += HS__CHUNK) {
            const size_t at = i * stride + j;
            *(bytes *)(ret_counts + at) += (bytes)(*(const bytes *)(levels + at) > level) & 1;
        }
}

HS_CLONES
void hs__corpus_counts_move(uint8_t *counts, size_t stride, size_t window, int64_t *sums)
{
    for (size_t i = 0; i < window; i++)
        for (size_t j = i + 1; j < window; j++)
            sums[i * window + j] += counts[i * stride + j];
    memset(counts, 0, window * stride);
}

/* ---- sums ---- */

/* Adding this to a number rounds it to a whole one, whose value is then in the lower bits: a conversion to
 * int64 that vectorises everywhere. Numbers within 2^51. */
#define ROUNDER 0x1.8p52

HS_CLONES
void hs__corpus_sums_add(const float *sums, size_t stride, size_t n_tokens, size_t window, int64_t *whole,
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
