/* esm.c - ESM-2 (Lin et al. 2023), an encoder of proteins: norms before, rotary positions. Some of its files
 * hold a position table, which a rotary model does not use. ESM-1b and ESM-1v have learned positions, which
 * count from the padding id on, and a norm of the embeddings. Most hold the frequencies of the rotation,
 * which may have been rounded to half precision before the training: they count before rope_theta. */
#include "model/families/family.h"

#include <string.h>

static const hs__module modules[] = {
    {.name = "attention.self.query", .parts = {HS__QUERY}},
    {.name = "attention.self.key", .parts = {HS__KEY}},
    {.name = "attention.self.value", .parts = {HS__VALUE}},
    {.name = "attention.output.dense", .parts = {HS__OUTPUT}},
    {.name = "attention.LayerNorm", .parts = {HS__ATTENTION_NORM}},
    {.name = "intermediate.dense", .parts = {HS__FFN_IN}},
    {.name = "output.dense", .parts = {HS__FFN_OUT}},
    {.name = "LayerNorm", .parts = {HS__FFN_NORM}},
    {0},
};

static void configure(hs__config *config, hs_architecture *architecture)
{
    const char *positions = hs__config_text(config, "position_embedding_type");
    const bool rotary = positions && strcmp(positions, "rotary") == 0;
    if (positions && !rotary && strcmp(positions, "absolute") != 0)
        hs__config_refuse(config,
                          "position_embedding_type must be \"absolute\" or \"rotary\"; not supported: \"%s\"",
                          positions);
    hs__config_only(config, "hidden_act", "gelu"); /* HuggingFace's ESM always computes GELU */
    architecture->embedding.unnormed = !hs__config_flag_or(config, "emb_layer_norm_before", false);
    architecture->embedding.unpositioned = rotary;
    hs__config_unused(config, "is_folding_model");
    architecture->norms_before = true;
    architecture->norm_eps = (float)hs__config_number_or(config, "layer_norm_eps", 1e-30, 1, 1e-12);
    architecture->activation = HS_GELU;
    if (hs__config_flag_or(config, "token_dropout", false)) {
        architecture->embedding.token_dropout = 0.15 * 0.8; /* the rate in every model's training */
        architecture->embedding.mask_id = (int32_t)hs__config_size(config, "mask_token_id", 0, HS_VOCAB_MAX);
    }
    if (!rotary) {
        hs__config_padding(config, hs__config_size(config, "pad_token_id", 0, HS_POSITIONS_MAX),
                           architecture);
        return;
    }
    const double base = hs__config_number_or(config, "rope_theta", 1, 1e12, 10000);
    (void)hs__config_theta_or(config, NULL, base); /* refuses scalings; transformers 5 reads no base there */
    for (size_t i = 0; i < architecture->shape.n_layers; i++)
        architecture->layers[i].rotation_base = base;
}

static const hs__layout layout = {
    .word = "embeddings.word_embeddings",
    .position = "embeddings.position_embeddings",
    .embedding_norm = "embeddings.layer_norm",
    .layer = "encoder.layer.",
    .below = ".",
    .layers = modules,
    .final_norm = "encoder.emb_layer_norm_after",
    .frequencies = "rotary_embeddings.inv_freq",
    .layer_frequencies = "attention.self.rotary_embeddings.inv_freq",
};

/* RoBERTa's head. The decoder itself has no bias. */
static const hs__predictor_names predictor = {
    .dense = "lm_head.dense",
    .norm = "lm_head.layer_norm",
    .decoder = "lm_head.decoder",
    .biases = {"lm_head"},
    .exact_gelu = true,
};

const hs__family hs__family_esm = {
    .types = {"esm"},
    .keys = {&hs__bert_keys},
    .prefixes = {"", "esm."},
    .layouts = {&layout},
    .predictors = {&predictor},
    .sequence = &hs__roberta_head,
    .tokens = &hs__classifier_head,
    .contacts = "contact_head.regression",
    .configure = configure,
    .default_positions = 1026,
};
