/* clones.h - HS_CLONES before a function compiles it for several instruction sets; the loader picks the
 * widest one the CPU has. Every clone computes the same numbers: the compiler may not contract or reorder
 * arithmetic.
 *
 * Sanitizers run before the loader's choice could be made, and other CPUs have one instruction set to aim at.
 */
#pragma once

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&     \
    !defined(__SANITIZE_THREAD__)
#define HS_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define HS_CLONES
#endif
