/* catalog.h - the models that a command names: parses their places, opens them and serves them in an hs_api.
 */
#pragma once

#include "api/api.h"
#include "server/base/place_name.h"

#include <limits.h>
#include <stdatomic.h>

enum { HS_CATALOG_MAX = 64 };
#define HS_BACKEND_NAMES   "native|cblas|openblas" /* openblas is an older name of cblas */
#define HS_PRECISION_NAMES "fp32|int24|bf16|int8"
#define HS_MODEL_ARGUMENT  "[NAME=]DIR"
#define HS_MODEL_HELP                                                                                        \
    "a folder, GGUF file, org/name of the hub, or " HS_EMBEDDED_NAME                                         \
    ", the built-in model (" HS_EMBEDDED_NAME ")"

#define HS_UNTRAINED_HELP "random weights from this seed for the --model before it, as before its training"
#define HS_TOKENIZER_HELP "tokenizer files of the --model before it, if they are in another folder"

/* The location of a model: a folder, or a name whose snapshot is in HuggingFace's cache
 * (model/files/hub_cache.h). dir is not NUL-terminated. n_dir is 0 for the model linked into the program. */
typedef struct hs_model_place {
    char name[HS_MODEL_NAME_BYTES];
    const char *dir;
    size_t n_dir;
    const char
        *tokenizer;    /* such a location of the tokenizer's files, or NULL: they are those of the model */
    bool is_untrained; /* its weights are drawn from `seed` */
    uint64_t seed;
} hs_model_place;

/* The memory of models that are added while others are served. Any thread. */
typedef struct hs_catalog_memory {
    atomic_int_least64_t more; /* bytes of weights and workspaces, less those of models that were removed */
    int64_t more_max;
} hs_catalog_memory;

typedef struct hs_catalog_options {
    hs_model_place places[HS_CATALOG_MAX]; /* the first is the default; none: the embedded model */
    size_t n_places;
    const char *tokenizer; /* of the next model that is chosen, or NULL */
    const char *backend;   /* one of HS_BACKEND_NAMES, or NULL for the default */
    const char *precision; /* one of HS_PRECISION_NAMES, or NULL for fp32 */
    hs_runtime *runtime;   /* of the process; must outlive the catalog */
    size_t n_threads;      /* for a pass that runs alone */
    hs_api_options api;
    /* Called by hs__catalog_open when all models are packed: may set `api` by the memory that they leave.
     * n_scratch: bytes of their workspaces, which are made later. NULL: nothing is checked. */
    hs_status (*limit)(void *data, uint64_t n_scratch, hs_error *err);
    void *limit_data;
    hs_catalog_memory *memory; /* with `limit`; outlives the api */
} hs_catalog_options;

/* Adds "NAME=DIR" or "DIR", or several separated by commas. DIR is a folder, org/name[@revision] of the hub,
 * or the name of the embedded model. The default NAME follows from DIR. value must outlive the opening. */
HS_MUST_USE hs_status hs__catalog_add(hs_catalog_options *options, const char *value, hs_error *err);
/* Replaces all models by this one (analyze). It takes the options' tokenizer, which is then NULL. */
HS_MUST_USE hs_status hs__catalog_choose(hs_catalog_options *options, const char *value, hs_error *err);

/* Sets the folder of the tokenizer's files of the model that was added last. Fails with HS_INVALID if there
 * is none, or if it is the embedded one. value must outlive the opening. */
HS_MUST_USE hs_status hs__catalog_set_tokenizer(hs_catalog_options *options, const char *value,
                                                hs_error *err);

/* Gives the model that was added last random weights from a seed, an integer, and its name an ending. Without
 * a model it is the embedded one. Fails with HS_INVALID. */
HS_MUST_USE hs_status hs__catalog_untrain(hs_catalog_options *options, const char *value, hs_error *err);

/* Adds the revision to the names of those models of the hub that several have: "pythia-70m-step1000". */
void hs__catalog_tell_apart(hs_catalog_options *options);

/* Returns the number of models that options name, at least 1. The first is the default. */
size_t hs__catalog_places(const hs_catalog_options *options);
const hs_model_place *hs__catalog_place(const hs_catalog_options *options, size_t i);
/* Returns the index of the model with this name, or SIZE_MAX. */
size_t hs__catalog_find(const hs_catalog_options *options, const char *name);

/* Finds the folder of a place with n_dir > 0. Returns HS_NOT_FOUND if the hub's cache does not have the
 * model. */
HS_MUST_USE hs_status hs__model_place_dir(const hs_model_place *place, char ret_dir[PATH_MAX], hs_error *err);
/* Opens a model without an engine. */
HS_MUST_USE hs_status hs__model_place_open(const hs_model_place *place, hs_model **ret_model, hs_error *err);

/* A model with its engine. */
typedef struct hs_catalog_model {
    hs_model *model;
    hs_engine *engine;
    hs_engine *decoder; /* of an encoder-decoder model; else NULL */
} hs_catalog_model;

/* Opens a model and packs its engine, which takes seconds for a large one. On failure ret_model is empty. */
HS_MUST_USE hs_status hs__catalog_model_open(const hs_catalog_options *options, const hs_model_place *place,
                                             hs_catalog_model *ret_model, hs_error *err);
void hs__catalog_model_close(hs_catalog_model *model); /* an empty one is allowed */

/* Opens all models, creates an api and serves them. With options->limit a model for which too little memory
 * is free is refused. The caller destroys *ret_api, and then the runtime. */
HS_MUST_USE hs_status hs__catalog_open(const hs_catalog_options *options, hs_api **ret_api, hs_error *err);

/* Opens one more model, packs its engine and serves it under the place's name, instead of the model of that
 * name if there is one. Refuses a model for which too little memory is free, or is left beside what requests
 * may use. Stops with HS_CANCELLED before
 * it is served if *cancelled becomes non-zero. Any thread. */
HS_MUST_USE hs_status hs__catalog_add_model(const hs_catalog_options *options, const hs_model_place *place,
                                            const atomic_int *cancelled, hs_api *api, hs_error *err);
