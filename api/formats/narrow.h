/* narrow.h - floats as half floats and bytes, vectorised. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* IEEE binary16, rounded to nearest, ties to even; overflow is infinity, NaN stays NaN. */
void hs__narrow_f2(const float *from, size_t n, uint16_t *to);

/* 255 x to the nearest integer, ties to even, clipped to [0, 255]; NaN is 0. */
void hs__narrow_u1(const float *from, size_t n, uint8_t *to);
