/* predicted_texts.h - what a model predicts of the texts of a run, and the loss of these predictions.
 *
 * With a label_field it predicts the label. Else a causal model predicts the next tokens, and another one
 * masked tokens. A hash of a text's number and of a position decides whether a token is masked, so the choice
 * does not depend on workers or shards. */
#pragma once

#include "engine/engine.h"
#include "server/corpus/corpus.h"

typedef enum hs__predicted {
    HS__PREDICTED_MASKED, /* masked tokens */
    HS__PREDICTED_NEXT,   /* the next tokens */
    HS__PREDICTED_CLASS,  /* the label */
    HS__PREDICTED_KINDS
} hs__predicted;

/* "masked", "causal" and "class". */
extern const char *const hs__predicted_names[HS__PREDICTED_KINDS];

bool hs__predicts_tokens(const hs_model *model);
/* Returns true if the model predicts tokens, or labels that the settings name, which are read before. */
bool hs__predicts(const hs_model *model, const hs__corpus_settings *settings);
/* Returns what is predicted: tokens, even if there are labels; or labels if there are any. */
hs__predicted hs__predicted_tokens_of(const hs__corpus_job *job);
hs__predicted hs__predicted_of(const hs__corpus_job *job);

typedef struct hs__predicted_text {
    uint64_t number;
    size_t n_tokens, n_positions, label;
    int32_t *ids;      /* [n_tokens], owned; with masks, the ids that are predicted */
    uint8_t *types;    /* [n_tokens], owned */
    size_t *positions; /* [n_positions], owned: those that are masked */
} hs__predicted_text;

/* Mixes a text's number into 64 random bits. */
uint64_t hs__predicted_hash(uint64_t number);

/* Copies a text and chooses its masks. HS_NO_MEMORY. The caller finishes it, also after a failure. */
HS_MUST_USE hs_status hs__predicted_text_copy(const hs__text *text, hs__predicted kind,
                                              hs__predicted_text *ret, hs_error *err);
void hs__predicted_text_finish(hs__predicted_text *text);
/* Returns true if there is something to predict. */
bool hs__predicted_text_is_useful(const hs__predicted_text *text, hs__predicted kind);
/* Returns the position of the token that prediction i is of, which is no label. */
size_t hs__predicted_position(const hs__predicted_text *text, hs__predicted kind, size_t i);
/* Writes the ids that a pass reads: with masks. ret_ids [n_tokens]. */
void hs__predicted_text_ids(const hs__predicted_text *text, const hs__corpus_job *job, int32_t *ret_ids);

/* ---- the loss ---- */

/* Sums over predictions. */
typedef struct hs__loss {
    double sum; /* of -ln p, nats */
    int64_t n, n_right;
    double *each; /* [predictions]: receives the loss of each, in order; borrowed; NULL: not wanted */
} hs__loss;

/* Reads the loss of texts; all is borrowed. */
typedef struct hs__loss_reader {
    const hs__corpus_job *job;
    hs__predicted kind;
    const hs_run_control *control;
    float *scratch; /* [hs__loss_floats] */
} hs__loss_reader;

size_t hs__loss_floats(const hs__corpus_job *job);
/* Returns the bytes of the scratch, and of what hs__loss_add allocates. */
uint64_t hs__loss_bytes(const hs__corpus_job *job);

/* Adds the predictions of a text. capture: LAST_STATE of a pass over its ids. ret_last [n_tokens][H]: the
 * gradient of the mean of the text's losses with respect to these states; NULL: not wanted. Fails with
 * HS_NO_MEMORY, and with HS_CANCELLED between predictions. */
HS_MUST_USE hs_status hs__loss_add(const hs__loss_reader *reader, const hs__predicted_text *text,
                                   const hs_capture *capture, hs__loss *ret, float *ret_last, hs_error *err);
