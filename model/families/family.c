/* family.c - the families there are, and the part of reading a config that all of them share. */
#include "model/families/family.h"
#include "model/files/json.h"

#include <stdlib.h>
#include <string.h>

/* The registry: a family is a line here and its file. */
#define FAMILIES(X)                                                                                          \
    X(bert)                                                                                                  \
    X(distilbert)                                                                                            \
    X(electra)                                                                                               \
    X(roberta)                                                                                               \
    X(mpnet)                                                                                                 \
    X(albert)                                                                                                \
    X(nomic_bert)                                                                                            \
    X(modernbert)                                                                                            \
    X(esm)                                                                                                   \
    X(deberta_v2)

#define X(name) extern const hs__family hs__family_##name;
FAMILIES(X)
#undef X

static const hs__family *const families[] = {
#define X(name) &hs__family_##name,
    FAMILIES(X)
#undef X
        NULL,
};

/* Appends to a message as far as there is room. */
static void append(char *text, size_t size, const char *more)
{
    const size_t length = strlen(text);
    strncat(text, more, size - 1 - length);
}

static void refuse_type(hs__config *config, const char *type)
{
    char known[300] = "";
    for (size_t i = 0; families[i]; i++)
        for (size_t k = 0; families[i]->types[k]; k++) {
            append(known, sizeof known, known[0] ? ", \"" : "\"");
            append(known, sizeof known, families[i]->types[k]);
            append(known, sizeof known, "\"");
        }
    hs__config_refuse(config, "model_type must be one of %s; not supported: \"%s\"", known, type);
}

/* Configs older than model_type are told apart by their keys. */
static const hs__family *find_without_type(hs__config *config, const char **ret_type)
{
    for (size_t i = 0; families[i]; i++)
        if (families[i]->old_key && json_object_get(config->keys, families[i]->old_key)) {
            *ret_type = families[i]->types[0];
            return families[i];
        }
    hs__config_refuse(config, "model_type is missing");
    return NULL;
}

/* NULL when it was refused. *ret_type is one of the family's names. */
static const hs__family *find(hs__config *config, const char **ret_type)
{
    const json_t *value = json_object_get(config->keys, "model_type");
    const char *type = json_string_value(value);
    if (!value)
        return find_without_type(config, ret_type);
    if (!type) {
        hs__config_refuse(config, "model_type must be a string");
        return NULL;
    }
    for (size_t i = 0; families[i]; i++)
        for (size_t k = 0; families[i]->types[k]; k++)
            if (strcmp(type, families[i]->types[k]) == 0) {
                *ret_type = families[i]->types[k];
                return families[i];
            }
    refuse_type(config, type);
    return NULL;
}

static const hs__shape_keys *find_keys(const hs__config *config, const hs__family *family)
{
    for (size_t i = 0; family->keys[i]; i++)
        if (json_object_get(config->keys, family->keys[i]->n_layers))
            return family->keys[i];
    return family->keys[0];
}

static bool is_rotated(const hs_recipe *recipe)
{
    for (size_t i = 0; i < recipe->shape.n_layers; i++)
        if (recipe->layers[i].rotation_base > 0)
            return true;
    return false;
}

static hs_status read_recipe(hs__config *config, const hs__family **ret_family, hs_recipe *recipe)
{
    static const char *const unused[] = {"is_decoder",   "is_encoder_decoder",  "add_cross_attention",
                                         "pruned_heads", "quantization_config", "rope_scaling"};
    const hs__family *family = find(config, &recipe->family);
    if (!family)
        return config->status;
    hs__config_shape(config, find_keys(config, family), &recipe->shape);
    for (size_t i = 0; i < sizeof unused / sizeof *unused; i++)
        hs__config_unused(config, unused[i]);
    if (config->status)
        return config->status;
    recipe->layers = calloc(recipe->shape.n_layers, sizeof *recipe->layers);
    if (!recipe->layers)
        return hs_fail(config->err, HS_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < recipe->shape.n_layers; i++)
        recipe->layers[i].same_as = i;
    recipe->embedding.width = recipe->shape.hidden;
    recipe->predictor.untied = !hs__config_flag_or(config, "tie_word_embeddings", true);
    family->configure(config, recipe);
    if (is_rotated(recipe) && recipe->shape.head_width % 2 != 0)
        hs__config_refuse(config, "heads of an odd width (%zu) cannot be rotated", recipe->shape.head_width);
    *ret_family = family;
    return config->status;
}

hs_status hs__family_configure(const hs_bytes *config_file, const hs__family **ret_family,
                               hs_recipe *ret_recipe, hs_error *err)
{
    json_t *keys = NULL;
    hs_recipe recipe = {0};
    hs_status st = hs__json_parse(config_file, "config.json", &keys, err);
    if (st)
        return st;
    hs__config config = {.keys = keys, .err = err};
    st = read_recipe(&config, ret_family, &recipe);
    json_decref(keys);
    if (st) {
        free(recipe.layers);
        return st;
    }
    *ret_recipe = recipe;
    return HS_OK;
}
