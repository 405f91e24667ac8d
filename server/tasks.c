#include "server/tasks.h"

#include <stdlib.h>

hs_status hs__tasks_init(hs_tasks *tasks, uv_loop_t *loop, hs_api *api, size_t n_workers, size_t n_cores,
                         size_t queue_max, hs_error *err)
{
    hs_status st = HS_OK;
    *tasks = (hs_tasks){.loop = loop, .api = api, .n_cores = n_cores, .queue_max = queue_max};
    tasks->idle = calloc(n_workers, sizeof(hs_api_worker *));
    if (!tasks->idle)
        return hs_fail(err, HS_NO_MEMORY, "making %zu workers", n_workers);
    while (!st && tasks->n_idle < n_workers) {
        st = hs_api_worker_create(api, &tasks->idle[tasks->n_idle], err);
        tasks->n_idle += !st;
    }
    tasks->n_workers = tasks->n_idle;
    if (st)
        hs__tasks_finish(tasks);
    return st;
}

void hs__tasks_finish(hs_tasks *tasks)
{
    while (tasks->n_idle)
        hs_api_worker_destroy(tasks->idle[--tasks->n_idle]);
    free(tasks->idle);
    *tasks = (hs_tasks){0};
}

static void queue_append(hs_tasks *tasks, hs_task *task)
{
    task->state = HS_TASK_QUEUED;
    task->next = NULL;
    task->previous = tasks->last;
    *(tasks->last ? &tasks->last->next : &tasks->first) = task;
    tasks->last = task;
    tasks->n_queued++;
}

static void queue_remove(hs_tasks *tasks, hs_task *task)
{
    *(task->previous ? &task->previous->next : &tasks->first) = task->next;
    *(task->next ? &task->next->previous : &tasks->last) = task->previous;
    task->state = HS_TASK_OUTSIDE;
    tasks->n_queued--;
}

static void on_worker(uv_work_t *work)
{
    hs_task *task = work->data;
    if (!atomic_load(&task->cancelled))
        hs_api_handle(task->tasks->api, task->worker, &task->request, &task->response);
}

static void on_loop(uv_work_t *work, int status);

static void task_start(hs_tasks *tasks, hs_task *task)
{
    tasks->n_running++;
    task->state = HS_TASK_RUNNING;
    task->worker = tasks->idle[--tasks->n_idle];
    task->started_ns = uv_hrtime();
    /* A lone request may use every core that no other one computes on. */
    task->request.n_threads = tasks->n_cores > tasks->n_running ? tasks->n_cores - tasks->n_running + 1 : 1;
    task->work.data = task;
    /* Fails only without a work callback, says its documentation. */
    uv_queue_work(tasks->loop, &task->work, on_worker, on_loop);
}

static void queue_serve(hs_tasks *tasks)
{
    while (tasks->first && tasks->n_idle && !tasks->paused) {
        hs_task *task = tasks->first;
        queue_remove(tasks, task);
        task_start(tasks, task);
    }
}

static void on_loop(uv_work_t *work, int status)
{
    hs_task *task = work->data;
    hs_tasks *tasks = task->tasks;
    (void)status; /* we never uv_cancel */
    tasks->idle[tasks->n_idle++] = task->worker;
    tasks->n_running--;
    task->state = HS_TASK_OUTSIDE;
    task->done(task); /* first: what becomes of the answer may pause us */
    queue_serve(tasks);
}

bool hs__tasks_submit(hs_tasks *tasks, hs_task *task)
{
    const bool at_once = tasks->n_idle && !tasks->first && !tasks->paused;
    if (!at_once && tasks->n_queued >= tasks->queue_max)
        return false;
    task->tasks = tasks;
    task->queued_ns = uv_hrtime();
    task->started_ns = 0;
    task->end = HS_TASK_DONE;
    atomic_store(&task->cancelled, 0);
    task->request.cancelled = &task->cancelled;
    queue_append(tasks, task);
    queue_serve(tasks);
    return true;
}

void hs__tasks_pause(hs_tasks *tasks, bool paused)
{
    tasks->paused = paused;
    queue_serve(tasks);
}

void hs__tasks_cancel(hs_task *task, hs_task_end end)
{
    if (task->state == HS_TASK_OUTSIDE || task->end != HS_TASK_DONE)
        return;
    task->end = end;
    atomic_store(&task->cancelled, 1);
    if (task->state == HS_TASK_QUEUED) {
        queue_remove(task->tasks, task);
        task->done(task);
    }
}
