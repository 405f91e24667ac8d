/* tasks.c - work off the event loop: requests for workers, calls of the disk. */
#include "server/http/tasks.h"

#include "model/base/clock.h"

#include <stdlib.h>

/* ---- disk ----
 *
 * A queue in front of HS_DISK_THREADS threads of libuv's pool. */

static hs_disk_call *call_of(hs_work *work)
{
    return (hs_disk_call *)(void *)((char *)work - offsetof(hs_disk_call, work));
}

static void on_call_dropped(hs_work *work)
{
    hs_disk_call *call = call_of(work);
    call->done(call);
}

void hs__disk_init(hs_disk *disk, uv_loop_t *loop)
{
    *disk = (hs_disk){.loop = loop,
                      .queue = {.waiting_max = HS_DISK_WAITING_MAX,
                                .client_running_max = HS_DISK_THREADS - 1,
                                .dropped = on_call_dropped}};
}

static void calls_serve(hs_disk *disk);

static void on_thread(uv_work_t *request)
{
    hs_disk_call *call = request->data;
    call->run(call);
}

static void on_call_done(uv_work_t *request, int status)
{
    hs_disk_call *call = request->data;
    hs_disk *disk = call->disk;
    (void)status; /* uv_cancel is never used */
    disk->n_running--;
    hs__work_finish(&disk->queue, &call->work);
    call->done(call);
    calls_serve(disk);
}

static void calls_serve(hs_disk *disk)
{
    hs_work *next;
    while (disk->n_running < HS_DISK_THREADS && (next = hs__work_queue_next(&disk->queue))) {
        hs_disk_call *call = call_of(next);
        hs__work_queue_take(&disk->queue, next);
        disk->n_running++;
        call->ran = true;
        call->request.data = call;
        uv_queue_work(disk->loop, &call->request, on_thread, on_call_done);
    }
}

static bool submit(hs_disk *disk, hs_disk_call *call)
{
    call->disk = disk;
    call->ran = false;
    if (!hs__work_queue_add(&disk->queue, &call->work, disk->n_running < HS_DISK_THREADS))
        return false;
    calls_serve(disk);
    return true;
}

bool hs__disk_submit(hs_disk *disk, hs_disk_call *call)
{
    return submit(disk, call);
}

void hs__disk_continue(hs_disk *disk, hs_disk_call *call)
{
    call->work.admitted = true;
    (void)submit(disk, call);
}

/* ---- batch ----
 *
 * Answers several requests on one worker, short texts in one pass.
 *
 * A short text alone reads every weight from memory for a few rows. Texts in one pass read them once.
 * hs_job_joins decides which texts share one.
 *
 * No text attends to another, and the default backend sums each row in the same order in every pass. So the
 * answers do not depend on the batch.
 *
 * The members of a batch are answered when all are, so only requests that add little to its time are
 * computed. The others go back to the queue. A batch whose first request is long returns all others before
 * that one is computed. */

/* Creates a job that must not keep the worker; NULL if it would, or if memory is short. */
static hs_job *job_beside(hs_api *api, hs_task *task)
{
    task->request.beside = true;
    hs_job *job = hs_job_create(api, &task->request);
    task->request.beside = false;
    if (!job || !hs_job_crowded(job))
        return job;
    hs_job_destroy(job);
    return NULL;
}

/* Creates the jobs of the members that are computed together, and decides what becomes of the others. Returns
 * the number of jobs. */
static size_t members_choose(hs_api *api, hs_batch *batch, hs_job *jobs[HS_BATCH_MAX],
                             hs_task *computed[HS_BATCH_MAX])
{
    size_t n = 0;
    bool full = false;
    for (size_t i = 0; i < batch->n_members; i++) {
        hs_task *task = batch->members[i];
        task->fate = full ? HS_TASK_RETURNED : HS_TASK_DONE;
        if (full || atomic_load(&task->work.cancelled))
            continue;
        jobs[n] = job_beside(api, task);
        computed[n] = task;
        if (jobs[n] && hs_job_joins(jobs, n + 1)) {
            n++;
            continue;
        }
        full = n == 0; /* it is long, and computed next */
        task->fate = full ? HS_TASK_KEPT : HS_TASK_RETURNED;
        task->alone = !jobs[n];
        if (full)
            batch->job = jobs[n];
        else
            hs_job_destroy(jobs[n]);
    }
    return n;
}

/* Fills the responses of the members that are computed together. */
static void members_answer(hs_api *api, hs_batch *batch)
{
    const hs_run_control control = {.cancelled = &batch->cancelled, .n_threads = batch->n_threads};
    hs_job *jobs[HS_BATCH_MAX] = {0};
    hs_task *computed[HS_BATCH_MAX] = {0};
    const size_t n = members_choose(api, batch, jobs, computed);
    batch->n_shared = hs_job_run(jobs, n, &control);
    for (size_t i = 0; i < n; i++) {
        if (!atomic_load(&computed[i]->work.cancelled))
            hs_job_answer(jobs[i], &computed[i]->response);
        hs_job_destroy(jobs[i]);
    }
}

/* Fills the response of the only member, whose job may exist. */
static void member_answer(hs_api *api, hs_batch *batch)
{
    hs_task *task = batch->members[0];
    hs_job *job = batch->job;
    const hs_run_control control = {.cancelled = &task->work.cancelled, .n_threads = batch->n_threads};
    batch->job = NULL;
    batch->n_shared = 0;
    task->fate = HS_TASK_DONE;
    if (task->lines) {
        hs_lines_answer(api, &task->request, task->patient, &control, &task->response, &task->n_bytes);
    } else if (job) {
        hs_job_run(&job, 1, &control);
        hs_job_answer(job, &task->response);
        hs_job_destroy(job);
    } else if (!atomic_load(&task->work.cancelled)) {
        hs_api_handle(api, &task->request, &task->response);
    }
}

/* ---- tasks ----
 *
 * A queue in front of the model workers; a full queue refuses with 503. */

static hs_task *task_of(hs_work *work)
{
    return (hs_task *)(void *)((char *)work - offsetof(hs_task, work));
}

static void on_task_dropped(hs_work *work)
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
                                   .dropped = on_task_dropped};
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

static void on_worker(uv_work_t *work)
{
    hs_batch *batch = work->data;
    (batch->n_members > 1 ? members_answer : member_answer)(batch->tasks->api, batch);
}

static void on_batch_done(uv_work_t *work, int status);

/* Returns true if the task may be tried beside others in a batch whose bodies have n_bytes. */
static bool may_join(const hs_task *task, size_t n_bytes)
{
    return !task->lines && !task->alone && n_bytes + task->request.body_bytes <= HS_BATCH_BYTES;
}

/* Takes the first waiting task and short ones after it, at most the queue divided by the workers, so that
 * each worker gets some. */
static void batch_fill(hs_tasks *tasks, hs_batch *batch)
{
    const size_t n_workers = tasks->options.n_workers;
    const size_t fair = (tasks->queue.n_waiting + n_workers - 1) / n_workers;
    const size_t most = fair < tasks->options.batch_max ? fair : tasks->options.batch_max;
    hs_work *next = hs__work_queue_next(&tasks->queue);
    size_t n_bytes = task_of(next)->request.body_bytes;
    bool joins = may_join(task_of(next), 0);
    hs__work_queue_take(&tasks->queue, next);
    batch->members[0] = task_of(next);
    batch->n_members = 1;
    while (joins && batch->n_members < most && (next = hs__work_queue_next(&tasks->queue)) &&
           may_join(task_of(next), n_bytes)) {
        n_bytes += task_of(next)->request.body_bytes;
        hs__work_queue_borrow(&tasks->queue, next);
        batch->members[batch->n_members++] = task_of(next);
    }
}

/* Gives the members to the worker. */
static void batch_run(hs_batch *batch)
{
    batch->n_unended = 0;
    for (size_t i = 0; i < batch->n_members; i++)
        batch->n_unended += batch->members[i]->work.end == HS_WORK_DONE;
    atomic_store(&batch->cancelled, batch->n_unended == 0);
    batch->work.data = batch;
    /* uv_queue_work fails only without a work callback. */
    uv_queue_work(batch->tasks->loop, &batch->work, on_worker, on_batch_done);
}

static void batch_start(hs_tasks *tasks, hs_batch *batch)
{
    const uint64_t now = hs_clock_ns();
    const size_t n_cores = tasks->options.n_cores;
    tasks->n_running++;
    batch->tasks = tasks;
    /* Each batch may use the cores on which no other batch computes. */
    batch->n_threads = n_cores > tasks->n_running ? n_cores - tasks->n_running + 1 : 1;
    for (size_t i = 0; i < batch->n_members; i++) {
        hs_task *task = batch->members[i];
        task->batch = batch;
        task->started_ns = now;
        task->request.n_threads = batch->n_threads;
    }
    batch_run(batch);
}

static void tasks_serve(hs_tasks *tasks)
{
    while (hs__work_queue_next(&tasks->queue) && tasks->n_idle) {
        hs_batch *batch = tasks->idle[--tasks->n_idle];
        batch_fill(tasks, batch);
        batch_start(tasks, batch);
    }
}

/* Lists the members with a fate. Returns their number. */
static size_t members_list(const hs_batch *batch, hs_task_fate fate, hs_task *ret_members[HS_BATCH_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < batch->n_members; i++)
        if (batch->members[i]->fate == fate)
            ret_members[n++] = batch->members[i];
    return n;
}

/* Puts tasks back into the queue, the last one first, so that they keep their order. */
static void tasks_return(hs_tasks *tasks, hs_task *const *returned, size_t n)
{
    while (n-- > 0) {
        returned[n]->started_ns = 0;
        hs__work_queue_return(&tasks->queue, &returned[n]->work);
    }
}

/* Goes on with the member that is computed next, or with NULL makes the worker idle. */
static void batch_next(hs_tasks *tasks, hs_batch *batch, hs_task *kept)
{
    if (!kept) {
        tasks->n_running--;
        tasks->idle[tasks->n_idle++] = batch;
        return;
    }
    batch->members[0] = kept;
    batch->n_members = 1;
    batch_run(batch);
}

static void on_batch_done(uv_work_t *work, int status)
{
    hs_batch *batch = work->data;
    hs_tasks *tasks = batch->tasks;
    hs_task *done[HS_BATCH_MAX], *returned[HS_BATCH_MAX], *kept[HS_BATCH_MAX] = {NULL};
    const size_t n_done = members_list(batch, HS_TASK_DONE, done);
    const size_t n_returned = members_list(batch, HS_TASK_RETURNED, returned);
    (void)members_list(batch, HS_TASK_KEPT, kept); /* one at most */
    (void)status;                                  /* uv_cancel is never used */
    tasks->n_shared += batch->n_shared;
    for (size_t i = 0; i < n_done; i++)
        hs__work_finish(&tasks->queue, &done[i]->work);
    batch_next(tasks, batch, kept[0]);
    tasks_return(tasks, returned, n_returned);
    for (size_t i = 0; i < n_done; i++)
        done[i]->done(done[i]); /* which may fill the batch again */
    tasks_serve(tasks);
}

/* Asks the submitter for an answer's memory. A task that returned to the queue has it already. */
static bool hold_once(void *data, size_t n_bytes)
{
    hs_task *task = data;
    if (n_bytes > task->n_held && !task->hold(task->hold_data, n_bytes - task->n_held))
        return false;
    task->n_held = n_bytes > task->n_held ? n_bytes : task->n_held;
    return true;
}

bool hs__tasks_submit(hs_tasks *tasks, hs_task *task)
{
    if (!hs__work_queue_add(&tasks->queue, &task->work, tasks->n_idle > 0))
        return false;
    task->tasks = tasks;
    task->queued_ns = hs_clock_ns();
    task->started_ns = 0;
    task->request.cancelled = &task->work.cancelled;
    task->alone = false;
    if (task->request.hold && !task->lines) {
        task->n_held = 0;
        task->hold = task->request.hold;
        task->hold_data = task->request.hold_data;
        task->request.hold = hold_once;
        task->request.hold_data = task;
    }
    tasks_serve(tasks);
    return true;
}

void hs__tasks_cancel(hs_task *task, hs_work_end end)
{
    const bool running = task->tasks && hs__work_cancel(&task->tasks->queue, &task->work, end);
    if (running && --task->batch->n_unended == 0)
        atomic_store(&task->batch->cancelled, 1);
}
