/* passes.c - build/bench/passes: one model on this machine, as tables and as JSON.
 *
 * This file measures start-up and memory, and describes the machine. passes_steps.c, passes_stacks.c,
 * passes_encoding.c and passes_experiments.c do the other measurements. */
#include "tests/bench/passes.h"

#include "server/base/atomic_files.h"
#include "server/base/machine.h"
#include "tests/bench/measure.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uv.h>

typedef struct bench_options {
    hs_catalog_options catalog;
    const char *json; /* file to write, or NULL */
    bool quick;
    size_t n_tokens;
} bench_options;

/* A line of /proc/self/status in bytes ("VmRSS", "VmHWM"), 0 where there is none. */
static size_t memory_read(const char *field)
{
    char line[256];
    size_t kilobytes = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, field, strlen(field)) == 0 && line[strlen(field)] == ':')
            kilobytes = strtoul(line + strlen(field) + 1, NULL, 10);
    if (file)
        fclose(file);
    return 1024 * kilobytes;
}

/* "32K, 1M, 32M" */
static void caches_write(hs_caches caches, char ret_text[64])
{
    const size_t sizes[] = {caches.first, caches.second, caches.third};
    int n = 0;
    for (size_t l = 0; l < sizeof sizes / sizeof *sizes; l++) {
        const bool whole = sizes[l] > 0 && sizes[l] % (1 << 20) == 0;
        n += snprintf(ret_text + n, 20, "%s%zu%c", l > 0 ? ", " : "", sizes[l] >> (whole ? 20 : 10),
                      whole ? 'M' : 'K');
    }
}

static json_t *machine_tell(const hs_runtime *runtime, size_t n_cores)
{
    uv_cpu_info_t *cpus = NULL;
    int n_cpus = 0;
    char date[32] = "";
    const time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc))
        strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", &utc);
    const bool known = uv_cpu_info(&cpus, &n_cpus) == 0 && n_cpus > 0;
    const char *cpu = known ? cpus[0].model : "unknown CPU";
    char caches[64];
    caches_write(hs_runtime_caches(runtime), caches);
    printf("%s, %zu cores, %s kernels, caches of %s, %s\n", cpu, n_cores, hs_runtime_kernels(runtime), caches,
           date);
    json_t *machine = json_pack("{s:s, s:I, s:s, s:s, s:s}", "cpu", cpu, "cores", (json_int_t)n_cores,
                                "kernels", hs_runtime_kernels(runtime), "caches", caches, "date", date);
    if (known)
        uv_free_cpu_info(cpus, n_cpus);
    return machine;
}

/* Opens the model as `serve` does, with a workspace for every worker. */
static hs_status start(bench_options *options, hs_api **ret_api, hs_error *err, double *ret_ms)
{
    const double begin = hs_clock_ms();
    options->catalog.api.n_workers = options->catalog.n_threads;
    const hs_status st = hs__catalog_open(&options->catalog, ret_api, err);
    *ret_ms = hs_clock_ms() - begin;
    return st;
}

static json_t *model_tell(const hs_served_model *served, double ms)
{
    const hs_model *model = hs_served_weights(served);
    const size_t resident = memory_read("VmRSS"), on_disk = hs_model_bytes(model);
    const hs_shape *s = hs_model_shape(model);
    const char *backend = hs_engine_products(hs_served_engine(served));
    const char *precision = hs_engine_precision(hs_served_engine(served));
    printf("%zu layers, %zu heads, hidden %zu, feed-forward %zu; %s, %s\n", s->n_layers, s->n_heads,
           s->hidden, s->ffn, backend, precision);
    printf("loaded in %.0f ms; %.1f MB of weights on disk, %.1f MB resident\n\n", ms, (double)on_disk / 1e6,
           (double)resident / 1e6);
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:f, s:I}", "layers", (json_int_t)s->n_layers,
                     "heads", (json_int_t)s->n_heads, "hidden", (json_int_t)s->hidden, "ffn",
                     (json_int_t)s->ffn, "vocabulary", (json_int_t)s->vocab_size, "weight_bytes",
                     (json_int_t)on_disk, "backend", backend, "precision", precision, "load_ms", ms,
                     "resident_bytes", (json_int_t)resident);
}

/* Takes over value, which may be NULL for no memory. */
static hs_status figures_put(json_t *figures, const char *name, json_t *value, hs_error *err)
{
    return json_object_set_new(figures, name, value) ? hs_fail(err, HS_NO_MEMORY, "no memory for the figures")
                                                     : HS_OK;
}

/* Measures passes and, unless only one length is wanted, answers and experiments. */
static hs_status parts_measure(const bench_subject *subject, json_t *figures, hs_error *err)
{
    static const struct {
        const char *name;
        hs_status (*measure)(const bench_subject *subject, json_t **ret_figures, hs_error *err);
    } parts[] = {{"passes", passes_measure},
                 {"stacks", stacks_measure},
                 {"encoding", encoding_measure},
                 {"experiments", experiments_measure}};
    const size_t n_parts = subject->n_tokens ? 2 : sizeof parts / sizeof *parts;
    hs_status st = HS_OK;
    for (size_t i = 0; !st && i < n_parts; i++) {
        json_t *made = NULL;
        st = parts[i].measure(subject, &made, err);
        if (!st)
            st = figures_put(figures, parts[i].name, made, err);
        printf("\n");
    }
    return st;
}

static hs_status bench_run(bench_options *options, json_t *figures, hs_error *err)
{
    hs_api *api = NULL;
    hs_served_model *served = NULL;
    bench_subject subject = {
        .n_cores = options->catalog.n_threads, .quick = options->quick, .n_tokens = options->n_tokens};
    double ms;
    json_object_set_new(figures, "machine", machine_tell(options->catalog.runtime, subject.n_cores));
    hs_status st = start(options, &api, err, &ms);
    if (st)
        goto out;
    served = hs_api_model_use(api, NULL);
    subject.api = api;
    subject.engine = hs_served_engine(served);
    subject.decoder = hs_served_decoder(served);
    st = figures_put(figures, "model", model_tell(served, ms), err);
    if (!st)
        st = parts_measure(&subject, figures, err);
    if (st)
        goto out;
    const size_t peak = memory_read("VmHWM");
    printf("at most %.1f MB were resident\n", (double)peak / 1e6);
    st = figures_put(figures, "resident_bytes_max", json_integer((json_int_t)peak), err);
out:
    hs_api_model_release(api, served);
    hs_api_destroy(api);
    return st;
}

/* Measures and writes the figures to file (NULL: only prints them). The file is opened before the
 * measurements, so a missing folder is reported at once. */
static hs_status figures_write(FILE *file, void *data, hs_error *err)
{
    json_t *figures = json_object();
    hs_status st = bench_run(data, figures, err);
    if (!st && file && json_dumpf(figures, file, JSON_INDENT(1) | JSON_REAL_PRECISION(6)))
        st = hs_fail(err, HS_IO, "cannot write the figures");
    json_decref(figures);
    return st;
}

static const char usage[] =
    "usage: passes [--model DIR] [--backend NAME] [--precision NAME] [--cores N] [--quick]\n"
    "              [--tokens N] [--json FILE]\n";

/* Returns false if an option is not known or its value is wrong. */
static bool options_read(int argc, char **argv, bench_options *ret, hs_error *err)
{
    static const struct option longs[] = {
        {"model", required_argument, NULL, 'm'},     {"backend", required_argument, NULL, 'b'},
        {"precision", required_argument, NULL, 'p'}, {"cores", required_argument, NULL, 'c'},
        {"quick", no_argument, NULL, 'q'},           {"tokens", required_argument, NULL, 't'},
        {"json", required_argument, NULL, 'j'},      {0}};
    bool good = true;
    for (int code; good && (code = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
        if (code == 'm')
            good = hs__catalog_choose(&ret->catalog, optarg, err) == HS_OK;
        else if (code == 'b')
            ret->catalog.backend = optarg;
        else if (code == 'p')
            ret->catalog.precision = optarg;
        else if (code == 'c')
            ret->catalog.n_threads = strtoul(optarg, NULL, 10);
        else if (code == 'q')
            ret->quick = true;
        else if (code == 't')
            ret->n_tokens = strtoul(optarg, NULL, 10);
        else if (code == 'j')
            ret->json = optarg;
        else
            good = false;
    }
    return good && optind == argc && ret->catalog.n_threads > 0;
}

int main(int argc, char **argv)
{
    bench_options options = {.catalog.n_threads = hs__cores_usable(),
                             .catalog.api.cache_bytes_max = (size_t)1 << 30};
    hs_error err = {0};
    if (!options_read(argc, argv, &options, &err)) {
        fprintf(stderr, "%s%s", usage, err.text);
        return 2;
    }
    hs_status st = hs_runtime_create(options.catalog.n_threads, &options.catalog.runtime, &err);
    if (!st)
        st = options.json ? hs__path_write(options.json, figures_write, &options, &err)
                          : figures_write(NULL, &options, &err);
    hs_runtime_destroy(options.catalog.runtime);
    if (st)
        fprintf(stderr, "passes: %s\n", err.text);
    return st ? 1 : 0;
}
