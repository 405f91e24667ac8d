/* admission.c - who may ask, and which requests are read at all. */
#include "server/http/admission.h"

#include "model/base/clock.h"
#include "server/base/log.h"
#include "server/http/libmicrohttpd_0_9_75.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- access ----
 *
 * Writes one log line for each request. In text, the fields are in the order in which people look:
 * client, request, outcome. */

enum { FIELDS_MAX = 24 };

static double stage_ms(const hs_exchange *x, int stage)
{
    return stage ? x->response.stage_ms[stage - 1] : (double)(x->task.started_ns - x->task.queued_ns) / 1e6;
}

void hs__access_stages(hs_exchange *x)
{
    size_t used = 0;
    for (int i = 0; i <= HS_STAGE_COUNT && used < sizeof x->stages; i++)
        used += (size_t)snprintf(x->stages + used, sizeof x->stages - used, "%s%s;dur=%.3f", i ? ", " : "",
                                 hs__stage_names[i], stage_ms(x, i));
}

int hs__access_status_of_library(const hs_exchange *x)
{
    int status = 0;
#if MHD_VERSION >= 0x00097400
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(x->mhd, MHD_CONNECTION_INFO_HTTP_STATUS);
    status = info ? (int)info->http_status : 0;
#endif
    return x->answered ? 0 : status;
}

static int status_final(const hs_exchange *x)
{
    const bool replied = x->answered && x->task.work.end != HS_WORK_ABANDONED;
    const int status = replied ? x->response.status : hs__access_status_of_library(x);
    if (status > 0)
        return status;
    return x->connection->too_slow ? MHD_HTTP_REQUEST_TIMEOUT
                                   : 499; /* nginx's status for clients that left */
}

static void line_log(const hs_exchange *x, int status, uint64_t bytes_out, double ms)
{
    static const char *const stage_fields[] = {"queue_ms", "tokenize_ms", "forward_ms", "analyze_ms",
                                               "encode_ms"};
    char message[24];
    hs_log_field fields[FIELDS_MAX] = {{"client", x->connection->client, 0},
                                       {"method", x->head ? "HEAD" : x->method, 0},
                                       {"path", x->target, 0},
                                       {"status", NULL, status},
                                       {"bytes_in", NULL, (double)x->received_bytes},
                                       {"bytes_out", NULL, (double)bytes_out},
                                       {"ms", NULL, ms},
                                       {"id", x->id, 0}};
    size_t n = 8;
    if (*x->response.model)
        fields[n++] = (hs_log_field){"model", x->response.model, 0};
    for (int i = 0; *x->stages && i <= HS_STAGE_COUNT; i++)
        fields[n++] = (hs_log_field){stage_fields[i], NULL, stage_ms(x, i)};
    if (*x->trace.trace_id) {
        fields[n++] = (hs_log_field){"trace_id", x->trace.trace_id, 0};
        fields[n++] = (hs_log_field){"parent_id", x->trace.parent_id, 0};
    }
    snprintf(message, sizeof message, "request %d", status);
    hs__log_fields(message, fields, n);
}

static void stages_count(const hs_exchange *x)
{
    hs_metrics *metrics = &x->server->metrics;
    for (int i = 0; *x->stages && i <= HS_STAGE_COUNT; i++)
        hs__histogram_add(&metrics->stages[i], stage_ms(x, i) / 1e3);
    metrics->tokens += x->response.n_tokens;
}

void hs__access_record(const hs_exchange *x)
{
    hs_metrics *metrics = &x->server->metrics;
    const int status = status_final(x);
    const uint64_t bytes_out = x->head ? 0 : x->response.body_bytes;
    const double seconds = (double)(hs_clock_ns() - x->begun_ns) / 1e9;
    hs__metrics_count(metrics, x->head ? "HEAD" : x->method, x->route ? x->route->path : "none", status,
                      x->response.model);
    metrics->bytes_in += x->received_bytes;
    metrics->bytes_out += bytes_out;
    hs__histogram_add(&metrics->total, seconds);
    stages_count(x);
    line_log(x, status, bytes_out, seconds * 1e3);
}

void hs__access_record_unread(const hs_connection *connection, const char *path, int status)
{
    char message[24];
    const hs_log_field fields[] = {
        {"client", connection->client, 0}, {"path", path, 0}, {"status", NULL, status}};
    hs__metrics_count(&connection->server->metrics, "none", "none", status, "");
    snprintf(message, sizeof message, "refused %d", status);
    hs__log_fields(message, fields, sizeof fields / sizeof *fields);
}

/* ---- admission ----
 *
 * Checks framing, number of connections, Host, path, token, Origin and size, in this order.
 *
 * Host and Origin protect against pages of other sites in a browser on this machine. A page whose name is
 * rebound to 127.0.0.1 is "same-origin" with a server there, but sends its own name as Host. A page can post
 * a form or plain text without a preflight request, but sends its site as Origin. */

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
