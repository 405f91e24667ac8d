/* drawing.h - the panels of a report and what they are drawn from. */
#pragma once

#include "api/figures/picture.h"
#include "engine/statistics/statistics.h"
#include "server/corpus/report/report_value.h"

#include <stdio.h>

/* Indices into the run's layers and thresholds. */
typedef struct hs__pick {
    size_t early, middle, last, head, t;
} hs__pick;

/* Returns what a page shows first. */
static inline hs__pick hs__pick_default(size_t n_layers, size_t threshold_main)
{
    return (hs__pick){
        .early = n_layers > 2 ? 1 : 0, .middle = n_layers / 2, .last = n_layers - 1, .t = threshold_main};
}

typedef struct hs__drawing {
    const hs_corpus_stats *stats;
    hs_corpus_options o;
    const json_t *report;
    const struct hs__report_maps *maps;
    double *values, *places; /* as many as a panel reads at once */
    int64_t *counts;
    unsigned char *pixels; /* [side][side] */
    float *map_values;     /* [side][side] */
    bool pictures;         /* maps are drawn, not left to the page */
} hs__drawing;

typedef struct hs__report_panel hs__report_panel;
struct hs__sheet;
struct hs__report_panel {
    const char *name, *axes; /* of "lht" */
    const char *title, *x_label, *y_label;
    const char
        *array; /* that it is drawn from, or its path or part of it in report.json; of a map its unit */
    int which;  /* chooses among the panels of one fill or draw function */
    /* Fills a chart in, which has the panel's texts. Returns false if there is nothing to draw. Or else: */
    bool (*fill)(hs__drawing *d, const hs__report_panel *panel, hs__indices at, struct hs__sheet *sheet);
    /* Lays a figure out; it stays empty if there is nothing to draw. */
    hs_status (*draw)(hs__drawing *d, const hs__report_panel *panel, hs__indices at, hs_picture *ret,
                      hs_error *err);
    void (*write)(const hs__drawing *d, hs__indices at, FILE *out); /* of a table, instead */
};
