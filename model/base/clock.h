/* clock.h - the monotonic clock that all stages, deadlines and measurements use. Safe on any thread. */
#pragma once

#include <stdint.h>
#include <time.h>

#define HS_SECOND_NS UINT64_C(1000000000)

static inline uint64_t hs_clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * HS_SECOND_NS + (uint64_t)t.tv_nsec;
}

static inline double hs_clock_ms(void)
{
    return (double)hs_clock_ns() * 1e-6;
}

static inline double hs_clock_seconds(void)
{
    return (double)hs_clock_ns() * 1e-9;
}

/* Returns the time `milliseconds` from now, for pthread_cond_clockwait(.., CLOCK_MONOTONIC, ..). */
static inline struct timespec hs_clock_after_ms(uint64_t milliseconds)
{
    const uint64_t end = hs_clock_ns() + milliseconds * 1000000;
    return (struct timespec){(time_t)(end / HS_SECOND_NS), (long)(end % HS_SECOND_NS)};
}
