/* chart.h - a chart as data: lines, bars, dots or stacks over an axis of numbers, or a ranking of names.
 *
 * Lines have their names beside their ends, moved apart so that none stands on another. More than six lines
 * are drawn as small charts of one line each, with the same axes; so are several rows of bars. NAN is left
 * out. */
#pragma once

#include "api/figures/picture.h"

#define HS_CHART_LINES_MAX 6 /* of one plot */

typedef enum hs_chart_kind {
    HS_CHART_LINES,
    HS_CHART_BARS,   /* from the bottom up, a step wide */
    HS_CHART_DOTS,   /* each with its spread to both sides */
    HS_CHART_STACKS, /* fractions of 1 on top of each other */
    HS_CHART_RANKING /* a bar to the right for each name, the first is the longest */
} hs_chart_kind;

typedef struct hs_chart {
    hs_chart_kind kind;
    const char *title, *x_title, *y_title; /* y_title may be NULL */
    const double *xs;                      /* [n]; not of a ranking */
    const double *values;                  /* [n_series][n] */
    const double *spreads;                 /* of dots: [n] */
    const double *chance;                  /* [n], a thin dashed line; or NULL */
    size_t n, n_series;
    const char *const *names; /* [n_series], of a ranking [n]; NULL: "head 0" and so on */
    double y_low, y_high;
    bool y_log;            /* values are exponents of ten */
    uint32_t colour;       /* of bars and dots, 0xRRGGBB */
    double mark_x, mark_y; /* a dashed line across, with its label; NAN: none */
    const char *mark_label;
    double width_mm, height_mm; /* of a plot; small charts and rankings choose their height */
    double font_pt;
} hs_chart;

#define HS_CHART_WARM 0xc2701bu /* of similarities */
#define HS_CHART_COLD 0x2f6fb8u /* of attention */

/* Lays the chart out. Release with hs_picture_finish, also on failure. HS_NO_MEMORY. */
HS_MUST_USE hs_status hs_chart_draw(const hs_chart *chart, hs_picture *ret_drawing, hs_error *err);
