/* headers.h - what request headers mean: small functions over strings and one look at a whole request. */
#pragma once

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

/* Why this head could be understood differently by another server on the way (request smuggling), or NULL
 * when it cannot: lines that are not exactly "name: value" with CR and LF, duplicate Content-Length,
 * Transfer-Encoding together with Content-Length or other than "chunked", none or several Hosts.
 * libmicrohttpd 0.9.75 lets these pass. method and version are its own, as given with the headers. */
const char *hs__headers_suspicious(struct MHD_Connection *connection, const char *method,
                                   const char *version);

/* A header's value, or NULL. Borrowed from the connection. */
const char *hs__header(struct MHD_Connection *connection, const char *name);

/* 1 to 64 of A-Z a-z 0-9 . _ - : may go into a log line and an answer's header. */
enum { HS_REQUEST_ID_MAX = 64 };
bool hs__request_id_valid(const char *id);

/* W3C Trace Context: the trace that a request belongs to, and the span that sent it. "" where there is none.
 */
typedef struct hs_trace {
    char trace_id[33], parent_id[17];
} hs_trace;
void hs__trace_read(const char *traceparent, hs_trace *ret_trace); /* NULL and nonsense: none */

/* Is the ETag (with its quotes) among those of If-None-Match (may be NULL)? Weak comparison, as for GET. */
bool hs__etag_matches(const char *if_none_match, const char *etag);

/* Is authorization (may be NULL) "Bearer <token>" with one of the tokens, a line each? The time taken depends
 * on the lengths only. */
bool hs__bearer_matches(const char *authorization, const char *tokens);

/* Can a Host, with a port or without, only be this machine's? "localhost" and what ends in ".localhost",
 * 127.x.x.x and [::1], and names without a dot, for those are no public names that somebody could rebind. */
bool hs__host_is_local(const char *host);
/* Is its name among "a.example,b.example" (may be NULL)? */
bool hs__host_is_among(const char *host, const char *names);
/* Is an Origin ("https://a.example:8080") the very Host (may be NULL) that was asked? Its scheme does not
 * matter: a proxy before us may speak TLS. */
bool hs__origin_is_host(const char *origin, const char *host);
