/* routes.c - the table of routes, and the endpoints of a few lines: health, metrics, the viewer. */
#include "server/http/routes.h"

#include "model/base/clock.h"
#include "server/base/log.h"
#include "server/base/version.h"
#include "server/base/viewer_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- probes ----
 *
 * Health: the loop and the thread pool respond.
 *
 * libmicrohttpd alone could answer "ok" while other events of the loop starve. So an empty work item goes to
 * the pool and back every second, and a probe checks when the last one came back. The pool has a thread for
 * it, so busy workers and a slow disk do not delay it. */

enum { ROUND_MS = 1000, STALE_MS = 10000 };

/* ---- the round ---- */

static void on_thread(uv_work_t *work)
{
    (void)work;
}

static void on_loop(uv_work_t *work, int status)
{
    hs_server *server = work->data;
    (void)status;
    server->probe.running = false;
    server->probe.round_ns = hs_clock_ns();
}

static void on_timer(uv_timer_t *timer)
{
    hs_server *server = timer->data;
    if (server->probe.running)
        return;
    server->probe.running = true;
    server->probe.work.data = server;
    uv_queue_work(&server->loop, &server->probe.work, on_thread, on_loop);
}

void hs__probe_start(hs_server *server)
{
    uv_timer_init(&server->loop, &server->probe.timer);
    server->probe.timer.data = server;
    server->probe.round_ns = hs_clock_ns();
    uv_timer_start(&server->probe.timer, on_timer, 0, ROUND_MS);
}

void hs__probe_stop(hs_server *server)
{
    uv_close((uv_handle_t *)&server->probe.timer, NULL);
}

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

static void gauges_print(const hs_server *server, FILE *out)
{
    hs_cache_stats cache = {0};
    hs__metric_print(out, "headscope_ready", "1 while the server accepts requests.",
                     server->state == HS_SERVER_SERVING);
    hs__metric_print(out, "headscope_connections", "Open connections.", (double)server->n_connections);
    hs__metric_print(out, "headscope_queue_depth", "Requests waiting for a worker.",
                     (double)server->tasks.queue.n_waiting);
    hs__metric_print(out, "headscope_queue_limit", "Limit of queue_depth.",
                     (double)server->options->queue_max);
    hs__metric_print(out, "headscope_disk_queue_depth", "Requests waiting for a disk or a database.",
                     (double)server->disk.queue.n_waiting);
    hs__metric_print(out, "headscope_queue_dropped_total",
                     "Waiting requests refused for a client with fewer of them.",
                     (double)(server->tasks.queue.n_dropped + server->disk.queue.n_dropped));
    hs__metric_print(out, "headscope_packed_requests_total", "Requests computed in one pass with others.",
                     (double)server->tasks.n_shared);
    hs__metric_print(out, "headscope_workers", "Worker threads.", (double)server->tasks.options.n_workers);
    hs__metric_print(out, "headscope_workers_busy", "Workers computing.", (double)server->tasks.n_running);
    hs__metric_print(out, "headscope_held_bytes", "Request bodies and answers in memory.",
                     (double)atomic_load(&server->budget.n_bytes));
    hs__metric_print(out, "headscope_held_limit_bytes", "Limit of held_bytes, for all clients together.",
                     (double)server->budget.max);
    hs__metric_print(out, "headscope_log_lines_dropped_total",
                     "Log lines dropped because standard error was full.", (double)hs__log_dropped());
    hs__metric_print(out, "headscope_uptime_seconds", "Time since the start.",
                     (double)(hs_clock_ns() - server->started_ns) / 1e9);
    if (!server->api)
        return;
    hs_api_cache_stats(server->api, &cache);
    hs__metric_print(out, "headscope_cache_hits_total", "Requests answered from the cache.",
                     (double)cache.hits);
    hs__metric_print(out, "headscope_cache_misses_total", "Requests that needed a forward pass.",
                     (double)cache.misses);
    hs__metric_print(out, "headscope_cache_evictions_total", "Texts removed to make space.",
                     (double)cache.evictions);
    hs__metric_print(out, "headscope_cache_bytes", "Size of the cached heads.", (double)cache.bytes);
}

static void runs_print(const hs_server *server, FILE *out)
{
    hs_runs_counts n;
    if (!server->runs)
        return;
    hs__runs_count(server->runs, &n);
    hs__metric_print(out, "headscope_corpus_running", "1 during a corpus run.", n.running);
    hs__metric_print(out, "headscope_corpus_runs_done_total", "Corpus runs that completed.", (double)n.done);
    hs__metric_print(out, "headscope_corpus_runs_failed_total", "Corpus runs that failed.", (double)n.failed);
    hs__metric_print(out, "headscope_corpus_runs_cancelled_total", "Corpus runs that were cancelled.",
                     (double)n.cancelled);
    hs__metric_print(out, "headscope_corpus_texts_total", "Texts counted in corpus runs.", (double)n.texts);
    hs__metric_print(out, "headscope_corpus_bad_lines_total", "Lines of corpus runs without a valid text.",
                     (double)n.bad_lines);
    hs__metric_print(out, "headscope_state_bytes",
                     "Size of the files of corpus runs, reserved space included.", (double)n.bytes);
    hs__metric_print(out, "headscope_state_limit_bytes", "Limit of state_bytes.", (double)n.bytes_max);
}

static void probe_answer_metrics(hs_exchange *x)
{
    char *text = NULL;
    size_t n_bytes = 0;
    FILE *out = open_memstream(&text, &n_bytes);
    if (out) {
        hs__metrics_print(&x->server->metrics, out);
        gauges_print(x->server, out);
        runs_print(x->server, out);
        hs__metrics_print_process(out);
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

static void viewer_answer(hs_exchange *x)
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

/* ---- routes ----
 *
 * All routes: the loop answers from memory, disk calls use files and the database, workers
 * compute. docs/explanation/tour.md follows the first row from socket to reply. */

static const hs_route first_rows[] = {
    {.method = "POST", .path = "/analyze", .place = HS_PLACE_WORKER, .operation = HS_ANALYZE},
    {.method = "POST", .path = "/tokenize", .place = HS_PLACE_WORKER, .operation = HS_TOKENIZE},
    {.method = "GET", .path = "/models", .place = HS_PLACE_WORKER, .operation = HS_MODELS},
    {.method = "GET",
     .path = "/openapi.json",
     .place = HS_PLACE_WORKER,
     .operation = HS_OPENAPI,
     .open = true},
    {.method = "GET", .path = "/health", .place = HS_PLACE_LOOP, .answer = probe_answer_health, .open = true},
    {.method = "GET", .path = "/ready", .place = HS_PLACE_LOOP, .answer = probe_answer_ready, .open = true},
    {.method = "GET", .path = "/metrics", .place = HS_PLACE_LOOP, .answer = probe_answer_metrics},
};

static const hs_route last_rows[] = {
    {.method = "GET",
     .path = "/*",
     .place = HS_PLACE_LOOP,
     .answer = viewer_answer,
     .has = viewer_has,
     .open = true},
};

static const hs_route_table first = {first_rows, sizeof first_rows / sizeof *first_rows},
                            last = {last_rows, sizeof last_rows / sizeof *last_rows};

static const hs_route_table *const tables[] = {&first, &hs__model_routes, &hs__run_routes, &last, NULL};

const hs_routes hs__routes = {tables};
