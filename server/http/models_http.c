/* models_http.c - POST /models, DELETE /models/{name} and /pull: the served models change while the service
 * runs. A thread fetches, loads, serves or removes a model. */
#include "server/http/models_http.h"

#include "model/files/json.h"
#include "server/base/log.h"
#include "server/http/routes.h"
#include "server/http/service.h"
#include "server/http/stream.h"
#include "server/hub/hub_pull.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Copies the progress. Any thread. */
static void fetch_progress_read(hs_fetch *fetch, hs_fetch_progress *ret)
{
    pthread_mutex_lock(&fetch->lock);
    *ret = fetch->progress;
    pthread_mutex_unlock(&fetch->lock);
}

static void state_set(hs_fetch *fetch, hs_fetch_state state, const char *error)
{
    pthread_mutex_lock(&fetch->lock);
    fetch->progress.state = state;
    *fetch->progress.file = '\0';
    snprintf(fetch->progress.error, sizeof fetch->progress.error, "%s", error);
    pthread_mutex_unlock(&fetch->lock);
}

/* ---- on the thread ---- */

static void on_bytes(void *data, const char *file, uint64_t n_bytes, uint64_t n_bytes_all,
                     uint64_t n_received)
{
    hs_fetch *fetch = data;
    hs_fetch_progress *p = &fetch->progress;
    pthread_mutex_lock(&fetch->lock);
    snprintf(p->file, sizeof p->file, "%s", file);
    p->n_bytes = n_bytes;
    p->n_bytes_all = n_bytes_all;
    p->n_received = fetch->before + n_received;
    pthread_mutex_unlock(&fetch->lock);
}

static bool is_cancelled(void *data)
{
    hs_fetch *fetch = data;
    return atomic_load(&fetch->cancelled);
}

static void on_file(void *data, const char *file, uint64_t n_bytes)
{
    hs_fetch *fetch = data;
    (void)file, (void)n_bytes;
    fetch->before = fetch->progress.n_received;
}

static hs_status model_fetch(hs_fetch *fetch, hs_error *err)
{
    const hs__pull_watch watch = {
        .progress = on_bytes, .file_done = on_file, .stop = is_cancelled, .data = fetch};
    const hs_server *server = fetch->server;
    char dir[PATH_MAX];
    hs_hub_name name;
    if (fetch->place.n_dir && hs_hub_name_parse(fetch->place.dir, fetch->place.n_dir, &name)) {
        const hs_status st = hs__hub_pull(&name, &watch, dir, err);
        if (st)
            return st;
    }
    state_set(fetch, HS_FETCH_LOADING, "");
    return hs__catalog_add_model(&server->options->catalog, &fetch->place, &fetch->cancelled, server->api,
                                 err);
}

/* Fetches and serves the model, then hashes it. */
static void fetch_work(uv_work_t *work)
{
    hs_fetch *fetch = work->data;
    if (model_fetch(fetch, &fetch->error) == HS_OK)
        hs_api_hash_models(fetch->server->api);
}

/* Removes the model, and frees it if no request uses it. */
static void remove_work(uv_work_t *work)
{
    hs_fetch *fetch = work->data;
    fetch->error.status = hs_api_model_remove(fetch->server->api, fetch->place.name, &fetch->error);
}

/* ---- on the loop ---- */

/* Announces the outcome. From now on the next change may begin. */
static void on_done(uv_work_t *work, int status)
{
    hs_fetch *fetch = work->data;
    const hs_error *err = &fetch->error;
    (void)status;
    fetch->running = false;
    if (fetch->removed)
        fetch->removed(fetch->removed_data, err->status, err);
    else if (err->status == HS_CANCELLED)
        state_set(fetch, HS_FETCH_CANCELLED, "");
    else
        state_set(fetch, err->status ? HS_FETCH_FAILED : HS_FETCH_DONE, err->text);
    if (err->status && !fetch->removed)
        hs__log("error", "fetching a model: %s", err->text);
}

static void change_start(hs_fetch *fetch, void (*function)(uv_work_t *work))
{
    fetch->running = true;
    fetch->error = (hs_error){0};
    atomic_store(&fetch->cancelled, 0);
    fetch->work.data = fetch;
    uv_queue_work(&fetch->server->loop, &fetch->work, function, on_done);
}

/* Finds the place of a model by its name of the hub, or by its name on the command line. */
static hs_status place_find(const hs_catalog_options *options, const char *name, hs_model_place *ret,
                            hs_error *err)
{
    hs_hub_name hub;
    const size_t known = hs__catalog_find(options, name), n = strlen(name);
    if (known != SIZE_MAX) {
        *ret = *hs__catalog_place(options, known);
        return HS_OK;
    }
    if (!hs_hub_name_parse(name, n, &hub) || n >= sizeof((hs_fetch_progress){0}).request)
        return hs_fail(
            err, HS_INVALID,
            "'%.100s' is no model of the command line and no name of the hub; expected ORG/NAME or "
            "ORG/NAME@REVISION",
            name);
    *ret = (hs_model_place){.dir = name, .n_dir = n};
    hs__place_name(hub.repository, strlen(hub.repository), ret->name);
    return HS_OK;
}

static hs_status busy_check(const hs_fetch *fetch, hs_error *err)
{
    return fetch->running
               ? hs_fail(err, HS_CANCELLED, "another change of the models is under way; GET /pull says which")
               : HS_OK;
}

/* Starts to fetch "org/name[@revision]" of the hub, or to load the served model of this name again from
 * where it came. Returns HS_INVALID if the text is neither, or HS_CANCELLED while another change is under
 * way. Loop thread. */
static hs_status fetch_start(hs_server *server, const char *name, hs_error *err)
{
    hs_fetch *fetch = &server->fetch;
    hs_model_place place;
    hs_status st = place_find(&server->options->catalog, name, &place, err);
    if (!st)
        st = busy_check(fetch, err);
    if (st)
        return st;
    pthread_mutex_lock(&fetch->lock);
    fetch->progress = (hs_fetch_progress){.state = HS_FETCH_DOWNLOADING};
    snprintf(fetch->progress.request, sizeof fetch->progress.request, "%s", name);
    snprintf(fetch->progress.model, sizeof fetch->progress.model, "%s", place.name);
    pthread_mutex_unlock(&fetch->lock);
    fetch->server = server;
    fetch->place = place;
    if (place.dir == name)
        fetch->place.dir = fetch->progress.request; /* which stays until the next fetch */
    fetch->before = 0;
    fetch->removed = NULL;
    change_start(fetch, fetch_work);
    return HS_OK;
}

/* Removes a model, then calls `removed` on the loop. Returns HS_CANCELLED while
 * another change is under way. Loop thread. */
static hs_status fetch_remove(hs_server *server, const char *name,
                              void (*removed)(void *data, hs_status st, const hs_error *err), void *data,
                              hs_error *err)
{
    hs_fetch *fetch = &server->fetch;
    const hs_status st = busy_check(fetch, err);
    if (st)
        return st;
    fetch->server = server;
    fetch->removed = removed;
    fetch->removed_data = data;
    fetch->place = (hs_model_place){0};
    snprintf(fetch->place.name, sizeof fetch->place.name, "%s", name);
    change_start(fetch, remove_work);
    return HS_OK;
}

/* ---- the routes ----
 *
 * All run on the loop and answer the exchange. Only servers started with --pull take these requests. */

enum { BODY_BYTES_MAX = 4096 };

static const char *const state_names[] = {"none", "downloading", "loading", "done", "failed", "cancelled"};

/* Returns true if models may change; else refuses the exchange. */
static bool allowed(hs_exchange *x)
{
    const hs_server *server = x->server;
    if (!server->options->pull) {
        hs__exchange_refuse(
            x, MHD_HTTP_NOT_IMPLEMENTED,
            "This server does not change its models. Start it with --pull to fetch models by name.");
        return false;
    }
    if (server->state == HS_SERVER_SERVING)
        return true;
    hs__exchange_refuse_now(x, server->state == HS_SERVER_LOADING ? HS_STILL_LOADING
                                                                  : "The server is stopping.");
    return false;
}

/* Returns the progress as JSON, or NULL if memory is short. */
static json_t *progress_read(hs_server *server, const char *id, bool *ret_over)
{
    hs_fetch_progress p;
    (void)id; /* there is one fetch at most */
    fetch_progress_read(&server->fetch, &p);
    *ret_over = p.state != HS_FETCH_DOWNLOADING && p.state != HS_FETCH_LOADING;
    return json_pack("{s:s, s:s?, s:s?, s:s?, s:I, s:I, s:I, s:s?}", "state", state_names[p.state], "name",
                     *p.request ? p.request : NULL, "model", *p.model ? p.model : NULL, "file",
                     *p.file ? p.file : NULL, "file_bytes_done", (json_int_t)p.n_bytes, "file_bytes",
                     (json_int_t)p.n_bytes_all, "bytes_received", (json_int_t)p.n_received, "error",
                     *p.error ? p.error : NULL);
}

static void answer_progress(hs_exchange *x, int status)
{
    bool over;
    hs__exchange_answer_json(x, status, progress_read(x->server, "", &over));
}

static void refuse(hs_exchange *x, hs_status st, const char *pointer, const hs_error *err)
{
    if (st == HS_CANCELLED)
        x->retry_after = "2";
    hs__exchange_refuse_at(x, st == HS_CANCELLED ? MHD_HTTP_CONFLICT : MHD_HTTP_UNPROCESSABLE_CONTENT,
                           pointer, "%s", err->text);
}

/* Reads {"<field>": "..."}, a text without NUL characters, from a body of at most bytes_max bytes. `expected`
 * says what to send, for messages. Returns NULL if it refused the exchange; else the caller releases the
 * object with json_decref. Checks the media type, the size, the syntax and the field, in this order. */
static json_t *json_body_read(hs_exchange *x, const char *field, size_t bytes_max, const char *expected)
{
    const char *type = hs__header(x->mhd, MHD_HTTP_HEADER_CONTENT_TYPE);
    json_error_t error;
    if (!type || strncasecmp(type, "application/json", 16) != 0) {
        hs__exchange_refuse(x, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, "The Content-Type must be application/json.");
        return NULL;
    }
    if (x->body_bytes > bytes_max) {
        hs__exchange_refuse(x, MHD_HTTP_CONTENT_TOO_LARGE, "The body has %zu bytes; at most %zu are allowed.",
                            x->body_bytes, bytes_max);
        return NULL;
    }
    json_t *body;
    const hs_status st =
        hs_json_load(x->body_bytes ? x->body : "", x->body_bytes, JSON_REJECT_DUPLICATES, &body, &error);
    if (st == HS_NO_MEMORY) {
        hs__exchange_refuse_memory(x);
        return NULL;
    }
    if (st) {
        hs__exchange_refuse(x, MHD_HTTP_BAD_REQUEST, "The body is not JSON: %s", expected);
        return NULL;
    }
    const json_t *text = json_object_get(body, field);
    if (json_object_size(body) == 1 && json_is_string(text) &&
        strlen(json_string_value(text)) == json_string_length(text))
        return body;
    char pointer[64];
    snprintf(pointer, sizeof pointer, "/%s", field);
    hs__exchange_refuse_at(x, MHD_HTTP_UNPROCESSABLE_CONTENT, text ? pointer : "", "%s", expected);
    json_decref(body);
    return NULL;
}

/* POST /models. */
static void answer_fetch(hs_exchange *x)
{
    hs_error err = {0};
    json_t *body = allowed(x) ? json_body_read(x, "name", BODY_BYTES_MAX,
                                               "expected a JSON object such as {\"name\": \"org/name\"}")
                              : NULL;
    if (!body)
        return;
    const hs_status st = fetch_start(x->server, json_string_value(json_object_get(body, "name")), &err);
    json_decref(body);
    if (st) {
        refuse(x, st, "/name", &err);
        return;
    }
    snprintf(x->location, sizeof x->location, "/pull");
    answer_progress(x, MHD_HTTP_ACCEPTED);
}

/* ---- removing ---- */

static void on_removed(void *data, hs_status st, const hs_error *err)
{
    hs_exchange *x = data;
    if (st == HS_NOT_FOUND)
        hs__exchange_refuse(x, MHD_HTTP_NOT_FOUND, "%s. GET /models lists all models.", err->text);
    else if (st)
        hs__exchange_refuse(x, MHD_HTTP_CONFLICT, "The model stays: %s.", err->text);
    else
        hs__exchange_answer(x, MHD_HTTP_NO_CONTENT, NULL, NULL, 0, true);
    hs__exchange_resume(x);
}

static void answer_remove(hs_exchange *x)
{
    hs_error err = {0};
    if (!allowed(x))
        return;
    const hs_status st = fetch_remove(x->server, x->path + strlen("/models/"), on_removed, x, &err);
    if (st)
        refuse(x, st, NULL, &err);
    else
        hs__exchange_suspend(x);
}

/* ---- progress ---- */

/* GET /pull and /pull/events, POST /pull/cancel: the download that runs, or ran last. */
static void answer_pull(hs_exchange *x)
{
    if (allowed(x))
        answer_progress(x, MHD_HTTP_OK);
}

static void answer_cancel(hs_exchange *x)
{
    if (!allowed(x))
        return;
    hs__fetch_cancel(&x->server->fetch);
    answer_progress(x, MHD_HTTP_OK);
}

static void answer_events(hs_exchange *x)
{
    if (allowed(x))
        hs__events_answer(x, progress_read, "");
}

static const hs_route rows[] = {
    {.method = "POST", .path = "/models", .executor = HS_ON_LOOP, .answer = answer_fetch},
    {.method = "DELETE", .path = "/models/{id}", .executor = HS_ON_LOOP, .answer = answer_remove},
    {.method = "GET", .path = "/pull", .executor = HS_ON_LOOP, .answer = answer_pull},
    {.method = "GET", .path = "/pull/events", .executor = HS_ON_LOOP, .answer = answer_events},
    {.method = "POST", .path = "/pull/cancel", .executor = HS_ON_LOOP, .answer = answer_cancel},
};

const hs_route_table hs__model_routes = {rows, sizeof rows / sizeof *rows};
