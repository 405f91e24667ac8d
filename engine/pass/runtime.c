/* runtime.c - what all engines of a process share: its cores, its memory of captures, its choice of kernels.
 */
#include "engine/pass/team.h"

#include "model/base/clock.h"
#include "model/base/memory.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- caches ----
 *
 * Reads the sizes of the CPU's caches from /sys, else from the C library. */

enum { LEVELS = 3, INDEXES = 8 };

/* Sizes assumed if nothing is known, and the range of sizes that is believed. A machine with a small
 * second level gains little from a third. */
static const size_t assumed[LEVELS] = {32 << 10, 512 << 10, 0};

static const size_t least[LEVELS] = {8 << 10, 128 << 10, 0};

static const size_t most[LEVELS] = {1 << 20, 64 << 20, (size_t)4 << 30};

/* Reads "1024K" or "1M", limited to the largest believed size. *ret_end is the rest of the text, or the
 * text itself if there is no number. */
static size_t size_read(const char *text, const char **ret_end)
{
    const size_t size_max = most[LEVELS - 1];
    size_t n = 0;
    for (; *text >= '0' && *text <= '9'; text++)
        n = n < size_max ? 10 * n + (size_t)(*text - '0') : n;
    const int shift = *text == 'K' ? 10 : *text == 'M' ? 20 : 0;
    *ret_end = text + (shift > 0);
    return n < size_max >> shift ? n << shift : size_max;
}

/* Reads the first word of a cache's file. Returns false if there is none. */
static bool word_read(int index, const char *name, char ret_word[32])
{
    char path[96];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, name);
    FILE *file = fopen(path, "re");
    const bool read = file && fscanf(file, "%31s", ret_word) == 1;
    if (file)
        fclose(file);
    return read;
}

static void system_read(size_t sizes[LEVELS])
{
    char level[32], type[32], size[32];
    const char *end;
    for (int index = 0; index < INDEXES; index++) {
        if (!word_read(index, "level", level) || !word_read(index, "type", type) ||
            !word_read(index, "size", size) || strcmp(type, "Instruction") == 0)
            continue;
        const size_t n = size_read(level, &end);
        if (n >= 1 && n <= LEVELS)
            sizes[n - 1] = size_read(size, &end);
    }
}

static void library_read(size_t sizes[LEVELS])
{
    const int names[LEVELS] = {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
    for (int l = 0; l < LEVELS; l++) {
        const long n = sizes[l] > 0 ? 0 : sysconf(names[l]);
        sizes[l] = n > 0 ? (size_t)n : sizes[l];
    }
}

/* Returns false if the text is not of the form that team.h gives. */
static bool environment_read(size_t sizes[LEVELS])
{
    const char *text = getenv(HS_CACHES_VARIABLE);
    if (!text || !*text)
        return true;
    for (int l = 0; l < LEVELS; l++) {
        const char *end, behind = l + 1 < LEVELS ? ',' : '\0';
        if (*text < '0' || *text > '9')
            return false;
        sizes[l] = size_read(text, &end);
        if (*end != behind)
            return false;
        text = end + 1;
    }
    return true;
}

bool hs__caches_read(hs_caches *ret_caches)
{
    size_t sizes[LEVELS] = {0};
    system_read(sizes);
    library_read(sizes);
    if (!environment_read(sizes))
        return false;
    for (int l = 0; l < LEVELS; l++) {
        sizes[l] = sizes[l] > 0 ? sizes[l] : assumed[l];
        sizes[l] = sizes[l] < least[l] ? least[l] : sizes[l] > most[l] ? most[l] : sizes[l];
    }
    *ret_caches = (hs_caches){sizes[0], sizes[1], sizes[2]};
    return true;
}

/* ---- blocks of memory ----
 *
 * A few blocks under a mutex, which is held for the bookkeeping only: allocation and
 * freeing happen outside. */

#define KEPT_BYTES     ((size_t)384 << 20) /* default of the sum of all blocks */
#define KEPT_BYTES_MIN ((size_t)4 << 20)   /* of one block: larger than a huge page, and so aligned to one */

static void block_pool_init(hs__block_pool *pool)
{
    *pool = (hs__block_pool){.bytes_max = KEPT_BYTES};
    pthread_mutex_init(&pool->mutex, NULL); /* cannot fail with glibc's default attributes */
}

/* frees what it holds */
static void block_pool_finish(hs__block_pool *pool)
{
    for (size_t b = 0; b < HS__POOLED_BLOCKS; b++)
        free(pool->blocks[b].memory);
    pthread_mutex_destroy(&pool->mutex);
}

/* Empties a place and returns its block. The caller holds the mutex. */
static hs__block block_remove(hs__block_pool *pool, size_t place)
{
    const hs__block block = pool->blocks[place];
    pool->bytes -= block.bytes;
    pool->blocks[place] = (hs__block){0};
    return block;
}

/* Frees the blocks that were returned before this time. Returns their number. */
static size_t block_pool_trim(hs__block_pool *pool, uint64_t before_ns)
{
    hs__block old[HS__POOLED_BLOCKS];
    size_t n = 0;
    pthread_mutex_lock(&pool->mutex);
    for (size_t b = 0; b < HS__POOLED_BLOCKS; b++)
        if (pool->blocks[b].memory && pool->blocks[b].since_ns < before_ns)
            old[n++] = block_remove(pool, b);
    pthread_mutex_unlock(&pool->mutex);
    for (size_t k = 0; k < n; k++)
        free(old[k].memory);
    return n;
}

/* Returns a block of at least this many bytes, with at most a quarter wasted. Its memory is NULL if there
 * is none. */
static hs__block block_take(hs__block_pool *pool, size_t bytes)
{
    size_t best = HS__POOLED_BLOCKS, best_bytes = bytes + bytes / 4;
    hs__block taken = {0};
    pthread_mutex_lock(&pool->mutex);
    for (size_t b = 0; b < HS__POOLED_BLOCKS; b++)
        if (pool->blocks[b].memory && pool->blocks[b].bytes >= bytes && pool->blocks[b].bytes <= best_bytes) {
            best = b;
            best_bytes = pool->blocks[b].bytes;
        }
    if (best < HS__POOLED_BLOCKS)
        taken = block_remove(pool, best);
    pthread_mutex_unlock(&pool->mutex);
    if (!taken.memory)
        taken = (hs__block){hs_memory_create(bytes), bytes, 0};
    if (!taken.memory && block_pool_trim(pool, UINT64_MAX)) /* what is kept for later makes way */
        taken.memory = hs_memory_create(bytes);
    return taken;
}

/* Returns a free place, or HS__POOLED_BLOCKS if there is none. The caller holds the mutex. */
static size_t place_find(const hs__block_pool *pool)
{
    for (size_t b = 0; b < HS__POOLED_BLOCKS; b++)
        if (!pool->blocks[b].memory)
            return b;
    return HS__POOLED_BLOCKS;
}

/* Returns true if a block is large enough and aligned like a capture. Blocks that realloc moved or that
 * hold compressed answers are not. */
static bool is_worth_keeping(const hs__block_pool *pool, hs__block block)
{
    return block.bytes >= KEPT_BYTES_MIN && block.bytes <= pool->bytes_max &&
           (uintptr_t)block.memory % HS_HUGE_BYTES == 0;
}

/* Returns the block to the pool. Frees it if the pool is full, the size is not worth keeping, or the
 * block did not come from hs_memory_create. */
static void block_return(hs__block_pool *pool, hs__block block)
{
    hs__block evicted[HS__POOLED_BLOCKS] = {{0}};
    size_t n = 0;
    if (!is_worth_keeping(pool, block)) {
        free(block.memory);
        return;
    }
    pthread_mutex_lock(&pool->mutex);
    for (size_t b = 0; b < HS__POOLED_BLOCKS; b++)
        if (pool->blocks[b].memory &&
            (place_find(pool) == HS__POOLED_BLOCKS || pool->bytes + block.bytes > pool->bytes_max))
            evicted[n++] = block_remove(pool, b);
    pool->blocks[place_find(pool)] = block;
    pool->bytes += block.bytes;
    pthread_mutex_unlock(&pool->mutex);
    while (n > 0)
        free(evicted[--n].memory);
}

/* ---- team ----
 *
 * Queues of tasks between teams and helpers.
 *
 * A team posts its tasks in a queue. The queue's ticket holds the number of unclaimed tasks and a round
 * number that makes every post different. A thread claims a task by lowering the ticket with
 * compare-and-swap. `task`, `context` and `n_tasks` are plain variables: they are written before the
 * ticket is posted, read only after a claim, and not written again before every claimed task is done. So
 * helpers need no barrier, and a late helper finds no ticket and reads nothing of the team.
 *
 * The mutex guards which helper serves which queue. It is taken when helpers join and leave, not for each
 * task. */

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

/* Creates helpers for n_cores in all, the callers' own included. Returns NULL if there is no memory. */
static hs__thread_pool *thread_pool_create(size_t n_cores)
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

/* NULL is fine; no team may be left */
static void thread_pool_destroy(hs__thread_pool *pool)
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

static size_t thread_pool_cores(const hs__thread_pool *pool)
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

/* Returns the number of cores that the affinity mask allows, at least 1. */
static size_t cores_allowed(void)
{
    cpu_set_t set;
    const int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n > 0 ? (size_t)n : 1;
}

/* ---- runtime ----
 *
 * The state that all engines of a process share. It is created once and passed down, so
 * engine/ has no global variables. */

hs_status hs_runtime_create(size_t n_cores, hs_runtime **ret_runtime, hs_error *err)
{
    const hs__kernels *kernels = hs__kernels_select();
    if (!kernels)
        return hs_fail(
            err, HS_UNSUPPORTED,
            HS_KERNELS_VARIABLE
            " names kernels that this CPU does not have: use amx, avx512, avx2 or base, or leave it unset");
    hs_caches caches;
    if (!hs__caches_read(&caches))
        return hs_fail(err, HS_UNSUPPORTED,
                       HS_CACHES_VARIABLE
                       " is not three sizes as in 32K,1M,16M: write it so, or leave it unset");
    hs__amx_permitted(); /* asks the system before threads begin */
    hs_runtime *runtime = calloc(1, sizeof *runtime);
    hs__thread_pool *threads = thread_pool_create(n_cores > 0 ? n_cores : cores_allowed());
    if (!runtime || !threads) {
        thread_pool_destroy(threads);
        free(runtime);
        return hs_fail(err, HS_NO_MEMORY, "out of memory for a runtime");
    }
    runtime->threads = threads;
    runtime->kernels = kernels;
    runtime->caches = caches;
    block_pool_init(&runtime->blocks);
    *ret_runtime = runtime;
    return HS_OK;
}

void hs_runtime_destroy(hs_runtime *runtime)
{
    if (!runtime)
        return;
    thread_pool_destroy(runtime->threads);
    block_pool_finish(&runtime->blocks);
    free(runtime);
}

size_t hs_runtime_cores(const hs_runtime *runtime)
{
    return thread_pool_cores(runtime->threads);
}

hs_caches hs_runtime_caches(const hs_runtime *runtime)
{
    return runtime->caches;
}

const char *hs_runtime_kernels(const hs_runtime *runtime)
{
    return runtime->kernels->name;
}

void hs_runtime_share(hs_runtime *runtime, size_t n_threads, size_t n_tasks,
                      void (*task)(void *context, size_t i, size_t slot), void *context)
{
    hs__team team;
    hs__team_start(&team, runtime, n_threads);
    hs__team_share(&team, n_tasks, task, context);
    hs__team_finish(&team);
}

void hs_runtime_keep(hs_runtime *runtime, size_t n_bytes)
{
    runtime->blocks.bytes_max = n_bytes;
}

void *hs_runtime_block_take(hs_runtime *runtime, size_t n_bytes, size_t *ret_bytes)
{
    const hs__block block = block_take(&runtime->blocks, n_bytes);
    *ret_bytes = block.bytes;
    return block.memory;
}

void hs_runtime_block_return(hs_runtime *runtime, void *block, size_t n_bytes)
{
    if (block)
        block_return(&runtime->blocks, (hs__block){block, n_bytes, hs_clock_ns()});
}

void hs_runtime_trim(hs_runtime *runtime, uint64_t before_ns)
{
    (void)block_pool_trim(&runtime->blocks, before_ns);
}
