/* pre_tokenizer_byte_level.c - ByteLevel (Radford et al. 2019, GPT-2): cuts words with the space before them,
 * then writes every byte as a character, so that a vocabulary of 256 characters can write any text.
 *
 * Words are the matches of GPT-2's regular expression, unless use_regex is false. Printable bytes of Latin-1
 * are written as themselves. The other 68 are written, in order, as U+0100 and up; a space is U+0120. */
#include "model/tokenizer/tokenizer_internal.h"

#define FILE_NAME "tokenizer.json"

typedef struct byte_level {
    hs__part part;
    bool add_prefix_space, use_regex;
    hs__word_scanner words;
    uint16_t characters[256]; /* the character that stands for each byte */
} byte_level;

/* ---- the part ---- */

static void fill_characters(byte_level *self)
{
    uint16_t next = 0x100;
    for (unsigned byte = 0; byte < 256; byte++) {
        const bool printable = (byte > 0x20 && byte < 0x7F) || (byte > 0xA0 && byte != 0xAD);
        self->characters[byte] = printable ? (uint16_t)byte : next++;
    }
}

static hs_status configure(hs__part *part, const json_t *options, hs_error *err)
{
    byte_level *self = (byte_level *)part;
    self->add_prefix_space = self->use_regex = true;
    self->words = hs__word_scanner_create(hs__word_rules_gpt2());
    fill_characters(self);
    hs_status st = hs__option_bool(options, FILE_NAME, "add_prefix_space", &self->add_prefix_space, err);
    if (!st)
        st = hs__option_bool(options, FILE_NAME, "use_regex", &self->use_regex, err);
    return st;
}

/* ---- bytes ---- */

static bool put_byte(const byte_level *self, unsigned char byte, hs__range source, hs__aligned_text *to)
{
    return hs__aligned_text_put(to, self->characters[byte], source);
}

/* Cuts one span into words and writes them to the rewritten text. */
static bool split(const hs__part *part, const hs__aligned_text *from, hs__span span, hs__aligned_text *to,
                  hs__spans *words)
{
    const byte_level *self = (const byte_level *)part;
    const unsigned char *next = from->bytes + span.start;
    const unsigned char *const stop = from->bytes + span.end;
    bool prefix = self->add_prefix_space && *next != ' ';
    bool ok = hs__aligned_text_reserve(to, span.end - span.start);
    for (size_t at = span.start; ok && next < stop; prefix = false) {
        const size_t start = to->n_bytes;
        next = self->use_regex ? hs__word_end(&self->words, next, stop, prefix) : stop;
        if (prefix)
            ok = put_byte(self, ' ', from->sources[at], to);
        for (const size_t end = (size_t)(next - from->bytes); ok && at < end; at++)
            ok = put_byte(self, from->bytes[at], from->sources[at], to);
        ok = ok && hs__spans_put(words, start, to->n_bytes);
    }
    return ok;
}

const hs__part_type hs__byte_level_pre_tokenizer = {.stage = HS__PRE_TOKENIZER,
                                                    .name = "ByteLevel",
                                                    .size = sizeof(byte_level),
                                                    .configure = configure,
                                                    .rewrites = true,
                                                    .split = split};
