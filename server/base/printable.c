/* printable.c - finds characters that terminals obey, in UTF-8. */
#include "server/base/printable.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ESCAPED_BYTES = 6 }; /* \u001b */

/* Beyond ASCII, sorted: C1 controls, and marks of direction and of lines. */
static const struct {
    uint16_t first, last;
} hidden[] = {{0x80, 0x9f}, {0x61c, 0x61c}, {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x2069}};

/* Reads a character of at most three bytes. Returns its bytes; 0 if it is longer or not UTF-8. */
static size_t character_read(const unsigned char *in, uint32_t *ret)
{
    *ret = in[0];
    if (in[0] < 0x80)
        return 1;
    if ((in[0] & 0xe0) == 0xc0 && (in[1] & 0xc0) == 0x80) {
        *ret = (in[0] & 0x1fU) << 6 | (in[1] & 0x3fU);
        return 2;
    }
    if ((in[0] & 0xf0) == 0xe0 && (in[1] & 0xc0) == 0x80 && (in[2] & 0xc0) == 0x80) {
        *ret = (in[0] & 0xfU) << 12 | (in[1] & 0x3fU) << 6 | (in[2] & 0x3fU);
        return 3;
    }
    return 0;
}

/* Returns the bytes of an unprintable character and its number. */
static size_t unprintable_read(const char *text, uint32_t *ret)
{
    const size_t n = character_read((const unsigned char *)text, ret);
    bool is = n == 1 && (*ret < ' ' || *ret == 0x7f) && *ret;
    for (size_t k = 0; n > 1 && k < sizeof hidden / sizeof *hidden; k++)
        is |= *ret >= hidden[k].first && *ret <= hidden[k].last;
    return is ? n : 0;
}

size_t hs__unprintable(const char *text)
{
    uint32_t number;
    return unprintable_read(text, &number);
}

const char *hs__printable_bytes(const char *text, size_t n, char *ret_text, size_t n_ret)
{
    char *out = ret_text;
    for (const char *end = text + n; text < end && (size_t)(out - ret_text) + ESCAPED_BYTES < n_ret;) {
        uint32_t number;
        const size_t n_hidden = *text ? unprintable_read(text, &number) : 1;
        if (n_hidden)
            out += sprintf(out, "\\u%04x", (unsigned)(*text ? number : 0));
        else
            *out++ = *text;
        text += n_hidden ? n_hidden : 1;
    }
    *out = '\0';
    return ret_text;
}

const char *hs__printable(const char *text, char *ret_text, size_t n_ret)
{
    return hs__printable_bytes(text, strlen(text), ret_text, n_ret);
}

void hs__print(FILE *out, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    const int n = vasprintf(&text, format, args);
    va_end(args);
    for (const char *at = text; n >= 0 && *at;) {
        uint32_t number;
        const size_t n_bytes = at[strspn(at, "\n")] ? unprintable_read(at, &number) : 0;
        if (n_bytes)
            fprintf(out, "\\u%04x", (unsigned)number);
        else
            fputc(*at, out);
        at += n_bytes ? n_bytes : 1;
    }
    if (n >= 0)
        free(text);
}

void hs__path_print(const char *path, const char *file)
{
    const char *slash = *file ? "/" : "";
    if (isatty(STDOUT_FILENO))
        hs__print(stdout, "%s%s%s\n", path, slash, file);
    else
        printf("%s%s%s\n", path, slash, file);
}
