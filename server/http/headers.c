/* headers.c - request headers, read strictly: what two servers could understand differently is refused. */
#include "server/http/headers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <nettle/memops.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A CR without its LF is a line's end to some. */
#define CONTROLS "\1\2\3\4\5\6\7\10\12\13\14\15\16\17\20\21\22\23\24\25\26\27\30\31\32\33\34\35\36\37\177"
#define NO_TOKEN " \t\r\n\v\f\"(),/:;<=>?@[\\]{}"

const char *hs__header(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

/* What is seen of a head while its headers are walked in the order in which they came.
 *
 * libmicrohttpd cuts a head into strings where it lies: it writes a NUL over each colon and over the CR and
 * the LF of each line. So a head that has one reading only lies in memory without a gap, "name" NUL blanks
 * "value" NUL NUL and so on up to its end, which MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE tells. What has two
 * readings leaves a gap: a folded line (it is appended to a copy of the name), a bare LF, a NUL, a line
 * without a name (it ends the head there). A libmicrohttpd that did it otherwise would have every request
 * refused, which the tests would see. */
typedef struct framing {
    const char *at, *end; /* where the next name must be; the end of the head */
    int n_hosts, n_lengths, n_transfers;
    bool transfer_unknown, odd_name, gap;
} framing;

/* Moves over a string and the CRLF behind it. */
static void walk_line(framing *seen, const char *text)
{
    const char *nul = text + strlen(text);
    seen->gap |= seen->end - nul < 2 || nul[0] || nul[1];
    seen->at = nul + 2;
}

static void walk_header(framing *seen, const char *name, const char *value)
{
    if (seen->gap || name != seen->at || !value) {
        seen->gap = true;
        return;
    }
    const char *behind = name + strlen(name) + 1;
    seen->gap |= value < behind || value != behind + strspn(behind, " \t") || strpbrk(value, CONTROLS);
    if (!seen->gap)
        walk_line(seen, value);
}

static enum MHD_Result framing_count(void *cls, enum MHD_ValueKind kind, const char *name, const char *value)
{
    framing *seen = cls;
    (void)kind;
    walk_header(seen, name, value);
    if (strcasecmp(name, "Host") == 0) {
        seen->n_hosts++;
    } else if (strcasecmp(name, "Content-Length") == 0) {
        seen->n_lengths++;
    } else if (strcasecmp(name, "Transfer-Encoding") == 0) {
        seen->n_transfers++;
        seen->transfer_unknown |= !value || strcasecmp(value, "chunked") != 0;
    }
    /* "Content-Length : 5" is another header here and may be the body's length elsewhere. */
    seen->odd_name |= !*name || name[strcspn(name, NO_TOKEN)] != '\0';
    return MHD_YES;
}

static framing head_walk(struct MHD_Connection *connection, const char *method, const char *version)
{
    const union MHD_ConnectionInfo *size =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    framing seen = {.gap = !size};
    if (size)
        seen.end = method + size->header_size;
    if (size)
        walk_line(&seen, version);
    MHD_get_connection_values(connection, MHD_HEADER_KIND, framing_count, &seen);
    if (!seen.gap)
        seen.gap = seen.end - seen.at != 2 || seen.at[0] || seen.at[1];
    return seen;
}

const char *hs__headers_suspicious(struct MHD_Connection *connection, const char *method, const char *version)
{
    const framing seen = head_walk(connection, method, version);
    const bool first = strcmp(version, MHD_HTTP_VERSION_1_0) == 0;
    if (method[strcspn(method, NO_TOKEN)])
        return "the method is malformed";
    if (seen.odd_name)
        return "a header's name is malformed";
    if (seen.gap)
        return "the headers must be lines of name, colon and value that end with CR LF";
    if (seen.n_hosts > 1 || (seen.n_hosts == 0 && !first))
        return "there must be exactly one Host header";
    if (seen.n_lengths > 1)
        return "there is more than one Content-Length header";
    if (seen.n_lengths && seen.n_transfers)
        return "Content-Length and Transfer-Encoding exclude each other";
    if (seen.n_transfers > 1 || seen.transfer_unknown || (seen.n_transfers && first))
        return "the only Transfer-Encoding is chunked, of HTTP/1.1";
    return NULL;
}

bool hs__request_id_valid(const char *id)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
    const size_t n = strspn(id, allowed);
    return n && n <= HS_REQUEST_ID_MAX && !id[n];
}

/* So many digits 0-9 a-f, not all of them 0, and what follows them. */
static bool id_read(const char *text, size_t n_digits, char end, char *ret_id)
{
    if (strspn(text, "0123456789abcdef") != n_digits || text[n_digits] != end ||
        strspn(text, "0") == n_digits)
        return false;
    memcpy(ret_id, text, n_digits);
    ret_id[n_digits] = '\0';
    return true;
}

/* "00-" trace "-" parent "-01"; later versions may have more behind, ff is none. */
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

/* Without the port. */
static size_t host_name_bytes(const char *host)
{
    const char *colon = *host == '[' ? NULL : strrchr(host, ':');
    if (*host == '[')
        return strcspn(host, "]") + (strchr(host, ']') != NULL);
    return colon ? (size_t)(colon - host) : strlen(host);
}

bool hs__host_is_local(const char *host)
{
    static const char suffix[] = ".localhost";
    const size_t n = host_name_bytes(host), n_suffix = sizeof suffix - 1;
    struct in_addr v4;
    char name[INET_ADDRSTRLEN];
    if (n < sizeof name) {
        snprintf(name, sizeof name, "%.*s", (int)n, host);
        if (inet_pton(AF_INET, name, &v4) == 1)
            return ntohl(v4.s_addr) >> 24 == 127;
    }
    if (*host == '[')
        return n == 5 && memcmp(host, "[::1]", 5) == 0;
    return !memchr(host, '.', n) || (n > n_suffix && strncasecmp(host + n - n_suffix, suffix, n_suffix) == 0);
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
