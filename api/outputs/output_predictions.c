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
} prediction_list;

static bool predicts_next(const hs__answer *a)
{
    return a->model->architecture->predictor.next;
}

static bool is_mask(const hs__answer *a, size_t position)
{
    return a->text->rows.ids[position] == hs_tokenizer_special_ids(hs_model_tokenizer(a->model->model))->mask;
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
    return predicts_next(a) ? target_of(a, position) == a->text->rows.n_tokens : is_mask(a, position);
}

/* ---- computing ---- */

hs_status hs__positions_choose(const hs__answer *a, size_t **ret_positions, size_t *ret_n, hs_error *err)
{
    const hs__prediction_request *analysis = &a->analysis->predictions;
    const size_t T = hs__text_followed(a->text)->n_tokens;
    const bool all = a->text->reader.n_tokens || analysis->where == HS__PREDICT_ALL || predicts_next(a);
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

size_t hs__positions_at_once(const hs__answer *a, size_t n_states)
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
                logits + row * V, V, target < a->text->rows.n_tokens ? a->text->rows.ids[target] : 0,
                a->analysis->predictions.top_k, &list->items[(first + i) * list->n_states + depth]);
        }
    return st;
}

static hs_status predict(const hs__answer *a, prediction_list *list, hs_error *err)
{
    const size_t V = a->model->shape->vocab_size, H = a->capture->hidden, D = list->n_states;
    const size_t most = hs__positions_at_once(a, D), at_once = most < list->n ? most : list->n;
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
    list->n_states = a->analysis->predictions.lens ? a->model->shape->n_layers + 1 : 1;
    const hs_status st = hs__positions_choose(a, &list->positions, &list->n, err);
    if (st)
        return st;
    list->items = malloc((list->n + 1) * list->n_states * sizeof *list->items);
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

/* ---- columns ---- */

/* Find the probability and the rank of the token that the row's prediction reads, at the k-th position. Both
 * are null where there is no token to read. */
static void probability_get(const hs__table_row *row, const prediction_list *list, size_t k, hs__cell *ret)
{
    const hs_prediction *p = row->item;
    ret->number = is_unread(row->answer, list->positions[k]) ? NAN : p->probability;
}

static void rank_get(const hs__table_row *row, const prediction_list *list, size_t k, hs__cell *ret)
{
    const hs_prediction *p = row->item;
    ret->null = is_unread(row->answer, list->positions[k]);
    ret->integer = ret->null ? 0 : p->rank;
}

static void top_id(const hs__table_row *row, hs__cell *ret)
{
    ret->integer = ((const hs_prediction *)row->item)->top_ids[row->at];
}

static void top_token(const hs__table_row *row, hs__cell *ret)
{
    const hs_tokenizer *tokenizer = hs_model_tokenizer(row->answer->model->model);
    const char *token = hs_tokenizer_token(tokenizer, ((const hs_prediction *)row->item)->top_ids[row->at]);
    ret->text = (hs_bytes){token, strlen(token)};
}

static void top_probability(const hs__table_row *row, hs__cell *ret)
{
    ret->number = ((const hs_prediction *)row->item)->top_probabilities[row->at];
}

static const hs__table_column top_columns[] = {
    {"id", .type = HS__CELL_ID, .get = top_id},
    {"token", .type = HS__CELL_ENTRY, .get = top_token},
    {"probability", .type = HS__CELL_NUMBER, .get = top_probability},
    {0},
};

/* Every row is the same prediction, of which `at` numbers the token. */
static hs__table_rows top_rows(const hs__table_row *outer, size_t l)
{
    (void)l;
    return (hs__table_rows){outer->item, ((const hs_prediction *)outer->item)->n_top, 0};
}

static size_t top_max(const hs__measures *m)
{
    return m->analysis->predictions.top_k;
}

static const hs__table top_table = {
    .kind = HS__TABLE_LIST, .columns = top_columns, .rows = top_rows, .rows_max = top_max};

/* In arrays, ids and probabilities are apart. */
static const hs__table top_ids_table = {
    .kind = HS__TABLE_LIST,
    .arrays = "top_ids",
    .columns = (const hs__table_column[]){{"", .type = HS__CELL_ID, .get = top_id}, {0}},
    .rows = top_rows,
    .rows_max = top_max};

static const hs__table top_probability_table = {
    .kind = HS__TABLE_LIST,
    .arrays = "top_probability",
    .columns = (const hs__table_column[]){{"", .type = HS__CELL_NUMBER, .get = top_probability}, {0}},
    .rows = top_rows,
    .rows_max = top_max};

/* ---- of every layer ---- */

static void reading_probability(const hs__table_row *row, hs__cell *ret)
{
    probability_get(row, row->outer->outer->item, row->outer->at, ret);
}

static void reading_rank(const hs__table_row *row, hs__cell *ret)
{
    rank_get(row, row->outer->outer->item, row->outer->at, ret);
}

static const hs__table_column reading_columns[] = {
    {"probability", .type = HS__CELL_NUMBER, .get = reading_probability},
    {"rank", .type = HS__CELL_COUNT, .get = reading_rank, .nullable = true},
    {"entropy", .type = HS__CELL_NUMBER, HS__MEMBER(hs_prediction, entropy)},
    {"top", .type = HS__CELL_TABLE, .place = HS__IN_JSON, .table = &top_table},
    {"top_ids", .type = HS__CELL_TABLE, .place = HS__IN_ARRAYS, .table = &top_ids_table},
    {"top_probability", .type = HS__CELL_TABLE, .place = HS__IN_ARRAYS, .table = &top_probability_table},
    {0},
};

static hs__table_rows reading_rows(const hs__table_row *outer, size_t l)
{
    const prediction_list *list = outer->outer->item;
    (void)l;
    return (hs__table_rows){list->items + outer->at * list->n_states, list->n_states, sizeof *list->items};
}

static size_t readings_max(const hs__measures *m)
{
    return m->shape->n_layers + 1;
}

static size_t readings_count(const hs__answer *a)
{
    return a->model->shape->n_layers + 1;
}

static bool has_lens(const hs__analysis_request *analysis)
{
    return analysis->predictions.lens;
}

static const hs__table reading_table = {.kind = HS__TABLE_LIST,
                                        .arrays = "layers_",
                                        .columns = reading_columns,
                                        .rows = reading_rows,
                                        .rows_max = readings_max,
                                        .length = readings_count};

/* ---- of every position ---- */

static void prediction_position(const hs__table_row *row, hs__cell *ret)
{
    ret->integer = (int64_t)((const prediction_list *)row->outer->item)->positions[row->at];
}

static void prediction_token(const hs__table_row *row, hs__cell *ret)
{
    const hs__answer *a = row->answer;
    const size_t position = ((const prediction_list *)row->outer->item)->positions[row->at];
    ret->null = predicts_next(a) && is_unread(a, position);
    if (!ret->null)
        ret->text = hs__answer_token_bytes(a, target_of(a, position));
}

static void prediction_probability(const hs__table_row *row, hs__cell *ret)
{
    probability_get(row, row->outer->item, row->at, ret);
}

static void prediction_rank(const hs__table_row *row, hs__cell *ret)
{
    rank_get(row, row->outer->item, row->at, ret);
}

static const hs__table_column prediction_columns[] = {
    {"position", .type = HS__CELL_POSITION, .get = prediction_position},
    {"token", .type = HS__CELL_TOKEN, .get = prediction_token, .nullable = true},
    {"probability", .type = HS__CELL_NUMBER, .get = prediction_probability},
    {"rank", .type = HS__CELL_COUNT, .get = prediction_rank, .nullable = true, .array_last = true},
    {"entropy", .type = HS__CELL_NUMBER, HS__MEMBER(hs_prediction, entropy)},
    {"top", .type = HS__CELL_TABLE, .place = HS__IN_JSON, .table = &top_table},
    {"top_probability", .type = HS__CELL_TABLE, .place = HS__IN_ARRAYS, .table = &top_probability_table},
    {"top_ids", .type = HS__CELL_TABLE, .place = HS__IN_ARRAYS, .table = &top_ids_table, .array_last = true},
    {"layers", .type = HS__CELL_TABLE, .table = &reading_table, .is_answered = has_lens, .array_last = true},
    {0},
};

/* The final prediction of each position: that of the last state. */
static hs__table_rows prediction_rows(const hs__table_row *outer, size_t l)
{
    const prediction_list *list = outer->item;
    (void)l;
    return (hs__table_rows){list->items + list->n_states - 1, list->n, list->n_states * sizeof *list->items};
}

static size_t predictions_max(const hs__measures *m)
{
    const hs__prediction_request *analysis = &m->analysis->predictions;
    return analysis->where == HS__PREDICT_LISTED ? analysis->n_positions : m->n_tokens;
}

const hs__table hs__table_of_predictions = {.kind = HS__TABLE_LIST,
                                            .arrays = "predictions_",
                                            .columns = prediction_columns,
                                            .rows = prediction_rows,
                                            .rows_max = predictions_max};

static const hs__structure predictions_structure = {
    .compute = predictions_compute,
    .destroy = predictions_destroy,
    .table = &hs__table_of_predictions,
};

static unsigned choose_prediction_taps(const hs__analysis_request *analysis)
{
    return HS_KEEP(LAST_STATE) | (analysis->predictions.lens ? HS_KEEP(EVERY_STATE) : 0);
}

const hs__output hs__output_row_predictions = {
    .taps = HS_KEEP(LAST_STATE), .choose_taps = choose_prediction_taps, .structure = &predictions_structure};

/* ==== the loss ==== */

/* The loss of a text under a causal model: -ln p of every token after the first, given the
 * tokens before it. */

typedef struct loss {
    size_t n;     /* T - 1 */
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
        ret_nats[i] = (float)hs_loss(logits + i * V, V, a->text->rows.ids[first + i + 1]);
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
    const size_t n = a->text->rows.n_tokens - 1, at_once = hs__positions_at_once(a, 1);
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
    l->mean = mean_of(l->nats, n);
    return st;
}

/* ---- columns ---- */

static void loss_tokens(const hs__table_row *row, hs__cell *ret)
{
    const loss *l = row->item;
    ret->block = (hs__cell_block){l->nats, 1, {l->n}};
}

static void loss_most(const hs__measures *m, size_t ret_lengths[2])
{
    ret_lengths[0] = m->n_tokens;
}

static const hs__table_column loss_columns[] = {
    {"mean", .array = "_mean", .type = HS__CELL_NUMBER, HS__MEMBER(loss, mean)},
    {"tokens", .array = "", .type = HS__CELL_BLOCK, .get = loss_tokens, .most = loss_most},
    {0},
};

const hs__table hs__table_of_loss = {.kind = HS__TABLE_ONE, .arrays = "loss", .columns = loss_columns};

static const hs__structure loss_structure = {
    .compute = loss_compute,
    .destroy = free,
    .table = &hs__table_of_loss,
};

const hs__output hs__output_row_loss = {.taps = HS_KEEP(LAST_STATE), .structure = &loss_structure};
