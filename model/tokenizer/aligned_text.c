/* aligned_text.c - texts on their way through the parts: an aligned text, the sources of changed characters,
 * pieces, and running the parts of a stage. */
#include "model/tokenizer/tokenizer_internal.h"

#include <stdlib.h>

/* ---- aligned texts ----
 *
 * Their arrays are reused for the next stretch of the text, so a text costs few allocations. */

void hs__aligned_text_finish(hs__aligned_text *text)
{
    free(text->bytes);
    free(text->sources);
    *text = (hs__aligned_text){0};
}

bool hs__aligned_text_reserve(hs__aligned_text *text, size_t n_more)
{
    if (text->capacity - text->n_bytes >= n_more)
        return true;
    /* n_more may be too high by one character, so hs__aligned_text_fits checks the limit again at the end */
    if (text->bytes_max > 0 && text->n_bytes + n_more > text->bytes_max + 4) {
        text->too_long = true;
        return false;
    }
    const size_t capacity = 2 * text->capacity + n_more + 64;
    unsigned char *bytes = realloc(text->bytes, capacity);
    if (bytes)
        text->bytes = bytes;
    hs__range *sources = realloc(text->sources, capacity * sizeof *sources);
    if (sources)
        text->sources = sources;
    if (!bytes || !sources)
        return false;
    text->capacity = capacity;
    return true;
}

/* ---- the sources of changed characters ----
 *
 * Moves the cursor once over the old text. It stops at the end, whatever the changes are. */

hs__transform hs__transform_start(const hs__text_view *view, hs__aligned_text *ret_text)
{
    return (hs__transform){.view = view, .text = ret_text, .at = view->bytes, .index = view->first};
}

static void pass(hs__transform *t)
{
    if (t->at == t->view->bytes + t->view->n_bytes)
        return;
    t->before = hs__text_view_source(t->view, t->at, t->index++);
    (void)hs_utf8_next(&t->at);
}

/* Appends the last character with the source of the first character that it takes, or of all. */
static void flush_character(hs__transform *t)
{
    if (!t->any)
        return;
    if (t->change <= 0)
        pass(t);
    const size_t first = t->text->n_bytes;
    t->failed |= !hs__aligned_text_put(t->text, t->code_point, t->before);
    for (; t->change < 0; t->change++)
        pass(t);
    for (size_t i = first; t->covers && i < t->text->n_bytes; i++)
        t->text->sources[i].end = t->before.end;
}

void hs__transform_put(hs__transform *t, uint32_t code_point, long change)
{
    flush_character(t);
    t->code_point = code_point;
    t->change = change;
    t->any = true;
}

bool hs__transform_finish(hs__transform *t)
{
    flush_character(t);
    return !t->failed;
}

/* ---- pieces ----
 *
 * The array of pieces grows up to n_kept, so a megabyte of text cut to 128 tokens needs little memory. With
 * keeps_last it is a ring then. */

static bool reserve_piece(hs__pieces *pieces)
{
    if (pieces->n < pieces->capacity)
        return true;
    size_t capacity = pieces->capacity ? 2 * pieces->capacity : 64;
    if (capacity > pieces->n_kept)
        capacity = pieces->n_kept;
    hs__piece *items = realloc(pieces->items, capacity * sizeof *items);
    if (!items)
        return false;
    pieces->items = items;
    pieces->capacity = capacity;
    return true;
}

bool hs__pieces_put(hs__pieces *pieces, int32_t id, hs__range source)
{
    const size_t k = pieces->n;
    if (k < pieces->n_kept && !reserve_piece(pieces))
        return false;
    pieces->n++;
    hs__piece *piece = hs__piece_at(pieces, k);
    if (piece)
        *piece = (hs__piece){id, pieces->word, source};
    return true;
}

/* ---- running the normalizers ---- */

/* Runs one part. Its output is at most n_more_max bytes long. The buffer may have more capacity from an
 * earlier text, so the length is checked at the end too: the same text always has the same result. */
static bool part_normalize(const hs__part *part, const hs__text_view *from, size_t n_more_max,
                           hs__aligned_text *to)
{
    to->bytes_max = to->n_bytes + n_more_max;
    const bool ok = part->type->normalize(part, from, to) && hs__aligned_text_fits(to);
    to->bytes_max = 0;
    return ok;
}

bool hs__parts_normalize(const hs__parts *parts, const hs__text_view *view, hs__aligned_text scratch[2],
                         hs__aligned_text *ret_text)
{
    if (parts->n == 0)
        return hs__aligned_text_reserve(ret_text, view->n_bytes) &&
               hs__text_view_map(view, hs__aligned_text_put, ret_text);
    const size_t n_more_max = hs__aligned_text_limit(view->n_bytes);
    hs__text_view from = *view;
    bool ok = true;
    for (size_t i = 0; ok && i + 1 < parts->n; i++) {
        hs__aligned_text *to = &scratch[i % 2];
        to->n_bytes = 0;
        ok = part_normalize(parts->items[i], &from, n_more_max, to);
        from = (hs__text_view){.bytes = to->bytes, .n_bytes = to->n_bytes, .sources = to->sources};
    }
    return ok && part_normalize(parts->items[parts->n - 1], &from, n_more_max, ret_text);
}
