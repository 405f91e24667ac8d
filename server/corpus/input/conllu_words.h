/* conllu_words.h - the words of a CoNLL-U sentence with their syntactic heads, and where they are in its
 * text.
 *
 * Words are those of the text: a range such as 8-9 ("don't") is one word. Its head is the first head of its
 * parts that lies outside, with that part's relation. */
#pragma once

#include "engine/statistics/syntax.h"
#include "model/tokenizer/tokenizer.h"

#define HS__SENTENCE_WORDS_MAX HS_SYNTAX_WORDS_MAX

typedef struct hs__sentence_word {
    uint32_t start, end;  /* half-open, in code points of the text */
    int32_t head;         /* number of the word; -1: a root, or unknown */
    const char *relation; /* in the record */
    size_t n_relation;
    const char *pos; /* universal part of speech, in the record */
    size_t n_pos;
} hs__sentence_word;

typedef struct hs__sentence {
    hs__sentence_word *words; /* owned */
    size_t n_words;
} hs__sentence;

/* Finds the words of a record in its text, which must be valid UTF-8. HS_NOT_FOUND: the record has no words,
 * more than HS__SENTENCE_WORDS_MAX, or words that are not in the text. HS_NO_MEMORY. The record must outlive
 * the sentence, which the caller finishes, also after a failure. */
HS_MUST_USE hs_status hs__sentence_find(const char *record, size_t n_bytes, const hs_text *text,
                                        hs__sentence *ret_sentence);
void hs__sentence_finish(hs__sentence *sentence); /* zeroed is fine */
