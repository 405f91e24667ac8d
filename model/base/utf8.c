/* utf8.c - UTF-8 of any bytes. The first byte gives a character's length. The first two bytes and the
 * continuation bits of the rest decide whether it is valid. */
#include "model/base/utf8.h"

#include <string.h>

/* Returns the length that the first byte announces, 1 to 4, or 0 if no character begins with it. */
static size_t promised_length(unsigned char lead)
{
    if (lead < 0x80)
        return 1;
    return lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
}

size_t hs_utf8_length(const char *bytes, size_t n_bytes)
{
    const unsigned char *p = (const unsigned char *)bytes;
    const size_t length = promised_length(p[0]);
    if (n_bytes < length)
        return 0;
    for (size_t i = 1; i < length; i++)
        if (!hs_utf8_continues(p[i]))
            return 0;
    /* overlong forms, surrogates, and code points above U+10FFFF */
    if ((p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xED && p[1] > 0x9F) || (p[0] == 0xF0 && p[1] < 0x90) ||
        (p[0] == 0xF4 && p[1] > 0x8F))
        return 0;
    return length;
}

size_t hs_utf8_valid(const char *bytes, size_t n_bytes)
{
    size_t i = 0;
    while (i < n_bytes) {
        uint64_t eight; /* ASCII is most of most texts */
        while (n_bytes - i >= sizeof eight) {
            memcpy(&eight, bytes + i, sizeof eight);
            if (eight & 0x8080808080808080u)
                break;
            i += sizeof eight;
        }
        if (i == n_bytes)
            break;
        const size_t length = hs_utf8_length(bytes + i, n_bytes - i);
        if (!length)
            return i;
        i += length;
    }
    return n_bytes;
}

uint32_t hs_utf8_read(const char **cursor, const char *end)
{
    const unsigned char *at = (const unsigned char *)*cursor;
    if (!hs_utf8_length(*cursor, (size_t)(end - *cursor))) {
        ++*cursor;
        return HS_UTF8_REPLACEMENT;
    }
    const uint32_t code_point = hs_utf8_next(&at);
    *cursor = (const char *)at;
    return code_point;
}

size_t hs_utf8_whole(const char *bytes, size_t n_bytes)
{
    for (size_t n = 1; n <= 4 && n <= n_bytes; n++) {
        const unsigned char byte = (unsigned char)bytes[n_bytes - n];
        if (!hs_utf8_continues(byte))
            return promised_length(byte) > n ? n_bytes - n : n_bytes;
    }
    return n_bytes;
}

size_t hs_utf8_count(const char *bytes, size_t n_bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < n_bytes; i++)
        n += !hs_utf8_continues((unsigned char)bytes[i]);
    return n;
}

size_t hs_utf8_offset(const char *bytes, size_t n_bytes, size_t point)
{
    for (size_t i = 0; i < n_bytes; i++)
        if (!hs_utf8_continues((unsigned char)bytes[i]) && point-- == 0)
            return i;
    return n_bytes;
}
