/* resampling.c - sums over blocks of neighbouring texts, and the 95 % intervals that follow from them.
 *
 * The blocks are of engine/statistics/blocks.h. */
#include "server/corpus/counters/resampling.h"

#include "engine/statistics/focal_chance.h"
#include "engine/statistics/gaussian_chance.h"
#include "model/base/bytes.h"
#include "model/files/json.h"
#include "server/corpus/counters/counter.h"
#include "server/corpus/report/html.h"

#include <math.h>
#include <stdlib.h>

/* Texts are counted by a hash of their tokens, so that copies are seen. */
enum { HASHES = 4096 };

#define RUN                                                                                                  \
    {                                                                                                        \
        HS_AXIS_BLOCK                                                                                        \
    }
#define LAYER                                                                                                \
    {                                                                                                        \
        HS_AXIS_BLOCK, HS_AXIS_LAYER                                                                         \
    }
#define HEAD                                                                                                 \
    {                                                                                                        \
        HS_AXIS_BLOCK, HS_AXIS_LAYER, HS_AXIS_HEAD                                                           \
    }
#define COUNTS(sum, name, axes, unit, meaning)                                                               \
    [sum] = {name, axes, unit, meaning, HS_COUNT, HS_EACH_BLOCK, true}
#define REALS(sum, name, axes, unit, meaning)                                                                \
    [sum] = {name, axes, unit, meaning, HS_REAL, HS_EACH_BLOCK, true}

static const hs_array_row rows[HS__SUMS] = {
    COUNTS(HS__RUN_TEXTS, "block_texts", RUN, "texts", "texts of a block of neighbouring texts"),
    COUNTS(HS__RUN_PAIRS, "block_all_pairs", RUN, "pairs", "all_pairs of the block"),
    COUNTS(HS__RUN_ORDINARY, "block_all_ordinary", RUN, "pairs", "all_ordinary of the block"),
    COUNTS(HS__RUN_REPEATED, "block_all_repeated", RUN, "pairs", "all_repeated of the block"),
    COUNTS(HS__RUN_SAME_SENTENCE, "block_all_same_sentence", RUN, "pairs", "all_same_sentence of the block"),
    COUNTS(HS__RUN_BOTH, "block_all_repeated_same_sentence", RUN, "pairs",
           "all_repeated_same_sentence of the block"),
    COUNTS(HS__RUN_DISTANCE, "block_all_distance_sum", RUN, "tokens",
           "distances of all pairs of the block, summed"),
    COUNTS(HS__RUN_NEAR, "block_all_near", RUN, "pairs",
           "pairs of the block within 5 tokens of the diagonal"),
    COUNTS(HS__RUN_GAUSSIAN, "block_all_gaussian_below", RUN, "pairs",
           "pairs with a normalised similarity below 0.1, had each text Gaussian outputs"),
    COUNTS(HS__RUN_TOKENS, "block_tokens", RUN, "tokens", "tokens of the block; of cross heads in 1/65536"),
    COUNTS(HS__RUN_SEPARATORS, "block_separators", RUN, "tokens",
           "separators, sentence ends and commas among them; of cross heads the attention on them if evenly "
           "spread"),
    COUNTS(HS__LAYER_UNIQUE_FOCAL, "block_unique_focal_sum", LAYER, "focal tokens",
           "different focal tokens of the heads, summed over texts"),
    COUNTS(HS__LAYER_UNIQUE_CHANCE, "block_unique_focal_chance_sum", LAYER, "focal tokens",
           "the same of as many pairs drawn at random"),
    REALS(HS__LAYER_SEPARATORS, "block_separator_sum", LAYER, "attention",
          "attention on separators, sentence ends and commas, summed over heads and texts"),
    REALS(HS__LAYER_ATTENTION, "block_attention_sum", LAYER, "attention", "all attention of the block"),
    REALS(HS__LAYER_NEAR, "block_near_sum", LAYER, "normalised similarity",
          "normalised similarity summed over heads, its positive part within 5 tokens of the diagonal"),
    REALS(HS__LAYER_POSITIVE, "block_positive_sum", LAYER, "normalised similarity", "the same anywhere"),
    COUNTS(HS__HEAD_HIGH, "block_high", HEAD, "pairs", "high of the block, at the main threshold"),
    COUNTS(HS__HEAD_ORDINARY, "block_high_ordinary", HEAD, "pairs", "high_ordinary of the block"),
    COUNTS(HS__HEAD_REPEATED, "block_repeated", HEAD, "pairs", "repeated of the block"),
    COUNTS(HS__HEAD_SAME_SENTENCE, "block_same_sentence", HEAD, "pairs", "same_sentence of the block"),
    COUNTS(HS__HEAD_BOTH, "block_repeated_same_sentence", HEAD, "pairs",
           "repeated_same_sentence of the block"),
    COUNTS(HS__HEAD_DISTANCE, "block_distance_sum", HEAD, "tokens",
           "distances of high pairs of the block, summed"),
    COUNTS(HS__HEAD_TEXTS_WITH_HIGH, "block_texts_with_high", HEAD, "texts", "texts_with_high of the block"),
    COUNTS(HS__HEAD_BELOW, "block_below", HEAD, "pairs", "all pairs with a normalised similarity below 0.1"),
    COUNTS(HS__HEAD_MIDDLE, "block_middle", HEAD, "pairs",
           "all pairs with a normalised similarity from 0.1 to 0.6"),
    REALS(HS__HEAD_FOCAL_SHARE, "block_focal_share_sum", HEAD, "share of pairs",
          "focal_share_sum of the block"),
    REALS(HS__HEAD_EXPECTED_REPEATED, "block_expected_repeated", HEAD, "pairs",
          "expected_repeated of the block"),
    REALS(HS__HEAD_EXPECTED_SAME_SENTENCE, "block_expected_same_sentence", HEAD, "pairs",
          "expected_same_sentence of the block"),
    REALS(HS__HEAD_EXPECTED_BOTH, "block_expected_repeated_same_sentence", HEAD, "pairs",
          "expected_repeated_same_sentence of the block"),
    REALS(HS__HEAD_FOCAL_CHANCE, "block_focal_chance_sum", HEAD, "share of pairs",
          "share with the focal token of as many pairs drawn at random, summed over texts"),
    [HS__TEXTS_BY_HASH] = {NULL, {{"hash", HASHES}}, "texts", "texts by a hash of their tokens"},
};

static const hs_sums_kind kind_of_sums = {
    .member = "resampling", .what = "the sums of blocks", .rows = rows, .n_rows = HS__N(rows)};

const hs_sums_kind hs__untrained_sums = {.member = "untrained",
                                         .what = "the sums of the untrained network",
                                         .rows = rows,
                                         .n_rows = HS__N(rows),
                                         .hidden = true};

const hs_sums_kind hs__longest_sums = {.member = "longest_pairs",
                                       .what = "the sums of the longest outputs",
                                       .rows = rows,
                                       .n_rows = HS__N(rows),
                                       .hidden = true};

/* ---- a run ---- */

/* Returns how many numbers a head's output has. */
static size_t head_width(const hs__corpus_job *job)
{
    return hs_engine_shape(job->engine)->head_width;
}

static void measure(const hs__corpus_job *job, const void *options, hs__counter_size *size)
{
    const size_t heads = hs__corpus_maps(job);
    (void)options;
    size->shared += sizeof(hs_bootstrap);
    size->worker += hs_focal_chance_bytes(job->settings.fields.max_tokens) +
                    hs_gaussian_bytes(job->settings.fields.max_tokens, head_width(job));
    size->report += heads * 4096; /* intervals, as objects */
    size->report_text += heads * 1024;
}

/* The unit of evenly spread attention over another text. Sums of HS_CORPUS_TEXTS_MAX texts fit. */
#define CROSS_UNIT INT64_C(65536)

typedef struct worker {
    hs__tally tally;
    const void *chances; /* state of same_distance */
    hs_focal_chance *focal;
    float *gaussian;                                    /* [hs_gaussian_bytes] */
    int32_t focal_drawn[HS_CORPUS_BATCH][HS_HEADS_MAX]; /* positions, of the current layer's heads */
} worker;

static hs_status worker_begin(void *state, void *const *states, hs_error *err)
{
    worker *w = state;
    w->chances = states[HS__NUMBER_OF_same_distance];
    w->focal = hs_focal_chance_create(w->tally.counting->statistics->tokens_max);
    w->gaussian = malloc(
        hs_gaussian_bytes(w->tally.counting->statistics->tokens_max, head_width(w->tally.counting->job)));
    return w->focal && w->gaussian ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory for a worker");
}

static void worker_end(void *state)
{
    worker *w = state;
    hs_focal_chance_destroy(w->focal);
    free(w->gaussian);
}

/* ---- what a text and its heads add ---- */

/* The sums of a block. */
typedef struct block_sums {
    const hs_sums *sums;
    int64_t *words;
} block_sums;

static block_sums block_of(hs_sums *sums, const hs__text *t)
{
    return (block_sums){sums, hs_blocks_at(sums->blocks, t->record.number)};
}

/* Returns the words of a sum: of the run, or of layer or head number `at`. */
static int64_t *words_of(block_sums block, hs__sum sum, size_t at)
{
    return block.words + block.sums->firsts[sum] + (rows[sum].kind == HS_COUNT ? at : 2 * at);
}

/* Adds what evenly spread attention would put on separators, sentence ends and commas, of all of it. That of
 * a text over itself is a number of tokens. Over another text it is a fraction, in units of CROSS_UNIT. */
static void spread_add(const hs__corpus_job *job, const hs__text *t, block_sums block)
{
    const uint8_t *roles = hs__text_keys(job, t)->roles;
    const int64_t queries = (int64_t)(t->end - t->first), keys = (int64_t)(t->key_end - t->key_first);
    int64_t n = 0;
    for (size_t j = t->key_first; j < t->key_end; j++)
        n += roles[j] == HS_ROLE_SEPARATOR || roles[j] == HS_ROLE_SENTENCE_END || roles[j] == HS_ROLE_COMMA;
    const bool crosses = hs__corpus_crosses(job);
    *words_of(block, HS__RUN_TOKENS, 0) += crosses ? queries * CROSS_UNIT : queries;
    *words_of(block, HS__RUN_SEPARATORS, 0) += crosses ? (queries * n * CROSS_UNIT + keys / 2) / keys : n;
}

static size_t hash_of(const hs_corpus_text *text)
{
    uint64_t state = 0;
    for (size_t i = 0; i < text->n_tokens; i++)
        state = hs_mix(state + (uint64_t)text->ids[i] + HS_MIX_STEP);
    return state % HASHES;
}

/* Returns the number of tokens that are not special. */
static size_t ordinary_count(const hs_corpus_text *text)
{
    size_t n = 0;
    for (size_t i = 0; i < text->n_tokens; i++)
        n += !text->special[i];
    return n;
}

void hs__block_text_add(hs_sums *sums, const hs_chance *chance, const hs__text *t)
{
    const int64_t T = (int64_t)(t->end - t->first);
    const hs_corpus_text text = hs__text_counted(t);
    const block_sums block = block_of(sums, t);
    ++*words_of(block, HS__RUN_TEXTS, 0);
    *words_of(block, HS__RUN_PAIRS, 0) += (int64_t)hs_pairs_of(text.n_tokens);
    *words_of(block, HS__RUN_ORDINARY, 0) += (int64_t)hs_pairs_of(ordinary_count(&text));
    *words_of(block, HS__RUN_REPEATED, 0) += (int64_t)hs_chance_total(chance, HS_CHANCE_REPEATED);
    *words_of(block, HS__RUN_SAME_SENTENCE, 0) += (int64_t)hs_chance_total(chance, HS_CHANCE_SAME_SENTENCE);
    *words_of(block, HS__RUN_BOTH, 0) += (int64_t)hs_chance_total(chance, HS_CHANCE_BOTH);
    *words_of(block, HS__RUN_DISTANCE, 0) += (T - 1) * T * (T + 1) / 6;
    for (int64_t d = 1; d <= HS_CORPUS_BAND && d < T; d++)
        *words_of(block, HS__RUN_NEAR, 0) += T - d;
    if (!t->window)
        hs_sums_at(sums, HS__TEXTS_BY_HASH)[hash_of(&text)]++;
}

hs__block_head hs__block_head_of(const hs__text_head *head, size_t n_heads)
{
    const size_t main = hs_corpus_stats_options(head->statistics).threshold_main;
    const bool is_last = head->h + 1 == n_heads;
    return (hs__block_head){.l = head->l,
                            .map = head->map,
                            .observation = head->observation,
                            .distances = hs_corpus_batch_distances(head->statistics, main),
                            .ordinary = hs_corpus_batch_ordinary(head->statistics, main),
                            .ends_layer = is_last,
                            .layer = is_last ? hs_corpus_batch_layer(head->statistics)
                                             : (hs_corpus_layer_observation){0}};
}

static void layer_add(block_sums block, const hs__block_head *head)
{
    const double *mass = head->observation->mass;
    const double separators = mass[HS_ROLE_SEPARATOR] + mass[HS_ROLE_SENTENCE_END] + mass[HS_ROLE_COMMA];
    const size_t l = head->l;
    hs_real_add(words_of(block, HS__LAYER_SEPARATORS, l), separators);
    hs_real_add(words_of(block, HS__LAYER_ATTENTION, l),
                separators + mass[HS_ROLE_FIRST] + mass[HS_ROLE_OTHER]);
    if (!head->ends_layer)
        return;
    *words_of(block, HS__LAYER_UNIQUE_FOCAL, l) += (int64_t)head->layer.unique_focal;
    hs_real_add(words_of(block, HS__LAYER_NEAR, l), head->layer.near);
    hs_real_add(words_of(block, HS__LAYER_POSITIVE, l), head->layer.all);
}

void hs__block_head_add(hs_sums *sums, const hs_chance *chance, const hs__text *t, const hs__block_head *head)
{
    const hs_corpus_observation *o = head->observation;
    const size_t map = head->map;
    const block_sums block = block_of(sums, t);
    uint64_t expected[HS_CHANCE_KINDS];
    *words_of(block, HS__HEAD_HIGH, map) += (int64_t)o->high_pairs;
    *words_of(block, HS__HEAD_ORDINARY, map) += (int64_t)o->ordinary_pairs;
    *words_of(block, HS__HEAD_REPEATED, map) += (int64_t)o->repeated_pairs;
    *words_of(block, HS__HEAD_SAME_SENTENCE, map) += (int64_t)o->same_sentence_pairs;
    *words_of(block, HS__HEAD_BOTH, map) += (int64_t)o->both_pairs;
    *words_of(block, HS__HEAD_DISTANCE, map) += (int64_t)o->distance_sum;
    *words_of(block, HS__HEAD_TEXTS_WITH_HIGH, map) += o->high_pairs > 0;
    *words_of(block, HS__HEAD_BELOW, map) += (int64_t)o->below_pairs;
    *words_of(block, HS__HEAD_MIDDLE, map) += (int64_t)o->middle_pairs;
    hs_real_add(words_of(block, HS__HEAD_FOCAL_SHARE, map), o->focal_ratio);
    hs_chance_expect(chance, head->distances, head->ordinary, expected);
    for (size_t kind = 0; kind < HS_CHANCE_KINDS; kind++)
        hs_chance_add(words_of(block, (hs__sum)(HS__HEAD_EXPECTED_REPEATED + kind), map), expected[kind]);
    layer_add(block, head);
}

/* ---- the model's own heads, and what chance gives ---- */

static hs_status start(void *state, hs__text *t, hs_error *err)
{
    const worker *w = state;
    const hs__corpus_job *job = w->tally.counting->job;
    const hs_corpus_text text = hs__text_counted(t);
    const block_sums block = block_of(w->tally.sums, t);
    (void)err;
    hs_focal_chance_find(w->focal, t->place, &text);
    hs__block_text_add(w->tally.sums, hs__same_distance_of_worker(w->chances, t->place), t);
    *words_of(block, HS__RUN_GAUSSIAN, 0) +=
        (int64_t)hs_gaussian_below(text.number, text.n_tokens, head_width(job),
                                   job->settings.fields.similarity.centered, 0.1f, w->gaussian);
    spread_add(job, t, block);
    return HS_OK;
}

size_t hs__unique_count(const int32_t *positions, size_t n_heads)
{
    size_t n = 0;
    for (size_t h = 0; h < n_heads; h++) {
        size_t before = 0;
        while (before < h && positions[before] != positions[h])
            before++;
        n += positions[h] >= 0 && before == h;
    }
    return n;
}

static void head(void *state, hs__text *t, hs__text_head *head)
{
    worker *w = state;
    hs_sums *sums = w->tally.sums;
    const size_t n_heads = sums->lengths[HS_HEADS];
    const block_sums block = block_of(sums, t);
    const hs__block_head own = hs__block_head_of(head, n_heads);
    hs__block_head_add(sums, hs__same_distance_of_worker(w->chances, t->place), t, &own);
    const hs_focal_draw drawn =
        hs_focal_chance_draw(w->focal, t->place, head->map, head->observation->high_pairs);
    w->focal_drawn[t->place][head->h] = drawn.position;
    hs_real_add(words_of(block, HS__HEAD_FOCAL_CHANCE, head->map), drawn.share);
    if (own.ends_layer)
        *words_of(block, HS__LAYER_UNIQUE_CHANCE, head->l) +=
            (int64_t)hs__unique_count(w->focal_drawn[t->place], n_heads);
}

/* ---- draws ---- */

struct hs__resampling {
    const hs_sums *counts;
    hs_bootstrap bootstrap;
};

static size_t different_count(const hs_sums *counts)
{
    size_t n = 0;
    for (size_t k = 0; k < HASHES; k++)
        n += hs_sums_at(counts, HS__TEXTS_BY_HASH)[k] != 0;
    return n;
}

size_t hs__different_texts(const hs__corpus_results *results)
{
    const hs_sums *counts = results->counts[HS__NUMBER_OF_resampling];
    return counts ? different_count(counts) : SIZE_MAX;
}

hs__resampling *hs__resampling_create(const hs_sums *counts)
{
    hs__resampling *r = counts ? hs_json_memory(1, sizeof *r) : NULL;
    if (!r)
        return NULL;
    r->counts = counts;
    hs_bootstrap_init(&r->bootstrap, counts->blocks, counts->firsts[HS__RUN_TEXTS], different_count(counts));
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

static void draws_unknown(hs_draws ret)
{
    for (size_t k = 0; k <= HS_BOOTSTRAP_DRAWS; k++)
        ret[k] = NAN;
}

void hs__draw_head(const hs__resampling *r, hs__sum sum, size_t l, size_t h, hs_draws ret)
{
    if (!r) {
        draws_unknown(ret);
        return;
    }
    const bool all = h == HS__HEADS_ALL;
    const size_t n_heads = r->counts->lengths[HS_HEADS];
    hs_sums_draw(r->counts, &r->bootstrap, sum, l * n_heads + (all ? 0 : h), all ? n_heads : 1, ret);
}

void hs__draw_layer(const hs__resampling *r, hs__sum sum, size_t l, hs_draws ret)
{
    if (r)
        hs_sums_draw(r->counts, &r->bootstrap, sum, l, 1, ret);
    else
        draws_unknown(ret);
}

void hs__draw_run(const hs__resampling *r, hs__sum sum, hs_draws ret)
{
    if (r)
        hs_sums_draw(r->counts, &r->bootstrap, sum, 0, 1, ret);
    else
        draws_unknown(ret);
}

void hs__draws_divide(hs_draws draws, const hs_draws by)
{
    for (size_t k = 0; k <= HS_BOOTSTRAP_DRAWS; k++)
        draws[k] = by[k] > 0 ? draws[k] / by[k] : NAN;
}

/* ---- intervals of a report ---- */

#define NO_RUN_SUM HS__SUMS

/* A figure of heads and layers: part / size, divided by that of all pairs if `chance` is one. */
static const struct {
    const char *name;
    hs__sum part, size, chance;
    bool is_object; /* of a head: it takes the interval; else `intervals` does */
    bool is_tested; /* against 1 */
} figures[] = {
    {"repeated_share", HS__HEAD_REPEATED, HS__HEAD_HIGH, NO_RUN_SUM, true, false},
    {"same_sentence_share", HS__HEAD_SAME_SENTENCE, HS__HEAD_ORDINARY, NO_RUN_SUM, true, false},
    {"repeated_same_sentence_share", HS__HEAD_BOTH, HS__HEAD_ORDINARY, NO_RUN_SUM, false, false},
    {"mean_distance", HS__HEAD_DISTANCE, HS__HEAD_HIGH, NO_RUN_SUM, true, false},
    {"focal_share", HS__HEAD_FOCAL_SHARE, HS__HEAD_TEXTS_WITH_HIGH, NO_RUN_SUM, true, false},
    {"repeated_lift", HS__HEAD_REPEATED, HS__HEAD_HIGH, HS__RUN_REPEATED, false, false},
    {"same_sentence_lift", HS__HEAD_SAME_SENTENCE, HS__HEAD_ORDINARY, HS__RUN_SAME_SENTENCE, false, false},
    {"repeated_same_sentence_lift", HS__HEAD_BOTH, HS__HEAD_ORDINARY, HS__RUN_BOTH, false, false},
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
    hs__draw_run(r, figures[f].size == HS__HEAD_ORDINARY ? HS__RUN_ORDINARY : HS__RUN_PAIRS, pairs);
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
static void p_add(const hs_sums *c, size_t f, const json_t *heads, double *p, size_t *scratch)
{
    hs_p_adjust(p, hs_sums_maps(c), scratch);
    for (size_t l = 0; l < c->lengths[HS_LAYERS]; l++)
        for (size_t h = 0; h < c->lengths[HS_HEADS]; h++) {
            json_t *head = json_array_get(json_array_get(heads, l), h);
            json_t *object = json_object_get(json_object_get(head, "intervals"), figures[f].name);
            json_object_set_new(object, "p_adjusted", hs__report_number(p[l * c->lengths[HS_HEADS] + h]));
        }
}

static void figure_report(const hs__resampling *r, size_t f, const json_t *heads, const json_t *layers,
                          double *p, size_t *scratch)
{
    const hs_sums *c = r->counts;
    for (size_t l = 0; l < c->lengths[HS_LAYERS]; l++) {
        for (size_t h = 0; h < c->lengths[HS_HEADS]; h++)
            p[l * c->lengths[HS_HEADS] + h] =
                interval_add(r, f, l, h, json_array_get(json_array_get(heads, l), h));
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
    for (size_t l = 0; l < r->counts->lengths[HS_LAYERS]; l++) {
        focal_layer_report(r, l, json_array_get(layers, l));
        for (size_t h = 0; h < r->counts->lengths[HS_HEADS]; h++)
            focal_head_report(r, l, h, json_array_get(json_array_get(heads, l), h));
    }
}

static void intervals_begin(const hs_sums *c, const json_t *heads, const json_t *layers)
{
    for (size_t l = 0; l < c->lengths[HS_LAYERS]; l++) {
        json_object_set_new(json_array_get(layers, l), "intervals", json_object());
        for (size_t h = 0; h < c->lengths[HS_HEADS]; h++)
            json_object_set_new(json_array_get(json_array_get(heads, l), h), "intervals", json_object());
    }
}

/* Adds intervals to the figures of heads and layers at the main threshold. */
static void report(const hs__corpus_results *results, void *data, json_t *to)
{
    const hs_sums *c = data;
    const size_t t = hs_corpus_stats_options(results->stats).threshold_main;
    hs__resampling *r = hs__resampling_create(c);
    double *p = c ? hs_json_memory(hs_sums_maps(c), sizeof *p) : NULL;
    size_t *scratch = c ? hs_json_memory(hs_sums_maps(c), sizeof *scratch) : NULL;
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
    .worker_bytes = sizeof(worker),
    .worker_begin = worker_begin,
    .worker_end = worker_end,
    .start = start,
    .head = head,
    .report = report,
};
