#include "server/http/routes.h"

#include "model/clock.h"
#include "server/base/log.h"
#include "server/base/version.h"
#include "server/base/viewer_files.h"
#include "server/http/corpora_http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void answer_health(hs_exchange *x)
{
    static char alive[] = "{\"status\":\"ok\",\"version\":\"" HS_VERSION "\"}\n";
    hs__exchange_answer(x, MHD_HTTP_OK, "application/json", alive, sizeof alive - 1, true);
}

static void answer_ready(hs_exchange *x)
{
    static char ready[] = "{\"status\":\"ready\"}\n";
    if (x->server->state == HS_SERVING) {
        hs__exchange_answer(x, MHD_HTTP_OK, "application/json", ready, sizeof ready - 1, true);
        return;
    }
    x->retry_after = "1";
    hs__exchange_refuse(x, MHD_HTTP_SERVICE_UNAVAILABLE, "%s",
                        x->server->state == HS_LOADING ? "The models are being loaded."
                                                       : "The server is finishing its last requests.");
}

static void answer_metrics(hs_exchange *x);

/* docs/tour.md walks the first row from socket to reply. */
static const hs_route routes[] = {
    {"POST", "/analyze", NULL, false, "attention, similarity and pairs of one text", NULL, NULL},
    {"POST", "/tokenize", NULL, false, "its tokens", NULL, NULL},
    {"GET", "/models", NULL, false, "the models served", NULL, NULL},
    {"GET", "/openapi.json", NULL, true, "this surface in full", NULL, NULL},
    {"GET", "/health", answer_health, true, "alive; never waits for a worker", NULL, NULL},
    {"GET", "/ready", answer_ready, true, "503 while loading or draining", NULL, NULL},
    {"GET", "/metrics", answer_metrics, false, "counters for Prometheus", NULL, NULL},
    {"POST", "/corpora", hs__corpora_queue, false, "starts a corpus run", hs__corpora_begin,
     hs__corpora_receive},
    {"GET", "/corpora", hs__corpora_answer_list, false, "all corpus runs", NULL, NULL},
    {"GET", "/corpora/{id}", hs__corpora_answer_run, false, "how far one is", NULL, NULL},
    {"DELETE", "/corpora/{id}", hs__corpora_answer_delete, false, "removes it with its files", NULL, NULL},
    {"GET", "/corpora/{id}/events", hs__corpora_answer_events, false, "how far it is, as it happens", NULL,
     NULL},
    {"GET", "/corpora/{id}/report", hs__corpora_answer_report, false, "what it found", NULL, NULL},
    {"POST", "/corpora/{id}/cancel", hs__corpora_answer_cancel, false, "ends it", NULL, NULL},
    {"GET", "/*", hs__viewer_answer, true, "the web viewer's files", NULL, NULL},
};
enum { N_ROUTES = sizeof routes / sizeof *routes, VIEWER = N_ROUTES - 1 };

/* The report's page is a form that runs fill in: not a file of the viewer's. */
static bool viewer_has(const char *path)
{
    return strcmp(path, "/report.html") != 0 && hs__viewer_find(path) != NULL;
}

static bool path_matches(const hs_route *route, const char *path)
{
    const char *pattern = route->path;
    if (route == &routes[VIEWER])
        return viewer_has(path);
    while (*pattern == '{' ? *path && *path != '/' : *pattern && *pattern == *path) {
        if (*pattern == '{') {
            pattern += strcspn(pattern, "}") + 1;
            path += strcspn(path, "/");
        } else {
            pattern++;
            path++;
        }
    }
    return !*pattern && !*path;
}

const hs_route *hs__route_find(const char *method, const char *path, char *ret_allow, size_t allow_size)
{
    size_t used = 0;
    *ret_allow = '\0';
    for (size_t i = 0; i < N_ROUTES; i++) {
        if (!path_matches(&routes[i], path))
            continue;
        if (strcmp(routes[i].method, method) == 0)
            return &routes[i];
        const char *also = strcmp(routes[i].method, "GET") == 0 ? ", HEAD" : "";
        const int n = snprintf(ret_allow + used, allow_size - used, "%s%s, ", routes[i].method, also);
        used += (size_t)n;
    }
    if (used)
        snprintf(ret_allow + used, allow_size - used, "OPTIONS");
    return NULL;
}

size_t hs__route_number(const hs_route *route)
{
    return route ? (size_t)(route - routes) : N_ROUTES;
}

static void gauges_print(const hs_server *server, FILE *out)
{
    hs_cache_stats cache = {0};
    hs__metric_print(out, "ready", "gauge", "1 while requests are taken.", server->state == HS_SERVING);
    hs__metric_print(out, "connections", "gauge", "Open connections.", (double)server->n_connections);
    hs__metric_print(out, "queue_depth", "gauge", "Requests waiting for a worker.",
                     (double)server->tasks.n_queued);
    hs__metric_print(out, "queue_limit", "gauge", "Most requests that may wait.",
                     (double)server->options->queue_max);
    hs__metric_print(out, "packed_requests_total", "counter", "Requests computed in one pass with others.",
                     (double)server->tasks.n_shared);
    hs__metric_print(out, "workers", "gauge", "Worker threads.", (double)server->tasks.options.n_workers);
    hs__metric_print(out, "workers_busy", "gauge", "Workers computing.", (double)server->tasks.n_running);
    hs__metric_print(out, "held_bytes", "gauge", "Request bodies and answers in memory.",
                     (double)server->held_bytes);
    hs__metric_print(out, "log_lines_dropped_total", "counter", "Log lines nobody read in time.",
                     (double)hs__log_dropped());
    hs__metric_print(out, "uptime_seconds", "gauge", "Since the start.",
                     (double)(hs_clock_ns() - server->started_ns) / 1e9);
    if (server->state == HS_LOADING)
        return;
    hs_api_cache_stats(server->catalog.api, &cache);
    hs__metric_print(out, "cache_hits_total", "counter", "Requests answered from kept heads.",
                     (double)cache.hits);
    hs__metric_print(out, "cache_misses_total", "counter", "Requests that needed a forward pass.",
                     (double)cache.misses);
    hs__metric_print(out, "cache_evictions_total", "counter", "Texts dropped for room.",
                     (double)cache.evictions);
    hs__metric_print(out, "cache_bytes", "gauge", "Heads kept.", (double)cache.bytes);
}

static void answer_metrics(hs_exchange *x)
{
    const char *names[N_ROUTES + 1] = {[N_ROUTES] = "none"};
    char *text = NULL;
    size_t n_bytes = 0;
    FILE *out = open_memstream(&text, &n_bytes);
    for (size_t i = 0; i < N_ROUTES; i++)
        names[i] = routes[i].path;
    if (out) {
        hs__metrics_print(&x->server->metrics, names, N_ROUTES + 1, out);
        gauges_print(x->server, out);
        hs__metrics_print_process(out);
    }
    if (!out || fclose(out)) {
        free(text);
        hs__exchange_refuse(x, MHD_HTTP_INTERNAL_SERVER_ERROR, "Out of memory.");
        return;
    }
    hs__exchange_answer(x, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", text, n_bytes, false);
}

const hs_viewer_file *hs__viewer_find(const char *path)
{
    if (strcmp(path, "/") == 0)
        path = "/index.html";
    for (size_t i = 0; i < hs_n_viewer_files; i++)
        if (strcmp(hs_viewer_files[i].path, path) == 0)
            return &hs_viewer_files[i];
    return NULL;
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
        file->gzip_size < file->size && hs__accepts_gzip(hs__header(x->mhd, MHD_HTTP_HEADER_ACCEPT_ENCODING));
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
