/* contributions.c - computes what each token writes, key by key, and compares it with what the block writes.
 */
#include "engine/analysis/contributions.h"

#include "engine/analysis/analysis_maps.h"
#include "engine/arena.h"
#include "model/clones.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 16 };

/* The block of one layer. A: width of all heads' outputs. */
typedef struct block {
    const hs_architecture *architecture;
    const hs_capture *capture;
    size_t layer, T, H, A, d, n_heads;
    bool normed;    /* a norm follows */
    float *weight;  /* [A][H]: W_O' */
    float *row;     /* [A]: of the weight; [H] of F */
    float *gamma;   /* [H] */
    float *beta;    /* [H] */
    float *bias;    /* [H] */
    float *output;  /* [T][H]: y */
    float *scale;   /* [T]: 1 / deviation of the sum that the norm reads */
    float *written; /* [n_heads][H]: v_j W_O */
} block;

static void block_layout(block *b, hs__arena *arena)
{
    b->weight = hs__arena_floats(arena, b->A * b->H);
    b->row = hs__arena_floats(arena, b->A > b->H ? b->A : b->H);
    b->gamma = hs__arena_floats(arena, b->H);
    b->beta = hs__arena_floats(arena, b->H);
    b->bias = hs__arena_floats(arena, b->H);
    b->output = hs__arena_floats(arena, b->T * b->H);
    b->scale = hs__arena_floats(arena, b->T);
    b->written = hs__arena_floats(arena, b->n_heads * b->H);
}

static void vector_read(const hs_tensor *tensor, size_t n, float otherwise, float *ret)
{
    for (size_t i = 0; i < n && !tensor->data; i++)
        ret[i] = otherwise;
    if (tensor->data)
        hs_tensor_read(tensor, 0, 1, ret);
}

static void weights_read(block *b)
{
    const hs_layer *layer = &b->architecture->layers[b->architecture->layers[b->layer].same_as];
    for (size_t o = 0; o < b->H; o++) {
        hs_tensor_read(&layer->output.weight, o, 1, b->row);
        for (size_t k = 0; k < b->A; k++)
            b->weight[k * b->H + o] = b->row[k];
    }
    vector_read(&layer->output.bias, b->H, 0, b->bias);
    b->normed = !b->architecture->norms_before && layer->attention_norm.gamma.data;
    vector_read(&layer->attention_norm.gamma, b->H, 1, b->gamma);
    vector_read(&layer->attention_norm.beta, b->H, 0, b->beta);
}

/* Adds factor x to y [n]. */
HS_CLONES
static void add(size_t n, float factor, const float *restrict x, float *restrict y)
{
    for (size_t i = 0; i < n; i++)
        y[i] += factor * x[i];
}

/* Returns the sum of |y - scale (x - mean) gamma|. */
HS_CLONES
static double distance(size_t n, const float *y, const float *x, const float *gamma, float mean, float scale)
{
    float sums[LANES] = {0};
    double total = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t k = 0; k < LANES; k++)
            sums[k] += fabsf(y[i + k] - (x[i + k] - mean) * (scale * gamma[i + k]));
    for (; i < n; i++)
        total += (double)fabsf(y[i] - (x[i] - mean) * (scale * gamma[i]));
    for (size_t k = 0; k < LANES; k++)
        total += (double)sums[k];
    return total;
}

static double mean_of(size_t n, const float *x)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i];
    return sum / (double)n;
}

/* Returns the mean that the norm subtracts: 0 for RMS norms and where no norm follows. */
static double norm_mean(const block *b, const float *x)
{
    return b->normed && b->architecture->norm_kind == HS_NORM_LAYER ? mean_of(b->H, x) : 0;
}

/* Computes y_i and its scale. */
static void output_compute(block *b, size_t i)
{
    float *y = b->output + i * b->H;
    memcpy(y, hs_capture_at(b->capture, HS_TAP_EVERY_STATE, b->layer, 0) + i * b->H, b->H * sizeof *y);
    add(b->H, 1, b->bias, y);
    for (size_t h = 0; h < b->n_heads; h++) {
        const float *o = hs_capture_at(b->capture, HS_TAP_HEAD_OUTPUT, b->layer, h) + i * b->d;
        for (size_t k = 0; k < b->d; k++)
            add(b->H, o[k], b->weight + (h * b->d + k) * b->H, y);
    }
    b->scale[i] = 1;
    if (!b->normed)
        return;
    const double mean = norm_mean(b, y);
    double squares = 0;
    for (size_t k = 0; k < b->H; k++)
        squares += ((double)y[k] - mean) * ((double)y[k] - mean);
    b->scale[i] = (float)(1 / sqrt(squares / (double)b->H + (double)b->architecture->norm_eps));
    for (size_t k = 0; k < b->H; k++)
        y[k] = (y[k] - (float)mean) * (b->scale[i] * b->gamma[k]) + b->beta[k];
}

/* Computes v_j W_O of all heads. */
static void written_compute(block *b, size_t j)
{
    memset(b->written, 0, b->n_heads * b->H * sizeof *b->written);
    for (size_t h = 0; h < b->n_heads; h++) {
        const float *v = hs_capture_at(b->capture, HS_TAP_VALUE, b->layer, h) + j * b->d;
        for (size_t k = 0; k < b->d; k++)
            add(b->H, v[k], b->weight + (h * b->d + k) * b->H, b->written + h * b->H);
    }
}

/* Returns |y_i| - |y_i - T[i][j]|, at least 0. written_compute has been called for j. */
static double contribution(block *b, size_t i, size_t j)
{
    const float *y = b->output + i * b->H;
    if (i == j)
        memcpy(b->row, hs_capture_at(b->capture, HS_TAP_EVERY_STATE, b->layer, 0) + i * b->H,
               b->H * sizeof *b->row);
    else
        memset(b->row, 0, b->H * sizeof *b->row);
    for (size_t h = 0; h < b->n_heads; h++) {
        const float weight = hs_capture_at(b->capture, HS_TAP_ATTENTION, b->layer, h)[i * b->T + j];
        if (weight != 0)
            add(b->H, weight, b->written + h * b->H, b->row);
    }
    const float mean = (float)norm_mean(b, b->row);
    const double whole = distance(b->H, y, b->row, b->gamma, 0, 0),
                 rest = distance(b->H, y, b->row, b->gamma, mean, b->scale[i]);
    return whole > rest ? whole - rest : 0;
}

hs_status hs_contributions_compute(const hs_architecture *architecture, const hs_capture *capture,
                                   size_t layer, float *ret, hs_error *err)
{
    block b = {.architecture = architecture,
               .capture = capture,
               .layer = layer,
               .T = capture->n_tokens,
               .H = architecture->shape.hidden,
               .A = hs_shape_attention_width(&architecture->shape),
               .d = architecture->shape.head_width,
               .n_heads = architecture->shape.n_heads};
    hs__arena arena = {0};
    block_layout(&b, &arena);
    arena = (hs__arena){.base = hs_memory_create(arena.used)};
    if (!arena.base)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for contributions");
    block_layout(&b, &arena);
    weights_read(&b);
    if (!b.normed)
        for (size_t k = 0; k < b.H; k++)
            b.gamma[k] = 1;
    for (size_t i = 0; i < b.T; i++)
        output_compute(&b, i);
    for (size_t j = 0; j < b.T; j++) {
        written_compute(&b, j);
        for (size_t i = 0; i < b.T; i++)
            ret[i * b.T + j] = (float)contribution(&b, i, j);
    }
    hs__rows_divide(ret, b.T);
    free(arena.base);
    return HS_OK;
}
