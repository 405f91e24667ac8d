/* longest_pairs.h - the pairs of a head's longest outputs, and how many directions its outputs take.
 *
 * S_ij is |o_i| |o_j| times a cosine. Where lengths differ much, high pairs are those of the longest outputs
 * whatever their directions. So as many pairs with the largest |o_i| |o_j| are a control. Functions allocate
 * nothing. Source: docs/reference/formulas.md, "Lengths". */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The pairs i < j with the largest products of two lengths. If several equal the smallest product, the first
 * ones in the text count. */
typedef struct hs_longest_pairs {
    double cut;                   /* the smallest product */
    size_t last_row, last_column; /* the last pair with that product; SIZE_MAX: all of them count */
} hs_longest_pairs;

/* Returns the product of two lengths, exactly. */
static inline double hs_length_product(float a, float b)
{
    return (double)a * (double)b;
}

/* Finds the n_pairs pairs of the largest products: lengths [n] are 0 or more, n_pairs is at least 1 and at
 * most n (n - 1) / 2. scratch is [2 n]. */
hs_longest_pairs hs_longest_pairs_find(const float *lengths, size_t n, uint64_t n_pairs, uint32_t *scratch);

/* Returns true if the pair (i, j), whose lengths have this product, is one of them. */
static inline bool hs_longest_pairs_has(const hs_longest_pairs *pairs, size_t i, size_t j, double product)
{
    const bool in_place = i < pairs->last_row || (i == pairs->last_row && j <= pairs->last_column);
    return product > pairs->cut || (product == pairs->cut && in_place);
}

/* Returns the smallest float whose product with a length above 0 reaches the cut, which is above 0. */
float hs_longest_partner(float length, double cut);

/* Returns the participation ratio of outputs O [n][d], (sum of l)^2 / sum of l^2 for the eigenvalues l of
 * O'O: how many directions they take, at most d. NAN if O is 0. The squares of O'O add up to those of S = O
 * O', so it takes the lengths [n] and the sum of the squares of S above the diagonal. */
double hs_participation_ratio(const float *lengths, size_t n, double squares_above);
