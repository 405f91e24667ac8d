/* fetch.h - fetches and loads one model at a time beside the running service, and swaps models.
 *
 * A thread downloads the model, opens it and packs its engine. The loop then waits until no worker computes,
 * puts the model into the catalog and lets the queue go on. A thread frees the model that it replaces. So a
 * request sees one list of models from its start to its end. */
#pragma once

#include "model/files/hub_cache.h"
#include "server/base/catalog.h"

#include <pthread.h>
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
    char error[640];                 /* of HS_FETCH_FAILED */
} hs_fetch_progress;

typedef struct hs_fetch {
    uv_work_t work, dispose;
    bool running; /* the loop's; a fetch or a removal is under way */
    bool ready;   /* the loop's; the change waits for the first hashing of models */
    hs_server *server;
    pthread_mutex_t lock; /* guards progress */
    hs_fetch_progress progress;
    uint64_t before; /* bytes received of finished files; the thread's */
    atomic_int cancelled;
    hs_model_place place;   /* of the model under way; its dir points into progress.request */
    hs_catalog_model model; /* the new one, then the one to free */
    hs_error error;         /* of the thread */
    void (*removed)(void *data, hs_status st, const hs_error *err); /* of a removal */
    void *removed_data;
} hs_fetch;

void hs__fetch_init(hs_fetch *fetch);
void hs__fetch_finish(hs_fetch *fetch);

/* Starts to fetch "org/name[@revision]" of the hub, or to load the served model of this name again from
 * where it came. Returns HS_INVALID if the text is neither, or HS_CANCELLED while another change is under
 * way. Loop thread. */
HS_MUST_USE hs_status hs__fetch_start(hs_server *server, const char *name, hs_error *err);
/* Asks a fetch to stop; without effect if none is under way. Loop thread. */
void hs__fetch_cancel(hs_fetch *fetch);
/* Removes a model once no worker computes, then calls `removed` on the loop. Returns HS_CANCELLED while
 * another change is under way. Loop thread. */
HS_MUST_USE hs_status hs__fetch_remove(hs_server *server, const char *name,
                                       void (*removed)(void *data, hs_status st, const hs_error *err),
                                       void *data, hs_error *err);
/* Call when the models of the start are hashed; changes wait for it. Loop thread. */
void hs__fetch_hashed(hs_fetch *fetch);
/* Copies the progress. Any thread. */
void hs__fetch_progress_read(hs_fetch *fetch, hs_fetch_progress *ret_progress);
