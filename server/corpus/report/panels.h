/* panels.h - the panels of a report by name: what each is drawn from. */
#pragma once

#include "server/corpus/report/figures.h"

/* The layer, head and threshold of a panel, by index; 0 if its axes do not name them. */
typedef struct hs__place {
    size_t l, h, t;
} hs__place;

typedef struct hs__panel hs__panel;
struct hs__panel {
    const char *name, *axes; /* of "lht" */
    void (*draw)(hs__drawing *d, const hs__panel *panel, hs__place at, FILE *out);
    const char *title, *x_label, *y_label;
    const char
        *array; /* that it is drawn from; of a map its unit; of tokens their ids, y_label their counts */
    int which;  /* of what has several */
};

extern const hs__panel hs__panels[];
extern const size_t hs__n_panels;
