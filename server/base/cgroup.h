/* cgroup.h - finds the control groups (v1 and v2) of this process. */
#pragma once

#include <stdint.h>

/* Calls look() with the folder of this process's group and of each visible group above it. Does nothing on
 * systems without control groups. */
void hs__cgroup_walk(const char *controller, void (*look)(const char *folder, void *data), void *data);

/* Returns the number in a group's file, or UINT64_MAX if it says "max" or does not exist. */
uint64_t hs__cgroup_number(const char *folder, const char *file);
