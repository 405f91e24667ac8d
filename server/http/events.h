/* events.h - answers with server-sent events: some JSON, again whenever it changed. */
#pragma once

#include "server/http/exchange.h"

/* Disk call: returns the JSON of what the id names, which the caller releases. Sets *ret_over if it will not
 * change again. NULL ends the events. */
typedef json_t *hs_event_read(hs_server *server, const char *id, bool *ret_over);

/* Answers with events, at most one in 250 ms and a comment after 15 s without one, until the JSON is over.
 * Refuses if memory is short. Copies id. Loop thread or disk call. */
void hs__events_answer(hs_exchange *exchange, hs_event_read *read, const char *id);
