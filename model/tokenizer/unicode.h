/* unicode.h - the Unicode properties that tokenizers need.
 *
 * The properties are those of the oracle, HuggingFace's fast tokenizer, which follows no single Unicode
 * version. unicode_tables.pl generates the tables and explains them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The class of a code point: a set of these. */
enum {
    HS__DROPPED = 1,     /* control and format characters, NUL, U+FFFD: dropped by text clean-up */
    HS__SPACE = 2,       /* White_Space */
    HS__PUNCTUATION = 4, /* a separate word */
    HS__IDEOGRAPH = 8,   /* a separate word even before other rules apply */
    HS__MARK = 16,       /* non-spacing mark: dropped when accents are stripped */
    HS__DECOMPOSES = 32,
    HS__CASED = 64,    /* has a different lower case */
    HS__REORDERS = 128 /* is, or decomposes into, a combining character that is not a HS__MARK */
};

unsigned hs__unicode_class(uint32_t code_point);

/* Classes of regular expressions: a set of these. */
enum {
    HS__LETTER = 1,  /* \p{L} */
    HS__NUMBER = 2,  /* \p{N} */
    HS__WORD = 4,    /* \w */
    HS__UPPER = 8,   /* \p{Lu} and \p{Lt} */
    HS__LOWER = 16,  /* \p{Ll} */
    HS__ACCENT = 32, /* \p{M}: marks */
    HS__PUNCT = 64,  /* \p{P} */
    HS__SYMBOL = 128 /* \p{S} */
};

unsigned hs__unicode_kind(uint32_t code_point);

/* Returns the lower case of a character without context, so final sigma is not handled. U+0130, whose lower
 * case is i and U+0307, returns i. */
uint32_t hs__unicode_lower(uint32_t code_point);

/* Writes the full canonical decomposition, or the character itself. Returns the length. */
#define HS__DECOMPOSITION_MAX 4
size_t hs__unicode_decompose(uint32_t code_point, uint32_t ret[HS__DECOMPOSITION_MAX]);

/* Returns the canonical combining class; 0: not a combining character. */
uint8_t hs__unicode_combining(uint32_t code_point);

/* Writes the full compatibility decomposition, or the character itself. Returns the length. */
#define HS__COMPATIBLE_MAX 18
size_t hs__unicode_decompose_compatible(uint32_t code_point, uint32_t ret[HS__COMPATIBLE_MAX]);

/* Returns the canonical composition of a pair, or 0 if there is none. */
uint32_t hs__unicode_compose(uint32_t first, uint32_t second);

/* The role of a code point in a grapheme cluster (Unicode Standard Annex 29): a set of these. */
enum {
    HS__EXTENDS = 1,  /* joins the character before it, as the joiner U+200D does */
    HS__SPACING = 2,  /* a spacing mark: joins the character before it */
    HS__PREPENDS = 4, /* joins the character after it */
    HS__CONTROLS = 8, /* always a cluster by itself */
    HS__PICTOGRAPH = 16,
    HS__ANY_MARK = 32 /* not used for clusters: any mark (non-spacing, spacing or enclosing) */
};

unsigned hs__unicode_cluster(uint32_t code_point);
