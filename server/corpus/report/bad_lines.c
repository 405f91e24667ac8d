/* bad_lines.c - a sorted list of fixed length under a lock. */
#include "server/corpus/report/bad_lines.h"

#include "model/base/utf8.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hs__bad_lines {
    pthread_mutex_t lock;
    uint64_t count;
    size_t n;
    hs__bad_line listed[HS__BAD_LINES_LISTED_MAX]; /* by file, then line */
};

hs__bad_lines *hs__bad_lines_create(void)
{
    hs__bad_lines *bad = calloc(1, sizeof *bad);
    if (bad && pthread_mutex_init(&bad->lock, NULL)) {
        free(bad);
        return NULL;
    }
    return bad;
}

void hs__bad_lines_destroy(hs__bad_lines *bad)
{
    if (bad)
        pthread_mutex_destroy(&bad->lock);
    free(bad);
}

static bool precedes(const hs__bad_line *a, const hs__bad_line *b)
{
    return a->file != b->file ? a->file < b->file : a->line < b->line;
}

/* Makes the reason valid UTF-8, as JSON requires: the parser may have cut the quoted line inside a character.
 */
static void why_mend(char *why)
{
    const size_t n = strlen(why);
    for (size_t at = 0; (at += hs_utf8_valid(why + at, n - at)) < n;)
        why[at] = '?';
}

static void insert(hs__bad_lines *bad, const hs__bad_line *line)
{
    size_t at = bad->n;
    if (at == HS__BAD_LINES_LISTED_MAX && !precedes(line, &bad->listed[at - 1]))
        return;
    at -= at == HS__BAD_LINES_LISTED_MAX;
    bad->n = at + 1;
    for (; at && precedes(line, &bad->listed[at - 1]); at--)
        bad->listed[at] = bad->listed[at - 1];
    bad->listed[at] = *line;
    why_mend(bad->listed[at].why);
}

void hs__bad_lines_add(hs__bad_lines *bad, const hs__bad_line *line)
{
    pthread_mutex_lock(&bad->lock);
    bad->count += line->n_lines;
    insert(bad, line);
    pthread_mutex_unlock(&bad->lock);
}

uint64_t hs__bad_lines_count(hs__bad_lines *bad)
{
    pthread_mutex_lock(&bad->lock);
    const uint64_t count = bad->count;
    pthread_mutex_unlock(&bad->lock);
    return count;
}

json_t *hs__bad_lines_save(hs__bad_lines *bad, const json_t *names)
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

/* Reads one entry; false when it is damaged. */
static bool line_load(const json_t *saved, size_t n_files, hs__bad_line *ret_line)
{
    json_int_t file, number;
    const char *why;
    if (json_unpack((json_t *)saved, "{sI sI ss}", "file", &file, "line", &number, "why", &why) || file < 0 ||
        (uint64_t)file >= n_files || number < 0)
        return false;
    ret_line->file = (size_t)file;
    ret_line->line = (uint64_t)number;
    snprintf(ret_line->why, sizeof ret_line->why, "%s", why);
    return true;
}

hs_status hs__bad_lines_load(hs__bad_lines *bad, const json_t *saved, size_t n_files, hs_error *err)
{
    json_int_t count;
    json_t *lines;
    hs__bad_line line;
    bool ok = !json_unpack((json_t *)saved, "{sI so}", "count", &count, "lines", &lines) &&
              json_is_array(lines) && count >= (json_int_t)json_array_size(lines);
    for (size_t i = 0; ok && i < json_array_size(lines); i++)
        ok = line_load(json_array_get(lines, i), n_files, &line);
    if (!ok)
        return hs_fail(err, HS_INVALID, "the saved list of bad lines is damaged");
    pthread_mutex_lock(&bad->lock);
    bad->count += (uint64_t)count;
    for (size_t i = 0; i < json_array_size(lines); i++)
        if (line_load(json_array_get(lines, i), n_files, &line))
            insert(bad, &line);
    pthread_mutex_unlock(&bad->lock);
    return HS_OK;
}
