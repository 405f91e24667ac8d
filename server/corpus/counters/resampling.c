/* resampling.c - sums over blocks of neighbouring texts, and the 95 % intervals that follow from them.
 *
 * The blocks are of engine/statistics/blocks.h. Counts are integers and real numbers are in fixed point, so
 * shards merge to the same bytes. Runs of earlier versions lack these sums; one of them that is resumed goes
 * on without. */
#include "server/corpus/counters/resampling.h"

#include "engine/statistics/focal_chance.h"
#include "model/files/json.h"
#include "server/corpus/counters/counter.h"
#include "server/corpus/counters/words.h"
#include "server/corpus/report/html.h"

#include <math.h>
#include <stdlib.h>

/* ---- the words of a block ----
 *
 * The run's sums, those of each layer, then those of each head. A count has one word, a real number two: an
 * integer and a fraction in units of 2^-HS_CHANCE_BITS. */

enum {
    HEAD_REALS = HS__HEAD_FOCAL_SHARE,
    LAYER_REALS = HS__LAYER_SEPARATORS,
    HEAD_WORDS = 2 * HS__HEAD_SUMS - HEAD_REALS,
    LAYER_WORDS = 2 * HS__LAYER_SUMS - LAYER_REALS
};

static size_t block_words(size_t n_layers, size_t n_heads)
{
    return HS__RUN_SUMS + n_layers * LAYER_WORDS + n_layers * n_heads * HEAD_WORDS;
}

static size_t sum_word(size_t sum, size_t first_real)
{
    return sum < first_real ? sum : 2 * sum - first_real;
}

static size_t layer_word(size_t l, hs__layer_sum sum)
{
    return HS__RUN_SUMS + l * LAYER_WORDS + sum_word(sum, LAYER_REALS);
}

static size_t head_word(size_t n_layers, size_t map, hs__head_sum sum)
{
    return HS__RUN_SUMS + n_layers * LAYER_WORDS + map * HEAD_WORDS + sum_word(sum, HEAD_REALS);
}

_Static_assert(HS_CHANCE_BITS == HS__REAL_BITS, "expected numbers are real numbers of a checkpoint");

typedef hs__sums counts;

static hs__sums_size size_of(size_t n_thresholds, size_t n_layers, size_t n_heads)
{
    (void)n_thresholds;
    return (hs__sums_size){.block_words = block_words(n_layers, n_heads)};
}

static const hs__sums_kind kind_of_sums = {
    .member = "resampling", .what = "the sums of blocks", .size = size_of};

/* ---- a run ---- */

static void measure(const hs__corpus_job *job, const void *options, hs__counter_size *size)
{
    const size_t n_layers = job->settings.fields.n_layers, n_heads = hs_engine_shape(job->engine)->n_heads;
    const size_t heads = n_layers * n_heads;
    (void)options;
    hs__sums_measure(&kind_of_sums, job->settings.n_thresholds, n_layers, n_heads, size);
    size->shared += sizeof(hs_bootstrap);
    size->worker += hs_focal_chance_bytes(job->settings.fields.max_tokens);
    size->elements += HS_BLOCKS_MAX * (HS__RUN_SUMS + n_layers * HS__LAYER_SUMS + heads * HS__HEAD_SUMS);
    size->report += heads * 4096; /* intervals, as objects */
    size->report_text += heads * 1024;
}

/* The unit of evenly spread attention over another text. Sums of HS_CORPUS_TEXTS_MAX texts fit. */
#define CROSS_UNIT INT64_C(65536)

typedef struct worker {
    const hs__corpus_job *job;
    size_t n_layers, n_heads, threshold_main;
    const void *chances; /* state of same_distance */
    counts *sums;
    hs_focal_chance *focal;
    int32_t focal_drawn[HS_CORPUS_BATCH][HS_HEADS_MAX]; /* positions, of the current layer's heads */
} worker;

static hs_status worker_create(hs__counting *counting, void *const *states, void **ret, hs_error *err)
{
    const hs_corpus_options *o = counting->statistics;
    const void *chances = states[HS__NUMBER_OF_same_distance];
    if (!*counting->counts || !chances)
        return HS_OK;
    worker *w = *ret = calloc(1, sizeof *w);
    if (w)
        *w = (worker){.job = counting->job,
                      .n_layers = o->n_layers,
                      .n_heads = o->n_heads,
                      .threshold_main = o->threshold_main,
                      .chances = chances,
                      .sums = hs__sums_create_like(*counting->counts, err),
                      .focal = hs_focal_chance_create(o->tokens_max)};
    return w && w->sums && w->focal ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory for a worker");
}

static void worker_destroy(void *state)
{
    worker *w = state;
    hs__sums_destroy(w->sums);
    hs_focal_chance_destroy(w->focal);
    free(w);
}

/* Adds what evenly spread attention would put on separators, sentence ends and commas, of all of it. That of
 * a text over itself is a number of tokens. Over another text it is a fraction, in units of CROSS_UNIT. */
static void spread_add(const hs__corpus_job *job, const hs__text *t, int64_t *words)
{
    const uint8_t *roles = hs__text_keys(job, t)->roles;
    const int64_t rows = (int64_t)(t->end - t->first), keys = (int64_t)(t->key_end - t->key_first);
    int64_t n = 0;
    for (size_t j = t->key_first; j < t->key_end; j++)
        n += roles[j] == HS_ROLE_SEPARATOR || roles[j] == HS_ROLE_SENTENCE_END || roles[j] == HS_ROLE_COMMA;
    const bool crosses = hs__corpus_crosses(job);
    words[HS__RUN_TOKENS] += crosses ? rows * CROSS_UNIT : rows;
    words[HS__RUN_SEPARATORS] += crosses ? (rows * n * CROSS_UNIT + keys / 2) / keys : n;
}

static hs_status start(void *state, hs__text *t, hs_error *err)
{
    const worker *w = state;
    const hs_chance *chance = hs__same_distance_of_worker(w->chances, t->place);
    const int64_t T = (int64_t)(t->end - t->first);
    const hs_corpus_text text = hs__text_counted(t);
    int64_t *words = hs_blocks_at(w->sums->blocks, t->record.number);
    (void)err;
    hs_focal_chance_find(w->focal, t->place, &text);
    words[HS__RUN_TEXTS]++;
    words[HS__RUN_PAIRS] += T * (T - 1) / 2;
    words[HS__RUN_REPEATED] += (int64_t)hs_chance_total(chance, HS_CHANCE_REPEATED);
    words[HS__RUN_SAME_SENTENCE] += (int64_t)hs_chance_total(chance, HS_CHANCE_SAME_SENTENCE);
    words[HS__RUN_BOTH] += (int64_t)hs_chance_total(chance, HS_CHANCE_BOTH);
    words[HS__RUN_DISTANCE] += (T - 1) * T * (T + 1) / 6;
    for (int64_t d = 1; d <= HS_CORPUS_BAND && d < T; d++)
        words[HS__RUN_NEAR] += T - d;
    spread_add(w->job, t, words);
    return HS_OK;
}

/* Returns the number of different focal tokens that the last layer's heads have by chance. */
static int64_t unique_count(const int32_t *positions, size_t n_heads)
{
    int64_t n = 0;
    for (size_t h = 0; h < n_heads; h++) {
        size_t before = 0;
        while (before < h && positions[before] != positions[h])
            before++;
        n += positions[h] >= 0 && before == h;
    }
    return n;
}

static void layer_add(const worker *w, size_t place, int64_t *words, const hs__text_head *head)
{
    const double *mass = head->observation->mass;
    const double separators = mass[HS_ROLE_SEPARATOR] + mass[HS_ROLE_SENTENCE_END] + mass[HS_ROLE_COMMA];
    hs__real_add(words + layer_word(head->l, HS__LAYER_SEPARATORS), separators);
    hs__real_add(words + layer_word(head->l, HS__LAYER_ATTENTION),
                 separators + mass[HS_ROLE_FIRST] + mass[HS_ROLE_OTHER]);
    if (head->h + 1 < w->n_heads)
        return;
    const hs_corpus_layer_observation layer = hs_corpus_batch_layer(head->statistics);
    words[layer_word(head->l, HS__LAYER_UNIQUE_FOCAL)] += (int64_t)layer.unique_focal;
    words[layer_word(head->l, HS__LAYER_UNIQUE_CHANCE)] += unique_count(w->focal_drawn[place], w->n_heads);
    hs__real_add(words + layer_word(head->l, HS__LAYER_NEAR), layer.near);
    hs__real_add(words + layer_word(head->l, HS__LAYER_POSITIVE), layer.all);
}

static void head(void *state, hs__text *t, hs__text_head *head)
{
    worker *w = state;
    const hs_corpus_observation *o = head->observation;
    const uint32_t *distances = hs_corpus_batch_distances(head->statistics, w->threshold_main);
    int64_t *block = hs_blocks_at(w->sums->blocks, t->record.number);
    int64_t *words = block + head_word(w->n_layers, head->map, HS__HEAD_HIGH);
    uint64_t expected[HS_CHANCE_KINDS];
    words[HS__HEAD_HIGH] += (int64_t)o->high_pairs;
    words[HS__HEAD_REPEATED] += (int64_t)o->repeated_pairs;
    words[HS__HEAD_SAME_SENTENCE] += (int64_t)o->same_sentence_pairs;
    words[HS__HEAD_BOTH] += (int64_t)o->both_pairs;
    words[HS__HEAD_DISTANCE] += (int64_t)o->distance_sum;
    words[HS__HEAD_TEXTS_WITH_HIGH] += o->high_pairs > 0;
    words[HS__HEAD_BELOW] += (int64_t)o->below_pairs;
    words[HS__HEAD_MIDDLE] += (int64_t)o->middle_pairs;
    hs__real_add(words + sum_word(HS__HEAD_FOCAL_SHARE, HEAD_REALS), o->focal_ratio);
    hs_chance_expect(hs__same_distance_of_worker(w->chances, t->place), distances, expected);
    for (size_t kind = 0; kind < HS_CHANCE_KINDS; kind++) {
        int64_t *to = words + sum_word(HS__HEAD_EXPECTED_REPEATED + kind, HEAD_REALS);
        to[0] += (int64_t)(expected[kind] >> HS_CHANCE_BITS);
        to[1] += (int64_t)(expected[kind] & ((UINT64_C(1) << HS_CHANCE_BITS) - 1));
    }
    const hs_focal_draw drawn = hs_focal_chance_draw(w->focal, t->place, head->map, o->high_pairs);
    w->focal_drawn[t->place][head->h] = drawn.position;
    hs__real_add(words + sum_word(HS__HEAD_FOCAL_CHANCE, HEAD_REALS), drawn.share);
    layer_add(w, t->place, block, head);
}

static hs_status gather(hs__counting *counting, void *state, hs_error *err)
{
    const worker *w = state;
    (void)err;
    hs__sums_move(*counting->counts, w->sums);
    return HS_OK;
}

static hs_status load(const hs__corpus_results *results, const json_t *checkpoint, void **ret, hs_error *err)
{
    const size_t n_thresholds = hs_corpus_stats_options(results->stats).n_thresholds;
    return hs__sums_load(&kind_of_sums, n_thresholds, results, checkpoint, ret, err);
}

/* ---- draws ---- */

struct hs__resampling {
    const counts *counts;
    hs_bootstrap bootstrap;
};

hs__resampling *hs__resampling_create(const hs__corpus_results *results)
{
    const counts *c = results->counts[HS__NUMBER_OF_resampling];
    hs__resampling *r = c ? hs_json_memory(1, sizeof *r) : NULL;
    if (!r)
        return NULL;
    r->counts = c;
    hs_bootstrap_init(&r->bootstrap, c->blocks, HS__RUN_TEXTS);
    return r;
}

void hs__resampling_destroy(hs__resampling *resampling)
{
    free(resampling);
}

const hs_bootstrap *hs__resampling_bootstrap(const hs__resampling *resampling)
{
    return &resampling->bootstrap;
}

static double sum_at(const counts *c, size_t block, size_t word, bool is_real)
{
    const int64_t *words = c->blocks->words + block * c->blocks->n_words + word;
    return is_real ? hs__real_at(words) : (double)words[0];
}

/* Draws the sum of n numbers in each block, `step` words apart. */
static void words_draw(const hs__resampling *r, size_t word, size_t n, size_t step, bool is_real,
                       hs_draws ret)
{
    double by_block[HS_BLOCKS_MAX] = {0};
    for (size_t b = 0; b < HS_BLOCKS_MAX; b++)
        for (size_t i = 0; i < n; i++)
            by_block[b] += sum_at(r->counts, b, word + i * step, is_real);
    hs_bootstrap_draw(&r->bootstrap, by_block, ret);
}

static void draws_unknown(hs_draws ret)
{
    for (size_t k = 0; k <= HS_BOOTSTRAP_DRAWS; k++)
        ret[k] = NAN;
}

void hs__draw_head(const hs__resampling *r, hs__head_sum sum, size_t l, size_t h, hs_draws ret)
{
    if (!r) {
        draws_unknown(ret);
        return;
    }
    const bool all = h == HS__HEADS_ALL;
    const size_t map = l * r->counts->n_heads + (all ? 0 : h);
    words_draw(r, head_word(r->counts->n_layers, map, sum), all ? r->counts->n_heads : 1, HEAD_WORDS,
               sum >= (int)HEAD_REALS, ret);
}

void hs__draw_layer(const hs__resampling *r, hs__layer_sum sum, size_t l, hs_draws ret)
{
    if (r)
        words_draw(r, layer_word(l, sum), 1, 0, sum >= (int)LAYER_REALS, ret);
    else
        draws_unknown(ret);
}

void hs__draw_run(const hs__resampling *r, hs__run_sum sum, hs_draws ret)
{
    if (r)
        words_draw(r, sum, 1, 0, false, ret);
    else
        draws_unknown(ret);
}

void hs__draws_divide(hs_draws draws, const hs_draws by)
{
    for (size_t k = 0; k <= HS_BOOTSTRAP_DRAWS; k++)
        draws[k] = by[k] > 0 ? draws[k] / by[k] : NAN;
}

/* ---- arrays ---- */

#define RUN   "block"
#define LAYER "block layer"
#define HEAD  "block layer head"

/* In the order of the run's, the layers' and the heads' sums. */
static const hs__described_array arrays[] = {
    {"block_texts", RUN, "texts", "texts of a block of neighbouring texts"},
    {"block_all_pairs", RUN, "pairs", "all_pairs of the block"},
    {"block_all_repeated", RUN, "pairs", "all_repeated of the block"},
    {"block_all_same_sentence", RUN, "pairs", "all_same_sentence of the block"},
    {"block_all_repeated_same_sentence", RUN, "pairs", "all_repeated_same_sentence of the block"},
    {"block_all_distance_sum", RUN, "tokens", "distances of all pairs of the block, summed"},
    {"block_all_near", RUN, "pairs", "pairs of the block within 5 tokens of the diagonal"},
    {"block_tokens", RUN, "tokens", "tokens of the block; of cross heads in 1/65536"},
    {"block_separators", RUN, "tokens",
     "separators, sentence ends and commas among them; of cross heads the attention on them if evenly "
     "spread"},
    {"block_unique_focal_sum", LAYER, "focal tokens",
     "different focal tokens of the heads, summed over texts"},
    {"block_unique_focal_chance_sum", LAYER, "focal tokens", "the same of as many pairs drawn at random"},
    {"block_separator_sum", LAYER, "attention",
     "attention on separators, sentence ends and commas, summed over heads and texts"},
    {"block_attention_sum", LAYER, "attention", "all attention of the block"},
    {"block_near_sum", LAYER, "normalised similarity",
     "normalised similarity summed over heads, its positive part within 5 tokens of the diagonal"},
    {"block_positive_sum", LAYER, "normalised similarity", "the same anywhere"},
    {"block_high", HEAD, "pairs", "high of the block, at the main threshold"},
    {"block_repeated", HEAD, "pairs", "repeated of the block"},
    {"block_same_sentence", HEAD, "pairs", "same_sentence of the block"},
    {"block_repeated_same_sentence", HEAD, "pairs", "repeated_same_sentence of the block"},
    {"block_distance_sum", HEAD, "tokens", "distances of high pairs of the block, summed"},
    {"block_texts_with_high", HEAD, "texts", "texts_with_high of the block"},
    {"block_below", HEAD, "pairs", "all pairs with a normalised similarity below 0.1"},
    {"block_middle", HEAD, "pairs", "all pairs with a normalised similarity from 0.1 to 0.6"},
    {"block_focal_share_sum", HEAD, "share of pairs", "focal_share_sum of the block"},
    {"block_expected_repeated", HEAD, "pairs", "expected_repeated of the block"},
    {"block_expected_same_sentence", HEAD, "pairs", "expected_same_sentence of the block"},
    {"block_expected_repeated_same_sentence", HEAD, "pairs", "expected_repeated_same_sentence of the block"},
    {"block_focal_chance_sum", HEAD, "share of pairs",
     "share with the focal token of as many pairs drawn at random, summed over texts"},
};
_Static_assert(HS__N(arrays) == HS__RUN_SUMS + HS__LAYER_SUMS + HS__HEAD_SUMS, "each sum has an array");

/* Returns the first word of an array in a block, how many words apart its numbers are, and whether they are
 * real. */
static void array_find(const counts *c, size_t field, size_t *ret_word, size_t *ret_step, bool *ret_is_real)
{
    const size_t in_layers = field - HS__RUN_SUMS, in_heads = in_layers - HS__LAYER_SUMS;
    *ret_step = field < HS__RUN_SUMS ? 1 : field < HS__RUN_SUMS + HS__LAYER_SUMS ? LAYER_WORDS : HEAD_WORDS;
    if (field < HS__RUN_SUMS) {
        *ret_word = field;
        *ret_is_real = false;
    } else if (field < HS__RUN_SUMS + HS__LAYER_SUMS) {
        *ret_word = layer_word(0, (hs__layer_sum)in_layers);
        *ret_is_real = in_layers >= LAYER_REALS;
    } else {
        *ret_word = head_word(c->n_layers, 0, (hs__head_sum)in_heads);
        *ret_is_real = in_heads >= HEAD_REALS;
    }
}

static size_t list(const void *data, hs_corpus_array *ret)
{
    const counts *c = data;
    for (size_t field = 0; field < HS__N(arrays); field++) {
        const size_t n_axes = field < HS__RUN_SUMS ? 1 : field < HS__RUN_SUMS + HS__LAYER_SUMS ? 2 : 3;
        size_t word, step;
        ret[field] = (hs_corpus_array){.name = arrays[field].name,
                                       .n_axes = n_axes,
                                       .axes = {HS_BLOCKS_MAX, c->n_layers, c->n_heads},
                                       .n_elements = HS_BLOCKS_MAX * (n_axes > 1 ? c->n_layers : 1) *
                                                     (n_axes > 2 ? c->n_heads : 1),
                                       .field = field};
        array_find(c, field, &word, &step, &ret[field].is_float);
    }
    return HS__N(arrays);
}

static void read(const void *data, const hs_corpus_array *array, size_t first, size_t n, void *ret)
{
    const counts *c = data;
    const size_t n_each = array->n_elements / HS_BLOCKS_MAX;
    size_t word, step;
    bool is_real;
    array_find(c, array->field, &word, &step, &is_real);
    for (size_t i = 0; i < n; i++) {
        const size_t block = (first + i) / n_each, at = word + (first + i) % n_each * step;
        if (is_real)
            ((double *)ret)[i] = sum_at(c, block, at, true);
        else
            ((int64_t *)ret)[i] = c->blocks->words[block * c->blocks->n_words + at];
    }
}

/* ---- intervals of a report ---- */

#define NO_RUN_SUM HS__RUN_SUMS

/* A figure of heads and layers: part / size, divided by that of all pairs if `chance` is one. */
static const struct {
    const char *name;
    hs__head_sum part, size;
    hs__run_sum chance;
    bool is_object; /* of a head: it takes the interval; else `intervals` does */
    bool is_tested; /* against 1 */
} figures[] = {
    {"repeated_share", HS__HEAD_REPEATED, HS__HEAD_HIGH, NO_RUN_SUM, true, false},
    {"same_sentence_share", HS__HEAD_SAME_SENTENCE, HS__HEAD_HIGH, NO_RUN_SUM, true, false},
    {"repeated_same_sentence_share", HS__HEAD_BOTH, HS__HEAD_HIGH, NO_RUN_SUM, false, false},
    {"mean_distance", HS__HEAD_DISTANCE, HS__HEAD_HIGH, NO_RUN_SUM, true, false},
    {"focal_share", HS__HEAD_FOCAL_SHARE, HS__HEAD_TEXTS_WITH_HIGH, NO_RUN_SUM, true, false},
    {"repeated_lift", HS__HEAD_REPEATED, HS__HEAD_HIGH, HS__RUN_REPEATED, false, false},
    {"same_sentence_lift", HS__HEAD_SAME_SENTENCE, HS__HEAD_HIGH, HS__RUN_SAME_SENTENCE, false, false},
    {"repeated_same_sentence_lift", HS__HEAD_BOTH, HS__HEAD_HIGH, HS__RUN_BOTH, false, false},
    {"repeated_lift_same_distance", HS__HEAD_REPEATED, HS__HEAD_EXPECTED_REPEATED, NO_RUN_SUM, false, true},
    {"same_sentence_lift_same_distance", HS__HEAD_SAME_SENTENCE, HS__HEAD_EXPECTED_SAME_SENTENCE, NO_RUN_SUM,
     false, true},
    {"repeated_same_sentence_lift_same_distance", HS__HEAD_BOTH, HS__HEAD_EXPECTED_BOTH, NO_RUN_SUM, false,
     true},
    {"focal_lift", HS__HEAD_FOCAL_SHARE, HS__HEAD_FOCAL_CHANCE, NO_RUN_SUM, false, true},
};

/* Draws figure f of a head, or of a layer. */
static void figure_draw(const hs__resampling *r, size_t f, size_t l, size_t h, hs_draws ret)
{
    hs_draws size, chance, pairs;
    hs__draw_head(r, figures[f].part, l, h, ret);
    hs__draw_head(r, figures[f].size, l, h, size);
    hs__draws_divide(ret, size);
    if (figures[f].chance == NO_RUN_SUM)
        return;
    hs__draw_run(r, figures[f].chance, chance);
    hs__draw_run(r, HS__RUN_PAIRS, pairs);
    hs__draws_divide(chance, pairs);
    hs__draws_divide(ret, chance);
}

static void interval_set(json_t *to, const hs_interval *interval)
{
    json_object_set_new(to, "low", hs__report_number(interval->low));
    json_object_set_new(to, "high", hs__report_number(interval->high));
}

/* Adds the interval of a figure to its object, or to the member `intervals`. Returns the p-value, if it is
 * tested. */
static double interval_add(const hs__resampling *r, size_t f, size_t l, size_t h, json_t *to)
{
    hs_draws draws;
    figure_draw(r, f, l, h, draws);
    const hs_interval interval = hs_bootstrap_interval(&r->bootstrap, draws);
    json_t *object = json_object_get(to, figures[f].name), *intervals = json_object_get(to, "intervals");
    if (!json_is_object(object)) {
        object = json_object();
        json_object_set_new(intervals, figures[f].name, object);
    }
    interval_set(object, &interval);
    return figures[f].is_tested ? hs_bootstrap_p(&r->bootstrap, draws, 1) : NAN;
}

/* Adds the adjusted p-values of figure f. heads: [l][h] of report.json; p: [l][h]. */
static void p_add(const counts *c, size_t f, const json_t *heads, double *p, size_t *scratch)
{
    hs_p_adjust(p, c->n_layers * c->n_heads, scratch);
    for (size_t l = 0; l < c->n_layers; l++)
        for (size_t h = 0; h < c->n_heads; h++) {
            json_t *head = json_array_get(json_array_get(heads, l), h);
            json_t *object = json_object_get(json_object_get(head, "intervals"), figures[f].name);
            json_object_set_new(object, "p_adjusted", hs__report_number(p[l * c->n_heads + h]));
        }
}

static void figure_report(const hs__resampling *r, size_t f, const json_t *heads, const json_t *layers,
                          double *p, size_t *scratch)
{
    const counts *c = r->counts;
    for (size_t l = 0; l < c->n_layers; l++) {
        for (size_t h = 0; h < c->n_heads; h++)
            p[l * c->n_heads + h] = interval_add(r, f, l, h, json_array_get(json_array_get(heads, l), h));
        if (figures[f].part != HS__HEAD_FOCAL_SHARE && figures[f].chance == NO_RUN_SUM)
            (void)interval_add(r, f, l, HS__HEADS_ALL, json_array_get(layers, l));
    }
    if (figures[f].is_tested)
        p_add(c, f, heads, p, scratch);
}

/* Adds the focal share of as many pairs drawn at random. */
static void focal_head_report(const hs__resampling *r, size_t l, size_t h, json_t *head)
{
    hs_draws share, chance, texts;
    hs__draw_head(r, HS__HEAD_FOCAL_SHARE, l, h, share);
    hs__draw_head(r, HS__HEAD_FOCAL_CHANCE, l, h, chance);
    hs__draw_head(r, HS__HEAD_TEXTS_WITH_HIGH, l, h, texts);
    json_object_set_new(json_object_get(head, "focal_share"), "chance",
                        hs__report_number(texts[0] > 0 ? chance[0] / texts[0] : NAN));
    json_object_set_new(head, "focal_lift", hs__report_number(chance[0] > 0 ? share[0] / chance[0] : NAN));
}

/* Adds the interval of the number of different focal tokens, and the number of as many pairs drawn at random.
 */
static void focal_layer_report(const hs__resampling *r, size_t l, json_t *layer)
{
    hs_draws unique, chance, texts;
    json_t *interval = json_object();
    hs__draw_run(r, HS__RUN_TEXTS, texts);
    hs__draw_layer(r, HS__LAYER_UNIQUE_FOCAL, l, unique);
    hs__draw_layer(r, HS__LAYER_UNIQUE_CHANCE, l, chance);
    hs__draws_divide(unique, texts);
    hs__draws_divide(chance, texts);
    const hs_interval found = hs_bootstrap_interval(&r->bootstrap, unique);
    interval_set(interval, &found);
    json_object_set_new(json_object_get(layer, "intervals"), "unique_focal", interval);
    json_object_set_new(layer, "unique_focal_chance", hs__report_number(chance[0]));
}

static void focal_report(const hs__resampling *r, const json_t *heads, const json_t *layers)
{
    for (size_t l = 0; l < r->counts->n_layers; l++) {
        focal_layer_report(r, l, json_array_get(layers, l));
        for (size_t h = 0; h < r->counts->n_heads; h++)
            focal_head_report(r, l, h, json_array_get(json_array_get(heads, l), h));
    }
}

static void intervals_begin(const counts *c, const json_t *heads, const json_t *layers)
{
    for (size_t l = 0; l < c->n_layers; l++) {
        json_object_set_new(json_array_get(layers, l), "intervals", json_object());
        for (size_t h = 0; h < c->n_heads; h++)
            json_object_set_new(json_array_get(json_array_get(heads, l), h), "intervals", json_object());
    }
}

/* Adds intervals to the figures of heads and layers at the main threshold. */
static void report(const hs__corpus_results *results, void *data, json_t *to)
{
    const counts *c = data;
    const size_t t = hs_corpus_stats_options(results->stats).threshold_main;
    hs__resampling *r = hs__resampling_create(results);
    double *p = c ? hs_json_memory(c->n_layers * c->n_heads, sizeof *p) : NULL;
    size_t *scratch = c ? hs_json_memory(c->n_layers * c->n_heads, sizeof *scratch) : NULL;
    if (r && p && scratch) {
        const json_t *heads = json_array_get(json_object_get(to, "head_figures"), t);
        const json_t *layers = json_array_get(json_object_get(to, "layer_figures"), t);
        intervals_begin(c, heads, layers);
        for (size_t f = 0; f < HS__N(figures); f++)
            figure_report(r, f, heads, layers, p, scratch);
        focal_report(r, heads, layers);
        json_object_set_new(to, "blocks", json_integer((json_int_t)r->bootstrap.n_blocks));
    }
    hs__resampling_destroy(r);
    free(p);
    free(scratch);
}

const hs__counter hs__counter_resampling = {
    .name = "resampling",
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
};
