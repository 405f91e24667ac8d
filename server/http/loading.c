/* loading.c - the thread fills server->loading; the loop then takes it over in one step. */
#include "server/http/loading.h"

static void load(uv_work_t *work)
{
    hs_server *server = work->data;
    hs_loading *loading = &server->loading;
    const hs_server_options *o = server->options;
    if (hs__catalog_open(&o->catalog, &loading->catalog, &loading->error))
        return;
    const hs_tasks_options options = {
        .n_workers = o->n_workers,
        .n_cores = server->n_cores,
        .queue_max = o->queue_max,
        .batch_max = o->batch_max ? o->batch_max : HS_BATCH_MAX,
    };
    if (hs__tasks_init(&loading->tasks, &server->loop, loading->catalog.api, &options, &loading->error))
        hs__catalog_close(&loading->catalog);
}

static void hash(uv_work_t *work)
{
    hs_server *server = work->data;
    hs_api_hash_models(server->catalog.api);
}

static void on_hashed(uv_work_t *work, int status)
{
    (void)work, (void)status;
}

static void on_loaded(uv_work_t *work, int status)
{
    hs_server *server = work->data;
    hs_loading *loading = &server->loading;
    (void)status;
    loading->running = false;
    server->tasks = loading->tasks;
    server->catalog = loading->catalog;
    loading->loaded(server);
    if (server->state == HS_SERVER_SERVING)
        uv_queue_work(&server->loop, &loading->work, hash, on_hashed);
}

void hs__loading_start(hs_server *server, void (*loaded)(hs_server *server))
{
    hs_loading *loading = &server->loading;
    loading->running = true;
    loading->loaded = loaded;
    loading->work.data = server;
    uv_queue_work(&server->loop, &loading->work, load, on_loaded);
}
