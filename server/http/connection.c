/* connection.c - a timer and a poll beside each of libmicrohttpd's sockets say when it has to end. */
#include "server/http/connection.h"

#include "server/http/loop.h"
#include "server/http/socket_info.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

/* Twice this without a byte taken, at most, ends the sending of an answer. */
#define STALL_MS 8000

/* libmicrohttpd hears of the socket's end from epoll. One that was suspended and has a full buffer is neither
 * watched there nor read (0.9.75), so the library's own timeout, of a second, ends what is left then. */
void hs__connection_cut(hs_connection *connection)
{
    shutdown(connection->fd, SHUT_RDWR);
    (void)MHD_set_connection_option(connection->mhd, MHD_CONNECTION_OPTION_TIMEOUT, 1U);
    hs__loop_wake(connection->server);
}

/* ---- deadlines ---- */

/* Nothing was taken since the last look although something waits to be. */
static bool stalled(hs_connection *connection)
{
    const uint64_t before = connection->n_taken;
    connection->n_taken = hs__socket_taken(connection->fd);
    return connection->n_taken == before && hs__socket_waiting(connection->fd);
}

static void on_deadline(uv_timer_t *timer)
{
    hs_connection *connection = timer->data;
    const uint64_t now = uv_now(timer->loop);
    if (connection->end) {
        connection->end(connection->exchange, HS_TASK_TIMED_OUT);
    } else if (connection->sending && now < connection->sent_by_ms && !stalled(connection)) {
        hs__connection_expect_reader(connection, connection->sent_by_ms - now);
    } else {
        connection->server->metrics.cut_off++;
        connection->too_slow = true;
        hs__connection_cut(connection);
    }
}

void hs__connection_expect(hs_connection *connection, uint64_t milliseconds)
{
    connection->sending = false;
    if (milliseconds)
        uv_timer_start(&connection->deadline, on_deadline, milliseconds, 0);
    else
        uv_timer_stop(&connection->deadline);
}

void hs__connection_expect_reader(hs_connection *connection, uint64_t milliseconds)
{
    hs__connection_expect(connection, milliseconds < STALL_MS ? milliseconds : STALL_MS);
    connection->n_taken = hs__socket_taken(connection->fd);
    connection->sent_by_ms = uv_now(&connection->server->loop) + milliseconds;
    connection->sending = true;
}

/* ---- departure ---- */

/* The client sent its last byte. libmicrohttpd misses that when it comes together with data (its epoll is
 * edge-triggered and it stops at a short read), and does not look at all while suspended. It gets a turn for
 * as long as it reads; when it does not, nothing more will come of the connection. */
static void on_departure(uv_poll_t *poll, int status, int events)
{
    hs_connection *connection = poll->data;
    (void)status, (void)events; /* an error on the socket is a departure too */
    if (connection->end) {
        uv_poll_stop(poll);
        connection->end(connection->exchange, HS_TASK_ABANDONED);
        return;
    }
    const int n_unread = hs__socket_unread(connection->fd);
    if (connection->departing && n_unread >= connection->n_unread) {
        uv_poll_stop(poll);
        hs__connection_cut(connection);
        return;
    }
    connection->departing = true;
    connection->n_unread = n_unread;
    hs__loop_wake(connection->server);
}

void hs__connection_watch(hs_connection *connection, void (*end)(hs_exchange *exchange, hs_task_end why))
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
    if (getnameinfo(address, v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in),
                    connection->client, sizeof connection->client, NULL, 0, NI_NUMERICHOST))
        connection->client[0] = '\0';
}

/* A proxy beside us speaks for many, so this machine is limited only where an option says so. */
static bool peer_has_too_many(const hs_server *server, const hs_peer *peer)
{
    const size_t given = server->options->address_connections_max,
                 half = server->options->connections_max / 2;
    return peer->n_connections > (given ? given : hs__peer_is_local(peer) ? SIZE_MAX : half + 1);
}

/* Said before anything is read, or a single address could fill all places with connections that say nothing.
 */
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

/* Its peer and its poll, which needs no ending while it was not started. */
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
    uv_timer_init(&server->loop, &connection->deadline);
    connection->n_handles = 2;
    connection->deadline.data = connection->departure.data = connection;
    client_name(client_address(mhd), connection);
    connection_enter(server, connection);
    return connection;
}
