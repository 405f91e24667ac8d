/* corpus_pairs.c - rows in memory, written when it is their block's turn. Only who has the turn writes, so
 * the stream needs no lock. */
#define ZLIB_CONST /* its input is not written to */
#include "server/corpus/corpus_pairs.h"

#include "api/formats/number.h"
#include "engine/analysis/analysis.h"
#include "model/utf8.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { TEXT_BYTES = 4096 };          /* of a name or a token: what is longer is cut */
#define ROWS_BYTES ((size_t)4 << 20) /* handed on when there are so many */
#define ROW_BYTES  (HS__PAIRS_BYTES - ROWS_BYTES)
_Static_assert(ROW_BYTES >= 3 * (2 * TEXT_BYTES + 2) + 8 * HS__NUMBER_ROOM, "a row has room");

struct hs__pairs_file {
    FILE *file;
    bool packed;
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
    size_t n;
    char bytes[HS__PAIRS_BYTES];
};

/* ---- the file ---- */

/* finish: Z_FINISH with the last bytes. */
static bool bytes_pack(hs__pairs_file *pairs, const char *bytes, size_t n, int finish)
{
    z_stream *zip = &pairs->zip;
    zip->next_in = (const unsigned char *)bytes;
    zip->avail_in = (unsigned)n;
    do {
        zip->next_out = pairs->zipped;
        zip->avail_out = (unsigned)ROW_BYTES;
        (void)deflate(zip, finish);
        fwrite(pairs->zipped, 1, ROW_BYTES - zip->avail_out, pairs->file);
    } while (zip->avail_out == 0);
    return !ferror(pairs->file);
}

static bool bytes_write(hs__pairs_file *pairs, const char *bytes, size_t n)
{
    if (pairs->packed)
        return bytes_pack(pairs, bytes, n, Z_NO_FLUSH);
    return fwrite(bytes, 1, n, pairs->file) == n;
}

hs_status hs__pairs_file_begin(FILE *file, bool packed, hs__pairs_file **ret_pairs, hs_error *err)
{
    static const char header[] = "text,file,line,layer,head,i,j,token_i,token_j,similarity,normalized\n";
    hs__pairs_file *pairs = calloc(1, sizeof *pairs);
    unsigned char *zipped = malloc(ROW_BYTES);
    /* 16 more than the usual window: a gzip header; the quick level, for rows are many */
    if (!pairs || !zipped || deflateInit2(&pairs->zip, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY)) {
        free(zipped);
        free(pairs);
        return hs_fail(err, HS_NO_MEMORY, "no memory to write pairs");
    }
    pairs->file = file;
    pairs->packed = packed;
    pairs->zipped = zipped;
    pthread_mutex_init(&pairs->lock, NULL);
    pthread_cond_init(&pairs->changed, NULL);
    (void)bytes_write(pairs, header, sizeof header - 1);
    *ret_pairs = pairs;
    return HS_OK;
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
    const bool ok = (!pairs->packed || bytes_pack(pairs, "", 0, Z_FINISH)) && !ferror(pairs->file);
    (void)deflateEnd(&pairs->zip);
    pthread_cond_destroy(&pairs->changed);
    pthread_mutex_destroy(&pairs->lock);
    free(pairs->zipped);
    free(pairs);
    return ok ? HS_OK : hs_fail(err, HS_IO, "cannot write pairs");
}

/* ---- a worker's rows ---- */

hs__pairs_rows *hs__pairs_rows_create(hs__pairs_file *pairs)
{
    hs__pairs_rows *rows = malloc(sizeof *rows);
    if (rows) {
        rows->pairs = pairs;
        rows->n = 0;
    }
    return rows;
}

void hs__pairs_rows_destroy(hs__pairs_rows *rows)
{
    free(rows);
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
    const size_t n = rows->n;
    rows->n = 0;
    return turn_wait(rows) && bytes_write(rows->pairs, rows->bytes, n);
}

void hs__pairs_block_begin(hs__pairs_rows *rows, uint64_t block)
{
    rows->block = block;
    rows->n = 0;
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

/* In quotes where it must be. */
static char *text_print(char *to, const char *text)
{
    const size_t n = hs_utf8_whole(text, strnlen(text, TEXT_BYTES));
    const bool quotes = strpbrk(text, ",\"\r\n") != NULL;
    if (quotes)
        *to++ = '"';
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '"')
            *to++ = '"';
        *to++ = text[i];
    }
    if (quotes)
        *to++ = '"';
    return to;
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
    char *to = rows->bytes + rows->n;
    to = number_print(to, s->text, ',');
    to = text_print(to, s->file);
    *to++ = ',';
    to = number_print(to, s->line, ',');
    to = number_print(to, s->layer, ',');
    to = number_print(to, s->head, ',');
    to = number_print(to, s->first + i, ',');
    to = number_print(to, s->first + j, ',');
    to = text_print(to, hs_tokenizer_token(s->tokenizer, s->ids[i]));
    *to++ = ',';
    to = text_print(to, hs_tokenizer_token(s->tokenizer, s->ids[j]));
    *to++ = ',';
    to = hs_float_print(to, value, 9);
    *to++ = ',';
    to = hs_float_print(to, normalized, 9);
    *to++ = '\n';
    rows->n = (size_t)(to - rows->bytes);
}

bool hs__pairs_add(hs__pairs_rows *rows, const hs__pairs_source *s)
{
    const size_t n = s->n_tokens;
    const float maximum = hs_similarity_max(s->similarity, n, NULL);
    if (!(maximum > 0 && maximum < INFINITY))
        return true;
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++) {
            const float value = s->similarity[i * n + j], normalized = value / maximum;
            if (!(normalized >= s->threshold))
                continue;
            if (rows->n > ROWS_BYTES && !rows_flush(rows))
                return false;
            row_print(rows, s, i, j, value, normalized);
        }
    return true;
}
