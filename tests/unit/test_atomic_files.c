/* test_atomic_files.c - files are replaced whole or stay, whichever call to the system fails. */
#include "server/base/atomic_files.h"
#include "tests/unit/chaos.h"
#include "tests/unit/checkpoint.h"
#include "tests/unit/faults.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { PAGE = 4096, CONTENT_BYTES = 6 * PAGE, CALLS_MAX = 1000 };

static const char old[] = "the old content";
static char top[64], path[128], content[CONTENT_BYTES];

/* The content has zeros in the middle and at its end. */
static void setup(void)
{
    folder_create(top);
    snprintf(path, sizeof path, "%s/file", top);
    memset(content, 'a', 2 * PAGE);
    memset(content + 4 * PAGE, 'b', PAGE);
}

static void teardown(void)
{
    char command[100];
    snprintf(command, sizeof command, "rm -r %s", top);
    ck_assert_int_eq(system(command), 0);
}

/* Writes the content; its beginning last, as the writer of a zip file does. */
static hs_status content_write(FILE *file, void *data, hs_error *err)
{
    (void)data;
    fwrite(old, 1, sizeof old, file);
    bool ok = fseek(file, 0, SEEK_SET) == 0;
    fwrite(content, 1, CONTENT_BYTES, file);
    ok = ok && fseek(file, -CONTENT_BYTES, SEEK_END) == 0 && fseek(file, 1, SEEK_CUR) == 0;
    fwrite(content + 1, 1, 1, file);
    return ok ? HS_OK : hs_fail(err, HS_IO, "a place in the file was not found");
}

/* Returns true if the file has these bytes. */
static bool has(const char *bytes, size_t n)
{
    static char found[2 * CONTENT_BYTES];
    FILE *file = fopen(path, "r");
    const size_t n_found = file ? fread(found, 1, sizeof found, file) : 0;
    if (file)
        fclose(file);
    return file && n_found == n && memcmp(found, bytes, n) == 0;
}

/* Returns how many files there are, unfinished ones too. */
static size_t files(void)
{
    size_t n = 0;
    DIR *folder = opendir(top);
    ck_assert_ptr_nonnull(folder);
    for (const struct dirent *entry; (entry = readdir(folder));)
        n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(folder);
    return n;
}

/* ---- ways to write a file ---- */

static hs_status replace(hs_error *err)
{
    return hs__file_replace(top, "file", NULL, content_write, NULL, err);
}

static hs_status write_path(hs_error *err)
{
    return hs__path_write(path, content_write, NULL, err);
}

static hs_status write_stream(hs_error *err)
{
    hs__new_file *file;
    hs_status st = hs__new_file_create(path, false, &file, err);
    if (st)
        return st;
    st = content_write(hs__new_file_stream(file), NULL, err);
    fflush(hs__new_file_stream(file));
    if (!st)
        st = hs__new_file_check(file, err);
    if (!st)
        return hs__new_file_publish(file, err);
    hs__new_file_discard(file);
    return st;
}

static hs_status write_by_path(hs_error *err)
{
    hs__new_file *file;
    const hs_status st = hs__new_file_create(path, true, &file, err);
    if (st)
        return st;
    FILE *out = fopen(hs__new_file_path(file), "w");
    if (!out) {
        hs__new_file_discard(file);
        return hs_fail(err, HS_IO, "the file cannot be opened");
    }
    ck_assert_int_eq(content_write(out, NULL, NULL), HS_OK);
    ck_assert_int_eq(fclose(out), 0);
    return hs__new_file_publish(file, err);
}

static hs_status (*const ways[])(hs_error *err) = {replace, write_path, write_stream, write_by_path};
static const int reasons[] = {ENOSPC, EINTR, EINVAL};
enum { N_WAYS = sizeof ways / sizeof *ways, N_REASONS = sizeof reasons / sizeof *reasons };

/* Removes the file, or makes the old one. */
static void file_prepare(bool exists)
{
    ck_assert(unlink(path) == 0 || errno == ENOENT);
    if (exists) {
        folder_write(top, "file", old, sizeof old);
        ck_assert_int_eq(chmod(path, 0640), 0);
    }
}

/* Writes with the nth call failing. Returns false if there were not so many calls. */
static bool write_once(hs_status (*way)(hs_error *err), bool exists, size_t nth, int reason)
{
    hs_error err = {0};
    file_prepare(exists);
    faults_begin(nth, reason);
    const hs_status st = way(&err);
    const bool failed = faults_end();
    ck_assert_msg(!st || (failed && *err.text), "call %zu: status %d, %s", nth, (int)st, err.text);
    ck_assert_msg(has(content, CONTENT_BYTES) ||
                      (st && (exists ? has(old, sizeof old) : access(path, F_OK) != 0)),
                  "call %zu: neither the old nor the new content; %s", nth, err.text);
    return failed;
}

START_TEST(a_file_is_replaced_or_stays)
{
    hs_status (*const way)(hs_error * err) = ways[_i / 2 % N_WAYS];
    const bool exists = _i % 2;
    const size_t live = chaos_live();
    bool failed = true;
    for (size_t nth = 0; failed; nth++) {
        ck_assert_uint_lt(nth, CALLS_MAX);
        failed = write_once(way, exists, nth, reasons[_i / 2 / N_WAYS]);
        ck_assert_msg(chaos_live() == live, "call %zu: something leaked", nth);
        hs__leftovers_remove(top);
        ck_assert_uint_le(files(), 1);
    }
    ck_assert(has(content, CONTENT_BYTES));
}
END_TEST

/* Makes a null device of the test's own: a fault of the program could replace the machine's, also through a
 * link. A user who may make none, or not open it, gets such a link, but cannot replace the machine's either.
 */
static void device_make(const char *device)
{
    const int fd = mknod(device, S_IFCHR | 0600, makedev(1, 3)) ? -1 : open(device, O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        close(fd);
        return;
    }
    (void)unlink(device);
    ck_assert_int_eq(symlink("/dev/null", device), 0);
}

START_TEST(a_device_is_written_directly)
{
    char device[200];
    struct stat there;
    bool failed = true;
    snprintf(device, sizeof device, "%s/device", top);
    device_make(device);
    for (size_t nth = 0; failed; nth++) {
        hs_error err = {0};
        ck_assert_uint_lt(nth, CALLS_MAX);
        faults_begin(nth, EIO);
        const hs_status st = hs__path_write(device, content_write, NULL, &err);
        failed = faults_end();
        ck_assert_msg(st == HS_OK || (failed && *err.text), "call %zu: %s", nth, err.text);
        ck_assert_msg(stat(device, &there) == 0 && S_ISCHR(there.st_mode), "call %zu: replaced", nth);
    }
    ck_assert_int_eq(unlink(device), 0);
}
END_TEST

START_TEST(folders_are_made_or_the_reason_is_said)
{
    char dir[200], command[300];
    struct stat made;
    bool failed = true;
    snprintf(dir, sizeof dir, "%s/one/two", top);
    snprintf(command, sizeof command, "rm -rf %s/one", top);
    for (size_t nth = 0; failed; nth++) {
        hs_error err = {0};
        ck_assert_uint_lt(nth, CALLS_MAX);
        ck_assert_int_eq(system(command), 0);
        faults_begin(nth, EDQUOT);
        const hs_status st = hs__folder_make(dir, &err);
        failed = faults_end();
        ck_assert_msg(st == HS_OK || (failed && st == HS_NO_SPACE && *err.text), "call %zu: %s", nth,
                      err.text);
        ck_assert(st || (stat(dir, &made) == 0 && S_ISDIR(made.st_mode)));
        ck_assert_int_eq(hs__folder_make(dir, NULL), HS_OK);
    }
}
END_TEST

START_TEST(a_file_that_cannot_be_opened_is_named)
{
    bool failed = true;
    file_prepare(true);
    const size_t live = chaos_live();
    for (size_t nth = 0; failed; nth++) {
        hs_error err = {0};
        uint64_t n_bytes = 0;
        int fd;
        ck_assert_uint_lt(nth, CALLS_MAX);
        faults_begin(nth, EACCES);
        const hs_status st = hs__file_open(path, &fd, &n_bytes, &err);
        failed = faults_end();
        ck_assert_int_eq(st, failed ? HS_IO : HS_OK);
        ck_assert(failed ? fd < 0 && strstr(err.text, path) : fd >= 0 && n_bytes == sizeof old);
        if (fd >= 0)
            close(fd);
        ck_assert_uint_eq(chaos_live(), live);
    }
}
END_TEST

START_TEST(names_of_other_files_are_no_leftovers)
{
    static const char *const kept[] = {
        ".unfinished", ".0123456789abcdef.unfinished", "file.0123456789abcdef.unfinished",
        ".file.0123456789abcdeg.unfinished", ".file-0123456789abcdef.unfinished"};
    const size_t n_kept = sizeof kept / sizeof *kept;
    for (size_t k = 0; k < n_kept; k++)
        folder_write(top, kept[k], old, sizeof old);
    folder_write(top, ".file.0123456789abcdef.unfinished", old, sizeof old);
    hs__leftovers_remove(top);
    ck_assert_uint_eq(files(), n_kept);
    ck_assert_uint_eq(hs__folder_bytes(top), n_kept * sizeof old);
    ck_assert_uint_eq(hs__folder_bytes(path), 0); /* there is no such folder */
}
END_TEST

/* A writer that wrote nothing. */
static hs_status refuse(FILE *file, void *data, hs_error *err)
{
    (void)file;
    (void)data;
    return hs_fail(err, HS_INVALID, "there is nothing to write");
}

START_TEST(a_writer_that_fails_or_is_stopped_leaves_the_old_file)
{
    atomic_int stop = 1;
    hs_error err = {0};
    file_prepare(true);
    ck_assert_int_eq(hs__file_replace(top, "file", NULL, refuse, NULL, &err), HS_INVALID);
    ck_assert_str_eq(err.text, "there is nothing to write");
    ck_assert_int_eq(hs__file_replace(top, "file", &stop, content_write, NULL, &err), HS_CANCELLED);
    hs__new_file_discard(NULL);
    ck_assert(has(old, sizeof old));
    ck_assert_uint_eq(files(), 1);
    stop = 0;
    ck_assert_int_eq(hs__file_replace(top, "file", &stop, content_write, NULL, &err), HS_OK);
    ck_assert(has(content, CONTENT_BYTES));
}
END_TEST

START_TEST(paths_that_no_file_can_have_are_refused)
{
    static char longest[2 * PATH_MAX];
    char pipe_path[200], link_path[200];
    hs__new_file *file;
    hs_error err = {0};
    uint64_t bytes;
    int fd;
    memset(longest, 'a', sizeof longest - 1);
    ck_assert_int_ne(hs__path_write(longest, content_write, NULL, &err), HS_OK);
    ck_assert_int_eq(hs__file_replace(longest, "file", NULL, content_write, NULL, &err), HS_INVALID);
    longest[PATH_MAX - 8] = '\0'; /* with space for the name, but not for that of the unfinished file */
    ck_assert_int_ne(hs__file_replace(longest, "file", NULL, content_write, NULL, &err), HS_OK);
    longest[PATH_MAX - 8] = 'a';
    ck_assert_int_eq(hs__folder_make("", &err), HS_INVALID);
    ck_assert_int_eq(hs__folder_make(longest, &err), HS_INVALID);
    ck_assert(!hs__path_replaces(longest, path));

    err = (hs_error){0};
    file_prepare(true);
    ck_assert_int_eq(hs__folder_make(path, &err), HS_IO);
    ck_assert_ptr_nonnull(strstr(err.text, strerror(ENOTDIR)));
    snprintf(pipe_path, sizeof pipe_path, "%s/pipe", top);
    snprintf(link_path, sizeof link_path, "%s/link", top);
    ck_assert_int_eq(mkfifo(pipe_path, 0600), 0);
    ck_assert_int_eq(symlink("file", link_path), 0);
    ck_assert_int_eq(hs__new_file_create(pipe_path, true, &file, &err), HS_INVALID);
    err = (hs_error){0};
    const char *const others[] = {pipe_path, link_path, top};
    for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
        ck_assert_int_eq(hs__file_open(others[k], &fd, &bytes, &err), HS_IO);
        ck_assert_ptr_nonnull(strstr(err.text, "it is a link, pipe or folder"));
        err = (hs_error){0};
        ck_assert_int_eq(fd, -1);
    }
    snprintf(link_path, sizeof link_path, "%s/none", top);
    ck_assert_int_eq(hs__file_open(link_path, &fd, &bytes, &err), HS_NOT_FOUND);
}
END_TEST

START_TEST(a_path_replaces_itself_only)
{
    char none[200], other[200], elsewhere[200];
    file_prepare(true);
    snprintf(none, sizeof none, "%s/none", top);
    snprintf(other, sizeof other, "%s/../%s/none", top, strrchr(top, '/') + 1);
    snprintf(elsewhere, sizeof elsewhere, "%s/no/none", top);
    ck_assert(hs__path_replaces(path, path));
    ck_assert(!hs__path_replaces(path, top));
    ck_assert(!hs__path_replaces(top, top)); /* a folder cannot be replaced */
    ck_assert(!hs__path_replaces(path, none));
    ck_assert(!hs__path_replaces(none, path));
    ck_assert(hs__path_replaces(none, other));
    ck_assert(!hs__path_replaces(none, elsewhere));
    ck_assert(!hs__path_replaces(elsewhere, none));
    ck_assert_int_eq(chdir(top), 0);
    ck_assert(hs__path_replaces("none", none));
    ck_assert(hs__path_replaces(none, "none"));
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(dup2(fd, STDIN_FILENO), STDIN_FILENO);
    close(fd);
    ck_assert(hs__path_replaces("file", "-"));
    ck_assert_int_eq(hs__path_write("new", content_write, NULL, NULL), HS_OK); /* a name without a folder */
    ck_assert_int_eq(hs__folder_make_above("one/two/file", NULL), HS_OK);
    ck_assert_int_eq(access("one/two", F_OK), 0);
    ck_assert(!hs__file_publish("none", "one/file"));
    ck_assert(!hs__folder_sync("one/none"));
    hs__leftovers_remove("one/none");
    ck_assert_uint_lt(hs__disk_free("one/none"), UINT64_MAX);
    ck_assert_uint_eq(hs__disk_free("none/none"), UINT64_MAX);
    ck_assert_int_eq(chdir("/"), 0);
}
END_TEST

START_TEST(a_file_that_is_being_written_is_no_leftover)
{
    hs__new_file *file;
    ck_assert_int_eq(hs__new_file_create(path, false, &file, NULL), HS_OK);
    hs__leftovers_remove(top);
    ck_assert_uint_eq(files(), 1);
    ck_assert_int_eq(hs__new_file_publish(file, NULL), HS_OK);
    ck_assert(has("", 0));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("atomic_files");
    TCase *tests = tcase_create("atomic_files");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, a_file_is_replaced_or_stays, 0, 2 * N_WAYS * N_REASONS);
    tcase_add_test(tests, a_device_is_written_directly);
    tcase_add_test(tests, folders_are_made_or_the_reason_is_said);
    tcase_add_test(tests, a_file_that_cannot_be_opened_is_named);
    tcase_add_test(tests, names_of_other_files_are_no_leftovers);
    tcase_add_test(tests, a_writer_that_fails_or_is_stopped_leaves_the_old_file);
    tcase_add_test(tests, paths_that_no_file_can_have_are_refused);
    tcase_add_test(tests, a_path_replaces_itself_only);
    tcase_add_test(tests, a_file_that_is_being_written_is_no_leftover);
    suite_add_tcase(suite, tests);
    return tests_run(suite);
}
