/* adapter.c - merges a LoRA adapter (Hu et al. 2021), as PEFT saves it, into the weights of its base model:
 *
 *     adapter_config.json        base_model_name_or_path, lora_alpha, use_rslora, fan_in_fan_out
 *     adapter_model.safetensors  base_model.model.<module>.lora_A.weight [r][in] and lora_B.weight [out][r]
 *
 * A weight W becomes W + s B A, with s = lora_alpha / r, or lora_alpha / sqrt(r) with use_rslora. Other kinds
 * of adapters are refused, and so is every tensor that is not part of such a pair. */
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

#define NAME_BYTES 512

/* ---- adapter_config.json ---- */

typedef struct adapter {
    double alpha;
    bool by_root;    /* s has the root of r */
    bool transposed; /* the base model stores its weights [in][out] */
} adapter;

/* Returns true for a key that is read here, or that changes no number once an adapter is trained. */
static bool is_known(const char *key)
{
    static const char *const known[] = {
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

static hs_status read_config(json_t *keys, adapter *ret, hs_error *err)
{
    hs__config config = {.keys = keys, .file_name = CONFIG, .err = err};
    const char *key;
    json_t *value;
    if (!hs__config_has(&config, "peft_type"))
        hs__config_refuse(&config, "peft_type is missing");
    hs__config_only(&config, "peft_type", "LORA");
    hs__config_only(&config, "bias", "none");
    check_beginning(&config);
    json_object_foreach(keys, key, value) if (!is_known(key)) hs__config_unused(&config, key);
    if (!hs__config_has(&config, "lora_alpha"))
        hs__config_refuse(&config, "lora_alpha is missing");
    ret->alpha = hs__config_number_or(&config, "lora_alpha", -1e6, 1e6, 0);
    ret->by_root = hs__config_flag_or(&config, "use_rslora", false);
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

/* ---- the weights ---- */

/* A weight of the base model, and its two factors. */
typedef struct pair {
    char name[NAME_BYTES]; /* of the base model's tensor */
    hs_tensor weight, a, b;
} pair;

/* Returns true if both names are equal, or one is the other one with a prefix that ends with a dot. A model
 * and its base model have the same tensors with and without such a prefix. */
static bool names_agree(const char *x, const char *y)
{
    const size_t n = strlen(x), m = strlen(y);
    if (n < m)
        return names_agree(y, x);
    return strcmp(x + n - m, y) == 0 && (n == m || x[n - m - 1] == '.');
}

/* Finds the base model's tensor of a module. */
static hs_status find_weight(const hs__shards *shards, const char *module, char ret_name[NAME_BYTES],
                             hs_error *err)
{
    char expected[2 * NAME_BYTES];
    size_t n_found = 0;
    snprintf(expected, sizeof expected, "%s.weight", module);
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
    return n_found == 1 ? HS_OK
                        : hs_fail(err, HS_BAD_MODEL, TENSORS ": the base model has %s tensor %s",
                                  n_found ? "more than one" : "no", expected);
}

/* Binds the tensor <module>.weight of two dimensions. */
static hs_status bind_matrix(const hs__shards *shards, const char *module, hs_tensor *ret, hs_error *err)
{
    char name[2 * NAME_BYTES];
    hs__entry entry;
    hs_dense dense = {0};
    snprintf(name, sizeof name, "%s.weight", module);
    if (!hs__shards_find(shards, name, &entry) || entry.n_dimensions != 2 || entry.n_bytes == 0)
        return hs_fail(err, HS_BAD_MODEL, "%s: %s must be a matrix", shards->file_name, name);
    const hs_status st =
        hs__dense_bind(shards, module, entry.dimensions[0], entry.dimensions[1], false, &dense, err);
    *ret = dense.weight;
    return st;
}

/* Binds the weight and the factors of lora_A's tensor. */
static hs_status bind_pair(const hs__shards *shards, const hs__shards *tensors, const char *name,
                           bool transposed, pair *ret, hs_error *err)
{
    char module[NAME_BYTES], part[2 * NAME_BYTES];
    const size_t n_before = strlen(BEFORE), n = strlen(name) - strlen(A_ENDS);
    snprintf(module, sizeof module, "%.*s", (int)(n - n_before), name + n_before);
    hs_status st = find_weight(shards, module, ret->name, err);
    if (st)
        return st;
    snprintf(part, sizeof part, "%.*s", (int)(strlen(ret->name) - strlen(".weight")), ret->name);
    st = bind_matrix(shards, part, &ret->weight, err);
    snprintf(part, sizeof part, BEFORE "%s.lora_A", module);
    if (!st)
        st = bind_matrix(tensors, part, &ret->a, err);
    snprintf(part, sizeof part, BEFORE "%s.lora_B", module);
    if (!st)
        st = bind_matrix(tensors, part, &ret->b, err);
    if (st)
        return st;
    const size_t n_out = transposed ? ret->weight.n_columns : ret->weight.n_rows;
    const size_t n_in = transposed ? ret->weight.n_rows : ret->weight.n_columns;
    if (ret->b.n_rows != n_out || ret->a.n_columns != n_in || ret->a.n_rows != ret->b.n_columns)
        return hs_fail(err, HS_BAD_MODEL,
                       TENSORS ": lora_A and lora_B of %s must have the shapes [r, %zu] and [%zu, r]", module,
                       n_in, n_out);
    return HS_OK;
}

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

static hs_status merge(const pair *p, const adapter *how, float *ret, hs_error *err)
{
    const size_t rank = p->a.n_rows;
    const double scale = how->alpha / (how->by_root ? sqrt((double)rank) : (double)rank);
    float *left = read_matrix(how->transposed ? &p->a : &p->b, how->transposed);
    float *right = read_matrix(how->transposed ? &p->b : &p->a, how->transposed);
    double *sums = calloc(p->weight.n_columns, sizeof *sums);
    const bool ready = left && right && sums;
    if (ready)
        add_product(&p->weight, scale, left, right, rank, sums, ret);
    free(left), free(right), free(sums);
    return ready ? HS_OK : hs_fail(err, HS_NO_MEMORY, TENSORS ": out of memory");
}

/* ---- all of them ---- */

/* Refuses a tensor that is no factor, or that has no other factor. */
static hs_status check_name(const hs__safetensors *tensors, const char *name, hs_error *err)
{
    char other[NAME_BYTES];
    hs__entry entry;
    const char *const ends[] = {A_ENDS, ".lora_B.weight"};
    const size_t n = strlen(name);
    for (size_t i = 0; i < 2; i++) {
        const size_t n_end = strlen(ends[i]), n_before = strlen(BEFORE);
        if (n >= NAME_BYTES || n <= n_before + n_end || strncmp(name, BEFORE, n_before) != 0 ||
            strcmp(name + n - n_end, ends[i]) != 0)
            continue;
        snprintf(other, sizeof other, "%.*s%s", (int)(n - n_end), name, ends[1 - i]);
        if (hs__safetensors_find(tensors, other, &entry))
            return HS_OK;
    }
    return hs_fail(err, HS_BAD_MODEL,
                   TENSORS
                   ": tensor %s is not one of a pair lora_A.weight and lora_B.weight of a module; other "
                   "adapters are not supported",
                   name);
}

/* Counts the pairs, and the values of the weights that they change. */
static hs_status bind_pairs(const hs__shards *shards, const hs__shards *tensors, bool transposed, pair *pairs,
                            size_t *ret_n, size_t *ret_values, hs_error *err)
{
    hs_status st = HS_OK;
    const char *name;
    json_t *value;
    *ret_n = *ret_values = 0;
    json_object_foreach(tensors->shards[0].tensors.header, name, value)
    {
        if (!json_object_get(value, "data_offsets") || strcmp(name, "__metadata__") == 0)
            continue;
        st = check_name(&tensors->shards[0].tensors, name, err);
        if (!st && hs_ends_with(name, A_ENDS)) {
            st = bind_pair(shards, tensors, name, transposed, &pairs[*ret_n], err);
            *ret_values += pairs[*ret_n].weight.n_rows * pairs[*ret_n].weight.n_columns;
            *ret_n += 1;
        }
        if (st)
            return st;
    }
    return HS_OK;
}

/* Merges the pairs into values, and describes them in the header of a safetensors file. */
static hs_status merge_pairs(const pair *pairs, size_t n, const adapter *how, float *values, json_t *header,
                             hs_error *err)
{
    hs_status st = HS_OK;
    for (size_t i = 0, at = 0; i < n && !st; i++) {
        const hs_tensor *weight = &pairs[i].weight;
        const size_t end = at + weight->n_rows * weight->n_columns * sizeof *values;
        st = merge(&pairs[i], how, values + at / sizeof *values, err);
        json_t *entry =
            json_pack("{s:s, s:[I, I], s:[I, I]}", "dtype", "F32", "shape", (json_int_t)weight->n_rows,
                      (json_int_t)weight->n_columns, "data_offsets", (json_int_t)at, (json_int_t)end);
        const bool twice = json_object_get(header, pairs[i].name) != NULL;
        if (json_object_set_new(header, pairs[i].name, entry) && !st)
            st = hs_fail(err, HS_NO_MEMORY, TENSORS ": out of memory");
        if (twice && !st)
            st = hs_fail(err, HS_BAD_MODEL, TENSORS ": two modules change %s", pairs[i].name);
        at = end;
    }
    return st;
}

static hs_status replace(const adapter *how, const hs__shards *tensors, hs__shards *shards, hs_error *err)
{
    size_t n = 0, n_values = 0;
    pair *pairs = calloc(json_object_size(tensors->shards[0].tensors.header) + 1, sizeof *pairs);
    json_t *header = json_object();
    float *values = NULL;
    hs_status st = pairs && header ? HS_OK : hs_fail(err, HS_NO_MEMORY, TENSORS ": out of memory");
    if (!st)
        st = bind_pairs(shards, tensors, how->transposed, pairs, &n, &n_values, err);
    if (!st && n == 0)
        st = hs_fail(err, HS_BAD_MODEL, TENSORS ": no tensor ends with " A_ENDS);
    if (!st && !(values = calloc(n_values, sizeof *values)))
        st = hs_fail(err, HS_NO_MEMORY, TENSORS ": out of memory");
    if (!st)
        st = merge_pairs(pairs, n, how, values, header, err);
    free(pairs);
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

/* Returns true if the family stores its weights [in][out]. */
static bool is_transposed(const hs__family *family)
{
    const hs__module *module = family->layouts[0]->layers;
    while (module->name && !module->transposed)
        module++;
    return module->name;
}

hs_status hs__adapter_merge(const hs_bytes *file, const hs__family *family, const hs__shards *tensors,
                            hs__shards *shards, hs_error *err)
{
    json_t *keys = NULL;
    adapter how = {.transposed = is_transposed(family)};
    hs_status st = hs__json_parse(file, CONFIG, &keys, err);
    if (!st)
        st = read_config(keys, &how, err);
    json_decref(keys);
    return st ? st : replace(&how, tensors, shards, err);
}

hs_status hs__adapter_open(const char *dir, const hs_bytes *file, const hs__family *family,
                           hs__shards *shards, hs__shards *ret_tensors, hs_error *err)
{
    const hs_status st = hs__shards_open_file(dir, TENSORS, ret_tensors, err);
    return st ? st : hs__adapter_merge(file, family, ret_tensors, shards, err);
}
