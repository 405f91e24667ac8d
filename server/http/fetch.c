/* fetch.c - the thread that fetches a model, and the swap on the loop. */
#include "server/http/fetch.h"

#include "server/base/log.h"
#include "server/base/memory_left.h"
#include "server/http/service.h"
#include "server/hub/hub_pull.h"

#include <stdio.h>
#include <string.h>

void hs__fetch_init(hs_fetch *fetch)
{
    pthread_mutex_init(&fetch->lock, NULL);
}

void hs__fetch_finish(hs_fetch *fetch)
{
    hs__catalog_model_close(&fetch->model);
    pthread_mutex_destroy(&fetch->lock);
}

void hs__fetch_progress_read(hs_fetch *fetch, hs_fetch_progress *ret)
{
    pthread_mutex_lock(&fetch->lock);
    *ret = fetch->progress;
    pthread_mutex_unlock(&fetch->lock);
}

static void state_set(hs_fetch *fetch, hs_fetch_state state, const char *error)
{
    pthread_mutex_lock(&fetch->lock);
    fetch->progress.state = state;
    *fetch->progress.file = '\0';
    snprintf(fetch->progress.error, sizeof fetch->progress.error, "%s", error);
    pthread_mutex_unlock(&fetch->lock);
}

void hs__fetch_cancel(hs_fetch *fetch)
{
    if (fetch->running)
        atomic_store(&fetch->cancelled, 1);
}

/* ---- on the thread ---- */

static void on_bytes(void *data, const char *file, uint64_t n_bytes, uint64_t n_bytes_all,
                     uint64_t n_received)
{
    hs_fetch *fetch = data;
    hs_fetch_progress *p = &fetch->progress;
    pthread_mutex_lock(&fetch->lock);
    snprintf(p->file, sizeof p->file, "%s", file);
    p->n_bytes = n_bytes;
    p->n_bytes_all = n_bytes_all;
    p->n_received = fetch->before + n_received;
    pthread_mutex_unlock(&fetch->lock);
}

static bool is_cancelled(void *data)
{
    hs_fetch *fetch = data;
    return atomic_load(&fetch->cancelled);
}

static void on_file(void *data, const char *file, uint64_t n_bytes)
{
    hs_fetch *fetch = data;
    (void)file, (void)n_bytes;
    fetch->before = fetch->progress.n_received;
}

/* Refuses a model whose weights and their packed copy do not fit into memory. */
static hs_status memory_check(const hs_model *model, hs_error *err)
{
    const uint64_t needed = hs_model_bytes(model), available = hs__memory_available();
    if (needed < available)
        return HS_OK;
    return hs_fail(err, HS_TOO_LARGE, "the model needs %.1f GB of memory, and %.1f GB are free",
                   (double)needed / 1e9, (double)available / 1e9);
}

static hs_status model_fetch(hs_fetch *fetch, hs_error *err)
{
    const hs__pull_watch watch = {
        .progress = on_bytes, .file_done = on_file, .stop = is_cancelled, .data = fetch};
    const hs_catalog_options *options = &fetch->server->options->catalog;
    char dir[PATH_MAX];
    hs_hub_name name;
    hs_model *model = NULL;
    hs_status st = HS_OK;
    if (fetch->place.n_dir && hs_hub_name_parse(fetch->place.dir, fetch->place.n_dir, &name))
        st = hs__hub_pull(&name, &watch, dir, err);
    if (st)
        return st;
    state_set(fetch, HS_FETCH_LOADING, "");
    st = hs__model_place_open(&fetch->place, &model, err);
    if (!st)
        st = memory_check(model, err);
    hs_model_close(model);
    if (!st && atomic_load(&fetch->cancelled))
        st = hs_fail(err, HS_CANCELLED, "cancelled");
    return st ? st : hs__catalog_model_open(options, &fetch->place, &fetch->model, err);
}

static void fetch_work(uv_work_t *work)
{
    hs_fetch *fetch = work->data;
    fetch->error = (hs_error){0};
    (void)model_fetch(fetch, &fetch->error);
}

static void dispose_work(uv_work_t *work)
{
    hs_fetch *fetch = work->data;
    hs__catalog_model_close(&fetch->model);
    hs_api_hash_models(fetch->server->catalog.api);
}

/* ---- on the loop ---- */

/* Tells the outcome. From now on the next change may begin. */
static void on_disposed(uv_work_t *work, int status)
{
    hs_fetch *fetch = work->data;
    const hs_error *err = &fetch->error;
    (void)status;
    fetch->running = false;
    if (fetch->removed)
        fetch->removed(fetch->removed_data, err->status, err);
    else if (err->status == HS_CANCELLED)
        state_set(fetch, HS_FETCH_CANCELLED, "");
    else
        state_set(fetch, err->status ? HS_FETCH_FAILED : HS_FETCH_DONE, err->text);
    if (err->status && !fetch->removed)
        hs__log("error", "fetching a model: %s", err->text);
}

/* Frees what is left and hashes new weights on a thread. */
static void dispose(hs_fetch *fetch)
{
    fetch->dispose.data = fetch;
    uv_queue_work(&fetch->server->loop, &fetch->dispose, dispose_work, on_disposed);
}

/* Swaps the model while no worker computes. If a worker lacks memory for the new one, the old one returns. */
static hs_status swap(hs_fetch *fetch, hs_error *err)
{
    hs_server *server = fetch->server;
    char name[HS_MODEL_NAME_BYTES];
    snprintf(name, sizeof name, "%s", fetch->model.name);
    hs_status st = hs__catalog_put(&server->catalog, &fetch->model, err);
    if (!st && (st = hs__tasks_update_workers(&server->tasks, err))) {
        snprintf(fetch->model.name, sizeof fetch->model.name, "%s", name);
        if (hs__catalog_put(&server->catalog, &fetch->model, NULL) ||
            hs__tasks_update_workers(&server->tasks, NULL))
            hs__log("error", "no memory to go back to the models from before");
    }
    return st;
}

static void change(void *data)
{
    hs_fetch *fetch = data;
    (void)swap(fetch, &fetch->error);
    dispose(fetch);
}

/* Models stay as they are while a thread hashes them after the start. */
static void change_request(hs_fetch *fetch)
{
    fetch->ready = fetch->server->loading.hashing;
    if (fetch->ready || hs__tasks_when_idle(&fetch->server->tasks, change, fetch))
        return;
    (void)hs_fail(&fetch->error, HS_CANCELLED, "another change of the models is under way");
    dispose(fetch);
}

void hs__fetch_hashed(hs_fetch *fetch)
{
    if (fetch->ready)
        change_request(fetch);
}

static void on_fetched(uv_work_t *work, int status)
{
    hs_fetch *fetch = work->data;
    (void)status;
    if (!fetch->error.status && atomic_load(&fetch->cancelled))
        (void)hs_fail(&fetch->error, HS_CANCELLED, "cancelled");
    if (fetch->error.status)
        dispose(fetch);
    else
        change_request(fetch);
}

/* Finds the place of a model by its name of the hub, or by its name on the command line. */
static hs_status place_find(const hs_catalog_options *options, const char *name, hs_model_place *ret,
                            hs_error *err)
{
    hs_hub_name hub;
    const size_t known = hs__catalog_find(options, name), n = strlen(name);
    if (known != SIZE_MAX) {
        *ret = *hs__catalog_place(options, known);
        return HS_OK;
    }
    if (!hs_hub_name_parse(name, n, &hub) || n >= sizeof((hs_fetch_progress){0}).request)
        return hs_fail(
            err, HS_INVALID,
            "'%.100s' is no model of the command line and no name of the hub; expected ORG/NAME or "
            "ORG/NAME@REVISION",
            name);
    *ret = (hs_model_place){.dir = name, .n_dir = n};
    hs__place_name(hub.repository, strlen(hub.repository), ret->name);
    return HS_OK;
}

static hs_status busy_check(const hs_fetch *fetch, hs_error *err)
{
    return fetch->running
               ? hs_fail(err, HS_CANCELLED, "another change of the models is under way; GET /pull says which")
               : HS_OK;
}

hs_status hs__fetch_start(hs_server *server, const char *name, hs_error *err)
{
    hs_fetch *fetch = &server->fetch;
    hs_model_place place;
    hs_status st = place_find(&server->options->catalog, name, &place, err);
    if (!st)
        st = busy_check(fetch, err);
    if (st)
        return st;
    pthread_mutex_lock(&fetch->lock);
    fetch->progress = (hs_fetch_progress){.state = HS_FETCH_DOWNLOADING};
    snprintf(fetch->progress.request, sizeof fetch->progress.request, "%s", name);
    snprintf(fetch->progress.model, sizeof fetch->progress.model, "%s", place.name);
    pthread_mutex_unlock(&fetch->lock);
    fetch->server = server;
    fetch->place = place;
    if (place.dir == name)
        fetch->place.dir = fetch->progress.request; /* which stays until the next fetch */
    fetch->before = 0;
    fetch->removed = NULL;
    fetch->running = true;
    atomic_store(&fetch->cancelled, 0);
    fetch->work.data = fetch;
    uv_queue_work(&server->loop, &fetch->work, fetch_work, on_fetched);
    return HS_OK;
}

hs_status hs__fetch_remove(hs_server *server, const char *name,
                           void (*removed)(void *data, hs_status st, const hs_error *err), void *data,
                           hs_error *err)
{
    hs_fetch *fetch = &server->fetch;
    const hs_status st = busy_check(fetch, err);
    if (st)
        return st;
    fetch->server = server;
    fetch->running = true;
    fetch->error = (hs_error){0};
    fetch->removed = removed;
    fetch->removed_data = data;
    fetch->model = (hs_catalog_model){0};
    snprintf(fetch->model.name, sizeof fetch->model.name, "%s", name);
    change_request(fetch);
    return HS_OK;
}
