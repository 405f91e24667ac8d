/* config.c - reads the keys of config.json; rotation.c those of rotary positions. Every reader of a key first
 * checks for an earlier failure, then the type and range of its key, so that no family can forget to. */
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

/* ---- windows ---- */

bool hs__config_slides(hs__config *config, const json_t *types, size_t layer)
{
    const char *type = json_string_value(json_array_get(types, layer));
    const bool sliding = type && strcmp(type, "sliding_attention") == 0;
    if (!sliding && (!type || strcmp(type, "full_attention") != 0))
        hs__config_refuse(
            config, "layer_types must name \"full_attention\" or \"sliding_attention\" for layer %zu", layer);
    return sliding;
}

bool hs__config_has_window(hs__config *config, const json_t *types, size_t every, size_t layer)
{
    return types && !json_is_null(types) ? hs__config_slides(config, types, layer) : (layer + 1) % every != 0;
}

void hs__window_set(hs_architecture *architecture, size_t layer, size_t n_keys)
{
    const size_t width = architecture->causal ? n_keys - 1 : n_keys;
    architecture->layers[layer].window = width < HS_POSITIONS_MAX ? width : 0;
}

void hs__config_window(hs__config *config, size_t otherwise, const json_t *types, size_t first,
                       hs_architecture *architecture)
{
    const json_t *window = json_object_get(config->keys, "sliding_window");
    if (window ? json_is_null(window) : otherwise == 0)
        return;
    const size_t n_keys = hs__config_size_or(config, "sliding_window", 2, HS__WINDOW_MAX, otherwise);
    for (size_t i = 0; i < architecture->shape.n_layers && !config->status; i++)
        if (types && !json_is_null(types) ? hs__config_slides(config, types, i) : i >= first)
            hs__window_set(architecture, i, n_keys);
}

/* ---- the modules of task heads ---- */

const hs__head_names hs__pooler_head = {
    .dense = "pooler.dense", .dense_in_base = true, .activation = HS_TANH, .output = "classifier"};
const hs__head_names hs__roberta_head = {
    .dense = "classifier.dense", .activation = HS_TANH, .output = "classifier.out_proj"};
const hs__head_names hs__classifier_head = {.output = "classifier"};
const hs__head_names hs__score_head = {.output = "score", .pooled_without_bias = true, .pool = HS_POOL_LAST};
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
