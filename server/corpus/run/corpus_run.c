/* corpus_run.c - the session of a run: the caller's thread reads and saves, workers count.
 *
 * A save waits until the workers have counted every block that was read, so that the place in the input and
 * the statistics agree. A stop drops the blocks that no worker has started and moves the place back before
 * them. */
#include "server/corpus/run/corpus_run.h"

#include "model/base/bytes.h"
#include "model/base/clock.h"
#include "model/files/json.h"
#include "server/base/atomic_files.h"
#include "server/base/system_errors.h"
#include "server/base/training_point.h"
#include "server/corpus/counters/counter.h"
#include "server/corpus/report/report.h"
#include "server/corpus/run/run_checkpoint.h"
#include "server/corpus/run/workers.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROGRESS_MS 250
/* Time that a stop leaves the workers for the blocks that they have begun. */
#define STOP_SECONDS 5.0
/* Blocks that estimates of sizes are based on. */
enum { EXPECTED_BLOCKS = 4 };

typedef struct run {
    const hs__corpus_job *job;
    hs__corpus_results results; /* stats: borrowed from the workers during a save, else NULL */
    hs__workers workers;
    hs__record_stream *input;
    uint64_t n_blocks; /* read, this session and before */
    uint64_t texts_before, empty_before;
    uint64_t n_pushed;                   /* records handed to workers, this session */
    bool expected;                       /* the sizes of files were estimated */
    uint64_t n_saves;                    /* of this session */
    double seconds_before, share_before; /* of the sessions before */
    double started, saved, reported;     /* seconds of the monotonic clock */
    double hurried;                      /* when the stop was seen; 0: not yet */
} run;

static bool stopped(const run *r)
{
    return r->job->stop && atomic_load(r->job->stop);
}

/* ---- identity ---- */

/* Returns the total size of the files; null if one is not a regular file. */
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
    const size_t refusals = hs_json_refusals();
    char sha256[HS_SHA256_HEX];
    hs_model_sha256(job->model, sha256);
    json_t *identity =
        json_pack("{ss ss ss ss sI sI sI so}", "model_sha256", sha256, HS__CORPUS_MODEL_FILES,
                  hs_model_files_sha256(job->model), "backend", hs_engine_products(job->engine), "precision",
                  hs_engine_precision(job->engine), "model_layers",
                  (json_int_t)hs_engine_shape(job->engine)->n_layers, "n_shards", (json_int_t)job->n_shards,
                  "input_files", (json_int_t)job->n_inputs, "input_bytes", input_bytes(job));
    if (identity)
        hs__corpus_settings_identify(&job->settings, job->model, identity);
    return hs_json_whole(identity, refusals);
}

static json_t *names_make(const hs__corpus_job *job)
{
    const size_t refusals = hs_json_refusals();
    json_t *inputs = json_array();
    for (size_t i = 0; i < job->n_inputs; i++) {
        json_t *name = json_string(hs__corpus_input_name(job, i));
        json_array_append_new(inputs, name ? name : json_string("(a name that is not UTF-8)"));
    }
    json_t *names = json_pack("{ss ss ss sb so}", "model", job->model_name, "trained_for",
                              hs_engine_architecture(job->engine)->trained_for, "tokenizer",
                              hs_tokenizer_kind(hs_model_tokenizer(job->model)), "causal",
                              hs_engine_architecture(job->engine)->causal, "inputs", inputs);
    if (job->training)
        json_object_set_new(names, "training", hs__training_point_json(job->training));
    return hs_json_whole(names, refusals);
}

/* ---- start or resume ---- */

static hs_status begin_anew(run *r, hs_error *err)
{
    const hs__corpus_job *job = r->job;
    r->results.names = names_make(job);
    r->results.shards = json_pack("[I]", (json_int_t)job->shard);
    r->results.bad = hs__bad_lines_create();
    if (!r->results.names || !r->results.shards || !r->results.bad)
        return hs_fail(err, HS_NO_MEMORY, "no memory to begin");
    return HS_OK;
}

/* Returns the first shard of the results. */
static json_int_t shard_of(const hs__corpus_results *results)
{
    return json_integer_value(json_array_get(results->shards, 0));
}

/* Returns true if what was loaded has the shape that the job's options give it. */
static bool counts_match(const run *r)
{
    bool same = hs_corpus_stats_match(r->results.stats, &r->workers.options);
    for (size_t c = 0; same && c < HS__N_COUNTERS; c++)
        same = hs__counter_matches(&r->workers.counting[c]);
    return same;
}

static hs_status results_begin(run *r, hs_error *err)
{
    const hs__corpus_job *job = r->job;
    char where[300];
    json_t *identity = identity_make(r);
    if (!identity)
        return hs_fail(err, HS_NO_MEMORY, "no memory to begin");
    hs_error why = {0};
    hs_status st = hs__run_checkpoint_load(job->dir, &r->results, &why);
    if (st == HS_NOT_FOUND) {
        st = begin_anew(r, err);
    } else if (st) {
        hs_fail(err, st, "%s", why.text);
    } else if (job->n_shards > 1 && shard_of(&r->results) != (json_int_t)job->shard) {
        st = hs_fail(err, HS_INVALID, "'%.250s' holds shard %lld: give shard %zu a folder of its own",
                     job->dir, shard_of(&r->results), job->shard);
    } else if (!job->resume) {
        st = hs_fail(
            err, HS_INVALID,
            "'%.250s' already holds a run: continue it with --resume, begin it anew with --restart, or "
            "choose another folder with -o",
            job->dir);
    } else {
        snprintf(where, sizeof where, "the run in '%.250s'", job->dir);
        st = hs__corpus_identity_check(identity, r->results.identity, where, err);
        /* Both come from one file, so they disagree only if it is damaged. */
        if (!st && !counts_match(r))
            st = hs_fail(
                err, HS_INVALID,
                "%s is damaged: its statistics have another shape than its options. Start again in another "
                "folder",
                where);
    }
    json_decref(r->results.identity);
    r->results.identity = identity;
    return st;
}

/* Lets the results show the statistics of the workers, which own them. */
static void stats_borrow(run *r)
{
    r->results.stats = r->workers.stats;
}

static void stats_return(run *r)
{
    r->results.stats = NULL;
}

/* Starts the workers, which continue the saved statistics. */
static hs_status workers_start(run *r, hs_error *err)
{
    hs_corpus_stats *saved = r->results.stats;
    r->texts_before = saved ? hs__texts_counted(&r->results) : 0;
    stats_return(r);
    const hs_status st = hs__workers_start(&r->workers, saved, r->results.bad, err);
    if (st)
        return st;
    r->empty_before = r->results.n_empty;
    return HS_OK;
}

/* ---- progress and saves ---- */

double hs__corpus_seconds_left(const hs__corpus_progress *p)
{
    const double gone = p->share - p->share_before;
    return gone > 0 && p->share < 1 && p->seconds > 1 ? p->seconds * (1 - p->share) / gone : -1;
}

static void tell(run *r, bool always)
{
    const double t = hs_clock_seconds();
    if (!r->job->progress || (!always && t - r->reported < PROGRESS_MS / 1e3))
        return;
    r->reported = t;
    const uint64_t done = atomic_load(&r->workers.n_texts);
    const double seconds = t - r->started;
    const uint64_t n_empty = r->empty_before + atomic_load(&r->workers.n_empty),
                   n_blank = r->results.position.n_blank;
    r->job->progress(&(hs__corpus_progress){.texts = r->texts_before + done,
                                            .bad_lines = hs__bad_lines_count(r->results.bad),
                                            .empty_texts = n_blank + n_empty,
                                            .blank_lines = n_blank,
                                            .bad = r->results.bad,
                                            .saves = r->n_saves,
                                            .seconds = seconds,
                                            .texts_per_second = seconds > 0 ? (double)done / seconds : 0,
                                            .share_before = r->share_before,
                                            .share = hs__record_stream_progress(r->input)},
                     r->job->progress_data);
}

static hs_status failure(run *r, hs_error *err)
{
    if (!atomic_load(&r->workers.failed))
        return HS_OK;
    pthread_mutex_lock(&r->workers.failure_lock);
    const hs_status st = r->workers.failure.status;
    hs_fail(err, st, "%s",
            st != HS_CANCELLED              ? r->workers.failure.text
            : r->n_saves || r->texts_before ? "stopped; texts since the last checkpoint are not in it"
                                            : "stopped before the first checkpoint");
    pthread_mutex_unlock(&r->workers.failure_lock);
    return st;
}

/* Drops blocks that no worker has started. Later, cancels the passes of the other blocks: effects of heads
 * can take minutes. These blocks are then counted in part, so nothing is saved after the last checkpoint. */
static void hurry(run *r)
{
    const double now = hs_clock_seconds();
    r->hurried = r->hurried > 0 ? r->hurried : now;
    if (hs__workers_hurry(&r->workers, now - r->hurried > STOP_SECONDS, &r->results.position))
        r->results.done = false;
}

/* Waits until all blocks are counted, then merges all statistics into those of the first worker, and moves
 * all other counts into the results. HS_CANCELLED: a stop cancelled some. */
static hs_status gather(run *r, hs_error *err)
{
    for (;;) {
        if (stopped(r))
            hurry(r);
        if (hs__workers_idle(&r->workers, PROGRESS_MS))
            break;
        tell(r, false);
    }
    const hs_status st = failure(r, err);
    return st ? st : hs__workers_gather(&r->workers, err);
}

/* Saves the vocabulary entries that the statistics list by id. `merge` and `report` have no model. */
static void focus_name(const hs__corpus_job *job, hs__corpus_results *results)
{
    static const char *const lists[] = {"focus_ids", "focal_ids"};
    hs_corpus_array array;
    int64_t ids[HS_CORPUS_FOCUS_MAX];
    json_t *tokens = json_object();
    for (size_t k = 0; k < 2 && hs_corpus_array_find(results->stats, lists[k], &array); k++)
        for (size_t l = 0; l < job->settings.fields.n_layers; l++) {
            hs_corpus_array_read(results->stats, &array, l * HS_CORPUS_FOCUS_MAX, HS_CORPUS_FOCUS_MAX, ids);
            for (size_t i = 0; i < HS_CORPUS_FOCUS_MAX; i++) {
                char id[24];
                snprintf(id, sizeof id, "%lld", (long long)ids[i]);
                if (ids[i] >= 0)
                    json_object_set_new(
                        tokens, id,
                        json_string(hs_tokenizer_token(hs_model_tokenizer(job->model), (int32_t)ids[i])));
            }
        }
    json_object_set_new(results->names, "tokens", tokens);
}

static hs_status save(run *r, hs_error *err)
{
    hs_status st = gather(r, err);
    if (st)
        return st;
    const size_t refusals = hs_json_refusals();
    stats_borrow(r);
    r->results.n_empty = r->empty_before + atomic_load(&r->workers.n_empty);
    for (size_t c = 0; !st && c < HS__N_COUNTERS; c++)
        if (hs__counters[c]->commit)
            st = hs__counters[c]->commit(&r->workers.counting[c], err);
    focus_name(r->job, &r->results);
    json_t *formats = hs__record_stream_formats(r->input);
    if (json_array_size(formats)) /* empty if the run was complete: no file was opened */
        json_object_set(r->results.names, "formats", formats);
    json_decref(formats);
    /* Rounded to milliseconds: the checkpoint keeps nine digits, and a report drawn from it must agree. */
    r->results.seconds = round(1e3 * (r->seconds_before + hs_clock_seconds() - r->started)) / 1e3;
    if (!st && hs_json_refusals() != refusals)
        st = hs_fail(err, HS_NO_MEMORY, "no memory to save the run");
    if (!st)
        st = hs__run_checkpoint_save(&r->results, r->job->dir, err);
    stats_return(r);
    r->saved = hs_clock_seconds();
    r->n_saves += st == HS_OK;
    return st;
}

/* Copies a line into the block. */
static hs_status block_add(hs__block *block, const hs__record *line, hs_error *err)
{
    const size_t n = line->too_long ? 0 : line->n_bytes; /* nobody looks at the beginning of such a line */
    if (block->n_bytes + n > block->capacity) {
        size_t capacity = block->capacity ? block->capacity : 16384;
        while (capacity < block->n_bytes + n && capacity < HS__BLOCK_KEPT_BYTES)
            capacity *= 2;
        if (capacity < block->n_bytes + n)
            capacity = block->n_bytes + n;
        char *more = realloc(block->bytes, capacity);
        if (!more)
            return hs_fail(err, HS_NO_MEMORY, "no memory for texts");
        block->bytes = more;
        block->capacity = capacity;
    }
    if (n)
        memcpy(block->bytes + block->n_bytes, line->bytes, n);
    hs__text *text = &block->texts[block->n_lines++];
    *text = (hs__text){.record = *line};
    text->record.n_bytes = n;
    block->n_bytes += n;
    return HS_OK;
}

/* Reads the next block. *ret_n is its number of lines: 0 at the end of the input and for blocks of other
 * shards. */
static hs_status block_read(run *r, hs__block *block, size_t *ret_n, hs_error *err)
{
    const bool ours = r->n_blocks % r->job->n_shards == r->job->shard;
    hs__record line;
    size_t n = 0;
    for (; n < HS__CORPUS_BLOCK; n++) {
        hs_status st = hs__record_stream_next(r->input, &line, err);
        if (st)
            return st;
        if (!line.bytes) {
            r->results.done = true;
            break;
        }
        st = ours ? block_add(block, &line, err) : HS_OK;
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
    while (!(block = hs__workers_block(&r->workers, PROGRESS_MS))) {
        tell(r, false);
        if (stopped(r))
            return HS_OK; /* nothing was read */
    }
    block->before = r->results.position;
    hs_status st = block_read(r, block, &n, err);
    r->n_pushed += st ? 0 : n;
    hs__workers_block_end(&r->workers, block, !st && n);
    if (!st)
        hs__record_stream_position(r->input, &r->results.position);
    return st;
}

/* Fails with HS_INVALID if the whole input, which is counted, has no text. A shard may have none. */
static hs_status texts_required(const run *r, hs_error *err)
{
    const json_t *first;
    const uint64_t n_lines = r->results.position.n_lines;
    if (hs_corpus_stats_texts(r->workers.stats) || (n_lines && r->job->n_shards > 1))
        return HS_OK;
    json_t *bad = hs__bad_lines_save(r->results.bad, NULL);
    first = json_array_get(json_object_get(bad, "lines"), 0);
    const size_t file = (size_t)json_integer_value(json_object_get(first, "file"));
    const hs_status st = hs__no_texts(r->job->inputs[file], n_lines,
                                      (uint64_t)json_integer_value(json_object_get(first, "line")),
                                      first ? json_string_value(json_object_get(first, "why")) : "", err);
    json_decref(bad);
    return st;
}

/* Returns true if a counter writes a file whose size is to be estimated. */
static bool expects(const run *r)
{
    bool any = false;
    for (size_t c = 0; c < HS__N_COUNTERS; c++)
        any |= hs__counters[c]->expect && r->workers.counting[c].shared;
    return any;
}

/* Once the first blocks are read, waits until they are counted and lets the counters estimate the sizes of
 * their files. */
static hs_status files_expect(run *r, hs_error *err)
{
    const bool enough = r->results.done || r->n_pushed >= (uint64_t)EXPECTED_BLOCKS * HS__CORPUS_BLOCK;
    if (r->expected || !enough || !expects(r))
        return HS_OK;
    while (!hs__workers_idle(&r->workers, PROGRESS_MS)) {
        tell(r, false);
        if (stopped(r))
            return HS_OK;
    }
    r->expected = true;
    hs_status st = failure(r, err);
    for (size_t c = 0; !st && c < HS__N_COUNTERS; c++)
        if (hs__counters[c]->expect && r->workers.counting[c].shared)
            st = hs__counters[c]->expect(&r->workers.counting[c], r->n_pushed, err);
    return st;
}

/* Adds what depends on all texts. The workers have nothing to do. If the run is stopped meanwhile, the input
 * is no longer done, so that the next session adds it. */
static hs_status counters_complete(run *r, hs_error *err)
{
    hs_status st = HS_OK;
    hs_error why = {0};
    for (size_t c = 0; !st && c < HS__N_COUNTERS; c++)
        if (hs__counters[c]->complete)
            st = hs__counters[c]->complete(&r->workers.counting[c], r->workers.workspace, &why);
    r->results.done = st != HS_CANCELLED;
    return st && st != HS_CANCELLED ? hs_fail(err, st, "%s", why.text) : HS_OK;
}

/* Waits for the counts of an input that was read to its end, and checks and completes them. A stop in the
 * meantime may drop the last blocks; the input is then no longer done. */
static hs_status input_end(run *r, hs_error *err)
{
    hs_status st = gather(r, err);
    if (!st && r->results.done)
        st = texts_required(r, err);
    tell(r, true); /* counters may need minutes */
    if (!st && r->results.done)
        st = counters_complete(r, err);
    return st;
}

static hs_status run_through(run *r, hs_error *err)
{
    hs_status st = HS_OK;
    hs_error why = {0};
    while (!st && !r->results.done && !stopped(r)) {
        st = block_pass(r, &why);
        if ((st == HS_IO || st == HS_CANCELLED) && stopped(r)) {
            /* a signal can end a read; the next session reads the unfinished block again */
            st = HS_OK;
            break;
        }
        if (!st)
            st = failure(r, &why);
        if (!st)
            st = files_expect(r, &why);
        if (!st && (hs_clock_seconds() - r->saved) * 1e3 >= (double)r->job->save_ms) {
            st = save(r, &why);
            tell(r, true); /* the server counts starts without a save */
        }
        tell(r, false);
    }
    if (st) /* from the input or a worker */
        return hs_fail(err, st, "%s", why.text);
    st = r->results.done ? input_end(r, err) : HS_OK;
    if (!st)
        st = save(r, err);
    tell(r, true);
    return st;
}

static hs_status finish(run *r, hs_error *err)
{
    stats_borrow(r);
    const hs_status st = hs__corpus_report_write(&r->results, r->job->dir, r->job->stop, err);
    stats_return(r);
    return st;
}

/* Returns a run that run_destroy releases; NULL if memory is short. */
static run *run_create(const hs__corpus_job *job, hs_error *err)
{
    run *r = calloc(1, sizeof *r);
    if (!r || hs__workers_init(&r->workers, job, &r->results, err)) {
        free(r);
        return NULL;
    }
    r->job = job;
    return r;
}

/* Releases a run whose workers have stopped. */
static void run_destroy(run *r)
{
    hs__record_stream_close(r->input);
    for (size_t c = 0; c < HS__N_COUNTERS; c++)
        if (hs__counters[c]->end)
            hs__counters[c]->end(&r->workers.counting[c]);
    hs__corpus_results_finish(&r->results);
    free(r);
}

/* Opens the input and passes the records that are in the results. */
static hs_status input_open(run *r, hs_error *err)
{
    const hs__corpus_job *job = r->job;
    hs_status st =
        hs__record_stream_open(job->inputs, job->n_inputs, &job->settings.input, job->stop, &r->input, err);
    if (!st && !r->results.done)
        st = hs__record_stream_skip(r->input, &r->results.position, err);
    if (!st)
        r->share_before = hs__record_stream_progress(r->input);
    return st;
}

static hs_status counters_open(run *r, hs_error *err)
{
    hs_status st = HS_OK;
    for (size_t c = 0; !st && c < HS__N_COUNTERS; c++)
        if (hs__counters[c]->open)
            st = hs__counters[c]->open(&r->workers.counting[c], err);
    return st;
}

static hs_status counters_begin(run *r, hs_error *err)
{
    hs_status st = HS_OK;
    for (size_t c = 0; !st && c < HS__N_COUNTERS; c++)
        st = hs__counter_begin(&r->workers.counting[c], !r->results.stats, err);
    return st;
}

/* Removes the checkpoint of an earlier run, if there is one. */
static hs_status checkpoint_remove(const char *dir, hs_error *err)
{
    char path[4400];
    const bool fits = snprintf(path, sizeof path, "%s/" HS__RUN_CHECKPOINT_FILE, dir) < (int)sizeof path;
    if (!fits || (unlink(path) && errno != ENOENT) || !hs__folder_sync(dir))
        return hs_fail(err, HS_IO, "cannot remove the checkpoint in '%.250s': %s", dir,
                       fits ? hs__errno_text(errno) : "its name is too long");
    return HS_OK;
}

/* Loads the results or begins new ones, opens all files and starts the workers. */
static hs_status run_begin(run *r, hs_error *err)
{
    hs__leftovers_remove(r->job->dir);
    hs_status st = counters_open(r, err);
    if (!st && r->job->restart)
        st = checkpoint_remove(r->job->dir, err);
    if (!st)
        st = results_begin(r, err);
    if (!st)
        st = counters_begin(r, err);
    if (!st)
        st = input_open(r, err);
    if (!st)
        st = workers_start(r, err);
    if (st)
        return st;
    r->n_blocks = r->results.position.n_lines / HS__CORPUS_BLOCK;
    r->seconds_before = r->results.seconds;
    r->started = hs_clock_seconds();
    r->saved = r->job->save_first ? -(double)r->job->save_ms : r->started;
    tell(r, true); /* what earlier sessions counted */
    return HS_OK;
}

/* Reads and counts what is left of the input, then writes the reports. HS_CANCELLED: the run was stopped. */
static hs_status run_complete(run *r, hs_error *err)
{
    const hs_status st = r->results.done ? HS_OK : run_through(r, err);
    hs_error why = {0};
    if (st)
        return st;
    const hs_status ended = r->results.done ? finish(r, &why) : HS_CANCELLED;
    return ended ? hs_fail(err, ended, "%s", ended == HS_CANCELLED ? "stopped and saved" : why.text) : HS_OK;
}

/* Lets the counters complete their files. */
static hs_status counters_finish(run *r, hs_error *err)
{
    hs_status st = HS_OK;
    hs_error why = {0};
    for (size_t c = 0; !st && c < HS__N_COUNTERS; c++)
        if (hs__counters[c]->finish)
            st = hs__counters[c]->finish(&r->workers.counting[c], &why);
    return st ? hs_fail(err, st, "%s", why.text) : HS_OK;
}

hs_status hs__corpus_run(const hs__corpus_job *job, hs_error *err)
{
    run *r = run_create(job, err);
    if (!r)
        return hs_fail(err, HS_NO_MEMORY, "no memory to begin");
    hs_status st = run_begin(r, err);
    if (!st)
        st = run_complete(r, err);
    hs__workers_stop(&r->workers);
    if (!st)
        st = counters_finish(r, err);
    run_destroy(r);
    return st;
}
