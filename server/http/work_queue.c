/* work_queue.c - a doubly linked list in the order of turns. It has at most waiting_max items, and those of
 * admitted work, so walking it is cheap. */
#include "server/http/work_queue.h"

#include <assert.h>

/* ---- turns ---- */

/* A client without waiting items gets the current turn, or the one after it if the current one was its own.
 * Each more item gets the turn after its predecessor's. */
static uint64_t turn_of(const hs_work_queue *queue, hs_work_client *client)
{
    if (!client)
        return queue->turn;
    if (client->n_waiting)
        client->turn++;
    else
        client->turn = queue->turn + (client->turn >= queue->turn);
    return client->turn;
}

/* Inserts the item behind those of turns before `turn`. */
static void insert(hs_work_queue *queue, hs_work *work, uint64_t turn)
{
    hs_work *before = queue->last;
    while (before && before->turn >= turn)
        before = before->previous;
    work->previous = before;
    work->next = before ? before->next : queue->first;
    *(before ? &before->next : &queue->first) = work;
    *(work->next ? &work->next->previous : &queue->last) = work;
    work->state = HS_WORK_WAITING;
    queue->n_waiting++;
}

static void take_out(hs_work_queue *queue, hs_work *work)
{
    *(work->previous ? &work->previous->next : &queue->first) = work->next;
    *(work->next ? &work->next->previous : &queue->last) = work->previous;
    work->state = HS_WORK_OUTSIDE;
    queue->n_waiting--;
}

static void count_waiting(hs_work *work, int change)
{
    if (work->client)
        work->client->n_waiting += (size_t)change;
}

static void count_running(hs_work *work, int change)
{
    if (work->client)
        work->client->n_running += (size_t)change;
}

/* ---- a full queue ---- */

static void drop(hs_work_queue *queue, hs_work *work, hs_work_end end)
{
    work->end = end;
    atomic_store(&work->cancelled, 1);
    take_out(queue, work);
    count_waiting(work, -1);
    queue->dropped(work);
}

/* Makes space for an item of this client if another one has more waiting, counted with the new one: drops the
 * newest item of the client with most. Its items may all be of admitted work; then the queue grows by one. */
static bool make_space(hs_work_queue *queue, const hs_work_client *client)
{
    const hs_work_client *longest = NULL;
    hs_work *newest = NULL;
    for (hs_work *work = queue->last; client && work; work = work->previous) {
        const size_t most = longest ? longest->n_waiting : client->n_waiting + 1;
        if (work->client && work->client->n_waiting > most) {
            longest = work->client;
            newest = NULL;
        }
        if (work->client && work->client == longest && !newest && !work->admitted)
            newest = work;
    }
    if (newest) {
        queue->n_dropped++;
        drop(queue, newest, HS_WORK_CROWDED);
    }
    return longest != NULL;
}

/* ---- the queue ---- */

static bool may_run(const hs_work_queue *queue, const hs_work_client *client)
{
    return !client || !queue->client_running_max || client->n_running < queue->client_running_max;
}

bool hs__work_queue_add(hs_work_queue *queue, hs_work *work, bool idle)
{
    assert(work->state == HS_WORK_OUTSIDE);
    const bool at_once = idle && may_run(queue, work->client) && !hs__work_queue_next(queue);
    if (!at_once && !work->admitted && queue->n_waiting >= queue->waiting_max &&
        !make_space(queue, work->client))
        return false;
    work->end = HS_WORK_DONE;
    atomic_store(&work->cancelled, 0);
    work->turn = turn_of(queue, work->client);
    insert(queue, work, work->turn + 1);
    count_waiting(work, 1);
    return true;
}

hs_work *hs__work_queue_next(const hs_work_queue *queue)
{
    hs_work *work = queue->first;
    while (work && !may_run(queue, work->client))
        work = work->next;
    return work;
}

/* The turns of items that come later follow from those that run. */
static void turn_begin(hs_work_queue *queue, const hs_work *work)
{
    if (work->turn > queue->turn)
        queue->turn = work->turn;
}

void hs__work_queue_take(hs_work_queue *queue, hs_work *work)
{
    hs__work_queue_borrow(queue, work);
    work->borrowed = false;
    count_waiting(work, -1);
    turn_begin(queue, work);
}

void hs__work_queue_borrow(hs_work_queue *queue, hs_work *work)
{
    assert(work->state == HS_WORK_WAITING);
    take_out(queue, work);
    work->state = HS_WORK_RUNNING;
    work->borrowed = true;
    count_running(work, 1);
}

void hs__work_queue_return(hs_work_queue *queue, hs_work *work)
{
    assert(work->state == HS_WORK_RUNNING && work->borrowed);
    count_running(work, -1);
    work->borrowed = false;
    insert(queue, work, work->turn);
    if (work->end != HS_WORK_DONE)
        drop(queue, work, work->end);
}

void hs__work_finish(hs_work_queue *queue, hs_work *work)
{
    assert(work->state == HS_WORK_RUNNING);
    work->state = HS_WORK_OUTSIDE;
    count_running(work, -1);
    if (!work->borrowed)
        return;
    work->borrowed = false;
    count_waiting(work, -1);
    turn_begin(queue, work);
}

bool hs__work_cancel(hs_work_queue *queue, hs_work *work, hs_work_end end)
{
    if (work->state == HS_WORK_OUTSIDE || work->end != HS_WORK_DONE)
        return false;
    if (work->state == HS_WORK_WAITING) {
        drop(queue, work, end);
        return false;
    }
    work->end = end;
    atomic_store(&work->cancelled, 1);
    return true;
}
