/* analysis_flows.c - products of maps. Each row of a product is a sum of rows, so that inner loops run
 * along rows and vectorise. */
#include "engine/analysis/flows.h"

#include "model/clones.h"

#include <math.h>
#include <string.h>

/* Computes ret [n][width] = a [n][depth] b [depth][width]; rows of a are lda apart. */
HS_CLONES
static void multiply(const float *restrict a, size_t lda, const float *restrict b, size_t n, size_t depth,
                     size_t width, float *restrict ret)
{
    memset(ret, 0, n * width * sizeof *ret);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < depth; k++)
            for (size_t j = 0; j < width; j++)
                ret[i * width + j] += a[i * lda + k] * b[k * width + j];
}

/* ---- effective attention ---- */

typedef struct basis {
    double *columns; /* [d][T]: V', then the basis in its first rows */
    float *rows;     /* [T][d]: Q */
    float *turned;   /* [d][T]: Q' */
    float *weights;  /* [T][d]: A Q */
} basis;

static basis basis_of(void *scratch, size_t T, size_t d)
{
    double *columns = scratch;
    float *rows = (float *)(void *)(columns + T * d);
    return (basis){columns, rows, rows + T * d, rows + 2 * T * d};
}

size_t hs_effective_attention_bytes(size_t n_tokens, size_t head_width)
{
    return n_tokens * head_width * (sizeof(double) + 3 * sizeof(float));
}

HS_CLONES
static double inner(const double *restrict a, const double *restrict b, size_t n)
{
    enum { LANES = 8 };
    double sums[LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t k = 0; k < LANES; k++)
            sums[k] += a[i + k] * b[i + k];
    for (; i < n; i++)
        sum += a[i] * b[i];
    for (size_t k = 0; k < LANES; k++)
        sum += sums[k];
    return sum;
}

/* Computes a -= factor b. */
HS_CLONES
static void take_off(double *restrict a, double factor, const double *restrict b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        a[i] -= factor * b[i];
}

static void swap(double *a, double *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const double kept = a[i];
        a[i] = b[i];
        b[i] = kept;
    }
}

/* Returns the longest of rows [from, to). */
static size_t longest(const double *rows, size_t from, size_t to, size_t n, double *ret_length)
{
    size_t at = from;
    *ret_length = -1;
    for (size_t c = from; c < to; c++) {
        const double length = sqrt(inner(rows + c * n, rows + c * n, n));
        if (length > *ret_length) {
            *ret_length = length;
            at = c;
        }
    }
    return at;
}

/* Orthonormalises rows by modified Gram-Schmidt with pivoting: the longest remaining row comes first.
 * Each row is subtracted from all that remain, and reorthogonalised once against the earlier ones.
 * Returns the number of independent rows. */
static size_t orthonormalize(double *rows, size_t n_rows, size_t n)
{
    double first = 0;
    for (size_t rank = 0; rank < n_rows; rank++) {
        double length;
        double *row = rows + rank * n;
        const size_t at = longest(rows, rank, n_rows, n, &length);
        first = rank == 0 ? length : first;
        if (rank == n || !(length > 1e-6 * first))
            return rank;
        if (at != rank)
            swap(row, rows + at * n, n);
        for (size_t k = 0; k < rank; k++)
            take_off(row, inner(row, rows + k * n, n), rows + k * n, n);
        length = sqrt(inner(row, row, n));
        for (size_t i = 0; i < n; i++)
            row[i] /= length;
        for (size_t c = rank + 1; c < n_rows; c++)
            take_off(rows + c * n, inner(rows + c * n, row, n), row, n);
    }
    return n_rows;
}

void hs_effective_attention(const float *attention, const float *values, size_t n_tokens, size_t head_width,
                            void *scratch, float *ret_attention)
{
    const size_t T = n_tokens, d = head_width;
    const basis b = basis_of(scratch, T, d);
    for (size_t t = 0; t < T; t++)
        for (size_t c = 0; c < d; c++)
            b.columns[c * T + t] = (double)values[t * d + c];
    const size_t rank = orthonormalize(b.columns, d, T);
    for (size_t c = 0; c < rank; c++) {
        for (size_t t = 0; t < T; t++) {
            b.turned[c * T + t] = (float)b.columns[c * T + t];
            b.rows[t * rank + c] = b.turned[c * T + t];
        }
    }
    multiply(attention, T, b.rows, T, T, rank, b.weights);
    multiply(b.weights, rank, b.turned, T, rank, T, ret_attention);
}

/* ---- rollout ---- */

HS_CLONES
void hs_attention_mean(const float *attentions, size_t n_heads, size_t n_tokens, float *ret_mean)
{
    const size_t n = n_tokens * n_tokens;
    memcpy(ret_mean, attentions, n * sizeof *ret_mean);
    for (size_t h = 1; h < n_heads; h++)
        for (size_t i = 0; i < n; i++)
            ret_mean[i] += attentions[h * n + i];
    for (size_t i = 0; i < n; i++)
        ret_mean[i] /= (float)n_heads;
}

void hs_flow_step(const float *map, const float *before, size_t n_tokens, float *ret_after)
{
    if (before)
        multiply(map, n_tokens, before, n_tokens, n_tokens, n_tokens, ret_after);
    else
        memcpy(ret_after, map, n_tokens * n_tokens * sizeof *map);
}

void hs_rollout_step(float *mean, const float *before, size_t n_tokens, float *ret_after)
{
    const size_t T = n_tokens;
    for (size_t i = 0; i < T * T; i++)
        mean[i] *= 0.5F;
    for (size_t i = 0; i < T; i++)
        mean[i * T + i] += 0.5F;
    hs_flow_step(mean, before, T, ret_after);
}
