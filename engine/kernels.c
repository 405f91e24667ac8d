#include "engine/kernels.h"

extern const hs__kernels hs__kernels_base;
#if defined __x86_64__
extern const hs__kernels hs__kernels_avx2, hs__kernels_avx512;
#endif

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
    sets[n++] = &hs__kernels_base;
    return index < n ? sets[index] : NULL;
}

const hs__kernels *hs__kernels_select(void)
{
    return hs__kernels_at(0);
}
