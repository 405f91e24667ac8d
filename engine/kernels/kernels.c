/* kernels.c - chooses the instruction set: the fastest of this CPU, or the one that the environment
 * names. */
#include "engine/kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

extern const hs__kernels hs__kernels_avx512, hs__kernels_avx2, hs__kernels_neon, hs__kernels_base;
extern const hs__bf16_kernels hs__kernels_bf16;

const hs__kernels *hs__kernels_at(size_t index)
{
    const hs__kernels *sets[3];
    size_t n = 0;
#if defined __x86_64__
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw"))
        sets[n++] = &hs__kernels_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        sets[n++] = &hs__kernels_avx2;
#endif
#if defined __aarch64__
    sets[n++] = &hs__kernels_neon;
#else
    sets[n++] = &hs__kernels_base;
#endif
    return index < n ? sets[index] : NULL;
}

const hs__kernels *hs__kernels_select(void)
{
    const char *name = getenv(HS_KERNELS_VARIABLE);
    const hs__kernels *kernels = hs__kernels_at(0);
    for (size_t i = 1; name && *name && kernels && strcmp(kernels->name, name) != 0; i++)
        kernels = hs__kernels_at(i);
    return kernels;
}

const hs__bf16_kernels *hs__bf16_kernels_select(void)
{
#if defined __x86_64__ && !defined __clang__
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512bf16") && hs__kernels_select() == &hs__kernels_avx512)
        return &hs__kernels_bf16;
#endif
    return NULL;
}
