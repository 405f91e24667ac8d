/* gguf.c - finds and parses a GGUF file. Sizes, offsets and texts are all checked before anything is used. */
#include "model/files/gguf.h"

#include "model/base/utf8.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define ENDING         ".gguf"
#define MAGIC          "GGUF"
#define VALUES_MAX     4096
#define TENSORS_MAX    65536
#define KEY_BYTES_MAX  256
#define ALIGNMENT      32 /* unless general.alignment says otherwise */
#define DIMENSIONS_MAX 4

#define ELSEWHERE "use the safetensors files that it was made of, which its model card names"

/* ---- numbers and texts ---- */

/* The rest of a file. */
typedef struct rest {
    const unsigned char *at;
    size_t left;
} rest;

static uint64_t number_at(const unsigned char *bytes, size_t n_bytes)
{
    uint64_t ret = 0;
    for (size_t i = 0; i < n_bytes; i++)
        ret |= (uint64_t)bytes[i] << (8 * i);
    return ret;
}

/* Moves past n bytes. Returns false if the file is too short. */
static bool take(rest *c, uint64_t n, hs_bytes *ret)
{
    if (n > c->left)
        return false;
    *ret = (hs_bytes){c->at, (size_t)n};
    c->at += n;
    c->left -= (size_t)n;
    return true;
}

static bool take_number(rest *c, size_t n_bytes, uint64_t *ret)
{
    hs_bytes bytes;
    if (!take(c, n_bytes, &bytes))
        return false;
    *ret = number_at(bytes.data, n_bytes);
    return true;
}

static bool take_text(rest *c, hs_bytes *ret)
{
    uint64_t n;
    return take_number(c, 8, &n) && take(c, n, ret);
}

/* Returns the bytes of a value's type, or 0 if they differ from value to value. */
static size_t type_bytes(uint64_t type)
{
    static const unsigned char sizes[] = {
        [HS__GGUF_U8] = 1,  [HS__GGUF_I8] = 1,  [HS__GGUF_U16] = 2, [HS__GGUF_I16] = 2,
        [HS__GGUF_U32] = 4, [HS__GGUF_I32] = 4, [HS__GGUF_F32] = 4, [HS__GGUF_BOOL] = 1,
        [HS__GGUF_U64] = 8, [HS__GGUF_I64] = 8, [HS__GGUF_F64] = 8,
    };
    return type < sizeof sizes ? sizes[type] : 0;
}

/* ---- values ---- */

static hs_status refuse_end(hs_error *err)
{
    return hs_fail(err, HS_BAD_MODEL, "GGUF: the file ends too early; is the download incomplete?");
}

/* Moves past the elements of an array. */
static hs_status take_elements(rest *c, hs__gguf_value *value, uint64_t n, hs_error *err)
{
    const size_t each = type_bytes(value->type);
    const unsigned char *const start = c->at;
    hs_bytes skipped;
    if (each == 0 && value->type != HS__GGUF_TEXT)
        return hs_fail(err, HS_BAD_MODEL, "GGUF: %.*s has elements of type %u, which is not supported",
                       (int)value->key.size, (const char *)value->key.data, value->type);
    if (n > c->left)
        return refuse_end(err);
    if (each > 0 && !take(c, n * each, &skipped)) /* cannot overflow: n is at most the file's size */
        return refuse_end(err);
    for (uint64_t i = 0; each == 0 && i < n; i++)
        if (!take_text(c, &skipped))
            return refuse_end(err);
    value->n = (size_t)n;
    value->data = (hs_bytes){start, (size_t)(c->at - start)};
    return HS_OK;
}

static hs_status take_value(rest *c, hs__gguf_value *ret, hs_error *err)
{
    uint64_t type, n = 1;
    if (!take_text(c, &ret->key) || !take_number(c, 4, &type))
        return refuse_end(err);
    if (ret->key.size == 0 || ret->key.size > KEY_BYTES_MAX ||
        hs_utf8_valid(ret->key.data, ret->key.size) < ret->key.size ||
        memchr(ret->key.data, '\0', ret->key.size))
        return hs_fail(err, HS_BAD_MODEL, "GGUF: a key is not a text of 1 to %d bytes", KEY_BYTES_MAX);
    ret->is_array = type == HS__GGUF_ARRAY;
    if (ret->is_array && (!take_number(c, 4, &type) || !take_number(c, 8, &n)))
        return refuse_end(err);
    ret->type = (uint32_t)type;
    if (!ret->is_array && type == HS__GGUF_TEXT) {
        ret->n = 1;
        return take_text(c, &ret->data) ? HS_OK : refuse_end(err);
    }
    return take_elements(c, ret, n, err);
}

static bool equal(const hs_bytes *a, const hs_bytes *b)
{
    return a->size == b->size && a->data && b->data && memcmp(a->data, b->data, a->size) == 0;
}

static hs_status take_values(rest *c, hs__gguf *file, uint64_t n, hs_error *err)
{
    if (n > VALUES_MAX)
        return hs_fail(err, HS_BAD_MODEL, "GGUF: more than %d values", VALUES_MAX);
    file->values = calloc((size_t)n + 1, sizeof *file->values);
    if (!file->values)
        return hs_fail(err, HS_NO_MEMORY, "GGUF: out of memory");
    for (uint64_t i = 0; i < n; i++) {
        hs__gguf_value *value = &file->values[i];
        const hs_status st = take_value(c, value, err);
        if (st)
            return st;
        for (size_t k = 0; k < file->n_values; k++)
            if (equal(&file->values[k].key, &value->key))
                return hs_fail(err, HS_BAD_MODEL, "GGUF: the key %.*s is there twice", (int)value->key.size,
                               (const char *)value->key.data);
        file->n_values++;
    }
    return HS_OK;
}

const hs__gguf_value *hs__gguf_value_of(const hs__gguf *file, const char *key)
{
    const hs_bytes bytes = hs_bytes_of(key);
    for (size_t i = 0; i < file->n_values; i++)
        if (equal(&file->values[i].key, &bytes))
            return &file->values[i];
    return NULL;
}

bool hs__gguf_integer(const hs__gguf_value *value, size_t i, int64_t *ret)
{
    const size_t each = value ? type_bytes(value->type) : 0;
    if (each == 0 || i >= value->n || value->type == HS__GGUF_F32 || value->type == HS__GGUF_F64)
        return false;
    const uint64_t bits = number_at((const unsigned char *)value->data.data + i * each, each);
    const bool is_signed = value->type == HS__GGUF_I8 || value->type == HS__GGUF_I16 ||
                           value->type == HS__GGUF_I32 || value->type == HS__GGUF_I64;
    const uint64_t sign = UINT64_C(1) << (8 * each - 1);
    if (!is_signed && each == 8 && bits >= sign)
        return false;
    *ret = is_signed && bits & sign ? -(int64_t)(sign - (bits & (sign - 1)) - 1) - 1 : (int64_t)bits;
    return true;
}

bool hs__gguf_number(const hs__gguf_value *value, size_t i, double *ret)
{
    int64_t integer;
    float single;
    if (!value || i >= value->n)
        return false;
    const unsigned char *bytes = value->data.data;
    if (value->type == HS__GGUF_F32) {
        memcpy(&single, bytes + 4 * i, sizeof single);
        *ret = (double)single;
    } else if (value->type == HS__GGUF_F64) {
        memcpy(ret, bytes + 8 * i, sizeof *ret);
    } else if (hs__gguf_integer(value, i, &integer)) {
        *ret = (double)integer;
    } else {
        return false;
    }
    return *ret - *ret == 0; /* finite */
}

hs_bytes hs__gguf_text_next(const hs__gguf_value *value, const unsigned char **cursor)
{
    const unsigned char *at = *cursor ? *cursor : value->data.data;
    const size_t n = (size_t)number_at(at, 8);
    *cursor = at + 8 + n;
    return (hs_bytes){at + 8, n};
}

bool hs__gguf_is(const hs__gguf_value *value, const char *text)
{
    const hs_bytes bytes = hs_bytes_of(text);
    return value && !value->is_array && value->type == HS__GGUF_TEXT && equal(&value->data, &bytes);
}

/* ---- tensors ---- */

/* Names of the types that are not read, of which some are gone, and of those that are. */
static const char *const type_names[] = {
    "F32",   "F16",    "Q4_0", "Q4_1", NULL,   NULL,      "Q5_0",   "Q5_1",    "Q8_0",  "Q8_1",   "Q2_K",
    "Q3_K",  "Q4_K",   "Q5_K", "Q6_K", "Q8_K", "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S",
    "IQ2_S", "IQ4_XS", "I8",   "I16",  "I32",  "I64",     "F64",    "IQ1_M",   "BF16"};

static hs_status refuse_type(const hs__gguf_tensor *tensor, hs_error *err)
{
    const char *name =
        tensor->type < sizeof type_names / sizeof *type_names ? type_names[tensor->type] : NULL;
    char number[24];
    snprintf(number, sizeof number, "of type %u", tensor->type);
    return hs_fail(
        err, HS_BAD_MODEL,
        "GGUF: tensor %s is %s; F32, F16, BF16 and Q8_0 are read. Take a file of one of these "
        "kinds, or let transformers 5.24 write the values into a folder, without scalings of rotary "
        "positions: AutoModelForCausalLM.from_pretrained(\"DIR\", gguf_file=\"FILE\", "
        "quantization_config=GgufConfig(dequantize=True)).save_pretrained(\"OUT\"); "
        "AutoTokenizer.from_pretrained(\"DIR\", gguf_file=\"FILE\").save_pretrained(\"OUT\")",
        tensor->name, name ? name : number);
}

/* Computes the sizes of a tensor whose dimensions and type are known. */
static hs_status measure(hs__gguf_tensor *tensor, hs_error *err)
{
    static const struct {
        uint32_t type;
        size_t values, bytes; /* of a block */
    } blocks[] = {{HS__GGML_F32, 1, 4}, {HS__GGML_F16, 1, 2}, {HS__GGML_BF16, 1, 2}, {HS__GGML_Q8_0, 32, 34}};
    size_t k = 0;
    while (k < sizeof blocks / sizeof *blocks && blocks[k].type != tensor->type)
        k++;
    if (k == sizeof blocks / sizeof *blocks)
        return refuse_type(tensor, err);
    tensor->n_values = 1;
    bool fits = tensor->dimensions[0] % blocks[k].values == 0;
    for (size_t i = 0; i < tensor->n_dimensions; i++)
        fits = fits && tensor->dimensions[i] > 0 &&
               !__builtin_mul_overflow(tensor->n_values, tensor->dimensions[i], &tensor->n_values);
    fits = fits && tensor->n_values <= SIZE_MAX / 8; /* as float32 they have a size, too */
    if (!fits)
        return hs_fail(err, HS_BAD_MODEL, "GGUF: bad dimensions of tensor %s", tensor->name);
    tensor->n_bytes = tensor->n_values / blocks[k].values * blocks[k].bytes;
    return HS_OK;
}

/* Copies a tensor's name. */
static hs_status name_tensor(const hs_bytes *name, hs__gguf_tensor *ret, hs_error *err)
{
    if (name->size == 0 || name->size >= sizeof ret->name || memchr(name->data, '\0', name->size) ||
        hs_utf8_valid(name->data, name->size) < name->size)
        return hs_fail(err, HS_BAD_MODEL, "GGUF: a tensor's name is not a text of 1 to %d bytes",
                       HS__GGUF_NAME_BYTES - 1);
    memcpy(ret->name, name->data, name->size);
    return HS_OK;
}

static hs_status take_tensor(rest *c, hs__gguf_tensor *ret, hs_error *err)
{
    hs_bytes name;
    uint64_t n, dimension, type, offset;
    if (!take_text(c, &name) || !take_number(c, 4, &n))
        return refuse_end(err);
    hs_status st = name_tensor(&name, ret, err);
    if (!st && (n == 0 || n > DIMENSIONS_MAX))
        st = hs_fail(err, HS_BAD_MODEL, "GGUF: tensor %s must have 1 to %d dimensions", ret->name,
                     DIMENSIONS_MAX);
    if (st)
        return st;
    ret->n_dimensions = (size_t)n;
    for (size_t i = 0; i < ret->n_dimensions; i++) {
        if (!take_number(c, 8, &dimension))
            return refuse_end(err);
        ret->dimensions[i] = (size_t)dimension;
    }
    if (!take_number(c, 4, &type) || !take_number(c, 8, &offset))
        return refuse_end(err);
    ret->type = (uint32_t)type;
    ret->offset = (size_t)offset;
    return measure(ret, err);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const hs__gguf_tensor *)a)->name, ((const hs__gguf_tensor *)b)->name);
}

/* Reads the list of tensors, which it sorts by name. */
static hs_status take_tensors(rest *c, hs__gguf *file, uint64_t n, hs_error *err)
{
    if (n == 0 || n > TENSORS_MAX || n > c->left)
        return hs_fail(err, HS_BAD_MODEL, "GGUF: it must have 1 to %d tensors; is it a vocabulary alone?",
                       TENSORS_MAX);
    file->tensors = calloc((size_t)n, sizeof *file->tensors);
    if (!file->tensors)
        return hs_fail(err, HS_NO_MEMORY, "GGUF: out of memory");
    hs_status st = HS_OK;
    for (; file->n_tensors < n && !st; file->n_tensors++)
        st = take_tensor(c, &file->tensors[file->n_tensors], err);
    if (st)
        return st;
    qsort(file->tensors, file->n_tensors, sizeof *file->tensors, compare_names);
    for (size_t i = 1; i < file->n_tensors; i++)
        if (compare_names(&file->tensors[i - 1], &file->tensors[i]) == 0)
            return hs_fail(err, HS_BAD_MODEL, "GGUF: tensor %s is there twice", file->tensors[i].name);
    return HS_OK;
}

const hs__gguf_tensor *hs__gguf_tensor_of(const hs__gguf *file, const char *name)
{
    hs__gguf_tensor key = {0};
    if (strlen(name) >= sizeof key.name)
        return NULL;
    memcpy(key.name, name, strlen(name));
    return bsearch(&key, file->tensors, file->n_tensors, sizeof *file->tensors, compare_names);
}

/* ---- the file ---- */

/* Refuses a part of a file that was split. */
static hs_status check_parts(const hs__gguf *file, hs_error *err)
{
    int64_t n = 0;
    if (!hs__gguf_integer(hs__gguf_value_of(file, "split.count"), 0, &n) || n <= 1)
        return HS_OK;
    return hs_fail(err, HS_BAD_MODEL, "GGUF: one of %lld files of a model that was split; " ELSEWHERE,
                   (long long)n);
}

/* Finds the data behind the lists, and checks that all tensors are in it. */
static hs_status find_data(rest *c, hs__gguf *file, hs_error *err)
{
    const hs__gguf_value *value = hs__gguf_value_of(file, "general.alignment");
    int64_t alignment = ALIGNMENT;
    if (value && (!hs__gguf_integer(value, 0, &alignment) || alignment < 8 || alignment > 1 << 20 ||
                  alignment % 8 != 0))
        return hs_fail(err, HS_BAD_MODEL, "GGUF: general.alignment must be a multiple of 8, up to %d",
                       1 << 20);
    const size_t step = (size_t)alignment;
    const size_t at = (size_t)(c->at - (const unsigned char *)file->mapping.bytes.data);
    const size_t n_padding = (step - at % step) % step;
    hs_bytes padding;
    if (!take(c, n_padding, &padding))
        return refuse_end(err);
    file->data = c->at;
    for (size_t i = 0; i < file->n_tensors; i++) {
        const hs__gguf_tensor *tensor = &file->tensors[i];
        if (tensor->offset % step != 0)
            return hs_fail(err, HS_BAD_MODEL, "GGUF: the offset of tensor %s is not a multiple of %zu",
                           tensor->name, step);
        if (tensor->offset > c->left || tensor->n_bytes > c->left - tensor->offset)
            return hs_fail(err, HS_BAD_MODEL,
                           "GGUF: tensor %s ends after the file; is the download incomplete?", tensor->name);
    }
    return HS_OK;
}

static hs_status parse(hs__gguf *file, hs_error *err)
{
    rest c = {file->mapping.bytes.data, file->mapping.bytes.size};
    uint64_t version, n_tensors, n_values;
    hs_bytes magic;
    if (!take(&c, strlen(MAGIC), &magic) || memcmp(magic.data, MAGIC, strlen(MAGIC)) != 0)
        return hs_fail(err, HS_BAD_MODEL, "GGUF: the file does not begin with " MAGIC);
    if (!take_number(&c, 4, &version))
        return refuse_end(err);
    if (version != 2 && version != 3)
        return hs_fail(err, HS_BAD_MODEL, "GGUF: version %u; 2 and 3 are read, of little-endian files",
                       (unsigned)version);
    if (!take_number(&c, 8, &n_tensors) || !take_number(&c, 8, &n_values))
        return refuse_end(err);
    hs_status st = take_values(&c, file, n_values, err);
    if (!st)
        st = check_parts(file, err);
    if (!st)
        st = take_tensors(&c, file, n_tensors, err);
    return st ? st : find_data(&c, file, err);
}

hs_status hs__gguf_parse(const hs_bytes *bytes, hs__gguf **ret_file, hs_error *err)
{
    hs__gguf *file = calloc(1, sizeof *file);
    if (!file)
        return hs_fail(err, HS_NO_MEMORY, "GGUF: out of memory");
    file->mapping = (hs__mapping){.bytes = *bytes, .fd = -1};
    const hs_status st = parse(file, err);
    if (st)
        hs__gguf_close(file);
    else
        *ret_file = file;
    return st;
}

void hs__gguf_close(hs__gguf *file)
{
    if (!file)
        return;
    hs__file_unmap(&file->mapping);
    free(file->values);
    free(file->tensors);
    free(file);
}

/* ---- finding it ---- */

/* Splits the path of a file into its folder and its name. */
static hs_status split(const char *path, char ret_dir[PATH_MAX], char ret_name[NAME_MAX + 1], hs_error *err)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    const int n_dir = (int)(name - path);
    if (snprintf(ret_dir, PATH_MAX, "%.*s", n_dir ? n_dir : 2, n_dir ? path : "./") >= PATH_MAX ||
        snprintf(ret_name, NAME_MAX + 1, "%s", name) > NAME_MAX)
        return hs_fail(err, HS_IO, "the path is too long");
    return HS_OK;
}

/* Finds the only GGUF file of a folder; *ret_name is empty if there is none. */
static hs_status find(const char *dir, char ret_name[NAME_MAX + 1], hs_error *err)
{
    DIR *folder = opendir(dir);
    size_t n = 0;
    *ret_name = '\0';
    for (const struct dirent *entry = NULL; folder && (entry = readdir(folder));)
        if (hs_ends_with(entry->d_name, ENDING) && (n++ == 0 || strcmp(entry->d_name, ret_name) < 0))
            snprintf(ret_name, NAME_MAX + 1, "%s", entry->d_name);
    if (folder)
        closedir(folder);
    return n > 1 ? hs_fail(err, HS_BAD_MODEL, "the folder has %zu GGUF files; name one of them, such as %s",
                           n, ret_name)
                 : HS_OK;
}

hs_status hs__gguf_open(const char *path, char ret_dir[PATH_MAX], hs__gguf **ret_file, hs_error *err)
{
    struct stat info;
    char name[NAME_MAX + 1];
    *ret_file = NULL;
    if (stat(path, &info))
        return HS_OK;
    hs_status st = HS_OK;
    *name = '\0';
    if (S_ISDIR(info.st_mode)) {
        snprintf(ret_dir, PATH_MAX, "%s", path);
        st = find(path, name, err);
    } else if (hs_ends_with(path, ENDING)) {
        st = split(path, ret_dir, name, err);
    }
    if (st || !*name)
        return st;
    hs__gguf *file = calloc(1, sizeof *file);
    if (!file)
        return hs_fail(err, HS_NO_MEMORY, "GGUF: out of memory");
    st = hs__file_map(ret_dir, name, &file->mapping, err);
    if (!st)
        st = parse(file, err);
    if (st)
        hs__gguf_close(file);
    else
        *ret_file = file;
    return st;
}
