/* report_npz.c - report.npz: arrays of any size, written as they are read. */
#include "api/formats/arrays.h"
#include "server/corpus/counters/counter.h"
#include "server/corpus/report/report.h"

#define CHUNK ((size_t)8192) /* elements */

/* Elements are double or int64_t: eight bytes. counter: whose array it is; NULL: of the statistics. */
static void array_write(hs_npz *npz, const hs__corpus_results *results, const hs__counter *counter,
                        const void *counts, const hs_corpus_array *array)
{
    hs_npz_begin(npz, array->name, array->is_float ? "<f8" : "<i8", array->n_axes, array->axes,
                 8 * (uint64_t)array->n_elements);
    for (size_t first = 0, n; first < array->n_elements; first += n) {
        n = array->n_elements - first < CHUNK ? array->n_elements - first : CHUNK;
        void *chunk = hs_npz_reserve(npz, 8 * n);
        if (!chunk)
            return;
        if (counter)
            counter->read(counts, array, first, n, chunk);
        else
            hs_corpus_array_read(results->stats, array, first, n, chunk);
        hs_npz_add(npz, 8 * n);
    }
}

static void counter_write(hs_npz *npz, const hs__corpus_results *results, size_t c)
{
    const hs__counter *counter = hs__counters[c];
    void *counts = results->counts[c];
    hs_corpus_array arrays[HS__COUNTER_ARRAYS_MAX];
    const size_t n = counter->list && counts ? counter->list(counts, arrays) : 0;
    for (size_t i = 0; i < n; i++)
        array_write(npz, results, counter, counts, &arrays[i]);
    if (counter->write)
        counter->write(results, counts, npz);
}

hs_status hs__corpus_npz_write(FILE *file, const hs__corpus_results *results, const char *provenance,
                               hs_error *err)
{
    hs_corpus_array arrays[HS_CORPUS_ARRAYS_MAX];
    const size_t n = hs_corpus_arrays(results->stats, arrays);
    hs_npz npz = {.file = file};
    for (size_t i = 0; i < n; i++)
        array_write(&npz, results, NULL, NULL, &arrays[i]);
    for (size_t c = 0; c < hs__n_counters; c++)
        counter_write(&npz, results, c);
    hs_npz_text(&npz, "provenance", provenance);
    return hs_npz_finish(&npz, err);
}
