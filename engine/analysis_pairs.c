/* analysis_pairs.c - the strongest pairs of E over any number of maps, in bounded memory.
 *
 * 144 maps of 512 tokens may hold 19 million elements of which 10,000 are wanted. They are not sorted: floats
 * in (0, 1] order like their bits, so a histogram of the upper 16 bits and then one of the lower 16 bits find
 * the exact value at which to cut, and a last walk takes what is above it, and of its equals the first ones.
 */
#include "engine/analysis.h"

#include "engine/analysis_maps.h"
#include "model/clones.h"

#include <stdlib.h>
#include <string.h>

enum { HALF_BITS = 16, N_BINS = 1 << HALF_BITS };

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* One block of one row. */
typedef struct block {
    size_t row, column, width;
    uint16_t offsets[HS__BLOCK];
    float normalized[HS__BLOCK];
} block;

/* N of the block, and the offsets of those that reach the floor; returns how many do. */
HS_CLONES
static size_t block_fill(block *b, const float *values, float maximum, float floor, const uint8_t *masked)
{
    int n_above = 0;
    for (size_t j = 0; j < b->width; j++) {
        b->normalized[j] = values[j] / maximum;
        n_above += b->normalized[j] >= floor;
    }
    if (n_above == 0)
        return 0;
    size_t n = 0;
    for (size_t j = 0; j < b->width; j++) {
        b->offsets[n] = (uint16_t)j; /* overwritten by the next one unless it counts */
        n += b->normalized[j] >= floor && !hs__is_masked(masked, b->column + j);
    }
    return n;
}

typedef struct search {
    const hs_capture *capture;
    const uint8_t *masked;
    float *maxima;    /* m of each map */
    uint64_t *counts; /* [N_BINS] */
    uint32_t prefix;  /* upper bits of the bin whose lower bits are counted */
    uint32_t cut;     /* bits of the smallest N kept */
    uint64_t n_ties;  /* how many equal to it are kept */
    hs_pair *pairs;
    size_t n_pairs;
} search;

/* Is given the n elements of a block that reached the floor, and the map they are in. */
typedef void visit_fn(search *s, size_t map, const block *b, size_t n);

/* Calls visit for each block of each map that has elements with N >= floor, in order; returns their number.
 */
static uint64_t elements_visit(search *s, float floor, visit_fn *visit)
{
    const size_t T = s->capture->n_tokens;
    const size_t n_maps = s->capture->n_layers * s->capture->n_heads;
    uint64_t n_elements = 0;
    block b;
    for (size_t map = 0; map < n_maps; map++) {
        if (!(s->maxima[map] > 0))
            continue;
        const float *similarity = s->capture->similarities + map * T * T;
        for (b.row = 0; b.row < T; b.row++) {
            if (hs__is_masked(s->masked, b.row))
                continue;
            for (b.column = b.row + 1; b.column < T; b.column += b.width) {
                b.width = hs__min(HS__BLOCK, T - b.column);
                const size_t n =
                    block_fill(&b, similarity + b.row * T + b.column, s->maxima[map], floor, s->masked);
                n_elements += n;
                if (n && visit)
                    visit(s, map, &b, n);
            }
        }
    }
    return n_elements;
}

static void count_upper(search *s, size_t map, const block *b, size_t n)
{
    (void)map;
    for (size_t k = 0; k < n; k++)
        s->counts[bits_of(b->normalized[b->offsets[k]]) >> HALF_BITS]++;
}

static void count_lower(search *s, size_t map, const block *b, size_t n)
{
    (void)map;
    for (size_t k = 0; k < n; k++) {
        const uint32_t bits = bits_of(b->normalized[b->offsets[k]]);
        if (bits >> HALF_BITS == s->prefix)
            s->counts[bits & (N_BINS - 1)]++;
    }
}

static void collect(search *s, size_t map, const block *b, size_t n)
{
    const size_t T = s->capture->n_tokens;
    for (size_t k = 0; k < n; k++) {
        const float normalized = b->normalized[b->offsets[k]];
        if (bits_of(normalized) == s->cut) {
            if (s->n_ties == 0)
                continue;
            s->n_ties--;
        }
        const size_t j = b->column + b->offsets[k];
        s->pairs[s->n_pairs++] = (hs_pair){
            .layer = s->capture->layers[map / s->capture->n_heads],
            .head = s->capture->heads[map % s->capture->n_heads],
            .i = (uint16_t)b->row,
            .j = (uint16_t)j,
            .similarity = s->capture->similarities[map * T * T + b->row * T + j],
            .normalized = normalized,
        };
    }
}

/* The highest bin that, with those above it, holds `wanted` elements (there are that many); how many of its
 * own are wanted goes to *wanted. */
static uint32_t bin_of_rank(const uint64_t *counts, uint64_t *wanted)
{
    uint32_t bin = N_BINS - 1;
    while (counts[bin] < *wanted)
        *wanted -= counts[bin--];
    return bin;
}

/* Sets cut and n_ties so that exactly `wanted` elements are kept of the more there are. */
static void cut_find(search *s, float threshold, uint64_t wanted)
{
    elements_visit(s, threshold, count_upper);
    s->prefix = bin_of_rank(s->counts, &wanted);
    memset(s->counts, 0, N_BINS * sizeof *s->counts);
    const float floor = float_of(s->prefix << HALF_BITS);
    elements_visit(s, floor > threshold ? floor : threshold, count_lower);
    s->cut = s->prefix << HALF_BITS | bin_of_rank(s->counts, &wanted);
    s->n_ties = wanted;
}

static int pair_compare(const void *left, const void *right)
{
    const hs_pair *a = left, *b = right;
    if (a->normalized != b->normalized)
        return a->normalized > b->normalized ? -1 : 1;
    if (a->i != b->i)
        return a->i < b->i ? -1 : 1;
    return a->j < b->j ? -1 : a->j > b->j;
}

/* Collected pairs come head by head. */
static void pairs_sort(hs_pair *pairs, size_t n)
{
    for (size_t start = 0, end; start < n; start = end) {
        for (end = start + 1; end < n; end++)
            if (pairs[end].layer != pairs[start].layer || pairs[end].head != pairs[start].head)
                break;
        qsort(pairs + start, end - start, sizeof *pairs, pair_compare);
    }
}

hs_status hs_pairs_find(const hs_capture *capture, const uint8_t *masked, float threshold, size_t pairs_max,
                        hs_pair **ret_pairs, size_t *ret_n_pairs, uint64_t *ret_total, hs_error *err)
{
    const size_t T = capture->n_tokens, n_maps = capture->n_layers * capture->n_heads;
    search s = {.capture = capture, .masked = masked};
    hs_status st = HS_OK;
    s.maxima = calloc(n_maps + 1, sizeof *s.maxima);
    if (!s.maxima)
        return hs_fail(err, HS_NO_MEMORY, "no memory to search %zu maps for pairs", n_maps);
    for (size_t map = 0; map < n_maps; map++)
        s.maxima[map] = hs_similarity_max(capture->similarities + map * T * T, T, masked);
    const uint64_t total = elements_visit(&s, threshold, NULL);

    const size_t n_kept = total < pairs_max ? (size_t)total : pairs_max;
    if (n_kept) {
        s.pairs = calloc(n_kept, sizeof *s.pairs);
        s.counts = n_kept < total ? calloc(N_BINS, sizeof *s.counts) : NULL;
        if (!s.pairs || (n_kept < total && !s.counts)) {
            st = hs_fail(err, HS_NO_MEMORY, "no memory for %zu pairs", n_kept);
            goto out;
        }
        s.cut = bits_of(threshold);
        s.n_ties = UINT64_MAX;
        if (n_kept < total)
            cut_find(&s, threshold, n_kept);
        elements_visit(&s, float_of(s.cut), collect);
        pairs_sort(s.pairs, s.n_pairs);
    }
    *ret_pairs = s.pairs;
    *ret_n_pairs = s.n_pairs;
    *ret_total = total;
    s.pairs = NULL;
out:
    free(s.pairs);
    free(s.counts);
    free(s.maxima);
    return st;
}
