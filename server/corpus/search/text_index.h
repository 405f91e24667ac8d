/* text_index.h - the database of a run that answers which texts are typical of a head (text_index.h), and
 * which tokens it pairs (pair_search.h).
 *
 * DIR/search.sqlite has these tables:
 *
 *     texts        text, file, line, body (up to its last token; of a pair both texts with a line end
 *                  between; 1024 bytes and 16 for each of n_tokens at most), tokens (blob of
 *                  hs__index_token), source (of a decoder, whose body is the target: the text that its
 *                  encoder reads, cut as the body is; NULL; missing in databases of earlier versions)
 *     vocabulary   id, token
 *     names        name, string: parts of speech and relations of CoNLL-U
 *     strongest    layer, head, text, attention, similarity (blobs of hs__index_pair)
 *     examples     layer, head, figure, place, text, value
 *
 * `strongest` has the first n_texts records of the corpus only, so its size is bounded before the run begins.
 * `examples` has every text of the top lists. A transaction ends with each checkpoint, before it. Texts that
 * are counted again after a crash replace themselves. Threads may add texts at once. */
#pragma once

#include "model/architecture.h"
#include "model/tokenizer/tokenizer.h"
#include "server/base/database.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HS__TOP_TEXTS_MAX 64
/* Figures of a head in one text; NAN if undefined. The first six are those of hs_corpus_observation, at the
 * main threshold. */
typedef enum hs__top_figure {
    HS__TOP_REPEATED,
    HS__TOP_SAME_SENTENCE,
    HS__TOP_DISTANCE,
    HS__TOP_FOCAL,
    HS__TOP_HIGH,
    HS__TOP_SEPARATOR,
    HS__TOP_SELF,             /* mean attention to the token itself, */
    HS__TOP_PREVIOUS,         /* to the one before; a row without one counts as 0, */
    HS__TOP_NEXT,             /* to the one after, as well, */
    HS__TOP_FIRST,            /* and to the first token */
    HS__TOP_SYNTAX_ATTENTION, /* fraction of words that point to their syntactic head by attention; CoNLL-U */
    HS__TOP_SYNTAX_SIMILARITY, /* the same by similarity */
    HS__TOP_FIGURES
} hs__top_figure;

extern const char *const hs__top_names[HS__TOP_FIGURES];

/* Finds a figure by its name; HS__TOP_FIGURES if there is none, also for NULL. */
hs__top_figure hs__top_figure_find(const char *name);

typedef struct hs__top_entry {
    uint64_t text;
    float value;
} hs__top_entry;

typedef struct hs__top_texts hs__top_texts;

#define HS__TEXT_INDEX_FILE "search.sqlite"
extern const hs__database_kind hs__text_index_kind;
/* Pairs of one head, text and measure: the strongest ones, at most one for each row of the map. */
#define HS__INDEX_PAIRS_MAX 32

/* Texts to search. */
#define HS__INDEX_TEXTS_MAX 10000

/* Parts of speech and relations; UD has about 60. Tokens have none of the names beyond. */
#define HS__INDEX_NAMES_MAX 4096

typedef struct hs__index_pair {
    uint16_t i, j; /* positions in the text */
    float weight;  /* attention, or N = S / m */
} hs__index_pair;

typedef struct hs__index_token {
    int32_t id;
    uint32_t start, end;    /* half-open, in code points of the text */
    uint16_t pos, relation; /* numbers of names; 0: none */
} hs__index_token;

/* The part of speech and the relation of a token's word; "" if it has none. */
typedef struct hs__token_label {
    char pos[32], relation[32];
} hs__token_label;

/* Strongest pairs of all heads of a text: [layers][heads] of these. */
typedef struct hs__index_maps {
    uint8_t n[2]; /* of attention and of similarity */
    hs__index_pair pairs[2][HS__INDEX_PAIRS_MAX];
} hs__index_maps;

typedef struct hs__text_index hs__text_index;

typedef struct hs__text_index_options {
    size_t n_texts;         /* records to search, from the first; 0: none */
    size_t n_examples;      /* of each list; 0: none */
    size_t n_tokens;        /* of a text, at most; 0 for merge */
    const uint16_t *layers; /* the model's numbers of the counted layers */
    size_t n_layers, n_heads;
    bool has_sources;              /* texts of a decoder */
    const hs_tokenizer *tokenizer; /* borrowed; NULL for merge */
} hs__text_index_options;

/* Opens DIR/search.sqlite, or begins it anew. HS_INVALID: it is missing or damaged and not to be begun anew.
 * HS_NO_MEMORY, HS_NO_SPACE, HS_IO. The caller closes *ret_index. */
HS_MUST_USE hs_status hs__text_index_open(const char *dir, bool anew, const hs__text_index_options *options,
                                          hs__text_index **ret_index, hs_error *err);

/* Closes without a commit; NULL is fine. */
void hs__text_index_close(hs__text_index *index);

/* Returns true if the record is among those to search. */
bool hs__text_index_wants(const hs__text_index *index, uint64_t number);

typedef struct hs__indexed_text {
    uint64_t number, line;
    const char *file;
    hs_text body;
    uint32_t n_before; /* code points of the text before body */
    hs_text pair;      /* the second text, which is kept behind body and a line end; NULL: there is none */
    uint32_t n_before_pair;
    hs_text source; /* of a decoder: the text that its encoder reads; NULL: there is none */
    const hs_encoding *encoding;
    size_t first;                  /* token that labels begin at */
    const hs__token_label *labels; /* [n_labels], or NULL */
    size_t n_labels;
} hs__indexed_text;

/* Adds a text. figures [layers][heads][HS__TOP_FIGURES] or NULL; maps [layers][heads] or NULL. Returns the
 * first failure of any call. */
HS_MUST_USE hs_status hs__text_index_add(hs__text_index *index, const hs__indexed_text *text,
                                         const float *figures, const hs__index_maps *maps, hs_error *err);

/* Writes the lists, removes texts that are in none of them and ends the transaction. */
HS_MUST_USE hs_status hs__text_index_commit(hs__text_index *index, hs_error *err);

/* Adds everything of another run's database, of the same options. HS_INVALID: DIR has none. */
HS_MUST_USE hs_status hs__text_index_merge(hs__text_index *index, const char *dir, hs_error *err);

/* Returns upper bounds: the bytes in memory, and those on the disk. */
size_t hs__text_index_memory(const hs__text_index_options *options);

uint64_t hs__text_index_disk(const hs__text_index_options *options);
