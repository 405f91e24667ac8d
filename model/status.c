#include "model/status.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

/* Names out of files may be long: a text that was cut must not end within a UTF-8 character. */
static void trim_cut_text(char *text, size_t n_bytes)
{
    size_t end = n_bytes;
    while (end > 0 && ((unsigned char)text[end - 1] & 0xC0) == 0x80)
        end--;
    if (end > 0 && (unsigned char)text[end - 1] >= 0xC0)
        end--;
    text[end] = '\0';
}

hs_status hs_fail(hs_error *err, hs_status status, const char *format, ...)
{
    if (err && err->status == HS_OK) {
        va_list args;
        va_start(args, format);
        err->status = status;
        int n_bytes = vsnprintf(err->text, sizeof err->text, format, args);
        if (n_bytes >= (int)sizeof err->text)
            trim_cut_text(err->text, sizeof err->text - 1);
        va_end(args);
    }
    return status;
}

const char *hs_status_name(hs_status status)
{
    static const char *const names[] = {
#define X(name, text) #name,
        HS_STATUS_LIST(X)
#undef X
    };
    return (unsigned)status < HS_STATUS_COUNT ? names[status] : "UNKNOWN";
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
