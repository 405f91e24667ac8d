/* backward_heads.c - the heads behind the layers backwards: from the gradient of logits or of a sentence
 * vector to that of the last states. Inputs of activations and norms are computed again: they are few rows.
 */
#include "engine/gradients.h"
#include "engine/pass/tape.h"

#include "engine/pass/team.h"
#include "model/base/sizes.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Limits the threads of a call to those of the engine; at least 1. */
static size_t threads_of(const hs_engine *engine, size_t n_threads)
{
    return n_threads < 1 ? 1 : n_threads < engine->n_threads ? n_threads : engine->n_threads;
}

/* ---- dense layers ---- */

/* A dense layer of a head: f(x W' + b), where f may be the identity. */
typedef struct dense_layer {
    const hs_dense *weights;
    const hs__linear *packed; /* with f */
    bool is_linear;
    hs_activation activation;
} dense_layer;

/* Turns the gradient of f(z), g [n_rows][n_out], into that of z = x W' + b, which is computed again. */
static hs_status activation_back(const hs_engine *engine, const dense_layer *layer, const float *x,
                                 size_t n_rows, size_t n_threads, float *g, hs_error *err)
{
    assert(layer->packed);
    const size_t n = n_rows * layer->packed->n_out;
    hs__linear *bare = NULL;
    float *z = malloc(n * sizeof *z);
    const hs_status st = z ? hs__linear_bare(layer->packed, &bare, err)
                           : hs_fail(err, HS_NO_MEMORY, "out of memory for a head");
    if (!st) {
        hs__product_run(engine, (hs__product){bare, n_rows, n_threads, x, z});
        engine->kernels->slope[layer->activation](1, n, z, n);
        engine->kernels->multiply(n, z, g);
    }
    hs__linear_destroy(bare);
    free(z);
    return st;
}

/* Describes the layer's weights the other way; measured NULL: they are made. */
static hs__linear_source source_of(const hs_engine *engine, const dense_layer *layer, atomic_size_t *measured)
{
    return (hs__linear_source){.parts = &layer->weights,
                               .n_parts = 1,
                               .cache_bytes = hs_runtime_caches(engine->runtime).second,
                               .measured = measured};
}

/* Returns the bytes that dense_back allocates; 0 if there is no such layer. */
static size_t dense_back_bytes(const hs_engine *engine, const dense_layer *layer, size_t n_rows)
{
    atomic_size_t n_weights = 0;
    const hs__linear_source source = source_of(engine, layer, &n_weights);
    const hs_tensor *weight = &layer->weights->weight;
    const size_t n_read = engine->kernels->panel * weight->n_columns + weight->n_rows + 1; /* while packing */
    hs__linear *none = NULL;
    if (!layer->packed ||
        hs__linear_transposed.create(&source, engine->kernels, HS_PRECISION_FP32, &none, NULL))
        return 0;
    return hs_max(atomic_load(&n_weights) + n_read * sizeof(float),
                  layer->packed->kind->bytes + n_rows * layer->packed->n_out * sizeof(float));
}

/* Computes the gradient of x [n_rows][n_in] from that of the layer's output, which is overwritten. */
static hs_status dense_back(const hs_engine *engine, const dense_layer *layer, const float *x, size_t n_rows,
                            size_t n_threads, float *g, float *ret, hs_error *err)
{
    const hs__linear_source source = source_of(engine, layer, NULL);
    hs__linear *transposed = NULL;
    hs_status st = layer->is_linear ? HS_OK : activation_back(engine, layer, x, n_rows, n_threads, g, err);
    if (!st)
        st = hs__linear_transposed.create(&source, engine->kernels, HS_PRECISION_FP32, &transposed, err);
    if (!st)
        hs__product_run(engine, (hs__product){transposed, n_rows, n_threads, g, ret});
    hs__linear_destroy(transposed);
    return st;
}

/* ---- the decoder of the head for tokens ----
 *
 * The gradient of its input is that of the logits times the decoder, whose rows are read once. The vocabulary
 * is divided into the same parts for any number of threads, and their sums are added in order. */

enum { PARTS = 16, ROWS_AT_ONCE = 128, STATES_AT_ONCE = 64 };

typedef struct decoding {
    const hs_engine *engine;
    size_t n_states;
    const float *g; /* [n_states][vocab_size] */
    float *sums;    /* [PARTS][STATES_AT_ONCE][P] */
    float *scratch; /* [n_threads][scratch_floats] */
} decoding;

/* Returns the floats of a thread's scratch: rows of the decoder, the same in panels, and a product. */
static size_t scratch_floats(const hs_engine *engine)
{
    const size_t P = engine->architecture->predictor.decoder.n_columns;
    return ROWS_AT_ONCE * P + hs__panels_floats(engine->kernels, ROWS_AT_ONCE, P) + STATES_AT_ONCE * P;
}

/* Returns true if the gradients of n tokens' logits are 0 in all states. */
static bool is_zero(const decoding *d, size_t first, size_t n)
{
    const size_t V = d->engine->shape.vocab_size;
    bool zero = true;
    for (size_t i = 0; i < d->n_states && zero; i++)
        for (size_t j = first; j < first + n && zero; j++)
            zero = d->g[i * V + j] == 0;
    return zero;
}

static void task_decode_back(void *context, size_t part, size_t slot)
{
    const decoding *d = context;
    const hs_engine *engine = d->engine;
    const hs__kernels *kernels = engine->kernels;
    const hs_tensor *decoder = &engine->architecture->predictor.decoder;
    const size_t P = decoder->n_columns, V = decoder->n_rows, n_sums = d->n_states * P;
    float *rows = d->scratch + slot * scratch_floats(engine), *panels = rows + ROWS_AT_ONCE * P;
    float *product_of_rows = panels + hs__panels_floats(kernels, ROWS_AT_ONCE, P);
    float *sums = d->sums + part * STATES_AT_ONCE * P;
    memset(sums, 0, n_sums * sizeof *sums);
    const size_t end = hs__chunk_start(V, PARTS, part + 1);
    for (size_t at = hs__chunk_start(V, PARTS, part), n; at < end; at += n) {
        n = end - at < ROWS_AT_ONCE ? end - at : ROWS_AT_ONCE;
        if (is_zero(d, at, n))
            continue;
        hs_tensor_read(decoder, at, n, rows);
        kernels->pack(n, P, rows, P, 1, panels);
        kernels->product(d->n_states, n, d->g + at, V, panels, P, NULL, NULL, product_of_rows, P);
        kernels->add_bias(1, n_sums, product_of_rows, sums, n_sums);
    }
}

static size_t decode_back_bytes(const hs_engine *engine, size_t n_threads)
{
    const size_t n_part = STATES_AT_ONCE * engine->architecture->predictor.decoder.n_columns;
    return (PARTS * n_part + n_threads * scratch_floats(engine)) * sizeof(float);
}

/* Computes ret [n_states][P] from the gradients of logits. */
static hs_status decode_back(const hs_engine *engine, const float *g, size_t n_states, size_t n_threads,
                             float *ret, hs_error *err)
{
    const size_t P = engine->architecture->predictor.decoder.n_columns, V = engine->shape.vocab_size;
    const size_t n_part = STATES_AT_ONCE * P;
    decoding d = {.engine = engine};
    d.sums = malloc(decode_back_bytes(engine, n_threads));
    if (!d.sums)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for the gradients of predictions");
    d.scratch = d.sums + PARTS * n_part;
    hs__team team;
    hs__team_start(&team, engine->runtime, n_threads);
    for (size_t at = 0; at < n_states; at += STATES_AT_ONCE) {
        float *to = ret + at * P;
        d.n_states = n_states - at < STATES_AT_ONCE ? n_states - at : STATES_AT_ONCE;
        d.g = g + at * V;
        hs__team_share(&team, PARTS, task_decode_back, &d);
        memcpy(to, d.sums, d.n_states * P * sizeof *to);
        for (size_t part = 1; part < PARTS; part++)
            engine->kernels->add_bias(1, d.n_states * P, d.sums + part * n_part, to, d.n_states * P);
    }
    hs__team_finish(&team);
    free(d.sums);
    return HS_OK;
}

/* Takes the gradients of capped logits l = c tanh(r / c) to those of r. */
static void logits_uncap(const hs_engine *engine, const float *logits, size_t n, float *g)
{
    const float cap = (float)engine->architecture->predictor.cap;
    for (size_t i = 0; cap > 0 && i < n; i++)
        g[i] *= (1 - logits[i] / cap) * (1 + logits[i] / cap);
}

static dense_layer dense_of_predictor(const hs_engine *engine)
{
    const hs_predictor *source = &engine->architecture->predictor;
    return (dense_layer){&source->dense, engine->predictor.dense, source->is_linear, source->activation};
}

/* Takes g [n][P], the gradient of what the decoder reads, to that of the states. dense [n][P] is scratch. */
static hs_status transform_back(const hs_engine *engine, const float *states, size_t n, size_t n_threads,
                                float *g, float *dense, float *ret_states, hs_error *err)
{
    const hs_predictor *source = &engine->architecture->predictor;
    const hs__packed_predictor *packed = &engine->predictor;
    const size_t P = source->decoder.n_columns;
    const dense_layer layer = dense_of_predictor(engine);
    for (size_t i = 0; source->scale > 0 && i < n * P; i++)
        g[i] *= (float)source->scale;
    if (packed->dense && packed->norm.gamma)
        hs__product_run(engine, (hs__product){packed->dense, n, n_threads, states, dense});
    hs__norm_back(engine, &packed->norm, n, P, packed->dense ? dense : states, NULL, g, NULL, g);
    if (packed->dense)
        return dense_back(engine, &layer, states, n, n_threads, g, ret_states, err);
    memcpy(ret_states, g, n * P * sizeof *g);
    return HS_OK;
}

hs_status hs_engine_predict_back(const hs_engine *engine, const float *states, size_t n_states,
                                 size_t n_threads, const float *logits, float *gradients, float *ret_states,
                                 hs_error *err)
{
    const size_t P = engine->architecture->predictor.decoder.n_columns;
    n_threads = threads_of(engine, n_threads);
    float *g = calloc(2 * n_states * P, sizeof *g);
    if (!g)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for the gradients of predictions");
    logits_uncap(engine, logits, n_states * engine->shape.vocab_size, gradients);
    hs_status st = decode_back(engine, gradients, n_states, n_threads, g, err);
    if (!st)
        st = transform_back(engine, states, n_states, n_threads, g, g + n_states * P, ret_states, err);
    free(g);
    return st;
}

/* ---- task heads ---- */

static const hs__packed_head *head_of(const hs_engine *engine, const hs_task_head *source)
{
    return source == &engine->architecture->next_sentence ? &engine->next_sentence : &engine->task_head;
}

static dense_layer dense_of(const hs_engine *engine, const hs_task_head *source)
{
    return (dense_layer){&source->dense, head_of(engine, source)->dense, source->is_linear,
                         source->activation};
}

static dense_layer output_of(const hs_engine *engine, const hs_task_head *source)
{
    return (dense_layer){&source->output, head_of(engine, source)->output, true, HS_TANH};
}

hs_status hs_engine_classify_back(const hs_engine *engine, const hs_task_head *source, const float *rows,
                                  size_t n_rows, size_t n_threads, const float *gradients, float *ret_rows,
                                  hs_error *err)
{
    const hs__packed_head *head = head_of(engine, source);
    const dense_layer dense = dense_of(engine, source);
    const dense_layer output = output_of(engine, source);
    const bool has_dense = !source->pools_late && head->dense;
    const size_t C = head->output->n_out, P = head->output->n_in;
    n_threads = threads_of(engine, n_threads);
    float *g = malloc(n_rows * (C + 2 * P) * sizeof *g);
    if (!g)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for the gradients of classes");
    float *inner = g + n_rows * C, *activated = inner + n_rows * P;
    memcpy(g, gradients, n_rows * C * sizeof *g);
    hs_status st = dense_back(engine, &output, rows, n_rows, n_threads, g, has_dense ? inner : ret_rows, err);
    if (!st && has_dense) {
        if (head->norm.gamma)
            hs__product_run(engine, (hs__product){head->dense, n_rows, n_threads, rows, activated});
        hs__norm_back(engine, &head->norm, n_rows, P, activated, NULL, inner, NULL, inner);
        st = dense_back(engine, &dense, rows, n_rows, n_threads, inner, ret_rows, err);
    }
    free(g);
    return st;
}

/* ---- pooling ---- */

/* Returns the token whose value is the largest of a column, the first of equal ones. */
static size_t largest_at(const float *column, size_t first, size_t n_tokens, size_t step)
{
    size_t best = first;
    for (size_t t = first + 1; t < n_tokens; t++)
        best = column[t * step] > column[best * step] ? t : best;
    return best;
}

/* Returns the weight of token t in a pooled column, for ways that are sums. */
static double weight_of(hs_pool way, size_t t, size_t first, size_t n_tokens)
{
    const double n = (double)n_tokens, n_left_out = (double)first;
    switch (way) {
    case HS_POOL_CLS:
        return t == first;
    case HS_POOL_LAST:
        return t + 1 == n_tokens;
    case HS_POOL_MEAN:
        return t < first ? 0 : 1 / (n - n_left_out);
    case HS_POOL_MEAN_SQRT:
        return t < first ? 0 : 1 / sqrt(n - n_left_out);
    default: /* HS_POOL_WEIGHTED; HS_POOL_MAX is no sum */
        return t < first ? 0 : 2 * (double)(t + 1) / (n * (n + 1) - n_left_out * (n_left_out + 1));
    }
}

/* Adds the gradients of the states [n_tokens][H] that a way of pooling passes on. */
static void pool_states_back(hs_pool way, const float *states, size_t first, size_t n_tokens, size_t H,
                             const float *g, float *to)
{
    for (size_t i = 0; way == HS_POOL_MAX && i < H; i++)
        to[largest_at(states + i, first, n_tokens, H) * H + i] += g[i];
    for (size_t t = 0; way != HS_POOL_MAX && t < n_tokens; t++) {
        const float weight = (float)weight_of(way, t, first, n_tokens);
        for (size_t i = 0; weight != 0 && i < H; i++)
            to[t * H + i] += weight * g[i];
    }
}

/* Goes back through a head that pools the rows of its dense layer. */
static hs_status pool_late_back(const hs_engine *engine, const hs_task_head *source, const float *states,
                                size_t n_tokens, size_t n_threads, const float *gradient, float *ret_states,
                                hs_error *err)
{
    const dense_layer dense = dense_of(engine, source);
    assert(dense.packed); /* pools_late */
    const size_t P = dense.packed->n_out;
    float *rows = malloc(2 * n_tokens * P * sizeof *rows);
    if (!rows)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for the gradients of classes");
    float *g = rows + n_tokens * P;
    hs__product_run(engine, (hs__product){dense.packed, n_tokens, n_threads, states, rows});
    memset(g, 0, n_tokens * P * sizeof *g);
    pool_states_back(source->pool, rows, 0, n_tokens, P, gradient, g);
    const hs_status st = dense_back(engine, &dense, states, n_tokens, n_threads, g, ret_states, err);
    free(rows);
    return st;
}

hs_status hs_engine_pool_back(const hs_engine *engine, const hs_task_head *head, const float *states,
                              size_t n_tokens, size_t n_unpadded, size_t n_threads, const float *gradient,
                              float *ret_states, hs_error *err)
{
    const size_t H = engine->shape.hidden;
    n_threads = threads_of(engine, n_threads);
    if (head->pools_late)
        return pool_late_back(engine, head, states, n_tokens, n_threads, gradient, ret_states, err);
    memset(ret_states, 0, n_tokens * H * sizeof *ret_states);
    pool_states_back(head->pool, states, 0, head->pool == HS_POOL_LAST ? n_unpadded : n_tokens, H, gradient,
                     ret_states);
    return HS_OK;
}

/* ---- sentence vectors ---- */

/* Rows that the dense layers of a sentence encoder read and return: inputs[0] is the pooled one. */
typedef struct sentence {
    float *inputs[HS_SENTENCE_DENSE_MAX + 1], *gradients[HS_SENTENCE_DENSE_MAX + 1];
    size_t widths[HS_SENTENCE_DENSE_MAX + 1];
    size_t n;
} sentence;

static void sentence_run(const hs_engine *engine, const hs_pooling *pooling, const float *states,
                         size_t n_tokens, size_t n_threads, sentence *s)
{
    const size_t H = engine->shape.hidden;
    for (size_t way = 0; way < pooling->n; way++)
        for (size_t i = 0; i < H; i++) {
            double sum = 0;
            const float *column = states + i;
            if (pooling->ways[way] == HS_POOL_MAX)
                sum = (double)column[largest_at(column, pooling->first, n_tokens, H) * H];
            for (size_t t = 0; pooling->ways[way] != HS_POOL_MAX && t < n_tokens; t++)
                sum += (double)column[t * H] * weight_of(pooling->ways[way], t, pooling->first, n_tokens);
            s->inputs[0][way * H + i] = (float)sum;
        }
    for (size_t i = 0; i < s->n; i++)
        hs__product_run(engine,
                        (hs__product){engine->sentence[i], 1, n_threads, s->inputs[i], s->inputs[i + 1]});
}

/* Takes the gradient g [n] of v / |v| to that of v. */
static void normalize_back(const float *v, size_t n, float *g)
{
    const double least = 1e-12; /* as in predict.c */
    double squares = 0, dot = 0;
    for (size_t i = 0; i < n; i++) {
        squares += (double)v[i] * (double)v[i];
        dot += (double)v[i] * (double)g[i];
    }
    const double length = sqrt(squares) > least ? sqrt(squares) : least;
    for (size_t i = 0; i < n; i++)
        g[i] = (float)(((double)g[i] - (double)v[i] * dot / (length * length)) / length);
}

static dense_layer dense_of_sentence(const hs_engine *engine, size_t i)
{
    const hs_sentence_dense *dense = &engine->architecture->sentence.dense[i];
    return (dense_layer){&dense->dense, engine->sentence[i], dense->is_linear, dense->activation};
}

/* Goes back through the norms to the vector v that the dense layers make. A cut vector that is divided by its
 * length does not depend on the length of v, so a norm of the checkpoint before it changes no gradient. */
static void norms_back(const hs_engine *engine, const hs_pooling *pooling, const float *v, size_t width,
                       float *g)
{
    const size_t n_kept = hs_sentence_width(engine->architecture, pooling);
    memset(g + n_kept, 0, (width - n_kept) * sizeof *g);
    if (pooling->normalized)
        normalize_back(v, n_kept, g);
    else if (engine->architecture->sentence.normalized)
        normalize_back(v, width, g);
}

static hs_status sentence_back(const hs_engine *engine, const sentence *s, size_t n_threads, hs_error *err)
{
    hs_status st = HS_OK;
    for (size_t i = s->n; i-- > 0 && !st;) {
        const dense_layer layer = dense_of_sentence(engine, i);
        st =
            dense_back(engine, &layer, s->inputs[i], 1, n_threads, s->gradients[i + 1], s->gradients[i], err);
    }
    return st;
}

hs_status hs_engine_embed_back(const hs_engine *engine, const hs_pooling *pooling, const float *states,
                               size_t n_tokens, size_t n_threads, const float *gradient, float *ret_states,
                               hs_error *err)
{
    const size_t H = engine->shape.hidden;
    sentence s = {.n = engine->architecture->sentence.n_dense, .widths = {pooling->n * H}};
    size_t n_floats = s.widths[0], at = 0;
    for (size_t i = 0; i < s.n; i++)
        n_floats += s.widths[i + 1] = engine->sentence[i]->n_out;
    float *floats = malloc(2 * n_floats * sizeof *floats);
    if (!floats)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for the gradient of a sentence vector");
    for (size_t i = 0; i <= s.n; at += s.widths[i++]) {
        s.inputs[i] = floats + at;
        s.gradients[i] = floats + n_floats + at;
    }
    n_threads = threads_of(engine, n_threads);
    sentence_run(engine, pooling, states, n_tokens, n_threads, &s);
    memcpy(s.gradients[s.n], gradient, hs_sentence_width(engine->architecture, pooling) * sizeof *gradient);
    norms_back(engine, pooling, s.inputs[s.n], s.widths[s.n], s.gradients[s.n]);
    const hs_status st = sentence_back(engine, &s, n_threads, err);
    memset(ret_states, 0, n_tokens * H * sizeof *ret_states);
    for (size_t way = 0; way < pooling->n && !st; way++)
        pool_states_back(pooling->ways[way], states, pooling->first, n_tokens, H, s.gradients[0] + way * H,
                         ret_states);
    free(floats);
    return st;
}

/* ---- memory ---- */

size_t hs_heads_back_bytes(const hs_engine *engine, size_t n_rows, size_t n_threads)
{
    const hs_architecture *architecture = engine->architecture;
    const hs_task_head *head = &architecture->task_head;
    const size_t H = engine->shape.hidden, P = architecture->predictor.decoder.n_columns;
    const dense_layer layers[] = {dense_of_predictor(engine), dense_of(engine, head),
                                  output_of(engine, head)};
    size_t n_vector = HS_N_POOLS * H, inner = decode_back_bytes(engine, threads_of(engine, n_threads));
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
        inner = hs_max(inner, dense_back_bytes(engine, &layers[i], n_rows));
    for (size_t i = 0; i < architecture->sentence.n_dense; i++) {
        const dense_layer layer = dense_of_sentence(engine, i);
        n_vector += layer.packed->n_out;
        inner = hs_max(inner, dense_back_bytes(engine, &layer, 1));
    }
    const size_t n_class = n_rows * (head->n_classes + 2 * H), n_token = n_rows * (P + hs_max(P, H));
    return hs_max(hs_max(n_class, n_token), 2 * n_vector) * sizeof(float) + inner;
}
