/* vocabulary.c - maps ids to texts by an array of offsets and texts to ids by tries. Files may list both
 * freely, so contradictions are refused here. */
#include "model/tokenizer/tokenizer_internal.h"

#include "model/tokenizer/unicode.h"

#include <stdlib.h>

/* ---- tries ----
 *
 * Builds a breadth-first trie from sorted strings. After sorting, a node is a range of strings that
 * share a prefix, and its children are that range split by the next byte. */

static int compare_entries(const void *left, const void *right)
{
    const hs__token_entry *a = left;
    const hs__token_entry *b = right;
    const int order = memcmp(a->text, b->text, a->n_bytes < b->n_bytes ? a->n_bytes : b->n_bytes);
    if (order)
        return order;
    if (a->n_bytes != b->n_bytes)
        return a->n_bytes < b->n_bytes ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

/* Counts the nodes: the root, and for each string one per byte that it does not share with the string
 * before. */
static size_t count_nodes(const hs__token_entry *entries, size_t n_entries)
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
static uint32_t expand(hs__trie *trie, const ranges *r, const hs__token_entry *entries, uint32_t node,
                       size_t depth, uint32_t n_nodes)
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

hs_status hs__trie_build(hs__token_entry *entries, size_t n_entries, hs__trie *ret_trie, hs_error *err)
{
    if (n_entries)
        qsort(entries, n_entries, sizeof *entries, compare_entries);
    const size_t n_nodes = count_nodes(entries, n_entries);
    ranges r = {calloc(n_nodes, sizeof *r.low), calloc(n_nodes, sizeof *r.high)};
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
    const uint32_t node = hs__trie_walk(trie, HS__TRIE_ROOT, bytes, n_bytes);
    return node == HS__TRIE_NONE ? -1 : trie->nodes[node].id;
}

/* ---- added tokens ----
 *
 * The structures that find them in a text. */

/* Appends the normalised token to text. The entry holds an offset until the text has stopped growing. */
static hs_status normalize_entry(const hs__parts *normalizers, const char *file, hs__token_entry *entry,
                                 hs__aligned_text scratch[2], hs__aligned_text *text, hs_error *err)
{
    const hs__text_view view = {.bytes = (const unsigned char *)entry->text, .n_bytes = entry->n_bytes};
    const size_t start = text->n_bytes;
    if (!hs__parts_normalize(normalizers, &view, scratch, text))
        return text->too_long || scratch[0].too_long || scratch[1].too_long
                   ? hs_fail(err, HS_BAD_MODEL, "%s: normalising makes the added token '%.64s' too long",
                             file, entry->text)
                   : hs_fail(err, HS_NO_MEMORY, "out of memory");
    if (text->n_bytes == start)
        return hs_fail(err, HS_BAD_MODEL, "%s: normalising leaves nothing of the added token '%.64s'", file,
                       entry->text);
    entry->n_bytes = (uint32_t)(text->n_bytes - start);
    return HS_OK;
}

static hs_status set_build(hs__token_entry *entries, size_t n, hs__added_set *ret_set, hs_error *err)
{
    for (size_t i = 0; i < n; i++)
        ret_set->starts[(unsigned char)entries[i].text[0]] = true;
    ret_set->any = n > 0;
    return hs__trie_build(entries, n, &ret_set->trie, err);
}

static hs_status normalized_build(const hs__added_list *list, const hs__parts *normalizers,
                                  hs__added_set *ret_set, hs_error *err)
{
    hs__aligned_text text = {0};
    hs__aligned_text scratch[2] = {{0}, {0}};
    hs__token_entry *entries = calloc(list->n + 1, sizeof *entries);
    if (!entries)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    hs_status st = HS_OK;
    size_t n = 0;
    for (size_t i = 0; !st && i < list->n; i++)
        if (list->items[i].normalized) {
            entries[n] = list->items[i].entry;
            st = normalize_entry(normalizers, list->items[i].file, &entries[n++], scratch, &text, err);
        }
    const char *at = (const char *)text.bytes;
    for (size_t i = 0; !st && i < n; at += entries[i++].n_bytes)
        entries[i].text = at;
    if (!st)
        st = set_build(entries, n, ret_set, err);
    free(entries);
    hs__aligned_text_finish(&text);
    hs__aligned_text_finish(&scratch[0]);
    hs__aligned_text_finish(&scratch[1]);
    return st;
}

static hs_status raw_build(const hs__added_list *list, hs__added_set *ret_set, hs_error *err)
{
    hs__token_entry *entries = calloc(list->n + 1, sizeof *entries);
    if (!entries)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    size_t n = 0;
    for (size_t i = 0; i < list->n; i++)
        if (!list->items[i].normalized && !list->items[i].unsearched)
            entries[n++] = list->items[i].entry;
    const hs_status st = set_build(entries, n, ret_set, err);
    free(entries);
    return st;
}

static uint8_t flags_of(const hs__added_token *token)
{
    return (uint8_t)((token->special ? HS__ADDED_SPECIAL : 0) |
                     (token->single_word ? HS__ADDED_SINGLE_WORD : 0) |
                     (token->lstrip ? HS__ADDED_LSTRIP : 0) | (token->rstrip ? HS__ADDED_RSTRIP : 0));
}

static hs_status added_tokens_build(const hs__added_list *list, const hs__parts *normalizers, size_t size,
                                    hs__added_tokens *ret_added, hs_error *err)
{
    ret_added->flags = calloc(size, sizeof *ret_added->flags);
    if (!ret_added->flags)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < list->n; i++) {
        const uint8_t flags = flags_of(&list->items[i]);
        ret_added->flags[list->items[i].entry.id] |= flags;
        ret_added->looks_around |= (flags & ~HS__ADDED_SPECIAL) != 0;
    }
    const hs_status st = raw_build(list, &ret_added->raw, err);
    return st ? st : normalized_build(list, normalizers, &ret_added->normalized, err);
}

static void added_tokens_finish(hs__added_tokens *added)
{
    hs__trie_finish(&added->raw.trie);
    hs__trie_finish(&added->normalized.trie);
    free(added->flags);
}

/* ---- building the vocabulary ---- */

/* Returns the first id after those of all entries and added tokens. */
static int32_t first_free(const hs__entries *entries, const hs__added_list *added)
{
    int32_t id = 0;
    for (size_t i = 0; i < entries->n; i++)
        id = entries->items[i].id >= id ? entries->items[i].id + 1 : id;
    for (size_t i = 0; i < added->n; i++)
        id = added->items[i].entry.id >= id ? added->items[i].entry.id + 1 : id;
    return id;
}

/* Gives every added token its id and drops those without one. Refuses an id that contradicts the
 * vocabulary. */
static hs_status added_resolve(const hs__vocabulary *vocabulary, const hs__entries *entries,
                               hs__added_list *added, hs_error *err)
{
    int32_t next = first_free(entries, added);
    size_t n = 0;
    for (size_t i = 0; i < added->n; i++) {
        hs__added_token token = added->items[i];
        const int32_t id = hs__trie_find(&vocabulary->entries, token.entry.text, token.entry.n_bytes);
        if (token.entry.id < 0)
            token.entry.id = id;
        if (token.entry.id < 0 && !token.must_be_there && (size_t)next < vocabulary->size)
            token.entry.id = next++;
        if (id >= 0 && id != token.entry.id)
            return hs_fail(err, HS_BAD_MODEL,
                           "%s: the added token '%.64s' has id %d, but the vocabulary has it with id %d",
                           token.file, token.entry.text, token.entry.id, id);
        if (token.entry.id >= 0)
            added->items[n++] = token;
    }
    added->n = n;
    return HS_OK;
}

/* Stores a NUL-terminated copy of the token's text. A vocabulary may list a text twice, but an id has only
 * one text. */
static hs_status text_store(hs__vocabulary *vocabulary, const hs__token_entry *entry, const char *file,
                            size_t *used, hs_error *err)
{
    if (vocabulary->text_at[entry->id] != UINT32_MAX) {
        const char *stored = vocabulary->texts + vocabulary->text_at[entry->id];
        if (strlen(stored) == entry->n_bytes && memcmp(stored, entry->text, entry->n_bytes) == 0)
            return HS_OK;
        return hs_fail(err, HS_BAD_MODEL, "%s: the tokens '%.64s' and '%.*s' have the same id, %d", file,
                       stored, entry->n_bytes < 64 ? (int)entry->n_bytes : 64, entry->text, entry->id);
    }
    vocabulary->text_at[entry->id] = (uint32_t)*used;
    memcpy(vocabulary->texts + *used, entry->text, entry->n_bytes);
    vocabulary->texts[*used + entry->n_bytes] = '\0';
    *used += (size_t)entry->n_bytes + 1;
    return HS_OK;
}

static hs_status texts_store(hs__vocabulary *vocabulary, const hs__entries *entries,
                             const hs__added_list *added, hs_error *err)
{
    size_t n_bytes = 1;
    for (size_t i = 0; i < entries->n; i++)
        n_bytes += (size_t)entries->items[i].n_bytes + 1;
    for (size_t i = 0; i < added->n; i++)
        n_bytes += (size_t)added->items[i].entry.n_bytes + 1;
    vocabulary->texts = malloc(n_bytes);
    vocabulary->text_at = malloc(vocabulary->size * sizeof *vocabulary->text_at);
    if (!vocabulary->texts || !vocabulary->text_at)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    memset(vocabulary->text_at, 0xFF, vocabulary->size * sizeof *vocabulary->text_at);
    size_t used = 0;
    hs_status st = HS_OK;
    for (size_t i = 0; !st && i < entries->n; i++)
        st = text_store(vocabulary, &entries->items[i], vocabulary->file, &used, err);
    for (size_t i = 0; !st && i < added->n; i++)
        st = text_store(vocabulary, &added->items[i].entry, added->items[i].file, &used, err);
    return st;
}

static hs_status names_build(hs__vocabulary *vocabulary, const hs__added_list *added, hs_error *err)
{
    hs__token_entry *names = calloc(added->n + 1, sizeof *names);
    if (!names)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < added->n; i++)
        names[i] = added->items[i].entry;
    const hs_status st = hs__trie_build(names, added->n, &vocabulary->added_names, err);
    free(names);
    return st;
}

hs_status hs__vocabulary_build(hs__entries *entries, hs__added_list *added, const hs__parts *normalizers,
                               size_t size, const char *file, hs__vocabulary *ret_vocabulary, hs_error *err)
{
    *ret_vocabulary = (hs__vocabulary){.size = size, .file = file};
    hs_status st = hs__trie_build(entries->items, entries->n, &ret_vocabulary->entries, err);
    if (!st)
        st = added_resolve(ret_vocabulary, entries, added, err);
    if (!st)
        st = texts_store(ret_vocabulary, entries, added, err);
    if (!st)
        st = names_build(ret_vocabulary, added, err);
    return st ? st : added_tokens_build(added, normalizers, size, &ret_vocabulary->added, err);
}

void hs__vocabulary_finish(hs__vocabulary *vocabulary)
{
    hs__trie_finish(&vocabulary->entries);
    hs__trie_finish(&vocabulary->added_names);
    added_tokens_finish(&vocabulary->added);
    free(vocabulary->texts);
    free(vocabulary->text_at);
}

/* ---- look up ---- */

int32_t hs__vocabulary_id(const hs__vocabulary *vocabulary, const char *text, size_t n_bytes)
{
    const int32_t id = hs__trie_find(&vocabulary->added_names, text, n_bytes);
    return id >= 0 ? id : hs__trie_find(&vocabulary->entries, text, n_bytes);
}

hs_status hs__vocabulary_need(const hs__vocabulary *vocabulary, const char *text, int32_t *ret_id,
                              hs_error *err)
{
    *ret_id = hs__vocabulary_id(vocabulary, text, strlen(text));
    if (*ret_id < 0)
        return hs_fail(err, HS_BAD_MODEL, "%s: the vocabulary has no token '%.64s'", vocabulary->file, text);
    return HS_OK;
}

/* ---- reading ---- */

hs_status hs__token_check(const char *text, size_t n_bytes, const char *where, hs_error *err)
{
    if (n_bytes > HS__TOKEN_BYTES_MAX)
        return hs_fail(err, HS_BAD_MODEL, "%s: a token of %zu bytes, more than %d", where, n_bytes,
                       HS__TOKEN_BYTES_MAX);
    if (memchr(text, '\0', n_bytes))
        return hs_fail(err, HS_BAD_MODEL, "%s: a token contains NUL", where);
    if (hs_utf8_valid(text, n_bytes) < n_bytes)
        return hs_fail(err, HS_BAD_MODEL, "%s: a token is not valid UTF-8", where);
    return HS_OK;
}

hs_status hs__token_id_read(const json_t *json, const char *where, const char *text, size_t size,
                            int32_t *ret_id, hs_error *err)
{
    const json_int_t id = json_is_integer(json) ? json_integer_value(json) : -1;
    if (id < 0 || (json_int_t)size <= id)
        return hs_fail(err, HS_BAD_MODEL, "%s: the id of '%.64s' must be below config.json's vocab_size, %zu",
                       where, text ? text : "", size);
    *ret_id = (int32_t)id;
    return HS_OK;
}

hs_status hs__entries_read(const json_t *options, size_t vocab_size, hs__entries *ret_entries, hs_error *err)
{
    json_t *vocab = json_object_get(options, "vocab");
    if (!json_is_object(vocab))
        return hs_fail(err, HS_BAD_MODEL, "tokenizer.json: model.vocab must be an object");
    return hs__ids_read(vocab, "tokenizer.json: model.vocab", vocab_size, ret_entries, err);
}

hs_status hs__ids_read(json_t *vocab, const char *where, size_t vocab_size, hs__entries *ret_entries,
                       hs_error *err)
{
    ret_entries->items = calloc(json_object_size(vocab) + 1, sizeof *ret_entries->items);
    bool *taken = calloc(vocab_size, sizeof *taken);
    hs_status st = HS_OK;
    if (!ret_entries->items || !taken) {
        st = hs_fail(err, HS_NO_MEMORY, "out of memory");
        goto out;
    }
    const char *key;
    json_t *value;
    json_object_foreach(vocab, key, value)
    {
        int32_t id = 0;
        st = hs__token_id_read(value, where, key, vocab_size, &id, err);
        if (!st)
            st = hs__token_check(key, strlen(key), where, err);
        if (!st && taken[id])
            st = hs_fail(err, HS_BAD_MODEL, "%s has id %d twice", where, id);
        if (st)
            goto out;
        taken[id] = true;
        ret_entries->items[ret_entries->n++] = (hs__token_entry){key, (uint32_t)strlen(key), id};
    }
out:
    free(taken);
    return st;
}

hs_status hs__scored_read(const json_t *vocab, size_t vocab_size, hs__entries *ret_entries, hs_error *err)
{
    const size_t n = json_array_size(vocab);
    if (n > vocab_size)
        return hs_fail(err, HS_BAD_MODEL,
                       "tokenizer.json: model.vocab has %zu pieces, more than config.json's vocab_size, %zu",
                       n, vocab_size);
    ret_entries->items = calloc(n + 1, sizeof *ret_entries->items);
    if (!ret_entries->items)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    hs_status st = HS_OK;
    for (size_t i = 0; !st && i < n; i++) {
        const json_t *piece = json_array_get(json_array_get(vocab, i), 0);
        const char *text = json_string_value(piece);
        st = hs__token_check(text, json_string_length(piece), "tokenizer.json", err);
        ret_entries->items[ret_entries->n++] =
            (hs__token_entry){text, (uint32_t)json_string_length(piece), (int32_t)i};
    }
    return st;
}

hs_status hs__scored_build(const json_t *vocab, hs__trie *ret_trie, hs_error *err)
{
    hs__entries entries = {0};
    hs_status st = hs__scored_read(vocab, SIZE_MAX, &entries, err);
    if (!st)
        st = hs__trie_build(entries.items, entries.n, ret_trie, err);
    free(entries.items);
    return st;
}
