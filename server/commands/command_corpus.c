/* command_corpus.c - a run from the command line: its options, its shard, how many workers fit, and how far
 * it is. */
#include "server/base/catalog.h"
#include "server/base/cores.h"
#include "server/commands/commands.h"
#include "server/corpus/corpus_needs.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define LINE_SECONDS 5 /* between two lines of progress where there is no terminal */
#define BAR_CELLS    24

enum { INTERVENTIONS_BYTES = 1 << 16 };

typedef struct corpus_options {
    hs_catalog_options catalog;
    const char *settings[HS__SETTINGS], *dir, *shard, *pairs;
    size_t n_workers;
    uint64_t save_ms;
    size_t resume, strict; /* flags */
} corpus_options;

static hs_status set_model(const hs_option *option, const char *value, void *ret, hs_error *err)
{
    corpus_options *options = ret;
    (void)option;
    return hs__catalog_choose(&options->catalog, value, err);
}

#define AT(field) offsetof(corpus_options, field)
static const hs_option corpus_table[] = {
    {"output", 'o', "DIR", "where the run's state and its reports go (needed)", hs__set_string, AT(dir), 0, 0,
     NULL},
    {"model", 0, "DIR|NAME", HS_MODEL_HELP, set_model, 0, 0, 0, NULL},
    {"max-tokens", 0, "N", "cut texts after this many tokens (128, or as far as the model reaches)",
     hs__set_string, AT(settings[HS__SETTING_MAX_TOKENS]), 0, 0, NULL},
    {"thresholds", 0, "LIST",
     "of high similarity (0.1,0.2,0.3,0.4,0.5); maps are kept at the one nearest 0.3", hs__set_string,
     AT(settings[HS__SETTING_THRESHOLDS]), 0, 0, NULL},
    {"layers", 0, "LIST", "all, last, or numbers like 0,3,-1 (all)", hs__set_string,
     AT(settings[HS__SETTING_LAYERS]), 0, 0, NULL},
    {"attention-threshold", 0, "T", "of high attention, in (0, 1] (0.3)", hs__set_string,
     AT(settings[HS__SETTING_ATTENTION_THRESHOLD]), 0, 0, NULL},
    {"special-tokens", 0, "HOW", "keep, or mask: those around a text are left out of every figure (keep)",
     hs__set_choice, AT(settings[HS__SETTING_SPECIAL_TOKENS]), 0, 0, "keep|mask"},
    {"split-special-tokens", 0, NULL, "[MASK] in a text is only text", hs__set_string,
     AT(settings[HS__SETTING_SPLIT_SPECIAL_TOKENS]), 0, 0, NULL},
    {"sentence-ends", 0, "LIST", "tokens that end a sentence (.,!,?)", hs__set_string,
     AT(settings[HS__SETTING_SENTENCE_ENDS]), 0, 0, NULL},
    {"interventions", 0, "FILE", "what to change in which heads, as JSON: a run to put beside one without",
     hs__set_string, AT(settings[HS__SETTING_INTERVENTIONS]), 0, 0, NULL},
    {"similarity-space", 0, "SPACE", "of what heads put out or of what they write: head or residual (head)",
     hs__set_string, AT(settings[HS__SETTING_SIMILARITY_SPACE]), 0, 0, NULL},
    {"head-distances", 0, "KIND", "between all heads: none, cka of outputs or js of attention (none)",
     hs__set_string, AT(settings[HS__SETTING_HEAD_DISTANCES]), 0, 0, NULL},
    {"masked-share", 0, "SHARE", "of tokens to mask and predict, in a pass more: accuracy and loss (0)",
     hs__set_string, AT(settings[HS__SETTING_MASKED_SHARE]), 0, 0, NULL},
    {"mask-seed", 0, "N", "which tokens these are (0)", hs__set_string, AT(settings[HS__SETTING_MASK_SEED]),
     0, 0, NULL},
    {"input-format", 0, "NAME", "of the files: " HS__INPUT_FORMAT_NAMES " (auto)", hs__set_choice,
     AT(settings[HS__SETTING_INPUT_FORMAT]), 0, 0, HS__INPUT_FORMAT_NAMES},
    {"field", 0, "NAME", "of JSON objects (a.b looks into a), or a column's name: where the text is (text)",
     hs__set_string, AT(settings[HS__SETTING_FIELD]), 0, 0, NULL},
    {"workers", 0, "N", "threads (one per core)", hs__set_count, AT(n_workers), 1, 1000, NULL},
    {"resume", 0, NULL, "go on with the run that DIR holds", hs__set_count, AT(resume), 0, 1, NULL},
    {"shard", 0, "I/N", "count only part I (from 0) of N; 'merge' joins them", hs__set_string, AT(shard), 0,
     0, NULL},
    {"pairs", 0, "FILE", "write every high pair as CSV, packed where FILE ends in .gz", hs__set_string,
     AT(pairs), 0, 0, NULL},
    {"strict", 0, NULL, "stop at the first bad line", hs__set_count, AT(strict), 0, 1, NULL},
    {"save", 0, "SECONDS", "between two saves (30)", hs__set_seconds, AT(save_ms), 0.001, 86400, NULL},
    {"backend", 0, "NAME", "native, openblas or onednn (native)", hs__set_choice, AT(catalog.backend), 0, 0,
     HS_BACKEND_NAMES},
    {"precision", 0, "NAME", "of products with weights: fp32, or bf16 or int8 where the CPU has it (fp32)",
     hs__set_choice, AT(catalog.precision), 0, 0, HS_PRECISION_NAMES},
};

/* ---- progress ---- */

typedef struct teller {
    bool terminal;
    double told; /* seconds of the run */
    uint64_t n_bad;
    json_t *bad; /* the bad lines there were when there were n_bad, or NULL */
} teller;

static const char *duration(double seconds, char ret[32])
{
    const long s = seconds < 1e8 ? lround(seconds) : 0;
    if (s >= 3600)
        snprintf(ret, 32, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(ret, 32, "%ld:%02ld", s / 60, s % 60);
    return ret;
}

static void progress_print(const hs__corpus_progress *p, void *data)
{
    teller *t = data;
    char bar[BAR_CELLS + 1], left[64] = "", time[32], bad[48] = "";
    if (p->bad_lines != t->n_bad) {
        json_decref(t->bad);
        t->bad = hs__corpus_bad_save(p->bad, NULL);
        t->n_bad = p->bad_lines;
    }
    if (!t->terminal && p->seconds - t->told < LINE_SECONDS)
        return;
    t->told = p->seconds;
    if (hs__corpus_seconds_left(p) >= 0)
        snprintf(left, sizeof left, ", %s left", duration(hs__corpus_seconds_left(p), time));
    if (p->bad_lines)
        snprintf(bad, sizeof bad, ", %llu bad lines", (unsigned long long)p->bad_lines);
    if (!t->terminal) {
        if (p->share >= 0)
            snprintf(bar, sizeof bar, ", %.0f %%", 100 * p->share);
        fprintf(stderr, "%llu texts, %.1f/s%s%s%s\n", (unsigned long long)p->texts, p->texts_per_second,
                p->share >= 0 ? bar : "", left, bad);
        return;
    }
    memset(bar, ' ', BAR_CELLS);
    bar[BAR_CELLS] = '\0';
    memset(bar, '#', (size_t)(BAR_CELLS * fmin(fmax(p->share, 0), 1)));
    if (p->share >= 0)
        fprintf(stderr, "\r[%s] %3.0f %% ", bar, 100 * p->share);
    fprintf(stderr, "%s%llu texts, %.1f/s%s%s\033[K", p->share < 0 ? "\r" : " ", (unsigned long long)p->texts,
            p->texts_per_second, left, bad);
}

/* ---- stopping ---- */

static atomic_int stop;

static void on_signal(int number)
{
    atomic_store(&stop, number);
}

/* The first ^C saves and ends; a second one ends at once, as if it were kill -9. */
static void signals_catch(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* ---- the shard ---- */

static bool number_read(const char *text, size_t *ret)
{
    char *end;
    if (!text || *text < '0' || *text > '9')
        return false;
    *ret = strtoul(text, &end, 10);
    return !*end;
}

/* From the schedulers that start one process a shard. False when none did. */
static bool shard_of_environment(size_t *ret_shard, size_t *ret_n)
{
    static const char *const names[][2] = {
        {"JOB_COMPLETION_INDEX", "JOB_COMPLETIONS"},       /* Kubernetes; the second is set in our manifest */
        {"SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT"}, /* arrays may begin anywhere */
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t first = 0;
        if (!number_read(getenv(names[i][0]), ret_shard) || !number_read(getenv(names[i][1]), ret_n))
            continue;
        if (i == 1 && number_read(getenv("SLURM_ARRAY_TASK_MIN"), &first) && first <= *ret_shard)
            *ret_shard -= first;
        return true;
    }
    return false;
}

/* The shard, and the folder: one of a scheduler's many gets its own inside DIR. */
static hs_status shard_choose(const corpus_options *o, hs__corpus_job *job, char *ret_dir, size_t dir_size,
                              hs_error *err)
{
    char first[32] = "";
    const char *slash = o->shard ? strchr(o->shard, '/') : NULL;
    job->n_shards = 1;
    snprintf(ret_dir, dir_size, "%s", o->dir);
    if (o->shard) {
        snprintf(first, sizeof first, "%.*s", (int)(slash ? slash - o->shard : 0), o->shard);
        if (!slash || !number_read(first, &job->shard) || !number_read(slash + 1, &job->n_shards))
            return hs_fail(err, HS_INVALID, "--shard '%s': expected I/N, as in 0/4", o->shard);
    } else if (shard_of_environment(&job->shard, &job->n_shards) && job->n_shards > 1) {
        snprintf(ret_dir, dir_size, "%s/shard-%zu-of-%zu", o->dir, job->shard, job->n_shards);
    }
    if (o->pairs && !o->shard && job->n_shards > 1)
        return hs_fail(err, HS_INVALID,
                       "--pairs: %zu processes would write one FILE: give each its own, and its --shard I/N",
                       job->n_shards);
    if (job->shard >= job->n_shards || job->n_shards > 100000)
        return hs_fail(err, HS_INVALID, "shard %zu of %zu: the number must be below, counted from 0",
                       job->shard, job->n_shards);
    return HS_OK;
}

/* One run a folder at a time: until the program ends. Where there are no locks, as on some network disks, it
 * is on trust. */
static hs_status folder_take(const char *dir, hs_error *err)
{
    const hs_status st = hs__folder_make(dir, err);
    const int fd = st ? -1 : open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        return hs_fail(err, HS_INVALID,
                       "another process is writing to '%.250s': give each run or shard a folder of its own",
                       dir);
    return st;
}

/* ---- the command ---- */

static void bad_lines_print(const json_t *bad, char *const *inputs)
{
    const json_t *lines = json_object_get(bad, "lines");
    const size_t n = json_array_size(lines);
    for (size_t i = 0; i < n && i < 10; i++) {
        const json_t *line = json_array_get(lines, i);
        fprintf(stderr, "  %s:%lld: %s\n", inputs[json_integer_value(json_object_get(line, "file"))],
                json_integer_value(json_object_get(line, "line")),
                json_string_value(json_object_get(line, "why")));
    }
    if (n)
        fprintf(stderr, "%lld bad lines were passed over; report.json lists up to %d\n",
                json_integer_value(json_object_get(bad, "count")), HS__CORPUS_BAD_LISTED_MAX);
}

/* The whole run must fit before it begins; of the workers those that do. */
static hs_status room_find(hs__corpus_job *job, hs_error *err)
{
    hs__corpus_needs needs;
    const size_t n_wanted = job->n_workers;
    hs_status st = hs__corpus_needs_measure(job, &needs, err);
    if (!st)
        st = hs__corpus_workers_fit(&needs, hs__corpus_memory_free(), n_wanted, &job->n_workers, err);
    if (st)
        return st;
    const uint64_t free_bytes = hs__corpus_disk_free(job->dir), there = hs__folder_bytes(job->dir);
    if (needs.disk > free_bytes && needs.disk - free_bytes > there)
        return hs_fail(err, HS_TOO_LARGE, "the run needs %llu MB in '%.200s', where %llu MB are free",
                       (unsigned long long)(needs.disk >> 20), job->dir,
                       (unsigned long long)(free_bytes >> 20));
    if (job->n_workers < n_wanted)
        fprintf(stderr, "headscope corpus: memory is enough for %zu of %zu workers\n", job->n_workers,
                n_wanted);
    return HS_OK;
}

/* What the file holds, in place of its name; NULL stays. */
static hs_status interventions_load(const char **setting, char ret_text[INTERVENTIONS_BYTES], hs_error *err)
{
    if (!*setting)
        return HS_OK;
    FILE *file = fopen(*setting, "re");
    const size_t n = file ? fread(ret_text, 1, INTERVENTIONS_BYTES, file) : 0;
    const bool whole = file && !ferror(file) && n < INTERVENTIONS_BYTES;
    if (!whole)
        hs_fail(err, HS_IO, "--interventions: cannot read '%.200s' (of less than %d bytes)", *setting,
                INTERVENTIONS_BYTES);
    if (file)
        fclose(file);
    if (!whole)
        return HS_IO;
    ret_text[n] = '\0';
    *setting = n ? ret_text : " ";
    return HS_OK;
}

static hs_status job_fill(const corpus_options *o, const hs_catalog *catalog, hs__corpus_job *job,
                          hs_error *err)
{
    hs__setting wrong;
    hs_error why = {0};
    char interventions[INTERVENTIONS_BYTES];
    const char *settings[HS__SETTINGS];
    memcpy(settings, o->settings, sizeof settings);
    hs_status st = interventions_load(&settings[HS__SETTING_INTERVENTIONS], interventions, err);
    if (st)
        return st;
    job->model = catalog->models[0];
    job->engine = catalog->engines[0];
    st = hs__corpus_settings_read(settings, job->model, &job->settings, &wrong, &why);
    if (!st)
        return room_find(job, err);
    char name[40];
    snprintf(name, sizeof name, "%s", hs__setting_name(wrong));
    for (char *c = name; *c; c++)
        *c = (char)(*c == '_' ? '-' : *c);
    return hs_fail(err, st, "--%s %s", name, why.text);
}

static int corpus_run(const hs_command *command, corpus_options *o, char *const *inputs, size_t n_inputs)
{
    char dir[4096], name[256];
    const hs_model_place *place = hs__catalog_place(&o->catalog, 0);
    hs_error err = {0};
    hs_catalog catalog = {0};
    teller t = {.terminal = isatty(STDERR_FILENO)};
    hs__corpus_job job = {.inputs = (const char *const *)inputs,
                          .n_inputs = n_inputs,
                          .dir = dir,
                          .model_name = name,
                          .pairs = o->pairs,
                          .n_workers = o->n_workers,
                          .save_ms = o->save_ms,
                          .resume = o->resume != 0,
                          .strict = o->strict != 0,
                          .stop = &stop,
                          .progress = progress_print,
                          .progress_data = &t};
    snprintf(name, sizeof name, "%.*s", (int)place->n_name, place->name);
    signals_catch();
    hs_status st = shard_choose(o, &job, dir, sizeof dir, &err);
    if (!st)
        st = folder_take(dir, &err);
    if (!st)
        st = hs_runtime_create(o->catalog.n_threads, &o->catalog.runtime, &err);
    if (!st)
        st = hs__catalog_open(&o->catalog, &catalog, &err);
    if (!st)
        st = job_fill(o, &catalog, &job, &err);
    if (!st) {
        st = hs__corpus_run(&job, &err);
        if (t.terminal)
            fputc('\n', stderr);
    }
    hs__corpus_settings_finish(&job.settings);
    hs__catalog_close(&catalog);
    hs_runtime_destroy(o->catalog.runtime);
    if (!st) {
        bad_lines_print(t.bad, inputs);
        printf("%s/report.html\n", dir);
    }
    json_decref(t.bad);
    if (st == HS_CANCELLED) {
        fprintf(stderr, "headscope corpus: stopped and saved. The same command with --resume goes on.\n");
        return HS_EXIT_SIGNAL + atomic_load(&stop);
    }
    return st ? hs__command_failed(command, &err) : HS_EXIT_DONE;
}

static int corpus_main(const hs_command *command, int argc, char **argv)
{
    corpus_options options = {.catalog.n_threads = 1, /* a worker is a thread */
                              .n_workers = hs__cores_usable(),
                              .save_ms = 30000};
    int operand, exit_code;
    if (!hs__options_parse(command, argc, argv, &options, &operand, &exit_code))
        return exit_code;
    if (!options.dir)
        return hs__usage_error(command, "where to? Name a folder with -o DIR");
    if (operand == argc)
        return hs__usage_error(command, "which texts? Name files, or - for standard input");
    if (options.pairs && options.resume)
        return hs__usage_error(
            command, "--pairs writes the pairs of a whole run: with --resume those counted before would be "
                     "missing. Begin anew in another folder");
    if (argc - operand > HS__CORPUS_FILES_MAX)
        return hs__usage_error(command, "at most %d files", HS__CORPUS_FILES_MAX);
    return corpus_run(command, &options, argv + operand, (size_t)(argc - operand));
}

const hs_command hs__command_corpus = {
    .name = "corpus",
    .operands = "FILE...",
    .summary = "Every figure of the paper over any number of texts",
    .details =
        "Files hold a text a line: plain, or JSON (objects with text, or strings); or a JSON array, CSV or "
        "TSV with\n"
        "a header, CoNLL-U, paragraphs. What they are is seen, gzip and zstd are fine, - is standard input.\n"
        "DIR gets report.html, report.json and report.npz. ^C saves; --resume goes on, also "
        "after a crash.\n"
        "Under Kubernetes indexed jobs, Slurm arrays and Open MPI each process takes its own shard, "
        "in a folder of\n"
        "its own inside DIR.",
    .options = corpus_table,
    .n_options = sizeof corpus_table / sizeof *corpus_table,
    .main = corpus_main,
};
