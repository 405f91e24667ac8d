/* statistics_read.c - reads the state: the arrays of docs/reference/arrays.md, the figures of a report. */
#include "engine/statistics/statistics_state.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* The way in which an array is made of fields. */
typedef enum source {
    FROM_COUNTS, /* the field itself */
    FROM_PARTS,  /* summed over its first axis, the parts */
    FROM_SHARES, /* the field in units of HS__SHARE_UNIT */
    FROM_PARTS_SHARES,
    FROM_WHOLE,    /* the last axis is an integer and a fraction */
    FROM_MIRRORED, /* [l][integer, fraction][i][j] of i < j, shown on both sides of the diagonal */
    FROM_ATTENTION,
    FROM_OTHER_COLUMNS, /* attention less that in the columns of H */
    FROM_OFF_DIAGONAL,  /* and less the diagonal */
    FROM_BOTH_HISTS,
    FROM_FOCUS_IDS,
    FROM_FOCUS_COUNTS,
    FROM_THRESHOLDS,
    FROM_LAYERS,
    FROM_MAP_STEP,
    FROM_PROFILES, /* figures of them, in the order of HS__PROFILE_..., as means over texts */
    FROM_OFFSETS,
    FROM_LABELS,
    FROM_DISTANCES,
    FROM_MASKED_RIGHT, /* words of the field: the second */
    FROM_MASKED_LOSS,  /* and the last two */
} source;

/* axes as in HS__STATS_FIELDS, f: the ids of the focus lists, o: offsets of a profile. */
static const struct array_source {
    const char *name, *axes;
    source source;
    hs__field field;
    bool is_float;
} sources[] = {
    {"thresholds", "t", FROM_THRESHOLDS, HS__N_FIELDS, true},
    {"layers", "l", FROM_LAYERS, HS__N_FIELDS, false},
    {"map_step", "", FROM_MAP_STEP, HS__N_FIELDS, false},
    {"texts", "", FROM_COUNTS, HS__F_TEXTS, false},
    {"tokens", "", FROM_COUNTS, HS__F_TOKENS, false},
    {"all_pairs", "", FROM_COUNTS, HS__F_ALL_PAIRS, false},
    {"all_repeated", "", FROM_COUNTS, HS__F_ALL_REPEATED, false},
    {"all_same_sentence", "", FROM_COUNTS, HS__F_ALL_SAME_SENTENCE, false},
    {"all_repeated_same_sentence", "", FROM_COUNTS, HS__F_ALL_BOTH, false},
    {"all_distance", "w", FROM_COUNTS, HS__F_ALL_DISTANCE, false},
    {"high", "tlh", FROM_PARTS, HS__F_HIGH, false},
    {"repeated", "tlh", FROM_PARTS, HS__F_REPEATED, false},
    {"same_sentence", "tlh", FROM_PARTS, HS__F_SAME_SENTENCE, false},
    {"repeated_same_sentence", "tlh", FROM_PARTS, HS__F_BOTH, false},
    {"repeated_hist", "tlhs", FROM_COUNTS, HS__F_REPEATED_HIST, false},
    {"repeated_same_sentence_hist", "tlhs", FROM_COUNTS, HS__F_BOTH_HIST, false},
    {"same_sentence_hist", "tlhs", FROM_COUNTS, HS__F_SAME_SENTENCE_HIST, false},
    {"focal_hist", "tlhs", FROM_COUNTS, HS__F_FOCAL_HIST, false},
    {"texts_with_high", "tlh", FROM_PARTS, HS__F_TEXTS_WITH_HIGH, false},
    {"distance", "tlhw", FROM_COUNTS, HS__F_DISTANCE, false},
    {"location", "lhbb", FROM_COUNTS, HS__F_LOCATION, false},
    {"focal_share_sum", "tlh", FROM_PARTS_SHARES, HS__F_FOCAL_SHARE_SUM, true},
    {"unique_focal", "tlu", FROM_COUNTS, HS__F_UNIQUE_FOCAL, false},
    {"attention_sum", "lhbb", FROM_ATTENTION, HS__F_ATTENTION, true},
    {"attention_sum_no_columns", "lhbb", FROM_OTHER_COLUMNS, HS__F_ATTENTION, true},
    {"attention_sum_no_columns_no_diagonal", "lhbb", FROM_OFF_DIAGONAL, HS__F_ATTENTION, true},
    {"reached", "w", FROM_COUNTS, HS__F_REACHED, false},
    {"similarity_sum", "lbb", FROM_MIRRORED, HS__F_SIMILARITY, true},
    {"normalized_sum", "lbb", FROM_MIRRORED, HS__F_NORMALIZED, true},
    {"first_similarity", "lbb", FROM_MIRRORED, HS__F_FIRST_SIMILARITY, true},
    {"normalized_hist", "lhn", FROM_BOTH_HISTS, HS__F_SIGNAL_HIST, false},
    {"column_hist", "lhc", FROM_COUNTS, HS__F_COLUMN_HIST, false},
    {"signal_hist", "lhn", FROM_COUNTS, HS__F_SIGNAL_HIST, false},
    {"noise_hist", "lhn", FROM_COUNTS, HS__F_NOISE_HIST, false},
    {"signal_moments", "lh3", FROM_WHOLE, HS__F_SIGNAL_MOMENTS, true},
    {"noise_moments", "lh3", FROM_WHOLE, HS__F_NOISE_MOMENTS, true},
    {"focus_ids", "lf", FROM_FOCUS_IDS, HS__F_FOCUS, false},
    {"focus_counts", "lf", FROM_FOCUS_COUNTS, HS__F_FOCUS, false},
    {"attention_mass", "lhm", FROM_WHOLE, HS__F_MASS, true},
    {"segmentation", "l3", FROM_COUNTS, HS__F_SEGMENTATION, false},
    {"part_high", "ptlh", FROM_COUNTS, HS__F_HIGH, false},
    {"part_repeated", "ptlh", FROM_COUNTS, HS__F_REPEATED, false},
    {"part_same_sentence", "ptlh", FROM_COUNTS, HS__F_SAME_SENTENCE, false},
    {"part_distance_sum", "ptlh", FROM_COUNTS, HS__F_DISTANCE_SUM, false},
    {"part_texts_with_high", "ptlh", FROM_COUNTS, HS__F_TEXTS_WITH_HIGH, false},
    {"part_focal_share_sum", "ptlh", FROM_SHARES, HS__F_FOCAL_SHARE_SUM, true},
    {"sentences", "", FROM_COUNTS, HS__F_SENTENCES, false},
    {"focal_ids", "lf", FROM_FOCUS_IDS, HS__F_FOCAL, false},
    {"focal_counts", "lf", FROM_FOCUS_COUNTS, HS__F_FOCAL, false},
    {"profiles_self", "lh", FROM_PROFILES, HS__F_PROFILES, true},
    {"profiles_previous", "lh", FROM_PROFILES, HS__F_PROFILES, true},
    {"profiles_next", "lh", FROM_PROFILES, HS__F_PROFILES, true},
    {"profiles_first", "lh", FROM_PROFILES, HS__F_PROFILES, true},
    {"profiles_separator", "lh", FROM_PROFILES, HS__F_PROFILES, true},
    {"profiles_punctuation", "lh", FROM_PROFILES, HS__F_PROFILES, true},
    {"profiles_same_token", "lh", FROM_PROFILES, HS__F_PROFILES, true},
    {"profiles_same_sentence", "lh", FROM_PROFILES, HS__F_PROFILES, true},
    {"profiles_entropy", "lh", FROM_PROFILES, HS__F_PROFILES, true},
    {"profiles_entropy_first", "lh", FROM_PROFILES, HS__F_PROFILES, true},
    {"profiles_confidence", "lh", FROM_PROFILES, HS__F_PROFILES, true},
    {"profiles_mean_distance", "lh", FROM_PROFILES, HS__F_PROFILES, true},
    {"profiles_offsets", "lho", FROM_OFFSETS, HS__F_PROFILES, true},
    {"profiles_label", "lh", FROM_LABELS, HS__F_PROFILES, false},
    {"even_same_sentence_sum", "", FROM_WHOLE, HS__F_EVEN_SAME_SENTENCE, true},
    {"head_distances", "dd", FROM_DISTANCES, HS__F_DISTANCES, true},
    {"masked_tokens", "", FROM_COUNTS, HS__F_MASKED, false},
    {"masked_right", "", FROM_MASKED_RIGHT, HS__F_MASKED, false},
    {"masked_loss_sum", "", FROM_MASKED_LOSS, HS__F_MASKED, true},
    {"attention_reached", "bb", FROM_COUNTS, HS__F_ATTENDED, false},
};
enum { N_ARRAYS = sizeof sources / sizeof *sources };
_Static_assert(N_ARRAYS <= HS_CORPUS_ARRAYS_MAX, "HS_CORPUS_ARRAYS_MAX is too small");

/* Rows of profiles are in the order of their figures. */
static size_t profile_figure(const struct array_source *s)
{
    size_t figure = 0;
    while (s[-1].source == FROM_PROFILES) {
        s--;
        figure++;
    }
    return figure;
}

/* Returns true for figures that a head has only if it attends to the tokens of its own text. */
static bool needs_own_text(size_t figure)
{
    switch (figure) {
    case HS__PROFILE_FIRST:
    case HS__PROFILE_SEPARATOR:
    case HS__PROFILE_PUNCTUATION:
    case HS__PROFILE_ENTROPY:
    case HS__PROFILE_ENTROPY_FIRST:
    case HS__PROFILE_CONFIDENCE:
        return false;
    default:
        return true;
    }
}

/* Returns true for arrays that heads have only if they attend to the tokens of their own text. */
static bool is_of_own_text(const struct array_source *s)
{
    switch (s->source) {
    case FROM_OFF_DIAGONAL:
    case FROM_OFFSETS:
    case FROM_LABELS:
        return true;
    case FROM_PROFILES:
        return needs_own_text(profile_figure(s));
    default:
        return false;
    }
}

/* Lists the arrays of fields that are counted: a field without words has none. */
static size_t arrays_list(const hs__stats_header *header, hs_corpus_array *ret_arrays)
{
    size_t n_arrays = 0;
    for (size_t k = 0; k < N_ARRAYS; k++) {
        const bool is_empty =
            sources[k].field < HS__N_FIELDS && hs__stats_field_words(header, sources[k].field) == 0;
        if (is_empty || (header->crosses && is_of_own_text(&sources[k])))
            continue;
        hs_corpus_array array = {
            .name = sources[k].name, .is_float = sources[k].is_float, .n_elements = 1, .field = k};
        for (const char *axis = sources[k].axes; *axis; axis++) {
            const size_t n = *axis == 'f'   ? HS_CORPUS_FOCUS_MAX
                             : *axis == 'o' ? 2 * HS_PROFILE_REACH + 1
                                            : hs__stats_axis(header, *axis);
            array.axes[array.n_axes++] = n;
            array.n_elements *= n;
        }
        ret_arrays[n_arrays++] = array;
    }
    return n_arrays;
}

size_t hs_corpus_arrays(const hs_corpus_stats *stats, hs_corpus_array ret_arrays[HS_CORPUS_ARRAYS_MAX])
{
    return arrays_list(stats->header, ret_arrays);
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
    return hs__stats_header_make(options, &header, NULL) ? 0 : arrays_list(&header, ret_arrays);
}

/* ---- elements ---- */

size_t hs_corpus_first_tokens(const hs_corpus_stats *stats)
{
    return hs__stats_step(stats->header) > 1 ? (size_t)stats->fields[HS__F_FIRST_TOKENS][0] : 0;
}

static int64_t parts_sum(const hs_corpus_stats *stats, hs__field field, size_t index)
{
    const hs__stats_header *h = stats->header;
    const size_t size = h->n_thresholds * h->n_layers * h->n_heads;
    uint64_t sum = 0;
    for (size_t part = 0; part < h->n_parts; part++)
        sum += (uint64_t)stats->fields[field][part * size + index];
    return (int64_t)sum;
}

static double fixed_read(const int64_t *words, size_t whole, size_t fraction)
{
    return (double)words[whole] + (double)words[fraction] * HS__FRACTION_UNIT;
}

static double attention_read(const hs_corpus_stats *stats, source from, size_t index)
{
    const size_t n = hs__stats_cells(stats->header);
    const bool without = from == FROM_OFF_DIAGONAL && index / n % n == index % n;
    if (without && hs__stats_step(stats->header) == 1)
        return 0;
    const uint64_t high = from == FROM_ATTENTION ? 0 : (uint64_t)stats->fields[HS__F_HIGH_COLUMNS][index];
    const uint64_t diagonal = without ? (uint64_t)stats->fields[HS__F_DIAGONAL][index / n] : 0;
    return (double)(int64_t)((uint64_t)stats->fields[HS__F_ATTENTION][index] - high - diagonal) *
           HS__ATTENTION_UNIT;
}

/* A cell on the diagonal has both halves of its square. */
static double mirrored_read(const hs_corpus_stats *stats, hs__field field, size_t index)
{
    const size_t n = hs__stats_cells(stats->header);
    assert(n > 0);
    const size_t l = index / (n * n), i = index / n % n, j = index % n;
    const size_t at = l * 2 * n * n + (i < j ? i * n + j : j * n + i);
    return fixed_read(stats->fields[field], at, at + n * n) * (i == j ? 2 : 1);
}

/* ---- profiles, distances ---- */

static float profile_mean(const hs_corpus_stats *stats, size_t index, size_t figure)
{
    const size_t W = stats->header->tokens_max;
    size_t away = 0;
    if (stats->header->crosses && needs_own_text(figure))
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
                         .entropy = profile_mean(stats, index, HS__PROFILE_ENTROPY),
                         .entropy_first = profile_mean(stats, index, HS__PROFILE_ENTROPY_FIRST),
                         .confidence = profile_mean(stats, index, HS__PROFILE_CONFIDENCE),
                         .mean_distance = profile_mean(stats, index, HS__PROFILE_MEAN_DISTANCE)};
    for (size_t k = 0; k < 2 * HS_PROFILE_REACH + 1; k++)
        p.offsets[k] = profile_mean(stats, index, HS__PROFILE_OFFSETS + k);
    p.label = hs_head_label_find(&p);
    return p;
}

static double profile_read(const hs_corpus_stats *stats, const struct array_source *s, size_t index)
{
    const size_t n = 2 * HS_PROFILE_REACH + 1;
    if (s->source == FROM_PROFILES)
        return (double)profile_mean(stats, index, profile_figure(s));
    return (double)profile_mean(stats, index / n, HS__PROFILE_OFFSETS + index % n);
}

static double distance_sum(const hs_corpus_stats *stats, size_t i, size_t j)
{
    const size_t n = hs__stats_axis(stats->header, 'd'), at = 2 * (i < j ? i * n + j : j * n + i);
    return fixed_read(stats->fields[HS__F_DISTANCES], at, at + 1);
}

/* CKA is a ratio of sums, JS a mean. */
static double distance_read(const hs_corpus_stats *stats, size_t i, size_t j)
{
    const double texts = (double)stats->fields[HS__F_TEXTS][0];
    if (stats->header->distances == HS_CORPUS_JS)
        return texts > 0 ? distance_sum(stats, i, j) / texts : NAN;
    const double own = distance_sum(stats, i, i), other = distance_sum(stats, j, j);
    if (!(own > 0) || !(other > 0))
        return NAN;
    return i == j ? 0 : 1 - distance_sum(stats, i, j) / sqrt(own * other);
}

static double float_read(const hs_corpus_stats *stats, const struct array_source *s, size_t index)
{
    switch (s->source) {
    case FROM_SHARES:
        return (double)stats->fields[s->field][index] * HS__SHARE_UNIT;
    case FROM_PARTS_SHARES:
        return (double)parts_sum(stats, s->field, index) * HS__SHARE_UNIT;
    case FROM_WHOLE:
        return fixed_read(stats->fields[s->field], 2 * index, 2 * index + 1);
    case FROM_MIRRORED:
        return mirrored_read(stats, s->field, index);
    case FROM_PROFILES:
    case FROM_OFFSETS:
        return profile_read(stats, s, index);
    case FROM_DISTANCES:
        return distance_read(stats, index / hs__stats_axis(stats->header, 'd'),
                             index % hs__stats_axis(stats->header, 'd'));
    case FROM_MASKED_LOSS:
        return fixed_read(stats->fields[s->field], 2, 3);
    case FROM_THRESHOLDS:
        return (double)stats->header->thresholds[index];
    default:
        return attention_read(stats, s->source, index);
    }
}

static int64_t count_read(const hs_corpus_stats *stats, const struct array_source *s, size_t index)
{
    switch (s->source) {
    case FROM_PARTS:
        return parts_sum(stats, s->field, index);
    case FROM_BOTH_HISTS:
        return (int64_t)((uint64_t)stats->fields[HS__F_SIGNAL_HIST][index] +
                         (uint64_t)stats->fields[HS__F_NOISE_HIST][index]);
    case FROM_MAP_STEP:
        return (int64_t)hs__stats_step(stats->header);
    case FROM_LAYERS:
        return stats->header->layers[index];
    case FROM_LABELS:
        return (int64_t)hs_corpus_profile_read(stats, index / stats->header->n_heads,
                                               index % stats->header->n_heads)
            .label;
    case FROM_MASKED_RIGHT:
        return stats->fields[s->field][1];
    default:
        return stats->fields[s->field][index];
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

static void focus_read(const hs_corpus_stats *stats, const struct array_source *s, size_t first, size_t n,
                       int64_t *ret)
{
    focus_list list;
    for (size_t k = 0; k < n; k++) {
        const size_t at = (first + k) % HS_CORPUS_FOCUS_MAX;
        if (k == 0 || at == 0)
            list = focus_find(stats, s->field, (first + k) / HS_CORPUS_FOCUS_MAX);
        ret[k] = s->source == FROM_FOCUS_IDS ? list.ids[at] : list.counts[at];
    }
}

void hs_corpus_array_read(const hs_corpus_stats *stats, const hs_corpus_array *array, size_t first, size_t n,
                          void *ret)
{
    const struct array_source *s = &sources[array->field];
    if (s->source == FROM_FOCUS_IDS || s->source == FROM_FOCUS_COUNTS) {
        focus_read(stats, s, first, n, ret);
        return;
    }
    double *floats = ret;
    int64_t *counts = ret;
    for (size_t k = 0; k < n; k++)
        if (s->is_float)
            floats[k] = float_read(stats, s, first + k);
        else
            counts[k] = count_read(stats, s, first + k);
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
    const double pairs = (double)stats->fields[HS__F_ALL_PAIRS][0];
    const size_t W = stats->header->tokens_max;
    return (hs_corpus_chance){
        .repeated = share((double)stats->fields[HS__F_ALL_REPEATED][0], pairs),
        .same_sentence = share((double)stats->fields[HS__F_ALL_SAME_SENTENCE][0], pairs),
        .repeated_same_sentence = share((double)stats->fields[HS__F_ALL_BOTH][0], pairs),
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
        .repeated_share = figure_read(stats, HS__F_REPEATED, HS__F_HIGH, 1, cell),
        .same_sentence_share = figure_read(stats, HS__F_SAME_SENTENCE, HS__F_HIGH, 1, cell),
        .mean_distance = figure_read(stats, HS__F_DISTANCE_SUM, HS__F_HIGH, 1, cell),
        .focal_share = figure_read(stats, HS__F_FOCAL_SHARE_SUM, HS__F_TEXTS_WITH_HIGH, HS__SHARE_UNIT, cell),
        .repeated_same_sentence_share = figure_read(stats, HS__F_BOTH, HS__F_HIGH, 1, cell).value,
        .median_distance = distance_median(stats->fields[HS__F_DISTANCE] + cell * W, 1, W),
        .dprime = hs_corpus_dprime(&signal, &noise),
        .auc = hs_corpus_auc(&signal, &noise),
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
    const int64_t *sums = stats->fields[HS__F_MASKED];
    if (!stats->header->masked)
        return (hs_corpus_masked){0, NAN, NAN};
    const double n = (double)sums[0];
    return (hs_corpus_masked){(uint64_t)sums[0], share((double)sums[1], n),
                              share(fixed_read(sums + 2, 0, 1), n)};
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
