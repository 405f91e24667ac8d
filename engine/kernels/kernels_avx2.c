/* kernels_avx2.c - the kernels for x86-64 with AVX2 and FMA. */
#include "engine/kernels/kernels.h"

#if defined __x86_64__
#pragma GCC target("avx2,fma")
#define LANES           8
#define TILE_ROWS       6
#define TILE_VECS       2
#define TILE_HEIGHTS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#define KERNELS         hs__kernels_avx2
#define KERNELS_NAME    "avx2"
#define SUM_PARTS       4
#include "engine/kernels/kernels_body.h"
#endif
