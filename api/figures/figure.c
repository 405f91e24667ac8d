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
    bool bar_right;                                            /* one colour bar beside all panels */
    bool bars_each;                                            /* one below each panel */
    size_t n_bars;                                             /* below all panels */
    double margin; /* left of all panels and above them, for the numbers of a grid */
    double left, top, plot_width, plot_height, cell_width, cell_height;
    double panel_width, panel_height;
} layout;

/* ---- ranges ---- */

void hs__panel_sign(hs_panel *p)
{
    p->palette = HS_PALETTE_SIGNED;
    p->high = fmaxf(p->high, -p->low);
    p->low = -p->high;
}

void hs__panel_range(hs_panel *p)
{
    p->least = p->most = 0;
    for (size_t i = 0; i < p->n_rows * p->n_columns; i++) {
        p->least = fminf(p->least, p->values[i]);
        p->most = fmaxf(p->most, p->values[i]);
    }
    p->low = p->least;
    p->high = p->most;
    if (p->low < 0)
        hs__panel_sign(p);
}

void hs_panel_range_text(const hs_panel *p, char ret[72])
{
    char least[32], most[32];
    hs__figure_number((double)p->least, least);
    hs__figure_number((double)p->most, most);
    if (p->least < 0)
        snprintf(ret, 72, "%s to %s", least, most);
    else
        snprintf(ret, 72, "max %s", most);
}

hs_panel hs_panel_of_map(const float *values, const char *const *rows, size_t n_rows,
                         const char *const *columns, size_t n_columns, bool is_similarity)
{
    const bool crosses = rows != columns; /* from a target to a text */
    hs_panel p = {.n_rows = n_rows,
                  .n_columns = n_columns,
                  .values = values,
                  .row_labels = rows,
                  .column_labels = columns,
                  .row_title = is_similarity ? NULL
                               : crosses     ? "from target"
                                             : "from",
                  .column_title = is_similarity ? NULL
                                  : crosses     ? "to text"
                                                : "to",
                  .unit = is_similarity ? "similarity" : "attention",
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

/* Returns the height that the title of rows, which stands upright, takes; 0 if it is not shown. */
static double row_title_height(const layout *y)
{
    const hs_figure *f = y->figure;
    const char *title = f->panels[0].row_title;
    return title && !f->tight && f->labels != HS__LABELS_NONE ? (hs__font_width(title) + 0.1) * y->font : 0;
}

/* Chooses the size of cells. Labels of cells stand upright in cells that are too narrow for them. A few rows
 * are as high as the title beside them. */
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
    if (p->n_rows != p->n_columns)
        y->cell_height = fmax(y->cell_height, row_title_height(y) / (double)p->n_rows);
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

/* ---- colour bars ---- */

enum { BARS_MAX = 4, WORDS_MAX = 3 };

/* A colour bar and the panels that it explains, which have one palette. */
typedef struct bar {
    const hs_panel *panel; /* the first of them */
    float least, most;     /* of all their values */
    bool shared;           /* they have one range */
    bool alone;            /* there is one panel */
} bar;

static bool is_explained_with(const hs_panel *a, const hs_panel *b)
{
    return a->palette == b->palette && a->scale == b->scale && a->unit == b->unit;
}

/* Finds the colour bars of a figure, at most BARS_MAX. Returns their number. */
static size_t bars_find(const hs_figure *f, bar ret[BARS_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < f->n_panels; i++) {
        const hs_panel *p = &f->panels[i];
        size_t k = 0;
        while (k < n && !is_explained_with(ret[k].panel, p))
            k++;
        if (k == BARS_MAX)
            continue;
        if (k == n) {
            ret[n++] = (bar){p, p->least, p->most, true, true};
            continue;
        }
        ret[k].alone = false;
        ret[k].shared &= p->low == ret[k].panel->low && p->high == ret[k].panel->high;
        ret[k].least = fminf(ret[k].least, p->least);
        ret[k].most = fmaxf(ret[k].most, p->most);
    }
    return n;
}

/* Chooses where the colour bars stand: of one range on the right; of panels with labels below each; else
 * below all of them, one for each palette. */
static void bars_place(layout *y)
{
    const hs_figure *f = y->figure;
    bar bars[BARS_MAX];
    const size_t n = bars_find(f, bars);
    y->n_bars = f->tight ? n : 0;
    y->bar_right = !f->tight && n == 1 && bars[0].shared;
    y->bars_each = !f->tight && !y->bar_right;
}

/* Writes a number of the bar: 0 is its low end, 1 its middle, 2 its high end. The middle may have none.
 * Returns ret. */
static const char *bar_number(const bar *b, int k, char ret[32])
{
    const double share = k / 2.0, value = hs__scale_value(b->panel, share);
    if (value == 0 || (b->shared && b->panel->scale != HS_SCALE_ROW))
        return hs__figure_number(value, ret);
    snprintf(ret, 32, "%s%s", value < 0 ? "-" : "", b->panel->scale == HS_SCALE_ROW ? "row max" : "max");
    if (k == 1)
        *ret = '\0';
    return ret;
}

static const char *scale_name(hs_scale scale)
{
    static const char *const names[] = {"linear", "square root", "log, four decades", "linear in each row"};
    return names[scale];
}

/* Writes what the bar says of itself, the longest first: its quantity, its scale and the range of the values.
 * A script that changes the range finds the quantity alone. Returns how many there are. */
static size_t bar_words(const bar *b, char ret[WORDS_MAX][160])
{
    const hs_panel *p = b->panel;
    char least[32], most[32], range[96] = "";
    if (p->name || (p->unit && p->least == p->most && p->most == 0 && p->high > p->low)) {
        snprintf(ret[0], sizeof ret[0], "%s", p->unit ? p->unit : "");
        return p->unit ? 1 : 0;
    }
    snprintf(range, sizeof range, ", %s to %s", hs__figure_number((double)b->least, least),
             hs__figure_number((double)b->most, most));
    snprintf(ret[0], sizeof ret[0], "%s%s%s%s", p->unit ? p->unit : "", p->unit ? ", " : "",
             scale_name(p->scale), b->shared ? range : ", each map to its own maximum");
    snprintf(ret[1], sizeof ret[1], "%s%s", scale_name(p->scale), b->shared ? range : ", each its own");
    snprintf(ret[2], sizeof ret[2], "%s", scale_name(p->scale));
    return 3;
}

/* Returns the width of the bar on the right, with its numbers and words. */
static double bar_right_width(const layout *y)
{
    const hs_panel *p = &y->figure->panels[0];
    const bar b = {.panel = p, .shared = true};
    double width = hs__font_width(p->name ? "0.00000" : "0.000");
    char number[32];
    for (int k = 0; k < 3; k++)
        width = fmax(width, hs__font_width(bar_number(&b, k, number)));
    return BAR_WIDTH + 4 + (width + LINE + 0.5) * y->font;
}

/* Returns the height of a bar that lies, with its numbers and words below. */
static double bar_lying_height(const layout *y)
{
    return 4 + BAR_WIDTH + 2 * LINE * y->font;
}

static void measure(layout *y)
{
    const hs_figure *f = y->figure;
    const double page = f->width_mm / 25.4 * 72;
    y->font = f->font_pt;
    bars_place(y);
    const double scale = y->bar_right ? bar_right_width(y) : 0;
    y->margin = f->row_numbers ? 2 * LINE * y->font : 0;
    y->panel_width = (page - y->margin - scale - GAP * (double)(f->n_across + 1)) / (double)f->n_across;
    y->title_font = title_font(y);
    rows_measure(y);
    columns_measure(y);
    y->panel_height = y->top + y->plot_height + (y->bars_each ? bar_lying_height(y) : 0);
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
    if (*of)
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

/* Returns the value of a square of cells that is largest, with signs largest in size. */
static float strongest(const hs_panel *p, size_t row, size_t column, size_t n)
{
    float value = NAN;
    for (size_t i = row; i < row + n && i < p->n_rows; i++)
        for (size_t j = column; j < column + n && j < p->n_columns; j++) {
            const float other = p->values[i * p->n_columns + j];
            if (!(p->palette == HS_PALETTE_SIGNED ? fabsf(other) <= fabsf(value) : other <= value))
                value = isnan(other) ? value : other;
        }
    return value;
}

/* Returns the end of the colours in rows of cells: the panel's, or the largest value in size of these rows.
 */
static float row_high(const hs_panel *p, size_t row, size_t n)
{
    float high = p->scale == HS_SCALE_ROW ? 0 : p->high;
    for (size_t i = row; p->scale == HS_SCALE_ROW && i < row + n && i < p->n_rows; i++)
        for (size_t j = 0; j < p->n_columns; j++)
            high = fmaxf(high, fabsf(p->values[i * p->n_columns + j]));
    return high;
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
        const float high = row_high(p, i / scale * n, n);
        for (size_t j = 0; j < where.n_across; j += scale)
            memset(row + j, hs__colour_index(p, strongest(p, i / scale * n, j / scale * n, n), p->low, high),
                   scale);
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

/* Labels of cells are black or white, whichever reads better. */
static void cells_draw(hs_picture *d, const layout *y, const hs_panel *p, double left, double top)
{
    for (size_t i = 0; i < p->n_rows && y->cell_font; i++)
        for (size_t j = 0; j < p->n_columns; j++) {
            const size_t at = i * p->n_columns + j;
            const unsigned char index = hs__colour_index(p, p->values[at], p->low, p->high);
            const uint32_t colour = hs__ink_on(d->colours[p->palette][index]);
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

/* ---- drawing colour bars ---- */

/* Draws the colours, from left to right or from the bottom up. */
static void bar_colours_draw(hs_picture *d, const hs_panel *p, hs__mark where, bool lies)
{
    where.n_across = lies ? 255 : 1;
    where.n_down = lies ? 1 : 255;
    where.palette = (unsigned)p->palette;
    unsigned char *pixels = hs__draw_image(d, &where);
    for (size_t i = 0; pixels && i < 255; i++)
        pixels[i] = (unsigned char)(lies ? i + 1 : 255 - i);
    hs__draw_box(d, where.x, where.y, where.width, where.height, FAINT, false);
}

/* Returns the longest of the bar's words that fit; of none that does, the shortest. */
static const char *words_that_fit(char words[WORDS_MAX][160], size_t n, double width)
{
    for (size_t i = 0; i < n; i++)
        if (i + 1 == n || hs__font_width(words[i]) <= width)
            return words[i];
    return "";
}

/* Draws a bar that lies, with numbers at its ends and its middle, and its words below. */
static void bar_lying_draw(hs_picture *d, const layout *y, const bar *b, double left, double top,
                           double width)
{
    static const hs__anchor anchors[] = {HS__ANCHOR_START, HS__ANCHOR_MIDDLE, HS__ANCHOR_END};
    char words[WORDS_MAX][160], numbers[3][32];
    const char *texts[3];
    double sum = 0;
    bar_colours_draw(d, b->panel, (hs__mark){.x = left, .y = top, .width = width, .height = BAR_WIDTH}, true);
    for (int k = 0; k < 3; k++) {
        texts[k] = bar_number(b, k, numbers[k]);
        sum += (hs__font_width(texts[k]) + 1) * y->font;
    }
    for (int k = 0; k < 3; k++)
        if (k != 1 || sum <= width)
            text(d, left + k / 2.0 * width, top + BAR_WIDTH + y->font, y->font, anchors[k], false, INK,
                 texts[k], width);
    const size_t n = bar_words(b, words);
    text(d, left, top + BAR_WIDTH + (LINE + 1) * y->font, y->font, HS__ANCHOR_START, false, INK,
         words_that_fit(words, n, width / y->font), width);
}

/* Draws the bars of all panels side by side, from `left` to the page's end. */
static void bars_below_draw(hs_picture *d, const layout *y, double left, double top)
{
    bar bars[BARS_MAX];
    const size_t n = bars_find(y->figure, bars);
    const double pitch = (d->width - left - GAP) / (double)n;
    for (size_t i = 0; i < n; i++)
        bar_lying_draw(d, y, &bars[i], left + (double)i * pitch, top, pitch - (n > 1 ? 2 * GAP : 0));
}

/* Draws the bar beside all panels, with its highest value at the top. */
static void bar_right_draw(hs_picture *d, const layout *y, double left, double top)
{
    static const char *const names[] = {"low", "middle", "high"};
    bar bars[BARS_MAX];
    char words[WORDS_MAX][160];
    bars_find(y->figure, bars);
    const hs_panel *p = bars[0].panel;
    const double height = fmax(2 * LINE * y->font, y->plot_height), x = left + BAR_WIDTH + 2;
    const double heights[] = {top + height, top + height / 2 + 0.35 * y->font, top + 0.75 * y->font};
    bar_colours_draw(d, p, (hs__mark){.x = left, .y = top, .width = BAR_WIDTH, .height = height}, false);
    for (int k = 2; k >= 0; k--) {
        char number[32];
        hs__mark where = {.x = x, .y = heights[k], .size = y->font, .colour = INK};
        if (p->name)
            snprintf(where.name, sizeof where.name, "%s", names[k]);
        bar_number(&bars[0], k, number);
        if (*number && (k != 1 || height > 4 * LINE * y->font))
            hs__draw_text(d, &where, number, 20 * y->font);
    }
    const size_t n = bar_words(&bars[0], words);
    text(d, d->width - GAP + 2, top + height / 2, y->font, HS__ANCHOR_MIDDLE, true, INK,
         words_that_fit(words, n, height / y->font), height);
}

/* ---- the page ---- */

static void panel_draw(hs_picture *d, const layout *y, const hs_panel *p, double left, double top)
{
    const double x = left + y->left, at = top + y->top;
    if (y->title_font)
        text(d, left, top + 0.9 * y->title_font, y->title_font, HS__ANCHOR_START, false, INK, p->title,
             y->panel_width);
    image_draw(d, y, p, x, at);
    rows_draw(d, y, p, x, at);
    columns_draw(d, y, p, x, at);
    cells_draw(d, y, p, x, at);
    marks_draw(d, y, p, x, at);
    if (y->bars_each)
        bar_lying_draw(d, y, &(bar){p, p->least, p->most, true, true}, x, at + y->plot_height + 4,
                       y->plot_width);
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
    const double footer = f->footer ? LINE * y.font + 2 : 0;
    const double below = GAP + y.margin + (double)n_down * (y.panel_height + GAP);
    d->height = below + (y.n_bars ? bar_lying_height(&y) + 2 : 0) + footer;
    if (y.bar_right)
        d->height = fmax(d->height, 2 * GAP + y.top + 2 * LINE * y.font + footer);
    if (labels_check(&y, err))
        return HS_INVALID;
    for (size_t i = 0; i < f->n_panels; i++) {
        const size_t row = i / f->n_across, column = i % f->n_across;
        panel_draw(d, &y, &f->panels[i], GAP + y.margin + (double)column * (y.panel_width + GAP),
                   GAP + y.margin + (double)row * (y.panel_height + GAP));
    }
    if (y.n_bars)
        bars_below_draw(d, &y, GAP + y.margin, below);
    if (y.bar_right)
        bar_right_draw(d, &y, GAP + y.margin + (double)f->n_across * (y.panel_width + GAP),
                       GAP + y.margin + y.top);
    if (f->row_numbers)
        grid_draw(d, &y, n_down);
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
                if (!f->sparse || isfinite(f->panels[k].values[i * f->panels[k].n_columns + j]))
                    cell_add(b, &f->panels[k], i, j, f->csv_safe);
    return b->failed ? hs_fail(err, HS_NO_MEMORY, "no memory for the figure's numbers") : HS_OK;
}
