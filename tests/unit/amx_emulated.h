/* amx_emulated.h - the operations of amx_tiles.h in plain C, bit for bit.
 *
 * TDPBF16PS is as Intel's manual describes it. Even and odd numbers of the 16 pairs have a sum of their own,
 * which begins at 0 and takes fused multiply-adds in order. Both sums are added, and the result is added to
 * c. Every step rounds to nearest even. Subnormal numbers are read and written as 0, whatever MXCSR says. A
 * NaN may have other bits than the CPU's.
 *
 * Compile with -ffp-contract=off. fmaf must be exact, as glibc's is. */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef union emulated_tile {
    uint8_t bytes[16][64];
    int8_t signed_bytes[16][64];
    uint16_t halves[16][32];
    float floats[16][16];
    int32_t ints[16][16];
} emulated_tile;

static emulated_tile emulated[8];
static size_t emulated_rows, emulated_first; /* rows of tiles before the first of B */

static inline void tiles_begin(size_t n_rows, size_t first)
{
    emulated_first = first;
    emulated_rows = n_rows;
    memset(emulated, 0, sizeof emulated);
}

static inline void tiles_end(void)
{
    emulated_rows = 0;
}

/* Returns x, or 0 with its sign if it is subnormal. */
static inline float flushed(float x)
{
    return fpclassify(x) == FP_SUBNORMAL ? copysignf(0, x) : x;
}

static inline float float_of(uint16_t half)
{
    const uint32_t bits = (uint32_t)half << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return flushed(x);
}

static inline void emulated_bf16(emulated_tile *c, const emulated_tile *a, const emulated_tile *b)
{
    for (size_t i = 0; i < emulated_rows; i++)
        for (size_t j = 0; j < 16; j++) {
            float sums[2] = {0};
            for (size_t k = 0; k < 32; k++)
                sums[k % 2] = flushed(
                    fmaf(float_of(a->halves[i][k]), float_of(b->halves[k / 2][2 * j + k % 2]), sums[k % 2]));
            c->floats[i][j] = flushed(flushed(c->floats[i][j]) + flushed(sums[0] + sums[1]));
        }
}

static inline void emulated_bytes(emulated_tile *c, const emulated_tile *a, const emulated_tile *b,
                                  bool is_signed)
{
    for (size_t i = 0; i < emulated_rows; i++)
        for (size_t j = 0; j < 16; j++)
            for (size_t k = 0; k < 64; k++) {
                const int32_t x = is_signed ? a->signed_bytes[i][k] : a->bytes[i][k];
                c->ints[i][j] += x * b->signed_bytes[k / 4][4 * j + k % 4]; /* callers avoid overflow */
            }
}

static inline void emulated_load(size_t t, const void *p, size_t step)
{
    for (size_t i = 0; i < (t < emulated_first ? emulated_rows : 16); i++)
        memcpy(emulated[t].bytes[i], (const char *)p + i * step, 64);
}

static inline void emulated_store(size_t t, void *p, size_t step)
{
    for (size_t i = 0; i < emulated_rows; i++)
        memcpy((char *)p + i * step, emulated[t].bytes[i], 64);
}

#define TILE_LOAD(t, p, step)  emulated_load(t, p, step)
#define TILE_STORE(t, p, step) emulated_store(t, p, step)
#define TILE_ZERO(t)           memset(&emulated[t], 0, sizeof emulated[t])
#define TILE_BF16(c, a, b)     emulated_bf16(&emulated[c], &emulated[a], &emulated[b])
#define TILE_U8S8(c, a, b)     emulated_bytes(&emulated[c], &emulated[a], &emulated[b], false)
#define TILE_S8S8(c, a, b)     emulated_bytes(&emulated[c], &emulated[a], &emulated[b], true)
