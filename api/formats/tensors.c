/* tensors.c - writes the header, with all offsets, and then the tensors. */
#include "api/formats/tensors.h"

#include "api/formats/json_text.h"

static void write_metadata(hs__buffer *b, const hs__metadata *metadata, size_t n)
{
    hs__buffer_text(b, "{\"__metadata__\":{\"format\":\"np\"");
    for (size_t i = 0; i < n; i++) {
        hs__json_key(b, metadata[i].name);
        hs__json_string(b, metadata[i].text.data, metadata[i].text.size);
    }
    hs__buffer_text(b, "}");
}

static void write_tensor(hs__buffer *b, const hs__array *array, size_t offset)
{
    static const char *const types[] = {
        [HS__ELEMENT_F4] = "F32", [HS__ELEMENT_F2] = "F16", [HS__ELEMENT_U1] = "U8",
        [HS__ELEMENT_I4] = "I32", [HS__ELEMENT_I8] = "I64", [HS__ELEMENT_BOOL] = "BOOL",
    };
    hs__json_key(b, array->name);
    hs__buffer_text(b, "{\"dtype\":\"");
    hs__buffer_text(b, types[array->element]);
    hs__buffer_text(b, "\",\"shape\":[");
    for (size_t i = 0; i < array->n_dimensions; i++) {
        hs__json_comma(b, i);
        hs__json_integer(b, (int64_t)array->shape[i]);
    }
    hs__buffer_text(b, "],\"data_offsets\":");
    hs__json_range(b, offset, offset + array->n_bytes);
    hs__buffer_text(b, "}");
}

/* Sorts by element width, widest first, and keeps the order otherwise. */
static size_t order(const hs__arrays *arrays, const hs__array *ret_order[HS__ARRAYS_MAX])
{
    size_t n = 0;
    for (size_t width = 8; width > 0; width /= 2)
        for (size_t i = 0; i < arrays->n; i++)
            if (hs__element_bytes(arrays->items[i].element) == width)
                ret_order[n++] = &arrays->items[i];
    return n;
}

void hs__tensors_write(hs__buffer *file, const hs__arrays *arrays, const hs__metadata *metadata,
                       size_t n_metadata)
{
    const hs__array *ordered[HS__ARRAYS_MAX];
    const size_t n = order(arrays, ordered);
    hs__buffer header = {0};
    size_t offset = 0;
    write_metadata(&header, metadata, n_metadata);
    for (size_t i = 0; i < n; i++) {
        write_tensor(&header, ordered[i], offset);
        offset += ordered[i]->n_bytes;
    }
    hs__buffer_text(&header, "}");
    while (header.size % 8 && !header.failed)
        hs__buffer_add(&header, " ", 1);
    const uint64_t header_bytes = header.size;
    file->failed |= header.failed;
    hs__buffer_reserve(file, sizeof header_bytes + header.size + offset); /* so that the buffer never grows */
    hs__buffer_add(file, &header_bytes, sizeof header_bytes);
    hs__buffer_add(file, header.data, header.size);
    for (size_t i = 0; i < n && !file->failed; i++) {
        hs__array_write(ordered[i], file->data + file->size);
        file->size += ordered[i]->n_bytes;
    }
    hs__buffer_finish(&header);
}
