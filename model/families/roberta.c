/* roberta.c - RoBERTa (Liu et al. 2019), XLM-RoBERTa and CamemBERT: BERT with positions that start after the
 * padding id. All three are saved under RoBERTa's prefix. */
#include "model/families/family.h"

static void configure(hs__config *config, hs_architecture *architecture)
{
    hs__bert_configure(config, architecture);
    hs__config_padding(config, hs__config_size_or(config, "pad_token_id", 0, HS_POSITIONS_MAX, 1),
                       architecture);
}

const hs__predictor_names hs__roberta_predictor = {
    .dense = "lm_head.dense",
    .norm = "lm_head.layer_norm",
    .decoder = "lm_head.decoder",
    .biases = {"lm_head", "lm_head.decoder"},
    .exact_gelu = true,
};

const hs__family hs__family_roberta = {
    .types = {"roberta", "xlm-roberta", "camembert"},
    .keys = {&hs__bert_keys},
    .prefixes = {"", "roberta.", "model."},
    .layouts = {&hs__bert_layout},
    .predictors = {&hs__roberta_predictor},
    .sequence = &hs__roberta_head,
    .tokens = &hs__classifier_head,
    .span = &hs__span_head,
    .configure = configure,
};
