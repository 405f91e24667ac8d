/* workers.c - the threads of a run: a queue of blocks of lines, and workers that count them.
 *
 * A worker tokenizes the lines of a block, runs its texts in batches and counts each head's maps in an
 * observer. It keeps only the tokens of a line, and its beginning if the text may become an example. */
#include "server/corpus/run/workers.h"

#include "api/api.h"
#include "model/base/clock.h"
#include "model/base/utf8.h"
#include "server/base/system_errors.h"
#include "server/corpus/counters/text_pass.h"
#include "server/corpus/decoder_texts.h"

#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* ---- the queue ----
 *
 * A fixed number of blocks circulates: free -> filled by the reader -> ready -> with a worker -> free. Their
 * number and a limit on their bytes bound the memory; the reader waits when the workers are behind. Workers
 * take blocks in order, so the blocks left in the queue are always the last ones read. One lock and one
 * condition suffice, because blocks change hands a few hundred times a second at most. */

/* Fails with HS_NO_MEMORY; then nothing is to be finished. */
static hs_status queue_init(hs__block_queue *queue, size_t n_blocks, hs_error *err)
{
    *queue = (hs__block_queue){.n_blocks = n_blocks, .n_free = n_blocks};
    queue->blocks = calloc(n_blocks, sizeof *queue->blocks);
    if (!queue->blocks)
        return hs_fail(err, HS_NO_MEMORY, "no memory for texts");
    for (size_t i = 0; i < n_blocks; i++) {
        queue->blocks[i].next = queue->free;
        queue->free = &queue->blocks[i];
    }
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->changed, NULL);
    return HS_OK;
}

/* No thread may use the queue. */
static void queue_finish(hs__block_queue *queue)
{
    for (size_t i = 0; i < queue->n_blocks; i++)
        free(queue->blocks[i].bytes);
    free(queue->blocks);
    pthread_cond_destroy(&queue->changed);
    pthread_mutex_destroy(&queue->lock);
}

/* Waits with the lock held. False: timeout. */
static bool wait_until(hs__block_queue *queue, const struct timespec *end)
{
    return pthread_cond_clockwait(&queue->changed, &queue->lock, CLOCK_MONOTONIC, end) == 0;
}

hs__block *hs__workers_block(hs__workers *workers, unsigned milliseconds)
{
    hs__block_queue *queue = &workers->queue;
    const struct timespec end = hs_clock_after_ms(milliseconds);
    pthread_mutex_lock(&queue->lock);
    while ((!queue->free || queue->n_bytes > HS__QUEUE_BYTES) && wait_until(queue, &end))
        ;
    hs__block *block = queue->n_bytes > HS__QUEUE_BYTES ? NULL : queue->free;
    if (block) {
        queue->free = block->next;
        queue->n_free--;
        block->n_lines = block->n_bytes = 0;
        block->pushed = false;
    }
    pthread_mutex_unlock(&queue->lock);
    return block;
}

/* Points the records to their bytes, which no longer move. */
static void records_place(hs__block *block)
{
    const char *at = block->bytes;
    for (size_t i = 0; at && i < block->n_lines; i++) {
        block->texts[i].record.bytes = at;
        at += block->texts[i].record.n_bytes;
    }
}

/* Numbers a block and hands it to the workers. */
static void queue_push(hs__block_queue *queue, hs__block *block)
{
    records_place(block);
    pthread_mutex_lock(&queue->lock);
    block->next = NULL;
    block->pushed = true;
    block->number = queue->n_pushed++;
    *(queue->ready ? &queue->last->next : &queue->ready) = block;
    queue->last = block;
    queue->n_bytes += block->n_bytes;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

/* Frees a block, with the lock held. */
static void block_free(hs__block_queue *queue, hs__block *block)
{
    if (block->capacity > HS__BLOCK_KEPT_BYTES) {
        free(block->bytes);
        block->bytes = NULL;
        block->capacity = 0;
    }
    block->next = queue->free;
    queue->free = block;
    queue->n_free++;
    pthread_cond_broadcast(&queue->changed);
}

/* Takes back a block that is finished, or was not filled. */
static void queue_return(hs__block_queue *queue, hs__block *block)
{
    pthread_mutex_lock(&queue->lock);
    queue->n_bytes -= block->pushed ? block->n_bytes : 0;
    block_free(queue, block);
    pthread_mutex_unlock(&queue->lock);
}

void hs__workers_block_end(hs__workers *workers, hs__block *block, bool filled)
{
    if (filled)
        queue_push(&workers->queue, block);
    else
        queue_return(&workers->queue, block);
}

/* Drops all blocks that no worker has taken. Returns true if there were any; *ret_position is where the first
 * of them begins. */
static bool queue_drop(hs__block_queue *queue, hs__input_position *ret_position)
{
    pthread_mutex_lock(&queue->lock);
    const bool any = queue->ready != NULL;
    if (any)
        *ret_position = queue->ready->before;
    for (hs__block *block; (block = queue->ready);) {
        queue->ready = block->next;
        queue->n_bytes -= block->n_bytes;
        block_free(queue, block);
    }
    pthread_mutex_unlock(&queue->lock);
    return any;
}

bool hs__workers_idle(hs__workers *workers, unsigned milliseconds)
{
    hs__block_queue *queue = &workers->queue;
    const struct timespec end = hs_clock_after_ms(milliseconds);
    pthread_mutex_lock(&queue->lock);
    while (queue->n_free < queue->n_blocks && wait_until(queue, &end))
        ;
    const bool idle = queue->n_free == queue->n_blocks;
    pthread_mutex_unlock(&queue->lock);
    return idle;
}

/* Lets the workers end once no block is ready. */
static void queue_close(hs__block_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->closed = true;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

/* Takes the next ready block, and waits for it. Returns NULL if the queue is closed and empty. */
static hs__block *queue_pop(hs__block_queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    while (!queue->ready && !queue->closed)
        pthread_cond_wait(&queue->changed, &queue->lock);
    hs__block *block = queue->ready;
    if (block)
        queue->ready = block->next;
    pthread_mutex_unlock(&queue->lock);
    return block;
}

/* ---- a worker ---- */

typedef struct corpus_worker {
    hs__workers *shared;
    pthread_t thread;
    bool started;
    hs_workspace *workspace;
    hs__source_states *sources; /* of a decoder; else NULL */
    hs_corpus_stats *stats;
    size_t n_together;                     /* texts of one pass, HS_CORPUS_BATCH at most */
    hs_capture *captures[HS_CORPUS_BATCH]; /* name the observed heads; reused for texts of the same length */
    void *states[HS__N_COUNTERS];          /* of the counters; NULL: the counter has nothing to do */
    float *maps;                           /* [hs__pass_floats] */
    hs__text texts[HS_CORPUS_BATCH];       /* of the current pass */
    size_t n_texts;
} corpus_worker;

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
    for (size_t c = 0; c < HS__N_COUNTERS; c++)
        if (hs__counters[c]->configure)
            hs__counters[c]->configure(settings->options[c], settings, statistics, &taps);
    if (ret_taps)
        *ret_taps = taps;
}

/* Returns the options without what counters set. */
static hs_corpus_options options_base(const hs__corpus_job *job)
{
    const hs_shape *shape = hs_engine_shape(job->engine);
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
                               .distances = job->settings.distances,
                               .crosses = hs__corpus_crosses(job),
                               .map_step = hs__corpus_map_step(&job->settings)};
}

hs_corpus_options hs__corpus_options_of(const hs__corpus_job *job)
{
    hs_corpus_options options = options_base(job);
    counters_configure(&job->settings, &options, NULL);
    return options;
}

static hs_status states_create(corpus_worker *worker, hs_error *err)
{
    hs_status st = HS_OK;
    for (size_t c = 0; !st && c < HS__N_COUNTERS; c++)
        st = hs__counter_worker_create(&worker->shared->counting[c], worker->states, &worker->states[c], err);
    return st;
}

/* Initialises a worker. Takes ownership of saved statistics; NULL: it begins with empty ones. Call
 * worker_finish after a failure too. */
static hs_status worker_init(corpus_worker *worker, hs__workers *shared, hs_corpus_stats *saved,
                             hs_error *err)
{
    const hs__corpus_job *job = shared->job;
    const size_t T = job->settings.fields.max_tokens;
    *worker = (corpus_worker){.shared = shared, .stats = saved, .n_together = hs__corpus_together(job)};
    worker->maps = malloc(hs__pass_floats(&job->settings) * sizeof *worker->maps);
    if (!worker->maps)
        return hs_fail(err, HS_NO_MEMORY, "no memory for a worker");
    hs_status st = states_create(worker, err);
    if (!st)
        st = hs_workspace_create(job->engine, worker->n_together * T, &worker->workspace, err);
    if (!st && job->encoder)
        st = hs__source_states_create(job, worker->n_together, T, &worker->sources, err);
    return st || worker->stats ? st : hs_corpus_stats_create(&shared->options, &worker->stats, err);
}

static void worker_finish(corpus_worker *worker)
{
    for (size_t k = 0; k < HS_CORPUS_BATCH; k++)
        hs_capture_destroy(worker->captures[k]);
    for (size_t c = 0; c < HS__N_COUNTERS; c++)
        hs__counter_worker_destroy(worker->states[c]);
    hs_corpus_stats_destroy(worker->stats);
    hs__source_states_destroy(worker->sources);
    hs_workspace_destroy(worker->workspace);
    free(worker->maps);
    *worker = (corpus_worker){0};
}

/* Adds the statistics of `from` to those of a worker, which may be the same, and its other counts to the
 * results. Empties it. HS_TOO_LARGE, HS_NO_MEMORY. */
static hs_status worker_gather(corpus_worker *worker, corpus_worker *from, hs_error *err)
{
    hs_status st = HS_OK;
    for (size_t c = 0; !st && c < HS__N_COUNTERS; c++)
        st = hs__counter_gather(&from->shared->counting[c], from->states[c], err);
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
static const hs__counter *counter_at(const corpus_worker *worker, size_t c)
{
    return worker->states[c] ? hs__counters[c] : &idle;
}

/* ---- lines to texts ---- */

static hs_status bad(hs__workers *shared, const hs__record *line, const char *why, hs_error *err)
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
static hs_status record_read(corpus_worker *worker, hs__text *t, hs_error *err)
{
    const hs__record *record = &t->record;
    if (record->too_long) {
        snprintf(t->body.why, sizeof t->body.why, "longer than %zu bytes", HS__RECORD_BYTES_MAX);
        return HS_BAD_REQUEST;
    }
    hs_status st = hs__record_text_find(&record->layout, &worker->shared->job->settings.input, record->bytes,
                                        record->n_bytes, &t->body);
    const hs__corpus_job *job = worker->shared->job;
    if (!st && t->body.pair.bytes && !job->encoder && job->settings.fields.special_masked) {
        snprintf(t->body.why, sizeof t->body.why,
                 "a pair has a special token between its texts: special_tokens must be keep");
        return HS_BAD_REQUEST;
    }
    for (size_t c = 0; !st && c < HS__N_COUNTERS; c++)
        if (counter_at(worker, c)->record)
            st = hs__counters[c]->record(worker->states[c], t, err);
    return st;
}

static void text_finish(const corpus_worker *worker, hs__text *t)
{
    for (size_t c = 0; c < HS__N_COUNTERS; c++)
        if (counter_at(worker, c)->text_end)
            hs__counters[c]->text_end(worker->states[c], t);
    free((void *)t->reached.bytes);
    free((void *)t->reached_pair.bytes);
    hs_encoding_finish(&t->source);
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

/* Finds the range of tokens that are counted: all, without the special ones at both ends if these are masked.
 */
static void range_find(const hs__corpus_settings *settings, const hs_encoding *encoding, size_t *ret_first,
                       size_t *ret_end)
{
    const uint8_t *special = encoding->special;
    size_t first = 0, end = encoding->n_tokens;
    while (settings->fields.special_masked && first < end && special[first])
        first++;
    while (settings->fields.special_masked && first < end && special[end - 1])
        end--;
    *ret_first = first;
    *ret_end = end;
}

/* Returns true if there is a token of the text itself. Tokens of a prompt alone end where the text begins. */
static bool has_token(const hs_encoding *encoding, bool prompted)
{
    for (size_t i = 0; i < encoding->n_tokens; i++)
        if (!encoding->special[i] && !(prompted && encoding->ends[i] == 0))
            return true;
    return false;
}

/* Encodes a text or a pair, or both texts of a decoder. Sets whether each has a token of its own. */
static hs_status tokens_make(const hs__corpus_job *job, hs__text *t, bool *ret_has_token, hs_error *err)
{
    const hs__corpus_settings *settings = &job->settings;
    const size_t tokens_max = settings->fields.max_tokens;
    const hs_encode_options options = {.tokens_max = settings->windows ? HS_WINDOWS_TOKENS_MAX : tokens_max,
                                       .split_special_tokens = settings->fields.split_special_tokens,
                                       .language = settings->fields.source_language};
    size_t n_prompt = 0;
    const hs_status st = job->encoder
                             ? hs__decoder_texts_encode(job, &t->body.text, &t->body.pair, tokens_max,
                                                        &t->source, &t->encoding, err)
                             : hs_prompt_encode(hs_model_tokenizer(job->model), settings->fields.prompt,
                                                &t->body.text, t->body.pair.bytes ? &t->body.pair : NULL,
                                                &options, &t->encoding, &n_prompt, err);
    *ret_has_token =
        !st && has_token(&t->encoding, n_prompt > 0) && (!job->encoder || has_token(&t->source, false));
    return st;
}

/* Encodes a line's text or pair and plans its windows. HS_BAD_REQUEST: it is not UTF-8. HS_INVALID: it cannot
 * be cut into windows. HS_NOT_FOUND: it is empty, and the tokenizer puts nothing but its special tokens in
 * its place. */
static hs_status text_encode(hs__workers *shared, hs__text *t, hs_windows *ret_windows, hs_error *err)
{
    const hs__corpus_settings *settings = &shared->job->settings;
    bool is_text;
    *ret_windows = (hs_windows){.n = 1};
    hs_status st = tokens_make(shared->job, t, &is_text, err);
    if (st)
        return st;
    roles_set(settings, &t->encoding);
    roles_set(settings, &t->source);
    if (!is_text)
        st = HS_NOT_FOUND;
    else if (settings->windows)
        st = hs_windows_plan(&t->encoding, settings->fields.max_tokens, settings->fields.stride, ret_windows,
                             err);
    if (st) {
        hs_encoding_finish(&t->source);
        hs_encoding_finish(&t->encoding);
    }
    return st;
}

/* Shows an encoded text to the counters. */
static hs_status text_show(corpus_worker *worker, hs__text *t, hs_error *err)
{
    hs_status st = HS_OK;
    for (size_t c = 0; !st && c < HS__N_COUNTERS; c++)
        if (counter_at(worker, c)->text)
            st = hs__counters[c]->text(worker->states[c], t, err);
    hs__sentence_finish(&t->sentence);
    return st;
}

static hs_status texts_count(corpus_worker *worker, hs_error *err);

/* Releases the texts of the pass. */
static void texts_finish(corpus_worker *worker)
{
    for (size_t k = 0; k < worker->n_texts; k++)
        text_finish(worker, &worker->texts[k]);
    worker->n_texts = 0;
}

/* Adds an encoded text, or a window, to the pass, which is counted once it is full. Takes ownership of it. */
static hs_status text_add(corpus_worker *worker, hs__text *t, hs_error *err)
{
    const hs__corpus_job *job = worker->shared->job;
    range_find(&job->settings, &t->encoding, &t->first, &t->end);
    range_find(&job->settings, hs__text_keys(job, t), &t->key_first, &t->key_end);
    hs_status st = text_show(worker, t, err);
    worker->texts[worker->n_texts++] = *t;
    if (st || worker->n_texts < worker->n_together)
        return st;
    st = texts_count(worker, err);
    texts_finish(worker);
    return st;
}

/* Adds a text, or all its windows. Takes ownership of its encoding. */
static hs_status windows_add(corpus_worker *worker, hs__text *t, const hs_windows *windows, hs_error *err)
{
    hs_status st = HS_OK;
    if (windows->n == 1)
        return text_add(worker, t, err);
    for (size_t w = 0; !st && w < windows->n; w++) {
        hs__text window = *t;
        window.window = w;
        st = hs_window_make(windows, &t->encoding, w, &window.encoding, err);
        if (!st)
            st = text_add(worker, &window, err);
    }
    hs_encoding_finish(&t->encoding);
    return st;
}

/* Reads and encodes a text and adds it to the pass, unless it is empty or one of the bad lines. */
static hs_status text_read(corpus_worker *worker, hs__text *t, hs_error *err)
{
    hs__workers *shared = worker->shared;
    hs_error why_not = {.text = "no memory for a text"};
    hs_windows windows;
    hs_status st = record_read(worker, t, &why_not);
    if (!st) {
        st = text_encode(shared, t, &windows, &why_not);
        snprintf(t->body.why, sizeof t->body.why, "%.*s", (int)sizeof t->body.why - 1,
                 st == HS_BAD_REQUEST ? "not valid UTF-8" : why_not.text);
    }
    if (!st) {
        st = windows_add(worker, t, &windows, err); /* a failure of a counter is no bad line */
    } else if (st == HS_NOT_FOUND) {
        atomic_fetch_add(&shared->n_empty, 1);
        st = HS_OK;
    } else if (st == HS_BAD_REQUEST || st == HS_TOO_LARGE || st == HS_INVALID)
        st = bad(shared, &t->record, t->body.why, err);
    else
        hs_fail(err, st, "%s", why_not.text);
    hs__record_text_finish(&t->body);
    return st;
}

/* ---- a block ---- */

static hs_status capture_fit(corpus_worker *worker, size_t k, const hs__text *t, hs_error *err)
{
    const hs__corpus_job *job = worker->shared->job;
    hs_capture **capture = &worker->captures[k];
    const size_t n_tokens = t->encoding.n_tokens, n_keys = hs__text_keys(job, t)->n_tokens;
    hs_selection selection = worker->shared->selection;
    if (*capture && (*capture)->n_tokens == n_tokens && (*capture)->n_keys == n_keys)
        return HS_OK;
    hs_capture_destroy(*capture);
    *capture = NULL;
    selection.n_memory = hs__corpus_crosses(job) ? n_keys : 0;
    return hs_capture_create(hs_engine_runtime(job->engine), hs_engine_shape(job->engine), &selection,
                             n_tokens, capture, err);
}

/* Adds a text to the pass. */
static hs_status pass_add(corpus_worker *worker, hs__text *t, hs__text_pass *pass, hs_error *err)
{
    const size_t k = t->place = pass->n++;
    const hs_encoding *e = &t->encoding;
    const hs__corpus_job *job = worker->shared->job;
    const hs_encoding *keys = hs__text_keys(job, t);
    hs_status st = capture_fit(worker, k, t, err);
    for (size_t c = 0; !st && c < HS__N_COUNTERS; c++)
        if (counter_at(worker, c)->start)
            st = hs__counters[c]->start(worker->states[c], t, err);
    pass->sequences[k] = (hs_sequence){.ids = e->ids,
                                       .types = e->types,
                                       .n_tokens = e->n_tokens,
                                       .capture = worker->captures[k],
                                       .interventions = job->settings.fields.interventions,
                                       .n_interventions = job->settings.fields.n_interventions};
    pass->keys[k] = hs__text_tokens(keys, t->key_first, t->key_end);
    pass->counted[k] = hs__text_counted(t);
    pass->counted[k].keys = &pass->keys[k];
    return st;
}

/* Computes the states that the decoder's sequences read. */
static hs_status sources_compute(corpus_worker *worker, hs__text_pass *pass, hs_error *err)
{
    const hs_encoding *sources[HS_CORPUS_BATCH];
    for (size_t k = 0; k < pass->n; k++)
        sources[k] = &pass->texts[k].source;
    return hs__source_states_compute(worker->sources, sources, pass->n, &worker->shared->control,
                                     pass->sequences, err);
}

/* Shows a head to the counters. */
static void head_show(void *data, hs__text *t, hs__text_head *head)
{
    corpus_worker *worker = data;
    for (size_t c = 0; c < HS__N_COUNTERS; c++)
        if (counter_at(worker, c)->head)
            hs__counters[c]->head(worker->states[c], t, head);
}

/* Runs the engine over the texts of a pass; head_show sees each head on the way. */
static hs_status pass_run(corpus_worker *worker, hs__text_pass *pass, hs_error *err)
{
    const hs__corpus_job *job = worker->shared->job;
    const hs__pass_observer observer = {job, worker->maps, head_show, worker};
    hs_status st = worker->sources ? sources_compute(worker, pass, err) : HS_OK;
    if (!st)
        st = hs__pass_observe(job->engine, &observer, pass, err);
    for (size_t c = 0; !st && c < HS__N_COUNTERS; c++)
        if (counter_at(worker, c)->pass)
            st = hs__counters[c]->pass(worker->states[c], pass, err);
    return st;
}

/* Counts the texts of the pass. */
static hs_status texts_count(corpus_worker *worker, hs_error *err)
{
    hs__text_pass pass = {.workspace = worker->workspace,
                          .control = &worker->shared->control,
                          .statistics = worker->stats,
                          .texts = worker->texts};
    hs_status st = HS_OK;
    size_t n_records = 0;
    for (size_t k = 0; !st && k < worker->n_texts; k++) {
        st = pass_add(worker, &worker->texts[k], &pass, err);
        n_records += worker->texts[k].window == 0;
    }
    if (!st && pass.n)
        st = pass_run(worker, &pass, err);
    if (st)
        return st;
    atomic_fetch_add(&worker->shared->n_texts, n_records);
    return HS_OK;
}

static hs_status block_count(corpus_worker *worker, hs__block *block, hs_error *err)
{
    hs_status st = HS_OK;
    for (size_t c = 0; c < HS__N_COUNTERS; c++)
        if (counter_at(worker, c)->block)
            hs__counters[c]->block(worker->states[c], block->number);
    for (size_t i = 0; !st && i < block->n_lines; i++)
        st = text_read(worker, &block->texts[i], err);
    if (!st)
        st = texts_count(worker, err);
    texts_finish(worker);
    for (size_t c = 0; !st && c < HS__N_COUNTERS; c++)
        if (counter_at(worker, c)->block_end)
            st = hs__counters[c]->block_end(worker->states[c], err);
    return st;
}

static void fail(hs__workers *shared, const hs_error *err, hs_status st)
{
    pthread_mutex_lock(&shared->failure_lock);
    hs_fail(&shared->failure, st, "%s", err->text);
    pthread_mutex_unlock(&shared->failure_lock);
    atomic_store(&shared->failed, true);
    for (size_t c = 0; c < HS__N_COUNTERS; c++)
        if (hs__counters[c]->interrupt)
            hs__counters[c]->interrupt(&shared->counting[c]);
}

/* Thread function: takes blocks until the queue is closed. Sets shared->failure at the first failure; from
 * then on all workers return blocks uncounted. */
static void *worker_main(void *data)
{
    corpus_worker *worker = data;
    hs__workers *shared = worker->shared;
    if (shared->job->yielding) /* this thread only; a failure is harmless */
        (void)sched_setscheduler(0, SCHED_IDLE, &(struct sched_param){0});
    for (hs__block *block; (block = queue_pop(&shared->queue));) {
        hs_error err = {0};
        const hs_status st = atomic_load(&shared->failed) ? HS_OK : block_count(worker, block, &err);
        if (st)
            fail(shared, &err, st);
        queue_return(&shared->queue, block);
    }
    return NULL;
}

/* ---- all workers ---- */

hs_status hs__workers_init(hs__workers *shared, const hs__corpus_job *job, hs__corpus_results *results,
                           hs_error *err)
{
    shared->job = job;
    if (queue_init(&shared->queue, 3 * job->n_workers, err))
        return HS_NO_MEMORY;
    pthread_mutex_init(&shared->failure_lock, NULL);
    shared->options = options_base(job);
    shared->control = (hs_run_control){.cancelled = &shared->abandoned};
    shared->selection = (hs_selection){.layers = job->settings.fields.layers,
                                       .n_layers = job->settings.fields.n_layers,
                                       .heads = hs_all_numbers,
                                       .n_heads = shared->options.n_heads};
    counters_configure(&job->settings, &shared->options, &shared->selection.taps);
    for (size_t c = 0; c < HS__N_COUNTERS; c++)
        shared->counting[c] = (hs__counting){.counter = hs__counters[c],
                                             .job = job,
                                             .options = job->settings.options[c],
                                             .results = results,
                                             .counts = &results->counts[c],
                                             .statistics = &shared->options};
    return HS_OK;
}

/* Starts the threads. They block signals: one must interrupt a read that waits on the reader's thread. */
static hs_status threads_start(hs__workers *workers, hs_error *err)
{
    sigset_t all, before;
    hs_status st = HS_OK;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (size_t i = 0; !st && i < workers->job->n_workers; i++) {
        corpus_worker *worker = &workers->list[i];
        const int why = pthread_create(&worker->thread, NULL, worker_main, worker);
        worker->started = !why;
        if (why)
            st = hs_fail(err, HS_NO_MEMORY, "%zu of %zu workers can be started: %s; use fewer workers", i,
                         workers->job->n_workers, hs__errno_text(why));
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return st;
}

hs_status hs__workers_start(hs__workers *workers, hs_corpus_stats *saved, hs__bad_lines *bad, hs_error *err)
{
    const size_t n = workers->job->n_workers;
    workers->bad = bad;
    workers->list = calloc(n, sizeof *workers->list);
    if (!workers->list) {
        hs_corpus_stats_destroy(saved);
        return hs_fail(err, HS_NO_MEMORY, "no memory for %zu workers", n);
    }
    for (size_t i = 0; i < n; i++) { /* the first worker continues the saved statistics */
        const hs_status st = worker_init(&workers->list[i], workers, i ? NULL : saved, err);
        if (st)
            return st;
    }
    workers->stats = workers->list[0].stats;
    workers->workspace = workers->list[0].workspace;
    return threads_start(workers, err);
}

void hs__workers_stop(hs__workers *workers)
{
    const size_t n = workers->list ? workers->job->n_workers : 0;
    queue_close(&workers->queue);
    for (size_t i = 0; i < n; i++)
        if (workers->list[i].started)
            pthread_join(workers->list[i].thread, NULL);
    for (size_t i = 0; i < n; i++)
        worker_finish(&workers->list[i]);
    free(workers->list);
    queue_finish(&workers->queue);
    pthread_mutex_destroy(&workers->failure_lock);
}

hs_status hs__workers_gather(hs__workers *workers, hs_error *err)
{
    hs_status st = HS_OK;
    for (size_t i = 0; !st && i < workers->job->n_workers; i++)
        st = worker_gather(&workers->list[0], &workers->list[i], err);
    return st;
}

bool hs__workers_hurry(hs__workers *workers, bool abandon, hs__input_position *ret_position)
{
    if (abandon)
        atomic_store(&workers->abandoned, 1);
    const bool dropped =
        queue_drop(&workers->queue, ret_position); /* before a worker gets time to take more */
    for (size_t i = 0; workers->job->yielding && i < workers->job->n_workers; i++)
        (void)pthread_setschedparam(workers->list[i].thread, SCHED_OTHER, &(struct sched_param){0});
    return dropped;
}
