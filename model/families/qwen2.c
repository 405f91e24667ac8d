/* qwen2.c - Qwen2 and Qwen2.5 (Yang et al. 2024): Llama with biases of queries, keys and values. */
#include "model/families/family.h"

static const hs__module modules[] = {
    HS__LLAMA_ATTENTION(false),
    HS__LLAMA_REST,
    {0},
};

static const hs__layout layout = HS__LLAMA_LAYOUT(modules);

void hs__qwen_configure(hs__config *config, hs_architecture *architecture)
{
    hs__llama_configure(config, architecture);
    if (hs__config_flag_or(config, "use_sliding_window", false))
        hs__sliding_window(config, hs__config_size_or(config, "max_window_layers", 0, 1 << 20, 28),
                           architecture);
}

const hs__family hs__family_qwen2 = HS__LLAMA_FAMILY("qwen2", layout, hs__qwen_configure);
