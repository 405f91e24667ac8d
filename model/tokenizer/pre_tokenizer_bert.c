/* pre_tokenizer_bert.c - BertPreTokenizer: splits at white space and drops it; each punctuation character is
 * a separate word. */
#include "model/tokenizer/tokenizer_internal.h"

#include "model/tokenizer/unicode.h"

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

static hs_status configure(hs__part *part, const json_t *options, hs_error *err)
{
    (void)options;
    (void)err;
    bert_pre_tokenizer *self = (bert_pre_tokenizer *)part;
    for (unsigned byte = 0; byte < 256; byte++)
        self->kinds[byte] = byte < 0x80 ? kind_of(hs__unicode_class(byte)) : NOT_ASCII;
    return HS_OK;
}

static bool split(const hs__part *part, const hs__aligned_text *from, hs__span word, hs__aligned_text *to,
                  hs__spans *words)
{
    (void)to;
    const uint8_t *kinds = ((const bert_pre_tokenizer *)part)->kinds;
    const unsigned char *bytes = from->bytes;
    size_t start = word.start;
    bool ok = true;
    for (size_t at = word.start; ok;) {
        while (at < word.end && kinds[bytes[at]] == IN_WORD)
            at++;
        if (at == word.end)
            break;
        const unsigned char *next = bytes + at + 1;
        uint8_t kind = kinds[bytes[at]];
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

const hs__part_type hs__bert_pre_tokenizer = {.stage = HS__PRE_TOKENIZER,
                                              .name = "BertPreTokenizer",
                                              .size = sizeof(bert_pre_tokenizer),
                                              .configure = configure,
                                              .cuts_at_punctuation = true,
                                              .split = split};
