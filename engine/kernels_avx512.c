/* kernels_avx512.c - the kernels for x86-64 with AVX-512. */
#if defined __x86_64__
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,fma")
#define LANES        16
#define KERNELS      hs__kernels_avx512
#define KERNELS_NAME "avx512"
#include "engine/kernels_body.h"
#endif
