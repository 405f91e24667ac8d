/* kernels_neon.c - the kernels for arm64, where every CPU has NEON: 32 registers of 4 floats.
 *
 * A step of the 8 x 3 tile is 24 multiply-adds beside 11 loads, so that two loads a cycle keep up with four
 * multiply-adds. Its 24 sums cover a latency of 4 cycles on four units. */
#include "engine/kernels/kernels.h"

#if defined __aarch64__
#define LANES           4
#define TILE_ROWS       8
#define TILE_VECS       3
#define TILE_HEIGHTS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#define KERNELS         hs__kernels_neon
#define KERNELS_NAME    "neon"
#define SUM_PARTS       4
#include "engine/kernels/kernels_body.h"
#endif
