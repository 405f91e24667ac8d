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

typedef struct hs__added_tokens {
    hs__added_set raw, normalized;
    bool *special; /* [vocab_size] */
} hs__added_tokens;

/* The list's ids are known. Must be finished, also after an error. HS_BAD_MODEL when normalising leaves
 * nothing of a token. */
HS_MUST_USE hs_status hs__added_tokens_build(const hs__added_list *list, const hs__parts *normalizers,
                                             size_t vocab_size, hs__added_tokens *ret_added, hs_error *err);
void hs__added_tokens_finish(hs__added_tokens *added);

/* Looks for the tokens of one set. */
typedef struct hs__added_search {
    const hs__added_set *set;
    const bool *skipped;       /* [vocab_size]: tokens that are only text; NULL for none */
    const unsigned char *from; /* where it goes on at the earliest; NULL at first */
    int32_t id;                /* of what was found */
    size_t n_bytes;
} hs__added_search;

/* The first token that starts in [at, stop), where it starts; it may reach up to `end`. NULL when there is
 * none.
 */
const unsigned char *hs__added_search_next(hs__added_search *search, const unsigned char *at,
                                           const unsigned char *stop, const unsigned char *end);
