/* svg.c - writes a drawing as SVG 1.1. Text stays text; images are PNG with few colours inside of the file.
 */
#include "api/figures/picture.h"
#include "api/formats/json_text.h"

#include <math.h>
#include <nettle/base64.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define FAMILY "DejaVu Sans, Bitstream Vera Sans, Verdana, Arial, sans-serif"

static void add(hs_buffer *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(hs_buffer *b, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    hs_buffer_text(b, text);
}

const char *hs_xml_entity(char c)
{
    return c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '"' ? "&quot;" : NULL;
}

static void add_escaped(hs_buffer *b, const char *text)
{
    for (; *text; text++) {
        const char *entity = hs_xml_entity(*text);
        if (entity)
            hs_buffer_text(b, entity);
        else
            hs_buffer_add(b, (unsigned char)*text < 0x20 ? " " : text, 1);
    }
}

/* ---- images ---- */

static void base64_add(hs_buffer *b, const unsigned char *bytes, size_t n)
{
    char *to = hs_buffer_reserve(b, BASE64_ENCODE_RAW_LENGTH(n));
    if (!to)
        return;
    base64_encode_raw(to, n, bytes);
    b->size += BASE64_ENCODE_RAW_LENGTH(n);
}

static void u32_add(hs_buffer *b, size_t value)
{
    hs_buffer_add(b,
                  (unsigned char[]){(unsigned char)(value >> 24), (unsigned char)(value >> 16),
                                    (unsigned char)(value >> 8), (unsigned char)value},
                  4);
}

static void chunk_add(hs_buffer *png, const char kind[4], const void *data, size_t n)
{
    uLong crc = crc32(crc32(0, NULL, 0), (const unsigned char *)kind, 4);
    u32_add(png, n);
    hs_buffer_add(png, kind, 4);
    if (n > 0) { /* crc32 of no bytes at NULL starts anew */
        hs_buffer_add(png, data, n);
        crc = crc32(crc, data, (uInt)n);
    }
    u32_add(png, crc);
}

/* Writes a row after its filter: "up" and zeros if it is that above, which packs best, else "none" and the
 * row. */
static void row_filter(const hs__mark *m, size_t y, unsigned char *ret)
{
    const unsigned char *row = m->pixels + y * m->n_across;
    const bool repeated = y > 0 && memcmp(row, row - m->n_across, m->n_across) == 0;
    ret[0] = repeated ? 2 : 0;
    if (repeated)
        memset(ret + 1, 0, m->n_across);
    else
        memcpy(ret + 1, row, m->n_across);
}

/* Compresses bytes by their runs, of which the rows of cells consist. Returns false if memory is short. */
static bool runs_pack(unsigned char *bytes, size_t n, unsigned char *to, uLongf *n_to)
{
    z_stream stream = {.next_in = bytes, .avail_in = (uInt)n, .next_out = to, .avail_out = (uInt)*n_to};
    if (deflateInit2(&stream, 6, Z_DEFLATED, MAX_WBITS, 8, Z_RLE) != Z_OK)
        return false;
    const bool packed = deflate(&stream, Z_FINISH) == Z_STREAM_END;
    *n_to = stream.total_out;
    deflateEnd(&stream);
    return packed;
}

/* Compresses the rows. Returns NULL if memory is short. */
static unsigned char *rows_pack(const hs__mark *m, uLongf *ret_n)
{
    const size_t n = (m->n_across + 1) * m->n_down;
    *ret_n = compressBound((uLong)n);
    unsigned char *rows = malloc(n), *packed = malloc(*ret_n);
    for (size_t y = 0; rows && y < m->n_down; y++)
        row_filter(m, y, rows + y * (m->n_across + 1));
    if (!rows || !packed || !runs_pack(rows, n, packed, ret_n)) {
        free(packed);
        packed = NULL;
    }
    free(rows);
    return packed;
}

static void png_add(hs_buffer *b, const hs__mark *m, const hs_colours colours)
{
    uLongf n;
    unsigned char *rows = rows_pack(m, &n);
    if (!rows) {
        b->failed = true;
        return;
    }
    hs_buffer png = {0};
    unsigned char header[13] = {0, 0, 0, 0, 0, 0, 0, 0, 8, 3}; /* 8 bits a pixel, by palette */
    for (int i = 0; i < 4; i++) {
        header[i] = (unsigned char)(m->n_across >> (24 - 8 * i));
        header[4 + i] = (unsigned char)(m->n_down >> (24 - 8 * i));
    }
    hs_buffer_add(&png, "\x89PNG\r\n\x1a\n", 8);
    chunk_add(&png, "IHDR", header, sizeof header);
    chunk_add(&png, "PLTE", colours, sizeof(hs_colours));
    chunk_add(&png, "IDAT", rows, n);
    chunk_add(&png, "IEND", NULL, 0);
    free(rows);
    b->failed |= png.failed;
    if (!png.failed)
        base64_add(b, (const unsigned char *)png.data, png.size);
    hs_buffer_finish(&png);
}

static void name_add(hs_buffer *b, const hs__mark *m)
{
    if (m->name[0])
        add(b, " data-name=\"%s\"", m->name);
}

/* xlink:href is what every reader knows. */
static void image_add(hs_buffer *b, const hs__mark *m, const hs_colours colours)
{
    hs_buffer_text(b, "<image");
    name_add(b, m);
    add(b,
        " x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" preserveAspectRatio=\"none\" "
        "style=\"image-rendering:pixelated\" xlink:href=\"data:image/png;base64,",
        m->x, m->y, m->width, m->height);
    png_add(b, m, colours);
    hs_buffer_text(b, "\"/>\n");
}

static void text_add(hs_buffer *b, const hs__mark *m)
{
    static const char *const anchors[] = {"start", "middle", "end"};
    hs_buffer_text(b, "<text");
    name_add(b, m);
    add(b, " x=\"%.2f\" y=\"%.2f\" font-size=\"%.2f\" text-anchor=\"%s\" fill=\"#%06x\"", m->x, m->y, m->size,
        anchors[m->anchor], (unsigned)m->colour);
    if (m->upright)
        add(b, " transform=\"rotate(-90 %.2f %.2f)\"", m->x, m->y);
    hs_buffer_text(b, ">");
    add_escaped(b, m->text);
    hs_buffer_text(b, "</text>\n");
}

/* A fill, or an outline with its width and dashes. */
static void paint_add(hs_buffer *b, const hs__mark *m)
{
    if (m->filled)
        add(b, " fill=\"#%06x\"/>\n", (unsigned)m->colour);
    else {
        add(b, " fill=\"none\" stroke=\"#%06x\" stroke-width=\"%.2f\"", (unsigned)m->colour, m->line);
        if (m->dash > 0)
            add(b, " stroke-dasharray=\"%.2f %.2f\"", m->dash, m->dash);
        hs_buffer_text(b, "/>\n");
    }
}

/* Writes a length to a hundredth of a point. Returns the end. */
static char *length_print(char *to, double length)
{
    return hs_float_print(to, (float)(round(100 * length) / 100), 6);
}

/* A page has thousands of points, and printf would take half of the time that it takes to write one. */
static void point_add(hs_buffer *b, char step, const double point[2])
{
    char text[2 + 2 * HS_NUMBER_BYTES_MAX], *end = text;
    *end++ = step;
    end = length_print(end, point[0]);
    *end++ = ' ';
    end = length_print(end, point[1]);
    hs_buffer_add(b, text, (size_t)(end - text));
}

static void path_add(hs_buffer *b, const hs__mark *m)
{
    hs_buffer_text(b, "<path d=\"");
    for (size_t i = 0; i < m->n_points; i++)
        point_add(b, i ? 'L' : 'M', m->points[i]);
    hs_buffer_text(b, m->filled ? "z\"" : "\"");
    paint_add(b, m);
}

static void box_add(hs_buffer *b, const hs__mark *m)
{
    add(b, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"", m->x, m->y, m->width, m->height);
    paint_add(b, m);
}

hs_status hs_picture_svg(const hs_picture *d, hs_buffer *b, hs_error *err)
{
    add(b,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink=\"http://www.w3.org/1999/xlink\" "
        "width=\"%.2fmm\" height=\"%.2fmm\" viewBox=\"0 0 %.2f %.2f\" font-family=\"" FAMILY
        "\" direction=\"ltr\" role=\"img\">\n<title>",
        d->width / 72 * 25.4, d->height / 72 * 25.4, d->width, d->height);
    add_escaped(b, d->title);
    hs_buffer_text(b, "</title>\n<desc>");
    add_escaped(b, d->caption);
    add(b, "</desc>\n<rect width=\"%.2f\" height=\"%.2f\" fill=\"#ffffff\"/>\n", d->width, d->height);
    for (size_t i = 0; i < d->n; i++) {
        const hs__mark *m = &d->marks[i];
        if (m->kind == HS__MARK_TEXT)
            text_add(b, m);
        else if (m->kind == HS__MARK_IMAGE)
            image_add(b, m, d->colours[m->palette]);
        else if (m->kind == HS__MARK_PATH)
            path_add(b, m);
        else
            box_add(b, m);
    }
    hs_buffer_text(b, "</svg>\n");
    return b->failed ? hs_fail(err, HS_NO_MEMORY, "no memory for the figure") : HS_OK;
}
