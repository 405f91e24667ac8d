/* kernels_vec.h - vectors of LANES floats in gcc's vector types; arithmetic is per lane. Files that are
 * compiled once per instruction set choose it (#pragma GCC target) and define LANES before they include
 * this file. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined __SSE__
#include <immintrin.h>
#elif defined __ARM_NEON
#include <arm_neon.h>
#endif

#define INLINE inline __attribute__((always_inline))

typedef float vec __attribute__((vector_size(LANES * 4)));
typedef int32_t ivec __attribute__((vector_size(LANES * 4)));
typedef uint32_t uvec __attribute__((vector_size(LANES * 4)));
typedef int32_t ivec_in_memory __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef float vec_in_memory __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

static INLINE vec load(const float *p)
{
    return *(const vec_in_memory *)p;
}

static INLINE void store(float *p, vec v)
{
    *(vec_in_memory *)p = v;
}

static INLINE vec splat(float x)
{
    return x - (vec){0};
}

/* Prefetches n_bytes, at most max_bytes (a constant), into the second-level cache. */
static INLINE void fetch(const char *from, size_t n_bytes, size_t max_bytes)
{
    enum { LINE = 64 };
#pragma GCC unroll 4
    for (size_t at = 0; at < max_bytes; at += LINE)
        if (at < n_bytes)
            __builtin_prefetch(from + at, 0, 2);
}

#if LANES == 8 && defined __AVX2__
/* Returns all ones in the first n lanes, 0 in the others. */
static INLINE ivec first_lanes(size_t n)
{
    const ivec lanes = {0, 1, 2, 3, 4, 5, 6, 7};
    return lanes < (int32_t)n;
}
#endif

/* Loads the first n < LANES floats at p; the other lanes are `rest`. Reads nothing beyond them. */
static INLINE vec load_part(const float *p, size_t n, float rest)
{
#if LANES == 16 && defined __AVX512F__
    return _mm512_mask_loadu_ps(_mm512_set1_ps(rest), (__mmask16)((1u << n) - 1), p);
#elif LANES == 8 && defined __AVX2__
    const ivec inside = first_lanes(n);
    return (vec)((ivec)_mm256_maskload_ps(p, (__m256i)inside) | ((ivec)splat(rest) & ~inside));
#else
    vec v = splat(rest);
    for (size_t i = 0; i < n; i++)
        v[i] = p[i];
    return v;
#endif
}

static INLINE void store_part(float *p, size_t n, vec v)
{
#if LANES == 16 && defined __AVX512F__
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), v);
#elif LANES == 8 && defined __AVX2__
    _mm256_maskstore_ps(p, (__m256i)first_lanes(n), v);
#else
    for (size_t i = 0; i < n; i++)
        p[i] = v[i];
#endif
}

/* Stores v past the caches, at an address aligned to a vector (non-temporal store). A cache line that is
 * written completely is not read from memory first. stream_end orders these stores before later ones. gcc has
 * no such store for arm64. */
#if defined __SSE__
#define HAS_STREAM true
#else
#define HAS_STREAM false
#endif
static INLINE void stream(float *p, vec v)
{
#if LANES == 16 && defined __AVX512F__
    _mm512_stream_ps(p, v);
#elif LANES == 8 && defined __AVX__
    _mm256_stream_ps(p, v);
#elif LANES == 4 && defined __SSE__
    _mm_stream_ps(p, v);
#else
    store(p, v);
#endif
}

static INLINE void stream_end(void)
{
#if defined __SSE__
    _mm_sfence();
#endif
}

/* Returns the larger of each lane; gcc has no vector ?: in C. */
static INLINE vec larger(vec a, vec b)
{
#if LANES == 16 && defined __AVX512F__
    return _mm512_max_ps(a, b);
#elif LANES == 8 && defined __AVX__
    return _mm256_max_ps(a, b);
#elif LANES == 4 && defined __SSE__
    return _mm_max_ps(a, b);
#else
    ivec m = a > b;
    return (vec)(((ivec)a & m) | ((ivec)b & ~m));
#endif
}

/* Returns sum + a b, rounded once where the CPU can. Left to itself, gcc 14 fuses the two steps in some loops
 * and not in others, so a row's bits would depend on the number of rows beside it. */
static INLINE vec add_fused(vec sum, vec a, vec b)
{
#if LANES == 16 && defined __AVX512F__
    return _mm512_fmadd_ps(a, b, sum);
#elif LANES == 8 && defined __FMA__
    return _mm256_fmadd_ps(a, b, sum);
#elif LANES == 4 && defined __aarch64__
    return (vec)vfmaq_f32((float32x4_t)sum, (float32x4_t)a, (float32x4_t)b);
#else
    return sum + a * b;
#endif
}

/* Rounds to the nearest integer, for |v| < 2^22. Larger numbers are not NaN. */
static INLINE vec nearest(vec v)
{
#if LANES == 16 && defined __AVX512F__
    return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
    const vec round = splat(0x1.8p23f); /* whose last bit is 1: adding it rounds */
    return v + round - round;
#endif
}

/* Returns v 2^n for integers n; 0 where n is below -125. */
static INLINE vec scaled(vec v, vec n)
{
#if LANES == 16 && defined __AVX512F__
    const __mmask16 alive = _mm512_cmp_ps_mask(n, splat(-125), _CMP_GE_OQ);
    return _mm512_maskz_scalef_ps(alive, v, n);
#else
    const ivec alive = n >= splat(-125);
    return (vec)(((uvec)v + ((uvec) __builtin_convertvector(n, ivec) << 23)) & (uvec)alive);
#endif
}

/* Returns a / b, or within a unit in the last place of it, for numbers b near 1: a division of 16 floats
 * takes as long as six other steps. */
static INLINE vec quotient(vec a, vec b)
{
#if LANES == 16 && defined __AVX512F__
    const vec r = _mm512_rcp14_ps(b); /* to 14 bits, which a step of Newton's method doubles */
    return a * add_fused(r, r, add_fused(splat(1), -b, r));
#else
    return a / b;
#endif
}

/* Returns v[index] for each lane. */
static INLINE vec permute(vec v, ivec index)
{
#if LANES == 16 && defined __AVX512F__
    return _mm512_permutexvar_ps((__m512i)index, v);
#elif LANES == 8 && defined __AVX2__
    return _mm256_permutevar8x32_ps(v, (__m256i)index);
#elif LANES == 4 && defined __aarch64__
    const uvec bytes =
        (uvec)index * 0x04040404 + 0x03020100; /* byte indexes of each lane, the lowest first */
    return (vec)vqtbl1q_u8((uint8x16_t)v, (uint8x16_t)bytes);
#else
    vec permuted = v;
    for (size_t i = 0; i < LANES; i++)
        permuted[i] = v[index[i]];
    return permuted;
#endif
}

/* Moves lanes down by half a vector, a quarter, and so on. The upper lanes of the result are not used. */
#if LANES == 16
#define FURTHER_8 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7
#define FURTHER_4 4, 5, 6, 7, 0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7
#define FURTHER_2 2, 3, 0, 1, 0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7
#define FURTHER_1 1, 0, 0, 1, 0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7
#elif LANES == 8
#define FURTHER_4 4, 5, 6, 7, 0, 1, 2, 3
#define FURTHER_2 2, 3, 0, 1, 0, 1, 2, 3
#define FURTHER_1 1, 0, 0, 1, 0, 1, 2, 3
#else
#define FURTHER_2 2, 3, 0, 1
#define FURTHER_1 1, 0, 0, 1
#endif
/* Adds the upper half to the lower half until one number is left. */
static INLINE float sum_lanes(vec v)
{
#if LANES == 16
    v += __builtin_shufflevector(v, v, FURTHER_8);
#endif
#if LANES >= 8
    v += __builtin_shufflevector(v, v, FURTHER_4);
#endif
    v += __builtin_shufflevector(v, v, FURTHER_2);
    v += __builtin_shufflevector(v, v, FURTHER_1);
    return v[0];
}

/* Interleaves a0 b0 a1 b1 ... and returns the first or second half. */
#if LANES == 16
#define FIRST_HALF  0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define SECOND_HALF 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#elif LANES == 8
#define FIRST_HALF  0, 8, 1, 9, 2, 10, 3, 11
#define SECOND_HALF 4, 12, 5, 13, 6, 14, 7, 15
#else
#define FIRST_HALF  0, 4, 1, 5
#define SECOND_HALF 2, 6, 3, 7
#endif
static INLINE vec interleave(vec a, vec b, bool second)
{
    return second ? __builtin_shufflevector(a, b, SECOND_HALF) : __builtin_shufflevector(a, b, FIRST_HALF);
}

/* Transposes: to[j][i] = from[i][j], LANES x n, n at most LANES. Interleaving row i with row i + LANES /
 * 2 moves one bit of the row's number into the column's number. One round for each bit exchanges them. */
static INLINE void transpose(const float *from, size_t ld_from, size_t n, float *to, size_t ld_to)
{
    vec rows[LANES], next[LANES];
#pragma GCC unroll 16
    for (size_t i = 0; i < LANES; i++)
        rows[i] = n == LANES ? load(from + i * ld_from) : load_part(from + i * ld_from, n, 0);
#pragma GCC unroll 4
    for (size_t bit = 1; bit < LANES; bit *= 2) {
#pragma GCC unroll 16
        for (size_t i = 0; i < LANES; i++)
            next[i] = interleave(rows[i / 2], rows[i / 2 + LANES / 2], i % 2);
#pragma GCC unroll 16
        for (size_t i = 0; i < LANES; i++)
            rows[i] = next[i];
    }
#pragma GCC unroll 16
    for (size_t i = 0; i < LANES; i++)
        if (i < n)
            store(to + i * ld_to, rows[i]);
}
