/* config.c - reads the keys of config.json. Every reader of a key first checks for an earlier failure, then
 * the type and range of its key, so that no family can forget to. */
#include "model/families/family.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void hs__config_refuse(hs__config *config, const char *format, ...)
{
    char text[sizeof config->err->text];
    va_list args;
    if (config->status)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    config->status = hs_fail(config->err, HS_BAD_MODEL, "%s: %s",
                             config->file_name ? config->file_name : "config.json", text);
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

int32_t hs__config_token_or(hs__config *config, const char *key, const hs_architecture *architecture,
                            int32_t otherwise)
{
    if (!hs__config_has(config, key))
        return otherwise;
    return (int32_t)hs__config_size(config, key, 0, architecture->shape.vocab_size - 1);
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
    if (n_rows < padding_id + 1 + HS__POSITIONS_MIN) {
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

/* Reads the scaling of frequencies from an object that names its type, as it is or in rope_scaling. "dynamic"
 * changes only texts of more than max_position_embeddings tokens, which are not read. */
static void read_scaling(hs__config *rope, hs_rotary *rotary)
{
    const char *type = hs__config_text(rope, "rope_type");
    if (!type)
        type = hs__config_text(rope, "type");
    if (!type || strcmp(type, "default") == 0)
        return;
    const bool dynamic = strcmp(type, "dynamic") == 0;
    if (!dynamic && strcmp(type, "linear") != 0 && strcmp(type, "llama3") != 0) {
        hs__config_refuse(rope,
                          "rope_type must be \"default\", \"dynamic\", \"linear\" or \"llama3\"; not "
                          "supported: \"%s\"",
                          type);
        return;
    }
    const double factor = hs__config_number_or(rope, "factor", 1, 1e6, 1);
    if (dynamic)
        return;
    rotary->factor = factor;
    if (strcmp(type, "linear") == 0)
        return;
    rotary->low = hs__config_number_or(rope, "low_freq_factor", 1e-6, 1e6, 1);
    rotary->high = hs__config_number_or(rope, "high_freq_factor", 1e-6, 1e6, 4);
    rotary->original_positions =
        hs__config_size(rope, "original_max_position_embeddings", 1, (size_t)1 << 30);
    if (rotary->high <= rotary->low)
        hs__config_refuse(rope, "high_freq_factor must be greater than low_freq_factor");
}

void hs__config_rotation(hs__config *config, hs__rotation_keys keys, hs_architecture *architecture)
{
    static const char *const objects[] = {"rope_scaling", "rope_parameters"};
    const hs_shape *shape = &architecture->shape;
    double theta = hs__config_number_or(config, keys.theta, 1, 1e12, keys.base > 0 ? keys.base : 10000);
    double fraction = keys.share > 0 ? keys.share : 1;
    if (keys.fraction)
        fraction = hs__config_number_or(config, keys.fraction, 1e-6, 1, fraction);
    for (size_t i = 0; i < 2; i++) {
        hs__config rope = {.keys = look_up(config, objects[i]), .err = config->err};
        if (rope.keys && !json_is_null(rope.keys) && !json_is_object(rope.keys))
            hs__config_refuse(config, "%s must be an object", objects[i]);
        if (keys.part && i == 1)
            rope.keys = json_object_get(rope.keys, keys.part);
        if (!rope.keys || json_is_null(rope.keys) || config->status)
            continue;
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
        !(json_is_object(value) && json_object_size(value) == 0) &&
        !(json_is_array(value) && json_array_size(value) == 0))
        hs__config_refuse(config, "%s is not supported", key);
}

/* ---- the modules of task heads ---- */

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
