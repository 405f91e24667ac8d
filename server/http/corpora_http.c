#include "server/http/corpora_http.h"

#include "server/base/log.h"
#include "server/corpus/corpus_report.h"
#include "server/http/routes.h"
#include "server/runs/corpora.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { OPTION_BYTES = 2048, EVENT_MS = 250, HEARTBEAT_MS = 15000, EXTEND_BYTES = 1 << 20 };

/* True when this server keeps runs; otherwise the exchange is refused. */
static bool kept(hs_exchange *x)
{
    if (hs__corpora_started(x->server->corpora))
        return true;
    if (x->server->options->state_dir) {
        x->retry_after = "1";
        hs__exchange_refuse(x, MHD_HTTP_SERVICE_UNAVAILABLE, "The models are being loaded.");
    } else {
        hs__exchange_refuse(
            x, MHD_HTTP_NOT_IMPLEMENTED,
            "This server keeps no corpus runs. Start it with --state DIR, a folder for them.");
    }
    return false;
}

/* "/corpora/<id>/report" -> "<id>"; "" when it cannot be one. */
static const char *id_of(const hs_exchange *x, char ret_id[HS_CORPORA_ID_MAX + 1])
{
    const char *from = x->path + strlen("/corpora/");
    const size_t n = strcspn(from, "/");
    snprintf(ret_id, HS_CORPORA_ID_MAX + 1, "%.*s", n <= HS_CORPORA_ID_MAX ? (int)n : 0, from);
    return ret_id;
}

static void answer_json(hs_exchange *x, int status, json_t *json)
{
    char *text = json ? json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
    json_decref(json);
    if (text)
        hs__exchange_answer(x, status, "application/json", text, strlen(text), false);
    else
        hs__exchange_refuse(x, MHD_HTTP_INTERNAL_SERVER_ERROR, "Out of memory.");
}

static void refuse_unknown(hs_exchange *x, const char *id)
{
    hs__exchange_refuse(x, MHD_HTTP_NOT_FOUND, "There is no run '%s'; GET /corpora lists them.", id);
}

/* option: of the query, that is wrong; or NULL. */
static void refuse(hs_exchange *x, hs_status st, const char *option, const hs_error *err)
{
    const int status = st == HS_NOT_FOUND   ? MHD_HTTP_NOT_FOUND
                       : st == HS_INVALID   ? MHD_HTTP_UNPROCESSABLE_CONTENT
                       : st == HS_TOO_LARGE ? MHD_HTTP_INSUFFICIENT_STORAGE
                                            : MHD_HTTP_INTERNAL_SERVER_ERROR;
    char pointer[32];
    snprintf(pointer, sizeof pointer, "/%s", option ? option : "");
    if (status == MHD_HTTP_INTERNAL_SERVER_ERROR)
        hs__log("error", "request %s: %s", x->id, err->text);
    hs__exchange_refuse_at(x, status, option ? pointer : NULL, "%s",
                           status == MHD_HTTP_INTERNAL_SERVER_ERROR
                               ? "The server cannot keep it; its log says why."
                               : err->text);
}

/* ---- starting a run ---- */

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* One value of the query, percent-decoded. False: malformed or too long. */
static bool decode(const char *from, size_t n, char ret[OPTION_BYTES])
{
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        char c = from[i] == '+' ? ' ' : from[i];
        if (c == '%') {
            const int high = i + 2 < n ? hex(from[i + 1]) : -1, low = high >= 0 ? hex(from[i + 2]) : -1;
            if (low < 0)
                return false;
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (!c || used + 1 >= OPTION_BYTES)
            return false;
        ret[used++] = c;
    }
    ret[used] = '\0';
    return true;
}

enum { OPTION_MODEL, OPTION_MAX_TOKENS, OPTION_LAYERS, OPTION_THRESHOLDS, OPTION_NAME, N_OPTIONS };

static const char *const option_names[N_OPTIONS] = {"model", "max_tokens", "layers", "thresholds", "name"};

typedef struct run_options {
    char values[N_OPTIONS][OPTION_BYTES];
    bool given[N_OPTIONS];
} run_options;

/* "layers=0,2" of n bytes. False: refused. */
static bool option_read(hs_exchange *x, const char *text, size_t n, run_options *o)
{
    const size_t n_name = strcspn(text, "=&");
    char name[64], pointer[80];
    snprintf(name, sizeof name, "%.*s", n_name < sizeof name ? (int)n_name : (int)sizeof name, text);
    snprintf(pointer, sizeof pointer, "/%s", name);
    size_t k = 0;
    while (k < N_OPTIONS && strcmp(name, option_names[k]) != 0)
        k++;
    if (k == N_OPTIONS)
        hs__exchange_refuse_at(x, MHD_HTTP_UNPROCESSABLE_CONTENT, strpbrk(name, "/~") ? NULL : pointer,
                               "unknown query parameter '%s'; allowed: model, max_tokens, layers, "
                               "thresholds, name",
                               name);
    else if (o->given[k])
        hs__exchange_refuse_at(x, MHD_HTTP_UNPROCESSABLE_CONTENT, pointer,
                               "the query parameter '%s' is given twice", name);
    else if (n_name == n || !decode(text + n_name + 1, n - n_name - 1, o->values[k]))
        hs__exchange_refuse_at(x, MHD_HTTP_UNPROCESSABLE_CONTENT, pointer,
                               "%s must be a percent-encoded value of less than %d bytes", name,
                               OPTION_BYTES);
    else
        return o->given[k] = true;
    return false;
}

/* False: refused. */
static bool query_read(hs_exchange *x, run_options *o)
{
    for (const char *at = x->query; at && *at;) {
        const size_t n = strcspn(at, "&");
        if (n && !option_read(x, at, n, o))
            return false;
        at += n + (at[n] == '&');
    }
    return true;
}

/* By the Content-Type. False: refused. */
static bool lines_read(hs_exchange *x, hs__corpus_lines *ret_lines)
{
    static const char json[] = "application/x-ndjson", text[] = "text/plain";
    const char *type = hs__header(x->mhd, MHD_HTTP_HEADER_CONTENT_TYPE);
    const size_t n = type ? strcspn(type, "; \t") : 0;
    const bool is_json = n == sizeof json - 1 && strncasecmp(type, json, n) == 0;
    *ret_lines = is_json ? HS__LINES_JSON : HS__LINES_TEXT;
    if (is_json || (n == sizeof text - 1 && strncasecmp(type, text, n) == 0))
        return true;
    hs__exchange_refuse(
        x, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE,
        "Send application/x-ndjson (a JSON object with text, or a string, a line) or text/plain (a "
        "text a line).");
    return false;
}

static void upload_begin(hs_exchange *x, const run_options *o, hs__corpus_lines lines)
{
    const hs_corpora_request request = {.name = o->values[OPTION_NAME],
                                        .model = o->values[OPTION_MODEL],
                                        .max_tokens = o->values[OPTION_MAX_TOKENS],
                                        .layers = o->values[OPTION_LAYERS],
                                        .thresholds = o->values[OPTION_THRESHOLDS],
                                        .lines = lines};
    const char *length = hs__header(x->mhd, MHD_HTTP_HEADER_CONTENT_LENGTH), *option = NULL;
    hs_error err = {0};
    const hs_status st = hs__upload_begin(x->server->corpora, &request,
                                          length ? strtoull(length, NULL, 10) : 0, &x->upload, &option, &err);
    if (st)
        refuse(x, st, option, &err);
}

void hs__corpora_begin(hs_exchange *x)
{
    run_options *o = calloc(1, sizeof *o);
    hs__corpus_lines lines;
    if (!o)
        hs__exchange_refuse(x, MHD_HTTP_INTERNAL_SERVER_ERROR, "Out of memory.");
    else if (kept(x) && lines_read(x, &lines) && query_read(x, o))
        upload_begin(x, o, lines);
    free(o);
}

static void upload_abandon(hs_exchange *x)
{
    hs__upload_abandon(x->upload);
    x->upload = NULL;
}

void hs__corpora_receive(hs_exchange *x, const char *bytes, size_t n_bytes)
{
    hs_error err = {0};
    const hs_status st = hs__upload_add(x->upload, bytes, n_bytes, &err);
    if (st) {
        upload_abandon(x);
        refuse(x, st, NULL, &err);
        return;
    }
    /* A long body is fine as long as it comes: each further megabyte has the time a whole body has elsewhere.
     */
    if (x->received_bytes / EXTEND_BYTES != (x->received_bytes - n_bytes) / EXTEND_BYTES)
        hs__connection_expect(x->connection, x->server->options->body_ms);
}

void hs__corpora_queue(hs_exchange *x)
{
    char id[HS_CORPORA_ID_MAX + 1];
    hs_error err = {0};
    hs_upload *upload = x->upload;
    x->upload = NULL;
    const hs_status st = hs__upload_finish(upload, id, &err);
    if (st) {
        refuse(x, st, NULL, &err);
        return;
    }
    snprintf(x->location, sizeof x->location, "/corpora/%s", id);
    answer_json(x, MHD_HTTP_ACCEPTED, hs__corpora_get(x->server->corpora, id));
}

/* ---- runs ---- */

void hs__corpora_answer_list(hs_exchange *x)
{
    if (kept(x))
        answer_json(x, MHD_HTTP_OK, hs__corpora_list(x->server->corpora));
}

static void answer_run(hs_exchange *x, int status, const char *id)
{
    json_t *run = hs__corpora_get(x->server->corpora, id);
    if (run)
        answer_json(x, status, run);
    else
        refuse_unknown(x, id);
}

void hs__corpora_answer_run(hs_exchange *x)
{
    char id[HS_CORPORA_ID_MAX + 1];
    if (kept(x))
        answer_run(x, MHD_HTTP_OK, id_of(x, id));
}

void hs__corpora_answer_cancel(hs_exchange *x)
{
    char id[HS_CORPORA_ID_MAX + 1];
    hs_error err = {0};
    if (!kept(x))
        return;
    const hs_status st = hs__corpora_cancel(x->server->corpora, id_of(x, id), &err);
    if (st)
        refuse(x, st, NULL, &err);
    else
        answer_run(x, MHD_HTTP_ACCEPTED, id);
}

void hs__corpora_answer_delete(hs_exchange *x)
{
    char id[HS_CORPORA_ID_MAX + 1];
    hs_error err = {0};
    if (!kept(x))
        return;
    const hs_status st = hs__corpora_delete(x->server->corpora, id_of(x, id), &err);
    if (st == HS_INVALID)
        hs__exchange_refuse(x, MHD_HTTP_CONFLICT, "%s", err.text);
    else if (st)
        refuse(x, st, NULL, &err);
    else
        hs__exchange_answer(x, MHD_HTTP_NO_CONTENT, NULL, NULL, 0, true);
}

/* ---- the report ---- */

enum { REPORT_FORMATS = 3 };

static const hs_format report_formats[REPORT_FORMATS] = {
    {"json", "application/json"}, {"npz", "application/x-npz"}, {"html", "text/html"}};
static const char *const report_files[REPORT_FORMATS] = {HS__REPORT_JSON, HS__REPORT_NPZ, HS__REPORT_HTML};

static void answer_file(hs_exchange *x, int fd, uint64_t n_bytes, const char *media_type)
{
    /* The page holds its own script and styles, and asks for nothing. */
    static const char policy[] = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
                                 "img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'; "
                                 "frame-ancestors 'self'; sandbox allow-scripts allow-downloads allow-popups "
                                 "allow-popups-to-escape-sandbox";
    x->prepared = MHD_create_response_from_fd64(n_bytes, fd);
    if (!x->prepared) {
        close(fd);
        hs__exchange_refuse(x, MHD_HTTP_INTERNAL_SERVER_ERROR, "Out of memory.");
        return;
    }
    x->security_policy = policy;
    hs__exchange_answer(x, MHD_HTTP_OK, media_type, NULL, n_bytes, true);
}

static void answer_report(hs_exchange *x, const char *id, const char *state)
{
    uint64_t n_bytes = 0;
    const size_t format = hs_format_choose(report_formats, REPORT_FORMATS, x->query,
                                           hs__header(x->mhd, MHD_HTTP_HEADER_ACCEPT), &x->response);
    if (format == REPORT_FORMATS) {
        x->answered = true;
        return;
    }
    const int fd = hs__corpora_file(x->server->corpora, id, report_files[format], &n_bytes);
    if (fd < 0)
        hs__exchange_refuse(x, MHD_HTTP_NOT_FOUND, "The run is %s: it has no report.", state);
    else
        answer_file(x, fd, n_bytes, report_formats[format].media_type);
}

void hs__corpora_answer_report(hs_exchange *x)
{
    char id[HS_CORPORA_ID_MAX + 1];
    if (!kept(x))
        return;
    json_t *run = hs__corpora_get(x->server->corpora, id_of(x, id));
    if (run)
        answer_report(x, id, json_string_value(json_object_get(run, "state")));
    else
        refuse_unknown(x, id);
    json_decref(run);
}

/* ---- events ---- */

/* One client that watches a run. It sleeps (suspended) between events; a timer wakes it. */
typedef struct watcher {
    hs_exchange *x;
    uv_timer_t timer;
    char id[HS_CORPORA_ID_MAX + 1];
    char *event; /* being sent */
    size_t n_event, sent;
    char *last; /* the run as it was told last */
    uint64_t told_ms;
    bool over, suspended;
} watcher;

static void on_wake(uv_timer_t *timer)
{
    watcher *w = timer->data;
    if (!w->suspended)
        return;
    w->suspended = false;
    w->x->suspended = false;
    MHD_resume_connection(w->x->mhd);
    hs__server_pump(w->x->server);
}

/* The next event into w->event, when there is something to say. */
static void event_make(watcher *w)
{
    const uint64_t now_ms = uv_now(&w->x->server->loop);
    json_t *run = hs__corpora_get(w->x->server->corpora, w->id);
    const char *state = run ? json_string_value(json_object_get(run, "state")) : "";
    char *text = run ? json_dumps(run, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
    const bool news = text && (!w->last || strcmp(text, w->last) != 0);
    w->over = !text || (strcmp(state, "queued") != 0 && strcmp(state, "running") != 0);
    json_decref(run);
    free(w->event);
    w->event = NULL;
    w->sent = w->n_event = 0;
    int n = -1;
    if (news)
        n = asprintf(&w->event, "data: %s\n\n", text);
    else if (now_ms - w->told_ms >= HEARTBEAT_MS) /* finds clients that left */
        n = asprintf(&w->event, ":\n\n");
    if (n < 0) {
        w->event = NULL;
        free(text);
        return;
    }
    w->n_event = (size_t)n;
    w->told_ms = now_ms;
    hs__connection_expect(w->x->connection, 2 * HEARTBEAT_MS);
    if (news) {
        free(w->last);
        w->last = text;
    } else {
        free(text);
    }
}

static ssize_t on_read(void *cls, uint64_t position, char *to, size_t n_max)
{
    watcher *w = cls;
    (void)position;
    if (w->sent == w->n_event) {
        if (w->over || w->x->server->state >= HS_DRAINING)
            return MHD_CONTENT_READER_END_OF_STREAM;
        event_make(w);
    }
    if (!w->n_event) { /* to return 0 without sleeping would spin */
        if (w->over)
            return MHD_CONTENT_READER_END_OF_STREAM;
        w->suspended = w->x->suspended = true;
        MHD_suspend_connection(w->x->mhd);
        return 0;
    }
    const size_t left = w->n_event - w->sent, n = left < n_max ? left : n_max;
    memcpy(to, w->event + w->sent, n);
    w->sent += n;
    if (w->sent == w->n_event && !w->over) { /* at most four a second */
        w->n_event = w->sent = 0;
        free(w->event);
        w->event = NULL;
    }
    return (ssize_t)n;
}

static void on_timer_closed(uv_handle_t *handle)
{
    watcher *w = handle->data;
    free(w->event);
    free(w->last);
    free(w);
}

static void on_watcher_free(void *cls)
{
    watcher *w = cls;
    uv_close((uv_handle_t *)&w->timer, on_timer_closed);
}

void hs__corpora_answer_events(hs_exchange *x)
{
    char id[HS_CORPORA_ID_MAX + 1];
    if (!kept(x))
        return;
    json_t *run = hs__corpora_get(x->server->corpora, id_of(x, id));
    json_decref(run);
    if (!run) {
        refuse_unknown(x, id);
        return;
    }
    watcher *w = calloc(1, sizeof *w);
    x->prepared =
        w ? MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 4096, on_read, w, on_watcher_free) : NULL;
    if (!x->prepared) {
        free(w);
        hs__exchange_refuse(x, MHD_HTTP_INTERNAL_SERVER_ERROR, "Out of memory.");
        return;
    }
    w->x = x;
    memcpy(w->id, id, sizeof id);
    uv_timer_init(&x->server->loop, &w->timer);
    w->timer.data = w;
    uv_timer_start(&w->timer, on_wake, EVENT_MS, EVENT_MS);
    x->close = true; /* the stream ends with the connection */
    hs__exchange_answer(x, MHD_HTTP_OK, "text/event-stream", NULL, 0, true);
}
