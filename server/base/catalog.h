/* catalog.h - the models a command works with: opened, packed, and named in one hs_api. */
#pragma once

#include "api/api.h"

enum { HS_CATALOG_MAX = 64 };
#define HS_BACKEND_NAMES   "native|openblas|onednn"
#define HS_PRECISION_NAMES "fp32|bf16|int8"
#define HS_MODEL_HELP                                                                                        \
    "a folder, org/name of the hub, or " HS_EMBEDDED_NAME ", the built-in model (" HS_EMBEDDED_NAME ")"

/* Where a model is: a folder, or a name whose snapshot is in HuggingFace's cache (model/files/hub_cache.h).
 * The strings need not end there; n_dir 0 stands for the model linked into the program. */
typedef struct hs_model_place {
    const char *name, *dir;
    size_t n_name, n_dir;
} hs_model_place;

typedef struct hs_catalog_options {
    hs_model_place places[HS_CATALOG_MAX]; /* the first is the default; none: the embedded one */
    size_t n_places;
    const char *backend;   /* one of HS_BACKEND_NAMES, or NULL for the default */
    const char *precision; /* one of HS_PRECISION_NAMES, or NULL for fp32 */
    hs_runtime *runtime;   /* of the process; outlives the catalog */
    size_t n_threads;      /* a lone pass may use */
    hs_api_options api;
} hs_catalog_options;

typedef struct hs_catalog {
    hs_api *api;
    hs_model *models[HS_CATALOG_MAX];
    hs_engine *engines[HS_CATALOG_MAX];
    size_t n_models;
} hs_catalog;

/* "NAME=DIR", several with commas between them; DIR may be org/name[@revision]. That alone takes its last
 * part for a name, and the embedded model has its own. value must outlive the opening. */
HS_MUST_USE hs_status hs__catalog_add(hs_catalog_options *options, const char *value, hs_error *err);
/* "DIR", "org/name[@revision]" or the name of the embedded model (analyze). */
HS_MUST_USE hs_status hs__catalog_choose(hs_catalog_options *options, const char *value, hs_error *err);

/* The models that options name: at least one, the first is the default. */
size_t hs__catalog_places(const hs_catalog_options *options);
const hs_model_place *hs__catalog_place(const hs_catalog_options *options, size_t i);
/* Index of the one of this name; SIZE_MAX: there is none. */
size_t hs__catalog_find(const hs_catalog_options *options, const char *name);

/* Opens one without an engine. */
HS_MUST_USE hs_status hs__model_place_open(const hs_model_place *place, hs_model **ret_model, hs_error *err);

/* On failure ret_catalog is as if closed. Takes seconds for large models. */
HS_MUST_USE hs_status hs__catalog_open(const hs_catalog_options *options, hs_catalog *ret_catalog,
                                       hs_error *err);
void hs__catalog_close(hs_catalog *catalog); /* zeroed is fine */
