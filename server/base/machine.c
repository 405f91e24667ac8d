/* machine.c - what this process may use: cores, memory and threads, by the machine and its control groups. */
#include "server/base/machine.h"

#include "server/base/control_groups.h"
#include "server/base/system_errors.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

/* ---- cores ----
 *
 * The affinity mask, reduced to the smallest CPU quota (cgroup v2) on the path to the root group. */

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
    hs__groups_walk("cpu", quota_look, &cores);
    return cores > 1 ? (size_t)ceil(cores) : 1;
}

/* ---- memory left ----
 *
 * The minimum over the machine and each control group above this process. */

/* Returns the number after "name " or "name: " at the start of a line; 0 if there is none. */
static uint64_t field_read(const char *path, const char *name)
{
    char line[256];
    const size_t n = strlen(name);
    uint64_t value = 0;
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, name, n) == 0 && (line[n] == ' ' || line[n] == ':'))
            value = strtoull(line + n + 1, NULL, 10);
    if (file)
        fclose(file);
    return value;
}

static void lower(uint64_t *least, uint64_t value)
{
    *least = value < *least ? value : *least;
}

/* Returns the memory that a group may use. Above "memory.high" of version 2 the kernel lets a process wait
 * rather than end it. */
static uint64_t group_limit(const char *folder)
{
    static const char *const names[] = {"memory.max", "memory.high", "memory.limit_in_bytes"};
    uint64_t limit = UINT64_MAX;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        lower(&limit, hs__group_number(folder, names[k]));
    return limit;
}

static void limit_look(const char *folder, void *data)
{
    lower(data, group_limit(folder));
}

/* Returns a group's memory use without the page cache, which the kernel reclaims first. */
static uint64_t group_used(const char *folder)
{
    char path[8400];
    const uint64_t v2 = hs__group_number(folder, "memory.current");
    const bool is_v2 = v2 < UINT64_MAX;
    const uint64_t used = is_v2 ? v2 : hs__group_number(folder, "memory.usage_in_bytes");
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    const uint64_t files = field_read(path, is_v2 ? "inactive_file" : "total_inactive_file") +
                           field_read(path, is_v2 ? "active_file" : "total_active_file");
    return used > files ? used - files : 0;
}

static void available_look(const char *folder, void *data)
{
    const uint64_t limit = group_limit(folder);
    if (limit == UINT64_MAX)
        return;
    const uint64_t used = group_used(folder);
    lower(data, used < limit ? limit - used : 0);
}

uint64_t hs__memory_limit(void)
{
    uint64_t limit = 1024 * field_read("/proc/meminfo", "MemTotal");
    struct sysinfo machine;
    if (!limit && !sysinfo(&machine)) /* no descriptor is left to read the file */
        limit = (uint64_t)machine.mem_unit * machine.totalram;
    hs__groups_walk("memory", limit_look, &limit);
    return limit;
}

uint64_t hs__memory_available(void)
{
    uint64_t available = 1024 * field_read("/proc/meminfo", "MemAvailable");
    hs__groups_walk("memory", available_look, &available);
    return available;
}

/* Returns the memory of this process that the kernel cannot take away. */
static uint64_t own_bytes(void)
{
    static const char path[] = "/proc/self/status";
    return 1024 * (field_read(path, "RssAnon") + field_read(path, "RssShmem") + field_read(path, "VmSwap"));
}

uint64_t hs__memory_unused(void)
{
    const uint64_t limit = 1024 * field_read("/proc/meminfo", "MemTotal"), own = own_bytes();
    uint64_t unused = limit > own ? limit - own : 0;
    hs__groups_walk("memory", available_look, &unused);
    return unused;
}

/* ---- thread limit ----
 *
 * Starts the threads at a closed gate, so that all are there at once. */

static void *pass(void *gate)
{
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

hs_status hs__threads_check(size_t n, const char *option, hs_error *err)
{
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_t *threads = calloc(n, sizeof *threads);
    size_t started = 0;
    int code = threads ? 0 : ENOMEM;
    pthread_mutex_lock(&gate);
    while (started < n && !code) {
        code = pthread_create(&threads[started], NULL, pass, &gate);
        started += !code;
    }
    pthread_mutex_unlock(&gate);
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    free(threads);
    return code ? hs_fail(err, HS_NO_MEMORY,
                          "%zu of %zu threads can be started: %s; lower %s, or raise the limit of threads "
                          "(ulimit -u, or that of the container or service) or of memory for their stacks "
                          "(ulimit -v and -d)",
                          started, n, hs__errno_text(code), option)
                : HS_OK;
}
