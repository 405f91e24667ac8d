/* exchange.h - one HTTP request and its answer, from the first header to the last byte; steps.h moves it on.
 *
 * Loop thread only, except for the task while it runs, and all of it during a disk call. */
#pragma once

#include "server/http/connection.h"
#include "server/http/headers.h"

typedef enum hs_phase {
    HS_OPENED,    /* the request line is in */
    HS_BEGINNING, /* the headers are: framing, route, token and sizes are checked; refusals are decided here
                   */
    HS_RECEIVING, /* the body comes, and is kept, or dropped when the request was refused */
    HS_ANSWERING, /* the request is whole: answered on the loop, or suspended for a disk call or a worker */
    HS_REPLYING,  /* the answer's headers and body are queued; libmicrohttpd sends them */
} hs_phase;

struct hs_exchange {
    hs_server *server;
    hs_connection *connection;
    struct MHD_Connection *mhd;
    hs_phase phase;
    char *target;       /* as sent: the path, still percent-encoded, cut off where the query begins */
    const char *query;  /* behind '?', or NULL; inside target */
    const char *method; /* the route's for HEAD: GET */
    const char *path;   /* decoded; libmicrohttpd's */
    const hs_route *route;
    const char *malformed; /* what is wrong with the target, or NULL */
    const char *opening;   /* libmicrohttpd's target while it reads that, then NULL */
    char id[HS_REQUEST_ID_MAX + 1];
    hs_trace trace;
    char *body;
    size_t body_bytes, body_capacity, discarded_bytes;
    size_t held_bytes; /* of body and answer, taken from the peer's */
    hs_task task;
    hs_disk_call disk_call;
    void (*on_disk)(hs_exchange *exchange); /* what the call calls */
    hs_response response;
    bool head, answered, suspended, close;
    bool framed; /* the answer's own policy says who may show it in a frame; else nobody may */
    bool loaded; /* as a disk call began: the models were there */
    uint64_t begun_ns;
    uint64_t received_bytes;

    void *own; /* what the route's functions keep between calls, and what ends it, on the loop */
    void (*own_end)(void *own);
    struct MHD_Response *prepared; /* takes the place of response.body */

    /* Beside the response's own; NULL: none, or the usual. */
    const char *cache_control, *security_policy, *retry_after, *authenticate, *allow_methods;
    char allow[64];
    char etag[64];
    char location[64];
    char stages[256]; /* Server-Timing; "" when no worker saw it */
};

/* NULL when memory is short. */
hs_exchange *hs__exchange_create(hs_connection *connection, struct MHD_Connection *mhd, const char *target);
void hs__exchange_destroy(hs_exchange *exchange); /* NULL is fine */

/* The body is malloc'ed and taken, or static. */
void hs__exchange_answer(hs_exchange *exchange, int status, const char *content_type, char *body,
                         size_t n_bytes, bool body_static);
/* pointer: to what is wrong, as in api/problem.h; may be NULL. */
void hs__exchange_refuse_at(hs_exchange *exchange, int status, const char *pointer, const char *format, ...)
    HS_PRINTF(4, 5);
#define hs__exchange_refuse(exchange, status, ...) hs__exchange_refuse_at(exchange, status, NULL, __VA_ARGS__)

/* From libmicrohttpd's callbacks: it leaves the connection alone until the exchange is resumed. A client that
 * leaves meanwhile is noticed only afterwards. */
void hs__exchange_suspend(hs_exchange *exchange);
/* From libuv's. */
void hs__exchange_resume(hs_exchange *exchange);

/* So many bytes more are held for this exchange. False: that would be too much. Any thread that has the
 * exchange. */
bool hs__exchange_hold(hs_exchange *exchange, size_t n_bytes);
/* From now on it is so many, whatever that comes to. */
void hs__exchange_hold_only(hs_exchange *exchange, size_t n_bytes);
