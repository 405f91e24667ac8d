/* mistral.c - Mistral (Jiang et al. 2023): Llama, in version 0.1 with a sliding window. */
#include "model/families/family.h"

static void configure(hs__config *config, hs_architecture *architecture)
{
    hs__llama_configure(config, architecture);
    hs__sliding_window(config, 0, architecture);
}

const hs__family hs__family_mistral = HS__LLAMA_FAMILY("mistral", hs__llama_layout, configure);
