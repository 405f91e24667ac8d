/* pre_tokenizer_whitespace.c - WhitespaceSplit: splits at white space and drops it. */
#include "model/tokenizer/parts.h"
#include "model/tokenizer/unicode.h"

#include <stdlib.h>

static hs_status create(const json_t *options, hs__part **ret_part, hs_error *err)
{
    (void)options;
    hs__part *self = malloc(sizeof *self);
    if (!self)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    self->type = &hs__whitespace_split;
    *ret_part = self;
    return HS_OK;
}

static void destroy(hs__part *part)
{
    free(part);
}

static bool split_word(const unsigned char *bytes, hs__span word, hs__spans *words)
{
    size_t start = word.start;
    bool ok = true;
    for (const unsigned char *at = bytes + word.start; at < bytes + word.end && ok;) {
        const size_t stop = (size_t)(at - bytes);
        if (hs__unicode_class(hs_utf8_next(&at)) & HS__SPACE) {
            ok = hs__spans_put(words, start, stop);
            start = (size_t)(at - bytes);
        }
    }
    return ok && hs__spans_put(words, start, word.end);
}

static bool split(const hs__part *part, hs__split *split)
{
    (void)part;
    const hs__spans uncut = split->words;
    split->words = split->uncut;
    split->uncut = uncut;
    split->words.n = 0;
    bool ok = true;
    for (size_t i = 0; i < uncut.n && ok; i++)
        ok = split_word(split->text->bytes, uncut.items[i], &split->words);
    return ok;
}

const hs__part_type hs__whitespace_split = {.stage = HS__PRE_TOKENIZER,
                                            .name = "WhitespaceSplit",
                                            .create = create,
                                            .destroy = destroy,
                                            .split = split};
