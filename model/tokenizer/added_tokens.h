/* added_tokens.h - tokens that are cut out of the text before a model sees it.
 *
 * Most are looked for in the text as it is given, and what lies between them is normalised; some in what
 * normalising makes of that, normalised themselves. The leftmost match counts, of those the longest. */
#pragma once

#include "model/tokenizer/parts.h"

typedef struct hs__added_set {
    hs__trie trie;
    bool starts[256]; /* bytes that some token of it starts with */
    bool any;
} hs__added_set;

/* How a token is found: a set of these. */
enum { HS__ADDED_SPECIAL = 1, HS__ADDED_SINGLE_WORD = 2, HS__ADDED_LSTRIP = 4, HS__ADDED_RSTRIP = 8 };

typedef struct hs__added_tokens {
    hs__added_set raw, normalized;
    uint8_t *flags;    /* [vocab_size] */
    bool looks_around; /* at some token's neighbours */
} hs__added_tokens;

/* The list's ids are known. Must be finished, also after an error. HS_BAD_MODEL when normalising leaves
 * nothing of a token. */
HS_MUST_USE hs_status hs__added_tokens_build(const hs__added_list *list, const hs__parts *normalizers,
                                             size_t vocab_size, hs__added_tokens *ret_added, hs_error *err);
void hs__added_tokens_finish(hs__added_tokens *added);

/* Looks for the tokens of one set in a text. */
typedef struct hs__added_search {
    const hs__added_set *set;
    const uint8_t *flags;       /* [vocab_size] */
    uint8_t skipped;            /* tokens with these flags are only text */
    const unsigned char *begin; /* of the text */
    const unsigned char *from;  /* where it goes on at the earliest */
    /* What was found: */
    int32_t id;
    const unsigned char *start, *end; /* with the white space that it takes */
} hs__added_search;

/* The first token whose text starts before `stop`; it may reach up to `end`. White space that it takes begins
 * at `at` at the earliest. One that follows white space taken by another may start before `at`, as in the
 * oracle. */
bool hs__added_search_next(hs__added_search *search, const unsigned char *at, const unsigned char *stop,
                           const unsigned char *end);
