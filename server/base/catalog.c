/* catalog.c - parses model arguments and opens the models. Without an argument it opens the embedded one. */
#include "server/base/catalog.h"

#include "model/files/hub_cache.h"

#include <errno.h>
#include <pthread.h>
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
    const hs_status st = place_read(value, strlen(value), &place, err);
    options->n_places = 0;
    return st ? st : place_append(options, &place, err);
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
    return hs_fail(err, HS_NOT_FOUND,
                   "there is no folder '%s': name one with config.json, org/name of the hub, or %s for the "
                   "built-in model",
                   ret_dir, HS_EMBEDDED_NAME);
}

hs_status hs__model_place_open(const hs_model_place *place, hs_model **ret_model, hs_error *err)
{
    char dir[PATH_MAX];
    if (!place->n_dir)
        return hs_model_open_embedded(ret_model, err);
    const hs_status st = hs__model_place_dir(place, dir, err);
    return st ? st : hs_model_open(dir, ret_model, err);
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
    return strcmp(name, "bf16") == 0 ? HS_PRECISION_BF16 : HS_PRECISION_INT8;
}

hs_status hs__catalog_model_open(const hs_catalog_options *options, const hs_model_place *place,
                                 hs_catalog_model *ret, hs_error *err)
{
    const hs_engine_options engine = {.products = products_of(options->backend),
                                      .precision = precision_of(options->precision)};
    *ret = (hs_catalog_model){0};
    snprintf(ret->name, sizeof ret->name, "%s", place->name);
    hs_status st = hs__model_place_open(place, &ret->model, err);
    if (!st)
        st =
            hs_engine_create(options->runtime, hs_model_architecture(ret->model), &engine, &ret->engine, err);
    if (st)
        hs__catalog_model_close(ret);
    else
        hs_model_release_pages(ret->model);
    return st;
}

void hs__catalog_model_close(hs_catalog_model *model)
{
    hs_engine_destroy(model->engine);
    hs_model_close(model->model);
    *model = (hs_catalog_model){0};
}

/* Guards the slots of the catalog against threads that look models up. */
static pthread_mutex_t slots = PTHREAD_MUTEX_INITIALIZER;

/* Returns the slot of a name, whether served or removed; n_models if there is none. The lock is held. */
static size_t slot_named(const hs_catalog *catalog, const char *name)
{
    size_t i = 0;
    while (i < catalog->n_models && strcmp(catalog->models[i].name, name) != 0)
        i++;
    return i;
}

static hs_status slot_put(hs_catalog *catalog, hs_catalog_model *model, hs_error *err)
{
    const size_t i = slot_named(catalog, model->name);
    hs_catalog_model *slot = &catalog->models[i];
    const bool served = i < catalog->n_models && slot->model;
    if (served && slot->n_users)
        return hs_fail(err, HS_INVALID, "a corpus run uses '%s'", model->name);
    if (!served && !model->model)
        return hs_fail(err, HS_NOT_FOUND, "there is no model '%s'", model->name);
    if (i == HS_CATALOG_MAX)
        return hs_fail(err, HS_INVALID, "more than %d models since the start", HS_CATALOG_MAX);
    const hs_status st =
        served ? hs_api_replace_model(catalog->api, model->name, model->model, model->engine, err)
               : hs_api_add_model(catalog->api, model->name, model->model, model->engine, err);
    if (st)
        return st;
    const hs_catalog_model old = i < catalog->n_models ? *slot : (hs_catalog_model){0};
    *slot = *model;
    *model = old;
    catalog->n_models += i == catalog->n_models;
    return HS_OK;
}

hs_status hs__catalog_put(hs_catalog *catalog, hs_catalog_model *model, hs_error *err)
{
    pthread_mutex_lock(&slots);
    const hs_status st = slot_put(catalog, model, err);
    pthread_mutex_unlock(&slots);
    return st;
}

hs_catalog_model *hs__catalog_use(hs_catalog *catalog, const char *name)
{
    pthread_mutex_lock(&slots);
    const size_t i = name && *name ? slot_named(catalog, name) : 0;
    hs_catalog_model *slot = i < catalog->n_models && catalog->models[i].model ? &catalog->models[i] : NULL;
    if (slot)
        slot->n_users++;
    pthread_mutex_unlock(&slots);
    return slot;
}

void hs__catalog_release(hs_catalog_model *model)
{
    pthread_mutex_lock(&slots);
    if (model)
        model->n_users--;
    pthread_mutex_unlock(&slots);
}

hs_status hs__catalog_open(const hs_catalog_options *options, hs_catalog *ret_catalog, hs_error *err)
{
    const size_t n = hs__catalog_places(options);
    *ret_catalog = (hs_catalog){0};
    hs_status st = hs_api_create(&options->api, &ret_catalog->api, err);
    for (size_t i = 0; !st && i < n; i++) {
        hs_catalog_model model;
        st = hs__catalog_model_open(options, hs__catalog_place(options, i), &model, err);
        if (st)
            break;
        if (slot_named(ret_catalog, model.name) < ret_catalog->n_models)
            st = hs_fail(err, HS_INVALID, "two models are named '%s': give one another name", model.name);
        else
            st = hs__catalog_put(ret_catalog, &model, err);
        hs__catalog_model_close(&model);
    }
    if (st)
        hs__catalog_close(ret_catalog);
    return st;
}

void hs__catalog_close(hs_catalog *catalog)
{
    hs_api_destroy(catalog->api);
    for (size_t i = 0; i < catalog->n_models; i++)
        hs__catalog_model_close(&catalog->models[i]);
    *catalog = (hs_catalog){0};
}
