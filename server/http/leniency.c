/* leniency.c - requests that libmicrohttpd judges itself, or less strictly than this server does.
 *
 * Only this file relies on what the library does beyond its documentation. Which versions need what:
 *
 *     versions           what they do                                             section
 *     all                refuse some heads with a page of their own, which only   refusals
 *                        their log tells before it is sent
 *     below 0x00097701   accept heads with two readings                           heads
 *                        accept a bare LF in the lines around chunks, and         heads
 *                        folded trailers
 *
 * Debian 12 has 0.9.75. From 0x00097701 on (Debian 13 has 1.0.1), MHD_OPTION_CLIENT_DISCIPLINE_LVL refuses
 * requests with two readings. A program that was built with an older version may run with a newer one, for
 * both have the same soname. So the section "check" tries the version that runs before the server takes a
 * request. */
#include "server/http/leniency.h"

#include "server/base/system_errors.h"
#include "server/http/connection.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- refusals ----
 *
 * Finds the request that libmicrohttpd refuses, and answers it on its socket as this server answers. The
 * library's log is the only sign of a refusal before its answer. The socket is shut down behind ours, so the
 * library writes nothing. */

/* The exchange whose target the library is reading, and that target, or NULL. Loop thread only. */
static hs_exchange *opening;

static const char *opening_target;

void hs__leniency_opens(hs_exchange *x, const char *target)
{
    opening = x;
    opening_target = target;
}

/* Decodes as the library does. The path comes last, after the arguments. */
static size_t library_unescapes(void *server, struct MHD_Connection *connection, char *text)
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

static void error_answer(hs_exchange *x, unsigned status)
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
    hs__request_record_unread(x->connection, x->target, (int)status);
    hs__connection_cut(x->connection);
}

/* Reads the status of a refusal from the arguments of the library's log. Returns false for other lines. */
static bool refusal_read(const char *format, va_list args, unsigned *ret_status)
{
    static const char refusal[] = "Error processing request (HTTP response code is %u";
    if (strncmp(format, refusal, sizeof refusal - 1) != 0)
        return false;
    *ret_status = va_arg(args, unsigned);
    return true;
}

static void library_logs(void *server, const char *format, va_list args)
{
    unsigned status = 0;
    hs_exchange *x = refusal_read(format, args, &status) ? exchange_judged(server) : NULL;
    if (x)
        error_answer(x, status);
}

/* ---- heads ---- */

/* Returns true if the library that runs has no strict mode. */
static bool is_lenient(void)
{
    return MHD_VERSION < 0x00097701 && MHD_get_version()[0] == '0';
}

/* The library cuts a head into strings where it lies. It writes a NUL over each colon and over the CR and the
 * LF of each line. A head with one reading is therefore "method" NUL "target" ... "version" NUL NUL "name"
 * NUL blanks "value" NUL NUL ... NUL NUL without a gap. A folded line leaves a gap, because the library
 * appends it to a copy of the name. So does a bare LF, a NUL, or a blank before the target. A line without a
 * name leaves one too: it ends the head there. A version that did it otherwise would refuse every request,
 * which the tests would show. */
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

bool hs__leniency_refuses(hs_exchange *x, const char *method, const char *target, const char *version)
{
    if (!is_lenient())
        return false;
    if (head_has_gap(x->mhd, method, target, version)) {
        hs__exchange_refuse(
            x, MHD_HTTP_BAD_REQUEST,
            "Malformed request: the request line must have single spaces, and each header must be a "
            "line of name, colon and value that ends with CR LF.");
    } else if (hs__header(x->mhd, MHD_HTTP_HEADER_TRANSFER_ENCODING)) {
        /* Nothing that the library calls shows the lines around chunks. RFC 9112, 6.3 allows this answer. */
        hs__exchange_refuse(x, MHD_HTTP_LENGTH_REQUIRED,
                            "This server runs with libmicrohttpd %s, which does not read bodies in chunks "
                            "safely. Send the body with Content-Length, put a proxy in front that gathers "
                            "bodies, such as nginx, or run the server with libmicrohttpd 1.0 or newer.",
                            MHD_get_version());
    }
    return x->answered;
}

/* ---- options ---- */

typedef void (*log_callback)(void *cls, const char *format, va_list args);
typedef size_t (*unescape_callback)(void *cls, struct MHD_Connection *connection, char *text);

static void options_write(log_callback logs, unescape_callback unescapes, void *cls,
                          struct MHD_OptionItem ret_items[HS_LENIENCY_OPTIONS])
{
    const struct MHD_OptionItem items[HS_LENIENCY_OPTIONS] = {
#if MHD_VERSION < 0x00097701
        {MHD_OPTION_STRICT_FOR_CLIENT, !is_lenient(), NULL},
#else
        {MHD_OPTION_CLIENT_DISCIPLINE_LVL, 1, NULL}, /* refuse what RFC 9112 allows to refuse */
#endif
        {MHD_OPTION_EXTERNAL_LOGGER, (intptr_t)logs, cls},
        {MHD_OPTION_UNESCAPE_CALLBACK, (intptr_t)unescapes, cls},
        {MHD_OPTION_END, 0, NULL},
    };
    memcpy(ret_items, items, sizeof items);
}

void hs__leniency_options(hs_server *server, struct MHD_OptionItem ret_items[HS_LENIENCY_OPTIONS])
{
    options_write(library_logs, library_unescapes, server, ret_items);
}

/* ---- check ----
 *
 * Each trial sends one request through a pair of sockets to a daemon with the options above, and notes what
 * the library does with it. */

enum { TRIAL_BYTES_MAX = 4096, TRIAL_TURNS = 64 };

typedef struct trial {
    int fd;                            /* the library's end */
    struct MHD_Connection *connection; /* set with the target */
    const char *target;                /* the library's string; NULL before the request line was read */
    bool unescaped;                    /* the last string to be decoded was the target */
    bool taken, one_reading;           /* the access handler was called; with a head without a gap */
    bool answered;                     /* the library has written something */
    unsigned refusal;                  /* the status that the log told, or 0; what was known then: */
    bool opening, head_known;          /* the target but not yet the path; the head's size */
} trial;

static void *trial_opens(void *cls, const char *target, struct MHD_Connection *connection)
{
    trial *t = cls;
    t->target = target;
    t->connection = connection;
    return NULL;
}

static size_t trial_unescapes(void *cls, struct MHD_Connection *connection, char *text)
{
    trial *t = cls;
    (void)connection;
    t->unescaped = text == t->target;
    return MHD_http_unescape(text);
}

static void trial_logs(void *cls, const char *format, va_list args)
{
    trial *t = cls;
    if (t->refusal || !refusal_read(format, args, &t->refusal))
        return;
    t->opening = t->target && !t->unescaped;
    t->head_known = t->connection &&
                    MHD_get_connection_info(t->connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE) != NULL;
    shutdown(t->fd, SHUT_RDWR);
}

static enum MHD_Result trial_takes(void *cls, struct MHD_Connection *connection, const char *target,
                                   const char *method, const char *version, const char *upload,
                                   size_t *upload_bytes, void **request)
{
    trial *t = cls;
    (void)upload, (void)upload_bytes, (void)request;
    t->taken = true;
    t->one_reading = !is_lenient() || !head_has_gap(connection, method, target, version);
    return MHD_NO;
}

static const char *fault_of_a_request(const trial *t)
{
    if (!t->taken || !t->one_reading)
        return "does not keep a head as it came";
    return t->unescaped ? NULL : "does not decode the path last";
}

static const char *fault_of_a_refusal(const trial *t)
{
    if (t->taken || !t->refusal || !t->head_known)
        return "does not log the status of a request that it refuses, with the head's size known";
    return t->answered ? "answers on a socket that was shut down" : NULL;
}

static const char *fault_of_many_arguments(const trial *t)
{
    return t->refusal && t->opening ? NULL
                                    : "does not log that it refuses arguments before it decodes the path";
}

static const char *fault_of_two_readings(const trial *t)
{
    return t->taken && t->one_reading ? "takes a head with two readings" : NULL;
}

#define TEN(text)    text text text text text text text text text text
#define HOST_AND_END " HTTP/1.1\r\nHost: x\r\n\r\n"

static const struct {
    const char *request;
    const char *(*fault)(const trial *t);
} trials[] = {
    {"GET /a%20b?c=d HTTP/1.1\r\nHost: x\r\nX-Padded:  a \r\n\r\n", fault_of_a_request},
    {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: five\r\n\r\n", fault_of_a_refusal},
    {"GET /?" TEN(TEN("a=1&a=1&a=1&")) HOST_AND_END, fault_of_many_arguments},
    {"GET / HTTP/1.1\nHost: x\r\n\r\n", fault_of_two_readings},
    {"GET / HTTP/1.1\r\nHost: x\nX-Other: y\r\n\r\n", fault_of_two_readings},
    {"GET / HTTP/1.1\r\nHost: x\r\nX-Folded: a\r\n b\r\n\r\n", fault_of_two_readings},
};

/* Serves one end of a pair of sockets until the library has judged the request on the other. */
static bool trial_serve(trial *t, int client)
{
    struct MHD_OptionItem items[HS_LENIENCY_OPTIONS];
    const struct sockaddr address = {.sa_family = AF_UNIX};
    char answer[16];
    options_write(trial_logs, trial_unescapes, t, items);
    struct MHD_Daemon *daemon =
        MHD_start_daemon(MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_USE_ERROR_LOG, 0, NULL, NULL,
                         trial_takes, t, MHD_OPTION_ARRAY, items, MHD_OPTION_URI_LOG_CALLBACK, trial_opens, t,
                         MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)TRIAL_BYTES_MAX, MHD_OPTION_END);
    if (!daemon)
        return false;
    const bool served = MHD_add_connection(daemon, t->fd, &address, sizeof address) == MHD_YES;
    for (int i = 0; served && i < TRIAL_TURNS && !t->taken; i++)
        MHD_run(daemon);
    t->answered = recv(client, answer, sizeof answer, MSG_DONTWAIT) > 0;
    MHD_stop_daemon(daemon);
    return served;
}

static hs_status trial_run(const char *request, trial *t, hs_error *err)
{
    int ends[2] = {-1, -1};
    const size_t n = strlen(request);
    bool done = socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0;
    if (done) {
        t->fd = ends[1];
        done = send(ends[0], request, n, MSG_NOSIGNAL) == (ssize_t)n && trial_serve(t, ends[0]);
    }
    const int why = errno;
    if (ends[0] >= 0)
        close(ends[0]); /* the library closes the other */
    return done ? HS_OK
                : hs_fail(err, HS_IO, "cannot try libmicrohttpd %s: %s", MHD_get_version(),
                          hs__errno_text(why));
}

hs_status hs__leniency_check(hs_error *err)
{
    hs_status st = HS_OK;
    for (size_t i = 0; !st && i < sizeof trials / sizeof *trials; i++) {
        trial t = {0};
        st = trial_run(trials[i].request, &t, err);
        const char *fault = st ? NULL : trials[i].fault(&t);
        if (fault)
            st =
                hs_fail(err, HS_UNSUPPORTED,
                        "libmicrohttpd %s %s, and this server could then read requests in another way than a "
                        "proxy: run it with libmicrohttpd 0.9.75 or 1.0",
                        MHD_get_version(), fault);
    }
    return st;
}
