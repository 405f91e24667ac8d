/* corpus_input.c - files one after the other through zlib, which reads plain ones too, into one buffer; a
 * line that leaves it is gathered in a block of its own, up to the bound. */
#include "server/corpus/corpus_input.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { READ_BYTES = 1 << 18 };

struct hs__corpus_input {
    const char *const *paths;
    size_t n_paths, file; /* the open one, or the next to open */
    hs__corpus_lines lines;
    const atomic_int *stop;
    gzFile stream; /* NULL between files; also reads what is not gzip */
    char *buffer;  /* [READ_BYTES]; filled from start to end */
    size_t start, end;
    bool ended; /* the open file has no more */
    char *line; /* grows to HS__CORPUS_LINE_MAX */
    size_t line_bytes, line_capacity;
    bool line_too_long;
    bool json; /* of the open file; known when told, or once it had a line that is not blank */
    bool json_known;
    uint64_t line_in_file; /* lines passed in the open file */
    hs__corpus_place place;
    hs_digest *digest;
    double bytes_total, bytes_before; /* of all files as they lie; of those done; total 0: not known */
    uint64_t bytes_in_file;           /* passed in the open file, unpacked */
};

static bool is_standard(const char *path)
{
    return strcmp(path, "-") == 0;
}

static hs_status files_measure(hs__corpus_input *input, hs_error *err)
{
    bool known = true;
    for (size_t i = 0; i < input->n_paths; i++) {
        struct stat file;
        if (is_standard(input->paths[i])) {
            known = false;
            continue;
        }
        if (stat(input->paths[i], &file) || access(input->paths[i], R_OK))
            return hs_fail(err, HS_IO, "cannot read '%s': %s", input->paths[i], strerror(errno));
        if (S_ISDIR(file.st_mode))
            return hs_fail(err, HS_IO, "'%s' is a folder: name the files in it", input->paths[i]);
        known &= S_ISREG(file.st_mode);
        input->bytes_total += (double)file.st_size;
    }
    if (!known)
        input->bytes_total = 0;
    return HS_OK;
}

hs_status hs__corpus_input_open(const char *const *paths, size_t n_paths, hs__corpus_lines lines,
                                const atomic_int *stop, hs__corpus_input **ret_input, hs_error *err)
{
    hs__corpus_input *input = calloc(1, sizeof *input);
    if (!input)
        return hs_fail(err, HS_NO_MEMORY, "no memory to read texts");
    input->paths = paths;
    input->n_paths = n_paths;
    input->lines = lines;
    input->stop = stop;
    input->buffer = malloc(READ_BYTES);
    input->digest = hs_digest_create();
    hs_status st =
        input->buffer && input->digest ? HS_OK : hs_fail(err, HS_NO_MEMORY, "no memory to read texts");
    if (!st)
        st = files_measure(input, err);
    if (st)
        hs__corpus_input_close(input);
    else
        *ret_input = input;
    return st;
}

void hs__corpus_input_close(hs__corpus_input *input)
{
    if (!input)
        return;
    if (input->stream)
        gzclose_r(input->stream);
    hs_digest_destroy(input->digest);
    free(input->buffer);
    free(input->line);
    free(input);
}

static hs_status file_open(hs__corpus_input *input, hs_error *err)
{
    const char *path = input->paths[input->file];
    input->stream = is_standard(path) ? gzdopen(dup(STDIN_FILENO), "rb") : gzopen(path, "rbe");
    if (!input->stream)
        return hs_fail(err, HS_IO, "cannot read '%s': %s", path, strerror(errno));
    gzbuffer(input->stream, READ_BYTES);
    input->ended = false;
    input->json_known = input->lines != HS__LINES_BY_THE_FIRST;
    input->json = input->lines == HS__LINES_JSON;
    input->line_in_file = input->bytes_in_file = 0;
    return HS_OK;
}

static void file_close(hs__corpus_input *input)
{
    input->bytes_before += (double)gzoffset(input->stream);
    gzclose_r(input->stream);
    input->stream = NULL;
    input->file++;
    /* Text moved from one file to the next is another input. */
    hs_digest_add(input->digest, &(char){0}, 1);
}

static hs_status buffer_fill(hs__corpus_input *input, hs_error *err)
{
    const char *path = input->paths[input->file];
    int code;
    if (input->stop && atomic_load(input->stop))
        return hs_fail(err, HS_CANCELLED, "stopped");
    const int n = gzread(input->stream, input->buffer, READ_BYTES);
    const char *why = gzerror(input->stream, &code);
    if (n < 0 || (n == 0 && code != Z_OK && code != Z_STREAM_END))
        return hs_fail(err, HS_IO, "cannot read '%s': %s", path,
                       code == Z_ERRNO       ? strerror(errno)
                       : code == Z_BUF_ERROR ? "gzip data cut short"
                                             : why);
    input->start = 0;
    input->end = (size_t)n;
    input->ended = n == 0;
    return HS_OK;
}

static hs_status line_append(hs__corpus_input *input, const char *bytes, size_t n, hs_error *err)
{
    if (input->line_bytes + n > HS__CORPUS_LINE_MAX) {
        input->line_too_long = true;
        n = HS__CORPUS_LINE_MAX - input->line_bytes;
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

/* The next line of the open file into input->line; *ret_found false at its end. */
static hs_status line_read(hs__corpus_input *input, bool *ret_found, hs_error *err)
{
    bool any = false;
    input->line_bytes = 0;
    input->line_too_long = false;
    for (;;) {
        hs_status st = input->start == input->end && !input->ended ? buffer_fill(input, err) : HS_OK;
        if (st)
            return st;
        if (input->ended)
            break;
        const char *from = input->buffer + input->start;
        const char *newline = memchr(from, '\n', input->end - input->start);
        const size_t n = newline ? (size_t)(newline - from) : input->end - input->start;
        st = line_append(input, from, n, err);
        if (st)
            return st;
        any = true;
        hs_digest_add(input->digest, from, n + (newline != NULL));
        input->place.n_bytes += n + (newline != NULL);
        input->bytes_in_file += n + (newline != NULL);
        input->start += n + (newline != NULL);
        if (newline)
            break;
    }
    input->line_in_file += any;
    *ret_found = any;
    return HS_OK;
}

static bool is_blank(const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strchr(" \t\r\v\f", bytes[i]) || !bytes[i])
            return false;
    return true;
}

/* A first line that is a JSON object or string. One that only begins so is what it looks like too: its faults
 * should be told as JSON's. A quotation mark may begin prose. */
static bool looks_json(const char *bytes, size_t n)
{
    while (n && strchr(" \t", *bytes))
        bytes++, n--;
    if (!n || (*bytes != '"' && *bytes != '{'))
        return false;
    if (*bytes == '{')
        return true;
    json_t *value = json_loadb(bytes, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    const bool is_string = json_is_string(value);
    json_decref(value);
    return is_string;
}

static void line_describe(hs__corpus_input *input, hs__corpus_line *ret_line)
{
    const char *bytes = input->line;
    size_t n = input->line_bytes;
    if (input->line_in_file == 1 && n >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0)
        bytes += 3, n -= 3; /* a byte order mark, as some editors put it there */
    n -= n && bytes[n - 1] == '\r';
    *ret_line = (hs__corpus_line){.bytes = bytes,
                                  .n_bytes = n,
                                  .too_long = input->line_too_long,
                                  .file = input->file,
                                  .line = input->line_in_file,
                                  .number = input->place.n_lines};
}

hs_status hs__corpus_input_next(hs__corpus_input *input, hs__corpus_line *ret_line, hs_error *err)
{
    *ret_line = (hs__corpus_line){0};
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
        hs__corpus_line line;
        line_describe(input, &line);
        if (!line.too_long && is_blank(line.bytes, line.n_bytes))
            continue;
        if (!input->json_known)
            input->json = looks_json(line.bytes, line.n_bytes);
        input->json_known = true;
        line.json = input->json;
        input->place.n_lines++;
        *ret_line = line;
        return HS_OK;
    }
    return HS_OK;
}

hs_status hs__corpus_input_skip(hs__corpus_input *input, const hs__corpus_place *place, hs_error *err)
{
    static const char changed[] =
        "the input changed: %s. Start anew in another folder, or give the same input";
    hs__corpus_place here;
    hs__corpus_line line;
    if (!place->n_lines)
        return HS_OK;
    while (input->place.n_lines < place->n_lines) {
        const hs_status st = hs__corpus_input_next(input, &line, err);
        if (st)
            return st;
        if (!line.bytes)
            return hs_fail(err, HS_INVALID, changed, "it has fewer lines than were done");
    }
    hs__corpus_input_place(input, &here);
    if (here.n_bytes != place->n_bytes || strcmp(here.sha256, place->sha256) != 0)
        return hs_fail(err, HS_INVALID, changed, "the lines that were done read otherwise now");
    return HS_OK;
}

void hs__corpus_input_place(const hs__corpus_input *input, hs__corpus_place *ret_place)
{
    *ret_place = input->place;
    hs_digest_read(input->digest, ret_place->sha256);
}

double hs__corpus_input_progress(const hs__corpus_input *input)
{
    if (!(input->bytes_total > 0))
        return -1;
    double now = 0;
    if (input->stream) /* gzip: what zlib has taken, a little ahead of us */
        now = gzdirect(input->stream) ? (double)input->bytes_in_file : (double)gzoffset(input->stream);
    return (input->bytes_before + now) / input->bytes_total;
}
