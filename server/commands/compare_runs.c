/* compare_runs.c - reads the report of each folder, and writes the comparison by the ending of a file. */
#include "server/commands/compare_runs.h"

#include "model/files/json.h"
#include "server/base/atomic_files.h"
#include "server/base/printable.h"
#include "server/corpus/report/comparison.h"
#include "server/corpus/report/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static hs_status run_add(hs__comparison *comparison, const char *dir, const char *name, hs_error *err)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/" HS__REPORT_JSON, dir);
    hs_error why = {0};
    int fd;
    uint64_t n_bytes;
    hs_status st = hs__file_open(path, &fd, &n_bytes, &why);
    if (st == HS_NOT_FOUND)
        return hs_fail(err, st, "'%.250s' holds no finished run: there is no " HS__REPORT_JSON " in it", dir);
    if (st)
        return hs_fail(err, st, "%s", why.text);
    st = hs__comparison_add_file(comparison, name, fd, err);
    close(fd);
    return st;
}

hs_status hs__folders_compare(const char *const *dirs, const char *const *names, size_t n,
                              json_t **ret_comparison, hs_error *err)
{
    hs__comparison *comparison = hs__comparison_create(NAN);
    hs_status st = comparison ? HS_OK : HS_NO_MEMORY;
    for (size_t i = 0; !st && i < n; i++)
        st = run_add(comparison, dirs[i], names[i], err);
    if (!st)
        hs__comparison_sort(comparison);
    *ret_comparison = st ? NULL : hs__comparison_json(comparison);
    hs__comparison_destroy(comparison);
    if (st == HS_NO_MEMORY || (!st && !*ret_comparison))
        return hs_fail(err, HS_NO_MEMORY, "no memory to compare runs");
    return st;
}

static hs_status page_write(FILE *file, void *data, hs_error *err)
{
    return hs__comparison_html_write(file, data, NULL, err);
}

static hs_status rows_write(FILE *file, void *data, hs_error *err)
{
    return hs__comparison_csv_write(file, data, err); /* the caller checks the file */
}

static hs_status json_write(FILE *file, void *data, hs_error *err)
{
    const hs_status st = hs_json_write(data, file, 12, err);
    if (!st)
        putc('\n', file); /* hs__file_replace checks the stream for errors */
    return st;
}

hs_status hs__comparison_write(const json_t *comparison, const char *path, hs_error *err)
{
    const char *ending = strrchr(path, '.');
    const hs__file_write write = ending && strcmp(ending, ".json") == 0  ? json_write
                                 : ending && strcmp(ending, ".csv") == 0 ? rows_write
                                                                         : page_write;
    return hs__path_write(path, write, (json_t *)comparison, err);
}

void hs__comparison_warnings_print(const json_t *comparison, const char *command)
{
    const json_t *warnings = json_object_get(comparison, "warnings");
    for (size_t i = 0; i < json_array_size(warnings); i++)
        hs__print(stderr, "headscope %s: %s\n", command, json_string_value(json_array_get(warnings, i)));
}
