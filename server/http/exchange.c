/* exchange.c - what functions that answer do with an exchange: reserve memory, set the answer, suspend. */
#include "server/http/exchange.h"

#include "model/files/json.h"
#include "server/http/loop.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char *hs__header(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

const char *hs__allowed_origin(const hs_exchange *x)
{
    const char *configured = x->server->options->cors_origin, *origin = hs__header(x->mhd, "Origin");
    if (!configured || !origin)
        return NULL;
    return strcmp(configured, "*") == 0 || strcasecmp(configured, origin) == 0 ? configured : NULL;
}

/* ---- exchange ----
 *
 * An exchange's memory and answer. */

#define WRITTEN_BYTES_MIN ((size_t)4 << 10)

/* Replaces the reservation by n_bytes, even over the limit. */
static void exchange_reserve_only(hs_exchange *x, size_t n_bytes)
{
    hs__client_memory_replace(&x->connection->peer->budget, &x->reserved_bytes, n_bytes);
}

bool hs__exchange_reserve(hs_exchange *x, size_t n_bytes)
{
    if (!hs__client_memory_take(&x->connection->peer->budget, n_bytes))
        return false;
    x->reserved_bytes += n_bytes;
    return true;
}

hs_status hs__exchange_claim(hs_exchange *x, size_t n_bytes, hs_error *err)
{
    const size_t max = x->connection->peer->budget.max;
    if (!n_bytes || hs__exchange_reserve(x, n_bytes))
        return HS_OK;
    if (x->reserved_bytes <= max && n_bytes <= max - x->reserved_bytes)
        return hs_fail(err, HS_NO_MEMORY, "%s", HS_MEMORY_IN_USE);
    return hs_fail(
        err, HS_TOO_LARGE,
        "The answer needs more than %zu bytes of memory, this server's limit for one client. Request "
        "less at a time, or raise --max-held.",
        max);
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

void hs__exchange_refuse_large(hs_exchange *x)
{
    hs__exchange_refuse(x, MHD_HTTP_CONTENT_TOO_LARGE,
                        "The body is larger than %zu bytes, this server's limit. Send less at a time.",
                        x->body_bytes_max);
}

void hs__exchange_refuse_memory(hs_exchange *x)
{
    hs__exchange_refuse_now(x, "The server is short of memory. Try again shortly.");
}

/* ---- answers that are written piece by piece ---- */

typedef struct written {
    hs_exchange *x;
    char *bytes;
    size_t n_bytes, capacity; /* the capacity is reserved */
    hs_error err;
} written;

/* Makes space for more bytes: doubles the capacity, or takes what is needed if only that is left. */
static bool written_fit(written *w, size_t n_more)
{
    const size_t needed = w->n_bytes + n_more;
    size_t capacity = w->capacity ? 2 * w->capacity : WRITTEN_BYTES_MIN;
    if (needed <= w->capacity)
        return true;
    if (needed <= WRITTEN_BYTES_MIN)
        exchange_reserve_only(w->x, w->x->reserved_bytes + capacity); /* never refused */
    else if (capacity < needed || !hs__exchange_reserve(w->x, capacity - w->capacity)) {
        capacity = needed;
        if (hs__exchange_claim(w->x, capacity - w->capacity, &w->err))
            return false;
    }
    char *bytes = realloc(w->bytes, capacity);
    if (!bytes) {
        (void)hs_fail(&w->err, HS_NO_MEMORY, "Out of memory."); /* its end returns the reservation */
        return false;
    }
    w->bytes = bytes;
    w->capacity = capacity;
    return true;
}

static ssize_t on_write(void *cookie, const char *bytes, size_t n_bytes)
{
    written *w = cookie;
    if (w->err.status || !written_fit(w, n_bytes))
        return 0; /* an error of the stream */
    memcpy(w->bytes + w->n_bytes, bytes, n_bytes);
    w->n_bytes += n_bytes;
    return (ssize_t)n_bytes;
}

hs_status hs__exchange_answer_written(hs_exchange *x, const char *content_type,
                                      hs_status (*write)(FILE *out, const void *data, hs_error *err),
                                      const void *data, hs_error *err)
{
    written w = {.x = x};
    hs_error why = {0};
    FILE *out = fopencookie(&w, "w", (cookie_io_functions_t){.write = on_write});
    hs_status st = out ? write(out, data, &why) : HS_NO_MEMORY;
    if (out && fclose(out) && !st)
        st = HS_NO_MEMORY;
    if (st || w.err.status) {
        free(w.bytes);
        const hs_error *first = w.err.status ? &w.err : &why;
        return hs_fail(err, w.err.status ? w.err.status : st, "%s",
                       *first->text ? first->text : "Out of memory.");
    }
    char *bytes = realloc(w.bytes, w.n_bytes); /* gives the rest back */
    if (bytes)
        w.bytes = bytes;
    hs__exchange_answer(x, MHD_HTTP_OK, content_type, w.bytes, w.n_bytes, false);
    return HS_OK;
}

static hs_status json_write(FILE *out, const void *json, hs_error *err)
{
    return hs_json_write(json, out, 6, err);
}

void hs__exchange_answer_json(hs_exchange *x, int status, json_t *json)
{
    hs_error err = {0};
    const hs_status st = json ? hs__exchange_answer_written(x, "application/json", json_write, json, &err)
                              : hs_fail(&err, HS_NO_MEMORY, "Out of memory.");
    json_decref(json);
    if (st == HS_TOO_LARGE)
        hs__exchange_refuse(x, MHD_HTTP_UNPROCESSABLE_CONTENT, "%s", err.text);
    else if (st)
        hs__exchange_refuse_now(x, err.text);
    else
        x->response.status = status;
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
    hs__loop_turn_again(
        x->server); /* a run that is under way, in whose callback this may be, resumes nothing */
}
