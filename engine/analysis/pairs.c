/* pairs.c - similarities of head outputs and their strongest pairs. */
#include "engine/analysis/analysis.h"

#include "engine/analysis/analysis_maps.h"
#include "engine/pass/team.h"
#include "model/base/clones.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- similarity ----
 *
 * One similarity map: its maximum and its normalised form. */

HS_CLONES
float hs_similarity_max(const float *similarity, size_t n_tokens, const uint8_t *masked)
{
    float maximum = -INFINITY;
    for (size_t start = 0; start < n_tokens; start += HS__BLOCK) {
        const size_t end = hs_min(start + HS__BLOCK, n_tokens);
        float maxima[HS__BLOCK];
        for (size_t j = start; j < end; j++)
            maxima[j - start] = -INFINITY;
        for (size_t i = 0; i < end; i++) {
            if (hs__is_masked(masked, i))
                continue;
            const float *row = similarity + i * n_tokens;
            for (size_t j = hs_max(i + 1, start); j < end; j++)
                maxima[j - start] = row[j] > maxima[j - start] ? row[j] : maxima[j - start];
        }
        for (size_t j = start; j < end; j++)
            if (maxima[j - start] > maximum && !hs__is_masked(masked, j))
                maximum = maxima[j - start];
    }
    return maximum;
}

float hs__similarity_cut(float threshold, float maximum)
{
    float cut = threshold * maximum;
    while (cut / maximum >= threshold && cut < INFINITY)
        cut = nextafterf(cut, -INFINITY);
    while (!(cut / maximum >= threshold) && cut < INFINITY)
        cut = nextafterf(cut, INFINITY);
    return cut;
}

HS_CLONES
void hs_similarity_normalize(const float *similarity, size_t n_tokens, const uint8_t *masked, float maximum,
                             float *ret_normalized)
{
    for (size_t i = 0; i < n_tokens; i++) {
        const float *row = similarity + i * n_tokens;
        float *ret_row = ret_normalized + i * n_tokens;
        const bool empty = !(maximum > 0) || hs__is_masked(masked, i);
        for (size_t j = 0; j < n_tokens; j++)
            ret_row[j] = empty ? 0.0f : row[j] / maximum;
        for (size_t j = 0; masked && j < n_tokens; j++)
            ret_row[j] = masked[j] ? 0.0f : ret_row[j];
        ret_row[i] = 0.0f;
    }
}

/* ---- pairs ----
 *
 * Finds the strongest pairs of E in any number of maps, in bounded memory.
 *
 * 144 maps of 512 tokens hold up to 19 million elements, of which 10,000 may be requested. The cut is
 * found by a search in histograms, without sorting. The first walk counts the elements that reach each of
 * a few levels of N, the next ones those of a few more levels around the cut. The search ends when few more
 * elements than requested remain or levels are neighbouring floats. Each map's number of pairs and their
 * addresses are then known; the weakest of these pairs are dropped. Threads may take maps in any order; the
 * result is the same.
 *
 * Maps of long texts lie in memory, and fetching them takes longer than counting. So the maximum and
 * first counts of a map are found while it is in the cache, and each row's maximum is kept. Later walks
 * skip rows that reach no level, which are most rows if few pairs are requested. */

enum {
    LEVELS = 8,
    SPARE = 4,             /* the most pairs that are collected, as a multiple of the request */
    SPARE_KEPT = 1 << 16,  /* pairs, 1 MB: returning less memory takes longer than it saves */
    SPARE_POOLED = 1 << 8, /* the same for each map of a pool */
    SHARED_MIN = 1 << 18,  /* elements: fewer are faster on one thread than with a helper that must wake */
};

/* Facts of one map. */
typedef struct map_facts {
    float maximum;           /* m, 0 when the map has no pairs */
    uint32_t counts[LEVELS]; /* elements that reach each level */
    uint32_t n_ties;         /* how many elements equal to the floor are collected */
    size_t start;            /* index of its first pair; after the last map: number of pairs */
} map_facts;

typedef struct search {
    const float *similarities; /* [n_maps][T][T] */
    const uint16_t *layers, *heads;
    size_t n_heads;          /* map m is of layers[m / n_heads] and heads[m % n_heads] */
    size_t n_tokens, width;  /* T, and T or HS__LANES, whichever is more */
    const int32_t *unmasked; /* [width]: -1; 0 for masked tokens and padding */
    float levels[LEVELS];    /* of N, ascending */
    float floor;             /* the smallest N collected */
    map_facts *maps;         /* [n_maps + 1] */
    float *row_maxima; /* [n_maps][width]: of S_ij, j > i, over unmasked tokens; -INFINITY without any */
    size_t n_maps;
    hs_pair *pairs;
    size_t capacity; /* of pairs */
    hs_pair *sorted; /* scratch of as many as are requested */
    hs__team team;
} search;

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* ---- reading a map ---- */

/* Reads HS__LANES elements of a row from column j on. At the end of the row, reads the last ones and puts
 * -INFINITY before j. Masked elements are -INFINITY too. Returns the column of the first lane. T is at
 * least HS__LANES. */
static inline __attribute__((always_inline)) size_t
lanes_read(const float *row, size_t T, const int32_t *unmasked, size_t j, hs__floats *ret)
{
    const hs__ints order = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const hs__ints none = (hs__ints)((hs__floats){0} - INFINITY);
    const size_t first = hs_min(j, T - HS__LANES);
    const hs__ints selected = (order >= (int32_t)(j - first)) & *(const hs__ints *)(unmasked + first);
    const hs__floats values = *(const hs__floats *)(row + first);
    *ret = (hs__floats)(((hs__ints)values & selected) | (none & ~selected));
    return first;
}

static HS_CLONES void rows_measure(const float *similarity, size_t T, const int32_t *unmasked,
                                   float *ret_maxima)
{
    for (size_t i = 0; i < T; i++) {
        hs__floats top = (hs__floats){0} - INFINITY;
        for (size_t j = unmasked[i] ? i + 1 : T; j < T; j += HS__LANES) {
            hs__floats v;
            lanes_read(similarity + i * T, T, unmasked, j, &v);
            const hs__ints more = v > top; /* not where v is NaN */
            top = (hs__floats)(((hs__ints)v & more) | ((hs__ints)top & ~more));
        }
        ret_maxima[i] = -INFINITY;
        for (size_t k = 0; k < HS__LANES; k++)
            ret_maxima[i] = top[k] > ret_maxima[i] ? top[k] : ret_maxima[i];
    }
}

/* Counts the elements that reach each cut, and prefetches the map `next`: counting leaves memory idle. */
static HS_CLONES void map_count(const float *similarity, size_t T, const int32_t *unmasked,
                                const float *maxima, const float *cuts, const float *next,
                                uint32_t *ret_counts)
{
    hs__ints counts[LEVELS] = {0};
    for (size_t i = 0; i < T; i++)
        for (size_t j = maxima[i] >= cuts[0] ? i + 1 : T; j < T; j += HS__LANES) {
            hs__floats v;
            __builtin_prefetch(next + i * T + j, 0, 2);
            lanes_read(similarity + i * T, T, unmasked, j, &v);
#pragma GCC unroll 8
            for (size_t l = 0; l < LEVELS; l++)
                counts[l] -= v >= cuts[l]; /* true is -1 */
        }
    for (size_t l = 0; l < LEVELS; l++) {
        ret_counts[l] = 0;
        for (size_t k = 0; k < HS__LANES; k++)
            ret_counts[l] += (uint32_t)counts[l][k];
    }
}

/* Returns the bitwise or of all lanes. */
static inline __attribute__((always_inline)) uint32_t lanes_or(const hs__ints *v)
{
    hs__ints all = *v;
    all |= __builtin_shufflevector(all, all, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
    all |= __builtin_shufflevector(all, all, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
    all |= __builtin_shufflevector(all, all, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
    return (uint32_t)(all[0] | all[1]);
}

/* Finds the columns from `start` on whose elements reach the cut, ascending, among at most HS__BLOCK
 * columns. Returns their number. */
static HS_CLONES size_t row_find(const float *row, size_t T, const int32_t *unmasked, size_t start, float cut,
                                 uint16_t *ret_columns)
{
    const hs__ints powers = {1,      1 << 1, 1 << 2,  1 << 3,  1 << 4,  1 << 5,  1 << 6,  1 << 7,
                             1 << 8, 1 << 9, 1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15};
    const size_t end = hs_min(start + HS__BLOCK, T);
    size_t n = 0;
    for (size_t j = start; j < end; j += HS__LANES) {
        hs__floats v;
        const size_t first = lanes_read(row, T, unmasked, j, &v);
        const hs__ints bits = (v >= cut) & powers;
        uint32_t found = lanes_or(&bits);
        for (; found; found &= found - 1)
            ret_columns[n++] = (uint16_t)(first + (size_t)__builtin_ctz(found));
    }
    return n;
}

/* A map as wide as s->width; `copy` is where a narrow one is widened. */
static const float *map_read(const search *s, size_t map, float copy[HS__LANES * HS__LANES])
{
    const size_t T = s->n_tokens;
    const float *similarity = s->similarities + map * T * T;
    if (T == s->width)
        return similarity;
    for (size_t i = 0; i < T; i++)
        memcpy(copy + i * HS__LANES, similarity + i * T, T * sizeof *copy);
    return copy;
}

static void count(const search *s, size_t map, const float *similarity)
{
    map_facts *facts = &s->maps[map];
    float cuts[LEVELS];
    if (facts->maximum == 0)
        return;
    for (size_t l = 0; l < LEVELS; l++)
        cuts[l] = hs__similarity_cut(s->levels[l], facts->maximum);
    const bool read_next = map + 1 < s->n_maps && s->width == s->n_tokens;
    map_count(similarity, s->width, s->unmasked, s->row_maxima + map * s->width, cuts,
              read_next ? similarity + s->width * s->width : similarity, facts->counts);
}

/* The first walk. */
static void task_measure(void *context, size_t map, size_t slot)
{
    const search *s = context;
    float copy[HS__LANES * HS__LANES] = {0}, maximum = 0, *maxima = s->row_maxima + map * s->width;
    const float *similarity = map_read(s, map, copy);
    (void)slot;
    rows_measure(similarity, s->width, s->unmasked, maxima);
    for (size_t i = 0; i < s->width; i++)
        maximum = maxima[i] > maximum ? maxima[i] : maximum;
    s->maps[map].maximum = maximum < INFINITY ? maximum : 0;
    count(s, map, similarity);
}

static void task_count(void *context, size_t map, size_t slot)
{
    const search *s = context;
    float copy[HS__LANES * HS__LANES] = {0};
    (void)slot;
    count(s, map, map_read(s, map, copy));
}

/* Progress of collecting a map: the address of its next pair, and how many more ties with the floor it
 * may take. */
typedef struct collection {
    hs_pair *to;
    size_t n_ties;
} collection;

static void row_collect(const search *s, size_t map, const float *row, size_t i, float cut, collection *ret)
{
    const float maximum = s->maps[map].maximum;
    uint16_t columns[HS__BLOCK];
    for (size_t start = i + 1; start < s->width; start += HS__BLOCK) {
        const size_t n = row_find(row, s->width, s->unmasked, start, cut, columns);
        for (size_t k = 0; k < n; k++) {
            const float similarity = row[columns[k]], normalized = similarity / maximum;
            if (normalized == s->floor && ret->n_ties-- == 0) {
                ret->n_ties = 0;
                continue;
            }
            *ret->to++ = (hs_pair){
                .layer = s->layers[map / s->n_heads],
                .head = s->heads[map % s->n_heads],
                .i = (uint16_t)i,
                .j = columns[k],
                .similarity = similarity,
                .normalized = normalized,
            };
        }
    }
}

static void task_collect(void *context, size_t map, size_t slot)
{
    const search *s = context;
    const map_facts *facts = &s->maps[map];
    float copy[HS__LANES * HS__LANES] = {0};
    (void)slot;
    if (facts[1].start == facts->start)
        return;
    const float cut = hs__similarity_cut(s->floor, facts->maximum), *similarity = map_read(s, map, copy);
    collection found = {s->pairs + facts->start, facts->n_ties};
    for (size_t i = 0; i < s->width; i++)
        if (s->row_maxima[map * s->width + i] >= cut)
            row_collect(s, map, similarity + i * s->width, i, cut, &found);
}

/* ---- where to cut ---- */

/* Counts with `task` the elements that reach LEVELS levels on [low, high), floats as bits, which order
 * like the floats if positive. Levels are denser towards the top, where the cut usually is. */
static void levels_count(search *s, uint32_t low, uint32_t high, hs__task task, uint64_t *ret_totals)
{
    const uint32_t squared = LEVELS * LEVELS;
    for (uint32_t l = 0; l < LEVELS; l++) {
        const uint64_t share = squared - (LEVELS - l) * (LEVELS - l);
        s->levels[l] = float_of(low + (uint32_t)(((high - low) * share + squared - 1) / squared));
        ret_totals[l] = 0;
    }
    hs__team_share(&s->team, s->n_maps, task, s);
    for (size_t map = 0; map < s->n_maps; map++)
        for (size_t l = 0; l < LEVELS; l++)
            ret_totals[l] += s->maps[map].counts[l];
}

/* Sets each map's number of pairs: all that reach the level. If these are too many and the next level is
 * the neighbouring float, all that reach the next level and the first of the ties. */
static void starts_set(search *s, size_t level, size_t n_pairs, bool exactly)
{
    size_t start = 0, n_above = 0;
    for (size_t map = 0; exactly && map < s->n_maps; map++)
        n_above += s->maps[map].counts[level + 1];
    size_t n_ties = exactly ? n_pairs - n_above : SIZE_MAX;
    for (size_t map = 0; map < s->n_maps; map++) {
        map_facts *facts = &s->maps[map];
        const size_t above = exactly ? facts->counts[level + 1] : 0;
        facts->n_ties = (uint32_t)hs_min(facts->counts[level] - above, n_ties);
        n_ties -= facts->n_ties;
        facts->start = start;
        start += above + facts->n_ties;
    }
    s->maps[s->n_maps].start = start;
    s->floor = s->levels[level];
}

/* Finds a floor of at least `lowest` that the strongest pairs_max elements, and not many more, reach, and
 * sets the addresses of the pairs. Returns the number of pairs requested. *ret_total counts the elements that
 * reach the threshold. */
static size_t floor_find(search *s, float threshold, float lowest, size_t pairs_max, uint64_t *ret_total)
{
    uint32_t low = bits_of(threshold), high = bits_of(1) + 1; /* N is 1 at most */
    uint64_t totals[LEVELS];
    levels_count(s, low, high, task_measure, totals);
    *ret_total = totals[0];
    if (lowest > threshold) {
        low = bits_of(lowest);
        levels_count(s, low, high, task_count, totals);
    }
    const size_t n_pairs = totals[0] < pairs_max ? (size_t)totals[0] : pairs_max;
    while (n_pairs > 0) {
        size_t l = LEVELS - 1;
        while (l > 0 && totals[l] < n_pairs)
            l--;
        const bool enough = totals[l] / SPARE <= n_pairs, neighbours = high - low == 1;
        if (enough || neighbours) {
            starts_set(s, l, n_pairs, !enough);
            return n_pairs;
        }
        low = bits_of(s->levels[l]);
        high = l + 1 < LEVELS ? bits_of(s->levels[l + 1]) : high;
        levels_count(s, low, high, task_count, totals);
    }
    return 0;
}

/* ---- the pairs ---- */
enum { DIGIT_BITS = 11, N_DIGITS = 1 << DIGIT_BITS };

typedef struct pair_list {
    hs_pair *items;
    size_t n, capacity;
} pair_list;

/* Returns N of the n_kept-th strongest pair of all lists, as bits, 1 <= n_kept <= their number, by a radix
 * selection: three histograms of 11 bits, the highest first. *ret_n_ties is how many pairs with this N are
 * among the n_kept. */
static uint32_t weakest_find(const pair_list *lists, size_t n_lists, size_t n_kept, size_t *ret_n_ties)
{
    uint32_t prefix = 0, known = 0; /* the bits found so far, and a mask of them */
    for (int shift = 2 * DIGIT_BITS; shift >= 0; shift -= DIGIT_BITS) {
        uint32_t counts[N_DIGITS] = {0}, digit = N_DIGITS - 1;
        for (size_t l = 0; l < n_lists; l++) {
            for (size_t i = 0; i < lists[l].n; i++) {
                const uint32_t bits = bits_of(lists[l].items[i].normalized);
                counts[bits >> shift & (N_DIGITS - 1)] += (bits & known) == prefix;
            }
        }
        while (counts[digit] < n_kept)
            n_kept -= counts[digit--];
        prefix |= digit << shift;
        known |= (uint32_t)(N_DIGITS - 1) << shift;
    }
    *ret_n_ties = n_kept;
    return prefix;
}

/* Keeps the strongest n_kept > 0 pairs of all lists, in order; of equal ones the first. Returns N of the
 * weakest that is kept. */
static float weakest_drop(pair_list *lists, size_t n_lists, size_t n_kept)
{
    size_t n_ties;
    const uint32_t weakest = weakest_find(lists, n_lists, n_kept, &n_ties);
    for (size_t l = 0; l < n_lists; l++) {
        hs_pair *pairs = lists[l].items;
        size_t n_left = 0;
        for (size_t i = 0; i < lists[l].n; i++) {
            const uint32_t bits = bits_of(pairs[i].normalized);
            if (bits < weakest || (bits == weakest && n_ties == 0))
                continue;
            n_ties -= bits == weakest;
            pairs[n_left++] = pairs[i];
        }
        lists[l].n = n_left;
    }
    return float_of(weakest);
}

/* Task: sorts the pairs of one map by N, the largest first. They come in the order of i and j, which equal N
 * keep. A radix sort from the lowest byte on; a byte that all pairs share is skipped, as the highest is for N
 * from 1/4 on. */
static void task_sort(void *context, size_t group, size_t slot)
{
    enum { BYTES = 4, VALUES = 256 };
    const search *s = context;
    const size_t start = s->maps[group].start, n = s->maps[group + 1].start - start;
    const uint32_t most = bits_of(1);
    hs_pair *from = s->pairs + start, *to = s->sorted + start;
    uint32_t counts[BYTES][VALUES] = {0};
    (void)slot;
    for (size_t i = 0; i < n; i++)
        for (size_t b = 0; b < BYTES; b++)
            counts[b][(most - bits_of(from[i].normalized)) >> 8 * b & (VALUES - 1)]++;
    for (size_t b = 0; b < BYTES; b++) {
        uint32_t *places = counts[b], before = 0;
        if (places[(most - bits_of(from[0].normalized)) >> 8 * b & (VALUES - 1)] == n)
            continue;
        for (size_t v = 0; v < VALUES; v++) {
            const uint32_t count = places[v];
            places[v] = before;
            before += count;
        }
        for (size_t i = 0; i < n; i++)
            to[places[(most - bits_of(from[i].normalized)) >> 8 * b & (VALUES - 1)]++] = from[i];
        hs_pair *const sorted = to;
        to = from;
        from = sorted;
    }
    if (from != s->pairs + start)
        memcpy(s->pairs + start, from, n * sizeof *from);
}

/* Sorts the pairs of each map; the maps are already in order. Returns false if there is no memory. */
static bool pairs_sort(search *s, size_t n)
{
    size_t n_groups = 0;
    s->sorted = malloc(n * sizeof *s->sorted);
    if (!s->sorted)
        return false;
    for (size_t i = 0; i < n; i++)
        if (i == 0 || s->pairs[i].layer != s->pairs[i - 1].layer || s->pairs[i].head != s->pairs[i - 1].head)
            s->maps[n_groups++].start = i;
    s->maps[n_groups].start = n;
    hs__team_share(&s->team, n_groups, task_sort, s);
    free(s->sorted);
    return true;
}

/* Gives memory back that a list does not fill, if that is more than `spare` pairs. */
static void list_fit(pair_list *list, size_t spare)
{
    if (list->capacity - list->n <= spare)
        return;
    hs_pair *fitting = realloc(list->items, (list->n ? list->n : 1) * sizeof *fitting);
    if (fitting) {
        list->items = fitting;
        list->capacity = list->n;
    }
}

/* Collects the pairs; s->pairs is NULL if there is no memory. */
static void pairs_make(search *s, size_t n_pairs)
{
    const size_t n_found = s->maps[s->n_maps].start;
    assert(n_found > 0);
    s->pairs = malloc(n_found * sizeof *s->pairs);
    if (!s->pairs)
        return;
    hs__team_share(&s->team, s->n_maps, task_collect, s);
    pair_list list = {s->pairs, n_found, n_found};
    if (n_found > n_pairs)
        weakest_drop(&list, 1, n_pairs);
    list_fit(&list, SPARE_KEPT);
    s->pairs = list.items;
    s->capacity = list.capacity;
    if (!pairs_sort(s, n_pairs)) {
        free(s->pairs);
        s->pairs = NULL;
    }
}

/* Returns [width] of marks that a search reads, which the caller frees, or NULL. */
static int32_t *unmasked_create(const uint8_t *masked, size_t n_tokens)
{
    int32_t *unmasked = calloc(hs_max(n_tokens, HS__LANES), sizeof *unmasked);
    for (size_t i = 0; i < n_tokens && unmasked; i++)
        unmasked[i] = hs__is_masked(masked, i) ? 0 : -1;
    return unmasked;
}

/* Searches the maps of s, of which similarities, layers, heads, n_heads, n_tokens, unmasked and n_maps are
 * set. */
static hs_status search_run(search *s, float threshold, float lowest, size_t pairs_max, hs_runtime *runtime,
                            size_t n_threads, pair_list *ret_pairs, uint64_t *ret_total, hs_error *err)
{
    s->width = hs_max(s->n_tokens, HS__LANES);
    s->maps = calloc(s->n_maps + 1, sizeof *s->maps);
    s->row_maxima = malloc(s->n_maps * s->width * sizeof *s->row_maxima);
    if (!s->maps || !s->row_maxima || !s->unmasked) {
        free(s->maps);
        free(s->row_maxima);
        return hs_fail(err, HS_NO_MEMORY, "no memory to search %zu maps for pairs", s->n_maps);
    }
    uint64_t total;
    hs__team_start(&s->team, runtime, s->n_maps * s->n_tokens * s->n_tokens < SHARED_MIN ? 1 : n_threads);
    const size_t n_pairs = floor_find(s, threshold, lowest, pairs_max, &total);
    if (n_pairs > 0)
        pairs_make(s, n_pairs);
    hs__team_finish(&s->team);
    free(s->maps);
    free(s->row_maxima);
    if (n_pairs > 0 && !s->pairs)
        return hs_fail(err, HS_NO_MEMORY, "no memory for %zu pairs", n_pairs);
    *ret_pairs = (pair_list){s->pairs, n_pairs, s->capacity};
    *ret_total = total;
    return HS_OK;
}

hs_status hs_pairs_find(const hs_capture *capture, hs_tap similarity, const uint8_t *masked, float threshold,
                        size_t pairs_max, size_t n_threads, hs_pair **ret_pairs, size_t *ret_n_pairs,
                        uint64_t *ret_total, hs_error *err)
{
    int32_t *unmasked = unmasked_create(masked, capture->n_tokens);
    search s = {.similarities = capture->arrays[similarity],
                .layers = capture->layers,
                .heads = capture->heads,
                .n_heads = capture->n_heads,
                .n_tokens = capture->n_tokens,
                .unmasked = unmasked,
                .n_maps = capture->n_layers * capture->n_heads};
    pair_list pairs = {0};
    const hs_status st =
        search_run(&s, threshold, 0, pairs_max, capture->runtime, n_threads, &pairs, ret_total, err);
    free(unmasked);
    if (st)
        return st;
    *ret_pairs = pairs.items;
    *ret_n_pairs = pairs.n;
    return HS_OK;
}

/* ---- maps that are shown one by one ----
 *
 * The pool keeps the pairs of each map that may still be among the strongest. Once it has twice as many as
 * requested, the weakest go, and later maps are only searched above them. A pair that goes has pairs_max
 * pairs before it in the order of the result, so the result does not depend on the order of the maps. */

struct hs_pair_pool {
    size_t n_maps, n_tokens, pairs_max;
    float threshold;
    int32_t *unmasked;
    pthread_mutex_t mutex; /* guards everything below */
    float floor;           /* of N: weaker pairs are not among the strongest */
    size_t n_pairs;        /* in all lists */
    uint64_t total;
    pair_list lists[]; /* [n_maps] */
};

hs_status hs_pair_pool_create(size_t n_maps, size_t n_tokens, const uint8_t *masked, float threshold,
                              size_t pairs_max, hs_pair_pool **ret_pool, hs_error *err)
{
    hs_pair_pool *pool = calloc(1, sizeof *pool + n_maps * sizeof *pool->lists);
    int32_t *unmasked = unmasked_create(masked, n_tokens);
    if (!pool || !unmasked) {
        free(pool);
        free(unmasked);
        return hs_fail(err, HS_NO_MEMORY, "no memory for the pairs of %zu maps", n_maps);
    }
    pool->n_maps = n_maps;
    pool->n_tokens = n_tokens;
    pool->pairs_max = pairs_max;
    pool->threshold = threshold;
    pool->unmasked = unmasked;
    pthread_mutex_init(&pool->mutex, NULL); /* cannot fail with glibc's default attributes */
    *ret_pool = pool;
    return HS_OK;
}

/* Drops the weakest pairs, with the mutex held. */
static void pool_prune(hs_pair_pool *pool)
{
    pool->floor = weakest_drop(pool->lists, pool->n_maps, pool->pairs_max);
    pool->n_pairs = pool->pairs_max;
    for (size_t map = 0; map < pool->n_maps; map++)
        list_fit(&pool->lists[map], SPARE_POOLED);
}

hs_status hs_pair_pool_add(hs_pair_pool *pool, size_t map, uint16_t layer, uint16_t head,
                           const float *similarity, hs_error *err)
{
    search s = {.similarities = similarity,
                .layers = &layer,
                .heads = &head,
                .n_heads = 1,
                .n_tokens = pool->n_tokens,
                .unmasked = pool->unmasked,
                .n_maps = 1};
    pair_list found = {0};
    uint64_t total = 0;
    pthread_mutex_lock(&pool->mutex);
    const float lowest = pool->floor;
    pthread_mutex_unlock(&pool->mutex);
    const hs_status st =
        search_run(&s, pool->threshold, lowest, pool->pairs_max, NULL, 1, &found, &total, err);
    if (st)
        return st;
    list_fit(&found, SPARE_POOLED);
    pthread_mutex_lock(&pool->mutex);
    pool->lists[map] = found;
    pool->n_pairs += found.n;
    pool->total += total;
    if (pool->n_pairs / 2 > pool->pairs_max)
        pool_prune(pool);
    pthread_mutex_unlock(&pool->mutex);
    return HS_OK;
}

hs_status hs_pair_pool_take(hs_pair_pool *pool, hs_pair **ret_pairs, size_t *ret_n_pairs, uint64_t *ret_total,
                            hs_error *err)
{
    *ret_pairs = NULL;
    *ret_total = pool->total;
    if (pool->n_pairs > pool->pairs_max)
        pool_prune(pool);
    *ret_n_pairs = 0;
    if (pool->n_pairs == 0)
        return HS_OK;
    hs_pair *pairs = malloc(pool->n_pairs * sizeof *pairs);
    if (!pairs)
        return hs_fail(err, HS_NO_MEMORY, "no memory for %zu pairs", pool->n_pairs);
    for (size_t map = 0; map < pool->n_maps; map++) {
        const pair_list *list = &pool->lists[map];
        if (list->n > 0)
            memcpy(pairs + *ret_n_pairs, list->items, list->n * sizeof *pairs);
        *ret_n_pairs += list->n;
    }
    *ret_pairs = pairs;
    return HS_OK;
}

void hs_pair_pool_destroy(hs_pair_pool *pool)
{
    if (!pool)
        return;
    for (size_t map = 0; map < pool->n_maps; map++)
        free(pool->lists[map].items);
    free(pool->unmasked);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}
