/* model_word_level.c - WordLevel: a word is an entry of the vocabulary, or unknown. */
#include "model/tokenizer/tokenizer_internal.h"

typedef struct word_level {
    hs__part part;
    const char *unknown_text; /* until bound */
    const hs__trie *entries;
    int32_t unknown;
} word_level;

static hs_status configure(hs__part *part, const json_t *options, hs_error *err)
{
    word_level *self = (word_level *)part;
    self->unknown_text = "<unk>";
    return hs__option_text(options, "tokenizer.json", "unk_token", &self->unknown_text, err);
}

static hs_status bind(hs__part *part, const hs__vocabulary *vocabulary, hs_error *err)
{
    word_level *self = (word_level *)part;
    self->entries = &vocabulary->entries;
    const hs_status st = hs__vocabulary_need(vocabulary, self->unknown_text, &self->unknown, err);
    self->unknown_text = NULL;
    return st;
}

static int32_t unknown(const hs__part *part)
{
    return ((const word_level *)part)->unknown;
}

static bool tokenize(const hs__part *part, const hs__aligned_text *text, hs__span word, hs__pieces *pieces)
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
                                      .configure = configure,
                                      .bind = bind,
                                      .tokenize = tokenize,
                                      .unknown = unknown};
