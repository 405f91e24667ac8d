/* report_html.c - writes the page of a report: its figures, its data and what reads without a script. */
#include "model/base/sizes.h"
#include "model/files/json.h"
#include "server/corpus/counters/counter.h"
#include "server/corpus/report/panels.h"
#include "server/corpus/report/report.h"
#include "server/corpus/report/report_maps.h"
#include "server/corpus/report/tables.h"

#include <math.h>
#include <nettle/base64.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* ---- figures ----
 *
 * The paper's figures as rows: patterns of panels, and captions.
 *
 * A panel is a chart of one layer, head or threshold and has a key, "distance:11:3:2": its name and what it
 * is of, by index. A figure lists panels by a pattern, "distance:l:*:t", whose letters stand for what the
 * reader picks; so the page shows another layer by putting other panels in their places. */

typedef struct report_figure {
    const char *id, *title;
    const char *panels;  /* keys, separated by spaces: e early, m middle, b the one before last, l last,
                            h head, * every head, t threshold */
    const char *caption; /* HTML; {..} stand for what the run or the reader chose. Cross heads lack what is in
                            [..] */
    const char *member;  /* of report.json that it shows, and older runs lack; NULL: none */
} report_figure;

#define TEXTS  "{texts} texts"
#define TAU    "similarity threshold {threshold}"
#define MAIN   "similarity threshold {main}"
#define LAST   "layer {layer}"
#define FITTED "The axis ends where less than 0.5 % of any head's texts follow."
#define DOTTED "Dotted line: of pairs as far apart as the head's."
#define BLANK  "Cells that no text reaches are left blank."

static const report_figure report_figures[] = {
    {.id = "2",
     .title = "Figure 2 · Summed attention",
     .panels = "attention:e:h attention:m:h attention:b:h attention:l:h attention_layer:e attention_layer:m "
               "attention_layer:b attention_layer:l",
     .caption = "Attention summed over " TEXTS
                " and divided by the number of texts that reach each cell: head {head}, and all "
                "heads of the layer added up. " BLANK},
    {.id = "3",
     .title = "Figure 3 · Attention without its columns",
     .panels = "attention_layer:l without_columns:l without_diagonal:l",
     .caption = "Summed attention of " LAST
                ", then with each text's high-attention columns set to zero (attention threshold "
                "{attention})[, then without the diagonal too]. Mean over " TEXTS ". " BLANK},
    {.id = "4",
     .title = "Figure 4 · Attention in one text",
     .panels = "one_attention one_high",
     .caption =
         "The first of the examples, up to 128 tokens: attention of head 0, and of all heads of the "
         "layer added up. Below, the tokens that head 0 of the run's last layer attends to most (attention "
         "threshold "
         "{attention}).",
     .member = "one_text"},
    {.id = "5",
     .title = "Figure 5 · Similarity between tokens of high attention",
     .panels = "one_marked",
     .caption =
         "Attention and context similarity S of head 0 in the text of Figure 4.[ Lines mark its tokens "
         "of high attention (attention threshold {attention}). Below, the mask of these tokens, and the mean "
         "of "
         "S between the regions that they divide, without the diagonal.]",
     .member = "one_text"},
    {.id = "6a",
     .title = "Figure 6a · Repeated tokens",
     .panels = "repeated:l:t",
     .caption = "Share of high elements whose two tokens are the same. Each head of " LAST
                "; 20 bins of the share in one text; " TAU "; " TEXTS
                ". Dashed line: expected by chance, from pairs drawn at random from the same texts. " DOTTED
                " " FITTED},
    {.id = "6b",
     .title = "Figure 6b · Repeated tokens in one sentence",
     .panels = "repeated_in_sentence:l:t",
     .caption =
         "Share of high elements whose two tokens are the same and in the same sentence. Heads of " LAST
         "; " TAU "; " TEXTS ". Dashed line: chance. " DOTTED},
    {.id = "7",
     .title = "Figure 7 · Distances by head",
     .panels = "distance:l:*:t",
     .caption = "Distance j − i of token pairs with high similarity, each head of " LAST "; " TAU "; " TEXTS
                ". Sloping dashed line: expected by chance, from pairs drawn at random. Upright dashed line: "
                "the head's "
                "mean."},
    {.id = "8",
     .title = "Figure 8 · Same sentence",
     .panels = "same_sentence:l:t",
     .caption = "Share of high elements whose two tokens are in the same sentence. Heads of " LAST "; " TAU
                "; " TEXTS ". Dashed line: chance. " DOTTED},
    {.id = "9",
     .title = "Figure 9 · Similar tokens in one text",
     .panels = "one_most one_most_pairs one_fewest one_fewest_pairs",
     .caption =
         "The text of Figure 4 with the tokens of the 12 strongest pairs of high similarity marked, " MAIN
         ". A token has the same colour wherever it is marked. The two heads of the run's last layer have "
         "the "
         "highest "
         "and the lowest share of repeated tokens in the whole text.",
     .member = "one_text"},
    {.id = "10",
     .title = "Figure 10 · Where high similarities lie",
     .panels = "location:l:*",
     .caption =
         "How often the pair (i, j) is a high element, as a share of the texts long enough: heads of " LAST
         "; " MAIN "; " TEXTS ". Each head has its own scale."},
    {.id = "11a",
     .title = "Figure 11a · Focal token",
     .panels = "focal:l:t",
     .caption = "Share of high elements that hold the text's most common token. Heads of " LAST "; " TAU
                "; " TEXTS ". Dotted line: of as many pairs drawn at random, mean over texts (similarity "
                "threshold {main} alone)."},
    {.id = "11b",
     .title = "Figure 11b · Different focal tokens",
     .panels = "unique:l:t",
     .caption = "Number of different focal tokens among the heads of " LAST ", per text; " TAU "; " TEXTS
                ". The paper reads 9 to 10 of 12. The findings have the number by chance."},
    {.id = "12",
     .title = "Figure 12 · Summed similarity",
     .panels = "first_text:e first_text:m first_text:b first_text:l similarity:e similarity:m similarity:b "
               "similarity:l normalized:e normalized:m normalized:b normalized:l",
     .caption = "Context similarity summed over the layer's heads. Above that of the corpus's first text "
                "(zeros if it was not counted), as in the "
                "paper; then means over " TEXTS
                ": as it is (S), and with each text's head divided by its maximum (N), "
                "so that every text weighs the same. The diagonal is zero; violet is below it."},
    {.id = "13",
     .title = "Figure 13 · Distances by layer",
     .panels = "distances:e:t distances:m:t distances:l:t",
     .caption = "Distance of high pairs over all heads of a layer; " TAU "; " TEXTS
                ". Dashed line: expected by chance, from pairs drawn at random."},
    {.id = "A1",
     .title = "Figure A1 · Thresholds",
     .panels = "normalized_bins:l column_bins:l",
     .caption =
         "What the thresholds divide: normalised similarities of all pairs and attention columns, all heads "
         "of " LAST "; " TEXTS "; 100 bins, logarithmic."},
    {.id = "sensitivity",
     .title = "Threshold sensitivity",
     .panels = "sensitivity_repeated:l sensitivity_sentence:l sensitivity_distance:l sensitivity_focal:l",
     .caption = "How the figures of " LAST "'s heads move with the similarity threshold; " TEXTS
                ", counted in one pass."},
    {.id = "stability",
     .title = "Stability",
     .panels = "stability_repeated:l:t stability_sentence:l:t stability_distance:l:t stability_focal:l:t",
     .caption = "Each head of " LAST
                " with its 95 % interval over blocks of texts, which similarity threshold {main} "
                "has; " TAU "; " TEXTS ". The CSV also has the spread: the standard deviation over {parts} "
                "interleaved parts of the corpus."},
    {.id = "noise",
     .title = "Signal to noise",
     .panels = "noise_snr noise_auc noise_auc_within noise_dprime noise_dprime_within",
     .caption =
         "Above: what identity and sentence of two tokens explain of S, beyond position and distance, in "
         "relation to what remains unexplained; no number: nothing. Below: N of signal pairs, which repeat a "
         "token or share a sentence, against all others. Near pairs share a sentence, so over all distances "
         "these mostly show which heads look nearby. Within distances: pairs that are about equally far "
         "apart "
         "are compared; " TEXTS "."},
    {.id = "pruning-curve",
     .title = "Pruning curve",
     .panels = "pruning_zero pruning_mean",
     .caption = "The loss as heads go, the lowest of each order first. Random orders are the mean of three.",
     .member = "pruning"},
    {.id = "importance",
     .title = "Gradient importance",
     .panels = "importance",
     .caption =
         "How much the loss of a text rests on each head, to first order: |Σ ⟨o, ∂L/∂o⟩| over its tokens, "
         "mean "
         "over texts with predictions, divided by the root of the layer's sum of squares. Gradients say what "
         "small changes do; the pruning curve has what switching heads off does.",
     .member = "importance"},
    {.id = "focus",
     .title = "Attention focus and segmentation",
     .panels = "masses boundaries focus:l",
     .caption =
         "Where attention goes, by the token that gets it; precision, recall and F1 of boundaries after "
         "high-attention "
         "tokens; and what the high-attention columns of " LAST " hold most often. " TEXTS "."},
    {.id = "tokens",
     .title = "Which tokens are focal",
     .panels = "focal_tokens:e focal_tokens:m focal_tokens:l",
     .caption =
         "The focal token of Figure 11 by name: how often each was a head's in a text; " MAIN "; " TEXTS "."},
    {.id = "neighbours",
     .title = "First token and diagonal",
     .panels = "neighbours profile_first profile_self profile_previous profile_next",
     .caption = "Attention on the first token[, on the token itself and on its neighbours]: means over the "
                "heads of a layer, and of each head; " TEXTS "."},
};

enum { N_FIGURES = sizeof report_figures / sizeof *report_figures };

/* ---- memory ---- */

/* Returns the most numbers that a panel reads at once (panels.c). */
static size_t values_max(const hs_corpus_options *o)
{
    const size_t bins = hs_max(HS_CORPUS_SHARE_BINS, o->n_thresholds);
    size_t n = 3 * hs_max(o->tokens_max, HS_CORPUS_BINS + 1);
    n = hs_max(n, (o->n_heads + 1) * bins);
    n = hs_max(n, o->n_layers * hs_max(o->n_heads, 5));
    return hs_max(n, HS_CORPUS_FOCUS_MAX + 2 * o->n_heads);
}

static void drawing_finish(hs__drawing *d)
{
    free(d->values);
    free(d->places);
    free(d->counts);
    free(d->pixels);
    free(d->map_values);
    *d = (hs__drawing){0};
}

/* All borrowed until drawing_finish. HS_NO_MEMORY. */
static hs_status drawing_init(hs__drawing *d, const hs_corpus_stats *stats, const json_t *report,
                              const hs__report_maps *maps, hs_error *err)
{
    *d = (hs__drawing){.stats = stats, .o = hs_corpus_stats_options(stats), .report = report, .maps = maps};
    const size_t n = values_max(&d->o);
    d->values = malloc(n * sizeof *d->values);
    d->places = malloc(n * sizeof *d->places);
    d->counts = malloc(n * sizeof *d->counts);
    d->pixels = malloc(maps->side * maps->side);
    d->map_values = malloc(maps->side * maps->side * sizeof *d->map_values);
    if (d->values && d->places && d->counts && d->pixels && d->map_values)
        return HS_OK;
    drawing_finish(d);
    return hs_fail(err, HS_NO_MEMORY, "no memory for the report");
}

/* ---- panels as picked ---- */

static const hs__report_panel *panel_find(const char *name, size_t n)
{
    const hs__report_panel *panel;
    for (size_t k = 0; (panel = hs__panel_at(k)); k++)
        if (strlen(panel->name) == n && memcmp(panel->name, name, n) == 0)
            return panel;
    return NULL;
}

/* Reads ":l:h" of a pattern; *ret_all: there is a star. */
static hs__indices place_read(const char *letters, const hs__pick *pick, bool *ret_all)
{
    hs__indices at = {0};
    *ret_all = false;
    for (; *letters == ':'; letters += 2)
        if (letters[1] == '*')
            *ret_all = true;
        else if (letters[1] == 'h')
            at.h = pick->head;
        else if (letters[1] == 't')
            at.t = pick->t;
        else
            at.l = letters[1] == 'e'   ? pick->early
                   : letters[1] == 'm' ? pick->middle
                                       : pick->last - (letters[1] == 'b' && pick->last > 0);
    return at;
}

/* Returns true if an earlier pattern names the same panel. */
static bool is_repeated(const char *patterns, const char *word, const hs__pick *pick)
{
    const size_t n = strcspn(word, ": ");
    bool all;
    const hs__indices at = place_read(word + n, pick, &all);
    for (const char *other = patterns; other < word; other += strcspn(other, " ") + 1) {
        const hs__indices there = place_read(other + strcspn(other, ": "), pick, &all);
        if (strcspn(other, ": ") == n && memcmp(other, word, n) == 0 && there.l == at.l && there.h == at.h)
            return true;
    }
    return false;
}

/* Writes a panel as it stands in the page: SVG, or a table. */
static hs_status panel_write(hs__drawing *d, const hs__report_panel *panel, hs__indices at, FILE *out,
                             hs_error *err)
{
    if (panel->write) {
        panel->write(d, at, out);
        return HS_OK;
    }
    hs_picture picture = {0};
    const hs_status st = hs__panel_draw(d, panel, at, &picture, err);
    return hs__svg_write(st, &picture, out, err);
}

/* The panels of a figure as picked, one after the other. */
static hs_status figure_write(hs__drawing *d, const report_figure *figure, const hs__pick *pick, FILE *out,
                              hs_error *err)
{
    hs_status st = HS_OK;
    const char *word = figure->panels;
    while (*word && !st) {
        const size_t n = strcspn(word, ": ");
        const hs__report_panel *panel = panel_find(word, n);
        bool all;
        hs__indices at = place_read(word + n, pick, &all);
        if (panel && !is_repeated(figure->panels, word, pick))
            for (size_t h = 0; !st && h < (all ? d->o.n_heads : 1); h++) {
                at.h = all ? h : at.h;
                st = panel_write(d, panel, at, out, err);
            }
        word += strcspn(word, " ");
        word += *word == ' ';
    }
    return st;
}

/* Returns true if the run has what the figure shows. */
static bool figure_exists(const report_figure *figure, const json_t *report)
{
    return !figure->member || json_is_object(json_object_get(report, figure->member));
}

/* ---- captions ---- */

static bool is(const char *name, size_t n, const char *word)
{
    return strlen(word) == n && memcmp(name, word, n) == 0;
}

/* Writes the reader's choice in a <span> that the page's script finds. */
static void word_write(const hs__drawing *d, const char *name, size_t n, const hs__pick *pick, FILE *out)
{
    const hs_corpus_options *o = &d->o;
    if (is(name, n, "layer"))
        fprintf(out, "<span data-pick=\"layer\">%d</span>", o->layers[pick->last]);
    else if (is(name, n, "head"))
        fprintf(out, "<span data-pick=\"head\">%zu</span>", pick->head);
    else if (is(name, n, "threshold"))
        fprintf(out, "<span data-pick=\"threshold\">%.3g</span>", (double)o->thresholds[pick->t]);
    else if (is(name, n, "main"))
        fprintf(out, "%.3g", (double)o->thresholds[o->threshold_main]);
    else if (is(name, n, "attention"))
        fprintf(out, "%.3g", (double)o->attention_threshold);
    else if (is(name, n, "parts"))
        fprintf(out, "%zu", o->n_parts);
    else
        hs__count_write(out, hs_corpus_stats_texts(d->stats));
}

static void caption_write(const hs__drawing *d, const report_figure *figure, const hs__pick *pick, FILE *out)
{
    const char *at = figure->caption;
    while (*at) {
        const size_t plain = strcspn(at, "{[]");
        fwrite(at, 1, plain, out);
        at += plain;
        const size_t n = strcspn(at, "}");
        if (*at == '{') {
            word_write(d, at + 1, n - 1, pick, out);
            at += n + 1;
        } else if (*at == '[' && d->o.crosses)
            at += strcspn(at, "]");
        else
            at += *at != '\0';
    }
}

/* ---- all panels ---- */

/* Every panel there is, in turn; `each` is given its key and its SVG. Stops at the first failure. */
typedef hs_status panel_visitor(void *data, const char *key, const char *svg, size_t n_svg);

static hs_status panel_visit(hs__drawing *d, const hs__report_panel *panel, hs__indices at,
                             panel_visitor *each, void *data, hs_error *err)
{
    char key[96], *svg = NULL;
    size_t n_svg = 0, n = (size_t)snprintf(key, sizeof key, "%s", panel->name);
    for (const char *axis = panel->axes; *axis; axis++)
        n += (size_t)snprintf(key + n, sizeof key - n, ":%zu",
                              *axis == 'l'   ? at.l
                              : *axis == 'h' ? at.h
                                             : at.t);
    FILE *out = open_memstream(&svg, &n_svg);
    hs_status st = out ? panel_write(d, panel, at, out, err) : HS_NO_MEMORY;
    if (!out || fclose(out))
        st = hs_fail(err, HS_NO_MEMORY, "no memory for the report");
    if (!st)
        st = each(data, key, svg, n_svg);
    free(svg);
    return st;
}

static hs_status panels_visit(hs__drawing *d, panel_visitor *each, void *data, hs_error *err)
{
    hs_status st = HS_OK;
    const hs__report_panel *p;
    for (size_t k = 0; (p = hs__panel_at(k)); k++) {
        const size_t L = strchr(p->axes, 'l') ? d->o.n_layers : 1,
                     A = strchr(p->axes, 'h') ? d->o.n_heads : 1,
                     n = L * A * (strchr(p->axes, 't') ? d->o.n_thresholds : 1);
        for (size_t i = 0; !st && i < n; i++)
            st = panel_visit(d, p, (hs__indices){.l = i / A % L, .h = i % A, .t = i / (A * L)}, each, data,
                             err);
    }
    return st;
}

/* ---- attention profile ----
 *
 * Every head's profile over the texts, Clark et al.'s table.
 *
 * One table of all heads, the same whatever the page's reader picks. */

#define HEAD(name) "profiles_" name ".L.H"
static const hs__column profile_columns[] = {
    {"Head", NULL, NULL},
    {"Label", NULL, NULL},
    {"First", HEAD("first"), "%.1f %%"},
    {"Itself", HEAD("self"), "%.1f %%"},
    {"Previous", HEAD("previous"), "%.1f %%"},
    {"Next", HEAD("next"), "%.1f %%"},
    {"Separators", HEAD("separator"), "%.1f %%"},
    {"Punctuation", HEAD("punctuation"), "%.1f %%"},
    {"Same token", HEAD("same_token"), "%.1f %%"},
    {"Same sentence", HEAD("same_sentence"), "%.1f %%"},
    {"Entropy, nats", HEAD("entropy"), "%.2f"},
    {"Mean distance, tokens", HEAD("mean_distance"), "%.1f"},
};
#undef HEAD

/* Lists the columns that a report has: cross heads lack those that need one text. Returns their number. */
static size_t profile_columns_of(const json_t *report, hs__column ret[HS__N(profile_columns)])
{
    size_t n = 0;
    for (size_t k = 0; k < HS__N(profile_columns); k++) {
        const hs__column *column = &profile_columns[k];
        if (k == 0 || hs__report_has(report, column->path ? column->path : "profiles_label"))
            ret[n++] = *column;
    }
    return n;
}

static void layer_write(const hs__drawing *d, const hs__column *columns, size_t n, size_t l, FILE *out)
{
    static const char *const labels[] = {"position", "special", "broad", "other"}; /* as hs_head_label */
    const size_t n_first = hs__report_has(d->report, "profiles_label") ? 2 : 1;
    for (hs__indices at = {.l = l}; at.h < d->o.n_heads; at.h++) {
        fputs("<tr><th scope=\"row\">", out);
        hs__head_write(out, d->o.layers[l], (long long)at.h);
        fputs("</th>", out);
        if (n_first > 1)
            fprintf(out, "<td>%s</td>", labels[hs_corpus_profile_read(d->stats, l, at.h).label]);
        hs__cells_write(out, columns + n_first, n - n_first, d->report, at);
        fputs("</tr>\n", out);
    }
}

static void attention_profile_write(const hs__drawing *d, FILE *out)
{
    fprintf(out,
            "<section id=\"profiles\" aria-label=\"Head profiles\"><h2>Where heads attend</h2><p "
            "class=\"muted\">Shares of attention, means over texts%s.</p>\n"
            "<details><summary>All heads</summary>",
            hs__report_has(d->report, "profiles_label") ? "; labels by Clark et al. (2019)" : "");
    hs__column columns[HS__N(profile_columns)];
    const size_t n = profile_columns_of(d->report, columns);
    hs__table_begin(out, columns, n);
    for (size_t l = 0; l < d->o.n_layers; l++)
        layer_write(d, columns, n, l, out);
    hs__table_end(out);
    fputs("</details></section>\n", out);
}

/* ---- the page ----
 *
 * The page is built from static/report, with this run's figures and data in it.
 *
 * HEADSCOPE-PAGE in the template is replaced by the report that reads without a script, drawn for the default
 * choice. HEADSCOPE-DATA is replaced by the data for the other choices, as base64 of gzip of:
 *
 *     the size of a JSON document (u32, little-endian), then the document
 *     the bytes of its maps
 *     each panel: a line with its key, a line with its size in bytes, its SVG
 *
 * The document is report.json with `maps` (report_maps.h), `figures` (their patterns) and `pick`.
 */

/* ---- gzip and base64, as bytes come ---- */

typedef struct packer {
    FILE *file;
    z_stream stream;
    unsigned char out[3 * 8192]; /* whole groups of base64 */
} packer;

static void base64_write(FILE *file, const unsigned char *bytes, size_t n)
{
    char text[4 * 8192];
    base64_encode_raw(text, n, bytes);
    fwrite(text, 1, BASE64_ENCODE_RAW_LENGTH(n), file);
}

/* Everything given is in the file, or in out, once this returns; with Z_FINISH in the file. */
static void pack(packer *p, const void *bytes, size_t n, int flush)
{
    p->stream.next_in = (unsigned char *)bytes;
    p->stream.avail_in = (uInt)n;
    while (p->stream.avail_in || flush == Z_FINISH) {
        if (!p->stream.avail_out) {
            base64_write(p->file, p->out, sizeof p->out);
            p->stream.next_out = p->out;
            p->stream.avail_out = sizeof p->out;
        }
        if (deflate(&p->stream, flush) == Z_STREAM_END)
            break;
    }
    if (flush == Z_FINISH)
        base64_write(p->file, p->out, sizeof p->out - p->stream.avail_out);
}

static hs_status panel_pack(void *data, const char *key, const char *svg, size_t n_svg)
{
    char line[128];
    const int n = snprintf(line, sizeof line, "%s\n%zu\n", key, n_svg);
    pack(data, line, (size_t)n, Z_NO_FLUSH);
    pack(data, svg, n_svg, Z_NO_FLUSH);
    return HS_OK;
}

/* ---- the data ---- */

static json_t *figures_json(const json_t *report)
{
    json_t *figures = json_object();
    for (size_t k = 0; k < N_FIGURES; k++)
        if (figure_exists(&report_figures[k], report))
            json_object_set_new(figures, report_figures[k].id, json_string(report_figures[k].panels));
    json_object_set_new(figures, "heads", json_string("heads:l:t"));
    json_object_set_new(figures, "examples", json_string("examples:l"));
    return figures;
}

static json_t *pick_json(const hs__pick *pick)
{
    return json_pack("{sI sI sI sI sI}", "early", (json_int_t)pick->early, "middle", (json_int_t)pick->middle,
                     "layer", (json_int_t)pick->last, "head", (json_int_t)pick->head, "threshold",
                     (json_int_t)pick->t);
}

/* malloc'ed; NULL without memory. */
static char *document_make(const hs__drawing *d, const hs__pick *pick)
{
    const size_t refusals = hs_json_refusals();
    json_t *whole = json_copy((json_t *)d->report);
    hs__report_maps_describe(d->maps, whole);
    json_object_set_new(whole, "figures", figures_json(d->report));
    json_object_set_new(whole, "pick", pick_json(pick));
    whole = hs_json_whole(whole, refusals);
    char *document = whole ? hs_json_text(whole, JSON_COMPACT | JSON_REAL_PRECISION(7)) : NULL;
    json_decref(whole);
    return document;
}

static hs_status data_write(FILE *file, hs__drawing *d, const char *document, hs_error *err)
{
    const size_t n = strlen(document);
    const unsigned char size[4] = {(unsigned char)n, (unsigned char)(n >> 8), (unsigned char)(n >> 16),
                                   (unsigned char)(n >> 24)};
    packer *p = calloc(1, sizeof *p);
    if (!p || deflateInit2(&p->stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY) != Z_OK) {
        free(p);
        return hs_fail(err, HS_NO_MEMORY, "no memory for the report");
    }
    p->file = file;
    p->stream.next_out = p->out;
    p->stream.avail_out = sizeof p->out;
    pack(p, size, sizeof size, Z_NO_FLUSH);
    pack(p, document, n, Z_NO_FLUSH);
    for (size_t k = 0; k < d->maps->n; k++)
        pack(p, d->maps->maps[k].bytes, d->maps->maps[k].n_bytes, Z_NO_FLUSH);
    const hs_status st = panels_visit(d, panel_pack, p, err);
    pack(p, NULL, 0, Z_FINISH);
    deflateEnd(&p->stream);
    free(p);
    return st;
}

/* ---- what is read without a script ---- */

static hs_status figures_write(hs__drawing *d, const hs__pick *pick, FILE *out, hs_error *err)
{
    hs_status st = HS_OK;
    for (size_t k = 0; !st && k < N_FIGURES; k++) {
        const report_figure *f = &report_figures[k];
        if (!figure_exists(f, d->report))
            continue;
        fprintf(out, "<figure id=\"figure-%s\" aria-label=\"%s\"><h2>%s</h2><div class=\"panels\">\n", f->id,
                f->title, f->title);
        st = figure_write(d, f, pick, out, err);
        fputs("</div><figcaption>", out);
        caption_write(d, f, pick, out);
        fputs("</figcaption></figure>\n", out);
    }
    return st;
}

static void content_write(const char *section, const char *title, FILE *out)
{
    fprintf(out, "<li><a href=\"#%s\">%s</a></li>\n", section, title);
}

static void contents_write(const json_t *report, FILE *out)
{
    fputs("<nav class=\"contents\" aria-label=\"Contents\"><h2>Contents</h2><ul>\n"
          "<li><a href=\"#findings\">Findings</a></li>\n",
          out);
    for (size_t k = 0; k < N_FIGURES; k++)
        if (figure_exists(&report_figures[k], report))
            fprintf(out, "<li><a href=\"#figure-%s\">%s</a></li>\n", report_figures[k].id,
                    report_figures[k].title);
    content_write("heads", "Heads", out);
    content_write("profiles", "Where heads attend", out);
    for (size_t c = 0; c < HS__N_COUNTERS; c++)
        if (hs__counters[c]->section && json_object_get(report, hs__counters[c]->section))
            content_write(hs__counters[c]->section, hs__counters[c]->title, out);
    fputs("</ul></nav>\n", out);
}

static hs_status page_write(hs__drawing *d, const hs__pick *pick, FILE *out, hs_error *err)
{
    const int layer = d->o.layers[pick->last];
    const double threshold = (double)d->o.thresholds[pick->t];
    const hs__indices at = {.t = pick->t, .l = pick->last};
    hs_status st = hs__header_write(d->report, out, err);
    if (st)
        return st;
    contents_write(d->report, out);
    fputs("<nav class=\"choices\" aria-label=\"What the figures show\" hidden></nav>\n<main>", out);
    hs__findings_write(d->report, out);
    d->pictures = true;
    st = figures_write(d, pick, out, err);
    d->pictures = false;
    fprintf(
        out,
        "<section id=\"heads\" aria-label=\"Heads\"><h2>Heads of layer <span data-pick=\"layer\">%d</span> "
        "at threshold <span data-pick=\"threshold\">%.3g</span></h2><p class=\"muted\">A lift over chance "
        "compares with all pairs of the same texts; at the same distance, with pairs that are as far apart "
        "as "
        "the head's: near tokens share a sentence anyway.</p><div class=\"panels\">\n",
        layer, threshold);
    hs__heads_write(d, at, out);
    fputs("</div></section>\n", out);
    attention_profile_write(d, out);
    for (size_t c = 0; c < HS__N_COUNTERS; c++)
        if (hs__counters[c]->page)
            hs__counters[c]->page(d, at, out);
    fputs("</main>\n", out);
    return st;
}

/* ---- the whole ---- */

static hs_status whole_write(FILE *file, hs__drawing *d, hs_error *err)
{
    const hs__pick pick = hs__pick_default(d->o.n_layers, d->o.threshold_main);
    char *document = document_make(d, &pick);
    hs_status st = document ? hs__page_write(file, HS__PAGE_HEAD, err)
                            : hs_fail(err, HS_NO_MEMORY, "no memory for the report");
    if (!st)
        st = page_write(d, &pick, file, err);
    if (!st)
        st = hs__page_write(file, HS__PAGE_MIDDLE, err);
    if (!st)
        st = data_write(file, d, document, err);
    if (!st)
        st = hs__page_write(file, HS__PAGE_TAIL, err);
    free(document);
    return st;
}

hs_status hs__corpus_html_write(FILE *file, const hs_corpus_stats *stats, const json_t *report, hs_error *err)
{
    hs__report_maps maps;
    hs__drawing drawing;
    hs_status st = hs__report_maps_init(&maps, stats, err);
    if (!st)
        st = drawing_init(&drawing, stats, report, &maps, err);
    if (!st) {
        st = whole_write(file, &drawing, err);
        drawing_finish(&drawing);
    }
    hs__report_maps_finish(&maps);
    return st;
}
