/* vocabulary.h - maps ids to texts and texts to ids, for the model's entries and the added tokens.
 *
 * A trie holds the model's entries, and models use it to cut words. An added token takes precedence over a
 * model's entry of the same text. Both must have the same id. */
#pragma once

#include "model/tokenizer/trie.h"

#include <jansson.h>
#include <stdbool.h>

#define HS__TOKEN_BYTES_MAX 1024

/* The entries of a file, which owns their texts. */
typedef struct hs__entries {
    hs__entry *items; /* [n] */
    size_t n;
} hs__entries;

/* A token that is cut out of the text before the model sees it. */
typedef struct hs__added_token {
    hs__entry entry;     /* id -1: use the id of the same text in the vocabulary, or the first free one */
    bool must_be_there;  /* without an id, drop the token unless the vocabulary has it */
    bool special;        /* if false, the token is found even if special tokens are split */
    bool normalized;     /* search in the normalised text for the normalised token */
    bool single_word;    /* match only as a whole word */
    const char *file;    /* the file that names it, for messages */
    bool lstrip, rstrip; /* takes the white space before it, after it */
} hs__added_token;

typedef struct hs__added_list {
    hs__added_token *items; /* [n] */
    size_t n;
} hs__added_list;

typedef struct hs__vocabulary {
    hs__trie entries;  /* the model's entries */
    hs__trie added;    /* the names of added tokens */
    char *texts;       /* every token, NUL-terminated */
    uint32_t *text_at; /* [size]: offset in texts; UINT32_MAX: unused id */
    size_t size;       /* ids are below this */
    const char *file;  /* the file it was read from, for messages */
} hs__vocabulary;

/* Builds the vocabulary: sorts the entries and gives each added token its id. Drops added tokens that get no
 * id, because they must be in the vocabulary or no id is free. Fails with HS_BAD_MODEL if an id has two texts
 * or an added token two ids. The caller finishes *ret_vocabulary, even after an error. */
HS_MUST_USE hs_status hs__vocabulary_build(hs__entries *entries, hs__added_list *added, size_t size,
                                           const char *file, hs__vocabulary *ret_vocabulary, hs_error *err);
void hs__vocabulary_finish(hs__vocabulary *vocabulary);

/* Returns the id of a token, or -1. */
int32_t hs__vocabulary_id(const hs__vocabulary *vocabulary, const char *text, size_t n_bytes);

/* Returns the id of a token in *ret_id. Fails with HS_BAD_MODEL if the vocabulary has none. */
HS_MUST_USE hs_status hs__vocabulary_need(const hs__vocabulary *vocabulary, const char *text, int32_t *ret_id,
                                          hs_error *err);

/* ---- reading ---- */

/* Checks a token. Fails with HS_BAD_MODEL, naming `where`, if it is too long, contains NUL or is not
 * UTF-8. */
HS_MUST_USE hs_status hs__token_check(const char *text, size_t n_bytes, const char *where, hs_error *err);

/* Reads an id below size. `key` and `text` name its owner in messages. */
HS_MUST_USE hs_status hs__token_id_read(const json_t *json, const char *key, const char *text, size_t size,
                                        int32_t *ret_id, hs_error *err);

/* Reads a model's "vocab" object, from text to id. The caller frees ret_entries->items, even after an
 * error. */
HS_MUST_USE hs_status hs__entries_read(json_t *vocab, size_t size, hs__entries *ret_entries, hs_error *err);
