/* albert.c - ALBERT (Lan et al. 2019): BERT with groups of adjacent layers that share weights, and narrow
 * embeddings that are always projected. */
#include "model/families/family.h"

static const hs__module modules[] = {
    {.name = "attention.query", .parts = {HS__QUERY}},
    {.name = "attention.key", .parts = {HS__KEY}},
    {.name = "attention.value", .parts = {HS__VALUE}},
    {.name = "attention.dense", .parts = {HS__OUTPUT}},
    {.name = "attention.LayerNorm", .parts = {HS__ATTENTION_NORM}},
    {.name = "ffn", .parts = {HS__FFN_IN}},
    {.name = "ffn_output", .parts = {HS__FFN_OUT}},
    {.name = "full_layer_layer_norm", .parts = {HS__FFN_NORM}},
    {0},
};

static void configure(hs__config *config, hs_architecture *architecture)
{
    const size_t n_layers = architecture->shape.n_layers;
    const size_t n_groups = hs__config_size_or(config, "num_hidden_groups", 1, n_layers, 1);
    hs__bert_configure(config, architecture);
    architecture->embedding.width = hs__config_size_or(config, "embedding_size", 1, HS_HIDDEN_MAX, 128);
    architecture->activation = hs__config_activation(config, "hidden_act", HS_GELU_TANH);
    hs__config_size_or(config, "inner_group_num", 1, 1, 1); /* 1 in every published model */
    if (n_layers % n_groups != 0)
        hs__config_refuse(config, "num_hidden_layers (%zu) is not a multiple of num_hidden_groups (%zu)",
                          n_layers, n_groups);
    for (size_t i = 0, in_group = n_layers / n_groups; i < n_layers; i++)
        architecture->layers[i].same_as = i / in_group * in_group;
}

static const hs__layout layout = {
    .word = "embeddings.word_embeddings",
    .position = "embeddings.position_embeddings",
    .type = "embeddings.token_type_embeddings",
    .embedding_norm = "embeddings.LayerNorm",
    .projection = "encoder.embedding_hidden_mapping_in",
    .projects_always = true,
    .layer = "encoder.albert_layer_groups.",
    .below = ".albert_layers.0.",
    .layers = modules,
};

static const hs__predictor_names predictor = {
    .dense = "predictions.dense",
    .norm = "predictions.LayerNorm",
    .decoder = "predictions.decoder",
    .biases = {"predictions.decoder", "predictions"},
};

static const hs__head_names sequence = {
    .dense = "pooler", .dense_in_base = true, .activation = HS_TANH, .output = "classifier"};

const hs__family hs__family_albert = {
    .types = {"albert"},
    .keys = {&hs__bert_keys},
    .prefixes = {"", "albert.", "model."},
    .layouts = {&layout},
    .predictors = {&predictor},
    .sequence = &sequence,
    .tokens = &hs__classifier_head,
    .span = &hs__span_head,
    .configure = configure,
    .default_positions = 512,
};
