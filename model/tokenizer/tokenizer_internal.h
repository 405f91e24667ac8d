/* tokenizer_internal.h - what the files of the tokenizer share.
 *
 *     tokenizer_files.c  vocab.txt, tokenizer.json, tokenizer_config.json -> hs__tokenizer_spec
 *     tokenizer.c        spec -> hs_tokenizer; pieces -> hs_encoding
 *     tokenizer_text.c   text -> normalised characters
 *     tokenizer_words.c  normalised characters -> words -> pieces
 *     trie.c, unicode.c  what the two above look things up in */
#pragma once

#include "model/bytes.h"
#include "model/tokenizer/tokenizer.h"
#include "model/tokenizer/trie.h"

#include <jansson.h>

/* Longer words than the tokenizer's own limit (100 in every BERT) become one unknown token; this bounds the
 * limit itself, and so the memory on the stack. */
#define HS__WORD_CHARS_MAX      256
#define HS__TOKEN_BYTES_MAX     1024
#define HS__TOKENIZER_BYTES_MAX (64u << 20)

/* ---- files ---- */

typedef struct hs__added_token {
    hs__token token; /* id -1: that of the same text in the vocabulary, if it is there */
    bool special;    /* false: found in the text even when special tokens are split */
    bool normalized; /* to be found in the normalised text, normalised itself */
} hs__added_token;

/* What the files say. Strings are borrowed from the files' bytes or from the two JSON documents. */
typedef struct hs__tokenizer_spec {
    json_t *json, *config; /* tokenizer.json, tokenizer_config.json, or NULL */
    hs__token *vocab;      /* [n_vocab] */
    size_t n_vocab;
    hs__added_token *added; /* [n_added]: found in the text before it is split into words */
    size_t n_added;
    size_t vocab_size;  /* ids are below this */
    const char *prefix; /* of a piece that continues a word: "##" */
    const char *cls, *sep, *pad, *unk, *mask;
    size_t word_chars_max;
    bool clean_text, split_ideographs, strip_accents, lowercase;
} hs__tokenizer_spec;

/* *ret_spec must be finished, also after an error. */
HS_MUST_USE hs_status hs__tokenizer_spec_read(const hs_bytes *vocab, const hs_bytes *tokenizer_json,
                                              const hs_bytes *tokenizer_config, size_t vocab_size,
                                              hs__tokenizer_spec *ret_spec, hs_error *err);
void hs__tokenizer_spec_finish(hs__tokenizer_spec *spec);

/* ---- tokenizer ---- */

/* What a byte may be the start of, for quick decisions. */
enum {
    HS__KIND_OTHER = 0,
    HS__KIND_LETTER = 1, /* ASCII that goes into a word, in lower case if so wished */
    HS__KIND_SPACE = 2,  /* ASCII */
    HS__KIND_ADDED = 4   /* a flag: some added token starts so */
};

struct hs_tokenizer {
    char *texts;       /* every token, NUL-terminated */
    uint32_t *text_at; /* [vocab_size]: where in texts; holes point to the unknown token */
    size_t vocab_size;
    hs__trie vocab;
    hs__trie added_names;      /* all added tokens, as written */
    hs__trie added;            /* those to be found in the text */
    hs__trie added_normalized; /* those to be found in the normalised text */
    bool *added_special;       /* [vocab_size] */
    uint8_t *roles;            /* [vocab_size] hs_role */
    uint8_t kinds[256];
    uint8_t lower[128];    /* of ASCII; the same byte when the tokenizer keeps case */
    uint32_t continuation; /* node of vocab after the prefix "##", or HS__TRIE_NONE */
    size_t word_chars_max;
    bool clean_text, split_ideographs, strip_accents, lowercase;
    hs_special_ids special;
};

/* ---- text ---- */

typedef struct hs__piece {
    int32_t id, word;
    uint32_t start, end; /* code points of the text */
} hs__piece;

typedef struct hs__pieces {
    hs__piece *items; /* [min(n, n_kept)] */
    size_t n;         /* all that were counted */
    size_t n_kept;    /* store no more than these */
    size_t n_enough;  /* stop counting behind the word that makes them as many */
    size_t capacity;
} hs__pieces;

/* Splits valid UTF-8 of less than 2^31 bytes. The caller sets n_kept and n_enough, zeroes the rest, and frees
 * items, also after HS_NO_MEMORY. */
HS_MUST_USE hs_status hs__text_split(const hs_tokenizer *tokenizer, const hs_text *text, bool split_special,
                                     hs__pieces *pieces, hs_error *err);
/* Valid UTF-8 as it is before it is split into words. The caller frees *ret_bytes; NULL when nothing is left.
 */
HS_MUST_USE hs_status hs__text_normalize(const hs_tokenizer *tokenizer, const hs_text *text, char **ret_bytes,
                                         size_t *ret_n_bytes, hs_error *err);

/* ---- words ---- */

/* Characters come in, pieces go out. Zeroed but for tokenizer and pieces, it is ready. */
typedef struct hs__words {
    const hs_tokenizer *tokenizer;
    hs__pieces *pieces;
    int32_t index; /* of the word */
    bool enough;   /* a word has brought the pieces to n_enough: all that comes now is ignored */
    hs_status status;
    /* The current word. Of one that is too long only the number of characters counts. */
    size_t n_chars, n_bytes;
    uint32_t start, last; /* origins of its first and last character */
    unsigned char bytes[4 * HS__WORD_CHARS_MAX];
    uint32_t origins[4 * HS__WORD_CHARS_MAX]; /* of each byte */
} hs__words;

/* A normalised character with its class (HS__SPACE and HS__PUNCTUATION count) and the index of the character
 * of the text that it came from. */
void hs__words_put(hs__words *words, uint32_t code_point, unsigned class, uint32_t origin);
/* The bytes of HS__KIND_LETTER at the start of `bytes`, at least one; returns how many there were. */
size_t hs__words_put_letters(hs__words *words, const unsigned char *bytes, size_t n_bytes, uint32_t origin);
/* Ends the current word, if there is one. */
void hs__words_end(hs__words *words);
/* An added token is a word of its own. It does not count towards n_enough until the next word ends, as in the
 * oracle. */
void hs__words_put_added(hs__words *words, int32_t id, uint32_t start, uint32_t end);
