/* encoder_decoder.c - two models that EncoderDecoderModel joins (Rothe et al. 2020): BERT, RoBERTa or
 * BertGeneration as encoder, and the same family as decoder, whose layers have cross attention between their
 * own attention and the feed-forward part. config.json has a config of each stack. */
#include "model/families/family.h"

#include <string.h>

/* clang-format off */

/* The modules of an attention block, which are or are not in cross attention. */
#define ATTENTION(name_, in_cross)                                                                           \
    {.name = name_ ".self.query", .parts = {HS__QUERY}, .crosses = (in_cross)},                              \
    {.name = name_ ".self.key", .parts = {HS__KEY}, .crosses = (in_cross)},                                  \
    {.name = name_ ".self.value", .parts = {HS__VALUE}, .crosses = (in_cross)},                              \
    {.name = name_ ".output.dense", .parts = {HS__OUTPUT}, .crosses = (in_cross)},                           \
    {.name = name_ ".output.LayerNorm", .parts = {HS__ATTENTION_NORM}, .crosses = (in_cross)}

/* clang-format on */

static const hs__module modules[] = {
    ATTENTION("attention", false),
    ATTENTION("crossattention", true),
    {.name = "intermediate.dense", .parts = {HS__FFN_IN}, .crosses = true},
    {.name = "output.dense", .parts = {HS__FFN_OUT}, .crosses = true},
    {.name = "output.LayerNorm", .parts = {HS__FFN_NORM}, .crosses = true},
    {0},
};

/* The decoder's; that of encoders is BERT's. */
static const hs__layout layout = {
    .word = "embeddings.word_embeddings",
    .position = "embeddings.position_embeddings",
    .type = "embeddings.token_type_embeddings",
    .embedding_norm = "embeddings.LayerNorm",
    .layer = "encoder.layer.",
    .below = ".",
    .layers = modules,
};

static const hs__predictor_names bert_predictor = {.dense = "decoder.cls.predictions.transform.dense",
                                                   .norm = "decoder.cls.predictions.transform.LayerNorm",
                                                   .decoder = "decoder.cls.predictions.decoder",
                                                   .biases = {"decoder.cls.predictions.decoder",
                                                              "decoder.cls.predictions"}},
                                 roberta_predictor = {.dense = "decoder.lm_head.dense",
                                                      .norm = "decoder.lm_head.layer_norm",
                                                      .decoder = "decoder.lm_head.decoder",
                                                      .biases = {"decoder.lm_head.decoder",
                                                                 "decoder.lm_head"},
                                                      .exact_gelu = true},
                                 generation_predictor = {
                                     .decoder = "decoder.lm_head.decoder",
                                     .biases = {"decoder.lm_head.decoder", "decoder.lm_head"}};

/* ---- config.json ---- */

/* Reads the keys of the whole model that hs__stack_take gave to the stack. */
static void configure(hs__config *config, hs_architecture *architecture)
{
    static const char *const needed[] = {"is_decoder", "add_cross_attention"};
    architecture->stacks_tied = hs__config_flag_or(config, "tie_encoder_decoder", false);
    for (size_t i = 0; architecture->crosses && i < sizeof needed / sizeof *needed; i++)
        if (!hs__config_flag_or(config, needed[i], false))
            hs__config_refuse(config, "%s must be true: else the decoder does not read the encoder",
                              needed[i]);
    if (architecture->crosses)
        architecture->start_id = hs__config_token_or(config, "decoder_start_token_id", architecture, -1);
}

static void configure_bert(hs__config *config, hs_architecture *architecture)
{
    hs__bert_configure(config, architecture);
    configure(config, architecture);
}

static void configure_roberta(hs__config *config, hs_architecture *architecture)
{
    hs__roberta_configure(config, architecture);
    configure(config, architecture);
}

/* Reads BertGeneration's config: BERT's without token types. */
static void configure_generation(hs__config *config, hs_architecture *architecture)
{
    configure_bert(config, architecture);
    architecture->shape.n_types = 0;
}

/* Returns the model_type of a stack; BERT's if the config lacks it, as in transformers. NULL: none. */
static const char *type_of(const json_t *keys, const char *stack)
{
    const json_t *config = json_object_get(keys, stack), *type = json_object_get(config, "model_type");
    return json_is_object(config) && !type ? "bert" : json_string_value(type);
}

bool hs__stacks_are(const json_t *keys, const hs__family *family)
{
    const char *encoder = type_of(keys, "encoder"), *decoder = type_of(keys, "decoder");
    for (size_t i = 0; encoder && decoder && family->stack_types[i]; i++)
        if (strcmp(encoder, family->stack_types[i]) == 0 && strcmp(decoder, family->stack_types[i]) == 0)
            return true;
    return false;
}

void hs__stacks_refuse(hs__config *config)
{
    const char *encoder = type_of(config->keys, "encoder"), *decoder = type_of(config->keys, "decoder");
    hs__config_refuse(config,
                      "this EncoderDecoderModel joins the encoder \"%.32s\" and the decoder \"%.32s\"; both "
                      "must be \"bert\", or both \"roberta\", \"xlm-roberta\", \"camembert\" or "
                      "\"bert-generation\". The encoder opens as a folder of its own, which transformers "
                      "makes: EncoderDecoderModel.from_pretrained(\"DIR\").encoder.save_pretrained(\"OUT\"); "
                      "then --model OUT --tokenizer DIR",
                      encoder ? encoder : "", decoder ? decoder : "");
}

/* Refuses stacks that do not fit together. */
static void check_pair(hs__config *config)
{
    static const struct {
        const char *key, *reason;
    } equal[] = {
        {"hidden_size", "stacks of other widths, which enc_to_dec_proj joins, are not supported"},
        {"vocab_size", "the tokenizer is that of both stacks"},
    };
    const json_t *encoder = json_object_get(config->keys, "encoder");
    const json_t *decoder = json_object_get(config->keys, "decoder");
    const json_t *width = json_object_get(decoder, "cross_attention_hidden_size");
    for (size_t i = 0; i < sizeof equal / sizeof *equal; i++) {
        const json_t *a = json_object_get(encoder, equal[i].key), *b = json_object_get(decoder, equal[i].key);
        if (json_is_integer(a) && json_is_integer(b) && !json_equal(a, b))
            hs__config_refuse(config,
                              "%s of encoder (%" JSON_INTEGER_FORMAT ") and decoder (%" JSON_INTEGER_FORMAT
                              ") must be equal: %s",
                              equal[i].key, json_integer_value(a), json_integer_value(b), equal[i].reason);
    }
    if (width && !json_is_null(width) && !json_equal(width, json_object_get(encoder, "hidden_size")))
        hs__config_refuse(config, "cross_attention_hidden_size of decoder must be hidden_size of encoder");
}

hs_status hs__stack_take(hs__config *config, bool of_decoder, json_t **keys)
{
    static const char *const whole[] = {"decoder_start_token_id", "tie_encoder_decoder",
                                        "quantization_config"};
    check_pair(config);
    if (config->status)
        return config->status;
    json_t *stack = json_deep_copy(json_object_get(*keys, of_decoder ? "decoder" : "encoder"));
    bool ok = stack != NULL;
    for (size_t i = 0; ok && i < sizeof whole / sizeof *whole; i++) {
        json_t *value = json_object_get(*keys, whole[i]);
        json_object_del(stack, whole[i]);
        ok = !value || !json_object_set(stack, whole[i], value);
    }
    if (!ok) {
        json_decref(stack);
        return hs_fail(config->err, HS_NO_MEMORY, "config.json: out of memory");
    }
    json_decref(*keys);
    config->keys = *keys = stack;
    config->file_name = of_decoder ? "config.json: decoder" : "config.json: encoder";
    return HS_OK;
}

/* ---- families ---- */

/* clang-format off */

#define PAIR(name, decoder_prefix, its_predictor, ...)                                                       \
    static const hs__family name##_decoder = {                                                               \
        .types = {"encoder-decoder"}, .stack_types = {__VA_ARGS__}, .keys = {&hs__bert_keys},                \
        .prefixes = {(decoder_prefix)}, .layouts = {&layout}, .predictors = {&(its_predictor)},              \
        .configure = configure_##name, .default_positions = 512, .causal = true, .encoder_of_two = true,     \
        .crosses = true};                                                                                    \
    const hs__family hs__family_##name##_pair = {                                                            \
        .types = {"encoder-decoder"}, .stack_types = {__VA_ARGS__}, .keys = {&hs__bert_keys},                \
        .prefixes = {"encoder."}, .layouts = {&hs__bert_layout}, .configure = configure_##name,              \
        .default_positions = 512, .encoder_of_two = true, .decoder = &name##_decoder}

/* clang-format on */

PAIR(bert, "decoder.bert.", bert_predictor, "bert");
PAIR(roberta, "decoder.roberta.", roberta_predictor, "roberta", "xlm-roberta", "camembert");
PAIR(generation, "decoder.bert.", generation_predictor, "bert-generation");
