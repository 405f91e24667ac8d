/* control_groups.c - finds groups by /proc/self/cgroup, and reads their files in /sys/fs/cgroup.
 *
 * A container often sees only its own group, mounted as the root, under the host's path. So every level of
 * the path is tried, and missing levels are skipped. */
#include "server/base/control_groups.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOT "/sys/fs/cgroup"

enum { LINE_BYTES = 4096, FOLDER_BYTES = LINE_BYTES + 64 };

/* Returns true if a list such as "cpu,memory" contains the controller. */
static bool has_controller(const char *list, const char *controller)
{
    const size_t n = strlen(controller);
    for (const char *at = list; *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ','))
        if (strcspn(at, ",") == n && memcmp(at, controller, n) == 0)
            return true;
    return false;
}

/* Parses "4:memory:/a/b" (v1) or "0::/a/b" (v2). Writes the mount point to root and returns the group's path,
 * or NULL if the line is for another controller. */
static const char *line_read(char *line, const char *controller, char root[FOLDER_BYTES])
{
    char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
    if (!path)
        return NULL;
    path[strcspn(path, "\n")] = '\0';
    *path = '\0';
    list++;
    if (*list && !has_controller(list, controller))
        return NULL;
    snprintf(root, FOLDER_BYTES, *list ? ROOT "/%s" : ROOT, controller);
    return path + 1;
}

void hs__groups_walk(const char *controller, void (*look)(const char *folder, void *data), void *data)
{
    char line[LINE_BYTES], root[FOLDER_BYTES], folder[2 * FOLDER_BYTES];
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof line, file)) {
        const char *path = line_read(line, controller, root);
        if (!path)
            continue;
        snprintf(folder, sizeof folder, "%s%s", root, path);
        for (size_t n = strlen(folder); n >= strlen(root); folder[n] = '\0') {
            look(folder, data);
            while (n && folder[--n] != '/')
                ;
        }
    }
    if (file)
        fclose(file);
}

uint64_t hs__group_number(const char *folder, const char *name)
{
    char path[2 * FOLDER_BYTES + 64], text[32] = "";
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    const bool read = file && fgets(text, sizeof text, file);
    if (file)
        fclose(file);
    return read && *text >= '0' && *text <= '9' ? strtoull(text, NULL, 10) : UINT64_MAX;
}

static void pids_look(const char *folder, void *data)
{
    uint64_t *least = data;
    const uint64_t limit = hs__group_number(folder, "pids.max");
    *least = limit < *least ? limit : *least;
}

uint64_t hs__groups_threads_max(void)
{
    uint64_t limit = UINT64_MAX;
    hs__groups_walk("pids", pids_look, &limit);
    return limit;
}
