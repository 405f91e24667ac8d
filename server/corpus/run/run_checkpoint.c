/* run_checkpoint.c - writes and reads the checkpoint: small values as JSON, statistics as in memory, each
 * with a checksum. */
#include "server/corpus/run/run_checkpoint.h"

#include "model/files/json.h"
#include "server/base/atomic_files.h"
#include "server/base/system_errors.h"
#include "server/corpus/counters/counter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

/* ---- saving ---- */

static json_t *results_json(hs__corpus_results *results)
{
    const time_t now = time(NULL);
    struct tm parts;
    strftime(results->date, sizeof results->date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &parts));
    char rows[17];
    hs__counters_digest(rows);
    return json_pack("{ss sO sO sO s{sI sI sI ss} sI sb sf ss so}", "rows", rows, "identity",
                     results->identity, "names", results->names, "shards", results->shards, "place", "lines",
                     (json_int_t)results->position.n_lines, "blank", (json_int_t)results->position.n_blank,
                     "bytes", (json_int_t)results->position.n_bytes, "sha256", results->position.sha256,
                     "empty", (json_int_t)results->n_empty, "done", results->done, "seconds",
                     results->seconds, "date", results->date, "bad", hs__bad_lines_save(results->bad, NULL));
}

typedef struct checked_size {
    size_t n_bytes;
    uLong crc;
} checked_size;

static int size_add(const char *bytes, size_t n_bytes, void *data)
{
    checked_size *size = data;
    size->n_bytes += n_bytes;
    size->crc = crc32_z(size->crc, (const unsigned char *)bytes, n_bytes);
    return 0;
}

/* Writes the head and the JSON. Its text is made twice, first for its size: it may take some hundred MB. */
static hs_status json_write(const json_t *json, FILE *file, hs_error *err)
{
    const size_t flags = JSON_COMPACT | JSON_REAL_PRECISION(9);
    checked_size size = {0};
    if (json_dump_callback(json, size_add, &size, flags))
        return hs_fail(err, HS_NO_MEMORY, "no memory to save the run");
    fprintf(file, "headscope-corpus 1 %zu %08lx\n", size.n_bytes, (unsigned long)size.crc);
    const bool is_whole = !json_dumpf(json, file, flags);
    return is_whole || ferror(file) ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory to save the run");
}

static hs_status state_write(FILE *file, void *data, hs_error *err)
{
    hs__corpus_results *results = data;
    const size_t refusals = hs_json_refusals();
    json_t *json = results_json(results);
    hs_status st = json ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory to save the run");
    for (size_t c = 0; !st && c < HS__N_COUNTERS; c++)
        st = hs__counter_save(hs__counters[c], results, results->counts[c], json, err);
    if (!st && hs_json_refusals() != refusals)
        st = hs_fail(err, HS_NO_MEMORY, "no memory to save the run");
    if (!st)
        st = json_write(json, file, err);
    json_decref(json);
    if (st)
        return st;
    size_t n_stats;
    const void *stats = hs_corpus_stats_save(results->stats, &n_stats);
    fwrite(stats, 1, n_stats, file); /* hs__file_replace checks the stream for errors */
    return HS_OK;
}

hs_status hs__run_checkpoint_save(hs__corpus_results *results, const char *dir, hs_error *err)
{
    return hs__file_replace(dir, HS__RUN_CHECKPOINT_FILE, NULL, state_write, results, err);
}

/* ---- loading ---- */

/* Checks the members that runs and reports rely on, and their types. */
static bool identity_is_sound(const json_t *identity, json_int_t *ret_n_shards, json_int_t *ret_n_files)
{
    const char *sha256, *backend, *precision;
    json_int_t n_layers;
    json_t *max_tokens, *thresholds;
    return !json_unpack((json_t *)identity, "{ss ss ss sI sI sI so so}", "model_sha256", &sha256, "backend",
                        &backend, "precision", &precision, "model_layers", &n_layers, "n_shards",
                        ret_n_shards, "input_files", ret_n_files, "max_tokens", &max_tokens, "thresholds",
                        &thresholds);
}

static bool names_are_sound(const json_t *names, json_int_t n_files)
{
    const char *model;
    json_t *inputs;
    bool ok = !json_unpack((json_t *)names, "{ss so}", "model", &model, "inputs", &inputs) &&
              json_is_array(inputs) && n_files == (json_int_t)json_array_size(inputs);
    for (size_t i = 0; ok && i < json_array_size(inputs); i++)
        ok = json_is_string(json_array_get(inputs, i));
    return ok;
}

static bool shards_are_sound(const json_t *shards, json_int_t n_shards)
{
    bool ok = json_array_size(shards) > 0;
    for (size_t i = 0; ok && i < json_array_size(shards); i++) {
        const json_t *shard = json_array_get(shards, i);
        ok = json_is_integer(shard) && json_integer_value(shard) >= 0 && json_integer_value(shard) < n_shards;
    }
    return ok;
}

/* Reads all members but the lists. False: one is missing, of another type or out of range. */
static bool results_read(hs__corpus_results *results, json_t *json, json_t **ret_bad, size_t *ret_n_files)
{
    json_int_t lines, bytes, n_shards, n_files, blank, empty;
    const char *sha256, *date;
    int done;
    if (json_unpack(json, "{sO sO sO s{sI sI sI ss} sI sb sF ss so}", "identity", &results->identity, "names",
                    &results->names, "shards", &results->shards, "place", "lines", &lines, "blank", &blank,
                    "bytes", &bytes, "sha256", &sha256, "empty", &empty, "done", &done, "seconds",
                    &results->seconds, "date", &date, "bad", ret_bad) ||
        !identity_is_sound(results->identity, &n_shards, &n_files) ||
        !names_are_sound(results->names, n_files) || !shards_are_sound(results->shards, n_shards) ||
        lines < 0 || bytes < 0 || blank < 0 || empty < 0)
        return false;
    results->position.n_lines = (uint64_t)lines;
    results->position.n_bytes = (uint64_t)bytes;
    results->position.n_blank = (uint64_t)blank;
    results->n_empty = (uint64_t)empty;
    snprintf(results->position.sha256, sizeof results->position.sha256, "%s", sha256);
    snprintf(results->date, sizeof results->date, "%s", date);
    results->done = done != 0;
    *ret_n_files = (size_t)n_files;
    return true;
}

static hs_status lists_read(hs__corpus_results *results, const json_t *bad, const json_t *json,
                            size_t n_files, hs_error *err)
{
    results->bad = hs__bad_lines_create();
    if (!results->bad)
        return hs_fail(err, HS_NO_MEMORY, "no memory to resume the run");
    hs_status st = hs__bad_lines_load(results->bad, bad, n_files, err);
    for (size_t c = 0; !st && c < HS__N_COUNTERS; c++)
        st = hs__counter_load(hs__counters[c], results, json, &results->counts[c], err);
    return st;
}

static bool is_of_this_version(const json_t *json)
{
    const char *saved = json_string_value(json_object_get(json, "rows"));
    char rows[17];
    hs__counters_digest(rows);
    return saved && strcmp(saved, rows) == 0;
}

static hs_status state_parse(const char *bytes, size_t n_bytes, const char *path, hs__corpus_results *results,
                             hs_error *err)
{
    char head[64] = "";
    size_t n_text;
    unsigned long crc;
    int n_head = 0;
    memcpy(head, bytes, n_bytes < sizeof head - 1 ? n_bytes : sizeof head - 1);
    if (sscanf(head, "headscope-corpus 1 %zu %8lx%n", &n_text, &crc, &n_head) != 2 || head[n_head] != '\n')
        return hs_fail(err, HS_INVALID, "'%s' is not a corpus run of this version of headscope", path);
    const char *text = bytes + n_head + 1;
    const size_t n_rest = n_bytes - (size_t)n_head - 1;
    if (n_text > n_rest || crc32_z(0, (const unsigned char *)text, n_text) != crc)
        return hs_fail(err, HS_INVALID, "'%s' is damaged: start again in another folder", path);
    hs_error why = {0};
    json_t *bad;
    size_t n_files = 0;
    const size_t refusals = hs_json_refusals();
    hs_status st = hs_corpus_stats_load(text + n_text, n_rest - n_text, &results->stats, &why);
    json_t *json = NULL;
    if (!st && hs_json_load(text, n_text, JSON_ALLOW_NUL, &json, NULL) == HS_NO_MEMORY)
        st = HS_NO_MEMORY;
    if (!st && json && !is_of_this_version(json))
        st = hs_fail(
            &why, HS_INVALID,
            "the run counts other arrays than this version of headscope: begin it anew, or finish it with "
            "the headscope that began it");
    if (!st && !results_read(results, json, &bad, &n_files))
        st = hs_fail(&why, HS_INVALID, "the file is damaged: start again in another folder");
    if (!st)
        st = lists_read(results, bad, json, n_files, &why);
    json_decref(json);
    if (hs_json_refusals() != refusals)
        return hs_fail(err, HS_NO_MEMORY, "'%s': no memory to read it", path);
    return st ? hs_fail(err, st, "'%s': %s", path, why.text) : HS_OK;
}

hs_status hs__run_checkpoint_parse(const void *bytes, size_t n_bytes, const char *path,
                                   hs__corpus_results *ret_results, hs_error *err)
{
    *ret_results = (hs__corpus_results){0};
    const hs_status st = state_parse(bytes, n_bytes, path, ret_results, err);
    if (st)
        hs__corpus_results_finish(ret_results);
    return st;
}

hs_status hs__run_checkpoint_find(const char *dir, hs_error *err)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/" HS__RUN_CHECKPOINT_FILE, dir);
    if (!access(path, F_OK) || (errno != ENOENT && errno != ENOTDIR))
        return HS_OK;
    if (errno == ENOTDIR)
        return hs_fail(err, HS_NOT_FOUND, "'%s' is no folder; name the folder of a run", dir);
    return hs_fail(err, HS_NOT_FOUND, "there is no run in '%s': it has no file '%s'", dir,
                   HS__RUN_CHECKPOINT_FILE);
}

hs_status hs__run_checkpoint_load(const char *dir, hs__corpus_results *ret_results, hs_error *err)
{
    char path[4200];
    int fd;
    uint64_t n_bytes;
    *ret_results = (hs__corpus_results){0};
    if (hs__run_checkpoint_find(dir, err))
        return HS_NOT_FOUND;
    snprintf(path, sizeof path, "%s/" HS__RUN_CHECKPOINT_FILE, dir);
    hs_status st = hs__file_open(path, &fd, &n_bytes, err);
    if (st)
        return st;
    errno = ENODATA;
    void *bytes = n_bytes ? mmap(NULL, n_bytes, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    const int why = errno;
    close(fd);
    if (bytes == MAP_FAILED)
        return hs_fail(err, hs__errno_status(why), "cannot read '%s': %s", path, hs__errno_text(why));
    st = hs__run_checkpoint_parse(bytes, n_bytes, path, ret_results, err);
    munmap(bytes, n_bytes);
    return st;
}
