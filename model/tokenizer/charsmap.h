/* charsmap.h - SentencePiece's precompiled table of character replacements, from an untrusted file.
 *
 * The format is a byte count, a double-array trie of that many bytes (little-endian 32-bit units, as
 * darts-clone writes them) and the NUL-terminated replacements. The values of the trie are offsets into the
 * replacements. */
#pragma once

#include "model/base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct hs__charsmap {
    unsigned char *bytes; /* the whole table, and a NUL */
    const unsigned char *units;
    size_t n_units;
    const char *replacements; /* valid UTF-8, with a NUL at its end */
    size_t n_replacement_bytes;
} hs__charsmap;

/* Decodes the table from base64. Fails with HS_BAD_MODEL if it is malformed. The caller finishes *ret_map,
 * even after an error. */
HS_MUST_USE hs_status hs__charsmap_read(const char *base64, hs__charsmap *ret_map, hs_error *err);
void hs__charsmap_finish(hs__charsmap *map); /* zeroed is fine */

/* Returns the replacement of the shortest key that the text begins with, NUL-terminated, or NULL if no key
 * matches. */
const char *hs__charsmap_find(const hs__charsmap *map, const unsigned char *text, size_t n_bytes);
