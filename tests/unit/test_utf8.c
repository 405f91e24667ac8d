/* test_utf8.c - UTF-8 by the Unicode Standard: every code point is encoded and decoded. Every byte sequence
 * of up to three bytes is valid exactly if it encodes a code point. */
#include "model/base/utf8.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static bool is_surrogate(uint32_t point)
{
    return point >= 0xD800 && point < 0xE000;
}

/* One assertion for all: each of Check's costs a system call. */
static bool is_read_as_written(uint32_t point)
{
    unsigned char bytes[4];
    const size_t n = hs_utf8_put(point, bytes);
    const char *text = (const char *)bytes, *cursor = text;
    const unsigned char *trusted = bytes;
    if (is_surrogate(point))
        return hs_utf8_length(text, n) == 0;
    bool is = hs_utf8_length(text, n) == n && hs_utf8_count(text, n) == 1 && hs_utf8_whole(text, n) == n;
    for (size_t cut = 1; cut < n; cut++)
        is = is && hs_utf8_length(text, cut) == 0 && hs_utf8_whole(text, cut) == 0;
    is = is && hs_utf8_next(&trusted) == point && hs_utf8_read(&cursor, text + n) == point;
    return is && cursor == text + n && trusted == bytes + n;
}

START_TEST(every_code_point_is_read_as_written)
{
    uint32_t point = 0;
    while (point < 0x110000 && is_read_as_written(point))
        point++;
    ck_assert_uint_eq(point, 0x110000);
}
END_TEST

/* The length of the code point that is written as the first of these bytes, 0 when none is. */
static size_t written_length(const unsigned char bytes[3], const uint8_t *is_written)
{
    const size_t key = (size_t)bytes[0] << 16 | (size_t)bytes[1] << 8 | bytes[2];
    if (bytes[0] < 0x80)
        return 1;
    return is_written[key & 0xFFFF00] == 2 ? 2 : is_written[key] == 3 ? 3 : 0;
}

START_TEST(no_other_bytes_are_valid)
{
    uint8_t *is_written = calloc((size_t)1 << 24, 1); /* by the bytes, the first one highest */
    ck_assert_ptr_nonnull(is_written);
    for (uint32_t point = 0x80; point < 0x10000; point++) {
        unsigned char bytes[4] = {0};
        const size_t n = hs_utf8_put(point, bytes);
        if (!is_surrogate(point))
            is_written[(size_t)bytes[0] << 16 | (size_t)bytes[1] << 8 | bytes[2]] = (uint8_t)n;
    }
    size_t key = 0;
    for (; key < (size_t)1 << 24; key++) {
        const unsigned char bytes[3] = {(unsigned char)(key >> 16), (unsigned char)(key >> 8),
                                        (unsigned char)key};
        if (hs_utf8_length((const char *)bytes, 3) != written_length(bytes, is_written))
            break;
    }
    ck_assert_uint_eq(key, (size_t)1 << 24);
    free(is_written);
}
END_TEST

/* "ä" cut, then bytes that are nothing: each stands for itself. */
START_TEST(what_is_no_character_is_replaced_byte_by_byte)
{
    static const char text[] = "a\xc3\xa4\xe4\xb8z\xff\xf0\x9f";
    static const uint32_t expected[] = {'a', 0xE4, 0xFFFD, 0xFFFD, 'z', 0xFFFD, 0xFFFD, 0xFFFD};
    const char *cursor = text;
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        ck_assert_uint_eq(hs_utf8_read(&cursor, text + sizeof text - 1), expected[i]);
    ck_assert_ptr_eq(cursor, text + sizeof text - 1);
    ck_assert_uint_eq(hs_utf8_valid(text, sizeof text - 1), 3);
}
END_TEST

START_TEST(valid_text_is_counted_and_cut_between_characters)
{
    static const char text[] = "ab\xc3\xa4\xe4\xb8\xad\xf0\x9f\x98\x80z";
    static const size_t offsets[] = {0, 1, 2, 4, 7, 11, 12, 12};
    const size_t n = sizeof text - 1;
    ck_assert_uint_eq(hs_utf8_valid(text, n), n);
    ck_assert_uint_eq(hs_utf8_count(text, n), 6);
    for (size_t point = 0; point < sizeof offsets / sizeof *offsets; point++)
        ck_assert_uint_eq(hs_utf8_offset(text, n, point), offsets[point]);
    for (size_t cut = 0, start = 0; cut <= n; cut++) {
        start += cut == offsets[start + 1];
        ck_assert_uint_eq(hs_utf8_whole(text, cut), offsets[start]);
    }
    /* Nothing but continuations: there is no character to save. */
    ck_assert_uint_eq(hs_utf8_whole("\x80\x80\x80\x80\x80", 5), 5);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("utf8");
    TCase *tc = tcase_create("utf8");
    tcase_add_test(tc, every_code_point_is_read_as_written);
    tcase_add_test(tc, no_other_bytes_are_valid);
    tcase_add_test(tc, what_is_no_character_is_replaced_byte_by_byte);
    tcase_add_test(tc, valid_text_is_counted_and_cut_between_characters);
    suite_add_tcase(suite, tc);
    return tests_run(suite);
}
