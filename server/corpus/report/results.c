/* results.c - what a run found: the statistics, the counters' states, the bad lines. */
#include "server/corpus/report/results.h"

#include "model/base/utf8.h"
#include "model/files/json.h"
#include "server/corpus/counters/counter.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- bad lines ----
 *
 * A sorted list of fixed length under a lock. */

struct hs__bad_lines {
    pthread_mutex_t lock;
    uint64_t count;
    size_t n;
    hs__bad_line listed[HS__BAD_LINES_LISTED_MAX]; /* by file, then line */
};

hs__bad_lines *hs__bad_lines_create(void)
{
    hs__bad_lines *bad = calloc(1, sizeof *bad);
    if (bad && pthread_mutex_init(&bad->lock, NULL)) {
        free(bad);
        return NULL;
    }
    return bad;
}

/* NULL is fine */
static void bad_lines_destroy(hs__bad_lines *bad)
{
    if (bad)
        pthread_mutex_destroy(&bad->lock);
    free(bad);
}

static bool precedes(const hs__bad_line *a, const hs__bad_line *b)
{
    return a->file != b->file ? a->file < b->file : a->line < b->line;
}

/* Makes the reason valid UTF-8, as JSON requires: the parser may have cut the quoted line inside a character.
 */
static void why_mend(char *why)
{
    const size_t n = strlen(why);
    for (size_t at = 0; (at += hs_utf8_valid(why + at, n - at)) < n;)
        why[at] = '?';
}

static void insert(hs__bad_lines *bad, const hs__bad_line *line)
{
    size_t at = bad->n;
    if (at == HS__BAD_LINES_LISTED_MAX && !precedes(line, &bad->listed[at - 1]))
        return;
    at -= at == HS__BAD_LINES_LISTED_MAX;
    bad->n = at + 1;
    for (; at && precedes(line, &bad->listed[at - 1]); at--)
        bad->listed[at] = bad->listed[at - 1];
    bad->listed[at] = *line;
    why_mend(bad->listed[at].why);
}

void hs__bad_lines_add(hs__bad_lines *bad, const hs__bad_line *line)
{
    pthread_mutex_lock(&bad->lock);
    bad->count += line->n_lines;
    insert(bad, line);
    pthread_mutex_unlock(&bad->lock);
}

uint64_t hs__bad_lines_count(hs__bad_lines *bad)
{
    pthread_mutex_lock(&bad->lock);
    const uint64_t count = bad->count;
    pthread_mutex_unlock(&bad->lock);
    return count;
}

json_t *hs__bad_lines_save(hs__bad_lines *bad, const json_t *names)
{
    json_t *lines = json_array();
    pthread_mutex_lock(&bad->lock);
    const uint64_t count = bad->count;
    for (size_t i = 0; i < bad->n; i++) {
        const hs__bad_line *line = &bad->listed[i];
        json_t *name = names ? json_incref(json_array_get(names, line->file)) : NULL;
        json_array_append_new(lines, json_pack("{so sI ss}", "file",
                                               name ? name : json_integer((json_int_t)line->file), "line",
                                               (json_int_t)line->line, "why", line->why));
    }
    pthread_mutex_unlock(&bad->lock);
    return json_pack("{sI so}", "count", (json_int_t)count, "lines", lines);
}

/* Reads one entry; false when it is damaged. */
static bool line_load(const json_t *saved, size_t n_files, hs__bad_line *ret_line)
{
    json_int_t file, number;
    const char *why;
    if (json_unpack((json_t *)saved, "{sI sI ss}", "file", &file, "line", &number, "why", &why) || file < 0 ||
        (uint64_t)file >= n_files || number < 0)
        return false;
    ret_line->file = (size_t)file;
    ret_line->line = (uint64_t)number;
    snprintf(ret_line->why, sizeof ret_line->why, "%s", why);
    return true;
}

hs_status hs__bad_lines_load(hs__bad_lines *bad, const json_t *saved, size_t n_files, hs_error *err)
{
    json_int_t count;
    json_t *lines;
    hs__bad_line line;
    bool ok = !json_unpack((json_t *)saved, "{sI so}", "count", &count, "lines", &lines) &&
              json_is_array(lines) && count >= (json_int_t)json_array_size(lines);
    for (size_t i = 0; ok && i < json_array_size(lines); i++)
        ok = line_load(json_array_get(lines, i), n_files, &line);
    if (!ok)
        return hs_fail(err, HS_INVALID, "the saved list of bad lines is damaged");
    pthread_mutex_lock(&bad->lock);
    bad->count += (uint64_t)count;
    for (size_t i = 0; i < json_array_size(lines); i++)
        if (line_load(json_array_get(lines, i), n_files, &line))
            insert(bad, &line);
    pthread_mutex_unlock(&bad->lock);
    return HS_OK;
}

/* ---- results ----
 *
 * The lifetime of a run's results, and how two shards become one. */

void hs__corpus_results_finish(hs__corpus_results *results)
{
    json_decref(results->identity);
    json_decref(results->names);
    json_decref(results->shards);
    bad_lines_destroy(results->bad);
    hs_corpus_stats_destroy(results->stats);
    for (size_t c = 0; c < HS__N_COUNTERS; c++)
        hs__counter_destroy(hs__counters[c], results->counts[c]);
    *results = (hs__corpus_results){0};
}

/* ---- merging ---- */

static hs_status identity_differs(const char *key, const json_t *mine, const json_t *other, const char *where,
                                  hs_error *err)
{
    if (strcmp(key, HS__CORPUS_MODEL_FILES) == 0)
        return hs_fail(err, HS_INVALID,
                       "%s has another %s: config.json or a tokenizer file of the model has changed. Restore "
                       "it, or begin anew in another folder",
                       where, key);
    if (strcmp(key, "map_step") == 0)
        return hs_fail(
            err, HS_INVALID,
            "%s has another map_step: %lld positions of a cell's edge there, %lld here. Give both the "
            "same map_bins",
            where, (long long)(other ? json_integer_value(other) : 1),
            (long long)(mine ? json_integer_value(mine) : 1));
    char *now = hs_json_text(mine, JSON_ENCODE_ANY), *then = hs_json_text(other, JSON_ENCODE_ANY);
    const hs_status st = (mine && !now) || (other && !then)
                             ? hs_fail(err, HS_NO_MEMORY, "no memory to compare %s with this run", where)
                             : hs_fail(err, HS_INVALID, "%s has another %s: %.120s there, %.120s here", where,
                                       key, then ? then : "the default", now ? now : "the default");
    free(now);
    free(then);
    return st;
}

hs_status hs__corpus_identity_check(const json_t *identity, const json_t *other, const char *where,
                                    hs_error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)other, key, value)
    {
        const json_t *mine = json_object_get(identity, key);
        if (!json_equal(mine, value))
            return identity_differs(key, mine, value, where, err);
    }
    json_object_foreach((json_t *)identity, key, value)
    {
        if (!json_object_get(other, key))
            return identity_differs(key, value, NULL, where, err);
    }
    return HS_OK;
}

static bool shards_overlap(const json_t *a, const json_t *b)
{
    for (size_t i = 0; i < json_array_size(a); i++)
        for (size_t k = 0; k < json_array_size(b); k++)
            if (json_equal(json_array_get(a, i), json_array_get(b, k)))
                return true;
    return false;
}

static int shard_compare(const void *a, const void *b)
{
    const json_int_t x = *(const json_int_t *)a, y = *(const json_int_t *)b;
    return (x > y) - (x < y);
}

static hs_status shards_join(hs__corpus_results *results, const hs__corpus_results *from, hs_error *err)
{
    const size_t n_own = json_array_size(results->shards), n = n_own + json_array_size(from->shards);
    json_int_t *all = calloc(n, sizeof *all);
    json_t *joined = json_array();
    for (size_t i = 0; all && i < n; i++)
        all[i] = json_integer_value(i < n_own ? json_array_get(results->shards, i)
                                              : json_array_get(from->shards, i - n_own));
    if (!all || !joined) {
        free(all);
        json_decref(joined);
        return hs_fail(err, HS_NO_MEMORY, "no memory to merge");
    }
    qsort(all, n, sizeof *all, shard_compare);
    for (size_t i = 0; i < n; i++)
        json_array_append_new(joined, json_integer(all[i]));
    free(all);
    json_decref(results->shards);
    results->shards = joined;
    return HS_OK;
}

static hs_status counts_join(hs__corpus_results *results, hs__corpus_results *from, const char *from_dir,
                             hs_error *err)
{
    hs_status st = HS_OK;
    for (size_t c = 0; !st && c < HS__N_COUNTERS; c++)
        st = hs__counter_merge(hs__counters[c], results, &results->counts[c], from, &from->counts[c],
                               from_dir, err);
    return st;
}

hs_status hs__corpus_results_merge(hs__corpus_results *results, hs__corpus_results *from,
                                   const char *from_dir, hs_error *err)
{
    char where[300];
    snprintf(where, sizeof where, "the run in '%.250s'", from_dir);
    hs_status st = hs__corpus_identity_check(results->identity, from->identity, where, err);
    if (st)
        return st;
    if (!from->done || !results->done)
        return hs_fail(err, HS_INVALID, "%s is not finished: complete it with --resume first", where);
    if (strcmp(results->position.sha256, from->position.sha256) != 0)
        return hs_fail(err, HS_INVALID, "%s has another input", where);
    if (shards_overlap(results->shards, from->shards))
        return hs_fail(err, HS_INVALID, "%s holds a shard that is already merged: name each shard once",
                       where);
    st = hs_corpus_stats_merge(results->stats, from->stats, err);
    if (!st)
        st = counts_join(results, from, from_dir, err);
    if (!st)
        st = shards_join(results, from, err);
    json_t *bad = hs__bad_lines_save(from->bad, NULL);
    const size_t n_files = json_array_size(json_object_get(results->names, "inputs"));
    if (!st)
        st = hs__bad_lines_load(results->bad, bad, n_files, err);
    json_decref(bad);
    json_object_update_missing(json_object_get(results->names, "tokens"),
                               json_object_get(from->names, "tokens"));
    results->seconds += from->seconds;
    results->n_empty += from->n_empty; /* every shard passed all blank records */
    return st;
}
