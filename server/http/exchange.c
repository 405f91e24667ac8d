/* exchange.c - an exchange's memory and answer. */
#include "server/http/exchange.h"

#include "server/http/loop.h"

#include <assert.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the fault of a target, or NULL. libmicrohttpd decodes valid escapes and keeps other bytes, blanks
 * included; a NUL would end the path. */
static const char *target_malformed(const char *target)
{
    for (const char *at = target; *at; at++) {
        if (*at <= ' ' || *at > '~')
            return "a byte of the path must be percent-encoded";
        if (*at == '%' && (!isxdigit((unsigned char)at[1]) || !isxdigit((unsigned char)at[2])))
            return "a percent sign of the path is not followed by two hexadecimal digits";
        if (strncmp(at, "%00", 3) == 0)
            return "there is a NUL in the path";
    }
    return NULL;
}

hs_exchange *hs__exchange_create(hs_connection *connection, struct MHD_Connection *mhd, const char *target)
{
    hs_exchange *x = calloc(1, sizeof *x);
    char *copy = x ? strdup(target) : NULL;
    if (!copy) {
        free(x);
        return NULL;
    }
    x->server = connection->server;
    x->connection = connection;
    x->mhd = mhd;
    x->target = copy;
    x->malformed = target_malformed(copy);
    char *query = strchr(copy, '?');
    if (query) {
        *query = '\0';
        x->query = query + 1;
    }
    return x;
}

void hs__exchange_destroy(hs_exchange *x)
{
    if (!x)
        return;
    assert(!x->suspended);
    x->server->metrics.in_flight -= x->phase != HS_PHASE_OPENED;
    hs__exchange_reserve_only(x, 0);
    hs_response_recycle(x->server->catalog.api, &x->response);
    if (x->user_data)
        x->user_data_free(x->user_data);
    if (x->prepared)
        MHD_destroy_response(x->prepared);
    free(x->body);
    free(x->target);
    free(x);
}

bool hs__exchange_reserve(hs_exchange *x, size_t n_bytes)
{
    if (!hs__client_memory_take(&x->connection->peer->budget, n_bytes))
        return false;
    x->reserved_bytes += n_bytes;
    return true;
}

void hs__exchange_reserve_only(hs_exchange *x, size_t n_bytes)
{
    hs__client_memory_replace(&x->connection->peer->budget, &x->reserved_bytes, n_bytes);
}

void hs__exchange_answer(hs_exchange *x, int status, const char *content_type, char *body, size_t n_bytes,
                         bool body_static)
{
    x->response = (hs_response){.status = status,
                                .content_type = content_type,
                                .body = body,
                                .body_bytes = n_bytes,
                                .body_static = body_static};
    x->answered = true;
}

void hs__exchange_refuse_at(hs_exchange *x, int status, const char *pointer, const char *format, ...)
{
    char detail[1024]; /* the size of a problem's text */
    va_list args;
    va_start(args, format);
    vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    hs_response_finish(&x->response);
    hs_response_problem(&x->response, status, pointer, "%s", detail);
    x->answered = true;
}

void hs__exchange_refuse_now(hs_exchange *x, const char *detail)
{
    x->retry_after = "1";
    hs__exchange_refuse(x, MHD_HTTP_SERVICE_UNAVAILABLE, "%s", detail);
}

void hs__exchange_refuse_memory(hs_exchange *x)
{
    hs__exchange_refuse(x, MHD_HTTP_INTERNAL_SERVER_ERROR, "Out of memory.");
}

void hs__exchange_answer_json(hs_exchange *x, int status, json_t *json)
{
    char *text = json ? json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(6)) : NULL;
    json_decref(json);
    if (text)
        hs__exchange_answer(x, status, "application/json", text, strlen(text), false);
    else
        hs__exchange_refuse_memory(x);
}

void hs__exchange_suspend(hs_exchange *x)
{
    x->suspended = true;
    hs__connection_unwatch(x->connection);
    hs__connection_expect(x->connection, 0);
    MHD_suspend_connection(x->mhd);
}

void hs__exchange_resume(hs_exchange *x)
{
    x->suspended = false;
    hs__connection_unwatch(x->connection);
    hs__connection_expect(x->connection, 0); /* it may come before libmicrohttpd answers */
    MHD_resume_connection(x->mhd);
    hs__loop_wake(x->server);
}
