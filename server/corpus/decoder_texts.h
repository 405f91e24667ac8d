/* decoder_texts.h - what a decoder reads in a run: the tokens of both texts, and the encoder's states of the
 * first.
 *
 * The statistics are of the second text, the target. The first one, the source, is computed by the encoder
 * in a pass before that of the decoder. */
#pragma once

#include "server/corpus/corpus.h"

/* Encodes a source and its target, each cut to max_tokens; the target begins with the decoder's start token.
 * Fails as hs_tokenizer_encode. The caller finishes both encodings, which are zeroed after a failure. */
HS_MUST_USE hs_status hs__decoder_texts_encode(const hs__corpus_job *job, const hs_text *source,
                                               const hs_text *target, size_t max_tokens,
                                               hs_encoding *ret_source, hs_encoding *ret_target,
                                               hs_error *err);

/* The states of the sources that a pass of the decoder reads. One thread at a time. */
typedef struct hs__source_states hs__source_states;

/* Creates them for n_texts sources of up to max_tokens tokens. The job has an encoder. Fails with
 * HS_NO_MEMORY. The caller destroys *ret_states. */
HS_MUST_USE hs_status hs__source_states_create(const hs__corpus_job *job, size_t n_texts, size_t max_tokens,
                                               hs__source_states **ret_states, hs_error *err);
void hs__source_states_destroy(hs__source_states *states); /* NULL is fine */
/* Returns their size in bytes; 0 if the job has no encoder. */
uint64_t hs__source_states_bytes(const hs__corpus_job *job, size_t n_texts, size_t max_tokens);

/* Runs the encoder over n sources, and lets the n sequences of the decoder read their states, which stay
 * until the next call. Fails as hs_engine_compute. */
HS_MUST_USE hs_status hs__source_states_compute(hs__source_states *states, const hs_encoding *const *sources,
                                                size_t n, const hs_run_control *control,
                                                hs_sequence *sequences, hs_error *err);
