#include "tests/unit/architecture_reference.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- random architectures ---- */

enum { BLOCKS_MAX = 2000 };
static void *blocks[BLOCKS_MAX];
static size_t n_blocks;
static uint32_t state = 11;

static void *block_make(size_t n_bytes)
{
    ck_assert_uint_lt(n_blocks, BLOCKS_MAX);
    void *block = calloc(1, n_bytes);
    ck_assert_ptr_nonnull(block);
    blocks[n_blocks++] = block;
    return block;
}

hs_tensor random_tensor(size_t n_rows, size_t n_columns, float middle, float spread)
{
    float *values = block_make(n_rows * n_columns * sizeof *values);
    for (size_t i = 0; i < n_rows * n_columns; i++) {
        float sum = 0;
        for (int k = 0; k < 4; k++) {
            state = state * 1664525 + 1013904223;
            sum += (float)(state >> 8) / 8388608.0F - 1;
        }
        values[i] = middle + spread * sum;
    }
    return (hs_tensor){.data = values, .n_rows = n_rows, .n_columns = n_columns, .dtype = HS_F32};
}

hs_dense random_dense(size_t n_out, size_t n_in)
{
    return (hs_dense){random_tensor(n_out, n_in, 0, 1 / sqrtf((float)n_in)),
                      random_tensor(1, n_out, 0, 0.1F)};
}

hs_norm random_norm(size_t n)
{
    return (hs_norm){.gamma = random_tensor(1, n, 1, 0.1F), .beta = random_tensor(1, n, 0, 0.1F)};
}

hs_architecture random_architecture(const hs_shape *shape, size_t E)
{
    const size_t H = shape->hidden, F = shape->ffn;
    hs_architecture r = {.family = "random", .shape = *shape, .norm_eps = 1e-6F};
    r.embedding.width = E;
    r.embedding.word = random_tensor(shape->vocab_size, E, 0, 0.5F);
    r.embedding.position = random_tensor(shape->n_positions, E, 0, 0.5F);
    r.embedding.type = random_tensor(shape->n_types, E, 0, 0.5F);
    r.embedding.norm = random_norm(E);
    if (E != H)
        r.embedding.projection = random_dense(H, E);
    r.layers = block_make(shape->n_layers * sizeof *r.layers);
    for (size_t l = 0; l < shape->n_layers; l++)
        r.layers[l] = (hs_layer){.same_as = l,
                                 .query = random_dense(H, H),
                                 .key = random_dense(H, H),
                                 .value = random_dense(H, H),
                                 .output = random_dense(H, H),
                                 .attention_norm = random_norm(H),
                                 .ffn_in = random_dense(F, H),
                                 .ffn_out = random_dense(H, F),
                                 .ffn_norm = random_norm(H)};
    return r;
}

void random_decoder(hs_architecture *architecture)
{
    const size_t H = architecture->shape.hidden, n = architecture->shape.n_layers;
    const hs_layer *encoder = architecture->layers;
    architecture->crosses = architecture->causal = true;
    architecture->layers = block_make(2 * n * sizeof *architecture->layers);
    for (size_t l = 0; l < n; l++) {
        hs_layer *self = &architecture->layers[2 * l], *cross = self + 1;
        *self = *cross = encoder[l];
        self->same_as = 2 * l;
        self->ffn_in = self->ffn_gate = self->ffn_out = (hs_dense){0};
        self->ffn_norm = (hs_norm){0};
        *cross = (hs_layer){.same_as = 2 * l + 1,
                            .query = random_dense(H, H),
                            .key = random_dense(H, H),
                            .value = random_dense(H, H),
                            .output = random_dense(H, H),
                            .attention_norm = random_norm(H),
                            .ffn_in = encoder[l].ffn_in,
                            .ffn_gate = encoder[l].ffn_gate,
                            .ffn_out = encoder[l].ffn_out,
                            .ffn_norm = encoder[l].ffn_norm};
    }
}

void random_architecture_free(void)
{
    while (n_blocks > 0)
        free(blocks[--n_blocks]);
}

/* ---- the pass ---- */

static double at(const hs_tensor *tensor, size_t row, size_t column)
{
    return ((const float *)tensor->data)[row * tensor->n_columns + column];
}

/* [T][out] */
static double *dense(const hs_dense *dense, size_t T, const double *x)
{
    const size_t n_out = dense->weight.n_rows, n_in = dense->weight.n_columns;
    double *y = calloc(T * n_out, sizeof *y);
    for (size_t t = 0; t < T; t++)
        for (size_t o = 0; o < n_out; o++) {
            double sum = dense->bias.data ? at(&dense->bias, 0, o) : 0;
            for (size_t i = 0; i < n_in; i++)
                sum += x[t * n_in + i] * at(&dense->weight, o, i);
            y[t * n_out + o] = sum;
        }
    return y;
}

static void norm(const hs_architecture *architecture, const hs_norm *norm, size_t T, size_t n, double *x)
{
    const bool centered = architecture->norm_kind == HS_NORM_LAYER;
    for (size_t t = 0; norm->gamma.data && t < T; t++) {
        double mean = 0, variance = 0;
        for (size_t i = 0; i < n && centered; i++)
            mean += x[t * n + i] / (double)n;
        for (size_t i = 0; i < n; i++)
            variance += (x[t * n + i] - mean) * (x[t * n + i] - mean) / (double)n;
        for (size_t i = 0; i < n; i++)
            x[t * n + i] = (x[t * n + i] - mean) / sqrt(variance + (double)architecture->norm_eps) *
                               (at(&norm->gamma, 0, i) + (double)norm->offset) +
                           (norm->beta.data ? at(&norm->beta, 0, i) : 0);
    }
}

static double activate(hs_activation activation, double x)
{
    switch (activation) {
    case HS_GELU:
        return x * (1 + erf(x / sqrt(2))) / 2;
    case HS_GELU_TANH:
        return x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x))) / 2;
    case HS_QUICK_GELU:
        return x / (1 + exp(-1.702 * x));
    case HS_RELU:
        return x > 0 ? x : 0;
    case HS_SILU:
        return x / (1 + exp(-x));
    case HS_TANH:
        return tanh(x);
    case HS_N_ACTIVATIONS:
        break;
    }
    return NAN;
}

/* Returns element i of the sinusoids at a position, whose angle is rounded to float but for Marian. */
static double sinusoid(hs_sinusoids kind, size_t width, size_t position, size_t i)
{
    if (kind == HS_SINUSOIDS_MARIAN) {
        const size_t n_sines = (width + 1) / 2, k = i < n_sines ? i : i - n_sines;
        const double angle = (double)position / pow(10000, (double)(2 * k) / (double)width);
        return i < n_sines ? sin(angle) : cos(angle);
    }
    const size_t half = width / 2;
    const float step = (float)(-log(10000) / (double)(half - 1));
    const float angle = (float)position * (float)exp((double)((float)(i % half) * step));
    return i >= 2 * half ? 0 : i < half ? sin((double)angle) : cos((double)angle);
}

static double *embed(const hs_architecture *architecture, const hs_sequence *s)
{
    const hs_embedding *e = &architecture->embedding;
    const size_t T = s->n_tokens, E = e->width;
    double *x = calloc(T * E, sizeof *x), n_masked = 0;
    for (size_t t = 0; t < T; t++)
        n_masked += s->ids[t] == e->mask_id;
    for (size_t t = 0, position = e->position_offset; t < T; t++) {
        const bool padding =
            e->position_offset > 0 && !e->counts_padding && s->ids[t] == (int32_t)e->position_offset - 1;
        for (size_t i = 0; i < E; i++) {
            x[t * E + i] = at(&e->word, (size_t)s->ids[t], i) * (e->scale > 0 ? e->scale : 1);
            if (e->token_dropout > 0)
                x[t * E + i] *=
                    s->ids[t] == e->mask_id ? 0 : (1 - e->token_dropout) / (1 - n_masked / (double)T);
            x[t * E + i] +=
                e->position.data ? at(&e->position, padding ? e->position_offset - 1 : position, i) : 0;
            x[t * E + i] += e->sinusoids && !padding ? sinusoid(e->sinusoids, E, position, i) : 0;
            x[t * E + i] += e->type.data ? at(&e->type, s->types ? s->types[t] : 0, i) : 0;
        }
        position += !padding;
    }
    norm(architecture, &e->norm, T, E, x);
    if (e->projection.weight.data) {
        double *projected = dense(&e->projection, T, x);
        free(x);
        x = projected;
    }
    return x;
}

/* A block with attention: of layer l, self or cross. */
typedef struct block {
    size_t l;
    bool cross;
} block;

/* True where one of the sequence's interventions of this kind meets the head; factors are multiplied. */
static bool meets(const hs_sequence *s, hs_intervention_kind kind, block b, size_t h, double *factor)
{
    bool any = false;
    for (size_t n = 0; n < s->n_interventions; n++) {
        const hs_intervention *v = &s->interventions[n];
        bool in_layers = false, in_heads = false;
        for (size_t i = 0; i < v->n_layers; i++)
            in_layers |= v->layers[i] == b.l && v->cross == b.cross;
        for (size_t i = 0; i < v->n_heads; i++)
            in_heads |= v->heads[i] == h;
        if (v->kind == kind && in_layers && in_heads) {
            any = true;
            *factor *= v->factor;
        }
    }
    return any;
}

/* Returns the shortest distance that attention of the head is cut at; 0: it is not. */
static size_t cut_of(const hs_sequence *s, block b, size_t h)
{
    size_t shortest = 0;
    for (size_t n = 0; n < s->n_interventions; n++) {
        const hs_sequence alone = {.interventions = &s->interventions[n], .n_interventions = 1};
        double unused = 1;
        const size_t distance = s->interventions[n].distance;
        if (meets(&alone, HS_INTERVENE_CUT, b, h, &unused) && (shortest == 0 || distance < shortest))
            shortest = distance;
    }
    return shortest;
}

static void softmax(size_t K, const double *scores, double *ret)
{
    double top = -INFINITY, sum = 0;
    for (size_t j = 0; j < K; j++)
        top = fmax(top, scores[j]);
    for (size_t j = 0; j < K; j++)
        sum += ret[j] = exp(scores[j] - top);
    for (size_t j = 0; j < K; j++)
        ret[j] /= sum;
}

/* Returns the frequency of column m of a layer's heads, for a text of T tokens. */
static float frequency(const hs_architecture *architecture, const hs_layer *layer, size_t T, size_t m)
{
    const hs_rotary *rotary = &architecture->rotary;
    const size_t D = architecture->shape.head_width;
    const float period = powf((float)layer->rotation_base, (float)(2 * m) / (float)D);
    if (rotary->divisors && !layer->rotation_unscaled)
        return 1 / (rotary->divisors[(T > rotary->original_positions ? D / 2 : 0) + m] * period);
    if (!rotary->by_column || layer->rotation_unscaled)
        return 1 / period;
    const double part = fmin(fmax(((double)m - rotary->low) / (rotary->high - rotary->low), 0), 1);
    return (float)((part / rotary->factor + 1 - part) / (double)period);
}

/* q or k [T][H], every head turned by its positions. Angles are float32, as in HuggingFace's models. */
static void rotate(const hs_architecture *architecture, const hs_layer *layer, size_t T, double *x)
{
    const hs_rotary *rotary = &architecture->rotary;
    const double more = rotary->amplitude > 0 && !layer->rotation_unscaled ? rotary->amplitude : 1;
    const size_t H = architecture->shape.hidden, D = architecture->shape.head_width;
    const size_t step = rotary->interleaved ? 2 : 1, between = step == 2 ? 1 : D / 2;
    for (size_t t = 0; layer->rotation_base > 0 && t < T; t++)
        for (size_t h = 0; h < architecture->shape.n_heads; h++)
            for (size_t m = 0; m < D / 2; m++) {
                const float angle = (float)t * frequency(architecture, layer, T, m);
                double *a = x + t * H + h * D + step * m, *b = a + between;
                const double turned = (*a * cos((double)angle) - *b * sin((double)angle)) * more;
                *b = (*b * cos((double)angle) + *a * sin((double)angle)) * more;
                *a = turned;
            }
}

static double score_bias(const hs_architecture *architecture, size_t i, size_t j, size_t h)
{
    const double m = fabs((double)i - (double)j), n_heads = (double)architecture->shape.n_heads;
    double bias = 0;
    if (architecture->score_bias.table.data) {
        const bool one_sided = architecture->score_bias.one_sided;
        const double B = (double)(architecture->score_bias.n_buckets / (one_sided ? 1 : 2));
        const double e = floor(B / 2), D = (double)architecture->score_bias.n_distances;
        const double bucket = m < e ? m : fmin(B - 1, e + floor(log(m / e) / log(D / e) * (B - e) + 1e-9));
        bias += at(&architecture->score_bias.table,
                   j <= i      ? (size_t)bucket
                   : one_sided ? 0
                               : (size_t)(bucket + B),
                   h);
    }
    if (architecture->alibi) {
        double power = 1;
        while (2 * power <= n_heads)
            power *= 2;
        bias -= m * ((double)h < power ? pow(2, -8 * ((double)h + 1) / power)
                                       : pow(2, -8 * (2 * ((double)h - power) + 1) / (2 * power)));
    }
    return bias;
}

/* Returns the product of row i of a and row j of b, both [..][H], in one head, scaled as scores are. */
static double product(const hs_architecture *architecture, const double *a, size_t i, const double *b,
                      size_t j, size_t h)
{
    const size_t H = architecture->shape.hidden, D = architecture->shape.head_width;
    double sum = 0;
    for (size_t d = 0; d < D; d++)
        sum += a[i * H + h * D + d] * b[j * H + h * D + d];
    const double scale = sqrt((double)D * fmax(1, (double)architecture->relative.n_addends));
    return sum / (architecture->score_divisor > 0 ? architecture->score_divisor : scale);
}

/* Returns the row of the table for a query i and a key j. */
static size_t relative_row(const hs_relative *relative, size_t i, size_t j)
{
    const double middle = (double)(relative->n_buckets / 2), r = fabs((double)i - (double)j);
    double bucket = r, row;
    if (relative->n_buckets > 0 && r > middle)
        bucket =
            middle +
            ceil(log(r / middle) / log((double)(relative->n_distances - 1) / middle) * (middle - 1) - 1e-9);
    row = i >= j ? (double)relative->span + bucket : (double)relative->span - bucket;
    return (size_t)fmin(fmax(row, 0), 2 * (double)relative->span - 1);
}

/* The table's rows as keys or queries of a layer, [2 span][H]; NULL where a layer has none. */
static double *positions(const hs_architecture *architecture, const hs_dense *projection)
{
    const hs_tensor *table = &architecture->relative.table;
    if (!projection->weight.data)
        return NULL;
    double *rows = calloc(table->n_rows * table->n_columns, sizeof *rows);
    for (size_t row = 0; row < table->n_rows; row++)
        for (size_t i = 0; i < table->n_columns; i++)
            rows[row * table->n_columns + i] = at(table, row, i);
    norm(architecture, &architecture->relative.norm, table->n_rows, table->n_columns, rows);
    double *projected = dense(projection, table->n_rows, rows);
    free(rows);
    return projected;
}

/* O of one head, [T][d], with its interventions. */
static void output(const hs_architecture *architecture, const hs_sequence *s, block b, size_t h,
                   const double *A, const double *v, double *O)
{
    const size_t T = s->n_tokens, K = b.cross ? s->n_memory : T, H = architecture->shape.hidden,
                 D = architecture->shape.head_width;
    double factor = 1, unused = 1;
    const bool mean = meets(s, HS_INTERVENE_MEAN, b, h, &unused);
    meets(s, HS_INTERVENE_SCALE, b, h, &factor);
    if (meets(s, HS_INTERVENE_ZERO, b, h, &unused))
        factor = 0;
    for (size_t d = 0; d < D; d++) {
        double total = 0;
        for (size_t i = 0; i < T; i++) {
            O[i * D + d] = 0;
            for (size_t j = 0; j < K; j++)
                O[i * D + d] += A[i * K + j] * v[j * H + h * D + d];
            total += O[i * D + d];
        }
        for (size_t i = 0; i < T; i++)
            O[i * D + d] = factor * (mean ? total / (double)T : O[i * D + d]);
    }
}

/* A head's columns, [T][D]. */
static void take_head(size_t T, size_t H, size_t D, const double *x, double *ret)
{
    for (size_t t = 0; t < T; t++)
        memcpy(ret + t * D, x + t * H, D * sizeof *x);
}

/* Returns x W' for the D columns of W that a head of this number has: [T][n_rows of W]. */
static double *written(const hs_tensor *weight, size_t T, size_t D, size_t head, const double *x)
{
    const size_t n = weight->n_rows;
    double *y = calloc(T * n, sizeof *y);
    for (size_t t = 0; t < T; t++)
        for (size_t o = 0; o < n; o++)
            for (size_t d = 0; d < D; d++)
                y[t * n + o] += x[t * D + d] * at(weight, o, head * D + d);
    return y;
}

/* Takes the mean over rows away from x [T][n]. */
static void center(size_t T, size_t n, double *x)
{
    for (size_t j = 0; j < n; j++) {
        double sum = 0;
        for (size_t i = 0; i < T; i++)
            sum += x[i * n + j];
        for (size_t i = 0; i < T; i++)
            x[i * n + j] -= sum / (double)T;
    }
}

/* S = x x' with its diagonal 0. */
static void inner_products(size_t T, size_t n, const double *x, double *S)
{
    for (size_t i = 0; i < T; i++)
        for (size_t j = 0; j < T; j++)
            for (size_t d = 0; d < n && i != j; d++)
                S[i * T + j] += x[i * n + d] * x[j * n + d];
}

/* All similarities of a head with output O [T][D]. */
static void similarities(const hs_dense *dense, size_t T, size_t D, size_t head, const double *O, size_t map,
                         const reference *r)
{
    const size_t H = dense->weight.n_rows;
    double *outputs = malloc(T * D * sizeof *outputs), *writes = written(&dense->weight, T, D, head, O);
    memcpy(outputs, O, T * D * sizeof *outputs);
    for (size_t centered = 0; centered < 2; centered++) {
        inner_products(T, D, outputs, r->similarity[0][centered] + map * T * T);
        inner_products(T, H, writes, r->similarity[1][centered] + map * T * T);
        center(T, D, outputs);
        center(T, H, writes);
    }
    free(outputs), free(writes);
}

/* Queries, keys and values of a block, [T][H] and [K][H], and the rows of relative positions. */
typedef struct operands {
    size_t T, K;
    double *q, *k, *v, *keys, *queries;
} operands;

/* x [T][H] is the input of the block. */
static operands operands_make(const hs_architecture *architecture, const hs_sequence *s, block b,
                              const hs_layer *layer, const hs_layer *own, const double *x)
{
    const size_t T = s->n_tokens, K = b.cross ? s->n_memory : T, H = architecture->shape.hidden;
    double *read = malloc(K * H * sizeof *read);
    for (size_t i = 0; i < K * H; i++)
        read[i] = b.cross ? s->memory[i] : x[i];
    const operands o = {T,
                        K,
                        dense(&layer->query, T, x),
                        dense(&layer->key, K, read),
                        dense(&layer->value, K, read),
                        positions(architecture, &layer->position_key),
                        positions(architecture, &layer->position_query)};
    if (architecture->qk_norms_whole) {
        norm(architecture, &layer->query_norm, T, H, o.q);
        norm(architecture, &layer->key_norm, K, H, o.k);
    }
    rotate(architecture, own, T, o.q);
    rotate(architecture, own, K, o.k);
    free(read);
    return o;
}

/* Sets row i of a head's scores and their addends, at map `map` of the reference. */
static void scores_make(const hs_architecture *architecture, block b, const hs_layer *own, const operands *o,
                        size_t h, size_t i, size_t row_of_maps, const reference *r)
{
    for (size_t j = 0; j < o->K; j++) {
        const size_t at_map = row_of_maps * o->K + j, row = relative_row(&architecture->relative, i, j);
        const bool hidden = (own->window > 0 && (i > j ? i - j : j - i) > own->window) ||
                            (architecture->causal && !b.cross && j > i);
        const double cap = architecture->score_cap, divisor = own->score_divisor > 0 ? own->score_divisor : 1;
        const double score = product(architecture, o->q, i, o->k, j, h) / divisor;
        r->c2c[at_map] = hidden ? -INFINITY : cap > 0 ? cap * tanh(score / cap) : score;
        r->c2p[at_map] = o->keys ? product(architecture, o->q, i, o->keys, row, h) : 0;
        r->p2c[at_map] = o->queries ? product(architecture, o->queries, row, o->k, j, h) : 0;
        r->scores[at_map] = r->c2c[at_map] + r->c2p[at_map] + r->p2c[at_map] +
                            (b.cross || hidden ? 0 : score_bias(architecture, i, j, h));
    }
}

/* The attention part: [T][H], head outputs side by side. Keeps what belongs to the reference. */
static double *attend(const hs_architecture *architecture, const hs_sequence *s, block b,
                      const hs_layer *layer, const hs_layer *own, const double *x, const reference *r)
{
    const size_t H = architecture->shape.hidden, D = architecture->shape.head_width;
    const operands o = operands_make(architecture, s, b, layer, own, x);
    const size_t T = o.T, K = o.K;
    double *context = calloc(T * H, sizeof *context);
    for (size_t h = 0; h < architecture->shape.n_heads; h++) {
        const size_t map = b.l * architecture->shape.n_heads + h;
        take_head(T, H, D, o.q + h * D, r->query + map * T * D);
        take_head(K, H, D, o.k + h * D, r->key + map * K * D);
        take_head(K, H, D, o.v + h * D, r->value + map * K * D);
        double *scores = r->scores + map * T * K, *A = r->attention + map * T * K;
        double *O = r->output + map * T * D, unused = 1;
        const bool uniform = meets(s, HS_INTERVENE_UNIFORM, b, h, &unused);
        const bool identity = meets(s, HS_INTERVENE_IDENTITY, b, h, &unused);
        const size_t cut = cut_of(s, b, h);
        for (size_t i = 0; i < T; i++) {
            scores_make(architecture, b, own, &o, h, i, map * T + i, r);
            for (size_t j = 0; cut > 0 && j < K; j++)
                if (i > j + cut || j > i + cut)
                    scores[i * K + j] = r->c2c[(map * T + i) * K + j] = -INFINITY;
            softmax(K, scores + i * K, A + i * K);
            size_t n_seen = 0;
            for (size_t j = 0; j < K; j++)
                n_seen += scores[i * K + j] > -INFINITY;
            for (size_t j = 0; (uniform || identity) && j < K; j++)
                A[i * K + j] = uniform ? (scores[i * K + j] > -INFINITY) / (double)n_seen : i == j;
        }
        output(architecture, s, b, h, A, o.v, O);
        for (size_t i = 0; i < T; i++)
            memcpy(context + i * H + h * D, O + i * D, D * sizeof *O);
        similarities(&layer->output, T, D, h, O, map, r);
    }
    free(o.q), free(o.k), free(o.v), free(o.keys), free(o.queries);
    return context;
}

/* The feed-forward part: [T][H]. */
static double *feed(const hs_architecture *architecture, const hs_layer *layer, size_t T, const double *x)
{
    const bool gated = layer->ffn_gate.weight.data;
    double *inner = dense(&layer->ffn_in, T, x), *gate = gated ? dense(&layer->ffn_gate, T, x) : NULL;
    for (size_t i = 0; i < T * architecture->shape.ffn; i++)
        inner[i] = gated ? activate(architecture->activation, gate[i]) * inner[i]
                         : activate(architecture->activation, inner[i]);
    double *y = dense(&layer->ffn_out, T, inner);
    free(inner), free(gate);
    return y;
}

/* Returns the input of a block: x, normed if norms come before. */
static double *block_input(const hs_architecture *architecture, const hs_norm *before, size_t T,
                           const double *x)
{
    double *input = calloc(T * architecture->shape.hidden, sizeof *input);
    memcpy(input, x, T * architecture->shape.hidden * sizeof *x);
    if (architecture->norms_before)
        norm(architecture, before, T, architecture->shape.hidden, input);
    return input;
}

/* x + y, normed where norms are after; y is done with, normed by `out`. */
static void join(const hs_architecture *architecture, const hs_norm *out, const hs_norm *after, size_t T,
                 double *x, double *y)
{
    norm(architecture, out, T, architecture->shape.hidden, y);
    for (size_t i = 0; i < T * architecture->shape.hidden; i++)
        x[i] += y[i];
    if (!architecture->norms_before)
        norm(architecture, after, T, architecture->shape.hidden, x);
    free(y);
}

/* Returns the addend after the first layer, from the embeddings. */
static double *convolve(const hs_architecture *architecture, size_t T, const double *embedded)
{
    const hs_convolution *c = &architecture->convolution;
    const size_t H = architecture->shape.hidden;
    double *y = calloc(T * H, sizeof *y);
    for (size_t t = 0; t < T; t++)
        for (size_t o = 0; o < H; o++) {
            double sum = at(&c->dense.bias, 0, o);
            for (size_t k = 0; k < c->width; k++)
                for (size_t i = 0; i < H && t + k >= c->width / 2 && t + k - c->width / 2 < T; i++)
                    sum +=
                        at(&c->dense.weight, o, i * c->width + k) * embedded[(t + k - c->width / 2) * H + i];
            y[t * H + o] = activate(c->activation, sum);
        }
    return y;
}

/* Computes a block with attention, and the feed-forward part behind it if it has one. */
static void block_run(const hs_architecture *architecture, const hs_sequence *s, block b, double *x,
                      const reference *r)
{
    const hs_layer *own = &architecture->layers[architecture->crosses ? 2 * b.l + b.cross : b.l];
    const hs_layer *layer = &architecture->layers[own->same_as];
    const size_t T = s->n_tokens;
    double *input = block_input(architecture, &layer->attention_norm, T, x);
    double *context = attend(architecture, s, b, layer, own, input, r);
    join(architecture, &layer->attention_out_norm, &layer->attention_norm, T, x,
         dense(&layer->output, T, context));
    free(input), free(context);
    if (!layer->ffn_in.weight.data)
        return;
    input = block_input(architecture, &layer->ffn_norm, T, x);
    join(architecture, &layer->ffn_out_norm, &layer->ffn_norm, T, x, feed(architecture, layer, T, input));
    free(input);
}

/* x + factor vector at the positions of each addition to the state: 0 the embeddings, l + 1 after layer l. */
static void additions(const hs_sequence *s, size_t number, size_t H, double *x)
{
    for (size_t n = 0; n < s->n_interventions; n++) {
        const hs_intervention *v = &s->interventions[n];
        for (size_t l = 0; v->kind == HS_INTERVENE_ADD && l < v->n_layers; l++)
            for (size_t t = 0; v->layers[l] == number && t < (v->n_positions ? v->n_positions : s->n_tokens);
                 t++)
                for (size_t j = 0; j < H; j++)
                    x[(v->n_positions ? v->positions[t] : t) * H + j] +=
                        (double)v->factor * (double)v->vector[(v->n_vector > H) * l * H + j];
    }
}

static reference arrays_make(const hs_architecture *architecture, size_t T, size_t K)
{
    const size_t H = architecture->shape.hidden, L = architecture->shape.n_layers;
    const size_t n_maps = L * architecture->shape.n_heads, n = n_maps * T * K,
                 D = architecture->shape.head_width;
    reference r = {.T = T,
                   .K = K,
                   .query = calloc(n_maps * T * D, sizeof(double)),
                   .key = calloc(n_maps * K * D, sizeof(double)),
                   .value = calloc(n_maps * K * D, sizeof(double)),
                   .states = calloc((L + 1) * T * H, sizeof(double)),
                   .scores = calloc(n, sizeof(double)),
                   .c2c = calloc(n, sizeof(double)),
                   .c2p = calloc(n, sizeof(double)),
                   .p2c = calloc(n, sizeof(double)),
                   .attention = calloc(n, sizeof(double)),
                   .output = calloc(n_maps * T * D, sizeof(double))};
    for (size_t i = 0; i < 4; i++)
        r.similarity[i / 2][i % 2] = calloc(n_maps * T * T, sizeof(double));
    return r;
}

reference reference_make(const hs_architecture *architecture, const hs_sequence *s, bool cross)
{
    const size_t T = s->n_tokens, H = architecture->shape.hidden, L = architecture->shape.n_layers;
    reference r = arrays_make(architecture, T, cross ? s->n_memory : T);
    /* what the other blocks of a decoder compute */
    reference other = arrays_make(architecture, T, cross ? T : s->n_memory);
    double *x = embed(architecture, s);
    additions(s, 0, H, x);
    memcpy(r.states, x, T * H * sizeof *x);
    for (size_t l = 0; l < L; l++) {
        block_run(architecture, s, (block){l, false}, x, cross ? &other : &r);
        if (architecture->crosses)
            block_run(architecture, s, (block){l, true}, x, cross ? &r : &other);
        if (l == 0 && architecture->convolution.width > 0)
            join(architecture, &(hs_norm){0}, &architecture->convolution.norm, T, x,
                 convolve(architecture, T, r.states));
        if (l + 1 == L)
            norm(architecture, &architecture->final_norm, T, H, x);
        additions(s, l + 1, H, x);
        memcpy(r.states + (l + 1) * T * H, x, T * H * sizeof *x);
    }
    free(x);
    reference_free(&other);
    return r;
}

void reference_free(reference *r)
{
    free(r->query), free(r->key), free(r->value), free(r->states), free(r->scores), free(r->attention),
        free(r->output), free(r->c2c), free(r->c2p), free(r->p2c);
    for (size_t i = 0; i < 4; i++)
        free(r->similarity[i / 2][i % 2]);
}
