/* trie.c - builds a breadth-first trie from sorted strings. After sorting, a node is a range of strings that
 * share a prefix, and its children are that range split by the next byte. */
#include "model/tokenizer/trie.h"

#include <stdlib.h>

static int compare_entries(const void *left, const void *right)
{
    const hs__entry *a = left;
    const hs__entry *b = right;
    const int order = memcmp(a->text, b->text, a->n_bytes < b->n_bytes ? a->n_bytes : b->n_bytes);
    if (order)
        return order;
    if (a->n_bytes != b->n_bytes)
        return a->n_bytes < b->n_bytes ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

/* Counts the nodes: the root, and for each string one per byte that it does not share with the string
 * before. */
static size_t count_nodes(const hs__entry *entries, size_t n_entries)
{
    size_t n = 1;
    for (size_t i = 0; i < n_entries; i++) {
        size_t shared = 0;
        if (i)
            while (shared < entries[i].n_bytes && shared < entries[i - 1].n_bytes &&
                   entries[i].text[shared] == entries[i - 1].text[shared])
                shared++;
        n += entries[i].n_bytes - shared;
    }
    return n;
}

/* The ranges while building: node i stands for the sorted entries low[i] .. high[i]. */
typedef struct ranges {
    uint32_t *low, *high;
} ranges;

/* Appends the children of a node whose strings share `depth` bytes. Returns the new number of nodes. */
static uint32_t expand(hs__trie *trie, const ranges *r, const hs__entry *entries, uint32_t node, size_t depth,
                       uint32_t n_nodes)
{
    uint32_t i = r->low[node];
    const uint32_t end = r->high[node];
    trie->nodes[node].id = -1;
    for (; i < end && entries[i].n_bytes == depth; i++)
        trie->nodes[node].id = entries[i].id;
    trie->nodes[node].first = n_nodes;
    while (i < end) {
        const uint8_t byte = (uint8_t)entries[i].text[depth];
        r->low[n_nodes] = i;
        while (i < end && (uint8_t)entries[i].text[depth] == byte)
            i++;
        r->high[n_nodes] = i;
        trie->label[n_nodes++] = byte;
    }
    return n_nodes;
}

hs_status hs__trie_build(hs__entry *entries, size_t n_entries, hs__trie *ret_trie, hs_error *err)
{
    if (n_entries)
        qsort(entries, n_entries, sizeof *entries, compare_entries);
    const size_t n_nodes = count_nodes(entries, n_entries);
    ranges r = {malloc(n_nodes * sizeof *r.low), malloc(n_nodes * sizeof *r.high)};
    *ret_trie = (hs__trie){
        .nodes = malloc((n_nodes + 1) * sizeof *ret_trie->nodes),
        .label = malloc(n_nodes),
    };
    hs_status st = HS_OK;
    if (!r.low || !r.high || !ret_trie->nodes || !ret_trie->label) {
        st = hs_fail(err, HS_NO_MEMORY, "out of memory");
        goto out;
    }
    r.low[HS__TRIE_ROOT] = 0;
    r.high[HS__TRIE_ROOT] = (uint32_t)n_entries;
    ret_trie->label[HS__TRIE_ROOT] = 0;
    uint32_t n = 1;
    uint32_t level_end = 1;
    size_t depth = 0;
    for (uint32_t node = 0; node < n_nodes; node++) {
        if (node == level_end) {
            level_end = n;
            depth++;
        }
        n = expand(ret_trie, &r, entries, node, depth, n);
    }
    ret_trie->nodes[n_nodes] = (hs__trie_node){n, -1};
    ret_trie->n_nodes = n;
out:
    free(r.low);
    free(r.high);
    return st;
}

void hs__trie_finish(hs__trie *trie)
{
    free(trie->nodes);
    free(trie->label);
    *trie = (hs__trie){0};
}

uint32_t hs__trie_walk(const hs__trie *trie, uint32_t node, const char *bytes, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes && node != HS__TRIE_NONE; i++)
        node = hs__trie_step(trie, node, (uint8_t)bytes[i]);
    return node;
}

int32_t hs__trie_find(const hs__trie *trie, const char *bytes, size_t n_bytes)
{
    if (!trie->n_nodes)
        return -1;
    const uint32_t node = hs__trie_walk(trie, HS__TRIE_ROOT, bytes, n_bytes);
    return node == HS__TRIE_NONE ? -1 : trie->nodes[node].id;
}
