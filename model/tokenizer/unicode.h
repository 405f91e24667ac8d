/* unicode.h - the few Unicode properties that tokenizers ask for.
 *
 * The properties are those of the oracle, HuggingFace's fast tokenizer, which follows no single Unicode
 * version: see unicode_tables.pl, which generates the tables. */
#pragma once

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

/* What a regular expression calls \p{L}, \p{N} and \w: a set of these. */
enum { HS__LETTER = 1, HS__NUMBER = 2, HS__WORD = 4 };

unsigned hs__unicode_kind(uint32_t code_point);

/* Per character, without context: final sigma is none. U+0130, whose lower case is two characters, i and
 * U+0307, gives the first. */
uint32_t hs__unicode_lower(uint32_t code_point);

/* Full canonical decomposition, itself when it has none; returns its length. */
#define HS__DECOMPOSITION_MAX 4
size_t hs__unicode_decompose(uint32_t code_point, uint32_t ret[HS__DECOMPOSITION_MAX]);

/* Canonical combining class, 0 for everything that is not a combining character. */
uint8_t hs__unicode_combining(uint32_t code_point);

/* Full compatible decomposition, itself when it has none; returns its length. */
#define HS__COMPATIBLE_MAX 18
size_t hs__unicode_decompose_compatible(uint32_t code_point, uint32_t ret[HS__COMPATIBLE_MAX]);

/* The character that a pair canonically composes into, 0 when there is none. */
uint32_t hs__unicode_compose(uint32_t first, uint32_t second);

/* What a code point does in a grapheme cluster (Unicode Standard Annex 29): a set of these. */
enum {
    HS__EXTENDS = 1,  /* belongs to the character before, as the joiner U+200D does */
    HS__SPACING = 2,  /* so does a spacing mark */
    HS__PREPENDS = 4, /* belongs to the character behind */
    HS__CONTROLS = 8, /* stands alone */
    HS__PICTOGRAPH = 16,
    HS__ANY_MARK = 32 /* and no matter of clusters: a mark, non-spacing, spacing or enclosing */
};

unsigned hs__unicode_cluster(uint32_t code_point);
