/* kernels_base.c - the kernels for CPUs without a set of their own: SSE2 on x86-64, which has 16 registers.
 */
#include "engine/kernels/kernels.h"

#if !defined __aarch64__
#define LANES           4
#define TILE_ROWS       4
#define TILE_VECS       2
#define TILE_HEIGHTS(X) X(1) X(2) X(3) X(4)
#define KERNELS         hs__kernels_base
#define KERNELS_NAME    "base"
#define SUM_PARTS       4
#include "engine/kernels/kernels_body.h"
#endif
