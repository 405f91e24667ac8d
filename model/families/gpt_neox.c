/* gpt_neox.c - GPT-NeoX and Pythia (Black et al. 2022, Biderman et al. 2023). Norms come before, part of each
 * head has rotary positions, and the residual is usually parallel. Queries, keys and values are packed per
 * head. */
#include "model/families/family.h"

static const hs__shape_keys keys = {
    HS__DEFAULT_KEYS,
    .long_texts = true,
};

static const hs__module modules[] = {
    {.name = "attention.query_key_value", .parts = {HS__QUERY, HS__KEY, HS__VALUE}},
    {.name = "attention.dense", .parts = {HS__OUTPUT}},
    {.name = "input_layernorm", .parts = {HS__ATTENTION_NORM}},
    {.name = "post_attention_layernorm", .parts = {HS__FFN_NORM}},
    {.name = "mlp.dense_h_to_4h", .parts = {HS__FFN_IN}},
    {.name = "mlp.dense_4h_to_h", .parts = {HS__FFN_OUT}},
    {0},
};

static const hs__layout layout = {
    .word = "embed_in",
    .layer = "layers.",
    .below = ".",
    .layers = modules,
    .final_norm = "final_layer_norm",
};

static const hs__predictor_names predictor = {.decoder = "embed_out", .untied = true};

static void configure(hs__config *config, hs_architecture *architecture)
{
    if (!hs__config_flag_or(config, "attention_bias", true))
        hs__config_refuse(config, "attention_bias must be true");
    architecture->norms_before = true;
    architecture->qkv_by_head = true;
    architecture->parallel_residual = hs__config_flag_or(config, "use_parallel_residual", true);
    architecture->norm_eps = (float)hs__config_number_or(config, "layer_norm_eps", 1e-30, 1, 1e-5);
    architecture->activation = hs__config_activation(config, "hidden_act", HS_GELU);
    hs__config_rotation(config, "rotary_emb_base", "rotary_pct", architecture);
}

const hs__family hs__family_gpt_neox = {
    .types = {"gpt_neox"},
    .keys = {&keys},
    .prefixes = {"", "gpt_neox."},
    .layouts = {&layout},
    .predictors = {&predictor},
    .sequence = &hs__score_head,
    .tokens = &hs__classifier_head,
    .span = &hs__span_head,
    .configure = configure,
    .causal = true,
    .scales_rotation = true,
};
