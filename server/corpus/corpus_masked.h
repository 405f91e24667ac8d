/* corpus_masked.h - what the model says of tokens that are masked: a pass more over each text.
 *
 * Of the tokens that the tokenizer did not add, and that are no mask already, each is masked with the
 * probability `share`, by a hash of the seed, the text's number and its position: whatever the shard, the
 * same ones. All of a text at once, as in training. */
#pragma once

#include "engine/statistics/statistics.h"
#include "server/corpus/corpus_run.h"

typedef struct hs__corpus_masking {
    const hs__corpus_job *job;
    int32_t *ids;      /* [HS_CORPUS_BATCH][max_tokens] */
    size_t *positions; /* [max_tokens] */
    float *states;     /* of some positions, then their logits */
} hs__corpus_masking;

size_t hs__corpus_masking_bytes(const hs__corpus_job *job); /* 0 where nothing is masked */
/* Zeroed and finished is fine; so is finishing after a failure. */
HS_MUST_USE hs_status hs__corpus_masking_init(hs__corpus_masking *masking, const hs__corpus_job *job,
                                              hs_error *err);
void hs__corpus_masking_finish(hs__corpus_masking *masking);

/* One pass over the same texts, which the workspace has served. */
HS_MUST_USE hs_status hs__corpus_masking_count(hs__corpus_masking *masking, hs_workspace *ws,
                                               const hs_sequence *sequences, const hs_corpus_text *texts,
                                               size_t n_texts, hs_corpus_stats *stats, hs_error *err);
