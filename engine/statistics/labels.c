/* labels.c - the rows of labelled texts, what adds to them, and their figures. */
#include "engine/statistics/labels.h"

#include "engine/analysis/predictions.h"
#include "engine/statistics/statistics_add.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    CONFUSION,
    LOSS,
    BIN_TEXTS,
    BIN_RIGHT,
    BIN_CONFIDENCE,
    HIGH,
    REPEATED,
    ORDINARY,
    SAME_SENTENCE,
    DISTANCE,
    TEXTS_WITH_HIGH,
    FOCAL,
    SEPARATOR,
    EFFECT_TEXTS,
    EFFECT,
    EFFECT_SQUARES,
    EFFECT_KL
};

#define BY_CELL                                                                                              \
    {                                                                                                        \
        HS_AXIS_LABEL, {"outcome", 2}, HS_AXIS_LAYER, HS_AXIS_HEAD                                           \
    }
#define BY_HEAD                                                                                              \
    {                                                                                                        \
        HS_AXIS_LABEL, HS_AXIS_LAYER, HS_AXIS_HEAD                                                           \
    }

static const hs_array_row rows[] = {
    [CONFUSION] = {"label_confusion",
                   {HS_AXIS_LABEL, {"predicted_label", 0, HS_LABELS}},
                   "texts",
                   "texts by their label and the predicted one"},
    [LOSS] = {"label_loss_sum",
              {HS_AXIS_LABEL},
              "nats",
              "-ln p of the text's label, summed over its texts",
              HS_REAL_37},
    [BIN_TEXTS] = {"label_bin_texts",
                   {{"bin_of_10", HS_LABELS_BINS}},
                   "texts",
                   "texts by the probability of the predicted label"},
    [BIN_RIGHT] = {"label_bin_right",
                   {{"bin_of_10", HS_LABELS_BINS}},
                   "texts",
                   "of these, those that the model labels right"},
    [BIN_CONFIDENCE] = {"label_bin_confidence_sum",
                        {{"bin_of_10", HS_LABELS_BINS}},
                        "probability",
                        "of the predicted label, summed over these texts",
                        HS_REAL_37},
    [HIGH] = {"label_high", BY_CELL, "pairs",
              "high of the texts of a label that the model labels wrong, and right"},
    [REPEATED] = {"label_repeated", BY_CELL, "pairs", "repeated of these texts"},
    [ORDINARY] = {"label_high_ordinary", BY_CELL, "pairs", "high_ordinary of these texts"},
    [SAME_SENTENCE] = {"label_same_sentence", BY_CELL, "pairs", "same_sentence of these texts"},
    [DISTANCE] = {"label_distance_sum", BY_CELL, "tokens", "distances of high pairs of these texts, summed"},
    [TEXTS_WITH_HIGH] = {"label_texts_with_high", BY_CELL, "texts", "texts_with_high of these texts"},
    [FOCAL] = {"label_focal_share_sum", BY_CELL, "share of pairs", "focal_share_sum of these texts",
               HS_REAL_37},
    [SEPARATOR] = {"label_separator_sum", BY_CELL, "share of attention",
                   "attention on the first token, separators and sentence ends, summed over these texts",
                   HS_REAL_37},
    [EFFECT_TEXTS] = {"label_effect_texts",
                      {HS_AXIS_LABEL},
                      "texts",
                      "texts of a label whose heads were switched off in turn"},
    [EFFECT] = {"label_effect_sum", BY_HEAD, "logit",
                "change of the label's logit without the head, summed over these texts", HS_REAL_37},
    [EFFECT_SQUARES] = {"label_effect_squares", BY_HEAD, "squared logit",
                        "the squares of these changes, summed", HS_REAL_37},
    [EFFECT_KL] = {"label_effect_kl_sum", BY_HEAD, "nats",
                   "divergence of all labels' probabilities without the head, summed over these texts",
                   HS_REAL_37},
};

const hs_sums_kind hs_labels_kind = {.member = "labels",
                                     .what = "the statistics of labels",
                                     .rows = rows,
                                     .n_rows = sizeof rows / sizeof *rows};

/* ---- adding ---- */

static void real_add(hs_sums *labels, size_t field, size_t at, double value)
{
    hs__stats_fixed_add(hs_sums_at(labels, field) + 2 * at, value);
}

void hs_labels_text_add(hs_sums *labels, hs_labelled_text *text)
{
    const size_t C = labels->lengths[HS_LABELS];
    const double sum = hs_log_sum_exact(text->logits, NULL, C);
    size_t most = 0;
    for (size_t c = 1; c < C; c++)
        most = text->logits[c] > text->logits[most] ? c : most;
    const double confidence = exp((double)text->logits[most] - sum);
    const size_t bin = (size_t)fmin(fmax(confidence * HS_LABELS_BINS, 0), HS_LABELS_BINS - 1);
    text->predicted = most;
    hs_sums_at(labels, CONFUSION)[text->label * C + most]++;
    real_add(labels, LOSS, text->label, sum - (double)text->logits[text->label]);
    hs_sums_at(labels, BIN_TEXTS)[bin]++;
    hs_sums_at(labels, BIN_RIGHT)[bin] += text->label == most;
    real_add(labels, BIN_CONFIDENCE, bin, confidence);
}

/* Index of a head in the texts of a label and outcome. */
static size_t cell(const hs_sums *labels, size_t label, size_t right, size_t l, size_t h)
{
    return ((label * 2 + right) * labels->lengths[HS_LAYERS] + l) * labels->lengths[HS_HEADS] + h;
}

void hs_labels_head_add(hs_sums *labels, const hs_labelled_text *text, size_t l, size_t h,
                        const hs_corpus_observation *o)
{
    const size_t at = cell(labels, text->label, text->predicted == text->label, l, h);
    hs_sums_at(labels, HIGH)[at] += (int64_t)o->high_pairs;
    hs_sums_at(labels, REPEATED)[at] += (int64_t)o->repeated_pairs;
    hs_sums_at(labels, ORDINARY)[at] += (int64_t)o->ordinary_pairs;
    hs_sums_at(labels, SAME_SENTENCE)[at] += (int64_t)o->same_sentence_pairs;
    hs_sums_at(labels, DISTANCE)[at] += (int64_t)o->distance_sum;
    hs_sums_at(labels, TEXTS_WITH_HIGH)[at] += o->high_pairs > 0;
    real_add(labels, FOCAL, at, (double)o->focal_share);
    real_add(labels, SEPARATOR, at, (double)o->separator_attention);
}

void hs_labels_effects_add(hs_sums *labels, size_t label, const hs_effect *effects)
{
    const size_t n = labels->lengths[HS_LAYERS] * labels->lengths[HS_HEADS];
    hs_sums_at(labels, EFFECT_TEXTS)[label]++;
    for (size_t i = 0; i < n; i++) {
        const double change = (double)effects[i].target_change;
        real_add(labels, EFFECT, label * n + i, change);
        real_add(labels, EFFECT_SQUARES, label * n + i, change * change);
        real_add(labels, EFFECT_KL, label * n + i, (double)effects[i].class_kl);
    }
}

/* ---- figures ---- */

static double real_read(const hs_sums *labels, size_t field, size_t at)
{
    return hs_sum_real(rows[field].kind, hs_sums_at(labels, field) + 2 * at);
}

static double ratio(double part, double whole)
{
    return whole > 0 ? part / whole : NAN;
}

hs_labels_class hs_labels_class_read(const hs_sums *labels, size_t label)
{
    const size_t C = labels->lengths[HS_LABELS];
    const int64_t *confusion = hs_sums_at(labels, CONFUSION);
    hs_labels_class r = {.right = (uint64_t)confusion[label * C + label],
                         .effect_texts = (uint64_t)hs_sums_at(labels, EFFECT_TEXTS)[label]};
    for (size_t c = 0; c < C; c++) {
        r.texts += (uint64_t)confusion[label * C + c];
        r.predicted += (uint64_t)confusion[c * C + label];
    }
    r.precision = ratio((double)r.right, (double)r.predicted);
    r.recall = ratio((double)r.right, (double)r.texts);
    r.f1 = ratio(2 * (double)r.right, (double)r.texts + (double)r.predicted);
    r.loss = ratio(real_read(labels, LOSS, label), (double)r.texts);
    return r;
}

hs_labels_bin hs_labels_bin_read(const hs_sums *labels, size_t bin)
{
    hs_labels_bin r = {.texts = (uint64_t)hs_sums_at(labels, BIN_TEXTS)[bin],
                       .right = (uint64_t)hs_sums_at(labels, BIN_RIGHT)[bin]};
    r.confidence = ratio(real_read(labels, BIN_CONFIDENCE, bin), (double)r.texts);
    r.accuracy = ratio((double)r.right, (double)r.texts);
    return r;
}

hs_labels_summary hs_labels_summary_read(const hs_sums *labels)
{
    hs_labels_summary r = {0};
    double loss = 0, f1 = 0, error = 0;
    size_t n_f1 = 0;
    for (size_t c = 0; c < labels->lengths[HS_LABELS]; c++) {
        const hs_labels_class class = hs_labels_class_read(labels, c);
        r.texts += class.texts;
        r.right += class.right;
        loss += real_read(labels, LOSS, c);
        f1 += isnan(class.f1) ? 0 : class.f1;
        n_f1 += !isnan(class.f1);
    }
    for (size_t b = 0; b < HS_LABELS_BINS; b++) {
        const hs_labels_bin bin = hs_labels_bin_read(labels, b);
        error += bin.texts ? fabs(bin.confidence - bin.accuracy) * (double)bin.texts : 0;
    }
    r.accuracy = ratio((double)r.right, (double)r.texts);
    r.loss = ratio(loss, (double)r.texts);
    r.macro_f1 = ratio(f1, (double)n_f1);
    r.calibration_error = ratio(error, (double)r.texts);
    return r;
}

static bool has_label(hs_labels_group group, size_t n_labels, size_t label)
{
    return group.label == n_labels || group.label == label;
}

uint64_t hs_labels_group_texts(const hs_sums *labels, hs_labels_group group)
{
    const size_t C = labels->lengths[HS_LABELS];
    uint64_t n = 0;
    for (size_t c = 0; c < C; c++) {
        const hs_labels_class class = hs_labels_class_read(labels, c);
        const uint64_t texts[] = {class.texts - class.right, class.right, class.texts};
        n += has_label(group, C, c) ? texts[group.right] : 0;
    }
    return n;
}

/* Sums of a layer over its heads. */
typedef struct layer_sums {
    double high, ordinary, repeated, same_sentence, distance, texts_with_high, focal, separator;
} layer_sums;

static void layer_add(const hs_sums *labels, size_t at, layer_sums *sums)
{
    sums->high += (double)hs_sums_at(labels, HIGH)[at];
    sums->repeated += (double)hs_sums_at(labels, REPEATED)[at];
    sums->ordinary += (double)hs_sums_at(labels, ORDINARY)[at];
    sums->same_sentence += (double)hs_sums_at(labels, SAME_SENTENCE)[at];
    sums->distance += (double)hs_sums_at(labels, DISTANCE)[at];
    sums->texts_with_high += (double)hs_sums_at(labels, TEXTS_WITH_HIGH)[at];
    sums->focal += real_read(labels, FOCAL, at);
    sums->separator += real_read(labels, SEPARATOR, at);
}

hs_labels_layer hs_labels_layer_read(const hs_sums *labels, hs_labels_group group, size_t l)
{
    const size_t n_labels = labels->lengths[HS_LABELS], n_heads = labels->lengths[HS_HEADS];
    layer_sums sums = {0};
    for (size_t c = 0; c < n_labels; c++)
        for (size_t right = 0; right < 2; right++)
            for (size_t h = 0; h < n_heads; h++)
                if (has_label(group, n_labels, c) && (group.right == 2 || group.right == right))
                    layer_add(labels, cell(labels, c, right, l, h), &sums);
    const double n_maps = (double)hs_labels_group_texts(labels, group) * (double)n_heads;
    return (hs_labels_layer){.repeated_share = ratio(sums.repeated, sums.high),
                             .same_sentence_share = ratio(sums.same_sentence, sums.ordinary),
                             .mean_distance = ratio(sums.distance, sums.high),
                             .focal_share = ratio(sums.focal, sums.texts_with_high),
                             .separator_attention = ratio(sums.separator, n_maps)};
}

hs_labels_effect hs_labels_effect_read(const hs_sums *labels, size_t label, size_t l, size_t h)
{
    const size_t at = (label * labels->lengths[HS_LAYERS] + l) * labels->lengths[HS_HEADS] + h;
    const double n = (double)hs_sums_at(labels, EFFECT_TEXTS)[label];
    const double mean = ratio(real_read(labels, EFFECT, at), n);
    const double squares = real_read(labels, EFFECT_SQUARES, at) - n * mean * mean;
    return (hs_labels_effect){.change = mean,
                              .spread = n > 1 ? sqrt(fmax(squares, 0) / (n - 1)) : NAN,
                              .divergence = ratio(real_read(labels, EFFECT_KL, at), n)};
}
