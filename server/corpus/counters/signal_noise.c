/* signal_noise.c - the signal-to-noise ratio of each head in decibels, with its interval and its null, and
 * the ratios of its terms.
 *
 * The regressions are of engine/statistics/snr.h. Their sums are kept for each block of neighbouring
 * texts, apart for even and odd texts. Those of null models are kept once, and those of the
 * network with random weights, which have no intervals. */
#include "server/corpus/counters/signal_noise.h"

#include "engine/statistics/blocks.h"
#include "engine/statistics/snr.h"
#include "model/files/json.h"
#include "server/corpus/counters/counter.h"
#include "server/corpus/counters/resampling.h"

#include <math.h>
#include <stdlib.h>

#define MEMBER "signal_noise"

enum { PRODUCTS = HS_SNR_TERMS * HS_SNR_TERMS, BEST_LISTED = 10 };

enum { TEXTS, XX, XY, YY, RATIO, NULL_RATIO, NULL_XX, NULL_XY };

#define HALF                                                                                                 \
    {                                                                                                        \
        "half", 2                                                                                            \
    }
#define NULLS                                                                                                \
    {                                                                                                        \
        "null", HS_SNR_NULLS                                                                                 \
    }
#define TERM                                                                                                 \
    {                                                                                                        \
        "term", HS_SNR_TERMS                                                                                 \
    }
#define NULL_HALF                                                                                            \
    {                                                                                                        \
        "null and half", 2 * HS_SNR_NULLS                                                                    \
    }

static const hs_array_row rows[] = {
    [TEXTS] = {.unit = "texts", .meaning = "texts of a block", .place = HS_ALL_BLOCKS},
    [XX] = {"snr_xx",
            {HALF, TERM, TERM},
            "pairs",
            "X'X of the regressions behind the signal-to-noise ratio, of even and odd texts",
            HS_REAL,
            HS_ALL_BLOCKS},
    [XY] = {"snr_xy",
            {HALF, HS_AXIS_LAYER, HS_AXIS_HEAD, TERM},
            "pairs",
            "X'y of these regressions",
            HS_REAL,
            HS_ALL_BLOCKS},
    [YY] = {"snr_yy",
            {HALF, HS_AXIS_LAYER, HS_AXIS_HEAD},
            "pairs",
            "y'y of these regressions",
            HS_COUNT,
            HS_ALL_BLOCKS},
    [RATIO] = {"snr", {HS_AXIS_LAYER, HS_AXIS_HEAD}, "ratio", "signal-to-noise ratio", HS_REAL, HS_MADE},
    [NULL_RATIO] = {"snr_null",
                    {NULLS, HS_AXIS_LAYER, HS_AXIS_HEAD},
                    "ratio",
                    "the same with ids in another order and sentences elsewhere",
                    HS_REAL,
                    HS_MADE},
    [NULL_XX] = {NULL, {NULL_HALF, TERM, TERM}, "pairs", "X'X of the nulls", HS_REAL},
    [NULL_XY] = {NULL, {NULL_HALF, HS_AXIS_LAYER, HS_AXIS_HEAD, TERM}, "pairs", "X'y of the nulls", HS_REAL},
};

static const hs_sums_kind kind = {
    .member = MEMBER, .what = "the sums of signal and noise", .rows = rows, .n_rows = HS__N(rows)};

static const hs_array_row untrained_rows[] = {
    [TEXTS] = {.unit = "texts", .meaning = "texts"},
    [XX] = {NULL, {HALF, TERM, TERM}, "pairs", "X'X", HS_REAL},
    [XY] = {NULL, {HALF, HS_AXIS_LAYER, HS_AXIS_HEAD, TERM}, "pairs", "X'y", HS_REAL},
    [YY] = {NULL, {HALF, HS_AXIS_LAYER, HS_AXIS_HEAD}, "pairs", "y'y", HS_COUNT},
};

const hs_sums_kind hs__untrained_noise_sums = {.member = "untrained_" MEMBER,
                                               .what = "the untrained network's sums of signal and noise",
                                               .rows = untrained_rows,
                                               .n_rows = HS__N(untrained_rows)};

/* The full model, then its terms of language, each added last. */
enum { ALL_TERMS, RATIOS = 1 + HS_SNR_LANGUAGE };
static const char *const ratio_names[RATIOS] = {"snr", "snr_identity", "snr_sentence", "snr_product"};
static const char *const term_names[RATIOS] = {"all", "identity", "sentence", "product"};

static void measure(const hs__corpus_job *job, const void *options, hs__counter_size *size)
{
    const size_t n_maps = hs__corpus_maps(job);
    (void)options;
    size->shared += (HS_BOOTSTRAP_DRAWS + 1) * 2 * sizeof(hs_snr_half);
    size->worker += HS_CORPUS_BATCH * hs_snr_text_bytes(job->settings.fields.max_tokens);
    size->report += n_maps * 4096 + 16384;
    size->report_text += n_maps * 1024 + 4096;
}

/* ---- a run ---- */

typedef struct worker {
    hs__tally tally;
    hs_snr_text *texts[HS_CORPUS_BATCH]; /* of a pass */
} worker;

static hs_status worker_begin(void *state, void *const *states, hs_error *err)
{
    worker *w = state;
    (void)states;
    for (size_t k = 0; k < HS_CORPUS_BATCH; k++) {
        w->texts[k] = hs_snr_text_create(w->tally.counting->statistics->tokens_max);
        if (!w->texts[k])
            return hs_fail(err, HS_NO_MEMORY, "no memory for a worker");
    }
    return HS_OK;
}

static void worker_end(void *state)
{
    worker *w = state;
    for (size_t k = 0; k < HS_CORPUS_BATCH; k++)
        hs_snr_text_destroy(w->texts[k]);
}

static void reals_add(int64_t *words, const double *values, size_t n)
{
    for (size_t k = 0; k < n; k++)
        hs_real_add(words + 2 * k, values[k]);
}

/* Returns the words of X'X of half p of the texts, or of a null and half; and of X'y of a head. */
static int64_t *xx_at(int64_t *words, size_t p)
{
    return words + 2 * p * PRODUCTS;
}

static int64_t *xy_at(int64_t *words, size_t p, size_t n_maps, size_t map)
{
    return words + 2 * (p * n_maps + map) * HS_SNR_TERMS;
}

/* Returns the words that a text adds to. */
static int64_t *words_of(const hs_sums *s, const hs__text *t)
{
    return s->blocks ? hs_blocks_at(s->blocks, t->record.number) : s->words;
}

/* Adds a text to sums of a kind above. */
static void text_add(const hs_sums *s, const worker *w, const hs__text *t)
{
    const size_t half = t->record.number & 1; /* all windows of a record are in one half */
    int64_t *words = words_of(s, t);
    words[s->firsts[TEXTS]]++;
    reals_add(xx_at(words + s->firsts[XX], half), **hs_snr_text_products(w->texts[t->place], 0), PRODUCTS);
}

/* Adds a head. ret_xy: X'y of all models. */
static void head_add(const hs_sums *s, const worker *w, const hs__text *t, const hs__text_head *head,
                     hs_snr_vector ret_xy[HS_SNR_MODELS])
{
    const size_t half = t->record.number & 1, n_maps = hs_sums_maps(s);
    const uint64_t n = hs_snr_head_find(w->texts[t->place], head->maps.similarity, ret_xy);
    int64_t *words = words_of(s, t);
    reals_add(xy_at(words + s->firsts[XY], half, n_maps, head->map), ret_xy[0], HS_SNR_TERMS);
    words[s->firsts[YY] + half * n_maps + head->map] += (int64_t)n;
}

static hs_status start(void *state, hs__text *t, hs_error *err)
{
    const worker *w = state;
    const hs_sums *s = w->tally.sums;
    const size_t half = t->record.number & 1;
    hs_snr_text *text = w->texts[t->place];
    const hs_corpus_text of = hs__text_counted(t);
    (void)err;
    hs_snr_text_find(text, &of);
    text_add(s, w, t);
    for (size_t null = 0; null < HS_SNR_NULLS; null++)
        reals_add(xx_at(hs_sums_at(s, NULL_XX), 2 * null + half), **hs_snr_text_products(text, 1 + null),
                  PRODUCTS);
    return HS_OK;
}

static void head(void *state, hs__text *t, hs__text_head *head)
{
    const worker *w = state;
    const hs_sums *s = w->tally.sums;
    const size_t half = t->record.number & 1;
    hs_snr_vector xy[HS_SNR_MODELS];
    head_add(s, w, t, head, xy);
    for (size_t null = 0; null < HS_SNR_NULLS; null++)
        reals_add(xy_at(hs_sums_at(s, NULL_XY), 2 * null + half, hs_sums_maps(s), head->map), xy[1 + null],
                  HS_SNR_TERMS);
}

void hs__untrained_noise_text(void *const *states, const hs__text *t)
{
    const hs__tally *tally = states[HS__NUMBER_OF_untrained_noise];
    text_add(tally->sums, states[HS__NUMBER_OF_signal_noise], t);
}

void hs__untrained_noise_head(void *const *states, const hs__text *t, const hs__text_head *head)
{
    const hs__tally *tally = states[HS__NUMBER_OF_untrained_noise];
    hs_snr_vector xy[HS_SNR_MODELS];
    head_add(tally->sums, states[HS__NUMBER_OF_signal_noise], t, head, xy);
}

/* ---- sums of all blocks ---- */

/* Reads n numbers of a row, summed over blocks if it is in them. */
static void numbers_read(const hs_sums *s, size_t row, size_t first, size_t n, double *ret)
{
    const hs_corpus_array array = hs_array_of(s->kind->rows, row, s->lengths);
    int64_t count = 0;
    if (array.is_float)
        hs_sums_read(s, &array, first, n, ret);
    for (size_t k = 0; !array.is_float && k < n; k++) {
        hs_sums_read(s, &array, first + k, 1, &count);
        ret[k] = (double)count;
    }
}

/* Reads X'X of both halves and factors it. */
static void halves_read(const hs_sums *s, hs_snr_half ret[2])
{
    for (size_t p = 0; p < 2; p++) {
        numbers_read(s, XX, p * PRODUCTS, PRODUCTS, *ret[p].products);
        hs_snr_half_factor(&ret[p]);
    }
}

/* Reads X'y and y'y of a head. */
static void head_read(const hs_sums *s, size_t map, hs_snr_vector ret_xy[2], double ret_yy[2])
{
    for (size_t p = 0; p < 2; p++) {
        const size_t at = p * hs_sums_maps(s) + map;
        numbers_read(s, XY, at * HS_SNR_TERMS, HS_SNR_TERMS, ret_xy[p]);
        numbers_read(s, YY, at, 1, &ret_yy[p]);
    }
}

static void ratios_find(const hs_sums *c, size_t first, size_t n, double *ret)
{
    hs_snr_half halves[2];
    halves_read(c, halves);
    for (size_t i = 0; i < n; i++) {
        hs_snr_vector xy[2];
        double yy[2];
        head_read(c, first + i, xy, yy);
        ret[i] = hs_snr_ratio(halves, (const hs_snr_vector *)xy, yy, NULL);
    }
}

/* Returns the ratio of a head in a null model. */
static double null_ratio(const hs_sums *c, const hs_snr_half halves[2], size_t null, size_t map)
{
    hs_snr_vector xy[2];
    double yy[2];
    head_read(c, map, xy, yy);
    for (size_t p = 0; p < 2; p++)
        numbers_read(c, NULL_XY, ((2 * null + p) * hs_sums_maps(c) + map) * HS_SNR_TERMS, HS_SNR_TERMS,
                     xy[p]);
    return hs_snr_ratio(halves, (const hs_snr_vector *)xy, yy, NULL);
}

static void null_halves_read(const hs_sums *c, size_t null, hs_snr_half ret[2])
{
    for (size_t p = 0; p < 2; p++) {
        numbers_read(c, NULL_XX, (2 * null + p) * PRODUCTS, PRODUCTS, *ret[p].products);
        hs_snr_half_factor(&ret[p]);
    }
}

/* first counts the heads of all nulls. */
static void nulls_find(const hs_sums *c, size_t first, size_t n, double *ret)
{
    hs_snr_half halves[2];
    for (size_t i = first; i < first + n; i++) {
        const size_t null = i / hs_sums_maps(c), map = i % hs_sums_maps(c);
        if (i == first || map == 0)
            null_halves_read(c, null, halves);
        ret[i - first] = null_ratio(c, halves, null, map);
    }
}

static void read(const void *data, const hs_corpus_array *array, size_t first, size_t n, void *ret)
{
    if (array->field == RATIO)
        ratios_find(data, first, n, ret);
    else
        nulls_find(data, first, n, ret);
}

/* ---- report.json ---- */

/* The ratios of all heads, and what intervals come from. */
typedef struct ratios {
    const hs_sums *counts;
    size_t n_different; /* texts */
    hs_bootstrap bootstrap;
    hs_snr_half (*halves)[2];                          /* [1 + HS_BOOTSTRAP_DRAWS] */
    double *values[RATIOS], *halves_values[2], *nulls; /* [l][h]; nulls: the highest */
    double *p, *untrained[RATIOS];                     /* NAN without a control */
    double *sorted;                                    /* scratch */
    hs_interval *intervals[RATIOS];
    size_t *scratch;
} ratios;

static void ratios_finish(ratios *r)
{
    free(r->halves);
    free(r->values[0]);
    free(r->intervals[0]);
    free(r->scratch);
    free(r);
}

/* Returns NULL if memory is short. */
static ratios *ratios_create(const hs_sums *c, size_t n_different)
{
    const size_t n = hs_sums_maps(c);
    ratios *r = hs_json_memory(1, sizeof *r);
    if (!r)
        return NULL;
    r->counts = c;
    r->n_different = n_different;
    r->halves = hs_json_memory(1 + HS_BOOTSTRAP_DRAWS, sizeof *r->halves);
    double *values = r->values[0] = hs_json_memory(n, (2 * RATIOS + 5) * sizeof *values);
    r->intervals[0] = hs_json_memory(n, RATIOS * sizeof *r->intervals[0]);
    r->scratch = hs_json_memory(n, sizeof *r->scratch);
    if (!r->halves || !values || !r->intervals[0] || !r->scratch) {
        ratios_finish(r);
        return NULL;
    }
    for (size_t k = 0; k < RATIOS; k++) {
        r->values[k] = values + k * n;
        r->untrained[k] = values + (RATIOS + k) * n;
        r->intervals[k] = r->intervals[0] + k * n;
    }
    values += 2 * RATIOS * n;
    r->halves_values[0] = values;
    r->halves_values[1] = values + n;
    r->nulls = values + 2 * n;
    r->p = values + 3 * n;
    r->sorted = values + 4 * n;
    return r;
}

static void halves_draw(ratios *r)
{
    hs_draws draws;
    hs_bootstrap_init(&r->bootstrap, r->counts->blocks, r->counts->firsts[TEXTS], r->n_different);
    for (size_t p = 0; p < 2; p++)
        for (size_t k = 0; k < PRODUCTS; k++) {
            hs_sums_draw(r->counts, &r->bootstrap, XX, p * PRODUCTS + k, 1, draws);
            for (size_t draw = 0; draw <= HS_BOOTSTRAP_DRAWS; draw++)
                r->halves[draw][p].products[k / HS_SNR_TERMS][k % HS_SNR_TERMS] = draws[draw];
        }
    for (size_t draw = 0; draw <= HS_BOOTSTRAP_DRAWS; draw++)
        for (size_t p = 0; p < 2; p++)
            hs_snr_half_factor(&r->halves[draw][p]);
}

/* Finds the ratios of a head, those of its halves, their intervals and its p-value. sums: memory. */
static void head_draw(ratios *r, size_t map, hs_draws sums[2][HS_SNR_TERMS + 1])
{
    hs_draws draws[RATIOS];
    for (size_t p = 0; p < 2; p++) {
        const size_t at = p * hs_sums_maps(r->counts) + map;
        for (size_t k = 0; k < HS_SNR_TERMS; k++)
            hs_sums_draw(r->counts, &r->bootstrap, XY, at * HS_SNR_TERMS + k, 1, sums[p][k]);
        hs_sums_draw(r->counts, &r->bootstrap, YY, at, 1, sums[p][HS_SNR_TERMS]);
    }
    for (size_t draw = HS_BOOTSTRAP_DRAWS + 1; draw-- > 0;) {
        hs_snr_vector xy[2];
        double halves[2], terms[HS_SNR_LANGUAGE];
        const double yy[2] = {sums[0][HS_SNR_TERMS][draw], sums[1][HS_SNR_TERMS][draw]};
        for (size_t p = 0; p < 2; p++)
            for (size_t k = 0; k < HS_SNR_TERMS; k++)
                xy[p][k] = sums[p][k][draw];
        draws[ALL_TERMS][draw] = hs_snr_ratio(r->halves[draw], (const hs_snr_vector *)xy, yy, halves);
        hs_snr_term_ratios(r->halves[draw], (const hs_snr_vector *)xy, yy, terms);
        for (size_t k = 1; k < RATIOS; k++)
            draws[k][draw] = terms[k - 1];
        r->halves_values[0][map] = halves[0];
        r->halves_values[1][map] = halves[1];
    }
    for (size_t k = 0; k < RATIOS; k++) {
        r->values[k][map] = draws[k][0];
        r->intervals[k][map] = hs_bootstrap_interval(&r->bootstrap, draws[k]);
    }
    r->p[map] = hs_bootstrap_p(&r->bootstrap, draws[ALL_TERMS], 0);
}

/* Finds the ratios of the network with random weights. c: its sums, or NULL. */
static void untrained_find(ratios *r, const hs_sums *c)
{
    hs_snr_half halves[2];
    if (c)
        halves_read(c, halves);
    for (size_t map = 0; map < hs_sums_maps(r->counts); map++) {
        hs_snr_vector xy[2];
        double yy[2], terms[HS_SNR_LANGUAGE];
        for (size_t k = 0; k < RATIOS; k++)
            r->untrained[k][map] = NAN;
        if (!c)
            continue;
        head_read(c, map, xy, yy);
        r->untrained[ALL_TERMS][map] = hs_snr_ratio(halves, (const hs_snr_vector *)xy, yy, NULL);
        hs_snr_term_ratios(halves, (const hs_snr_vector *)xy, yy, terms);
        for (size_t k = 1; k < RATIOS; k++)
            r->untrained[k][map] = terms[k - 1];
    }
}

/* Finds all of it. Returns false if memory is short. */
static bool ratios_fill(ratios *r)
{
    const size_t n = hs_sums_maps(r->counts);
    hs_draws(*sums)[HS_SNR_TERMS + 1] = hs_json_memory(2, sizeof *sums);
    if (!sums)
        return false;
    halves_draw(r);
    for (size_t map = 0; map < n; map++) {
        r->nulls[map] = NAN;
        head_draw(r, map, sums);
    }
    free(sums);
    for (size_t null = 0; null < HS_SNR_NULLS; null++) {
        hs_snr_half halves[2];
        null_halves_read(r->counts, null, halves);
        for (size_t map = 0; map < n; map++)
            r->nulls[map] =
                fmax(r->nulls[map], null_ratio(r->counts, (const hs_snr_half *)halves, null, map));
    }
    hs_p_adjust(r->p, n, r->scratch);
    return true;
}

static json_t *decibels_json(double ratio)
{
    return hs__report_number(hs_snr_decibels(ratio));
}

/* Adds the intervals of a head's ratios. */
static void intervals_report(const ratios *r, size_t map, json_t *to)
{
    for (size_t k = 0; k < RATIOS; k++) {
        json_t *interval = json_pack("{so so}", "low", hs__report_number(r->intervals[k][map].low), "high",
                                     hs__report_number(r->intervals[k][map].high));
        if (k == ALL_TERMS)
            json_object_set_new(interval, "p_adjusted", hs__report_number(r->p[map]));
        json_object_set_new(to, ratio_names[k], interval);
    }
    json_object_set_new(to, "snr_db",
                        json_pack("{so so}", "low", decibels_json(r->intervals[ALL_TERMS][map].low), "high",
                                  decibels_json(r->intervals[ALL_TERMS][map].high)));
}

/* Adds to the figures of a head. */
static void head_report(const ratios *r, size_t map, bool main, json_t *to)
{
    for (size_t k = 0; k < RATIOS; k++)
        json_object_set_new(to, ratio_names[k], hs__report_number(r->values[k][map]));
    json_object_set_new(to, "snr_db", decibels_json(r->values[ALL_TERMS][map]));
    json_object_set_new(to, "snr_null", hs__report_number(r->nulls[map]));
    json_t *intervals = json_object_get(to, "intervals");
    if (main && intervals)
        intervals_report(r, map, intervals);
}

/* Returns the highest finite value; NAN if there is none. */
static double highest(const double *values, size_t n)
{
    double most = NAN;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, values[i]);
    return most;
}

/* Lists the heads with the highest ratio in even texts, which are then measured on odd ones. */
static json_t *best_json(const ratios *r, const hs_corpus_options *o)
{
    json_t *list = json_array();
    double below = INFINITY; /* the one listed last */
    for (size_t k = 0; k < BEST_LISTED; k++) {
        size_t best = SIZE_MAX;
        for (size_t map = 0; map < hs_sums_maps(r->counts); map++) {
            const double value = r->halves_values[0][map];
            if (value < below && (best == SIZE_MAX || value > r->halves_values[0][best]))
                best = map;
        }
        if (best == SIZE_MAX)
            break;
        below = r->halves_values[0][best];
        json_array_append_new(
            list, json_pack("{si sI so so so so so}", "layer", (int)o->layers[best / o->n_heads], "head",
                            (json_int_t)(best % o->n_heads), "chosen_db", decibels_json(below),
                            "other_half_db", decibels_json(r->halves_values[1][best]), "snr_db",
                            decibels_json(r->values[ALL_TERMS][best]), "low_db",
                            decibels_json(r->intervals[ALL_TERMS][best].low), "high_db",
                            decibels_json(r->intervals[ALL_TERMS][best].high)));
    }
    return list;
}

static int double_compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns the median of the finite values; NAN if there is none. */
static double median(const ratios *r, const double *values)
{
    size_t n = 0;
    for (size_t map = 0; map < hs_sums_maps(r->counts); map++)
        if (isfinite(values[map]))
            r->sorted[n++] = values[map];
    qsort(r->sorted, n, sizeof *r->sorted, double_compare);
    return n ? (r->sorted[(n - 1) / 2] + r->sorted[n / 2]) / 2 : (double)NAN;
}

/* Returns the head with the highest ratio of a term, null if no head has one, beside the network with random
 * weights. */
static json_t *term_json(const ratios *r, size_t term, const hs_corpus_options *o)
{
    const size_t n = hs_sums_maps(r->counts);
    const double *values = r->values[term], untrained = highest(r->untrained[term], n);
    size_t best = 0;
    json_int_t n_above = 0;
    for (size_t map = 0; map < n; map++) {
        best = values[map] > values[best] || isnan(values[best]) ? map : best;
        n_above += values[map] > untrained;
    }
    const bool known = !isnan(values[best]);
    json_t *row = json_pack(
        "{ss so so so so so so}", "term", term_names[term], "layer",
        known ? json_integer((json_int_t)o->layers[best / o->n_heads]) : json_null(), "head",
        known ? json_integer((json_int_t)(best % o->n_heads)) : json_null(), "highest_db",
        decibels_json(values[best]), "low_db", decibels_json(r->intervals[term][best].low), "high_db",
        decibels_json(r->intervals[term][best].high), "median_db", decibels_json(median(r, values)));
    json_object_set_new(
        row, "untrained",
        isnan(untrained) ? json_null()
                         : json_pack("{so so sI}", "highest_db", decibels_json(untrained), "median_db",
                                     decibels_json(median(r, r->untrained[term])), "heads_above", n_above));
    return row;
}

static json_t *summary_json(const ratios *r, const hs_corpus_options *o)
{
    const size_t n = hs_sums_maps(r->counts);
    const double null = highest(r->nulls, n);
    json_int_t n_above = 0;
    json_t *terms = json_array();
    for (size_t map = 0; map < n; map++)
        n_above += r->values[ALL_TERMS][map] > null;
    for (size_t k = 0; k < RATIOS; k++)
        json_array_append_new(terms, term_json(r, k, o));
    return json_pack("{so so sI sI so so}", "null", hs__report_number(null), "null_db", decibels_json(null),
                     "heads_above_null", n_above, "heads", (json_int_t)n, "best", best_json(r, o), "terms",
                     terms);
}

static void report(const hs__corpus_results *results, void *data, json_t *to)
{
    const hs_corpus_options o = hs_corpus_stats_options(results->stats);
    ratios *r = data ? ratios_create(data, hs__different_texts(results)) : NULL;
    if (r && ratios_fill(r)) {
        untrained_find(r, results->counts[HS__NUMBER_OF_untrained_noise]);
        for (size_t t = 0; t < o.n_thresholds; t++)
            for (size_t map = 0; map < hs_sums_maps(r->counts); map++)
                head_report(
                    r, map, t == o.threshold_main,
                    json_array_get(json_array_get(json_array_get(json_object_get(to, "head_figures"), t),
                                                  map / o.n_heads),
                                   map % o.n_heads));
        json_object_set_new(to, MEMBER, summary_json(r, &o));
    }
    if (r)
        ratios_finish(r);
}

/* ---- report.html ---- */

const hs__column hs__noise_columns[HS__NOISE_COLUMNS] = {
    {"Term", NULL, NULL},
    {"Highest head", NULL, NULL},
    {"dB", "highest_db", "%.1f"},
    {"from", "low_db", "%.1f"},
    {"to", "high_db", "%.1f"},
    {"Median head, dB", "median_db", "%.1f"},
    {"Untrained: highest, dB", "untrained.highest_db", "%.1f"},
    {"Untrained: median, dB", "untrained.median_db", "%.1f"},
    {"Heads above the highest untrained one", "untrained.heads_above", NULL},
};

void hs__noise_cells_write(FILE *out, const json_t *term)
{
    fputs("<th scope=\"row\">", out);
    hs__html_text(out, json_string_value(json_object_get(term, "term")));
    fputs("</th><td>", out);
    const json_t *layer = json_object_get(term, "layer");
    if (json_is_integer(layer))
        hs__head_write(out, json_integer_value(layer), json_integer_value(json_object_get(term, "head")));
    else
        fputs("–", out);
    fputs("</td>", out);
    hs__cells_write(out, hs__noise_columns + 2, HS__NOISE_COLUMNS - 2, term, (hs__indices){0});
}

static void terms_write(const json_t *terms, FILE *out)
{
    fputs(
        "<h3>By term</h3><p class=\"muted\">What each term explains that all the others do not: identity is "
        "the same token, sentence the same sentence, product both at once. Terms overlap, so their ratios do "
        "not add up to that of all. A term that others determine has none: sentence and product in texts of "
        "one sentence each. The network with random weights shows what comes without training. The "
        "highest of many heads is chosen in the same texts, there as here.</p>",
        out);
    hs__table_begin(out, hs__noise_columns, HS__NOISE_COLUMNS);
    for (size_t i = 0; i < json_array_size(terms); i++) {
        fputs("<tr>", out);
        hs__noise_cells_write(out, json_array_get(terms, i));
        fputs("</tr>\n", out);
    }
    hs__table_end(out);
}

static void page(const hs__drawing *d, hs__indices at, FILE *out)
{
    static const hs__column columns[] = {
        {"Head", NULL, NULL},
        {"Even texts, dB", "chosen_db", "%.1f"},
        {"Odd texts, dB", "other_half_db", "%.1f"},
        {"All texts, dB", "snr_db", "%.1f"},
        {"from", "low_db", "%.1f"},
        {"to", "high_db", "%.1f"},
    };
    const json_t *summary = json_object_get(d->report, MEMBER), *best = json_object_get(summary, "best");
    (void)at;
    if (!summary)
        return;
    fputs("<section id=\"" MEMBER "\" aria-label=\"Signal-to-noise ratio\"><h2>Signal-to-noise ratio</h2><p "
          "class=\"muted\">The ratio says how much of a head&rsquo;s similarities two tokens&rsquo; identity "
          "and sentence explain beyond their positions and distance: 0 dB as much as remains unexplained, "
          "&minus;10 dB a tenth, &minus;20 dB a hundredth. ",
          out);
    hs__html_filled(out, summary, "{heads_above_null} of {heads} heads are above the null: ");
    fprintf(out, json_is_number(json_object_get(summary, "null_db")) ? "%.1f dB" : "none above 0",
            json_number_value(json_object_get(summary, "null_db")));
    fputs(", the highest ratio of any head with a text&rsquo;s tokens in another order and its sentences "
          "elsewhere. A head that is not above it shows position and distance alone. The heads below are the "
          "best in even texts. What they reach in odd texts was not chosen, so it is not flattered by the "
          "choice. The last columns are the 95 % interval. A dash: nothing is explained.</p>",
          out);
    hs__table_begin(out, columns, HS__N(columns));
    for (size_t i = 0; i < json_array_size(best); i++) {
        const json_t *row = json_array_get(best, i);
        hs__html_filled(out, row, "<tr><th scope=\"row\">{layer}·{head}</th>");
        hs__cells_write(out, columns + 1, HS__N(columns) - 1, row, (hs__indices){0});
        fputs("</tr>\n", out);
    }
    hs__table_end(out);
    terms_write(json_object_get(summary, "terms"), out);
    fputs("</section>\n", out);
}

const hs__counter hs__counter_signal_noise = {
    .name = "signal and noise",
    .sums = &kind,
    .measure = measure,
    .worker_bytes = sizeof(worker),
    .worker_begin = worker_begin,
    .worker_end = worker_end,
    .start = start,
    .head = head,
    .read = read,
    .report = report,
    .section = MEMBER,
    .title = "Signal-to-noise ratio",
    .page = page,
};
