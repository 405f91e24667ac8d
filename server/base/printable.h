/* printable.h - makes text from outside safe for a log line or a terminal. Any thread.
 *
 * Control characters (C0, delete, and U+0080 to U+009F) move the cursor or change settings of a terminal, and
 * split lines. Marks of direction (such as U+202E) show names in another order than they are written. Both
 * are written as \uXXXX. Other bytes stay, so that names in any language remain readable. */
#pragma once

#include <stddef.h>
#include <stdio.h>

/* Copies text with such characters escaped. Truncates the copy to n_ret >= 1 bytes and returns ret_text. */
const char *hs__printable(const char *text, char *ret_text, size_t n_ret);
/* The same of n bytes, before a byte 0, with U+0000 among the characters that are escaped. */
const char *hs__printable_bytes(const char *text, size_t n, char *ret_text, size_t n_ret);

/* Returns the bytes of such a character at the beginning of text; 0 if there is none. */
size_t hs__unprintable(const char *text);

/* Prints as fprintf does, with such characters escaped, but for line feeds at the end. For every text on a
 * terminal that names something from outside: a model, a file, a folder, a label. */
void hs__print(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints a path and a file in it ("" for none) on standard output. A program that reads it gets the exact
 * bytes; a terminal gets them as hs__print writes. */
void hs__path_print(const char *path, const char *file);
