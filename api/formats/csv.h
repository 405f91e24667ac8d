/* csv.h - writes fields of CSV as in RFC 4180. Every CSV of the program goes through here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define HS_CSV_FIELD_MAX(n) (2 * (n) + 3) /* of a field of n bytes */

/* Writes a field of n bytes, in quotes if it needs them, and returns its end; writes no NUL. safe: puts an
 * apostrophe before text that a spreadsheet would take for a formula: text that begins with =, +, -, @, a tab
 * or a carriage return. */
char *hs_csv_field(char *to, const char *text, size_t n, bool safe);
