/* leniency.h - requests that libmicrohttpd judges itself, or less strictly than this server does. */
#pragma once

#include "server/http/exchange.h"

enum { HS_LENIENCY_OPTIONS = 4 };

/* Writes the options of MHD_start_daemon that this file needs, with MHD_OPTION_END. */
void hs__leniency_options(hs_server *server, struct MHD_OptionItem ret_items[HS_LENIENCY_OPTIONS]);

/* To be called when a request line was read. `target` is the library's string. */
void hs__leniency_opens(hs_exchange *exchange, const char *target);

/* Refuses what the running version reads unsafely: a head with two readings (400), a body in chunks (411).
 * method, target and version are those of libmicrohttpd's access handler. Returns true if it refused. */
bool hs__leniency_refuses(hs_exchange *exchange, const char *method, const char *target, const char *version);

/* Sends requests to a daemon of its own, and fails with HS_UNSUPPORTED if the library that runs does not
 * treat them as this file relies on. */
HS_MUST_USE hs_status hs__leniency_check(hs_error *err);
