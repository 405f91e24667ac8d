/* search_texts.c - keeps texts in a database for `search`: the strongest pairs of the first texts, and for
 * each head and figure the texts where it is highest.
 *
 * The database is server/corpus/search/text_index.h. A worker gathers what it keeps of a text head by head,
 * and adds the text after its pass. */
#include "engine/analysis/analysis.h"
#include "model/base/read_number.h"
#include "model/base/utf8.h"
#include "server/corpus/counters/counter.h"
#include "server/corpus/search/strongest.h"
#include "server/corpus/search/text_index.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- settings ---- */

typedef struct options {
    size_t n_examples, n_texts; /* 0: none */
} options;

/* Reads an integer from 0 to most. */
static hs_status read_count(const char *text, size_t most, size_t *ret, hs_error *err)
{
    int64_t n;
    if (hs_integer_read(text, NULL, 0, (int64_t)most, &n))
        return hs_fail(err, HS_INVALID, "an integer from 0 to %zu", most);
    *ret = (size_t)n;
    return HS_OK;
}

static hs_status read_examples(const char *text, const hs_model *model, hs__corpus_settings *settings,
                               void *ret, hs_error *err)
{
    options *o = ret;
    (void)model, (void)settings;
    return read_count(text, HS__TOP_TEXTS_MAX, &o->n_examples, err);
}

static hs_status read_search_texts(const char *text, const hs_model *model, hs__corpus_settings *settings,
                                   void *ret, hs_error *err)
{
    options *o = ret;
    (void)model, (void)settings;
    return read_count(text, HS__INDEX_TEXTS_MAX, &o->n_texts, err);
}

static const hs__setting_row settings[] = {
    {.field = {"examples", HS_FIELD_TEXT, "N",
               "keep for each head and figure the N texts where it is highest (0)"},
     .part = HS__SETTINGS_OF_COUNTERS,
     .read = read_examples},
    {.field = {"search_texts", HS_FIELD_TEXT, "N",
               "keep the strongest pairs of the first N texts for 'search' (0)"},
     .part = HS__SETTINGS_OF_COUNTERS,
     .read = read_search_texts},
};

static void identify(const void *data, const hs__corpus_settings *all, json_t *identity)
{
    const options *o = data;
    (void)all;
    if (o && o->n_examples)
        json_object_set_new(identity, "examples", json_integer((json_int_t)o->n_examples));
    if (o && o->n_texts)
        json_object_set_new(identity, "search_texts", json_integer((json_int_t)o->n_texts));
}

static bool is_active(const json_t *identity)
{
    return json_object_get(identity, "examples") || json_object_get(identity, "search_texts");
}

/* Returns the options of the database; n_texts and n_examples are 0 if the run has none. */
static hs__text_index_options index_options(const hs__corpus_job *job, const options *o)
{
    return (hs__text_index_options){.n_texts = o ? o->n_texts : 0,
                                    .n_examples = o ? o->n_examples : 0,
                                    .layers = job->settings.fields.layers,
                                    .n_layers = job->settings.fields.n_layers,
                                    .n_heads = hs_engine_shape(job->engine)->n_heads,
                                    .n_tokens = job->settings.fields.max_tokens,
                                    .has_sources = job->encoder != NULL,
                                    .tokenizer = hs_model_tokenizer(job->model)};
}

/* ---- what is kept of a text ---- */

typedef struct text_record {
    float *figures;       /* [l][h][HS__TOP_FIGURES]; NULL: no examples are kept */
    hs__index_maps *maps; /* [l][h]; NULL: no text is searched */
} text_record;

static void records_destroy(text_record *records, size_t n)
{
    for (size_t k = 0; records && k < n; k++) {
        free(records[k].figures);
        free(records[k].maps);
    }
    free(records);
}

/* Creates n records. NULL if memory is short. */
static text_record *records_create(const hs__text_index_options *o, size_t n)
{
    const size_t n_maps = o->n_layers * o->n_heads;
    text_record *records = calloc(n, sizeof *records);
    bool ok = records != NULL;
    for (size_t k = 0; ok && k < n; k++) {
        records[k].figures =
            o->n_examples ? calloc(n_maps * HS__TOP_FIGURES, sizeof *records[k].figures) : NULL;
        records[k].maps = o->n_texts ? calloc(n_maps, sizeof *records[k].maps) : NULL;
        ok = (!o->n_examples || records[k].figures) && (!o->n_texts || records[k].maps);
    }
    if (ok)
        return records;
    records_destroy(records, n);
    return NULL;
}

static size_t records_bytes(const hs__text_index_options *o, size_t n)
{
    const size_t n_maps = o->n_layers * o->n_heads;
    return n * n_maps *
           ((o->n_examples ? HS__TOP_FIGURES * sizeof(float) : 0) +
            (o->n_texts ? sizeof(hs__index_maps) : 0));
}

static void measure(const hs__corpus_job *job, const void *data, hs__counter_size *size)
{
    const hs__text_index_options index = index_options(job, data);
    size->worker += records_bytes(&index, hs__corpus_together(job));
    size->shared += hs__text_index_memory(&index);
    size->disk += hs__text_index_disk(&index);
}

/* ---- a run ---- */

/* Opens the database, a new one unless results were loaded. */
static hs_status begin(hs__counting *counting, bool anew, hs_error *err)
{
    const hs__text_index_options index = index_options(counting->job, counting->options);
    hs__text_index *opened = NULL;
    const hs_status st = hs__text_index_open(counting->job->dir, anew, &index, &opened, err);
    counting->shared = opened;
    return st;
}

static hs_status commit(hs__counting *counting, hs_error *err)
{
    return counting->shared ? hs__text_index_commit(counting->shared, err) : HS_OK;
}

static void end(hs__counting *counting)
{
    hs__text_index_close(counting->shared);
}

/* ---- a worker ---- */

typedef struct worker {
    hs__tally tally;
    text_record *records; /* [n_together] */
    size_t n_together;
} worker;

static hs_status worker_begin(void *state, void *const *states, hs_error *err)
{
    worker *w = state;
    const hs__counting *counting = w->tally.counting;
    const hs__text_index_options index = index_options(counting->job, counting->options);
    (void)states;
    w->n_together = hs__corpus_together(counting->job);
    w->records = records_create(&index, w->n_together);
    return w->records ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory for a worker");
}

static void worker_end(void *state)
{
    worker *w = state;
    records_destroy(w->records, w->n_together);
}

/* ---- figures ---- */

/* Returns the mean attention `offset` tokens away. A row without such a token counts as 0, as in profiles. */
static float offset_mean(const float *attention, size_t n, ptrdiff_t offset)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        const ptrdiff_t j = (ptrdiff_t)i + offset;
        if (j >= 0 && j < (ptrdiff_t)n)
            sum += (double)attention[i * n + (size_t)j];
    }
    return n ? (float)(sum / (double)n) : NAN;
}

/* Takes the figures of a head. Those that compare positions are missing if it attends to another text. */
static void figures_take(const hs__text *t, const hs__text_head *head, bool crosses, float *to)
{
    const hs_corpus_observation *o = head->observation;
    const float *attention = head->maps.attention;
    const size_t n = t->end - t->first;
    to[HS__TOP_REPEATED] = o->repeated_share;
    to[HS__TOP_SAME_SENTENCE] = o->same_sentence_share;
    to[HS__TOP_DISTANCE] = o->mean_distance;
    to[HS__TOP_FOCAL] = o->focal_share;
    to[HS__TOP_HIGH] = (float)o->high_pairs;
    to[HS__TOP_SEPARATOR] = o->separator_attention;
    to[HS__TOP_SELF] = crosses ? NAN : offset_mean(attention, n, 0);
    to[HS__TOP_PREVIOUS] = crosses ? NAN : offset_mean(attention, n, -1);
    to[HS__TOP_NEXT] = crosses ? NAN : offset_mean(attention, n, 1);
    to[HS__TOP_FIRST] = n ? head->maps.columns[0] / (float)n : NAN;
    for (int k = 0; k < 2; k++)
        to[HS__TOP_SYNTAX_ATTENTION + k] = head->n_pairs ? (float)head->right[k] / (float)head->n_pairs : NAN;
}

/* ---- pairs ---- */

static uint8_t pairs_take(const hs__text *t, const hs__text_head *head, bool similarity, hs__index_pair *to)
{
    const size_t n = t->end - t->first;
    const float *map = similarity ? head->maps.similarity : head->maps.attention;
    const float most = similarity ? hs_similarity_max(map, n, NULL) : 1;
    hs__strong_pair pairs[HS__INDEX_PAIRS_MAX];
    if (!(most > 0 && most < INFINITY))
        return 0;
    const size_t n_found = hs__strongest_partners(map, n, t->encoding.special + t->first, similarity,
                                                  HS__INDEX_PAIRS_MAX, pairs);
    for (size_t k = 0; k < n_found; k++)
        to[k] = (hs__index_pair){(uint16_t)(t->first + pairs[k].i), (uint16_t)(t->first + pairs[k].j),
                                 pairs[k].value / most};
    return (uint8_t)n_found;
}

static void head(void *state, hs__text *t, hs__text_head *head)
{
    const worker *w = state;
    const bool crosses = hs__corpus_crosses(w->tally.counting->job);
    const text_record *record = &w->records[t->place];
    if (record->figures)
        figures_take(t, head, crosses, record->figures + head->map * HS__TOP_FIGURES);
    if (!t->searched)
        return;
    hs__index_maps *maps = &record->maps[head->map];
    /* Attention over another text has no pairs of one. */
    maps->n[0] = crosses ? 0 : pairs_take(t, head, false, maps->pairs[0]);
    maps->n[1] = pairs_take(t, head, true, maps->pairs[1]);
}

/* ---- labels of tokens ---- */

static void label_copy(const char *from, size_t n, char *to, size_t n_to)
{
    n = n < n_to ? n : hs_utf8_whole(from, n_to - 1);
    if (n > 0 && hs_utf8_valid(from, n) == n && !memchr(from, 0, n))
        memcpy(to, from, n);
}

/* Copies the words' parts of speech and relations to their tokens [n_tokens]; words holds numbers of words,
 * -1 for none. NULL if memory is short. */
static hs__token_label *token_labels_make(const hs__sentence *sentence, const int32_t *words, size_t n_tokens)
{
    hs__token_label *labels = calloc(n_tokens + 1, sizeof *labels);
    for (size_t i = 0; labels && i < n_tokens; i++) {
        if (words[i] < 0)
            continue;
        const hs__sentence_word *word = &sentence->words[words[i]];
        label_copy(word->pos, word->n_pos, labels[i].pos, sizeof labels[i].pos);
        label_copy(word->relation, word->n_relation, labels[i].relation, sizeof labels[i].relation);
    }
    return labels;
}

/* ---- a text ---- */

static hs_status text(void *state, hs__text *t, hs_error *err)
{
    const worker *w = state;
    t->searched = hs__text_index_wants(w->tally.counting->shared, hs__text_number(t));
    if (t->has_words) {
        t->labels = token_labels_make(&t->sentence, t->words.words, t->words.n_tokens);
        if (!t->labels)
            return hs_fail(err, HS_NO_MEMORY, "no memory for the words of a sentence");
    }
    return t->searched || ((const options *)w->tally.counting->options)->n_examples
               ? hs__text_reach(t, hs_tokenizer_cuts_left(hs_model_tokenizer(w->tally.counting->job->model)),
                                err)
               : HS_OK;
}

static void text_end(void *state, hs__text *t)
{
    (void)state;
    free(t->labels);
}

static hs_status pass(void *state, hs__text_pass *p, hs_error *err)
{
    const worker *w = state;
    hs_status st = HS_OK;
    for (size_t k = 0; !st && k < p->n; k++) {
        const hs__text *t = &p->texts[k];
        const bool decodes = w->tally.counting->job->encoder; /* the tokens are those of the target */
        const hs_text none = {0}, body = decodes ? t->reached_pair : t->reached;
        const hs__indexed_text indexed = {.number = hs__text_number(t),
                                          .line = t->record.line,
                                          .file =
                                              hs__corpus_input_name(w->tally.counting->job, t->record.file),
                                          .body = body.bytes ? body : (hs_text){"", 0},
                                          .n_before = decodes ? t->reached_pair_first : t->reached_first,
                                          .pair = decodes ? none : t->reached_pair,
                                          .source = decodes ? t->reached : none,
                                          .n_before_pair = t->reached_pair_first,
                                          .encoding = &t->encoding,
                                          .first = t->first,
                                          .labels = t->labels,
                                          .n_labels = t->labels ? t->end - t->first : 0};
        st = hs__text_index_add(w->tally.counting->shared, &indexed, w->records[k].figures,
                                t->searched ? w->records[k].maps : NULL, err);
    }
    return st;
}

/* ---- merging ---- */

static bool is_same_folder(const char *a, const char *b)
{
    struct stat of_a, of_b;
    return !stat(a, &of_a) && !stat(b, &of_b) && of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

/* Returns a member of the identity, at most `most`. */
static size_t count_of(const hs__corpus_results *results, const char *name, size_t most)
{
    const json_int_t n = json_integer_value(json_object_get(results->identity, name));
    return n < 0 ? 0 : (size_t)n < most ? (size_t)n : most;
}

static hs_status merge_files(const hs__corpus_results *results, char *const *dirs, size_t n,
                             const char *output, hs_error *err)
{
    const hs_corpus_options o = hs_corpus_stats_options(results->stats);
    const hs__text_index_options due = {.n_texts = count_of(results, "search_texts", HS__INDEX_TEXTS_MAX),
                                        .n_examples = count_of(results, "examples", HS__TOP_TEXTS_MAX),
                                        .layers = o.layers,
                                        .n_layers = o.n_layers,
                                        .n_heads = o.n_heads};
    hs__text_index *index = NULL;
    if (!due.n_texts && !due.n_examples)
        return HS_OK;
    bool is_shard = false;
    for (size_t i = 0; i < n; i++)
        is_shard |= is_same_folder(output, dirs[i]);
    hs_status st = hs__text_index_open(output, !is_shard, &due, &index, err);
    for (size_t i = 0; !st && i < n; i++)
        if (!is_same_folder(output, dirs[i]))
            st = hs__text_index_merge(index, dirs[i], err);
    if (!st)
        st = hs__text_index_commit(index, err);
    hs__text_index_close(index);
    return st;
}

const hs__counter hs__counter_search_texts = {
    .name = "search texts",
    .settings = settings,
    .n_settings = sizeof settings / sizeof *settings,
    .options_bytes = sizeof(options),
    .identify = identify,
    .is_active = is_active,
    .measure = measure,
    .begin = begin,
    .commit = commit,
    .end = end,
    .worker_bytes = sizeof(worker),
    .worker_begin = worker_begin,
    .worker_end = worker_end,
    .text = text,
    .text_end = text_end,
    .head = head,
    .pass = pass,
    .merge_files = merge_files,
};
