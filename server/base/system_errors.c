/* system_errors.c - a table of the limits behind errors of the system. */
#include "server/base/system_errors.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum { TEXT_BYTES = 200 };

static const struct {
    int why, resource;
    const char *unit, *option; /* of the shell's ulimit */
} limits[] = {
    {EFBIG, RLIMIT_FSIZE, "bytes in a file", "-f"},      {EMFILE, RLIMIT_NOFILE, "descriptors", "-n"},
    {ENOMEM, RLIMIT_AS, "bytes of addresses", "-v"},     {ENOMEM, RLIMIT_DATA, "bytes of data", "-d"},
    {EAGAIN, RLIMIT_NPROC, "threads of its user", "-u"},
};

hs_status hs__errno_status(int why)
{
    switch (why) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return HS_NO_SPACE;
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case EAGAIN:
        return HS_NO_MEMORY;
    default:
        return HS_IO;
    }
}

const char *hs__errno_text(int why)
{
    static _Thread_local char text[TEXT_BYTES];
    struct rlimit limit;
    int n = snprintf(text, sizeof text, "%s", strerror(why));
    for (size_t k = 0; k < sizeof limits / sizeof *limits; k++)
        if (limits[k].why == why && !getrlimit(limits[k].resource, &limit) &&
            limit.rlim_cur != RLIM_INFINITY && n < TEXT_BYTES)
            n += snprintf(text + n, sizeof text - (size_t)n,
                          " (this process is limited to %llu %s: ulimit %s)",
                          (unsigned long long)limit.rlim_cur, limits[k].unit, limits[k].option);
    return text;
}
