/* parts.h - the parts of the pipeline, behind one interface.
 *
 *     stage            from -> to                                 parts
 *     normalizer       text -> text as the vocabulary has it      BertNormalizer, Precompiled, Lowercase,
 *                                                                 NFC, NFD, NFKC, NFKD, Nmt, StripAccents,
 *                                                                 Strip, Replace
 *     pre-tokenizer    text -> words                              BertPreTokenizer, ByteLevel,
 *                                                                 Metaspace, WhitespaceSplit
 *     model            word -> pieces with ids                    WordPiece, BPE, Unigram, WordLevel
 *     post-processor   pieces -> a sequence with special tokens   BertProcessing, RobertaProcessing,
 *                                                                 TemplateProcessing, ByteLevel
 *
 * A stage is a list of parts, each working on what the one before it made: none where the file says null,
 * several where it says Sequence.
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
    const hs__aligned_text *text;  /* what spans are of; a part that rewrites it points to its own */
    hs__spans words;               /* in order; a part replaces each by those it is cut into */
    hs__spans uncut;               /* scratch: what words were before */
    hs__aligned_text rewritten[2]; /* for parts that rewrite: the one that text does not point to */
} hs__split;

void hs__split_finish(hs__split *split);

/* What a post-processor does to offsets. */
typedef struct hs__trim {
    bool spaces;      /* tokens reach over their letters only, not over the white space that they include */
    bool keeps_first; /* but for a single space at the start of the text, which was put there */
} hs__trim;

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
    /* The model's entries; the caller frees ret_entries->items, also after an error. NULL: "vocab" is an
     * object, text to id. */
    hs_status (*list)(const json_t *options, size_t vocab_size, hs__entries *ret_entries, hs_error *err);
    /* The unknown token, or -1. */
    int32_t (*unknown)(const hs__part *part);

    /* Where the special tokens go; NULL: it adds none. */
    const hs__template *(*template)(const hs__part *part);
    /* NULL: offsets stay as they are. */
    hs__trim (*trim)(const hs__part *part);
} hs__part_type;

struct hs__part {
    const hs__part_type *type;
};

#define HS__STAGE_PARTS_MAX 16

/* The parts of a stage, in order. */
typedef struct hs__parts {
    hs__part *items[HS__STAGE_PARTS_MAX]; /* [n] */
    size_t n;
} hs__parts;

/* From the object's "type", or from each of a Sequence. HS_BAD_MODEL when no part of the stage is called so,
 * and when there is none and the stage needs one. Must be finished, also after an error. */
HS_MUST_USE hs_status hs__parts_create(hs__stage stage, const json_t *options, hs__parts *ret_parts,
                                       hs_error *err);
void hs__parts_finish(hs__parts *parts);

/* Appends the view, normalised by each part in turn, to ret_text. False when memory is short. */
bool hs__parts_normalize(const hs__parts *parts, const hs__text_view *view, hs__aligned_text scratch[2],
                         hs__aligned_text *ret_text);

/* One line each. */
extern const hs__part_type hs__bert_normalizer, hs__bert_pre_tokenizer, hs__byte_level_pre_tokenizer,
    hs__wordpiece, hs__bpe, hs__bert_processing, hs__roberta_processing, hs__template_processing,
    hs__byte_level_post_processor, hs__lowercase, hs__nfc, hs__nfd, hs__nfkc, hs__nfkd, hs__nmt,
    hs__precompiled, hs__replace, hs__strip, hs__strip_accents, hs__metaspace, hs__whitespace_split,
    hs__unigram, hs__word_level;
