/* output_tasks.c - outputs of task heads: classes, answers and the sentence vector. */
#include "api/outputs/structures.h"

#include "engine/analysis/predictions.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ==== classes ==== */

/* Classes of a text or of its tokens, and whether a text follows another: the logits of a
 * fine-tuned checkpoint's head. */

typedef struct classes {
    const hs_task_head *head;
    size_t n_rows, n_classes; /* rows: the text, or its tokens */
    bool has_probabilities;
    size_t n_predicted;
    int32_t *predicted;   /* [n_predicted]: classes; after the probabilities */
    float *probabilities; /* [n_rows][n_classes], after the logits */
    float logits[];       /* [n_rows][n_classes] */
} classes;

/* ---- computing ---- */

static void find_probabilities(classes *c)
{
    const size_t n = c->n_classes;
    if (c->head->problem == HS_SINGLE_LABEL)
        for (size_t row = 0; row < c->n_rows; row++)
            hs_softmax(c->logits + row * n, n, c->probabilities + row * n);
    for (size_t i = 0; i < n && c->head->problem == HS_MULTI_LABEL; i++)
        c->probabilities[i] = (float)(1 / (1 + exp(-(double)c->logits[i])));
}

static int32_t most_probable(const float *logits, size_t n)
{
    size_t most = 0;
    for (size_t i = 1; i < n; i++)
        most = logits[i] > logits[most] ? i : most;
    return (int32_t)most;
}

/* Finds the classes of each row, or of several labels those of at least 0.5. A score has none. */
static void find_predicted(classes *c)
{
    const bool several = c->head->problem == HS_MULTI_LABEL && c->head->task == HS_TASK_SEQUENCE;
    for (size_t i = 0; several && i < c->n_classes; i++)
        if (c->probabilities[i] >= 0.5F)
            c->predicted[c->n_predicted++] = (int32_t)i;
    for (size_t row = 0; !several && c->has_probabilities && row < c->n_rows; row++)
        c->predicted[c->n_predicted++] = most_probable(c->logits + row * c->n_classes, c->n_classes);
}

static hs_status classify(const hs__answer *a, classes *c, hs_error *err)
{
    const size_t H = a->capture->hidden;
    const float *states = hs_capture_at(a->capture, HS_TAP_LAST_STATE, 0, 0);
    float *row = NULL;
    hs_status st = HS_OK;
    if (hs_task_head_is_pooled(c->head)) {
        row = malloc(H * sizeof *row);
        if (!row)
            return hs_fail(err, HS_NO_MEMORY, "no memory for classes");
        st = hs_engine_pool(a->model->engine, c->head, states, a->capture, a->request->n_threads, row, err);
    }
    if (!st)
        st = hs_engine_classify(a->model->engine, c->head, row ? row : states, c->n_rows,
                                a->request->n_threads, c->logits, err);
    free(row);
    return st;
}

static hs_status compute_head(const hs__answer *a, const hs_task_head *head, void **ret_result, hs_error *err)
{
    const size_t n_rows = hs_task_head_is_pooled(head) ? 1 : a->capture->n_tokens;
    const size_t n = n_rows * head->n_classes;
    const size_t n_predicted = n_rows > head->n_classes ? n_rows : head->n_classes;
    classes *c = malloc(sizeof *c + 2 * n * sizeof(float) + n_predicted * sizeof *c->predicted);
    if (!c)
        return hs_fail(err, HS_NO_MEMORY, "no memory for classes");
    *c = (classes){.head = head,
                   .n_rows = n_rows,
                   .n_classes = head->n_classes,
                   .has_probabilities = head->problem != HS_REGRESSION,
                   .predicted = (void *)(c->logits + 2 * n),
                   .probabilities = c->logits + n};
    *ret_result = c;
    const hs_status st = classify(a, c, err);
    if (st)
        return st;
    find_probabilities(c);
    find_predicted(c);
    return HS_OK;
}

static hs_status classes_compute(const hs__answer *a, void **ret_result, hs_error *err)
{
    return compute_head(a, &a->model->architecture->task_head, ret_result, err);
}

static hs_status next_compute(const hs__answer *a, void **ret_result, hs_error *err)
{
    return compute_head(a, &a->model->architecture->next_sentence, ret_result, err);
}

/* ---- columns ---- */

static const hs_task_head *head_of(const hs__analysis_request *analysis)
{
    return &analysis->model->architecture->task_head;
}

static void class_task(const hs__table_row *row, hs__cell *ret)
{
    ret->text = hs_bytes_of(hs_model_task(row->answer->model->model));
}

static void class_problem(const hs__table_row *row, hs__cell *ret)
{
    ret->text = hs_bytes_of(hs_model_problem_type(row->answer->model->model));
}

static bool has_problem(const hs__analysis_request *analysis)
{
    return hs_model_problem_type(analysis->model->model);
}

static void label_text(const hs__table_row *row, hs__cell *ret)
{
    ret->text = hs_bytes_of(*(char *const *)row->item);
}

static hs__table_rows label_rows(const hs__table_row *outer, size_t l)
{
    const classes *c = outer->item;
    (void)l;
    return (hs__table_rows){c->head->labels, c->n_classes, sizeof *c->head->labels};
}

static size_t n_labels(const hs__measures *m)
{
    return m->architecture->task_head.n_classes;
}

/* Returns the bytes of all labels in JSON; *ret_longest is the longest of them. */
static size_t labels_bytes(const hs_task_head *head, size_t *ret_longest)
{
    size_t all = 0;
    *ret_longest = 0;
    for (size_t i = 0; i < head->n_classes; i++) {
        const size_t n_bytes = 6 * strlen(head->labels[i]);
        all += n_bytes;
        *ret_longest = n_bytes > *ret_longest ? n_bytes : *ret_longest;
    }
    return all;
}

static size_t labels_max(const hs__measures *m)
{
    size_t longest;
    return labels_bytes(&m->architecture->task_head, &longest);
}

static const hs__table label_table = {
    .kind = HS__TABLE_LIST,
    .columns = (const hs__table_column[]){{"", .type = HS__CELL_TEXT, .get = label_text}, {0}},
    .rows = label_rows,
    .rows_max = n_labels,
    .texts_max = labels_max};

static hs__cell_block numbers_of(const classes *c, const float *numbers)
{
    return hs_task_head_is_pooled(c->head) ? (hs__cell_block){numbers, 1, {c->n_classes}}
                                           : (hs__cell_block){numbers, 2, {c->n_rows, c->n_classes}};
}

static void class_logits(const hs__table_row *row, hs__cell *ret)
{
    const classes *c = row->item;
    ret->block = numbers_of(c, c->logits);
}

static void class_probabilities(const hs__table_row *row, hs__cell *ret)
{
    const classes *c = row->item;
    ret->block = numbers_of(c, c->probabilities);
    ret->null = !c->has_probabilities;
}

static void logits_most(const hs__measures *m, size_t ret_lengths[2])
{
    const hs_task_head *head = &m->architecture->task_head;
    const bool pooled = hs_task_head_is_pooled(head);
    ret_lengths[0] = pooled ? head->n_classes : m->n_tokens;
    ret_lengths[1] = pooled ? 0 : head->n_classes;
}

/* Returns true if one label is predicted, or none because the head gives a score. */
static bool predicts_one(const hs__analysis_request *analysis)
{
    const hs_task_head *head = head_of(analysis);
    return head->problem == HS_REGRESSION ||
           (head->task == HS_TASK_SEQUENCE && head->problem == HS_SINGLE_LABEL);
}

static bool predicts_several(const hs__analysis_request *analysis)
{
    return !predicts_one(analysis);
}

static void predicted_one(const hs__table_row *row, hs__cell *ret)
{
    const classes *c = row->item;
    ret->null = c->n_predicted == 0;
    if (!ret->null)
        ret->text = hs_bytes_of(c->head->labels[c->predicted[0]]);
}

static void predicted_text(const hs__table_row *row, hs__cell *ret)
{
    const classes *c = row->outer->item;
    ret->text = hs_bytes_of(c->head->labels[*(const int32_t *)row->item]);
}

static hs__table_rows predicted_rows(const hs__table_row *outer, size_t l)
{
    const classes *c = outer->item;
    (void)l;
    return (hs__table_rows){c->predicted, c->n_predicted, sizeof *c->predicted};
}

static size_t predicted_max(const hs__measures *m)
{
    const hs_task_head *head = &m->architecture->task_head;
    return head->task == HS_TASK_SEQUENCE ? head->n_classes : m->n_tokens;
}

static size_t predicted_texts_max(const hs__measures *m)
{
    const hs_task_head *head = &m->architecture->task_head;
    size_t longest, all = labels_bytes(head, &longest);
    return head->task == HS_TASK_SEQUENCE ? all : m->n_tokens * longest;
}

static const hs__table predicted_table = {
    .kind = HS__TABLE_LIST,
    .columns = (const hs__table_column[]){{"", .type = HS__CELL_TEXT, .get = predicted_text}, {0}},
    .rows = predicted_rows,
    .rows_max = predicted_max,
    .texts_max = predicted_texts_max};

/* The names of task and problem, and of one label that is predicted. */
static size_t class_texts_max(const hs__measures *m)
{
    size_t longest;
    labels_bytes(&m->architecture->task_head, &longest);
    return 128 + longest;
}

static const hs__table_column class_columns[] = {
    {"task", .type = HS__CELL_TEXT, .get = class_task},
    {"problem_type", .type = HS__CELL_TEXT, .get = class_problem, .is_answered = has_problem},
    {"labels", .type = HS__CELL_TABLE, .table = &label_table},
    {"logits", .type = HS__CELL_BLOCK, .get = class_logits, .most = logits_most},
    {"probabilities", .type = HS__CELL_BLOCK, .get = class_probabilities, .most = logits_most,
     .nullable = true},
    {"predicted", .type = HS__CELL_TEXT, .get = predicted_one, .nullable = true, .is_answered = predicts_one},
    {"predicted", .type = HS__CELL_TABLE, .table = &predicted_table, .is_answered = predicts_several},
    {0},
};

const hs__table hs__table_of_classes = {
    .kind = HS__TABLE_ONE, .arrays = "class_", .columns = class_columns, .texts_max = class_texts_max};

static void next_probability(const hs__table_row *row, hs__cell *ret)
{
    ret->number = ((const classes *)row->item)->probabilities[0];
}

static void next_logits_most(const hs__measures *m, size_t ret_lengths[2])
{
    ret_lengths[0] = m->architecture->next_sentence.n_classes;
}

static const hs__table_column next_columns[] = {
    {"logits", .type = HS__CELL_BLOCK, .get = class_logits, .most = next_logits_most},
    {"probability", .type = HS__CELL_NUMBER, .place = HS__IN_JSON, .get = next_probability},
    {0},
};

const hs__table hs__table_of_next_sentence = {
    .kind = HS__TABLE_ONE, .arrays = "next_sentence_", .columns = next_columns};

static const hs__structure classes_structure = {
    .compute = classes_compute,
    .destroy = free,
    .table = &hs__table_of_classes,
};

const hs__output hs__output_row_classes = {.taps = HS_KEEP(LAST_STATE), .structure = &classes_structure};

static const hs__structure next_sentence_structure = {
    .compute = next_compute,
    .destroy = free,
    .table = &hs__table_of_next_sentence,
};

const hs__output hs__output_row_next_sentence = {.taps = HS_KEEP(LAST_STATE),
                                                 .structure = &next_sentence_structure};

/* ==== answers ==== */

/* Answers to a question: the best spans of a passage, by the head for question answering. */

#define SPANS_MAX       5
#define SPAN_TOKENS_MAX 30

typedef struct span {
    size_t start, end; /* first and last token */
    float score, probability;
} span;

typedef struct spans {
    size_t n_tokens, n_best;
    span best[SPANS_MAX]; /* by descending score */
    float *ends;          /* [T], after the starts */
    float starts[];       /* [T] logits */
} spans;

/* ---- computing ---- */

/* Marks the tokens of the passage: those of the second text, or of the only one. Types tell given ids apart.
 */
static void mark_passage(const hs__answer *a, uint8_t *ret_inside)
{
    const hs_encoding *e = &a->text->rows;
    const bool has_pair = a->analysis->input.text_pair.bytes != NULL;
    const uint8_t *second = has_pair ? e->texts : e->types;
    bool is_second = has_pair;
    for (size_t i = 0; i < e->n_tokens && a->analysis->input.ids; i++)
        is_second |= second[i] == 1;
    for (size_t i = 0; i < e->n_tokens; i++)
        ret_inside[i] = !e->special[i] && (!is_second || second[i] == 1);
}

/* Keeps a span if it is among the best. Among equal spans the first stays ahead. */
static void offer(spans *s, span offered)
{
    size_t at = s->n_best;
    while (at > 0 && offered.score > s->best[at - 1].score)
        at--;
    if (at == SPANS_MAX)
        return;
    s->n_best += s->n_best < SPANS_MAX;
    for (size_t i = s->n_best - 1; i > at; i--)
        s->best[i] = s->best[i - 1];
    s->best[at] = offered;
}

static void find_best(spans *s, const uint8_t *inside)
{
    const size_t T = s->n_tokens;
    for (size_t start = 0; start < T; start++) {
        const size_t n = T - start < SPAN_TOKENS_MAX ? T - start : SPAN_TOKENS_MAX;
        for (size_t end = start; end < start + n && inside[start] && inside[end]; end++)
            offer(s, (span){.start = start, .end = end, .score = s->starts[start] + s->ends[end]});
    }
    const double total = hs_log_sum_exact(s->starts, inside, T) + hs_log_sum_exact(s->ends, inside, T);
    for (size_t i = 0; i < s->n_best; i++) {
        const double start = (double)s->starts[s->best[i].start], end = (double)s->ends[s->best[i].end];
        s->best[i].probability = (float)exp(start + end - total);
    }
}

/* Computes the logits into `both` [T][2] and splits them. */
static hs_status find_logits(const hs__answer *a, spans *s, float *both, hs_error *err)
{
    const hs_task_head *head = &a->model->architecture->task_head;
    const float *states = hs_capture_at(a->capture, HS_TAP_LAST_STATE, 0, 0);
    const hs_status st =
        hs_engine_classify(a->model->engine, head, states, s->n_tokens, a->request->n_threads, both, err);
    for (size_t i = 0; i < s->n_tokens && !st; i++) {
        s->starts[i] = both[2 * i];
        s->ends[i] = both[2 * i + 1];
    }
    return st;
}

static hs_status answer_compute(const hs__answer *a, void **ret_result, hs_error *err)
{
    const size_t T = a->capture->n_tokens;
    spans *s = malloc(sizeof *s + 2 * T * sizeof(float));
    float *both = malloc(2 * T * sizeof *both);
    uint8_t *inside = calloc(T, 1);
    hs_status st = HS_OK;
    *ret_result = s;
    if (s && both && inside) {
        *s = (spans){.n_tokens = T, .ends = s->starts + T};
        st = find_logits(a, s, both, err);
        mark_passage(a, inside);
        if (!st)
            find_best(s, inside);
    } else {
        st = hs_fail(err, HS_NO_MEMORY, "no memory for answers");
    }
    free(both);
    free(inside);
    return st;
}

/* ---- columns ---- */

/* Returns the text that holds the passage; bytes NULL: the request had ids or words. */
static const hs_text *passage(const hs__answer *a)
{
    return a->analysis->input.text_pair.bytes ? &a->analysis->input.text_pair : &a->analysis->input.text;
}

static void span_tokens(const hs__table_row *row, hs__cell *ret)
{
    const span *best = row->item;
    ret->range[0] = (int32_t)best->start;
    ret->range[1] = (int32_t)best->end;
}

static void span_chars(const hs__table_row *row, hs__cell *ret)
{
    const span *best = row->item;
    const hs_encoding *e = &row->answer->text->rows;
    ret->null = !passage(row->answer)->bytes;
    ret->range[0] = ret->null ? -1 : (int32_t)e->starts[best->start];
    ret->range[1] = ret->null ? -1 : (int32_t)e->ends[best->end];
}

static void span_text(const hs__table_row *row, hs__cell *ret)
{
    hs__cell chars = {.null = false};
    span_chars(row, &chars);
    ret->null = chars.null;
    if (chars.null)
        return;
    const hs_text part = hs__text_part(passage(row->answer), (size_t)chars.range[0], (size_t)chars.range[1]);
    ret->text = (hs_bytes){part.bytes, part.n_bytes};
}

static hs__table_rows span_rows(const hs__table_row *outer, size_t l)
{
    const spans *s = outer->item;
    (void)l;
    return (hs__table_rows){s->best, s->n_best, sizeof *s->best};
}

static size_t spans_max(const hs__measures *m)
{
    (void)m;
    return SPANS_MAX;
}

static size_t span_texts_max(const hs__measures *m)
{
    const hs__input *input = &m->analysis->input;
    return (size_t)SPANS_MAX * 6 * (input->text.n_bytes + input->text_pair.n_bytes);
}

static const hs__table_column span_columns[] = {
    {"tokens", .type = HS__CELL_RANGE, .place = HS__IN_ARRAYS, .get = span_tokens},
    {"start", .type = HS__CELL_POSITION, .place = HS__IN_JSON, HS__MEMBER(span, start)},
    {"end", .type = HS__CELL_POSITION, .place = HS__IN_JSON, HS__MEMBER(span, end)},
    {"score", .type = HS__CELL_NUMBER, .place = HS__IN_JSON, HS__MEMBER(span, score)},
    {"probability", .array = "probabilities", .type = HS__CELL_NUMBER, HS__MEMBER(span, probability),
     .array_last = true},
    {"chars", .type = HS__CELL_RANGE, .get = span_chars, .nullable = true},
    {"text", .type = HS__CELL_TEXT, .get = span_text, .nullable = true},
    {0},
};

static const hs__table span_table = {.kind = HS__TABLE_LIST,
                                     .arrays = "answer_",
                                     .columns = span_columns,
                                     .rows = span_rows,
                                     .rows_max = spans_max,
                                     .texts_max = span_texts_max};

static void start_logits(const hs__table_row *row, hs__cell *ret)
{
    const spans *s = row->item;
    ret->block = (hs__cell_block){s->starts, 1, {s->n_tokens}};
}

static void end_logits(const hs__table_row *row, hs__cell *ret)
{
    const spans *s = row->item;
    ret->block = (hs__cell_block){s->ends, 1, {s->n_tokens}};
}

static void span_logits_most(const hs__measures *m, size_t ret_lengths[2])
{
    ret_lengths[0] = m->n_tokens;
}

static const hs__table_column answer_columns[] = {
    {"start_logits", .type = HS__CELL_BLOCK, .get = start_logits, .most = span_logits_most},
    {"end_logits", .type = HS__CELL_BLOCK, .get = end_logits, .most = span_logits_most},
    {"best", .type = HS__CELL_TABLE, .table = &span_table},
    {0},
};

const hs__table hs__table_of_answer = {.kind = HS__TABLE_ONE, .arrays = "", .columns = answer_columns};

static const hs__structure answer_structure = {
    .compute = answer_compute,
    .destroy = free,
    .table = &hs__table_of_answer,
};

const hs__output hs__output_row_answer = {.taps = HS_KEEP(LAST_STATE), .structure = &answer_structure};

/* ==== the sentence vector ==== */

/* The sentence vector of a text. */

enum { POOLING_BYTES = 128 };

typedef struct embedding {
    size_t width;
    hs_pooling pooling;
    char ways[POOLING_BYTES]; /* their names with + between */
    float vector[];           /* [width] */
} embedding;

static void name_pooling(const hs_pooling *pooling, char ret_name[POOLING_BYTES])
{
    size_t used = 0;
    ret_name[0] = 0;
    for (size_t i = 0; i < pooling->n && used < POOLING_BYTES; i++)
        used += (size_t)snprintf(ret_name + used, POOLING_BYTES - used, "%s%s", i ? "+" : "",
                                 hs_pool_name(pooling->ways[i]));
}

static hs_status embedding_compute(const hs__answer *a, void **ret_result, hs_error *err)
{
    const hs_architecture *architecture = a->model->architecture;
    const hs_pooling pooling = hs__answer_pooling(a);
    const size_t width = hs_sentence_width(architecture, &pooling);
    embedding *e = malloc(sizeof *e + width * sizeof *e->vector);
    if (!e)
        return hs_fail(err, HS_NO_MEMORY, "no memory for a sentence vector");
    e->width = width;
    e->pooling = pooling;
    name_pooling(&pooling, e->ways);
    *ret_result = e;
    return hs_engine_embed(a->model->engine, &pooling, hs_capture_at(a->capture, HS_TAP_LAST_STATE, 0, 0),
                           a->capture->n_tokens, a->request->n_threads, e->vector, err);
}

/* ---- columns ---- */

static void embedding_pooling(const hs__table_row *row, hs__cell *ret)
{
    ret->text = hs_bytes_of(((const embedding *)row->item)->ways);
}

static void embedding_normalized(const hs__table_row *row, hs__cell *ret)
{
    const hs_architecture *architecture = row->answer->model->architecture;
    const embedding *e = row->item;
    hs_pooling uncut = e->pooling;
    uncut.n_columns = 0;
    const bool is_cut = e->width < hs_sentence_width(architecture, &uncut);
    ret->integer = e->pooling.normalized || (architecture->sentence.normalized && !is_cut);
}

static void embedding_vector(const hs__table_row *row, hs__cell *ret)
{
    const embedding *e = row->item;
    ret->block = (hs__cell_block){e->vector, 1, {e->width}};
}

static void vector_most(const hs__measures *m, size_t ret_lengths[2])
{
    const hs_pooling pooling = hs_sentence_pooling(m->architecture, &m->analysis->pooling);
    ret_lengths[0] = hs_sentence_width(m->architecture, &pooling);
}

static size_t pooling_max(const hs__measures *m)
{
    (void)m;
    return POOLING_BYTES;
}

static const hs__table_column embedding_columns[] = {
    {"pooling", .type = HS__CELL_TEXT, .get = embedding_pooling},
    {"normalized", .type = HS__CELL_FLAG, .place = HS__IN_JSON, .get = embedding_normalized},
    {"first_token", .type = HS__CELL_POSITION, .place = HS__IN_JSON, HS__MEMBER(embedding, pooling.first)},
    {"vector", .array = "", .type = HS__CELL_BLOCK, .get = embedding_vector, .most = vector_most},
    {0},
};

const hs__table hs__table_of_embedding = {
    .kind = HS__TABLE_ONE, .arrays = "embedding", .columns = embedding_columns, .texts_max = pooling_max};

static const hs__structure embedding_structure = {
    .compute = embedding_compute,
    .destroy = free,
    .table = &hs__table_of_embedding,
};

const hs__output hs__output_row_embedding = {.taps = HS_KEEP(LAST_STATE),
                                             .structure = &embedding_structure,
                                             .not_decoder =
                                                 "the vector of a text is made of its encoder's states"};
