/* service.h - what the files of this room share: the running service, on its one libuv loop.
 *
 * Who holds a request when, from the socket up, and how the words differ:
 *
 *     connection  one socket, with its deadlines; carries one exchange after the other   connection.h
 *     exchange    one request and its answer, from the first header to the last byte     exchange.h
 *     task        an exchange's request on its way through the model workers             tasks.h
 *     batch       the tasks that one worker takes at once; short ones share a pass       tasks.h
 *     disk call   a function that may wait for a disk, on a thread beside the workers    disk.h
 *
 * and above all of them a route (route.h) says which function answers which path, and where it runs.
 * Everything here belongs to the loop's thread, but for a task or a disk call while it runs. */
#pragma once

#include "server/base/catalog.h"
#include "server/http/disk.h"
#include "server/http/metrics.h"
#include "server/http/peer.h"
#include "server/http/route.h"
#include "server/http/server.h"
#include "server/http/tasks.h"
#include "server/runs/corpora.h"

#include <microhttpd.h>
#include <uv.h>

/* LOADING (answers health; models open on a worker thread) -> SERVING -> DRAINING (not ready, no new
 * connections, everything begun is answered) -> STOPPING (a second signal: everything begun is cut). */
typedef enum hs_server_state { HS_LOADING, HS_SERVING, HS_DRAINING, HS_STOPPING } hs_server_state;

typedef struct hs_connection hs_connection;
typedef struct hs_server hs_server;

/* A round from the loop through a thread of the pool and back, every second; probes.c. */
typedef struct hs_probe {
    uv_timer_t timer;
    uv_work_t work;
    bool running;
    uint64_t round_ns; /* when the last one ended */
} hs_probe;

/* What a thread makes while the service is LOADING: nobody else looks at it. */
typedef struct hs_loading {
    uv_work_t work;
    void (*loaded)(hs_server *server);
    bool running;
    hs_catalog catalog;
    hs_tasks tasks;
    hs_error error;
} hs_loading;

struct hs_server {
    const hs_server_options *options;
    const hs_routes *routes;
    hs_server_state state;
    char *tokens; /* the token file's text, or NULL: open to all */
    char address[128];
    bool loopback; /* nobody else's machine can reach it */
    uv_loop_t loop;
    struct MHD_Daemon *daemon;
    uv_poll_t daemon_poll;   /* libmicrohttpd's epoll descriptor */
    uv_idle_t daemon_turn;   /* active while libmicrohttpd has work that no descriptor tells of */
    uv_timer_t daemon_pause; /* instead, while that work leads nowhere */
    unsigned n_vain;         /* turns that it wanted since it last called back */
    bool turn_again;         /* although libmicrohttpd asks for no turn */
    uv_timer_t lag_timer;    /* how late it comes is how long the loop let others wait */
    uint64_t lag_due_ns;
    uv_check_t end_check; /* after each turn of the loop: is everything over? */
    uv_signal_t on_terminate, on_interrupt;
    hs_loading loading;
    hs_catalog catalog;  /* empty until it is loaded */
    hs_corpora *corpora; /* NULL without a folder for them */
    hs_tasks tasks;
    hs_disk disk;
    hs_probe probe;
    size_t n_cores;
    hs_connection *connections; /* open ones, a list */
    size_t n_connections;
    hs_peers peers;
    hs_held held; /* bodies received and answers being sent, all requests together */
    hs_metrics metrics;
    uint64_t started_ns;
    int exit_code;
};
