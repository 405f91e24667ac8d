/* electra.c - ELECTRA (Clark et al. 2020), discriminator or generator: BERT whose embedding may be narrower
 * than its layers, brought to their width by a projection. */
#include "model/families/family.h"

static void configure(hs__config *config, hs_recipe *recipe)
{
    recipe->embedding.width = hs__config_size(config, "embedding_size", 1, HS_HIDDEN_MAX);
    hs__bert_configure(config, recipe);
}

static const hs__predictor_names predictor = {
    .dense = "generator_predictions.dense",
    .norm = "generator_predictions.LayerNorm",
    .decoder = "generator_lm_head",
    .biases = {"generator_lm_head"},
    .exact_gelu = true,
};

const hs__family hs__family_electra = {
    .types = {"electra"},
    .keys = {&hs__bert_keys},
    .prefixes = {"", "electra.", "model."},
    .layouts = {&hs__bert_layout},
    .predictors = {&predictor},
    .configure = configure,
};
