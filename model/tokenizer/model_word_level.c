/* model_word_level.c - WordLevel: a word is an entry of the vocabulary, or unknown. */
#include "model/tokenizer/part_options.h"
#include "model/tokenizer/parts.h"

#include <stdlib.h>

typedef struct word_level {
    hs__part part;
    const char *unknown_text; /* until bound */
    const hs__trie *entries;
    int32_t unknown;
} word_level;

static hs_status create(const json_t *options, hs__part **ret_part, hs_error *err)
{
    word_level made = {.part.type = &hs__word_level, .unknown_text = "<unk>"};
    const hs_status st = hs__option_text(options, "tokenizer.json", "unk_token", &made.unknown_text, err);
    if (st)
        return st;
    word_level *self = malloc(sizeof *self);
    if (!self)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    *self = made;
    *ret_part = &self->part;
    return HS_OK;
}

static void destroy(hs__part *part)
{
    free(part);
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
                                      .create = create,
                                      .bind = bind,
                                      .destroy = destroy,
                                      .tokenize = tokenize,
                                      .unknown = unknown};
