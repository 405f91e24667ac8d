/* charsmap.h - SentencePiece's table of characters and what becomes of them, from an untrusted file.
 *
 * A number of bytes, a double array of that many (a trie in units of 32 bits, little-endian, as darts-clone
 * writes them), and behind it the replacements, NUL-terminated, which the array's values are offsets into. */
#pragma once

#include "model/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct hs__charsmap {
    unsigned char *bytes; /* the whole table, and a NUL */
    const unsigned char *units;
    size_t n_units;
    const char *replacements; /* valid UTF-8, with a NUL at its end */
    size_t n_replacement_bytes;
} hs__charsmap;

/* From base64. HS_BAD_MODEL when it is none. Must be finished, also after an error. */
HS_MUST_USE hs_status hs__charsmap_read(const char *base64, hs__charsmap *ret_map, hs_error *err);
void hs__charsmap_finish(hs__charsmap *map); /* zeroed is fine */

/* What becomes of the shortest key that the text begins with: NUL-terminated; NULL when it begins with none.
 */
const char *hs__charsmap_find(const hs__charsmap *map, const unsigned char *text, size_t n_bytes);
