/* head_cache.h - maps of recent texts, kept for follow-up requests.
 *
 * The key is the content, all that changes a pass: model, token ids and types, interventions. So a replica
 * without the entry only computes again, never answers otherwise, and two spellings of a text that tokenize
 * alike share one entry. An entry holds what some request had captured; it serves every request whose layers,
 * heads and arrays are among that. Nothing is captured for the cache's sake: asking for one head must not
 * cost 144.
 *
 * Policy: at most bytes_max over all entries (captures and keys), least recently used out first; a capture of
 * more than half of that is not kept, since it would push out everything else; an entry that a new one of the
 * same text covers goes. Captures are counted by reference: an evicted one lives on until the last job that
 * reads it ends, and is then that job's memory, no longer the cache's. One mutex, held for list work only. */
#pragma once

#include "engine/plan.h"

#include <stdint.h>

typedef struct hs__head_cache hs__head_cache;

/* A capture that jobs and the cache share; never written to once shared. */
typedef struct hs__heads {
    hs_capture *capture; /* owned */
    double forward_ms;   /* what computing it took */
    size_t n_references; /* the cache's mutex guards it; jobs without a cache entry hold the only one */
} hs__heads;

/* Whose maps: borrowed for the call. */
typedef struct hs__heads_key {
    size_t model;
    const int32_t *ids;
    const uint8_t *types;
    size_t n_tokens;
    const hs_intervention *interventions;
    size_t n_interventions;
} hs__heads_key;

/* NULL when memory is short. bytes_max 0 is a cache that never holds anything. */
hs__head_cache *hs__head_cache_create(size_t bytes_max);
void hs__head_cache_destroy(hs__head_cache *cache); /* NULL is fine; every reference must be released */

/* A reference to heads that cover the selection, or NULL; counts a hit or a miss. */
hs__heads *hs__head_cache_find(hs__head_cache *cache, const hs__heads_key *key,
                               const hs_selection *selection);

/* Takes the capture over (also on failure) and gives the caller a reference; keeps another where the policy
 * allows. NULL when memory is short. */
hs__heads *hs__head_cache_add(hs__head_cache *cache, const hs__heads_key *key, hs_capture *capture,
                              double forward_ms);

void hs__heads_release(hs__head_cache *cache, hs__heads *heads); /* NULL is fine */

struct hs_cache_stats;
void hs__head_cache_stats(hs__head_cache *cache, struct hs_cache_stats *ret_stats);
