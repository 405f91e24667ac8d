/* test_api_pictures.c - the order and the letter forms of texts in PDF, against words written out by hand. */
#include "api/figures/picture.h"
#include "tests/unit/suite.h"

#include <check.h>
#include <stdlib.h>

static void check_arranged(const char *text, const char *expected)
{
    char *arranged = hs__text_arrange(text);
    ck_assert_ptr_nonnull(arranged);
    ck_assert_str_eq(arranged, expected);
    free(arranged);
}

START_TEST(latin_stays_and_hebrew_is_reversed)
{
    check_arranged("", "");
    check_arranged("hello, 12", "hello, 12");
    check_arranged("שלום", "םולש");
    check_arranged("##ים", "םי##");
}
END_TEST

START_TEST(numbers_and_latin_keep_their_order_within_hebrew)
{
    check_arranged("שנת 1948", "1948 תנש");
    check_arranged("abcש12", "12שabc");
}
END_TEST

/* marhaban: meem initial, reh final, hah initial, beh medial, alef final; shown from the left. */
START_TEST(arabic_letters_join)
{
    check_arranged("\u0645\u0631\u062d\u0628\u0627", "\ufe8e\ufe92\ufea3\ufeae\ufee3");
    check_arranged("\u0628", "\ufe8f");
    check_arranged("\u0621\u0628", "\ufe8f\ufe80");
    check_arranged("\u0633\u0644\u0627\u0645", "\ufee1\ufefc\ufeb3"); /* lam and alef are one */
    check_arranged("\u067e\u062f\u0631", "\ufead\ufeaa\ufb58");       /* peh, of Persian */
}
END_TEST

START_TEST(marks_do_not_part_letters)
{
    check_arranged("\u0628\u064e\u062a", "\ufe96\u064e\ufe91");
}
END_TEST

START_TEST(characters_that_the_font_lacks_are_squares)
{
    check_arranged("a中b", "a□b");
}
END_TEST

int main(void)
{
    TCase *texts = tcase_create("texts");
    tcase_add_test(texts, latin_stays_and_hebrew_is_reversed);
    tcase_add_test(texts, numbers_and_latin_keep_their_order_within_hebrew);
    tcase_add_test(texts, arabic_letters_join);
    tcase_add_test(texts, marks_do_not_part_letters);
    tcase_add_test(texts, characters_that_the_font_lacks_are_squares);
    Suite *suite = suite_create("api pictures");
    suite_add_tcase(suite, texts);
    return tests_run(suite);
}
