/* panels.c - every panel is a row of one table: numbers out of the statistics, then a chart. */
#include "server/corpus/report/panels.h"

#include "model/tokenizer/readable_token.h"
#include "server/corpus/report/charts.h"
#include "server/corpus/report/tables.h"

#include <math.h>
#include <string.h>

enum { NOTHING, REPEATED, SAME_SENTENCE, REPEATED_SAME_SENTENCE, DISTANCE, FOCAL };

/* ---- numbers ---- */

/* n elements of an array from `first` on, to ret; zeros when there is no such array. */
static void numbers_read(const hs__drawing *d, const char *name, size_t first, size_t n, double *ret)
{
    memset(ret, 0, n * sizeof *ret);
    for (size_t k = 0; k < d->n_arrays; k++) {
        if (strcmp(d->arrays[k].name, name) != 0)
            continue;
        if (d->arrays[k].is_float) {
            hs_corpus_array_read(d->stats, &d->arrays[k], first, n, ret);
            return;
        }
        hs_corpus_array_read(d->stats, &d->arrays[k], first, n, d->counts);
        for (size_t i = 0; i < n; i++)
            ret[i] = (double)d->counts[i];
    }
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

static caption title_of(const hs__drawing *d, const hs__panel *p, hs__place at)
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

static void map_draw(hs__drawing *d, const hs__panel *p, hs__place at, FILE *out)
{
    const bool headed = strchr(p->axes, 'h') != NULL;
    const hs__report_map *map = hs__report_map_find(d->maps, p->name, at.l, headed ? at.h : HS__NO_HEAD);
    const caption title = title_of(d, p, at);
    char key[64];
    double values[256];
    if (!map)
        return;
    const double *range = map->ranges[HS__RANGE_99];
    const bool two_sided = map->ranges[HS__RANGE_ALL][0] < 0;
    const double far = fmax(fabs(range[0]), fabs(range[1])), most = far > 0 ? far : 1;
    snprintf(key, sizeof key, headed ? "%s:%zu:%zu" : "%s:%zu", p->name, at.l, at.h);
    hs__heatmap m = {.title = title.text,
                     .x_label = p->x_label,
                     .y_label = p->y_label,
                     .unit = p->array,
                     .key = key,
                     .tokens = (double)d->o.tokens_max,
                     .low = two_sided ? -most : range[0],
                     .high = two_sided ? most : range[1],
                     .warm = p->which,
                     .two_sided = two_sided,
                     .side = d->maps->side,
                     .values = values};
    for (int b = 0; d->pictures && b < 256; b++)
        values[b] = hs__report_map_value(map, (unsigned char)b);
    if (d->pictures) {
        hs__report_map_spread(d->maps, map, d->pixels);
        m.bytes = d->pixels;
    }
    hs__chart_heatmap(out, &m);
}

/* ---- shares in a text, a line for each head ---- */

static double texts_least(const hs__drawing *d, hs__place at)
{
    double least = INFINITY;
    numbers_read(d, "texts_with_high", cell(d, at), d->o.n_heads, d->values);
    for (size_t h = 0; h < d->o.n_heads; h++)
        least = fmin(least, d->values[h]);
    return least;
}

static void shares_draw(hs__drawing *d, const hs__panel *p, hs__place at, FILE *out)
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
    hs__axes axes = hs__axes_of(title.text, p->x_label, d->places, n, 1.08 * highest(d->values, A * n));
    axes.y_label = "share of texts";
    axes.width = 760;
    axes.height = 320;
    axes.aside = true;
    const hs__chart c = hs__chart_begin(out, &axes);
    hs__chart_lines(&c, &(hs__lines){.xs = d->places, .values = d->values, .n = n, .n_lines = A});
    snprintf(label, sizeof label, "chance %.3g %%", 100 * chance);
    hs__chart_mark_x(&c, chance, label);
    hs__chart_end(&c);
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

static void distances_draw(hs__drawing *d, const hs__panel *p, hs__place at, FILE *out)
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
        return;
    hs__axes axes = hs__axes_of(title.text, p->x_label, d->places, n,
                                1.08 * fmax(highest(d->values, n), highest(chance, n)));
    axes.y_label = p->y_label;
    axes.width = headed ? 290 : 640;
    axes.height = headed ? 180 : 210;
    const hs__chart c = hs__chart_begin(out, &axes);
    hs__chart_bars(&c, d->places, d->values, n, HS__CHART_WARM);
    hs__chart_chance(&c, d->places, chance, n);
    snprintf(label, sizeof label, "mean %.1f", mean);
    hs__chart_mark_x(&c, mean, label);
    hs__chart_end(&c);
}

/* ---- focal tokens ---- */

static void unique_draw(hs__drawing *d, const hs__panel *p, hs__place at, FILE *out)
{
    const size_t n = d->o.n_heads + 1;
    const double mean = hs_corpus_layer_read(d->stats, at.t, at.l).unique_focal;
    const caption title = title_of(d, p, at);
    char label[32];
    places_make(d, n, 0, 1);
    numbers_read(d, p->array, (at.t * d->o.n_layers + at.l) * n, n, d->values);
    shares_make(d->values, n);
    hs__axes axes = hs__axes_of(title.text, p->x_label, d->places, n, 1.08 * highest(d->values, n));
    axes.y_label = p->y_label;
    axes.width = 640;
    const hs__chart c = hs__chart_begin(out, &axes);
    hs__chart_bars(&c, d->places, d->values, n, HS__CHART_WARM);
    snprintf(label, sizeof label, "mean %.2f", mean);
    hs__chart_mark_x(&c, mean, label);
    hs__chart_end(&c);
}

enum { RANKED = 12 };

enum { NAME_BYTES = 96 };

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
static void tokens_draw(hs__drawing *d, const hs__panel *p, hs__place at, FILE *out)
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
    hs__chart_ranking(out, &(hs__ranking){.title = title.text,
                                          .x_label = p->x_label,
                                          .colour = p->which ? HS__CHART_WARM : HS__CHART_COLD,
                                          .names = names,
                                          .values = d->values,
                                          .n = n});
}

/* ---- thresholds ---- */

/* A histogram on [0, 1] of all heads of a layer, counted on a logarithmic scale; `which` bins come before. */
static void histogram_draw(hs__drawing *d, const hs__panel *p, hs__place at, FILE *out)
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
    hs__axes axes = hs__axes_of(title.text, p->x_label, d->places, HS_CORPUS_BINS, 0);
    axes.y_label = p->y_label;
    axes.y_low = -7;
    axes.y_high = 0;
    axes.y_log = true;
    const hs__chart c = hs__chart_begin(out, &axes);
    hs__chart_bars(&c, d->places, d->values + before, HS_CORPUS_BINS,
                   similarity ? HS__CHART_WARM : HS__CHART_COLD);
    const float tau = similarity ? d->o.thresholds[d->o.threshold_main] : d->o.attention_threshold;
    snprintf(label, sizeof label, "threshold %.3g", (double)tau);
    hs__chart_mark_x(&c, (double)tau, label);
    hs__chart_end(&c);
}

static void sensitivity_draw(hs__drawing *d, const hs__panel *p, hs__place at, FILE *out)
{
    const size_t n = d->o.n_thresholds, A = d->o.n_heads;
    const caption title = title_of(d, p, at);
    for (size_t t = 0; t < n; t++)
        d->places[t] = (double)d->o.thresholds[t];
    for (at.h = 0; at.h < A; at.h++)
        for (at.t = 0; at.t < n; at.t++)
            d->values[at.h * n + at.t] = figure_of(d, p->which, at).value;
    const double chance = chance_of(d, p->which);
    hs__axes axes = hs__axes_of(title.text, "similarity threshold", d->places, n,
                                1.1 * fmax(highest(d->values, A * n), chance));
    axes.aside = true;
    axes.width = 500;
    axes.height = 270;
    const hs__chart c = hs__chart_begin(out, &axes);
    hs__chart_lines(&c, &(hs__lines){.xs = d->places, .values = d->values, .n = n, .n_lines = A});
    hs__chart_mark_y(&c, chance, "chance");
    hs__chart_end(&c);
}

static void stability_draw(hs__drawing *d, const hs__panel *p, hs__place at, FILE *out)
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
    hs__axes axes = hs__axes_of(title.text, "head", d->places, A, 1.1 * high);
    const hs__chart c = hs__chart_begin(out, &axes);
    hs__chart_dots(&c, d->places, d->values, spreads, A);
    hs__chart_end(&c);
}

/* ---- layers ---- */

/* Layers by heads of what d->values holds, from low to high. */
static void heads_grid(hs__drawing *d, const hs__panel *p, double low, double high, FILE *out)
{
    for (size_t l = 0; l < d->o.n_layers; l++)
        d->places[l] = d->o.layers[l];
    hs__chart_grid(out, &(hs__grid){.title = p->title,
                                    .row_label = "layer",
                                    .column_label = "head",
                                    .rows = d->places,
                                    .values = d->values,
                                    .n_rows = d->o.n_layers,
                                    .n_columns = d->o.n_heads,
                                    .low = low,
                                    .high = high});
}

static void profile_draw(hs__drawing *d, const hs__panel *p, hs__place at, FILE *out)
{
    (void)at;
    numbers_read(d, p->array, 0, d->o.n_layers * d->o.n_heads, d->values);
    heads_grid(d, p, 0, 1, out);
}

static void noise_draw(hs__drawing *d, const hs__panel *p, hs__place at, FILE *out)
{
    const size_t A = d->o.n_heads, n = d->o.n_layers * A;
    for (size_t k = 0; k < n; k++) {
        const hs_corpus_head head = hs_corpus_head_read(d->stats, at.t, k / A, k % A);
        d->values[k] = p->which ? head.auc : head.dprime;
    }
    heads_grid(d, p, p->which ? 0.5 : 0, p->which ? 1 : fmax(highest(d->values, n), 0.1), out);
}

static void layers_chart(hs__drawing *d, const hs__panel *p, const char *const *names, size_t n_lines,
                         FILE *out)
{
    const size_t L = d->o.n_layers;
    for (size_t l = 0; l < L; l++)
        d->places[l] = d->o.layers[l];
    hs__axes axes = hs__axes_of(p->title, "layer", d->places, L, 1);
    axes.y_label = p->y_label;
    axes.aside = true;
    axes.width = 520;
    axes.height = 280;
    const hs__lines lines = {
        .xs = d->places, .values = d->values, .n = L, .n_lines = n_lines, .names = names};
    const hs__chart c = hs__chart_begin(out, &axes);
    if (p->which)
        hs__chart_stacks(&c, &lines);
    else
        hs__chart_lines(&c, &lines);
    hs__chart_end(&c);
}

static void masses_draw(hs__drawing *d, const hs__panel *p, hs__place at, FILE *out)
{
    static const char *const names[] = {"first token", "separators", "sentence ends", "commas", "the rest"};
    const size_t L = d->o.n_layers;
    for (size_t l = 0; l < L; l++) {
        const hs_corpus_layer f = hs_corpus_layer_read(d->stats, at.t, l);
        const double shares[] = {f.mass_cls, f.mass_sep, f.mass_end, f.mass_comma, f.mass_rest};
        for (size_t k = 0; k < 5; k++)
            d->values[k * L + l] = shares[k];
    }
    layers_chart(d, p, names, 5, out);
}

/* Attention on the first token, on and beside the diagonal. */
static void neighbours_draw(hs__drawing *d, const hs__panel *p, hs__place at, FILE *out)
{
    static const char *const names[] = {"first token", "itself", "one before", "one behind"};
    const size_t L = d->o.n_layers;
    for (size_t l = 0; l < L; l++) {
        const hs_corpus_layer f = hs_corpus_layer_read(d->stats, at.t, l);
        d->values[l] = f.on_first;
        d->values[L + l] = f.on_self;
        d->values[2 * L + l] = f.on_previous;
        d->values[3 * L + l] = f.on_next;
    }
    layers_chart(d, p, names, 4, out);
}

static void boundaries_draw(hs__drawing *d, const hs__panel *p, hs__place at, FILE *out)
{
    static const char *const names[] = {"precision", "recall", "F1"};
    const size_t L = d->o.n_layers;
    for (size_t l = 0; l < L; l++) {
        const hs_corpus_layer f = hs_corpus_layer_read(d->stats, at.t, l);
        d->values[l] = f.precision;
        d->values[L + l] = f.recall;
        d->values[2 * L + l] = f.f1;
    }
    layers_chart(d, p, names, 3, out);
}

/* ---- tables ---- */

static void heads_draw(hs__drawing *d, const hs__panel *p, hs__place at, FILE *out)
{
    (void)p;
    hs__heads_write(d, at.l, at.t, out);
}

static void examples_draw(hs__drawing *d, const hs__panel *p, hs__place at, FILE *out)
{
    (void)p;
    hs__examples_write(d, at.l, out);
}

#define KEY   "key position"
#define QUERY "query position"
#define TOKEN "token position"

const hs__panel hs__panels[] = {
    {"attention", "lh", map_draw, NULL, KEY, QUERY, "mean attention", 0},
    {"attention_layer", "l", map_draw, ", all heads", KEY, QUERY, "attention, heads summed", 0},
    {"without_columns", "l", map_draw, ", without columns of H", KEY, QUERY, "attention, heads summed", 0},
    {"without_diagonal", "l", map_draw, ", nor the diagonal", KEY, QUERY, "attention, heads summed", 0},
    {"location", "lh", map_draw, NULL, TOKEN, TOKEN, "share of texts", 1},
    {"similarity", "l", map_draw, ", S", TOKEN, TOKEN, "S, heads summed", 1},
    {"normalized", "l", map_draw, ", N", TOKEN, TOKEN, "N, heads summed", 1},
    {"first_text", "l", map_draw, ", S of the first text", TOKEN, TOKEN, "S, heads summed", 1},
    {"repeated", "lt", shares_draw, NULL, "share of repeated tokens in a text", NULL, "repeated_hist",
     REPEATED},
    {"repeated_in_sentence", "lt", shares_draw, NULL, "share of repeated tokens in one sentence", NULL,
     "repeated_same_sentence_hist", REPEATED_SAME_SENTENCE},
    {"same_sentence", "lt", shares_draw, NULL, "share within one sentence in a text", NULL,
     "same_sentence_hist", SAME_SENTENCE},
    {"focal", "lt", shares_draw, NULL, "share with the focal token in a text", NULL, "focal_hist", NOTHING},
    {"distance", "lht", distances_draw, NULL, "distance in tokens", "share of pairs", NULL, 0},
    {"distances", "lt", distances_draw, ", all heads", "distance in tokens", "share of pairs", NULL, 0},
    {"unique", "lt", unique_draw, NULL, "different focal tokens among the heads", "share of texts",
     "unique_focal", 0},
    {"focus", "l", tokens_draw, "high-attention tokens", "share of the 50 most frequent", NULL, "focus", 0},
    {"focal_tokens", "l", tokens_draw, "focal tokens", "share of the 50 most frequent", NULL, "focal", 1},
    {"normalized_bins", "l", histogram_draw, "normalised similarity", "N", "share of pairs",
     "normalized_hist", 1},
    {"column_bins", "l", histogram_draw, "attention columns", "c / max c", "share of columns", "column_hist",
     0},
    {"sensitivity_repeated", "l", sensitivity_draw, "repeated-token share", NULL, NULL, NULL, REPEATED},
    {"sensitivity_sentence", "l", sensitivity_draw, "same-sentence share", NULL, NULL, NULL, SAME_SENTENCE},
    {"sensitivity_distance", "l", sensitivity_draw, "mean distance", NULL, NULL, NULL, DISTANCE},
    {"sensitivity_focal", "l", sensitivity_draw, "focal share", NULL, NULL, NULL, FOCAL},
    {"stability_repeated", "lt", stability_draw, "repeated-token share", NULL, NULL, NULL, REPEATED},
    {"stability_sentence", "lt", stability_draw, "same-sentence share", NULL, NULL, NULL, SAME_SENTENCE},
    {"stability_distance", "lt", stability_draw, "mean distance", NULL, NULL, NULL, DISTANCE},
    {"stability_focal", "lt", stability_draw, "focal share", NULL, NULL, NULL, FOCAL},
    {"noise_auc", "", noise_draw, "Area under the ROC curve", NULL, NULL, NULL, 1},
    {"noise_dprime", "", noise_draw, "d'", NULL, NULL, NULL, 0},
    {"masses", "", masses_draw, "Where attention goes", NULL, "share of attention", NULL, 1},
    {"neighbours", "", neighbours_draw, "Attention on the first token and along the diagonal", NULL,
     "share of attention", NULL, 0},
    {"profile_first", "", profile_draw, "Attention on the first token", NULL, NULL, "profiles_first", 0},
    {"profile_self", "", profile_draw, "On the token itself", NULL, NULL, "profiles_self", 0},
    {"profile_previous", "", profile_draw, "On the one before", NULL, NULL, "profiles_previous", 0},
    {"profile_next", "", profile_draw, "On the one behind", NULL, NULL, "profiles_next", 0},
    {"boundaries", "", boundaries_draw, "Boundaries by attention against sentence ends", NULL, NULL, NULL, 0},
    {"heads", "lt", heads_draw, NULL, NULL, NULL, NULL, 0},
    {"examples", "l", examples_draw, NULL, NULL, NULL, NULL, 0},
};
const size_t hs__n_panels = sizeof hs__panels / sizeof *hs__panels;
