/* normalizer_forms.c - NFC, NFD, NFKC and NFKD (Unicode Standard Annex 15). Characters are decomposed,
 * canonically or by compatibility (K), and combining characters are sorted. Then pairs are composed again
 * (C).
 *
 * For composition, the last character without a combining class is held until the next one: combining
 * characters between the two, and that one, may still compose with it. */
#include "model/tokenizer/tokenizer_internal.h"

#include "model/tokenizer/unicode.h"

#include <stdlib.h>

typedef struct forms {
    hs__part part;
    bool compatible, composes;
    bool covers; /* see hs__transform; no option of the oracle's */
} forms;

/* A character in a run. */
typedef struct item {
    uint32_t code_point;
    long change;       /* see hs__transform_put */
    uint8_t combining; /* canonical combining class */
} item;

/* A run of adjacent combining characters. */
typedef struct run {
    item *items; /* [n]; the second half of the block, after capacity items, is for sorting */
    size_t n, capacity;
} run;

typedef struct scanner {
    const forms *self;
    hs__transform to;
    run run;
    item held;
    bool holds;
} scanner;

/* ---- the part ---- */

static hs_status configure(hs__part *part, const json_t *options, hs_error *err)
{
    forms *self = (forms *)part;
    const char *name = part->type->name;
    self->compatible = name[2] == 'K';
    self->composes = name[strlen(name) - 1] == 'C';
    return hs__option_bool(options, "tokenizer.json", "covers", &self->covers, err);
}

/* ---- runs ---- */

static bool run_put(run *r, item one)
{
    if (r->n == r->capacity) {
        const size_t capacity = 2 * r->capacity + 64;
        item *items = realloc(r->items, 2 * capacity * sizeof *items);
        if (!items)
            return false;
        r->items = items;
        r->capacity = capacity;
    }
    r->items[r->n++] = one;
    return true;
}

/* Sorts the run by combining class, stable within a class. */
static item *run_sort(const run *r)
{
    size_t place[257] = {0};
    item *sorted = r->items + r->capacity;
    for (size_t i = 0; i < r->n; i++)
        place[r->items[i].combining + 1]++;
    for (size_t i = 1; i < 257; i++)
        place[i] += place[i - 1];
    for (size_t i = 0; i < r->n; i++)
        sorted[place[r->items[i].combining]++] = r->items[i];
    return sorted;
}

/* ---- composition ---- */

static void release(scanner *s)
{
    if (s->holds)
        hs__transform_put(&s->to, s->held.code_point, s->held.change);
    s->holds = false;
}

/* Composes a character with the held one. Returns false if they do not compose. */
static bool compose(scanner *s, const item *one)
{
    const bool may = s->self->composes && s->holds;
    const uint32_t composed = may ? hs__unicode_compose(s->held.code_point, one->code_point) : 0;
    if (!composed)
        return false;
    s->held.code_point = composed;
    s->held.change += one->change - 1;
    return true;
}

/* Ends a run. A character that does not compose blocks later ones of its class, and the next starter. */
static void put_run(scanner *s)
{
    if (s->run.n == 0)
        return;
    item *sorted = run_sort(&s->run);
    size_t n_kept = 0;
    unsigned last = 0;
    for (size_t i = 0; i < s->run.n; i++)
        if (sorted[i].combining == last || !compose(s, &sorted[i])) {
            last = sorted[i].combining;
            sorted[n_kept++] = sorted[i];
        }
    if (n_kept)
        release(s);
    for (size_t i = 0; i < n_kept; i++)
        hs__transform_put(&s->to, sorted[i].code_point, sorted[i].change);
    s->run.n = 0;
}

static void put_starter(scanner *s, item one)
{
    put_run(s);
    if (compose(s, &one))
        return;
    release(s);
    s->held = one;
    s->holds = true;
}

/* ---- the text ---- */

static bool put(scanner *s, uint32_t code_point)
{
    uint32_t parts[HS__COMPATIBLE_MAX] = {code_point};
    size_t n = 1;
    if (code_point >= 0x80)
        n = s->self->compatible ? hs__unicode_decompose_compatible(code_point, parts)
                                : hs__unicode_decompose(code_point, parts);
    bool ok = true;
    for (size_t i = 0; i < n && ok; i++) {
        const item one = {parts[i], i > 0, parts[i] < 0x300 ? 0 : hs__unicode_combining(parts[i])};
        if (one.combining)
            ok = run_put(&s->run, one);
        else
            put_starter(s, one);
    }
    return ok;
}

static bool normalize(const hs__part *part, const hs__text_view *view, hs__aligned_text *ret_text)
{
    scanner s = {.self = (const forms *)part, .to = hs__transform_start(view, ret_text)};
    s.to.covers = s.self->covers;
    bool ok = true;
    for (const unsigned char *at = view->bytes; at < view->bytes + view->n_bytes && ok;)
        ok = put(&s, hs_utf8_next(&at));
    put_run(&s);
    release(&s);
    free(s.run.items);
    return hs__transform_finish(&s.to) && ok;
}

const hs__part_type hs__nfc = {.stage = HS__NORMALIZER,
                               .name = "NFC",
                               .size = sizeof(forms),
                               .configure = configure,
                               .normalize = normalize};
const hs__part_type hs__nfd = {.stage = HS__NORMALIZER,
                               .name = "NFD",
                               .size = sizeof(forms),
                               .configure = configure,
                               .normalize = normalize};
const hs__part_type hs__nfkc = {.stage = HS__NORMALIZER,
                                .name = "NFKC",
                                .size = sizeof(forms),
                                .configure = configure,
                                .normalize = normalize};
const hs__part_type hs__nfkd = {.stage = HS__NORMALIZER,
                                .name = "NFKD",
                                .size = sizeof(forms),
                                .configure = configure,
                                .normalize = normalize};
