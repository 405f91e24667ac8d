/* one_text_pass.h - analyses one text of the corpus for the figures that show a single text. */
#pragma once

#include "server/corpus/run/corpus_run.h"

/* Analyses the beginning of a text, at most HS__ONE_TEXT_TOKENS tokens, and returns what
 * server/corpus/report/one_text.h reads. figures: the text's figures of hs__example. *ret is NULL if the text
 * cannot be encoded. Needs a workspace that nobody uses, of as many tokens. HS_NO_MEMORY. HS_CANCELLED:
 * *job->stop became non-zero. */
HS_MUST_USE hs_status hs__one_text_make(const hs__corpus_job *job, hs_workspace *workspace,
                                        const hs__example *example, json_t **ret, hs_error *err);
/* Returns the bytes of memory that it takes. */
uint64_t hs__one_text_bytes(const hs__corpus_job *job);
