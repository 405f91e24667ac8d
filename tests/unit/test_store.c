/* test_store.c - stores of a run's rows: what a commit keeps, and what is left after a failure. */
#include "server/base/database.h"
#include "tests/unit/chaos.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ADD, STATEMENTS };

static const char *const statements[STATEMENTS] = {[ADD] = "INSERT INTO numbers VALUES (?)"};
static const hs__database_kind kind = {.schema = "CREATE TABLE numbers(number INTEGER PRIMARY KEY);"};

static char dir[] = "/tmp/headscope-store-XXXXXX", path[64];
static hs__store store;

static hs_status store_open(hs_error *err)
{
    return hs__store_open(path, HS__DATABASE_CREATE, &kind, statements, STATEMENTS, "the numbers failed",
                          &store, err);
}

static void setup(void)
{
    chaos_sqlite();
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/numbers.sqlite", dir);
    ck_assert_int_eq(store_open(NULL), HS_OK);
}

static void teardown(void)
{
    char command[100];
    hs__store_close(&store);
    snprintf(command, sizeof command, "rm -r %s", dir);
    ck_assert_int_eq(system(command), 0);
}

static void number_add(int number)
{
    sqlite3_bind_int(store.statements[ADD], 1, number);
    hs__store_step(&store, ADD);
}

/* Returns the number of rows that another connection sees. */
static uint64_t rows_after_reopening(void)
{
    hs__store_close(&store);
    ck_assert_int_eq(store_open(NULL), HS_OK);
    return hs__store_number(&store, "SELECT count(*) FROM numbers");
}

START_TEST(a_store_keeps_what_was_committed)
{
    number_add(1);
    number_add(2);
    hs__store_commit(&store);
    number_add(3);
    ck_assert_uint_eq(hs__store_number(&store, "SELECT count(*) FROM numbers"), 3);
    ck_assert_int_eq(hs__store_outcome(&store, NULL), HS_OK);
    ck_assert_uint_eq(rows_after_reopening(), 2);
}
END_TEST

START_TEST(the_first_failure_is_the_outcome_and_ends_all_writing)
{
    hs_error err = {0};
    number_add(1);
    hs__store_commit(&store);
    number_add(1); /* the key is taken */
    number_add(2);
    hs__store_run(&store, "a statement that is none");
    hs__store_commit(&store);
    ck_assert_int_eq(hs__store_outcome(&store, &err), HS_IO);
    ck_assert_str_eq(err.text, "the numbers failed: constraint failed");
    ck_assert_ptr_null(hs__store_query(&store, store.db, "SELECT number FROM numbers"));
    ck_assert(!hs__store_next(&store, NULL));
    ck_assert_uint_eq(rows_after_reopening(), 1);
}
END_TEST

START_TEST(queries_read_rows_until_the_last)
{
    int sum = 0;
    for (int k = 1; k <= 4; k++)
        number_add(k);
    sqlite3_stmt *query = hs__store_query(&store, store.db, "SELECT number FROM numbers");
    while (hs__store_next(&store, query))
        sum += sqlite3_column_int(query, 0);
    sqlite3_finalize(query);
    ck_assert_int_eq(sum, 10);
    ck_assert_int_eq(hs__store_outcome(&store, NULL), HS_OK);
}
END_TEST

/* Statuses of failures. errno is what an earlier call left. */
static const struct {
    int code, left;
    hs_status status;
} failures[] = {
    {SQLITE_FULL, 0, HS_NO_SPACE},
    {SQLITE_NOMEM, 0, HS_NO_MEMORY},
    {SQLITE_CORRUPT, 0, HS_INVALID},
    {SQLITE_INTERRUPT, 0, HS_INVALID},
    {SQLITE_IOERR, 0, HS_IO},
    {SQLITE_IOERR_FSYNC, 0, HS_IO},
    {SQLITE_IOERR, ENOMEM, HS_NO_MEMORY},
    {SQLITE_CANTOPEN, EMFILE, HS_NO_MEMORY},
    {SQLITE_BUSY, ENOMEM, HS_IO},
    {SQLITE_READONLY, ENOSPC, HS_IO},
};
enum { N_FAILURES = sizeof failures / sizeof *failures };

START_TEST(a_failure_has_a_status)
{
    hs__store_note(&store, SQLITE_ROW);
    hs__store_note(&store, SQLITE_DONE);
    ck_assert_int_eq(hs__store_outcome(&store, NULL), HS_OK);
    errno = failures[_i].left;
    hs__store_note(&store, failures[_i].code);
    hs__store_note(&store, SQLITE_MISUSE);
    ck_assert_int_eq(hs__store_outcome(&store, NULL), failures[_i].status);
}
END_TEST

START_TEST(a_file_that_is_no_database_is_not_opened)
{
    hs_error err = {0};
    hs__store_close(&store);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    for (int k = 0; k < 1000; k++)
        fputs("no database", file);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(store_open(&err), HS_INVALID);
    ck_assert_msg(strncmp(err.text, "the numbers failed: ", 20) == 0, "%s", err.text);
}
END_TEST

/* Opens the store, adds a number, and reads how many there are. */
static hs_status number_keep(uint64_t *ret_n, hs_error *err)
{
    hs_status st = store_open(err);
    *ret_n = 0;
    if (!st) {
        number_add(1);
        hs__store_commit(&store);
        *ret_n = hs__store_number(&store, "SELECT count(*) FROM numbers");
        st = hs__store_outcome(&store, err);
    }
    hs__store_close(&store);
    return st;
}

/* Removes the store's file. */
static void file_remove(void)
{
    if (unlink(path))
        ck_assert_int_eq(errno, ENOENT);
}

/* A sound file is never called damaged for lack of memory, neither a new one nor one that is opened again. */
START_TEST(a_store_is_written_or_says_that_memory_is_short)
{
    const bool again = _i > 0;
    uint64_t n;
    bool refused = true;
    hs__store_close(&store);
    const size_t live = chaos_live();
    for (size_t nth = 0; refused; nth += 1 + nth / 64) {
        hs_error err = {0};
        file_remove();
        if (again) {
            ck_assert_int_eq(store_open(NULL), HS_OK);
            hs__store_close(&store);
        }
        chaos_refuse(nth);
        const hs_status st = number_keep(&n, &err);
        refused = chaos_stop();
        ck_assert_msg(st == HS_OK || (refused && st == HS_NO_MEMORY), "allocation %zu: status %d, %s", nth,
                      (int)st, err.text);
        ck_assert_msg(st || n == 1, "allocation %zu: %llu rows", nth, (unsigned long long)n);
        ck_assert_msg(!st || strstr(err.text, "memory"), "allocation %zu: %s", nth, err.text);
        ck_assert_msg(chaos_live() == live, "allocation %zu: something leaked", nth);
    }
    ck_assert_int_eq(store_open(NULL), HS_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store");
    TCase *tests = tcase_create("store");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_store_keeps_what_was_committed);
    tcase_add_test(tests, the_first_failure_is_the_outcome_and_ends_all_writing);
    tcase_add_test(tests, queries_read_rows_until_the_last);
    tcase_add_loop_test(tests, a_failure_has_a_status, 0, N_FAILURES);
    tcase_add_test(tests, a_file_that_is_no_database_is_not_opened);
    tcase_add_loop_test(tests, a_store_is_written_or_says_that_memory_is_short, 0, 2);
    suite_add_tcase(suite, tests);
    return tests_run(suite);
}
