/* figure.h - figures as data: panels of coloured cells, charts, and lines of tokens. */
#pragma once

#include "api/figures/picture.h"

/* ==== panels ==== */

/* A figure as data: panels of coloured cells, written as SVG or PDF.
 *
 * Every kind of figure is a set of panels: a map of a head, distances between heads, predictions with a token
 * in each cell. The layout chooses the size of labels. Labels are at least 5 pt; if there is no space for
 * all of an axis, it has numbers at some positions instead. */

#define HS__FIGURE_POINT_MIN  5.0               /* smallest label */
#define HS__FIGURE_PIXELS_MAX ((size_t)4 << 20) /* of all images of a figure */

/* SIGNED is violet from its low end to the lightest in the middle, then orange: for a range from -high to
 * high. */
typedef enum hs_palette {
    HS_PALETTE_BLUE,
    HS_PALETTE_ORANGE,
    HS_PALETTE_GREEN,
    HS_PALETTE_SIGNED
} hs_palette;

/* How colours follow values. The first three take the fraction of the largest value: as it is, its square
 * root, or its logarithm over four decades. ROW takes the fraction of the row's largest value. */
typedef enum hs_scale { HS_SCALE_LINEAR, HS_SCALE_SQUARE_ROOT, HS_SCALE_LOG, HS_SCALE_ROW } hs_scale;
typedef enum hs__labels { HS__LABELS_AUTO, HS__LABELS_ALL, HS__LABELS_NONE } hs__labels;

typedef struct hs_panel {
    char title[128];
    size_t n_rows, n_columns;
    const float *values; /* [n_rows][n_columns]; what is not finite is left white */
    const char *const *row_labels, *const *column_labels; /* NULL: numbers at some positions */
    const char *const *cell_labels;                       /* [n_rows][n_columns], or NULL */
    const unsigned char *marked; /* [n_columns] of a square map: rows and columns with a line; or NULL */
    const char *row_title, *column_title;
    const char *unit; /* what the values are, beside the colour bar; NULL: nothing */
    const char
        *name;   /* of the map, for a script; its scale's numbers are "low", "middle" and "high"; or NULL */
    size_t tick; /* what a cell counts in such numbers; 0: 1 */
    hs_palette palette;
    hs_scale scale;
    float low, high;   /* range of the colours; if they are equal, all cells have the lightest */
    float least, most; /* of the values and 0, for the colour bar's words; equal: not named there */
} hs_panel;

typedef struct hs_figure {
    const char *title, *caption; /* metadata */
    const char *footer;          /* a line below the panels; NULL: none */
    const hs_panel *panels;      /* of equal shape */
    size_t n_panels, n_across;   /* panels side by side */
    /* Numbers of a grid of panels: one for each row of panels, and n_columns above. Together or NULL. */
    const uint16_t *row_numbers, *column_numbers;
    size_t n_columns; /* divides n_across */
    const char *row_title, *column_title;
    bool tight;  /* panels without labels of their axes */
    bool single; /* a cell is one pixel, else several, which stay sharp where readers blur */
    double width_mm, font_pt;
    hs__labels labels;
    bool csv_safe; /* text in CSV is no formula to a spreadsheet */
    bool sparse;   /* CSV leaves out cells that are not finite */
} hs_figure;

/* Sets the range of a panel's colours: from 0 to the highest value; or around 0 with the palette SIGNED, if a
 * value is negative. */
void hs__panel_range(hs_panel *panel);

/* Gives a panel the palette SIGNED, with 0 in the middle of its colours. */
void hs__panel_sign(hs_panel *panel);

/* Writes the range of a panel's values: "max 0.997", or "-10.8 to 3.21". */
void hs_panel_range_text(const hs_panel *panel, char ret[72]);

/* Returns the panel of a head's attention [n_rows][n_columns], or of its similarity, without a title; its
 * range is set. Rows attend to another text if the columns are not the same array. All are borrowed. */
hs_panel hs_panel_of_map(const float *values, const char *const *rows, size_t n_rows,
                         const char *const *columns, size_t n_columns, bool is_similarity);

/* Writes the colours of a palette: 0 is white, for what is not finite, 1 to 255 go from low to high. */
void hs_palette_colours(hs_palette palette, hs_colours ret_colours);

/* Returns black or white, whichever reads better on a colour (WCAG's relative luminance). */
uint32_t hs__ink_on(const unsigned char rgb[3]);

/* Returns the value whose colour is at a share in [0, 1] of the way from a panel's low end to its high end.
 */
double hs__scale_value(const hs_panel *panel, double share);

/* Returns the colour of a value of a panel whose colours go from low to high: 0 if it is not finite. */
unsigned char hs__colour_index(const hs_panel *panel, float value, float low, float high);

/* Lays the figure out. Release with hs_picture_finish, also on failure. HS_INVALID if all labels are
 * requested and do not fit; HS_NO_MEMORY. */
HS_MUST_USE hs_status hs_figure_draw(const hs_figure *figure, hs_picture *ret_drawing, hs_error *err);

/* Longest row of hs__figure_csv whose labels have at most n bytes each. */
#define HS__FIGURE_ROW_BYTES(n) (2 * sizeof(((hs_panel *)NULL)->title) + 6 * (size_t)(n) + 80)

/* Appends the figure's numbers as CSV: panel, row, column, their labels, the cell's label and its value. */
HS_MUST_USE hs_status hs__figure_csv(const hs_figure *figure, hs_buffer *buffer, hs_error *err);

/* ==== charts ==== */

/* A chart as data: lines, bars, dots or stacks over an axis of numbers, or a ranking of names.
 *
 * Lines have their names beside their ends, moved apart so that none stands on another. More than six lines
 * are drawn as small charts of one line each, with the same axes; so are several rows of bars. NAN is left
 * out. */

#define HS_CHART_LINES_MAX 6 /* of one plot */

typedef enum hs_chart_kind {
    HS_CHART_LINES,
    HS_CHART_BARS,   /* from the bottom up, a step wide */
    HS_CHART_DOTS,   /* each with its interval */
    HS_CHART_STACKS, /* fractions of 1 on top of each other */
    HS_CHART_RANKING /* a bar to the right for each name, the first is the longest */
} hs_chart_kind;

typedef struct hs_chart {
    hs_chart_kind kind;
    const char *title, *x_title, *y_title; /* y_title may be NULL */
    const double *xs;                      /* [n]; not of a ranking */
    const char *const *x_labels;           /* [n], those that fit stand in place of numbers; or NULL */
    const double *values;                  /* [n_series][n] */
    const double *lows, *highs;            /* of dots: [n] ends of intervals; NAN: none */
    const double *marks;  /* [n_series], a dotted upright line in the small chart of each; or NULL */
    const double *chance; /* [n], a thin dashed line; or NULL */
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

/* ==== lines of tokens ==== */

/* The tokens of a text as lines of words, some of them on a coloured ground. */

typedef struct hs_token_text {
    const char *title;
    const char *const *tokens; /* [n] */
    const size_t *marks;       /* [n]; 0: none, else the number of a colour, which repeats from 8 on */
    size_t n;
    const char *footer; /* a line below; NULL: none */
    double width_mm, font_pt;
} hs_token_text;

/* Gives marked tokens the numbers of colours, from 1 on: one for each text. marked [n]; ret_marks [n] is 0
 * for the others. */
void hs_token_marks_number(const char *const *tokens, const unsigned char *marked, size_t n,
                           size_t *ret_marks);

/* Lays the text out. Release with hs_picture_finish, also on failure. HS_NO_MEMORY. */
HS_MUST_USE hs_status hs_token_text_draw(const hs_token_text *text, hs_picture *ret_drawing, hs_error *err);
