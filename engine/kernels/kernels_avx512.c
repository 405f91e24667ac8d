/* kernels_avx512.c - the kernels for x86-64 with AVX-512. */
#include "engine/kernels/kernels.h"

#if defined __x86_64__
/* clang has another pragma for it, which must not reach the functions of these headers. */
#include <immintrin.h>
#include <math.h>
#include <string.h>
#if defined __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,fma"))),              \
                             apply_to = function)
#else
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,fma,prefer-vector-width=512")
#endif
#define LANES           16
#define TILE_ROWS       9
#define TILE_VECS       3
#define TILE_HEIGHTS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9)
#define KERNELS         hs__kernels_avx512
#define KERNELS_NAME    "avx512"
#define SUM_PARTS       4
#include "engine/kernels/kernels_body.h"
#if defined __clang__
#pragma clang attribute pop
#endif
#endif
