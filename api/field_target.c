/* field_target.c - reads and checks the field target, and finds the predicted class that stands for it. */
#include "api/field_target.h"

#include "api/field_values.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct reading {
    const hs__served_model *model;
    const hs_architecture *architecture;
    const json_t *object;
    hs__analysis_request *analysis;
    hs_target *target;
    hs__problem *problem;
} reading;

static int refuse(const reading *r, const char *name, const json_t *value, const char *must)
{
    char pointer[64];
    snprintf(pointer, sizeof pointer, "/target/%s", name);
    return hs__refuse_value(r->problem, pointer, value, must);
}

/* Refuses a target whose head the checkpoint lacks. */
static int refuse_head(const reading *r, const char *name, const char *head)
{
    const char *task = hs_model_task(r->model->model);
    char pointer[64];
    snprintf(pointer, sizeof pointer, "/target/%s", name);
    return hs__refuse(
        r->problem, 422, pointer,
        "target: the checkpoint of %s has no %s: its task is %s; task in %s shows which models have "
        "one",
        r->model->name, head, task ? task : "none", r->model->list_command);
}

/* ---- members ---- */

static int read_position(const reading *r)
{
    const json_t *value = json_object_get(r->object, "position");
    const size_t last = r->model->shape->n_positions - 1;
    if (!value)
        return hs__refuse(r->problem, 422, "/target",
                          "target needs a position: the number of the token that it is read at, from 0");
    if (!hs__is_integer(value, 0, (double)last)) {
        char must[64];
        snprintf(must, sizeof must, "an integer from 0 to %zu", last);
        return refuse(r, "position", value, must);
    }
    r->target->position = (size_t)json_number_value(value);
    return 0;
}

/* Writes "one of \"a\", \"b\", ..., or a number from 0 to n - 1", with as many labels as fit. */
static void list_labels(const hs_task_head *head, char *ret, size_t n_ret)
{
    size_t used = (size_t)snprintf(ret, n_ret, "an integer from 0 to %zu", head->n_classes - 1);
    for (size_t i = 0; head->labels && i < head->n_classes; i++) {
        const size_t n = strlen(head->labels[i]) + sizeof ", or \"\"";
        if (used + n + sizeof ", ..." >= n_ret) {
            snprintf(ret + used, n_ret - used, ", ...");
            return;
        }
        used += (size_t)snprintf(ret + used, n_ret - used, "%s\"%s\"", i ? ", " : ", or ", head->labels[i]);
    }
}

static int read_class(const reading *r, const json_t *value)
{
    const hs_task_head *head = &r->architecture->task_head;
    if (head->task != HS_TASK_SEQUENCE && head->task != HS_TASK_TOKENS)
        return refuse_head(r, "class", "classes");
    r->target->kind = HS_TARGET_CLASS;
    r->target->class = head->n_classes;
    for (size_t i = head->n_classes; i-- > 0 && json_is_string(value);) /* of equal labels the first */
        if (strlen(head->labels[i]) == json_string_length(value) &&
            strcmp(head->labels[i], json_string_value(value)) == 0)
            r->target->class = i;
    if (hs__is_integer(value, 0, (double)head->n_classes - 1))
        r->target->class = (size_t)json_number_value(value);
    if (r->target->class == head->n_classes) {
        char must[400];
        list_labels(head, must, sizeof must);
        return refuse(r, "class", value, must);
    }
    return head->task == HS_TASK_TOKENS ? read_position(r) : 0;
}

/* Returns the id of a token of the vocabulary, given by its text or its number; -1 if there is none. */
static int32_t find_token(const reading *r, const json_t *value)
{
    if (json_is_string(value))
        return hs_tokenizer_id(hs_model_tokenizer(r->model->model), json_string_value(value),
                               json_string_length(value));
    return hs__is_integer(value, 0, (double)r->model->shape->vocab_size - 1)
               ? (int32_t)json_number_value(value)
               : -1;
}

static int read_tokens(const reading *r, const char *name, const json_t *first, const json_t *second,
                       const json_t *value)
{
    if (!r->architecture->predictor.decoder.data)
        return refuse_head(r, name, "head that predicts tokens");
    *r->target = (hs_target){.kind = HS_TARGET_TOKENS, .tokens = {find_token(r, first), -1}};
    if (second)
        r->target->tokens[1] = find_token(r, second);
    if (r->target->tokens[0] < 0 || (second && r->target->tokens[1] < 0))
        return refuse(r, name, value,
                      second ? "a list of two tokens of the model's vocabulary, by text or id"
                             : "a token of the model's vocabulary, by text or id");
    return read_position(r);
}

static int read_token(const reading *r, const json_t *value)
{
    return read_tokens(r, "token", value, NULL, value);
}

static int read_two_tokens(const reading *r, const json_t *value)
{
    if (json_array_size(value) != 2)
        return refuse(r, "tokens", value, "a list of two tokens of the model's vocabulary, by text or id");
    return read_tokens(r, "tokens", json_array_get(value, 0), json_array_get(value, 1), value);
}

static int read_span(const reading *r, const json_t *value)
{
    const double last = (double)r->model->shape->n_positions - 1;
    const json_t *start = json_array_get(value, 0), *end = json_array_get(value, 1);
    if (r->architecture->task_head.task != HS_TASK_SPAN)
        return refuse_head(r, "span", "head for question answering");
    if (json_array_size(value) != 2 || !hs__is_integer(start, 0, last) ||
        !hs__is_integer(end, json_number_value(start), last))
        return refuse(r, "span", value, "a list of two positions, the first and last token of the span");
    *r->target = (hs_target){.kind = HS_TARGET_SPAN,
                             .span = {(size_t)json_number_value(start), (size_t)json_number_value(end)}};
    return 0;
}

static int read_loss(const reading *r, const json_t *value)
{
    if (!json_is_true(value))
        return refuse(r, "loss", value, "true");
    if (!r->architecture->predictor.next || !r->architecture->predictor.decoder.data)
        return refuse_head(r, "loss", "head that predicts the next token");
    r->target->kind = HS_TARGET_LOSS;
    return 0;
}

static int read_embedding(const reading *r, const json_t *value)
{
    if (!json_is_true(value))
        return refuse(r, "embedding", value, "true");
    r->target->kind = HS_TARGET_VECTOR;
    r->target->pooling = *hs_sentence_pooling(r->architecture, &r->analysis->pooling);
    return 0;
}

static int read_cosine(const reading *r, const json_t *value)
{
    const hs_pooling *pooling = hs_sentence_pooling(r->architecture, &r->analysis->pooling);
    const size_t n = hs_sentence_width(r->architecture, pooling);
    char must[128];
    snprintf(must, sizeof must, "a list of %zu numbers, not all 0: the sentence vector of another text", n);
    if (!json_is_array(value) || json_array_size(value) != n)
        return refuse(r, "cosine", value, must);
    float *vector = r->analysis->target_vector = malloc(n * sizeof *vector);
    if (!vector)
        return hs__refuse(r->problem, 500, NULL, "no memory for a target");
    bool points = false;
    for (size_t i = 0; i < n; i++) {
        const json_t *number = json_array_get(value, i);
        vector[i] = (float)json_number_value(number);
        if (!json_is_number(number) || !isfinite(vector[i]))
            return refuse(r, "cosine", value, must);
        points |= vector[i] != 0;
    }
    *r->target = (hs_target){.kind = HS_TARGET_COSINE, .pooling = *pooling, .vector = vector};
    return points ? 0 : refuse(r, "cosine", value, must);
}

static const struct {
    const char *name;
    int (*read)(const reading *r, const json_t *value);
    bool positioned; /* "position" may stand beside it */
} members[] = {
    {"class", read_class, true},    {"token", read_token, true}, {"tokens", read_two_tokens, true},
    {"span", read_span, false},     {"loss", read_loss, false},  {"embedding", read_embedding, false},
    {"cosine", read_cosine, false},
};
#define N_MEMBERS (sizeof members / sizeof *members)

int hs__target_read(const hs__served_model *model, const json_t *value, hs__analysis_request *analysis,
                    hs__problem *problem)
{
    const reading r = {model,  hs_model_architecture(model->model), value, analysis, &analysis->target,
                       problem};
    size_t found = N_MEMBERS;
    for (size_t i = 0; i < N_MEMBERS && found == N_MEMBERS; i++)
        if (json_object_get(value, members[i].name))
            found = i;
    const bool has_position = json_object_get(value, "position") != NULL;
    if (found == N_MEMBERS || json_object_size(value) != 1 + (size_t)has_position ||
        (has_position && !members[found].positioned))
        return hs__refuse(
            problem, 422, "/target",
            "target must be an object with one of class, token, tokens, span, loss, embedding and "
            "cosine; "
            "class of a token, token and tokens also take position");
    if (has_position && members[found].read == read_class &&
        r.architecture->task_head.task == HS_TASK_SEQUENCE)
        return hs__refuse(problem, 422, "/target/position",
                          "target: the classes of %s are of the whole text: leave position out", model->name);
    return members[found].read(&r, json_object_get(value, members[found].name));
}

int hs__target_check(const hs__analysis_request *analysis, size_t n_tokens, hs__problem *problem)
{
    const hs_target *target = &analysis->target;
    const size_t position = target->kind == HS_TARGET_SPAN ? target->span[1] : target->position;
    if (position >= n_tokens)
        return hs__refuse(
            problem, 422, target->kind == HS_TARGET_SPAN ? "/target/span" : "/target/position",
            "target: position %zu is outside the text, which has %zu tokens: allowed are 0 to %zu", position,
            n_tokens, n_tokens - 1);
    if (target->kind == HS_TARGET_LOSS && n_tokens < 2)
        return hs__refuse(problem, 422, "/target/loss", "target: a text of one token has no loss");
    return 0;
}

bool hs__target_exists(const hs__analysis_request *analysis, const hs_architecture *architecture)
{
    return analysis->target.kind != HS_TARGET_NONE || architecture->task_head.task == HS_TASK_SEQUENCE;
}

/* Finds the class with the largest logit. */
static hs_status find_class(const hs__answer *a, const float *states, size_t *ret_class, hs_error *err)
{
    const hs_architecture *architecture = hs_model_architecture(a->model->model);
    const hs_task_head *head = &architecture->task_head;
    const size_t H = architecture->shape.hidden;
    float *row = malloc((H + head->n_classes) * sizeof *row);
    if (!row)
        return hs_fail(err, HS_NO_MEMORY, "no memory for a target");
    float *logits = row + H;
    const size_t n_threads = a->request->n_threads;
    hs_status st = hs_engine_pool(a->model->engine, head, states, a->capture, n_threads, row, err);
    if (!st)
        st = hs_engine_classify(a->model->engine, head, row, 1, n_threads, logits, err);
    *ret_class = 0;
    for (size_t i = 1; i < head->n_classes && !st; i++)
        *ret_class = logits[i] > logits[*ret_class] ? i : *ret_class;
    free(row);
    return st;
}

hs_status hs__target_find(const hs__answer *a, const float *states, hs_target *ret_target, hs_error *err)
{
    *ret_target = a->analysis->target;
    ret_target->pooling.first = hs__answer_pooling(a).first;
    if (ret_target->kind || !hs__target_exists(a->analysis, hs_model_architecture(a->model->model)))
        return HS_OK;
    ret_target->kind = HS_TARGET_CLASS;
    return states ? find_class(a, states, &ret_target->class, err) : HS_OK;
}
