/* comparison_html.c - comparison.html: for each figure a chart over the runs, maps of heads, and tables with
 * a column for each run. */
#include "api/figures/figure.h"
#include "model/files/json.h"
#include "server/base/version.h"
#include "server/corpus/counters/cut_attention.h"
#include "server/corpus/counters/pruning.h"
#include "server/corpus/counters/signal_noise.h"
#include "server/corpus/report/comparison.h"
#include "server/corpus/report/tables.h"
#include "server/corpus/report/training_curves.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FONT       8.0   /* points */
#define CHART_WIDE 150.0 /* mm */
#define MAPS_WIDE  200.0

enum {
    OVER_RUNS_LEAST = 3, /* runs of which a chart over the runs is drawn */
    CELLS_MAX = 6000,    /* of one figure's table of heads; comparison.csv has all */
    TERMS_MAX = 16,
    NAME_BYTES = 24
};

/* The comparison being written. Runs of models with different numbers of layers have `depths`: the relative
 * depths of all layers of all runs, ascending. Charts and tables of layers are over them. */
typedef struct view {
    const json_t *json, *runs, *layers, *depths_of_runs;
    size_t n_runs, n_layers, n_heads; /* n_heads: 0 without figures of heads */
    size_t n_depths;
    double *depths;
    char (*names)[NAME_BYTES]; /* of runs, then of layers: "run 0", "layer 3" */
    const char **labels;       /* the same */
    double *xs;                /* [run], then [layer]: its number */
    double *chance;            /* [run], [layer] or [depth] */
    double *values;            /* [layer][head][run], [depth][run], or less */
    float *cells;              /* of the maps, as many */
} view;

static void view_finish(view *v)
{
    free(v->names);
    free(v->labels);
    free(v->xs);
    free(v->depths);
    free(v->chance);
    free(v->values);
    free(v->cells);
}

/* Returns true if a run has the figure. */
static bool is_known(const view *v, const hs__compared_figure *figure)
{
    return json_object_get(json_object_get(v->json, "layer_figures"), figure->name);
}

static bool has_figures(const view *v)
{
    return v->n_layers || v->n_depths;
}

static int depth_compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Lists the depths of all runs, each once. */
static hs_status depths_list(view *v, hs_error *err)
{
    size_t n = 0, n_different = 0;
    for (size_t r = 0; r < v->n_runs; r++)
        n += json_array_size(json_array_get(v->depths_of_runs, r));
    v->depths = calloc(n + 1, sizeof *v->depths);
    if (!v->depths)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the comparison");
    n = 0;
    for (size_t r = 0; r < v->n_runs; r++)
        for (size_t l = 0; l < json_array_size(json_array_get(v->depths_of_runs, r)); l++)
            v->depths[n++] = hs__report_number_at(v->depths_of_runs, "T.L", (hs__indices){.t = r, .l = l});
    qsort(v->depths, n, sizeof *v->depths, depth_compare);
    for (size_t i = 0; i < n; i++)
        if (!n_different || v->depths[i] > v->depths[n_different - 1])
            v->depths[n_different++] = v->depths[i];
    v->n_depths = n_different;
    return HS_OK;
}

static hs_status view_init(view *v, const json_t *json, hs_error *err)
{
    *v = (view){.json = json,
                .runs = json_object_get(json, "runs"),
                .layers = json_object_get(json, "layers"),
                .depths_of_runs = json_object_get(json, "depths"),
                .n_heads = (size_t)json_integer_value(json_object_get(json, "heads"))};
    v->n_runs = json_array_size(v->runs);
    v->n_layers = json_array_size(v->layers);
    if (depths_list(v, err))
        return HS_NO_MEMORY;
    const size_t n_names = v->n_runs + v->n_layers;
    const size_t n_values = v->n_runs * (v->n_layers + v->n_depths + 1) * (v->n_heads + 1);
    v->names = calloc(n_names + 1, sizeof *v->names);
    v->labels = calloc(n_names + 1, sizeof *v->labels);
    v->xs = calloc(n_names + 1, sizeof *v->xs);
    v->chance = calloc(n_names + v->n_depths + 1, sizeof *v->chance);
    v->values = calloc(n_values + 1, sizeof *v->values);
    v->cells = calloc(n_values + 1, sizeof *v->cells);
    if (!v->names || !v->labels || !v->xs || !v->chance || !v->values || !v->cells)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the comparison");
    for (size_t i = 0; i < n_names; i++) {
        const bool is_run = i < v->n_runs;
        const long long number =
            is_run ? (long long)i : (long long)json_integer_value(json_array_get(v->layers, i - v->n_runs));
        snprintf(v->names[i], NAME_BYTES, "%s %lld", is_run ? "run" : "layer", number);
        v->labels[i] = v->names[i];
        v->xs[i] = (double)number;
    }
    return HS_OK;
}

/* ---- drawing ---- */

/* The lines of a chart: v->values [n_series][n]. */
typedef struct lines {
    const char *x_title;
    const double *xs, *chance;
    const char *const *names;
    size_t n, n_series;
} lines;

/* Draws lines of v->values, each over xs. chance: NULL for none. */
static hs_status chart_write(const view *v, const hs__compared_figure *figure, const lines *of, FILE *out,
                             hs_error *err)
{
    hs_picture picture = {0};
    hs_chart chart = {.kind = HS_CHART_LINES,
                      .title = figure->title,
                      .x_title = of->x_title,
                      .y_title = figure->unit,
                      .xs = of->xs,
                      .values = v->values,
                      .chance = of->chance,
                      .n = of->n,
                      .n_series = of->n_series,
                      .names = of->names,
                      .colour = HS_CHART_COLD,
                      .mark_x = NAN,
                      .mark_y = NAN,
                      .width_mm = CHART_WIDE,
                      .height_mm = 70,
                      .font_pt = FONT};
    for (size_t i = 0; i < of->n_series * of->n; i++) {
        chart.y_low = fmin(chart.y_low, v->values[i]); /* pass over NAN */
        chart.y_high = fmax(chart.y_high, v->values[i]);
    }
    for (size_t i = 0; of->chance && i < of->n; i++)
        chart.y_high = fmax(chart.y_high, of->chance[i]);
    chart.y_high = chart.y_high > chart.y_low ? chart.y_high + 0.08 * (chart.y_high - chart.y_low) : 1;
    return hs__svg_write(hs_chart_draw(&chart, &picture, err), &picture, out, err);
}

/* Draws a map of layers x heads for each of a few runs, or of heads x runs for each layer. */
static hs_status maps_write(const view *v, const hs__compared_figure *about, const json_t *of_heads,
                            FILE *out, hs_error *err)
{
    const bool by_run = v->n_runs < OVER_RUNS_LEAST;
    const size_t n_panels = by_run ? v->n_runs : v->n_layers;
    const size_t n_rows = by_run ? v->n_layers : v->n_heads, n_columns = by_run ? v->n_heads : v->n_runs;
    hs_picture picture = {0};
    hs_panel *panels = calloc(n_panels, sizeof *panels);
    float low = 0, high = 0;
    if (!panels)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the comparison");
    for (size_t i = 0; i < n_panels * n_rows * n_columns; i++) {
        const size_t panel = i / (n_rows * n_columns), row = i / n_columns % n_rows, column = i % n_columns;
        const hs__indices at = by_run ? (hs__indices){.t = panel, .l = row, .h = column}
                                      : (hs__indices){.t = column, .l = panel, .h = row};
        v->cells[i] = (float)hs__report_number_at(of_heads, "T.L.H", at);
        low = fminf(low, v->cells[i]);
        high = fmaxf(high, v->cells[i]);
    }
    const float most = fmaxf(fmaxf(high, -low), 1e-6f);
    for (size_t k = 0; k < n_panels; k++) {
        panels[k] = (hs_panel){.n_rows = n_rows,
                               .n_columns = n_columns,
                               .values = v->cells + k * n_rows * n_columns,
                               .name = by_run ? "heads" : NULL,
                               .row_title = by_run ? "layer" : "head",
                               .column_title = by_run ? "head" : "run",
                               .unit = about->unit,
                               .palette = low < 0 ? HS_PALETTE_SIGNED : HS_PALETTE_GREEN,
                               .low = low < 0 ? -most : 0,
                               .high = most};
        snprintf(panels[k].title, sizeof panels[k].title, "%s", v->labels[by_run ? k : v->n_runs + k]);
    }
    const hs_figure figure = {.title = about->title,
                              .caption = by_run ? "layers by heads" : "heads by runs",
                              .panels = panels,
                              .n_panels = n_panels,
                              .n_across = n_panels < 4 ? n_panels : 4,
                              .width_mm = by_run ? CHART_WIDE : MAPS_WIDE,
                              .font_pt = FONT};
    const hs_status st = hs__svg_write(hs_figure_draw(&figure, &picture, err), &picture, out, err);
    free(panels);
    return st;
}

/* ---- tables ---- */

static const char *run_name(const view *v, size_t r)
{
    const char *name = json_string_value(json_object_get(json_array_get(v->runs, r), "name"));
    return name ? name : "–";
}

static void text_cell(FILE *out, const char *element, const json_t *text)
{
    fprintf(out, "<%s>", element);
    hs__html_text(out, json_is_string(text) ? json_string_value(text) : "–");
    fprintf(out, "</%.2s>", element);
}

/* Begins a table with a column for each run, and for their difference if there is one. */
static void runs_table_begin(const view *v, const char *first, bool has_difference, FILE *out)
{
    fprintf(out, "<div class=\"wide\"><table class=\"numbers compared\"><thead><tr><th scope=\"col\">%s</th>",
            first);
    for (size_t r = 0; r < v->n_runs; r++)
        text_cell(out, "th scope=\"col\"", json_object_get(json_array_get(v->runs, r), "name"));
    if (has_difference && v->n_runs > 1)
        fprintf(out, "<th scope=\"col\">%s</th>", v->n_runs > 2 ? "Last − first" : "First − second");
    fputs("</tr></thead><tbody>\n", out);
}

static const char *value_format(double value, const char *unit)
{
    return strcmp(unit, "share") == 0 ? "%.1f %%" : value == trunc(value) ? "%.0f" : "%.3f";
}

static double scale_of(const char *unit)
{
    return strcmp(unit, "share") == 0 ? 100 : 1;
}

static void value_write(FILE *out, double value, const char *unit)
{
    hs__cell_write(out, scale_of(unit) * value, value_format(value, unit));
}

/* Writes a value with its interval, a list of two numbers, if there is one. */
static void value_write_with(FILE *out, double value, const json_t *interval, const char *unit)
{
    const double scale = scale_of(unit), low = hs__report_number_at(interval, "L", (hs__indices){.l = 0}),
                 high = hs__report_number_at(interval, "L", (hs__indices){.l = 1});
    if (!isfinite(value) || !isfinite(low) || !isfinite(high)) {
        value_write(out, value, unit);
        return;
    }
    fputs("<td>", out);
    fprintf(out, value_format(value, unit), scale * value);
    fprintf(out, " <span class=\"muted\">(%.3g to %.3g)</span></td>", scale * low, scale * high);
}

/* Writes a row of v->values from `at` on, behind the cell that names it. The difference of shares is in
 * percentage points. intervals: [run][layer] of layer l, or NULL. */
static void values_row(const view *v, size_t at, const json_t *intervals, size_t l, const char *unit,
                       FILE *out)
{
    const double *values = v->values + at;
    const bool is_share = strcmp(unit, "share") == 0;
    for (size_t r = 0; r < v->n_runs; r++)
        value_write_with(out, values[r], json_array_get(json_array_get(intervals, r), l), unit);
    if (v->n_runs > 1) {
        const double difference = v->n_runs > 2 ? values[v->n_runs - 1] - values[0] : values[0] - values[1];
        hs__cell_write(out, is_share ? 100 * difference : difference, is_share ? "%+.1f pp" : "%+.3f");
    }
    fputs("</tr>\n", out);
}

static void heads_table(const view *v, const hs__compared_figure *figure, FILE *out)
{
    fputs("<details><summary>Numbers of heads</summary>", out);
    if (v->n_layers * v->n_heads * v->n_runs > CELLS_MAX) {
        fputs(
            "<p class=\"muted\">The table would be too long here. The CSV and JSON files of this comparison "
            "have it.</p></details>\n",
            out);
        return;
    }
    runs_table_begin(v, "Head", true, out);
    for (size_t i = 0; i < v->n_layers * v->n_heads; i++) {
        fputs("<tr><th scope=\"row\">", out);
        hs__head_write(out, json_integer_value(json_array_get(v->layers, i / v->n_heads)),
                       (long long)(i % v->n_heads));
        fputs("</th>", out);
        values_row(v, i * v->n_runs, NULL, 0, figure->unit, out);
    }
    hs__table_end(out);
    fputs("</details>\n", out);
}

/* ---- sections ---- */

/* Fills v->values [run][layer] of a figure. */
static void runs_fill(view *v, const json_t *of_runs)
{
    for (size_t r = 0; r < v->n_runs; r++)
        for (size_t l = 0; l < v->n_layers; l++)
            v->values[r * v->n_layers + l] =
                hs__report_number_at(of_runs, "T.L", (hs__indices){.t = r, .l = l});
}

/* Fills v->values [layer][run] of a figure. */
static void layers_fill(view *v, const json_t *of_runs)
{
    for (size_t l = 0; l < v->n_layers; l++)
        for (size_t r = 0; r < v->n_runs; r++)
            v->values[l * v->n_runs + r] =
                hs__report_number_at(of_runs, "T.L", (hs__indices){.t = r, .l = l});
}

/* Returns a run's figure at a relative depth: of its layer there, or `between` two layers the value on the
 * line through them. NAN: there is none. of_run: [layer]. */
static double depth_value(const view *v, const json_t *of_run, size_t r, double depth, bool between)
{
    double x_before = NAN, before = NAN;
    for (size_t l = 0; l < json_array_size(of_run); l++) {
        const double x = hs__report_number_at(v->depths_of_runs, "T.L", (hs__indices){.t = r, .l = l});
        const double value = hs__report_number_at(of_run, "L", (hs__indices){.l = l});
        if (x >= depth)
            return x == depth ? value
                   : between  ? before + (value - before) * (depth - x_before) / (x - x_before)
                              : (double)NAN;
        x_before = x;
        before = value;
    }
    return NAN;
}

/* Fills v->values [run][depth] of a figure for a chart, or [depth][run] for a table. */
static void depths_fill(view *v, const json_t *of_runs, bool for_chart)
{
    for (size_t r = 0; r < v->n_runs; r++)
        for (size_t k = 0; k < v->n_depths; k++)
            v->values[for_chart ? r * v->n_depths + k : k * v->n_runs + r] =
                depth_value(v, json_array_get(of_runs, r), r, v->depths[k], for_chart);
}

static bool is_lift(const hs__compared_figure *figure)
{
    return strcmp(figure->unit, "lift") == 0;
}

/* Returns the chance of a figure in each run, or NULL. Over layers: that of the runs if all agree. */
static const double *chance_fill(view *v, const hs__compared_figure *figure, bool over_layers)
{
    char name[64];
    for (size_t i = 0; is_lift(figure) && i < v->n_runs + v->n_layers + v->n_depths; i++)
        v->chance[i] = 1;
    if (is_lift(figure))
        return v->chance;
    snprintf(name, sizeof name, "chance_%s", figure->name);
    const json_t *of_runs = json_object_get(json_object_get(v->json, "run_figures"), name);
    const double first = hs__report_number_at(of_runs, "T", (hs__indices){0});
    bool agree = true;
    for (size_t r = 0; r < v->n_runs; r++) {
        v->chance[r] = hs__report_number_at(of_runs, "T", (hs__indices){.t = r});
        agree &= fabs(v->chance[r] - first) <= 0.005 * fabs(first); /* closer than a line is wide */
    }
    for (size_t l = 0; over_layers && l < v->n_layers + v->n_depths; l++)
        v->chance[l] = first;
    return of_runs && (agree || !over_layers) ? v->chance : NULL;
}

/* Draws a figure by relative depth with a line for each run, if those are few. */
static hs_status depths_write(view *v, const hs__compared_figure *figure, const json_t *of_depths, FILE *out,
                              hs_error *err)
{
    if (v->n_runs > HS_CHART_LINES_MAX || v->n_depths < 2)
        return HS_OK;
    depths_fill(v, of_depths, true);
    return chart_write(v, figure,
                       &(lines){.x_title = "relative depth",
                                .xs = v->depths,
                                .chance = chance_fill(v, figure, true),
                                .names = v->labels,
                                .n = v->n_depths,
                                .n_series = v->n_runs},
                       out, err);
}

/* Draws a figure of layers: by layer with a line for each run, if those are few; and over many runs. */
static hs_status charts_write(view *v, const hs__compared_figure *figure, const json_t *of_layers, FILE *out,
                              hs_error *err)
{
    const bool by_layer = v->n_runs <= HS_CHART_LINES_MAX && v->n_layers > 1;
    hs_status st = HS_OK;
    if (by_layer) {
        runs_fill(v, of_layers);
        st = chart_write(v, figure,
                         &(lines){.x_title = "layer",
                                  .xs = v->xs + v->n_runs,
                                  .chance = chance_fill(v, figure, true),
                                  .names = v->labels,
                                  .n = v->n_layers,
                                  .n_series = v->n_runs},
                         out, err);
    }
    if (st || (by_layer && v->n_runs < OVER_RUNS_LEAST))
        return st;
    layers_fill(v, of_layers);
    return chart_write(v, figure,
                       &(lines){.x_title = "run",
                                .xs = v->xs,
                                .chance = chance_fill(v, figure, false),
                                .names = v->labels + v->n_runs,
                                .n = v->n_runs,
                                .n_series = v->n_layers},
                       out, err);
}

/* Fills v->values [layer][head][run]. */
static void heads_fill(view *v, const json_t *of_runs)
{
    for (size_t i = 0; i < v->n_layers * v->n_heads * v->n_runs; i++) {
        const size_t r = i % v->n_runs, head = i / v->n_runs;
        const hs__indices at = {.t = r, .l = head / v->n_heads, .h = head % v->n_heads};
        v->values[i] = hs__report_number_at(of_runs, "T.L.H", at);
    }
}

/* Writes the table of a figure's layers. */
static void layers_table(view *v, const hs__compared_figure *figure, FILE *out)
{
    const json_t *of_layers = json_object_get(json_object_get(v->json, "layer_figures"), figure->name);
    const json_t *intervals = json_object_get(json_object_get(v->json, "layer_intervals"), figure->name);
    layers_fill(v, of_layers);
    runs_table_begin(v, "Layer", true, out);
    for (size_t l = 0; l < v->n_layers; l++) {
        fprintf(out, "<tr><th scope=\"row\">%s</th>", v->labels[v->n_runs + l] + strlen("layer "));
        values_row(v, l * v->n_runs, intervals, l, figure->unit, out);
    }
    hs__table_end(out);
}

/* Writes the table of a figure by relative depth. */
static void depths_table(view *v, const hs__compared_figure *figure, const json_t *of_depths, FILE *out)
{
    depths_fill(v, of_depths, false);
    runs_table_begin(v, "Relative depth", true, out);
    for (size_t k = 0; k < v->n_depths; k++) {
        fprintf(out, "<tr><th scope=\"row\">%.2f</th>", v->depths[k]);
        values_row(v, k * v->n_runs, NULL, 0, figure->unit, out);
    }
    hs__table_end(out);
}

static hs_status figure_write(view *v, const hs__compared_figure *figure, FILE *out, hs_error *err)
{
    const json_t *of_layers = json_object_get(json_object_get(v->json, "layer_figures"), figure->name);
    const json_t *of_depths = json_object_get(json_object_get(v->json, "depth_figures"), figure->name);
    const json_t *of_heads =
        v->n_layers ? json_object_get(json_object_get(v->json, "head_figures"), figure->name) : NULL;
    fprintf(out, "<figure id=\"figure-%s\" aria-label=\"%s\"><h2>%s</h2><div class=\"panels\">\n",
            figure->name, figure->title, figure->title);
    hs_status st = of_depths ? depths_write(v, figure, of_depths, out, err)
                             : charts_write(v, figure, of_layers, out, err);
    if (!st && of_heads)
        st = maps_write(v, figure, of_heads, out, err);
    const bool has_chance = chance_fill(v, figure, v->n_runs < OVER_RUNS_LEAST);
    fprintf(out, "</div><figcaption>%s%s%s.%s</figcaption><details><summary>Numbers of layers</summary>",
            of_depths ? "By relative depth, from the first layer (0) to the last (1)" : "By layer",
            figure->of_layer ? "" : ": the mean of its heads",
            !of_heads                     ? ""
            : v->n_runs < OVER_RUNS_LEAST ? "; below, a map of layers and heads for each run"
                                          : "; below, heads from top to bottom and runs from left to right",
            !has_chance       ? ""
            : is_lift(figure) ? " Dashed: as by chance, from pairs as far apart."
                              : " Dashed: expected by chance, from pairs drawn at random.");
    if (of_depths)
        depths_table(v, figure, of_depths, out);
    else
        layers_table(v, figure, out);
    fputs("</details>\n", out);
    if (of_heads) {
        heads_fill(v, of_heads);
        heads_table(v, figure, out);
    }
    fputs("</figure>\n", out);
    return st;
}

static void runs_write(const view *v, FILE *out)
{
    static const hs__column columns[] = {
        {"Run", NULL, NULL},
        {"Model", "name", NULL},
        {"Layers", "provenance.model.layers", NULL},
        {"Precision", "provenance.model.precision", NULL},
        {"Date", "provenance.date", NULL},
        {"Input", "provenance.input.files.L", NULL}, /* the first */
        {"SHA-256 of the weights", "provenance.model.sha256", NULL},
    };
    hs__table_begin(out, columns, HS__N(columns));
    for (size_t r = 0; r < v->n_runs; r++) {
        fprintf(out, "<tr><th scope=\"row\">%zu</th>", r);
        hs__cells_write(out, columns + 1, HS__N(columns) - 1, json_array_get(v->runs, r), (hs__indices){0});
        fputs("</tr>\n", out);
    }
    hs__table_end(out);
}

static void header_write(const view *v, FILE *out)
{
    const json_t *warnings = json_object_get(v->json, "warnings");
    fprintf(
        out,
        "<header><h1>%zu run%s compared</h1><p>Figures of each run at threshold %.6g, in the order given%s. "
        "Made by headscope ",
        v->n_runs, v->n_runs == 1 ? "" : "s", json_number_value(json_object_get(v->json, "threshold")),
        json_object_get(v->json, "training") ? " or, of one training, by step" : "");
    hs__html_text(out, json_string_value(json_object_get(v->json, "headscope")));
    fputs(".</p>\n", out);
    for (size_t i = 0; i < json_array_size(warnings); i++) {
        fputs("<p role=\"note\"><strong>Note:</strong> ", out);
        hs__html_text(out, json_string_value(json_array_get(warnings, i)));
        fputs("</p>\n", out);
    }
    runs_write(v, out);
    fputs("</header>\n<nav class=\"contents\" aria-label=\"Contents\"><h2>Contents</h2><ul>\n", out);
    if (json_object_get(v->json, "training"))
        fputs("<li><a href=\"#training\">Steps and seeds</a></li>\n", out);
    fputs("<li><a href=\"#findings\">Findings</a></li>\n<li><a href=\"#evidence\">Evidence</a></li>\n"
          "<li><a href=\"#totals\">Whole runs</a></li>\n",
          out);
    if (json_object_get(v->json, "syntax"))
        fputs("<li><a href=\"#syntax\">Heads and syntax</a></li>\n", out);
    if (json_object_get(v->json, "signal_noise_terms"))
        fputs("<li><a href=\"#noise-terms\">Signal to noise by term</a></li>\n", out);
    if (json_object_get(v->json, "pruning"))
        fputs("<li><a href=\"#pruning\">Pruning</a></li>\n", out);
    if (json_object_get(v->json, "cut_attention"))
        fputs("<li><a href=\"#cut-attention\">Cut attention</a></li>\n", out);
    if (json_object_get(v->json, "rank_correlations"))
        fputs("<li><a href=\"#agreement\">Agreement about heads</a></li>\n", out);
    fputs("<li><a href=\"#methods\">Methods and citation</a></li>\n", out);
    for (size_t f = 0; has_figures(v) && f < hs__n_compared_figures; f++)
        if (is_known(v, &hs__compared_figures[f]))
            fprintf(out, "<li><a href=\"#figure-%s\">%s</a></li>\n", hs__compared_figures[f].name,
                    hs__compared_figures[f].title);
    fputs("</ul></nav>\n", out);
}

static void findings_write(const view *v, FILE *out)
{
    const json_t *findings = json_object_get(v->json, "findings");
    fputs("<section id=\"findings\" aria-label=\"Findings\"><h2>Findings</h2><p class=\"muted\">The paper's "
          "claims, and whether each run has them. Trained for: the model's training aimed at the claim, so "
          "it is no evidence. The run's own report has the values and criteria.</p>\n",
          out);
    runs_table_begin(v, "Claim", false, out);
    for (size_t k = 0; k < json_array_size(findings); k++) {
        const json_t *finding = json_array_get(findings, k), *holds = json_object_get(finding, "holds");
        fputs("<tr>", out);
        text_cell(out, "th scope=\"row\"", json_object_get(finding, "claim"));
        for (size_t r = 0; r < v->n_runs; r++) {
            const json_t *held = json_array_get(holds, r);
            const char *word = json_is_true(held) ? "yes" : json_is_false(held) ? "no" : "–";
            const char *verdict = json_string_value(json_array_get(json_object_get(finding, "verdict"), r));
            fprintf(out, "<td class=\"holds %s\">", json_is_boolean(held) ? word : "unknown");
            hs__html_text(out, verdict ? verdict : word);
            fputs("</td>", out);
        }
        fputs("</tr>\n", out);
    }
    hs__table_end(out);
    fputs("</section>\n", out);
}

/* Writes a figure of the evidence with its interval; a dash if the run has none. Shares are in per cent. */
static void interval_write(FILE *out, const json_t *figure, const char *unit)
{
    const hs__indices none = {0};
    const double factor = unit && strcmp(unit, "%") == 0 ? 100 : 1;
    const double value = factor * hs__report_number_at(figure, "value", none),
                 low = factor * hs__report_number_at(figure, "low", none),
                 high = factor * hs__report_number_at(figure, "high", none);
    if (!isfinite(value)) {
        fputs("<td>–</td>", out);
        return;
    }
    fprintf(out, "<td>%.3g%s", value, factor > 1 ? " %" : "");
    if (low < high)
        fprintf(out, " <span class=\"muted\">(%.3g to %.3g)</span>", low, high);
    fputs("</td>", out);
}

/* Writes what each claim rests on, beside its controls: a row for each run. */
static void evidence_write(const view *v, FILE *out)
{
    static const char *const members[] = {"observed", "chance", "lengths", "untrained"};
    const json_t *findings = json_object_get(v->json, "findings");
    fputs("<section id=\"evidence\" aria-label=\"Evidence\"><h2>Evidence</h2><p class=\"muted\">The figure "
          "that each claim rests on, with 95 % intervals over texts, beside what may show it without the "
          "claim: chance, the pairs of the longest outputs, and a network with random weights.</p>\n"
          "<div class=\"wide\"><table class=\"numbers compared\"><thead><tr><th scope=\"col\">Run</th>"
          "<th scope=\"col\">Observed</th><th scope=\"col\">Chance</th><th scope=\"col\">Longest "
          "outputs</th><th scope=\"col\">Untrained</th><th scope=\"col\">Verdict</th></tr></thead><tbody>\n",
          out);
    for (size_t k = 0; k < json_array_size(findings); k++) {
        const json_t *finding = json_array_get(findings, k), *of_runs = json_object_get(finding, "evidence");
        fputs(k ? "</tbody><tbody><tr>" : "<tr>", out);
        text_cell(out, "th scope=\"rowgroup\" colspan=\"6\"", json_object_get(finding, "claim"));
        fputs("</tr>\n", out);
        for (size_t r = 0; r < v->n_runs; r++) {
            const json_t *evidence = json_array_get(of_runs, r);
            const char *unit = json_string_value(json_object_get(evidence, "unit"));
            fputs("<tr>", out);
            text_cell(out, "th scope=\"row\"", json_object_get(json_array_get(v->runs, r), "name"));
            for (size_t m = 0; m < HS__N(members); m++)
                interval_write(out, json_object_get(evidence, members[m]), unit);
            text_cell(out, "td", json_array_get(json_object_get(finding, "verdict"), r));
            fputs("</tr>\n", out);
        }
    }
    hs__table_end(out);
    fputs("</section>\n", out);
}

/* ---- signal and noise, pruning, cut attention ---- */

/* Writes the signal-to-noise ratio of each run by term. */
static void noise_write(const view *v, FILE *out)
{
    const json_t *of_runs = json_object_get(v->json, "signal_noise_terms");
    if (!of_runs)
        return;
    fputs(
        "<section id=\"noise-terms\" aria-label=\"Signal to noise by term\"><h2>Signal to noise by term</h2>"
        "<p class=\"muted\">What identity (the same token), sentence and product (both at once) explain of S "
        "that all other terms do not, beside a network with random weights. Terms overlap, so their ratios "
        "do "
        "not add up to that of all. The highest of many heads is chosen in the same texts, there as "
        "here.</p>\n"
        "<div class=\"wide\"><table class=\"numbers compared\"><thead><tr>",
        out);
    for (size_t k = 0; k < HS__NOISE_COLUMNS; k++)
        fprintf(out, "<th scope=\"col\">%s</th>", hs__noise_columns[k].title);
    fputs("</tr></thead><tbody>\n", out);
    for (size_t r = 0; r < v->n_runs; r++) {
        const json_t *terms = json_array_get(of_runs, r);
        fprintf(out, "%s<tr><th scope=\"rowgroup\" colspan=\"%d\">", r ? "</tbody><tbody>" : "",
                HS__NOISE_COLUMNS);
        hs__html_text(out, run_name(v, r));
        fputs("</th></tr>\n", out);
        for (size_t k = 0; k < json_array_size(terms) && k < TERMS_MAX; k++) {
            fputs("<tr>", out);
            hs__noise_cells_write(out, json_array_get(terms, k));
            fputs("</tr>\n", out);
        }
    }
    hs__table_end(out);
    fputs("</section>\n", out);
}

/* Writes the pruning curves of the runs that have them. */
static hs_status pruning_write(const view *v, FILE *out, hs_error *err)
{
    const json_t *of_runs = json_object_get(v->json, "pruning");
    hs_status st = HS_OK;
    if (!of_runs)
        return HS_OK;
    fputs(
        "<section id=\"pruning\" aria-label=\"Pruning\"><h2>Pruning</h2><p class=\"muted\">The loss as heads "
        "go, the lowest of each order first. The area is that below the mean curve of three random orders, "
        "over "
        "the fraction of heads: above 0 the order says more about use than chance.</p>\n",
        out);
    for (size_t r = 0; !st && r < v->n_runs; r++) {
        const json_t *pruning = json_array_get(of_runs, r);
        if (!json_is_object(pruning))
            continue;
        fputs("<h3>", out);
        hs__html_text(out, run_name(v, r));
        fputs("</h3><div class=\"panels\">", out);
        for (size_t kind = 0; !st && kind < HS__PRUNING_KINDS; kind++) {
            hs_picture picture = {0};
            st = hs__svg_write(hs__pruning_chart_draw(pruning, kind, &picture, err), &picture, out, err);
        }
        fputs("</div>", out);
        hs__pruning_table_write(pruning, out);
    }
    fputs("</section>\n", out);
    return st;
}

/* Writes what each run that measured it loses without attention to far tokens. */
static void cut_attention_write(const view *v, FILE *out)
{
    const json_t *of_runs = json_object_get(v->json, "cut_attention");
    if (!of_runs)
        return;
    fputs(
        "<section id=\"cut-attention\" aria-label=\"Cut attention\"><h2>Cut attention</h2><p "
        "class=\"muted\">The loss of predictions, and what it becomes if no head attends farther than so "
        "many tokens, by the nearest copy of the predicted token that the model sees: none, one within this "
        "distance (near), or only farther ones (far).</p>\n",
        out);
    for (size_t r = 0; r < v->n_runs; r++) {
        const json_t *own = json_array_get(of_runs, r);
        if (!json_is_object(own))
            continue;
        fputs("<h3>", out);
        hs__html_text(out, run_name(v, r));
        hs__html_filled(out, own, ": {distance} tokens</h3>");
        hs__cut_attention_table_write(own, out);
    }
    fputs("</section>\n", out);
}

/* ---- agreement, methods ---- */

/* Writes the rank correlations of each run with the one before it. */
static void agreement_write(const view *v, FILE *out)
{
    const char *name;
    json_t *rows;
    const json_t *figures = json_object_get(v->json, "rank_correlations");
    if (!figures)
        return;
    fputs("<section id=\"agreement\" aria-label=\"Agreement about heads\"><h2>Agreement about heads</h2>"
          "<p class=\"muted\">Spearman's correlation over all heads: 1 if a run orders the heads by the "
          "figure as the run before it does, 0 if the orders have nothing in common. The JSON file has all "
          "pairs of runs. Heads of models that were trained apart have no common order, so values near 0 are "
          "to be expected there.</p>\n<div class=\"wide\"><table class=\"numbers compared\"><thead><tr>"
          "<th scope=\"col\">Figure</th>",
          out);
    for (size_t r = 1; r < v->n_runs; r++)
        fprintf(out, "<th scope=\"col\">Runs %zu and %zu</th>", r - 1, r);
    fputs("</tr></thead><tbody>\n", out);
    json_object_foreach(json_object_get(v->json, "rank_correlations"), name, rows)
    {
        fputs("<tr>", out);
        for (size_t f = 0; f < hs__n_compared_figures; f++)
            if (strcmp(hs__compared_figures[f].name, name) == 0)
                fprintf(out, "<th scope=\"row\">%s</th>", hs__compared_figures[f].title);
        for (size_t r = 1; r < v->n_runs; r++)
            hs__cell_write(out, hs__report_number_at(rows, "T.L", (hs__indices){.t = r, .l = r - 1}), "%.2f");
        fputs("</tr>\n", out);
    }
    hs__table_end(out);
    fputs("</section>\n", out);
}

/* Writes a value of the provenance as JSON, and text as it is. Returns false if memory is short. */
static bool choice_cell(FILE *out, const json_t *value)
{
    char *text = value ? hs_json_text(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(6)) : NULL;
    fputs("<td>", out);
    hs__html_text(out, json_is_string(value) ? json_string_value(value) : text ? text : "–");
    fputs("</td>", out);
    const bool whole = !value || text;
    free(text);
    return whole;
}

/* Returns an object of a run's provenance, or NULL. */
static json_t *choices_of(const view *v, size_t r, const char *object)
{
    return json_object_get(json_object_get(json_array_get(v->runs, r), "provenance"), object);
}

/* Writes a row for each member that an object of the first run's provenance has. Returns false if memory is
 * short. */
static bool choices_write(const view *v, const char *object, FILE *out)
{
    const char *name;
    json_t *first;
    bool whole = true;
    json_object_foreach(choices_of(v, 0, object), name, first)
    {
        fputs("<tr><th scope=\"row\">", out);
        hs__html_text(out, name);
        fputs("</th>", out);
        for (size_t r = 0; r < v->n_runs; r++)
            whole &= choice_cell(out, json_object_get(choices_of(v, r, object), name));
        fputs("</tr>\n", out);
    }
    return whole;
}

/* Writes how the runs were made, choice by choice, and what to cite. */
static hs_status methods_write(const view *v, FILE *out, hs_error *err)
{
    static const char *const objects[] = {"model", "input", "options"}; /* of the provenance */
    fputs("<section id=\"methods\" aria-label=\"Methods and citation\"><h2>Methods and citation</h2>"
          "<p>Figures are those of each run's report at the threshold above: sums over all texts, with 95 % "
          "intervals of a bootstrap over texts. The formulas are in docs/reference/formulas.md of headscope. "
          "A claim holds if its intervals clear the criterion, has no effect if a control shows as much, and "
          "is marked if the model was trained for it. The table has every choice of each run.</p>\n"
          "<details><summary>All choices</summary>",
          out);
    runs_table_begin(v, "Choice", false, out);
    bool whole = true;
    for (size_t i = 0; i < HS__N(objects); i++)
        whole &= choices_write(v, objects[i], out);
    hs__table_end(out);
    fputs(
        "</details>\n<div class=\"wide\"><pre>@article{halevi2025,\n"
        "  title = {Self-attention vector output similarities reveal how machines pay attention},\n"
        "  author = {Halevi, Tal and Tzach, Yarden and Gross, Ronit D. and Rosner, Shalom and Kanter, Ido},\n"
        "  year = {2025},\n  eprint = {2512.21956},\n  archivePrefix = {arXiv}\n}\n"
        "@software{headscope,\n  title = {headscope},\n  author = {{The headscope developers}},\n"
        "  version = {" HS_VERSION "}\n}</pre></div></section>\n",
        out);
    return whole ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory for the comparison");
}

/* Fills v->values [run] of a figure of whole runs. Returns false if there is none. */
static bool total_fill(view *v, const hs__compared_figure *about)
{
    const json_t *of_runs = json_object_get(json_object_get(v->json, "run_figures"), about->name);
    for (size_t r = 0; r < v->n_runs; r++)
        v->values[r] = hs__report_number_at(of_runs, "T", (hs__indices){.t = r});
    return of_runs != NULL;
}

/* Writes the figures of whole runs, with a chart of each that models differ in. */
static hs_status totals_write(view *v, FILE *out, hs_error *err)
{
    hs_status st = HS_OK;
    fputs("<section id=\"totals\" aria-label=\"Whole runs\"><h2>Whole runs</h2>\n", out);
    runs_table_begin(v, "Figure", true, out);
    for (size_t k = 0; k < hs__n_compared_totals; k++) {
        const hs__compared_figure *about = &hs__compared_totals[k];
        if (!total_fill(v, about))
            continue;
        fprintf(out, "<tr><th scope=\"row\">%s</th>", about->title);
        values_row(v, 0, NULL, 0, about->unit, out);
    }
    hs__table_end(out);
    fputs("<div class=\"panels\">", out);
    for (size_t k = 0; !st && k < hs__n_compared_totals; k++) {
        const hs__compared_figure *about = &hs__compared_totals[k];
        const bool is_drawn = v->n_runs > 1 && (strncmp(about->name, "masked", 6) == 0 ||
                                                strncmp(about->name, "label", 5) == 0);
        if (is_drawn && total_fill(v, about))
            st = chart_write(v, about,
                             &(lines){.x_title = "run",
                                      .xs = v->xs,
                                      .names = (const char *const[]){about->title},
                                      .n = v->n_runs,
                                      .n_series = 1},
                             out, err);
    }
    fputs("</div></section>\n", out);
    return st;
}

static void syntax_write(view *v, FILE *out)
{
    static const char *const kinds[][2] = {{"attention_to_head", "From the dependent to its head"},
                                           {"attention_to_dependent", "From the head to its dependent"}};
    const json_t *syntax = json_object_get(v->json, "syntax");
    if (!syntax)
        return;
    fputs("<section id=\"syntax\" aria-label=\"Heads and syntax\"><h2>Heads and syntax</h2><p "
          "class=\"muted\">How often the best head of each run is right about a relation.</p>\n",
          out);
    for (size_t k = 0; k < 2; k++) {
        fprintf(out, "<h3>%s</h3>", kinds[k][1]);
        runs_table_begin(v, "Relation", false, out);
        for (size_t i = 0; i < json_array_size(syntax); i++) {
            const json_t *row = json_array_get(syntax, i), *right = json_object_get(row, kinds[k][0]);
            fputs("<tr>", out);
            text_cell(out, "th scope=\"row\"", json_object_get(row, "relation"));
            for (size_t r = 0; r < v->n_runs; r++)
                value_write(out, hs__report_number_at(right, "T", (hs__indices){.t = r}), "share");
            fputs("</tr>\n", out);
        }
        hs__table_end(out);
    }
    fputs("</section>\n", out);
}

static hs_status body_write(view *v, const hs__read_check *check, FILE *out, hs_error *err)
{
    header_write(v, out);
    fputs("<main>\n", out);
    hs_status st = hs__curves_write(v->json, out, err);
    findings_write(v, out);
    evidence_write(v, out);
    if (!st)
        st = totals_write(v, out, err);
    syntax_write(v, out);
    noise_write(v, out);
    if (!st)
        st = pruning_write(v, out, err);
    cut_attention_write(v, out);
    agreement_write(v, out);
    if (!st)
        st = methods_write(v, out, err);
    for (size_t f = 0; !st && has_figures(v) && f < hs__n_compared_figures; f++)
        if (is_known(v, &hs__compared_figures[f]) && !(st = hs__read_allow(check, 0, err)))
            st = figure_write(v, &hs__compared_figures[f], out, err);
    fputs("</main>\n", out);
    return st;
}

hs_status hs__comparison_html_write(FILE *file, const json_t *comparison, const hs__read_check *check,
                                    hs_error *err)
{
    view v;
    hs_status st = view_init(&v, comparison, err);
    if (!st)
        st = hs__page_write(file, HS__PAGE_HEAD, err);
    if (!st)
        st = body_write(&v, check, file, err);
    if (!st)
        st = hs__page_write(file, HS__PAGE_MIDDLE, err);
    if (!st)
        st = hs__page_write(file, HS__PAGE_TAIL, err);
    view_finish(&v);
    return st;
}
