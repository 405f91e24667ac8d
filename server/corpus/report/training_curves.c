/* training_curves.c - finds runs that belong to one training or to trainings of several seeds, counts the
 * seeds in which a claim holds, and how far their figures lie apart. */
#include "server/corpus/report/training_curves.h"

#include "engine/statistics/blocks.h"
#include "server/corpus/report/comparison.h"
#include "server/corpus/report/report_value.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { CLAIMS_MAX = 64, INTERVAL_SEEDS = 3 /* of fewer, there is a range */ };

/* ---- which runs belong together ---- */

static const json_t *part_of(const json_t *provenance, const char *path)
{
    return hs__report_value(provenance, path, (hs__indices){0});
}

/* Returns true if two runs of known places have all in common that a curve needs. */
static bool belong_together(const json_t *const *provenances, const hs__curve_place *places, size_t a,
                            size_t b)
{
    static const char *const same[] = {"options", "input.sha256", "model.layers"};
    bool together = strcmp(places[a].point.family, places[b].point.family) == 0 &&
                    (places[a].point.step < 0) == (places[b].point.step < 0);
    for (size_t i = 0; together && i < sizeof same / sizeof *same; i++) {
        const json_t *x = part_of(provenances[a], same[i]), *y = part_of(provenances[b], same[i]);
        together = x == y || json_equal(x, y);
    }
    return together;
}

static bool points_equal(const hs__curve_place *a, const hs__curve_place *b)
{
    return a->point.step == b->point.step && a->point.seed == b->point.seed;
}

/* Takes the curves of one point away, and the runs that repeat one. */
static void places_reduce(hs__curve_place *places, size_t n)
{
    size_t n_of[HS__COMPARED_RUNS_MAX] = {0};
    for (size_t r = 0; r < n; r++)
        for (size_t q = 0; q < r && places[r].curve < n && places[r].repeats > n; q++)
            if (places[q].curve == places[r].curve && points_equal(&places[q], &places[r]))
                places[r].repeats = q;
    for (size_t r = 0; r < n; r++)
        if (places[r].curve < n && places[r].repeats > n)
            n_of[places[r].curve]++;
    for (size_t r = 0; r < n; r++) {
        if (places[r].curve > n || n_of[places[r].curve] > 1) {
            places[r].curve = places[r].repeats < n ? SIZE_MAX : places[r].curve;
            continue;
        }
        places[r].curve = places[r].repeats = SIZE_MAX;
    }
}

void hs__curve_places_find(const json_t *const *provenances, size_t n, hs__curve_place *places)
{
    for (size_t r = 0; r < n; r++) {
        places[r] = (hs__curve_place){.curve = SIZE_MAX, .repeats = SIZE_MAX};
        places[r].center = json_string_value(part_of(provenances[r], "options.center"));
        if (!hs__training_point_of(part_of(provenances[r], "model"), &places[r].point))
            continue;
        places[r].curve = r;
        for (size_t q = 0; q < r && places[r].curve == r; q++)
            if (places[q].curve < n && belong_together(provenances, places, q, r))
                places[r].curve = places[q].curve;
    }
    places_reduce(places, n);
}

static int numbers_compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

int hs__curve_places_compare(const hs__curve_place *a, const hs__curve_place *b)
{
    const bool a_has = a->curve != SIZE_MAX, b_has = b->curve != SIZE_MAX;
    int order = b_has - a_has;
    if (order || !a_has)
        return order;
    order = strcmp(a->point.family, b->point.family);
    if (!order)
        order = numbers_compare(a->point.step, b->point.step);
    if (!order)
        order = numbers_compare(a->point.seed, b->point.seed);
    return order ? order : strcmp(a->center ? a->center : "", b->center ? b->center : "");
}

/* ---- a curve ---- */

typedef struct curve {
    const json_t *comparison;
    const hs__curve_place *places;
    size_t number, n_runs; /* the first of its runs; of all runs */
    size_t n_steps, n_seeds;
    int64_t steps[HS__COMPARED_RUNS_MAX], seeds[HS__COMPARED_RUNS_MAX]; /* ascending */
} curve;

/* Adds a number to an ascending list, unless it is there. */
static void number_add(int64_t *numbers, size_t *n, int64_t number)
{
    size_t at = *n;
    while (at > 0 && numbers[at - 1] > number)
        at--;
    if (at > 0 && numbers[at - 1] == number)
        return;
    memmove(numbers + at + 1, numbers + at, (*n - at) * sizeof *numbers);
    numbers[at] = number;
    ++*n;
}

static curve curve_make(const json_t *comparison, const hs__curve_place *places, size_t number, size_t n_runs)
{
    curve c = {.comparison = comparison, .places = places, .number = number, .n_runs = n_runs};
    for (size_t r = number; r < n_runs; r++)
        if (places[r].curve == number) {
            number_add(c.steps, &c.n_steps, places[r].point.step);
            number_add(c.seeds, &c.n_seeds, places[r].point.seed);
        }
    return c;
}

/* Returns the run of a step and a seed, or SIZE_MAX. */
static size_t run_at(const curve *c, size_t step, size_t seed)
{
    for (size_t r = c->number; r < c->n_runs; r++)
        if (c->places[r].curve == c->number && c->places[r].point.step == c->steps[step] &&
            c->places[r].point.seed == c->seeds[seed])
            return r;
    return SIZE_MAX;
}

static json_t *numbers_list(const int64_t *numbers, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, numbers[i] < 0 ? json_null() : json_integer(numbers[i]));
    return list;
}

/* Returns the runs as [step][seed]; null: there is none. */
static json_t *runs_list(const curve *c)
{
    json_t *steps = json_array();
    for (size_t s = 0; s < c->n_steps; s++) {
        json_t *seeds = json_array();
        for (size_t k = 0; k < c->n_seeds; k++) {
            const size_t r = run_at(c, s, k);
            json_array_append_new(seeds, r < c->n_runs ? json_integer((json_int_t)r) : json_null());
        }
        json_array_append_new(steps, seeds);
    }
    return steps;
}

/* ---- between seeds ---- */

/* Returns the mean of a figure over seeds, and how far these lie apart; null for less than two. */
static json_t *spread_json(const double *values, size_t n)
{
    double mean = 0, squares = 0, low = INFINITY, high = -INFINITY;
    if (n < 2)
        return json_null();
    for (size_t i = 0; i < n; i++) {
        mean += values[i] / (double)n;
        low = fmin(low, values[i]);
        high = fmax(high, values[i]);
    }
    for (size_t i = 0; i < n; i++)
        squares += (values[i] - mean) * (values[i] - mean);
    const bool is_interval = n >= INTERVAL_SEEDS;
    if (is_interval) {
        const double half = hs_student_975((double)(n - 1)) * sqrt(squares / (double)(n - 1) / (double)n);
        low = mean - half;
        high = mean + half;
    }
    return json_pack("{sI so so so ss}", "seeds", (json_int_t)n, "mean", hs__report_number(mean), "low",
                     hs__report_number(low), "high", hs__report_number(high), "kind",
                     is_interval ? "interval" : "range");
}

/* Returns [step] of the spread of a figure between seeds. path: in `of`, with T for the run. */
static json_t *spreads_json(const curve *c, const json_t *of, const char *path)
{
    json_t *steps = json_array();
    for (size_t s = 0; s < c->n_steps; s++) {
        double values[HS__COMPARED_RUNS_MAX] = {0};
        size_t n = 0;
        for (size_t k = 0; k < c->n_seeds; k++) {
            const size_t r = run_at(c, s, k);
            values[n] = r < c->n_runs ? hs__report_number_at(of, path, (hs__indices){.t = r}) : (double)NAN;
            n += isfinite(values[n]);
        }
        json_array_append_new(steps, spread_json(values, n));
    }
    return steps;
}

/* ---- claims ---- */

/* Counts the seeds in which a claim is judged at a step, and in which it holds. */
static void seeds_count(const curve *c, const json_t *finding, size_t step, size_t *ret_judged,
                        size_t *ret_hold)
{
    static const char *const judged[] = {"holds", "does not hold", "not decided", "no effect"};
    const json_t *verdicts = json_object_get(finding, "verdict");
    *ret_judged = *ret_hold = 0;
    for (size_t k = 0; k < c->n_seeds; k++) {
        const char *verdict = json_string_value(json_array_get(verdicts, run_at(c, step, k)));
        for (size_t i = 0; verdict && i < sizeof judged / sizeof *judged; i++)
            *ret_judged += strcmp(verdict, judged[i]) == 0;
        *ret_hold += verdict && strcmp(verdict, judged[0]) == 0;
    }
}

static json_t *claim_json(const curve *c, const json_t *finding)
{
    json_t *judged = json_array(), *holding = json_array();
    for (size_t s = 0; s < c->n_steps; s++) {
        size_t n_judged, n_hold;
        seeds_count(c, finding, s, &n_judged, &n_hold);
        json_array_append_new(judged, json_integer((json_int_t)n_judged));
        json_array_append_new(holding, json_integer((json_int_t)n_hold));
    }
    return json_pack("{sO? so so so}", "claim", json_object_get(finding, "claim"), "judged", judged, "holds",
                     holding, "between_seeds", spreads_json(c, finding, "evidence.T.observed.value"));
}

static json_t *claims_json(const curve *c)
{
    const json_t *findings = json_object_get(c->comparison, "findings");
    json_t *claims = json_array();
    for (size_t k = 0; k < json_array_size(findings) && k < CLAIMS_MAX; k++)
        json_array_append_new(claims, claim_json(c, json_array_get(findings, k)));
    return claims;
}

/* Returns {figure: [step]} of the figures of whole runs, but the numbers of texts. */
static json_t *totals_json(const curve *c)
{
    json_t *figures = json_object();
    const char *name;
    json_t *of_runs;
    json_object_foreach(json_object_get(c->comparison, "run_figures"), name, of_runs)
    {
        if (strncmp(name, "masked_", 7) == 0 || strncmp(name, "label_", 6) == 0)
            json_object_set_new(figures, name, spreads_json(c, of_runs, "T"));
    }
    return figures;
}

/* ---- in words ---- */

/* Says what the seeds of the last step show. */
static json_t *summary_json(const curve *c)
{
    const json_t *findings = json_object_get(c->comparison, "findings");
    const size_t last = c->n_steps - 1;
    size_t n_runs = 0, n_claims = 0, n_all = 0, n_some = 0;
    char step[48] = "", seeds[32] = "both", text[400];
    for (size_t k = 0; k < c->n_seeds; k++)
        n_runs += run_at(c, last, k) < c->n_runs;
    for (size_t k = 0; k < json_array_size(findings) && k < CLAIMS_MAX; k++) {
        size_t judged, hold;
        seeds_count(c, json_array_get(findings, k), last, &judged, &hold);
        n_claims += judged > 0;
        n_all += judged > 0 && hold == n_runs;
        n_some += hold > 0 && hold < n_runs;
    }
    if (c->steps[last] >= 0)
        snprintf(step, sizeof step, " at step %lld", (long long)c->steps[last]);
    if (n_runs > 2)
        snprintf(seeds, sizeof seeds, "all %zu", n_runs);
    const char *verb = n_all == 1 ? "holds" : "hold";
    if (n_runs > 1)
        snprintf(text, sizeof text,
                 "Of %zu claims, %zu %s in %s seeds%s, %zu in some of them and %zu in none.%s", n_claims,
                 n_all, verb, seeds, step, n_some, n_claims - n_all - n_some,
                 n_runs < INTERVAL_SEEDS ? " Two seeds show a range, no interval." : "");
    else
        snprintf(text, sizeof text,
                 "Of %zu claims, %zu %s%s. One seed does not say how much another training would differ.",
                 n_claims, n_all, verb, step);
    return json_string(text);
}

json_t *hs__curves_json(const json_t *comparison, const hs__curve_place *places)
{
    const size_t n_runs = json_array_size(json_object_get(comparison, "runs"));
    json_t *curves = json_array();
    for (size_t r = 0; r < n_runs; r++) {
        if (places[r].curve != r)
            continue;
        const curve c = curve_make(comparison, places, r, n_runs);
        json_array_append_new(
            curves, json_pack("{ss ss? so so so so so so}", "family", places[r].point.family, "center",
                              places[r].center, "steps", numbers_list(c.steps, c.n_steps), "seeds",
                              numbers_list(c.seeds, c.n_seeds), "runs", runs_list(&c), "claims",
                              claims_json(&c), "figures", totals_json(&c), "summary", summary_json(&c)));
    }
    return curves;
}
