/* report_html.c - writes the page of a report. */
#include "server/corpus/counters/counter.h"
#include "server/corpus/report/figures.h"
#include "server/corpus/report/report.h"
#include "server/corpus/report/tables.h"

#include <nettle/base64.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* ---- attention profile ----
 *
 * Every head's profile over the texts, Clark et al.'s table.
 *
 * A table for each layer, the same whatever the page's reader picks. */

static void layer_write(const hs__drawing *d, size_t l, FILE *out)
{
    static const char *const labels[] = {"position", "special", "broad", "other"}; /* as hs_head_label */
#define HEAD(name) "profiles_" name ".L.H"
    static const hs__column columns[] = {
        {"Head", NULL, NULL},
        {"Label", NULL, NULL},
        {"First", HEAD("first"), "%.1f %%"},
        {"Itself", HEAD("self"), "%.1f %%"},
        {"Previous", HEAD("previous"), "%.1f %%"},
        {"Next", HEAD("next"), "%.1f %%"},
        {"Separators", HEAD("separator"), "%.1f %%"},
        {"Punctuation", HEAD("punctuation"), "%.1f %%"},
        {"Same token", HEAD("same_token"), "%.1f %%"},
        {"Entropy, nats", HEAD("entropy"), "%.2f"},
        {"Mean distance, tokens", HEAD("mean_distance"), "%.1f"},
    };
#undef HEAD
    fprintf(out, "<details><summary>Layer %d</summary>", d->o.layers[l]);
    hs__table_begin(out, columns, HS__N(columns));
    for (hs__place at = {.l = l}; at.h < d->o.n_heads; at.h++) {
        fprintf(out, "<tr><th scope=\"row\">%zu</th><td>%s</td>", at.h,
                labels[hs_corpus_profile_read(d->stats, l, at.h).label]);
        hs__cells_write(out, columns + 2, HS__N(columns) - 2, d->report, at);
        fputs("</tr>\n", out);
    }
    hs__table_end(out);
    fputs("</details>\n", out);
}

static void attention_profile_write(const hs__drawing *d, FILE *out)
{
    fputs("<section id=\"profiles\" aria-label=\"Head profiles\"><h2>Where heads attend</h2><p "
          "class=\"muted\">Shares of attention, means over texts; labels by Clark et al. (2019).</p>\n",
          out);
    for (size_t l = 0; l < d->o.n_layers; l++)
        layer_write(d, l, out);
    fputs("</section>\n", out);
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
 * The document is report.json with `maps` (report_maps.h), `figures` (the patterns of figures.h) and `pick`.
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
    for (size_t k = 0; k < hs__n_figures; k++)
        if (hs__figure_exists(&hs__figures[k], report))
            json_object_set_new(figures, hs__figures[k].id, json_string(hs__figures[k].panels));
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
    json_t *whole = json_copy((json_t *)d->report);
    json_object_set_new(whole, "maps", hs__report_maps_json(d->maps));
    json_object_set_new(whole, "palettes", hs__report_palettes_json());
    json_object_set_new(whole, "figures", figures_json(d->report));
    json_object_set_new(whole, "pick", pick_json(pick));
    char *document = whole ? json_dumps(whole, JSON_COMPACT | JSON_REAL_PRECISION(7)) : NULL;
    json_decref(whole);
    return document;
}

static hs_status data_write(FILE *file, hs__drawing *d, const char *document, hs_error *err)
{
    const size_t n = strlen(document);
    const unsigned char size[4] = {(unsigned char)n, (unsigned char)(n >> 8), (unsigned char)(n >> 16),
                                   (unsigned char)(n >> 24)};
    packer *p = calloc(1, sizeof *p);
    if (!p || deflateInit2(&p->stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY) != Z_OK) {
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
    const hs_status st = hs__panels_visit(d, panel_pack, p, err);
    pack(p, NULL, 0, Z_FINISH);
    deflateEnd(&p->stream);
    free(p);
    return st;
}

/* ---- what is read without a script ---- */

static hs_status figures_write(hs__drawing *d, const hs__pick *pick, FILE *out, hs_error *err)
{
    hs_status st = HS_OK;
    for (size_t k = 0; !st && k < hs__n_figures; k++) {
        const hs__report_figure *f = &hs__figures[k];
        if (!hs__figure_exists(f, d->report))
            continue;
        fprintf(out, "<figure id=\"figure-%s\" aria-label=\"%s\"><h2>%s</h2><div class=\"panels\">\n", f->id,
                f->title, f->title);
        st = hs__figure_write(d, f, pick, out, err);
        fputs("</div><figcaption>", out);
        hs__caption_write(d, f, pick, out);
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
    for (size_t k = 0; k < hs__n_figures; k++)
        if (hs__figure_exists(&hs__figures[k], report))
            fprintf(out, "<li><a href=\"#figure-%s\">%s</a></li>\n", hs__figures[k].id, hs__figures[k].title);
    content_write("heads", "Heads", out);
    content_write("profiles", "Where heads attend", out);
    for (size_t c = 0; c < hs__n_counters; c++)
        if (hs__counters[c]->section && json_object_get(report, hs__counters[c]->section))
            content_write(hs__counters[c]->section, hs__counters[c]->title, out);
    fputs("</ul></nav>\n", out);
}

static hs_status page_write(hs__drawing *d, const hs__pick *pick, FILE *out, hs_error *err)
{
    const int layer = d->o.layers[pick->last];
    const double threshold = (double)d->o.thresholds[pick->t];
    const hs__place at = {.t = pick->t, .l = pick->last};
    hs__header_write(d->report, out);
    contents_write(d->report, out);
    fputs("<nav class=\"choices\" aria-label=\"What the figures show\" hidden></nav>\n<main>", out);
    hs__findings_write(d->report, out);
    d->pictures = true;
    const hs_status st = figures_write(d, pick, out, err);
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
    for (size_t c = 0; c < hs__n_counters; c++)
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
        st = hs__drawing_init(&drawing, stats, report, &maps, err);
    if (!st) {
        st = whole_write(file, &drawing, err);
        hs__drawing_finish(&drawing);
    }
    hs__report_maps_finish(&maps);
    return st;
}
