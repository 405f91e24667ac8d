/* sentence_words.c - walks the tokens and the words of a sentence side by side: both ascend in the text. */
#include "server/corpus/run/sentence_words.h"

#include "model/base/utf8.h"

#include <stdlib.h>
#include <string.h>

static void tokens_place(const hs__sentence *sentence, const hs_encoding *e, size_t first, size_t end,
                         int32_t *ret_words)
{
    size_t w = 0;
    for (size_t i = first; i < end; i++) {
        ret_words[i - first] = -1;
        if (e->special[i])
            continue;
        while (w < sentence->n_words && sentence->words[w].end <= e->starts[i])
            w++;
        if (w < sentence->n_words && sentence->words[w].start < e->ends[i])
            ret_words[i - first] = (int32_t)w;
    }
}

/* Finds the number of a word's relation. Names that are not UTF-8 count as "_". */
static hs_status relation_find(const hs__sentence_word *word, hs_syntax *syntax, uint16_t *ret, hs_error *err)
{
    const size_t most = HS_SYNTAX_NAME_BYTES - 1;
    size_t n = word->n_relation, at;
    n = n > most ? hs_utf8_whole(word->relation, most) : n;
    const bool sound = n > 0 && hs_utf8_valid(word->relation, n) == n && !memchr(word->relation, 0, n);
    const hs_status st =
        hs_syntax_relation_add(syntax, sound ? word->relation : "_", sound ? n : 1, &at, err);
    *ret = st ? 0 : (uint16_t)at;
    return st;
}

hs_status hs__sentence_words_make(const hs__sentence *sentence, const hs_encoding *e, size_t first,
                                  size_t end, hs_syntax *syntax, hs_syntax_text *ret, hs_error *err)
{
    const size_t T = end - first, W = sentence->n_words;
    int32_t *words = calloc(1, (T + W) * sizeof *words + W * sizeof *ret->relations);
    if (!words)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the words of a sentence");
    hs_syntax_text text = {.n_tokens = T, .words = words, .heads = words + T};
    text.relations = (uint16_t *)(text.heads + W);
    tokens_place(sentence, e, first, end, words);
    for (size_t i = 0; i < T; i++) /* words after the last token are not counted */
        text.n_words = words[i] >= 0 ? (size_t)words[i] + 1 : text.n_words;
    hs_status st = HS_OK;
    for (size_t w = 0; !st && w < text.n_words; w++) {
        text.heads[w] = sentence->words[w].head < (int32_t)text.n_words ? sentence->words[w].head : -1;
        text.relations[w] = 0;
        if (text.heads[w] >= 0)
            st = relation_find(&sentence->words[w], syntax, &text.relations[w], err);
    }
    if (st)
        free(words);
    else
        *ret = text;
    return st;
}
