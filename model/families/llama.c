/* llama.c - Llama 2 and 3 (Touvron et al. 2023, Grattafiori et al. 2024) and SmolLM: RMS norms before, rotary
 * positions, keys and values shared by groups of heads, a gated feed-forward part and no biases. */
#include "model/families/family.h"

#include <string.h>

const hs__shape_keys hs__llama_keys = {
    .n_layers = "num_hidden_layers",
    .n_heads = "num_attention_heads",
    .hidden = "hidden_size",
    .ffn = "intermediate_size",
    .n_positions = "max_position_embeddings",
    .vocab_size = "vocab_size",
    .n_kv_heads = "num_key_value_heads",
    .head_width = "head_dim",
    .long_texts = true,
};

static const hs__module modules[] = {
    {.name = "self_attn.q_proj", .parts = {HS__QUERY}, .no_bias = true},
    {.name = "self_attn.k_proj", .parts = {HS__KEY}, .no_bias = true},
    {.name = "self_attn.v_proj", .parts = {HS__VALUE}, .no_bias = true},
    {.name = "self_attn.o_proj", .parts = {HS__OUTPUT}, .no_bias = true},
    {.name = "input_layernorm", .parts = {HS__ATTENTION_NORM}},
    {.name = "post_attention_layernorm", .parts = {HS__FFN_NORM}},
    {.name = "mlp.gate_proj", .parts = {HS__FFN_GATE}, .no_bias = true},
    {.name = "mlp.up_proj", .parts = {HS__FFN_IN}, .no_bias = true},
    {.name = "mlp.down_proj", .parts = {HS__FFN_OUT}, .no_bias = true},
    {0},
};

const hs__layout hs__llama_layout = {
    .word = "embed_tokens",
    .layer = "layers.",
    .below = ".",
    .layers = modules,
    .final_norm = "norm",
    .norms_without_bias = true,
};

const hs__predictor_names hs__llama_predictor = {.decoder = "lm_head", .untied = true};

void hs__llama_configure(hs__config *config, hs_architecture *architecture)
{
    hs__config_unused(config, "attention_bias");
    hs__config_unused(config, "mlp_bias");
    if (hs__config_number_or(config, "pretraining_tp", 1, 1e6, 1) != 1)
        hs__config_refuse(config, "pretraining_tp must be 1");
    architecture->norms_before = true;
    architecture->norm_kind = HS_NORM_RMS;
    architecture->norm_eps = (float)hs__config_number_or(config, "rms_norm_eps", 1e-30, 1, 1e-6);
    architecture->activation = hs__config_activation(config, "hidden_act", HS_SILU);
    hs__config_rotation(config, "rope_theta", NULL, 10000, architecture);
}

/* Returns true if a layer's window slides, as layer_types says. */
static bool slides(hs__config *config, const json_t *types, size_t layer)
{
    const char *type = json_string_value(json_array_get(types, layer));
    const bool sliding = type && strcmp(type, "sliding_attention") == 0;
    if (!sliding && (!type || strcmp(type, "full_attention") != 0))
        hs__config_refuse(
            config, "layer_types must name \"full_attention\" or \"sliding_attention\" for layer %zu", layer);
    return sliding;
}

void hs__sliding_window(hs__config *config, size_t first, hs_architecture *architecture)
{
    const json_t *window = json_object_get(config->keys, "sliding_window");
    const json_t *types = json_object_get(config->keys, "layer_types");
    if (!window || json_is_null(window))
        return;
    const size_t n_keys = hs__config_size(config, "sliding_window", 2, (size_t)1 << 30);
    for (size_t i = 0; i < architecture->shape.n_layers && !config->status; i++)
        if (types && !json_is_null(types) ? slides(config, types, i) : i >= first)
            architecture->layers[i].window = n_keys - 1 < HS_POSITIONS_MAX ? n_keys - 1 : 0;
}

const hs__family hs__family_llama = {
    .types = {"llama"},
    .keys = {&hs__llama_keys},
    .prefixes = {"", "model.", "transformer."},
    .layouts = {&hs__llama_layout},
    .predictors = {&hs__llama_predictor},
    .sequence = &hs__score_head,
    .tokens = &hs__score_head,
    .span = &hs__span_head,
    .configure = hs__llama_configure,
    .causal = true,
    .scales_rotation = true,
};
