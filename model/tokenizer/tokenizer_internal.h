/* tokenizer_internal.h - the inside of hs_tokenizer, and what its files say before it is built.
 *
 *     tokenizer_files.c    tokenizer.json and tokenizer_config.json -> hs__description
 *     older_files.c        vocab.txt, vocab.json with merges.txt, sentencepiece -> the tokenizer.json they
 * mean added_files.c        whatever names added tokens -> the list of them tokenizer.c          these ->
 * parts, vocabulary, added tokens, roles tokenizer_encode.c   texts through the parts -> hs_encoding */
#pragma once

#include "model/tokenizer/added_tokens.h"
#include "model/tokenizer/tokenizer.h"

#define HS__TOKENIZER_JSON   "tokenizer.json"
#define HS__TOKENIZER_CONFIG "tokenizer_config.json"

struct hs_tokenizer {
    hs__vocabulary vocabulary;
    hs__added_tokens added;
    hs__parts stages[HS__N_STAGES];
    const hs__template *template;
    hs__trim trim;
    hs_special_ids special;
    uint8_t *roles; /* [vocabulary.size] hs_role */
};

/* Special tokens of a class of tokenizers: those that tokenizer_config.json need not name. */
typedef struct hs__special_names {
    const char *cls, *sep, *unk, *pad, *mask; /* NULL: known only if they are named */
    bool mask_lstrip;
} hs__special_names;

/* What a tokenizer's files say. Strings are borrowed from their bytes or from the JSON documents. */
typedef struct hs__description {
    json_t *json;           /* tokenizer.json, or what older files mean by it */
    json_t *config;         /* tokenizer_config.json with what special_tokens_map.json says; {} if absent */
    json_t *added_json;     /* added_tokens.json, or NULL */
    const char *vocab_file; /* "tokenizer.json", "vocab.txt" */
    size_t vocab_size;      /* ids are below this */
    bool older;             /* there is no tokenizer.json */
    hs__entries entries;    /* items NULL: the model has them in its own object */
    hs__added_list added;
    json_t *added_by;    /* an added token's text -> the file that named it first */
    const char *reading; /* the file that names added tokens now */
    hs__special_names names;
    const char *pad, *mask; /* NULL: by their usual names */
} hs__description;

/* *ret must be finished, also after an error. */
HS_MUST_USE hs_status hs__description_read(const hs_tokenizer_files *files, size_t vocab_size,
                                           hs__description *ret, hs_error *err);
void hs__description_finish(hs__description *description);

/* Without tokenizer.json: fills json, vocab_file, entries, names. */
HS_MUST_USE hs_status hs__older_files_read(const hs_tokenizer_files *files, hs__description *description,
                                           hs_error *err);

/* Fills added. A token that several files name is as the first of them says. */
HS_MUST_USE hs_status hs__added_files_read(hs__description *description, hs_error *err);

/* The text of a special token: what the config says under this key, else what is usual, else NULL. */
HS_MUST_USE hs_status hs__special_name(const hs__description *description, const char *key, const char *usual,
                                       const char **ret_text, hs_error *err);
