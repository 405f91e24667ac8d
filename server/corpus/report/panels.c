/* panels.c - every panel is a row of one table: numbers out of the statistics, then a figure or chart. */
#include "server/corpus/report/panels.h"

#include "api/figures/chart.h"
#include "api/figures/figure.h"
#include "model/tokenizer/readable_token.h"
#include "server/corpus/report/one_text.h"
#include "server/corpus/report/tables.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NOTHING, REPEATED, SAME_SENTENCE, REPEATED_SAME_SENTENCE, DISTANCE, FOCAL };

/* ---- numbers ---- */

/* n elements of an array from `first` on, to ret; zeros when there is no such array. */
static void numbers_read(const hs__drawing *d, const char *name, size_t first, size_t n, double *ret)
{
    hs_corpus_array array;
    memset(ret, 0, n * sizeof *ret);
    if (!hs_corpus_array_find(d->stats, name, &array))
        return;
    hs_corpus_array_read(d->stats, &array, first, n, array.is_float ? (void *)ret : d->counts);
    for (size_t i = 0; !array.is_float && i < n; i++)
        ret[i] = (double)d->counts[i];
}

/* Adds n_rows rows of n elements each into ret. */
static void rows_add(const hs__drawing *d, const char *name, size_t first_row, size_t n_rows, size_t n,
                     double *ret)
{
    numbers_read(d, name, first_row * n, n, ret);
    for (size_t row = 1; row < n_rows; row++) {
        double *other = ret + n;
        numbers_read(d, name, (first_row + row) * n, n, other);
        for (size_t i = 0; i < n; i++)
            ret[i] += other[i];
    }
}

static void shares_make(double *values, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += values[i];
    for (size_t i = 0; i < n; i++)
        values[i] = sum > 0 ? values[i] / sum : 0;
}

static double highest(const double *values, size_t n)
{
    double high = 0;
    for (size_t i = 0; i < n; i++)
        high = fmax(high, values[i]);
    return high;
}

static double chance_of(const hs__drawing *d, int which)
{
    const hs_corpus_chance c = hs_corpus_chance_read(d->stats);
    switch (which) {
    case REPEATED:
        return c.repeated;
    case SAME_SENTENCE:
        return c.same_sentence;
    case REPEATED_SAME_SENTENCE:
        return c.repeated_same_sentence;
    case DISTANCE:
        return c.mean_distance;
    default:
        return NAN;
    }
}

static hs_corpus_figure figure_of(const hs__drawing *d, int which, hs__place at)
{
    const hs_corpus_head head = hs_corpus_head_read(d->stats, at.t, at.l, at.h);
    return which == REPEATED        ? head.repeated_share
           : which == SAME_SENTENCE ? head.same_sentence_share
           : which == DISTANCE      ? head.mean_distance
                                    : head.focal_share;
}

static size_t cell(const hs__drawing *d, hs__place at)
{
    return (at.t * d->o.n_layers + at.l) * d->o.n_heads + at.h;
}

/* 0.5, 1.5, ... bins on [0, 1], or 0, 1, 2, ... */
static void places_make(const hs__drawing *d, size_t n, double first, double step)
{
    for (size_t i = 0; i < n; i++)
        d->places[i] = first + (double)i * step;
}

/* "Layer 3, head 5: title"; heads and titles where the panel has them. */
typedef struct caption {
    char text[160];
} caption;

static caption title_of(const hs__drawing *d, const hs__report_panel *p, hs__place at)
{
    caption c;
    int n = snprintf(c.text, sizeof c.text, "Layer %d", d->o.layers[at.l]);
    if (strchr(p->axes, 'h'))
        n += snprintf(c.text + n, sizeof c.text - (size_t)n, ", head %zu", at.h);
    if (p->title)
        snprintf(c.text + n, sizeof c.text - (size_t)n, "%s%s", *p->title == ',' ? "" : ": ", p->title);
    return c;
}

/* ---- maps ---- */

#define FONT   8.0  /* points */
#define NARROW 76.0 /* mm */
#define MEDIUM 116.0
#define WIDE   200.0

/* Returns a chart of the default size over the first n of d->places and d->values. */
static hs__chart chart_of(const hs__drawing *d, hs__chart_kind kind, const char *title, const char *x_title,
                          size_t n)
{
    return (hs__chart){.kind = kind,
                       .title = title,
                       .x_title = x_title,
                       .xs = d->places,
                       .values = d->values,
                       .n = n,
                       .n_series = 1,
                       .y_high = 1,
                       .colour = HS__CHART_WARM,
                       .mark_x = NAN,
                       .mark_y = NAN,
                       .width_mm = MEDIUM,
                       .height_mm = 66,
                       .font_pt = FONT};
}

/* Returns the top of an axis that shows these values. */
static double axis_top(double high)
{
    return high > 0 ? 1.08 * high : 1;
}

static hs_status panel_draw(const hs__panel *panel, double width, hs__picture *ret, hs_error *err)
{
    const hs__figure figure = {.title = panel->title,
                               .caption = panel->unit ? panel->unit : panel->title,
                               .panels = panel,
                               .n_panels = 1,
                               .n_across = 1,
                               .single = panel->name != NULL,
                               .width_mm = width,
                               .font_pt = FONT};
    return hs__figure_draw(&figure, ret, err);
}

/* Fills the map's pixels in; without pictures one for all, which the page's script replaces. */
static void pixels_fill(const hs__drawing *d, const hs__report_map *map, hs__panel *panel)
{
    const size_t side = d->maps->side;
    panel->values = d->map_values;
    panel->n_rows = panel->n_columns = side;
    if (d->pictures) {
        hs__report_map_spread(d->maps, map, d->pixels);
        for (size_t i = 0; i < side * side; i++)
            d->map_values[i] = (float)hs__report_map_value(map, d->pixels[i]);
    } else
        for (size_t i = 0; i < side * side; i++)
            d->map_values[i] = NAN;
}

static hs_status map_draw(hs__drawing *d, const hs__report_panel *p, hs__place at, hs__picture *ret,
                          hs_error *err)
{
    const bool headed = strchr(p->axes, 'h') != NULL;
    const hs__report_map *map = hs__report_map_find(d->maps, p->name, at.l, headed ? at.h : HS__NO_HEAD);
    char key[48];
    if (!map)
        return HS_OK;
    const double *range = map->ranges[HS__RANGE_99];
    const double far = fmax(fabs(range[0]), fabs(range[1])), most = far > 0 ? far : 1;
    const bool is_signed = map->palette == HS__PALETTE_SIGNED;
    snprintf(key, sizeof key, headed ? "%s:%zu:%zu" : "%s:%zu", p->name, at.l, at.h);
    hs__panel panel = {.row_title = p->y_label,
                       .column_title = p->x_label,
                       .unit = p->array,
                       .name = key,
                       .tick = d->maps->n_tokens,
                       .palette = map->palette,
                       .low = (float)(is_signed ? -most : range[0]),
                       .high = (float)(is_signed ? most : range[1])};
    if (!(panel.high > panel.low))
        panel.high = panel.low + 1;
    snprintf(panel.title, sizeof panel.title, "%.95s", title_of(d, p, at).text);
    pixels_fill(d, map, &panel);
    return panel_draw(&panel, NARROW, ret, err);
}

/* ---- shares in a text, a small chart for each head ---- */

static double texts_least(const hs__drawing *d, hs__place at)
{
    double least = INFINITY;
    numbers_read(d, "texts_with_high", cell(d, at), d->o.n_heads, d->values);
    for (size_t h = 0; h < d->o.n_heads; h++)
        least = fmin(least, d->values[h]);
    return least;
}

enum { SHARE_BINS_MIN = 4 };

/* Cuts bins off at the right that hold less than a two-hundredth of every head's texts, but not those up to
 * `least`. Returns how many are left. */
static size_t bins_fit(double *values, size_t n_heads, size_t n, double least)
{
    size_t left = SHARE_BINS_MIN;
    if (isfinite(least))
        left = (size_t)fmax(SHARE_BINS_MIN, fmin((double)n, ceil(least * (double)n)));
    for (size_t b = left; b < n; b++)
        for (size_t h = 0; h < n_heads; h++)
            if (values[h * n + b] >= 0.005)
                left = b + 1;
    for (size_t h = 0; h < n_heads; h++)
        memmove(values + h * left, values + h * n, left * sizeof *values);
    return left;
}

static hs_status shares_draw(hs__drawing *d, const hs__report_panel *p, hs__place at, hs__picture *ret,
                             hs_error *err)
{
    const size_t n = HS_CORPUS_SHARE_BINS, A = d->o.n_heads;
    const double chance = chance_of(d, p->which), least = texts_least(d, at);
    caption title;
    char label[48];
    snprintf(title.text, sizeof title.text, "Layer %d, at least %.0f texts with high pairs in each head",
             d->o.layers[at.l], least);
    places_make(d, n, 0.5 / (double)n, 1 / (double)n);
    numbers_read(d, p->array, cell(d, at) * n, A * n, d->values);
    for (size_t h = 0; h < A; h++)
        shares_make(d->values + h * n, n);
    const size_t left = bins_fit(d->values, A, n, chance);
    hs__chart c = chart_of(d, HS__CHART_BARS, title.text, p->x_label, left);
    c.n_series = A;
    c.y_title = "share of texts";
    c.y_high = axis_top(highest(d->values, A * left));
    c.width_mm = WIDE;
    c.mark_x = chance;
    snprintf(label, sizeof label, "chance %.1f %%", 100 * chance);
    c.mark_label = isfinite(chance) ? label : NULL;
    return hs__chart_draw(&c, ret, err);
}

/* ---- distances ---- */

enum { DISTANCE_BARS_MAX = 128 };

/* Distances from 1 on, several to a bar where the window is wide; returns how many bars. */
static size_t distance_bars(const hs__drawing *d, double *values)
{
    const size_t wide = (d->o.tokens_max + DISTANCE_BARS_MAX - 1) / DISTANCE_BARS_MAX;
    size_t n = 0;
    for (size_t from = 1; from < d->o.tokens_max; from += wide) {
        double sum = 0;
        for (size_t k = from; k < from + wide && k < d->o.tokens_max; k++)
            sum += values[k];
        values[n++] = sum;
    }
    shares_make(values, n);
    places_make(d, n, 1 + (double)(wide - 1) / 2, (double)wide);
    return n;
}

static hs_status distances_draw(hs__drawing *d, const hs__report_panel *p, hs__place at, hs__picture *ret,
                                hs_error *err)
{
    const bool headed = strchr(p->axes, 'h') != NULL;
    const size_t T = d->o.tokens_max;
    const double mean =
        headed ? figure_of(d, DISTANCE, at).value : hs_corpus_layer_read(d->stats, at.t, at.l).mean_distance;
    const caption title = title_of(d, p, at);
    double *chance = d->values + 2 * T;
    char label[32];
    rows_add(d, "distance", cell(d, at), headed ? 1 : d->o.n_heads, T, d->values);
    numbers_read(d, "all_distance", 0, T, chance);
    const size_t n = distance_bars(d, d->values);
    distance_bars(d, chance);
    if (!n)
        return HS_OK;
    hs__chart c = chart_of(d, HS__CHART_BARS, title.text, p->x_label, n);
    c.y_title = p->y_label;
    c.y_high = axis_top(fmax(highest(d->values, n), highest(chance, n)));
    c.width_mm = headed ? NARROW : 1.4 * MEDIUM;
    c.height_mm = headed ? 48 : 56;
    c.chance = chance;
    c.mark_x = mean;
    snprintf(label, sizeof label, "mean %.1f", mean);
    c.mark_label = label;
    return hs__chart_draw(&c, ret, err);
}

/* ---- focal tokens ---- */

static hs_status unique_draw(hs__drawing *d, const hs__report_panel *p, hs__place at, hs__picture *ret,
                             hs_error *err)
{
    const size_t n = d->o.n_heads + 1;
    const double mean = hs_corpus_layer_read(d->stats, at.t, at.l).unique_focal;
    const caption title = title_of(d, p, at);
    char label[32];
    places_make(d, n, 0, 1);
    numbers_read(d, p->array, (at.t * d->o.n_layers + at.l) * n, n, d->values);
    shares_make(d->values, n);
    hs__chart c = chart_of(d, HS__CHART_BARS, title.text, p->x_label, n);
    c.y_title = p->y_label;
    c.y_high = axis_top(highest(d->values, n));
    c.mark_x = mean;
    snprintf(label, sizeof label, "mean %.2f", mean);
    c.mark_label = label;
    return hs__chart_draw(&c, ret, err);
}

enum { RANKED = 12, NAME_BYTES = 96 };

static void token_name(const hs__drawing *d, double id, char ret_name[NAME_BYTES])
{
    const json_t *model = json_object_get(json_object_get(d->report, "provenance"), "model");
    char key[24];
    snprintf(key, sizeof key, "%.0f", id);
    const char *name = json_string_value(json_object_get(json_object_get(d->report, "focus_tokens"), key));
    hs_token_readable(json_string_value(json_object_get(model, "tokenizer")), name ? name : "?", ret_name,
                      NAME_BYTES);
}

/* The tokens of a layer that <array>_ids lists, by their share of what <array>_counts adds up to. */
static hs_status tokens_draw(hs__drawing *d, const hs__report_panel *p, hs__place at, hs__picture *ret,
                             hs_error *err)
{
    const caption title = title_of(d, p, at);
    char texts[RANKED][NAME_BYTES];
    const char *names[RANKED];
    char ids[24], counts[24];
    size_t n = 0;
    double all = 0;
    snprintf(ids, sizeof ids, "%s_ids", p->array);
    snprintf(counts, sizeof counts, "%s_counts", p->array);
    numbers_read(d, ids, at.l * HS_CORPUS_FOCUS_MAX, HS_CORPUS_FOCUS_MAX, d->places);
    numbers_read(d, counts, at.l * HS_CORPUS_FOCUS_MAX, HS_CORPUS_FOCUS_MAX, d->values);
    for (size_t k = 0; k < HS_CORPUS_FOCUS_MAX; k++)
        all += d->values[k];
    for (; n < RANKED && d->values[n] > 0; n++) {
        token_name(d, d->places[n], texts[n]);
        names[n] = texts[n];
        d->values[n] /= all;
    }
    hs__chart c = chart_of(d, HS__CHART_RANKING, title.text, p->x_label, n);
    c.names = names;
    c.colour = p->which ? HS__CHART_WARM : HS__CHART_COLD;
    return hs__chart_draw(&c, ret, err);
}

/* ---- thresholds ---- */

/* A histogram on [0, 1] of all heads of a layer, counted on a logarithmic scale; `which` bins come before. */
static hs_status histogram_draw(hs__drawing *d, const hs__report_panel *p, hs__place at, hs__picture *ret,
                                hs_error *err)
{
    const size_t before = (size_t)p->which, n = HS_CORPUS_BINS + before;
    const bool similarity = before > 0;
    caption title = title_of(d, p, at);
    char label[48];
    rows_add(d, p->array, at.l * d->o.n_heads, d->o.n_heads, n, d->values);
    shares_make(d->values, n);
    if (similarity) {
        const size_t used = strlen(title.text);
        snprintf(title.text + used, sizeof title.text - used, " (%.1f %% below 0)", 100 * d->values[0]);
    }
    for (size_t i = 0; i < n; i++)
        d->values[i] = log10(fmax(d->values[i], 1e-7));
    places_make(d, HS_CORPUS_BINS, 0.5 / HS_CORPUS_BINS, 1.0 / HS_CORPUS_BINS);
    hs__chart c = chart_of(d, HS__CHART_BARS, title.text, p->x_label, HS_CORPUS_BINS);
    c.values += before;
    c.y_title = p->y_label;
    c.y_low = -7;
    c.y_high = 0;
    c.y_log = true;
    c.colour = similarity ? HS__CHART_WARM : HS__CHART_COLD;
    c.mark_x = (double)(similarity ? d->o.thresholds[d->o.threshold_main] : d->o.attention_threshold);
    snprintf(label, sizeof label, "threshold %.3g", c.mark_x);
    c.mark_label = label;
    return hs__chart_draw(&c, ret, err);
}

static hs_status sensitivity_draw(hs__drawing *d, const hs__report_panel *p, hs__place at, hs__picture *ret,
                                  hs_error *err)
{
    const size_t n = d->o.n_thresholds, A = d->o.n_heads;
    const caption title = title_of(d, p, at);
    for (size_t t = 0; t < n; t++)
        d->places[t] = (double)d->o.thresholds[t];
    for (at.h = 0; at.h < A; at.h++)
        for (at.t = 0; at.t < n; at.t++)
            d->values[at.h * n + at.t] = figure_of(d, p->which, at).value;
    const double chance = chance_of(d, p->which);
    hs__chart c = chart_of(d, HS__CHART_LINES, title.text, "similarity threshold", n);
    c.n_series = A;
    c.y_title = p->y_label;
    c.y_high = axis_top(fmax(highest(d->values, A * n), chance));
    c.mark_y = chance;
    c.mark_label = isfinite(chance) ? "chance" : NULL;
    return hs__chart_draw(&c, ret, err);
}

static hs_status stability_draw(hs__drawing *d, const hs__report_panel *p, hs__place at, hs__picture *ret,
                                hs_error *err)
{
    const size_t A = d->o.n_heads;
    const caption title = title_of(d, p, at);
    double *spreads = d->values + A, high = 0;
    places_make(d, A, 0, 1);
    for (at.h = 0; at.h < A; at.h++) {
        const hs_corpus_figure f = figure_of(d, p->which, at);
        d->values[at.h] = f.value;
        spreads[at.h] = f.spread;
        high = fmax(high, f.value + (isfinite(f.spread) ? f.spread : 0));
    }
    hs__chart c = chart_of(d, HS__CHART_DOTS, title.text, "head", A);
    c.y_title = p->y_label;
    c.spreads = spreads;
    c.colour = HS__CHART_COLD;
    c.y_high = axis_top(high);
    return hs__chart_draw(&c, ret, err);
}

/* ---- layers ---- */

/* The labels of a grid of numbers: borrowed by the figure that is laid out. */
typedef struct grid_labels {
    char (*texts)[16];
    const char **labels;
} grid_labels;

static const char *label_set(grid_labels *g, size_t k, const char *format, double value)
{
    snprintf(g->texts[k], sizeof g->texts[k], format, value);
    return g->labels[k] = g->texts[k];
}

/* Layers by heads of what d->values holds, from low to high. */
static hs_status heads_grid(hs__drawing *d, const hs__report_panel *p, double low, double high,
                            hs__picture *ret, hs_error *err)
{
    const size_t L = d->o.n_layers, A = d->o.n_heads, n = L * A;
    grid_labels g = {.texts = calloc(n + L + A, sizeof *g.texts),
                     .labels = calloc(n + L + A, sizeof *g.labels)};
    float *values = calloc(n + 1, sizeof *values);
    if (!g.texts || !g.labels || !values) {
        free(values);
        free(g.texts);
        free(g.labels);
        return hs_fail(err, HS_NO_MEMORY, "no memory for the report");
    }
    for (size_t k = 0; k < n; k++) {
        values[k] = (float)d->values[k];
        if (isfinite(d->values[k]))
            label_set(&g, k, "%.2f", fabs(d->values[k]) < 0.005 ? 0 : d->values[k]); /* never -0.00 */
        else
            g.labels[k] = "";
    }
    for (size_t l = 0; l < L; l++)
        label_set(&g, n + l, "%.0f", (double)d->o.layers[l]);
    for (size_t h = 0; h < A; h++)
        label_set(&g, n + L + h, "%.0f", (double)h);
    hs__panel panel = {.n_rows = L,
                       .n_columns = A,
                       .values = values,
                       .row_labels = g.labels + n,
                       .column_labels = g.labels + n + L,
                       .cell_labels = g.labels,
                       .row_title = "layer",
                       .column_title = "head",
                       .unit = p->y_label,
                       .palette = HS__PALETTE_GREEN,
                       .low = (float)low,
                       .high = (float)high};
    snprintf(panel.title, sizeof panel.title, "%s", p->title);
    const hs_status st = panel_draw(&panel, fmin(WIDE, 40 + 9 * (double)A), ret, err);
    free(values);
    free(g.texts);
    free(g.labels);
    return st;
}

static hs_status profile_draw(hs__drawing *d, const hs__report_panel *p, hs__place at, hs__picture *ret,
                              hs_error *err)
{
    (void)at;
    numbers_read(d, p->array, 0, d->o.n_layers * d->o.n_heads, d->values);
    return heads_grid(d, p, 0, 1, ret, err);
}

static hs_status noise_draw(hs__drawing *d, const hs__report_panel *p, hs__place at, hs__picture *ret,
                            hs_error *err)
{
    const size_t A = d->o.n_heads, n = d->o.n_layers * A;
    for (size_t k = 0; k < n; k++) {
        const hs_corpus_head head = hs_corpus_head_read(d->stats, at.t, k / A, k % A);
        d->values[k] = p->which ? head.auc : head.dprime;
    }
    return heads_grid(d, p, p->which ? 0.5 : 0, p->which ? 1 : fmax(highest(d->values, n), 0.1), ret, err);
}

/* Lines over the layers, or with stacks what adds up to 1. A line is a member of hs_corpus_layer. */
static const struct layer_lines {
    hs__chart_kind kind;
    size_t n;
    const char *names[5];
    size_t members[5];
} layer_lines[] = {
#define MEMBER(name) offsetof(hs_corpus_layer, name)
    {HS__CHART_LINES, 3, {"precision", "recall", "F1"}, {MEMBER(precision), MEMBER(recall), MEMBER(f1)}},
    {HS__CHART_STACKS,
     5,
     {"first token", "separators", "sentence ends", "commas", "the rest"},
     {MEMBER(mass_cls), MEMBER(mass_sep), MEMBER(mass_end), MEMBER(mass_comma), MEMBER(mass_rest)}},
    {HS__CHART_LINES,
     4,
     {"first token", "itself", "previous token", "next token"},
     {MEMBER(on_first), MEMBER(on_self), MEMBER(on_previous), MEMBER(on_next)}},
#undef MEMBER
};

static hs_status layers_draw(hs__drawing *d, const hs__report_panel *p, hs__place at, hs__picture *ret,
                             hs_error *err)
{
    const struct layer_lines *lines = &layer_lines[p->which];
    const size_t L = d->o.n_layers;
    for (size_t l = 0; l < L; l++) {
        const hs_corpus_layer f = hs_corpus_layer_read(d->stats, at.t, l);
        d->places[l] = d->o.layers[l];
        for (size_t k = 0; k < lines->n; k++)
            memcpy(&d->values[k * L + l], (const char *)&f + lines->members[k], sizeof *d->values);
    }
    hs__chart c = chart_of(d, lines->kind, p->title, "layer", L);
    c.y_title = p->y_label;
    c.names = lines->names;
    c.n_series = lines->n;
    return hs__chart_draw(&c, ret, err);
}

/* ---- tables ---- */

static void heads_write(const hs__drawing *d, hs__place at, FILE *out)
{
    hs__heads_write(d, at.l, at.t, out);
}

static void examples_write(const hs__drawing *d, hs__place at, FILE *out)
{
    hs__examples_write(d, at.l, out);
}

#define KEY   "key position"
#define QUERY "query position"
#define TOKEN "token position"

const hs__report_panel hs__panels[] = {
    {"attention", "lh", map_draw, NULL, NULL, KEY, QUERY, "mean attention", 0},
    {"attention_layer", "l", map_draw, NULL, ", all heads", KEY, QUERY, "attention, heads summed", 0},
    {"without_columns", "l", map_draw, NULL, ", without high-attention columns", KEY, QUERY,
     "attention, heads summed", 0},
    {"without_diagonal", "l", map_draw, NULL, ", without the diagonal too", KEY, QUERY,
     "attention, heads summed", 0},
    {"location", "lh", map_draw, NULL, NULL, TOKEN, TOKEN, "share of texts", 1},
    {"similarity", "l", map_draw, NULL, ", similarity", TOKEN, TOKEN, "similarity S, heads summed", 1},
    {"normalized", "l", map_draw, NULL, ", normalised similarity", TOKEN, TOKEN, "normalised similarity N",
     1},
    {"first_text", "l", map_draw, NULL, ", similarity of the first text", TOKEN, TOKEN,
     "similarity S, heads summed", 1},
    {"repeated", "lt", shares_draw, NULL, NULL, "share of repeated tokens in a text", NULL, "repeated_hist",
     REPEATED},
    {"repeated_in_sentence", "lt", shares_draw, NULL, NULL, "share of repeated tokens in one sentence", NULL,
     "repeated_same_sentence_hist", REPEATED_SAME_SENTENCE},
    {"same_sentence", "lt", shares_draw, NULL, NULL, "share within one sentence in a text", NULL,
     "same_sentence_hist", SAME_SENTENCE},
    {"focal", "lt", shares_draw, NULL, NULL, "share with the focal token in a text", NULL, "focal_hist",
     NOTHING},
    {"distance", "lht", distances_draw, NULL, NULL, "distance in tokens", "share of pairs", NULL, 0},
    {"distances", "lt", distances_draw, NULL, ", all heads", "distance in tokens", "share of pairs", NULL, 0},
    {"unique", "lt", unique_draw, NULL, NULL, "different focal tokens among the heads", "share of texts",
     "unique_focal", 0},
    {"focus", "l", tokens_draw, NULL, "high-attention tokens", "share of the 50 most frequent", NULL, "focus",
     0},
    {"focal_tokens", "l", tokens_draw, NULL, "focal tokens", "share of the 50 most frequent", NULL, "focal",
     1},
    {"normalized_bins", "l", histogram_draw, NULL, "normalised similarity", "normalised similarity N",
     "share of pairs", "normalized_hist", 1},
    {"column_bins", "l", histogram_draw, NULL, "attention columns",
     "attention that a token gets, as a share of the most", "share of columns", "column_hist", 0},
    {"sensitivity_repeated", "l", sensitivity_draw, NULL, "repeated-token share", NULL, "share of pairs",
     NULL, REPEATED},
    {"sensitivity_sentence", "l", sensitivity_draw, NULL, "same-sentence share", NULL, "share of pairs", NULL,
     SAME_SENTENCE},
    {"sensitivity_distance", "l", sensitivity_draw, NULL, "mean distance", NULL, "tokens", NULL, DISTANCE},
    {"sensitivity_focal", "l", sensitivity_draw, NULL, "focal share", NULL, "share of pairs", NULL, FOCAL},
    {"stability_repeated", "lt", stability_draw, NULL, "repeated-token share", NULL, "share of pairs", NULL,
     REPEATED},
    {"stability_sentence", "lt", stability_draw, NULL, "same-sentence share", NULL, "share of pairs", NULL,
     SAME_SENTENCE},
    {"stability_distance", "lt", stability_draw, NULL, "mean distance", NULL, "tokens", NULL, DISTANCE},
    {"stability_focal", "lt", stability_draw, NULL, "focal share", NULL, "share of pairs", NULL, FOCAL},
    {"noise_auc", "", noise_draw, NULL, "Chance that a signal pair is more similar than a noise pair", NULL,
     "area under the ROC curve", NULL, 1},
    {"noise_dprime", "", noise_draw, NULL, "Distance of signal from noise, d'", NULL, "standard deviations",
     NULL, 0},
    {"masses", "", layers_draw, NULL, "Where attention goes", NULL, "share of attention", NULL, 1},
    {"neighbours", "", layers_draw, NULL, "Attention on the first token and along the diagonal", NULL,
     "share of attention", NULL, 2},
    {"profile_first", "", profile_draw, NULL, "Attention on the first token", NULL, "share of attention",
     "profiles_first", 0},
    {"profile_self", "", profile_draw, NULL, "Attention on the token itself", NULL, "share of attention",
     "profiles_self", 0},
    {"profile_previous", "", profile_draw, NULL, "Attention on the previous token", NULL,
     "share of attention", "profiles_previous", 0},
    {"profile_next", "", profile_draw, NULL, "Attention on the next token", NULL, "share of attention",
     "profiles_next", 0},
    {"boundaries", "", layers_draw, NULL, "Boundaries by attention against sentence ends", NULL, "share",
     NULL, 0},
    {"one_attention", "", hs__one_text_attention, NULL, "Attention in one text", NULL, NULL, NULL, 0},
    {"one_high", "", hs__one_text_tokens, NULL, "tokens of high attention", NULL, NULL, NULL, 0},
    {"one_marked", "", hs__one_text_marked, NULL, "Attention and similarity in one text", NULL, NULL, NULL,
     0},
    {"one_most", "", hs__one_text_tokens, NULL, "most pairs of the same token", NULL, NULL, NULL, 1},
    {"one_fewest", "", hs__one_text_tokens, NULL, "fewest pairs of the same token", NULL, NULL, NULL, 2},
    {"heads", "lt", NULL, heads_write, NULL, NULL, NULL, NULL, 0},
    {"examples", "l", NULL, examples_write, NULL, NULL, NULL, NULL, 0},
};
const size_t hs__n_panels = sizeof hs__panels / sizeof *hs__panels;
