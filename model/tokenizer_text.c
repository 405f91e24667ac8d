/* tokenizer_text.c - text to WordPiece, in one pass over the bytes.
 *
 * The oracle works on the whole text step by step: special tokens are cut out; control characters dropped;
 * ideographs put between spaces; NFD; non-spacing marks dropped; lower case; split at white space;
 * punctuation split off; WordPiece. Here every character goes through all steps at once and lands in the
 * current word, together with its index in the original text. The one step that needs more than a character
 * is NFD's reordering of combining characters: see split_run. */
#include "model/tokenizer_internal.h"
#include "model/unicode.h"

#include <stdlib.h>

/* A combining character, or the letter before it, while a run of them is brought into order. */
typedef struct run_item {
    uint32_t code_point;
    uint32_t origin;   /* index of the character in the text, if it is the first of its decomposition */
    uint8_t combining; /* canonical combining class */
    bool first;
} run_item;

typedef struct scanner {
    const hs_tokenizer *tokenizer;
    const unsigned char *segment; /* the text since the last special token */
    const unsigned char *at, *end;
    uint32_t index; /* code points before `at` */
    bool split_special;
    hs__pieces *pieces;
    bool enough; /* a word has brought the pieces to n_enough */
    hs_status status;

    /* The current word, after normalisation. Of one that is too long only the number of characters counts. */
    int32_t word;
    size_t n_chars, n_bytes;
    uint32_t word_start, word_last;
    unsigned char bytes[4 * HS__WORD_CHARS_MAX];
    uint32_t origin[4 * HS__WORD_CHARS_MAX]; /* of each byte: which character of the text it came from */

    run_item *run;
    size_t n_run, run_capacity;
} scanner;

/* ---- special tokens ---- */

/* The id of the added token at s->at, or -1. In text that is only text (split_special), special ones do not
 * count, but their length is told: the oracle's search goes on behind them. */
static int32_t match_added(const scanner *s, size_t *ret_length)
{
    const hs_tokenizer *tokenizer = s->tokenizer;
    *ret_length = 0;
    if (!(tokenizer->kinds[*s->at] & HS__KIND_ADDED))
        return -1;
    const int32_t id =
        hs__trie_longest(&tokenizer->added, HS__TRIE_ROOT, s->at, (size_t)(s->end - s->at), ret_length);
    return id >= 0 && s->split_special && tokenizer->added_special[id] ? -1 : id;
}

/* ---- words to pieces ---- */

static bool reserve_piece(hs__pieces *pieces)
{
    if (pieces->n < pieces->capacity)
        return true;
    size_t capacity = pieces->capacity ? 2 * pieces->capacity : 64;
    if (capacity > pieces->n_kept)
        capacity = pieces->n_kept;
    hs__piece *items = realloc(pieces->items, capacity * sizeof *items);
    if (!items)
        return false;
    pieces->items = items;
    pieces->capacity = capacity;
    return true;
}

static void put_piece(scanner *s, int32_t id, uint32_t start, uint32_t end)
{
    hs__pieces *pieces = s->pieces;
    if (pieces->n < pieces->n_kept) {
        if (!reserve_piece(pieces)) {
            s->status = HS_NO_MEMORY;
            return;
        }
        pieces->items[pieces->n] = (hs__piece){id, s->word, start, end};
    }
    pieces->n++;
}

/* Greedy longest match, first; false when some rest of the word matches nothing. */
static bool put_word_pieces(scanner *s)
{
    const hs_tokenizer *tokenizer = s->tokenizer;
    uint32_t node = HS__TRIE_ROOT;
    for (size_t at = 0; at < s->n_bytes; node = tokenizer->continuation) {
        size_t length = 0;
        const int32_t id = node == HS__TRIE_NONE ? -1
                                                 : hs__trie_longest(&tokenizer->vocab, node, s->bytes + at,
                                                                    s->n_bytes - at, &length);
        if (id < 0)
            return false;
        put_piece(s, id, s->origin[at], s->origin[at + length - 1] + 1);
        at += length;
    }
    return true;
}

/* Nothing more is counted once it is enough. Whether it is, is asked only behind words, not behind special
 * tokens: so does the oracle. */
static void end_word(scanner *s)
{
    if (!s->n_chars || s->enough)
        return;
    const size_t n_before = s->pieces->n;
    if (s->n_chars > s->tokenizer->word_chars_max || !put_word_pieces(s)) {
        s->pieces->n = n_before;
        put_piece(s, s->tokenizer->special.unk, s->word_start, s->word_last + 1);
    }
    s->word++;
    s->n_chars = s->n_bytes = 0;
    s->enough = s->pieces->n >= s->pieces->n_enough;
}

/* ---- characters to words ---- */

static void append(scanner *s, uint32_t code_point, uint32_t origin)
{
    if (!s->n_chars)
        s->word_start = origin;
    s->word_last = origin;
    if (s->n_chars++ >= s->tokenizer->word_chars_max)
        return;
    const size_t length = hs__utf8_put(code_point, s->bytes + s->n_bytes);
    for (size_t i = 0; i < length; i++)
        s->origin[s->n_bytes++] = origin;
}

/* A character after NFD and the removal of marks. */
static void put_char(scanner *s, uint32_t code_point, unsigned class, uint32_t origin)
{
    if (class & HS__PUNCTUATION) {
        end_word(s);
        append(s, code_point, origin);
        end_word(s);
    } else if (s->tokenizer->lowercase && (class & HS__CASED)) {
        append(s, hs__unicode_lower(code_point), origin);
        if (code_point == 0x130)
            append(s, 0x307, origin);
    } else {
        append(s, code_point, origin);
    }
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
    if (s->at == s->end || (s->at > checked && match_added(s, &length) >= 0))
        return false;
    const unsigned char *next = s->at;
    const uint32_t code_point = hs__utf8_next(&next);
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
        while ((*previous & 0xC0) == 0x80)
            previous--;
        const unsigned char *cursor = previous;
        const uint32_t before = hs__utf8_next(&cursor);
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
static void split_run(scanner *s, uint32_t code_point)
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
static void split_char(scanner *s)
{
    const hs_tokenizer *tokenizer = s->tokenizer;
    const unsigned char *next = s->at;
    const uint32_t code_point = hs__utf8_next(&next);
    const unsigned class = hs__unicode_class(code_point);
    if (tokenizer->strip_accents && (class & HS__REORDERS)) {
        split_run(s, code_point);
        return;
    }
    if (is_dropped(s, class)) {
        /* nothing, not even the end of a word */
    } else if (class & HS__SPACE) {
        end_word(s);
    } else {
        const bool ideograph = tokenizer->split_ideographs && (class & HS__IDEOGRAPH);
        if (ideograph)
            end_word(s);
        if (tokenizer->strip_accents)
            put_stripped(s, code_point, class, s->index);
        else
            put_char(s, code_point, class, s->index);
        if (ideograph)
            end_word(s);
    }
    s->at = next;
    s->index++;
}

/* Consumes ASCII letters, which are most of most texts: what split_char would do with them, but faster. */
static void split_letters(scanner *s)
{
    const hs_tokenizer *tokenizer = s->tokenizer;
    const unsigned char *at = s->at;
    uint32_t index = s->index;
    if (!s->n_chars)
        s->word_start = index;
    while (at < s->end && tokenizer->kinds[*at] == HS__KIND_LETTER) {
        if (s->n_chars++ < tokenizer->word_chars_max) {
            s->origin[s->n_bytes] = index;
            s->bytes[s->n_bytes++] = tokenizer->lower[*at];
        }
        at++;
        index++;
    }
    s->word_last = index - 1;
    s->at = at;
    s->index = index;
}

static uint32_t count_chars(const unsigned char *bytes, size_t n_bytes)
{
    uint32_t n = 0;
    for (size_t i = 0; i < n_bytes; i++)
        n += (bytes[i] & 0xC0) != 0x80;
    return n;
}

/* Consumes an added token of n_bytes at s->at: a word of its own, as it is. */
static void split_added(scanner *s, int32_t id, size_t n_bytes)
{
    const uint32_t n_chars = count_chars(s->at, n_bytes);
    end_word(s);
    if (s->enough)
        return;
    put_piece(s, id, s->index, s->index + n_chars);
    s->word++;
    s->index += n_chars;
    s->at += n_bytes;
    s->segment = s->at;
}

static void split_text(scanner *s)
{
    const unsigned char *search_from = s->at;
    while (s->at < s->end && !s->status && !s->enough) {
        const uint8_t kind = s->tokenizer->kinds[*s->at];
        if (kind == HS__KIND_LETTER) {
            split_letters(s);
            continue;
        }
        if (kind == HS__KIND_SPACE) {
            end_word(s);
            s->at++;
            s->index++;
            continue;
        }
        if (s->at >= search_from) {
            size_t length;
            const int32_t id = match_added(s, &length);
            if (id >= 0) {
                split_added(s, id, length);
                continue;
            }
            search_from = s->at + length;
        }
        split_char(s);
    }
    if (!s->status)
        end_word(s);
}

hs_status hs__text_split(const hs_tokenizer *tokenizer, const hs_text *text, bool split_special,
                         hs__pieces *pieces, hs_error *err)
{
    const unsigned char *bytes = (const unsigned char *)text->bytes;
    scanner s = {
        .tokenizer = tokenizer,
        .segment = bytes,
        .at = bytes,
        .end = bytes + text->n_bytes,
        .split_special = split_special,
        .pieces = pieces,
    };
    split_text(&s);
    free(s.run);
    return s.status ? hs_fail(err, s.status, "out of memory") : HS_OK;
}
