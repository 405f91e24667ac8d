/* html.h - writes texts, numbers, tables of numbers and pictures as HTML. */
#pragma once

#include "api/figures/picture.h"
#include "server/corpus/report/report_value.h"

#include <stdint.h>
#include <stdio.h>

/* Writes text or an attribute of HTML, with & < > " escaped. */
void hs__html_text(FILE *out, const char *text);
/* The same of n bytes. U+0000, which HTML cannot hold, becomes its symbol. */
void hs__html_bytes(FILE *out, const char *bytes, size_t n);

/* A column of a table of numbers. */
typedef struct hs__column {
    const char *title;  /* HTML */
    const char *path;   /* of the value in a row's JSON (report_value.h); NULL: the cell is empty */
    const char *format; /* of printf, for one number, times 100 with "%%"; NULL: a text, or an integer */
} hs__column;

/* The number of an array's elements. */
#define HS__N(array) (sizeof(array) / sizeof *(array))

/* Write the beginning of a table of numbers up to its first row, and its end. */
void hs__table_begin(FILE *out, const hs__column *columns, size_t n_columns);
void hs__table_end(FILE *out);
/* Writes the cells of a row. */
void hs__cells_write(FILE *out, const hs__column *columns, size_t n_columns, const json_t *row,
                     hs__indices at);
/* Writes a cell with a number, or a dash if it is not finite. format is of printf, for one double. */
void hs__cell_write(FILE *out, double value, const char *format);
/* Writes a head as "3·5", with its numbers for a script. */
void hs__head_write(FILE *out, long long layer, long long head);
/* Writes a count as 1,234,567. */
void hs__count_write(FILE *out, uint64_t n);
/* Writes a template; "{path}" stands for that member of the object: a text, or an integer. */
void hs__html_filled(FILE *out, const json_t *object, const char *template);

/* Ends a drawing that had this status: writes the picture as SVG, if there is anything in it, and releases
 * it. */
HS_MUST_USE hs_status hs__svg_write(hs_status drawn, hs_picture *picture, FILE *out, hs_error *err);
