/* chart.c - lays out charts, and tokens as lines of text. */
#include "api/figures/figure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ==== charts ==== */

/* Lays a chart out: one plot, or a grid of small ones with common axes. */

#define INK   0x16191du
#define MUTED 0x59626cu
#define GRID  0xe1e2dfu

#define EDGE          4.0 /* around the page */
#define LINE          1.25
#define SMALL_WIDTH   82.0 /* of a small plot, at least */
#define SMALL_HEIGHT  46.0
#define TICKS_MAX     16
#define NAMED_MAX     16 /* names beside a plot */
#define RANKING_SHARE 0.28

/* Colours of even darkness, so that each reads on white. They differ without red or green. */
static const uint32_t colours[] = {0x1b62b5, 0xb8460e, 0x0f7a5a, 0x8b4a9c, 0x7a5a00, 0x0e7490};
static const uint32_t fills[] = {0x0a2a5c, 0x1b62b5, 0x7fb0e2, 0xd57f27, 0xd8dad8};
enum { N_COLOURS = sizeof colours / sizeof *colours, N_FILLS = sizeof fills / sizeof *fills };

/* The place of one plot and its axes. */
typedef struct plot {
    const hs_chart *chart;
    hs_picture *picture;
    double left, top, width, height; /* in points */
    double x_low, x_high;
    double font;
} plot;

static void text_at(hs_picture *p, double x, double y, double size, hs__anchor anchor, uint32_t colour,
                    const char *text)
{
    hs__draw_text(p, &(hs__mark){.x = x, .y = y, .size = size, .anchor = anchor, .colour = colour}, text,
                  1000 * size);
}

static void line_at(hs_picture *p, double x1, double y1, double x2, double y2, uint32_t colour, double dash)
{
    hs__draw_line(p, &(hs__mark){.x = x1, .y = y1, .colour = colour, .line = 0.6, .dash = dash}, x2, y2);
}

/* ---- axes ---- */

/* Writes round numbers in [low, high], about n of them, in steps of 1, 2 or 5 times a power of ten, of
 * `least` or more. */
static size_t ticks_find(double low, double high, double n, double least, double ret[TICKS_MAX])
{
    const double step = hs__round_step(fmax(least, high > low ? (high - low) / n : 1));
    size_t count = 0;
    for (double k = ceil(low / step - 1e-9); count < TICKS_MAX && k * step <= high + step * 1e-6; k++)
        ret[count++] = k == 0 ? 0 : k * step; /* never -0 */
    return count;
}

static double x_of(const plot *p, double x)
{
    return p->left + (x - p->x_low) / (p->x_high - p->x_low) * p->width;
}

static double y_of(const plot *p, double y)
{
    const hs_chart *c = p->chart;
    const double inside = fmin(fmax(y, c->y_low), c->y_high);
    return p->top + p->height - (inside - c->y_low) / (c->y_high - c->y_low) * p->height;
}

static const char *y_number(const hs_chart *c, double value, char ret[32])
{
    if (!c->y_log)
        return hs__figure_number(value, ret);
    snprintf(ret, 32, "1e%.0f", value);
    return ret;
}

static size_t y_ticks(const hs_chart *c, double height, double font, double ret[TICKS_MAX])
{
    double n = fmax(2, height / (3.5 * font));
    size_t count = ticks_find(c->y_low, c->y_high, n, 0, ret);
    while (count < 2 && 2 * n < TICKS_MAX) /* round steps can pass over all of a short axis but its end */
        count = ticks_find(c->y_low, c->y_high, n *= 2, 0, ret);
    return count;
}

/* Returns the width of the widest number of the y axis. */
static double y_numbers_width(const hs_chart *c, double height, double font)
{
    double ticks[TICKS_MAX], width = 0;
    const size_t n = y_ticks(c, height, font, ticks);
    char number[32];
    for (size_t i = 0; i < n; i++)
        width = fmax(width, hs__font_width(y_number(c, ticks[i], number)) * font);
    return width;
}

static void y_axis_draw(const plot *p, bool numbered)
{
    double ticks[TICKS_MAX];
    const size_t n = y_ticks(p->chart, p->height, p->font, ticks);
    char number[32];
    for (size_t i = 0; i < n; i++) {
        const double y = y_of(p, ticks[i]);
        line_at(p->picture, p->left, y, p->left + p->width, y, GRID, 0);
        if (numbered)
            text_at(p->picture, p->left - 3, y + 0.35 * p->font, p->font, HS__ANCHOR_END, MUTED,
                    y_number(p->chart, ticks[i], number));
    }
}

/* Returns true for layers, heads, runs and tokens, of which there are no halves. */
static bool has_integers(const hs_chart *c)
{
    for (size_t i = 0; i < c->n; i++)
        if (fabs(c->xs[i] - rint(c->xs[i])) > 0)
            return false;
    return true;
}

/* Integers have ticks at integers, from the first to the last. */
static size_t x_ticks(const plot *p, double ret[TICKS_MAX])
{
    const hs_chart *c = p->chart;
    const double n = fmax(3, p->width / (5 * p->font));
    return has_integers(c) ? ticks_find(c->xs[0], c->xs[c->n - 1], n, 1, ret)
                           : ticks_find(p->x_low, p->x_high, n, 0, ret);
}

static void x_axis_draw(const plot *p, bool numbered)
{
    const hs_chart *c = p->chart;
    double found[TICKS_MAX], end = -INFINITY; /* of the last label */
    const double *ticks = c->x_labels ? c->xs : found;
    const size_t n = c->x_labels ? c->n : x_ticks(p, found);
    const double bottom = p->top + p->height;
    line_at(p->picture, p->left, bottom, p->left + p->width, bottom, MUTED, 0);
    for (size_t i = 0; i < n; i++) {
        char number[32];
        const double x = x_of(p, ticks[i]);
        const char *label = c->x_labels ? c->x_labels[i] : hs__figure_number(ticks[i], number);
        const double half = hs__font_width(label) * p->font / 2;
        if (*label)
            line_at(p->picture, x, bottom, x, bottom + 2, MUTED, 0);
        if (!numbered || x - half < end + 0.4 * p->font)
            continue;
        text_at(p->picture, x, bottom + 2 + p->font, p->font, HS__ANCHOR_MIDDLE, MUTED, label);
        end = x + half;
    }
}

/* ---- what is drawn on them ---- */

static double step_of(const plot *p)
{
    const hs_chart *c = p->chart;
    return c->n > 1 ? x_of(p, c->xs[1]) - x_of(p, c->xs[0]) : p->width / 2;
}

/* Draws a line through finite values, in pieces where some are not. */
static void path_draw(const plot *p, const double *values, const hs__mark *how)
{
    const hs_chart *c = p->chart;
    for (size_t i = 0; i < c->n;) {
        size_t end = i;
        while (end < c->n && isfinite(values[end]))
            end++;
        double(*points)[2] = end > i + 1 ? hs__draw_path(p->picture, how, end - i) : NULL;
        for (size_t k = i; points && k < end; k++) {
            points[k - i][0] = x_of(p, c->xs[k]);
            points[k - i][1] = y_of(p, values[k]);
        }
        i = end + 1;
    }
}

static void dot_draw(const plot *p, double x, double y, double side, uint32_t colour)
{
    hs__draw_box(p->picture, x - side / 2, y - side / 2, side, side, colour, true);
}

/* Returns true if no line goes through the value. */
static bool is_alone(const double *values, size_t n, size_t i)
{
    return (i == 0 || !isfinite(values[i - 1])) && (i + 1 == n || !isfinite(values[i + 1]));
}

static void series_draw(const plot *p, size_t k, uint32_t colour)
{
    const hs_chart *c = p->chart;
    const double *values = c->values + k * c->n;
    path_draw(p, values, &(hs__mark){.colour = colour, .line = 1.1});
    for (size_t i = 0; i < c->n; i++)
        if (isfinite(values[i]) && (c->n <= 12 || is_alone(values, c->n, i)))
            dot_draw(p, x_of(p, c->xs[i]), y_of(p, values[i]), 2.6, colour);
}

/* Many thin bars are one outline, few stand apart. */
static void bars_draw(const plot *p, size_t k)
{
    const hs_chart *c = p->chart;
    const double step = step_of(p), gap = c->n > 40 ? 0 : fmax(0.5, step * 0.06);
    const double bottom = p->top + p->height;
    double(*points)[2] =
        hs__draw_path(p->picture, &(hs__mark){.colour = c->colour, .filled = true}, 4 * c->n);
    for (size_t i = 0; points && i < c->n; i++) {
        const double value = c->values[k * c->n + i], top = isfinite(value) ? y_of(p, value) : bottom;
        const double from = fmax(p->left, x_of(p, c->xs[i]) - step / 2 + gap / 2);
        const double to = fmin(p->left + p->width, x_of(p, c->xs[i]) + step / 2 - gap / 2);
        const double corners[4][2] = {{from, bottom}, {from, top}, {to, top}, {to, bottom}};
        memcpy(points + 4 * i, corners, sizeof corners);
    }
}

static void dots_draw(const plot *p)
{
    const hs_chart *c = p->chart;
    for (size_t i = 0; i < c->n; i++) {
        if (!isfinite(c->values[i]))
            continue;
        const double x = x_of(p, c->xs[i]);
        if (isfinite(c->lows[i]) && isfinite(c->highs[i]))
            line_at(p->picture, x, y_of(p, c->lows[i]), x, y_of(p, c->highs[i]), c->colour, 0);
        dot_draw(p, x, y_of(p, c->values[i]), 4, c->colour);
    }
}

static void stacks_draw(const plot *p)
{
    const hs_chart *c = p->chart;
    const double width = 0.8 * step_of(p);
    for (size_t i = 0; i < c->n; i++) {
        double below = 0;
        for (size_t k = 0; k < c->n_series; k++) {
            const double value = c->values[k * c->n + i];
            if (!(value > 0))
                continue;
            hs__draw_box(p->picture, x_of(p, c->xs[i]) - width / 2, y_of(p, below + value), width,
                         y_of(p, below) - y_of(p, below + value), fills[k % N_FILLS], true);
            below += value;
        }
    }
}

static void marks_draw(const plot *p, bool labelled)
{
    const hs_chart *c = p->chart;
    const char *label = labelled && c->mark_label ? c->mark_label : "";
    if (isfinite(c->mark_x) && c->mark_x >= p->x_low && c->mark_x <= p->x_high) {
        const double x = x_of(p, c->mark_x);
        const bool is_right = x > p->left + p->width / 2;
        line_at(p->picture, x, p->top, x, p->top + p->height, INK, 3);
        text_at(p->picture, x + (is_right ? -3 : 3), p->top + 0.9 * p->font, p->font,
                is_right ? HS__ANCHOR_END : HS__ANCHOR_START, MUTED, label);
    }
    if (isfinite(c->mark_y)) {
        const double y = y_of(p, c->mark_y);
        line_at(p->picture, p->left, y, p->left + p->width, y, INK, 3);
        text_at(p->picture, p->left + 2, y - 2, p->font, HS__ANCHOR_START, MUTED, label);
    }
}

/* Draws the mark of series k. */
static void mark_draw(const plot *p, size_t k)
{
    const double at = p->chart->marks ? p->chart->marks[k] : NAN;
    if (at >= p->x_low && at <= p->x_high)
        line_at(p->picture, x_of(p, at), p->top, x_of(p, at), p->top + p->height, INK, 1);
}

static const char *name_of(const hs_chart *c, size_t k, char ret[32])
{
    snprintf(ret, 32, "head %zu", k);
    return c->names ? c->names[k] : ret;
}

/* ---- names beside a plot ---- */

/* Returns the height at which series k ends: of a stack, the middle of its last part. */
static double end_of(const plot *p, size_t k)
{
    const hs_chart *c = p->chart;
    if (c->kind == HS_CHART_STACKS) {
        double below = 0;
        for (size_t other = 0; other < k; other++)
            below += fmax(0, c->values[other * c->n + c->n - 1]);
        return y_of(p, below + fmax(0, c->values[k * c->n + c->n - 1]) / 2);
    }
    for (size_t i = c->n; i-- > 0;)
        if (isfinite(c->values[k * c->n + i]))
            return y_of(p, c->values[k * c->n + i]);
    return p->top;
}

/* Moves heights apart by a line, in their order and inside of the plot. */
static void heights_spread(const plot *p, double *heights, const size_t *order, size_t n)
{
    const double line = LINE * p->font, bottom = p->top + p->height;
    for (size_t i = 1; i < n; i++)
        heights[order[i]] = fmax(heights[order[i]], heights[order[i - 1]] + line);
    double limit = bottom;
    for (size_t i = n; i-- > 0; limit -= line) {
        heights[order[i]] = fmin(heights[order[i]], limit);
        limit = heights[order[i]];
    }
}

static void names_draw(const plot *p)
{
    const hs_chart *c = p->chart;
    const size_t n = c->n_series < NAMED_MAX ? c->n_series : NAMED_MAX;
    const double left = p->left + p->width + 4;
    double heights[NAMED_MAX] = {0};
    size_t order[NAMED_MAX] = {0};
    for (size_t k = 0; k < n; k++) {
        size_t at = k;
        heights[k] = end_of(p, k);
        for (; at > 0 && heights[order[at - 1]] > heights[k]; at--)
            order[at] = order[at - 1];
        order[at] = k;
    }
    heights_spread(p, heights, order, n);
    for (size_t k = 0; k < n; k++) {
        char name[32];
        const bool stacked = c->kind == HS_CHART_STACKS;
        dot_draw(p, left + 2, heights[k], 4, stacked ? fills[k % N_FILLS] : colours[k % N_COLOURS]);
        text_at(p->picture, left + 6, heights[k] + 0.35 * p->font, p->font, HS__ANCHOR_START,
                stacked ? INK : colours[k % N_COLOURS], name_of(c, k, name));
    }
}

static double names_width(const hs_chart *c)
{
    double width = 0;
    char name[32];
    for (size_t k = 0; k < c->n_series && k < NAMED_MAX; k++)
        width = fmax(width, hs__font_width(name_of(c, k, name)));
    return width * c->font_pt + 12;
}

/* ---- the page ---- */

static bool is_apart(const hs_chart *c)
{
    return c->n_series > (c->kind == HS_CHART_LINES ? HS_CHART_LINES_MAX : 1) &&
           (c->kind == HS_CHART_LINES || c->kind == HS_CHART_BARS);
}

static bool is_named(const hs_chart *c)
{
    return !is_apart(c) && (c->kind == HS_CHART_LINES || c->kind == HS_CHART_STACKS);
}

static void frame_draw(const plot *p, double page_left, double bottom)
{
    const hs_chart *c = p->chart;
    text_at(p->picture, page_left, EDGE + 0.9 * p->font, p->font, HS__ANCHOR_START, INK, c->title);
    text_at(p->picture, p->left + p->width / 2, bottom - 2, p->font, HS__ANCHOR_MIDDLE, MUTED, c->x_title);
    if (c->y_title)
        hs__draw_text(p->picture,
                      &(hs__mark){.x = EDGE + 0.9 * p->font,
                                  .y = p->top + p->height / 2,
                                  .size = p->font,
                                  .anchor = HS__ANCHOR_MIDDLE,
                                  .upright = true,
                                  .colour = MUTED},
                      c->y_title, p->height + 2 * p->font);
}

/* Draws n series from the first on: one, or all. */
static void plot_draw(const plot *p, size_t first, size_t n, bool x_numbered, bool y_numbered)
{
    const hs_chart *c = p->chart;
    y_axis_draw(p, y_numbered);
    x_axis_draw(p, x_numbered);
    if (c->kind == HS_CHART_LINES)
        for (size_t k = 0; k < n; k++)
            series_draw(p, first + k, colours[k % N_COLOURS]);
    else if (c->kind == HS_CHART_BARS)
        bars_draw(p, first);
    else if (c->kind == HS_CHART_DOTS)
        dots_draw(p);
    else
        stacks_draw(p);
    if (c->chance)
        path_draw(p, c->chance, &(hs__mark){.colour = INK, .line = 0.7, .dash = 2});
    marks_draw(p, n == c->n_series);
    if (is_named(c))
        names_draw(p);
}

/* Draws a small plot for each series; `whole` is the plot that holds all of them. */
static void plots_draw(const plot *whole, size_t across)
{
    const hs_chart *c = whole->chart;
    const size_t down = (c->n_series + across - 1) / across;
    const double pitch = whole->width / (double)across, row = whole->height / (double)down;
    for (size_t k = 0; k < c->n_series; k++) {
        plot p = *whole;
        char name[32];
        const size_t n_above = k / across;
        p.left += (double)(k % across) * pitch;
        p.top += (double)n_above * row + LINE * p.font;
        p.width = pitch - 8;
        p.height = row - LINE * p.font - 4;
        plot_draw(&p, k, 1, k + across >= c->n_series, k % across == 0);
        mark_draw(&p, k);
        text_at(p.picture, p.left, p.top - 2, p.font, HS__ANCHOR_START, INK, name_of(c, k, name));
    }
    if (c->mark_label && *c->mark_label) {
        const double y = EDGE + 0.9 * whole->font, right = whole->left + whole->width - 8;
        const double width = hs__font_width(c->mark_label) * whole->font;
        line_at(whole->picture, right - width - 16, y - 0.35 * whole->font, right - width - 3,
                y - 0.35 * whole->font, INK, 3);
        text_at(whole->picture, right, y, whole->font, HS__ANCHOR_END, MUTED, c->mark_label);
    }
}

static void chart_lay(const hs_chart *c, hs_picture *d)
{
    const double font = c->font_pt, point = 72 / 25.4;
    const double edge = c->n > 1 ? (c->xs[c->n - 1] - c->xs[0]) / (double)(c->n - 1) / 2 : 0.5;
    plot p = {.chart = c, .picture = d, .font = font, .top = EDGE + LINE * font + 2};
    p.x_low = c->xs[0] - edge;
    p.x_high = c->xs[c->n - 1] + edge;
    p.height = c->height_mm * point - p.top - 2 * LINE * font - EDGE - 2;
    const double small = is_apart(c) ? SMALL_HEIGHT : p.height;
    p.left = EDGE + (c->y_title ? LINE * font : 0) + y_numbers_width(c, small, font) + 4;
    p.width = d->width - p.left - EDGE - (is_named(c) ? names_width(c) : 4);
    const size_t fit = (size_t)fmax(1, p.width / SMALL_WIDTH);
    const size_t across = fit < c->n_series ? fit : c->n_series;
    const size_t down = is_apart(c) ? (c->n_series + across - 1) / across : 1;
    if (is_apart(c))
        p.height = (double)down * (SMALL_HEIGHT + LINE * font + 4);
    d->height = p.top + p.height + 2 * LINE * font + EDGE + 2;
    frame_draw(&p, p.left, d->height - EDGE);
    if (is_apart(c))
        plots_draw(&p, across);
    else
        plot_draw(&p, 0, c->n_series, true, true);
}

static void ranking_lay(const hs_chart *c, hs_picture *d)
{
    const double font = c->font_pt, row = 1.6 * font, left = RANKING_SHARE * d->width;
    const double width_max = d->width - left - EDGE - hs__font_width(" 100.0 %") * font,
                 top = EDGE + 2 * LINE * font;
    d->height = top + row * (double)c->n + LINE * font + EDGE + 2;
    text_at(d, EDGE, EDGE + 0.9 * font, font, HS__ANCHOR_START, INK, c->title);
    for (size_t i = 0; i < c->n; i++) {
        const double y = top + row * (double)i, length = c->values[i] / c->values[0] * width_max;
        char share[32];
        hs__draw_text(
            d,
            &(hs__mark){
                .x = left - 3, .y = y + 0.9 * font, .size = font, .anchor = HS__ANCHOR_END, .colour = INK},
            c->names[i], left - 3 - EDGE);
        hs__draw_box(d, left, y, length, 1.2 * font, c->colour, true);
        snprintf(share, sizeof share, "%.1f %%", 100 * c->values[i]);
        text_at(d, left + length + 3, y + 0.9 * font, font, HS__ANCHOR_START, MUTED, share);
    }
    text_at(d, left, d->height - EDGE - 1, font, HS__ANCHOR_START, MUTED, c->x_title);
}

hs_status hs_chart_draw(const hs_chart *c, hs_picture *d, hs_error *err)
{
    *d = (hs_picture){.width = c->width_mm / 25.4 * 72};
    hs_picture_describe(d, c->title, c->x_title);
    if (c->kind == HS_CHART_RANKING)
        ranking_lay(c, d);
    else
        chart_lay(c, d);
    return d->failed ? hs_fail(err, HS_NO_MEMORY, "no memory for the chart") : HS_OK;
}

/* ==== lines of tokens ==== */

/* Puts token after token on a line, and begins another where one does not fit. */

#define TOKEN_LINE 1.6
#define TOKEN_PAD  0.25 /* beside a token, in font sizes */

/* Light, so that dark words read on them. */
static const uint32_t grounds[] = {0xffd28a, 0xb9d4f5, 0xb8e6cd, 0xe6c8ee,
                                   0xf3b8ae, 0xe5e08a, 0xa9e3ea, 0xd9cbb8};
enum { N_GROUNDS = sizeof grounds / sizeof *grounds };

void hs_token_marks_number(const char *const *tokens, const unsigned char *marked, size_t n,
                           size_t *ret_marks)
{
    size_t n_colours = 0;
    memset(ret_marks, 0, n * sizeof *ret_marks);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; marked[i] && !ret_marks[i] && k <= i; k++)
            if (marked[k] && strcmp(tokens[k], tokens[i]) == 0)
                ret_marks[i] = k < i ? ret_marks[k] : ++n_colours;
}

hs_status hs_token_text_draw(const hs_token_text *t, hs_picture *d, hs_error *err)
{
    const double font = t->font_pt, page = t->width_mm / 25.4 * 72, most = page - 2 * EDGE;
    double x = EDGE, y = EDGE + font;
    *d = (hs_picture){.width = page};
    hs_picture_describe(d, t->title, t->title);
    hs__draw_text(d, &(hs__mark){.x = x, .y = y, .size = font, .colour = INK}, t->title, most);
    y += TOKEN_LINE * font;
    for (size_t i = 0; i < t->n; i++) {
        const double width = fmin(most, (hs__font_width(t->tokens[i]) + 2 * TOKEN_PAD) * font);
        if (x + width > page - EDGE && x > EDGE) {
            x = EDGE;
            y += TOKEN_LINE * font;
        }
        if (t->marks[i])
            hs__draw_box(d, x, y - font, width, 1.3 * font, grounds[(t->marks[i] - 1) % N_GROUNDS], true);
        hs__draw_text(d, &(hs__mark){.x = x + TOKEN_PAD * font, .y = y, .size = font, .colour = INK},
                      t->tokens[i], width - 2 * TOKEN_PAD * font + 0.01);
        x += width;
    }
    if (t->footer) {
        y += TOKEN_LINE * font;
        hs__draw_text(d, &(hs__mark){.x = EDGE, .y = y, .size = font, .colour = MUTED}, t->footer, most);
    }
    d->height = y + 0.5 * font + EDGE;
    return d->failed ? hs_fail(err, HS_NO_MEMORY, "no memory for the figure") : HS_OK;
}
