/* results.c - the lifetime of a run's results, and how two shards become one. */
#include "server/corpus/report/results.h"

#include "server/corpus/counters/counter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void hs__corpus_results_finish(hs__corpus_results *results)
{
    json_decref(results->identity);
    json_decref(results->names);
    json_decref(results->shards);
    hs__bad_lines_destroy(results->bad);
    hs_corpus_stats_destroy(results->stats);
    for (size_t c = 0; c < hs__n_counters; c++)
        if (results->counts[c])
            hs__counters[c]->destroy(results->counts[c]);
    *results = (hs__corpus_results){0};
}

uint64_t hs__corpus_results_empty(const hs__corpus_results *results)
{
    return results->place.n_blank + results->n_empty;
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
    char *now = json_dumps(mine, JSON_ENCODE_ANY), *then = json_dumps(other, JSON_ENCODE_ANY);
    hs_fail(err, HS_INVALID, "%s has another %s: %.120s there, %.120s here", where, key,
            then ? then : "the default", now ? now : "the default");
    free(now);
    free(then);
    return HS_INVALID;
}

/* Returns true if one side lacks the member because an earlier version saved its state. */
static bool is_of_before(const char *key, const json_t *mine, const json_t *other)
{
    return strcmp(key, HS__CORPUS_MODEL_FILES) == 0 && (!mine || !other);
}

hs_status hs__corpus_identity_check(const json_t *identity, const json_t *other, const char *where,
                                    hs_error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)other, key, value)
    {
        const json_t *mine = json_object_get(identity, key);
        if (!json_equal(mine, value) && !is_of_before(key, mine, value))
            return identity_differs(key, mine, value, where, err);
    }
    json_object_foreach((json_t *)identity, key, value)
    {
        if (!json_object_get(other, key) && !is_of_before(key, value, NULL))
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
    for (size_t c = 0; !st && c < hs__n_counters; c++)
        if (hs__counters[c]->merge)
            st = hs__counters[c]->merge(results, &results->counts[c], from, &from->counts[c], from_dir, err);
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
    if (strcmp(results->place.sha256, from->place.sha256) != 0)
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
