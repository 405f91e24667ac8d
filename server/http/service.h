/* service.h - the running service, which the files of this module share.
 *
 * A request belongs to one of these at a time:
 *
 *     connection  one socket and its deadlines; carries one exchange after another       connection.h
 *     exchange    one request and its answer, from the first header to the last byte     exchange.h
 *     task        the request of an exchange while it waits for or uses a model worker   tasks.h
 *     batch       the tasks that one worker takes at once; short texts share a pass      tasks.h
 *     disk call   a function that may block on a disk, on a thread of its own            tasks.h
 *
 * A route (routes.h) says which function answers a path, and where it runs. The event loop's thread owns
 * everything here, except a task or a disk call while it runs. */
#pragma once

#include "server/base/catalog.h"
#include "server/http/listen.h"
#include "server/http/metrics.h"
#include "server/http/models_http.h"
#include "server/http/peers.h"
#include "server/http/route.h"
#include "server/http/server.h"
#include "server/http/spares.h"
#include "server/http/tasks.h"
#include "server/http/work_queue.h"
#include "server/runs/runs.h"

#include <microhttpd.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

/* ---- the server ---- */

/* LOADING (answers probes; a thread opens the models) -> SERVING -> DRAINING (not ready, accepts no
 * connections, finishes all requests) -> STOPPING (a second signal: all requests are cut). */
typedef enum hs_server_state {
    HS_SERVER_LOADING,
    HS_SERVER_SERVING,
    HS_SERVER_DRAINING,
    HS_SERVER_STOPPING
} hs_server_state;

typedef struct hs_connection hs_connection;
typedef struct hs_server hs_server;

/* A round from the loop through the thread pool and back, every second; see server.c. */
typedef struct hs_probe {
    uv_timer_t timer;
    uv_work_t work;
    bool running;
    bool trims_all;    /* the current round returns all unused blocks */
    uint64_t round_ns; /* end of the last round */
} hs_probe;

/* Written by a thread during LOADING; nothing else reads it, but for `stopped`. */
typedef struct hs_loading {
    uv_work_t work;
    void (*loaded)(hs_server *server);
    bool running;        /* the loop's */
    atomic_bool stopped; /* set by the loop: a download ends early */
    hs_api *api;
    hs_tasks tasks;
    hs_error error;
} hs_loading;

struct hs_server {
    const hs_server_options *options;
    const hs_routes *routes;
    hs_server_state state;
    char *tokens; /* the token file's text, or NULL: open to all */
    hs_listener listener;
    uv_loop_t loop;
    struct MHD_Daemon *daemon;
    uv_poll_t daemon_poll; /* libmicrohttpd's epoll descriptor */
    uv_idle_t daemon_turn; /* active while libmicrohttpd needs to run */
    bool turn_again;       /* even if libmicrohttpd asks for no run */
    uv_timer_t lag_timer;  /* its delay is the lag of the loop */
    uint64_t lag_due_ns;
    uv_check_t end_check; /* checks after each turn of the loop whether all work has ended */
    uv_signal_t on_terminate, on_interrupt, on_cpu_limit;
    uint64_t drain_ns; /* when the first of these signals came; 0: none did */
    hs_loading loading;
    hs_api *api;    /* NULL until it is loaded */
    hs_runs *runs;  /* NULL without a state folder */
    bool runs_wait; /* for their thread */
    hs_tasks tasks;
    hs_fetch fetch;
    hs_disk disk;
    hs_probe probe;
    hs_spares spares;
    bool starved; /* of descriptors or memory; connections close after their answer */
    size_t n_cores;
    hs_connection *connections; /* list of open ones */
    size_t n_connections;
    hs_peers peers;
    hs_client_memory budget; /* for bodies received and answers being sent, of all requests */
    hs_metrics metrics;
    uint64_t started_ns;
    int exit_code;
};
