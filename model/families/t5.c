/* t5.c - T5 (Raffel et al. 2020), mT5 and Flan-T5: RMS norms before, no biases, scores that are not scaled,
 * and a score bias by distance that all layers of a stack share. The feed-forward part may have a gate. */
#include "model/families/family.h"

#include <math.h>
#include <string.h>

static const hs__shape_keys keys = {
    .n_layers = "num_layers",
    .n_heads = "num_heads",
    .hidden = "d_model",
    .ffn = "d_ff",
    .vocab_size = "vocab_size",
    .head_width = "d_kv",
    .positions = 2048, /* distances have no limit; this bounds the memory of a pass */
};

/* A decoder has as many layers as the encoder unless the config says otherwise. */
static const hs__shape_keys decoder_keys = {
    .n_layers = "num_decoder_layers",
    .n_heads = "num_heads",
    .hidden = "d_model",
    .ffn = "d_ff",
    .vocab_size = "vocab_size",
    .head_width = "d_kv",
    .positions = 2048,
};

/* clang-format off */

/* The modules of an attention block in layer.N, and of the feed-forward block. The last member says whether
 * they are in or behind cross attention. */
#define ATTENTION(layer, name_, in_cross)                                                                    \
    {.name = layer "." name_ ".q", .parts = {HS__QUERY}, .bias = HS__NO_BIAS, .crosses = (in_cross)},        \
    {.name = layer "." name_ ".k", .parts = {HS__KEY}, .bias = HS__NO_BIAS, .crosses = (in_cross)},          \
    {.name = layer "." name_ ".v", .parts = {HS__VALUE}, .bias = HS__NO_BIAS, .crosses = (in_cross)},        \
    {.name = layer "." name_ ".o", .parts = {HS__OUTPUT}, .bias = HS__NO_BIAS, .crosses = (in_cross)},       \
    {.name = layer ".layer_norm", .parts = {HS__ATTENTION_NORM}, .crosses = (in_cross)}
#define FEED(layer, in_cross)                                                                                \
    {.name = layer ".DenseReluDense.wi", .parts = {HS__FFN_IN}, .bias = HS__NO_BIAS,                         \
     .condition = HS__IF_PLAIN, .crosses = (in_cross)},                                                      \
    {.name = layer ".DenseReluDense.wi_0", .parts = {HS__FFN_GATE}, .bias = HS__NO_BIAS,                     \
     .condition = HS__IF_GATED, .crosses = (in_cross)},                                                      \
    {.name = layer ".DenseReluDense.wi_1", .parts = {HS__FFN_IN}, .bias = HS__NO_BIAS,                       \
     .condition = HS__IF_GATED, .crosses = (in_cross)},                                                      \
    {.name = layer ".DenseReluDense.wo", .parts = {HS__FFN_OUT}, .bias = HS__NO_BIAS,                        \
     .crosses = (in_cross)},                                                                                 \
    {.name = layer ".layer_norm", .parts = {HS__FFN_NORM}, .crosses = (in_cross)}

static const hs__module modules[] = {
    ATTENTION("layer.0", "SelfAttention", false),
    FEED("layer.1", false),
    {0},
};

static const hs__module decoder_modules[] = {
    ATTENTION("layer.0", "SelfAttention", false),
    ATTENTION("layer.1", "EncDecAttention", true),
    FEED("layer.2", true),
    {0},
};

/* clang-format on */

/* Reads feed_forward_proj, an activation that "gated-" may precede. "gated-gelu" means GELU by tanh. The
 * config may repeat what follows from it in two keys. */
static void read_feed_forward(hs__config *config, hs_architecture *architecture)
{
    static const char *const key = "feed_forward_proj", *const gated = "gated-";
    const char *text = hs__config_text(config, key);
    if (!text && strcmp(architecture->family, "mt5") == 0)
        text = "gated-gelu";
    architecture->activation = HS_RELU;
    if (text && strncmp(text, gated, strlen(gated)) == 0) {
        architecture->gated = true;
        text += strlen(gated);
    }
    if (text) {
        json_t *rest =
            json_pack("{s:s}", key, architecture->gated && strcmp(text, "gelu") == 0 ? "gelu_new" : text);
        hs__config one = {.keys = rest, .status = config->status, .err = config->err};
        architecture->activation = hs__config_activation(&one, key, HS_RELU);
        config->status = rest ? one.status : hs_fail(config->err, HS_NO_MEMORY, "out of memory");
        json_decref(rest);
    }
    if (hs__config_activation(config, "dense_act_fn", architecture->activation) != architecture->activation)
        hs__config_refuse(config, "dense_act_fn is not the activation that feed_forward_proj names");
    const bool otherwise = !json_object_get(config->keys, "is_gated_act") && architecture->gated;
    if (hs__config_flag_or(config, "is_gated_act", otherwise) != architecture->gated) /* null is false */
        hs__config_refuse(config, "is_gated_act is not what feed_forward_proj says");
}

static void configure(hs__config *config, hs_architecture *architecture)
{
    hs_score_bias *bias = &architecture->score_bias;
    bias->n_buckets = hs__config_size_or(config, "relative_attention_num_buckets", 4, 4096, 32);
    bias->one_sided = architecture->crosses;                          /* even if is_causal is false */
    const size_t exact = bias->n_buckets / (bias->one_sided ? 2 : 4); /* a bucket for each distance */
    bias->n_distances =
        hs__config_size_or(config, "relative_attention_max_distance", exact + 1, HS_POSITIONS_MAX, 128);
    architecture->norms_before = true;
    architecture->norm_kind = HS_NORM_RMS;
    architecture->norm_eps = (float)hs__config_number_or(config, "layer_norm_epsilon", 1e-30, 1, 1e-6);
    architecture->score_divisor = 1;
    architecture->predictor.untied = false; /* transformers ties, whatever the config says */
    read_feed_forward(config, architecture);
}

/* Reads the config of T5's decoder. Original T5 multiplies the last states by d_model^-0.5 before the logits,
 * newer versions do not. Old configs say so by tie_word_embeddings false; the weights are tied unless the
 * checkpoint has its own lm_head. mT5 never multiplies. */
static void configure_decoder(hs__config *config, hs_architecture *architecture)
{
    static const char *const scales = "scale_decoder_outputs";
    const bool tied = hs__config_flag_or(config, "tie_word_embeddings", true);
    const bool scaled = hs__config_flag_or(config, scales, !json_object_get(config->keys, scales) && tied);
    configure(config, architecture);
    if (scaled && strcmp(architecture->family, "t5") == 0)
        architecture->predictor.scale = 1 / sqrt((double)architecture->shape.hidden);
    architecture->start_id = hs__config_token_or(config, "decoder_start_token_id", architecture, 0);
}

#define LAYOUT(stack, its_modules, not_read)                                                                 \
    {                                                                                                        \
        .word = stack ".embed_tokens",                                                                       \
        .tied = {"shared", "encoder.embed_tokens", "decoder.embed_tokens", "lm_head"},                       \
        .layer = stack ".block.", .below = ".", .layers = (its_modules),                                     \
        .score_bias = stack ".block.0.layer.0.SelfAttention.relative_attention_bias", .unread = (not_read),  \
        .final_norm = stack ".final_layer_norm", .norms_without_bias = true                                  \
    }

static const hs__layout layout = LAYOUT("encoder", modules, NULL),
                        decoder_layout =
                            LAYOUT("decoder", decoder_modules,
                                   "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias");
static const hs__predictor_names predictor = {.decoder = "lm_head"};

static const hs__family decoder = {
    .types = {"t5", "mt5"},
    .keys = {&decoder_keys, &keys},
    .prefixes = {"", "transformer."},
    .layouts = {&decoder_layout},
    .predictors = {&predictor},
    .configure = configure_decoder,
    .causal = true,
    .encoder_of_two = true,
    .crosses = true,
};

const hs__family hs__family_t5 = {
    .types = {"t5", "mt5"},
    .keys = {&keys},
    .prefixes = {"", "transformer."},
    .layouts = {&layout},
    .tokens = &hs__classifier_head,
    .configure = configure,
    .encoder_of_two = true,
    .decoder = &decoder,
};
