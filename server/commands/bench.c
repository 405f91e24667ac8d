/* bench.c - `headscope bench`: one model on this machine, as tables and as JSON. The measurements are in
 * bench_passes.c, bench_encoding.c and bench_experiments.c; here are start-up, memory and what the machine
 * is. */
#include "server/commands/bench.h"
#include "engine/pass/measure.h"
#include "server/base/cores.h"
#include "server/base/whole_files.h"
#include "server/commands/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uv.h>

typedef struct bench_options {
    hs_catalog_options catalog;
    const char *json; /* file to write, or NULL */
    bool quick;
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
static hs_status start(const bench_options *options, hs_catalog *catalog, json_t **ret_figures, hs_error *err)
{
    const size_t n_workers = options->catalog.n_threads;
    hs_api_worker **workers = calloc(n_workers, sizeof(hs_api_worker *));
    if (!workers)
        return hs_fail(err, HS_NO_MEMORY, "no memory for %zu workers", n_workers);
    const double begin = hs_clock_ms();
    hs_status st = hs__catalog_open(&options->catalog, catalog, err);
    for (size_t i = 0; !st && i < n_workers; i++)
        st = hs_api_worker_create(catalog->api, &workers[i], err);
    const double ms = hs_clock_ms() - begin;
    if (!st) {
        const hs_model *model = catalog->models[0];
        const size_t resident = memory_read("VmRSS"), on_disk = hs_model_bytes(model);
        const hs_shape *s = hs_model_shape(model);
        const char *backend = hs_engine_products(catalog->engines[0]);
        const char *precision = hs_engine_precision(catalog->engines[0]);
        printf("%zu layers, %zu heads, hidden %zu, feed-forward %zu; %s, %s\n", s->n_layers, s->n_heads,
               s->hidden, s->ffn, backend, precision);
        printf("loaded in %.0f ms; %.1f MB of weights on disk, %.1f MB resident\n\n", ms,
               (double)on_disk / 1e6, (double)resident / 1e6);
        *ret_figures = json_pack(
            "{s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s, s:f, s:I}", "layers", (json_int_t)s->n_layers, "heads",
            (json_int_t)s->n_heads, "hidden", (json_int_t)s->hidden, "ffn", (json_int_t)s->ffn, "vocabulary",
            (json_int_t)s->vocab_size, "weight_bytes", (json_int_t)on_disk, "backend", backend, "precision",
            precision, "load_ms", ms, "resident_bytes", (json_int_t)resident);
    }
    for (size_t i = 0; i < n_workers; i++)
        hs_api_worker_destroy(workers[i]);
    free(workers);
    return st;
}

static hs_status bench_run(const bench_options *options, json_t *figures, hs_error *err)
{
    hs_catalog catalog = {0};
    const hs_bench_subject subject = {&catalog, options->catalog.n_threads, options->quick};
    json_t *model = NULL, *passes = NULL, *encoding = NULL, *experiments = NULL;
    json_object_set_new(figures, "machine", machine_tell(options->catalog.runtime, subject.n_cores));
    hs_status st = start(options, &catalog, &model, err);
    if (st)
        goto out;
    st = hs__bench_passes(&subject, &passes, err);
    if (st)
        goto out;
    printf("\n");
    st = hs__bench_encoding(&subject, &encoding, err);
    if (st)
        goto out;
    printf("\n");
    st = hs__bench_experiments(&subject, &experiments, err);
    if (st)
        goto out;
    const size_t peak = memory_read("VmHWM");
    printf("\nat most %.1f MB were resident\n", (double)peak / 1e6);
    if (json_object_set(figures, "model", model) || json_object_set(figures, "passes", passes) ||
        json_object_set(figures, "encoding", encoding) ||
        json_object_set(figures, "experiments", experiments) ||
        json_object_set_new(figures, "resident_bytes_max", json_integer((json_int_t)peak)))
        st = hs_fail(err, HS_NO_MEMORY, "no memory for the figures");
out:
    json_decref(experiments);
    json_decref(encoding);
    json_decref(passes);
    json_decref(model);
    hs__catalog_close(&catalog);
    return st;
}

static hs_status set_model(const hs_option *option, const char *value, void *ret, hs_error *err)
{
    bench_options *options = ret;
    (void)option;
    return hs__catalog_choose(&options->catalog, value, err);
}

static hs_status set_quick(const hs_option *option, const char *value, void *ret, hs_error *err)
{
    bench_options *options = ret;
    (void)option;
    (void)value;
    (void)err;
    options->quick = true;
    return HS_OK;
}

#define AT(field) offsetof(bench_options, field)
static const hs_option bench_table[] = {
    {"model", 0, "DIR|NAME", HS_MODEL_HELP, set_model, 0, 0, 0, NULL},
    {"backend", 0, "NAME", "native, openblas or onednn (native)", hs__set_choice, AT(catalog.backend), 0, 0,
     HS_BACKEND_NAMES},
    {"precision", 0, "NAME", "of products with weights: fp32, or bf16 or int8 where the CPU has it (fp32)",
     hs__set_choice, AT(catalog.precision), 0, 0, HS_PRECISION_NAMES},
    {"cores", 0, "N", "to measure on besides one (all)", hs__set_count, AT(catalog.n_threads), 1, 1000, NULL},
    {"quick", 0, NULL, "a rough look: fewer lengths, fewer rounds", set_quick, 0, 0, 0, NULL},
    {"json", 0, "FILE", "write the figures there too", hs__set_string, AT(json), 0, 0, NULL},
};

/* Measures while the file is open: nobody wants to hear after minutes that a folder is missing. NULL: there
 * is none. */
static hs_status figures_write(FILE *file, void *data, hs_error *err)
{
    json_t *figures = json_object();
    hs_status st = bench_run(data, figures, err);
    if (!st && file && json_dumpf(figures, file, JSON_INDENT(1) | JSON_REAL_PRECISION(6)))
        st = hs_fail(err, HS_IO, "cannot write the figures");
    json_decref(figures);
    return st;
}

static int bench_main(const hs_command *command, int argc, char **argv)
{
    bench_options options = {.catalog.n_threads = hs__cores_usable(),
                             .catalog.api.cache_bytes_max = (size_t)1 << 30};
    int operand, exit_code;
    hs_error err = {0};
    if (!hs__options_parse(command, argc, argv, &options, &operand, &exit_code))
        return exit_code;
    if (operand < argc)
        return hs__usage_error(command, "there is nothing to do with '%s'", argv[operand]);
    hs_status st = hs_runtime_create(options.catalog.n_threads, &options.catalog.runtime, &err);
    if (!st)
        st = options.json ? hs__path_write(options.json, figures_write, &options, &err)
                          : figures_write(NULL, &options, &err);
    hs_runtime_destroy(options.catalog.runtime);
    return st ? hs__command_failed(command, &err) : HS_EXIT_DONE;
}

const hs_command hs__command_bench = {
    .name = "bench",
    .operands = "",
    .summary = "Measures a model's speed beside what the machine could do",
    .details = "The floor is the time that the products alone would take at the machine's peak, measured in "
               "the same\n"
               "run: no fp32 pass can be shorter. 'x' columns say how many times the floor a step took.",
    .options = bench_table,
    .n_options = sizeof bench_table / sizeof *bench_table,
    .main = bench_main,
};
