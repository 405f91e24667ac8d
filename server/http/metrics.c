/* metrics.c - counts, logs and prints what happens to requests. */
#include "server/http/metrics.h"

#include "model/base/bytes.h"
#include "model/base/clock.h"
#include "server/base/log.h"
#include "server/base/version.h"
#include "server/http/exchange.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Upper bounds in seconds, from a cached answer to the default deadline. */
static const double bounds[HS_METRIC_BUCKETS - 1] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                                     0.25,   0.5,   1,      2.5,   5,    10,    60};
static const char *const stage_names[1 + HS_STAGE_COUNT] = {"queue", "tokenize", "forward", "analyze",
                                                            "encode"};

void hs__histogram_add(hs_histogram *histogram, double seconds)
{
    size_t bucket = 0;
    while (bucket < HS_METRIC_BUCKETS - 1 && seconds > bounds[bucket])
        bucket++;
    histogram->buckets[bucket]++;
    histogram->count++;
    histogram->sum += seconds;
}

static void head_print(FILE *out, const char *name, const char *type, const char *help)
{
    fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* Prints one metric with # HELP and # TYPE: a counter if its name ends in _total, else a gauge. */
static void metric_print(FILE *out, const char *name, const char *help, double value)
{
    head_print(out, name, hs_ends_with(name, "_total") ? "counter" : "gauge", help);
    fprintf(out, "%s %.17g\n", name, value);
}

/* label is "" or `stage="forward"`. */
static void histogram_print(FILE *out, const char *name, const char *label, const hs_histogram *histogram)
{
    const char *comma = *label ? "," : "", *open = *label ? "{" : "", *close = *label ? "}" : "";
    uint64_t below = 0;
    for (size_t i = 0; i < HS_METRIC_BUCKETS; i++) {
        char bound[24] = "+Inf";
        if (i < HS_METRIC_BUCKETS - 1)
            snprintf(bound, sizeof bound, "%g", bounds[i]);
        below += histogram->buckets[i];
        fprintf(out, "%s_bucket{%s%sle=\"%s\"} %llu\n", name, label, comma, bound, (unsigned long long)below);
    }
    fprintf(out, "%s_sum%s%s%s %.9f\n", name, open, label, close, histogram->sum);
    fprintf(out, "%s_count%s%s%s %llu\n", name, open, label, close, (unsigned long long)histogram->count);
}

/* Maps unknown methods to "other": each method is a series, and clients can invent any number. */
static const char *method_known(const char *method)
{
    static const char *const known[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "none"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(method, known[i]) == 0)
            return known[i];
    return "other";
}

/* Counts one request. method is any that a client sent; model is "" if it is not known. */
static void metrics_count(hs_metrics *metrics, const char *method, const char *route, int status,
                          const char *model)
{
    const char *known = method_known(method);
    hs_metric_series *s = metrics->series, *end = s + metrics->n_series;
    while (s < end && (s->status != status || strcmp(s->method, known) != 0 || strcmp(s->route, route) != 0 ||
                       strcmp(s->model, model) != 0))
        s++;
    if (s == end && metrics->n_series == HS_METRIC_SERIES_MAX) {
        s--; /* the last series counts the rest */
    } else if (s == end) {
        *s = (hs_metric_series){.method = known, .route = route, .status = status};
        snprintf(s->model, sizeof s->model, "%s", model);
        metrics->n_series++;
    }
    s->count++;
}

/* Prints a label's value, escaped: a model's name may hold any byte. */
static void label_print(FILE *out, const char *text)
{
    for (; *text; text++)
        if (*text == '\n')
            fputs("\\n", out);
        else if (*text == '"' || *text == '\\')
            fprintf(out, "\\%c", *text);
        else
            fputc(*text, out);
}

static void requests_print(const hs_metrics *metrics, FILE *out)
{
    head_print(out, "headscope_requests_total", "counter",
               "Requests that ended; status 499: the client left.");
    for (const hs_metric_series *s = metrics->series; s < metrics->series + metrics->n_series; s++) {
        fprintf(out, "headscope_requests_total{method=\"%s\",route=\"%s\",status=\"%d\",model=\"", s->method,
                s->route, s->status);
        label_print(out, s->model);
        fprintf(out, "\"} %llu\n", (unsigned long long)s->count);
    }
}

static void totals_print(const hs_metrics *metrics, FILE *out)
{
    head_print(out, "headscope_build_info", "gauge", "Always 1; the label is the version.");
    fprintf(out, "headscope_build_info{version=\"" HS_VERSION "\"} 1\n");
    requests_print(metrics, out);
    head_print(out, "headscope_loop_lag_seconds", "histogram",
               "Delay of a timer on the event loop, measured ten times a second.");
    histogram_print(out, "headscope_loop_lag_seconds", "", &metrics->lag);
    head_print(out, "headscope_request_seconds", "histogram",
               "Time from the end of the headers to the end of the answer.");
    histogram_print(out, "headscope_request_seconds", "", &metrics->total);
    head_print(out, "headscope_stage_seconds", "histogram",
               "Time in each stage of the requests that a worker computed.");
    for (int stage = 0; stage <= HS_STAGE_COUNT; stage++) {
        char label[32];
        snprintf(label, sizeof label, "stage=\"%s\"", stage_names[stage]);
        histogram_print(out, "headscope_stage_seconds", label, &metrics->stages[stage]);
    }
    metric_print(out, "headscope_tokens_total", "Tokens computed by a model.", (double)metrics->tokens);
    metric_print(out, "headscope_body_bytes_received_total", "Bytes of request bodies.",
                 (double)metrics->bytes_in);
    metric_print(out, "headscope_body_bytes_sent_total", "Bytes of answer bodies.",
                 (double)metrics->bytes_out);
    metric_print(out, "headscope_connections_total", "Connections accepted.", (double)metrics->connections);
    metric_print(out, "headscope_connections_cut_off_total",
                 "Connections closed because they missed a deadline.", (double)metrics->cut_off);
    metric_print(out, "headscope_connections_refused_total",
                 "Connections refused because their address had too many.", (double)metrics->crowded);
    metric_print(out, "headscope_requests_in_flight", "Requests being received, computed or answered.",
                 (double)metrics->in_flight);
}

static size_t descriptors_count(void)
{
    size_t n = 0;
    DIR *folder = opendir("/proc/self/fd");
    if (!folder)
        return 0;
    while (readdir(folder))
        n++;
    closedir(folder);
    return n > 3 ? n - 3 : 0; /* ".", ".." and the descriptor of this folder */
}

/* Reads fields 20 (start, in ticks since boot) and 21 (virtual bytes) of /proc/self/stat, counted from the
 * third one. Both are 0 if unknown. */
static void stat_read(double *ret_start_s, double *ret_virtual)
{
    char text[1024];
    FILE *file = fopen("/proc/self/stat", "re");
    const size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    text[n] = '\0';
    if (file)
        fclose(file);
    char *at = strrchr(text, ')'); /* end of the program's name, which may hold any byte */
    for (int field = 0; at && field < 20; field++)
        at = strchr(at + 1, ' ');
    *ret_start_s = at ? strtod(at, &at) / (double)sysconf(_SC_CLK_TCK) : 0;
    *ret_virtual = at ? strtod(at, NULL) : 0;
}

static double resident_bytes(void)
{
    unsigned long long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "re");
    if (statm) {
        /* NOLINTNEXTLINE(cert-err34-c): the count is checked */
        if (fscanf(statm, "%*u %llu", &pages) != 1)
            pages = 0;
        fclose(statm);
    }
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static double seconds_of(clockid_t clock)
{
    struct timespec now = {0};
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Prints this process's memory, descriptors, CPU time and start under the standard process_ names. */
static void process_print(FILE *out)
{
    struct rlimit limit = {0};
    double start_s, virtual;
    stat_read(&start_s, &virtual);
    getrlimit(RLIMIT_NOFILE, &limit);
    metric_print(out, "process_cpu_seconds_total", "User and system CPU time.",
                 seconds_of(CLOCK_PROCESS_CPUTIME_ID));
    metric_print(out, "process_resident_memory_bytes", "Resident memory.", resident_bytes());
    metric_print(out, "process_virtual_memory_bytes", "Virtual memory.", virtual);
    metric_print(out, "process_open_fds", "Open file descriptors.", (double)descriptors_count());
    metric_print(out, "process_max_fds", "Limit of open file descriptors.", (double)limit.rlim_cur);
    metric_print(out, "process_start_time_seconds", "Start time in seconds since 1970.",
                 seconds_of(CLOCK_REALTIME) - seconds_of(CLOCK_BOOTTIME) + start_s);
}

static void gauges_print(const hs_server *server, FILE *out)
{
    hs_cache_stats cache = {0};
    metric_print(out, "headscope_ready", "1 while the server accepts requests.",
                 server->state == HS_SERVER_SERVING);
    metric_print(out, "headscope_connections", "Open connections.", (double)server->n_connections);
    metric_print(out, "headscope_queue_depth", "Requests waiting for a worker.",
                 (double)server->tasks.queue.n_waiting);
    metric_print(out, "headscope_queue_limit", "Limit of queue_depth.", (double)server->options->queue_max);
    metric_print(out, "headscope_disk_queue_depth", "Requests waiting for a disk or a database.",
                 (double)server->disk.queue.n_waiting);
    metric_print(out, "headscope_queue_dropped_total",
                 "Waiting requests refused for a client with fewer of them.",
                 (double)(server->tasks.queue.n_dropped + server->disk.queue.n_dropped));
    metric_print(out, "headscope_packed_requests_total", "Requests computed in one pass with others.",
                 (double)server->tasks.n_shared);
    metric_print(out, "headscope_workers", "Worker threads.", (double)server->tasks.options.n_workers);
    metric_print(out, "headscope_workers_busy", "Workers computing.", (double)server->tasks.n_running);
    metric_print(out, "headscope_held_bytes", "Request bodies and answers in memory.",
                 (double)atomic_load(&server->budget.n_bytes));
    metric_print(out, "headscope_held_limit_bytes", "Limit of held_bytes, for all clients together.",
                 (double)server->budget.max);
    metric_print(out, "headscope_log_lines_dropped_total",
                 "Log lines dropped because standard error was full.", (double)hs__log_dropped());
    metric_print(out, "headscope_uptime_seconds", "Time since the start.",
                 (double)(hs_clock_ns() - server->started_ns) / 1e9);
    if (!server->api)
        return;
    hs_api_cache_stats(server->api, &cache);
    metric_print(out, "headscope_cache_hits_total", "Requests answered from the cache.", (double)cache.hits);
    metric_print(out, "headscope_cache_misses_total", "Requests that needed a forward pass.",
                 (double)cache.misses);
    metric_print(out, "headscope_cache_evictions_total", "Texts removed to make space.",
                 (double)cache.evictions);
    metric_print(out, "headscope_cache_bytes", "Size of the cached heads.", (double)cache.bytes);
}

static void runs_print(const hs_server *server, FILE *out)
{
    hs_runs_counts n;
    if (!server->runs)
        return;
    hs__runs_count(server->runs, &n);
    metric_print(out, "headscope_corpus_running", "1 during a corpus run.", n.running);
    metric_print(out, "headscope_corpus_runs_done_total", "Corpus runs that completed.", (double)n.done);
    metric_print(out, "headscope_corpus_runs_failed_total", "Corpus runs that failed.", (double)n.failed);
    metric_print(out, "headscope_corpus_runs_cancelled_total", "Corpus runs that were cancelled.",
                 (double)n.cancelled);
    metric_print(out, "headscope_corpus_texts_total", "Texts counted in corpus runs.", (double)n.texts);
    metric_print(out, "headscope_corpus_bad_lines_total", "Lines of corpus runs without a valid text.",
                 (double)n.bad_lines);
    metric_print(out, "headscope_state_bytes", "Size of the files of corpus runs, reserved space included.",
                 (double)n.bytes);
    metric_print(out, "headscope_state_limit_bytes", "Limit of state_bytes.", (double)n.bytes_max);
}

void hs__metrics_print(const hs_server *server, FILE *out)
{
    totals_print(&server->metrics, out);
    gauges_print(server, out);
    runs_print(server, out);
    process_print(out);
}

/* ---- requests ----
 *
 * Counts each request and writes one log line for it. In text, the fields are in the order in which
 * people look: client, request, outcome. */

enum { FIELDS_MAX = 24 };

static double stage_ms(const hs_exchange *x, int stage)
{
    return stage ? x->response.stage_ms[stage - 1] : (double)(x->task.started_ns - x->task.queued_ns) / 1e6;
}

void hs__request_stages(hs_exchange *x)
{
    size_t used = 0;
    for (int i = 0; i <= HS_STAGE_COUNT && used < sizeof x->stages; i++)
        used += (size_t)snprintf(x->stages + used, sizeof x->stages - used, "%s%s;dur=%.3f", i ? ", " : "",
                                 stage_names[i], stage_ms(x, i));
}

/* Returns the status that libmicrohttpd answered with by itself, or 0. */
static int status_of_library(const hs_exchange *x)
{
    int status = 0;
#if MHD_VERSION >= 0x00097400
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(x->mhd, MHD_CONNECTION_INFO_HTTP_STATUS);
    status = info ? (int)info->http_status : 0;
#endif
    return x->answered ? 0 : status;
}

static int status_final(const hs_exchange *x)
{
    const bool replied = x->answered && x->task.work.end != HS_WORK_ABANDONED;
    const int status = replied ? x->response.status : status_of_library(x);
    if (status > 0)
        return status;
    return x->connection->too_slow ? MHD_HTTP_REQUEST_TIMEOUT
                                   : 499; /* nginx's status for clients that left */
}

static void line_log(const hs_exchange *x, int status, uint64_t bytes_out, double ms)
{
    static const char *const stage_fields[] = {"queue_ms", "tokenize_ms", "forward_ms", "analyze_ms",
                                               "encode_ms"};
    char message[24];
    hs_log_field fields[FIELDS_MAX] = {{"client", x->connection->client, 0},
                                       {"method", x->head ? "HEAD" : x->method, 0},
                                       {"path", x->target, 0},
                                       {"status", NULL, status},
                                       {"bytes_in", NULL, (double)x->received_bytes},
                                       {"bytes_out", NULL, (double)bytes_out},
                                       {"ms", NULL, ms},
                                       {"id", x->id, 0}};
    size_t n = 8;
    if (*x->response.model)
        fields[n++] = (hs_log_field){"model", x->response.model, 0};
    for (int i = 0; *x->stages && i <= HS_STAGE_COUNT; i++)
        fields[n++] = (hs_log_field){stage_fields[i], NULL, stage_ms(x, i)};
    if (*x->trace.trace_id) {
        fields[n++] = (hs_log_field){"trace_id", x->trace.trace_id, 0};
        fields[n++] = (hs_log_field){"parent_id", x->trace.parent_id, 0};
    }
    snprintf(message, sizeof message, "request %d", status);
    hs__log_fields(message, fields, n);
}

static void stages_count(const hs_exchange *x)
{
    hs_metrics *metrics = &x->server->metrics;
    for (int i = 0; *x->stages && i <= HS_STAGE_COUNT; i++)
        hs__histogram_add(&metrics->stages[i], stage_ms(x, i) / 1e3);
    metrics->tokens += x->response.n_tokens;
}

void hs__request_record(const hs_exchange *x)
{
    hs_metrics *metrics = &x->server->metrics;
    const bool unread = x->phase == HS_PHASE_OPENED;
    const int status = unread ? status_of_library(x) : status_final(x);
    if (unread && status)
        hs__request_record_unread(x->connection, x->target, status);
    if (unread)
        return;
    const uint64_t bytes_out = x->head ? 0 : x->response.body_bytes;
    const double seconds = (double)(hs_clock_ns() - x->begun_ns) / 1e9;
    metrics_count(metrics, x->head ? "HEAD" : x->method, x->route ? x->route->path : "none", status,
                  x->response.model);
    metrics->bytes_in += x->received_bytes;
    metrics->bytes_out += bytes_out;
    hs__histogram_add(&metrics->total, seconds);
    stages_count(x);
    line_log(x, status, bytes_out, seconds * 1e3);
}

void hs__request_record_unread(const hs_connection *connection, const char *path, int status)
{
    char message[24];
    const hs_log_field fields[] = {
        {"client", connection->client, 0}, {"path", path, 0}, {"status", NULL, status}};
    metrics_count(&connection->server->metrics, "none", "none", status, "");
    snprintf(message, sizeof message, "refused %d", status);
    hs__log_fields(message, fields, sizeof fields / sizeof *fields);
}
