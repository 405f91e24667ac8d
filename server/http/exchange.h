/* exchange.h - one HTTP request and its answer, from the first header to the last byte.
 *
 *     begin    headers are in: framing, route, token and sizes are checked; a refusal is decided here
 *     receive  the body arrives and is kept, or discarded when the request was refused
 *     dispatch the request is whole: answered on the loop, or suspended and given to a worker
 *     reply    the answer's headers and body are queued; libmicrohttpd sends them
 *     end      written to the log and the metrics
 *
 * Loop thread only, except for the task while it runs. */
#pragma once

#include "server/http/connection.h"
#include "server/http/headers.h"

typedef struct hs_route hs_route;

struct hs_exchange {
    hs_server *server;
    hs_connection *connection;
    struct MHD_Connection *mhd;
    char *target;       /* as sent: the path, still percent-encoded, cut off where the query begins */
    const char *query;  /* behind '?', or NULL; inside target */
    const char *method; /* the route's for HEAD: GET */
    const char *path;   /* decoded; libmicrohttpd's */
    const hs_route *route;
    char id[HS_REQUEST_ID_MAX + 1];
    char *body;
    size_t body_bytes, body_capacity, discarded_bytes;
    size_t held_bytes; /* our part of server->held_bytes */
    hs_task task;
    hs_response response;
    bool begun, head, answered, suspended, close;
    uint64_t begun_ns;
    uint64_t received_bytes;

    struct hs_upload *upload;      /* of a corpus, while its body comes */
    struct MHD_Response *prepared; /* takes the place of response.body */

    /* Beside the response's own; NULL: none, or the usual. */
    const char *cache_control, *security_policy, *retry_after, *authenticate, *allow_methods;
    char allow[64];
    char etag[64];
    char location[64];
    char stages[256]; /* Server-Timing */
};

/* libmicrohttpd's callbacks. */
void *hs__exchange_open(void *server, const char *target, struct MHD_Connection *connection);
enum MHD_Result hs__exchange_step(void *server, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_bytes, void **con_cls);
void hs__exchange_completed(void *server, struct MHD_Connection *connection, void **con_cls,
                            enum MHD_RequestTerminationCode code);

void hs__exchange_destroy(hs_exchange *exchange); /* NULL is fine */

/* For answers given on the loop. The body is malloc'ed and taken, or static. */
void hs__exchange_answer(hs_exchange *exchange, int status, const char *content_type, char *body,
                         size_t n_bytes, bool body_static);
/* pointer: to what is wrong, as in api/problem.h; may be NULL. */
void hs__exchange_refuse_at(hs_exchange *exchange, int status, const char *pointer, const char *format, ...)
    HS_PRINTF(4, 5);
#define hs__exchange_refuse(exchange, status, ...) hs__exchange_refuse_at(exchange, status, NULL, __VA_ARGS__)
