/* strata.c - d' and the ROC area of signal from noise within strata of distance.
 *
 * Near pairs are more similar and share a sentence more often than far ones, so d' over all distances is
 * mostly position. Within a stratum distances are alike. The figure of a head is the mean over strata,
 * weighted by their signal pairs. Intervals are drawn from blocks of neighbouring texts
 * (engine/statistics/blocks.h). To save memory these are 16, and their bins of N are put together to 16. The
 * area of such bins differs a little from the figure; its draws are moved by the difference. Runs of earlier
 * versions lack these sums; one of them that is resumed goes on without. */
#include "engine/statistics/blocks.h"

#include "model/files/json.h"
#include "server/corpus/counters/counter.h"
#include "server/corpus/counters/words.h"
#include "server/corpus/report/html.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NOISE, SIGNAL, KINDS };

/* The words of a head: bins [kind][stratum][bin], then sums of N and of N^2 [kind][stratum][2], real numbers.
 */
enum {
    BINS = 1 + HS_CORPUS_BINS,
    KIND_BINS = HS_CORPUS_STRATA * BINS,
    MOMENTS = KINDS * KIND_BINS,
    KIND_MOMENTS = HS_CORPUS_STRATA * 2,
    HEAD_WORDS = MOMENTS + KINDS * KIND_MOMENTS * 2
};

/* The bins of a block are put together from each of these on; fine where most values are. */
static const size_t groups[] = {0, 1, 2, 3, 5, 8, 11, 16, 21, 26, 31, 37, 44, 53, 64, 79};

/* The words of a block: its texts, then for each head, kind and stratum the pairs of each group, and the sums
 * of N and of N^2, real numbers. */
enum {
    BLOCKS = 16,
    GROUPS = sizeof groups / sizeof *groups,
    CELL_WORDS = GROUPS + 4,
    BLOCK_HEAD_WORDS = KINDS * HS_CORPUS_STRATA * CELL_WORDS
};

typedef hs__sums sums;

static hs__sums_size size_of(size_t n_thresholds, size_t n_layers, size_t n_heads)
{
    (void)n_thresholds;
    return (hs__sums_size){.words = n_layers * n_heads * HEAD_WORDS,
                           .block_words = 1 + n_layers * n_heads * BLOCK_HEAD_WORDS,
                           .n_blocks = BLOCKS};
}

static const hs__sums_kind kind_of_sums = {
    .member = "strata", .beside = "words", .what = "the strata of distances", .size = size_of};

static void measure(const hs__corpus_job *job, const void *options, hs__counter_size *size)
{
    const size_t n_maps = hs__corpus_maps(job), n = n_maps * HEAD_WORDS;
    (void)options;
    hs__sums_measure(&kind_of_sums, job->settings.n_thresholds, job->settings.fields.n_layers,
                     hs_engine_shape(job->engine)->n_heads, size);
    size->listed += n;
    size->elements += n;
    size->shared += BLOCK_HEAD_WORDS * sizeof(hs_draws);
    size->report += n_maps * 2048;
    size->report_text += n_maps * 512;
}

/* ---- a run ---- */

static hs_status worker_create(hs__counting *counting, void *const *states, void **ret, hs_error *err)
{
    (void)states;
    if (!*counting->counts)
        return HS_OK;
    *ret = hs__sums_create_like(*counting->counts, err);
    return *ret ? HS_OK : HS_NO_MEMORY;
}

static hs_status start(void *state, hs__text *t, hs_error *err)
{
    const sums *s = state;
    (void)err;
    hs_blocks_at(s->blocks, t->record.number)[0]++;
    return HS_OK;
}

/* Adds a head's strata to the words of a block. */
static void block_add(int64_t *words, const hs_corpus_strata *strata)
{
    for (size_t kind = 0; kind < KINDS; kind++)
        for (size_t stratum = 0; stratum < HS_CORPUS_STRATA; stratum++, words += CELL_WORDS) {
            const uint32_t *bins = strata->bins[kind][stratum];
            for (size_t g = 0; g < GROUPS; g++)
                for (size_t bin = groups[g]; bin < (g + 1 < GROUPS ? groups[g + 1] : BINS); bin++)
                    words[g] += bins[bin];
            hs__real_add(words + GROUPS, strata->sums[kind][stratum]);
            hs__real_add(words + GROUPS + 2, strata->squares[kind][stratum]);
        }
}

static void head(void *state, hs__text *t, hs__text_head *head)
{
    sums *s = state;
    int64_t *words = s->words + head->map * HEAD_WORDS, *moments = words + MOMENTS;
    hs_corpus_strata strata;
    hs_corpus_batch_strata(head->statistics, t->place, head->maps.similarity, &strata);
    for (size_t kind = 0; kind < KINDS; kind++)
        for (size_t stratum = 0; stratum < HS_CORPUS_STRATA; stratum++) {
            for (size_t bin = 0; bin < BINS; bin++)
                *words++ += strata.bins[kind][stratum][bin];
            hs__real_add(moments, strata.sums[kind][stratum]);
            hs__real_add(moments + 2, strata.squares[kind][stratum]);
            moments += 4;
        }
    block_add(hs_blocks_at(s->blocks, t->record.number) + 1 + head->map * BLOCK_HEAD_WORDS, &strata);
}

static hs_status load(const hs__corpus_results *results, const json_t *checkpoint, void **ret, hs_error *err)
{
    const size_t n_thresholds = hs_corpus_stats_options(results->stats).n_thresholds;
    return hs__sums_load(&kind_of_sums, n_thresholds, results, checkpoint, ret, err);
}

/* ---- arrays ---- */

#define HEADS "layer head stratum "

/* In the order of kinds; bins, then moments. */
static const hs__described_array arrays[] = {
    {"noise_strata_hist", HEADS "bin", "pairs",
     "noise_hist by distance: 1, 2, 3 to 4, 5 to 8, ... 65 and more"},
    {"signal_strata_hist", HEADS "bin", "pairs", "signal_hist by distance"},
    {"noise_strata_sums", HEADS "power", "normalised similarity", "N and its square, summed, by distance"},
    {"signal_strata_sums", HEADS "power", "normalised similarity", "N and its square, summed, by distance"},
};

static size_t list(const void *counts, hs_corpus_array *ret)
{
    const sums *s = counts;
    for (size_t f = 0; f < HS__N(arrays); f++) {
        const size_t n_last = f < KINDS ? (size_t)BINS : 2;
        ret[f] = (hs_corpus_array){.name = arrays[f].name,
                                   .is_float = f >= KINDS,
                                   .n_axes = 4,
                                   .axes = {s->n_layers, s->n_heads, HS_CORPUS_STRATA, n_last},
                                   .n_elements = s->n_layers * s->n_heads * HS_CORPUS_STRATA * n_last,
                                   .field = f};
    }
    return HS__N(arrays);
}

static void read(const void *counts, const hs_corpus_array *array, size_t first, size_t n, void *ret)
{
    const sums *s = counts;
    const size_t kind = array->field % KINDS;
    for (size_t i = first; i < first + n; i++)
        if (array->is_float) {
            const int64_t *words = s->words + i / KIND_MOMENTS * HEAD_WORDS + MOMENTS;
            ((double *)ret)[i - first] = hs__real_at(words + 2 * (kind * KIND_MOMENTS + i % KIND_MOMENTS));
        } else {
            ((int64_t *)ret)[i - first] =
                s->words[i / KIND_BINS * HEAD_WORDS + kind * KIND_BINS + i % KIND_BINS];
        }
}

/* ---- figures ---- */

static hs_corpus_pairs pairs_of(const int64_t *words, size_t kind, size_t stratum)
{
    const int64_t *moments = words + MOMENTS + 2 * (kind * KIND_MOMENTS + 2 * stratum);
    hs_corpus_pairs pairs = {.sum = hs__real_at(moments),
                             .squares = hs__real_at(moments + 2),
                             .bins = words + kind * KIND_BINS + stratum * BINS};
    for (size_t bin = 0; bin < BINS; bin++)
        pairs.n += (double)pairs.bins[bin];
    return pairs;
}

/* Returns the mean of a figure over the strata that have it, weighted by their signal pairs. */
static double weighted(const int64_t *words,
                       double (*figure)(const hs_corpus_pairs *signal, const hs_corpus_pairs *noise))
{
    double sum = 0, weight = 0;
    for (size_t stratum = 0; stratum < HS_CORPUS_STRATA; stratum++) {
        const hs_corpus_pairs signal = pairs_of(words, SIGNAL, stratum),
                              noise = pairs_of(words, NOISE, stratum);
        const double value = figure(&signal, &noise);
        if (!isfinite(value))
            continue;
        sum += signal.n * value;
        weight += signal.n;
    }
    return weight > 0 ? sum / weight : (double)NAN;
}

/* ---- intervals ---- */

/* Draws all words of a head; a real number has its draws at the first of its two words. */
static void head_draw(const sums *s, const hs_bootstrap *bootstrap, size_t map,
                      hs_draws ret[BLOCK_HEAD_WORDS])
{
    double by_block[HS_BLOCKS_MAX] = {0};
    for (size_t word = 0; word < BLOCK_HEAD_WORDS; word++) {
        const size_t place = word % CELL_WORDS;
        if (place > GROUPS && (place - GROUPS) % 2)
            continue;
        for (size_t b = 0; b < BLOCKS; b++) {
            const int64_t *at = s->blocks->words + b * s->blocks->n_words + 1 + map * BLOCK_HEAD_WORDS + word;
            by_block[b] = place < GROUPS ? (double)at[0] : hs__real_at(at);
        }
        hs_bootstrap_draw(bootstrap, by_block, ret[word]);
    }
}

/* Reads the pairs of a cell in a draw. bins: [1 + HS_CORPUS_BINS], a group at its first bin. */
static hs_corpus_pairs drawn_pairs(hs_draws *cell, size_t draw, int64_t *bins)
{
    hs_corpus_pairs pairs = {.sum = cell[GROUPS][draw], .squares = cell[GROUPS + 2][draw], .bins = bins};
    memset(bins, 0, (1 + HS_CORPUS_BINS) * sizeof *bins);
    for (size_t g = 0; g < GROUPS; g++) {
        bins[groups[g]] = (int64_t)cell[g][draw];
        pairs.n += cell[g][draw];
    }
    return pairs;
}

typedef double figure_find(const hs_corpus_pairs *signal, const hs_corpus_pairs *noise);

/* Returns a figure in a draw: the mean over strata, weighted by their signal pairs, as in strata.c. */
static double figure_of(hs_draws *words, size_t draw, figure_find *find)
{
    int64_t bins[KINDS][1 + HS_CORPUS_BINS];
    double sum = 0, weight = 0;
    for (size_t stratum = 0; stratum < HS_CORPUS_STRATA; stratum++) {
        hs_draws *noise = words + stratum * CELL_WORDS, *signal = noise + HS_CORPUS_STRATA * CELL_WORDS;
        const hs_corpus_pairs with = drawn_pairs(signal, draw, bins[SIGNAL]),
                              without = drawn_pairs(noise, draw, bins[NOISE]);
        const double value = find(&with, &without);
        sum += isfinite(value) ? with.n * value : 0;
        weight += isfinite(value) ? with.n : 0;
    }
    return weight > 0 ? sum / weight : (double)NAN;
}

/* Adds the interval of a head's figure, whose value the head has. */
static void interval_add(const hs_bootstrap *bootstrap, hs_draws *words, figure_find *find, const char *name,
                         const json_t *head)
{
    json_t *intervals = json_object_get(head, "intervals");
    const json_t *value = json_object_get(head, name);
    hs_draws draws;
    for (size_t draw = 0; draw <= HS_BOOTSTRAP_DRAWS; draw++)
        draws[draw] = figure_of(words, draw, find);
    const double moved = json_is_number(value) ? json_number_value(value) - draws[0] : (double)NAN;
    for (size_t draw = 0; draw <= HS_BOOTSTRAP_DRAWS; draw++)
        draws[draw] += moved;
    const hs_interval interval = hs_bootstrap_interval(bootstrap, draws);
    json_object_set_new(intervals, name,
                        json_pack("{so so}", "low", hs__report_number(interval.low), "high",
                                  hs__report_number(interval.high)));
}

/* Adds to the intervals of heads at the main threshold. */
static void intervals_report(const sums *s, const json_t *heads)
{
    hs_bootstrap *bootstrap = hs_json_memory(1, sizeof *bootstrap);
    hs_draws *words = hs_json_memory(BLOCK_HEAD_WORDS, sizeof *words);
    if (bootstrap && words)
        hs_bootstrap_init(bootstrap, s->blocks, 0);
    for (size_t map = 0; bootstrap && words && map < s->n_layers * s->n_heads; map++) {
        const json_t *head = json_array_get(json_array_get(heads, map / s->n_heads), map % s->n_heads);
        if (!json_object_get(head, "intervals"))
            continue;
        head_draw(s, bootstrap, map, words);
        interval_add(bootstrap, words, hs_corpus_dprime, "dprime_within_distances", head);
        interval_add(bootstrap, words, hs_corpus_auc, "auc_within_distances", head);
    }
    free(bootstrap);
    free(words);
}

/* Adds to the figures of heads, at each threshold. */
static void report(const hs__corpus_results *results, void *counts, json_t *to)
{
    const sums *s = counts;
    const json_t *heads = json_object_get(to, "head_figures");
    for (size_t map = 0; s && map < s->n_layers * s->n_heads; map++) {
        const int64_t *words = s->words + map * HEAD_WORDS;
        const double dprime = weighted(words, hs_corpus_dprime), auc = weighted(words, hs_corpus_auc);
        for (size_t t = 0; t < json_array_size(heads); t++) {
            const json_t *layer = json_array_get(json_array_get(heads, t), map / s->n_heads);
            json_t *figures = json_array_get(layer, map % s->n_heads);
            json_object_set_new(figures, "dprime_within_distances", hs__report_number(dprime));
            json_object_set_new(figures, "auc_within_distances", hs__report_number(auc));
        }
    }
    if (s)
        intervals_report(s, json_array_get(heads, hs_corpus_stats_options(results->stats).threshold_main));
}

const hs__counter hs__counter_strata = {
    .name = "strata",
    .sums = &kind_of_sums,
    .measure = measure,
    .begin = hs__sums_begin,
    .matches = hs__sums_match,
    .worker_create = worker_create,
    .worker_destroy = hs__sums_destroy,
    .start = start,
    .head = head,
    .gather = hs__sums_gather,
    .save = hs__sums_save,
    .load = load,
    .merge = hs__sums_merge,
    .destroy = hs__sums_destroy,
    .arrays = arrays,
    .n_arrays = HS__N(arrays),
    .list = list,
    .read = read,
    .report = report,
};
