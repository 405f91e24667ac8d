#include "server/base/cores.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CGROUP_ROOT "/sys/fs/cgroup"

/* The quota of one cgroup folder in cores; INFINITY when it has none. */
static double quota_read(const char *folder)
{
    char path[4200];
    double quota = INFINITY, limit, period;
    snprintf(path, sizeof path, CGROUP_ROOT "%s/cpu.max", folder);
    FILE *file = fopen(path, "re");
    if (!file)
        return INFINITY;
    /* "max 100000" or "150000 100000", in microseconds; NOLINTNEXTLINE(cert-err34-c): the count is looked at
     */
    if (fscanf(file, "%lf %lf", &limit, &period) == 2 && limit > 0 && period > 0)
        quota = limit / period;
    fclose(file);
    return quota;
}

/* Our cgroup's path, "" for the root or where there is no cgroup v2. */
static void cgroup_path(char *ret_path, size_t size)
{
    char line[4096];
    FILE *file = fopen("/proc/self/cgroup", "re");
    *ret_path = '\0';
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "0::/", 4) == 0) {
            line[strcspn(line, "\n")] = '\0';
            snprintf(ret_path, size, "%s", line + 3);
        }
    if (file)
        fclose(file);
}

size_t hs__cores_usable(void)
{
    cpu_set_t set;
    double cores = sched_getaffinity(0, sizeof set, &set) ? (double)sysconf(_SC_NPROCESSORS_ONLN)
                                                          : (double)CPU_COUNT(&set);
    char path[4096];
    cgroup_path(path, sizeof path);
    for (;;) {
        cores = fmin(cores, quota_read(path));
        char *slash = strrchr(path, '/');
        if (!slash)
            break;
        *slash = '\0';
    }
    return cores > 1 ? (size_t)ceil(cores) : 1;
}
