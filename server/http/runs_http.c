/* runs_http.c - answers /corpora. Every function is a disk call, because runs live on a disk and in a
 * database. An upload is written piece by piece and never kept in memory. */
#include "server/http/routes.h"

#include "api/request/texts.h"
#include "model/base/read_number.h"
#include "model/files/json.h"
#include "server/base/log.h"
#include "server/corpus/report/comparison.h"
#include "server/corpus/report/report.h"
#include "server/http/stream.h"
#include "server/runs/runs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Returns true if this server keeps runs; else refuses the exchange. */
static bool kept(hs_exchange *x)
{
    hs_error err = {0};
    if (x->loaded && x->server->runs && !hs__runs_check(x->server->runs, &err))
        return true;
    if (x->server->runs) {
        hs__exchange_refuse_now(x, *err.text ? err.text : HS_STILL_LOADING);
    } else {
        hs__exchange_refuse(
            x, MHD_HTTP_NOT_IMPLEMENTED,
            "This server keeps no corpus runs. Start it with --state DIR, a folder for their files.");
    }
    return false;
}

/* Copies the id out of "/corpora/<id>/report"; "" if its length is wrong. */
static const char *id_of(const hs_exchange *x, char ret_id[HS_RUN_ID_MAX + 1])
{
    const char *from = x->path + strlen("/corpora/");
    const size_t n = strcspn(from, "/");
    snprintf(ret_id, HS_RUN_ID_MAX + 1, "%.*s", n <= HS_RUN_ID_MAX ? (int)n : 0, from);
    return ret_id;
}

/* Answers with the error. option: the wrong query parameter, or NULL. A call that was ended early is answered
 * by whoever ended it. */
static void refuse(hs_exchange *x, hs_status st, const char *option, const hs_error *err)
{
    if (st == HS_CANCELLED)
        return;
    const int status = st == HS_NOT_FOUND   ? MHD_HTTP_NOT_FOUND
                       : st == HS_INVALID   ? MHD_HTTP_UNPROCESSABLE_CONTENT
                       : st == HS_TOO_LARGE ? MHD_HTTP_UNPROCESSABLE_CONTENT
                       : st == HS_BUSY      ? MHD_HTTP_CONFLICT
                       : st == HS_NO_SPACE  ? MHD_HTTP_INSUFFICIENT_STORAGE
                       : st == HS_NO_MEMORY ? MHD_HTTP_SERVICE_UNAVAILABLE
                                            : MHD_HTTP_INTERNAL_SERVER_ERROR;
    char pointer[32];
    snprintf(pointer, sizeof pointer, "/%s", option ? option : "");
    if (status == MHD_HTTP_SERVICE_UNAVAILABLE)
        x->retry_after = "10";
    if (status == MHD_HTTP_INTERNAL_SERVER_ERROR)
        hs__log("error", "request %s: %s", x->id, err->text);
    hs__exchange_refuse_at(x, status, option ? pointer : NULL, "%s",
                           status == MHD_HTTP_INTERNAL_SERVER_ERROR
                               ? "The server could not change the files of its runs. Its log has the reason."
                               : err->text);
}

/* Returns the run, which the caller releases, or NULL if it refused the exchange. */
static json_t *run_find(hs_exchange *x, const char *id)
{
    json_t *run;
    hs_error err = {0};
    const hs_status st = hs__run_get(x->server->runs, id, &run, &err);
    if (st)
        refuse(x, st, NULL, &err);
    return run;
}

static void answer_run(hs_exchange *x, int status, const char *id)
{
    json_t *run = run_find(x, id);
    if (run)
        hs__exchange_answer_json(x, status, run);
}

/* Lets a read go on, which adds so many bytes to the answer, unless its call was ended early. */
static hs_status allow(void *data, size_t n_bytes, hs_error *err)
{
    hs_exchange *x = data;
    if (atomic_load(&x->disk_call.work.cancelled))
        return hs_fail(err, HS_CANCELLED, "cancelled");
    return hs__exchange_claim(x, n_bytes, err);
}

/* ---- starting a run ---- */

/* Query parameters after the settings of a run. */
enum { OF_MODEL, OF_NAME, N_BESIDE };
static const char *const beside[N_BESIDE] = {[OF_MODEL] = "model", [OF_NAME] = "name"};
_Static_assert(HS__SETTINGS_MAX + (int)N_BESIDE <= (int)HS_QUERY_NAMES_MAX, "a query holds all");

/* Returns false if it refused. The caller finishes the query. */
static bool query_read(hs_exchange *x, hs_query *ret_query)
{
    const char *names[HS_QUERY_NAMES_MAX];
    const size_t n = hs__settings_count();
    for (size_t k = 0; k < n; k++)
        names[k] = hs__setting_field(k)->name;
    memcpy(names + n, beside, sizeof beside);
    x->answered = !hs_query_read(x->query, names, n + N_BESIDE, ret_query, &x->response);
    return !x->answered;
}

/* Sets the input format from the Content-Type, unless the query gives one. Returns false if it refused. */
static bool format_read(hs_exchange *x, hs_query *q)
{
    const char *type = hs__header(x->mhd, MHD_HTTP_HEADER_CONTENT_TYPE);
    hs__text_format format;
    if (type && hs__input_format_of_type(type, strcspn(type, "; \t"), &format)) {
        const size_t k = hs__setting_find("input_format");
        if (!q->values[k])
            q->values[k] = hs__input_format_name(format);
        return true;
    }
    hs__exchange_refuse(
        x, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE,
        "The Content-Type is missing or unknown. Send text/plain (one text on each line), "
        "application/x-ndjson (a "
        "string or an object with text on each line), application/json (an array of these), text/csv or "
        "text/tab-separated-values (with a header line), or application/octet-stream (the format is "
        "detected). "
        "gzip and zstd are unpacked.");
    return false;
}

/* State of an exchange while it receives a corpus. */
typedef struct receiving {
    hs_upload *upload; /* NULL after it was queued */
    hs_disk *disk;
    hs_disk_call abandon;
} receiving;

static void abandon_run(hs_disk_call *call)
{
    receiving *r = call->data;
    hs__upload_abandon(r->upload);
}

static void abandon_done(hs_disk_call *call)
{
    free(call->data);
}

/* The exchange ended, with or without a run. */
static void receiving_end(void *user_data)
{
    receiving *r = user_data;
    if (!r->upload) {
        free(r);
        return;
    }
    r->abandon = (hs_disk_call){.run = abandon_run, .done = abandon_done, .data = r};
    hs__disk_continue(r->disk, &r->abandon);
}

static const char *given(const hs_query *q, size_t k)
{
    return q->values[k] ? q->values[k] : "";
}

static void upload_begin(hs_exchange *x, const hs_query *q)
{
    const size_t n = hs__settings_count();
    hs_run_request request = {.name = given(q, n + OF_NAME), .model = given(q, n + OF_MODEL)};
    for (size_t k = 0; k < n; k++)
        request.settings[k] = given(q, k);
    const char *length = hs__header(x->mhd, MHD_HTTP_HEADER_CONTENT_LENGTH), *option = NULL;
    int64_t n_bytes = 0;
    if (length)
        (void)hs_integer_read(length, NULL, 0, INT64_MAX, &n_bytes);
    hs_error err = {0};
    receiving *r = calloc(1, sizeof *r);
    if (!r) {
        hs__exchange_refuse_memory(x);
        return;
    }
    const hs_status st =
        hs__upload_begin(x->server->runs, &request, (uint64_t)n_bytes, &r->upload, &option, &err);
    r->disk = &x->server->disk;
    x->user_data = r;
    x->user_data_free = receiving_end;
    if (st)
        refuse(x, st, option, &err);
}

static void run_upload_begin(hs_exchange *x)
{
    hs_query query = {0};
    if (kept(x) && query_read(x, &query) && format_read(x, &query))
        upload_begin(x, &query);
    hs_query_finish(&query);
}

static void upload_receive(hs_exchange *x)
{
    receiving *r = x->user_data;
    hs_error err = {0};
    const hs_status st = hs__upload_add(r->upload, x->body, x->body_bytes, &err);
    if (st)
        refuse(x, st, NULL, &err);
}

static void upload_finish(hs_exchange *x)
{
    char id[HS_RUN_ID_MAX + 1];
    receiving *r = x->user_data;
    hs_error err = {0};
    hs_status st = x->body_bytes ? hs__upload_add(r->upload, x->body, x->body_bytes, &err) : HS_OK;
    if (!st) {
        st = hs__upload_finish(r->upload, id, &err);
        r->upload = NULL; /* consumed, also on failure */
    }
    if (st) {
        refuse(x, st, NULL, &err);
        return;
    }
    snprintf(x->location, sizeof x->location, "/corpora/%s", id);
    answer_run(x, MHD_HTTP_ACCEPTED, id);
}

/* ---- runs ---- */

/* Reads an integer from 1 to max; keeps *ret if there is no text. Returns false if it refused. */
static bool number_read(hs_exchange *x, const char *name, const char *text, uint64_t max, uint64_t *ret)
{
    const uint64_t most = max < INT64_MAX ? max : INT64_MAX;
    int64_t number;
    char pointer[32];
    if (!text)
        return true;
    if (!hs_integer_read(text, NULL, 1, (int64_t)most, &number)) {
        *ret = (uint64_t)number;
        return true;
    }
    snprintf(pointer, sizeof pointer, "/%s", name);
    hs__exchange_refuse_at(x, MHD_HTTP_UNPROCESSABLE_CONTENT, pointer,
                           "%s is \"%.40s\"; it must be an integer from 1 to %llu", name, text,
                           (unsigned long long)max);
    return false;
}

static void list(hs_exchange *x, uint64_t before, uint64_t limit)
{
    json_t *page;
    hs_error err = {0};
    const hs_status st = hs__runs_list(x->server->runs, before, limit, &page, &err);
    if (st)
        refuse(x, st, NULL, &err);
    else
        hs__exchange_answer_json(x, MHD_HTTP_OK, page);
}

static void answer_list(hs_exchange *x)
{
    static const char *const names[] = {"before", "limit"};
    uint64_t before = 0, limit = HS_RUNS_PAGE;
    hs_query query = {0};
    if (!kept(x))
        return;
    x->answered = !hs_query_read(x->query, names, 2, &query, &x->response);
    if (!x->answered && number_read(x, names[0], query.values[0], INT64_MAX, &before) &&
        number_read(x, names[1], query.values[1], HS_RUNS_PAGE_MAX, &limit))
        list(x, before, limit);
    hs_query_finish(&query);
}

static void run_answer_run(hs_exchange *x)
{
    char id[HS_RUN_ID_MAX + 1];
    if (kept(x))
        answer_run(x, MHD_HTTP_OK, id_of(x, id));
}

/* Asks for a change of the run's state, and answers with the run. */
static void answer_change(hs_exchange *x, hs_status (*change)(hs_runs *, const char *, hs_error *))
{
    char id[HS_RUN_ID_MAX + 1];
    hs_error err = {0};
    if (!kept(x))
        return;
    const hs_status st = change(x->server->runs, id_of(x, id), &err);
    if (st)
        refuse(x, st, NULL, &err);
    else
        answer_run(x, MHD_HTTP_ACCEPTED, id);
}

static void answer_cancel(hs_exchange *x)
{
    answer_change(x, hs__run_cancel);
}

static void answer_restart(hs_exchange *x)
{
    answer_change(x, hs__run_restart);
}

static void answer_delete(hs_exchange *x)
{
    char id[HS_RUN_ID_MAX + 1];
    hs_error err = {0};
    if (!kept(x))
        return;
    const hs_status st = hs__run_delete(x->server->runs, id_of(x, id), &err);
    if (st)
        refuse(x, st, NULL, &err);
    else
        hs__exchange_answer(x, MHD_HTTP_NO_CONTENT, NULL, NULL, 0, true);
}

/* ---- examples and searches ---- */

/* A query parameter of a search, and the member that takes it. */
typedef struct search_parameter {
    const char *name;
    size_t at;
} search_parameter;

#define PARAMETER(name)                                                                                      \
    {                                                                                                        \
#name, offsetof(hs__search_query, name)                                                              \
    }
static const search_parameter example_parameters[] = {PARAMETER(layer), PARAMETER(head), PARAMETER(by),
                                                      PARAMETER(limit)};
static const search_parameter search_parameters[] = {PARAMETER(layer),    PARAMETER(head), PARAMETER(from),
                                                     PARAMETER(to),       PARAMETER(of),   PARAMETER(min),
                                                     PARAMETER(distance), PARAMETER(limit)};
enum { SEARCH_PARAMETERS_MAX = sizeof search_parameters / sizeof *search_parameters };

static void answer_search(hs_exchange *x, hs__run_reader *reader, const search_parameter *parameters,
                          size_t n)
{
    const char *names[SEARCH_PARAMETERS_MAX] = {0}, *wrong = NULL;
    char id[HS_RUN_ID_MAX + 1];
    hs_query query = {0};
    const hs__read_check check = {allow, x};
    hs__search_query search = {.check = &check};
    json_t *answer = NULL;
    hs_error err = {0};
    for (size_t k = 0; k < n; k++)
        names[k] = parameters[k].name;
    if (!hs_query_read(x->query, names, n, &query, &x->response)) {
        x->answered = true;
    } else {
        for (size_t k = 0; k < n; k++)
            *(const char **)(void *)((char *)&search + parameters[k].at) = query.values[k];
        const hs_status st =
            hs__run_search(x->server->runs, id_of(x, id), reader, &search, &answer, &wrong, &err);
        if (st)
            refuse(x, st, wrong, &err);
        else
            hs__exchange_answer_json(x, MHD_HTTP_OK, answer);
    }
    hs_query_finish(&query);
}

static void answer_examples(hs_exchange *x)
{
    if (kept(x))
        answer_search(x, hs__search_examples, example_parameters,
                      sizeof example_parameters / sizeof *example_parameters);
}

static void run_answer_search(hs_exchange *x)
{
    if (kept(x))
        answer_search(x, hs__search_pairs, search_parameters, SEARCH_PARAMETERS_MAX);
}

/* ---- the report ---- */

enum { REPORT_FORMATS = 3 };

static const hs_format report_formats[REPORT_FORMATS] = {
    {"json", "application/json"}, {"npz", "application/x-npz"}, {"html", "text/html"}};
static const char *const report_files[REPORT_FORMATS] = {HS__REPORT_JSON, HS__REPORT_NPZ, HS__REPORT_HTML};

typedef struct file_source {
    int fd;
    uint64_t offset;
} file_source;

static ssize_t file_fill(void *data, char *to, size_t n_max)
{
    file_source *file = data;
    const ssize_t n = pread(file->fd, to, n_max, (off_t)file->offset);
    if (n <= 0)
        return HS_STREAM_END; /* cut short: the connection is closed, so that the client notices */
    file->offset += (uint64_t)n;
    return n;
}

static void file_end(void *data)
{
    file_source *file = data;
    close(file->fd);
    free(file);
}

/* Security policy of pages that hold their own script and styles, and load nothing. Printing is a modal. */
static const char report_policy[] =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'; sandbox allow-scripts allow-downloads allow-modals "
    "allow-popups allow-popups-to-escape-sandbox";

/* Answers with the content of a file, or refuses if memory is short. Closes fd. */
static void answer_file(hs_exchange *x, int fd, uint64_t n_bytes, const char *media_type)
{
    hs_stream_source source = {file_fill, file_end, malloc(sizeof(file_source))};
    if (!source.data) {
        close(fd);
        hs__exchange_refuse_memory(x);
        return;
    }
    *(file_source *)source.data = (file_source){.fd = fd};
    hs__stream_begin(x, n_bytes, &source);
    if (!x->prepared)
        return;
    x->security_policy = report_policy;
    hs__exchange_answer(x, MHD_HTTP_OK, media_type, NULL, n_bytes, true);
}

static void answer_report(hs_exchange *x, const char *id, const char *state)
{
    uint64_t n_bytes = 0;
    int fd;
    hs_error err = {0};
    const size_t format = hs_format_choose(report_formats, REPORT_FORMATS, x->query,
                                           hs__header(x->mhd, MHD_HTTP_HEADER_ACCEPT), &x->response);
    if (format == REPORT_FORMATS) {
        x->answered = true;
        return;
    }
    const hs_status st = hs__run_report_open(x->server->runs, id, report_files[format], &fd, &n_bytes, &err);
    if (st == HS_NO_MEMORY)
        refuse(x, st, NULL, &err);
    else if (st)
        hs__exchange_refuse(x, MHD_HTTP_NOT_FOUND, "The run is %s, so it has no report.", state);
    else
        answer_file(x, fd, n_bytes, report_formats[format].media_type);
}

static void run_answer_report(hs_exchange *x)
{
    char id[HS_RUN_ID_MAX + 1];
    if (!kept(x))
        return;
    json_t *run = run_find(x, id_of(x, id));
    if (run)
        answer_report(x, id, json_string_value(json_object_get(run, "state")));
    json_decref(run);
}

/* ---- comparisons ---- */

enum { COMPARE_WITH, COMPARE_THRESHOLD, COMPARE_FORMAT, COMPARE_PARAMETERS };
enum { COMPARISON_JSON, COMPARISON_HTML, COMPARISON_CSV, COMPARISON_FORMATS };

static const hs_format comparison_formats[COMPARISON_FORMATS] = {
    {"json", "application/json"}, {"html", "text/html"}, {"csv", "text/csv"}};

/* A comparison to be written. */
typedef struct compared {
    const json_t *json;
    const hs__read_check *check;
} compared;

static hs_status compared_json_write(FILE *out, const void *data, hs_error *err)
{
    const compared *c = data;
    return hs_json_write(c->json, out, 12, err);
}

static hs_status compared_html_write(FILE *out, const void *data, hs_error *err)
{
    const compared *c = data;
    return hs__comparison_html_write(out, c->json, c->check, err);
}

static hs_status compared_csv_write(FILE *out, const void *data, hs_error *err)
{
    const compared *c = data;
    return hs__comparison_csv_write(out, c->json, err);
}

/* Answers with a comparison in a format, or refuses if memory is short. */
static void answer_compared(hs_exchange *x, const compared *comparison, size_t format)
{
    static hs_status (*const writers[COMPARISON_FORMATS])(FILE * out, const void *data, hs_error *err) = {
        [COMPARISON_JSON] = compared_json_write,
        [COMPARISON_HTML] = compared_html_write,
        [COMPARISON_CSV] = compared_csv_write};
    hs_error err = {0};
    const hs_status st = hs__exchange_answer_written(x, comparison_formats[format].media_type,
                                                     writers[format], comparison, &err);
    if (st)
        refuse(x, st, NULL, &err);
    else if (format == COMPARISON_HTML)
        x->security_policy = report_policy;
}

/* Reads a threshold; NAN without one. */
static bool threshold_read(hs_exchange *x, const char *text, double *ret)
{
    *ret = NAN;
    if (!text || (!hs_real_read(text, NULL, ret) && *ret > 0 && *ret < 1))
        return true;
    hs__exchange_refuse_at(x, MHD_HTTP_UNPROCESSABLE_CONTENT, "/threshold",
                           "threshold is \"%.40s\"; it must be a number above 0 and below 1, at which all "
                           "runs counted",
                           text);
    return false;
}

/* Compares the run of the path with those of the parameter `with`. */
static void compare(hs_exchange *x, const char *with, double threshold, size_t format)
{
    char id[HS_RUN_ID_MAX + 1], ids[HS_RUN_ID_MAX + 1 + HS_QUERY_VALUE_BYTES];
    hs_error err = {0};
    json_t *comparison = NULL, *run = run_find(x, id_of(x, id));
    json_decref(run);
    if (!run)
        return;
    snprintf(ids, sizeof ids, "%s,%s", id, with);
    const hs__read_check check = {allow, x};
    const hs_status st = hs__runs_compare(x->server->runs, ids, threshold, &check, &comparison, &err);
    if (st)
        refuse(x, st, st == HS_NO_MEMORY || st == HS_IO || st == HS_CANCELLED ? NULL : "with", &err);
    else
        answer_compared(x, &(compared){comparison, &check}, format);
    json_decref(comparison);
}

static void answer_comparison(hs_exchange *x)
{
    static const char *const names[COMPARE_PARAMETERS] = {"with", "threshold", "format"};
    hs_query query = {0};
    char format_query[64];
    double threshold;
    if (!kept(x))
        return;
    x->answered = !hs_query_read(x->query, names, COMPARE_PARAMETERS, &query, &x->response);
    if (!x->answered) {
        const char *given_format = query.values[COMPARE_FORMAT];
        snprintf(format_query, sizeof format_query, "format=%.50s", given_format ? given_format : "");
        const size_t format =
            hs_format_choose(comparison_formats, COMPARISON_FORMATS, given_format ? format_query : NULL,
                             hs__header(x->mhd, MHD_HTTP_HEADER_ACCEPT), &x->response);
        x->answered = format == COMPARISON_FORMATS;
        if (!x->answered && threshold_read(x, query.values[COMPARE_THRESHOLD], &threshold))
            compare(x, query.values[COMPARE_WITH] ? query.values[COMPARE_WITH] : "", threshold, format);
    }
    hs_query_finish(&query);
}

/* ---- events ---- */

/* Returns the run, or NULL if it was deleted or memory is short. */
static json_t *run_read(hs_server *server, const char *id, bool *ret_over)
{
    json_t *run;
    const char *state =
        hs__run_get(server->runs, id, &run, NULL) ? "" : json_string_value(json_object_get(run, "state"));
    *ret_over = strcmp(state, "queued") != 0 && strcmp(state, "running") != 0;
    return run;
}

static void answer_events(hs_exchange *x)
{
    char id[HS_RUN_ID_MAX + 1];
    if (!kept(x))
        return;
    json_t *run = run_find(x, id_of(x, id));
    json_decref(run);
    if (run)
        hs__events_answer(x, run_read, id);
}

/* ---- routes ---- */

static const hs_route rows[] = {
    {.method = "POST",
     .path = "/corpora",
     .executor = HS_ON_DISK,
     .answer = upload_finish,
     .begin = run_upload_begin,
     .receive = upload_receive},
    {.method = "GET", .path = "/corpora", .executor = HS_ON_DISK, .answer = answer_list},
    {.method = "GET", .path = "/corpora/{id}", .executor = HS_ON_DISK, .answer = run_answer_run},
    {.method = "DELETE", .path = "/corpora/{id}", .executor = HS_ON_DISK, .answer = answer_delete},
    {.method = "GET", .path = "/corpora/{id}/events", .executor = HS_ON_DISK, .answer = answer_events},
    {.method = "GET", .path = "/corpora/{id}/report", .executor = HS_ON_DISK, .answer = run_answer_report},
    {.method = "GET",
     .path = "/corpora/{id}/comparison",
     .executor = HS_ON_DISK,
     .answer = answer_comparison},
    {.method = "GET", .path = "/corpora/{id}/examples", .executor = HS_ON_DISK, .answer = answer_examples},
    {.method = "GET", .path = "/corpora/{id}/search", .executor = HS_ON_DISK, .answer = run_answer_search},
    {.method = "POST", .path = "/corpora/{id}/cancel", .executor = HS_ON_DISK, .answer = answer_cancel},
    {.method = "POST", .path = "/corpora/{id}/restart", .executor = HS_ON_DISK, .answer = answer_restart},
};

const hs_route_table hs__run_routes = {rows, sizeof rows / sizeof *rows};
