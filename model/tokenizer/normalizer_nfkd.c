/* normalizer_nfkd.c - NFKD: characters fall into what they are made of or stand for, and the combining ones
 * behind a letter are brought into order. */
#include "model/tokenizer/parts.h"
#include "model/tokenizer/transform.h"
#include "model/tokenizer/unicode.h"

#include <stdlib.h>

/* A combining character that waits for the end of its run. */
typedef struct run_item {
    uint32_t code_point;
    uint8_t combining; /* canonical combining class */
    bool more;         /* not the first of its decomposition */
} run_item;

typedef struct run {
    run_item *items; /* [n] */
    size_t n, capacity;
} run;

static hs_status create(const json_t *options, hs__part **ret_part, hs_error *err)
{
    (void)options;
    hs__part *self = malloc(sizeof *self);
    if (!self)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    self->type = &hs__nfkd;
    *ret_part = self;
    return HS_OK;
}

static void destroy(hs__part *part)
{
    free(part);
}

static bool run_put(run *r, run_item item)
{
    if (r->n == r->capacity) {
        const size_t capacity = 2 * r->capacity + 64;
        run_item *items = realloc(r->items, capacity * sizeof *items);
        if (!items)
            return false;
        r->items = items;
        r->capacity = capacity;
    }
    r->items[r->n++] = item;
    return true;
}

/* The run by combining class, those of a class in their order. */
static void run_flush(run *r, hs__transform *t)
{
    size_t n_of_class[256] = {0};
    if (r->n == 0)
        return;
    for (size_t i = 0; i < r->n; i++)
        n_of_class[r->items[i].combining]++;
    for (unsigned combining = 0; combining < 256; combining++)
        for (size_t i = 0; n_of_class[combining] && i < r->n; i++)
            if (r->items[i].combining == combining)
                hs__transform_put(t, r->items[i].code_point, r->items[i].more);
    r->n = 0;
}

static bool put(uint32_t code_point, run *r, hs__transform *t)
{
    uint32_t parts[HS__COMPATIBLE_MAX];
    const size_t n = hs__unicode_decompose_compatible(code_point, parts);
    bool ok = true;
    for (size_t i = 0; i < n && ok; i++) {
        const uint8_t combining = hs__unicode_combining(parts[i]);
        if (combining) {
            ok = run_put(r, (run_item){parts[i], combining, i > 0});
            continue;
        }
        run_flush(r, t);
        hs__transform_put(t, parts[i], i > 0);
    }
    return ok;
}

static bool normalize(const hs__part *part, const hs__text_view *view, hs__aligned_text *ret_text)
{
    (void)part;
    run r = {0};
    hs__transform t = hs__transform_start(view, ret_text);
    bool ok = true;
    for (const unsigned char *at = view->bytes; at < view->bytes + view->n_bytes && ok;)
        ok = put(hs_utf8_next(&at), &r, &t);
    run_flush(&r, &t);
    free(r.items);
    return hs__transform_finish(&t) && ok;
}

const hs__part_type hs__nfkd = {
    .stage = HS__NORMALIZER, .name = "NFKD", .create = create, .destroy = destroy, .normalize = normalize};
