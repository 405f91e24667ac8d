/* write_safetensors.c - u64 size of the header, the header (JSON), then the tensors without holes, the widest
 * elements first, so that each begins at a multiple of its own element's size. What is no tensor stands in
 * __metadata__ as strings: JSON where it is a list. */
#include "api/formats/arrays.h"

#include <stdio.h>
#include <string.h>

static void member(hs__bytes *b, const char *name, const char *text, size_t n)
{
    hs__bytes_text(b, ",\"");
    hs__bytes_text(b, name);
    hs__bytes_text(b, "\":");
    hs__json_string(b, text, n);
}

static void write_metadata(hs__bytes *b, const hs__answer *a)
{
    const hs_tokenizer *tokenizer = hs_model_tokenizer(a->model->model);
    hs__bytes tokens = {0};
    for (size_t i = 0; i < a->encoding->n_tokens; i++) {
        const char *token = hs_tokenizer_token(tokenizer, a->encoding->ids[i]);
        hs__bytes_add(&tokens, i ? "," : "[", 1);
        hs__json_string(&tokens, token, strlen(token));
    }
    hs__bytes_add(&tokens, "]", 1);
    char hex[HS_SHA256_HEX], total[24];
    const char *sha256 = hs__model_sha256(a, hex);
    hs__bytes_text(b, "{\"__metadata__\":{\"format\":\"np\"");
    member(b, "model", a->model->name, strlen(a->model->name));
    member(b, "model_sha256", sha256, strlen(sha256));
    member(b, "request", a->request->body, a->request->body_bytes);
    member(b, "truncated", a->encoding->truncated ? "true" : "false", a->encoding->truncated ? 4 : 5);
    if (tokens.data)
        member(b, "tokens", tokens.data, tokens.size);
    if (a->ask->outputs & HS__PAIRS) {
        snprintf(total, sizeof total, "%llu", (unsigned long long)a->pairs_total);
        member(b, "pairs_total", total, strlen(total));
    }
    hs__bytes_text(b, "}");
    b->failed |= tokens.failed;
    hs__bytes_finish(&tokens);
}

static void write_tensor(hs__bytes *b, const hs__array *array, size_t offset)
{
    static const char *const types[] = {
        [HS__KIND_F4] = "F32", [HS__KIND_F2] = "F16", [HS__KIND_U1] = "U8",
        [HS__KIND_I4] = "I32", [HS__KIND_I8] = "I64", [HS__KIND_BOOL] = "BOOL",
    };
    member(b, array->name, "", 0);
    b->size -= 2; /* an object instead of the empty string */
    hs__bytes_text(b, "{\"dtype\":\"");
    hs__bytes_text(b, types[array->kind]);
    hs__bytes_text(b, "\",\"shape\":[");
    for (size_t i = 0; i < array->n_dimensions; i++) {
        if (i)
            hs__bytes_text(b, ",");
        hs__json_integer(b, (long long)array->shape[i]);
    }
    hs__bytes_text(b, "],\"data_offsets\":[");
    hs__json_integer(b, (long long)offset);
    hs__bytes_text(b, ",");
    const size_t end = offset + array->bytes;
    hs__json_integer(b, (long long)end);
    hs__bytes_text(b, "]}");
}

/* Widest elements first, otherwise as they come. */
static size_t order(const hs__arrays *arrays, const hs__array *ret_order[HS__ARRAYS_MAX])
{
    size_t n = 0;
    for (size_t width = 8; width > 0; width /= 2) {
        for (size_t i = 0; i < arrays->n; i++) {
            if (hs__kind_bytes(arrays->items[i].kind) == width)
                ret_order[n++] = &arrays->items[i];
        }
    }
    return n;
}

hs_status hs__safetensors_write(hs__bytes *b, const hs__answer *a, hs_error *err)
{
    hs__arrays arrays = {0};
    const hs__array *ordered[HS__ARRAYS_MAX];
    hs__bytes header = {0};
    size_t offset = 0;
    hs__arrays_collect(&arrays, a);
    const size_t n = order(&arrays, ordered);
    write_metadata(&header, a);
    for (size_t i = 0; i < n && !header.failed; i++) {
        write_tensor(&header, ordered[i], offset);
        offset += ordered[i]->bytes;
    }
    hs__bytes_text(&header, "}");
    while (header.size % 8 && !header.failed)
        hs__bytes_add(&header, " ", 1);
    if (!header.failed && !arrays.failed)
        hs__bytes_room(b, 8 + header.size + offset);
    const uint64_t header_bytes = header.size;
    hs__bytes_add(b, &header_bytes, sizeof header_bytes);
    hs__bytes_add(b, header.data, header.size);
    for (size_t i = 0; i < n && !header.failed && !arrays.failed && !b->failed; i++) {
        hs__array_write(ordered[i], a, b->data + b->size);
        b->size += ordered[i]->bytes;
    }
    const bool failed = header.failed || arrays.failed || b->failed;
    hs__bytes_finish(&header);
    hs__arrays_finish(&arrays);
    return failed ? hs_fail(err, HS_NO_MEMORY, "no memory for the answer") : HS_OK;
}
