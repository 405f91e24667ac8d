/* control_groups.h - the control groups (v1 and v2) of this process: their folders, files and limits. */
#pragma once

#include <stdint.h>

/* Calls look() with the folder of this process's group and of each visible group above it. Does nothing on
 * systems without control groups. */
void hs__groups_walk(const char *controller, void (*look)(const char *folder, void *data), void *data);

/* Returns the number in a group's file, or UINT64_MAX if it says "max" or does not exist. */
uint64_t hs__group_number(const char *folder, const char *name);

/* Returns how many threads the groups allow, those of all their processes together; UINT64_MAX if they set no
 * limit. */
uint64_t hs__groups_threads_max(void);
