/* routes.c - the table of routes, and the endpoints of a few lines: health, metrics, the viewer. */
#include "server/http/routes.h"

#include "model/base/clock.h"
#include "server/base/version.h"
#include "server/base/viewer_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- probes ----
 *
 * Health: the loop and the thread pool respond.
 *
 * A probe checks when the last round through the loop and the thread pool ended (server.c). */

enum { STALE_MS = 10000 };

/* Refuses the exchange and returns false if the last round is too long ago. */
static bool goes_round(hs_exchange *x)
{
    const double seconds = (double)(hs_clock_ns() - x->server->probe.round_ns) / 1e9;
    if (seconds * 1000 <= STALE_MS)
        return true;
    hs__exchange_refuse(x, MHD_HTTP_SERVICE_UNAVAILABLE,
                        "The event loop or the thread pool has not responded for %.0f s.", seconds);
    return false;
}

/* Answers at once; with 503 if no round ended for some seconds. */
static void probe_answer_health(hs_exchange *x)
{
    static char alive[] = "{\"status\":\"ok\",\"version\":\"" HS_VERSION "\"}\n";
    if (goes_round(x))
        hs__exchange_answer(x, MHD_HTTP_OK, "application/json", alive, sizeof alive - 1, true);
}

/* also 503 while loading or draining */
static void probe_answer_ready(hs_exchange *x)
{
    static char ready[] = "{\"status\":\"ready\"}\n";
    if (!goes_round(x))
        return;
    if (x->server->state == HS_SERVER_SERVING) {
        hs__exchange_answer(x, MHD_HTTP_OK, "application/json", ready, sizeof ready - 1, true);
        return;
    }
    hs__exchange_refuse_now(x, x->server->state == HS_SERVER_LOADING ? HS_STILL_LOADING
                                                                     : "The server is shutting down.");
}

/* ---- metrics ---- */

static void probe_answer_metrics(hs_exchange *x)
{
    char *text = NULL;
    size_t n_bytes = 0;
    FILE *out = open_memstream(&text, &n_bytes);
    if (out) {
        hs__metrics_print(x->server, out);
    }
    if (!out || fclose(out)) {
        free(text);
        hs__exchange_refuse_memory(x);
        return;
    }
    hs__exchange_answer(x, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", text, n_bytes, false);
}

/* ---- viewer ----
 *
 * The web viewer's files, which are embedded in the program.
 *
 * Serves the embedded files of the viewer, plain or as gzip, with an ETag. */

/* Loads only from this server, nothing inline. Images may be drawn in the page and saved. */
#define POLICY                                                                                               \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "                  \
    "font-src 'self'; connect-src 'self'; worker-src 'self'; manifest-src 'self'; base-uri 'none'; "         \
    "form-action 'none'; frame-ancestors "
#define THIS_MACHINE "http://localhost:* https://localhost:* http://127.0.0.1:* https://127.0.0.1:*"

/* Returns true if the viewer has this path; "/" is its index. report.html is the template of run reports, not
 * a page of the viewer. */
static bool viewer_has(const char *path)
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

/* Returns true if the ETag (with its quotes) is in If-None-Match (may be NULL). Weak comparison, as for GET.
 */
static bool etag_matches(const char *if_none_match, const char *etag)
{
    const size_t n = strlen(etag);
    for (const char *at = if_none_match; at && *at;) {
        at += strspn(at, ", \t");
        if (*at == '*')
            return true;
        at += strncmp(at, "W/", 2) == 0 ? 2 : 0;
        const size_t item = strcspn(at, ", \t");
        if (item == n && memcmp(at, etag, n) == 0)
            return true;
        at += item;
    }
    return false;
}

static void viewer_answer(hs_exchange *x)
{
    const hs_viewer_file *file = hs__viewer_find(x->path);
    if (x->own_path && strlen(x->path) < sizeof x->location) { /* links of a page are relative to "/docs" */
        snprintf(x->location, sizeof x->location, "%s", x->path);
        hs__exchange_answer(x, MHD_HTTP_PERMANENT_REDIRECT, NULL, NULL, 0, true);
        return;
    }
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
    if (etag_matches(hs__header(x->mhd, MHD_HTTP_HEADER_IF_NONE_MATCH), file->etag)) {
        hs__exchange_answer(x, MHD_HTTP_NOT_MODIFIED, NULL, NULL, 0, true);
        return;
    }
    hs__exchange_answer(x, MHD_HTTP_OK, file->content_type, (char *)(gzip ? file->gzip : file->data),
                        gzip ? file->gzip_size : file->size, true);
    x->response.content_encoding = gzip ? "gzip" : NULL;
    x->response.vary_encoding = true;
}

/* ---- opened file ---- */

#define OPENED "/opened/"

/* Answers with the file of arrays that `headscope view` was started with. */
static void opened_answer(hs_exchange *x)
{
    const hs_server_options *options = x->server->options;
    if (!options->opened_name || strcmp(x->path + sizeof OPENED - 1, options->opened_name) != 0)
        hs__exchange_refuse(x, MHD_HTTP_NOT_FOUND,
                            "No file of this name is open. 'headscope view FILE' opens one.");
    else
        hs__exchange_answer(x, MHD_HTTP_OK, "application/octet-stream", (char *)options->opened.data,
                            options->opened.size, true);
}

/* ---- routes ----
 *
 * All routes: the loop answers from memory, disk calls use files and the database, workers
 * compute. docs/explanation/tour.md follows the first row from socket to reply. */

static const hs_route first_rows[] = {
    {.method = "POST", .path = "/analyze", .executor = HS_ON_WORKER, .operation = HS_ANALYZE},
    {.method = "POST", .path = "/tokenize", .executor = HS_ON_WORKER, .operation = HS_TOKENIZE},
    {.method = "GET", .path = "/models", .executor = HS_ON_WORKER, .operation = HS_MODELS},
    {.method = "GET",
     .path = "/openapi.json",
     .executor = HS_ON_WORKER,
     .operation = HS_OPENAPI,
     .open = true},
    {.method = "GET", .path = "/health", .executor = HS_ON_LOOP, .answer = probe_answer_health, .open = true},
    {.method = "GET", .path = "/ready", .executor = HS_ON_LOOP, .answer = probe_answer_ready, .open = true},
    {.method = "GET", .path = "/metrics", .executor = HS_ON_LOOP, .answer = probe_answer_metrics},
    {.method = "GET", .path = OPENED "{id}", .executor = HS_ON_LOOP, .answer = opened_answer},
};

static const hs_route last_rows[] = {
    {.method = "GET",
     .path = "/*",
     .executor = HS_ON_LOOP,
     .answer = viewer_answer,
     .has = viewer_has,
     .open = true},
};

static const hs_route_table first = {first_rows, sizeof first_rows / sizeof *first_rows},
                            last = {last_rows, sizeof last_rows / sizeof *last_rows};

static const hs_route_table *const tables[] = {&first, &hs__model_routes, &hs__run_routes, &last, NULL};

const hs_routes hs__routes = {tables};
