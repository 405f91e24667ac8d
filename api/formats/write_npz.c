/* write_npz.c - NumPy's .npz: a zip of .npy files, stored, so that writing is copying.
 *
 * Format: numpy.lib.format 1.0 and PKWARE's APPNOTE, without zip64: an answer is far below 4 GB. Data begins
 * at a multiple of 64 bytes in the file (by a padding extra field), so that it can be mapped as it is. */
#include "api/formats/arrays.h"
#include "api/formats/crc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOCAL_BYTES   30
#define CENTRAL_BYTES 46
#define END_BYTES     22
#define ALIGNMENT     64
#define NPY_MAX       256 /* longest header below: magic, dictionary, padding */

typedef struct member {
    size_t offset; /* of its local header */
    size_t size;
    uint32_t crc;
} member;

static char *put_2(char *to, size_t value)
{
    to[0] = (char)(value & 0xff);
    to[1] = (char)(value >> 8 & 0xff);
    return to + 2;
}

static char *put_4(char *to, size_t value)
{
    return put_2(put_2(to, value), value >> 16);
}

static char *put_text(char *to, const char *text)
{
    while (*text)
        *to++ = *text++;
    return to;
}

/* The .npy header, padded to a multiple of 64; returns its size. */
static size_t npy_header(const hs__array *array, char ret[NPY_MAX])
{
    static const char *const types[] = {
        [HS__KIND_F4] = "<f4", [HS__KIND_F2] = "<f2",   [HS__KIND_U1] = "|u1",  [HS__KIND_I4] = "<i4",
        [HS__KIND_I8] = "<i8", [HS__KIND_BOOL] = "|b1", [HS__KIND_TEXT] = "<U",
    };
    char shape[100] = "", type[32];
    for (size_t i = 0; i < array->n_dimensions; i++) {
        const size_t n = strlen(shape);
        snprintf(shape + n, sizeof shape - n, "%zu, ", array->shape[i]);
    }
    if (array->n_dimensions > 1) /* (2, 3), but (2,) */
        shape[strlen(shape) - 2] = '\0';
    snprintf(type, sizeof type, array->kind == HS__KIND_TEXT ? "%s%zu" : "%s", types[array->kind],
             array->width);
    char *text = ret + 10;
    const int n =
        snprintf(text, NPY_MAX - 10, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", type, shape);
    const size_t size = (10 + (size_t)n + 1 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    memset(text + n, ' ', size - 10 - (size_t)n);
    ret[size - 1] = '\n';
    put_2(put_2(put_text(ret, "\x93NUMPY"), 1), size - 10); /* version 1.0 */
    return size;
}

/* The fields that local and central headers share, from "version needed" to "extra length". */
static char *put_fields(char *to, const hs__array *array, const member *m, size_t extra)
{
    to = put_2(to, 20);
    to = put_2(to, 0x0800); /* names are UTF-8 */
    to = put_2(to, 0);      /* stored */
    to = put_2(to, 0);
    to = put_2(to, 0x21); /* 1980-01-01: the same answer is the same bytes */
    to = put_4(to, m->crc);
    to = put_4(to, m->size);
    to = put_4(to, m->size);
    to = put_2(to, strlen(array->name) + 4);
    return put_2(to, extra);
}

static char *put_name(char *to, const hs__array *array)
{
    return put_text(put_text(to, array->name), ".npy");
}

/* Bytes of padding for data after a header of this name at this offset; the field itself takes 4. */
static size_t padding(size_t offset, const hs__array *array)
{
    const size_t used = offset + LOCAL_BYTES + strlen(array->name) + 4 + 4;
    return 4 + (ALIGNMENT - used % ALIGNMENT) % ALIGNMENT;
}

static void write_member(hs__bytes *b, const hs__answer *a, const hs__array *array, member *m)
{
    char npy[NPY_MAX];
    const size_t npy_bytes = npy_header(array, npy), extra = padding(b->size, array);
    const size_t head = LOCAL_BYTES + strlen(array->name) + 4 + extra;
    m->offset = b->size;
    m->size = npy_bytes + array->bytes;
    char *local = hs__bytes_room(b, head + m->size);
    if (!local)
        return;
    memcpy(local + head, npy, npy_bytes);
    hs__array_write(array, a, local + head + npy_bytes);
    m->crc = hs__crc32(0, local + head, m->size);
    char *to = put_text(local, "PK\x03\x04");
    to = put_name(put_fields(to, array, m, extra), array);
    put_2(put_2(to, 0xd935), extra - 4); /* the field id Android's zipalign pads with */
    memset(to + 4, 0, extra - 4);
    b->size += head + m->size;
}

static void write_directory(hs__bytes *b, const hs__arrays *arrays, const member *members)
{
    const size_t start = b->size;
    for (size_t i = 0; i < arrays->n; i++) {
        char entry[CENTRAL_BYTES + 64] = "PK\x01\x02";
        char *to = put_fields(put_2(entry + 4, 20), &arrays->items[i], &members[i], 0);
        to = put_2(put_4(put_4(to, 0), 0), 0); /* no comment, first disk, no attributes */
        to = put_4(to, members[i].offset);
        to = put_name(to, &arrays->items[i]);
        hs__bytes_add(b, entry, (size_t)(to - entry));
    }
    char end[END_BYTES] = "PK\x05\x06";
    char *to = put_4(end + 4, 0);
    to = put_2(put_2(to, arrays->n), arrays->n);
    to = put_4(put_4(to, b->size - start), start);
    put_2(to, 0);
    hs__bytes_add(b, end, sizeof end);
}

/* What only npz says in arrays: texts and scalars. */
static void add_texts(hs__arrays *arrays, const hs__answer *a, hs_text *tokens)
{
    const hs_tokenizer *tokenizer = hs_model_tokenizer(a->model->model);
    char hex[HS_SHA256_HEX];
    const char *sha256 = hs__model_sha256(a, hex);
    for (size_t i = 0; i < a->encoding->n_tokens; i++) {
        const char *token = hs_tokenizer_token(tokenizer, a->encoding->ids[i]);
        tokens[i] = (hs_text){token, strlen(token)};
    }
    hs__arrays_add_texts(arrays, "tokens", tokens, a->encoding->n_tokens, false);
    hs__arrays_add_texts(arrays, "model", &(hs_text){a->model->name, strlen(a->model->name)}, 1, true);
    hs__arrays_add_texts(arrays, "model_sha256", &(hs_text){sha256, strlen(sha256)}, 1, true);
    hs__arrays_add_texts(arrays, "request", &(hs_text){a->request->body, a->request->body_bytes}, 1, true);
    uint8_t *truncated = hs__arrays_add(arrays, "truncated", HS__KIND_BOOL, 0, 0, 0);
    if (truncated)
        *truncated = a->encoding->truncated;
    int64_t *total =
        a->ask->outputs & HS__PAIRS ? hs__arrays_add(arrays, "pairs_total", HS__KIND_I8, 0, 0, 0) : NULL;
    if (total)
        *total = (int64_t)a->pairs_total;
}

hs_status hs__npz_write(hs__bytes *b, const hs__answer *a, hs_error *err)
{
    hs__arrays arrays = {0};
    member members[HS__ARRAYS_MAX] = {{0}};
    hs_status st = HS_OK;
    hs_text *tokens = calloc(a->encoding->n_tokens, sizeof *tokens);
    if (!tokens)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the answer");
    add_texts(&arrays, a, tokens);
    hs__arrays_collect(&arrays, a);
    size_t bytes = END_BYTES;
    for (size_t i = 0; i < arrays.n; i++)
        bytes += LOCAL_BYTES + CENTRAL_BYTES + 3 * ALIGNMENT + NPY_MAX + arrays.items[i].bytes;
    if (bytes >= UINT32_MAX)
        st = hs_fail(err, HS_TOO_LARGE, "npz ends at 4 GB: ask for less, or for ?format=safetensors");
    else if (!arrays.failed)
        hs__bytes_room(b, bytes); /* at once, so that nothing is copied for growth */
    for (size_t i = 0; i < arrays.n && !st && !arrays.failed; i++)
        write_member(b, a, &arrays.items[i], &members[i]);
    if (!st && !arrays.failed)
        write_directory(b, &arrays, members);
    if (!st && (arrays.failed || b->failed))
        st = hs_fail(err, HS_NO_MEMORY, "no memory for the answer");
    hs__arrays_finish(&arrays);
    free(tokens);
    return st;
}
