/* hash.h - FNV-1a (Fowler, Noll, Vo), for hash tables and for detecting accidental damage. Use digest.h
 * against attackers.
 *
 *     hash = hs_hash_bytes(hs_hash_bytes(HS_HASH_START, a, n_a), b, n_b) */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define HS_HASH_START UINT64_C(0xcbf29ce484222325)

/* Hashes 64 bits in one step, where FNV-1a takes a byte. A flipped high bit stays high until the caller folds
 * the hash. */
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
