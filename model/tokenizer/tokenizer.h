/* tokenizer.h - text to token ids with words, offsets and roles, exactly as HuggingFace's fast tokenizers.
 *
 * A tokenizer never changes once created: any thread may use it.
 *
 *     hs_encoding encoding = {0};
 *     hs_text text = { bytes, n_bytes };
 *     st = hs_tokenizer_encode(tokenizer, &text, NULL, &options, &encoding, &err);
 *     ... encoding.ids[0 .. n_tokens) ...
 *     hs_encoding_finish(&encoding); */
#pragma once

#include "model/bytes.h"
#include "model/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct hs_tokenizer hs_tokenizer;

/* Contents of the files that a tokenizer may consist of: borrowed; absent ones are {NULL, 0}. With
 * tokenizer.json none of the vocabularies counts, as in HuggingFace. Without it the class of tokenizer, which
 * tokenizer_config.json or config.json names or the model's type implies, says which of them it is and what
 * is done with it. */
typedef struct hs_tokenizer_files {
    hs_bytes tokenizer_json, tokenizer_config, config;
    hs_bytes vocab_txt, vocab_json, merges_txt; /* WordPiece or letters; byte-level BPE, both */
    hs_bytes sentencepiece;                     /* sentencepiece.bpe.model, spiece.model or spm.model */
    hs_bytes added_tokens, special_tokens_map;  /* .json */
} hs_tokenizer_files;

/* UTF-8 text, not necessarily NUL-terminated; NUL is an ordinary character. */
typedef struct hs_text {
    const char *bytes;
    size_t n_bytes;
} hs_text;

typedef struct hs_encode_options {
    size_t tokens_max;         /* >= 2 (3 with a pair): truncated to this, special tokens included */
    bool split_special_tokens; /* true: "[MASK]" in the text is only text */
} hs_encode_options;

/* What a token does in a text, whatever the vocabulary calls it. */
typedef enum hs_role {
    HS_ROLE_FIRST,        /* the special token that the template puts first: [CLS] */
    HS_ROLE_SEPARATOR,    /* and the one it puts behind each text: [SEP] */
    HS_ROLE_SENTENCE_END, /* its text is '.', '!', '?', or a run of them and what they are quoted in */
    HS_ROLE_COMMA,        /* its text is ',' */
    HS_ROLE_OTHER,
    HS_ROLE_COUNT
} hs_role;

/* One block, owned by the encoding. Arrays are [n_tokens]. */
typedef struct hs_encoding {
    size_t n_tokens;
    bool truncated;
    int32_t *ids;
    int32_t *word_ids; /* word of its own text, -1 for the special tokens added here */
    uint32_t *starts;  /* half-open, in Unicode code points of the text (of the pair for type 1); */
    uint32_t *ends;    /* 0, 0 for special tokens */
    uint8_t *types;    /* token_type_ids */
    uint8_t *texts;    /* 1 for the pair and what follows it, whatever its type */
    uint8_t *special;  /* special_tokens_mask: 1 for the [CLS] and [SEP] added here */
    uint8_t *roles;    /* hs_role */
} hs_encoding;

/* [CLS] text [SEP], with a pair [CLS] text [SEP] pair [SEP]; pairs are truncated longest first.
 * HS_BAD_REQUEST when a text is not valid UTF-8, HS_TOO_LARGE from 2 GiB on, HS_INVALID when tokens_max has
 * no room for the special tokens. Time is linear in the texts, whatever they are. */
HS_MUST_USE hs_status hs_tokenizer_encode(const hs_tokenizer *tokenizer, const hs_text *text,
                                          const hs_text *pair, const hs_encode_options *options,
                                          hs_encoding *ret_encoding, hs_error *err);
/* The same for one text that is split already: each word goes through the tokenizer alone, word_ids count the
 * words given and offsets are within each. */
HS_MUST_USE hs_status hs_tokenizer_encode_words(const hs_tokenizer *tokenizer, const hs_text *words,
                                                size_t n_words, const hs_encode_options *options,
                                                hs_encoding *ret_encoding, hs_error *err);
/* Ids that were made elsewhere, special ones included: nothing is added or cut, there are no words and no
 * offsets (0, 0), and what the template adds, or pads with, counts as special. ids are below the vocabulary's
 * size; types may be NULL: all 0. */
HS_MUST_USE hs_status hs_tokenizer_encode_ids(const hs_tokenizer *tokenizer, const int32_t *ids,
                                              const uint8_t *types, size_t n_ids, hs_encoding *ret_encoding,
                                              hs_error *err);
void hs_encoding_finish(hs_encoding *encoding); /* zeroed or finished twice is fine */

/* The vocabulary entry of an id, as the files write it ("##ing", "\u0120the"). NUL-terminated, borrowed; ids
 * out of range give the unknown token, or "" where there is none. */
const char *hs_tokenizer_token(const hs_tokenizer *tokenizer, int32_t id);
/* The id of a vocabulary entry, or -1. */
int32_t hs_tokenizer_id(const hs_tokenizer *tokenizer, const char *token, size_t n_bytes);
/* Ids are below this: the vocab_size of config.json, which may be more than there are tokens. */
size_t hs_tokenizer_vocab_size(const hs_tokenizer *tokenizer);

/* How it cuts words, static text: "WordPiece", "BPE", "byte-level BPE" (tokens are written in characters that
 * stand for bytes), "Unigram", "WordLevel". */
const char *hs_tokenizer_kind(const hs_tokenizer *tokenizer);

typedef struct hs_special_ids {
    int32_t cls, sep, pad, unk, mask; /* -1 when the vocabulary has none */
} hs_special_ids;
const hs_special_ids *hs_tokenizer_special_ids(const hs_tokenizer *tokenizer);

/* The role of an id: by its special token or its text, without the mark of a preceding space ("\u0120.",
 * "\u2581."). Ids out of range have the unknown token's. */
hs_role hs_tokenizer_role(const hs_tokenizer *tokenizer, int32_t id);
