/* findings.c - the paper's claims, each beside what this run measured.
 *
 * The paper states most of them in words. The criterion for a claim is written beside it, so a reader can
 * judge it as well as the model. A criterion is a list of margins that must be above 0. A claim holds if the
 * 95 % intervals of all its margins are, and does not hold if the interval of one lies below 0; else it is
 * not decided. A claim that holds has no effect if the interval of its figure less that of a control contains
 * 0, or lies within 5 % of the latter. Controls are chance, the pairs of the longest outputs and the network
 * with random weights. Early, middle and last are layers 1, L / 2 and L - 1 of the model's L, as in the
 * paper's figures. A claim does not apply if the run did not count a layer that it speaks of. */
#include "server/corpus/report/report.h"

#include "server/corpus/counters/resampling.h"
#include "server/corpus/report/report_value.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef struct view {
    const hs__resampling *resampling; /* NULL: no intervals */
    const struct view *untrained;     /* of the network with random weights; NULL: none was counted */
    const struct view *lengths;       /* of the pairs of the longest outputs; NULL: none was counted */
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

/* The least effect, as a fraction of the figure by chance. */
#define EFFECT_LEAST 0.05

/* A number, and its interval. */
typedef struct figure {
    hs_draws draws;
    hs_interval interval;
} figure;

static json_t *finding(const char *id, const char *claim, const char *paper, const char *criterion,
                       verdict judged, const char *format, ...) HS_PRINTF(6, 7);

/* Returns a finding. Its `holds` is null if the claim is not decided or has no effect. */
static json_t *finding(const char *id, const char *claim, const char *paper, const char *criterion,
                       verdict judged, const char *format, ...)
{
    static const char *const names[] = {"holds", "does not hold", "not decided", "no effect"};
    char measured[500];
    va_list args;
    va_start(args, format);
    vsnprintf(measured, sizeof measured, format, args);
    va_end(args);
    return json_pack("{ss ss ss ss ss so ss sb}", "id", id, "claim", claim, "paper", paper, "measured",
                     measured, "criterion", criterion, "holds",
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

/* Judges that all of n parts hold but `spare`, and at least one. n_hold of them hold and n_fail fail. */
static verdict most_judge(size_t n, size_t spare, size_t n_hold, size_t n_fail)
{
    return n_hold > 0 && n_hold + spare >= n ? HOLDS : n_fail > spare ? FAILS : UNDECIDED;
}

/* ---- claims about attention ---- */

typedef enum control { CHANCE, LENGTHS, UNTRAINED, CONTROLS } control;

static const char *const control_names[CONTROLS] = {"chance", "lengths", "untrained"};

/* The figure that a claim rests on, and the same of controls. */
typedef struct evidence {
    const char *figure, *unit; /* unit: "%" for a share, else what is counted */
    double sign;               /* 1 if the claim is that the figure is high, -1 if it is that it is low */
    double scale;              /* the least effect is a part of this; 0: of the control */
    double seeds;              /* part by which networks of other seeds differ; 0: less than EFFECT_LEAST */
    bool of_pairs; /* it is one of high pairs alone, which those of the longest outputs have too */
    figure observed, controls[CONTROLS];
    bool has[CONTROLS]; /* others are null in the report */
} evidence;

/* Finds a claim's figure in the heads of a view. */
typedef void measure(const view *v, figure *ret);

/* Finds the figure in the model, in the network with random weights, and of the longest outputs. */
static void evidence_find(const view *v, measure *find, evidence *e)
{
    find(v, &e->observed);
    e->has[UNTRAINED] = v->untrained;
    if (v->untrained)
        find(v->untrained, &e->controls[UNTRAINED]);
    e->has[LENGTHS] = v->lengths && e->of_pairs;
    if (e->has[LENGTHS])
        find(v->lengths, &e->controls[LENGTHS]);
}

/* Draws the figure less that of the control that speaks most against the claim, and less the least effect
 * times `least`. Returns false without a control. */
static bool margin_draw(const evidence *e, double least, hs_draws ret)
{
    for (size_t k = 0; k <= HS_BOOTSTRAP_DRAWS; k++) {
        double most = NAN;
        for (size_t c = 0; c < CONTROLS; c++) {
            const double other = e->has[c] ? e->controls[c].draws[k] : NAN;
            const double part = c == UNTRAINED ? fmax(e->seeds, EFFECT_LEAST) : EFFECT_LEAST;
            const double scale = e->scale > 0 ? e->scale : fabs(other);
            most = fmax(most, e->sign * other + least * part * scale);
        }
        ret[k] = e->sign * e->observed.draws[k] - most;
    }
    return !isnan(ret[0]);
}

/* Returns true if a control has a figure without an interval: of too few different texts. */
static bool control_is_open(const evidence *e)
{
    for (size_t c = LENGTHS; c < CONTROLS; c++)
        if (e->has[c] && isfinite(e->controls[c].draws[0]) && isnan(e->controls[c].interval.low))
            return true;
    return false;
}

/* Returns judged, but in place of HOLDS: NO_EFFECT if the interval of the figure less that of the control
 * contains 0 or lies below the least effect. UNDECIDED if it contains the least effect, or if a control is
 * open. */
static verdict evidence_judge(const view *v, verdict judged, const evidence *e)
{
    figure margin, beyond;
    if (judged != HOLDS || !margin_draw(e, 0, margin.draws) || !margin_draw(e, 1, beyond.draws))
        return judged;
    interval_find(v, &margin);
    interval_find(v, &beyond);
    if (control_is_open(e))
        return UNDECIDED;
    return beyond.interval.low > 0                                ? HOLDS
           : margin.interval.low <= 0 || beyond.interval.high < 0 ? NO_EFFECT
                                                                  : UNDECIDED;
}

static json_t *figure_json(const figure *f)
{
    return json_pack("{so so so}", "value", hs__report_number(f->draws[0]), "low",
                     hs__report_number(f->interval.low), "high", hs__report_number(f->interval.high));
}

/* Adds the figure of a finding beside its controls. */
static json_t *evidence_add(json_t *finding, const evidence *e)
{
    json_t *to =
        json_pack("{ss ss so}", "figure", e->figure, "unit", e->unit, "observed", figure_json(&e->observed));
    for (size_t c = 0; c < CONTROLS; c++)
        json_object_set_new(to, control_names[c], e->has[c] ? figure_json(&e->controls[c]) : json_null());
    json_object_set_new(finding, "evidence", to);
    return finding;
}

static void separators_measure(const view *v, figure *ret)
{
    layer_ratio_draw(v, HS__LAYER_SEPARATORS, HS__LAYER_ATTENTION, v->last, ret);
}

static json_t *separators_finding(const view *v)
{
    figure early;
    evidence e = {.figure = "attention on separators", .unit = "%", .sign = 1, .has[CHANCE] = true};
    evidence_find(v, separators_measure, &e);
    layer_ratio_draw(v, HS__LAYER_SEPARATORS, HS__LAYER_ATTENTION, v->early, &early);
    run_ratio_draw(v, HS__RUN_SEPARATORS, HS__RUN_TOKENS, &e.controls[CHANCE]);
    const verdict judged =
        both(margin_judge(v, 1, &e.observed, 0, NULL, 0.5), above_judge(v, &e.observed, &early));
    return evidence_add(
        finding("separators", "The final layers attend to separators", "sec. 2, Fig. 4",
                "[SEP], sentence ends and commas take over half of the last layer's attention, more than "
                "of the early "
                "layer's, and at least 5 % more than if it were spread evenly; else no effect",
                evidence_judge(v, judged, &e), "%s in layer %d, %s in layer %d, spread evenly %s",
                percent(&e.observed).text, number_of(v, v->last), percent(&early).text,
                number_of(v, v->early), percent(&e.controls[CHANCE]).text),
        &e);
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

static void span_measure(const view *v, figure *ret)
{
    figure low, high;
    const bool known = extremes_find(v, &low, &high) > 0;
    for (size_t k = 0; k <= HS_BOOTSTRAP_DRAWS; k++)
        ret->draws[k] = known ? high.draws[k] - low.draws[k] : NAN;
    interval_find(v, ret);
}

/* The lowest and the highest of many heads differ by accident, too. So the difference of these two is tested
 * with a p-value for each pair of heads (Bonferroni). */
static json_t *repeated_finding(const view *v)
{
    const double least = 0.1;
    figure low = {.draws = {NAN}}, high = low, chance;
    evidence e = {
        .figure = "span of heads", .of_pairs = true, .unit = "%", .sign = 1, .scale = 1, .seeds = 0.1};
    const figure *span = &e.observed;
    const double n = (double)extremes_find(v, &low, &high);
    evidence_find(v, span_measure, &e);
    run_ratio_draw(v, HS__RUN_REPEATED, HS__RUN_PAIRS, &chance);
    const double p =
        v->resampling ? hs_bootstrap_p(hs__resampling_bootstrap(v->resampling), span->draws, least) : NAN;
    const verdict judged = p * n * (n - 1) / 2 < 0.05 && span->draws[0] > least ? HOLDS
                           : span->interval.high < least                        ? FAILS
                                                                                : UNDECIDED;
    return evidence_add(
        finding("repeated", "Heads differ in how much they find repeated tokens", "Fig. 6a",
                "the highest of the last layer's heads is over 10 points above the lowest (5 % level, "
                "corrected for the number of pairs of heads)",
                evidence_judge(v, judged, &e), "%s to %s in layer %d, %s apart; pairs drawn at random: %s",
                percent(&low).text, percent(&high).text, number_of(v, v->last),
                show(span, 100, " points").text, percent(&chance).text),
        &e);
}

static void distance_measure(const view *v, figure *ret)
{
    ratio_draw(v, HS__HEAD_DISTANCE, HS__HEAD_HIGH, v->last, HS__HEADS_ALL, ret);
}

/* Pairs drawn at random are (T + 1) / 3 tokens apart in the mean, which is below 50 in texts of up to 148
 * tokens. */
static json_t *distance_finding(const view *v)
{
    size_t n_below = 0, n_beyond = 0, n_known = 0;
    double longest = -INFINITY;
    figure head;
    evidence e = {
        .figure = "mean distance", .of_pairs = true, .unit = "tokens", .sign = -1, .has[CHANCE] = true};
    for (size_t h = 0; h < v->o.n_heads; h++) {
        ratio_draw(v, HS__HEAD_DISTANCE, HS__HEAD_HIGH, v->last, h, &head);
        const verdict below = margin_judge(v, -1, &head, 0, NULL, -50);
        n_known += isfinite(head.draws[0]);
        n_below += below == HOLDS;
        n_beyond += below == FAILS;
        longest = fmax(longest, head.draws[0]);
    }
    evidence_find(v, distance_measure, &e);
    run_ratio_draw(v, HS__RUN_DISTANCE, HS__RUN_PAIRS, &e.controls[CHANCE]);
    const verdict judged = most_judge(n_known, 1, n_below, n_beyond);
    return evidence_add(
        finding("distance", "High similarities of the last layer are short: mean distance below 50", "Fig. 7",
                "all heads of the last layer but at most one (the paper's head 8), and the layer's mean is "
                "at least "
                "5 % below that of pairs drawn at random; else no effect",
                evidence_judge(v, judged, &e),
                "%zu of %zu heads of layer %d are below 50; the longest mean is %.1f, the layer's %s, by "
                "chance %.1f",
                n_below, n_known, number_of(v, v->last), longest, number(&e.observed).text,
                e.controls[CHANCE].draws[0]),
        &e);
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

static void lift_measure(const view *v, figure *ret)
{
    ratio_draw(v, HS__HEAD_SAME_SENTENCE, HS__HEAD_EXPECTED_SAME_SENTENCE, v->last, HS__HEADS_ALL, ret);
}

/* Judged by chance at the same distance: near pairs are in one sentence anyway. */
static json_t *sentence_finding(const view *v)
{
    figure share, anywhere;
    evidence e = {.figure = "lift at the same distance",
                  .of_pairs = true,
                  .unit = "times",
                  .sign = 1,
                  .has[CHANCE] = true};
    const figure *lift = &e.observed;
    size_t n_above, n_below;
    ratio_draw(v, HS__HEAD_SAME_SENTENCE, HS__HEAD_ORDINARY, v->last, HS__HEADS_ALL, &share);
    evidence_find(v, lift_measure, &e);
    for (size_t k = 0; k <= HS_BOOTSTRAP_DRAWS; k++)
        e.controls[CHANCE].draws[k] = 1;
    interval_find(v, &e.controls[CHANCE]);
    run_ratio_draw(v, HS__RUN_SAME_SENTENCE, HS__RUN_ORDINARY, &anywhere);
    lifts_count(v, &n_above, &n_below);
    const bool is_none = lift->interval.low > 1 - EFFECT_LEAST && lift->interval.high < 1 + EFFECT_LEAST;
    const verdict judged = both(margin_judge(v, 1, lift, 0, NULL, 1),
                                most_judge(v->o.n_heads, v->o.n_heads / 10, n_above, n_below));
    return evidence_add(
        finding("sentence", "High similarities of the last layer prefer the same sentence", "Fig. 8",
                "the layer's lift over chance at the same distance is above 1, and so are those of nine "
                "heads of ten (false discovery rate 5 %); a lift from 0.95 to 1.05 is no effect",
                is_none ? NO_EFFECT : evidence_judge(v, judged, &e),
                "%.1f %% against %.1f %% by chance at the same distance: lift %s; %zu of %zu heads of "
                "layer %d above. Pairs drawn at random: %.1f %%",
                100 * share.draws[0], 100 * share.draws[0] / lift->draws[0], number(lift).text, n_above,
                v->o.n_heads, number_of(v, v->last), 100 * anywhere.draws[0]),
        &e);
}

/* Divides a layer's sum by the number of texts. */
static void text_mean_draw(const view *v, hs__sum sum, figure *ret)
{
    hs_draws texts;
    hs__draw_run(v->resampling, HS__RUN_TEXTS, texts);
    hs__draw_layer(v->resampling, sum, v->last, ret->draws);
    hs__draws_divide(ret->draws, texts);
    interval_find(v, ret);
}

static void unique_measure(const view *v, figure *ret)
{
    text_mean_draw(v, HS__LAYER_UNIQUE_FOCAL, ret);
}

/* Few pairs drawn at random have different focal tokens, too. */
static json_t *focal_finding(const view *v)
{
    const double n_heads = (double)v->o.n_heads;
    evidence e = {.figure = "different focal tokens",
                  .of_pairs = true,
                  .unit = "tokens",
                  .sign = 1,
                  .seeds = 0.1,
                  .has[CHANCE] = true};
    const figure *unique = &e.observed, *chance = &e.controls[CHANCE];
    evidence_find(v, unique_measure, &e);
    text_mean_draw(v, HS__LAYER_UNIQUE_CHANCE, &e.controls[CHANCE]);
    const verdict judged = both(margin_judge(v, 1, unique, 0, NULL, 0.7 * n_heads),
                                margin_judge(v, -1, unique, 0, NULL, -0.9 * n_heads));
    return evidence_add(
        finding("focal", "Heads specialise on different tokens: 9 to 10 focal tokens of 12", "Fig. 11b",
                "the last layer's mean number of different focal tokens is 70 to 90 % of its heads, and at "
                "least 5 % above that of as many pairs drawn at random; else no effect",
                evidence_judge(v, judged, &e), "%s of %zu heads (%.0f %%) in layer %d, by chance %s",
                number(unique).text, v->o.n_heads, 100 * unique->draws[0] / n_heads, number_of(v, v->last),
                number(chance).text),
        &e);
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

static void layer_distance_draw(const view *v, size_t l, figure *ret)
{
    ratio_draw(v, HS__HEAD_DISTANCE, HS__HEAD_HIGH, l, HS__HEADS_ALL, ret);
}

static void step_measure(const view *v, figure *ret)
{
    figure early, middle, last;
    layer_distance_draw(v, v->early, &early);
    layer_distance_draw(v, v->middle, &middle);
    layer_distance_draw(v, v->last, &last);
    for (size_t k = 0; k <= HS_BOOTSTRAP_DRAWS; k++) {
        const double down = early.draws[k] - last.draws[k], up = last.draws[k] - middle.draws[k];
        ret->draws[k] = isnan(down) || isnan(up) ? NAN : fmin(down, up);
    }
    interval_find(v, ret);
}

/* By chance, all layers have one mean distance: the steps between them are 0. */
static json_t *evolution_finding(const view *v)
{
    figure early, middle, last, chance;
    evidence e = {
        .figure = "smaller step", .of_pairs = true, .unit = "tokens", .sign = 1, .has[CHANCE] = true};
    layer_distance_draw(v, v->early, &early);
    layer_distance_draw(v, v->middle, &middle);
    layer_distance_draw(v, v->last, &last);
    run_ratio_draw(v, HS__RUN_DISTANCE, HS__RUN_PAIRS, &chance);
    e.scale = chance.draws[0];
    evidence_find(v, step_measure, &e);
    verdict judged = both(above_judge(v, &early, &last), above_judge(v, &last, &middle));
    if (is_chance(v, &early, &chance) && is_chance(v, &middle, &chance) && is_chance(v, &last, &chance))
        judged = NO_EFFECT;
    return evidence_add(
        finding(
            "evolution", "Early layers are long-range, middle ones short, the last in between", "Fig. 13",
            "mean distances: early > last > middle, each step at least 5 % of the distance of pairs drawn at "
            "random; no effect if all are within 5 % of it",
            evidence_judge(v, judged, &e), "%s in layer %d, %s in layer %d, %s in layer %d, by chance %.1f",
            number(&early).text, number_of(v, v->early), number(&middle).text, number_of(v, v->middle),
            number(&last).text, number_of(v, v->last), chance.draws[0]),
        &e);
}

static void near_measure(const view *v, figure *ret)
{
    layer_ratio_draw(v, HS__LAYER_NEAR, HS__LAYER_POSITIVE, v->middle, ret);
}

static json_t *diagonal_finding(const view *v)
{
    figure early, last;
    evidence e = {.figure = "share near the diagonal", .unit = "%", .sign = 1, .has[CHANCE] = true};
    layer_ratio_draw(v, HS__LAYER_NEAR, HS__LAYER_POSITIVE, v->early, &early);
    evidence_find(v, near_measure, &e);
    layer_ratio_draw(v, HS__LAYER_NEAR, HS__LAYER_POSITIVE, v->last, &last);
    run_ratio_draw(v, HS__RUN_NEAR, HS__RUN_PAIRS, &e.controls[CHANCE]);
    const verdict judged = both(above_judge(v, &e.observed, &early), above_judge(v, &e.observed, &last));
    return evidence_add(
        finding(
            "diagonal", "Summed similarity gathers along the diagonal in the middle layers", "Fig. 12",
            "share of the N that the heads of a text add up to, its positive part, within 5 tokens of the "
            "diagonal: middle above early and above last, and at least 5 % above the share of all pairs; "
            "else no "
            "effect",
            evidence_judge(v, judged, &e), "%s in layer %d, %s in layer %d, %s in layer %d; of all pairs %s",
            percent(&early).text, number_of(v, v->early), percent(&e.observed).text, number_of(v, v->middle),
            percent(&last).text, number_of(v, v->last), percent(&e.controls[CHANCE]).text),
        &e);
}

/* ---- the threshold ---- */

/* Draws a share of all pairs of the last layer's heads. */
static void pairs_share_draw(const view *v, hs__sum sum, figure *ret)
{
    hs_draws pairs;
    hs__draw_run(v->resampling, HS__RUN_PAIRS, pairs);
    for (size_t k = 0; k <= HS_BOOTSTRAP_DRAWS; k++)
        pairs[k] *= (double)v->o.n_heads;
    hs__draw_head(v->resampling, sum, v->last, HS__HEADS_ALL, ret->draws);
    hs__draws_divide(ret->draws, pairs);
    interval_find(v, ret);
}

static void below_measure(const view *v, figure *ret)
{
    pairs_share_draw(v, HS__HEAD_BELOW, ret);
}

static json_t *threshold_finding(const view *v)
{
    figure between;
    evidence e = {.figure = "similarities below 0.1", .unit = "%", .sign = 1, .has[CHANCE] = true};
    const figure *below = &e.observed;
    evidence_find(v, below_measure, &e);
    pairs_share_draw(v, HS__HEAD_MIDDLE, &between);
    run_ratio_draw(v, HS__RUN_GAUSSIAN, HS__RUN_PAIRS, &e.controls[CHANCE]);
    return evidence_add(
        finding("threshold", "Most normalised similarities are below 0.1, few between 0.1 and 0.6", "sec. 3",
                "over half of the last layer's N are below 0.1, fewer lie between 0.1 and 0.6, and those "
                "below 0.1 are at least 5 % more than of Gaussian outputs; else no effect",
                evidence_judge(
                    v, both(margin_judge(v, 1, below, 0, NULL, 0.5), above_judge(v, below, &between)), &e),
                "%s below 0.1, %s from 0.1 to 0.6, layer %d; Gaussian outputs: %s below 0.1",
                percent(below).text, percent(&between).text, number_of(v, v->last),
                percent(&e.controls[CHANCE]).text),
        &e);
}

/* Marks a claim that does not apply to the model, whatever was measured. */
static json_t *inapplicable(json_t *claim)
{
    json_object_set_new(claim, "applies", json_false());
    json_object_set_new(claim, "holds", json_null());
    json_object_set_new(claim, "verdict", json_string("does not apply"));
    return claim;
}

/* Returns the claim, marked if the model has too few layers for it or the run did not count them all. Leaves
 * out what was measured in other layers in their place. */
static json_t *layers_needed(const view *v, unsigned layers, json_t *claim)
{
    char measured[128] = "";
    const char *first = "layer %d", *next = ", layer %d";
    size_t n = 0, n_missing = 0;
    for (unsigned i = 0; i < 3; i++)
        if (layers & 1U << i && !v->counted[i]) {
            n += (size_t)snprintf(measured + n, sizeof measured - n, n ? next : first, v->numbers[i]);
            n_missing++;
        }
    if (layers != LAST && !v->layered)
        snprintf(measured, sizeof measured, "fewer layers than it needs: early, middle and last");
    else if (n)
        snprintf(measured + n, sizeof measured - n, " %s not counted in this run",
                 n_missing > 1 ? "were" : "was");
    else
        return claim;
    json_object_set_new(claim, "measured", json_string(measured));
    json_object_set_new(claim, "evidence", json_null());
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

/* Returns the findings without the verdicts of claims that the model's training aimed at: they are no
 * evidence that transformers have what was trained. */
static json_t *trained_mark(const json_t *names, json_t *findings)
{
    const char *trained = json_string_value(json_object_get(names, "trained_for"));
    for (size_t i = 0; trained && i < json_array_size(findings); i++) {
        json_t *finding = json_array_get(findings, i);
        const char *id = json_string_value(json_object_get(finding, "id"));
        char between[32];
        snprintf(between, sizeof between, ",%s,", id ? id : "");
        if (!strstr(trained, between) || !json_is_true(json_object_get(finding, "applies")))
            continue;
        json_object_set_new(finding, "holds", json_null());
        json_object_set_new(finding, "verdict", json_string("trained for"));
    }
    return findings;
}

/* A causal model's texts have no separator behind them that every token could attend to, unless heads attend
 * to another text. The other claims are about similarities, which are defined as for encoders. */
json_t *hs__corpus_findings(const hs__corpus_results *results)
{
    const bool is_causal = json_is_true(json_object_get(results->names, "causal"));
    hs__resampling *resampling = hs__resampling_create(results->counts[HS__NUMBER_OF_resampling]);
    hs__resampling *random = hs__resampling_create(results->counts[HS__NUMBER_OF_untrained_control]);
    hs__resampling *longest = hs__resampling_create(results->counts[HS__NUMBER_OF_longest_pairs]);
    const view untrained = view_make(results, random), lengths = view_make(results, longest);
    view v = view_make(results, resampling);
    v.untrained = random ? &untrained : NULL;
    v.lengths = longest ? &lengths : NULL;
    json_t *separators = layers_needed(&v, EARLY | LAST, separators_finding(&v));
    json_t *findings = json_pack(
        "[oooooooo]", is_causal && !v.o.crosses ? inapplicable(separators) : separators,
        layers_needed(&v, LAST, repeated_finding(&v)), layers_needed(&v, LAST, distance_finding(&v)),
        layers_needed(&v, LAST, sentence_finding(&v)), layers_needed(&v, LAST, focal_finding(&v)),
        layers_needed(&v, EARLY | MIDDLE | LAST, evolution_finding(&v)),
        layers_needed(&v, EARLY | MIDDLE | LAST, diagonal_finding(&v)),
        layers_needed(&v, LAST, threshold_finding(&v)));
    hs__resampling_destroy(resampling);
    hs__resampling_destroy(random);
    hs__resampling_destroy(longest);
    return trained_mark(results->names, findings);
}
