/* digest.h - SHA-256 of bytes that arrive in chunks.
 *
 *     hs_digest *digest = hs_digest_create();
 *     hs_digest_add(digest, bytes, n_bytes);           once per chunk
 *     hs_digest_read(digest, hex);                     of all bytes so far; more may follow
 *     hs_digest_destroy(digest); */
#pragma once

#include <stddef.h>

#define HS_SHA256_HEX 65 /* 64 digits and a NUL */

typedef struct hs_digest hs_digest;

hs_digest *hs_digest_create(void); /* NULL when memory is short */
void hs_digest_add(hs_digest *digest, const void *bytes, size_t n_bytes);
void hs_digest_read(const hs_digest *digest, char ret_hex[HS_SHA256_HEX]);
void hs_digest_destroy(hs_digest *digest); /* NULL is fine */
