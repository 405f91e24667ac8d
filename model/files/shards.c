/* shards.c - opens model.safetensors, or the files that model.safetensors.index.json names in its
 * weight_map. */
#include "model/files/shards.h"
#include "model/files/json.h"

#include <stdlib.h>
#include <string.h>

#define SINGLE_FILE "model.safetensors"
#define INDEX_FILE  "model.safetensors.index.json"
#define PICKLE_FILE "pytorch_model.bin"

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Returns true for a plain file name: a shard must be in the folder of its index. */
static bool is_shard_name(const char *name)
{
    return name && name[0] != '.' && !strchr(name, '/') && hs_ends_with(name, ".safetensors");
}

static hs_status list_shards(json_t *weight_map, const char ***ret_names, size_t *ret_n_names, hs_error *err)
{
    size_t n_tensors = json_object_size(weight_map), n_names = 0, n_unique = 0;
    if (n_tensors == 0)
        return hs_fail(err, HS_BAD_MODEL, INDEX_FILE ": weight_map is missing or empty");
    const char **names = malloc(n_tensors * sizeof *names);
    if (!names)
        return hs_fail(err, HS_NO_MEMORY, INDEX_FILE ": out of memory");
    hs_status st = HS_OK;
    const char *tensor;
    json_t *value;
    json_object_foreach(weight_map, tensor, value)
    {
        const char *name = json_string_value(value);
        if (!is_shard_name(name)) {
            st = hs_fail(err, HS_BAD_MODEL,
                         INDEX_FILE ": weight_map must name a .safetensors file beside it for %s", tensor);
            goto out;
        }
        names[n_names++] = name;
    }
    qsort(names, n_names, sizeof *names, compare_names);
    for (size_t i = 0; i < n_names; i++)
        if (i == 0 || strcmp(names[i], names[i - 1]) != 0)
            names[n_unique++] = names[i];
    if (n_unique > HS__SHARDS_MAX) {
        st = hs_fail(err, HS_BAD_MODEL, INDEX_FILE ": more than %d shards", HS__SHARDS_MAX);
        goto out;
    }
    *ret_names = names;
    *ret_n_names = n_unique;
    names = NULL;
out:
    free(names);
    return st;
}

hs_status hs__index_parse(const hs_bytes *file, json_t **ret_index, const char ***ret_names,
                          size_t *ret_n_names, hs_error *err)
{
    json_t *index = NULL;
    hs_status st = hs__json_parse(file, INDEX_FILE, &index, err);
    if (!st)
        st = list_shards(json_object_get(index, "weight_map"), ret_names, ret_n_names, err);
    if (st)
        json_decref(index);
    else
        *ret_index = index;
    return st;
}

static hs_status open_shards(const char *dir, const char *const *names, size_t n_names, hs__shards *shards,
                             hs_error *err)
{
    shards->shards = calloc(n_names, sizeof *shards->shards);
    if (!shards->shards)
        return hs_fail(err, HS_NO_MEMORY, "%s: out of memory", names[0]);
    for (size_t i = 0; i < n_names; i++) {
        hs__shard *shard = &shards->shards[i];
        shards->n_shards = i + 1;
        hs_status st = hs__file_map(dir, names[i], &shard->mapping, err);
        if (!st)
            st = hs__safetensors_parse(&shard->mapping.bytes, names[i], &shard->tensors, err);
        if (st)
            return st;
    }
    return HS_OK;
}

/* Returns true if the folder has PyTorch pickles. headscope does not open them, because a pickle can run
 * code. */
static bool has_pickle(const char *dir)
{
    static const char *const names[] = {PICKLE_FILE, PICKLE_FILE ".index.json"};
    bool found = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        hs__mapping mapping;
        found = !hs__file_map(dir, names[i], &mapping, NULL) || found;
        hs__file_unmap(&mapping);
    }
    return found;
}

static hs_status refuse_missing(const char *dir, hs_error *err)
{
    if (has_pickle(dir))
        return hs_fail(err, HS_NOT_FOUND,
                       SINGLE_FILE ": missing; the folder has only " PICKLE_FILE
                                   ", a pickle, which can run code. Convert it once with examples/convert.py "
                                   "of headscope's sources: "
                                   "python3 convert.py DIR");
    return hs_fail(err, HS_NOT_FOUND, SINGLE_FILE ": missing, as is " INDEX_FILE);
}

static hs_status open_single(const char *dir, hs__shards *shards, hs_error *err)
{
    static const char *const names[] = {SINGLE_FILE};
    hs_error reason = {0};
    shards->file_name = SINGLE_FILE;
    hs_status st = open_shards(dir, names, 1, shards, &reason);
    if (st == HS_NOT_FOUND)
        return refuse_missing(dir, err);
    return st ? hs_fail(err, st, "%s", reason.text) : HS_OK;
}

/* Prefers the single file if both are present, as HuggingFace does. */
hs_status hs__shards_open(const char *dir, hs__shards *ret_shards, hs_error *err)
{
    hs_bytes index = {NULL, 0};
    const char **names = NULL;
    size_t n_names = 0;
    *ret_shards = (hs__shards){0};
    hs_error reason = {0};
    hs_status st = open_single(dir, ret_shards, &reason);
    if (st != HS_NOT_FOUND)
        return st ? hs_fail(err, st, "%s", reason.text) : HS_OK;
    hs__shards_finish(ret_shards);
    st = hs__file_read(dir, INDEX_FILE, true, &index, err);
    if (st)
        return st;
    if (!index.data)
        return hs_fail(err, HS_NOT_FOUND, "%s", reason.text);
    ret_shards->file_name = INDEX_FILE;
    st = hs__index_parse(&index, &ret_shards->index, &names, &n_names, err);
    if (!st)
        st = open_shards(dir, names, n_names, ret_shards, err);
    free(names);
    free((void *)index.data);
    return st;
}

hs_status hs__shards_open_memory(const hs_bytes *file, hs__shards *ret_shards, hs_error *err)
{
    *ret_shards = (hs__shards){.file_name = SINGLE_FILE, .shards = calloc(1, sizeof *ret_shards->shards)};
    if (!ret_shards->shards)
        return hs_fail(err, HS_NO_MEMORY, SINGLE_FILE ": out of memory");
    ret_shards->n_shards = 1;
    ret_shards->shards[0].mapping = (hs__mapping){.bytes = *file, .fd = -1};
    return hs__safetensors_parse(file, SINGLE_FILE, &ret_shards->shards[0].tensors, err);
}

const hs__shard *hs__shards_find(const hs__shards *shards, const char *name, hs__entry *ret_entry)
{
    const char *file_name = shards->shards[0].tensors.file_name;
    if (shards->index) {
        file_name = json_string_value(json_object_get(json_object_get(shards->index, "weight_map"), name));
        if (!file_name)
            return NULL;
    }
    for (size_t i = 0; i < shards->n_shards; i++) {
        const hs__shard *shard = &shards->shards[i];
        if (strcmp(shard->tensors.file_name, file_name) == 0)
            return hs__safetensors_find(&shard->tensors, name, ret_entry) ? shard : NULL;
    }
    return NULL;
}

void hs__shards_forget_headers(hs__shards *shards)
{
    for (size_t i = 0; i < shards->n_shards; i++)
        hs__safetensors_finish(&shards->shards[i].tensors);
    json_decref(shards->index);
    shards->index = NULL;
}

void hs__shards_finish(hs__shards *shards)
{
    hs__shards_forget_headers(shards);
    for (size_t i = 0; i < shards->n_shards; i++)
        hs__file_unmap(&shards->shards[i].mapping);
    free(shards->shards);
    *shards = (hs__shards){0};
}
