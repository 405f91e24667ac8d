/* server.h - the running service: one libuv loop drives libmicrohttpd and hands requests to workers.
 *
 * Life: LOADING (answers health; models open on a worker thread) -> SERVING -> DRAINING (SIGTERM or SIGINT:
 * not ready, no new connections, everything begun is answered) -> the end. A second signal ends everything
 * begun at once. */
#pragma once

#include "server/base/catalog.h"
#include "server/http/metrics.h"
#include "server/http/tasks.h"
#include "server/runs/corpora.h"

#include <microhttpd.h>
#include <uv.h>

typedef struct hs_server_options {
    const char *listen; /* "127.0.0.1:8080", "[::1]:0", ":8080" */
    hs_catalog_options catalog;
    size_t n_workers, queue_max, connections_max;
    size_t together_max; /* see hs_tasks_options.batch_max; 0: by the models' sizes */
    size_t body_bytes_max;
    const char *state_dir;                    /* of corpus runs, or NULL: there are none */
    size_t corpus_bytes_max, state_bytes_max; /* of one's upload; of all their files */
    uint64_t deadline_ms;                 /* of an answer, from the request being read to it being ready */
    uint64_t header_ms;                   /* of a request's headers, from the first moment they could come */
    uint64_t body_ms;                     /* of its body */
    const char *token_file, *cors_origin; /* or NULL */
    const char *log;                      /* "text" or "json" */
} hs_server_options;

typedef enum hs_server_state { HS_LOADING, HS_SERVING, HS_DRAINING, HS_STOPPING } hs_server_state;

typedef struct hs_connection hs_connection;

typedef struct hs_server {
    const hs_server_options *options;
    hs_server_state state;
    char *tokens; /* the token file's text, or NULL: open to all */
    char address[128];
    uv_loop_t loop;
    struct MHD_Daemon *daemon;
    uv_poll_t daemon_poll;   /* libmicrohttpd's epoll descriptor */
    uv_timer_t daemon_timer; /* what MHD_get_timeout asks for */
    uv_signal_t on_terminate, on_interrupt;
    uv_work_t loading;
    bool loading_now;
    uv_work_t hashing;
    hs_error load_error;
    hs_catalog catalog;
    hs_corpora *corpora;    /* NULL without a folder for them */
    hs_tasks tasks, loaded; /* the loading thread makes `loaded`; the loop takes it over */
    size_t n_cores;
    hs_connection *connections; /* open ones, a list */
    size_t n_connections;
    size_t held_bytes; /* of bodies received and answers being sent, all requests together */
    size_t held_bytes_max;
    hs_metrics metrics;
    uint64_t started_ns;
    int exit_code;
} hs_server;

/* Serves until told to stop; returns the program's exit code. Prints the address on standard output when it
 * answers. On failure to start, err says why. */
int hs__server_run(const hs_server_options *options, hs_error *err);

/* Lets libmicrohttpd work on what is ready; to be called after every event that could matter to it, from
 * libuv's callbacks, never from within libmicrohttpd's. */
void hs__server_pump(hs_server *server);
