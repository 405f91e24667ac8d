#include "server/http/exchange.h"

#include "model/clock.h"
#include "server/base/log.h"
#include "server/http/routes.h"
#include "server/runs/corpora.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A refused request's body is read and dropped up to here, so that the client gets to see the refusal instead
 * of a reset connection. */
#define DISCARD_BYTES_MAX ((size_t)16 << 20)
#define BODY_BYTES_MIN    ((size_t)16 << 10)
/* A reader slower than this is cut off. */
#define REPLY_MS          30000
#define REPLY_BYTES_PER_S 262144
#define IDLE_MS           75000 /* between requests of one connection, the next one's headers included */

void *hs__exchange_open(void *cls, const char *target, struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    hs_connection *connection = info ? info->socket_context : NULL;
    if (!connection)
        return NULL;
    hs__exchange_destroy(connection->exchange);
    hs_exchange *x = connection->exchange = calloc(1, sizeof *x);
    char *copy = x ? strdup(target) : NULL;
    if (!copy) {
        free(x);
        return connection->exchange = NULL;
    }
    x->server = cls;
    x->connection = connection;
    x->mhd = mhd;
    x->target = copy;
    char *query = strchr(copy, '?');
    if (query) {
        *query = '\0';
        x->query = query + 1;
    }
    hs__connection_expect(connection, x->server->options->header_ms);
    return x;
}

/* Slow readers can make many large answers wait; above the bound no more are computed. */
static void hold(hs_exchange *x, size_t n_bytes)
{
    hs_server *server = x->server;
    server->held_bytes += n_bytes - x->held_bytes;
    x->held_bytes = n_bytes;
    hs__tasks_pause(&server->tasks, server->held_bytes >= server->held_bytes_max);
}

void hs__exchange_destroy(hs_exchange *x)
{
    if (!x)
        return;
    assert(!x->suspended);
    x->server->metrics.in_flight -= x->begun;
    hold(x, 0);
    hs_response_finish(&x->response);
    hs__upload_abandon(x->upload);
    if (x->prepared)
        MHD_destroy_response(x->prepared);
    free(x->body);
    free(x->target);
    free(x);
}

void hs__exchange_answer(hs_exchange *x, int status, const char *content_type, char *body, size_t n_bytes,
                         bool body_static)
{
    x->response = (hs_response){.status = status,
                                .content_type = content_type,
                                .body = body,
                                .body_bytes = n_bytes,
                                .body_static = body_static};
    x->answered = true;
}

void hs__exchange_refuse_at(hs_exchange *x, int status, const char *pointer, const char *format, ...)
{
    char detail[1024]; /* as much as a problem holds */
    va_list args;
    va_start(args, format);
    vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    hs_response_finish(&x->response);
    hs_response_problem(&x->response, status, pointer, "%s", detail);
    x->answered = true;
}

/* --- reply ------------------------------------------------------------------------------------------- */

/* The configured origin when the request comes from it, "*" when all may come, else NULL. */
static const char *origin_allowed(const hs_exchange *x)
{
    const char *configured = x->server->options->cors_origin, *origin = hs__header(x->mhd, "Origin");
    if (!configured || !origin)
        return NULL;
    return strcmp(configured, "*") == 0 || strcasecmp(configured, origin) == 0 ? configured : NULL;
}

static bool cors_headers_add(const hs_exchange *x, struct MHD_Response *reply)
{
    const char *origin = origin_allowed(x);
    if (!origin)
        return true;
    bool ok = MHD_add_response_header(reply, "Access-Control-Allow-Origin", origin) == MHD_YES &&
              MHD_add_response_header(reply, "Access-Control-Expose-Headers",
                                      "X-Request-Id, Server-Timing, Retry-After, Location") == MHD_YES;
    if (ok && x->allow_methods)
        ok = MHD_add_response_header(reply, "Access-Control-Allow-Methods", x->allow_methods) == MHD_YES &&
             MHD_add_response_header(reply, "Access-Control-Allow-Headers",
                                     "Accept, Authorization, Content-Type, X-Request-Id") == MHD_YES &&
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
        {"Allow", *x->allow ? x->allow : r->allow},
        {"Vary", vary(x)},
        {"ETag", *x->etag ? x->etag : NULL},
        {"Cache-Control", x->cache_control ? x->cache_control : "no-store"},
        {"Retry-After", x->retry_after},
        {"Location", *x->location ? x->location : NULL},
        {"WWW-Authenticate", x->authenticate},
        {"Server-Timing", *x->stages ? x->stages : NULL},
        {"X-Request-Id", x->id},
        {"X-Content-Type-Options", "nosniff"},
        {"X-Frame-Options", "DENY"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Opener-Policy", "same-origin"},
        {"Cross-Origin-Resource-Policy", origin_allowed(x) ? "cross-origin" : "same-origin"},
        {"Content-Security-Policy",
         x->security_policy ? x->security_policy : "default-src 'none'; frame-ancestors 'none'"},
        {"Connection", x->close || x->server->state >= HS_DRAINING ? "close" : NULL},
    };
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        if (headers[i].value && MHD_add_response_header(reply, headers[i].name, headers[i].value) != MHD_YES)
            return false;
    return cors_headers_add(x, reply);
}

static enum MHD_Result reply(hs_exchange *x)
{
    hs_response *r = &x->response;
    struct MHD_Response *reply =
        x->prepared ? x->prepared
        : r->body_static || !r->body
            ? MHD_create_response_from_buffer(r->body_bytes, r->body ? r->body : "", MHD_RESPMEM_PERSISTENT)
            : MHD_create_response_from_buffer_with_free_callback(r->body_bytes, r->body, free);
    if (!reply)
        return MHD_NO;
    r->body = NULL; /* the reply's now */
    x->prepared = NULL;
    free(x->body);
    x->body = NULL;
    hold(x, r->body_static ? 0 : r->body_bytes);
    enum MHD_Result result = MHD_NO;
    if (headers_add(x, reply))
        result = MHD_queue_response(x->mhd, (unsigned)r->status, reply);
    MHD_destroy_response(reply);
    hs__connection_unwatch(x->connection);
    hs__connection_expect(x->connection, REPLY_MS + 1000 * (uint64_t)r->body_bytes / REPLY_BYTES_PER_S);
    return result;
}

/* --- begin: the headers are in ------------------------------------------------------------------------- */

static void refuse_or_route(hs_exchange *x)
{
    const hs_server *server = x->server;
    x->route = hs__route_find(x->method, x->path, x->allow, sizeof x->allow);
    const bool preflight = strcmp(x->method, "OPTIONS") == 0 && *x->allow;
    if (preflight) {
        x->allow_methods = x->allow;
        hs__exchange_answer(x, MHD_HTTP_NO_CONTENT, NULL, NULL, 0, true);
    } else if (!x->route && !*x->allow) {
        hs__exchange_refuse(x, MHD_HTTP_NOT_FOUND,
                            "There is nothing at this path. GET /openapi.json lists what there is.");
    } else if (!x->route) {
        hs__exchange_refuse(x, MHD_HTTP_METHOD_NOT_ALLOWED, "This path answers %s.", x->allow);
    } else if (!x->route->open && server->tokens &&
               !hs__bearer_matches(hs__header(x->mhd, "Authorization"), server->tokens)) {
        x->authenticate = "Bearer realm=\"headscope\"";
        hs__exchange_refuse(x, MHD_HTTP_UNAUTHORIZED,
                            "This server wants its token: Authorization: Bearer <token>.");
    } else if (strcmp(x->method, "GET") != 0 && !origin_allowed(x) && hs__header(x->mhd, "Sec-Fetch-Site") &&
               strcmp(hs__header(x->mhd, "Sec-Fetch-Site"), "cross-site") == 0) {
        hs__exchange_refuse(x, MHD_HTTP_FORBIDDEN,
                            "A page of another site sent this. Allow its origin with --cors.");
    } else if (!x->route->answer && server->state == HS_LOADING) {
        x->retry_after = "1";
        hs__exchange_refuse(x, MHD_HTTP_SERVICE_UNAVAILABLE, "The models are being loaded.");
    }
}

static size_t body_bytes_max(const hs_exchange *x)
{
    const hs_server_options *o = x->server->options;
    return x->route && x->route->receive ? o->corpus_bytes_max : o->body_bytes_max;
}

static void refuse_too_large(hs_exchange *x)
{
    hs__exchange_refuse(x, MHD_HTTP_CONTENT_TOO_LARGE, "The body is over this server's limit of %zu bytes.",
                        body_bytes_max(x));
}

/* True: answer now and close, the rest of the request is not worth reading or cannot be trusted. */
static bool hopeless(hs_exchange *x, const char *version)
{
    const char *why = hs__headers_suspicious(x->mhd, version);
    const char *length = hs__header(x->mhd, MHD_HTTP_HEADER_CONTENT_LENGTH);
    const unsigned long long n_bytes = length ? strtoull(length, NULL, 10) : 0;
    if (why) {
        hs__exchange_refuse(x, MHD_HTTP_BAD_REQUEST, "Refused: %s.", why);
        return true;
    }
    if (x->server->n_connections > x->server->options->connections_max) {
        x->retry_after = "1";
        hs__exchange_refuse(x, MHD_HTTP_SERVICE_UNAVAILABLE, "Too many connections.");
        return true;
    }
    refuse_or_route(x);
    if (!x->answered && n_bytes > body_bytes_max(x))
        refuse_too_large(x);
    if (!x->answered && x->route->begin)
        x->route->begin(x);
    return x->answered &&
           (n_bytes > DISCARD_BYTES_MAX || (n_bytes && hs__header(x->mhd, MHD_HTTP_HEADER_EXPECT)));
}

/* "http://host/models", as proxies send it, is /models. */
static const char *path_of(const char *url)
{
    const bool absolute = strncasecmp(url, "http://", 7) == 0;
    const char *path = absolute ? strchr(url + 7, '/') : url;
    return path ? path : "/";
}

static enum MHD_Result begin(hs_exchange *x, const char *url, const char *method, const char *version)
{
    const char *id = hs__header(x->mhd, "X-Request-Id");
    x->begun = true;
    x->begun_ns = hs_clock_ns();
    x->server->metrics.in_flight++;
    x->head = strcmp(method, "HEAD") == 0;
    x->method = x->head ? "GET" : method;
    x->path = path_of(url);
    if (id && hs__request_id_valid(id))
        snprintf(x->id, sizeof x->id, "%s", id);
    else
        hs__request_id_make(x->id);
    hs__connection_expect(x->connection, x->server->options->body_ms);
    if (!hopeless(x, version))
        return MHD_YES;
    x->close = true;
    return reply(x);
}

/* --- receive ------------------------------------------------------------------------------------------- */

/* False when there is no memory for it, by malloc's or our own judgement. */
static bool body_reserve(hs_exchange *x, size_t n_bytes)
{
    size_t capacity = x->body_capacity ? x->body_capacity : BODY_BYTES_MIN;
    if (n_bytes <= x->body_capacity)
        return true;
    while (capacity < n_bytes)
        capacity *= 2;
    if (x->server->held_bytes - x->held_bytes + capacity > x->server->held_bytes_max)
        return false;
    char *body = realloc(x->body, capacity);
    if (!body)
        return false;
    x->body = body;
    x->body_capacity = capacity;
    hold(x, capacity);
    return true;
}

static enum MHD_Result receive(hs_exchange *x, const char *upload, size_t n_bytes)
{
    x->received_bytes += n_bytes;
    if (!x->answered && x->received_bytes > body_bytes_max(x)) {
        refuse_too_large(x);
    } else if (!x->answered && x->route->receive) {
        x->route->receive(x, upload, n_bytes);
        if (!x->answered)
            return MHD_YES;
    } else if (!x->answered && !body_reserve(x, x->body_bytes + n_bytes)) {
        x->retry_after = "1";
        hs__exchange_refuse(x, MHD_HTTP_SERVICE_UNAVAILABLE, "Too much is being received and sent just now.");
    }
    if (x->answered) {
        x->discarded_bytes += n_bytes;
        return x->discarded_bytes <= DISCARD_BYTES_MAX ? MHD_YES : MHD_NO;
    }
    memcpy(x->body + x->body_bytes, upload, n_bytes);
    x->body_bytes += n_bytes;
    return MHD_YES;
}

/* --- dispatch: the request is whole ----------------------------------------------------------------------
 */

static void stages_format(hs_exchange *x)
{
    static const char *const names[HS_STAGE_COUNT] = {"tokenize", "forward", "analyze", "encode"};
    size_t used = (size_t)snprintf(x->stages, sizeof x->stages, "queue;dur=%.3f",
                                   (double)(x->task.started_ns - x->task.queued_ns) / 1e6);
    for (int i = 0; i < HS_STAGE_COUNT && used < sizeof x->stages; i++)
        used += (size_t)snprintf(x->stages + used, sizeof x->stages - used, ", %s;dur=%.3f", names[i],
                                 x->response.stage_ms[i]);
}

static void stages_record(const hs_exchange *x)
{
    hs_metrics *metrics = &x->server->metrics;
    hs__histogram_add(&metrics->queue, (double)(x->task.started_ns - x->task.queued_ns) / 1e9);
    for (int i = 0; i < HS_STAGE_COUNT; i++)
        hs__histogram_add(&metrics->stages[i], x->response.stage_ms[i] / 1e3);
    metrics->tokens += x->response.n_tokens;
}

/* The worker, or the queue, gave the task back. */
static void on_task_done(hs_task *task)
{
    hs_exchange *x = task->data;
    hs_server *server = x->server;
    x->response = task->response;
    if (task->end == HS_TASK_DONE && task->started_ns) {
        stages_format(x);
        stages_record(x);
        if (x->response.status >= 500 && *x->response.error.text)
            hs__log("error", "request %s: %s", x->id, x->response.error.text);
    }
    if (task->end == HS_TASK_TIMED_OUT)
        hs__exchange_refuse(x, MHD_HTTP_GATEWAY_TIMEOUT,
                            "Not answered within the server's deadline of %g s. Ask for less, or later.",
                            (double)server->options->deadline_ms / 1e3);
    x->answered = true;
    x->suspended = false;
    hs__connection_unwatch(x->connection);
    MHD_resume_connection(x->mhd);
    hs__server_pump(server);
}

static enum MHD_Result hand_over(hs_exchange *x)
{
    hs_server *server = x->server;
    x->task.request = (hs_request){
        .method = x->method,
        .path = x->path,
        .query = x->query,
        .content_type = hs__header(x->mhd, MHD_HTTP_HEADER_CONTENT_TYPE),
        .accept = hs__header(x->mhd, MHD_HTTP_HEADER_ACCEPT),
        .accept_encoding = hs__header(x->mhd, MHD_HTTP_HEADER_ACCEPT_ENCODING),
        .id = x->id,
        .body = x->body ? x->body : "",
        .body_bytes = x->body_bytes,
    };
    x->task.done = on_task_done;
    x->task.data = x;
    if (!hs__tasks_submit(&server->tasks, &x->task)) {
        x->retry_after = "1";
        hs__exchange_refuse(x, MHD_HTTP_SERVICE_UNAVAILABLE,
                            "Every worker is busy and the queue is full. Try again shortly.");
        return reply(x);
    }
    x->suspended = true;
    MHD_suspend_connection(x->mhd);
    hs__connection_watch(x->connection, &x->task);
    hs__connection_expect(x->connection, server->options->deadline_ms);
    return MHD_YES;
}

enum MHD_Result hs__exchange_step(void *cls, struct MHD_Connection *mhd, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *upload_bytes,
                                  void **con_cls)
{
    hs_exchange *x = *con_cls;
    (void)cls, (void)mhd;
    if (!x)
        return MHD_NO; /* there was no memory for it */
    if (!x->begun)
        return begin(x, url, method, version);
    if (*upload_bytes) {
        const size_t n_bytes = *upload_bytes;
        *upload_bytes = 0;
        return receive(x, upload, n_bytes);
    }
    if (x->task.end == HS_TASK_ABANDONED)
        return MHD_NO;
    if (!x->answered && !x->route->answer)
        return hand_over(x);
    if (!x->answered)
        x->route->answer(x);
    return reply(x);
}

/* --- end -------------------------------------------------------------------------------------------------
 */

static int status_final(const hs_exchange *x)
{
    const bool replied = x->answered && x->task.end != HS_TASK_ABANDONED;
    if (replied && x->response.status > 0 && x->response.status < HS_METRIC_STATUSES)
        return x->response.status;
    return x->connection->too_slow ? MHD_HTTP_REQUEST_TIMEOUT : 499; /* as nginx counts clients that left */
}

void hs__exchange_completed(void *cls, struct MHD_Connection *mhd, void **con_cls,
                            enum MHD_RequestTerminationCode code)
{
    hs_exchange *x = *con_cls;
    hs_server *server = cls;
    (void)mhd, (void)code;
    if (!x || !x->begun)
        return;
    const int status = status_final(x);
    const uint64_t bytes_out = x->head ? 0 : x->response.body_bytes;
    const double seconds = (double)(hs_clock_ns() - x->begun_ns) / 1e9;
    server->metrics.requests[hs__route_number(x->route)][status]++;
    server->metrics.bytes_in += x->received_bytes;
    server->metrics.bytes_out += bytes_out;
    hs__histogram_add(&server->metrics.total, seconds);
    hs__log_access(&(hs_access){.id = x->id,
                                .method = x->head ? "HEAD" : x->method,
                                .path = x->target,
                                .client = x->connection->client,
                                .status = status,
                                .bytes_in = x->received_bytes,
                                .bytes_out = bytes_out,
                                .total_ms = seconds * 1e3,
                                .stages = x->stages});
    *con_cls = NULL;
    x->connection->exchange = NULL;
    hs__connection_expect(x->connection, IDLE_MS);
    hs__connection_watch(x->connection, NULL);
    hs__exchange_destroy(x);
}
