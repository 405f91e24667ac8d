/* splitter.c - one small automaton for each layout. Lines, the commonest, are found by memchr. */
#include "server/corpus/input/splitter.h"

#include <string.h>

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
    scan->csv = hs__csv_step(scan->csv, scan->layout.csv, c);
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
    static bool (*const ends[HS__FORMATS])(hs__splitter *, char) = {[HS__FORMAT_JSON] = ends_element,
                                                                    [HS__FORMAT_CSV] = ends_row,
                                                                    [HS__FORMAT_TSV] = ends_row,
                                                                    [HS__FORMAT_CONLLU] = ends_block,
                                                                    [HS__FORMAT_PARAGRAPHS] = ends_block};
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
