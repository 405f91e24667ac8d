/* convert.c - converts floats to smaller types.
 *
 * Computes every case and selects one without branches, so that gcc vectorises the loops. */
#include "api/formats/arrays.h"

#include "model/base/clones.h"

static inline uint32_t bits_of(float value)
{
    union {
        float value;
        uint32_t bits;
    } u = {value};
    return u.bits;
}

static inline float float_of(uint32_t bits)
{
    union {
        uint32_t bits;
        float value;
    } u = {bits};
    return u.value;
}

static inline uint16_t half_of(float value)
{
    const uint32_t bits = bits_of(value), a = bits & 0x7fffffff;
    /* Normal: exponent rebiased from 127 to 15, then 13 bits rounded off; a carry runs on into the exponent.
     */
    const uint32_t normal = (a - (112u << 23) + 0xfff + ((a >> 13) & 1)) >> 13;
    /* Below 2^-14: the sum with 1/2 has 2^-24 for its last bit, which is a half float's smallest step. */
    const uint32_t small = bits_of(float_of(a) + 0.5f) - 0x3f000000;
    const uint32_t finite = a < 0x38800000 ? small : normal;
    const uint32_t half = a > 0x7f800000 ? 0x7e00 : a >= 0x47800000 ? 0x7c00 : finite;
    return (uint16_t)(half | ((bits >> 16) & 0x8000));
}

HS_CLONES void hs__convert_f2(const float *restrict from, size_t n, uint16_t *restrict to)
{
    for (size_t i = 0; i < n; i++)
        to[i] = half_of(from[i]);
}

HS_CLONES void hs__convert_u1(const float *restrict from, size_t n, uint8_t *restrict to)
{
    for (size_t i = 0; i < n; i++) {
        const float scaled = from[i] * 255.0f;
        const float low = scaled > 0.0f ? scaled : 0.0f, clipped = low < 255.0f ? low : 255.0f;
        to[i] = (uint8_t)bits_of(clipped + 8388608.0f); /* the sum's last bit is 1: rounded to an integer */
    }
}
