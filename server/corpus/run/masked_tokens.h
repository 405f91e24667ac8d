/* masked_tokens.h - accuracy and loss of masked-token prediction, from one more pass over each text.
 *
 * Each token that the tokenizer did not add, and that is not a mask already, is masked with the probability
 * masked_share. A hash of seed, text number and position decides, so the choice does not depend on the shard.
 * All masks of a text are in one pass, as in training. */
#pragma once

#include "engine/statistics/statistics.h"
#include "server/corpus/run/corpus_run.h"

typedef struct hs__corpus_masking {
    const hs__corpus_job *job;
    int32_t *ids;      /* [HS_CORPUS_BATCH][max_tokens] */
    size_t *positions; /* [max_tokens] */
    float *states;     /* of some positions, then their logits */
} hs__corpus_masking;

size_t hs__corpus_masking_bytes(const hs__corpus_job *job); /* 0 if nothing is masked */
/* Zeroed and finished is fine; so is finishing after a failure. */
HS_MUST_USE hs_status hs__corpus_masking_init(hs__corpus_masking *masking, const hs__corpus_job *job,
                                              hs_error *err);
void hs__corpus_masking_finish(hs__corpus_masking *masking);

/* Masks and counts the texts that the workspace has just processed, in one pass. Fails with HS_CANCELLED as
 * hs_engine_run. */
HS_MUST_USE hs_status hs__corpus_masking_count(hs__corpus_masking *masking, hs_workspace *ws,
                                               const hs_sequence *sequences, const hs_corpus_text *texts,
                                               size_t n_texts, const hs_run_control *control,
                                               hs_corpus_stats *stats, hs_error *err);
