/* hash.h - FNV-1a (Fowler, Noll, Vo), for tables and for damage that is no attack; digest.h is for the rest.
 *
 * hash = hs_hash_bytes(hs_hash_bytes(HS_HASH_START, a, n_a), b, n_b) */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define HS_HASH_START UINT64_C(0xcbf29ce484222325)

/* A word where FNV takes a byte: quick, but a high bit flipped stays high until the caller folds it down. */
static inline uint64_t hs_hash_word(uint64_t hash, uint64_t word)
{
    return (hash ^ word) * UINT64_C(0x100000001b3);
}

static inline uint64_t hs_hash_bytes(uint64_t hash, const void *data, size_t n_bytes)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < n_bytes; i++)
        hash = hs_hash_word(hash, bytes[i]);
    return hash;
}
