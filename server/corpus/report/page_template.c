/* page_template.c - copies the page up to each of its two markers, and calls what stands for them. */
#include "server/corpus/report/page_template.h"

#include "server/base/viewer_files.h"

#include <string.h>

/* Writes the page up to a marker; returns what follows it, NULL if it is not there. */
static const char *until_marker(FILE *file, const char *at, const char *end, const char *marker)
{
    const char *found = at ? memmem(at, (size_t)(end - at), marker, strlen(marker)) : NULL;
    if (!found)
        return NULL;
    fwrite(at, 1, (size_t)(found - at), file);
    return found + strlen(marker);
}

hs_status hs__page_fill(FILE *file, hs__page_part *body, hs__page_part *script_data, void *data,
                        hs_error *err)
{
    const hs_viewer_file *page = hs__viewer_find("/report.html");
    const char *at = page ? (const char *)page->data : NULL, *end = page ? at + page->size : NULL;
    at = until_marker(file, at, end, "HEADSCOPE-PAGE");
    hs_status st = at ? body(file, data, err) : HS_OK;
    at = until_marker(file, at, end, "HEADSCOPE-DATA");
    if (!at)
        return st ? st : hs_fail(err, HS_UNSUPPORTED, "this build has no report page");
    if (!st && script_data)
        st = script_data(file, data, err);
    if (!st)
        fwrite(at, 1, (size_t)(end - at), file);
    return st;
}
