/* int8_rows_avx512.h - int8_rows.h for AVX-512. */
static INLINE vec fused(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}

static INLINE ivec rounded(vec v)
{
    return (ivec)_mm512_cvtps_epi32(v);
}

static INLINE void store_bytes(uint8_t *p, ivec v)
{
    _mm_storeu_si128((__m128i *)p, _mm512_cvtusepi32_epi8((__m512i)v));
}

#include "engine/kernels/int8_rows.h"
