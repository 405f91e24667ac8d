/* family.h - a family of models as tables: the keys of its config.json and the names of its tensors. family.c
 * and weights.c turn them into an architecture. docs/explanation/tour.md says how to add a family. */
#pragma once

#include "model/base/bytes.h"
#include "model/families/config.h"
#include "model/files/shards.h"

#define HS__TYPES_MAX 256 /* token types are stored in a byte */

/* The weight of a layer that a module, or a range of its rows, holds. HS__END ends a list. */
typedef enum hs__weight {
    HS__END,
    HS__QUERY,
    HS__KEY,
    HS__VALUE,
    HS__OUTPUT,
    HS__FFN_IN,
    HS__FFN_GATE,
    HS__FFN_OUT,
    HS__POSITION_KEY,
    HS__POSITION_QUERY,
    HS__ATTENTION_NORM,
    HS__FFN_NORM,
    HS__QUERY_NORM,
    HS__KEY_NORM
} hs__weight;

/* A module of a layer: <name>.weight, and <name>.bias unless it has none. */
typedef struct hs__module {
    const char *name;
    hs__weight parts[4]; /* in the order of the rows; HS__END after the last */
    bool no_bias;
    bool transposed;    /* stored [in][out] */
    size_t first_layer; /* layers before this one do not have the module */
} hs__module;

/* One naming scheme for a family's tensors, without the prefix. NULL means that the module does not exist.
 * The binder skips modules that the architecture does not use: token types if n_types is 0, the projection if
 * E == H (unless projects_always), and modules of absent relative positions or convolutions. */
typedef struct hs__layout {
    const char *word, *position, *type, *embedding_norm, *projection;
    const char *layer, *below; /* text before a layer's number, and after it */
    const hs__module *layers;  /* a layer's modules, ended by one without a name */
    const char *score_bias, *relative, *relative_norm, *convolution, *convolution_norm, *final_norm;
    bool norms_without_bias, projects_always;
} hs__layout;

/* The modules of the head that predicts masked tokens. Their names have no prefix. A checkpoint has the head
 * if it has dense, norm and bias. Without a decoder the head uses the word embedding, unless the config says
 * that they are not tied.
 *
 * A head without dense is the decoder alone, without bias. A checkpoint has it if the decoder is there, or if
 * the config ties it to the word embedding. */
typedef struct hs__predictor_names {
    const char *dense, *norm, *decoder; /* decoder NULL: always the word embedding */
    bool untied;                        /* not tied if the config does not say; for a head without dense */
    const char *biases[2];              /* modules that may hold the logits' bias; the first that exists
                                         * counts */
    bool exact_gelu;                    /* GELU, even if the config names another activation */
} hs__predictor_names;

/* The modules of a task head, without prefix except for a dense of the base model. */
typedef struct hs__head_names {
    const char *dense, *norm, *output; /* dense and norm NULL: absent */
    bool dense_in_base;                /* dense has the base model's prefix */
    bool dense_may_lack_bias, output_may_lack_bias;
    hs_activation activation;
    const char *activation_key; /* key of config.json that names another activation; or NULL */
    hs_pool pool;
    const char *pooling_key; /* key of config.json that names another way of pooling; or NULL */
    bool may_pool_late;      /* pooling_key may be "late", and is by default; its "bos" is "cls" elsewhere */
} hs__head_names;

/* Heads that several families share (heads.c): the pooler of BERT, RoBERTa's two layers, one layer, and the
 * last token's scores of causal models. */
extern const hs__head_names hs__pooler_head, hs__roberta_head, hs__classifier_head, hs__span_head,
    hs__next_sentence_head, hs__score_head;

typedef struct hs__family {
    const char *types[4]; /* values of model_type in config.json; NULL after the last */
    const char *old_key;  /* a config without model_type that has this key is of this family; or NULL */
    const hs__shape_keys *keys[3];            /* the first whose n_layers the config has counts; NULL after
                                               * the last */
    const char *prefixes[4];                  /* prefixes of tensor names; NULL after the last */
    const hs__layout *layouts[3];             /* the first that the checkpoint has counts; NULL after the
                                               * last */
    const hs__predictor_names *predictors[3]; /* as for layouts */
    /* Names of the task heads; NULL: HuggingFace has no such class for the family. */
    const hs__head_names *sequence, *tokens, *span, *next_sentence;
    /* Reads the rest of an architecture except weights. The shape is set, and each layer has its own weights
     * (same_as). */
    void (*configure)(hs__config *config, hs_architecture *architecture);
    bool causal;          /* a token attends to itself and those before it, unless the config has is_causal
                           * false; the predictor's logits are of the next token */
    bool scales_rotation; /* configure reads rope_scaling */
} hs__family;

/* BERT's tables and config reader (bert.c), which several families use. */
extern const hs__shape_keys hs__bert_keys;
extern const hs__layout hs__bert_layout;
extern const hs__predictor_names hs__bert_predictor;
void hs__bert_configure(hs__config *config, hs_architecture *architecture);

/* clang-format off */

/* The keys of sizes that BERT, GPT-NeoX and Llama share. */
#define HS__DEFAULT_KEYS                                                                                     \
    .n_layers = "num_hidden_layers", .n_heads = "num_attention_heads", .hidden = "hidden_size",              \
    .ffn = "intermediate_size", .n_positions = "max_position_embeddings", .vocab_size = "vocab_size"

/* Modules of Llama's layers. Qwen2's queries, keys and values have biases. Qwen3 has norms after the first
 * four modules. */
#define HS__LLAMA_ATTENTION(without_bias)                                                                    \
    {.name = "self_attn.q_proj", .parts = {HS__QUERY}, .no_bias = (without_bias)},                           \
    {.name = "self_attn.k_proj", .parts = {HS__KEY}, .no_bias = (without_bias)},                             \
    {.name = "self_attn.v_proj", .parts = {HS__VALUE}, .no_bias = (without_bias)},                           \
    {.name = "self_attn.o_proj", .parts = {HS__OUTPUT}, .no_bias = true}
#define HS__LLAMA_REST                                                                                       \
    {.name = "input_layernorm", .parts = {HS__ATTENTION_NORM}},                                              \
    {.name = "post_attention_layernorm", .parts = {HS__FFN_NORM}},                                           \
    {.name = "mlp.gate_proj", .parts = {HS__FFN_GATE}, .no_bias = true},                                     \
    {.name = "mlp.up_proj", .parts = {HS__FFN_IN}, .no_bias = true},                                         \
    {.name = "mlp.down_proj", .parts = {HS__FFN_OUT}, .no_bias = true}

/* A layout with the names of Llama outside of its layers, and a causal family with its keys and heads. */
#define HS__LLAMA_LAYOUT(modules)                                                                            \
    {.word = "embed_tokens", .layer = "layers.", .below = ".", .layers = (modules), .final_norm = "norm",    \
     .norms_without_bias = true}
#define HS__LLAMA_FAMILY(type, layout, configurer)                                                           \
    {.types = {(type)}, .keys = {&hs__llama_keys}, .prefixes = {"", "model.", "transformer."},               \
     .layouts = {&(layout)}, .predictors = {&hs__llama_predictor}, .sequence = &hs__score_head,              \
     .tokens = &hs__score_head, .span = &hs__span_head, .configure = (configurer), .causal = true,           \
     .scales_rotation = true}

/* clang-format on */

/* Llama's tables and config reader (llama.c), which several families use. */
extern const hs__shape_keys hs__llama_keys;
extern const hs__layout hs__llama_layout;
extern const hs__predictor_names hs__llama_predictor;
void hs__llama_configure(hs__config *config, hs_architecture *architecture);

/* Sets the sliding windows of causal layers. A window of n keys includes the query itself; without the causal
 * mask it is n keys on either side, as in transformers. layer_types names the layers that have one; without
 * that key they are those from `first` on. */
void hs__sliding_window(hs__config *config, size_t first, hs_architecture *architecture);

/* Qwen2's config reader (qwen2.c), which Qwen3 shares. */
void hs__qwen_configure(hs__config *config, hs_architecture *architecture);

/* RoBERTa's head (roberta.c), which MPNet and ESM share. */
extern const hs__predictor_names hs__roberta_predictor;

/* Reads config.json: finds the family, checks every limit of architecture.h, and refuses keys that would
 * change the numbers. On success the caller releases *ret_architecture with hs__family_release. On failure it
 * is untouched. */
HS_MUST_USE hs_status hs__family_configure(const hs_bytes *config, const hs__family **ret_family,
                                           hs_architecture *ret_architecture, hs_error *err);

/* Frees what hs__family_configure allocated. Zeroed is fine. */
void hs__family_release(hs_architecture *architecture);

/* Reads the task head that `architectures` names: its task, problem type and labels. */
void hs__heads_configure(hs__config *config, const hs__family *family, hs_architecture *architecture);
/* Returns the names of the tensors of a task. */
const hs__head_names *hs__heads_names(const hs__family *family, hs_head_task task);
