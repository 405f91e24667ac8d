/* mpnet.c - MPNet (Song et al. 2020): BERT without token types, with a score bias by distance that all layers
 * share. Its code counts positions from 2, whatever the config says about padding. */
#include "model/families/family.h"

static const hs__module modules[] = {
    {.name = "attention.attn.q", .parts = {HS__QUERY}},
    {.name = "attention.attn.k", .parts = {HS__KEY}},
    {.name = "attention.attn.v", .parts = {HS__VALUE}},
    {.name = "attention.attn.o", .parts = {HS__OUTPUT}},
    {.name = "attention.LayerNorm", .parts = {HS__ATTENTION_NORM}},
    {.name = "intermediate.dense", .parts = {HS__FFN_IN}},
    {.name = "output.dense", .parts = {HS__FFN_OUT}},
    {.name = "output.LayerNorm", .parts = {HS__FFN_NORM}},
    {0},
};

static void configure(hs__config *config, hs_architecture *architecture)
{
    architecture->norm_eps = (float)hs__config_number_or(config, "layer_norm_eps", 1e-30, 1, 1e-12);
    architecture->activation = hs__config_activation(config, "hidden_act", HS_GELU);
    architecture->score_bias.n_buckets =
        hs__config_size_or(config, "relative_attention_num_buckets", 32, 32, 32);
    architecture->score_bias.n_distances = 128;
    hs__config_padding(config, 1, architecture);
}

static const hs__layout layout = {
    .word = "embeddings.word_embeddings",
    .position = "embeddings.position_embeddings",
    .embedding_norm = "embeddings.LayerNorm",
    .layer = "encoder.layer.",
    .below = ".",
    .layers = modules,
    .score_bias = "encoder.relative_attention_bias",
};

const hs__family hs__family_mpnet = {
    .types = {"mpnet"},
    .keys = {&hs__bert_keys},
    .prefixes = {"", "mpnet.", "model."},
    .layouts = {&layout},
    .predictors = {&hs__roberta_predictor},
    .sequence = &hs__roberta_head,
    .tokens = &hs__classifier_head,
    .span = &hs__span_head,
    .configure = configure,
    .default_positions = 512,
};
