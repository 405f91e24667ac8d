/* disk.c - a FIFO queue in front of HS_DISK_THREADS threads of libuv's pool. */
#include "server/http/disk.h"

static void queue_serve(hs_disk *disk);

static void on_thread(uv_work_t *request)
{
    hs_disk_call *call = request->data;
    call->work(call);
}

static void on_loop(uv_work_t *request, int status)
{
    hs_disk_call *call = request->data;
    hs_disk *disk = call->disk;
    (void)status; /* uv_cancel is never used */
    disk->n_running--;
    call->done(call);
    queue_serve(disk);
}

static void queue_serve(hs_disk *disk)
{
    while (disk->first && disk->n_running < HS_DISK_THREADS) {
        hs_disk_call *call = disk->first;
        disk->first = call->next;
        disk->n_running++;
        call->request.data = call;
        uv_queue_work(disk->loop, &call->request, on_thread, on_loop);
    }
}

void hs__disk_submit(hs_disk *disk, hs_disk_call *call)
{
    call->disk = disk;
    call->next = NULL;
    *(disk->first ? &disk->last->next : &disk->first) = call;
    disk->last = call;
    queue_serve(disk);
}
