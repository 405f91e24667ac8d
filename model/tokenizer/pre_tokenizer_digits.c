/* pre_tokenizer_digits.c - Digits: cuts numbers from the rest, as a whole or each digit by itself. */
#include "model/tokenizer/tokenizer_internal.h"

#include "model/tokenizer/unicode.h"

typedef struct digits {
    hs__part part;
    hs__cut_behavior behavior;
} digits;

static hs_status configure(hs__part *part, const json_t *options, hs_error *err)
{
    bool individual = false;
    const hs_status st = hs__option_bool(options, "tokenizer.json", "individual_digits", &individual, err);
    ((digits *)part)->behavior = individual ? HS__CUT_ISOLATED : HS__CUT_CONTIGUOUS;
    return st;
}

/* Returns true for numbers of any kind. The oracle's are those of Unicode 17 here, and those of Unicode 16 in
 * regular expressions. */
static bool is_digit(uint32_t c)
{
    return (hs__unicode_kind(c) & HS__NUMBER) || (c >= 0x11DE0 && c <= 0x11DE9) ||
           (c >= 0x16FF4 && c <= 0x16FF6);
}

static bool split(const hs__part *part, const hs__aligned_text *from, hs__span word, hs__aligned_text *to,
                  hs__spans *words)
{
    (void)to;
    const unsigned char *bytes = from->bytes;
    hs__cutter cutter = hs__cutter_start(((const digits *)part)->behavior, false, words);
    size_t rest = word.start; /* the end of the last number */
    for (const unsigned char *at = bytes + word.start; at < bytes + word.end;) {
        const size_t start = (size_t)(at - bytes);
        const uint32_t c = hs_utf8_next(&at);
        if (c < 0x80 ? c < '0' || c > '9' : !is_digit(c))
            continue;
        if (start > rest)
            hs__cutter_put(&cutter, rest, start, false);
        rest = (size_t)(at - bytes);
        hs__cutter_put(&cutter, start, rest, true);
    }
    if (rest < word.end)
        hs__cutter_put(&cutter, rest, word.end, false);
    return hs__cutter_finish(&cutter);
}

const hs__part_type hs__digits = {.stage = HS__PRE_TOKENIZER,
                                  .name = "Digits",
                                  .size = sizeof(digits),
                                  .configure = configure,
                                  .split = split};
