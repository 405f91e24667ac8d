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

void hs__connection_cut(hs_connection *connection)
{
    shutdown(connection->fd, SHUT_RDWR);
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
    if (connection->task) {
        hs__tasks_cancel(connection->task, HS_TASK_TIMED_OUT);
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
    if (connection->task) {
        uv_poll_stop(poll);
        hs__tasks_cancel(connection->task, HS_TASK_ABANDONED);
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

void hs__connection_watch(hs_connection *connection, hs_task *task)
{
    connection->task = task;
    connection->departing = false;
    uv_poll_start(&connection->departure, UV_DISCONNECT, on_departure);
}

void hs__connection_unwatch(hs_connection *connection)
{
    connection->task = NULL;
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
    uv_close((uv_handle_t *)&connection->deadline, on_handle_closed);
    uv_close((uv_handle_t *)&connection->departure, on_handle_closed);
}

static void client_name(struct MHD_Connection *mhd, hs_connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = info ? info->client_addr : NULL;
    if (!address ||
        getnameinfo(address,
                    address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in),
                    connection->client, sizeof connection->client, NULL, 0, NI_NUMERICHOST))
        connection->client[0] = '\0';
}

static void connection_enter(hs_server *server, hs_connection *connection)
{
    connection->next = server->connections;
    if (connection->next)
        connection->next->previous = connection;
    server->connections = connection;
    server->n_connections++;
    server->metrics.connections++;
}

hs_connection *hs__connection_open(hs_server *server, struct MHD_Connection *mhd)
{
    const int fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    hs_connection *connection = calloc(1, sizeof *connection);
    if (!connection || uv_poll_init(&server->loop, &connection->departure, fd)) {
        free(connection);
        shutdown(fd, SHUT_RDWR);
        return NULL;
    }
    connection->server = server;
    connection->fd = fd;
    uv_timer_init(&server->loop, &connection->deadline);
    connection->n_handles = 2;
    connection->deadline.data = connection->departure.data = connection;
    client_name(mhd, connection);
    connection_enter(server, connection);
    hs__connection_expect(connection, server->options->header_ms);
    hs__connection_watch(connection, NULL);
    return connection;
}
