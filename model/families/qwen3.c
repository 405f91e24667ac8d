/* qwen3.c - Qwen3 (Yang et al. 2025): Llama with RMS norms of each head's queries and keys. */
#include "model/families/family.h"

static const hs__module modules[] = {
    {.name = "self_attn.q_proj", .parts = {HS__QUERY}, .no_bias = true},
    {.name = "self_attn.k_proj", .parts = {HS__KEY}, .no_bias = true},
    {.name = "self_attn.v_proj", .parts = {HS__VALUE}, .no_bias = true},
    {.name = "self_attn.o_proj", .parts = {HS__OUTPUT}, .no_bias = true},
    {.name = "self_attn.q_norm", .parts = {HS__QUERY_NORM}},
    {.name = "self_attn.k_norm", .parts = {HS__KEY_NORM}},
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

const hs__family hs__family_qwen3 = {
    .types = {"qwen3"},
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
