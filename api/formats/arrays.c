/* arrays.c - makes arrays, converts floats to smaller types, and writes safetensors. */
#include "api/formats/arrays.h"

#include "model/base/clones.h"
#include "model/base/utf8.h"

#include <stdlib.h>
#include <string.h>

/* ==== arrays ==== */

/* Arrays on the heap, described so that a writer needs no more than name, shape and bytes. */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "both formats are little-endian, and so are we");

size_t hs_element_bytes(hs_element element)
{
    static const size_t n_bytes[] = {
        [HS_ELEMENT_F4] = 4, [HS_ELEMENT_F2] = 2,   [HS_ELEMENT_U1] = 1,   [HS_ELEMENT_I4] = 4,
        [HS_ELEMENT_I8] = 8, [HS_ELEMENT_BOOL] = 1, [HS_ELEMENT_TEXT] = 4,
    };
    return n_bytes[element];
}

hs_array *hs_arrays_describe(hs_arrays *arrays, const char *name, hs_element element, size_t n_dimensions,
                             const size_t *shape)
{
    if (arrays->n == HS_ARRAYS_MAX) {
        arrays->failed = true;
        return NULL;
    }
    hs_array *array = &arrays->items[arrays->n++];
    *array = (hs_array){.name = name, .element = element, .n_dimensions = n_dimensions, .width = 1};
    array->n_bytes = hs_element_bytes(element);
    for (size_t i = 0; i < n_dimensions; i++) {
        array->shape[i] = shape[i];
        array->n_bytes *= shape[i];
    }
    return array;
}

static void *data_create(hs_arrays *arrays, hs_array *array)
{
    array->data = calloc(array->n_bytes + 1, 1);
    arrays->failed |= !array->data;
    return array->data;
}

void *hs_arrays_add_block(hs_arrays *arrays, const char *name, hs_element element, size_t n_dimensions,
                          const size_t *shape)
{
    hs_array *array = hs_arrays_describe(arrays, name, element, n_dimensions, shape);
    return array ? data_create(arrays, array) : NULL;
}

void *hs_arrays_add(hs_arrays *arrays, const char *name, hs_element element, size_t n_dimensions, size_t d0,
                    size_t d1)
{
    const size_t shape[HS__DIMENSIONS_MAX] = {d0, d1};
    return hs_arrays_add_block(arrays, name, element, n_dimensions, shape);
}

void hs_arrays_add_floats(hs_arrays *arrays, const char *name, const float *values, size_t n_dimensions,
                          size_t d0, size_t d1)
{
    float *to = hs_arrays_add(arrays, name, HS_ELEMENT_F4, n_dimensions, d0, d1);
    if (to)
        memcpy(to, values, arrays->items[arrays->n - 1].n_bytes);
}

/* Code points; NULL ret only counts. */
static size_t decode(const hs_bytes *text, uint32_t *ret)
{
    size_t n = 0;
    const char *cursor = text->data, *end = cursor + text->size;
    for (; cursor < end; n++) {
        const uint32_t point = hs_utf8_read(&cursor, end);
        if (ret)
            ret[n] = point;
    }
    return n;
}

void hs_arrays_add_texts(hs_arrays *arrays, const char *name, const hs_bytes *texts, size_t n, bool scalar)
{
    hs_array *array = hs_arrays_describe(arrays, name, HS_ELEMENT_TEXT, !scalar, &n);
    if (!array)
        return;
    for (size_t i = 0; i < n; i++) { /* width is at least 1: NumPy has no <U0 in files */
        const size_t points = decode(&texts[i], NULL);
        array->width = points > array->width ? points : array->width;
    }
    array->n_bytes *= array->width;
    uint32_t *data = data_create(arrays, array);
    for (size_t i = 0; i < n && data; i++)
        decode(&texts[i], data + i * array->width);
}

void hs_array_write(const hs_array *array, char *to)
{
    if (array->data)
        memcpy(to, array->data, array->n_bytes);
    else
        array->fill(array, to);
}

void hs_arrays_finish(hs_arrays *arrays)
{
    for (size_t i = 0; i < arrays->n; i++)
        free(arrays->items[i].data);
    arrays->n = 0;
}

/* ==== conversion ==== */

/* Computes every case and selects one without branches, so that gcc vectorises the loops. */

static inline uint32_t bits_of(float value)
{
    union {
        float value;
        uint32_t bits;
    } u = {value};
    return u.bits;
}

static inline float float_of(uint32_t bits)
{
    union {
        uint32_t bits;
        float value;
    } u = {bits};
    return u.value;
}

static inline uint16_t half_of(float value)
{
    const uint32_t bits = bits_of(value), a = bits & 0x7fffffff;
    /* Normal: exponent rebiased from 127 to 15, then 13 bits rounded off; a carry runs on into the exponent.
     */
    const uint32_t normal = (a - (112u << 23) + 0xfff + ((a >> 13) & 1)) >> 13;
    /* Below 2^-14: the sum with 1/2 has 2^-24 for its last bit, which is a half float's smallest step. */
    const uint32_t small = bits_of(float_of(a) + 0.5f) - 0x3f000000;
    const uint32_t finite = a < 0x38800000 ? small : normal;
    const uint32_t half = a > 0x7f800000 ? 0x7e00 : a >= 0x47800000 ? 0x7c00 : finite;
    return (uint16_t)(half | ((bits >> 16) & 0x8000));
}

HS_CLONES void hs__convert_f2(const float *restrict from, size_t n, uint16_t *restrict to)
{
    for (size_t i = 0; i < n; i++)
        to[i] = half_of(from[i]);
}

HS_CLONES void hs__convert_u1(const float *restrict from, size_t n, uint8_t *restrict to)
{
    for (size_t i = 0; i < n; i++) {
        const float scaled = from[i] * 255.0f;
        const float low = scaled > 0.0f ? scaled : 0.0f, clipped = low < 255.0f ? low : 255.0f;
        to[i] = (uint8_t)bits_of(clipped + 8388608.0f); /* the sum's last bit is 1: rounded to an integer */
    }
}

/* ==== safetensors ==== */

/* Writes the header, with all offsets, and then the tensors. */

static void write_metadata(hs_buffer *b, const hs__metadata *metadata, size_t n)
{
    hs_buffer_text(b, "{\"__metadata__\":{\"format\":\"np\"");
    for (size_t i = 0; i < n; i++) {
        hs__json_key(b, metadata[i].name);
        hs__json_string(b, metadata[i].text.data, metadata[i].text.size);
    }
    hs_buffer_text(b, "}");
}

static void write_tensor(hs_buffer *b, const hs_array *array, size_t offset)
{
    static const char *const types[] = {
        [HS_ELEMENT_F4] = "F32", [HS_ELEMENT_F2] = "F16", [HS_ELEMENT_U1] = "U8",
        [HS_ELEMENT_I4] = "I32", [HS_ELEMENT_I8] = "I64", [HS_ELEMENT_BOOL] = "BOOL",
    };
    hs__json_key(b, array->name);
    hs_buffer_text(b, "{\"dtype\":\"");
    hs_buffer_text(b, types[array->element]);
    hs_buffer_text(b, "\",\"shape\":[");
    for (size_t i = 0; i < array->n_dimensions; i++) {
        hs__json_comma(b, i);
        hs__json_integer(b, (int64_t)array->shape[i]);
    }
    hs_buffer_text(b, "],\"data_offsets\":");
    hs__json_range(b, offset, offset + array->n_bytes);
    hs_buffer_text(b, "}");
}

/* Sorts by element width, widest first, and keeps the order otherwise. */
static size_t order(const hs_arrays *arrays, const hs_array *ret_order[HS_ARRAYS_MAX])
{
    size_t n = 0;
    for (size_t width = 8; width > 0; width /= 2)
        for (size_t i = 0; i < arrays->n; i++)
            if (hs_element_bytes(arrays->items[i].element) == width)
                ret_order[n++] = &arrays->items[i];
    return n;
}

void hs__tensors_write(hs_buffer *file, const hs_arrays *arrays, const hs__metadata *metadata,
                       size_t n_metadata)
{
    const hs_array *ordered[HS_ARRAYS_MAX];
    const size_t n = order(arrays, ordered);
    hs_buffer header = {0};
    size_t offset = 0;
    write_metadata(&header, metadata, n_metadata);
    for (size_t i = 0; i < n; i++) {
        write_tensor(&header, ordered[i], offset);
        offset += ordered[i]->n_bytes;
    }
    hs_buffer_text(&header, "}");
    while (header.size % 8 && !header.failed)
        hs_buffer_add(&header, " ", 1);
    const uint64_t header_bytes = header.size;
    file->failed |= header.failed;
    hs_buffer_reserve(file, sizeof header_bytes + header.size + offset); /* so that the buffer never grows */
    hs_buffer_add(file, &header_bytes, sizeof header_bytes);
    hs_buffer_add(file, header.data, header.size);
    for (size_t i = 0; i < n && !file->failed; i++) {
        hs_array_write(ordered[i], file->data + file->size);
        file->size += ordered[i]->n_bytes;
    }
    hs_buffer_finish(&header);
}
