/* statistics_distance.c - distances of heads over texts. They compare every two heads of a text, so its maps
 * are kept until the last head has come. */
#include "engine/statistics/statistics_add.h"

#include "engine/analysis/distances.h"

#include <string.h>

void hs__corpus_kept_layout(const hs__corpus_header *header, hs__arena *arena, hs__corpus_kept *ret)
{
    const size_t n = hs__corpus_distance_heads(header), W = header->tokens_max;
    if (n == 0)
        return;
    ret->maps = hs__arena_floats(arena, n * W * W);
    ret->heads = hs__arena_take(arena, n * sizeof *ret->heads);
    ret->sums = hs__arena_take(arena, n * n * sizeof *ret->sums);
    ret->scratch = hs__arena_take(arena, header->distances == HS_CORPUS_JS ? n * sizeof(double)
                                                                           : hs_heads_hsic_bytes(n, W));
}

/* Above the diagonal of S, all of A. */
static void keep(const hs__corpus_kept *kept, bool js, size_t at, size_t W, size_t T,
                 const hs_observed_head *head)
{
    float *to = kept->maps + at * W * W;
    kept->heads[at] = to;
    if (js)
        memcpy(to, head->attention, T * T * sizeof *to);
    for (size_t i = 0; !js && i + 1 < T; i++)
        memcpy(to + i * T + i + 1, head->similarity + i * T + i + 1, (T - 1 - i) * sizeof *to);
}

void hs__corpus_distances_add(hs_corpus_stats *stats, const hs__corpus_kept *kept, size_t at, size_t n_tokens,
                              const hs_observed_head *head)
{
    const size_t n = hs__corpus_distance_heads(stats->header);
    const bool js = stats->header->distances == HS_CORPUS_JS;
    keep(kept, js, at, stats->header->tokens_max, n_tokens, head);
    if (at + 1 < n)
        return;
    memset(kept->sums, 0, n * n * sizeof *kept->sums);
    for (size_t row = 0; js && row < n_tokens; row++)
        hs_heads_js_add(kept->heads, n, n_tokens, row, kept->scratch, kept->sums);
    if (!js)
        hs_heads_hsic_add(kept->heads, n, n_tokens, kept->scratch, kept->sums);
    for (size_t i = 0; i < n * n; i++)
        hs__corpus_fixed_add(stats->fields[HS__F_DISTANCES] + 2 * i, kept->sums[i]);
}
