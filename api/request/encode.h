/* encode.h - the texts of a request as a model reads them. */
#pragma once

#include "api/request/request.h"

/* A text as a model reads it, with both sides of its maps: their rows are the tokens of `rows`, and their
 * columns those of `keys`. Owns its encodings; those that it does not have are empty. It stays where it is,
 * because keys points into it. */
typedef struct hs__text_read {
    hs_encoding rows;        /* what the model reads itself: of a decoder its target */
    hs_encoding memory;      /* of a decoder: the text whose last states it reads */
    const hs_encoding *keys; /* what the requested heads attend to: rows, or of cross heads memory */
    /* The request's text has these, too. */
    hs_encoding reader; /* of an encoder: the target of its decoder, if effects follow that one */
    hs_windows windows; /* of the whole text, if the request names one; n 0: it does not */
    size_t n_prompt;    /* tokens of the prompt and before it; 0: none */
    size_t n_given;     /* tokens before those that the model wrote; 0: it wrote none */
    int32_t *sentences; /* [T], owned; the block holds ends too */
    uint8_t *ends;      /* [T]: 1 where a sentence ends */
} hs__text_read;

/* Returns the tokens of the memory if the requested heads attend to it, else 0: n_memory of hs_selection. */
static inline size_t hs__text_n_memory(const hs__text_read *text)
{
    return text->keys == &text->memory ? text->memory.n_tokens : 0;
}

/* Returns the tokens that a target is read from: those of the reader, or without one the rows. */
static inline const hs_encoding *hs__text_followed(const hs__text_read *text)
{
    return text->reader.n_tokens > 0 ? &text->reader : &text->rows;
}

/* All texts of a request. Sequences point into it, so it stays where it is. */
typedef struct hs__texts {
    hs__text_read text;                     /* what the answer is about */
    hs__text_read sources[HS__SOURCES_MAX]; /* that interventions take values from */
} hs__texts;

/* Encodes all texts and finds the sentences. On failure refuses, and *err says why if the request is not to
 * blame. The caller finishes the texts, on failure too. */
int hs__texts_encode(const hs__analysis_request *analysis, hs__texts *texts, hs__problem *problem,
                     hs_error *err);
/* Encodes only the text that the model is to continue, or of a decoder the one whose states it reads. */
int hs__texts_encode_given(const hs__analysis_request *analysis, hs__texts *texts, hs__problem *problem,
                           hs_error *err);
void hs__texts_finish(hs__texts *texts);

/* ---- words (merged_words.c) ----
 *
 * A word is a run of tokens with the same number of word, of one text and one type. It ends before a token
 * that begins with SentencePiece's space. A token without such a number is a word by itself: special tokens,
 * those of a prompt, and ids that were given. */

/* Returns where the word ends that begins at token `first`, which is below n_tokens. */
size_t hs__word_end(const hs_tokenizer *tokenizer, const hs_encoding *side, size_t first);
size_t hs__words_count(const hs_tokenizer *tokenizer, const hs_encoding *side);
/* Writes where each word begins, and behind the last one n_tokens: hs__words_count and one more. */
void hs__words_find(const hs_tokenizer *tokenizer, const hs_encoding *side, size_t *ret_starts);
