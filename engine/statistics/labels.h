/* labels.h - statistics of labelled texts: how often a classifier is right, how its heads attend in the texts
 * of each label, and how its logits depend on each head. They are declared sums. */
#pragma once

#include "engine/analysis/effects.h"
#include "engine/statistics/statistics.h"
#include "engine/statistics/sums.h"

#define HS_LABELS_COUNTED_MAX 128 /* labels */
#define HS_LABELS_BINS        10  /* of confidence, on [0, 1] */

/* Sums of this kind have HS_LABELS, 2 to HS_LABELS_COUNTED_MAX, HS_LAYERS and HS_HEADS. */
extern const hs_sums_kind hs_labels_kind;

/* One text: its label, and the logits [n_labels] of the model. */
typedef struct hs_labelled_text {
    size_t label;
    const float *logits;
    size_t predicted; /* set by hs_labels_text_add: the first label with the largest logit */
} hs_labelled_text;

/* Counts the prediction of a text and sets text->predicted. */
void hs_labels_text_add(hs_sums *labels, hs_labelled_text *text);
/* Counts one head's figures of a text that was added. */
void hs_labels_head_add(hs_sums *labels, const hs_labelled_text *text, size_t l, size_t h,
                        const hs_corpus_observation *observation);
/* Counts the effects [n_layers][n_heads] of the heads on the logit of a text's own label. */
void hs_labels_effects_add(hs_sums *labels, size_t label, const hs_effect *effects);

/* ---- figures; NAN where there is nothing to divide by ---- */

typedef struct hs_labels_class {
    uint64_t texts, predicted, right; /* texts with the label, texts predicted to have it, both */
    double precision, recall, f1;
    double loss; /* -ln p of the label, nats, mean over its texts */
    uint64_t effect_texts;
} hs_labels_class;
hs_labels_class hs_labels_class_read(const hs_sums *labels, size_t label);

/* All texts. */
typedef struct hs_labels_summary {
    uint64_t texts, right;
    double accuracy, loss;
    double macro_f1;          /* mean over the labels that have an f1 */
    double calibration_error; /* sum over bins of |confidence - accuracy|, weighted by texts */
} hs_labels_summary;
hs_labels_summary hs_labels_summary_read(const hs_sums *labels);

/* The texts of a bin of confidence, the probability of the predicted label. */
typedef struct hs_labels_bin {
    uint64_t texts, right;
    double confidence, accuracy; /* means */
} hs_labels_bin;
hs_labels_bin hs_labels_bin_read(const hs_sums *labels, size_t bin);

/* Texts of some labels, right or wrong ones: `label` n_labels stands for all labels, `right` 2 for both. */
typedef struct hs_labels_group {
    size_t label, right;
} hs_labels_group;
uint64_t hs_labels_group_texts(const hs_sums *labels, hs_labels_group group);
/* The paper's figures of a layer in these texts, pooled over its heads. */
typedef struct hs_labels_layer {
    double repeated_share, same_sentence_share, mean_distance;
    double focal_share;         /* mean over heads and texts with E */
    double separator_attention; /* mean over heads and texts */
} hs_labels_layer;
hs_labels_layer hs_labels_layer_read(const hs_sums *labels, hs_labels_group group, size_t l);

/* The effect of switching a head off on the texts of a label, means over its effect_texts. */
typedef struct hs_labels_effect {
    double change, spread; /* of the label's logit; sample standard deviation over texts, NAN below 2 */
    double divergence;     /* of all probabilities, nats */
} hs_labels_effect;
hs_labels_effect hs_labels_effect_read(const hs_sums *labels, size_t label, size_t l, size_t h);
