/* kernels_avx512_vnni.c - products of bytes for x86-64 with AVX512_VNNI. Not for clang, as kernels_bf16.c. */
#include "engine/kernels/int8.h"

#if defined __x86_64__ && !defined __clang__
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,avx512vnni,fma,prefer-vector-width=512")
#define LANES           16
#define TILE_ROWS       9
#define TILE_VECS       3
#define TILE_HEIGHTS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9)
#define INT8_KERNELS    hs__int8_avx512_vnni
#define INT8_NAME       "avx512_vnni"
#include "engine/kernels/kernels_vec.h"

static INLINE ivec add_products(ivec sum, ivec u, ivec w)
{
    return (ivec)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)u, (__m512i)w);
}

#include "engine/kernels/int8_rows_avx512.h"

#include "engine/kernels/int8_body.h"
#endif
