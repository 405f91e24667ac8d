/* config.c - reads keys of config.json. Each reader first checks for an earlier failure, then the type and
 * range of its key, so that no family can forget to. */
#include "model/families/config.h"

#include <stdarg.h>
#include <stdio.h>
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
