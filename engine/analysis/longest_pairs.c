/* longest_pairs.c - finds the n-th largest product of two lengths, and counts the pairs from it on.
 *
 * A summary does this for each head, so it has to cost little beside the T T of a map. Lengths are sorted by
 * their bits. One walk over them counts the pairs from a product on. */
#include "engine/analysis/longest_pairs.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- sorted lengths ---- */

enum { DIGITS = 4, VALUES = 256 };

/* Returns digit k of a length, smaller for larger lengths. Floats of 0 or more are ordered as their bits are.
 */
static inline uint8_t digit_of(uint32_t bits, unsigned k)
{
    return (uint8_t)(~bits >> (8 * k));
}

/* Sorts lengths in descending order by their digits, the last one first (LSD radix sort). Lengths that are
 * not numbers count as 0, infinite ones as the largest float. other [n] is scratch. */
static void lengths_sort(const float *lengths, size_t n, uint32_t *ret_sorted, uint32_t *other)
{
    uint32_t starts[DIGITS][VALUES] = {0}, *from = ret_sorted, *to = other;
    for (size_t i = 0; i < n; i++) {
        const float length = lengths[i] > 0 ? fminf(lengths[i], FLT_MAX) : 0;
        memcpy(&from[i], &length, sizeof length);
        for (unsigned k = 0; k < DIGITS; k++)
            starts[k][digit_of(from[i], k)]++;
    }
    for (unsigned k = 0; k < DIGITS; k++) {
        uint32_t start = 0;
        for (unsigned v = 0; v < VALUES; v++) {
            const uint32_t count = starts[k][v];
            starts[k][v] = start;
            start += count;
        }
        for (size_t i = 0; i < n; i++)
            to[starts[k][digit_of(from[i], k)]++] = from[i];
        uint32_t *sorted = to;
        to = from;
        from = sorted;
    }
}

/* ---- the cut ---- */

/* Positive doubles are ordered as their bits are. */
static uint64_t bits_of(double product)
{
    uint64_t bits;
    memcpy(&bits, &product, sizeof bits);
    return bits;
}

static double product_of(uint64_t bits)
{
    double product;
    memcpy(&product, &bits, sizeof product);
    return product;
}

/* Counts the pairs of descending lengths whose product is at least this. */
static uint64_t pairs_from(const float *sorted, size_t n, double product)
{
    uint64_t count = 0;
    size_t end = n; /* sorted[i] * sorted[j] reaches the product for j < end */
    for (size_t i = 0; i < end; i++) {
        while (end > i + 1 && hs_length_product(sorted[i], sorted[end - 1]) < product)
            end--;
        count += end - (i + 1);
    }
    return count;
}

enum { CANDIDATES = 32, INFINITE = 0x7f800000 /* bits of an infinite float */ };

/* A range of products by their bits: at least the wanted number of pairs reach low, fewer reach high. */
typedef struct range {
    uint64_t low, high, n_low, n_high; /* n pairs reach them */
} range;

/* Returns the k-th largest product in a range of at most CANDIDATES. */
static double candidate_find(const float *sorted, size_t n, const range *r, uint64_t k)
{
    double found[CANDIDATES] = {0}, low = product_of(r->low), high = product_of(r->high);
    size_t n_found = 0, end = n;
    for (size_t i = 0; i < end; i++) {
        while (end > i + 1 && hs_length_product(sorted[i], sorted[end - 1]) < low)
            end--;
        for (size_t j = end; j-- > i + 1;) {
            const double product = hs_length_product(sorted[i], sorted[j]);
            if (product >= high)
                break;
            size_t to = n_found++;
            for (; to > 0 && found[to - 1] < product; to--)
                found[to] = found[to - 1];
            found[to] = product;
        }
    }
    return found[k - 1];
}

/* Returns the n_pairs-th largest product of two of the lengths. Narrows a range by interpolation and
 * bisection in turn, until few products are in it. */
static double cut_find(const float *sorted, size_t n, uint64_t n_pairs)
{
    size_t k = 2;
    while (k * (k - 1) / 2 < n_pairs)
        k++; /* pairs of the first k lengths are enough */
    range r = {.low = bits_of(hs_length_product(sorted[k - 2], sorted[k - 1])),
               .high = bits_of(hs_length_product(sorted[0], sorted[1])) + 1};
    n = n_pairs + 1 < n ? n_pairs + 1
                        : n; /* pairs of others come after the n_pairs pairs of the first length */
    r.n_low = pairs_from(sorted, n, product_of(r.low));
    for (bool bisects = false; r.high - r.low > 1 && r.n_low - r.n_high > CANDIDATES; bisects = !bisects) {
        const double part = (double)(r.n_low - n_pairs) / (double)(r.n_low - r.n_high);
        const uint64_t step = bisects ? (r.high - r.low) / 2 : (uint64_t)((double)(r.high - r.low) * part);
        const uint64_t middle = r.low + (step < 1 ? 1 : step < r.high - r.low ? step : r.high - r.low - 1);
        const uint64_t count = pairs_from(sorted, n, product_of(middle));
        if (count >= n_pairs) {
            r.low = middle;
            r.n_low = count;
        } else {
            r.high = middle;
            r.n_high = count;
        }
    }
    return r.high - r.low > 1 ? candidate_find(sorted, n, &r, n_pairs - r.n_high) : product_of(r.low);
}

/* Finds the n_equal-th pair with exactly the product `cut`, in the order of the text. */
static void last_find(const float *lengths, size_t n, uint64_t n_equal, hs_longest_pairs *pairs)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++)
            if (hs_length_product(lengths[i], lengths[j]) == pairs->cut && n_equal-- == 1) {
                pairs->last_row = i;
                pairs->last_column = j;
                return;
            }
}

hs_longest_pairs hs_longest_pairs_find(const float *lengths, size_t n, uint64_t n_pairs, uint32_t *scratch)
{
    const float *sorted = (const float *)(const void *)scratch;
    lengths_sort(lengths, n, scratch, scratch + n);
    hs_longest_pairs pairs = {cut_find(sorted, n, n_pairs), SIZE_MAX, SIZE_MAX};
    if (pairs_from(sorted, n, pairs.cut) > n_pairs)
        last_find(lengths, n, n_pairs - pairs_from(sorted, n, nextafter(pairs.cut, INFINITY)), &pairs);
    return pairs;
}

float hs_longest_partner(float length, double cut)
{
    const float near = (float)(cut / (double)length);
    uint32_t bits;
    float partner = near;
    memcpy(&bits, &near, sizeof bits);
    for (; bits > 0 && hs_length_product(length, partner) >= cut; memcpy(&partner, &bits, sizeof bits))
        bits--;
    for (; bits < INFINITE && hs_length_product(length, partner) < cut; memcpy(&partner, &bits, sizeof bits))
        bits++;
    return partner;
}

double hs_participation_ratio(const float *lengths, size_t n, double squares_above)
{
    double trace = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        const double square = hs_length_product(lengths[i], lengths[i]);
        trace += square;
        squares += square * square;
    }
    return trace > 0 ? trace * trace / (squares + 2 * squares_above) : (double)NAN;
}
