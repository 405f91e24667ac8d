/* llama.c - Llama and the families that are made of its layers: RMS norms before, rotary positions, keys and
 * values shared by groups of heads, a gated feed-forward part, and biases if the config asks for them. */
#include "model/families/family.h"

#include <math.h>
#include <string.h>

/* ---- what they share ---- */

/* clang-format off */

#define KEYS(...)                                                                                            \
    {HS__DEFAULT_KEYS, .n_kv_heads = "num_key_value_heads", .head_width = "head_dim", .long_texts = true,     \
     __VA_ARGS__}

/* clang-format on */

static const hs__shape_keys keys = KEYS(.kv_heads_default = 0), mistral_keys = KEYS(.kv_heads_default = 8),
                            qwen2_keys = KEYS(.kv_heads_default = 32),
                            qwen3_keys = KEYS(.kv_heads_default = 32, .head_width_default = 128),
                            gemma2_keys = KEYS(.kv_heads_default = 4, .head_width_default = 256);

static const hs__predictor_names predictor = {.decoder = "lm_head", .untied = true};

/* clang-format off */

/* Modules of Llama's layers. Qwen2's queries, keys and values have biases. Qwen3 has norms after the first
 * four modules. */
#define QKV(its_bias)                                                                                        \
    {.name = "self_attn.q_proj", .parts = {HS__QUERY}, .bias = (its_bias)},                                  \
    {.name = "self_attn.k_proj", .parts = {HS__KEY}, .bias = (its_bias)},                                    \
    {.name = "self_attn.v_proj", .parts = {HS__VALUE}, .bias = (its_bias)}
#define OUTPUT(its_bias) {.name = "self_attn.o_proj", .parts = {HS__OUTPUT}, .bias = (its_bias)}
#define ATTENTION QKV(HS__IF_ATTENTION_BIASED), OUTPUT(HS__IF_OUTPUT_BIASED)
#define FEED                                                                                                 \
    {.name = "mlp.gate_proj", .parts = {HS__FFN_GATE}, .bias = HS__IF_FFN_BIASED},                           \
    {.name = "mlp.up_proj", .parts = {HS__FFN_IN}, .bias = HS__IF_FFN_BIASED},                               \
    {.name = "mlp.down_proj", .parts = {HS__FFN_OUT}, .bias = HS__IF_FFN_BIASED}
#define REST                                                                                                 \
    {.name = "input_layernorm", .parts = {HS__ATTENTION_NORM}},                                              \
    {.name = "post_attention_layernorm", .parts = {HS__FFN_NORM}},                                           \
    FEED

/* A layout with the names of Llama outside of its layers, and the fields of a causal family with its keys. */
#define NAMES                                                                                                \
    .word = "embed_tokens", .layer = "layers.", .below = ".", .final_norm = "norm",                          \
    .norms_without_bias = true
#define LAYOUT(modules) {NAMES, .layers = (modules)}
#define FAMILY_OF(type, names, its_keys, its_predictor, configurer)                                          \
    .types = {(type)}, .keys = {&(its_keys)},                                                                \
    .prefixes = {"", "model.", "transformer.", "language_model.model.", "model.language_model."},            \
    .layouts = {&(names)}, .predictors = {&(its_predictor)}, .sequence = &hs__score_head,                    \
    .configure = (configurer), .causal = true, .scales_rotation = true
#define FAMILY(type, names, configurer) FAMILY_OF(type, names, keys, predictor, configurer)

/* clang-format on */

/* Reads attention_bias, which is `otherwise` in a config without it, and with of_ffn mlp_bias. */
static void read_biases(hs__config *config, bool otherwise, bool of_ffn, hs_architecture *architecture)
{
    architecture->attention_biased = hs__config_flag_or(config, "attention_bias", otherwise);
    architecture->output_biased = architecture->attention_biased;
    if (of_ffn)
        architecture->ffn_biased = hs__config_flag_or(config, "mlp_bias", false);
    else
        hs__config_unused(config, "mlp_bias");
}

static void refuse_biases(hs__config *config)
{
    hs__config_unused(config, "attention_bias");
    hs__config_unused(config, "mlp_bias");
}

/* Reads all keys but those of biases and of rotary positions. `eps` is of a config without one. */
static void configure_layers(hs__config *config, double eps, hs_architecture *architecture)
{
    architecture->norms_before = true;
    architecture->norm_kind = HS_NORM_RMS;
    architecture->norm_eps = (float)hs__config_number_or(config, "rms_norm_eps", 1e-30, 1, eps);
    architecture->activation = hs__config_activation(config, "hidden_act", HS_SILU);
}

static void configure_rotated(hs__config *config, double eps, hs_architecture *architecture)
{
    configure_layers(config, eps, architecture);
    hs__config_rotation(config, (hs__rotation_keys){.theta = "rope_theta"}, architecture);
}

/* ---- Llama 2 and 3 (Touvron et al. 2023, Grattafiori et al. 2024) and SmolLM ---- */

static const hs__module llama_modules[] = {
    ATTENTION,
    REST,
    {0},
};

static const hs__layout llama_layout = LAYOUT(llama_modules);

static void configure_llama(hs__config *config, hs_architecture *architecture)
{
    read_biases(config, false, true, architecture);
    configure_rotated(config, 1e-6, architecture);
}

const hs__family hs__family_llama = {FAMILY("llama", llama_layout, configure_llama),
                                     .tokens = &hs__score_head, .span = &hs__span_head,
                                     .default_positions = 2048};

/* ---- SmolLM3 (Bakouch et al. 2025): Llama whose every fourth layer has no positions ---- */

static const hs__shape_keys smollm3_keys = KEYS(.kv_heads_default = 4);
static const hs__predictor_names tied_predictor = {.decoder = "lm_head"};

/* Returns true if no_rope_layers gives the layer a 1: it is rotated, in spite of the key's name. Without the
 * key, each layer but the `every`-th is. */
static bool has_rotation(hs__config *config, const json_t *list, size_t every, size_t layer)
{
    const json_t *value = json_array_get(list, layer);
    const json_int_t flag = json_integer_value(value);
    if (!list || json_is_null(list))
        return (layer + 1) % every != 0;
    if (!json_is_integer(value) || flag < 0 || flag > 1)
        hs__config_refuse(config, "no_rope_layers must have a 0 or a 1 for layer %zu", layer);
    return flag == 1;
}

static void configure_smollm3(hs__config *config, hs_architecture *architecture)
{
    const size_t every = hs__config_size_or(config, "no_rope_layer_interval", 1, HS_LAYERS_MAX, 4);
    const json_t *list = json_object_get(config->keys, "no_rope_layers");
    const json_t *types = json_object_get(config->keys, "layer_types");
    read_biases(config, false, true, architecture);
    configure_layers(config, 1e-6, architecture);
    hs__config_unused(config, "use_sliding_window");
    hs__config_rotation(config, (hs__rotation_keys){.theta = "rope_theta", .base = 2e6}, architecture);
    for (size_t i = 0; i < architecture->shape.n_layers && !config->status; i++) {
        if (types && !json_is_null(types) && hs__config_slides(config, types, i))
            hs__config_refuse(config, "layer_types must name \"full_attention\" for each layer");
        if (!has_rotation(config, list, every, i))
            architecture->layers[i].rotation_base = 0;
    }
}

const hs__family hs__family_smollm3 = {
    FAMILY_OF("smollm3", llama_layout, smollm3_keys, tied_predictor, configure_smollm3),
    .tokens = &hs__score_head,
    .span = &hs__span_head,
    .pads = true,
    .padding_id = 128004,
    .default_positions = 32768};

/* ---- Mistral (Jiang et al. 2023), in version 0.1 with a sliding window ---- */

static void configure_ministral(hs__config *config, hs_architecture *architecture)
{
    const json_t *types = json_object_get(config->keys, "layer_types");
    refuse_biases(config);
    configure_rotated(config, 1e-6, architecture);
    if (json_is_null(json_object_get(config->keys, "sliding_window")))
        hs__config_refuse(config, "sliding_window must be an integer");
    hs__config_window(config, 4096, types, 0, architecture);
}

/* Reads Mistral's config. As in transformers, one with layer_types is Ministral's. */
static void configure_mistral(hs__config *config, hs_architecture *architecture)
{
    if (json_object_get(config->keys, "layer_types")) {
        configure_ministral(config, architecture);
        return;
    }
    refuse_biases(config);
    configure_rotated(config, 1e-6, architecture);
    hs__config_window(config, 4096, NULL, 0, architecture);
}

const hs__family hs__family_mistral = {
    FAMILY_OF("mistral", llama_layout, mistral_keys, predictor, configure_mistral), .tokens = &hs__score_head,
    .span = &hs__span_head, .default_positions = 131072};

const hs__family hs__family_ministral = {
    FAMILY_OF("ministral", llama_layout, mistral_keys, predictor, configure_ministral),
    .tokens = &hs__score_head, .span = &hs__span_head, .default_positions = 131072};

/* ---- Qwen2 and Qwen2.5 (Yang et al. 2024): biases of queries, keys and values ---- */

static const hs__module qwen2_modules[] = {
    QKV(HS__BIAS),
    OUTPUT(HS__NO_BIAS),
    REST,
    {0},
};

static const hs__layout qwen2_layout = LAYOUT(qwen2_modules);

static void configure_qwen(hs__config *config, hs_architecture *architecture)
{
    configure_rotated(config, 1e-6, architecture);
    if (hs__config_flag_or(config, "use_sliding_window", false))
        hs__config_window(config, 4096, json_object_get(config->keys, "layer_types"),
                          hs__config_size_or(config, "max_window_layers", 0, 1 << 20, 28), architecture);
}

static void configure_qwen2(hs__config *config, hs_architecture *architecture)
{
    refuse_biases(config);
    configure_qwen(config, architecture);
}

const hs__family hs__family_qwen2 = {FAMILY_OF("qwen2", qwen2_layout, qwen2_keys, predictor, configure_qwen2),
                                     .tokens = &hs__score_head, .span = &hs__span_head,
                                     .default_positions = 32768};

/* ---- Qwen3 (Yang et al. 2025): RMS norms of each head's queries and keys ---- */

static const hs__module qwen3_modules[] = {
    ATTENTION,
    {.name = "self_attn.q_norm", .parts = {HS__QUERY_NORM}},
    {.name = "self_attn.k_norm", .parts = {HS__KEY_NORM}},
    REST,
    {0},
};

static const hs__layout qwen3_layout = LAYOUT(qwen3_modules);

static void configure_qwen3(hs__config *config, hs_architecture *architecture)
{
    read_biases(config, false, false, architecture);
    configure_qwen(config, architecture);
}

const hs__family hs__family_qwen3 = {FAMILY_OF("qwen3", qwen3_layout, qwen3_keys, predictor, configure_qwen3),
                                     .tokens = &hs__score_head, .span = &hs__span_head,
                                     .default_positions = 32768};

/* ---- Phi-3 and Phi-4 (Abdin et al. 2024): queries, keys and values in one module, the gate in another ----
 */

static const hs__module phi3_modules[] = {
    {.name = "self_attn.qkv_proj", .parts = {HS__QUERY, HS__KEY, HS__VALUE}, .bias = HS__NO_BIAS},
    {.name = "self_attn.o_proj", .parts = {HS__OUTPUT}, .bias = HS__NO_BIAS},
    {.name = "input_layernorm", .parts = {HS__ATTENTION_NORM}},
    {.name = "post_attention_layernorm", .parts = {HS__FFN_NORM}},
    {.name = "mlp.gate_up_proj", .parts = {HS__FFN_GATE, HS__FFN_IN}, .bias = HS__NO_BIAS},
    {.name = "mlp.down_proj", .parts = {HS__FFN_OUT}, .bias = HS__NO_BIAS},
    {0},
};

static const hs__layout phi3_layout = LAYOUT(phi3_modules);

/* Reads Phi-3's config, whose only scaling is longrope. */
static void configure_phi3(hs__config *config, hs_architecture *architecture)
{
    refuse_biases(config);
    configure_layers(config, 1e-5, architecture);
    hs__config_rotation(config,
                        (hs__rotation_keys){.theta = "rope_theta",
                                            .fraction = "partial_rotary_factor",
                                            .original = 4096,
                                            .longrope_only = true},
                        architecture);
    hs__config_window(config, 0, NULL, 0, architecture); /* transformers ignores layer_types here */
}

const hs__family hs__family_phi3 = {FAMILY("phi3", phi3_layout, configure_phi3), .tokens = &hs__score_head,
                                    .pads = true, .padding_id = 32000, .default_positions = 4096};

/* ---- Granite 3 (IBM 2024): Llama whose embedding, scores, sums and logits are scaled ---- */

static void configure_granite(hs__config *config, hs_architecture *architecture)
{
    read_biases(config, false, true, architecture);
    configure_rotated(config, 1e-6, architecture);
    architecture->embedding.scale = hs__config_number_or(config, "embedding_multiplier", 1e-6, 1e6, 1);
    architecture->score_divisor = 1 / hs__config_number_or(config, "attention_multiplier", 1e-6, 1e6, 1);
    architecture->predictor.scale = 1 / hs__config_number_or(config, "logits_scaling", 1e-6, 1e6, 1);
    architecture->residual_scale = hs__config_number_or(config, "residual_multiplier", 1e-6, 1e6, 1);
}

const hs__family hs__family_granite = {FAMILY("granite", llama_layout, configure_granite),
                                       .default_positions = 2048};

/* ---- Seed-OSS (ByteDance 2025) ---- */

static const hs__shape_keys seed_oss_keys = KEYS(.kv_heads_default = 8, .head_width_default = 128);

static void configure_seed_oss(hs__config *config, hs_architecture *architecture)
{
    read_biases(config, true, true, architecture);
    architecture->output_biased = hs__config_flag_or(config, "attention_out_bias", false);
    configure_rotated(config, 1e-6, architecture);
}

const hs__family hs__family_seed_oss = {
    FAMILY_OF("seed_oss", llama_layout, seed_oss_keys, predictor, configure_seed_oss),
    .tokens = &hs__score_head,
    .span = &hs__span_head,
    .pads = true,
    .padding_id = 1,
    .default_positions = 524288};

/* ---- Helium (Kyutai 2025), and GLM 4 (GLM team 2024), whose neighbouring columns are rotated ---- */

static const hs__shape_keys helium_keys = KEYS(.kv_heads_default = 20, .head_width_default = 128),
                            glm_keys = KEYS(.kv_heads_default = 2, .head_width_default = 128);

static const hs__module glm_modules[] = {
    QKV(HS__IF_ATTENTION_BIASED),
    OUTPUT(HS__NO_BIAS),
    {.name = "input_layernorm", .parts = {HS__ATTENTION_NORM}},
    {.name = "post_attention_layernorm", .parts = {HS__FFN_NORM}},
    {.name = "mlp.gate_up_proj", .parts = {HS__FFN_GATE, HS__FFN_IN}, .bias = HS__NO_BIAS},
    {.name = "mlp.down_proj", .parts = {HS__FFN_OUT}, .bias = HS__NO_BIAS},
    {0},
};

static const hs__module glm4_modules[] = {
    QKV(HS__IF_ATTENTION_BIASED),
    OUTPUT(HS__NO_BIAS),
    {.name = "input_layernorm", .parts = {HS__ATTENTION_NORM}},
    {.name = "post_self_attn_layernorm", .parts = {HS__ATTENTION_OUT_NORM}},
    {.name = "post_attention_layernorm", .parts = {HS__FFN_NORM}},
    {.name = "post_mlp_layernorm", .parts = {HS__FFN_OUT_NORM}},
    {.name = "mlp.gate_up_proj", .parts = {HS__FFN_GATE, HS__FFN_IN}, .bias = HS__NO_BIAS},
    {.name = "mlp.down_proj", .parts = {HS__FFN_OUT}, .bias = HS__NO_BIAS},
    {0},
};

static const hs__module helium_modules[] = {
    QKV(HS__IF_ATTENTION_BIASED),
    OUTPUT(HS__NO_BIAS),
    REST,
    {0},
};

static const hs__layout glm_layout = LAYOUT(glm_modules), glm4_layout = LAYOUT(glm4_modules),
                        helium_layout = LAYOUT(helium_modules);

static void configure_helium(hs__config *config, hs_architecture *architecture)
{
    read_biases(config, false, true, architecture);
    configure_layers(config, 1e-8, architecture);
    hs__config_rotation(config, (hs__rotation_keys){.theta = "rope_theta", .base = 1e5}, architecture);
    architecture->rotary.interleaved = true;
}

static void configure_glm(hs__config *config, hs_architecture *architecture)
{
    read_biases(config, true, false, architecture);
    configure_layers(config, 1.5625e-7, architecture);
    hs__config_rotation(
        config, (hs__rotation_keys){.theta = "rope_theta", .fraction = "partial_rotary_factor", .share = 0.5},
        architecture);
    architecture->rotary.interleaved = true;
}

const hs__family hs__family_helium = {
    FAMILY_OF("helium", helium_layout, helium_keys, predictor, configure_helium), .tokens = &hs__score_head,
    .pads = true, .padding_id = 3, .default_positions = 4096};
const hs__family hs__family_glm = {FAMILY_OF("glm", glm_layout, glm_keys, predictor, configure_glm),
                                   .tokens = &hs__score_head, .pads = true, .padding_id = 151329,
                                   .default_positions = 131072};
const hs__family hs__family_glm4 = {FAMILY_OF("glm4", glm4_layout, glm_keys, predictor, configure_glm),
                                    .tokens = &hs__score_head, .pads = true, .padding_id = 151329,
                                    .default_positions = 131072};

/* ---- OLMo 2 (OLMo team 2025): norms of what is added to the state, and of all queries and all keys ---- */

static const hs__module olmo2_modules[] = {
    ATTENTION,
    {.name = "self_attn.q_norm", .parts = {HS__QUERY_NORM}},
    {.name = "self_attn.k_norm", .parts = {HS__KEY_NORM}},
    {.name = "post_attention_layernorm", .parts = {HS__ATTENTION_OUT_NORM}},
    {.name = "post_feedforward_layernorm", .parts = {HS__FFN_OUT_NORM}},
    FEED,
    {0},
};

static const hs__layout olmo2_layout = LAYOUT(olmo2_modules);

static void configure_olmo2(hs__config *config, hs_architecture *architecture)
{
    read_biases(config, false, false, architecture);
    configure_rotated(config, 1e-5, architecture);
    architecture->qk_norms_whole = true;
}

const hs__family hs__family_olmo2 = {FAMILY("olmo2", olmo2_layout, configure_olmo2), .pads = true,
                                     .padding_id = 1, .default_positions = 2048};

/* Reads OLMo 3's config: OLMo 2 with a window in three of four layers, which no scaling of rotation changes.
 */
static void configure_olmo3(hs__config *config, hs_architecture *architecture)
{
    static const hs__rotation_keys rotation = {
        .theta = "rope_theta", .part = "full_attention", .base = 500000};
    const json_t *types = json_object_get(config->keys, "layer_types");
    const size_t n_keys = hs__config_size_or(config, "sliding_window", 2, HS__WINDOW_MAX, 4096);
    read_biases(config, false, false, architecture);
    configure_layers(config, 1e-5, architecture);
    hs__config_rotation(config, rotation, architecture);
    /* As in transformers, a rope_theta beside rope_parameters is of layers without a window only. */
    const double local = hs__config_theta_or(config, "sliding_attention", rotation.base);
    for (size_t i = 0; i < architecture->shape.n_layers && !config->status; i++)
        if (hs__config_has_window(config, types, 4, i)) {
            hs__window_set(architecture, i, n_keys);
            architecture->layers[i].rotation_base = local;
            architecture->layers[i].rotation_unscaled = true;
        }
    architecture->qk_norms_whole = true;
}

const hs__family hs__family_olmo3 = {FAMILY("olmo3", olmo2_layout, configure_olmo3), .pads = true,
                                     .padding_id = 1, .default_positions = 2048};

/* ---- Gemma (Gemma team 2024): Llama with wide heads, a scaled embedding and norms around one ---- */

static const hs__shape_keys gemma_keys = KEYS(.kv_heads_default = 16, .head_width_default = 256);
static const hs__layout gemma_layout = {NAMES, .layers = llama_modules, .norms_around_one = true};

/* Reads Gemma's config. Its "gelu" has always meant the approximation. */
static void configure_gemma(hs__config *config, hs_architecture *architecture)
{
    const char *activation = hs__config_text(config, "hidden_act");
    read_biases(config, false, false, architecture);
    configure_rotated(config, 1e-6, architecture);
    hs__config_unused(config, "use_bidirectional_attention");
    hs__config_only(config, "hidden_activation", "gelu_pytorch_tanh");
    if (!activation || strcmp(activation, "gelu") == 0)
        architecture->activation = HS_GELU_TANH;
    architecture->embedding.scale = sqrt((double)architecture->shape.hidden);
}

const hs__family hs__family_gemma = {
    FAMILY_OF("gemma", gemma_layout, gemma_keys, tied_predictor, configure_gemma), .tokens = &hs__score_head,
    .pads = true, .default_positions = 8192};

/* ---- Gemma 2 and 3 (Gemma team 2024, 2025): norms before the blocks and of what they add ---- */

#define GEMMA_REST                                                                                           \
    {.name = "input_layernorm", .parts = {HS__ATTENTION_NORM}},                                              \
        {.name = "post_attention_layernorm", .parts = {HS__ATTENTION_OUT_NORM}},                             \
        {.name = "pre_feedforward_layernorm", .parts = {HS__FFN_NORM}},                                      \
        {.name = "post_feedforward_layernorm", .parts = {HS__FFN_OUT_NORM}}, FEED

static const hs__module gemma2_modules[] = {ATTENTION, GEMMA_REST, {0}};
static const hs__module gemma3_modules[] = {
    ATTENTION,
    {.name = "self_attn.q_norm", .parts = {HS__QUERY_NORM}},
    {.name = "self_attn.k_norm", .parts = {HS__KEY_NORM}},
    GEMMA_REST,
    {0},
};

static const hs__layout gemma2_layout = {NAMES, .layers = gemma2_modules, .norms_around_one = true};
static const hs__layout gemma3_layout = {NAMES, .layers = gemma3_modules, .norms_around_one = true};

/* Reads a cap of scores or logits; null means none. */
static double read_cap(hs__config *config, const char *key, double otherwise)
{
    return json_object_get(config->keys, key) ? hs__config_number_or(config, key, 1e-6, 1e6, 0) : otherwise;
}

/* Reads what both have. Each layer but the `every`-th has a window, unless layer_types says otherwise. Layers
 * with a window rotate by `local`, if it is not 0. */
static void configure_windows(hs__config *config, size_t every, double local, hs_architecture *architecture)
{
    const size_t n_keys = hs__config_size_or(config, "sliding_window", 2, HS__WINDOW_MAX, 4096);
    const bool both_ways = hs__config_flag_or(config, "use_bidirectional_attention", false);
    const json_t *types = json_object_get(config->keys, "layer_types");
    /* transformers halves the window if both ways are read, and a mask without causal order has one key more
     */
    const size_t width = (both_ways ? n_keys / 2 : n_keys - 1) + !architecture->causal;
    architecture->causal &= !both_ways;
    for (size_t i = 0; i < architecture->shape.n_layers && !config->status; i++) {
        hs_layer *layer = &architecture->layers[i];
        if (!hs__config_has_window(config, types, every, i))
            continue;
        layer->window = width < HS_POSITIONS_MAX ? width : 0;
        layer->rotation_base = local > 0 ? local : layer->rotation_base;
        layer->rotation_unscaled = local > 0;
    }
    architecture->activation = hs__config_activation(config, "hidden_activation", HS_GELU_TANH);
    architecture->embedding.scale = sqrt((double)architecture->shape.hidden);
    architecture->score_divisor = sqrt(hs__config_number_or(config, "query_pre_attn_scalar", 1e-6, 1e6, 256));
}

static void configure_gemma2(hs__config *config, hs_architecture *architecture)
{
    read_biases(config, false, false, architecture);
    configure_layers(config, 1e-6, architecture);
    hs__config_unused(config, "use_bidirectional_attention");
    hs__config_rotation(config, (hs__rotation_keys){.theta = "rope_theta"}, architecture);
    configure_windows(config, 2, 0, architecture);
    architecture->score_cap = read_cap(config, "attn_logit_softcapping", 50);
    architecture->predictor.cap = read_cap(config, "final_logit_softcapping", 30);
}

/* Reads the config of Gemma 3 and of EmbeddingGemma, whose tokens see both sides. */
static void configure_gemma3(hs__config *config, hs_architecture *architecture)
{
    read_biases(config, false, false, architecture);
    configure_layers(config, 1e-6, architecture);
    hs__config_unused(config, "attn_logit_softcapping");
    hs__config_rotation(config,
                        (hs__rotation_keys){.theta = "rope_theta", .part = "full_attention", .base = 1e6},
                        architecture);
    const double local = hs__config_theta_or(
        config, "sliding_attention", hs__config_number_or(config, "rope_local_base_freq", 1, 1e12, 10000));
    configure_windows(config, hs__config_size_or(config, "sliding_window_pattern", 1, HS_LAYERS_MAX, 6),
                      local, architecture);
    architecture->predictor.cap = read_cap(config, "final_logit_softcapping", 0);
}

const hs__family hs__family_gemma2 = {
    FAMILY_OF("gemma2", gemma2_layout, gemma2_keys, tied_predictor, configure_gemma2),
    .tokens = &hs__score_head, .pads = true, .default_positions = 8192};
const hs__family hs__family_gemma3 = {
    FAMILY_OF("gemma3_text", gemma3_layout, gemma2_keys, tied_predictor, configure_gemma3), .pads = true,
    .default_positions = 131072};

/* ---- EuroBERT (Boizard et al. 2025): an encoder, without the causal mask ---- */

static const hs__head_names eurobert_sequence = {.dense = "dense",
                                                 .activation = HS_GELU,
                                                 .output = "classifier",
                                                 .pooling_key = "classifier_pooling",
                                                 .may_pool_late = true};

static void configure_eurobert(hs__config *config, hs_architecture *architecture)
{
    read_biases(config, false, true, architecture);
    configure_rotated(config, 1e-5, architecture);
}

const hs__family hs__family_eurobert = {
    .types = {"eurobert"},
    .keys = {&keys},
    .prefixes = {"", "model."},
    .layouts = {&llama_layout},
    .predictors = {&predictor},
    .sequence = &eurobert_sequence,
    .tokens = &hs__classifier_head,
    .configure = configure_eurobert,
    .scales_rotation = true,
    .default_positions = 8192,
};
