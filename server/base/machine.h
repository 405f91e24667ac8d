/* machine.h - what this process may use: cores, memory and threads, by the machine and its control groups (v1
 * and v2). */
#pragma once

#include "model/base/status.h"

#include <stddef.h>
#include <stdint.h>

/* Returns the smaller of the affinity mask and the cgroup v2 CPU quota, rounded up, at least 1. OpenBLAS and
 * OpenMP ignore the quota, so the number of workers must respect it. */
size_t hs__cores_usable(void);

/* Returns the limit in bytes for everything that this process uses. */
uint64_t hs__memory_limit(void);

/* Returns the bytes that can still be allocated before the kernel kills a process. Counts the page cache as
 * free. */
uint64_t hs__memory_available(void);

/* Returns the bytes that this process may use beside those that it uses now, however much other programs of
 * the machine use. Other programs of its control groups count. */
uint64_t hs__memory_unused(void);

/* Starts n threads that wait for one another, and ends them. Fails with HS_NO_MEMORY if one cannot be
 * started; the message says to lower `option`, or to raise the limit. */
HS_MUST_USE hs_status hs__threads_check(size_t n, const char *option, hs_error *err);
