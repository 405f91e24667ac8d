/* adapter.c - merges a LoRA adapter (Hu et al. 2021), as PEFT saves it, into the weights of its base model:
 *
 *     adapter_config.json        base_model_name_or_path, lora_alpha, alpha_pattern, use_rslora
 *     adapter_model.safetensors  base_model.model.<module>.lora_A.weight [r][in] and lora_B.weight [out][r]
 *                                or lora_embedding_A [r][V] and lora_embedding_B [H][r] of a table [V][H]
 *
 * A weight W becomes W + s B A, and a table W + s (B A)', with s = lora_alpha / r, or lora_alpha / sqrt(r)
 * with use_rslora. alpha_pattern may give a module another lora_alpha. W is the base model's, or
 * <module>.base_layer.weight of the adapter if it is there.
 *
 * Modules that modules_to_save names are there whole, as base_model.model.<module>.weight and perhaps .bias,
 * such as a classifier. Trained biases are, too. They replace those of the base model, which may have none.
 * task_type then says which task head the model has. Other kinds of adapters are refused, and so is every
 * other tensor.
 *
 * A decoder that is tied to the table of words keeps the base model's, as in PEFT, unless the adapter changes
 * it too. */
#include "model/families/family.h"
#include "model/files/hub_cache.h"
#include "model/files/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CONFIG  "adapter_config.json"
#define TENSORS "adapter_model.safetensors"
#define BEFORE  "base_model.model."
#define A_ENDS  ".lora_A.weight"
#define B_ENDS  ".lora_B.weight"
#define A_TABLE ".lora_embedding_A"
#define B_TABLE ".lora_embedding_B"
#define BASE    ".base_layer"

#define NAME_BYTES 512

/* ---- adapter_config.json ---- */

typedef struct adapter {
    double alpha;
    const json_t *alphas; /* alpha_pattern: other values by the ends of modules' names */
    bool by_root;         /* s has the root of r */
    bool biased;          /* biases are trained, of some modules or all */
    bool ties;            /* the decoder is saved as the table of words is */
    const json_t *saved;  /* modules_to_save: names of modules that are whole; or NULL */
} adapter;

/* Returns true for a key that is read here, or that changes no number once an adapter is trained. */
static bool is_known(const char *key)
{
    static const char *const known[] = {
        "alpha_pattern",
        "auto_mapping",
        "base_model_name_or_path",
        "bias",
        "corda_config",
        "eva_config",
        "exclude_modules",
        "fan_in_fan_out",
        "ensure_weight_tying",
        "inference_mode",
        "init_lora_weights",
        "layers_pattern",
        "layers_to_transform",
        "loftq_config",
        "lora_alpha",
        "lora_dropout",
        "lora_ga_config",
        "megatron_config",
        "megatron_core",
        "modules_to_save",
        "peft_type",
        "peft_version",
        "qalora_group_size",
        "r",
        "rank_pattern",
        "revision",
        "target_modules",
        "task_type",
        "use_rslora",
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(key, known[i]) == 0)
            return true;
    return false;
}

/* Refuses the ways to begin that change the base model too. */
static void check_beginning(hs__config *config)
{
    static const char *const key = "init_lora_weights";
    if (json_is_boolean(json_object_get(config->keys, key)))
        return;
    const char *text = hs__config_text(config, key);
    if (text && strcmp(text, "gaussian") != 0 && strcmp(text, "eva") != 0 && strcmp(text, "orthogonal") != 0)
        hs__config_refuse(config,
                          "init_lora_weights is \"%s\", which may change the base model's weights; merge the "
                          "adapter with merge_and_unload() of PEFT, and save that",
                          text);
}

/* Reads modules_to_save, a list of names. */
static void read_saved(hs__config *config, adapter *ret)
{
    const json_t *list = json_object_get(config->keys, "modules_to_save");
    bool sound = !list || json_is_null(list) || json_is_array(list);
    for (size_t i = 0; i < json_array_size(list); i++)
        sound &= json_is_string(json_array_get(list, i));
    if (!sound)
        hs__config_refuse(config, "modules_to_save must be a list of names of modules, or null");
    ret->saved = list;
}

/* Reads alpha_pattern, whose keys are regular expressions in PEFT. Those that are names of modules, or their
 * ends, are read, and with ^ before them whole names. */
static void read_alphas(hs__config *config, adapter *ret)
{
    static const char *const key = "alpha_pattern";
    const json_t *object = json_object_get(config->keys, key);
    const char *pattern;
    json_t *value;
    if (object && !json_is_null(object) && !json_is_object(object))
        hs__config_refuse(config, "%s must be an object", key);
    json_object_foreach((json_t *)object, pattern, value)
    {
        if (!json_is_number(value) || fabs(json_number_value(value)) > 1e6)
            hs__config_refuse(config, "%s: the value of %.64s must be a number from -1e6 to 1e6", key,
                              pattern);
        if (strpbrk(pattern + (*pattern == '^'), "\\^$*+?()[]{}|"))
            hs__config_refuse(config, "%s: %.64s is a regular expression; write the names of modules", key,
                              pattern);
    }
    ret->alphas = object;
}

static void read_biases(hs__config *config, adapter *ret)
{
    const char *bias = hs__config_text(config, "bias");
    ret->biased = bias && strcmp(bias, "none") != 0;
    if (ret->biased && strcmp(bias, "all") != 0 && strcmp(bias, "lora_only") != 0)
        hs__config_refuse(config, "bias must be \"none\", \"all\" or \"lora_only\"; not supported: \"%s\"",
                          bias);
}

static hs_status read_config(json_t *keys, adapter *ret, hs_error *err)
{
    hs__config config = {.keys = keys, .file_name = CONFIG, .err = err};
    const char *key;
    json_t *value;
    if (!hs__config_has(&config, "peft_type"))
        hs__config_refuse(&config, "peft_type is missing");
    hs__config_only(&config, "peft_type", "LORA");
    check_beginning(&config);
    read_biases(&config, ret);
    read_saved(&config, ret);
    read_alphas(&config, ret);
    json_object_foreach(keys, key, value) if (!is_known(key)) hs__config_unused(&config, key);
    if (!hs__config_has(&config, "lora_alpha"))
        hs__config_refuse(&config, "lora_alpha is missing");
    ret->alpha = hs__config_number_or(&config, "lora_alpha", -1e6, 1e6, 0);
    ret->by_root = hs__config_flag_or(&config, "use_rslora", false);
    ret->ties = hs__config_flag_or(&config, "ensure_weight_tying", false);
    hs__config_flag_or(&config, "fan_in_fan_out", false); /* PEFT corrects it by the module's kind */
    return config.status;
}

/* Finds the base model: a folder, or a model of the hub that is in the cache. */
static hs_status find_base(const json_t *keys, char ret_dir[PATH_MAX], hs_error *err)
{
    hs_error unused = {0};
    hs__config config = {.keys = keys, .file_name = CONFIG, .err = err};
    const char *base = hs__config_text(&config, "base_model_name_or_path");
    const char *revision = hs__config_text(&config, "revision");
    struct stat info;
    hs_hub_name name;
    char text[PATH_MAX];
    if (config.status)
        return config.status;
    if (!base)
        return hs_fail(err, HS_BAD_MODEL, CONFIG ": base_model_name_or_path is missing");
    if (strlen(base) < PATH_MAX && stat(base, &info) == 0 && S_ISDIR(info.st_mode)) {
        snprintf(ret_dir, PATH_MAX, "%s", base);
        return HS_OK;
    }
    const int n =
        snprintf(text, sizeof text, "hf://%s%s%s", base, revision ? "@" : "", revision ? revision : "");
    const bool is_named = n > 0 && (size_t)n < sizeof text && hs_hub_name_parse(text, (size_t)n, &name);
    if (is_named && !hs_hub_cache_find(&name, ret_dir, &unused))
        return HS_OK;
    return hs_fail(err, HS_NOT_FOUND,
                   CONFIG ": base_model_name_or_path is \"%s\", which is neither a folder nor a model in the "
                          "cache of downloads. %s%s, or write the path of its folder",
                   base, is_named ? "Download it: headscope pull " : "Correct the name",
                   !is_named           ? ""
                   : strchr(base, '/') ? text + strlen("hf://")
                                       : text);
}

hs_status hs__adapter_base(const hs_bytes *file, char ret_dir[PATH_MAX], hs_error *err)
{
    json_t *keys = NULL;
    adapter unused;
    hs_status st = hs__json_parse(file, CONFIG, &keys, err);
    if (!st)
        st = read_config(keys, &unused, err);
    if (!st)
        st = find_base(keys, ret_dir, err);
    json_decref(keys);
    return st;
}

/* Names the task head of a model that the adapter was trained for, as transformers opens the base model then.
 */
hs_status hs__adapter_task(const hs_bytes *file, hs_bytes *config, hs_error *err)
{
    static const char *const tasks[][2] = {{"SEQ_CLS", "AdapterForSequenceClassification"},
                                           {"TOKEN_CLS", "AdapterForTokenClassification"},
                                           {"QUESTION_ANS", "AdapterForQuestionAnswering"}};
    json_t *keys = NULL, *of_model = NULL;
    const char *class = NULL;
    hs_status st = hs__json_parse(file, CONFIG, &keys, err);
    const char *type = json_string_value(json_object_get(keys, "task_type"));
    for (size_t i = 0; type && i < sizeof tasks / sizeof *tasks; i++)
        if (strcmp(type, tasks[i][0]) == 0)
            class = tasks[i][1];
    if (!st && class)
        st = hs__json_parse(config, "config.json", &of_model, err);
    if (!st && class) {
        const bool set = !json_object_set_new(of_model, "architectures", json_pack("[s]", class));
        char *text = set ? hs_json_text(of_model, JSON_COMPACT) : NULL;
        st = text ? HS_OK : hs_fail(err, HS_NO_MEMORY, CONFIG ": out of memory");
        if (text) {
            free((void *)config->data);
            *config = (hs_bytes){text, strlen(text)};
        }
    }
    json_decref(keys);
    json_decref(of_model);
    return st;
}

/* ---- names ---- */

/* A base model, and an adapter whose changes are merged into it. */
typedef struct merger {
    const hs__shards *base, *tensors; /* tensors: the adapter's */
    const hs__family *family;
    const hs_predictor *predictor;
    const adapter *how;
    struct change *changes; /* [n] */
    size_t n;
    hs_error *err;
} merger;

/* Returns true if both names are equal, or one is the other one with a prefix that ends with a dot. A model
 * and its base model have the same tensors with and without such a prefix. */
static bool names_agree(const char *x, const char *y)
{
    const size_t n = strlen(x), m = strlen(y);
    if (n < m)
        return names_agree(y, x);
    return strcmp(x + n - m, y) == 0 && (n == m || x[n - m - 1] == '.');
}

/* Finds the base model's tensor of a name, which may have a prefix more or less. Returns how many there are,
 * and the name of the last. */
static size_t find_tensor(const hs__shards *shards, const char *expected, char ret_name[NAME_BYTES])
{
    size_t n_found = 0;
    for (size_t i = 0; i < shards->n_shards; i++) {
        const char *name;
        json_t *value;
        json_object_foreach(shards->shards[i].tensors.header, name, value)
        {
            hs__entry entry;
            if (!names_agree(name, expected) || strlen(name) >= NAME_BYTES ||
                !hs__shards_find(shards, name, &entry))
                continue;
            snprintf(ret_name, NAME_BYTES, "%s", name);
            n_found++;
        }
    }
    return n_found;
}

static bool has(const hs__shards *shards, const char *name)
{
    hs__entry entry;
    return hs__shards_find(shards, name, &entry) != NULL;
}

/* Returns true if the module is the family's table of words. */
static bool is_of_words(const hs__family *family, const char *module)
{
    for (size_t i = 0; family->layouts[i]; i++)
        if (names_agree(family->layouts[i]->word, module))
            return true;
    return false;
}

/* Returns the names of the predictor whose decoder the module is, or NULL. */
static const hs__predictor_names *predictor_of(const hs__family *family, const char *module)
{
    for (size_t i = 0; family->predictors[i]; i++)
        if (family->predictors[i]->decoder && strcmp(family->predictors[i]->decoder, module) == 0)
            return family->predictors[i];
    return NULL;
}

/* Returns true if the module's weight is stored [in][out]. */
static bool is_transposed(const hs__family *family, const char *module)
{
    for (size_t i = 0; family->layouts[i]; i++)
        for (const hs__module *m = family->layouts[i]->layers; m->name; m++)
            if (m->transposed && hs_ends_with(module, m->name))
                return true;
    return false;
}

/* Returns true if modules_to_save names the module of a tensor, or one that it is in, by its end. */
static bool is_saved(const adapter *how, const char *name)
{
    for (size_t i = 0; i < json_array_size(how->saved); i++) {
        char part[NAME_BYTES];
        snprintf(part, sizeof part, "%s.", json_string_value(json_array_get(how->saved, i)));
        if (strstr(name, part))
            return true;
    }
    return false;
}

/* Returns the alpha of a module: that of the first pattern which is the end of its name. */
static double alpha_of(const adapter *how, const char *module)
{
    const char *pattern;
    json_t *value;
    json_object_foreach((json_t *)how->alphas, pattern, value)
    {
        const bool whole = *pattern == '^';
        const size_t n = strlen(module), m = strlen(pattern + whole);
        if (n >= m && strcmp(module + n - m, pattern + whole) == 0 &&
            (n == m || (!whole && module[n - m - 1] == '.')))
            return json_number_value(value);
    }
    return how->alpha;
}

/* ---- changes ---- */

/* A weight of the base model, and its two factors; or without them what replaces it. */
typedef struct change {
    char name[NAME_BYTES]; /* of the base model's tensor */
    hs_tensor weight, a, b;
    double scale;
    bool transposed; /* the weight is stored [in][out] */
    bool is_vector;
} change;

/* Names the tensor that replaces one of the base model. If the base model has none, it is a new one. */
static hs_status name_change(const merger *m, const char *expected, change *ret)
{
    const size_t n = find_tensor(m->base, expected, ret->name);
    if (n > 1)
        return hs_fail(m->err, HS_BAD_MODEL, TENSORS ": the base model has more than one tensor %s",
                       expected);
    if (n == 0)
        snprintf(ret->name, sizeof ret->name, "%.*s", NAME_BYTES - 1, expected);
    return HS_OK;
}

static hs_status bind_matrix(const hs__shards *shards, const char *name, hs_tensor *ret, hs_error *err)
{
    bool is_vector = false;
    const hs_status st = hs__tensor_bind(shards, name, ret, &is_vector, err);
    return st || !is_vector ? st
                            : hs_fail(err, HS_BAD_MODEL, "%s: %s must be a matrix", shards->file_name, name);
}

/* Binds the table of words of the base model, to which a decoder is tied. */
static hs_status bind_words(const merger *m, hs_tensor *ret)
{
    char name[NAME_BYTES], expected[NAME_BYTES];
    for (size_t i = 0; m->family->layouts[i]; i++) {
        snprintf(expected, sizeof expected, "%s.weight", m->family->layouts[i]->word);
        if (find_tensor(m->base, expected, name) == 1)
            return bind_matrix(m->base, name, ret, m->err);
    }
    return hs_fail(m->err, HS_BAD_MODEL, TENSORS ": the base model has no table of words");
}

/* Binds the weight that factors change: that of the adapter's base layer, the base model's, or the table of
 * words to which it is tied. */
static hs_status bind_weight(const merger *m, const char *module, change *ret)
{
    char expected[2 * NAME_BYTES], base[2 * NAME_BYTES];
    snprintf(expected, sizeof expected, "%s.weight", module);
    snprintf(base, sizeof base, BEFORE "%s" BASE ".weight", module);
    const hs_status st = name_change(m, expected, ret);
    if (st)
        return st;
    if (has(m->tensors, base))
        return bind_matrix(m->tensors, base, &ret->weight, m->err);
    if (has(m->base, ret->name))
        return bind_matrix(m->base, ret->name, &ret->weight, m->err);
    const hs__predictor_names *names = predictor_of(m->family, module);
    if (names && hs__predictor_is_tied(m->predictor, names))
        return bind_words(m, &ret->weight);
    return hs_fail(m->err, HS_BAD_MODEL, TENSORS ": the base model has no tensor %s", expected);
}

/* Binds the weight and the factors of an lora_A, whose name ends so. */
static hs_status bind_pair(merger *m, const char *name, const char *a_ends, const char *b_ends)
{
    char module[NAME_BYTES], other[2 * NAME_BYTES];
    change *ret = &m->changes[m->n++];
    const size_t n_before = strlen(BEFORE), n = strlen(name) - strlen(a_ends);
    snprintf(module, sizeof module, "%.*s", (int)(n - n_before), name + n_before);
    snprintf(other, sizeof other, BEFORE "%s%s", module, b_ends);
    hs_status st = bind_weight(m, module, ret);
    if (!st)
        st = bind_matrix(m->tensors, name, &ret->a, m->err);
    if (!st)
        st = bind_matrix(m->tensors, other, &ret->b, m->err);
    if (st)
        return st;
    ret->transposed = strcmp(a_ends, A_TABLE) == 0 || is_transposed(m->family, module);
    const size_t n_out = ret->transposed ? ret->weight.n_columns : ret->weight.n_rows;
    const size_t n_in = ret->transposed ? ret->weight.n_rows : ret->weight.n_columns;
    const size_t rank = ret->a.n_rows;
    if (ret->b.n_rows != n_out || ret->a.n_columns != n_in || rank != ret->b.n_columns)
        return hs_fail(m->err, HS_BAD_MODEL,
                       TENSORS ": lora_A and lora_B of %s must have the shapes [r, %zu] and [%zu, r]", module,
                       n_in, n_out);
    if (rank > n_in + n_out) /* a matrix of any rank needs less; more takes memory without a bound */
        return hs_fail(m->err, HS_BAD_MODEL,
                       TENSORS ": r of %s is %zu; at most %zu is allowed, its inputs and outputs", module,
                       rank, n_in + n_out);
    ret->scale = alpha_of(m->how, module) / (m->how->by_root ? sqrt((double)rank) : (double)rank);
    return HS_OK;
}

/* Binds a tensor that replaces one of the base model. */
static hs_status bind_whole(merger *m, const char *name, const char *expected)
{
    change *ret = &m->changes[m->n++];
    const hs_status st = hs__tensor_bind(m->tensors, name, &ret->weight, &ret->is_vector, m->err);
    return st ? st : name_change(m, expected, ret);
}

/* Keeps the base model's table of words for a decoder that is tied to it, if the adapter changes the table
 * and not the decoder. */
static hs_status keep_decoder(merger *m, const change *words)
{
    for (size_t i = 0; m->family->predictors[i]; i++) {
        const hs__predictor_names *names = m->family->predictors[i];
        char expected[NAME_BYTES];
        change *kept = &m->changes[m->n];
        if (!names->decoder || !hs__predictor_is_tied(m->predictor, names))
            continue;
        snprintf(expected, sizeof expected, "%s.weight", names->decoder);
        bool changes = find_tensor(m->base, expected, kept->name) > 0;
        for (size_t k = 0; k < m->n; k++)
            changes |= strcmp(m->changes[k].name, expected) == 0;
        if (changes)
            continue;
        snprintf(kept->name, sizeof kept->name, "%s", expected);
        kept->weight = words->weight;
        m->n++;
        return words->a.data ? HS_OK : bind_words(m, &kept->weight);
    }
    return HS_OK;
}

/* Returns the table of words among the changes, or NULL. */
static const change *find_words(const merger *m)
{
    char module[NAME_BYTES];
    for (size_t i = 0; i < m->n; i++) {
        snprintf(module, sizeof module, "%s", m->changes[i].name);
        if (hs_ends_with(module, ".weight"))
            module[strlen(module) - strlen(".weight")] = '\0';
        if (is_of_words(m->family, module))
            return &m->changes[i];
    }
    return NULL;
}

/* Binds the tied decoder of a changed table of words. Stacks that may share a table are refused. */
static hs_status bind_tied(merger *m)
{
    const change *words = find_words(m);
    if (words && m->family->encoder_of_two)
        return hs_fail(m->err, HS_BAD_MODEL,
                       TENSORS
                       ": %s is the table of words, which other tensors of a model with a decoder may "
                       "be tied to; merge the adapter with merge_and_unload() of PEFT, and save that",
                       words->name);
    return words ? keep_decoder(m, words) : HS_OK;
}

/* ---- merging ---- */

/* Returns the matrix as floats, transposed or not, in memory that the caller frees, or NULL. */
static float *read_matrix(const hs_tensor *tensor, bool transposed)
{
    const size_t rows = tensor->n_rows, columns = tensor->n_columns;
    float *values = calloc(rows * columns, sizeof *values), *row = calloc(columns, sizeof *row);
    for (size_t i = 0; values && row && i < rows; i++) {
        hs_tensor_read(tensor, i, 1, row);
        for (size_t k = 0; k < columns; k++)
            values[transposed ? k * rows + i : i * columns + k] = row[k];
    }
    if (!row) {
        free(values);
        values = NULL;
    }
    free(row);
    return values;
}

/* Writes weight + scale left right to ret, summed in double precision. sums [columns] is scratch. */
static void add_product(const hs_tensor *weight, double scale, const float *left, const float *right,
                        size_t rank, double *sums, float *ret)
{
    const size_t columns = weight->n_columns;
    hs_tensor_read(weight, 0, weight->n_rows, ret);
    for (size_t i = 0; i < weight->n_rows; i++) {
        float *row = ret + i * columns;
        for (size_t k = 0; k < columns; k++)
            sums[k] = (double)row[k];
        for (size_t r = 0; r < rank; r++) {
            const double factor = scale * (double)left[i * rank + r];
            const float *other = right + r * columns;
            for (size_t k = 0; k < columns; k++)
                sums[k] += factor * (double)other[k];
        }
        for (size_t k = 0; k < columns; k++)
            row[k] = (float)sums[k];
    }
}

static hs_status merge(const change *c, float *ret, hs_error *err)
{
    const bool swaps = c->transposed;
    if (!c->a.data) {
        hs_tensor_read(&c->weight, 0, c->weight.n_rows, ret);
        return HS_OK;
    }
    float *left = read_matrix(swaps ? &c->a : &c->b, swaps);
    float *right = read_matrix(swaps ? &c->b : &c->a, swaps);
    double *sums = calloc(c->weight.n_columns, sizeof *sums);
    const bool ready = left && right && sums;
    if (ready)
        add_product(&c->weight, c->scale, left, right, c->a.n_rows, sums, ret);
    free(left), free(right), free(sums);
    return ready ? HS_OK : hs_fail(err, HS_NO_MEMORY, TENSORS ": out of memory");
}

/* ---- all of them ---- */

static hs_status refuse_name(const char *name, hs_error *err)
{
    return hs_fail(err, HS_BAD_MODEL,
                   TENSORS
                   ": tensor %s is not one of a pair lora_A.weight and lora_B.weight of a module; other "
                   "adapters are not supported",
                   name);
}

/* Writes the name with another end. Returns true if the adapter has such a tensor. */
static bool has_other(const merger *m, const char *name, const char *end, const char *other)
{
    char text[2 * NAME_BYTES];
    snprintf(text, sizeof text, "%.*s%s", (int)(strlen(name) - strlen(end)), name, other);
    return has(m->tensors, text);
}

/* Binds a tensor that is no factor: what lies below a factor's module, or a parameter that is whole. */
static hs_status bind_other(merger *m, const char *name)
{
    char module[NAME_BYTES];
    const char *dot = strrchr(name, '.'), *bare = name + strlen(BEFORE);
    const bool is_bias = strcmp(dot, ".bias") == 0;
    snprintf(module, sizeof module, "%.*s", (int)(dot - bare), bare);
    if (hs_ends_with(module, BASE)) {
        char expected[NAME_BYTES];
        const char *const end = is_bias ? BASE ".bias" : BASE ".weight";
        if (!has_other(m, name, end, A_ENDS) && !has_other(m, name, end, A_TABLE))
            return refuse_name(name, m->err);
        snprintf(expected, sizeof expected, "%.*s%s", (int)(strlen(module) - strlen(BASE)), module, dot);
        return is_bias ? bind_whole(m, name, expected) : HS_OK; /* the pair has the weight */
    }
    if (is_saved(m->how, bare) || (is_bias && m->how->biased) ||
        (m->how->ties && predictor_of(m->family, module)))
        return bind_whole(m, name, bare);
    return refuse_name(name, m->err);
}

/* Binds the pair of an lora_A, or a whole tensor. An lora_B must have its lora_A. */
static hs_status bind_tensor(merger *m, const char *name)
{
    static const char *const ends[][2] = {{A_ENDS, B_ENDS}, {A_TABLE, B_TABLE}};
    const size_t n = strlen(name), n_before = strlen(BEFORE);
    if (n >= NAME_BYTES || strncmp(name, BEFORE, n_before) != 0)
        return refuse_name(name, m->err);
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0; k < 2; k++) {
            if (!hs_ends_with(name, ends[i][k]))
                continue;
            if (n <= n_before + strlen(ends[i][k]) || !has_other(m, name, ends[i][k], ends[i][1 - k]))
                return refuse_name(name, m->err);
            return k ? HS_OK : bind_pair(m, name, ends[i][0], ends[i][1]);
        }
    if (!hs_ends_with(name, ".weight") && !hs_ends_with(name, ".bias"))
        return refuse_name(name, m->err);
    return bind_other(m, name);
}

/* Binds all changes, and counts the values of their weights. */
static hs_status bind_changes(merger *m, size_t *ret_values)
{
    hs_status st = HS_OK;
    const char *name;
    json_t *value;
    json_object_foreach(m->tensors->shards[0].tensors.header, name, value)
    {
        if (st || !json_object_get(value, "data_offsets") || strcmp(name, "__metadata__") == 0)
            continue;
        st = bind_tensor(m, name);
    }
    if (!st)
        st = bind_tied(m);
    *ret_values = 0;
    for (size_t i = 0; i < m->n && !st; i++)
        *ret_values += m->changes[i].weight.n_rows * m->changes[i].weight.n_columns;
    return st;
}

/* Merges the changes into values, and describes them in the header of a safetensors file. */
static hs_status merge_changes(const merger *m, float *values, json_t *header)
{
    hs_status st = HS_OK;
    for (size_t i = 0, at = 0; i < m->n && !st; i++) {
        const change *c = &m->changes[i];
        const size_t end = at + c->weight.n_rows * c->weight.n_columns * sizeof *values;
        st = merge(c, values + at / sizeof *values, m->err);
        json_t *entry =
            json_pack("{s:s, s:[I, I], s:[I, I]}", "dtype", "F32", "shape", (json_int_t)c->weight.n_rows,
                      (json_int_t)c->weight.n_columns, "data_offsets", (json_int_t)at, (json_int_t)end);
        if (c->is_vector && json_array_remove(json_object_get(entry, "shape"), 0) && !st)
            st = hs_fail(m->err, HS_NO_MEMORY, TENSORS ": out of memory");
        const bool twice = json_object_get(header, c->name) != NULL;
        if (json_object_set_new(header, c->name, entry) && !st)
            st = hs_fail(m->err, HS_NO_MEMORY, TENSORS ": out of memory");
        if (twice && !st)
            st = hs_fail(m->err, HS_BAD_MODEL, TENSORS ": two modules change %s", c->name);
        at = end;
    }
    return st;
}

static hs_status replace(merger *m, hs__shards *shards)
{
    size_t n_values = 0;
    json_t *header = json_object();
    float *values = NULL;
    /* one for each tensor, and a decoder that is kept */
    m->changes = calloc(json_object_size(m->tensors->shards[0].tensors.header) + 1, sizeof *m->changes);
    hs_status st = m->changes && header ? bind_changes(m, &n_values)
                                        : hs_fail(m->err, HS_NO_MEMORY, TENSORS ": out of memory");
    if (!st && n_values == 0)
        st = hs_fail(m->err, HS_BAD_MODEL, TENSORS ": no tensor ends with " A_ENDS);
    if (!st && !(values = calloc(n_values + 1, sizeof *values)))
        st = hs_fail(m->err, HS_NO_MEMORY, TENSORS ": out of memory");
    if (!st)
        st = merge_changes(m, values, header);
    free(m->changes);
    if (st) {
        free(values);
        json_decref(header);
        return st;
    }
    shards->merged = (hs__shard){
        .mapping = {.bytes = {values, n_values * sizeof *values}, .fd = -1},
        .tensors = {.file_name = TENSORS, .data = (const unsigned char *)values, .header = header}};
    return HS_OK;
}

hs_status hs__adapter_merge(const hs_bytes *file, const hs__family *family, const hs_predictor *predictor,
                            const hs__shards *tensors, hs__shards *shards, hs_error *err)
{
    json_t *keys = NULL;
    adapter how = {0};
    merger m = {.base = shards,
                .tensors = tensors,
                .family = family,
                .predictor = predictor,
                .how = &how,
                .err = err};
    hs_status st = hs__json_parse(file, CONFIG, &keys, err);
    if (!st)
        st = read_config(keys, &how, err);
    if (!st)
        st = replace(&m, shards);
    json_decref(keys);
    return st;
}

hs_status hs__adapter_open(const char *dir, const hs_bytes *file, const hs__family *family,
                           const hs_predictor *predictor, hs__shards *shards, hs__shards *ret_tensors,
                           hs_error *err)
{
    const hs_status st = hs__shards_open_file(dir, TENSORS, ret_tensors, err);
    return st ? st : hs__adapter_merge(file, family, predictor, ret_tensors, shards, err);
}
