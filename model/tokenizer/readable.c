/* readable.c - writes a token for people.
 *
 * Bytes that are not a complete character are written in hex, as in \u27E8E2\u27E9: a character
 * may span several tokens. */
#include "model/tokenizer/tokenizer.h"

#include "model/base/utf8.h"

#include <stdio.h>
#include <string.h>

#define SPACE_MARK "\u2581"

typedef struct readable {
    char *bytes; /* NUL-terminated */
    size_t n, capacity;
} readable;

/* Appends bytes. Appends nothing more once something did not fit. */
static void put_raw(readable *to, const char *bytes, size_t n)
{
    if (n < to->capacity - to->n) {
        memcpy(to->bytes + to->n, bytes, n);
        to->n += n;
        to->bytes[to->n] = '\0';
    } else {
        to->capacity = to->n + 1;
    }
}

/* Puts a character. Spaces and characters that move the cursor are put_raw as a picture. */
static void put_shown(readable *to, const char *bytes, size_t n)
{
    char picture[4] = {(char)0xE2, (char)0x90, (char)(0x80 + bytes[0]), 0};
    if (bytes[0] == ' ')
        put_raw(to, "\u2423", 3);
    else if (bytes[0] == 0x7F)
        put_raw(to, "\u2421", 3);
    else if (bytes[0] > 0 && bytes[0] < ' ')
        put_raw(to, picture, 3);
    else
        put_raw(to, bytes, n);
}

/* Returns the byte that a character stands for (see pre_tokenizer_expressions.c), or -1. */
static int byte_of(uint32_t c)
{
    if ((c > 0x20 && c < 0x7F) || (c > 0xA0 && c < 0x100 && c != 0xAD))
        return (int)c;
    const uint32_t nth = c - 0x100;
    if (c < 0x100 || nth > 67)
        return -1;
    return nth < 33 ? (int)nth : nth == 33 ? 0x7F : nth < 67 ? (int)(0x80 + nth - 34) : 0xAD;
}

static size_t character_length(unsigned char first)
{
    return first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

static void put_bytes(readable *to, const char *bytes, size_t n_bytes)
{
    for (size_t at = 0; at < n_bytes;) {
        const size_t n = character_length((unsigned char)bytes[at]);
        char hex[16];
        if (n <= n_bytes - at && hs_utf8_valid(bytes + at, n) == n) {
            put_shown(to, bytes + at, n);
            at += n;
            continue;
        }
        snprintf(hex, sizeof hex, "\u27E8%02X\u27E9", (unsigned char)bytes[at++]);
        put_raw(to, hex, strlen(hex));
    }
}

/* Puts a byte-level token. Returns false for an added token with other characters, which is text already. */
static bool put_byte_level(readable *to, const char *token)
{
    char bytes[256];
    size_t n = 0;
    for (const unsigned char *at = (const unsigned char *)token; *at && n < sizeof bytes; n++) {
        const int byte = byte_of(hs_utf8_next(&at));
        if (byte < 0)
            return false;
        bytes[n] = (char)byte;
    }
    put_bytes(to, bytes, n);
    return true;
}

void hs_token_readable(const char *kind, const char *token, char *ret_text, size_t n_bytes)
{
    readable to = {ret_text, 0, n_bytes};
    const bool plain = !kind || strcmp(kind, "WordPiece") == 0 || strcmp(kind, "WordLevel") == 0;
    ret_text[0] = '\0';
    if (kind && strcmp(kind, "byte-level BPE") == 0 && put_byte_level(&to, token))
        return;
    for (const unsigned char *at = (const unsigned char *)token; *at;) {
        const char *start = (const char *)at;
        hs_utf8_next(&at);
        const size_t n = (size_t)((const char *)at - start);
        if (plain)
            put_raw(&to, start, n);
        else if (strncmp(start, SPACE_MARK, strlen(SPACE_MARK)) == 0)
            put_shown(&to, " ", 1);
        else
            put_shown(&to, start, n);
    }
}
