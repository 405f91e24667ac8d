/* gaussian_chance.h - how many similarities are low by chance: those of outputs drawn at random.
 *
 * Inner products of high-dimensional vectors are mostly small beside the largest one, whatever a head does.
 * So the share of low N is compared with that of as many Gaussian outputs. A draw depends on a text's number
 * and length alone. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the bytes of scratch of a text of so many tokens. */
size_t hs_gaussian_bytes(size_t n_tokens, size_t width);

/* Draws an output of `width` standard normal numbers for each token of text `number`, centred over the text
 * if it is to be. Returns how many of its pairs have N below `limit`. scratch has hs_gaussian_bytes. */
uint64_t hs_gaussian_below(uint64_t number, size_t n_tokens, size_t width, bool centered, float limit,
                           float *scratch);
