/* cores.h - how many cores this process may really use. */
#pragma once

#include <stddef.h>

/* The smaller of the affinity mask and the cgroup's CPU quota (cgroup v2, every level up), rounded up; at
 * least 1. OpenBLAS and OpenMP look at neither quota, so the number of workers has to. */
size_t hs__cores_usable(void);
