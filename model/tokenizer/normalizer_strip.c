/* normalizer_strip.c - Strip: removes white space at the start or the end. */
#include "model/tokenizer/tokenizer_internal.h"

#include "model/tokenizer/unicode.h"

typedef struct strip {
    hs__part part;
    bool left, right;
} strip;

static hs_status configure(hs__part *part, const json_t *options, hs_error *err)
{
    strip *self = (strip *)part;
    self->left = self->right = true;
    hs_status st = hs__option_bool(options, "tokenizer.json", "strip_left", &self->left, err);
    if (!st)
        st = hs__option_bool(options, "tokenizer.json", "strip_right", &self->right, err);
    return st;
}

/* Holds white space back until another character follows it. */
static bool normalize(const hs__part *part, const hs__text_view *view, hs__aligned_text *ret_text)
{
    const strip *self = (const strip *)part;
    const unsigned char *at = view->bytes;
    const size_t start = ret_text->n_bytes;
    size_t kept = start;
    bool ok = true;
    for (uint32_t index = view->first; at < view->bytes + view->n_bytes && ok; index++) {
        const hs__range source = hs__text_view_source(view, at, index);
        const uint32_t code_point = hs_utf8_next(&at);
        const bool space = hs__unicode_class(code_point) & HS__SPACE;
        if (space && self->left && ret_text->n_bytes == start)
            continue;
        ok = hs__aligned_text_put(ret_text, code_point, source);
        if (!space || !self->right)
            kept = ret_text->n_bytes;
    }
    ret_text->n_bytes = kept;
    return ok;
}

const hs__part_type hs__strip = {.stage = HS__NORMALIZER,
                                 .name = "Strip",
                                 .size = sizeof(strip),
                                 .configure = configure,
                                 .normalize = normalize};
