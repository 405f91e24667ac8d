/* spans.c - the words of a text: a list of where they are, and the cutter, which makes them of stretches. */
#include "model/tokenizer/tokenizer_internal.h"

#include <stdlib.h>

static bool spans_grow(hs__spans *spans)
{
    const size_t capacity = 2 * spans->capacity + 64;
    hs__span *items = realloc(spans->items, capacity * sizeof *items);
    if (!items)
        return false;
    spans->items = items;
    spans->capacity = capacity;
    return true;
}

bool hs__spans_put(hs__spans *spans, size_t start, size_t end)
{
    if (start == end)
        return true;
    if (spans->n == spans->capacity && !spans_grow(spans))
        return false;
    spans->items[spans->n++] = (hs__span){start, end};
    return true;
}

/* ---- cutting a word ----
 *
 * The cutter holds the last word back until it is known whether the next stretch belongs to it. */

hs_status hs__cut_behavior_read(const json_t *options, const char *part, hs__cut_behavior *behavior,
                                hs_error *err)
{
    static const char *const names[HS__CUT_BEHAVIORS] = {[HS__CUT_REMOVED] = "Removed",
                                                         [HS__CUT_ISOLATED] = "Isolated",
                                                         [HS__CUT_WITH_PREVIOUS] = "MergedWithPrevious",
                                                         [HS__CUT_WITH_NEXT] = "MergedWithNext",
                                                         [HS__CUT_CONTIGUOUS] = "Contiguous"};
    const char *name = NULL;
    const hs_status st = hs__option_text(options, "tokenizer.json", "behavior", &name, err);
    if (st || (!name && *behavior < HS__CUT_BEHAVIORS))
        return st;
    for (size_t i = 0; name && i < HS__CUT_BEHAVIORS; i++)
        if (strcmp(name, names[i]) == 0) {
            *behavior = (hs__cut_behavior)i;
            return HS_OK;
        }
    return hs_fail(err, HS_BAD_MODEL,
                   "tokenizer.json: %s has the behavior '%.64s'; supported: Removed, Isolated, "
                   "MergedWithPrevious, MergedWithNext, Contiguous",
                   part, name ? name : "none");
}

hs__cutter hs__cutter_start(hs__cut_behavior behavior, bool invert, hs__spans *words)
{
    return (hs__cutter){.behavior = behavior, .invert = invert, .words = words};
}

static void flush_word(hs__cutter *c)
{
    if (c->any)
        c->failed |= !hs__spans_put(c->words, c->last.start, c->last.end);
    c->any = false;
}

/* Returns true if a stretch belongs to the word before it. */
static bool is_merged(const hs__cutter *c, bool matches)
{
    switch (c->behavior) {
    case HS__CUT_WITH_PREVIOUS:
        return matches && !c->last_matches;
    case HS__CUT_WITH_NEXT:
        return !matches && c->last_matches;
    case HS__CUT_CONTIGUOUS:
        return matches == c->last_matches;
    default:
        return false;
    }
}

void hs__cutter_put(hs__cutter *c, size_t start, size_t end, bool matches)
{
    matches ^= c->invert;
    if (c->any && is_merged(c, matches)) {
        c->last.end = end;
    } else {
        flush_word(c);
        c->last = (hs__span){start, end};
        c->any = !(matches && c->behavior == HS__CUT_REMOVED);
    }
    c->last_matches = matches;
}

bool hs__cutter_finish(hs__cutter *c)
{
    flush_word(c);
    return !c->failed;
}
