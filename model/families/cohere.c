/* cohere.c - decoders with rotary positions whose norms are LayerNorm: Cohere's Command R (2024) and Command
 * R7B, Phi 1 and 2 (Gunasekar et al. 2023), StableLM 2 (Bellagente et al. 2024) and StarCoder 2 (Lozhkov et
 * al. 2024). In Cohere's and Phi's layers one norm serves both blocks, which are parallel. */
#include "model/families/family.h"

/* clang-format off */

#define KEYS(...)                                                                                            \
    {HS__DEFAULT_KEYS, .n_kv_heads = "num_key_value_heads", .long_texts = true, __VA_ARGS__}

#define QKV(its_bias)                                                                                        \
    {.name = "self_attn.q_proj", .parts = {HS__QUERY}, .bias = (its_bias)},                                  \
    {.name = "self_attn.k_proj", .parts = {HS__KEY}, .bias = (its_bias)},                                    \
    {.name = "self_attn.v_proj", .parts = {HS__VALUE}, .bias = (its_bias)}
#define GATED_FEED                                                                                           \
    {.name = "mlp.gate_proj", .parts = {HS__FFN_GATE}, .bias = HS__NO_BIAS},                                 \
    {.name = "mlp.up_proj", .parts = {HS__FFN_IN}, .bias = HS__NO_BIAS},                                     \
    {.name = "mlp.down_proj", .parts = {HS__FFN_OUT}, .bias = HS__NO_BIAS}

#define QK_NORMS(its_name, ...)                                                                              \
    {.name = "self_attn.q_" its_name, .parts = {HS__QUERY_NORM}, .condition = HS__IF_QK_NORMED,              \
     __VA_ARGS__},                                                                                           \
    {.name = "self_attn.k_" its_name, .parts = {HS__KEY_NORM}, .condition = HS__IF_QK_NORMED, __VA_ARGS__}

#define LAYOUT(its_norm, ...)                                                                                \
    {.word = "embed_tokens", .layer = "layers.", .below = ".", .final_norm = (its_norm),                     \
     .layers = __VA_ARGS__}
#define FAMILY(type, names, its_keys, its_predictor, configurer)                                             \
    .types = {(type)}, .keys = {&(its_keys)}, .prefixes = {"", "model."}, .layouts = {&(names)},             \
    .predictors = {&(its_predictor)}, .configure = (configurer), .causal = true, .scales_rotation = true

/* clang-format on */

static const hs__predictor_names tied = {.decoder = "lm_head"},
                                 untied = {.decoder = "lm_head", .untied = true},
                                 biased = {.decoder = "lm_head", .untied = true, .biases = {"lm_head"}};

static void configure_layers(hs__config *config, const char *eps, hs_activation activation,
                             hs_architecture *architecture)
{
    architecture->norms_before = true;
    architecture->norm_eps = (float)hs__config_number_or(config, eps, 1e-30, 1, 1e-5);
    architecture->activation = hs__config_activation(config, "hidden_act", activation);
}

/* ---- Cohere ---- */

static const hs__shape_keys cohere_keys = KEYS(.head_width = "head_dim");

static const hs__module cohere_modules[] = {
    QKV(HS__IF_ATTENTION_BIASED),
    {.name = "self_attn.o_proj", .parts = {HS__OUTPUT}, .bias = HS__IF_ATTENTION_BIASED},
    QK_NORMS("norm", .by_head = true),
    {.name = "input_layernorm", .parts = {HS__ATTENTION_NORM}},
    {.name = "input_layernorm", .parts = {HS__FFN_NORM}},
    GATED_FEED,
    {0},
};

static const hs__layout cohere_layout = LAYOUT("norm", cohere_modules, .norms_without_bias = true);

static void configure_rotated(hs__config *config, double base, hs_architecture *architecture)
{
    architecture->attention_biased = hs__config_flag_or(config, "attention_bias", false);
    architecture->parallel_residual = true;
    architecture->predictor.scale = hs__config_number_or(config, "logit_scale", 1e-6, 1e6, 0.0625);
    configure_layers(config, "layer_norm_eps", HS_SILU, architecture);
    hs__config_rotation(config, (hs__rotation_keys){.theta = "rope_theta", .base = base}, architecture);
    architecture->rotary.interleaved = true;
}

static void configure_cohere(hs__config *config, hs_architecture *architecture)
{
    architecture->qk_normed = hs__config_flag_or(config, "use_qk_norm", false);
    configure_rotated(config, 500000, architecture);
}

/* Reads Cohere 2's config: layers with a window are rotated, and every fourth has neither. */
static void configure_cohere2(hs__config *config, hs_architecture *architecture)
{
    const json_t *types = json_object_get(config->keys, "layer_types");
    const size_t every = hs__config_size_or(config, "sliding_window_pattern", 1, HS_LAYERS_MAX, 4);
    const size_t n_keys = hs__config_size_or(config, "sliding_window", 2, HS__WINDOW_MAX, 4096);
    hs__config_unused(config, "use_qk_norm");
    configure_rotated(config, 10000, architecture);
    for (size_t i = 0; i < architecture->shape.n_layers && !config->status; i++)
        if (hs__config_has_window(config, types, every, i))
            hs__window_set(architecture, i, n_keys);
        else
            architecture->layers[i].rotation_base = 0;
}

const hs__family hs__family_cohere = {FAMILY("cohere", cohere_layout, cohere_keys, tied, configure_cohere),
                                      .default_positions = 8192};
const hs__family hs__family_cohere2 = {FAMILY("cohere2", cohere_layout, cohere_keys, tied, configure_cohere2),
                                       .default_positions = 8192};

/* ---- Phi 1, 1.5 and 2: part of each head is rotated, and the logits have a bias ---- */

static const hs__module phi_modules[] = {
    QKV(HS__BIAS),
    {.name = "self_attn.dense", .parts = {HS__OUTPUT}},
    QK_NORMS("layernorm", .bias = HS__BIAS),
    {.name = "input_layernorm", .parts = {HS__ATTENTION_NORM}},
    {.name = "input_layernorm", .parts = {HS__FFN_NORM}},
    {.name = "mlp.fc1", .parts = {HS__FFN_IN}},
    {.name = "mlp.fc2", .parts = {HS__FFN_OUT}},
    {0},
};

static const hs__layout phi_layout = LAYOUT("final_layernorm", phi_modules);

static void configure_phi(hs__config *config, hs_architecture *architecture)
{
    architecture->qk_normed = hs__config_flag_or(config, "qk_layernorm", false);
    architecture->parallel_residual = true;
    configure_layers(config, "layer_norm_eps", HS_GELU_TANH, architecture);
    hs__config_rotation(
        config, (hs__rotation_keys){.theta = "rope_theta", .fraction = "partial_rotary_factor", .share = 0.5},
        architecture);
}

const hs__family hs__family_phi = {FAMILY("phi", phi_layout, cohere_keys, biased, configure_phi),
                                   .sequence = &hs__score_head, .tokens = &hs__score_head,
                                   .default_positions = 2048};

/* ---- StableLM: a gated feed-forward part; the blocks may be parallel ---- */

static const hs__shape_keys stablelm_keys = KEYS(.kv_heads_default = 32);

static const hs__module stablelm_modules[] = {
    QKV(HS__IF_ATTENTION_BIASED),
    {.name = "self_attn.o_proj", .parts = {HS__OUTPUT}, .bias = HS__NO_BIAS},
    QK_NORMS("layernorm.norms", .numbered = true, .bias = HS__NO_BIAS),
    {.name = "input_layernorm", .parts = {HS__ATTENTION_NORM}},
    {.name = "input_layernorm", .parts = {HS__FFN_NORM}, .condition = HS__IF_PARALLEL},
    {.name = "post_attention_layernorm", .parts = {HS__FFN_NORM}, .condition = HS__IF_SERIAL},
    GATED_FEED,
    {0},
};

static const hs__layout stablelm_layout = LAYOUT("norm", stablelm_modules);

static void configure_stablelm(hs__config *config, hs_architecture *architecture)
{
    const size_t width = architecture->shape.head_width;
    if (hs__config_has(config, "head_dim") && /* transformers rotates by it, and by nothing else */
        hs__config_size(config, "head_dim", 1, HS_HIDDEN_MAX) != width)
        hs__config_refuse(config, "head_dim must be hidden_size / num_attention_heads (%zu)", width);
    architecture->qk_normed = hs__config_flag_or(config, "qk_layernorm", false);
    architecture->attention_biased = hs__config_flag_or(config, "use_qkv_bias", false);
    architecture->parallel_residual = hs__config_flag_or(config, "use_parallel_residual", false);
    configure_layers(config, "layer_norm_eps", HS_SILU, architecture);
    hs__config_rotation(
        config,
        (hs__rotation_keys){.theta = "rope_theta", .fraction = "partial_rotary_factor", .share = 0.25},
        architecture);
}

const hs__family hs__family_stablelm = {
    FAMILY("stablelm", stablelm_layout, stablelm_keys, untied, configure_stablelm),
    .sequence = &hs__score_head, .tokens = &hs__score_head, .default_positions = 4096};

/* ---- StarCoder 2: biases, no gate, and a window ---- */

static const hs__shape_keys starcoder2_keys = KEYS(.kv_heads_default = 2, .head_width = "head_dim");

static const hs__module starcoder2_modules[] = {
    QKV(HS__IF_ATTENTION_BIASED),
    {.name = "self_attn.o_proj", .parts = {HS__OUTPUT}, .bias = HS__IF_ATTENTION_BIASED},
    {.name = "input_layernorm", .parts = {HS__ATTENTION_NORM}},
    {.name = "post_attention_layernorm", .parts = {HS__FFN_NORM}},
    {.name = "mlp.c_fc", .parts = {HS__FFN_IN}, .bias = HS__IF_ATTENTION_BIASED},
    {.name = "mlp.c_proj", .parts = {HS__FFN_OUT}, .bias = HS__IF_ATTENTION_BIASED},
    {0},
};

static const hs__layout starcoder2_layout = LAYOUT("norm", starcoder2_modules);

static void configure_starcoder2(hs__config *config, hs_architecture *architecture)
{
    architecture->attention_biased = hs__config_flag_or(config, "use_bias", true);
    configure_layers(config, "norm_epsilon", HS_GELU_TANH, architecture);
    hs__config_rotation(config, (hs__rotation_keys){.theta = "rope_theta"}, architecture);
    hs__config_window(config, 0, NULL, 0, architecture);
}

const hs__family hs__family_starcoder2 = {
    FAMILY("starcoder2", starcoder2_layout, starcoder2_keys, tied, configure_starcoder2),
    .sequence = &hs__score_head, .tokens = &hs__score_head, .default_positions = 4096};
