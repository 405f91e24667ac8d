/* added_tokens.c - two tries, and a table of first bytes, for nearly every position of a text can be ruled
 * out by one look. */
#include "model/tokenizer/added_tokens.h"

#include <stdlib.h>

/* Appends the normalised token to text and moves the entry there; offsets until the text has stopped growing.
 */
static hs_status normalize_entry(const hs__parts *normalizers, const hs__added_list *list, hs__entry *entry,
                                 hs__aligned_text scratch[2], hs__aligned_text *text, hs_error *err)
{
    const hs__text_view view = {.bytes = (const unsigned char *)entry->text, .n_bytes = entry->n_bytes};
    const size_t start = text->n_bytes;
    if (!hs__parts_normalize(normalizers, &view, scratch, text))
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    if (text->n_bytes == start)
        return hs_fail(err, HS_BAD_MODEL,
                       "%s: nothing is left of the added token '%.64s' when it is normalised", list->file,
                       entry->text);
    entry->n_bytes = (uint32_t)(text->n_bytes - start);
    return HS_OK;
}

static hs_status set_build(hs__entry *entries, size_t n, hs__added_set *ret_set, hs_error *err)
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
    hs__entry *entries = calloc(list->n + 1, sizeof *entries);
    if (!entries)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    hs_status st = HS_OK;
    size_t n = 0;
    for (size_t i = 0; !st && i < list->n; i++)
        if (list->items[i].normalized) {
            entries[n] = list->items[i].entry;
            st = normalize_entry(normalizers, list, &entries[n++], scratch, &text, err);
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
    hs__entry *entries = calloc(list->n + 1, sizeof *entries);
    if (!entries)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    size_t n = 0;
    for (size_t i = 0; i < list->n; i++)
        if (!list->items[i].normalized)
            entries[n++] = list->items[i].entry;
    const hs_status st = set_build(entries, n, ret_set, err);
    free(entries);
    return st;
}

hs_status hs__added_tokens_build(const hs__added_list *list, const hs__parts *normalizers, size_t vocab_size,
                                 hs__added_tokens *ret_added, hs_error *err)
{
    ret_added->special = calloc(vocab_size, sizeof *ret_added->special);
    if (!ret_added->special)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    for (size_t i = 0; i < list->n; i++)
        ret_added->special[list->items[i].entry.id] |= list->items[i].special;
    const hs_status st = raw_build(list, &ret_added->raw, err);
    return st ? st : normalized_build(list, normalizers, &ret_added->normalized, err);
}

void hs__added_tokens_finish(hs__added_tokens *added)
{
    hs__trie_finish(&added->raw.trie);
    hs__trie_finish(&added->normalized.trie);
    free(added->special);
}

/* Whether a token is at `at`. One that is skipped is not, but the oracle's search goes on behind it. */
static bool match(hs__added_search *search, const unsigned char *at, const unsigned char *end)
{
    search->n_bytes = 0;
    search->id =
        hs__trie_longest(&search->set->trie, HS__TRIE_ROOT, at, (size_t)(end - at), &search->n_bytes);
    if (search->id < 0)
        return false;
    search->from = at + search->n_bytes;
    return !(search->skipped && search->skipped[search->id]);
}

const unsigned char *hs__added_search_next(hs__added_search *search, const unsigned char *at,
                                           const unsigned char *stop, const unsigned char *end)
{
    if (search->from && at < search->from)
        at = search->from;
    while (at < stop) {
        if (search->set->starts[*at]) {
            if (match(search, at, end))
                return at;
            if (search->id >= 0) {
                at = search->from;
                continue;
            }
        }
        at++;
    }
    return NULL;
}
