/* status.c - the texts of the codes, and the first message of an error. */
#include "model/base/status.h"

#include "model/base/utf8.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

hs_status hs_fail(hs_error *err, hs_status status, const char *format, ...)
{
    if (err && err->status == HS_OK) {
        va_list args;
        va_start(args, format);
        err->status = status;
        int n_bytes = vsnprintf(err->text, sizeof err->text, format, args);
        if (n_bytes >= (int)sizeof err->text) /* names from files may be long */
            err->text[hs_utf8_whole(err->text, sizeof err->text - 1)] = '\0';
        va_end(args);
    }
    return status;
}

const char *hs_status_text(hs_status status)
{
    static const char *const texts[] = {
#define X(name, text) text,
        HS_STATUS_LIST(X)
#undef X
    };
    return (unsigned)status < HS_STATUS_COUNT ? texts[status] : "unknown status";
}
