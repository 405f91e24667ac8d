/* kernels_avx512.c - the kernels for x86-64 with AVX-512. */
#include "engine/kernels/kernels.h"

#if defined __x86_64__
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,fma,prefer-vector-width=512")
#define LANES           16
#define TILE_ROWS       9
#define TILE_VECS       3
#define TILE_HEIGHTS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9)
#define KERNELS         hs__kernels_avx512
#define KERNELS_NAME    "avx512"
#define SUM_PARTS       4
#include "engine/kernels/kernels_body.h"
#endif
