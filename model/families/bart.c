/* bart.c - the encoders of BART (Lewis et al. 2020), mBART (Liu et al. 2020), M2M100 (Fan et al. 2021) and
 * NLLB, of whole checkpoints. mBART and M2M100 norm before their blocks. M2M100's positions are sinusoids. */
#include "model/families/family.h"

#include <math.h>

static const hs__shape_keys keys = {
    .n_layers = "encoder_layers",
    .n_heads = "encoder_attention_heads",
    .hidden = "d_model",
    .ffn = "encoder_ffn_dim",
    .n_positions = "max_position_embeddings",
    .vocab_size = "vocab_size",
};

static const hs__module modules[] = {
    {.name = "self_attn.q_proj", .parts = {HS__QUERY}},
    {.name = "self_attn.k_proj", .parts = {HS__KEY}},
    {.name = "self_attn.v_proj", .parts = {HS__VALUE}},
    {.name = "self_attn.out_proj", .parts = {HS__OUTPUT}},
    {.name = "self_attn_layer_norm", .parts = {HS__ATTENTION_NORM}},
    {.name = "fc1", .parts = {HS__FFN_IN}},
    {.name = "fc2", .parts = {HS__FFN_OUT}},
    {.name = "final_layer_norm", .parts = {HS__FFN_NORM}},
    {0},
};

static void configure(hs__config *config, bool scaled, hs_activation activation,
                      hs_architecture *architecture)
{
    architecture->norm_eps = 1e-5F;
    architecture->activation = hs__config_activation(config, "activation_function", activation);
    if (hs__config_flag_or(config, "scale_embedding", scaled))
        architecture->embedding.scale = sqrt((double)architecture->shape.hidden);
}

/* Reads BART's config. Its table of positions has two rows that no token takes; padding is counted. */
static void configure_bart(hs__config *config, hs_architecture *architecture)
{
    configure(config, false, HS_GELU, architecture);
    architecture->embedding.position_offset = 2;
    architecture->embedding.counts_padding = true;
}

static void configure_mbart(hs__config *config, hs_architecture *architecture)
{
    configure_bart(config, architecture);
    architecture->norms_before = true;
}

static void configure_m2m_100(hs__config *config, hs_architecture *architecture)
{
    configure(config, true, HS_RELU, architecture);
    architecture->norms_before = true;
    architecture->embedding.sinusoids = true;
    architecture->embedding.position_offset =
        1 + hs__config_size_or(config, "pad_token_id", 0, HS_POSITIONS_MAX - 1, 1);
    if (architecture->shape.hidden < 4)
        hs__config_refuse(config, "d_model must be at least 4, as sinusoids need");
}

/* clang-format off */

/* The layouts of a family: with the word embedding of encoder and decoder, or an encoder's own. */
#define LAYOUT(embedding, ...)                                                                               \
    {.word = (embedding), .layer = "encoder.layers.", .below = ".", .layers = modules, __VA_ARGS__}
#define LAYOUTS(name, ...)                                                                                   \
    static const hs__layout name##_shared = LAYOUT("shared", __VA_ARGS__),                                   \
                            name##_separate = LAYOUT("encoder.embed_tokens", __VA_ARGS__)
#define FAMILY(type, name)                                                                                   \
    {.types = {(type)}, .keys = {&keys}, .prefixes = {"", "model."},                                         \
     .layouts = {&name##_shared, &name##_separate}, .configure = configure_##name, .encoder_of_two = true}

/* clang-format on */

LAYOUTS(bart, .position = "encoder.embed_positions", .embedding_norm = "encoder.layernorm_embedding");
LAYOUTS(mbart, .position = "encoder.embed_positions", .embedding_norm = "encoder.layernorm_embedding",
        .final_norm = "encoder.layer_norm");
LAYOUTS(m2m_100, .final_norm = "encoder.layer_norm");

const hs__family hs__family_bart = FAMILY("bart", bart);
const hs__family hs__family_mbart = FAMILY("mbart", mbart);
const hs__family hs__family_m2m_100 = FAMILY("m2m_100", m2m_100);
