/* pre_tokenizer_bert.c - BertPreTokenizer: splits at white space and drops it; each punctuation character is
 * a separate word. */
#include "model/tokenizer/parts.h"
#include "model/tokenizer/unicode.h"

#include <stdlib.h>

/* The class of a character by its first byte. */
enum { IN_WORD, SPACE, PUNCTUATION, NOT_ASCII };

typedef struct bert_pre_tokenizer {
    hs__part part;
    uint8_t kinds[256];
} bert_pre_tokenizer;

static uint8_t kind_of(unsigned class)
{
    return class & HS__SPACE ? SPACE : class & HS__PUNCTUATION ? PUNCTUATION : IN_WORD;
}

static hs_status create(const json_t *options, hs__part **ret_part, hs_error *err)
{
    (void)options;
    bert_pre_tokenizer *self = calloc(1, sizeof *self);
    if (!self)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    self->part.type = &hs__bert_pre_tokenizer;
    for (unsigned byte = 0; byte < 256; byte++)
        self->kinds[byte] = byte < 0x80 ? kind_of(hs__unicode_class(byte)) : NOT_ASCII;
    *ret_part = &self->part;
    return HS_OK;
}

static void destroy(hs__part *part)
{
    free(part);
}

static bool split_word(const bert_pre_tokenizer *self, const unsigned char *bytes, hs__span word,
                       hs__spans *words)
{
    size_t start = word.start;
    bool ok = true;
    for (size_t at = word.start; ok;) {
        while (at < word.end && self->kinds[bytes[at]] == IN_WORD)
            at++;
        if (at == word.end)
            break;
        const unsigned char *next = bytes + at + 1;
        uint8_t kind = self->kinds[bytes[at]];
        if (kind == NOT_ASCII) {
            next = bytes + at;
            kind = kind_of(hs__unicode_class(hs_utf8_next(&next)));
        }
        const size_t end = (size_t)(next - bytes);
        if (kind != IN_WORD) {
            ok = hs__spans_put(words, start, at) && (kind == SPACE || hs__spans_put(words, at, end));
            start = end;
        }
        at = end;
    }
    return ok && hs__spans_put(words, start, word.end);
}

static bool split(const hs__part *part, hs__split *split)
{
    const hs__spans uncut = split->words;
    split->words = split->uncut;
    split->uncut = uncut;
    split->words.n = 0;
    bool ok = true;
    for (size_t i = 0; i < uncut.n && ok; i++)
        ok = split_word((const bert_pre_tokenizer *)part, split->text->bytes, uncut.items[i], &split->words);
    return ok;
}

const hs__part_type hs__bert_pre_tokenizer = {.stage = HS__PRE_TOKENIZER,
                                              .name = "BertPreTokenizer",
                                              .create = create,
                                              .destroy = destroy,
                                              .cuts_at_punctuation = true,
                                              .split = split};
