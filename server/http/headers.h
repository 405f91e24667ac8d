/* headers.h - what request headers mean: small functions over strings and one look at a whole request. */
#pragma once

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

/* Why these headers could be understood differently by another server on the way (request smuggling), or
 * NULL when they cannot: duplicate Content-Length, Transfer-Encoding together with Content-Length or other
 * than "chunked", none or several Hosts. libmicrohttpd 0.9.75 lets these pass. */
const char *hs__headers_suspicious(struct MHD_Connection *connection, const char *version);

/* A header's value, or NULL. Borrowed from the connection. */
const char *hs__header(struct MHD_Connection *connection, const char *name);

/* 1 to 64 of A-Z a-z 0-9 . _ - : may go into a log line and an answer's header. */
enum { HS_REQUEST_ID_MAX = 64 };
bool hs__request_id_valid(const char *id);
/* 16 random hex digits. */
void hs__request_id_make(char ret_id[HS_REQUEST_ID_MAX + 1]);

/* Does Accept-Encoding (may be NULL) allow gzip? */
bool hs__accepts_gzip(const char *accept_encoding);
/* Is the ETag (with its quotes) among those of If-None-Match (may be NULL)? Weak comparison, as for GET. */
bool hs__etag_matches(const char *if_none_match, const char *etag);

/* Is authorization (may be NULL) "Bearer <token>" with one of the tokens, separated by white space? The time
 * taken depends on the lengths only. */
bool hs__bearer_matches(const char *authorization, const char *tokens);
