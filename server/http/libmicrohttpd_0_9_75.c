/* libmicrohttpd_0_9_75.c - compiled for versions before 1.0 only.
 *
 * These versions have no strict mode, and no documented call gives the bytes of a request. Three faults of
 * theirs are dealt with here:
 * - They accept heads with two readings: see head_has_gap.
 * - They accept a bare LF in the lines around chunks, and folded trailers. Nothing that they call shows these
 *   lines, so a body in chunks is refused with 411, as RFC 9112, 6.3 allows.
 * - They forget that they have answered while they read the target's arguments or judge the whole head. The
 *   answer's header goes out twice then, or the connection never ends. The log is the only sign of this, so
 *   the answer is given from there, and the socket is shut down before the library writes to it. */
#include "server/http/libmicrohttpd_0_9_75.h"

#if HS_MHD_IS_LENIENT

#include "server/http/access.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

bool hs__mhd_0_9_75_runs(void)
{
    return MHD_get_version()[0] == '0';
}

/* ---- heads with two readings ---- */

/* The library cuts a head into strings where it lies. It writes a NUL over each colon and over the CR and the
 * LF of each line. A head with one reading is therefore "method" NUL "target" ... "version" NUL NUL "name"
 * NUL blanks "value" NUL NUL ... NUL NUL without a gap. These leave a gap: a folded line (the library appends
 * it to a copy of the name), a bare LF, a NUL, a line without a name (it ends the head there), blanks before
 * the target. A version that did it otherwise would refuse every request, which the tests would show. */
typedef struct head {
    const char *at, *end; /* where the next name must be; the end of the head */
    bool gap;
} head;

/* Moves over a string and the CR LF behind it. */
static void line_pass(head *h, const char *text)
{
    const char *nul = text + strlen(text);
    h->gap |= h->end - nul < 2 || nul[0] || nul[1];
    h->at = nul + 2;
}

static enum MHD_Result header_pass(void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
    head *h = cls;
    (void)kind;
    h->gap |= name != h->at || !value;
    if (h->gap)
        return MHD_NO;
    const char *behind = name + strlen(name) + 1;
    h->gap |= value < behind || value != behind + strspn(behind, " \t");
    if (!h->gap)
        line_pass(h, value);
    return MHD_YES;
}

static bool head_has_gap(struct MHD_Connection *connection, const char *method, const char *target,
                         const char *version)
{
    const union MHD_ConnectionInfo *size =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    if (!size || target != method + strlen(method) + 1)
        return true;
    head h = {.end = method + size->header_size};
    line_pass(&h, version);
    MHD_get_connection_values(connection, MHD_HEADER_KIND, header_pass, &h);
    return h.gap || h.end - h.at != 2 || h.at[0] || h.at[1];
}

bool hs__mhd_0_9_75_refuses(hs_exchange *x, const char *method, const char *target, const char *version)
{
    if (!hs__mhd_0_9_75_runs())
        return false;
    if (head_has_gap(x->mhd, method, target, version)) {
        hs__exchange_refuse(
            x, MHD_HTTP_BAD_REQUEST,
            "Malformed request: the request line must have single spaces, and each header must be a "
            "line of name, colon and value that ends with CR LF.");
    } else if (hs__header(x->mhd, MHD_HTTP_HEADER_TRANSFER_ENCODING)) {
        hs__exchange_refuse(x, MHD_HTTP_LENGTH_REQUIRED,
                            "This server runs with libmicrohttpd %s, which does not read bodies in chunks "
                            "safely. Send the body with Content-Length, or run the server with libmicrohttpd "
                            "1.0 or newer.",
                            MHD_get_version());
    }
    return x->answered;
}

/* ---- answers in place of damaged ones ---- */

/* The exchange whose target the library is reading, and that target, or NULL. Loop thread only. */
static hs_exchange *opening;
static const char *opening_target;

void hs__mhd_0_9_75_open(hs_exchange *x, const char *target)
{
    opening = x;
    opening_target = target;
}

/* Decodes as the library does. The path comes last, after the arguments. */
size_t hs__mhd_0_9_75_unescape(void *server, struct MHD_Connection *connection, char *text)
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
        if (c->exchange && c->exchange->phase == HS_PHASE_OPENED &&
            (c->exchange == opening ||
             MHD_get_connection_info(c->exchange->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)))
            return c->exchange;
    return NULL;
}

static void answer(hs_exchange *x, unsigned status)
{
    hs_response problem;
    char start[256];
    hs_response_problem(&problem, (int)status, NULL, "%s",
                        status == MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE
                            ? "There are too many query arguments, headers or cookies."
                            : "Content-Length is not a number that this server takes.");
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

void hs__mhd_0_9_75_log(void *cls, const char *format, va_list args)
{
    static const char refusal[] = "Error processing request (HTTP response code is %u";
    if (!hs__mhd_0_9_75_runs() || strncmp(format, refusal, sizeof refusal - 1) != 0)
        return;
    hs_exchange *x = exchange_judged(cls);
    if (x)
        answer(x, va_arg(args, unsigned));
}

#endif
