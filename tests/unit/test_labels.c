/* test_labels.c - statistics of labels.h against plain loops over the texts. */
#include "engine/statistics/labels.h"
#include "suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LABELS = 3, LAYERS = 2, HEADS = 3, MAPS = LAYERS * HEADS, TEXTS = 40 };

static const size_t lengths[HS_LENGTHS] = {[HS_LABELS] = LABELS, [HS_LAYERS] = LAYERS, [HS_HEADS] = HEADS};

/* The texts, and what was counted of each. */
static struct text {
    size_t label, predicted, bin;
    float logits[LABELS];
    double loss, confidence;
    hs_corpus_observation heads[MAPS];
    bool has_effects;
    hs_effect effects[MAPS];
} texts[TEXTS];

/* Returns a number in [0, 1). */
static float random_number(void)
{
    static uint32_t state = 3;
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / 16777216.0F;
}

static void text_make(struct text *x, size_t number)
{
    double sum = 0;
    x->predicted = 0;
    x->label = number % 7 == 0 ? 2 : number % 2;
    for (size_t c = 0; c < LABELS; c++)
        x->logits[c] = number == 5   ? (float)(c == 0) * 200
                       : number == 6 ? 1.5F * (c > 0)
                                     : 3 * random_number();
    for (size_t c = 0; c < LABELS; c++) {
        x->predicted = x->logits[c] > x->logits[x->predicted] ? c : x->predicted;
        sum += exp((double)x->logits[c]);
    }
    x->loss = log(sum) - (double)x->logits[x->label];
    x->confidence = exp((double)x->logits[x->predicted]) / sum;
    x->bin = x->confidence < 1 ? (size_t)(x->confidence * HS_LABELS_BINS) : HS_LABELS_BINS - 1;
    for (size_t m = 0; m < MAPS; m++) {
        const uint64_t n = (uint64_t)(random_number() * 6);
        x->heads[m] = (hs_corpus_observation){.high_pairs = n,
                                              .repeated_pairs = n / 2,
                                              .ordinary_pairs = n - n / 5,
                                              .same_sentence_pairs = n - n / 3,
                                              .distance_sum = 5 * n + n / 4,
                                              .focal_share = n > 0 ? random_number() : NAN,
                                              .separator_attention = random_number()};
        x->effects[m] = (hs_effect){.target_change = 4 * random_number() - 2,
                                    .class_kl = random_number() * random_number()};
    }
    x->has_effects = number % 3 > 0;
}

static void text_add(hs_sums *labels, struct text *x)
{
    hs_labelled_text text = {.label = x->label, .logits = x->logits, .predicted = 99};
    hs_labels_text_add(labels, &text);
    ck_assert_uint_eq(text.predicted, x->predicted);
    for (size_t m = 0; m < MAPS; m++)
        hs_labels_head_add(labels, &text, m / HEADS, m % HEADS, &x->heads[m]);
    if (x->has_effects)
        hs_labels_effects_add(labels, x->label, x->effects);
}

/* All texts, one half of them counted in statistics of its own and gathered. */
static hs_sums *labels_make(void)
{
    hs_sums *labels = hs_sums_create(&hs_labels_kind, lengths, NULL),
            *half = hs_sums_create(&hs_labels_kind, lengths, NULL);
    ck_assert(labels && half);
    for (size_t i = 0; i < TEXTS; i++) {
        text_make(&texts[i], i);
        text_add(i % 2 ? labels : half, &texts[i]);
    }
    hs_sums_move(labels, half);
    for (size_t i = 0; i < half->n_words; i++)
        ck_assert_int_eq(half->words[i], 0);
    hs_sums_destroy(half);
    return labels;
}

static void assert_near(double actual, double expected)
{
    ck_assert_msg(isnan(expected) ? isnan(actual) : fabs(actual - expected) < 1e-9 * fmax(1, fabs(expected)),
                  "%.15g != %.15g", actual, expected);
}

/* ---- arrays ---- */

/* Returns what a text adds to an element of an array, whose axes are c, o, l, h or b. */
static double element(const char *name, const struct text *x, const size_t at[4])
{
    const bool right = x->predicted == x->label, ours = at[0] == x->label;
    const size_t l = at[1], h = at[2];
    if (strcmp(name, "label_confusion") == 0)
        return ours && at[1] == x->predicted;
    if (strcmp(name, "label_loss_sum") == 0)
        return ours ? x->loss : 0;
    if (strncmp(name, "label_bin_", 10) == 0)
        return at[0] != x->bin ? 0 : name[10] == 't' ? 1 : name[10] == 'r' ? right : x->confidence;
    if (strncmp(name, "label_effect_", 13) == 0) {
        const double change = (double)x->effects[l * HEADS + h].target_change;
        if (!ours || !x->has_effects)
            return 0;
        return strcmp(name + 13, "texts") == 0     ? 1
               : strcmp(name + 13, "sum") == 0     ? change
               : strcmp(name + 13, "squares") == 0 ? change * change
                                                   : (double)x->effects[l * HEADS + h].class_kl;
    }
    const hs_corpus_observation *o = &x->heads[at[2] * HEADS + at[3]];
    if (!ours || at[1] != right)
        return 0;
    return strcmp(name, "label_high") == 0              ? (double)o->high_pairs
           : strcmp(name, "label_high_ordinary") == 0   ? (double)o->ordinary_pairs
           : strcmp(name, "label_repeated") == 0        ? (double)o->repeated_pairs
           : strcmp(name, "label_same_sentence") == 0   ? (double)o->same_sentence_pairs
           : strcmp(name, "label_distance_sum") == 0    ? (double)o->distance_sum
           : strcmp(name, "label_texts_with_high") == 0 ? o->high_pairs > 0
           : strcmp(name, "label_separator_sum") == 0   ? (double)o->separator_attention
           : o->high_pairs > 0                          ? (double)o->focal_share
                                                        : 0;
}

START_TEST(arrays_are_sums_over_texts)
{
    hs_sums *labels = labels_make();
    size_t n_words = 0;
    ck_assert_uint_eq(hs_labels_kind.n_rows, 17);
    for (size_t a = 0; a < hs_labels_kind.n_rows; a++) {
        const hs_corpus_array found = hs_array_of(hs_labels_kind.rows, a, lengths), *array = &found;
        size_t n = 1;
        for (size_t k = 0; k < array->n_axes; k++)
            n *= array->axes[k];
        ck_assert_uint_eq(array->n_elements, n);
        n_words += n * (array->is_float ? 2 : 1);
        for (size_t i = 0; i < n; i++) {
            union {
                double real;
                int64_t count;
            } value;
            size_t at[4] = {0}, rest = i;
            double sum = 0;
            for (size_t k = array->n_axes; k-- > 0; rest /= array->axes[k])
                at[k] = rest % array->axes[k];
            for (size_t t = 0; t < TEXTS; t++)
                sum += element(array->name, &texts[t], at);
            hs_sums_read(labels, array, i, 1, &value);
            assert_near(array->is_float ? value.real : (double)value.count, sum);
        }
    }
    ck_assert_uint_eq(n_words, hs_sums_measure(&hs_labels_kind, lengths).words);
    double both[2], second;
    const hs_corpus_array losses = hs_array_of(hs_labels_kind.rows, 1, lengths);
    hs_sums_read(labels, &losses, 1, 2, both);
    hs_sums_read(labels, &losses, 2, 1, &second);
    ck_assert(both[1] == second);
    hs_sums_destroy(labels);
}
END_TEST

/* ---- figures ---- */

START_TEST(figures_of_classes_and_bins)
{
    hs_sums *labels = labels_make();
    double f1 = 0, loss = 0, error = 0, n_right = 0;
    for (size_t c = 0; c < LABELS; c++) {
        double n = 0, predicted = 0, right = 0, losses = 0, effects = 0;
        for (size_t t = 0; t < TEXTS; t++) {
            const bool ours = texts[t].label == c;
            n += ours;
            predicted += texts[t].predicted == c;
            right += ours && texts[t].predicted == c;
            losses += ours ? texts[t].loss : 0;
            effects += ours && texts[t].has_effects;
        }
        const hs_labels_class class = hs_labels_class_read(labels, c);
        ck_assert(class.texts == (uint64_t)n && class.predicted == (uint64_t)predicted);
        ck_assert(class.right == (uint64_t)right && class.effect_texts == (uint64_t)effects);
        assert_near(class.precision, right / predicted);
        assert_near(class.recall, right / n);
        assert_near(class.f1, 2 / (predicted / right + n / right));
        assert_near(class.loss, losses / n);
        f1 += class.f1 / LABELS;
        loss += losses / TEXTS;
        n_right += right;
    }
    for (size_t b = 0; b < HS_LABELS_BINS; b++) {
        double n = 0, right = 0, confidence = 0;
        for (size_t t = 0; t < TEXTS; t++) {
            n += texts[t].bin == b;
            right += texts[t].bin == b && texts[t].predicted == texts[t].label;
            confidence += texts[t].bin == b ? texts[t].confidence : 0;
        }
        const hs_labels_bin bin = hs_labels_bin_read(labels, b);
        ck_assert(bin.texts == (uint64_t)n && bin.right == (uint64_t)right);
        assert_near(bin.confidence, n > 0 ? confidence / n : NAN);
        assert_near(bin.accuracy, n > 0 ? right / n : NAN);
        error += fabs(confidence - right) / TEXTS;
    }
    const hs_labels_summary summary = hs_labels_summary_read(labels);
    ck_assert(summary.texts == TEXTS && summary.right == (uint64_t)n_right);
    assert_near(summary.accuracy, n_right / TEXTS);
    assert_near(summary.loss, loss);
    assert_near(summary.macro_f1, f1);
    assert_near(summary.calibration_error, error);
    hs_sums_destroy(labels);
}
END_TEST

static void assert_group(const hs_sums *labels, hs_labels_group group)
{
    double n_texts = 0;
    for (size_t l = 0; l < LAYERS; l++) {
        double high = 0, ordinary = 0, repeated = 0, same = 0, distance = 0, with_high = 0, focal = 0,
               separator = 0;
        n_texts = 0;
        for (size_t t = 0; t < TEXTS; t++) {
            if (group.label < LABELS && texts[t].label != group.label)
                continue;
            if (group.right < 2 && (texts[t].label == texts[t].predicted) != group.right)
                continue;
            n_texts++;
            for (size_t h = 0; h < HEADS; h++) {
                const hs_corpus_observation *o = &texts[t].heads[l * HEADS + h];
                high += (double)o->high_pairs;
                ordinary += (double)o->ordinary_pairs;
                repeated += (double)o->repeated_pairs;
                same += (double)o->same_sentence_pairs;
                distance += (double)o->distance_sum;
                with_high += o->high_pairs > 0;
                focal += o->high_pairs > 0 ? (double)o->focal_share : 0;
                separator += (double)o->separator_attention;
            }
        }
        const hs_labels_layer layer = hs_labels_layer_read(labels, group, l);
        assert_near(layer.repeated_share, high > 0 ? repeated / high : NAN);
        assert_near(layer.same_sentence_share, ordinary > 0 ? same / ordinary : NAN);
        assert_near(layer.mean_distance, high > 0 ? distance / high : NAN);
        assert_near(layer.focal_share, with_high > 0 ? focal / with_high : NAN);
        assert_near(layer.separator_attention, n_texts > 0 ? separator / n_texts / HEADS : NAN);
    }
    ck_assert_uint_eq(hs_labels_group_texts(labels, group), (uint64_t)n_texts);
}

START_TEST(figures_of_groups_and_effects)
{
    hs_sums *labels = labels_make();
    for (size_t label = 0; label <= LABELS; label++)
        for (size_t right = 0; right <= 2; right++)
            assert_group(labels, (hs_labels_group){label, right});
    for (size_t c = 0; c < LABELS; c++)
        for (size_t m = 0; m < MAPS; m++) {
            double n = 0, sum = 0, kl = 0, squares = 0;
            for (size_t t = 0; t < TEXTS; t++)
                if (texts[t].label == c && texts[t].has_effects) {
                    n++;
                    sum += (double)texts[t].effects[m].target_change;
                    kl += (double)texts[t].effects[m].class_kl;
                }
            for (size_t t = 0; t < TEXTS; t++)
                if (texts[t].label == c && texts[t].has_effects)
                    squares += pow((double)texts[t].effects[m].target_change - sum / n, 2);
            const hs_labels_effect effect = hs_labels_effect_read(labels, c, m / HEADS, m % HEADS);
            assert_near(effect.change, sum / n);
            assert_near(effect.divergence, kl / n);
            assert_near(effect.spread, sqrt(squares / (n - 1)));
        }
    hs_sums_destroy(labels);
}
END_TEST

/* One text: means, and no deviation; nothing to divide by elsewhere. */
START_TEST(one_text_has_no_spread)
{
    hs_sums *labels = hs_sums_create(&hs_labels_kind, lengths, NULL);
    struct text x = {0};
    ck_assert_ptr_nonnull(labels);
    ck_assert(isnan(hs_labels_summary_read(labels).accuracy) &&
              isnan(hs_labels_summary_read(labels).macro_f1));
    text_make(&x, 1);
    text_add(labels, &x);
    const hs_labels_effect effect = hs_labels_effect_read(labels, 1, 1, 2);
    assert_near(effect.change, (double)x.effects[MAPS - 1].target_change);
    ck_assert(isnan(effect.spread));
    ck_assert(isnan(hs_labels_effect_read(labels, 0, 1, 2).change));
    ck_assert(isnan(hs_labels_class_read(labels, 2).recall));
    hs_sums_destroy(labels);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("labels");
    TCase *tc = tcase_create("all");
    tcase_add_test(tc, arrays_are_sums_over_texts);
    tcase_add_test(tc, figures_of_classes_and_bins);
    tcase_add_test(tc, figures_of_groups_and_effects);
    tcase_add_test(tc, one_text_has_no_spread);
    suite_add_tcase(suite, tc);
    return tests_run(suite);
}
