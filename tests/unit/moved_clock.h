/* moved_clock.h - a monotonic clock that stands still until the test moves it.
 *
 * A test program that includes it defines two functions of the C library, which then stand before the real
 * ones in the libraries too. */
#pragma once

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CLOCK_SECOND_NS UINT64_C(1000000000)
#define CLOCK_EXPORTED  __attribute__((visibility("default")))

static _Atomic uint64_t clock_now_ns = 1000 * CLOCK_SECOND_NS;
static _Atomic uint64_t clock_awaited_ns; /* the end of the last wait that began */

static inline void clock_move_ms(uint64_t milliseconds)
{
    atomic_fetch_add(&clock_now_ns, milliseconds * (CLOCK_SECOND_NS / 1000));
}

CLOCK_EXPORTED int clock_gettime(clockid_t clock, struct timespec *ret)
{
    if (clock != CLOCK_MONOTONIC && clock != CLOCK_MONOTONIC_COARSE)
        return (int)syscall(SYS_clock_gettime, clock, ret);
    const uint64_t now = atomic_load(&clock_now_ns);
    *ret = (struct timespec){(time_t)(now / CLOCK_SECOND_NS), (long)(now % CLOCK_SECOND_NS)};
    return 0;
}

/* Waits for a signal. Returns ETIMEDOUT if the clock was moved to the end. Otherwise wakes its caller every
 * millisecond, as conditions may. */
CLOCK_EXPORTED int pthread_cond_clockwait(pthread_cond_t *condition, pthread_mutex_t *lock, clockid_t clock,
                                          const struct timespec *end)
{
    const uint64_t end_ns = (uint64_t)end->tv_sec * CLOCK_SECOND_NS + (uint64_t)end->tv_nsec;
    struct timespec soon;
    (void)clock;
    atomic_store(&clock_awaited_ns, end_ns);
    if (atomic_load(&clock_now_ns) >= end_ns)
        return ETIMEDOUT;
    (void)syscall(SYS_clock_gettime, CLOCK_REALTIME, &soon);
    soon.tv_nsec += 1000000;
    if (soon.tv_nsec >= (long)CLOCK_SECOND_NS) {
        soon.tv_sec++;
        soon.tv_nsec -= (long)CLOCK_SECOND_NS;
    }
    const int st = pthread_cond_timedwait(condition, lock, &soon);
    return st == ETIMEDOUT ? 0 : st;
}
