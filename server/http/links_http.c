/* links_http.c - POST /links and GET /links/{id}. Only servers with a state folder take these requests. */
#include "server/http/links_http.h"

#include "server/base/link_store.h"
#include "server/base/log.h"
#include "server/http/exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The escapes of JSON take up to six bytes for one. */
enum { BODY_BYTES_MAX = 6 * HS_LINK_BYTES_MAX + 64 };

static bool kept(hs_exchange *x)
{
    if (x->server->links)
        return true;
    if (x->server->options->state_dir)
        hs__exchange_refuse(x, MHD_HTTP_INSUFFICIENT_STORAGE,
                            "The server's folder keeps no links; its log has the reason. Use the long link.");
    else
        hs__exchange_refuse(
            x, MHD_HTTP_NOT_IMPLEMENTED,
            "This server keeps no links. Start it with --state DIR, a folder for their files.");
    return false;
}

static void refuse(hs_exchange *x, hs_status st, const hs_error *err)
{
    if (st == HS_NO_SPACE)
        hs__exchange_refuse(x, MHD_HTTP_INSUFFICIENT_STORAGE,
                            "The server's disk is full, so it cannot keep the link. Use the long link.");
    else if (st == HS_BUSY)
        hs__exchange_refuse(x, MHD_HTTP_CONFLICT, "%s. Use the long link.", err->text);
    else {
        hs__log("error", "request %s: %s", x->id, err->text);
        hs__exchange_refuse(x, MHD_HTTP_INTERNAL_SERVER_ERROR,
                            "The server could not use the files of its links. Its log has the reason.");
    }
}

static void answer(hs_exchange *x, int status, const char *id, const char *state, size_t n_state)
{
    json_t *json = json_pack("{s:s, s:s%}", "id", id, "state", state, n_state);
    if (json)
        hs__exchange_answer_json(x, status, json);
    else
        hs__exchange_refuse(x, MHD_HTTP_INTERNAL_SERVER_ERROR,
                            "Out of memory, or the link's file is damaged.");
}

void hs__links_answer_add(hs_exchange *x)
{
    json_t *body = kept(x) ? hs__json_body_read(x, "state", BODY_BYTES_MAX,
                                                "expected a JSON object such as {\"state\": \"view=head\"}")
                           : NULL;
    if (!body)
        return;
    const json_t *state = json_object_get(body, "state");
    const size_t n = json_string_length(state);
    char id[HS_LINK_ID_CHARS + 1];
    hs_error err = {0};
    hs_status st = HS_OK;
    if (!n || n > HS_LINK_BYTES_MAX) {
        hs__exchange_refuse_at(x, MHD_HTTP_UNPROCESSABLE_CONTENT, "/state",
                               "state has %zu bytes; it must have 1 to %d", n, HS_LINK_BYTES_MAX);
    } else if ((st = hs__links_add(x->server->links, json_string_value(state), n, id, &err))) {
        refuse(x, st, &err);
    } else {
        snprintf(x->location, sizeof x->location, "/links/%s", id);
        answer(x, MHD_HTTP_CREATED, id, json_string_value(state), n);
    }
    json_decref(body);
}

void hs__links_answer_read(hs_exchange *x)
{
    const char *id = x->path + strlen("/links/");
    char *text = NULL;
    size_t n = 0;
    hs_error err = {0};
    if (!kept(x))
        return;
    const hs_status st = hs__links_read(x->server->links, id, &text, &n, &err);
    if (st == HS_NOT_FOUND)
        hs__exchange_refuse(x, MHD_HTTP_NOT_FOUND,
                            "There is no link '%.64s'. The server keeps the newest %d links; older ones are "
                            "removed.",
                            id, HS_LINKS_MAX);
    else if (st)
        refuse(x, st, &err);
    else
        answer(x, MHD_HTTP_OK, id, text, n);
    free(text);
}
