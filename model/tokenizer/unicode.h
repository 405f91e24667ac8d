/* unicode.h - UTF-8 and the few Unicode properties that BERT's text clean-up asks for.
 *
 * The properties are those of the oracle, HuggingFace's fast tokenizer, which follows no single Unicode
 * version: see unicode_tables.pl, which generates the tables. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The class of a code point: a set of these. */
enum {
    HS__DROPPED = 1,     /* control and format characters, NUL, U+FFFD: vanish when text is cleaned */
    HS__SPACE = 2,       /* White_Space */
    HS__PUNCTUATION = 4, /* a word of its own */
    HS__IDEOGRAPH = 8,   /* a word of its own before anything else happens to it */
    HS__MARK = 16,       /* non-spacing mark: vanishes when accents are stripped */
    HS__DECOMPOSES = 32,
    HS__CASED = 64,    /* has a lower case other than itself */
    HS__REORDERS = 128 /* is, or decomposes into, a combining character that is not a HS__MARK */
};

unsigned hs__unicode_class(uint32_t code_point);

/* Per character, without context: final sigma is none. U+0130, whose lower case is two characters, i and
 * U+0307, gives the first. */
uint32_t hs__unicode_lower(uint32_t code_point);

/* Full canonical decomposition, itself when it has none; returns its length. */
#define HS__DECOMPOSITION_MAX 4
size_t hs__unicode_decompose(uint32_t code_point, uint32_t ret[HS__DECOMPOSITION_MAX]);

/* Canonical combining class, 0 for everything that is not a combining character. */
uint8_t hs__unicode_combining(uint32_t code_point);

/* The offset of the first byte that is not part of valid UTF-8, or n_bytes. */
size_t hs__utf8_valid(const char *bytes, size_t n_bytes);

/* The code point at *cursor, which moves past it. The text must be valid. */
static inline uint32_t hs__utf8_next(const unsigned char **cursor)
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

/* Writes 1 to 4 bytes; returns how many. */
static inline size_t hs__utf8_put(uint32_t code_point, unsigned char *ret)
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
