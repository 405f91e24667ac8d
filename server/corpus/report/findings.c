/* findings.c - the paper's claims, each beside what this run measured.
 *
 * The paper states most of them in words. The criterion for a claim is written beside it, so a reader can
 * judge it as well as the model. A criterion is a list of margins that must be above 0. A claim holds if the
 * 95 % intervals of all its margins are, and does not hold if the interval of one lies below 0; else it is
 * not decided. It has no effect if pairs drawn at random, or attention spread evenly, meet it as well. Early,
 * middle and last are layers 1, L / 2 and L - 1 of the model's L, as in the paper's figures. A claim does not
 * apply if the run did not count a layer that it speaks of. */
#include "server/corpus/report/report.h"

#include "server/corpus/counters/resampling.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

typedef struct view {
    const hs__resampling *resampling; /* NULL: no intervals */
    hs_corpus_options o;
    /* Indices of layers among the run's; of a layer that it did not count, that of its last one. */
    size_t early, middle, last;
    bool layered;   /* the model has enough layers to speak of three */
    int numbers[3]; /* of these three layers in the model */
    bool counted[3];
} view;

/* Layers that a claim speaks of. */
enum { EARLY = 1, MIDDLE = 2, LAST = 4 };

typedef enum verdict { HOLDS, FAILS, UNDECIDED, NO_EFFECT } verdict;

/* A lift within this of 1, and distances within this share of chance, are no effect. */
#define EFFECT_LEAST 0.05

/* A number, and its interval. */
typedef struct figure {
    hs_draws draws;
    hs_interval interval;
} figure;

static json_t *finding(const char *claim, const char *paper, const char *criterion, verdict judged,
                       const char *format, ...) HS_PRINTF(5, 6);

/* holds is null if it is undecided, or true by chance as well. */
static json_t *finding(const char *claim, const char *paper, const char *criterion, verdict judged,
                       const char *format, ...)
{
    static const char *const names[] = {"holds", "does not hold", "not decided", "no effect"};
    char measured[500];
    va_list args;
    va_start(args, format);
    vsnprintf(measured, sizeof measured, format, args);
    va_end(args);
    return json_pack("{ss ss ss ss so ss sb}", "claim", claim, "paper", paper, "measured", measured,
                     "criterion", criterion, "holds",
                     judged == HOLDS   ? json_true()
                     : judged == FAILS ? json_false()
                                       : json_null(),
                     "verdict", names[judged], "applies", 1);
}

static int number_of(const view *v, size_t l)
{
    return v->o.layers[l];
}

/* ---- numbers in words ---- */

typedef struct shown {
    char text[64];
} shown;

/* Returns "41.2 (40.1 to 42.0)", or the number alone if it has no interval. */
static shown show(const figure *f, double scale, const char *unit)
{
    shown s;
    if (!isfinite(f->draws[0]))
        snprintf(s.text, sizeof s.text, "unknown");
    else if (isfinite(f->interval.low))
        snprintf(s.text, sizeof s.text, "%.2f%s (%.2f to %.2f)", scale * f->draws[0], unit,
                 scale * f->interval.low, scale * f->interval.high);
    else
        snprintf(s.text, sizeof s.text, "%.2f%s", scale * f->draws[0], unit);
    return s;
}

static shown percent(const figure *f)
{
    return show(f, 100, " %");
}

static shown number(const figure *f)
{
    return show(f, 1, "");
}

/* ---- margins ---- */

static void interval_find(const view *v, figure *f)
{
    f->interval = v->resampling ? hs_bootstrap_interval(hs__resampling_bootstrap(v->resampling), f->draws)
                                : (hs_interval){NAN, NAN};
}

/* Draws part / size of a head, or of a layer. */
static void ratio_draw(const view *v, hs__sum part, hs__sum size, size_t l, size_t h, figure *ret)
{
    hs_draws sizes;
    hs__draw_head(v->resampling, part, l, h, ret->draws);
    hs__draw_head(v->resampling, size, l, h, sizes);
    hs__draws_divide(ret->draws, sizes);
    interval_find(v, ret);
}

static void layer_ratio_draw(const view *v, hs__sum part, hs__sum size, size_t l, figure *ret)
{
    hs_draws sizes;
    hs__draw_layer(v->resampling, part, l, ret->draws);
    hs__draw_layer(v->resampling, size, l, sizes);
    hs__draws_divide(ret->draws, sizes);
    interval_find(v, ret);
}

static void run_ratio_draw(const view *v, hs__sum part, hs__sum size, figure *ret)
{
    hs_draws sizes;
    hs__draw_run(v->resampling, part, ret->draws);
    hs__draw_run(v->resampling, size, sizes);
    hs__draws_divide(ret->draws, sizes);
    interval_find(v, ret);
}

/* Judges by the margin scale x a - scale_b x b - least. b: NULL for none. */
static verdict margin_judge(const view *v, double scale, const figure *a, double scale_b, const figure *b,
                            double least)
{
    figure margin;
    for (size_t k = 0; k <= HS_BOOTSTRAP_DRAWS; k++)
        margin.draws[k] = scale * a->draws[k] - (b ? scale_b * b->draws[k] : 0) - least;
    interval_find(v, &margin);
    return margin.interval.low > 0 ? HOLDS : margin.interval.high < 0 ? FAILS : UNDECIDED;
}

/* Judges whether a is above b. */
static verdict above_judge(const view *v, const figure *a, const figure *b)
{
    return margin_judge(v, 1, a, 1, b, 0);
}

static verdict both(verdict a, verdict b)
{
    return a == FAILS || b == FAILS ? FAILS : a == HOLDS && b == HOLDS ? HOLDS : UNDECIDED;
}

/* Judges that all of n parts hold but `spare`, of which n_hold hold and n_fail fail. */
static verdict most_judge(size_t n, size_t spare, size_t n_hold, size_t n_fail)
{
    return n && n_hold + spare >= n ? HOLDS : n_fail > spare ? FAILS : UNDECIDED;
}

/* ---- claims about attention ---- */

/* Returns NO_EFFECT in place of HOLDS if a figure is not above chance by the least effect. */
static verdict effect_judge(const view *v, verdict judged, const figure *a, const figure *chance)
{
    if (judged != HOLDS)
        return judged;
    const verdict more = margin_judge(v, 1, a, 1 + EFFECT_LEAST, chance, 0);
    return more == FAILS ? NO_EFFECT : more;
}

static json_t *separators_finding(const view *v)
{
    figure last, early, chance;
    layer_ratio_draw(v, HS__LAYER_SEPARATORS, HS__LAYER_ATTENTION, v->last, &last);
    layer_ratio_draw(v, HS__LAYER_SEPARATORS, HS__LAYER_ATTENTION, v->early, &early);
    run_ratio_draw(v, HS__RUN_SEPARATORS, HS__RUN_TOKENS, &chance);
    const verdict judged = both(margin_judge(v, 1, &last, 0, NULL, 0.5), above_judge(v, &last, &early));
    return finding("The final layers attend to separators", "sec. 2, Fig. 4",
                   "[SEP], sentence ends and commas take over half of the last layer's attention, more than "
                   "of the early "
                   "layer's, and at least 5 % more than if it were spread evenly; else no effect",
                   effect_judge(v, judged, &last, &chance),
                   "%s in layer %d, %s in layer %d, spread evenly %s", percent(&last).text,
                   number_of(v, v->last), percent(&early).text, number_of(v, v->early),
                   percent(&chance).text);
}

/* ---- claims about the last layer's heads ---- */

/* Finds the heads of the last layer with the lowest and the highest share of repeated tokens. Returns the
 * number of heads that have high pairs. */
static size_t extremes_find(const view *v, figure *ret_low, figure *ret_high)
{
    figure head;
    size_t n = 0;
    for (size_t h = 0; h < v->o.n_heads; h++) {
        ratio_draw(v, HS__HEAD_REPEATED, HS__HEAD_HIGH, v->last, h, &head);
        if (!isfinite(head.draws[0]))
            continue;
        if (!n || head.draws[0] < ret_low->draws[0])
            *ret_low = head;
        if (!n || head.draws[0] > ret_high->draws[0])
            *ret_high = head;
        n++;
    }
    return n;
}

/* The lowest and the highest of many heads differ by accident, too. So the difference of these two is tested
 * with a p-value for each pair of heads (Bonferroni). */
static json_t *repeated_finding(const view *v)
{
    const double least = 0.1;
    figure low = {.draws = {NAN}}, high = low, span, chance;
    const double n = (double)extremes_find(v, &low, &high);
    for (size_t k = 0; k <= HS_BOOTSTRAP_DRAWS; k++)
        span.draws[k] = high.draws[k] - low.draws[k];
    interval_find(v, &span);
    run_ratio_draw(v, HS__RUN_REPEATED, HS__RUN_PAIRS, &chance);
    const double p =
        v->resampling ? hs_bootstrap_p(hs__resampling_bootstrap(v->resampling), span.draws, least) : NAN;
    const verdict judged = p * n * (n - 1) / 2 < 0.05 && span.draws[0] > least ? HOLDS
                           : span.interval.high < least                        ? FAILS
                                                                               : UNDECIDED;
    return finding("Heads differ in how much they find repeated tokens", "Fig. 6a",
                   "the highest of the last layer's heads is over 10 points above the lowest (5 % level, "
                   "corrected for the number of pairs of heads)",
                   judged, "%s to %s in layer %d, %s apart; pairs drawn at random: %s", percent(&low).text,
                   percent(&high).text, number_of(v, v->last), show(&span, 100, " points").text,
                   percent(&chance).text);
}

/* Pairs drawn at random are (T + 1) / 3 tokens apart in the mean, which is below 50 in texts of up to 148
 * tokens. */
static json_t *distance_finding(const view *v)
{
    size_t n_below = 0, n_beyond = 0, n_known = 0;
    double longest = -INFINITY;
    figure head, layer, chance;
    for (size_t h = 0; h < v->o.n_heads; h++) {
        ratio_draw(v, HS__HEAD_DISTANCE, HS__HEAD_HIGH, v->last, h, &head);
        const verdict below = margin_judge(v, -1, &head, 0, NULL, -50);
        n_known += isfinite(head.draws[0]);
        n_below += below == HOLDS;
        n_beyond += below == FAILS;
        longest = fmax(longest, head.draws[0]);
    }
    ratio_draw(v, HS__HEAD_DISTANCE, HS__HEAD_HIGH, v->last, HS__HEADS_ALL, &layer);
    run_ratio_draw(v, HS__RUN_DISTANCE, HS__RUN_PAIRS, &chance);
    verdict judged = most_judge(n_known, 1, n_below, n_beyond);
    if (judged == HOLDS) {
        const verdict shorter = margin_judge(v, -1, &layer, -(1 - EFFECT_LEAST), &chance, 0);
        judged = shorter == FAILS ? NO_EFFECT : shorter;
    }
    return finding(
        "High similarities of the last layer are short: mean distance below 50", "Fig. 7",
        "all heads of the last layer but at most one (the paper's head 8), and the layer's mean is at least "
        "5 % below that of pairs drawn at random; else no effect",
        judged,
        "%zu of %zu heads of layer %d are below 50; the longest mean is %.1f, the layer's %s, by "
        "chance %.1f",
        n_below, n_known, number_of(v, v->last), longest, number(&layer).text, chance.draws[0]);
}

/* Counts the last layer's heads whose lift over chance at the same distance is above and below 1, with a
 * false discovery rate of 5 %. */
static void lifts_count(const view *v, size_t *ret_above, size_t *ret_below)
{
    const size_t n = v->o.n_heads;
    double p[HS_HEADS_MAX];
    size_t scratch[HS_HEADS_MAX];
    bool is_above[HS_HEADS_MAX];
    figure lift;
    *ret_above = *ret_below = 0;
    for (size_t h = 0; h < n; h++) {
        ratio_draw(v, HS__HEAD_SAME_SENTENCE, HS__HEAD_EXPECTED_SAME_SENTENCE, v->last, h, &lift);
        p[h] = v->resampling ? hs_bootstrap_p(hs__resampling_bootstrap(v->resampling), lift.draws, 1) : NAN;
        is_above[h] = lift.draws[0] > 1;
    }
    hs_p_adjust(p, n, scratch);
    for (size_t h = 0; h < n; h++) {
        *ret_above += p[h] < 0.05 && is_above[h];
        *ret_below += p[h] < 0.05 && !is_above[h];
    }
}

/* Judged by chance at the same distance: near pairs are in one sentence anyway. */
static json_t *sentence_finding(const view *v)
{
    figure share, anywhere, lift;
    size_t n_above, n_below;
    ratio_draw(v, HS__HEAD_SAME_SENTENCE, HS__HEAD_HIGH, v->last, HS__HEADS_ALL, &share);
    ratio_draw(v, HS__HEAD_SAME_SENTENCE, HS__HEAD_EXPECTED_SAME_SENTENCE, v->last, HS__HEADS_ALL, &lift);
    run_ratio_draw(v, HS__RUN_SAME_SENTENCE, HS__RUN_PAIRS, &anywhere);
    lifts_count(v, &n_above, &n_below);
    const bool is_none = lift.interval.low > 1 - EFFECT_LEAST && lift.interval.high < 1 + EFFECT_LEAST;
    const verdict judged = both(margin_judge(v, 1, &lift, 0, NULL, 1),
                                most_judge(v->o.n_heads, v->o.n_heads / 10, n_above, n_below));
    return finding("High similarities of the last layer prefer the same sentence", "Fig. 8",
                   "the layer's lift over chance at the same distance is above 1, and so are those of nine "
                   "heads of ten (false discovery rate 5 %); a lift from 0.95 to 1.05 is no effect",
                   is_none ? NO_EFFECT : judged,
                   "%.1f %% against %.1f %% by chance at the same distance: lift %s; %zu of %zu heads of "
                   "layer %d above. Pairs drawn at random: %.1f %%",
                   100 * share.draws[0], 100 * share.draws[0] / lift.draws[0], number(&lift).text, n_above,
                   v->o.n_heads, number_of(v, v->last), 100 * anywhere.draws[0]);
}

/* Few pairs drawn at random have different focal tokens, too. */
static json_t *focal_finding(const view *v)
{
    const double n_heads = (double)v->o.n_heads;
    figure unique, chance, texts;
    hs__draw_run(v->resampling, HS__RUN_TEXTS, texts.draws);
    hs__draw_layer(v->resampling, HS__LAYER_UNIQUE_FOCAL, v->last, unique.draws);
    hs__draw_layer(v->resampling, HS__LAYER_UNIQUE_CHANCE, v->last, chance.draws);
    hs__draws_divide(unique.draws, texts.draws);
    hs__draws_divide(chance.draws, texts.draws);
    interval_find(v, &unique);
    interval_find(v, &chance);
    const verdict judged = both(margin_judge(v, 1, &unique, 0, NULL, 0.7 * n_heads),
                                margin_judge(v, -1, &unique, 0, NULL, -0.9 * n_heads));
    return finding(
        "Heads specialise on different tokens: 9 to 10 focal tokens of 12", "Fig. 11b",
        "the last layer's mean number of different focal tokens is 70 to 90 % of its heads, and at "
        "least 5 % above that of as many pairs drawn at random; else no effect",
        effect_judge(v, judged, &unique, &chance), "%s of %zu heads (%.0f %%) in layer %d, by chance %s",
        number(&unique).text, v->o.n_heads, 100 * unique.draws[0] / n_heads, number_of(v, v->last),
        number(&chance).text);
}

/* ---- claims about early, middle and last layers ---- */

/* Returns true if a layer's mean distance is that of pairs drawn at random. */
static bool is_chance(const view *v, const figure *distance, const figure *chance)
{
    figure ratio = *distance;
    hs__draws_divide(ratio.draws, chance->draws);
    interval_find(v, &ratio);
    return ratio.interval.low > 1 - EFFECT_LEAST && ratio.interval.high < 1 + EFFECT_LEAST;
}

static json_t *evolution_finding(const view *v)
{
    figure early, middle, last, chance;
    ratio_draw(v, HS__HEAD_DISTANCE, HS__HEAD_HIGH, v->early, HS__HEADS_ALL, &early);
    ratio_draw(v, HS__HEAD_DISTANCE, HS__HEAD_HIGH, v->middle, HS__HEADS_ALL, &middle);
    ratio_draw(v, HS__HEAD_DISTANCE, HS__HEAD_HIGH, v->last, HS__HEADS_ALL, &last);
    run_ratio_draw(v, HS__RUN_DISTANCE, HS__RUN_PAIRS, &chance);
    verdict judged = both(above_judge(v, &early, &last), above_judge(v, &last, &middle));
    if (judged == HOLDS && is_chance(v, &early, &chance) && is_chance(v, &middle, &chance) &&
        is_chance(v, &last, &chance))
        judged = NO_EFFECT;
    return finding("Early layers are long-range, middle ones short, the last in between", "Fig. 13",
                   "mean distances: early > last > middle; no effect if all are within 5 % of pairs drawn at "
                   "random",
                   judged, "%s in layer %d, %s in layer %d, %s in layer %d, by chance %.1f",
                   number(&early).text, number_of(v, v->early), number(&middle).text, number_of(v, v->middle),
                   number(&last).text, number_of(v, v->last), chance.draws[0]);
}

static json_t *diagonal_finding(const view *v)
{
    figure early, middle, last, chance;
    layer_ratio_draw(v, HS__LAYER_NEAR, HS__LAYER_POSITIVE, v->early, &early);
    layer_ratio_draw(v, HS__LAYER_NEAR, HS__LAYER_POSITIVE, v->middle, &middle);
    layer_ratio_draw(v, HS__LAYER_NEAR, HS__LAYER_POSITIVE, v->last, &last);
    run_ratio_draw(v, HS__RUN_NEAR, HS__RUN_PAIRS, &chance);
    const verdict judged = both(above_judge(v, &middle, &early), above_judge(v, &middle, &last));
    return finding(
        "Summed similarity gathers along the diagonal in the middle layers", "Fig. 12",
        "share of the N that the heads of a text add up to, its positive part, within 5 tokens of the "
        "diagonal: middle above early and above last, and at least 5 % above the share of all pairs; else no "
        "effect",
        effect_judge(v, judged, &middle, &chance),
        "%s in layer %d, %s in layer %d, %s in layer %d; of all pairs %s", percent(&early).text,
        number_of(v, v->early), percent(&middle).text, number_of(v, v->middle), percent(&last).text,
        number_of(v, v->last), percent(&chance).text);
}

/* ---- the threshold ---- */

static json_t *threshold_finding(const view *v)
{
    figure below, between, pairs;
    hs__draw_run(v->resampling, HS__RUN_PAIRS, pairs.draws);
    for (size_t k = 0; k <= HS_BOOTSTRAP_DRAWS; k++)
        pairs.draws[k] *= (double)v->o.n_heads;
    hs__draw_head(v->resampling, HS__HEAD_BELOW, v->last, HS__HEADS_ALL, below.draws);
    hs__draw_head(v->resampling, HS__HEAD_MIDDLE, v->last, HS__HEADS_ALL, between.draws);
    hs__draws_divide(below.draws, pairs.draws);
    hs__draws_divide(between.draws, pairs.draws);
    interval_find(v, &below);
    interval_find(v, &between);
    return finding("Most normalised similarities are below 0.1, few between 0.1 and 0.6", "sec. 3",
                   "over half of the last layer's N are below 0.1, and fewer lie between 0.1 and 0.6",
                   both(margin_judge(v, 1, &below, 0, NULL, 0.5), above_judge(v, &below, &between)),
                   "%s below 0.1, %s from 0.1 to 0.6, layer %d", percent(&below).text, percent(&between).text,
                   number_of(v, v->last));
}

/* Marks a claim that does not apply to the model, whatever was measured. */
static json_t *inapplicable(json_t *claim)
{
    json_object_set_new(claim, "applies", json_false());
    json_object_set_new(claim, "holds", json_null());
    json_object_set_new(claim, "verdict", json_string("does not apply"));
    return claim;
}

/* Returns the claim, marked if the model has too few layers for it or the run did not count them all. */
static json_t *layers_needed(const view *v, unsigned layers, json_t *claim)
{
    char measured[128] = "";
    const char *first = "layer %d", *next = ", layer %d";
    size_t n = 0;
    for (unsigned i = 0; i < 3; i++)
        if (layers & 1U << i && !v->counted[i])
            n += (size_t)snprintf(measured + n, sizeof measured - n, n ? next : first, v->numbers[i]);
    if (layers != LAST && !v->layered)
        snprintf(measured, sizeof measured, "fewer layers than it needs: early, middle and last");
    else if (n)
        snprintf(measured + n, sizeof measured - n, " was not counted in this run");
    else
        return claim;
    json_object_set_new(claim, "measured", json_string(measured));
    return inapplicable(claim);
}

/* Returns the index of a layer of the model among the run's. */
static size_t layer_find(view *v, size_t which, int number)
{
    size_t l = 0;
    while (l < v->o.n_layers && v->o.layers[l] != number)
        l++;
    v->numbers[which] = number;
    v->counted[which] = l < v->o.n_layers;
    return v->counted[which] ? l : v->o.n_layers - 1;
}

static view view_make(const hs__corpus_results *results, const hs__resampling *resampling)
{
    view v = {.resampling = resampling, .o = hs_corpus_stats_options(results->stats)};
    const json_int_t n_model = json_integer_value(json_object_get(results->identity, "model_layers"));
    const int n = n_model > 0 && n_model <= HS_LAYERS_MAX ? (int)n_model : 0;
    v.layered = n > 3;
    v.early = layer_find(&v, 0, n > 2 ? 1 : 0);
    v.middle = layer_find(&v, 1, n / 2);
    v.last = layer_find(&v, 2, n - 1);
    return v;
}

/* A causal model's texts have no separator behind them that every token could attend to, unless heads attend
 * to another text. The other claims are about similarities, which are defined as for encoders. */
json_t *hs__corpus_findings(const hs__corpus_results *results)
{
    const bool is_causal = json_is_true(json_object_get(results->names, "causal"));
    hs__resampling *resampling = hs__resampling_create(results);
    const view v = view_make(results, resampling);
    json_t *separators = layers_needed(&v, EARLY | LAST, separators_finding(&v));
    json_t *findings = json_pack(
        "[oooooooo]", is_causal && !v.o.crosses ? inapplicable(separators) : separators,
        layers_needed(&v, LAST, repeated_finding(&v)), layers_needed(&v, LAST, distance_finding(&v)),
        layers_needed(&v, LAST, sentence_finding(&v)), layers_needed(&v, LAST, focal_finding(&v)),
        layers_needed(&v, EARLY | MIDDLE | LAST, evolution_finding(&v)),
        layers_needed(&v, EARLY | MIDDLE | LAST, diagonal_finding(&v)),
        layers_needed(&v, LAST, threshold_finding(&v)));
    hs__resampling_destroy(resampling);
    return findings;
}
