/* findings.c - the paper's claims, each beside what this run measured.
 *
 * The paper states most of them in words. The criterion for a claim is written beside it, so a reader can
 * judge it as well as the model. Early, middle and last are layers 1, L / 2 and L - 1 of those the run has,
 * as in the paper's figures. */
#include "server/corpus/report/report.h"

#include "server/corpus/counters/same_distance.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

typedef struct view {
    const hs__corpus_results *results;
    const hs_corpus_stats *stats;
    hs_corpus_options o;
    size_t t, early, middle, last; /* indices of layers */
    bool layered;                  /* there are enough layers to speak of three */
} view;

enum { UNKNOWN = -1 };

static json_t *finding(const char *claim, const char *paper, const char *criterion, int holds,
                       const char *format, ...) HS_PRINTF(5, 6);

static json_t *finding(const char *claim, const char *paper, const char *criterion, int holds,
                       const char *format, ...)
{
    char measured[400];
    va_list args;
    va_start(args, format);
    vsnprintf(measured, sizeof measured, format, args);
    va_end(args);
    return json_pack("{ss ss ss ss so sb}", "claim", claim, "paper", paper, "measured", measured, "criterion",
                     criterion, "holds", holds == UNKNOWN ? json_null() : json_boolean(holds), "applies", 1);
}

static int number_of(const view *v, size_t l)
{
    return v->o.layers[l];
}

static double separators(const view *v, size_t l)
{
    const hs_corpus_layer f = hs_corpus_layer_read(v->stats, v->t, l);
    return f.mass_sep + f.mass_end + f.mass_comma;
}

static json_t *separators_finding(const view *v)
{
    const double last = separators(v, v->last), early = separators(v, v->early);
    const int holds = v->layered && isfinite(last) ? last > 0.5 && last > early : UNKNOWN;
    return finding(
        "The final layers attend to separators", "sec. 2, Fig. 4",
        "[SEP], sentence ends and commas take over half of the last layer's attention, and more than of "
        "the early layer's",
        holds, "%.1f %% in layer %d, %.1f %% in layer %d", 100 * last, number_of(v, v->last), 100 * early,
        number_of(v, v->early));
}

static json_t *repeated_finding(const view *v)
{
    double low = INFINITY, high = -INFINITY, spread = 0;
    for (size_t h = 0; h < v->o.n_heads; h++) {
        const hs_corpus_figure f = hs_corpus_head_read(v->stats, v->t, v->last, h).repeated_share;
        low = fmin(low, f.value); /* fmin and fmax pass over NAN */
        high = fmax(high, f.value);
        spread = fmax(spread, f.spread);
    }
    const int holds = high >= low ? high - low > 0.1 && high - low > 4 * spread : UNKNOWN;
    return finding(
        "Heads differ in how much they find repeated tokens", "Fig. 6a",
        "in the last layer, the heads' shares of repeated tokens span over 10 points and four times the "
        "spread between parts of the corpus",
        holds, "%.1f %% to %.1f %% in layer %d, spread at most %.2f points", 100 * low, 100 * high,
        number_of(v, v->last), 100 * spread);
}

static json_t *distance_finding(const view *v)
{
    size_t below = 0, known = 0;
    double high = -INFINITY;
    for (size_t h = 0; h < v->o.n_heads; h++) {
        const double mean = hs_corpus_head_read(v->stats, v->t, v->last, h).mean_distance.value;
        known += isfinite(mean);
        below += mean < 50;
        high = fmax(high, mean);
    }
    return finding("High similarities of the last layer are short: mean distance below 50", "Fig. 7",
                   "all heads of the last layer but at most one (the paper's head 8)",
                   known ? below + 1 >= known : UNKNOWN,
                   "%zu of %zu heads of layer %d; the longest mean is %.1f", below, known,
                   number_of(v, v->last), high);
}

/* Judged by chance at the same distance: near pairs are in one sentence anyway. */
static json_t *sentence_finding(const view *v)
{
    const double anywhere = hs_corpus_chance_read(v->stats).same_sentence;
    const double share = hs_corpus_layer_read(v->stats, v->t, v->last).same_sentence_share;
    double expected = 0, high = 0;
    size_t above = 0;
    for (size_t h = 0; h < v->o.n_heads; h++) {
        const hs_corpus_head head = hs_corpus_head_read(v->stats, v->t, v->last, h);
        const double number =
            hs__same_distance_expected(v->results, HS_CHANCE_SAME_SENTENCE, v->t, v->last, h);
        above += head.same_sentence_share.value * (double)head.high > number;
        expected += number;
        high += (double)head.high;
    }
    const double chance = expected / high;
    return finding("High similarities of the last layer prefer the same sentence", "Fig. 8",
                   "the layer's share is above chance at the same distance, and so are nine heads of ten",
                   isfinite(chance) ? share > chance && 10 * above >= 9 * v->o.n_heads : UNKNOWN,
                   "%.1f %% against %.1f %% by chance at the same distance (lift %.2f) and %.1f %% by chance "
                   "anywhere; %zu of %zu heads of layer %d above",
                   100 * share, 100 * chance, share / chance, 100 * anywhere, above, v->o.n_heads,
                   number_of(v, v->last));
}

static json_t *focal_finding(const view *v)
{
    const double unique = hs_corpus_layer_read(v->stats, v->t, v->last).unique_focal;
    const double share = unique / (double)v->o.n_heads;
    return finding("Heads specialise on different tokens: 9 to 10 focal tokens of 12", "Fig. 11b",
                   "the last layer's mean number of different focal tokens is 70 to 90 % of its heads",
                   isfinite(share) ? share >= 0.7 && share <= 0.9 : UNKNOWN,
                   "%.2f of %zu heads (%.0f %%) in layer %d", unique, v->o.n_heads, 100 * share,
                   number_of(v, v->last));
}

static json_t *evolution_finding(const view *v)
{
    const double early = hs_corpus_layer_read(v->stats, v->t, v->early).mean_distance,
                 middle = hs_corpus_layer_read(v->stats, v->t, v->middle).mean_distance,
                 last = hs_corpus_layer_read(v->stats, v->t, v->last).mean_distance;
    return finding("Early layers are long-range, middle ones short, the last in between", "Fig. 13",
                   "mean distances: early > last > middle",
                   v->layered ? early > last && last > middle : UNKNOWN,
                   "%.1f in layer %d, %.1f in layer %d, %.1f in layer %d (chance %.1f)", early,
                   number_of(v, v->early), middle, number_of(v, v->middle), last, number_of(v, v->last),
                   hs_corpus_chance_read(v->stats).mean_distance);
}

/* ---- along the diagonal ---- */

#define BAND 5

/* Share of a layer's summed normalised similarity, positive part, that lies within BAND of the diagonal; NAN
 * without memory. */
static double band_share(const view *v, size_t l)
{
    hs_corpus_array array;
    const size_t T = v->o.tokens_max;
    double inside = 0, all = 0;
    double *row = hs_corpus_array_find(v->stats, "normalized_sum", &array) ? malloc(T * sizeof *row) : NULL;
    for (size_t i = 0; row && i < T; i++) {
        hs_corpus_array_read(v->stats, &array, (l * T + i) * T, T, row);
        for (size_t j = 0; j < T; j++) {
            const double value = row[j] > 0 ? row[j] : 0;
            all += value;
            inside += (i > j ? i - j : j - i) <= BAND ? value : 0;
        }
    }
    free(row);
    return all > 0 ? inside / all : NAN;
}

static json_t *diagonal_finding(const view *v)
{
    const double early = band_share(v, v->early), middle = band_share(v, v->middle),
                 last = band_share(v, v->last);
    return finding("Summed similarity gathers along the diagonal in the middle layers", "Fig. 12",
                   "share of the summed N within 5 tokens of the diagonal: middle above early and above last",
                   v->layered ? middle > early && middle > last : UNKNOWN,
                   "%.1f %% in layer %d, %.1f %% in layer %d, %.1f %% in layer %d", 100 * early,
                   number_of(v, v->early), 100 * middle, number_of(v, v->middle), 100 * last,
                   number_of(v, v->last));
}

/* Share of the last layer's N that is below 0.1. */
static json_t *threshold_finding(const view *v)
{
    hs_corpus_array array;
    const size_t n_bins = 1 + HS_CORPUS_BINS;
    const bool there = hs_corpus_array_find(v->stats, "normalized_hist", &array);
    int64_t bins[1 + HS_CORPUS_BINS], below = 0, between = 0, all = 0;
    for (size_t h = 0; there && h < v->o.n_heads; h++) {
        hs_corpus_array_read(v->stats, &array, (v->last * v->o.n_heads + h) * n_bins, n_bins, bins);
        for (size_t b = 0; b < n_bins; b++) {
            all += bins[b];
            below += b <= 10 ? bins[b] : 0;
            between += b > 10 && b <= 60 ? bins[b] : 0;
        }
    }
    const double share = all ? (double)below / (double)all : NAN,
                 gap = all ? (double)between / (double)all : NAN;
    return finding("Most normalised similarities are below 0.1, few between 0.1 and 0.6", "sec. 3",
                   "over half of the last layer's N are below 0.1, and fewer lie between 0.1 and 0.6",
                   all ? share > 0.5 && gap < share : UNKNOWN,
                   "%.1f %% below 0.1, %.1f %% from 0.1 to 0.6, layer %d", 100 * share, 100 * gap,
                   number_of(v, v->last));
}

/* Marks a claim that does not apply to the model, whatever was measured. */
static json_t *inapplicable(json_t *claim)
{
    json_object_set_new(claim, "applies", json_false());
    json_object_set_new(claim, "holds", json_null());
    return claim;
}

/* A causal model's texts have no separator behind them that every token could attend to. The other claims are
 * about similarities, which are defined as for encoders. */
json_t *hs__corpus_findings(const hs__corpus_results *results)
{
    const bool is_causal = json_is_true(json_object_get(results->names, "causal"));
    view v = {.results = results, .stats = results->stats, .o = hs_corpus_stats_options(results->stats)};
    v.t = v.o.threshold_main;
    v.last = v.o.n_layers - 1;
    v.middle = v.o.n_layers / 2;
    v.early = v.o.n_layers > 2 ? 1 : 0;
    v.layered = v.o.n_layers >= 3 && v.early < v.middle && v.middle < v.last;
    json_t *separators = separators_finding(&v);
    return json_pack("[oooooooo]", is_causal ? inapplicable(separators) : separators, repeated_finding(&v),
                     distance_finding(&v), sentence_finding(&v), focal_finding(&v), evolution_finding(&v),
                     diagonal_finding(&v), threshold_finding(&v));
}
