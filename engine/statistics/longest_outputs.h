/* longest_outputs.h - figures of the pairs of a head's longest outputs (longest_pairs.h), as many as it has
 * high pairs. Lengths explain what these pairs show as well. */
#pragma once

#include "engine/statistics/statistics.h"

/* The texts of a batch, and memory for a head. */
typedef struct hs_longest hs_longest;

/* Creates texts of up to tokens_max tokens; NULL if memory is short. */
hs_longest *hs_longest_create(size_t tokens_max);
void hs_longest_destroy(hs_longest *longest); /* NULL is fine */
size_t hs_longest_bytes(size_t tokens_max);

/* Prepares for text k of a batch, below HS_CORPUS_BATCH. */
void hs_longest_text_find(hs_longest *longest, size_t k, const hs_corpus_text *text);

/* A head of a text: S, the lengths of the outputs that it is of, and its high pairs. */
typedef struct hs_longest_maps {
    const float *similarity, *lengths; /* [T][T], above the diagonal; [T] */
    const uint8_t *levels; /* pairs with a level above `threshold` are high: hs_corpus_batch_levels */
    size_t stride, threshold;
} hs_longest_maps;

typedef struct hs_longest_head {
    hs_corpus_observation observation;    /* of the pairs of the longest outputs; other figures are 0 */
    const uint32_t *distances, *ordinary; /* [T]: these pairs by distance; without special tokens. Borrowed,
                                             valid until the next head */
    int32_t focal;                        /* first position of the id that most of them hold; -1: none */
    uint64_t overlap;                     /* of them, high pairs */
    double r2; /* squared correlation of S with |o_i| |o_j| over all pairs; NAN if one is constant */
    double participation; /* (sum of l)^2 / sum of l^2 for the eigenvalues l of O'O; NAN if O is 0 */
} hs_longest_head;

/* Finds those of a head of text k with so many high pairs. */
void hs_longest_head_find(hs_longest *longest, size_t k, const hs_longest_maps *maps, uint64_t n_high,
                          hs_longest_head *ret);
