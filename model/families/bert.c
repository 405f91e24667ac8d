/* bert.c - BERT (Devlin et al. 2018): learned positions and token types, norms after each sublayer. */
#include "model/families/family.h"

const hs__shape_keys hs__bert_keys = {HS__DEFAULT_KEYS};

static const hs__module modules[] = {
    {.name = "attention.self.query", .parts = {HS__QUERY}},
    {.name = "attention.self.key", .parts = {HS__KEY}},
    {.name = "attention.self.value", .parts = {HS__VALUE}},
    {.name = "attention.output.dense", .parts = {HS__OUTPUT}},
    {.name = "attention.output.LayerNorm", .parts = {HS__ATTENTION_NORM}},
    {.name = "intermediate.dense", .parts = {HS__FFN_IN}},
    {.name = "output.dense", .parts = {HS__FFN_OUT}},
    {.name = "output.LayerNorm", .parts = {HS__FFN_NORM}},
    {0},
};

void hs__bert_configure(hs__config *config, hs_architecture *architecture)
{
    architecture->shape.n_types = hs__config_size_or(config, "type_vocab_size", 1, HS__TYPES_MAX, 2);
    architecture->norm_eps = (float)hs__config_number_or(config, "layer_norm_eps", 1e-30, 1, 1e-12);
    architecture->activation = hs__config_activation(config, "hidden_act", HS_GELU);
    hs__config_only(config, "position_embedding_type", "absolute");
}

/* Shared with ELECTRA. There is no projection if E == H. */
const hs__layout hs__bert_layout = {
    .word = "embeddings.word_embeddings",
    .position = "embeddings.position_embeddings",
    .type = "embeddings.token_type_embeddings",
    .embedding_norm = "embeddings.LayerNorm",
    .projection = "embeddings_project",
    .layer = "encoder.layer.",
    .below = ".",
    .layers = modules,
};

const hs__predictor_names hs__bert_predictor = {
    .dense = "cls.predictions.transform.dense",
    .norm = "cls.predictions.transform.LayerNorm",
    .decoder = "cls.predictions.decoder",
    .biases = {"cls.predictions.decoder", "cls.predictions"},
};

const hs__family hs__family_bert = {
    .types = {"bert"},
    .old_key = "hidden_size",
    .keys = {&hs__bert_keys},
    .prefixes = {"", "bert.", "model."},
    .layouts = {&hs__bert_layout},
    .predictors = {&hs__bert_predictor},
    .sequence = &hs__pooler_head,
    .tokens = &hs__classifier_head,
    .span = &hs__span_head,
    .next_sentence = &hs__next_sentence_head,
    .configure = hs__bert_configure,
    .default_positions = 512,
};
