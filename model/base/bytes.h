/* bytes.h - blocks of bytes, their hashes and their digests. Use the digest against attackers. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A borrowed block of bytes. */
typedef struct hs_bytes {
    const void *data;
    size_t size;
} hs_bytes;

/* Returns the bytes of a text without its NUL. */
static inline hs_bytes hs_bytes_of(const char *text)
{
    return (hs_bytes){text, strlen(text)};
}

/* Returns true if the text is longer than `ending` and ends with it. */
static inline bool hs_ends_with(const char *text, const char *ending)
{
    const size_t n = strlen(text), n_ending = strlen(ending);
    return n > n_ending && strcmp(text + n - n_ending, ending) == 0;
}

/* ---- hashes ----
 *
 * FNV-1a (Fowler, Noll, Vo), for hash tables and for detecting accidental damage, and SplitMix64, for choices
 * at random.
 *
 *     hash = hs_hash_bytes(hs_hash_bytes(HS_HASH_START, a, n_a), b, n_b) */

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

/* Random numbers from a seed: x += HS_MIX_STEP, hs_mix(x). */
#define HS_MIX_STEP UINT64_C(0x9e3779b97f4a7c15)

/* Mixes the bits of x: the finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), a bijection. */
static inline uint64_t hs_mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* Returns the upper 53 bits of mixed ones as a number in [0, 1). */
static inline double hs_fraction_of(uint64_t mixed)
{
    return (double)(mixed >> 11) * 0x1p-53;
}

/* ---- digests ----
 *
 * SHA-256 of bytes that arrive in chunks.
 *
 *     hs_digest *digest = hs_digest_create();
 *     hs_digest_add(digest, bytes, n_bytes);           once per chunk
 *     hs_digest_read(digest, hex);                     of all bytes so far; more may follow
 *     hs_digest_destroy(digest); */

#define HS_SHA256_HEX 65 /* 64 digits and a NUL */

typedef struct hs_digest hs_digest;

hs_digest *hs_digest_create(void); /* NULL when memory is short */
void hs_digest_add(hs_digest *digest, const void *bytes, size_t n_bytes);
void hs_digest_read(const hs_digest *digest, char ret_hex[HS_SHA256_HEX]);
void hs_digest_destroy(hs_digest *digest); /* NULL is fine */
