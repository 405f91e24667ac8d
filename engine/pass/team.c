/* team.c - queues of tasks between teams and helpers.
 *
 * A team posts its tasks in a queue. The queue's ticket holds the number of unclaimed tasks and a round
 * number that makes every post different. A thread claims a task by lowering the ticket with
 * compare-and-swap. `task`, `context` and `n_tasks` are plain variables: they are written before the
 * ticket is posted, read only after a claim, and not written again before every claimed task is done. So
 * helpers need no barrier, and a late helper finds no ticket and reads nothing of the team.
 *
 * The mutex guards which helper serves which queue. It is taken when helpers join and leave, not for each
 * task. */
#include "engine/pass/team.h"

#include "engine/pass/runtime_parts.h"
#include "model/clock.h"
#include "model/memory.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>

enum {
    HELPERS_MAX = 63, /* slots of a queue are bits of a 64-bit set; bit 0 is the team's own thread */
    QUEUES = HELPERS_MAX,
    SPINS = 4000, /* about 30 us: longer than the time between two posts */
    LATE_MAX = 2, /* each costs a time slice, some ms: more than helpers can save */
};

typedef struct hs__task_queue {
    _Alignas(HS_LINE_BYTES) atomic_uint_fast64_t ticket; /* round << 32 | unclaimed tasks */
    _Alignas(HS_LINE_BYTES) atomic_size_t n_done;
    hs__task task;
    void *context;
    size_t n_tasks;
    atomic_bool open; /* a team uses it */
    /* guarded by the mutex */
    int niceness;   /* of the team's own thread */
    uint64_t slots; /* bit s: slot s is taken */
    size_t n_threads, n_helpers;
} hs__task_queue;

struct hs__thread_pool {
    hs__task_queue queues[QUEUES];
    size_t n_cores;
    atomic_size_t n_teams, n_busy, n_idle; /* busy and idle count helpers */
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    bool stopping; /* guarded by the mutex */
    size_t n_helpers;
    pthread_t helpers[HELPERS_MAX];
};

static inline void relax(void)
{
#if defined __x86_64__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
}

static inline uint32_t unclaimed(uint_fast64_t ticket)
{
    return (uint32_t)ticket;
}

/* Claims and runs one task. Returns false if none is left. */
static bool queue_work(hs__task_queue *queue, size_t slot)
{
    uint_fast64_t ticket = atomic_load_explicit(&queue->ticket, memory_order_acquire);
    do {
        if (unclaimed(ticket) == 0)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&queue->ticket, &ticket, ticket - 1, memory_order_acq_rel,
                                                    memory_order_acquire));
    queue->task(queue->context, queue->n_tasks - unclaimed(ticket), slot);
    atomic_fetch_add_explicit(&queue->n_done, 1, memory_order_release);
    return true;
}

static bool cores_are_short(const hs__thread_pool *pool)
{
    return atomic_load_explicit(&pool->n_teams, memory_order_relaxed) +
               atomic_load_explicit(&pool->n_busy, memory_order_relaxed) >
           pool->n_cores;
}

static bool core_is_idle(const hs__thread_pool *pool)
{
    return atomic_load(&pool->n_teams) + atomic_load(&pool->n_busy) < pool->n_cores;
}

/* Serves a queue until the team finishes, teams need the core, or nothing is posted for a while. */
static void queue_serve(const hs__thread_pool *pool, hs__task_queue *queue, size_t slot)
{
    for (size_t spins = 0; spins < SPINS && !cores_are_short(pool); spins++) {
        if (queue_work(queue, slot))
            spins = 0;
        else if (!atomic_load_explicit(&queue->open, memory_order_relaxed))
            return;
        relax();
    }
}

/* Returns a queue with tasks and a free slot, or NULL. The caller holds the mutex. */
static hs__task_queue *queue_find(hs__thread_pool *pool)
{
    if (!core_is_idle(pool))
        return NULL;
    for (size_t q = 0; q < QUEUES; q++) {
        hs__task_queue *queue = &pool->queues[q];
        if (atomic_load(&queue->open) && queue->n_helpers + 1 < queue->n_threads &&
            unclaimed(atomic_load(&queue->ticket)) > 0)
            return queue;
    }
    return NULL;
}

/* Raises the nice value of this thread (on Linux it is per thread). A thread may not lower it again, so a
 * helper keeps the highest value of the teams it served. */
static void helper_yield(int *niceness, int requested)
{
    if (requested > *niceness && setpriority(PRIO_PROCESS, 0, requested) == 0)
        *niceness = requested;
}

static void *helper_main(void *context)
{
    hs__thread_pool *pool = context;
    int niceness = getpriority(PRIO_PROCESS, 0);
    pthread_mutex_lock(&pool->mutex);
    while (!pool->stopping) {
        atomic_fetch_add(&pool->n_idle, 1); /* before looking, so that a post is found or wakes this helper */
        hs__task_queue *queue = queue_find(pool);
        if (!queue)
            pthread_cond_wait(&pool->wake, &pool->mutex);
        atomic_fetch_sub(&pool->n_idle, 1);
        if (!queue)
            continue;

        const size_t slot = (size_t)__builtin_ctzll(~queue->slots);
        queue->slots |= (uint64_t)1 << slot;
        queue->n_helpers++;
        atomic_fetch_add(&pool->n_busy, 1);
        const int requested = queue->niceness;
        pthread_mutex_unlock(&pool->mutex);
        helper_yield(&niceness, requested);
        queue_serve(pool, queue, slot);
        pthread_mutex_lock(&pool->mutex);
        atomic_fetch_sub(&pool->n_busy, 1);
        queue->n_helpers--;
        queue->slots &= ~((uint64_t)1 << slot);
    }
    pthread_mutex_unlock(&pool->mutex);
    return NULL;
}

/* Starts a helper with all signals blocked: other threads handle signals. */
static bool helper_start(hs__thread_pool *pool)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool started = pthread_create(&pool->helpers[pool->n_helpers], NULL, helper_main, pool) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pool->n_helpers += started;
    return started;
}

hs__thread_pool *hs__thread_pool_create(size_t n_cores)
{
    hs__thread_pool *pool = hs_memory_create(sizeof *pool);
    if (!pool)
        return NULL;
    memset(pool, 0, sizeof *pool);
    pool->n_cores = n_cores;
    pthread_mutex_init(&pool->mutex, NULL); /* cannot fail with glibc's default attributes */
    pthread_cond_init(&pool->wake, NULL);
    while (pool->n_helpers + 1 < n_cores && pool->n_helpers < HELPERS_MAX && helper_start(pool))
        continue;
    return pool;
}

void hs__thread_pool_destroy(hs__thread_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->mutex);
    pool->stopping = true;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->mutex);
    for (size_t h = 0; h < pool->n_helpers; h++)
        pthread_join(pool->helpers[h], NULL);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->mutex);
    free(pool);
}

size_t hs__thread_pool_cores(const hs__thread_pool *pool)
{
    return pool->n_cores;
}

/* Opens an unused queue for a team of n_threads. Returns NULL if there is none. */
static hs__task_queue *queue_open(hs__thread_pool *pool, size_t n_threads)
{
    const int niceness = getpriority(PRIO_PROCESS, 0);
    hs__task_queue *opened = NULL;
    pthread_mutex_lock(&pool->mutex);
    for (size_t q = 0; q < QUEUES && !opened; q++) {
        hs__task_queue *queue = &pool->queues[q];
        if (!atomic_load(&queue->open) && queue->n_helpers == 0) {
            queue->n_threads = n_threads <= HELPERS_MAX ? n_threads : HELPERS_MAX + 1;
            queue->slots = 1;
            queue->niceness = niceness;
            atomic_store(&queue->open, true);
            opened = queue;
        }
    }
    pthread_mutex_unlock(&pool->mutex);
    return opened;
}

void hs__team_start(hs__team *team, hs_runtime *runtime, size_t n_threads)
{
    *team = (hs__team){.pool = runtime ? runtime->threads : NULL, .n_threads = n_threads > 0 ? n_threads : 1};
    if (!team->pool)
        return;
    atomic_fetch_add(&team->pool->n_teams, 1);
    if (n_threads > 1 && team->pool->n_cores > 1)
        team->queue = queue_open(team->pool, n_threads);
}

static void queue_post(hs__thread_pool *pool, hs__task_queue *queue, size_t n_tasks, hs__task task,
                       void *context)
{
    queue->task = task;
    queue->context = context;
    queue->n_tasks = n_tasks;
    atomic_store_explicit(&queue->n_done, 0, memory_order_relaxed);
    const uint_fast64_t round = (atomic_load_explicit(&queue->ticket, memory_order_relaxed) >> 32) + 1;
    atomic_store(&queue->ticket, round << 32 | n_tasks);
    if (atomic_load(&pool->n_idle) > 0 && core_is_idle(pool)) {
        pthread_mutex_lock(&pool->mutex);
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->mutex);
    }
}

/* Waits for the tasks that helpers hold. Returns true if that takes much longer than one task (task_ns). */
static bool queue_wait(hs__task_queue *queue, uint64_t task_ns)
{
    const uint64_t start = hs_clock_ns(), patience = 4 * task_ns + 200000;
    bool late = false;
    for (size_t spins = 0; atomic_load_explicit(&queue->n_done, memory_order_acquire) < queue->n_tasks;
         spins++) {
        if (spins < SPINS) {
            relax();
        } else {
            late = late || hs_clock_ns() - start > patience;
            sched_yield(); /* the helper may be waiting for this core */
        }
    }
    return late;
}

static void team_dismiss(hs__team *team)
{
    if (team->queue)
        atomic_store(&team->queue->open, false);
    team->queue = NULL;
}

void hs__team_share(hs__team *team, size_t n_tasks, hs__task task, void *context)
{
    hs__task_queue *queue = team->queue;
    if (!queue || n_tasks < 2) {
        for (size_t i = 0; i < n_tasks; i++)
            task(context, i, 0);
        return;
    }
    const uint64_t start = hs_clock_ns();
    uint64_t n_ours = 1; /* the posting thread may find all tasks claimed */
    queue_post(team->pool, queue, n_tasks, task, context);
    while (queue_work(queue, 0))
        n_ours++;
    team->n_late += queue_wait(queue, (hs_clock_ns() - start) / n_ours);
    if (team->n_late >= LATE_MAX)
        team_dismiss(team);
}

void hs__team_finish(hs__team *team)
{
    team_dismiss(team);
    if (team->pool)
        atomic_fetch_sub(&team->pool->n_teams, 1);
}

size_t hs__cores_allowed(void)
{
    cpu_set_t set;
    const int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n > 0 ? (size_t)n : 1;
}
