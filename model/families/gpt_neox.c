/* gpt_neox.c - GPT-NeoX and Pythia (Black et al. 2022, Biderman et al. 2023), and GPT-J (Wang and Komatsuzaki
 * 2021) before them. Norms come before, part of each head has rotary positions, and the residual is usually
 * parallel. BLOOM (Scao et al. 2022) has ALiBi in place of positions, and its blocks follow each other. */
#include "model/families/family.h"

/* ---- GPT-NeoX: queries, keys and values are packed per head ---- */

static const hs__shape_keys keys = {
    HS__DEFAULT_KEYS,
    .long_texts = true,
};

static const hs__module modules[] = {
    {.name = "attention.query_key_value", .parts = {HS__QUERY, HS__KEY, HS__VALUE}, .grouped = true},
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

static const hs__predictor_names predictor = {.decoder = "embed_out", .untied = true},
                                 newer_predictor = {.decoder = "lm_head", .untied = true};

static void configure(hs__config *config, hs_architecture *architecture)
{
    if (!hs__config_flag_or(config, "attention_bias", true))
        hs__config_refuse(config, "attention_bias must be true");
    if (hs__config_has(config,
                       "head_dim")) /* transformers would rotate by it heads of the width that follows */
        hs__config_size(config, "head_dim", architecture->shape.head_width, architecture->shape.head_width);
    architecture->norms_before = true;
    architecture->parallel_residual = hs__config_flag_or(config, "use_parallel_residual", true);
    architecture->norm_eps = (float)hs__config_number_or(config, "layer_norm_eps", 1e-30, 1, 1e-5);
    architecture->activation = hs__config_activation(config, "hidden_act", HS_GELU);
    hs__config_rotation(
        config, (hs__rotation_keys){.theta = "rotary_emb_base", .fraction = "rotary_pct", .share = 0.25},
        architecture);
}

const hs__family hs__family_gpt_neox = {
    .types = {"gpt_neox"},
    .keys = {&keys},
    .prefixes = {"", "gpt_neox."},
    .layouts = {&layout},
    .predictors = {&predictor, &newer_predictor},
    .sequence = &hs__score_head,
    .tokens = &hs__classifier_head,
    .span = &hs__span_head,
    .configure = configure,
    .causal = true,
    .scales_rotation = true,
    .default_positions = 2048,
};

/* ---- GPT-J: one norm for both blocks, neighbouring columns rotated, a head with a bias ---- */

static const hs__shape_keys gptj_keys = {
    .n_layers = "n_layer",
    .n_heads = "n_head",
    .hidden = "n_embd",
    .ffn = "n_inner",
    .n_positions = "n_positions",
    .vocab_size = "vocab_size",
    .ffn_factor = 4,
};

static const hs__module gptj_modules[] = {
    {.name = "attn.q_proj", .parts = {HS__QUERY}, .bias = HS__NO_BIAS},
    {.name = "attn.k_proj", .parts = {HS__KEY}, .bias = HS__NO_BIAS},
    {.name = "attn.v_proj", .parts = {HS__VALUE}, .bias = HS__NO_BIAS},
    {.name = "attn.out_proj", .parts = {HS__OUTPUT}, .bias = HS__NO_BIAS},
    {.name = "ln_1", .parts = {HS__ATTENTION_NORM}},
    {.name = "ln_1", .parts = {HS__FFN_NORM}},
    {.name = "mlp.fc_in", .parts = {HS__FFN_IN}},
    {.name = "mlp.fc_out", .parts = {HS__FFN_OUT}},
    {0},
};

static const hs__layout gptj_layout = {
    .word = "wte",
    .layer = "h.",
    .below = ".",
    .layers = gptj_modules,
    .final_norm = "ln_f",
};

static const hs__predictor_names gptj_predictor = {
    .decoder = "lm_head", .untied = true, .biases = {"lm_head"}};

static void configure_gptj(hs__config *config, hs_architecture *architecture)
{
    architecture->norms_before = architecture->parallel_residual = true;
    architecture->norm_eps = (float)hs__config_number_or(config, "layer_norm_epsilon", 1e-30, 1, 1e-5);
    architecture->activation = hs__config_activation(config, "activation_function", HS_GELU_TANH);
    architecture->rotary.width =
        hs__config_size_or(config, "rotary_dim", 2, architecture->shape.head_width, 64);
    if (architecture->rotary.width > architecture->shape.head_width)
        hs__config_refuse(config, "rotary_dim is missing, and 64 are more than the %zu columns of a head",
                          architecture->shape.head_width);
    architecture->rotary.interleaved = true;
    for (size_t i = 0; i < architecture->shape.n_layers; i++)
        architecture->layers[i].rotation_base = 10000;
}

const hs__family hs__family_gptj = {
    .types = {"gptj"},
    .keys = {&gptj_keys},
    .prefixes = {"", "transformer."},
    .layouts = {&gptj_layout},
    .predictors = {&gptj_predictor},
    .sequence = &hs__score_head,
    .span = &hs__span_head,
    .configure = configure_gptj,
    .causal = true,
    .default_positions = 2048,
};

/* ---- BLOOM: a norm of the embeddings, and scores that fall with distance ---- */

#define BLOOM_KEYS(heads, width)                                                                             \
    {                                                                                                        \
        .n_layers = "n_layer", .n_heads = (heads), .hidden = (width), .vocab_size = "vocab_size",            \
        .positions = 2048, .ffn_factor = 4                                                                   \
    }

/* The published files have n_embed, which counts in transformers, and num_attention_heads. */
static const hs__shape_keys bloom_keys[] = {
    BLOOM_KEYS("n_head", "n_embed"), BLOOM_KEYS("num_attention_heads", "n_embed"),
    BLOOM_KEYS("n_head", "hidden_size"), BLOOM_KEYS("num_attention_heads", "hidden_size")};

static const hs__module bloom_modules[] = {
    {.name = "self_attention.query_key_value", .parts = {HS__QUERY, HS__KEY, HS__VALUE}, .grouped = true},
    {.name = "self_attention.dense", .parts = {HS__OUTPUT}},
    {.name = "input_layernorm", .parts = {HS__ATTENTION_NORM}},
    {.name = "post_attention_layernorm", .parts = {HS__FFN_NORM}},
    {.name = "mlp.dense_h_to_4h", .parts = {HS__FFN_IN}},
    {.name = "mlp.dense_4h_to_h", .parts = {HS__FFN_OUT}},
    {0},
};

static const hs__layout bloom_layout = {
    .word = "word_embeddings",
    .embedding_norm = "word_embeddings_layernorm",
    .layer = "h.",
    .below = ".",
    .layers = bloom_modules,
    .final_norm = "ln_f",
};

static const hs__predictor_names bloom_predictor = {.decoder = "lm_head"};

static void configure_bloom(hs__config *config, hs_architecture *architecture)
{
    hs__config_unused(config, "apply_residual_connection_post_layernorm");
    hs__config_unused(config, "slow_but_exact");
    if (!architecture->causal)
        hs__config_refuse(config, "is_causal must be true");
    architecture->norms_before = true;
    architecture->alibi = true;
    architecture->norm_eps = (float)hs__config_number_or(config, "layer_norm_epsilon", 1e-30, 1, 1e-5);
    architecture->activation = HS_GELU_TANH;
}

const hs__family hs__family_bloom = {
    .types = {"bloom"},
    .keys = {&bloom_keys[0], &bloom_keys[1], &bloom_keys[2], &bloom_keys[3]},
    .prefixes = {"", "transformer."},
    .layouts = {&bloom_layout},
    .predictors = {&bloom_predictor},
    .sequence = &hs__score_head,
    .tokens = &hs__classifier_head,
    .span = &hs__span_head,
    .configure = configure_bloom,
    .causal = true,
};
