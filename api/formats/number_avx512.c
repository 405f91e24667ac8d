/* number_avx512.c - eight numbers at a time, for x86-64 with AVX-512. */
/* clang has no pragma to choose instructions for a file: there numbers go one by one. */
#if defined __x86_64__ && !defined __clang__
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,avx512cd,prefer-vector-width=512")
#define LANES        8
#define FLOATS_PRINT hs__floats_print_avx512
#include "api/formats/number_list.h"
#endif
