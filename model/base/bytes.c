/* bytes.c - SHA-256 by nettle. Reading a digest finishes a copy of the state, so more bytes may follow. */
#include "model/base/bytes.h"

#include <nettle/base16.h>
#include <nettle/sha2.h>
#include <stdlib.h>

_Static_assert(HS_SHA256_HEX == 2 * SHA256_DIGEST_SIZE + 1, "hex digits and a NUL");

struct hs_digest {
    struct sha256_ctx context;
};

hs_digest *hs_digest_create(void)
{
    hs_digest *digest = malloc(sizeof *digest);
    if (digest)
        sha256_init(&digest->context);
    return digest;
}

void hs_digest_add(hs_digest *digest, const void *bytes, size_t n_bytes)
{
    sha256_update(&digest->context, n_bytes, bytes);
}

void hs_digest_read(const hs_digest *digest, char ret_hex[HS_SHA256_HEX])
{
    struct sha256_ctx copy = digest->context;
    uint8_t sum[SHA256_DIGEST_SIZE];
    sha256_digest(&copy, sizeof sum, sum);
    base16_encode_update(ret_hex, sizeof sum, sum);
    ret_hex[2 * sizeof sum] = '\0';
}

void hs_digest_destroy(hs_digest *digest)
{
    free(digest);
}
