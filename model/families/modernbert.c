/* modernbert.c - ModernBERT (Warner et al. 2024): norms before, rotary positions, sliding windows in most
 * layers, a gated feed-forward part and no biases. The first layer has no attention norm; the embedding's
 * norm replaces it. */
#include "model/families/family.h"

#include <string.h>

static const hs__module modules[] = {
    {.name = "attn.Wqkv", .parts = {HS__QUERY, HS__KEY, HS__VALUE}, .bias = HS__NO_BIAS},
    {.name = "attn_norm", .parts = {HS__ATTENTION_NORM}, .first_layer = 1},
    {.name = "attn.Wo", .parts = {HS__OUTPUT}, .bias = HS__NO_BIAS},
    {.name = "mlp_norm", .parts = {HS__FFN_NORM}},
    {.name = "mlp.Wi", .parts = {HS__FFN_GATE, HS__FFN_IN}, .bias = HS__NO_BIAS},
    {.name = "mlp.Wo", .parts = {HS__FFN_OUT}, .bias = HS__NO_BIAS},
    {0},
};

/* Returns true if a layer attends within a window. Newer configs say so in layer_types. In older ones all
 * layers are local except the first of every `every`. */
static bool is_local(hs__config *config, size_t layer, size_t every)
{
    const json_t *types = json_object_get(config->keys, "layer_types");
    if (!types || json_is_null(types))
        return layer % every != 0;
    const char *type = json_string_value(json_array_get(types, layer));
    const bool local = type && strcmp(type, "sliding_attention") == 0;
    if (!local && (!type || strcmp(type, "full_attention") != 0))
        hs__config_refuse(
            config, "layer_types must name \"full_attention\" or \"sliding_attention\" for layer %zu", layer);
    return local;
}

/* Reads the rotary base of local layers by its newer or its older key. An older null means the global
 * base. */
static double read_local_base(hs__config *config, double global)
{
    const char *key = "local_rope_theta";
    const bool is_null = json_is_null(json_object_get(config->keys, key));
    return hs__config_theta_or(config, "sliding_attention",
                               is_null ? global : hs__config_number_or(config, key, 1, 1e12, 10000));
}

static void configure(hs__config *config, hs_architecture *architecture)
{
    static const char *const unused[] = {"norm_bias", "attention_bias", "mlp_bias"};
    for (size_t i = 0; i < sizeof unused / sizeof *unused; i++)
        hs__config_unused(config, unused[i]);
    hs__config_only(config, "classifier_activation", "gelu"); /* the activation of the head that predicts
                                                               * masked tokens */
    architecture->predictor.unbiased = !hs__config_flag_or(config, "decoder_bias", true);
    architecture->predictor.dense_unbiased = !hs__config_flag_or(config, "classifier_bias", false);
    architecture->norms_before = true;
    architecture->norm_eps = (float)hs__config_number_or(config, "norm_eps", 1e-30, 1, 1e-5);
    architecture->activation = hs__config_activation(config, "hidden_activation", HS_GELU);
    const size_t every = hs__config_size_or(config, "global_attn_every_n_layers", 1, HS_LAYERS_MAX, 3);
    const size_t both_sides = hs__config_size_or(config, "local_attention", 2, HS_POSITIONS_MAX, 128);
    const size_t window =
        hs__config_size_or(config, "sliding_window", 1, HS_POSITIONS_MAX, both_sides / 2); /* another name */
    const double global = hs__config_theta_or(
        config, "full_attention", hs__config_number_or(config, "global_rope_theta", 1, 1e12, 160000));
    const double local = read_local_base(config, global);
    for (size_t i = 0; i < architecture->shape.n_layers; i++) {
        const bool within = is_local(config, i, every);
        architecture->layers[i].window = within ? window : 0;
        architecture->layers[i].rotation_base = within ? local : global;
    }
}

static const hs__layout layout = {
    .word = "embeddings.tok_embeddings",
    .embedding_norm = "embeddings.norm",
    .layer = "layers.",
    .below = ".",
    .layers = modules,
    .final_norm = "final_norm",
    .norms_without_bias = true,
};

static const hs__predictor_names predictor = {
    .dense = "head.dense",
    .norm = "head.norm",
    .decoder = "decoder",
    .biases = {"decoder"},
    .exact_gelu = true,
};

static const hs__head_names sequence = {.dense = "head.dense",
                                        .dense_may_lack_bias = true,
                                        .activation = HS_GELU,
                                        .activation_key = "classifier_activation",
                                        .norm = "head.norm",
                                        .output = "classifier",
                                        .pooling_key = "classifier_pooling"};

const hs__family hs__family_modernbert = {
    .types = {"modernbert"},
    .keys = {&hs__bert_keys},
    .prefixes = {"", "model."},
    .layouts = {&layout},
    .predictors = {&predictor},
    .sequence = &sequence,
    .tokens = &sequence,
    .span = &sequence,
    .configure = configure,
    .default_positions = 8192,
};
