/* t5.c - T5 (Raffel et al. 2020), mT5 and Flan-T5: RMS norms before, no biases, scores that are not scaled,
 * and a score bias by distance that all layers share. The feed-forward part may have a gate. Only the encoder
 * is read, of whole checkpoints too. */
#include "model/families/family.h"

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

static const hs__module modules[] = {
    {.name = "layer.0.SelfAttention.q", .parts = {HS__QUERY}, .no_bias = true},
    {.name = "layer.0.SelfAttention.k", .parts = {HS__KEY}, .no_bias = true},
    {.name = "layer.0.SelfAttention.v", .parts = {HS__VALUE}, .no_bias = true},
    {.name = "layer.0.SelfAttention.o", .parts = {HS__OUTPUT}, .no_bias = true},
    {.name = "layer.0.layer_norm", .parts = {HS__ATTENTION_NORM}},
    {.name = "layer.1.DenseReluDense.wi", .parts = {HS__FFN_IN}, .no_bias = true, .gating = HS__IF_PLAIN},
    {.name = "layer.1.DenseReluDense.wi_0", .parts = {HS__FFN_GATE}, .no_bias = true, .gating = HS__IF_GATED},
    {.name = "layer.1.DenseReluDense.wi_1", .parts = {HS__FFN_IN}, .no_bias = true, .gating = HS__IF_GATED},
    {.name = "layer.1.DenseReluDense.wo", .parts = {HS__FFN_OUT}, .no_bias = true},
    {.name = "layer.1.layer_norm", .parts = {HS__FFN_NORM}},
    {0},
};

/* Reads feed_forward_proj, an activation that "gated-" may precede. "gated-gelu" means GELU by tanh. The
 * config may repeat what follows from it in two keys. */
static void read_feed_forward(hs__config *config, hs_architecture *architecture)
{
    static const char *const key = "feed_forward_proj", *const gated = "gated-";
    const char *text = hs__config_text(config, key);
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
    if (hs__config_flag_or(config, "is_gated_act", architecture->gated) != architecture->gated)
        hs__config_refuse(config, "is_gated_act is not what feed_forward_proj says");
}

static void configure(hs__config *config, hs_architecture *architecture)
{
    hs_score_bias *bias = &architecture->score_bias;
    bias->n_buckets = hs__config_size_or(config, "relative_attention_num_buckets", 4, 4096, 32);
    bias->n_distances = hs__config_size_or(config, "relative_attention_max_distance", bias->n_buckets / 4 + 1,
                                           HS_POSITIONS_MAX, 128);
    architecture->norms_before = true;
    architecture->norm_kind = HS_NORM_RMS;
    architecture->norm_eps = (float)hs__config_number_or(config, "layer_norm_epsilon", 1e-30, 1, 1e-6);
    architecture->scores_unscaled = true;
    read_feed_forward(config, architecture);
}

/* The word embedding of encoder and decoder, or an encoder's own. */
#define LAYOUT(embedding)                                                                                    \
    {                                                                                                        \
        .word = (embedding), .layer = "encoder.block.", .below = ".", .layers = modules,                     \
        .score_bias = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias",                       \
        .final_norm = "encoder.final_layer_norm", .norms_without_bias = true                                 \
    }

static const hs__layout shared = LAYOUT("shared"), separate = LAYOUT("encoder.embed_tokens");

const hs__family hs__family_t5 = {
    .types = {"t5", "mt5"},
    .keys = {&keys},
    .prefixes = {"", "transformer."},
    .layouts = {&shared, &separate},
    .tokens = &hs__classifier_head,
    .configure = configure,
    .encoder_of_two = true,
};
