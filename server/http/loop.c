/* loop.c - the event loop runs libmicrohttpd from an idle handle, once in each turn.
 *
 * A timer of 0 ms would not do: libuv 1.44 never leaves its timer loop if a callback there restarts one. */
#include "server/http/loop.h"

#include "model/base/clock.h"

enum { LAG_MS = 100 };

static void on_turn(uv_idle_t *turn)
{
    hs_server *server = turn->data;
    MHD_UNSIGNED_LONG_LONG unused;
    server->turn_again = false;
    MHD_run(server->daemon);
    /* The daemon has no timeouts, so it asks for a turn at once or for none. */
    if (!server->turn_again && MHD_get_timeout(server->daemon, &unused) != MHD_YES)
        uv_idle_stop(turn);
}

void hs__loop_wake(hs_server *server)
{
    if (server->daemon)
        uv_idle_start(&server->daemon_turn, on_turn);
}

void hs__loop_turn_again(hs_server *server)
{
    server->turn_again = true;
    hs__loop_wake(server);
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    hs_server *server = poll->data;
    (void)status, (void)events;
    /* Without a descriptor for its first connection, libmicrohttpd would try in each turn. on_lag_timer lets
     * it. */
    if (server->starved && server->n_connections == 0)
        uv_poll_stop(poll);
    hs__loop_wake(server);
}

static void on_lag_timer(uv_timer_t *timer)
{
    hs_server *server = timer->data;
    const uint64_t now = hs_clock_ns();
    if (server->lag_due_ns)
        hs__histogram_add(&server->metrics.lag,
                          now > server->lag_due_ns ? (double)(now - server->lag_due_ns) / 1e9 : 0);
    server->lag_due_ns = now + LAG_MS * UINT64_C(1000000);
    if (!uv_is_active((uv_handle_t *)&server->daemon_poll))
        uv_poll_start(&server->daemon_poll, UV_READABLE, on_ready);
    uv_update_time(timer->loop);
    uv_timer_start(timer, on_lag_timer, LAG_MS, 0);
}

void hs__loop_start(hs_server *server)
{
    uv_poll_init(&server->loop, &server->daemon_poll,
                 MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd);
    uv_idle_init(&server->loop, &server->daemon_turn);
    uv_timer_init(&server->loop, &server->lag_timer);
    server->daemon_poll.data = server->daemon_turn.data = server->lag_timer.data = server;
    on_lag_timer(&server->lag_timer);
    hs__loop_wake(server);
}

void hs__loop_stop(hs_server *server)
{
    uv_close((uv_handle_t *)&server->daemon_poll, NULL);
    uv_close((uv_handle_t *)&server->daemon_turn, NULL);
    uv_close((uv_handle_t *)&server->lag_timer, NULL);
}
