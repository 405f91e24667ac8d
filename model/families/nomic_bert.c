/* nomic_bert.c - NomicBERT v1 and v1.5 (Nussbaum et al. 2024): BERT with rotary positions, a gated
 * feed-forward part and no biases. Its authors use GPT-2's config keys, transformers 5 uses BERT's; their
 * tensor names differ too. */
#include "model/families/family.h"

#include <string.h>

static const hs__shape_keys gpt_keys = {
    .n_layers = "n_layer",
    .n_heads = "n_head",
    .hidden = "n_embd",
    .ffn = "n_inner",
    .n_positions = "n_positions",
    .vocab_size = "vocab_size",
};

static const hs__module authors_modules[] = {
    {.name = "attn.Wqkv", .parts = {HS__QUERY, HS__KEY, HS__VALUE}, .bias = HS__NO_BIAS},
    {.name = "attn.out_proj", .parts = {HS__OUTPUT}, .bias = HS__NO_BIAS},
    {.name = "norm1", .parts = {HS__ATTENTION_NORM}},
    {.name = "mlp.fc11", .parts = {HS__FFN_IN}, .bias = HS__NO_BIAS},
    {.name = "mlp.fc12", .parts = {HS__FFN_GATE}, .bias = HS__NO_BIAS},
    {.name = "mlp.fc2", .parts = {HS__FFN_OUT}, .bias = HS__NO_BIAS},
    {.name = "norm2", .parts = {HS__FFN_NORM}},
    {0},
};

static const hs__module modules[] = {
    {.name = "self_attn.q_proj", .parts = {HS__QUERY}, .bias = HS__NO_BIAS},
    {.name = "self_attn.k_proj", .parts = {HS__KEY}, .bias = HS__NO_BIAS},
    {.name = "self_attn.v_proj", .parts = {HS__VALUE}, .bias = HS__NO_BIAS},
    {.name = "self_attn.o_proj", .parts = {HS__OUTPUT}, .bias = HS__NO_BIAS},
    {.name = "post_attention_layernorm", .parts = {HS__ATTENTION_NORM}},
    {.name = "mlp.up_proj", .parts = {HS__FFN_IN}, .bias = HS__NO_BIAS},
    {.name = "mlp.gate_proj", .parts = {HS__FFN_GATE}, .bias = HS__NO_BIAS},
    {.name = "mlp.down_proj", .parts = {HS__FFN_OUT}, .bias = HS__NO_BIAS},
    {.name = "post_mlp_layernorm", .parts = {HS__FFN_NORM}},
    {0},
};

static size_t round_up(size_t n, size_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

static hs_activation read_gate(hs__config *config)
{
    const char *name = hs__config_text(config, "activation_function");
    if (name && strcmp(name, "swiglu") == 0)
        return HS_SILU;
    if (!name || strcmp(name, "geglu") != 0)
        hs__config_refuse(config,
                          "activation_function must be \"swiglu\" or \"geglu\"; not supported: \"%s\"",
                          name ? name : "");
    return HS_GELU;
}

/* Reads rope_theta in rope_parameters, or beside them. */
static double read_theta(hs__config *config, double otherwise)
{
    return hs__config_theta_or(config, NULL, hs__config_number_or(config, "rope_theta", 1, 1e12, otherwise));
}

/* Reads the authors' config. Sizes are rounded up as the authors' code does when it creates the tensors.
 * Positions end at n_trained, where the authors' rotation begins to depend on the text's length. */
static double configure_authors(hs__config *config, hs_architecture *architecture)
{
    static const char *const unused[] = {
        "prenorm",         "causal",       "rotary_emb_interleaved", "rotary_emb_scale_base",
        "rotary_head_dim", "norm_mlp",     "qkv_proj_bias",          "mlp_fc1_bias",
        "mlp_fc2_bias",    "use_rms_norm", "parallel_block",         "scale_attn_by_inverse_layer_idx"};
    hs_shape *shape = &architecture->shape;
    const size_t n_trained = hs__config_size_or(config, "max_trained_positions", 3, HS_POSITIONS_MAX, 2048);
    const double scaling = hs__config_number_or(config, "rotary_scaling_factor", 1, 1e6, 0);
    for (size_t i = 0; i < sizeof unused / sizeof *unused; i++)
        hs__config_unused(config, unused[i]);
    if (hs__config_number_or(config, "rotary_emb_fraction", 0, 1, 0) != 1)
        hs__config_refuse(config, "rotary_emb_fraction must be 1");
    architecture->norm_eps = (float)hs__config_number_or(config, "layer_norm_epsilon", 1e-30, 1, 1e-12);
    architecture->activation = read_gate(config);
    shape->ffn = round_up(shape->ffn, 256);
    shape->vocab_size =
        round_up(shape->vocab_size, hs__config_size_or(config, "pad_vocab_size_multiple", 1, 1 << 16, 1));
    if (scaling > 0 && shape->n_positions > n_trained)
        shape->n_positions = n_trained;
    const double base = hs__config_number_or(config, "rotary_emb_base", 1, 1e12, 10000);
    if (read_theta(config, base) != base) /* files for both have both */
        hs__config_refuse(config, "rotary_emb_base must be equal to rope_theta");
    return base;
}

static double configure_transformers(hs__config *config, hs_architecture *architecture)
{
    const size_t head_width = architecture->shape.head_width;
    architecture->norm_eps = (float)hs__config_number_or(config, "layer_norm_eps", 1e-30, 1, 1e-12);
    architecture->activation = hs__config_activation(config, "hidden_act", HS_SILU);
    hs__config_size_or(config, "head_dim", head_width, head_width, head_width);
    return read_theta(config, 1000);
}

static void configure(hs__config *config, hs_architecture *architecture)
{
    architecture->shape.n_types = hs__config_size_or(config, "type_vocab_size", 0, HS__TYPES_MAX, 2);
    const double base = json_object_get(config->keys, gpt_keys.n_layers)
                            ? configure_authors(config, architecture)
                            : configure_transformers(config, architecture);
    for (size_t i = 0; i < architecture->shape.n_layers; i++)
        architecture->layers[i].rotation_base = base;
}

static const hs__layout authors_layout = {
    .word = "embeddings.word_embeddings",
    .type = "embeddings.token_type_embeddings",
    .embedding_norm = "emb_ln",
    .layer = "encoder.layers.",
    .below = ".",
    .layers = authors_modules,
};

static const hs__layout layout = {
    .word = "embeddings.word_embeddings",
    .type = "embeddings.token_type_embeddings",
    .embedding_norm = "embeddings.LayerNorm",
    .layer = "layers.",
    .below = ".",
    .layers = modules,
};

/* BERT's head with another name of its norm. */
static const hs__predictor_names predictor = {
    .dense = "cls.predictions.transform.dense",
    .norm = "cls.predictions.transform.layer_norm",
    .decoder = "cls.predictions.decoder",
    .biases = {"cls.predictions.decoder", "cls.predictions"},
};

const hs__family hs__family_nomic_bert = {
    .types = {"nomic_bert"},
    .keys = {&gpt_keys, &hs__bert_keys},
    .prefixes = {"", "bert.", "nomic_bert."},
    .layouts = {&authors_layout, &layout},
    .predictors = {&predictor},
    .sequence = &hs__pooler_head,
    .tokens = &hs__classifier_head,
    .configure = configure,
    .default_positions = 2048,
};
