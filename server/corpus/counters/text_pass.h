/* text_pass.h - a pass of an engine over texts, whose heads are added to statistics and then shown. */
#pragma once

#include "server/corpus/counters/counter.h"

typedef struct hs__pass_observer {
    const hs__corpus_job *job;
    float *maps; /* [hs__pass_floats]: memory for the maps of a head */
    void (*show)(void *context, hs__text *text, hs__text_head *head);
    void *context;
} hs__pass_observer;

/* Returns the floats of a pass's maps: attention, similarity, columns and lengths of max_tokens; twice if
 * special tokens are cut off. */
size_t hs__pass_floats(const hs__corpus_settings *settings);

/* Adds the texts of a pass to its statistics, in a workspace of an engine with this shape, and shows each
 * head. Captures keep what they select. Fails as hs_corpus_batch_begin and hs_engine_compute. */
HS_MUST_USE hs_status hs__pass_observe(const hs_engine *engine, const hs__pass_observer *observer,
                                       const hs__text_pass *pass, hs_error *err);
