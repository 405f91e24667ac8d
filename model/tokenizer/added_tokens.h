/* added_tokens.h - finds added tokens, which are cut out of the text before the model cuts words.
 *
 * Most are searched for in the given text, and the text between them is normalised. The others are normalised
 * themselves and searched for in the normalised text. The leftmost match counts; of several, the longest. */
#pragma once

#include "model/tokenizer/parts.h"

typedef struct hs__added_set {
    hs__trie trie;
    bool starts[256]; /* first bytes of the tokens */
    bool any;
} hs__added_set;

/* Properties of an added token, a set of bits. */
enum { HS__ADDED_SPECIAL = 1, HS__ADDED_SINGLE_WORD = 2, HS__ADDED_LSTRIP = 4, HS__ADDED_RSTRIP = 8 };

typedef struct hs__added_tokens {
    hs__added_set raw, normalized;
    uint8_t *flags;    /* [vocab_size] */
    bool looks_around; /* true if a token depends on the characters next to it */
} hs__added_tokens;

/* Builds the search structures. The list's ids must be set. Fails with HS_BAD_MODEL if normalising leaves
 * nothing of a token. The caller finishes the result, even after an error. */
HS_MUST_USE hs_status hs__added_tokens_build(const hs__added_list *list, const hs__parts *normalizers,
                                             size_t vocab_size, hs__added_tokens *ret_added, hs_error *err);
void hs__added_tokens_finish(hs__added_tokens *added);

/* A search for the tokens of one set in a text. */
typedef struct hs__added_search {
    const hs__added_set *set;
    const uint8_t *flags;       /* [vocab_size] */
    uint8_t skipped;            /* tokens with these flags are treated as ordinary text */
    const unsigned char *begin; /* the start of the text */
    const unsigned char *from;  /* the next match starts here or later */
    /* The last match: */
    int32_t id;
    const unsigned char *start, *end; /* including the white space that it takes */
} hs__added_search;

/* Finds the next token that starts before `stop`; it may reach up to `end`. It takes white space back to `at`
 * at most. A token after white space that another one has taken may start before `at`, as in the oracle. */
bool hs__added_search_next(hs__added_search *search, const unsigned char *at, const unsigned char *stop,
                           const unsigned char *end);
