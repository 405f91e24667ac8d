/* run_comparison.c - compares runs by their ids. */
#include "server/corpus/report/comparison.h"
#include "server/corpus/report/report.h"
#include "server/runs/runs.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A comparison in the making, and what its caller allowed it. */
typedef struct making {
    hs__comparison *comparison;
    const hs__read_check *check;
    size_t n_parsed, n_kept; /* bytes: of the largest report while it is read, of the comparison */
} making;

/* Asks for more bytes than *n_allowed if needed. */
static hs_status allow_up_to(const making *m, size_t n_bytes, size_t *n_allowed, hs_error *err)
{
    const size_t n_more = n_bytes > *n_allowed ? n_bytes - *n_allowed : 0;
    *n_allowed += n_more;
    return hs__read_allow(m->check, n_more, err);
}

static hs_status file_add(making *m, const char *name, int fd, uint64_t n_bytes, hs_error *err)
{
    const uint64_t most = n_bytes < HS__COMPARED_BYTES_MAX ? n_bytes : HS__COMPARED_BYTES_MAX;
    hs_status st = allow_up_to(m, (size_t)most * HS__COMPARED_PARSED, &m->n_parsed, err);
    if (!st)
        st = hs__comparison_add_file(m->comparison, name, fd, err);
    return st ? st : allow_up_to(m, hs__comparison_bytes(m->comparison), &m->n_kept, err);
}

static hs_status run_add(hs_runs *runs, const char *id, making *m, hs_error *err)
{
    json_t *run;
    hs_status st = hs__run_get(runs, id, &run, err);
    const char *state = json_string_value(json_object_get(run, "state"));
    const char *name = json_string_value(json_object_get(run, "name"));
    uint64_t n_bytes;
    int fd = -1;
    if (!st && strcmp(state, "done") != 0)
        st = hs_fail(err, HS_INVALID, "The run '%.32s' is %s; runs must be done to be compared.", id, state);
    if (!st)
        st = hs__run_report_open(runs, id, HS__REPORT_JSON, &fd, &n_bytes, err);
    if (!st)
        st = file_add(m, name && *name ? name : id, fd, n_bytes, err);
    if (fd >= 0)
        close(fd);
    json_decref(run);
    return st;
}

/* Returns true if the list has the same id before `at`. */
static bool is_named_before(const char *ids, const char *at, const char *id)
{
    const char *found = strstr(ids, id);
    return found && found < at;
}

static hs_status runs_add(hs_runs *runs, const char *ids, making *m, hs_error *err)
{
    hs_status st = HS_OK;
    for (const char *at = ids; !st && *at;) {
        const size_t n = strcspn(at, ",");
        char id[40];
        snprintf(id, sizeof id, "%.*s", (int)(n < sizeof id ? n : sizeof id - 1), at);
        if (n && is_named_before(ids, at, id))
            return hs_fail(err, HS_INVALID, "The run '%.32s' is named twice.", id);
        st = run_add(runs, id, m, err);
        at += n + (at[n] == ',');
    }
    return st;
}

hs_status hs__runs_compare(hs_runs *runs, const char *ids, double threshold, const hs__read_check *check,
                           json_t **ret_comparison, hs_error *err)
{
    making m = {.comparison = hs__comparison_create(threshold), .check = check};
    hs_status st = m.comparison ? runs_add(runs, ids, &m, err)
                                : hs_fail(err, HS_NO_MEMORY, "No memory to compare runs.");
    *ret_comparison = st ? NULL : hs__comparison_json(m.comparison);
    hs__comparison_destroy(m.comparison);
    return !st && !*ret_comparison ? hs_fail(err, HS_NO_MEMORY, "No memory to compare runs.") : st;
}
