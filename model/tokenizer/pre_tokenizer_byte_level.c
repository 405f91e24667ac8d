/* pre_tokenizer_byte_level.c - ByteLevel (Radford et al. 2019, GPT-2): words with the space before them, then
 * every byte as a character, so that a vocabulary of 256 characters can write any text.
 *
 * Words are what GPT-2's regular expression finds,
 *     's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 * read here by a scanner: every character is in some word, so each alternative is tried where the last word
 * ended. Printable bytes of Latin-1 are their own characters; the other 68, in order, are U+0100 and on: a
 * space is U+0120. */
#include "model/tokenizer/part_options.h"
#include "model/tokenizer/parts.h"
#include "model/tokenizer/unicode.h"

#include <stdlib.h>

#define FILE_NAME "tokenizer.json"

/* What the expression tells apart. */
enum { SPACE, LETTER, NUMBER, OTHER };

typedef struct byte_level {
    hs__part part;
    bool add_prefix_space, use_regex;
    uint8_t kinds[128];       /* of ASCII */
    uint16_t characters[256]; /* that stand for bytes */
} byte_level;

/* ---- the part ---- */

static uint8_t kind_of(uint32_t code_point)
{
    if (hs__unicode_class(code_point) & HS__SPACE)
        return SPACE;
    const unsigned kind = hs__unicode_kind(code_point);
    return kind & HS__LETTER ? LETTER : kind & HS__NUMBER ? NUMBER : OTHER;
}

static void fill_tables(byte_level *self)
{
    uint16_t next = 0x100;
    for (unsigned byte = 0; byte < 256; byte++) {
        const bool printable = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
        self->characters[byte] = printable ? (uint16_t)byte : next++;
        if (byte < 128)
            self->kinds[byte] = kind_of(byte);
    }
}

static hs_status create(const json_t *options, hs__part **ret_part, hs_error *err)
{
    byte_level made = {
        .part.type = &hs__byte_level_pre_tokenizer, .add_prefix_space = true, .use_regex = true};
    hs_status st = hs__option_bool(options, FILE_NAME, "add_prefix_space", &made.add_prefix_space, err);
    if (!st)
        st = hs__option_bool(options, FILE_NAME, "use_regex", &made.use_regex, err);
    if (st)
        return st;
    byte_level *self = malloc(sizeof *self);
    if (!self)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    *self = made;
    fill_tables(self);
    *ret_part = &self->part;
    return HS_OK;
}

static void destroy(hs__part *part)
{
    free(part);
}

/* ---- words ---- */

typedef struct cursor {
    const byte_level *self;
    const unsigned char *at, *end;
} cursor;

/* The kind of the character at c->at < c->end; *ret_next is behind it. */
static uint8_t kind_at(const cursor *c, const unsigned char **ret_next)
{
    *ret_next = c->at;
    const uint32_t code_point = hs_utf8_next(ret_next);
    return code_point < 128 ? c->self->kinds[code_point] : kind_of(code_point);
}

/* Moves over characters of one kind; returns where the last of them begins. */
static const unsigned char *skip(cursor *c, uint8_t kind)
{
    const unsigned char *last = c->at;
    const unsigned char *next;
    while (c->at < c->end && kind_at(c, &next) == kind) {
        last = c->at;
        c->at = next;
    }
    return last;
}

/* The length of a contraction at the cursor, or 0. */
static size_t contraction(const cursor *c)
{
    static const char *const endings[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t length = strlen(endings[i]);
        if ((size_t)(c->end - c->at) >= length && memcmp(c->at, endings[i], length) == 0)
            return length;
    }
    return 0;
}

/* Moves over one word. After a space that was put there the word goes on, and may be nothing but it. */
static void next_word(cursor *c, bool after_space)
{
    const unsigned char *const start = c->at;
    const size_t length = after_space || *start != '\'' ? 0 : contraction(c);
    if (length) {
        c->at += length;
        return;
    }
    const unsigned char *next;
    if (!after_space && *start == ' ')
        c->at++;
    const uint8_t kind = c->at < c->end ? kind_at(c, &next) : (uint8_t)SPACE;
    if (kind != SPACE) {
        skip(c, kind);
        return;
    }
    /* White space leaves its last character to the word behind it. */
    c->at = start;
    const unsigned char *last = skip(c, SPACE);
    if (c->at < c->end && (after_space || last > start))
        c->at = last;
}

/* ---- bytes ---- */

static bool put_byte(const byte_level *self, unsigned char byte, hs__range source, hs__aligned_text *to)
{
    return hs__aligned_text_put(to, self->characters[byte], source);
}

/* The words of one span, to the rewritten text. */
static bool split_span(const byte_level *self, const hs__aligned_text *from, hs__span span,
                       hs__aligned_text *to, hs__spans *words)
{
    cursor c = {self, from->bytes + span.start, from->bytes + span.end};
    bool prefix = self->add_prefix_space && *c.at != ' ';
    bool ok = hs__aligned_text_reserve(to, 2 * (span.end - span.start) + 4);
    for (size_t at = span.start; ok && c.at < c.end; prefix = false) {
        const size_t start = to->n_bytes;
        if (self->use_regex)
            next_word(&c, prefix);
        else
            c.at = c.end;
        if (prefix)
            ok = put_byte(self, ' ', from->sources[at], to);
        for (const size_t end = (size_t)(c.at - from->bytes); ok && at < end; at++)
            ok = put_byte(self, from->bytes[at], from->sources[at], to);
        ok = ok && hs__spans_put(words, start, to->n_bytes);
    }
    return ok;
}

static bool split(const hs__part *part, hs__split *split)
{
    const hs__spans uncut = split->words;
    hs__aligned_text *to = &split->rewritten[split->text == &split->rewritten[0]];
    split->words = split->uncut;
    split->uncut = uncut;
    split->words.n = 0;
    to->n_bytes = 0;
    bool ok = true;
    for (size_t i = 0; i < uncut.n && ok; i++)
        ok = split_span((const byte_level *)part, split->text, uncut.items[i], to, &split->words);
    split->text = to;
    return ok;
}

const hs__part_type hs__byte_level_pre_tokenizer = {
    .stage = HS__PRE_TOKENIZER, .name = "ByteLevel", .create = create, .destroy = destroy, .split = split};
