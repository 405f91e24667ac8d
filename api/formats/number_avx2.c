/* number_avx2.c - four numbers at a time, for x86-64 with AVX2. */
/* clang has no pragma to choose instructions for a file: there numbers go one by one. */
#if defined __x86_64__ && !defined __clang__
#pragma GCC target("avx2,lzcnt")
#define LANES        4
#define FLOATS_PRINT hs__floats_print_avx2
#include "api/formats/number_list.h"
#endif
