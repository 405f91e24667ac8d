/* server.c - starts, drains and stops the service.
 *
 * It listens at once and answers probes while a thread loads the models. The first signal finishes all
 * requests, the second one cuts them. No connection and no call on a thread is left at the end. */
#include "server/http/server.h"

#include "model/base/clock.h"
#include "server/base/log.h"
#include "server/base/machine.h"
#include "server/base/second_signal.h"
#include "server/base/version.h"
#include "server/http/libmicrohttpd_0_9_75.h"
#include "server/http/library_errors.h"
#include "server/http/listen.h"
#include "server/http/loading.h"
#include "server/http/loop.h"
#include "server/http/probes.h"
#include "server/http/routes.h"
#include "server/http/steps.h"
#include "server/http/token_file.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    HEADER_BYTES_MAX = 65536,           /* request line, headers, and a record of each argument and header */
    CONNECTIONS_TO_SHED = 64,           /* accepted over the limit and answered with 503 */
    DESCRIPTORS_RESERVED = 64,          /* for runs, models and the database */
    THREADS_MORE = HS_DISK_THREADS + 2, /* one loads, hashes and fetches models, one serves probes */
};

/* ---- the end ---- */

static void signals_stop(hs_server *server)
{
    uv_close((uv_handle_t *)&server->on_terminate, NULL);
    uv_close((uv_handle_t *)&server->on_interrupt, NULL);
}

/* Closes the handles that keep the loop alive, once no connection is left. The loop returns after the last
 * call on a thread. */
static void server_stop(hs_server *server)
{
    hs__loop_stop(server);
    hs__probe_stop(server);
    MHD_stop_daemon(server->daemon);
    server->daemon = NULL;
    uv_close((uv_handle_t *)&server->end_check, NULL);
    signals_stop(server);
}

static void on_check(uv_check_t *check)
{
    hs_server *server = check->data;
    if (server->state >= HS_SERVER_DRAINING && !server->n_connections && !server->loading.running &&
        !server->fetch.running)
        server_stop(server);
}

/* Accepts nothing new. Closes connections without a request now, the others after their answer. */
static void server_drain(hs_server *server)
{
    server->state = HS_SERVER_DRAINING;
    hs__runs_stop(server->runs);
    atomic_store(&server->loading.stopped, true);
    hs__fetch_cancel(&server->fetch);
    MHD_run(server->daemon); /* accepts pending connections */
    const int fd = MHD_quiesce_daemon(server->daemon);
    if (fd >= 0)
        close(fd);
    for (hs_connection *c = server->connections; c; c = c->next) {
        char byte;
        if (!c->exchange && recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN)
            hs__connection_cut(c);
    }
    hs__loop_wake(server);
}

/* Cuts all connections and cancels their work. A third signal meets the default handler. */
static void server_abort(hs_server *server)
{
    server->state = HS_SERVER_STOPPING;
    server->exit_code = 1;
    uv_signal_stop(&server->on_terminate);
    uv_signal_stop(&server->on_interrupt);
    for (hs_connection *c = server->connections; c; c = c->next) {
        hs__connection_cut(c);
        if (c->end)
            c->end(c->exchange, HS_WORK_ABANDONED);
    }
    hs__loop_wake(server);
}

static void on_signal(uv_signal_t *signal, int number)
{
    hs_server *server = signal->data;
    (void)number;
    if (server->state < HS_SERVER_DRAINING) {
        hs__log("info", "finishing %zu requests, then stopping; send a second signal to stop at once",
                server->metrics.in_flight);
        server->drain_ns = hs_clock_ns();
        server_drain(server);
    } else if (server->state == HS_SERVER_DRAINING && hs__signal_is_second(server->drain_ns)) {
        server_abort(server);
    }
}

/* ---- the beginning ---- */

/* Logs version, address, models and limits. */
static void start_log(const hs_server *server)
{
    const hs_server_options *o = server->options;
    char models[1024] = "";
    for (size_t i = 0, used = 0; i < hs__catalog_places(&o->catalog) && used < sizeof models; i++) {
        const hs_model_place *place = hs__catalog_place(&o->catalog, i);
        used += (size_t)snprintf(models + used, sizeof models - used, "%s%s", i ? "," : "", place->name);
    }
    const hs_log_field fields[] = {{"version", HS_VERSION, 0},
                                   {"address", server->address, 0},
                                   {"models", models, 0},
                                   {"token", server->tokens ? "required" : "none", 0},
                                   {"state", o->state_dir ? o->state_dir : "none", 0},
                                   {"cores", NULL, (double)server->n_cores},
                                   {"workers", NULL, (double)o->n_workers},
                                   {"queue", NULL, (double)o->queue_max},
                                   {"connections", NULL, (double)o->connections_max},
                                   {"max_body", NULL, (double)o->body_bytes_max},
                                   {"max_answer", NULL, (double)o->catalog.api.answer_bytes_max},
                                   {"max_held", NULL, (double)o->client_memory_max},
                                   {"cache", NULL, (double)o->catalog.api.cache_bytes_max},
                                   {"deadline_s", NULL, (double)o->deadline_ms / 1e3}};
    hs__log_fields("ready", fields, sizeof fields / sizeof *fields);
}

/* Starts to serve the loaded models, or ends with their error. */
static void on_loaded(hs_server *server)
{
    hs_error err = {0};
    if (server->loading.error.status)
        server->exit_code = 1;
    if (server->loading.error.status && server->state == HS_SERVER_LOADING)
        server_drain(server);
    if (server->state != HS_SERVER_LOADING)
        return;
    server->state = HS_SERVER_SERVING;
    if (server->runs && hs__runs_start(server->runs, server->api, &server->options->catalog, &err))
        hs__log("error", "corpus runs: %s", err.text);
    start_log(server);
    dprintf(STDOUT_FILENO, "headscope is ready on %s\n", server->address); /* serves without a reader, too */
}

/* Returns the descriptors that a connection may use: its socket, and with corpus runs a report or an upload.
 */
static size_t connection_descriptors(const hs_server_options *options)
{
    return options->state_dir ? 2 : 1;
}

size_t hs__connections_possible(const hs_server_options *options)
{
    struct rlimit limit;
    const rlim_t others = CONNECTIONS_TO_SHED + DESCRIPTORS_RESERVED;
    if (getrlimit(RLIMIT_NOFILE, &limit))
        return SIZE_MAX;
    const size_t possible = limit.rlim_max > others ? limit.rlim_max - others : 0;
    return possible > connection_descriptors(options) ? possible / connection_descriptors(options) : 1;
}

/* Raises the limit of descriptors to what the connections can use. Too low a limit is an error at the start,
 * not later. */
static hs_status descriptors_reserve(const hs_server_options *options, hs_error *err)
{
    struct rlimit limit;
    const rlim_t needed = options->connections_max * connection_descriptors(options) + CONNECTIONS_TO_SHED +
                          DESCRIPTORS_RESERVED;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= needed)
        return HS_OK;
    limit.rlim_cur = needed;
    if (limit.rlim_max < needed || setrlimit(RLIMIT_NOFILE, &limit))
        return hs_fail(err, HS_IO,
                       "%zu connections need %llu file descriptors%s: raise the limit (ulimit -n) or "
                       "lower --connections",
                       options->connections_max, (unsigned long long)needed,
                       options->state_dir ? ", two each because --state keeps corpus runs" : "");
    return HS_OK;
}

static struct MHD_Daemon *daemon_start(hs_server *server, int fd)
{
    const struct MHD_OptionItem items[] = {
#if HS_MHD_IS_LENIENT
        {MHD_OPTION_STRICT_FOR_CLIENT, !hs__mhd_0_9_75_runs(), NULL},
#else
        {MHD_OPTION_CLIENT_DISCIPLINE_LVL, 1, NULL}, /* refuse what RFC 9112 allows to refuse */
#endif
        {MHD_OPTION_EXTERNAL_LOGGER, (intptr_t)hs__library_logs, server},
        {MHD_OPTION_UNESCAPE_CALLBACK, (intptr_t)hs__library_unescapes, server},
        {MHD_OPTION_LISTEN_SOCKET, fd, NULL},
        {MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, NULL},
        {MHD_OPTION_CONNECTION_LIMIT, (intptr_t)server->options->connections_max + CONNECTIONS_TO_SHED, NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, HEADER_BYTES_MAX, NULL},
        {MHD_OPTION_URI_LOG_CALLBACK, (intptr_t)hs__step_open, server},
        {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)hs__step_completed, server},
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)hs__step_connection, server},
        {MHD_OPTION_END, 0, NULL},
    };
    return MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL, NULL,
                            hs__step_next, server, MHD_OPTION_ARRAY, items, MHD_OPTION_END);
}

static void handles_start(hs_server *server)
{
    hs__loop_start(server);
    hs__probe_start(server);
    uv_check_init(&server->loop, &server->end_check);
    server->end_check.data = server;
    uv_check_start(&server->end_check, on_check);
}

/* Installs the handlers before the server listens, so that a signal after the first connection stops it in
 * order. */
static void signals_start(hs_server *server)
{
    uv_signal_init(&server->loop, &server->on_terminate);
    uv_signal_init(&server->loop, &server->on_interrupt);
    server->on_terminate.data = server->on_interrupt.data = server;
    uv_signal_start(&server->on_terminate, on_signal, SIGTERM);
    uv_signal_start(&server->on_interrupt, on_signal, SIGINT);
}

/* libuv reads it at its first use. */
static void pool_size_set(size_t n_workers)
{
    char size[24];
    snprintf(size, sizeof size, "%zu", n_workers + THREADS_MORE);
    setenv("UV_THREADPOOL_SIZE", size, 1);
}

/* Opens the listening socket and starts libmicrohttpd on it. */
static hs_status daemon_open(hs_server *server, hs_error *err)
{
    int fd = -1;
    bool public;
    const hs_status st =
        hs__listen(server->options->listen, &fd, server->address, sizeof server->address, &public, err);
    if (st)
        return st;
    server->loopback = !public;
    if (public && !server->tokens)
        hs__log("warning", "anyone who can reach %s can use this server; restrict it with --token-file",
                server->address);
    server->daemon = daemon_start(server, fd);
    if (server->daemon)
        return HS_OK;
    close(fd);
    return hs_fail(err, HS_IO, "libmicrohttpd %s did not start: %s (this program was built with %x.%x.%x)",
                   MHD_get_version(), strerror(errno), MHD_VERSION >> 24, MHD_VERSION >> 16 & 0xff,
                   MHD_VERSION >> 8 & 0xff);
}

static hs_status server_open(hs_server *server, hs_error *err)
{
    const hs_server_options *o = server->options;
    hs_status st = o->token_file ? hs__token_file_read(o->token_file, &server->tokens, err) : HS_OK;
    if (!st)
        st = descriptors_reserve(o, err);
    if (!st && o->state_dir)
        st = hs__runs_open(o->state_dir, server->n_cores, o->state_bytes_max, &server->runs, err);
    if (st)
        return st;
    hs_error why = {0};
    if (o->state_dir && hs__links_open(o->state_dir, &server->links, &why))
        hs__log("error", "short links are refused: %s", why.text);
    signals_start(server);
    st = daemon_open(server, err);
    if (st) {
        signals_stop(server);
        uv_run(&server->loop, UV_RUN_DEFAULT);
    }
    return st;
}

static hs_status server_init(hs_server *server, const hs_server_options *options, hs_error *err)
{
    server->options = options;
    server->routes = &hs__routes;
    server->n_cores = hs__cores_usable();
    server->started_ns = hs_clock_ns();
    server->budget.max = options->client_memory_max;
    server->peers = (hs_peers){.all = &server->budget, .budget_max = options->client_memory_max / 2};
    hs__disk_init(&server->disk, &server->loop);
    hs__fetch_init(&server->fetch);
    signal(SIGPIPE, SIG_IGN);
    pool_size_set(options->n_workers);
    hs__log_start(strcmp(options->log, "json") == 0);
    const hs_status st = hs__threads_check(options->n_workers + THREADS_MORE, "--workers", err);
    if (st)
        return st;
    return uv_loop_init(&server->loop) ? hs_fail(err, HS_NO_MEMORY, "no memory for the event loop") : HS_OK;
}

static void server_finish(hs_server *server)
{
    if (!hs__runs_close(server->runs))
        _exit(server->exit_code); /* all acknowledged runs are on disk */
    hs__links_close(server->links);
    uv_loop_close(&server->loop);
    hs__tasks_finish(&server->tasks);
    hs__fetch_finish(&server->fetch);
    hs_api_destroy(server->api);
    free(server->tokens);
}

int hs__server_run(const hs_server_options *options, hs_error *err)
{
    hs_server *server = calloc(1, sizeof *server);
    int exit_code = 1;
    if (!server) {
        hs_fail(err, HS_NO_MEMORY, "no memory to start the server");
        return exit_code;
    }
    if (!server_init(server, options, err)) {
        if (!server_open(server, err)) {
            handles_start(server);
            hs__loading_start(server, on_loaded);
            uv_run(&server->loop, UV_RUN_DEFAULT);
            exit_code = server->exit_code;
            if (server->loading.error.status)
                hs_fail(err, server->loading.error.status, "%s", server->loading.error.text);
        }
        server_finish(server);
    }
    free(server);
    return exit_code;
}
