/* bart.c - BART (Lewis et al. 2020), mBART (Liu et al. 2020), M2M100 (Fan et al. 2021) and NLLB, Marian
 * (Junczys-Dowmunt et al. 2018), PEGASUS (Zhang et al. 2020), and decoders alone: OPT (Zhang et al. 2022),
 * XGLM (Lin et al. 2022) and BioGPT (Luo et al. 2022). All norm before their blocks but BART, Marian and
 * OPT-350m. The positions of M2M100, Marian, PEGASUS and XGLM are sinusoids. */
#include "model/families/family.h"

#include <math.h>

/* clang-format off */

#define KEYS(stack)                                                                                          \
    {.n_layers = stack "_layers", .n_heads = stack "_attention_heads", .hidden = "d_model",                  \
     .ffn = stack "_ffn_dim", .n_positions = "max_position_embeddings", .vocab_size = "vocab_size"}

/* The modules of an attention block, and of the feed-forward block, which are or are not in or behind cross
 * attention. */
#define ATTENTION(name_, in_cross)                                                                           \
    {.name = name_ ".q_proj", .parts = {HS__QUERY}, .crosses = (in_cross)},                                  \
    {.name = name_ ".k_proj", .parts = {HS__KEY}, .crosses = (in_cross)},                                    \
    {.name = name_ ".v_proj", .parts = {HS__VALUE}, .crosses = (in_cross)},                                  \
    {.name = name_ ".out_proj", .parts = {HS__OUTPUT}, .crosses = (in_cross)},                               \
    {.name = name_ "_layer_norm", .parts = {HS__ATTENTION_NORM}, .crosses = (in_cross)}
#define FEED(in_cross)                                                                                       \
    {.name = "fc1", .parts = {HS__FFN_IN}, .crosses = (in_cross)},                                           \
    {.name = "fc2", .parts = {HS__FFN_OUT}, .crosses = (in_cross)},                                          \
    {.name = "final_layer_norm", .parts = {HS__FFN_NORM}, .crosses = (in_cross)}

/* clang-format on */

static const hs__shape_keys keys = KEYS("encoder"), decoder_keys = KEYS("decoder");

static const hs__module modules[] = {ATTENTION("self_attn", false), FEED(false), {0}};
static const hs__module decoder_modules[] = {
    ATTENTION("self_attn", false), ATTENTION("encoder_attn", true), FEED(true), {0}};

static void configure(hs__config *config, bool scaled, hs_activation activation,
                      hs_architecture *architecture)
{
    architecture->norm_eps = 1e-5F;
    architecture->activation = hs__config_activation(config, "activation_function", activation);
    if (hs__config_flag_or(config, "scale_embedding", scaled))
        architecture->embedding.scale = sqrt((double)architecture->shape.hidden);
    if (architecture->crosses)
        architecture->start_id =
            hs__config_token_or(config, "decoder_start_token_id", architecture, architecture->start_id);
}

#define MARIAN_START 58100 /* of a config without decoder_start_token_id */

/* Sets what the decoder starts with if the config lacks the key. */
static void start_with(const hs__config *config, int32_t id, hs_architecture *architecture)
{
    if (!json_object_get(config->keys, "decoder_start_token_id"))
        architecture->start_id = id;
}

/* Reads a config whose table of positions has two rows that no token takes; padding is counted. */
static void configure_learned(hs__config *config, hs_architecture *architecture)
{
    configure(config, false, HS_GELU, architecture);
    architecture->embedding.position_offset = 2;
    architecture->embedding.counts_padding = true;
}

static void configure_bart(hs__config *config, hs_architecture *architecture)
{
    start_with(config, 2, architecture);
    configure_learned(config, architecture);
}

/* Reads mBART's config. Its decoder starts with the language that a text is written in. */
static void configure_mbart(hs__config *config, hs_architecture *architecture)
{
    configure_learned(config, architecture);
    architecture->norms_before = true;
    architecture->starts_with_language = architecture->crosses;
}

static void configure_m2m_100(hs__config *config, hs_architecture *architecture)
{
    start_with(config, 2, architecture);
    configure(config, true, HS_RELU, architecture);
    architecture->norms_before = true;
    architecture->embedding.sinusoids = HS_SINUSOIDS_M2M;
    architecture->embedding.position_offset =
        1 + hs__config_size_or(config, "pad_token_id", 0, HS_POSITIONS_MAX - 1, 1);
    if (architecture->shape.hidden < 4)
        hs__config_refuse(config, "d_model must be at least 4, as sinusoids need");
}

/* Reads Marian's config. A file may have the sinusoids as a table. The vocabulary of both stacks must be the
 * same. */
static void configure_marian(hs__config *config, hs_architecture *architecture)
{
    const size_t n_words = architecture->shape.vocab_size;
    if (architecture->crosses && !json_object_get(config->keys, "decoder_start_token_id") &&
        n_words <= MARIAN_START)
        hs__config_refuse(config, "decoder_start_token_id is missing");
    start_with(config, MARIAN_START, architecture);
    configure(config, false, HS_GELU, architecture);
    architecture->embedding.sinusoids = HS_SINUSOIDS_MARIAN;
    if (!hs__config_flag_or(config, "share_encoder_decoder_embeddings", true))
        hs__config_refuse(config, "share_encoder_decoder_embeddings must be true");
    if (hs__config_has(config, "decoder_vocab_size") &&
        hs__config_size(config, "decoder_vocab_size", 1, HS_VOCAB_MAX) != n_words)
        hs__config_refuse(config, "decoder_vocab_size must be vocab_size (%zu)", n_words);
}

/* Reads PEGASUS' config. A file has the sinusoids as a table, or not. */
static void configure_pegasus(hs__config *config, hs_architecture *architecture)
{
    start_with(config, 0, architecture);
    configure(config, false, HS_GELU, architecture);
    architecture->norms_before = true;
    architecture->embedding.sinusoids = HS_SINUSOIDS_MARIAN;
}

/* clang-format off */

/* The tables of a stack. */
#define LAYOUT(stack, its_modules, ...)                                                                      \
    {.word = stack ".embed_tokens", .layer = stack ".layers.", .below = ".", .layers = (its_modules),        \
     __VA_ARGS__}
#define STACK(name, stack, its_modules, ...)                                                                 \
    static const hs__layout name = LAYOUT(                                                                   \
        stack, its_modules, .tied = {"shared", "lm_head", "decoder.embed_tokens", "encoder.embed_tokens"},   \
        __VA_ARGS__)
#define DECODER(type, name, its_predictor)                                                                   \
    static const hs__family name##_decoder = {                                                               \
        .types = {(type)}, .keys = {&decoder_keys}, .prefixes = {"", "model."},                              \
        .layouts = {&name##_of_decoder},                                 \
        .predictors = {&(its_predictor)},                                                                    \
        .configure = configure_##name, .causal = true, .encoder_of_two = true, .crosses = true}
#define FAMILY(type, name)                                                                                   \
    {.types = {(type)}, .keys = {&keys}, .prefixes = {"", "model."},                                         \
     .layouts = {&name##_of_encoder}, .configure = configure_##name, .encoder_of_two = true,   \
     .decoder = &name##_decoder, .default_positions = 1024}

/* clang-format on */

static const hs__predictor_names biased = {.decoder = "lm_head", .logits_bias = "final_logits_bias"},
                                 plain = {.decoder = "lm_head"};

STACK(bart_of_encoder, "encoder", modules, .position = "encoder.embed_positions",
      .embedding_norm = "encoder.layernorm_embedding");
STACK(mbart_of_encoder, "encoder", modules, .position = "encoder.embed_positions",
      .embedding_norm = "encoder.layernorm_embedding", .final_norm = "encoder.layer_norm");
STACK(m2m_100_of_encoder, "encoder", modules, .final_norm = "encoder.layer_norm");
STACK(marian_of_encoder, "encoder", modules, .position = "encoder.embed_positions");
STACK(pegasus_of_encoder, "encoder", modules, .position = "encoder.embed_positions",
      .final_norm = "encoder.layer_norm");
STACK(bart_of_decoder, "decoder", decoder_modules, .position = "decoder.embed_positions",
      .embedding_norm = "decoder.layernorm_embedding");
STACK(mbart_of_decoder, "decoder", decoder_modules, .position = "decoder.embed_positions",
      .embedding_norm = "decoder.layernorm_embedding", .final_norm = "decoder.layer_norm");
STACK(m2m_100_of_decoder, "decoder", decoder_modules, .final_norm = "decoder.layer_norm");
STACK(marian_of_decoder, "decoder", decoder_modules, .position = "decoder.embed_positions");
STACK(pegasus_of_decoder, "decoder", decoder_modules, .position = "decoder.embed_positions",
      .final_norm = "decoder.layer_norm");

DECODER("bart", bart, biased);
DECODER("mbart", mbart, biased);
DECODER("m2m_100", m2m_100, plain);
DECODER("marian", marian, biased);
DECODER("pegasus", pegasus, biased);

const hs__family hs__family_bart = FAMILY("bart", bart);
const hs__family hs__family_mbart = FAMILY("mbart", mbart);
const hs__family hs__family_m2m_100 = FAMILY("m2m_100", m2m_100);
const hs__family hs__family_marian = FAMILY("marian", marian);
const hs__family hs__family_pegasus = FAMILY("pegasus", pegasus);

/* ---- OPT: mBART's decoder without cross attention ---- */

static const hs__shape_keys opt_keys = {
    .n_layers = "num_hidden_layers",
    .n_heads = "num_attention_heads",
    .hidden = "hidden_size",
    .ffn = "ffn_dim",
    .n_positions = "max_position_embeddings",
    .vocab_size = "vocab_size",
};

static const hs__layout opt_layout = LAYOUT(
    "decoder", modules, .position = "decoder.embed_positions", .final_norm = "decoder.final_layer_norm",
    .projection = "decoder.project_in", .out_projection = "decoder.project_out", .projects_words = true);

/* Reads OPT's config. OPT-350m has norms after its blocks, and embeddings narrower than its layers. */
static void configure_opt(hs__config *config, hs_architecture *architecture)
{
    static const char *const needed[] = {"enable_bias", "layer_norm_elementwise_affine"};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!hs__config_flag_or(config, needed[i], true))
            hs__config_refuse(config, "%s must be true", needed[i]);
    architecture->norms_before = hs__config_flag_or(config, "do_layer_norm_before", true);
    if (architecture->norms_before)
        hs__config_unused(config, "_remove_final_layer_norm");
    if (hs__config_has(config, "word_embed_proj_dim"))
        architecture->embedding.width = hs__config_size(config, "word_embed_proj_dim", 1, HS_HIDDEN_MAX);
    architecture->norm_eps = 1e-5F;
    architecture->activation = hs__config_activation(config, "activation_function", HS_RELU);
    architecture->embedding.position_offset = 2;
    architecture->embedding.counts_padding = true;
}

const hs__family hs__family_opt = {
    .types = {"opt"},
    .keys = {&opt_keys},
    .prefixes = {"", "model."},
    .layouts = {&opt_layout},
    .predictors = {&plain},
    .sequence = &hs__score_head,
    .span = &hs__span_head,
    .configure = configure_opt,
    .causal = true,
    .pads = true,
    .padding_id = 1,
    .default_positions = 2048,
};

/* ---- XGLM: mBART's decoder without cross attention, with sinusoids ---- */

static const hs__shape_keys xglm_keys = {
    .n_layers = "num_layers",
    .n_heads = "attention_heads",
    .hidden = "d_model",
    .ffn = "ffn_dim",
    .n_positions = "max_position_embeddings",
    .vocab_size = "vocab_size",
};

static const hs__layout xglm_layout = {
    .word = "embed_tokens", .layer = "layers.", .below = ".", .layers = modules, .final_norm = "layer_norm"};

/* Reads XGLM's config. Its sinusoids begin at row 2 and have zeros in the row of padding, which no token may
 * take. */
static void configure_xglm(hs__config *config, hs_architecture *architecture)
{
    hs__config_size_or(config, "pad_token_id", 0, 1, 1);
    architecture->norms_before = true;
    architecture->norm_eps = 1e-5F;
    architecture->activation = hs__config_activation(config, "activation_function", HS_GELU);
    if (hs__config_flag_or(config, "scale_embedding", true))
        architecture->embedding.scale = sqrt((double)architecture->shape.hidden);
    architecture->embedding.sinusoids = HS_SINUSOIDS_M2M;
    architecture->embedding.position_offset = 2;
    architecture->embedding.counts_padding = true;
    if (architecture->shape.hidden < 4)
        hs__config_refuse(config, "d_model must be at least 4, as sinusoids need");
}

const hs__family hs__family_xglm = {
    .types = {"xglm"},
    .keys = {&xglm_keys},
    .prefixes = {"", "model."},
    .layouts = {&xglm_layout},
    .predictors = {&plain},
    .configure = configure_xglm,
    .causal = true,
    .default_positions = 2048,
};

/* ---- BioGPT: OPT under other names, with scaled embeddings ---- */

static const hs__shape_keys biogpt_keys = {HS__DEFAULT_KEYS};

static const hs__layout biogpt_layout = {.word = "embed_tokens",
                                         .position = "embed_positions",
                                         .layer = "layers.",
                                         .below = ".",
                                         .layers = modules,
                                         .final_norm = "layer_norm"};

static const hs__predictor_names biogpt_predictor = {.decoder = "output_projection"};

/* Reads BioGPT's config, whose layer_norm_eps transformers does not read. */
static void configure_biogpt(hs__config *config, hs_architecture *architecture)
{
    architecture->norms_before = true;
    architecture->norm_eps = 1e-5F;
    architecture->activation = hs__config_activation(config, "hidden_act", HS_GELU);
    if (hs__config_flag_or(config, "scale_embedding", true))
        architecture->embedding.scale = sqrt((double)architecture->shape.hidden);
    architecture->embedding.position_offset = 2;
    architecture->embedding.counts_padding = true;
}

const hs__family hs__family_biogpt = {
    .types = {"biogpt"},
    .keys = {&biogpt_keys},
    .prefixes = {"", "biogpt."},
    .layouts = {&biogpt_layout},
    .predictors = {&biogpt_predictor},
    .sequence = &hs__score_head,
    .tokens = &hs__classifier_head,
    .configure = configure_biogpt,
    .causal = true,
    .pads = true,
    .padding_id = 1,
    .default_positions = 1024,
};
