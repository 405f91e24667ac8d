/* cutter.c - holds the last word back until it is known whether the next stretch belongs to it. */
#include "model/tokenizer/cutter.h"

hs__cutter hs__cutter_start(hs__cut_behavior behavior, bool invert, hs__spans *words)
{
    return (hs__cutter){.behavior = behavior, .invert = invert, .words = words};
}

static void flush(hs__cutter *c)
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
        flush(c);
        c->last = (hs__span){start, end};
        c->any = !(matches && c->behavior == HS__CUT_REMOVED);
    }
    c->last_matches = matches;
}

bool hs__cutter_finish(hs__cutter *c)
{
    flush(c);
    return !c->failed;
}
