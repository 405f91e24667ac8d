/* falcon.c - Falcon (Almazrouei et al. 2023). Norms come before, positions are rotary, and attention and
 * feed-forward part usually read the same state. Falcon-7B has one key and value for all heads. In the newer
 * architecture (40B, 180B, 11B) heads share them in groups, and each part may have a norm of its own.
 *
 * The packed rows are ordered [key-value heads][queries of the group, key, value][d] in all of them. */
#include "model/families/family.h"

static const hs__shape_keys keys = {
    .n_layers = "num_hidden_layers",
    .n_heads = "num_attention_heads",
    .hidden = "hidden_size",
    .ffn = "ffn_hidden_size",
    .n_positions = "max_position_embeddings",
    .vocab_size = "vocab_size",
    .ffn_factor = 4,
    .long_texts = true,
};

static const hs__module modules[] = {
    {.name = "self_attention.query_key_value",
     .parts = {HS__QUERY, HS__KEY, HS__VALUE},
     .bias = HS__IF_ATTENTION_BIASED,
     .grouped = true},
    {.name = "self_attention.dense", .parts = {HS__OUTPUT}, .bias = HS__IF_OUTPUT_BIASED},
    {.name = "ln_attn", .parts = {HS__ATTENTION_NORM}, .condition = HS__IF_NORMS_APART},
    {.name = "ln_mlp", .parts = {HS__FFN_NORM}, .condition = HS__IF_NORMS_APART},
    {.name = "input_layernorm", .parts = {HS__ATTENTION_NORM}, .condition = HS__IF_NORMS_NOT_APART},
    {.name = "input_layernorm", .parts = {HS__FFN_NORM}, .condition = HS__IF_NORM_SHARED},
    {.name = "post_attention_layernorm", .parts = {HS__FFN_NORM}, .condition = HS__IF_SERIAL},
    {.name = "mlp.dense_h_to_4h", .parts = {HS__FFN_IN}, .bias = HS__IF_FFN_BIASED},
    {.name = "mlp.dense_4h_to_h", .parts = {HS__FFN_OUT}, .bias = HS__IF_FFN_BIASED},
    {0},
};

static const hs__layout layout = {
    .word = "word_embeddings",
    .layer = "h.",
    .below = ".",
    .layers = modules,
    .final_norm = "ln_f",
};

static const hs__predictor_names predictor = {.decoder = "lm_head"};

/* Reads a flag that is true in a config without the key. transformers reads null as false. */
static bool is_true(hs__config *config, const char *key)
{
    return hs__config_flag_or(config, key, !json_object_get(config->keys, key));
}

/* Reads how many heads share a key and a value. */
static void configure_heads(hs__config *config, bool is_newer, hs_shape *shape)
{
    const bool shared = !is_newer && is_true(config, "multi_query");
    const size_t n_heads = shape->n_heads;
    shape->n_kv_heads = shared ? 1 : n_heads;
    if (shared || !hs__config_has(config, "num_kv_heads"))
        return;
    shape->n_kv_heads = hs__config_size(config, "num_kv_heads", 1, n_heads);
    if (n_heads % shape->n_kv_heads != 0 || (!is_newer && shape->n_kv_heads != n_heads))
        hs__config_refuse(config, "num_kv_heads (%zu) must %s num_attention_heads (%zu)", shape->n_kv_heads,
                          is_newer ? "divide" : "be equal to", n_heads);
}

/* Reads whether the parts read the same state, and the same norm of it. transformers fails for other values
 * of these keys. */
static void configure_blocks(hs__config *config, bool is_newer, hs_architecture *architecture)
{
    architecture->parallel_residual = is_true(config, "parallel_attn");
    if (is_newer && !architecture->parallel_residual)
        hs__config_refuse(config, "parallel_attn must be true with new_decoder_architecture");
    size_t n_norms = is_newer ? 2 : 1;
    if (hs__config_has(config, "num_ln_in_parallel_attn"))
        n_norms = hs__config_size(config, "num_ln_in_parallel_attn", 1, n_norms);
    architecture->norms_apart = n_norms == 2;
}

static void configure(hs__config *config, hs_architecture *architecture)
{
    const bool is_newer = hs__config_flag_or(config, "new_decoder_architecture", false);
    if (hs__config_flag_or(config, "alibi", false))
        hs__config_refuse(config, "alibi must be false: these models add biases in bfloat16 to their scores, "
                                  "which is not supported");
    if (!architecture->causal)
        hs__config_refuse(config, "is_causal must be true");
    if (hs__config_has(config, "n_embed")) /* it counts in transformers */
        hs__config_size(config, "n_embed", architecture->shape.hidden, architecture->shape.hidden);
    hs__config_unused(config, "head_dim");
    configure_heads(config, is_newer, &architecture->shape);
    configure_blocks(config, is_newer, architecture);
    architecture->norms_before = true;
    architecture->attention_biased = architecture->output_biased = architecture->ffn_biased =
        hs__config_flag_or(config, "bias", false);
    architecture->norm_eps = (float)hs__config_number_or(config, "layer_norm_epsilon", 1e-30, 1, 1e-5);
    architecture->activation = hs__config_activation(config, "activation", HS_GELU);
    hs__config_rotation(config, (hs__rotation_keys){.theta = "rope_theta"}, architecture);
}

const hs__family hs__family_falcon = {
    .types = {"falcon"},
    .keys = {&keys},
    .prefixes = {"", "transformer."},
    .layouts = {&layout},
    .predictors = {&predictor},
    .sequence = &hs__score_head,
    .tokens = &hs__classifier_head,
    .span = &hs__span_head,
    .configure = configure,
    .causal = true,
    .scales_rotation = true,
    .default_positions = 2048,
};
