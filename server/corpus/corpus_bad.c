/* corpus_bad.c - a sorted list of fixed length under a lock: the first bad lines stay, whoever finds them
 * first. */
#include "server/corpus/corpus_bad.h"

#include "model/utf8.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hs__corpus_bad {
    pthread_mutex_t lock;
    uint64_t count;
    size_t n;
    hs__bad_line listed[HS__CORPUS_BAD_LISTED_MAX]; /* by file, then line */
};

hs__corpus_bad *hs__corpus_bad_create(void)
{
    hs__corpus_bad *bad = calloc(1, sizeof *bad);
    if (bad && pthread_mutex_init(&bad->lock, NULL)) {
        free(bad);
        return NULL;
    }
    return bad;
}

void hs__corpus_bad_destroy(hs__corpus_bad *bad)
{
    if (bad)
        pthread_mutex_destroy(&bad->lock);
    free(bad);
}

static bool precedes(const hs__bad_line *a, const hs__bad_line *b)
{
    return a->file != b->file ? a->file < b->file : a->line < b->line;
}

static void insert(hs__corpus_bad *bad, const hs__bad_line *line)
{
    size_t at = bad->n;
    if (at == HS__CORPUS_BAD_LISTED_MAX && !precedes(line, &bad->listed[at - 1]))
        return;
    at -= at == HS__CORPUS_BAD_LISTED_MAX;
    bad->n = at + 1;
    for (; at && precedes(line, &bad->listed[at - 1]); at--)
        bad->listed[at] = bad->listed[at - 1];
    bad->listed[at] = *line;
}

void hs__corpus_bad_add(hs__corpus_bad *bad, const hs__bad_line *line)
{
    hs__bad_line copy = *line;
    /* The JSON parser quotes the line, cut anywhere; a string that is no UTF-8 could not be saved. */
    const size_t n = strlen(copy.why);
    for (size_t at = 0; (at += hs_utf8_valid(copy.why + at, n - at)) < n;)
        copy.why[at] = '?';
    pthread_mutex_lock(&bad->lock);
    bad->count++;
    insert(bad, &copy);
    pthread_mutex_unlock(&bad->lock);
}

uint64_t hs__corpus_bad_count(hs__corpus_bad *bad)
{
    pthread_mutex_lock(&bad->lock);
    const uint64_t count = bad->count;
    pthread_mutex_unlock(&bad->lock);
    return count;
}

json_t *hs__corpus_bad_save(hs__corpus_bad *bad, const json_t *names)
{
    json_t *lines = json_array();
    pthread_mutex_lock(&bad->lock);
    const uint64_t count = bad->count;
    for (size_t i = 0; i < bad->n; i++) {
        const hs__bad_line *line = &bad->listed[i];
        json_t *name = names ? json_incref(json_array_get(names, line->file)) : NULL;
        json_array_append_new(lines, json_pack("{so sI ss}", "file",
                                               name ? name : json_integer((json_int_t)line->file), "line",
                                               (json_int_t)line->line, "why", line->why));
    }
    pthread_mutex_unlock(&bad->lock);
    return json_pack("{sI so}", "count", (json_int_t)count, "lines", lines);
}

hs_status hs__corpus_bad_load(hs__corpus_bad *bad, const json_t *saved, hs_error *err)
{
    json_int_t count;
    json_t *lines;
    if (json_unpack((json_t *)saved, "{sI so}", "count", &count, "lines", &lines))
        return hs_fail(err, HS_INVALID, "the saved list of bad lines is damaged");
    pthread_mutex_lock(&bad->lock);
    bad->count += (uint64_t)count;
    for (size_t i = 0; i < json_array_size(lines); i++) {
        json_int_t file, number;
        const char *why;
        hs__bad_line line;
        if (json_unpack(json_array_get(lines, i), "{sI sI ss}", "file", &file, "line", &number, "why", &why))
            continue;
        line.file = (size_t)file;
        line.line = (uint64_t)number;
        snprintf(line.why, sizeof line.why, "%s", why);
        insert(bad, &line);
    }
    pthread_mutex_unlock(&bad->lock);
    return HS_OK;
}
