/* connection.h - one socket: its deadlines, and detection of clients that left or stopped reading.
 *
 * libmicrohttpd's timeout restarts with every byte and ignores suspended connections, so this file has timers
 * of its own. Each phase has one deadline. When it passes, the socket is shut down and libmicrohttpd finds it
 * closed. Work on a worker is cancelled instead and answered with 504. Loop thread only. */
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
    bool has_request;      /* a request line was read */
    bool too_slow;         /* cut for missing a deadline */
    bool departing;        /* the client closed its side */
    int n_unread;          /* bytes that libmicrohttpd had not read then */
    bool sending;          /* an answer is being sent */
    uint64_t sent_by_ms;   /* deadline for the whole answer (uv_now) */
    uint64_t n_taken;      /* bytes acknowledged at the last check */
    uint64_t taken_ms;     /* time of the last progress (uv_now) */
    uint64_t idle_ms;      /* while flushing: time for the next request afterwards; 0: not flushing */
    size_t n_reserved;     /* reserved for an ended exchange's answer in the system's send queue */
    int n_handles;         /* of the two above, open ones */
    hs_exchange *exchange; /* the current request, or NULL */
    /* Set while suspended for a worker or a disk call: cancels that work, at the deadline, and if the
     * connection is watched, when the client leaves. */
    void (*end)(hs_exchange *exchange, hs_work_end why);
};

/* Returns NULL if memory is short or the peer has too many connections; the socket is shut down then. */
hs_connection *hs__connection_open(hs_server *server, struct MHD_Connection *mhd);

/* Closes the handles; the last one frees the connection. It must have no exchange. */
void hs__connection_close(hs_connection *connection);

/* Sets the deadline of the current phase in milliseconds; 0: no deadline. */
void hs__connection_expect(hs_connection *connection, uint64_t milliseconds);

/* Starts the deadline of an answer: the client must take some of it every few seconds, and all of it within
 * these milliseconds. */
void hs__connection_expect_reader(hs_connection *connection, uint64_t milliseconds);

/* Call after libmicrohttpd has written the answer. Goes on checking the reader and keeps the memory reserved
 * until the client has taken the answer. Then the next request has idle_milliseconds to come. */
void hs__connection_flush(hs_connection *connection, uint64_t idle_milliseconds);

/* Watches for the client's departure, which calls `end`, or closes the connection if it is NULL. Not to be
 * used while an answer is sent: a client may close its side after its last request. */
void hs__connection_watch(hs_connection *connection, void (*end)(hs_exchange *exchange, hs_work_end why));

void hs__connection_unwatch(hs_connection *connection);
/* Returns true if the connection has no request, and nothing of one has come. */
bool hs__connection_is_idle(const hs_connection *connection);
/* Cuts connections that had a request and wait for their client's next one. */
void hs__connections_cut_idle(hs_server *server);
/* Shuts the socket down in both directions; libmicrohttpd then closes the connection. */
void hs__connection_cut(hs_connection *connection);
