/* library_errors.c - finds the request that libmicrohttpd refuses, and answers it on its socket.
 *
 * The library's log is the only sign of a refusal before its answer. The socket is shut down behind ours, so
 * the library writes nothing. */
#include "server/http/library_errors.h"

#include "server/http/access.h"
#include "server/http/headers.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* The exchange whose target the library is reading, and that target, or NULL. Loop thread only. */
static hs_exchange *opening;
static const char *opening_target;

void hs__library_opens(hs_exchange *x, const char *target)
{
    opening = x;
    opening_target = target;
}

/* Decodes as the library does. The path comes last, after the arguments. */
size_t hs__library_unescapes(void *server, struct MHD_Connection *connection, char *text)
{
    (void)server, (void)connection;
    if (text == opening_target)
        opening = NULL;
    return MHD_http_unescape(text);
}

/* Returns the exchange whose target or whole head is being judged, or NULL. All others that have not begun
 * wait for their headers, and the library tells the size of none of these. */
static hs_exchange *exchange_judged(const hs_server *server)
{
    for (const hs_connection *c = server->connections; c; c = c->next)
        if (c->exchange && c->exchange->phase == HS_PHASE_OPENED && !c->exchange->answered &&
            (c->exchange == opening ||
             MHD_get_connection_info(c->exchange->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)))
            return c->exchange;
    return NULL;
}

static const char *reason(const hs_exchange *x, unsigned status)
{
    if (status == MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE)
        return "There are too many query arguments, headers or cookies.";
    if (x != opening && !hs__header(x->mhd, MHD_HTTP_HEADER_HOST))
        return "Malformed request: there must be exactly one Host header.";
    return "Content-Length or Transfer-Encoding is not one that this server takes.";
}

static void answer(hs_exchange *x, unsigned status)
{
    hs_response problem;
    char start[256];
    hs_response_problem(&problem, (int)status, NULL, "%s", reason(x, status));
    const int n = snprintf(start, sizeof start,
                           "HTTP/1.1 %u Refused\r\nConnection: close\r\nContent-Type: %s\r\n"
                           "Content-Length: %zu\r\n\r\n",
                           status, problem.content_type, problem.body_bytes);
    /* A few hundred bytes fit into the empty send queue, unless the socket is closed. */
    if (send(x->connection->fd, start, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT | MSG_MORE) == n)
        (void)!send(x->connection->fd, problem.body, problem.body_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    hs_response_finish(&problem);
    x->answered = true;
    hs__access_record_unread(x->connection, x->target, (int)status);
    hs__connection_cut(x->connection);
}

void hs__library_logs(void *cls, const char *format, va_list args)
{
    static const char refusal[] = "Error processing request (HTTP response code is %u";
    if (strncmp(format, refusal, sizeof refusal - 1) != 0)
        return;
    hs_exchange *x = exchange_judged(cls);
    if (x)
        answer(x, va_arg(args, unsigned));
}
