/* trie.h - byte strings to ids, with the longest match in one walk.
 *
 * Nodes lie in breadth-first order, so the children of one node are neighbours and those of the next node
 * follow: one offset and one byte a node are the whole structure, 9 bytes with the id. Built from sorted
 * strings and searched without hashing, it has no bad cases, whoever wrote the vocabulary. */
#pragma once

#include "model/status.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct hs__trie_node {
    uint32_t first; /* its children are the nodes from here up to the next node's first */
    int32_t id;     /* of the string that ends here, or -1 */
} hs__trie_node;

typedef struct hs__trie {
    uint32_t n_nodes;     /* 0: empty, nothing matches */
    hs__trie_node *nodes; /* [n_nodes + 1] */
    uint8_t *label;       /* [n_nodes]: the byte that leads to a node, ascending among siblings */
} hs__trie;

/* A string with its id, as a vocabulary lists them; not NUL-terminated. */
typedef struct hs__entry {
    const char *text;
    uint32_t n_bytes;
    int32_t id;
} hs__entry;

#define HS__TRIE_ROOT 0
#define HS__TRIE_NONE UINT32_MAX

/* Sorts the entries; of equal ones the highest id counts. Lengths must sum up to less than 2^32 - 1.
 * *ret_trie must be finished, also after HS_NO_MEMORY. */
HS_MUST_USE hs_status hs__trie_build(hs__entry *entries, size_t n_entries, hs__trie *ret_trie, hs_error *err);
void hs__trie_finish(hs__trie *trie); /* zeroed or finished twice is fine */

/* From a node along a string: the node where it ends, or HS__TRIE_NONE. */
uint32_t hs__trie_walk(const hs__trie *trie, uint32_t node, const char *bytes, size_t n_bytes);

/* The id of a string, or -1. */
int32_t hs__trie_find(const hs__trie *trie, const char *bytes, size_t n_bytes);

/* The child of a node along one byte, or HS__TRIE_NONE. */
static inline uint32_t hs__trie_step(const hs__trie *trie, uint32_t node, uint8_t byte)
{
    const uint32_t first = trie->nodes[node].first;
    const uint32_t n = trie->nodes[node + 1].first - first;
    if (n <= 4) { /* most nodes: a call would cost more */
        for (uint32_t i = first; i < first + n; i++)
            if (trie->label[i] == byte)
                return i;
        return HS__TRIE_NONE;
    }
    const uint8_t *hit = memchr(trie->label + first, byte, n);
    return hit ? (uint32_t)(hit - trie->label) : HS__TRIE_NONE;
}

/* The longest string of the trie, without its first bytes up to `node`, that starts at bytes: its id, -1 when
 * there is none. Empty matches do not count. */
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
