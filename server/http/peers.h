/* peers.h - the clients of one address: their connections, their work and their reserved memory.
 *
 * An address is an IPv4 address or the /64 network of an IPv6 address. A socket file counts as [::1]. Loop
 * thread only, except the memory. */
#pragma once

#include "server/http/work_queue.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sockaddr;

typedef struct hs_client_memory hs_client_memory;

struct hs_client_memory {
    hs_client_memory *all; /* the total, which includes these bytes; NULL: this is the total */
    size_t max;
    atomic_size_t n_bytes;
};

/* Reserves n_bytes. Returns false, without effect, if the limit would be exceeded. */
bool hs__client_memory_take(hs_client_memory *budget, size_t n_bytes);

/* Replaces a reservation of *n_reserved bytes by n_bytes, even over the limit: for memory that exists
 * already. 0 bytes end it. */
void hs__client_memory_replace(hs_client_memory *budget, size_t *n_reserved, size_t n_bytes);

typedef struct hs_peer hs_peer;

struct hs_peer {
    hs_peer *previous, *next;
    uint8_t address[16]; /* IPv4 as in ::ffff:a.b.c.d */
    bool local;          /* 127.x.x.x or ::1 */
    size_t n_connections;
    hs_work_client tasks, disk_calls;
    hs_client_memory budget;
};

typedef struct hs_peers {
    hs_peer *first;
    hs_client_memory *all; /* the total of all peers */
    size_t budget_max;     /* for each */
} hs_peers;

/* Adds a connection of this address; the peer lives until its last one leaves. Returns NULL if memory is
 * short. */
hs_peer *hs__peer_join(hs_peers *peers, const struct sockaddr *address);

/* Keeps the peer for an object that outlives its connection, and leaves it too. */
static inline void hs__peer_join_again(hs_peer *peer)
{
    peer->n_connections++;
}

void hs__peer_leave(hs_peers *peers, hs_peer *peer);
