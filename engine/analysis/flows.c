/* flows.c - how much tokens pass on to tokens: effective attention, rollout, value zeroing. */
#include "engine/analysis/flows.h"

#include "engine/analysis/analysis_maps.h"
#include "engine/analysis/effects.h"
#include "engine/arena.h"
#include "engine/kernels/kernels.h"
#include "model/base/clones.h"
#include "model/base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- effective attention ---- */
typedef struct basis {
    double *columns; /* [d][K]: V', then the basis in its first rows */
    double *squares; /* [d]: of the lengths of rows that are not in the basis yet */
    float *turned;   /* [d][K]: Q' */
    float *panels;   /* of Q [K][d], then of Q' [d][K] */
    float *weights;  /* [T][d]: A Q */
} basis;

static size_t panels_floats(const hs__kernels *kernels, size_t T, size_t d)
{
    const size_t straight = hs__panels_floats(kernels, T, d), turned = hs__panels_floats(kernels, d, T);
    return straight > turned ? straight : turned;
}

static basis basis_of(const hs__kernels *kernels, void *scratch, size_t K, size_t d)
{
    double *columns = scratch;
    double *squares = columns + K * d;
    float *turned = (float *)(void *)(squares + d), *panels = turned + K * d;
    return (basis){.columns = columns,
                   .squares = squares,
                   .turned = turned,
                   .panels = panels,
                   .weights = panels + panels_floats(kernels, K, d)};
}

size_t hs_effective_attention_bytes(size_t n_tokens, size_t head_width)
{
    return (n_tokens + 1) * head_width * sizeof(double) + n_tokens * head_width * 2 * sizeof(float) +
           panels_floats(hs__kernels_select(), n_tokens, head_width) * sizeof(float);
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

/* Computes a -= factor b and returns the inner product of a with itself. */
static HS_CLONES double take_off(double *restrict a, double factor, const double *restrict b, size_t n)
{
    enum { LANES = 8 };
    double sums[LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t k = 0; k < LANES; k++) {
            a[i + k] -= factor * b[i + k];
            sums[k] += a[i + k] * a[i + k];
        }
    for (; i < n; i++) {
        a[i] -= factor * b[i];
        sum += a[i] * a[i];
    }
    for (size_t k = 0; k < LANES; k++)
        sum += sums[k];
    return sum;
}

/* Makes the longest of rows [rank, n_rows) row `rank`. Returns its length. */
static double longest_first(const basis *b, size_t rank, size_t n_rows, size_t n)
{
    size_t at = rank;
    for (size_t c = rank + 1; c < n_rows; c++)
        at = b->squares[c] > b->squares[at] ? c : at;
    const double length = sqrt(b->squares[at]);
    b->squares[at] = b->squares[rank];
    for (size_t i = 0; i < n && at != rank; i++) {
        const double kept = b->columns[rank * n + i];
        b->columns[rank * n + i] = b->columns[at * n + i];
        b->columns[at * n + i] = kept;
    }
    return length;
}

/* Orthonormalises rows by modified Gram-Schmidt with pivoting: the longest remaining row comes first, and is
 * subtracted from all that remain. Returns the number of independent rows. The basis is orthogonal within
 * the rounding of doubles times the ratio of the first length to the last one, at most 1e6 (Bjorck 1967).
 * That is below the rounding of floats, so no row is orthogonalised twice. */
static size_t orthonormalize(const basis *b, size_t n_rows, size_t n)
{
    double first = 0;
    for (size_t c = 0; c < n_rows; c++)
        b->squares[c] = inner(b->columns + c * n, b->columns + c * n, n);
    for (size_t rank = 0; rank < n_rows; rank++) {
        double *row = b->columns + rank * n;
        const double length = longest_first(b, rank, n_rows, n);
        first = rank == 0 ? length : first;
        if (rank == n || !(length > 1e-6 * first))
            return rank;
        for (size_t i = 0; i < n; i++)
            row[i] /= length;
        for (size_t c = rank + 1; c < n_rows; c++)
            b->squares[c] = take_off(row + (c - rank) * n, inner(row + (c - rank) * n, row, n), row, n);
    }
    return n_rows;
}

void hs_effective_attention(const float *attention, const float *values, size_t n_tokens, size_t n_keys,
                            size_t head_width, void *scratch, float *ret_attention)
{
    const hs__kernels *kernels = hs__kernels_select();
    const size_t T = n_tokens, K = n_keys, d = head_width;
    const basis b = basis_of(kernels, scratch, K, d);
    for (size_t c = 0; c < d; c++)
        for (size_t t = 0; t < K; t++)
            b.columns[c * K + t] = (double)values[t * d + c];
    const size_t rank = orthonormalize(&b, d, K);
    if (rank == 0) {
        memset(ret_attention, 0, T * K * sizeof *ret_attention);
        return;
    }
    for (size_t i = 0; i < rank * K; i++)
        b.turned[i] = (float)b.columns[i];
    kernels->pack(K, rank, b.turned, 1, K, b.panels);
    kernels->product(T, K, attention, K, b.panels, rank, NULL, NULL, b.weights, rank);
    kernels->pack(rank, K, b.turned, K, 1, b.panels);
    kernels->product(T, rank, b.weights, rank, b.panels, K, NULL, NULL, ret_attention, K);
}

/* ---- rollout ---- */
HS_CLONES
void hs_attention_mean_add(const float *attention, size_t h, size_t n_heads, size_t n, float *mean)
{
    if (h == 0)
        memcpy(mean, attention, n * sizeof *mean);
    for (size_t i = 0; i < n && h > 0; i++)
        mean[i] += attention[i];
    for (size_t i = 0; i < n && h + 1 == n_heads; i++)
        mean[i] /= (float)n_heads;
}

void hs_attention_mean(const float *attentions, size_t n_heads, size_t n, float *ret_mean)
{
    for (size_t h = 0; h < n_heads; h++)
        hs_attention_mean_add(attentions + h * n, h, n_heads, n, ret_mean);
}

size_t hs_flow_scratch_floats(size_t n_tokens)
{
    return hs__panels_floats(hs__kernels_select(), n_tokens, n_tokens);
}

/* The product of a step. */
typedef struct flow {
    const hs__kernels *kernels;
    const float *map, *panels;
    size_t T;
    float *after;
} flow;

enum { FLOW_ROWS = 48 };

/* Task: computes FLOW_ROWS rows. */
static void task_flow(void *context, size_t index, size_t slot)
{
    const flow *f = context;
    const size_t first = index * FLOW_ROWS, n = f->T - first < FLOW_ROWS ? f->T - first : FLOW_ROWS;
    (void)slot;
    f->kernels->product(n, f->T, f->map + first * f->T, f->T, f->panels, f->T, NULL, NULL,
                        f->after + first * f->T, f->T);
}

void hs_flow_step(hs_runtime *runtime, size_t n_threads, const float *map, const float *before,
                  size_t n_tokens, float *scratch, float *ret_after)
{
    flow f = {
        .kernels = hs__kernels_select(), .map = map, .panels = scratch, .T = n_tokens, .after = ret_after};
    if (!before) {
        memcpy(ret_after, map, n_tokens * n_tokens * sizeof *map);
        return;
    }
    f.kernels->pack(n_tokens, n_tokens, before, n_tokens, 1, scratch);
    hs_runtime_share(runtime, n_threads, (n_tokens + FLOW_ROWS - 1) / FLOW_ROWS, task_flow, &f);
}

void hs_rollout_weights(float *mean, size_t n_tokens)
{
    const size_t T = n_tokens;
    for (size_t i = 0; i < T * T; i++)
        mean[i] *= 0.5F;
    for (size_t i = 0; i < T; i++)
        mean[i * T + i] += 0.5F;
}

/* ---- rollout through a decoder ---- */

/* The data of a call. */
typedef struct crossing {
    const hs_capture *own, *cross;
    size_t T, K;
    float *own_mean;        /* [T][T] */
    float *cross_mean;      /* [T][K] */
    float *before, *panels; /* [T][K]; of it */
    float *after;           /* [T][K] */
} crossing;

static void crossing_layout(crossing *c, hs__arena *arena)
{
    c->own_mean = hs__arena_floats(arena, c->T * c->T);
    c->cross_mean = hs__arena_floats(arena, c->T * c->K);
    c->before = hs__arena_floats(arena, c->T * c->K);
    c->panels = hs__arena_floats(arena, hs__panels_floats(hs__kernels_select(), c->T, c->K));
    c->after = hs__arena_floats(arena, c->T * c->K);
}

static size_t crossing_bytes(crossing c)
{
    hs__arena measure = {0};
    crossing_layout(&c, &measure);
    return measure.used;
}

/* Computes E of a layer in `after` from that of the layer before in `before`. */
static void crossing_step(const crossing *c, size_t layer)
{
    const hs__kernels *kernels = hs__kernels_select();
    const size_t T = c->T, K = c->K;
    hs_attention_mean(hs_capture_at(c->own, HS_TAP_ATTENTION, layer, 0), c->own->n_heads, T * T, c->own_mean);
    hs_attention_mean(hs_capture_at(c->cross, HS_TAP_ATTENTION, layer, 0), c->cross->n_heads, T * K,
                      c->cross_mean);
    hs_rollout_weights(c->own_mean, T);
    kernels->pack(T, K, c->before, K, 1, c->panels);
    kernels->product(T, T, c->own_mean, T, c->panels, K, NULL, NULL, c->after, K);
    for (size_t i = 0; i < T * K; i++)
        c->after[i] = 0.5F * (c->after[i] + c->cross_mean[i]);
}

static void crossing_run(crossing *c, const uint16_t *layers, size_t n_layers, float *ret)
{
    memset(c->before, 0, c->T * c->K * sizeof *c->before);
    for (size_t layer = 0, l = 0; l < n_layers; layer++) {
        crossing_step(c, layer);
        memcpy(c->before, c->after, c->T * c->K * sizeof *c->before);
        if (layers[l] == layer)
            memcpy(ret + l++ * c->T * c->K, c->after, c->T * c->K * sizeof *ret);
    }
}

size_t hs_cross_rollout_bytes(const hs_shape *shape, size_t n_tokens, size_t n_keys)
{
    const hs_selection all = hs_select_all(shape, HS_KEEP(ATTENTION));
    return crossing_bytes((crossing){.T = n_tokens, .K = n_keys}) + hs_capture_bytes(shape, &all, n_tokens);
}

hs_status hs_cross_rollout_compute(const hs_engine *engine, hs_workspace *ws, const hs_sequence *text,
                                   const uint16_t *layers, size_t n_layers, const hs_run_control *control,
                                   float *ret, hs_error *err)
{
    const hs_selection all = hs_select_all(hs_engine_shape(engine), HS_KEEP(ATTENTION));
    crossing c = {.cross = text->capture, .T = text->n_tokens, .K = text->capture->n_keys};
    hs_sequence own = *text;
    hs__arena arena = {.base = hs_memory_create(crossing_bytes(c))};
    if (!arena.base)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for the rollout");
    crossing_layout(&c, &arena);
    own.capture = NULL;
    hs_status st =
        hs_capture_create(hs_engine_runtime(engine), hs_engine_shape(engine), &all, c.T, &own.capture, err);
    if (!st)
        st = hs_engine_compute(engine, ws, &own, 1, NULL, control, err);
    c.own = own.capture;
    if (!st)
        crossing_run(&c, layers, n_layers, ret);
    hs_capture_destroy(own.capture);
    free(arena.base);
    return st;
}

/* ---- value zeroing ----
 *
 * Takes one token's value after the other out of a layer. */

/* The data of a call. A variant is one token whose value is 0. */
typedef struct zeroing {
    hs__variants variants;
    const hs__kernels *kernels;
    size_t T, K, H, A, d, n_heads;
    uint16_t layer;
    float *written;   /* [T][H]: what the heads write with all values */
    float *outputs;   /* [capacity][T][H]: what they write in each variant */
    float *weight;    /* [H][A]: W_O as it is stored */
    float *panels;    /* W_O' [d][H] of each head */
    float *by_values; /* [capacity][n_heads][H]: v_j W_O' */
} zeroing;

static void zeroing_layout(zeroing *z, hs__arena *arena)
{
    z->written = hs__arena_floats(arena, z->T * z->H);
    z->outputs = hs__arena_floats(arena, z->variants.capacity * z->T * z->H);
    z->weight = hs__arena_floats(arena, z->H * z->A);
    z->panels = hs__arena_floats(arena, z->n_heads * hs__panels_floats(z->kernels, z->d, z->H));
    z->by_values = hs__arena_floats(arena, z->variants.capacity * z->n_heads * z->H);
}

static size_t zeroing_bytes(zeroing z)
{
    hs__arena measure = {0};
    zeroing_layout(&z, &measure);
    return measure.used;
}

/* Where the heads of the layer begin, with all values. */
static hs_start baseline_start(const zeroing *z)
{
    const hs_capture *capture = z->variants.text->capture;
    return (hs_start){.layer = z->layer,
                      .state = hs_capture_input(capture, z->layer),
                      .cross = capture->cross,
                      .head_outputs = hs_capture_at(capture, HS_TAP_HEAD_OUTPUT, z->layer, 0),
                      .head_off = z->n_heads};
}

/* Makes a layer the current one: computes what its heads write, and packs W_O'. */
static void layer_enter(zeroing *z, uint16_t layer)
{
    const hs_architecture *architecture = hs_engine_architecture(z->variants.engine);
    const size_t block =
        layer * hs_architecture_layer_blocks(architecture) + (size_t)z->variants.text->capture->cross;
    const hs_layer *weights = &architecture->layers[architecture->layers[block].same_as];
    z->layer = layer;
    const hs_start start = baseline_start(z);
    hs_engine_write(z->variants.engine, z->variants.ws, &start, z->T, z->written);
    hs_tensor_read(&weights->output.weight, 0, z->H, z->weight);
    for (size_t h = 0; h < z->n_heads; h++)
        z->kernels->pack(z->d, z->H, z->weight + h * z->d, 1, z->A,
                         z->panels + h * hs__panels_floats(z->kernels, z->d, z->H));
}

/* Computes n_columns of to = from - sum over n rows of factors[r * step] rows[r], which are H floats apart.
 * The sums stay in registers if n_columns is a constant. */
static inline void columns_subtract(size_t n_columns, size_t H, size_t n, const float *factors, size_t step,
                                    const float *restrict rows, const float *restrict from,
                                    float *restrict to)
{
    float sums[3 * HS__LANES] = {0};
    for (size_t r = 0; r < n; r++)
        for (size_t k = 0; k < n_columns; k++)
            sums[k] += factors[r * step] * rows[r * H + k];
    for (size_t k = 0; k < n_columns; k++)
        to[k] = from[k] - sums[k];
}

/* The same for all H columns. */
static HS_CLONES void rows_subtract(size_t H, size_t n, const float *factors, size_t step,
                                    const float *restrict rows, const float *restrict from,
                                    float *restrict to)
{
    enum { WIDE = 3 * HS__LANES };
    size_t k = 0;
    for (; k + WIDE <= H; k += WIDE)
        columns_subtract(WIDE, H, n, factors, step, rows + k, from + k, to + k);
    columns_subtract(H - k, H, n, factors, step, rows + k, from + k, to + k);
}

/* Neighbouring variants: those of a pass. */
typedef struct variants_range {
    const zeroing *z;
    size_t first;
} variants_range;

/* Task: computes what the heads write without the value of one key. */
static void task_written(void *context, size_t index, size_t slot)
{
    const variants_range *range = context;
    const zeroing *z = range->z;
    (void)slot;
    const float *rows = z->by_values + index * z->n_heads * z->H,
                *attention = hs_capture_at(z->variants.text->capture, HS_TAP_ATTENTION, z->layer, 0) +
                             range->first + index;
    float *to = z->outputs + index * z->T * z->H;
    for (size_t i = 0; i < z->T; i++)
        rows_subtract(z->H, z->n_heads, attention + i * z->K, z->T * z->K, rows, z->written + i * z->H,
                      to + i * z->H);
}

static hs_status pass_run(zeroing *z, size_t first, size_t n, const hs_run_control *control, hs_error *err)
{
    const hs_capture *capture = z->variants.text->capture;
    for (size_t h = 0; h < z->n_heads; h++)
        z->kernels->product(n, z->d, hs_capture_at(capture, HS_TAP_VALUE, z->layer, h) + first * z->d, z->d,
                            z->panels + h * hs__panels_floats(z->kernels, z->d, z->H), z->H, NULL, NULL,
                            z->by_values + h * z->H, z->n_heads * z->H);
    hs_runtime_share(hs_engine_runtime(z->variants.engine), control ? control->n_threads : 1, n, task_written,
                     &(variants_range){z, first});
    for (size_t k = 0; k < n; k++) {
        z->variants.starts[k] = baseline_start(z);
        z->variants.starts[k].written = z->outputs + k * z->T * z->H;
    }
    return hs__variants_run(&z->variants, n, NULL, control, err);
}

static double cosine_distance(const float *a, const float *b, size_t n)
{
    const double distance = 1 - hs__cosine(a, b, n);
    return distance > 0 ? distance : 0; /* rounding may make it negative */
}

/* Fills columns [first, first + n) of the map. A causal model shows no token those after it, except to cross
 * heads. */
static void columns_compare(const zeroing *z, size_t first, size_t n, float *map)
{
    const bool causal =
        hs_engine_architecture(z->variants.engine)->causal && !z->variants.text->capture->cross;
    const float *before = hs_capture_at(z->variants.text->capture, HS_TAP_EVERY_STATE, z->layer + 1U, 0);
    for (size_t k = 0; k < n; k++) {
        const float *after = hs_capture_at(z->variants.captures[k], HS_TAP_HIDDEN_STATE, 1, 0);
        for (size_t i = 0; i < z->T; i++)
            map[i * z->K + first + k] =
                causal && first + k > i ? 0
                                        : (float)cosine_distance(before + i * z->H, after + i * z->H, z->H);
    }
}

static hs_status layer_run(zeroing *z, const hs_run_control *control, float *map, hs_error *err)
{
    const hs_selection selection = {.layers = &z->layer, .n_layers = 1, .taps = HS_KEEP(HIDDEN_STATE)};
    hs_status st = hs__variants_select(&z->variants, &selection, err);
    for (size_t j = 0, n; j < z->K && !st; j += n) {
        n = hs_min(z->variants.capacity, z->K - j);
        st = pass_run(z, j, n, control, err);
        if (!st)
            columns_compare(z, j, n, map);
    }
    if (!st)
        hs__rows_divide(map, z->T, z->K);
    return st;
}

static zeroing zeroing_describe(const hs_engine *engine, size_t n_tokens, size_t n_keys, size_t tokens_max)
{
    const hs_shape *shape = hs_engine_shape(engine);
    return (zeroing){
        .variants = {.engine = engine, .capacity = hs__variants_capacity(n_tokens, tokens_max, n_keys)},
        .kernels = hs__kernels_select(),
        .T = n_tokens,
        .K = n_keys,
        .H = shape->hidden,
        .A = hs_shape_attention_width(shape),
        .d = shape->head_width,
        .n_heads = shape->n_heads};
}

size_t hs_value_zeroing_bytes(const hs_engine *engine, size_t n_tokens, size_t n_keys)
{
    const zeroing z = zeroing_describe(engine, n_tokens, n_keys, hs_engine_shape(engine)->n_positions);
    return zeroing_bytes(z) + z.variants.capacity * 2 * z.T * z.H * sizeof(float); /* and the captures */
}

hs_status hs_value_zeroing_compute(const hs_engine *engine, hs_workspace *ws, const hs_sequence *text,
                                   const uint16_t *layers, size_t n_layers, const hs_run_control *control,
                                   float *ret, hs_error *err)
{
    zeroing z = zeroing_describe(engine, text->n_tokens, text->capture->n_keys, hs_workspace_tokens(ws));
    hs_status st = HS_OK;
    z.variants.ws = ws;
    z.variants.text = text;
    hs__arena arena = {.base = hs_memory_create(zeroing_bytes(z))};
    if (!arena.base)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for value zeroing");
    zeroing_layout(&z, &arena);
    for (size_t l = 0; l < n_layers && !st; l++) {
        layer_enter(&z, layers[l]);
        st = layer_run(&z, control, ret + l * z.T * z.K, err);
    }
    hs__variants_finish(&z.variants);
    free(arena.base);
    return st;
}
