/* record_text.c - one function for each layout. */
#include "server/corpus/input/record_text.h"

#include "server/corpus/input/conllu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static hs_status none(hs__record_text *value, const char *why)
{
    snprintf(value->why, sizeof value->why, "%s", why);
    return HS_BAD_REQUEST;
}

/* ---- JSON ---- */

/* object["a"]["b"] for "a.b"; a name with a dot in it is found as well. */
static const json_t *member_find(const json_t *object, const char *field)
{
    while (json_is_object(object)) {
        const json_t *whole = json_object_get(object, field);
        const char *dot = strchr(field, '.');
        if (whole || !dot)
            return whole;
        object = json_object_getn(object, field, (size_t)(dot - field));
        field = dot + 1;
    }
    return NULL;
}

static hs_status json_find(const char *field, const char *record, size_t n, hs__record_text *ret)
{
    json_error_t error;
    ret->json = json_loadb(record, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    if (!ret->json) {
        snprintf(ret->why, sizeof ret->why, "not JSON: %.90s", error.text);
        return HS_BAD_REQUEST;
    }
    const bool is_object = json_is_object(ret->json);
    const json_t *value = is_object ? member_find(ret->json, field) : ret->json;
    if (!json_is_string(value)) {
        snprintf(ret->why, sizeof ret->why,
                 is_object ? "an object without a %.64s that is a string"
                           : "neither an object with %.64s nor a string",
                 field);
        return HS_BAD_REQUEST;
    }
    ret->text = (hs_text){json_string_value(value), json_string_length(value)};
    return HS_OK;
}

/* ---- rows ---- */

/* Copies a column of a row of n bytes to `to`, which holds n + 1. what: "text" or "label". */
static hs_status column_copy(const hs__record_layout *layout, size_t column, const char *what,
                             const char *record, size_t n, char *to, size_t *ret_n, hs__record_text *ret)
{
    hs__csv_row row = {record, n, layout->csv, 0};
    for (size_t k = 0; k <= column; k++) {
        if (row.at > row.n_bytes) {
            snprintf(ret->why, sizeof ret->why, "a row of %zu fields; the %s is in number %zu", k, what,
                     column + 1);
            return HS_BAD_REQUEST;
        }
        if (!hs__csv_next_field(&row, to, ret_n))
            return none(ret,
                        "a quotation mark that is not closed, or closed before its field ends; no_quotes "
                        "makes it an ordinary character");
    }
    return HS_OK;
}

/* Returns the number of a row's fields up to the last that is not empty: spreadsheets write empty ones behind
 * it. scratch holds n bytes. */
static size_t fields_count(const hs__record_layout *layout, const char *record, size_t n, char *scratch)
{
    hs__csv_row row = {record, n, layout->csv, 0};
    size_t n_field, n_fields = 0;
    for (size_t k = 1; row.at <= n && hs__csv_next_field(&row, scratch, &n_field); k++)
        n_fields = n_field ? k : n_fields;
    return n_fields;
}

static hs_status row_find(const hs__record_layout *layout, const char *record, size_t n, hs__record_text *ret)
{
    size_t n_field = 0;
    ret->copy = malloc(n + 1);
    if (!ret->copy)
        return HS_NO_MEMORY;
    const size_t n_fields = fields_count(layout, record, n, ret->copy);
    if (n_fields > layout->n_columns) {
        snprintf(ret->why, sizeof ret->why,
                 "a row of %zu fields; the header has %zu. Put quotation marks around texts with a delimiter",
                 n_fields, layout->n_columns);
        return HS_BAD_REQUEST;
    }
    const hs_status st = column_copy(layout, layout->column, "text", record, n, ret->copy, &n_field, ret);
    ret->text = (hs_text){ret->copy, n_field};
    return st;
}

/* ---- CoNLL-U ---- */

static bool contains(const hs__conllu_part *line, const char *what)
{
    return line->n && memmem(line->bytes, line->n, what, strlen(what));
}

/* Returns true for a word of the text: 8, or the range 8-9, which covers its parts. */
static bool is_surface(const hs__conllu_part *line, unsigned long *covered)
{
    hs__conllu_range range;
    if (!hs__conllu_range_read(line, &range) || range.first <= *covered)
        return false;
    *covered = range.last > range.first ? range.last : *covered;
    return true;
}

/* Joins the words with one space, none after SpaceAfter=No. */
static size_t words_join(const char *record, size_t n_bytes, char *ret)
{
    size_t n = 0;
    unsigned long covered = 0;
    bool space = false;
    for (const char *at = record, *end = record + n_bytes; at < end;) {
        const hs__conllu_part line = hs__conllu_line_take(&at, end);
        if (!is_surface(&line, &covered))
            continue;
        const hs__conllu_part form = hs__conllu_column(&line, 1), notes = hs__conllu_column(&line, 9);
        if (space)
            ret[n++] = ' ';
        memcpy(ret + n, form.bytes, form.n);
        n += form.n;
        space = !contains(&notes, "SpaceAfter=No");
    }
    return n;
}

static hs_status block_find(const char *record, size_t n_bytes, hs__record_text *ret)
{
    static const char comment[] = "# text =";
    for (const char *at = record, *end = record + n_bytes; at < end;) {
        const hs__conllu_part line = hs__conllu_line_take(&at, end);
        size_t from = sizeof comment - 1;
        if (line.n < from || memcmp(line.bytes, comment, from) != 0)
            continue;
        from += line.n > from && line.bytes[from] == ' ';
        ret->text = (hs_text){line.bytes + from, line.n - from};
        return HS_OK;
    }
    ret->copy = malloc(n_bytes + 1);
    if (!ret->copy)
        return HS_NO_MEMORY;
    ret->text = (hs_text){ret->copy, words_join(record, n_bytes, ret->copy)};
    return ret->text.n_bytes ? HS_OK : none(ret, "a block with neither words nor # text =");
}

/* ---- any ---- */

hs_status hs__record_text_find(const hs__record_layout *layout, const char *field, const char *record,
                               size_t n_bytes, hs__record_text *ret)
{
    *ret = (hs__record_text){.text = {record, n_bytes}};
    switch (layout->format) {
    case HS__FORMAT_JSONL:
    case HS__FORMAT_JSON:
        return json_find(*field ? field : "text", record, n_bytes, ret);
    case HS__FORMAT_CSV:
    case HS__FORMAT_TSV:
        return row_find(layout, record, n_bytes, ret);
    case HS__FORMAT_CONLLU:
        return block_find(record, n_bytes, ret);
    default:
        return HS_OK;
    }
}

/* ---- labels ---- */

static hs_status json_label(const char *field, hs__record_text *value, char **ret)
{
    char number[32];
    const json_t *label = json_is_object(value->json) ? member_find(value->json, field) : NULL;
    const bool is_text =
        json_is_string(label) && strlen(json_string_value(label)) == json_string_length(label);
    if (json_is_integer(label))
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(label));
    if (!json_is_integer(label) && !is_text) {
        snprintf(value->why, sizeof value->why, "no label: %.64s must be a string or an integer", field);
        return HS_BAD_REQUEST;
    }
    *ret = strdup(is_text ? json_string_value(label) : number);
    return *ret ? HS_OK : HS_NO_MEMORY;
}

hs_status hs__record_label_find(const hs__record_layout *layout, const char *field, const char *record,
                                size_t n_bytes, hs__record_text *value, char **ret)
{
    size_t n = 0;
    *ret = NULL;
    if (layout->format != HS__FORMAT_CSV && layout->format != HS__FORMAT_TSV)
        return json_label(field, value, ret);
    char *label = malloc(n_bytes + 1);
    if (!label)
        return HS_NO_MEMORY;
    const hs_status st =
        column_copy(layout, layout->label_column, "label", record, n_bytes, label, &n, value);
    if (st) {
        free(label);
        return st;
    }
    label[n] = '\0';
    *ret = label;
    return HS_OK;
}

void hs__record_text_finish(hs__record_text *value)
{
    json_decref(value->json);
    free(value->copy);
    *value = (hs__record_text){0};
}
