/* vocabulary.c - maps ids to texts by an array of offsets and texts to ids by tries. Files may list both
 * freely, so contradictions are refused here. */
#include "model/tokenizer/vocabulary.h"

#include "model/base/utf8.h"

#include <stdlib.h>

/* ---- build ---- */

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
static hs_status text_store(hs__vocabulary *vocabulary, const hs__entry *entry, const char *file,
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

static hs_status added_build(hs__vocabulary *vocabulary, const hs__added_list *added, hs_error *err)
{
    hs__entry *names = calloc(added->n + 1, sizeof *names);
    if (!names)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < added->n; i++)
        names[i] = added->items[i].entry;
    const hs_status st = hs__trie_build(names, added->n, &vocabulary->added, err);
    free(names);
    return st;
}

hs_status hs__vocabulary_build(hs__entries *entries, hs__added_list *added, size_t size, const char *file,
                               hs__vocabulary *ret_vocabulary, hs_error *err)
{
    *ret_vocabulary = (hs__vocabulary){.size = size, .file = file};
    hs_status st = hs__trie_build(entries->items, entries->n, &ret_vocabulary->entries, err);
    if (!st)
        st = added_resolve(ret_vocabulary, entries, added, err);
    if (!st)
        st = texts_store(ret_vocabulary, entries, added, err);
    return st ? st : added_build(ret_vocabulary, added, err);
}

void hs__vocabulary_finish(hs__vocabulary *vocabulary)
{
    hs__trie_finish(&vocabulary->entries);
    hs__trie_finish(&vocabulary->added);
    free(vocabulary->texts);
    free(vocabulary->text_at);
}

/* ---- look up ---- */

int32_t hs__vocabulary_id(const hs__vocabulary *vocabulary, const char *text, size_t n_bytes)
{
    const int32_t id = hs__trie_find(&vocabulary->added, text, n_bytes);
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

hs_status hs__token_id_read(const json_t *json, const char *key, const char *text, size_t size,
                            int32_t *ret_id, hs_error *err)
{
    const json_int_t id = json_is_integer(json) ? json_integer_value(json) : -1;
    if (id < 0 || (json_int_t)size <= id)
        return hs_fail(err, HS_BAD_MODEL,
                       "tokenizer.json: %s: the id of '%.64s' must be below config.json's vocab_size, %zu",
                       key, text ? text : "", size);
    *ret_id = (int32_t)id;
    return HS_OK;
}

hs_status hs__entries_read(json_t *vocab, size_t size, hs__entries *ret_entries, hs_error *err)
{
    if (!json_is_object(vocab))
        return hs_fail(err, HS_BAD_MODEL, "tokenizer.json: model.vocab must be an object");
    ret_entries->items = calloc(json_object_size(vocab) + 1, sizeof *ret_entries->items);
    bool *taken = calloc(size, sizeof *taken);
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
        st = hs__token_id_read(value, "model.vocab", key, size, &id, err);
        if (!st)
            st = hs__token_check(key, strlen(key), "tokenizer.json", err);
        if (!st && taken[id])
            st = hs_fail(err, HS_BAD_MODEL, "tokenizer.json: model.vocab has id %d twice", id);
        if (st)
            goto out;
        taken[id] = true;
        ret_entries->items[ret_entries->n++] = (hs__entry){key, (uint32_t)strlen(key), id};
    }
out:
    free(taken);
    return st;
}
