/* tensors.c - writes the header, with all offsets, and then the tensors. */
#include "api/formats/tensors.h"

#include "api/formats/json_text.h"

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
