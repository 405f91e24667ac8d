/* utf8.h - UTF-8, once for the whole tree: checking, counting, reading, writing.
 *
 * Valid means what the Unicode Standard's table 3-7 allows: no overlong forms, no surrogates, nothing beyond
 * U+10FFFF. Functions that say "valid" trust their text and look no further; all others take any bytes and
 * never read past the end they are given. Texts have a length; NUL is an ordinary character. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HS_UTF8_REPLACEMENT 0xFFFD /* stands for bytes that are no character */

/* ---- any bytes ---- */

/* The length of the valid character at bytes, of which n_bytes > 0 are left: 1 to 4, or 0 when there is none.
 */
size_t hs_utf8_length(const char *bytes, size_t n_bytes);

/* How many bytes from the start on are valid: the offset of the first one that is not, or n_bytes. */
size_t hs_utf8_valid(const char *bytes, size_t n_bytes);

/* The code point at *cursor < end, which moves past it. A byte that begins no valid character gives
 * HS_UTF8_REPLACEMENT and is passed alone. */
uint32_t hs_utf8_read(const char **cursor, const char *end);

/* n_bytes, or less when the last character was cut off in its middle: where to end a text that had to be
 * shortened to n_bytes. */
size_t hs_utf8_whole(const char *bytes, size_t n_bytes);

/* ---- valid text ---- */

/* The number of code points. */
size_t hs_utf8_count(const char *bytes, size_t n_bytes);

/* The offset of code point number `point`, n_bytes when there are no more than that. */
size_t hs_utf8_offset(const char *bytes, size_t n_bytes, size_t point);

/* Whether a byte is the second to fourth of a character. */
static inline bool hs_utf8_continues(unsigned char byte)
{
    return (byte & 0xC0) == 0x80;
}

/* The code point at *cursor, which moves past it. */
static inline uint32_t hs_utf8_next(const unsigned char **cursor)
{
    const unsigned char *p = *cursor;
    if (p[0] < 0x80) {
        *cursor = p + 1;
        return p[0];
    }
    if (p[0] < 0xE0) {
        *cursor = p + 2;
        return (uint32_t)(p[0] & 0x1F) << 6 | (p[1] & 0x3F);
    }
    if (p[0] < 0xF0) {
        *cursor = p + 3;
        return (uint32_t)(p[0] & 0x0F) << 12 | (uint32_t)(p[1] & 0x3F) << 6 | (p[2] & 0x3F);
    }
    *cursor = p + 4;
    return (uint32_t)(p[0] & 0x07) << 18 | (uint32_t)(p[1] & 0x3F) << 12 | (uint32_t)(p[2] & 0x3F) << 6 |
           (p[3] & 0x3F);
}

/* ---- writing ---- */

/* Writes the 1 to 4 bytes of a code point; returns how many. */
static inline size_t hs_utf8_put(uint32_t code_point, unsigned char *ret)
{
    if (code_point < 0x80) {
        ret[0] = (unsigned char)code_point;
        return 1;
    }
    if (code_point < 0x800) {
        ret[0] = (unsigned char)(0xC0 | code_point >> 6);
        ret[1] = (unsigned char)(0x80 | (code_point & 0x3F));
        return 2;
    }
    if (code_point < 0x10000) {
        ret[0] = (unsigned char)(0xE0 | code_point >> 12);
        ret[1] = (unsigned char)(0x80 | (code_point >> 6 & 0x3F));
        ret[2] = (unsigned char)(0x80 | (code_point & 0x3F));
        return 3;
    }
    ret[0] = (unsigned char)(0xF0 | code_point >> 18);
    ret[1] = (unsigned char)(0x80 | (code_point >> 12 & 0x3F));
    ret[2] = (unsigned char)(0x80 | (code_point >> 6 & 0x3F));
    ret[3] = (unsigned char)(0x80 | (code_point & 0x3F));
    return 4;
}
