/* eurobert.c - EuroBERT (Boizard et al. 2025): an encoder of Llama's layers, without its mask. */
#include "model/families/family.h"

static const hs__head_names sequence = {.dense = "dense",
                                        .activation = HS_GELU,
                                        .output = "classifier",
                                        .pooling_key = "classifier_pooling",
                                        .may_pool_late = true};

const hs__family hs__family_eurobert = {
    .types = {"eurobert"},
    .keys = {&hs__llama_keys},
    .prefixes = {"", "model."},
    .layouts = {&hs__llama_layout},
    .predictors = {&hs__llama_predictor},
    .sequence = &sequence,
    .tokens = &hs__classifier_head,
    .configure = hs__llama_configure,
    .scales_rotation = true,
};
