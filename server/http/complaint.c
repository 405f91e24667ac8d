/* complaint.c - libmicrohttpd 0.9.75 answers a request that it cannot read with a page of its own, and only
 * its log tells of it. Worse, while it reads the target's arguments or judges the whole head it forgets that
 * it has answered: the page's header goes out twice, or the connection never ends. In these two places the
 * answer is given here instead, on the socket itself, and the socket is shut down before libmicrohttpd writes
 * to it. */
#include "server/http/complaint.h"

#include "server/http/access.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* The exchange whose target or whole head is being read just now, or NULL: any other one that has not begun
 * still waits for its headers, and libmicrohttpd tells the size of none of these. */
static hs_exchange *exchange_judged(const hs_server *server)
{
    for (const hs_connection *c = server->connections; c; c = c->next)
        if (c->exchange && c->exchange->phase == HS_OPENED &&
            (c->exchange->opening ||
             MHD_get_connection_info(c->exchange->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)))
            return c->exchange;
    return NULL;
}

static void answer(const hs_exchange *x, unsigned status)
{
    hs_response problem;
    char head[256];
    hs_response_problem(&problem, (int)status, NULL, "%s",
                        status == MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE
                            ? "There are too many query arguments, headers or cookies."
                            : "Content-Length is no number that this server takes.");
    const int n = snprintf(head, sizeof head,
                           "HTTP/1.1 %u Refused\r\nConnection: close\r\nContent-Type: %s\r\n"
                           "Content-Length: %zu\r\n\r\n",
                           status, problem.content_type, problem.body_bytes);
    /* A few hundred bytes with nothing before them: the socket takes them or is gone. */
    if (send(x->connection->fd, head, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT | MSG_MORE) == n)
        (void)!send(x->connection->fd, problem.body, problem.body_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    hs_response_finish(&problem);
    hs__connection_cut(x->connection);
}

void hs__complaint_hear(void *cls, const char *format, va_list args)
{
    static const char refusal[] = "Error processing request (HTTP response code is %u";
    hs_server *server = cls;
    if (strncmp(format, refusal, sizeof refusal - 1) != 0)
        return;
    const unsigned status = va_arg(args, unsigned);
    const hs_exchange *x = exchange_judged(server);
    hs__access_record_unread(server, x, (int)status);
    if (x)
        answer(x, status);
}

size_t hs__complaint_unescape(void *cls, struct MHD_Connection *mhd, char *text)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    const hs_connection *connection = info ? info->socket_context : NULL;
    (void)cls;
    if (connection && connection->exchange && connection->exchange->opening == text)
        connection->exchange->opening = NULL;
    return MHD_http_unescape(text);
}
