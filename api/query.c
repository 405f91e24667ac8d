/* query.c - cuts a copy of the query at '&' and '=' and decodes the pieces where they are. */
#include "api/query.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the value of a hexadecimal digit, or -1. */
static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20; /* small letters */
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes %XX and '+'; a '%' without two digits stands for itself. Returns false for a NUL. */
static bool decode(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++) {
        const int high = *from == '%' ? hex_value(from[1]) : -1, low = high < 0 ? -1 : hex_value(from[2]);
        *to = low < 0 ? *from == '+' ? ' ' : *from : (char)(high * 16 + low);
        from += low < 0 ? 0 : 2;
        if (!*to++)
            return false;
    }
    *to = '\0';
    return true;
}

/* Writes "max_tokens, layers, ...". */
static const char *list(const char *const *names, size_t n, char *ret, size_t n_ret)
{
    size_t used = 0;
    for (size_t k = 0; k < n && used < n_ret; k++)
        used += (size_t)snprintf(ret + used, n_ret - used, "%s%s", k ? ", " : "", names[k]);
    return ret;
}

static int refuse_unknown(const char *name, const char *pointer, const char *const *names, size_t n,
                          hs__problem *problem)
{
    char allowed[512];
    const bool can_point = strlen(name) <= 64 && !strpbrk(name, "/~");
    return hs__refuse(problem, 422, can_point ? pointer : NULL, "unknown query parameter '%.*s'; allowed: %s",
                      hs__clip(name, strlen(name)), name, list(names, n, allowed, sizeof allowed));
}

/* Keeps one parameter. value is NULL without '='. */
static int take(hs_query *query, char *name, char *value, const char *const *names, size_t n,
                hs__problem *problem)
{
    char pointer[80];
    size_t k = 0;
    if (!decode(name) || (value && !decode(value)))
        return hs__refuse(problem, 422, NULL, "the query has a NUL, %%00; send text without it");
    snprintf(pointer, sizeof pointer, "/%.64s", name);
    while (k < n && strcmp(name, names[k]) != 0)
        k++;
    if (k == n)
        return refuse_unknown(name, pointer, names, n, problem);
    if (query->values[k])
        return hs__refuse(problem, 422, pointer, "the query parameter '%s' is given twice; send it once",
                          name);
    if (!value || strlen(value) >= HS_QUERY_VALUE_BYTES)
        return hs__refuse(problem, 422, pointer, "%s must have a value of less than %d bytes", name,
                          HS_QUERY_VALUE_BYTES);
    query->values[k] = value;
    return 0;
}

int hs__query_read(const char *query, const char *const *names, size_t n, hs_query *ret_query,
                   hs__problem *problem)
{
    assert(n <= HS_QUERY_NAMES_MAX);
    *ret_query = (hs_query){.text = strdup(query ? query : "")};
    char *rest = ret_query->text, *name;
    if (!rest)
        return hs__refuse(problem, 500, NULL, "no memory for the query");
    while ((name = strsep(&rest, "&"))) {
        char *value = strchr(name, '=');
        if (value)
            *value++ = '\0';
        if ((*name || value) && take(ret_query, name, value, names, n, problem))
            return problem->status;
    }
    return 0;
}

bool hs_query_read(const char *query, const char *const *names, size_t n, hs_query *ret_query,
                   hs_response *ret_response)
{
    hs__problem problem = {0};
    if (!hs__query_read(query, names, n, ret_query, &problem))
        return true;
    *ret_response = (hs_response){0};
    hs__problem_write(&problem, NULL, ret_response);
    return false;
}

void hs_query_finish(hs_query *query)
{
    free(query->text);
    *query = (hs_query){0};
}
