/* output_predictions.c - predictions of tokens, and the loss. */
#include "api/outputs/structures.h"

#include "engine/analysis/predictions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ==== predictions ==== */

/* Predictions of masked tokens, or of the next token, at some positions; with a lens,
 * also from the embeddings and every layer.
 *
 * A position has as many logits as the vocabulary has entries. They are computed for some positions at a
 * time, and only the figures and the top tokens are kept. */

typedef struct prediction_list {
    size_t n,
        n_states; /* positions; states read at each: 1, or with a lens 1 + layers, the last layer's last */
    size_t *positions;    /* [n] */
    hs_prediction *items; /* [n][n_states] */
    bool of_baseline;
} prediction_list;

static bool predicts_next(const hs__answer *a)
{
    return a->model->architecture->predictor.next;
}

static bool is_mask(const hs__answer *a, size_t position)
{
    return a->encoding->ids[position] == hs_tokenizer_special_ids(hs_model_tokenizer(a->model->model))->mask;
}

/* Returns the position of the token whose probability is read at a position: its own, or the next one if the
 * model predicts that. It is n_tokens behind the last token. */
static size_t target_of(const hs__answer *a, size_t position)
{
    return position + predicts_next(a);
}

/* Returns true if there is no token to read: a mask is there, or the text ends. */
static bool is_unread(const hs__answer *a, size_t position)
{
    return predicts_next(a) ? target_of(a, position) == a->encoding->n_tokens : is_mask(a, position);
}

/* ---- computing ---- */

hs_status hs__positions_choose(const hs__answer *a, size_t **ret_positions, size_t *ret_n, hs_error *err)
{
    const hs__prediction_request *analysis = &a->analysis->predictions;
    const size_t T = a->reader ? a->reader->n_tokens : a->encoding->n_tokens;
    const bool all = a->reader || analysis->where == HS__PREDICT_ALL || predicts_next(a);
    size_t *positions = malloc((analysis->n_positions + T) * sizeof *positions), n = 0;
    if (!positions)
        return hs_fail(err, HS_NO_MEMORY, "no memory for predictions");
    for (size_t i = 0; i < analysis->n_positions; i++)
        positions[n++] = analysis->positions[i];
    for (size_t i = 0; i < T && analysis->where != HS__PREDICT_LISTED; i++)
        if (all || is_mask(a, i))
            positions[n++] = i;
    *ret_positions = positions;
    *ret_n = n;
    return HS_OK;
}

/* Returns how many positions' logits are held at a time, each read from n_states states; at least 1. */
static size_t positions_at_once(const hs__answer *a, size_t n_states)
{
    const size_t at_once = HS_LOGITS_BYTES_MAX / (n_states * a->model->shape->vocab_size * sizeof(float));
    return at_once > 0 ? at_once : 1;
}

/* Returns the state to predict from: with a lens that of `depth` (0: the embeddings), else the last one. */
static const float *state_at(const hs__answer *a, const prediction_list *list, size_t position, size_t depth)
{
    const float *states = list->n_states == 1 ? hs_capture_at(a->capture, HS_TAP_LAST_STATE, 0, 0)
                                              : hs_capture_at(a->capture, HS_TAP_EVERY_STATE, depth, 0);
    return states + position * a->capture->hidden;
}

/* Predicts n positions from index `first` on. The engine takes the states of inner layers, position by
 * position, and then those of the last layer. */
static hs_status predict_some(const hs__answer *a, prediction_list *list, size_t first, size_t n, float *rows,
                              float *logits, hs_error *err)
{
    const size_t V = a->model->shape->vocab_size, H = a->capture->hidden, n_inner = list->n_states - 1;
    for (size_t i = 0; i < n; i++)
        for (size_t depth = 0; depth <= n_inner; depth++) {
            const size_t row = depth < n_inner ? i * n_inner + depth : n * n_inner + i;
            memcpy(rows + row * H, state_at(a, list, list->positions[first + i], depth), H * sizeof *rows);
        }
    const hs_status st = hs_engine_predict(a->model->engine, rows, n * list->n_states, n * n_inner,
                                           a->request->n_threads, logits, err);
    for (size_t i = 0; !st && i < n; i++)
        for (size_t depth = 0; depth <= n_inner; depth++) {
            const size_t row = depth < n_inner ? i * n_inner + depth : n * n_inner + i;
            const size_t target = target_of(a, list->positions[first + i]);
            hs_prediction_read(
                logits + row * V, V, target < a->encoding->n_tokens ? a->encoding->ids[target] : 0,
                a->analysis->predictions.top_k, &list->items[(first + i) * list->n_states + depth]);
        }
    return st;
}

static hs_status predict(const hs__answer *a, prediction_list *list, hs_error *err)
{
    const size_t V = a->model->shape->vocab_size, H = a->capture->hidden, D = list->n_states;
    const size_t most = positions_at_once(a, D), at_once = most < list->n ? most : list->n;
    float *rows = malloc((at_once * D * (V + H) + 1) * sizeof *rows);
    hs_status st = HS_OK;
    if (!rows)
        return hs_fail(err, HS_NO_MEMORY, "no memory for predictions");
    for (size_t first = 0; !st && first < list->n && !hs__answer_cancelled(a); first += at_once)
        st = predict_some(a, list, first, list->n - first < at_once ? list->n - first : at_once, rows,
                          rows + at_once * D * H, err);
    free(rows);
    return st;
}

/* Predicts from the answer's capture. */
static hs_status predictions_compute(const hs__answer *a, void **ret_result, hs_error *err)
{
    prediction_list *list = calloc(1, sizeof *list);
    *ret_result = list;
    if (!list)
        return hs_fail(err, HS_NO_MEMORY, "no memory for predictions");
    list->of_baseline = a->capture == a->baseline;
    list->n_states = a->analysis->predictions.lens ? a->model->shape->n_layers + 1 : 1;
    const hs_status st = hs__positions_choose(a, &list->positions, &list->n, err);
    if (st)
        return st;
    list->items = malloc((list->n * list->n_states + 1) * sizeof *list->items);
    return list->items ? predict(a, list, err) : hs_fail(err, HS_NO_MEMORY, "no memory for predictions");
}

static void predictions_destroy(void *result)
{
    prediction_list *list = result;
    if (!list)
        return;
    free(list->positions);
    free(list->items);
    free(list);
}

/* Returns the final prediction at position k: that of the last state. */
static const hs_prediction *prediction_at(const prediction_list *list, size_t k)
{
    return &list->items[k * list->n_states + list->n_states - 1];
}

/* ---- JSON ---- */

static void write_figure(hs_buffer *b, const hs__answer *a, const char *name, float value)
{
    hs__json_key(b, name);
    hs__json_float(b, value, (int)a->analysis->digits);
}

/* Writes the members from "probability" to "top", without braces. */
static void write_reading(hs_buffer *b, const hs__answer *a, const hs_prediction *p, bool unread)
{
    const hs_tokenizer *tokenizer = hs_model_tokenizer(a->model->model);
    hs_buffer_text(b, "\"probability\":");
    if (unread) {
        hs_buffer_text(b, "null,\"rank\":null");
    } else {
        hs__json_float(b, p->probability, (int)a->analysis->digits);
        hs__json_key(b, "rank");
        hs__json_integer(b, p->rank);
    }
    write_figure(b, a, "entropy", p->entropy);
    hs__json_key(b, "top");
    hs_buffer_text(b, "[");
    for (size_t i = 0; i < p->n_top; i++) {
        const char *token = hs_tokenizer_token(tokenizer, p->top_ids[i]);
        hs__json_comma(b, i);
        hs_buffer_text(b, "{\"id\":");
        hs__json_integer(b, p->top_ids[i]);
        hs__json_key(b, "token");
        hs__json_string(b, token, strlen(token));
        write_figure(b, a, "probability", p->top_probabilities[i]);
        hs_buffer_text(b, "}");
    }
    hs_buffer_text(b, "]");
}

static void write_position(hs_buffer *b, const hs__answer *a, const prediction_list *list, size_t k)
{
    const size_t position = list->positions[k];
    const bool unread = is_unread(a, position);
    hs_buffer_text(b, "{\"position\":");
    hs__json_integer(b, (int64_t)position);
    hs__json_key(b, "token");
    if (predicts_next(a) && unread)
        hs_buffer_text(b, "null");
    else
        hs__json_token(b, a, target_of(a, position));
    hs_buffer_text(b, ",");
    write_reading(b, a, prediction_at(list, k), unread);
    if (a->analysis->predictions.lens) {
        hs__json_key(b, "layers");
        for (size_t s = 0; s < list->n_states; s++) {
            hs_buffer_text(b, s ? ",{" : "[{");
            write_reading(b, a, &list->items[k * list->n_states + s], unread);
            hs_buffer_text(b, "}");
        }
        hs_buffer_text(b, "]");
    }
    hs_buffer_text(b, "}");
}

static void predictions_write_json(hs_buffer *b, const hs__answer *a, const void *result)
{
    const prediction_list *list = result;
    hs_buffer_text(b, "[");
    for (size_t k = 0; k < list->n; k++) {
        hs__json_comma(b, k);
        write_position(b, a, list, k);
    }
    hs_buffer_text(b, "]");
}

/* ---- arrays ---- */

/* Names of the arrays. */
typedef struct array_names {
    const char *position, *probability, *rank, *entropy, *top_ids, *top_probability;
    const char *layers_probability, *layers_rank, *layers_entropy, *layers_top_ids, *layers_top_probability;
} array_names;

#define NAMES(prefix)                                                                                        \
    {                                                                                                        \
        prefix "position", prefix "probability", prefix "rank", prefix "entropy", prefix "top_ids",          \
            prefix "top_probability", prefix "layers_probability", prefix "layers_rank",                     \
            prefix "layers_entropy", prefix "layers_top_ids", prefix "layers_top_probability"                \
    }
static const array_names own_names = NAMES("predictions_"), baseline_names = NAMES("changes_predictions_");

/* Adds columns over the positions, or over positions and states. */
typedef struct columns {
    float *probability, *entropy, *top_probability;
    int64_t *rank;
    int32_t *top_ids;
} columns;

static void put(const columns *to, size_t at, const hs_prediction *p, bool unread, size_t k)
{
    to->probability[at] = unread ? NAN : p->probability;
    to->rank[at] = unread ? 0 : p->rank;
    to->entropy[at] = p->entropy;
    memcpy(to->top_ids + at * k, p->top_ids, p->n_top * sizeof *p->top_ids);
    memcpy(to->top_probability + at * k, p->top_probabilities, p->n_top * sizeof *p->top_probabilities);
}

/* Adds the arrays with one element per position. */
static void add_entries(hs_arrays *arrays, const hs__answer *a, const prediction_list *list,
                        const array_names *names)
{
    const size_t n = list->n, k = list->n ? prediction_at(list, 0)->n_top : 0;
    int32_t *position = hs_arrays_add(arrays, names->position, HS_ELEMENT_I4, 1, n, 0);
    const columns to = {
        .probability = hs_arrays_add(arrays, names->probability, HS_ELEMENT_F4, 1, n, 0),
        .rank = hs_arrays_add(arrays, names->rank, HS_ELEMENT_I8, 1, n, 0),
        .entropy = hs_arrays_add(arrays, names->entropy, HS_ELEMENT_F4, 1, n, 0),
        .top_ids = hs_arrays_add(arrays, names->top_ids, HS_ELEMENT_I4, 2, n, k),
        .top_probability = hs_arrays_add(arrays, names->top_probability, HS_ELEMENT_F4, 2, n, k),
    };
    for (size_t i = 0; i < n && !arrays->failed; i++) {
        position[i] = (int32_t)list->positions[i];
        put(&to, i, prediction_at(list, i), is_unread(a, list->positions[i]), k);
    }
}

/* Adds the arrays with one element per position and state. */
static void add_lens(hs_arrays *arrays, const hs__answer *a, const prediction_list *list,
                     const array_names *names)
{
    const size_t n = list->n, D = list->n_states, k = list->n ? prediction_at(list, 0)->n_top : 0;
    columns to;
    to.probability = hs_arrays_add(arrays, names->layers_probability, HS_ELEMENT_F4, 2, n, D);
    to.rank = hs_arrays_add(arrays, names->layers_rank, HS_ELEMENT_I8, 2, n, D);
    to.entropy = hs_arrays_add(arrays, names->layers_entropy, HS_ELEMENT_F4, 2, n, D);
    const size_t shape[] = {n, D, k};
    to.top_ids = hs_arrays_add_block(arrays, names->layers_top_ids, HS_ELEMENT_I4, 3, shape);
    to.top_probability = hs_arrays_add_block(arrays, names->layers_top_probability, HS_ELEMENT_F4, 3, shape);
    for (size_t i = 0; i < n * D && !arrays->failed; i++)
        put(&to, i, &list->items[i], is_unread(a, list->positions[i / D]), k);
}

static void predictions_add_arrays(hs_arrays *arrays, const hs__answer *a, const void *result)
{
    const prediction_list *list = result;
    const array_names *names = list->of_baseline ? &baseline_names : &own_names;
    add_entries(arrays, a, list, names);
    if (a->analysis->predictions.lens)
        add_lens(arrays, a, list, names);
}

/* ---- sizes ---- */

static size_t n_readings_max(const hs__measures *m)
{
    const hs__prediction_request *analysis = &m->analysis->predictions;
    const size_t n = analysis->where == HS__PREDICT_LISTED ? analysis->n_positions : m->n_tokens;
    return n * (analysis->lens ? m->shape->n_layers + 2 : 1);
}

static size_t predictions_json_bytes_max(const hs__measures *m)
{
    return n_readings_max(m) * (160 + m->token + 3 * m->number +
                                m->analysis->predictions.top_k * (60 + m->token + 2 * m->number));
}

static size_t predictions_array_bytes_max(const hs__measures *m)
{
    return n_readings_max(m) * (32 + 8 * m->analysis->predictions.top_k) + 4096;
}

const hs__structure hs__structure_predictions = {
    .compute = predictions_compute,
    .destroy = predictions_destroy,
    .write_json = predictions_write_json,
    .add_arrays = predictions_add_arrays,
    .json_bytes_max = predictions_json_bytes_max,
    .array_bytes_max = predictions_array_bytes_max,
};

/* ==== the loss ==== */

/* The loss of a text under a causal model: -ln p of every token after the first, given the
 * tokens before it. */

typedef struct loss {
    size_t n; /* T - 1 */
    bool of_baseline;
    float mean;   /* NAN if n is 0 */
    float nats[]; /* [n]: of token 1, 2, ... */
} loss;

/* ---- computing ---- */

/* Computes the losses of the tokens after n positions from `first` on. */
static hs_status find_some(const hs__answer *a, size_t first, size_t n, float *logits, float *ret_nats,
                           hs_error *err)
{
    const size_t V = a->model->shape->vocab_size;
    const float *states = hs_capture_at(a->capture, HS_TAP_LAST_STATE, 0, 0) + first * a->capture->hidden;
    const hs_status st =
        hs_engine_predict(a->model->engine, states, n, 0, a->request->n_threads, logits, err);
    for (size_t i = 0; i < n && !st; i++)
        ret_nats[i] = (float)hs_loss(logits + i * V, V, a->encoding->ids[first + i + 1]);
    return st;
}

static float mean_of(const float *values, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)values[i];
    return n > 0 ? (float)(sum / (double)n) : NAN;
}

static hs_status loss_compute(const hs__answer *a, void **ret_result, hs_error *err)
{
    const size_t n = a->encoding->n_tokens - 1, at_once = positions_at_once(a, 1);
    loss *l = calloc(1, sizeof *l + n * sizeof *l->nats);
    float *logits = malloc((at_once < n ? at_once : n + 1) * a->model->shape->vocab_size * sizeof *logits);
    hs_status st = HS_OK;
    *ret_result = l;
    if (!l || !logits) {
        free(logits);
        return hs_fail(err, HS_NO_MEMORY, "no memory for the loss");
    }
    for (size_t first = 0; first < n && !st && !hs__answer_cancelled(a); first += at_once)
        st = find_some(a, first, n - first < at_once ? n - first : at_once, logits, l->nats + first, err);
    free(logits);
    l->n = n;
    l->of_baseline = a->capture == a->baseline;
    l->mean = mean_of(l->nats, n);
    return st;
}

/* ---- writing ---- */

static void loss_write_json(hs_buffer *b, const hs__answer *a, const void *result)
{
    const loss *l = result;
    hs_buffer_text(b, "{\"mean\":");
    hs__json_float(b, l->mean, (int)a->analysis->digits);
    hs__json_key(b, "tokens");
    hs__json_floats(b, l->nats, l->n, (int)a->analysis->digits);
    hs_buffer_text(b, "}");
}

static void loss_add_arrays(hs_arrays *arrays, const hs__answer *a, const void *result)
{
    const loss *l = result;
    (void)a;
    hs_arrays_add_floats(arrays, l->of_baseline ? "changes_loss_mean" : "loss_mean", &l->mean, 0, 0, 0);
    hs_arrays_add_floats(arrays, l->of_baseline ? "changes_loss" : "loss", l->nats, 1, l->n, 0);
}

static size_t loss_json_bytes_max(const hs__measures *m)
{
    return 64 + m->n_tokens * m->number;
}

static size_t loss_array_bytes_max(const hs__measures *m)
{
    return 4 * m->n_tokens;
}

const hs__structure hs__structure_loss = {
    .compute = loss_compute,
    .destroy = free,
    .write_json = loss_write_json,
    .add_arrays = loss_add_arrays,
    .json_bytes_max = loss_json_bytes_max,
    .array_bytes_max = loss_array_bytes_max,
};
