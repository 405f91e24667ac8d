/* electra.c - ELECTRA (Clark et al. 2020), discriminator or generator: BERT with an embedding that may be
 * narrower than the layers and is then projected. */
#include "model/families/family.h"

static void configure(hs__config *config, hs_architecture *architecture)
{
    architecture->embedding.width = hs__config_size(config, "embedding_size", 1, HS_HIDDEN_MAX);
    hs__bert_configure(config, architecture);
}

static const hs__predictor_names predictor = {
    .dense = "generator_predictions.dense",
    .norm = "generator_predictions.LayerNorm",
    .decoder = "generator_lm_head",
    .biases = {"generator_lm_head"},
    .exact_gelu = true,
};

static const hs__head_names sequence = {
    .dense = "classifier.dense", .activation = HS_GELU, .output = "classifier.out_proj"};

const hs__family hs__family_electra = {
    .types = {"electra"},
    .keys = {&hs__bert_keys},
    .prefixes = {"", "electra.", "model."},
    .layouts = {&hs__bert_layout},
    .predictors = {&predictor},
    .sequence = &sequence,
    .tokens = &hs__classifier_head,
    .span = &hs__span_head,
    .configure = configure,
    .default_positions = 512,
};
