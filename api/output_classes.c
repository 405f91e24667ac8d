/* output_classes.c - classes of a text or of its tokens, and whether a text follows another: the logits of a
 * fine-tuned checkpoint's head. */
#include "api/output_structures.h"

#include "engine/analysis/predictions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

static hs_status compute(const hs__answer *a, void **ret_result, hs_error *err)
{
    return compute_head(a, &hs_model_architecture(a->model->model)->task_head, ret_result, err);
}

static hs_status compute_next(const hs__answer *a, void **ret_result, hs_error *err)
{
    return compute_head(a, &hs_model_architecture(a->model->model)->next_sentence, ret_result, err);
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

static void write_json(hs_buffer *b, const hs__answer *a, const void *result)
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

static void write_next_json(hs_buffer *b, const hs__answer *a, const void *result)
{
    const classes *c = result;
    hs_buffer_text(b, "{\"logits\":");
    write_numbers(b, a, c, c->logits);
    hs__json_key(b, "probability");
    hs__json_float(b, c->probabilities[0], (int)a->analysis->digits);
    hs_buffer_text(b, "}");
}

/* ---- arrays ---- */

static void add(hs_arrays *arrays, const classes *c, const char *name, const float *numbers)
{
    if (hs_task_head_is_pooled(c->head))
        hs_arrays_add_floats(arrays, name, numbers, 1, c->n_classes, 0);
    else
        hs_arrays_add_floats(arrays, name, numbers, 2, c->n_rows, c->n_classes);
}

static void add_arrays(hs_arrays *arrays, const hs__answer *a, const void *result)
{
    const classes *c = result;
    (void)a;
    add(arrays, c, c->of_baseline ? "changes_class_logits" : "class_logits", c->logits);
    if (c->has_probabilities)
        add(arrays, c, c->of_baseline ? "changes_class_probabilities" : "class_probabilities",
            c->probabilities);
}

static void add_next_arrays(hs_arrays *arrays, const hs__answer *a, const void *result)
{
    const classes *c = result;
    (void)a;
    add(arrays, c, c->of_baseline ? "changes_next_sentence_logits" : "next_sentence_logits", c->logits);
}

/* ---- sizes ---- */

static size_t n_logits(const hs__measures *m)
{
    const hs_task_head *head = &m->architecture->task_head;
    return head->n_classes * (hs_task_head_is_pooled(head) ? 1 : m->n_tokens);
}

/* Counts all labels twice, and the longest label for each token. */
static size_t json_bytes_max(const hs__measures *m)
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

static size_t array_bytes_max(const hs__measures *m)
{
    return 8 * n_logits(m);
}

static size_t next_bytes_max(const hs__measures *m)
{
    return 128 + 3 * m->number;
}

const hs__structure hs__structure_classes = {
    .compute = compute,
    .destroy = free,
    .write_json = write_json,
    .add_arrays = add_arrays,
    .json_bytes_max = json_bytes_max,
    .array_bytes_max = array_bytes_max,
};

const hs__structure hs__structure_next_sentence = {
    .compute = compute_next,
    .destroy = free,
    .write_json = write_next_json,
    .add_arrays = add_next_arrays,
    .json_bytes_max = next_bytes_max,
    .array_bytes_max = next_bytes_max,
};
