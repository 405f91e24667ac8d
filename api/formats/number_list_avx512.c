/* number_list_avx512.c - eight numbers at a time, for x86-64 with AVX-512. */
#include "api/formats/number_list.h"

#if defined HS__NUMBERS_BY_CPU
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,avx512cd,prefer-vector-width=512")
#define LANES        8
#define FLOATS_PRINT hs__floats_print_avx512
#include "api/formats/number_list_body.h"
#endif
