/* parts.h - the parts of the pipeline, behind one interface.
 *
 *     stage            from -> to                                 parts
 *     normalizer       text -> text as the vocabulary has it      BertNormalizer
 *     pre-tokenizer    text -> words                              BertPreTokenizer
 *     model            word -> pieces with ids                    WordPiece
 *     post-processor   pieces -> a sequence with special tokens   BertProcessing, TemplateProcessing
 *
 * A part is one file: it reads its own JSON object of tokenizer.json, refuses by name whatever would change
 * ids and is not supported, and never changes once bound. Its hs__part_type is registered with one line in
 * parts.c. A part's struct begins with its hs__part. */
#pragma once

#include "model/tokenizer/pieces.h"
#include "model/tokenizer/template.h"
#include "model/tokenizer/vocabulary.h"

typedef enum hs__stage {
    HS__NORMALIZER,
    HS__PRE_TOKENIZER,
    HS__MODEL,
    HS__POST_PROCESSOR,
    HS__N_STAGES
} hs__stage;

/* A text being cut into words. */
typedef struct hs__split {
    const hs__aligned_text *text; /* what spans are of; a part that rewrites it points to its own */
    hs__spans words;              /* in order; a part replaces each by those it is cut into */
    hs__spans uncut;              /* scratch: what words were before */
} hs__split;

typedef struct hs__part hs__part;

typedef struct hs__part_type {
    hs__stage stage;
    const char *name; /* its "type" in tokenizer.json */

    /* From its object, whose strings may be needed until bind. */
    hs_status (*create)(const json_t *options, hs__part **ret_part, hs_error *err);
    /* Looks up the tokens it names; the vocabulary stays where it is. NULL: it names none. */
    hs_status (*bind)(hs__part *part, const hs__vocabulary *vocabulary, hs_error *err);
    void (*destroy)(hs__part *part);

    /* Of a normalizer or pre-tokenizer: a text may be cut behind any white space or punctuation and gives the
     * same in two goes. */
    bool cuts_at_punctuation;

    /* Each stage has its own of what follows. False means that memory is short. */

    /* Appends the normalised view to ret_text. */
    bool (*normalize)(const hs__part *part, const hs__text_view *view, hs__aligned_text *ret_text);

    /* Cuts the words that are there into smaller ones. */
    bool (*split)(const hs__part *part, hs__split *split);

    /* Appends the pieces of one word. */
    bool (*tokenize)(const hs__part *part, const hs__aligned_text *text, hs__span word, hs__pieces *pieces);
    /* Old files' models have no type: whether an object is of this one. */
    bool (*recognize)(const json_t *options);
    /* The model's entries; the caller frees ret_entries->items, also after an error. */
    hs_status (*list)(const json_t *options, size_t vocab_size, hs__entries *ret_entries, hs_error *err);
    /* The unknown token. */
    int32_t (*unknown)(const hs__part *part);

    /* Where the special tokens go. */
    const hs__template *(*template)(const hs__part *part);
} hs__part_type;

struct hs__part {
    const hs__part_type *type;
};

/* From the object's "type"; HS_BAD_MODEL when no part of the stage is called so. */
HS_MUST_USE hs_status hs__part_create(hs__stage stage, const json_t *options, hs__part **ret_part,
                                      hs_error *err);
void hs__part_destroy(hs__part *part); /* NULL is fine */

/* One line each. */
extern const hs__part_type hs__bert_normalizer, hs__bert_pre_tokenizer, hs__wordpiece, hs__bert_processing,
    hs__template_processing;
