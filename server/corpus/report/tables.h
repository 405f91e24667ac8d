/* tables.h - writes the text and the tables of a report as HTML. */
#pragma once

#include "server/corpus/report/figures.h"
#include "server/corpus/report/report_value.h"

/* Writes the run's provenance, and how many of the paper's claims hold. */
void hs__header_write(const json_t *report, FILE *out);
/* Writes the claims, each with its verdict. */
void hs__findings_write(const json_t *report, FILE *out);
/* Writes the figures of a layer's heads at a threshold. */
void hs__heads_write(const hs__drawing *drawing, hs__place at, FILE *out);
/* Writes links to the texts in which a layer's heads have most and least of each figure. */
void hs__examples_write(const hs__drawing *drawing, hs__place at, FILE *out);
/* Writes the texts that hs__examples_write links to. */
void hs__texts_write(const json_t *report, FILE *out);

/* Writes text or an attribute of HTML, with & < > " escaped. */
void hs__html_text(FILE *out, const char *text);
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
void hs__cells_write(FILE *out, const hs__column *columns, size_t n_columns, const json_t *row, hs__place at);
/* Writes a cell with a number, or a dash if it is not finite. format is of printf, for one double. */
void hs__cell_write(FILE *out, double value, const char *format);
/* Writes a count as 1,234,567. */
void hs__count_write(FILE *out, uint64_t n);
