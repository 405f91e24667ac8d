/* analysis_text.c - sentences and repeated tokens of a text. */
#include "engine/analysis/analysis.h"

void hs_sentences_find(const uint8_t *ends, const uint8_t *texts, const uint8_t *special, size_t n_tokens,
                       int32_t *ret_sentences)
{
    int32_t sentence = 0;
    bool after_end = false;  /* the sentence has reached an end token; more may follow */
    bool after_text = false; /* the first text of a pair has ended: the second follows */
    for (size_t i = 0; i < n_tokens; i++) {
        bool is_end = !special[i] && ends[i];
        if (after_text || (after_end && !is_end && !special[i])) {
            sentence++;
            after_end = false;
        }
        ret_sentences[i] = sentence;
        after_end = after_end || is_end;
        after_text = texts && special[i] && i + 1 < n_tokens && texts[i + 1] != texts[i];
    }
}

/* Quadratic in T, but a comparison costs a fraction of the T x d products of each pair in each head. */
void hs_repeats_find(const int32_t *ids, size_t n_tokens, int32_t *ret_first)
{
    for (size_t i = 0; i < n_tokens; i++) {
        size_t first = 0;
        while (ids[first] != ids[i])
            first++;
        ret_first[i] = (int32_t)first;
    }
}
