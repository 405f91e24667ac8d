/* corpus_run.c - the caller's thread reads and saves, workers count. A save waits until every block that was
 * read is counted: place and sums then say the same. A stop does not wait for blocks that no worker has
 * begun, it steps back before them. */
#include "server/corpus/corpus_run.h"

#include "model/clock.h"
#include "server/corpus/corpus_report.h"
#include "server/corpus/corpus_worker.h"

#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PROGRESS_MS 250

typedef struct run {
    const hs__corpus_job *job;
    hs__corpus_record record; /* stats is borrowed from worker 0 while saving, else NULL */
    hs__corpus_shared shared;
    hs__corpus_worker *workers;
    hs__corpus_input *input;
    uint64_t n_blocks; /* read, this session and before */
    uint64_t texts_before;
    uint64_t n_saves;                    /* of this session */
    double seconds_before, share_before; /* of the sessions before */
    double started, saved, told;         /* seconds of a clock that only runs forward */
} run;

static bool stopped(const run *r)
{
    return r->job->stop && atomic_load(r->job->stop);
}

/* ---- who we are ---- */

/* Total size of the files; null when one is not a regular file. */
static json_t *input_bytes(const hs__corpus_job *job)
{
    json_int_t bytes = 0;
    for (size_t i = 0; i < job->n_inputs; i++) {
        struct stat file;
        if (strcmp(job->inputs[i], "-") == 0 || stat(job->inputs[i], &file) || !S_ISREG(file.st_mode))
            return json_null();
        bytes += (json_int_t)file.st_size;
    }
    return json_integer(bytes);
}

static json_t *identity_make(const run *r)
{
    const hs__corpus_job *job = r->job;
    char sha256[HS_SHA256_HEX];
    hs_model_sha256(job->model, sha256);
    json_t *identity = json_pack(
        "{ss ss ss sI sI sI so}", "model_sha256", sha256, "backend", hs_engine_products(job->engine),
        "precision", hs_engine_precision(job->engine), "model_layers",
        (json_int_t)hs_model_shape(job->model)->n_layers, "n_shards", (json_int_t)job->n_shards,
        "input_files", (json_int_t)job->n_inputs, "input_bytes", input_bytes(job));
    if (identity)
        hs__corpus_settings_identify(&job->settings, job->model, identity);
    return identity;
}

static json_t *names_make(const hs__corpus_job *job)
{
    json_t *inputs = json_array();
    for (size_t i = 0; i < job->n_inputs; i++) {
        json_t *name = json_string(job->input_names ? job->input_names[i] : job->inputs[i]);
        json_array_append_new(inputs, name ? name : json_string("(a name that is not UTF-8)"));
    }
    return json_pack("{ss ss so}", "model", job->model_name, "tokenizer",
                     hs_tokenizer_kind(hs_model_tokenizer(job->model)), "inputs", inputs);
}

/* ---- beginning, anew or where it was ---- */

static hs_status begin_anew(run *r, hs_error *err)
{
    const hs__corpus_job *job = r->job;
    r->record.names = names_make(job);
    r->record.shards = json_pack("[I]", (json_int_t)job->shard);
    r->record.bad = hs__corpus_bad_create();
    r->record.sample = hs__corpus_sample_create(job->settings.n_layers * r->shared.options.n_heads);
    if (!r->record.names || !r->record.shards || !r->record.bad || !r->record.sample)
        return hs_fail(err, HS_NO_MEMORY, "no memory to begin");
    return HS_OK;
}

/* The first it holds. */
static json_int_t shard_of(const hs__corpus_record *record)
{
    return json_integer_value(json_array_get(record->shards, 0));
}

static hs_status begin(run *r, hs_error *err)
{
    const hs__corpus_job *job = r->job;
    char where[300];
    json_t *identity = identity_make(r);
    if (!identity)
        return hs_fail(err, HS_NO_MEMORY, "no memory to begin");
    hs_error why = {0};
    hs_status st = hs__corpus_record_load(job->dir, &r->record, &why);
    if (st == HS_NOT_FOUND) {
        st = begin_anew(r, err);
    } else if (st) {
        hs_fail(err, st, "%s", why.text);
    } else if (job->n_shards > 1 && shard_of(&r->record) != (json_int_t)job->shard) {
        st = hs_fail(err, HS_INVALID, "'%.250s' holds shard %lld: give shard %zu a folder of its own",
                     job->dir, shard_of(&r->record), job->shard);
    } else if (!job->resume) {
        st = hs_fail(err, HS_INVALID,
                     "'%.250s' holds a run already: --resume goes on with it, another -o begins anew",
                     job->dir);
    } else {
        snprintf(where, sizeof where, "the run in '%.250s'", job->dir);
        st = hs__corpus_identity_check(identity, r->record.identity, where, err);
    }
    json_decref(r->record.identity);
    r->record.identity = identity;
    return st;
}

static hs_status workers_start(run *r, hs_error *err)
{
    const size_t n = r->job->n_workers;
    r->shared.bad = r->record.bad;
    r->shared.sample = r->record.sample;
    r->workers = calloc(n, sizeof *r->workers);
    if (!r->workers)
        return hs_fail(err, HS_NO_MEMORY, "no memory for %zu workers", n);
    for (size_t i = 0; i < n; i++) { /* what was counted before goes on in the first worker */
        hs_corpus_stats *stats = r->record.stats;
        r->record.stats = NULL;
        const hs_status st = hs__corpus_worker_init(&r->workers[i], &r->shared, stats, err);
        if (st)
            return st;
    }
    r->texts_before = hs_corpus_stats_texts(r->workers[0].stats);
    /* Signals are for the thread that reads: they shall end a read that waits. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    hs_status st = HS_OK;
    for (size_t i = 0; !st && i < n; i++) {
        if (pthread_create(&r->workers[i].thread, NULL, hs__corpus_worker_main, &r->workers[i]))
            st = hs_fail(err, HS_NO_MEMORY, "the system allows no more threads; try fewer --workers");
        else
            r->workers[i].started = true;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return st;
}

static void workers_stop(run *r)
{
    hs__queue_close(&r->shared.queue);
    for (size_t i = 0; r->workers && i < r->job->n_workers; i++)
        if (r->workers[i].started)
            pthread_join(r->workers[i].thread, NULL);
    for (size_t i = 0; r->workers && i < r->job->n_workers; i++)
        hs__corpus_worker_finish(&r->workers[i]);
    free(r->workers);
}

/* ---- on the way ---- */

double hs__corpus_seconds_left(const hs__corpus_progress *p)
{
    const double gone = p->share - p->share_before;
    return gone > 0 && p->share < 1 && p->seconds > 1 ? p->seconds * (1 - p->share) / gone : -1;
}

static void tell(run *r, bool always)
{
    const double t = hs_clock_seconds();
    if (!r->job->progress || (!always && t - r->told < PROGRESS_MS / 1e3))
        return;
    r->told = t;
    const uint64_t done = atomic_load(&r->shared.n_texts);
    const double seconds = t - r->started;
    r->job->progress(&(hs__corpus_progress){.texts = r->texts_before + done,
                                            .bad_lines = hs__corpus_bad_count(r->record.bad),
                                            .bad = r->record.bad,
                                            .saves = r->n_saves,
                                            .seconds = seconds,
                                            .texts_per_second = seconds > 0 ? (double)done / seconds : 0,
                                            .share_before = r->share_before,
                                            .share = hs__corpus_input_progress(r->input)},
                     r->job->progress_data);
}

static hs_status failure(run *r, hs_error *err)
{
    if (!atomic_load(&r->shared.failed))
        return HS_OK;
    pthread_mutex_lock(&r->shared.failure_lock);
    const hs_status st = r->shared.failure.status;
    hs_fail(err, st, "%s", r->shared.failure.text);
    pthread_mutex_unlock(&r->shared.failure_lock);
    return st;
}

/* What no worker has begun is not waited for, and those who give way to everybody do so no longer, as far as
 * the system allows. */
static void hurry(run *r)
{
    if (hs__queue_drop(&r->shared.queue, &r->record.place))
        r->record.done = false;
    for (size_t i = 0; r->job->yielding && i < r->job->n_workers; i++)
        (void)pthread_setschedparam(r->workers[i].thread, SCHED_OTHER, &(struct sched_param){0});
}

/* Every block read is counted; all statistics are in the first worker's. */
static hs_status gather(run *r, hs_error *err)
{
    hs_corpus_stats *all = r->workers[0].stats;
    for (;;) {
        if (stopped(r))
            hurry(r);
        if (hs__queue_idle(&r->shared.queue, PROGRESS_MS))
            break;
        tell(r, false);
    }
    hs_status st = failure(r, err);
    for (size_t i = 1; !st && i < r->job->n_workers; i++) {
        hs__corpus_worker *worker = &r->workers[i];
        if (!hs_corpus_stats_texts(worker->stats))
            continue;
        st = hs_corpus_stats_merge(all, worker->stats, err);
        hs_corpus_stats_destroy(worker->stats);
        worker->stats = NULL;
        if (!st)
            st = hs_corpus_stats_create(&r->shared.options, &worker->stats, err);
    }
    return st;
}

static bool lists_ids(const char *array)
{
    return strcmp(array, "focus_ids") == 0 || strcmp(array, "focal_ids") == 0;
}

/* The vocabulary entries that the statistics list by id: whoever reads the state later has no model. */
static void focus_name(const hs__corpus_job *job, hs__corpus_record *record)
{
    hs_corpus_array arrays[HS_CORPUS_ARRAYS_MAX];
    int64_t ids[HS_CORPUS_FOCUS_MAX];
    json_t *tokens = json_object();
    const size_t n = hs_corpus_arrays(record->stats, arrays);
    for (size_t k = 0; k < n; k++)
        for (size_t l = 0; lists_ids(arrays[k].name) && l < job->settings.n_layers; l++) {
            hs_corpus_array_read(record->stats, &arrays[k], l * HS_CORPUS_FOCUS_MAX, HS_CORPUS_FOCUS_MAX,
                                 ids);
            for (size_t i = 0; i < HS_CORPUS_FOCUS_MAX; i++) {
                char id[24];
                snprintf(id, sizeof id, "%lld", (long long)ids[i]);
                if (ids[i] >= 0)
                    json_object_set_new(
                        tokens, id,
                        json_string(hs_tokenizer_token(hs_model_tokenizer(job->model), (int32_t)ids[i])));
            }
        }
    json_object_set_new(record->names, "tokens", tokens);
}

static hs_status save(run *r, hs_error *err)
{
    hs_status st = gather(r, err);
    if (st)
        return st;
    r->record.stats = r->workers[0].stats;
    focus_name(r->job, &r->record);
    json_t *formats = hs__corpus_input_formats(r->input);
    if (json_array_size(formats)) /* none: no file was opened, for all was done before */
        json_object_set(r->record.names, "formats", formats);
    json_decref(formats);
    /* Whole milliseconds: the state keeps nine digits, and a page drawn from it again says the same. */
    r->record.seconds = round(1e3 * (r->seconds_before + hs_clock_seconds() - r->started)) / 1e3;
    st = hs__corpus_record_save(&r->record, r->job->dir, err);
    r->record.stats = NULL;
    r->saved = hs_clock_seconds();
    r->n_saves += st == HS_OK;
    return st;
}

/* The next block of lines; *ret_n 0 at the end of the input. Those of other shards are read and dropped. */
static hs_status block_read(run *r, hs__block *block, size_t *ret_n, hs_error *err)
{
    const bool ours = r->n_blocks % r->job->n_shards == r->job->shard;
    hs__corpus_line line;
    size_t n = 0;
    for (; n < HS__CORPUS_BLOCK; n++) {
        hs_status st = hs__corpus_input_next(r->input, &line, err);
        if (st)
            return st;
        if (!line.bytes) {
            r->record.done = true;
            break;
        }
        st = ours ? hs__block_add(block, &line, err) : HS_OK;
        if (st)
            return st;
    }
    r->n_blocks++;
    *ret_n = ours ? n : 0;
    return HS_OK;
}

static hs_status block_pass(run *r, hs_error *err)
{
    hs__block *block;
    size_t n = 0;
    while (!(block = hs__queue_free_block(&r->shared.queue, PROGRESS_MS))) {
        tell(r, false);
        if (stopped(r))
            return HS_OK; /* nothing was taken from the input */
    }
    block->before = r->record.place;
    hs_status st = block_read(r, block, &n, err);
    if (!st && n)
        hs__queue_push(&r->shared.queue, block);
    else
        hs__queue_return(&r->shared.queue, block);
    if (!st)
        hs__corpus_input_place(r->input, &r->record.place);
    return st;
}

/* The input was read to its end: it must have had a text, if only for another shard. */
static hs_status texts_required(run *r, hs_error *err)
{
    const json_t *first;
    hs_status st = gather(r, err);
    const uint64_t n_lines = r->record.place.n_lines;
    if (st || hs_corpus_stats_texts(r->workers[0].stats) || (n_lines && r->job->n_shards > 1))
        return st;
    json_t *bad = hs__corpus_bad_save(r->record.bad, NULL);
    first = json_array_get(json_object_get(bad, "lines"), 0);
    const size_t file = (size_t)json_integer_value(json_object_get(first, "file"));
    st = hs__no_texts(r->job->inputs[file], n_lines,
                      (uint64_t)json_integer_value(json_object_get(first, "line")),
                      first ? json_string_value(json_object_get(first, "why")) : "", err);
    json_decref(bad);
    return st;
}

static hs_status run_through(run *r, hs_error *err)
{
    hs_status st = HS_OK;
    hs_error why = {0};
    while (!st && !r->record.done && !stopped(r)) {
        st = block_pass(r, &why);
        if ((st == HS_IO || st == HS_CANCELLED) && stopped(r)) {
            /* a signal may end a read; the lines of a block not whole come again */
            st = HS_OK;
            break;
        }
        if (!st)
            st = failure(r, &why);
        if (!st && (hs_clock_seconds() - r->saved) * 1e3 >= (double)r->job->save_ms)
            st = save(r, &why);
        tell(r, false);
    }
    if (st) /* of the input or a worker */
        return hs_fail(err, st, "%s", why.text);
    st = r->record.done ? texts_required(r, err) : HS_OK;
    if (!st)
        st = save(r, err);
    tell(r, true);
    return st;
}

static hs_status finish(run *r, hs_error *err)
{
    r->record.stats = r->workers[0].stats;
    const hs_status st = hs__corpus_report_write(&r->record, r->job->dir, r->job->stop, err);
    r->record.stats = NULL;
    return st;
}

static bool is_packed(const char *path)
{
    const size_t n = strlen(path);
    return n > 3 && strcmp(path + n - 3, ".gz") == 0;
}

/* pairs: where they go, or NULL. */
static hs_status job_run(const hs__corpus_job *job, FILE *pairs, hs_error *err)
{
    run *r = calloc(1, sizeof *r);
    if (!r)
        return hs_fail(err, HS_NO_MEMORY, "no memory to begin");
    r->job = r->shared.job = job;
    hs__corpus_shared_init(&r->shared);
    pthread_mutex_init(&r->shared.failure_lock, NULL);
    hs__leftovers_remove(job->dir);
    hs_status st = hs__queue_init(&r->shared.queue, 3 * job->n_workers, err);
    if (st) {
        pthread_mutex_destroy(&r->shared.failure_lock);
        free(r);
        return st;
    }
    st = begin(r, err);
    if (!st && pairs)
        st = hs__pairs_file_begin(pairs, is_packed(job->pairs), &r->shared.pairs, err);
    if (!st)
        st = hs__corpus_input_open(job->inputs, job->n_inputs, &job->settings.input, job->stop, &r->input,
                                   err);
    if (!st && !r->record.done)
        st = hs__corpus_input_skip(r->input, &r->record.place, err);
    if (!st)
        r->share_before = hs__corpus_input_progress(r->input);
    r->n_blocks = r->record.place.n_lines / HS__CORPUS_BLOCK;
    r->seconds_before = r->record.seconds;
    if (!st)
        st = workers_start(r, err);
    r->started = r->saved = hs_clock_seconds();
    if (!st)
        tell(r, true); /* what was counted before */
    if (!st && !r->record.done)
        st = run_through(r, err);
    if (!st && !r->record.done)
        st = hs_fail(err, HS_CANCELLED, "stopped");
    if (!st)
        st = finish(r, err);
    workers_stop(r);
    hs_error why = {0};
    const hs_status ended = hs__pairs_file_end(r->shared.pairs, &why);
    if (!st && ended)
        st = hs_fail(err, ended, "%s", why.text);
    hs__corpus_input_close(r->input);
    hs__corpus_record_finish(&r->record);
    hs__queue_finish(&r->shared.queue);
    pthread_mutex_destroy(&r->shared.failure_lock);
    free(r);
    return st;
}

static hs_status pairs_write(FILE *file, void *data, hs_error *err)
{
    return job_run(data, file, err);
}

hs_status hs__corpus_run(const hs__corpus_job *job, hs_error *err)
{
    hs__corpus_job copy = *job;
    return job->pairs ? hs__path_write(job->pairs, pairs_write, &copy, err) : job_run(job, NULL, err);
}
