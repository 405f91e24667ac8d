/* peer.h - everybody at one address: how many connections they have open, and what is held for them.
 *
 * An address is an IPv4 one, or the 64 bits of an IPv6 one that a site is given. Loop thread, but for `held`.
 */
#pragma once

#include "server/http/held.h"

#include <stdint.h>

struct sockaddr;

typedef struct hs_peer hs_peer;
struct hs_peer {
    hs_peer *previous, *next;
    uint8_t address[16]; /* IPv4 as in ::ffff:a.b.c.d */
    size_t n_connections;
    hs_held held;
};

typedef struct hs_peers {
    hs_peer *first;
    hs_held *all;          /* what all hold together */
    size_t held_bytes_max; /* for each */
} hs_peers;

/* One connection more; the peer stays while it has one. NULL when memory is short. */
hs_peer *hs__peer_join(hs_peers *peers, const struct sockaddr *address);
void hs__peer_join_again(hs_peer *peer); /* what outlives its connection counts as one */
void hs__peer_leave(hs_peers *peers, hs_peer *peer);

bool hs__peer_is_local(const hs_peer *peer); /* this machine */
