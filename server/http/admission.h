/* admission.h - decides by a request's headers, before its body is read, whether to refuse it. */
#pragma once

#include "server/http/exchange.h"

/* Limit of a refused request's body that is read and dropped. Reading it lets the client see the refusal
 * instead of a reset connection. */
#define HS_DISCARD_BYTES_MAX ((size_t)16 << 20)

/* Reads the request's ids, and finds exchange->route or refuses the request. method, target and version are
 * those of libmicrohttpd's access handler. Returns true if the connection must be closed after the answer,
 * because the rest of the request is unsafe or too long to read. */
bool hs__admission_refuses(hs_exchange *exchange, const char *method, const char *target,
                           const char *version);
