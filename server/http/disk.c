/* disk.c - a queue in front of HS_DISK_THREADS threads of libuv's pool. */
#include "server/http/disk.h"

static hs_disk_call *call_of(hs_work *work)
{
    return (hs_disk_call *)(void *)((char *)work - offsetof(hs_disk_call, work));
}

static void on_dropped(hs_work *work)
{
    hs_disk_call *call = call_of(work);
    call->done(call);
}

void hs__disk_init(hs_disk *disk, uv_loop_t *loop)
{
    *disk = (hs_disk){.loop = loop,
                      .queue = {.waiting_max = HS_DISK_WAITING_MAX,
                                .client_running_max = HS_DISK_THREADS - 1,
                                .dropped = on_dropped}};
}

static void queue_serve(hs_disk *disk);

static void on_thread(uv_work_t *request)
{
    hs_disk_call *call = request->data;
    call->run(call);
}

static void on_loop(uv_work_t *request, int status)
{
    hs_disk_call *call = request->data;
    hs_disk *disk = call->disk;
    (void)status; /* uv_cancel is never used */
    disk->n_running--;
    hs__work_finish(&call->work);
    call->done(call);
    queue_serve(disk);
}

static void queue_serve(hs_disk *disk)
{
    hs_work *next;
    while (disk->n_running < HS_DISK_THREADS && (next = hs__work_queue_next(&disk->queue))) {
        hs_disk_call *call = call_of(next);
        hs__work_queue_take(&disk->queue, next);
        disk->n_running++;
        call->ran = true;
        call->request.data = call;
        uv_queue_work(disk->loop, &call->request, on_thread, on_loop);
    }
}

static bool submit(hs_disk *disk, hs_disk_call *call)
{
    call->disk = disk;
    call->ran = false;
    if (!hs__work_queue_add(&disk->queue, &call->work, disk->n_running < HS_DISK_THREADS))
        return false;
    queue_serve(disk);
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

void hs__disk_cancel(hs_disk_call *call, hs_work_end end)
{
    if (call->disk)
        (void)hs__work_cancel(&call->disk->queue, &call->work, end);
}
