/* figure_csv.c - writes the numbers of a figure: a line of names, then a row for each cell. */
#include "api/figures/figure.h"
#include "api/formats/json_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Adds a field in quotes, which are doubled inside. */
static void text_add(hs_buffer *b, const char *text)
{
    hs_buffer_add(b, "\"", 1);
    for (const char *quote; (quote = strchr(text, '"')); text = quote + 1) {
        hs_buffer_add(b, text, (size_t)(quote - text));
        hs_buffer_add(b, "\"\"", 2);
    }
    hs_buffer_text(b, text);
    hs_buffer_add(b, "\"", 1);
}

static void label_add(hs_buffer *b, const char *const *labels, size_t i)
{
    hs_buffer_add(b, ",", 1);
    if (labels)
        text_add(b, labels[i]);
}

/* Adds a row. A value that is not finite stays empty. */
static void cell_add(hs_buffer *b, const hs_panel *p, size_t i, size_t j)
{
    char number[64];
    const size_t at = i * p->n_columns + j;
    char *end = number;
    text_add(b, p->title);
    hs_buffer_add(b, number, (size_t)snprintf(number, sizeof number, ",%zu,%zu", i, j));
    label_add(b, p->row_labels, i);
    label_add(b, p->column_labels, j);
    label_add(b, p->cell_labels, at);
    *end++ = ',';
    if (isfinite(p->values[at]))
        end = hs_float_print(end, p->values[at], 9);
    *end++ = '\n';
    hs_buffer_add(b, number, (size_t)(end - number));
}

hs_status hs__figure_csv(const hs_figure *f, hs_buffer *b, hs_error *err)
{
    hs_buffer_text(b, "panel,row,column,row_label,column_label,cell_label,value\n");
    for (size_t k = 0; k < f->n_panels && !b->failed; k++)
        for (size_t i = 0; i < f->panels[k].n_rows; i++)
            for (size_t j = 0; j < f->panels[k].n_columns; j++)
                cell_add(b, &f->panels[k], i, j);
    return b->failed ? hs_fail(err, HS_NO_MEMORY, "no memory for the figure's numbers") : HS_OK;
}
