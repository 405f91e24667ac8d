/* region_panels.c - spreads a mask and means of regions over the cells of their tokens. */
#include "api/figures/region_panels.h"

#include <stdio.h>

hs_panel hs_panel_of_mask(const unsigned char *marked, const char *const *labels, size_t n, float *values)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            values[i * n + j] = marked[i] || marked[j];
    return (hs_panel){.title = "Mask of the tokens of high attention",
                      .n_rows = n,
                      .n_columns = n,
                      .values = values,
                      .row_labels = labels,
                      .column_labels = labels,
                      .unit = "mask",
                      .palette = HS_PALETTE_BLUE,
                      .high = 1,
                      .most = 1};
}

hs_panel hs_panel_of_regions(const float *similarity, const uint8_t *masked, const unsigned char *marked,
                             const char *const *labels, size_t n, const hs_region_memory *memory,
                             float *values)
{
    size_t n_high = 0;
    char range[72];
    for (size_t i = 0; i < n; i++)
        if (marked[i])
            memory->high[n_high++] = (uint16_t)i;
    const size_t n_runs = hs_runs_cut(memory->high, n_high, n, memory->runs);
    hs_region_means(similarity, n, masked, memory->runs, n_runs, memory->sums, memory->means);
    for (size_t a = 0; a < n_runs * n_runs; a++)
        for (size_t i = memory->runs[a / n_runs].start; i < memory->runs[a / n_runs].end; i++)
            for (size_t j = memory->runs[a % n_runs].start; j < memory->runs[a % n_runs].end; j++)
                values[i * n + j] = memory->means[a];
    hs_panel p = hs_panel_of_map(values, labels, n, labels, n, true);
    hs_panel_range_text(&p, range);
    snprintf(p.title, sizeof p.title, "Mean similarity of the regions, %s", range);
    return p;
}
