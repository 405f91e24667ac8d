/* config.c - reads config.json: its keys, the sizes of a model, and the task head of a fine-tuned one. Every
 * reader of a key first checks for an earlier failure, then the type and range of its key, so that no family
 * can forget to. */
#include "model/families/family.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_NAME     "config.json"
#define POSITIONS_MIN 3 /* [CLS] a [SEP] is the shortest useful input */

void hs__config_refuse(hs__config *config, const char *format, ...)
{
    char text[sizeof config->err->text];
    va_list args;
    if (config->status)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    config->status = hs_fail(config->err, HS_BAD_MODEL, FILE_NAME ": %s", text);
}

/* Returns NULL if the key is absent or a reader has already failed. */
static const json_t *look_up(const hs__config *config, const char *key)
{
    return config->status ? NULL : json_object_get(config->keys, key);
}

size_t hs__config_size_or(hs__config *config, const char *key, size_t min, size_t max, size_t otherwise)
{
    const json_t *value = look_up(config, key);
    if (!value)
        return otherwise;
    json_int_t number = json_integer_value(value); /* 0 for anything else, refused unless 0 is allowed */
    if (json_is_integer(value) && number >= (json_int_t)min && number <= (json_int_t)max)
        return (size_t)number;
    if (json_is_integer(value))
        hs__config_refuse(config, "%s must be an integer from %zu to %zu; it is %" JSON_INTEGER_FORMAT, key,
                          min, max, number);
    else
        hs__config_refuse(config, "%s must be an integer from %zu to %zu", key, min, max);
    return min;
}

size_t hs__config_size(hs__config *config, const char *key, size_t min, size_t max)
{
    if (!look_up(config, key))
        hs__config_refuse(config, "%s is missing", key);
    return hs__config_size_or(config, key, min, max, min);
}

/* Returns true if an optional key has a value. */
static bool is_given(const hs__config *config, const char *key)
{
    const json_t *value = key ? look_up(config, key) : NULL;
    return value && !json_is_null(value);
}

/* Reads the heads of keys and values, and the width of a head, which is hidden / n_heads unless given. */
static void read_heads(hs__config *config, const hs__shape_keys *names, hs_shape *shape)
{
    if (is_given(config, names->n_kv_heads))
        shape->n_kv_heads = hs__config_size(config, names->n_kv_heads, 1, shape->n_heads);
    if (shape->n_kv_heads > 0 && shape->n_heads % shape->n_kv_heads != 0)
        hs__config_refuse(config, "%s (%zu) is not a multiple of %s (%zu)", names->n_heads, shape->n_heads,
                          names->n_kv_heads, shape->n_kv_heads);
    if (is_given(config, names->head_width)) {
        shape->head_width = hs__config_size(config, names->head_width, 1, HS_HIDDEN_MAX / shape->n_heads);
        return;
    }
    if (shape->hidden % shape->n_heads != 0)
        hs__config_refuse(config, "%s (%zu) is not a multiple of %s (%zu)", names->hidden, shape->hidden,
                          names->n_heads, shape->n_heads);
    shape->head_width = shape->hidden / shape->n_heads;
}

void hs__config_shape(hs__config *config, const hs__shape_keys *names, hs_shape *ret_shape)
{
    const size_t positions_max = names->long_texts ? (size_t)1 << 30 : HS_POSITIONS_MAX;
    hs_shape shape = {
        .n_layers = hs__config_size(config, names->n_layers, 1, HS_LAYERS_MAX),
        .n_heads = hs__config_size(config, names->n_heads, 1, HS_HEADS_MAX),
        .hidden = hs__config_size(config, names->hidden, 1, HS_HIDDEN_MAX),
        .n_positions = hs__config_size(config, names->n_positions, POSITIONS_MIN, positions_max),
        .vocab_size = hs__config_size(config, names->vocab_size, 1, HS_VOCAB_MAX),
    };
    shape.ffn = names->ffn_factor > 0 && !is_given(config, names->ffn)
                    ? names->ffn_factor * shape.hidden
                    : hs__config_size(config, names->ffn, 1, HS_FFN_MAX);
    if (shape.n_positions > HS_POSITIONS_MAX)
        shape.n_positions = HS_POSITIONS_MAX;
    read_heads(config, names, &shape);
    *ret_shape = shape;
}

double hs__config_number_or(hs__config *config, const char *key, double min, double max, double otherwise)
{
    const json_t *value = look_up(config, key);
    if (!value || json_is_null(value))
        return otherwise;
    double number = json_number_value(value);
    if (json_is_number(value) && number >= min && number <= max)
        return number;
    if (json_is_number(value))
        hs__config_refuse(config, "%s must be a number from %g to %g; it is %g", key, min, max, number);
    else
        hs__config_refuse(config, "%s must be a number from %g to %g", key, min, max);
    return min;
}

bool hs__config_flag_or(hs__config *config, const char *key, bool otherwise)
{
    const json_t *value = look_up(config, key);
    if (!value || json_is_null(value))
        return otherwise;
    if (!json_is_boolean(value))
        hs__config_refuse(config, "%s must be true or false", key);
    return json_is_true(value);
}

const char *hs__config_text(hs__config *config, const char *key)
{
    const json_t *value = look_up(config, key);
    if (!value || json_is_null(value))
        return NULL;
    if (!json_is_string(value))
        hs__config_refuse(config, "%s must be a string", key);
    return json_string_value(value);
}

/* HuggingFace has several ways to write the tanh approximation; they differ in rounding only. */
hs_activation hs__config_activation(hs__config *config, const char *key, hs_activation otherwise)
{
    static const struct {
        const char *name;
        hs_activation activation;
    } names[] = {
        {"gelu", HS_GELU},          {"gelu_python", HS_GELU},
        {"gelu_new", HS_GELU_TANH}, {"gelu_fast", HS_GELU_TANH},
        {"relu", HS_RELU},          {"gelu_pytorch_tanh", HS_GELU_TANH},
        {"silu", HS_SILU},          {"quick_gelu", HS_QUICK_GELU},
        {"swish", HS_SILU},         {"tanh", HS_TANH},
    };
    const char *text = hs__config_text(config, key);
    if (!text)
        return otherwise;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(text, names[i].name) == 0)
            return names[i].activation;
    hs__config_refuse(config,
                      "%s must be \"gelu\", \"gelu_new\", \"gelu_pytorch_tanh\", \"quick_gelu\", \"relu\", "
                      "\"silu\" or \"tanh\"; not supported: \"%s\"",
                      key, text);
    return otherwise;
}

void hs__config_padding(hs__config *config, size_t padding_id, hs_architecture *architecture)
{
    const size_t n_rows = architecture->shape.n_positions;
    if (n_rows < padding_id + 1 + POSITIONS_MIN) {
        hs__config_refuse(config, "%zu positions are too few for a padding id of %zu", n_rows, padding_id);
        return;
    }
    architecture->embedding.position_offset = padding_id + 1;
    architecture->shape.n_positions = n_rows - architecture->embedding.position_offset;
}

double hs__config_theta_or(hs__config *config, const char *part, double otherwise)
{
    const json_t *all = look_up(config, "rope_parameters");
    hs__config rope = {
        .keys = part ? json_object_get(all, part) : all, .status = config->status, .err = config->err};
    if (!rope.keys || json_is_null(rope.keys))
        return otherwise;
    if (!json_is_object(rope.keys))
        hs__config_refuse(&rope, "rope_parameters must be an object");
    hs__config_only(&rope, "rope_type", "default");
    if (hs__config_number_or(&rope, "partial_rotary_factor", 0, 1, 1) != 1)
        hs__config_refuse(&rope, "partial_rotary_factor must be 1");
    const double theta = hs__config_number_or(&rope, "rope_theta", 1, 1e12, otherwise);
    config->status = rope.status;
    return theta;
}

/* Reads the scaling of frequencies from an object that names its type, as it is or in rope_scaling. */
static void read_scaling(hs__config *rope, hs_rotary *rotary)
{
    const char *type = hs__config_text(rope, "rope_type");
    if (!type)
        type = hs__config_text(rope, "type");
    if (!type || strcmp(type, "default") == 0)
        return;
    if (strcmp(type, "linear") != 0 && strcmp(type, "llama3") != 0) {
        hs__config_refuse(
            rope, "rope_type must be \"default\", \"linear\" or \"llama3\"; not supported: \"%s\"", type);
        return;
    }
    rotary->factor = hs__config_number_or(rope, "factor", 1, 1e6, 1);
    if (strcmp(type, "linear") == 0)
        return;
    rotary->low = hs__config_number_or(rope, "low_freq_factor", 1e-6, 1e6, 1);
    rotary->high = hs__config_number_or(rope, "high_freq_factor", 1e-6, 1e6, 4);
    rotary->original_positions =
        hs__config_size(rope, "original_max_position_embeddings", 1, (size_t)1 << 30);
    if (rotary->high <= rotary->low)
        hs__config_refuse(rope, "high_freq_factor must be greater than low_freq_factor");
}

void hs__config_rotation(hs__config *config, const char *theta_key, const char *fraction_key,
                         hs_architecture *architecture)
{
    const hs_shape *shape = &architecture->shape;
    double theta = hs__config_number_or(config, theta_key, 1, 1e12, 10000);
    double fraction = fraction_key ? hs__config_number_or(config, fraction_key, 1e-6, 1, 0.25) : 1;
    static const char *const keys[] = {"rope_scaling", "rope_parameters"};
    for (size_t i = 0; i < 2; i++) {
        if (!is_given(config, keys[i]))
            continue;
        hs__config rope = {.keys = look_up(config, keys[i]), .err = config->err};
        if (!json_is_object(rope.keys))
            hs__config_refuse(&rope, "%s must be an object", keys[i]);
        theta = hs__config_number_or(&rope, "rope_theta", 1, 1e12, theta);
        fraction = hs__config_number_or(&rope, "partial_rotary_factor", 1e-6, 1, fraction);
        read_scaling(&rope, &architecture->rotary);
        config->status = rope.status;
    }
    architecture->rotary.width = (size_t)((double)shape->head_width * fraction);
    if (architecture->rotary.width < 2)
        hs__config_refuse(config, "rotary positions of %g of heads of width %zu leave nothing to rotate",
                          fraction, shape->head_width);
    for (size_t i = 0; i < shape->n_layers; i++)
        architecture->layers[i].rotation_base = theta;
}

void hs__config_only(hs__config *config, const char *key, const char *only)
{
    const char *text = hs__config_text(config, key);
    if (text && strcmp(text, only) != 0)
        hs__config_refuse(config, "%s must be \"%s\"; not supported: \"%s\"", key, only, text);
}

void hs__config_unused(hs__config *config, const char *key)
{
    const json_t *value = look_up(config, key);
    if (value && !json_is_null(value) && !json_is_false(value) &&
        !(json_is_object(value) && json_object_size(value) == 0))
        hs__config_refuse(config, "%s is not supported", key);
}

/* ---- task heads ----
 *
 * Reads from config.json which task head a fine-tuned checkpoint has, and its labels.
 *
 * `architectures` names the class, whose suffix is the task. id2label names the classes. Without it there are
 * num_labels classes, by default 2, with HuggingFace's names LABEL_0, LABEL_1, ... */

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
