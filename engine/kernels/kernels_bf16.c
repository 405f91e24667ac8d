/* kernels_bf16.c - products of bfloat16 for x86-64 with AVX512_BF16. Not for clang, which does not know
 * the pragma and builds only the fuzz targets. */
#include "engine/kernels/kernels.h"

#if defined __x86_64__ && !defined __clang__
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,avx512bf16,fma,prefer-vector-width=512")
#define LANES           16
#define TILE_ROWS       9
#define TILE_VECS       3
#define TILE_HEIGHTS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9)
#define SUM_PARTS       1 /* bfloat16 is coarser than any rounding of its sums */
#include "engine/kernels/kernels_vec.h"

#include <string.h>

typedef uint32_t operand; /* two bfloat16: the even k in the low half */
typedef __m512i operands;

static INLINE operands load_operands(const operand *p)
{
    return _mm512_loadu_si512(p);
}

static INLINE operands splat_operand(operand x)
{
    return _mm512_set1_epi32((int)x);
}

static INLINE vec add_product(vec sum, operands a, operands b)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
}

#include "engine/kernels/product_body.h"

static size_t words(size_t n)
{
    return (n + 1) / 2;
}

static void convert(size_t n_rows, size_t n, const float *x, size_t ldx, const float *factors, uint32_t *y)
{
    (void)factors;
    const size_t whole = n / LANES * LANES;
    for (size_t i = 0; i < n_rows; i++, x += ldx, y += (n + 1) / 2) {
        for (size_t j = 0; j < whole; j += LANES)
            _mm256_storeu_si256((__m256i *)(y + j / 2), (__m256i)_mm512_cvtneps_pbh(load(x + j)));
        if (whole < n) {
            uint16_t last[LANES];
            _mm256_storeu_si256((__m256i *)last,
                                (__m256i)_mm512_cvtneps_pbh(load_part(x + whole, n - whole, 0)));
            memcpy(y + whole / 2, last, (n - whole + 1) / 2 * sizeof *y);
        }
    }
}

const hs__bf16_kernels hs__bf16_avx512 = {
    .name = "avx512_bf16",
    .tile_rows = TILE_ROWS,
    .depth = words,
    .conversion = {words, convert},
    .product = multiply_panels,
};
#endif
