/* sparse.h - sparse vectors of texts, as SPLADE makes them of the logits of masked tokens (Formal et al.
 * 2021, arXiv 2107.05720 and 2109.10086).
 *
 *     w[v] = max over tokens t of ln(1 + max(0, l[t][v])), or the sum over tokens
 *
 * Every entry v of the vocabulary has a weight, and most are 0. Special tokens count like others. */
#pragma once

#include "model/architecture.h"

#include <stddef.h>
#include <stdint.h>

typedef struct hs_sparse_entry {
    int32_t id;
    float weight; /* above 0 */
} hs_sparse_entry;

/* Adds the logits [n_rows][vocab_size] of some tokens. sums [vocab_size] is 0 before the first. */
void hs_sparse_add(const hs_sparse_head *head, const float *logits, size_t n_rows, size_t vocab_size,
                   double *sums);

/* Writes the entries above 0 of a text, of equal weights the lower id first, and returns their number. The
 * largest weights come first, and a head with n_most keeps so many. ret_entries is [vocab_size]. */
size_t hs_sparse_find(const hs_sparse_head *head, const double *sums, size_t vocab_size,
                      hs_sparse_entry *ret_entries);
