/* figures.h - the figures of a report: which panels each shows, and each panel drawn.
 *
 * A panel is a chart of one layer, head or threshold and has a key, "distance:11:3:2": its name and what it
 * is of, by index. A figure lists panels by a pattern, "distance:l:*:t", whose letters stand for what the
 * reader picks; so the page shows another layer by putting other panels in their places. */
#pragma once

#include "server/corpus/report/drawing.h"
#include "server/corpus/report/report_maps.h"

#include <stdio.h>

typedef struct hs__report_figure {
    const char *id, *title;
    const char *panels;  /* keys, separated by spaces: e early, m middle, b the one before last, l last,
                            h head, * every head, t threshold */
    const char *caption; /* HTML; {..} stand for what the run or the reader chose */
    const char *member;  /* of report.json that it shows, and older runs lack; NULL: none */
} hs__report_figure;
extern const hs__report_figure hs__figures[];
extern const size_t hs__n_figures;

/* All borrowed until hs__drawing_finish. HS_NO_MEMORY. */
HS_MUST_USE hs_status hs__drawing_init(hs__drawing *drawing, const hs_corpus_stats *stats,
                                       const json_t *report, const hs__report_maps *maps, hs_error *err);
void hs__drawing_finish(hs__drawing *drawing);

/* Ends a drawing that had this status: writes the picture as SVG, if there is anything in it, and releases
 * it. */
HS_MUST_USE hs_status hs__svg_write(hs_status drawn, hs_picture *picture, FILE *out, hs_error *err);

/* The panels of a figure as picked, one after the other. */
HS_MUST_USE hs_status hs__figure_write(hs__drawing *drawing, const hs__report_figure *figure,
                                       const hs__pick *pick, FILE *out, hs_error *err);
/* Returns true if the run has what the figure shows. */
bool hs__figure_exists(const hs__report_figure *figure, const json_t *report);
void hs__caption_write(const hs__drawing *drawing, const hs__report_figure *figure, const hs__pick *pick,
                       FILE *out);

/* Every panel there is, in turn; `each` is given its key and its SVG. Stops at the first failure. */
typedef hs_status hs__panel_visitor(void *data, const char *key, const char *svg, size_t n_svg);
HS_MUST_USE hs_status hs__panels_visit(hs__drawing *drawing, hs__panel_visitor *each, void *data,
                                       hs_error *err);
