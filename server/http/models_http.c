/* models_http.c - POST /models, DELETE /models/{name} and /pull: the served models change while the service
 * runs. Only servers started with --pull take these requests. */
#include "server/http/models_http.h"

#include "server/http/events.h"
#include "server/http/json_body.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    hs__fetch_progress_read(&server->fetch, &p);
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

void hs__models_answer_fetch(hs_exchange *x)
{
    hs_error err = {0};
    json_t *body = allowed(x) ? hs__json_body_read(x, "name", BODY_BYTES_MAX,
                                                   "expected a JSON object such as {\"name\": \"org/name\"}")
                              : NULL;
    if (!body)
        return;
    const hs_status st = hs__fetch_start(x->server, json_string_value(json_object_get(body, "name")), &err);
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

void hs__models_answer_remove(hs_exchange *x)
{
    hs_error err = {0};
    if (!allowed(x))
        return;
    const hs_status st = hs__fetch_remove(x->server, x->path + strlen("/models/"), on_removed, x, &err);
    if (st)
        refuse(x, st, NULL, &err);
    else
        hs__exchange_suspend(x);
}

/* ---- progress ---- */

void hs__models_answer_pull(hs_exchange *x)
{
    if (allowed(x))
        answer_progress(x, MHD_HTTP_OK);
}

void hs__models_answer_cancel(hs_exchange *x)
{
    if (!allowed(x))
        return;
    hs__fetch_cancel(&x->server->fetch);
    answer_progress(x, MHD_HTTP_OK);
}

void hs__models_answer_events(hs_exchange *x)
{
    if (allowed(x))
        hs__events_answer(x, progress_read, "");
}
