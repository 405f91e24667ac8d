/* tasks.c - a queue in front of the model workers; a full queue refuses with 503. */
#include "server/http/tasks.h"

#include "model/base/clock.h"
#include "server/http/batch.h"

#include <stdlib.h>
#include <sys/resource.h>

enum { YIELD = 10 }; /* niceness: a tenth of the loop's weight */

static hs_task *task_of(hs_work *work)
{
    return (hs_task *)(void *)((char *)work - offsetof(hs_task, work));
}

static void on_dropped(hs_work *work)
{
    hs_task *task = task_of(work);
    task->done(task);
}

hs_status hs__tasks_init(hs_tasks *tasks, uv_loop_t *loop, hs_api *api, const hs_tasks_options *options,
                         hs_error *err)
{
    const size_t n_workers = options->n_workers;
    *tasks = (hs_tasks){.loop = loop, .api = api, .options = *options};
    tasks->queue = (hs_work_queue){.waiting_max = options->queue_max,
                                   .client_running_max = options->client_running_max,
                                   .dropped = on_dropped};
    tasks->batches = calloc(n_workers, sizeof *tasks->batches);
    tasks->idle = calloc(n_workers, sizeof(hs_batch *));
    if (!tasks->batches || !tasks->idle) {
        free(tasks->batches);
        free(tasks->idle);
        *tasks = (hs_tasks){0};
        return hs_fail(err, HS_NO_MEMORY, "no memory for %zu workers", n_workers);
    }
    for (; tasks->n_idle < n_workers; tasks->n_idle++)
        tasks->idle[tasks->n_idle] = &tasks->batches[tasks->n_idle];
    return HS_OK;
}

void hs__tasks_finish(hs_tasks *tasks)
{
    free(tasks->idle);
    free(tasks->batches);
    *tasks = (hs_tasks){0};
}

/* Gives workers a lower priority than the event loop. With all cores busy, the loop would otherwise wait for
 * a whole time slice. On Linux the priority is the calling thread's, and pool threads keep it. */
static void yield_to_loop(void)
{
    static _Thread_local bool yielded;
    if (!yielded)
        (void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + YIELD);
    yielded = true;
}

static void on_worker(uv_work_t *work)
{
    hs_batch *batch = work->data;
    yield_to_loop();
    const hs_run_control control = {.cancelled = &batch->cancelled, .n_threads = batch->n_threads};
    batch->n_shared = hs__batch_answer(batch->tasks->api, batch->members, batch->n_members, &control);
}

static void on_loop(uv_work_t *work, int status);

/* Takes the first waiting task and short ones after it, at most the queue divided by the workers, so that
 * each worker gets some. */
static void batch_fill(hs_tasks *tasks, hs_batch *batch)
{
    const size_t n_workers = tasks->options.n_workers;
    const size_t fair = (tasks->queue.n_waiting + n_workers - 1) / n_workers;
    const size_t most = fair < tasks->options.batch_max ? fair : tasks->options.batch_max;
    size_t n_bytes = 0;
    hs_work *next = hs__work_queue_next(&tasks->queue);
    batch->n_members = 0;
    do {
        hs_task *task = task_of(next);
        n_bytes += task->request.body_bytes;
        hs__work_queue_take(&tasks->queue, next);
        batch->members[batch->n_members++] = task;
        next = hs__work_queue_next(&tasks->queue);
    } while (next && batch->n_members < most &&
             n_bytes + task_of(next)->request.body_bytes <= HS_BATCH_BYTES);
}

static void batch_start(hs_tasks *tasks, hs_batch *batch)
{
    const uint64_t now = hs_clock_ns();
    const size_t n_cores = tasks->options.n_cores;
    tasks->n_running++;
    batch->tasks = tasks;
    batch->n_unended = batch->n_members;
    atomic_store(&batch->cancelled, 0);
    /* Each batch may use the cores on which no other batch computes. */
    batch->n_threads = n_cores > tasks->n_running ? n_cores - tasks->n_running + 1 : 1;
    for (size_t i = 0; i < batch->n_members; i++) {
        hs_task *task = batch->members[i];
        task->batch = batch;
        task->started_ns = now;
        task->request.n_threads = batch->n_threads;
    }
    batch->work.data = batch;
    /* uv_queue_work fails only without a work callback. */
    uv_queue_work(tasks->loop, &batch->work, on_worker, on_loop);
}

static void queue_serve(hs_tasks *tasks)
{
    while (hs__work_queue_next(&tasks->queue) && tasks->n_idle) {
        hs_batch *batch = tasks->idle[--tasks->n_idle];
        batch_fill(tasks, batch);
        batch_start(tasks, batch);
    }
}

static void on_loop(uv_work_t *work, int status)
{
    hs_batch *batch = work->data;
    hs_tasks *tasks = batch->tasks;
    const size_t n_members = batch->n_members;
    (void)status; /* uv_cancel is never used */
    tasks->n_running--;
    tasks->n_shared += batch->n_shared;
    for (size_t i = 0; i < n_members; i++) {
        hs_task *task = batch->members[i];
        if (i + 1 == n_members)
            tasks->idle[tasks->n_idle++] = batch; /* the batch may be filled again from here on */
        hs__work_finish(&task->work);
        task->done(task);
    }
    queue_serve(tasks);
}

bool hs__tasks_submit(hs_tasks *tasks, hs_task *task)
{
    if (!hs__work_queue_add(&tasks->queue, &task->work, tasks->n_idle > 0))
        return false;
    task->tasks = tasks;
    task->queued_ns = hs_clock_ns();
    task->started_ns = 0;
    task->request.cancelled = &task->work.cancelled;
    queue_serve(tasks);
    return true;
}

void hs__tasks_cancel(hs_task *task, hs_work_end end)
{
    const bool running = task->tasks && hs__work_cancel(&task->tasks->queue, &task->work, end);
    if (running && --task->batch->n_unended == 0)
        atomic_store(&task->batch->cancelled, 1);
}
