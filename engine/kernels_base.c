/* kernels_base.c - the kernels for any CPU: SSE2 on x86-64, NEON on arm64. */
#define LANES        4
#define KERNELS      hs__kernels_base
#define KERNELS_NAME "base"
#include "engine/kernels_body.h"
