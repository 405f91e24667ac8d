/* model_words.c - models that find words, or the pieces of words, in their vocabulary: WordLevel, Character
 * and WordPiece. */
#include "model/tokenizer/tokenizer_internal.h"

#include <stdlib.h>

/* ---- WordLevel, Character ----
 *
 * A word, or each character of it, is an entry of the vocabulary, or unknown. */

typedef struct word_level {
    hs__part part;
    const char *unknown_text; /* until bound */
    const hs__trie *entries;
    int32_t unknown;
} word_level;

static hs_status configure_word_level(hs__part *part, const json_t *options, hs_error *err)
{
    word_level *self = (word_level *)part;
    self->unknown_text = "<unk>";
    return hs__option_text(options, "tokenizer.json", "unk_token", &self->unknown_text, err);
}

static hs_status bind_word_level(hs__part *part, const hs__vocabulary *vocabulary, hs_error *err)
{
    word_level *self = (word_level *)part;
    self->entries = &vocabulary->entries;
    const hs_status st = hs__vocabulary_need(vocabulary, self->unknown_text, &self->unknown, err);
    self->unknown_text = NULL;
    return st;
}

static int32_t unknown_word_level(const hs__part *part)
{
    return ((const word_level *)part)->unknown;
}

static bool tokenize_word_level(const hs__part *part, const hs__aligned_text *text, hs__span word,
                                hs__pieces *pieces)
{
    const word_level *self = (const word_level *)part;
    const char *bytes = (const char *)text->bytes + word.start;
    const int32_t id = hs__trie_find(self->entries, bytes, word.end - word.start);
    return hs__pieces_put(pieces, id < 0 ? self->unknown : id,
                          (hs__range){text->sources[word.start].start, text->sources[word.end - 1].end});
}

const hs__part_type hs__word_level = {.stage = HS__MODEL,
                                      .name = "WordLevel",
                                      .size = sizeof(word_level),
                                      .configure = configure_word_level,
                                      .bind = bind_word_level,
                                      .tokenize = tokenize_word_level,
                                      .list = hs__entries_read,
                                      .unknown = unknown_word_level};

static bool tokenize_characters(const hs__part *part, const hs__aligned_text *text, hs__span word,
                                hs__pieces *pieces)
{
    const word_level *self = (const word_level *)part;
    const unsigned char *end = text->bytes + word.end;
    bool ok = true;
    for (const unsigned char *at = text->bytes + word.start, *next = at; at < end && ok; at = next) {
        (void)hs_utf8_next(&next);
        const int32_t id = hs__trie_find(self->entries, (const char *)at, (size_t)(next - at));
        ok = hs__pieces_put(pieces, id < 0 ? self->unknown : id, text->sources[at - text->bytes]);
    }
    return ok;
}

const hs__part_type hs__character = {.stage = HS__MODEL,
                                     .name = "Character",
                                     .size = sizeof(word_level),
                                     .configure = configure_word_level,
                                     .bind = bind_word_level,
                                     .tokenize = tokenize_characters,
                                     .list = hs__entries_read,
                                     .unknown = unknown_word_level};

/* ---- WordPiece ----
 *
 * Greedy longest match. It takes the longest entry that the word begins with,
 * then the longest continuation ("##ing"), and so on. If the rest of a word matches nothing, the word is one
 * unknown token. */

#define WORD_CHARS_MAX 256 /* bounds max_input_chars_per_word, 100 in every BERT */

typedef struct wordpiece {
    hs__part part;
    const char *unknown_text, *prefix; /* until bound */
    size_t word_chars_max;             /* longer words are unknown */
    const hs__trie *entries;
    uint32_t continuation; /* trie node after the prefix "##", or HS__TRIE_NONE */
    int32_t unknown;
} wordpiece;

static hs_status read_word_max(const json_t *options, size_t *value, hs_error *err)
{
    const json_t *member = json_object_get(options, "max_input_chars_per_word");
    if (!member)
        return HS_OK;
    const json_int_t number = json_is_integer(member) ? json_integer_value(member) : 0;
    if (number < 1 || number > WORD_CHARS_MAX)
        return hs_fail(err, HS_BAD_MODEL, "tokenizer.json: model.max_input_chars_per_word must be 1 to %d",
                       WORD_CHARS_MAX);
    *value = (size_t)number;
    return HS_OK;
}

static hs_status configure_wordpiece(hs__part *part, const json_t *options, hs_error *err)
{
    static const char file[] = "tokenizer.json";
    wordpiece *self = (wordpiece *)part;
    self->unknown_text = "[UNK]";
    self->prefix = "##";
    self->word_chars_max = 100;
    hs_status st = read_word_max(options, &self->word_chars_max, err);
    if (!st)
        st = hs__option_text(options, file, "unk_token", &self->unknown_text, err);
    if (!st)
        st = hs__option_text(options, file, "continuing_subword_prefix", &self->prefix, err);
    return st;
}

static bool recognize(const json_t *options)
{
    return json_object_get(options, "max_input_chars_per_word") != NULL;
}

static hs_status bind_wordpiece(hs__part *part, const hs__vocabulary *vocabulary, hs_error *err)
{
    wordpiece *self = (wordpiece *)part;
    self->entries = &vocabulary->entries;
    self->continuation = hs__trie_walk(self->entries, HS__TRIE_ROOT, self->prefix, strlen(self->prefix));
    const hs_status st = hs__vocabulary_need(vocabulary, self->unknown_text, &self->unknown, err);
    self->unknown_text = self->prefix = NULL;
    return st;
}

static int32_t unknown_wordpiece(const hs__part *part)
{
    return ((const wordpiece *)part)->unknown;
}

static bool is_too_long(const wordpiece *self, const unsigned char *bytes, size_t n_bytes)
{
    return n_bytes > self->word_chars_max &&
           hs_utf8_count((const char *)bytes, n_bytes) > self->word_chars_max;
}

static bool tokenize_wordpiece(const hs__part *part, const hs__aligned_text *text, hs__span word,
                               hs__pieces *pieces)
{
    const wordpiece *self = (const wordpiece *)part;
    const hs__range *sources = text->sources;
    const size_t n_before = pieces->n;
    uint32_t node = HS__TRIE_ROOT;
    size_t at = word.start;
    if (is_too_long(self, text->bytes + at, word.end - at))
        node = HS__TRIE_NONE;
    for (size_t length = 0; at < word.end; at += length, node = self->continuation) {
        const int32_t id = node == HS__TRIE_NONE ? -1
                                                 : hs__trie_longest(self->entries, node, text->bytes + at,
                                                                    word.end - at, &length);
        if (id < 0) {
            pieces->n = n_before;
            return hs__pieces_put(pieces, self->unknown,
                                  (hs__range){sources[word.start].start, sources[word.end - 1].end});
        }
        if (!hs__pieces_put(pieces, id, (hs__range){sources[at].start, sources[at + length - 1].end}))
            return false;
    }
    return true;
}

const hs__part_type hs__wordpiece = {.stage = HS__MODEL,
                                     .name = "WordPiece",
                                     .size = sizeof(wordpiece),
                                     .configure = configure_wordpiece,
                                     .bind = bind_wordpiece,
                                     .tokenize = tokenize_wordpiece,
                                     .recognize = recognize,
                                     .list = hs__entries_read,
                                     .unknown = unknown_wordpiece};
