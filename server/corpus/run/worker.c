/* worker.c - tokenizes the lines of a block, runs its texts in batches and counts each head's maps in an
 * observer.
 *
 * A worker keeps only the tokens of a line, and its beginning if the text may become an example. */
#include "server/corpus/run/worker.h"

#include "api/api.h"
#include "model/base/utf8.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* ---- lifetime ---- */

static size_t threshold_main(const hs__corpus_job *job)
{
    size_t best = 0;
    for (size_t t = 1; t < job->settings.n_thresholds; t++)
        if (fabsf(job->settings.thresholds[t] - 0.3f) < fabsf(job->settings.thresholds[best] - 0.3f))
            best = t;
    return best;
}

/* Lets the counters set what they need; ret_taps may be NULL. */
static void counters_configure(const hs__corpus_settings *settings, hs_corpus_options *statistics,
                               unsigned *ret_taps)
{
    unsigned taps = 0;
    for (size_t c = 0; c < hs__n_counters; c++)
        if (hs__counters[c]->configure)
            hs__counters[c]->configure(settings->options[c], settings, statistics, &taps);
    if (ret_taps)
        *ret_taps = taps;
}

/* Returns the options without what counters set. */
static hs_corpus_options options_base(const hs__corpus_job *job)
{
    const hs_shape *shape = hs_model_shape(job->model);
    return (hs_corpus_options){.layers = job->settings.fields.layers,
                               .n_layers = job->settings.fields.n_layers,
                               .n_heads = shape->n_heads,
                               .tokens_max = job->settings.fields.max_tokens,
                               .vocab_size = shape->vocab_size,
                               .thresholds = job->settings.thresholds,
                               .n_thresholds = job->settings.n_thresholds,
                               .threshold_main = threshold_main(job),
                               .attention_threshold = job->settings.fields.attention_threshold,
                               .n_parts = 4,
                               .distances = job->settings.distances};
}

hs_corpus_options hs__corpus_options_of(const hs__corpus_job *job)
{
    hs_corpus_options options = options_base(job);
    counters_configure(&job->settings, &options, NULL);
    return options;
}

static size_t maps_floats(size_t T)
{
    return 2 * T * T + T;
}

size_t hs__worker_map_floats(const hs__corpus_settings *settings)
{
    return maps_floats(settings->fields.max_tokens) * (settings->fields.special_masked ? 2 : 1);
}

void hs__corpus_shared_init(hs__corpus_shared *shared, hs__corpus_results *results)
{
    const hs__corpus_job *job = shared->job;
    shared->options = options_base(job);
    shared->control = (hs_run_control){.cancelled = &shared->abandoned};
    shared->selection = (hs_selection){.layers = job->settings.fields.layers,
                                       .n_layers = job->settings.fields.n_layers,
                                       .heads = hs_all_numbers,
                                       .n_heads = shared->options.n_heads};
    counters_configure(&job->settings, &shared->options, &shared->selection.taps);
    for (size_t c = 0; c < hs__n_counters; c++)
        shared->counting[c] = (hs__counting){.counter = hs__counters[c],
                                             .job = job,
                                             .options = job->settings.options[c],
                                             .results = results,
                                             .counts = &results->counts[c],
                                             .statistics = &shared->options};
}

static hs_status states_create(hs__corpus_worker *worker, hs_error *err)
{
    hs_status st = HS_OK;
    for (size_t c = 0; !st && c < hs__n_counters; c++)
        if (hs__counters[c]->worker_create)
            st = hs__counters[c]->worker_create(&worker->shared->counting[c], worker->states,
                                                &worker->states[c], err);
    return st;
}

hs_status hs__corpus_worker_init(hs__corpus_worker *worker, hs__corpus_shared *shared, hs_corpus_stats *saved,
                                 hs_error *err)
{
    const hs__corpus_job *job = shared->job;
    const size_t T = job->settings.fields.max_tokens;
    *worker = (hs__corpus_worker){.shared = shared, .stats = saved, .n_together = hs__corpus_together(job)};
    worker->maps = malloc(hs__worker_map_floats(&job->settings) * sizeof *worker->maps);
    worker->rows = shared->pairs ? hs__pairs_rows_create(shared->pairs) : NULL;
    if (!worker->maps || (shared->pairs && !worker->rows))
        return hs_fail(err, HS_NO_MEMORY, "no memory for a worker");
    hs_status st = states_create(worker, err);
    if (!st)
        st = hs_workspace_create(job->engine, worker->n_together * T, &worker->workspace, err);
    return st || worker->stats ? st : hs_corpus_stats_create(&shared->options, &worker->stats, err);
}

void hs__corpus_worker_finish(hs__corpus_worker *worker)
{
    for (size_t k = 0; k < HS_CORPUS_BATCH; k++)
        hs_capture_destroy(worker->captures[k]);
    for (size_t c = 0; c < hs__n_counters; c++)
        if (worker->states[c])
            hs__counters[c]->worker_destroy(worker->states[c]);
    hs_corpus_stats_destroy(worker->stats);
    hs_workspace_destroy(worker->workspace);
    free(worker->maps);
    free(worker->rows);
    *worker = (hs__corpus_worker){0};
}

hs_status hs__corpus_worker_gather(hs__corpus_worker *worker, hs__corpus_worker *from, hs_error *err)
{
    hs_status st = HS_OK;
    for (size_t c = 0; !st && c < hs__n_counters; c++)
        if (from->states[c] && hs__counters[c]->gather)
            st = hs__counters[c]->gather(&from->shared->counting[c], from->states[c], err);
    if (st || from == worker || !hs_corpus_stats_texts(from->stats))
        return st;
    st = hs_corpus_stats_merge(worker->stats, from->stats, err);
    hs_corpus_stats_destroy(from->stats);
    from->stats = NULL;
    return st ? st : hs_corpus_stats_create(&worker->shared->options, &from->stats, err);
}

/* A counter with nothing to do. */
static const hs__counter idle = {.name = "idle"};

/* Returns counter c if it has something to do in this worker. */
static const hs__counter *counter_at(const hs__corpus_worker *worker, size_t c)
{
    return worker->states[c] ? hs__counters[c] : &idle;
}

/* ---- lines to texts ---- */

static hs_status bad(hs__corpus_shared *shared, const hs__record *line, const char *why, hs_error *err)
{
    hs__bad_line entry = {.file = line->file, .line = line->line, .n_lines = line->n_lines};
    if (line->n_lines > 1)
        snprintf(entry.why, sizeof entry.why, "%.98s (%llu lines)", why, (unsigned long long)line->n_lines);
    else
        snprintf(entry.why, sizeof entry.why, "%s", why);
    hs__bad_lines_add(shared->bad, &entry);
    if (!shared->job->strict)
        return HS_OK;
    return hs_fail(err, HS_INVALID, "%s, line %llu: %s", shared->job->inputs[line->file],
                   (unsigned long long)line->line, why);
}

/* Finds the text of a record. HS_BAD_REQUEST: there is none, or a counter refuses the record; t->body.why is
 * the reason. */
static hs_status record_read(hs__corpus_worker *worker, hs__text *t, hs_error *err)
{
    const hs__record *record = &t->record;
    if (record->too_long) {
        snprintf(t->body.why, sizeof t->body.why, "longer than %zu bytes", HS__RECORD_BYTES_MAX);
        return HS_BAD_REQUEST;
    }
    hs_status st = hs__record_text_find(&record->layout, worker->shared->job->settings.input.field,
                                        record->bytes, record->n_bytes, &t->body);
    for (size_t c = 0; !st && c < hs__n_counters; c++)
        if (counter_at(worker, c)->record)
            st = hs__counters[c]->record(worker->states[c], t, err);
    return st;
}

static void text_finish(const hs__corpus_worker *worker, hs__text *t)
{
    for (size_t c = 0; c < hs__n_counters; c++)
        if (counter_at(worker, c)->text_end)
            hs__counters[c]->text_end(worker->states[c], t);
    free(t->reached);
    hs_encoding_finish(&t->encoding);
}

/* Gives the role of sentence ends to the tokens of the setting, if it is given, and to no other token. */
static void roles_set(const hs__corpus_settings *settings, hs_encoding *encoding)
{
    for (size_t i = 0; settings->fields.has_sentence_ends && i < encoding->n_tokens; i++) {
        if (encoding->roles[i] == HS_ROLE_SENTENCE_END)
            encoding->roles[i] = HS_ROLE_OTHER;
        for (size_t k = 0; k < settings->fields.n_sentence_ends; k++)
            if (encoding->ids[i] == settings->fields.sentence_ends[k])
                encoding->roles[i] = HS_ROLE_SENTENCE_END;
    }
}

/* Sets the range of tokens that are counted: all, without the special ones at both ends if these are masked.
 */
static void range_set(const hs__corpus_settings *settings, hs__text *t)
{
    const uint8_t *special = t->encoding.special;
    t->first = 0;
    t->end = t->encoding.n_tokens;
    while (settings->fields.special_masked && t->first < t->end && special[t->first])
        t->first++;
    while (settings->fields.special_masked && t->first < t->end && special[t->end - 1])
        t->end--;
}

/* Returns true if there is a token of the text itself. Tokens of a prompt alone end where the text begins. */
static bool has_token(const hs_encoding *encoding, bool prompted)
{
    for (size_t i = 0; i < encoding->n_tokens; i++)
        if (!encoding->special[i] && !(prompted && encoding->ends[i] == 0))
            return true;
    return false;
}

/* Encodes a line's text. HS_BAD_REQUEST: it is not UTF-8. HS_NOT_FOUND: it is empty, and the tokenizer puts
 * nothing but its special tokens in its place. */
static hs_status text_encode(hs__corpus_shared *shared, const hs_text *bytes, hs__text *t, hs_error *err)
{
    const hs__corpus_settings *settings = &shared->job->settings;
    const hs_encode_options options = {settings->fields.max_tokens, settings->fields.split_special_tokens};
    size_t n_prompt;
    const hs_status st = hs_prompt_encode(hs_model_tokenizer(shared->job->model), settings->fields.prompt,
                                          bytes, NULL, &options, &t->encoding, &n_prompt, err);
    if (st)
        return st;
    roles_set(settings, &t->encoding);
    range_set(settings, t);
    if (has_token(&t->encoding, n_prompt > 0))
        return HS_OK;
    hs_encoding_finish(&t->encoding);
    return HS_NOT_FOUND;
}

/* Shows an encoded text to the counters. */
static hs_status text_show(hs__corpus_worker *worker, hs__text *t, hs_error *err)
{
    hs_status st = HS_OK;
    for (size_t c = 0; !st && c < hs__n_counters; c++)
        if (counter_at(worker, c)->text)
            st = hs__counters[c]->text(worker->states[c], t, err);
    if (st)
        text_finish(worker, t);
    return st;
}

/* Reads, encodes and shows a text. *ret_is_counted: it is to be counted; else it is empty or one of the bad
 * lines. */
static hs_status text_read(hs__corpus_worker *worker, hs__text *t, bool *ret_is_counted, hs_error *err)
{
    hs__corpus_shared *shared = worker->shared;
    hs_error why_not = {.text = "no memory for a text"};
    hs_status st = record_read(worker, t, &why_not);
    if (!st) {
        st = text_encode(shared, &t->body.text, t, &why_not);
        snprintf(t->body.why, sizeof t->body.why, "%.*s", (int)sizeof t->body.why - 1,
                 st == HS_BAD_REQUEST ? "not valid UTF-8" : why_not.text);
    }
    *ret_is_counted = st == HS_OK;
    if (!st) {
        st = text_show(worker, t, err); /* a failure of a counter is no bad line */
    } else if (st == HS_NOT_FOUND) {
        atomic_fetch_add(&shared->n_empty, 1);
        st = HS_OK;
    } else if (st == HS_BAD_REQUEST || st == HS_TOO_LARGE || st == HS_INVALID)
        st = bad(shared, &t->record, t->body.why, err);
    else if (st)
        hs_fail(err, st, "%s", why_not.text);
    hs__sentence_finish(&t->sentence);
    hs__record_text_finish(&t->body);
    return st;
}

/* ---- a block ---- */

static hs_status capture_fit(hs__corpus_worker *worker, size_t k, size_t n_tokens, hs_error *err)
{
    hs_capture **capture = &worker->captures[k];
    if (*capture && (*capture)->n_tokens == n_tokens)
        return HS_OK;
    hs_capture_destroy(*capture);
    *capture = NULL;
    return hs_capture_create(hs_engine_runtime(worker->shared->job->engine),
                             hs_model_shape(worker->shared->job->model), &worker->shared->selection, n_tokens,
                             capture, err);
}

/* Copies the part of the maps that is counted and sums its columns. */
static void head_cut(const hs__text *t, float *to, hs_observed_head *head)
{
    const size_t T = t->encoding.n_tokens, n = t->end - t->first;
    float *attention = to, *similarity = attention + n * n, *columns = similarity + n * n;
    memset(columns, 0, n * sizeof *columns);
    for (size_t i = 0; i < n; i++) {
        const size_t from = (t->first + i) * T + t->first;
        memcpy(attention + i * n, head->attention + from, n * sizeof *attention);
        memcpy(similarity + i * n, head->similarity + from, n * sizeof *similarity);
        for (size_t j = 0; j < n; j++)
            columns[j] += attention[i * n + j];
    }
    *head = (hs_observed_head){attention, similarity, columns};
}

static bool pairs_add(const hs__corpus_worker *worker, const hs__text *t, size_t l, size_t h,
                      const float *similarity)
{
    const hs__corpus_job *job = worker->shared->job;
    const hs_corpus_options *o = &worker->shared->options;
    return hs__pairs_add(worker->rows, &(hs__pairs_source){.file = hs__corpus_input_name(job, t->record.file),
                                                           .text = t->record.number,
                                                           .line = t->record.line,
                                                           .layer = o->layers[l],
                                                           .head = (uint16_t)h,
                                                           .tokenizer = hs_model_tokenizer(job->model),
                                                           .ids = t->encoding.ids + t->first,
                                                           .first = t->first,
                                                           .n_tokens = t->end - t->first,
                                                           .similarity = similarity,
                                                           .threshold = o->thresholds[o->threshold_main]});
}

/* Observer callback: counts the maps of one head of text k. */
static void head_count(void *data, size_t k, size_t l, size_t h, const hs_observed_head *shown)
{
    hs__corpus_worker *worker = data;
    hs__text *t = &worker->texts[k];
    hs_corpus_observation observation = {0};
    hs__text_head head = {.statistics = worker->stats,
                          .l = l,
                          .h = h,
                          .map = l * worker->shared->options.n_heads + h,
                          .maps = *shown,
                          .observation = t->observed ? &observation : NULL};
    if (t->end - t->first < t->encoding.n_tokens)
        head_cut(t, worker->maps + maps_floats(worker->shared->job->settings.fields.max_tokens), &head.maps);
    hs_corpus_batch_head(worker->stats, k, l, h, &head.maps, t->observed ? &observation : NULL);
    for (size_t c = 0; c < hs__n_counters; c++)
        if (counter_at(worker, c)->head)
            hs__counters[c]->head(worker->states[c], t, &head);
    if (worker->rows && !worker->rows_failed)
        worker->rows_failed = !pairs_add(worker, t, l, h, head.maps.similarity);
}

/* Adds a text to the pass. */
static hs_status pass_add(hs__corpus_worker *worker, hs__text *t, hs__text_pass *pass, hs_error *err)
{
    const size_t k = t->place = pass->n++;
    const hs_encoding *e = &t->encoding;
    hs_status st = capture_fit(worker, k, e->n_tokens, err);
    for (size_t c = 0; !st && c < hs__n_counters; c++)
        if (counter_at(worker, c)->start)
            st = hs__counters[c]->start(worker->states[c], t, err);
    pass->sequences[k] =
        (hs_sequence){.ids = e->ids,
                      .types = e->types,
                      .n_tokens = e->n_tokens,
                      .capture = worker->captures[k],
                      .interventions = worker->shared->job->settings.fields.interventions,
                      .n_interventions = worker->shared->job->settings.fields.n_interventions};
    pass->counted[k] = hs__text_counted(t);
    return st;
}

/* Runs the engine over the texts of a pass; head_count counts each head's maps on the way. */
static hs_status pass_run(hs__corpus_worker *worker, hs__text_pass *pass, hs_error *err)
{
    const hs__corpus_job *job = worker->shared->job;
    const size_t T = job->settings.fields.max_tokens;
    const hs_observer observer = {.attention = worker->maps,
                                  .similarity = worker->maps + T * T,
                                  .columns = worker->maps + 2 * T * T,
                                  .show = head_count,
                                  .context = worker,
                                  .kind = job->settings.fields.similarity};
    hs_status st = hs_corpus_batch_begin(worker->stats, pass->counted, pass->n, err);
    if (!st)
        st = hs_engine_compute(job->engine, worker->workspace, pass->sequences, pass->n, &observer,
                               &worker->shared->control, err);
    for (size_t c = 0; !st && c < hs__n_counters; c++)
        if (counter_at(worker, c)->pass)
            st = hs__counters[c]->pass(worker->states[c], pass, err);
    return st;
}

/* Counts n <= n_together texts in one pass. */
static hs_status texts_count(hs__corpus_worker *worker, hs__text *texts, size_t n, hs_error *err)
{
    hs__text_pass pass = {.workspace = worker->workspace,
                          .control = &worker->shared->control,
                          .statistics = worker->stats,
                          .texts = texts};
    hs_status st = HS_OK;
    worker->texts = texts;
    for (size_t k = 0; !st && k < n; k++)
        st = pass_add(worker, &texts[k], &pass, err);
    if (!st)
        st = pass_run(worker, &pass, err);
    if (st)
        return st;
    atomic_fetch_add(&worker->shared->n_texts, n);
    return HS_OK;
}

static hs_status block_count(hs__corpus_worker *worker, hs__block *block, hs_error *err)
{
    hs__text *texts = block->texts; /* those that are counted move to the front */
    size_t n_texts = 0;
    hs_status st = HS_OK;
    if (worker->rows)
        hs__pairs_block_begin(worker->rows, block->number);
    for (size_t i = 0; !st && i < block->n_lines; i++) {
        bool is_counted;
        st = text_read(worker, &texts[i], &is_counted, err);
        if (!st && is_counted)
            texts[n_texts++] = texts[i];
    }
    for (size_t done = 0, n; !st && done < n_texts; done += n) {
        n = n_texts - done < worker->n_together ? n_texts - done : worker->n_together;
        st = texts_count(worker, texts + done, n, err);
    }
    for (size_t i = 0; i < n_texts; i++)
        text_finish(worker, &texts[i]);
    if (!st && worker->rows && (worker->rows_failed || !hs__pairs_block_end(worker->rows)))
        st = hs_fail(err, HS_IO, "cannot write '%s'", worker->shared->job->pairs);
    return st;
}

static void fail(hs__corpus_shared *shared, const hs_error *err, hs_status st)
{
    pthread_mutex_lock(&shared->failure_lock);
    hs_fail(&shared->failure, st, "%s", err->text);
    pthread_mutex_unlock(&shared->failure_lock);
    atomic_store(&shared->failed, true);
    if (shared->pairs)
        hs__pairs_file_give_up(shared->pairs);
}

void *hs__corpus_worker_main(void *data)
{
    hs__corpus_worker *worker = data;
    hs__corpus_shared *shared = worker->shared;
    if (shared->job->yielding) /* this thread only; a failure is harmless */
        (void)sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0});
    for (hs__block *block; (block = hs__queue_pop(&shared->queue));) {
        hs_error err = {0};
        const hs_status st = atomic_load(&shared->failed) ? HS_OK : block_count(worker, block, &err);
        if (st)
            fail(shared, &err, st);
        hs__queue_return(&shared->queue, block);
    }
    return NULL;
}
