/* second_signal.h - tells a second ^C from a copy of the first. Safe in signal handlers. */
#pragma once

#include "model/base/clock.h"

#include <stdbool.h>

/* Returns true if a signal that arrives now is not a copy of the one at first_ns (hs_clock_ns). timeout and
 * some schedulers signal a process and then its whole group: the process gets one request twice at once. */
static inline bool hs__signal_is_second(uint64_t first_ns)
{
    return hs_clock_ns() - first_ns >= HS_SECOND_NS / 10;
}
