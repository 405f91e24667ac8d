/* cores.h - the number of cores that this process may use. */
#pragma once

#include <stddef.h>

/* Returns the smaller of the affinity mask and the cgroup v2 CPU quota, rounded up, at least 1. OpenBLAS and
 * OpenMP ignore the quota, so the number of workers must respect it. */
size_t hs__cores_usable(void);
