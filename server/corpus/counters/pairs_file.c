/* pairs_file.c - writes the high pairs of a run as rows of CSV or of an SQLite database.
 *
 * Columns: text,file,line,layer,head,i,j,token_i,token_j,similarity,normalized. i < j are positions among the
 * text's tokens, special ones included. Pairs are those of E (docs/reference/formulas.md) at the main
 * threshold. Workers buffer rows and write them in the order of blocks, so the file does not depend on the
 * number of workers. Buffers are bounded. */
#define ZLIB_CONST /* its input is not written to */
#include "server/corpus/counters/pairs_file.h"

#include "api/formats/csv.h"
#include "api/formats/json_text.h"
#include "engine/analysis/analysis.h"
#include "model/base/bytes.h"
#include "model/base/read_number.h"
#include "model/base/utf8.h"
#include "model/tokenizer/tokenizer.h"
#include "server/base/atomic_files.h"
#include "server/base/database.h"
#include "server/corpus/counters/counter.h"
#include "server/corpus/search/strongest.h"

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

/* ---- the filter ---- */

static bool number_take(const char **at, long *ret)
{
    int64_t number = 0;
    const hs_number_fault fault = hs_integer_read(*at, at, 0, INT_MAX, &number);
    *ret = (long)number;
    return fault != HS_NUMBER_MALFORMED;
}

static bool is_listed(const uint16_t *layers, size_t n_layers, long layer)
{
    for (size_t l = 0; l < n_layers; l++)
        if (layers[l] == layer)
            return true;
    return false;
}

hs_status hs__pairs_filter_heads(const char *text, const uint16_t *layers, size_t n_layers, size_t n_heads,
                                 hs__pairs_filter *filter, hs_error *err)
{
    filter->n_heads = 0;
    for (const char *at = text;; at++) {
        long layer, head;
        bool ok = number_take(&at, &layer) && *at++ == '.' && number_take(&at, &head);
        ok = ok && (!*at || *at == ',') && filter->n_heads < HS__PAIRS_HEADS_MAX;
        if (!ok || !is_listed(layers, n_layers, layer) || head >= (long)n_heads)
            return hs_fail(err, HS_INVALID,
                           "must be up to %d heads like 5.3,7.0: a layer of the run (%d to %d), a point, and "
                           "a head from 0 to %zu; it is \"%.40s\"",
                           HS__PAIRS_HEADS_MAX, layers[0], layers[n_layers - 1], n_heads - 1, text);
        filter->heads[filter->n_heads][0] = (uint16_t)layer;
        filter->heads[filter->n_heads++][1] = (uint16_t)head;
        if (!*at)
            return HS_OK;
    }
}

static bool filter_has_head(const hs__pairs_filter *filter, uint16_t layer, uint16_t head)
{
    for (size_t k = 0; k < filter->n_heads; k++)
        if (filter->heads[k][0] == layer && filter->heads[k][1] == head)
            return true;
    return !filter->n_heads;
}

/* Returns true if the sample has this row. The draw depends on the seed and the row's place only, not on
 * workers or on the order of rows. */
static bool filter_draws(const hs__pairs_filter *filter, uint64_t text, uint16_t layer, uint16_t head,
                         size_t i, size_t j)
{
    if (!(filter->sample > 0))
        return true;
    uint64_t x = hs_mix(filter->seed + HS_MIX_STEP);
    x = hs_mix(x ^ (text + HS_MIX_STEP));
    x = hs_mix(x ^ ((((uint64_t)layer << 16) | head) + HS_MIX_STEP));
    x = hs_mix(x ^ ((((uint64_t)i << 32) | j) + HS_MIX_STEP));
    return hs_fraction_of(x) < filter->sample;
}

/* ---- the database ----
 *
 * Tables: texts (text, file, line), tokens (id, token), high_pairs (text, layer, head, i, j, id_i, id_j,
 * similarity, normalized). The view `pairs` joins them to the columns of the CSV. One thread at a time.
 *
 * One transaction without a journal on the disk: the file is published complete or not at all, so a
 * rollback is never needed. */

typedef struct pair_row {
    uint64_t text, line;
    const char *file; /* borrowed until the row is added */
    uint16_t layer, head;
    uint32_t i, j;
    int32_t id_i, id_j;
    float similarity, normalized;
} pair_row;

typedef struct pairs_database {
    hs__store store;
    const hs_tokenizer *tokenizer;
    bool *named; /* [vocab_size]; its token is in the table */
    size_t vocab_size;
} pairs_database;

/* The file's lock is that of atomic_files.h. */
static const hs__database_kind pairs_kind = {
    .unsafe = true,
    .schema =
        "CREATE TABLE texts(text INTEGER PRIMARY KEY, file TEXT NOT NULL, line INTEGER NOT NULL);"
        "CREATE TABLE tokens(id INTEGER PRIMARY KEY, token TEXT NOT NULL);"
        "CREATE TABLE high_pairs(text INTEGER NOT NULL, layer INTEGER NOT NULL, head INTEGER NOT NULL,"
        " i INTEGER NOT NULL, j INTEGER NOT NULL, id_i INTEGER NOT NULL, id_j INTEGER NOT NULL,"
        " similarity REAL NOT NULL, normalized REAL NOT NULL);"
        "CREATE VIEW pairs AS SELECT p.text, t.file, t.line, p.layer, p.head, p.i, p.j, a.token AS token_i,"
        " b.token AS token_j, p.similarity, p.normalized FROM high_pairs p JOIN texts t ON t.text = p.text"
        " JOIN tokens a ON a.id = p.id_i JOIN tokens b ON b.id = p.id_j;",
};

enum { ADD_TEXT, ADD_TOKEN, ADD_PAIR, STATEMENTS };

static const char *const statements[STATEMENTS] = {
    [ADD_TEXT] = "INSERT OR IGNORE INTO texts VALUES (?, ?, ?)",
    [ADD_TOKEN] = "INSERT OR IGNORE INTO tokens VALUES (?, ?)",
    [ADD_PAIR] = "INSERT INTO high_pairs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
};

/* Creates the tables in an empty file that only this process uses. The caller closes the database, also after
 * a failure. HS_IO, HS_NO_SPACE, HS_NO_MEMORY. */
static hs_status database_open(pairs_database *database, const char *path, const hs_model *model,
                               hs_error *err)
{
    database->tokenizer = hs_model_tokenizer(model);
    database->vocab_size = hs_model_shape(model)->vocab_size;
    database->named = calloc(database->vocab_size, sizeof *database->named);
    if (!database->named)
        return hs_fail(err, HS_NO_MEMORY, "no memory to write pairs");
    return hs__store_open(path, HS__DATABASE_CREATE, &pairs_kind, statements, STATEMENTS,
                          "cannot write the database of pairs", &database->store, err);
}

static void database_close(pairs_database *database)
{
    hs__store_close(&database->store);
    free(database->named);
}

static void token_add(pairs_database *database, int32_t id)
{
    sqlite3_stmt *s = database->store.statements[ADD_TOKEN];
    if (id < 0 || (size_t)id >= database->vocab_size || database->named[id])
        return;
    database->named[id] = true;
    sqlite3_bind_int(s, 1, id);
    sqlite3_bind_text(s, 2, hs_tokenizer_token(database->tokenizer, id), -1, SQLITE_STATIC);
    hs__store_step(&database->store, ADD_TOKEN);
}

static void text_add(pairs_database *database, const pair_row *row)
{
    sqlite3_stmt *s = database->store.statements[ADD_TEXT];
    sqlite3_bind_int64(s, 1, (sqlite3_int64)row->text);
    sqlite3_bind_text(s, 2, row->file, -1, SQLITE_STATIC);
    sqlite3_bind_int64(s, 3, (sqlite3_int64)row->line);
    hs__store_step(&database->store, ADD_TEXT);
}

static void pair_add(pairs_database *database, const pair_row *row)
{
    sqlite3_stmt *s = database->store.statements[ADD_PAIR];
    sqlite3_bind_int64(s, 1, (sqlite3_int64)row->text);
    sqlite3_bind_int(s, 2, row->layer);
    sqlite3_bind_int(s, 3, row->head);
    sqlite3_bind_int(s, 4, (int)row->i);
    sqlite3_bind_int(s, 5, (int)row->j);
    sqlite3_bind_int(s, 6, row->id_i);
    sqlite3_bind_int(s, 7, row->id_j);
    sqlite3_bind_double(s, 8, (double)row->similarity);
    sqlite3_bind_double(s, 9, (double)row->normalized);
    hs__store_step(&database->store, ADD_PAIR);
}

/* Returns false if a row cannot be written. */
static bool database_add(pairs_database *database, const pair_row *rows, size_t n)
{
    for (size_t k = 0; !database->store.failure && k < n; k++) {
        if (!k || rows[k].text != rows[k - 1].text)
            text_add(database, &rows[k]);
        token_add(database, rows[k].id_i);
        token_add(database, rows[k].id_j);
        pair_add(database, &rows[k]);
    }
    return !database->store.failure;
}

/* Returns the size so far. */
static uint64_t database_bytes(pairs_database *database)
{
    return hs__store_number(&database->store, "PRAGMA page_count") *
           hs__store_number(&database->store, "PRAGMA page_size");
}

/* ---- the file ----
 *
 * A worker buffers rows and writes them at its block's turn. Only the worker whose turn it is writes, so the
 * stream and the database need no lock. */

#define MB (UINT64_C(1) << 20)
enum { TEXT_BYTES = 4096 };          /* of a name or a token: what is longer is cut */
#define ROWS_BYTES ((size_t)4 << 20) /* of a worker's buffer: written when there are so many */
#define ROW_BYTES  ((size_t)32 << 10)
/* SQLite's cache and statements. */
#define DATABASE_BYTES (4 * MB)

_Static_assert(ROW_BYTES >= 3 * HS_CSV_FIELD_MAX(TEXT_BYTES) + 8 * HS_NUMBER_BYTES_MAX, "a row fits");

typedef struct pairs_file {
    const hs__corpus_job *job;
    const hs__pairs_options *options;
    hs__new_file *file;
    FILE *stream; /* of the file; NULL: it is a database */
    pairs_database database;
    bool packed;              /* CSV by gzip */
    uint64_t n_records;       /* of the shard; 0: not known */
    uint64_t n_rows, n_bytes; /* written */
    z_stream zip;
    unsigned char *zipped; /* [ROW_BYTES] */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t turn; /* the block that may write */
    bool given_up;
} pairs_file;

/* flush: Z_FINISH with the last bytes. */
static bool bytes_pack(pairs_file *pairs, const char *bytes, size_t n, int flush)
{
    z_stream *zip = &pairs->zip;
    zip->next_in = (const unsigned char *)bytes;
    zip->avail_in = (unsigned)n;
    do {
        zip->next_out = pairs->zipped;
        zip->avail_out = (unsigned)ROW_BYTES;
        (void)deflate(zip, flush);
        pairs->n_bytes += fwrite(pairs->zipped, 1, ROW_BYTES - zip->avail_out, pairs->stream);
    } while (zip->avail_out == 0);
    return !ferror(pairs->stream);
}

static bool bytes_write(pairs_file *pairs, const char *bytes, size_t n)
{
    if (!pairs->stream)
        return database_add(&pairs->database, (const pair_row *)bytes, n / sizeof(pair_row));
    if (pairs->packed)
        return bytes_pack(pairs, bytes, n, Z_NO_FLUSH);
    const size_t done = fwrite(bytes, 1, n, pairs->stream);
    pairs->n_bytes += done;
    return done == n;
}

/* Fails with the reason of the first write that failed. */
static hs_status write_failed(const pairs_file *pairs, hs_error *err)
{
    hs_status st = hs__new_file_check(pairs->file, err);
    if (!st && !pairs->stream)
        st = hs__store_outcome(&pairs->database.store, err);
    return st ? st : hs_fail(err, HS_IO, "cannot write '%s'", pairs->options->path);
}

/* Creates a file that `end` releases. NULL if memory is short. */
static pairs_file *pairs_create(const hs__corpus_job *job)
{
    pairs_file *pairs = calloc(1, sizeof *pairs);
    unsigned char *zipped = malloc(ROW_BYTES);
    /* 16 more than the default window selects a gzip header; the quick level, because there are many rows */
    if (!pairs || !zipped || deflateInit2(&pairs->zip, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY)) {
        free(zipped);
        free(pairs);
        return NULL;
    }
    pairs->job = job;
    pairs->options = job->pairs;
    pairs->packed = hs_ends_with(job->pairs->path, ".gz");
    pairs->zipped = zipped;
    pthread_mutex_init(&pairs->lock, NULL);
    pthread_cond_init(&pairs->changed, NULL);
    return pairs;
}

static hs_status open_file(hs__counting *counting, hs_error *err)
{
    if (!counting->job->pairs)
        return HS_OK;
    const char *path = counting->job->pairs->path;
    const bool by_path = hs_ends_with(path, ".sqlite") || hs_ends_with(path, ".db");
    pairs_file *pairs = counting->shared = pairs_create(counting->job);
    if (!pairs)
        return hs_fail(err, HS_NO_MEMORY, "no memory to write pairs");
    const hs_status st = hs__new_file_create(path, by_path, &pairs->file, err);
    if (!st)
        pairs->stream = hs__new_file_stream(pairs->file);
    return st;
}

/* Counts the records of the job's shard. Reads the whole input. */
static hs_status records_count(const hs__corpus_job *job, uint64_t *ret_n, hs_error *err)
{
    hs__record_stream *input = NULL;
    hs__record line = {.bytes = ""};
    uint64_t n = 0;
    hs_status st =
        hs__record_stream_open(job->inputs, job->n_inputs, &job->settings.input, job->stop, &input, err);
    while (!st && !(st = hs__record_stream_next(input, &line, err)) && line.bytes)
        n += line.number / HS__CORPUS_BLOCK % job->n_shards == job->shard;
    hs__record_stream_close(input);
    *ret_n = st ? 0 : n;
    return st;
}

/* Writes the header of CSV, or creates the tables. If the inputs can be read again, counts their records
 * first. */
static hs_status begin(hs__counting *counting, bool anew, hs_error *err)
{
    static const char header[] = "text,file,line,layer,head,i,j,token_i,token_j,similarity,normalized\n";
    pairs_file *pairs = counting->shared;
    const bool countable = json_is_integer(json_object_get(counting->results->identity, "input_bytes"));
    (void)anew;
    const hs_status st = countable ? records_count(counting->job, &pairs->n_records, err) : HS_OK;
    if (!st && !pairs->stream)
        return database_open(&pairs->database, hs__new_file_path(pairs->file), counting->job->model, err);
    if (!st)
        (void)bytes_write(pairs, header, sizeof header - 1);
    return st;
}

/* Wakes all workers that wait for their turn. */
static void interrupt(hs__counting *counting)
{
    pairs_file *pairs = counting->shared;
    if (!pairs)
        return;
    pthread_mutex_lock(&pairs->lock);
    pairs->given_up = true;
    pthread_cond_broadcast(&pairs->changed);
    pthread_mutex_unlock(&pairs->lock);
}

static hs_status finish(hs__counting *counting, hs_error *err)
{
    pairs_file *pairs = counting->shared;
    if (!pairs)
        return HS_OK;
    if (!pairs->stream)
        hs__store_commit(&pairs->database.store);
    const bool ok = pairs->stream
                        ? (!pairs->packed || bytes_pack(pairs, "", 0, Z_FINISH)) && !ferror(pairs->stream)
                        : !pairs->database.store.failure;
    if (!ok)
        return write_failed(pairs, err);
    database_close(&pairs->database);
    pairs->database = (pairs_database){0};
    hs__new_file *file = pairs->file;
    pairs->file = NULL;
    return hs__new_file_publish(file, err);
}

static void end(hs__counting *counting)
{
    pairs_file *pairs = counting->shared;
    if (!pairs)
        return;
    database_close(&pairs->database);
    hs__new_file_discard(pairs->file);
    (void)deflateEnd(&pairs->zip);
    pthread_cond_destroy(&pairs->changed);
    pthread_mutex_destroy(&pairs->lock);
    free(pairs->zipped);
    free(pairs);
}

/* ---- the expected size: rows and bytes grow in proportion to the number of records ---- */

/* Returns the free bytes on the disk of a file; UINT64_MAX if it is a device or a pipe. */
static uint64_t bytes_free(const char *path)
{
    struct stat file;
    return stat(path, &file) == 0 && !S_ISREG(file.st_mode) ? UINT64_MAX : hs__disk_free(path);
}

static uint64_t bytes_so_far(pairs_file *pairs)
{
    if (!pairs->stream)
        return database_bytes(&pairs->database);
    if (pairs->packed)
        (void)bytes_pack(pairs, "", 0, Z_SYNC_FLUSH);
    return pairs->n_bytes;
}

static hs_status expect(hs__counting *counting, uint64_t n_seen, hs_error *err)
{
    pairs_file *pairs = counting->shared;
    const uint64_t n_texts = pairs->n_records;
    if (!n_seen)
        return HS_OK;
    const uint64_t n_bytes = bytes_so_far(pairs), free_bytes = bytes_free(pairs->options->path);
    const double times = n_texts > n_seen ? (double)n_texts / (double)n_seen : 1;
    const hs__expected_file expected = {.name = "pairs",
                                        .texts_seen = n_seen,
                                        .texts = n_texts,
                                        .rows = times * (double)pairs->n_rows,
                                        .bytes = times * (double)n_bytes};
    if (counting->job->expect)
        counting->job->expect(&expected, counting->job->progress_data);
    if (expected.bytes - (double)n_bytes > (double)free_bytes)
        return hs_fail(
            err, HS_NO_SPACE,
            "--pairs: '%.200s' would take about %.0f MB; %llu MB are free. Choose fewer pairs with "
            "--pairs-strongest, --pairs-heads, --pairs-min or --pairs-sample, or another disk",
            pairs->options->path, expected.bytes / (double)MB, (unsigned long long)(free_bytes / MB));
    return HS_OK;
}

/* ---- a worker's rows ---- */

typedef struct worker {
    hs__tally tally;
    uint64_t block;
    size_t n, n_rows;
    bool failed; /* rows could not be written */
    hs__strong_pair strongest[HS__PAIRS_STRONGEST_MAX];
    _Alignas(pair_row) char bytes[ROWS_BYTES + ROW_BYTES]; /* CSV, or pair_row */
} worker;

static pairs_file *pairs_of(const worker *w)
{
    return w->tally.counting->shared;
}

static void measure(const hs__corpus_job *job, const void *options, hs__counter_size *size)
{
    (void)options;
    if (!job->pairs)
        return;
    size->worker += sizeof(worker);
    size->shared += DATABASE_BYTES + hs_engine_shape(job->engine)->vocab_size;
}

/* Waits for the block's turn. False: there will be none. */
static bool turn_wait(worker *w)
{
    pairs_file *pairs = pairs_of(w);
    pthread_mutex_lock(&pairs->lock);
    while (pairs->turn != w->block && !pairs->given_up)
        pthread_cond_wait(&pairs->changed, &pairs->lock);
    const bool ok = !pairs->given_up;
    pthread_mutex_unlock(&pairs->lock);
    return ok;
}

static bool rows_flush(worker *w)
{
    const size_t n = w->n, n_rows = w->n_rows;
    w->n = w->n_rows = 0;
    if (!turn_wait(w))
        return false;
    pairs_of(w)->n_rows += n_rows;
    return bytes_write(pairs_of(w), w->bytes, n);
}

static void block(void *state, uint64_t number)
{
    worker *w = state;
    w->block = number;
    w->n = w->n_rows = 0;
    w->failed = false;
}

/* Writes the rows after those of all blocks before. */
static hs_status block_end(void *state, hs_error *err)
{
    worker *w = state;
    pairs_file *pairs = pairs_of(w);
    if (w->failed || !rows_flush(w))
        return write_failed(pairs, err);
    pthread_mutex_lock(&pairs->lock);
    pairs->turn++;
    pthread_cond_broadcast(&pairs->changed);
    pthread_mutex_unlock(&pairs->lock);
    return HS_OK;
}

/* ---- the pairs of a map ---- */

/* The map whose pairs become rows. */
typedef struct source {
    const char *file;
    uint64_t text, line;
    uint16_t layer, head; /* the model's numbers */
    const hs_tokenizer *tokenizer;
    const int32_t *ids; /* [n_tokens] */
    size_t first;       /* position of the first of them */
    size_t n_tokens;
    const float *similarity; /* [n_tokens][n_tokens], above the diagonal */
} source;

static char *text_print(char *to, const char *text, bool safe)
{
    return hs_csv_field(to, text, hs_utf8_whole(text, strnlen(text, TEXT_BYTES)), safe);
}

static char *number_print(char *to, uint64_t number, char then)
{
    to = hs_integer_print(to, (int64_t)number);
    *to = then;
    return to + 1;
}

static void row_print(worker *w, const source *s, size_t i, size_t j, float value, float normalized)
{
    const bool safe = pairs_of(w)->options->csv_safe;
    char *to = w->bytes + w->n;
    to = number_print(to, s->text, ',');
    to = text_print(to, s->file, safe);
    *to++ = ',';
    to = number_print(to, s->line, ',');
    to = number_print(to, s->layer, ',');
    to = number_print(to, s->head, ',');
    to = number_print(to, s->first + i, ',');
    to = number_print(to, s->first + j, ',');
    to = text_print(to, hs_tokenizer_token(s->tokenizer, s->ids[i]), safe);
    *to++ = ',';
    to = text_print(to, hs_tokenizer_token(s->tokenizer, s->ids[j]), safe);
    *to++ = ',';
    to = hs_float_print(to, value, 9);
    *to++ = ',';
    to = hs_float_print(to, normalized, 9);
    *to++ = '\n';
    w->n = (size_t)(to - w->bytes);
}

static void row_keep(worker *w, const source *s, size_t i, size_t j, float value, float normalized)
{
    const pair_row row = {.text = s->text,
                          .line = s->line,
                          .file = s->file,
                          .layer = s->layer,
                          .head = s->head,
                          .i = (uint32_t)(s->first + i),
                          .j = (uint32_t)(s->first + j),
                          .id_i = s->ids[i],
                          .id_j = s->ids[j],
                          .similarity = value,
                          .normalized = normalized};
    memcpy(w->bytes + w->n, &row, sizeof row);
    w->n += sizeof row;
}

/* Adds a row if the sample has it. */
static bool row_add(worker *w, const source *s, size_t i, size_t j, float maximum)
{
    const float value = s->similarity[i * s->n_tokens + j];
    if (!filter_draws(&pairs_of(w)->options->filter, s->text, s->layer, s->head, i, j))
        return true;
    if (w->n > ROWS_BYTES && !rows_flush(w))
        return false;
    (pairs_of(w)->stream ? row_print : row_keep)(w, s, i, j, value, value / maximum);
    w->n_rows++;
    return true;
}

/* Finds the strongest pairs, then adds them, the strongest first. */
static bool strongest_add(worker *w, const source *s, float maximum, float least)
{
    const size_t n = s->n_tokens, n_most = pairs_of(w)->options->filter.strongest;
    size_t n_found = 0;
    bool ok = true;
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++) {
            const float normalized = s->similarity[i * n + j] / maximum;
            if (normalized >= least)
                hs__strongest_insert(w->strongest, &n_found, n_most,
                                     (hs__strong_pair){(uint32_t)i, (uint32_t)j, normalized});
        }
    for (size_t k = 0; ok && k < n_found; k++)
        ok = row_add(w, s, w->strongest[k].i, w->strongest[k].j, maximum);
    return ok;
}

/* Adds the rows of a map. False: they cannot be written. */
static bool map_add(worker *w, const source *s)
{
    const hs__pairs_filter *filter = &pairs_of(w)->options->filter;
    const size_t n = s->n_tokens;
    const float main_threshold =
        w->tally.counting->statistics->thresholds[w->tally.counting->statistics->threshold_main];
    const float least = filter->least > 0 ? filter->least : main_threshold;
    const float maximum = hs_similarity_max(s->similarity, n, NULL);
    if (!(maximum > 0 && maximum < INFINITY) || !filter_has_head(filter, s->layer, s->head))
        return true;
    if (filter->strongest)
        return strongest_add(w, s, maximum, least);
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++)
            if (s->similarity[i * n + j] / maximum >= least && !row_add(w, s, i, j, maximum))
                return false;
    return true;
}

static void head(void *state, hs__text *t, hs__text_head *h)
{
    worker *w = state;
    const hs__corpus_job *job = pairs_of(w)->job;
    const source s = {.file = hs__corpus_input_name(job, t->record.file),
                      .text = hs__text_number(t),
                      .line = t->record.line,
                      .layer = w->tally.counting->statistics->layers[h->l],
                      .head = (uint16_t)h->h,
                      .tokenizer = hs_model_tokenizer(job->model),
                      .ids = t->encoding.ids + t->first,
                      .first = t->first,
                      .n_tokens = t->end - t->first,
                      .similarity = h->maps.similarity};
    w->failed = w->failed || !map_add(w, &s);
}

const hs__counter hs__counter_pairs_file = {
    .name = "pairs file",
    .measure = measure,
    .open = open_file,
    .begin = begin,
    .expect = expect,
    .interrupt = interrupt,
    .finish = finish,
    .end = end,
    .worker_bytes = sizeof(worker),
    .block = block,
    .block_end = block_end,
    .head = head,
};
