/* mistral.c - Mistral (Jiang et al. 2023): Llama, in version 0.1 with a sliding window. */
#include "model/families/family.h"

static void configure(hs__config *config, hs_architecture *architecture)
{
    hs__llama_configure(config, architecture);
    hs__sliding_window(config, 0, architecture);
}

const hs__family hs__family_mistral = {
    .types = {"mistral"},
    .keys = {&hs__llama_keys},
    .prefixes = {"", "model.", "transformer."},
    .layouts = {&hs__llama_layout},
    .predictors = {&hs__llama_predictor},
    .sequence = &hs__score_head,
    .tokens = &hs__score_head,
    .span = &hs__span_head,
    .configure = configure,
    .causal = true,
    .scales_rotation = true,
};
