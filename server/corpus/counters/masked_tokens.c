/* masked_tokens.c - accuracy and loss of masked-token prediction, from one more pass over each text.
 *
 * Each token that the tokenizer did not add, and that is not a mask already, is masked with the probability
 * masked_share. A hash of seed, text number and position decides, so the choice does not depend on the shard.
 * All masks of a text are in one pass, as in training. The counts are in the statistics. */
#include "engine/analysis/predictions.h"
#include "model/base/bytes.h"
#include "model/base/read_number.h"
#include "server/corpus/counters/counter.h"
#include "server/corpus/report/html.h"
#include "server/corpus/report/report_value.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TOGETHER = 16 }; /* positions whose logits are there at a time */

/* ---- settings ---- */

typedef struct options {
    float share; /* fraction of tokens to mask and predict; 0: none */
    uint64_t seed;
    int32_t mask_id; /* of the model; -1: it has none */
} options;

static hs_status read_share(const char *text, const hs_model *model, hs__corpus_settings *settings, void *ret,
                            hs_error *err)
{
    options *o = ret;
    const hs_status st = hs__fraction_read(text, &o->share, err);
    (void)settings;
    o->mask_id = hs_tokenizer_special_ids(hs_model_tokenizer(model))->mask;
    if (!st && o->share > 0 && (o->mask_id < 0 || !hs_model_predicts_masks(model)))
        return hs_fail(err, HS_INVALID,
                       "0: this model has no head that predicts masked tokens, or no mask token");
    return st;
}

static hs_status read_seed(const char *text, const hs_model *model, hs__corpus_settings *settings, void *ret,
                           hs_error *err)
{
    options *o = ret;
    int64_t seed = 0;
    (void)model, (void)settings;
    if (hs_integer_read(text, NULL, 0, INT64_MAX, &seed))
        return hs_fail(err, HS_INVALID, "an integer from 0 to 2^63 - 1");
    o->seed = (uint64_t)seed;
    return HS_OK;
}

static const hs__setting_row settings[] = {
    {.field = {"masked_share", HS_FIELD_TEXT, "SHARE",
               "fraction of tokens to mask and predict, in an extra pass (0)"},
     .part = HS__SETTINGS_OF_EXPERIMENTS,
     .read = read_share,
     .default_text = "0",
     .default_json = "0.0"},
    {.field = {"mask_seed", HS_FIELD_TEXT, "N", "seed for the choice of masked tokens (0)"},
     .part = HS__SETTINGS_OF_EXPERIMENTS,
     .read = read_seed,
     .default_json = "null"},
};

static bool masks(const options *o)
{
    return o && o->share > 0;
}

static bool is_active(const json_t *identity)
{
    return json_object_get(identity, "masked_share");
}

static void identify(const void *data, const hs__corpus_settings *all, json_t *identity)
{
    const options *o = data;
    (void)all;
    if (!masks(o))
        return;
    json_object_set_new(identity, "masked_share", json_real(hs__report_decimal(o->share)));
    json_object_set_new(identity, "mask_seed", json_integer((json_int_t)o->seed));
}

static void configure(const void *data, const hs__corpus_settings *all, hs_corpus_options *statistics,
                      unsigned *taps)
{
    (void)all, (void)taps;
    statistics->masked = masks(data);
}

/* ---- a worker ---- */

typedef struct worker {
    hs__tally tally;
    int32_t *ids;      /* [HS_CORPUS_BATCH][max_tokens] */
    size_t *positions; /* [max_tokens] */
    float *states;     /* of some positions, then their logits */
} worker;

static size_t states_floats(const hs__corpus_job *job)
{
    const hs_shape *shape = hs_engine_shape(job->engine);
    return TOGETHER * (shape->hidden + shape->vocab_size);
}

static void measure(const hs__corpus_job *job, const void *data, hs__counter_size *size)
{
    const hs_shape *shape = hs_engine_shape(job->engine);
    const size_t T = job->settings.fields.max_tokens;
    const size_t captures = HS_CORPUS_BATCH * T * shape->hidden * sizeof(float);
    (void)data;
    size->worker += HS_CORPUS_BATCH * T * sizeof(int32_t) + T * sizeof(size_t) + captures +
                    states_floats(job) * sizeof(float);
}

static hs_status worker_begin(void *state, void *const *states, hs_error *err)
{
    worker *w = state;
    const size_t T = w->tally.counting->job->settings.fields.max_tokens;
    (void)states;
    w->ids = malloc(HS_CORPUS_BATCH * T * sizeof *w->ids);
    w->positions = malloc(T * sizeof *w->positions);
    w->states = malloc(states_floats(w->tally.counting->job) * sizeof *w->states);
    return w->ids && w->positions && w->states ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory for a worker");
}

static void worker_end(void *state)
{
    worker *w = state;
    free(w->ids);
    free(w->positions);
    free(w->states);
}

static const options *options_of(const worker *w)
{
    return w->tally.counting->options;
}

/* ---- the masks ---- */

/* Mixes the three into a number in [0, 1). */
static double chance_of(uint64_t seed, uint64_t number, uint64_t position)
{
    const uint64_t x = seed * HS_MIX_STEP + number * UINT64_C(0xbf58476d1ce4e5b9) +
                       (position + 1) * UINT64_C(0x94d049bb133111eb);
    return hs_fraction_of(hs_mix(x));
}

static bool is_masked(const worker *w, const hs__text *text, size_t i)
{
    return !text->encoding.special[i] && text->encoding.ids[i] != options_of(w)->mask_id &&
           chance_of(options_of(w)->seed, hs__text_number(text), i) < (double)options_of(w)->share;
}

static void mask(const worker *w, const hs__text *text, int32_t *ret_ids)
{
    for (size_t i = 0; i < text->encoding.n_tokens; i++)
        ret_ids[i] = is_masked(w, text, i) ? options_of(w)->mask_id : text->encoding.ids[i];
}

/* ---- the predictions ---- */

typedef struct tally {
    size_t n_right;
    double loss;
} tally;

static hs_status predict(const worker *w, const hs_capture *capture, const hs__text *text,
                         const size_t *positions, size_t n, tally *sums, hs_error *err)
{
    const size_t H = capture->hidden, V = hs_engine_shape(w->tally.counting->job->engine)->vocab_size;
    float *logits = w->states + TOGETHER * H;
    for (size_t i = 0; i < n; i++)
        memcpy(w->states + i * H, hs_capture_at(capture, HS_TAP_LAST_STATE, 0, 0) + positions[i] * H,
               H * sizeof *logits);
    const hs_status st = hs_engine_predict(w->tally.counting->job->engine, w->states, n, 0, 1, logits, err);
    for (size_t i = 0; i < n && !st; i++) {
        hs_prediction prediction;
        hs_prediction_read(logits + i * V, V, text->encoding.ids[positions[i]], 1, &prediction);
        sums->n_right += prediction.rank == 1;
        /* A probability that underflows counts as the smallest float. */
        sums->loss -= log(fmax((double)prediction.probability, 0x1p-149));
    }
    return st;
}

static hs_status text_count(const worker *w, const hs_capture *capture, const hs__text *text,
                            hs_corpus_stats *statistics, hs_error *err)
{
    size_t n = 0;
    tally sums = {0};
    hs_status st = HS_OK;
    for (size_t i = 0; i < text->encoding.n_tokens; i++)
        if (is_masked(w, text, i))
            w->positions[n++] = i;
    for (size_t first = 0; first < n && !st; first += TOGETHER)
        st = predict(w, capture, text, w->positions + first, n - first < TOGETHER ? n - first : TOGETHER,
                     &sums, err);
    if (!st)
        hs_corpus_masked_add(statistics, n, sums.n_right, sums.loss);
    return st;
}

static hs_status pass(void *state, hs__text_pass *p, hs_error *err)
{
    const worker *w = state;
    const hs_engine *engine = w->tally.counting->job->engine;
    const hs_selection selection = {.taps = HS_KEEP(LAST_STATE)};
    hs_sequence masked[HS_CORPUS_BATCH] = {0};
    hs_status st = HS_OK;
    for (size_t k = 0; k < p->n && !st; k++) {
        int32_t *ids = w->ids + k * w->tally.counting->job->settings.fields.max_tokens;
        mask(w, &p->texts[k], ids);
        masked[k] = p->sequences[k];
        masked[k].ids = ids;
        masked[k].capture = NULL;
        st = hs_capture_create(hs_engine_runtime(engine), hs_engine_shape(engine), &selection,
                               p->sequences[k].n_tokens, &masked[k].capture, err);
    }
    if (!st)
        st = hs_engine_compute(engine, p->workspace, masked, p->n, NULL, p->control, err);
    for (size_t k = 0; k < p->n && !st; k++)
        st = text_count(w, masked[k].capture, &p->texts[k], p->statistics, err);
    for (size_t k = 0; k < p->n; k++)
        hs_capture_destroy(masked[k].capture);
    return st;
}

/* ---- the report ---- */

static void report(const hs__corpus_results *results, void *counts, json_t *to)
{
    (void)counts;
    if (!hs_corpus_stats_options(results->stats).masked)
        return;
    const hs_corpus_masked m = hs_corpus_masked_read(results->stats);
    json_object_set_new(to, "masked",
                        json_pack("{sI so so}", "tokens", (json_int_t)m.n, "accuracy",
                                  hs__report_number(m.accuracy), "loss", hs__report_number(m.loss)));
}

static void header(const json_t *report, FILE *out)
{
    const json_t *masked = json_object_get(report, "masked");
    const json_int_t n = json_integer_value(json_object_get(masked, "tokens"));
    if (!n)
        return;
    fputs("<dt>Masked tokens</dt><dd>", out);
    hs__count_write(out, (uint64_t)n);
    fprintf(out, ", %.1f %% of them found, loss %.3f</dd>",
            100 * json_number_value(json_object_get(masked, "accuracy")),
            json_number_value(json_object_get(masked, "loss")));
}

const hs__counter hs__counter_masked_tokens = {
    .name = "masked tokens",
    .settings = settings,
    .n_settings = HS__N(settings),
    .options_bytes = sizeof(options),
    .identify = identify,
    .is_active = is_active,
    .configure = configure,
    .measure = measure,
    .worker_bytes = sizeof(worker),
    .worker_begin = worker_begin,
    .worker_end = worker_end,
    .pass = pass,
    .report = report,
    .header = header,
};
