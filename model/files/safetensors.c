/* safetensors.c - parses one .safetensors file. The whole header is checked before any tensor is used. */
#include "model/files/safetensors.h"
#include "model/files/json.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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
