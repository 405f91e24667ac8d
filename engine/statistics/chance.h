/* chance.h - what a text's pairs would show by chance, had they only their distances.
 *
 * Near tokens share a sentence more often than far ones. So each distance has shares of its own: of the
 * text's pairs i, i + d, the fraction that is repeated, and the fraction in one sentence. The expected number
 * among high pairs is the sum over them of the share at their distance. Special tokens are in no sentence:
 * the shares of sentences, and their expected numbers, are of pairs without them. Shares are integers, so
 * expected numbers are exact sums and merge in any order. */
#pragma once

#include "engine/statistics/statistics.h"
#include "engine/statistics/sums.h"

typedef enum hs_chance_kind {
    HS_CHANCE_REPEATED,
    HS_CHANCE_SAME_SENTENCE,
    HS_CHANCE_BOTH,
    HS_CHANCE_KINDS
} hs_chance_kind;

#define HS_CHANCE_BITS 31 /* shares and expected numbers are in units of 2^-31 */

/* Shares of one text at each distance. */
typedef struct hs_chance hs_chance;

/* Creates shares for texts of up to tokens_max tokens; NULL if memory is short. */
hs_chance *hs_chance_create(size_t tokens_max);
void hs_chance_destroy(hs_chance *chance); /* NULL is fine */
size_t hs_chance_bytes(size_t tokens_max);

/* Finds the shares of a text. */
void hs_chance_find(hs_chance *chance, const hs_corpus_text *text);

/* Returns how many of all the text's pairs are of a kind. */
uint64_t hs_chance_total(const hs_chance *chance, hs_chance_kind kind);

/* Returns the expected numbers among pairs, of which distances [n_tokens] has the number at each distance,
 * and ordinary [n_tokens] that of pairs without special tokens. At most 2^54. */
void hs_chance_expect(const hs_chance *chance, const uint32_t *distances, const uint32_t *ordinary,
                      uint64_t ret_expected[HS_CHANCE_KINDS]);

/* Adds an expected number to a real number of sums. */
static inline void hs_chance_add(int64_t words[2], uint64_t expected)
{
    _Static_assert(HS_CHANCE_BITS == HS_REAL_BITS, "expected numbers are real numbers of sums");
    words[0] += (int64_t)(expected >> HS_CHANCE_BITS);
    words[1] += (int64_t)(expected & ((UINT64_C(1) << HS_CHANCE_BITS) - 1));
}
