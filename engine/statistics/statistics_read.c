/* statistics_read.c - reads the state: the arrays of a run, their elements, and the figures of a report. */
#include "engine/statistics/statistics_state.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- the arrays of a run ---- */

static size_t arrays_list(const size_t *lengths, hs_corpus_array *ret_arrays)
{
    size_t n = 0;
    for (size_t k = 0; k < HS__N_FIELDS; k++) {
        const hs_corpus_array array = hs_array_of(hs__stats_rows, k, lengths);
        if (array.name && array.n_elements > 0)
            ret_arrays[n++] = array;
    }
    return n;
}

_Static_assert(HS__N_FIELDS <= HS_CORPUS_ARRAYS_MAX, "HS_CORPUS_ARRAYS_MAX is too small");

size_t hs_corpus_arrays(const hs_corpus_stats *stats, hs_corpus_array ret_arrays[HS_CORPUS_ARRAYS_MAX])
{
    return arrays_list(stats->lengths, ret_arrays);
}

bool hs_corpus_array_find(const hs_corpus_stats *stats, const char *name, hs_corpus_array *ret_array)
{
    hs_corpus_array arrays[HS_CORPUS_ARRAYS_MAX];
    const size_t n = hs_corpus_arrays(stats, arrays);
    for (size_t k = 0; k < n; k++)
        if (strcmp(arrays[k].name, name) == 0) {
            *ret_array = arrays[k];
            return true;
        }
    return false;
}

size_t hs_corpus_arrays_of(const hs_corpus_options *options, hs_corpus_array ret_arrays[HS_CORPUS_ARRAYS_MAX])
{
    hs__stats_header header;
    size_t lengths[HS__STATS_LENGTHS];
    if (hs__stats_header_make(options, &header, NULL))
        return 0;
    hs__stats_lengths(&header, lengths);
    return arrays_list(lengths, ret_arrays);
}

/* ---- elements ---- */

size_t hs_corpus_first_tokens(const hs_corpus_stats *stats)
{
    return hs__stats_step(stats->header) > 1 ? (size_t)stats->fields[HS__F_FIRST_TOKENS][0] : 0;
}

/* Sums a count of the parts, shown without them. */
static int64_t parts_sum(const hs_corpus_stats *stats, hs__field field, size_t index)
{
    const size_t n_parts = stats->header->n_parts;
    const size_t size = hs_row_words(hs__stats_rows, field, stats->lengths) / n_parts;
    uint64_t sum = 0;
    for (size_t part = 0; part < n_parts; part++)
        sum += (uint64_t)stats->fields[field][part * size + index];
    return (int64_t)sum;
}

/* Returns a real number whose words are an integer and a fraction. */
static double fixed_read(const int64_t *words, size_t whole, size_t fraction)
{
    return (double)words[whole] + (double)words[fraction] * HS__FRACTION_UNIT;
}

/* Returns attention outside of the columns of H, and off the diagonal if that is left out. */
static double attention_read(const hs_corpus_stats *stats, bool no_diagonal, size_t index)
{
    const size_t n = hs__stats_cells(stats->header);
    const bool without = no_diagonal && index / n % n == index % n;
    if (without && hs__stats_step(stats->header) == 1)
        return 0;
    const uint64_t diagonal = without ? (uint64_t)stats->fields[HS__F_DIAGONAL][index / n] : 0;
    return (double)(int64_t)((uint64_t)stats->fields[HS__F_ATTENTION][index] -
                             (uint64_t)stats->fields[HS__F_HIGH_COLUMNS][index] - diagonal) *
           HS__ATTENTION_UNIT;
}

/* Returns an element of a map of which [l][integer, fraction][i][j] of i < j is counted, shown on both sides
 * of the diagonal. A cell on the diagonal has both halves of its square. */
static double mirrored_read(const hs_corpus_stats *stats, hs__field field, size_t index)
{
    const size_t n = hs__stats_cells(stats->header);
    assert(n > 0);
    const size_t l = index / (n * n), i = index / n % n, j = index % n;
    const size_t at = l * 2 * n * n + (i < j ? i * n + j : j * n + i);
    return fixed_read(stats->fields[field], at, at + n * n) * (i == j ? 2 : 1);
}

/* ---- profiles, distances ---- */

/* Returns the mean over texts of a figure of head `index`; NAN if heads do not have it. */
static float profile_mean(const hs_corpus_stats *stats, size_t index, size_t figure)
{
    const size_t W = stats->header->tokens_max;
    const size_t shown = figure < HS__PROFILE_OFFSETS ? figure : HS__PROFILE_OFFSETS;
    size_t away = 0;
    if (stats->header->crosses && hs__stats_rows[HS__F_PROFILES_SELF + shown].only == HS__WITH_OWN_TEXT)
        return NAN;
    if (figure > HS__PROFILE_OFFSETS + HS_PROFILE_REACH)
        away = figure - HS__PROFILE_OFFSETS - HS_PROFILE_REACH;
    else if (figure >= HS__PROFILE_OFFSETS)
        away = HS__PROFILE_OFFSETS + HS_PROFILE_REACH - figure;
    /* Texts that have such a neighbour somewhere. */
    const double n = away < W ? (double)stats->fields[HS__F_REACHED][away] : 0;
    const size_t at = 2 * (index * HS__PROFILE_N + figure);
    return n > 0 ? (float)(fixed_read(stats->fields[HS__F_PROFILES], at, at + 1) / n) : NAN;
}

hs_head_profile hs_corpus_profile_read(const hs_corpus_stats *stats, size_t l, size_t h)
{
    const size_t index = hs__stats_index(stats, l, h);
    hs_head_profile p = {.self = profile_mean(stats, index, HS__PROFILE_SELF),
                         .previous = profile_mean(stats, index, HS__PROFILE_PREVIOUS),
                         .next = profile_mean(stats, index, HS__PROFILE_NEXT),
                         .first = profile_mean(stats, index, HS__PROFILE_FIRST),
                         .separator = profile_mean(stats, index, HS__PROFILE_SEPARATOR),
                         .punctuation = profile_mean(stats, index, HS__PROFILE_PUNCTUATION),
                         .same_token = profile_mean(stats, index, HS__PROFILE_SAME_TOKEN),
                         .same_sentence = profile_mean(stats, index, HS__PROFILE_SAME_SENTENCE),
                         .entropy = profile_mean(stats, index, HS__PROFILE_ENTROPY),
                         .entropy_first = profile_mean(stats, index, HS__PROFILE_ENTROPY_FIRST),
                         .confidence = profile_mean(stats, index, HS__PROFILE_CONFIDENCE),
                         .mean_distance = profile_mean(stats, index, HS__PROFILE_MEAN_DISTANCE)};
    for (size_t k = 0; k < 2 * HS_PROFILE_REACH + 1; k++)
        p.offsets[k] = profile_mean(stats, index, HS__PROFILE_OFFSETS + k);
    p.label = hs_head_label_find(&p);
    return p;
}

static double distance_sum(const hs_corpus_stats *stats, size_t i, size_t j)
{
    const size_t n = stats->lengths[HS__DISTANCE_HEADS], at = 2 * (i < j ? i * n + j : j * n + i);
    return fixed_read(stats->fields[HS__F_DISTANCES], at, at + 1);
}

/* CKA is a ratio of sums, JS a mean. */
static double distance_read(const hs_corpus_stats *stats, size_t index)
{
    const size_t i = index / stats->lengths[HS__DISTANCE_HEADS],
                 j = index % stats->lengths[HS__DISTANCE_HEADS];
    const double texts = (double)stats->fields[HS__F_TEXTS][0];
    if (stats->header->distances == HS_CORPUS_JS)
        return texts > 0 ? distance_sum(stats, i, j) / texts : NAN;
    const double own = distance_sum(stats, i, i), other = distance_sum(stats, j, j);
    if (!(own > 0) || !(other > 0))
        return NAN;
    return i == j ? 0 : 1 - distance_sum(stats, i, j) / sqrt(own * other);
}

/* Reads an array of real numbers that is HS_MADE. */
static double real_make(const hs_corpus_stats *stats, size_t field, size_t index)
{
    const size_t n_offsets = 2 * HS_PROFILE_REACH + 1;
    switch (field) {
    case HS__F_THRESHOLDS:
        return (double)stats->header->thresholds[index];
    case HS__F_FOCAL_SHARE_SUM:
        return (double)parts_sum(stats, HS__F_PART_FOCAL_SHARE_SUM, index) * HS__SHARE_UNIT;
    case HS__F_NO_COLUMNS:
        return attention_read(stats, false, index);
    case HS__F_NO_COLUMNS_NO_DIAGONAL:
        return attention_read(stats, true, index);
    case HS__F_SIMILARITY_SUM:
        return mirrored_read(stats, HS__F_SIMILARITY, index);
    case HS__F_NORMALIZED_SUM:
        return mirrored_read(stats, HS__F_NORMALIZED, index);
    case HS__F_FIRST_SIMILARITY_SUM:
        return mirrored_read(stats, HS__F_FIRST_SIMILARITY, index);
    case HS__F_PROFILES_OFFSETS:
        return (double)profile_mean(stats, index / n_offsets, HS__PROFILE_OFFSETS + index % n_offsets);
    case HS__F_HEAD_DISTANCES:
        return distance_read(stats, index);
    default:
        assert(field >= HS__F_PROFILES_SELF && field < HS__F_PROFILES_OFFSETS);
        return (double)profile_mean(stats, index, field - HS__F_PROFILES_SELF);
    }
}

/* Reads an array of counts that is HS_MADE. */
static int64_t count_make(const hs_corpus_stats *stats, size_t field, size_t index)
{
    switch (field) {
    case HS__F_LAYERS:
        return stats->header->layers[index];
    case HS__F_MAP_STEP:
        return (int64_t)hs__stats_step(stats->header);
    case HS__F_HIGH:
        return parts_sum(stats, HS__F_PART_HIGH, index);
    case HS__F_HIGH_ORDINARY:
        return parts_sum(stats, HS__F_PART_HIGH_ORDINARY, index);
    case HS__F_REPEATED:
        return parts_sum(stats, HS__F_PART_REPEATED, index);
    case HS__F_SAME_SENTENCE:
        return parts_sum(stats, HS__F_PART_SAME_SENTENCE, index);
    case HS__F_BOTH:
        return parts_sum(stats, HS__F_PART_BOTH, index);
    case HS__F_TEXTS_WITH_HIGH:
        return parts_sum(stats, HS__F_PART_TEXTS_WITH_HIGH, index);
    case HS__F_NORMALIZED_HIST:
        return (int64_t)((uint64_t)stats->fields[HS__F_SIGNAL_HIST][index] +
                         (uint64_t)stats->fields[HS__F_NOISE_HIST][index] +
                         (uint64_t)stats->fields[HS__F_SPECIAL_HIST][index]);
    default:
        assert(field == HS__F_PROFILES_LABEL);
        return (int64_t)hs_corpus_profile_read(stats, index / stats->header->n_heads,
                                               index % stats->header->n_heads)
            .label;
    }
}

/* ---- the most frequent ids ---- */

typedef struct focus_list {
    int64_t ids[HS_CORPUS_FOCUS_MAX], counts[HS_CORPUS_FOCUS_MAX];
} focus_list;

/* Most frequent first, equals by id; -1 and 0 where there are no more. */
static focus_list focus_find(const hs_corpus_stats *stats, hs__field field, size_t l)
{
    const size_t V = stats->header->vocab_size;
    const int64_t *counts = stats->fields[field] + l * V;
    focus_list list = {0};
    memset(list.ids, -1, sizeof list.ids);
    for (size_t id = 0; id < V; id++) {
        size_t at = HS_CORPUS_FOCUS_MAX;
        while (at > 0 && counts[id] > list.counts[at - 1])
            at--;
        if (at == HS_CORPUS_FOCUS_MAX)
            continue;
        memmove(list.ids + at + 1, list.ids + at, (HS_CORPUS_FOCUS_MAX - 1 - at) * sizeof *list.ids);
        memmove(list.counts + at + 1, list.counts + at, (HS_CORPUS_FOCUS_MAX - 1 - at) * sizeof *list.counts);
        list.ids[at] = (int64_t)id;
        list.counts[at] = counts[id];
    }
    return list;
}

/* Reads elements of the ids of layers, or of their counts. */
static void focus_read(const hs_corpus_stats *stats, hs__field field, bool ids, size_t first, size_t n,
                       int64_t *ret)
{
    focus_list list;
    for (size_t k = 0; k < n; k++) {
        const size_t at = (first + k) % HS_CORPUS_FOCUS_MAX;
        if (k == 0 || at == 0)
            list = focus_find(stats, field, (first + k) / HS_CORPUS_FOCUS_MAX);
        ret[k] = ids ? list.ids[at] : list.counts[at];
    }
}

void hs_corpus_array_read(const hs_corpus_stats *stats, const hs_corpus_array *array, size_t first, size_t n,
                          void *ret)
{
    const size_t field = array->field;
    double *reals = ret;
    int64_t *counts = ret;
    if (array->row->place == HS_ONCE)
        hs_words_read(stats->fields[field], array->row->kind, first, n, ret);
    else if (field == HS__F_FOCUS_IDS || field == HS__F_FOCUS_COUNTS)
        focus_read(stats, HS__F_FOCUS, field == HS__F_FOCUS_IDS, first, n, ret);
    else if (field == HS__F_FOCAL_IDS || field == HS__F_FOCAL_COUNTS)
        focus_read(stats, HS__F_FOCAL, field == HS__F_FOCAL_IDS, first, n, ret);
    else
        for (size_t k = 0; k < n; k++)
            if (array->is_float)
                reals[k] = real_make(stats, field, first + k);
            else
                counts[k] = count_make(stats, field, first + k);
}

/* ---- figures ----
 *
 * The figures of a report: shares, lifts, spreads, d', areas. */

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

/* Pairs by distance: the sums of n_maps lists [window] that follow each other. */
typedef struct distance_lists {
    const int64_t *counts;
    size_t n_maps, window;
} distance_lists;

static int64_t count_at(const distance_lists *lists, size_t d)
{
    uint64_t sum = 0;
    for (size_t map = 0; map < lists->n_maps; map++)
        sum += (uint64_t)lists->counts[map * lists->window + d];
    return (int64_t)sum;
}

/* The smallest d with more than `rank` pairs at or below it. Doubles, here and below: a state that was loaded
 * may hold anything, and no sum of doubles is undefined. */
static double distance_of_rank(const distance_lists *lists, double rank)
{
    size_t d = 0;
    for (double below = (double)count_at(lists, 0); below <= rank && d + 1 < lists->window;
         below += (double)count_at(lists, d))
        d++;
    return (double)d;
}

static double distance_median(const int64_t *counts, size_t n_maps, size_t window)
{
    const distance_lists lists = {counts, n_maps, window};
    double size = 0;
    for (size_t d = 0; d < window; d++)
        size += (double)count_at(&lists, d);
    if (!(size > 0))
        return NAN;
    const double lower = floor((size - 1) / 2), upper = floor(size / 2);
    return (distance_of_rank(&lists, lower) + distance_of_rank(&lists, upper)) / 2;
}

hs_corpus_chance hs_corpus_chance_read(const hs_corpus_stats *stats)
{
    const double pairs = (double)stats->fields[HS__F_ALL_PAIRS][0],
                 ordinary = (double)stats->fields[HS__F_ALL_ORDINARY][0];
    const size_t W = stats->header->tokens_max;
    return (hs_corpus_chance){
        .repeated = share((double)stats->fields[HS__F_ALL_REPEATED][0], pairs),
        .same_sentence = share((double)stats->fields[HS__F_ALL_SAME_SENTENCE][0], ordinary),
        .repeated_same_sentence = share((double)stats->fields[HS__F_ALL_BOTH][0], ordinary),
        .mean_distance = mean_of_counts(stats->fields[HS__F_ALL_DISTANCE], W),
        .median_distance = distance_median(stats->fields[HS__F_ALL_DISTANCE], 1, W),
    };
}

/* ---- a head ---- */

/* part / size, from the sums over all parts, and how it differs between them. */
static hs_corpus_figure figure_read(const hs_corpus_stats *stats, hs__field part, hs__field size, double unit,
                                    size_t cell)
{
    const hs__stats_header *header = stats->header;
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

double hs_corpus_dprime(const hs_corpus_pairs *signal, const hs_corpus_pairs *noise)
{
    const double signal_mean = signal->sum / signal->n, noise_mean = noise->sum / noise->n;
    const double signal_variance = signal->squares / signal->n - signal_mean * signal_mean;
    const double noise_variance = noise->squares / noise->n - noise_mean * noise_mean;
    const double variance = (signal_variance + noise_variance) / 2;
    return variance > 0 ? (signal_mean - noise_mean) / sqrt(variance) : NAN;
}

double hs_corpus_auc(const hs_corpus_pairs *signal, const hs_corpus_pairs *noise)
{
    double noise_below = 0, signal_size = 0, area = 0;
    for (size_t bin = 0; bin < HS__N_BINS; bin++) {
        area += (double)signal->bins[bin] * (noise_below + (double)noise->bins[bin] / 2);
        noise_below += (double)noise->bins[bin];
        signal_size += (double)signal->bins[bin];
    }
    return share(area, signal_size * noise_below);
}

/* Returns the signal or noise pairs of a head, from its moments and its histogram. */
static hs_corpus_pairs pairs_of(const hs_corpus_stats *stats, hs__field moments, hs__field hist, size_t index)
{
    const int64_t *m = stats->fields[moments] + index * 6;
    return (hs_corpus_pairs){fixed_read(m, 0, 1), fixed_read(m + 2, 0, 1), fixed_read(m + 4, 0, 1),
                             stats->fields[hist] + index * HS__N_BINS};
}

hs_corpus_head hs_corpus_head_read(const hs_corpus_stats *stats, size_t t, size_t l, size_t h)
{
    const size_t cell = hs__stats_cell(stats, t, l, h), index = hs__stats_index(stats, l, h);
    const size_t W = stats->header->tokens_max;
    const hs_corpus_pairs signal = pairs_of(stats, HS__F_SIGNAL_MOMENTS, HS__F_SIGNAL_HIST, index),
                          noise = pairs_of(stats, HS__F_NOISE_MOMENTS, HS__F_NOISE_HIST, index);
    const hs_corpus_chance chance = hs_corpus_chance_read(stats);
    hs_corpus_head head = {
        .repeated_share = figure_read(stats, HS__F_PART_REPEATED, HS__F_PART_HIGH, 1, cell),
        .same_sentence_share =
            figure_read(stats, HS__F_PART_SAME_SENTENCE, HS__F_PART_HIGH_ORDINARY, 1, cell),
        .mean_distance = figure_read(stats, HS__F_PART_DISTANCE_SUM, HS__F_PART_HIGH, 1, cell),
        .focal_share =
            figure_read(stats, HS__F_PART_FOCAL_SHARE_SUM, HS__F_PART_TEXTS_WITH_HIGH, HS__SHARE_UNIT, cell),
        .repeated_same_sentence_share =
            figure_read(stats, HS__F_PART_BOTH, HS__F_PART_HIGH_ORDINARY, 1, cell).value,
        .median_distance = distance_median(stats->fields[HS__F_DISTANCE] + cell * W, 1, W),
        .dprime = hs_corpus_dprime(&signal, &noise),
        .auc = hs_corpus_auc(&signal, &noise),
    };
    const size_t n_cells = stats->header->n_thresholds * stats->header->n_layers * stats->header->n_heads;
    for (size_t part = 0; part < stats->header->n_parts; part++) {
        head.high += (uint64_t)stats->fields[HS__F_PART_HIGH][part * n_cells + cell];
        head.high_ordinary += (uint64_t)stats->fields[HS__F_PART_HIGH_ORDINARY][part * n_cells + cell];
        head.texts_with_high += (uint64_t)stats->fields[HS__F_PART_TEXTS_WITH_HIGH][part * n_cells + cell];
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
    const hs__stats_header *header = stats->header;
    const size_t n_cells = header->n_thresholds * header->n_layers * header->n_heads;
    double sum = 0;
    for (size_t part = 0; part < header->n_parts; part++)
        for (size_t h = 0; h < header->n_heads; h++)
            sum += (double)stats->fields[field][part * n_cells + hs__stats_cell(stats, t, l, h)];
    return sum;
}

static double layer_median(const hs_corpus_stats *stats, size_t t, size_t l)
{
    const size_t W = stats->header->tokens_max;
    return distance_median(stats->fields[HS__F_DISTANCE] + hs__stats_cell(stats, t, l, 0) * W,
                           stats->header->n_heads, W);
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
        sum += fixed_read(
            stats->fields[HS__F_MASS] + (hs__stats_index(stats, l, h) * HS_ROLE_COUNT + class) * 2, 0, 1);
    return sum;
}

hs_corpus_masked hs_corpus_masked_read(const hs_corpus_stats *stats)
{
    if (!stats->header->masked)
        return (hs_corpus_masked){0, NAN, NAN};
    const int64_t n = stats->fields[HS__F_MASKED_TOKENS][0];
    return (hs_corpus_masked){(uint64_t)n, share((double)stats->fields[HS__F_MASKED_RIGHT][0], (double)n),
                              share(fixed_read(stats->fields[HS__F_MASKED_LOSS], 0, 1), (double)n)};
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
    const double high = layer_sum(stats, HS__F_PART_HIGH, t, l),
                 ordinary = layer_sum(stats, HS__F_PART_HIGH_ORDINARY, t, l);
    const int64_t *boundaries = stats->fields[HS__F_SEGMENTATION] + l * 3;
    const double hits = (double)boundaries[0], predicted = (double)boundaries[1];
    const double actual = (double)boundaries[2];
    double mass = 0;
    for (size_t class = 0; class < HS_ROLE_COUNT; class ++)
        mass += mass_sum(stats, l, class);
    hs_corpus_layer layer = {
        .high = high > 0 && high < 0x1p63 ? (uint64_t)high : 0,
        .high_ordinary = ordinary > 0 && ordinary < 0x1p63 ? (uint64_t)ordinary : 0,
        .repeated_share = share(layer_sum(stats, HS__F_PART_REPEATED, t, l), high),
        .same_sentence_share = share(layer_sum(stats, HS__F_PART_SAME_SENTENCE, t, l), ordinary),
        .repeated_same_sentence_share = share(layer_sum(stats, HS__F_PART_BOTH, t, l), ordinary),
        .mean_distance = share(layer_sum(stats, HS__F_PART_DISTANCE_SUM, t, l), high),
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
