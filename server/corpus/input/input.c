/* input.c - reads a run's input: unpacks it and hands out blocks of records. */
#include "server/corpus/input/input.h"

#include "model/base/utf8.h"
#include "server/base/system_errors.h"
#include "server/corpus/input/records.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

static const char *unpacked_packing(const hs__unpacked *s);
static uint64_t unpacked_at(const hs__unpacked *s);

/* ---- unpacking ----
 *
 * Reads plain, gzip and zstd files. The first bytes of a file tell which it is. zlib reads gzip and passes
 * other bytes unchanged; if these begin a frame of zstd, zstd unpacks them. */

struct hs__unpacked {
    const char *path;
    gzFile file;
    bool cut; /* the file ends within its gzip data; zlib 1.3.2 says so only with the last bytes */
    bool begun;
    ZSTD_DStream *zstd; /* NULL: it is not zstd's */
    char *packed;       /* [HS__UNPACK_BYTES], of zstd */
    ZSTD_inBuffer input;
    size_t due;       /* 0: between two frames of zstd */
    uint64_t n_bytes; /* unpacked so far */
};

/* Opens a file; "-" is standard input. path must outlive the stream. HS_IO, HS_NO_MEMORY. */
static hs_status unpacked_open(const char *path, hs__unpacked **ret_stream, hs_error *err)
{
    hs__unpacked *s = calloc(1, sizeof *s);
    if (!s)
        return hs_fail(err, HS_NO_MEMORY, "no memory to read '%s'", path);
    s->path = path;
    s->file = strcmp(path, "-") == 0 ? gzdopen(dup(STDIN_FILENO), "rb") : gzopen(path, "rbe");
    if (!s->file) {
        free(s);
        return hs_fail(err, hs__errno_status(errno), "cannot read '%s': %s", path, hs__errno_text(errno));
    }
    gzbuffer(s->file, HS__UNPACK_BYTES);
    *ret_stream = s;
    return HS_OK;
}

/* NULL is fine */
static void unpacked_close(hs__unpacked *s)
{
    if (!s)
        return;
    gzclose_r(s->file);
    ZSTD_freeDStream(s->zstd);
    free(s->packed);
    free(s);
}

/* Reads through zlib. */
static hs_status bytes_read(hs__unpacked *s, char *bytes, size_t n, size_t *ret_n, hs_error *err)
{
    int code;
    const int n_read = gzread(s->file, bytes, (unsigned)n);
    const char *why = gzerror(s->file, &code);
    *ret_n = n_read > 0 ? (size_t)n_read : 0;
    s->cut |= code == Z_BUF_ERROR;
    if (n_read > 0 || (n_read == 0 && !s->cut && (code == Z_OK || code == Z_STREAM_END)))
        return HS_OK;
    if (code == Z_ERRNO)
        return hs_fail(err, hs__errno_status(errno), "cannot read '%s': %s", s->path, hs__errno_text(errno));
    if (code == Z_MEM_ERROR)
        return hs_fail(err, HS_NO_MEMORY, "no memory to read '%s'", s->path);
    return hs_fail(err, HS_INVALID, "cannot read '%s': %s", s->path, s->cut ? "gzip data cut short" : why);
}

/* Returns true for a frame of zstd or a skippable frame (RFC 8878, 3.1.2), with which some packers begin. */
static bool is_frame(const char *bytes, size_t n)
{
    return n >= 4 && (memcmp(bytes, "\x28\xb5\x2f\xfd", 4) == 0 ||
                      ((bytes[0] & 0xf0) == 0x50 && memcmp(bytes + 1, "\x2a\x4d\x18", 3) == 0));
}

/* Starts zstd with the bytes already read as its input. */
static hs_status zstd_begin(hs__unpacked *s, const char *bytes, size_t n, hs_error *err)
{
    s->zstd = ZSTD_createDStream();
    s->packed = malloc(HS__UNPACK_BYTES);
    if (!s->zstd || !s->packed || n > HS__UNPACK_BYTES)
        return hs_fail(err, HS_NO_MEMORY, "no memory to read '%s'", s->path);
    (void)ZSTD_DCtx_setParameter(s->zstd, ZSTD_d_windowLogMax, HS__ZSTD_WINDOW_LOG);
    memcpy(s->packed, bytes, n);
    s->input = (ZSTD_inBuffer){s->packed, n, 0};
    return HS_OK;
}

/* Reads more packed bytes. */
static hs_status zstd_refill(hs__unpacked *s, bool *ret_ended, hs_error *err)
{
    size_t n = 0;
    const hs_status st = bytes_read(s, s->packed, HS__UNPACK_BYTES, &n, err);
    s->input = (ZSTD_inBuffer){s->packed, n, 0};
    *ret_ended = n == 0;
    if (st || n || !s->due)
        return st;
    return hs_fail(err, HS_INVALID, "cannot read '%s': zstd data cut short", s->path);
}

static hs_status zstd_read(hs__unpacked *s, char *bytes, size_t n, size_t *ret_n, hs_error *err)
{
    ZSTD_outBuffer output = {bytes, n, 0};
    hs_status st = HS_OK;
    bool ended = false, stalled = false;
    while (!st && output.pos < n) {
        if (s->input.pos == s->input.size && (stalled || !s->due)) {
            st = zstd_refill(s, &ended, err);
            if (st || ended)
                break;
        }
        const size_t before = output.pos;
        s->due = ZSTD_decompressStream(s->zstd, &output, &s->input);
        if (ZSTD_isError(s->due))
            st = hs_fail(err, HS_INVALID, "cannot read '%s': zstd: %s", s->path, ZSTD_getErrorName(s->due));
        stalled = output.pos == before;
    }
    *ret_n = output.pos;
    return st;
}

/* Two packings multiply their ratios, and no tool packs texts twice. */
static hs_status fail_twice(const hs__unpacked *s, hs_error *err)
{
    return hs_fail(err, HS_INVALID, "'%s' is packed twice, zstd inside gzip: unpack it once", s->path);
}

/* Checks the ratio of unpacked to packed bytes. A pipe has no position, so it is not checked. */
static hs_status growth_check(hs__unpacked *s, size_t n, hs_error *err)
{
    const uint64_t n_read = unpacked_at(s);
    s->n_bytes += n;
    if (!unpacked_packing(s) || s->n_bytes <= HS__UNPACK_FREE_BYTES || !n_read ||
        s->n_bytes / HS__UNPACK_TIMES_MAX <= n_read)
        return HS_OK;
    return hs_fail(err, HS_INVALID, "'%s' unpacks to more than %d times its size: unpack it first", s->path,
                   HS__UNPACK_TIMES_MAX);
}

/* Reads n bytes, fewer only at the end of the file. HS_IO: reading failed. HS_INVALID: the data are damaged,
 * truncated, packed twice, or above the ratio. */
static hs_status unpacked_read(hs__unpacked *s, char *bytes, size_t n, size_t *ret_n, hs_error *err)
{
    hs_status st = HS_OK;
    if (!s->zstd)
        st = bytes_read(s, bytes, n, ret_n, err);
    if (!st && !s->begun && is_frame(bytes, *ret_n))
        st = gzdirect(s->file) ? zstd_begin(s, bytes, *ret_n, err) : fail_twice(s, err);
    s->begun = true;
    if (!st && s->zstd)
        st = zstd_read(s, bytes, n, ret_n, err);
    return st ? st : growth_check(s, *ret_n, err);
}

/* Returns "gzip", "zstd" or NULL. Known after the first read. */
static const char *unpacked_packing(const hs__unpacked *s)
{
    assert(s);
    return s->zstd ? "zstd" : gzdirect(s->file) ? NULL : "gzip";
}

/* Returns the position in the file on disk, slightly ahead of the bytes returned. */
static uint64_t unpacked_at(const hs__unpacked *s)
{
    const z_off_t at = gzoffset(s->file);
    return at > 0 ? (uint64_t)at : 0;
}

/* ---- the stream ----
 *
 * Unpacks the files in turn into one buffer. A record that crosses its end is copied to a
 * second buffer, up to the limit. */

enum { READ_BYTES = HS__FORMAT_PEEK };

/* Limits of a check. */
enum { CHECK_RECORDS = 10000, CHECK_BYTES = 64 << 20 };

/* The detected kind of a file. */
typedef struct file_kind {
    hs__text_format format; /* AUTO: it was not opened */
    const char *packing;    /* or NULL */
} file_kind;

struct hs__record_stream {
    const char *const *paths;
    size_t n_paths, file; /* the open one, or the next to open */
    const hs__input_format *given;
    const atomic_int *stop;
    hs__unpacked *stream; /* NULL between files */
    file_kind *kinds;     /* [n_paths] */
    char *buffer;         /* [READ_BYTES]; filled from start to end */
    size_t start, end;
    bool ended;  /* the open file has no more */
    char *again; /* bytes that a broken quoted field took, to be read before the buffer */
    size_t again_at, again_end, again_capacity;
    hs__splitter scan;
    bool header_due; /* the next record is one */
    char *line;      /* grows to HS__RECORD_BYTES_MAX */
    size_t line_bytes, line_capacity;
    bool line_too_long;
    uint64_t line_in_file; /* where the record begins */
    uint64_t last_line;    /* where it ends */
    uint64_t n_newlines;   /* passed in the open file */
    hs__input_position position;
    hs_digest *digest;
    uint64_t bytes_most;              /* HS_CANCELLED after so many; 0: never */
    double bytes_total, bytes_before; /* of all files as they lie; of those done; total 0: not known */
    uint64_t bytes_in_file;           /* passed in the open file, unpacked */
};

static bool is_standard(const char *path)
{
    return strcmp(path, "-") == 0;
}

static hs_status files_measure(hs__record_stream *input, hs_error *err)
{
    bool known = true;
    for (size_t i = 0; i < input->n_paths; i++) {
        struct stat file;
        if (is_standard(input->paths[i])) {
            known = false;
            continue;
        }
        if (stat(input->paths[i], &file) || access(input->paths[i], R_OK))
            return hs_fail(err, HS_IO, "cannot read '%s': %s", input->paths[i], hs__errno_text(errno));
        if (S_ISDIR(file.st_mode))
            return hs_fail(err, HS_IO, "'%s' is a folder: name the files in it", input->paths[i]);
        known &= S_ISREG(file.st_mode);
        input->bytes_total += (double)file.st_size;
    }
    if (!known)
        input->bytes_total = 0;
    return HS_OK;
}

hs_status hs__record_stream_open(const char *const *paths, size_t n_paths, const hs__input_format *given,
                                 const atomic_int *stop, hs__record_stream **ret_input, hs_error *err)
{
    hs__record_stream *input = calloc(1, sizeof *input);
    if (!input) {
        hs_fail(err, HS_NO_MEMORY, "no memory to read texts");
        return HS_NO_MEMORY;
    }
    input->paths = paths;
    input->n_paths = n_paths;
    input->given = given;
    input->stop = stop;
    input->buffer = malloc(READ_BYTES);
    input->kinds = calloc(n_paths, sizeof *input->kinds);
    input->digest = hs_digest_create();
    hs_status st = input->buffer && input->kinds && input->digest
                       ? HS_OK
                       : hs_fail(err, HS_NO_MEMORY, "no memory to read texts");
    if (!st)
        st = files_measure(input, err);
    if (st)
        hs__record_stream_close(input);
    else
        *ret_input = input;
    return st;
}

void hs__record_stream_close(hs__record_stream *input)
{
    if (!input)
        return;
    unpacked_close(input->stream);
    hs_digest_destroy(input->digest);
    free(input->kinds);
    free(input->buffer);
    free(input->line);
    free(input->again);
    free(input);
}

/* ---- bytes ---- */

static uint64_t newlines_count(const char *bytes, size_t n)
{
    uint64_t n_newlines = 0;
    for (const char *at = bytes, *end = bytes + n; n && (at = memchr(at, '\n', (size_t)(end - at))); at++)
        n_newlines++;
    return n_newlines;
}

/* Returns the bytes that are at hand: those to be read again, then those of the buffer. */
static const char *bytes_next(const hs__record_stream *input, size_t *ret_n)
{
    const bool again = input->again_at < input->again_end;
    *ret_n = again ? input->again_end - input->again_at : input->end - input->start;
    return again ? input->again + input->again_at : input->buffer + input->start;
}

/* Passes some of the bytes that are at hand. */
static void bytes_pass(hs__record_stream *input, size_t n)
{
    size_t n_left;
    const char *from = bytes_next(input, &n_left);
    input->n_newlines += newlines_count(from, n);
    if (input->again_at < input->again_end) { /* they are hashed and counted */
        input->again_at += n;
        return;
    }
    hs_digest_add(input->digest, from, n);
    input->position.n_bytes += n;
    input->bytes_in_file += n;
    input->start += n;
}

static hs_status buffer_fill(hs__record_stream *input, hs_error *err)
{
    if ((input->stop && atomic_load(input->stop)) ||
        (input->bytes_most && input->position.n_bytes >= input->bytes_most))
        return hs_fail(err, HS_CANCELLED, "stopped");
    input->start = 0;
    const hs_status st = unpacked_read(input->stream, input->buffer, READ_BYTES, &input->end, err);
    input->ended = input->end == 0;
    return st;
}

/* Finds the bytes at hand; reads more if there are none. *ret_n: 0 at the end of the file. */
static hs_status bytes_find(hs__record_stream *input, const char **ret, size_t *ret_n, hs_error *err)
{
    *ret = bytes_next(input, ret_n);
    if (*ret_n || input->ended)
        return HS_OK;
    const hs_status st = buffer_fill(input, err);
    *ret = bytes_next(input, ret_n);
    return st;
}

/* Opens the next file and detects its format from its first bytes. */
static hs_status file_open(hs__record_stream *input, hs_error *err)
{
    const char *path = input->paths[input->file];
    hs__record_layout layout;
    hs_status st = unpacked_open(path, &input->stream, err);
    input->n_newlines = input->bytes_in_file = 0;
    if (!st)
        st = buffer_fill(input, err);
    if (st)
        return st;
    const bool has_mark = input->end >= 3 && memcmp(input->buffer, "\xef\xbb\xbf", 3) == 0;
    if (has_mark) /* a byte order mark, as some editors put it there */
        bytes_pass(input, 3);
    st = hs__record_layout_find(path, input->buffer + input->start, input->end - input->start, input->given,
                                &layout, err);
    if (st)
        return st;
    input->kinds[input->file] = (file_kind){layout.format, unpacked_packing(input->stream)};
    input->header_due = layout.format == HS__FORMAT_CSV || layout.format == HS__FORMAT_TSV;
    hs__splitter_init(&input->scan, &layout);
    return HS_OK;
}

static void file_close(hs__record_stream *input)
{
    input->bytes_before += (double)unpacked_at(input->stream);
    unpacked_close(input->stream);
    input->stream = NULL;
    input->file++;
    /* Text moved from one file to the next is another input. */
    hs_digest_add(input->digest, &(char){0}, 1);
}

/* ---- records ---- */

static hs_status line_append(hs__record_stream *input, const char *bytes, size_t n, hs_error *err)
{
    if (input->line_bytes + n > HS__RECORD_BYTES_MAX) {
        input->line_too_long = true;
        n = HS__RECORD_BYTES_MAX - input->line_bytes;
    }
    if (input->line_bytes + n > input->line_capacity) {
        size_t capacity = input->line_capacity ? input->line_capacity : 4096;
        while (capacity < input->line_bytes + n)
            capacity *= 2;
        char *more = realloc(input->line, capacity);
        if (!more)
            return hs_fail(err, HS_NO_MEMORY, "no memory for a line of %zu bytes", capacity);
        input->line = more;
        input->line_capacity = capacity;
    }
    if (n)
        memcpy(input->line + input->line_bytes, bytes, n);
    input->line_bytes += n;
    return HS_OK;
}

/* Takes the last n bytes of the record back, to be read again. */
static hs_status bytes_return(hs__record_stream *input, size_t n, hs_error *err)
{
    const char *rest = input->line + input->line_bytes - n;
    if (input->again_at < input->again_end) {
        input->again_at -= n; /* all of them came from there */
    } else if (n) {
        char *more = n > input->again_capacity ? realloc(input->again, n) : input->again;
        if (!more)
            return hs_fail(err, HS_NO_MEMORY, "no memory to read %zu bytes again", n);
        memcpy(more, rest, n);
        input->again = more;
        input->again_capacity = n > input->again_capacity ? n : input->again_capacity;
        input->again_at = 0;
        input->again_end = n;
    }
    input->n_newlines -= newlines_count(rest, n);
    input->line_bytes -= n;
    return HS_OK;
}

/* Ends a record with a broken quoted field after n bytes and the line end there. 0: it is sound. */
static hs_status line_break(hs__record_stream *input, size_t n, hs_error *err)
{
    hs_status st = HS_OK;
    if (!n)
        return HS_OK;
    if (n < input->line_bytes) { /* else the line itself is too long */
        st = bytes_return(input, input->line_bytes - n - 1, err);
        input->line_bytes = n;
        input->line_too_long = false;
    }
    input->last_line = input->line_in_file + newlines_count(input->line, input->line_bytes);
    return st;
}

/* Reads the next record of the open file into input->line. *ret_found: false at its end. */
static hs_status line_read(hs__record_stream *input, bool *ret_found, hs_error *err)
{
    bool begun = false;
    const char *from;
    size_t n;
    hs__record_piece piece = {0};
    input->line_bytes = 0;
    input->line_too_long = *ret_found = false;
    while (!piece.ended) {
        hs_status st = bytes_find(input, &from, &n, err);
        if (st)
            return st;
        if (!n)
            return line_break(input, hs__splitter_end(&input->scan), err);
        piece = hs__splitter_next(&input->scan, from, n);
        bytes_pass(input, piece.n_before);
        if (!begun)
            input->line_in_file = input->n_newlines + 1;
        begun |= piece.n_passed > piece.n_before;
        *ret_found = true;
        st = line_append(input, from + piece.n_before, piece.n_record, err);
        if (st)
            return st;
        bytes_pass(input, piece.n_record);
        input->last_line = input->n_newlines + 1;
        bytes_pass(input, piece.n_passed - piece.n_before - piece.n_record);
    }
    return line_break(input, piece.n_broken, err);
}

static bool is_blank(const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strchr(" \t\r\v\f\n", bytes[i]) || !bytes[i])
            return false;
    return true;
}

static void line_describe(hs__record_stream *input, hs__record *ret_line)
{
    size_t n = input->line_bytes;
    const bool ends_line = n && !input->line_too_long && input->line[n - 1] == '\n'; /* at the file's end */
    n -= n && input->line[n - 1] == '\r';
    *ret_line = (hs__record){.bytes = input->line ? input->line : "",
                             .n_bytes = n,
                             .too_long = input->line_too_long,
                             .layout = input->scan.layout,
                             .file = input->file,
                             .line = input->line_in_file,
                             .n_lines = input->last_line - ends_line - input->line_in_file + 1,
                             .number = input->position.n_lines};
}

hs_status hs__record_stream_next(hs__record_stream *input, hs__record *ret_line, hs_error *err)
{
    *ret_line = (hs__record){0};
    while (input->file < input->n_paths) {
        bool found;
        hs_status st = input->stream ? HS_OK : file_open(input, err);
        if (!st)
            st = line_read(input, &found, err);
        if (st)
            return st;
        if (!found) {
            file_close(input);
            continue;
        }
        hs__record line;
        line_describe(input, &line);
        if (!line.too_long && is_blank(line.bytes, line.n_bytes)) {
            input->position.n_blank++;
            continue;
        }
        const bool is_header = input->header_due;
        input->header_due = false;
        if (is_header)
            continue;
        input->position.n_lines++;
        *ret_line = line;
        return HS_OK;
    }
    return HS_OK;
}

static bool is_same_position(const hs__input_position *a, const hs__input_position *b)
{
    return a->n_bytes == b->n_bytes && strcmp(a->sha256, b->sha256) == 0;
}

hs_status hs__record_stream_skip(hs__record_stream *input, const hs__input_position *position, hs_error *err)
{
    static const char changed[] =
        "the input changed: %s. Start anew in another folder, or give the same input";
    hs__input_position here;
    hs__record line;
    if (!position->n_lines)
        return HS_OK;
    while (input->position.n_lines < position->n_lines) {
        const hs_status st = hs__record_stream_next(input, &line, err);
        if (st)
            return st;
        if (!line.bytes)
            return hs_fail(err, HS_INVALID, changed, "it has fewer lines than were done");
    }
    hs__record_stream_position(input, &here);
    if (!is_same_position(&here,
                          position)) { /* unless it is the end, where the stream has closed its last file */
        const hs_status st = hs__record_stream_next(input, &line, err);
        if (st)
            return st;
        if (!line.bytes)
            hs__record_stream_position(input, &here);
    }
    if (!is_same_position(&here, position))
        return hs_fail(err, HS_INVALID, changed, "the lines that were done read otherwise now");
    return HS_OK;
}

void hs__record_stream_position(const hs__record_stream *input, hs__input_position *ret_position)
{
    *ret_position = input->position;
    hs_digest_read(input->digest, ret_position->sha256);
}

json_t *hs__record_stream_formats(const hs__record_stream *input)
{
    json_t *formats = json_array();
    for (size_t i = 0; i < input->n_paths && input->kinds[i].format; i++) {
        const char *name = hs__input_format_name(input->kinds[i].format), *packing = input->kinds[i].packing;
        json_array_append_new(formats, packing ? json_sprintf("%s, %s", name, packing) : json_string(name));
    }
    return formats;
}

double hs__record_stream_progress(const hs__record_stream *input)
{
    if (!(input->bytes_total > 0))
        return -1;
    double now = 0;
    if (input->stream) /* packed: what was taken of the file, a little ahead of us */
        now = unpacked_packing(input->stream) ? (double)unpacked_at(input->stream)
                                              : (double)input->bytes_in_file;
    return (input->bytes_before + now) / input->bytes_total;
}

/* ---- checks before a run ---- */

/* Checks that a record has a text. Fails with HS_BAD_REQUEST if it has none; why is the reason. */
static hs_status record_check(const hs__record *line, const hs__input_format *given, char why[128])
{
    hs__record_text value = {0};
    hs_status st = HS_BAD_REQUEST;
    snprintf(value.why, sizeof value.why, "longer than %zu bytes", HS__RECORD_BYTES_MAX);
    if (!line->too_long)
        st = hs__record_text_find(&line->layout, given, line->bytes, line->n_bytes, &value);
    if (!st && hs_utf8_valid(value.text.bytes, value.text.n_bytes) < value.text.n_bytes) {
        snprintf(value.why, sizeof value.why, "not valid UTF-8");
        st = HS_BAD_REQUEST;
    }
    memcpy(why, value.why, 128);
    hs__record_text_finish(&value);
    return st;
}

static hs_status texts_look(hs__record_stream *input, const char *path, hs_error *err)
{
    hs__record line;
    char why[128] = "", first[128] = "";
    uint64_t first_line = 0;
    input->bytes_most = CHECK_BYTES;
    while (input->position.n_lines < CHECK_RECORDS) {
        hs_status st = hs__record_stream_next(input, &line, err);
        if (st)
            return st == HS_CANCELLED ? HS_OK : st;
        if (!line.bytes)
            return hs__no_texts(path, input->position.n_lines, first_line, first, err);
        st = record_check(&line, input->given, why);
        if (st != HS_BAD_REQUEST)
            return st ? hs_fail(err, st, "no memory to look at '%s'", path) : HS_OK;
        if (!first_line) {
            memcpy(first, why, sizeof first);
            first_line = line.line;
        }
    }
    return HS_OK; /* the run will see, as beyond CHECK_BYTES */
}

hs_status hs__record_stream_check(const char *path, const hs__input_format *given,
                                  hs__text_format *ret_format, bool *ret_packed, hs_error *err)
{
    hs__record_stream *input = NULL;
    hs_status st = hs__record_stream_open(&path, 1, given, NULL, &input, err);
    if (st)
        return st;
    st = texts_look(input, path, err);
    *ret_format = input->kinds[0].format;
    *ret_packed = input->kinds[0].packing != NULL;
    hs__record_stream_close(input);
    return st;
}

hs_status hs__no_texts(const char *path, uint64_t n_lines, uint64_t first_line, const char *why,
                       hs_error *err)
{
    if (!n_lines)
        return hs_fail(err, HS_INVALID, "'%s' is empty: there is no text in it", path);
    if (!first_line)
        return hs_fail(err, HS_INVALID, "there is no text in '%s': %llu records, all empty", path,
                       (unsigned long long)n_lines);
    return hs_fail(err, HS_INVALID, "there is no text in '%s': %llu records, none with a text; line %llu: %s",
                   path, (unsigned long long)n_lines, (unsigned long long)first_line, why);
}
