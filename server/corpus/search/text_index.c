/* text_index.c - the index of texts to search: a SQLite file with the strongest pairs of each head. */
#include "server/corpus/search/text_index.h"

#include "model/base/utf8.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void top_texts_destroy(hs__top_texts *top);

/* ---- top texts ----
 *
 * One sorted array of fixed length for each head and figure. */

const char *const hs__top_names[HS__TOP_FIGURES] = {
    [HS__TOP_REPEATED] = "repeated_share",
    [HS__TOP_SAME_SENTENCE] = "same_sentence_share",
    [HS__TOP_DISTANCE] = "mean_distance",
    [HS__TOP_FOCAL] = "focal_share",
    [HS__TOP_HIGH] = "high_pairs",
    [HS__TOP_SEPARATOR] = "separator_attention",
    [HS__TOP_SELF] = "self",
    [HS__TOP_PREVIOUS] = "previous",
    [HS__TOP_NEXT] = "next",
    [HS__TOP_FIRST] = "first",
    [HS__TOP_SYNTAX_ATTENTION] = "syntax_attention",
    [HS__TOP_SYNTAX_SIMILARITY] = "syntax_similarity",
};

hs__top_figure hs__top_figure_find(const char *name)
{
    int figure = 0;
    while (figure < HS__TOP_FIGURES && (!name || strcmp(hs__top_names[figure], name) != 0))
        figure++;
    return (hs__top_figure)figure;
}

struct hs__top_texts {
    size_t n_maps, keep;
    uint8_t *n;             /* [n_maps][HS__TOP_FIGURES] */
    hs__top_entry *entries; /* [n_maps][HS__TOP_FIGURES][keep] */
};

/* Creates empty lists of `keep` texts for n_maps heads. NULL if memory is short. */
static hs__top_texts *top_texts_create(size_t n_maps, size_t keep)
{
    hs__top_texts *top = calloc(1, sizeof *top);
    if (!top)
        return NULL;
    *top = (hs__top_texts){.n_maps = n_maps, .keep = keep};
    top->n = calloc(n_maps * HS__TOP_FIGURES, sizeof *top->n);
    top->entries = calloc(n_maps * HS__TOP_FIGURES * keep, sizeof *top->entries);
    if (!top->n || !top->entries) {
        top_texts_destroy(top);
        return NULL;
    }
    return top;
}

/* NULL is fine */
static void top_texts_destroy(hs__top_texts *top)
{
    if (!top)
        return;
    free(top->n);
    free(top->entries);
    free(top);
}

static size_t top_texts_bytes(size_t n_maps, size_t keep)
{
    return n_maps * HS__TOP_FIGURES * (1 + keep * sizeof(hs__top_entry));
}

/* Returns true if a comes before b. */
static bool is_above(hs__top_entry a, hs__top_entry b)
{
    return a.value > b.value || (!(a.value < b.value) && a.text < b.text);
}

/* Adds one value. Returns true if the text is in the list now. */
static bool top_texts_add(hs__top_texts *top, size_t map, hs__top_figure figure, hs__top_entry entry)
{
    const size_t list = map * HS__TOP_FIGURES + figure;
    hs__top_entry *entries = top->entries + list * top->keep;
    size_t n = top->n[list], at = 0;
    if (isnan(entry.value))
        return false;
    while (at < n && is_above(entries[at], entry))
        at++;
    if (at == top->keep)
        return false;
    if (at < n && entries[at].text == entry.text)
        return true;
    n -= n == top->keep;
    memmove(entries + at + 1, entries + at, (n - at) * sizeof *entries);
    entries[at] = entry;
    top->n[list] = (uint8_t)(n + 1);
    return true;
}

/* Returns a list, the highest value first. */
static size_t top_texts_list(const hs__top_texts *top, size_t map, hs__top_figure figure,
                             const hs__top_entry **ret_entries)
{
    const size_t list = map * HS__TOP_FIGURES + figure;
    *ret_entries = top->entries + list * top->keep;
    return top->n[list];
}

/* ---- text index ----
 *
 * Writes the database of a run's texts. A lock orders the threads, and one process at a time
 * has the run's folder. */

#define PATH_BYTES 4200

/* Sizes on the disk. A row has ROW_BYTES beside its texts and blobs. The words of the vocabulary and names
 * have ENTRY_BYTES. A text has TEXT_BYTES and TOKEN_TEXT_BYTES for each token. SQLite's pages have
 * PAGE_BYTES. */
enum { ROW_BYTES = 48, ENTRY_BYTES = 32, TOKEN_TEXT_BYTES = 16, TEXT_BYTES = 1024, PAGE_BYTES = 4096 };

#define CACHE_BYTES ((size_t)8 << 20)

#define SOURCE_COLUMN "source TEXT"

static const char *const added[] = {SOURCE_COLUMN, NULL}; /* to databases of earlier versions */

const hs__database_kind hs__text_index_kind = {
    .columns = added,
    .schema =
        "CREATE TABLE texts(text INTEGER PRIMARY KEY, file TEXT NOT NULL, line INTEGER NOT NULL, body TEXT "
        "NOT "
        "NULL,"
        " tokens BLOB NOT NULL);"
        "CREATE TABLE vocabulary(id INTEGER PRIMARY KEY, token TEXT NOT NULL);"
        "CREATE TABLE names(name INTEGER PRIMARY KEY, string TEXT NOT NULL UNIQUE);"
        "CREATE TABLE strongest(layer INTEGER NOT NULL, head INTEGER NOT NULL, text INTEGER NOT NULL,"
        " attention BLOB NOT NULL, similarity BLOB NOT NULL, PRIMARY KEY(layer, head, text)) WITHOUT ROWID;"
        "CREATE TABLE examples(layer INTEGER NOT NULL, head INTEGER NOT NULL, figure TEXT NOT NULL,"
        " place INTEGER NOT NULL, text INTEGER NOT NULL, value REAL NOT NULL,"
        " PRIMARY KEY(layer, head, figure, place)) WITHOUT ROWID;",
};

enum { ADD_TOKEN, ADD_NAME, FIND_NAME, ADD_MAPS, ADD_EXAMPLE, ADD_TEXT, STATEMENTS };

static const char *const statements[STATEMENTS] = {
    [ADD_TOKEN] = "INSERT OR IGNORE INTO vocabulary VALUES (?, ?)",
    [ADD_NAME] = "INSERT OR IGNORE INTO names(string) VALUES (?)",
    [FIND_NAME] = "SELECT name FROM names WHERE string = ?",
    [ADD_MAPS] = "INSERT OR REPLACE INTO strongest VALUES (?, ?, ?, ?, ?)",
    [ADD_EXAMPLE] = "INSERT INTO examples VALUES (?, ?, ?, ?, ?, ?)",
    [ADD_TEXT] = "INSERT OR REPLACE INTO texts VALUES (?, ?, ?, ?, ?, ?)",
};

struct hs__text_index {
    pthread_mutex_t lock;
    hs__text_index_options options;
    uint16_t layers[HS_LAYERS_MAX];
    hs__top_texts *top; /* NULL: no examples */
    hs__store store;
    size_t n_names;
};

/* ---- lifetime ---- */

/* Finds the place of a counted layer; n_layers if it is not counted. */
static size_t layer_find(const hs__text_index *index, int layer)
{
    size_t l = 0;
    while (l < index->options.n_layers && index->layers[l] != layer)
        l++;
    return l;
}

/* Adds the lists that a database has. */
static void lists_read(hs__text_index *index, sqlite3 *db)
{
    if (!index->top)
        return;
    sqlite3_stmt *s =
        hs__store_query(&index->store, db, "SELECT layer, head, figure, text, value FROM examples");
    while (hs__store_next(&index->store, s)) {
        const size_t l = layer_find(index, sqlite3_column_int(s, 0)), h = (size_t)sqlite3_column_int(s, 1);
        const hs__top_figure figure = hs__top_figure_find((const char *)sqlite3_column_text(s, 2));
        if (l < index->options.n_layers && h < index->options.n_heads && figure < HS__TOP_FIGURES)
            top_texts_add(
                index->top, l * index->options.n_heads + h, figure,
                (hs__top_entry){(uint64_t)sqlite3_column_int64(s, 3), (float)sqlite3_column_double(s, 4)});
    }
    sqlite3_finalize(s);
}

/* Adds the column for sources if it is missing, and prepares the statement that fills it. */
static void source_prepare(hs__store *store)
{
    const int code =
        sqlite3_table_column_metadata(store->db, NULL, "texts", "source", NULL, NULL, NULL, NULL, NULL);
    if (code == SQLITE_ERROR) /* there is no such column */
        hs__store_run(store, "ALTER TABLE texts ADD COLUMN " SOURCE_COLUMN);
    else
        hs__store_note(store, code);
    store->statements[ADD_TEXT] = hs__store_query(store, store->db, statements[ADD_TEXT]);
}

static hs_status database_open(hs__text_index *index, const char *path, bool anew, hs_error *err)
{
    static const char *const endings[] = {"", "-journal"};
    for (size_t k = 0; anew && k < sizeof endings / sizeof *endings; k++) {
        char old[PATH_BYTES + 16];
        snprintf(old, sizeof old, "%s%s", path, endings[k]);
        (void)unlink(old);
    }
    const hs_status st = hs__store_open(
        path, anew ? HS__DATABASE_CREATE : HS__DATABASE_WRITE, &hs__text_index_kind, statements, ADD_TEXT,
        "the run's " HS__TEXT_INDEX_FILE " cannot be written or read", &index->store, err);
    if (st)
        return st;
    source_prepare(&index->store);
    lists_read(index, index->store.db);
    index->n_names = (size_t)hs__store_number(&index->store, "SELECT count(*) FROM names");
    return hs__store_outcome(&index->store, err);
}

hs_status hs__text_index_open(const char *dir, bool anew, const hs__text_index_options *options,
                              hs__text_index **ret_index, hs_error *err)
{
    char path[PATH_BYTES];
    hs__text_index *index = calloc(1, sizeof *index);
    if (!index)
        return hs_fail(err, HS_NO_MEMORY, "no memory for the texts to search");
    pthread_mutex_init(&index->lock, NULL);
    index->options = *options;
    memcpy(index->layers, options->layers, options->n_layers * sizeof *index->layers);
    if (options->n_examples > 0)
        index->top = top_texts_create(options->n_layers * options->n_heads, options->n_examples);
    snprintf(path, sizeof path, "%s/" HS__TEXT_INDEX_FILE, dir);
    hs_status st = options->n_examples > 0 && !index->top
                       ? hs_fail(err, HS_NO_MEMORY, "no memory for the examples of heads")
                   : !anew && access(path, R_OK | W_OK)
                       ? hs_fail(err, HS_INVALID, "'%.250s' is missing: start again in another folder", path)
                       : HS_OK;
    if (!st)
        st = database_open(index, path, anew, err);
    if (st)
        hs__text_index_close(index);
    else
        *ret_index = index;
    return st;
}

void hs__text_index_close(hs__text_index *index)
{
    if (!index)
        return;
    hs__store_close(&index->store);
    top_texts_destroy(index->top);
    pthread_mutex_destroy(&index->lock);
    free(index);
}

bool hs__text_index_wants(const hs__text_index *index, uint64_t number)
{
    return number < index->options.n_texts;
}

/* ---- adding ---- */

/* Finds a name. Returns 0 if there is none. */
static uint16_t name_find(hs__text_index *index, const char *string)
{
    sqlite3_stmt *s = index->store.statements[FIND_NAME];
    sqlite3_bind_text(s, 1, string, -1, SQLITE_STATIC);
    const int code = sqlite3_step(s), name = code == SQLITE_ROW ? sqlite3_column_int(s, 0) : 0;
    hs__store_note(&index->store, code);
    sqlite3_reset(s);
    return name > 0 && name <= UINT16_MAX ? (uint16_t)name : 0;
}

/* Finds or adds a name. Returns 0 for "", and for names beyond HS__INDEX_NAMES_MAX. */
static uint16_t name_add(hs__text_index *index, const char *string)
{
    const uint16_t known = *string ? name_find(index, string) : 0;
    if (known || !*string || index->n_names == HS__INDEX_NAMES_MAX)
        return known;
    sqlite3_bind_text(index->store.statements[ADD_NAME], 1, string, -1, SQLITE_STATIC);
    hs__store_step(&index->store, ADD_NAME);
    index->n_names++;
    return name_find(index, string);
}

static void token_add(hs__text_index *index, int32_t id)
{
    sqlite3_stmt *s = index->store.statements[ADD_TOKEN];
    sqlite3_bind_int(s, 1, id);
    sqlite3_bind_text(s, 2, hs_tokenizer_token(index->options.tokenizer, id), -1, SQLITE_STATIC);
    hs__store_step(&index->store, ADD_TOKEN);
}

static size_t body_max(const hs__text_index_options *o)
{
    return TEXT_BYTES + o->n_tokens * TOKEN_TEXT_BYTES;
}

/* Returns the bytes of a text that are kept: all, or as many characters as fit. A token may stand for any
 * number of characters, so the size of a text would have no bound. */
static int body_bytes(const hs__text_index *index, const hs_text *body)
{
    const size_t most = body_max(&index->options);
    return (int)(body->n_bytes <= most ? body->n_bytes : hs_utf8_whole(body->bytes, most));
}

/* Where a text begins in the body, and the code points that it lost before. */
typedef struct origin {
    uint32_t in_body, n_before;
} origin;

/* Returns the place in the body of a place in the text. */
static uint32_t place_in_body(const origin *text, uint32_t at)
{
    return text->in_body + (at > text->n_before ? at - text->n_before : 0);
}

/* Returns the text, or both with a line end between; the caller frees its bytes. NULL if memory is short. */
static hs_text body_make(const hs__indexed_text *text)
{
    const hs_text *first = &text->body, *second = &text->pair;
    char *body = malloc(first->n_bytes + second->n_bytes + 1);
    if (!body)
        return (hs_text){0};
    memcpy(body, first->bytes, first->n_bytes);
    if (!second->bytes)
        return (hs_text){body, first->n_bytes};
    body[first->n_bytes] = '\n';
    memcpy(body + first->n_bytes + 1, second->bytes, second->n_bytes);
    return (hs_text){body, first->n_bytes + 1 + second->n_bytes};
}

static void text_add(hs__text_index *index, const hs__indexed_text *text)
{
    const hs_encoding *e = text->encoding;
    const origin origins[2] = {
        {0, text->n_before},
        {(uint32_t)hs_utf8_count(text->body.bytes, text->body.n_bytes) + 1, text->n_before_pair}};
    const hs_text body = body_make(text);
    hs__index_token *tokens = calloc(e->n_tokens, sizeof *tokens);
    sqlite3_stmt *s = index->store.statements[ADD_TEXT];
    if (!tokens || !body.bytes) {
        hs__store_note(&index->store, SQLITE_NOMEM);
        free(tokens);
        free((void *)body.bytes);
        return;
    }
    for (size_t i = 0; i < e->n_tokens; i++) {
        const origin *from = &origins[text->pair.bytes && e->texts[i]];
        tokens[i] = (hs__index_token){.id = e->ids[i]};
        if (!e->special[i]) {
            tokens[i].start = place_in_body(from, e->starts[i]);
            tokens[i].end = place_in_body(from, e->ends[i]);
        }
        if (text->labels && i >= text->first && i - text->first < text->n_labels) {
            tokens[i].pos = name_add(index, text->labels[i - text->first].pos);
            tokens[i].relation = name_add(index, text->labels[i - text->first].relation);
        }
        token_add(index, e->ids[i]);
    }
    sqlite3_bind_int64(s, 1, (sqlite3_int64)text->number);
    sqlite3_bind_text(s, 2, text->file, -1, SQLITE_STATIC);
    sqlite3_bind_int64(s, 3, (sqlite3_int64)text->line);
    sqlite3_bind_text(s, 4, body.bytes, body_bytes(index, &body), SQLITE_STATIC);
    sqlite3_bind_blob(s, 5, tokens, (int)(e->n_tokens * sizeof *tokens), SQLITE_STATIC);
    sqlite3_bind_text(s, 6, text->source.bytes, body_bytes(index, &text->source), SQLITE_STATIC);
    hs__store_step(&index->store, ADD_TEXT);
    free(tokens);
    free((void *)body.bytes);
}

static void maps_add(hs__text_index *index, uint64_t number, const hs__index_maps *maps)
{
    const size_t n_heads = index->options.n_heads, n_maps = index->options.n_layers * n_heads;
    sqlite3_stmt *s = index->store.statements[ADD_MAPS];
    for (size_t k = 0; k < n_maps; k++) {
        sqlite3_bind_int(s, 1, index->layers[k / n_heads]);
        sqlite3_bind_int64(s, 2, (sqlite3_int64)(k % n_heads));
        sqlite3_bind_int64(s, 3, (sqlite3_int64)number);
        for (int of = 0; of < 2; of++)
            sqlite3_bind_blob(s, 4 + of, maps[k].pairs[of], (int)(maps[k].n[of] * sizeof(hs__index_pair)),
                              SQLITE_STATIC);
        hs__store_step(&index->store, ADD_MAPS);
    }
}

/* Returns true if any list keeps the text. */
static bool figures_add(hs__text_index *index, uint64_t number, const float *figures)
{
    const size_t n = index->options.n_layers * index->options.n_heads * HS__TOP_FIGURES;
    bool kept = false;
    for (size_t k = 0; index->top && k < n; k++)
        kept |= top_texts_add(index->top, k / HS__TOP_FIGURES, (hs__top_figure)(k % HS__TOP_FIGURES),
                              (hs__top_entry){number, figures[k]});
    return kept;
}

hs_status hs__text_index_add(hs__text_index *index, const hs__indexed_text *text, const float *figures,
                             const hs__index_maps *maps, hs_error *err)
{
    pthread_mutex_lock(&index->lock);
    const bool kept = figures && figures_add(index, text->number, figures);
    if (kept || maps)
        text_add(index, text);
    if (maps)
        maps_add(index, text->number, maps);
    const hs_status st = hs__store_outcome(&index->store, err);
    pthread_mutex_unlock(&index->lock);
    return st;
}

/* ---- ending a transaction ---- */

static void list_write(hs__text_index *index, size_t map, hs__top_figure figure)
{
    const hs__top_entry *entries;
    const size_t n = top_texts_list(index->top, map, figure, &entries), n_heads = index->options.n_heads;
    sqlite3_stmt *s = index->store.statements[ADD_EXAMPLE];
    for (size_t i = 0; i < n; i++) {
        sqlite3_bind_int(s, 1, index->layers[map / n_heads]);
        sqlite3_bind_int64(s, 2, (sqlite3_int64)(map % n_heads));
        sqlite3_bind_text(s, 3, hs__top_names[figure], -1, SQLITE_STATIC);
        sqlite3_bind_int64(s, 4, (sqlite3_int64)i);
        sqlite3_bind_int64(s, 5, (sqlite3_int64)entries[i].text);
        sqlite3_bind_double(s, 6, (double)entries[i].value);
        hs__store_step(&index->store, ADD_EXAMPLE);
    }
}

hs_status hs__text_index_commit(hs__text_index *index, hs_error *err)
{
    const size_t n_maps = index->options.n_layers * index->options.n_heads;
    char unused[128];
    hs__store_run(&index->store, "DELETE FROM examples");
    for (size_t k = 0; index->top && k < n_maps; k++)
        for (int figure = 0; figure < HS__TOP_FIGURES; figure++)
            list_write(index, k, (hs__top_figure)figure);
    snprintf(unused, sizeof unused,
             "DELETE FROM texts WHERE text >= %zu AND text NOT IN (SELECT text FROM examples)",
             index->options.n_texts);
    hs__store_run(&index->store, unused);
    hs__store_commit(&index->store);
    return hs__store_outcome(&index->store, err);
}

/* ---- merging ---- */

/* Copies the rows of a query by a statement of as many values. */
static void rows_copy(hs__text_index *index, sqlite3 *other, const char *sql, int statement)
{
    sqlite3_stmt *from = hs__store_query(&index->store, other, sql);
    while (hs__store_next(&index->store, from)) {
        for (int k = 0; k < sqlite3_column_count(from); k++)
            sqlite3_bind_value(index->store.statements[statement], k + 1, sqlite3_column_value(from, k));
        hs__store_step(&index->store, statement);
    }
    sqlite3_finalize(from);
}

/* Finds the numbers here of another database's names: to [UINT16_MAX + 1]. */
static void names_match(hs__text_index *index, sqlite3 *other, uint16_t *to)
{
    sqlite3_stmt *s = hs__store_query(&index->store, other, "SELECT name, string FROM names");
    while (hs__store_next(&index->store, s)) {
        const sqlite3_int64 name = sqlite3_column_int64(s, 0);
        const char *string = (const char *)sqlite3_column_text(s, 1);
        if (name >= 0 && name <= UINT16_MAX && string)
            to[name] = name_add(index, string);
    }
    sqlite3_finalize(s);
}

/* Copies a row of texts, whose tokens have other numbers of names. */
static void text_copy(hs__text_index *index, sqlite3_stmt *from, const uint16_t *to)
{
    sqlite3_stmt *s = index->store.statements[ADD_TEXT];
    const size_t n = (size_t)sqlite3_column_bytes(from, 4) / sizeof(hs__index_token);
    hs__index_token *tokens = calloc(n + 1, sizeof *tokens);
    if (!tokens) {
        hs__store_note(&index->store, SQLITE_NOMEM);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        memcpy(&tokens[i], (const char *)sqlite3_column_blob(from, 4) + i * sizeof *tokens, sizeof *tokens);
        tokens[i].pos = to[tokens[i].pos];
        tokens[i].relation = to[tokens[i].relation];
    }
    for (int k = 0; k < 4; k++)
        sqlite3_bind_value(s, k + 1, sqlite3_column_value(from, k));
    sqlite3_bind_blob(s, 5, tokens, (int)(n * sizeof *tokens), SQLITE_STATIC);
    if (sqlite3_column_count(from) > 5)
        sqlite3_bind_value(s, 6, sqlite3_column_value(from, 5));
    else
        sqlite3_bind_null(s, 6);
    hs__store_step(&index->store, ADD_TEXT);
    free(tokens);
}

static void texts_copy(hs__text_index *index, sqlite3 *other)
{
    uint16_t *to = calloc(UINT16_MAX + 1, sizeof *to);
    if (!to) {
        hs__store_note(&index->store, SQLITE_NOMEM);
        return;
    }
    sqlite3_stmt *s = hs__store_query(&index->store, other, "SELECT * FROM texts");
    if (!index->store.failure)
        names_match(index, other, to);
    while (hs__store_next(&index->store, s))
        text_copy(index, s, to);
    sqlite3_finalize(s);
    free(to);
}

hs_status hs__text_index_merge(hs__text_index *index, const char *dir, hs_error *err)
{
    char path[PATH_BYTES];
    hs_error why = {0};
    sqlite3 *other;
    snprintf(path, sizeof path, "%s/" HS__TEXT_INDEX_FILE, dir);
    if (access(path, R_OK))
        return hs_fail(err, HS_INVALID, "'%.250s' is missing: count this shard again", path);
    const hs_status st = hs__database_open(path, HS__DATABASE_READ, &hs__text_index_kind, &other, &why);
    if (st)
        return hs_fail(err, st, "'%.250s' cannot be read: %s; count this shard again", path, why.text);
    rows_copy(index, other, "SELECT id, token FROM vocabulary", ADD_TOKEN);
    rows_copy(index, other, "SELECT layer, head, text, attention, similarity FROM strongest", ADD_MAPS);
    texts_copy(index, other);
    if (!index->store.failure)
        lists_read(index, other);
    sqlite3_close(other);
    hs__store_commit(&index->store);
    return hs__store_outcome(&index->store, err);
}

/* ---- sizes ---- */

size_t hs__text_index_memory(const hs__text_index_options *o)
{
    const size_t n_maps = o->n_layers * o->n_heads;
    return CACHE_BYTES + (o->n_examples ? top_texts_bytes(n_maps, o->n_examples) : 0);
}

/* Returns the bytes of rows in a tree whose pages are half full at least. A large row ends in pages of its
 * own.
 */
static uint64_t rows_bytes(uint64_t n, uint64_t row)
{
    return n * (row < PAGE_BYTES / 2 ? 2 * row : row + PAGE_BYTES);
}

uint64_t hs__text_index_disk(const hs__text_index_options *o)
{
    const uint64_t n_maps = o->n_layers * o->n_heads, lists = n_maps * HS__TOP_FIGURES * o->n_examples;
    const uint64_t n_texts = o->n_texts + lists, n_ids = n_texts * o->n_tokens;
    const uint64_t vocabulary = o->tokenizer ? hs_tokenizer_vocab_size(o->tokenizer) : 0;
    const uint64_t text = ROW_BYTES + ENTRY_BYTES + o->n_tokens * sizeof(hs__index_token) +
                          (o->has_sources ? 2 : 1) * body_max(o);
    const uint64_t map = ROW_BYTES + 2 * HS__INDEX_PAIRS_MAX * sizeof(hs__index_pair);
    const uint64_t entry = ROW_BYTES + ENTRY_BYTES;
    if (!n_texts)
        return 0;
    return rows_bytes(n_texts, text) + rows_bytes(o->n_texts * n_maps, map) + rows_bytes(lists, entry) +
           rows_bytes(n_ids < vocabulary ? n_ids : vocabulary, entry) +
           2 * rows_bytes(n_ids < HS__INDEX_NAMES_MAX ? n_ids : HS__INDEX_NAMES_MAX, entry);
}
