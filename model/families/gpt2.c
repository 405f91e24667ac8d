/* gpt2.c - GPT-2 (Radford et al. 2019): norms before, learned positions, and matrices stored [in][out]. A
 * config may divide the scores of layer l by l + 1, as Stanford's models do (Mistral of CRFM). GPT
 * (Radford et al. 2018) norms after. In GPT-BigCode (SantaCoder and StarCoder 1, Li et al. 2023) heads share
 * a key and a value. GPT-Neo (Black et al. 2021) does not divide scores, and its local layers have a window.
 */
#include "model/families/family.h"

#include <string.h>

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

static void configure_layers(hs__config *config, hs_activation activation, hs_architecture *architecture)
{
    architecture->norms_before = true;
    architecture->norm_eps = (float)hs__config_number_or(config, "layer_norm_epsilon", 1e-30, 1, 1e-5);
    architecture->activation = hs__config_activation(config, "activation_function", activation);
}

/* Reads whether scores are divided by the square root of a head's width. */
static void configure_scores(hs__config *config, hs_architecture *architecture)
{
    if (!hs__config_flag_or(config, "scale_attn_weights", true))
        architecture->score_divisor = 1;
}

static void configure(hs__config *config, hs_architecture *architecture)
{
    const bool by_layer = hs__config_flag_or(config, "scale_attn_by_inverse_layer_idx", false);
    configure_scores(config, architecture);
    for (size_t i = 0; by_layer && i < architecture->shape.n_layers; i++)
        architecture->layers[i].score_divisor = (double)(i + 1);
    configure_layers(config, HS_GELU_TANH, architecture);
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
    .default_positions = 1024,
};

/* ---- GPT-BigCode ---- */

static const hs__module bigcode_modules[] = {
    {.name = "attn.c_attn", .parts = {HS__QUERY, HS__KEY, HS__VALUE}, .grouped = true},
    {.name = "attn.c_proj", .parts = {HS__OUTPUT}},
    {.name = "ln_1", .parts = {HS__ATTENTION_NORM}},
    {.name = "mlp.c_fc", .parts = {HS__FFN_IN}},
    {.name = "mlp.c_proj", .parts = {HS__FFN_OUT}},
    {.name = "ln_2", .parts = {HS__FFN_NORM}},
    {0},
};

static const hs__layout bigcode_layout = {
    .word = "wte",
    .position = "wpe",
    .layer = "h.",
    .below = ".",
    .layers = bigcode_modules,
    .final_norm = "ln_f",
};

/* Reads GPT-BigCode's config. All heads share one key and value, or each head's are beside its query. */
static void configure_bigcode(hs__config *config, hs_architecture *architecture)
{
    if (hs__config_flag_or(config, "multi_query", true))
        architecture->shape.n_kv_heads = 1;
    configure_scores(config, architecture);
    configure_layers(config, HS_GELU_TANH, architecture);
}

const hs__family hs__family_gpt_bigcode = {
    .types = {"gpt_bigcode"},
    .keys = {&keys},
    .prefixes = {"", "transformer."},
    .layouts = {&bigcode_layout},
    .predictors = {&predictor},
    .sequence = &hs__score_head,
    .tokens = &hs__classifier_head,
    .configure = configure_bigcode,
    .causal = true,
    .default_positions = 1024,
};

/* ---- GPT: norms after ---- */

static const hs__shape_keys gpt_keys = {
    .n_layers = "n_layer",
    .n_heads = "n_head",
    .hidden = "n_embd",
    .n_positions = "n_positions",
    .vocab_size = "vocab_size",
    .ffn_factor = 4,
};

static const hs__layout gpt_layout = {
    .word = "tokens_embed",
    .position = "positions_embed",
    .layer = "h.",
    .below = ".",
    .layers = modules,
};

/* Reads GPT's config, whose "gelu" is the approximation by tanh. */
static void configure_gpt(hs__config *config, hs_architecture *architecture)
{
    const char *name = hs__config_text(config, "afn");
    const bool gelu = !name || strcmp(name, "gelu") == 0;
    if (!gelu && strcmp(name, "relu") != 0 && strcmp(name, "silu") != 0 && strcmp(name, "swish") != 0)
        hs__config_refuse(
            config, "afn must be \"gelu\", \"relu\", \"silu\" or \"swish\"; not supported: \"%s\"", name);
    if (!architecture->causal)
        hs__config_refuse(config, "is_causal must be true");
    architecture->norm_eps = (float)hs__config_number_or(config, "layer_norm_epsilon", 1e-30, 1, 1e-5);
    architecture->activation = gelu ? HS_GELU_TANH : hs__config_activation(config, "afn", HS_GELU_TANH);
}

const hs__family hs__family_openai_gpt = {
    .types = {"openai-gpt"},
    .keys = {&gpt_keys},
    .prefixes = {"", "transformer."},
    .layouts = {&gpt_layout},
    .predictors = {&predictor},
    .sequence = &hs__score_head,
    .configure = configure_gpt,
    .causal = true,
    .default_positions = 512,
};

/* ---- GPT-Neo ---- */

static const hs__shape_keys neo_keys = {
    .n_layers = "num_layers",
    .n_heads = "num_heads",
    .hidden = "hidden_size",
    .ffn = "intermediate_size",
    .n_positions = "max_position_embeddings",
    .vocab_size = "vocab_size",
    .ffn_factor = 4,
};

static const hs__module neo_modules[] = {
    {.name = "attn.attention.q_proj", .parts = {HS__QUERY}, .bias = HS__NO_BIAS},
    {.name = "attn.attention.k_proj", .parts = {HS__KEY}, .bias = HS__NO_BIAS},
    {.name = "attn.attention.v_proj", .parts = {HS__VALUE}, .bias = HS__NO_BIAS},
    {.name = "attn.attention.out_proj", .parts = {HS__OUTPUT}},
    {.name = "ln_1", .parts = {HS__ATTENTION_NORM}},
    {.name = "mlp.c_fc", .parts = {HS__FFN_IN}},
    {.name = "mlp.c_proj", .parts = {HS__FFN_OUT}},
    {.name = "ln_2", .parts = {HS__FFN_NORM}},
    {0},
};

static const hs__layout neo_layout = {
    .word = "wte",
    .position = "wpe",
    .layer = "h.",
    .below = ".",
    .layers = neo_modules,
    .final_norm = "ln_f",
};

/* Gives layer `at` a window if its kind is "local". Returns the next layer, or the number of layers if the
 * kind is unknown or there are too many. */
static size_t set_kind(hs__config *config, const json_t *kind, size_t window, size_t at,
                       hs_architecture *architecture)
{
    const char *name = json_string_value(kind);
    const bool local = name && strcmp(name, "local") == 0,
               known = local || (name && strcmp(name, "global") == 0);
    if (!known || at == architecture->shape.n_layers) {
        hs__config_refuse(config,
                          "attention_types must name \"global\" or \"local\" for each of the %zu layers",
                          architecture->shape.n_layers);
        return at;
    }
    architecture->layers[at].window = local ? window : 0;
    return at + 1;
}

/* Reads [[["global", "local"], 6]]: so many times these kinds of layers, in turn. */
static size_t read_kinds(hs__config *config, const json_t *types, size_t window,
                         hs_architecture *architecture)
{
    size_t at = 0;
    for (size_t i = 0; i < json_array_size(types) && !config->status; i++) {
        const json_t *kinds = json_array_get(json_array_get(types, i), 0);
        const json_int_t n = json_integer_value(json_array_get(json_array_get(types, i), 1));
        for (json_int_t k = 0; k < n && json_array_size(kinds) > 0 && !config->status; k++)
            for (size_t m = 0; m < json_array_size(kinds) && !config->status; m++)
                at = set_kind(config, json_array_get(kinds, m), window, at, architecture);
    }
    return at;
}

/* Sets the windows of local layers. A config may also have attention_types written out, as attention_layers,
 * which counts in transformers. */
static void read_windows(hs__config *config, hs_architecture *architecture)
{
    const size_t window = hs__config_size_or(config, "window_size", 2, HS_POSITIONS_MAX, 256) - 1;
    const json_t *layers = json_object_get(config->keys, "attention_layers");
    const json_t *types = json_object_get(config->keys, "attention_types");
    size_t at = 0;
    if (layers)
        for (size_t i = 0; i < json_array_size(layers) && !config->status; i++)
            at = set_kind(config, json_array_get(layers, i), window, at, architecture);
    else
        at = read_kinds(config, types, window, architecture);
    if (at < architecture->shape.n_layers)
        hs__config_refuse(config, "attention_types names %zu layers; there are %zu", at,
                          architecture->shape.n_layers);
}

static void configure_neo(hs__config *config, hs_architecture *architecture)
{
    if (!architecture->causal)
        hs__config_refuse(config, "is_causal must be true");
    architecture->score_divisor = 1;
    configure_layers(config, HS_GELU_TANH, architecture);
    read_windows(config, architecture);
}

const hs__family hs__family_gpt_neo = {
    .types = {"gpt_neo"},
    .keys = {&neo_keys},
    .prefixes = {"", "transformer."},
    .layouts = {&neo_layout},
    .predictors = {&predictor},
    .sequence = &hs__score_head,
    .tokens = &hs__classifier_head,
    .span = &hs__span_head,
    .configure = configure_neo,
    .causal = true,
    .default_positions = 2048,
};
