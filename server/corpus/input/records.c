/* records.c - what a record holds: its text, its label, its words. */
#include "server/corpus/input/records.h"
#include "model/base/read_number.h"
#include "model/files/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- conllu ----
 *
 * The lines of a CoNLL-U sentence and their ten columns.
 *
 * Cuts lines and columns, and reads numbers of words. */

/* A part of a record: a line, or a column. */
typedef struct hs__conllu_part {
    const char *bytes;
    size_t n;
} hs__conllu_part;

/* The words that a line stands for: 8, or the range 8-9. */
typedef struct hs__conllu_range {
    unsigned long first, last;
} hs__conllu_range;

/* Takes the next line, without its end, from *at on, which is before `end`. */
static hs__conllu_part conllu_line_take(const char **at, const char *end)
{
    const char *newline = memchr(*at, '\n', (size_t)(end - *at)), *stop = newline ? newline : end;
    hs__conllu_part line = {*at, (size_t)(stop - *at)};
    line.n -= line.n && line.bytes[line.n - 1] == '\r';
    *at = newline ? newline + 1 : end;
    return line;
}

/* Returns column k of 10; empty where there are fewer. */
static hs__conllu_part conllu_column(const hs__conllu_part *line, size_t k)
{
    const char *at = line->bytes, *end = at + line->n;
    for (; k && at < end; k--) {
        const char *tab = memchr(at, '\t', (size_t)(end - at));
        at = tab ? tab + 1 : end;
    }
    const char *tab = at < end ? memchr(at, '\t', (size_t)(end - at)) : NULL;
    return (hs__conllu_part){at, (size_t)((tab ? tab : end) - at)};
}

/* Reads a number and what follows it in the column, of which the caller keeps a copy. */
static bool number_copy(const hs__conllu_part *column, char copy[48], unsigned long *ret_number,
                        const char **ret_rest)
{
    int64_t number = 0;
    if (column->n == 0 || column->n >= 48 || *column->bytes < '0' || *column->bytes > '9')
        return false;
    memcpy(copy, column->bytes, column->n);
    copy[column->n] = '\0';
    (void)hs_integer_read(copy, ret_rest, 0, INT64_MAX, &number);
    *ret_number = (unsigned long)number;
    return true;
}

/* Returns true if the column is the number of a word; 0 is the root. */
static bool conllu_number_read(const hs__conllu_part *column, unsigned long *ret_number)
{
    char copy[48];
    const char *rest;
    return number_copy(column, copy, ret_number, &rest) && !*rest;
}

/* Reads column 1. Returns false for comments, empty nodes such as 8.1, and anything else. */
static bool conllu_range_read(const hs__conllu_part *line, hs__conllu_range *ret_range)
{
    const hs__conllu_part id = conllu_column(line, 0);
    char copy[48];
    const char *rest;
    if (line->n == 0 || *line->bytes == '#' || !number_copy(&id, copy, &ret_range->first, &rest) ||
        (*rest && *rest != '-'))
        return false;
    int64_t last = 0; /* of a malformed one: a range that ends before it begins is refused */
    if (*rest == '-')
        (void)hs_integer_read(rest + 1, NULL, 0, INT64_MAX, &last);
    ret_range->last = *rest == '-' ? (unsigned long)last : ret_range->first;
    return true;
}

/* ---- record text ----
 *
 * One function for each layout. */

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

static bool has_white_space(const json_t *string)
{
    const char *bytes = json_string_value(string);
    for (size_t i = 0; i < json_string_length(string); i++)
        if (bytes[i] == ' ' || (bytes[i] >= '\t' && bytes[i] <= '\r'))
            return true;
    return false;
}

/* Checks that a list is the words of one text. Tables that are written by columns have a list of texts there.
 * Its elements have white space, or its member is one that holds a text by default. */
static hs_status words_check(const json_t *words, const char *field, bool is_default, hs__record_text *value)
{
    const json_t *word;
    size_t i;
    json_array_foreach(words, i, word)
    {
        if (json_is_string(word) && !is_default && !has_white_space(word))
            continue;
        snprintf(value->why, sizeof value->why,
                 !json_is_string(word) ? "element %zu of %.64s is no string"
                 : is_default
                     ? "element %zu of the list %.64s would be a word; words are in tokens, and each text is "
                       "a record"
                     : "element %zu of %.64s is no word, for it has white space: each text is a record",
                 i, field);
        return HS_BAD_REQUEST;
    }
    return HS_OK;
}

/* Joins a list of words with one space. *ret_copy owns the text. */
static hs_status words_find(const json_t *words, const char *field, bool is_default, hs_text *ret_text,
                            char **ret_copy, hs__record_text *value)
{
    const json_t *word;
    size_t i, n = 0;
    const hs_status st = words_check(words, field, is_default, value);
    if (st)
        return st;
    json_array_foreach(words, i, word) n += json_string_length(word) + 1;
    char *to = *ret_copy = malloc(n + 1);
    if (!to)
        return HS_NO_MEMORY;
    json_array_foreach(words, i, word)
    {
        if (i > 0)
            *to++ = ' ';
        memcpy(to, json_string_value(word), json_string_length(word));
        to += json_string_length(word);
    }
    *ret_text = (hs_text){*ret_copy, (size_t)(to - *ret_copy)};
    return HS_OK;
}

/* Refuses an object with a member that would not be read. */
static hs_status unread_refuse(const json_t *object, const hs__input_format *given, hs__record_text *ret)
{
    const char *field = hs__unread_field_of(given);
    const json_t *value = json_object_get(object, field);
    if (!value || json_is_null(value))
        return HS_OK;
    snprintf(ret->why, sizeof ret->why, "%s is not read by runs with%s; with the field 'text' it is left out",
             field, given->has_target ? " this stack" : "out stack");
    return HS_BAD_REQUEST;
}

/* Finds the second text of an object. It may be a list of words if its member is named, or if the text is
 * one. */
static hs_status pair_find(const json_t *object, const hs__input_format *given, bool text_is_list,
                           hs__record_text *ret)
{
    const char *field = hs__pair_field_of(given);
    const json_t *value = *field ? member_find(object, field) : NULL;
    if (!*given->pair_field && !given->has_target && (!value || json_is_null(value)))
        return HS_OK;
    if (json_is_array(value))
        return words_find(value, field, !*given->pair_field && !text_is_list, &ret->pair, &ret->copies[1],
                          ret);
    if (!json_is_string(value)) {
        snprintf(ret->why, sizeof ret->why, "no second text: %.64s must be a string or a list of strings",
                 field);
        return HS_BAD_REQUEST;
    }
    ret->pair = (hs_text){json_string_value(value), json_string_length(value)};
    return HS_OK;
}

/* Returns the member with the text; without a name that is text, or else tokens. */
static const json_t *value_find(const json_t *object, const char *field)
{
    const json_t *value = member_find(object, *field ? field : "text");
    return value || *field ? value : json_object_get(object, "tokens");
}

static hs_status json_find(const hs__input_format *given, const char *record, size_t n, hs__record_text *ret)
{
    const char *field = given->field;
    json_error_t error;
    const hs_status parsed = hs_json_load(record, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &ret->json, &error);
    if (parsed == HS_NO_MEMORY)
        return HS_NO_MEMORY;
    if (parsed) {
        snprintf(ret->why, sizeof ret->why, "not JSON: %.90s", error.text);
        return HS_BAD_REQUEST;
    }
    const bool is_object = json_is_object(ret->json);
    const json_t *value = is_object ? value_find(ret->json, field) : ret->json;
    hs_status st = is_object && !*field ? unread_refuse(ret->json, given, ret) : HS_OK;
    if (!st && (is_object || *given->pair_field || given->has_target))
        st = pair_find(ret->json, given, is_object && json_is_array(value), ret);
    if (st)
        return st;
    if (is_object && json_is_array(value)) {
        const bool is_default = !*field && value == json_object_get(ret->json, "text");
        return words_find(value,
                          *field       ? field
                          : is_default ? "text"
                                       : "tokens",
                          is_default, &ret->text, &ret->copies[0], ret);
    }
    if (is_object && !value && json_object_get(ret->json, "messages")) {
        snprintf(ret->why, sizeof ret->why,
                 "messages, not rendered: put apply_chat_template(messages, tokenize=False) into %.32s",
                 *field ? field : "text");
        return HS_BAD_REQUEST;
    }
    if (!json_is_string(value)) {
        snprintf(ret->why, sizeof ret->why,
                 is_object ? "an object without a %.64s that is a string or a list of strings"
                           : "neither an object with %.64s nor a string",
                 *field ? field : "text");
        return HS_BAD_REQUEST;
    }
    ret->text = (hs_text){json_string_value(value), json_string_length(value)};
    return HS_OK;
}

/* ---- rows ---- */

/* Copies a column of a row of n bytes to `to`, which holds n + 1. what: "text", "second text" or "label". */
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
    ret->copies[0] = malloc(n + 1);
    ret->copies[1] = layout->has_pairs ? malloc(n + 1) : NULL;
    if (!ret->copies[0] || (layout->has_pairs && !ret->copies[1]))
        return HS_NO_MEMORY;
    const size_t n_fields = fields_count(layout, record, n, ret->copies[0]);
    if (n_fields > layout->n_columns) {
        snprintf(ret->why, sizeof ret->why,
                 "a row of %zu fields; the header has %zu. Put quotation marks around texts with a delimiter",
                 n_fields, layout->n_columns);
        return HS_BAD_REQUEST;
    }
    ret->text.bytes = ret->copies[0];
    ret->pair.bytes = ret->copies[1];
    hs_status st =
        column_copy(layout, layout->column, "text", record, n, ret->copies[0], &ret->text.n_bytes, ret);
    if (!st && layout->has_pairs)
        st = column_copy(layout, layout->pair_column, "second text", record, n, ret->copies[1],
                         &ret->pair.n_bytes, ret);
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
    if (!conllu_range_read(line, &range) || range.first <= *covered)
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
        const hs__conllu_part line = conllu_line_take(&at, end);
        if (!is_surface(&line, &covered))
            continue;
        const hs__conllu_part form = conllu_column(&line, 1), notes = conllu_column(&line, 9);
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
        const hs__conllu_part line = conllu_line_take(&at, end);
        size_t from = sizeof comment - 1;
        if (line.n < from || memcmp(line.bytes, comment, from) != 0)
            continue;
        from += line.n > from && line.bytes[from] == ' ';
        ret->text = (hs_text){line.bytes + from, line.n - from};
        return HS_OK;
    }
    char *copy = ret->copies[0] = malloc(n_bytes + 1);
    if (!copy)
        return HS_NO_MEMORY;
    ret->text = (hs_text){copy, words_join(record, n_bytes, copy)};
    return ret->text.n_bytes ? HS_OK : none(ret, "a block with neither words nor # text =");
}

/* ---- FASTA ---- */

/* Joins the lines behind the header: white space and the * that may end a sequence are not part of it. */
static hs_status sequence_find(const char *record, size_t n_bytes, hs__record_text *ret)
{
    const char *end = record + n_bytes, *newline = memchr(record, '\n', n_bytes);
    char *copy = ret->copies[0] = malloc(n_bytes + 1);
    size_t n = 0;
    if (!copy)
        return HS_NO_MEMORY;
    for (const char *at = newline ? newline + 1 : end; at < end; at++)
        if (*at != ' ' && (*at < '\t' || *at > '\r'))
            copy[n++] = *at;
    n -= n && copy[n - 1] == '*';
    ret->text = (hs_text){copy, n};
    return n ? HS_OK : none(ret, "a header without a sequence");
}

/* ---- any ---- */

hs_status hs__record_text_find(const hs__record_layout *layout, const hs__input_format *given,
                               const char *record, size_t n_bytes, hs__record_text *ret)
{
    *ret = (hs__record_text){.text = {record, n_bytes}};
    switch (layout->format) {
    case HS__FORMAT_JSONL:
    case HS__FORMAT_JSON:
        return json_find(given, record, n_bytes, ret);
    case HS__FORMAT_CSV:
    case HS__FORMAT_TSV:
        return row_find(layout, record, n_bytes, ret);
    case HS__FORMAT_CONLLU:
        return block_find(record, n_bytes, ret);
    case HS__FORMAT_FASTA:
        return sequence_find(record, n_bytes, ret);
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
    for (size_t k = 0; k < 2; k++)
        free(value->copies[k]);
    *value = (hs__record_text){0};
}

/* ---- conllu words ----
 *
 * Reads the lines twice: first the words of the text, then the head of each. */

enum { FORM = 1, UPOS = 3, HEAD = 6, DEPREL = 7 };

/* A record being read. Lines are numbered from 1, as its words are. */
typedef struct parse {
    const char *record, *end;
    const hs_text *text;
    size_t at;          /* in the text: bytes before it have been passed */
    uint32_t point;     /* as code points */
    int32_t *surface;   /* [1 + HS__SENTENCE_WORDS_MAX]: the text's word of each word; -1: none */
    hs__sentence *into; /* with HS__SENTENCE_WORDS_MAX words */
} parse;

/* Passes n bytes of the text. */
static void text_pass(parse *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p->point += ((unsigned char)p->text->bytes[p->at + i] & 0xc0) != 0x80;
    p->at += n;
}

/* Finds the form after what has been passed. Returns false if it is not there. */
static bool form_find(parse *p, const hs__conllu_part *form, hs__sentence_word *word)
{
    const char *from = p->text->bytes + p->at;
    const char *found = form->n ? memmem(from, p->text->n_bytes - p->at, form->bytes, form->n) : NULL;
    if (!found)
        return false;
    text_pass(p, (size_t)(found - from));
    word->start = p->point;
    text_pass(p, form->n);
    word->end = p->point;
    return true;
}

/* Adds the word that a line stands for, if it is one of the text. Returns false if that is not possible. */
static bool word_add(parse *p, const hs__conllu_part *line, unsigned long *covered)
{
    hs__conllu_range range;
    if (!conllu_range_read(line, &range) || range.first <= *covered)
        return true;
    const hs__conllu_part form = conllu_column(line, FORM), pos = conllu_column(line, UPOS);
    hs__sentence_word word = {.head = -1, .pos = pos.bytes, .n_pos = pos.n};
    if (range.last < range.first || range.last > HS__SENTENCE_WORDS_MAX || !form_find(p, &form, &word))
        return false;
    for (unsigned long k = range.first; k <= range.last; k++)
        p->surface[k] = (int32_t)p->into->n_words;
    p->into->words[p->into->n_words++] = word;
    *covered = range.last;
    return true;
}

static bool words_read(parse *p)
{
    unsigned long covered = 0;
    for (const char *at = p->record; at < p->end;) {
        const hs__conllu_part line = conllu_line_take(&at, p->end);
        if (!word_add(p, &line, &covered))
            return false;
    }
    return p->into->n_words > 0;
}

/* Gives a word of the text the head of one of its parts, unless it has one. */
static void head_read(parse *p, const hs__conllu_part *line)
{
    const hs__conllu_part head = conllu_column(line, HEAD), relation = conllu_column(line, DEPREL),
                          pos = conllu_column(line, UPOS);
    hs__conllu_range range;
    unsigned long number;
    if (!conllu_range_read(line, &range) || range.last != range.first ||
        range.first > HS__SENTENCE_WORDS_MAX || p->surface[range.first] < 0)
        return;
    const int32_t at = p->surface[range.first];
    hs__sentence_word *word = &p->into->words[at];
    if (word->n_pos == 1 && *word->pos == '_') { /* a range has none of its own */
        word->pos = pos.bytes;
        word->n_pos = pos.n;
    }
    if (word->head >= 0 || !conllu_number_read(&head, &number) || number == 0 ||
        number > HS__SENTENCE_WORDS_MAX || p->surface[number] < 0 || p->surface[number] == at)
        return;
    word->head = p->surface[number];
    word->relation = relation.bytes;
    word->n_relation = relation.n;
}

hs_status hs__sentence_find(const char *record, size_t n_bytes, const hs_text *text, hs__sentence *ret)
{
    *ret = (hs__sentence){0};
    parse p = {.record = record, .end = record + n_bytes, .text = text, .into = ret};
    ret->words = calloc(HS__SENTENCE_WORDS_MAX, sizeof *ret->words);
    p.surface = malloc((1 + HS__SENTENCE_WORDS_MAX) * sizeof *p.surface);
    if (!ret->words || !p.surface) {
        free(p.surface);
        return HS_NO_MEMORY;
    }
    memset(p.surface, -1, (1 + HS__SENTENCE_WORDS_MAX) * sizeof *p.surface);
    const bool found = words_read(&p);
    for (const char *at = record; found && at < p.end;) {
        const hs__conllu_part line = conllu_line_take(&at, p.end);
        head_read(&p, &line);
    }
    free(p.surface);
    return found ? HS_OK : HS_NOT_FOUND;
}

void hs__sentence_finish(hs__sentence *sentence)
{
    free(sentence->words);
    *sentence = (hs__sentence){0};
}
