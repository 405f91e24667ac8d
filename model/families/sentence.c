/* sentence.c - opens the modules of a sentence encoder: modules.json, the config of each module, the weights
 * of dense layers, and the prompts. */
#include "model/families/family.h"

#include "model/base/files.h"
#include "model/files/json.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODULES_FILE   "modules.json"
#define CONFIG_FILE    "config.json"
#define PROMPTS_FILE   "config_sentence_transformers.json"
#define TOKENIZER_FILE "tokenizer_config.json"

/* ---- modules.json ---- */

static const char *const kind_names[] = {[HS__MODULE_TRANSFORMER] = "Transformer",
                                         [HS__MODULE_MLM_TRANSFORMER] = "MLMTransformer",
                                         [HS__MODULE_POOLING] = "Pooling",
                                         [HS__MODULE_SPLADE_POOLING] = "SpladePooling",
                                         [HS__MODULE_DENSE] = "Dense",
                                         [HS__MODULE_NORMALIZE] = "Normalize"};
#define N_KINDS (sizeof kind_names / sizeof *kind_names)

/* Returns true for the plain name of a folder, or for an empty one. */
static bool path_is_sound(const char *path)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
    const size_t n = strlen(path);
    return n < HS__MODULE_PATH_MAX && strspn(path, allowed) == n && path[0] != '.';
}

/* Finds the kind by the class at the end of "sentence_transformers.models.Pooling". */
static size_t find_kind(const char *type)
{
    const char *dot = strrchr(type, '.');
    size_t kind = 0;
    while (kind < N_KINDS && strcmp(kind_names[kind], dot ? dot + 1 : type) != 0)
        kind++;
    return kind;
}

static bool is_transformer(hs__module_kind kind)
{
    return kind == HS__MODULE_TRANSFORMER || kind == HS__MODULE_MLM_TRANSFORMER;
}

/* Returns true if a module of this kind may follow: Transformer, Pooling, Dense..., Normalize, or of a sparse
 * encoder MLMTransformer or Transformer, SpladePooling. */
static bool may_follow(const hs__modules *modules, hs__module_kind kind)
{
    if (modules->n == 0)
        return is_transformer(kind);
    if (modules->n == 1)
        return kind == HS__MODULE_SPLADE_POOLING ||
               (kind == HS__MODULE_POOLING && modules->kinds[0] == HS__MODULE_TRANSFORMER);
    return kind >= HS__MODULE_DENSE && modules->kinds[1] == HS__MODULE_POOLING &&
           modules->kinds[modules->n - 1] != HS__MODULE_NORMALIZE;
}

static hs_status read_module(const json_t *module, hs__modules *modules, hs_error *err)
{
    const char *type = json_string_value(json_object_get(module, "type"));
    const char *path = json_string_value(json_object_get(module, "path"));
    if (!type || !path || !path_is_sound(path))
        return hs_fail(err, HS_BAD_MODEL,
                       MODULES_FILE ": module %zu must have a type and a path, the plain name of a folder",
                       modules->n);
    const size_t kind = find_kind(type);
    if (kind == N_KINDS)
        return hs_fail(err, HS_BAD_MODEL,
                       MODULES_FILE ": modules of type %.100s are not supported; Transformer, "
                                    "MLMTransformer, Pooling, SpladePooling, Dense and Normalize are",
                       type);
    if (!may_follow(modules, (hs__module_kind)kind))
        return hs_fail(err, HS_BAD_MODEL,
                       MODULES_FILE ": %s is module %zu; the order must be Transformer, Pooling, any Dense, "
                                    "Normalize, or MLMTransformer, SpladePooling",
                       kind_names[kind], modules->n);
    if (!is_transformer((hs__module_kind)kind) && !*path)
        return hs_fail(err, HS_BAD_MODEL, MODULES_FILE ": %s must have a folder of its own",
                       kind_names[kind]);
    modules->kinds[modules->n] = (hs__module_kind)kind;
    snprintf(modules->paths[modules->n++], HS__MODULE_PATH_MAX, "%s", path);
    return HS_OK;
}

hs_status hs__modules_parse(const hs_bytes *file, hs__modules *ret_modules, hs_error *err)
{
    json_t *list = NULL;
    *ret_modules = (hs__modules){0};
    hs_status st = hs__json_parse_list(file, MODULES_FILE, &list, err);
    if (!st && json_array_size(list) > HS__MODULES_MAX)
        st = hs_fail(err, HS_BAD_MODEL, MODULES_FILE ": more than %d modules", HS__MODULES_MAX);
    for (size_t i = 0; !st && i < json_array_size(list); i++)
        st = read_module(json_array_get(list, i), ret_modules, err);
    if (!st && ret_modules->n == 0)
        st = hs_fail(err, HS_BAD_MODEL,
                     MODULES_FILE ": must name a Transformer, and its Pooling unless it is a cross-encoder");
    json_decref(list);
    return st;
}

/* ---- Pooling ---- */

/* The older key and the newer value of `pooling_mode`, by hs_pool. Older configs put the vectors in this
 * order. */
static const struct {
    const char *key, *mode;
} pools[HS_N_POOLS] = {
    {"pooling_mode_cls_token", "cls"},
    {"pooling_mode_max_tokens", "max"},
    {"pooling_mode_mean_tokens", "mean"},
    {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"},
    {"pooling_mode_weightedmean_tokens", "weightedmean"},
    {"pooling_mode_lasttoken", "lasttoken"},
};

const char *hs_pool_name(hs_pool pool)
{
    return pools[pool].mode;
}

/* Adds the way that pooling_mode names. Returns false if it is unknown or there already. */
static bool add_mode(const json_t *mode, hs_pooling *pooling)
{
    const char *name = json_string_value(mode);
    size_t pool = 0;
    while (name && pool < HS_N_POOLS && strcmp(name, pools[pool].mode) != 0)
        pool++;
    for (size_t i = 0; i < pooling->n; i++)
        name = pooling->ways[i] == (hs_pool)pool ? NULL : name;
    if (!name || pool == HS_N_POOLS)
        return false;
    pooling->ways[pooling->n++] = (hs_pool)pool;
    return true;
}

static void read_pooling(hs__config *config, hs_pooling *pooling)
{
    const json_t *mode = json_object_get(config->keys, "pooling_mode");
    bool known = true;
    if (json_is_string(mode))
        known = add_mode(mode, pooling);
    for (size_t i = 0; i < json_array_size(mode) && known; i++)
        known = add_mode(json_array_get(mode, i), pooling);
    for (size_t i = 0; !mode && i < HS_N_POOLS; i++)
        if (hs__config_flag_or(config, pools[i].key, false))
            pooling->ways[pooling->n++] = (hs_pool)i;
    if (!known || pooling->n == 0)
        hs__config_refuse(config,
                          "pooling_mode must be cls, max, mean, mean_sqrt_len_tokens, weightedmean or "
                          "lasttoken, or a list of some, or a key such as pooling_mode_cls_token true");
}

hs_status hs__pooling_parse(const hs_bytes *file, size_t hidden, hs_sentence_head *ret_head, hs_error *err)
{
    json_t *keys = NULL;
    hs_status st = hs__json_parse(file, CONFIG_FILE, &keys, err);
    if (!st) {
        hs__config config = {.keys = keys, .err = err};
        const char *key =
            json_object_get(keys, "embedding_dimension") ? "embedding_dimension" : "word_embedding_dimension";
        if (hs__config_size_or(&config, key, 1, HS_HIDDEN_MAX, hidden) != hidden && !config.status)
            hs__config_refuse(&config, "%s must be %zu, the model's hidden size", key, hidden);
        read_pooling(&config, &ret_head->pooling);
        ret_head->without_prompt = !hs__config_flag_or(&config, "include_prompt", true);
        st = config.status;
    }
    json_decref(keys);
    return st;
}

/* ---- SpladePooling ---- */

/* Reads a key that may have one of two names. Returns true for the second one; the first is the default. */
static bool read_second(hs__config *config, const char *key, const char *first, const char *second)
{
    const char *text = hs__config_text(config, key);
    const bool is_second = text && strcmp(text, second) == 0;
    if (text && !is_second && strcmp(text, first) != 0)
        hs__config_refuse(config, "%s must be %s or %s; it is %.100s", key, first, second, text);
    return is_second;
}

hs_status hs__splade_parse(const hs_bytes *file, size_t vocab_size, hs_sparse_head *ret_head, hs_error *err)
{
    json_t *keys = NULL;
    hs_status st = hs__json_parse(file, CONFIG_FILE, &keys, err);
    if (!st) {
        static const char *const sizes[] = {"embedding_dimension", "word_embedding_dimension"};
        hs__config config = {.keys = keys, .err = err};
        const hs_sparse_head head = {.exists = true,
                                     .sums = read_second(&config, "pooling_strategy", "max", "sum"),
                                     .twice =
                                         read_second(&config, "activation_function", "relu", "log1p_relu"),
                                     .n_most = ret_head->n_most};
        for (size_t i = 0; i < 2; i++)
            if (hs__config_has(&config, sizes[i]))
                hs__config_size(&config, sizes[i], vocab_size, vocab_size);
        st = config.status;
        if (!st)
            *ret_head = head;
    }
    json_decref(keys);
    return st;
}

/* ---- Dense ---- */

/* Reads "torch.nn.modules.activation.Tanh", by its last part. */
static void read_activation(hs__config *config, hs__dense_shape *shape)
{
    static const struct {
        const char *name;
        hs_activation activation;
    } names[] = {{"Tanh", HS_TANH}, {"ReLU", HS_RELU}, {"GELU", HS_GELU}, {"SiLU", HS_SILU}};
    const char *text = hs__config_text(config, "activation_function");
    const char *dot = text ? strrchr(text, '.') : NULL, *name = dot ? dot + 1 : text;
    shape->is_linear = name && strcmp(name, "Identity") == 0;
    shape->activation = HS_TANH; /* the module's default */
    if (!name || shape->is_linear)
        return;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i].name) == 0) {
            shape->activation = names[i].activation;
            return;
        }
    hs__config_refuse(
        config, "activation_function must be Identity, Tanh, ReLU, GELU or SiLU of torch; it is %s", text);
}

hs_status hs__dense_parse(const hs_bytes *file, hs__dense_shape *ret_shape, hs_error *err)
{
    json_t *keys = NULL;
    *ret_shape = (hs__dense_shape){0};
    hs_status st = hs__json_parse(file, CONFIG_FILE, &keys, err);
    if (!st) {
        hs__config config = {.keys = keys, .err = err};
        ret_shape->n_in = hs__config_size(&config, "in_features", 1, HS_N_POOLS * HS_HIDDEN_MAX);
        ret_shape->n_out = hs__config_size(&config, "out_features", 1, HS_HIDDEN_MAX);
        ret_shape->has_bias = hs__config_flag_or(&config, "bias", true);
        read_activation(&config, ret_shape);
        hs__config_only(&config, "module_input_name", "sentence_embedding");
        hs__config_only(&config, "module_output_name", "sentence_embedding");
        st = config.status;
    }
    json_decref(keys);
    return st;
}

/* ---- prompts ---- */

/* Returns the text of a prompt, or NULL if it is too long or no text. */
static const char *text_of(const json_t *value)
{
    if (json_is_null(value))
        return "";
    return json_is_string(value) && json_string_length(value) <= HS_PROMPT_TEXT_BYTES_MAX &&
                   !memchr(json_string_value(value), '\0', json_string_length(value))
               ? json_string_value(value)
               : NULL;
}

/* Refuses prompts of the wrong type. Adds the bytes of their block to *n_bytes. */
static hs_status check_prompts(json_t *prompts, size_t *n_bytes, hs_error *err)
{
    const char *name;
    json_t *value;
    if (!json_is_object(prompts) || json_object_size(prompts) > HS_PROMPTS_MAX)
        return hs_fail(err, HS_BAD_MODEL,
                       PROMPTS_FILE ": prompts must be an object with at most %d texts by name",
                       HS_PROMPTS_MAX);
    json_object_foreach(prompts, name, value)
    {
        const size_t n_name = strlen(name);
        const char *text = text_of(value);
        if (n_name < 1 || n_name > HS_PROMPT_NAME_BYTES_MAX)
            return hs_fail(err, HS_BAD_MODEL,
                           PROMPTS_FILE ": a prompt's name has %zu bytes; allowed are 1 to %d", n_name,
                           HS_PROMPT_NAME_BYTES_MAX);
        if (!text)
            return hs_fail(err, HS_BAD_MODEL,
                           PROMPTS_FILE ": the prompt %s must be a string of at most %d bytes without NUL",
                           name, HS_PROMPT_TEXT_BYTES_MAX);
        *n_bytes += sizeof(hs_prompt) + n_name + 1 + strlen(text) + 1;
    }
    return HS_OK;
}

/* Copies a string to *at and moves *at behind it. */
static const char *put(char **at, const char *text)
{
    const size_t n = strlen(text) + 1;
    char *copy = memcpy(*at, text, n);
    *at += n;
    return copy;
}

/* Copies the prompts, and finds the default one by its name, which may be NULL. */
static hs_status copy_prompts(json_t *prompts, size_t n_bytes, const char *default_name,
                              hs_sentence_head *head, hs_error *err)
{
    const size_t n = json_object_size(prompts);
    hs_prompt *block = malloc(n_bytes);
    if (!block)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    char *at = (char *)(block + n);
    size_t i = 0;
    const char *name;
    json_t *value;
    head->prompts = block;
    head->n_prompts = head->default_prompt = n;
    json_object_foreach(prompts, name, value)
    {
        if (default_name && strcmp(name, default_name) == 0)
            head->default_prompt = i;
        block[i].name = put(&at, name);
        block[i++].text = put(&at, text_of(value));
    }
    return HS_OK;
}

/* Refuses a default that is given and not among the prompts. */
static hs_status check_default(const json_t *value, const hs_sentence_head *head, hs_error *err)
{
    const char *name = json_string_value(value);
    if (!value || json_is_null(value) || head->default_prompt < head->n_prompts)
        return HS_OK;
    return hs_fail(err, HS_BAD_MODEL,
                   PROMPTS_FILE ": default_prompt_name is %.200s; it must be one of the prompts",
                   name ? name : "no string");
}

/* Reads how many entries a sparse encoder keeps. Others do not read the key. */
static hs_status read_most(json_t *keys, hs_sparse_head *head, hs_error *err)
{
    hs__config config = {.keys = keys, .file_name = PROMPTS_FILE, .err = err};
    if (head->exists && hs__config_has(&config, "max_active_dims"))
        head->n_most = hs__config_size(&config, "max_active_dims", 1, HS_VOCAB_MAX);
    return config.status;
}

static hs_status read_prompts(json_t *keys, hs_sentence_head *head, hs_error *err)
{
    hs_sentence_head found = *head;
    json_t *prompts = json_object_get(keys, "prompts");
    const json_t *default_name = json_object_get(keys, "default_prompt_name");
    size_t n_bytes = 0;
    hs_status st = read_most(keys, &found.sparse, err);
    if (!st && prompts && !json_is_null(prompts))
        st = check_prompts(prompts, &n_bytes, err);
    if (!st && n_bytes > 0)
        st = copy_prompts(prompts, n_bytes, json_string_value(default_name), &found, err);
    if (!st)
        st = check_default(default_name, &found, err);
    if (!st)
        *head = found;
    else
        free(found.prompts);
    return st;
}

hs_status hs__prompts_parse(const hs_bytes *file, hs_sentence_head *head, hs_error *err)
{
    json_t *keys = NULL;
    hs_status st = hs__json_parse(file, PROMPTS_FILE, &keys, err);
    if (!st)
        st = read_prompts(keys, head, err);
    json_decref(keys);
    return st;
}

/* Reads the prompts of the checkpoint in folder dir. Without their file the head has none. */
static hs_status open_prompts(const char *dir, hs_sentence_head *head, hs_error *err)
{
    hs_bytes file = {0};
    hs_status st = hs__file_read(dir, PROMPTS_FILE, true, &file, err);
    if (st || !file.data)
        return st;
    st = hs__prompts_parse(&file, head, err);
    free((void *)file.data);
    return st;
}

/* ---- the length of texts ---- */

/* Reads a number of tokens. Returns `otherwise` if the key is absent or null. */
static size_t read_length(hs__config *config, const char *key, size_t otherwise)
{
    const double longest = (double)((size_t)1 << 30);
    const json_t *value = config->status ? NULL : json_object_get(config->keys, key);
    if (!value || json_is_null(value))
        return otherwise;
    const double length = json_number_value(value);
    if (!(length >= 1) || length != floor(length))
        hs__config_refuse(config, "%s must be an integer from 1, or null", key);
    return (size_t)fmin(fmax(length, 1), longest); /* transformers writes 1e30 for no limit */
}

const char *const hs__sentence_length_files[] = {
    "sentence_bert_config.json",       "sentence_roberta_config.json",
    "sentence_distilbert_config.json", "sentence_camembert_config.json",
    "sentence_albert_config.json",     "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",      NULL,
};

/* Reads the first of these files that has a key, as sentence-transformers does. Returns its name, or NULL.
 * The caller releases *ret_keys. */
static const char *read_length_file(const char *dir, json_t **ret_keys, hs_status *ret_status, hs_error *err)
{
    const char *const *names = hs__sentence_length_files;
    for (size_t i = 0; names[i]; i++) {
        hs_bytes file = {0};
        hs_status st = hs__file_read(dir, names[i], true, &file, err);
        if (!st && file.data)
            st = hs__json_parse_reals(&file, names[i], ret_keys, err);
        free((void *)file.data);
        *ret_status = st;
        if (st || json_object_size(*ret_keys) > 0)
            return names[i];
        json_decref(*ret_keys);
        *ret_keys = NULL;
    }
    return NULL;
}

/* Reads the length that the tokenizer's config gives, at most that of the positions. */
static hs_status length_of_tokenizer(const hs_bytes *file, size_t n_positions, size_t *ret_length,
                                     hs_error *err)
{
    json_t *keys = NULL;
    hs_status st = file->data ? hs__json_parse_reals(file, TOKENIZER_FILE, &keys, err) : HS_OK;
    if (st)
        return st;
    hs__config config = {.keys = keys, .file_name = TOKENIZER_FILE, .err = err};
    const size_t older = read_length(&config, "max_len", n_positions);
    const size_t length = read_length(&config, "model_max_length", older);
    *ret_length = length < n_positions ? length : n_positions;
    st = config.status;
    json_decref(keys);
    return st;
}

/* Refuses a Transformer that gives something else than its pooling reads: states, or for SpladePooling logits
 * of masked tokens. */
static void check_task(hs__config *config, const hs__modules *modules)
{
    const char *task = hs__config_text(config, "transformer_task");
    const bool is_sparse = modules->n > 1 && modules->kinds[1] == HS__MODULE_SPLADE_POOLING;
    const char *only = is_sparse ? "fill-mask" : "feature-extraction";
    if (!task)
        task = modules->kinds[0] == HS__MODULE_MLM_TRANSFORMER ? "fill-mask" : "feature-extraction";
    if (modules->n > 1 && strcmp(task, only) != 0)
        hs__config_refuse(config, "transformer_task is %.100s; %s reads what \"%s\" gives", task,
                          kind_names[modules->kinds[1]], only);
}

/* Finds the length of texts: model_max_length among the tokenizer's arguments, or max_seq_length. Folders of
 * sentence-transformers 5.4 and newer have only that of tokenizer_config.json. */
static hs_status open_length(const char *dir, const hs_shape *shape, const hs_bytes *tokenizer_config,
                             const hs__modules *modules, hs_sentence_head *head, hs_error *err)
{
    json_t *keys = NULL;
    hs_status st = HS_OK;
    hs__config config = {.file_name = read_length_file(dir, &keys, &st, err), .err = err};
    if (st)
        return st;
    config.keys = keys;
    config.file_name = config.file_name ? config.file_name : hs__sentence_length_files[0];
    check_task(&config, modules);
    head->max_tokens = read_length(&config, "max_seq_length", 0);
    const json_t *older = json_object_get(keys, "tokenizer_args");
    config.keys = older ? older : json_object_get(keys, "processor_kwargs");
    head->max_tokens = read_length(&config, "model_max_length", head->max_tokens);
    st = config.status;
    json_decref(keys);
    return st || head->max_tokens > 0
               ? st
               : length_of_tokenizer(tokenizer_config, shape->n_positions, &head->max_tokens, err);
}

/* ---- the folder ---- */

/* A module being opened: its folder is dir/path. */
typedef struct opening {
    const char *dir, *path;
    size_t vocab_size;
    hs_bytes config; /* of its config.json, owned */
    hs__shards *weights;
} opening;

/* Adds a dense layer that reads n_in columns. */
static hs_status open_dense(const opening *o, size_t n_in, hs_sentence_head *head, hs_error *err)
{
    char folder[PATH_MAX];
    hs__dense_shape shape;
    hs_status st = hs__dense_parse(&o->config, &shape, err);
    if (st)
        return st;
    if (head->n_dense == HS_SENTENCE_DENSE_MAX)
        return hs_fail(err, HS_BAD_MODEL, "more than %d Dense modules", HS_SENTENCE_DENSE_MAX);
    if (shape.n_in != n_in)
        return hs_fail(err, HS_BAD_MODEL, CONFIG_FILE ": in_features must be %zu, the width of what it reads",
                       n_in);
    if (snprintf(folder, sizeof folder, "%s/%s", o->dir, o->path) >= PATH_MAX)
        return hs_fail(err, HS_IO, "the path is too long");
    hs_sentence_dense *dense = &head->dense[head->n_dense];
    *dense = (hs_sentence_dense){.is_linear = shape.is_linear, .activation = shape.activation};
    st = hs__shards_open(folder, &o->weights[head->n_dense++], err);
    return st ? st
              : hs__dense_bind(&o->weights[head->n_dense - 1], "linear", shape.n_out, shape.n_in,
                               shape.has_bias, &dense->dense, err);
}

/* Opens module i of the list. Returns in *width the columns of what the next one reads. */
static hs_status open_module(const hs__modules *modules, size_t i, opening o, hs_sentence_head *head,
                             size_t *width, hs_error *err)
{
    hs_error reason = {0};
    if (modules->kinds[i] == HS__MODULE_NORMALIZE) {
        head->normalized = true;
        return HS_OK;
    }
    o.path = modules->paths[i];
    char name[HS__MODULE_PATH_MAX + sizeof "/" CONFIG_FILE];
    snprintf(name, sizeof name, "%s/" CONFIG_FILE, o.path);
    hs_status st = hs__file_read(o.dir, name, false, &o.config, err);
    if (st)
        return st;
    if (modules->kinds[i] == HS__MODULE_POOLING) {
        st = hs__pooling_parse(&o.config, *width, head, &reason);
        *width *= head->pooling.n;
    } else if (modules->kinds[i] == HS__MODULE_SPLADE_POOLING) {
        st = hs__splade_parse(&o.config, o.vocab_size, &head->sparse, &reason);
    } else {
        st = open_dense(&o, *width, head, &reason);
        *width = st ? 0 : head->dense[head->n_dense - 1].dense.weight.n_rows;
    }
    free((void *)o.config.data);
    return st ? hs_fail(err, st, "%s: %s", o.path, reason.text) : HS_OK;
}

/* Reads modules.json. Without that file the list stays empty. */
static hs_status open_list(const char *dir, hs__modules *ret_modules, hs_error *err)
{
    hs_bytes file = {0};
    *ret_modules = (hs__modules){0};
    hs_status st = hs__file_read(dir, MODULES_FILE, true, &file, err);
    if (!st && file.data)
        st = hs__modules_parse(&file, ret_modules, err);
    free((void *)file.data);
    return st;
}

hs_status hs__sentence_transformer(const char *dir, char ret_dir[PATH_MAX], hs_error *err)
{
    hs__modules modules;
    const hs_status st = open_list(dir, &modules, err);
    if (st)
        return st;
    const char *path = modules.n ? modules.paths[0] : "";
    if ((size_t)snprintf(ret_dir, PATH_MAX, "%s%s%s", dir, *path ? "/" : "", path) >= PATH_MAX)
        return hs_fail(err, HS_IO, "the path is too long");
    return HS_OK;
}

hs_status hs__sentence_open(const char *dir, const char *transformer, const hs_shape *shape,
                            const hs_bytes *tokenizer_config, hs_sentence_head *ret_head,
                            hs__shards *ret_weights, hs_error *err)
{
    hs__modules modules;
    hs_sentence_head head = {0};
    size_t width = shape->hidden;
    hs_status st = open_list(dir, &modules, err);
    if (st || !modules.n)
        return st;
    if (*modules.paths[0] && strcmp(dir, transformer) == 0)
        st = hs_fail(err, HS_BAD_MODEL,
                     MODULES_FILE ": the Transformer is in the folder %s, but the model's own folder has a "
                                  "config.json, too",
                     modules.paths[0]);
    for (size_t i = 1; i < modules.n && !st; i++)
        st = open_module(&modules, i,
                         (opening){.dir = dir, .vocab_size = shape->vocab_size, .weights = ret_weights},
                         &head, &width, err);
    if (!st)
        st = open_length(transformer, shape, tokenizer_config, &modules, &head, err);
    if (!st)
        st = open_prompts(dir, &head, err); /* the last one, because it allocates */
    if (!st)
        *ret_head = head;
    return st;
}
