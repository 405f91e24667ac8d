/* strata.c - d' and the ROC area of signal from noise within strata of distance.
 *
 * Near pairs are more similar and share a sentence more often than far ones, so d' over all distances is
 * mostly position. Within a stratum distances are alike. The figure of a head is the mean over strata,
 * weighted by their signal pairs. Runs of earlier versions lack these sums; one of them that is resumed goes
 * on without. */
#include "server/corpus/counters/counter.h"
#include "server/corpus/counters/words.h"
#include "server/corpus/report/html.h"

#include <math.h>
#include <stdlib.h>

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

typedef hs__sums sums;

static hs__sums_size size_of(size_t n_thresholds, size_t n_layers, size_t n_heads)
{
    (void)n_thresholds;
    return (hs__sums_size){.words = n_layers * n_heads * HEAD_WORDS};
}

static const hs__sums_kind kind_of_sums = {
    .member = "strata", .what = "the strata of distances", .size = size_of};

static void measure(const hs__corpus_job *job, const void *options, hs__counter_size *size)
{
    const size_t n_maps = hs__corpus_maps(job), n = n_maps * HEAD_WORDS;
    (void)options;
    hs__sums_measure(&kind_of_sums, job->settings.n_thresholds, job->settings.fields.n_layers,
                     hs_model_shape(job->model)->n_heads, size);
    size->listed += n;
    size->elements += n;
    size->report += n_maps * 1024;
    size->report_text += n_maps * 256;
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
}

static hs_status gather(hs__counting *counting, void *state, hs_error *err)
{
    (void)err;
    hs__sums_move(*counting->counts, state);
    return HS_OK;
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

/* Adds to the figures of heads, at each threshold. */
static void report(const hs__corpus_results *results, void *counts, json_t *to)
{
    const sums *s = counts;
    const json_t *heads = json_object_get(to, "head_figures");
    (void)results;
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
}

const hs__counter hs__counter_strata = {
    .name = "strata",
    .sums = &kind_of_sums,
    .measure = measure,
    .begin = hs__sums_begin,
    .matches = hs__sums_match,
    .worker_create = worker_create,
    .worker_destroy = hs__sums_destroy,
    .head = head,
    .gather = gather,
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
