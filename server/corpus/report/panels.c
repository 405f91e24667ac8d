/* panels.c - every panel is a row of one table: numbers out of the statistics, then a figure or chart. */
#include "server/corpus/report/panels.h"

#include "api/figures/figure.h"
#include "model/tokenizer/tokenizer.h"
#include "server/corpus/counters/counter.h"
#include "server/corpus/report/report_maps.h"
#include "server/corpus/report/tables.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* Returns the number at a path of report.json; "%s" in it is the panel's array. */
static double number_at(const hs__drawing *d, const hs__report_panel *p, const char *path, hs__indices at)
{
    char whole[96];
    snprintf(whole, sizeof whole, path, p->array);
    return hs__report_number_at(d->report, whole, at);
}

static size_t cell(const hs__drawing *d, hs__indices at)
{
    return (at.t * d->o.n_layers + at.l) * d->o.n_heads + at.h;
}

/* 0.5, 1.5, ... bins on [0, 1], or 0, 1, 2, ... */
static void places_make(const hs__drawing *d, size_t n, double first, double step)
{
    for (size_t i = 0; i < n; i++)
        d->places[i] = first + (double)i * step;
}

#define FONT   8.0  /* points */
#define NARROW 76.0 /* mm */
#define MEDIUM 116.0
#define WIDE   200.0

/* A chart, with its texts. */
struct hs__sheet {
    hs_chart chart;
    char title[160], mark[48];
};

/* Writes "Layer 3, head 5: title", or the title alone: heads and titles where the panel has them. */
static void title_write(const hs__drawing *d, const hs__report_panel *p, hs__indices at, char ret[160])
{
    int n = 0;
    if (strchr(p->axes, 'l'))
        n = snprintf(ret, 160, "Layer %d", d->o.layers[at.l]);
    if (strchr(p->axes, 'h'))
        n += snprintf(ret + n, 160 - (size_t)n, ", head %zu", at.h);
    if (p->title)
        snprintf(ret + n, 160 - (size_t)n, "%s%s", n && *p->title != ',' ? ": " : "", p->title);
}

/* Begins a chart of the default size over the first places and values of d. */
static void sheet_begin(struct hs__sheet *s, const hs__drawing *d, const hs__report_panel *p, hs__indices at)
{
    *s = (struct hs__sheet){.chart = {.title = s->title,
                                      .x_title = p->x_label,
                                      .y_title = p->y_label,
                                      .xs = d->places,
                                      .values = d->values,
                                      .y_high = 1,
                                      .colour = HS_CHART_WARM,
                                      .mark_x = NAN,
                                      .mark_y = NAN,
                                      .width_mm = MEDIUM,
                                      .height_mm = 66,
                                      .font_pt = FONT}};
    title_write(d, p, at, s->title);
}

/* Marks a place on the x axis, with a label of one number. */
static void mark_set(struct hs__sheet *s, double x, const char *format, double number)
{
    s->chart.mark_x = x;
    snprintf(s->mark, sizeof s->mark, format, number);
    s->chart.mark_label = isfinite(x) ? s->mark : NULL;
}

static void series_set(struct hs__sheet *s, hs_chart_kind kind, size_t n_series, size_t n)
{
    s->chart.kind = kind;
    s->chart.n_series = n_series;
    s->chart.n = n;
}

/* ---- maps ---- */

/* Returns the top of an axis that shows these values. */
static double axis_top(double high)
{
    return high > 0 ? 1.08 * high : 1;
}

static hs_status panel_draw(const hs_panel *panel, double width, hs_picture *ret, hs_error *err)
{
    const hs_figure figure = {.title = panel->title,
                              .caption = panel->unit ? panel->unit : panel->title,
                              .panels = panel,
                              .n_panels = 1,
                              .n_across = 1,
                              .single = panel->name != NULL,
                              .width_mm = width,
                              .font_pt = FONT};
    return hs_figure_draw(&figure, ret, err);
}

/* Fills the map's pixels in; without pictures one for all, which the page's script replaces. */
static void pixels_fill(const hs__drawing *d, const hs__report_map *map, hs_panel *panel)
{
    const size_t side = d->maps->side;
    panel->values = d->map_values;
    panel->n_rows = panel->n_columns = side;
    if (d->pictures) {
        hs__report_map_values(d->maps, map, d->pixels, d->map_values);
    } else
        for (size_t i = 0; i < side * side; i++)
            d->map_values[i] = NAN;
}

/* Returns NULL if there is no such map. */
static const hs__report_map *map_find(const hs__report_maps *maps, const char *name, size_t layer,
                                      size_t head)
{
    for (size_t k = 0; k < maps->n; k++)
        if (strcmp(maps->maps[k].name, name) == 0 && maps->maps[k].layer == layer &&
            maps->maps[k].head == head)
            return &maps->maps[k];
    return NULL;
}

#define KEY   "key position"
#define QUERY "query position"

static hs_status map_draw(hs__drawing *d, const hs__report_panel *p, hs__indices at, hs_picture *ret,
                          hs_error *err)
{
    const bool headed = strchr(p->axes, 'h') != NULL;
    const hs__report_map *map = map_find(d->maps, p->name, at.l, headed ? at.h : HS__NO_HEAD);
    char key[48], title[160];
    if (!map)
        return HS_OK;
    const double *range = map->ranges[HS__RANGE_99];
    const double far = fmax(fabs(range[0]), fabs(range[1])), most = far > 0 ? far : 1;
    const bool is_signed = map->palette == HS_PALETTE_SIGNED;
    snprintf(key, sizeof key, headed ? "%s:%zu:%zu" : "%s:%zu", p->name, at.l, at.h);
    const bool crosses = d->o.crosses && strcmp(p->y_label, QUERY) == 0;
    hs_panel panel = {.row_title = crosses ? "target position" : p->y_label,
                      .column_title = crosses ? "text position" : p->x_label,
                      .unit = p->array,
                      .name = key,
                      .tick = d->maps->n_tokens,
                      .palette = map->palette,
                      .low = (float)(is_signed ? -most : range[0]),
                      .high = (float)(is_signed ? most : range[1])};
    if (!(panel.high > panel.low))
        panel.high = panel.low + 1;
    title_write(d, p, at, title);
    snprintf(panel.title, sizeof panel.title, "%.95s", title);
    pixels_fill(d, map, &panel);
    return panel_draw(&panel, NARROW, ret, err);
}

/* ---- shares in a text, a small chart for each head ---- */

static double texts_least(const hs__drawing *d, hs__indices at)
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

/* A head's share by chance: of pairs as far apart, or as many. By `which` of a panel. */
static const char *const share_chances[] = {
    "head_figures.T.L.H.repeated_share.chance_same_distance",
    "head_figures.T.L.H.repeated_same_sentence_chance_same_distance",
    "head_figures.T.L.H.same_sentence_share.chance_same_distance",
    "head_figures.T.L.H.focal_share.chance",
};

static bool shares_fill(hs__drawing *d, const hs__report_panel *p, hs__indices at, struct hs__sheet *s)
{
    const size_t n = HS_CORPUS_SHARE_BINS, A = d->o.n_heads;
    const double chance = number_at(d, p, "chance.%s_share", at), least = texts_least(d, at);
    double *marks = d->places + n, furthest = chance;
    char array[48];
    snprintf(s->title, sizeof s->title, "Layer %d, at least %.0f texts with high pairs in each head",
             d->o.layers[at.l], least);
    snprintf(array, sizeof array, "%s_hist", p->array);
    places_make(d, n, 0.5 / (double)n, 1 / (double)n);
    numbers_read(d, array, cell(d, at) * n, A * n, d->values);
    for (size_t h = 0; h < A; h++)
        shares_make(d->values + h * n, n);
    for (at.h = 0; at.h < A; at.h++) {
        marks[at.h] = hs__report_number_at(d->report, share_chances[p->which], at);
        furthest = fmax(furthest, marks[at.h]);
    }
    series_set(s, HS_CHART_BARS, A, bins_fit(d->values, A, n, furthest));
    s->chart.marks = marks;
    s->chart.y_high = axis_top(highest(d->values, A * s->chart.n));
    s->chart.width_mm = WIDE;
    mark_set(s, chance, "chance %.1f %%", 100 * chance);
    return true;
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

static bool distances_fill(hs__drawing *d, const hs__report_panel *p, hs__indices at, struct hs__sheet *s)
{
    const bool headed = strchr(p->axes, 'h') != NULL;
    const size_t T = d->o.tokens_max;
    double *chance = d->values + 2 * T;
    rows_add(d, "distance", cell(d, at), headed ? 1 : d->o.n_heads, T, d->values);
    numbers_read(d, "all_distance", 0, T, chance);
    const size_t n = distance_bars(d, d->values);
    distance_bars(d, chance);
    series_set(s, HS_CHART_BARS, 1, n);
    s->chart.y_high = axis_top(fmax(highest(d->values, n), highest(chance, n)));
    s->chart.width_mm = headed ? NARROW : 1.4 * MEDIUM;
    s->chart.height_mm = headed ? 48 : 56;
    s->chart.chance = chance;
    const double mean = number_at(d, p, p->array, at);
    mark_set(s, mean, "mean %.1f", mean);
    return n > 0;
}

/* ---- focal tokens ---- */

static bool unique_fill(hs__drawing *d, const hs__report_panel *p, hs__indices at, struct hs__sheet *s)
{
    const size_t n = d->o.n_heads + 1;
    const double mean = number_at(d, p, "layer_figures.T.L.%s", at);
    places_make(d, n, 0, 1);
    numbers_read(d, p->array, (at.t * d->o.n_layers + at.l) * n, n, d->values);
    shares_make(d->values, n);
    series_set(s, HS_CHART_BARS, 1, n);
    s->chart.y_high = axis_top(highest(d->values, n));
    mark_set(s, mean, "mean %.2f", mean);
    return true;
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
static hs_status tokens_draw(hs__drawing *d, const hs__report_panel *p, hs__indices at, hs_picture *ret,
                             hs_error *err)
{
    struct hs__sheet s;
    char texts[RANKED][NAME_BYTES], ids[24], counts[24];
    const char *names[RANKED];
    size_t n = 0;
    double all = 0;
    sheet_begin(&s, d, p, at);
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
    series_set(&s, HS_CHART_RANKING, 1, n);
    s.chart.names = names;
    s.chart.colour = p->which ? HS_CHART_WARM : HS_CHART_COLD;
    return hs_chart_draw(&s.chart, ret, err);
}

/* ---- thresholds ---- */

/* A histogram on [0, 1] of all heads of a layer, counted on a logarithmic scale; `which` bins come before. */
static bool histogram_fill(hs__drawing *d, const hs__report_panel *p, hs__indices at, struct hs__sheet *s)
{
    const size_t before = (size_t)p->which, n = HS_CORPUS_BINS + before;
    rows_add(d, p->array, at.l * d->o.n_heads, d->o.n_heads, n, d->values);
    shares_make(d->values, n);
    if (before) {
        const size_t used = strlen(s->title);
        snprintf(s->title + used, sizeof s->title - used, " (%.1f %% below 0)", 100 * d->values[0]);
    }
    for (size_t i = 0; i < n; i++)
        d->values[i] = log10(fmax(d->values[i], 1e-7));
    places_make(d, HS_CORPUS_BINS, 0.5 / HS_CORPUS_BINS, 1.0 / HS_CORPUS_BINS);
    series_set(s, HS_CHART_BARS, 1, HS_CORPUS_BINS);
    s->chart.values += before;
    s->chart.y_low = -7;
    s->chart.y_high = 0;
    s->chart.y_log = true;
    s->chart.colour = before ? HS_CHART_WARM : HS_CHART_COLD;
    const double threshold =
        (double)(before ? d->o.thresholds[d->o.threshold_main] : d->o.attention_threshold);
    mark_set(s, threshold, "threshold %.3g", threshold);
    return true;
}

static bool sensitivity_fill(hs__drawing *d, const hs__report_panel *p, hs__indices at, struct hs__sheet *s)
{
    const size_t n = d->o.n_thresholds, A = d->o.n_heads;
    const double chance = number_at(d, p, "chance.%s", at);
    for (size_t t = 0; t < n; t++)
        d->places[t] = (double)d->o.thresholds[t];
    for (at.h = 0; at.h < A; at.h++)
        for (at.t = 0; at.t < n; at.t++)
            d->values[at.h * n + at.t] = number_at(d, p, "head_figures.T.L.H.%s.value", at);
    series_set(s, HS_CHART_LINES, A, n);
    s->chart.y_high = axis_top(fmax(highest(d->values, A * n), chance));
    s->chart.mark_y = chance;
    s->chart.mark_label = isfinite(chance) ? "chance" : NULL;
    return true;
}

static bool stability_fill(hs__drawing *d, const hs__report_panel *p, hs__indices at, struct hs__sheet *s)
{
    const size_t A = d->o.n_heads;
    double *lows = d->values + A, *highs = d->places + A, high = 0;
    places_make(d, A, 0, 1);
    for (at.h = 0; at.h < A; at.h++) {
        d->values[at.h] = number_at(d, p, "head_figures.T.L.H.%s.value", at);
        lows[at.h] = number_at(d, p, "head_figures.T.L.H.%s.low", at);
        highs[at.h] = number_at(d, p, "head_figures.T.L.H.%s.high", at);
        high = fmax(high, fmax(d->values[at.h], highs[at.h])); /* pass over NAN */
    }
    series_set(s, HS_CHART_DOTS, 1, A);
    s->chart.lows = lows;
    s->chart.highs = highs;
    s->chart.colour = HS_CHART_COLD;
    s->chart.y_high = axis_top(high);
    return true;
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

/* Sets the range of a grid's colours, of which [n] values are known or NAN. `which`: shares from 0, or from a
 * half on (1), numbers from 0 to the highest (2), or decibels from the lowest to the highest (3). */
static void grid_range(hs_panel *panel, size_t n, int which)
{
    float low = INFINITY, high = -INFINITY;
    for (size_t k = 0; k < n; k++) {
        low = fminf(low, panel->values[k]); /* pass over NAN */
        high = fmaxf(high, panel->values[k]);
    }
    const bool is_known = low <= high;
    panel->low = which == 1 ? 0.5f : which == 3 && is_known ? low : 0;
    panel->high = which == 2 ? fmaxf(high, 0.1f) : which == 3 && is_known ? high : 1;
    if (!(panel->high > panel->low))
        panel->high = panel->low + 1; /* all are equal */
}

/* Layers by heads. */
static hs_status grid_draw(hs__drawing *d, const hs__report_panel *p, hs__indices at, hs_picture *ret,
                           hs_error *err)
{
    if (!hs__report_has(d->report, p->array))
        return HS_OK;
    const size_t L = d->o.n_layers, A = d->o.n_heads, n = L * A;
    grid_labels g = {.texts = calloc(n + L + A, sizeof *g.texts),
                     .labels = calloc(n + L + A, sizeof *g.labels)};
    float *values = calloc(n + 1, sizeof *values);
    const bool ok = g.texts && g.labels && values;
    hs_status st = ok ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory for the report");
    for (size_t k = 0; ok && k < n + L + A; k++)
        if (k >= n)
            label_set(&g, k, "%.0f", (double)(k < n + L ? d->o.layers[k - n] : k - n - L));
        else {
            at.l = k / A;
            at.h = k % A;
            const double value = number_at(d, p, p->array, at);
            values[k] = (float)value;
            label_set(&g, k,
                      !isfinite(value) ? ""
                      : p->which == 3  ? "%.0f"
                                       : "%.2f",
                      fabs(value) < 0.005 ? 0 : value); /* never -0 */
        }
    hs_panel panel = {.n_rows = L,
                      .n_columns = A,
                      .values = values,
                      .row_labels = g.labels + n,
                      .column_labels = g.labels + n + L,
                      .cell_labels = g.labels,
                      .row_title = "layer",
                      .column_title = "head",
                      .unit = p->y_label,
                      .palette = HS_PALETTE_GREEN};
    snprintf(panel.title, sizeof panel.title, "%s", p->title);
    if (ok) {
        grid_range(&panel, n, p->which);
        st = panel_draw(&panel, fmin(WIDE, 40 + 9 * (double)A), ret, err);
    }
    free(values);
    free(g.texts);
    free(g.labels);
    return st;
}

/* Lines over the layers, or with stacks what adds up to 1: names, and members of layer_figures. */
static const struct layer_lines {
    hs_chart_kind kind;
    size_t n;
    const char *names[5], *members[5];
} layer_lines[] = {
    {HS_CHART_LINES, 3, {"precision", "recall", "F1"}, {"precision", "recall", "f1"}},
    {HS_CHART_STACKS,
     5,
     {"first token", "separators", "sentence ends", "commas", "the rest"},
     {"mass_cls", "mass_sep", "mass_end", "mass_comma", "mass_rest"}},
    {HS_CHART_LINES,
     4,
     {"first token", "itself", "previous token", "next token"},
     {"attention_first", "attention_self", "attention_previous", "attention_next"}},
};

/* Returns n without the last lists of L values that have none: cross heads have no attention on a token
 * itself.
 */
static size_t lists_there(const double *values, size_t n, size_t L)
{
    for (; n > 1; n--)
        for (size_t l = 0; l < L; l++)
            if (isfinite(values[(n - 1) * L + l]))
                return n;
    return n;
}

static bool layers_fill(hs__drawing *d, const hs__report_panel *p, hs__indices at, struct hs__sheet *s)
{
    const struct layer_lines *lines = &layer_lines[p->which];
    const size_t L = d->o.n_layers;
    for (size_t k = 0; k < lines->n; k++)
        for (at.l = 0; at.l < L; at.l++) {
            char path[64];
            snprintf(path, sizeof path, "layer_figures.T.L.%s", lines->members[k]);
            d->places[at.l] = d->o.layers[at.l];
            d->values[k * L + at.l] = hs__report_number_at(d->report, path, at);
        }
    series_set(s, lines->kind, lists_there(d->values, lines->n, L), L);
    s->chart.names = lines->names;
    return true;
}

/* ---- all of them ---- */

#define TOKEN     "token position"
#define SUMMED    "attention, heads summed"
#define TEXTS     "share of texts"
#define PAIRS     "share of pairs"
#define ATTENTION "share of attention"
#define THRESHOLD "similarity threshold"
#define FREQUENT  "share of the 50 most frequent"

static const hs__report_panel panels[] = {
    {"attention", "lh", NULL, KEY, QUERY, "mean attention", .draw = map_draw},
    {"attention_layer", "l", ", all heads", KEY, QUERY, SUMMED, .draw = map_draw},
    {"without_columns", "l", ", without high-attention columns", KEY, QUERY, SUMMED, .draw = map_draw},
    {"without_diagonal", "l", ", without the diagonal too", KEY, QUERY, SUMMED, .draw = map_draw},
    {"location", "lh", NULL, TOKEN, TOKEN, TEXTS, .draw = map_draw},
    {"similarity", "l", ", similarity", TOKEN, TOKEN, "similarity S, heads summed", .draw = map_draw},
    {"normalized", "l", ", normalised similarity", TOKEN, TOKEN, "normalised similarity N", .draw = map_draw},
    {"first_text", "l", ", similarity of the first text", TOKEN, TOKEN, "similarity S, heads summed",
     .draw = map_draw},
    {"repeated", "lt", NULL, "share of repeated tokens in a text", TEXTS, "repeated", .fill = shares_fill},
    {"repeated_in_sentence", "lt", NULL, "share of repeated tokens in one sentence", TEXTS,
     "repeated_same_sentence", .which = 1, .fill = shares_fill},
    {"same_sentence", "lt", NULL, "share within one sentence in a text", TEXTS, "same_sentence", .which = 2,
     .fill = shares_fill},
    {"focal", "lt", NULL, "share with the focal token in a text", TEXTS, "focal", .which = 3,
     .fill = shares_fill},
    {"distance", "lht", NULL, "distance in tokens", PAIRS, "head_figures.T.L.H.mean_distance.value",
     .fill = distances_fill},
    {"distances", "lt", ", all heads", "distance in tokens", PAIRS, "layer_figures.T.L.mean_distance",
     .fill = distances_fill},
    {"unique", "lt", NULL, "different focal tokens among the heads", TEXTS, "unique_focal",
     .fill = unique_fill},
    {"focus", "l", "high-attention tokens", FREQUENT, NULL, "focus", .draw = tokens_draw},
    {"focal_tokens", "l", "focal tokens", FREQUENT, NULL, "focal", .which = 1, .draw = tokens_draw},
    {"normalized_bins", "l", "normalised similarity", "normalised similarity N", PAIRS, "normalized_hist",
     .which = 1, .fill = histogram_fill},
    {"column_bins", "l", "attention columns", "attention that a token gets, as a share of the most",
     "share of columns", "column_hist", .fill = histogram_fill},
    {"sensitivity_repeated", "l", "repeated-token share", THRESHOLD, PAIRS, "repeated_share",
     .fill = sensitivity_fill},
    {"sensitivity_sentence", "l", "same-sentence share", THRESHOLD, PAIRS, "same_sentence_share",
     .fill = sensitivity_fill},
    {"sensitivity_distance", "l", "mean distance", THRESHOLD, "tokens", "mean_distance",
     .fill = sensitivity_fill},
    {"sensitivity_focal", "l", "focal share", THRESHOLD, PAIRS, "focal_share", .fill = sensitivity_fill},
    {"stability_repeated", "lt", "repeated-token share", "head", PAIRS, "repeated_share",
     .fill = stability_fill},
    {"stability_sentence", "lt", "same-sentence share", "head", PAIRS, "same_sentence_share",
     .fill = stability_fill},
    {"stability_distance", "lt", "mean distance", "head", "tokens", "mean_distance", .fill = stability_fill},
    {"stability_focal", "lt", "focal share", "head", PAIRS, "focal_share", .fill = stability_fill},
    {"noise_snr", "", "Signal-to-noise ratio: identity and sentence beyond position and distance", NULL,
     "decibels", "head_figures.T.L.H.snr_db", .which = 3, .draw = grid_draw},
    {"noise_auc", "", "Chance that a signal pair is more similar than a noise pair", NULL,
     "area under the ROC curve", "head_figures.T.L.H.auc", .which = 1, .draw = grid_draw},
    {"noise_auc_within", "", "The same within distances", NULL, "area under the ROC curve",
     "head_figures.T.L.H.auc_within_distances", .which = 1, .draw = grid_draw},
    {"noise_dprime", "", "Distance of signal from noise, d'", NULL, "standard deviations",
     "head_figures.T.L.H.dprime", .which = 2, .draw = grid_draw},
    {"noise_dprime_within", "", "The same within distances", NULL, "standard deviations",
     "head_figures.T.L.H.dprime_within_distances", .which = 2, .draw = grid_draw},
    {"importance", "", "Gradient importance, of its layer's length", NULL, "share",
     "importance.normalized.L.H", .draw = grid_draw},
    {"masses", "", "Where attention goes", "layer", ATTENTION, .which = 1, .fill = layers_fill},
    {"neighbours", "", "Attention on the first token and along the diagonal", "layer", ATTENTION, .which = 2,
     .fill = layers_fill},
    {"profile_first", "", "Attention on the first token", NULL, ATTENTION, "profiles_first.L.H",
     .draw = grid_draw},
    {"profile_self", "", "Attention on the token itself", NULL, ATTENTION, "profiles_self.L.H",
     .draw = grid_draw},
    {"profile_previous", "", "Attention on the previous token", NULL, ATTENTION, "profiles_previous.L.H",
     .draw = grid_draw},
    {"profile_next", "", "Attention on the next token", NULL, ATTENTION, "profiles_next.L.H",
     .draw = grid_draw},
    {"boundaries", "", "Boundaries by attention against sentence ends", "layer", "share",
     .fill = layers_fill},
    {"heads", "lt", .write = hs__heads_write},
};
enum { N_PANELS = sizeof panels / sizeof *panels };

const hs__report_panel *hs__panel_at(size_t k)
{
    if (k < N_PANELS)
        return &panels[k];
    k -= N_PANELS;
    for (size_t c = 0; c < HS__N_COUNTERS; c++) {
        if (k < hs__counters[c]->n_panels)
            return &hs__counters[c]->panels[k];
        k -= hs__counters[c]->n_panels;
    }
    return NULL;
}

hs_status hs__panel_draw(hs__drawing *d, const hs__report_panel *p, hs__indices at, hs_picture *ret,
                         hs_error *err)
{
    struct hs__sheet s;
    if (p->draw)
        return p->draw(d, p, at, ret, err);
    sheet_begin(&s, d, p, at);
    return p->fill(d, p, at, &s) ? hs_chart_draw(&s.chart, ret, err) : HS_OK;
}
