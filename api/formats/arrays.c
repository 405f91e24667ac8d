/* arrays.c - arrays on the heap, described so that a writer needs no more than name, shape and bytes. */
#include "api/formats/arrays.h"

#include "model/base/utf8.h"

#include <stdlib.h>
#include <string.h>

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
