/* contributions.c - how much each token contributes to each token in a layer's attention block; flows.h has
 * the formulas.
 *
 * Through the norm of row i, key j writes scale_i times sum over heads of A[i][j] w_j. w_j is v_j W_O less
 * its mean, times gamma, and so linear in v_j. The mean of each row of W_O' goes into the weights once a
 * layer. The scale goes into the factors of a row. A kernel subtracts and sums up, and no row of F is
 * ever in memory. A norm of what the heads write alone (out_norm) is the same, with x_i added behind it. */
#include "engine/analysis/flows.h"

#include "engine/analysis/analysis_maps.h"
#include "engine/arena.h"
#include "engine/kernels/kernels.h"
#include "model/base/clones.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 16, KEYS = 8, LANES_MAX = 16 }; /* rows and keys of a task; the widest vector of any CPU */

/* Maps that are computed again: rows at a time, and the most bytes of their columns in memory. */
enum { ROWS_AGAIN = 256, COLUMNS_BYTES = 256 << 20 };

/* The block of one layer. A: width of all heads' outputs. */
typedef struct block {
    const hs_engine *engine;
    const hs_architecture *architecture;
    const hs_capture *capture;
    const hs__kernels *kernels;
    const hs_layer *weights;
    size_t layer, at; /* its number, and its position in the capture */
    size_t T, K, H, A, d, n_heads, n_threads;
    bool cross;               /* x_i is no key: it has no column */
    size_t first_key, n_keys; /* the columns of A at hand: all if maps are kept */
    float *columns;           /* [n_heads][T][n_keys]; NULL: maps are kept */
    float *rows;              /* [ROWS_AGAIN][T] of each slot, or NULL */
    atomic_int failed;        /* a map could not be computed again */
    size_t width, step;       /* H rounded up to whole vectors, the rest 0; floats between such rows */
    bool normed;              /* a norm follows */
    bool apart;               /* x is added behind it */
    float *panels;            /* W_O' [d][H] of each head, each row less its mean if the norm subtracts one */
    float *weight;            /* [H][A]: W_O as it is stored */
    float *means;             /* [A]: of the rows of W_O' */
    float *gamma;             /* [H] */
    float *beta;              /* [H] */
    float *bias;              /* [H] */
    float *output;            /* [T][step]: y */
    float *scale;             /* [T]: 1 / deviation of the sum that the norm reads */
    float *lengths;           /* [T]: |y|, the 1-norm */
    float *own;               /* [T]: of cross heads, what x_i contributes */
    float *scratch;           /* of each slot */
    float *map;               /* [T][K]: the result */
} block;

/* The scratch of a task. */
typedef struct scratch {
    float *written; /* [KEYS][n_heads][step]: w_j; of tasks that compute y, [ROWS][step] */
    float *factors; /* [KEYS][n_heads][T]: -scale_i A[i][j] */
    float *sums;    /* [T] */
    float *row;     /* [step] */
} scratch;

static size_t written_floats(const block *b)
{
    return (KEYS * b->n_heads > ROWS ? KEYS * b->n_heads : ROWS) * b->step;
}

static size_t scratch_floats(const block *b)
{
    return written_floats(b) + KEYS * b->n_heads * b->T + b->T + b->step;
}

static scratch scratch_of(const block *b, size_t slot)
{
    float *written = b->scratch + slot * scratch_floats(b), *factors = written + written_floats(b),
          *sums = factors + KEYS * b->n_heads * b->T;
    return (scratch){.written = written, .factors = factors, .sums = sums, .row = sums + b->T};
}

static size_t panels_floats(const block *b)
{
    return hs__panels_floats(b->kernels, b->d, b->H);
}

static void block_layout(block *b, hs__arena *arena)
{
    b->panels = hs__arena_floats(arena, b->n_heads * panels_floats(b));
    b->weight = hs__arena_floats(arena, b->H * b->A);
    b->means = hs__arena_floats(arena, b->A);
    b->gamma = hs__arena_floats(arena, b->H);
    b->beta = hs__arena_floats(arena, b->H);
    b->bias = hs__arena_floats(arena, b->H);
    b->output = hs__arena_floats(arena, b->T * b->step);
    b->scale = hs__arena_floats(arena, b->T);
    b->lengths = hs__arena_floats(arena, b->T);
    b->own = hs__arena_floats(arena, b->T);
    b->scratch = hs__arena_floats(arena, b->n_threads * scratch_floats(b));
    if (b->capture->arrays[HS_TAP_ATTENTION])
        return;
    b->columns = hs__arena_floats(arena, b->n_heads * b->T * b->n_keys);
    b->rows = hs__arena_floats(arena, b->n_threads * hs_min(ROWS_AGAIN, b->T) * b->T);
}

static void vector_read(const hs_tensor *tensor, size_t n, float otherwise, float *ret)
{
    for (size_t i = 0; i < n && !tensor->data; i++)
        ret[i] = otherwise;
    if (tensor->data)
        hs_tensor_read(tensor, 0, 1, ret);
}

/* Returns true if the norm subtracts a mean: RMS norms do not, nor does the block if no norm follows. */
static bool has_mean(const block *b)
{
    return b->normed && b->architecture->norm_kind == HS_NORM_LAYER;
}

/* Applies the norm's mean to the weights. */
static void weights_center(block *b)
{
    memset(b->means, 0, b->A * sizeof *b->means);
    for (size_t c = 0; c < b->H; c++)
        for (size_t k = 0; k < b->A; k++)
            b->means[k] += b->weight[c * b->A + k];
    for (size_t k = 0; k < b->A; k++)
        b->means[k] /= (float)b->H;
    for (size_t c = 0; c < b->H; c++)
        for (size_t k = 0; k < b->A; k++)
            b->weight[c * b->A + k] -= b->means[k];
}

static void weights_read(block *b)
{
    const hs_layer *layer = b->weights;
    vector_read(&layer->output.bias, b->H, 0, b->bias);
    b->apart = b->architecture->norms_before;
    const hs_norm *norm = b->apart ? &layer->attention_out_norm : &layer->attention_norm;
    b->normed = norm->gamma.data;
    vector_read(&norm->gamma, b->H, 1, b->gamma);
    vector_read(&norm->beta, b->H, 0, b->beta);
    for (size_t k = 0; k < b->H; k++)
        b->gamma[k] = b->normed ? b->gamma[k] + norm->offset : 1;
    hs_tensor_read(&layer->output.weight, 0, b->H, b->weight);
    if (has_mean(b))
        weights_center(b);
    for (size_t h = 0; h < b->n_heads; h++)
        b->kernels->pack(b->d, b->H, b->weight + h * b->d, 1, b->A, b->panels + h * panels_floats(b));
}

/* Computes x B of n rows [n][d] of head h, B its panels, to rows that are ldy floats apart. */
static void multiply(const block *b, size_t h, size_t n, const float *x, float *y, size_t ldy)
{
    b->kernels->product(n, b->d, x, b->d, b->panels + h * panels_floats(b), b->H, NULL, NULL, y, ldy);
}

/* Returns the sum of x[k] - mean, or of its squares. */
static HS_CLONES double sum_of(const float *x, size_t n, double mean, bool squared)
{
    double lanes[HS__LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; i + HS__LANES <= n; i += HS__LANES)
        for (size_t k = 0; k < HS__LANES; k++) {
            const double value = (double)x[i + k] - mean;
            lanes[k] += squared ? value * value : value;
        }
    for (; i < n; i++) {
        const double value = (double)x[i] - mean;
        sum += squared ? value * value : value;
    }
    for (size_t k = 0; k < HS__LANES; k++)
        sum += lanes[k];
    return sum;
}

/* Returns the mean that the norm subtracts. */
static double norm_mean(const block *b, const float *x)
{
    return has_mean(b) ? sum_of(x, b->H, 0, false) / (double)b->H : 0;
}

static const float *input_of(const block *b, size_t i)
{
    return hs_capture_input(b->capture, b->layer) + i * b->H;
}

/* Replaces the sum that the norm reads by what it makes of it, and computes its scale. */
static void output_norm(block *b, size_t i)
{
    float *y = b->output + i * b->step;
    b->scale[i] = 1;
    if (!b->normed)
        return;
    const double mean = norm_mean(b, y), squares = sum_of(y, b->H, mean, true);
    b->scale[i] = (float)(1 / sqrt(squares / (double)b->H + (double)b->architecture->norm_eps));
    for (size_t k = 0; k < b->H; k++)
        y[k] = (y[k] - (float)mean) * (b->scale[i] * b->gamma[k]) + b->beta[k];
}

/* Computes y_j less x_j, or less what the norm makes of it. */
static void own_state_subtract(const block *b, size_t j, float *ret)
{
    const float *x = input_of(b, j), *y = b->output + j * b->step, mean = (float)norm_mean(b, x);
    for (size_t k = 0; k < b->H; k++)
        ret[k] = y[k] - (b->apart ? x[k] : b->scale[j] * (x[k] - mean) * b->gamma[k]);
    for (size_t k = b->H; k < b->step; k++)
        ret[k] = 0;
}

/* Computes what the state of a row contributes, before the row is divided by its sum. */
static float own_contribution(const block *b, size_t i, float *row)
{
    float rest;
    own_state_subtract(b, i, row);
    b->kernels->absolute_sums(1, 0, row, b->step, row, b->step, b->width, row, b->step, &rest);
    return b->lengths[i] > rest ? b->lengths[i] - rest : 0;
}

/* Task: computes y of ROWS rows, with scales and lengths. */
static void task_outputs(void *context, size_t index, size_t slot)
{
    block *b = context;
    const scratch s = scratch_of(b, slot);
    const size_t first = index * ROWS, n = b->T - first < ROWS ? b->T - first : ROWS;
    float *y = b->output + first * b->step;
    for (size_t i = 0; i < n; i++) {
        const float *x = input_of(b, first + i);
        for (size_t k = 0; k < b->step; k++)
            y[i * b->step + k] = k < b->H ? (b->apart ? 0 : x[k]) + b->bias[k] : 0;
    }
    for (size_t h = 0; h < b->n_heads; h++) {
        const float *o = hs_capture_at(b->capture, HS_TAP_HEAD_OUTPUT, b->at, h) + first * b->d;
        multiply(b, h, n, o, s.written, b->step);
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < b->H; k++)
                y[i * b->step + k] += s.written[i * b->step + k];
    }
    for (size_t i = 0; i < n; i++) {
        output_norm(b, first + i);
        for (size_t k = 0; k < b->H && b->apart; k++)
            y[i * b->step + k] += input_of(b, first + i)[k];
    }
    b->kernels->absolute_sums(n, 0, y, b->step, y, b->step, b->width, y, b->step, b->lengths + first);
    for (size_t i = first; i < first + n && b->cross; i++)
        b->own[i] = own_contribution(b, i, s.row);
}

/* Computes w_j of all heads for n keys. */
static void written_compute(const block *b, size_t first, size_t n, const scratch *s)
{
    for (size_t h = 0; h < b->n_heads; h++)
        multiply(b, h, n, hs_capture_at(b->capture, HS_TAP_VALUE, b->at, h) + first * b->d,
                 s->written + h * b->step, b->n_heads * b->step);
    for (size_t row = 0; row < n * b->n_heads; row++) {
        float *written = s->written + row * b->step;
        if (b->normed)
            b->kernels->multiply(b->H, b->gamma, written);
        memset(written + b->H, 0, (b->step - b->H) * sizeof *written);
    }
}

/* Sets C[i][j] = max(0, |y_i| - rest). */
static void contribution_set(const block *b, size_t i, size_t j, float rest)
{
    b->map[i * b->K + j] = b->lengths[i] > rest ? b->lengths[i] - rest : 0;
}

/* Computes the factors of n keys for all rows. */
static void factors_compute(const block *b, size_t first, size_t n, const scratch *s)
{
    const size_t T = b->T;
    for (size_t h = 0; h < b->n_heads; h++) {
        const float *attention = (b->columns ? b->columns + h * T * b->n_keys
                                             : hs_capture_at(b->capture, HS_TAP_ATTENTION, b->at, h)) +
                                 (first - b->first_key);
        float *factors = s->factors + h * T;
        for (size_t i = 0; i < T; i++)
            for (size_t k = 0; k < n; k++)
                factors[k * b->n_heads * T + i] = -b->scale[i] * attention[i * b->n_keys + k];
    }
}

/* Computes column j of C. No row before `first` attends to key j. */
static void column_compute(const block *b, size_t j, size_t first, const float *written, const float *factors,
                           const scratch *s)
{
    b->kernels->absolute_sums(b->T - first, b->n_heads, factors + first, b->T, written, b->step, b->width,
                              b->output + first * b->step, b->step, s->sums + first);
    for (size_t i = 0; i < b->T; i++)
        contribution_set(b, i, j, i < first ? b->lengths[i] : s->sums[i]);
    if (b->cross)
        return;

    own_state_subtract(b, j, s->row); /* which comes with what a token writes */
    b->kernels->absolute_sums(1, b->n_heads, factors + j, b->T, written, b->step, b->width, s->row, b->step,
                              s->sums);
    contribution_set(b, j, j, s->sums[0]);
}

/* Task: computes KEYS columns of C. */
static void task_columns(void *context, size_t index, size_t slot)
{
    const block *b = context;
    const scratch s = scratch_of(b, slot);
    const size_t first = b->first_key + index * KEYS, n = b->K - first < KEYS ? b->K - first : KEYS;
    const bool causal = b->architecture->causal && !b->cross;
    written_compute(b, first, n, &s);
    factors_compute(b, first, n, &s);
    for (size_t k = 0; k < n; k++)
        column_compute(b, first + k, causal ? first + k : 0, s.written + k * b->n_heads * b->step,
                       s.factors + k * b->n_heads * b->T, &s);
}

/* Divides each row by the sum of all contributions to it. */
static void rows_divide(const block *b)
{
    for (size_t i = 0; i < b->T && b->cross; i++) {
        double sum = (double)b->own[i];
        for (size_t j = 0; j < b->K; j++)
            sum += (double)b->map[i * b->K + j];
        for (size_t j = 0; j < b->K; j++)
            b->map[i * b->K + j] = (float)((double)b->map[i * b->K + j] / sum);
    }
    if (!b->cross)
        hs__rows_divide(b->map, b->T, b->K);
}

/* Task: computes the columns at hand of one head's A again. */
static void task_attention(void *context, size_t head, size_t slot)
{
    block *b = context;
    const size_t T = b->T, at_once = hs_min(ROWS_AGAIN, T), width = hs_min(b->n_keys, T - b->first_key);
    float *rows = b->rows + slot * at_once * T, *to = b->columns + head * T * b->n_keys;
    for (size_t first = 0, n; first < T; first += n) {
        n = hs_min(at_once, T - first);
        if (hs_engine_attention(b->engine, b->capture, b->at, head, first, n, rows, NULL)) {
            atomic_store(&b->failed, 1);
            return;
        }
        for (size_t i = 0; i < n; i++)
            memcpy(to + (first + i) * b->n_keys, rows + i * T + b->first_key, width * sizeof *to);
    }
}

/* Returns how many columns of all heads are at hand at once: a multiple of KEYS, and no more than a quarter
 * of them. */
static size_t columns_at_once(size_t n_heads, size_t n_tokens)
{
    const size_t n = hs_min(COLUMNS_BYTES / (n_heads * n_tokens * sizeof(float)), n_tokens / 4) / KEYS * KEYS;
    return hs_min(hs_max(n, KEYS), n_tokens);
}

size_t hs_contributions_again_bytes(const hs_shape *shape, size_t n_tokens, size_t n_threads)
{
    return n_tokens * (shape->n_heads * columns_at_once(shape->n_heads, n_tokens) + n_threads * ROWS_AGAIN) *
           sizeof(float);
}

static void columns_compute(block *b, hs_runtime *runtime)
{
    for (b->first_key = 0; b->first_key < b->K && !atomic_load(&b->failed); b->first_key += b->n_keys) {
        const size_t n = hs_min(b->n_keys, b->K - b->first_key);
        if (b->columns)
            hs_runtime_share(runtime, b->n_threads, b->n_heads, task_attention, b);
        hs_runtime_share(runtime, b->n_threads, (n + KEYS - 1) / KEYS, task_columns, b);
    }
}

hs_status hs_contributions_compute(const hs_engine *engine, size_t n_threads, const hs_capture *capture,
                                   size_t l, float *ret, hs_error *err)
{
    const hs_architecture *architecture = hs_engine_architecture(engine);
    const size_t H = architecture->shape.hidden, width = (H + LANES_MAX - 1) / LANES_MAX * LANES_MAX;
    const size_t T = capture->n_tokens, K = capture->n_keys, n_heads = architecture->shape.n_heads;
    const size_t number =
        capture->layers[l] * hs_architecture_layer_blocks(architecture) + (size_t)capture->cross;
    block b = {.engine = engine,
               .architecture = architecture,
               .capture = capture,
               .kernels = hs__kernels_select(),
               .weights = &architecture->layers[architecture->layers[number].same_as],
               .layer = capture->layers[l],
               .at = l,
               .T = T,
               .K = K,
               .cross = capture->cross,
               .H = H,
               .A = hs_shape_attention_width(&architecture->shape),
               .d = architecture->shape.head_width,
               .n_heads = n_heads,
               .n_threads = n_threads,
               .n_keys = capture->arrays[HS_TAP_ATTENTION] ? K : columns_at_once(n_heads, T),
               .width = width,
               .step =
                   width % 1024 ? width : width + LANES_MAX, /* rows 4 KiB apart share a set of the cache */
               .map = ret};
    hs__arena arena = {0};
    block_layout(&b, &arena);
    hs_runtime *runtime = hs_engine_runtime(engine);
    size_t n_bytes; /* of memory that the next layer takes again */
    arena = (hs__arena){.base = hs_runtime_block_take(runtime, arena.used, &n_bytes)};
    if (!arena.base)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for contributions");
    block_layout(&b, &arena);
    weights_read(&b);
    hs_runtime_share(runtime, n_threads, (b.T + ROWS - 1) / ROWS, task_outputs, &b);
    columns_compute(&b, runtime);
    rows_divide(&b);
    hs_runtime_block_return(runtime, arena.base, n_bytes);
    return atomic_load(&b.failed) ? hs_fail(err, HS_NO_MEMORY, "out of memory for contributions") : HS_OK;
}
