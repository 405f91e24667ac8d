/* head_cache.c - a hash table for finding and a list by last use for letting go, under one mutex; memory is
 * freed without it. */
#include "api/head_cache.h"

#include "api/api.h"
#include "model/hash.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* An entry and its key, one block: the ids and types lie behind the struct. */
typedef struct entry {
    struct entry *newer, *older; /* the list by last use */
    struct entry *next;          /* of its bucket */
    hs__heads *heads;
    uint64_t hash;
    size_t bytes, model, n_tokens;
    const int32_t *ids;
    const uint8_t *types;
} entry;

#define N_BUCKETS 1024 /* a cache holds hundreds of texts: megabytes each */

struct hs__head_cache {
    pthread_mutex_t mutex; /* guards everything below, and n_references of every heads */
    size_t bytes, bytes_max, n_entries;
    uint64_t hits, misses, evictions;
    entry *newest, *oldest;
    entry *buckets[N_BUCKETS];
};

/* Equality is checked on the content. */
static uint64_t key_hash(const hs__heads_key *key)
{
    uint64_t hash = hs_hash_bytes(HS_HASH_START, &key->model, sizeof key->model);
    hash = hs_hash_bytes(hash, key->ids, key->n_tokens * sizeof *key->ids);
    hash = hs_hash_bytes(hash, key->types, key->n_tokens);
    return hash ^ (hash >> 32);
}

static bool entry_is(const entry *e, const hs__heads_key *key, uint64_t hash)
{
    return e->hash == hash && e->model == key->model && e->n_tokens == key->n_tokens &&
           memcmp(e->ids, key->ids, key->n_tokens * sizeof *key->ids) == 0 &&
           memcmp(e->types, key->types, key->n_tokens) == 0;
}

/* Whether every number of the ascending list a is in the ascending list b. */
static bool within(const uint16_t *a, size_t n_a, const uint16_t *b, size_t n_b)
{
    size_t at = 0;
    for (size_t i = 0; i < n_a; i++) {
        while (at < n_b && b[at] < a[i])
            at++;
        if (at == n_b || b[at] != a[i])
            return false;
    }
    return true;
}

static bool covers(const hs_capture *capture, const hs_selection *selection)
{
    return (selection->taps & ~capture->taps) == 0 &&
           within(selection->layers, selection->n_layers, capture->layers, capture->n_layers) &&
           within(selection->heads, selection->n_heads, capture->heads, capture->n_heads);
}

static void list_remove(hs__head_cache *cache, entry *e)
{
    *(e->newer ? &e->newer->older : &cache->newest) = e->older;
    *(e->older ? &e->older->newer : &cache->oldest) = e->newer;
}

static void list_add(hs__head_cache *cache, entry *e)
{
    e->newer = NULL;
    e->older = cache->newest;
    *(cache->newest ? &cache->newest->newer : &cache->oldest) = e;
    cache->newest = e;
}

/* Drops one reference, with the mutex held; the caller destroys what it gets, without the mutex. */
static hs__heads *drop(hs__heads *heads)
{
    return --heads->n_references ? NULL : heads;
}

static void heads_destroy(hs__heads *heads)
{
    if (heads) {
        hs_capture_destroy(heads->capture);
        free(heads);
    }
}

/* Takes the entry out, with the mutex held, and puts it on a list (by next) of entries to destroy. */
static void entry_take(hs__head_cache *cache, entry *e, entry **dropped)
{
    entry **link = &cache->buckets[e->hash % N_BUCKETS];
    while (*link != e)
        link = &(*link)->next;
    *link = e->next;
    list_remove(cache, e);
    cache->bytes -= e->bytes;
    cache->n_entries--;
    e->heads = drop(e->heads);
    e->next = *dropped;
    *dropped = e;
}

static void entries_destroy(entry *dropped)
{
    while (dropped) {
        entry *next = dropped->next;
        heads_destroy(dropped->heads);
        free(dropped);
        dropped = next;
    }
}

hs__head_cache *hs__head_cache_create(size_t bytes_max)
{
    hs__head_cache *cache = calloc(1, sizeof *cache);
    if (!cache)
        return NULL;
    pthread_mutex_init(&cache->mutex, NULL);
    cache->bytes_max = bytes_max;
    return cache;
}

void hs__head_cache_destroy(hs__head_cache *cache)
{
    if (!cache)
        return;
    entry *dropped = NULL;
    while (cache->newest)
        entry_take(cache, cache->newest, &dropped);
    entries_destroy(dropped);
    pthread_mutex_destroy(&cache->mutex);
    free(cache);
}

hs__heads *hs__head_cache_find(hs__head_cache *cache, const hs__heads_key *key, const hs_selection *selection)
{
    const uint64_t hash = key_hash(key);
    hs__heads *heads = NULL;
    pthread_mutex_lock(&cache->mutex);
    entry *e = cache->buckets[hash % N_BUCKETS];
    while (e && !(entry_is(e, key, hash) && covers(e->heads->capture, selection)))
        e = e->next;
    if (e) {
        heads = e->heads;
        heads->n_references++;
        list_remove(cache, e);
        list_add(cache, e);
    }
    cache->hits += e != NULL;
    cache->misses += e == NULL;
    pthread_mutex_unlock(&cache->mutex);
    return heads;
}

static entry *entry_create(const hs__heads_key *key, hs__heads *heads)
{
    const size_t key_bytes = key->n_tokens * (sizeof *key->ids + sizeof *key->types);
    entry *e = calloc(1, sizeof *e + key_bytes);
    if (!e)
        return NULL;
    int32_t *ids = (int32_t *)(e + 1);
    uint8_t *types = (uint8_t *)(ids + key->n_tokens);
    memcpy(ids, key->ids, key->n_tokens * sizeof *ids);
    memcpy(types, key->types, key->n_tokens);
    e->heads = heads;
    e->hash = key_hash(key);
    e->bytes = sizeof *e + key_bytes + sizeof *heads + heads->capture->bytes;
    e->model = key->model;
    e->n_tokens = key->n_tokens;
    e->ids = ids;
    e->types = types;
    return e;
}

/* Puts e in, with the mutex held: out go what it covers of the same text, then the oldest until it fits. */
static void entry_insert(hs__head_cache *cache, entry *e, const hs__heads_key *key, entry **dropped)
{
    const hs_capture *capture = e->heads->capture;
    for (entry *old = cache->buckets[e->hash % N_BUCKETS], *next; old; old = next) {
        next = old->next;
        const hs_capture *other = old->heads->capture;
        const hs_selection selection = {other->layers, other->n_layers, other->heads, other->n_heads,
                                        other->taps};
        if (entry_is(old, key, e->hash) && covers(capture, &selection))
            entry_take(cache, old, dropped);
    }
    while (cache->bytes + e->bytes > cache->bytes_max) {
        entry_take(cache, cache->oldest, dropped);
        cache->evictions++;
    }
    e->heads->n_references++;
    e->next = cache->buckets[e->hash % N_BUCKETS];
    cache->buckets[e->hash % N_BUCKETS] = e;
    list_add(cache, e);
    cache->bytes += e->bytes;
    cache->n_entries++;
}

hs__heads *hs__head_cache_add(hs__head_cache *cache, const hs__heads_key *key, hs_capture *capture,
                              double forward_ms)
{
    hs__heads *heads = calloc(1, sizeof *heads);
    if (!heads) {
        hs_capture_destroy(capture);
        return NULL;
    }
    *heads = (hs__heads){.capture = capture, .forward_ms = forward_ms, .n_references = 1};
    if (capture->bytes > cache->bytes_max / 2)
        return heads;
    entry *e = entry_create(key, heads);
    if (!e)
        return heads; /* uncached is fine */
    if (e->bytes > cache->bytes_max) {
        free(e);
        return heads;
    }
    entry *dropped = NULL;
    pthread_mutex_lock(&cache->mutex);
    entry_insert(cache, e, key, &dropped);
    pthread_mutex_unlock(&cache->mutex);
    entries_destroy(dropped);
    return heads;
}

void hs__heads_release(hs__head_cache *cache, hs__heads *heads)
{
    if (!heads)
        return;
    pthread_mutex_lock(&cache->mutex);
    heads = drop(heads);
    pthread_mutex_unlock(&cache->mutex);
    heads_destroy(heads);
}

void hs__head_cache_stats(hs__head_cache *cache, hs_cache_stats *ret_stats)
{
    pthread_mutex_lock(&cache->mutex);
    *ret_stats = (hs_cache_stats){
        .hits = cache->hits,
        .misses = cache->misses,
        .evictions = cache->evictions,
        .entries = cache->n_entries,
        .bytes = cache->bytes,
        .bytes_max = cache->bytes_max,
    };
    pthread_mutex_unlock(&cache->mutex);
}
