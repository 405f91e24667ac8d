/* headers.h - parses request headers and checks the framing of a request. */
#pragma once

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

/* Returns why another server on the way could read this head differently (request smuggling), or NULL if it
 * has one reading. Refuses malformed names, values with control characters, a target of another host, a
 * missing, malformed or second Host, and a second Content-Length. Refuses Transfer-Encoding beside
 * Content-Length or other than "chunked". method, target and version are those of libmicrohttpd's access
 * handler. */
const char *hs__head_malformed(struct MHD_Connection *connection, const char *method, const char *target,
                               const char *version);

/* Returns a header's value, or NULL. Borrowed from the connection. */
const char *hs__header(struct MHD_Connection *connection, const char *name);

/* Returns true for 1 to 64 characters of A-Z a-z 0-9 . _ - , which are safe in log lines and headers. */
enum { HS_REQUEST_ID_MAX = 64 };
bool hs__request_id_valid(const char *id);

/* W3C Trace Context: the request's trace and the caller's span; "" if absent. */
typedef struct hs_trace {
    char trace_id[33], parent_id[17];
} hs_trace;
void hs__trace_read(const char *traceparent, hs_trace *ret_trace); /* NULL or malformed: both "" */

/* Returns true if the ETag (with its quotes) is in If-None-Match (may be NULL). Weak comparison, as for GET.
 */
bool hs__etag_matches(const char *if_none_match, const char *etag);

/* Returns true if authorization (may be NULL) is "Bearer <token>" with a token of this list, one on each
 * line. The time depends only on the lengths. */
bool hs__bearer_matches(const char *authorization, const char *tokens);

/* Returns true if host is a name of letters, digits and "._-", an address of IPv4, or one of IPv6 in
 * brackets, followed by nothing or by ":" and a port. */
bool hs__host_valid(const char *host);
/* Returns true if a valid Host, with or without port, must be this machine: localhost, *.localhost, a
 * loopback address in standard notation, or the host of `listen` ("HOST:PORT"). Any other name could be
 * rebound to this machine: names without a dot, too, because resolvers may append a domain. */
bool hs__host_is_local(const char *host, const char *listen);
/* Returns true if the host's name is in the list "a.example,b.example" (may be NULL). */
bool hs__host_is_among(const char *host, const char *names);
/* Returns true if an Origin ("https://a.example:8080") equals the Host (may be NULL). Ignores the scheme,
 * because a proxy may terminate TLS. */
bool hs__origin_is_host(const char *origin, const char *host);
