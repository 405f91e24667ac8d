/* shards.c - opens model.safetensors, or the files that model.safetensors.index.json names in its weight_map.
 * The whole header of a file is checked before any tensor is used. */
#include "model/files/shards.h"

#include "model/files/json.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- one file ---- */

/* The format allows 100 MB. A model of 256 layers needs 1 MB; 16 MB bounds the memory that an untrusted
 * header can take. */
#define HEADER_BYTES_MAX ((size_t)16 << 20)

/* The only key of a header that is not a tensor. Its value is neither checked nor used. */
#define METADATA "__metadata__"

static const struct {
    const char *name;
    size_t n_bytes;
} dtypes[] = {
    {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"I16", 2}, {"U16", 2}, {"F16", 2},
    {"BF16", 2}, {"I32", 4}, {"U32", 4}, {"F32", 4},     {"F64", 8},     {"I64", 8}, {"U64", 8},
};

/* A tensor's bytes, as offsets into the data. */
typedef struct range {
    size_t begin, end;
} range;

/* Multiplies *n_bytes by every dimension. Returns false on overflow or if a dimension is not a size. */
static bool measure(const json_t *shape, size_t *n_bytes)
{
    size_t n_dimensions = json_array_size(shape);
    for (size_t i = 0; i < n_dimensions; i++) {
        const json_t *dimension = json_array_get(shape, i);
        json_int_t size = json_integer_value(dimension);
        if (!json_is_integer(dimension) || size < 0 ||
            __builtin_mul_overflow(*n_bytes, (size_t)size, n_bytes))
            return false;
    }
    return true;
}

static bool read_range(const json_t *offsets, range *ret_range)
{
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return false;
    json_int_t first = json_integer_value(begin), last = json_integer_value(end);
    if (first < 0 || last < first)
        return false;
    *ret_range = (range){(size_t)first, (size_t)last};
    return true;
}

static hs_status check_entry(const char *file_name, const char *name, const json_t *tensor, range *ret_range,
                             hs_error *err)
{
    const char *dtype = json_string_value(json_object_get(tensor, "dtype"));
    const json_t *shape = json_object_get(tensor, "shape");
    size_t n_bytes = 0;
    for (size_t i = 0; dtype && i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(dtype, dtypes[i].name) == 0)
            n_bytes = dtypes[i].n_bytes;
    if (n_bytes == 0)
        return hs_fail(err, HS_BAD_MODEL, "%s: unknown dtype of tensor %s", file_name, name);
    if (!json_is_array(shape) || !measure(shape, &n_bytes))
        return hs_fail(err, HS_BAD_MODEL, "%s: bad shape of tensor %s", file_name, name);
    if (!read_range(json_object_get(tensor, "data_offsets"), ret_range))
        return hs_fail(err, HS_BAD_MODEL, "%s: bad data_offsets of tensor %s", file_name, name);
    if (ret_range->end - ret_range->begin != n_bytes)
        return hs_fail(err, HS_BAD_MODEL, "%s: data_offsets do not fit dtype and shape of tensor %s",
                       file_name, name);
    return HS_OK;
}

static int compare_ranges(const void *a, const void *b)
{
    const range *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

/* Checks every entry. The tensors must cover the data exactly: no gap, no overlap, nothing after the last. */
static hs_status check_header(const char *file_name, json_t *header, size_t data_bytes, hs_error *err)
{
    range *ranges = malloc((json_object_size(header) + 1) * sizeof *ranges);
    if (!ranges)
        return hs_fail(err, HS_NO_MEMORY, "%s: out of memory", file_name);
    size_t n_ranges = 0;
    hs_status st = HS_OK;
    const char *name;
    json_t *tensor;
    json_object_foreach(header, name, tensor)
    {
        if (strcmp(name, METADATA) == 0)
            continue;
        st = check_entry(file_name, name, tensor, &ranges[n_ranges++], err);
        if (st)
            goto out;
    }
    qsort(ranges, n_ranges, sizeof *ranges, compare_ranges);
    size_t end = 0;
    for (size_t i = 0; i < n_ranges && !st; i++) {
        if (ranges[i].begin != end)
            st = hs_fail(err, HS_BAD_MODEL, "%s: a gap or an overlap at data offset %zu", file_name, end);
        end = ranges[i].end;
    }
    if (!st && end != data_bytes)
        st = hs_fail(err, HS_BAD_MODEL,
                     "%s: the data has %zu bytes, but the header describes %zu; is the download incomplete?",
                     file_name, data_bytes, end);
out:
    free(ranges);
    return st;
}

hs_status hs__safetensors_parse(const hs_bytes *file, const char *file_name, hs__safetensors *ret_file,
                                hs_error *err)
{
    const unsigned char *bytes = file->data;
    uint64_t header_bytes = 0;
    if (file->size < sizeof header_bytes)
        return hs_fail(err, HS_BAD_MODEL, "%s: too short for a safetensors file", file_name);
    for (size_t i = 0; i < sizeof header_bytes; i++)
        header_bytes |= (uint64_t)bytes[i] << (8 * i);
    size_t rest = file->size - sizeof header_bytes;
    bytes += sizeof header_bytes;
    if (header_bytes > rest)
        return hs_fail(err, HS_BAD_MODEL, "%s: the header ends after the file", file_name);
    if (header_bytes > HEADER_BYTES_MAX)
        return hs_fail(err, HS_BAD_MODEL, "%s: the header is larger than %zu MB", file_name,
                       HEADER_BYTES_MAX >> 20);
    if (header_bytes == 0 || bytes[0] != '{')
        return hs_fail(err, HS_BAD_MODEL, "%s: the header does not begin with {", file_name);
    json_t *header = NULL;
    hs_status st = hs__json_parse(&(hs_bytes){bytes, (size_t)header_bytes}, file_name, &header, err);
    if (!st)
        st = check_header(file_name, header, rest - (size_t)header_bytes, err);
    if (st) {
        json_decref(header);
        return st;
    }
    *ret_file = (hs__safetensors){.file_name = file_name, .data = bytes + header_bytes, .header = header};
    return HS_OK;
}

void hs__safetensors_finish(hs__safetensors *file)
{
    json_decref(file->header);
    *file = (hs__safetensors){0};
}

bool hs__safetensors_find(const hs__safetensors *file, const char *name, hs__entry *ret_entry)
{
    const json_t *tensor = json_object_get(file->header, name);
    range where;
    if (strcmp(name, METADATA) == 0 || !read_range(json_object_get(tensor, "data_offsets"), &where))
        return false;
    const json_t *shape = json_object_get(tensor, "shape");
    *ret_entry = (hs__entry){
        .data = file->data + where.begin,
        .n_bytes = where.end - where.begin,
        .n_dimensions = json_array_size(shape),
        .dimensions = {(size_t)json_integer_value(json_array_get(shape, 0)),
                       (size_t)json_integer_value(json_array_get(shape, 1)),
                       (size_t)json_integer_value(json_array_get(shape, 2)),
                       (size_t)json_integer_value(json_array_get(shape, 3))},
        .dtype = json_string_value(json_object_get(tensor, "dtype")),
    };
    return true;
}

/* ---- a checkpoint's files ---- */

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

#define MADE_OF "use the safetensors files that it was made of, which its model card names"
/* Version 5 reads neither, and 4.57 fails with "Cannot copy out of meta tensor". */
#define CONVERTS(library, option)                                                                            \
    "transformers 4.49 with " library                                                                        \
    " converts them, with the class that config.json names in architectures: "                               \
    "from_pretrained(\"DIR\", " option "=True).save_pretrained(\"DIR\")"
#define AS_TRANSFORMERS "use the checkpoint that transformers saved"
/* Weights in other forms: how the longer names of their files end, and what can be done. The first that fits
 * counts. */
static const struct {
    const char *ending, *advice;
    bool with_config; /* says nothing of a folder without config.json */
} others[] = {
    {.ending = "_model.safetensors", .advice = "an adapter without its adapter_config.json"},
    {.ending = "solidated.safetensors",
     .advice = "weights in Mistral's own layout, which is not read; use the files beside which "
               "transformers has its config.json"},
    {.ending = ".safetensors",
     .advice = "weights under another name; if they are whole, copy or link the file to " SINGLE_FILE,
     .with_config = true},
    {.ending = ".gguf", .advice = "a model of llama.cpp; name the file itself in place of the folder"},
    {.ending = ".h5",
     .advice = "weights of TensorFlow, which are not read; " CONVERTS("TensorFlow", "from_tf")},
    {.ending = ".msgpack", .advice = "weights of Flax, which are not read; " CONVERTS("Flax", "from_flax")},
    {.ending = ".onnx", .advice = "a graph of ONNX, which is not read; " MADE_OF},
    {.ending = ".ckpt.index", .advice = "weights of TensorFlow 1, which are not read; " AS_TRANSFORMERS},
    {.ending = ".pth", .advice = "weights in a layout of their authors, which is not read; " AS_TRANSFORMERS},
};
#define N_OTHERS (sizeof others / sizeof *others)

/* Returns which of the other forms a file has, or N_OTHERS. */
static size_t form_of(const char *name)
{
    size_t form = 0;
    while (form < N_OTHERS && !hs_ends_with(name, others[form].ending))
        form++;
    return form;
}

/* Finds a file of the first form, of several the first in the order of names. Returns the form, or N_OTHERS.
 */
static size_t find_other(const char *dir, bool has_config, char ret_found[256])
{
    size_t form = N_OTHERS;
    DIR *folder = opendir(dir);
    ret_found[0] = 0;
    for (const struct dirent *entry = NULL; folder && (entry = readdir(folder));) {
        const size_t k = form_of(entry->d_name);
        if (k == N_OTHERS || k > form || (k == form && strcmp(entry->d_name, ret_found) > 0) ||
            (others[k].with_config && !has_config))
            continue;
        form = k;
        snprintf(ret_found, 256, "%s", entry->d_name);
    }
    if (folder)
        closedir(folder);
    return form;
}

hs_status hs__config_missing_refuse(const char *dir, const hs_error *reason, hs_error *err)
{
    char found[256];
    struct stat state;
    const size_t own = form_of(dir), form = find_other(dir, false, found);
    const bool is_file = stat(dir, &state) == 0 && S_ISREG(state.st_mode);
    if (is_file && (own == N_OTHERS || others[own].with_config))
        return hs_fail(err, reason->status, "a file; name the folder that holds it and config.json");
    if (is_file)
        return hs_fail(err, reason->status, "a file; it has %s", others[own].advice);
    return form == N_OTHERS ? hs_fail(err, reason->status, "%s", reason->text)
                            : hs_fail(err, reason->status, "%s; the folder has %s, %s", reason->text, found,
                                      others[form].advice);
}

/* Refuses a folder with weights in another form, or without any. */
static hs_status refuse_other(const char *dir, hs_error *err)
{
    char found[256];
    const size_t form = find_other(dir, true, found);
    return form == N_OTHERS ? hs_fail(err, HS_NOT_FOUND, SINGLE_FILE ": missing, as is " INDEX_FILE)
                            : hs_fail(err, HS_NOT_FOUND,
                                      SINGLE_FILE ": missing, as is " INDEX_FILE "; the folder has %s, %s",
                                      found, others[form].advice);
}

/* Refuses a folder without safetensors, and says what it has instead. */
static hs_status refuse_missing(const char *dir, hs_error *err)
{
    static const char *const pickles[] = {PICKLE_FILE, PICKLE_FILE ".index.json"};
    for (size_t i = 0; i < sizeof pickles / sizeof *pickles; i++) {
        hs__mapping mapping;
        hs_error reason = {0};
        const hs_status st = hs__file_map(dir, pickles[i], &mapping, &reason);
        hs__file_unmap(&mapping);
        if (st == HS_BAD_MODEL) /* a pointer of Git LFS */
            return hs_fail(err, st, "%s", reason.text);
        if (!st)
            return hs_fail(err, HS_NOT_FOUND,
                           SINGLE_FILE
                           ": missing; the folder has only " PICKLE_FILE
                           ", a pickle, which can run code. Convert it once, with PyTorch and the "
                           "Python package: python3 -m headscope.convert DIR");
    }
    return refuse_other(dir, err);
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

hs_status hs__shards_open_file(const char *dir, const char *name, hs__shards *ret_shards, hs_error *err)
{
    *ret_shards = (hs__shards){.file_name = name};
    return open_shards(dir, &name, 1, ret_shards, err);
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

#define OTHER_NAME_BYTES 512

static const hs__shard *find_named(const hs__shards *shards, const char *name, hs__entry *ret_entry)
{
    if (hs__safetensors_find(&shards->merged.tensors, name, ret_entry))
        return &shards->merged;
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

const hs__shard *hs__shards_find(const hs__shards *shards, const char *name, hs__entry *ret_entry)
{
    const hs__shard *shard = find_named(shards, name, ret_entry);
    for (size_t i = 0; !shard && shards->same[0] && i < 2; i++) {
        const size_t n = strlen(shards->same[i]);
        char other[OTHER_NAME_BYTES];
        if (strncmp(name, shards->same[i], n) == 0 &&
            (size_t)snprintf(other, sizeof other, "%s%s", shards->same[1 - i], name + n) < sizeof other)
            shard = find_named(shards, other, ret_entry);
    }
    return shard;
}

void hs__shards_forget_headers(hs__shards *shards)
{
    for (size_t i = 0; i < shards->n_shards; i++)
        hs__safetensors_finish(&shards->shards[i].tensors);
    hs__safetensors_finish(&shards->merged.tensors);
    json_decref(shards->index);
    shards->index = NULL;
}

void hs__shards_finish(hs__shards *shards)
{
    hs__shards_forget_headers(shards);
    for (size_t i = 0; i < shards->n_shards; i++)
        hs__file_unmap(&shards->shards[i].mapping);
    free(shards->shards);
    free((void *)shards->merged.mapping.bytes.data);
    *shards = (hs__shards){0};
}
