/* config.c - config.json as HuggingFace writes it for BERT and DistilBERT. */
#include "model/families/config.h"
#include "model/files/json.h"

#include <string.h>

#define FILE_NAME "config.json"
#define TYPES_MAX 256 /* token types are stored in a byte */

/* One integer that both families need, under the key that each gives it. */
static const struct {
    const char *keys[2]; /* by hs__family */
    size_t min, max, offset;
} sizes[] = {
    {{"num_hidden_layers", "n_layers"}, 1, HS_LAYERS_MAX, offsetof(hs_shape, n_layers)},
    {{"num_attention_heads", "n_heads"}, 1, HS_HEADS_MAX, offsetof(hs_shape, n_heads)},
    {{"hidden_size", "dim"}, 1, HS_HIDDEN_MAX, offsetof(hs_shape, hidden)},
    {{"intermediate_size", "hidden_dim"}, 1, HS_FFN_MAX, offsetof(hs_shape, ffn)},
    /* [CLS] a [SEP] is the shortest input that means something. */
    {{"max_position_embeddings", "max_position_embeddings"},
     3,
     HS_POSITIONS_MAX,
     offsetof(hs_shape, n_positions)},
    {{"vocab_size", "vocab_size"}, 1, HS_VOCAB_MAX, offsetof(hs_shape, vocab_size)},
};

static hs_status read_size(const json_t *config, const char *key, size_t min, size_t max, size_t *ret_size,
                           hs_error *err)
{
    const json_t *value = json_object_get(config, key);
    if (!value)
        return hs_fail(err, HS_BAD_MODEL, FILE_NAME ": %s is missing", key);
    json_int_t number = json_integer_value(value); /* 0 for anything else, refused like a 0 */
    if (number < (json_int_t)min || number > (json_int_t)max)
        return hs_fail(err, HS_BAD_MODEL, FILE_NAME ": %s must be an integer from %zu to %zu", key, min, max);
    *ret_size = (size_t)number;
    return HS_OK;
}

/* Absent and null mean HuggingFace's default, which is the one value supported. */
static hs_status require_text(const json_t *config, const char *key, const char *only, hs_error *err)
{
    const json_t *value = json_object_get(config, key);
    if (!value || json_is_null(value))
        return HS_OK;
    const char *text = json_string_value(value);
    if (!text)
        return hs_fail(err, HS_BAD_MODEL, FILE_NAME ": %s must be a string", key);
    if (strcmp(text, only) != 0)
        return hs_fail(err, HS_BAD_MODEL, FILE_NAME ": %s must be \"%s\"; not supported: \"%s\"", key, only,
                       text);
    return HS_OK;
}

/* Absent, null, false and {} all say that a feature is not used. */
static hs_status require_unused(const json_t *config, const char *key, hs_error *err)
{
    const json_t *value = json_object_get(config, key);
    bool used = value && !json_is_null(value) && !json_is_false(value) &&
                !(json_is_object(value) && json_object_size(value) == 0);
    return used ? hs_fail(err, HS_BAD_MODEL, FILE_NAME ": %s is not supported", key) : HS_OK;
}

/* Configs older than model_type are told apart by their keys. */
static hs_status read_family(const json_t *config, hs__family *ret_family, hs_error *err)
{
    const json_t *value = json_object_get(config, "model_type");
    const char *type = json_string_value(value);
    if (!value && json_object_get(config, "hidden_size"))
        type = "bert";
    else if (!value && json_object_get(config, "dim"))
        type = "distilbert";
    if (!type)
        return hs_fail(err, HS_BAD_MODEL, FILE_NAME ": model_type is missing or not a string");
    if (strcmp(type, "bert") == 0)
        *ret_family = HS__BERT;
    else if (strcmp(type, "distilbert") == 0)
        *ret_family = HS__DISTILBERT;
    else
        return hs_fail(err, HS_BAD_MODEL,
                       FILE_NAME ": model_type must be \"bert\" or \"distilbert\"; not supported: \"%s\"",
                       type);
    return HS_OK;
}

static hs_status read_epsilon(const json_t *config, float *ret_epsilon, hs_error *err)
{
    const json_t *value = json_object_get(config, "layer_norm_eps");
    if (!value)
        return HS_OK;
    double epsilon = json_number_value(value); /* 0 when not a number */
    if (!(epsilon >= 1e-30 && epsilon <= 1))
        return hs_fail(err, HS_BAD_MODEL, FILE_NAME ": layer_norm_eps must be a number from 1e-30 to 1");
    *ret_epsilon = (float)epsilon;
    return HS_OK;
}

/* What only BERT's config can say; DistilBERT has no token types and a fixed epsilon. */
static hs_status read_bert(const json_t *config, hs_recipe *recipe, hs_error *err)
{
    recipe->shape.n_types = 2;
    if (json_object_get(config, "type_vocab_size")) {
        hs_status st = read_size(config, "type_vocab_size", 1, TYPES_MAX, &recipe->shape.n_types, err);
        if (st)
            return st;
    }
    return read_epsilon(config, &recipe->norm_eps, err);
}

static hs_status refuse_unsupported(const json_t *config, hs__family family, hs_error *err)
{
    static const char *const unused[] = {"is_decoder", "is_encoder_decoder", "add_cross_attention",
                                         "pruned_heads", "quantization_config"};
    for (size_t i = 0; i < sizeof unused / sizeof *unused; i++) {
        hs_status st = require_unused(config, unused[i], err);
        if (st)
            return st;
    }
    hs_status st = require_text(config, family == HS__BERT ? "hidden_act" : "activation", "gelu", err);
    return st ? st : require_text(config, "position_embedding_type", "absolute", err);
}

hs_status hs__config_parse(const hs_bytes *config_file, hs__family *ret_family, hs_recipe *ret_recipe,
                           hs_error *err)
{
    json_t *config = NULL;
    hs__family family = HS__BERT;
    hs_recipe recipe = {.norm_eps = 1e-12F};
    hs_status st = hs__json_parse(config_file, FILE_NAME, &config, err);
    if (st)
        return st;
    st = read_family(config, &family, err);
    for (size_t i = 0; !st && i < sizeof sizes / sizeof *sizes; i++) {
        size_t *size = (size_t *)((char *)&recipe.shape + sizes[i].offset);
        st = read_size(config, sizes[i].keys[family], sizes[i].min, sizes[i].max, size, err);
    }
    if (!st && recipe.shape.hidden % recipe.shape.n_heads != 0)
        st = hs_fail(err, HS_BAD_MODEL, FILE_NAME ": %s (%zu) is not a multiple of %s (%zu)",
                     sizes[2].keys[family], recipe.shape.hidden, sizes[1].keys[family], recipe.shape.n_heads);
    if (!st && family == HS__BERT)
        st = read_bert(config, &recipe, err);
    if (!st)
        st = refuse_unsupported(config, family, err);
    json_decref(config);
    if (st)
        return st;
    recipe.shape.head_width = recipe.shape.hidden / recipe.shape.n_heads;
    recipe.family = family == HS__BERT ? "bert" : "distilbert";
    *ret_family = family;
    *ret_recipe = recipe;
    return HS_OK;
}
