/* backward_norm.c - norms backwards.
 *
 * With s the row that is normed, u = (s - mean) / deviation, g the gradient of u gamma + beta and h = g
 * gamma, the gradient of s is
 *
 *     LAYER: (h - mean(h) - u mean(h u)) / deviation        RMS: (h - u mean(h u)) / deviation */
#include "engine/pass/tape.h"

#include "model/base/clones.h"

#include <math.h>
#include <string.h>

enum { LANES = 16 };

/* Sums over a row, in double. */
typedef struct norm_sums {
    double h, hu; /* of h and of h * u */
} norm_sums;

/* Returns the sum of s, or of (s - middle)^2 with `squares`, for s = x + r. */
static HS_CLONES double row_sum(size_t H, const float *x, const float *r, bool squares, float middle)
{
    double sums[LANES] = {0}, sum = 0;
    for (size_t j = 0; j < H; j += LANES)
        for (size_t k = 0; k < LANES && j + k < H; k++) {
            const float s = (r ? x[j + k] + r[j + k] : x[j + k]) - middle;
            sums[k] += squares ? (double)s * (double)s : (double)s;
        }
    for (size_t k = 0; k < LANES; k++)
        sum += sums[k];
    return sum;
}

static HS_CLONES norm_sums row_sums(size_t H, const float *x, const float *r, float middle, float inverse,
                                    const float *gamma, const float *g)
{
    double h_sums[LANES] = {0}, hu_sums[LANES] = {0};
    norm_sums sums = {0};
    for (size_t j = 0; j < H; j += LANES)
        for (size_t k = 0; k < LANES && j + k < H; k++) {
            const float u = ((r ? x[j + k] + r[j + k] : x[j + k]) - middle) * inverse;
            const float h = g[j + k] * gamma[j + k];
            h_sums[k] += (double)h;
            hu_sums[k] += (double)h * (double)u;
        }
    for (size_t k = 0; k < LANES; k++) {
        sums.h += h_sums[k];
        sums.hu += hu_sums[k];
    }
    return sums;
}

/* Writes ret = base + (h - h_mean - u hu_mean) inverse. */
static HS_CLONES void row_write(size_t H, const float *x, const float *r, float middle, float inverse,
                                const float *gamma, const float *g, float h_mean, float hu_mean,
                                const float *base, float *ret)
{
    for (size_t j = 0; j < H; j++) {
        const float u = ((r ? x[j] + r[j] : x[j]) - middle) * inverse;
        const float d = (g[j] * gamma[j] - h_mean - u * hu_mean) * inverse;
        ret[j] = base ? base[j] + d : d;
    }
}

static void norm_row_back(const hs_engine *engine, const hs__packed_norm *norm, size_t H, const float *x,
                          const float *r, const float *g, const float *base, float *ret)
{
    const bool centered = engine->architecture->norm_kind == HS_NORM_LAYER;
    const double n = (double)H;
    const float middle = centered ? (float)(row_sum(H, x, r, false, 0) / n) : 0;
    const float inverse =
        (float)(1 / sqrt(row_sum(H, x, r, true, middle) / n + (double)engine->architecture->norm_eps));
    const norm_sums sums = row_sums(H, x, r, middle, inverse, norm->gamma, g);
    row_write(H, x, r, middle, inverse, norm->gamma, g, centered ? (float)(sums.h / n) : 0,
              (float)(sums.hu / n), base, ret);
}

void hs__norm_back(const hs_engine *engine, const hs__packed_norm *norm, size_t n, size_t H, const float *x,
                   const float *r, const float *g, const float *base, float *ret)
{
    for (size_t i = 0; i < n * H; i += H) {
        if (norm && norm->gamma) {
            norm_row_back(engine, norm, H, x + i, r ? r + i : NULL, g + i, base ? base + i : NULL, ret + i);
            continue;
        }
        const float *addend = ret == base ? g : base; /* what is not in ret yet */
        if (ret != base && ret != g)
            memcpy(ret + i, g + i, H * sizeof *ret);
        if (addend)
            engine->kernels->add_bias(1, H, addend + i, ret + i, H);
    }
}
