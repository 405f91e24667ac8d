/* tokenizer_internal.h - what the files of this folder share, from a text in the pipeline to the struct
 * hs_tokenizer.
 *
 *     tokenizer_files.c    tokenizer.json, tokenizer_config.json, added tokens -> hs__description
 *     older_files.c        vocab.txt, merges.txt, sentencepiece -> an equivalent tokenizer.json
 *     older_japanese.c     the options of BertJapanese -> the same
 *     sentencepiece_ids.c  sentencepiece with vocab.json (Marian, M2M100) -> the same
 *     sentencepiece_pairs.c  sentencepiece of Llama and Gemma -> the same
 *     tokenizer.c          hs__description -> parts, vocabulary, added tokens, roles
 *     tokenizer_encode.c   texts -> hs_encoding, which begins with finding added tokens
 *     sentencepiece.c      the messages of sentencepiece models
 *     vocabulary.c         ids and texts of tokens, the tries that find them, and added tokens
 *     aligned_text.c       texts and words on their way through the parts
 *     mecab.c              words of Japanese texts
 *     normalizer_*.c, pre_tokenizer*.c, model_*.c, post_processors.c   the parts */
#pragma once

#include "model/base/bytes.h"
#include "model/base/status.h"
#include "model/base/utf8.h"
#include "model/files/json.h"
#include "model/tokenizer/tokenizer.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ---- a text in the pipeline ----
 *
 * A text comes with the source of every byte in the given text.
 *
 * Normalizers replace, drop and insert characters, and pre-tokenizers cut words, but the offsets of tokens
 * refer to the given text. So each byte carries the range of code points that it stands for. A token reaches
 * from the start of its first byte to the end of its last one. */

/* A half-open range of code points of the given text. */
typedef struct hs__range {
    uint32_t start, end;
} hs__range;

/* Valid UTF-8 with the source of each byte. A zeroed struct is an empty text. */
typedef struct hs__aligned_text {
    unsigned char *bytes; /* [n_bytes] */
    hs__range *sources;   /* [n_bytes] */
    size_t n_bytes, capacity;
    size_t bytes_max; /* maximum of n_bytes; 0: no limit */
    bool too_long;    /* growing failed because of bytes_max, not for lack of memory */
} hs__aligned_text;

enum { HS__TEXT_GROWTH_MIN = 8 };

/* Returns the most bytes that the normalizers and pre-tokenizers together may make of n_bytes of text. Real
 * ones make a character up to eleven times as long (NFKD of U+FDFA) and a text two or three times. Hostile
 * ones multiply with every part. */
static inline size_t hs__aligned_text_limit(size_t n_bytes)
{
    const size_t limit_short = 64 * n_bytes + 4, limit_long = HS__TEXT_GROWTH_MIN * n_bytes + (1 << 16);
    return limit_short < limit_long ? limit_short : limit_long;
}

void hs__aligned_text_finish(hs__aligned_text *text);

/* Reserves capacity for n_more bytes. Returns false if memory is short or the limit is exceeded. */
bool hs__aligned_text_reserve(hs__aligned_text *text, size_t n_more);

/* Appends a character. Returns false if memory is short. */
static inline bool hs__aligned_text_put(hs__aligned_text *text, uint32_t code_point, hs__range source)
{
    if (text->capacity - text->n_bytes < 4 && !hs__aligned_text_reserve(text, 4))
        return false;
    const size_t length = hs_utf8_put(code_point, text->bytes + text->n_bytes);
    for (size_t i = 0; i < length; i++)
        text->sources[text->n_bytes++] = source;
    return true;
}

/* Returns true if the text is within its limit; otherwise sets too_long. */
static inline bool hs__aligned_text_fits(hs__aligned_text *text)
{
    text->too_long |= text->bytes_max > 0 && text->n_bytes > text->bytes_max;
    return !text->too_long;
}

/* The input of a normalizer: the given text from code point `first` on, or the output of another
 * normalizer. */
typedef struct hs__text_view {
    const unsigned char *bytes;
    size_t n_bytes;
    const hs__range *sources; /* [n_bytes]; NULL: the given text, where each character is its own source */
    uint32_t first;
} hs__text_view;

/* Returns the source of the character at a byte. `index` is its code point number, used if the view is of the
 * given text. */
static inline hs__range hs__text_view_source(const hs__text_view *view, const unsigned char *at,
                                             uint32_t index)
{
    return view->sources ? view->sources[at - view->bytes] : (hs__range){index, index + 1};
}

/* Passes each character of the view, with its source, to `put`, which appends to ret_text. Returns false as
 * soon as `put` does. */
static inline __attribute__((always_inline)) bool
hs__text_view_map(const hs__text_view *view,
                  bool (*put)(hs__aligned_text *text, uint32_t code_point, hs__range source),
                  hs__aligned_text *ret_text)
{
    const unsigned char *at = view->bytes;
    bool ok = true;
    for (uint32_t index = view->first; at < view->bytes + view->n_bytes && ok; index++) {
        const hs__range source = hs__text_view_source(view, at, index);
        ok = put(ret_text, hs_utf8_next(&at), source);
    }
    return ok;
}

/* A half-open range of bytes of an aligned text. */
typedef struct hs__span {
    size_t start, end;
} hs__span;

typedef struct hs__spans {
    hs__span *items; /* [n] */
    size_t n, capacity;
} hs__spans;

/* Appends a span unless it is empty. Returns false if memory is short. */
bool hs__spans_put(hs__spans *spans, size_t start, size_t end);

/* ---- the sources of changed characters ----
 *
 * Tracks the source of characters through a normalizer.
 *
 * This is the oracle's algorithm (NormalizedString::transform). Each new character comes with a change, the
 * difference in the number of characters. With 0 it stands for the character at the cursor, which advances.
 * With -n the cursor advances over n more characters. With 1 the character is additional and stands for the
 * one before the cursor. Sources follow from counting alone, even if that yields a neighbour of the true
 * source. */

typedef struct hs__transform {
    const hs__text_view *view;
    hs__aligned_text *text;
    const unsigned char *at; /* the cursor */
    uint32_t index;          /* code points of the given text before the cursor */
    hs__range before;        /* source of the character before the cursor */
    uint32_t code_point;     /* the last character put; its change may be amended until the next one */
    long change;
    bool any, failed;
    bool covers; /* a character stands for all that it was composed of, not for the first of them alone */
} hs__transform;

/* Starts a transform that appends to ret_text. */
hs__transform hs__transform_start(const hs__text_view *view, hs__aligned_text *ret_text);
void hs__transform_put(hs__transform *t, uint32_t code_point, long change);
/* Adds to the change of the last character. Has no effect if there is none. */
static inline void hs__transform_amend(hs__transform *t, long change)
{
    t->change += change;
}

/* Appends the last character. Returns false if memory was short at any time. */
bool hs__transform_finish(hs__transform *t);

/* ---- cutting a word ----
 *
 * Cuts a word at the matches of a pattern. The five behaviours are those of the oracle's Split. */

typedef enum hs__cut_behavior {
    HS__CUT_REMOVED,       /* matches are dropped */
    HS__CUT_ISOLATED,      /* each match is a word */
    HS__CUT_WITH_PREVIOUS, /* a match ends the word before it */
    HS__CUT_WITH_NEXT,     /* a match starts the word after it */
    HS__CUT_CONTIGUOUS,    /* matches side by side are one word */
    HS__CUT_BEHAVIORS
} hs__cut_behavior;

/* Cuts one word, whose stretches come in order and without gaps. */
typedef struct hs__cutter {
    hs__cut_behavior behavior;
    bool invert; /* what lies between the matches counts as matches */
    hs__spans *words;
    hs__span last; /* not yet in words */
    bool any, last_matches, failed;
} hs__cutter;

/* Reads "behavior". Leaves *behavior as it is if it is absent; HS__CUT_BEHAVIORS is then refused. */
HS_MUST_USE hs_status hs__cut_behavior_read(const json_t *options, const char *part,
                                            hs__cut_behavior *behavior, hs_error *err);

hs__cutter hs__cutter_start(hs__cut_behavior behavior, bool invert, hs__spans *words);
void hs__cutter_put(hs__cutter *cutter, size_t start, size_t end, bool matches);
/* Returns false if memory was short at any time. */
bool hs__cutter_finish(hs__cutter *cutter);

/* ---- pieces ----
 *
 * The pieces that a model cuts words into: ids, words and offsets. */

typedef struct hs__piece {
    int32_t id, word;
    hs__range source; /* code points of the text */
} hs__piece;

/* The pieces of one text. Only the first n_kept are stored, or the last ones with keeps_last, because an
 * answer shows no more. A zeroed struct with n_kept set is empty. */
typedef struct hs__pieces {
    hs__piece *items; /* [min(n, n_kept)]; a ring: piece k is at k % n_kept */
    size_t n;         /* how many there are, stored or not */
    size_t n_kept;    /* maximum to store */
    size_t capacity;
    int32_t word; /* the number of the current word */
    bool keeps_last;
    float score; /* of the pieces before the current word, in models that sum over a text */
} hs__pieces;

/* Returns piece k, or NULL if it is not stored. */
static inline hs__piece *hs__piece_at(const hs__pieces *pieces, size_t k)
{
    const size_t n_dropped = pieces->n > pieces->n_kept ? pieces->n - pieces->n_kept : 0;
    const size_t first = pieces->keeps_last ? n_dropped : 0;
    return k >= first && k < pieces->n && k - first < pieces->n_kept ? &pieces->items[k % pieces->n_kept]
                                                                     : NULL;
}

/* Appends a piece to the current word. Returns false if memory is short. */
bool hs__pieces_put(hs__pieces *pieces, int32_t id, hs__range source);

/* ---- tries ----
 *
 * A static trie from byte strings to ids, with longest-match search.
 *
 * Nodes are stored in breadth-first order, so the children of a node are adjacent and those of the next node
 * follow. A node needs one offset, one byte and an id: 9 bytes. The trie is built from sorted strings and
 * does not hash, so no vocabulary makes it slow. */

typedef struct hs__trie_node {
    uint32_t first; /* index of the first child; the last child is before the next node's first */
    int32_t id;     /* id of the string that ends here, or -1 */
} hs__trie_node;

typedef struct hs__trie {
    hs__trie_node *nodes; /* the root, and behind all nodes one that ends the children of the last */
    uint8_t *label;       /* the byte that leads to a node, ascending among siblings */
} hs__trie;

/* A vocabulary entry: a string and its id. Not NUL-terminated. */
typedef struct hs__token_entry {
    const char *text;
    uint32_t n_bytes;
    int32_t id;
} hs__token_entry;

#define HS__TRIE_ROOT 0
#define HS__TRIE_NONE UINT32_MAX

/* Sorts the entries and builds a trie. Among equal strings the highest id counts. The lengths must sum to
 * less than 2^32 - 1. Fails with HS_NO_MEMORY. The caller finishes *ret_trie, even after an error. */
HS_MUST_USE hs_status hs__trie_build(hs__token_entry *entries, size_t n_entries, hs__trie *ret_trie,
                                     hs_error *err);
void hs__trie_finish(hs__trie *trie);

/* Walks from a node along a string. Returns the last node, or HS__TRIE_NONE. */
uint32_t hs__trie_walk(const hs__trie *trie, uint32_t node, const char *bytes, size_t n_bytes);

/* Returns the id of a string in a trie that was built, or -1. */
int32_t hs__trie_find(const hs__trie *trie, const char *bytes, size_t n_bytes);

/* Returns the child of a node for one byte, or HS__TRIE_NONE. */
static inline uint32_t hs__trie_step(const hs__trie *trie, uint32_t node, uint8_t byte)
{
    const uint32_t first = trie->nodes[node].first;
    const uint32_t n = trie->nodes[node + 1].first - first;
    if (n <= 4) { /* most nodes have so few that a call would cost more */
        for (uint32_t i = first; i < first + n; i++)
            if (trie->label[i] == byte)
                return i;
        return HS__TRIE_NONE;
    }
    const uint8_t *hit = memchr(trie->label + first, byte, n);
    return hit ? (uint32_t)(hit - trie->label) : HS__TRIE_NONE;
}

/* Returns the id of the longest non-empty match at bytes, or -1. The search starts at `node`, as if its bytes
 * had been matched already. */
static inline int32_t hs__trie_longest(const hs__trie *trie, uint32_t node, const unsigned char *bytes,
                                       size_t n_bytes, size_t *ret_length)
{
    int32_t id = -1;
    for (size_t i = 0; i < n_bytes; i++) {
        node = hs__trie_step(trie, node, bytes[i]);
        if (node == HS__TRIE_NONE)
            break;
        if (trie->nodes[node].id >= 0) {
            id = trie->nodes[node].id;
            *ret_length = i + 1;
        }
    }
    return id;
}

/* ---- the vocabulary ----
 *
 * Maps ids to texts and texts to ids, for the model's entries and the added tokens.
 *
 * A trie holds the model's entries, and models use it to cut words. An added token takes precedence over a
 * model's entry of the same text. Both must have the same id. */

#define HS__TOKEN_BYTES_MAX 1024

/* The entries of a file, which owns their texts. */
typedef struct hs__entries {
    hs__token_entry *items; /* [n] */
    size_t n;
} hs__entries;

/* A token that is cut out of the text before the model sees it. */
typedef struct hs__added_token {
    hs__token_entry entry; /* id -1: use the id of the same text in the vocabulary, or the first free one */
    bool must_be_there;    /* without an id, drop the token unless the vocabulary has it */
    bool special;          /* if false, the token is found even if special tokens are split */
    bool normalized;       /* search in the normalised text for the normalised token */
    bool single_word;      /* match only as a whole word */
    bool unsearched;       /* a special token by its id alone: in texts it is ordinary text */
    const char *file;      /* the file that names it, for messages */
    bool lstrip, rstrip;   /* takes the white space before it, after it */
} hs__added_token;

typedef struct hs__added_list {
    hs__added_token *items; /* [n] */
    size_t n;
} hs__added_list;

/* Finds added tokens in a text. */
typedef struct hs__added_set {
    hs__trie trie;
    bool starts[256]; /* first bytes of the tokens */
    bool any;
} hs__added_set;

/* Properties of an added token, a set of bits. */
enum {
    HS__ADDED_SPECIAL = 1,
    HS__ADDED_SINGLE_WORD = 2,
    HS__ADDED_LSTRIP = 4,
    HS__ADDED_RSTRIP = 8,
    HS__ADDED_LANGUAGE = 16 /* it names a language */
};

/* The added tokens are cut out of the text before the model cuts words.
 *
 * Most are searched for in the given text, and the text between them is normalised. The others are normalised
 * themselves and searched for in the normalised text. The leftmost match counts; of several, the longest. */
typedef struct hs__added_tokens {
    hs__added_set raw, normalized;
    uint8_t *flags;    /* [size] */
    bool looks_around; /* true if a token depends on the characters next to it */
} hs__added_tokens;

typedef struct hs__vocabulary {
    hs__trie entries;     /* the model's entries */
    hs__trie added_names; /* the texts of added tokens */
    hs__added_tokens added;
    char *texts;       /* every token, NUL-terminated */
    uint32_t *text_at; /* [size]: offset in texts; UINT32_MAX: unused id */
    size_t size;       /* ids are below this */
    const char *file;  /* the file it was read from, for messages */
} hs__vocabulary;

typedef struct hs__parts hs__parts; /* defined with the parts */

/* Builds the vocabulary: sorts the entries and gives each added token its id. Drops added tokens that get no
 * id, because they must be in the vocabulary or no id is free. Fails with HS_BAD_MODEL if an id has two texts
 * or an added token two ids, or if normalising leaves nothing of an added token. The caller finishes
 * *ret_vocabulary, even after an error. */
HS_MUST_USE hs_status hs__vocabulary_build(hs__entries *entries, hs__added_list *added,
                                           const hs__parts *normalizers, size_t size, const char *file,
                                           hs__vocabulary *ret_vocabulary, hs_error *err);
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

/* Reads an id below size. `where` and `text` name its owner in messages. */
HS_MUST_USE hs_status hs__token_id_read(const json_t *json, const char *where, const char *text, size_t size,
                                        int32_t *ret_id, hs_error *err);

/* Lists the entries of an object from text to id, which `where` names in messages. The caller frees
 * ret_entries->items, even after an error. */
HS_MUST_USE hs_status hs__ids_read(json_t *vocab, const char *where, size_t vocab_size,
                                   hs__entries *ret_entries, hs_error *err);

/* Lists the entries of a model whose "vocab" is such an object. */
HS_MUST_USE hs_status hs__entries_read(const json_t *options, size_t vocab_size, hs__entries *ret_entries,
                                       hs_error *err);

/* Lists the texts of an array of pieces with scores. Ids are places in the array. The caller frees
 * ret_entries->items, even after an error. */
HS_MUST_USE hs_status hs__scored_read(const json_t *vocab, size_t vocab_size, hs__entries *ret_entries,
                                      hs_error *err);

/* Builds the trie of such an array. */
HS_MUST_USE hs_status hs__scored_build(const json_t *vocab, hs__trie *ret_trie, hs_error *err);

/* ---- SentencePiece models (sentencepiece.c) ---- */

typedef enum hs__piece_type {
    HS__PIECE_NORMAL = 1,
    HS__PIECE_UNKNOWN,
    HS__PIECE_CONTROL,
    HS__PIECE_USER_DEFINED,
    HS__PIECE_UNUSED,
    HS__PIECE_BYTE
} hs__piece_type;

/* A piece. The file's bytes own its text. */
typedef struct hs__sentencepiece {
    const char *text; /* [n_bytes], not NUL-terminated, possibly not UTF-8 */
    size_t n_bytes;
    float score;
    uint32_t type; /* hs__piece_type */
} hs__sentencepiece;

typedef struct hs__sentencepiece_model {
    hs__sentencepiece *pieces;            /* [n_pieces] */
    size_t n_pieces, unknown;             /* unknown: the number of the unknown piece */
    hs_bytes charsmap;                    /* the normalizer's table; may be empty */
    bool is_bpe;                          /* otherwise a Unigram */
    bool has_bytes;                       /* unknown characters are bytes */
    bool marks_ends;                      /* marks stand behind words */
    bool prefixes, drops_spaces, escapes; /* white space: a mark before the text, runs become one space,
                                           * and spaces marks; all by default */
} hs__sentencepiece_model;

/* Reads a model. Fails with HS_BAD_MODEL if it is malformed, truncated, neither a Unigram nor, if bpe, BPE,
 * or has more than pieces_max pieces. The caller finishes *ret_model, even after an error. */
HS_MUST_USE hs_status hs__sentencepiece_parse(const hs_bytes *file, size_t pieces_max, bool bpe,
                                              hs__sentencepiece_model *ret_model, hs_error *err);
void hs__sentencepiece_finish(hs__sentencepiece_model *model);

/* Checks that a piece has a valid text and a finite score. */
HS_MUST_USE hs_status hs__sentencepiece_check(const hs__sentencepiece *piece, hs_error *err);

/* ---- the template ----
 *
 * The positions of the special tokens, as steps for one text and for two. */

#define HS__TEMPLATE_STEPS_MAX HS_FRAME_MAX

/* A step: a special token, or all pieces of a text. */
typedef struct hs__template_step {
    int32_t id;   /* id of the special token; -1: a text */
    uint8_t text; /* 0 or 1; a special token belongs to the text before it, or to the first */
    uint8_t type; /* token_type_ids */
} hs__template_step;

typedef struct hs__template_form {
    hs__template_step steps[HS__TEMPLATE_STEPS_MAX]; /* [n_steps] */
    size_t n_steps, n_special;
} hs__template_form;

typedef struct hs__template {
    hs__template_form forms[2]; /* for one text, for two */
    int32_t first, separator;   /* the special tokens before and after a single text; -1: none */
} hs__template;

/* ---- parts ----
 *
 * The parts of the tokenizer pipeline and their common interface.
 *
 *     stage            from -> to                                 parts
 *     normalizer       text -> text as the vocabulary has it      BertNormalizer, Precompiled, Lowercase,
 *                                                                 NFC, NFD, NFKC, NFKD, Nmt, StripAccents,
 *                                                                 Strip, Prepend, Replace
 *     pre-tokenizer    text -> words                              BertPreTokenizer, ByteLevel,
 *                                                                 Digits, Metaspace, Split, WhitespaceSplit,
 *                                                                 MeCab
 *     model            word -> pieces with ids                    WordPiece, BPE, Unigram, WordLevel,
 *                                                                 Character
 *     post-processor   pieces -> a sequence with special tokens   BertProcessing, RobertaProcessing,
 *                                                                 TemplateProcessing, ByteLevel
 *
 * A stage is a list of parts, each working on the output of the one before it. It is empty if the file has
 * null, and has several parts if the file has a Sequence.
 *
 * Each part has its own file, those of post-processing one together. It reads its JSON object of
 * tokenizer.json, refuses unsupported options that would change ids, and never changes after bind. Its
 * hs__part_type is one line in tokenizer.c. The struct of a part begins with its hs__part. */

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
    /* Pre-tokenizers that may take long for a long text: the most bytes that they should get at once, if the
     * text can be cut behind a sentence. 0: any. */
    size_t enough_bytes;

    /* Appends the pieces of one word. */
    bool (*tokenize)(const hs__part *part, const hs__aligned_text *text, hs__span word, hs__pieces *pieces);
    /* Returns true if an object is of this type: models of old files name no type. */
    bool (*recognize)(const json_t *options);
    /* Lists the model's entries. The caller frees ret_entries->items, even after an error. */
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
struct hs__parts {
    hs__part *items[HS__STAGE_PARTS_MAX]; /* [n] */
    size_t n;
};

/* Appends the view to ret_text, normalised by each part in turn. Returns false if memory is short. */
bool hs__parts_normalize(const hs__parts *parts, const hs__text_view *view, hs__aligned_text scratch[2],
                         hs__aligned_text *ret_text);

/* One line each, in tokenizer.c too. */
extern const hs__part_type hs__bert_normalizer, hs__bert_pre_tokenizer, hs__byte_level_pre_tokenizer,
    hs__wordpiece, hs__bpe, hs__bert_processing, hs__roberta_processing, hs__template_processing,
    hs__byte_level_post_processor, hs__lowercase, hs__nfc, hs__nfd, hs__nfkc, hs__nfkd, hs__nmt,
    hs__precompiled, hs__sentencepiece_normalizer, hs__replace, hs__strip, hs__strip_accents, hs__metaspace,
    hs__whitespace_split, hs__unigram, hs__word_level, hs__prepend, hs__digits, hs__split_pre_tokenizer,
    hs__punctuation, hs__whitespace, hs__mecab_pre_tokenizer, hs__word_normalizer, hs__python_whitespace,
    hs__character;

/* ---- a tokenizer ---- */

#define HS__TOKENIZER_JSON   "tokenizer.json"
#define HS__TOKENIZER_CONFIG "tokenizer_config.json"
/* The advice about a missing file, and about one that cannot be read. */
#define HS__TOKENIZER_ELSEWHERE "--tokenizer DIR reads the tokenizer's files from another folder"
#define HS__TOKENIZER_SAVE                                                                                   \
    "To make tokenizer.json, run (with sentencepiece and protobuf) python3 -c \"import transformers; "       \
    "transformers.AutoTokenizer.from_pretrained('DIR').save_pretrained('DIR')\""

struct hs_tokenizer {
    hs__vocabulary vocabulary;
    hs__parts stages[HS__N_STAGES];
    const hs__template *template;
    hs__trim trim;
    hs_special_ids special;
    hs_languages languages;
    uint8_t *roles;      /* [vocabulary.size] hs_role */
    bool cuts_left;      /* a long text loses its beginning */
    bool splits_special; /* special tokens in a text are ordinary text, whatever a request says */
    size_t n_rows; /* of the embedding; added tokens may have larger ids, and then no text may have them */
};

/* The special tokens of a class of tokenizers, for files that do not name them. */
typedef struct hs__special_names {
    const char *cls, *sep, *unk, *pad, *mask; /* NULL: none unless a file names it */
    bool mask_lstrip;
} hs__special_names;

/* The ids of added tokens may be this far beyond the embedding's rows. Many fine-tuned models have a padding
 * token for which it was not enlarged. transformers opens them, and fails at a text with such a token. */
#define HS__BEYOND_MAX 1024

/* The description of a tokenizer, read from its files. The files and the JSON documents own the strings. */
typedef struct hs__description {
    json_t *json;           /* tokenizer.json, or the equivalent of older files */
    json_t *config;         /* tokenizer_config.json merged with special_tokens_map.json; {} if absent */
    json_t *added_json;     /* added_tokens.json, or NULL */
    json_t *more;           /* special tokens of the config beyond the seven with a purpose, in order */
    const char *vocab_file; /* "tokenizer.json", "vocab.txt" */
    size_t vocab_size;      /* rows of the embedding: ids are below this, but for some added tokens */
    bool older;             /* the folder has no tokenizer.json */
    bool in_python;         /* added tokens are found in the given text, whatever `normalized` says */
    bool keeps_normalizer;  /* tokenizer_config.json changes nothing of BERT's normalizer */
    hs__entries entries;    /* items NULL: the model's own object lists them */
    hs__added_list added;
    json_t *added_by;    /* an added token's text -> the file that named it first */
    const char *reading; /* the file being read */
    hs__special_names names;
    const char *pad, *mask; /* NULL: look for the default names */
} hs__description;

/* Builds a zeroed tokenizer from its description. The caller destroys it, even after an error. */
HS_MUST_USE hs_status hs__tokenizer_build(hs__description *description, hs_tokenizer *ret_tokenizer,
                                          hs_error *err);

/* Fails with HS_BAD_MODEL if transformers has the class in Python alone, so that no tokenizer.json is its. */
HS_MUST_USE hs_status hs__python_class_refuse(const char *class, hs_error *err);

/* Fills json, vocab_file, entries, names and in_python from the files of a folder without tokenizer.json. */
HS_MUST_USE hs_status hs__older_files_read(const hs_tokenizer_files *files, hs__description *description,
                                           hs_error *err);

/* ---- vocab.json and merges.txt (older_byte_pairs.c) ---- */

/* The pipelines of classes with these files. */
typedef enum hs__byte_pairs {
    HS__BYTE_PAIRS,       /* GPT-2's, without a normalizer */
    HS__NFC_BYTE_PAIRS,   /* GPT-NeoX's */
    HS__QWEN2_BYTE_PAIRS, /* NFC, and an expression of its own */
    HS__WORD_PAIRS        /* GPT's: BERT's words in lower case, whose last pieces end with </w> */
} hs__byte_pairs;

/* Fills json and vocab_file. `unknown` is the class's unknown token. */
HS_MUST_USE hs_status hs__byte_pairs_read(hs__byte_pairs kind, const char *unknown,
                                          const hs_tokenizer_files *files, hs__description *d, hs_error *err);

/* ---- BertJapaneseTokenizer (older_japanese.c) ---- */

#define HS__JAPANESE "BertJapaneseTokenizer"

/* Fills json. `unknown` is the class's unknown token. */
HS_MUST_USE hs_status hs__japanese_read(const char *unknown, hs__description *d, hs_error *err);

/* ---- MeCab (mecab.c) ---- */

/* Names a folder in which dictionaries are looked for before those of the system's packages. */
#define HS__DICTIONARIES_VARIABLE "HEADSCOPE_DICTIONARIES"

typedef struct hs__mecab hs__mecab;

/* Loads MeCab with a dictionary of transformers' names, or that of MeCab's own settings if it is NULL. Fails
 * with HS_UNSUPPORTED if the machine lacks the library or the dictionary, and says what to install; with
 * HS_BAD_MODEL if no dictionary has the name. */
HS_MUST_USE hs_status hs__mecab_open(const char *dictionary, hs__mecab **ret_mecab, hs_error *err);
void hs__mecab_close(hs__mecab *mecab); /* NULL is fine */
/* Appends the words of a stretch of valid UTF-8, without the white space between them. Safe on any thread.
 * Returns false if memory is short. */
bool hs__mecab_cut(const hs__mecab *mecab, const unsigned char *bytes, hs__span text, hs__spans *words);

/* ---- tokenizer.model (sentencepiece_pairs.c) ---- */

/* The pipelines of classes with this file. */
typedef enum hs__piece_pairs {
    HS__PLAIN_PIECES, /* as the file says: Mistral, and a Llama without tokenizer_config.json */
    HS__LLAMA_PIECES,
    HS__GEMMA_PIECES
} hs__piece_pairs;

/* Fills json and vocab_file. `unknown` is the class's unknown token. */
HS_MUST_USE hs_status hs__piece_pairs_read(hs__piece_pairs kind, const char *unknown,
                                           const hs_tokenizer_files *files, hs__description *d,
                                           hs_error *err);

/* ---- lines ---- */

/* Returns the end of the line at `at`: LF, CR or CRLF, as in Python's text files. */
static inline const char *hs__line_end(const char *at, const char *end)
{
    const char *newline = memchr(at, '\n', (size_t)(end - at));
    const char *stop = newline ? newline : end;
    const char *carriage = memchr(at, '\r', (size_t)(stop - at));
    return carriage ? carriage : stop;
}

/* Returns the start of the line after the one that ends at stop. */
static inline const char *hs__line_next(const char *stop, const char *end)
{
    return stop < end && *stop == '\r' && stop + 1 < end && stop[1] == '\n' ? stop + 2 : stop + 1;
}

/* Fill json, vocab_file and entries from a sentencepiece model and vocab.json, once the names are set
 * (sentencepiece_ids.c). */
HS_MUST_USE hs_status hs__marian_read(const hs_tokenizer_files *files, hs__description *d, hs_error *err);
HS_MUST_USE hs_status hs__m2m100_read(const hs_tokenizer_files *files, hs__description *d, hs_error *err);

/* Finds the text of a special token: the config's value of this key, else `otherwise`, which may be NULL. */
HS_MUST_USE static inline hs_status hs__special_name(const hs__description *description, const char *key,
                                                     const char *otherwise, const char **ret_text,
                                                     hs_error *err)
{
    *ret_text = otherwise;
    return hs__option_text(description->config, HS__TOKENIZER_CONFIG, key, ret_text, err);
}

/* ---- languages (languages.c) ---- */

/* Replaces the template, for classes of transformers that make it from the source language. */
HS_MUST_USE hs_status hs__languages_configure(const hs__description *description, hs_error *err);
/* Finds the tokens of languages, if the template has one. */
HS_MUST_USE hs_status hs__languages_find(hs_tokenizer *tokenizer, const hs__description *description,
                                         hs_error *err);
static inline bool hs__is_language(const hs_tokenizer *tokenizer, int32_t id)
{
    return id >= 0 && (size_t)id < tokenizer->n_rows &&
           (tokenizer->vocabulary.added.flags[id] & HS__ADDED_LANGUAGE);
}

/* Creates a tokenizer. The files are used only during the call. Fails with HS_BAD_MODEL if there is no
 * vocabulary, it has more than vocab_size entries, or a part is not supported (see hs__part_type). The tokens
 * that every text gets must have ids below vocab_size, too. */
HS_MUST_USE hs_status hs__tokenizer_create(const hs_tokenizer_files *files, size_t vocab_size,
                                           hs_tokenizer **ret_tokenizer, hs_error *err);
void hs__tokenizer_destroy(hs_tokenizer *tokenizer); /* NULL is fine */
