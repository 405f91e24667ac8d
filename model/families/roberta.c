/* roberta.c - RoBERTa (Liu et al. 2019), XLM-RoBERTa and CamemBERT: BERT with positions that start after the
 * padding id. All three are saved under RoBERTa's prefix. data2vec (Baevski et al. 2022) is the same under
 * its own. RoBERTa-PreLayerNorm (Meister and others 2022) and XLM-RoBERTa XL (Goyal et al. 2021) norm before.
 */
#include "model/families/family.h"

void hs__roberta_configure(hs__config *config, hs_architecture *architecture)
{
    hs__bert_configure(config, architecture);
    hs__config_padding(config, hs__config_size_or(config, "pad_token_id", 0, HS_POSITIONS_MAX, 1),
                       architecture);
}

const hs__predictor_names hs__roberta_predictor = {
    .dense = "lm_head.dense",
    .norm = "lm_head.layer_norm",
    .decoder = "lm_head.decoder",
    .biases = {"lm_head.decoder", "lm_head"},
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
    .configure = hs__roberta_configure,
    .default_positions = 512,
};

/* clang-format off */

#define FAMILY(type, prefix, layout, configurer)                                                             \
    {.types = {(type)}, .keys = {&hs__bert_keys}, .prefixes = {"", (prefix)}, .layouts = {&(layout)},        \
     .predictors = {&hs__roberta_predictor}, .sequence = &hs__roberta_head, .tokens = &hs__classifier_head,  \
     .span = &hs__span_head, .configure = (configurer), .default_positions = 512}

/* The modules of a layer with norms before, which have these names. */
#define MODULES(attention_norm, ffn_norm)                                                                    \
    {.name = "attention.self.query", .parts = {HS__QUERY}},                                                  \
    {.name = "attention.self.key", .parts = {HS__KEY}},                                                      \
    {.name = "attention.self.value", .parts = {HS__VALUE}},                                                  \
    {.name = "attention.output.dense", .parts = {HS__OUTPUT}},                                               \
    {.name = (attention_norm), .parts = {HS__ATTENTION_NORM}},                                               \
    {.name = "intermediate.dense", .parts = {HS__FFN_IN}},                                                   \
    {.name = "output.dense", .parts = {HS__FFN_OUT}},                                                        \
    {.name = (ffn_norm), .parts = {HS__FFN_NORM}},                                                           \
    {0},

#define LAYOUT(its_modules, its_final_norm)                                                                  \
    .word = "embeddings.word_embeddings", .position = "embeddings.position_embeddings",                      \
    .type = "embeddings.token_type_embeddings", .layer = "encoder.layer.", .below = ".",                     \
    .layers = (its_modules), .final_norm = (its_final_norm)

/* clang-format on */

const hs__family hs__family_data2vec_text =
    FAMILY("data2vec-text", "data2vec_text.", hs__bert_layout, hs__roberta_configure);

static const hs__module prelayernorm_modules[] = {MODULES("attention.LayerNorm", "intermediate.LayerNorm")};
static const hs__layout prelayernorm_layout = {LAYOUT(prelayernorm_modules, "LayerNorm"),
                                               .embedding_norm = "embeddings.LayerNorm"};

static void configure_prelayernorm(hs__config *config, hs_architecture *architecture)
{
    hs__roberta_configure(config, architecture);
    architecture->norms_before = true;
}

const hs__family hs__family_roberta_prelayernorm =
    FAMILY("roberta-prelayernorm", "roberta_prelayernorm.", prelayernorm_layout, configure_prelayernorm);

static const hs__module xl_modules[] = {MODULES("attention.self_attn_layer_norm", "LayerNorm")};
static const hs__layout xl_layout = {LAYOUT(xl_modules, "encoder.LayerNorm")};

/* Reads the config of XLM-RoBERTa XL, which has other defaults than BERT. */
static void configure_xl(hs__config *config, hs_architecture *architecture)
{
    configure_prelayernorm(config, architecture);
    architecture->shape.n_types = hs__config_size_or(config, "type_vocab_size", 1, HS__TYPES_MAX, 1);
    architecture->norm_eps = (float)hs__config_number_or(config, "layer_norm_eps", 1e-30, 1, 1e-5);
}

const hs__family hs__family_xlm_roberta_xl = FAMILY("xlm-roberta-xl", "roberta.", xl_layout, configure_xl);
