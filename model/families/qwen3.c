/* qwen3.c - Qwen3 (Yang et al. 2025): Llama with RMS norms of each head's queries and keys. */
#include "model/families/family.h"

static const hs__module modules[] = {
    HS__LLAMA_ATTENTION(true),
    {.name = "self_attn.q_norm", .parts = {HS__QUERY_NORM}},
    {.name = "self_attn.k_norm", .parts = {HS__KEY_NORM}},
    HS__LLAMA_REST,
    {0},
};

static const hs__layout layout = HS__LLAMA_LAYOUT(modules);

const hs__family hs__family_qwen3 = HS__LLAMA_FAMILY("qwen3", layout, hs__qwen_configure);
