/* page_template.c - cuts the page at its two markers. */
#include "server/corpus/report/page_template.h"

#include "server/base/viewer_files.h"

#include <string.h>

#define MARKER(name) "HEADSCOPE-" name
enum { MARKER_BYTES = sizeof MARKER("PAGE") - 1 };

static const char *marker_find(const char *from, const char *end, const char *marker)
{
    return from ? memmem(from, (size_t)(end - from), marker, MARKER_BYTES) : NULL;
}

hs_status hs__page_write(FILE *file, hs__page_piece piece, hs_error *err)
{
    const hs_viewer_file *page = hs__viewer_find("/report.html");
    const char *begin = page ? (const char *)page->data : NULL, *end = page ? begin + page->size : NULL;
    const char *body = marker_find(begin, end, MARKER("PAGE")),
               *data = marker_find(body, end, MARKER("DATA"));
    if (!data)
        return hs_fail(err, HS_UNSUPPORTED, "this build has no report page");
    const char *from =
        piece == HS__PAGE_HEAD ? begin : (piece == HS__PAGE_MIDDLE ? body : data) + MARKER_BYTES;
    const char *to = piece == HS__PAGE_HEAD ? body : piece == HS__PAGE_MIDDLE ? data : end;
    fwrite(from, 1, (size_t)(to - from), file);
    return HS_OK;
}
