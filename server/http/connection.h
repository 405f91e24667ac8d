/* connection.h - one socket: its absolute deadlines, and noticing that the client left or stopped reading.
 *
 * libmicrohttpd's own timeout restarts with every byte, and it does not look at a suspended connection, so
 * both are ours. Each phase has one deadline; when it passes the socket is shut down and libmicrohttpd finds
 * it closed (work that is waited for is told to end instead, and answered 504). Loop thread only. */
#pragma once

#include "server/http/service.h"

struct hs_connection {
    hs_server *server;
    hs_connection *previous, *next; /* server->connections */
    struct MHD_Connection *mhd;
    int fd;
    char client[64];
    hs_peer *peer;
    uv_timer_t deadline;
    uv_poll_t departure;
    bool too_slow;         /* cut for missing a deadline */
    bool departing;        /* the client sent its last byte: */
    int n_unread;          /* of these, libmicrohttpd has not read so many yet */
    bool sending;          /* an answer: */
    uint64_t sent_by_ms;   /* all of it must be taken by then (uv_now) */
    uint64_t n_taken;      /* bytes that the client's system had confirmed when we last looked */
    int n_handles;         /* of the two above, not yet closed */
    hs_exchange *exchange; /* the request in progress, or NULL: waiting for one */
    /* Set while suspended for what workers do: ends that. */
    void (*end)(hs_exchange *exchange, hs_task_end why);
};

/* NULL when memory is short: the socket is shut down then. */
hs_connection *hs__connection_open(hs_server *server, struct MHD_Connection *mhd);
/* Frees it a little later. There is no exchange any more. */
void hs__connection_close(hs_connection *connection);

/* The next thing must happen within this many milliseconds; 0: it may take as long as it takes. */
void hs__connection_expect(hs_connection *connection, uint64_t milliseconds);
/* An answer is being sent: some of it must be taken every few seconds, all of it within these milliseconds.
 */
void hs__connection_expect_reader(hs_connection *connection, uint64_t milliseconds);

/* From now on the client's departure ends the connection, or the work that it is suspended for: `end`, or
 * NULL. Not to be watched while an answer is sent: a client may then have nothing more to say. */
void hs__connection_watch(hs_connection *connection, void (*end)(hs_exchange *exchange, hs_task_end why));
void hs__connection_unwatch(hs_connection *connection);

/* Shuts the socket down in both directions; libmicrohttpd does the rest. */
void hs__connection_cut(hs_connection *connection);
