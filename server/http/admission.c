/* admission.c - who may ask, and which requests are read at all. */
#include "server/http/admission.h"

#include "model/base/read_number.h"
#include "server/base/identifier.h"
#include "server/http/leniency.h"
#include "server/http/tokens.h"

#include <arpa/inet.h>
#include <assert.h>
#include <ctype.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool host_valid(const char *host);

/* ---- headers ----
 *
 * Strict parsing of request headers. Ambiguous ones are refused. */

#define ALPHANUMERICS "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

/* ---- framing ---- */

typedef struct framing {
    const char *host;
    int n_hosts, n_lengths, n_transfers;
    bool transfer_unknown, odd_name, odd_value;
} framing;

/* Returns true if text is a token of RFC 9110, 5.6.2. */
static bool is_token(const char *text)
{
    const size_t n = strspn(text, ALPHANUMERICS "!#$%&'*+-.^_`|~");
    return n && !text[n];
}

static bool has_control(const char *text)
{
    for (const char *at = text; *at; at++)
        if (((unsigned char)*at < ' ' && *at != '\t') || *at == '\x7f')
            return true;
    return false;
}

static enum MHD_Result framing_count(void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
    framing *seen = cls;
    (void)kind;
    if (strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0) {
        seen->n_hosts++;
        seen->host = value;
    } else if (strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0) {
        seen->n_lengths++;
    } else if (strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0) {
        seen->n_transfers++;
        seen->transfer_unknown |= !value || strcasecmp(value, "chunked") != 0;
    }
    seen->odd_name |= !is_token(name);
    seen->odd_value |= value && has_control(value);
    return MHD_YES;
}

/* Returns true unless the target is absolute ("http://host/path") and names another host than Host does. */
static bool target_is_host(const char *target, const char *host)
{
    if (strncasecmp(target, "http://", 7) != 0)
        return true;
    const char *authority = target + 7;
    const size_t n = strcspn(authority, "/");
    return host && strlen(host) == n && strncasecmp(authority, host, n) == 0;
}

/* Returns why another server on the way could read this head differently (request smuggling), or NULL if it
 * has one reading. Refuses malformed names, values with control characters, a target of another host, a
 * missing, malformed or second Host, and a second Content-Length. Refuses Transfer-Encoding beside
 * Content-Length or other than "chunked". method, target and version are those of libmicrohttpd's access
 * handler. */
static const char *head_malformed(struct MHD_Connection *connection, const char *method, const char *target,
                                  const char *version)
{
    framing seen = {0};
    const bool first = strcmp(version, MHD_HTTP_VERSION_1_0) == 0;
    MHD_get_connection_values(connection, MHD_HEADER_KIND, framing_count, &seen);
    if (!is_token(method))
        return "the method is malformed";
    if (seen.odd_name)
        return "a header's name is malformed";
    if (seen.odd_value)
        return "a header's value has a control character";
    if (seen.n_hosts > 1 || (seen.n_hosts == 0 && !first))
        return "there must be exactly one Host header";
    if (seen.host && !host_valid(seen.host))
        return "the Host header must be a name or an address, with or without a port";
    if (!target_is_host(target, seen.host))
        return "the target names another host than the Host header";
    if (seen.n_lengths > 1)
        return "there is more than one Content-Length header";
    if (seen.n_lengths && seen.n_transfers)
        return "Content-Length and Transfer-Encoding exclude each other";
    if (seen.n_transfers > 1 || seen.transfer_unknown || (seen.n_transfers && first))
        return "the only Transfer-Encoding is chunked, of HTTP/1.1";
    return NULL;
}

/* ---- values of headers ---- */

/* Returns true for 1 to 64 characters of A-Z a-z 0-9 . _ - , which are safe in log lines and headers. */
static bool request_id_valid(const char *id)
{
    const size_t n = strspn(id, ALPHANUMERICS "._-");
    return n && n <= HS_REQUEST_ID_MAX && !id[n];
}

/* Copies n_digits lower-case hexadecimal digits, not all 0, if `end` follows them. Returns false otherwise.
 */
static bool id_read(const char *text, size_t n_digits, char end, char *ret_id)
{
    if (strspn(text, "0123456789abcdef") != n_digits || text[n_digits] != end ||
        strspn(text, "0") == n_digits)
        return false;
    memcpy(ret_id, text, n_digits);
    ret_id[n_digits] = '\0';
    return true;
}

/* Parses "00-" trace "-" parent "-01"; NULL or malformed: both ids are "". Later versions may append more;
 * version ff is invalid. */
static void trace_read(const char *traceparent, hs_trace *ret_trace)
{
    hs_trace trace = {0};
    *ret_trace = trace;
    if (!traceparent || strlen(traceparent) < 55 || strspn(traceparent, "0123456789abcdef") != 2 ||
        strncmp(traceparent, "ff", 2) == 0 || traceparent[2] != '-')
        return;
    const bool longer = traceparent[55] != '\0', first = strncmp(traceparent, "00", 2) == 0;
    if (id_read(traceparent + 3, 32, '-', trace.trace_id) &&
        id_read(traceparent + 36, 16, '-', trace.parent_id) &&
        strspn(traceparent + 53, "0123456789abcdef") == 2 && !(longer && (first || traceparent[55] != '-')))
        *ret_trace = trace;
}

/* Accepts request and trace ids from the client. */
static void ids_read(hs_exchange *x)
{
    const char *id = hs__header(x->mhd, "X-Request-Id");
    trace_read(hs__header(x->mhd, "traceparent"), &x->trace);
    if (id && request_id_valid(id))
        snprintf(x->id, sizeof x->id, "%s", id);
    else
        hs__identifier_make(x->id);
}

/* Returns the length of host's name, or of an IPv6 address with its brackets. The rest is a port, empty or
 * malformed. */
static size_t host_name_bytes(const char *host)
{
    if (*host != '[')
        return strspn(host, ALPHANUMERICS "._-");
    const size_t n = 1 + strspn(host + 1, "0123456789ABCDEFabcdef:.");
    return host[n] == ']' ? n + 1 : 0;
}

/* Returns true if host is a name of letters, digits and "._-", an address of IPv4, or one of IPv6 in
 * brackets, followed by nothing or by ":" and a port. */
static bool host_valid(const char *host)
{
    const char *port = host + host_name_bytes(host);
    return !*port || (*port == ':' && !port[1 + strspn(port + 1, "0123456789")]);
}

/* Returns true if the name is a loopback address in its standard notation: 127.x.x.x in decimal, or [::1] in
 * any spelling of RFC 4291. Other notations, such as 2130706433, do not count. */
static bool is_loopback(const char *host, size_t n)
{
    const bool bracketed = *host == '[';
    struct in6_addr v6;
    struct in_addr v4;
    char name[INET6_ADDRSTRLEN];
    if (n < 2 || n >= sizeof name)
        return false;
    snprintf(name, sizeof name, "%.*s", (int)(bracketed ? n - 2 : n), host + bracketed);
    if (bracketed)
        return inet_pton(AF_INET6, name, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
    return inet_pton(AF_INET, name, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127;
}

/* Returns true if a valid Host, with or without port, must be this machine: localhost, *.localhost, a
 * loopback address in standard notation, or the host of `listen` ("HOST:PORT"). Any other name could be
 * rebound to this machine: names without a dot, too, because resolvers may append a domain. */
static bool host_is_local(const char *host, const char *listen)
{
    static const char name[] = "localhost", suffix[] = ".localhost";
    const size_t n = host_name_bytes(host), n_name = sizeof name - 1, n_suffix = sizeof suffix - 1;
    const char *port = strrchr(listen, ':');
    if (n > 0 && port && n == (size_t)(port - listen) && strncasecmp(host, listen, n) == 0)
        return true;
    return is_loopback(host, n) || (n == n_name && strncasecmp(host, name, n) == 0) ||
           (n > n_suffix && strncasecmp(host + n - n_suffix, suffix, n_suffix) == 0);
}

/* Returns true if the host's name is in the list "a.example,b.example" (may be NULL). */
static bool host_is_among(const char *host, const char *names)
{
    const size_t n = host_name_bytes(host);
    for (const char *at = names; at && *at; at += *at == ',') {
        const size_t n_name = strcspn(at, ",");
        if (n_name == n && strncasecmp(at, host, n) == 0)
            return true;
        at += n_name;
    }
    return false;
}

/* Returns true if an Origin ("https://a.example:8080") equals the Host (may be NULL). Ignores the scheme,
 * because a proxy may terminate TLS. */
static bool origin_is_host(const char *origin, const char *host)
{
    const char *behind = strstr(origin, "://");
    return host && behind && strcasecmp(behind + 3, host) == 0;
}

/* ---- route ---- */

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

/* Returns the route of a request, or NULL. ret_allow gets the path's methods for a 405, or "" for a 404. */
static const hs_route *row_find(const hs_routes *routes, const char *method, const char *path,
                                char *ret_allow, size_t allow_size)
{
    size_t used = 0;
    *ret_allow = '\0';
    for (const hs_route_table *const *table = routes->tables; *table; table++)
        for (const hs_route *route = (*table)->rows; route < (*table)->rows + (*table)->n; route++) {
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

/* ---- admission ----
 *
 * Checks framing, number of connections, Host, path, token, Origin and size, in this order.
 *
 * Host and Origin protect against pages of other sites in a browser on this machine. A page whose name is
 * rebound to 127.0.0.1 is "same-origin" with a server there, but sends its own name as Host. A page can post
 * a form or plain text without a preflight request, but sends its site as Origin. */

static unsigned long long length_of(const hs_exchange *x)
{
    const char *length = hs__header(x->mhd, MHD_HTTP_HEADER_CONTENT_LENGTH);
    int64_t n_bytes = 0; /* the largest number if it is beyond it */
    if (length)
        (void)hs_integer_read(length, NULL, 0, INT64_MAX, &n_bytes);
    return (unsigned long long)n_bytes;
}

/* Returns true if a body is still to come that should not be read: it is too long, or the client waits for
 * "100 Continue". */
static bool body_unwanted(const hs_exchange *x)
{
    const unsigned long long n_bytes = length_of(x);
    return n_bytes > HS_DISCARD_BYTES_MAX || (n_bytes && hs__header(x->mhd, MHD_HTTP_HEADER_EXPECT));
}

static bool host_allowed(const hs_exchange *x)
{
    const hs_server *server = x->server;
    const char *host = hs__header(x->mhd, MHD_HTTP_HEADER_HOST);
    const hs_server_options *o = server->options;
    return !host || host_is_local(host, o->listen) || host_is_among(host, o->allow_hosts) ||
           (!server->listener.is_local && !o->allow_hosts);
}

/* Returns true if a page of this Origin may change something here. Programs send no Origin. */
static bool origin_allowed(const hs_exchange *x)
{
    const char *origin = hs__header(x->mhd, MHD_HTTP_HEADER_ORIGIN);
    const char *site = hs__header(x->mhd, "Sec-Fetch-Site");
    if (strcmp(x->method, "GET") == 0 || strcmp(x->method, "OPTIONS") == 0 || hs__allowed_origin(x))
        return true;
    if (!origin)
        return !site || strcmp(site, "cross-site") != 0;
    return origin_is_host(origin, hs__header(x->mhd, MHD_HTTP_HEADER_HOST));
}

static void route_find(hs_exchange *x)
{
    const hs_server *server = x->server;
    x->route = row_find(server->routes, x->method, x->path, x->allow, sizeof x->allow);
    if (strcmp(x->method, "OPTIONS") == 0 && *x->allow) { /* a preflight request (CORS) */
        x->allow_methods = x->allow;
        hs__exchange_answer(x, MHD_HTTP_NO_CONTENT, NULL, NULL, 0, true);
    } else if (!*x->path) { /* the root path: the viewer's own addresses are relative to "root path/" */
        snprintf(x->location, sizeof x->location, "/");
        hs__exchange_answer(x, MHD_HTTP_PERMANENT_REDIRECT, NULL, NULL, 0, true);
    } else if (!x->route && !*x->allow) {
        hs__exchange_refuse(x, MHD_HTTP_NOT_FOUND,
                            "Nothing is served at this path. GET /openapi.json lists all paths.");
    } else if (!x->route) {
        hs__exchange_refuse(x, MHD_HTTP_METHOD_NOT_ALLOWED, "This path does not take %.32s. It takes %s.",
                            x->method, x->allow);
    }
}

/* Returns true if the request has a body, of a known length or in chunks, with an encoding of its own. */
static bool is_encoded(const hs_exchange *x)
{
    const char *encoding = hs__header(x->mhd, MHD_HTTP_HEADER_CONTENT_ENCODING);
    return encoding && strcasecmp(encoding, "identity") != 0 &&
           (length_of(x) > 0 || hs__header(x->mhd, MHD_HTTP_HEADER_TRANSFER_ENCODING));
}

static void route_admit(hs_exchange *x)
{
    const hs_server *server = x->server;
    x->body_bytes_max =
        x->route->receive ? server->options->corpus_bytes_max : server->options->body_bytes_max;
    if (!x->route->open && server->tokens &&
        !hs__tokens_match(hs__header(x->mhd, "Authorization"), server->tokens)) {
        x->authenticate = "Bearer realm=\"headscope\"";
        hs__exchange_refuse(
            x, MHD_HTTP_UNAUTHORIZED,
            "This server requires a token: send Authorization: Bearer <token>. Ask its operator for one.");
    } else if (!origin_allowed(x)) {
        hs__exchange_refuse(
            x, MHD_HTTP_FORBIDDEN,
            "A page of another site sent this request. The server's option --cors allows its origin.");
    } else if (x->route->executor == HS_ON_WORKER && server->state == HS_SERVER_LOADING) {
        hs__exchange_refuse_now(x, HS_STILL_LOADING);
    } else if (length_of(x) > x->body_bytes_max) {
        hs__exchange_refuse_large(x);
    } else if (!x->route->receive && is_encoded(x)) { /* an upload's format is detected */
        hs__exchange_refuse(x, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE,
                            "The body has Content-Encoding '%.32s'. Send it as it is, without this header.",
                            hs__header(x->mhd, MHD_HTTP_HEADER_CONTENT_ENCODING));
    }
}

bool hs__admission_refuses(hs_exchange *x, const char *method, const char *target, const char *version)
{
    ids_read(x);
    x->body_unwanted = body_unwanted(x);
    const char *why = x->malformed ? x->malformed : head_malformed(x->mhd, method, target, version);
    if (why) {
        hs__exchange_refuse(x, MHD_HTTP_BAD_REQUEST, "Malformed request: %s.", why);
        return true;
    }
    if (hs__leniency_refuses(x, method, target, version))
        return true;
    if (x->server->n_connections > x->server->options->connections_max) {
        x->retry_after = "1";
        hs__exchange_refuse(x, MHD_HTTP_SERVICE_UNAVAILABLE,
                            "The server has %zu connections, its limit. Try again shortly.",
                            x->server->options->connections_max);
        return true;
    }
    if (!host_allowed(x))
        hs__exchange_refuse(x, MHD_HTTP_MISDIRECTED_REQUEST,
                            "This server answers only under names of this machine, and the Host header has "
                            "another one. The server's option --allow-host NAME allows it.");
    if (!x->answered)
        route_find(x);
    if (!x->answered)
        route_admit(x);
    return x->answered && x->body_unwanted;
}
