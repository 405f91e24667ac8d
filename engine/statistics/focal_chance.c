/* focal_chance.c - draws pairs of a text and counts how many hold each token.
 *
 * If a draw has over half of the pairs, those that it leaves out are drawn. */
#include "engine/statistics/focal_chance.h"

#include "engine/analysis/analysis.h"
#include "engine/arena.h"
#include "model/base/bytes.h"

#include <stdlib.h>
#include <string.h>

typedef struct text {
    size_t n_tokens;
    uint64_t seed;
    int32_t *first; /* [tokens_max]: where a token's id occurs first */
    uint32_t *all;  /* [tokens_max]: pairs that hold an id, at its first position */
} text;

struct hs_focal_chance {
    text texts[HS_CORPUS_BATCH];
    uint32_t *holding; /* [tokens_max]: as `all`, of the drawn pairs */
    uint64_t *drawn;   /* [tokens_max][tokens_max] bits */
};

static size_t drawn_words(size_t n_tokens)
{
    return (n_tokens * n_tokens + 63) / 64;
}

static void layout(hs_focal_chance *c, size_t tokens_max, hs__arena *arena)
{
    (void)hs__arena_take(arena, sizeof *c); /* the struct itself */
    for (size_t k = 0; k < HS_CORPUS_BATCH; k++) {
        c->texts[k].first = hs__arena_take(arena, tokens_max * sizeof *c->texts[k].first);
        c->texts[k].all = hs__arena_take(arena, tokens_max * sizeof *c->texts[k].all);
    }
    c->holding = hs__arena_take(arena, tokens_max * sizeof *c->holding);
    c->drawn = hs__arena_take(arena, drawn_words(tokens_max) * sizeof *c->drawn);
}

size_t hs_focal_chance_bytes(size_t tokens_max)
{
    hs_focal_chance unused;
    hs__arena arena = {0};
    layout(&unused, tokens_max, &arena);
    return arena.used;
}

hs_focal_chance *hs_focal_chance_create(size_t tokens_max)
{
    hs_focal_chance *chance = calloc(1, hs_focal_chance_bytes(tokens_max));
    if (chance) {
        hs__arena arena = {.base = chance};
        layout(chance, tokens_max, &arena);
    }
    return chance;
}

void hs_focal_chance_destroy(hs_focal_chance *chance)
{
    free(chance);
}

/* An id that k of T tokens have is in k (T - 1) pairs, less one for each pair of two of them. */
void hs_focal_chance_find(hs_focal_chance *c, size_t k, const hs_corpus_text *of)
{
    text *t = &c->texts[k];
    const size_t T = t->n_tokens = of->n_tokens;
    t->seed = hs_mix(of->number + HS_MIX_STEP);
    hs_repeats_find(of->ids, T, t->first);
    memset(t->all, 0, T * sizeof *t->all);
    for (size_t i = 0; i < T; i++)
        t->all[t->first[i]]++;
    for (size_t i = 0; i < T; i++)
        t->all[i] = (uint32_t)(t->all[i] * (T - 1) - (uint64_t)t->all[i] * (t->all[i] - 1) / 2);
}

/* Draws n different pairs into `holding`. */
static void pairs_draw(hs_focal_chance *c, const text *t, uint64_t state, uint64_t n)
{
    const uint64_t T = t->n_tokens;
    memset(c->holding, 0, T * sizeof *c->holding);
    memset(c->drawn, 0, drawn_words(T) * sizeof *c->drawn);
    while (n > 0) {
        const uint64_t x = hs_mix(state += HS_MIX_STEP);
        const uint64_t a = (x >> 32) * T >> 32, b = (x & UINT32_MAX) * T >> 32;
        const uint64_t cell = (a < b ? a : b) * T + (a < b ? b : a), bit = UINT64_C(1) << (cell % 64);
        if (a == b || c->drawn[cell / 64] & bit)
            continue;
        c->drawn[cell / 64] |= bit;
        c->holding[t->first[a]]++;
        c->holding[t->first[b]] += t->first[a] != t->first[b];
        n--;
    }
}

hs_focal_draw hs_focal_chance_draw(hs_focal_chance *c, size_t k, uint64_t head, uint64_t n_pairs)
{
    const text *t = &c->texts[k];
    const size_t T = t->n_tokens;
    const uint64_t n_all = T * (T - 1) / 2, n = n_pairs < n_all ? n_pairs : n_all;
    const bool is_rest = n > n_all / 2;
    size_t focal = 0;
    if (!n)
        return (hs_focal_draw){-1, 0};
    pairs_draw(c, t, hs_mix(t->seed + (head + 1) * HS_MIX_STEP), is_rest ? n_all - n : n);
    for (size_t i = 0; i < T; i++) {
        c->holding[i] = is_rest ? t->all[i] - c->holding[i] : c->holding[i];
        focal = c->holding[i] > c->holding[focal] ? i : focal;
    }
    return (hs_focal_draw){(int32_t)focal, (double)c->holding[focal] / (double)n};
}
