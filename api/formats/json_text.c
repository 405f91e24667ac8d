/* json_text.c - writes JSON into a buffer, and compresses it. number.c prints its numbers. */
#include "api/formats/json_text.h"

#include "api/formats/number_list.h"
#include "model/base/memory.h"
#include "model/base/utf8.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* ==== buffer ==== */

/* Grows by half and asks for huge pages, which save page faults. */

char *hs_buffer_reserve(hs_buffer *buffer, size_t n)
{
    if (buffer->failed)
        return NULL;
    if (n > buffer->capacity - buffer->size) {
        size_t capacity = buffer->capacity + buffer->capacity / 2;
        if (capacity < buffer->size + n)
            capacity = buffer->size + n;
        char *data = n < SIZE_MAX / 4 && buffer->size < SIZE_MAX / 4 ? realloc(buffer->data, capacity) : NULL;
        if (!data) {
            buffer->failed = true;
            return NULL;
        }
        hs_memory_huge(data, capacity);
        buffer->data = data;
        buffer->capacity = capacity;
    }
    return buffer->data + buffer->size;
}

void hs_buffer_add(hs_buffer *buffer, const void *data, size_t n)
{
    char *to = hs_buffer_reserve(buffer, n);
    if (to && n) {
        memcpy(to, data, n);
        buffer->size += n;
    }
}

void hs_buffer_text(hs_buffer *buffer, const char *text)
{
    hs_buffer_add(buffer, text, strlen(text));
}

void hs_buffer_fit(hs_buffer *buffer)
{
    char *data = buffer->size ? realloc(buffer->data, buffer->size) : NULL;
    if (data) {
        buffer->data = data;
        buffer->capacity = buffer->size;
    }
}

void hs_buffer_finish(hs_buffer *buffer)
{
    free(buffer->data);
    *buffer = (hs_buffer){0};
}

/* ==== lists of numbers ==== */

/* Chooses the instruction set; prints numbers one by one if the CPU has none of them. */

char *hs_floats_print(char *to, const float *values, size_t n, int digits)
{
#if defined HS__NUMBERS_BY_CPU
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd"))
        return hs__floats_print_avx512(to, values, n, digits);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("lzcnt"))
        return hs__floats_print_avx2(to, values, n, digits);
#endif
    for (size_t i = 0; i < n; i++) {
        to = hs_float_print(to, values[i], digits);
        *to++ = ',';
    }
    return to;
}

/* ==== JSON ==== */

/* Every writer reserves space once and prints into it. */

/* Escapes one ASCII character that needs it. */
static void escape(hs_buffer *buffer, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    const char *from = "\"\\\b\f\n\r\t", *as = "\"\\bfnrt";
    const char *found = c ? strchr(from, c) : NULL;
    if (found) {
        const char text[2] = {'\\', as[found - from]};
        hs_buffer_add(buffer, text, sizeof text);
    } else {
        const char text[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
        hs_buffer_add(buffer, text, sizeof text);
    }
}

void hs__json_string(hs_buffer *buffer, const char *text, size_t n)
{
    hs_buffer_add(buffer, "\"", 1);
    size_t plain = 0; /* start of what needs no change and is not yet written */
    for (size_t i = 0; i < n;) {
        const unsigned char c = (unsigned char)text[i];
        const size_t length = hs_utf8_length(text + i, n - i);
        if (length > 1 || (length == 1 && c >= 0x20 && c != '"' && c != '\\' && c != 0x7f)) {
            i += length;
            continue;
        }
        hs_buffer_add(buffer, text + plain, i - plain);
        if (length == 0)
            hs_buffer_text(buffer, "\xef\xbf\xbd");
        else
            escape(buffer, c);
        plain = ++i;
    }
    hs_buffer_add(buffer, text + plain, n - plain);
    hs_buffer_add(buffer, "\"", 1);
}

void hs__json_integer(hs_buffer *buffer, int64_t value)
{
    char *to = hs_buffer_reserve(buffer, HS_NUMBER_BYTES_MAX);
    if (to)
        buffer->size += (size_t)(hs_integer_print(to, value) - to);
}

void hs__json_float(hs_buffer *buffer, float value, int digits)
{
    char *to = hs_buffer_reserve(buffer, HS_NUMBER_BYTES_MAX);
    if (to)
        buffer->size += (size_t)(hs_float_print(to, value, digits) - to);
}

void hs__json_bool(hs_buffer *buffer, bool value)
{
    hs_buffer_text(buffer, value ? "true" : "false");
}

void hs__json_floats(hs_buffer *buffer, const float *values, size_t n, int digits)
{
    char *to = hs_buffer_reserve(buffer, n * (HS__FLOAT_TEXT_MAX(digits) + 1) + HS_NUMBER_BYTES_MAX);
    if (!to)
        return;
    char *const start = to;
    *to++ = '[';
    to = hs_floats_print(to, values, n, digits);
    to -= n > 0; /* the last comma */
    *to++ = ']';
    buffer->size += (size_t)(to - start);
}

void hs__json_key(hs_buffer *buffer, const char *name)
{
    hs_buffer_text(buffer, ",\"");
    hs_buffer_text(buffer, name);
    hs_buffer_text(buffer, "\":");
}

void hs__json_comma(hs_buffer *buffer, size_t index)
{
    if (index)
        hs_buffer_add(buffer, ",", 1);
}

void hs__json_range(hs_buffer *buffer, size_t start, size_t end)
{
    hs_buffer_add(buffer, "[", 1);
    hs__json_integer(buffer, (int64_t)start);
    hs_buffer_add(buffer, ",", 1);
    hs__json_integer(buffer, (int64_t)end);
    hs_buffer_add(buffer, "]", 1);
}

void hs__json_block(hs_buffer *buffer, const float *values, size_t n_axes, const size_t *lengths, int digits)
{
    if (n_axes == 1) {
        hs__json_floats(buffer, values, lengths[0], digits);
        return;
    }
    size_t n_below = 1;
    for (size_t axis = 1; axis < n_axes; axis++)
        n_below *= lengths[axis];
    hs_buffer_add(buffer, "[", 1);
    for (size_t i = 0; i < lengths[0]; i++) {
        hs__json_comma(buffer, i);
        hs__json_block(buffer, values + i * n_below, n_axes - 1, lengths + 1, digits);
    }
    hs_buffer_add(buffer, "]", 1);
}

/* ==== gzip ==== */

/* Chooses the compression level by the time that it may take. */

/* Speeds below those measured on one core for JSON numbers: level 1 compresses 130 MB/s to 44 % of the size,
 * Huffman codes alone 180 MB/s to 46 %. Level 6 takes six times as long for 39 %. Digits rarely repeat;
 * tokens and names do. */
#define LEVEL_1_BYTES_PER_MS (80 * 1000.0)
#define HUFFMAN_BYTES_PER_MS (130 * 1000.0)

#define BYTES_MIN     1024
#define BUDGET_MS_MIN 1.0

bool hs__gzip(hs_buffer *body, double budget_ms)
{
    const double bytes = (double)body->size;
    budget_ms = budget_ms > BUDGET_MS_MIN ? budget_ms : BUDGET_MS_MIN;
    if (body->size < BYTES_MIN || body->size > UINT32_MAX / 2 || bytes > budget_ms * HUFFMAN_BYTES_PER_MS)
        return false;
    const int strategy = bytes > budget_ms * LEVEL_1_BYTES_PER_MS ? Z_HUFFMAN_ONLY : Z_DEFAULT_STRATEGY;
    z_stream stream = {0};
    if (deflateInit2(&stream, 1, Z_DEFLATED, 16 + MAX_WBITS, 8, strategy) != Z_OK)
        return false;
    /* The output may take as much as the input: compression that does not shrink the body fails. */
    hs_buffer packed = {0};
    char *to = hs_buffer_reserve(&packed, body->size);
    stream.next_in = (unsigned char *)body->data;
    stream.avail_in = (uInt)body->size;
    stream.next_out = (unsigned char *)to;
    stream.avail_out = to ? (uInt)body->size : 0;
    const bool done = to && deflate(&stream, Z_FINISH) == Z_STREAM_END;
    packed.size = stream.total_out;
    deflateEnd(&stream);
    if (done) {
        hs_buffer_finish(body);
        *body = packed;
    } else {
        hs_buffer_finish(&packed);
    }
    return done;
}
