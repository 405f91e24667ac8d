/* pair_search.c - reads the rows of one head and compares numbers only. It looks up names and tokens of the
 * conditions once, and reads texts only for the pairs of the answer. */
#include "server/corpus/search/pair_search.h"

#include "model/architecture.h"
#include "model/base/read_number.h"
#include "model/files/json.h"
#include "server/corpus/search/text_index.h"

#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4200, CONDITION_BYTES = 256, IDS_MAX = 64 };
enum {
    CHECK_STEPS = 10000,
    RESULT_BYTES = 2048
}; /* SQLite's steps between two checks; a result but its text */

/* Conditions that a token must meet. */
typedef struct condition {
    bool has_ids, has_pos, has_relation;
    int32_t ids[IDS_MAX]; /* tokens that differ in case only */
    size_t n_ids;
    int pos, relation; /* numbers of names; -1: no text has it */
} condition;

/* A search with its parameters read. */
typedef struct search {
    sqlite3 *db;
    const hs__read_check *check;
    int layer, head;
    bool similarity;
    condition from, to;
    double least;
    long distance_low, distance_high;
    size_t limit;
    size_t n_texts, n_found, n_kept;
    struct found {
        sqlite3_int64 text;
        hs__index_pair pair;
    } * kept; /* [limit], the strongest first */
} search;

static hs_status wrong(const char **ret_wrong, const char *name, const char *text, const char *must,
                       hs_error *err)
{
    *ret_wrong = name;
    return text ? hs_fail(err, HS_INVALID, "%s is \"%.64s\"; it must be %s", name, text, must)
                : hs_fail(err, HS_INVALID, "%s is missing; it must be %s", name, must);
}

static hs_status failed(sqlite3 *db, hs_error *err)
{
    if (sqlite3_errcode(db) == SQLITE_INTERRUPT)
        return hs_fail(err, HS_CANCELLED,
                       "the search was cancelled, or the run's " HS__TEXT_INDEX_FILE " is damaged");
    return hs_fail(err, sqlite3_errcode(db) == SQLITE_NOMEM ? HS_NO_MEMORY : HS_IO,
                   "the run's " HS__TEXT_INDEX_FILE " cannot be read: %s", sqlite3_errmsg(db));
}

/* Refuses a text that was not found, or whose row is unsound. */
static hs_status damaged(sqlite3 *db, hs_error *err)
{
    return hs_fail(err, sqlite3_errcode(db) == SQLITE_NOMEM ? HS_NO_MEMORY : HS_IO,
                   "the run's " HS__TEXT_INDEX_FILE " is damaged, or memory is short");
}

/* ---- parameters ---- */

static bool integer_read(const char *text, const char **ret_end, long *ret)
{
    int64_t number = 0;
    const hs_number_fault fault = hs_integer_read(text, ret_end, -INT_MAX, INT_MAX, &number);
    *ret = (long)number;
    return !fault;
}

/* Reads an integer from low to high. */
static hs_status number_read(const char *name, const char *text, long low, long high, long *ret,
                             const char **ret_wrong, hs_error *err)
{
    const char *end = "";
    char must[64];
    if (text && integer_read(text, &end, ret) && !*end && *ret >= low && *ret <= high)
        return HS_OK;
    snprintf(must, sizeof must, "an integer from %ld to %ld", low, high);
    return wrong(ret_wrong, name, text, must, err);
}

static hs_status limit_read(const hs__search_query *q, size_t *ret, const char **ret_wrong, hs_error *err)
{
    long limit = HS__SEARCH_LIMIT;
    const hs_status st =
        q->limit ? number_read("limit", q->limit, 1, HS__SEARCH_LIMIT_MAX, &limit, ret_wrong, err) : HS_OK;
    *ret = (size_t)limit;
    return st;
}

static hs_status min_read(const char *text, double *ret, const char **ret_wrong, hs_error *err)
{
    *ret = 0;
    return text && (hs_real_read(text, NULL, ret) || !(*ret >= 0 && *ret <= 1))
               ? wrong(ret_wrong, "min", text, "a number in [0, 1]", err)
               : HS_OK;
}

static hs_status distance_read(const char *text, search *s, const char **ret_wrong, hs_error *err)
{
    const char *end;
    s->distance_low = LONG_MIN;
    s->distance_high = LONG_MAX;
    if (!text)
        return HS_OK;
    bool ok = integer_read(text, &end, &s->distance_low);
    s->distance_high = s->distance_low;
    if (ok && strncmp(end, "..", 2) == 0)
        ok = integer_read(end + 2, &end, &s->distance_high);
    return ok && !*end && s->distance_low <= s->distance_high
               ? HS_OK
               : wrong(ret_wrong, "distance", text, "an integer, j - i, or a range like -5..-1", err);
}

/* Finds out whether the statement, which may take layer and head, has a row. */
static hs_status row_find(sqlite3 *db, const char *sql, int layer, int head, bool *ret_found, hs_error *err)
{
    sqlite3_stmt *s = NULL;
    int code = sqlite3_prepare_v2(db, sql, -1, &s, NULL);
    if (!code) {
        sqlite3_bind_int(s, 1, layer);
        sqlite3_bind_int(s, 2, head);
        code = sqlite3_step(s);
    }
    *ret_found = code == SQLITE_ROW;
    const hs_status st = code == SQLITE_ROW || code == SQLITE_DONE ? HS_OK : failed(db, err);
    sqlite3_finalize(s);
    return st;
}

/* Reads the number of a name; -1 if there is none. */
static hs_status name_find(sqlite3 *db, const char *string, int *ret_name, hs_error *err)
{
    sqlite3_stmt *s = NULL;
    int code = sqlite3_prepare_v2(db, "SELECT name FROM names WHERE string = ?", -1, &s, NULL);
    if (!code) {
        sqlite3_bind_text(s, 1, string, -1, SQLITE_STATIC);
        code = sqlite3_step(s);
    }
    *ret_name = code == SQLITE_ROW ? sqlite3_column_int(s, 0) : -1;
    const hs_status st = code == SQLITE_ROW || code == SQLITE_DONE ? HS_OK : failed(db, err);
    sqlite3_finalize(s);
    return st;
}

static hs_status ids_find(sqlite3 *db, const char *token, condition *ret, hs_error *err)
{
    sqlite3_stmt *s = NULL;
    /* Byte-level and Unigram tokenizers write a space before a word as one of these characters. */
    static const char sql[] = "SELECT id FROM vocabulary WHERE token COLLATE NOCASE IN"
                              " (?1, '\u0120' || ?1, '\u2581' || ?1)";
    int code = sqlite3_prepare_v2(db, sql, -1, &s, NULL);
    if (!code)
        sqlite3_bind_text(s, 1, token, -1, SQLITE_STATIC);
    while (s && ret->n_ids < IDS_MAX && (code = sqlite3_step(s)) == SQLITE_ROW)
        ret->ids[ret->n_ids++] = sqlite3_column_int(s, 0);
    const hs_status st = code == SQLITE_ROW || code == SQLITE_DONE ? HS_OK : failed(db, err);
    sqlite3_finalize(s);
    return st;
}

/* Adds one condition, "pos" and "NOUN". HS_NOT_FOUND: there is no such kind, or it was given before. */
static hs_status part_add(sqlite3 *db, const char *kind, const char *value, condition *ret, hs_error *err)
{
    bool *has = strcmp(kind, "text") == 0  ? &ret->has_ids
                : strcmp(kind, "pos") == 0 ? &ret->has_pos
                : strcmp(kind, "rel") == 0 ? &ret->has_relation
                                           : NULL;
    if (!has || *has)
        return HS_NOT_FOUND;
    *has = true;
    return has == &ret->has_ids
               ? ids_find(db, value, ret, err)
               : name_find(db, value, has == &ret->has_pos ? &ret->pos : &ret->relation, err);
}

/* Reads "pos=NOUN,text=war". "text=," is the token of a comma. */
static hs_status condition_read(sqlite3 *db, const char *name, const char *text, condition *ret,
                                const char **ret_wrong, hs_error *err)
{
    char copy[CONDITION_BYTES], *rest = copy;
    if (!text)
        return HS_OK;
    hs_status st = snprintf(copy, sizeof copy, "%s", text) < (int)sizeof copy && *text ? HS_OK : HS_NOT_FOUND;
    for (char *part; !st && (part = strsep(&rest, ","));) {
        char *value = strchr(part, '=');
        if (value)
            *value++ = '\0';
        if (value && !*value && rest && (!*rest || *rest == ',')) {
            value = ",";
            rest = *rest ? rest + 1 : NULL;
        }
        st = value && *value ? part_add(db, part, value, ret, err) : HS_NOT_FOUND;
    }
    if (st == HS_NOT_FOUND)
        return wrong(ret_wrong, name, text,
                     "pos=NAME, rel=NAME or text=TOKEN, or several with commas between, each "
                     "kind once",
                     err);
    bool has_names = true;
    if (!st && (ret->has_pos || ret->has_relation))
        st = row_find(db, "SELECT 1 FROM names LIMIT 1", 0, 0, &has_names, err);
    return st || has_names ? st
                           : wrong(ret_wrong, name, text,
                                   "text=TOKEN: only texts of CoNLL-U files have pos and rel", err);
}

static hs_status query_read(const hs__search_query *q, search *s, const char **ret_wrong, hs_error *err)
{
    const bool named = q->of != NULL;
    s->similarity = named && strcmp(q->of, "similarity") == 0;
    if (named && !s->similarity && strcmp(q->of, "attention") != 0)
        return wrong(ret_wrong, "of", q->of, "attention or similarity", err);
    hs_status st = min_read(q->min, &s->least, ret_wrong, err);
    if (!st)
        st = distance_read(q->distance, s, ret_wrong, err);
    if (!st)
        st = limit_read(q, &s->limit, ret_wrong, err);
    if (!st)
        st = condition_read(s->db, "from", q->from, &s->from, ret_wrong, err);
    return st ? st : condition_read(s->db, "to", q->to, &s->to, ret_wrong, err);
}

/* Refuses attention if only similarity has pairs: cross heads attend to another text. */
static hs_status attention_check(const hs__search_query *q, const search *s, const char **ret_wrong,
                                 hs_error *err)
{
    bool attends = s->similarity, is_similar = false;
    hs_status st = HS_OK;
    if (!attends)
        st = row_find(
            s->db, "SELECT 1 FROM strongest WHERE layer = ? AND head = ? AND length(attention) > 0 LIMIT 1",
            s->layer, s->head, &attends, err);
    if (!st && !attends)
        st = row_find(
            s->db, "SELECT 1 FROM strongest WHERE layer = ? AND head = ? AND length(similarity) > 0 LIMIT 1",
            s->layer, s->head, &is_similar, err);
    return st || !is_similar ? st
                             : wrong(ret_wrong, "of", q->of,
                                     "similarity: cross heads attend to another text, so a text has no pairs "
                                     "of attention",
                                     err);
}

/* ---- the database ---- */

/* SQLite calls it during a statement; nonzero ends the statement. */
static int on_steps(void *data)
{
    const search *s = data;
    return hs__read_allow(s->check, 0, NULL) != HS_OK;
}

/* Opens the database. HS_INVALID is kept for parameters. A check replaces the bound of statements. */
static hs_status database_open(const char *path, search *s, hs_error *err)
{
    hs_error why = {0};
    const hs_status st = hs__database_open(path, HS__DATABASE_READ, &hs__text_index_kind, &s->db, &why);
    if (st)
        return hs_fail(err, st == HS_INVALID ? HS_IO : st,
                       "the run's " HS__TEXT_INDEX_FILE " cannot be read: %s", why.text);
    if (s->check)
        sqlite3_progress_handler(s->db, CHECK_STEPS, on_steps, s);
    return HS_OK;
}

/* Opens the database and reads layer and head. `table` is the one that must have rows; `option` starts a run
 * with them. */
static hs_status head_open(const char *dir, const hs__search_query *q, const char *table, const char *option,
                           search *s, const char **ret_wrong, hs_error *err)
{
    char path[PATH_BYTES], sql[128];
    long layer = 0, head = 0;
    bool found = false;
    snprintf(path, sizeof path, "%s/" HS__TEXT_INDEX_FILE, dir);
    if (access(path, R_OK))
        return hs_fail(err, HS_NOT_FOUND, "the run keeps no texts for this: start one with %s", option);
    s->check = q->check;
    hs_status st = database_open(path, s, err);
    snprintf(sql, sizeof sql, "SELECT 1 FROM %s WHERE ?1 IS NOT NULL AND ?2 IS NOT NULL LIMIT 1", table);
    if (!st)
        st = row_find(s->db, sql, 0, 0, &found, err);
    if (st)
        return st;
    if (!found)
        return hs_fail(err, HS_NOT_FOUND, "the run keeps no texts for this: start one with %s", option);
    st = number_read("layer", q->layer, 0, HS_LAYERS_MAX - 1, &layer, ret_wrong, err);
    if (!st)
        st = number_read("head", q->head, 0, HS_HEADS_MAX - 1, &head, ret_wrong, err);
    if (st)
        return st;
    s->layer = (int)layer;
    s->head = (int)head;
    snprintf(sql, sizeof sql, "SELECT 1 FROM %s WHERE layer = ?1 AND ?2 IS NOT NULL LIMIT 1", table);
    st = row_find(s->db, sql, s->layer, s->head, &found, err);
    if (!st && !found)
        return wrong(ret_wrong, "layer", q->layer, "a layer that the run has counted", err);
    snprintf(sql, sizeof sql, "SELECT 1 FROM %s WHERE layer = ? AND head = ? LIMIT 1", table);
    if (!st)
        st = row_find(s->db, sql, s->layer, s->head, &found, err);
    return st || found
               ? st
               : wrong(ret_wrong, "head", q->head, "a head that the run has counted in this layer", err);
}

/* Columns of texts. Databases of earlier versions have no source. */
enum { COLUMN_FILE = 1, COLUMN_LINE, COLUMN_BODY, COLUMN_TOKENS, COLUMN_SOURCE };

/* A text with its tokens. */
typedef struct text {
    sqlite3_stmt *row;
    const char *tokens; /* blob of hs__index_token, which may not be aligned */
    size_t n_tokens;
} text;

static hs__index_token token_at(const text *t, size_t i)
{
    hs__index_token token;
    memcpy(&token, t->tokens + i * sizeof token, sizeof token);
    return token;
}

/* ---- comparing ---- */

static bool meets(const condition *c, const hs__index_token *token)
{
    bool ok = (!c->has_pos || token->pos == c->pos) && (!c->has_relation || token->relation == c->relation);
    bool named = !c->has_ids;
    for (size_t i = 0; i < c->n_ids && !named; i++)
        named = token->id == c->ids[i];
    return ok && named;
}

static void keep(search *s, sqlite3_int64 number, hs__index_pair pair)
{
    s->n_found++;
    size_t at = s->n_kept < s->limit ? s->n_kept++ : s->limit;
    if (at == s->limit && !(pair.weight > s->kept[--at].pair.weight))
        return;
    for (; at && s->kept[at - 1].pair.weight < pair.weight; at--)
        s->kept[at] = s->kept[at - 1];
    s->kept[at] = (struct found){number, pair};
}

static void pairs_compare(search *s, sqlite3_int64 number, const text *t, const char *blob, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        hs__index_pair pair;
        memcpy(&pair, blob + k * sizeof pair, sizeof pair);
        const long distance = (long)pair.j - (long)pair.i;
        if (!((double)pair.weight >= s->least) || isinf(pair.weight) || distance < s->distance_low ||
            distance > s->distance_high || pair.i >= t->n_tokens || pair.j >= t->n_tokens)
            continue;
        const hs__index_token i = token_at(t, pair.i), j = token_at(t, pair.j);
        if (meets(&s->from, &i) && meets(&s->to, &j))
            keep(s, number, pair);
    }
}

static hs_status texts_compare(search *s, hs_error *err)
{
    sqlite3_stmt *row = NULL;
    if (sqlite3_prepare_v2(s->db,
                           s->similarity
                               ? "SELECT t.text, t.tokens, s.similarity FROM strongest s JOIN texts t ON"
                                 " t.text = s.text WHERE s.layer = ? AND s.head = ? ORDER BY s.text"
                               : "SELECT t.text, t.tokens, s.attention FROM strongest s JOIN texts t ON"
                                 " t.text = s.text WHERE s.layer = ? AND s.head = ? ORDER BY s.text",
                           -1, &row, NULL))
        return failed(s->db, err);
    sqlite3_bind_int(row, 1, s->layer);
    sqlite3_bind_int(row, 2, s->head);
    int code;
    hs_status st = HS_OK;
    while ((code = sqlite3_step(row)) == SQLITE_ROW && !(st = hs__read_allow(s->check, 0, err))) {
        const text t = {row, sqlite3_column_blob(row, 1),
                        (size_t)sqlite3_column_bytes(row, 1) / sizeof(hs__index_token)};
        s->n_texts++;
        pairs_compare(s, sqlite3_column_int64(row, 0), &t, sqlite3_column_blob(row, 2),
                      (size_t)sqlite3_column_bytes(row, 2) / sizeof(hs__index_pair));
    }
    if (!st && code != SQLITE_DONE)
        st = failed(s->db, err);
    sqlite3_finalize(row);
    return st;
}

/* ---- answers ---- */

/* Returns the string that a table has for a number, or null; NULL without memory. */
static json_t *string_json(sqlite3 *db, const char *sql, int number)
{
    sqlite3_stmt *s = NULL;
    json_t *string = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) == SQLITE_OK) {
        sqlite3_bind_int(s, 1, number);
        const char *found = sqlite3_step(s) == SQLITE_ROW ? (const char *)sqlite3_column_text(s, 0) : NULL;
        string = found ? json_stringn(found, (size_t)sqlite3_column_bytes(s, 0)) : NULL;
    }
    sqlite3_finalize(s);
    if (!string && sqlite3_errcode(db) == SQLITE_NOMEM)
        return NULL;
    return string ? string : json_null();
}

static json_t *token_json(sqlite3 *db, const text *t, size_t i)
{
    static const char name[] = "SELECT string FROM names WHERE name = ?";
    const hs__index_token token = token_at(t, i);
    return json_pack("{sI so s[II] so so}", "position", (json_int_t)i, "token",
                     string_json(db, "SELECT token FROM vocabulary WHERE id = ?", token.id), "chars",
                     (json_int_t)token.start, (json_int_t)token.end, "pos", string_json(db, name, token.pos),
                     "rel", string_json(db, name, token.relation));
}

static json_t *column_json(sqlite3_stmt *row, int column)
{
    const char *string = (const char *)sqlite3_column_text(row, column);
    json_t *json = string ? json_stringn(string, (size_t)sqlite3_column_bytes(row, column)) : NULL;
    if (!string && sqlite3_errcode(sqlite3_db_handle(row)) == SQLITE_NOMEM)
        return NULL;
    return json ? json : json_string("(not UTF-8)");
}

static text text_read(sqlite3 *db, sqlite3_int64 number)
{
    text t = {0};
    if (sqlite3_prepare_v2(db, "SELECT * FROM texts WHERE text = ?", -1, &t.row, NULL))
        return t;
    sqlite3_bind_int64(t.row, 1, number);
    if (sqlite3_step(t.row) == SQLITE_ROW) {
        t.tokens = sqlite3_column_blob(t.row, COLUMN_TOKENS);
        t.n_tokens = (size_t)sqlite3_column_bytes(t.row, COLUMN_TOKENS) / sizeof(hs__index_token);
    }
    return t;
}

static bool has_source(const text *t)
{
    return sqlite3_column_count(t->row) > COLUMN_SOURCE &&
           sqlite3_column_type(t->row, COLUMN_SOURCE) != SQLITE_NULL;
}

static json_t *text_json(const text *t, sqlite3_int64 number)
{
    return json_pack(
        "{sI so sI so so*}", "text", (json_int_t)number, "file", column_json(t->row, COLUMN_FILE), "line",
        (json_int_t)sqlite3_column_int64(t->row, COLUMN_LINE), "body", column_json(t->row, COLUMN_BODY),
        "source", has_source(t) ? column_json(t->row, COLUMN_SOURCE) : NULL);
}

/* Asks for the memory of a result with this text. */
static hs_status result_allow(const search *s, const text *t, hs_error *err)
{
    size_t n_text = RESULT_BYTES;
    for (int k = COLUMN_FILE; k < sqlite3_column_count(t->row); k++)
        n_text += k == COLUMN_FILE || k == COLUMN_BODY || k == COLUMN_SOURCE
                      ? (size_t)sqlite3_column_bytes(t->row, k)
                      : 0;
    return hs__read_allow(s->check, n_text, err);
}

static hs_status found_add(const search *s, const struct found *found, json_t *pairs, hs_error *err)
{
    assert(found);
    const text t = text_read(s->db, found->text);
    const bool sound = t.n_tokens > found->pair.i && t.n_tokens > found->pair.j;
    hs_status st = sound ? result_allow(s, &t, err) : damaged(s->db, err);
    json_t *json = st ? NULL : text_json(&t, found->text);
    if (!st && (json_object_set_new(json, "weight", json_real((double)found->pair.weight)) ||
                json_object_set_new(json, "from", token_json(s->db, &t, found->pair.i)) ||
                json_object_set_new(json, "to", token_json(s->db, &t, found->pair.j)) ||
                json_array_append(pairs, json)))
        st = hs_fail(err, HS_NO_MEMORY, "no memory for the answer");
    json_decref(json);
    sqlite3_finalize(t.row);
    return st;
}

/* Ends an answer that was begun at this number of refusals. `why`: the error of st. */
static hs_status answer_end(hs_status st, size_t refusals, json_t **answer, const hs_error *why,
                            hs_error *err)
{
    *answer = hs_json_whole(*answer, refusals);
    if (hs_json_refusals() != refusals)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the answer");
    return st ? hs_fail(err, st, "%s", why->text) : HS_OK;
}

static hs_status found_answer(const search *s, json_t **ret_answer, hs_error *err)
{
    json_t *pairs = json_array();
    hs_status st = HS_OK;
    for (size_t k = 0; !st && k < s->n_kept; k++)
        st = found_add(s, &s->kept[k], pairs, err);
    if (st) {
        json_decref(pairs);
        return st;
    }
    *ret_answer = json_pack("{so sI sI}", "pairs", pairs, "total", (json_int_t)s->n_found, "texts",
                            (json_int_t)s->n_texts);
    return HS_OK;
}

hs_status hs__search_pairs(const char *dir, const hs__search_query *query, json_t **ret_answer,
                           const char **ret_wrong, hs_error *err)
{
    const size_t refusals = hs_json_refusals();
    hs_error why = {0};
    *ret_answer = NULL;
    search s = {0};
    hs_status st = head_open(dir, query, "strongest", "search_texts=N (--search-texts N of headscope corpus)",
                             &s, ret_wrong, err);
    if (!st)
        st = query_read(query, &s, ret_wrong, err);
    if (!st)
        st = attention_check(query, &s, ret_wrong, err);
    s.kept = st ? NULL : calloc(s.limit + 1, sizeof *s.kept);
    if (!st && !s.kept)
        st = hs_fail(err, HS_NO_MEMORY, "no memory for the search");
    if (!st)
        st = texts_compare(&s, err);
    if (!st)
        st = answer_end(found_answer(&s, ret_answer, &why), refusals, ret_answer, &why, err);
    free(s.kept);
    sqlite3_close(s.db);
    return st;
}

static hs_status example_add(const search *s, sqlite3_int64 number, double value, json_t *list, hs_error *err)
{
    const text t = text_read(s->db, number);
    hs_status st = t.tokens && isfinite(value) ? result_allow(s, &t, err) : damaged(s->db, err);
    json_t *json = st ? NULL : text_json(&t, number);
    if (json)
        json_object_set_new(json, "value", json_real(value));
    sqlite3_finalize(t.row);
    if (!st && json_array_append_new(list, json))
        st = hs_fail(err, HS_NO_MEMORY, "no memory for the answer");
    return st;
}

/* Returns why the texts of a run have no such figure; `has`: figures that some head has. */
static const char *figure_missing(hs__top_figure by, const bool has[HS__TOP_FIGURES])
{
    const bool compares = by == HS__TOP_SELF || by == HS__TOP_PREVIOUS || by == HS__TOP_NEXT;
    if (compares && has[HS__TOP_FIRST])
        return "cross heads attend to another text, so their figures compare no position with itself or its "
               "neighbours";
    return by == HS__TOP_SYNTAX_ATTENTION || by == HS__TOP_SYNTAX_SIMILARITY
               ? "only texts of CoNLL-U files have syntactic heads"
               : "it is undefined in every text of the run";
}

/* Lists the figures that texts of the run have. */
static hs_status figures_find(sqlite3 *db, bool ret_has[HS__TOP_FIGURES], hs_error *err)
{
    sqlite3_stmt *row = NULL;
    int code = sqlite3_prepare_v2(db, "SELECT DISTINCT figure FROM examples", -1, &row, NULL);
    const char *name = "";
    while (name && row && (code = sqlite3_step(row)) == SQLITE_ROW) {
        name = (const char *)sqlite3_column_text(row, 0); /* NULL without memory */
        const hs__top_figure figure = hs__top_figure_find(name);
        if (figure < HS__TOP_FIGURES)
            ret_has[figure] = true;
    }
    const hs_status st = code == SQLITE_DONE ? HS_OK : failed(db, err);
    sqlite3_finalize(row);
    return st;
}

/* Refuses a name that is no figure, listing those of `has`, and says why if there is a reason. */
static hs_status by_refuse(const char *by, const bool has[HS__TOP_FIGURES], const char *reason,
                           const char **ret_wrong, hs_error *err)
{
    char must[400] = "one of ";
    for (int k = 0, n_listed = 0; k < HS__TOP_FIGURES; k++) {
        const size_t n = strlen(must);
        if (has[k])
            snprintf(must + n, sizeof must - n, "%s%s", n_listed++ ? ", " : "", hs__top_names[k]);
    }
    const size_t n = strlen(must);
    snprintf(must + n, sizeof must - n, "%s%s", reason ? ": " : "", reason ? reason : "");
    return wrong(ret_wrong, "by", by, must, err);
}

/* Refuses a name that is no figure, and a figure that no text of the run has. A head may have none of a
 * figure that other heads have: then its list is empty. */
static hs_status by_check(const hs__search_query *q, const search *s, const char **ret_wrong, hs_error *err)
{
    bool has[HS__TOP_FIGURES] = {false}, found = false;
    char sql[128];
    const hs__top_figure figure = hs__top_figure_find(q->by);
    if (figure == HS__TOP_FIGURES) {
        memset(has, true, sizeof has);
        return by_refuse(q->by, has, NULL, ret_wrong, err);
    }
    snprintf(sql, sizeof sql, "SELECT 1 FROM examples WHERE layer = ? AND head = ? AND figure = '%s' LIMIT 1",
             hs__top_names[figure]);
    hs_status st = row_find(s->db, sql, s->layer, s->head, &found, err);
    if (!st && !found)
        st = figures_find(s->db, has, err);
    return st || found || has[figure] ? st
                                      : by_refuse(q->by, has, figure_missing(figure, has), ret_wrong, err);
}

static hs_status examples_answer(const search *s, const char *by, json_t **ret_answer, hs_error *err)
{
    sqlite3_stmt *row = NULL;
    json_t *list = json_array();
    if (sqlite3_prepare_v2(s->db,
                           "SELECT text, value FROM examples WHERE layer = ? AND head = ? AND figure = ?"
                           " ORDER BY place LIMIT ?",
                           -1, &row, NULL)) {
        json_decref(list);
        return failed(s->db, err);
    }
    sqlite3_bind_int(row, 1, s->layer);
    sqlite3_bind_int(row, 2, s->head);
    sqlite3_bind_text(row, 3, by, -1, SQLITE_STATIC);
    sqlite3_bind_int64(row, 4, (sqlite3_int64)s->limit);
    int code = SQLITE_DONE;
    hs_status st = HS_OK;
    while (!st && (code = sqlite3_step(row)) == SQLITE_ROW)
        st = example_add(s, sqlite3_column_int64(row, 0), sqlite3_column_double(row, 1), list, err);
    if (!st && code != SQLITE_DONE)
        st = failed(s->db, err);
    sqlite3_finalize(row);
    if (st) {
        json_decref(list);
        return st;
    }
    *ret_answer = json_pack("{ss so}", "by", by, "examples", list);
    return HS_OK;
}

hs_status hs__search_examples(const char *dir, const hs__search_query *query, json_t **ret_answer,
                              const char **ret_wrong, hs_error *err)
{
    const size_t refusals = hs_json_refusals();
    hs_error why = {0};
    *ret_answer = NULL;
    search s = {0};
    hs_status st = head_open(dir, query, "examples", "examples=N (--examples N of headscope corpus)", &s,
                             ret_wrong, err);
    if (!st)
        st = by_check(query, &s, ret_wrong, err);
    if (!st)
        st = limit_read(query, &s.limit, ret_wrong, err);
    if (!st)
        st = answer_end(examples_answer(&s, query->by, ret_answer, &why), refusals, ret_answer, &why, err);
    sqlite3_close(s.db);
    return st;
}
