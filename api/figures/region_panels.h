/* region_panels.h - two panels of figure 5 of the paper: the mask of the tokens of high attention, and the
 * mean similarity of the regions between them (docs/reference/formulas.md, "Regions"). */
#pragma once

#include "api/figures/figure.h"
#include "engine/analysis/analysis.h"

/* Memory for the regions of a text of T tokens. */
typedef struct hs_region_memory {
    double *sums;   /* [T] */
    float *means;   /* [T][T] */
    hs_span *runs;  /* [T] */
    uint16_t *high; /* [T] */
} hs_region_memory;

/* Return panels of n x n tokens; values [n][n] are filled. marked [n] is not 0 for tokens of high attention.
 * similarity is [n][n]; masked [n] are tokens that means leave out, or NULL. All are borrowed. */
hs_panel hs_panel_of_mask(const unsigned char *marked, const char *const *labels, size_t n, float *values);
hs_panel hs_panel_of_regions(const float *similarity, const uint8_t *masked, const unsigned char *marked,
                             const char *const *labels, size_t n, const hs_region_memory *memory,
                             float *values);
