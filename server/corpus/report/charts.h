/* charts.h - charts as SVG, one <svg> each, as they stand in a report and in a paper.
 *
 * Colours are those of print, written into the elements, so that what is saved looks as it does on a white
 * page; a page with another ground restyles them by their classes (static/report/report.css). Lines differ
 * in colour, dash and a name that stands on them. All are one pass over borrowed arrays; NAN is left out. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define HS__CHART_WARM "#c2701b" /* of similarities */
#define HS__CHART_COLD "#2f6fb8" /* of attention */

typedef struct hs__axes {
    const char *title, *x_label, *y_label; /* plain text; y_label may be NULL */
    double width, height;
    double x_low, x_high, y_low, y_high;
    bool y_log; /* y is the exponent of ten */
    bool aside; /* with room for names at the right */
} hs__axes;

typedef struct hs__chart {
    FILE *out;
    hs__axes axes;
    double left, right, top, bottom;
} hs__chart;

/* An axis of n places, the first and last of them half a step from its ends. */
hs__axes hs__axes_of(const char *title, const char *x_label, const double *xs, size_t n, double y_high);

/* Opens the <svg> and draws its axes; hs__chart_end closes it. */
hs__chart hs__chart_begin(FILE *out, const hs__axes *axes);
void hs__chart_end(const hs__chart *chart);

/* n_lines lines over xs [n], values [n_lines][n]; names [n_lines], or NULL: "head 0" and so on. */
typedef struct hs__lines {
    const double *xs, *values;
    size_t n, n_lines;
    const char *const *names;
} hs__lines;
void hs__chart_lines(const hs__chart *chart, const hs__lines *lines);

/* Bars around xs, a step wide, from the bottom up. */
void hs__chart_bars(const hs__chart *chart, const double *xs, const double *values, size_t n,
                    const char *colour);
/* A thin dashed line: what chance gives. */
void hs__chart_chance(const hs__chart *chart, const double *xs, const double *values, size_t n);
/* Upright, at x, or level, at y, with a name. Nothing at NAN. */
void hs__chart_mark_x(const hs__chart *chart, double x, const char *label);
void hs__chart_mark_y(const hs__chart *chart, double y, const char *label);
/* A value with its spread to both sides. */
void hs__chart_dots(const hs__chart *chart, const double *xs, const double *values, const double *spreads,
                    size_t n);
/* Shares of 1 on top of each other: values [n_parts][n]. */
void hs__chart_stacks(const hs__chart *chart, const hs__lines *parts);

/* Horizontal bars with a name each, longest first. */
typedef struct hs__ranking {
    const char *title, *x_label, *colour;
    const char *const *names;
    const double *values;
    size_t n;
} hs__ranking;
void hs__chart_ranking(FILE *out, const hs__ranking *ranking);

/* A grid of numbers, n_rows x n_columns, coloured from low to high, each written into its cell. */
typedef struct hs__grid {
    const char *title, *row_label, *column_label;
    const double *rows; /* their numbers; columns count from 0 */
    const double *values;
    size_t n_rows, n_columns;
    double low, high;
} hs__grid;
void hs__chart_grid(FILE *out, const hs__grid *grid);

/* A map of side x side bytes: byte b stands for values[b]. Colours run from low to high; what is beyond has
 * the colour of the end. A map with two sides is lightest at 0 and has colours of their own below it, as deep
 * as those above for a value as large. Without bytes the picture is left to the page, which knows the map by
 * its key. */
typedef struct hs__heatmap {
    const char *title, *x_label, *y_label, *unit, *key;
    double tokens, low, high;
    bool warm, two_sided; /* two_sided: low is -high */
    size_t side;
    const unsigned char *bytes; /* [side][side], or NULL */
    const double *values;       /* [256] */
} hs__heatmap;
void hs__chart_heatmap(FILE *out, const hs__heatmap *map);

/* Text and attributes of HTML: & < > " are escaped. */
void hs__html_text(FILE *out, const char *text);
/* A number for people: three digits, whole above a thousand. */
const char *hs__chart_number(double value, char ret[32]);
