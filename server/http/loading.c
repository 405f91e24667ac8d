/* loading.c - the thread fills server->loading; the loop then takes it over in one step. */
#include "server/http/loading.h"

#include "server/base/log.h"
#include "server/hub/hub_pull.h"

static bool is_stopped(void *data)
{
    hs_loading *loading = data;
    return atomic_load(&loading->stopped);
}

/* Fetches the models of the command line that are given by a name of the hub and not in the cache. */
static hs_status pull_missing(hs_loading *loading, const hs_catalog_options *options, hs_error *err)
{
    const hs__pull_watch silent = {.stop = is_stopped, .data = loading};
    hs_status st = HS_OK;
    for (size_t i = 0; i < hs__catalog_places(options) && !st; i++) {
        const hs_model_place *place = hs__catalog_place(options, i);
        char dir[PATH_MAX];
        hs_hub_name name;
        if (!place->n_dir || !hs_hub_name_parse(place->dir, place->n_dir, &name) ||
            !hs__model_place_dir(place, dir, NULL))
            continue;
        hs__log("info", "fetching %s from the hub", name.repository);
        st = hs__hub_pull(&name, &silent, dir, err);
    }
    return st;
}

static void load(uv_work_t *work)
{
    hs_server *server = work->data;
    hs_loading *loading = &server->loading;
    const hs_server_options *o = server->options;
    if (o->pull && pull_missing(loading, &o->catalog, &loading->error))
        return;
    if (hs__catalog_open(&o->catalog, &loading->api, &loading->error))
        return;
    const hs_tasks_options options = {
        .n_workers = o->n_workers,
        .n_cores = server->n_cores,
        .queue_max = o->queue_max,
        .client_running_max = o->address_running_max,
        .batch_max = o->batch_max ? o->batch_max : HS_BATCH_MAX,
    };
    if (hs__tasks_init(&loading->tasks, &server->loop, loading->api, &options, &loading->error)) {
        hs_api_destroy(loading->api);
        loading->api = NULL;
    }
}

static void hash(uv_work_t *work)
{
    hs_server *server = work->data;
    hs_api_hash_models(server->api);
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
    if (loading->error.status == HS_CANCELLED)
        loading->error = (hs_error){0}; /* the server stops in order */
    server->tasks = loading->tasks;
    server->api = loading->api;
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
