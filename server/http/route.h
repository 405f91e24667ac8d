/* route.h - a route, and the tables of routes that the server passes in. So exchanges do not depend on the
 * functions that answer them. */
#pragma once

#include "api/api.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct hs_exchange hs_exchange;

/* Where a route is answered. */
typedef enum hs_executor {
    HS_ON_LOOP,   /* on the loop; must not block */
    HS_ON_DISK,   /* as a disk call */
    HS_ON_WORKER, /* hs_api_handle with `operation`; no functions */
} hs_executor;

typedef struct hs_route {
    const char *method; /* GET also answers HEAD */
    const char *path;   /* {id} matches any text between two slashes */
    hs_executor executor;
    bool open;                             /* needs no token */
    void (*answer)(hs_exchange *exchange); /* called with the complete request; on the loop it may suspend the
                                              exchange */
    /* For a body that is not kept in memory; both are disk calls and may refuse. `begin` is called before the
     * body, `receive` for each piece of it in exchange->body. The last piece is left for `answer`. */
    void (*begin)(hs_exchange *exchange);
    void (*receive)(hs_exchange *exchange);
    bool (*has)(const char *path); /* replaces the comparison with path, or NULL */
    hs_operation operation;        /* for HS_ON_WORKER */
} hs_route;

/* The routes of one feature. */
typedef struct hs_route_table {
    const hs_route *rows;
    size_t n;
} hs_route_table;

/* All routes, searched in this order; NULL ends the tables. */
typedef struct hs_routes {
    const hs_route_table *const *tables;
} hs_routes;
