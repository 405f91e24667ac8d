/* normalizer_bert.c - BertNormalizer: clean-up, ideographs, accents, case.
 *
 * The oracle runs these steps over the whole text, one after another. It drops control characters and turns
 * white space into spaces, puts spaces around ideographs, applies NFD, drops non-spacing marks and lowers the
 * case. This code takes each character through all steps at once. Only NFD's reordering of combining
 * characters needs more than one character: see put_run. */
#include "model/tokenizer/tokenizer_internal.h"

#include "model/tokenizer/unicode.h"

#include <stdlib.h>

typedef struct bert_normalizer {
    hs__part part;
    bool clean_text, split_ideographs, strip_accents, lowercase;
    uint8_t plain[256]; /* the result for an ASCII character that stays one character; 0: take the slow
                         * path */
} bert_normalizer;

/* A combining character, or the letter before it, in a run that is being sorted. */
typedef struct run_item {
    uint32_t code_point;
    hs__range source;  /* source of the character, if this is the first of its decomposition */
    uint8_t combining; /* canonical combining class */
    bool first;
} run_item;

typedef struct scanner {
    const bert_normalizer *self;
    const hs__text_view *view;
    const unsigned char *at, *end;
    uint32_t index; /* code points before `at` */
    hs__aligned_text *text;
    run_item *run;
    size_t n_run, run_capacity;
    bool failed; /* memory was short */
} scanner;

/* ---- the part ---- */

static void fill_plain(bert_normalizer *self)
{
    for (unsigned byte = 0; byte < 0x80; byte++) {
        const unsigned class = hs__unicode_class(byte);
        if (self->clean_text && (class & HS__DROPPED))
            continue;
        const bool is_space = self->clean_text && (class & HS__SPACE);
        self->plain[byte] = (uint8_t)(is_space ? ' ' : self->lowercase ? hs__unicode_lower(byte) : byte);
    }
}

static hs_status configure(hs__part *part, const json_t *options, hs_error *err)
{
    static const char file[] = "tokenizer.json";
    bert_normalizer *self = (bert_normalizer *)part;
    self->clean_text = self->split_ideographs = self->lowercase = true;
    hs_status st = hs__option_bool(options, file, "clean_text", &self->clean_text, err);
    if (!st)
        st = hs__option_bool(options, file, "handle_chinese_chars", &self->split_ideographs, err);
    if (!st)
        st = hs__option_bool(options, file, "lowercase", &self->lowercase, err);
    self->strip_accents = self->lowercase;
    if (!st)
        st = hs__option_bool(options, file, "strip_accents", &self->strip_accents, err);
    fill_plain(self);
    return st;
}

/* ---- characters ---- */

static hs__range source_here(const scanner *s)
{
    return hs__text_view_source(s->view, s->at, s->index);
}

static void put(scanner *s, uint32_t code_point, hs__range source)
{
    s->failed |= !hs__aligned_text_put(s->text, code_point, source);
}

/* Puts a character after NFD and the removal of marks. */
static void put_cased(scanner *s, uint32_t code_point, unsigned class, hs__range source)
{
    if (!s->self->lowercase || !(class & HS__CASED)) {
        put(s, code_point, source);
        return;
    }
    put(s, hs__unicode_lower(code_point), source);
    if (code_point == 0x130)
        put(s, 0x307, source);
}

static void put_stripped(scanner *s, uint32_t code_point, unsigned class, hs__range source)
{
    if (!(class & (HS__DECOMPOSES | HS__MARK))) {
        put_cased(s, code_point, class, source);
        return;
    }
    uint32_t parts[HS__DECOMPOSITION_MAX];
    const size_t n = hs__unicode_decompose(code_point, parts);
    for (size_t i = 0; i < n; i++) {
        const unsigned part_class = hs__unicode_class(parts[i]);
        if (!(part_class & HS__MARK))
            put_cased(s, parts[i], part_class, source);
    }
}

static bool is_dropped(const scanner *s, unsigned class)
{
    return s->self->clean_text && (class & HS__DROPPED);
}

/* ---- runs of combining characters ---- */

static bool reserve_run(scanner *s)
{
    if (s->n_run + HS__DECOMPOSITION_MAX <= s->run_capacity)
        return true;
    const size_t capacity = 2 * s->run_capacity + 64;
    run_item *run = realloc(s->run, capacity * sizeof *run);
    if (!run)
        return false;
    s->run = run;
    s->run_capacity = capacity;
    return true;
}

/* Adds the character at s->at to the run. Returns false at the end or if the character starts the next
 * run. */
static bool extend_run(scanner *s)
{
    if (s->at == s->end)
        return false;
    const unsigned char *next = s->at;
    const uint32_t code_point = hs_utf8_next(&next);
    if (!is_dropped(s, hs__unicode_class(code_point))) {
        uint32_t parts[HS__DECOMPOSITION_MAX];
        const size_t n = hs__unicode_decompose(code_point, parts);
        if (s->n_run && !hs__unicode_combining(parts[0]))
            return false;
        if (!reserve_run(s)) {
            s->failed = true;
            return false;
        }
        for (size_t i = 0; i < n; i++)
            s->run[s->n_run++] =
                (run_item){parts[i], source_here(s), hs__unicode_combining(parts[i]), i == 0};
    }
    s->at = next;
    s->index++;
    return true;
}

/* Moves back to the start of the run that `at` belongs to, after the last non-combining character. All
 * characters passed on the way were dropped, or they would have started the run themselves. */
static void rewind_run(scanner *s, uint32_t code_point)
{
    uint32_t parts[HS__DECOMPOSITION_MAX];
    (void)hs__unicode_decompose(code_point, parts);
    if (!hs__unicode_combining(parts[0]))
        return;
    while (s->at > s->view->bytes) {
        const unsigned char *previous = s->at - 1;
        while (hs_utf8_continues(*previous))
            previous--;
        const unsigned char *cursor = previous;
        const uint32_t before = hs_utf8_next(&cursor);
        (void)hs__unicode_decompose(before, parts);
        if (!is_dropped(s, hs__unicode_class(before)) && !hs__unicode_combining(parts[0]))
            return;
        s->at = previous;
        s->index--;
    }
}

/* Puts the run sorted by combining class, stable within a class.
 *
 * The oracle moves characters but not sources. The k-th first character of a decomposition in the new order
 * takes the source of the k-th character in the old order. The rest of a decomposition takes the source of
 * the character before. */
static void put_ordered(scanner *s)
{
    size_t n_of_class[256] = {0};
    for (size_t i = 0; i < s->n_run; i++)
        n_of_class[s->run[i].combining]++;
    size_t next = 0; /* first item in the old order with an unused source */
    hs__range source = {0, 0};
    for (unsigned combining = 0; combining < 256; combining++) {
        for (size_t i = 0; n_of_class[combining] && i < s->n_run; i++) {
            if (s->run[i].combining != combining)
                continue;
            if (s->run[i].first) {
                while (!s->run[next].first)
                    next++;
                source = s->run[next++].source;
            }
            const unsigned class = hs__unicode_class(s->run[i].code_point);
            if (!(class & HS__MARK))
                put_cased(s, s->run[i].code_point, class, source);
        }
    }
}

/* Puts the combining characters after a letter, which NFD sorts by class. Nearly all of them are non-spacing
 * marks, which are dropped anyway. The run is sorted only if it has one that stays (HS__REORDERS). */
static void put_run(scanner *s, uint32_t code_point)
{
    rewind_run(s, code_point);
    s->n_run = 0;
    while (extend_run(s))
        ;
    put_ordered(s);
}

/* ---- the text ---- */

/* Consumes the character at s->at. */
static void put_next(scanner *s)
{
    const bert_normalizer *self = s->self;
    const unsigned char *next = s->at;
    const uint32_t code_point = hs_utf8_next(&next);
    const unsigned class = hs__unicode_class(code_point);
    if (self->strip_accents && (class & HS__REORDERS)) {
        put_run(s, code_point);
        return;
    }
    const hs__range source = source_here(s);
    const bool ideograph = self->split_ideographs && (class & HS__IDEOGRAPH);
    if (ideograph)
        put(s, ' ', source);
    if (is_dropped(s, class))
        ; /* not even the end of a word */
    else if (self->clean_text && (class & HS__SPACE))
        put(s, ' ', source);
    else if (self->strip_accents)
        put_stripped(s, code_point, class, source);
    else
        put_cased(s, code_point, class, source);
    if (ideograph)
        put(s, ' ', source);
    s->at = next;
    s->index++;
}

/* Consumes plain ASCII, the bulk of most texts. Same result as put_next, but faster. */
static void put_plain(scanner *s)
{
    const size_t n_left = (size_t)(s->end - s->at);
    if (!hs__aligned_text_reserve(s->text, n_left)) {
        s->failed = true;
        return;
    }
    const uint8_t *plain = s->self->plain;
    unsigned char *bytes = s->text->bytes + s->text->n_bytes;
    hs__range *sources = s->text->sources + s->text->n_bytes;
    size_t n = 0;
    for (; n < n_left && plain[s->at[n]]; n++)
        bytes[n] = plain[s->at[n]];
    for (size_t i = 0; i < n; i++)
        sources[i] = hs__text_view_source(s->view, s->at + i, s->index + (uint32_t)i);
    s->at += n;
    s->index += (uint32_t)n;
    s->text->n_bytes += n;
}

static bool normalize(const hs__part *part, const hs__text_view *view, hs__aligned_text *ret_text)
{
    const bert_normalizer *self = (const bert_normalizer *)part;
    scanner s = {.self = self,
                 .view = view,
                 .at = view->bytes,
                 .end = view->bytes + view->n_bytes,
                 .index = view->first,
                 .text = ret_text};
    while (s.at < s.end && !s.failed) {
        if (self->plain[*s.at])
            put_plain(&s);
        else
            put_next(&s);
    }
    free(s.run);
    return !s.failed;
}

const hs__part_type hs__bert_normalizer = {.stage = HS__NORMALIZER,
                                           .name = "BertNormalizer",
                                           .size = sizeof(bert_normalizer),
                                           .configure = configure,
                                           .cuts_at_punctuation = true,
                                           .normalize = normalize};
