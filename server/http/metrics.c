/* metrics.c - counters become lines of text when somebody asks. */
#include "server/http/metrics.h"

#include <dirent.h>
#include <time.h>
#include <unistd.h>

/* Upper bounds in seconds: from a cached answer to the default deadline. */
static const double bounds[HS_METRIC_BUCKETS - 1] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                                     0.25,   0.5,   1,      2.5,   5,    10,    60};
static const char *const stage_names[HS_STAGE_COUNT] = {"tokenize", "forward", "analyze", "encode"};

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
    fprintf(out, "# HELP headscope_%s %s\n# TYPE headscope_%s %s\n", name, help, name, type);
}

void hs__metric_print(FILE *out, const char *name, const char *type, const char *help, double value)
{
    head_print(out, name, type, help);
    fprintf(out, "headscope_%s %.17g\n", name, value);
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
        fprintf(out, "headscope_%s_bucket{%s%sle=\"%s\"} %llu\n", name, label, comma, bound,
                (unsigned long long)below);
    }
    fprintf(out, "headscope_%s_sum%s%s%s %.9f\n", name, open, label, close, histogram->sum);
    fprintf(out, "headscope_%s_count%s%s%s %llu\n", name, open, label, close,
            (unsigned long long)histogram->count);
}

void hs__metrics_print(const hs_metrics *metrics, const hs_routes *routes, FILE *out)
{
    head_print(out, "requests_total", "counter",
               "Requests answered, by route and status; 499: the client left.");
    for (size_t route = 0; route <= routes->n; route++)
        for (int status = 0; status < HS_METRIC_STATUSES; status++)
            if (metrics->requests[route][status])
                fprintf(out, "headscope_requests_total{route=\"%s\",status=\"%d\"} %llu\n",
                        route < routes->n ? routes->rows[route].path : "none", status,
                        (unsigned long long)metrics->requests[route][status]);
    head_print(out, "request_seconds", "histogram", "From the headers read to the answer sent.");
    histogram_print(out, "request_seconds", "", &metrics->total);
    head_print(out, "stage_seconds", "histogram", "Stages of the requests that went to a worker.");
    histogram_print(out, "stage_seconds", "stage=\"queue\"", &metrics->queue);
    for (int stage = 0; stage < HS_STAGE_COUNT; stage++) {
        char label[32];
        snprintf(label, sizeof label, "stage=\"%s\"", stage_names[stage]);
        histogram_print(out, "stage_seconds", label, &metrics->stages[stage]);
    }
    hs__metric_print(out, "tokens_total", "counter", "Tokens put through a model.", (double)metrics->tokens);
    hs__metric_print(out, "body_bytes_received_total", "counter", "Bytes of request bodies.",
                     (double)metrics->bytes_in);
    hs__metric_print(out, "body_bytes_sent_total", "counter", "Bytes of answers' bodies.",
                     (double)metrics->bytes_out);
    hs__metric_print(out, "connections_total", "counter", "Connections accepted.",
                     (double)metrics->connections);
    hs__metric_print(out, "connections_cut_off_total", "counter", "Connections ended for being too slow.",
                     (double)metrics->cut_off);
    hs__metric_print(out, "connections_refused_total", "counter",
                     "Connections refused for there are too many from their address.",
                     (double)metrics->crowded);
    hs__metric_print(out, "requests_in_flight", "gauge", "Requests being received, computed or answered.",
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
    return n > 3 ? n - 3 : 0; /* ".", ".." and this folder itself */
}

void hs__metrics_print_process(FILE *out)
{
    unsigned long long pages = 0;
    struct timespec cpu = {0};
    FILE *statm = fopen("/proc/self/statm", "re");
    if (statm) {
        /* NOLINTNEXTLINE(cert-err34-c): the count is looked at */
        if (fscanf(statm, "%*u %llu", &pages) != 1)
            pages = 0;
        fclose(statm);
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    hs__metric_print(out, "process_resident_memory_bytes", "gauge", "Resident memory.",
                     (double)pages * (double)sysconf(_SC_PAGESIZE));
    hs__metric_print(out, "process_open_fds", "gauge", "Open file descriptors.", (double)descriptors_count());
    hs__metric_print(out, "process_cpu_seconds_total", "counter", "User and system CPU time.",
                     (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9);
}
