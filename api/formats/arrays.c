/* arrays.c - makes arrays, and writes safetensors and npz. */
#include "api/formats/arrays.h"

#include "model/base/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

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

static void array_write(const hs_array *array, char *to)
{
    if (array->data)
        memcpy(to, array->data, array->n_bytes);
    else if (array->fill)
        array->fill(array, to);
}

void hs_arrays_finish(hs_arrays *arrays)
{
    for (size_t i = 0; i < arrays->n; i++)
        free(arrays->items[i].data);
    arrays->n = 0;
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
        array_write(ordered[i], file->data + file->size);
        file->size += ordered[i]->n_bytes;
    }
    hs_buffer_finish(&header);
}

/* ==== npz ==== */

/* Writes the zip from front to back. Sizes are known beforehand. A member's checksum goes into its header
 * when the member is complete. libzip and libarchive cannot align data, and copy it. */

#define LOCAL_BYTES   30
#define LOCAL_CRC     14 /* where in it the checksum stands */
#define CENTRAL_BYTES 46
#define END_BYTES     22
#define END64_BYTES   56
#define LOCATOR_BYTES 20
#define ZIP64_LOCAL   20 /* extra field: tag, length, two sizes */
#define ZIP64_CENTRAL 28 /* and the offset */
#define ALIGNMENT     64
#define NPY_MAX       256 /* longest header below: magic, dictionary, padding */

/* n_bytes is at most 8. */
static char *put(char *to, size_t n_bytes, uint64_t value)
{
    for (size_t i = 0; i < n_bytes; i++)
        to[i] = (char)(value >> 8 * i & 0xff);
    return to + n_bytes;
}

static char *put_text(char *to, const char *text)
{
    while (*text)
        *to++ = *text++;
    return to;
}

/* ---- destination ---- */

static hs_buffer *buffer_of(hs_npz *npz)
{
    return npz->memory ? npz->memory : &npz->pending;
}

/* Returns member i of those begun. */
static hs__npz_member *member_at(const hs_npz *npz, size_t i)
{
    return (hs__npz_member *)(void *)npz->members.data + i;
}

static uint64_t position(hs_npz *npz)
{
    return npz->n_flushed + buffer_of(npz)->size;
}

static void flush(hs_npz *npz)
{
    if (!npz->file)
        return;
    npz->failed |= fwrite(npz->pending.data, 1, npz->pending.size, npz->file) != npz->pending.size;
    npz->n_flushed += npz->pending.size;
    npz->pending.size = 0;
}

void *hs_npz_reserve(hs_npz *npz, size_t n_bytes)
{
    char *to = npz->failed ? NULL : hs_buffer_reserve(buffer_of(npz), n_bytes);
    npz->failed |= !to;
    return to;
}

void hs_npz_add(hs_npz *npz, size_t n_bytes)
{
    hs_buffer *buffer = buffer_of(npz);
    hs__npz_member *m = member_at(npz, npz->n_members - 1);
    m->crc = (uint32_t)crc32_z(m->crc, (const unsigned char *)buffer->data + buffer->size, n_bytes);
    buffer->size += n_bytes;
    flush(npz);
}

/* ---- members ---- */

static bool needs_zip64(const hs_npz *npz, uint64_t end)
{
    return end >= (npz->zip64_from ? npz->zip64_from : UINT32_MAX);
}

/* The fields that local and central headers share, from "version needed" to "extra length". */
static char *put_fields(char *to, const hs__npz_member *m, bool zip64, size_t extra)
{
    const uint64_t size = zip64 ? UINT32_MAX : m->size;
    to = put(to, 2, zip64 ? 45 : 20);
    to = put(to, 2, 0x0800); /* names are UTF-8 */
    to = put(to, 2, 0);      /* stored */
    to = put(to, 2, 0);
    to = put(to, 2, 0x21); /* 1980-01-01: the same answer is the same bytes */
    to = put(to, 4, m->crc);
    to = put(to, 4, size);
    to = put(to, 4, size);
    to = put(to, 2, strlen(m->name));
    return put(to, 2, extra);
}

/* Tag, length, then size stored and size unpacked. */
static char *put_zip64(char *to, const hs__npz_member *m, size_t n_bytes)
{
    return put(put(put(put(to, 2, 1), 2, n_bytes - 4), 8, m->size), 8, m->size);
}

static void write_local(hs_npz *npz, const hs__npz_member *m)
{
    const bool zip64 = needs_zip64(npz, m->offset + m->size);
    const size_t fixed = LOCAL_BYTES + strlen(m->name) + (zip64 ? ZIP64_LOCAL : 0) + 4;
    const size_t n_padding = (ALIGNMENT - (m->offset + fixed) % ALIGNMENT) % ALIGNMENT;
    char *to = hs_npz_reserve(npz, fixed + n_padding);
    if (!to)
        return;
    to = put_fields(put_text(to, "PK\x03\x04"), m, zip64, (zip64 ? ZIP64_LOCAL : 0) + 4 + n_padding);
    to = put_text(to, m->name);
    if (zip64)
        to = put_zip64(to, m, ZIP64_LOCAL);
    to = put(put(to, 2, 0xd935), 2, n_padding); /* the field id Android's zipalign pads with */
    memset(to, 0, n_padding);
    buffer_of(npz)->size += fixed + n_padding;
}

/* The .npy header, padded to a multiple of 64; returns its size. */
static size_t npy_header(const char *type, size_t n_axes, const size_t *axes, char ret[NPY_MAX])
{
    char shape[100] = "", *text = ret + 10;
    for (size_t i = 0; i < n_axes; i++) {
        const size_t n = strlen(shape);
        snprintf(shape + n, sizeof shape - n, "%zu, ", axes[i]);
    }
    if (n_axes > 1) /* (2, 3), but (2,) */
        shape[strlen(shape) - 2] = '\0';
    const int n =
        snprintf(text, NPY_MAX - 10, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", type, shape);
    const size_t size = (10 + (size_t)n + 1 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    memset(text + n, ' ', size - 10 - (size_t)n);
    ret[size - 1] = '\n';
    put(put(put_text(ret, "\x93NUMPY"), 2, 1), 2, size - 10); /* version 1.0 */
    return size;
}

/* The last member's bytes are there: its checksum goes into its header. */
static void member_end(hs_npz *npz)
{
    if (npz->n_members == 0 || npz->failed)
        return;
    const hs__npz_member *m = member_at(npz, npz->n_members - 1);
    char crc[4];
    put(crc, sizeof crc, m->crc);
    if (npz->memory)
        memcpy(npz->memory->data + m->offset + LOCAL_CRC, crc, sizeof crc);
    else
        npz->failed = fseeko(npz->file, (off_t)(m->offset + LOCAL_CRC), SEEK_SET) ||
                      fwrite(crc, 1, sizeof crc, npz->file) != sizeof crc || fseeko(npz->file, 0, SEEK_END);
}

void hs_npz_begin(hs_npz *npz, const char *name, const char *type, size_t n_axes, const size_t *axes,
                  uint64_t n_bytes)
{
    char npy[NPY_MAX];
    member_end(npz);
    if (npz->n_members == HS_ARRAYS_MAX || !hs_buffer_reserve(&npz->members, sizeof(hs__npz_member))) {
        npz->failed = true;
        return;
    }
    npz->members.size += sizeof(hs__npz_member);
    hs__npz_member *m = member_at(npz, npz->n_members++);
    const size_t npy_bytes = npy_header(type, n_axes, axes, npy);
    *m = (hs__npz_member){.offset = position(npz), .size = npy_bytes + n_bytes};
    snprintf(m->name, sizeof m->name, "%s.npy", name);
    write_local(npz, m);
    char *to = hs_npz_reserve(npz, npy_bytes);
    if (to) {
        memcpy(to, npy, npy_bytes);
        hs_npz_add(npz, npy_bytes);
    }
}

/* ---- directory ---- */

static void write_entry(hs_npz *npz, const hs__npz_member *m)
{
    const bool zip64 = needs_zip64(npz, m->offset + m->size);
    const size_t n_bytes = CENTRAL_BYTES + strlen(m->name) + (zip64 ? ZIP64_CENTRAL : 0);
    char *to = hs_npz_reserve(npz, n_bytes);
    if (!to)
        return;
    to = put(put_text(to, "PK\x01\x02"), 2, zip64 ? 45 : 20);
    to = put_fields(to, m, zip64, zip64 ? ZIP64_CENTRAL : 0);
    to = put(put(to, 8, 0), 2, 0); /* no comment, first disk, no attributes */
    to = put(to, 4, zip64 ? UINT32_MAX : m->offset);
    to = put_text(to, m->name);
    if (zip64)
        put(put_zip64(to, m, ZIP64_CENTRAL), 8, m->offset);
    buffer_of(npz)->size += n_bytes;
}

/* Writes the zip64 end of the directory and its locator. */
static void write_end64(hs_npz *npz, uint64_t start, uint64_t end)
{
    char *to = hs_npz_reserve(npz, END64_BYTES + LOCATOR_BYTES);
    if (!to)
        return;
    to = put(put_text(to, "PK\x06\x06"), 8, END64_BYTES - 12);
    to = put(put(put(put(to, 2, 45), 2, 45), 4, 0), 4, 0); /* versions, disks */
    to = put(put(to, 8, npz->n_members), 8, npz->n_members);
    to = put(put(to, 8, end - start), 8, start);
    to = put(put_text(to, "PK\x06\x07"), 4, 0);
    put(put(to, 8, end), 4, 1);
    buffer_of(npz)->size += END64_BYTES + LOCATOR_BYTES;
}

static void write_directory(hs_npz *npz)
{
    const uint64_t start = position(npz);
    for (size_t i = 0; i < npz->n_members; i++)
        write_entry(npz, member_at(npz, i));
    const uint64_t end = position(npz);
    const bool zip64 = needs_zip64(npz, end);
    if (zip64)
        write_end64(npz, start, end);
    char *to = hs_npz_reserve(npz, END_BYTES);
    if (!to)
        return;
    to = put(put_text(to, "PK\x05\x06"), 4, 0); /* disks */
    to = put(put(to, 2, npz->n_members), 2, npz->n_members);
    to = put(put(to, 4, zip64 ? UINT32_MAX : end - start), 4, zip64 ? UINT32_MAX : start);
    put(to, 2, 0); /* no comment */
    buffer_of(npz)->size += END_BYTES;
}

hs_status hs_npz_finish(hs_npz *npz, hs_error *err)
{
    member_end(npz);
    write_directory(npz);
    flush(npz);
    const bool no_memory = buffer_of(npz)->failed || npz->members.failed;
    hs_buffer_finish(&npz->pending);
    hs_buffer_finish(&npz->members);
    if (no_memory)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the arrays");
    return npz->failed ? hs_fail(err, HS_IO, "cannot write the arrays") : HS_OK;
}

/* ---- arrays ---- */

void hs_npz_array(hs_npz *npz, const hs_array *array)
{
    static const char *const types[] = {
        [HS_ELEMENT_F4] = "<f4", [HS_ELEMENT_F2] = "<f2",   [HS_ELEMENT_U1] = "|u1",  [HS_ELEMENT_I4] = "<i4",
        [HS_ELEMENT_I8] = "<i8", [HS_ELEMENT_BOOL] = "|b1", [HS_ELEMENT_TEXT] = "<U",
    };
    char type[32];
    snprintf(type, sizeof type, array->element == HS_ELEMENT_TEXT ? "%s%zu" : "%s", types[array->element],
             array->width);
    hs_npz_begin(npz, array->name, type, array->n_dimensions, array->shape, array->n_bytes);
    char *to = hs_npz_reserve(npz, array->n_bytes);
    if (to) {
        array_write(array, to);
        hs_npz_add(npz, array->n_bytes);
    }
}

void hs_npz_texts(hs_npz *npz, const char *name, const hs_bytes *texts, size_t n, bool scalar)
{
    hs_arrays *arrays = calloc(1, sizeof *arrays); /* too large for the stack of a small thread */
    npz->failed |= !arrays;
    if (!arrays)
        return;
    hs_arrays_add_texts(arrays, name, texts, n, scalar);
    npz->failed |= arrays->failed;
    if (!npz->failed)
        hs_npz_array(npz, &arrays->items[0]);
    hs_arrays_finish(arrays);
    free(arrays);
}

void hs_npz_text(hs_npz *npz, const char *name, const char *text)
{
    hs_npz_texts(npz, name, &(hs_bytes){text, strlen(text)}, 1, true);
}
