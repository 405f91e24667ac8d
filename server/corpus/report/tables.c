/* tables.c - the page of a report: its template and its tables. */
#include "server/corpus/report/tables.h"

#include "model/files/json.h"
#include "server/base/viewer_files.h"
#include "server/corpus/counters/counter.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- page template ----
 *
 * Cuts the page at its two markers. */

#define MARKER(name) "HEADSCOPE-" name

enum { MARKER_BYTES = sizeof MARKER("PAGE") - 1 };

static const char *marker_find(const char *from, const char *end, const char *marker)
{
    return from ? memmem(from, (size_t)(end - from), marker, MARKER_BYTES) : NULL;
}

hs_status hs__page_write(FILE *file, hs__page_piece piece, hs_error *err)
{
    const hs_viewer_file *page = hs__viewer_find("/report.html");
    const char *begin = page ? (const char *)page->data : NULL, *end = page ? begin + page->size : NULL;
    const char *body = marker_find(begin, end, MARKER("PAGE")),
               *data = marker_find(body, end, MARKER("DATA"));
    if (!data)
        return hs_fail(err, HS_UNSUPPORTED, "this build has no report page");
    const char *from =
        piece == HS__PAGE_HEAD ? begin : (piece == HS__PAGE_MIDDLE ? body : data) + MARKER_BYTES;
    const char *to = piece == HS__PAGE_HEAD ? body : piece == HS__PAGE_MIDDLE ? data : end;
    fwrite(from, 1, (size_t)(to - from), file);
    return HS_OK;
}

/* ---- tables ----
 *
 * Header, findings, heads and examples. */

static const json_t *member(const json_t *object, const char *path)
{
    return hs__report_value(object, path, (hs__indices){0});
}

/* ---- header ---- */

static void input_write(const json_t *report, FILE *out)
{
    const json_t *files = member(report, "provenance.input.files");
    fputs("<dt>Input</dt><dd>", out);
    for (size_t i = 0; i < json_array_size(files); i++) {
        fputs(i ? ", " : "", out);
        hs__html_filled(out, json_array_get(files, i), "{}");
    }
    hs__html_filled(out, report, " · SHA-256 {provenance.input.sha256}");
    if (!json_is_true(member(report, "provenance.input.complete")))
        hs__html_filled(out, report,
                        " of the first {provenance.input.lines} lines: the run was stopped there");
    fputs("</dd>", out);
}

/* Writes the precision of the matrix products if it is not fp32. */
static void precision_write(const json_t *report, FILE *out)
{
    hs__html_filled(out, report, "{provenance.model.precision}");
    const char *precision = json_string_value(member(report, "provenance.model.precision"));
    if (precision && strcmp(precision, "bf16") == 0)
        fputs(": weights and activations rounded to bfloat16, good for exploring and for large corpora; "
              "figures for a paper should be computed in fp32",
              out);
    else if (precision && strcmp(precision, "int24") == 0)
        fputs(": weights and activations of 24 bits", out);
    else if (precision && strcmp(precision, "int8") == 0)
        fputs(": weights and activations rounded to bytes, good for exploring, not for figures", out);
}

static void model_write(const json_t *report, FILE *out)
{
    hs__html_filled(
        out, report,
        "<dt>Model</dt><dd>{provenance.model.name} · {provenance.model.layers} layers × {heads} heads · "
        "{provenance.model.backend} ");
    precision_write(report, out);
    hs__html_filled(out, report, "</dd><dt>SHA-256</dt><dd>{provenance.model.sha256}</dd>");
}

/* Writes which of the model's layers were counted. */
static void layers_write(const json_t *report, FILE *out)
{
    const json_t *layers = member(report, "layers");
    const json_int_t n_model = json_integer_value(member(report, "provenance.model.layers"));
    const size_t n = json_array_size(layers);
    fputs("<dt>Layers</dt><dd>", out);
    if ((json_int_t)n == n_model) {
        fprintf(out, "all, 0 to %zu</dd>", n - 1);
        return;
    }
    for (size_t i = 0; i < n; i++)
        fprintf(out, "%s%" JSON_INTEGER_FORMAT, i ? ", " : "", json_integer_value(json_array_get(layers, i)));
    fprintf(out, " of 0 to %" JSON_INTEGER_FORMAT "; claims about other layers do not apply</dd>",
            n_model - 1);
}

static void texts_count_write(const json_t *report, FILE *out)
{
    hs__html_filled(out, report,
                    "<dt>Texts</dt><dd>{texts} ({tokens} tokens, cut at {provenance.options.max_tokens}), "
                    "{all_pairs} pairs");
    fprintf(out, ", %.1f sentences a text",
            json_number_value(member(report, "sentences")) / json_number_value(member(report, "texts")));
    if (json_integer_value(member(report, "bad_lines.count")))
        hs__html_filled(out, report, ", {bad_lines.count} bad lines left out");
    if (json_integer_value(member(report, "empty_texts")))
        hs__html_filled(out, report, ", {empty_texts} empty texts left out");
    fputs("</dd>", out);
}

/* Writes whose heads were counted, if they are a decoder's. */
static void stack_write(const json_t *report, FILE *out)
{
    const char *stack = json_string_value(member(report, "provenance.options.stack"));
    if (stack && strcmp(stack, "encoder") != 0)
        hs__html_filled(
            out, report,
            strcmp(stack, "cross") == 0
                ? "<dt>Stack</dt><dd>cross: tokens, pairs and similarities are those of the "
                  "target, attention goes from its tokens to those of the text. Figures that need "
                  "one text are left out: attention on the token itself, its neighbours, the same "
                  "token or sentence, its distance, and labels</dd>"
                : "<dt>Stack</dt><dd>{provenance.options.stack}: tokens are those of the "
                  "target</dd>");
}

/* Writes the prompt that every text got, if any. */
static void prompt_write(const json_t *report, FILE *out)
{
    if (json_is_string(member(report, "provenance.options.prompt_name")))
        hs__html_filled(out, report,
                        "<dt>Prompt</dt><dd>{provenance.options.prompt_name}, before each text: "
                        "“{provenance.options.prompt}”</dd>");
}

/* Writes what is special about the similarities. */
static void similarity_write(const json_t *report, FILE *out)
{
    const char *center = json_string_value(member(report, "provenance.options.center"));
    if (center && strcmp(center, "text") == 0)
        fputs("<dt>Similarity</dt><dd>of centred outputs: each head’s mean output over a text is taken away "
              "before its similarities. All figures about similarities and pairs differ from the paper’s for "
              "this reason.</dd>",
              out);
}

/* Writes the run's interventions, and what counters add. Fails with HS_NO_MEMORY. */
static hs_status experiments_write(const json_t *report, FILE *out, hs_error *err)
{
    const json_t *changes = member(report, "provenance.options.interventions");
    if (json_array_size(changes)) {
        char *text = hs_json_text(changes, JSON_COMPACT);
        if (!text)
            return hs_fail(err, HS_NO_MEMORY, "no memory for the report");
        fputs("<dt>Heads changed</dt><dd>", out);
        hs__html_text(out, text);
        fputs("</dd>", out);
        free(text);
    }
    for (size_t c = 0; c < HS__N_COUNTERS; c++)
        if (hs__counters[c]->header)
            hs__counters[c]->header(report, out);
    return HS_OK;
}

static void made_write(const json_t *report, FILE *out)
{
    hs__html_filled(out, report, "<dt>Made</dt><dd>{provenance.date} by headscope {provenance.headscope}");
    fprintf(out, " in %.0f s", json_number_value(member(report, "provenance.seconds")));
    const json_int_t n = json_integer_value(member(report, "provenance.shards.n"));
    if (n > 1)
        fprintf(out, ", shards %zu of %lld", json_array_size(member(report, "provenance.shards.included")),
                (long long)n);
    fputs("</dd>", out);
}

hs_status hs__header_write(const json_t *report, FILE *out, hs_error *err)
{
    const json_t *findings = member(report, "findings");
    size_t apply = 0, hold = 0, open = 0, trained = 0;
    for (size_t i = 0; i < json_array_size(findings); i++) {
        const json_t *finding = json_array_get(findings, i);
        const char *verdict = json_string_value(json_object_get(finding, "verdict"));
        const bool aimed = verdict && strcmp(verdict, "trained for") == 0,
                   applies = json_is_true(json_object_get(finding, "applies")) && !aimed;
        trained += aimed;
        apply += applies;
        hold += json_is_true(json_object_get(finding, "holds"));
        open += applies && json_is_null(json_object_get(finding, "holds"));
    }
    fprintf(
        out,
        "<header><h1>How this model pays attention</h1><p>The figures of "
        "<a href=\"https://arxiv.org/abs/2512.21956\">arXiv 2512.21956</a>, redrawn. "
        "<a href=\"#findings\">%zu of %zu of its claims hold here, %zu are not decided or without effect.</a>"
        "</p><dl>",
        hold, apply, open);
    if (trained)
        fprintf(
            out,
            "<dt>Specimen</dt><dd>The training of this model aimed at %zu of the claims. They show how the "
            "claims look, are not counted here, and are no evidence about other models.</dd>",
            trained);
    model_write(report, out);
    layers_write(report, out);
    texts_count_write(report, out);
    input_write(report, out);
    stack_write(report, out);
    prompt_write(report, out);
    similarity_write(report, out);
    const hs_status st = experiments_write(report, out, err);
    made_write(report, out);
    fputs("</dl></header>\n", out);
    return st;
}

/* ---- findings ---- */

static void finding_write(const json_t *finding, FILE *out)
{
    const json_t *holds = json_object_get(finding, "holds");
    hs__html_filled(out, finding, "<tr><th scope=\"row\">{claim}</th>");
    fprintf(out, "<td class=\"holds %s\" data-label=\"Verdict\">",
            json_is_null(holds)   ? "unknown"
            : json_is_true(holds) ? "yes"
                                  : "no");
    hs__html_filled(
        out, finding,
        "{verdict}</td><td data-label=\"Measured here\">{measured}</td><td data-label=\"Paper\">{paper}</td>"
        "<td data-label=\"Criterion\">{criterion}</td></tr>\n");
}

/* Writes "70.5 % (70.3 to 70.8)" of a figure of the evidence; a dash if it is null. */
static void figure_write(const json_t *figure, const char *unit, const char *label, FILE *out)
{
    const bool is_share = strcmp(unit, "%") == 0;
    const double scale = is_share ? 100 : 1;
    const json_t *value = json_object_get(figure, "value"), *low = json_object_get(figure, "low"),
                 *high = json_object_get(figure, "high");
    fprintf(out, "<td data-label=\"%s\">", label);
    if (json_is_number(value))
        fprintf(out, "%.2f%s", scale * json_number_value(value), is_share ? "&nbsp;%" : "");
    else
        fputs("&ndash;", out);
    if (json_is_number(low))
        fprintf(out, " <span class=\"muted\">(%.2f to %.2f)</span>", scale * json_number_value(low),
                scale * json_number_value(high));
    fputs("</td>", out);
}

/* Writes the figure that each claim rests on beside its controls. */
static void evidence_write(const json_t *findings, FILE *out)
{
    static const char *const columns[][2] = {
        {"observed", "Observed"}, {"chance", "Chance"}, {"lengths", "Lengths"}, {"untrained", "Untrained"}};
    fputs(
        "<h3>The figures behind the claims, and their controls</h3><p class=\"muted\">Chance: pairs drawn "
        "at random, or what the criterion names. Lengths: as many pairs as there are high ones, those of the "
        "longest outputs, whatever their directions. Untrained: the same architecture with random weights, "
        "over the same texts, the first 2000 at most. A figure that it has as well says nothing about "
        "training. A dash: the control was not counted, or has no such figure.</p><table "
        "class=\"findings\"><thead><tr><th "
        "scope=\"col\">Claim</th><th scope=\"col\">Figure</th>",
        out);
    for (size_t c = 0; c < HS__N(columns); c++)
        fprintf(out, "<th scope=\"col\">%s</th>", columns[c][1]);
    fputs("</tr></thead><tbody>\n", out);
    for (size_t i = 0; i < json_array_size(findings); i++) {
        const json_t *finding = json_array_get(findings, i), *evidence = json_object_get(finding, "evidence");
        const char *unit = json_string_value(json_object_get(evidence, "unit"));
        if (!unit || !json_is_true(json_object_get(finding, "applies")))
            continue;
        hs__html_filled(out, finding,
                        "<tr><th scope=\"row\">{claim}</th><td data-label=\"Figure\">{evidence.figure}</td>");
        for (size_t c = 0; c < HS__N(columns); c++)
            figure_write(json_object_get(evidence, columns[c][0]), unit, columns[c][1], out);
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table>", out);
}

void hs__findings_write(const json_t *report, FILE *out)
{
    const json_t *findings = member(report, "findings");
    fputs("<section id=\"findings\" aria-label=\"Findings\"><h2>Findings</h2><p class=\"muted\">The paper's "
          "claims and the values of this run. The criterion is ours: the paper states most of them in "
          "words. Brackets are 95 % intervals over texts. They come from 200 draws of blocks of neighbouring "
          "texts, which may be of one document. A claim holds, or does not hold, if the intervals clear its "
          "criterion; otherwise this run has not decided it. No effect: this run shows hardly more than "
          "chance, or than the same network with random weights, or than the pairs of the longest outputs. "
          "Trained for: the training of this model aimed at the claim. Each claim is judged by itself. A "
          "claim that holds here holds for this model and these texts; it does not say what the heads are "
          "for.</p><table "
          "class=\"findings\"><thead><tr><th scope=\"col\">Claim</th><th "
          "scope=\"col\">Verdict</th><th scope=\"col\">Measured here</th><th scope=\"col\">Paper</th><th "
          "scope=\"col\">Criterion</th></tr></thead><tbody>\n",
          out);
    for (size_t i = 0; i < json_array_size(findings); i++)
        finding_write(json_array_get(findings, i), out);
    fputs("</tbody></table>", out);
    evidence_write(findings, out);
    fputs("</section>\n", out);
}

/* ---- heads ---- */

#define HEAD(name) "head_figures.T.L.H." name
static const hs__column head_columns[] = {
    {"Head", NULL, NULL},
    {"High pairs", HEAD("high"), NULL},
    {"Repeated", HEAD("repeated_share.value"), "%.1f %%"},
    {"lift over chance", HEAD("repeated_lift"), "%.2f"},
    {"at the same distance", HEAD("repeated_lift_same_distance"), "%.2f"},
    {"Same sentence", HEAD("same_sentence_share.value"), "%.1f %%"},
    {"lift over chance", HEAD("same_sentence_lift"), "%.2f"},
    {"at the same distance", HEAD("same_sentence_lift_same_distance"), "%.2f"},
    {"Both", HEAD("repeated_same_sentence_share"), "%.1f %%"},
    {"lift over chance", HEAD("repeated_same_sentence_lift"), "%.2f"},
    {"Mean distance, tokens", HEAD("mean_distance.value"), "%.1f"},
    {"median, tokens", HEAD("median_distance"), "%.1f"},
    {"Focal share", HEAD("focal_share.value"), "%.1f %%"},
    {"by chance", HEAD("focal_share.chance"), "%.1f %%"},
    {"Signal to noise, dB", HEAD("snr_db"), "%.1f"},
    {"Signal from noise, d′", HEAD("dprime"), "%.2f"},
    {"within distances", HEAD("dprime_within_distances"), "%.2f"},
    {"ROC area", HEAD("auc"), "%.2f"},
    {"within distances", HEAD("auc_within_distances"), "%.2f"},
    {"Pairs of longest outputs", HEAD("longest_overlap"), "%.1f %%"},
    {"Participation ratio", HEAD("participation_ratio"), "%.1f"},
};
#undef HEAD

/* The row of chance has these cells behind its name. */
static const hs__column chance_columns[] = {
    {NULL, NULL, NULL},
    {NULL, "chance.repeated_share", "%.1f %%"},
    {NULL, NULL, NULL},
    {NULL, NULL, NULL},
    {NULL, "chance.same_sentence_share", "%.1f %%"},
    {NULL, NULL, NULL},
    {NULL, NULL, NULL},
    {NULL, "chance.repeated_same_sentence_share", "%.1f %%"},
    {NULL, NULL, NULL},
    {NULL, "chance.mean_distance", "%.1f"},
    {NULL, "chance.median_distance", "%.1f"},
    {NULL, NULL, NULL},
    {NULL, NULL, NULL},
    {NULL, "signal_noise.null_db", "%.1f"},
    {NULL, NULL, NULL},
    {NULL, NULL, NULL},
    {NULL, NULL, NULL},
    {NULL, NULL, NULL},
    {NULL, NULL, NULL},
    {NULL, NULL, NULL},
};

void hs__heads_write(const hs__drawing *d, hs__indices at, FILE *out)
{
    hs__table_begin(out, head_columns, HS__N(head_columns));
    for (at.h = 0; at.h < d->o.n_heads; at.h++) {
        fprintf(out, "<tr><th scope=\"row\">%zu</th>", at.h);
        hs__cells_write(out, head_columns + 1, HS__N(head_columns) - 1, d->report, at);
        fputs("</tr>\n", out);
    }
    fputs("<tr class=\"muted\"><th scope=\"row\">chance</th>", out);
    hs__cells_write(out, chance_columns, HS__N(chance_columns), d->report, at);
    fputs("</tr>", out);
    hs__table_end(out);
}
