/* figure.c - lays panels out, and writes their numbers as CSV.
 *
 * The layout first computes sizes, which are the same for all panels, then draws marks. */
#include "api/figures/figure.h"

#include "api/figures/picture.h"
#include "api/formats/csv.h"
#include "api/formats/json_text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ==== layout ==== */

#define INK   0x1b1e22u
#define FAINT 0x9aa0a6u
#define WHITE 0xffffffu

#define LINE           1.25 /* line height in font sizes */
#define GAP            6.0  /* between panels */
#define LABEL_FRACTION 0.3  /* of a panel's width that row labels may take */
#define BAR_WIDTH      7.0  /* of the colour scale */
#define CELL_LABEL_MAX 8.0  /* longest upright label of a cell, in font sizes */
#define IMAGE_SIDE     900  /* pixels across, so that readers which blur images show sharp cells */

/* Sizes of every panel, in points. */
typedef struct layout {
    const hs_figure *figure;
    double font, title_font, row_font, column_font, cell_font; /* 0: not shown */
    bool row_ticks, column_ticks;                              /* numbers instead of labels */
    bool upright;                                              /* column labels */
    bool cells_upright;                                        /* labels of cells */
    bool shares_scale;
    double margin; /* left of all panels and above them, for the numbers of a grid */
    double left, top, plot_width, plot_height, cell_width, cell_height;
    double panel_width, panel_height;
} layout;

/* ---- colours ---- */

enum { STOPS = 6 };

/* The viewer's colour maps on a light page (static/src/maps/colour.ts). The last runs downwards from 0. */
static const unsigned char stops[][STOPS][3] = {
    [HS_PALETTE_BLUE] =
        {{246, 248, 251}, {195, 216, 240}, {127, 176, 226}, {58, 124, 200}, {21, 80, 154}, {10, 42, 92}},
    [HS_PALETTE_ORANGE] =
        {{251, 248, 243}, {247, 220, 178}, {238, 177, 103}, {213, 127, 39}, {159, 79, 12}, {87, 36, 4}},
    [HS_PALETTE_GREEN] =
        {{236, 238, 238}, {182, 208, 204}, {115, 173, 166}, {53, 135, 128}, {13, 98, 94}, {5, 63, 62}},
    [HS_PALETTE_SIGNED] =
        {{251, 248, 243}, {229, 217, 237}, {197, 176, 222}, {158, 127, 200}, {111, 69, 166}, {51, 19, 92}},
};

/* Writes the colour at a share in [0, 1] of the way through some stops. */
static void colour_mix(hs_palette palette, double share, unsigned char ret[3])
{
    const double at = (STOPS - 1) * share;
    const size_t k = at < STOPS - 2 ? (size_t)at : STOPS - 2;
    for (size_t c = 0; c < 3; c++) {
        const double a = stops[palette][k][c], b = stops[palette][k + 1][c];
        ret[c] = (unsigned char)(a + (at - (double)k) * (b - a) + 0.5);
    }
}

void hs_palette_colours(hs_palette palette, hs_colours ret)
{
    memset(ret[0], 255, sizeof ret[0]);
    for (size_t i = 1; i < 256; i++) {
        const double share = (double)(i - 1) / 254;
        if (palette != HS_PALETTE_SIGNED)
            colour_mix(palette, share, ret[i]);
        else
            colour_mix(share < 0.5 ? HS_PALETTE_SIGNED : HS_PALETTE_ORANGE, fabs(2 * share - 1), ret[i]);
    }
}

const char *hs__figure_number(double value, char ret[32])
{
    const double size = fabs(value);
    snprintf(ret, 32, size >= 1000 && size < 1e6 ? "%.0f" : "%.3g", value);
    return ret;
}

static unsigned char colour_index(const hs_panel *p, float value)
{
    if (!isfinite(value))
        return 0;
    const double range = (double)p->high - p->low, at = range > 0 ? ((double)value - p->low) / range : 0;
    return (unsigned char)(1 + lround(254 * fmin(1, fmax(0, at))));
}

void hs__panel_range(hs_panel *p)
{
    p->low = 0;
    p->high = -INFINITY;
    for (size_t i = 0; i < p->n_rows * p->n_columns; i++) {
        p->low = fminf(p->low, p->values[i]);
        p->high = fmaxf(p->high, p->values[i]);
    }
    p->high = fmaxf(p->high, p->low);
}

hs_panel hs_panel_of_map(const float *values, const char *const *tokens, size_t n, bool is_similarity)
{
    hs_panel p = {.n_rows = n,
                  .n_columns = n,
                  .values = values,
                  .row_labels = tokens,
                  .column_labels = tokens,
                  .row_title = is_similarity ? NULL : "from",
                  .column_title = is_similarity ? NULL : "to",
                  .palette = is_similarity ? HS_PALETTE_ORANGE : HS_PALETTE_BLUE};
    hs__panel_range(&p);
    return p;
}

/* ---- measuring ---- */

static double widest(const char *const *labels, size_t n, double limit)
{
    double width = 0;
    for (size_t i = 0; labels && i < n; i++)
        width = fmax(width, hs__font_width(labels[i]));
    return fmin(width, limit);
}

/* Returns the font size at which a line fits into a pitch, at most the figure's; 0 if that is too small. */
static double font_that_fits(double font, double pitch)
{
    const double size = fmin(font, pitch / LINE);
    return size >= HS__FIGURE_POINT_MIN - 1e-6 ? size : 0;
}

/* Chooses the size of cells. Labels of cells stand upright in cells that are too narrow for them. */
static void cells_measure(layout *y)
{
    const hs_panel *p = &y->figure->panels[0];
    y->plot_width = y->panel_width - y->left;
    y->cell_width = y->plot_width / (double)p->n_columns;
    y->cell_height = y->cell_width;
    if (p->n_rows != p->n_columns || p->cell_labels)
        y->cell_height = fmin(y->cell_width, 2 * LINE * y->font);
    const double longest = widest(p->cell_labels, p->n_rows * p->n_columns, CELL_LABEL_MAX) * y->font + 4;
    y->cells_upright = p->cell_labels && longest > y->cell_width && font_that_fits(y->font, y->cell_width);
    if (y->cells_upright)
        y->cell_height = fmax(y->cell_height, longest);
    y->plot_height = y->cell_height * (double)p->n_rows;
}

/* Chooses row labels, which take width from the cells and therefore come first. */
static void rows_measure(layout *y)
{
    const hs_figure *f = y->figure;
    const hs_panel *p = &f->panels[0];
    const double label_max = LABEL_FRACTION * y->panel_width / y->font;
    const double title = p->row_title && !f->tight ? LINE * y->font : 0;
    y->left = title + widest(p->row_labels, p->n_rows, label_max) * y->font + 2;
    cells_measure(y);
    const bool shown = p->row_labels && !f->tight && f->labels != HS__LABELS_NONE;
    y->row_font = shown ? font_that_fits(y->font, y->cell_height) : 0;
    if (y->row_font)
        return;
    y->row_ticks = f->labels == HS__LABELS_AUTO && !f->tight;
    y->left = y->row_ticks ? title + hs__font_width("0000") * y->font + 2 : title;
    cells_measure(y);
}

static void columns_measure(layout *y)
{
    const hs_figure *f = y->figure;
    const hs_panel *p = &f->panels[0];
    const double limit = LABEL_FRACTION * y->panel_width / y->font;
    const double longest = widest(p->column_labels, p->n_columns, limit);
    y->top = y->title_font ? LINE * y->title_font + 2 : 0;
    if (f->tight || f->labels == HS__LABELS_NONE)
        return;
    y->top += p->column_title ? LINE * y->font : 0;
    const bool lies = (longest + 0.4) * y->font <= y->cell_width;
    y->column_font = !p->column_labels ? 0 : lies ? y->font : font_that_fits(y->font, y->cell_width);
    y->upright = !lies && y->column_font > 0;
    y->column_ticks = !y->column_font && f->labels == HS__LABELS_AUTO;
    y->top += y->upright ? longest * y->column_font + 3 : LINE * y->font;
}

/* Shrinks titles until the longest fits. */
static double title_font(const layout *y)
{
    double width = 0;
    for (size_t i = 0; i < y->figure->n_panels; i++)
        width = fmax(width, hs__font_width(y->figure->panels[i].title));
    if (width <= 0)
        return 0;
    const double size = fmin(y->font, y->panel_width / width);
    return y->figure->tight && size < HS__FIGURE_POINT_MIN ? 0 : fmax(size, HS__FIGURE_POINT_MIN);
}

static bool scale_is_shared(const hs_figure *f)
{
    for (size_t i = 1; i < f->n_panels; i++)
        if (f->panels[i].low != f->panels[0].low || f->panels[i].high != f->panels[0].high ||
            f->panels[i].palette != f->panels[0].palette)
            return false;
    return true;
}

/* Returns the value at a share of the way from low to high. */
static double scale_value(const hs_panel *p, double share)
{
    return (double)p->low + share * ((double)p->high - (double)p->low);
}

static double scale_width(const layout *y)
{
    const hs_panel *p = &y->figure->panels[0];
    double width = hs__font_width(p->unit ? "0.00000" : "0.000");
    char number[32];
    for (int k = 0; k < 3; k++)
        width = fmax(width, hs__font_width(hs__figure_number(scale_value(p, k / 2.0), number)));
    return BAR_WIDTH + 4 + (width + (p->unit ? LINE + 0.5 : 0)) * y->font;
}

static void measure(layout *y)
{
    const hs_figure *f = y->figure;
    const double page = f->width_mm / 25.4 * 72;
    y->font = f->font_pt;
    y->shares_scale = scale_is_shared(f);
    const double scale = y->shares_scale ? scale_width(y) : 0;
    y->margin = f->row_numbers ? 2 * LINE * y->font : 0;
    y->panel_width = (page - y->margin - scale - GAP * (double)(f->n_across + 1)) / (double)f->n_across;
    y->title_font = title_font(y);
    rows_measure(y);
    columns_measure(y);
    y->panel_height = y->top + y->plot_height;
    const hs_panel *p = &f->panels[0];
    const double pitch = y->cells_upright ? y->cell_width : y->cell_height;
    y->cell_font = p->cell_labels ? font_that_fits(y->font, pitch) : 0;
}

/* ---- drawing ---- */

static void text(hs_picture *d, double x, double y, double size, hs__anchor anchor, bool upright,
                 uint32_t colour, const char *of, double max_width)
{
    const hs__mark where = {
        .x = x, .y = y, .size = size, .anchor = anchor, .upright = upright, .colour = colour};
    hs__draw_text(d, &where, of, max_width);
}

/* Returns the pixels of an edge of a cell; 0: a pixel stands for several cells. */
static size_t pixels_a_cell(const hs_figure *f)
{
    const hs_panel *p = &f->panels[0];
    const double cells = (double)p->n_rows * (double)p->n_columns * (double)f->n_panels;
    const size_t fit = (size_t)sqrt((double)HS__FIGURE_PIXELS_MAX / cells);
    const size_t analysis = f->single ? 1 : IMAGE_SIDE / p->n_columns + 1;
    return fit < analysis ? fit : analysis;
}

/* Returns the strongest value of a square of cells. */
static float strongest(const hs_panel *p, size_t row, size_t column, size_t n)
{
    float value = NAN;
    for (size_t i = row; i < row + n && i < p->n_rows; i++)
        for (size_t j = column; j < column + n && j < p->n_columns; j++)
            value = fmaxf(value, p->values[i * p->n_columns + j]);
    return value;
}

static void image_draw(hs_picture *d, const layout *y, const hs_panel *p, double left, double top)
{
    const hs_figure *f = y->figure;
    const size_t side = pixels_a_cell(f);
    const double cells = (double)p->n_rows * (double)p->n_columns * (double)f->n_panels;
    const size_t n = side ? 1 : (size_t)ceil(sqrt(cells / (double)HS__FIGURE_PIXELS_MAX)); /* cells a pixel */
    const size_t scale = side ? side : 1;
    hs__mark where = {.x = left,
                      .y = top,
                      .width = y->plot_width,
                      .height = y->plot_height,
                      .n_across = (p->n_columns + n - 1) / n * scale,
                      .n_down = (p->n_rows + n - 1) / n * scale,
                      .palette = (unsigned)p->palette};
    snprintf(where.name, sizeof where.name, "%s", p->name ? p->name : "");
    unsigned char *pixels = hs__draw_image(d, &where);
    for (size_t i = 0; pixels && i < where.n_down; i += scale) {
        unsigned char *row = pixels + i * where.n_across;
        for (size_t j = 0; j < where.n_across; j += scale)
            memset(row + j, colour_index(p, strongest(p, i / scale * n, j / scale * n, n)), scale);
        for (size_t k = 1; k < scale; k++)
            memcpy(row + k * where.n_across, row, where.n_across);
    }
    hs__draw_box(d, left, top, y->plot_width, y->plot_height, FAINT, false);
}

/* Returns a round distance of ticks at which their numbers do not touch. */
static size_t tick_step(double pitch, double distance_min)
{
    return pitch > 0 ? (size_t)fmin(1e6, hs__round_step(fmax(1, distance_min / pitch))) : 1000000;
}

static void rows_draw(hs_picture *d, const layout *y, const hs_panel *p, double left, double top)
{
    const double size = y->row_font ? y->row_font : y->font;
    const double max = (LABEL_FRACTION * y->panel_width / y->font) * size;
    const size_t step = y->row_font ? 1 : tick_step(y->cell_height, 1.5 * LINE * size);
    for (size_t i = 0; i < p->n_rows && (y->row_font || y->row_ticks); i += step) {
        char number[24];
        snprintf(number, sizeof number, "%zu", i * (p->tick ? p->tick : 1));
        text(d, left - 2, top + ((double)i + 0.5) * y->cell_height + 0.35 * size, size, HS__ANCHOR_END, false,
             INK, y->row_font ? p->row_labels[i] : number, max);
    }
    if (p->row_title && (y->row_font || y->row_ticks))
        text(d, left - y->left + 0.8 * y->font, top + y->plot_height / 2, y->font, HS__ANCHOR_MIDDLE, true,
             INK, p->row_title, y->plot_height);
}

static void columns_draw(hs_picture *d, const layout *y, const hs_panel *p, double left, double top)
{
    const double size = y->column_font ? y->column_font : y->font;
    const double max = (LABEL_FRACTION * y->panel_width / y->font) * size;
    const size_t step = y->column_font ? 1 : tick_step(y->cell_width, hs__font_width("00000") * size);
    for (size_t j = 0; j < p->n_columns && (y->column_font || y->column_ticks); j += step) {
        const double x = left + ((double)j + 0.5) * y->cell_width;
        char number[24];
        snprintf(number, sizeof number, "%zu", j * (p->tick ? p->tick : 1));
        text(d, x + (y->upright ? 0.35 * size : 0), top - (y->upright ? 2 : 3), size,
             y->upright ? HS__ANCHOR_START : HS__ANCHOR_MIDDLE, y->upright, INK,
             y->column_font ? p->column_labels[j] : number, max);
    }
    if (p->column_title && (y->column_font || y->column_ticks))
        text(d, left + y->plot_width / 2, top - y->top + LINE * y->title_font + 0.9 * y->font + 1, y->font,
             HS__ANCHOR_MIDDLE, false, INK, p->column_title, y->plot_width);
}

/* Light text stands on dark cells. */
static void cells_draw(hs_picture *d, const layout *y, const hs_panel *p, double left, double top)
{
    for (size_t i = 0; i < p->n_rows && y->cell_font; i++)
        for (size_t j = 0; j < p->n_columns; j++) {
            const size_t at = i * p->n_columns + j;
            const uint32_t colour = colour_index(p, p->values[at]) > 128 ? WHITE : INK;
            const double x = left + ((double)j + 0.5) * y->cell_width,
                         middle = top + ((double)i + 0.5) * y->cell_height, drop = 0.35 * y->cell_font;
            if (y->cells_upright)
                text(d, x + drop, middle, y->cell_font, HS__ANCHOR_MIDDLE, true, colour, p->cell_labels[at],
                     y->cell_height - 2);
            else if (y->cell_width >= 2 * y->cell_font)
                text(d, x, middle + drop, y->cell_font, HS__ANCHOR_MIDDLE, false, colour, p->cell_labels[at],
                     y->cell_width - 2);
        }
}

/* Draws a dashed line through each marked row and column. */
static void marks_draw(hs_picture *d, const layout *y, const hs_panel *p, double left, double top)
{
    for (size_t i = 0; p->marked && i < p->n_columns; i++) {
        const double x = left + ((double)i + 0.5) * y->cell_width,
                     at = top + ((double)i + 0.5) * y->cell_height;
        hs__mark line = {.x = x, .y = top, .colour = INK, .line = 0.5, .dash = 2};
        if (!p->marked[i])
            continue;
        hs__draw_line(d, &line, x, top + y->plot_height);
        line.x = left;
        line.y = at;
        hs__draw_line(d, &line, left + y->plot_width, at);
    }
}

/* Writes the numbers of a grid of panels: rows on the left, columns above, each axis with its title. */
static void grid_draw(hs_picture *d, const layout *y, size_t n_down)
{
    const hs_figure *f = y->figure;
    const size_t n_shown = f->n_across / f->n_columns; /* panels of one number side by side */
    const double column = y->panel_width + GAP, row = y->panel_height + GAP;
    const double height = (double)n_down * row, width = (double)f->n_across * column;
    const size_t row_step = tick_step(row, LINE * y->font);
    const size_t column_step = tick_step(column * (double)n_shown, hs__font_width("000") * y->font);
    char number[24];
    text(d, GAP + 0.4 * y->font, GAP + y->margin + height / 2, y->font, HS__ANCHOR_MIDDLE, true, INK,
         f->row_title, height);
    text(d, GAP + y->margin + width / 2, GAP + 0.4 * y->font, y->font, HS__ANCHOR_MIDDLE, false, INK,
         f->column_title, width);
    for (size_t i = 0; i < n_down; i += row_step) {
        snprintf(number, sizeof number, "%zu", (size_t)f->row_numbers[i]);
        text(d, y->margin + GAP - 3, GAP + y->margin + (double)i * row + y->panel_height / 2 + 0.35 * y->font,
             y->font, HS__ANCHOR_END, false, INK, number, y->margin);
    }
    for (size_t j = 0; j < f->n_columns; j += column_step) {
        const double left = GAP + y->margin + (double)(j * n_shown) * column;
        snprintf(number, sizeof number, "%zu", (size_t)f->column_numbers[j]);
        text(d, left + ((double)n_shown * column - GAP) / 2, GAP + y->margin - 4, y->font, HS__ANCHOR_MIDDLE,
             false, INK, number, column * (double)n_shown);
    }
}

static void panel_draw(hs_picture *d, const layout *y, const hs_panel *p, double left, double top)
{
    if (y->title_font)
        text(d, left, top + 0.9 * y->title_font, y->title_font, HS__ANCHOR_START, false, INK, p->title,
             y->panel_width);
    image_draw(d, y, p, left + y->left, top + y->top);
    rows_draw(d, y, p, left + y->left, top + y->top);
    columns_draw(d, y, p, left + y->left, top + y->top);
    cells_draw(d, y, p, left + y->left, top + y->top);
    marks_draw(d, y, p, left + y->left, top + y->top);
}

static void scale_number_draw(hs_picture *d, const layout *y, int k, double left, double at)
{
    static const char *const names[] = {"low", "middle", "high"};
    const hs_panel *p = &y->figure->panels[0];
    char number[32];
    hs__mark where = {.x = left, .y = at, .size = y->font, .colour = INK};
    if (p->name)
        snprintf(where.name, sizeof where.name, "%s", names[k]);
    hs__draw_text(d, &where, hs__figure_number(scale_value(p, k / 2.0), number), 20 * y->font);
}

/* Draws the bar of the colours, with its highest value at the top. */
static void scale_draw(hs_picture *d, const layout *y, double left, double top)
{
    const hs_panel *p = &y->figure->panels[0];
    const double height = fmax(2 * LINE * y->font, p->unit ? y->plot_height : fmin(y->plot_height, 110));
    const hs__mark where = {.x = left,
                            .y = top,
                            .width = BAR_WIDTH,
                            .height = height,
                            .n_across = 1,
                            .n_down = 255,
                            .palette = (unsigned)p->palette};
    unsigned char *pixels = hs__draw_image(d, &where);
    for (size_t i = 0; pixels && i < 255; i++)
        pixels[i] = (unsigned char)(255 - i);
    hs__draw_box(d, left, top, BAR_WIDTH, height, FAINT, false);
    scale_number_draw(d, y, 2, left + BAR_WIDTH + 2, top + 0.75 * y->font);
    if (height > 4 * LINE * y->font)
        scale_number_draw(d, y, 1, left + BAR_WIDTH + 2, top + height / 2 + 0.35 * y->font);
    scale_number_draw(d, y, 0, left + BAR_WIDTH + 2, top + height);
    if (p->unit)
        text(d, d->width - GAP + 2, top + height / 2, y->font, HS__ANCHOR_MIDDLE, true, INK, p->unit, height);
}

/* Refuses the figure if all labels are requested and some do not fit. */
static hs_status labels_check(const layout *y, hs_error *err)
{
    const hs_figure *f = y->figure;
    const hs_panel *p = &f->panels[0];
    if (f->labels != HS__LABELS_ALL || (!f->tight && y->row_font && y->column_font))
        return HS_OK;
    const size_t n = p->n_rows > p->n_columns ? p->n_rows : p->n_columns;
    const double needs = (double)n * LINE * HS__FIGURE_POINT_MIN / (1 - LABEL_FRACTION) + 2 * GAP;
    return hs_fail(err, HS_INVALID,
                   "all labels do not fit: %zu labels of 5 pt on each of %zu panels side by side need a "
                   "width of about %.0f mm; ask for that, for fewer panels or for automatic labels",
                   n, f->n_across, ceil((needs * (double)f->n_across + 60) / 72 * 25.4));
}

hs_status hs_figure_draw(const hs_figure *f, hs_picture *d, hs_error *err)
{
    layout y = {.figure = f};
    measure(&y);
    const size_t n_down = (f->n_panels + f->n_across - 1) / f->n_across;
    *d = (hs_picture){0};
    hs_picture_describe(d, f->title, f->caption);
    for (size_t i = 0; i < HS_PALETTES; i++)
        hs_palette_colours((hs_palette)i, d->colours[i]);
    d->width = f->width_mm / 25.4 * 72;
    d->height =
        GAP + y.margin + (double)n_down * (y.panel_height + GAP) + (f->footer ? LINE * y.font + 2 : 0);
    if (y.shares_scale)
        d->height =
            fmax(d->height, 2 * GAP + y.top + 2 * LINE * y.font + (f->footer ? LINE * y.font + 2 : 0));
    if (labels_check(&y, err))
        return HS_INVALID;
    for (size_t i = 0; i < f->n_panels; i++) {
        const size_t row = i / f->n_across, column = i % f->n_across;
        panel_draw(d, &y, &f->panels[i], GAP + y.margin + (double)column * (y.panel_width + GAP),
                   GAP + y.margin + (double)row * (y.panel_height + GAP));
    }
    if (f->row_numbers)
        grid_draw(d, &y, n_down);
    if (y.shares_scale)
        scale_draw(d, &y, GAP + y.margin + (double)f->n_across * (y.panel_width + GAP),
                   GAP + y.margin + y.top);
    if (f->footer)
        text(d, GAP, d->height - GAP / 2, fmax(HS__FIGURE_POINT_MIN, 0.85 * y.font), HS__ANCHOR_START, false,
             INK, f->footer, d->width - 2 * GAP);
    return d->failed ? hs_fail(err, HS_NO_MEMORY, "no memory for the figure") : HS_OK;
}

/* ==== CSV ==== */

/* Writes the numbers of a figure: a line of names, then a row for each cell. */

static void text_add(hs_buffer *b, const char *text, bool safe)
{
    const size_t n = strlen(text);
    char *to = hs_buffer_reserve(b, HS_CSV_FIELD_MAX(n));
    if (to)
        b->size += (size_t)(hs_csv_field(to, text, n, safe) - to);
}

static void label_add(hs_buffer *b, const char *const *labels, size_t i, bool safe)
{
    hs_buffer_add(b, ",", 1);
    if (labels)
        text_add(b, labels[i], safe);
}

/* Adds a row. A value that is not finite stays empty. */
static void cell_add(hs_buffer *b, const hs_panel *p, size_t i, size_t j, bool safe)
{
    char number[64];
    const size_t at = i * p->n_columns + j;
    char *end = number;
    text_add(b, p->title, safe);
    hs_buffer_add(b, number, (size_t)snprintf(number, sizeof number, ",%zu,%zu", i, j));
    label_add(b, p->row_labels, i, safe);
    label_add(b, p->column_labels, j, safe);
    label_add(b, p->cell_labels, at, safe);
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
                cell_add(b, &f->panels[k], i, j, f->csv_safe);
    return b->failed ? hs_fail(err, HS_NO_MEMORY, "no memory for the figure's numbers") : HS_OK;
}
