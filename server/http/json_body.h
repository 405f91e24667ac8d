/* json_body.h - reads a request body that is a JSON object with one string. */
#pragma once

#include "server/http/exchange.h"

/* Reads {"<field>": "..."}, a text without NUL characters, from a body of at most bytes_max bytes. `expected`
 * says what to send, for messages. Returns NULL if it refused the exchange; else the caller releases the
 * object with json_decref. */
json_t *hs__json_body_read(hs_exchange *x, const char *field, size_t bytes_max, const char *expected);
