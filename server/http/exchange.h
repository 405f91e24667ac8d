/* exchange.h - one HTTP request and its answer, from the first header to the last byte. steps.h moves it
 * through its phases.
 *
 * Loop thread only, except for the task while it runs, and everything during a disk call. */
#pragma once

#include "server/http/connection.h"

#include <jansson.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Returns a header's value, or NULL. Borrowed from the connection. */
const char *hs__header(struct MHD_Connection *connection, const char *name);

/* Returns the value of Access-Control-Allow-Origin by --cors: the request's origin, "*", or NULL. */
const char *hs__allowed_origin(const hs_exchange *exchange);

enum { HS_REQUEST_ID_MAX = 64 };

/* W3C Trace Context: the request's trace and the caller's span; "" if absent. */
typedef struct hs_trace {
    char trace_id[33], parent_id[17];
} hs_trace;

typedef enum hs_phase {
    HS_PHASE_OPENED,    /* the request line was read */
    HS_PHASE_BEGINNING, /* the headers were read: they are checked, and the request may be refused */
    HS_PHASE_RECEIVING, /* the body is kept, or dropped if the request was refused */
    HS_PHASE_ANSWERING, /* the request is complete: answered on the loop, or suspended for a disk call or a
                           worker */
    HS_PHASE_REPLYING,  /* headers and body are queued; libmicrohttpd sends them */
} hs_phase;

struct hs_exchange {
    hs_server *server;
    hs_connection *connection;
    struct MHD_Connection *mhd;
    hs_phase phase;
    char *target;       /* as sent, percent-encoded, cut at the query */
    const char *query;  /* the part after '?', or NULL; points into target */
    const char *method; /* the route's: GET for HEAD */
    const char *path;   /* decoded, without the server's root path; owned by libmicrohttpd, or own_path */
    char *own_path;     /* a copy without the slash at its end, or NULL */
    const hs_route *route;
    const char *malformed; /* the fault of the target, or NULL */
    char id[HS_REQUEST_ID_MAX + 1];
    hs_trace trace;
    char *body;
    size_t body_bytes, body_capacity, discarded_bytes;
    size_t body_bytes_max; /* limit of the route */
    bool body_unwanted;    /* too long to read and drop, or the client waits for "100 Continue" */
    size_t reserved_bytes; /* reserved for body and answer */
    hs_task task;
    hs_disk_call disk_call;
    void (*on_disk)(hs_exchange *exchange); /* function of the disk call */
    hs_response response;
    bool head, answered, suspended, close;
    bool framed; /* the answer's security_policy allows frames */
    bool loaded; /* the models were loaded when a disk call began */
    uint64_t begun_ns;
    uint64_t received_bytes;

    void *user_data; /* data of the route's functions between calls; freed on the loop */
    void (*user_data_free)(void *user_data);
    struct MHD_Response *prepared; /* replaces response.body */
    size_t prepared_bytes;         /* reserved for it until the exchange ends */

    /* Answer headers; NULL: absent, or the default. */
    const char *cache_control, *security_policy, *retry_after, *authenticate, *allow_methods;
    char allow[64];
    char etag[64];
    char location[64]; /* below the server's root path */
    char stages[256];  /* Server-Timing; "" without a worker */
};

/* Sets the answer. The body is malloc'ed and now the exchange's, or static. */
void hs__exchange_answer(hs_exchange *exchange, int status, const char *content_type, char *body,
                         size_t n_bytes, bool body_static);

/* Answers with a problem. pointer names the wrong field by a JSON pointer; may be NULL. */
void hs__exchange_refuse_at(hs_exchange *exchange, int status, const char *pointer, const char *format, ...)
    HS_PRINTF(4, 5);

#define hs__exchange_refuse(exchange, status, ...) hs__exchange_refuse_at(exchange, status, NULL, __VA_ARGS__)
/* Answers with 503: the client may try again after a second. */
void hs__exchange_refuse_now(hs_exchange *exchange, const char *detail);

/* Answers with 413: the body is larger than body_bytes_max. */
void hs__exchange_refuse_large(hs_exchange *exchange);

/* Answers with 500 because memory is short. */
void hs__exchange_refuse_memory(hs_exchange *exchange);

/* Answers with compact JSON, numbers with six digits. Releases json; NULL: memory is short. The text is
 * reserved while it is written. A small one, such as the answer to a change that was made, is never refused.
 */
void hs__exchange_answer_json(hs_exchange *exchange, int status, json_t *json);

/* Answers with what `write` writes, which is reserved meanwhile. Returns its failure, HS_NO_MEMORY or
 * HS_TOO_LARGE, as hs__exchange_claim, and then has no answer. Any thread that owns the exchange. */
HS_MUST_USE hs_status hs__exchange_answer_written(hs_exchange *exchange, const char *content_type,
                                                  hs_status (*write)(FILE *out, const void *data,
                                                                     hs_error *err),
                                                  const void *data, hs_error *err);

/* Refusals that several modules give with hs__exchange_refuse_now. */
#define HS_STILL_LOADING "The models are still loading. Try again in a few seconds."

#define HS_QUEUE_IS_FULL "Every worker is busy and the queue is full. Try again shortly."
#define HS_DISK_IS_BUSY  "Too many requests wait for the disk. Try again shortly."
#define HS_MEMORY_IN_USE "The memory for requests and answers is in use. Try again shortly."
/* Suspends the connection; call it from libmicrohttpd's callbacks. A client that leaves is noticed only after
 * the exchange is resumed. */
void hs__exchange_suspend(hs_exchange *exchange);

/* Resumes the connection; call it from libuv's callbacks, or from those of another connection. */
void hs__exchange_resume(hs_exchange *exchange);

/* Reserves n_bytes more for this exchange. Returns false if the limit would be exceeded. Any thread that owns
 * the exchange. */
bool hs__exchange_reserve(hs_exchange *exchange, size_t n_bytes);

/* Does the same. Returns HS_NO_MEMORY if other answers leave too little, HS_TOO_LARGE if this exchange alone
 * would exceed the limit. */
HS_MUST_USE hs_status hs__exchange_claim(hs_exchange *exchange, size_t n_bytes, hs_error *err);
