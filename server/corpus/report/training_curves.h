/* training_curves.h - runs of one family of models at several steps or seeds, and what the seeds show.
 *
 * A curve has runs whose models have one family and as many layers, over the same texts with the same
 * options. All of them have a step, or none has one. A seed is one training: its texts say how sure its
 * figures are, and only other seeds say how much trainings differ. */
#pragma once

#include "server/base/training_point.h"

#include <jansson.h>
#include <stdio.h>

/* The place of a run in the curves of a comparison. */
typedef struct hs__curve_place {
    hs__training_point point;
    size_t curve;       /* the first run of its curve, or SIZE_MAX */
    size_t repeats;     /* the run of the curve that has the same step and seed, or SIZE_MAX */
    const char *center; /* of the run's options; borrowed */
} hs__curve_place;

/* Finds the places of n runs, at most HS__COMPARED_RUNS_MAX, from their provenance. A curve has at least two
 * steps or two seeds. */
void hs__curve_places_find(const json_t *const *provenances, size_t n, hs__curve_place *ret_places);

/* Compares two places as qsort's functions do: by family, step, seed and centring. Runs of no curve come
 * last, and are equal. */
int hs__curve_places_compare(const hs__curve_place *a, const hs__curve_place *b);

/* Returns `training` of a comparison's JSON, a list of curves (docs/reference/files.md). places: of its runs.
 */
json_t *hs__curves_json(const json_t *comparison, const hs__curve_place *places);

/* Writes the section of a comparison's page, if it has curves. */
HS_MUST_USE hs_status hs__curves_write(const json_t *comparison, FILE *out, hs_error *err);
