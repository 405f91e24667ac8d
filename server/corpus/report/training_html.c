/* training_html.c - the section of a comparison's page about steps and seeds. It says in how many seeds each
 * claim holds, and draws the figures of claims over the steps with a line for each seed. */
#include "server/corpus/report/training_curves.h"

#include "api/figures/figure.h"
#include "server/corpus/report/comparison.h"
#include "server/corpus/report/html.h"
#include "server/corpus/report/report_value.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Points of a line: the untrained network, a gap, and the steps. */
enum { LABEL_BYTES = 32, BEFORE_STEPS = 2, POINTS_MAX = HS__COMPARED_RUNS_MAX + BEFORE_STEPS };

/* A curve of the comparison. */
typedef struct page_curve {
    const json_t *comparison, *curve, *runs;
    size_t n_steps, n_seeds;
    char steps[POINTS_MAX][LABEL_BYTES], seeds[HS__COMPARED_RUNS_MAX][LABEL_BYTES];
    const char *step_labels[POINTS_MAX], *seed_labels[HS__COMPARED_RUNS_MAX];
    double xs[POINTS_MAX], chance[POINTS_MAX];
    double values[]; /* [n_seeds][BEFORE_STEPS + n_steps] */
} page_curve;

static size_t size_of(const json_t *curve, const char *member)
{
    return json_array_size(json_object_get(curve, member));
}

/* Writes "step 1000", or the name of an unknown one. */
static void label_write(char ret[LABEL_BYTES], const char *word, const json_t *number, const char *unknown)
{
    if (json_is_integer(number))
        snprintf(ret, LABEL_BYTES, "%s%lld", word, (long long)json_integer_value(number));
    else
        snprintf(ret, LABEL_BYTES, "%s", unknown);
}

/* Returns a curve (malloc'ed); NULL if memory is short. */
static page_curve *page_curve_make(const json_t *comparison, const json_t *curve)
{
    const size_t n_steps = size_of(curve, "steps"), n_seeds = size_of(curve, "seeds");
    page_curve *c = calloc(1, sizeof *c + n_seeds * (n_steps + BEFORE_STEPS) * sizeof *c->values);
    if (!c)
        return NULL;
    c->comparison = comparison;
    c->curve = curve;
    c->runs = json_object_get(curve, "runs");
    c->n_steps = n_steps;
    c->n_seeds = n_seeds;
    snprintf(c->steps[0], LABEL_BYTES, "untrained");
    for (size_t s = 0; s < n_steps; s++)
        label_write(c->steps[s + BEFORE_STEPS], "", json_array_get(json_object_get(curve, "steps"), s),
                    "trained");
    for (size_t k = 0; k < n_seeds; k++)
        label_write(c->seeds[k], "seed ", json_array_get(json_object_get(curve, "seeds"), k),
                    n_seeds > 1 ? "no seed" : "one seed");
    for (size_t s = 0; s < n_steps + BEFORE_STEPS; s++) {
        c->step_labels[s] = c->steps[s];
        c->xs[s] = (double)s;
    }
    for (size_t k = 0; k < n_seeds; k++)
        c->seed_labels[k] = c->seeds[k];
    return c;
}

/* Returns a number of a run; NAN if the curve lacks that run. path: in `of`, with T for the run. */
static double number_of(const page_curve *c, const json_t *of, const char *path, size_t step, size_t seed)
{
    const double r = hs__report_number_at(c->runs, "T.L", (hs__indices){.t = step, .l = seed});
    return isnan(r) ? r : hs__report_number_at(of, path, (hs__indices){.t = (size_t)r});
}

/* Returns the number of the seed's first run that has one. */
static double first_number_of(const page_curve *c, const json_t *of, const char *path, size_t seed)
{
    double number = NAN;
    for (size_t s = 0; isnan(number) && s < c->n_steps; s++)
        number = number_of(c, of, path, s, seed);
    return number;
}

/* ---- charts ---- */

/* Where the numbers of a chart are. Paths have T for the run; NULL: there are none. */
typedef struct source {
    const char *title, *unit;
    const json_t *of;
    const char *observed, *untrained, *chance;
    double scale;
} source;

/* Fills c->values and c->chance. Returns the index of the first point: 0 if there is an untrained network,
 * else that of the first step. */
static size_t values_fill(page_curve *c, const source *from, bool *ret_has_chance)
{
    const size_t n = c->n_steps + BEFORE_STEPS;
    bool has_untrained = false;
    *ret_has_chance = false;
    for (size_t k = 0; k < c->n_seeds; k++) {
        c->values[k * n] = from->scale * first_number_of(c, from->of, from->untrained, k);
        has_untrained |= isfinite(c->values[k * n]);
        c->values[k * n + 1] = NAN;
        for (size_t s = 0; s < c->n_steps; s++)
            c->values[k * n + BEFORE_STEPS + s] = from->scale * number_of(c, from->of, from->observed, s, k);
    }
    c->chance[0] = c->chance[1] = NAN;
    for (size_t s = 0; s < c->n_steps; s++) {
        double sum = 0, n_known = 0;
        for (size_t k = 0; k < c->n_seeds; k++) {
            const double chance = from->scale * number_of(c, from->of, from->chance, s, k);
            sum += isfinite(chance) ? chance : 0;
            n_known += isfinite(chance);
        }
        c->chance[s + BEFORE_STEPS] = n_known > 0 ? sum / n_known : (double)NAN;
        *ret_has_chance |= n_known > 0;
    }
    return has_untrained ? 0 : BEFORE_STEPS;
}

/* Moves each line of values to those from the first point on. */
static void values_trim(page_curve *c, size_t first)
{
    const size_t n = c->n_steps + BEFORE_STEPS;
    for (size_t k = 0; k < c->n_seeds; k++)
        memmove(c->values + k * (n - first), c->values + k * n + first, (n - first) * sizeof *c->values);
}

static hs_status curve_draw(page_curve *c, const source *from, FILE *out, hs_error *err)
{
    bool has_chance;
    const size_t first = values_fill(c, from, &has_chance);
    hs_picture picture = {0};
    hs_chart chart = {.kind = HS_CHART_LINES,
                      .title = from->title,
                      .x_title = "training step, at equal distances",
                      .y_title = from->unit,
                      .xs = c->xs + first,
                      .x_labels = c->step_labels + first,
                      .values = c->values,
                      .chance = has_chance ? c->chance + first : NULL,
                      .n = c->n_steps + BEFORE_STEPS - first,
                      .n_series = c->n_seeds,
                      .names = c->seed_labels,
                      .mark_x = NAN,
                      .mark_y = NAN,
                      .width_mm = 90,
                      .height_mm = 55,
                      .font_pt = 8};
    values_trim(c, first);
    for (size_t i = 0; i < chart.n_series * chart.n; i++) {
        chart.y_low = fmin(chart.y_low, c->values[i]); /* pass over NAN */
        chart.y_high = fmax(chart.y_high, c->values[i]);
    }
    for (size_t i = 0; has_chance && i < chart.n; i++)
        chart.y_high = fmax(chart.y_high, chart.chance[i]);
    chart.y_high = chart.y_high > chart.y_low ? chart.y_high + 0.08 * (chart.y_high - chart.y_low) : 1;
    return hs__svg_write(hs_chart_draw(&chart, &picture, err), &picture, out, err);
}

/* Returns the source of a claim's figure, from the first run that has one. */
static source claim_source(const json_t *finding)
{
    const json_t *evidence = json_object_get(finding, "evidence");
    source from = {.of = evidence,
                   .observed = "T.observed.value",
                   .untrained = "T.untrained.value",
                   .chance = "T.chance.value",
                   .scale = 1};
    for (size_t r = 0; !from.title && r < json_array_size(evidence); r++) {
        from.title = json_string_value(json_object_get(json_array_get(evidence, r), "figure"));
        from.unit = json_string_value(json_object_get(json_array_get(evidence, r), "unit"));
    }
    if (from.unit && strcmp(from.unit, "%") == 0)
        from.scale = 100;
    return from;
}

static source total_source(const page_curve *c, const hs__compared_figure *figure)
{
    const bool is_share = strcmp(figure->unit, "share") == 0;
    return (source){.title = figure->title,
                    .unit = is_share ? "%" : figure->unit,
                    .of = json_object_get(json_object_get(c->comparison, "run_figures"), figure->name),
                    .observed = "T",
                    .scale = is_share ? 100 : 1};
}

/* ---- tables ---- */

static void head_write(const page_curve *c, const char *first, FILE *out)
{
    fprintf(out, "<div class=\"wide\"><table class=\"numbers compared\"><thead><tr><th scope=\"col\">%s</th>",
            first);
    for (size_t s = 0; s < c->n_steps; s++)
        fprintf(out, "<th scope=\"col\">%s</th>", c->steps[BEFORE_STEPS + s]);
    fputs("</tr></thead><tbody>\n", out);
}

static void row_begin(const char *title, FILE *out)
{
    fputs("<tr><th scope=\"row\">", out);
    hs__html_text(out, title ? title : "–");
    fputs("</th>", out);
}

/* Writes the verdict of one seed, or in how many seeds a claim holds. */
static void verdict_cell(const page_curve *c, const json_t *finding, const json_t *claim, size_t s, FILE *out)
{
    const hs__indices at = {.t = s};
    const double judged = hs__report_number_at(claim, "judged.T", at),
                 hold = hs__report_number_at(claim, "holds.T", at);
    const char *class = judged > 0 && hold == judged ? "yes" : "unknown";
    const char *verdict = NULL;
    for (size_t k = 0; !verdict && k < c->n_seeds; k++) {
        const double r = hs__report_number_at(c->runs, "T.L", (hs__indices){.t = s, .l = k});
        verdict = isnan(r)
                      ? NULL
                      : json_string_value(json_array_get(json_object_get(finding, "verdict"), (size_t)r));
    }
    fprintf(out, "<td class=\"holds %s\">", class);
    if (c->n_seeds > 1 && judged > 0)
        fprintf(out, "%.0f of %.0f", hold, judged);
    else
        hs__html_text(out, verdict ? verdict : "–");
    fputs("</td>", out);
}

static void claims_table(const page_curve *c, FILE *out)
{
    const json_t *findings = json_object_get(c->comparison, "findings");
    const json_t *claims = json_object_get(c->curve, "claims");
    head_write(c, c->n_seeds > 1 ? "Seeds in which the claim holds" : "Claim", out);
    for (size_t k = 0; k < json_array_size(claims); k++) {
        const json_t *finding = json_array_get(findings, k);
        row_begin(json_string_value(json_object_get(finding, "claim")), out);
        for (size_t s = 0; s < c->n_steps; s++)
            verdict_cell(c, finding, json_array_get(claims, k), s, out);
        fputs("</tr>\n", out);
    }
    hs__table_end(out);
}

/* Writes a row of means over seeds, each with its interval or range. */
static void spreads_row(const page_curve *c, const source *from, const json_t *spreads, FILE *out)
{
    char title[160];
    const bool is_share = from->scale > 1;
    snprintf(title, sizeof title, "%s%s%s", from->title, is_share ? "" : ", ",
             is_share || !from->unit ? "" : from->unit);
    row_begin(title, out);
    for (size_t s = 0; s < c->n_steps; s++) {
        const hs__indices at = {.t = s};
        const double mean = from->scale * hs__report_number_at(spreads, "T.mean", at);
        if (isnan(mean))
            fputs("<td>–</td>", out);
        else
            fprintf(out, "<td>%.3g%s <span class=\"muted\">(%.3g to %.3g)</span></td>", mean,
                    is_share ? " %" : "", from->scale * hs__report_number_at(spreads, "T.low", at),
                    from->scale * hs__report_number_at(spreads, "T.high", at));
    }
    fputs("</tr>\n", out);
}

static bool has_total(const page_curve *c, const hs__compared_figure *figure)
{
    return json_object_get(json_object_get(c->curve, "figures"), figure->name);
}

static void spreads_table(const page_curve *c, FILE *out)
{
    const json_t *findings = json_object_get(c->comparison, "findings");
    const json_t *claims = json_object_get(c->curve, "claims");
    if (c->n_seeds < 2)
        return;
    fputs("<details><summary>Numbers: means over seeds</summary><p class=\"muted\">In parentheses: of three "
          "seeds or more, the 95 % interval of the mean over seeds, by Student's t; of two, their "
          "range. Each seed counts once, however many texts it has read.</p>",
          out);
    head_write(c, "Figure", out);
    for (size_t k = 0; k < json_array_size(claims); k++) {
        const source from = claim_source(json_array_get(findings, k));
        if (from.title)
            spreads_row(c, &from, json_object_get(json_array_get(claims, k), "between_seeds"), out);
    }
    for (size_t k = 0; k < hs__n_compared_totals; k++) {
        const source from = total_source(c, &hs__compared_totals[k]);
        if (has_total(c, &hs__compared_totals[k]))
            spreads_row(c, &from,
                        json_object_get(json_object_get(c->curve, "figures"), hs__compared_totals[k].name),
                        out);
    }
    hs__table_end(out);
    fputs("</details>\n", out);
}

/* ---- the section ---- */

static hs_status charts_write(page_curve *c, FILE *out, hs_error *err)
{
    const json_t *findings = json_object_get(c->comparison, "findings");
    hs_status st = HS_OK;
    fputs("<div class=\"panels\">\n", out);
    for (size_t k = 0; !st && k < size_of(c->curve, "claims"); k++) {
        const source from = claim_source(json_array_get(findings, k));
        if (from.title)
            st = curve_draw(c, &from, out, err);
    }
    for (size_t k = 0; !st && k < hs__n_compared_totals; k++) {
        const source from = total_source(c, &hs__compared_totals[k]);
        if (has_total(c, &hs__compared_totals[k]))
            st = curve_draw(c, &from, out, err);
    }
    fputs("</div>\n", out);
    return st;
}

static hs_status curve_write(const json_t *comparison, const json_t *curve, FILE *out, hs_error *err)
{
    const char *family = json_string_value(json_object_get(curve, "family"));
    const char *center = json_string_value(json_object_get(curve, "center"));
    page_curve *c = page_curve_make(comparison, curve);
    if (!c)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the comparison");
    fputs("<h3>", out);
    hs__html_text(out, family && *family ? family : "One training");
    fprintf(out, "%s</h3><p><strong>", center && strcmp(center, "none") != 0 ? ", centred" : "");
    hs__html_text(out, json_string_value(json_object_get(curve, "summary")));
    fputs("</strong></p>\n", out);
    claims_table(c, out);
    const hs_status st = charts_write(c, out, err);
    spreads_table(c, out);
    free(c);
    return st;
}

hs_status hs__curves_write(const json_t *comparison, FILE *out, hs_error *err)
{
    const json_t *curves = json_object_get(comparison, "training");
    hs_status st = HS_OK;
    if (!curves)
        return HS_OK;
    fputs("<section id=\"training\" aria-label=\"Steps and seeds\"><h2>Steps and seeds</h2><p "
          "class=\"muted\">Claims and the figures they rest on, by training step. A claim is judged in each "
          "seed by itself, with intervals over texts. These do not say how much trainings differ, so seeds "
          "are counted, but for those that were trained for the claim. Untrained: the control with random "
          "weights, which is no step. Dashed: chance.</p>\n",
          out);
    for (size_t k = 0; !st && k < json_array_size(curves); k++)
        st = curve_write(comparison, json_array_get(curves, k), out, err);
    fputs("</section>\n", out);
    return st;
}
