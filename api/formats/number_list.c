/* number_list.c - chooses the instruction set; prints numbers one by one if the CPU has none of them. */
#include "api/formats/number_list.h"
#include "api/formats/number.h"

char *hs_floats_print(char *to, const float *values, size_t n, int digits)
{
#if defined HS__NUMBERS_BY_CPU
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd"))
        return hs__floats_print_avx512(to, values, n, digits);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("lzcnt"))
        return hs__floats_print_avx2(to, values, n, digits);
#endif
    for (size_t i = 0; i < n; i++) {
        to = hs_float_print(to, values[i], digits);
        *to++ = ',';
    }
    return to;
}
