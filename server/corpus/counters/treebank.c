/* treebank.c - compares heads with a treebank (Clark et al. 2019): how often a word of a CoNLL-U sentence
 * attends most to its syntactic head, and is most similar to it.
 *
 * The counting is engine/statistics/syntax.h. A worker walks the tokens and the words of a sentence side by
 * side: both ascend in the text. */
#include "engine/statistics/syntax.h"

#include "model/base/utf8.h"
#include "model/files/json.h"
#include "server/corpus/counters/counter.h"
#include "server/corpus/counters/words.h"
#include "server/corpus/report/html.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void measure(const hs__corpus_job *job, const void *options, hs__counter_size *size)
{
    const size_t n =
        hs_syntax_bytes_max(job->settings.fields.n_layers, hs_engine_shape(job->engine)->n_heads);
    (void)options;
    size->worker += n;
    size->shared += n;
}

/* ---- the words of a sentence ---- */

static void tokens_place(const hs__sentence *sentence, const hs_encoding *e, size_t first, size_t end,
                         int32_t *ret_words)
{
    size_t w = 0;
    for (size_t i = first; i < end; i++) {
        ret_words[i - first] = -1;
        if (e->special[i])
            continue;
        while (w < sentence->n_words && sentence->words[w].end <= e->starts[i])
            w++;
        if (w < sentence->n_words && sentence->words[w].start < e->ends[i])
            ret_words[i - first] = (int32_t)w;
    }
}

/* Finds the number of a word's relation. Names that are not UTF-8 count as "_". */
static hs_status relation_find(const hs__sentence_word *word, hs_syntax *syntax, uint16_t *ret, hs_error *err)
{
    const size_t most = HS_SYNTAX_NAME_BYTES - 1;
    size_t n = word->n_relation, at;
    n = n > most ? hs_utf8_whole(word->relation, most) : n;
    const bool sound = n > 0 && hs_utf8_valid(word->relation, n) == n && !memchr(word->relation, 0, n);
    const hs_status st =
        hs_syntax_relation_add(syntax, sound ? word->relation : "_", sound ? n : 1, &at, err);
    *ret = st ? 0 : (uint16_t)at;
    return st;
}

/* Finds the word of each of the tokens [first, end) of an encoding, and adds the words' relations to the
 * counts. A token belongs to the first word that it touches. Release ret->words with free; heads and
 * relations are in the same block. HS_TOO_LARGE as hs_syntax_relation_add, HS_NO_MEMORY. */
static hs_status words_make(const hs__sentence *sentence, const hs_encoding *e, size_t first, size_t end,
                            hs_syntax *syntax, hs_syntax_text *ret, hs_error *err)
{
    const size_t T = end - first, W = sentence->n_words;
    int32_t *words = calloc(1, (T + W) * sizeof *words + W * sizeof *ret->relations);
    if (!words)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the words of a sentence");
    hs_syntax_text text = {.n_tokens = T, .words = words, .heads = words + T};
    text.relations = (uint16_t *)(text.heads + W);
    tokens_place(sentence, e, first, end, words);
    for (size_t i = 0; i < T; i++) /* words after the last token are not counted */
        text.n_words = words[i] >= 0 ? (size_t)words[i] + 1 : text.n_words;
    hs_status st = HS_OK;
    for (size_t w = 0; !st && w < text.n_words; w++) {
        text.heads[w] = sentence->words[w].head < (int32_t)text.n_words ? sentence->words[w].head : -1;
        text.relations[w] = 0;
        if (text.heads[w] >= 0)
            st = relation_find(&sentence->words[w], syntax, &text.relations[w], err);
    }
    if (st)
        free(words);
    else
        *ret = text;
    return st;
}

/* ---- a worker ---- */

typedef struct worker {
    hs__tally tally;
    void *counts; /* hs_syntax; NULL until the first sentence */
} worker;

static void worker_end(void *state)
{
    worker *w = state;
    hs_syntax_destroy(w->counts);
}

/* Creates the counts before the first sentence. */
static hs_status counts_begin(worker *w, hs_error *err)
{
    const hs_corpus_options *o = w->tally.counting->statistics;
    hs_syntax *counts = NULL;
    const hs_status st = w->counts ? HS_OK : hs_syntax_create(o->n_layers, o->n_heads, &counts, err);
    w->counts = w->counts ? w->counts : counts;
    return st;
}

/* Finds the words of a CoNLL-U sentence, if its text has them. */
static hs_status text(void *state, hs__text *t, hs_error *err)
{
    worker *w = state;
    hs_status st = t->record.layout.format == HS__FORMAT_CONLLU ? counts_begin(w, err) : HS_NOT_FOUND;
    if (st)
        return st == HS_NOT_FOUND ? HS_OK : st;
    st = hs__sentence_find(t->record.bytes, t->record.n_bytes, &t->body.text, &t->sentence);
    t->has_words = st == HS_OK;
    if (!st)
        st = words_make(&t->sentence, &t->encoding, t->first, t->end, w->counts, &t->words, err);
    else if (st == HS_NO_MEMORY)
        hs_fail(err, st, "no memory for the words of a sentence");
    t->words.is_odd = t->record.number & 1;
    hs_syntax_sentences_of(w->counts)->unread += st == HS_NOT_FOUND;
    return st == HS_NOT_FOUND ? HS_OK : st;
}

static void text_end(void *state, hs__text *t)
{
    (void)state;
    free(t->words.words);
}

static hs_status start(void *state, hs__text *t, hs_error *err)
{
    worker *w = state;
    (void)err;
    if (t->has_words)
        hs_syntax_text_add(w->counts, &t->words);
    return HS_OK;
}

static void head(void *state, hs__text *t, hs__text_head *head)
{
    worker *w = state;
    if (t->has_words)
        head->n_pairs = hs_syntax_head_add(w->counts, &t->words, head->l, head->h, &head->maps, head->right);
}

/* Returns the number of counts of all sentences, or of odd ones. */
static size_t n_right(const hs_syntax *syntax)
{
    return hs_syntax_layers(syntax) * hs_syntax_heads(syntax) * HS_SYNTAX_KINDS;
}

/* ---- checkpoint ---- */

static json_t *numbers_save(const uint64_t *numbers, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer((json_int_t)numbers[i]));
    return list;
}

static bool numbers_load(const json_t *list, uint64_t *ret, size_t n)
{
    bool sound = json_array_size(list) == n;
    for (size_t i = 0; sound && i < n; i++) {
        const json_t *number = json_array_get(list, i);
        sound = json_is_integer(number) && json_integer_value(number) >= 0;
        ret[i] = (uint64_t)json_integer_value(number);
    }
    return sound;
}

static json_t *counts_json(const hs_syntax *syntax)
{
    const hs_syntax_sentences *sentences = hs_syntax_sentences_of(syntax);
    json_t *relations = json_object();
    for (size_t r = 0; r < hs_syntax_relations(syntax); r++) {
        const hs_syntax_relation *relation = hs_syntax_relation_at(syntax, r);
        json_object_set_new(relations, relation->name,
                            json_pack("{sI so so sI so so}", "count", (json_int_t)relation->count, "offsets",
                                      numbers_save(relation->offsets, HS_SYNTAX_OFFSETS), "right",
                                      numbers_save(relation->right, n_right(syntax)), "odd_count",
                                      (json_int_t)relation->odd_count, "odd_offsets",
                                      numbers_save(relation->odd_offsets, HS_SYNTAX_OFFSETS), "odd_right",
                                      numbers_save(relation->right + n_right(syntax), n_right(syntax))));
    }
    return json_pack("{sI sI so}", "read", (json_int_t)sentences->read, "unread",
                     (json_int_t)sentences->unread, "relations", relations);
}

/* Loads the counts of odd sentences, which are among those of all. */
static bool odd_load(const hs_syntax *syntax, hs_syntax_relation *relation, const json_t *saved)
{
    const json_t *count = json_object_get(saved, "odd_count");
    relation->odd_count = (uint64_t)json_integer_value(count);
    return json_is_integer(count) && json_integer_value(count) >= 0 &&
           relation->odd_count <= relation->count &&
           numbers_load(json_object_get(saved, "odd_offsets"), relation->odd_offsets, HS_SYNTAX_OFFSETS) &&
           numbers_load(json_object_get(saved, "odd_right"), relation->right + n_right(syntax),
                        n_right(syntax));
}

static hs_status relation_load(hs_syntax *syntax, const char *name, const json_t *saved, hs_error *err)
{
    size_t at = 0;
    const hs_status st = hs_syntax_relation_add(syntax, name, strlen(name), &at, err);
    if (st)
        return st;
    hs_syntax_relation *relation = hs_syntax_relation_at(syntax, at);
    const json_int_t count = json_integer_value(json_object_get(saved, "count"));
    relation->count = count > 0 ? (uint64_t)count : 0;
    if (count < 0 || !numbers_load(json_object_get(saved, "offsets"), relation->offsets, HS_SYNTAX_OFFSETS) ||
        !numbers_load(json_object_get(saved, "right"), relation->right, n_right(syntax)) ||
        !odd_load(syntax, relation, saved))
        return hs_fail(err, HS_INVALID, "the counts of the relation %.40s are damaged", name);
    return HS_OK;
}

static hs_status load(const hs__corpus_results *results, const json_t *checkpoint, void **counts,
                      hs_error *err)
{
    const hs_corpus_options o = hs_corpus_stats_options(results->stats);
    const json_t *saved = json_object_get(checkpoint, "syntax");
    const char *name;
    json_t *relation;
    hs_syntax *syntax = NULL;
    json_int_t n_read = 0, n_unread = 0;
    json_t *relations;
    if (!saved)
        return HS_OK;
    if (json_unpack((json_t *)saved, "{sI sI so}", "read", &n_read, "unread", &n_unread, "relations",
                    &relations) ||
        n_read < 0 || n_unread < 0 || !json_is_object(relations))
        return hs_fail(err, HS_INVALID, "the counts of relations are damaged");
    hs_status st = hs_syntax_create(o.n_layers, o.n_heads, &syntax, err);
    if (st)
        return st;
    *hs_syntax_sentences_of(syntax) = (hs_syntax_sentences){(uint64_t)n_read, (uint64_t)n_unread};
    json_object_foreach(relations, name, relation)
    {
        if (!st)
            st = relation_load(syntax, name, relation, err);
    }
    if (st)
        hs_syntax_destroy(syntax);
    else
        *counts = syntax;
    return st;
}

static hs_status save(const hs__corpus_results *results, void *counts, json_t *checkpoint, hs_error *err)
{
    (void)results;
    if (!counts)
        return HS_OK;
    return json_object_set_new(checkpoint, "syntax", counts_json(counts))
               ? hs_fail(err, HS_NO_MEMORY, "no memory to save the run")
               : HS_OK;
}

/* Adds the counts of `from` and empties it. */
static hs_status counts_move(void **counts, void **from, hs_error *err)
{
    hs_status st = HS_OK;
    if (*counts && *from) {
        st = hs_syntax_merge(*counts, *from, err);
        hs_syntax_destroy(*from);
    } else if (*from) {
        *counts = *from;
    }
    *from = NULL;
    return st;
}

static hs_status merge(hs__corpus_results *results, void **counts, const hs__corpus_results *from,
                       void **from_counts, const char *from_dir, hs_error *err)
{
    (void)results, (void)from, (void)from_dir;
    return counts_move(counts, from_counts, err);
}

static void destroy(void *counts)
{
    hs_syntax_destroy(counts);
}

/* ---- rows of a report ---- */

/* The rows of a report: all relations but punctuation together, then each, most frequent first. */
typedef struct relation_rows {
    const hs_syntax *syntax;
    hs_syntax_relation *relations; /* [n], owned; `right` of the first one too */
    size_t n;
} relation_rows;

static int relation_compare(const void *a, const void *b)
{
    const hs_syntax_relation *x = a, *y = b;
    return x->count != y->count ? (x->count < y->count) - (x->count > y->count) : strcmp(x->name, y->name);
}

static void relation_sum(const hs_syntax_relation *relation, size_t n, hs_syntax_relation *sum)
{
    sum->count += relation->count;
    sum->odd_count += relation->odd_count;
    for (size_t k = 0; k < HS_SYNTAX_OFFSETS; k++) {
        sum->offsets[k] += relation->offsets[k];
        sum->odd_offsets[k] += relation->odd_offsets[k];
    }
    for (size_t k = 0; k < 2 * n; k++)
        sum->right[k] += relation->right[k];
}

/* HS_NO_MEMORY. rows_finish is called after a failure too. */
static hs_status rows_make(const hs_syntax *syntax, relation_rows *ret, hs_error *err)
{
    const size_t n = hs_syntax_relations(syntax);
    *ret = (relation_rows){.syntax = syntax, .n = n + 1};
    ret->relations = hs_json_memory(n + 1, sizeof *ret->relations);
    if (ret->relations)
        ret->relations->right = hs_json_memory(2 * n_right(syntax), sizeof *ret->relations->right);
    if (!ret->relations || !ret->relations->right)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the table of relations");
    strcpy(ret->relations->name, "all");
    for (size_t r = 0; r < n; r++) {
        ret->relations[r + 1] = *hs_syntax_relation_at(syntax, r);
        if (!hs_syntax_is_punctuation(&ret->relations[r + 1]))
            relation_sum(&ret->relations[r + 1], n_right(syntax), ret->relations);
    }
    qsort(ret->relations + 1, n, sizeof *ret->relations, relation_compare);
    return HS_OK;
}

static void rows_finish(relation_rows *rows)
{
    if (rows->relations)
        free(rows->relations->right);
    free(rows->relations);
    *rows = (relation_rows){0};
}

/* Returns how often a fixed offset is right: in all sentences, or in even ones. */
static uint64_t offset_right(const hs_syntax_relation *relation, size_t at, bool even)
{
    return relation->offsets[at] - (even ? relation->odd_offsets[at] : 0);
}

/* Returns the index of the fixed offset that is right most often; of equals, the nearest to 0. */
static size_t offset_best(const hs_syntax_relation *relation, bool even)
{
    size_t best = HS_SYNTAX_REACH;
    for (size_t away = 1; away <= HS_SYNTAX_REACH; away++)
        for (size_t side = 0; side < 2; side++) {
            const size_t at = side ? HS_SYNTAX_REACH + away : HS_SYNTAX_REACH - away;
            if (offset_right(relation, at, even) > offset_right(relation, best, even))
                best = at;
        }
    return best;
}

/* ---- report.json ---- */

static const char *const kinds[HS_SYNTAX_KINDS] = {"attention_to_head", "attention_to_dependent",
                                                   "similarity_to_head", "similarity_to_dependent"};

/* Returns the number of the head that is right most often: in all sentences, or in even ones. */
static size_t best_find(const hs_syntax_relation *relation, size_t kind, size_t n_maps, bool even)
{
    const uint64_t *right = relation->right + kind, *odd = right + n_maps * HS_SYNTAX_KINDS;
    size_t best = 0;
    uint64_t most = 0;
    for (size_t i = 0; i < n_maps; i++) {
        const uint64_t n = right[i * HS_SYNTAX_KINDS] - (even ? odd[i * HS_SYNTAX_KINDS] : 0);
        if (i > 0 && n <= most)
            continue;
        best = i;
        most = n;
    }
    return best;
}

static json_t *best_json(size_t best, uint64_t right, const hs_corpus_options *o)
{
    return json_pack("{si sI sI}", "layer", o->layers[best / o->n_heads], "head",
                     (json_int_t)(best % o->n_heads), "right", (json_int_t)right);
}

/* Adds the 95 % interval of a share (Wilson 1927); null without pairs. */
static void interval_add(json_t *to, const char *low, const char *high, uint64_t part, uint64_t whole)
{
    const double z = 1.959963984540054, n = (double)whole, p = (double)part / n;
    const double middle = (p + z * z / (2 * n)) / (1 + z * z / n);
    const double reach = z / (1 + z * z / n) * sqrt(p * (1 - p) / n + z * z / (4 * n * n));
    json_object_set_new(to, low, hs__report_number(whole ? fmax(middle - reach, 0) : (double)NAN));
    json_object_set_new(to, high, hs__report_number(whole ? fmin(middle + reach, 1) : (double)NAN));
}

/* Returns the heads and the offset that are right most often in even sentences, and how often they are right
 * in odd ones. */
static json_t *held_out_json(const hs_syntax_relation *relation, const hs_corpus_options *o)
{
    const size_t n_maps = o->n_layers * o->n_heads, offset = offset_best(relation, true);
    json_t *held = json_pack("{sI sI sI}", "count", (json_int_t)relation->odd_count, "offset",
                             (json_int_t)offset - HS_SYNTAX_REACH, "offset_right",
                             (json_int_t)relation->odd_offsets[offset]);
    interval_add(held, "offset_low", "offset_high", relation->odd_offsets[offset], relation->odd_count);
    for (size_t k = 0; k < HS_SYNTAX_KINDS; k++) {
        const size_t best = best_find(relation, k, n_maps, true);
        const uint64_t right = relation->right[(n_maps + best) * HS_SYNTAX_KINDS + k];
        json_t *head = best_json(best, right, o);
        interval_add(head, "low", "high", right, relation->odd_count);
        json_object_set_new(held, kinds[k], head);
    }
    return held;
}

static json_t *row_json(const hs_syntax_relation *relation, const hs_corpus_options *o)
{
    const size_t offset = offset_best(relation, false), n_maps = o->n_layers * o->n_heads;
    json_t *row = json_pack("{ss sI sI sI}", "relation", relation->name, "count", (json_int_t)relation->count,
                            "offset", (json_int_t)offset - HS_SYNTAX_REACH, "offset_right",
                            (json_int_t)relation->offsets[offset]);
    for (size_t k = 0; k < HS_SYNTAX_KINDS; k++) {
        const size_t best = best_find(relation, k, n_maps, false);
        json_object_set_new(row, kinds[k], best_json(best, relation->right[best * HS_SYNTAX_KINDS + k], o));
    }
    json_object_set_new(row, "held_out", held_out_json(relation, o));
    return row;
}

static json_t *rows_json(const relation_rows *rows, const hs_corpus_options *o)
{
    const hs_syntax_sentences *sentences = hs_syntax_sentences_of(rows->syntax);
    json_t *list = json_array();
    for (size_t r = 0; r < rows->n; r++)
        json_array_append_new(list, row_json(&rows->relations[r], o));
    return json_pack("{sI sI so}", "sentences", (json_int_t)sentences->read, "unread_sentences",
                     (json_int_t)sentences->unread, "relations", list);
}

static void report(const hs__corpus_results *results, void *counts, json_t *to)
{
    const hs_corpus_options o = hs_corpus_stats_options(results->stats);
    relation_rows rows;
    if (!counts)
        return;
    if (!rows_make(counts, &rows, NULL))
        json_object_set_new(to, "syntax", rows_json(&rows, &o));
    rows_finish(&rows);
}

/* ---- report.npz ---- */

enum { RELATIONS, COUNT, RIGHT, SIMILAR, ODD_COUNT, ODD_RIGHT, ODD_SIMILAR, OFFSET, OFFSET_RIGHT };

/* A run has so many relations as it meets. */
#define RELATION                                                                                             \
    {                                                                                                        \
        "relation", 0                                                                                        \
    }
#define DIRECTION                                                                                            \
    {                                                                                                        \
        "direction", 2                                                                                       \
    }
#define BY_HEAD                                                                                              \
    {                                                                                                        \
        HS_AXIS_LAYER, HS_AXIS_HEAD, RELATION, DIRECTION                                                     \
    }

static const hs_array_row arrays[] = {
    [RELATIONS] = {"syntax_relations",
                   {RELATION},
                   "name",
                   "all relations but punct together, then each, most frequent first"},
    [COUNT] = {"syntax_count", {RELATION}, "pairs", "pairs of a word and its head"},
    [RIGHT] = {"syntax_right", BY_HEAD, "pairs",
               "pairs in which the word attends most to its head, and the head most to the word"},
    [SIMILAR] = {"syntax_similarity_right", BY_HEAD, "pairs",
                 "pairs in which the head is the most similar other word, and the word is"},
    [ODD_COUNT] = {"syntax_odd_count", {RELATION}, "pairs", "syntax_count of odd sentences"},
    [ODD_RIGHT] = {"syntax_odd_right", BY_HEAD, "pairs", "syntax_right of odd sentences"},
    [ODD_SIMILAR] = {"syntax_odd_similarity_right", BY_HEAD, "pairs",
                     "syntax_similarity_right of odd sentences"},
    [OFFSET] = {"syntax_offset",
                {RELATION, DIRECTION},
                "words",
                "the fixed distance that is right most often"},
    [OFFSET_RIGHT] = {"syntax_offset_right", {RELATION, DIRECTION}, "pairs", "pairs in which it is right"},
};

/* Fills [l][h][rel][2] of attention (first 0) or similarity (first 2), of all sentences or of odd ones. */
static void right_fill(const relation_rows *rows, bool odd, size_t first, int64_t *to)
{
    const size_t n_maps = hs_syntax_layers(rows->syntax) * hs_syntax_heads(rows->syntax);
    for (size_t i = odd ? n_maps : 0, end = i + n_maps; i < end; i++)
        for (size_t r = 0; r < rows->n; r++)
            for (size_t k = 0; k < 2; k++)
                *to++ = (int64_t)rows->relations[r].right[i * HS_SYNTAX_KINDS + first + k];
}

/* The second direction is the first one mirrored: from the head, its dependent is at the negative offset. */
static void offsets_fill(const relation_rows *rows, int64_t *offset, int64_t *right)
{
    for (size_t r = 0; r < rows->n; r++) {
        const size_t best = offset_best(&rows->relations[r], false);
        offset[2 * r] = (int64_t)best - HS_SYNTAX_REACH;
        offset[2 * r + 1] = -offset[2 * r];
        right[2 * r] = right[2 * r + 1] = (int64_t)rows->relations[r].offsets[best];
    }
}

static void arrays_fill(const relation_rows *rows, hs_arrays *to)
{
    const size_t n = rows->n, shape[] = {hs_syntax_layers(rows->syntax), hs_syntax_heads(rows->syntax), n, 2};
    hs_bytes *names = calloc(n, sizeof *names);
    int64_t *count = hs_arrays_add(to, arrays[COUNT].name, HS_ELEMENT_I8, 1, n, 0);
    int64_t *right = hs_arrays_add_block(to, arrays[RIGHT].name, HS_ELEMENT_I8, 4, shape);
    int64_t *similar = hs_arrays_add_block(to, arrays[SIMILAR].name, HS_ELEMENT_I8, 4, shape);
    int64_t *odd_count = hs_arrays_add(to, arrays[ODD_COUNT].name, HS_ELEMENT_I8, 1, n, 0);
    int64_t *odd_right = hs_arrays_add_block(to, arrays[ODD_RIGHT].name, HS_ELEMENT_I8, 4, shape);
    int64_t *odd_similar = hs_arrays_add_block(to, arrays[ODD_SIMILAR].name, HS_ELEMENT_I8, 4, shape);
    int64_t *offset_right = hs_arrays_add(to, arrays[OFFSET_RIGHT].name, HS_ELEMENT_I8, 2, n, 2);
    int64_t *offset = hs_arrays_add(to, arrays[OFFSET].name, HS_ELEMENT_I8, 2, n, 2);
    to->failed |= !names;
    assert(n == 0 || rows->relations);
    for (size_t r = 0; r < n && !to->failed; r++) {
        names[r] = (hs_bytes){rows->relations[r].name, strlen(rows->relations[r].name)};
        count[r] = (int64_t)rows->relations[r].count;
        odd_count[r] = (int64_t)rows->relations[r].odd_count;
    }
    if (!to->failed) {
        hs_arrays_add_texts(to, arrays[RELATIONS].name, names, n, false);
        right_fill(rows, false, HS_SYNTAX_ATTENTION_TO_HEAD, right);
        right_fill(rows, false, HS_SYNTAX_SIMILARITY_TO_HEAD, similar);
        right_fill(rows, true, HS_SYNTAX_ATTENTION_TO_HEAD, odd_right);
        right_fill(rows, true, HS_SYNTAX_SIMILARITY_TO_HEAD, odd_similar);
        offsets_fill(rows, offset, offset_right);
    }
    free(names);
}

static bool arrays_write(const relation_rows *rows, hs_npz *npz)
{
    hs_arrays *to = calloc(1, sizeof *to);
    if (!to)
        return false;
    arrays_fill(rows, to);
    const bool sound = !to->failed;
    for (size_t i = 0; sound && i < to->n; i++)
        hs_npz_array(npz, &to->items[i]);
    hs_arrays_finish(to);
    free(to);
    return sound;
}

static void write(const hs__corpus_results *results, void *counts, hs_npz *npz)
{
    relation_rows rows;
    (void)results;
    if (!counts)
        return;
    npz->failed |= rows_make(counts, &rows, NULL) || !arrays_write(&rows, npz);
    rows_finish(&rows);
}

/* ---- report.html ---- */

/* Relations with fewer pairs say nothing about a head. */
enum { PAIRS_MIN = 10 };

static json_int_t count_of(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

/* Writes a share with its interval, strong if that lies above `limit`. */
static void share_write(FILE *out, json_int_t part, json_int_t whole, const json_t *low, const json_t *high,
                        double limit)
{
    const bool strong = json_number_value(low) > limit;
    fprintf(out, strong ? "<strong>%.1f %%</strong>" : "%.1f %%",
            whole > 0 ? 100 * (double)part / (double)whole : 0);
    fprintf(out, " (%.0f to %.0f)", 100 * json_number_value(low), 100 * json_number_value(high));
}

static void best_write(const json_t *held, const char *kind, FILE *out)
{
    const json_t *best = json_object_get(held, kind);
    fputs("<td>", out);
    share_write(out, count_of(best, "right"), count_of(held, "count"), json_object_get(best, "low"),
                json_object_get(best, "high"), json_number_value(json_object_get(held, "offset_high")));
    fprintf(out, " <span class=\"muted\">%lld·%lld</span></td>", (long long)count_of(best, "layer"),
            (long long)count_of(best, "head"));
}

static void row_write(const json_t *row, FILE *out)
{
    const char *name = json_string_value(json_object_get(row, "relation"));
    const json_t *held = json_object_get(row, "held_out");
    fputs("<tr><th scope=\"row\">", out);
    hs__html_text(out, name ? name : "");
    fputs("</th><td>", out);
    hs__count_write(out, (uint64_t)count_of(held, "count"));
    fputs("</td>", out);
    best_write(held, kinds[HS_SYNTAX_ATTENTION_TO_HEAD], out);
    best_write(held, kinds[HS_SYNTAX_ATTENTION_TO_DEPENDENT], out);
    fputs("<td>", out);
    share_write(out, count_of(held, "offset_right"), count_of(held, "count"),
                json_object_get(held, "offset_low"), json_object_get(held, "offset_high"), 1);
    fprintf(out, " <span class=\"muted\">%+lld</span></td>", (long long)count_of(held, "offset"));
    best_write(held, kinds[HS_SYNTAX_SIMILARITY_TO_HEAD], out);
    best_write(held, kinds[HS_SYNTAX_SIMILARITY_TO_DEPENDENT], out);
    fputs("</tr>\n", out);
}

static void page(const hs__drawing *d, hs__indices at, FILE *out)
{
    const json_t *report = d->report;
    static const hs__column columns[] = {
        {"Relation", NULL, NULL}, {"Pairs", NULL, NULL},  {"Attends to its head", NULL, NULL},
        {"and back", NULL, NULL}, {"Offset", NULL, NULL}, {"Most similar to its head", NULL, NULL},
        {"and back", NULL, NULL},
    };
    const json_t *syntax = json_object_get(report, "syntax"), *rows = json_object_get(syntax, "relations");
    (void)at;
    if (!syntax)
        return;
    fputs(
        "<section id=\"syntax\" aria-label=\"Syntax\"><h2>Heads and syntax</h2><p class=\"muted\">How often "
        "a word attends most to its syntactic head, and the head most to the word (Clark et al. 2019, table "
        "1). The attention head (layer·head) is the one that does so most often in the even sentences; the "
        "numbers are of the odd ones, with 95 % intervals. So they are not flattered by the choice among "
        "many "
        "heads, which finds a best head even for random trees. Offset: always choosing the word at the fixed "
        "distance that was best in the even sentences. Only a head above the offset (strong: the intervals "
        "are apart) shows more than distance. The last columns ask the same of the most similar word. ",
        out);
    hs__count_write(out, (uint64_t)count_of(syntax, "sentences"));
    fputs(" sentences; ", out);
    hs__count_write(out, (uint64_t)count_of(syntax, "unread_sentences"));
    fprintf(out,
            " more have words that are not in their text. All: without punct. Relations of fewer than %d "
            "pairs in "
            "odd sentences are only in report.json and report.npz.</p>",
            PAIRS_MIN);
    hs__table_begin(out, columns, HS__N(columns));
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (count_of(json_object_get(json_array_get(rows, i), "held_out"), "count") >= PAIRS_MIN)
            row_write(json_array_get(rows, i), out);
    hs__table_end(out);
    fputs("</section>\n", out);
}

static hs_status gather(hs__counting *counting, void *state, hs_error *err)
{
    worker *w = state;
    return counts_move(counting->counts, &w->counts, err);
}

const hs__counter hs__counter_treebank = {
    .name = "syntax",
    .save = save,
    .load = load,
    .gather = gather,
    .destroy = destroy,
    .merge = merge,
    .measure = measure,
    .worker_bytes = sizeof(worker),
    .worker_end = worker_end,
    .text = text,
    .text_end = text_end,
    .start = start,
    .head = head,
    .arrays = arrays,
    .n_arrays = HS__N(arrays),
    .write = write,
    .report = report,
    .section = "syntax",
    .title = "Heads and syntax",
    .page = page,
};
