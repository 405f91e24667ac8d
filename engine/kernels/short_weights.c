/* short_weights.c - packs weights of fewer bits than floats, once, in plain C, and chooses the set of their
 * products of this CPU. */
#include "engine/kernels/int8.h"
#include "engine/kernels/kernels.h"

#include <float.h>
#include <math.h>
#include <string.h>

#if defined __x86_64__ && !defined __clang__
extern const hs__bf16_kernels hs__bf16_amx, hs__bf16_avx512, hs__bf16_wide;

/* Returns the faster products of bfloat16 without AMX. AMD's CPUs start VDPBF16PS often enough for twice the
 * products of floats; Intel's every second cycle, so that floats are as fast. */
static const hs__bf16_kernels *bf16_faster(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_is("amd") ? &hs__bf16_avx512 : &hs__bf16_wide;
}
extern const hs__int8_kernels hs__int24_amx, hs__int8_amx, hs__int8_avx512_vnni, hs__int8_avx_vnni;
#endif

const hs__bf16_kernels *hs__bf16_kernels_at(size_t index)
{
    const hs__bf16_kernels *sets[3] = {NULL};
    size_t n = 0;
#if defined __x86_64__ && !defined __clang__
    const hs__kernels *chosen = hs__kernels_select();
    if (hs__amx_permitted())
        sets[n++] = &hs__bf16_amx;
    if (chosen && strcmp(chosen->name, "avx512") == 0 && __builtin_cpu_supports("avx512bf16")) {
        sets[n++] = bf16_faster();
        sets[n++] = bf16_faster() == &hs__bf16_wide ? &hs__bf16_avx512 : &hs__bf16_wide;
    }
#endif
    return index < n ? sets[index] : NULL;
}

const hs__bf16_kernels *hs__bf16_kernels_select(void)
{
    return hs__bf16_kernels_at(0);
}

const hs__int8_kernels *hs__int8_kernels_at(size_t index)
{
    const hs__int8_kernels *sets[3] = {NULL};
    size_t n = 0;
#if defined __x86_64__ && !defined __clang__
    const hs__kernels *chosen = hs__kernels_select();
    if (hs__amx_permitted())
        sets[n++] = &hs__int8_amx;
    if (chosen && strcmp(chosen->name, "avx512") == 0 && __builtin_cpu_supports("avx512vnni"))
        sets[n++] = &hs__int8_avx512_vnni;
    if (chosen && strcmp(chosen->name, "base") != 0 && __builtin_cpu_supports("avxvnni"))
        sets[n++] = &hs__int8_avx_vnni;
#endif
    return index < n ? sets[index] : NULL;
}

const hs__int8_kernels *hs__int8_kernels_select(void)
{
    return hs__int8_kernels_at(0);
}

const hs__int8_kernels *hs__int24_kernels_select(void)
{
#if defined __x86_64__ && !defined __clang__
    return hs__amx_permitted() ? &hs__int24_amx : NULL;
#else
    return NULL;
#endif
}

/* Returns the columns, zeros included, of a panel of n columns. */
static size_t panel_width(size_t lanes, size_t n)
{
    return (n + lanes - 1) / lanes * lanes;
}

/* Returns x rounded to bfloat16, to nearest even. x is finite. */
static uint32_t bf16_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

void hs__bf16_pack(const hs__bf16_kernels *bf16, const hs__kernels *kernels, size_t K, size_t n_columns,
                   const float *source, uint32_t *panels)
{
    const size_t depth = bf16->depth(K);
    for (size_t first = 0; first < n_columns; first += kernels->panel) {
        const size_t n = n_columns - first < kernels->panel ? n_columns - first : kernels->panel;
        const size_t width = panel_width(kernels->lanes, n);
        memset(panels, 0, depth * width * sizeof *panels);
        for (size_t c = 0; c < n; c++, source += K)
            for (size_t k = 0; k < K; k++)
                panels[k / 2 * width + c] |= bf16_of(source[k]) << 16 * (k % 2);
        panels += depth * width;
    }
}

/* Packs one column: bytes of four k each, `width` words apart. */
static void pack_column(size_t K, const float *source, size_t width, uint32_t *words, float *ret_scale,
                        int32_t *ret_sum)
{
    float most = 0;
    for (size_t k = 0; k < K; k++)
        most = fabsf(source[k]) > most ? fabsf(source[k]) : most;
    const float steps = 127 / most, inverse = steps <= FLT_MAX ? steps : 0;
    int32_t sum = 0;
    for (size_t k = 0; k < K; k++) {
        const int32_t w = (int32_t)lrintf(source[k] * inverse);
        sum += w;
        words[k / 4 * width] |= (uint32_t)(uint8_t)w << 8 * (k % 4);
    }
    *ret_scale = inverse > 0 ? most / 127 : 0;
    *ret_sum = sum;
}

void hs__int8_pack(const hs__int8_kernels *kernels, size_t K, size_t n_columns, const float *source,
                   uint32_t *panel, float *scales, int32_t *sums)
{
    const size_t width = panel_width(kernels->lanes, n_columns);
    memset(panel, 0, kernels->depth(K) * width * sizeof *panel);
    memset(scales, 0, width * sizeof *scales);
    memset(sums, 0, width * sizeof *sums);
    for (size_t c = 0; c < n_columns; c++)
        pack_column(K, source + c * K, width, panel + c, &scales[c], &sums[c]);
}

/* Packs one column of int24: bytes of four k each, AMX's words of a row apart. Quotients and products are of
 * doubles, which lose nothing. */
static void pack_digits(size_t K, const float *source, const float *factors, uint32_t *words,
                        float *ret_scale)
{
    double most = 0;
    for (size_t k = 0; k < K; k++)
        most = fmax(most, fabs((double)source[k] / (double)factors[k]));
    const double steps = INT24_MAX / most, inverse = steps <= (double)FLT_MAX ? steps : 0;
    for (size_t k = 0; k < K; k++) {
        const int32_t q = (int32_t)lrint((double)source[k] / (double)factors[k] * inverse);
        const int32_t q1 = (q + 128) >> 8, digits[INT24_DIGITS] = {(q1 + 128) >> 8, q1, q};
        for (size_t d = 0; d < INT24_DIGITS; d++)
            words[(k / 64 * INT24_DIGITS + d) * 256 + k / 4 % 16 * 16] |= (uint32_t)(uint8_t)digits[d]
                                                                          << 8 * (k % 4);
    }
    *ret_scale = inverse > 0 ? (float)(most / INT24_MAX) : 0;
}

void hs__int24_pack(size_t K, size_t n_columns, const float *source, const float *factors, uint32_t *panel,
                    float *scales)
{
    enum { LANES = 16 };
    const size_t width = panel_width(LANES, n_columns), depth = INT24_DIGITS * ((K + 63) / 64 * 16);
    memset(panel, 0, depth * width * sizeof *panel);
    memset(scales, 0, width * sizeof *scales);
    for (size_t c = 0; c < n_columns; c++)
        pack_digits(K, source + c * K, factors, panel + c / LANES * depth * LANES + c % LANES, &scales[c]);
}
