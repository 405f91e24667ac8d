#include "server/http/connection.h"

#include "server/http/exchange.h"

#include <netdb.h>
#include <stdlib.h>
#include <sys/socket.h>

void hs__connection_cut(hs_connection *connection)
{
    shutdown(connection->fd, SHUT_RDWR);
}

static void on_deadline(uv_timer_t *timer)
{
    hs_connection *connection = timer->data;
    hs_server *server = connection->server;
    if (connection->task) {
        hs__tasks_cancel(connection->task, HS_TASK_TIMED_OUT);
    } else {
        server->metrics.cut_off++;
        connection->too_slow = true;
        hs__connection_cut(connection);
    }
    hs__server_pump(server);
}

/* The client sent its last byte. libmicrohttpd misses that when it comes together with data (its epoll is
 * edge-triggered and it stops at a short read), and does not look at all while suspended. */
static void on_departure(uv_poll_t *poll, int status, int events)
{
    hs_connection *connection = poll->data;
    char byte;
    (void)status, (void)events; /* an error on the socket is a departure too */
    if (connection->task) {
        uv_poll_stop(poll);
        hs__tasks_cancel(connection->task, HS_TASK_ABANDONED);
        hs__server_pump(connection->server);
        return;
    }
    hs__server_pump(connection->server); /* takes what is still to be read */
    if (!uv_is_closing((uv_handle_t *)poll) && !connection->task && uv_is_active((uv_handle_t *)poll) &&
        recv(connection->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0) {
        uv_poll_stop(poll);
        hs__connection_cut(connection);
    }
}

void hs__connection_expect(hs_connection *connection, uint64_t milliseconds)
{
    uv_timer_start(&connection->deadline, on_deadline, milliseconds, 0);
}

void hs__connection_watch(hs_connection *connection, hs_task *task)
{
    connection->task = task;
    uv_poll_start(&connection->departure, UV_DISCONNECT, on_departure);
}

void hs__connection_unwatch(hs_connection *connection)
{
    connection->task = NULL;
    uv_poll_stop(&connection->departure);
}

static void on_handle_closed(uv_handle_t *handle)
{
    hs_connection *connection = handle->data;
    if (--connection->n_handles == 0)
        free(connection);
}

static void connection_close(hs_connection *connection)
{
    hs_server *server = connection->server;
    *(connection->previous ? &connection->previous->next : &server->connections) = connection->next;
    if (connection->next)
        connection->next->previous = connection->previous;
    server->n_connections--;
    hs__exchange_destroy(connection->exchange);
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

/* NULL when memory is short: the socket is shut down then. */
static hs_connection *connection_open(hs_server *server, struct MHD_Connection *mhd)
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
    connection->next = server->connections;
    if (connection->next)
        connection->next->previous = connection;
    server->connections = connection;
    server->n_connections++;
    server->metrics.connections++;
    hs__connection_expect(connection, server->options->header_ms);
    hs__connection_watch(connection, NULL);
    return connection;
}

void hs__connection_notify(void *cls, struct MHD_Connection *mhd, void **socket_context,
                           enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        *socket_context = connection_open(cls, mhd);
    else if (*socket_context)
        connection_close(*socket_context);
}
