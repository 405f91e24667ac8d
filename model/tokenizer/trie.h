/* trie.h - a static trie from byte strings to ids, with longest-match search.
 *
 * Nodes are stored in breadth-first order, so the children of a node are adjacent and those of the next node
 * follow. A node needs one offset, one byte and an id: 9 bytes. The trie is built from sorted strings and
 * does not hash, so no vocabulary makes it slow. */
#pragma once

#include "model/base/status.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct hs__trie_node {
    uint32_t first; /* index of the first child; the last child is before the next node's first */
    int32_t id;     /* id of the string that ends here, or -1 */
} hs__trie_node;

typedef struct hs__trie {
    uint32_t n_nodes;     /* 0: empty, nothing matches */
    hs__trie_node *nodes; /* [n_nodes + 1] */
    uint8_t *label;       /* [n_nodes]: the byte that leads to a node, ascending among siblings */
} hs__trie;

/* A vocabulary entry: a string and its id. Not NUL-terminated. */
typedef struct hs__entry {
    const char *text;
    uint32_t n_bytes;
    int32_t id;
} hs__entry;

#define HS__TRIE_ROOT 0
#define HS__TRIE_NONE UINT32_MAX

/* Sorts the entries and builds a trie. Among equal strings the highest id counts. The lengths must sum to
 * less than 2^32 - 1. Fails with HS_NO_MEMORY. The caller finishes *ret_trie, even after an error. */
HS_MUST_USE hs_status hs__trie_build(hs__entry *entries, size_t n_entries, hs__trie *ret_trie, hs_error *err);
void hs__trie_finish(hs__trie *trie); /* zeroed or finished twice is fine */

/* Walks from a node along a string. Returns the last node, or HS__TRIE_NONE. */
uint32_t hs__trie_walk(const hs__trie *trie, uint32_t node, const char *bytes, size_t n_bytes);

/* Returns the id of a string, or -1. */
int32_t hs__trie_find(const hs__trie *trie, const char *bytes, size_t n_bytes);

/* Returns the child of a node for one byte, or HS__TRIE_NONE. */
static inline uint32_t hs__trie_step(const hs__trie *trie, uint32_t node, uint8_t byte)
{
    const uint32_t first = trie->nodes[node].first;
    const uint32_t n = trie->nodes[node + 1].first - first;
    if (n <= 4) { /* most nodes have so few that a call would cost more */
        for (uint32_t i = first; i < first + n; i++)
            if (trie->label[i] == byte)
                return i;
        return HS__TRIE_NONE;
    }
    const uint8_t *hit = memchr(trie->label + first, byte, n);
    return hit ? (uint32_t)(hit - trie->label) : HS__TRIE_NONE;
}

/* Returns the id of the longest non-empty match at bytes, or -1. The search starts at `node`, as if its bytes
 * had been matched already. */
static inline int32_t hs__trie_longest(const hs__trie *trie, uint32_t node, const unsigned char *bytes,
                                       size_t n_bytes, size_t *ret_length)
{
    int32_t id = -1;
    for (size_t i = 0; i < n_bytes; i++) {
        node = hs__trie_step(trie, node, bytes[i]);
        if (node == HS__TRIE_NONE)
            break;
        if (trie->nodes[node].id >= 0) {
            id = trie->nodes[node].id;
            *ret_length = i + 1;
        }
    }
    return id;
}
