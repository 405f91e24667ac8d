/* kernels_avx_vnni.c - products of bytes for x86-64 with AVX-VNNI, which CPUs without AVX-512 have. Not for
 * clang, as kernels_bf16.c. */
#include "engine/kernels/int8.h"

#if defined __x86_64__ && !defined __clang__
#pragma GCC target("avx2,fma,avxvnni")
#define LANES           8
#define TILE_ROWS       6
#define TILE_VECS       2
#define TILE_HEIGHTS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#define INT8_KERNELS    hs__int8_avx_vnni
#define INT8_NAME       "avx_vnni"
#include "engine/kernels/kernels_vec.h"

static INLINE ivec add_products(ivec sum, ivec u, ivec w)
{
    return (ivec)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)u, (__m256i)w);
}

static INLINE vec fused(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}

static INLINE ivec rounded(vec v)
{
    return (ivec)_mm256_cvtps_epi32(v);
}

static INLINE void store_bytes(uint8_t *p, ivec v)
{
    const __m128i low = _mm256_castsi256_si128((__m256i)v), high = _mm256_extracti128_si256((__m256i)v, 1);
    const __m128i words = _mm_packus_epi32(low, high);
    _mm_storel_epi64((__m128i *)p, _mm_packus_epi16(words, words));
}

#include "engine/kernels/int8_rows.h"

#include "engine/kernels/int8_body.h"
#endif
