/* deberta.c - DeBERTa and DeBERTa-v2 (He et al. 2021), DeBERTa-v3 (He et al. 2023) and mDeBERTa: BERT with
 * scores that depend on content and distance (hs_relative). Most have no positions in the embeddings. The
 * largest v2 models have a convolution after their first layer. The first version packs queries, keys and
 * values, and every distance has a row of the table. */
#include "model/families/family.h"

#include <string.h>

/* clang-format off */
#define BEHIND_THE_HEADS                                                                                     \
    {.name = "attention.output.dense", .parts = {HS__OUTPUT}},                                               \
    {.name = "attention.output.LayerNorm", .parts = {HS__ATTENTION_NORM}},                                   \
    {.name = "intermediate.dense", .parts = {HS__FFN_IN}},                                                   \
    {.name = "output.dense", .parts = {HS__FFN_OUT}},                                                        \
    {.name = "output.LayerNorm", .parts = {HS__FFN_NORM}}
/* clang-format on */

static const hs__module first_modules[] = {
    {.name = "attention.self.in_proj",
     .parts = {HS__QUERY, HS__KEY, HS__VALUE},
     .bias = HS__NO_BIAS,
     .grouped = true},
    {.name = "attention.self", .parts = {HS__QUERY}, .bias_alone = "q_bias"},
    {.name = "attention.self", .parts = {HS__VALUE}, .bias_alone = "v_bias"},
    {.name = "attention.self.pos_proj", .parts = {HS__POSITION_KEY}, .bias = HS__NO_BIAS},
    {.name = "attention.self.pos_q_proj", .parts = {HS__POSITION_QUERY}},
    BEHIND_THE_HEADS,
    {0},
};

static const hs__module modules[] = {
    {.name = "attention.self.query_proj", .parts = {HS__QUERY}},
    {.name = "attention.self.key_proj", .parts = {HS__KEY}},
    {.name = "attention.self.value_proj", .parts = {HS__VALUE}},
    {.name = "attention.self.pos_key_proj", .parts = {HS__POSITION_KEY}},
    {.name = "attention.self.pos_query_proj", .parts = {HS__POSITION_QUERY}},
    BEHIND_THE_HEADS,
    {0},
};

/* Returns the length of the first part of a list like "p2c|c2p", without spaces around it. *text moves to its
 * start, *ret_next to the next part or NULL. */
static size_t read_part(const char **text, const char **ret_next)
{
    const char *bar = strchr(*text, '|');
    *ret_next = bar ? bar + 1 : NULL;
    size_t n = bar ? (size_t)(bar - *text) : strlen(*text);
    for (; n > 0 && **text == ' '; n--)
        ++*text;
    while (n > 0 && (*text)[n - 1] == ' ')
        n--;
    return n;
}

static bool is(const char *part, size_t n, const char *word)
{
    return strlen(word) == n && memcmp(part, word, n) == 0;
}

/* Reads the kinds of a list and adds their number to that of the addends. */
static void read_kinds(hs__config *config, const char *kinds, hs_relative *relative)
{
    for (const char *next; kinds; kinds = next) {
        const size_t n = read_part(&kinds, &next);
        relative->n_addends++;
        if (is(kinds, n, "c2p"))
            relative->c2p = true;
        else if (is(kinds, n, "p2c"))
            relative->p2c = true;
        else if (n > 0)
            hs__config_refuse(config, "pos_att_type may name \"c2p\" and \"p2c\"; not supported: \"%.*s\"",
                              (int)n, kinds);
    }
}

/* Reads pos_att_type: a string or a list of strings. */
static void read_all_kinds(hs__config *config, hs_relative *relative)
{
    const json_t *list = json_object_get(config->keys, "pos_att_type");
    if (!json_is_array(list)) {
        read_kinds(config, hs__config_text(config, "pos_att_type"), relative);
        return;
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *kind = json_string_value(json_array_get(list, i));
        if (!kind)
            hs__config_refuse(config, "pos_att_type must be a string or a list of them");
        read_kinds(config, kind, relative);
    }
}

static void read_norm(hs__config *config, hs_relative *relative)
{
    const char *norms = hs__config_text(config, "norm_rel_ebd");
    for (const char *next; norms; norms = next) {
        const size_t n = read_part(&norms, &next);
        relative->is_normed |= is(norms, n, "layer_norm");
        if (!is(norms, n, "layer_norm") && !is(norms, n, "none"))
            hs__config_refuse(config,
                              "norm_rel_ebd must be \"layer_norm\" or \"none\"; not supported: \"%.*s\"",
                              (int)n, norms);
    }
}

/* Reads a count. Returns 0 for none, which the config may write as -1 or 0. */
static size_t read_count(hs__config *config, const char *key)
{
    const json_t *value = json_object_get(config->keys, key);
    if (json_is_integer(value) && json_integer_value(value) == -1)
        return 0;
    return hs__config_size_or(config, key, 0, HS_POSITIONS_MAX, 0);
}

/* Reads the kinds of addends and the distances. The scale of scores counts the kinds that pos_att_type names,
 * even if they are unused. */
static void read_addends(hs__config *config, size_t n_positions, hs_relative *relative)
{
    relative->n_addends = 1;
    read_all_kinds(config, relative);
    relative->n_distances = read_count(config, "max_relative_positions");
    if (relative->n_distances == 0)
        relative->n_distances = n_positions;
    relative->span = relative->n_distances;
}

/* Drops the addends of a config without relative positions. */
static void drop_unused(hs__config *config, hs_relative *relative)
{
    if (!hs__config_flag_or(config, "relative_attention", false))
        relative->c2p = relative->p2c = false;
}

/* Reads the relative positions of the later versions, which count a kind once if a list repeats it. */
static void read_relative(hs__config *config, size_t n_positions, hs_relative *relative)
{
    read_addends(config, n_positions, relative);
    relative->n_addends = 1 + (size_t)relative->c2p + (size_t)relative->p2c;
    drop_unused(config, relative);
    relative->shared = hs__config_flag_or(config, "share_att_key", false);
    relative->n_buckets = read_count(config, "position_buckets");
    if (relative->n_buckets > 0)
        relative->span = relative->n_buckets;
    const size_t middle = relative->n_buckets / 2;
    const bool all_exact = n_positions <= middle + 1; /* every distance has a bucket of its own */
    if (relative->n_buckets > 0 && (middle < 1 || (!all_exact && relative->n_distances < middle + 2)))
        hs__config_refuse(
            config,
            "position_buckets (%zu) must be at least 2, and half of it at least 2 below the %zu "
            "distances of max_relative_positions",
            relative->n_buckets, relative->n_distances);
    read_norm(config, relative);
}

static void read_convolution(hs__config *config, hs_convolution *convolution)
{
    convolution->width = hs__config_size_or(config, "conv_kernel_size", 0, 31, 0);
    convolution->activation = hs__config_activation(config, "conv_act", HS_TANH);
    hs__config_size_or(config, "conv_groups", 1, 1, 1);
    if (convolution->width > 0 && convolution->width % 2 == 0)
        hs__config_refuse(config, "conv_kernel_size must be odd");
}

/* Reads the keys that all versions have. */
static void configure_states(hs__config *config, hs_architecture *architecture)
{
    const size_t H = architecture->shape.hidden;
    hs__config_size_or(config, "embedding_size", H, H, H);
    architecture->shape.n_types = hs__config_size_or(config, "type_vocab_size", 0, HS__TYPES_MAX, 0);
    architecture->embedding.unpositioned = !hs__config_flag_or(config, "position_biased_input", true);
    architecture->norm_eps = (float)hs__config_number_or(config, "layer_norm_eps", 1e-30, 1, 1e-7);
    architecture->activation = hs__config_activation(config, "hidden_act", HS_GELU);
}

static void configure_first(hs__config *config, hs_architecture *architecture)
{
    hs__config_unused(config, "talking_head"); /* it mixes the heads' scores and maps */
    configure_states(config, architecture);
    read_addends(config, architecture->shape.n_positions, &architecture->relative);
    drop_unused(config, &architecture->relative);
}

static void configure(hs__config *config, hs_architecture *architecture)
{
    const hs_shape *shape = &architecture->shape;
    hs__config_size_or(config, "attention_head_size", shape->head_width, shape->head_width,
                       shape->head_width);
    hs__config_size_or(config, "z_steps", 0, 1, 0); /* more runs the last layer again */
    configure_states(config, architecture);
    read_relative(config, shape->n_positions, &architecture->relative);
    read_convolution(config, &architecture->convolution);
}

/* clang-format off */

/* The names that all versions share. */
#define NAMES                                                                                                \
    .word = "embeddings.word_embeddings", .position = "embeddings.position_embeddings",                      \
    .type = "embeddings.token_type_embeddings", .embedding_norm = "embeddings.LayerNorm",                    \
    .layer = "encoder.layer.", .below = ".", .relative = "encoder.rel_embeddings"

#define FAMILY                                                                                               \
    .keys = {&hs__bert_keys}, .prefixes = {"", "deberta.", "model."},                                        \
    .predictors = {&predictor, &hs__bert_predictor}, .sequence = &sequence, .tokens = &hs__classifier_head,  \
    .span = &hs__span_head, .default_positions = 512

/* clang-format on */

static const hs__layout first_layout = {NAMES, .layers = first_modules};

static const hs__layout layout = {
    NAMES,
    .layers = modules,
    .relative_norm = "encoder.LayerNorm",
    .convolution = "encoder.conv.conv",
    .convolution_norm = "encoder.conv.LayerNorm",
};

/* The names in the authors' files. HuggingFace's older class reads only BERT's names, so files that it saved
 * may have both. It left the tensors that it did not find random. */
static const hs__predictor_names predictor = {
    .dense = "lm_predictions.lm_head.dense",
    .norm = "lm_predictions.lm_head.LayerNorm",
    .biases = {"lm_predictions.lm_head"},
};

static const hs__head_names sequence = {.dense = "pooler.dense",
                                        .activation = HS_GELU,
                                        .activation_key = "pooler_hidden_act",
                                        .output = "classifier"};

const hs__family hs__family_deberta = {
    FAMILY,
    .types = {"deberta"},
    .layouts = {&first_layout},
    .configure = configure_first,
};

const hs__family hs__family_deberta_v2 = {
    FAMILY,
    .types = {"deberta-v2"},
    .layouts = {&layout},
    .configure = configure,
};
