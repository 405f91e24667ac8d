/* tokenizer_text.c - text to words: special tokens, clean-up, accents, case.
 *
 * The oracle works on the whole text step by step: special tokens are cut out; control characters dropped;
 * ideographs put between spaces; NFD; non-spacing marks dropped; lower case; split at white space;
 * punctuation split off; WordPiece. Here every character goes through all steps at once and lands in the
 * current word, together with its index in the original text. The one step that needs more than a character
 * is NFD's reordering of combining characters: see put_run.
 *
 * Some tokenizers have added tokens that are to be found in the normalised text. Only then that text is built
 * first, a segment (what lies between two special tokens) at a time: see end_segment. */
#include "model/tokenizer/tokenizer_internal.h"
#include "model/tokenizer/unicode.h"
#include "model/utf8.h"

#include <stdlib.h>

/* A combining character, or the letter before it, while a run of them is brought into order. */
typedef struct run_item {
    uint32_t code_point;
    uint32_t origin;   /* index of the character in the text, if it is the first of its decomposition */
    uint8_t combining; /* canonical combining class */
    bool first;
} run_item;

/* Normalised text. */
typedef struct normalized {
    unsigned char *bytes; /* [n] */
    uint32_t *origins;    /* [n]: which character of the text each byte came from */
    size_t n, capacity;
} normalized;

typedef struct scanner {
    const hs_tokenizer *tokenizer;
    const unsigned char *segment; /* the text since the last special token */
    const unsigned char *at, *end;
    uint32_t index;     /* code points before `at` */
    bool split_special; /* "[MASK]" is only text */
    bool collects;      /* characters go into normalized, not yet into words */
    normalized normalized;
    run_item *run;
    size_t n_run, run_capacity;
    hs_status status;
    hs__words words;
} scanner;

/* ---- added tokens ---- */

/* The id of the added token at `at`, or -1. In text that is only text, special ones do not count, but their
 * length is told: the oracle's search goes on behind them. */
static int32_t match_added(const scanner *s, const hs__trie *added, const unsigned char *at,
                           const unsigned char *end, size_t *ret_length)
{
    *ret_length = 0;
    const int32_t id = hs__trie_longest(added, HS__TRIE_ROOT, at, (size_t)(end - at), ret_length);
    return id >= 0 && s->split_special && s->tokenizer->added_special[id] ? -1 : id;
}

static bool may_be_added(const scanner *s)
{
    return s->tokenizer->kinds[*s->at] & HS__KIND_ADDED;
}

/* ---- characters ---- */

static bool reserve_normalized(normalized *n)
{
    if (n->n + 4 <= n->capacity)
        return true;
    const size_t capacity = 2 * n->capacity + 256;
    unsigned char *bytes = realloc(n->bytes, capacity);
    if (bytes)
        n->bytes = bytes;
    uint32_t *origins = realloc(n->origins, capacity * sizeof *origins);
    if (origins)
        n->origins = origins;
    if (!bytes || !origins)
        return false;
    n->capacity = capacity;
    return true;
}

/* A character after all of the normalisation. */
static void put_normalized(scanner *s, uint32_t code_point, unsigned class, uint32_t origin)
{
    if (!s->collects) {
        hs__words_put(&s->words, code_point, class, origin);
        return;
    }
    if (!reserve_normalized(&s->normalized)) {
        s->status = HS_NO_MEMORY;
        return;
    }
    const size_t length = hs_utf8_put(code_point, s->normalized.bytes + s->normalized.n);
    for (size_t i = 0; i < length; i++)
        s->normalized.origins[s->normalized.n++] = origin;
}

/* A character after NFD and the removal of marks. */
static void put_char(scanner *s, uint32_t code_point, unsigned class, uint32_t origin)
{
    if (!s->tokenizer->lowercase || !(class & HS__CASED)) {
        put_normalized(s, code_point, class, origin);
        return;
    }
    put_normalized(s, hs__unicode_lower(code_point), class, origin);
    if (code_point == 0x130)
        put_normalized(s, 0x307, HS__MARK, origin);
}

static void put_stripped(scanner *s, uint32_t code_point, unsigned class, uint32_t origin)
{
    if (!(class & (HS__DECOMPOSES | HS__MARK))) {
        put_char(s, code_point, class, origin);
        return;
    }
    uint32_t parts[HS__DECOMPOSITION_MAX];
    const size_t n = hs__unicode_decompose(code_point, parts);
    for (size_t i = 0; i < n; i++) {
        const unsigned part_class = hs__unicode_class(parts[i]);
        if (!(part_class & HS__MARK))
            put_char(s, parts[i], part_class, origin);
    }
}

static bool is_dropped(const scanner *s, unsigned class)
{
    return s->tokenizer->clean_text && (class & HS__DROPPED);
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

/* Adds the character at s->at to the run unless it belongs to the next one; false then, and at the end. Up to
 * `checked` it is known that no special token starts. */
static bool extend_run(scanner *s, const unsigned char *checked)
{
    size_t length;
    if (s->at == s->end || (s->at > checked && may_be_added(s) &&
                            match_added(s, &s->tokenizer->added, s->at, s->end, &length) >= 0))
        return false;
    const unsigned char *next = s->at;
    const uint32_t code_point = hs_utf8_next(&next);
    if (!is_dropped(s, hs__unicode_class(code_point))) {
        uint32_t parts[HS__DECOMPOSITION_MAX];
        const size_t n = hs__unicode_decompose(code_point, parts);
        if (s->n_run && !hs__unicode_combining(parts[0]))
            return false;
        if (!reserve_run(s)) {
            s->status = HS_NO_MEMORY;
            return false;
        }
        for (size_t i = 0; i < n; i++)
            s->run[s->n_run++] = (run_item){parts[i], s->index, hs__unicode_combining(parts[i]), i == 0};
    }
    s->at = next;
    s->index++;
    return true;
}

/* Where the run that `at` belongs to starts: behind the last character that is not a combining one. All that
 * was passed on the way here was dropped, or it would have started the run itself. */
static void rewind_run(scanner *s, uint32_t code_point)
{
    uint32_t parts[HS__DECOMPOSITION_MAX];
    (void)hs__unicode_decompose(code_point, parts);
    if (!hs__unicode_combining(parts[0]))
        return;
    while (s->at > s->segment) {
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

/* NFD sorts the combining characters behind a letter by class. Nearly all of them are non-spacing marks and
 * vanish anyway; only when one is met that stays (HS__REORDERS) is the whole run brought into order.
 *
 * In the oracle, characters change places but origins do not: the k-th in the new order that is the first of
 * its decomposition takes the origin of the k-th character in the old one, the rest of a decomposition that
 * of the character before. */
static void put_run(scanner *s, uint32_t code_point)
{
    const unsigned char *checked = s->at;
    rewind_run(s, code_point);
    s->n_run = 0;
    while (extend_run(s, checked))
        ;
    size_t n_of_class[256] = {0};
    for (size_t i = 0; i < s->n_run; i++)
        n_of_class[s->run[i].combining]++;
    size_t next = 0; /* first item in the old order whose origin is not taken */
    uint32_t origin = 0;
    for (unsigned combining = 0; combining < 256; combining++) {
        for (size_t i = 0; n_of_class[combining] && i < s->n_run; i++) {
            if (s->run[i].combining != combining)
                continue;
            if (s->run[i].first) {
                while (!s->run[next].first)
                    next++;
                origin = s->run[next++].origin;
            }
            const unsigned class = hs__unicode_class(s->run[i].code_point);
            if (!(class & HS__MARK))
                put_char(s, s->run[i].code_point, class, origin);
        }
    }
}

/* ---- the text ---- */

/* Consumes the character at s->at. */
static void put_next(scanner *s)
{
    const hs_tokenizer *tokenizer = s->tokenizer;
    const unsigned char *next = s->at;
    const uint32_t code_point = hs_utf8_next(&next);
    const unsigned class = hs__unicode_class(code_point);
    if (tokenizer->strip_accents && (class & HS__REORDERS)) {
        put_run(s, code_point);
        return;
    }
    const bool ideograph = tokenizer->split_ideographs && (class & HS__IDEOGRAPH);
    if (ideograph)
        put_normalized(s, ' ', HS__SPACE, s->index);
    if (is_dropped(s, class))
        ; /* not even the end of a word */
    else if (tokenizer->clean_text && (class & HS__SPACE))
        put_normalized(s, ' ', HS__SPACE, s->index);
    else if (tokenizer->strip_accents)
        put_stripped(s, code_point, class, s->index);
    else
        put_char(s, code_point, class, s->index);
    if (ideograph)
        put_normalized(s, ' ', HS__SPACE, s->index);
    s->at = next;
    s->index++;
}

/* Consumes ASCII letters and spaces, which are most of most texts: what put_next would do with them, but
 * faster. False when there are none. */
static bool put_ascii(scanner *s)
{
    const uint8_t kind = s->tokenizer->kinds[*s->at];
    size_t n = 1;
    if (s->collects || (kind != HS__KIND_LETTER && kind != HS__KIND_SPACE))
        return false;
    if (kind == HS__KIND_LETTER)
        n = hs__words_put_letters(&s->words, s->at, (size_t)(s->end - s->at), s->index);
    else
        hs__words_end(&s->words);
    s->at += n;
    s->index += (uint32_t)n;
    return true;
}

/* Splits the normalised text of a segment that was collected. */
static void end_segment(scanner *s)
{
    if (!s->normalized.n)
        return;
    const unsigned char *at = s->normalized.bytes;
    const unsigned char *end = at + s->normalized.n;
    const unsigned char *search_from = at;
    while (at < end && !s->words.enough) {
        const uint32_t *origins = s->normalized.origins + (at - s->normalized.bytes);
        size_t length = 0;
        const int32_t id =
            at < search_from ? -1 : match_added(s, &s->tokenizer->added_normalized, at, end, &length);
        if (id >= 0) {
            hs__words_put_added(&s->words, id, origins[0], origins[length - 1] + 1);
            at += length;
            continue;
        }
        if (length)
            search_from = at + length;
        const uint32_t code_point = hs_utf8_next(&at);
        hs__words_put(&s->words, code_point, hs__unicode_class(code_point), origins[0]);
    }
    s->normalized.n = 0;
}

/* Consumes an added token of n_bytes at s->at: a word of its own, as it is. */
static void put_added(scanner *s, int32_t id, size_t n_bytes)
{
    const uint32_t n_chars = (uint32_t)hs_utf8_count((const char *)s->at, n_bytes);
    end_segment(s);
    hs__words_put_added(&s->words, id, s->index, s->index + n_chars);
    s->index += n_chars;
    s->at += n_bytes;
    s->segment = s->at;
}

static void split_text(scanner *s)
{
    const unsigned char *search_from = s->at;
    while (s->at < s->end && !s->status && !s->words.status && !s->words.enough) {
        if (put_ascii(s))
            continue;
        if (s->at >= search_from && may_be_added(s)) {
            size_t length;
            const int32_t id = match_added(s, &s->tokenizer->added, s->at, s->end, &length);
            if (id >= 0) {
                put_added(s, id, length);
                continue;
            }
            search_from = s->at + length;
        }
        put_next(s);
    }
    if (s->status)
        return;
    end_segment(s);
    hs__words_end(&s->words);
    s->status = s->words.status;
}

static void scanner_init(scanner *s, const hs_tokenizer *tokenizer, const hs_text *text)
{
    const unsigned char *bytes = (const unsigned char *)(text->n_bytes ? text->bytes : "");
    *s = (scanner){
        .tokenizer = tokenizer,
        .segment = bytes,
        .at = bytes,
        .end = bytes + text->n_bytes,
        .words = {.tokenizer = tokenizer},
    };
}

hs_status hs__text_split(const hs_tokenizer *tokenizer, const hs_text *text, bool split_special,
                         hs__pieces *pieces, hs_error *err)
{
    scanner s;
    scanner_init(&s, tokenizer, text);
    s.split_special = split_special;
    s.collects = tokenizer->added_normalized.n_nodes > 1;
    s.words.pieces = pieces;
    split_text(&s);
    free(s.run);
    free(s.normalized.bytes);
    free(s.normalized.origins);
    return s.status ? hs_fail(err, s.status, "out of memory") : HS_OK;
}

hs_status hs__text_normalize(const hs_tokenizer *tokenizer, const hs_text *text, char **ret_bytes,
                             size_t *ret_n_bytes, hs_error *err)
{
    scanner s;
    scanner_init(&s, tokenizer, text);
    s.collects = true;
    while (s.at < s.end && !s.status)
        put_next(&s);
    free(s.run);
    free(s.normalized.origins);
    if (s.status) {
        free(s.normalized.bytes);
        return hs_fail(err, s.status, "out of memory");
    }
    *ret_bytes = (char *)s.normalized.bytes;
    *ret_n_bytes = s.normalized.n;
    return HS_OK;
}
