/* system_errors.c - a table of the limits behind errors of the system. */
#include "server/base/system_errors.h"

#include "server/base/control_groups.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum { TEXT_BYTES = 200 };

static const struct {
    int why, resource;
    const char *unit, *option; /* of the shell's ulimit */
} limits[] = {
    {EFBIG, RLIMIT_FSIZE, "bytes in a file", "-f"},
    {EMFILE, RLIMIT_NOFILE, "descriptors", "-n"},
    {ENOMEM, RLIMIT_AS, "bytes of addresses", "-v"},
    {ENOMEM, RLIMIT_DATA, "bytes of data", "-d"},
    {EAGAIN, RLIMIT_NPROC, "threads of its user", "-u"},
    {EAGAIN, RLIMIT_AS, "bytes of addresses", "-v"}, /* a thread's stack needs some */
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

/* Returns how many threads the control groups allow, if that is less than this process's own limit; else
 * UINT64_MAX. Leaves errno as it is. */
static uint64_t group_threads(void)
{
    const int before = errno;
    struct rlimit own = {.rlim_cur = RLIM_INFINITY};
    const uint64_t group = hs__groups_threads_max();
    (void)getrlimit(RLIMIT_NPROC, &own);
    errno = before;
    return group < own.rlim_cur ? group : UINT64_MAX;
}

const char *hs__errno_text(int why)
{
    static _Thread_local char text[TEXT_BYTES];
    const uint64_t group = why == EAGAIN ? group_threads() : UINT64_MAX;
    struct rlimit limit;
    int n = snprintf(text, sizeof text, "%s", strerror(why));
    if (group < UINT64_MAX)
        snprintf(text + n, sizeof text - (size_t)n,
                 " (its control group is limited to %llu threads: pids.max)", (unsigned long long)group);
    for (size_t k = 0; group == UINT64_MAX && k < sizeof limits / sizeof *limits; k++)
        if (limits[k].why == why && !getrlimit(limits[k].resource, &limit) &&
            limit.rlim_cur != RLIM_INFINITY && n < TEXT_BYTES)
            n += snprintf(text + n, sizeof text - (size_t)n,
                          " (this process is limited to %llu %s: ulimit %s)",
                          (unsigned long long)limit.rlim_cur, limits[k].unit, limits[k].option);
    return text;
}
