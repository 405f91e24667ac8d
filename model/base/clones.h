/* clones.h - HS_CLONES compiles a function for several instruction sets (function multiversioning). The
 * loader picks the widest one that the CPU has. All clones compute the same numbers: the compiler may not
 * contract or reorder arithmetic.
 *
 * Sanitizer builds have no clones, because their runtime starts before the loader picks one. CPUs other than
 * x86-64 have one instruction set to compile for. */
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&     \
    !defined(__SANITIZE_THREAD__)
#define HS_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define HS_CLONES
#endif
