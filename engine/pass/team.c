/* team.c - how helpers and crews meet.
 *
 * A crew posts its tasks on a board. The board's ticket holds how many tasks nobody has claimed yet, and a
 * round number that makes every post different; whoever lowers it by one by compare-and-swap owns that task.
 * `task`, `context` and `n_tasks` are plain: they are written before the ticket is posted, read only after a
 * claim, and not written again before every claimed task is done. So the helpers need no barrier, and one
 * that comes late finds no ticket and touches nothing of the crew's.
 *
 * The mutex guards who serves which board; it is taken when helpers come and go, not per task. */
#include "engine/pass/team.h"

#include "model/clock.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    HELPERS_MAX = 63, /* slots of a board are bits of a word; bit 0 is the crew's own thread */
    BOARDS = HELPERS_MAX,
    SPINS = 4000, /* some 30 us: longer than the way from one post to the next, shorter than anyone minds */
    LATE_MAX =
        2, /* each costs a time slice of the system, some ms: more of them than helpers can make up for */
};

typedef struct hs__board {
    _Alignas(64) atomic_uint_fast64_t ticket; /* round << 32 | tasks not claimed */
    _Alignas(64) atomic_size_t n_done;
    hs__task task;
    void *context;
    size_t n_tasks;
    atomic_bool open; /* a crew has it */
    /* with the mutex */
    uint64_t slots; /* bit s: slot s is taken */
    size_t n_threads, n_helpers;
} hs__board;

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    atomic_size_t n_cores, n_crews, n_busy, n_idle; /* busy and idle: helpers */
    /* with the mutex */
    size_t n_members, n_helpers;
    bool stopping;
    pthread_t helpers[HELPERS_MAX];
    hs__board boards[BOARDS];
} team = {.mutex = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

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

/* Claims and does one task; false when none is left. */
static bool board_work(hs__board *board, size_t slot)
{
    uint_fast64_t ticket = atomic_load_explicit(&board->ticket, memory_order_acquire);
    do {
        if (unclaimed(ticket) == 0)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&board->ticket, &ticket, ticket - 1, memory_order_acq_rel,
                                                    memory_order_acquire));
    board->task(board->context, board->n_tasks - unclaimed(ticket), slot);
    atomic_fetch_add_explicit(&board->n_done, 1, memory_order_release);
    return true;
}

static bool cores_are_short(void)
{
    return atomic_load_explicit(&team.n_crews, memory_order_relaxed) +
               atomic_load_explicit(&team.n_busy, memory_order_relaxed) >
           atomic_load_explicit(&team.n_cores, memory_order_relaxed);
}

static bool core_is_idle(void)
{
    return atomic_load(&team.n_crews) + atomic_load(&team.n_busy) < atomic_load(&team.n_cores);
}

/* Until the crew finishes, cores are short, or nothing is posted for a while. */
static void board_serve(hs__board *board, size_t slot)
{
    for (size_t spins = 0; spins < SPINS && !cores_are_short(); spins++) {
        if (board_work(board, slot))
            spins = 0;
        else if (!atomic_load_explicit(&board->open, memory_order_relaxed))
            return;
        relax();
    }
}

/* A board with tasks and a free slot; mutex held. */
static hs__board *board_find(void)
{
    if (!core_is_idle())
        return NULL;
    for (size_t b = 0; b < BOARDS; b++) {
        hs__board *board = &team.boards[b];
        if (atomic_load(&board->open) && board->n_helpers + 1 < board->n_threads &&
            unclaimed(atomic_load(&board->ticket)) > 0)
            return board;
    }
    return NULL;
}

static void *helper_main(void *unused)
{
    pthread_mutex_lock(&team.mutex);
    while (!team.stopping) {
        atomic_fetch_add(&team.n_idle, 1); /* before looking, so that a post is either found or wakes us */
        hs__board *board = board_find();
        if (!board)
            pthread_cond_wait(&team.wake, &team.mutex);
        atomic_fetch_sub(&team.n_idle, 1);
        if (!board)
            continue;

        const size_t slot = (size_t)__builtin_ctzll(~board->slots);
        board->slots |= (uint64_t)1 << slot;
        board->n_helpers++;
        atomic_fetch_add(&team.n_busy, 1);
        pthread_mutex_unlock(&team.mutex);
        board_serve(board, slot);
        pthread_mutex_lock(&team.mutex);
        atomic_fetch_sub(&team.n_busy, 1);
        board->n_helpers--;
        board->slots &= ~((uint64_t)1 << slot);
    }
    pthread_mutex_unlock(&team.mutex);
    return unused;
}

/* Signals are for the threads that asked for them. */
static bool helper_start(pthread_t *ret_thread)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool started = pthread_create(ret_thread, NULL, helper_main, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

void hs__team_join(size_t n_cores)
{
    pthread_mutex_lock(&team.mutex);
    while (team.stopping) /* the last of the former members is still sending the helpers home */
        pthread_cond_wait(&team.wake, &team.mutex);
    team.n_members++;
    while (team.n_helpers + 1 < n_cores && team.n_helpers < HELPERS_MAX &&
           helper_start(&team.helpers[team.n_helpers]))
        team.n_helpers++;
    if (n_cores > atomic_load(&team.n_cores))
        atomic_store(&team.n_cores, n_cores);
    pthread_mutex_unlock(&team.mutex);
}

void hs__team_leave(void)
{
    pthread_mutex_lock(&team.mutex);
    if (--team.n_members == 0) {
        team.stopping = true;
        pthread_cond_broadcast(&team.wake);
        const size_t n_helpers = team.n_helpers;
        pthread_mutex_unlock(&team.mutex);
        for (size_t h = 0; h < n_helpers; h++)
            pthread_join(team.helpers[h], NULL);
        pthread_mutex_lock(&team.mutex);
        team.n_helpers = 0;
        team.stopping = false;
        atomic_store(&team.n_cores, 0);
        pthread_cond_broadcast(&team.wake);
    }
    pthread_mutex_unlock(&team.mutex);
}

void hs__crew_start(hs__crew *crew, size_t n_threads)
{
    *crew = (hs__crew){.n_threads = n_threads > 0 ? n_threads : 1};
    atomic_fetch_add(&team.n_crews, 1);
    if (n_threads <= 1 || atomic_load(&team.n_cores) <= 1)
        return;
    pthread_mutex_lock(&team.mutex);
    for (size_t b = 0; b < BOARDS && !crew->board; b++) {
        hs__board *board = &team.boards[b];
        if (!atomic_load(&board->open) && board->n_helpers == 0) {
            board->n_threads = n_threads <= HELPERS_MAX ? n_threads : HELPERS_MAX + 1;
            board->slots = 1;
            atomic_store(&board->open, true);
            crew->board = board;
        }
    }
    pthread_mutex_unlock(&team.mutex);
}

static void board_post(hs__board *board, size_t n_tasks, hs__task task, void *context)
{
    board->task = task;
    board->context = context;
    board->n_tasks = n_tasks;
    atomic_store_explicit(&board->n_done, 0, memory_order_relaxed);
    const uint_fast64_t round = (atomic_load_explicit(&board->ticket, memory_order_relaxed) >> 32) + 1;
    atomic_store(&board->ticket, round << 32 | n_tasks);
    if (atomic_load(&team.n_idle) > 0 && core_is_idle()) {
        pthread_mutex_lock(&team.mutex);
        pthread_cond_broadcast(&team.wake);
        pthread_mutex_unlock(&team.mutex);
    }
}

/* Waits for the tasks that helpers hold. True when that takes far longer than a task (of task_ns) does. */
static bool board_wait(hs__board *board, uint64_t task_ns)
{
    const uint64_t start = hs_clock_ns(), patience = 4 * task_ns + 200000;
    bool late = false;
    for (size_t spins = 0; atomic_load_explicit(&board->n_done, memory_order_acquire) < board->n_tasks;
         spins++) {
        if (spins < SPINS) {
            relax();
        } else {
            late = late || hs_clock_ns() - start > patience;
            sched_yield(); /* perhaps the helper we wait for wants this very core */
        }
    }
    return late;
}

static void crew_dismiss(hs__crew *crew)
{
    if (crew->board)
        atomic_store(&crew->board->open, false);
    crew->board = NULL;
}

void hs__crew_share(hs__crew *crew, size_t n_tasks, hs__task task, void *context)
{
    hs__board *board = crew->board;
    if (!board || n_tasks < 2) {
        for (size_t i = 0; i < n_tasks; i++)
            task(context, i, 0);
        return;
    }
    const uint64_t start = hs_clock_ns();
    uint64_t n_ours = 1; /* the thread that posts may find all tasks taken */
    board_post(board, n_tasks, task, context);
    while (board_work(board, 0))
        n_ours++;
    crew->n_late += board_wait(board, (hs_clock_ns() - start) / n_ours);
    if (crew->n_late >= LATE_MAX)
        crew_dismiss(crew);
}

void hs__crew_finish(hs__crew *crew)
{
    crew_dismiss(crew);
    atomic_fetch_sub(&team.n_crews, 1);
}

size_t hs__cores_allowed(void)
{
    cpu_set_t set;
    const int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n > 0 ? (size_t)n : 1;
}
