/* family.c - the list of families, and the part of reading a config that all families share. */
#include "model/families/family.h"
#include "model/files/json.h"

#include <stdlib.h>
#include <string.h>

/* The registry. A new family adds a line here and a file. */
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
    X(deberta_v2)                                                                                            \
    X(eurobert)                                                                                              \
    X(gpt2)                                                                                                  \
    X(gpt_neox)                                                                                              \
    X(llama)                                                                                                 \
    X(mistral)                                                                                               \
    X(qwen2)                                                                                                 \
    X(qwen3)

#define X(name) extern const hs__family hs__family_##name;
FAMILIES(X)
#undef X

static const hs__family *const families[] = {
#define X(name) &hs__family_##name,
    FAMILIES(X)
#undef X
        NULL,
};

/* Appends to a message and cuts off what does not fit. */
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

/* Finds the family of a config that is older than model_type, by a key that only this family has. */
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

/* Finds the family by model_type. Returns NULL if the type was refused. *ret_type is one of the family's
 * names. */
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

static bool is_rotated(const hs_architecture *architecture)
{
    for (size_t i = 0; i < architecture->shape.n_layers; i++)
        if (architecture->layers[i].rotation_base > 0)
            return true;
    return false;
}

/* Returns false for decoders that were trained further as encoders (LLM2Vec). transformers reads null as
 * false. */
static bool sees_the_past_only(hs__config *config)
{
    return hs__config_flag_or(config, "is_causal", !json_object_get(config->keys, "is_causal"));
}

static hs_status read_architecture(hs__config *config, const hs__family **ret_family,
                                   hs_architecture *architecture)
{
    static const char *const unused[] = {"is_decoder", "is_encoder_decoder", "add_cross_attention",
                                         "pruned_heads", "quantization_config"};
    const hs__family *family = find(config, &architecture->family);
    if (!family)
        return config->status;
    hs__config_shape(config, find_keys(config, family), &architecture->shape);
    for (size_t i = 0; i < sizeof unused / sizeof *unused; i++)
        hs__config_unused(config, unused[i]);
    if (!family->scales_rotation)
        hs__config_unused(config, "rope_scaling");
    if (config->status)
        return config->status;
    architecture->layers = calloc(architecture->shape.n_layers, sizeof *architecture->layers);
    if (!architecture->layers)
        return hs_fail(config->err, HS_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < architecture->shape.n_layers; i++)
        architecture->layers[i].same_as = i;
    architecture->embedding.width = architecture->shape.hidden;
    architecture->predictor.untied = !hs__config_flag_or(config, "tie_word_embeddings", true);
    architecture->predictor.tied = hs__config_flag_or(config, "tie_word_embeddings", false);
    architecture->causal = family->causal && sees_the_past_only(config);
    architecture->predictor.next = family->causal;
    family->configure(config, architecture);
    const size_t width =
        architecture->rotary.width > 0 ? architecture->rotary.width : architecture->shape.head_width;
    if (is_rotated(architecture) && width % 2 != 0)
        hs__config_refuse(config, "rotary positions need heads of an even width; here it is %zu", width);
    hs__heads_configure(config, family, architecture);
    *ret_family = family;
    return config->status;
}

void hs__family_release(hs_architecture *architecture)
{
    free(architecture->task_head.labels);
    free(architecture->sentence.prompts);
    free(architecture->layers);
}

hs_status hs__family_configure(const hs_bytes *config_file, const hs__family **ret_family,
                               hs_architecture *ret_architecture, hs_error *err)
{
    json_t *keys = NULL;
    hs_architecture architecture = {0};
    hs_status st = hs__json_parse(config_file, "config.json", &keys, err);
    if (st)
        return st;
    hs__config config = {.keys = keys, .err = err};
    st = read_architecture(&config, ret_family, &architecture);
    json_decref(keys);
    if (st) {
        hs__family_release(&architecture);
        return st;
    }
    *ret_architecture = architecture;
    return HS_OK;
}
