/* reply.c - adds the security headers that all answers share, and those set in the exchange. */
#include "server/http/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Minimum speed of a reader; slower ones are cut off. */
#define REPLY_MS          30000
#define REPLY_BYTES_PER_S 262144

/* Largest piece of an answer in one turn of the loop: with a single request, and with several. */
#define PIECE_BYTES       ((size_t)1 << 20)
#define PIECE_BYTES_AMONG ((size_t)256 << 10)

const char *hs__reply_origin(const hs_exchange *x)
{
    const char *configured = x->server->options->cors_origin, *origin = hs__header(x->mhd, "Origin");
    if (!configured || !origin)
        return NULL;
    return strcmp(configured, "*") == 0 || strcasecmp(configured, origin) == 0 ? configured : NULL;
}

static bool cors_headers_add(const hs_exchange *x, struct MHD_Response *reply)
{
    const char *origin = hs__reply_origin(x);
    if (!origin)
        return true;
    bool ok = MHD_add_response_header(reply, "Access-Control-Allow-Origin", origin) == MHD_YES &&
              MHD_add_response_header(reply, "Access-Control-Expose-Headers",
                                      "X-Request-Id, Server-Timing, Retry-After, Location") == MHD_YES;
    if (ok && x->allow_methods)
        ok = MHD_add_response_header(reply, "Access-Control-Allow-Methods", x->allow_methods) == MHD_YES &&
             MHD_add_response_header(
                 reply, "Access-Control-Allow-Headers",
                 "Accept, Authorization, Content-Type, Traceparent, Tracestate, X-Request-Id") == MHD_YES &&
             MHD_add_response_header(reply, "Access-Control-Max-Age", "86400") == MHD_YES;
    return ok;
}

static const char *vary(const hs_exchange *x)
{
    const bool cors = x->server->options->cors_origin != NULL;
    if (x->response.vary_encoding)
        return cors ? "Accept, Accept-Encoding, Origin" : "Accept, Accept-Encoding";
    return cors ? "Origin" : NULL;
}

static bool headers_add(const hs_exchange *x, struct MHD_Response *reply)
{
    const hs_response *r = &x->response;
    const struct {
        const char *name, *value;
    } headers[] = {
        {"Content-Type", r->content_type},
        {"Content-Encoding", r->content_encoding},
        {"Allow", *x->allow ? x->allow : NULL},
        {"Vary", vary(x)},
        {"ETag", *x->etag ? x->etag : NULL},
        {"Cache-Control", x->cache_control ? x->cache_control : "no-store"},
        {"Retry-After", x->retry_after},
        {"Location", *x->location ? x->location : NULL},
        {"WWW-Authenticate", x->authenticate},
        {"Server-Timing", *x->stages ? x->stages : NULL},
        {"X-Request-Id", x->id},
        {"X-Content-Type-Options", "nosniff"},
        {"X-Frame-Options", x->framed ? NULL : "DENY"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Opener-Policy", "same-origin"},
        {"Cross-Origin-Resource-Policy", hs__reply_origin(x) ? "cross-origin" : "same-origin"},
        {"Content-Security-Policy",
         x->security_policy ? x->security_policy : "default-src 'none'; frame-ancestors 'none'"},
        {"Connection", x->close || x->server->state >= HS_SERVER_DRAINING ? "close" : NULL},
    };
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        if (headers[i].value && MHD_add_response_header(reply, headers[i].name, headers[i].value) != MHD_YES)
            return false;
    return cors_headers_add(x, reply);
}

static ssize_t on_piece(void *cls, uint64_t position, char *to, size_t n_max)
{
    const hs_exchange *x = cls;
    const size_t n_most = x->server->metrics.in_flight > 1 ? PIECE_BYTES_AMONG : PIECE_BYTES;
    const size_t n = n_max < n_most ? n_max : n_most;
    memcpy(to, x->response.body + position, n);
    return (ssize_t)n;
}

/* Makes a reply of the body. A large body stays the exchange's and is sent in pieces, one in each turn of the
 * loop. A near reader takes megabytes at once, and other requests would wait meanwhile. */
static struct MHD_Response *body_reply(hs_exchange *x)
{
    hs_response *r = &x->response;
    if (r->body && !r->body_static && r->body_bytes > PIECE_BYTES)
        return MHD_create_response_from_callback(r->body_bytes, PIECE_BYTES, on_piece, x, NULL);
    struct MHD_Response *reply =
        r->body_static || !r->body
            ? MHD_create_response_from_buffer(r->body_bytes, r->body ? r->body : "", MHD_RESPMEM_PERSISTENT)
            : MHD_create_response_from_buffer_with_free_callback(r->body_bytes, r->body, free);
    if (reply)
        r->body = NULL;
    return reply;
}

enum MHD_Result hs__reply(hs_exchange *x)
{
    hs_response *r = &x->response;
    x->phase = HS_PHASE_REPLYING;
    struct MHD_Response *reply = x->prepared ? x->prepared : body_reply(x);
    if (!reply)
        return MHD_NO;
    x->prepared = NULL;
    free(x->body);
    x->body = NULL;
    hs__exchange_reserve_only(x, x->prepared_bytes + (r->body_static ? 0 : r->body_bytes));
    enum MHD_Result result = MHD_NO;
    if (headers_add(x, reply))
        result = MHD_queue_response(x->mhd, (unsigned)r->status, reply);
    MHD_destroy_response(reply);
    hs__connection_unwatch(x->connection);
    hs__connection_expect_reader(x->connection,
                                 REPLY_MS + 1000 * (uint64_t)r->body_bytes / REPLY_BYTES_PER_S);
    return result;
}
