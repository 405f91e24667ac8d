/* test_base.c - what the server prints, logs, reads of the machine, and takes for a model's name. */
#include "server/base/catalog.h"
#include "server/base/log.h"
#include "server/base/machine.h"
#include "server/base/printable.h"
#include "server/base/system_errors.h"
#include "tests/unit/faults.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { CALLS_MAX = 1000 };

/* ---- text ---- */

static const struct {
    const char *text, *printed;
} printed[] = {
    {"a\x1b[0m", "a\\u001b[0m"},            /* a control of ASCII */
    {"\x7f", "\\u007f"},                    /* DEL */
    {"\xc2\x80\xc2\x9f", "\\u0080\\u009f"}, /* the first and the last of C1 */
    {"\xc2\xa0\xc3\xa9", "\xc2\xa0\xc3\xa9"},
    {"\xd8\x9c", "\\u061c"},
    {"\xe2\x80\x8d\xe2\x80\x8e", "\xe2\x80\x8d\\u200e"}, /* a joiner stays */
    {"\xe2\x80\xa7\xe2\x80\xa8\xe2\x80\xae\xe2\x80\xaf", "\xe2\x80\xa7\\u2028\\u202e\xe2\x80\xaf"},
    {"\xe2\x81\xa9\xe2\x81\xaa", "\\u2069\xe2\x81\xaa"},
    {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"}, /* four bytes */
    {"\xc2", "\xc2"},                         /* cut characters */
    {"\xe2\x80", "\xe2\x80"},
    {"\xe2\xc0\xae", "\xe2\xc0\xae"},
    {"\xc2z", "\xc2z"},
};

START_TEST(characters_that_terminals_obey_are_escaped)
{
    char out[64];
    for (size_t k = 0; k < sizeof printed / sizeof *printed; k++)
        ck_assert_str_eq(hs__printable(printed[k].text, out, sizeof out), printed[k].printed);
    ck_assert_uint_eq(hs__unprintable("\xe2\x80\xae"), 3);
    ck_assert_uint_eq(hs__unprintable("a"), 0);
    ck_assert_uint_eq(hs__unprintable(""), 0);
    /* Each character needs space for an escape and the end. */
    ck_assert_str_eq(hs__printable_bytes("a\0b", 3, out, sizeof out), "a\\u0000b");
    ck_assert_str_eq(hs__printable("ab", out, 7), "a");
    ck_assert_str_eq(hs__printable("ab", out, 6), "");
    ck_assert_str_eq(hs__printable("\x1b\x1b", out, 12), "\\u001b");
}
END_TEST

/* Reads a file from its beginning. */
static const char *content(FILE *file)
{
    static char text[16384];
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    return text;
}

START_TEST(a_message_ends_with_its_own_line_ends)
{
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    hs__print(file, "%s", "a\x1b\nb\n\n");
    ck_assert_str_eq(content(file), "a\\u001b\\u000ab\n\n");
    fclose(file);
}
END_TEST

/* ---- log ---- */

/* Logs two lines into a file in place of stderr. */
static const char *logged(bool json)
{
    static char longest[2000];
    memset(longest, 'x', sizeof longest - 1);
    const hs_log_field fields[] = {{.name = "path", .text = "/a\"\n\xc3"}, {.name = "n", .number = 3},
                                   {.name = "ms", .number = 1.25},         {.name = "one", .text = longest},
                                   {.name = "two", .text = longest},       {.name = "three", .text = longest},
                                   {.name = "four", .text = longest},      {.name = "last", .number = -1}};
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    const int was = dup(STDERR_FILENO);
    ck_assert_int_ge(dup2(fileno(file), STDERR_FILENO), 0);
    hs__log_start(json);
    hs__log("warning", "%d \"\n", 7);
    hs__log_fields("done", fields, sizeof fields / sizeof *fields);
    hs__log_start(false);
    ck_assert_int_ge(dup2(was, STDERR_FILENO), 0);
    close(was);
    const char *text = content(file);
    fclose(file);
    return text;
}

START_TEST(a_line_has_its_fields_and_no_other_line)
{
    const uint64_t dropped = hs__log_dropped();
    const char *text = logged(false);
    ck_assert_ptr_nonnull(strstr(text, "Z warning 7 \"\\u000a\n"));
    ck_assert_ptr_nonnull(strstr(text, "Z info done path=/a\\u0022\\u000a\\u00c3 n=3 ms=1.250 one=xxx"));
    ck_assert_ptr_null(strstr(text, "four=")); /* fields that do not fit are left out */
    ck_assert_ptr_nonnull(strstr(text, "xx last=-1\n"));
    text = logged(true);
    ck_assert_ptr_nonnull(
        strstr(text, "Z\",\"level\":\"warning\",\"message\":\"7 \\u0022\\u000a\"}\n{\"time\":\""));
    ck_assert_ptr_nonnull(strstr(text, "\"message\":\"done\",\"path\":\"/a\\u0022\\u000a\\u00c3\",\"n\":3,"
                                       "\"ms\":1.250,\"one\":\"xxx"));
    ck_assert_ptr_nonnull(strstr(text, "xx\",\"last\":-1}\n"));
    ck_assert_uint_eq(hs__log_dropped(), dropped);
}
END_TEST

START_TEST(a_line_that_cannot_be_written_is_counted)
{
    const int was = dup(STDERR_FILENO);
    const uint64_t dropped = hs__log_dropped();
    close(STDERR_FILENO);
    hs__log("info", "lost");
    ck_assert_int_eq(dup2(was, STDERR_FILENO), STDERR_FILENO);
    close(was);
    ck_assert_uint_eq(hs__log_dropped(), dropped + 1);
}
END_TEST

/* ---- machine ---- */

START_TEST(files_of_the_machine_that_cannot_be_read_are_left_out)
{
    bool failed = true;
    const uint64_t limit = hs__memory_limit();
    ck_assert_uint_gt(limit, 0);
    ck_assert_uint_le(hs__memory_available(), limit);
    ck_assert_uint_gt(hs__memory_available(), 0);
    for (size_t nth = 0; failed; nth++) {
        ck_assert_uint_lt(nth, CALLS_MAX);
        faults_begin(nth, EACCES);
        const size_t cores = hs__cores_usable();
        failed = faults_end();
        ck_assert_uint_ge(cores, 1);
    }
    failed = true;
    for (size_t nth = 0; failed; nth++) {
        ck_assert_uint_lt(nth, CALLS_MAX);
        faults_begin(nth, EACCES);
        const uint64_t found = hs__memory_limit();
        failed = faults_end();
        ck_assert_uint_ge(found, limit); /* the machine's memory is known without a file, too */
    }
    failed = true;
    for (size_t nth = 0; failed; nth++) {
        ck_assert_uint_lt(nth, CALLS_MAX);
        faults_begin(nth, EACCES);
        const uint64_t found = hs__memory_available();
        failed = faults_end();
        ck_assert(nth || found == 0); /* a group whose use cannot be read counts as full */
    }
}
END_TEST

/* ---- models ---- */

/* Adds a value to no models. */
static hs_status added(const char *value, hs_catalog_options *ret, hs_error *err)
{
    *ret = (hs_catalog_options){0};
    return hs__catalog_add(ret, value, err);
}

START_TEST(a_list_names_models_and_their_folders)
{
    hs_catalog_options options;
    hs_error err = {0};
    ck_assert_int_eq(
        added("one=/tmp," HS_EMBEDDED_NAME ",two=" HS_EMBEDDED_NAME ",org/three", &options, &err), HS_OK);
    ck_assert_uint_eq(hs__catalog_places(&options), 4);
    ck_assert_str_eq(hs__catalog_place(&options, 0)->name, "one");
    ck_assert_uint_eq(hs__catalog_place(&options, 0)->n_dir, 4);
    ck_assert_uint_eq(hs__catalog_place(&options, 1)->n_dir, 0);
    ck_assert_uint_eq(hs__catalog_place(&options, 2)->n_dir, 0);
    ck_assert_uint_eq(hs__catalog_find(&options, "two"), 2);
    ck_assert_uint_eq(hs__catalog_find(&options, "three"), 3);
    ck_assert_uint_eq(hs__catalog_find(&options, "four"), SIZE_MAX);
    options = (hs_catalog_options){0};
    ck_assert_uint_eq(hs__catalog_places(&options), 1);
    ck_assert_uint_eq(hs__catalog_find(&options, HS_EMBEDDED_NAME), 0);
}
END_TEST

START_TEST(a_list_that_names_no_model_is_refused)
{
    static const char *const wrong[] = {"", ",", "one=/tmp,", "=/tmp", "one="};
    hs_catalog_options options;
    char name[HS_MODEL_NAME_BYTES + 8];
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        hs_error err = {0};
        ck_assert_int_eq(added(wrong[k], &options, &err), HS_INVALID);
        ck_assert_ptr_nonnull(strstr(err.text, "expected a folder"));
    }
    memset(name, 'n', sizeof name);
    memcpy(name + HS_MODEL_NAME_BYTES - 1, "=/tmp", 6);
    ck_assert_int_eq(added(name, &options, NULL), HS_OK);
    memcpy(name + HS_MODEL_NAME_BYTES, "=/tmp", 6);
    name[HS_MODEL_NAME_BYTES - 1] = 'n';
    ck_assert_int_eq(added(name, &options, NULL), HS_INVALID);
    options = (hs_catalog_options){0};
    for (size_t k = 0; k < HS_CATALOG_MAX; k++)
        ck_assert_int_eq(hs__catalog_add(&options, "/tmp", NULL), HS_OK);
    ck_assert_int_eq(hs__catalog_add(&options, "/tmp", NULL), HS_TOO_LARGE);
    ck_assert_uint_eq(options.n_places, HS_CATALOG_MAX);
}
END_TEST

START_TEST(a_tokenizer_belongs_to_the_folder_before_it)
{
    hs_catalog_options options;
    hs_error err = {0};
    options = (hs_catalog_options){0};
    ck_assert_int_eq(hs__catalog_set_tokenizer(&options, "/tmp", &err), HS_INVALID);
    ck_assert_int_eq(added(HS_EMBEDDED_NAME, &options, NULL), HS_OK);
    ck_assert_int_eq(hs__catalog_set_tokenizer(&options, "/tmp", &err), HS_INVALID);
    ck_assert_int_eq(added("/tmp", &options, NULL), HS_OK);
    ck_assert_int_eq(hs__catalog_set_tokenizer(&options, "", &err), HS_INVALID);
    ck_assert_int_eq(hs__catalog_set_tokenizer(&options, "/tmp", &err), HS_OK);
    ck_assert_str_eq(options.places[0].tokenizer, "/tmp");
    options = (hs_catalog_options){.tokenizer = "/"};
    ck_assert_int_eq(hs__catalog_choose(&options, "/tmp", &err), HS_OK);
    ck_assert_str_eq(options.places[0].tokenizer, "/");
    ck_assert_ptr_null(options.tokenizer);
    options.tokenizer = "/";
    ck_assert_int_eq(hs__catalog_choose(&options, "=", &err), HS_INVALID);
    ck_assert_uint_eq(options.n_places, 0);
    ck_assert_ptr_null(options.tokenizer);
}
END_TEST

START_TEST(a_model_that_is_not_there_is_named)
{
    static char longest[PATH_MAX + 10], dir[PATH_MAX];
    hs_error err = {0};
    hs_model *model = NULL;
    memset(longest, 'a', sizeof longest - 1);
    hs_model_place place = {.dir = longest, .n_dir = PATH_MAX};
    ck_assert_int_eq(hs__model_place_dir(&place, dir, &err), HS_INVALID);
    err = (hs_error){0};
    place = (hs_model_place){.dir = "/there/is/none", .n_dir = 14};
    ck_assert_int_eq(hs__model_place_dir(&place, dir, &err), HS_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.text, "'/there/is/none'"));
    ck_assert_int_eq(hs__model_place_open(&place, &model, &err), HS_NOT_FOUND);
    err = (hs_error){0};
    place = (hs_model_place){.dir = "/tmp", .n_dir = 4, .tokenizer = "/there/is/none"};
    ck_assert_int_eq(hs__model_place_open(&place, &model, &err), HS_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(err.text, "--tokenizer: there is no folder '/there/is/none'"));
    ck_assert_ptr_null(model);
}
END_TEST

/* ---- errors of the system ---- */

START_TEST(an_error_names_the_limit_that_caused_it)
{
    struct rlimit before, few;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = (struct rlimit){77, before.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
    const char *text = hs__errno_text(EMFILE);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    ck_assert_str_eq(text, "Too many open files (this process is limited to 77 descriptors: ulimit -n)");
    ck_assert_str_eq(hs__errno_text(EIO), strerror(EIO));
    ck_assert_int_eq(hs__errno_status(EMFILE), HS_NO_MEMORY);
    ck_assert_int_eq(hs__errno_status(EFBIG), HS_NO_SPACE);
    ck_assert_int_eq(hs__errno_status(EDQUOT), HS_NO_SPACE);
    ck_assert_int_eq(hs__errno_status(EIO), HS_IO);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base");
    TCase *tests = tcase_create("base");
    tcase_add_test(tests, characters_that_terminals_obey_are_escaped);
    tcase_add_test(tests, a_message_ends_with_its_own_line_ends);
    tcase_add_test(tests, a_line_has_its_fields_and_no_other_line);
    tcase_add_test(tests, a_line_that_cannot_be_written_is_counted);
    tcase_add_test(tests, an_error_names_the_limit_that_caused_it);
    tcase_add_test(tests, files_of_the_machine_that_cannot_be_read_are_left_out);
    tcase_add_test(tests, a_list_names_models_and_their_folders);
    tcase_add_test(tests, a_list_that_names_no_model_is_refused);
    tcase_add_test(tests, a_tokenizer_belongs_to_the_folder_before_it);
    tcase_add_test(tests, a_model_that_is_not_there_is_named);
    suite_add_tcase(suite, tests);
    return tests_run(suite);
}
