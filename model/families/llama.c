/* llama.c - Llama 2 and 3 (Touvron et al. 2023, Grattafiori et al. 2024) and SmolLM: RMS norms before, rotary
 * positions, keys and values shared by groups of heads, a gated feed-forward part and no biases. */
#include "model/families/family.h"

#include <string.h>

const hs__shape_keys hs__llama_keys = {
    HS__DEFAULT_KEYS,
    .n_kv_heads = "num_key_value_heads",
    .head_width = "head_dim",
    .long_texts = true,
};

static const hs__module modules[] = {
    HS__LLAMA_ATTENTION(true),
    HS__LLAMA_REST,
    {0},
};

const hs__layout hs__llama_layout = HS__LLAMA_LAYOUT(modules);

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
    hs__config_rotation(config, "rope_theta", NULL, architecture);
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
    const size_t width = architecture->causal ? n_keys - 1 : n_keys;
    for (size_t i = 0; i < architecture->shape.n_layers && !config->status; i++)
        if (types && !json_is_null(types) ? slides(config, types, i) : i >= first)
            architecture->layers[i].window = width < HS_POSITIONS_MAX ? width : 0;
}

const hs__family hs__family_llama = HS__LLAMA_FAMILY("llama", hs__llama_layout, hs__llama_configure);
