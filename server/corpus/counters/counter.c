/* counter.c - what a run does with a counter: its functions, and what follows from its sums. */
#include "server/corpus/counters/counter.h"

#include "server/corpus/counters/words.h"

#include <string.h>

/* ---- sizes ---- */

static void lengths_set(size_t n_thresholds, size_t n_layers, size_t n_heads, size_t n_labels,
                        size_t ret[HS_LENGTHS])
{
    ret[HS_LENGTH_OWN] = 0;
    ret[HS_THRESHOLDS] = n_thresholds;
    ret[HS_LAYERS] = n_layers;
    ret[HS_HEADS] = n_heads;
    ret[HS_LABELS] = n_labels;
}

void hs__counter_lengths(const hs__corpus_job *job, size_t ret_lengths[HS_LENGTHS])
{
    const hs__corpus_settings *settings = &job->settings;
    const size_t n_classes = hs_engine_architecture(job->engine)->task_head.n_classes;
    lengths_set(settings->n_thresholds, settings->fields.n_layers, hs_engine_shape(job->engine)->n_heads,
                *settings->input.label_field ? n_classes : 0, ret_lengths);
}

/* Reads the lengths from a checkpoint, which may be damaged. */
static void lengths_read(const hs__corpus_results *results, size_t ret[HS_LENGTHS])
{
    const hs_corpus_options o = hs_corpus_stats_options(results->stats);
    const size_t n_labels = json_array_size(json_object_get(results->names, HS__LABEL_NAMES));
    lengths_set(o.n_thresholds, o.n_layers, o.n_heads, n_labels <= HS_LABELS_COUNTED_MAX ? n_labels : 0, ret);
}

bool hs__counter_is_active(const hs__counter *counter, const json_t *identity)
{
    return !counter->is_active || counter->is_active(identity);
}

/* Returns true if the counter has something to do in a run. */
static bool takes_part(const hs__counting *counting)
{
    return hs__counter_is_active(counting->counter, counting->results->identity) &&
           (!counting->counter->open || counting->shared);
}

static size_t worker_bytes(const hs__counter *counter)
{
    return counter->worker_bytes ? counter->worker_bytes : counter->sums ? sizeof(hs__tally) : 0;
}

void hs__counter_measure(const hs__counter *counter, const hs__corpus_job *job, const void *options,
                         hs__counter_size *size)
{
    size_t lengths[HS_LENGTHS];
    hs__counter_lengths(job, lengths);
    const hs_sums_size sums = counter->sums ? hs_sums_measure(counter->sums, lengths) : (hs_sums_size){0};
    size->shared += sums.bytes;
    size->worker += (counter->open ? 0 : worker_bytes(counter)) + sums.bytes;
    size->saved_words += sums.words;
    if (counter->measure)
        counter->measure(job, options, size);
}

/* ---- a run ---- */

hs_status hs__counter_begin(hs__counting *counting, bool anew, hs_error *err)
{
    const hs__counter *counter = counting->counter;
    size_t lengths[HS_LENGTHS];
    if (!takes_part(counting))
        return HS_OK;
    hs__counter_lengths(counting->job, lengths);
    if (counter->sums && anew) {
        *counting->counts = hs_sums_create(counter->sums, lengths, err);
        if (!*counting->counts)
            return HS_NO_MEMORY;
    }
    return counter->begin ? counter->begin(counting, anew, err) : HS_OK;
}

bool hs__counter_matches(const hs__counting *counting)
{
    const hs_sums *sums = counting->counter->sums ? *counting->counts : NULL;
    size_t lengths[HS_LENGTHS];
    if (!hs__counter_is_active(counting->counter, counting->results->identity))
        return true;
    if (sums) {
        hs__counter_lengths(counting->job, lengths);
        return memcmp(sums->lengths, lengths, sizeof lengths) == 0;
    }
    return !counting->counter->matches || counting->counter->matches(counting);
}

hs_status hs__counter_worker_create(const hs__counting *counting, void *const *states, void **ret_state,
                                    hs_error *err)
{
    const hs__counter *counter = counting->counter;
    const size_t n_bytes = worker_bytes(counter);
    *ret_state = NULL;
    if (!n_bytes || !takes_part(counting))
        return HS_OK;
    hs__tally *tally = *ret_state = calloc(1, n_bytes);
    if (!tally)
        return hs_fail(err, HS_NO_MEMORY, "no memory for a worker");
    tally->counting = counting;
    if (counter->sums) {
        const hs_sums *counts = *counting->counts;
        tally->sums = hs_sums_create(counter->sums, counts->lengths, err);
        if (!tally->sums)
            return HS_NO_MEMORY;
    }
    return counter->worker_begin ? counter->worker_begin(tally, states, err) : HS_OK;
}

void hs__counter_worker_destroy(void *state)
{
    hs__tally *tally = state;
    if (!tally)
        return;
    if (tally->counting->counter->worker_end)
        tally->counting->counter->worker_end(tally);
    hs_sums_destroy(tally->sums);
    free(tally);
}

hs_status hs__counter_gather(hs__counting *counting, void *state, hs_error *err)
{
    const hs__tally *tally = state;
    if (tally && tally->sums)
        hs_sums_move(*counting->counts, tally->sums);
    return tally && counting->counter->gather ? counting->counter->gather(counting, state, err) : HS_OK;
}

/* ---- checkpoint and shards ---- */

hs_status hs__counter_save(const hs__counter *counter, const hs__corpus_results *results, void *counts,
                           json_t *checkpoint, hs_error *err)
{
    if (!counter->sums)
        return counter->save ? counter->save(results, counts, checkpoint, err) : HS_OK;
    return counts && json_object_set_new(checkpoint, counter->sums->member, hs__sums_save(counts))
               ? hs_fail(err, HS_NO_MEMORY, "no memory to save the run")
               : HS_OK;
}

static hs_status sums_load(const hs__counter *counter, const hs__corpus_results *results, const json_t *saved,
                           void **counts, hs_error *err)
{
    size_t lengths[HS_LENGTHS];
    lengths_read(results, lengths);
    hs_sums *sums = hs_sums_create(counter->sums, lengths, err);
    if (!sums)
        return HS_NO_MEMORY;
    if (!hs__sums_load(sums, saved) || (counter->is_sound && !counter->is_sound(results, sums))) {
        hs_sums_destroy(sums);
        return hs_fail(err, HS_INVALID, "%s are damaged", counter->sums->what);
    }
    *counts = sums;
    return HS_OK;
}

hs_status hs__counter_load(const hs__counter *counter, const hs__corpus_results *results,
                           const json_t *checkpoint, void **counts, hs_error *err)
{
    if (!hs__counter_is_active(counter, results->identity))
        return HS_OK;
    if (!counter->sums)
        return counter->load ? counter->load(results, checkpoint, counts, err) : HS_OK;
    return sums_load(counter, results, json_object_get(checkpoint, counter->sums->member), counts, err);
}

hs_status hs__counter_merge(const hs__counter *counter, hs__corpus_results *results, void **counts,
                            const hs__corpus_results *from, void **from_counts, const char *from_dir,
                            hs_error *err)
{
    const hs_status st =
        counter->merge ? counter->merge(results, counts, from, from_counts, from_dir, err) : HS_OK;
    if (st || !counter->sums || (!*counts && !*from_counts))
        return st;
    const hs_sums *mine = *counts, *other = *from_counts;
    if (!mine || !other || memcmp(mine->lengths, other->lengths, sizeof mine->lengths) != 0)
        return hs_fail(err, HS_INVALID, "the run in '%.250s' is damaged: %s are not those of the others",
                       from_dir, counter->sums->what);
    hs_sums_add(*counts, *from_counts);
    return HS_OK;
}

void hs__counter_destroy(const hs__counter *counter, void *counts)
{
    if (counts && counter->sums)
        hs_sums_destroy(counts);
    else if (counts)
        counter->destroy(counts);
}

/* ---- arrays ---- */

size_t hs__counter_arrays(const hs__counter *counter, const void *counts,
                          hs_corpus_array ret_arrays[HS__COUNTER_ARRAYS_MAX])
{
    const hs_sums *sums = counter->sums ? counts : NULL;
    size_t n = 0;
    if (!sums)
        return counter->list && counts ? counter->list(counts, ret_arrays) : 0;
    for (size_t k = 0; k < counter->sums->n_rows && n < HS__COUNTER_ARRAYS_MAX; k++)
        if (counter->sums->rows[k].name && !counter->sums->hidden)
            ret_arrays[n++] = hs_array_of(counter->sums->rows, k, sums->lengths);
    return n;
}

void hs__counter_array_read(const hs__counter *counter, const void *counts, const hs_corpus_array *array,
                            size_t first, size_t n, void *ret)
{
    if (counter->sums && array->row->place != HS_MADE)
        hs_sums_read(counts, array, first, n, ret);
    else
        counter->read(counts, array, first, n, ret);
}
