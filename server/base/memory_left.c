/* memory_left.c - the minimum over the machine and each control group above this process. */
#include "server/base/memory_left.h"

#include "server/base/cgroup.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static uint64_t group_limit(const char *folder)
{
    const uint64_t v2 = hs__cgroup_number(folder, "memory.max");
    return v2 < UINT64_MAX ? v2 : hs__cgroup_number(folder, "memory.limit_in_bytes");
}

static void limit_look(const char *folder, void *data)
{
    lower(data, group_limit(folder));
}

/* Returns a group's memory use without the page cache, which the kernel reclaims first. */
static uint64_t group_used(const char *folder)
{
    char path[8400];
    const uint64_t v2 = hs__cgroup_number(folder, "memory.current");
    const bool is_v2 = v2 < UINT64_MAX;
    const uint64_t used = is_v2 ? v2 : hs__cgroup_number(folder, "memory.usage_in_bytes");
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
    hs__cgroup_walk("memory", limit_look, &limit);
    return limit;
}

uint64_t hs__memory_available(void)
{
    uint64_t available = 1024 * field_read("/proc/meminfo", "MemAvailable");
    hs__cgroup_walk("memory", available_look, &available);
    return available;
}
