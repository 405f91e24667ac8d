/* pack.c - the weights as passes read them: packed products, tables of positions, factors of output
 * weights. */
#include "engine/pass/pass.h"

#include "engine/arena.h"
#include "engine/pass/team.h"
#include "model/base/clones.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- factors of output weights ----
 *
 * Computes G = W_O W_O' of each head and its Cholesky factor.
 *
 * W_O is read one row at a time: row r maps all heads' outputs to element r of the hidden state. G of a
 * head is the sum over rows of the products of the head's columns. */

struct hs__residual {
    const hs_architecture *architecture;
    const hs__kernels *kernels;
    pthread_mutex_t mutex;                      /* held by the thread that computes a layer */
    _Atomic(float *) layers[2 * HS_LAYERS_MAX]; /* of blocks: [h][panels], owned; NULL until computed */
};

/* Creates factors of an architecture, which must outlive them; none is computed yet. Fails with HS_NO_MEMORY.
 * The caller destroys *ret_residual. */
static hs_status residual_create(const hs_architecture *architecture, const hs__kernels *kernels,
                                 hs__residual **ret_residual, hs_error *err)
{
    hs__residual *residual = calloc(1, sizeof *residual);
    if (!residual)
        return hs_fail(err, HS_NO_MEMORY, "no memory for a model");
    residual->architecture = architecture;
    residual->kernels = kernels;
    pthread_mutex_init(&residual->mutex, NULL);
    *ret_residual = residual;
    return HS_OK;
}

/* NULL is fine */
static void residual_destroy(hs__residual *residual)
{
    if (!residual)
        return;
    for (size_t l = 0; l < 2 * HS_LAYERS_MAX; l++)
        free(atomic_load(&residual->layers[l]));
    pthread_mutex_destroy(&residual->mutex);
    free(residual);
}

/* Adds w' w to gram. */
static HS_CLONES void add_row(const float *restrict w, size_t d, double *restrict gram)
{
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j < d; j++)
            gram[i * d + j] += (double)w[i] * (double)w[j];
}

/* Replaces gram by its Cholesky factor C, a lower triangle with C C' = gram. A linearly dependent row
 * gets a zero pivot. */
static void factor(double *gram, size_t d)
{
    for (size_t j = 0; j < d; j++) {
        double left = gram[j * d + j];
        const double whole = left;
        for (size_t k = 0; k < j; k++)
            left -= gram[j * d + k] * gram[j * d + k];
        const double pivot = left > 1e-14 * whole ? sqrt(left) : 0;
        gram[j * d + j] = pivot;
        for (size_t i = j + 1; i < d; i++) {
            double sum = gram[i * d + j];
            for (size_t k = 0; k < j; k++)
                sum -= gram[i * d + k] * gram[j * d + k];
            gram[i * d + j] = pivot > 0 ? sum / pivot : 0;
            gram[j * d + i] = 0;
        }
    }
}

/* Sums G of each head over the rows of W_O. */
static void add_rows(const hs_shape *shape, const hs_tensor *output, float *row, double *ret_grams)
{
    const size_t d = shape->head_width;
    for (size_t r = 0; r < shape->hidden; r++) {
        hs_tensor_read(output, r, 1, row);
        for (size_t h = 0; h < shape->n_heads; h++)
            add_row(row + h * d, d, ret_grams + h * d * d);
    }
}

/* Returns the factors [h][panels] of a layer, or NULL if there is no memory. */
static float *make(const hs__residual *residual, const hs_tensor *output)
{
    const hs_shape *shape = &residual->architecture->shape;
    const size_t A = hs_shape_attention_width(shape), d = shape->head_width, n = d * d;
    const size_t n_panels = hs__panels_floats(residual->kernels, d, d);
    double *grams = calloc(shape->n_heads * n, sizeof *grams);
    float *row = malloc((A > n ? A : n) * sizeof *row); /* a row of W_O, then a factor */
    float *panels = grams && row ? malloc(shape->n_heads * n_panels * sizeof *panels) : NULL;
    if (panels)
        add_rows(shape, output, row, grams);
    for (size_t h = 0; h < shape->n_heads && panels; h++) {
        factor(grams + h * n, d);
        for (size_t i = 0; i < n; i++)
            row[i] = (float)grams[h * n + i];
        residual->kernels->pack(d, d, row, d, 1, panels + h * n_panels);
    }
    free(grams);
    free(row);
    return panels;
}

/* Returns the layer that owns the weights of this one, and so their factors. */
static size_t owner(const hs__residual *residual, size_t layer)
{
    return residual->architecture->layers[layer].same_as;
}

hs_status hs__residual_make(hs__residual *residual, size_t layer, hs_error *err)
{
    const hs_architecture *architecture = residual->architecture;
    layer = owner(residual, layer);
    if (atomic_load(&residual->layers[layer]))
        return HS_OK;
    pthread_mutex_lock(&residual->mutex);
    if (!atomic_load(&residual->layers[layer]))
        atomic_store(&residual->layers[layer], make(residual, &architecture->layers[layer].output.weight));
    pthread_mutex_unlock(&residual->mutex);
    return atomic_load(&residual->layers[layer]) ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory for norms");
}

const float *hs__residual_at(const hs__residual *residual, size_t layer, size_t head)
{
    const size_t d = residual->architecture->shape.head_width;
    const float *factors = atomic_load(&residual->layers[owner(residual, layer)]);
    return factors ? factors + head * hs__panels_floats(residual->kernels, d, d) : NULL;
}

/* ---- tables of positions: rotations by position, biases and rows by distance ---- */

/* Scales a frequency as hs_rotary says, in float32 as HuggingFace's models do. */
static float frequency_scale(const hs_rotary *rotary, float frequency)
{
    const float factor = (float)rotary->factor, low = (float)rotary->low, high = (float)rotary->high;
    const float turns = (float)((double)rotary->original_positions / 6.283185307179586) * frequency;
    if (rotary->factor <= 0)
        return frequency;
    assert(!rotary->by_column);
    if (rotary->original_positions == 0 || turns < low)
        return frequency / factor;
    if (turns > high)
        return frequency;
    const float smooth = (turns - low) / (high - low);
    return (1 - smooth) * frequency / factor + smooth * frequency;
}

/* Scales frequency m of YaRN, whose inverse is `period`, in float32 as HuggingFace's models do. */
static float frequency_of_column(const hs_rotary *rotary, size_t m, float period)
{
    const float ramp = ((float)m - (float)rotary->low) / (float)(rotary->high - rotary->low);
    const float kept = 1 - fminf(fmaxf(ramp, 0), 1);
    return 1 / ((float)rotary->factor * period) * (1 - kept) + 1 / period * kept;
}

/* Returns frequency m: that of the checkpoint, or one whose inverse is `period` before it is scaled. */
static float frequency_of(const hs__rotation *rotation, const hs_rotary *rotary, size_t m, size_t half,
                          float period)
{
    float saved;
    if (rotary->frequencies.data) {
        const hs_tensor column = {.data = rotary->frequencies.data,
                                  .n_rows = half,
                                  .n_columns = 1,
                                  .dtype = rotary->frequencies.dtype};
        hs_tensor_read(&column, m, 1, &saved);
        return saved;
    }
    if (rotation->unscaled)
        return 1 / period;
    if (rotary->divisors)
        return 1 / (rotary->divisors[(rotation->is_long ? half : 0) + m] * period);
    return rotary->by_column ? frequency_of_column(rotary, m, period) : frequency_scale(rotary, 1 / period);
}

/* Fills the table of angles in float32, as HuggingFace's models do. At position 8000 the rounding shows in
 * the fourth digit of a cosine. It rounds inv[m] = 1 / theta^(2m / d), then t * inv[m]. */
static void rotation_fill(hs__rotation *rotation, const hs_rotary *rotary, size_t n_positions, size_t width)
{
    const size_t half = width / 2;
    const float amplitude = rotation->unscaled || rotary->amplitude <= 0 ? 1 : (float)rotary->amplitude;
    for (size_t m = 0; m < half; m++) {
        const float exponent = (float)(2 * m) / (float)width;
        const float inverse = frequency_of(rotation, rotary, m, half, (float)pow(rotation->base, exponent));
        for (size_t t = 0; t < n_positions; t++) {
            const float angle = (float)t * inverse;
            rotation->cosines[t * half + m] = (float)cos((double)angle) * amplitude;
            rotation->sines[t * half + m] = (float)sin((double)angle) * amplitude;
        }
    }
}

/* Fills the rows of HS_SINUSOIDS_MARIAN, whose angles are in float64. */
static void sinusoids_of_marian_fill(size_t n_positions, size_t E, size_t first, float *rows)
{
    const size_t n_sines = (E + 1) / 2;
    for (size_t k = 0; k < n_sines; k++) {
        const double divisor = pow(10000, (double)(2 * k) / (double)E);
        for (size_t t = 0; t < n_positions; t++) {
            const double angle = (double)(first + t) / divisor;
            rows[t * E + k] = (float)sin(angle);
            if (n_sines + k < E)
                rows[t * E + n_sines + k] = (float)cos(angle);
        }
    }
}

/* Fills the rows of sinusoids that tokens take, in float32 as architecture.h says. */
static void sinusoids_fill(const hs_architecture *architecture, float *rows)
{
    const size_t E = architecture->embedding.width, half = E / 2,
                 first = architecture->embedding.position_offset;
    if (architecture->embedding.sinusoids == HS_SINUSOIDS_MARIAN) {
        sinusoids_of_marian_fill(architecture->shape.n_positions, E, first, rows);
        return;
    }
    const float step = (float)(-log(10000) / (double)(half - 1));
    memset(rows, 0, architecture->shape.n_positions * E * sizeof *rows);
    for (size_t k = 0; k < half; k++) {
        const float rate = (float)exp((double)((float)k * step));
        for (size_t t = 0; t < architecture->shape.n_positions; t++) {
            const float angle = (float)(first + t) * rate;
            rows[t * E + k] = (float)sin((double)angle);
            rows[t * E + half + k] = (float)cos((double)angle);
        }
    }
}

/* Returns the bucket of a distance m, as architecture.h says; ahead: the key comes after the query. */
static size_t distance_bucket(const hs_score_bias *bias, size_t m, bool ahead)
{
    const size_t n = bias->one_sided ? bias->n_buckets : bias->n_buckets / 2, exact = n / 2;
    const size_t side = ahead ? n : 0;
    if (ahead && bias->one_sided)
        return 0;
    if (m < exact)
        return side + m;
    const float far = (float)log((double)((float)m / (float)exact));
    const float farthest = (float)log((double)bias->n_distances / (double)exact);
    const size_t bucket = exact + (size_t)(far / farthest * (float)(n - exact));
    return side + (bucket < n ? bucket : n - 1);
}

/* Returns a head's slope of ALiBi (Press et al. 2022): a geometric series for a power of two of heads.
 * Otherwise the series of the next lower power P, then every second slope of 2P. */
static double alibi_slope(size_t head, size_t n_heads)
{
    size_t power = 1;
    while (2 * power <= n_heads)
        power *= 2;
    return head < power ? exp2(-8.0 * (double)(head + 1) / (double)power)
                        : exp2(-4.0 * (double)(2 * (head - power) + 1) / (double)power);
}

/* Returns what q k' and the other addends of a score are divided by. */
static double score_divisor(const hs_architecture *architecture)
{
    const size_t n_addends = architecture->relative.n_addends > 0 ? architecture->relative.n_addends : 1;
    return architecture->score_divisor > 0 ? architecture->score_divisor
                                           : sqrt((double)(architecture->shape.head_width * n_addends));
}

/* Returns what the scores of a layer are multiplied by. */
static float score_scale(const hs_architecture *architecture, const hs_layer *layer)
{
    const double of_layer = layer->score_divisor > 0 ? layer->score_divisor : 1;
    return 1 / (float)(score_divisor(architecture) * of_layer);
}

static void score_bias_fill(const hs_architecture *architecture, float *bias)
{
    const hs_shape *shape = &architecture->shape;
    const size_t n_heads = shape->n_heads, last = shape->n_positions - 1;
    const double factor = score_divisor(architecture); /* the kernels multiply the sum by its inverse */
    float row[HS_HEADS_MAX] = {0};
    for (size_t k = 0; k <= 2 * last; k++) { /* distance k - last */
        const size_t m = k > last ? k - last : last - k;
        const bool ahead = k > last;
        if (architecture->score_bias.table.data)
            hs_tensor_read(&architecture->score_bias.table,
                           distance_bucket(&architecture->score_bias, m, ahead), 1, row);
        for (size_t h = 0; h < n_heads; h++) {
            const double alibi = architecture->alibi ? alibi_slope(h, n_heads) * (double)m : 0;
            bias[h * (2 * last + 1) + k] = (float)((row[h] - alibi) * factor);
        }
    }
}

/* Returns DeBERTa's bucket of a distance m >= 0, as architecture.h says. Logarithms are in float32, as in
 * HuggingFace's models, which decides where a bucket ends if there are few. */
static size_t relative_bucket(const hs_relative *relative, size_t m)
{
    const size_t middle = relative->n_buckets / 2;
    if (relative->n_buckets == 0 || m <= middle)
        return m;
    const float far = (float)log((double)((float)m / (float)middle));
    const float farthest = (float)log((double)((float)(relative->n_distances - 1) / (float)middle));
    return (size_t)ceilf(far / farthest * (float)(middle - 1)) + middle;
}

/* Fills the rows of the table by distance. c of architecture.h is span + bucket(i - j); these rows count
 * from the end, so that they rise with j. */
void hs__relative_rows_fill(const hs_architecture *architecture, int32_t *rows)
{
    const hs_relative *relative = &architecture->relative;
    const size_t last = architecture->shape.n_positions - 1, span = relative->span;
    for (size_t m = 0; m <= last; m++) {
        const size_t bucket = relative_bucket(relative, m);
        rows[last - m] = (int32_t)(bucket < span ? span - 1 - bucket : 0);
        rows[last + m] = (int32_t)(bucket < span ? span - 1 + bucket : 2 * span - 1);
    }
}

/* ---- relative positions ----
 *
 * Each layer's keys and queries of DeBERTa's relative positions (hs_relative).
 *
 * They depend on weights only, so they are computed when the engine is created, in fp32 for every
 * precision: two rows of H floats a layer for each bucket. */

/* Tasks, one for each layer. */
typedef struct filling {
    hs_engine *engine;
    const float *table; /* [R][H]: normed, in the engine's order */
    atomic_int status;  /* the first failure */
} filling;

/* Computes y [R][H] = table W' + b. */
static hs_status project(const filling *f, const hs_dense *dense, float *y)
{
    const hs__linear_source source = {.parts = &dense, .n_parts = 1};
    const size_t R = f->engine->relative.n_rows;
    hs__linear *linear = NULL;
    hs_status st = hs__linear_native.create(&source, f->engine->kernels, HS_PRECISION_FP32, &linear, NULL);
    for (size_t task = 0; !st && task < hs__linear_tasks(linear, R, 1); task++)
        hs__linear_run(linear, R, 1, f->table, y, task);
    hs__linear_destroy(linear);
    return st;
}

static hs_status layer_fill(const filling *f, const hs_layer *source, hs__packed_layer *layer, float *y)
{
    const hs__kernels *kernels = f->engine->kernels;
    const size_t R = f->engine->relative.n_rows, H = f->engine->shape.hidden, D = f->engine->shape.head_width;
    hs_status st = layer->position_keys ? project(f, &source->position_key, y) : HS_OK;
    for (size_t h = 0; !st && layer->position_keys && h < H / D; h++)
        kernels->pack(D, R, y + h * D, 1, H, layer->position_keys + h * hs__panels_floats(kernels, D, R));
    if (!st && layer->position_queries)
        st = project(f, &source->position_query, y);
    for (size_t at = 0; !st && layer->position_queries && at < R * (H / D); at++) {
        const size_t h = at / R, row = at % R;
        memcpy(layer->position_queries + at * D, y + row * H + h * D, D * sizeof *y);
    }
    return st;
}

static void task_fill(void *context, size_t task, size_t slot)
{
    (void)slot;
    filling *f = context;
    const hs_layer *source = &f->engine->architecture->layers[task];
    if (source->same_as != task || atomic_load(&f->status))
        return;
    float *y = malloc(f->engine->relative.n_rows * f->engine->shape.hidden * sizeof *y);
    const hs_status st = y ? layer_fill(f, source, &f->engine->layers[task], y) : HS_NO_MEMORY;
    free(y);
    if (st)
        atomic_store(&f->status, (int)st);
}

/* Reads the table's rows from the last to the first, and applies the norm if there is one. */
static void table_read(const hs_engine *engine, float *table, float *norm)
{
    const hs_architecture *architecture = engine->architecture;
    const hs_relative *relative = &architecture->relative;
    const size_t R = engine->relative.n_rows, H = engine->shape.hidden;
    for (size_t row = 0; row < R; row++)
        hs_tensor_read(&relative->table, R - 1 - row, 1, table + row * H);
    if (!relative->norm.gamma.data)
        return;
    memset(norm, 0, 2 * H * sizeof *norm);
    hs_tensor_read(&relative->norm.gamma, 0, 1, norm);
    if (relative->norm.beta.data)
        hs_tensor_read(&relative->norm.beta, 0, 1, norm + H);
    engine->add_norm(R, H, table, NULL, norm, norm + H, architecture->norm_eps, table);
}

/* Computes position_keys and position_queries of every layer (pack.c). */
static hs_status relative_fill(hs_engine *engine, hs_error *err)
{
    const size_t R = engine->relative.n_rows, H = engine->shape.hidden;
    if (R == 0)
        return HS_OK;
    float *table = malloc((R + 2) * H * sizeof *table);
    if (!table)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for relative positions");
    table_read(engine, table, table + R * H);
    filling f = {.engine = engine, .table = table};
    hs__team team;
    hs__team_start(&team, engine->runtime, engine->n_threads);
    hs__team_share(&team, engine->n_blocks, task_fill, &f);
    hs__team_finish(&team);
    free(table);
    const hs_status st = (hs_status)atomic_load(&f.status);
    return st ? hs_fail(err, st, "relative positions: %s", hs_status_text(st)) : HS_OK;
}

/* ---- norms, rotations, biases: one block ---- */

static void norm_layout(const hs_norm *source, hs__packed_norm *norm, hs__arena *arena)
{
    *norm = (hs__packed_norm){0};
    if (!source->gamma.data)
        return;
    const size_t n = source->gamma.n_rows * source->gamma.n_columns;
    norm->gamma = hs__arena_floats(arena, n);
    norm->beta = hs__arena_floats(arena, n);
    norm->step = source->gamma.n_rows > 1 ? source->gamma.n_columns : 0;
}

static void norm_read(const hs_norm *source, hs__packed_norm *norm)
{
    if (!norm->gamma || !norm->beta) /* the identity has neither */
        return;
    const size_t n_rows = source->gamma.n_rows, n = n_rows * source->gamma.n_columns;
    hs_tensor_read(&source->gamma, 0, n_rows, norm->gamma);
    for (size_t i = 0; i < n; i++)
        norm->gamma[i] += source->offset;
    if (source->beta.data)
        hs_tensor_read(&source->beta, 0, n_rows, norm->beta);
    else
        memset(norm->beta, 0, n * sizeof *norm->beta);
}

enum { LAYER_NORMS = 6 };

/* A norm of a layer in the model's file, and as passes read it. */
typedef struct norm_place {
    const hs_norm *source;
    hs__packed_norm *norm;
} norm_place;

/* Returns the k-th norm of a block. */
static norm_place norm_at(const hs_engine *engine, size_t block, size_t k)
{
    const hs_layer *source = &engine->architecture->layers[block];
    hs__packed_layer *layer = &engine->layers[block];
    const norm_place norms[LAYER_NORMS] = {
        {&source->attention_norm, &layer->attention_norm},
        {&source->ffn_norm, &layer->ffn_norm},
        {&source->attention_out_norm, &layer->attention_out_norm},
        {&source->ffn_out_norm, &layer->ffn_out_norm},
        {&source->query_norm, &layer->query_norm},
        {&source->key_norm, &layer->key_norm},
    };
    return norms[k];
}

static bool is_biased(const hs_architecture *architecture)
{
    return architecture->score_bias.table.data || architecture->alibi;
}

/* Reserves the tables of relative positions. Layers with the same weights share theirs. */
static void relative_layout(hs_engine *engine, hs__arena *arena)
{
    const hs_shape *shape = &engine->shape;
    const size_t R = engine->relative.n_rows,
                 panels = hs__panels_floats(engine->kernels, shape->head_width, R);
    engine->relative.rows =
        hs__arena_take(arena, (2 * shape->n_positions - 1) * sizeof *engine->relative.rows);
    for (size_t l = 0; l < engine->n_blocks; l++) {
        const hs_layer *source = &engine->architecture->layers[l];
        if (source->same_as == l && source->position_key.weight.data)
            engine->layers[l].position_keys = hs__arena_floats(arena, shape->n_heads * panels);
        if (source->same_as == l && source->position_query.weight.data)
            engine->layers[l].position_queries = hs__arena_floats(arena, R * shape->hidden);
    }
}

static void block_layout(hs_engine *engine, hs__arena *arena)
{
    const hs_architecture *architecture = engine->architecture;
    const hs_shape *shape = &engine->shape;
    norm_layout(&architecture->embedding.norm, &engine->embedding_norm, arena);
    norm_layout(&architecture->final_norm, &engine->final_norm, arena);
    for (size_t l = 0; l < engine->n_blocks; l++) {
        for (size_t k = 0; k < LAYER_NORMS; k++) {
            const norm_place at = norm_at(engine, l, k);
            norm_layout(at.source, at.norm, arena);
        }
    }
    for (size_t r = 0; r < engine->n_rotations; r++) {
        engine->rotations[r].cosines = hs__arena_floats(arena, shape->n_positions * engine->rotary_half);
        engine->rotations[r].sines = hs__arena_floats(arena, shape->n_positions * engine->rotary_half);
    }
    if (architecture->predictor.decoder.data) {
        norm_layout(&architecture->predictor.norm, &engine->predictor.norm, arena);
        engine->predictor.bias = hs__arena_floats(arena, shape->vocab_size);
    }
    norm_layout(&architecture->task_head.norm, &engine->task_head.norm, arena);
    norm_layout(&architecture->convolution.norm, &engine->convolution_norm, arena);
    if (engine->relative.n_rows > 0)
        relative_layout(engine, arena);
    if (architecture->embedding.sinusoids)
        engine->sinusoids = hs__arena_floats(arena, shape->n_positions * architecture->embedding.width);
    if (is_biased(architecture))
        engine->score_bias = hs__arena_floats(arena, shape->n_heads * (2 * shape->n_positions - 1));
}

static void block_fill(hs_engine *engine)
{
    const hs_architecture *architecture = engine->architecture;
    norm_read(&architecture->embedding.norm, &engine->embedding_norm);
    norm_read(&architecture->final_norm, &engine->final_norm);
    for (size_t l = 0; l < engine->n_blocks; l++) {
        for (size_t k = 0; k < LAYER_NORMS; k++) {
            const norm_place at = norm_at(engine, l, k);
            norm_read(at.source, at.norm);
        }
    }
    if (architecture->predictor.decoder.data) {
        norm_read(&architecture->predictor.norm, &engine->predictor.norm);
        if (architecture->predictor.bias.data)
            hs_tensor_read(&architecture->predictor.bias, 0, 1, engine->predictor.bias);
        else
            memset(engine->predictor.bias, 0, engine->shape.vocab_size * sizeof *engine->predictor.bias);
    }
    for (size_t r = 0; r < engine->n_rotations; r++)
        rotation_fill(&engine->rotations[r], &architecture->rotary, engine->shape.n_positions,
                      2 * engine->rotary_half);
    norm_read(&architecture->task_head.norm, &engine->task_head.norm);
    norm_read(&architecture->convolution.norm, &engine->convolution_norm);
    if (engine->relative.n_rows > 0)
        hs__relative_rows_fill(architecture, engine->relative.rows);
    if (architecture->embedding.sinusoids)
        sinusoids_fill(architecture, engine->sinusoids);
    if (is_biased(architecture))
        score_bias_fill(architecture, engine->score_bias);
}

/* Returns the rotation of a layer, adding it if it is new; NULL if there is none. */
static const hs__rotation *rotation_find(hs_engine *engine, const hs_layer *layer)
{
    const hs_rotary *rotary = &engine->architecture->rotary;
    const double base = layer->rotation_base;
    if (base <= 0)
        return NULL;
    for (size_t r = 0; r < engine->n_rotations; r++)
        if (engine->rotations[r].base == base && engine->rotations[r].unscaled == layer->rotation_unscaled)
            return &engine->rotations[r];
    hs__rotation *rotation = &engine->rotations[engine->n_rotations++];
    rotation->unscaled = layer->rotation_unscaled;
    rotation->base = base;
    rotation->interleaved = rotary->interleaved;
    if (rotary->divisors && !rotation->unscaled && engine->shape.n_positions > rotary->original_positions) {
        engine->rotations[engine->n_rotations] = *rotation;
        engine->rotations[engine->n_rotations++].is_long = true;
    }
    return rotation;
}

static hs_status engine_allocate(hs_engine *engine, hs_error *err)
{
    const hs_architecture *architecture = engine->architecture;
    hs__arena arena = {0};
    engine->layers = calloc(engine->n_blocks, sizeof *engine->layers);
    engine->rotations = calloc(2 * engine->n_blocks, sizeof *engine->rotations);
    if (!engine->layers || !engine->rotations)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for an engine");
    for (size_t l = 0; l < engine->n_blocks; l++) {
        const hs_layer *layer = &architecture->layers[l];
        assert(architecture->layers[layer->same_as].same_as == layer->same_as);
        engine->layers[l].window = layer->window;
        engine->layers[l].score_scale = score_scale(engine->architecture, layer);
        engine->layers[l].rotation = rotation_find(engine, layer);
        engine->windowed |= layer->window > 0;
        engine->gated |= layer->ffn_gate.weight.data != NULL;
    }
    engine->relative.n_rows = architecture->relative.table.data ? architecture->relative.table.n_rows : 0;
    block_layout(engine, &arena);
    if (engine->measured) {
        atomic_fetch_add(engine->measured, arena.used);
        return HS_OK;
    }
    engine->block = hs_memory_create(arena.used);
    if (!engine->block)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for an engine");
    arena = (hs__arena){.base = engine->block};
    block_layout(engine, &arena);
    return HS_OK;
}

/* ---- products ---- */

/* Products to pack, one task each: those of the layers, then the embedding's projection and the
 * convolution. */
typedef struct packings {
    hs_engine *engine;
    atomic_int status; /* the first failure */
    hs_error err;      /* and its message */
} packings;

enum { PRODUCTS = 6 }; /* of a block */

/* A product to pack and the address of its packed form. */
typedef struct packing {
    const hs_dense *parts[3];
    size_t n_parts;
    hs__activate *activate;
    hs__linear **ret_linear;
    size_t x_step, y_step; /* as in hs__linear_source */
} packing;

/* Returns the product of a task, without parts if there is nothing to pack. The largest come first, so
 * that no thread starts one at the end. */
static packing packing_of(hs_engine *engine, size_t task)
{
    const hs_architecture *architecture = engine->architecture;
    const hs_dense *projection = &architecture->embedding.projection,
                   *convolution = &architecture->convolution.dense;
    if (task == PRODUCTS * engine->n_blocks)
        return (packing){{projection}, projection->weight.data != NULL, NULL, &engine->projection, 0, 0};
    if (task > PRODUCTS * engine->n_blocks)
        return (packing){{convolution},
                         convolution->weight.data != NULL,
                         engine->kernels->activate[architecture->convolution.activation],
                         &engine->convolution,
                         0,
                         0};
    const size_t l = task / PRODUCTS, step = engine->inner_step;
    const hs_layer *source = &architecture->layers[l];
    hs__packed_layer *layer = &engine->layers[l];
    hs__activate *activate = engine->kernels->activate[architecture->activation];
    const bool gated = source->ffn_gate.weight.data != NULL, feeds = source->ffn_in.weight.data != NULL;
    const bool crosses = architecture->crosses && l % 2 == 1;
    const packing products[PRODUCTS] = {
        {{&source->ffn_in}, feeds, gated ? NULL : activate, &layer->ffn_in, 0, step},
        {{&source->ffn_gate}, gated, activate, &layer->ffn_gate, 0, step},
        {{&source->ffn_out}, feeds, NULL, &layer->ffn_out, step, 0},
        {{&source->query, &source->key, &source->value}, crosses ? 1 : 3, NULL, &layer->qkv, 0, 0},
        {{&source->key, &source->value}, crosses ? 2 : 0, NULL, &layer->memory, 0, 0},
        {{&source->output}, 1, NULL, &layer->output, 0, 0},
    };
    return source->same_as == l ? products[task % PRODUCTS] : (packing){.n_parts = 0};
}

static void task_pack(void *context, size_t task, size_t slot)
{
    (void)slot;
    packings *all = context;
    const hs_engine *engine = all->engine;
    const packing product = packing_of(all->engine, task);
    const hs__linear_source source = {.parts = product.parts,
                                      .n_parts = product.n_parts,
                                      .activate = product.activate,
                                      .cache_bytes = hs_runtime_caches(engine->runtime).second,
                                      .x_step = product.x_step,
                                      .y_step = product.y_step,
                                      .measured = engine->measured};
    if (product.n_parts == 0 || atomic_load(&all->status))
        return;
    hs_error err = {0};
    const int st =
        engine->linear->create(&source, engine->kernels, engine->precision, product.ret_linear, &err);
    if (st && atomic_compare_exchange_strong(&all->status, &(int){HS_OK}, st))
        all->err = err;
}

static hs_status products_pack(hs_engine *engine, hs_error *err)
{
    packings all = {.engine = engine};
    hs__team team;
    hs__team_start(&team, engine->runtime, engine->n_threads);
    hs__team_share(&team, PRODUCTS * engine->n_blocks + 2, task_pack, &all);
    hs__team_finish(&team);
    const hs_status st = (hs_status)atomic_load(&all.status);
    return st ? hs_fail(err, st, "packing the weights: %s", all.err.text) : HS_OK;
}

/* Gives layers with the same weights the same products and norms. Windows and rotations stay each layer's
 * own. */
static void layers_share(hs_engine *engine)
{
    for (size_t l = 0; l < engine->n_blocks; l++) {
        hs__packed_layer *layer = &engine->layers[l];
        hs__packed_layer shared = engine->layers[engine->architecture->layers[l].same_as];
        shared.window = layer->window;
        shared.score_scale = layer->score_scale;
        shared.rotation = layer->rotation;
        *layer = shared;
    }
}

/* ---- heads ----
 *
 * Their products are packed in fp32 for every precision: most heads compute one row. */

static hs_status pack_dense(const hs_engine *engine, const hs_dense *dense, hs__activate *activate,
                            hs__linear **ret_linear, hs_error *err)
{
    const hs__linear_source source = {.parts = &dense,
                                      .measured = engine->measured,
                                      .n_parts = 1,
                                      .activate = activate,
                                      .cache_bytes = hs_runtime_caches(engine->runtime).second};
    if (!dense->weight.data)
        return HS_OK;
    return hs__linear_native.create(&source, engine->kernels, HS_PRECISION_FP32, ret_linear, err);
}

/* Packs the products of a task head; those of an absent head stay NULL. */
static hs_status head_pack(const hs_engine *engine, const hs_task_head *source, hs__packed_head *head,
                           hs_error *err)
{
    hs__activate *activate = source->is_linear ? NULL : engine->kernels->activate[source->activation];
    const hs_status st = pack_dense(engine, &source->dense, activate, &head->dense, err);
    return st ? st : pack_dense(engine, &source->output, NULL, &head->output, err);
}

static void head_unpack(hs__packed_head *head)
{
    hs__linear_destroy(head->dense);
    hs__linear_destroy(head->output);
}

/* Packs the dense layers of a sentence encoder. */
static hs_status sentence_pack(hs_engine *engine, hs_error *err)
{
    const hs_sentence_head *head = &engine->architecture->sentence;
    hs_status st = HS_OK;
    for (size_t i = 0; i < head->n_dense && !st; i++) {
        const hs_sentence_dense *dense = &head->dense[i];
        hs__activate *activate = dense->is_linear ? NULL : engine->kernels->activate[dense->activation];
        st = pack_dense(engine, &dense->dense, activate, &engine->sentence[i], err);
    }
    return st;
}

/* Packs the dense product of the head for tokens, if it has one. */
static hs_status predictor_pack(hs_engine *engine, hs_error *err)
{
    const hs_predictor *source = &engine->architecture->predictor;
    hs__activate *activate = source->is_linear ? NULL : engine->kernels->activate[source->activation];
    return source->decoder.data ? pack_dense(engine, &source->dense, activate, &engine->predictor.dense, err)
                                : HS_OK;
}

/* Packs the products of all heads and of a sentence encoder. */
static hs_status heads_pack(hs_engine *engine, hs_error *err)
{
    const hs_architecture *architecture = engine->architecture;
    hs_status st = head_pack(engine, &architecture->task_head, &engine->task_head, err);
    if (!st)
        st = head_pack(engine, &architecture->next_sentence, &engine->next_sentence, err);
    if (!st)
        st = sentence_pack(engine, err);
    return st ? st : predictor_pack(engine, err);
}

static void heads_unpack(hs_engine *engine)
{
    head_unpack(&engine->task_head);
    head_unpack(&engine->next_sentence);
    for (size_t i = 0; i < HS_SENTENCE_DENSE_MAX; i++)
        hs__linear_destroy(engine->sentence[i]);
    hs__linear_destroy(engine->predictor.dense);
}

/* ---- all weights ---- */

hs_status hs__weights_init(hs_engine *engine, hs_error *err)
{
    hs_status st = engine_allocate(engine, err);
    if (st)
        return st;
    if (engine->n_rotations > 0 && engine->shape.head_width % 2 != 0)
        return hs_fail(err, HS_UNSUPPORTED, "rotary positions need heads of an even width, not %zu",
                       engine->shape.head_width);
    if (engine->relative.n_rows > 0 && engine->windowed)
        return hs_fail(err, HS_UNSUPPORTED, "relative positions within windows");
    if (engine->relative.n_rows > 0 && engine->architecture->causal)
        return hs_fail(err, HS_UNSUPPORTED, "relative positions with a causal mask");
    if (engine->relative.n_rows > 0 && engine->attention_width != engine->shape.hidden)
        return hs_fail(err, HS_UNSUPPORTED,
                       "relative positions with heads that are not as wide as the state");
    if (engine->architecture->layers[0].attention_out_norm.gamma.data && !engine->architecture->norms_before)
        return hs_fail(err, HS_UNSUPPORTED, "norms of what is added where norms are behind the blocks");
    if (engine->architecture->score_cap > 0 &&
        (engine->relative.n_rows > 0 || is_biased(engine->architecture)))
        return hs_fail(err, HS_UNSUPPORTED, "caps of scores that have addends");
    if (engine->architecture->parallel_residual && !engine->architecture->norms_before)
        return hs_fail(err, HS_UNSUPPORTED, "a parallel residual where norms are behind the blocks");
    if (engine->architecture->convolution.width > 0 && engine->architecture->norms_before)
        return hs_fail(err, HS_UNSUPPORTED, "a convolution where norms are before the blocks");
    if (engine->architecture->crosses &&
        (engine->relative.n_rows > 0 || engine->architecture->parallel_residual ||
         engine->architecture->convolution.width > 0 || engine->architecture->qk_norms_whole))
        return hs_fail(err, HS_UNSUPPORTED,
                       "cross attention with relative positions, a convolution, a parallel residual or one "
                       "norm of all queries");
    if (!engine->measured)
        block_fill(engine);
    st = products_pack(engine, err);
    if (!st && !engine->measured)
        st = relative_fill(engine, err);
    if (!st)
        layers_share(engine);
    if (!st)
        st = residual_create(engine->architecture, engine->kernels, &engine->residual, err);
    if (!st)
        st = hs__transposed_create(engine, &engine->transposed, err);
    if (!st)
        st = heads_pack(engine, err);
    return st;
}

void hs__weights_finish(hs_engine *engine)
{
    for (size_t l = 0; engine->layers && l < engine->n_blocks; l++) {
        hs__packed_layer *layer = &engine->layers[l];
        if (engine->architecture->layers[l].same_as != l)
            continue;
        hs__linear_destroy(layer->qkv);
        hs__linear_destroy(layer->memory);
        hs__linear_destroy(layer->output);
        hs__linear_destroy(layer->ffn_gate);
        hs__linear_destroy(layer->ffn_in);
        hs__linear_destroy(layer->ffn_out);
    }
    hs__linear_destroy(engine->projection);
    hs__linear_destroy(engine->convolution);
    heads_unpack(engine);
    residual_destroy(engine->residual);
    hs__transposed_destroy(engine->transposed);
    free(engine->block);
    free(engine->rotations);
    free(engine->layers);
}
