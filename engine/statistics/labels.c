/* labels.c - one table names the fields of the state, their axes and the arrays made of them. */
#include "engine/statistics/labels.h"

#include "engine/analysis/predictions.h"
#include "engine/statistics/statistics_add.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The letters of axes:
 *     c  labels         o  outcomes: wrong, right
 *     b  bins           l  layers        h  heads
 * A field of real numbers has twice the words: an integer and a fraction for each. */
static const struct field {
    const char *name, *axes;
    bool is_real;
} fields[] = {
    {"label_confusion", "cc", false}, /* label, predicted */
    {"label_loss_sum", "c", true},
    {"label_bin_texts", "b", false},
    {"label_bin_right", "b", false},
    {"label_bin_confidence_sum", "b", true},
    {"label_high", "colh", false},
    {"label_repeated", "colh", false},
    {"label_same_sentence", "colh", false},
    {"label_distance_sum", "colh", false},
    {"label_texts_with_high", "colh", false},
    {"label_focal_share_sum", "colh", true},
    {"label_separator_sum", "colh", true},
    {"label_effect_texts", "c", false},
    {"label_effect_sum", "clh", true},
    {"label_effect_squares", "clh", true},
    {"label_effect_kl_sum", "clh", true},
};
enum {
    CONFUSION,
    LOSS,
    BIN_TEXTS,
    BIN_RIGHT,
    BIN_CONFIDENCE,
    HIGH,
    REPEATED,
    SAME_SENTENCE,
    DISTANCE,
    TEXTS_WITH_HIGH,
    FOCAL,
    SEPARATOR,
    EFFECT_TEXTS,
    EFFECT,
    EFFECT_SQUARES,
    EFFECT_KL,
    N_FIELDS
};
_Static_assert(sizeof fields / sizeof *fields == N_FIELDS, "one name for each field");
_Static_assert(N_FIELDS <= HS_LABELS_ARRAYS_MAX, "HS_LABELS_ARRAYS_MAX is too small");

struct hs_labels {
    hs_labels_shape shape;
    int64_t *fields[N_FIELDS]; /* into words */
    int64_t words[];
};

static size_t axis_length(const hs_labels_shape *shape, char axis)
{
    switch (axis) {
    case 'c':
        return shape->n_labels;
    case 'o':
        return 2;
    case 'b':
        return HS_LABELS_BINS;
    case 'l':
        return shape->n_layers;
    default:
        return shape->n_heads;
    }
}

static size_t field_elements(const hs_labels_shape *shape, size_t field)
{
    size_t n = 1;
    for (const char *axis = fields[field].axes; *axis; axis++)
        n *= axis_length(shape, *axis);
    return n;
}

size_t hs_labels_words(const hs_labels_shape *shape)
{
    size_t n = 0;
    for (size_t field = 0; field < N_FIELDS; field++)
        n += field_elements(shape, field) * (fields[field].is_real ? 2 : 1);
    return n;
}

hs_status hs_labels_create(const hs_labels_shape *shape, hs_labels **ret, hs_error *err)
{
    if (shape->n_labels < 2 || shape->n_labels > HS_LABELS_COUNTED_MAX)
        return hs_fail(err, HS_INVALID, "the model has %zu labels; 2 to %d can be counted", shape->n_labels,
                       HS_LABELS_COUNTED_MAX);
    hs_labels *labels = calloc(1, sizeof *labels + hs_labels_words(shape) * sizeof *labels->words);
    if (!labels)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the statistics of labels");
    labels->shape = *shape;
    int64_t *at = labels->words;
    for (size_t field = 0; field < N_FIELDS; field++) {
        labels->fields[field] = at;
        at += field_elements(shape, field) * (fields[field].is_real ? 2 : 1);
    }
    *ret = labels;
    return HS_OK;
}

void hs_labels_destroy(hs_labels *labels)
{
    free(labels);
}

hs_labels_shape hs_labels_shape_of(const hs_labels *labels)
{
    return labels->shape;
}

int64_t *hs_labels_state(hs_labels *labels)
{
    return labels->words;
}

/* ---- adding ---- */

static void real_add(hs_labels *labels, size_t field, size_t at, double value)
{
    hs__stats_fixed_add(labels->fields[field] + 2 * at, value);
}

void hs_labels_text_add(hs_labels *labels, hs_labelled_text *text)
{
    const size_t C = labels->shape.n_labels;
    const double sum = hs_log_sum_exact(text->logits, NULL, C);
    size_t most = 0;
    for (size_t c = 1; c < C; c++)
        most = text->logits[c] > text->logits[most] ? c : most;
    const double confidence = exp((double)text->logits[most] - sum);
    const size_t bin = (size_t)fmin(fmax(confidence * HS_LABELS_BINS, 0), HS_LABELS_BINS - 1);
    text->predicted = most;
    labels->fields[CONFUSION][text->label * C + most]++;
    real_add(labels, LOSS, text->label, sum - (double)text->logits[text->label]);
    labels->fields[BIN_TEXTS][bin]++;
    labels->fields[BIN_RIGHT][bin] += text->label == most;
    real_add(labels, BIN_CONFIDENCE, bin, confidence);
}

/* Index of a head in the texts of a label and outcome. */
static size_t cell(const hs_labels *labels, size_t label, size_t right, size_t l, size_t h)
{
    return ((label * 2 + right) * labels->shape.n_layers + l) * labels->shape.n_heads + h;
}

void hs_labels_head_add(hs_labels *labels, const hs_labelled_text *text, size_t l, size_t h,
                        const hs_corpus_observation *o)
{
    const size_t at = cell(labels, text->label, text->predicted == text->label, l, h);
    labels->fields[HIGH][at] += (int64_t)o->high_pairs;
    labels->fields[REPEATED][at] += (int64_t)o->repeated_pairs;
    labels->fields[SAME_SENTENCE][at] += (int64_t)o->same_sentence_pairs;
    labels->fields[DISTANCE][at] += (int64_t)o->distance_sum;
    labels->fields[TEXTS_WITH_HIGH][at] += o->high_pairs > 0;
    real_add(labels, FOCAL, at, (double)o->focal_share);
    real_add(labels, SEPARATOR, at, (double)o->separator_attention);
}

void hs_labels_effects_add(hs_labels *labels, size_t label, const hs_effect *effects)
{
    const size_t n = labels->shape.n_layers * labels->shape.n_heads;
    labels->fields[EFFECT_TEXTS][label]++;
    for (size_t i = 0; i < n; i++) {
        const double change = (double)effects[i].target_change;
        real_add(labels, EFFECT, label * n + i, change);
        real_add(labels, EFFECT_SQUARES, label * n + i, change * change);
        real_add(labels, EFFECT_KL, label * n + i, (double)effects[i].class_kl);
    }
}

void hs_labels_gather(hs_labels *labels, hs_labels *from)
{
    /* Unsigned: whatever a loaded state holds, the addition is defined. */
    const size_t n = hs_labels_words(&labels->shape);
    for (size_t i = 0; i < n; i++)
        labels->words[i] = (int64_t)((uint64_t)labels->words[i] + (uint64_t)from->words[i]);
    memset(from->words, 0, n * sizeof *from->words);
}

/* ---- arrays ---- */

size_t hs_labels_arrays(const hs_labels *labels, hs_corpus_array ret_arrays[HS_LABELS_ARRAYS_MAX])
{
    for (size_t field = 0; field < N_FIELDS; field++) {
        hs_corpus_array array = {.name = fields[field].name,
                                 .is_float = fields[field].is_real,
                                 .n_elements = field_elements(&labels->shape, field),
                                 .field = field};
        for (const char *axis = fields[field].axes; *axis; axis++)
            array.axes[array.n_axes++] = axis_length(&labels->shape, *axis);
        ret_arrays[field] = array;
    }
    return N_FIELDS;
}

static double real_read(const hs_labels *labels, size_t field, size_t at)
{
    const int64_t *words = labels->fields[field] + 2 * at;
    return (double)words[0] + (double)words[1] * HS__FRACTION_UNIT;
}

void hs_labels_array_read(const hs_labels *labels, const hs_corpus_array *array, size_t first, size_t n,
                          void *ret)
{
    double *reals = ret;
    int64_t *counts = ret;
    for (size_t k = 0; k < n; k++)
        if (array->is_float)
            reals[k] = real_read(labels, array->field, first + k);
        else
            counts[k] = labels->fields[array->field][first + k];
}

/* ---- figures ---- */

static double ratio(double part, double whole)
{
    return whole > 0 ? part / whole : NAN;
}

hs_labels_class hs_labels_class_read(const hs_labels *labels, size_t label)
{
    const size_t C = labels->shape.n_labels;
    const int64_t *confusion = labels->fields[CONFUSION];
    hs_labels_class r = {.right = (uint64_t)confusion[label * C + label],
                         .effect_texts = (uint64_t)labels->fields[EFFECT_TEXTS][label]};
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

hs_labels_bin hs_labels_bin_read(const hs_labels *labels, size_t bin)
{
    hs_labels_bin r = {.texts = (uint64_t)labels->fields[BIN_TEXTS][bin],
                       .right = (uint64_t)labels->fields[BIN_RIGHT][bin]};
    r.confidence = ratio(real_read(labels, BIN_CONFIDENCE, bin), (double)r.texts);
    r.accuracy = ratio((double)r.right, (double)r.texts);
    return r;
}

hs_labels_summary hs_labels_summary_read(const hs_labels *labels)
{
    hs_labels_summary r = {0};
    double loss = 0, f1 = 0, error = 0;
    size_t n_f1 = 0;
    for (size_t c = 0; c < labels->shape.n_labels; c++) {
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

uint64_t hs_labels_group_texts(const hs_labels *labels, hs_labels_group group)
{
    const size_t C = labels->shape.n_labels;
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
    double high, repeated, same_sentence, distance, texts_with_high, focal, separator;
} layer_sums;

static void layer_add(const hs_labels *labels, size_t at, layer_sums *sums)
{
    sums->high += (double)labels->fields[HIGH][at];
    sums->repeated += (double)labels->fields[REPEATED][at];
    sums->same_sentence += (double)labels->fields[SAME_SENTENCE][at];
    sums->distance += (double)labels->fields[DISTANCE][at];
    sums->texts_with_high += (double)labels->fields[TEXTS_WITH_HIGH][at];
    sums->focal += real_read(labels, FOCAL, at);
    sums->separator += real_read(labels, SEPARATOR, at);
}

hs_labels_layer hs_labels_layer_read(const hs_labels *labels, hs_labels_group group, size_t l)
{
    const hs_labels_shape *shape = &labels->shape;
    layer_sums sums = {0};
    for (size_t c = 0; c < shape->n_labels; c++)
        for (size_t right = 0; right < 2; right++)
            for (size_t h = 0; h < shape->n_heads; h++)
                if (has_label(group, shape->n_labels, c) && (group.right == 2 || group.right == right))
                    layer_add(labels, cell(labels, c, right, l, h), &sums);
    const double n_maps = (double)hs_labels_group_texts(labels, group) * (double)shape->n_heads;
    return (hs_labels_layer){.repeated_share = ratio(sums.repeated, sums.high),
                             .same_sentence_share = ratio(sums.same_sentence, sums.high),
                             .mean_distance = ratio(sums.distance, sums.high),
                             .focal_share = ratio(sums.focal, sums.texts_with_high),
                             .separator_attention = ratio(sums.separator, n_maps)};
}

hs_labels_effect hs_labels_effect_read(const hs_labels *labels, size_t label, size_t l, size_t h)
{
    const size_t at = (label * labels->shape.n_layers + l) * labels->shape.n_heads + h;
    const double n = (double)labels->fields[EFFECT_TEXTS][label];
    const double mean = ratio(real_read(labels, EFFECT, at), n);
    const double squares = real_read(labels, EFFECT_SQUARES, at) - n * mean * mean;
    return (hs_labels_effect){.change = mean,
                              .spread = n > 1 ? sqrt(fmax(squares, 0) / (n - 1)) : NAN,
                              .divergence = ratio(real_read(labels, EFFECT_KL, at), n)};
}
