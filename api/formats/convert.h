/* convert.h - converts floats to half floats and bytes, vectorised. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Converts to IEEE binary16, rounding to nearest, ties to even. Overflow gives infinity, NaN stays NaN. */
void hs__convert_f2(const float *from, size_t n, uint16_t *to);

/* Rounds 255 x to the nearest integer, ties to even, clipped to [0, 255]. NaN gives 0. */
void hs__convert_u1(const float *from, size_t n, uint8_t *to);
