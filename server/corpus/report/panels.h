/* panels.h - the panels of a report by name: what each is made from. */
#pragma once

#include "api/figures/picture.h"
#include "server/corpus/report/figures.h"
#include "server/corpus/report/report_value.h"

typedef struct hs__report_panel hs__report_panel;
struct hs__sheet;
struct hs__report_panel {
    const char *name, *axes; /* of "lht" */
    const char *title, *x_label, *y_label;
    const char
        *array; /* that it is drawn from, or its path or part of it in report.json; of a map its unit */
    int which;  /* chooses among the panels of one fill or draw function */
    /* Fills a chart in, which has the panel's texts. Returns false if there is nothing to draw. Or else: */
    bool (*fill)(hs__drawing *d, const hs__report_panel *panel, hs__place at, struct hs__sheet *sheet);
    /* Lays a figure out; it stays empty if there is nothing to draw. */
    hs_status (*draw)(hs__drawing *d, const hs__report_panel *panel, hs__place at, hs_picture *ret,
                      hs_error *err);
    void (*write)(const hs__drawing *d, hs__place at, FILE *out); /* of a table, instead */
};

extern const hs__report_panel hs__panels[];
extern const size_t hs__n_panels;

/* Lays out a panel that is no table; the picture stays empty if there is nothing to draw. Release it with
 * hs_picture_finish, also on failure. */
HS_MUST_USE hs_status hs__panel_draw(hs__drawing *d, const hs__report_panel *panel, hs__place at,
                                     hs_picture *ret, hs_error *err);
