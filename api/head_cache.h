/* head_cache.h - keeps the maps of recent texts for follow-up requests.
 *
 * The key is everything that determines a pass: model, token ids and types, interventions and the tokens of
 * the texts that they patch from. Texts that
 * tokenize alike share an entry, and a server without the entry computes the same answer again. An entry
 * serves every request whose layers, heads and arrays it contains. The cache captures next to nothing for
 * itself: a request for one head must not cost as much as one for all.
 *
 * The entries (captures and keys) take at most bytes_max; the least recently used are evicted first. A
 * capture of more than half of bytes_max is not kept, because it would evict everything else. A new entry
 * evicts those of the same text that it covers. Captures are reference-counted: an evicted one lives until
 * the last job that reads it ends. One mutex guards lists and counts. */
#pragma once

#include "engine/plan.h"

#include <stdint.h>

typedef struct hs__head_cache hs__head_cache;

/* A capture that jobs and the cache share; never written to once shared. */
typedef struct hs__heads {
    hs_capture *capture; /* owned */
    double forward_ms;   /* duration of its computation */
    size_t n_references; /* the cache's mutex guards it; jobs without a cache entry hold the only one */
} hs__heads;

/* The key of a text's maps, borrowed for the call. */
typedef struct hs__heads_key {
    uint64_t model; /* differs between all models ever served */
    const int32_t *ids;
    const uint8_t *types;
    size_t n_tokens;
    const hs_intervention *interventions;
    size_t n_interventions;
} hs__heads_key;

/* Returns NULL if memory is short. With bytes_max 0 the cache stays empty. */
hs__head_cache *hs__head_cache_create(size_t bytes_max);
void hs__head_cache_destroy(hs__head_cache *cache); /* NULL is fine; every reference must be released */

/* Returns a reference to heads that cover the selection, or NULL. Counts a hit or a miss. */
hs__heads *hs__head_cache_find(hs__head_cache *cache, const hs__heads_key *key,
                               const hs_selection *selection);

/* Takes ownership of the capture, also on failure, and returns a reference to it. Keeps another reference if
 * the policy allows. Returns NULL if memory is short. */
hs__heads *hs__head_cache_add(hs__head_cache *cache, const hs__heads_key *key, hs_capture *capture,
                              double forward_ms);

void hs__heads_release(hs__head_cache *cache, hs__heads *heads); /* NULL is fine */

struct hs_cache_stats;
void hs__head_cache_stats(hs__head_cache *cache, struct hs_cache_stats *ret_stats);
