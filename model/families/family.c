/* family.c - the list of families, and what all of them read from config.json: the sizes of a model, and the
 * task head of a fine-tuned one. */
#include "model/families/family.h"
#include "model/files/json.h"

#include <stdlib.h>
#include <string.h>

/* The registry. A new family adds a line here and a file. */
#define FAMILIES(X)                                                                                          \
    X(bert)                                                                                                  \
    X(distilbert)                                                                                            \
    X(electra)                                                                                               \
    X(roberta)                                                                                               \
    X(roberta_prelayernorm)                                                                                  \
    X(xlm_roberta_xl)                                                                                        \
    X(data2vec_text)                                                                                         \
    X(mpnet)                                                                                                 \
    X(albert)                                                                                                \
    X(nomic_bert)                                                                                            \
    X(modernbert)                                                                                            \
    X(esm)                                                                                                   \
    X(deberta)                                                                                               \
    X(deberta_v2)                                                                                            \
    X(eurobert)                                                                                              \
    X(gpt2)                                                                                                  \
    X(gpt_bigcode)                                                                                           \
    X(openai_gpt)                                                                                            \
    X(gpt_neo)                                                                                               \
    X(gptj)                                                                                                  \
    X(gpt_neox)                                                                                              \
    X(bloom)                                                                                                 \
    X(falcon)                                                                                                \
    X(opt)                                                                                                   \
    X(xglm)                                                                                                  \
    X(biogpt)                                                                                                \
    X(llama)                                                                                                 \
    X(smollm3)                                                                                               \
    X(mistral)                                                                                               \
    X(ministral)                                                                                             \
    X(qwen2)                                                                                                 \
    X(qwen3)                                                                                                 \
    X(phi3)                                                                                                  \
    X(granite)                                                                                               \
    X(seed_oss)                                                                                              \
    X(helium)                                                                                                \
    X(glm)                                                                                                   \
    X(glm4)                                                                                                  \
    X(olmo2)                                                                                                 \
    X(olmo3)                                                                                                 \
    X(gemma)                                                                                                 \
    X(gemma2)                                                                                                \
    X(gemma3)                                                                                                \
    X(cohere)                                                                                                \
    X(cohere2)                                                                                               \
    X(phi)                                                                                                   \
    X(stablelm)                                                                                              \
    X(starcoder2)                                                                                            \
    X(t5)                                                                                                    \
    X(bart)                                                                                                  \
    X(mbart)                                                                                                 \
    X(m2m_100)                                                                                               \
    X(marian)                                                                                                \
    X(pegasus)                                                                                               \
    X(bert_pair)                                                                                             \
    X(roberta_pair)                                                                                          \
    X(generation_pair)

#define X(name) extern const hs__family hs__family_##name;
FAMILIES(X)
#undef X

static const hs__family *const families[] = {
#define X(name) &hs__family_##name,
    FAMILIES(X)
#undef X
        NULL,
};

/* Appends to a message and cuts off what does not fit. */
static void append(char *text, size_t size, const char *more)
{
    const size_t length = strlen(text);
    strncat(text, more, size - 1 - length);
}

static void refuse_type(hs__config *config, const char *type)
{
    if (strcmp(type, "encoder-decoder") == 0) {
        hs__stacks_refuse(config);
        return;
    }
    char known[1000] = "";
    for (size_t i = 0; families[i]; i++)
        for (size_t k = 0; families[i]->types[k] && !families[i]->stack_types[0]; k++) {
            append(known, sizeof known, known[0] ? ", " : "");
            append(known, sizeof known, families[i]->types[k]);
        }
    append(known, sizeof known, ", encoder-decoder");
    hs__config_refuse(config, "model_type \"%.64s\" is not supported; known: %s", type, known);
}

/* Finds the family of a config that is older than model_type, by a key that only this family has. */
static const hs__family *find_without_type(hs__config *config, const char **ret_type)
{
    for (size_t i = 0; families[i]; i++)
        if (families[i]->old_key && json_object_get(config->keys, families[i]->old_key)) {
            *ret_type = families[i]->types[0];
            return families[i];
        }
    hs__config_refuse(config, "model_type is missing");
    return NULL;
}

/* Finds the family by model_type. Returns NULL if the type was refused. *ret_type is one of the family's
 * names. */
static const hs__family *find(hs__config *config, const char **ret_type)
{
    const json_t *value = json_object_get(config->keys, "model_type");
    const char *type = json_string_value(value);
    if (!value)
        return find_without_type(config, ret_type);
    if (!type) {
        hs__config_refuse(config, "model_type must be a string");
        return NULL;
    }
    for (size_t i = 0; families[i]; i++)
        for (size_t k = 0; families[i]->types[k]; k++)
            if (strcmp(type, families[i]->types[k]) == 0 &&
                (!families[i]->stack_types[0] || hs__stacks_are(config->keys, families[i]))) {
                *ret_type = families[i]->types[k];
                return families[i];
            }
    refuse_type(config, type);
    return NULL;
}

static const hs__shape_keys *find_keys(const hs__config *config, const hs__family *family)
{
    for (size_t i = 0; family->keys[i]; i++)
        if (hs__config_has(config, family->keys[i]->n_layers) &&
            hs__config_has(config, family->keys[i]->n_heads) &&
            hs__config_has(config, family->keys[i]->hidden))
            return family->keys[i];
    return family->keys[0];
}

static bool is_rotated(const hs_architecture *architecture)
{
    for (size_t i = 0; i < hs_architecture_blocks(architecture); i++)
        if (architecture->layers[i].rotation_base > 0)
            return true;
    return false;
}

/* Returns false for decoders that were trained further as encoders (LLM2Vec). transformers reads null as
 * false. */
static bool sees_the_past_only(hs__config *config)
{
    return hs__config_flag_or(config, "is_causal", !json_object_get(config->keys, "is_causal"));
}

/* ---- sizes ---- */

/* Reads the heads of keys and values, and the width of a head. */
static void read_heads(hs__config *config, const hs__shape_keys *names, hs_shape *shape)
{
    if (names->n_kv_heads && !json_object_get(config->keys, names->n_kv_heads))
        shape->n_kv_heads = names->kv_heads_default;
    if (hs__config_has(config, names->n_kv_heads))
        shape->n_kv_heads = hs__config_size(config, names->n_kv_heads, 1, shape->n_heads);
    if (shape->n_kv_heads > 0 && shape->n_heads % shape->n_kv_heads != 0)
        hs__config_refuse(config, "%s (%zu) is not a multiple of %s (%zu)", names->n_heads, shape->n_heads,
                          names->n_kv_heads, shape->n_kv_heads);
    shape->head_width = names->head_width_default;
    if (hs__config_has(config, names->head_width))
        shape->head_width = hs__config_size(config, names->head_width, 1, HS_HIDDEN_MAX / shape->n_heads);
    if (shape->head_width > HS_HIDDEN_MAX / shape->n_heads)
        hs__config_refuse(config, "%s is missing, and %zu heads of %zu columns are more than %d columns",
                          names->head_width, shape->n_heads, shape->head_width, HS_HIDDEN_MAX);
    if (shape->head_width > 0)
        return;
    if (shape->hidden % shape->n_heads != 0)
        hs__config_refuse(config, "%s (%zu) is not a multiple of %s (%zu)", names->hidden, shape->hidden,
                          names->n_heads, shape->n_heads);
    shape->head_width = shape->hidden / shape->n_heads;
}

/* Reads the sizes that every family has, within the limits of architecture.h, and computes head_width. */
static void read_sizes(hs__config *config, const hs__shape_keys *names, hs_shape *ret_shape)
{
    const size_t positions_max = names->long_texts ? (size_t)1 << 30 : HS_POSITIONS_MAX;
    hs_shape shape = {
        .n_layers = hs__config_size(config, names->n_layers, 1, HS_LAYERS_MAX),
        .n_heads = hs__config_size(config, names->n_heads, 1, HS_HEADS_MAX),
        .hidden = hs__config_size(config, names->hidden, 1, HS_HIDDEN_MAX),
        .n_positions = names->positions,
        .vocab_size = hs__config_size(config, names->vocab_size, 1, HS_VOCAB_MAX),
    };
    shape.ffn = names->ffn_factor > 0 && !hs__config_has(config, names->ffn)
                    ? names->ffn_factor * shape.hidden
                    : hs__config_size(config, names->ffn, 1, HS_FFN_MAX);
    if (names->n_positions)
        shape.n_positions = hs__config_size(config, names->n_positions, HS__POSITIONS_MIN, positions_max);
    if (shape.n_positions > HS_POSITIONS_MAX)
        shape.n_positions = HS_POSITIONS_MAX;
    read_heads(config, names, &shape);
    *ret_shape = shape;
}

/* Refuses a size that the config has under its common name too, but with another value: transformers reads
 * both, and the common name counts. Positions are left out: nomic-embed-text-v1.5 has 8192 and 2048, and a
 * table of positions must have as many rows as the family's own name says. */
static void check_common_names(hs__config *config, const hs__shape_keys *names)
{
    const char *const pairs[][2] = {{"hidden_size", names->hidden},
                                    {"num_hidden_layers", names->n_layers},
                                    {"num_attention_heads", names->n_heads},
                                    {"head_dim", names->head_width}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const char *common = pairs[i][0], *name = pairs[i][1];
        const json_t *value = json_object_get(config->keys, common);
        if (name && json_is_integer(value) &&
            json_integer_value(value) != json_integer_value(json_object_get(config->keys, name)))
            hs__config_refuse(config, "%s (%" JSON_INTEGER_FORMAT ") must be equal to %s", common,
                              json_integer_value(value), name);
    }
}

/* ---- task heads ----
 *
 * Reads which task head a fine-tuned checkpoint has, and its labels.
 *
 * `architectures` names the class, whose suffix is the task. id2label names the classes. Without it there are
 * num_labels classes, by default 2, with HuggingFace's names LABEL_0, LABEL_1, ... */

/* Returns the task of the first class in `architectures` that has one. */
static hs_head_task find_task(const hs__config *config, const hs__family *family)
{
    static const char *const suffixes[] = {
        [HS_TASK_SEQUENCE] = "ForSequenceClassification",
        [HS_TASK_TOKENS] = "ForTokenClassification",
        [HS_TASK_SPAN] = "ForQuestionAnswering",
        [HS_TASK_NEXT_SENTENCE] = "ForNextSentencePrediction",
    };
    const json_t *classes = json_object_get(config->keys, "architectures");
    for (size_t i = 0; i < json_array_size(classes); i++) {
        const char *name = json_string_value(json_array_get(classes, i));
        for (size_t task = HS_TASK_SEQUENCE; name && task <= HS_TASK_NEXT_SENTENCE; task++)
            if (hs_ends_with(name, suffixes[task]) && hs__heads_names(family, (hs_head_task)task))
                return (hs_head_task)task;
    }
    return HS_TASK_NONE;
}

/* Writes the label of a class, at most n_ret bytes with the NUL. Returns its length, or -1 if it is invalid.
 * A label may be an integer. */
static int label_write(const json_t *id2label, size_t class, char *ret, size_t n_ret)
{
    char key[24];
    snprintf(key, sizeof key, "%zu", class);
    const json_t *value = json_object_get(id2label, key);
    if (json_is_integer(value))
        return snprintf(ret, n_ret, "%lld", (long long)json_integer_value(value));
    if (!id2label)
        return snprintf(ret, n_ret, "LABEL_%zu", class);
    const bool valid = json_is_string(value) && json_string_length(value) <= HS_LABEL_BYTES_MAX &&
                       !memchr(json_string_value(value), '\0', json_string_length(value));
    return valid ? snprintf(ret, n_ret, "%s", json_string_value(value)) : -1;
}

/* Copies the labels into one block: the pointers, then the texts. */
static void read_labels(hs__config *config, const json_t *id2label, hs_task_head *head)
{
    const size_t n = head->n_classes;
    size_t n_bytes = n * sizeof *head->labels;
    for (size_t i = 0; i < n; i++) {
        const int length = label_write(id2label, i, NULL, 0);
        if (length < 0) {
            hs__config_refuse(config,
                              "id2label must name every class from \"0\" to \"%zu\" with a string of at most "
                              "%d bytes; \"%zu\" is missing or something else",
                              n - 1, HS_LABEL_BYTES_MAX, i);
            return;
        }
        n_bytes += (size_t)length + 1;
    }
    head->labels = malloc(n_bytes);
    if (!head->labels) {
        config->status = hs_fail(config->err, HS_NO_MEMORY, "out of memory");
        return;
    }
    char *text = (char *)(head->labels + n), *end = (char *)head->labels + n_bytes;
    for (size_t i = 0; i < n; i++) {
        head->labels[i] = text;
        text += label_write(id2label, i, text, (size_t)(end - text)) + 1;
    }
}

static void read_classes(hs__config *config, hs_task_head *head)
{
    const json_t *id2label = json_object_get(config->keys, "id2label");
    if (json_is_null(id2label))
        id2label = NULL;
    if (id2label && (!json_is_object(id2label) || json_object_size(id2label) < 1 ||
                     json_object_size(id2label) > HS_LABELS_MAX)) {
        hs__config_refuse(config, "id2label must be an object with 1 to %d labels", HS_LABELS_MAX);
        return;
    }
    head->n_classes =
        id2label ? json_object_size(id2label) : hs__config_size_or(config, "num_labels", 1, HS_LABELS_MAX, 2);
    if (!config->status)
        read_labels(config, id2label, head);
}

static void read_problem(hs__config *config, hs_task_head *head)
{
    static const char *const names[] = {[HS_SINGLE_LABEL] = "single_label_classification",
                                        [HS_MULTI_LABEL] = "multi_label_classification",
                                        [HS_REGRESSION] = "regression"};
    const char *text = hs__config_text(config, "problem_type");
    head->problem = head->n_classes == 1 ? HS_REGRESSION : HS_SINGLE_LABEL;
    for (size_t i = 0; text && i < sizeof names / sizeof *names; i++)
        if (strcmp(text, names[i]) == 0) {
            head->problem = (hs_problem_type)i;
            return;
        }
    if (text)
        hs__config_refuse(config,
                          "problem_type must be null, \"regression\", \"single_label_classification\" or "
                          "\"multi_label_classification\"; it is \"%s\"",
                          text);
}

static void read_pooling(hs__config *config, const hs__head_names *names, hs_task_head *head)
{
    const char *first = names->may_pool_late ? "bos" : "cls";
    const char *pooling = hs__config_text(config, names->pooling_key);
    if (!pooling)
        pooling = names->may_pool_late ? "late" : first;
    head->pools_late = names->may_pool_late && strcmp(pooling, "late") == 0;
    if (head->pools_late || strcmp(pooling, "mean") == 0)
        head->pool = HS_POOL_MEAN;
    else if (strcmp(pooling, first) != 0)
        hs__config_refuse(config, "%s must be \"%s\"%s or \"mean\"; it is \"%s\"", names->pooling_key, first,
                          names->may_pool_late ? ", \"late\"" : "", pooling);
}

/* Returns the id of padding, or -1. No token has an id that is out of range, such as the -1 of some configs.
 */
static int32_t read_padding(const hs__config *config, const hs__family *family)
{
    const json_t *value = json_object_get(config->keys, "pad_token_id");
    if (!value && family->pads)
        return family->padding_id;
    const json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
    return id >= 0 && id < HS_VOCAB_MAX ? (int32_t)id : -1;
}

static void read_shape(hs__config *config, const hs__family *family, const hs__head_names *names,
                       hs_task_head *head)
{
    head->activation = names->activation;
    if (names->activation_key)
        head->activation = hs__config_activation(config, names->activation_key, names->activation);
    head->pool = names->pool;
    head->padding_id = read_padding(config, family);
    if (names->pooling_key)
        read_pooling(config, names, head);
}

/* Reads the task head that `architectures` names: its task, problem type and labels. */
static void read_task_head(hs__config *config, const hs__family *family, hs_architecture *architecture)
{
    hs_task_head *head = &architecture->task_head;
    if (config->status)
        return;
    const hs_head_task task = find_task(config, family);
    if (task == HS_TASK_NONE || task == HS_TASK_NEXT_SENTENCE) {
        architecture->next_sentence.task = task; /* else the tensors decide */
        return;
    }
    head->task = task;
    read_shape(config, family, hs__heads_names(family, task), head);
    if (task == HS_TASK_SPAN) {
        head->n_classes = 2;
        return;
    }
    read_classes(config, head);
    if (task == HS_TASK_SEQUENCE)
        read_problem(config, head);
}

/* ---- all of it ---- */

/* Such heads give 0, as if they were not there. */
#define REFILL                                                                                               \
    "write zeros for these heads' rows of query, key and value and their columns of the output, and set "    \
    "pruned_heads to {}: all else stays the same"

/* Reads the architecture of this family, whose name is set. */
static hs_status read_architecture(hs__config *config, const hs__family *family,
                                   hs_architecture *architecture)
{
    static const char *const of_decoders[] = {"is_decoder", "add_cross_attention"};
    static const char *const unused[] = {"pruned_heads", "quantization_config", "per_layer_config"};
    const hs__shape_keys *names = find_keys(config, family);
    read_sizes(config, names, &architecture->shape);
    if (!family->crosses) /* the common names are those of the encoder */
        check_common_names(config, names);
    if (json_object_size(json_object_get(config->keys, "pruned_heads")) > 0)
        hs__config_refuse(config, "pruned_heads is not supported, as in transformers 5; " REFILL);
    for (size_t i = 0; i < sizeof of_decoders / sizeof *of_decoders; i++)
        if (!family->crosses || !family->stack_types[0])
            hs__config_unused(config, of_decoders[i]);
    for (size_t i = 0; i < sizeof unused / sizeof *unused; i++)
        hs__config_unused(config, unused[i]);
    if (!family->encoder_of_two)
        hs__config_unused(config, "is_encoder_decoder");
    if (!family->scales_rotation)
        hs__config_unused(config, "rope_scaling");
    if (config->status)
        return config->status;
    architecture->crosses = family->crosses;
    architecture->start_id = -1;
    architecture->layers = calloc(hs_architecture_blocks(architecture), sizeof *architecture->layers);
    if (!architecture->layers)
        return hs_fail(config->err, HS_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < hs_architecture_blocks(architecture); i++)
        architecture->layers[i].same_as = i;
    architecture->embedding.width = architecture->shape.hidden;
    architecture->predictor.untied = !hs__config_flag_or(config, "tie_word_embeddings", true);
    architecture->predictor.tied = hs__config_flag_or(config, "tie_word_embeddings", false);
    architecture->causal = family->causal && sees_the_past_only(config);
    architecture->predictor.next = family->causal;
    family->configure(config, architecture);
    const size_t width =
        architecture->rotary.width > 0 ? architecture->rotary.width : architecture->shape.head_width;
    if (is_rotated(architecture) && width % 2 != 0)
        hs__config_refuse(config, "rotary positions need heads of an even width; here it is %zu", width);
    read_task_head(config, family, architecture);
    return config->status;
}

void hs__family_release(hs_architecture *architecture)
{
    free(architecture->task_head.labels);
    free(architecture->sentence.prompts);
    free(architecture->rotary.divisors);
    free(architecture->qk_gammas);
    free(architecture->layers);
}

/* ---- the text part of models of images and text ----
 *
 * Their config.json has that of the text part as text_config. */

/* The values of keys that text_config lacks where they are transformers' own. */
typedef struct text_default {
    const char *key;
    json_int_t value;
} text_default;

static const struct {
    const char *type, *text_type; /* model_type of both */
    text_default defaults[10];
} text_parts[] = {{"gemma3",
                   "gemma3_text",
                   {{"vocab_size", 262208},
                    {"hidden_size", 2304},
                    {"intermediate_size", 9216},
                    {"num_hidden_layers", 26},
                    {"num_attention_heads", 8},
                    {"num_key_value_heads", 4},
                    {"head_dim", 256},
                    {"max_position_embeddings", 131072}}}};
#define N_TEXT_PARTS (sizeof text_parts / sizeof *text_parts)

/* Returns which of text_parts the config is of, or N_TEXT_PARTS. */
static size_t find_text_part(const json_t *keys)
{
    const char *type = json_string_value(json_object_get(keys, "model_type"));
    size_t i = 0;
    while (i < N_TEXT_PARTS && (!type || strcmp(type, text_parts[i].type) != 0 ||
                                !json_is_object(json_object_get(keys, "text_config"))))
        i++;
    return i;
}

bool hs__family_is_text_part(const json_t *keys)
{
    return find_text_part(keys) < N_TEXT_PARTS;
}

/* Replaces the config by that of its text part, if it has one, with the values that it lacks. */
static hs_status take_text_part(json_t **keys, hs_error *err)
{
    const size_t part = find_text_part(*keys);
    if (part == N_TEXT_PARTS)
        return HS_OK;
    json_t *text = json_deep_copy(json_object_get(*keys, "text_config"));
    bool ok = text && (json_object_get(text, "model_type") ||
                       !json_object_set_new(text, "model_type", json_string(text_parts[part].text_type)));
    for (const text_default *d = text_parts[part].defaults; ok && d->key; d++)
        ok = json_object_get(text, d->key) || !json_object_set_new(text, d->key, json_integer(d->value));
    if (!ok) {
        json_decref(text);
        return hs_fail(err, HS_NO_MEMORY, "config.json: out of memory");
    }
    json_decref(*keys);
    *keys = text;
    return HS_OK;
}

/* Gives a config without a number of positions that of transformers. */
static hs_status put_positions(const hs__family *family, hs__config *config, json_t *keys)
{
    const char *key = find_keys(config, family)->n_positions;
    if (!key || family->default_positions == 0 || json_object_get(keys, key) ||
        !json_object_set_new(keys, key, json_integer((json_int_t)family->default_positions)))
        return HS_OK;
    return hs_fail(config->err, HS_NO_MEMORY, "config.json: out of memory");
}

/* Reads the names of claims that the training aimed at, a key of our own. Each stands between commas; names
 * that are no strings or too long are left out. */
static void trained_for_read(const json_t *keys, char ret[HS_TRAINED_FOR_BYTES])
{
    const json_t *list = json_object_get(keys, "headscope_trained_for");
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (name && n + strlen(name) + 3 <= HS_TRAINED_FOR_BYTES)
            n += (size_t)snprintf(ret + n, HS_TRAINED_FOR_BYTES - n, "%s%s,", n ? "" : ",", name);
    }
}

/* Reads the file as one of this family, or if it is NULL of the one that the file names. */
static hs_status read_file(const hs_bytes *file, const hs__family **family, hs_architecture *ret_architecture,
                           hs_error *err)
{
    json_t *keys = NULL;
    hs_architecture architecture = {0};
    hs_status st = hs__json_parse(file, "config.json", &keys, err);
    if (!st)
        st = take_text_part(&keys, err);
    if (st) {
        json_decref(keys);
        return st;
    }
    hs__config config = {.keys = keys, .err = err};
    const hs__family *named = find(&config, &architecture.family);
    const hs__family *chosen = *family ? *family : named;
    st = config.status;
    if (!st && named->stack_types[0])
        st = hs__stack_take(&config, chosen->crosses, &keys);
    if (!st)
        st = put_positions(named, &config, keys);
    if (!st)
        st = read_architecture(&config, chosen, &architecture);
    const double range = json_number_value(json_object_get(keys, "initializer_range"));
    architecture.initializer_range = range > 0 && range < 10 ? range : 0.02; /* HuggingFace's default */
    trained_for_read(keys, architecture.trained_for);
    json_decref(keys);
    if (st) {
        hs__family_release(&architecture);
        return st;
    }
    *family = chosen;
    *ret_architecture = architecture;
    return HS_OK;
}

hs_status hs__family_configure(const hs_bytes *config, const hs__family **ret_family,
                               hs_architecture *ret_architecture, hs_error *err)
{
    const hs__family *family = NULL;
    const hs_status st = read_file(config, &family, ret_architecture, err);
    if (!st)
        *ret_family = family;
    return st;
}

hs_status hs__decoder_configure(const hs_bytes *config, const hs__family *decoder,
                                hs_architecture *ret_architecture, hs_error *err)
{
    return read_file(config, &decoder, ret_architecture, err);
}
