/* admission.h - decides by a request's headers, before its body is read, whether to refuse it. */
#pragma once

#include "server/http/exchange.h"

/* Writes the stages' times so far into exchange->stages, in the format of Server-Timing. */
void hs__access_stages(hs_exchange *exchange);

/* Records a request whose answer was sent or will never be sent. */
void hs__access_record(const hs_exchange *exchange);

/* Returns the status that libmicrohttpd answered with by itself, or 0. */
int hs__access_status_of_library(const hs_exchange *exchange);

/* Records a request that libmicrohttpd refused before its headers were read. path is "" if it could not read
 * the request line either. */
void hs__access_record_unread(const hs_connection *connection, const char *path, int status);

/* Limit of a refused request's body that is read and dropped. Reading it lets the client see the refusal
 * instead of a reset connection. */
#define HS_DISCARD_BYTES_MAX ((size_t)16 << 20)

/* Finds exchange->route or refuses the request. method, target and version are those of libmicrohttpd's
 * access handler. Returns true if the connection must be closed after the answer, because the rest of the
 * request is unsafe or too long to read. */
bool hs__admission_refuses(hs_exchange *exchange, const char *method, const char *target,
                           const char *version);

/* Body limit of the exchange's route, and the refusal of a larger body. */
size_t hs__admission_body_max(const hs_exchange *exchange);

void hs__admission_refuse_large(hs_exchange *exchange);
/* Returns true if a body is still to come that should not be read: it is too long, or the client waits for
 * "100 Continue". */
bool hs__admission_body_unwanted(const hs_exchange *exchange);
