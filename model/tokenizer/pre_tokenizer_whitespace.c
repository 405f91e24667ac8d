/* pre_tokenizer_whitespace.c - WhitespaceSplit: splits at white space and drops it. */
#include "model/tokenizer/tokenizer_internal.h"

#include "model/tokenizer/unicode.h"

static bool split(const hs__part *part, const hs__aligned_text *from, hs__span word, hs__aligned_text *to,
                  hs__spans *words)
{
    (void)part, (void)to;
    const unsigned char *bytes = from->bytes;
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

const hs__part_type hs__whitespace_split = {
    .stage = HS__PRE_TOKENIZER, .name = "WhitespaceSplit", .size = sizeof(hs__part), .split = split};
