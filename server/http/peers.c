/* peers.c - the clients of one address: their connections and their reserved memory. */
#include "server/http/peers.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* ---- client memory ----
 *
 * Adds first and checks the sum afterwards. In a race hs__client_memory_take may refuse
 * both requests, but it never exceeds the limit. */

bool hs__client_memory_take(hs_client_memory *budget, size_t n_bytes)
{
    const size_t before = atomic_fetch_add(&budget->n_bytes, n_bytes);
    if (before <= budget->max && n_bytes <= budget->max - before &&
        (!budget->all || hs__client_memory_take(budget->all, n_bytes)))
        return true;
    atomic_fetch_sub(&budget->n_bytes, n_bytes);
    return false;
}

void hs__client_memory_replace(hs_client_memory *budget, size_t *n_reserved, size_t n_bytes)
{
    const size_t difference = n_bytes - *n_reserved; /* wraps around if it is negative, and so do the sums */
    for (; budget; budget = budget->all)
        atomic_fetch_add(&budget->n_bytes, difference);
    *n_reserved = n_bytes;
}

/* ---- peer ----
 *
 * A linked list, searched once for each new connection. It has at most as many peers as connections. */

static const uint8_t v4_mapped[12] = {[10] = 0xff, [11] = 0xff};

/* Clients of a socket file are this machine's, as those of [::1]. */
static void address_read(const struct sockaddr *address, uint8_t ret_address[16])
{
    struct sockaddr_in6 v6 = {0};
    struct sockaddr_in v4 = {0};
    if (address->sa_family == AF_INET) {
        memcpy(&v4, address, sizeof v4);
        memcpy(ret_address, v4_mapped, sizeof v4_mapped);
        memcpy(ret_address + sizeof v4_mapped, &v4.sin_addr, 4);
        return;
    }
    if (address->sa_family == AF_UNIX) {
        memcpy(ret_address, &in6addr_loopback, 16);
        return;
    }
    memcpy(&v6, address, sizeof v6);
    memcpy(ret_address, &v6.sin6_addr, 16);
    if (memcmp(ret_address, v4_mapped, sizeof v4_mapped) != 0 && !IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr))
        memset(ret_address + 8, 0, 8);
}

static bool is_local(const uint8_t address[16])
{
    static const uint8_t v6[16] = {[15] = 1};
    return memcmp(address, v6, sizeof v6) == 0 ||
           (memcmp(address, v4_mapped, sizeof v4_mapped) == 0 && address[12] == 127);
}

hs_peer *hs__peer_join(hs_peers *peers, const struct sockaddr *address)
{
    uint8_t key[16];
    address_read(address, key);
    hs_peer *peer = peers->first;
    while (peer && memcmp(peer->address, key, sizeof key) != 0)
        peer = peer->next;
    if (!peer) {
        peer = calloc(1, sizeof *peer);
        if (!peer)
            return NULL;
        memcpy(peer->address, key, sizeof key);
        peer->local = is_local(key);
        peer->budget.all = peers->all;
        peer->budget.max = peers->budget_max;
        peer->next = peers->first;
        if (peer->next)
            peer->next->previous = peer;
        peers->first = peer;
    }
    peer->n_connections++;
    return peer;
}

void hs__peer_leave(hs_peers *peers, hs_peer *peer)
{
    if (--peer->n_connections)
        return;
    *(peer->previous ? &peer->previous->next : &peers->first) = peer->next;
    if (peer->next)
        peer->next->previous = peer->previous;
    free(peer);
}
