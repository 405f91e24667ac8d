/* added_tokens.c - searches with two tries and a table of first bytes, which rules out nearly every
 * position. */
#include "model/tokenizer/added_tokens.h"
#include "model/tokenizer/unicode.h"

#include <stdlib.h>

/* Appends the normalised token to text. The entry holds an offset until the text has stopped growing. */
static hs_status normalize_entry(const hs__parts *normalizers, const char *file, hs__entry *entry,
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

static uint8_t flags_of(const hs__added_token *token)
{
    return (uint8_t)((token->special ? HS__ADDED_SPECIAL : 0) |
                     (token->single_word ? HS__ADDED_SINGLE_WORD : 0) |
                     (token->lstrip ? HS__ADDED_LSTRIP : 0) | (token->rstrip ? HS__ADDED_RSTRIP : 0));
}

hs_status hs__added_tokens_build(const hs__added_list *list, const hs__parts *normalizers, size_t vocab_size,
                                 hs__added_tokens *ret_added, hs_error *err)
{
    ret_added->flags = calloc(vocab_size, sizeof *ret_added->flags);
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

void hs__added_tokens_finish(hs__added_tokens *added)
{
    hs__trie_finish(&added->raw.trie);
    hs__trie_finish(&added->normalized.trie);
    free(added->flags);
}

/* ---- search ---- */

static const unsigned char *character_before(const unsigned char *at)
{
    do
        at--;
    while (hs_utf8_continues(*at));
    return at;
}

static bool is_space(const unsigned char *at)
{
    return hs__unicode_class(hs_utf8_next(&at)) & HS__SPACE;
}

static bool is_word(const unsigned char *at)
{
    return hs__unicode_kind(hs_utf8_next(&at)) & HS__WORD;
}

static bool is_single_word(const hs__added_search *search, const unsigned char *end)
{
    return !(search->start > search->begin && is_word(character_before(search->start))) &&
           !(search->end < end && is_word(search->end));
}

static void strip(hs__added_search *search, uint8_t flags, const unsigned char *at, const unsigned char *end)
{
    if (flags & HS__ADDED_LSTRIP)
        while (search->start > at && is_space(character_before(search->start)))
            search->start = character_before(search->start);
    if (flags & HS__ADDED_RSTRIP)
        while (search->end < end && is_space(search->end)) {
            const unsigned char *next = search->end;
            hs_utf8_next(&next);
            search->end = next;
        }
}

/* Returns true if a token is at search->from, and moves past it. A skipped token and a failed single word
 * return false, but the oracle's search continues after them. */
static bool match(hs__added_search *search, const unsigned char *at, const unsigned char *end)
{
    size_t n_bytes = 1;
    search->id = hs__trie_longest(&search->set->trie, HS__TRIE_ROOT, search->from,
                                  (size_t)(end - search->from), &n_bytes);
    search->start = search->from;
    search->from += n_bytes;
    search->end = search->from;
    if (search->id < 0)
        return false;
    const uint8_t flags = search->flags[search->id];
    if ((flags & search->skipped) || ((flags & HS__ADDED_SINGLE_WORD) && !is_single_word(search, end)))
        return false;
    strip(search, flags, at, end);
    return true;
}

bool hs__added_search_next(hs__added_search *search, const unsigned char *at, const unsigned char *stop,
                           const unsigned char *end)
{
    while (search->from < stop) {
        if (!search->set->starts[*search->from])
            search->from++;
        else if (match(search, at, end))
            return true;
    }
    return false;
}
