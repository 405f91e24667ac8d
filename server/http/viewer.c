/* viewer.c - serves the embedded files of the viewer, plain or as gzip, with an ETag. */
#include "server/http/viewer.h"

#include "server/base/viewer_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Loads only from this server, nothing inline. Images may be drawn in the page and saved. */
#define POLICY                                                                                               \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "                  \
    "font-src 'self'; connect-src 'self'; worker-src 'self'; manifest-src 'self'; base-uri 'none'; "         \
    "form-action 'none'; frame-ancestors "
#define THIS_MACHINE "http://localhost:* https://localhost:* http://127.0.0.1:* https://127.0.0.1:*"

/* report.html is the template of run reports, not a page of the viewer. */
bool hs__viewer_has(const char *path)
{
    return strcmp(path, "/report.html") != 0 && hs__viewer_find(path) != NULL;
}

/* Returns true if the query has the parameter "embed". The page checks the same, and then changes nothing on
 * the server. */
static bool wants_frame(const hs_exchange *x)
{
    static const char name[] = "embed";
    return MHD_lookup_connection_value_n(x->mhd, MHD_GET_ARGUMENT_KIND, name, sizeof name - 1, NULL, NULL) ==
           MHD_YES;
}

/* Returns a policy that lets pages of this machine, of the requested host (any port) and of the --cors origin
 * show the view in a frame. NULL if memory is short. */
static char *framed_policy(const hs_exchange *x)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-";
    const char *cors = x->server->options->cors_origin, *host = hs__header(x->mhd, MHD_HTTP_HEADER_HOST);
    const size_t n = host ? strspn(host, plain) : 0;
    const int n_name = n && (host[n] == ':' || !host[n]) ? (int)n : 0;
    char *policy = NULL;
    const int written =
        n_name ? asprintf(&policy, POLICY "'self' " THIS_MACHINE " http://%.*s:* https://%.*s:* %s", n_name,
                          host, n_name, host, cors ? cors : "")
               : asprintf(&policy, POLICY "'self' " THIS_MACHINE " %s", cors ? cors : "");
    return written < 0 ? NULL : policy;
}

void hs__viewer_answer(hs_exchange *x)
{
    const hs_viewer_file *file = hs__viewer_find(x->path);
    const bool gzip =
        file->gzip_size < file->size && hs_gzip_accepted(hs__header(x->mhd, MHD_HTTP_HEADER_ACCEPT_ENCODING));
    snprintf(x->etag, sizeof x->etag, "W/%s", file->etag); /* weak: the plain and the gzip body share it */
    char *framed = strcmp(file->path, "/index.html") == 0 && wants_frame(x) ? framed_policy(x) : NULL;
    x->user_data = framed;
    x->user_data_free = free;
    x->framed = framed != NULL;
    x->security_policy = framed ? framed : POLICY "'none'";
    /* Vite adds a content hash to the names under /assets. */
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
