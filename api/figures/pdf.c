/* pdf.c - writes a drawing as PDF by libharu, with a subset of the font embedded.
 *
 * After libharu's first error later calls do nothing, so the error is looked at once, at the end. It reads a
 * font from a path only, which is that of an unnamed file in memory. */
#include "api/figures/picture.h"
#include "model/base/utf8.h"

#include <errno.h>
#include <hpdf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

/* Dashes are whole points before libharu 2.4. */
#if HPDF_MAJOR_VERSION * 100 + HPDF_MINOR_VERSION < 204
typedef HPDF_UINT16 dash_length;
#else
typedef HPDF_REAL dash_length;
#endif

/* libharu loses blocks when it runs out of memory. So it takes them from pools, which end with the document.
 */
#define POOL_BYTES (64 << 10)

typedef struct page {
    HPDF_Doc doc;
    HPDF_Page page;
    HPDF_Font font;
    double height;
    bool failed;                     /* libharu has an error, or memory was short */
    HPDF_STATUS error, error_detail; /* libharu's first; 0: none */
} page;

/* Sets the colour of fills or strokes by one of libharu's functions. */
static void colour_set(page *p, HPDF_STATUS (*set)(HPDF_Page, HPDF_REAL, HPDF_REAL, HPDF_REAL),
                       uint32_t colour)
{
    set(p->page, (float)(colour >> 16 & 255) / 255, (float)(colour >> 8 & 255) / 255,
        (float)(colour & 255) / 255);
}

/* Returns the name of the font in the document; NULL on failure, which err has where it is not libharu's. */
static const char *font_load(HPDF_Doc doc, hs_error *err)
{
    char path[64];
    const char *name = NULL;
    const int file = memfd_create("font", MFD_CLOEXEC);
    if (file >= 0 && write(file, hs__font, hs__font_bytes) == (ssize_t)hs__font_bytes) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
        name = HPDF_LoadTTFontFromFile(doc, path, HPDF_TRUE);
    } else
        hs_fail(err, errno == ENOMEM ? HS_NO_MEMORY : HS_IO, "cannot make the file of the figure's font: %s",
                strerror(errno));
    if (file >= 0)
        close(file);
    return name;
}

/* Embeds the glyphs that Arabic forms are made of. libharu embeds the parts of a glyph, but not parts of
 * parts. */
static void parts_embed(page *p)
{
    static const char parts[] = "\ufbe8\ufbe9\ufed3\ufed4\ufedb\ufedc\u06a9\u06af\u0674\u0654\u0655"
                                "\ufb8f\ufb90\ufb91\ufb93\ufb94\ufb95";
    HPDF_Font_TextWidth(p->font, (const HPDF_BYTE *)parts, sizeof parts - 1);
}

static void text_show(page *p, const hs__mark *m)
{
    char *text = hs__text_arrange(m->text);
    if (text && strstr(text, "\xef")) /* as all forms begin */
        parts_embed(p);
    if (!text) {
        p->failed = true;
        return;
    }
    const double width = hs__font_width(text) * m->size;
    const double before = m->anchor == HS__ANCHOR_START ? 0 : m->anchor == HS__ANCHOR_END ? width : width / 2;
    const double x = m->x - (m->upright ? 0 : before), y = p->height - m->y - (m->upright ? before : 0);
    const float turn = m->upright ? 1 : 0;
    colour_set(p, HPDF_Page_SetRGBFill, m->colour);
    HPDF_Page_BeginText(p->page);
    HPDF_Page_SetFontAndSize(p->page, p->font, (float)m->size);
    HPDF_Page_SetTextMatrix(p->page, 1 - turn, turn, -turn, 1 - turn, (float)x, (float)y);
    HPDF_Page_ShowText(p->page, text);
    HPDF_Page_EndText(p->page);
    free(text);
}

static void image_show(page *p, const hs__mark *m, const hs_colours colours)
{
    const size_t n = m->n_across * m->n_down;
    unsigned char *rgb = malloc(3 * n);
    if (!rgb) {
        p->failed = true;
        return;
    }
    for (size_t i = 0; i < n; i++)
        memcpy(rgb + 3 * i, colours[m->pixels[i]], 3);
    const HPDF_Image image = HPDF_LoadRawImageFromMem(p->doc, rgb, (HPDF_UINT)m->n_across,
                                                      (HPDF_UINT)m->n_down, HPDF_CS_DEVICE_RGB, 8);
    free(rgb);
    if (image)
        HPDF_Page_DrawImage(p->page, image, (float)m->x, (float)(p->height - m->y - m->height),
                            (float)m->width, (float)m->height);
    p->failed |= !image;
}

static void path_show(page *p, const hs__mark *m)
{
    const dash_length dash = (dash_length)m->dash;
    colour_set(p, m->filled ? HPDF_Page_SetRGBFill : HPDF_Page_SetRGBStroke, m->colour);
    if (!m->filled) {
        HPDF_Page_SetLineWidth(p->page, (float)m->line);
        HPDF_Page_SetDash(p->page, dash > 0 ? &dash : NULL, dash > 0 ? 1 : 0, 0);
    }
    if (m->kind == HS__MARK_BOX)
        HPDF_Page_Rectangle(p->page, (float)m->x, (float)(p->height - m->y - m->height), (float)m->width,
                            (float)m->height);
    for (size_t i = 0; i < m->n_points; i++)
        (i ? HPDF_Page_LineTo : HPDF_Page_MoveTo)(p->page, (float)m->points[i][0],
                                                  (float)(p->height - m->points[i][1]));
    if (m->filled)
        HPDF_Page_Fill(p->page);
    else
        HPDF_Page_Stroke(p->page);
}

/* PDF's metadata is Latin-1 here; other characters become '?'. */
static void info_set(page *p, HPDF_InfoType type, const char *text)
{
    char latin[512];
    const char *end = text + strlen(text);
    size_t n = 0;
    while (text < end && n + 1 < sizeof latin) {
        const uint32_t c = hs_utf8_read(&text, end);
        latin[n++] = c >= 0x20 && c < 0x7f ? (char)c : '?';
    }
    latin[n] = '\0';
    HPDF_SetInfoAttr(p->doc, type, latin);
}

/* Says below the figure what squares stand for. */
static const char LACKING[] = "\u25a1 not in this font: SVG keeps the characters as text";
#define NOTE_SIZE 6.0
#define NOTE_LINE (1.6 * NOTE_SIZE)

static bool is_lacking(const hs_picture *d)
{
    for (size_t i = 0; i < d->n; i++)
        if (d->marks[i].kind == HS__MARK_TEXT && !hs__font_has(d->marks[i].text))
            return true;
    return false;
}

static void note_show(page *p, double width)
{
    char text[sizeof LACKING];
    memcpy(text, LACKING, sizeof text);
    const double fitting = 0.95 * width / hs__font_width(text);
    text_show(p, &(hs__mark){.kind = HS__MARK_TEXT,
                             .text = text,
                             .x = width / 2,
                             .y = p->height - 0.5 * NOTE_SIZE,
                             .size = fitting < NOTE_SIZE ? fitting : NOTE_SIZE,
                             .anchor = HS__ANCHOR_MIDDLE});
}

static void page_begin(page *p, const hs_picture *d, hs_error *err)
{
    HPDF_SetCompressionMode(p->doc, HPDF_COMP_ALL);
    HPDF_UseUTFEncodings(p->doc);
    const char *name = font_load(p->doc, err);
    p->font = name ? HPDF_GetFont(p->doc, name, "UTF-8") : NULL;
    p->page = HPDF_AddPage(p->doc);
    p->failed = !p->font || !p->page;
    if (p->failed)
        return;
    HPDF_Page_SetWidth(p->page, (float)d->width);
    HPDF_Page_SetHeight(p->page, (float)p->height);
    info_set(p, HPDF_INFO_TITLE, d->title);
    info_set(p, HPDF_INFO_SUBJECT, d->caption);
}

static void page_read(page *p, hs_buffer *b)
{
    p->failed |= HPDF_GetError(p->doc) != HPDF_OK || HPDF_SaveToStream(p->doc) != HPDF_OK;
    const HPDF_UINT32 size = p->failed ? 0 : HPDF_GetStreamSize(p->doc);
    char *to = size ? hs_buffer_reserve(b, size) : NULL;
    HPDF_UINT32 n = size;
    if (to && HPDF_ResetStream(p->doc) == HPDF_OK)
        HPDF_ReadFromStream(p->doc, (HPDF_BYTE *)to, &n);
    p->failed |= !to || n != size;
    b->size += p->failed ? 0 : size;
}

/* libharu reports some refused allocations as other errors, and hands its allocator no data of ours. */
static _Thread_local bool memory_refused;

/* libharu allocates through these, so that tests can refuse it memory. */
static void *memory_take(HPDF_UINT n)
{
    void *block = malloc(n);
    memory_refused |= !block;
    return block;
}

static void memory_free(void *block)
{
    free(block);
}

/* Records libharu's first error: later calls replace it by "invalid document". */
static void error_record(HPDF_STATUS code, HPDF_STATUS detail, void *user_data)
{
    page *p = user_data;
    if (p->error)
        return;
    p->error = code;
    p->error_detail = detail;
}

/* Returns why the page failed: the message of err, or libharu's error, or else memory was short. */
static hs_status failure(const page *p, hs_error *err)
{
    if (err && err->status)
        return err->status;
    if (!p->error || memory_refused || p->error == HPDF_FAILD_TO_ALLOC_MEM ||
        (p->error == HPDF_ZLIB_ERROR && (int)p->error_detail == Z_MEM_ERROR))
        return hs_fail(err, HS_NO_MEMORY, "no memory for the figure");
    if (p->error == HPDF_FILE_OPEN_ERROR || p->error == HPDF_FILE_IO_ERROR)
        return hs_fail(err, HS_IO,
                       "libharu cannot open the figure's font in /proc/self/fd: check that /proc is mounted "
                       "and that descriptors are left, or choose svg");
    return hs_fail(err, HS_IO, "libharu cannot write the figure: error 0x%04lX, detail %lu; choose svg",
                   p->error, p->error_detail);
}

hs_status hs_picture_pdf(const hs_picture *d, hs_buffer *b, hs_error *err)
{
    const bool lacking = is_lacking(d);
    const double height = d->height + (lacking ? NOTE_LINE : 0);
    if (d->width > HPDF_MAX_PAGE_WIDTH || height > HPDF_MAX_PAGE_HEIGHT)
        return hs_fail(
            err, HS_TOO_LARGE,
            "the figure is %.0f points wide and %.0f tall; a page of PDF is at most %d wide and %d "
            "tall. Choose svg, or a smaller figure: fewer tokens, panels or columns",
            d->width, height, HPDF_MAX_PAGE_WIDTH, HPDF_MAX_PAGE_HEIGHT);
    page p = {.height = height};
    memory_refused = false;
    p.doc = HPDF_NewEx(error_record, memory_take, memory_free, POOL_BYTES, &p);
    p.failed = !p.doc;
    if (!p.failed)
        page_begin(&p, d, err);
    for (size_t i = 0; i < d->n && !p.failed; i++) {
        const hs__mark *m = &d->marks[i];
        if (m->kind == HS__MARK_TEXT)
            text_show(&p, m);
        else if (m->kind == HS__MARK_IMAGE)
            image_show(&p, m, d->colours[m->palette]);
        else
            path_show(&p, m);
    }
    if (lacking && !p.failed)
        note_show(&p, d->width);
    if (!p.failed)
        page_read(&p, b);
    const hs_status st = p.failed || b->failed ? failure(&p, err) : HS_OK;
    if (p.doc)
        HPDF_Free(p.doc);
    return st;
}
