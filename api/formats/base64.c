/* base64.c - three bytes become four characters. */
#include "api/formats/base64.h"

#include <stdint.h>

size_t hs__base64_bytes(size_t n)
{
    return (n + 2) / 3 * 4;
}

size_t hs__base64_write(const void *bytes, size_t n, char *ret)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *from = bytes;
    char *to = ret;
    for (size_t i = 0; i < n; i += 3) {
        const uint32_t group = (uint32_t)from[i] << 16 | (i + 1 < n ? (uint32_t)from[i + 1] << 8 : 0) |
                               (i + 2 < n ? from[i + 2] : 0);
        *to++ = digits[group >> 18];
        *to++ = digits[group >> 12 & 63];
        *to++ = i + 1 < n ? digits[group >> 6 & 63] : '=';
        *to++ = i + 2 < n ? digits[group & 63] : '=';
    }
    return (size_t)(to - ret);
}
