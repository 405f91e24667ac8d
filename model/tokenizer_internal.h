/* tokenizer_internal.h - what the files of the tokenizer share.
 *
 *     tokenizer_files.c  vocab.txt, tokenizer.json, tokenizer_config.json -> hs__tokenizer_spec
 *     tokenizer.c        spec -> hs_tokenizer; pieces -> hs_encoding
 *     tokenizer_text.c   text -> pieces
 *     trie.c, unicode.c  what the two above look things up in */
#pragma once

#include "model/internal.h"
#include "model/trie.h"

/* Longer words than the tokenizer's own limit (100 in every BERT) become one unknown token; this bounds the
 * limit itself, and so the memory on the stack. */
#define HS__WORD_CHARS_MAX      256
#define HS__TOKEN_BYTES_MAX     1024
#define HS__TOKENIZER_BYTES_MAX (64u << 20)

/* ---- files ---- */

typedef struct hs__added_token {
    hs__token token;
    bool special; /* false: found in the text even when special tokens are split */
} hs__added_token;

/* What the files say. Strings are borrowed from the files' bytes or from the two JSON documents. */
typedef struct hs__tokenizer_spec {
    json_t *json, *config; /* tokenizer.json, tokenizer_config.json, or NULL */
    hs__token *vocab;      /* [n_vocab] */
    size_t n_vocab;
    hs__added_token *added; /* [n_added]: matched in the text before anything else happens to it */
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
    hs__trie added;
    bool *added_special; /* [vocab_size] */
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
