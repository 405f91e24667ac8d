/* test_api_npz.c - the .npz writer: the same bytes to memory and to a file, and zip64 beyond 32 bits, which
 * NumPy reads. */
#include "api/formats/arrays.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N ((size_t)1000)

/* Two arrays and a text, the first in pieces. */
static hs_status write_all(hs_npz *npz)
{
    hs_npz_begin(npz, "numbers", "<i8", 2, (size_t[]){N / 10, 10}, 8 * N);
    for (size_t first = 0; first < N; first += 250) {
        int64_t *to = hs_npz_reserve(npz, 8 * 250);
        ck_assert_ptr_nonnull(to);
        for (size_t i = 0; i < 250; i++)
            to[i] = (int64_t)(first + i);
        hs_npz_add(npz, 8 * 250);
    }
    hs_npz_begin(npz, "nothing", "<f8", 1, (size_t[]){0}, 0);
    hs_npz_text(npz, "text", "na\xc3\xafve \xf0\x9f\x98\x80");
    return hs_npz_finish(npz, NULL);
}

static void check_with_numpy(const char *path)
{
    char command[512];
    snprintf(
        command, sizeof command,
        "/usr/bin/python3 -c \"import sys, zipfile, numpy as n; p = sys.argv[1]\n"
        "assert zipfile.ZipFile(p).testzip() is None\n"
        "with n.load(p) as a:\n"
        "  assert sorted(a) == ['nothing', 'numbers', 'text'], sorted(a)\n"
        "  assert (a['numbers'] == n.arange(1000).reshape(100, 10)).all() and a['nothing'].shape == (0,)\n"
        "  assert str(a['text']) == 'na\\u00efve \\U0001f600'\" %s",
        path);
    ck_assert_int_eq(system(command), 0);
}

/* zip64_from: where 32 bits are said to end. */
static void check_both_ways(uint64_t zip64_from)
{
    char path[] = "/tmp/test_api_npz.XXXXXX";
    const int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    FILE *file = fdopen(fd, "w+");
    hs_buffer memory = {0};
    hs_npz to_file = {.file = file, .zip64_from = zip64_from};
    hs_npz to_memory = {.memory = &memory, .zip64_from = zip64_from};
    ck_assert_int_eq(write_all(&to_file), HS_OK);
    ck_assert_int_eq(write_all(&to_memory), HS_OK);
    char *read_back = malloc(memory.size + 1);
    rewind(file);
    ck_assert_uint_eq(fread(read_back, 1, memory.size + 1, file), memory.size);
    ck_assert_mem_eq(read_back, memory.data, memory.size);
    fclose(file);
    check_with_numpy(path);
    unlink(path);
    free(read_back);
    hs_buffer_finish(&memory);
}

START_TEST(numpy_reads_what_is_written)
{
    check_both_ways(0);
}
END_TEST

START_TEST(numpy_reads_zip64)
{
    check_both_ways(1);    /* everything */
    check_both_ways(5000); /* what lies behind the first array, and the directory */
}
END_TEST

START_TEST(a_full_disk_is_reported)
{
    FILE *full = fopen("/dev/full", "w");
    ck_assert_ptr_nonnull(full);
    setvbuf(full, NULL, _IONBF, 0);
    hs_npz npz = {.file = full};
    hs_npz_begin(&npz, "numbers", "<i8", 1, (size_t[]){1}, 8);
    if (hs_npz_reserve(&npz, 8)) {
        memset(npz.pending.data + npz.pending.size, 0, 8);
        hs_npz_add(&npz, 8);
    }
    ck_assert_int_eq(hs_npz_finish(&npz, NULL), HS_IO);
    fclose(full);
}
END_TEST

int main(void)
{
    TCase *cases = tcase_create("npz");
    tcase_add_test(cases, numpy_reads_what_is_written);
    tcase_add_test(cases, numpy_reads_zip64);
    tcase_add_test(cases, a_full_disk_is_reported);
    Suite *suite = suite_create("api npz");
    suite_add_tcase(suite, cases);
    return tests_run(suite);
}
