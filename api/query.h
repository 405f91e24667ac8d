/* query.h - reads the query of a URL: "max_tokens=128&name=my%20run". */
#pragma once

#include "api/problem.h"

enum { HS_QUERY_NAMES_MAX = 32, HS_QUERY_VALUE_BYTES = 2048 };

typedef struct hs_query {
    const char *values[HS_QUERY_NAMES_MAX]; /* decoded, in the order of the names; NULL: not given */
    char *text;                             /* holds them */
} hs_query;

/* Reads the parameters that names [n] lists; query may be NULL. Refuses with 422 one that is unknown, given
 * twice, without '=', as long as HS_QUERY_VALUE_BYTES or with a NUL. Call hs_query_finish also after a
 * refusal. */
int hs__query_read(const char *query, const char *const *names, size_t n, hs_query *ret_query,
                   hs__problem *problem);

/* Does the same. Returns false if it refused; ret_response then has the problem. */
bool hs_query_read(const char *query, const char *const *names, size_t n, hs_query *ret_query,
                   hs_response *ret_response);

void hs_query_finish(hs_query *query);
