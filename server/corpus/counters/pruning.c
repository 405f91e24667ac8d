/* pruning.c - the pruning curve: how the loss rises as heads are switched off in the order of a ranking.
 *
 * A hash of a text's number decides whether it is kept for the curve, so the choice does not depend on
 * workers or shards. Once all texts are counted, further passes over those kept rank the heads and measure
 * the loss (pruning_passes.h). Each shard has rankings of its own; merging adds up the losses and the ranks.
 */
#include "server/corpus/counters/pruning.h"
#include "api/figures/figure.h"
#include "model/base/bytes.h"
#include "model/files/json.h"
#include "server/base/system_errors.h"
#include "server/corpus/counters/head_importance.h"
#include "server/corpus/counters/words.h"
#include "server/corpus/report/html.h"
#include "server/corpus/report/report_value.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define MEMBER "pruning"

enum { TEXTS_MAX = 64 };

static const char *const ranking_names[HS__PRUNING_RANKINGS] = {
    [HS__PRUNING_SNR] = "snr",   [HS__PRUNING_EFFECT] = "effect", [HS__PRUNING_ENTROPY] = "entropy",
    [HS__PRUNING_NORM] = "norm", [HS__PRUNING_RANDOM] = "random", [HS__PRUNING_IMPORTANCE] = "importance",
};
static const char *const kind_names[HS__PRUNING_KINDS] = {"zero", "mean"};

/* ---- settings ---- */

typedef struct options {
    float share; /* fraction of texts that are kept; 0: no curve */
} options;

static hs_status read_share(const char *text, const hs_model *model, hs__corpus_settings *settings, void *ret,
                            hs_error *err)
{
    options *o = ret;
    const hs_status st = hs__fraction_read(text, &o->share, err);
    if (!st && o->share > 0 && !hs__predicts(model, settings))
        return hs_fail(err, HS_INVALID, "0: this model predicts no tokens, and there is no label_field");
    return st;
}

static const hs__setting_row settings[] = {
    {.field = {"pruning_share", HS_FIELD_TEXT, "SHARE",
               "fraction of texts, 64 at most, for the loss with heads off (0)"},
     .part = HS__SETTINGS_OF_COUNTERS,
     .read = read_share,
     .default_json = "0.0"},
};

static bool is_active(const json_t *identity)
{
    return json_object_get(identity, "pruning_share");
}

static void identify(const void *data, const hs__corpus_settings *all, json_t *identity)
{
    const options *o = data;
    (void)all;
    if (o && o->share > 0)
        json_object_set_new(identity, "pruning_share", json_real(hs__report_decimal(o->share)));
}

static void measure(const hs__corpus_job *job, const void *data, hs__counter_size *size)
{
    const uint64_t T = job->settings.fields.max_tokens, words = hs__pruning_words(hs__corpus_maps(job));
    (void)data;
    if (hs__importance_is_set(job))
        size->shared += hs__importance_bytes(job);
    size->shared += hs__pruning_bytes(job) + TEXTS_MAX * T * 32 + words * sizeof(int64_t);
    size->saved += 3 * TEXTS_MAX * T;
    size->saved_words += words;
    size->elements += words;
    size->listed += words;
    size->report += 1 << 20;
    size->report_text += 1 << 16;
}

/* ---- counts ---- */

typedef struct counts {
    pthread_mutex_t lock; /* of the texts */
    size_t n_texts;
    hs__predicted_text texts[TEXTS_MAX]; /* by hash, ascending */
    hs__predicted measure;
    size_t n_layers, n_heads;
    hs__pruning_curve curve; /* zeros until the run is complete */
} counts;

static void destroy(void *data)
{
    counts *c = data;
    for (size_t i = 0; i < c->n_texts; i++)
        hs__predicted_text_finish(&c->texts[i]);
    free(c->curve.words);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

static counts *counts_create(const json_t *identity, size_t n_layers, size_t n_heads, hs__predicted kind,
                             hs_error *err)
{
    const size_t n_maps = n_layers * n_heads;
    counts *c = calloc(1, sizeof *c);
    int64_t *words = calloc(hs__pruning_words(n_maps), sizeof *words);
    if (!c || !words || pthread_mutex_init(&c->lock, NULL)) {
        free(c);
        free(words);
        hs_fail(err, HS_NO_MEMORY, "no memory for the pruning curve");
        return NULL;
    }
    c->n_layers = n_layers;
    c->n_heads = n_heads;
    c->measure = kind;
    c->curve.n_maps = n_maps;
    c->curve.n_rankings = HS__PRUNING_RANKINGS - !hs__importance_is_on(identity);
    c->curve.words = words;
    c->curve.n_points = hs__pruning_points(n_maps, c->curve.points);
    return c;
}

static hs_status begin(hs__counting *counting, bool anew, hs_error *err)
{
    const hs__corpus_job *job = counting->job;
    if (!anew)
        return HS_OK;
    *counting->counts = counts_create(counting->results->identity, job->settings.fields.n_layers,
                                      hs_engine_shape(job->engine)->n_heads, hs__predicted_of(job), err);
    return *counting->counts ? HS_OK : HS_NO_MEMORY;
}

static bool matches(const hs__counting *counting)
{
    const counts *c = *counting->counts;
    const size_t n_classes = hs_engine_architecture(counting->job->engine)->task_head.n_classes;
    bool same = c && c->measure == hs__predicted_of(counting->job);
    for (size_t i = 0; same && i < c->n_texts; i++)
        same = c->measure != HS__PREDICTED_CLASS || c->texts[i].label < n_classes;
    return same;
}

/* ---- the texts that are kept ---- */

static bool wants(const counts *c, const options *o, uint64_t number)
{
    return hs_fraction_of(hs__predicted_hash(number)) < (double)o->share &&
           (c->n_texts < TEXTS_MAX ||
            hs__predicted_hash(number) < hs__predicted_hash(c->texts[c->n_texts - 1].number));
}

static bool is_kept(const counts *c, uint64_t number)
{
    for (size_t i = 0; i < c->n_texts; i++)
        if (c->texts[i].number == number)
            return true;
    return false;
}

/* Takes ownership of the text. */
static void text_keep(counts *c, hs__predicted_text *text)
{
    size_t at = c->n_texts;
    if (at == TEXTS_MAX)
        hs__predicted_text_finish(&c->texts[--at]);
    for (; at && hs__predicted_hash(c->texts[at - 1].number) > hs__predicted_hash(text->number); at--)
        c->texts[at] = c->texts[at - 1];
    c->texts[at] = *text;
    c->n_texts += c->n_texts < TEXTS_MAX;
}

static hs_status text_add(counts *c, const options *o, const hs__text *t, hs_error *err)
{
    hs__predicted_text text = {0};
    hs_status st = HS_OK;
    pthread_mutex_lock(&c->lock);
    if (wants(c, o, hs__text_number(t)) && !is_kept(c, hs__text_number(t))) {
        st = hs__predicted_text_copy(t, c->measure, &text, err);
        if (!st && hs__predicted_text_is_useful(&text, c->measure)) {
            text_keep(c, &text);
            text = (hs__predicted_text){0};
        }
    }
    pthread_mutex_unlock(&c->lock);
    hs__predicted_text_finish(&text);
    return st;
}

static hs_status pass(void *state, hs__text_pass *p, hs_error *err)
{
    const hs__tally *tally = state;
    hs_status st = HS_OK;
    for (size_t k = 0; k < p->n && !st; k++)
        st = text_add(*tally->counting->counts, tally->counting->options, &p->texts[k], err);
    return st;
}

/* ---- the passes, once all texts are counted ---- */

typedef struct last_passes {
    hs__pruning_job of;
    hs__pruning_curve *curve;
    hs_workspace *ws;
    hs_error *err;
    hs_status st;
} last_passes;

/* Thread function: a thread of its own can have the priority of the workers. */
static void *passes_main(void *data)
{
    last_passes *p = data;
    if (p->of.job->yielding)
        (void)sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0});
    p->st = hs__pruning_compute(&p->of, p->ws, p->curve, p->err);
    return NULL;
}

/* Reads the signal-to-noise ratios of the run. */
static void snr_read(const hs__corpus_results *results, double *ret)
{
    const void *from = results->counts[HS__NUMBER_OF_signal_noise];
    hs_corpus_array arrays[HS__COUNTER_ARRAYS_MAX];
    const size_t n = hs__counter_arrays(&hs__counter_signal_noise, from, arrays);
    for (size_t k = 0; k < n; k++)
        if (strcmp(arrays[k].name, "snr") == 0)
            hs__counter_array_read(&hs__counter_signal_noise, from, &arrays[k], 0, arrays[k].n_elements, ret);
}

static hs_status complete(hs__counting *counting, hs_workspace *ws, hs_error *err)
{
    counts *c = *counting->counts;
    pthread_t thread;
    if (!c || c->n_texts < 2)
        return HS_OK;
    double *snr = calloc(c->curve.n_maps, sizeof *snr);
    if (!snr)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the pruning curve");
    snr_read(counting->results, snr);
    last_passes p = {{counting->job, c->measure, c->texts, c->n_texts, snr}, &c->curve, ws, err, HS_OK};
    const int why = pthread_create(&thread, NULL, passes_main, &p);
    if (why)
        p.st = hs_fail(err, HS_NO_MEMORY, "no thread for the pruning curve: %s", hs__errno_text(why));
    else
        pthread_join(thread, NULL);
    if (p.st)
        memset(c->curve.words, 0, hs__pruning_words(c->curve.n_maps) * sizeof *c->curve.words);
    free(snr);
    return p.st;
}

/* ---- checkpoint ---- */

static json_t *text_json(const hs__predicted_text *text)
{
    json_t *ids = json_array(), *types = json_array(), *positions = json_array();
    for (size_t i = 0; i < text->n_tokens; i++) {
        json_array_append_new(ids, json_integer(text->ids[i]));
        json_array_append_new(types, json_integer(text->types[i]));
    }
    for (size_t i = 0; i < text->n_positions; i++)
        json_array_append_new(positions, json_integer((json_int_t)text->positions[i]));
    return json_pack("{sI sI so so so}", "number", (json_int_t)text->number, "label", (json_int_t)text->label,
                     "ids", ids, "types", types, "positions", positions);
}

static hs_status save(const hs__corpus_results *results, void *data, json_t *checkpoint, hs_error *err)
{
    counts *c = data;
    json_t *texts = c ? json_array() : NULL;
    (void)results;
    if (!c)
        return HS_OK;
    for (size_t i = 0; i < c->n_texts; i++)
        json_array_append_new(texts, text_json(&c->texts[i]));
    json_t *saved = json_pack("{sI so so}", "measure", (json_int_t)c->measure, "texts", texts, "words",
                              hs__words_save(c->curve.words, hs__pruning_words(c->curve.n_maps)));
    return json_object_set_new(checkpoint, MEMBER, saved)
               ? hs_fail(err, HS_NO_MEMORY, "no memory to save the run")
               : HS_OK;
}

/* Reads element i of a list: an integer from 0 to below `end`. */
static bool integer_read(const json_t *list, size_t i, uint64_t end, uint64_t *ret)
{
    const json_t *value = json_array_get(list, i);
    *ret = (uint64_t)json_integer_value(value);
    return json_is_integer(value) && json_integer_value(value) >= 0 && *ret < end;
}

static bool lists_read(hs__predicted_text *text, const json_t *ids, const json_t *types,
                       const json_t *positions, const hs_corpus_options *o)
{
    uint64_t id = 0, type = 0, position = 0, last = 0;
    bool ok = true;
    for (size_t i = 0; i < text->n_tokens && ok; i++) {
        ok = integer_read(ids, i, o->vocab_size, &id) && integer_read(types, i, 256, &type);
        text->ids[i] = (int32_t)id;
        text->types[i] = (uint8_t)type;
    }
    for (size_t i = 0; i < text->n_positions && ok; i++) {
        ok = integer_read(positions, i, text->n_tokens, &position) && (i == 0 || position > last);
        text->positions[i] = (size_t)position;
        last = position;
    }
    return ok;
}

static bool text_load(counts *c, const json_t *saved, const hs_corpus_options *o)
{
    json_int_t number, label;
    json_t *ids, *types, *positions;
    if (json_unpack((json_t *)saved, "{sI sI so so so}", "number", &number, "label", &label, "ids", &ids,
                    "types", &types, "positions", &positions) ||
        number < 0 || label < 0 || json_array_size(ids) > o->tokens_max ||
        json_array_size(types) != json_array_size(ids) || json_array_size(positions) > json_array_size(ids))
        return false;
    const size_t n = json_array_size(ids);
    hs__predicted_text text = {.number = (uint64_t)number,
                               .label = (size_t)label,
                               .n_tokens = n,
                               .n_positions = json_array_size(positions),
                               .ids = hs_json_memory(n + 1, sizeof *text.ids),
                               .types = hs_json_memory(n + 1, 1),
                               .positions = hs_json_memory(n + 1, sizeof *text.positions)};
    const bool ok = text.ids && text.types && text.positions && lists_read(&text, ids, types, positions, o) &&
                    hs__predicted_text_is_useful(&text, c->measure) && !is_kept(c, text.number);
    if (ok)
        text_keep(c, &text);
    else
        hs__predicted_text_finish(&text);
    return ok;
}

static hs_status load(const hs__corpus_results *results, const json_t *checkpoint, void **ret, hs_error *err)
{
    const hs_corpus_options o = hs_corpus_stats_options(results->stats);
    const json_t *saved = json_object_get(checkpoint, MEMBER);
    json_int_t kind;
    json_t *texts, *words;
    if (json_unpack((json_t *)saved, "{sI so so}", "measure", &kind, "texts", &texts, "words", &words) ||
        kind < 0 || kind >= HS__PREDICTED_KINDS || json_array_size(texts) > TEXTS_MAX)
        return hs_fail(err, HS_INVALID, "the saved pruning curve is damaged");
    counts *c = counts_create(results->identity, o.n_layers, o.n_heads, (hs__predicted)kind, err);
    if (!c)
        return HS_NO_MEMORY;
    bool ok = hs__words_load(words, c->curve.words, hs__pruning_words(c->curve.n_maps));
    for (size_t i = 0; i < json_array_size(texts) && ok; i++)
        ok = text_load(c, json_array_get(texts, i), &o);
    if (ok)
        *ret = c;
    else
        destroy(c);
    return ok ? HS_OK : hs_fail(err, HS_INVALID, "the saved pruning curve is damaged");
}

static hs_status merge(hs__corpus_results *results, void **data, const hs__corpus_results *from,
                       void **from_data, const char *from_dir, hs_error *err)
{
    const counts *into = *data, *other = *from_data;
    (void)results, (void)from, (void)from_dir, (void)err;
    if (into && other)
        hs_words_add(into->curve.words, other->curve.words, hs__pruning_words(into->curve.n_maps));
    return HS_OK;
}

/* ---- arrays ---- */

enum { ARRAY_HEADS, ARRAY_LOSS, ARRAY_RIGHT, ARRAY_RANK, ARRAY_VALUE, ARRAY_TEXTS, ARRAY_PREDICTIONS };

/* Lengths after those of all counters. */
enum { POINTS = HS_LENGTHS, RANKINGS };

#define POINT                                                                                                \
    {                                                                                                        \
        "point", 0, POINTS                                                                                   \
    }
#define RANKING                                                                                              \
    {                                                                                                        \
        "ranking", 0, RANKINGS                                                                               \
    }
#define KIND                                                                                                 \
    {                                                                                                        \
        "kind", HS__PRUNING_KINDS                                                                            \
    }

static const hs_array_row arrays[] = {
    [ARRAY_HEADS] = {"pruning_heads", {POINT}, "heads", "heads that are switched off at each point"},
    [ARRAY_LOSS] =
        {"pruning_loss_sum",
         {RANKING, KIND, POINT},
         "nats",
         "-ln p, summed over the predictions; rankings snr, effect, entropy, norm, random (three), and in "
         "runs with importance that; kinds zero, mean",
         HS_REAL},
    [ARRAY_RIGHT] = {"pruning_right", {RANKING, KIND, POINT}, "predictions", "predictions that are right"},
    [ARRAY_RANK] = {"pruning_rank",
                    {RANKING, HS_AXIS_LAYER, HS_AXIS_HEAD},
                    "rank",
                    "place of a head in the order in which they go, from 0; summed over shards"},
    [ARRAY_VALUE] =
        {"pruning_value_sum",
         {RANKING, HS_AXIS_LAYER, HS_AXIS_HEAD},
         "by ranking",
         "what a head is ranked by: the ratio of the run; the rise of the loss in nats, summed over "
         "predictions; entropies, norms and importances, summed over texts; a random number",
         HS_REAL},
    [ARRAY_TEXTS] = {"pruning_ranking_texts", .unit = "texts", .meaning = "texts that rank the heads"},
    [ARRAY_PREDICTIONS] = {"pruning_ranking_predictions", .unit = "predictions",
                           .meaning = "their predictions"},
};

static size_t list(const void *data, hs_corpus_array *ret)
{
    const counts *c = data;
    const size_t lengths[] = {[HS_LAYERS] = c->n_layers,
                              [HS_HEADS] = c->n_heads,
                              [POINTS] = c->curve.n_points,
                              [RANKINGS] = c->curve.n_rankings};
    for (size_t k = 0; k < HS__N(arrays); k++)
        ret[k] = hs_array_of(arrays, k, lengths);
    return c->curve.words[HS__PRUNING_TEXTS] ? HS__N(arrays) : 0;
}

static const int64_t *point_at(const counts *c, size_t i)
{
    const size_t P = c->curve.n_points;
    return hs__pruning_point(&c->curve, i / P / HS__PRUNING_KINDS, i / P % HS__PRUNING_KINDS, i % P);
}

static void read(const void *data, const hs_corpus_array *array, size_t first, size_t n, void *ret)
{
    const counts *c = data;
    double *reals = ret;
    int64_t *integers = ret;
    for (size_t k = 0; k < n; k++) {
        const size_t i = first + k, ranking = i / c->curve.n_maps, map = i % c->curve.n_maps;
        switch (array->field) {
        case ARRAY_HEADS:
            integers[k] = (int64_t)c->curve.points[i];
            break;
        case ARRAY_LOSS:
            reals[k] = hs_real_at(point_at(c, i));
            break;
        case ARRAY_RIGHT:
            integers[k] = point_at(c, i)[2];
            break;
        case ARRAY_RANK:
            integers[k] = *hs__pruning_rank(&c->curve, ranking, map);
            break;
        case ARRAY_VALUE:
            reals[k] = hs_real_at(hs__pruning_value(&c->curve, ranking, map));
            break;
        case ARRAY_TEXTS:
            integers[k] = c->curve.words[HS__PRUNING_RANKING_TEXTS];
            break;
        default:
            integers[k] = c->curve.words[HS__PRUNING_RANKING_PREDICTIONS];
        }
    }
}

/* ---- report.json ---- */

enum { SEEDS = HS__PRUNING_IMPORTANCE - HS__PRUNING_RANDOM };

/* Returns true if a ranking of a curve is shown: of random orders the first, for all seeds. */
static bool is_shown(size_t ranking)
{
    return ranking <= HS__PRUNING_RANDOM || ranking == HS__PRUNING_IMPORTANCE;
}

/* Returns the mean loss at a point; of random orders the mean over the seeds. */
static double loss_at(const counts *c, size_t ranking, size_t kind, size_t point)
{
    const size_t n = ranking == HS__PRUNING_RANDOM ? SEEDS : 1;
    double sum = 0;
    for (size_t r = ranking; r < ranking + n; r++)
        sum += hs_real_at(hs__pruning_point(&c->curve, r, kind, point));
    return sum / (double)n / (double)c->curve.words[HS__PRUNING_PREDICTIONS];
}

static double accuracy_at(const counts *c, size_t ranking, size_t kind, size_t point)
{
    const size_t n = ranking == HS__PRUNING_RANDOM ? SEEDS : 1;
    double sum = 0;
    for (size_t r = ranking; r < ranking + n; r++)
        sum += (double)hs__pruning_point(&c->curve, r, kind, point)[2];
    return sum / (double)n / (double)c->curve.words[HS__PRUNING_PREDICTIONS];
}

/* Returns the most heads up to which the loss stays within 1 % of that with all. */
static size_t within_find(const counts *c, size_t ranking, size_t kind)
{
    size_t k = 0;
    while (k + 1 < c->curve.n_points &&
           loss_at(c, ranking, kind, k + 1) <= 1.01 * loss_at(c, ranking, kind, 0))
        k++;
    return c->curve.points[k];
}

/* Returns the area between the curve of random orders and this one, over the fraction of heads, in nats. */
static double area_find(const counts *c, size_t ranking, size_t kind)
{
    double area = 0, before = 0;
    for (size_t k = 1; k < c->curve.n_points; k++) {
        const double gap = loss_at(c, HS__PRUNING_RANDOM, kind, k) - loss_at(c, ranking, kind, k);
        area += (before + gap) / 2 * (double)(c->curve.points[k] - c->curve.points[k - 1]);
        before = gap;
    }
    return area / (double)c->curve.n_maps;
}

static json_t *curve_json(const counts *c, size_t ranking, size_t kind)
{
    json_t *loss = json_array(), *accuracy = json_array();
    for (size_t k = 0; k < c->curve.n_points; k++) {
        json_array_append_new(loss, hs__report_number(loss_at(c, ranking, kind, k)));
        json_array_append_new(accuracy, hs__report_number(accuracy_at(c, ranking, kind, k)));
    }
    return json_pack("{so so sI so}", "loss", loss, "accuracy", accuracy, "within_1_percent",
                     (json_int_t)within_find(c, ranking, kind), "area",
                     hs__report_number(area_find(c, ranking, kind)));
}

/* Returns the correlation of the heads' places in an order with those in the order of exact effects: of one
 * order Spearman's. NAN for one head. */
static double correlation_find(const counts *c, size_t ranking)
{
    const size_t n = c->curve.n_maps;
    double mean[2] = {0}, both = 0, squares[2] = {0};
    for (size_t map = 0; map < n; map++) {
        mean[0] += (double)*hs__pruning_rank(&c->curve, ranking, map) / (double)n;
        mean[1] += (double)*hs__pruning_rank(&c->curve, HS__PRUNING_EFFECT, map) / (double)n;
    }
    for (size_t map = 0; map < n; map++) {
        const double x = (double)*hs__pruning_rank(&c->curve, ranking, map) - mean[0],
                     y = (double)*hs__pruning_rank(&c->curve, HS__PRUNING_EFFECT, map) - mean[1];
        both += x * y;
        squares[0] += x * x;
        squares[1] += y * y;
    }
    return both / sqrt(squares[0] * squares[1]);
}

/* Returns the number of orders that a ranking has: each shard has one by its own texts. Their places add up.
 */
static uint64_t orders_count(const counts *c)
{
    const uint64_t n = c->curve.n_maps;
    uint64_t sum = 0;
    if (n < 2)
        return 1;
    for (size_t map = 0; map < n; map++)
        sum += (uint64_t)*hs__pruning_rank(&c->curve, 0, map);
    return sum / (n * (n - 1) / 2);
}

static json_t *ranking_json(const counts *c, size_t ranking)
{
    json_t *kinds = json_object();
    for (size_t kind = 0; kind < HS__PRUNING_KINDS; kind++)
        json_object_set_new(kinds, kind_names[kind], curve_json(c, ranking, kind));
    if (ranking != HS__PRUNING_RANDOM)
        json_object_set_new(kinds, "effect_correlation", hs__report_number(correlation_find(c, ranking)));
    return kinds;
}

static void report(const hs__corpus_results *results, void *data, json_t *to)
{
    const counts *c = data;
    (void)results;
    if (!c || !c->curve.words[HS__PRUNING_TEXTS])
        return;
    json_t *heads = json_array(), *rankings = json_object();
    for (size_t k = 0; k < c->curve.n_points; k++)
        json_array_append_new(heads, json_integer((json_int_t)c->curve.points[k]));
    for (size_t r = 0; r < c->curve.n_rankings; r++)
        if (is_shown(r))
            json_object_set_new(rankings, ranking_names[r], ranking_json(c, r));
    json_object_set_new(to, MEMBER,
                        json_pack("{ss sI sI sI so so}", "measure", hs__predicted_names[c->measure], "texts",
                                  (json_int_t)c->curve.words[HS__PRUNING_TEXTS], "predictions",
                                  (json_int_t)c->curve.words[HS__PRUNING_PREDICTIONS], "orders",
                                  (json_int_t)orders_count(c), "heads", heads, "rankings", rankings));
}

/* ---- report.html ---- */

static const char *const ranking_titles[HS__PRUNING_RANKINGS] = {
    [HS__PRUNING_SNR] = "signal to noise",
    [HS__PRUNING_EFFECT] = "effect alone",
    [HS__PRUNING_ENTROPY] = "attention entropy",
    [HS__PRUNING_NORM] = "written norm",
    [HS__PRUNING_RANDOM] = "random",
    [HS__PRUNING_IMPORTANCE] = "gradient importance",
};

/* Returns a ranking of the report; NULL if it is not there. */
static const json_t *ranking_of(const json_t *pruning, size_t ranking)
{
    return is_shown(ranking) ? json_object_get(json_object_get(pruning, "rankings"), ranking_names[ranking])
                             : NULL;
}

static const hs__report_panel panels[HS__PRUNING_KINDS];

hs_status hs__pruning_chart_draw(const json_t *pruning, size_t kind, hs_picture *ret, hs_error *err)
{
    const json_t *heads = json_object_get(pruning, "heads");
    const size_t n = json_array_size(heads);
    const char *names[HS__PRUNING_RANKINGS];
    double xs[HS__PRUNING_POINTS_MAX], values[HS__PRUNING_RANKINGS * HS__PRUNING_POINTS_MAX], high = 0;
    size_t n_series = 0;
    if (!n || n > HS__PRUNING_POINTS_MAX)
        return HS_OK;
    for (size_t r = 0; r < HS__PRUNING_RANKINGS; r++) {
        const json_t *kinds = ranking_of(pruning, r);
        const json_t *loss = json_object_get(json_object_get(kinds, kind_names[kind]), "loss");
        double *series = values + n_series * n;
        if (!kinds)
            continue;
        names[n_series++] = ranking_titles[r];
        for (size_t k = 0; k < n; k++) {
            xs[k] = json_number_value(json_array_get(heads, k));
            series[k] = json_number_value(json_array_get(loss, k));
            high = fmax(high, series[k]);
        }
    }
    const hs_chart chart = {.kind = HS_CHART_LINES,
                            .title = panels[kind].title,
                            .x_title = panels[kind].x_label,
                            .y_title = panels[kind].y_label,
                            .xs = xs,
                            .values = values,
                            .n = n,
                            .n_series = n_series,
                            .names = names,
                            .y_high = high * 1.05,
                            .mark_x = NAN,
                            .mark_y = NAN,
                            .width_mm = 120,
                            .height_mm = 80,
                            .font_pt = 8};
    return hs_chart_draw(&chart, ret, err);
}

/* Draws the curves of one kind. which: the kind. */
static hs_status draw(hs__drawing *d, const hs__report_panel *panel, hs__indices at, hs_picture *ret,
                      hs_error *err)
{
    (void)at;
    return hs__pruning_chart_draw(json_object_get(d->report, MEMBER), (size_t)panel->which, ret, err);
}

static const hs__report_panel panels[HS__PRUNING_KINDS] = {
    {"pruning_zero", "", "Heads switched off", "heads that are off", "mean loss, nats",
     .which = HS__PRUNING_ZERO, .draw = draw},
    {"pruning_mean", "", "Heads replaced by their mean", "heads that are off", "mean loss, nats",
     .which = HS__PRUNING_MEAN, .draw = draw},
};

static void row_write(const json_t *kinds, const char *title, FILE *out)
{
    fprintf(out, "<tr><th scope=\"row\">%s</th>", title);
    for (size_t kind = 0; kind < HS__PRUNING_KINDS; kind++) {
        const json_t *curve = json_object_get(kinds, kind_names[kind]);
        hs__cell_write(out, json_number_value(json_object_get(curve, "within_1_percent")), "%.0f");
        hs__cell_write(out, json_number_value(json_object_get(curve, "area")), "%.3f");
    }
    hs__cell_write(out, hs__report_number_at(kinds, "effect_correlation", (hs__indices){0}), "%.2f");
    fputs("</tr>\n", out);
}

void hs__pruning_table_write(const json_t *pruning, FILE *out)
{
    static const hs__column columns[] = {
        {"Order", NULL, NULL},
        {"Zero: heads within 1 %", NULL, NULL},
        {"Zero: area, nats", NULL, NULL},
        {"Mean: heads within 1 %", NULL, NULL},
        {"Mean: area, nats", NULL, NULL},
        {"Rank correlation with effect", NULL, NULL},
    };
    hs__table_begin(out, columns, HS__N(columns));
    for (size_t r = 0; r < HS__PRUNING_RANKINGS; r++)
        if (ranking_of(pruning, r))
            row_write(ranking_of(pruning, r), ranking_titles[r], out);
    hs__table_end(out);
}

static void page(const hs__drawing *d, hs__indices at, FILE *out)
{
    const json_t *pruning = json_object_get(d->report, MEMBER);
    (void)at;
    if (!pruning)
        return;
    fputs("<section id=\"" MEMBER "\" aria-label=\"Pruning\"><h2>Pruning</h2><p class=\"muted\">", out);
    hs__html_filled(
        out, pruning,
        "The loss of {predictions} {measure} predictions in {texts} texts while heads go, the lowest "
        "of each order first. ");
    if (json_integer_value(json_object_get(pruning, "orders")) > 1)
        hs__html_filled(
            out, pruning,
            "<strong>This curve is the sum of {orders} shards, each with orders by its own texts. "
            "It is not the curve of one order: count without shards for that.</strong> ");
    fputs("Other texts of the run gave the orders; the signal-to-noise ratio is that of the whole run. The "
          "columns are the most heads up to which the loss stays within 1 % of that with all heads, and the "
          "area "
          "below the mean curve of three random orders, over the fraction of heads: above 0 the order says "
          "more "
          "about use than chance. The last column is Spearman's correlation of an order with that by exact "
          "effects, in the texts that gave the orders.</p>",
          out);
    hs__pruning_table_write(pruning, out);
    fputs("</section>\n", out);
}

const hs__counter hs__counter_pruning = {
    .name = "pruning",
    .settings = settings,
    .n_settings = HS__N(settings),
    .options_bytes = sizeof(options),
    .identify = identify,
    .is_active = is_active,
    .save = save,
    .load = load,
    .matches = matches,
    .destroy = destroy,
    .merge = merge,
    .measure = measure,
    .begin = begin,
    .worker_bytes = sizeof(hs__tally),
    .pass = pass,
    .complete = complete,
    .arrays = arrays,
    .n_arrays = HS__N(arrays),
    .list = list,
    .read = read,
    .report = report,
    .section = MEMBER,
    .title = "Pruning",
    .page = page,
    .panels = panels,
    .n_panels = HS__N(panels),
};
