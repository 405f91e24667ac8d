/* qwen2.c - Qwen2 and Qwen2.5 (Yang et al. 2024): Llama with biases of queries, keys and values. */
#include "model/families/family.h"

static const hs__module modules[] = {
    {.name = "self_attn.q_proj", .parts = {HS__QUERY}},
    {.name = "self_attn.k_proj", .parts = {HS__KEY}},
    {.name = "self_attn.v_proj", .parts = {HS__VALUE}},
    {.name = "self_attn.o_proj", .parts = {HS__OUTPUT}, .no_bias = true},
    {.name = "input_layernorm", .parts = {HS__ATTENTION_NORM}},
    {.name = "post_attention_layernorm", .parts = {HS__FFN_NORM}},
    {.name = "mlp.gate_proj", .parts = {HS__FFN_GATE}, .no_bias = true},
    {.name = "mlp.up_proj", .parts = {HS__FFN_IN}, .no_bias = true},
    {.name = "mlp.down_proj", .parts = {HS__FFN_OUT}, .no_bias = true},
    {0},
};

static const hs__layout layout = {
    .word = "embed_tokens",
    .layer = "layers.",
    .below = ".",
    .layers = modules,
    .final_norm = "norm",
    .norms_without_bias = true,
};

void hs__qwen_configure(hs__config *config, hs_architecture *architecture)
{
    hs__llama_configure(config, architecture);
    if (hs__config_flag_or(config, "use_sliding_window", false))
        hs__sliding_window(config, hs__config_size_or(config, "max_window_layers", 0, 1 << 20, 28),
                           architecture);
}

const hs__family hs__family_qwen2 = {
    .types = {"qwen2"},
    .keys = {&hs__llama_keys},
    .prefixes = {"", "model.", "transformer."},
    .layouts = {&layout},
    .predictors = {&hs__llama_predictor},
    .sequence = &hs__score_head,
    .tokens = &hs__score_head,
    .span = &hs__span_head,
    .configure = hs__qwen_configure,
    .causal = true,
    .scales_rotation = true,
};
