/* route.c - finds the first row with this method and path, or the methods of the rows with this path. */
#include "server/http/route.h"

#include <stdio.h>
#include <string.h>

static bool path_matches(const hs_route *route, const char *path)
{
    const char *pattern = route->path;
    if (route->has)
        return route->has(path);
    while (*pattern == '{' ? *path && *path != '/' : *pattern && *pattern == *path) {
        if (*pattern == '{') {
            pattern += strcspn(pattern, "}") + 1;
            path += strcspn(path, "/");
        } else {
            pattern++;
            path++;
        }
    }
    return !*pattern && !*path;
}

const hs_route *hs__route_find(const hs_routes *routes, const char *method, const char *path, char *ret_allow,
                               size_t allow_size)
{
    size_t used = 0;
    *ret_allow = '\0';
    for (const hs_route *route = routes->rows; route < routes->rows + routes->n; route++) {
        if (!path_matches(route, path))
            continue;
        if (strcmp(route->method, method) == 0)
            return route;
        const char *also = strcmp(route->method, "GET") == 0 ? ", HEAD" : "";
        used += (size_t)snprintf(ret_allow + used, allow_size - used, "%s%s, ", route->method, also);
    }
    if (used)
        snprintf(ret_allow + used, allow_size - used, "OPTIONS");
    return NULL;
}
