/* libmicrohttpd_0_9_75.h - strictness that versions of libmicrohttpd before 1.0 do not have.
 *
 * From MHD_VERSION 0x00097701 on, MHD_OPTION_CLIENT_DISCIPLINE_LVL refuses requests with two readings.
 * Nothing here is compiled then. A program built with an older version may still run with a newer one, for
 * both have the same soname: the functions below do nothing then. */
#pragma once

#include "server/http/exchange.h"

#include <stdarg.h>

#define HS_MHD_IS_LENIENT (MHD_VERSION < 0x00097701)

#if HS_MHD_IS_LENIENT
/* Returns true if the library that runs is as old as the one that this program was built with. */
bool hs__mhd_0_9_75_runs(void);

/* Refuses a head with two readings (400) and a body in chunks (411). The parameters are those of the access
 * handler in its first call. Returns true if the request was refused. */
bool hs__mhd_0_9_75_refuses(hs_exchange *exchange, const char *method, const char *target,
                            const char *version);

/* Together these answer in place of the library where its own answer would be damaged: the first is to be
 * called when a request line is read, the others are for MHD_OPTION_UNESCAPE_CALLBACK and
 * MHD_OPTION_EXTERNAL_LOGGER. */
void hs__mhd_0_9_75_open(hs_exchange *exchange, const char *target);
size_t hs__mhd_0_9_75_unescape(void *server, struct MHD_Connection *connection, char *text);
void hs__mhd_0_9_75_log(void *server, const char *format, va_list args) HS_PRINTF(2, 0);
#endif
