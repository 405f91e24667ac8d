/* test_api_crc.c - the CRC-32 of zip against zlib's, over every length near the block size, and continued. */
#include "api/formats/crc.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <stdlib.h>
#include <zlib.h>

START_TEST(crc32_is_that_of_zlib)
{
    enum { N = 1 << 16 };
    static unsigned char data[N];
    uint64_t state = 1;
    for (size_t i = 0; i < N; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        data[i] = (unsigned char)(state >> 56);
    }
    for (size_t n = 0; n <= 2100; n++) {
        const size_t first = n * 31 % 700;
        ck_assert_uint_eq(hs__crc32(0, data + first, n), crc32_z(0, data + first, n));
    }
    uint32_t pieces = 0;
    for (size_t at = 0, n = 1; at < N; at += n, n = n * 3 % 5003)
        pieces = hs__crc32(pieces, data + at, n < N - at ? n : N - at);
    ck_assert_uint_eq(pieces, crc32_z(0, data, N));
}
END_TEST

int main(void)
{
    TCase *cases = tcase_create("crc");
    tcase_add_test(cases, crc32_is_that_of_zlib);
    Suite *suite = suite_create("api crc");
    suite_add_tcase(suite, cases);
    return tests_run(suite);
}
