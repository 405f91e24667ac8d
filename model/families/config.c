/* config.c - each reader checks that nothing failed before it, then type and range of its key, so that no
 * family can forget to. */
#include "model/families/config.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define FILE_NAME     "config.json"
#define POSITIONS_MIN 3 /* [CLS] a [SEP] is the shortest input that means something */

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

/* NULL when the key is absent, or when it no longer matters. */
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
    hs__config_refuse(config, "%s must be an integer from %zu to %zu", key, min, max);
    return min;
}

size_t hs__config_size(hs__config *config, const char *key, size_t min, size_t max)
{
    if (!look_up(config, key))
        hs__config_refuse(config, "%s is missing", key);
    return hs__config_size_or(config, key, min, max, min);
}

void hs__config_shape(hs__config *config, const hs__shape_keys *names, hs_shape *ret_shape)
{
    hs_shape shape = {
        .n_layers = hs__config_size(config, names->n_layers, 1, HS_LAYERS_MAX),
        .n_heads = hs__config_size(config, names->n_heads, 1, HS_HEADS_MAX),
        .hidden = hs__config_size(config, names->hidden, 1, HS_HIDDEN_MAX),
        .ffn = hs__config_size(config, names->ffn, 1, HS_FFN_MAX),
        .n_positions = hs__config_size(config, names->n_positions, POSITIONS_MIN, HS_POSITIONS_MAX),
        .vocab_size = hs__config_size(config, names->vocab_size, 1, HS_VOCAB_MAX),
    };
    if (shape.hidden % shape.n_heads != 0)
        hs__config_refuse(config, "%s (%zu) is not a multiple of %s (%zu)", names->hidden, shape.hidden,
                          names->n_heads, shape.n_heads);
    shape.head_width = shape.hidden / shape.n_heads;
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

void hs__config_padding(hs__config *config, size_t padding_id, hs_recipe *recipe)
{
    const size_t n_rows = recipe->shape.n_positions;
    if (n_rows < padding_id + 1 + POSITIONS_MIN) {
        hs__config_refuse(config, "%zu positions are too few for a padding id of %zu", n_rows, padding_id);
        return;
    }
    recipe->embedding.position_offset = padding_id + 1;
    recipe->shape.n_positions = n_rows - recipe->embedding.position_offset;
}

double hs__config_theta_or(hs__config *config, const char *part, double otherwise)
{
    const json_t *all = look_up(config, "rope_parameters");
    hs__config rope = {.keys = part ? json_object_get(all, part) : all, .err = config->err};
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
