/* json_text.c - every writer reserves space once and prints into it. */
#include "api/formats/json_text.h"

#include "api/formats/number.h"
#include "model/base/utf8.h"

#include <string.h>

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
