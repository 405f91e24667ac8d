/* chart.h - a chart as data: lines, bars, dots or stacks over an axis of numbers, or a ranking of names.
 *
 * Lines have their names beside their ends, moved apart so that none stands on another. More than six lines
 * are drawn as small charts of one line each, with the same axes; so are several rows of bars. NAN is left
 * out. */
#pragma once

#include "api/figures/picture.h"

#define HS__CHART_LINES_MAX 6 /* of one plot */

typedef enum hs__chart_kind {
    HS__CHART_LINES,
    HS__CHART_BARS,   /* from the bottom up, a step wide */
    HS__CHART_DOTS,   /* each with its spread to both sides */
    HS__CHART_STACKS, /* fractions of 1 on top of each other */
    HS__CHART_RANKING /* a bar to the right for each name, the first is the longest */
} hs__chart_kind;

typedef struct hs__chart {
    hs__chart_kind kind;
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
} hs__chart;

#define HS__CHART_WARM 0xc2701bu /* of similarities */
#define HS__CHART_COLD 0x2f6fb8u /* of attention */

/* Lays the chart out. Release with hs__picture_finish, also on failure. HS_NO_MEMORY. */
HS_MUST_USE hs_status hs__chart_draw(const hs__chart *chart, hs__picture *ret_drawing, hs_error *err);
