/* records.h - what a record holds: its text or pair of texts, its label, its words (CoNLL-U). */
#pragma once

#include "engine/statistics/syntax.h"
#include "model/tokenizer/tokenizer.h"
#include "server/corpus/input/text_format.h"

#include <jansson.h>

typedef struct hs__record_text {
    hs_text text, pair; /* pair.bytes NULL: there is no second text */
    json_t *json;       /* owns the texts of a JSON record */
    char *copies[2];    /* own texts that were assembled; NULL: the text is in the record */
    char why[128];
} hs__record_text;

/* Finds the text of a record, and its second text if there is one. given names them in JSON objects: without
 * a field the text is text, or else tokens; without a pair_field the second text may be missing or null. The
 * layout names the columns of a row. A list of strings is a text of words in tokens and in a field that is
 * named; elsewhere, and if an element has white space, it is refused. HS_BAD_REQUEST: there is none;
 * ret_value->why is the reason. HS_NO_MEMORY. The record must outlive the value. Call hs__record_text_finish
 * after a failure too. The texts may be invalid UTF-8. */
HS_MUST_USE hs_status hs__record_text_find(const hs__record_layout *layout, const hs__input_format *given,
                                           const char *record, size_t n_bytes, hs__record_text *ret_value);

/* Finds the label of a record whose text was found: a string or an integer, as text. Release *ret_label with
 * free. HS_BAD_REQUEST: there is none; value->why is the reason. HS_NO_MEMORY. */
HS_MUST_USE hs_status hs__record_label_find(const hs__record_layout *layout, const char *field,
                                            const char *record, size_t n_bytes, hs__record_text *value,
                                            char **ret_label);

void hs__record_text_finish(hs__record_text *value);

/* ---- the words of a CoNLL-U sentence with their syntactic heads, and where they are in its
 * text.
 *
 * Words are those of the text: a range such as 8-9 ("don't") is one word. Its head is the first head of its
 * parts that lies outside, with that part's relation. */

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
