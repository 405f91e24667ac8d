/* inline_png.c - the five chunks of a PNG, made in one buffer. */
#include "server/corpus/report/inline_png.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

void hs__base64_write(FILE *out, const void *data, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *bytes = data;
    for (size_t i = 0; i < n; i += 3) {
        const uint32_t b = (uint32_t)bytes[i] << 16 | (i + 1 < n ? (uint32_t)bytes[i + 1] << 8 : 0) |
                           (i + 2 < n ? bytes[i + 2] : 0);
        const char group[4] = {digits[b >> 18], digits[b >> 12 & 63], i + 1 < n ? digits[b >> 6 & 63] : '=',
                               i + 2 < n ? digits[b & 63] : '='};
        fwrite(group, 1, 4, out);
    }
}

static void u32_write(unsigned char *at, size_t value)
{
    for (int k = 0; k < 4; k++)
        at[k] = (unsigned char)(value >> (24 - 8 * k));
}

/* Finishes the chunk whose n bytes of data lie at `at` + 8; returns where the next one begins. */
static unsigned char *chunk_close(unsigned char *at, const char kind[4], size_t n)
{
    u32_write(at, n);
    memcpy(at + 4, kind, 4);
    u32_write(at + 8 + n, crc32(0, at + 4, (uInt)(n + 4)));
    return at + 12 + n;
}

/* A row of a PNG begins with the number of its filter, here none. */
static unsigned char *rows_make(const unsigned char *pixels, size_t side)
{
    unsigned char *rows = malloc((side + 1) * side);
    for (size_t y = 0; rows && y < side; y++) {
        rows[y * (side + 1)] = 0;
        memcpy(rows + y * (side + 1) + 1, pixels + y * side, side);
    }
    return rows;
}

void hs__png_write(FILE *out, const unsigned char *pixels, size_t side, unsigned char palette[256][3])
{
    static const unsigned char signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    uLongf n_data = compressBound((uLong)((side + 1) * side));
    unsigned char *png = malloc(1024 + n_data), *rows = rows_make(pixels, side);
    if (png && rows) {
        unsigned char *at = png + sizeof signature;
        memcpy(png, signature, sizeof signature);
        u32_write(at + 8, side);
        u32_write(at + 12, side);
        memcpy(at + 16, (unsigned char[]){8, 3, 0, 0, 0}, 5); /* bits, palette, no options */
        at = chunk_close(at, "IHDR", 13);
        memcpy(at + 8, palette, 768);
        at = chunk_close(at, "PLTE", 768);
        at[8] = 0;
        at = chunk_close(at, "tRNS", 1);
        if (compress2(at + 8, &n_data, rows, (uLong)((side + 1) * side), 9) == Z_OK) {
            at = chunk_close(at, "IDAT", n_data);
            at = chunk_close(at, "IEND", 0);
            hs__base64_write(out, png, (size_t)(at - png));
        }
    }
    free(png);
    free(rows);
}
