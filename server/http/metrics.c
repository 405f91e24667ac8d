/* metrics.c - formats the metrics. */
#include "server/http/metrics.h"

#include "model/base/bytes.h"
#include "server/base/version.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Upper bounds in seconds, from a cached answer to the default deadline. */
static const double bounds[HS_METRIC_BUCKETS - 1] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                                     0.25,   0.5,   1,      2.5,   5,    10,    60};
const char *const hs__stage_names[1 + HS_STAGE_COUNT] = {"queue", "tokenize", "forward", "analyze", "encode"};

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

void hs__metric_print(FILE *out, const char *name, const char *help, double value)
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

void hs__metrics_count(hs_metrics *metrics, const char *method, const char *route, int status,
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

void hs__metrics_print(const hs_metrics *metrics, FILE *out)
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
        snprintf(label, sizeof label, "stage=\"%s\"", hs__stage_names[stage]);
        histogram_print(out, "headscope_stage_seconds", label, &metrics->stages[stage]);
    }
    hs__metric_print(out, "headscope_tokens_total", "Tokens computed by a model.", (double)metrics->tokens);
    hs__metric_print(out, "headscope_body_bytes_received_total", "Bytes of request bodies.",
                     (double)metrics->bytes_in);
    hs__metric_print(out, "headscope_body_bytes_sent_total", "Bytes of answer bodies.",
                     (double)metrics->bytes_out);
    hs__metric_print(out, "headscope_connections_total", "Connections accepted.",
                     (double)metrics->connections);
    hs__metric_print(out, "headscope_connections_cut_off_total",
                     "Connections closed because they missed a deadline.", (double)metrics->cut_off);
    hs__metric_print(out, "headscope_connections_refused_total",
                     "Connections refused because their address had too many.", (double)metrics->crowded);
    hs__metric_print(out, "headscope_requests_in_flight", "Requests being received, computed or answered.",
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

void hs__metrics_print_process(FILE *out)
{
    struct rlimit limit = {0};
    double start_s, virtual;
    stat_read(&start_s, &virtual);
    getrlimit(RLIMIT_NOFILE, &limit);
    hs__metric_print(out, "process_cpu_seconds_total", "User and system CPU time.",
                     seconds_of(CLOCK_PROCESS_CPUTIME_ID));
    hs__metric_print(out, "process_resident_memory_bytes", "Resident memory.", resident_bytes());
    hs__metric_print(out, "process_virtual_memory_bytes", "Virtual memory.", virtual);
    hs__metric_print(out, "process_open_fds", "Open file descriptors.", (double)descriptors_count());
    hs__metric_print(out, "process_max_fds", "Limit of open file descriptors.", (double)limit.rlim_cur);
    hs__metric_print(out, "process_start_time_seconds", "Start time in seconds since 1970.",
                     seconds_of(CLOCK_REALTIME) - seconds_of(CLOCK_BOOTTIME) + start_s);
}
