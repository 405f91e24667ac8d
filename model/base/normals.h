/* normals.h - normal random numbers from a seed. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Writes n normal numbers with mean 0 and this deviation (Box and Muller 1958, from splitmix64). */
void hs_normals_draw(uint64_t seed, double deviation, size_t n, float *ret);
