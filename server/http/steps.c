/* steps.c - moves an exchange through its phases.
 *
 * libmicrohttpd calls hs__on_step with the headers, with each piece of the body, and once more at its end.
 * It repeats a call in which the exchange was suspended, so the phase, not the arguments, tells the state. */
#include "server/http/steps.h"

#include "model/base/clock.h"
#include "server/base/log.h"
#include "server/http/admission.h"
#include "server/http/connection.h"
#include "server/http/leniency.h"
#include "server/http/loop.h"
#include "server/http/socket_info.h"
#include "server/http/stream.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define BODY_BYTES_MIN ((size_t)16 << 10)
#define RECEIVED_BYTES ((size_t)192 << 10) /* size of a disk call for a route that receives */
#define IDLE_MS        75000               /* between two requests of a connection, headers included */

/* ---- the exchange ---- */

/* Returns the fault of a target, or NULL. libmicrohttpd decodes valid escapes and keeps other bytes, blanks
 * included; a NUL would end the path. */
static const char *target_malformed(const char *target)
{
    for (const char *at = target; *at; at++) {
        if (*at <= ' ' || *at > '~')
            return "a byte of the path must be percent-encoded";
        if (*at == '%' && (!isxdigit((unsigned char)at[1]) || !isxdigit((unsigned char)at[2])))
            return "a percent sign of the path is not followed by two hexadecimal digits";
        if (strncmp(at, "%00", 3) == 0)
            return "there is a NUL in the path";
    }
    return NULL;
}

/* Returns NULL if memory is short. */
static hs_exchange *exchange_create(hs_connection *connection, struct MHD_Connection *mhd, const char *target)
{
    hs_exchange *x = calloc(1, sizeof *x);
    char *copy = x ? strdup(target) : NULL;
    if (!copy) {
        free(x);
        return NULL;
    }
    x->server = connection->server;
    x->connection = connection;
    x->mhd = mhd;
    x->target = copy;
    x->malformed = target_malformed(copy);
    char *query = strchr(copy, '?');
    if (query) {
        *query = '\0';
        x->query = query + 1;
    }
    return x;
}

/* NULL is allowed. */
static void exchange_destroy(hs_exchange *x)
{
    if (!x)
        return;
    assert(!x->suspended);
    x->server->metrics.in_flight -= x->phase != HS_PHASE_OPENED;
    hs__client_memory_replace(&x->connection->peer->budget, &x->reserved_bytes, 0);
    hs_response_recycle(x->server->api, &x->response);
    if (x->user_data)
        x->user_data_free(x->user_data);
    if (x->prepared)
        MHD_destroy_response(x->prepared);
    free(x->body);
    free(x->target);
    free(x->own_path);
    free(x);
}

/* ---- the reply: the security headers that all answers share, those set in the exchange, and the body ----
 */

/* Minimum speed of a reader; slower ones are cut off. */
#define REPLY_MS          30000
#define REPLY_BYTES_PER_S 262144

/* Largest piece of an answer in one turn of the loop: with a single request, and with several. */
#define PIECE_BYTES       ((size_t)1 << 20)
#define PIECE_BYTES_AMONG ((size_t)256 << 10)

static bool cors_headers_add(const hs_exchange *x, struct MHD_Response *reply)
{
    const char *origin = hs__allowed_origin(x);
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
    const char *root = x->server->options->root_path;
    char location[HS_ROOT_PATH_MAX + sizeof x->location];
    snprintf(location, sizeof location, "%s%s", root ? root : "", x->location);
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
        {"Location", *x->location ? location : NULL},
        {"WWW-Authenticate", x->authenticate},
        {"Server-Timing", *x->stages ? x->stages : NULL},
        {"X-Request-Id", x->id},
        {"X-Content-Type-Options", "nosniff"},
        {"X-Frame-Options", x->framed ? NULL : "DENY"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Opener-Policy", "same-origin"},
        {"Cross-Origin-Resource-Policy", hs__allowed_origin(x) ? "cross-origin" : "same-origin"},
        {"Content-Security-Policy",
         x->security_policy ? x->security_policy : "default-src 'none'; frame-ancestors 'none'"},
        {"Connection",
         x->close || x->server->starved || x->server->state >= HS_SERVER_DRAINING ? "close" : NULL},
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

/* Queues x->prepared if it is set, else x->response. libmicrohttpd then owns the body. */
static enum MHD_Result reply_queue(hs_exchange *x)
{
    hs_response *r = &x->response;
    x->phase = HS_PHASE_REPLYING;
    struct MHD_Response *reply = x->prepared ? x->prepared : body_reply(x);
    if (!reply)
        return MHD_NO;
    x->prepared = NULL;
    free(x->body);
    x->body = NULL;
    hs__client_memory_replace(&x->connection->peer->budget, &x->reserved_bytes,
                              x->prepared_bytes + (r->body_static ? 0 : r->body_bytes));
    enum MHD_Result result = MHD_NO;
    if (headers_add(x, reply))
        result = MHD_queue_response(x->mhd, (unsigned)r->status, reply);
    MHD_destroy_response(reply);
    hs__connection_unwatch(x->connection);
    hs__connection_expect_reader(x->connection,
                                 REPLY_MS + 1000 * (uint64_t)r->body_bytes / REPLY_BYTES_PER_S);
    return result;
}

/* ---- a connection opens, a request line is in ---- */

void hs__on_connection(void *cls, struct MHD_Connection *mhd, void **socket_context,
                       enum MHD_ConnectionNotificationCode code)
{
    hs_connection *connection = *socket_context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *socket_context = hs__connection_open(cls, mhd);
    } else if (connection) {
        if (!connection->has_request && hs__socket_bytes(connection->fd).sent)
            hs__request_record_unread(connection, "", MHD_HTTP_BAD_REQUEST);
        exchange_destroy(connection->exchange);
        hs__connection_close(connection);
        hs__loop_turn_again(cls);
    }
}

void *hs__on_request_line(void *cls, const char *target, struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    hs_connection *connection = info ? info->socket_context : NULL;
    hs_server *server = cls;
    if (!connection)
        return NULL;
    exchange_destroy(connection->exchange);
    connection->exchange = exchange_create(connection, mhd, target);
    connection->has_request = true;
    hs__leniency_opens(connection->exchange, target);
    hs__connection_expect(connection, server->options->header_ms);
    return connection->exchange;
}

/* ---- disk calls ---- */

static void disk_run(hs_disk_call *call)
{
    hs_exchange *x = call->data;
    x->on_disk(x);
}

static void refuse_late(hs_exchange *x)
{
    hs__exchange_refuse(
        x, MHD_HTTP_GATEWAY_TIMEOUT,
        "The request exceeded the server's deadline of %g s. Request less, or try again later.",
        (double)x->server->options->deadline_ms / 1e3);
}

/* Answers a call that was ended before it ran, or that stopped for it. */
static void disk_refuse(hs_exchange *x, const hs_disk_call *call)
{
    if (call->work.end == HS_WORK_TIMED_OUT)
        refuse_late(x);
    else if (call->work.end == HS_WORK_CROWDED)
        hs__exchange_refuse_now(x, HS_DISK_IS_BUSY);
}

static void disk_done(hs_disk_call *call)
{
    hs_exchange *x = call->data;
    if (!x->answered && (!call->ran || x->phase == HS_PHASE_ANSWERING))
        disk_refuse(x, call);
    hs__exchange_resume(x);
    if (x->phase == HS_PHASE_ANSWERING)
        return;
    /* Each piece of a long body gets the time of a whole body. */
    x->body_bytes = 0;
    hs__connection_expect(x->connection, x->server->options->body_ms);
    hs__connection_watch(x->connection, NULL);
}

static void disk_end(hs_exchange *x, hs_work_end why)
{
    hs_disk_call *call = &x->disk_call;
    if (call->disk)
        (void)hs__work_cancel(&call->disk->queue, &call->work, why);
}

/* Suspends the exchange for a disk call. Returns false if it refused the exchange instead. Only a client
 * whose request is complete may leave: the others are found when they send no more. */
static bool on_disk(hs_exchange *x, void (*function)(hs_exchange *exchange))
{
    hs_disk *disk = &x->server->disk;
    x->on_disk = function;
    x->loaded = x->server->state != HS_SERVER_LOADING;
    x->disk_call = (hs_disk_call){.work = {.client = &x->connection->peer->disk_calls,
                                           .admitted = x->route->receive && x->phase != HS_PHASE_BEGINNING},
                                  .run = disk_run,
                                  .done = disk_done,
                                  .data = x};
    if (!hs__disk_submit(disk, &x->disk_call)) {
        hs__exchange_refuse_now(x, HS_DISK_IS_BUSY);
        return false;
    }
    hs__exchange_suspend(x);
    if (x->phase == HS_PHASE_ANSWERING)
        hs__connection_watch(x->connection, disk_end);
    else
        x->connection->end = disk_end; /* for the deadline alone */
    hs__connection_expect(x->connection, x->server->options->deadline_ms);
    return true;
}

/* ---- begin: the headers are in ---- */

/* Returns /models for "http://host/models", which proxies send. */
static const char *path_of(const char *url)
{
    const bool absolute = strncasecmp(url, "http://", 7) == 0;
    const char *path = absolute ? strchr(url + 7, '/') : url;
    return path ? path : "/";
}

/* Sets the path without the root path, which proxies keep or take away, and without a slash at its end. "" is
 * the root path itself. Returns false if memory is short. */
static bool path_set(hs_exchange *x, const char *url)
{
    const char *root = x->server->options->root_path ? x->server->options->root_path : "";
    const size_t n_root = strlen(root);
    x->path = path_of(url);
    if (n_root && strncmp(x->path, root, n_root) == 0 && (x->path[n_root] == '/' || !x->path[n_root]))
        x->path += n_root;
    const size_t n = strlen(x->path);
    if (n < 2 || x->path[n - 1] != '/')
        return true;
    x->own_path = strndup(x->path, n - 1);
    x->path = x->own_path ? x->own_path : x->path;
    return x->own_path != NULL;
}

static enum MHD_Result reply_and_close(hs_exchange *x)
{
    x->close = true;
    return reply_queue(x);
}

/* Goes on after the route's `begin`. */
static enum MHD_Result begun(hs_exchange *x)
{
    x->phase = HS_PHASE_RECEIVING;
    return x->answered && x->body_unwanted ? reply_and_close(x) : MHD_YES;
}

static enum MHD_Result begin(hs_exchange *x, const char *url, const char *method, const char *version)
{
    x->phase = HS_PHASE_BEGINNING;
    x->begun_ns = hs_clock_ns();
    x->server->metrics.in_flight++;
    x->head = strcmp(method, "HEAD") == 0;
    x->method = x->head ? "GET" : method;
    hs__connection_expect(x->connection, x->server->options->body_ms);
    if (!path_set(x, url)) {
        hs__exchange_refuse_memory(x);
        return reply_and_close(x);
    }
    if (hs__admission_refuses(x, method, url, version))
        return reply_and_close(x);
    if (!x->answered && x->route->begin)
        return on_disk(x, x->route->begin) ? MHD_YES : begun(x);
    x->phase = HS_PHASE_RECEIVING;
    return MHD_YES;
}

/* ---- receive ---- */

/* Returns false if memory is short or the client's limit is reached. */
static bool body_reserve(hs_exchange *x, size_t n_bytes)
{
    size_t capacity = x->body_capacity ? x->body_capacity : BODY_BYTES_MIN;
    if (n_bytes <= x->body_capacity)
        return true;
    while (capacity < n_bytes)
        capacity *= 2;
    if (!hs__exchange_reserve(x, capacity - x->body_capacity))
        return false;
    char *body = realloc(x->body, capacity);
    if (!body)
        return false; /* the request is refused, which returns the reservation */
    x->body = body;
    x->body_capacity = capacity;
    return true;
}

static enum MHD_Result receive(hs_exchange *x, const char *upload, size_t n_bytes)
{
    x->received_bytes += n_bytes;
    if (!x->answered && x->received_bytes > x->body_bytes_max) {
        hs__exchange_refuse_large(x);
    } else if (!x->answered && !body_reserve(x, x->body_bytes + n_bytes)) {
        hs__exchange_refuse_now(x, HS_MEMORY_IN_USE);
    }
    if (x->answered) {
        x->discarded_bytes += n_bytes;
        return x->discarded_bytes <= HS_DISCARD_BYTES_MAX ? MHD_YES : MHD_NO;
    }
    memcpy(x->body + x->body_bytes, upload, n_bytes);
    x->body_bytes += n_bytes;
    if (x->route->receive && x->body_bytes >= RECEIVED_BYTES)
        (void)on_disk(x, x->route->receive); /* never refused */
    return MHD_YES;
}

/* ---- answer: the request is whole ---- */

/* Reserves memory for an answer, once its length is known. Called on a worker. */
static bool answer_reserve(void *data, size_t n_bytes)
{
    return hs__exchange_reserve(data, n_bytes);
}

/* The worker or the queue returned the task. */
static void on_task_done(hs_task *task)
{
    hs_exchange *x = task->data;
    x->response = task->response;
    if (task->work.end == HS_WORK_DONE && task->started_ns) {
        hs__request_stages(x);
        if (x->response.status >= 500 && *x->response.error.text)
            hs__log("error", "request %s: %s", x->id, x->response.error.text);
    }
    if (task->work.end == HS_WORK_TIMED_OUT)
        refuse_late(x);
    else if (task->work.end == HS_WORK_CROWDED)
        hs__exchange_refuse_now(x, HS_QUEUE_IS_FULL);
    if (x->response.status == MHD_HTTP_SERVICE_UNAVAILABLE)
        x->retry_after = "1";
    x->answered = task->work.end != HS_WORK_ABANDONED;
    hs__exchange_resume(x);
}

static void task_end(hs_exchange *x, hs_work_end why)
{
    hs__tasks_cancel(&x->task, why);
}

static enum MHD_Result on_worker(hs_exchange *x)
{
    hs_server *server = x->server;
    x->task.request = (hs_request){
        .operation = x->route->operation,
        .query = x->query,
        .content_type = hs__header(x->mhd, MHD_HTTP_HEADER_CONTENT_TYPE),
        .accept = hs__header(x->mhd, MHD_HTTP_HEADER_ACCEPT),
        .accept_encoding = hs__header(x->mhd, MHD_HTTP_HEADER_ACCEPT_ENCODING),
        .id = x->id,
        .hold = answer_reserve,
        .hold_data = x,
        .body = x->body ? x->body : "",
        .body_bytes = x->body_bytes,
    };
    if (hs_request_is_lines(&x->task.request)) {
        hs__line_stream_begin(x);
        return reply_queue(x);
    }
    x->task.work.client = &x->connection->peer->tasks;
    x->task.done = on_task_done;
    x->task.data = x;
    if (!hs__tasks_submit(&server->tasks, &x->task)) {
        hs__exchange_refuse_now(x, HS_QUEUE_IS_FULL);
        return reply_queue(x);
    }
    hs__exchange_suspend(x);
    hs__connection_watch(x->connection, task_end);
    hs__connection_expect(x->connection, server->options->deadline_ms);
    return MHD_YES;
}

static enum MHD_Result route_answer(hs_exchange *x)
{
    x->phase = HS_PHASE_ANSWERING;
    if (x->answered)
        return reply_queue(x);
    if (x->route->executor == HS_ON_WORKER)
        return on_worker(x);
    if (x->route->executor == HS_ON_DISK)
        return on_disk(x, x->route->answer) ? MHD_YES : reply_queue(x);
    x->route->answer(x);
    return x->suspended ? MHD_YES : reply_queue(x);
}

enum MHD_Result hs__on_step(void *cls, struct MHD_Connection *mhd, const char *url, const char *method,
                            const char *version, const char *upload, size_t *upload_bytes, void **con_cls)
{
    hs_exchange *x = *con_cls;
    const size_t n_bytes = *upload_bytes;
    (void)cls, (void)mhd;
    if (!x)
        return MHD_NO; /* memory was short */
    if (x->suspended)
        return MHD_YES; /* called again later: a piece of the body came during a disk call */
    if (x->phase == HS_PHASE_OPENED)
        return begin(x, url, method, version);
    if (x->phase == HS_PHASE_BEGINNING)
        return begun(x);
    if (n_bytes) {
        *upload_bytes = 0;
        return receive(x, upload, n_bytes);
    }
    if (x->phase == HS_PHASE_RECEIVING)
        return route_answer(x);
    return x->answered ? reply_queue(x) : MHD_NO; /* the client left */
}

/* ---- the end ---- */

void hs__on_completed(void *cls, struct MHD_Connection *mhd, void **con_cls,
                      enum MHD_RequestTerminationCode code)
{
    hs_exchange *x = *con_cls;
    (void)cls, (void)mhd, (void)code;
    if (!x)
        return;
    hs__request_record(x);
    if (x->phase == HS_PHASE_OPENED)
        return;
    *con_cls = NULL;
    x->connection->exchange = NULL;
    hs__connection_flush(x->connection, IDLE_MS);
    hs__connection_watch(x->connection, NULL);
    exchange_destroy(x);
}
