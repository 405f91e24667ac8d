/* report_npz.c - report.npz: arrays of any size, written as they are read. */
#include "api/formats/npz.h"
#include "server/corpus/report/report.h"
#include "server/corpus/report/syntax_counts.h"

#define CHUNK ((size_t)8192) /* elements */

/* Elements are double or int64_t: eight bytes. of_labels: the array is one of labels.h. */
static void array_write(hs_npz *npz, const hs__corpus_results *results, const hs_corpus_array *array,
                        bool of_labels)
{
    hs_npz_begin(npz, array->name, array->is_float ? "<f8" : "<i8", array->n_axes, array->axes,
                 8 * (uint64_t)array->n_elements);
    for (size_t first = 0, n; first < array->n_elements; first += n) {
        n = array->n_elements - first < CHUNK ? array->n_elements - first : CHUNK;
        void *chunk = hs_npz_reserve(npz, 8 * n);
        if (!chunk)
            return;
        if (of_labels)
            hs_labels_array_read(results->labels, array, first, n, chunk);
        else
            hs_corpus_array_read(results->stats, array, first, n, chunk);
        hs_npz_add(npz, 8 * n);
    }
}

static void syntax_write(hs_npz *npz, const hs_syntax *syntax)
{
    hs__syntax_rows rows;
    npz->failed |= hs__syntax_rows_make(syntax, &rows, NULL) || !hs__syntax_arrays_write(&rows, npz);
    hs__syntax_rows_finish(&rows);
}

static void label_names_write(hs_npz *npz, const json_t *names)
{
    hs_bytes texts[HS_LABELS_COUNTED_MAX];
    const size_t n =
        json_array_size(names) < HS_LABELS_COUNTED_MAX ? json_array_size(names) : HS_LABELS_COUNTED_MAX;
    for (size_t i = 0; i < n; i++) {
        const json_t *name = json_array_get(names, i);
        texts[i] = (hs_bytes){json_string_value(name), json_string_length(name)};
    }
    hs_npz_texts(npz, "label_names", texts, n, false);
}

static void labels_write(hs_npz *npz, const hs__corpus_results *results)
{
    hs_corpus_array arrays[HS_LABELS_ARRAYS_MAX];
    const size_t n = hs_labels_arrays(results->labels, arrays);
    for (size_t i = 0; i < n; i++)
        array_write(npz, results, &arrays[i], true);
    label_names_write(npz, json_object_get(results->names, HS__CORPUS_LABELS));
}

hs_status hs__corpus_npz_write(FILE *file, const hs__corpus_results *results, const char *provenance,
                               hs_error *err)
{
    hs_corpus_array arrays[HS_CORPUS_ARRAYS_MAX];
    const size_t n = hs_corpus_arrays(results->stats, arrays);
    hs_npz npz = {.file = file};
    for (size_t i = 0; i < n; i++)
        array_write(&npz, results, &arrays[i], false);
    if (results->syntax)
        syntax_write(&npz, results->syntax);
    if (results->labels)
        labels_write(&npz, results);
    hs_npz_text(&npz, "provenance", provenance);
    return hs_npz_finish(&npz, err);
}
