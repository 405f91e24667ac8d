/* tokenizer_internal.h - the struct hs_tokenizer, and the description that its files are read into.
 *
 *     tokenizer_files.c    tokenizer.json and tokenizer_config.json -> hs__description
 *     older_files.c        vocab.txt, merges.txt, sentencepiece -> an equivalent tokenizer.json
 *     added_files.c        all files that name added tokens -> hs__added_list
 *     tokenizer.c          hs__description -> parts, vocabulary, added tokens, roles
 *     tokenizer_encode.c   texts -> hs_encoding */
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

/* The special tokens of a class of tokenizers, for files that do not name them. */
typedef struct hs__special_names {
    const char *cls, *sep, *unk, *pad, *mask; /* NULL: none unless a file names it */
    bool mask_lstrip;
} hs__special_names;

/* The description of a tokenizer, read from its files. The files and the JSON documents own the strings. */
typedef struct hs__description {
    json_t *json;           /* tokenizer.json, or the equivalent of older files */
    json_t *config;         /* tokenizer_config.json merged with special_tokens_map.json; {} if absent */
    json_t *added_json;     /* added_tokens.json, or NULL */
    const char *vocab_file; /* "tokenizer.json", "vocab.txt" */
    size_t vocab_size;      /* ids are below this */
    bool older;             /* the folder has no tokenizer.json */
    hs__entries entries;    /* items NULL: the model's own object lists them */
    hs__added_list added;
    json_t *added_by;    /* an added token's text -> the file that named it first */
    const char *reading; /* the file being read */
    hs__special_names names;
    const char *pad, *mask; /* NULL: look for the default names */
} hs__description;

/* Reads the description. The caller finishes *ret, even after an error. */
HS_MUST_USE hs_status hs__description_read(const hs_tokenizer_files *files, size_t vocab_size,
                                           hs__description *ret, hs_error *err);
void hs__description_finish(hs__description *description);

/* Fills json, vocab_file, entries and names from the files of a folder without tokenizer.json. */
HS_MUST_USE hs_status hs__older_files_read(const hs_tokenizer_files *files, hs__description *description,
                                           hs_error *err);

/* Fills added. If several files name a token, the first one counts. */
HS_MUST_USE hs_status hs__added_files_read(hs__description *description, hs_error *err);

/* Finds the text of a special token: the config's value of this key, else `otherwise`, which may be NULL. */
HS_MUST_USE hs_status hs__special_name(const hs__description *description, const char *key,
                                       const char *otherwise, const char **ret_text, hs_error *err);
