/* statistics_figures.c - the figures of a report: shares, lifts, spreads, d', areas. */
#include "engine/statistics/statistics_state.h"

#include <math.h>

static double share(double part, double size)
{
    return size > 0 ? part / size : NAN;
}

/* ---- distances ---- */

/* Returns the mean of values below n, of which counts [n] has the number of each. */
static double mean_of_counts(const int64_t *counts, size_t n)
{
    double sum = 0, size = 0;
    for (size_t k = 0; k < n; k++) {
        sum += (double)k * (double)counts[k];
        size += (double)counts[k];
    }
    return share(sum, size);
}

/* The smallest d with more than `rank` pairs at or below it. Doubles, here and below: a state that was loaded
 * may hold anything, and no sum of doubles is undefined. */
static double distance_of_rank(const int64_t *distances, size_t window, double rank)
{
    size_t d = 0;
    for (double below = (double)distances[0]; below <= rank && d + 1 < window; below += (double)distances[d])
        d++;
    return (double)d;
}

static double distance_median(const int64_t *distances, size_t window)
{
    double size = 0;
    for (size_t d = 0; d < window; d++)
        size += (double)distances[d];
    if (!(size > 0))
        return NAN;
    const double lower = floor((size - 1) / 2), upper = floor(size / 2);
    return (distance_of_rank(distances, window, lower) + distance_of_rank(distances, window, upper)) / 2;
}

hs_corpus_chance hs_corpus_chance_read(const hs_corpus_stats *stats)
{
    const double pairs = (double)stats->fields[HS__F_ALL_PAIRS][0];
    const size_t W = stats->header->tokens_max;
    return (hs_corpus_chance){
        .repeated = share((double)stats->fields[HS__F_ALL_REPEATED][0], pairs),
        .same_sentence = share((double)stats->fields[HS__F_ALL_SAME_SENTENCE][0], pairs),
        .repeated_same_sentence = share((double)stats->fields[HS__F_ALL_BOTH][0], pairs),
        .mean_distance = mean_of_counts(stats->fields[HS__F_ALL_DISTANCE], W),
        .median_distance = distance_median(stats->fields[HS__F_ALL_DISTANCE], W),
    };
}

/* ---- a head ---- */

/* part / size, from the sums over all parts, and how it differs between them. */
static hs_corpus_figure figure_read(const hs_corpus_stats *stats, hs__field part, hs__field size, double unit,
                                    size_t cell)
{
    const hs__corpus_header *header = stats->header;
    const size_t n_cells = header->n_thresholds * header->n_layers * header->n_heads;
    double parts = 0, sizes = 0, n = 0, sum = 0, squares = 0;
    for (size_t k = 0; k < header->n_parts; k++) {
        const double p = (double)stats->fields[part][k * n_cells + cell] * unit;
        const double s = (double)stats->fields[size][k * n_cells + cell];
        parts += p;
        sizes += s;
        if (s > 0) {
            n++;
            sum += p / s;
        }
    }
    const double mean = share(sum, n);
    for (size_t k = 0; k < header->n_parts; k++) {
        const double p = (double)stats->fields[part][k * n_cells + cell] * unit;
        const double s = (double)stats->fields[size][k * n_cells + cell];
        squares += s > 0 ? (p / s - mean) * (p / s - mean) : 0;
    }
    return (hs_corpus_figure){.value = share(parts, sizes), .spread = n > 1 ? sqrt(squares / (n - 1)) : NAN};
}

static double fixed_read(const int64_t *words)
{
    return (double)words[0] + (double)words[1] * HS__FRACTION_UNIT;
}

static double dprime(const int64_t *signal, const int64_t *noise)
{
    const double signal_n = fixed_read(signal), noise_n = fixed_read(noise);
    const double signal_mean = fixed_read(signal + 2) / signal_n,
                 noise_mean = fixed_read(noise + 2) / noise_n;
    const double signal_variance = fixed_read(signal + 4) / signal_n - signal_mean * signal_mean;
    const double noise_variance = fixed_read(noise + 4) / noise_n - noise_mean * noise_mean;
    const double variance = (signal_variance + noise_variance) / 2;
    return variance > 0 ? (signal_mean - noise_mean) / sqrt(variance) : NAN;
}

static double area_under_curve(const int64_t *signal, const int64_t *noise)
{
    double noise_below = 0, signal_size = 0, area = 0;
    for (size_t bin = 0; bin < HS__N_BINS; bin++) {
        area += (double)signal[bin] * (noise_below + (double)noise[bin] / 2);
        noise_below += (double)noise[bin];
        signal_size += (double)signal[bin];
    }
    return share(area, signal_size * noise_below);
}

hs_corpus_head hs_corpus_head_read(const hs_corpus_stats *stats, size_t t, size_t l, size_t h)
{
    const size_t cell = hs__corpus_cell(stats, t, l, h), index = hs__corpus_index(stats, l, h);
    const size_t W = stats->header->tokens_max;
    const hs_corpus_chance chance = hs_corpus_chance_read(stats);
    hs_corpus_head head = {
        .repeated_share = figure_read(stats, HS__F_REPEATED, HS__F_HIGH, 1, cell),
        .same_sentence_share = figure_read(stats, HS__F_SAME_SENTENCE, HS__F_HIGH, 1, cell),
        .mean_distance = figure_read(stats, HS__F_DISTANCE_SUM, HS__F_HIGH, 1, cell),
        .focal_share = figure_read(stats, HS__F_FOCAL_SHARE_SUM, HS__F_TEXTS_WITH_HIGH, HS__SHARE_UNIT, cell),
        .repeated_same_sentence_share = figure_read(stats, HS__F_BOTH, HS__F_HIGH, 1, cell).value,
        .median_distance = distance_median(stats->fields[HS__F_DISTANCE] + cell * W, W),
        .dprime = dprime(stats->fields[HS__F_SIGNAL_MOMENTS] + index * 6,
                         stats->fields[HS__F_NOISE_MOMENTS] + index * 6),
        .auc = area_under_curve(stats->fields[HS__F_SIGNAL_HIST] + index * HS__N_BINS,
                                stats->fields[HS__F_NOISE_HIST] + index * HS__N_BINS),
    };
    const size_t n_cells = stats->header->n_thresholds * stats->header->n_layers * stats->header->n_heads;
    for (size_t part = 0; part < stats->header->n_parts; part++) {
        head.high += (uint64_t)stats->fields[HS__F_HIGH][part * n_cells + cell];
        head.texts_with_high += (uint64_t)stats->fields[HS__F_TEXTS_WITH_HIGH][part * n_cells + cell];
    }
    head.repeated_lift = share(head.repeated_share.value, chance.repeated);
    head.same_sentence_lift = share(head.same_sentence_share.value, chance.same_sentence);
    head.repeated_same_sentence_lift =
        share(head.repeated_same_sentence_share, chance.repeated_same_sentence);
    return head;
}

/* ---- a layer ---- */

/* Sum over the layer's heads and all parts. */
static double layer_sum(const hs_corpus_stats *stats, hs__field field, size_t t, size_t l)
{
    const hs__corpus_header *header = stats->header;
    const size_t n_cells = header->n_thresholds * header->n_layers * header->n_heads;
    double sum = 0;
    for (size_t part = 0; part < header->n_parts; part++)
        for (size_t h = 0; h < header->n_heads; h++)
            sum += (double)stats->fields[field][part * n_cells + hs__corpus_cell(stats, t, l, h)];
    return sum;
}

static double layer_median(const hs_corpus_stats *stats, size_t t, size_t l)
{
    const size_t W = stats->header->tokens_max;
    int64_t sums[HS_CORPUS_WINDOW_MAX] = {0};
    for (size_t h = 0; h < stats->header->n_heads; h++) {
        const int64_t *distances = stats->fields[HS__F_DISTANCE] + hs__corpus_cell(stats, t, l, h) * W;
        for (size_t d = 0; d < W; d++)
            sums[d] = (int64_t)((uint64_t)sums[d] + (uint64_t)distances[d]);
    }
    return distance_median(sums, W);
}

static double unique_focal_mean(const hs_corpus_stats *stats, size_t t, size_t l)
{
    const size_t n = stats->header->n_heads + 1;
    return mean_of_counts(stats->fields[HS__F_UNIQUE_FOCAL] + (t * stats->header->n_layers + l) * n, n);
}

static double mass_sum(const hs_corpus_stats *stats, size_t l, size_t class)
{
    double sum = 0;
    for (size_t h = 0; h < stats->header->n_heads; h++)
        sum += fixed_read(stats->fields[HS__F_MASS] +
                          (hs__corpus_index(stats, l, h) * HS_ROLE_COUNT + class) * 2);
    return sum;
}

hs_corpus_masked hs_corpus_masked_read(const hs_corpus_stats *stats)
{
    const int64_t *sums = stats->fields[HS__F_MASKED];
    if (!stats->header->masked)
        return (hs_corpus_masked){0, NAN, NAN};
    const double n = (double)sums[0];
    return (hs_corpus_masked){(uint64_t)sums[0], share((double)sums[1], n), share(fixed_read(sums + 2), n)};
}

/* Means over a layer's heads of where attention falls. */
static void head_profiles_read(const hs_corpus_stats *stats, size_t l, hs_corpus_layer *ret)
{
    const double n = (double)stats->header->n_heads;
    ret->on_first = ret->on_self = ret->on_previous = ret->on_next = 0;
    for (size_t h = 0; h < stats->header->n_heads; h++) {
        const hs_head_profile p = hs_corpus_profile_read(stats, l, h);
        ret->on_first += (double)p.first / n;
        ret->on_self += (double)p.self / n;
        ret->on_previous += (double)p.previous / n;
        ret->on_next += (double)p.next / n;
    }
}

hs_corpus_layer hs_corpus_layer_read(const hs_corpus_stats *stats, size_t t, size_t l)
{
    const double high = layer_sum(stats, HS__F_HIGH, t, l);
    const int64_t *boundaries = stats->fields[HS__F_SEGMENTATION] + l * 3;
    const double hits = (double)boundaries[0], predicted = (double)boundaries[1];
    const double actual = (double)boundaries[2];
    double mass = 0;
    for (size_t class = 0; class < HS_ROLE_COUNT; class ++)
        mass += mass_sum(stats, l, class);
    hs_corpus_layer layer = {
        .high = high > 0 && high < 0x1p63 ? (uint64_t)high : 0,
        .repeated_share = share(layer_sum(stats, HS__F_REPEATED, t, l), high),
        .same_sentence_share = share(layer_sum(stats, HS__F_SAME_SENTENCE, t, l), high),
        .repeated_same_sentence_share = share(layer_sum(stats, HS__F_BOTH, t, l), high),
        .mean_distance = share(layer_sum(stats, HS__F_DISTANCE_SUM, t, l), high),
        .median_distance = layer_median(stats, t, l),
        .unique_focal = unique_focal_mean(stats, t, l),
        .precision = share(hits, predicted),
        .recall = share(hits, actual),
        .f1 = share(2 * hits, predicted + actual),
        .mass_cls = share(mass_sum(stats, l, HS_ROLE_FIRST), mass),
        .mass_sep = share(mass_sum(stats, l, HS_ROLE_SEPARATOR), mass),
        .mass_end = share(mass_sum(stats, l, HS_ROLE_SENTENCE_END), mass),
        .mass_comma = share(mass_sum(stats, l, HS_ROLE_COMMA), mass),
        .mass_rest = share(mass_sum(stats, l, HS_ROLE_OTHER), mass),
    };
    head_profiles_read(stats, l, &layer);
    return layer;
}
