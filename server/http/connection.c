/* connection.c - one socket: its deadlines, its reader and its departure. */
#include "server/http/connection.h"

#include "server/http/loop.h"
#include "server/http/socket_info.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/* ---- socket ---- */

enum { UNSENT_BYTES = 128 << 10 };

/* Returns the bytes written but not acknowledged. */
static size_t socket_queued(int fd)
{
    int n = 0;
    return ioctl(fd, SIOCOUTQ, &n) == 0 && n > 0 ? (size_t)n : 0;
}

/* Returns the bytes received but not read. */
static int socket_unread(int fd)
{
    int n = 0;
    return ioctl(fd, FIONREAD, &n) == 0 ? n : 0;
}

/* Bounds how many bytes the system accepts before it can send them. The rest stays in the server, where it is
 * counted and freed with the connection. Throughput is not affected. */
static void socket_limit_unsent(int fd)
{
    const int n = UNSENT_BYTES;
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &n,
               sizeof n); /* without this option the system queues more */
}

/* Makes close() drop unacknowledged bytes. By default the system keeps them for minutes. */
static void socket_drop_unsent(int fd)
{
    const struct linger drop = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &drop, sizeof drop);
}

/* ---- connection ----
 *
 * A timer and a poll handle for each socket of libmicrohttpd. */

/* A client that takes no byte of an answer for STALL_MS is cut off at most LOOK_MS later. */
#define STALL_MS 8000
#define LOOK_MS  2000
#define FLUSH_MS 100 /* between two checks of an answer in the system's send queue */

/* libmicrohttpd learns of the shutdown from epoll. Version 0.9.75 neither polls nor reads a connection that
 * was suspended with a full buffer, so the library's own timeout of one second ends it. */
void hs__connection_cut(hs_connection *connection)
{
    shutdown(connection->fd, SHUT_RDWR);
    (void)MHD_set_connection_option(connection->mhd, MHD_CONNECTION_OPTION_TIMEOUT, 1U);
    hs__loop_wake(connection->server);
}

bool hs__connection_is_idle(const hs_connection *connection)
{
    char byte;
    return !connection->exchange && recv(connection->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
           errno == EAGAIN;
}

void hs__connections_cut_idle(hs_server *server)
{
    for (hs_connection *c = server->connections; c; c = c->next)
        if (c->has_request && !c->sending && hs__connection_is_idle(c))
            hs__connection_cut(c);
}

/* ---- deadlines ---- */

/* Returns true if bytes are queued and the client took none for STALL_MS. A socket file's connections do not
 * tell what was taken: they have the deadline of the whole answer alone. */
static bool stalled(hs_connection *connection, uint64_t now)
{
    if (connection->server->listener.path)
        return false;
    const uint64_t n_taken = hs__socket_bytes(connection->fd).taken;
    if (n_taken != connection->n_taken || !socket_queued(connection->fd)) {
        connection->n_taken = n_taken;
        connection->taken_ms = now;
    }
    return now - connection->taken_ms >= STALL_MS;
}

/* Replaces the reservation for answers of ended exchanges by n_bytes. */
static void reserve_queued(hs_connection *connection, size_t n_bytes)
{
    hs__client_memory_replace(&connection->peer->budget, &connection->n_reserved, n_bytes);
}

static void on_deadline(uv_timer_t *timer);

/* Schedules the next check of the reader. */
static void look_again(hs_connection *connection, uint64_t now)
{
    const uint64_t left = connection->sent_by_ms > now ? connection->sent_by_ms - now : 0;
    const uint64_t look = connection->idle_ms ? FLUSH_MS : LOOK_MS;
    uv_timer_start(&connection->deadline, on_deadline, left < look ? left : look, 0);
}

/* Returns true if the client has taken all of the last answer. The next request's deadline starts then. */
static bool flushed(hs_connection *connection)
{
    if (!connection->idle_ms)
        return false;
    reserve_queued(connection, socket_queued(connection->fd));
    if (connection->n_reserved)
        return false;
    hs__connection_expect(connection, connection->idle_ms);
    return true;
}

static void on_deadline(uv_timer_t *timer)
{
    hs_connection *connection = timer->data;
    const uint64_t now = uv_now(timer->loop);
    if (connection->end) {
        connection->end(connection->exchange, HS_WORK_TIMED_OUT);
    } else if (connection->sending && flushed(connection)) {
        return;
    } else if (connection->sending && now < connection->sent_by_ms && !stalled(connection, now)) {
        look_again(connection, now);
    } else {
        connection->server->metrics.cut_off++;
        connection->too_slow = true;
        socket_drop_unsent(connection->fd);
        hs__connection_cut(connection);
    }
}

void hs__connection_expect(hs_connection *connection, uint64_t milliseconds)
{
    connection->sending = false;
    connection->idle_ms = 0;
    if (connection->n_reserved)
        reserve_queued(connection, socket_queued(connection->fd));
    if (milliseconds)
        uv_timer_start(&connection->deadline, on_deadline, milliseconds, 0);
    else
        uv_timer_stop(&connection->deadline);
}

void hs__connection_expect_reader(hs_connection *connection, uint64_t milliseconds)
{
    const uint64_t now = uv_now(&connection->server->loop);
    connection->sending = true;
    connection->idle_ms = 0;
    connection->n_taken = hs__socket_bytes(connection->fd).taken;
    connection->taken_ms = now;
    connection->sent_by_ms = now + milliseconds;
    look_again(connection, now);
}

void hs__connection_flush(hs_connection *connection, uint64_t idle_milliseconds)
{
    reserve_queued(connection, socket_queued(connection->fd));
    if (!connection->sending || !connection->n_reserved) {
        hs__connection_expect(connection, idle_milliseconds);
        return;
    }
    connection->idle_ms = idle_milliseconds;
    look_again(connection, uv_now(&connection->server->loop));
}

/* ---- departure ---- */

/* The client closed its side. libmicrohttpd misses this if it comes together with data, because its epoll is
 * edge-triggered and it stops at a short read. It is woken as long as it reads; when it stops, the connection
 * is cut. */
static void on_departure(uv_poll_t *poll, int status, int events)
{
    hs_connection *connection = poll->data;
    (void)status, (void)events; /* an error on the socket counts too */
    if (connection->end) {
        uv_poll_stop(poll);
        connection->end(connection->exchange, HS_WORK_ABANDONED);
        return;
    }
    const int n_unread = socket_unread(connection->fd);
    if (connection->departing && n_unread >= connection->n_unread) {
        uv_poll_stop(poll);
        hs__connection_cut(connection);
        return;
    }
    connection->departing = true;
    connection->n_unread = n_unread;
    hs__loop_wake(connection->server);
}

void hs__connection_watch(hs_connection *connection, void (*end)(hs_exchange *exchange, hs_work_end why))
{
    connection->end = end;
    connection->departing = false;
    uv_poll_start(&connection->departure, UV_DISCONNECT, on_departure);
}

void hs__connection_unwatch(hs_connection *connection)
{
    connection->end = NULL;
    uv_poll_stop(&connection->departure);
}

/* ---- lifetime ---- */

static void on_handle_closed(uv_handle_t *handle)
{
    hs_connection *connection = handle->data;
    if (--connection->n_handles == 0)
        free(connection);
}

void hs__connection_close(hs_connection *connection)
{
    hs_server *server = connection->server;
    *(connection->previous ? &connection->previous->next : &server->connections) = connection->next;
    if (connection->next)
        connection->next->previous = connection->previous;
    server->n_connections--;
    reserve_queued(connection, 0);
    hs__peer_leave(&server->peers, connection->peer);
    uv_close((uv_handle_t *)&connection->deadline, on_handle_closed);
    uv_close((uv_handle_t *)&connection->departure, on_handle_closed);
}

static const struct sockaddr *client_address(struct MHD_Connection *mhd)
{
    return MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr;
}

static void client_name(const struct sockaddr *address, hs_connection *connection)
{
    const bool v6 = address->sa_family == AF_INET6;
    if (address->sa_family == AF_UNIX)
        snprintf(connection->client, sizeof connection->client, "unix");
    else if (getnameinfo(address, v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in),
                         connection->client, sizeof connection->client, NULL, 0, NI_NUMERICHOST))
        connection->client[0] = '\0';
}

/* Returns true if the peer exceeds its limit. This machine is limited only by an option, because a proxy here
 * acts for many clients. */
static bool peer_has_too_many(const hs_server *server, const hs_peer *peer)
{
    const size_t given = server->options->address_connections_max,
                 half = server->options->connections_max / 2;
    return peer->n_connections > (given ? given : peer->local ? SIZE_MAX : half + 1);
}

/* Refuses a connection before anything is read. Otherwise one address could take all connections without
 * sending a byte. */
static void refuse(int fd)
{
    static const char answer[] = "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\n"
                                 "Content-Type: application/problem+json\r\nContent-Length: 116\r\n\r\n"
                                 "{\"type\":\"about:blank\",\"title\":\"Service Unavailable\",\"status\":503,"
                                 "\"detail\":\"Too many connections from this address.\"}";
    (void)!send(fd, answer, sizeof answer - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    shutdown(fd, SHUT_RDWR);
}

static void connection_enter(hs_server *server, hs_connection *connection)
{
    connection->next = server->connections;
    if (connection->next)
        connection->next->previous = connection;
    server->connections = connection;
    server->n_connections++;
    server->metrics.connections++;
    hs__connection_expect(connection, server->options->header_ms);
    hs__connection_watch(connection, NULL);
}

/* Joins the peer and opens the poll handle. An unstarted poll handle needs no close. */
static bool connection_make(hs_server *server, hs_connection *connection, const struct sockaddr *address)
{
    connection->peer = hs__peer_join(&server->peers, address);
    if (!connection->peer)
        return false;
    const bool too_many = peer_has_too_many(server, connection->peer);
    if (!too_many && !uv_poll_init(&server->loop, &connection->departure, connection->fd))
        return true;
    if (too_many) {
        server->metrics.crowded++;
        refuse(connection->fd);
    }
    hs__peer_leave(&server->peers, connection->peer);
    return false;
}

hs_connection *hs__connection_open(hs_server *server, struct MHD_Connection *mhd)
{
    const int fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    hs_connection *connection = calloc(1, sizeof *connection);
    if (connection)
        connection->fd = fd;
    if (!connection || !connection_make(server, connection, client_address(mhd))) {
        free(connection);
        shutdown(fd, SHUT_RDWR);
        return NULL;
    }
    connection->server = server;
    connection->mhd = mhd;
    socket_limit_unsent(fd);
    uv_timer_init(&server->loop, &connection->deadline);
    connection->n_handles = 2;
    connection->deadline.data = connection->departure.data = connection;
    client_name(client_address(mhd), connection);
    connection_enter(server, connection);
    return connection;
}
