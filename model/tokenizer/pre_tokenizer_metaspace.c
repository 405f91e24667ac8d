/* pre_tokenizer_metaspace.c - Metaspace: replaces a space by a visible mark, "\u2581", at the start of the
 * next word. A text without a leading space gets a mark too. */
#include "model/tokenizer/tokenizer_internal.h"

/* The words that get a mark. FIRST: only a word at the start of the given text. */
typedef enum prepend_scheme { NEVER, FIRST, ALWAYS } prepend_scheme;

typedef struct metaspace {
    hs__part part;
    uint32_t mark;
    prepend_scheme prepend;
    bool split;
} metaspace;

/* Reads "prepend_scheme", or else the older "add_prefix_space". The oracle refuses a false add_prefix_space
 * that contradicts the scheme. */
static hs_status read_prepend(const json_t *options, prepend_scheme *ret_prepend, hs_error *err)
{
    static const char file[] = "tokenizer.json";
    static const char *const names[] = {[NEVER] = "never", [FIRST] = "first", [ALWAYS] = "always"};
    bool add_prefix_space = true;
    const char *scheme = NULL;
    hs_status st = hs__option_bool(options, file, "add_prefix_space", &add_prefix_space, err);
    if (!st)
        st = hs__option_text(options, file, "prepend_scheme", &scheme, err);
    if (st)
        return st;
    if (!scheme)
        scheme = add_prefix_space ? "always" : "never";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(scheme, names[i]) == 0) {
            *ret_prepend = (prepend_scheme)i;
            return HS_OK;
        }
    return hs_fail(err, HS_BAD_MODEL,
                   "tokenizer.json: Metaspace has prepend_scheme '%.64s'; supported: never, first, always",
                   scheme);
}

static hs_status read_mark(const json_t *options, uint32_t *ret_mark, hs_error *err)
{
    const char *text = "\u2581";
    const hs_status st = hs__option_text(options, "tokenizer.json", "replacement", &text, err);
    if (st)
        return st;
    const unsigned char *at = (const unsigned char *)text;
    *ret_mark = *text ? hs_utf8_next(&at) : 0;
    if (!*ret_mark || *at)
        return hs_fail(err, HS_BAD_MODEL, "tokenizer.json: Metaspace: replacement must be one character");
    return HS_OK;
}

static hs_status configure(hs__part *part, const json_t *options, hs_error *err)
{
    metaspace *self = (metaspace *)part;
    self->split = true;
    hs_status st = read_mark(options, &self->mark, err);
    if (!st)
        st = read_prepend(options, &self->prepend, err);
    if (!st)
        st = hs__option_bool(options, "tokenizer.json", "split", &self->split, err);
    return st;
}

static bool is_prepended(const metaspace *self, hs__range source)
{
    return self->prepend == ALWAYS || (self->prepend == FIRST && source.start == 0);
}

/* Puts the word with its marks, cut before each mark. */
static bool split(const hs__part *part, const hs__aligned_text *from, hs__span word, hs__aligned_text *to,
                  hs__spans *words)
{
    const metaspace *self = (const metaspace *)part;
    const unsigned char *at = from->bytes + word.start;
    const unsigned char *end = from->bytes + word.end;
    size_t start = to->n_bytes;
    bool ok = true;
    for (bool first = true; at < end && ok; first = false) {
        const hs__range source = from->sources[at - from->bytes];
        uint32_t code_point = hs_utf8_next(&at);
        if (code_point == ' ')
            code_point = self->mark;
        if (code_point == self->mark && self->split) {
            ok = hs__spans_put(words, start, to->n_bytes);
            start = to->n_bytes;
        }
        if (first && is_prepended(self, source) && code_point != self->mark)
            ok = hs__aligned_text_put(to, self->mark, source);
        ok = ok && hs__aligned_text_put(to, code_point, source);
    }
    return ok && hs__spans_put(words, start, to->n_bytes);
}

const hs__part_type hs__metaspace = {.stage = HS__PRE_TOKENIZER,
                                     .name = "Metaspace",
                                     .size = sizeof(metaspace),
                                     .configure = configure,
                                     .rewrites = true,
                                     .split = split};
