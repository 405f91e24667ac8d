/* memory_left.h - the memory that this process may use, by the machine and its control groups (v1 and v2). */
#pragma once

#include <stdint.h>

/* Returns the limit in bytes for everything that this process uses. */
uint64_t hs__memory_limit(void);
/* Returns the bytes that can still be allocated before the kernel kills a process. Counts the page cache as
 * free. */
uint64_t hs__memory_available(void);
