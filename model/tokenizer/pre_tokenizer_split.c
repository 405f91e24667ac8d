/* pre_tokenizer_split.c - Split: cuts words at the matches of a text or a regular expression. */
#include "model/tokenizer/cutter.h"
#include "model/tokenizer/part_options.h"
#include "model/tokenizer/pattern.h"

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

static hs_status configure(hs__part *part, const json_t *options, hs_error *err)
{
    split_part *self = (split_part *)part;
    hs_status st = read_behavior(options, &self->behavior, err);
    if (!st)
        st = hs__option_bool(options, "tokenizer.json", "invert", &self->invert, err);
    return st ? st : hs__pattern_create(json_object_get(options, "pattern"), &self->pattern, err);
}

static void finish(hs__part *part)
{
    hs__pattern_destroy(((split_part *)part)->pattern);
}

static bool split(const hs__part *part, const hs__aligned_text *from, hs__span word, hs__aligned_text *to,
                  hs__spans *words)
{
    (void)to;
    const split_part *self = (const split_part *)part;
    hs__cutter cutter = hs__cutter_start(self->behavior, self->invert, words);
    hs__pattern_search search = {self->pattern, from->bytes, word.start, word.end};
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

const hs__part_type hs__split_pre_tokenizer = {.stage = HS__PRE_TOKENIZER,
                                               .name = "Split",
                                               .size = sizeof(split_part),
                                               .configure = configure,
                                               .finish = finish,
                                               .split = split};
