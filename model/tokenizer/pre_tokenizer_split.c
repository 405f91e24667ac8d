/* pre_tokenizer_split.c - Split: cuts words at the matches of a text or a regular expression. */
#include "model/tokenizer/cutter.h"
#include "model/tokenizer/part_options.h"
#include "model/tokenizer/pattern.h"

#include <stdlib.h>

typedef struct split_part {
    hs__part part;
    hs__pattern *pattern;
    hs__cut_behavior behavior;
    bool invert;
} split_part;

static hs_status read_behavior(const json_t *options, hs__cut_behavior *ret_behavior, hs_error *err)
{
    static const char *const names[HS__CUT_BEHAVIORS] = {[HS__CUT_REMOVED] = "Removed",
                                                         [HS__CUT_ISOLATED] = "Isolated",
                                                         [HS__CUT_WITH_PREVIOUS] = "MergedWithPrevious",
                                                         [HS__CUT_WITH_NEXT] = "MergedWithNext",
                                                         [HS__CUT_CONTIGUOUS] = "Contiguous"};
    const char *name = NULL;
    const hs_status st = hs__option_text(options, "tokenizer.json", "behavior", &name, err);
    for (size_t i = 0; !st && name && i < HS__CUT_BEHAVIORS; i++)
        if (strcmp(name, names[i]) == 0) {
            *ret_behavior = (hs__cut_behavior)i;
            return HS_OK;
        }
    return st ? st
              : hs_fail(err, HS_BAD_MODEL,
                        "tokenizer.json: Split has the behavior '%.64s'; supported: Removed, Isolated, "
                        "MergedWithPrevious, MergedWithNext, Contiguous",
                        name ? name : "none");
}

static hs_status create(const json_t *options, hs__part **ret_part, hs_error *err)
{
    split_part made = {.part.type = &hs__split_pre_tokenizer};
    hs_status st = read_behavior(options, &made.behavior, err);
    if (!st)
        st = hs__option_bool(options, "tokenizer.json", "invert", &made.invert, err);
    if (!st)
        st = hs__pattern_create(json_object_get(options, "pattern"), "Split", &made.pattern, err);
    if (st)
        return st;
    split_part *self = malloc(sizeof *self);
    if (!self) {
        hs__pattern_destroy(made.pattern);
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    }
    *self = made;
    *ret_part = &self->part;
    return HS_OK;
}

static void destroy(hs__part *part)
{
    hs__pattern_destroy(((split_part *)part)->pattern);
    free(part);
}

static bool split_word(const split_part *self, const unsigned char *bytes, hs__span word, hs__spans *words)
{
    hs__cutter cutter = hs__cutter_start(self->behavior, self->invert, words);
    hs__pattern_search search = {self->pattern, bytes, word.start, word.end};
    size_t at = word.start;
    hs__span match;
    while (hs__pattern_next(&search, &match)) {
        if (match.start > at)
            hs__cutter_put(&cutter, at, match.start, false);
        hs__cutter_put(&cutter, match.start, match.end, true);
        at = match.end;
    }
    if (at < word.end)
        hs__cutter_put(&cutter, at, word.end, false);
    return hs__cutter_finish(&cutter);
}

static bool split(const hs__part *part, hs__split *split)
{
    const hs__spans uncut = split->words;
    split->words = split->uncut;
    split->uncut = uncut;
    split->words.n = 0;
    bool ok = true;
    for (size_t i = 0; i < uncut.n && ok; i++)
        ok = split_word((const split_part *)part, split->text->bytes, uncut.items[i], &split->words);
    return ok;
}

const hs__part_type hs__split_pre_tokenizer = {
    .stage = HS__PRE_TOKENIZER, .name = "Split", .create = create, .destroy = destroy, .split = split};
