/* models_http.h - fetches and loads one model at a time beside the running service, and swaps models.
 *
 * A thread downloads the model, opens it, packs its engine and serves it instead of the old one (api.h).
 * Requests that use the old one finish with it, and the last of them frees it. Nobody waits for a change. */
#pragma once

#include "model/files/hub_cache.h"
#include "server/base/catalog.h"

#include <pthread.h>
#include <stdatomic.h>
#include <uv.h>

typedef struct hs_server hs_server;

typedef enum hs_fetch_state {
    HS_FETCH_NONE,        /* no request since the start */
    HS_FETCH_DOWNLOADING, /* then loading; both can be cancelled */
    HS_FETCH_LOADING,
    HS_FETCH_DONE,
    HS_FETCH_FAILED,
    HS_FETCH_CANCELLED
} hs_fetch_state;

/* A copy of how far it is. */
typedef struct hs_fetch_progress {
    hs_fetch_state state;
    char request[400];               /* the name in the request */
    char model[HS_MODEL_NAME_BYTES]; /* its name in GET /models */
    char file[256];                  /* under way, "" before the first and after the last */
    uint64_t n_bytes, n_bytes_all;   /* of this file */
    uint64_t n_received;             /* of all files together */
    char error[1152];                /* of HS_FETCH_FAILED */
} hs_fetch_progress;

typedef struct hs_fetch {
    uv_work_t work;
    bool running; /* the loop's; a fetch or a removal is under way */
    hs_server *server;
    pthread_mutex_t lock; /* guards progress */
    hs_fetch_progress progress;
    uint64_t before; /* bytes received of finished files; the thread's */
    atomic_int cancelled;
    hs_model_place place; /* of the model under way; its dir points into progress.request */
    hs_error error;       /* of the thread */
    void (*removed)(void *data, hs_status st, const hs_error *err); /* of a removal */
    void *removed_data;
} hs_fetch;

/* Asks a fetch to stop; without effect if none is under way. Loop thread. */
static inline void hs__fetch_cancel(hs_fetch *fetch)
{
    if (fetch->running)
        atomic_store(&fetch->cancelled, 1);
}
