/* pairs_expected.c - rows and bytes grow in proportion to the number of records. */
#include "server/corpus/run/pairs_expected.h"

#include "server/base/atomic_files.h"

#include <sys/stat.h>

#define MB (UINT64_C(1) << 20)

hs_status hs__pairs_texts_count(const hs__corpus_job *job, uint64_t *ret_n, hs_error *err)
{
    hs__record_stream *input = NULL;
    hs__record line = {.bytes = ""};
    uint64_t n = 0;
    hs_status st =
        hs__record_stream_open(job->inputs, job->n_inputs, &job->settings.input, job->stop, &input, err);
    while (!st && !(st = hs__record_stream_next(input, &line, err)) && line.bytes)
        n += line.number / HS__CORPUS_BLOCK % job->n_shards == job->shard;
    hs__record_stream_close(input);
    *ret_n = st ? 0 : n;
    return st;
}

/* Returns the free bytes on the disk of a file; UINT64_MAX if it is a device or a pipe. */
static uint64_t bytes_free(const char *path)
{
    struct stat file;
    return stat(path, &file) == 0 && !S_ISREG(file.st_mode) ? UINT64_MAX : hs__disk_free(path);
}

hs_status hs__pairs_expect(const hs__corpus_job *job, hs__pairs_file *pairs, uint64_t n_seen,
                           uint64_t n_texts, hs_error *err)
{
    uint64_t n_rows, n_bytes;
    if (!n_seen)
        return HS_OK;
    hs__pairs_file_count(pairs, &n_rows, &n_bytes);
    const double times = n_texts > n_seen ? (double)n_texts / (double)n_seen : 1;
    const hs__pairs_expected expected = {.texts_seen = n_seen,
                                         .texts = n_texts,
                                         .rows = times * (double)n_rows,
                                         .bytes = times * (double)n_bytes};
    const uint64_t free_bytes = bytes_free(job->pairs);
    if (job->expect)
        job->expect(&expected, job->progress_data);
    if (expected.bytes - (double)n_bytes > (double)free_bytes)
        return hs_fail(
            err, HS_NO_SPACE,
            "--pairs: '%.200s' would take about %.0f MB; %llu MB are free. Choose fewer pairs with "
            "--pairs-strongest, --pairs-heads, --pairs-min or --pairs-sample, or another disk",
            job->pairs, expected.bytes / (double)MB, (unsigned long long)(free_bytes / MB));
    return HS_OK;
}
