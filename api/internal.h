/* internal.h - types that the files of api/ share; other modules must not include it.
 *
 * A request's way: accept.h (headers, query) -> analysis_request.h (body), whose fields are the table of
 * fields.c -> job.c (tokens, cache, pass) -> outputs.h (outputs) ->
 * answer_write.h (bytes), by the writers of api/formats/. */
#pragma once

#include "api/api.h"
#include "api/head_cache.h"
#include "api/memory_budget.h"

#define HS__MODELS_MAX 64

typedef struct hs__served_model {
    char *name;               /* owned; kept after a removal, for responses that name it */
    uint64_t serial;          /* differs between all models ever served; 0: removed */
    const char *list_command; /* of hs_api_options */
    const hs_model *model;
    const hs_engine *engine;
    const hs_shape *shape;
    atomic_bool hashed; /* sha256 can be read */
    char sha256[HS_SHA256_HEX];
} hs__served_model;

struct hs_api {
    hs_api_options options; /* with the defaults filled in */
    hs__served_model models[HS__MODELS_MAX];
    size_t n_models;      /* slots in use or removed; a slot never moves */
    uint64_t last_serial; /* of the models so far */
    hs__head_cache *cache;
    hs__budget captures;
};

struct hs_api_worker {
    hs_workspace *workspaces[HS__MODELS_MAX]; /* one for each model, NULL for removed ones */
    const hs_engine *engines[HS__MODELS_MAX]; /* that the workspaces are for */
};

/* api/openapi.json, linked in by openapi.S. */
extern const char hs__openapi_json[];
extern const uint64_t hs__openapi_json_bytes;
