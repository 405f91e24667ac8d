/* gaussian_chance.c - draws outputs, and counts their low similarities. */
#include "engine/statistics/gaussian_chance.h"

#include "engine/statistics/statistics.h"
#include "model/base/clones.h"
#include "model/base/normals.h"

#include <math.h>

/* Other draws of a text begin with other seeds. */
#define SEED UINT64_C(0x6a09e667f3bcc909)

size_t hs_gaussian_bytes(size_t n_tokens, size_t width)
{
    return (n_tokens + 1) * width * sizeof(float);
}

/* Takes the mean row away. mean [width] is scratch. */
static void rows_center(float *rows, size_t n_rows, size_t width, float *mean)
{
    for (size_t c = 0; c < width; c++) {
        double sum = 0;
        for (size_t i = 0; i < n_rows; i++)
            sum += (double)rows[i * width + c];
        mean[c] = (float)(sum / (double)n_rows);
    }
    for (size_t i = 0; i < n_rows; i++)
        for (size_t c = 0; c < width; c++)
            rows[i * width + c] -= mean[c];
}

static inline __attribute__((always_inline)) float product(const float *restrict a, const float *restrict b,
                                                           size_t n)
{
    enum { LANES = 16 };
    float lanes[LANES] = {0}, sum = 0;
    size_t k = 0;
    for (; k + LANES <= n; k += LANES)
        for (size_t i = 0; i < LANES; i++)
            lanes[i] += a[k + i] * b[k + i];
    for (; k < n; k++)
        sum += a[k] * b[k];
    for (size_t i = 0; i < LANES; i++)
        sum += lanes[i];
    return sum;
}

static HS_CLONES float products_max(const float *rows, size_t n_rows, size_t width)
{
    float most = -INFINITY;
    for (size_t i = 0; i < n_rows; i++)
        for (size_t j = i + 1; j < n_rows; j++)
            most = fmaxf(most, product(rows + i * width, rows + j * width, width));
    return most;
}

static HS_CLONES uint64_t products_below(const float *rows, size_t n_rows, size_t width, float limit)
{
    uint64_t n = 0;
    for (size_t i = 0; i < n_rows; i++)
        for (size_t j = i + 1; j < n_rows; j++)
            n += product(rows + i * width, rows + j * width, width) < limit;
    return n;
}

uint64_t hs_gaussian_below(uint64_t number, size_t n_tokens, size_t width, bool centered, float limit,
                           float *scratch)
{
    hs_normals_draw(number ^ SEED, 1, n_tokens * width, scratch);
    if (centered)
        rows_center(scratch, n_tokens, width, scratch + n_tokens * width);
    const float most = products_max(scratch, n_tokens, width);
    return most > 0 ? products_below(scratch, n_tokens, width, limit * most) : hs_pairs_of(n_tokens);
}
