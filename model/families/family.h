/* family.h - what the files of this folder share. A family of models is tables, the keys of its config.json
 * and the names of its tensors, and a function that reads the rest of the config. family.c and bind.c turn
 * them into an architecture. sentence.c adds the modules of a sentence encoder. docs/explanation/tour.md says
 * how to add a family. */
#pragma once

#include "model/architecture.h"
#include "model/base/bytes.h"
#include "model/base/status.h"
#include "model/files/shards.h"

#include <jansson.h>
#include <limits.h>

/* ---- reading config.json ----
 *
 * The first failure is kept and later readers do nothing, so a family reads its keys without checks between
 * them. After a failure the readers return the smallest allowed value, which nothing uses. Every failure is
 * HS_BAD_MODEL and names the key. */

typedef struct hs__config {
    const json_t *keys;
    const char *file_name; /* for messages; NULL: config.json */
    hs_status status;
    hs_error *err;
} hs__config;

/* The names of the keys of a shape's sizes. */
typedef struct hs__shape_keys {
    const char *n_layers, *n_heads, *hidden, *ffn, *n_positions, *vocab_size;
    const char *n_kv_heads, *head_width; /* optional keys, or NULL */
    size_t kv_heads_default;             /* if the key is absent; 0: n_heads, as for null */
    size_t head_width_default;           /* if the key is absent; 0: hidden / n_heads */
    bool long_texts;                     /* more positions than HS_POSITIONS_MAX are allowed, and not used */
    size_t positions;                    /* tokens of the longest text if n_positions is NULL */
    size_t ffn_factor;                   /* ffn may be absent or null: this times hidden; 0: it may not */
} hs__shape_keys;

/* Returns true if an optional key has a value. A key of NULL has none. */
static inline bool hs__config_has(const hs__config *config, const char *key)
{
    const json_t *value = key && !config->status ? json_object_get(config->keys, key) : NULL;
    return value && !json_is_null(value);
}

#define HS__POSITIONS_MIN 3 /* [CLS] a [SEP] is the shortest useful input */

/* Reads a required integer from min to max. */
size_t hs__config_size(hs__config *config, const char *key, size_t min, size_t max);

/* Read optional keys. Return `otherwise` if the key is absent or, for flags and numbers, null. */
size_t hs__config_size_or(hs__config *config, const char *key, size_t min, size_t max, size_t otherwise);
bool hs__config_flag_or(hs__config *config, const char *key, bool otherwise);
double hs__config_number_or(hs__config *config, const char *key, double min, double max, double otherwise);

/* Reads an activation by any of HuggingFace's names. Returns `otherwise` if the key is absent or null. */
hs_activation hs__config_activation(hs__config *config, const char *key, hs_activation otherwise);

/* Sets position_offset for families whose positions start after the padding id, as fairseq's do. The rows up
 * to padding_id belong to no token. */
void hs__config_padding(hs__config *config, size_t padding_id, hs_architecture *architecture);

/* Reads the id of a token. Returns `otherwise` if the key is absent or null. */
int32_t hs__config_token_or(hs__config *config, const char *key, const hs_architecture *architecture,
                            int32_t otherwise);

/* Reads a string. Returns NULL if the key is absent or null. */
const char *hs__config_text(hs__config *config, const char *key);

/* Reads the base of rotary positions: rope_theta in rope_parameters, or in their member `part` if layers
 * differ. */
double hs__config_theta_or(hs__config *config, const char *part, double otherwise);

/* The older keys of rotary positions, and the member of rope_parameters if layers differ. */
typedef struct hs__rotation_keys {
    const char *theta, *fraction, *part; /* fraction and part may be NULL */
    double base, share;                  /* of a config without the keys; 0: 10000, the whole head */
    size_t original; /* original_max_position_embeddings of a config without it; 0: max_position_embeddings */
    bool longrope_only; /* the only scaling, also under its older names "su" and "yarn" */
} hs__rotation_keys;

/* Reads rotary positions by their newer keys (rope_parameters) or their older ones (and rope_scaling) into
 * the architecture and its layers. If a config has both objects, rope_scaling counts as in transformers. */
void hs__config_rotation(hs__config *config, hs__rotation_keys keys, hs_architecture *architecture);

#define HS__WINDOW_MAX ((size_t)1 << 30)

/* Returns true if layer_types, here `types`, gives a layer a window. */
bool hs__config_slides(hs__config *config, const json_t *types, size_t layer);

/* The same where all layers but each `every`-th have one if `types` is NULL or null. */
bool hs__config_has_window(hs__config *config, const json_t *types, size_t every, size_t layer);

/* Gives a layer a window of n_keys, which includes the query itself. Without the causal mask it is n_keys on
 * either side, as in transformers. */
void hs__window_set(hs_architecture *architecture, size_t layer, size_t n_keys);

/* Sets the windows of layers by sliding_window. `otherwise` is the window of a config without the key, or 0.
 * `types` is layer_types, which names the layers that have one; without it they are those from `first` on. */
void hs__config_window(hs__config *config, size_t otherwise, const json_t *types, size_t first,
                       hs_architecture *architecture);

/* Refuses any value except `only`. Absent and null mean HuggingFace's default, which is `only`. */
void hs__config_only(hs__config *config, const char *key, const char *only);

/* Refuses the config unless the key is absent, null, false, {} or []: the feature is not supported. */
void hs__config_unused(hs__config *config, const char *key);

/* Refuses the config. The message says which key is wrong, and why. */
void hs__config_refuse(hs__config *config, const char *format, ...) HS_PRINTF(2, 3);

/* ---- a family's tables ---- */

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
    HS__ATTENTION_NORM, /* this and those behind it are norms */
    HS__FFN_NORM,
    HS__ATTENTION_OUT_NORM,
    HS__FFN_OUT_NORM,
    HS__QUERY_NORM,
    HS__KEY_NORM
} hs__weight;

/* Which models have a module, by hs_architecture.gated, parallel_residual, norms_apart and qk_normed. A norm
 * is shared if the parts of a parallel residual have none apart. */
typedef enum hs__condition {
    HS__ALWAYS,
    HS__IF_GATED,
    HS__IF_PLAIN,
    HS__IF_PARALLEL,
    HS__IF_SERIAL,
    HS__IF_NORMS_APART,
    HS__IF_NORMS_NOT_APART,
    HS__IF_NORM_SHARED,
    HS__IF_QK_NORMED
} hs__condition;

/* Which modules have a bias: all, none, or by a field of hs_architecture. */
typedef enum hs__bias {
    HS__BIAS,
    HS__NO_BIAS,
    HS__IF_ATTENTION_BIASED,
    HS__IF_OUTPUT_BIASED,
    HS__IF_FFN_BIASED
} hs__bias;

/* A module of a layer: <name>.weight, and <name>.bias unless it has none. */
typedef struct hs__module {
    const char *name;
    hs__weight parts[4]; /* in the order of the rows; HS__END after the last */
    hs__bias bias;
    const char *bias_alone; /* the module has no more than this bias of its part, a parameter of this name. It
                             * stands behind the module with the part's weight */
    bool transposed;        /* stored [in][out] */
    bool grouped;       /* rows are ordered [key-value heads][G + 2][d]: q of the G heads that share k and v,
                         * then these */
    size_t first_layer; /* layers before this one do not have the module */
    bool crosses;       /* of a decoder's cross attention, or behind it */
    hs__condition condition;
    bool by_head;  /* the norm of queries or keys has a row for each of their heads */
    bool numbered; /* <name>.<head> is a module for each of them */
} hs__module;

/* One naming scheme for a family's tensors, without the prefix. NULL means that the module does not exist.
 *
 * Where the config ties word embeddings, a checkpoint may hold the table under another name than `word`. It
 * is then the first of `tied` that exists, and of the predictors' decoders. A table that is there counts,
 * even if the config says that it is another one, as in transformers 5.
 *
 * The binder skips modules that the architecture does not use: token types if n_types is 0, the projection if
 * E == H (unless projects_always), and modules of absent relative positions or convolutions. It skips the
 * final norm of architectures whose norms come after. */
typedef struct hs__layout {
    const char *word, *position, *type, *embedding_norm, *projection;
    const char *tied[5];        /* with the prefix or without it; NULL after the last */
    const char *out_projection; /* of the last states to E columns, which heads read; or NULL */
    const char *layer, *below;  /* text before a layer's number, and after it */
    const hs__module *layers;   /* a layer's modules, ended by one without a name */
    const char *score_bias, *relative, *relative_norm, *convolution, *convolution_norm, *final_norm;
    const char *frequencies, *layer_frequencies; /* of rotary positions: a tensor, and its older name in
                                                  * layers, whose number may be an asterisk */
    const char *unread; /* a tensor in a layer that models do not read and old checkpoints have */
    bool norms_without_bias, projects_always;
    bool projects_words;   /* the projections have no biases, and positions are added behind the first */
    bool norms_around_one; /* gamma is the tensor plus 1 */
} hs__layout;

/* The modules of the head that predicts masked tokens. Their names have no prefix. A checkpoint has the head
 * if it has dense, norm and, unless the config says that there is none, bias. Without a decoder the head uses
 * the word embedding, unless the config says that they are not tied.
 *
 * A head without dense is the decoder alone, perhaps with a bias. A checkpoint has it if the decoder is
 * there, or if the config ties it to the word embedding. */
typedef struct hs__predictor_names {
    const char *dense, *norm, *decoder; /* decoder NULL: always the word embedding */
    const char *logits_bias; /* a tensor [1][vocab_size] beside a decoder alone; optional, or NULL */
    bool untied;             /* not tied if the config does not say; for a head without dense */
    const char *biases[2];   /* modules that may hold the logits' bias: the decoder's own, and the one that it
                              * is tied to. Optional for a head without dense */
    bool exact_gelu;         /* GELU, even if the config names another activation */
} hs__predictor_names;

/* The modules of a task head, without prefix except for a dense of the base model. */
typedef struct hs__head_names {
    const char *dense, *norm, *output; /* dense and norm NULL: absent */
    bool dense_in_base;                /* dense has the base model's prefix */
    bool dense_may_lack_bias;          /* it has one unless the predictor's is unbiased */
    bool pooled_without_bias;          /* output has no bias if it reads a pooled row */
    hs_activation activation;
    const char *activation_key; /* key of config.json that names another activation; or NULL */
    hs_pool pool;
    const char *pooling_key; /* key of config.json that names another way of pooling; or NULL */
    bool may_pool_late;      /* pooling_key may be "late", and is by default; its "bos" is "cls" elsewhere */
} hs__head_names;

/* Heads that several families share: the pooler of BERT, RoBERTa's two layers, one layer, and the
 * last token's scores of causal models. */
extern const hs__head_names hs__pooler_head, hs__roberta_head, hs__classifier_head, hs__span_head,
    hs__next_sentence_head, hs__score_head;

typedef struct hs__family {
    const char *types[4];       /* values of model_type in config.json; NULL after the last */
    const char *stack_types[4]; /* of two models that are joined: config.json has a config for each stack, and
                                 * both have this model_type; NULL after the last */
    const char *old_key;        /* a config without model_type that has this key is of this family; or NULL */
    const hs__shape_keys *keys[5];            /* the first whose n_layers, n_heads and hidden the config has
                                               * counts; NULL after the last */
    const char *prefixes[6];                  /* prefixes of tensor names; NULL after the last */
    const hs__layout *layouts[3];             /* the first that the checkpoint has counts; NULL after the
                                               * last */
    const hs__predictor_names *predictors[3]; /* as for layouts */
    /* Names of the task heads; NULL: HuggingFace has no such class for the family. */
    const hs__head_names *sequence, *tokens, *span, *next_sentence;
    const char *contacts; /* the module of the contact head, with the prefix; optional, or NULL */
    /* Reads the rest of an architecture except weights. The shape is set, and each layer has its own weights
     * (same_as). */
    void (*configure)(hs__config *config, hs_architecture *architecture);
    size_t default_positions; /* of a config without the key of n_positions; 0: the key is required */
    bool causal;          /* a token attends to itself and those before it, unless the config has is_causal
                           * false; the predictor's logits are of the next token */
    bool scales_rotation; /* configure reads rope_scaling */
    bool encoder_of_two;  /* the encoder of a model that may have a decoder too */
    bool crosses;         /* a decoder that reads the states of an encoder */
    bool pads;            /* a config without pad_token_id means padding_id */
    int32_t padding_id;
    const struct hs__family *decoder; /* the tables of the same model's decoder, or NULL */
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

/* clang-format on */

/* RoBERTa's head and config reader (roberta.c), which other families use. */
extern const hs__predictor_names hs__roberta_predictor;
void hs__roberta_configure(hs__config *config, hs_architecture *architecture);

/* Reads config.json: finds the family, checks every limit of architecture.h, and refuses keys that would
 * change the numbers. On success the caller releases *ret_architecture with hs__family_release. On failure it
 * is untouched. */
HS_MUST_USE hs_status hs__family_configure(const hs_bytes *config, const hs__family **ret_family,
                                           hs_architecture *ret_architecture, hs_error *err);

/* Reads the architecture of a family's decoder from the same file, in the same way. */
HS_MUST_USE hs_status hs__decoder_configure(const hs_bytes *config, const hs__family *decoder,
                                            hs_architecture *ret_architecture, hs_error *err);

/* Returns true if config.json is of a model of images and text, whose text part alone is read. */
bool hs__family_is_text_part(const json_t *keys);

/* Frees what hs__family_configure allocated. Zeroed is fine. */
void hs__family_release(hs_architecture *architecture);

/* Reads how the model writes a text from generation_config.json or config.json. If a key cannot be obeyed, or
 * the file cannot be read, sets `refusal`: the model opens, and only generation is refused. */
void hs__generation_read(const hs_bytes *file, const char *file_name, size_t vocab_size,
                         hs_generation *ret_generation);

/* Returns the names of the tensors of a task. */
const hs__head_names *hs__heads_names(const hs__family *family, hs_head_task task);

/* ---- two models that are joined (encoder_decoder.c) ---- */

/* Returns true if the config's stacks are those of the family, which has stack_types. */
bool hs__stacks_are(const json_t *keys, const hs__family *family);

/* Refuses a config of joined models whose stacks no family has. */
void hs__stacks_refuse(hs__config *config);

/* Replaces the config by that of one stack, with the keys of the whole model that it obeys. Fails with
 * HS_BAD_MODEL if the stacks do not fit together, and with HS_NO_MEMORY. */
HS_MUST_USE hs_status hs__stack_take(hs__config *config, bool of_decoder, json_t **keys);

/* ---- unknown tensors (unknown_tensors.c) ---- */

/* Returns true if the model has the module, in the layers that it is for. */
bool hs__module_exists(const hs__module *module, const hs_architecture *architecture);

/* Returns the heads whose queries or keys a module norms. */
size_t hs__module_heads(const hs__module *module, const hs_shape *shape);

bool hs__module_is_biased(const hs__module *module, const hs__layout *layout,
                          const hs_architecture *architecture);

/* Fails with HS_BAD_MODEL if a layer has a weight that its family does not have. `prefix` is before the names
 * of all tensors of the base model. */
HS_MUST_USE hs_status hs__unknown_tensors_refuse(const hs__shards *shards, const hs__layout *layout,
                                                 const char *prefix, const hs_architecture *architecture,
                                                 hs_error *err);

/* ---- binding weights (bind.c) ---- */

/* Fills in the architecture's weights. The tensors point into the shards. Fails with HS_BAD_MODEL if a tensor
 * is missing, has another shape or an unsupported dtype, or holds a NaN or an infinity. */
HS_MUST_USE hs_status hs__weights_bind(const hs__shards *shards, const hs__family *family,
                                       hs_architecture *architecture, hs_error *err);

/* Returns true if the checkpoint has the family's embedding and its first layer's first module. `predictor`
 * says whether the config ties word embeddings. */
bool hs__weights_exist(const hs__shards *shards, const hs__family *family, const hs_predictor *predictor);

/* Binds <module>.weight [n_out][n_in] and, with has_bias, <module>.bias. Fails like hs__weights_bind. */
HS_MUST_USE hs_status hs__dense_bind(const hs__shards *shards, const char *module, size_t n_out, size_t n_in,
                                     bool has_bias, hs_dense *ret_dense, hs_error *err);

/* Binds a matrix, or a vector as one row, with the sizes that the file says. Fails like hs__weights_bind. */
HS_MUST_USE hs_status hs__tensor_bind(const hs__shards *shards, const char *name, hs_tensor *ret_tensor,
                                      bool *ret_is_vector, hs_error *err);

/* Returns true if the config ties the decoder of this head to the word embedding. */
bool hs__predictor_is_tied(const hs_predictor *predictor, const hs__predictor_names *names);

/* ---- LoRA adapters (adapter.c) ---- */

/* Reads an adapter_config.json and finds the folder of its base model. Fails with HS_BAD_MODEL, naming the
 * key, or with HS_NOT_FOUND. */
HS_MUST_USE hs_status hs__adapter_base(const hs_bytes *file, char ret_dir[PATH_MAX], hs_error *err);

/* Writes the task head that the adapter's task_type names into config.json, whose bytes (malloc'ed) it
 * replaces. Without such a task config.json stays as it is. Fails with HS_BAD_MODEL or HS_NO_MEMORY. */
HS_MUST_USE hs_status hs__adapter_task(const hs_bytes *file, hs_bytes *config, hs_error *err);

/* Sets shards->merged to the weights of the base model, of this family, that the adapter changes. `file` is
 * adapter_config.json, and tensors are the adapter's. `predictor` says whether the config ties words. Fails
 * with HS_BAD_MODEL, naming the tensor, and with HS_NO_MEMORY. */
HS_MUST_USE hs_status hs__adapter_merge(const hs_bytes *file, const hs__family *family,
                                        const hs_predictor *predictor, const hs__shards *tensors,
                                        hs__shards *shards, hs_error *err);

/* Opens the adapter's tensors in folder dir and merges them. The caller finishes *ret_tensors, even after an
 * error. */
HS_MUST_USE hs_status hs__adapter_open(const char *dir, const hs_bytes *file, const hs__family *family,
                                       const hs_predictor *predictor, hs__shards *shards,
                                       hs__shards *ret_tensors, hs_error *err);

/* ---- sentence encoders (sentence.c) ----
 *
 * sentence-transformers saves these files:
 *
 *     modules.json           the list: Transformer, Pooling, any Dense, perhaps Normalize. A cross-encoder
 *                            has a Transformer alone, whose task head config.json names. A sparse encoder has
 *                            a Transformer, or in older folders an MLMTransformer, and SpladePooling
 *     1_Pooling/config.json  how one vector is made of the tokens' states
 *     1_SpladePooling/config.json  pooling_strategy (max or sum), activation_function (relu or log1p_relu),
 *                                  embedding_dimension, all optional
 *     2_Dense/config.json    in_features, out_features, bias, activation_function
 *     2_Dense/model.safetensors  linear.weight, linear.bias
 *     sentence_bert_config.json  max_seq_length; optional, else model_max_length of tokenizer_config.json.
 *                                transformer_task; "fill-mask" if the pooling reads logits. Other families
 *                                have other names.
 *     config_sentence_transformers.json  prompts, and max_active_dims of a sparse encoder; optional:
 *
 *         {"prompts": {"query": "query: ", "document": ""}, "default_prompt_name": "query"}
 *
 *     Both keys may be absent or null, and so may the text of a prompt. */

/* Those names, in the order in which they count. NULL ends them. */
extern const char *const hs__sentence_length_files[];

#define HS__MODULES_MAX     8
#define HS__MODULE_PATH_MAX 64

typedef enum hs__module_kind {
    HS__MODULE_TRANSFORMER,
    HS__MODULE_MLM_TRANSFORMER,
    HS__MODULE_POOLING,
    HS__MODULE_SPLADE_POOLING,
    HS__MODULE_DENSE,
    HS__MODULE_NORMALIZE
} hs__module_kind;

typedef struct hs__modules {
    size_t n;
    hs__module_kind kinds[HS__MODULES_MAX];
    char paths[HS__MODULES_MAX][HS__MODULE_PATH_MAX]; /* of the module's folder in the checkpoint's */
} hs__modules;

/* The sizes that a Dense module's config.json gives. */
typedef struct hs__dense_shape {
    size_t n_in, n_out;
    bool has_bias, is_linear;
    hs_activation activation;
} hs__dense_shape;

/* Parse one file each. All fail with HS_BAD_MODEL and name the key. hidden is H. */
HS_MUST_USE hs_status hs__modules_parse(const hs_bytes *file, hs__modules *ret_modules, hs_error *err);
HS_MUST_USE hs_status hs__pooling_parse(const hs_bytes *file, size_t hidden, hs_sentence_head *ret_head,
                                        hs_error *err);
HS_MUST_USE hs_status hs__splade_parse(const hs_bytes *file, size_t vocab_size, hs_sparse_head *ret_head,
                                       hs_error *err);
HS_MUST_USE hs_status hs__dense_parse(const hs_bytes *file, hs__dense_shape *ret_shape, hs_error *err);

/* Parses the file and sets the prompts of a head that has none. The caller frees head->prompts. The head is
 * untouched on failure. Fails with HS_BAD_MODEL, naming the key, and with HS_NO_MEMORY. */
HS_MUST_USE hs_status hs__prompts_parse(const hs_bytes *file, hs_sentence_head *head, hs_error *err);

/* Finds the folder of a checkpoint's Transformer, by modules.json: dir itself, also without that file, or
 * dir/0_Transformer. */
HS_MUST_USE hs_status hs__sentence_transformer(const char *dir, char ret_dir[PATH_MAX], hs_error *err);

/* Reads the modules of the checkpoint in folder dir, whose Transformer is in folder transformer, perhaps the
 * same; tokenizer_config is its tokenizer_config.json, or absent. Without modules.json *ret_head and
 * *ret_weights stay as they are. ret_weights [HS_SENTENCE_DENSE_MAX] holds the weights of the Dense modules,
 * which the head points into. The caller finishes them, even after an error, and frees ret_head->prompts. */
HS_MUST_USE hs_status hs__sentence_open(const char *dir, const char *transformer, const hs_shape *shape,
                                        const hs_bytes *tokenizer_config, hs_sentence_head *ret_head,
                                        hs__shards *ret_weights, hs_error *err);
