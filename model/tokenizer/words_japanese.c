/* words_japanese.c - the parts of BertJapaneseTokenizer that other tokenizers do not have. transformers has
 * the class in Python; older_japanese.c makes the pipeline. */
#include "model/tokenizer/tokenizer_internal.h"

#include <stdlib.h>

/* ---- MeCab: words by a dictionary ---- */

typedef struct mecab_words {
    hs__part part;
    hs__mecab *mecab;
} mecab_words;

static hs_status configure_mecab(hs__part *part, const json_t *options, hs_error *err)
{
    const char *dictionary = NULL;
    const hs_status st = hs__option_text(options, "tokenizer.json", "dictionary", &dictionary, err);
    return st ? st : hs__mecab_open(dictionary, &((mecab_words *)part)->mecab, err);
}

static void finish_mecab(hs__part *part)
{
    hs__mecab_close(((mecab_words *)part)->mecab);
}

static bool split_mecab(const hs__part *part, const hs__aligned_text *from, hs__span word,
                        hs__aligned_text *to, hs__spans *words)
{
    (void)to;
    return hs__mecab_cut(((const mecab_words *)part)->mecab, from->bytes, word, words);
}

const hs__part_type hs__mecab_pre_tokenizer = {.stage = HS__PRE_TOKENIZER,
                                               .name = "MeCab",
                                               .size = sizeof(mecab_words),
                                               .configure = configure_mecab,
                                               .finish = finish_mecab,
                                               .enough_bytes = 8 << 10,
                                               .split = split_mecab};

/* ---- WordNormalizer: Lowercase or NFKC of each word by itself ----
 *
 * Lower case comes after MeCab, and may need composition again: H and U+0331 have no common character, but h
 * and U+0331 have one. */

typedef struct word_normalizer {
    hs__part part;
    hs__part *normalizer;
} word_normalizer;

static hs_status configure_normalizer(hs__part *part, const json_t *options, hs_error *err)
{
    const char *name = json_string_value(json_object_get(options, "normalizer"));
    const hs__part_type *type = name && strcmp(name, "Lowercase") == 0 ? &hs__lowercase : &hs__nfkc;
    hs__part *normalizer = ((word_normalizer *)part)->normalizer = calloc(1, type->size);
    if (!normalizer)
        return hs_fail(err, HS_NO_MEMORY, "out of memory");
    normalizer->type = type;
    return type->configure ? type->configure(normalizer, options, err) : HS_OK;
}

static void finish_normalizer(hs__part *part)
{
    free(((word_normalizer *)part)->normalizer);
}

static bool split_normalized(const hs__part *part, const hs__aligned_text *from, hs__span word,
                             hs__aligned_text *to, hs__spans *words)
{
    const hs__part *normalizer = ((const word_normalizer *)part)->normalizer;
    const hs__text_view view = {.bytes = from->bytes + word.start,
                                .n_bytes = word.end - word.start,
                                .sources = from->sources + word.start};
    const size_t start = to->n_bytes;
    return normalizer->type->normalize(normalizer, &view, to) && hs__spans_put(words, start, to->n_bytes);
}

const hs__part_type hs__word_normalizer = {.stage = HS__PRE_TOKENIZER,
                                           .name = "WordNormalizer",
                                           .size = sizeof(word_normalizer),
                                           .configure = configure_normalizer,
                                           .finish = finish_normalizer,
                                           .rewrites = true,
                                           .split = split_normalized};
