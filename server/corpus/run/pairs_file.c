/* pairs_file.c - writes the high pairs of a run, as CSV or into an SQLite database. */
#define ZLIB_CONST /* its input is not written to */
#include "server/corpus/run/pairs_file.h"

#include "api/formats/csv.h"
#include "api/formats/json_text.h"
#include "engine/analysis/analysis.h"
#include "model/base/bytes.h"
#include "model/base/read_number.h"
#include "model/base/utf8.h"
#include "model/tokenizer/tokenizer.h"
#include "server/base/atomic_files.h"
#include "server/base/database.h"
#include "server/corpus/search/strongest.h"

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

/* ---- the database ----
 *
 * Tables: texts (text, file, line), tokens (id, token), high_pairs (text, layer, head, i, j, id_i, id_j,
 * similarity, normalized). The view `pairs` joins them to the columns of the CSV. One thread at a time.
 *
 * One transaction without a journal on the disk: the file is published complete or not at all, so a
 * rollback is never needed. */

typedef struct pairs_database pairs_database;

typedef struct pair_row {
    uint64_t text, line;
    const char *file; /* borrowed until the row is added */
    uint16_t layer, head;
    uint32_t i, j;
    int32_t id_i, id_j;
    float similarity, normalized;
} pair_row;

enum { STATEMENTS = 3, ADD_TEXT = 0, ADD_TOKEN, ADD_PAIR };

struct pairs_database {
    sqlite3 *db;
    sqlite3_stmt *statements[STATEMENTS];
    const hs_tokenizer *tokenizer;
    bool *named; /* [vocab_size]; its token is in the table */
    size_t vocab_size;
    int failure; /* SQLite's code of the first failure, or SQLITE_OK */
};

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

static const char *const statements[STATEMENTS] = {
    [ADD_TEXT] = "INSERT OR IGNORE INTO texts VALUES (?, ?, ?)",
    [ADD_TOKEN] = "INSERT OR IGNORE INTO tokens VALUES (?, ?)",
    [ADD_PAIR] = "INSERT INTO high_pairs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
};

static hs_status database_failed(int code, hs_error *err)
{
    const hs_status st = code == SQLITE_FULL ? HS_NO_SPACE : code == SQLITE_NOMEM ? HS_NO_MEMORY : HS_IO;
    return hs_fail(err, st, "cannot write the database of pairs: %s", sqlite3_errstr(code));
}

static void database_destroy(pairs_database *database)
{
    for (int k = 0; k < STATEMENTS; k++)
        sqlite3_finalize(database->statements[k]);
    sqlite3_close(database->db);
    free(database->named);
    free(database);
}

/* Creates the tables in an empty file that only this process uses. Borrows the tokenizer. HS_IO,
 * HS_NO_SPACE, HS_NO_MEMORY. */
static hs_status database_open(const char *path, const hs_tokenizer *tokenizer, size_t vocab_size,
                               pairs_database **ret_database, hs_error *err)
{
    pairs_database *database = calloc(1, sizeof *database);
    if (database)
        database->named = calloc(vocab_size, sizeof *database->named);
    if (!database || !database->named) {
        free(database);
        return hs_fail(err, HS_NO_MEMORY, "no memory to write pairs");
    }
    database->tokenizer = tokenizer;
    database->vocab_size = vocab_size;
    hs_error why = {0};
    const hs_status st = hs__database_open(path, HS__DATABASE_CREATE, &pairs_kind, &database->db, &why);
    if (st) {
        database_destroy(database);
        return hs_fail(err, st, "cannot write the database of pairs: %s", why.text);
    }
    int code = sqlite3_exec(database->db, "BEGIN", NULL, NULL, NULL);
    for (int k = 0; !code && k < STATEMENTS; k++)
        code = sqlite3_prepare_v2(database->db, statements[k], -1, &database->statements[k], NULL);
    if (code) {
        database_destroy(database);
        return database_failed(code & 0xff, err);
    }
    *ret_database = database;
    return HS_OK;
}

/* Runs a bound statement. */
static void statement_run(pairs_database *database, sqlite3_stmt *s)
{
    const int code = sqlite3_step(s);
    if (code != SQLITE_DONE && !database->failure)
        database->failure = code & 0xff;
    sqlite3_reset(s);
}

static void token_add(pairs_database *database, int32_t id)
{
    sqlite3_stmt *s = database->statements[ADD_TOKEN];
    if (id < 0 || (size_t)id >= database->vocab_size || database->named[id])
        return;
    database->named[id] = true;
    sqlite3_bind_int(s, 1, id);
    sqlite3_bind_text(s, 2, hs_tokenizer_token(database->tokenizer, id), -1, SQLITE_STATIC);
    statement_run(database, s);
}

static void text_add(pairs_database *database, const pair_row *row)
{
    sqlite3_stmt *s = database->statements[ADD_TEXT];
    sqlite3_bind_int64(s, 1, (sqlite3_int64)row->text);
    sqlite3_bind_text(s, 2, row->file, -1, SQLITE_STATIC);
    sqlite3_bind_int64(s, 3, (sqlite3_int64)row->line);
    statement_run(database, s);
}

static void pair_add(pairs_database *database, const pair_row *row)
{
    sqlite3_stmt *s = database->statements[ADD_PAIR];
    sqlite3_bind_int64(s, 1, (sqlite3_int64)row->text);
    sqlite3_bind_int(s, 2, row->layer);
    sqlite3_bind_int(s, 3, row->head);
    sqlite3_bind_int(s, 4, (int)row->i);
    sqlite3_bind_int(s, 5, (int)row->j);
    sqlite3_bind_int(s, 6, row->id_i);
    sqlite3_bind_int(s, 7, row->id_j);
    sqlite3_bind_double(s, 8, (double)row->similarity);
    sqlite3_bind_double(s, 9, (double)row->normalized);
    statement_run(database, s);
}

/* Returns false if a row cannot be written; database_end gives the reason. */
static bool database_add(pairs_database *database, const pair_row *rows, size_t n)
{
    for (size_t k = 0; !database->failure && k < n; k++) {
        if (!k || rows[k].text != rows[k - 1].text)
            text_add(database, &rows[k]);
        token_add(database, rows[k].id_i);
        token_add(database, rows[k].id_j);
        pair_add(database, &rows[k]);
    }
    return !database->failure;
}

static uint64_t pragma_read(pairs_database *database, const char *pragma)
{
    sqlite3_stmt *s = NULL;
    uint64_t value = 0;
    if (sqlite3_prepare_v2(database->db, pragma, -1, &s, NULL) == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW)
        value = (uint64_t)sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return value;
}

/* Returns the size so far. */
static uint64_t database_bytes(pairs_database *database)
{
    return pragma_read(database, "PRAGMA page_count") * pragma_read(database, "PRAGMA page_size");
}

/* Commits all rows and frees the database; NULL is fine. HS_IO, HS_NO_SPACE: a row or the commit failed. */
static hs_status database_end(pairs_database *database, hs_error *err)
{
    if (!database)
        return HS_OK;
    int code = database->failure;
    if (!code)
        code = sqlite3_exec(database->db, "COMMIT", NULL, NULL, NULL) & 0xff;
    database_destroy(database);
    return code ? database_failed(code, err) : HS_OK;
}

/* ---- rows ----
 *
 * A worker buffers rows and writes them at its block's turn. Only the worker whose turn it is writes, so the
 * stream and the database need no lock. */

#define MB (UINT64_C(1) << 20)
enum { TEXT_BYTES = 4096 };          /* of a name or a token: what is longer is cut */
#define ROWS_BYTES ((size_t)4 << 20) /* handed on when there are so many */
#define ROW_BYTES  (HS__PAIRS_BYTES - ROWS_BYTES)

_Static_assert(ROW_BYTES >= 3 * HS_CSV_FIELD_MAX(TEXT_BYTES) + 8 * HS_NUMBER_BYTES_MAX, "a row fits");

struct hs__pairs_file {
    hs__pairs_target target;
    pairs_database *database; /* or NULL: CSV */
    bool packed;              /* CSV by gzip */
    uint64_t n_records;       /* of the shard; 0: not known */
    uint64_t n_rows, n_bytes; /* written */
    z_stream zip;
    unsigned char *zipped; /* [ROW_BYTES] */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t turn; /* the block that may write */
    bool given_up;
};

struct hs__pairs_rows {
    hs__pairs_file *pairs;
    uint64_t block;
    size_t n, n_rows;
    hs__strong_pair strongest[HS__PAIRS_STRONGEST_MAX];
    _Alignas(pair_row) char bytes[HS__PAIRS_BYTES]; /* CSV, or pair_row */
};

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

/* ---- the file ---- */

/* flush: Z_FINISH with the last bytes. */
static bool bytes_pack(hs__pairs_file *pairs, const char *bytes, size_t n, int flush)
{
    z_stream *zip = &pairs->zip;
    zip->next_in = (const unsigned char *)bytes;
    zip->avail_in = (unsigned)n;
    do {
        zip->next_out = pairs->zipped;
        zip->avail_out = (unsigned)ROW_BYTES;
        (void)deflate(zip, flush);
        pairs->n_bytes += fwrite(pairs->zipped, 1, ROW_BYTES - zip->avail_out, pairs->target.file);
    } while (zip->avail_out == 0);
    return !ferror(pairs->target.file);
}

static bool bytes_write(hs__pairs_file *pairs, const char *bytes, size_t n)
{
    if (pairs->database)
        return database_add(pairs->database, (const pair_row *)bytes, n / sizeof(pair_row));
    if (pairs->packed)
        return bytes_pack(pairs, bytes, n, Z_NO_FLUSH);
    const size_t done = fwrite(bytes, 1, n, pairs->target.file);
    pairs->n_bytes += done;
    return done == n;
}

/* Writes the header of CSV, or creates the tables. */
static hs_status target_begin(hs__pairs_file *pairs, hs_error *err)
{
    static const char header[] = "text,file,line,layer,head,i,j,token_i,token_j,similarity,normalized\n";
    const hs_model *model = pairs->target.job->model;
    if (pairs->target.database)
        return database_open(pairs->target.database, hs_model_tokenizer(model),
                             hs_model_shape(model)->vocab_size, &pairs->database, err);
    (void)bytes_write(pairs, header, sizeof header - 1);
    return HS_OK;
}

static void pairs_destroy(hs__pairs_file *pairs)
{
    (void)deflateEnd(&pairs->zip);
    pthread_cond_destroy(&pairs->changed);
    pthread_mutex_destroy(&pairs->lock);
    free(pairs->zipped);
    free(pairs);
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

hs_status hs__pairs_file_begin(const hs__pairs_target *target, bool countable, hs__pairs_file **ret_pairs,
                               hs_error *err)
{
    uint64_t n_records = 0;
    hs_status st = countable ? records_count(target->job, &n_records, err) : HS_OK;
    if (st)
        return st;
    hs__pairs_file *pairs = calloc(1, sizeof *pairs);
    unsigned char *zipped = malloc(ROW_BYTES);
    /* 16 more than the default window selects a gzip header; the quick level, because there are many rows */
    if (!pairs || !zipped || deflateInit2(&pairs->zip, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY)) {
        free(zipped);
        free(pairs);
        return hs_fail(err, HS_NO_MEMORY, "no memory to write pairs");
    }
    pairs->target = *target;
    pairs->packed = hs_ends_with(target->job->pairs, ".gz");
    pairs->n_records = n_records;
    pairs->zipped = zipped;
    pthread_mutex_init(&pairs->lock, NULL);
    pthread_cond_init(&pairs->changed, NULL);
    st = target_begin(pairs, err);
    if (st)
        pairs_destroy(pairs);
    else
        *ret_pairs = pairs;
    return st;
}

/* Counts the rows and bytes written so far. Call it while no worker has a block. */
static void pairs_file_count(hs__pairs_file *pairs, uint64_t *ret_rows, uint64_t *ret_bytes)
{
    if (pairs->packed)
        (void)bytes_pack(pairs, "", 0, Z_SYNC_FLUSH);
    *ret_rows = pairs->n_rows;
    *ret_bytes = pairs->database ? database_bytes(pairs->database) : pairs->n_bytes;
}

void hs__pairs_file_give_up(hs__pairs_file *pairs)
{
    pthread_mutex_lock(&pairs->lock);
    pairs->given_up = true;
    pthread_cond_broadcast(&pairs->changed);
    pthread_mutex_unlock(&pairs->lock);
}

hs_status hs__pairs_file_end(hs__pairs_file *pairs, hs_error *err)
{
    if (!pairs)
        return HS_OK;
    hs_status st = HS_OK;
    if (pairs->database)
        st = database_end(pairs->database, err);
    else if ((pairs->packed && !bytes_pack(pairs, "", 0, Z_FINISH)) || ferror(pairs->target.file))
        st = hs_fail(err, HS_IO, "cannot write pairs");
    pairs_destroy(pairs);
    return st;
}

/* ---- a worker's rows ---- */

hs__pairs_rows *hs__pairs_rows_create(hs__pairs_file *pairs)
{
    hs__pairs_rows *rows = malloc(sizeof *rows);
    if (rows) {
        rows->pairs = pairs;
        rows->n = rows->n_rows = 0;
    }
    return rows;
}

/* Waits for the block's turn. False: there will be none. */
static bool turn_wait(hs__pairs_rows *rows)
{
    hs__pairs_file *pairs = rows->pairs;
    pthread_mutex_lock(&pairs->lock);
    while (pairs->turn != rows->block && !pairs->given_up)
        pthread_cond_wait(&pairs->changed, &pairs->lock);
    const bool ok = !pairs->given_up;
    pthread_mutex_unlock(&pairs->lock);
    return ok;
}

static bool rows_flush(hs__pairs_rows *rows)
{
    const size_t n = rows->n, n_rows = rows->n_rows;
    rows->n = rows->n_rows = 0;
    if (!turn_wait(rows))
        return false;
    rows->pairs->n_rows += n_rows;
    return bytes_write(rows->pairs, rows->bytes, n);
}

void hs__pairs_block_begin(hs__pairs_rows *rows, uint64_t block)
{
    rows->block = block;
    rows->n = rows->n_rows = 0;
}

bool hs__pairs_block_end(hs__pairs_rows *rows)
{
    hs__pairs_file *pairs = rows->pairs;
    const bool ok = rows_flush(rows);
    pthread_mutex_lock(&pairs->lock);
    pairs->turn += pairs->turn == rows->block;
    pthread_cond_broadcast(&pairs->changed);
    pthread_mutex_unlock(&pairs->lock);
    return ok;
}

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

static void row_print(hs__pairs_rows *rows, const hs__pairs_source *s, size_t i, size_t j, float value,
                      float normalized)
{
    const bool safe = rows->pairs->target.job->csv_safe;
    char *to = rows->bytes + rows->n;
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
    rows->n = (size_t)(to - rows->bytes);
}

static void row_keep(hs__pairs_rows *rows, const hs__pairs_source *s, size_t i, size_t j, float value,
                     float normalized)
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
    memcpy(rows->bytes + rows->n, &row, sizeof row);
    rows->n += sizeof row;
}

/* Adds a row if the sample has it. */
static bool row_add(hs__pairs_rows *rows, const hs__pairs_source *s, size_t i, size_t j, float maximum)
{
    const float value = s->similarity[i * s->n_tokens + j];
    if (!filter_draws(&rows->pairs->target.job->pairs_filter, s->text, s->layer, s->head, i, j))
        return true;
    if (rows->n > ROWS_BYTES && !rows_flush(rows))
        return false;
    (rows->pairs->database ? row_keep : row_print)(rows, s, i, j, value, value / maximum);
    rows->n_rows++;
    return true;
}

/* Finds the strongest pairs, then adds them, the strongest first. */
static bool strongest_add(hs__pairs_rows *rows, const hs__pairs_source *s, float maximum, float least)
{
    const size_t n = s->n_tokens, n_most = rows->pairs->target.job->pairs_filter.strongest;
    size_t n_found = 0;
    bool ok = true;
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++) {
            const float normalized = s->similarity[i * n + j] / maximum;
            if (normalized >= least)
                hs__strongest_insert(rows->strongest, &n_found, n_most,
                                     (hs__strong_pair){(uint32_t)i, (uint32_t)j, normalized});
        }
    for (size_t k = 0; ok && k < n_found; k++)
        ok = row_add(rows, s, rows->strongest[k].i, rows->strongest[k].j, maximum);
    return ok;
}

bool hs__pairs_add(hs__pairs_rows *rows, const hs__pairs_source *s)
{
    const hs__pairs_filter *filter = &rows->pairs->target.job->pairs_filter;
    const size_t n = s->n_tokens;
    const float least = filter->least > 0 ? filter->least : s->threshold;
    const float maximum = hs_similarity_max(s->similarity, n, NULL);
    if (!(maximum > 0 && maximum < INFINITY) || !filter_has_head(filter, s->layer, s->head))
        return true;
    if (filter->strongest)
        return strongest_add(rows, s, maximum, least);
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++)
            if (s->similarity[i * n + j] / maximum >= least && !row_add(rows, s, i, j, maximum))
                return false;
    return true;
}

/* ---- the expected size: rows and bytes grow in proportion to the number of records ---- */

/* Returns the free bytes on the disk of a file; UINT64_MAX if it is a device or a pipe. */
static uint64_t bytes_free(const char *path)
{
    struct stat file;
    return stat(path, &file) == 0 && !S_ISREG(file.st_mode) ? UINT64_MAX : hs__disk_free(path);
}

hs_status hs__pairs_expect(hs__pairs_file *pairs, uint64_t n_seen, hs_error *err)
{
    const hs__corpus_job *job = pairs->target.job;
    const uint64_t n_texts = pairs->n_records;
    uint64_t n_rows, n_bytes;
    if (!n_seen)
        return HS_OK;
    pairs_file_count(pairs, &n_rows, &n_bytes);
    const double times = n_texts > n_seen ? (double)n_texts / (double)n_seen : 1;
    const hs__pairs_expected expected = {.texts_seen = n_seen,
                                         .texts = n_texts,
                                         .rows = times * (double)n_rows,
                                         .bytes = times * (double)n_bytes};
    const uint64_t free_bytes = bytes_free(job->pairs);
    if (job->expect)
        job->expect(&expected, job->progress_data);
    if (expected.bytes - (double)n_bytes > (double)free_bytes)
        return hs_fail(
            err, HS_NO_SPACE,
            "--pairs: '%.200s' would take about %.0f MB; %llu MB are free. Choose fewer pairs with "
            "--pairs-strongest, --pairs-heads, --pairs-min or --pairs-sample, or another disk",
            job->pairs, expected.bytes / (double)MB, (unsigned long long)(free_bytes / MB));
    return HS_OK;
}
