/* picture.c - adds marks, with texts that are fit to print, and reads the font's widths. */
#include "api/figures/picture.h"

#include "model/base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ==== the font ==== */

/* Reads widths from the embedded font: its tables cmap (format 4), hhea and hmtx, as in the OpenType
 * specification. A read outside of the file gives 0. */

static unsigned u16_at(size_t at)
{
    return at + 2 <= hs__font_bytes ? (unsigned)hs__font[at] << 8 | hs__font[at + 1] : 0;
}

static size_t u32_at(size_t at)
{
    return (size_t)u16_at(at) << 16 | u16_at(at + 2);
}

/* Returns where a table begins; 0: there is none. */
static size_t table_find(const char tag[4])
{
    const size_t n = u16_at(4);
    for (size_t at = 12; at < 12 + 16 * n && at + 16 <= hs__font_bytes; at += 16)
        if (memcmp(hs__font + at, tag, 4) == 0)
            return u32_at(at + 8);
    return 0;
}

/* Returns where the subtable of the Basic Multilingual Plane (format 4) begins; 0: there is none. */
static size_t subtable_find(void)
{
    const size_t cmap = table_find("cmap"), n = u16_at(cmap + 2);
    for (size_t i = 0; cmap && i < n; i++) {
        const size_t at = cmap + u32_at(cmap + 4 + 8 * i + 4);
        if (u16_at(at) == 4)
            return at;
    }
    return 0;
}

static unsigned glyph_find(uint32_t code_point)
{
    const size_t at = subtable_find();
    if (!at || code_point > 0xffff)
        return 0;
    const size_t twice = u16_at(at + 6), ends = at + 14, starts = ends + twice + 2;
    for (size_t i = 0; i < twice; i += 2) {
        const unsigned start = u16_at(starts + i), delta = u16_at(starts + twice + i);
        const size_t offset_at = starts + 2 * twice + i;
        const unsigned offset = u16_at(offset_at);
        if (code_point > u16_at(ends + i))
            continue;
        if (code_point < start)
            return 0;
        if (!offset)
            return (code_point + delta) & 0xffff;
        const unsigned glyph = u16_at(offset_at + offset + 2 * (code_point - start));
        return glyph ? (glyph + delta) & 0xffff : 0;
    }
    return 0;
}

/* Returns the width of a character in em, or a negative number if the font lacks it. */
static double font_advance(uint32_t code_point)
{
    const unsigned glyph = glyph_find(code_point);
    const unsigned n = u16_at(table_find("hhea") + 34), em = u16_at(table_find("head") + 18);
    if (!glyph || !n || !em)
        return -1;
    return (double)u16_at(table_find("hmtx") + 4 * (size_t)(glyph < n ? glyph : n - 1)) / em;
}

double hs__font_width(const char *text)
{
    const char *end = text + strlen(text);
    double width = 0;
    while (text < end) {
        const double advance = font_advance(hs_utf8_read(&text, end));
        width += advance < 0 ? 1 : advance;
    }
    return width;
}

/* ==== marks ==== */

/* Adds marks, with texts that are fit to print. */

#define TEXT_BYTES_MAX 1024

double hs__round_step(double least)
{
    const double power = pow(10, floor(log10(least)));
    return power * (least <= power ? 1 : least <= 2 * power ? 2 : least <= 5 * power ? 5 : 10);
}

const char *hs__figure_number(double value, char ret[32])
{
    const double size = fabs(value);
    snprintf(ret, 32, size >= 1000 && size < 1e6 ? "%.0f" : "%.3g", value);
    return ret;
}

static void caption_copy(const char *text, char ret[HS__CAPTION_BYTES])
{
    size_t n = strlen(text);
    if (n >= HS__CAPTION_BYTES)
        n = hs_utf8_whole(text, HS__CAPTION_BYTES - 1);
    memcpy(ret, text, n);
    ret[n] = '\0';
}

void hs_picture_describe(hs_picture *d, const char *title, const char *caption)
{
    caption_copy(title, d->title);
    caption_copy(caption, d->caption);
}

static bool mark_add(hs_picture *d, const hs__mark *mark)
{
    if (d->n == d->capacity) {
        const size_t capacity = d->capacity ? 2 * d->capacity : 256;
        hs__mark *marks = realloc(d->marks, capacity * sizeof *marks);
        if (!marks) {
            d->failed = true;
            return false;
        }
        d->marks = marks;
        d->capacity = capacity;
    }
    d->marks[d->n++] = *mark;
    return true;
}

/* Adds a mark with memory of its own, zeroed, and returns that; NULL if memory is short. */
static void *mark_own(hs_picture *d, const hs__mark *where, hs__mark_kind kind, size_t n_bytes)
{
    hs__mark mark = *where;
    mark.kind = kind;
    mark.owned = calloc(n_bytes, 1);
    if (mark.owned && mark_add(d, &mark))
        return mark.owned;
    free(mark.owned);
    d->failed = true;
    return NULL;
}

/* Returns true for control characters, line separators and the marks that change a text's direction. */
static bool is_control(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e || c == 0x200f ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff || c == 0xfffe ||
           c == 0xffff;
}

/* Copies characters until the width in em would be exceeded. Returns true if all were copied. */
static bool text_copy(const char *text, double width, char ret[TEXT_BYTES_MAX + 8])
{
    const char *end = text + strlen(text);
    size_t n = 0;
    while (text < end) {
        const char *from = text;
        const uint32_t c = hs_utf8_read(&text, end);
        const bool replaced = is_control(c) || c == 0xfffd;
        const double advance = font_advance(replaced ? 0xfffd : c);
        const size_t n_bytes = replaced ? 3 : (size_t)(text - from);
        width -= advance < 0 ? 1 : advance;
        if (width < -1e-9 || n + n_bytes > TEXT_BYTES_MAX) {
            ret[n] = '\0';
            return false;
        }
        memcpy(ret + n, replaced ? "\xef\xbf\xbd" : from, n_bytes);
        n += n_bytes;
    }
    ret[n] = '\0';
    return true;
}

void hs__draw_text(hs_picture *d, const hs__mark *where, const char *text, double max_width)
{
    char fit[TEXT_BYTES_MAX + 8];
    const double width = max_width / where->size;
    if (!text_copy(text, width, fit)) {
        text_copy(text, width - font_advance(0x2026), fit);
        memcpy(fit + strlen(fit), "\xe2\x80\xa6", 4);
    }
    char *copy = mark_own(d, where, HS__MARK_TEXT, strlen(fit) + 1);
    if (copy)
        memcpy(copy, fit, strlen(fit));
}

void hs__draw_box(hs_picture *d, double x, double y, double width, double height, uint32_t colour,
                  bool filled)
{
    mark_add(d, &(hs__mark){.kind = HS__MARK_BOX,
                            .x = x,
                            .y = y,
                            .width = width,
                            .height = height,
                            .colour = colour,
                            .filled = filled,
                            .line = 0.4});
}

double (*hs__draw_path(hs_picture *d, const hs__mark *where, size_t n))[2]
{
    hs__mark mark = *where;
    mark.n_points = n;
    return mark_own(d, &mark, HS__MARK_PATH, n * sizeof *mark.points);
}

void hs__draw_line(hs_picture *d, const hs__mark *where, double x2, double y2)
{
    double(*points)[2] = hs__draw_path(d, where, 2);
    if (!points)
        return;
    points[0][0] = where->x;
    points[0][1] = where->y;
    points[1][0] = x2;
    points[1][1] = y2;
}

unsigned char *hs__draw_image(hs_picture *d, const hs__mark *where)
{
    return mark_own(d, where, HS__MARK_IMAGE, where->n_across * where->n_down);
}

void hs_picture_finish(hs_picture *d)
{
    for (size_t i = 0; i < d->n; i++)
        free(d->marks[i].owned);
    free(d->marks);
    *d = (hs_picture){0};
}
