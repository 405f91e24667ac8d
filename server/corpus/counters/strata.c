/* strata.c - d' and the ROC area of signal from noise within strata of distance.
 *
 * Near pairs are more similar and share a sentence more often than far ones, so d' over all distances is
 * mostly position. Within a stratum distances are alike. The figure of a head is the mean over strata,
 * weighted by their signal pairs. Intervals are drawn from blocks of neighbouring texts
 * (engine/statistics/blocks.h). To save memory these are 16, and their bins of N are put together to 16. The
 * area of such bins differs a little from the figure; its draws are moved by the difference. */
#include "engine/statistics/blocks.h"

#include "model/files/json.h"
#include "server/corpus/counters/counter.h"
#include "server/corpus/counters/resampling.h"
#include "server/corpus/report/html.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NOISE, SIGNAL, KINDS };

enum { BINS = 1 + HS_CORPUS_BINS };

/* The bins of a block are put together from each of these on; fine where most values are. */
static const size_t groups[] = {0, 1, 2, 3, 5, 8, 11, 16, 21, 26, 31, 37, 44, 53, 64, 79};

enum {
    BLOCKS = 16,
    GROUPS = sizeof groups / sizeof *groups,
    CELLS = KINDS * HS_CORPUS_STRATA /* of a head: [kind][stratum] */
};

/* The rows from `hist` and `sums` on are those of kinds. */
enum { HIST, SUMS = KINDS, BLOCK_TEXTS = 2 * KINDS, BLOCK_GROUPS, BLOCK_SUMS };

#define STRATUM                                                                                              \
    {                                                                                                        \
        "stratum", HS_CORPUS_STRATA                                                                          \
    }
#define BY_BIN                                                                                               \
    {                                                                                                        \
        HS_AXIS_LAYER, HS_AXIS_HEAD, STRATUM,                                                                \
        {                                                                                                    \
            "bin", BINS                                                                                      \
        }                                                                                                    \
    }
#define BY_POWER                                                                                             \
    {                                                                                                        \
        HS_AXIS_LAYER, HS_AXIS_HEAD, STRATUM,                                                                \
        {                                                                                                    \
            "power", 2                                                                                       \
        }                                                                                                    \
    }
#define CELL                                                                                                 \
    {                                                                                                        \
        "kind and stratum", CELLS                                                                            \
    }

static const hs_array_row rows[] = {
    [HIST + NOISE] = {"noise_strata_hist", BY_BIN, "pairs",
                      "noise_hist by distance: 1, 2, 3 to 4, 5 to 8, ... 65 and more"},
    [HIST + SIGNAL] = {"signal_strata_hist", BY_BIN, "pairs", "signal_hist by distance"},
    [SUMS + NOISE] = {"noise_strata_sums", BY_POWER, "normalised similarity",
                      "N and its square, summed, by distance", HS_REAL},
    [SUMS + SIGNAL] = {"signal_strata_sums", BY_POWER, "normalised similarity",
                       "N and its square, summed, by distance", HS_REAL},
    [BLOCK_TEXTS] = {.unit = "texts", .meaning = "texts of a block", .place = HS_ALL_BLOCKS},
    [BLOCK_GROUPS] = {NULL,
                      {HS_AXIS_LAYER, HS_AXIS_HEAD, CELL, {"group", GROUPS}},
                      "pairs",
                      "pairs of a block by groups of bins",
                      HS_COUNT,
                      HS_ALL_BLOCKS},
    [BLOCK_SUMS] = {NULL,
                    {HS_AXIS_LAYER, HS_AXIS_HEAD, CELL, {"power", 2}},
                    "normalised similarity",
                    "N and its square of a block, summed",
                    HS_REAL,
                    HS_ALL_BLOCKS},
};

static const hs_sums_kind kind_of_sums = {.member = "strata",
                                          .what = "the strata of distances",
                                          .rows = rows,
                                          .n_rows = HS__N(rows),
                                          .n_blocks = BLOCKS};

/* The draws of a head's numbers in blocks, by cell. */
typedef struct head_draws {
    hs_draws groups[CELLS][GROUPS], sums[CELLS][2];
} head_draws;

static void measure(const hs__corpus_job *job, const void *options, hs__counter_size *size)
{
    const size_t n_maps = hs__corpus_maps(job);
    (void)options;
    size->shared += sizeof(head_draws);
    size->report += n_maps * 2048;
    size->report_text += n_maps * 512;
}

/* ---- a run ---- */

static hs_status start(void *state, hs__text *t, hs_error *err)
{
    const hs_sums *s = ((const hs__tally *)state)->sums;
    (void)err;
    hs_blocks_at(s->blocks, t->record.number)[s->firsts[BLOCK_TEXTS]]++;
    return HS_OK;
}

/* Adds a head's strata to those of its block. */
static void block_add(const hs_sums *s, int64_t *block, size_t map, const hs_corpus_strata *strata)
{
    int64_t *pairs = block + s->firsts[BLOCK_GROUPS] + map * CELLS * GROUPS;
    int64_t *reals = block + s->firsts[BLOCK_SUMS] + 2 * map * CELLS * 2;
    for (size_t kind = 0; kind < KINDS; kind++)
        for (size_t stratum = 0; stratum < HS_CORPUS_STRATA; stratum++, pairs += GROUPS, reals += 4) {
            const uint32_t *bins = strata->bins[kind][stratum];
            for (size_t g = 0; g < GROUPS; g++)
                for (size_t bin = groups[g]; bin < (g + 1 < GROUPS ? groups[g + 1] : BINS); bin++)
                    pairs[g] += bins[bin];
            hs_real_add(reals, strata->sums[kind][stratum]);
            hs_real_add(reals + 2, strata->squares[kind][stratum]);
        }
}

/* Returns the pairs of a head's stratum by bin, and the sums of N and its square, real numbers. */
static int64_t *bins_of(const hs_sums *s, size_t kind, size_t map, size_t stratum)
{
    return hs_sums_at(s, HIST + kind) + (map * HS_CORPUS_STRATA + stratum) * BINS;
}

static int64_t *reals_of(const hs_sums *s, size_t kind, size_t map, size_t stratum)
{
    return hs_sums_at(s, SUMS + kind) + 2 * (map * HS_CORPUS_STRATA + stratum) * 2;
}

static void head(void *state, hs__text *t, hs__text_head *head)
{
    const hs_sums *s = ((const hs__tally *)state)->sums;
    hs_corpus_strata strata;
    hs_corpus_batch_strata(head->statistics, t->place, head->maps.similarity, &strata);
    for (size_t kind = 0; kind < KINDS; kind++)
        for (size_t stratum = 0; stratum < HS_CORPUS_STRATA; stratum++) {
            int64_t *bins = bins_of(s, kind, head->map, stratum),
                    *reals = reals_of(s, kind, head->map, stratum);
            for (size_t bin = 0; bin < BINS; bin++)
                bins[bin] += strata.bins[kind][stratum][bin];
            hs_real_add(reals, strata.sums[kind][stratum]);
            hs_real_add(reals + 2, strata.squares[kind][stratum]);
        }
    block_add(s, hs_blocks_at(s->blocks, t->record.number), head->map, &strata);
}

/* ---- figures ---- */

static hs_corpus_pairs pairs_of(const hs_sums *s, size_t kind, size_t map, size_t stratum)
{
    const int64_t *reals = reals_of(s, kind, map, stratum);
    hs_corpus_pairs pairs = {
        .sum = hs_real_at(reals), .squares = hs_real_at(reals + 2), .bins = bins_of(s, kind, map, stratum)};
    for (size_t bin = 0; bin < BINS; bin++)
        pairs.n += (double)pairs.bins[bin];
    return pairs;
}

typedef double figure_find(const hs_corpus_pairs *signal, const hs_corpus_pairs *noise);

/* Returns the mean of a head's figure over the strata that have it, weighted by their signal pairs. */
static double weighted(const hs_sums *s, size_t map, figure_find *figure)
{
    double sum = 0, weight = 0;
    for (size_t stratum = 0; stratum < HS_CORPUS_STRATA; stratum++) {
        const hs_corpus_pairs signal = pairs_of(s, SIGNAL, map, stratum),
                              noise = pairs_of(s, NOISE, map, stratum);
        const double value = figure(&signal, &noise);
        if (!isfinite(value))
            continue;
        sum += signal.n * value;
        weight += signal.n;
    }
    return weight > 0 ? sum / weight : (double)NAN;
}

/* ---- intervals ---- */

/* Draws each of n numbers of a row, from number `first` on. */
static void numbers_draw(const hs_sums *s, const hs_bootstrap *bootstrap, size_t row, size_t first, size_t n,
                         hs_draws *ret)
{
    for (size_t i = 0; i < n; i++)
        hs_sums_draw(s, bootstrap, row, first + i, 1, ret[i]);
}

static void head_draw(const hs_sums *s, const hs_bootstrap *bootstrap, size_t map, head_draws *ret)
{
    numbers_draw(s, bootstrap, BLOCK_GROUPS, map * CELLS * GROUPS, CELLS * GROUPS, *ret->groups);
    numbers_draw(s, bootstrap, BLOCK_SUMS, map * CELLS * 2, CELLS * 2, *ret->sums);
}

/* Reads the pairs of a cell in a draw. bins: [BINS], a group at its first bin. */
static hs_corpus_pairs drawn_pairs(const head_draws *d, size_t cell, size_t draw, int64_t *bins)
{
    hs_corpus_pairs pairs = {.sum = d->sums[cell][0][draw], .squares = d->sums[cell][1][draw], .bins = bins};
    memset(bins, 0, BINS * sizeof *bins);
    for (size_t g = 0; g < GROUPS; g++) {
        bins[groups[g]] = (int64_t)d->groups[cell][g][draw];
        pairs.n += d->groups[cell][g][draw];
    }
    return pairs;
}

/* Returns a figure in a draw: the mean over strata, as `weighted` has it. */
static double figure_of(const head_draws *d, size_t draw, figure_find *find)
{
    int64_t bins[KINDS][BINS];
    double sum = 0, weight = 0;
    for (size_t stratum = 0; stratum < HS_CORPUS_STRATA; stratum++) {
        const hs_corpus_pairs with = drawn_pairs(d, SIGNAL * HS_CORPUS_STRATA + stratum, draw, bins[SIGNAL]),
                              without = drawn_pairs(d, NOISE * HS_CORPUS_STRATA + stratum, draw, bins[NOISE]);
        const double value = find(&with, &without);
        sum += isfinite(value) ? with.n * value : 0;
        weight += isfinite(value) ? with.n : 0;
    }
    return weight > 0 ? sum / weight : (double)NAN;
}

/* Adds the interval of a head's figure, whose value the head has. */
static void interval_add(const hs_bootstrap *bootstrap, const head_draws *of, figure_find *find,
                         const char *name, const json_t *head)
{
    json_t *intervals = json_object_get(head, "intervals");
    const json_t *value = json_object_get(head, name);
    hs_draws draws;
    for (size_t draw = 0; draw <= HS_BOOTSTRAP_DRAWS; draw++)
        draws[draw] = figure_of(of, draw, find);
    const double moved = json_is_number(value) ? json_number_value(value) - draws[0] : (double)NAN;
    for (size_t draw = 0; draw <= HS_BOOTSTRAP_DRAWS; draw++)
        draws[draw] += moved;
    const hs_interval interval = hs_bootstrap_interval(bootstrap, draws);
    json_object_set_new(intervals, name,
                        json_pack("{so so}", "low", hs__report_number(interval.low), "high",
                                  hs__report_number(interval.high)));
}

/* Adds to the intervals of heads at the main threshold. */
static void intervals_report(const hs_sums *s, size_t n_different, const json_t *heads)
{
    const size_t n_heads = s->lengths[HS_HEADS];
    hs_bootstrap *bootstrap = hs_json_memory(1, sizeof *bootstrap);
    head_draws *draws = hs_json_memory(1, sizeof *draws);
    if (bootstrap && draws)
        hs_bootstrap_init(bootstrap, s->blocks, s->firsts[BLOCK_TEXTS], n_different);
    for (size_t map = 0; bootstrap && draws && map < s->lengths[HS_LAYERS] * n_heads; map++) {
        const json_t *head = json_array_get(json_array_get(heads, map / n_heads), map % n_heads);
        if (!json_object_get(head, "intervals"))
            continue;
        head_draw(s, bootstrap, map, draws);
        interval_add(bootstrap, draws, hs_corpus_dprime, "dprime_within_distances", head);
        interval_add(bootstrap, draws, hs_corpus_auc, "auc_within_distances", head);
    }
    free(bootstrap);
    free(draws);
}

/* Adds to the figures of heads, at each threshold. */
static void report(const hs__corpus_results *results, void *counts, json_t *to)
{
    const hs_sums *s = counts;
    const json_t *heads = json_object_get(to, "head_figures");
    const size_t n_heads = s ? s->lengths[HS_HEADS] : 0;
    for (size_t map = 0; s && map < s->lengths[HS_LAYERS] * n_heads; map++) {
        const double dprime = weighted(s, map, hs_corpus_dprime), auc = weighted(s, map, hs_corpus_auc);
        for (size_t t = 0; t < json_array_size(heads); t++) {
            const json_t *layer = json_array_get(json_array_get(heads, t), map / n_heads);
            json_t *figures = json_array_get(layer, map % n_heads);
            json_object_set_new(figures, "dprime_within_distances", hs__report_number(dprime));
            json_object_set_new(figures, "auc_within_distances", hs__report_number(auc));
        }
    }
    if (s)
        intervals_report(s, hs__different_texts(results),
                         json_array_get(heads, hs_corpus_stats_options(results->stats).threshold_main));
}

const hs__counter hs__counter_strata = {
    .name = "strata",
    .sums = &kind_of_sums,
    .measure = measure,
    .start = start,
    .head = head,
    .report = report,
};
