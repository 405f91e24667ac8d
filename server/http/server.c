#include "server/http/server.h"

#include "model/clock.h"
#include "server/base/cores.h"
#include "server/base/log.h"
#include "server/http/connection.h"
#include "server/http/exchange.h"
#include "server/http/listen.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    HEADER_BYTES_MAX = 32768,  /* request line and headers; libmicrohttpd answers 431 above */
    CONNECTIONS_TO_SHED = 64,  /* accepted over the limit, to be told 503 */
    DESCRIPTORS_RESERVED = 64, /* for everything that is not a client */
    TOKEN_FILE_MAX = 65536,
};
#define ANSWER_BYTES_MAX ((size_t)256 << 20)

static void server_stop(hs_server *server);

void hs__server_pump(hs_server *server)
{
    MHD_UNSIGNED_LONG_LONG milliseconds;
    if (!server->daemon)
        return;
    MHD_run(server->daemon);
    if (MHD_get_timeout(server->daemon, &milliseconds) == MHD_YES)
        uv_timer_start(&server->daemon_timer, server->daemon_timer.timer_cb, milliseconds, 0);
    else
        uv_timer_stop(&server->daemon_timer);
    if (server->state >= HS_DRAINING && !server->n_connections && !server->loading_now)
        server_stop(server);
}

static void on_daemon_ready(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    hs__server_pump(poll->data);
}

static void on_daemon_timer(uv_timer_t *timer)
{
    hs__server_pump(timer->data);
}

/* --- the end ---------------------------------------------------------------------------------------------
 */

static void handle_close(void *handle)
{
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

/* No connection is left: closes what keeps the loop alive, so that it returns. */
static void server_stop(hs_server *server)
{
    MHD_stop_daemon(server->daemon);
    server->daemon = NULL;
    handle_close(&server->daemon_poll);
    handle_close(&server->daemon_timer);
    handle_close(&server->on_terminate);
    handle_close(&server->on_interrupt);
}

/* Begins nothing new. Connections without a request are closed, the others after their answer. */
static void server_drain(hs_server *server)
{
    server->state = HS_DRAINING;
    MHD_run(server->daemon); /* takes those already waiting to be accepted */
    const int fd = MHD_quiesce_daemon(server->daemon);
    if (fd >= 0)
        close(fd);
    for (hs_connection *c = server->connections; c; c = c->next) {
        char byte;
        if (!c->exchange && recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN)
            hs__connection_cut(c);
    }
    hs__server_pump(server);
}

static hs_task *task_unended(const hs_server *server)
{
    for (hs_connection *c = server->connections; c; c = c->next)
        if (c->task && c->task->end == HS_TASK_DONE)
            return c->task;
    return NULL;
}

/* Ends everything begun; a third signal finds the system's own handler. */
static void server_abort(hs_server *server)
{
    server->state = HS_STOPPING;
    server->exit_code = 1;
    uv_signal_stop(&server->on_terminate);
    uv_signal_stop(&server->on_interrupt);
    for (hs_connection *c = server->connections; c; c = c->next)
        hs__connection_cut(c);
    for (hs_task *task; (task = task_unended(server));)
        hs__tasks_cancel(task, HS_TASK_ABANDONED);
    hs__server_pump(server);
}

static void on_signal(uv_signal_t *signal, int number)
{
    hs_server *server = signal->data;
    (void)number;
    if (server->state < HS_DRAINING) {
        hs__log("info", "finishing %zu requests, then stopping; a second signal stops at once",
                server->metrics.in_flight);
        server_drain(server);
    } else if (server->state == HS_DRAINING) {
        server_abort(server);
    }
}

/* --- loading: models open on a worker thread while health is answered
 * --------------------------------------- */

/* Sharing a pass saves reading the weights from memory, so it gains next to nothing where they stay in the
 * caches; measured with a model of 9 MB it even cost throughput. docs/decisions.md has the figures. */
static size_t together_best(const hs_catalog *catalog)
{
    const size_t cached_bytes = (size_t)32 << 20;
    for (size_t i = 0; i < catalog->n_models; i++)
        if (hs_model_bytes(catalog->models[i]) > cached_bytes)
            return HS_TOGETHER_MAX;
    return 1;
}

static void load(uv_work_t *work)
{
    hs_server *server = work->data;
    const hs_server_options *o = server->options;
    hs_catalog *catalog = &server->catalog;
    if (hs__catalog_open(&o->catalog, catalog, &server->load_error))
        return;
    const hs_tasks_options options = {
        .n_workers = o->n_workers,
        .n_cores = server->n_cores,
        .queue_max = o->queue_max,
        .batch_max = o->together_max ? o->together_max : together_best(catalog),
    };
    if (hs__tasks_init(&server->loaded, &server->loop, catalog->api, &options, &server->load_error))
        hs__catalog_close(catalog);
}

static void hash(uv_work_t *work)
{
    hs_server *server = work->data;
    hs_api_hash_models(server->catalog.api);
}

static void on_hashed(uv_work_t *work, int status)
{
    (void)work, (void)status;
}

static void on_loaded(uv_work_t *work, int status)
{
    hs_server *server = work->data;
    (void)status;
    server->loading_now = false;
    server->tasks = server->loaded;
    if (server->load_error.status) {
        server->exit_code = 1;
        if (server->state == HS_LOADING)
            server_drain(server);
    } else if (server->state == HS_LOADING) {
        server->state = HS_SERVING;
        hs_error err = {0};
        if (server->corpora &&
            hs__corpora_start(server->corpora, &server->catalog, &server->options->catalog, &err))
            hs__log("error", "corpus runs: %s", err.text);
        server->hashing.data = server;
        uv_queue_work(&server->loop, &server->hashing, hash, on_hashed);
        printf("headscope is ready on %s\n", server->address);
        fflush(stdout);
    }
    hs__server_pump(server);
}

/* --- the beginning
 * ------------------------------------------------------------------------------------------ */

static hs_status tokens_read(const char *path, char **ret_tokens, hs_error *err)
{
    char *tokens = calloc(1, TOKEN_FILE_MAX + 1);
    FILE *file = tokens ? fopen(path, "re") : NULL;
    hs_status st = HS_OK;
    if (!tokens)
        return hs_fail(err, HS_NO_MEMORY, "reading '%s'", path);
    if (!file)
        st = hs_fail(err, HS_IO, "cannot read --token-file '%s': %s", path, strerror(errno));
    else if (fread(tokens, 1, TOKEN_FILE_MAX + 1, file) > TOKEN_FILE_MAX || ferror(file))
        st = hs_fail(err, HS_IO, "--token-file '%s' is no text file of at most %d bytes", path,
                     TOKEN_FILE_MAX);
    else if (!tokens[strspn(tokens, " \t\r\n")])
        st = hs_fail(err, HS_INVALID, "--token-file '%s' holds no token: write one into it", path);
    if (file)
        fclose(file);
    if (st)
        free(tokens);
    else
        *ret_tokens = tokens;
    return st;
}

/* As many descriptors as the connections need; what the system refuses shows as an error here, not later. */
static hs_status descriptors_reserve(const hs_server_options *options, hs_error *err)
{
    struct rlimit limit;
    const rlim_t needed = options->connections_max + CONNECTIONS_TO_SHED + DESCRIPTORS_RESERVED;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= needed)
        return HS_OK;
    limit.rlim_cur = needed;
    if (limit.rlim_max < needed || setrlimit(RLIMIT_NOFILE, &limit))
        return hs_fail(err, HS_IO,
                       "%zu connections need %llu file descriptors: raise the limit (ulimit -n) or "
                       "lower --connections",
                       options->connections_max, (unsigned long long)needed);
    return HS_OK;
}

static struct MHD_Daemon *daemon_start(hs_server *server, int fd)
{
    const struct MHD_OptionItem items[] = {
        {MHD_OPTION_LISTEN_SOCKET, fd, NULL},
        {MHD_OPTION_STRICT_FOR_CLIENT, 1, NULL},
        {MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1, NULL},
        {MHD_OPTION_CONNECTION_LIMIT, (intptr_t)server->options->connections_max + CONNECTIONS_TO_SHED, NULL},
        {MHD_OPTION_CONNECTION_MEMORY_LIMIT, HEADER_BYTES_MAX, NULL},
        {MHD_OPTION_URI_LOG_CALLBACK, (intptr_t)hs__exchange_open, server},
        {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)hs__exchange_completed, server},
        {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)hs__connection_notify, server},
        {MHD_OPTION_END, 0, NULL},
    };
    return MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, hs__exchange_step,
                            server, MHD_OPTION_ARRAY, items, MHD_OPTION_END);
}

static void handles_start(hs_server *server)
{
    uv_poll_init(&server->loop, &server->daemon_poll,
                 MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd);
    uv_timer_init(&server->loop, &server->daemon_timer);
    uv_signal_init(&server->loop, &server->on_terminate);
    uv_signal_init(&server->loop, &server->on_interrupt);
    server->daemon_poll.data = server->daemon_timer.data = server->on_terminate.data =
        server->on_interrupt.data = server->loading.data = server;
    uv_poll_start(&server->daemon_poll, UV_READABLE, on_daemon_ready);
    uv_timer_start(&server->daemon_timer, on_daemon_timer, 0, 0);
    uv_signal_start(&server->on_terminate, on_signal, SIGTERM);
    uv_signal_start(&server->on_interrupt, on_signal, SIGINT);
}

/* One thread for each worker, and one for what else may take long. Read by libuv at its first use. */
static void pool_size_set(size_t n_workers)
{
    char size[24];
    snprintf(size, sizeof size, "%zu", n_workers + 1);
    setenv("UV_THREADPOOL_SIZE", size, 1);
}

static hs_status server_open(hs_server *server, hs_error *err)
{
    const hs_server_options *o = server->options;
    bool public;
    int fd = -1;
    hs_status st = o->token_file ? tokens_read(o->token_file, &server->tokens, err) : HS_OK;
    if (!st)
        st = descriptors_reserve(o, err);
    if (!st && o->state_dir)
        st = hs__corpora_open(o->state_dir, server->n_cores, o->state_bytes_max, &server->corpora, err);
    if (!st)
        st = hs__listen(o->listen, &fd, server->address, sizeof server->address, &public, err);
    if (st)
        return st;
    if (public && !server->tokens)
        hs__log("warning", "anyone who reaches %s may use this server; --token-file restricts it",
                server->address);
    server->daemon = daemon_start(server, fd);
    if (!server->daemon) {
        close(fd);
        return hs_fail(err, HS_IO, "the HTTP library did not start: %s", strerror(errno));
    }
    return HS_OK;
}

int hs__server_run(const hs_server_options *options, hs_error *err)
{
    hs_server *server = calloc(1, sizeof *server);
    int exit_code = 1;
    if (!server) {
        hs_fail(err, HS_NO_MEMORY, "starting");
        return exit_code;
    }
    server->options = options;
    server->n_cores = hs__cores_usable();
    server->started_ns = hs_clock_ns();
    server->held_bytes_max =
        4 *
        (options->catalog.api.answer_bytes_max ? options->catalog.api.answer_bytes_max : ANSWER_BYTES_MAX);
    signal(SIGPIPE, SIG_IGN);
    pool_size_set(options->n_workers);
    hs__log_start(strcmp(options->log, "json") == 0);
    if (uv_loop_init(&server->loop)) {
        hs_fail(err, HS_NO_MEMORY, "starting the event loop");
        free(server);
        return exit_code;
    }
    if (!server_open(server, err)) {
        handles_start(server);
        server->loading_now = true;
        uv_queue_work(&server->loop, &server->loading, load, on_loaded);
        uv_run(&server->loop, UV_RUN_DEFAULT);
        exit_code = server->exit_code;
        if (server->load_error.status)
            hs_fail(err, server->load_error.status, "%s", server->load_error.text);
    }
    uv_loop_close(&server->loop);
    hs__corpora_close(server->corpora);
    hs__tasks_finish(&server->tasks);
    hs__catalog_close(&server->catalog);
    free(server->tokens);
    free(server);
    return exit_code;
}
