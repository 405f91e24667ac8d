/* printable.h - makes text from outside safe for a log line or a terminal. Any thread. */
#pragma once

#include <stddef.h>

/* Copies text and writes control characters (C0, delete, and U+0080 to U+009F) as \u00XX. Other bytes stay,
 * so that names in any language remain readable. Truncates the copy to n_ret >= 1 bytes and returns ret_text.
 */
const char *hs__printable(const char *text, char *ret_text, size_t n_ret);
