/* tokenizer.h - turns text into token ids with words, offsets and roles, exactly as HuggingFace's fast
 * tokenizers do.
 *
 * A tokenizer never changes after it is created. Safe on any thread.
 *
 *     hs_encoding encoding = {0};
 *     hs_text text = { bytes, n_bytes };
 *     st = hs_tokenizer_encode(tokenizer, &text, NULL, &options, &encoding, &err);
 *     ... encoding.ids[0 .. n_tokens) ...
 *     hs_encoding_finish(&encoding); */
#pragma once

#include "model/base/bytes.h"
#include "model/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct hs_tokenizer hs_tokenizer;

/* Contents of a tokenizer's files: borrowed; absent files are {NULL, 0}. If tokenizer.json is present, the
 * other vocabularies are ignored, as in HuggingFace. Otherwise the tokenizer's class decides which files are
 * read and how. tokenizer_config.json or config.json names the class, or the model type implies it. */
typedef struct hs_tokenizer_files {
    hs_bytes tokenizer_json, tokenizer_config, config;
    hs_bytes vocab_txt, vocab_json, merges_txt; /* vocab_txt: WordPiece, or letters (ESM); the other two
                                                 * together: byte-level BPE */
    hs_bytes sentencepiece;                     /* sentencepiece.bpe.model, spiece.model or spm.model */
    hs_bytes tokenizer_model;                   /* tokenizer.model of Llama, Mistral and Gemma */
    /* source.spm and target.spm of Marian, with which a tokenizer.json is ignored, too. The first one cuts.
     */
    hs_bytes source_sentencepiece, target_sentencepiece;
    hs_bytes added_tokens, special_tokens_map; /* .json */
} hs_tokenizer_files;

/* UTF-8 text, not necessarily NUL-terminated; NUL is an ordinary character. */
typedef struct hs_text {
    const char *bytes;
    size_t n_bytes;
} hs_text;

typedef struct hs_encode_options {
    size_t tokens_max;         /* maximum, special tokens included; at least 2, or 3 with a pair */
    bool split_special_tokens; /* treat "[MASK]" in the text as ordinary text */
    int32_t language;          /* token in place of the template's language; 0: the template's */
} hs_encode_options;

/* The role of a token in a text, independent of how the vocabulary writes it. */
typedef enum hs_role {
    HS_ROLE_FIRST,        /* the special token that the template puts first, if any: [CLS], <s> */
    HS_ROLE_SEPARATOR,    /* the special token that the template puts after each text, if any: [SEP] */
    HS_ROLE_SENTENCE_END, /* '.', '!', '?', or a run of them with the quotes around it */
    HS_ROLE_COMMA,        /* ',' */
    HS_ROLE_OTHER,
    HS_ROLE_COUNT
} hs_role;

/* The tokens of a text. Arrays are [n_tokens], in one block that the encoding owns. */
typedef struct hs_encoding {
    size_t n_tokens;
    bool truncated;
    int32_t *ids;
    int32_t *word_ids; /* number of the word in its text; -1: a special token added here */
    uint32_t *starts;  /* [starts, ends) in Unicode code points of the token's text; */
    uint32_t *ends;    /* 0, 0 for special tokens added here */
    uint8_t *types;    /* token_type_ids */
    uint8_t *texts;    /* 1 for the pair and the special tokens after it, whatever their type */
    uint8_t *special;  /* special_tokens_mask: 1 for the [CLS] and [SEP] added here */
    uint8_t *roles;    /* hs_role */
} hs_encoding;

/* Encodes a text by the tokenizer's template, for example as [CLS] text [SEP], or with a pair as [CLS] text
 * [SEP] pair [SEP]. Without a template there are no special tokens, so an empty text has no tokens. Truncates
 * pairs longest first, at the end or, with truncation_side left, at the beginning. Takes linear time for any
 * text. Fails with HS_BAD_REQUEST if a text is not valid UTF-8, HS_TOO_LARGE from 2 GiB on, and HS_INVALID if
 * the special tokens exceed tokens_max. */
HS_MUST_USE hs_status hs_tokenizer_encode(const hs_tokenizer *tokenizer, const hs_text *text,
                                          const hs_text *pair, const hs_encode_options *options,
                                          hs_encoding *ret_encoding, hs_error *err);
/* Like hs_tokenizer_encode, for one text that is already split. Each word is tokenized separately. word_ids
 * number the given words, and offsets count within each word. */
HS_MUST_USE hs_status hs_tokenizer_encode_words(const hs_tokenizer *tokenizer, const hs_text *words,
                                                size_t n_words, const hs_encode_options *options,
                                                hs_encoding *ret_encoding, hs_error *err);
/* Wraps given ids, special tokens included: nothing is added or truncated. There are no words and no offsets
 * (0, 0). The template's special tokens and padding count as special. All ids must be below
 * hs_tokenizer_vocab_size. types may be NULL: all 0. */
HS_MUST_USE hs_status hs_tokenizer_encode_ids(const hs_tokenizer *tokenizer, const int32_t *ids,
                                              const uint8_t *types, size_t n_ids, hs_encoding *ret_encoding,
                                              hs_error *err);
/* Puts a token before all others, which counts as special. Fails with HS_NO_MEMORY and changes nothing then.
 */
HS_MUST_USE hs_status hs_encoding_begin(const hs_tokenizer *tokenizer, int32_t id, hs_encoding *encoding,
                                        hs_error *err);
void hs_encoding_finish(hs_encoding *encoding); /* zeroed or finished twice is fine */

/* ---- windows of a long text ----
 *
 * Each window has the tokens around the text: special tokens, and of a pair the first text, so that it is
 * what the model knows. Neighbours share `stride` tokens, as in HuggingFace's tokenizers. */

/* Limit on the tokens of a text that is cut into windows: tokens_max of its encoding. */
#define HS_WINDOWS_TOKENS_MAX ((size_t)1 << 18)

/* Upper bound of the bytes of such a text while it is encoded and cut: its pieces, whose list doubles, and
 * its tokens. */
#define HS_WINDOWS_BYTES (HS_WINDOWS_TOKENS_MAX * 96)

typedef struct hs_windows {
    size_t n_before, n_after; /* tokens around each window */
    size_t end;               /* where the text ends in the whole encoding */
    size_t size, step;        /* tokens of the text in a window, and from one to the next */
    size_t n;                 /* windows, 1 or more */
} hs_windows;

/* Plans the windows of an encoding. HS_TOO_LARGE: the text is cut off. HS_INVALID: its windows have no
 * capacity for more than stride tokens of it. */
HS_MUST_USE hs_status hs_windows_plan(const hs_encoding *whole, size_t tokens_max, size_t stride,
                                      hs_windows *ret_windows, hs_error *err);
/* Makes window w. HS_NO_MEMORY. */
HS_MUST_USE hs_status hs_window_make(const hs_windows *windows, const hs_encoding *whole, size_t w,
                                     hs_encoding *ret_window, hs_error *err);

/* ---- the vocabulary ---- */

/* Returns the vocabulary entry of an id as the files write it ("##ing", "\u0120the"), NUL-terminated, owned
 * by the tokenizer. An id out of range returns the unknown token, or "" if there is none. */
const char *hs_tokenizer_token(const hs_tokenizer *tokenizer, int32_t id);
/* Returns the id of a vocabulary entry, or -1. */
int32_t hs_tokenizer_id(const hs_tokenizer *tokenizer, const char *token, size_t n_bytes);
#define HS_FRAME_MAX 16

/* Writes the special tokens that the template puts around a text and returns their number; the first
 * *ret_n_before stand before the text. */
size_t hs_tokenizer_frame(const hs_tokenizer *tokenizer, int32_t ret_ids[HS_FRAME_MAX], size_t *ret_n_before);

/* The languages of a model whose template has the token of a language. */
typedef struct hs_languages {
    int32_t source; /* the template's; -1: the model has no languages */
    int32_t target; /* tgt_lang of tokenizer_config.json; -1: none */
    bool last;      /* the template puts the language behind the text */
} hs_languages;
const hs_languages *hs_tokenizer_languages(const hs_tokenizer *tokenizer);
/* Returns the token of a language ("fra_Latn"; "fr" or "__fr__"), or -1. */
int32_t hs_tokenizer_language(const hs_tokenizer *tokenizer, const char *code, size_t n_bytes);
#define HS_LANGUAGE_BYTES 16
/* Returns true and the code if the id is the token of a language: "fra_Latn", "fr". */
bool hs_tokenizer_language_code(const hs_tokenizer *tokenizer, int32_t id, char ret_code[HS_LANGUAGE_BYTES]);

/* Returns true if the vocabulary has this id and it is not a special token. */
bool hs_tokenizer_is_ordinary(const hs_tokenizer *tokenizer, int32_t id);

/* Returns true if a text that is too long loses its beginning and not its end: truncation_side is left. */
bool hs_tokenizer_cuts_left(const hs_tokenizer *tokenizer);

/* Returns the vocab_size of config.json. All ids are below it; there may be fewer tokens. */
size_t hs_tokenizer_vocab_size(const hs_tokenizer *tokenizer);

/* Returns the kind as static text: "WordPiece", "BPE", "byte-level BPE" (its tokens write bytes as substitute
 * characters), "Unigram", "WordLevel" or "Character" (BertJapanese). */
const char *hs_tokenizer_kind(const hs_tokenizer *tokenizer);

typedef struct hs_special_ids {
    int32_t cls, sep, pad, unk, mask; /* -1: the vocabulary has none */
} hs_special_ids;
const hs_special_ids *hs_tokenizer_special_ids(const hs_tokenizer *tokenizer);

/* Returns the role of an id, from its special token or its text. A mark for a preceding space ("\u0120.",
 * "\u2581.") does not count. An id out of range has the unknown token's role. */
hs_role hs_tokenizer_role(const hs_tokenizer *tokenizer, int32_t id);

/* ---- for people ----
 *
 * Writes a token for people. Vocabularies write spaces and bytes in substitute characters
 * ("\u0120the", "\u2581the", "\u00c3\u00a9"). They become text again, with U+2423 for a space. The viewer
 * does the same in static/src/app/token-labels.ts. Answers for programs keep the vocabulary's form. */

/* Writes the readable form of a token, cut at a character to n_bytes - 1 bytes, NUL-terminated. `kind` is
 * that of hs_tokenizer_kind; if it is NULL the token is copied. */
void hs_token_readable(const char *kind, const char *token, char *ret_text, size_t n_bytes);
