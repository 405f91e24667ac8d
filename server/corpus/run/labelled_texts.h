/* labelled_texts.h - the predictions of labelled texts, and the effects of heads in some of them.
 *
 * A hash of a text's number decides whether its heads are switched off in turn, so the choice does not depend
 * on the shard. */
#pragma once

#include "engine/statistics/labels.h"
#include "server/corpus/run/corpus_run.h"

typedef struct hs__corpus_labelling {
    const hs__corpus_job *job;
    hs_labels *labels;                   /* NULL: texts have no labels */
    hs_corpus_observation *observations; /* [HS_CORPUS_BATCH][l][h], of the current pass */
    float *row;                          /* [H], then the logits */
    hs_effect *effects;                  /* [l][h] */
} hs__corpus_labelling;

/* One text of a pass. */
typedef struct hs__text_label {
    uint64_t number; /* of the text in the whole corpus */
    size_t label;
} hs__text_label;

/* Returns the shape of a job's statistics of labels; n_labels is 0 if texts have none. */
hs_labels_shape hs__corpus_labels_shape(const hs__corpus_job *job);
/* Finds a label by its name or number. Returns false if the head has no such label. */
bool hs__label_find(const hs_task_head *head, const char *text, size_t *ret_label);

size_t hs__corpus_labelling_bytes(const hs__corpus_job *job); /* 0 without labels */
/* Initialises a zeroed labelling; labels may be saved counts, which it owns. Finishing is fine after a
 * failure. */
HS_MUST_USE hs_status hs__corpus_labelling_init(hs__corpus_labelling *labelling, const hs__corpus_job *job,
                                                hs_error *err);
void hs__corpus_labelling_finish(hs__corpus_labelling *labelling);

/* Keeps the figures of head h of layer l of the pass's text k. */
void hs__corpus_labelling_keep(hs__corpus_labelling *labelling, size_t k, size_t l, size_t h,
                               const hs_corpus_observation *observation);
/* Counts the texts that the workspace has just processed. Their captures keep LAST_STATE. Fails with
 * HS_CANCELLED as hs_engine_run; some texts are counted then. */
HS_MUST_USE hs_status hs__corpus_labelling_count(hs__corpus_labelling *labelling, hs_workspace *ws,
                                                 const hs_sequence *sequences, const hs__text_label *texts,
                                                 size_t n_texts, const hs_run_control *control,
                                                 hs_error *err);
