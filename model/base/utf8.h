/* utf8.h - checks, counts, reads and writes UTF-8. The only UTF-8 code of the project.
 *
 * Text is valid if table 3-7 of the Unicode Standard allows it: no overlong forms, no surrogates, nothing
 * above U+10FFFF. Functions under "valid text" trust their input. All others accept any bytes and never read
 * past the given end. Texts have a length; NUL is an ordinary character. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HS_UTF8_REPLACEMENT 0xFFFD /* replaces bytes that are not a character */

/* ---- any bytes ---- */

/* Returns the length, 1 to 4, of the valid character at bytes, or 0 if there is none. n_bytes > 0 is how many
 * bytes are left. */
size_t hs_utf8_length(const char *bytes, size_t n_bytes);

/* Returns how many bytes from the start are valid: the offset of the first invalid one, or n_bytes. */
size_t hs_utf8_valid(const char *bytes, size_t n_bytes);

/* Reads the code point at *cursor < end and moves *cursor past it. An invalid byte is passed by itself and
 * returns HS_UTF8_REPLACEMENT. */
uint32_t hs_utf8_read(const char **cursor, const char *end);

/* Returns where to cut a text that must fit in n_bytes: n_bytes, or less if that splits the last
 * character. */
size_t hs_utf8_whole(const char *bytes, size_t n_bytes);

/* ---- valid text ---- */

/* Returns the number of code points. */
size_t hs_utf8_count(const char *bytes, size_t n_bytes);

/* Returns the byte offset of code point number `point`, or n_bytes if there are fewer. */
size_t hs_utf8_offset(const char *bytes, size_t n_bytes, size_t point);

/* Returns true for the second to fourth byte of a character. */
static inline bool hs_utf8_continues(unsigned char byte)
{
    return (byte & 0xC0) == 0x80;
}

/* Reads the code point at *cursor and moves *cursor past it. */
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
