/* panels.h - the panels of a report by name: what each is made from. */
#pragma once

#include "api/figures/picture.h"
#include "server/corpus/report/figures.h"
#include "server/corpus/report/report_value.h"

typedef struct hs__report_panel hs__report_panel;
struct hs__report_panel {
    const char *name, *axes; /* of "lht" */
    /* Lays a figure out; it stays empty if there is nothing to draw. */
    hs_status (*draw)(hs__drawing *d, const hs__report_panel *panel, hs__place at, hs__picture *ret,
                      hs_error *err);
    void (*write)(const hs__drawing *d, hs__place at, FILE *out); /* of a table, instead */
    const char *title, *x_label, *y_label;
    const char
        *array; /* that it is drawn from; of a map its unit; of tokens their ids, y_label their counts */
    int which;  /* of what has several */
};

extern const hs__report_panel hs__panels[];
extern const size_t hs__n_panels;
