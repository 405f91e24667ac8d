/* normalizer_precompiled.c - Precompiled: applies the character table of a SentencePiece model.
 *
 * A grapheme cluster of less than six bytes is looked up first. The table may match only its first character,
 * and the result still replaces the whole cluster. Otherwise each character is looked up. Longer clusters
 * (Hangul, flags, Indic conjuncts) need no detection, because their characters are looked up anyway. */
#include "model/tokenizer/charsmap.h"
#include "model/tokenizer/parts.h"
#include "model/tokenizer/transform.h"
#include "model/tokenizer/unicode.h"

#define CLUSTER_BYTES_MAX 5 /* the oracle looks up longer clusters by character */
#define JOINER            0x200D

typedef struct precompiled {
    hs__part part;
    hs__charsmap map;
} precompiled;

static void finish(hs__part *part)
{
    hs__charsmap_finish(&((precompiled *)part)->map);
}

static hs_status configure(hs__part *part, const json_t *options, hs_error *err)
{
    const char *base64 = json_string_value(json_object_get(options, "precompiled_charsmap"));
    if (!base64)
        return hs_fail(err, HS_BAD_MODEL, "tokenizer.json: Precompiled needs 'precompiled_charsmap'");
    return hs__charsmap_read(base64, &((precompiled *)part)->map, err);
}

/* ---- clusters ---- */

/* Returns the end of the cluster at `at` (Unicode Standard Annex 29, without the rules for long clusters). */
static const unsigned char *cluster_end(const unsigned char *at, const unsigned char *end)
{
    uint32_t last = hs_utf8_next(&at);
    unsigned flags = hs__unicode_cluster(last);
    if (flags & HS__CONTROLS)
        return last == '\r' && at < end && *at == '\n' ? at + 1 : at;
    bool pictograph = flags & HS__PICTOGRAPH; /* a pictograph, followed only by characters that extend it */
    while (at < end) {
        const unsigned char *next = at;
        const uint32_t code_point = hs_utf8_next(&next);
        const unsigned next_flags = hs__unicode_cluster(code_point);
        const bool joined = pictograph && last == JOINER && (next_flags & HS__PICTOGRAPH);
        const bool belongs = joined || (flags & HS__PREPENDS) || (next_flags & (HS__EXTENDS | HS__SPACING));
        if ((next_flags & HS__CONTROLS) || !belongs)
            break;
        pictograph = (next_flags & HS__PICTOGRAPH) || (pictograph && (next_flags & HS__EXTENDS));
        last = code_point;
        flags = next_flags;
        at = next;
    }
    return at;
}

/* ---- text ---- */

/* Replaces n_old characters by the text. */
static void put_replacement(hs__transform *t, const char *text, size_t n_old)
{
    const size_t n_new = hs_utf8_count(text, strlen(text));
    const unsigned char *at = (const unsigned char *)text;
    for (size_t i = 0; i < n_new; i++)
        hs__transform_put(t, hs_utf8_next(&at), i >= n_old);
    if (n_new < n_old)
        hs__transform_amend(t, (long)n_new - (long)n_old);
}

/* Puts the table's replacement for these bytes. Returns false if there is none. */
static bool put_found(const precompiled *self, hs__transform *t, const unsigned char *at,
                      const unsigned char *end)
{
    const char *found = hs__charsmap_find(&self->map, at, (size_t)(end - at));
    if (found)
        put_replacement(t, found, hs_utf8_count((const char *)at, (size_t)(end - at)));
    return found != NULL;
}

static void put_cluster(const precompiled *self, hs__transform *t, const unsigned char *at,
                        const unsigned char *end)
{
    if (end - at <= CLUSTER_BYTES_MAX && put_found(self, t, at, end))
        return;
    while (at < end) {
        const unsigned char *start = at;
        const uint32_t code_point = hs_utf8_next(&at);
        if (!put_found(self, t, start, at))
            hs__transform_put(t, code_point, 0);
    }
}

static bool normalize(const hs__part *part, const hs__text_view *view, hs__aligned_text *ret_text)
{
    const unsigned char *end = view->bytes + view->n_bytes;
    hs__transform t = hs__transform_start(view, ret_text);
    for (const unsigned char *at = view->bytes; at < end && !t.failed;) {
        const unsigned char *stop = cluster_end(at, end);
        put_cluster((const precompiled *)part, &t, at, stop);
        at = stop;
    }
    return hs__transform_finish(&t);
}

const hs__part_type hs__precompiled = {.stage = HS__NORMALIZER,
                                       .name = "Precompiled",
                                       .size = sizeof(precompiled),
                                       .configure = configure,
                                       .finish = finish,
                                       .normalize = normalize};
