/* signal_noise.c - the signal-to-noise ratio of each head in decibels, with its interval and its null.
 *
 * The regressions are of engine/statistics/snr.h. Their sums are kept for each block of neighbouring
 * texts, apart for even and odd texts. Those of null models are kept once. */
#include "engine/statistics/snr.h"

#include "engine/statistics/blocks.h"
#include "model/files/json.h"
#include "server/corpus/counters/counter.h"
#include "server/corpus/counters/resampling.h"
#include "server/corpus/report/html.h"

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

static void measure(const hs__corpus_job *job, const void *options, hs__counter_size *size)
{
    const size_t n_maps = hs__corpus_maps(job);
    (void)options;
    size->shared += (HS_BOOTSTRAP_DRAWS + 1) * 2 * sizeof(hs_snr_half);
    size->worker += HS_CORPUS_BATCH * hs_snr_text_bytes(job->settings.fields.max_tokens);
    size->report += n_maps * 2048;
    size->report_text += n_maps * 512;
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

static hs_status start(void *state, hs__text *t, hs_error *err)
{
    const worker *w = state;
    const hs_sums *s = w->tally.sums;
    const hs_corpus_text of = hs__text_counted(t);
    const size_t half = t->record.number & 1; /* all windows of a record are in one half */
    hs_snr_text *text = w->texts[t->place];
    int64_t *block = hs_blocks_at(s->blocks, t->record.number);
    (void)err;
    hs_snr_text_find(text, &of);
    block[s->firsts[TEXTS]]++;
    reals_add(xx_at(block + s->firsts[XX], half), **hs_snr_text_products(text, 0), PRODUCTS);
    for (size_t null = 0; null < HS_SNR_NULLS; null++)
        reals_add(xx_at(hs_sums_at(s, NULL_XX), 2 * null + half), **hs_snr_text_products(text, 1 + null),
                  PRODUCTS);
    return HS_OK;
}

static void head(void *state, hs__text *t, hs__text_head *head)
{
    const worker *w = state;
    const hs_sums *s = w->tally.sums;
    const size_t half = t->record.number & 1, n_maps = hs_sums_maps(s);
    hs_snr_vector xy[HS_SNR_MODELS];
    const uint64_t n = hs_snr_head_find(w->texts[t->place], head->maps.similarity, xy);
    int64_t *block = hs_blocks_at(s->blocks, t->record.number);
    reals_add(xy_at(block + s->firsts[XY], half, n_maps, head->map), xy[0], HS_SNR_TERMS);
    block[s->firsts[YY] + half * n_maps + head->map] += (int64_t)n;
    for (size_t null = 0; null < HS_SNR_NULLS; null++)
        reals_add(xy_at(hs_sums_at(s, NULL_XY), 2 * null + half, n_maps, head->map), xy[1 + null],
                  HS_SNR_TERMS);
}

/* ---- sums of all blocks ---- */

/* Reads n numbers of a row, summed over blocks if it is in them. */
static void numbers_read(const hs_sums *s, size_t row, size_t first, size_t n, double *ret)
{
    const hs_corpus_array array = hs_array_of(rows, row, s->lengths);
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
    hs_snr_half (*halves)[2];                  /* [1 + HS_BOOTSTRAP_DRAWS] */
    double *values, *halves_values[2], *nulls; /* [l][h]; nulls: the highest */
    double *p;
    hs_interval *intervals;
    size_t *scratch;
} ratios;

static void ratios_finish(ratios *r)
{
    free(r->halves);
    free(r->values);
    free(r->intervals);
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
    r->values = hs_json_memory(n, 5 * sizeof *r->values);
    r->intervals = hs_json_memory(n, sizeof *r->intervals);
    r->scratch = hs_json_memory(n, sizeof *r->scratch);
    if (!r->halves || !r->values || !r->intervals || !r->scratch) {
        ratios_finish(r);
        return NULL;
    }
    r->halves_values[0] = r->values + n;
    r->halves_values[1] = r->values + 2 * n;
    r->nulls = r->values + 3 * n;
    r->p = r->values + 4 * n;
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

/* Finds the ratio of a head, those of its halves, its interval and its p-value. sums: memory. */
static void head_draw(ratios *r, size_t map, hs_draws sums[2][HS_SNR_TERMS + 1])
{
    hs_draws draws;
    for (size_t p = 0; p < 2; p++) {
        const size_t at = p * hs_sums_maps(r->counts) + map;
        for (size_t k = 0; k < HS_SNR_TERMS; k++)
            hs_sums_draw(r->counts, &r->bootstrap, XY, at * HS_SNR_TERMS + k, 1, sums[p][k]);
        hs_sums_draw(r->counts, &r->bootstrap, YY, at, 1, sums[p][HS_SNR_TERMS]);
    }
    for (size_t draw = HS_BOOTSTRAP_DRAWS + 1; draw-- > 0;) {
        hs_snr_vector xy[2];
        double halves[2];
        const double yy[2] = {sums[0][HS_SNR_TERMS][draw], sums[1][HS_SNR_TERMS][draw]};
        for (size_t p = 0; p < 2; p++)
            for (size_t k = 0; k < HS_SNR_TERMS; k++)
                xy[p][k] = sums[p][k][draw];
        draws[draw] = hs_snr_ratio(r->halves[draw], (const hs_snr_vector *)xy, yy, halves);
        r->halves_values[0][map] = halves[0];
        r->halves_values[1][map] = halves[1];
    }
    r->values[map] = draws[0];
    r->intervals[map] = hs_bootstrap_interval(&r->bootstrap, draws);
    r->p[map] = hs_bootstrap_p(&r->bootstrap, draws, 0);
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

/* Adds to the figures of a head. */
static void head_report(const ratios *r, size_t map, bool main, json_t *to)
{
    json_object_set_new(to, "snr", hs__report_number(r->values[map]));
    json_object_set_new(to, "snr_db", decibels_json(r->values[map]));
    json_object_set_new(to, "snr_null", hs__report_number(r->nulls[map]));
    json_t *intervals = json_object_get(to, "intervals");
    if (!main || !intervals)
        return;
    json_object_set_new(intervals, "snr",
                        json_pack("{so so so}", "low", hs__report_number(r->intervals[map].low), "high",
                                  hs__report_number(r->intervals[map].high), "p_adjusted",
                                  hs__report_number(r->p[map])));
    json_object_set_new(intervals, "snr_db",
                        json_pack("{so so}", "low", decibels_json(r->intervals[map].low), "high",
                                  decibels_json(r->intervals[map].high)));
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
                            decibels_json(r->values[best]), "low_db", decibels_json(r->intervals[best].low),
                            "high_db", decibels_json(r->intervals[best].high)));
    }
    return list;
}

static json_t *summary_json(const ratios *r, const hs_corpus_options *o)
{
    const size_t n = hs_sums_maps(r->counts);
    const double null = highest(r->nulls, n);
    json_int_t n_above = 0;
    for (size_t map = 0; map < n; map++)
        n_above += r->values[map] > null;
    return json_pack("{so so sI sI so}", "null", hs__report_number(null), "null_db", decibels_json(null),
                     "heads_above_null", n_above, "heads", (json_int_t)n, "best", best_json(r, o));
}

static void report(const hs__corpus_results *results, void *data, json_t *to)
{
    const hs_corpus_options o = hs_corpus_stats_options(results->stats);
    ratios *r = data ? ratios_create(data, hs__different_texts(results)) : NULL;
    if (r && ratios_fill(r)) {
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
