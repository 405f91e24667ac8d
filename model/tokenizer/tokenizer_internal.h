/* tokenizer_internal.h - the inside of hs_tokenizer, and what its files say before it is built.
 *
 *     tokenizer_files.c   vocab.txt, tokenizer.json, tokenizer_config.json -> hs__tokenizer_files
 *     tokenizer.c         these -> parts, vocabulary, added tokens, roles
 *     tokenizer_encode.c  texts through the parts -> hs_encoding */
#pragma once

#include "model/bytes.h"
#include "model/tokenizer/added_tokens.h"
#include "model/tokenizer/tokenizer.h"

struct hs_tokenizer {
    hs__vocabulary vocabulary;
    hs__added_tokens added;
    hs__parts stages[HS__N_STAGES];
    const hs__template *template;
    hs__trim trim;
    hs_special_ids special;
    uint8_t *roles; /* [vocabulary.size] hs_role */
};

/* Strings are borrowed from the files' bytes or from the two JSON documents. */
typedef struct hs__tokenizer_files {
    json_t *json, *config;  /* tokenizer.json, or what vocab.txt means by it; tokenizer_config.json or NULL */
    const char *vocab_file; /* "tokenizer.json", "vocab.txt" */
    size_t vocab_size;      /* ids are below this */
    hs__entries entries;
    hs__added_list added;
    const char *pad, *mask; /* NULL: by their usual names */
} hs__tokenizer_files;

/* *ret_files must be finished, also after an error. */
HS_MUST_USE hs_status hs__tokenizer_files_read(const hs_bytes *vocab, const hs_bytes *tokenizer_json,
                                               const hs_bytes *tokenizer_config, size_t vocab_size,
                                               hs__tokenizer_files *ret_files, hs_error *err);
void hs__tokenizer_files_finish(hs__tokenizer_files *files);
