/* report_value.h - a value of report.json by its path. */
#pragma once

#include <jansson.h>
#include <stddef.h>

/* Indices of threshold, layer and head; 0 where a path does not name them. */
typedef struct hs__place {
    size_t t, l, h;
} hs__place;

/* Returns the value at a path of members, such as "head_figures.T.L.H.auc"; "T", "L" and "H" are indices.
 * NULL if there is none. */
const json_t *hs__report_value(const json_t *report, const char *path, hs__place at);

/* Returns the number at a path; NAN if there is none, or path is NULL. */
double hs__report_number_at(const json_t *report, const char *path, hs__place at);
