/* output_tasks.c - outputs of task heads: classes, answers and the sentence vector. */
#include "api/outputs/structures.h"

#include "engine/analysis/predictions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ==== classes ==== */

/* Classes of a text or of its tokens, and whether a text follows another: the logits of a
 * fine-tuned checkpoint's head. */

typedef struct classes {
    const hs_task_head *head;
    size_t n_rows, n_classes; /* rows: the text, or its tokens */
    bool of_baseline;
    bool has_probabilities;
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
    classes *c = malloc(sizeof *c + 2 * n * sizeof(float));
    if (!c)
        return hs_fail(err, HS_NO_MEMORY, "no memory for classes");
    *c = (classes){.head = head,
                   .n_rows = n_rows,
                   .n_classes = head->n_classes,
                   .of_baseline = a->capture == a->baseline,
                   .has_probabilities = head->problem != HS_REGRESSION,
                   .probabilities = c->logits + n};
    *ret_result = c;
    const hs_status st = classify(a, c, err);
    if (!st)
        find_probabilities(c);
    return st;
}

static hs_status classes_compute(const hs__answer *a, void **ret_result, hs_error *err)
{
    return compute_head(a, &a->model->architecture->task_head, ret_result, err);
}

static hs_status next_compute(const hs__answer *a, void **ret_result, hs_error *err)
{
    return compute_head(a, &a->model->architecture->next_sentence, ret_result, err);
}

/* ---- JSON ---- */

static void write_label(hs_buffer *b, const classes *c, size_t class)
{
    hs__json_string(b, c->head->labels[class], strlen(c->head->labels[class]));
}

static size_t most_probable(const float *logits, size_t n)
{
    size_t most = 0;
    for (size_t i = 1; i < n; i++)
        most = logits[i] > logits[most] ? i : most;
    return most;
}

/* Writes the predicted labels: one, a list for several labels, a list by token, or null for a score. */
static void write_predicted(hs_buffer *b, const classes *c)
{
    const bool one = c->head->task == HS_TASK_SEQUENCE;
    size_t n = 0;
    hs__json_key(b, "predicted");
    if (!c->has_probabilities) {
        hs_buffer_text(b, "null");
        return;
    }
    if (one && c->head->problem == HS_SINGLE_LABEL) {
        write_label(b, c, most_probable(c->logits, c->n_classes));
        return;
    }
    hs_buffer_text(b, "[");
    for (size_t i = 0; one && i < c->n_classes; i++)
        if (c->probabilities[i] >= 0.5F) {
            hs__json_comma(b, n++);
            write_label(b, c, i);
        }
    for (size_t row = 0; !one && row < c->n_rows; row++) {
        hs__json_comma(b, row);
        write_label(b, c, most_probable(c->logits + row * c->n_classes, c->n_classes));
    }
    hs_buffer_text(b, "]");
}

static void write_numbers(hs_buffer *b, const hs__answer *a, const classes *c, const float *numbers)
{
    const size_t lengths[] = {c->n_rows, c->n_classes};
    const size_t skipped = hs_task_head_is_pooled(c->head);
    hs__json_block(b, numbers, 2 - skipped, lengths + skipped, (int)a->analysis->digits);
}

static void write_labels(hs_buffer *b, const hs_task_head *head)
{
    hs_buffer_text(b, "[");
    for (size_t i = 0; i < head->n_classes; i++) {
        hs__json_comma(b, i);
        hs__json_string(b, head->labels[i], strlen(head->labels[i]));
    }
    hs_buffer_text(b, "]");
}

static void classes_write_json(hs_buffer *b, const hs__answer *a, const void *result)
{
    const classes *c = result;
    const char *problem = hs_model_problem_type(a->model->model);
    hs_buffer_text(b, "{\"task\":\"");
    hs_buffer_text(b, hs_model_task(a->model->model));
    hs_buffer_text(b, "\"");
    if (problem) {
        hs__json_key(b, "problem_type");
        hs_buffer_text(b, "\"");
        hs_buffer_text(b, problem);
        hs_buffer_text(b, "\"");
    }
    hs__json_key(b, "labels");
    write_labels(b, c->head);
    hs__json_key(b, "logits");
    write_numbers(b, a, c, c->logits);
    hs__json_key(b, "probabilities");
    if (c->has_probabilities)
        write_numbers(b, a, c, c->probabilities);
    else
        hs_buffer_text(b, "null");
    write_predicted(b, c);
    hs_buffer_text(b, "}");
}

static void next_write_json(hs_buffer *b, const hs__answer *a, const void *result)
{
    const classes *c = result;
    hs_buffer_text(b, "{\"logits\":");
    write_numbers(b, a, c, c->logits);
    hs__json_key(b, "probability");
    hs__json_float(b, c->probabilities[0], (int)a->analysis->digits);
    hs_buffer_text(b, "}");
}

/* ---- arrays ---- */

static void classes_add(hs_arrays *arrays, const classes *c, const char *name, const float *numbers)
{
    if (hs_task_head_is_pooled(c->head))
        hs_arrays_add_floats(arrays, name, numbers, 1, c->n_classes, 0);
    else
        hs_arrays_add_floats(arrays, name, numbers, 2, c->n_rows, c->n_classes);
}

static void classes_add_arrays(hs_arrays *arrays, const hs__answer *a, const void *result)
{
    const classes *c = result;
    (void)a;
    classes_add(arrays, c, c->of_baseline ? "changes_class_logits" : "class_logits", c->logits);
    if (c->has_probabilities)
        classes_add(arrays, c, c->of_baseline ? "changes_class_probabilities" : "class_probabilities",
                    c->probabilities);
}

static void next_add_arrays(hs_arrays *arrays, const hs__answer *a, const void *result)
{
    const classes *c = result;
    (void)a;
    classes_add(arrays, c, c->of_baseline ? "changes_next_sentence_logits" : "next_sentence_logits",
                c->logits);
}

/* ---- sizes ---- */

static size_t n_logits(const hs__measures *m)
{
    const hs_task_head *head = &m->architecture->task_head;
    return head->n_classes * (hs_task_head_is_pooled(head) ? 1 : m->n_tokens);
}

/* Counts all labels twice, and the longest label for each token. */
static size_t classes_json_bytes_max(const hs__measures *m)
{
    const hs_task_head *head = &m->architecture->task_head;
    size_t all = 0, longest = 0;
    for (size_t i = 0; i < head->n_classes; i++) {
        const size_t n_bytes = 6 * strlen(head->labels[i]) + 3;
        all += n_bytes;
        longest = n_bytes > longest ? n_bytes : longest;
    }
    return 512 + 2 * all + 2 * n_logits(m) * m->number + m->n_tokens * (longest + 8);
}

static size_t classes_array_bytes_max(const hs__measures *m)
{
    return 8 * n_logits(m);
}

static size_t next_bytes_max(const hs__measures *m)
{
    return 128 + 3 * m->number;
}

const hs__structure hs__structure_classes = {
    .compute = classes_compute,
    .destroy = free,
    .write_json = classes_write_json,
    .add_arrays = classes_add_arrays,
    .json_bytes_max = classes_json_bytes_max,
    .array_bytes_max = classes_array_bytes_max,
};

const hs__structure hs__structure_next_sentence = {
    .compute = next_compute,
    .destroy = free,
    .write_json = next_write_json,
    .add_arrays = next_add_arrays,
    .json_bytes_max = next_bytes_max,
    .array_bytes_max = next_bytes_max,
};

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
    bool of_baseline;
    span best[SPANS_MAX]; /* by descending score */
    float *ends;          /* [T], after the starts */
    float starts[];       /* [T] logits */
} spans;

/* ---- computing ---- */

/* Marks the tokens of the passage: those of the second text, or of the only one. Types tell given ids apart.
 */
static void mark_passage(const hs__answer *a, uint8_t *ret_inside)
{
    const hs_encoding *e = a->encoding;
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
        *s = (spans){.n_tokens = T, .of_baseline = a->capture == a->baseline, .ends = s->starts + T};
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

/* ---- JSON ---- */

/* Returns the text that holds the passage; bytes NULL: the request had ids or words. */
static const hs_text *passage(const hs__answer *a)
{
    return a->analysis->input.text_pair.bytes ? &a->analysis->input.text_pair : &a->analysis->input.text;
}

static void write_place(hs_buffer *b, const hs__answer *a, const span *best)
{
    const hs_text *text = passage(a);
    hs__json_key(b, "chars");
    if (!text->bytes) {
        hs_buffer_text(b, "null,\"text\":null");
        return;
    }
    const uint32_t start = a->encoding->starts[best->start], end = a->encoding->ends[best->end];
    const hs_text part = hs__text_part(text, start, end);
    hs__json_range(b, start, end);
    hs__json_key(b, "text");
    hs__json_string(b, part.bytes, part.n_bytes);
}

static void write_span(hs_buffer *b, const hs__answer *a, const span *best)
{
    hs_buffer_text(b, "{\"start\":");
    hs__json_integer(b, (int64_t)best->start);
    hs__json_key(b, "end");
    hs__json_integer(b, (int64_t)best->end);
    hs__json_key(b, "score");
    hs__json_float(b, best->score, (int)a->analysis->digits);
    hs__json_key(b, "probability");
    hs__json_float(b, best->probability, (int)a->analysis->digits);
    write_place(b, a, best);
    hs_buffer_text(b, "}");
}

static void answer_write_json(hs_buffer *b, const hs__answer *a, const void *result)
{
    const spans *s = result;
    hs_buffer_text(b, "{\"start_logits\":");
    hs__json_block(b, s->starts, 1, &s->n_tokens, (int)a->analysis->digits);
    hs__json_key(b, "end_logits");
    hs__json_block(b, s->ends, 1, &s->n_tokens, (int)a->analysis->digits);
    hs__json_key(b, "best");
    hs_buffer_text(b, "[");
    for (size_t i = 0; i < s->n_best; i++) {
        hs__json_comma(b, i);
        write_span(b, a, &s->best[i]);
    }
    hs_buffer_text(b, "]}");
}

/* ---- arrays ---- */

static void answer_add_arrays(hs_arrays *arrays, const hs__answer *a, const void *result)
{
    const spans *s = result;
    const bool old = s->of_baseline;
    hs_arrays_add_floats(arrays, old ? "changes_start_logits" : "start_logits", s->starts, 1, s->n_tokens, 0);
    hs_arrays_add_floats(arrays, old ? "changes_end_logits" : "end_logits", s->ends, 1, s->n_tokens, 0);
    int32_t *tokens = hs_arrays_add(arrays, old ? "changes_answer_tokens" : "answer_tokens", HS_ELEMENT_I4, 2,
                                    s->n_best, 2);
    int32_t *chars =
        hs_arrays_add(arrays, old ? "changes_answer_chars" : "answer_chars", HS_ELEMENT_I4, 2, s->n_best, 2);
    float *probabilities =
        hs_arrays_add(arrays, old ? "changes_answer_probabilities" : "answer_probabilities", HS_ELEMENT_F4, 1,
                      s->n_best, 0);
    const bool has_text = passage(a)->bytes != NULL;
    for (size_t i = 0; i < s->n_best && !arrays->failed; i++) {
        const span *best = &s->best[i];
        tokens[2 * i] = (int32_t)best->start;
        tokens[2 * i + 1] = (int32_t)best->end;
        chars[2 * i] = has_text ? (int32_t)a->encoding->starts[best->start] : -1;
        chars[2 * i + 1] = has_text ? (int32_t)a->encoding->ends[best->end] : -1;
        probabilities[i] = best->probability;
    }
}

/* ---- sizes ---- */

static size_t answer_json_bytes_max(const hs__measures *m)
{
    const size_t n_text = m->analysis->input.text.n_bytes + m->analysis->input.text_pair.n_bytes;
    return 64 + 2 * m->n_tokens * m->number + SPANS_MAX * (192 + 2 * m->number + 6 * n_text);
}

static size_t answer_array_bytes_max(const hs__measures *m)
{
    return 8 * m->n_tokens + SPANS_MAX * 20;
}

const hs__structure hs__structure_answer = {
    .compute = answer_compute,
    .destroy = free,
    .write_json = answer_write_json,
    .add_arrays = answer_add_arrays,
    .json_bytes_max = answer_json_bytes_max,
    .array_bytes_max = answer_array_bytes_max,
};

/* ==== the sentence vector ==== */

/* The sentence vector of a text. */

typedef struct embedding {
    size_t width;
    hs_pooling pooling;
    bool of_baseline;
    float vector[]; /* [width] */
} embedding;

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
    e->of_baseline = a->capture == a->baseline;
    *ret_result = e;
    return hs_engine_embed(a->model->engine, &pooling, hs_capture_at(a->capture, HS_TAP_LAST_STATE, 0, 0),
                           a->capture->n_tokens, a->request->n_threads, e->vector, err);
}

static void embedding_write_json(hs_buffer *b, const hs__answer *a, const void *result)
{
    const embedding *e = result;
    const bool normalized = a->model->architecture->sentence.normalized;
    hs_buffer_text(b, "{\"pooling\":\"");
    for (size_t i = 0; i < e->pooling.n; i++) {
        hs_buffer_text(b, i > 0 ? "+" : "");
        hs_buffer_text(b, hs_pool_name(e->pooling.ways[i]));
    }
    hs_buffer_text(b, normalized ? "\",\"normalized\":true" : "\",\"normalized\":false");
    hs__json_key(b, "first_token");
    hs__json_integer(b, (int64_t)e->pooling.first);
    hs__json_key(b, "vector");
    hs__json_block(b, e->vector, 1, &e->width, (int)a->analysis->digits);
    hs_buffer_text(b, "}");
}

static void embedding_add_arrays(hs_arrays *arrays, const hs__answer *a, const void *result)
{
    const embedding *e = result;
    (void)a;
    hs_arrays_add_floats(arrays, e->of_baseline ? "changes_embedding" : "embedding", e->vector, 1, e->width,
                         0);
}

static size_t width_of(const hs__measures *m)
{
    return hs_sentence_width(m->architecture, hs_sentence_pooling(m->architecture, &m->analysis->pooling));
}

static size_t embedding_json_bytes_max(const hs__measures *m)
{
    return 256 + width_of(m) * m->number;
}

static size_t embedding_array_bytes_max(const hs__measures *m)
{
    return 4 * width_of(m);
}

const hs__structure hs__structure_embedding = {
    .compute = embedding_compute,
    .destroy = free,
    .write_json = embedding_write_json,
    .add_arrays = embedding_add_arrays,
    .json_bytes_max = embedding_json_bytes_max,
    .array_bytes_max = embedding_array_bytes_max,
};
