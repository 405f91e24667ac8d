/* connection.h - one socket: its absolute deadlines, and noticing that the client left.
 *
 * libmicrohttpd's own timeout restarts with every byte, and it does not look at a suspended connection, so
 * both are ours. Each phase has one deadline; when it passes the socket is shut down and libmicrohttpd finds
 * it closed (a waiting or running task is told to end instead and answers 504). Loop thread only. */
#pragma once

#include "server/http/server.h"

typedef struct hs_exchange hs_exchange;

struct hs_connection {
    hs_server *server;
    hs_connection *previous, *next; /* server->connections */
    int fd;
    char client[64];
    uv_timer_t deadline;
    uv_poll_t departure;
    bool too_slow;         /* cut for missing a deadline */
    int n_handles;         /* of the two above, not yet closed */
    hs_exchange *exchange; /* the request in progress, or NULL: waiting for one */
    hs_task *task;         /* set while suspended for it */
};

/* Called by libmicrohttpd when a socket opens and closes. */
void hs__connection_notify(void *server, struct MHD_Connection *connection, void **socket_context,
                           enum MHD_ConnectionNotificationCode code);

/* The next thing must happen within this many milliseconds. */
void hs__connection_expect(hs_connection *connection, uint64_t milliseconds);

/* From now on the client's departure ends the connection, or the task that it is suspended for. Not to be
 * watched while an answer is sent: a client may then have nothing more to say. */
void hs__connection_watch(hs_connection *connection, hs_task *task);
void hs__connection_unwatch(hs_connection *connection);

/* Shuts the socket down in both directions; libmicrohttpd does the rest. */
void hs__connection_cut(hs_connection *connection);
