#include "api/formats/bytes.h"

#include "api/formats/number.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_BYTES_MIN ((size_t)4 << 20)

/* Fresh memory costs a fault for each page, half a millisecond for each megabyte of 4 KiB pages: more than
 * filling it. So large buffers ask for huge pages; where there are none they stay as they are. */
static void advise_huge_pages(char *data, size_t capacity)
{
    const size_t page = 4096, skip = (page - (uintptr_t)data % page) % page;
    if (capacity >= HUGE_BYTES_MIN)
        (void)madvise(data + skip, (capacity - skip) / page * page, MADV_HUGEPAGE);
}

char *hs__bytes_room(hs__bytes *bytes, size_t n)
{
    if (bytes->failed)
        return NULL;
    if (n > bytes->capacity - bytes->size) {
        size_t capacity = bytes->capacity + bytes->capacity / 2;
        if (capacity < bytes->size + n)
            capacity = bytes->size + n;
        char *data = n < SIZE_MAX / 4 && bytes->size < SIZE_MAX / 4 ? realloc(bytes->data, capacity) : NULL;
        if (!data) {
            bytes->failed = true;
            return NULL;
        }
        advise_huge_pages(data, capacity);
        bytes->data = data;
        bytes->capacity = capacity;
    }
    return bytes->data + bytes->size;
}

void hs__bytes_add(hs__bytes *bytes, const void *data, size_t n)
{
    char *to = hs__bytes_room(bytes, n);
    if (to && n) {
        memcpy(to, data, n);
        bytes->size += n;
    }
}

void hs__bytes_text(hs__bytes *bytes, const char *text)
{
    hs__bytes_add(bytes, text, strlen(text));
}

void hs__bytes_fit(hs__bytes *bytes)
{
    char *data = bytes->size ? realloc(bytes->data, bytes->size) : NULL;
    if (data) {
        bytes->data = data;
        bytes->capacity = bytes->size;
    }
}

void hs__bytes_finish(hs__bytes *bytes)
{
    free(bytes->data);
    *bytes = (hs__bytes){0};
}

/* Length of the UTF-8 sequence at text, 0 when it is none (overlong, surrogate, cut off, out of range). */
static size_t utf8_length(const unsigned char *text, size_t n)
{
    const unsigned char c = text[0];
    if (c < 0x80)
        return 1;
    const size_t length = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
    if (c < 0xc2 || c > 0xf4 || length > n)
        return 0;
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    }
    const bool wrong = (c == 0xe0 && text[1] < 0xa0) || (c == 0xed && text[1] > 0x9f) ||
                       (c == 0xf0 && text[1] < 0x90) || (c == 0xf4 && text[1] > 0x8f);
    return wrong ? 0 : length;
}

/* Escapes one ASCII character that needs it. */
static void escape(hs__bytes *bytes, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";
    const char *from = "\"\\\b\f\n\r\t", *as = "\"\\bfnrt";
    const char *found = c ? strchr(from, c) : NULL;
    if (found) {
        const char text[2] = {'\\', as[found - from]};
        hs__bytes_add(bytes, text, sizeof text);
    } else {
        const char text[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
        hs__bytes_add(bytes, text, sizeof text);
    }
}

void hs__json_string(hs__bytes *bytes, const char *text, size_t n)
{
    hs__bytes_add(bytes, "\"", 1);
    size_t plain = 0; /* start of what needs no change and is not yet written */
    for (size_t i = 0; i < n;) {
        const unsigned char c = (unsigned char)text[i];
        const size_t length = utf8_length((const unsigned char *)text + i, n - i);
        if (length > 1 || (length == 1 && c >= 0x20 && c != '"' && c != '\\' && c != 0x7f)) {
            i += length;
            continue;
        }
        hs__bytes_add(bytes, text + plain, i - plain);
        if (length == 0)
            hs__bytes_text(bytes, "\xef\xbf\xbd");
        else
            escape(bytes, c);
        plain = ++i;
    }
    hs__bytes_add(bytes, text + plain, n - plain);
    hs__bytes_add(bytes, "\"", 1);
}

void hs__json_integer(hs__bytes *bytes, long long value)
{
    char *to = hs__bytes_room(bytes, HS__NUMBER_ROOM);
    if (to)
        bytes->size += (size_t)(hs__integer_print(to, value) - to);
}

void hs__json_float(hs__bytes *bytes, float value, int digits)
{
    char *to = hs__bytes_room(bytes, HS__NUMBER_ROOM);
    if (to)
        bytes->size += (size_t)(hs__float_print(to, value, digits) - to);
}

void hs__json_bool(hs__bytes *bytes, bool value)
{
    hs__bytes_text(bytes, value ? "true" : "false");
}

void hs__json_floats(hs__bytes *bytes, const float *values, size_t n, int digits)
{
    char *to = hs__bytes_room(bytes, n * (HS__FLOAT_TEXT_MAX(digits) + 1) + HS__NUMBER_ROOM);
    if (!to)
        return;
    char *const start = to;
    *to++ = '[';
    for (size_t i = 0; i < n; i++) {
        to = hs__float_print(to, values[i], digits);
        *to++ = ',';
    }
    to -= n > 0; /* the last comma */
    *to++ = ']';
    bytes->size += (size_t)(to - start);
}
