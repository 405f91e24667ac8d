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

static uint32_t bf16_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

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
        for (size_t j = whole; j < n; j += 2)
            y[j / 2] = bf16_of(x[j]) | (j + 1 < n ? bf16_of(x[j + 1]) << 16 : 0);
    }
}

enum { CHAINS = 12, ROUNDS = 200 }; /* sums enough to hide what an instruction waits */

static uint64_t cycles_of_bf16(void)
{
    vec sums[CHAINS] = {0};
    const operands one = splat_operand((operand)__builtin_ia32_rdtsc() & 0x3f803f80);
    const uint64_t start = __builtin_ia32_rdtsc();
    for (size_t r = 0; r < ROUNDS; r++)
#pragma GCC unroll 12
        for (size_t i = 0; i < CHAINS; i++) {
            sums[i] = add_product(sums[i], one, one);
            __asm__ volatile("" : "+v"(sums[i]));
        }
    return __builtin_ia32_rdtsc() - start;
}

static uint64_t cycles_of_floats(void)
{
    vec sums[CHAINS] = {0};
    const vec one = splat((float)(__builtin_ia32_rdtsc() & 1));
    const uint64_t start = __builtin_ia32_rdtsc();
    for (size_t r = 0; r < ROUNDS; r++)
#pragma GCC unroll 12
        for (size_t i = 0; i < CHAINS; i++) {
            sums[i] = add_fused(sums[i], one, one);
            __asm__ volatile("" : "+v"(sums[i]));
        }
    return __builtin_ia32_rdtsc() - start;
}

bool hs__bf16_gains(void)
{
    enum { TRIES = 20 };
    uint64_t bf16 = UINT64_MAX, floats = UINT64_MAX;
    for (size_t i = 0; i < TRIES; i++) {
        const uint64_t a = cycles_of_bf16(), b = cycles_of_floats();
        bf16 = a < bf16 ? a : bf16;
        floats = b < floats ? b : floats;
    }
    return 3 * bf16 < 5 * floats; /* twice the products in less than 5/3 of the time */
}

const hs__bf16_kernels hs__bf16_avx512 = {
    .name = "avx512_bf16",
    .tile_rows = TILE_ROWS,
    .depth = words,
    .conversion = {words, convert},
    .product = multiply_panels,
};
#endif
