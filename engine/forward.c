/* forward.c - one pass of the encoder over packed sequences.
 *
 * N rows stand for the tokens of all sequences, side by side. Rows never meet but inside attention, where
 * each sequence is on its own. Per layer, with x [N][H]:
 *
 *     q k v = x Wqkv' + b
 *     A = softmax(q k' / sqrt(d)), O = A v     per sequence and head; S = O O'
 *     x = norm(x + O Wo' + b)
 *     x = norm(x + gelu(x Wi' + b) Wf' + b) */
#include "engine/internal.h"

#include <cblas.h>
#include <math.h>
#include <string.h>

/* Position of layer in the capture's selection, or -1. */
static ptrdiff_t captured_layer(const hs_capture *capture, size_t layer)
{
    for (size_t l = 0; l < capture->n_layers; l++)
        if (capture->layers[l] == layer)
            return (ptrdiff_t)l;
    return -1;
}

static ptrdiff_t captured_head(const hs_capture *capture, size_t head)
{
    for (size_t h = 0; h < capture->n_heads; h++)
        if (capture->heads[h] == head)
            return (ptrdiff_t)h;
    return -1;
}

static size_t layers_needed(const hs_sequence *sequences, size_t n_sequences)
{
    size_t needed = 0;
    for (size_t s = 0; s < n_sequences; s++) {
        const hs_capture *capture = sequences[s].capture;
        if (capture->n_layers > 0 && capture->layers[capture->n_layers - 1] + (size_t)1 > needed)
            needed = capture->layers[capture->n_layers - 1] + (size_t)1;
    }
    return needed;
}

/* x = norm(word[id] + position[i] + type[t]), one row. */
static void embed(const hs_engine *engine, hs_workspace *ws, const hs_sequence *sequence, float *x)
{
    const hs_weights *weights = hs_model_weights(engine->model);
    const size_t H = engine->shape.hidden, T = sequence->n_tokens;
    for (size_t i = 0; i < T; i++) {
        float *row = x + i * H, *add = ws->update;
        hs_tensor_read(&weights->word, (size_t)sequence->ids[i], 1, row);
        hs_tensor_read(&weights->position, i, 1, add);
        for (size_t j = 0; j < H; j++)
            row[j] += add[j];
        if (engine->shape.n_types > 0) {
            hs_tensor_read(&weights->type, sequence->types ? sequence->types[i] : 0, 1, add);
            for (size_t j = 0; j < H; j++)
                row[j] += add[j];
        }
    }
    engine->kernels->add_norm(T, H, x, NULL, engine->embedding_norm.gamma, engine->embedding_norm.beta,
                              engine->shape.layer_norm_eps, x);
}

/* S = O O' of one head, diagonal 0: the lower triangle computed, the upper one mirrored. */
static void similarity(size_t T, size_t D, const float *out, size_t ld, float *sim)
{
    cblas_ssyrk(CblasRowMajor, CblasLower, CblasNoTrans, (int)T, (int)D, 1, out, (int)ld, 0, sim, (int)T);
    for (size_t i = 0; i < T; i++) {
        for (size_t j = 0; j < i; j++)
            sim[j * T + i] = sim[i * T + j];
        sim[i * T + i] = 0;
    }
}

/* One head of one sequence: q, k, v and out point at its first row and first column. l, h: where it goes in
 * the capture, -1 for nowhere. The map is computed in the capture slot itself. */
static void attend(const hs_engine *engine, hs_workspace *ws, const hs_capture *capture, ptrdiff_t l,
                   ptrdiff_t h, const float *qkv, float *out)
{
    const size_t T = capture->n_tokens, H = capture->hidden, D = capture->head_width;
    const int t = (int)T, d = (int)D, ld = (int)(3 * H);
    const bool kept = l >= 0 && h >= 0;
    const bool keeps_map = kept && capture->attentions;
    float *map = keeps_map ? hs_capture_attention(capture, (size_t)l, (size_t)h) : ws->map;
    float *columns = keeps_map ? hs_capture_columns(capture, (size_t)l, (size_t)h) : NULL;
    const float *q = qkv, *k = qkv + H, *v = qkv + 2 * H;

    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, t, t, d, 1, q, ld, k, ld, 0, map, t); /* q k' */
    if (columns)
        memset(columns, 0, T * sizeof *columns);
    engine->kernels->softmax(T, T, 1 / sqrtf((float)D), map, T, columns);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, t, d, t, 1, map, t, v, ld, 0, out,
                (int)H); /* A v */

    if (kept && capture->head_outputs) {
        float *copy = hs_capture_head_output(capture, (size_t)l, (size_t)h);
        for (size_t i = 0; i < T; i++)
            memcpy(copy + i * D, out + i * H, D * sizeof *copy);
    }
    if (kept && capture->similarities)
        similarity(T, D, out, H, hs_capture_similarity(capture, (size_t)l, (size_t)h));
}

static void keep_hidden_states(const hs_workspace *ws, const hs_sequence *sequences, size_t n_sequences,
                               ptrdiff_t layer)
{
    size_t row = 0;
    for (size_t s = 0; s < n_sequences; s++) {
        const hs_capture *capture = sequences[s].capture;
        const size_t floats = capture->n_tokens * capture->hidden;
        ptrdiff_t state = layer < 0 ? 0 : captured_layer(capture, (size_t)layer) + 1;
        if (capture->hidden_states && (layer < 0 || state > 0))
            memcpy(capture->hidden_states + (size_t)state * floats, ws->x + row * capture->hidden,
                   floats * sizeof(float));
        row += capture->n_tokens;
    }
}

static void run_layer(const hs_engine *engine, hs_workspace *ws, const hs_sequence *sequences,
                      size_t n_sequences, size_t N, size_t index)
{
    const hs__layer *layer = &engine->layers[index];
    const hs__kernels *kernels = engine->kernels;
    const hs_shape *shape = &engine->shape;
    const size_t H = shape->hidden, D = shape->head_width;

    engine->linear->apply(layer->qkv, N, ws->x, ws->qkv);
    size_t row = 0;
    for (size_t s = 0; s < n_sequences; s++) {
        const hs_capture *capture = sequences[s].capture;
        const ptrdiff_t l = captured_layer(capture, index);
        for (size_t head = 0; head < shape->n_heads; head++)
            attend(engine, ws, capture, l, captured_head(capture, head), ws->qkv + row * 3 * H + head * D,
                   ws->context + row * H + head * D);
        row += sequences[s].n_tokens;
    }
    engine->linear->apply(layer->output, N, ws->context, ws->update);
    kernels->add_norm(N, H, ws->update, ws->x, layer->attention_norm.gamma, layer->attention_norm.beta,
                      shape->layer_norm_eps, ws->x);
    engine->linear->apply(layer->ffn_in, N, ws->x, ws->inner);
    engine->linear->apply(layer->ffn_out, N, ws->inner, ws->update);
    kernels->add_norm(N, H, ws->update, ws->x, layer->ffn_norm.gamma, layer->ffn_norm.beta,
                      shape->layer_norm_eps, ws->x);
}

hs_status hs__forward(const hs_engine *engine, hs_workspace *ws, const hs_sequence *sequences,
                      size_t n_sequences, const hs_run_control *control, hs_error *err)
{
    const size_t H = engine->shape.hidden, n_layers = layers_needed(sequences, n_sequences);
    size_t N = 0;
    for (size_t s = 0; s < n_sequences; s++) {
        embed(engine, ws, &sequences[s], ws->x + N * H);
        N += sequences[s].n_tokens;
    }
    keep_hidden_states(ws, sequences, n_sequences, -1);
    for (size_t l = 0; l < n_layers; l++) {
        if (control->cancelled && atomic_load_explicit(control->cancelled, memory_order_relaxed))
            return hs_fail(err, HS_CANCELLED, "cancelled after %zu of %zu layers", l, n_layers);
        run_layer(engine, ws, sequences, n_sequences, N, l);
        keep_hidden_states(ws, sequences, n_sequences, (ptrdiff_t)l);
    }
    return HS_OK;
}
