/* server.c - the server: its address, its models, its life from start to stop. */
#include "server/http/server.h"

#include "model/base/clock.h"
#include "model/base/read_number.h"
#include "model/base/status.h"
#include "server/base/log.h"
#include "server/base/machine.h"
#include "server/base/second_signal.h"
#include "server/base/system_errors.h"
#include "server/base/version.h"
#include "server/http/connection.h"
#include "server/http/daemon.h"
#include "server/http/leniency.h"
#include "server/http/loop.h"
#include "server/http/routes.h"
#include "server/http/service.h"
#include "server/http/tokens.h"
#include "server/hub/hub_pull.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- loading ----
 *
 * Opens the models on a thread while the loop answers probes.
 *
 * The thread fills server->loading; the loop then takes it over in one step. */

static bool is_stopped(void *data)
{
    hs_loading *loading = data;
    return atomic_load(&loading->stopped);
}

/* Fetches what is given by a name of the hub and not in the cache. */
static hs_status pull_if_missing(const hs_model_place *place, const hs__pull_watch *watch, hs_error *err)
{
    char dir[PATH_MAX];
    hs_hub_name name;
    if (!place->n_dir || !hs_hub_name_parse(place->dir, place->n_dir, &name) ||
        !hs__model_place_dir(place, dir, NULL))
        return HS_OK;
    hs__log("info", "fetching %s from the hub", name.repository);
    return hs__hub_pull(&name, watch, dir, err);
}

/* Fetches the models of the command line, and those whose tokenizers they have. */
static hs_status pull_missing(hs_loading *loading, const hs_catalog_options *options, hs_error *err)
{
    const hs__pull_watch silent = {.stop = is_stopped, .data = loading};
    hs_status st = HS_OK;
    for (size_t i = 0; i < hs__catalog_places(options) && !st; i++) {
        const hs_model_place *place = hs__catalog_place(options, i);
        st = pull_if_missing(place, &silent, err);
        if (!st && place->tokenizer) {
            const hs_model_place words = {.dir = place->tokenizer, .n_dir = strlen(place->tokenizer)};
            st = pull_if_missing(&words, &silent, err);
        }
    }
    return st;
}

static void load(uv_work_t *work)
{
    hs_server *server = work->data;
    hs_loading *loading = &server->loading;
    const hs_server_options *o = server->options;
    if (o->pull && pull_missing(loading, &o->catalog, &loading->error))
        return;
    if (hs__catalog_open(&o->catalog, &loading->api, &loading->error))
        return;
    const hs_tasks_options options = {
        .n_workers = o->n_workers,
        .n_cores = server->n_cores,
        .queue_max = o->queue_max,
        .client_running_max = o->address_running_max,
        .batch_max = o->batch_max ? o->batch_max : HS_BATCH_MAX,
    };
    if (hs__tasks_init(&loading->tasks, &server->loop, loading->api, &options, &loading->error)) {
        hs_api_destroy(loading->api);
        loading->api = NULL;
    }
}

/* Sets the memory for the bodies and answers of all clients. One client may have half of it. */
static void client_memory_set(hs_server *server, size_t n_bytes)
{
    server->budget.max = n_bytes;
    server->peers.budget_max = n_bytes / 2;
    for (hs_peer *peer = server->peers.first; peer; peer = peer->next)
        peer->budget.max = server->peers.budget_max;
}

static void hash(uv_work_t *work)
{
    hs_server *server = work->data;
    hs_api_hash_models(server->api);
}

static void on_hashed(uv_work_t *work, int status)
{
    (void)work, (void)status;
}

static void on_loaded(uv_work_t *work, int status)
{
    hs_server *server = work->data;
    hs_loading *loading = &server->loading;
    (void)status;
    loading->running = false;
    if (loading->error.status == HS_CANCELLED)
        loading->error = (hs_error){0}; /* the server stops in order */
    server->tasks = loading->tasks;
    server->api = loading->api;
    client_memory_set(server, server->options->client_memory_max);
    loading->loaded(server);
    if (server->state == HS_SERVER_SERVING)
        uv_queue_work(&server->loop, &loading->work, hash, on_hashed);
}

/* Opens server->api and server->tasks, or sets server->loading.error, and then calls `loaded` on the
 * loop. After success the same thread computes the checksums of the models' files. */
static void loading_start(hs_server *server, void (*loaded)(hs_server *server))
{
    hs_loading *loading = &server->loading;
    loading->running = true;
    loading->loaded = loaded;
    loading->work.data = server;
    uv_queue_work(&server->loop, &loading->work, load, on_loaded);
}

/* ---- rounds ----
 *
 * libmicrohttpd alone could answer "ok" while other events of the loop starve. So an empty work item goes to
 * the pool and back every second, and /health and /ready check when the last one came back. The pool has a
 * thread for it, so busy workers and a slow disk do not delay it.
 *
 * On that thread, the round also returns blocks to the system that no request has used for a minute. If a
 * limit of memory is reached, the head cache is emptied and all unused blocks are returned. */

enum { ROUND_MS = 1000 };

#define BLOCK_UNUSED_NS UINT64_C(60000000000)

static void round_on_thread(uv_work_t *work)
{
    const hs_server *server = work->data;
    const uint64_t now = hs_clock_ns(), unused = server->probe.trims_all ? 0 : BLOCK_UNUSED_NS;
    if (now > unused)
        hs_runtime_trim(server->options->catalog.runtime, now - unused);
}

static void round_on_loop(uv_work_t *work, int status)
{
    hs_server *server = work->data;
    (void)status;
    server->probe.running = false;
    server->probe.round_ns = hs_clock_ns();
}

/* Starts the thread of corpus runs if it waits for that. Without memory or a thread, the next round tries
 * again. */
static void runs_start(hs_server *server, hs_error *err)
{
    if (server->runs_wait)
        server->runs_wait =
            hs__runs_start(server->runs, server->api, &server->options->catalog, err) != HS_OK;
}

static void round_on_timer(uv_timer_t *timer)
{
    hs_server *server = timer->data;
    runs_start(server, NULL);
    const int why = hs__spares_check(&server->spares);
    server->starved = why != 0;
    if (why)
        hs__connections_cut_idle(server);
    if (why == ENOMEM && server->api)
        hs_api_cache_empty(server->api);
    if (server->probe.running)
        return;
    server->probe.running = true;
    server->probe.trims_all = why == ENOMEM;
    server->probe.work.data = server;
    uv_queue_work(&server->loop, &server->probe.work, round_on_thread, round_on_loop);
}

static void round_start(hs_server *server)
{
    uv_timer_init(&server->loop, &server->probe.timer);
    server->probe.timer.data = server;
    server->probe.round_ns = hs_clock_ns();
    uv_timer_start(&server->probe.timer, round_on_timer, 0, ROUND_MS);
}

static void round_stop(hs_server *server)
{
    uv_close((uv_handle_t *)&server->probe.timer, NULL);
    hs__spares_release(&server->spares);
}

/* ---- server ----
 *
 * Starts, drains and stops the service.
 *
 * It listens at once and answers probes while a thread loads the models. The first signal finishes all
 * requests, the second one cuts them. No connection and no call on a thread is left at the end. */

enum {
    CONNECTIONS_TO_SHED = 64,           /* accepted over the limit and answered with 503 */
    DESCRIPTORS_RESERVED = 64,          /* for runs, models and the database */
    THREADS_MORE = HS_DISK_THREADS + 2, /* one loads, hashes and fetches models, one serves probes */
};

/* ---- the end ---- */

static void signals_stop(hs_server *server)
{
    uv_close((uv_handle_t *)&server->on_terminate, NULL);
    uv_close((uv_handle_t *)&server->on_interrupt, NULL);
    uv_close((uv_handle_t *)&server->on_cpu_limit, NULL);
}

/* Closes the handles that keep the loop alive, once no connection is left. The loop returns after the last
 * call on a thread. */
static void server_stop(hs_server *server)
{
    hs__loop_stop(server);
    round_stop(server);
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
    if (MHD_quiesce_daemon(server->daemon) >= 0)
        hs__listen_end(&server->listener);
    for (hs_connection *c = server->connections; c; c = c->next)
        if (hs__connection_is_idle(c))
            hs__connection_cut(c);
    hs__loop_turn_again(server);
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
    hs__loop_turn_again(server);
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

/* The limit of CPU time (ulimit -t) is reached. The system sends this signal each second until the hard
 * limit, so it stops the server in order, and is never a second signal. */
static void on_cpu_limit(uv_signal_t *signal, int number)
{
    hs_server *server = signal->data;
    (void)number;
    if (server->state >= HS_SERVER_DRAINING)
        return;
    hs__log("warning", "the limit of CPU time is reached (ulimit -t); finishing requests, then stopping");
    server->drain_ns = hs_clock_ns();
    server_drain(server);
}

/* ---- the beginning ---- */

/* Logs version, address, models and limits. */
static void start_log(const hs_server *server)
{
    const hs_server_options *o = server->options;
    char models[1024] = "", kernels[96];
    hs_kernels_describe(kernels, sizeof kernels);
    for (size_t i = 0, used = 0; i < hs__catalog_places(&o->catalog) && used < sizeof models; i++) {
        const hs_model_place *place = hs__catalog_place(&o->catalog, i);
        used += (size_t)snprintf(models + used, sizeof models - used, "%s%s", i ? "," : "", place->name);
    }
    const hs_log_field fields[] = {{"version", HS_VERSION, 0},
                                   {"address", server->listener.url, 0},
                                   {"models", models, 0},
                                   {"token", server->tokens ? "required" : "none", 0},
                                   {"state", o->state_dir ? o->state_dir : "none", 0},
                                   {"kernels", kernels, 0},
                                   {"cores", NULL, (double)server->n_cores},
                                   {"workers", NULL, (double)o->n_workers},
                                   {"queue", NULL, (double)o->queue_max},
                                   {"connections", NULL, (double)o->connections_max},
                                   {"max_body", NULL, (double)o->body_bytes_max},
                                   {"max_answer", NULL, (double)o->catalog.api.answer_bytes_max},
                                   {"max_maps", NULL, (double)o->catalog.api.capture_bytes_max},
                                   {"max_held", NULL, (double)o->client_memory_max},
                                   {"cache", NULL, (double)o->catalog.api.cache_bytes_max},
                                   {"deadline_s", NULL, (double)o->deadline_ms / 1e3}};
    hs__log_fields("ready", fields, sizeof fields / sizeof *fields);
}

/* Prints the address of the page that shows the opened file, whose name is percent-encoded. */
static void opened_print(const hs_server *server)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    const char *root = server->options->root_path;
    char name[3 * NAME_MAX + 1] = "";
    size_t used = 0;
    for (const char *c = server->options->opened_name; *c && used + 4 <= sizeof name; c++)
        used += (size_t)snprintf(name + used, sizeof name - used, strchr(plain, *c) ? "%c" : "%%%02X",
                                 (unsigned char)*c);
    dprintf(STDOUT_FILENO, "Open %s%s/#model=file%%3A%s\n", server->listener.url, root ? root : "", name);
}

/* Starts to serve the loaded models, or ends with their error. */
static void on_models_loaded(hs_server *server)
{
    hs_error err = {0};
    if (server->loading.error.status)
        server->exit_code = 1;
    if (server->loading.error.status && server->state == HS_SERVER_LOADING)
        server_drain(server);
    if (server->state != HS_SERVER_LOADING)
        return;
    server->state = HS_SERVER_SERVING;
    server->runs_wait = server->runs != NULL;
    runs_start(server, &err);
    if (server->runs_wait)
        hs__log("error", "corpus runs wait: %s", err.text);
    start_log(server);
    const char *root = server->options->root_path;
    dprintf(STDOUT_FILENO, "headscope is ready on %s%s\n", server->listener.url,
            root ? root : ""); /* serves without a reader, too */
    if (server->options->opened_name)
        opened_print(server);
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

static void handles_start(hs_server *server)
{
    hs__loop_start(server);
    round_start(server);
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
    uv_signal_init(&server->loop, &server->on_cpu_limit);
    server->on_terminate.data = server->on_interrupt.data = server->on_cpu_limit.data = server;
    uv_signal_start(&server->on_cpu_limit, on_cpu_limit, SIGXCPU);
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
    hs_listener *listener = &server->listener;
    const hs_status st = hs__listen(server->options->listen, listener, err);
    if (st)
        return st;
    if (!server->tokens && !listener->path)
        hs__log("warning", "no --token-file: %s can use this server, and read its runs",
                listener->is_local ? "every user of this machine" : "everybody who reaches its port");
    if (!server->tokens && !listener->is_local)
        hs__log("warning", "anyone who can reach %s can use this server; restrict it with --token-file",
                listener->url);
    server->daemon =
        hs__daemon_start(server, listener->fd, server->options->connections_max + CONNECTIONS_TO_SHED);
    if (server->daemon)
        return HS_OK;
    hs__listen_end(listener);
    return hs_fail(err, HS_IO, "libmicrohttpd %s did not start: %s (this program was built with %x.%x.%x)",
                   MHD_get_version(), hs__errno_text(errno), MHD_VERSION >> 24, MHD_VERSION >> 16 & 0xff,
                   MHD_VERSION >> 8 & 0xff);
}

static hs_status server_open(hs_server *server, hs_error *err)
{
    const hs_server_options *o = server->options;
    hs_status st = hs__leniency_check(err);
    if (!st && o->token_file)
        st = hs__tokens_read(o->token_file, &server->tokens, err);
    if (!st)
        st = descriptors_reserve(o, err);
    if (o->state_dir)
        umask(umask(0) | (S_IRWXG | S_IRWXO)); /* what users send is for this user only */
    if (!st && o->state_dir)
        st = hs__runs_open(o->state_dir, server->n_cores, o->state_bytes_max, &server->runs, err);
    if (st)
        return st;
    signals_start(server);
    st = daemon_open(server, err);
    if (st) {
        signals_stop(server);
        uv_run(&server->loop, UV_RUN_DEFAULT);
    }
    return st;
}

/* struct sched_attr of sched_setattr(2), for which older C libraries have no name. */
typedef struct scheduling {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
} scheduling;

/* Asks for a short time slice for this thread, the event loop's. The system then runs the loop before workers
 * that have used as much of the CPU, and does not let them finish their slices first. Threads and programs
 * that start later have the default. Linux before 6.12 ignores the slice. */
static void slice_shorten(void)
{
    enum { RESET_ON_FORK = 1, SLICE_NS = 100000 /* the shortest that there is */ };
    scheduling s = {.size = sizeof s};
    if (syscall(SYS_sched_getattr, 0, &s, sizeof s, 0) || s.policy != SCHED_OTHER || s.nice < 0)
        return; /* someone chose a priority that threads started later would lose */
    s.flags = RESET_ON_FORK;
    s.runtime = SLICE_NS;
    (void)syscall(SYS_sched_setattr, 0, &s, 0);
}

static hs_status server_init(hs_server *server, const hs_server_options *options, hs_error *err)
{
    server->options = options;
    server->routes = &hs__routes;
    server->n_cores = hs__cores_usable();
    server->started_ns = hs_clock_ns();
    server->peers = (hs_peers){.all = &server->budget};
    client_memory_set(server, options->client_memory_max);
    hs__disk_init(&server->disk, &server->loop);
    pthread_mutex_init(&server->fetch.lock, NULL);
    signal(SIGPIPE, SIG_IGN);
    pool_size_set(options->n_workers);
    slice_shorten();
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
    uv_loop_close(&server->loop);
    hs__tasks_finish(&server->tasks);
    pthread_mutex_destroy(&server->fetch.lock);
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
            loading_start(server, on_models_loaded);
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
