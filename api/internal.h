/* internal.h - types that the files of api/ share; other modules must not include it.
 *
 * A request's way: request/ (headers, query, fields) -> job.c (tokens, cache, pass) -> outputs.h (outputs) ->
 * answer_write.h (bytes), by the writers of api/formats/. */
#pragma once

#include "api/api.h"
#include "api/head_cache.h"
#include "api/memory_budget.h"
#include "api/request/request.h"

#include <pthread.h>

#define HS__MODELS_MAX 64

struct hs_api {
    hs_api_options options; /* with the defaults filled in */
    pthread_mutex_t lock;   /* of the models */
    pthread_cond_t workspace_freed;
    hs__served_model *models[HS__MODELS_MAX];
    size_t n_models;
    uint64_t last_serial; /* of the models so far */
    hs_runtime *runtime;  /* of all engines */
    hs__head_cache *cache;
    hs__budget captures;
};

/* Returns a reference to the model of this name, or with name NULL to the default; NULL if there is none. */
hs__served_model *hs__model_find(hs_api *api, const char *name, size_t n_name);
/* Lists references to all models, the default first. Returns how many. */
size_t hs__models_list(hs_api *api, hs__served_model *ret_models[HS__MODELS_MAX]);
/* Releases a reference; the last one frees the model. NULL is fine. */
void hs__model_release(hs_api *api, hs__served_model *served);

/* Takes a workspace of the model for one pass. Waits if options.n_workers passes of the model run. */
hs_workspace *hs__workspace_take(hs_api *api, hs__served_model *served);
void hs__workspace_return(hs_api *api, hs__served_model *served, hs_workspace *ws);

/* api/openapi.json, linked in by openapi.S. */
extern const char hs__openapi_json[];
extern const uint64_t hs__openapi_json_bytes;
