/* analysis_segments.c - segments of a text by one layer, and how well they match its sentences. */
#include "engine/analysis/analysis.h"

#include "engine/analysis/analysis_maps.h"

#include <stdlib.h>
#include <string.h>

size_t hs__segments_cut(const uint16_t *high, size_t n_high, const uint8_t *special, size_t n_tokens,
                        hs_segment *ret_segments)
{
    size_t n = 0, start = 0;
    for (size_t k = 0; k < n_high; k++) {
        const size_t next = (size_t)high[k] + 1;
        if (special[high[k]] || (k + 1 < n_high && high[k + 1] == next))
            continue;
        ret_segments[n++] = (hs_segment){.start = (uint16_t)start, .end = (uint16_t)next};
        start = next;
    }
    if (start < n_tokens)
        ret_segments[n++] = (hs_segment){.start = (uint16_t)start, .end = (uint16_t)n_tokens};
    return n;
}

/* Adds one head's N inside each segment to inside[], and between it and every other segment to across[]. */
static void segments_add_head(const float *similarity, size_t n_tokens, const uint8_t *masked,
                              const hs_segment *segments, size_t n, double *inside, double *across)
{
    const float maximum = hs_similarity_max(similarity, n_tokens, masked);
    if (!(maximum > 0))
        return;
    for (size_t a = 0; a < n; a++) {
        const hs_segment *rows = &segments[a];
        for (size_t b = a; b < n; b++) {
            const double sum = hs__cell_sum(similarity, n_tokens, masked, rows->start, rows->end,
                                            segments[b].start, segments[b].end) /
                               (double)maximum;
            if (a == b) {
                inside[a] += sum;
            } else {
                across[a] += sum;
                across[b] += sum;
            }
        }
    }
}

size_t hs_segments_find(const float *attentions, const float *similarities, size_t n_heads, size_t n_tokens,
                        const uint8_t *special, const uint8_t *masked, float attention_threshold,
                        hs_segment *ret_segments)
{
    double *inside = calloc(2 * n_tokens + 1, sizeof *inside);
    float *profile = calloc(n_tokens + 1, sizeof *profile);
    uint16_t *high = calloc(n_tokens + 1, sizeof *high);
    size_t n = SIZE_MAX;
    if (!inside || !profile || !high)
        goto out;
    double *across = inside + n_tokens;

    double *sums = inside; /* not needed at the same time */
    for (size_t h = 0; h < n_heads; h++)
        hs__columns_add(attentions + h * n_tokens * n_tokens, n_tokens, masked, sums);
    for (size_t j = 0; j < n_tokens; j++)
        profile[j] = hs__is_masked(masked, j) ? 0.0f : (float)sums[j];
    hs__profile_normalize(profile, n_tokens);
    const size_t n_high = hs_high_tokens(profile, n_tokens, attention_threshold, high);
    n = hs__segments_cut(high, n_high, special, n_tokens, ret_segments);

    memset(inside, 0, 2 * n_tokens * sizeof *inside);
    for (size_t h = 0; h < n_heads; h++)
        segments_add_head(similarities + h * n_tokens * n_tokens, n_tokens, masked, ret_segments, n, inside,
                          across);
    const size_t n_unmasked = hs__unmasked_count(masked, 0, n_tokens);
    for (size_t s = 0; s < n; s++) {
        hs_segment *segment = &ret_segments[s];
        const size_t size = hs__unmasked_count(masked, segment->start, segment->end);
        const double pairs_inside = 0.5 * (double)size * ((double)size - 1) * (double)n_heads;
        const double pairs_across = (double)size * (double)(n_unmasked - size) * (double)n_heads;
        segment->cohesion = pairs_inside > 0 ? (float)(inside[s] / pairs_inside) : 0.0f;
        segment->contrast = pairs_across > 0 ? (float)(across[s] / pairs_across) : 0.0f;
    }
out:
    free(high);
    free(profile);
    free(inside);
    return n;
}

hs_boundary_score hs_segments_score(const hs_segment *segments, size_t n_segments, const int32_t *sentences,
                                    const uint8_t *special, size_t n_tokens)
{
    hs_boundary_score score = {0};
    size_t segment = 0, before = SIZE_MAX, segment_before = 0;
    for (size_t i = 0; i < n_tokens; i++) {
        while (segment + 1 < n_segments && segments[segment].end <= i)
            segment++;
        if (special[i])
            continue;
        if (before != SIZE_MAX) {
            const bool predicted = segment != segment_before;
            const bool actual = sentences[i] != sentences[before];
            score.predicted += predicted;
            score.actual += actual;
            score.true_positives += predicted && actual;
        }
        before = i;
        segment_before = segment;
    }
    return score;
}
