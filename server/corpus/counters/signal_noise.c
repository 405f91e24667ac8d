/* signal_noise.c - the signal-to-noise ratio of each head in decibels, with its interval and its null.
 *
 * The regressions are of engine/statistics/snr.h. Their sums are kept for each block of neighbouring
 * texts, apart for even and odd texts, as integers in units of 2^-16. Those of null models are kept once.
 * Runs of earlier versions lack these sums; one of them that is resumed goes on without. */
#include "engine/statistics/snr.h"

#include "engine/statistics/blocks.h"
#include "model/files/json.h"
#include "server/corpus/counters/counter.h"
#include "server/corpus/counters/words.h"
#include "server/corpus/report/html.h"

#include <math.h>
#include <stdlib.h>

#define MEMBER "signal_noise"

enum {
    PRODUCTS = HS_SNR_TERMS * HS_SNR_TERMS,
    PRODUCT_WORDS = 2 * PRODUCTS,      /* of real numbers */
    HEAD_PAIRS = 2 * HS_SNR_TERMS,     /* y'y, behind X'y */
    HEAD_WORDS = 2 * HS_SNR_TERMS + 1, /* of a head */
    BEST_LISTED = 10
};

/* The counts of a worker, and in the results. A block has its number of texts, then for even and odd texts
 * X'X and the words of each head. The words are those of nulls, [null][half], each with X'X and X'y of each
 * head. */
typedef hs__sums counts;

static size_t half_words(size_t n_maps)
{
    return PRODUCT_WORDS + n_maps * HEAD_WORDS;
}

static size_t block_words(size_t n_maps)
{
    return 1 + 2 * half_words(n_maps);
}

static size_t null_words(size_t n_maps)
{
    return PRODUCT_WORDS + n_maps * HEAD_PAIRS;
}

static size_t nulls_words(size_t n_maps)
{
    return (size_t)2 * HS_SNR_NULLS * null_words(n_maps);
}

static size_t maps_of(const counts *c)
{
    return c->n_layers * c->n_heads;
}

static hs__sums_size size_of(size_t n_thresholds, size_t n_layers, size_t n_heads)
{
    (void)n_thresholds;
    return (hs__sums_size){.words = nulls_words(n_layers * n_heads),
                           .block_words = block_words(n_layers * n_heads)};
}

static const hs__sums_kind kind_of_sums = {
    .member = MEMBER, .beside = "nulls", .what = "the sums of signal and noise", .size = size_of};

static void measure(const hs__corpus_job *job, const void *options, hs__counter_size *size)
{
    const size_t n_maps = hs__corpus_maps(job);
    (void)options;
    hs__sums_measure(&kind_of_sums, job->settings.n_thresholds, job->settings.fields.n_layers,
                     hs_engine_shape(job->engine)->n_heads, size);
    size->shared += (HS_BOOTSTRAP_DRAWS + 1) * 2 * sizeof(hs_snr_half);
    size->worker += HS_CORPUS_BATCH * hs_snr_text_bytes(job->settings.fields.max_tokens);
    size->listed += 2 * half_words(n_maps) + (1 + HS_SNR_NULLS) * n_maps;
    size->elements += 2 * half_words(n_maps) + (1 + HS_SNR_NULLS) * n_maps;
    size->report += n_maps * 2048;
    size->report_text += n_maps * 512;
}

/* ---- a run ---- */

typedef struct worker {
    counts *counts;
    hs_snr_text *texts[HS_CORPUS_BATCH]; /* of a pass */
} worker;

static hs_status worker_create(hs__counting *counting, void *const *states, void **ret, hs_error *err)
{
    const hs_corpus_options *o = counting->statistics;
    (void)states;
    if (!*counting->counts)
        return HS_OK;
    worker *w = *ret = calloc(1, sizeof *w);
    if (!w)
        return hs_fail(err, HS_NO_MEMORY, "no memory for a worker");
    for (size_t k = 0; k < HS_CORPUS_BATCH; k++) {
        w->texts[k] = hs_snr_text_create(o->tokens_max);
        if (!w->texts[k])
            return hs_fail(err, HS_NO_MEMORY, "no memory for a worker");
    }
    w->counts = hs__sums_create_like(*counting->counts, err);
    return w->counts ? HS_OK : HS_NO_MEMORY;
}

static void worker_destroy(void *state)
{
    worker *w = state;
    for (size_t k = 0; k < HS_CORPUS_BATCH; k++)
        hs_snr_text_destroy(w->texts[k]);
    hs__sums_destroy(w->counts);
    free(w);
}

static void reals_add(int64_t *words, const double *values, size_t n)
{
    for (size_t k = 0; k < n; k++)
        hs__real_add(words + 2 * k, values[k]);
}

/* Returns the words of the text's half in its block, and of a null. */
static int64_t *half_at(const worker *w, uint64_t number)
{
    return hs_blocks_at(w->counts->blocks, number) + 1 + (number & 1) * half_words(maps_of(w->counts));
}

static int64_t *null_at(const worker *w, uint64_t number, size_t null)
{
    return w->counts->words + (2 * null + (number & 1)) * null_words(maps_of(w->counts));
}

static hs_status start(void *state, hs__text *t, hs_error *err)
{
    const worker *w = state;
    const hs_corpus_text of = hs__text_counted(t);
    const uint64_t number = t->record.number; /* all windows of a record are in one half */
    hs_snr_text *text = w->texts[t->place];
    (void)err;
    hs_snr_text_find(text, &of);
    hs_blocks_at(w->counts->blocks, number)[0]++;
    reals_add(half_at(w, number), **hs_snr_text_products(text, 0), PRODUCTS);
    for (size_t null = 0; null < HS_SNR_NULLS; null++)
        reals_add(null_at(w, number, null), **hs_snr_text_products(text, 1 + null), PRODUCTS);
    return HS_OK;
}

static void head(void *state, hs__text *t, hs__text_head *head)
{
    const worker *w = state;
    const uint64_t number = t->record.number;
    hs_snr_vector xy[HS_SNR_MODELS];
    const uint64_t n = hs_snr_head_find(w->texts[t->place], head->maps.similarity, xy);
    int64_t *words = half_at(w, number) + PRODUCT_WORDS + head->map * HEAD_WORDS;
    reals_add(words, xy[0], HS_SNR_TERMS);
    words[HEAD_PAIRS] += (int64_t)n;
    for (size_t null = 0; null < HS_SNR_NULLS; null++)
        reals_add(null_at(w, number, null) + PRODUCT_WORDS + head->map * HEAD_PAIRS, xy[1 + null],
                  HS_SNR_TERMS);
}

static hs_status gather(hs__counting *counting, void *state, hs_error *err)
{
    const worker *w = state;
    (void)err;
    hs__sums_move(*counting->counts, w->counts);
    return HS_OK;
}

static hs_status load(const hs__corpus_results *results, const json_t *checkpoint, void **ret, hs_error *err)
{
    const size_t n_thresholds = hs_corpus_stats_options(results->stats).n_thresholds;
    return hs__sums_load(&kind_of_sums, n_thresholds, results, checkpoint, ret, err);
}

/* ---- sums of all blocks ---- */

static void half_read(const int64_t *words, hs_snr_matrix ret)
{
    for (size_t k = 0; k < PRODUCTS; k++)
        ret[k / HS_SNR_TERMS][k % HS_SNR_TERMS] = hs__real_at(words + 2 * k);
}

static void vector_read(const int64_t *words, hs_snr_vector ret)
{
    for (size_t k = 0; k < HS_SNR_TERMS; k++)
        ret[k] = hs__real_at(words + 2 * k);
}

/* Returns the sum of a word of a half over the blocks. */
static int64_t word_sum(const counts *c, size_t half, size_t word)
{
    const size_t at = 1 + half * half_words(maps_of(c)) + word;
    int64_t sum = 0;
    for (size_t b = 0; b < HS_BLOCKS_MAX; b++)
        hs__words_add(&sum, c->blocks->words + b * c->blocks->n_words + at, 1);
    return sum;
}

static void words_sum(const counts *c, size_t half, size_t first, size_t n, int64_t *ret)
{
    for (size_t k = 0; k < n; k++)
        ret[k] = word_sum(c, half, first + k);
}

/* Reads X'X of both halves and factors it. */
static void halves_read(const counts *c, hs_snr_half ret[2])
{
    int64_t words[PRODUCT_WORDS];
    for (size_t p = 0; p < 2; p++) {
        words_sum(c, p, 0, PRODUCT_WORDS, words);
        half_read(words, ret[p].products);
        hs_snr_half_factor(&ret[p]);
    }
}

/* Reads X'y and y'y of a head. */
static void head_read(const counts *c, size_t map, hs_snr_vector ret_xy[2], double ret_yy[2])
{
    int64_t words[HEAD_WORDS];
    for (size_t p = 0; p < 2; p++) {
        words_sum(c, p, PRODUCT_WORDS + map * HEAD_WORDS, HEAD_WORDS, words);
        vector_read(words, ret_xy[p]);
        ret_yy[p] = (double)words[HEAD_PAIRS];
    }
}

static void ratios_find(const counts *c, size_t first, size_t n, double *ret)
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
static double null_ratio(const counts *c, const hs_snr_half halves[2], size_t null, size_t map)
{
    hs_snr_vector xy[2];
    double yy[2];
    head_read(c, map, xy, yy);
    for (size_t p = 0; p < 2; p++)
        vector_read(c->words + (2 * null + p) * null_words(maps_of(c)) + PRODUCT_WORDS + map * HEAD_PAIRS,
                    xy[p]);
    return hs_snr_ratio(halves, (const hs_snr_vector *)xy, yy, NULL);
}

static void null_halves_read(const counts *c, size_t null, hs_snr_half ret[2])
{
    for (size_t p = 0; p < 2; p++) {
        half_read(c->words + (2 * null + p) * null_words(maps_of(c)), ret[p].products);
        hs_snr_half_factor(&ret[p]);
    }
}

/* first counts the heads of all nulls. */
static void nulls_find(const counts *c, size_t first, size_t n, double *ret)
{
    hs_snr_half halves[2];
    for (size_t i = first; i < first + n; i++) {
        const size_t null = i / maps_of(c), map = i % maps_of(c);
        if (i == first || map == 0)
            null_halves_read(c, null, halves);
        ret[i - first] = null_ratio(c, halves, null, map);
    }
}

/* ---- arrays ---- */

enum { ARRAY_XX, ARRAY_XY, ARRAY_YY, ARRAY_RATIO, ARRAY_NULL };

static const hs__described_array arrays[] = {
    [ARRAY_XX] = {"snr_xx", "half term term", "pairs",
                  "X'X of the regressions behind the signal-to-noise ratio, of even and odd texts"},
    [ARRAY_XY] = {"snr_xy", "half layer head term", "pairs", "X'y of these regressions"},
    [ARRAY_YY] = {"snr_yy", "half layer head", "pairs", "y'y of these regressions"},
    [ARRAY_RATIO] = {"snr", "layer head", "ratio", "signal-to-noise ratio"},
    [ARRAY_NULL] = {"snr_null", "null layer head", "ratio",
                    "the same with ids in another order and sentences elsewhere"},
};

static size_t list(const void *data, hs_corpus_array *ret)
{
    const counts *c = data;
    const size_t L = c->n_layers, A = c->n_heads;
    const hs_corpus_array shapes[] = {
        [ARRAY_XX] = {.n_axes = 3, .axes = {2, HS_SNR_TERMS, HS_SNR_TERMS}, .is_float = true},
        [ARRAY_XY] = {.n_axes = 4, .axes = {2, L, A, HS_SNR_TERMS}, .is_float = true},
        [ARRAY_YY] = {.n_axes = 3, .axes = {2, L, A}},
        [ARRAY_RATIO] = {.n_axes = 2, .axes = {L, A}, .is_float = true},
        [ARRAY_NULL] = {.n_axes = 3, .axes = {HS_SNR_NULLS, L, A}, .is_float = true},
    };
    for (size_t f = 0; f < HS__N(arrays); f++) {
        ret[f] = shapes[f];
        ret[f].name = arrays[f].name;
        ret[f].field = f;
        ret[f].n_elements = 1;
        for (size_t k = 0; k < ret[f].n_axes; k++)
            ret[f].n_elements *= ret[f].axes[k];
    }
    return HS__N(arrays);
}

/* Returns the first word of element i of an array of sums, within its half. */
static size_t element_word(size_t field, size_t i)
{
    return field == ARRAY_XX   ? 2 * i
           : field == ARRAY_YY ? PRODUCT_WORDS + i * HEAD_WORDS + HEAD_PAIRS
                               : PRODUCT_WORDS + i / HS_SNR_TERMS * HEAD_WORDS + i % HS_SNR_TERMS * 2;
}

static void read(const void *data, const hs_corpus_array *array, size_t first, size_t n, void *ret)
{
    const counts *c = data;
    const size_t n_each = array->n_elements / 2;
    if (array->field == ARRAY_RATIO)
        ratios_find(c, first, n, ret);
    else if (array->field == ARRAY_NULL)
        nulls_find(c, first, n, ret);
    else
        for (size_t i = 0; i < n; i++) {
            const size_t half = (first + i) / n_each, word = element_word(array->field, (first + i) % n_each);
            int64_t words[2];
            words_sum(c, half, word, array->is_float ? 2 : 1, words);
            if (array->is_float)
                ((double *)ret)[i] = hs__real_at(words);
            else
                ((int64_t *)ret)[i] = words[0];
        }
}

/* ---- report.json ---- */

/* The ratios of all heads, and what intervals come from. */
typedef struct ratios {
    const counts *counts;
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
static ratios *ratios_create(const counts *c)
{
    const size_t n = maps_of(c);
    ratios *r = hs_json_memory(1, sizeof *r);
    if (!r)
        return NULL;
    r->counts = c;
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

/* Draws a number of a half, which is real or a count. */
static void number_draw(const ratios *r, size_t half, size_t word, bool is_real, hs_draws ret)
{
    const hs_blocks *blocks = r->counts->blocks;
    const size_t at = 1 + half * half_words(maps_of(r->counts)) + word;
    double by_block[HS_BLOCKS_MAX];
    for (size_t b = 0; b < HS_BLOCKS_MAX; b++) {
        const int64_t *words = blocks->words + b * blocks->n_words + at;
        by_block[b] = is_real ? hs__real_at(words) : (double)words[0];
    }
    hs_bootstrap_draw(&r->bootstrap, by_block, ret);
}

static void halves_draw(ratios *r)
{
    hs_draws draws;
    hs_bootstrap_init(&r->bootstrap, r->counts->blocks, 0);
    for (size_t p = 0; p < 2; p++)
        for (size_t k = 0; k < PRODUCTS; k++) {
            number_draw(r, p, 2 * k, true, draws);
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
    for (size_t p = 0; p < 2; p++)
        for (size_t k = 0; k <= HS_SNR_TERMS; k++)
            number_draw(r, p, PRODUCT_WORDS + map * HEAD_WORDS + 2 * k, k < HS_SNR_TERMS, sums[p][k]);
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
    const size_t n = maps_of(r->counts);
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
        for (size_t map = 0; map < maps_of(r->counts); map++) {
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
    const size_t n = maps_of(r->counts);
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
    ratios *r = data ? ratios_create(data) : NULL;
    if (r && ratios_fill(r)) {
        for (size_t t = 0; t < o.n_thresholds; t++)
            for (size_t map = 0; map < maps_of(r->counts); map++)
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
    .sums = &kind_of_sums,
    .measure = measure,
    .begin = hs__sums_begin,
    .matches = hs__sums_match,
    .worker_create = worker_create,
    .worker_destroy = worker_destroy,
    .start = start,
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
    .section = MEMBER,
    .title = "Signal-to-noise ratio",
    .page = page,
};
