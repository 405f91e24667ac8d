/* logit_attribution.c - what each part of a pre-norm model adds to a target (direct logit attribution).
 *
 * The state x behind the last layer is the sum of all that parts write: the embeddings, o W_O of each head,
 * the output biases, what each feed-forward part adds. A target that is linear in the last states is y = <g,
 * last> + c. With the deviation s that the final norm divides by held fixed, and h = g * gamma:
 *
 *     u = (h - mean(h)) / s,   y = <u, x> + <g, beta> + c        RMS: u = h / s
 *
 * So a part that writes w adds <u, w>. Where a norm follows what a part writes (OLMo 2, Gemma), u goes
 * through it in the same way. A head adds <u W_O', o>, so one product serves all heads of a block. */
#include "engine/analysis/attribution.h"

#include "engine/analysis/analysis_maps.h"
#include "engine/pass/tape.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A tape that is read from its last layer to its first one. Rows are those of the tokens from the first to
 * the last one whose states the target reads. */
typedef struct reading {
    hs_tape *tape;
    const hs_engine *engine;
    hs_workspace *ws;
    const hs_logit_selection *of;
    const hs_run_control *control; /* or NULL */
    size_t H, A, first, n, n_threads;
    float *direction; /* [n][H] u of the state */
    float *inner;     /* [n][H] u of what a part writes, before the norm behind it */
    float *context;   /* [n][A] u of the heads' outputs */
    float *bias;      /* [H] */
    double embedding, biases, other, selected;
} reading;

static double dot(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* ---- targets ---- */

const char *hs_logit_attribution_refusal(const hs_architecture *architecture, const hs_target *target)
{
    const hs_predictor *predictor = &architecture->predictor;
    const hs_task_head *head = &architecture->task_head;
    const bool by_class = target->kind == HS_TARGET_CLASS || target->kind == HS_TARGET_SPAN;
    const bool has_dense = by_class ? head->dense.weight.data && !head->is_linear
                                    : predictor->dense.weight.data && !predictor->is_linear;
    if (!architecture->norms_before || architecture->convolution.width > 0)
        return "the model norms the state after each part, so that no part reaches the logits unchanged";
    if (!by_class && target->kind != HS_TARGET_TOKENS)
        return "the target is no logit";
    if (has_dense || (by_class ? head->norm.gamma.data : predictor->norm.gamma.data))
        return "the head behind the layers has an activation or a norm of its own";
    if (!by_class && predictor->cap > 0 && predictor->dense.weight.data)
        return "the model caps its logits behind a dense layer";
    if (by_class && hs_task_head_is_pooled(head) && head->pool == HS_POOL_MAX)
        return "the head reads the largest value over all tokens";
    return NULL;
}

/* Computes the target's value at states of zeros: c. */
static hs_status constant_read(reading *r, const hs_target *target, hs_error *err)
{
    const size_t T = r->tape->text.n_tokens;
    const hs_capture text = {.n_tokens = T, .n_unpadded = r->tape->n_unpadded};
    float *zeros = calloc(T * r->H + hs_target_floats(r->engine->architecture, target, T), sizeof *zeros);
    if (!zeros)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for a target");
    float *rows = zeros + T * r->H;
    hs_status st = hs_target_rows(r->engine, target, zeros, &text, r->n_threads, rows, err);
    if (!st)
        st = hs_target_values(r->engine, target, rows, 1, r->tape->text.ids, T, r->n_threads, &r->biases,
                              NULL, err);
    free(zeros);
    return st;
}

/* Computes the target before the cap of its logits, and its gradient: the cap's slope at 0 is 1. */
static hs_status uncapped_read(reading *r, const hs_target *target, double *ret_value, float *ret_last,
                               hs_error *err)
{
    const size_t V = r->engine->shape.vocab_size, at = target->position * r->H;
    const float *state = hs_tape_last(r->tape) + at, *bias = r->engine->predictor.bias;
    float *zeros = calloc(2 * V, sizeof *zeros);
    if (!zeros)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for a target");
    float *g = zeros + V;
    g[target->tokens[0]] += 1;
    r->biases = (double)bias[target->tokens[0]];
    if (target->tokens[1] >= 0) {
        g[target->tokens[1]] -= 1;
        r->biases -= (double)bias[target->tokens[1]];
    }
    memset(ret_last, 0, r->tape->text.n_tokens * r->H * sizeof *ret_last);
    const hs_status st =
        hs_engine_predict_back(r->engine, state, 1, r->n_threads, zeros, g, ret_last + at, err);
    *ret_value = r->biases + dot(state, ret_last + at, r->H);
    free(zeros);
    return st;
}

/* Computes the target, the number that the parts sum up to, and the gradient of that: ret_last [T][H]. */
static hs_status target_read(reading *r, const hs_target *target, double *ret_target, double *ret_value,
                             float *ret_last, hs_error *err)
{
    const bool capped = target->kind == HS_TARGET_TOKENS && r->engine->architecture->predictor.cap > 0;
    const hs_status st =
        hs_tape_target(r->tape, target, r->control, ret_target, capped ? NULL : ret_last, err);
    *ret_value = *ret_target;
    return st       ? st
           : capped ? uncapped_read(r, target, ret_value, ret_last, err)
                    : constant_read(r, target, err);
}

/* ---- parts ---- */

/* Takes the direction behind a norm of rows x to before it, and counts what the norm's own bias adds. */
static void norm_back(reading *r, const hs__packed_norm *norm, const float *x, const float *g, float *ret)
{
    const hs_architecture *architecture = r->engine->architecture;
    const bool centered = architecture->norm_kind == HS_NORM_LAYER;
    const size_t H = r->H;
    for (size_t i = 0; i < r->n * H; i += H) {
        double mean = 0, squares = 0, h_mean = 0;
        for (size_t k = i; k < i + H && centered; k++) {
            mean += (double)x[k] / (double)H;
            h_mean += (double)g[k] * (double)norm->gamma[k - i] / (double)H;
        }
        for (size_t k = i; k < i + H; k++)
            squares += ((double)x[k] - mean) * ((double)x[k] - mean);
        const double scale = 1 / sqrt(squares / (double)H + (double)architecture->norm_eps);
        r->biases += dot(g + i, norm->beta, H);
        for (size_t k = i; k < i + H; k++)
            ret[k] = (float)(((double)g[k] * (double)norm->gamma[k - i] - h_mean) * scale);
    }
}

/* Returns the direction of what a part writes, of which the tape keeps all rows. */
static const float *written_direction(reading *r, const hs__packed_norm *norm, const float *written)
{
    if (!norm->gamma)
        return r->direction;
    norm_back(r, norm, written, r->direction, r->inner);
    return r->inner;
}

/* Adds a part where it belongs: to the selected ones, and to *ret, or to the others. */
static void part_add(reading *r, bool selected, double part, float *ret)
{
    if (!selected) {
        r->other += part;
        return;
    }
    r->selected += part;
    *ret = (float)part;
}

/* ---- blocks ---- */

static void heads_read(reading *r, size_t block, const hs__kept *kept)
{
    const hs_engine *engine = r->engine;
    const hs_architecture *architecture = engine->architecture;
    const size_t n_layer = hs_architecture_layer_blocks(architecture), d = engine->shape.head_width;
    const hs_logit_selection *of = r->of;
    const ptrdiff_t l =
        of->cross == (block % n_layer == 1) ? hs__list_find(of->layers, of->n_layers, block / n_layer) : -1;
    const hs_tensor *bias = &architecture->layers[architecture->layers[block].same_as].output.bias;
    const float *u =
        written_direction(r, &engine->layers[block].attention_out_norm, kept->attended + r->first * r->H);
    hs__product_run(engine, (hs__product){hs__transposed_at(engine->transposed, block)->output, r->n,
                                          r->n_threads, u, r->context});
    for (size_t index = 0; index < engine->shape.n_heads; index++) {
        const ptrdiff_t h = l < 0 ? -1 : hs__list_find(of->heads, of->n_heads, index);
        double part = 0;
        for (size_t i = 0; i < r->n; i++)
            part +=
                dot(r->context + i * r->A + index * d, kept->context + (r->first + i) * r->A + index * d, d);
        part_add(r, h >= 0, part, of->ret_heads + (h < 0 ? 0 : (size_t)l * of->n_heads + (size_t)h));
    }
    if (!bias->data)
        return;
    hs_tensor_read(bias, 0, 1, r->bias);
    for (size_t i = 0; i < r->n; i++)
        r->biases += dot(u + i * r->H, r->bias, r->H);
}

static void feed_read(reading *r, size_t block, const hs__kept *kept)
{
    const size_t n_layer = hs_architecture_layer_blocks(r->engine->architecture);
    const ptrdiff_t l = hs__list_find(r->of->layers, r->of->n_layers, block / n_layer);
    const float *fed = kept->fed + r->first * r->H;
    const float *u = written_direction(r, &r->engine->layers[block].ffn_out_norm, fed);
    part_add(r, l >= 0, dot(u, fed, r->n * r->H), r->of->ret_feed_forward + (l < 0 ? 0 : l));
}

/* ---- states ---- */

/* Returns the number of the row that an intervention changes at its k-th position, or n if the target does
 * not read it. */
static size_t row_changed(const reading *r, const hs_intervention *change, size_t k)
{
    const size_t at = change->n_positions > 0 ? change->positions[k] : k;
    return at >= r->first && at < r->first + r->n ? at - r->first : r->n;
}

static size_t rows_changed(const reading *r, const hs_intervention *change)
{
    return change->n_positions > 0 ? change->n_positions : r->tape->text.n_tokens;
}

/* Returns the part of the rows of a state that patches have replaced. No part below reaches them, nor one
 * that was added before. x [n][H] is the state. */
static double patched_take(reading *r, size_t state, const float *x)
{
    const hs_sequence *text = &r->tape->text;
    double part = 0;
    for (size_t i = 0; i < text->n_interventions; i++) {
        const hs_intervention *patch = &text->interventions[i];
        if (patch->kind != HS_INTERVENE_PATCH_STATE ||
            hs__list_find(patch->layers, patch->n_layers, state) < 0)
            continue;
        for (size_t k = 0; k < rows_changed(r, patch); k++) {
            const size_t row = row_changed(r, patch, k);
            float *u = r->direction + row * r->H;
            if (row == r->n)
                continue;
            part += dot(u, x + row * r->H, r->H);
            memset(u, 0, r->H * sizeof *u);
        }
    }
    return part;
}

/* Returns the part of the vectors that were added to a state, but for rows that patches have replaced. */
static double added_part(const reading *r, size_t state)
{
    const hs_sequence *text = &r->tape->text;
    double part = 0;
    for (size_t i = 0; i < text->n_interventions; i++) {
        const hs_intervention *addition = &text->interventions[i];
        const ptrdiff_t l = hs__list_find(addition->layers, addition->n_layers, state);
        if (addition->kind != HS_INTERVENE_ADD || l < 0)
            continue;
        const float *vector = addition->vector + (addition->n_vector > r->H ? (size_t)l * r->H : 0);
        for (size_t k = 0; k < rows_changed(r, addition); k++) {
            const size_t row = row_changed(r, addition, k);
            if (row < r->n)
                part += (double)addition->factor * dot(r->direction + row * r->H, vector, r->H);
        }
    }
    return part;
}

static hs_status layer_read(reading *r, size_t layer, hs_error *err)
{
    const size_t n_layer = hs_architecture_layer_blocks(r->engine->architecture), end = layer * n_layer;
    const bool kept = hs__tape_kept(r->tape, end);
    if (hs__is_cancelled(r->control))
        return hs_fail(err, HS_CANCELLED, "cancelled in layer %zu of logit attributions", layer);
    const hs_status st = kept ? HS_OK : hs__tape_layer_again(r->tape, r->ws, layer, r->control, err);
    if (st)
        return st;
    for (size_t block = end + n_layer; block-- > end;) {
        const hs__kept *of = hs__tape_kept(r->tape, block);
        if (r->engine->layers[block].ffn_in)
            feed_read(r, block, of);
        heads_read(r, block, of);
    }
    const float *x = r->tape->x[end] + r->first * r->H;
    const double all = layer == 0 ? dot(r->direction, x, r->n * r->H) : 0;
    const double patched = patched_take(r, layer, x), added = added_part(r, layer);
    if (layer == 0)
        r->embedding = all - added;
    r->other += layer == 0 ? added : patched + added;
    return HS_OK;
}

/* ---- all layers ---- */

/* Lays out what a call allocates for n_tokens tokens, and rows of n of them. */
static float *reading_layout(reading *r, hs__arena *arena, size_t n_tokens)
{
    float *last = hs__arena_floats(arena, n_tokens * r->H);
    r->direction = hs__arena_floats(arena, n_tokens * r->H);
    r->inner = hs__arena_floats(arena, n_tokens * r->H);
    r->context = hs__arena_floats(arena, n_tokens * r->A);
    r->bias = hs__arena_floats(arena, r->H);
    return last;
}

static reading reading_describe(const hs_engine *engine)
{
    return (reading){.engine = engine, .H = engine->shape.hidden, .A = engine->attention_width};
}

size_t hs_logit_attribution_bytes(const hs_engine *engine, size_t n_tokens)
{
    reading r = reading_describe(engine);
    hs__arena arena = {0};
    reading_layout(&r, &arena, n_tokens);
    return arena.used + (n_tokens + 2) * r.H * sizeof(float);
}

/* Finds the rows that the target reads, from its gradient g [T][H]; at least one. */
static void rows_find(reading *r, const float *g)
{
    size_t first = 0, last = r->tape->text.n_tokens * r->H - 1;
    while (first < last && g[first] == 0)
        first++;
    while (last > first && g[last] == 0)
        last--;
    r->first = first / r->H;
    r->n = last / r->H + 1 - r->first;
}

/* Sums up all parts for the direction g [T][H] of the last states. */
static hs_status parts_read(reading *r, const float *g, hs_error *err)
{
    const hs_engine *engine = r->engine;
    rows_find(r, g);
    memcpy(r->direction, g + r->first * r->H, r->n * r->H * sizeof *g);
    r->other += patched_take(r, engine->shape.n_layers, r->tape->last + r->first * r->H);
    r->other += added_part(r, engine->shape.n_layers);
    if (engine->final_norm.gamma)
        norm_back(r, &engine->final_norm, r->tape->unnormed + r->first * r->H, r->direction, r->direction);
    hs_status st = HS_OK;
    for (size_t layer = engine->shape.n_layers; layer-- > 0 && !st;)
        st = layer_read(r, layer, err);
    return st;
}

hs_status hs_tape_logits(hs_tape *tape, hs_workspace *ws, const hs_target *target,
                         const hs_logit_selection *of, const hs_run_control *control,
                         hs_logit_attribution *ret, double *ret_target, hs_error *err)
{
    const hs_engine *engine = tape->engine;
    const char *refusal = hs_logit_attribution_refusal(engine->architecture, target);
    const size_t T = tape->text.n_tokens;
    if (refusal)
        return hs_fail(err, HS_UNSUPPORTED, "%s", refusal);
    reading r = reading_describe(engine);
    r.tape = tape;
    r.ws = ws;
    r.of = of;
    r.control = control;
    r.n_threads = hs__threads_for(engine, T, control && control->n_threads > 0 ? control->n_threads : 1);
    hs__arena arena = {0};
    reading_layout(&r, &arena, T);
    arena = (hs__arena){.base = hs_memory_create(arena.used)};
    if (!arena.base)
        return hs_fail(err, HS_NO_MEMORY, "out of memory for logit attributions");
    float *last = reading_layout(&r, &arena, T);
    double value = 0;
    hs_status st = target_read(&r, target, ret_target, &value, last, err);
    if (!st)
        st = parts_read(&r, last, err);
    const double sum = r.embedding + r.biases + r.other + r.selected;
    *ret = (hs_logit_attribution){.value = (float)value,
                                  .embedding = (float)r.embedding,
                                  .bias = (float)r.biases,
                                  .other = (float)r.other,
                                  .sum = (float)sum,
                                  .rest = (float)(value - sum)};
    free(arena.base);
    return st;
}
