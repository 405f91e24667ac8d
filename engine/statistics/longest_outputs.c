/* longest_outputs.c - counts the pairs of a head's longest outputs, and correlates S with their lengths. */
#include "engine/statistics/longest_outputs.h"

#include "engine/analysis/analysis.h"
#include "engine/analysis/longest_pairs.h"
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
    uint32_t *sorting;                        /* [2 tokens_max] */
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
    l->sorting = hs__arena_take(arena, 2 * tokens_max * sizeof *l->sorting);
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

/* Adds the n_pairs pairs of the longest outputs. */
static void pairs_add(hs_longest *l, const text *t, const hs_longest_maps *m, uint64_t n_pairs,
                      hs_longest_head *ret)
{
    const size_t n = t->n_tokens;
    const hs_longest_pairs pairs = hs_longest_pairs_find(m->lengths, n, n_pairs, l->sorting);
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++) {
            if (!hs_longest_pairs_has(&pairs, i, j, hs_length_product(m->lengths[i], m->lengths[j])))
                continue;
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

/* Finds how much of S is lengths, and how many directions the outputs take. */
static void map_find(const hs_longest_maps *m, size_t n, hs_longest_head *ret)
{
    double s = 0, r = 0, ss = 0, rr = 0, sr = 0;
    const double n_pairs = (double)hs_pairs_of(n);
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++) {
            const double x = (double)m->similarity[i * n + j],
                         y = hs_length_product(m->lengths[i], m->lengths[j]);
            s += x;
            r += y;
            ss += x * x;
            rr += y * y;
            sr += x * y;
        }
    const double var_s = ss - s * s / n_pairs, var_r = rr - r * r / n_pairs, cov = sr - s * r / n_pairs;
    const bool varies = n > 1 && var_s > 1e-12 * ss && var_r > 1e-12 * rr;
    ret->r2 = varies ? cov * cov / (var_s * var_r) : (double)NAN;
    ret->participation = hs_participation_ratio(m->lengths, n, ss);
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
    if (n_high)
        pairs_add(l, t, maps, n_high, ret);
    focal_find(l, n, ret);
    map_find(maps, n, ret);
}
