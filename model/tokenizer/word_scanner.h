/* word_scanner.h - finds words as the regular expressions of published byte-level tokenizers do.
 *
 * The expressions differ in four rules, so one scanner reads them all. It is faster than a general engine,
 * and its letters and numbers are the oracle's. Each expression matches at every position, so a text is one
 * word after the other. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The rules, in the order in which they are tried:
 *     a contraction, such as 's
 *     letters, after a space
 *     numbers, after a space
 *     other characters, after a space
 *     white space; its last character belongs to the next word */
typedef struct hs__word_rules {
    bool any_case;      /* contractions count in upper case too */
    bool any_prefix;    /* any character but a number and a line end may precede letters */
    uint8_t digits_max; /* numbers of at most this length, without a space; 0: numbers of any length */
    bool line_ends;     /* line ends belong to what is before them, white space included */
} hs__word_rules;

typedef struct hs__word_scanner {
    hs__word_rules rules;
    uint8_t kinds[128]; /* kinds of ASCII characters */
} hs__word_scanner;

/* Finds the rules of a published regular expression. Returns false for any other expression. */
bool hs__word_rules_find(const char *expression, hs__word_rules *ret_rules);

/* Returns the rules of GPT-2's expression. */
hs__word_rules hs__word_rules_gpt2(void);

hs__word_scanner hs__word_scanner_create(hs__word_rules rules);

/* Returns the end of the word that starts at `at` < end. after_space: a space is before the text, and the
 * word starts with it; then the word may have no character of its own. */
const unsigned char *hs__word_end(const hs__word_scanner *scanner, const unsigned char *at,
                                  const unsigned char *end, bool after_space);
