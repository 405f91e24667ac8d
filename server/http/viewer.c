/* viewer.c - files that never change while the program runs: found by name, sent as they are or as gzip, kept
 * by browsers for as long as their ETag holds. */
#include "server/http/viewer.h"

#include "server/base/viewer_files.h"

#include <stdio.h>
#include <string.h>

/* The report's page is a form that runs fill in: not a file of the viewer's. */
bool hs__viewer_has(const char *path)
{
    return strcmp(path, "/report.html") != 0 && hs__viewer_find(path) != NULL;
}

void hs__viewer_answer(hs_exchange *x)
{
    /* Everything from this server, nothing inline; pictures may be drawn here and saved. */
    static const char policy[] =
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "font-src 'self'; connect-src 'self'; worker-src 'self'; manifest-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'";
    const hs_viewer_file *file = hs__viewer_find(x->path);
    const bool gzip =
        file->gzip_size < file->size && hs_gzip_accepted(hs__header(x->mhd, MHD_HTTP_HEADER_ACCEPT_ENCODING));
    snprintf(x->etag, sizeof x->etag, "W/%s", file->etag); /* weak: plain and gzip bytes have the same one */
    x->security_policy = policy;
    /* Vite puts a content hash into the names under /assets. */
    x->cache_control =
        strncmp(file->path, "/assets/", 8) == 0 ? "public, max-age=31536000, immutable" : "no-cache";
    if (hs__etag_matches(hs__header(x->mhd, MHD_HTTP_HEADER_IF_NONE_MATCH), file->etag)) {
        hs__exchange_answer(x, MHD_HTTP_NOT_MODIFIED, NULL, NULL, 0, true);
        return;
    }
    hs__exchange_answer(x, MHD_HTTP_OK, file->content_type, (char *)(gzip ? file->gzip : file->data),
                        gzip ? file->gzip_size : file->size, true);
    x->response.content_encoding = gzip ? "gzip" : NULL;
    x->response.vary_encoding = true;
}
