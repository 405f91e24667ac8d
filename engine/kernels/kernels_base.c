/* kernels_base.c - the kernels for any CPU: SSE2 on x86-64, NEON on arm64. */
#define LANES 4
#if defined __aarch64__ /* 32 registers */
#define TILE_ROWS       8
#define TILE_VECS       3
#define TILE_HEIGHTS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#else /* 16 registers */
#define TILE_ROWS       4
#define TILE_VECS       2
#define TILE_HEIGHTS(X) X(1) X(2) X(3) X(4)
#endif
#define KERNELS      hs__kernels_base
#define KERNELS_NAME "base"
#define SUM_PARTS    4
#include "engine/kernels/kernels_body.h"
