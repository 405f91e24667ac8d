/* memory_budget.c - waiters form a queue on their own stacks and are served in order, so that small requests
 * cannot starve a large one.
 *
 * Nothing signals a cancellation: `cancelled` is only a flag. A waiter polls it every LOOK_MS. */
#include "api/memory_budget.h"

#include "model/base/clock.h"

enum { LOOK_MS = 20 };

struct hs__budget_waiter {
    hs__budget_waiter *next;
};

void hs__budget_init(hs__budget *budget, size_t bytes_max)
{
    *budget = (hs__budget){.bytes_max = bytes_max};
    pthread_mutex_init(&budget->mutex, NULL); /* cannot fail with glibc's default attributes */
    pthread_cond_init(&budget->changed, NULL);
}

void hs__budget_finish(hs__budget *budget)
{
    pthread_cond_destroy(&budget->changed);
    pthread_mutex_destroy(&budget->mutex);
}

static bool fits(const hs__budget *budget, size_t n_bytes)
{
    return n_bytes <= budget->bytes_max - budget->bytes;
}

bool hs__budget_try(hs__budget *budget, size_t n_bytes)
{
    pthread_mutex_lock(&budget->mutex);
    const bool taken = !budget->first && fits(budget, n_bytes);
    budget->bytes += taken ? n_bytes : 0;
    pthread_mutex_unlock(&budget->mutex);
    return taken;
}

static void waiter_add(hs__budget *budget, hs__budget_waiter *waiter)
{
    *(budget->last ? &budget->last->next : &budget->first) = waiter;
    budget->last = waiter;
}

static void waiter_remove(hs__budget *budget, hs__budget_waiter *waiter)
{
    hs__budget_waiter **link = &budget->first, *before = NULL;
    while (*link != waiter) {
        before = *link;
        link = &before->next;
    }
    *link = waiter->next;
    if (budget->last == waiter)
        budget->last = before;
    pthread_cond_broadcast(&budget->changed); /* another one may be the first now */
}

/* Waits for a change, LOOK_MS at most; mutex held. */
static void wait_shortly(hs__budget *budget)
{
    const struct timespec until = hs_clock_after_ms(LOOK_MS);
    pthread_cond_clockwait(&budget->changed, &budget->mutex, CLOCK_MONOTONIC, &until);
}

bool hs__budget_take(hs__budget *budget, size_t n_bytes, const atomic_int *cancelled)
{
    hs__budget_waiter waiter = {0};
    pthread_mutex_lock(&budget->mutex);
    waiter_add(budget, &waiter);
    while ((budget->first != &waiter || !fits(budget, n_bytes)) && !(cancelled && atomic_load(cancelled)))
        wait_shortly(budget);
    const bool taken = budget->first == &waiter && fits(budget, n_bytes);
    budget->bytes += taken ? n_bytes : 0;
    waiter_remove(budget, &waiter);
    pthread_mutex_unlock(&budget->mutex);
    return taken;
}

void hs__budget_give_back(hs__budget *budget, size_t n_bytes)
{
    pthread_mutex_lock(&budget->mutex);
    budget->bytes -= n_bytes;
    pthread_cond_broadcast(&budget->changed);
    pthread_mutex_unlock(&budget->mutex);
}
