/* font.c - reads widths from the embedded font: its tables cmap (format 4), hhea and hmtx, as in the OpenType
 * specification. A read outside of the file gives 0. */
#include "api/figures/font.h"

#include "model/base/utf8.h"

#include <string.h>

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

double hs__font_advance(uint32_t code_point)
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
        const double advance = hs__font_advance(hs_utf8_read(&text, end));
        width += advance < 0 ? 1 : advance;
    }
    return width;
}
