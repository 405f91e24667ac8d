/* head_cache.c - the captured heads of recent texts.
 *
 * A hash table for lookup and a list by last use for eviction, under one mutex. Memory is freed outside of
 * it. */
#include "api/internal.h"

#include "model/base/bytes.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A key as one string of bytes: equal exactly when all of it is. Only hashed and compared. */
typedef struct content {
    unsigned char *data; /* owned */
    size_t size;
    uint64_t hash;
} content;

typedef struct entry {
    struct entry *newer, *older; /* the list by last use */
    struct entry *next;          /* of its bucket */
    hs__heads *heads;
    content key; /* owned */
    size_t bytes;
} entry;

#define N_BUCKETS 1024 /* a cache holds hundreds of texts: megabytes each */

struct hs__head_cache {
    pthread_mutex_t mutex; /* guards everything below, and n_references of every heads */
    size_t bytes, bytes_max, n_entries;
    uint64_t hits, misses, evictions;
    entry *newest, *oldest;
    entry *buckets[N_BUCKETS];
};

/* Appends to a content that is measured (data NULL) or filled. */
static void put(content *c, const void *data, size_t n_bytes)
{
    if (c->data && n_bytes)
        memcpy(c->data + c->size, data, n_bytes);
    c->size += n_bytes;
}

/* Puts a text, or that there is none. */
static void put_text(content *c, const hs_encoding *text)
{
    const size_t n = text ? text->n_tokens : 0;
    put(c, &n, sizeof n);
    if (!text)
        return;
    put(c, text->ids, n * sizeof *text->ids);
    put(c, text->types, n);
}

/* Puts a vector that the request gave, or the texts that a patch or a vector is made of. */
static void put_values(content *c, const hs__heads_key *key, const hs_intervention *intervention,
                       const hs__change *change)
{
    const size_t n_sources = change ? change->n_sources : 0,
                 n_vector = n_sources ? 0 : intervention->n_vector;
    put(c, &n_sources, sizeof n_sources);
    put(c, &n_vector, sizeof n_vector);
    put(c, intervention->vector, n_vector * sizeof *intervention->vector);
    for (size_t k = 0; k < n_sources; k++) {
        const hs__text_read *text = &key->texts[change->sources[k]];
        put_text(c, &text->rows);
        put_text(c, key->source ? &text->memory : NULL);
    }
    if (n_sources)
        put(c, &change->last, sizeof change->last);
}

/* Puts interventions of the key's text, or with changes NULL of the text that a decoder reads. */
static void put_interventions(content *c, const hs__heads_key *key, const hs_intervention *list, size_t n,
                              const hs__change *changes)
{
    put(c, &n, sizeof n);
    for (size_t i = 0; i < n; i++) {
        const hs_intervention *change = &list[i];
        put(c, &change->kind, sizeof change->kind);
        put(c, &change->factor, sizeof change->factor);
        put(c, &change->distance, sizeof change->distance);
        put(c, &change->cross, sizeof change->cross);
        put(c, &change->n_layers, sizeof change->n_layers);
        put(c, change->layers, change->n_layers * sizeof *change->layers);
        put(c, &change->n_heads, sizeof change->n_heads);
        put(c, change->heads, change->n_heads * sizeof *change->heads);
        put(c, &change->n_positions, sizeof change->n_positions);
        put(c, change->positions, change->n_positions * sizeof *change->positions);
        put_values(c, key, change, changes ? &changes[i] : NULL);
    }
}

/* Every list follows its length, so that different keys never have the same bytes. */
static void put_key(content *c, const hs__heads_key *key)
{
    c->size = 0;
    put(c, &key->model, sizeof key->model);
    put(c, &key->n_tokens, sizeof key->n_tokens);
    put(c, key->ids, key->n_tokens * sizeof *key->ids);
    put(c, key->types, key->n_tokens);
    put(c, &key->cross, sizeof key->cross);
    put_text(c, key->source);
    put_interventions(c, key, key->source_interventions, key->n_source_interventions, NULL);
    put_interventions(c, key, key->interventions, key->n_interventions, key->changes);
}

/* data stays NULL when memory is short. */
static content content_create(const hs__heads_key *key)
{
    content c = {0};
    put_key(&c, key);
    c.data = malloc(c.size);
    if (!c.data)
        return c;
    put_key(&c, key);
    c.hash = hs_hash_bytes(HS_HASH_START, c.data, c.size);
    c.hash ^= c.hash >> 32;
    return c;
}

static bool entry_is(const entry *e, const content *key)
{
    return e->key.hash == key->hash && e->key.size == key->size &&
           memcmp(e->key.data, key->data, key->size) == 0;
}

/* Returns true if the ascending list b contains every number of the ascending list a. */
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
    entry **link = &cache->buckets[e->key.hash % N_BUCKETS];
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
        free(dropped->key.data);
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

void hs__head_cache_empty(hs__head_cache *cache)
{
    entry *dropped = NULL;
    pthread_mutex_lock(&cache->mutex);
    cache->evictions += cache->n_entries;
    while (cache->newest)
        entry_take(cache, cache->newest, &dropped);
    pthread_mutex_unlock(&cache->mutex);
    entries_destroy(dropped);
}

void hs__head_cache_destroy(hs__head_cache *cache)
{
    if (!cache)
        return;
    hs__head_cache_empty(cache);
    pthread_mutex_destroy(&cache->mutex);
    free(cache);
}

hs__heads *hs__head_cache_find(hs__head_cache *cache, const hs__heads_key *key, const hs_selection *selection)
{
    content analysis = content_create(key);
    hs__heads *heads = NULL;
    pthread_mutex_lock(&cache->mutex);
    entry *e = analysis.data ? cache->buckets[analysis.hash % N_BUCKETS] : NULL;
    while (e && !(entry_is(e, &analysis) && covers(e->heads->capture, selection)))
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
    free(analysis.data);
    return heads;
}

static entry *entry_create(const hs__heads_key *key, hs__heads *heads)
{
    const content c = content_create(key);
    entry *e = c.data ? calloc(1, sizeof *e) : NULL;
    if (!e) {
        free(c.data);
        return NULL;
    }
    e->heads = heads;
    e->key = c;
    e->bytes = sizeof *e + c.size + sizeof *heads + heads->capture->bytes;
    return e;
}

/* Inserts e, with the mutex held. Evicts entries of the same text that e covers, then the oldest until e
 * fits. */
static void entry_insert(hs__head_cache *cache, entry *e, entry **dropped)
{
    const hs_capture *capture = e->heads->capture;
    for (entry *old = cache->buckets[e->key.hash % N_BUCKETS], *next; old; old = next) {
        next = old->next;
        const hs_capture *other = old->heads->capture;
        const hs_selection selection = {other->layers,  other->n_layers, other->heads,
                                        other->n_heads, other->taps,     0};
        if (entry_is(old, &e->key) && covers(capture, &selection))
            entry_take(cache, old, dropped);
    }
    while (cache->bytes + e->bytes > cache->bytes_max) {
        entry_take(cache, cache->oldest, dropped);
        cache->evictions++;
    }
    e->heads->n_references++;
    e->next = cache->buckets[e->key.hash % N_BUCKETS];
    cache->buckets[e->key.hash % N_BUCKETS] = e;
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
        free(e->key.data);
        free(e);
        return heads;
    }
    entry *dropped = NULL;
    pthread_mutex_lock(&cache->mutex);
    entry_insert(cache, e, &dropped);
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
