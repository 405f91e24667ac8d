/* distilbert.c - DistilBERT (Sanh et al. 2019): BERT without token types, with its own key and tensor names.
 * The code that trained it fixes the epsilon of its norms. */
#include "model/families/family.h"

static const hs__shape_keys keys = {
    .n_layers = "n_layers",
    .n_heads = "n_heads",
    .hidden = "dim",
    .ffn = "hidden_dim",
    .n_positions = "max_position_embeddings",
    .vocab_size = "vocab_size",
};

static const hs__module modules[] = {
    {.name = "attention.q_lin", .parts = {HS__QUERY}},
    {.name = "attention.k_lin", .parts = {HS__KEY}},
    {.name = "attention.v_lin", .parts = {HS__VALUE}},
    {.name = "attention.out_lin", .parts = {HS__OUTPUT}},
    {.name = "sa_layer_norm", .parts = {HS__ATTENTION_NORM}},
    {.name = "ffn.lin1", .parts = {HS__FFN_IN}},
    {.name = "ffn.lin2", .parts = {HS__FFN_OUT}},
    {.name = "output_layer_norm", .parts = {HS__FFN_NORM}},
    {0},
};

static void configure(hs__config *config, hs_architecture *architecture)
{
    architecture->norm_eps = 1e-12F;
    architecture->activation = hs__config_activation(config, "activation", HS_GELU);
    hs__config_only(config, "position_embedding_type", "absolute");
}

static const hs__layout layout = {
    .word = "embeddings.word_embeddings",
    .position = "embeddings.position_embeddings",
    .embedding_norm = "embeddings.LayerNorm",
    .layer = "transformer.layer.",
    .below = ".",
    .layers = modules,
};

static const hs__predictor_names predictor = {
    .dense = "vocab_transform",
    .norm = "vocab_layer_norm",
    .decoder = "vocab_projector",
    .biases = {"vocab_projector"},
};

static const hs__head_names sequence = {
    .dense = "pre_classifier", .activation = HS_RELU, .output = "classifier"};

const hs__family hs__family_distilbert = {
    .types = {"distilbert"},
    .old_key = "dim",
    .keys = {&keys},
    .prefixes = {"", "distilbert.", "model."},
    .layouts = {&layout},
    .predictors = {&predictor},
    .sequence = &sequence,
    .tokens = &hs__classifier_head,
    .span = &hs__span_head,
    .configure = configure,
    .default_positions = 512,
};
