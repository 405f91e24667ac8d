/* admission.c - checks framing, number of connections, Host, path, token, Origin and size, in this order.
 *
 * Host and Origin protect against pages of other sites in a browser on this machine. A page whose name is
 * rebound to 127.0.0.1 is "same-origin" with a server there, but sends its own name as Host. A page can post
 * a form or plain text without a preflight request, but sends its site as Origin. */
#include "server/http/admission.h"

#include "server/http/libmicrohttpd_0_9_75.h"
#include "server/http/reply.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

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
    hs__exchange_refuse(x, MHD_HTTP_CONTENT_TOO_LARGE,
                        "The body is larger than %zu bytes, this server's limit. Send less at a time.",
                        hs__admission_body_max(x));
}

bool hs__admission_body_unwanted(const hs_exchange *x)
{
    const unsigned long long n_bytes = length_of(x);
    return n_bytes > HS_DISCARD_BYTES_MAX || (n_bytes && hs__header(x->mhd, MHD_HTTP_HEADER_EXPECT));
}

static bool host_allowed(const hs_exchange *x)
{
    const hs_server *server = x->server;
    const char *host = hs__header(x->mhd, MHD_HTTP_HEADER_HOST);
    const hs_server_options *o = server->options;
    return !host || hs__host_is_local(host, o->listen) || hs__host_is_among(host, o->allow_hosts) ||
           (!server->loopback && !o->allow_hosts);
}

/* Returns true if a page of this Origin may change something here. Programs send no Origin. */
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
    if (strcmp(x->method, "OPTIONS") == 0 && *x->allow) { /* a preflight request (CORS) */
        x->allow_methods = x->allow;
        hs__exchange_answer(x, MHD_HTTP_NO_CONTENT, NULL, NULL, 0, true);
    } else if (!x->route && !*x->allow) {
        hs__exchange_refuse(x, MHD_HTTP_NOT_FOUND,
                            "Nothing is served at this path. GET /openapi.json lists all paths.");
    } else if (!x->route) {
        hs__exchange_refuse(x, MHD_HTTP_METHOD_NOT_ALLOWED, "This path does not take %.32s. It takes %s.",
                            x->method, x->allow);
    }
}

/* Returns true if the request has a body, of a known length or in chunks, with an encoding of its own. */
static bool is_encoded(const hs_exchange *x)
{
    const char *encoding = hs__header(x->mhd, MHD_HTTP_HEADER_CONTENT_ENCODING);
    return encoding && strcasecmp(encoding, "identity") != 0 &&
           (length_of(x) > 0 || hs__header(x->mhd, MHD_HTTP_HEADER_TRANSFER_ENCODING));
}

static void route_admit(hs_exchange *x)
{
    const hs_server *server = x->server;
    if (!x->route->open && server->tokens &&
        !hs__bearer_matches(hs__header(x->mhd, "Authorization"), server->tokens)) {
        x->authenticate = "Bearer realm=\"headscope\"";
        hs__exchange_refuse(
            x, MHD_HTTP_UNAUTHORIZED,
            "This server requires a token: send Authorization: Bearer <token>. Ask its operator for one.");
    } else if (!origin_allowed(x)) {
        hs__exchange_refuse(
            x, MHD_HTTP_FORBIDDEN,
            "A page of another site sent this request. The server's option --cors allows its origin.");
    } else if (x->route->place == HS_PLACE_WORKER && server->state == HS_SERVER_LOADING) {
        hs__exchange_refuse_now(x, HS_STILL_LOADING);
    } else if (length_of(x) > hs__admission_body_max(x)) {
        hs__admission_refuse_large(x);
    } else if (!x->route->receive && is_encoded(x)) { /* an upload's format is detected */
        hs__exchange_refuse(x, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE,
                            "The body has Content-Encoding '%.32s'. Send it as it is, without this header.",
                            hs__header(x->mhd, MHD_HTTP_HEADER_CONTENT_ENCODING));
    }
}

bool hs__admission_refuses(hs_exchange *x, const char *method, const char *target, const char *version)
{
    const char *why = x->malformed ? x->malformed : hs__head_malformed(x->mhd, method, target, version);
    if (why) {
        hs__exchange_refuse(x, MHD_HTTP_BAD_REQUEST, "Malformed request: %s.", why);
        return true;
    }
#if HS_MHD_IS_LENIENT
    if (hs__mhd_0_9_75_refuses(x, method, target, version))
        return true;
#endif
    if (x->server->n_connections > x->server->options->connections_max) {
        x->retry_after = "1";
        hs__exchange_refuse(x, MHD_HTTP_SERVICE_UNAVAILABLE,
                            "The server has %zu connections, its limit. Try again shortly.",
                            x->server->options->connections_max);
        return true;
    }
    if (!host_allowed(x))
        hs__exchange_refuse(x, MHD_HTTP_MISDIRECTED_REQUEST,
                            "This server answers only under names of this machine, and the Host header has "
                            "another one. The server's option --allow-host NAME allows it.");
    if (!x->answered)
        route_find(x);
    if (!x->answered)
        route_admit(x);
    return x->answered && hs__admission_body_unwanted(x);
}
