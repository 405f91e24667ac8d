/* worker.c - tokenizes the lines of a block, runs its texts in batches and counts each head's maps in an
 * observer.
 *
 * A worker keeps only the tokens of a line, and its beginning if the text may become an example. */
#include "server/corpus/run/worker.h"

#include "api/prompt.h"
#include "model/base/utf8.h"
#include "server/corpus/input/record_text.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* Token limit of a batched pass. */
#define TOGETHER_TOKENS ((size_t)4096)
/* Limit on the text of an example, for very long words: otherwise the window bounds it. */
#define EXAMPLE_BYTES 16384

/* ---- lifetime ---- */

static size_t threshold_main(const hs__corpus_job *job)
{
    size_t best = 0;
    for (size_t t = 1; t < job->settings.n_thresholds; t++)
        if (fabsf(job->settings.thresholds[t] - 0.3f) < fabsf(job->settings.thresholds[best] - 0.3f))
            best = t;
    return best;
}

hs_corpus_options hs__corpus_options_of(const hs__corpus_job *job)
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
                               .distances = job->settings.distances,
                               .masked = job->settings.masked_share > 0};
}

hs__text_index_options hs__corpus_index_options(const hs__corpus_job *job)
{
    return (hs__text_index_options){.n_texts = job->settings.n_search_texts,
                                    .n_examples = job->settings.n_examples,
                                    .layers = job->settings.fields.layers,
                                    .n_layers = job->settings.fields.n_layers,
                                    .n_heads = hs_model_shape(job->model)->n_heads,
                                    .tokenizer = hs_model_tokenizer(job->model)};
}

size_t hs__corpus_together(const hs__corpus_job *job)
{
    const size_t tokens_max = job->settings.fields.max_tokens;
    if (job->settings.distances)
        return 1;
    const size_t n = tokens_max < TOGETHER_TOKENS ? TOGETHER_TOKENS / tokens_max : 1;
    return n < HS_CORPUS_BATCH ? n : HS_CORPUS_BATCH;
}

static size_t maps_floats(size_t T)
{
    return 2 * T * T + T;
}

size_t hs__worker_map_floats(const hs__corpus_settings *settings)
{
    return maps_floats(settings->fields.max_tokens) * (settings->fields.special_masked ? 2 : 1);
}

void hs__corpus_shared_init(hs__corpus_shared *shared)
{
    const hs__corpus_job *job = shared->job;
    const hs_shape *shape = hs_model_shape(job->model);
    shared->options = hs__corpus_options_of(job);
    shared->control = (hs_run_control){.cancelled = &shared->abandoned};
    shared->selection = (hs_selection){.layers = job->settings.fields.layers,
                                       .n_layers = job->settings.fields.n_layers,
                                       .heads = hs_all_numbers,
                                       .n_heads = shape->n_heads,
                                       .taps = *job->settings.input.label_field ? HS_KEEP(LAST_STATE) : 0};
}

hs_status hs__corpus_worker_init(hs__corpus_worker *worker, hs__corpus_shared *shared,
                                 const hs__worker_counts *counts, hs_error *err)
{
    const hs__corpus_job *job = shared->job;
    const size_t T = job->settings.fields.max_tokens;
    *worker = (hs__corpus_worker){.shared = shared,
                                  .stats = counts->stats,
                                  .syntax = counts->syntax,
                                  .n_together = hs__corpus_together(job)};
    worker->labelling.labels = counts->labels;
    worker->maps = malloc(hs__worker_map_floats(&job->settings) * sizeof *worker->maps);
    worker->rows = shared->pairs ? hs__pairs_rows_create(shared->pairs) : NULL;
    if (shared->index) {
        const hs__text_index_options options = hs__corpus_index_options(job);
        worker->records = hs__text_records_create(&options, worker->n_together);
    }
    if (!worker->maps || (shared->pairs && !worker->rows) || (shared->index && !worker->records))
        return hs_fail(err, HS_NO_MEMORY, "no memory for a worker");
    hs_status st = hs__corpus_masking_init(&worker->masking, job, err);
    if (!st)
        st = hs__corpus_labelling_init(&worker->labelling, job, err);
    if (!st)
        st = hs_workspace_create(job->engine, worker->n_together * T, &worker->workspace, err);
    return st || worker->stats ? st : hs_corpus_stats_create(&shared->options, &worker->stats, err);
}

void hs__corpus_worker_finish(hs__corpus_worker *worker)
{
    for (size_t k = 0; k < HS_CORPUS_BATCH; k++) {
        hs_capture_destroy(worker->captures[k]);
        free(worker->figures[k]);
    }
    hs_corpus_stats_destroy(worker->stats);
    hs_workspace_destroy(worker->workspace);
    hs__corpus_masking_finish(&worker->masking);
    hs__corpus_labelling_finish(&worker->labelling);
    free(worker->maps);
    hs__pairs_rows_destroy(worker->rows);
    hs__text_records_destroy(worker->records, worker->n_together);
    hs_syntax_destroy(worker->syntax);
    *worker = (hs__corpus_worker){0};
}

static hs_status syntax_gather(hs__corpus_worker *worker, hs__corpus_worker *from, hs_error *err)
{
    hs_status st = HS_OK;
    if (worker->syntax && from->syntax) {
        st = hs_syntax_merge(worker->syntax, from->syntax, err);
        hs_syntax_destroy(from->syntax);
    } else if (from->syntax) {
        worker->syntax = from->syntax;
    }
    from->syntax = NULL;
    return st;
}

hs_status hs__corpus_worker_gather(hs__corpus_worker *worker, hs__corpus_worker *from, hs_error *err)
{
    hs_status st = syntax_gather(worker, from, err);
    if (worker->labelling.labels)
        hs_labels_gather(worker->labelling.labels, from->labelling.labels);
    if (st || !hs_corpus_stats_texts(from->stats))
        return st;
    st = hs_corpus_stats_merge(worker->stats, from->stats, err);
    hs_corpus_stats_destroy(from->stats);
    from->stats = NULL;
    return st ? st : hs_corpus_stats_create(&worker->shared->options, &from->stats, err);
}

/* ---- lines to texts ---- */

/* One text of a block, tokenized. */
typedef struct hs__counted_text {
    const hs__block_line *line;
    char *reached; /* its beginning if it may become an example, else NULL */
    hs_encoding encoding;
    hs__text_range range;    /* the tokens that are counted */
    hs_syntax_text syntax;   /* counted in the range; words owned */
    hs__token_label *labels; /* owned: of the range's tokens, or NULL */
    size_t label;            /* of labelled texts */
    bool has_words;          /* of a sentence */
    bool sampled;            /* it may become one of the random sample */
    bool searched;           /* its pairs are kept for searches */
} text;

static hs_status bad(hs__corpus_shared *shared, const hs__block_line *line, const char *why, hs_error *err)
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

/* Finds the label of a line among those of the model. HS_BAD_REQUEST, HS_NO_MEMORY as in line_parse. */
static hs_status label_parse(const hs__corpus_shared *shared, const hs__block_line *line, const char *bytes,
                             hs__record_text *value, size_t *ret_label)
{
    const hs_task_head *head = &hs_model_architecture(shared->job->model)->task_head;
    char *label = NULL;
    hs_status st = hs__record_label_find(&line->layout, shared->job->settings.input.label_field, bytes,
                                         line->n_bytes, value, &label);
    if (!st && !hs__label_find(head, label, ret_label)) {
        snprintf(value->why, sizeof value->why, "the label \"%.60s\" is none of the model's %zu labels",
                 label, head->n_classes);
        st = HS_BAD_REQUEST;
    }
    free(label);
    return st;
}

/* Finds the text of a line, and its label if texts have one. HS_BAD_REQUEST: there is none; ret_value->why is
 * the reason. */
static hs_status line_parse(const hs__corpus_shared *shared, const hs__block_line *line, const char *bytes,
                            hs__record_text *ret_value, size_t *ret_label)
{
    const hs__input_format *input = &shared->job->settings.input;
    if (!line->too_long) {
        const hs_status st =
            hs__record_text_find(&line->layout, input->field, bytes, line->n_bytes, ret_value);
        return st || !*input->label_field ? st : label_parse(shared, line, bytes, ret_value, ret_label);
    }
    *ret_value = (hs__record_text){0};
    snprintf(ret_value->why, sizeof ret_value->why, "longer than %zu bytes", HS__RECORD_BYTES_MAX);
    return HS_BAD_REQUEST;
}

static void text_finish(text *t)
{
    free(t->reached);
    free(t->syntax.words);
    free(t->labels);
    hs_encoding_finish(&t->encoding);
}

/* Copies the text up to its last token or first NUL. NULL if memory is short. */
static char *text_reached(const hs_text *bytes, const hs_encoding *encoding)
{
    uint32_t n_points = 0;
    for (size_t i = 0; i < encoding->n_tokens; i++)
        n_points = encoding->ends[i] > n_points ? encoding->ends[i] : n_points;
    const size_t n_most = bytes->n_bytes < EXAMPLE_BYTES ? bytes->n_bytes : EXAMPLE_BYTES;
    const size_t n = hs_utf8_whole(bytes->bytes, strnlen(bytes->bytes, n_most));
    return strndup(bytes->bytes, hs_utf8_offset(bytes->bytes, n, n_points));
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

/* Returns the range of all tokens, without the special ones at both ends if these are masked. */
static hs__text_range range_of(const hs__corpus_settings *settings, const hs_encoding *encoding)
{
    hs__text_range range = {0, encoding->n_tokens, encoding->n_tokens};
    while (settings->fields.special_masked && range.start < range.end && encoding->special[range.start])
        range.start++;
    while (settings->fields.special_masked && range.start < range.end && encoding->special[range.end - 1])
        range.end--;
    return range;
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
static hs_status text_encode(hs__corpus_shared *shared, const hs_text *bytes, text *t, hs_error *err)
{
    const hs__corpus_settings *settings = &shared->job->settings;
    const hs_encode_options options = {settings->fields.max_tokens, settings->fields.split_special_tokens};
    size_t n_prompt;
    const hs_status st = hs_prompt_encode(hs_model_tokenizer(shared->job->model), settings->fields.prompt,
                                          bytes, NULL, &options, &t->encoding, &n_prompt, err);
    if (st)
        return st;
    roles_set(settings, &t->encoding);
    t->range = range_of(settings, &t->encoding);
    if (!has_token(&t->encoding, n_prompt > 0))
        return HS_NOT_FOUND;
    t->sampled = hs__example_sample_wants(shared->sample, t->line->number);
    t->searched = shared->index && hs__text_index_wants(shared->index, t->line->number);
    if (!t->sampled && !t->searched && !settings->n_examples)
        return HS_OK;
    t->reached = text_reached(bytes, &t->encoding);
    return t->reached ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory for an example");
}

/* Finds the words of a CoNLL-U sentence, if its text has them. */
static hs_status words_find(hs__corpus_worker *worker, const char *record, const hs_text *bytes, text *t,
                            hs_error *err)
{
    const hs_corpus_options *o = &worker->shared->options;
    hs__sentence sentence;
    hs_status st = HS_OK;
    if (t->line->layout.format != HS__FORMAT_CONLLU)
        return HS_OK;
    if (!worker->syntax)
        st = hs_syntax_create(o->n_layers, o->n_heads, &worker->syntax, err);
    if (st)
        return st;
    st = hs__sentence_find(record, t->line->n_bytes, bytes, &sentence);
    t->has_words = st == HS_OK;
    if (!st)
        st = hs__sentence_words_make(&sentence, &t->encoding, t->range.start, t->range.end, worker->syntax,
                                     &t->syntax, err);
    else if (st == HS_NO_MEMORY)
        hs_fail(err, st, "no memory for the words of a sentence");
    if (!st && worker->records) {
        t->labels = hs__token_labels_make(&sentence, t->syntax.words, t->syntax.n_tokens);
        st = t->labels ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory for the words of a sentence");
    }
    hs__sentence_finish(&sentence);
    hs_syntax_sentences_of(worker->syntax)->unread += st == HS_NOT_FOUND;
    return st == HS_NOT_FOUND ? HS_OK : st;
}

/* Adds the line's text to texts, or to the bad lines. */
static hs_status text_add(hs__corpus_worker *worker, const hs__block *block, const hs__block_line *line,
                          text *texts, size_t *n_texts, hs_error *err)
{
    hs__corpus_shared *shared = worker->shared;
    text *t = &texts[*n_texts];
    hs_error why_not = {.text = "no memory for a text"};
    hs__record_text value;
    *t = (text){.line = line};
    hs_status st = line_parse(shared, line, block->bytes + line->start, &value, &t->label);
    if (!st) {
        st = text_encode(shared, &value.text, t, &why_not);
        snprintf(value.why, sizeof value.why, "%.*s", (int)sizeof value.why - 1,
                 st == HS_TOO_LARGE ? why_not.text : "not valid UTF-8");
    }
    const hs_status words = st ? st : words_find(worker, block->bytes + line->start, &value.text, t, err);
    if (words)
        text_finish(t);
    else
        (*n_texts)++;
    if (!st) {
        st = words; /* a treebank that cannot be counted is no bad line */
    } else if (st == HS_NOT_FOUND) {
        atomic_fetch_add(&shared->n_empty, 1);
        st = HS_OK;
    } else if (st == HS_BAD_REQUEST || st == HS_TOO_LARGE)
        st = bad(shared, line, value.why, err);
    else if (st)
        hs_fail(err, st, "%s", why_not.text);
    hs__record_text_finish(&value);
    return st;
}

/* ---- examples ---- */

static void figures_take(const hs_corpus_observation *observation, float *ret_figures)
{
    ret_figures[HS__EXAMPLE_REPEATED] = observation->repeated_share;
    ret_figures[HS__EXAMPLE_SAME_SENTENCE] = observation->same_sentence_share;
    ret_figures[HS__EXAMPLE_DISTANCE] = observation->mean_distance;
    ret_figures[HS__EXAMPLE_FOCAL] = observation->focal_share;
    ret_figures[HS__EXAMPLE_HIGH] = (float)observation->high_pairs;
    ret_figures[HS__EXAMPLE_SEPARATOR] = observation->separator_attention;
}

/* Allocates the figures of text k if it may become an example. */
static hs_status example_begin(hs__corpus_worker *worker, size_t k, const text *t, hs_error *err)
{
    const hs_corpus_options *o = &worker->shared->options;
    if (!t->sampled)
        return HS_OK;
    worker->figures[k] = calloc(o->n_layers * o->n_heads * HS__EXAMPLE_FIGURES, sizeof(float));
    return worker->figures[k] ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory for an example");
}

static void example_end(hs__corpus_worker *worker, size_t k, text *t)
{
    if (!worker->figures[k])
        return;
    hs__example example = {.number = t->line->number,
                           .file = (uint32_t)t->line->file,
                           .line = t->line->line,
                           .text = t->reached,
                           .figures = worker->figures[k]};
    worker->figures[k] = NULL;
    t->reached = NULL;
    hs__example_sample_add(worker->shared->sample, &example);
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

/* Copies the part of the maps that belongs to the range and sums its columns. */
static void head_cut(const hs__text_range *range, float *to, hs_observed_head *head)
{
    const size_t T = range->n_tokens, n = range->end - range->start;
    float *attention = to, *similarity = attention + n * n, *columns = similarity + n * n;
    memset(columns, 0, n * sizeof *columns);
    for (size_t i = 0; i < n; i++) {
        const size_t from = (range->start + i) * T + range->start;
        memcpy(attention + i * n, head->attention + from, n * sizeof *attention);
        memcpy(similarity + i * n, head->similarity + from, n * sizeof *similarity);
        for (size_t j = 0; j < n; j++)
            columns[j] += attention[i * n + j];
    }
    *head = (hs_observed_head){attention, similarity, columns};
}

static bool pairs_add(const hs__corpus_worker *worker, const text *t, size_t l, size_t h,
                      const float *similarity)
{
    const hs__corpus_job *job = worker->shared->job;
    const hs_corpus_options *o = &worker->shared->options;
    return hs__pairs_add(worker->rows, &(hs__pairs_source){.file = hs__corpus_input_name(job, t->line->file),
                                                           .text = t->line->number,
                                                           .line = t->line->line,
                                                           .layer = o->layers[l],
                                                           .head = (uint16_t)h,
                                                           .tokenizer = hs_model_tokenizer(job->model),
                                                           .ids = t->encoding.ids + t->range.start,
                                                           .first = t->range.start,
                                                           .n_tokens = t->range.end - t->range.start,
                                                           .similarity = similarity,
                                                           .threshold = o->thresholds[o->threshold_main]});
}

/* Observer callback: counts the maps of one head of text k. */
static void head_count(void *data, size_t k, size_t l, size_t h, const hs_observed_head *shown)
{
    hs__corpus_worker *worker = data;
    const hs__text_range *range = &worker->texts[k].range;
    float *figures = worker->figures[k];
    hs_observed_head head = *shown;
    hs_corpus_observation observation;
    if (range->end - range->start < range->n_tokens)
        head_cut(range, worker->maps + maps_floats(worker->shared->job->settings.fields.max_tokens), &head);
    const bool recorded = worker->records != NULL, labelled = worker->labelling.labels != NULL;
    hs_corpus_batch_head(worker->stats, k, l, h, &head,
                         figures || recorded || labelled ? &observation : NULL);
    if (labelled)
        hs__corpus_labelling_keep(&worker->labelling, k, l, h, &observation);
    size_t n_pairs = 0, right[2] = {0};
    if (worker->texts[k].has_words)
        n_pairs = hs_syntax_head_add(worker->syntax, &worker->texts[k].syntax, l, h, &head, right);
    if (recorded)
        hs__text_record_head(&worker->records[k],
                             &(hs__recorded_head){.map = l * worker->shared->options.n_heads + h,
                                                  .maps = &head,
                                                  .first = range->start,
                                                  .n_tokens = range->end - range->start,
                                                  .special = worker->texts[k].encoding.special + range->start,
                                                  .observation = &observation,
                                                  .n_pairs = n_pairs,
                                                  .right = {right[0], right[1]},
                                                  .searched = worker->texts[k].searched});
    if (worker->rows && !worker->rows_failed)
        worker->rows_failed = !pairs_add(worker, &worker->texts[k], l, h, head.similarity);
    if (figures)
        figures_take(&observation, figures + (l * worker->shared->options.n_heads + h) * HS__EXAMPLE_FIGURES);
}

/* The texts of one pass, as the engine and the statistics take them. */
typedef struct text_pass {
    hs_sequence sequences[HS_CORPUS_BATCH];
    hs_corpus_text whole[HS_CORPUS_BATCH];   /* all tokens */
    hs_corpus_text counted[HS_CORPUS_BATCH]; /* tokens of the text's range */
    hs__text_label labelled[HS_CORPUS_BATCH];
    size_t n;
} text_pass;

static hs_status pass_add(hs__corpus_worker *worker, const text *t, text_pass *pass, hs_error *err)
{
    const size_t k = pass->n++;
    const hs_encoding *e = &t->encoding;
    const hs__text_range *r = &t->range;
    hs_sequence *sequence = &pass->sequences[k];
    hs_status st = capture_fit(worker, k, e->n_tokens, err);
    if (!st)
        st = example_begin(worker, k, t, err);
    if (!st && t->has_words)
        hs_syntax_text_add(worker->syntax, &t->syntax);
    *sequence = (hs_sequence){.ids = e->ids,
                              .types = e->types,
                              .n_tokens = e->n_tokens,
                              .capture = worker->captures[k],
                              .interventions = worker->shared->job->settings.fields.interventions,
                              .n_interventions = worker->shared->job->settings.fields.n_interventions};
    pass->whole[k] = (hs_corpus_text){t->line->number, e->n_tokens, e->ids, e->special, e->roles};
    pass->counted[k] = (hs_corpus_text){t->line->number, r->end - r->start, e->ids + r->start,
                                        e->special + r->start, e->roles + r->start};
    pass->labelled[k] = (hs__text_label){t->line->number, t->label};
    return st;
}

/* Runs the engine over the texts of a pass; head_count counts each head's maps on the way. */
static hs_status pass_run(hs__corpus_worker *worker, const text_pass *pass, hs_error *err)
{
    const hs__corpus_job *job = worker->shared->job;
    const hs_run_control *control = &worker->shared->control;
    const size_t T = job->settings.fields.max_tokens;
    const hs_observer observer = {.attention = worker->maps,
                                  .similarity = worker->maps + T * T,
                                  .columns = worker->maps + 2 * T * T,
                                  .show = head_count,
                                  .context = worker,
                                  .residual = job->settings.fields.residual};
    hs_status st = hs_corpus_batch_begin(worker->stats, pass->counted, pass->n, err);
    if (!st)
        st = hs_engine_compute(job->engine, worker->workspace, pass->sequences, pass->n, &observer, control,
                               err);
    if (!st && worker->labelling.labels)
        st = hs__corpus_labelling_count(&worker->labelling, worker->workspace, pass->sequences,
                                        pass->labelled, pass->n, control, err);
    if (!st && worker->masking.ids)
        st = hs__corpus_masking_count(&worker->masking, worker->workspace, pass->sequences, pass->whole,
                                      pass->n, control, worker->stats, err);
    return st;
}

/* Adds text k of the pass to the index of texts, if there is one. */
static hs_status text_record(const hs__corpus_worker *worker, size_t k, const text *t, hs_error *err)
{
    const hs__corpus_job *job = worker->shared->job;
    if (!worker->records)
        return HS_OK;
    return hs__text_index_add(worker->shared->index,
                              &(hs__indexed_text){.number = t->line->number,
                                                  .line = t->line->line,
                                                  .file = hs__corpus_input_name(job, t->line->file),
                                                  .body = t->reached ? t->reached : "",
                                                  .encoding = &t->encoding,
                                                  .first = t->range.start,
                                                  .labels = t->labels,
                                                  .n_labels = t->labels ? t->range.end - t->range.start : 0},
                              worker->records[k].figures, t->searched ? worker->records[k].maps : NULL, err);
}

/* Counts n <= n_together texts in one pass, and keeps those that become examples. */
static hs_status texts_count(hs__corpus_worker *worker, text *texts, size_t n, hs_error *err)
{
    text_pass pass = {.n = 0};
    hs_status st = HS_OK;
    worker->texts = texts;
    for (size_t k = 0; !st && k < n; k++)
        st = pass_add(worker, &texts[k], &pass, err);
    if (!st)
        st = pass_run(worker, &pass, err);
    for (size_t k = 0; !st && k < n; k++)
        st = text_record(worker, k, &texts[k], err);
    if (st)
        return st;
    for (size_t k = 0; k < n; k++)
        example_end(worker, k, &texts[k]);
    atomic_fetch_add(&worker->shared->n_texts, n);
    return HS_OK;
}

static hs_status block_count(hs__corpus_worker *worker, const hs__block *block, hs_error *err)
{
    text texts[HS__CORPUS_BLOCK];
    size_t n_texts = 0;
    hs_status st = HS_OK;
    if (worker->rows)
        hs__pairs_block_begin(worker->rows, block->number);
    for (size_t i = 0; !st && i < block->n_lines; i++)
        st = text_add(worker, block, &block->lines[i], texts, &n_texts, err);
    for (size_t done = 0, n; !st && done < n_texts; done += n) {
        n = n_texts - done < worker->n_together ? n_texts - done : worker->n_together;
        st = texts_count(worker, texts + done, n, err);
    }
    for (size_t i = 0; i < n_texts; i++)
        text_finish(&texts[i]);
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
