/* kernels_amx.c - products by AMX for x86-64, which comes with AVX-512. Not for clang, as kernels_bf16.c. */
#include "engine/kernels/int8.h"

#if defined __x86_64__ && !defined __clang__
#pragma GCC target(                                                                                          \
    "avx512f,avx512vl,avx512dq,avx512bw,avx512bf16,amx-tile,amx-bf16,amx-int8,fma,prefer-vector-width=512")
#define LANES     16
#define AMX_BF16  hs__bf16_amx
#define AMX_INT8  hs__int8_amx
#define AMX_INT24 hs__int24_amx
#include "engine/kernels/amx_tiles.h"
#include "engine/kernels/kernels_vec.h"

static INLINE void store_digits(int8_t *p, ivec v)
{
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8((__m512i)v));
}

static INLINE void store_bf16(uint16_t *p, vec v)
{
    _mm256_storeu_si256((__m256i *)p, (__m256i)_mm512_cvtneps_pbh(v));
}

#include "engine/kernels/int8_rows_avx512.h"

#include "engine/kernels/amx_body.h"
#endif
