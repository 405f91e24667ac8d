/* analysis_similarity.c - one similarity map: its maximum, its normalised form, sums over parts of it. */
#include "engine/analysis/analysis.h"

#include "engine/analysis/analysis_maps.h"
#include "model/clones.h"

#include <math.h>

size_t hs__unmasked_count(const uint8_t *masked, size_t start, size_t end)
{
    size_t n = 0;
    for (size_t i = start; i < end; i++)
        n += !hs__is_masked(masked, i);
    return n;
}

HS_CLONES
float hs_similarity_max(const float *similarity, size_t n_tokens, const uint8_t *masked)
{
    float maximum = -INFINITY;
    for (size_t start = 0; start < n_tokens; start += HS__BLOCK) {
        const size_t end = hs__min(start + HS__BLOCK, n_tokens);
        float maxima[HS__BLOCK];
        for (size_t j = start; j < end; j++)
            maxima[j - start] = -INFINITY;
        for (size_t i = 0; i < end; i++) {
            if (hs__is_masked(masked, i))
                continue;
            const float *row = similarity + i * n_tokens;
            for (size_t j = hs__max(i + 1, start); j < end; j++)
                maxima[j - start] = row[j] > maxima[j - start] ? row[j] : maxima[j - start];
        }
        for (size_t j = start; j < end; j++)
            if (maxima[j - start] > maximum && !hs__is_masked(masked, j))
                maximum = maxima[j - start];
    }
    return maximum;
}

float hs__similarity_cut(float threshold, float maximum)
{
    float cut = threshold * maximum;
    while (cut / maximum >= threshold && cut < INFINITY)
        cut = nextafterf(cut, -INFINITY);
    while (!(cut / maximum >= threshold) && cut < INFINITY)
        cut = nextafterf(cut, INFINITY);
    return cut;
}

HS_CLONES
void hs_similarity_normalize(const float *similarity, size_t n_tokens, const uint8_t *masked, float maximum,
                             float *ret_normalized)
{
    for (size_t i = 0; i < n_tokens; i++) {
        const float *row = similarity + i * n_tokens;
        float *ret_row = ret_normalized + i * n_tokens;
        const bool empty = !(maximum > 0) || hs__is_masked(masked, i);
        for (size_t j = 0; j < n_tokens; j++)
            ret_row[j] = empty ? 0.0f : row[j] / maximum;
        for (size_t j = 0; masked && j < n_tokens; j++)
            ret_row[j] = masked[j] ? 0.0f : ret_row[j];
        ret_row[i] = 0.0f;
    }
}

HS_CLONES
double hs__cell_sum(const float *similarity, size_t n_tokens, const uint8_t *masked, size_t row,
                    size_t row_end, size_t column, size_t column_end)
{
    double sum = 0;
    for (size_t start = column; start < column_end; start += HS__BLOCK) {
        const size_t end = hs__min(start + HS__BLOCK, column_end);
        double sums[HS__BLOCK];
        for (size_t j = start; j < end; j++)
            sums[j - start] = 0;
        for (size_t i = row; i < row_end; i++) {
            if (hs__is_masked(masked, i))
                continue;
            const float *values = similarity + i * n_tokens;
            for (size_t j = hs__max(i + 1, start); j < end; j++)
                sums[j - start] += values[j];
        }
        for (size_t j = start; j < end; j++)
            if (!hs__is_masked(masked, j))
                sum += sums[j - start];
    }
    return sum;
}
