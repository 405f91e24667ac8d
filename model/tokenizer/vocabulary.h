/* vocabulary.h - ids and texts of all tokens: the model's own and the added ones.
 *
 * The model's entries are found by a trie, which a model also cuts its words with. An added token is found by
 * its name before a model's entry of the same text; the two must have the same id. */
#pragma once

#include "model/tokenizer/trie.h"

#include <jansson.h>
#include <stdbool.h>

#define HS__TOKEN_BYTES_MAX 1024

/* What a file lists. Texts are borrowed from it. */
typedef struct hs__entries {
    hs__entry *items; /* [n] */
    size_t n;
} hs__entries;

/* A token that is found in the text before a model sees it. */
typedef struct hs__added_token {
    hs__entry entry;     /* id -1: that of the same text in the vocabulary, or the first behind all */
    bool must_be_there;  /* without id: of no use unless the vocabulary has it */
    bool special;        /* false: found in the text even when special tokens are split */
    bool normalized;     /* to be found in the normalised text, normalised itself */
    bool single_word;    /* not next to a letter */
    const char *file;    /* that named it, for messages */
    bool lstrip, rstrip; /* takes the white space before it, behind it */
} hs__added_token;

typedef struct hs__added_list {
    hs__added_token *items; /* [n] */
    size_t n;
} hs__added_list;

typedef struct hs__vocabulary {
    hs__trie entries;  /* the model's */
    hs__trie added;    /* the names of added tokens */
    char *texts;       /* every token, NUL-terminated */
    uint32_t *text_at; /* [size]: where in texts; UINT32_MAX for ids that no token has */
    size_t size;       /* ids are below this */
    const char *file;  /* that it was read from, for messages while the pipeline is built */
} hs__vocabulary;

/* Sorts the entries, gives every added token its id and drops those that get none, for they
 * must be there or there are size ids already. HS_BAD_MODEL when an id
 * has two texts or an added token two ids. *ret_vocabulary must be finished, also after an error. */
HS_MUST_USE hs_status hs__vocabulary_build(hs__entries *entries, hs__added_list *added, size_t size,
                                           const char *file, hs__vocabulary *ret_vocabulary, hs_error *err);
void hs__vocabulary_finish(hs__vocabulary *vocabulary);

/* The id of a token, or -1. */
int32_t hs__vocabulary_id(const hs__vocabulary *vocabulary, const char *text, size_t n_bytes);

/* The id of a token that must exist. */
HS_MUST_USE hs_status hs__vocabulary_need(const hs__vocabulary *vocabulary, const char *text, int32_t *ret_id,
                                          hs_error *err);

/* ---- reading ---- */

/* HS_BAD_MODEL, naming `where`, when a token is too long, contains NUL or is not UTF-8. */
HS_MUST_USE hs_status hs__token_check(const char *text, size_t n_bytes, const char *where, hs_error *err);

/* An id below size; `key` and `text` say whose it is. */
HS_MUST_USE hs_status hs__token_id_read(const json_t *json, const char *key, const char *text, size_t size,
                                        int32_t *ret_id, hs_error *err);

/* "vocab" of a model that is an object, text to id. The caller frees ret_entries->items, also after an error.
 */
HS_MUST_USE hs_status hs__entries_read(json_t *vocab, size_t size, hs__entries *ret_entries, hs_error *err);
