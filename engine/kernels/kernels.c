/* kernels.c - chooses the instruction set: the fastest of this CPU, or the one that the environment
 * names. */
#include "engine/kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

#if defined __x86_64__ && !defined __clang__
#include <sys/syscall.h>
#include <unistd.h>
#endif

extern const hs__kernels hs__kernels_avx512, hs__kernels_avx2, hs__kernels_neon, hs__kernels_base;

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

/* Returns the name that the environment gives, or NULL. */
static const char *name_given(void)
{
    const char *name = getenv(HS_KERNELS_VARIABLE);
    return name && *name ? name : NULL;
}

const hs__kernels *hs__kernels_select(void)
{
    const char *name = name_given();
    const hs__kernels *kernels = hs__kernels_at(0);
    if (name && strcmp(name, "amx") == 0)
        return hs__amx_permitted() ? kernels : NULL;
    for (size_t i = 1; name && kernels && strcmp(kernels->name, name) != 0; i++)
        kernels = hs__kernels_at(i);
    return kernels;
}

bool hs__amx_permitted(void)
{
#if defined __x86_64__ && !defined __clang__
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18 }; /* of asm/prctl.h, from Linux 5.16 on */
    const char *name = name_given();
    __builtin_cpu_init();
    return (!name || strcmp(name, "amx") == 0) && hs__kernels_at(0) == &hs__kernels_avx512 &&
           __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni") &&
           __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16") &&
           __builtin_cpu_supports("amx-int8") && syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA) == 0;
#else
    return false;
#endif
}
