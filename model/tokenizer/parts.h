/* parts.h - the parts of the tokenizer pipeline and their common interface.
 *
 *     stage            from -> to                                 parts
 *     normalizer       text -> text as the vocabulary has it      BertNormalizer, Precompiled, Lowercase,
 *                                                                 NFC, NFD, NFKC, NFKD, Nmt, StripAccents,
 *                                                                 Strip, Prepend, Replace
 *     pre-tokenizer    text -> words                              BertPreTokenizer, ByteLevel,
 *                                                                 Digits, Metaspace, Split, WhitespaceSplit
 *     model            word -> pieces with ids                    WordPiece, BPE, Unigram, WordLevel
 *     post-processor   pieces -> a sequence with special tokens   BertProcessing, RobertaProcessing,
 *                                                                 TemplateProcessing, ByteLevel
 *
 * A stage is a list of parts, each working on the output of the one before it. It is empty if the file has
 * null, and has several parts if the file has a Sequence.
 *
 * Each part has its own file. It reads its JSON object of tokenizer.json, refuses unsupported options that
 * would change ids, and never changes after bind. Its hs__part_type is one line in parts.c. The struct of a
 * part begins with its hs__part. */
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

/* A text while pre-tokenizers cut it into words. */
typedef struct hs__split {
    const hs__aligned_text *text; /* the text of the spans */
    hs__spans words;              /* in order */
    hs__spans uncut;              /* scratch: the words before the current part */
    hs__aligned_text
        rewritten[2]; /* for parts that rewrite the text; text points to neither or one of them */
} hs__split;

void hs__split_finish(hs__split *split);

/* A post-processor's changes to offsets. */
typedef struct hs__trim {
    bool spaces;      /* offsets leave out the white space at both ends of a token */
    bool keeps_first; /* but keep one space at the start of the text, which the pipeline added */
} hs__trim;

typedef struct hs__part hs__part;

typedef struct hs__part_type {
    hs__stage stage;
    const char *name; /* its "type" in tokenizer.json */
    size_t size;      /* of its struct, which begins with an hs__part */

    /* Reads the JSON object of a zeroed part, which may use its strings until bind. NULL: it has no
     * options. */
    hs_status (*configure)(hs__part *part, const json_t *options, hs_error *err);
    /* Looks up the tokens that the part names. The vocabulary must outlive the part. NULL: it names none. */
    hs_status (*bind)(hs__part *part, const hs__vocabulary *vocabulary, hs_error *err);
    /* Frees what the part owns, also if configure failed. NULL: nothing. */
    void (*finish)(hs__part *part);

    /* Normalizers and pre-tokenizers: cutting a text after white space or punctuation does not change the
     * result. */
    bool cuts_at_punctuation;

    /* The functions of one stage. False means that memory is short. */

    /* Appends the normalised view to ret_text. */
    bool (*normalize)(const hs__part *part, const hs__text_view *view, hs__aligned_text *ret_text);

    /* Appends the words that it cuts a word of `from` into. If `rewrites`, it appends the word's new text to
     * `to`, and the words are spans of that. */
    bool (*split)(const hs__part *part, const hs__aligned_text *from, hs__span word, hs__aligned_text *to,
                  hs__spans *words);
    bool rewrites;

    /* Appends the pieces of one word. */
    bool (*tokenize)(const hs__part *part, const hs__aligned_text *text, hs__span word, hs__pieces *pieces);
    /* Returns true if an object is of this type: models of old files name no type. */
    bool (*recognize)(const json_t *options);
    /* Lists the model's entries. The caller frees ret_entries->items, even after an error. NULL: "vocab" is
     * an object from text to id. */
    hs_status (*list)(const json_t *options, size_t vocab_size, hs__entries *ret_entries, hs_error *err);
    /* Returns the id of the unknown token, or -1. */
    int32_t (*unknown)(const hs__part *part);

    /* Returns the positions of the special tokens. NULL: the part adds none. */
    const hs__template *(*template)(const hs__part *part);
    /* Returns the trimming of offsets. NULL: none. */
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

/* Creates the parts of a stage from an object, or from each object of a Sequence. Fails with HS_BAD_MODEL for
 * an unknown part, or if a required stage has none. The caller finishes the result, even after an error. */
HS_MUST_USE hs_status hs__parts_create(hs__stage stage, const json_t *options, hs__parts *ret_parts,
                                       hs_error *err);
void hs__parts_finish(hs__parts *parts);

/* Appends the view to ret_text, normalised by each part in turn. Returns false if memory is short. */
bool hs__parts_normalize(const hs__parts *parts, const hs__text_view *view, hs__aligned_text scratch[2],
                         hs__aligned_text *ret_text);

/* Cuts split->words by each part in turn. Returns false if memory is short or a rewritten text is over its
 * limit. */
bool hs__parts_split(const hs__parts *parts, hs__split *split);

/* One line each. */
extern const hs__part_type hs__bert_normalizer, hs__bert_pre_tokenizer, hs__byte_level_pre_tokenizer,
    hs__wordpiece, hs__bpe, hs__bert_processing, hs__roberta_processing, hs__template_processing,
    hs__byte_level_post_processor, hs__lowercase, hs__nfc, hs__nfd, hs__nfkc, hs__nfkd, hs__nmt,
    hs__precompiled, hs__replace, hs__strip, hs__strip_accents, hs__metaspace, hs__whitespace_split,
    hs__unigram, hs__word_level, hs__prepend, hs__digits, hs__split_pre_tokenizer;
