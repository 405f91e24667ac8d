/* admission.c - from the outside in: the bytes' framing, the connection, Host, path, token, Origin, size.
 *
 * Host and Origin are looked at because a browser runs strangers' pages beside this server. A page whose name
 * is rebound to 127.0.0.1 is "same-origin" with a server there, but it still says its own name as Host. A
 * page that posts a form or plain text needs no leave of ours, but it says where it comes from as Origin. */
#include "server/http/admission.h"

#include "server/http/reply.h"

#include <stdlib.h>
#include <string.h>

/* A refused request's body is read and dropped up to here, so that the client gets to see the refusal instead
 * of a reset connection. */
#define DISCARD_BYTES_MAX ((size_t)16 << 20)

static unsigned long long length_of(const hs_exchange *x)
{
    const char *length = hs__header(x->mhd, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return length ? strtoull(length, NULL, 10) : 0;
}

size_t hs__admission_body_max(const hs_exchange *x)
{
    const hs_server_options *o = x->server->options;
    return x->route && x->route->receive ? o->corpus_bytes_max : o->body_bytes_max;
}

void hs__admission_refuse_large(hs_exchange *x)
{
    hs__exchange_refuse(x, MHD_HTTP_CONTENT_TOO_LARGE, "The body is over this server's limit of %zu bytes.",
                        hs__admission_body_max(x));
}

bool hs__admission_body_unwanted(const hs_exchange *x)
{
    const unsigned long long n_bytes = length_of(x);
    return n_bytes > DISCARD_BYTES_MAX || (n_bytes && hs__header(x->mhd, MHD_HTTP_HEADER_EXPECT));
}

static bool host_allowed(const hs_exchange *x)
{
    const hs_server *server = x->server;
    const char *host = hs__header(x->mhd, MHD_HTTP_HEADER_HOST);
    return !host || hs__host_is_local(host) || hs__host_is_among(host, server->options->allow_hosts) ||
           (!server->loopback && !server->options->allow_hosts);
}

/* May a page there change something here? Programs send no Origin. */
static bool origin_allowed(const hs_exchange *x)
{
    const char *origin = hs__header(x->mhd, MHD_HTTP_HEADER_ORIGIN);
    const char *site = hs__header(x->mhd, "Sec-Fetch-Site");
    if (strcmp(x->method, "GET") == 0 || strcmp(x->method, "OPTIONS") == 0 || hs__reply_origin(x))
        return true;
    if (!origin)
        return !site || strcmp(site, "cross-site") != 0;
    return hs__origin_is_host(origin, hs__header(x->mhd, MHD_HTTP_HEADER_HOST));
}

static void route_find(hs_exchange *x)
{
    const hs_server *server = x->server;
    x->route = hs__route_find(server->routes, x->method, x->path, x->allow, sizeof x->allow);
    if (strcmp(x->method, "OPTIONS") == 0 && *x->allow) { /* a page's browser asks whether the page may ask */
        x->allow_methods = x->allow;
        hs__exchange_answer(x, MHD_HTTP_NO_CONTENT, NULL, NULL, 0, true);
    } else if (!x->route && !*x->allow) {
        hs__exchange_refuse(x, MHD_HTTP_NOT_FOUND,
                            "There is nothing at this path. GET /openapi.json lists what there is.");
    } else if (!x->route) {
        hs__exchange_refuse(x, MHD_HTTP_METHOD_NOT_ALLOWED, "This path answers %s.", x->allow);
    }
}

static void route_admit(hs_exchange *x)
{
    const hs_server *server = x->server;
    if (!x->route->open && server->tokens &&
        !hs__bearer_matches(hs__header(x->mhd, "Authorization"), server->tokens)) {
        x->authenticate = "Bearer realm=\"headscope\"";
        hs__exchange_refuse(x, MHD_HTTP_UNAUTHORIZED,
                            "This server wants its token: Authorization: Bearer <token>.");
    } else if (!origin_allowed(x)) {
        hs__exchange_refuse(x, MHD_HTTP_FORBIDDEN,
                            "A page of another site sent this. Allow its origin with --cors.");
    } else if (x->route->place == HS_ON_WORKER && server->state == HS_LOADING) {
        x->retry_after = "1";
        hs__exchange_refuse(x, MHD_HTTP_SERVICE_UNAVAILABLE, "The models are being loaded.");
    } else if (length_of(x) > hs__admission_body_max(x)) {
        hs__admission_refuse_large(x);
    }
}

bool hs__admission_refuses(hs_exchange *x, const char *method, const char *version)
{
    const char *why = x->malformed ? x->malformed : hs__headers_suspicious(x->mhd, method, version);
    if (why) {
        hs__exchange_refuse(x, MHD_HTTP_BAD_REQUEST, "Refused: %s.", why);
        return true;
    }
    if (x->server->n_connections > x->server->options->connections_max) {
        x->retry_after = "1";
        hs__exchange_refuse(x, MHD_HTTP_SERVICE_UNAVAILABLE, "Too many connections.");
        return true;
    }
    if (!host_allowed(x))
        hs__exchange_refuse(x, MHD_HTTP_MISDIRECTED_REQUEST,
                            "This server listens on this machine only and does not know itself by that "
                            "Host. --allow-host NAME makes it answer under another name.");
    if (!x->answered)
        route_find(x);
    if (!x->answered)
        route_admit(x);
    return x->answered && hs__admission_body_unwanted(x);
}
