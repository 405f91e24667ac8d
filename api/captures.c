/* captures.c - the memory of captured heads: a cache of recent ones, and a budget for all that run. */
#include "api/internal.h"

#include "model/base/bytes.h"
#include "model/base/clock.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ==== the head cache ==== */

/* A hash table for lookup and a list by last use for eviction, under one mutex. Memory is
 * freed outside of it. */

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

/* The text whose states a decoder reads. */
static void put_encoder_text(content *c, const hs_encoding *text)
{
    const size_t n = text ? text->n_tokens : 0;
    put(c, &n, sizeof n);
    if (!text)
        return;
    put(c, text->ids, n * sizeof *text->ids);
    put(c, text->types, n);
}

/* A patch's source has as many tokens as the text. */
static void put_source(content *c, const hs_sequence *source, size_t n_tokens)
{
    if (!source)
        return;
    put(c, source->ids, n_tokens * sizeof *source->ids);
    if (source->types)
        put(c, source->types, n_tokens);
}

/* Puts interventions of the key's text, or with source_of NULL of the text that a decoder reads. */
static void put_interventions(content *c, const hs__heads_key *key, const hs_intervention *list, size_t n,
                              const uint8_t *source_of)
{
    put(c, &n, sizeof n);
    for (size_t i = 0; i < n; i++) {
        const hs_intervention *change = &list[i];
        put(c, &change->kind, sizeof change->kind);
        put(c, &change->factor, sizeof change->factor);
        put(c, &change->cross, sizeof change->cross);
        put(c, &change->n_layers, sizeof change->n_layers);
        put(c, change->layers, change->n_layers * sizeof *change->layers);
        put(c, &change->n_heads, sizeof change->n_heads);
        put(c, change->heads, change->n_heads * sizeof *change->heads);
        put(c, &change->n_positions, sizeof change->n_positions);
        put(c, change->positions, change->n_positions * sizeof *change->positions);
        put_source(c, change->from, key->n_tokens);
        if (change->from && source_of)
            put_encoder_text(c, key->source ? &key->patch_sources[source_of[i]] : NULL);
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
    put_encoder_text(c, key->source);
    put_interventions(c, key, key->source_interventions, key->n_source_interventions, NULL);
    put_interventions(c, key, key->interventions, key->n_interventions, key->source_of);
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

/* ==== the budget ==== */

/* Waiters form a queue on their own stacks and are served in order, so that small requests
 * cannot starve a large one.
 *
 * Nothing signals a cancellation: `cancelled` is only a flag. A waiter polls it every LOOK_MS. */

enum { LOOK_MS = 20 };

struct hs__budget_waiter {
    hs__budget_waiter *next;
};

void hs__budget_init(hs__budget *budget, size_t bytes_max)
{
    *budget = (hs__budget){.bytes_max = bytes_max};
    pthread_mutex_init(&budget->mutex, NULL); /* cannot fail with glibc's default attributes */
    pthread_cond_init(&budget->changed, NULL);
}

void hs__budget_finish(hs__budget *budget)
{
    pthread_cond_destroy(&budget->changed);
    pthread_mutex_destroy(&budget->mutex);
}

static bool fits(const hs__budget *budget, size_t n_bytes)
{
    return n_bytes <= budget->bytes_max - budget->bytes;
}

bool hs__budget_try(hs__budget *budget, size_t n_bytes)
{
    pthread_mutex_lock(&budget->mutex);
    const bool taken = !budget->first && fits(budget, n_bytes);
    budget->bytes += taken ? n_bytes : 0;
    pthread_mutex_unlock(&budget->mutex);
    return taken;
}

static void waiter_add(hs__budget *budget, hs__budget_waiter *waiter)
{
    *(budget->last ? &budget->last->next : &budget->first) = waiter;
    budget->last = waiter;
}

static void waiter_remove(hs__budget *budget, hs__budget_waiter *waiter)
{
    hs__budget_waiter **link = &budget->first, *before = NULL;
    while (*link != waiter) {
        before = *link;
        link = &before->next;
    }
    *link = waiter->next;
    if (budget->last == waiter)
        budget->last = before;
    pthread_cond_broadcast(&budget->changed); /* another one may be the first now */
}

/* Waits for a change, LOOK_MS at most; mutex held. */
static void wait_shortly(hs__budget *budget)
{
    const struct timespec until = hs_clock_after_ms(LOOK_MS);
    pthread_cond_clockwait(&budget->changed, &budget->mutex, CLOCK_MONOTONIC, &until);
}

bool hs__budget_take(hs__budget *budget, size_t n_bytes, const atomic_int *cancelled)
{
    hs__budget_waiter waiter = {0};
    pthread_mutex_lock(&budget->mutex);
    waiter_add(budget, &waiter);
    while ((budget->first != &waiter || !fits(budget, n_bytes)) && !(cancelled && atomic_load(cancelled)))
        wait_shortly(budget);
    const bool taken = budget->first == &waiter && fits(budget, n_bytes);
    budget->bytes += taken ? n_bytes : 0;
    waiter_remove(budget, &waiter);
    pthread_mutex_unlock(&budget->mutex);
    return taken;
}

void hs__budget_give_back(hs__budget *budget, size_t n_bytes)
{
    pthread_mutex_lock(&budget->mutex);
    budget->bytes -= n_bytes;
    pthread_cond_broadcast(&budget->changed);
    pthread_mutex_unlock(&budget->mutex);
}

/* ==== of a job ==== */

int hs__job_reserve(hs_job *job, size_t n_bytes)
{
    hs__budget *budget = &job->api->captures;
    const size_t own = job->request->beside ? 0 : job->api->worker_bytes;
    const size_t shared = n_bytes > own ? n_bytes - own : 0;
    job->capture_bytes = n_bytes;
    if (shared == 0 || hs__budget_try(budget, shared)) {
        job->shared_bytes = shared;
        return 0;
    }
    job->crowded = job->request->beside;
    if (job->crowded)
        return hs__refuse(&job->problem, 503, NULL,
                          "other requests use all memory for computing: send it again later");
    const double start = hs_clock_ms();
    const bool taken = hs__budget_take(budget, shared, job->request->cancelled);
    job->waited_ms = hs_clock_ms() - start;
    if (taken) {
        job->shared_bytes = shared;
        return 0;
    }
    hs_fail(&job->error, HS_CANCELLED, "cancelled");
    return hs__job_refuse(job);
}

void hs__job_release(hs_job *job)
{
    if (job->shared_bytes)
        hs__budget_give_back(&job->api->captures, job->shared_bytes);
    job->capture_bytes = job->shared_bytes = 0;
}

hs__heads_key hs__job_key(const hs_job *job, const hs__job_sequence *s)
{
    return (hs__heads_key){.model = s->model->serial,
                           .ids = s->encoding->ids,
                           .types = s->encoding->types,
                           .n_tokens = s->encoding->n_tokens,
                           .interventions = s->interventions,
                           .n_interventions = s->n_interventions,
                           .source = s->source ? s->source->encoding : NULL,
                           .source_interventions = s->source ? s->source->interventions : NULL,
                           .n_source_interventions = s->source ? s->source->n_interventions : 0,
                           .cross = s->selection->n_memory > 0,
                           .patch_sources = job->texts.source_encoders,
                           .source_of = job->analysis.source_of};
}
