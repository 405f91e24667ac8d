/* normalizer_precompiled.c - two ways to apply the character table of a SentencePiece model.
 *
 * Precompiled is that of HuggingFace's library.
 * A grapheme cluster of less than six bytes is looked up first. The table may match only its first character,
 * and the result still replaces the whole cluster. Otherwise each character is looked up. Longer clusters
 * (Hangul, flags, Indic conjuncts) need no detection, because their characters are looked up anyway.
 *
 * SentencePiece is that of the sentencepiece library (Normalizer::Normalize), for Marian and M2M100. The
 * longest key at a place counts. Spaces at both ends are removed and runs of them become one, then all become
 * marks, and a mark begins the text. A language code of Marian at the start of a text, >>fra<<, stays as it
 * is. */
#include "model/tokenizer/tokenizer_internal.h"

#include "model/tokenizer/unicode.h"

#include <nettle/base64.h>
#include <stdlib.h>

/* ---- the table ----
 *
 * SentencePiece's precompiled table of character replacements, from an untrusted file.
 *
 * The format is a byte count, a double-array trie of that many bytes (little-endian 32-bit units, as
 * darts-clone writes them) and the NUL-terminated replacements. The values of the trie are offsets into the
 * replacements. Every step in the trie is checked. */

typedef struct charsmap {
    unsigned char *bytes; /* the whole table, and a NUL */
    const unsigned char *units;
    size_t n_units;
    const char *replacements; /* valid UTF-8, with a NUL at its end */
    size_t n_replacement_bytes;
} charsmap;

static uint32_t u32_at(const unsigned char *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static hs_status decode(const char *base64, charsmap *map, size_t *ret_n, hs_error *err)
{
    const size_t length = strlen(base64);
    struct base64_decode_ctx context;
    base64_decode_init(&context);
    *ret_n = BASE64_DECODE_LENGTH(length);
    map->bytes = malloc(*ret_n + 1);
    if (!map->bytes)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    if (!base64_decode_update(&context, ret_n, map->bytes, length, base64) || !base64_decode_final(&context))
        return hs_fail(err, HS_BAD_MODEL, "the normalizer's precompiled_charsmap is not base64");
    map->bytes[*ret_n] = '\0';
    return HS_OK;
}

/* Decodes the table from base64. Fails with HS_BAD_MODEL if it is malformed. The caller finishes *ret_map,
 * even after an error. */
static hs_status read_map(const char *base64, charsmap *ret_map, hs_error *err)
{
    size_t n = 0;
    *ret_map = (charsmap){0};
    const hs_status st = decode(base64, ret_map, &n, err);
    if (st)
        return st;
    const size_t n_array = n < 4 ? 0 : u32_at(ret_map->bytes);
    if (n_array < 4 || n_array % 4 || n_array > n - 4)
        return hs_fail(err, HS_BAD_MODEL, "the normalizer's precompiled_charsmap is truncated or malformed");
    ret_map->units = ret_map->bytes + 4;
    ret_map->n_units = n_array / 4;
    ret_map->replacements = (const char *)ret_map->units + n_array;
    ret_map->n_replacement_bytes = n - 4 - n_array;
    if (hs_utf8_valid(ret_map->replacements, ret_map->n_replacement_bytes) < ret_map->n_replacement_bytes)
        return hs_fail(err, HS_BAD_MODEL, "the normalizer's precompiled_charsmap has text that is not UTF-8");
    return HS_OK;
}

static void finish_map(charsmap *map)
{
    free(map->bytes);
    *map = (charsmap){0};
}

/* ---- units ---- */

static uint32_t label(uint32_t unit)
{
    return unit & 0x800000FF;
}

static bool has_leaf(uint32_t unit)
{
    return unit >> 8 & 1;
}

static uint32_t offset(uint32_t unit)
{
    return unit >> 10 << ((unit & 0x200) >> 6);
}

static uint32_t value(uint32_t unit)
{
    return unit & 0x7FFFFFFF;
}

/* Returns the unit at a place. Outside the array, returns one that no transition reaches. */
static uint32_t unit_at(const charsmap *map, uint32_t place)
{
    return place < map->n_units ? u32_at(map->units + 4 * (size_t)place) : 0x80000000;
}

/* Bounds the walk of a table whose units lead in a circle, which would take quadratic time. The longest key
 * of SentencePiece's own tables (nmt_nfkc, nfkc and those that fold case) has 12 bytes. */
#define KEY_BYTES_MAX 64

/* Returns the replacement of the shortest key that the text begins with, or of the longest one, and its
 * length. The result is NUL-terminated; NULL if no key matches. */
static const char *find_replacement(const charsmap *map, const unsigned char *text, size_t n_bytes,
                                    bool longest, size_t *ret_length)
{
    const char *found = NULL;
    uint32_t place = offset(unit_at(map, 0));
    *ret_length = 0;
    for (size_t i = 0; i < n_bytes && i < KEY_BYTES_MAX && text[i]; i++) {
        place ^= text[i];
        const uint32_t unit = unit_at(map, place);
        if (label(unit) != text[i])
            break;
        place ^= offset(unit);
        if (has_leaf(unit)) {
            const uint32_t at = value(unit_at(map, place));
            const bool is =
                at < map->n_replacement_bytes && !hs_utf8_continues((unsigned char)map->replacements[at]);
            found = is ? map->replacements + at : found;
            *ret_length = is ? i + 1 : *ret_length;
            if (!longest)
                break;
        }
    }
    return found;
}

/* ---- the part ---- */

#define CLUSTER_BYTES_MAX 5 /* the oracle looks up longer clusters by character */
#define JOINER            0x200D

typedef struct precompiled {
    hs__part part;
    charsmap map;
    bool codes; /* SentencePiece: a text may begin with a language code */
} precompiled;

static void finish(hs__part *part)
{
    finish_map(&((precompiled *)part)->map);
}

static hs_status configure(hs__part *part, const json_t *options, hs_error *err)
{
    const char *base64 = json_string_value(json_object_get(options, "precompiled_charsmap"));
    if (!base64)
        return hs_fail(err, HS_BAD_MODEL, "tokenizer.json: Precompiled needs 'precompiled_charsmap'");
    return read_map(base64, &((precompiled *)part)->map, err);
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
    size_t length;
    const char *found = find_replacement(&self->map, at, (size_t)(end - at), false, &length);
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

/* ---- as the sentencepiece library has it ---- */

#define MARK 0x2581

/* The normalized text so far, and whether its last character is a space. */
typedef struct spaced {
    hs__aligned_text *text;
    size_t first;       /* where the part of the text begins that may lose marks at its end */
    bool begun, behind; /* behind: a space was put last, or nothing yet */
} spaced;

/* Puts a character, unless it is a space behind another one. */
static bool put_spaced(spaced *to, uint32_t code_point, hs__range source)
{
    bool ok = true;
    if (code_point == ' ' && to->behind)
        return true;
    if (!to->begun)
        ok = hs__aligned_text_put(to->text, MARK, (hs__range){source.start, source.start});
    to->begun = true;
    to->behind = code_point == ' ';
    return ok && hs__aligned_text_put(to->text, code_point == ' ' ? MARK : code_point, source);
}

/* Puts the language code that the text begins with, and returns its length. No vocabulary has a code with a
 * mark or a space, which become another character, because words are cut there. */
static size_t put_code(const hs__text_view *view, hs__aligned_text *text, uint32_t *ret_n_chars, bool *ret_ok)
{
    const unsigned char *at = view->bytes;
    const unsigned char *stop =
        view->n_bytes > 3 && memcmp(at, ">>", 2) == 0 ? memmem(at + 2, view->n_bytes - 2, "<<", 2) : NULL;
    for (; stop && at < stop + 2 && *ret_ok; ++*ret_n_chars) {
        const hs__range source = hs__text_view_source(view, at, view->first + *ret_n_chars);
        const uint32_t code_point = hs_utf8_next(&at);
        const bool is_cut = code_point == MARK || code_point == ' ';
        *ret_ok = hs__aligned_text_put(text, is_cut ? 0xFFFD : code_point, source);
    }
    return stop ? (size_t)(stop + 2 - view->bytes) : 0;
}

/* Removes the marks at the end, which spaces were or the text had. */
static void trim_marks(spaced *to)
{
    static const unsigned char mark[] = {0xE2, 0x96, 0x81};
    hs__aligned_text *text = to->text;
    while (text->n_bytes >= to->first + sizeof mark &&
           memcmp(text->bytes + text->n_bytes - sizeof mark, mark, sizeof mark) == 0)
        text->n_bytes -= sizeof mark;
}

/* Puts what stands for the first characters, and moves behind them. */
static bool put_next(const precompiled *self, const hs__text_view *view, const unsigned char **at,
                     uint32_t *index, spaced *to)
{
    const unsigned char *start = *at, *end = view->bytes + view->n_bytes;
    size_t length = 0;
    const char *found =
        self->map.bytes ? find_replacement(&self->map, start, (size_t)(end - start), true, &length) : NULL;
    hs__range source = hs__text_view_source(view, start, *index);
    const uint32_t code_point = hs_utf8_next(at);
    ++*index;
    if (!found)
        return put_spaced(to, code_point, source);
    for (; *at < start + length; ++*index) {
        source.end = hs__text_view_source(view, *at, *index).end;
        hs_utf8_next(at);
    }
    bool ok = true;
    for (const unsigned char *new = (const unsigned char *)found; *new &&ok;)
        ok = put_spaced(to, hs_utf8_next(&new), source);
    return ok;
}

static bool normalize_spaces(const hs__part *part, const hs__text_view *view, hs__aligned_text *ret_text)
{
    bool ok = true;
    uint32_t index = 0;
    const precompiled *self = (const precompiled *)part;
    const unsigned char *at = view->bytes + (self->codes ? put_code(view, ret_text, &index, &ok) : 0);
    spaced to = {.text = ret_text, .first = ret_text->n_bytes, .behind = true};
    for (index += view->first; at < view->bytes + view->n_bytes && ok;)
        ok = put_next(self, view, &at, &index, &to);
    trim_marks(&to);
    return ok;
}

static hs_status configure_spaces(hs__part *part, const json_t *options, hs_error *err)
{
    const char *base64 = json_string_value(json_object_get(options, "precompiled_charsmap"));
    ((precompiled *)part)->codes = json_is_true(json_object_get(options, "language_codes"));
    return base64 && !base64[0] ? HS_OK : configure(part, options, err);
}

const hs__part_type hs__sentencepiece_normalizer = {.stage = HS__NORMALIZER,
                                                    .name = "SentencePiece",
                                                    .size = sizeof(precompiled),
                                                    .configure = configure_spaces,
                                                    .finish = finish,
                                                    .normalize = normalize_spaces};
