/* memory_left.h - how much memory there is for this process: the machine's, or its control groups' (v1 and
 * v2). */
#pragma once

#include <stdint.h>

/* What all of this process may ever have. */
uint64_t hs__memory_limit(void);
/* What it may still take before somebody is killed; pages of files that can be read again count as free. */
uint64_t hs__memory_available(void);
