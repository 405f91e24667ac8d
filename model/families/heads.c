/* heads.c - reads from config.json which task head a fine-tuned checkpoint has, and its labels.
 *
 * `architectures` names the class, whose suffix is the task. id2label names the classes. Without it there are
 * num_labels classes, by default 2, with HuggingFace's names LABEL_0, LABEL_1, ... */
#include "model/families/family.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const hs__head_names hs__pooler_head = {
    .dense = "pooler.dense", .dense_in_base = true, .activation = HS_TANH, .output = "classifier"};
const hs__head_names hs__roberta_head = {
    .dense = "classifier.dense", .activation = HS_TANH, .output = "classifier.out_proj"};
const hs__head_names hs__classifier_head = {.output = "classifier"};
const hs__head_names hs__score_head = {.output = "score", .output_may_lack_bias = true, .pool = HS_POOL_LAST};
const hs__head_names hs__span_head = {.output = "qa_outputs"};
const hs__head_names hs__next_sentence_head = {
    .dense = "pooler.dense", .dense_in_base = true, .activation = HS_TANH, .output = "cls.seq_relationship"};

const hs__head_names *hs__heads_names(const hs__family *family, hs_head_task task)
{
    const hs__head_names *const names[] = {
        [HS_TASK_NONE] = NULL,
        [HS_TASK_SEQUENCE] = family->sequence,
        [HS_TASK_TOKENS] = family->tokens,
        [HS_TASK_SPAN] = family->span,
        [HS_TASK_NEXT_SENTENCE] = family->next_sentence,
    };
    return names[task];
}

/* Returns the task of the first class in `architectures` that has one. */
static hs_head_task find_task(const hs__config *config, const hs__family *family)
{
    static const char *const suffixes[] = {
        [HS_TASK_SEQUENCE] = "ForSequenceClassification",
        [HS_TASK_TOKENS] = "ForTokenClassification",
        [HS_TASK_SPAN] = "ForQuestionAnswering",
        [HS_TASK_NEXT_SENTENCE] = "ForNextSentencePrediction",
    };
    const json_t *classes = json_object_get(config->keys, "architectures");
    for (size_t i = 0; i < json_array_size(classes); i++) {
        const char *name = json_string_value(json_array_get(classes, i));
        for (size_t task = HS_TASK_SEQUENCE; name && task <= HS_TASK_NEXT_SENTENCE; task++)
            if (hs_ends_with(name, suffixes[task]) && hs__heads_names(family, (hs_head_task)task))
                return (hs_head_task)task;
    }
    return HS_TASK_NONE;
}

/* Writes the label of a class, at most n_ret bytes with the NUL. Returns its length, or -1 if it is invalid.
 * A label may be an integer. */
static int label_write(const json_t *id2label, size_t class, char *ret, size_t n_ret)
{
    char key[24];
    snprintf(key, sizeof key, "%zu", class);
    const json_t *value = json_object_get(id2label, key);
    if (json_is_integer(value))
        return snprintf(ret, n_ret, "%lld", (long long)json_integer_value(value));
    if (!id2label)
        return snprintf(ret, n_ret, "LABEL_%zu", class);
    const bool valid = json_is_string(value) && json_string_length(value) <= HS_LABEL_BYTES_MAX &&
                       !memchr(json_string_value(value), '\0', json_string_length(value));
    return valid ? snprintf(ret, n_ret, "%s", json_string_value(value)) : -1;
}

/* Copies the labels into one block: the pointers, then the texts. */
static void read_labels(hs__config *config, const json_t *id2label, hs_task_head *head)
{
    const size_t n = head->n_classes;
    size_t n_bytes = n * sizeof *head->labels;
    for (size_t i = 0; i < n; i++) {
        const int length = label_write(id2label, i, NULL, 0);
        if (length < 0) {
            hs__config_refuse(config,
                              "id2label must name every class from \"0\" to \"%zu\" with a string of at most "
                              "%d bytes; \"%zu\" is missing or something else",
                              n - 1, HS_LABEL_BYTES_MAX, i);
            return;
        }
        n_bytes += (size_t)length + 1;
    }
    head->labels = malloc(n_bytes);
    if (!head->labels) {
        config->status = hs_fail(config->err, HS_NO_MEMORY, "out of memory");
        return;
    }
    char *text = (char *)(head->labels + n), *end = (char *)head->labels + n_bytes;
    for (size_t i = 0; i < n; i++) {
        head->labels[i] = text;
        text += label_write(id2label, i, text, (size_t)(end - text)) + 1;
    }
}

static void read_classes(hs__config *config, hs_task_head *head)
{
    const json_t *id2label = json_object_get(config->keys, "id2label");
    if (json_is_null(id2label))
        id2label = NULL;
    if (id2label && (!json_is_object(id2label) || json_object_size(id2label) < 1 ||
                     json_object_size(id2label) > HS_LABELS_MAX)) {
        hs__config_refuse(config, "id2label must be an object with 1 to %d labels", HS_LABELS_MAX);
        return;
    }
    head->n_classes =
        id2label ? json_object_size(id2label) : hs__config_size_or(config, "num_labels", 1, HS_LABELS_MAX, 2);
    if (!config->status)
        read_labels(config, id2label, head);
}

static void read_problem(hs__config *config, hs_task_head *head)
{
    static const char *const names[] = {[HS_SINGLE_LABEL] = "single_label_classification",
                                        [HS_MULTI_LABEL] = "multi_label_classification",
                                        [HS_REGRESSION] = "regression"};
    const char *text = hs__config_text(config, "problem_type");
    head->problem = head->n_classes == 1 ? HS_REGRESSION : HS_SINGLE_LABEL;
    for (size_t i = 0; text && i < sizeof names / sizeof *names; i++)
        if (strcmp(text, names[i]) == 0) {
            head->problem = (hs_problem_type)i;
            return;
        }
    if (text)
        hs__config_refuse(config,
                          "problem_type must be null, \"regression\", \"single_label_classification\" or "
                          "\"multi_label_classification\"; it is \"%s\"",
                          text);
}

static void read_pooling(hs__config *config, const hs__head_names *names, hs_task_head *head)
{
    const char *first = names->may_pool_late ? "bos" : "cls";
    const char *pooling = hs__config_text(config, names->pooling_key);
    if (!pooling)
        pooling = names->may_pool_late ? "late" : first;
    head->pools_late = names->may_pool_late && strcmp(pooling, "late") == 0;
    if (head->pools_late || strcmp(pooling, "mean") == 0)
        head->pool = HS_POOL_MEAN;
    else if (strcmp(pooling, first) != 0)
        hs__config_refuse(config, "%s must be \"%s\"%s or \"mean\"; it is \"%s\"", names->pooling_key, first,
                          names->may_pool_late ? ", \"late\"" : "", pooling);
}

/* Returns the id of padding, or -1. No token has an id that is out of range, such as the -1 of some configs.
 */
static int32_t read_padding(const hs__config *config)
{
    const json_t *value = json_object_get(config->keys, "pad_token_id");
    const json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
    return id >= 0 && id < HS_VOCAB_MAX ? (int32_t)id : -1;
}

static void read_shape(hs__config *config, const hs__head_names *names, hs_task_head *head)
{
    head->activation = names->activation;
    if (names->activation_key)
        head->activation = hs__config_activation(config, names->activation_key, names->activation);
    head->pool = names->pool;
    head->padding_id = read_padding(config);
    if (names->pooling_key)
        read_pooling(config, names, head);
}

void hs__heads_configure(hs__config *config, const hs__family *family, hs_architecture *architecture)
{
    hs_task_head *head = &architecture->task_head;
    if (config->status)
        return;
    const hs_head_task task = find_task(config, family);
    if (task == HS_TASK_NONE || task == HS_TASK_NEXT_SENTENCE) {
        architecture->next_sentence.task = task; /* else the tensors decide */
        return;
    }
    head->task = task;
    read_shape(config, hs__heads_names(family, task), head);
    if (task == HS_TASK_SPAN) {
        head->n_classes = 2;
        return;
    }
    read_classes(config, head);
    if (task == HS_TASK_SEQUENCE)
        read_problem(config, head);
}
