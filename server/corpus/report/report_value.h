/* report_value.h - the values of report.json: one by its path, and numbers as they are written. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Indices of threshold, layer and head; 0 where a path does not name them. */
typedef struct hs__indices {
    size_t t, l, h;
} hs__indices;

/* Returns the value at a path of members, such as "head_figures.T.L.H.auc"; "T", "L" and "H" are indices.
 * NULL if there is none. */
const json_t *hs__report_value(const json_t *report, const char *path, hs__indices at);

/* Returns true if the report has the member that a path begins with. */
bool hs__report_has(const json_t *report, const char *path);

/* Returns the number at a path; NAN if there is none, or path is NULL. */
double hs__report_number_at(const json_t *report, const char *path, hs__indices at);

/* Returns the shortest decimal that reads as value: 0.1, not the float's 0.100000001490116. */
double hs__report_decimal(float value);
/* Returns a JSON number; null for NAN. */
json_t *hs__report_number(double value);
