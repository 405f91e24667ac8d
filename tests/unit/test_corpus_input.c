/* test_corpus_input.c - rows of CSV and TSV: what a stream of records makes of quotation marks, sound and
 * broken, in pieces of any size. */
#include "model/base/bytes.h"
#include "server/corpus/input/input.h"
#include "server/corpus/input/records.h"
#include "server/corpus/input/text_format.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char because_of_quotes[] = "a quotation mark that is not closed";

/* Returns the path of a file in memory with these bytes. */
static const char *file_of(const char *bytes, size_t n)
{
    static char path[64];
    static int fd = -1;
    if (fd >= 0)
        close(fd);
    fd = memfd_create("rows", MFD_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    for (size_t at = 0; at < n;) {
        const ssize_t written = write(fd, bytes + at, n - at);
        ck_assert_int_gt(written, 0);
        at += (size_t)written;
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return path;
}

/* ---- small files ---- */

typedef struct rows {
    const char *input;
    bool no_quotes;
    const char *read; /* "line: text" of each record, "line! reason" of bad ones */
} rows;

static const rows cases[] = {
    {"id,text\n1,one\n2,\"t,w\"\"o\"\n", false, "2: one|3: t,w\"o"},
    {"id,text\n1,\"two\nlines\"\n2,b\n", false, "2: two\nlines|4: b"},
    {"id,text\r\n1,\"two\r\nlines\"\r\n2,b\r\n", false, "2: two\r\nlines|4: b"},
    {"text,id\n\"two\nlines\",1\nb,2\n", false, "2: two\nlines|4: b"},
    {"id,text\n1,5\" pipe\n2,b\n", false, "2: 5\" pipe|3: b"},
    /* not closed: up to the file's end, up to the next quoted field, in the last line */
    {"id,text\n1,\"open\n2,b\n3,c\n", false, "2! quotes|3: b|4: c"},
    {"id,text\n1,\"open\n2,b\n3,c", false, "2! quotes|3: b|4: c"},
    {"id,text\n1,\"open\n2,b\n3,\"c\"\n4,d\n", false, "2! quotes|3: b|4: c|5: d"},
    {"id,text\n1,a\n2,\"open", false, "2: a|3! quotes"},
    {"id,text\n1,a\n2,\"open\n", false, "2: a|3! quotes"},
    /* one after the other, and one behind a sound field of two lines */
    {"id,text\n1,\"open\n2,\"open\n3,\"open\n4,d\n", false, "2! quotes|3! quotes|4! quotes|5: d"},
    {"id,text,more\n1,\"two\nlines\",\"open\n2,b,\n3,c,\n", false, "2: two\nlines|4: b|5: c"},
    /* closed too early, as Spark's \" does */
    {"id,text\n1,\"he said \\\"no\\\" twice\"\n2,b\n", false, "2! quotes|3: b"},
    {"id,text\n1,\"one\nhe \"said\" so\"\n2,b\n", false, "2! quotes|3! fields|4: b"},
    {"id\ttext\n1\t\"open\n2\tb\n", false, "2! quotes|3: b"},
    {"id,text\n1,\"open\n2,\"b\"\n3,5\" pipe\n", true, "2: \"open|3: \"b\"|4: 5\" pipe"},
};

static void record_append(const hs__record *line, const hs__input_format *given, char *ret, size_t size)
{
    hs__record_text value;
    const size_t n = strlen(ret);
    const hs_status st = hs__record_text_find(&line->layout, given, line->bytes, line->n_bytes, &value);
    ck_assert(st == HS_OK || st == HS_BAD_REQUEST);
    snprintf(ret + n, size - n, "%s%llu%s %.*s", n ? "|" : "", (unsigned long long)line->line, st ? "!" : ":",
             st ? 6 : (int)value.text.n_bytes,
             !st                                        ? value.text.bytes
             : strstr(value.why, because_of_quotes)     ? "quotes"
             : strstr(value.why, "the text is in numb") ? "fields"
                                                        : value.why);
    hs__record_text_finish(&value);
}

START_TEST(a_broken_field_costs_its_own_line)
{
    const rows *c = &cases[_i];
    const hs__input_format format = {.format = strchr(c->input, '\t') ? HS__FORMAT_TSV : HS__FORMAT_CSV,
                                     .no_quotes = c->no_quotes};
    const char *path = file_of(c->input, strlen(c->input));
    hs__record_stream *stream;
    hs__record line;
    char read[1000] = "";
    ck_assert_int_eq(hs__record_stream_open(&path, 1, &format, NULL, &stream, NULL), HS_OK);
    while (hs__record_stream_next(stream, &line, NULL) == HS_OK && line.bytes)
        record_append(&line, &format, read, sizeof read);
    ck_assert_str_eq(read, c->read);
    hs__record_stream_close(stream);
}
END_TEST

/* JSON records with a text, words, a second text, or a target that no run reads. */
static const struct {
    const char *record, *field, *pair_field, *text, *pair, *why; /* text NULL: refused; pair NULL: none */
} objects[] = {
    {"{\"text\":\"a b\"}", "", "", "a b", NULL, NULL},
    {"{\"tokens\":[\"The\",\"old\",\".\"]}", "", "", "The old .", NULL, NULL},
    {"{\"tokens\":[]}", "", "", "", NULL, NULL},
    {"{\"words\":[\"a\",\"\",\"b\"]}", "words", "", "a  b", NULL, NULL},
    {"{\"in\":{\"words\":[\"a\\u0000\"]}}", "in.words", "", "a", NULL, NULL},
    {"{\"text\":\"a\",\"tokens\":[\"b\"]}", "", "", "a", NULL, NULL},
    /* Tables by columns. */
    {"{\"text\":[\"a b\",\"c d\"]}", "", "", NULL, NULL, "element 0 of the list text would be a word"},
    {"{\"text\":[\"a\",\"b\"]}", "", "", NULL, NULL, "element 0 of the list text would be a word"},
    {"{\"text\":[\"a\",\"b\"]}", "text", "", "a b", NULL, NULL},
    {"{\"text\":[\"a\",\"b c\"]}", "text", "", NULL, NULL, "element 1 of text is no word"},
    {"{\"tokens\":[\"a\\tb\"]}", "", "", NULL, NULL, "element 0 of tokens is no word"},
    {"{\"tokens\":[[\"a\"],[\"b\"]]}", "", "", NULL, NULL, "element 0 of tokens is no string"},
    {"{\"text\":\"a\",\"text_pair\":[\"b\"]}", "", "", NULL, NULL,
     "element 0 of the list text_pair would be a word"},
    {"{\"text\":\"a\",\"q\":[\"b\",\"c d\"]}", "", "q", NULL, NULL, "element 1 of q is no word"},
    {"{\"text\":\"a\",\"q\":[\"b\",\"c\"]}", "", "q", "a", "b c", NULL},
    {"{\"tokens\":[\"a\",3]}", "", "", NULL, NULL, "element 1 of tokens is no string"},
    {"{\"tokens\":\"a\"}", "words", "", NULL, NULL, "an object without a words"},
    {"{\"messages\":[{\"role\":\"user\"}]}", "", "", NULL, NULL,
     "messages, not rendered: put apply_chat_template(messages, tokenize=False) into text"},
    {"{\"messages\":[],\"prompt\":\"a b\"}", "said", "", NULL, NULL,
     "messages, not rendered: put apply_chat_template(messages, tokenize=False) into said"},
    {"{\"text\":\"a\",\"text_pair\":\"b c\"}", "", "", "a", "b c", NULL},
    {"{\"tokens\":[\"a\"],\"text_pair\":[\"b\",\"c\"]}", "", "", "a", "b c", NULL},
    {"{\"text\":\"a\",\"text_pair\":\"\"}", "", "", "a", "", NULL},
    {"{\"text\":\"a\",\"text_pair\":null}", "", "", "a", NULL, NULL},
    {"{\"text\":\"a\",\"text_pair\":7}", "", "", NULL, NULL, "no second text: text_pair must be a string"},
    {"{\"text\":\"a\",\"text_pair\":[7]}", "", "", NULL, NULL, "element 0 of text_pair is no string"},
    {"{\"text\":\"a\",\"text_pair\":\"b\"}", "text", "", "a", NULL, NULL},
    {"{\"text\":\"a\",\"text_pair\":\"b\"}", "text_pair", "", "b", NULL, NULL},
    {"{\"q\":\"a\",\"in\":{\"p\":\"b\"}}", "q", "in.p", "a", "b", NULL},
    {"{\"text\":\"a\",\"text_pair\":\"b\"}", "", "p", NULL, NULL, "no second text: p must be a string"},
    {"\"a\"", "", "p", NULL, NULL, "no second text: p must be a string"},
    {"{\"text\":\"a\",\"text_target\":\"b\"}", "", "", NULL, NULL, "text_target is not read by runs"},
    {"{\"text\":\"a\",\"text_target\":\"b\"}", "text", "", "a", NULL, NULL},
};

static void text_check(const hs_text *text, const char *expected, const char *record)
{
    ck_assert_mem_eq(text->bytes, expected, strlen(expected));
    if (!strstr(record, "u0000"))
        ck_assert_uint_eq(text->n_bytes, strlen(expected));
}

START_TEST(objects_hold_texts_or_words)
{
    const hs__record_layout layout = {.format = HS__FORMAT_JSONL};
    hs__input_format given = {0};
    hs__record_text value;
    snprintf(given.field, sizeof given.field, "%s", objects[_i].field);
    snprintf(given.pair_field, sizeof given.pair_field, "%s", objects[_i].pair_field);
    const hs_status st =
        hs__record_text_find(&layout, &given, objects[_i].record, strlen(objects[_i].record), &value);
    ck_assert_int_eq(st, objects[_i].text ? HS_OK : HS_BAD_REQUEST);
    if (st)
        ck_assert_msg(strstr(value.why, objects[_i].why) == value.why, "%s", value.why);
    else
        text_check(&value.text, objects[_i].text, objects[_i].record);
    if (!st && objects[_i].pair)
        text_check(&value.pair, objects[_i].pair, objects[_i].record);
    else if (!st)
        ck_assert_ptr_null(value.pair.bytes);
    hs__record_text_finish(&value);
}
END_TEST

START_TEST(pieces_of_any_size_give_the_same_rows)
{
    const rows *c = &cases[_i];
    const hs__record_layout layout = {.format = HS__FORMAT_CSV,
                                      .csv = {strchr(c->input, '\t') ? '\t' : ',', c->no_quotes ? 0 : '"'}};
    hs__splitter whole, bytewise;
    const size_t n = strlen(c->input);
    hs__splitter_init(&whole, &layout);
    hs__splitter_init(&bytewise, &layout);
    for (size_t at = 0; at < n;) {
        const hs__record_piece piece = hs__splitter_next(&whole, c->input + at, n - at);
        for (size_t i = 0; i < piece.n_passed; i++) {
            const hs__record_piece one = hs__splitter_next(&bytewise, c->input + at + i, 1);
            const bool last = i + 1 == piece.n_passed;
            ck_assert(one.ended == (piece.ended && last));
            ck_assert_uint_eq(one.n_broken, last ? piece.n_broken : 0);
        }
        at += piece.n_broken ? piece.n_broken + 1 : piece.n_passed;
    }
    ck_assert_uint_eq(hs__splitter_end(&whole), hs__splitter_end(&bytewise));
}
END_TEST

/* ---- large ones ---- */

/* Returns the number of records of a file of n lines, and those of them that are bad. */
static size_t records_count(const char *bytes, size_t n, size_t *ret_bad)
{
    const hs__input_format format = {.format = HS__FORMAT_CSV};
    const char *path = file_of(bytes, n);
    hs__record_stream *stream;
    hs__record line;
    size_t n_records = 0;
    *ret_bad = 0;
    ck_assert_int_eq(hs__record_stream_open(&path, 1, &format, NULL, &stream, NULL), HS_OK);
    while (hs__record_stream_next(stream, &line, NULL) == HS_OK && line.bytes) {
        hs__record_text value;
        ck_assert_uint_eq(line.line, ++n_records + 1);
        ck_assert_uint_eq(line.n_lines, 1);
        *ret_bad +=
            hs__record_text_find(&line.layout, &format, line.bytes, line.n_bytes, &value) == HS_BAD_REQUEST;
        hs__record_text_finish(&value);
    }
    hs__record_stream_close(stream);
    return n_records;
}

START_TEST(a_field_without_an_end_is_bounded)
{
    static const char header[] = "id,text\n1,\"open\n", row[] = "2,the river flows past the town\n";
    const size_t n_rows = 3 * HS__RECORD_BYTES_MAX / (sizeof row - 1);
    const size_t n = sizeof header - 1 + n_rows * (sizeof row - 1);
    char *bytes = malloc(n);
    size_t n_bad;
    ck_assert_ptr_nonnull(bytes);
    memcpy(bytes, header, sizeof header - 1);
    for (size_t i = 0; i < n_rows; i++)
        memcpy(bytes + sizeof header - 1 + i * (sizeof row - 1), row, sizeof row - 1);
    ck_assert_uint_eq(records_count(bytes, n, &n_bad), n_rows + 1);
    ck_assert_uint_eq(n_bad, 1);
    free(bytes);
}
END_TEST

START_TEST(a_line_end_at_the_bound_is_survived)
{
    static const char header[] = "id,text\n", open[] = "1,\"", next[] = "\n2,b\n";
    for (size_t extra = 0; extra < 5; extra++) { /* the line ends around the limit of a record */
        const size_t n_before = sizeof header - 1, n_line = HS__RECORD_BYTES_MAX - 2 + extra;
        const size_t n = n_before + n_line + sizeof next - 1;
        char *bytes = malloc(n);
        size_t n_bad;
        ck_assert_ptr_nonnull(bytes);
        memset(bytes, 'x', n);
        memcpy(bytes, header, n_before);
        memcpy(bytes + n_before, open, sizeof open - 1);
        memcpy(bytes + n_before + n_line, next, sizeof next - 1);
        ck_assert_uint_eq(records_count(bytes, n, &n_bad), 2);
        ck_assert_uint_eq(n_bad, 1);
        free(bytes);
    }
}
END_TEST

/* ---- going on ---- */

/* An input, and why a run that read "a", "b" and "c" of another one does not go on with it; NULL: it does. */
static const struct {
    const char *input, *refusal;
} continued[] = {
    {"a\nb\nc\nd\n", NULL},
    {"a\nb\nc\n", NULL}, /* nothing is left */
    {"a\nb\n", "it has fewer lines than were done"},
    {"a\n\n\nb\n", "it has fewer lines than were done"},
    {"a\nB\nc\nd\n", "the lines that were done read otherwise now"},
    {"a\nB\nc\n", "the lines that were done read otherwise now"},
    {"a\nbb\nc\nd\n", "the lines that were done read otherwise now"},
};

START_TEST(a_run_goes_on_with_the_same_input_only)
{
    const hs__input_format format = {.format = HS__FORMAT_TEXT};
    const char *path = file_of("a\nb\nc\nd\n", 8);
    hs__record_stream *stream = NULL;
    hs__input_position done;
    hs__record line;
    hs_error err = {0};
    ck_assert_int_eq(hs__record_stream_open(&path, 1, &format, NULL, &stream, &err), HS_OK);
    for (size_t k = 0; k < 3; k++)
        ck_assert_int_eq(hs__record_stream_next(stream, &line, &err), HS_OK);
    hs__record_stream_position(stream, &done);
    hs__record_stream_close(stream);
    path = file_of(continued[_i].input, strlen(continued[_i].input));
    ck_assert_int_eq(hs__record_stream_open(&path, 1, &format, NULL, &stream, &err), HS_OK);
    const hs_status st = hs__record_stream_skip(stream, &done, &err);
    ck_assert_int_eq(st, continued[_i].refusal ? HS_INVALID : HS_OK);
    if (continued[_i].refusal)
        ck_assert_msg(strstr(err.text, continued[_i].refusal), "%s", err.text);
    hs__record_stream_close(stream);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("corpus input");
    TCase *tc = tcase_create("corpus input");
    tcase_add_loop_test(tc, a_broken_field_costs_its_own_line, 0, sizeof cases / sizeof *cases);
    tcase_add_loop_test(tc, objects_hold_texts_or_words, 0, sizeof objects / sizeof *objects);
    tcase_add_loop_test(tc, pieces_of_any_size_give_the_same_rows, 0, sizeof cases / sizeof *cases);
    tcase_add_test(tc, a_field_without_an_end_is_bounded);
    tcase_add_test(tc, a_line_end_at_the_bound_is_survived);
    tcase_add_loop_test(tc, a_run_goes_on_with_the_same_input_only, 0, sizeof continued / sizeof *continued);
    suite_add_tcase(suite, tc);
    return tests_run(suite);
}
