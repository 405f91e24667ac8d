/* cores.c - the affinity mask, reduced to the smallest CPU quota (cgroup v2) on the path to the root group.
 */
#include "server/base/cores.h"

#include "server/base/cgroup.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

/* Returns a group's quota in cores; INFINITY if it has none. */
static double quota_read(const char *folder)
{
    char path[8400];
    double quota = INFINITY, limit, period;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    FILE *file = fopen(path, "re");
    if (!file)
        return INFINITY;
    /* "max 100000" or "150000 100000", in microseconds; NOLINTNEXTLINE(cert-err34-c): the count is checked */
    if (fscanf(file, "%lf %lf", &limit, &period) == 2 && limit > 0 && period > 0)
        quota = limit / period;
    fclose(file);
    return quota;
}

static void quota_look(const char *folder, void *data)
{
    double *cores = data;
    *cores = fmin(*cores, quota_read(folder));
}

size_t hs__cores_usable(void)
{
    cpu_set_t set;
    double cores = sched_getaffinity(0, sizeof set, &set) ? (double)sysconf(_SC_NPROCESSORS_ONLN)
                                                          : (double)CPU_COUNT(&set);
    hs__cgroup_walk("cpu", quota_look, &cores);
    return cores > 1 ? (size_t)ceil(cores) : 1;
}
