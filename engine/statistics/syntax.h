/* syntax.h - counts how often a head points from a word to its syntactic head, and back (Clark et al. 2019,
 * table 1), by relation, over any number of sentences.
 *
 * The map of words is made of the map of tokens: attention to a word is summed over its tokens, and from a
 * word averaged over them. A word's similarity to another one is the mean over their tokens. Each word points
 * to the other word with the highest number; tokens of no word, such as [CLS], do not count.
 *
 * All sums are integers, so the order of sentences does not matter. An hs_syntax serves one thread. */
#pragma once

#include "engine/plan.h"

#define HS_SYNTAX_RELATIONS_MAX 256
#define HS_SYNTAX_WORDS_MAX     4096
#define HS_SYNTAX_NAME_BYTES    32 /* with the NUL; longer names are cut */
#define HS_SYNTAX_REACH         16 /* of the fixed offsets that heads are compared with */
#define HS_SYNTAX_OFFSETS       (2 * HS_SYNTAX_REACH + 1)

/* Kinds of pointing, the last axis of `right`. */
enum {
    HS_SYNTAX_ATTENTION_TO_HEAD,      /* the dependent's row points to its head */
    HS_SYNTAX_ATTENTION_TO_DEPENDENT, /* the head's row points to the dependent */
    HS_SYNTAX_SIMILARITY_TO_HEAD,
    HS_SYNTAX_SIMILARITY_TO_DEPENDENT,
    HS_SYNTAX_KINDS
};

typedef struct hs_syntax hs_syntax;

/* Creates empty counts. Fails with HS_NO_MEMORY. */
HS_MUST_USE hs_status hs_syntax_create(size_t n_layers, size_t n_heads, hs_syntax **ret_syntax,
                                       hs_error *err);
void hs_syntax_destroy(hs_syntax *syntax); /* NULL is fine */

/* Returns the most bytes of such counts. */
size_t hs_syntax_bytes_max(size_t n_layers, size_t n_heads);

/* Finds or adds a relation. Fails with HS_TOO_LARGE if there are too many, with HS_NO_MEMORY. */
HS_MUST_USE hs_status hs_syntax_relation_add(hs_syntax *syntax, const char *name, size_t n_bytes,
                                             size_t *ret_relation, hs_error *err);

/* One sentence. Words are numbered by their place in it. Odd ones are counted apart, too: a head that is
 * chosen by the even ones can be measured on them. */
typedef struct hs_syntax_text {
    bool is_odd;
    size_t n_tokens, n_words; /* at most HS_SYNTAX_WORDS_MAX words */
    int32_t *words;           /* [n_tokens]: number of the token's word, ascending; -1: none */
    int32_t *heads;           /* [n_words]: number of the word's head; -1: none, or not to count */
    uint16_t *relations;      /* [n_words] */
} hs_syntax_text;

/* Counts a sentence and its relations. A word or head without a token does not count. */
void hs_syntax_text_add(hs_syntax *syntax, const hs_syntax_text *text);
/* Counts one head's maps of this sentence. Similarities are read above the diagonal. Returns the number of
 * pairs of a word and its head, punctuation left out. ret_right says of how many the word points to its head,
 * by attention and by similarity. */
size_t hs_syntax_head_add(hs_syntax *syntax, const hs_syntax_text *text, size_t l, size_t h,
                          const hs_observed_head *head, size_t ret_right[2]);

/* Adds the counts of `from`, of the same shape. Fails with HS_TOO_LARGE or HS_NO_MEMORY. */
HS_MUST_USE hs_status hs_syntax_merge(hs_syntax *syntax, const hs_syntax *from, hs_error *err);

/* The counts of one relation; arrays may be changed. */
typedef struct hs_syntax_relation {
    char name[HS_SYNTAX_NAME_BYTES];
    uint64_t count;                      /* of pairs of a word and its head */
    uint64_t offsets[HS_SYNTAX_OFFSETS]; /* of pairs by head - dependent, in words, from -HS_SYNTAX_REACH */
    uint64_t odd_count, odd_offsets[HS_SYNTAX_OFFSETS]; /* of odd sentences */
    uint64_t *right; /* [2][l][h][HS_SYNTAX_KINDS]: of all sentences, of odd ones */
} hs_syntax_relation;

/* Returns true for "punct" and its subtypes, which figures of all relations leave out. */
bool hs_syntax_is_punctuation(const hs_syntax_relation *relation);

/* Sentences of the corpus; `unread` are those whose words are not in their text, or that have none. */
typedef struct hs_syntax_sentences {
    uint64_t read, unread;
} hs_syntax_sentences;
hs_syntax_sentences *hs_syntax_sentences_of(const hs_syntax *syntax);

size_t hs_syntax_layers(const hs_syntax *syntax);
size_t hs_syntax_heads(const hs_syntax *syntax);
size_t hs_syntax_relations(const hs_syntax *syntax);
hs_syntax_relation *hs_syntax_relation_at(const hs_syntax *syntax, size_t relation);
