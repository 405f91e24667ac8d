/* sparse.c - SPLADE's vector. Logarithms rise with their argument, so the largest one is found of the largest
 * logit. */
#include "engine/analysis/sparse.h"

#include "model/base/clones.h"

#include <math.h>
#include <stdlib.h>

HS_CLONES
static void largest_keep(const float *logits, size_t n, double *largest)
{
    for (size_t i = 0; i < n; i++)
        largest[i] = (double)logits[i] > largest[i] ? (double)logits[i] : largest[i];
}

static double logarithm(const hs_sparse_head *head, double logit)
{
    const double weight = logit > 0 ? log1p(logit) : 0;
    return head->twice ? log1p(weight) : weight;
}

void hs_sparse_add(const hs_sparse_head *head, const float *logits, size_t n_rows, size_t vocab_size,
                   double *sums)
{
    for (size_t row = 0; row < n_rows && !head->sums; row++)
        largest_keep(logits + row * vocab_size, vocab_size, sums);
    for (size_t row = 0; row < n_rows && head->sums; row++)
        for (size_t i = 0; i < vocab_size; i++)
            sums[i] += logarithm(head, (double)logits[row * vocab_size + i]);
}

static int by_weight(const void *first, const void *second)
{
    const hs_sparse_entry *a = first, *b = second;
    return a->weight != b->weight ? (a->weight < b->weight) - (a->weight > b->weight)
                                  : (a->id > b->id) - (a->id < b->id);
}

size_t hs_sparse_find(const hs_sparse_head *head, const double *sums, size_t vocab_size,
                      hs_sparse_entry *ret_entries)
{
    size_t n = 0;
    for (size_t i = 0; i < vocab_size; i++) {
        const float weight = (float)(head->sums ? sums[i] : logarithm(head, sums[i]));
        if (weight > 0)
            ret_entries[n++] = (hs_sparse_entry){(int32_t)i, weight};
    }
    qsort(ret_entries, n, sizeof *ret_entries, by_weight);
    return head->n_most > 0 && head->n_most < n ? head->n_most : n;
}
