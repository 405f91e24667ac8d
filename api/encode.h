/* encode.h - the texts of a request as a model reads them. */
#pragma once

#include "api/request/request.h"

/* The text that the answer is about. Zeroed memory is no text. */
typedef struct hs__job_text {
    hs_encoding encoding;
    hs_windows windows; /* of the whole text, if the request names one; n 0: it does not */
    size_t n_prompt;    /* tokens of the prompt and before it; 0: none */
    size_t n_given;     /* tokens before those that the model wrote; 0: it wrote none */
    int32_t *sentences; /* [T], owned; the block holds ends too */
    uint8_t *ends;      /* [T]: 1 where a sentence ends */
} hs__job_text;

/* All texts of a request. Sequences point into it, so it stays where it is. It owns the encodings; those that
 * the request does not have are empty. A source has as many tokens as the text. */
typedef struct hs__texts {
    hs__job_text text;                    /* of a decoder: what it reads itself */
    hs_encoding encoder;                  /* of a decoder: the text whose states it reads */
    hs_encoding reader;                   /* of an encoder: what the decoder reads that effects follow */
    hs_encoding sources[HS__SOURCES_MAX]; /* that patches take values from */
    hs_encoding source_encoders[HS__SOURCES_MAX]; /* of a decoder: the same as `encoder` for each */
} hs__texts;

/* Encodes all texts and finds the sentences. On failure refuses, and *err says why if the request is not to
 * blame. The caller finishes the texts, on failure too. */
int hs__texts_encode(const hs__analysis_request *analysis, hs__texts *texts, hs__problem *problem,
                     hs_error *err);
/* Encodes only the text that the model is to continue, or of a decoder the one whose states it reads. */
int hs__texts_encode_given(const hs__analysis_request *analysis, hs__texts *texts, hs__problem *problem,
                           hs_error *err);
void hs__texts_finish(hs__texts *texts);
