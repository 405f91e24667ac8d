/* report_npz.c - report.npz: arrays of any size, written as they are read. */
#include "api/formats/npz.h"
#include "server/corpus/report/report.h"
#include "server/corpus/report/syntax_counts.h"

#define CHUNK ((size_t)8192) /* elements */

/* Elements are double or int64_t: eight bytes. */
static void array_write(hs_npz *npz, const hs_corpus_stats *stats, const hs_corpus_array *array)
{
    hs_npz_begin(npz, array->name, array->is_float ? "<f8" : "<i8", array->n_axes, array->axes,
                 8 * (uint64_t)array->n_elements);
    for (size_t first = 0, n; first < array->n_elements; first += n) {
        n = array->n_elements - first < CHUNK ? array->n_elements - first : CHUNK;
        void *chunk = hs_npz_reserve(npz, 8 * n);
        if (!chunk)
            return;
        hs_corpus_array_read(stats, array, first, n, chunk);
        hs_npz_add(npz, 8 * n);
    }
}

static void syntax_write(hs_npz *npz, const hs_syntax *syntax)
{
    hs__syntax_rows rows;
    npz->failed |= hs__syntax_rows_make(syntax, &rows, NULL) || !hs__syntax_arrays_write(&rows, npz);
    hs__syntax_rows_finish(&rows);
}

hs_status hs__corpus_npz_write(FILE *file, const hs_corpus_stats *stats, const hs_syntax *syntax,
                               const char *provenance, hs_error *err)
{
    hs_corpus_array arrays[HS_CORPUS_ARRAYS_MAX];
    const size_t n = hs_corpus_arrays(stats, arrays);
    hs_npz npz = {.file = file};
    for (size_t i = 0; i < n; i++)
        array_write(&npz, stats, &arrays[i]);
    if (syntax)
        syntax_write(&npz, syntax);
    hs_npz_text(&npz, "provenance", provenance);
    return hs_npz_finish(&npz, err);
}
