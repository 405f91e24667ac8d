/* longest_outputs.c - finds the n-th largest product of two lengths, and counts the pairs from it on. */
#include "engine/statistics/longest_outputs.h"

#include "engine/analysis/analysis.h"
#include "engine/arena.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct text {
    size_t n_tokens;
    int32_t *first, *sentences; /* [tokens_max] */
    uint8_t *special;           /* [tokens_max] */
} text;

struct hs_longest {
    text texts[HS_CORPUS_BATCH];
    uint8_t *ends;                            /* [tokens_max] */
    double *lengths, *sorted;                 /* [tokens_max] */
    uint32_t *distances, *ordinary, *holding; /* [tokens_max]; pairs that hold an id, at its first position */
};

static void layout(hs_longest *l, size_t tokens_max, hs__arena *arena)
{
    (void)hs__arena_take(arena, sizeof *l); /* the struct itself */
    for (size_t k = 0; k < HS_CORPUS_BATCH; k++) {
        l->texts[k].first = hs__arena_take(arena, tokens_max * sizeof *l->texts[k].first);
        l->texts[k].sentences = hs__arena_take(arena, tokens_max * sizeof *l->texts[k].sentences);
        l->texts[k].special = hs__arena_take(arena, tokens_max);
    }
    l->ends = hs__arena_take(arena, tokens_max);
    l->lengths = hs__arena_take(arena, tokens_max * sizeof *l->lengths);
    l->sorted = hs__arena_take(arena, tokens_max * sizeof *l->sorted);
    l->distances = hs__arena_take(arena, tokens_max * sizeof *l->distances);
    l->ordinary = hs__arena_take(arena, tokens_max * sizeof *l->ordinary);
    l->holding = hs__arena_take(arena, tokens_max * sizeof *l->holding);
}

size_t hs_longest_bytes(size_t tokens_max)
{
    hs_longest unused;
    hs__arena arena = {0};
    layout(&unused, tokens_max, &arena);
    return arena.used;
}

hs_longest *hs_longest_create(size_t tokens_max)
{
    hs_longest *longest = calloc(1, hs_longest_bytes(tokens_max));
    if (longest) {
        hs__arena arena = {.base = longest};
        layout(longest, tokens_max, &arena);
    }
    return longest;
}

void hs_longest_destroy(hs_longest *longest)
{
    free(longest);
}

void hs_longest_text_find(hs_longest *longest, size_t k, const hs_corpus_text *from)
{
    text *to = &longest->texts[k];
    to->n_tokens = from->n_tokens;
    for (size_t i = 0; i < from->n_tokens; i++)
        longest->ends[i] = from->roles[i] == HS_ROLE_SENTENCE_END;
    memcpy(to->special, from->special, from->n_tokens);
    hs_repeats_find(from->ids, from->n_tokens, to->first);
    hs_sentences_find(longest->ends, from->texts, from->special, from->n_tokens, to->sentences);
}

/* ---- lengths ---- */

static int larger_first(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* Counts the pairs of descending lengths whose product is at least this. */
static uint64_t pairs_from(const double *sorted, size_t n, double product)
{
    uint64_t count = 0;
    size_t end = n; /* sorted[i] * sorted[j] reaches the product for j < end */
    for (size_t i = 0; i < end; i++) {
        while (end > i + 1 && sorted[i] * sorted[end - 1] < product)
            end--;
        count += end - (i + 1);
    }
    return count;
}

/* Returns the n_pairs-th largest product of two of the lengths. Positive doubles are ordered as their bits
 * are. */
static double cut_find(hs_longest *l, size_t n, uint64_t n_pairs)
{
    uint64_t low = 0, high; /* at least n_pairs products reach low */
    memcpy(l->sorted, l->lengths, n * sizeof *l->sorted);
    qsort(l->sorted, n, sizeof *l->sorted, larger_first);
    const double most = l->sorted[0] * l->sorted[1];
    memcpy(&high, &most, sizeof high);
    while (low < high) {
        const uint64_t middle = low + (high - low + 1) / 2;
        double product;
        memcpy(&product, &middle, sizeof product);
        if (pairs_from(l->sorted, n, product) >= n_pairs)
            low = middle;
        else
            high = middle - 1;
    }
    double cut;
    memcpy(&cut, &low, sizeof cut);
    return cut;
}

/* ---- pairs ---- */

static void pair_add(hs_longest *l, const text *t, size_t i, size_t j, hs_corpus_observation *o)
{
    const bool ordinary = !t->special[i] && !t->special[j], repeated = t->first[i] == t->first[j],
               same = ordinary && t->sentences[i] == t->sentences[j];
    l->distances[j - i]++;
    l->ordinary[j - i] += ordinary;
    l->holding[t->first[i]]++;
    l->holding[t->first[j]] += !repeated;
    o->high_pairs++;
    o->ordinary_pairs += ordinary;
    o->repeated_pairs += repeated;
    o->same_sentence_pairs += same;
    o->both_pairs += same && repeated;
    o->distance_sum += j - i;
}

/* Adds n_pairs pairs from the product `cut` on, of which l->sorted has the lengths. */
static void pairs_add(hs_longest *l, const text *t, const hs_longest_maps *m, double cut, uint64_t n_pairs,
                      hs_longest_head *ret)
{
    const size_t n = t->n_tokens;
    uint64_t n_equal = n_pairs - pairs_from(l->sorted, n, nextafter(cut, INFINITY)); /* of this product */
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++) {
            const double product = l->lengths[i] * l->lengths[j];
            if (product < cut || (product == cut && !n_equal))
                continue;
            n_equal -= product == cut;
            pair_add(l, t, i, j, &ret->observation);
            ret->overlap += m->levels[i * m->stride + j] > m->threshold;
        }
}

static void focal_find(const hs_longest *l, size_t n, hs_longest_head *ret)
{
    uint32_t most = 0;
    ret->focal = -1;
    for (size_t i = 0; i < n; i++)
        if (l->holding[i] > most) {
            most = l->holding[i];
            ret->focal = (int32_t)i;
        }
    if (most)
        ret->observation.focal_ratio = (double)most / (double)ret->observation.high_pairs;
}

/* ---- the whole map ---- */

/* Finds how much of S is lengths, and how many directions the outputs take: the squares of O O' add up to
 * those of O'O. */
static void map_find(const hs_longest *l, const float *similarity, size_t n, hs_longest_head *ret)
{
    double s = 0, r = 0, ss = 0, rr = 0, sr = 0, trace = 0, squares = 0;
    const double n_pairs = (double)hs_pairs_of(n);
    for (size_t i = 0; i < n; i++) {
        const double square = l->lengths[i] * l->lengths[i];
        trace += square;
        squares += square * square;
        for (size_t j = i + 1; j < n; j++) {
            const double x = (double)similarity[i * n + j], y = l->lengths[i] * l->lengths[j];
            s += x;
            r += y;
            ss += x * x;
            rr += y * y;
            sr += x * y;
        }
    }
    const double var_s = ss - s * s / n_pairs, var_r = rr - r * r / n_pairs, cov = sr - s * r / n_pairs;
    const bool varies = n > 1 && var_s > 1e-12 * ss && var_r > 1e-12 * rr;
    ret->r2 = varies ? cov * cov / (var_s * var_r) : (double)NAN;
    ret->participation = trace > 0 ? trace * trace / (squares + 2 * ss) : (double)NAN;
}

void hs_longest_head_find(hs_longest *l, size_t k, const hs_longest_maps *maps, uint64_t n_high,
                          hs_longest_head *ret)
{
    const text *t = &l->texts[k];
    const size_t n = t->n_tokens;
    *ret = (hs_longest_head){.distances = l->distances, .ordinary = l->ordinary};
    memset(l->distances, 0, n * sizeof *l->distances);
    memset(l->ordinary, 0, n * sizeof *l->ordinary);
    memset(l->holding, 0, n * sizeof *l->holding);
    for (size_t i = 0; i < n; i++)
        l->lengths[i] = (double)maps->lengths[i];
    if (n_high)
        pairs_add(l, t, maps, cut_find(l, n, n_high), n_high, ret);
    focal_find(l, n, ret);
    map_find(l, maps->similarity, n, ret);
}
