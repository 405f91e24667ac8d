/* merged_words.c - the words of a text: which of its tokens belong together. */
#include "api/request/encode.h"

#include <string.h>

/* Returns true if the token begins with the space of SentencePiece, whose models may see a text as one word.
 */
static bool begins_word(const hs_tokenizer *tokenizer, int32_t id)
{
    static const char space[] = "\u2581";
    return strncmp(hs_tokenizer_token(tokenizer, id), space, strlen(space)) == 0;
}

size_t hs__word_end(const hs_tokenizer *tokenizer, const hs_encoding *side, size_t first)
{
    size_t end = first + 1;
    while (side->word_ids[first] >= 0 && end < side->n_tokens &&
           side->word_ids[end] == side->word_ids[first] && side->texts[end] == side->texts[first] &&
           side->types[end] == side->types[first] && !begins_word(tokenizer, side->ids[end]))
        end++;
    return end;
}

size_t hs__words_count(const hs_tokenizer *tokenizer, const hs_encoding *side)
{
    size_t n = 0;
    for (size_t first = 0; first < side->n_tokens; first = hs__word_end(tokenizer, side, first))
        n++;
    return n;
}

void hs__words_find(const hs_tokenizer *tokenizer, const hs_encoding *side, size_t *ret_starts)
{
    size_t n = 0;
    for (size_t first = 0; first < side->n_tokens; first = hs__word_end(tokenizer, side, first))
        ret_starts[n++] = first;
    ret_starts[n] = side->n_tokens;
}

void hs__words_complete(hs__analysis_request *analysis)
{
    if (analysis->outputs & HS__OUTPUTS_OF_WORDS)
        analysis->outputs |= HS__OUTPUT_BIT(word_tokens);
    if (analysis->outputs & HS__OUTPUT_BIT(word_attentions) && analysis->stack == HS_STACK_CROSS)
        analysis->outputs |= HS__OUTPUT_BIT(source_word_tokens);
}
