/* chance.c - counts a text's pairs at each distance, and sums shares over high pairs. */
#include "engine/statistics/chance.h"

#include "engine/analysis/analysis.h"
#include "engine/arena.h"
#include "model/base/clones.h"

#include <stdlib.h>
#include <string.h>

struct hs_chance {
    size_t n_tokens;
    uint64_t totals[HS_CHANCE_KINDS];
    uint32_t *shares[HS_CHANCE_KINDS]; /* [tokens_max], by distance */
    int32_t *first, *sentences;        /* [tokens_max] */
    uint8_t *ends, *ordinary;          /* [tokens_max]: tokens that end a sentence; that are not special */
};

static void layout(hs_chance *c, size_t tokens_max, hs__arena *arena)
{
    (void)hs__arena_take(arena, sizeof *c); /* the struct itself */
    for (size_t kind = 0; kind < HS_CHANCE_KINDS; kind++)
        c->shares[kind] = hs__arena_take(arena, tokens_max * sizeof *c->shares[kind]);
    c->first = hs__arena_take(arena, tokens_max * sizeof *c->first);
    c->sentences = hs__arena_take(arena, tokens_max * sizeof *c->sentences);
    c->ends = hs__arena_take(arena, tokens_max);
    c->ordinary = hs__arena_take(arena, tokens_max);
}

size_t hs_chance_bytes(size_t tokens_max)
{
    hs_chance unused;
    hs__arena arena = {0};
    layout(&unused, tokens_max, &arena);
    return arena.used;
}

hs_chance *hs_chance_create(size_t tokens_max)
{
    hs_chance *chance = calloc(1, hs_chance_bytes(tokens_max));
    if (chance) {
        hs__arena arena = {.base = chance};
        layout(chance, tokens_max, &arena);
    }
    return chance;
}

void hs_chance_destroy(hs_chance *chance)
{
    free(chance);
}

/* Counts the pairs at distance d of each kind. Returns the number of those without special tokens. */
static HS_CLONES uint32_t pairs_count(const int32_t *restrict first, const int32_t *restrict sentences,
                                      const uint8_t *restrict ordinary, size_t n, size_t d,
                                      uint32_t ret_counts[HS_CHANCE_KINDS])
{
    uint32_t repeated = 0, same_sentence = 0, both = 0, n_ordinary = 0;
    for (size_t i = 0; i + d < n; i++) {
        const uint32_t is_repeated = first[i] == first[i + d], is_ordinary = ordinary[i] & ordinary[i + d],
                       is_same = is_ordinary & (sentences[i] == sentences[i + d]);
        n_ordinary += is_ordinary;
        repeated += is_repeated;
        same_sentence += is_same;
        both += is_repeated & is_same;
    }
    ret_counts[HS_CHANCE_REPEATED] = repeated;
    ret_counts[HS_CHANCE_SAME_SENTENCE] = same_sentence;
    ret_counts[HS_CHANCE_BOTH] = both;
    return n_ordinary;
}

/* Returns part / size in units of 2^-31; 0 of nothing. */
static uint32_t share_of(uint64_t part, uint64_t size)
{
    return size ? (uint32_t)(((part << HS_CHANCE_BITS) + size / 2) / size) : 0;
}

void hs_chance_find(hs_chance *c, const hs_corpus_text *text)
{
    const size_t T = c->n_tokens = text->n_tokens;
    uint32_t counts[HS_CHANCE_KINDS];
    for (size_t i = 0; i < T; i++) {
        c->ends[i] = text->roles[i] == HS_ROLE_SENTENCE_END;
        c->ordinary[i] = !text->special[i];
    }
    hs_sentences_find(c->ends, text->texts, text->special, T, c->sentences);
    hs_repeats_find(text->ids, T, c->first);
    for (size_t kind = 0; kind < HS_CHANCE_KINDS; kind++)
        c->totals[kind] = c->shares[kind][0] = 0;
    for (size_t d = 1; d < T; d++) {
        const uint64_t n_ordinary = pairs_count(c->first, c->sentences, c->ordinary, T, d, counts);
        for (size_t kind = 0; kind < HS_CHANCE_KINDS; kind++) {
            c->shares[kind][d] = share_of(counts[kind], kind == HS_CHANCE_REPEATED ? T - d : n_ordinary);
            c->totals[kind] += counts[kind];
        }
    }
}

uint64_t hs_chance_total(const hs_chance *chance, hs_chance_kind kind)
{
    return chance->totals[kind];
}

static HS_CLONES uint64_t product_sum(const uint32_t *restrict a, const uint32_t *restrict b, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (uint64_t)a[i] * b[i];
    return sum;
}

void hs_chance_expect(const hs_chance *c, const uint32_t *distances, const uint32_t *ordinary,
                      uint64_t ret_expected[HS_CHANCE_KINDS])
{
    for (size_t kind = 0; kind < HS_CHANCE_KINDS; kind++)
        ret_expected[kind] =
            product_sum(c->shares[kind], kind == HS_CHANCE_REPEATED ? distances : ordinary, c->n_tokens);
}
