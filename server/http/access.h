/* access.h - what became of a request: a line in the log and a step of the counters. */
#pragma once

#include "server/http/exchange.h"

/* The stages' times so far into exchange->stages, as Server-Timing has them. */
void hs__access_stages(hs_exchange *exchange);

/* The answer was sent, or never will be. */
void hs__access_record(const hs_exchange *exchange);
/* One that libmicrohttpd refused; x may be NULL when nobody knows which. */
void hs__access_record_unread(hs_server *server, const hs_exchange *x, int status);
