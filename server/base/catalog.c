/* catalog.c - names on the command line become opened models. A command that names none gets the embedded
 * one, by the same way. */
#include "server/base/catalog.h"

#include "model/files/hub_cache.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static hs_status place_append(hs_catalog_options *options, hs_model_place place, hs_error *err)
{
    if (options->n_places == HS_CATALOG_MAX)
        return hs_fail(err, HS_TOO_LARGE, "at most %d models", HS_CATALOG_MAX);
    options->places[options->n_places++] = place;
    return HS_OK;
}

/* A place without a name of its own has its last part for one: "../models/bert-base/" is bert-base, and so is
 * "org/bert-base@main". */
static hs_model_place place_unnamed(const char *text, size_t n)
{
    hs_hub_name name;
    const char *at = hs_hub_name_parse(text, n, &name) ? memchr(text, '@', n) : NULL;
    size_t end = at ? (size_t)(at - text) : n;
    while (end > 1 && text[end - 1] == '/')
        end--;
    size_t start = end;
    while (start && text[start - 1] != '/')
        start--;
    return (hs_model_place){text + start, text, end - start, n};
}

static bool is_embedded(const char *text, size_t n)
{
    return n == strlen(HS_EMBEDDED_NAME) && memcmp(text, HS_EMBEDDED_NAME, n) == 0;
}

/* One of the list. */
static hs_status place_read(const char *text, size_t n, hs_model_place *ret_place, hs_error *err)
{
    const char *equals = memchr(text, '=', n);
    const size_t n_name = equals ? (size_t)(equals - text) : 0;
    hs_hub_name name;
    if (is_embedded(text, n))
        *ret_place = (hs_model_place){text, NULL, n, 0};
    else if (n_name && n_name + 1 < n)
        *ret_place = (hs_model_place){text, equals + 1, n_name, n - n_name - 1};
    else if (!equals && hs_hub_name_parse(text, n, &name))
        *ret_place = place_unnamed(text, n);
    else
        return hs_fail(err, HS_INVALID,
                       "expected NAME=DIR, org/name of the hub, or %s for the built-in model",
                       HS_EMBEDDED_NAME);
    return HS_OK;
}

hs_status hs__catalog_add(hs_catalog_options *options, const char *value, hs_error *err)
{
    for (const char *item = value;; item++) {
        const size_t n = strcspn(item, ",");
        hs_model_place place;
        hs_status st = place_read(item, n, &place, err);
        if (!st)
            st = place_append(options, place, err);
        item += n;
        if (st || !*item)
            return st;
    }
}

hs_status hs__catalog_choose(hs_catalog_options *options, const char *value, hs_error *err)
{
    const size_t n = strlen(value);
    options->n_places = 0;
    return place_append(
        options, is_embedded(value, n) ? (hs_model_place){value, NULL, n, 0} : place_unnamed(value, n), err);
}

size_t hs__catalog_places(const hs_catalog_options *options)
{
    return options->n_places ? options->n_places : 1;
}

const hs_model_place *hs__catalog_place(const hs_catalog_options *options, size_t i)
{
    static const hs_model_place embedded = {HS_EMBEDDED_NAME, NULL, sizeof HS_EMBEDDED_NAME - 1, 0};
    return options->n_places ? &options->places[i] : &embedded;
}

size_t hs__catalog_find(const hs_catalog_options *options, const char *name)
{
    const size_t n = hs__catalog_places(options), n_name = strlen(name);
    for (size_t i = 0; i < n; i++) {
        const hs_model_place *place = hs__catalog_place(options, i);
        if (place->n_name == n_name && memcmp(place->name, name, n_name) == 0)
            return i;
    }
    return SIZE_MAX;
}

hs_status hs__model_place_open(const hs_model_place *place, hs_model **ret_model, hs_error *err)
{
    if (!place->n_dir)
        return hs_model_open_embedded(ret_model, err);
    char dir[PATH_MAX];
    struct stat info;
    hs_hub_name name;
    if (snprintf(dir, sizeof dir, "%.*s", (int)place->n_dir, place->dir) >= PATH_MAX)
        return hs_fail(err, HS_INVALID, "the path of a model is too long");
    if (stat(dir, &info) && hs_hub_name_parse(place->dir, place->n_dir, &name)) {
        const hs_status st = hs_hub_cache_find(&name, dir, err);
        if (st)
            return st;
    }
    return hs_model_open(dir, ret_model, err);
}

static hs_products products_of(const char *name)
{
    if (!name)
        return HS_PRODUCTS_DEFAULT;
    if (strcmp(name, "native") == 0)
        return HS_PRODUCTS_NATIVE;
    return strcmp(name, "openblas") == 0 ? HS_PRODUCTS_OPENBLAS : HS_PRODUCTS_ONEDNN;
}

static hs_precision precision_of(const char *name)
{
    if (!name || strcmp(name, "fp32") == 0)
        return HS_PRECISION_FP32;
    return strcmp(name, "bf16") == 0 ? HS_PRECISION_BF16 : HS_PRECISION_INT8;
}

static hs_status model_add(const hs_catalog_options *options, const hs_model_place *place,
                           hs_catalog *catalog, hs_error *err)
{
    const hs_engine_options engine = {.products = products_of(options->backend),
                                      .precision = precision_of(options->precision)};
    char name[256];
    hs_model **model = &catalog->models[catalog->n_models];
    hs_engine **packed = &catalog->engines[catalog->n_models];
    if (place->n_name >= sizeof name)
        return hs_fail(err, HS_INVALID, "a model's name is longer than %zu bytes", sizeof name - 1);
    snprintf(name, sizeof name, "%.*s", (int)place->n_name, place->name);
    catalog->n_models++; /* closing takes care of a half-made one */
    hs_status st = hs__model_place_open(place, model, err);
    if (!st)
        st = hs_engine_create(options->runtime, hs_model_recipe(*model), &engine, packed, err);
    if (!st) {
        hs_model_release_pages(*model);
        st = hs_api_add_model(catalog->api, name, *model, *packed, err);
    }
    return st;
}

hs_status hs__catalog_open(const hs_catalog_options *options, hs_catalog *ret_catalog, hs_error *err)
{
    const size_t n = hs__catalog_places(options);
    *ret_catalog = (hs_catalog){0};
    hs_status st = hs_api_create(&options->api, &ret_catalog->api, err);
    for (size_t i = 0; !st && i < n; i++)
        st = model_add(options, hs__catalog_place(options, i), ret_catalog, err);
    if (st)
        hs__catalog_close(ret_catalog);
    return st;
}

void hs__catalog_close(hs_catalog *catalog)
{
    hs_api_destroy(catalog->api);
    for (size_t i = 0; i < catalog->n_models; i++) {
        hs_engine_destroy(catalog->engines[i]);
        hs_model_close(catalog->models[i]);
    }
    *catalog = (hs_catalog){0};
}
