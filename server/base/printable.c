/* printable.c - escapes C0 and C1 control characters, which terminals obey, and line ends, which split log
 * lines. */
#include "server/base/printable.h"

#include <stdio.h>

enum { ESCAPED_BYTES = 6 }; /* \u001b */

const char *hs__printable(const char *text, char *ret_text, size_t n_ret)
{
    const unsigned char *in = (const unsigned char *)text;
    char *out = ret_text;
    for (; *in && (size_t)(out - ret_text) + ESCAPED_BYTES < n_ret; in++) {
        if (in[0] == 0xc2 && in[1] >= 0x80 && in[1] < 0xa0)
            out += sprintf(out, "\\u%04x", *++in);
        else if (*in < ' ' || *in == 0x7f)
            out += sprintf(out, "\\u%04x", *in);
        else
            *out++ = (char)*in;
    }
    *out = '\0';
    return ret_text;
}
