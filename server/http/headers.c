/* headers.c - strict parsing of request headers. Ambiguous ones are refused. */
#include "server/http/headers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <nettle/memops.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define ALPHANUMERICS "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

const char *hs__header(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

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

const char *hs__head_malformed(struct MHD_Connection *connection, const char *method, const char *target,
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
    if (seen.host && !hs__host_valid(seen.host))
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

bool hs__request_id_valid(const char *id)
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

/* Parses "00-" trace "-" parent "-01". Later versions may append more; version ff is invalid. */
void hs__trace_read(const char *traceparent, hs_trace *ret_trace)
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

bool hs__etag_matches(const char *if_none_match, const char *etag)
{
    const size_t n = strlen(etag);
    for (const char *at = if_none_match; at && *at;) {
        at += strspn(at, ", \t");
        if (*at == '*')
            return true;
        at += strncmp(at, "W/", 2) == 0 ? 2 : 0;
        const size_t item = strcspn(at, ", \t");
        if (item == n && memcmp(at, etag, n) == 0)
            return true;
        at += item;
    }
    return false;
}

bool hs__bearer_matches(const char *authorization, const char *tokens)
{
    bool matches = false;
    if (!authorization || strncasecmp(authorization, "Bearer ", 7) != 0)
        return false;
    const char *given = authorization + 7;
    const size_t n_given = strlen(given);
    for (const char *token = tokens; *token; token += *token == '\n') {
        const size_t n_token = strcspn(token, "\n");
        matches |= n_token == n_given && memeql_sec(given, token, n_token);
        token += n_token;
    }
    return matches;
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

bool hs__host_valid(const char *host)
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

bool hs__host_is_local(const char *host, const char *listen)
{
    static const char name[] = "localhost", suffix[] = ".localhost";
    const size_t n = host_name_bytes(host), n_name = sizeof name - 1, n_suffix = sizeof suffix - 1;
    const char *port = strrchr(listen, ':');
    if (n > 0 && port && n == (size_t)(port - listen) && strncasecmp(host, listen, n) == 0)
        return true;
    return is_loopback(host, n) || (n == n_name && strncasecmp(host, name, n) == 0) ||
           (n > n_suffix && strncasecmp(host + n - n_suffix, suffix, n_suffix) == 0);
}

bool hs__host_is_among(const char *host, const char *names)
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

bool hs__origin_is_host(const char *origin, const char *host)
{
    const char *behind = strstr(origin, "://");
    return host && behind && strcasecmp(behind + 3, host) == 0;
}
