/* analysis_attention.c - column profile, high tokens and regions of one attention map. */
#include "engine/analysis/analysis.h"

#include "engine/analysis/analysis_maps.h"
#include "model/clones.h"

HS_CLONES
void hs__columns_add(const float *attention, size_t n_tokens, const uint8_t *masked, double *ret_sums)
{
    for (size_t i = 0; i < n_tokens; i++) {
        if (hs__is_masked(masked, i))
            continue;
        const float *row = attention + i * n_tokens;
        for (size_t j = 0; j < n_tokens; j++)
            ret_sums[j] += row[j];
    }
}

void hs__profile_normalize(float *profile, size_t n_tokens)
{
    float maximum = 0;
    for (size_t j = 0; j < n_tokens; j++)
        maximum = profile[j] > maximum ? profile[j] : maximum;
    for (size_t j = 0; j < n_tokens; j++)
        profile[j] = maximum > 0 ? profile[j] / maximum : 0.0f;
}

HS_CLONES
void hs_column_profile(const float *attention, size_t n_tokens, const uint8_t *masked, float *ret_profile)
{
    for (size_t start = 0; start < n_tokens; start += HS__BLOCK) {
        const size_t width = hs__min(HS__BLOCK, n_tokens - start);
        double sums[HS__BLOCK] = {0};
        for (size_t i = 0; i < n_tokens; i++) {
            if (hs__is_masked(masked, i))
                continue;
            const float *row = attention + i * n_tokens + start;
            for (size_t j = 0; j < width; j++)
                sums[j] += row[j];
        }
        for (size_t j = 0; j < width; j++)
            ret_profile[start + j] = hs__is_masked(masked, start + j) ? 0.0f : (float)sums[j];
    }
    hs__profile_normalize(ret_profile, n_tokens);
}

size_t hs_high_tokens(const float *profile, size_t n_tokens, float threshold, uint16_t *ret_tokens)
{
    size_t n = 0;
    for (size_t j = 0; j < n_tokens; j++)
        if (profile[j] >= threshold)
            ret_tokens[n++] = (uint16_t)j;
    return n;
}

size_t hs_runs_cut(const uint16_t *high, size_t n_high, size_t n_tokens, hs_span *ret_runs)
{
    size_t n = 0, start = 0;
    for (size_t k = 0; k < n_high; k++) {
        if (high[k] > start)
            ret_runs[n++] = (hs_span){(uint16_t)start, high[k]};
        start = (size_t)high[k] + 1;
        ret_runs[n++] = (hs_span){high[k], (uint16_t)start};
    }
    if (start < n_tokens)
        ret_runs[n++] = (hs_span){(uint16_t)start, (uint16_t)n_tokens};
    return n;
}

void hs_region_means(const float *similarity, size_t n_tokens, const uint8_t *masked, const hs_span *runs,
                     size_t n_runs, float *ret_means)
{
    for (size_t a = 0; a < n_runs; a++) {
        const size_t rows = hs__unmasked_count(masked, runs[a].start, runs[a].end);
        for (size_t b = a; b < n_runs; b++) {
            const size_t columns = a == b ? rows : hs__unmasked_count(masked, runs[b].start, runs[b].end);
            const size_t n_pairs = a == b ? rows * (rows - (rows > 0)) / 2 : rows * columns;
            const double sum = hs__cell_sum(similarity, n_tokens, masked, runs[a].start, runs[a].end,
                                            runs[b].start, runs[b].end);
            const float mean = n_pairs ? (float)(sum / (double)n_pairs) : 0.0f;
            ret_means[a * n_runs + b] = mean;
            ret_means[b * n_runs + a] = mean;
        }
    }
}
