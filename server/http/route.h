/* route.h - what a route is, and finding one in a table that is handed down: exchanges walk the rows without
 * knowing who answers them. */
#pragma once

#include "api/api.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct hs_exchange hs_exchange;

typedef enum hs_place {
    HS_ON_LOOP,   /* at once: nothing that waits */
    HS_ON_DISK,   /* as a disk call */
    HS_ON_WORKER, /* by hs_api_handle, as `operation`: the functions are NULL */
} hs_place;

typedef struct hs_route {
    const char *method; /* GET answers HEAD too */
    const char *path;   /* {id} stands for anything between two slashes */
    hs_place place;
    bool open; /* without the token */
    const char *about;
    void (*answer)(hs_exchange *exchange); /* the request is whole; may suspend the exchange on the loop */
    /* For a body that is not kept in memory, as disk calls: before it, and for each piece of it in
     * exchange->body. Either may refuse. What is left when it ends is there when `answer` is called. */
    void (*begin)(hs_exchange *exchange);
    void (*receive)(hs_exchange *exchange);
    bool (*has)(const char *path); /* instead of comparing with path, or NULL */
    hs_operation operation;        /* of HS_ON_WORKER */
} hs_route;

typedef struct hs_routes {
    const hs_route *rows;
    size_t n;
} hs_routes;

/* The route of a request, or NULL: with *allow the path's methods for a 405, empty for a 404. */
const hs_route *hs__route_find(const hs_routes *routes, const char *method, const char *path, char *ret_allow,
                               size_t allow_size);
