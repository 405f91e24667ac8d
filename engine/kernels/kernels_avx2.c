/* kernels_avx2.c - the kernels for x86-64 with AVX2 and FMA. */
#include "engine/kernels/kernels.h"

#if defined __x86_64__
/* clang has another pragma for it, which must not reach the functions of these headers. */
#include <immintrin.h>
#include <math.h>
#include <string.h>
#if defined __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif
#define LANES           8
#define TILE_ROWS       6
#define TILE_VECS       2
#define TILE_HEIGHTS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#define KERNELS         hs__kernels_avx2
#define KERNELS_NAME    "avx2"
#define SUM_PARTS       4
#include "engine/kernels/kernels_body.h"
#if defined __clang__
#pragma clang attribute pop
#endif
#endif
