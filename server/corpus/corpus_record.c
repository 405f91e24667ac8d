/* corpus_record.c - the state as one file: JSON for what is small, the statistics as they lie in memory, a
 * checksum for each. */
#include "server/corpus/corpus_record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

void hs__corpus_record_finish(hs__corpus_record *record)
{
    json_decref(record->identity);
    json_decref(record->names);
    json_decref(record->shards);
    hs__corpus_bad_destroy(record->bad);
    hs__corpus_sample_destroy(record->sample);
    hs_corpus_stats_destroy(record->stats);
    *record = (hs__corpus_record){0};
}

/* ---- saving ---- */

static json_t *record_json(hs__corpus_record *record)
{
    const time_t now = time(NULL);
    struct tm parts;
    strftime(record->date, sizeof record->date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &parts));
    return json_pack("{sO sO sO s{sI sI ss} sb sf ss so so}", "identity", record->identity, "names",
                     record->names, "shards", record->shards, "place", "lines",
                     (json_int_t)record->place.n_lines, "bytes", (json_int_t)record->place.n_bytes, "sha256",
                     record->place.sha256, "done", record->done, "seconds", record->seconds, "date",
                     record->date, "bad", hs__corpus_bad_save(record->bad, NULL), "sample",
                     hs__corpus_sample_save(record->sample));
}

static hs_status state_write(FILE *file, void *data, hs_error *err)
{
    hs__corpus_record *record = data;
    json_t *json = record_json(record);
    char *text = json ? json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    json_decref(json);
    if (!text)
        return hs_fail(err, HS_NO_MEMORY, "no memory to save the run");
    const size_t n_text = strlen(text);
    size_t n_stats;
    const void *stats = hs_corpus_stats_save(record->stats, &n_stats);
    fprintf(file, "headscope-corpus 1 %zu %08lx\n", n_text,
            (unsigned long)crc32_z(0, (const unsigned char *)text, n_text));
    fwrite(text, 1, n_text, file);
    fwrite(stats, 1, n_stats, file); /* failures stay in the stream and are looked at once */
    free(text);
    return HS_OK;
}

hs_status hs__corpus_record_save(hs__corpus_record *record, const char *dir, hs_error *err)
{
    return hs__file_replace(dir, HS__CORPUS_STATE, NULL, state_write, record, err);
}

/* ---- loading ---- */

static hs_status record_read(hs__corpus_record *record, json_t *json, const char *path, hs_error *err)
{
    json_int_t lines, bytes;
    const char *sha256, *date;
    json_t *bad, *sample;
    int done;
    if (json_unpack(json, "{sO sO sO s{sI sI ss} sb sF ss so so}", "identity", &record->identity, "names",
                    &record->names, "shards", &record->shards, "place", "lines", &lines, "bytes", &bytes,
                    "sha256", &sha256, "done", &done, "seconds", &record->seconds, "date", &date, "bad", &bad,
                    "sample", &sample) ||
        !json_is_object(record->identity) || !json_is_object(record->names) || !json_is_array(record->shards))
        return hs_fail(err, HS_INVALID, "'%s' is damaged", path);
    record->place.n_lines = (uint64_t)lines;
    record->place.n_bytes = (uint64_t)bytes;
    snprintf(record->place.sha256, sizeof record->place.sha256, "%s", sha256);
    snprintf(record->date, sizeof record->date, "%s", date);
    record->done = done != 0;
    const hs_corpus_options options = hs_corpus_stats_options(record->stats);
    record->bad = hs__corpus_bad_create();
    record->sample = hs__corpus_sample_create(options.n_layers * options.n_heads);
    if (!record->bad || !record->sample)
        return hs_fail(err, HS_NO_MEMORY, "no memory to go on with '%s'", path);
    const hs_status st = hs__corpus_bad_load(record->bad, bad, err);
    return st ? st : hs__corpus_sample_load(record->sample, sample, err);
}

static hs_status state_parse(const char *bytes, size_t n_bytes, const char *path, hs__corpus_record *record,
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
        return hs_fail(err, HS_INVALID, "'%s' is damaged", path);
    hs_error why = {0};
    hs_status st = hs_corpus_stats_load(text + n_text, n_rest - n_text, &record->stats, &why);
    if (st)
        return hs_fail(err, st, "'%s': %s", path, why.text);
    json_t *json = json_loadb(text, n_text, 0, NULL);
    st = record_read(record, json, path, err);
    json_decref(json);
    return st;
}

hs_status hs__corpus_record_load(const char *dir, hs__corpus_record *ret_record, hs_error *err)
{
    char path[4200];
    struct stat file;
    *ret_record = (hs__corpus_record){0};
    snprintf(path, sizeof path, "%s/" HS__CORPUS_STATE, dir);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return hs_fail(err, errno == ENOENT ? HS_NOT_FOUND : HS_IO, "cannot read '%s': %s", path,
                       strerror(errno));
    void *bytes = fstat(fd, &file) || !file.st_size
                      ? MAP_FAILED
                      : mmap(NULL, (size_t)file.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (bytes == MAP_FAILED)
        return hs_fail(err, HS_IO, "cannot read '%s'", path);
    const hs_status st = state_parse(bytes, (size_t)file.st_size, path, ret_record, err);
    munmap(bytes, (size_t)file.st_size);
    if (st)
        hs__corpus_record_finish(ret_record);
    return st;
}

/* ---- agreeing and merging ---- */

static hs_status identity_differs(const char *key, const json_t *mine, const json_t *other, const char *where,
                                  hs_error *err)
{
    char *now = json_dumps(mine, JSON_ENCODE_ANY), *then = json_dumps(other, JSON_ENCODE_ANY);
    hs_fail(err, HS_INVALID, "%s has another %s: %.120s there, %.120s here", where, key,
            then ? then : "the usual", now ? now : "the usual");
    free(now);
    free(then);
    return HS_INVALID;
}

hs_status hs__corpus_identity_check(const json_t *identity, const json_t *other, const char *where,
                                    hs_error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)other, key, value)
    {
        const json_t *mine = json_object_get(identity, key);
        if (!json_equal(mine, value))
            return identity_differs(key, mine, value, where, err);
    }
    json_object_foreach((json_t *)identity, key, value)
    {
        if (!json_object_get(other, key))
            return identity_differs(key, value, NULL, where, err);
    }
    return HS_OK;
}

static bool shards_overlap(const json_t *a, const json_t *b)
{
    for (size_t i = 0; i < json_array_size(a); i++)
        for (size_t k = 0; k < json_array_size(b); k++)
            if (json_equal(json_array_get(a, i), json_array_get(b, k)))
                return true;
    return false;
}

static int shard_compare(const void *a, const void *b)
{
    const json_int_t x = *(const json_int_t *)a, y = *(const json_int_t *)b;
    return (x > y) - (x < y);
}

static hs_status shards_join(hs__corpus_record *record, const hs__corpus_record *from, hs_error *err)
{
    const size_t n_own = json_array_size(record->shards), n = n_own + json_array_size(from->shards);
    json_int_t *all = calloc(n, sizeof *all);
    json_t *joined = json_array();
    for (size_t i = 0; all && i < n; i++)
        all[i] = json_integer_value(i < n_own ? json_array_get(record->shards, i)
                                              : json_array_get(from->shards, i - n_own));
    if (!all || !joined) {
        free(all);
        json_decref(joined);
        return hs_fail(err, HS_NO_MEMORY, "no memory to merge");
    }
    qsort(all, n, sizeof *all, shard_compare);
    for (size_t i = 0; i < n; i++)
        json_array_append_new(joined, json_integer(all[i]));
    free(all);
    json_decref(record->shards);
    record->shards = joined;
    return HS_OK;
}

hs_status hs__corpus_record_merge(hs__corpus_record *record, hs__corpus_record *from, const char *from_dir,
                                  hs_error *err)
{
    char where[300];
    snprintf(where, sizeof where, "the run in '%.250s'", from_dir);
    hs_status st = hs__corpus_identity_check(record->identity, from->identity, where, err);
    if (st)
        return st;
    if (!from->done || !record->done)
        return hs_fail(err, HS_INVALID, "%s is not finished: go on with it first (--resume)", where);
    if (strcmp(record->place.sha256, from->place.sha256) != 0)
        return hs_fail(err, HS_INVALID, "%s is of another input", where);
    if (shards_overlap(record->shards, from->shards))
        return hs_fail(err, HS_INVALID, "%s holds a shard that is in another one already", where);
    st = hs_corpus_stats_merge(record->stats, from->stats, err);
    if (!st)
        st = shards_join(record, from, err);
    json_t *bad = hs__corpus_bad_save(from->bad, NULL), *sample = hs__corpus_sample_save(from->sample);
    if (!st)
        st = hs__corpus_bad_load(record->bad, bad, err);
    if (!st)
        st = hs__corpus_sample_load(record->sample, sample, err);
    json_decref(bad);
    json_decref(sample);
    json_object_update_missing(json_object_get(record->names, "tokens"),
                               json_object_get(from->names, "tokens"));
    record->seconds += from->seconds;
    return st;
}
