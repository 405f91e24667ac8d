/* charts.c - plain SVG: lines, paths, rectangles, texts and pictures, nothing that a converter to PDF
 * would not know. */
#include "server/corpus/report/charts.h"

#include "server/corpus/report/inline_png.h"

#include <math.h>
#include <string.h>

#define INK   "#16191d"
#define MUTED "#59626c"
#define LINE  "#e1e2df"

/* Of even darkness, so that each is read on white and on a dark page, and told apart without red or green. */
static const char *const colours[] = {"#1b62b5", "#b8460e", "#0f7a5a", "#8b4a9c", "#7a5a00", "#0e7490"};
static const char *const dashes[] = {"none", "6 3", "2 2", "9 3 2 3"};
enum { N_COLOURS = sizeof colours / sizeof *colours, N_DASHES = sizeof dashes / sizeof *dashes };

static const char *colour_of(size_t k)
{
    return colours[k % N_COLOURS];
}

static const char *dash_of(size_t k)
{
    return dashes[k / N_COLOURS % N_DASHES];
}

void hs__html_text(FILE *out, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        default:
            putc(*text, out);
        }
}

const char *hs__chart_number(double value, char ret[32])
{
    const double size = fabs(value);
    snprintf(ret, 32, size >= 1000 && size < 1e6 ? "%.0f" : "%.3g", value);
    return ret;
}

/* ---- pieces ---- */

static void svg_begin(FILE *out, double width, double height, const char *title)
{
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f "
            "%.0f\" font-family=\"'Plex Sans', Helvetica, Arial, sans-serif\" font-size=\"11\" role=\"img\" "
            "aria-label=\"",
            width, height, width, height);
    hs__html_text(out, title);
    fputs("\">", out);
}

typedef enum anchor { START, MIDDLE, END } anchor;

static void text_at(FILE *out, double x, double y, anchor at, const char *text)
{
    static const char *const anchors[] = {"start", "middle", "end"};
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"" MUTED "\">", x, y, anchors[at]);
    hs__html_text(out, text);
    fputs("</text>", out);
}

static void number_at(FILE *out, double x, double y, anchor at, double value)
{
    char text[32];
    text_at(out, x, y, at, hs__chart_number(value, text));
}

static void title_at(FILE *out, double x, double y, const char *text)
{
    fprintf(out,
            "<text class=\"title\" x=\"%.1f\" y=\"%.1f\" font-size=\"12\" font-weight=\"600\" fill=\"" INK
            "\">",
            x, y);
    hs__html_text(out, text);
    fputs("</text>", out);
}

static void text_upright(FILE *out, double x, double y, const char *text)
{
    fprintf(out,
            "<text transform=\"translate(%.1f %.1f) rotate(-90)\" text-anchor=\"middle\" fill=\"" MUTED "\">",
            x, y);
    hs__html_text(out, text);
    fputs("</text>", out);
}

static void line_at(FILE *out, const char *class, const char *colour, double x1, double y1, double x2,
                    double y2, const char *dash)
{
    fprintf(out,
            "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
            "stroke-dasharray=\"%s\"/>",
            class, x1, y1, x2, y2, colour, dash);
}

/* ---- axes ---- */

enum { TICKS_MAX = 16 };

/* Round numbers in [low, high], about n of them, in steps of 1, 2 or 5 times a power of ten. */
static size_t ticks_find(double low, double high, double n, double ret[TICKS_MAX])
{
    const double raw = high > low ? (high - low) / n : 1;
    const double power = pow(10, floor(log10(raw)));
    const double step = raw <= power       ? power
                        : raw <= 2 * power ? 2 * power
                        : raw <= 5 * power ? 5 * power
                                           : 10 * power;
    size_t count = 0;
    for (double k = ceil(low / step - 1e-9); count < TICKS_MAX && k * step <= high + step * 1e-6; k++)
        ret[count++] = k == 0 ? 0 : k * step; /* never -0 */
    return count;
}

hs__axes hs__axes_of(const char *title, const char *x_label, const double *xs, size_t n, double y_high)
{
    const double step = n > 1 ? (xs[n - 1] - xs[0]) / (double)(n - 1) : 1;
    return (hs__axes){.title = title,
                      .x_label = x_label,
                      .width = 440,
                      .height = 250,
                      .x_low = xs[0] - step / 2,
                      .x_high = xs[n - 1] + step / 2,
                      .y_high = y_high > 0 ? y_high : 1};
}

static double x_of(const hs__chart *c, double x)
{
    return c->left + (x - c->axes.x_low) / (c->axes.x_high - c->axes.x_low) * (c->right - c->left);
}

static double y_of(const hs__chart *c, double y)
{
    const double inside = fmin(fmax(y, c->axes.y_low), c->axes.y_high);
    return c->bottom - (inside - c->axes.y_low) / (c->axes.y_high - c->axes.y_low) * (c->bottom - c->top);
}

static void y_ticks(const hs__chart *c)
{
    double ticks[TICKS_MAX];
    const size_t n = ticks_find(c->axes.y_low, c->axes.y_high, 4, ticks);
    for (size_t i = 0; i < n; i++) {
        const double y = y_of(c, ticks[i]);
        char text[32];
        line_at(c->out, "grid", LINE, c->left, y, c->right, y, "none");
        snprintf(text, sizeof text, "1e%.0f", ticks[i]);
        text_at(c->out, c->left - 6, y + 4, END, c->axes.y_log ? text : hs__chart_number(ticks[i], text));
    }
}

static void x_ticks(const hs__chart *c)
{
    double ticks[TICKS_MAX];
    const size_t n = ticks_find(c->axes.x_low, c->axes.x_high, (c->right - c->left) / 60, ticks);
    for (size_t i = 0; i < n; i++) {
        const double x = x_of(c, ticks[i]);
        line_at(c->out, "axis", MUTED, x, c->bottom, x, c->bottom + 4, "none");
        number_at(c->out, x, c->bottom + 15, MIDDLE, ticks[i]);
    }
}

hs__chart hs__chart_begin(FILE *out, const hs__axes *axes)
{
    const hs__chart c = {.out = out,
                         .axes = *axes,
                         .left = 56,
                         .right = axes->width - (axes->aside ? 108 : 14),
                         .top = 28,
                         .bottom = axes->height - 38};
    svg_begin(out, axes->width, axes->height, axes->title);
    title_at(out, c.left, 16, axes->title);
    y_ticks(&c);
    x_ticks(&c);
    line_at(out, "axis", MUTED, c.left, c.bottom, c.right, c.bottom, "none");
    text_at(out, (c.left + c.right) / 2, axes->height - 6, MIDDLE, axes->x_label);
    if (axes->y_label)
        text_upright(out, 12, (c.top + c.bottom) / 2, axes->y_label);
    return c;
}

void hs__chart_end(const hs__chart *chart)
{
    fputs("</svg>\n", chart->out);
}

/* ---- lines ---- */

static void name_write(FILE *out, const hs__lines *lines, size_t k, bool is_short)
{
    if (lines->names)
        hs__html_text(out, lines->names[k]);
    else
        fprintf(out, is_short ? "%zu" : "head %zu", k);
}

/* Every stride-th place. */
static void path_write(const hs__chart *c, const double *xs, const double *values, size_t n, size_t stride)
{
    char step = 'M';
    fputs(" d=\"", c->out);
    for (size_t i = 0; i < n; i++)
        if (isfinite(values[i]) && (i % stride == 0 || i + 1 == n)) {
            fprintf(c->out, "%c%.1f %.1f", step, x_of(c, xs[i]), y_of(c, values[i]));
            step = 'L';
        }
    fputs("\" fill=\"none\"", c->out);
}

/* How far the nearest other line is at place i, in the picture; 0 where this one has no value. */
static double apart(const hs__chart *c, const hs__lines *lines, size_t k, size_t i)
{
    const double y = lines->values[k * lines->n + i];
    double least = isfinite(y) ? 1e3 : 0;
    for (size_t other = 0; other < lines->n_lines; other++) {
        const double there = lines->values[other * lines->n + i];
        if (other != k && isfinite(there) && isfinite(y))
            least = fmin(least, fabs(y_of(c, there) - y_of(c, y)));
    }
    return least;
}

/* Names that stand in the picture already. */
typedef struct name_places {
    double x[64], y[64];
    size_t n;
} name_places;

/* How good place i is for the name of line k: far from other lines, and not on another name. */
static double name_room(const hs__chart *c, const hs__lines *lines, size_t k, size_t i,
                        const name_places *others)
{
    const double x = x_of(c, lines->xs[i]), y = y_of(c, lines->values[k * lines->n + i]);
    double room = apart(c, lines, k, i);
    for (size_t n = 0; n < others->n; n++)
        if (fabs(others->x[n] - x) < 16 && fabs(others->y[n] - y) < 11)
            room *= 0.01;
    return room;
}

static void line_name(const hs__chart *c, const hs__lines *lines, size_t k, name_places *others)
{
    size_t best = 0;
    for (size_t i = 1; i < lines->n; i++)
        if (name_room(c, lines, k, i, others) > name_room(c, lines, k, best, others))
            best = i;
    const double y = lines->values[k * lines->n + best];
    if (!isfinite(y))
        return;
    if (others->n < sizeof others->x / sizeof *others->x) {
        others->x[others->n] = x_of(c, lines->xs[best]);
        others->y[others->n++] = y_of(c, y);
    }
    fprintf(c->out,
            "<text class=\"name\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" font-weight=\"600\" "
            "fill=\"%s\" stroke=\"#ffffff\" stroke-width=\"3\" paint-order=\"stroke\">",
            x_of(c, lines->xs[best]), y_of(c, y) - 4, colour_of(k));
    name_write(c->out, lines, k, true);
    fputs("</text>", c->out);
}

static void legend_write(const hs__chart *c, const hs__lines *lines)
{
    const double step = fmin(15, (c->bottom - c->top) / (double)lines->n_lines), left = c->right + 12;
    for (size_t k = 0; k < lines->n_lines; k++) {
        const double y = c->top + (double)k * step;
        fprintf(c->out,
                "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"2\" "
                "stroke-dasharray=\"%s\"/><text x=\"%.1f\" y=\"%.1f\" fill=\"" MUTED "\">",
                left, y, left + 24, y, colour_of(k), dash_of(k), left + 29, y + 4);
        name_write(c->out, lines, k, false);
        fputs("</text>", c->out);
    }
}

void hs__chart_lines(const hs__chart *c, const hs__lines *lines)
{
    for (size_t k = 0; k < lines->n_lines; k++) {
        fputs("<path class=\"series\"", c->out);
        path_write(c, lines->xs, lines->values + k * lines->n, lines->n, 1);
        fprintf(c->out, " stroke=\"%s\" stroke-width=\"1.6\" stroke-dasharray=\"%s\"><title>", colour_of(k),
                dash_of(k));
        name_write(c->out, lines, k, false);
        fputs("</title></path>", c->out);
        for (size_t i = 0; lines->n <= 12 && i < lines->n; i++)
            if (isfinite(lines->values[k * lines->n + i]))
                fprintf(c->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2\" fill=\"%s\"/>",
                        x_of(c, lines->xs[i]), y_of(c, lines->values[k * lines->n + i]), colour_of(k));
    }
    name_places placed = {.n = 0};
    for (size_t k = 0; k < lines->n_lines; k++)
        line_name(c, lines, k, &placed);
    if (c->axes.aside)
        legend_write(c, lines);
}

void hs__chart_chance(const hs__chart *c, const double *xs, const double *values, size_t n)
{
    fputs("<path class=\"chance\"", c->out);
    path_write(c, xs, values, n, n > 40 ? 4 : 1);
    fputs(" stroke=\"" INK "\" stroke-dasharray=\"3 3\"><title>chance</title></path>", c->out);
}

void hs__chart_mark_x(const hs__chart *c, double x, const char *label)
{
    if (!isfinite(x))
        return;
    const double at = x_of(c, x);
    const bool is_left = at > (c->left + c->right) / 2;
    line_at(c->out, "mark", INK, at, c->top, at, c->bottom, "4 3");
    text_at(c->out, at + (is_left ? -4 : 4), c->top + 10, is_left ? END : START, label);
}

void hs__chart_mark_y(const hs__chart *c, double y, const char *label)
{
    if (!isfinite(y))
        return;
    line_at(c->out, "mark", INK, c->left, y_of(c, y), c->right, y_of(c, y), "4 3");
    text_at(c->out, c->right, y_of(c, y) - 4, END, label);
}

/* ---- bars, dots, stacks ---- */

static double step_of(const hs__chart *c, const double *xs, size_t n)
{
    return n > 1 ? x_of(c, xs[1]) - x_of(c, xs[0]) : (c->right - c->left) / 2;
}

/* Many thin bars are one outline, few stand apart. */
void hs__chart_bars(const hs__chart *c, const double *xs, const double *values, size_t n, const char *colour)
{
    const double step = step_of(c, xs, n), gap = n > 40 ? 0 : fmax(1, step * 0.05);
    fprintf(c->out, "<path fill=\"%s\" d=\"M%.1f %.1f", colour, x_of(c, xs[0]) - step / 2 + gap / 2,
            c->bottom);
    for (size_t i = 0; i < n; i++) {
        const double top = isfinite(values[i]) ? y_of(c, values[i]) : c->bottom;
        fprintf(c->out, "V%.1fh%.2f", top, step - gap);
        if (gap > 0 && i + 1 < n)
            fprintf(c->out, "V%.1fh%.2f", c->bottom, gap);
    }
    fprintf(c->out, "V%.1fz\"/>", c->bottom);
}

void hs__chart_dots(const hs__chart *c, const double *xs, const double *values, const double *spreads,
                    size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(values[i]))
            continue;
        const double x = x_of(c, xs[i]), spread = isfinite(spreads[i]) ? spreads[i] : 0;
        fprintf(c->out,
                "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"2\"/>"
                "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\"><title>head %zu: %.3g, spread "
                "%.2g</title></circle>",
                x, x, y_of(c, values[i] - spread), y_of(c, values[i] + spread), HS__CHART_COLD, x,
                y_of(c, values[i]), HS__CHART_COLD, i, values[i], spread);
    }
}

static const char *const fills[] = {"#0a2a5c", "#1b62b5", "#7fb0e2", "#d57f27", "#d8dad8"};
enum { N_FILLS = sizeof fills / sizeof *fills };

static void stack_part(const hs__chart *c, const hs__lines *parts, size_t k, size_t i, double below)
{
    const double width = step_of(c, parts->xs, parts->n) * 0.8, value = parts->values[k * parts->n + i];
    fprintf(c->out,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"><title>layer %.0f, "
            "%s: %.3g</title></rect>",
            x_of(c, parts->xs[i]) - width / 2, y_of(c, below + value), width,
            y_of(c, below) - y_of(c, below + value), fills[k % N_FILLS], parts->xs[i], parts->names[k],
            value);
}

void hs__chart_stacks(const hs__chart *c, const hs__lines *parts)
{
    for (size_t i = 0; i < parts->n; i++) {
        double below = 0;
        for (size_t k = 0; k < parts->n_lines; k++)
            if (parts->values[k * parts->n + i] > 0) {
                stack_part(c, parts, k, i, below);
                below += parts->values[k * parts->n + i];
            }
    }
    for (size_t k = 0; k < parts->n_lines; k++) { /* from the top, as they lie */
        const double y = c->top + 15 * (double)(parts->n_lines - 1 - k);
        fprintf(c->out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"10\" height=\"10\" fill=\"%s\"/>", c->right + 10,
                y, fills[k % N_FILLS]);
        text_at(c->out, c->right + 24, y + 9, START, parts->names[k]);
    }
}

void hs__chart_ranking(FILE *out, const hs__ranking *r)
{
    const double left = 110, width = 440, room = width - left - 60, row = 17, top = 30;
    const double height = top + row * (double)r->n + 26;
    svg_begin(out, width, height, r->title);
    title_at(out, 8, 16, r->title);
    for (size_t i = 0; i < r->n; i++) {
        const double y = top + row * (double)i, length = r->values[i] / r->values[0] * room;
        char text[32];
        text_at(out, left - 6, y + 12, END, r->names[i]);
        fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>", left, y + 2,
                length, row - 4, r->colour);
        snprintf(text, sizeof text, "%.3g %%", 100 * r->values[i]);
        text_at(out, left + length + 5, y + 12, START, text);
    }
    text_at(out, left, height - 8, START, r->x_label);
    fputs("</svg>\n", out);
}

/* ---- colours ---- */

/* The viewer's (static/src/maps/colour.ts, on a light page): attention, similarity, and similarity below 0,
 * whose stops are as dark as those of similarity. */
typedef enum ramp { COOL, WARM, BELOW } ramp;

static const unsigned char ramps[3][6][3] = {
    {{246, 248, 251}, {195, 216, 240}, {127, 176, 226}, {58, 124, 200}, {21, 80, 154}, {10, 42, 92}},
    {{251, 248, 243}, {247, 220, 178}, {238, 177, 103}, {213, 127, 39}, {159, 79, 12}, {87, 36, 4}},
    {{251, 248, 243}, {229, 217, 237}, {197, 176, 222}, {158, 127, 200}, {111, 69, 166}, {51, 19, 92}},
};

/* Straight lines between the colours of a ramp; share in [0, 1]. */
static void ramp_colour(ramp r, double share, unsigned char ret[3])
{
    const double at = 5 * fmin(fmax(share, 0), 1);
    const int k = at < 5 ? (int)at : 4;
    for (int i = 0; i < 3; i++)
        ret[i] = (unsigned char)lround(ramps[r][k][i] + (at - k) * (ramps[r][k + 1][i] - ramps[r][k][i]));
}

/* ---- grids ---- */

static void grid_cell(FILE *out, const hs__grid *g, size_t k, double x, double y, double side)
{
    const double value = g->values[k], share = (value - g->low) / (g->high - g->low);
    unsigned char colour[3];
    char text[32];
    if (!isfinite(value))
        return;
    ramp_colour(COOL, share * 0.8, colour);
    fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"#%02x%02x%02x\"/>", x, y,
            side - 1, side - 1, colour[0], colour[1], colour[2]);
    snprintf(text, sizeof text, "%.2f", fabs(value) < 0.005 ? 0 : value); /* never -0.00 */
    fprintf(out,
            "<text class=\"cell\" x=\"%.1f\" y=\"%.1f\" font-size=\"9\" text-anchor=\"middle\" "
            "fill=\"%s\">%s</text>",
            x + side / 2, y + side / 2 + 3, share > 0.55 ? "#ffffff" : INK, text);
}

void hs__chart_grid(FILE *out, const hs__grid *g)
{
    const double side = 30, left = 52, top = 48;
    const double width = left + side * (double)g->n_columns + 8;
    svg_begin(out, fmax(width, 260), top + side * (double)g->n_rows + 8, g->title);
    title_at(out, left, 16, g->title);
    text_at(out, left, 32, START, g->column_label);
    text_upright(out, 12, top + side * (double)g->n_rows / 2, g->row_label);
    for (size_t k = 0; k < g->n_rows * g->n_columns; k++) {
        const size_t r = k / g->n_columns, c = k % g->n_columns;
        const double x = left + side * (double)c, y = top + side * (double)r;
        if (r == 0)
            number_at(out, x + side / 2, top - 4, MIDDLE, (double)c);
        if (c == 0)
            number_at(out, left - 6, y + side / 2 + 4, END, g->rows[r]);
        grid_cell(out, g, k, x, y, side);
    }
    fputs("</svg>\n", out);
}

/* ---- heatmaps ---- */

enum { MAP_SIDE = 170, MAP_LEFT = 42, MAP_TOP = 26, BAR_LEFT = MAP_LEFT + MAP_SIDE + 10, BAR_WIDTH = 10 };

/* share: of the way from low to high. */
static void map_colour(const hs__heatmap *m, double share, unsigned char ret[3])
{
    const ramp above = m->warm ? WARM : COOL;
    if (m->two_sided)
        ramp_colour(share < 0.5 ? BELOW : above, fabs(2 * share - 1), ret);
    else
        ramp_colour(above, share, ret);
}

static void map_picture(FILE *out, const hs__heatmap *m)
{
    unsigned char palette[256][3];
    ramp_colour(m->warm ? WARM : COOL, 0, palette[0]);
    for (int b = 1; b < 256; b++)
        map_colour(m, m->high > m->low ? (m->values[b] - m->low) / (m->high - m->low) : 0, palette[b]);
    fputs(" href=\"data:image/png;base64,", out);
    hs__png_write(out, m->bytes, m->side, palette);
    fputs("\"", out);
}

static void map_axes(FILE *out, const hs__heatmap *m)
{
    double ticks[TICKS_MAX];
    const size_t n = ticks_find(0, m->tokens, 4, ticks);
    for (size_t i = 0; i < n; i++) {
        const double at = ticks[i] / m->tokens * MAP_SIDE;
        number_at(out, MAP_LEFT + at, MAP_TOP + MAP_SIDE + 14, MIDDLE, ticks[i]);
        number_at(out, MAP_LEFT - 4, MAP_TOP + at + 4, END, ticks[i]);
    }
    text_at(out, MAP_LEFT + MAP_SIDE / 2.0, MAP_TOP + MAP_SIDE + 30, MIDDLE, m->x_label);
    text_upright(out, 12, MAP_TOP + MAP_SIDE / 2.0, m->y_label);
}

/* The colours from low to high, for the page too, which interpolates between them. */
static void bar_stops(FILE *out, const hs__heatmap *m)
{
    const int n = m->two_sided ? 10 : 5;
    fprintf(out, "<linearGradient id=\"ramp-%s\" x1=\"0\" y1=\"1\" x2=\"0\" y2=\"0\">", m->key);
    for (int k = 0; k <= n; k++) {
        unsigned char colour[3];
        map_colour(m, (double)k / n, colour);
        fprintf(out, "<stop offset=\"%.1f\" stop-color=\"#%02x%02x%02x\"/>", (double)k / n, colour[0],
                colour[1], colour[2]);
    }
    fputs("</linearGradient>", out);
}

/* The bar's numbers have names, for the page may choose another range. */
static void map_bar(FILE *out, const hs__heatmap *m)
{
    static const char *const names[] = {"low", "middle", "high"};
    bar_stops(out, m);
    fprintf(out,
            "<rect class=\"ramp\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" "
            "fill=\"url(#ramp-%s)\"/>",
            BAR_LEFT, MAP_TOP, BAR_WIDTH, MAP_SIDE, m->key);
    if (m->two_sided)
        line_at(out, "mark zero", INK, BAR_LEFT - 2, MAP_TOP + MAP_SIDE / 2.0, BAR_LEFT + BAR_WIDTH + 2,
                MAP_TOP + MAP_SIDE / 2.0, "none");
    for (int k = 0; k < 3; k++) {
        char text[32];
        fprintf(out, "<text data-range=\"%s\" x=\"%d\" y=\"%.1f\" fill=\"" MUTED "\">%s</text>", names[k],
                BAR_LEFT + BAR_WIDTH + 4,
                MAP_TOP + MAP_SIDE * (1 - k / 2.0) +
                    (k == 2   ? 9
                     : k == 1 ? 4
                              : 0),
                hs__chart_number(m->low + (m->high - m->low) * k / 2, text));
    }
    text_upright(out, BAR_LEFT + BAR_WIDTH + 57, MAP_TOP + MAP_SIDE / 2.0, m->unit);
}

void hs__chart_heatmap(FILE *out, const hs__heatmap *m)
{
    svg_begin(out, BAR_LEFT + BAR_WIDTH + 62, MAP_TOP + MAP_SIDE + 38, m->title);
    title_at(out, MAP_LEFT, 16, m->title);
    fprintf(out,
            "<image data-map=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" "
            "preserveAspectRatio=\"none\" style=\"image-rendering: pixelated\"",
            m->key, MAP_LEFT, MAP_TOP, MAP_SIDE, MAP_SIDE);
    if (m->bytes)
        map_picture(out, m);
    fprintf(
        out,
        "/><rect class=\"frame\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"" LINE
        "\"/>",
        MAP_LEFT, MAP_TOP, MAP_SIDE, MAP_SIDE);
    map_axes(out, m);
    map_bar(out, m);
    fputs("</svg>\n", out);
}
