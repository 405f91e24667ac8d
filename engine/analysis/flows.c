/* flows.c - how much tokens pass on to tokens: rollout, contributions, value zeroing. */
#include "engine/analysis/flows.h"

#include "engine/analysis/analysis_maps.h"
#include "engine/analysis/effects.h"
#include "engine/arena.h"
#include "model/base/clones.h"
#include "model/base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- flows ----
 *
 * Products of maps. Each row of a product is a sum of rows, so that inner loops run
 * along rows and vectorise. */

/* Computes ret [n][width] = a [n][depth] b [depth][width]; rows of a are lda apart. */
static HS_CLONES void multiply(const float *restrict a, size_t lda, const float *restrict b, size_t n,
                               size_t depth, size_t width, float *restrict ret)
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

static HS_CLONES double inner(const double *restrict a, const double *restrict b, size_t n)
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
static HS_CLONES void take_off(double *restrict a, double factor, const double *restrict b, size_t n)
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

/* ---- contributions ----
 *
 * Computes what each token writes, key by key, and compares it with what the block writes. */

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
static HS_CLONES void add(size_t n, float factor, const float *restrict x, float *restrict y)
{
    for (size_t i = 0; i < n; i++)
        y[i] += factor * x[i];
}

/* Returns the sum of |y - scale (x - mean) gamma|. */
static HS_CLONES double distance(size_t n, const float *y, const float *x, const float *gamma, float mean,
                                 float scale)
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

/* ---- value zeroing ----
 *
 * Takes one token's value after the other out of a layer. */

/* The data of a call. A variant is one token whose value is 0. */
typedef struct zeroing {
    hs__variants variants;
    size_t T, H, d, n_heads;
    uint16_t layer;
    float *outputs; /* [capacity][n_heads][T][d] */
} zeroing;

/* Computes O - A[:,j] v_j of all heads. */
static void outputs_compute(const zeroing *z, size_t j, float *to)
{
    const hs_capture *capture = z->variants.text->capture;
    for (size_t h = 0; h < z->n_heads; h++) {
        const float *o = hs_capture_at(capture, HS_TAP_HEAD_OUTPUT, z->layer, h),
                    *v = hs_capture_at(capture, HS_TAP_VALUE, z->layer, h) + j * z->d,
                    *attention = hs_capture_at(capture, HS_TAP_ATTENTION, z->layer, h);
        for (size_t i = 0; i < z->T; i++)
            for (size_t k = 0; k < z->d; k++)
                *to++ = o[i * z->d + k] - attention[i * z->T + j] * v[k];
    }
}

static hs_status pass_run(zeroing *z, size_t first, size_t n, const hs_run_control *control, hs_error *err)
{
    const size_t size = z->n_heads * z->T * z->d;
    for (size_t k = 0; k < n; k++) {
        outputs_compute(z, first + k, z->outputs + k * size);
        z->variants.starts[k] =
            (hs_start){.layer = z->layer,
                       .state = hs_capture_at(z->variants.text->capture, HS_TAP_EVERY_STATE, z->layer, 0),
                       .head_outputs = z->outputs + k * size,
                       .head_off = z->n_heads};
    }
    return hs__variants_run(&z->variants, n, NULL, control, err);
}

static double cosine_distance(const float *a, const float *b, size_t n)
{
    const double distance = 1 - hs__cosine(a, b, n);
    return distance > 0 ? distance : 0; /* rounding may make it negative */
}

/* Fills columns [first, first + n) of the map. A causal model shows no token those after it. */
static void columns_compare(const zeroing *z, size_t first, size_t n, float *map)
{
    const bool causal = hs_engine_architecture(z->variants.engine)->causal;
    const float *before = hs_capture_at(z->variants.text->capture, HS_TAP_EVERY_STATE, z->layer + 1U, 0);
    for (size_t k = 0; k < n; k++) {
        const float *after = hs_capture_at(z->variants.captures[k], HS_TAP_HIDDEN_STATE, 1, 0);
        for (size_t i = 0; i < z->T; i++)
            map[i * z->T + first + k] =
                causal && first + k > i ? 0
                                        : (float)cosine_distance(before + i * z->H, after + i * z->H, z->H);
    }
}

static hs_status layer_run(zeroing *z, const hs_run_control *control, float *map, hs_error *err)
{
    const hs_selection selection = {.layers = &z->layer, .n_layers = 1, .taps = HS_KEEP(HIDDEN_STATE)};
    hs_status st = hs__variants_select(&z->variants, &selection, err);
    for (size_t j = 0, n; j < z->T && !st; j += n) {
        n = hs__min(z->variants.capacity, z->T - j);
        st = pass_run(z, j, n, control, err);
        if (!st)
            columns_compare(z, j, n, map);
    }
    if (!st)
        hs__rows_divide(map, z->T);
    return st;
}

static zeroing zeroing_describe(const hs_engine *engine, size_t n_tokens, size_t tokens_max)
{
    const hs_shape *shape = hs_engine_shape(engine);
    return (zeroing){
        .variants = {.engine = engine, .capacity = hs__variants_capacity(n_tokens, tokens_max, n_tokens)},
        .T = n_tokens,
        .H = shape->hidden,
        .d = shape->head_width,
        .n_heads = shape->n_heads};
}

static size_t outputs_floats(const zeroing *z)
{
    return z->variants.capacity * z->n_heads * z->T * z->d;
}

size_t hs_value_zeroing_bytes(const hs_engine *engine, size_t n_tokens)
{
    const zeroing z = zeroing_describe(engine, n_tokens, hs_engine_shape(engine)->n_positions);
    return (outputs_floats(&z) + z.variants.capacity * 2 * z.T * z.H) * sizeof(float); /* and the captures */
}

hs_status hs_value_zeroing_compute(const hs_engine *engine, hs_workspace *ws, const hs_sequence *text,
                                   const uint16_t *layers, size_t n_layers, const hs_run_control *control,
                                   float *ret, hs_error *err)
{
    zeroing z = zeroing_describe(engine, text->n_tokens, hs_workspace_tokens(ws));
    hs_status st = HS_OK;
    z.variants.ws = ws;
    z.variants.text = text;
    z.outputs = hs_memory_create(outputs_floats(&z) * sizeof *z.outputs);
    if (!z.outputs)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for value zeroing");
    for (size_t l = 0; l < n_layers && !st; l++) {
        z.layer = layers[l];
        st = layer_run(&z, control, ret + l * z.T * z.T, err);
    }
    hs__variants_finish(&z.variants);
    free(z.outputs);
    return st;
}
