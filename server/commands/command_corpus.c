/* command_corpus.c - `headscope corpus` and `headscope study`: options, paths, shard, number of workers,
 * progress and exit code. */
#include "model/base/read_number.h"
#include "server/base/atomic_files.h"
#include "server/base/catalog.h"
#include "server/base/machine.h"
#include "server/base/printable.h"
#include "server/base/second_signal.h"
#include "server/base/training_point.h"
#include "server/commands/commands.h"
#include "server/commands/compare_runs.h"
#include "server/corpus/counters/pairs_file.h"
#include "server/corpus/report/comparison.h"
#include "server/corpus/report/report.h"
#include "server/corpus/run/corpus_run.h"
#include "server/corpus/run/requirements.h"
#include "server/corpus/run/run_checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* ---- paths ----
 *
 * Refuses a run whose outputs would replace what it reads, or each other. Compares by device and inode. */

static hs_status refuse(const char *output, const char *what, const char *other, hs_error *err)
{
    return hs_fail(err, HS_INVALID, "'%.150s' would replace %s '%.150s': choose another output", output, what,
                   other);
}

static hs_status inputs_check(const hs__corpus_job *job, const char *output, hs_error *err)
{
    for (size_t i = 0; i < job->n_inputs; i++)
        if (hs__path_replaces(output, job->inputs[i]))
            return refuse(output, "the input", job->inputs[i], err);
    return HS_OK;
}

static hs_status model_check(const hs_model_place *model, const char *output, hs_error *err)
{
    char dir[PATH_MAX], path[PATH_MAX + 256];
    hs_error why = {0};
    DIR *folder = model->n_dir && !hs__model_place_dir(model, dir, &why) ? opendir(dir) : NULL;
    hs_status st = HS_OK;
    if (!folder)
        return HS_OK; /* the model is linked in, or its opening fails with a better message */
    for (const struct dirent *entry; !st && (entry = readdir(folder));) {
        snprintf(path, sizeof path, "%s/%s", dir, entry->d_name);
        if (hs__path_replaces(output, path))
            st = refuse(output, "the model's file", path, err);
    }
    closedir(folder);
    return st;
}

/* Checks job->pairs and the files of job->dir against job->inputs, the model's files and `interventions` (a
 * path, or NULL). HS_INVALID names both files. A link counts as the file that it leads to. */
static hs_status corpus_paths_check(const hs__corpus_job *job, const hs_model_place *model,
                                    const char *interventions, hs_error *err)
{
    static const char *const names[] = {HS__RUN_CHECKPOINT_FILE, HS__REPORT_JSON, HS__REPORT_NPZ,
                                        HS__REPORT_HTML};
    char path[PATH_MAX];
    hs_status st = HS_OK;
    for (size_t i = 0; !st && i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", job->dir, names[i]);
        st = inputs_check(job, path, err);
        if (!st && job->pairs && hs__path_replaces(job->pairs->path, path))
            st = refuse(job->pairs->path, "the run's own file", path, err);
    }
    if (st || !job->pairs)
        return st;
    if (interventions && hs__path_replaces(job->pairs->path, interventions))
        return refuse(job->pairs->path, "the interventions", interventions, err);
    st = inputs_check(job, job->pairs->path, err);
    if (!st)
        st = model_check(model, job->pairs->path, err);
    if (st || !model->tokenizer)
        return st;
    const hs_model_place words = {.dir = model->tokenizer, .n_dir = strlen(model->tokenizer)};
    return model_check(&words, job->pairs->path, err);
}

/* ---- command corpus ----
 *
 * `headscope corpus`: options, shard, number of workers, progress and exit code. */

#define LINE_SECONDS 5 /* interval of progress lines without a terminal */
#define BAR_CELLS    24

enum { INTERVENTIONS_BYTES = 1 << 16 };

typedef struct corpus_options {
    hs_catalog_options catalog;
    const char *settings[HS__SETTINGS_MAX], *dir, *shard, *pairs;
    size_t n_workers;
    uint64_t save_ms;
    size_t resume, restart, strict, csv_safe; /* flags */
    const char *pairs_heads, *pairs_min, *pairs_sample;
    size_t pairs_strongest, pairs_seed;
} corpus_options;

#define AT(field) offsetof(corpus_options, field)

/* The options that are no settings of the run. */
static const hs_option own_options[] = {
    {.name = "output",
     .letter = 'o',
     .argument = "DIR",
     .help = "folder for the checkpoint and the reports (required)",
     .set = hs__set_string,
     .offset = AT(dir)},
    {.name = "model",
     .argument = HS_MODEL_ARGUMENT,
     .help = "a folder, GGUF file, org/name of the hub, or " HS_EMBEDDED_NAME " (" HS_EMBEDDED_NAME
             "); repeat it to compare",
     .set = hs__add_model,
     .offset = AT(catalog)},
    {.name = "tokenizer",
     .argument = "DIR",
     .help = HS_TOKENIZER_HELP,
     .set = hs__set_tokenizer,
     .offset = AT(catalog)},
    {.name = "untrained",
     .argument = "SEED",
     .help = HS_UNTRAINED_HELP,
     .set = hs__set_untrained,
     .offset = AT(catalog)},
    {.name = "workers",
     .argument = "N",
     .help = "threads (one per core)",
     .set = hs__set_count,
     .offset = AT(n_workers),
     .min = 1,
     .max = 1000},
    {.name = "resume",
     .help = "continue the run in DIR",
     .set = hs__set_count,
     .offset = AT(resume),
     .max = 1},
    {.name = "restart",
     .help = "begin the run in DIR anew; its checkpoint is removed",
     .set = hs__set_count,
     .offset = AT(restart),
     .max = 1},
    {.name = "shard",
     .argument = "I/N",
     .help = "count only shard I (from 0) of N; 'merge' joins shards",
     .set = hs__set_string,
     .offset = AT(shard)},
    {.name = "pairs",
     .argument = "FILE",
     .help = "write high pairs: CSV (.csv, .csv.gz) or a database (.sqlite, .db)",
     .set = hs__set_string,
     .offset = AT(pairs)},
    {.name = "pairs-strongest",
     .argument = "K",
     .help = "only the K strongest pairs of each text and head",
     .set = hs__set_count,
     .offset = AT(pairs_strongest),
     .min = 1,
     .max = HS__PAIRS_STRONGEST_MAX},
    {.name = "pairs-heads",
     .argument = "LIST",
     .help = "only pairs of these heads: layer.head, like 5.3,7.0",
     .set = hs__set_string,
     .offset = AT(pairs_heads)},
    {.name = "pairs-min",
     .argument = "T",
     .help = "smallest normalised similarity, in (0, 1] (the threshold nearest 0.3)",
     .set = hs__set_string,
     .offset = AT(pairs_min)},
    {.name = "pairs-sample",
     .argument = "SHARE",
     .help = "only this fraction of the rows, drawn at random, in (0, 1]",
     .set = hs__set_string,
     .offset = AT(pairs_sample)},
    {.name = "csv-safe",
     .help = "in CSV of --pairs, put ' before text that a spreadsheet takes for a formula",
     .set = hs__set_count,
     .offset = AT(csv_safe),
     .max = 1},
    {.name = "pairs-seed",
     .argument = "N",
     .help = "seed of --pairs-sample (0)",
     .set = hs__set_count,
     .offset = AT(pairs_seed),
     .max = 9007199254740992},
    {.name = "strict",
     .help = "stop at the first bad line",
     .set = hs__set_count,
     .offset = AT(strict),
     .max = 1},
    {.name = "save",
     .argument = "SECONDS",
     .help = "interval of checkpoints (30)",
     .set = hs__set_seconds,
     .offset = AT(save_ms),
     .min = 0.001,
     .max = 86400},
    {.name = "backend",
     .argument = "NAME",
     .help = "matrix products: native, or cblas, which loads OpenBLAS (native)",
     .set = hs__set_choice,
     .offset = AT(catalog.backend),
     .choices = HS_BACKEND_NAMES},
    {.name = "precision",
     .argument = "NAME",
     .help = "of matrix products: fp32, or int24, bf16 or int8 where the CPU has it (fp32)",
     .set = hs__set_choice,
     .offset = AT(catalog.precision),
     .choices = HS_PRECISION_NAMES},
};

/* The options that --help shows before the settings: --output, --model and what follows it. */
enum { N_OWN = sizeof own_options / sizeof *own_options, N_FIRST = 4 };

/* Returns true for an option that a study chooses itself, or that is of a single run. */
static bool is_of_one_run(const char *name)
{
    static const char *const names[] = {"center", "control", "shard", "csv-safe", "resume"};
    bool found = strncmp(name, "pairs", strlen("pairs")) == 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        found |= strcmp(name, names[i]) == 0;
    return found;
}

static void table_fill(hs__option_table *table, bool of_study)
{
    for (size_t i = 0; i < N_FIRST; i++)
        hs__option_add(table, &own_options[i]);
    for (size_t k = 0; k < hs__settings_count(); k++) {
        const hs_field *field = hs__setting_field(k);
        if (of_study && is_of_one_run(field->name))
            continue;
        hs__option_add_field(table, field, field->kind == HS_FIELD_ENUM ? hs__set_choice : hs__set_string,
                             AT(settings[0]) + k * sizeof(const char *));
    }
    for (size_t i = N_FIRST; i < N_OWN; i++)
        if (!of_study || !is_of_one_run(own_options[i].name))
            hs__option_add(table, &own_options[i]);
}

/* ---- progress ---- */
typedef struct teller {
    bool terminal;
    double reported; /* seconds of the run */
    uint64_t n_bad, n_empty;
    json_t *bad; /* the list when there were n_bad, or NULL */
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
    char bar[BAR_CELLS + 1], left[64] = "", time[32], bad[96] = "";
    if (p->bad_lines != t->n_bad) {
        json_decref(t->bad);
        t->bad = hs__bad_lines_save(p->bad, NULL);
        t->n_bad = p->bad_lines;
    }
    t->n_empty = p->empty_texts;
    if (!t->terminal && p->seconds - t->reported < LINE_SECONDS)
        return;
    t->reported = p->seconds;
    if (hs__corpus_seconds_left(p) >= 0)
        snprintf(left, sizeof left, ", %s left", duration(hs__corpus_seconds_left(p), time));
    const int n_bad =
        p->bad_lines ? snprintf(bad, sizeof bad, ", %llu bad lines", (unsigned long long)p->bad_lines) : 0;
    if (p->empty_texts)
        snprintf(bad + n_bad, sizeof bad - (size_t)n_bad, ", %llu empty", (unsigned long long)p->empty_texts);
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

static void expected_print(const hs__expected_file *e, void *data)
{
    const teller *t = data;
    if (t->terminal)
        fputs("\r\033[K", stderr);
    fprintf(stderr, "%s: about %.0f rows, %.1f MB ", e->name, e->rows, e->bytes / (1 << 20));
    if (e->texts)
        fprintf(stderr, "expected for %llu texts\n", (unsigned long long)e->texts);
    else
        fprintf(stderr, "for each %llu texts; the input's number of texts is not known\n",
                (unsigned long long)e->texts_seen);
}

/* ---- stopping ---- */
static atomic_int stop;

static void on_signal(int number)
{
    static atomic_ullong first_ns;
    if (!atomic_load(&stop)) {
        atomic_store(&first_ns, hs_clock_ns());
        atomic_store(&stop, number);
    } else if (hs__signal_is_second(atomic_load(&first_ns))) {
        signal(number, SIG_DFL);
        raise(number);
    }
}

/* The system sends it each second once the limit of CPU time is reached. */
static void on_cpu_limit(int number)
{
    int none = 0;
    (void)atomic_compare_exchange_strong(&stop, &none, number);
}

/* The first ^C saves and ends; a second one ends at once, without a save. */
static void signals_catch(void)
{
    struct sigaction action = {.sa_handler = on_signal}, cpu = {.sa_handler = on_cpu_limit};
    sigaction(SIGXCPU, &cpu, NULL);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* ---- the shard ---- */
static bool number_read(const char *text, size_t *ret)
{
    int64_t number;
    if (!text || hs_integer_read(text, NULL, 0, INT64_MAX, &number))
        return false;
    *ret = (size_t)number;
    return true;
}

/* Reads the shard from the environment of a scheduler. False: there is none. */
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

/* Chooses the shard and its folder: a shard of a scheduler gets a folder inside DIR. */
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
                       "--pairs: %zu processes would write one FILE; give each its own FILE and --shard I/N",
                       job->n_shards);
    if (job->shard >= job->n_shards || job->n_shards > 100000)
        return hs_fail(err, HS_INVALID,
                       "shard %zu of %zu: shards are numbered from 0 to N - 1, and N is at most 100000",
                       job->shard, job->n_shards);
    return HS_OK;
}

/* Makes the folder and locks it until the program ends. Some network disks have no locks; there it only makes
 * it. */
static hs_status folder_take(const char *dir, hs_error *err)
{
    const hs_status st = hs__folder_make(dir, err);
    const int fd = st ? -1 : open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        return hs_fail(err, HS_BUSY,
                       "another process is writing to '%.250s': give each run or shard a folder of its own",
                       dir);
    return st;
}

/* Makes and locks the folder, and refuses outputs that would replace what the run reads. */
static hs_status outputs_take(const corpus_options *o, const hs__corpus_job *job, hs_error *err)
{
    const hs_status st = folder_take(job->dir, err);
    return st ? st
              : corpus_paths_check(job, hs__catalog_place(&o->catalog, 0),
                                   o->settings[hs__setting_find("interventions")], err);
}

/* ---- the command ---- */
static void bad_lines_print(const json_t *bad, const char *const *inputs)
{
    const json_t *lines = json_object_get(bad, "lines");
    const size_t n = json_array_size(lines);
    for (size_t i = 0; i < n && i < 10; i++) {
        const json_t *line = json_array_get(lines, i);
        hs__print(stderr, "  %s:%lld: %s\n", inputs[json_integer_value(json_object_get(line, "file"))],
                  json_integer_value(json_object_get(line, "line")),
                  json_string_value(json_object_get(line, "why")));
    }
    if (n)
        fprintf(stderr, "%lld bad lines were skipped; report.json lists up to %d\n",
                json_integer_value(json_object_get(bad, "count")), HS__BAD_LINES_LISTED_MAX);
}

/* Checks that the run fits into memory and on the disk, and reduces the workers to those that fit. */
static hs_status capacity_check(hs__corpus_job *job, hs_error *err)
{
    hs__requirements needs;
    const size_t n_requested = job->n_workers;
    hs_status st = hs__requirements_measure(job, &needs, err);
    const hs__run_memory memory = hs__corpus_memory_free();
    if (!st)
        st = hs__corpus_workers_fit(&needs, &memory, n_requested, &job->n_workers, err);
    if (st)
        return st;
    hs_error why = {0};
    st = hs__corpus_disk_fits(&needs, job->dir, hs__folder_bytes(job->dir), &why);
    if (st)
        return hs_fail(err, st, "%s. Free some or choose another -o", why.text);
    if (job->n_workers < n_requested)
        fprintf(stderr, "headscope corpus: using %zu of %zu workers: memory is short\n", job->n_workers,
                n_requested);
    return HS_OK;
}

/* Reads a number in (0, 1]; NULL is 0. name: the option's. */
static hs_status fraction_read(const char *name, const char *text, double *ret, hs_error *err)
{
    *ret = 0;
    if (text && (hs_real_read(text, NULL, ret) || !(*ret > 0 && *ret <= 1)))
        return hs_fail(err, HS_INVALID, "--%s must be a number in (0, 1]; it is \"%.40s\"", name, text);
    return HS_OK;
}

static hs_status filter_read(const corpus_options *o, const hs__corpus_job *job, hs__pairs_filter *filter,
                             hs_error *err)
{
    double least;
    hs_error why = {0};
    *filter = (hs__pairs_filter){.strongest = o->pairs_strongest, .seed = o->pairs_seed};
    hs_status st = fraction_read("pairs-min", o->pairs_min, &least, err);
    if (!st)
        st = fraction_read("pairs-sample", o->pairs_sample, &filter->sample, err);
    if (st)
        return st;
    filter->least = (float)least;
    if (o->pairs_heads)
        st =
            hs__pairs_filter_heads(o->pairs_heads, job->settings.fields.layers, job->settings.fields.n_layers,
                                   hs_engine_shape(job->engine)->n_heads, filter, &why);
    return st ? hs_fail(err, st, "--pairs-heads %s", why.text) : HS_OK;
}

/* Replaces the name of a file by its content; NULL stays. */
static hs_status interventions_load(const char **setting, char ret_text[INTERVENTIONS_BYTES], hs_error *err)
{
    if (!*setting)
        return HS_OK;
    FILE *file = fopen(*setting, "re");
    const size_t n = file ? fread(ret_text, 1, INTERVENTIONS_BYTES, file) : 0;
    const bool whole = file && !ferror(file) && n < INTERVENTIONS_BYTES;
    if (!whole)
        hs_fail(err, HS_IO, "--interventions: cannot read '%.200s'; it must be a file of less than %d bytes",
                *setting, INTERVENTIONS_BYTES);
    if (file)
        fclose(file);
    if (!whole)
        return HS_IO;
    ret_text[n] = '\0';
    *setting = n ? ret_text : " ";
    return HS_OK;
}

static hs_status job_fill(const corpus_options *o, const hs_catalog_model *model, hs__corpus_job *job,
                          hs__pairs_filter *filter, hs_error *err)
{
    size_t wrong;
    hs_error why = {0};
    char interventions[INTERVENTIONS_BYTES];
    const char *settings[HS__SETTINGS_MAX];
    memcpy(settings, o->settings, sizeof settings);
    hs_status st = interventions_load(&settings[hs__setting_find("interventions")], interventions, err);
    if (st)
        return st;
    job->model = model->model;
    st = hs__corpus_settings_read(settings, job->model, &job->settings, &wrong, &why);
    if (!st && settings[hs__setting_find("mask_seed")] && !settings[hs__setting_find("masked_share")])
        return hs_fail(err, HS_INVALID, "--mask-seed is of --masked-share; give the fraction of tokens, too");
    if (!st) {
        hs__corpus_stack_choose(job, model->engine, model->decoder);
        st = filter_read(o, job, filter, err);
        return st ? st : capacity_check(job, err);
    }
    char name[64];
    return hs_fail(err, st, "--%s%s", hs__name_with(hs__setting_field(wrong)->name, '_', '-', name),
                   why.text);
}

/* Opens the model, reads the settings and runs the job. */
static hs_status job_run(corpus_options *o, hs_catalog_model *model, hs__corpus_job *job,
                         hs__pairs_filter *filter, hs_error *err)
{
    hs_status st = hs_runtime_create(o->catalog.n_threads, &o->catalog.runtime, err);
    if (!st)
        st = hs__catalog_model_open(&o->catalog, hs__catalog_place(&o->catalog, 0), model, err);
    if (!st)
        st = job_fill(o, model, job, filter, err);
    if (st)
        return st;
    st = hs__corpus_run(job, err);
    if (isatty(STDERR_FILENO))
        fputc('\n', stderr); /* ends the line of progress */
    return st;
}

/* Prints what the run left out, and where its report is. */
static void outcome_print(const hs__corpus_job *job, const teller *t)
{
    bad_lines_print(t->bad, job->inputs);
    if (t->n_empty)
        fprintf(stderr, "%llu empty texts were skipped\n", (unsigned long long)t->n_empty);
    hs__path_print(job->dir, "report.html");
}

/* Reports a failure. A run that lacked something or could not be read or written can go on later. */
static int failure_print(const hs_command *command, const hs__corpus_job *job, hs_status st,
                         const hs_error *err)
{
    const int exit_code = hs__command_failed(command, err);
    const bool later = st == HS_NO_SPACE || st == HS_NO_MEMORY || st == HS_IO;
    if (later && !job->pairs && !hs__run_checkpoint_find(job->dir, NULL))
        fprintf(stderr,
                "The last checkpoint is whole. Remove the cause, then run the same command with --resume to "
                "continue.\n");
    return exit_code;
}

static int exit_code_of(const hs_command *command, const hs__corpus_job *job, hs_status st,
                        const hs_error *err)
{
    if (st != HS_CANCELLED)
        return st ? failure_print(command, job, st, err) : HS_EXIT_DONE;
    fprintf(stderr, "headscope corpus: %s%s. Run the same command with --resume to continue.\n",
            atomic_load(&stop) == SIGXCPU ? "the limit of CPU time is reached (ulimit -t): " : "", err->text);
    return HS_EXIT_SIGNAL + atomic_load(&stop);
}

/* Runs one model: the only one of the options. */
static int corpus_run(const hs_command *command, corpus_options *o, char *const *inputs, size_t n_inputs,
                      size_t *ret_n_shards)
{
    char dir[4096];
    hs_error err = {0};
    hs_catalog_model model = {0};
    teller t = {.terminal = isatty(STDERR_FILENO)};
    hs__training_point training;
    hs__pairs_options pairs = {.path = o->pairs, .csv_safe = o->csv_safe != 0};
    const bool has_point = hs__training_point_find(hs__catalog_place(&o->catalog, 0), &training);
    hs__corpus_job job = {.inputs = (const char *const *)inputs,
                          .n_inputs = n_inputs,
                          .dir = dir,
                          .model_name = hs__catalog_place(&o->catalog, 0)->name,
                          .training = has_point ? &training : NULL,
                          .pairs = o->pairs ? &pairs : NULL,
                          .n_workers = o->n_workers,
                          .save_ms = o->save_ms,
                          .resume = o->resume != 0,
                          .restart = o->restart != 0,
                          .strict = o->strict != 0,
                          .stop = &stop,
                          .progress = progress_print,
                          .expect = expected_print,
                          .progress_data = &t};
    signals_catch();
    hs_status st = shard_choose(o, &job, dir, sizeof dir, &err);
    const bool was_there = access(dir, F_OK) == 0;
    if (!st)
        st = outputs_take(o, &job, &err);
    if (!st)
        st = job_run(o, &model, &job, &pairs.filter, &err);
    if (!st)
        outcome_print(&job, &t);
    else if (!was_there)
        rmdir(dir); /* fails, as it should, once the run has written something */
    *ret_n_shards = job.n_shards;
    json_decref(t.bad);
    hs__corpus_settings_finish(&job.settings);
    hs__catalog_model_close(&model);
    hs_runtime_destroy(o->catalog.runtime);
    return exit_code_of(command, &job, st, &err);
}

/* ---- several models ---- */

/* Refuses names that cannot be folders of their own, and what only one run can use. */
static int models_check(const hs_command *command, const corpus_options *o, char *const *inputs,
                        size_t n_inputs)
{
    for (size_t i = 0; i < o->catalog.n_places; i++) {
        const char *name = o->catalog.places[i].name;
        if (strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
            return hs__usage_error(command, "--model: '%s' cannot be a folder's name; use NAME=DIR", name);
        if (hs__catalog_find(&o->catalog, name) < i)
            return hs__usage_error(command, "--model: two models are called '%s'; give each a name, NAME=DIR",
                                   name);
    }
    for (size_t i = 0; i < n_inputs; i++)
        if (strcmp(inputs[i], "-") == 0)
            return hs__usage_error(
                command, "standard input can be read for one model only; write the texts to a file");
    return o->pairs ? hs__usage_error(command, "--pairs writes one FILE: run each model by itself")
                    : HS_EXIT_DONE;
}

/* A run of one model in a folder of its own. */
typedef struct one_run {
    char dir[4096], name[128];
} one_run;

/* Runs the k-th model of the options. */
static int model_run(const hs_command *command, const corpus_options *o, size_t k, const one_run *run,
                     char *const *inputs, size_t n_inputs, size_t *ret_n_shards)
{
    corpus_options one = *o;
    one.catalog.places[0] = *hs__catalog_place(&o->catalog, k);
    one.catalog.n_places = 1;
    one.dir = run->dir;
    const bool was_there = access(o->dir, F_OK) == 0;
    const int exit_code = corpus_run(command, &one, inputs, n_inputs, ret_n_shards);
    if (exit_code && !was_there)
        rmdir(o->dir); /* fails, as it should, if the run has written something */
    return exit_code;
}

static hs_status comparison_write(const json_t *comparison, const char *dir, hs_error *err)
{
    static const char *const names[] = {HS__COMPARISON_JSON, HS__COMPARISON_CSV, HS__COMPARISON_HTML};
    hs_status st = HS_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names && !st; i++) {
        char path[4200];
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        st = hs__comparison_write(comparison, path, err);
    }
    return st;
}

/* Writes the comparison of runs into their common folder. */
static int runs_compare(const hs_command *command, const corpus_options *o, const one_run *runs, size_t n)
{
    const char *dirs[HS__COMPARED_RUNS_MAX], *names[HS__COMPARED_RUNS_MAX];
    json_t *comparison = NULL;
    hs_error err = {0};
    for (size_t i = 0; i < n; i++) {
        dirs[i] = runs[i].dir;
        names[i] = runs[i].name;
    }
    hs_status st = hs__folders_compare(dirs, names, n, &comparison, &err);
    if (!st)
        st = comparison_write(comparison, o->dir, &err);
    if (!st)
        hs__comparison_warnings_print(comparison, command->name);
    json_decref(comparison);
    if (st)
        return hs__command_failed(command, &err);
    hs__path_print(o->dir, HS__COMPARISON_HTML);
    return HS_EXIT_DONE;
}

/* Runs the models one after the other, each in a folder of its own inside DIR, and compares them. */
static int models_run(const hs_command *command, const corpus_options *o, char *const *inputs,
                      size_t n_inputs)
{
    static one_run runs[HS_CATALOG_MAX];
    size_t n_shards = 1;
    int exit_code = models_check(command, o, inputs, n_inputs);
    for (size_t i = 0; !exit_code && i < o->catalog.n_places; i++) {
        const char *name = o->catalog.places[i].name;
        snprintf(runs[i].name, sizeof runs[i].name, "%s", name);
        snprintf(runs[i].dir, sizeof runs[i].dir, "%s/%s", o->dir, name);
        hs__print(stderr, "model %zu of %zu: %s\n", i + 1, o->catalog.n_places, name);
        exit_code = model_run(command, o, i, &runs[i], inputs, n_inputs, &n_shards);
    }
    if (exit_code)
        return exit_code;
    if (n_shards == 1)
        return runs_compare(command, o, runs, o->catalog.n_places);
    fprintf(stderr,
            "headscope corpus: 'merge' joins each model's shards; 'report' then compares the models\n");
    return HS_EXIT_DONE;
}

/* Checks the options of pairs; returns HS_EXIT_DONE if they agree. */
static int pairs_check(const hs_command *command, const corpus_options *o)
{
    if (o->pairs && o->resume)
        return hs__usage_error(command, "--pairs cannot be used with --resume: pairs of earlier sessions "
                                        "would be missing. Start again in another folder");
    if (o->pairs && !hs__ending_is_known(o->pairs, "csv|gz|sqlite|db"))
        return hs__usage_error(
            command, "--pairs '%s': name a file that ends in .csv, .csv.gz, .sqlite or .db", o->pairs);
    if (!o->pairs &&
        (o->pairs_strongest || o->pairs_heads || o->pairs_min || o->pairs_sample || o->pairs_seed))
        return hs__usage_error(command, "the options --pairs-... select rows of --pairs; name its FILE");
    if (o->pairs_seed && !o->pairs_sample)
        return hs__usage_error(command, "--pairs-seed is of --pairs-sample; give the fraction of rows, too");
    if (o->csv_safe && (!o->pairs || !hs__ending_is_known(o->pairs, "csv|gz")))
        return hs__usage_error(command,
                               "--csv-safe is of CSV; add --pairs with a FILE that ends in .csv or .csv.gz");
    return HS_EXIT_DONE;
}

/* Reads the options. Returns false if everything was said, and *ret_exit is the program's exit code. */
static bool options_read(const hs_command *command, int argc, char **argv, corpus_options *ret_options,
                         int *ret_operand, int *ret_exit)
{
    *ret_options = (corpus_options){.catalog.n_threads = 1, /* a worker is a thread */
                                    .n_workers = hs__cores_usable(),
                                    .save_ms = 30000};
    hs__option_table table = {.n = 0};
    hs_command filled = *command;
    table_fill(&table, command == &hs__command_study);
    filled.options = table.options;
    filled.n_options = table.n;
    if (!hs__options_parse(&filled, argc, argv, ret_options, ret_operand, ret_exit))
        return false;
    const corpus_options *o = ret_options;
    hs__catalog_tell_apart(&ret_options->catalog);
    if (!o->dir)
        *ret_exit = hs__usage_error(command, "no output folder; name one with -o DIR");
    else if (*ret_operand == argc)
        *ret_exit = hs__usage_error(command, "no input; name files, or - for standard input");
    else if (o->resume && o->restart)
        *ret_exit =
            hs__usage_error(command, "--resume continues a run and --restart begins it anew: give one");
    else if (argc - *ret_operand > HS__INPUT_FILES_MAX)
        *ret_exit = hs__usage_error(command, "at most %d files", HS__INPUT_FILES_MAX);
    else
        *ret_exit = pairs_check(command, o);
    return *ret_exit == HS_EXIT_DONE;
}

static int corpus_main(const hs_command *command, int argc, char **argv)
{
    corpus_options options;
    int operand, exit_code;
    if (!options_read(command, argc, argv, &options, &operand, &exit_code))
        return exit_code;
    char *const *inputs = argv + operand;
    const size_t n_inputs = (size_t)(argc - operand);
    size_t n_shards;
    return options.catalog.n_places > 1 ? models_run(command, &options, inputs, n_inputs)
                                        : corpus_run(command, &options, inputs, n_inputs, &n_shards);
}

/* ---- study ----
 *
 * Every model, with plain and with centred outputs, each beside a network with random weights; then all runs
 * together. */

/* Runs a study's models, plain and then centred. A run that was interrupted goes on. */
static int study_run(const hs_command *command, corpus_options *o, char *const *inputs, size_t n_inputs)
{
    static const char *const centers[] = {"none", "text"}, *const words[] = {"plain", "centred"};
    static one_run runs[HS__COMPARED_RUNS_MAX];
    const size_t n_models = hs__catalog_places(&o->catalog), n = 2 * n_models;
    int exit_code = HS_EXIT_DONE;
    o->resume = !o->restart;
    o->shard = "0/1"; /* whatever a scheduler's variables say */
    o->settings[hs__setting_find("control")] = "untrained";
    for (size_t i = 0; !exit_code && i < n; i++) {
        const char *name = hs__catalog_place(&o->catalog, i / 2)->name, *word = words[i % 2];
        size_t n_shards;
        o->settings[hs__setting_find("center")] = centers[i % 2];
        snprintf(runs[i].name, sizeof runs[i].name, "%.100s, %s", name, word);
        snprintf(runs[i].dir, sizeof runs[i].dir, "%s/%s-%s", o->dir, name, word);
        hs__print(stderr, "run %zu of %zu: %s\n", i + 1, n, runs[i].name);
        exit_code = model_run(command, o, i / 2, &runs[i], inputs, n_inputs, &n_shards);
    }
    return exit_code ? exit_code : runs_compare(command, o, runs, n);
}

static int study_main(const hs_command *command, int argc, char **argv)
{
    corpus_options options;
    int operand, exit_code;
    if (!options_read(command, argc, argv, &options, &operand, &exit_code))
        return exit_code;
    char *const *inputs = argv + operand;
    const size_t n_inputs = (size_t)(argc - operand);
    exit_code = models_check(command, &options, inputs, n_inputs);
    if (!exit_code && 2 * hs__catalog_places(&options.catalog) > HS__COMPARED_RUNS_MAX)
        exit_code = hs__usage_error(command, "at most %d models", HS__COMPARED_RUNS_MAX / 2);
    return exit_code ? exit_code : study_run(command, &options, inputs, n_inputs);
}

const hs_command hs__command_corpus = {
    .name = "corpus",
    .operands = "FILE...",
    .operand_words = "text|texts|file|files|input|inputs|corpus",
    .operand_help = "name the FILEs without an option, or - for standard input",
    .summary = "Computes the statistics of the paper over any number of texts",
    .details =
        "FILEs hold one text per line, plain or as JSON (objects with text, or strings), or a JSON "
        "array, CSV or TSV\n"
        "with a header, CoNLL-U, FASTA, or paragraphs. The format is detected; gzip and zstd are unpacked; - "
        "is standard\n"
        "input. DIR receives report.html, report.json and report.npz. ^C saves; --resume continues, "
        "also after a\n"
        "crash. In Kubernetes indexed jobs, Slurm arrays and Open MPI each process counts one shard, "
        "in a folder\n"
        "of its own inside DIR. With several models each has a folder inside DIR, and DIR receives "
        "comparison.html,\n"
        "comparison.json and comparison.csv.",
    .main = corpus_main,
};

const hs_command hs__command_study = {
    .name = "study",
    .operands = "FILE...",
    .operand_words = "text|texts|file|files|input|inputs|corpus",
    .operand_help = "name the FILEs without an option",
    .summary = "Judges the paper's claims for several models, each beside its controls",
    .details =
        "Counts every --model with plain and with centred outputs, each beside a network of its shape with "
        "random\n"
        "weights, in the folders DIR/NAME-plain and DIR/NAME-centred. Then DIR receives comparison.html, "
        "with "
        "all claims\n"
        "and controls side by side, how far runs agree about heads, and every choice that was made. Names of "
        "models say\n"
        "step and seed of a training: NAME-seed1-step1000. Such runs are compared by step, across seeds. The "
        "same command\n"
        "goes on after ^C or a crash; --restart begins anew. Other options are those of 'corpus'.",
    .main = study_main,
};
