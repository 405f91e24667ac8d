/* routes.h - the whole HTTP surface in one table. */
#pragma once

#include "server/http/exchange.h"

struct hs_route {
    const char *method;                    /* GET answers HEAD too */
    const char *path;                      /* {id} stands for anything between two slashes */
    void (*answer)(hs_exchange *exchange); /* on the loop, at once; NULL: by a worker, with hs_api_handle */
    bool open;                             /* without the token */
    const char *about;
    /* For a body that is not kept in memory: before it, and for each piece of it. Either may refuse. */
    void (*begin)(hs_exchange *exchange);
    void (*receive)(hs_exchange *exchange, const char *bytes, size_t n_bytes);
};

/* The route of a request, or NULL: with *allow the path's methods for a 405, empty for a 404. */
const hs_route *hs__route_find(const char *method, const char *path, char *ret_allow, size_t allow_size);

size_t hs__route_number(const hs_route *route); /* in metrics; NULL has one too */

/* The viewer's file under a path ("/" is its index), or NULL; and its route's answer. */
typedef struct hs_viewer_file hs_viewer_file;
const hs_viewer_file *hs__viewer_find(const char *path);
void hs__viewer_answer(hs_exchange *exchange);
