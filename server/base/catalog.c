/* catalog.c - parses model arguments and opens the models. Without an argument it opens the embedded one. */
#include "server/base/catalog.h"

#include "server/base/log.h"

#include "model/base/read_number.h"
#include "model/files/hub_cache.h"
#include "server/base/machine.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static hs_status place_append(hs_catalog_options *options, const hs_model_place *place, hs_error *err)
{
    if (options->n_places == HS_CATALOG_MAX)
        return hs_fail(err, HS_TOO_LARGE, "at most %d models", HS_CATALOG_MAX);
    options->places[options->n_places++] = *place;
    return HS_OK;
}

static bool is_embedded(const char *text, size_t n)
{
    return n == strlen(HS_EMBEDDED_NAME) && memcmp(text, HS_EMBEDDED_NAME, n) == 0;
}

static bool is_folder(const char *text, size_t n)
{
    char path[PATH_MAX];
    struct stat info;
    return snprintf(path, sizeof path, "%.*s", (int)n, text) < PATH_MAX && stat(path, &info) == 0 &&
           S_ISDIR(info.st_mode);
}

/* Returns the place of a model given without a name. */
static hs_model_place place_unnamed(const char *text, size_t n)
{
    hs_model_place place = {.dir = text, .n_dir = n};
    hs_hub_name hub;
    if (is_embedded(text, n))
        place.n_dir = 0;
    if (!is_folder(text, n) && hs_hub_name_parse(text, n, &hub))
        hs__place_name(hub.repository, strlen(hub.repository), place.name);
    else
        hs__place_name(text, n, place.name);
    return place;
}

/* Parses one item of the list. An equals sign is part of the path if a folder has this whole name. */
static hs_status place_read(const char *text, size_t n, hs_model_place *ret_place, hs_error *err)
{
    const char *equals = is_folder(text, n) ? NULL : memchr(text, '=', n);
    const size_t n_name = equals ? (size_t)(equals - text) : 0, n_dir = n - n_name - 1;
    if (n == 0 || (equals && (n_name == 0 || n_dir == 0)))
        return hs_fail(err, HS_INVALID,
                       "expected a folder, NAME=FOLDER, org/name of the hub, or %s for the built-in model",
                       HS_EMBEDDED_NAME);
    if (n_name >= HS_MODEL_NAME_BYTES)
        return hs_fail(err, HS_INVALID, "the name has %zu bytes; a model's name has at most %d", n_name,
                       HS_MODEL_NAME_BYTES - 1);
    if (!equals) {
        *ret_place = place_unnamed(text, n);
        return HS_OK;
    }
    *ret_place = (hs_model_place){.dir = equals + 1, .n_dir = is_embedded(equals + 1, n_dir) ? 0 : n_dir};
    snprintf(ret_place->name, sizeof ret_place->name, "%.*s", (int)n_name, text);
    return HS_OK;
}

hs_status hs__catalog_add(hs_catalog_options *options, const char *value, hs_error *err)
{
    for (const char *item = value;; item++) {
        const size_t n = strcspn(item, ",");
        hs_model_place place = {0};
        hs_status st = place_read(item, n, &place, err);
        if (!st)
            st = place_append(options, &place, err);
        item += n;
        if (st || !*item)
            return st;
    }
}

hs_status hs__catalog_choose(hs_catalog_options *options, const char *value, hs_error *err)
{
    hs_model_place place = {0};
    if (options->n_places && options->places[0].is_untrained)
        return hs_fail(err, HS_INVALID, "expected before its --untrained: --model %s --untrained SEED",
                       value);
    hs_status st = place_read(value, strlen(value), &place, err);
    options->n_places = 0;
    if (!st)
        st = place_append(options, &place, err);
    if (!st && options->tokenizer)
        st = hs__catalog_set_tokenizer(options, options->tokenizer, err);
    options->tokenizer = NULL;
    return st;
}

hs_status hs__catalog_set_tokenizer(hs_catalog_options *options, const char *value, hs_error *err)
{
    hs_model_place *last = options->n_places ? &options->places[options->n_places - 1] : NULL;
    if (!last || !last->n_dir)
        return hs_fail(err, HS_INVALID, "expected behind the folder of its model: --model DIR --tokenizer %s",
                       value);
    if (!*value)
        return hs_fail(err, HS_INVALID, "expected a folder, or org/name of the hub");
    last->tokenizer = value;
    return HS_OK;
}

hs_status hs__catalog_untrain(hs_catalog_options *options, const char *value, hs_error *err)
{
    int64_t seed;
    if (hs_integer_read(value, NULL, 0, INT64_C(1) << 53, &seed))
        return hs_fail(err, HS_INVALID, "expected an integer from 0 to 9007199254740992");
    if (!options->n_places) {
        options->places[0] = *hs__catalog_place(options, 0);
        options->n_places = 1;
    }
    hs_model_place *last = &options->places[options->n_places - 1];
    if (last->is_untrained)
        return hs_fail(err, HS_INVALID, "%s has a seed already: give one behind each --model", last->name);
    const size_t n = strnlen(last->name, HS_MODEL_NAME_BYTES - 40);
    snprintf(last->name + n, sizeof last->name - n, "-untrained-%lld", (long long)seed);
    last->is_untrained = true;
    last->seed = (uint64_t)seed;
    return HS_OK;
}

/* Returns true if a place is one of the hub with a revision, and its name is the repository's. */
static bool revision_of(const hs_model_place *place, hs_hub_name *ret)
{
    char name[HS_MODEL_NAME_BYTES];
    if (!place->n_dir || is_folder(place->dir, place->n_dir) ||
        !hs_hub_name_parse(place->dir, place->n_dir, ret) || strcmp(ret->revision, HS_HUB_REVISION) == 0)
        return false;
    hs__place_name(ret->repository, strlen(ret->repository), name);
    return strcmp(name, place->name) == 0;
}

void hs__catalog_tell_apart(hs_catalog_options *options)
{
    bool shared[HS_CATALOG_MAX] = {false};
    for (size_t i = 0; i < options->n_places; i++)
        for (size_t k = 0; k < options->n_places; k++)
            shared[i] |= k != i && strcmp(options->places[i].name, options->places[k].name) == 0;
    for (size_t i = 0; i < options->n_places; i++) {
        hs_model_place *place = &options->places[i];
        hs_hub_name hub;
        if (!shared[i] || !revision_of(place, &hub))
            continue;
        const size_t n = strlen(place->name);
        snprintf(place->name + n, sizeof place->name - n, "-%s", hub.revision);
        for (char *c = place->name + n; (c = strchr(c, '/'));)
            *c = '-'; /* "refs/pr/1": the name is also a folder's */
    }
}

size_t hs__catalog_places(const hs_catalog_options *options)
{
    return options->n_places ? options->n_places : 1;
}

const hs_model_place *hs__catalog_place(const hs_catalog_options *options, size_t i)
{
    static const hs_model_place embedded = {.name = HS_EMBEDDED_NAME};
    return options->n_places ? &options->places[i] : &embedded;
}

size_t hs__catalog_find(const hs_catalog_options *options, const char *name)
{
    const size_t n = hs__catalog_places(options);
    for (size_t i = 0; i < n; i++)
        if (strcmp(hs__catalog_place(options, i)->name, name) == 0)
            return i;
    return SIZE_MAX;
}

hs_status hs__model_place_dir(const hs_model_place *place, char ret_dir[PATH_MAX], hs_error *err)
{
    struct stat info;
    hs_hub_name name;
    if (snprintf(ret_dir, PATH_MAX, "%.*s", (int)place->n_dir, place->dir) >= PATH_MAX)
        return hs_fail(err, HS_INVALID, "the path of a model is too long");
    if (stat(ret_dir, &info) == 0 || errno != ENOENT)
        return HS_OK;
    if (hs_hub_name_parse(place->dir, place->n_dir, &name))
        return hs_hub_cache_find(&name, ret_dir, err);
    return hs_fail(
        err, HS_NOT_FOUND,
        "there is no folder '%s': name one with config.json or adapter_config.json, a GGUF file, org/name of "
        "the hub (hf://name if it has no organisation), or %s for the built-in model; 'headscope "
        "pull google-bert/bert-base-uncased' fetches one of the hub",
        ret_dir, HS_EMBEDDED_NAME);
}

/* Finds the folder of a model's tokenizer. */
static hs_status tokenizer_dir(const char *tokenizer, char ret_dir[PATH_MAX], hs_error *err)
{
    const hs_model_place place = {.dir = tokenizer, .n_dir = strlen(tokenizer)};
    hs_hub_name name;
    if (!is_folder(place.dir, place.n_dir) && !hs_hub_name_parse(place.dir, place.n_dir, &name))
        return hs_fail(
            err, HS_NOT_FOUND,
            "--tokenizer: there is no folder '%s': name one with the tokenizer's files, or org/name "
            "of the hub",
            tokenizer);
    return hs__model_place_dir(&place, ret_dir, err);
}

hs_status hs__model_place_open(const hs_model_place *place, hs_model **ret_model, hs_error *err)
{
    char dir[PATH_MAX], tokenizer[PATH_MAX];
    hs_status st = place->n_dir ? hs__model_place_dir(place, dir, err) : HS_OK;
    if (!st && place->tokenizer)
        st = tokenizer_dir(place->tokenizer, tokenizer, err);
    if (!st)
        st = place->n_dir ? hs_model_open(dir, place->tokenizer ? tokenizer : NULL, ret_model, err)
                          : hs_model_open_embedded(ret_model, err);
    if (!st && place->is_untrained && (st = hs_model_untrain(*ret_model, place->seed, err))) {
        hs_model_close(*ret_model);
        *ret_model = NULL;
    }
    if (!st && hs_model_has_own_code(*ret_model))
        hs__log("warning", "%s has code of its own (auto_map), which is not run; it is read as %s",
                place->name, hs_model_architecture(*ret_model)->family);
    if (!st && hs_model_is_text_part(*ret_model))
        hs__log("warning", "%s is a model of images and text, of which the text part alone is read, as %s",
                place->name, hs_model_architecture(*ret_model)->family);
    return st;
}

static hs_products products_of(const char *name)
{
    if (!name)
        return HS_PRODUCTS_DEFAULT;
    return strcmp(name, "native") == 0 ? HS_PRODUCTS_NATIVE : HS_PRODUCTS_CBLAS;
}

static hs_precision precision_of(const char *name)
{
    if (!name || strcmp(name, "fp32") == 0)
        return HS_PRECISION_FP32;
    if (strcmp(name, "int24") == 0)
        return HS_PRECISION_INT24;
    return strcmp(name, "bf16") == 0 ? HS_PRECISION_BF16 : HS_PRECISION_INT8;
}

/* ---- opening ---- */

static hs_engine_options engine_options(const hs_catalog_options *options)
{
    return (hs_engine_options){.products = products_of(options->backend),
                               .precision = precision_of(options->precision)};
}

static hs_status engine_pack(const hs_catalog_options *options, hs_catalog_model *model, hs_error *err)
{
    const hs_engine_options engine = engine_options(options);
    const hs_architecture *decoder = hs_model_decoder(model->model);
    hs_status st =
        hs_engine_create(options->runtime, hs_model_architecture(model->model), &engine, &model->engine, err);
    if (!st && decoder)
        st = hs_engine_create(options->runtime, decoder, &engine, &model->decoder, err);
    if (!st)
        hs_model_release_pages(model->model);
    return st;
}

hs_status hs__catalog_model_open(const hs_catalog_options *options, const hs_model_place *place,
                                 hs_catalog_model *ret, hs_error *err)
{
    *ret = (hs_catalog_model){0};
    hs_status st = hs__model_place_open(place, &ret->model, err);
    if (!st)
        st = engine_pack(options, ret, err);
    if (st)
        hs__catalog_model_close(ret);
    return st;
}

void hs__catalog_model_close(hs_catalog_model *model)
{
    hs_engine_destroy(model->engine);
    hs_engine_destroy(model->decoder);
    hs_model_close(model->model);
    *model = (hs_catalog_model){0};
}

/* ---- serving ---- */

/* Memory that a model takes, in bytes. */
typedef struct needs {
    uint64_t weights, workspace; /* packed; of each worker */
    size_t n_workers;
} needs;

static uint64_t scratch_of(const needs *n)
{
    return n->n_workers * n->workspace;
}

static uint64_t sum_of(const needs *n)
{
    return n->weights + scratch_of(n);
}

/* A model that is open, and what it takes. */
typedef struct opened_model {
    hs_catalog_model model;
    hs_catalog_memory *memory; /* which it counts in while it is served, or NULL */
    needs needs;
} opened_model;

static void opened_close(opened_model *opened)
{
    hs__catalog_model_close(&opened->model);
    if (opened->memory)
        atomic_fetch_sub(&opened->memory->more, (int64_t)sum_of(&opened->needs));
}

static void model_free(void *user_data)
{
    opened_close(user_data);
    free(user_data);
}

/* Gives the model to the api. Takes ownership of it, also on failure. */
static hs_status model_serve(const char *name, opened_model *opened, hs_api *api, hs_error *err)
{
    opened_model *owned = malloc(sizeof *owned);
    if (!owned) {
        opened_close(opened);
        return hs_fail(err, HS_NO_MEMORY, "no memory for model '%s'", name);
    }
    *owned = *opened;
    *opened = (opened_model){0};
    const hs_catalog_model *model = &owned->model;
    const hs_api_model served = {name, model->model, model->engine, model->decoder, model_free, owned};
    const hs_status st = hs_api_model_put(api, &served, err);
    if (st)
        model_free(owned);
    return st;
}

/* Measures the packed weights of a model, and a workspace. */
static hs_status model_measure(const hs_catalog_options *options, const hs_model *model, needs *ret,
                               hs_error *err)
{
    const hs_engine_options engine = engine_options(options);
    const hs_architecture *const stacks[] = {hs_model_architecture(model), hs_model_decoder(model)};
    *ret = (needs){.n_workers = options->api.n_workers ? options->api.n_workers : 1};
    for (size_t i = 0; i < 2 && stacks[i]; i++) {
        size_t weights, workspace;
        const hs_status st = hs_engine_measure(options->runtime, stacks[i], &engine,
                                               stacks[i]->shape.n_positions, &weights, &workspace, err);
        if (st)
            return st;
        ret->weights += weights;
        ret->workspace += workspace;
    }
    return HS_OK;
}

/* Refuses a model that does not fit into this much memory. `of` says which memory that is. */
static hs_status memory_check(const needs *n, uint64_t available, const char *of, hs_error *err)
{
    if (sum_of(n) <= available)
        return HS_OK;
    return hs_fail(err, HS_TOO_LARGE,
                   "the model needs %.1f MB of memory: %.1f MB for its weights, and %.1f MB for each of %zu "
                   "workers; %.1f MB are %s. Remove another model, start the server with fewer --workers, "
                   "or with --precision bf16 or int8 if the CPU has it",
                   (double)sum_of(n) / 1e6, (double)n->weights / 1e6, (double)n->workspace / 1e6,
                   n->n_workers, (double)available / 1e6, of);
}

/* Refuses a model for which the memory is not free, or is promised to requests. */
static hs_status memory_check_later(const hs_catalog_options *options, const needs *n, hs_error *err)
{
    hs_catalog_memory *memory = options->memory;
    const int64_t left = memory ? memory->more_max - atomic_load(&memory->more) : INT64_MAX;
    hs_runtime_trim(options->runtime, UINT64_MAX); /* blocks that are kept for later requests */
    const hs_status st = memory_check(n, hs__memory_available(), "available", err);
    return st ? st
              : memory_check(n, left > 0 ? (uint64_t)left : 0,
                             "left for models beside --max-held, --max-maps and --cache; they follow the "
                             "models that --model names at the start",
                             err);
}

hs_status hs__catalog_add_model(const hs_catalog_options *options, const hs_model_place *place,
                                const atomic_int *cancelled, hs_api *api, hs_error *err)
{
    opened_model opened = {.memory = options->memory};
    hs_status st = hs__model_place_open(place, &opened.model.model, err);
    if (!st)
        st = model_measure(options, opened.model.model, &opened.needs, err);
    if (!st)
        st = memory_check_later(options, &opened.needs, err);
    if (!st)
        st = engine_pack(options, &opened.model, err);
    if (!st && atomic_load(cancelled))
        st = hs_fail(err, HS_CANCELLED, "cancelled");
    if (st) {
        hs__catalog_model_close(&opened.model);
        return st;
    }
    if (opened.memory)
        atomic_fetch_add(&opened.memory->more, (int64_t)sum_of(&opened.needs));
    return model_serve(place->name, &opened, api, err);
}

/* Opens and packs a model of the command line. n_scratch: bytes of the workspaces of those before it. */
static hs_status model_open(const hs_catalog_options *options, size_t i, uint64_t n_scratch,
                            opened_model *ret, hs_error *err)
{
    const hs_model_place *place = hs__catalog_place(options, i);
    ret->memory = options->memory;
    if (hs__catalog_find(options, place->name) < i)
        return hs_fail(err, HS_INVALID, "two models are named '%s': give one another name", place->name);
    hs_status st = hs__model_place_open(place, &ret->model.model, err);
    if (!st && options->limit) {
        st = model_measure(options, ret->model.model, &ret->needs, err);
        const uint64_t available = hs__memory_available();
        if (!st)
            st = memory_check(&ret->needs, available > n_scratch ? available - n_scratch : 0, "available",
                              err);
    }
    return st ? st : engine_pack(options, &ret->model, err);
}

static hs_status models_open(const hs_catalog_options *options, opened_model *opened, hs_error *err)
{
    uint64_t n_scratch = 0;
    hs_status st = HS_OK;
    for (size_t i = 0; !st && i < hs__catalog_places(options); i++) {
        st = model_open(options, i, n_scratch, &opened[i], err);
        n_scratch += scratch_of(&opened[i].needs);
    }
    return !st && options->limit ? options->limit(options->limit_data, n_scratch, err) : st;
}

hs_status hs__catalog_open(const hs_catalog_options *options, hs_api **ret_api, hs_error *err)
{
    const size_t n = hs__catalog_places(options);
    opened_model *opened = calloc(n, sizeof *opened);
    hs_api *api = NULL;
    if (!opened)
        return hs_fail(err, HS_NO_MEMORY, "no memory for %zu models", n);
    hs_status st = models_open(options, opened, err);
    if (!st)
        st = hs_api_create(&options->api, &api, err);
    for (size_t i = 0; !st && i < n; i++)
        st = model_serve(hs__catalog_place(options, i)->name, &opened[i], api, err);
    for (size_t i = 0; i < n; i++)
        hs__catalog_model_close(&opened[i].model);
    free(opened);
    if (st)
        hs_api_destroy(api);
    else
        *ret_api = api;
    return st;
}
