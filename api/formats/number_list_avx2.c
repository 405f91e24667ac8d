/* number_list_avx2.c - four numbers at a time, for x86-64 with AVX2. */
#include "api/formats/number_list.h"

#if defined HS__NUMBERS_BY_CPU
#pragma GCC target("avx2,lzcnt")
#define LANES        4
#define FLOATS_PRINT hs__floats_print_avx2
#include "api/formats/number_list_body.h"
#endif
