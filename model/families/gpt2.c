/* gpt2.c - GPT-2 (Radford et al. 2019): norms before, learned positions, and matrices stored [in][out]. */
#include "model/families/family.h"

static const hs__shape_keys keys = {
    .n_layers = "n_layer",
    .n_heads = "n_head",
    .hidden = "n_embd",
    .ffn = "n_inner",
    .n_positions = "n_positions",
    .vocab_size = "vocab_size",
    .ffn_factor = 4,
};

static const hs__module modules[] = {
    {.name = "attn.c_attn", .parts = {HS__QUERY, HS__KEY, HS__VALUE}, .transposed = true},
    {.name = "attn.c_proj", .parts = {HS__OUTPUT}, .transposed = true},
    {.name = "ln_1", .parts = {HS__ATTENTION_NORM}},
    {.name = "mlp.c_fc", .parts = {HS__FFN_IN}, .transposed = true},
    {.name = "mlp.c_proj", .parts = {HS__FFN_OUT}, .transposed = true},
    {.name = "ln_2", .parts = {HS__FFN_NORM}},
    {0},
};

static const hs__layout layout = {
    .word = "wte",
    .position = "wpe",
    .layer = "h.",
    .below = ".",
    .layers = modules,
    .final_norm = "ln_f",
};

static const hs__predictor_names predictor = {.decoder = "lm_head"};

static void configure(hs__config *config, hs_architecture *architecture)
{
    hs__config_unused(config, "scale_attn_by_inverse_layer_idx");
    if (!hs__config_flag_or(config, "scale_attn_weights", true))
        hs__config_refuse(config, "scale_attn_weights must be true");
    architecture->norms_before = true;
    architecture->norm_eps = (float)hs__config_number_or(config, "layer_norm_epsilon", 1e-30, 1, 1e-5);
    architecture->activation = hs__config_activation(config, "activation_function", HS_GELU_TANH);
}

const hs__family hs__family_gpt2 = {
    .types = {"gpt2"},
    .keys = {&keys},
    .prefixes = {"", "transformer."},
    .layouts = {&layout},
    .predictors = {&predictor},
    .sequence = &hs__score_head,
    .tokens = &hs__classifier_head,
    .span = &hs__span_head,
    .configure = configure,
    .causal = true,
};
