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
    hs__work_finish(&call->work);
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
 * hs_job_run decides which texts share one.
 *
 * No text attends to another, and the default backend sums each row in the same order in every pass. So the
 * answers do not depend on the batch.
 *
 * Makes jobs of a batch's requests, runs them together and answers each. */

/* Answers a body of lines. If it is cancelled, the remaining lines get 504. */
static void lines_answer(hs_api *api, hs_task *task, size_t n_threads)
{
    const hs_run_control control = {.cancelled = &task->work.cancelled, .n_threads = n_threads};
    hs_lines_answer(api, &task->request, task->patient, &control, &task->response, &task->n_bytes);
}

/* Creates a job; NULL if memory is short. beside: this thread has other jobs already, so the new one must not
 * wait for memory. */
static hs_job *job_beside(hs_api *api, hs_request *request, bool beside)
{
    request->beside = beside;
    hs_job *job = hs_job_create(api, request);
    if (!job || !hs_job_crowded(job))
        return job;
    hs_job_destroy(job);
    return NULL;
}

/* Fills the responses of n <= HS_BATCH_MAX tasks, except cancelled ones. control is that of shared passes;
 * each task's `cancelled` ends its own work. Returns the number of tasks that shared a pass. Any thread. */
static size_t batch_answer(hs_api *api, hs_task *const *tasks, size_t n, const hs_run_control *control)
{
    hs_job *jobs[HS_BATCH_MAX] = {0};
    for (size_t i = 0; i < n; i++)
        if (tasks[i]->lines)
            lines_answer(api, tasks[i], control->n_threads);
    for (size_t i = 0; i < n; i++)
        if (!tasks[i]->lines && !atomic_load(&tasks[i]->work.cancelled))
            jobs[i] = job_beside(api, &tasks[i]->request, i > 0);
    const size_t n_shared = hs_job_run(jobs, n, control);
    bool alone[HS_BATCH_MAX] = {0};
    for (size_t i = 0; i < n; i++) {
        const bool batchable = !tasks[i]->lines && !atomic_load(&tasks[i]->work.cancelled);
        if (batchable && jobs[i])
            hs_job_answer(jobs[i], &tasks[i]->response);
        alone[i] = batchable && !jobs[i];
        hs_job_destroy(jobs[i]);
    }
    for (size_t i = 0; i < n; i++)
        if (alone[i]) { /* memory was short beside the other jobs */
            tasks[i]->request.beside = false;
            hs_api_handle(api, &tasks[i]->request, &tasks[i]->response);
        }
    return n_shared;
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
    const hs_run_control control = {.cancelled = &batch->cancelled, .n_threads = batch->n_threads};
    batch->n_shared = batch_answer(batch->tasks->api, batch->members, batch->n_members, &control);
}

static void on_batch_done(uv_work_t *work, int status);

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
    uv_queue_work(tasks->loop, &batch->work, on_worker, on_batch_done);
}

static void tasks_serve(hs_tasks *tasks)
{
    while (hs__work_queue_next(&tasks->queue) && tasks->n_idle) {
        hs_batch *batch = tasks->idle[--tasks->n_idle];
        batch_fill(tasks, batch);
        batch_start(tasks, batch);
    }
}

static void on_batch_done(uv_work_t *work, int status)
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
    tasks_serve(tasks);
}

bool hs__tasks_submit(hs_tasks *tasks, hs_task *task)
{
    if (!hs__work_queue_add(&tasks->queue, &task->work, tasks->n_idle > 0))
        return false;
    task->tasks = tasks;
    task->queued_ns = hs_clock_ns();
    task->started_ns = 0;
    task->request.cancelled = &task->work.cancelled;
    tasks_serve(tasks);
    return true;
}

void hs__tasks_cancel(hs_task *task, hs_work_end end)
{
    const bool running = task->tasks && hs__work_cancel(&task->tasks->queue, &task->work, end);
    if (running && --task->batch->n_unended == 0)
        atomic_store(&task->batch->cancelled, 1);
}
