/* cgroup.h - the control groups that this process is in: where their files are, level by level. */
#pragma once

#include <stdint.h>

/* Calls look with the folder of our group of this controller, and of each one above it that can be seen. v1
 * and v2; nothing where there are no groups. */
void hs__cgroup_walk(const char *controller, void (*look)(const char *folder, void *data), void *data);

/* The number in a group's file; UINT64_MAX: "max", or there is no such file. */
uint64_t hs__cgroup_number(const char *folder, const char *file);
