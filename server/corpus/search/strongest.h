/* strongest.h - keeps the strongest pairs of a map in a bounded, sorted list. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A pair of a map. */
typedef struct hs__strong_pair {
    uint32_t i, j;
    float value;
} hs__strong_pair;

/* Inserts a pair into a list sorted by descending value that holds at most n_most. Among equal values the
 * earlier one stays first. */
void hs__strongest_insert(hs__strong_pair *list, size_t *n, size_t n_most, hs__strong_pair pair);

/* Finds the strongest partner j of every row i of a map [n][n] and keeps the n_most strongest of these pairs,
 * the strongest first. Leaves out rows and partners where skip [n] is set, and j = i. With `upper`, the map
 * is symmetric and only read above the diagonal. Returns the number of pairs. */
size_t hs__strongest_partners(const float *map, size_t n, const uint8_t *skip, bool upper, size_t n_most,
                              hs__strong_pair *ret_pairs);
