/* target.c - reads the object target: the number of the model that effects and attributions follow. */
#include "api/request/fields.h"

#include "engine/analysis/predictions.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In the order in which they are looked for. Those up to LOG_PROBABILITY also take POSITION. */
enum {
    CLASS,
    TOKEN,
    TOKENS,
    PROBABILITY,
    LOG_PROBABILITY,
    SPAN,
    LOSS,
    EMBEDDING,
    COSINE,
    POSITION,
    N_TARGET_MEMBERS
};
static const hs__row target_members[N_TARGET_MEMBERS];

static const hs_architecture *architecture_of(const hs__reading *r)
{
    return r->model->architecture;
}

/* Refuses a target whose head the checkpoint lacks. */
static int refuse_head(const hs__reading *r, const char *head)
{
    const char *task = hs_model_task(r->model->model);
    return hs__refuse(
        r->problem, 422, r->pointer,
        "target: the checkpoint of %s has no %s: its task is %s; task in %s shows which models have one",
        r->model->name, head, task ? task : "none", r->model->list_command);
}

/* Reads the position beside a member. */
static int read_position(const hs__reading *beside)
{
    char pointer[64], must[64];
    const hs__reading r =
        hs__reading_member(beside->object, &target_members[POSITION], beside->into, pointer);
    const size_t last = r.model->shape->n_positions - 1;
    if (!r.value)
        return hs__refuse(r.problem, 422, r.object->pointer,
                          "target needs a position: the number of the token that it is read at, from 0");
    snprintf(must, sizeof must, "an integer from 0 to %zu", last);
    if (!hs__is_integer(r.value, 0, (double)last))
        return hs__reading_refuse(&r, must);
    r.analysis->target.position = (size_t)json_number_value(r.value);
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

static int read_class(const hs__reading *r)
{
    const hs_task_head *head = &architecture_of(r)->task_head;
    if (head->task != HS_TASK_SEQUENCE && head->task != HS_TASK_TOKENS)
        return refuse_head(r, "classes");
    r->analysis->target.kind = HS_TARGET_CLASS;
    r->analysis->target.class = head->n_classes;
    for (size_t i = head->n_classes; i-- > 0 && json_is_string(r->value);) /* of equal labels the first */
        if (strlen(head->labels[i]) == json_string_length(r->value) &&
            strcmp(head->labels[i], json_string_value(r->value)) == 0)
            r->analysis->target.class = i;
    if (hs__is_integer(r->value, 0, (double)head->n_classes - 1))
        r->analysis->target.class = (size_t)json_number_value(r->value);
    if (r->analysis->target.class == head->n_classes) {
        char must[400];
        list_labels(head, must, sizeof must);
        return hs__reading_refuse(r, must);
    }
    return head->task == HS_TASK_TOKENS ? read_position(r) : 0;
}

/* Returns the id of a token of the vocabulary, given by its text or its number; -1 if there is none. */
static int32_t find_token(const hs__reading *r, const json_t *value)
{
    if (json_is_string(value))
        return hs_tokenizer_id(hs_model_tokenizer(r->model->model), json_string_value(value),
                               json_string_length(value));
    return hs__is_integer(value, 0, (double)r->model->shape->vocab_size - 1)
               ? (int32_t)json_number_value(value)
               : -1;
}

/* Reads the tokens of a target of this kind, and its position. second is NULL for one token. */
static int find_tokens(const hs__reading *r, hs_target_kind kind, const json_t *first, const json_t *second,
                       const char *must)
{
    hs_target *target = &r->analysis->target;
    if (!architecture_of(r)->predictor.decoder.data)
        return refuse_head(r, "head that predicts tokens");
    *target = (hs_target){.kind = kind, .tokens = {find_token(r, first), -1}};
    if (second)
        target->tokens[1] = find_token(r, second);
    if (target->tokens[0] < 0 || (second && target->tokens[1] < 0))
        return hs__reading_refuse(r, must);
    return read_position(r);
}

static int read_token(const hs__reading *r)
{
    return find_tokens(r, HS_TARGET_TOKENS, r->value, NULL,
                       "a token of the model's vocabulary, by text or id");
}

static int read_probability(const hs__reading *r)
{
    return find_tokens(r, HS_TARGET_PROBABILITY, r->value, NULL,
                       "a token of the model's vocabulary, by text or id");
}

static int read_log_probability(const hs__reading *r)
{
    return find_tokens(r, HS_TARGET_LOG_PROBABILITY, r->value, NULL,
                       "a token of the model's vocabulary, by text or id");
}

static int read_two_tokens(const hs__reading *r)
{
    static const char must[] = "a list of two tokens of the model's vocabulary, by text or id";
    if (json_array_size(r->value) != 2)
        return hs__reading_refuse(r, must);
    return find_tokens(r, HS_TARGET_TOKENS, json_array_get(r->value, 0), json_array_get(r->value, 1), must);
}

static int read_span(const hs__reading *r)
{
    const double last = (double)r->model->shape->n_positions - 1;
    const json_t *start = json_array_get(r->value, 0), *end = json_array_get(r->value, 1);
    if (architecture_of(r)->task_head.task != HS_TASK_SPAN)
        return refuse_head(r, "head for question answering");
    if (json_array_size(r->value) != 2 || !hs__is_integer(start, 0, last) ||
        !hs__is_integer(end, json_number_value(start), last))
        return hs__reading_refuse(r, "a list of two positions, the first and last token of the span");
    r->analysis->target = (hs_target){
        .kind = HS_TARGET_SPAN, .span = {(size_t)json_number_value(start), (size_t)json_number_value(end)}};
    return 0;
}

static int read_loss(const hs__reading *r)
{
    if (!json_is_true(r->value))
        return hs__reading_refuse(r, "true");
    if (!architecture_of(r)->predictor.next || !architecture_of(r)->predictor.decoder.data)
        return refuse_head(r, "head that predicts the next token");
    r->analysis->target.kind = HS_TARGET_LOSS;
    return 0;
}

static int read_embedding(const hs__reading *r)
{
    if (!json_is_true(r->value))
        return hs__reading_refuse(r, "true");
    r->analysis->target.kind = HS_TARGET_VECTOR;
    r->analysis->target.pooling = hs_sentence_pooling(architecture_of(r), &r->analysis->pooling);
    return 0;
}

static int read_cosine(const hs__reading *r)
{
    const hs_pooling pooling = hs_sentence_pooling(architecture_of(r), &r->analysis->pooling);
    const size_t n = hs_sentence_width(architecture_of(r), &pooling);
    char must[128];
    snprintf(must, sizeof must, "a list of %zu numbers, not all 0: the sentence vector of another text", n);
    if (!json_is_array(r->value) || json_array_size(r->value) != n)
        return hs__reading_refuse(r, must);
    float *vector = r->analysis->target_vector = malloc(n * sizeof *vector);
    if (!vector)
        return hs__refuse_memory(r->problem, "no memory for a target");
    bool points = false;
    for (size_t i = 0; i < n; i++) {
        const json_t *number = json_array_get(r->value, i);
        vector[i] = (float)json_number_value(number);
        if (!json_is_number(number) || !isfinite(vector[i]))
            return hs__reading_refuse(r, must);
        points |= vector[i] != 0;
    }
    r->analysis->target = (hs_target){.kind = HS_TARGET_COSINE, .pooling = pooling, .vector = vector};
    return points ? 0 : hs__reading_refuse(r, must);
}

static const hs__row target_members[N_TARGET_MEMBERS] = {
    [CLASS] = {.field = {.name = "class"}, .read = read_class},
    [TOKEN] = {.field = {.name = "token"}, .read = read_token},
    [TOKENS] = {.field = {.name = "tokens"}, .read = read_two_tokens},
    [PROBABILITY] = {.field = {.name = "probability"}, .read = read_probability},
    [LOG_PROBABILITY] = {.field = {.name = "log_probability"}, .read = read_log_probability},
    [SPAN] = {.field = {.name = "span"}, .read = read_span},
    [LOSS] = {.field = {.name = "loss"}, .read = read_loss},
    [EMBEDDING] = {.field = {.name = "embedding"}, .read = read_embedding},
    [COSINE] = {.field = {.name = "cosine"}, .read = read_cosine},
    [POSITION] = {.field = {.name = "position"}},
};

int hs__read_target(const hs__reading *of_request)
{
    hs__reading own = *of_request;
    own.model = hs__target_model(own.analysis);
    const hs__reading *r = &own;
    const json_t *position = json_object_get(r->value, target_members[POSITION].field.name);
    char pointer[64], names[128];
    size_t found = 0;
    while (found < POSITION && !json_object_get(r->value, target_members[found].field.name))
        found++;
    if (found == POSITION || json_object_size(r->value) != 1 + (size_t)(position != NULL) ||
        (position && found > LOG_PROBABILITY))
        return hs__refuse(r->problem, 422, r->pointer,
                          "target must be an object with one of %s; class of a token, token, tokens, "
                          "probability and log_probability also take position",
                          hs__member_names(target_members, POSITION, " and ", names, sizeof names));
    const hs__reading member = hs__reading_member(r, &target_members[found], r->analysis, pointer);
    if (position && found == CLASS && architecture_of(r)->task_head.task == HS_TASK_SEQUENCE) {
        hs__reading_member(r, &target_members[POSITION], r->analysis, pointer);
        return hs__refuse(r->problem, 422, pointer,
                          "target: the classes of %s are of the whole text: leave position out",
                          r->model->name);
    }
    return target_members[found].read(&member);
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
