/* comparison_csv.c - a comparison as rows of run, name, figure, layer, head, value. Names of runs are free
 * text: a spreadsheet must not take them for formulas. */
#include "server/corpus/report/comparison.h"

#include "api/formats/csv.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Where a value belongs: the run's number and name as a field of CSV, the figure. */
typedef struct row {
    size_t run;
    const char *name, *figure;
} row;

/* Writes a row. layer, head: as text, "" if the value is of more. A missing value is empty. */
static void row_write(FILE *file, const row *of, const char *layer, const char *head, const json_t *value)
{
    fprintf(file, "%zu,%s,%s,%s,%s,", of->run, of->name, of->figure, layer, head);
    if (json_is_number(value))
        fprintf(file, "%.12g", json_number_value(value));
    putc('\n', file);
}

static void layers_write(FILE *file, const json_t *comparison, const row *of, const json_t *values,
                         bool with_heads)
{
    const json_t *layers = json_object_get(comparison, "layers");
    for (size_t l = 0; l < json_array_size(values); l++) {
        const json_t *value = json_array_get(values, l);
        char layer[24], head[24];
        snprintf(layer, sizeof layer, "%lld", (long long)json_integer_value(json_array_get(layers, l)));
        if (!with_heads)
            row_write(file, of, layer, "", value);
        for (size_t h = 0; with_heads && h < json_array_size(value); h++) {
            snprintf(head, sizeof head, "%zu", h);
            row_write(file, of, layer, head, json_array_get(value, h));
        }
    }
}

static void figures_write(FILE *file, const json_t *comparison, char *const *names, const char *member)
{
    const char *figure;
    json_t *of_runs;
    json_object_foreach(json_object_get(comparison, member), figure, of_runs)
    {
        for (size_t r = 0; r < json_array_size(of_runs); r++) {
            const row of = {r, names[r], figure};
            const json_t *values = json_array_get(of_runs, r);
            if (json_is_array(values))
                layers_write(file, comparison, &of, values, strcmp(member, "head_figures") == 0);
            else
                row_write(file, &of, "", "", values);
        }
    }
}

/* Returns the name of a run as a field of CSV (malloc'ed); NULL if memory is short. */
static char *name_field(const json_t *run)
{
    const json_t *name = json_object_get(run, "name");
    const size_t n = json_string_length(name);
    char *field = malloc(HS_CSV_FIELD_MAX(n) + 1);
    if (field)
        *hs_csv_field(field, json_string_value(name), n, true) = '\0';
    return field;
}

hs_status hs__comparison_csv_write(FILE *file, const json_t *comparison, hs_error *err)
{
    const json_t *runs = json_object_get(comparison, "runs");
    const size_t n = json_array_size(runs);
    char *names[HS__COMPARED_RUNS_MAX] = {NULL};
    bool failed = n > HS__COMPARED_RUNS_MAX;
    for (size_t r = 0; r < n && !failed; r++) {
        names[r] = name_field(json_array_get(runs, r));
        failed = !names[r];
    }
    if (!failed) {
        fputs("run,name,figure,layer,head,value\n", file);
        figures_write(file, comparison, names, "run_figures");
        figures_write(file, comparison, names, "layer_figures");
        figures_write(file, comparison, names, "head_figures");
    }
    for (size_t r = 0; r < HS__COMPARED_RUNS_MAX; r++)
        free(names[r]);
    return failed ? hs_fail(err, HS_NO_MEMORY, "no memory for the comparison") : HS_OK;
}
