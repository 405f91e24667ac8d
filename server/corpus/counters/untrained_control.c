/* untrained_control.c - counts the same architecture with random weights beside the model, text for text.
 *
 * A figure that random weights show as well says nothing about training. The control counts what findings
 * rest on (resampling.h), and signal and noise (signal_noise.h), in the first texts of the input: it takes a
 * pass of its own for each. */
#include "engine/engine.h"
#include "model/untrained.h"
#include "server/corpus/counters/resampling.h"
#include "server/corpus/counters/signal_noise.h"
#include "server/corpus/counters/text_pass.h"

#include <string.h>

#define MEMBER "control"

/* The control counts the texts of this many records. All texts of a pass are of one block. */
#define RECORDS 2000
static_assert(RECORDS % HS__CORPUS_BLOCK == 0, "a pass is counted as a whole");

/* Models with more random weights have no control by default: it would double their memory. */
#define BYTES_BY_ITSELF ((size_t)512 << 20)

/* ---- settings ---- */

typedef struct options {
    bool is_on;
    int64_t seed;
} options;

static hs_status read_control(const char *text, const hs_model *model, hs__corpus_settings *settings,
                              void *ret, hs_error *err)
{
    static const char name[] = "untrained";
    options *o = ret;
    const size_t n = sizeof name - 1;
    *o = (options){0};
    if (strcmp(text, "none") == 0)
        return HS_OK;
    if (strcmp(text, "auto") == 0) {
        o->is_on = !settings->stack && hs_untrained_bytes(hs_model_architecture(model)) <= BYTES_BY_ITSELF;
        return HS_OK;
    }
    o->is_on = strncmp(text, name, n) == 0 && (!text[n] || text[n] == ':') &&
               (!text[n] || !hs_integer_read(text + n + 1, NULL, 0, INT64_MAX, &o->seed));
    return o->is_on ? HS_OK : hs_fail(err, HS_INVALID, "auto, none, untrained, or untrained:SEED");
}

static const hs__setting_row settings[] = {
    {.field = {MEMBER, HS_FIELD_TEXT, "WHAT",
               "none, or untrained[:SEED]: also count 2000 texts with random weights (auto)"},
     .part = HS__SETTINGS_OF_EXPERIMENTS,
     .read = read_control,
     .default_text = "auto",
     .default_json = "\"none\""},
};

static void identify(const void *data, const hs__corpus_settings *all, json_t *identity)
{
    const options *o = data;
    (void)all;
    if (o && o->is_on)
        json_object_set_new(identity, MEMBER, json_sprintf("untrained:%lld", (long long)o->seed));
}

static bool is_active(const json_t *identity)
{
    return json_object_get(identity, MEMBER);
}

/* Returns the options of the control's engine. A server measures and begins a run in a thread of low
 * priority, which helpers would keep. */
static hs_engine_options engine_options(const hs_engine *trained)
{
    hs_engine_options o = hs_engine_options_of(trained);
    o.alone = true;
    return o;
}

/* ---- sizes ---- */

/* Returns the options of the statistics behind the sums: one threshold, and maps of one cell. */
static hs_corpus_options statistics_options(const hs__corpus_job *job, const float *threshold)
{
    const hs_shape *shape = hs_engine_shape(job->engine);
    return (hs_corpus_options){.layers = job->settings.fields.layers,
                               .n_layers = job->settings.fields.n_layers,
                               .n_heads = shape->n_heads,
                               .tokens_max = job->settings.fields.max_tokens,
                               .vocab_size = shape->vocab_size,
                               .thresholds = threshold,
                               .n_thresholds = 1,
                               .attention_threshold = job->settings.fields.attention_threshold,
                               .n_parts = 1,
                               .map_step = job->settings.fields.max_tokens};
}

static void measure(const hs__corpus_job *job, const void *data, hs__counter_size *size)
{
    const hs_architecture *architecture = hs_engine_architecture(job->engine);
    const hs_engine_options engine = engine_options(job->engine);
    const hs_corpus_options own = statistics_options(job, job->settings.thresholds);
    hs_corpus_size statistics = {0};
    size_t n_engine = 0, n_workspace;
    (void)data;
    if (hs_corpus_stats_measure(&own, &statistics, NULL) ||
        hs_engine_measure(hs_engine_runtime(job->engine), architecture, &engine, 1, &n_engine, &n_workspace,
                          NULL))
        return; /* the run's own measurement fails, too, and says why */
    size->shared += hs_untrained_bytes(architecture) + n_engine;
    size->worker += statistics.memory_bytes + hs__pass_floats(&job->settings) * sizeof(float);
}

/* ---- a run ---- */

typedef struct network {
    hs_untrained untrained;
    hs_engine *engine;
} network;

static void end(hs__counting *counting)
{
    network *n = counting->shared;
    if (!n)
        return;
    hs_engine_destroy(n->engine);
    hs_untrained_finish(&n->untrained);
    free(n);
    counting->shared = NULL;
}

static bool is_stopped(const hs__corpus_job *job)
{
    return job->stop && atomic_load(job->stop);
}

/* Makes the network, unless no record is left that it counts. A run that is stopped begins no pass, so its
 * network may lack an engine. */
static hs_status begin(hs__counting *counting, bool anew, hs_error *err)
{
    const hs__corpus_job *job = counting->job;
    const hs__corpus_results *results = counting->results;
    const hs_engine_options engine = engine_options(job->engine);
    const options *o = counting->options;
    (void)anew;
    if (results->done || results->position.n_lines >= RECORDS || is_stopped(job))
        return HS_OK;
    network *n = counting->shared = calloc(1, sizeof *n);
    if (!n)
        return hs_fail(err, HS_NO_MEMORY, "no memory for a network with random weights");
    const hs_status st =
        hs_untrained_create(hs_engine_architecture(job->engine), (uint64_t)o->seed, &n->untrained, err);
    return st || is_stopped(job) ? st
                                 : hs_engine_create(hs_engine_runtime(job->engine),
                                                    &n->untrained.architecture, &engine, &n->engine, err);
}

typedef struct worker {
    hs__tally tally;
    void *const *states; /* of the worker's counters */
    const void *chances; /* that of same_distance */
    hs_corpus_stats *statistics;
    float *maps; /* [hs__pass_floats] */
} worker;

static hs_status worker_begin(void *state, void *const *states, hs_error *err)
{
    worker *w = state;
    const hs__corpus_job *job = w->tally.counting->job;
    const hs_corpus_options *run = w->tally.counting->statistics;
    const hs_corpus_options own = statistics_options(job, run->thresholds + run->threshold_main);
    w->states = states;
    w->chances = states[HS__NUMBER_OF_same_distance];
    w->maps = malloc(hs__pass_floats(&job->settings) * sizeof *w->maps);
    return w->maps ? hs_corpus_stats_create(&own, &w->statistics, err)
                   : hs_fail(err, HS_NO_MEMORY, "no memory for a worker");
}

static void worker_end(void *state)
{
    worker *w = state;
    hs_corpus_stats_destroy(w->statistics);
    free(w->maps);
}

static void head_show(void *state, hs__text *text, hs__text_head *head)
{
    worker *w = state;
    const hs__block_head own = hs__block_head_of(head, w->tally.sums->lengths[HS_HEADS]);
    hs__block_head_add(w->tally.sums, hs__same_distance_of_worker(w->chances, text->place), text, &own);
    hs__untrained_noise_head(w->states, text, head);
}

/* Gives the sequences captures that keep nothing: they say which heads are shown. */
static hs_status captures_create(const hs__corpus_job *job, hs__text_pass *pass, hs_error *err)
{
    const hs_shape *shape = hs_engine_shape(job->engine);
    const hs_selection selection = {.layers = job->settings.fields.layers,
                                    .n_layers = job->settings.fields.n_layers,
                                    .heads = hs_all_numbers,
                                    .n_heads = shape->n_heads};
    hs_status st = HS_OK;
    for (size_t k = 0; k < pass->n; k++)
        pass->sequences[k].capture = NULL;
    for (size_t k = 0; !st && k < pass->n; k++)
        st = hs_capture_create(hs_engine_runtime(job->engine), shape, &selection, pass->sequences[k].n_tokens,
                               &pass->sequences[k].capture, err);
    return st;
}

static hs_status pass(void *state, hs__text_pass *of_model, hs_error *err)
{
    worker *w = state;
    const hs__counting *counting = w->tally.counting;
    const network *n = counting->shared;
    const hs__pass_observer observer = {counting->job, w->maps, head_show, w};
    hs__text_pass own = *of_model;
    if (own.texts[0].record.number >= RECORDS)
        return HS_OK;
    own.statistics = w->statistics;
    for (size_t k = 0; k < own.n; k++) {
        hs__block_text_add(w->tally.sums, hs__same_distance_of_worker(w->chances, k), &own.texts[k]);
        hs__untrained_noise_text(w->states, &own.texts[k]);
    }
    hs_status st = captures_create(counting->job, &own, err);
    if (!st)
        st = hs__pass_observe(n->engine, &observer, &own, err);
    for (size_t k = 0; k < own.n; k++)
        hs_capture_destroy(own.sequences[k].capture);
    return st;
}

const hs__counter hs__counter_untrained_noise = {
    .name = "signal and noise of the untrained control",
    .is_active = is_active,
    .sums = &hs__untrained_noise_sums,
};

const hs__counter hs__counter_untrained_control = {
    .name = "untrained control",
    .settings = settings,
    .n_settings = HS__N(settings),
    .options_bytes = sizeof(options),
    .identify = identify,
    .is_active = is_active,
    .sums = &hs__untrained_sums,
    .measure = measure,
    .begin = begin,
    .end = end,
    .worker_bytes = sizeof(worker),
    .worker_begin = worker_begin,
    .worker_end = worker_end,
    .pass = pass,
};
