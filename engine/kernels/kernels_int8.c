/* kernels_int8.c - quantises weights, once, in plain C, and chooses the set of 8-bit products of this
 * CPU. */
#include "engine/kernels/int8.h"
#include "engine/kernels/kernels.h"

#include <float.h>
#include <math.h>
#include <string.h>

#if defined __x86_64__ && !defined __clang__
extern const hs__int8_kernels hs__int8_avx512_vnni, hs__int8_avx_vnni;
#endif

const hs__int8_kernels *hs__int8_kernels_at(size_t index)
{
    const hs__int8_kernels *sets[3] = {NULL};
    size_t n = 0;
#if defined __x86_64__ && !defined __clang__
    const hs__kernels *chosen = hs__kernels_select();
    __builtin_cpu_init();
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
    const size_t width = (n_columns + kernels->lanes - 1) / kernels->lanes * kernels->lanes;
    memset(panel, 0, hs__int8_depth(K) * width * sizeof *panel);
    memset(scales, 0, width * sizeof *scales);
    memset(sums, 0, width * sizeof *sums);
    for (size_t c = 0; c < n_columns; c++)
        pack_column(K, source + c * K, width, panel + c, &scales[c], &sums[c]);
}
