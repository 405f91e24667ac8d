/* text_format.c - formats of texts: detects them, and finds where their records end. */
#include "server/corpus/input/text_format.h"

#include "model/base/utf8.h"
#include "model/files/json.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- csv ----
 *
 * The automaton of text_format.h, and the bytes of a field. */

/* Returns the state after a byte that follows a quoted field. */
static hs__csv_state after_quoted(hs__csv_dialect dialect, char c)
{
    return c == dialect.delimiter ? HS__CSV_FIELD
           : c == '\n'            ? HS__CSV_END
           : c == '\r'            ? HS__CSV_RETURN
                                  : HS__CSV_BROKEN;
}

/* Returns the state after a byte. */
static hs__csv_state csv_step(hs__csv_state state, hs__csv_dialect dialect, char c)
{
    const bool is_quote = dialect.quote && c == dialect.quote;
    switch (state) {
    case HS__CSV_QUOTED:
        return is_quote ? HS__CSV_QUOTE : HS__CSV_QUOTED;
    case HS__CSV_QUOTE:
        return is_quote ? HS__CSV_QUOTED : after_quoted(dialect, c);
    case HS__CSV_RETURN:
    case HS__CSV_BROKEN:
        return c == '\n' ? HS__CSV_END : HS__CSV_BROKEN;
    default:
        return state != HS__CSV_PLAIN && is_quote ? HS__CSV_QUOTED
               : c == dialect.delimiter           ? HS__CSV_FIELD
               : c == '\n'                        ? HS__CSV_END
                                                  : HS__CSV_PLAIN;
    }
}

bool hs__csv_next_field(hs__csv_row *row, char *ret, size_t *ret_n)
{
    hs__csv_state state = HS__CSV_FIELD;
    *ret_n = 0;
    while (row->at < row->n_bytes) {
        const hs__csv_state before = state;
        const char c = row->bytes[row->at++];
        state = csv_step(before, row->dialect, c);
        if (state == HS__CSV_FIELD)
            return true;
        if (state == HS__CSV_BROKEN || state == HS__CSV_END)
            return false;
        if (state == HS__CSV_PLAIN || (state == HS__CSV_QUOTED && before != HS__CSV_FIELD))
            ret[(*ret_n)++] = c;
    }
    row->at = row->n_bytes + 1;
    return state != HS__CSV_QUOTED && state != HS__CSV_RETURN;
}

/* ---- text format ----
 *
 * An option or a file name decides first, then the first bytes. The default is one text per
 * line. */

/* ---- by name ---- */

static const struct {
    const char *name, *media_type, *endings[6];
} formats[HS__FORMATS] = {
    [HS__FORMAT_AUTO] = {"auto", "application/octet-stream", {NULL}},
    [HS__FORMAT_TEXT] = {"text", "text/plain", {NULL}}, /* .txt may hold anything */
    [HS__FORMAT_JSONL] = {"jsonl", "application/x-ndjson", {".jsonl", ".ndjson"}},
    [HS__FORMAT_JSON] = {"json", "application/json", {NULL}}, /* .json is an array or lines */
    [HS__FORMAT_CSV] = {"csv", "text/csv", {".csv"}},
    [HS__FORMAT_TSV] = {"tsv", "text/tab-separated-values", {".tsv", ".tab"}},
    [HS__FORMAT_CONLLU] = {"conllu", NULL, {".conllu", ".conll"}},
    [HS__FORMAT_PARAGRAPHS] = {"paragraphs", NULL, {NULL}},
    [HS__FORMAT_FASTA] = {"fasta", NULL, {".fasta", ".fa", ".faa", ".fna", ".ffn"}},
};

const char *hs__input_format_name(hs__text_format format)
{
    return formats[format].name;
}

bool hs__input_format_of_type(const char *type, size_t n, hs__text_format *ret)
{
    static const struct {
        const char *type;
        hs__text_format format;
    } others[] = {{"application/gzip", HS__FORMAT_AUTO},
                  {"application/x-gzip", HS__FORMAT_AUTO},
                  {"application/zstd", HS__FORMAT_AUTO},
                  {"application/jsonl", HS__FORMAT_JSONL},
                  {"application/ndjson", HS__FORMAT_JSONL}};
    for (size_t k = 0; k < sizeof others / sizeof *others; k++)
        if (n == strlen(others[k].type) && strncasecmp(type, others[k].type, n) == 0) {
            *ret = others[k].format;
            return true;
        }
    for (int k = 0; k < HS__FORMATS; k++)
        if (formats[k].media_type && n == strlen(formats[k].media_type) &&
            strncasecmp(type, formats[k].media_type, n) == 0) {
            *ret = (hs__text_format)k;
            return true;
        }
    return false;
}

static bool ends_with(const char *path, size_t n, const char *ending)
{
    const size_t n_ending = strlen(ending);
    return n > n_ending && strncasecmp(path + n - n_ending, ending, n_ending) == 0;
}

/* Returns the format of a file name, ignoring .gz and .zst; AUTO if unknown. */
static hs__text_format format_of_path(const char *path)
{
    size_t n = strlen(path);
    n -= ends_with(path, n, ".gz") ? 3 : ends_with(path, n, ".zst") ? 4 : 0;
    for (int k = 0; k < HS__FORMATS; k++)
        for (size_t i = 0; formats[k].endings[i]; i++)
            if (ends_with(path, n, formats[k].endings[i]))
                return (hs__text_format)k;
    return HS__FORMAT_AUTO;
}

/* ---- by content ---- */

typedef struct peek {
    const char *bytes;
    size_t n;
    const char *field; /* of the text */
    char quote;        /* of csv and tsv; 0: none */
    char *scratch;     /* of n + 1 bytes */
} peek;

/* Refuses files whose first bytes belong to no text. */
static hs_status text_check(const char *path, const peek *p, hs_error *err)
{
    static const struct {
        const char *magic;
        size_t n;
        const char *what;
    } others[] = {
        {"PK\3\4", 4, "a zip archive"},
        {"\3757zXZ", 5, "packed by xz"},
        {"BZh", 3, "packed by bzip2"},
        {"%PDF-", 5, "a PDF file"},
        {"PAR1", 4, "a Parquet file; convert it to JSON lines, for example with pandas or DuckDB"},
        {"ARROW1", 6, "an Arrow file; convert it to JSON lines, for example with pandas or pyarrow"},
        {"\377\376", 2, "in UTF-16, not UTF-8"},
        {"\376\377", 2, "in UTF-16, not UTF-8"},
    };
    for (size_t k = 0; k < sizeof others / sizeof *others; k++)
        if (p->n >= others[k].n && memcmp(p->bytes, others[k].magic, others[k].n) == 0)
            return hs_fail(err, HS_INVALID, "'%s' is not text: it is %s", path, others[k].what);
    const char *nul = p->n ? memchr(p->bytes, '\0', p->n) : NULL;
    if (nul)
        return hs_fail(err, HS_INVALID, "'%s' is not text: byte %zu of it is zero", path,
                       (size_t)(nul - p->bytes));
    return HS_OK;
}

/* Finds the first record under this layout that is not blank. False: it does not end within the peek. */
static bool record_first(const peek *p, const hs__record_layout *layout, peek *ret)
{
    hs__splitter scan;
    hs__splitter_init(&scan, layout);
    *ret = (peek){.field = p->field, .quote = p->quote};
    for (size_t at = 0; at < p->n;) {
        const hs__record_piece piece = hs__splitter_next(&scan, p->bytes + at, p->n - at);
        ret->bytes = p->bytes + at + piece.n_before;
        ret->n = piece.n_record;
        for (size_t i = 0; i < ret->n; i++)
            if (!isspace((unsigned char)ret->bytes[i]))
                return piece.ended || p->n < HS__FORMAT_PEEK;
        at += piece.n_passed;
    }
    return false;
}

/* Returns true if the bytes are a JSON value that can hold a text. */
static bool is_text_json(const peek *p)
{
    json_t *value;
    const bool is_one = !hs_json_load(p->bytes, p->n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &value, NULL) &&
                        (json_is_object(value) || json_is_string(value));
    json_decref(value);
    return is_one;
}

/* Returns true if the first line is a JSON object or string. A damaged object counts too, so that its errors
 * are reported as JSON errors. A quotation mark alone may begin prose. */
static bool looks_jsonl(const peek *p)
{
    peek line;
    const hs__record_layout layout = {.format = HS__FORMAT_JSONL};
    (void)record_first(p, &layout, &line);
    while (line.n && (*line.bytes == ' ' || *line.bytes == '\t'))
        line.bytes++, line.n--;
    return line.n && (*line.bytes == '{' || (*line.bytes == '"' && is_text_json(&line)));
}

/* Returns true if the first byte that is no white space is c. */
static bool begins_with(const peek *p, char c)
{
    size_t at = 0;
    while (at < p->n && isspace((unsigned char)p->bytes[at]))
        at++;
    return at < p->n && p->bytes[at] == c;
}

/* An array whose first element can hold a text, or is an object: that may be longer than what is seen, or
 * damaged. A bracket alone may begin prose. */
static bool looks_json(const peek *p)
{
    peek element;
    const hs__record_layout layout = {.format = HS__FORMAT_JSON};
    if (!begins_with(p, '['))
        return false;
    const bool whole = record_first(p, &layout, &element);
    return element.n && (*element.bytes == '{' || (whole && is_text_json(&element)));
}

static bool begins(const peek *p, const char *with)
{
    return p->n >= strlen(with) && memcmp(p->bytes, with, strlen(with)) == 0;
}

/* A comment that Universal Dependencies know, or a first word in ten columns. */
static bool looks_conllu(const peek *p)
{
    static const char *const comments[] = {"# newdoc", "# newpar", "# sent_id",
                                           "# text =", "# global.columns"};
    peek line;
    size_t n_tabs = 0;
    const hs__record_layout layout = {.format = HS__FORMAT_TEXT};
    if (!record_first(p, &layout, &line))
        return false;
    for (size_t k = 0; k < sizeof comments / sizeof *comments; k++)
        if (begins(&line, comments[k]))
            return true;
    for (size_t i = 0; i < line.n; i++)
        n_tabs += line.bytes[i] == '\t';
    return n_tabs == 9 && (begins(&line, "1\t") || begins(&line, "1-"));
}

/* Finds the requested column in the header for a delimiter. False: there is none. */
static bool column_find(const peek *p, char delimiter, hs__record_layout *ret)
{
    peek header;
    *ret = (hs__record_layout){.format = delimiter == '\t' ? HS__FORMAT_TSV : HS__FORMAT_CSV,
                               .csv = {delimiter, p->quote}};
    if (!record_first(p, ret, &header))
        return false;
    header.n -= header.n && header.bytes[header.n - 1] == '\r';
    hs__csv_row row = {header.bytes, header.n, ret->csv, 0};
    size_t n;
    bool found = false, sound = true;
    for (; sound && row.at <= row.n_bytes; ret->n_columns++) {
        sound = hs__csv_next_field(&row, p->scratch, &n);
        if (!found && n == strlen(p->field) && memcmp(p->scratch, p->field, n) == 0) {
            ret->column = ret->n_columns;
            found = true;
        }
    }
    return found && sound;
}

/* Tries each delimiter: spreadsheets of many locales write CSV with semicolons. */
static bool looks_rows(const peek *p, const char *delimiters, size_t n_columns_least, hs__record_layout *ret)
{
    for (; *delimiters; delimiters++)
        if (column_find(p, *delimiters, ret) && ret->n_columns >= n_columns_least)
            return true;
    return false;
}

/* ---- both ---- */

static hs_status rows_layout(const char *path, const peek *p, const char *delimiters, hs__record_layout *ret,
                             hs_error *err)
{
    size_t n_shown = 0;
    if (looks_rows(p, delimiters, 1, ret) || !p->n)
        return HS_OK;
    while (n_shown < p->n && n_shown < 100 && (unsigned char)p->bytes[n_shown] >= ' ')
        n_shown++;
    return hs_fail(err, HS_INVALID,
                   "'%s' has no column '%s': its first row must name the columns, and field (--field) says "
                   "which of them holds the text; it reads %.*s",
                   path, p->field, (int)hs_utf8_valid(p->bytes, n_shown), p->bytes);
}

static hs__text_format format_guess(const peek *p, hs__record_layout *ret)
{
    if (looks_jsonl(p))
        return HS__FORMAT_JSONL;
    if (looks_json(p))
        return HS__FORMAT_JSON;
    if (looks_conllu(p))
        return HS__FORMAT_CONLLU;
    return looks_rows(p, "\t,;", 2, ret) ? ret->format : HS__FORMAT_TEXT;
}

const char *hs__pair_field_of(const hs__input_format *given)
{
    return *given->pair_field  ? given->pair_field
           : given->has_target ? "text_target"
           : *given->field     ? ""
                               : "text_pair";
}

const char *hs__unread_field_of(const hs__input_format *given)
{
    return given->has_target ? "text_pair" : "text_target";
}

/* Finds the column of second texts. HS_INVALID: the header lacks one that the user names or a decoder needs,
 * or has one that is not read. */
static hs_status pair_layout(const char *path, const peek *p, const hs__input_format *given,
                             hs__record_layout *ret, hs_error *err)
{
    const peek pair = {p->bytes, p->n, hs__pair_field_of(given), p->quote, p->scratch},
               unread = {p->bytes, p->n, hs__unread_field_of(given), p->quote, p->scratch};
    hs__record_layout found;
    if (!*given->field && column_find(&unread, ret->csv.delimiter, &found))
        return hs_fail(err, HS_INVALID,
                       "'%s' has a column '%s', which a run with%s does not read. To leave it out, "
                       "name the text's column with field, for example 'text'",
                       path, unread.field, given->has_target ? " this stack" : "out stack");
    ret->has_pairs = *pair.field && column_find(&pair, ret->csv.delimiter, &found);
    ret->pair_column = ret->has_pairs ? found.column : 0;
    if (ret->has_pairs || !(*given->pair_field || given->has_target) || !p->n)
        return HS_OK;
    return hs_fail(err, HS_INVALID, "'%s' has no column '%s' for the %s", path, pair.field,
                   *given->pair_field ? "pair_field"
                                      : "text that the decoder reads: pair_field names another column");
}

/* Finds the column of labels. HS_INVALID: the format has no labels, or the header lacks the column. */
static hs_status label_layout(const char *path, const peek *p, hs__text_format format, hs__record_layout *ret,
                              hs_error *err)
{
    hs__record_layout of_label;
    if (format == HS__FORMAT_JSONL || format == HS__FORMAT_JSON || !p->n)
        return HS_OK;
    if (format != HS__FORMAT_CSV && format != HS__FORMAT_TSV)
        return hs_fail(err, HS_INVALID,
                       "'%s' is read as %s, which has no labels: give JSON lines, a JSON array, CSV or TSV "
                       "with the label_field '%s'",
                       path, hs__input_format_name(format), p->field);
    if (!column_find(p, ret->csv.delimiter, &of_label))
        return hs_fail(err, HS_INVALID, "'%s' has no column '%s' for the label_field", path, p->field);
    ret->label_column = of_label.column;
    return HS_OK;
}

static hs_status layout_find(const char *path, const peek *p, const hs__input_format *given,
                             hs__record_layout *ret, hs_error *err)
{
    hs__text_format format = given->format ? given->format : format_of_path(path);
    hs_status st = HS_OK;
    if (!format)
        format = format_guess(p, ret);
    else if (format == HS__FORMAT_CSV || format == HS__FORMAT_TSV)
        st = rows_layout(path, p, format == HS__FORMAT_CSV ? ",;" : "\t", ret, err);
    if (format == HS__FORMAT_JSON && p->n && !begins_with(p, '['))
        st = hs_fail(err, HS_INVALID, "'%s' is not a JSON array: it does not begin with a bracket", path);
    if (format == HS__FORMAT_FASTA && p->n && !begins_with(p, '>'))
        st = hs_fail(err, HS_INVALID, "'%s' is not FASTA: it does not begin with >", path);
    const char *named = *given->field       ? given->field
                        : given->has_target ? hs__pair_field_of(given)
                                            : given->pair_field;
    if (*named && p->n &&
        (format == HS__FORMAT_TEXT || format == HS__FORMAT_PARAGRAPHS || format == HS__FORMAT_CONLLU ||
         format == HS__FORMAT_FASTA))
        st = hs_fail(err, HS_INVALID, "'%s' is read as %s, which has no field '%s'", path,
                     hs__input_format_name(format), named);
    ret->format = format;
    if (!st && (format == HS__FORMAT_CSV || format == HS__FORMAT_TSV))
        st = pair_layout(path, p, given, ret, err);
    const peek of_label = {p->bytes, p->n, given->label_field, p->quote, p->scratch};
    return st || !*given->label_field ? st : label_layout(path, &of_label, format, ret, err);
}

hs_status hs__record_layout_find(const char *path, const char *bytes, size_t n, const hs__input_format *given,
                                 hs__record_layout *ret, hs_error *err)
{
    const size_t refusals = hs_json_refusals();
    const peek p = {bytes, n, *given->field ? given->field : "text", given->no_quotes ? '\0' : '"',
                    malloc(n + 1)};
    hs_error why = {0};
    *ret = (hs__record_layout){0};
    hs_status st = p.scratch ? text_check(path, &p, &why) : HS_NO_MEMORY;
    if (!st)
        st = layout_find(path, &p, given, ret, &why);
    free(p.scratch);
    if (st == HS_NO_MEMORY || hs_json_refusals() != refusals) /* the format is not known */
        return hs_fail(err, HS_NO_MEMORY, "no memory to read '%s'", path);
    return st ? hs_fail(err, st, "%s", why.text) : HS_OK;
}

/* ---- splitter ----
 *
 * One small automaton for each layout. Lines, the commonest, are found by memchr. */

static void record_begin(hs__splitter *scan)
{
    scan->begun = scan->quoted = scan->escaped = false;
    scan->line_begins = true;
    scan->csv = HS__CSV_FIELD;
    scan->n_row = scan->line_end = 0;
}

void hs__splitter_init(hs__splitter *scan, const hs__record_layout *layout)
{
    *scan = (hs__splitter){.layout = *layout};
    record_begin(scan);
}

static bool row_is_broken(const hs__splitter *scan)
{
    return scan->line_end && (scan->csv == HS__CSV_BROKEN || scan->n_row >= HS__RECORD_BYTES_MAX);
}

/* Each returns true if the record ends with the byte c. */
static bool ends_row(hs__splitter *scan, char c)
{
    scan->csv = csv_step(scan->csv, scan->layout.csv, c);
    if (scan->csv == HS__CSV_FIELD || scan->csv == HS__CSV_END)
        scan->line_end = 0;
    else if (scan->csv == HS__CSV_QUOTED && c == '\n' && !scan->line_end)
        scan->line_end = scan->n_row;
    scan->n_row++;
    return scan->csv == HS__CSV_END || row_is_broken(scan);
}

static bool ends_block(hs__splitter *scan, char c)
{
    const bool blank_line = c == '\n' && scan->line_begins;
    if (c == '\n' || (c != ' ' && c != '\t' && c != '\r'))
        scan->line_begins = c == '\n';
    return blank_line;
}

/* The > of the next header ends a sequence. The first byte of a record is behind its own >. */
static bool ends_sequence(hs__splitter *scan, char c)
{
    const bool next = c == '>' && scan->line_begins && scan->n_row > 0;
    scan->line_begins = c == '\n';
    scan->n_row++;
    return next;
}

static bool ends_element(hs__splitter *scan, char c)
{
    if (scan->quoted) {
        scan->quoted = scan->escaped || c != '"';
        scan->escaped = !scan->escaped && c == '\\';
        return false;
    }
    if (scan->depth == 1 && c == ',')
        return true;
    scan->quoted = c == '"';
    scan->depth += c == '[' || c == '{';
    if (scan->depth && (c == ']' || c == '}'))
        return --scan->depth == 0;
    return false;
}

/* Returns true if c precedes a record and is not part of it. */
static bool is_before(hs__splitter *scan, char c)
{
    const bool is_space = c == ' ' || c == '\t' || c == '\r' || c == '\n';
    if (scan->layout.format == HS__FORMAT_FASTA) {
        const bool passed = scan->depth == 0 && (is_space || c == '>');
        scan->depth += c == '>' && scan->depth == 0;
        return passed;
    }
    if (scan->layout.format != HS__FORMAT_JSON)
        return is_space;
    if (scan->depth == 0 && c == '[') {
        scan->depth = 1;
        return true;
    }
    return is_space;
}

static hs__record_piece line_next(hs__splitter *scan, const char *bytes, size_t n)
{
    const char *newline = memchr(bytes, '\n', n);
    const size_t n_line = newline ? (size_t)(newline - bytes) : n;
    scan->begun = newline == NULL;
    return (hs__record_piece){
        .n_passed = n_line + (newline != NULL), .n_record = n_line, .ended = newline != NULL};
}

hs__record_piece hs__splitter_next(hs__splitter *scan, const char *bytes, size_t n)
{
    static bool (*const ends[HS__FORMATS])(hs__splitter *, char) = {
        [HS__FORMAT_JSON] = ends_element,     [HS__FORMAT_CSV] = ends_row,
        [HS__FORMAT_TSV] = ends_row,          [HS__FORMAT_CONLLU] = ends_block,
        [HS__FORMAT_PARAGRAPHS] = ends_block, [HS__FORMAT_FASTA] = ends_sequence};
    bool (*const ends_here)(hs__splitter *, char) = ends[scan->layout.format];
    size_t from = 0;
    if (!ends_here)
        return line_next(scan, bytes, n);
    while (!scan->begun && ends_here != ends_row && from < n && is_before(scan, bytes[from]))
        from++;
    for (size_t i = from; i < n; i++) {
        scan->begun = true;
        if (!ends_here(scan, bytes[i]))
            continue;
        const size_t n_broken = row_is_broken(scan) ? scan->line_end : 0;
        record_begin(scan);
        return (hs__record_piece){.n_passed = i + 1,
                                  .n_before = from,
                                  .n_record = i - from + (n_broken > 0),
                                  .ended = true,
                                  .n_broken = n_broken};
    }
    return (hs__record_piece){.n_passed = n, .n_before = from, .n_record = n - from};
}

size_t hs__splitter_end(hs__splitter *scan)
{
    const size_t n_broken = scan->csv == HS__CSV_QUOTED ? scan->line_end : 0;
    record_begin(scan);
    return n_broken;
}
