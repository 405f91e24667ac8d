/* comparison_csv.c - a comparison as rows of run, name, figure, layer, head, value. */
#include "server/corpus/report/comparison.h"

#include <stdbool.h>
#include <string.h>

/* Writes a field of CSV as in RFC 4180. */
static void field_write(FILE *file, const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        fputs(text, file);
        return;
    }
    putc('"', file);
    for (; *text; text++)
        fputs(*text == '"' ? "\"\"" : (const char[]){*text, '\0'}, file);
    putc('"', file);
}

/* Where a value belongs: the run's number and name, the figure. */
typedef struct row {
    size_t run;
    const char *name, *figure;
} row;

/* Writes a row. layer, head: as text, "" if the value is of more. A missing value is empty. */
static void row_write(FILE *file, const row *of, const char *layer, const char *head, const json_t *value)
{
    fprintf(file, "%zu,", of->run);
    field_write(file, of->name);
    fprintf(file, ",%s,%s,%s,", of->figure, layer, head);
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

static void figures_write(FILE *file, const json_t *comparison, const char *member)
{
    const char *figure;
    json_t *of_runs;
    json_object_foreach(json_object_get(comparison, member), figure, of_runs)
    {
        for (size_t r = 0; r < json_array_size(of_runs); r++) {
            const json_t *run = json_array_get(json_object_get(comparison, "runs"), r);
            const row of = {r, json_string_value(json_object_get(run, "name")), figure};
            const json_t *values = json_array_get(of_runs, r);
            if (json_is_array(values))
                layers_write(file, comparison, &of, values, strcmp(member, "head_figures") == 0);
            else
                row_write(file, &of, "", "", values);
        }
    }
}

void hs__comparison_csv_write(FILE *file, const json_t *comparison)
{
    fputs("run,name,figure,layer,head,value\n", file);
    figures_write(file, comparison, "run_figures");
    figures_write(file, comparison, "layer_figures");
    figures_write(file, comparison, "head_figures");
}
