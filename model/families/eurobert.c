/* eurobert.c - EuroBERT (Boizard et al. 2025): an encoder of Llama's layers, without its mask. */
#include "model/families/family.h"

const hs__family hs__family_eurobert = {
    .types = {"eurobert"},
    .keys = {&hs__llama_keys},
    .prefixes = {"", "model."},
    .layouts = {&hs__llama_layout},
    .predictors = {&hs__llama_predictor},
    .configure = hs__llama_configure,
    .scales_rotation = true,
};
